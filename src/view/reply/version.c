/* version.c: which lockstep this is, and what was left out when it was built. */
#include "io/json.h"
#include "lockstep/catalogue.h"

static void version_print_text(const char *commit, FILE *out) {
	fprintf(out, "lockstep %s (data of %s)\n", lk_version(), lk_data_date());
	if (commit) fprintf(out, "commit %s\n", commit);
	const lk_feature *feature;
	for (int i = 0; (feature = lk_feature_at(i)); i++)
		fprintf(out, "%-7s %-5s %s\n", feature->here ? "with" : "without", feature->name,
		        feature->what);
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
	const lk_feature *feature;
	for (int i = 0; (feature = lk_feature_at(i)); i++)
		lk_json_put_bool(&w, feature->name, feature->here);
	lk_json_object_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
