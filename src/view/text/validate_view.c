/* validate_view.c: a validation as text, Markdown, CSV, JSON, JSON lines or SQLite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "lockstep/validate.h"
#include "view/table/fields.h"
#include "view/text/views.h"

enum { WORST = 10 };

/* ---- fields ---- */

#define SCORE(member) LK_AT(lk_accuracy, member)
#define ROW(member)   LK_AT(lk_validated, member)

/* A fraction as a percentage with its sign. */
static char *show_signed(double fraction, char *out, size_t size) {
	snprintf(out, size, "%+.1f %%", 100 * fraction);
	return out;
}

/* The rows of a group carry its name; the summary has none. */
static bool is_group(const lk_subject *subject) {
	return subject->record != &((const lk_validation *)subject->answer)->summary;
}

static void find_group_name(const lk_subject *subject, lk_field_value *found) {
	const lk_accuracy *accuracy = subject->record;
	found->text = strcmp(accuracy->by, accuracy->name) == 0 ? "" : accuracy->name;
}

static const lk_answer_field score_fields[] = {
	{"name", "", LK_FIELD_TEXT, .get = find_group_name, .column = true},
	{"by", "by", SCORE(by), .when = is_group},
	{"name", NULL, SCORE(name), .when = is_group},
	{"rows", "rows", SCORE(rows)},
	{"predicted", "predicted", SCORE(predicted), .hidden = true},
	{"skipped", "skipped", SCORE(skipped)},
	{"suspect", "suspect", SCORE(suspect), .hidden = true},
	{"scored", "scored", SCORE(scored)},
	{"geomean_error", "error", SCORE(geomean_error), .known = LK_MAYBE, .shown = lk_percent},
	{"macro_geomean_error", "macro error", SCORE(macro_geomean_error), .known = LK_MAYBE,
     .shown = lk_percent, .hidden = true},
	{"mape", "mape", SCORE(mape), .known = LK_MAYBE, .shown = lk_percent},
	{"median_error", "median", SCORE(median_error), .known = LK_MAYBE, .shown = lk_percent},
	{"p90_error", "p90", SCORE(p90_error), .known = LK_MAYBE, .shown = lk_percent},
	{"bias", "bias", SCORE(bias), .known = LK_MAYBE, .shown = show_signed},
	{"kendall_tau", "tau", SCORE(kendall_tau), .known = LK_MAYBE, .shown = lk_hundredths},
	{"mean_top1_regret", "regret", SCORE(mean_top1_regret), .known = LK_MAYBE, .shown = lk_percent},
	{"coverage", "in range", SCORE(coverage), .known = LK_MAYBE, .shown = lk_percent},
	{"rank_groups", "groups", SCORE(rank_groups), .hidden = true},
	{"within_5", "in 5 %", SCORE(within_5), .known = LK_MAYBE, .shown = lk_percent},
	{"weighted_error", "weighted", SCORE(weighted_error), .known = LK_MAYBE, .shown = lk_percent},
	{"half_width", "range +/-", SCORE(half_width), .known = LK_MAYBE, .shown = lk_percent},
	{"scaling_error", "scaling", SCORE(scaling_error), .known = LK_MAYBE, .shown = lk_percent},
	{"series", "series", SCORE(series), .hidden = true},
	{"parameters", "fitted", SCORE(parameters), .hidden = true},
};
static const lk_answer_record score_record = {
	.name = "Score",
	.python = "Accuracy",
	.what = "How well a set of rows was predicted; errors are shares.",
	LK_RECORD(lk_accuracy, score_fields)};

/* A value in the unit of its row, for people. */
static void find_value(double value, const lk_validated *row, lk_field_value *found) {
	found->number = value;
	if (isnan(value)) return;
	if (strcmp(row->unit, "s") == 0) lk_format_seconds(value, found->shown, sizeof found->shown);
	else if (strcmp(row->unit, "bytes") == 0)
		lk_format_bytes(value, found->shown, sizeof found->shown);
	else snprintf(found->shown, sizeof found->shown, "%.4g %.16s", value, row->unit);
}

static void find_predicted(const lk_subject *subject, lk_field_value *found) {
	const lk_validated *row = subject->record;
	find_value(row->predicted, row, found);
}

static void find_measured(const lk_subject *subject, lk_field_value *found) {
	const lk_validated *row = subject->record;
	find_value(row->measured, row, found);
}

static void find_low(const lk_subject *subject, lk_field_value *found) {
	const lk_validated *row = subject->record;
	find_value(row->low, row, found);
}

static void find_high(const lk_subject *subject, lk_field_value *found) {
	const lk_validated *row = subject->record;
	find_value(row->high, row, found);
}

static void find_gpus(const lk_subject *subject, lk_field_value *found) {
	int gpus = ((const lk_validated *)subject->record)->gpus;
	if (gpus > 0) found->number = gpus;
}

static const lk_answer_field row_fields[] = {
	{"id", "id", ROW(id)},
	{"predicted", "predicted", LK_FIELD_REAL, .get = find_predicted, .known = LK_MAYBE},
	{"measured", "measured", LK_FIELD_REAL, .get = find_measured, .known = LK_MAYBE},
	{"unit", "unit", ROW(unit), .known = LK_MAYBE, .hidden = true},
	{"error", "error", ROW(error), .known = LK_MAYBE, .shown = show_signed},
	{"low", "low", LK_FIELD_REAL, .get = find_low, .known = LK_MAYBE, .hidden = true},
	{"high", "high", LK_FIELD_REAL, .get = find_high, .known = LK_MAYBE, .hidden = true},
	{"reason", "remark", ROW(reason), .known = LK_MAYBE},
	{"scored", "scored", ROW(scored), .hidden = true},
	{"part", "part", ROW(part), .known = LK_MAYBE, .hidden = true},
	{"stack", "stack", ROW(stack), .known = LK_MAYBE},
	{"release", "release", ROW(release), .known = LK_MAYBE, .hidden = true},
	{"model", "model", ROW(model), .known = LK_MAYBE},
	{"gpu", "GPU", ROW(gpu), .known = LK_MAYBE},
	{"gpus", "GPUs", LK_FIELD_INT, .get = find_gpus, .column = true},
	{"gpus", NULL, ROW(gpus), .known = LK_MAYBE},
	{"layout", "layout", ROW(layout), .known = LK_MAYBE},
	{"precision", "precision", ROW(precision), .known = LK_MAYBE},
};
static const lk_answer_record row_record = {LK_RECORD(lk_validated, row_fields)};

static const lk_answer_field validation_fields[] = {
	{"summary", NULL, LK_INSIDE(lk_validation, summary, score_record)},
	{"groups", NULL, LK_MANY(lk_validation, groups, group_count, score_record)},
	{"baselines", NULL, LK_MANY(lk_validation, baselines, baseline_count, score_record)},
	{"folds", NULL, LK_AT(lk_validation, folds), .known = LK_MAYBE},
	{"rows", NULL, LK_MANY(lk_validation, rows, row_count, row_record)},
	{"command", NULL, LK_AT(lk_validation, reproduce)},
};
static const lk_answer_record validation_record = {.python = "Validation",
                                                   .what = "Predictions against measurements.",
                                                   LK_RECORD(lk_validation, validation_fields)};
const lk_document lk_validate_document = {"validate", "`validate -o json`", &validation_record,
                                          offsetof(lk_validation, failed_check), NULL};

/* ---- tables ---- */

static const char *const summary_keys[] = {"by",
                                           "name",
                                           "rows",
                                           "predicted",
                                           "skipped",
                                           "suspect",
                                           "scored",
                                           "geomean_error",
                                           "macro_geomean_error",
                                           "mape",
                                           "median_error",
                                           "p90_error",
                                           "bias",
                                           "kendall_tau",
                                           "mean_top1_regret",
                                           "coverage",
                                           "rank_groups",
                                           "within_5",
                                           "weighted_error",
                                           "half_width",
                                           "scaling_error",
                                           "series",
                                           "parameters",
                                           NULL};
static const lk_columns summary_columns = {"validate_summary", &score_record, .keys = summary_keys};

static void put_scores(lk_table *table, const lk_validation *validation, const lk_accuracy *scores,
                       int count) {
	for (int i = 0; i < count; i++)
		lk_fields_row(table, &summary_columns, &(lk_subject){validation, &scores[i], i, NULL});
}

static lk_table *summary_table(const lk_validation *validation) {
	lk_table *table = lk_fields_table(&summary_columns);
	put_scores(table, validation, &validation->summary, 1);
	put_scores(table, validation, validation->groups, validation->group_count);
	put_scores(table, validation, validation->baselines, validation->baseline_count);
	return table;
}

static const char *const row_keys[] = {
	"id",       "stack", "release", "model", "gpu",  "gpus",   "layout", "precision", "predicted",
	"measured", "unit",  "error",   "low",   "high", "scored", "part",   "reason",    NULL};

typedef bool keep_fn(const lk_validated *row);

static bool keep_all(const lk_validated *row) {
	(void)row;
	return true;
}

static bool keep_unscored(const lk_validated *row) {
	return !row->scored;
}

static lk_table *row_table(const lk_validation *validation, keep_fn *keep) {
	static const lk_columns columns = {"validate_rows", &row_record, .keys = row_keys};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < validation->row_count; i++)
		if (keep(&validation->rows[i]))
			lk_fields_row(table, &columns,
			              &(lk_subject){validation, &validation->rows[i], i, NULL});
	return table;
}

static int by_distance(const void *a, const void *b) {
	const lk_validated *x = *(const lk_validated *const *)a, *y = *(const lk_validated *const *)b;
	double dx = fabs(log1p(x->error)), dy = fabs(log1p(y->error));
	if (dx != dy) return dx < dy ? 1 : -1;
	return x->row - y->row;
}

/* The scored rows with the largest errors. */
static lk_table *worst_table(const lk_validation *validation) {
	static const lk_columns columns = {"validate_worst", &row_record, .keys = row_keys};
	lk_table *table = lk_fields_table(&columns);
	const lk_validated **rows = malloc((size_t)(validation->row_count + 1) * sizeof *rows);
	int count = 0;
	if (!table || !rows) {
		lk_table_free(table);
		free(rows);
		return NULL;
	}
	for (int i = 0; i < validation->row_count; i++)
		if (validation->rows[i].scored) rows[count++] = &validation->rows[i];
	LK_ASSERT(count <= validation->row_count);
	lk_sort(rows, (size_t)count, sizeof *rows, by_distance);
	for (int i = 0; i < count && i < WORST; i++)
		lk_fields_row(table, &columns, &(lk_subject){validation, rows[i], i, NULL});
	free(rows);
	return table;
}

/* ---- for people ---- */

/* A heading and a table without its empty columns; nothing where the table has no rows. Frees the
 * table. */
static lk_status put_section(const char *heading, lk_table *table, lk_format format, bool colour,
                             FILE *out, lk_error *err) {
	if (!table) return lk_oom(err);
	lk_status status = LK_OK;
	lk_table_hide_empty(table);
	if (lk_table_shows(table)) {
		fprintf(out, format == LK_FORMAT_MD ? "\n## %s\n\n" : "\n%s\n", heading);
		status = lk_table_write(table, format, colour, out, err);
	}
	lk_table_free(table);
	return status;
}

static void validate_view_put_head(const lk_validation *validation, FILE *out) {
	const lk_accuracy *accuracy = &validation->summary;
	char source[200];
	fprintf(out,
	        "%d %s of %s: %d predicted, %d skipped, %d scored (%d suspect rows are listed, not "
	        "scored)\n",
	        accuracy->rows, lk_noun(accuracy->rows, "row", "rows"),
	        lk_escape(validation->source, source, sizeof source), accuracy->predicted,
	        accuracy->skipped, accuracy->scored, accuracy->suspect);
	if (isfinite(accuracy->geomean_error))
		fprintf(out, "error %.1f %% (exp(mean |ln(predicted / measured)|) - 1)",
		        100 * accuracy->geomean_error);
	if (isfinite(accuracy->macro_geomean_error))
		fprintf(out, ", mean over stacks with 10 rows or more %.1f %%",
		        100 * accuracy->macro_geomean_error);
	if (isfinite(accuracy->geomean_error)) fputc('\n', out);
	if (*validation->folds)
		fprintf(out, "cross-validated: each %s is predicted from fits without its %s\n",
		        validation->unit_of_rows, validation->folds);
}

static lk_status print_people(const lk_validation *validation, lk_format format, bool colour,
                              FILE *out, lk_error *err) {
	validate_view_put_head(validation, out);
	LK_TRY(put_section("In sum and in parts", summary_table(validation), format, colour, out, err));
	if (validation->all_rows) {
		LK_TRY(put_section("Rows", row_table(validation, keep_all), format, colour, out, err));
	} else {
		LK_TRY(put_section("Farthest off", worst_table(validation), format, colour, out, err));
		LK_TRY(put_section("Not scored", row_table(validation, keep_unscored), format, colour, out,
		                   err));
	}
	char command[512];
	fprintf(out, "\n%s%s%s\n", format == LK_FORMAT_MD ? "    " : "",
	        lk_escape(validation->reproduce, command, sizeof command), "");
	return LK_OK;
}

/* ---- for machines ---- */

lk_status lk_validate_print(const lk_validation *validation, int format, bool colour, FILE *out,
                            lk_error *err) {
	lk_writing writing = {.format = format, .out = out};
	if (format == LK_FORMAT_JSON)
		return lk_write_document(&writing, &lk_validate_document, validation, err);
	if (format == LK_FORMAT_TEXT || format == LK_FORMAT_MD) {
		LK_TRY(print_people(validation, (lk_format)format, colour, out, err));
		if (fflush(out) == 0 && !ferror(out)) return LK_OK;
		return lk_fail(err, LK_ERR_IO, "validate", "the output could not be written");
	}
	lk_table *table = row_table(validation, keep_all);
	lk_status status =
		table ? lk_table_write(table, (lk_format)format, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

lk_status lk_validate_sqlite(const lk_validation *validation, const char *path, lk_error *err) {
	lk_table *summary = summary_table(validation), *rows = row_table(validation, keep_all);
	lk_writing writing = {.format = LK_FORMAT_SQLITE, .path = path};
	return lk_write_database(&writing, (lk_table *[]){summary, rows}, 2, err);
}

struct saved {
	const lk_validation *validation;
	int format;
};

static lk_status validate_view_write(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct saved *saved = what;
	return lk_validate_print(saved->validation, saved->format, colour, out, err);
}

lk_status lk_validate_save(const lk_validation *validation, int format, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct saved s = {validation, format};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_VALIDATE_SQLITE) return lk_validate_sqlite(validation, path, err);
	return lk_write_through(&w, validate_view_write, &s, err);
}

_Static_assert((int)LK_VALIDATE_TEXT == LK_FORMAT_TEXT &&
                   (int)LK_VALIDATE_SQLITE == LK_FORMAT_SQLITE,
               "public formats are those of tables");
