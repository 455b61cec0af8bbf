/* version_view.c: which lockstep this is, and what was left out when it was built. */
#include "lockstep/catalogue.h"

#include "view/text/views.h"

static void version_print_text(const char *commit, FILE *out) {
	fprintf(out, "lockstep %s (data of %s)\n", lk_version(), lk_data_date());
	if (commit) fprintf(out, "commit %s\n", commit);
	const lk_feature *feature;
	for (int i = 0; (feature = lk_feature_at(i)); i++)
		fprintf(out, "%-7s %-5s %s\n", feature->here ? "with" : "without", feature->name,
		        feature->what);
}

/* ---- fields ---- */

struct version {
	const char *commit, *failed_check;
};

static void put_features(lk_json_writer *writer, const lk_subject *subject) {
	const lk_feature *feature;
	(void)subject;
	for (int i = 0; (feature = lk_feature_at(i)); i++)
		lk_json_put_bool(writer, feature->name, feature->here);
}

static const lk_answer_field version_fields[] = {
	{"commit", NULL, LK_AT(struct version, commit), .known = LK_MAYBE},
	{"features", NULL, LK_FIELD_MAP, .put = put_features, .type = "bool"},
};
static const lk_answer_record version_record = {LK_RECORD(struct version, version_fields)};
const lk_document lk_version_document = {"version", "`--version -o json`", &version_record,
                                         offsetof(struct version, failed_check), NULL};

lk_status lk_version_print(const char *commit, bool json, FILE *out, lk_error *err) {
	const lk_writing writing = {LK_FORMAT_JSON, false, false, NULL, out};
	if (json)
		return lk_write_document(&writing, &lk_version_document, &(struct version){commit, NULL},
		                         err);
	version_print_text(commit, out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, NULL, "cannot write the version") : LK_OK;
}
