/* predict_sweep.c: what a sweep asked and which row is best; and the way from the public functions
 * to the formats. */
#include <string.h>

#include "base/arena.h"
#include "view/text/views.h"

_Static_assert((int)LK_OUTPUT_TEXT == (int)LK_FORMAT_TEXT &&
                   (int)LK_OUTPUT_MD == (int)LK_FORMAT_MD &&
                   (int)LK_OUTPUT_CSV == (int)LK_FORMAT_CSV &&
                   (int)LK_OUTPUT_JSON == (int)LK_FORMAT_JSON &&
                   (int)LK_OUTPUT_JSONL == (int)LK_FORMAT_JSONL &&
                   (int)LK_OUTPUT_SQLITE == (int)LK_FORMAT_SQLITE,
               "the public numbers of the formats are those of table.h");

enum { VALUE = 256 };

/* ---- what was requested ---- */

static bool varies(const lk_sweep *sweep, const lk_option *option) {
	const lk_predict_request *first = NULL;
	char a[VALUE], b[VALUE];
	for (size_t i = 0; i < sweep->count; i++) {
		const lk_predict_request *request = sweep->rows[i].request;
		if (!request) continue;
		if (!first) lk_option_text(option, first = request, a, sizeof a);
		else if (strcmp(a, lk_option_text(option, request, b, sizeof b)) != 0) return true;
	}
	return false;
}

void lk_sweep_varying(lk_sweep *sweep) {
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (!option->sweep || sweep->varying_count == LK_SWEEP_OPTIONS || !varies(sweep, option))
			continue;
		sweep->varying[sweep->varying_count++] = option;
	}
}

/* ---- formats ---- */

static lk_status write_one(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_sweep *sweep = what;
	return lk_write_report(&sweep->rows[0], sweep->verbose, colour, out, err);
}

static bool sweep_varies(const lk_sweep *sweep, const char *key) {
	for (int i = 0; i < sweep->varying_count; i++)
		if (strcmp(sweep->varying[i]->name, key) == 0) return true;
	return false;
}

/* The table as wide as a page; what was swept has its column. */
static lk_status sweep_put_rows(const lk_sweep *sweep, bool colour, FILE *out, lk_error *err) {
	/* what people miss least, first */
	static const char *const extras[] = {
		"dtype",     "recompute", "seq",          "mbs",       "gbs",      "dp",           "pp",
		"tp",        "cp",        "ep",           "vp",        "schedule", "usable_bytes", "model",
		"carbon_kg", "power_usd", "training_kwh", "gpu_hours", NULL};
	const char *left[sizeof extras / sizeof *extras];
	int count = 0;
	for (int i = 0; extras[i]; i++)
		if (!sweep_varies(sweep, extras[i])) left[count++] = extras[i];
	left[count] = NULL;
	return lk_put_fitted(lk_sweep_table(sweep), left, sweep->verbose ? NULL : "-v", colour, out,
	                     err);
}

static lk_status sweep_put_notes(const lk_sweep_notes *notes, FILE *out, lk_error *err) {
	if (notes->failed) return lk_oom(err);
	if (notes->texts.count) fputc('\n', out);
	for (size_t i = 0; i < notes->texts.count; i++) {
		int indent = fprintf(out, "note %zu  ", i + 1);
		LK_TRY(lk_put_wrapped(notes->texts.at[i], indent, indent, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status sweep_write_rows(const void *what, bool colour, FILE *out, lk_error *err) {
	lk_sweep_notes notes = {0};
	lk_sweep sweep = *(const lk_sweep *)what;
	if (!sweep.verbose) sweep.notes = &notes;
	lk_status status = sweep_put_rows(&sweep, colour, out, err);
	long best = lk_sweep_best(&sweep);
	if (status == LK_OK) status = sweep_put_notes(&notes, out, err);
	if (status == LK_OK && best >= 0)
		fprintf(out, "\n* most %ss/s/GPU of those that fit\n", lk_sweep_unit(&sweep, best));
	lk_vec_free(&notes.texts);
	lk_arena_free(&notes.arena);
	return status;
}

lk_status lk_sweep_print(const lk_sweep_row *rows, size_t count, int format, bool verbose,
                         bool colour, const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_sweep sweep = {
		.rows = rows, .count = count, .verbose = verbose, .compact = format == LK_FORMAT_JSONL};
	LK_TRY(lk_writing_check(&w, err));
	lk_sweep_varying(&sweep);
	if (format == LK_FORMAT_TEXT)
		return lk_write_through(&w, count == 1 ? write_one : sweep_write_rows, &sweep, err);
	if (format == LK_FORMAT_JSON || format == LK_FORMAT_JSONL)
		return lk_write_through(&w, lk_write_sweep_json, &sweep, err);
	return lk_write_table(&w, lk_sweep_table(&sweep), err);
}

lk_status lk_predict_print(const lk_prediction *const *predictions, size_t count, int format,
                           bool verbose, bool colour, const char *path, FILE *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_sweep_row *rows = LK_ARRAY(&arena, lk_sweep_row, count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < count; i++) rows[i].prediction = predictions[i];
	lk_status status = lk_sweep_print(rows, count, format, verbose, colour, path, out, err);
	lk_arena_free(&arena);
	return status;
}
