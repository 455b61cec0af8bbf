/* validate_view.c: a validation as text, Markdown, CSV, JSON, JSON lines or SQLite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "lockstep/validate.h"
#include "view/table/table.h"
#include "view/text/views.h"

enum { WORST = 10, CELL = 64 };

/* ---- cells ---- */

/* A fraction as a percentage for people. */
static void validate_view_put_percent(lk_table *table, double fraction, bool sign) {
	char shown[CELL];
	snprintf(shown, sizeof shown, sign ? "%+.1f %%" : "%.1f %%", 100 * fraction);
	lk_table_number(table, fraction, shown);
}

static void validate_view_put_value(lk_table *table, double value, const char *unit) {
	char shown[CELL];
	if (strcmp(unit, "s") == 0) lk_format_seconds(value, shown, sizeof shown);
	else if (strcmp(unit, "bytes") == 0) lk_format_bytes(value, shown, sizeof shown);
	else snprintf(shown, sizeof shown, "%.4g %.16s", value, unit);
	lk_table_number(table, value, shown);
}

static void validate_view_put_plain(lk_table *table, double value) {
	char shown[CELL];
	snprintf(shown, sizeof shown, "%.2f", value);
	lk_table_number(table, value, shown);
}

/* ---- tables ---- */

static const lk_column summary_columns[] = {
	{"by", "by", false, false},
	{"name", "", false, false},
	{"rows", "rows", true, false},
	{"predicted", "predicted", true, true},
	{"skipped", "skipped", true, false},
	{"suspect", "suspect", true, true},
	{"scored", "scored", true, false},
	{"geomean_error", "error", true, false},
	{"macro_geomean_error", "macro error", true, true},
	{"mape", "mape", true, false},
	{"median_error", "median", true, false},
	{"p90_error", "p90", true, false},
	{"bias", "bias", true, false},
	{"kendall_tau", "tau", true, false},
	{"mean_top1_regret", "regret", true, false},
	{"coverage", "in range", true, false},
	{"rank_groups", "groups", true, true},
	{"within_5", "in 5 %", true, false},
	{"weighted_error", "weighted", true, false},
	{"half_width", "range +/-", true, false},
	{"scaling_error", "scaling", true, false},
	{"series", "series", true, true},
	{"parameters", "fitted", true, true},
};

static void validate_view_put_accuracy(lk_table *table, const lk_accuracy *accuracy) {
	lk_table_row(table);
	lk_table_text(table, accuracy->by);
	lk_table_text(table, strcmp(accuracy->by, accuracy->name) == 0 ? "" : accuracy->name);
	lk_table_number(table, accuracy->rows, NULL);
	lk_table_number(table, accuracy->predicted, NULL);
	lk_table_number(table, accuracy->skipped, NULL);
	lk_table_number(table, accuracy->suspect, NULL);
	lk_table_number(table, accuracy->scored, NULL);
	validate_view_put_percent(table, accuracy->geomean_error, false);
	validate_view_put_percent(table, accuracy->macro_geomean_error, false);
	validate_view_put_percent(table, accuracy->mape, false);
	validate_view_put_percent(table, accuracy->median_error, false);
	validate_view_put_percent(table, accuracy->p90_error, false);
	validate_view_put_percent(table, accuracy->bias, true);
	validate_view_put_plain(table, accuracy->kendall_tau);
	validate_view_put_percent(table, accuracy->mean_top1_regret, false);
	validate_view_put_percent(table, accuracy->coverage, false);
	lk_table_number(table, accuracy->rank_groups, NULL);
	validate_view_put_percent(table, accuracy->within_5, false);
	validate_view_put_percent(table, accuracy->weighted_error, false);
	validate_view_put_percent(table, accuracy->half_width, false);
	validate_view_put_percent(table, accuracy->scaling_error, false);
	lk_table_number(table, accuracy->series, NULL);
	lk_table_number(table, accuracy->parameters, NULL);
}

static lk_table *summary_table(const lk_validation *validation) {
	lk_table *table = lk_table_new("validate_summary", summary_columns,
	                               sizeof summary_columns / sizeof *summary_columns);
	if (!table) return NULL;
	validate_view_put_accuracy(table, &validation->summary);
	for (int i = 0; i < validation->group_count; i++)
		validate_view_put_accuracy(table, &validation->groups[i]);
	for (int i = 0; i < validation->baseline_count; i++)
		validate_view_put_accuracy(table, &validation->baselines[i]);
	return table;
}

static const lk_column row_columns[] = {
	{"id", "id", false, false},
	{"stack", "stack", false, false},
	{"release", "release", false, true},
	{"model", "model", false, false},
	{"gpu", "GPU", false, false},
	{"gpus", "GPUs", true, false},
	{"layout", "layout", false, false},
	{"precision", "precision", false, false},
	{"predicted", "predicted", true, false},
	{"measured", "measured", true, false},
	{"unit", "unit", false, true},
	{"error", "error", true, false},
	{"low", "low", true, true},
	{"high", "high", true, true},
	{"scored", "scored", false, true},
	{"part", "part", false, true},
	{"reason", "remark", false, false},
};

static void validate_view_put_row(lk_table *table, const lk_validated *row) {
	lk_table_row(table);
	lk_table_text(table, row->id);
	lk_table_text(table, row->stack);
	lk_table_text(table, row->release);
	lk_table_text(table, row->model);
	lk_table_text(table, row->gpu);
	lk_table_number(table, row->gpus > 0 ? row->gpus : NAN, NULL);
	lk_table_text(table, row->layout);
	lk_table_text(table, row->precision);
	validate_view_put_value(table, row->predicted, row->unit);
	validate_view_put_value(table, row->measured, row->unit);
	lk_table_text(table, row->unit);
	validate_view_put_percent(table, row->error, true);
	validate_view_put_value(table, row->low, row->unit);
	validate_view_put_value(table, row->high, row->unit);
	lk_table_bool(table, row->scored);
	lk_table_text(table, row->part);
	lk_table_text(table, row->reason);
}

typedef bool keep_fn(const lk_validated *row);

static bool keep_all(const lk_validated *row) {
	(void)row;
	return true;
}

static bool keep_unscored(const lk_validated *row) {
	return !row->scored;
}

static lk_table *row_table(const lk_validation *validation, keep_fn *keep) {
	lk_table *table =
		lk_table_new("validate_rows", row_columns, sizeof row_columns / sizeof *row_columns);
	for (int i = 0; table && i < validation->row_count; i++)
		if (keep(&validation->rows[i])) validate_view_put_row(table, &validation->rows[i]);
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
	lk_table *table =
		lk_table_new("validate_worst", row_columns, sizeof row_columns / sizeof *row_columns);
	const lk_validated **rows = malloc((size_t)(validation->row_count + 1) * sizeof *rows);
	int count = 0;
	if (!table || !rows) {
		lk_table_free(table);
		free(rows);
		return NULL;
	}
	for (int i = 0; i < validation->row_count; i++)
		if (validation->rows[i].scored) rows[count++] = &validation->rows[i];
	lk_sort(rows, (size_t)count, sizeof *rows, by_distance);
	for (int i = 0; i < count && i < WORST; i++) validate_view_put_row(table, rows[i]);
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
		fprintf(out, "\n%s%s\n%s", format == LK_FORMAT_MD ? "## " : "", heading,
		        format == LK_FORMAT_MD ? "\n" : "");
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

static void json_accuracy(lk_json_writer *writer, const char *key, const lk_accuracy *accuracy,
                          bool named) {
	lk_json_object(writer, key);
	if (named) {
		lk_json_put_text(writer, "by", accuracy->by);
		lk_json_put_text(writer, "name", accuracy->name);
	}
	lk_json_put_integer(writer, "rows", accuracy->rows);
	lk_json_put_integer(writer, "predicted", accuracy->predicted);
	lk_json_put_integer(writer, "skipped", accuracy->skipped);
	lk_json_put_integer(writer, "suspect", accuracy->suspect);
	lk_json_put_integer(writer, "scored", accuracy->scored);
	lk_json_put_number(writer, "geomean_error", accuracy->geomean_error);
	lk_json_put_number(writer, "macro_geomean_error", accuracy->macro_geomean_error);
	lk_json_put_number(writer, "mape", accuracy->mape);
	lk_json_put_number(writer, "median_error", accuracy->median_error);
	lk_json_put_number(writer, "p90_error", accuracy->p90_error);
	lk_json_put_number(writer, "bias", accuracy->bias);
	lk_json_put_number(writer, "kendall_tau", accuracy->kendall_tau);
	lk_json_put_number(writer, "mean_top1_regret", accuracy->mean_top1_regret);
	lk_json_put_number(writer, "coverage", accuracy->coverage);
	lk_json_put_integer(writer, "rank_groups", accuracy->rank_groups);
	lk_json_put_number(writer, "within_5", accuracy->within_5);
	lk_json_put_number(writer, "weighted_error", accuracy->weighted_error);
	lk_json_put_number(writer, "half_width", accuracy->half_width);
	lk_json_put_number(writer, "scaling_error", accuracy->scaling_error);
	lk_json_put_integer(writer, "series", accuracy->series);
	lk_json_put_integer(writer, "parameters", accuracy->parameters);
	lk_json_object_end(writer);
}

static void json_row(lk_json_writer *writer, const lk_validated *row) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "id", row->id);
	lk_json_put_number(writer, "predicted", row->predicted);
	lk_json_put_number(writer, "measured", row->measured);
	lk_json_put_text(writer, "unit", row->unit);
	lk_json_put_number(writer, "error", row->error);
	lk_json_put_number(writer, "low", row->low);
	lk_json_put_number(writer, "high", row->high);
	lk_json_put_text(writer, "reason", row->reason);
	lk_json_put_bool(writer, "scored", row->scored);
	lk_json_put_text(writer, "part", row->part);
	lk_json_put_text(writer, "stack", row->stack);
	lk_json_put_text(writer, "release", row->release);
	lk_json_put_text(writer, "model", row->model);
	lk_json_put_text(writer, "gpu", row->gpu);
	lk_json_put_integer(writer, "gpus", row->gpus);
	lk_json_put_text(writer, "layout", row->layout);
	lk_json_put_text(writer, "precision", row->precision);
	lk_json_object_end(writer);
}

static lk_status validate_view_print_json(const lk_validation *validation, FILE *out,
                                          lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/validate/1", validation->failed_check);
	json_accuracy(&w, "summary", &validation->summary, false);
	lk_json_array(&w, "groups");
	for (int i = 0; i < validation->group_count; i++)
		json_accuracy(&w, NULL, &validation->groups[i], true);
	lk_json_array_end(&w);
	lk_json_array(&w, "baselines");
	for (int i = 0; i < validation->baseline_count; i++)
		json_accuracy(&w, NULL, &validation->baselines[i], true);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "folds", validation->folds);
	lk_json_array(&w, "rows");
	for (int i = 0; i < validation->row_count; i++) json_row(&w, &validation->rows[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "command", validation->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_validate_print(const lk_validation *validation, int format, bool colour, FILE *out,
                            lk_error *err) {
	if (format == LK_FORMAT_JSON) return validate_view_print_json(validation, out, err);
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
