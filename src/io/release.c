/* release.c: the version of lockstep and the date of its data, and their members in a JSON
 * answer. */
#include "io/embedded.h"
#include "io/json.h"
#include "lockstep/catalogue.h"

#ifndef LOCKSTEP_VERSION
#define LOCKSTEP_VERSION "unknown"
#endif

const char *lk_version(void) {
	return LOCKSTEP_VERSION;
}

const char *lk_data_date(void) {
	/* The file holds ten characters without a line end. */
	const char *date = lk_data_file("DATE", NULL);
	return date ? date : "undated";
}

/* A row for each flag of the Makefile that leaves something out. */
#ifdef LK_ISAL
#define HERE_ISAL true
#else
#define HERE_ISAL false
#endif
#ifdef LK_MPI
#define HERE_MPI true
#else
#define HERE_MPI false
#endif

static const lk_feature features[] = {
	{"isal", HERE_ISAL, "gzip unpacked by ISA-L; else by zlib, three times as slow"},
	{"mpi", HERE_MPI, "lockstep-mpi: plan, sweeps and validate over an MPI cluster"},
};
enum { FEATURES = sizeof features / sizeof *features };

const lk_feature *lk_feature_at(int index) {
	return index >= 0 && index < FEATURES ? &features[index] : NULL;
}

void lk_json_put_head(lk_json_writer *writer, const char *schema, const char *failed_check) {
	lk_json_put_text(writer, "schema", schema);
	lk_json_put_text(writer, "version", lk_version());
	lk_json_put_text(writer, "data_date", lk_data_date());
	if (!failed_check) return;
	lk_json_put_bool(writer, "checked", false);
	lk_json_put_text(writer, "failed_check", failed_check);
}
