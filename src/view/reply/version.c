/* version.c: the version, and the optional features of this build. */
#include "io/json.h"
#include "lockstep/catalogue.h"

/* One row per flag of the Makefile that leaves out a feature. */
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

static void version_print_text(const char *commit, FILE *out) {
	fprintf(out, "lockstep %s (data of %s)\n", lk_version(), lk_data_date());
	if (commit) fprintf(out, "commit %s\n", commit);
	for (int i = 0; i < FEATURES; i++)
		fprintf(out, "%-7s %-5s %s\n", features[i].here ? "with" : "without", features[i].name,
		        features[i].what);
}

lk_status lk_version_print(const char *commit, bool json, FILE *out, lk_error *err) {
	if (!json) {
		version_print_text(commit, out);
		return ferror(out) ? lk_fail(err, LK_ERR_IO, NULL, "cannot write the version") : LK_OK;
	}
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/version/1", NULL);
	lk_json_put_text(&w, "commit", commit);
	lk_json_object(&w, "features");
	for (int i = 0; i < FEATURES; i++) lk_json_put_bool(&w, features[i].name, features[i].here);
	lk_json_object_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
