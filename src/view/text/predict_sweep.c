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

enum {
	VALUE = 256
};

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

/* ---- the best ---- */

/* ---- formats ---- */

static lk_status write_one(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_sweep *sweep = what;
	return lk_write_report(&sweep->rows[0], sweep->verbose, colour, out, err);
}

static lk_status sweep_write_rows(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_sweep *sweep = what;
	lk_table *table = lk_sweep_table(sweep);
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	long best = lk_sweep_best(sweep);
	if (status == LK_OK && best >= 0)
		fprintf(out, "\n* most %ss/s/GPU of those that fit\n", lk_sweep_unit(sweep, best));
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
