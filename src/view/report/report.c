/* report.c: the document of a report and the panels that verbs share; docs/guide/html.md has its
 * form. */
#include "view/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "system/memory.h"
#include "lockstep/catalogue.h"
#include "view/table/table_internal.h"

enum { MOST_RESULT = 4 << 20 }; /* bytes of the answer that are embedded */

/* ---- the frame ---- */

/* The verb's own JSON, as a value. A document that would make the report unwieldy is left out, and
 * the report says so. */
static lk_status report_put_result(lk_report *writer, const lk_report_job *job, bool *left_out,
                                   lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	if (!job->result) {
		lk_json_put_null(writer, "result");
		return LK_OK;
	}
	FILE *file = lk_memory_open(&text, &size);
	if (!file) return lk_oom(err);
	lk_status status = job->result(job->answer, false, file, err);
	/* a stream in memory fails for want of it alone */
	if (!lk_memory_close(file) || status == LK_ERR_IO) status = lk_oom(err);
	*left_out = size > MOST_RESULT;
	if (status == LK_OK && *left_out) lk_json_put_null(writer, "result");
	else if (status == LK_OK) lk_json_put_document(writer, "result", text, size);
	free(text);
	return status;
}

static lk_status write_document(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_report_job *job = what;
	lk_report r;
	bool left_out = false;
	char line[1024];
	(void)colour;
	lk_json_begin(&r, out, true);
	if (!job->panels) {
		lk_json_put_value(&r, NULL, job->answer);
		return lk_json_finish(&r, err);
	}
	lk_json_object(&r, NULL);
	lk_json_put_text(&r, "lockstep", lk_version());
	lk_json_put_text(&r, "data", lk_data_date());
	lk_json_put_text(&r, "verb", job->verb);
	lk_json_put_text(&r, "title", job->title);
	lk_json_put_text(&r, "reproduce", job->reproduce);
	if (job->reproduces) lk_json_put_text(&r, "reproduces", job->reproduces);
	lk_report_inputs(&r, job->inputs);
	lk_json_array(&r, "panels");
	LK_TRY(job->panels(job->answer, &r, err));
	lk_json_array_end(&r);
	lk_json_array(&r, "assumptions");
	if (job->assumptions) job->assumptions(job->answer, &r);
	lk_json_array_end(&r);
	LK_TRY(report_put_result(&r, job, &left_out, err));
	lk_json_array(&r, "warnings");
	if (job->warnings) job->warnings(job->answer, &r);
	if (job->failed_check)
		lk_report_text(&r, lk_failed_check_text(job->failed_check, line, sizeof line));
	if (left_out)
		lk_report_text(
			&r, "the whole answer is too large to be kept in this report; -o json writes it");
	lk_json_array_end(&r);
	lk_json_object_end(&r);
	return lk_json_finish(&r, err);
}

/* The document in memory, then the page or the picture of it. */
static lk_status report_around(const lk_report_job *job, lk_report_form form, bool png, FILE *out,
                               lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *file = lk_memory_open(&text, &size);
	if (!file) return lk_oom(err);
	lk_status status = write_document(job, false, file, err);
	/* a stream in memory fails for want of it alone */
	if (!lk_memory_close(file) || status == LK_ERR_IO) status = lk_oom(err);
	if (status == LK_OK && form == LK_REPORT_HTML)
		status = lk_report_page(job->title, text, size, out, err);
	else if (status == LK_OK) status = lk_picture_write(text, size, png, out, err);
	free(text);
	return status;
}

static lk_status write_html(const void *what, bool colour, FILE *out, lk_error *err) {
	(void)colour;
	return report_around(what, LK_REPORT_HTML, false, out, err);
}

static lk_status write_svg(const void *what, bool colour, FILE *out, lk_error *err) {
	(void)colour;
	return report_around(what, LK_REPORT_CHARTS, false, out, err);
}

static lk_status write_png(const void *what, bool colour, FILE *out, lk_error *err) {
	(void)colour;
	return report_around(what, LK_REPORT_CHARTS, true, out, err);
}

lk_status lk_report_save(const lk_report_job *job, lk_report_form form, const char *path, FILE *out,
                         lk_error *err) {
	LK_ASSERT(job->answer && (!job->panels || (job->verb && job->title && job->inputs)));
	lk_writing w = {LK_FORMAT_JSON, false, false, path, out};
	if (form == LK_REPORT_JSON) return lk_write_through(&w, write_document, job, err);
	if (form == LK_REPORT_HTML) return lk_write_through(&w, write_html, job, err);
	if (path && lk_ends_in(path, ".png")) return lk_write_through(&w, write_png, job, err);
	if (!path || lk_ends_in(path, ".svg") || lk_ends_in(path, ".svg.gz"))
		return lk_write_through(&w, write_svg, job, err);
	lk_fail(err, LK_ERR_INPUT, path, "charts have the forms .svg and .png");
	return lk_hint(err, "name a file with one of these endings");
}

/* ---- panels ---- */

void lk_report_panel(lk_report *writer, const char *kind, const char *title, const char *note,
                     bool wide) {
	LK_ASSERT(kind && title);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "kind", kind);
	lk_json_put_text(writer, "title", title);
	if (note && *note) lk_json_put_text(writer, "note", note);
	if (wide) lk_json_put_bool(writer, "wide", true);
}

void lk_report_hint(lk_report *writer, const char *hint) {
	lk_json_put_text(writer, "hint", hint);
}

void lk_report_panel_end(lk_report *writer) {
	lk_json_object_end(writer);
}

void lk_report_verdict(lk_report *writer, const char *state, const char *headline,
                       const char *detail) {
	LK_ASSERT(lk_name_among("yes no plain", state));
	lk_report_panel(writer, "verdict", headline, NULL, true);
	lk_json_put_text(writer, "state", state);
	lk_json_put_text(writer, "detail", detail);
}

void lk_report_figures(lk_report *writer) {
	lk_json_array(writer, "figures");
}

void lk_report_figure(lk_report *writer, const char *label, const char *value, const char *range,
                      const char *note) {
	LK_ASSERT(label && value);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "label", label);
	lk_json_put_text(writer, "value", value);
	if (range && *range) lk_json_put_text(writer, "range", range);
	if (note && *note) lk_json_put_text(writer, "note", note);
	lk_json_object_end(writer);
}

void lk_report_figure_of_step(lk_report *writer, double step_s, double low_s, double high_s) {
	char text[40], low[40], high[40], range[96];
	snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", lk_format_seconds(low_s, low, sizeof low),
	         lk_format_seconds(high_s, high, sizeof high));
	lk_report_figure(writer, "step time", lk_format_seconds(step_s, text, sizeof text), range,
	                 "80 % range");
}

void lk_report_facts(lk_report *writer) {
	lk_json_array(writer, "facts");
}

void lk_report_fact(lk_report *writer, const char *label, const char *text) {
	if (!text || !*text) return;
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "label", label);
	lk_json_put_text(writer, "text", text);
	lk_json_object_end(writer);
}

void lk_report_part(lk_report *writer, const char *key, const char *label) {
	LK_ASSERT(key && label);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "key", key);
	lk_json_put_text(writer, "label", label);
	lk_json_object_end(writer);
}

void lk_report_text(lk_report *writer, const char *text) {
	lk_json_put_text(writer, NULL, text);
}

void lk_report_fall(lk_report *writer, const char *key, const char *label, double seconds,
                    const char *note, bool total) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "key", key);
	lk_json_put_text(writer, "label", label);
	lk_json_put_number(writer, "value", seconds);
	if (note) lk_json_put_text(writer, "note", note);
	if (total) lk_json_put_bool(writer, "total", true);
	lk_json_object_end(writer);
}

void lk_report_row(lk_report *writer, const char *name, const char *mark, const double *values,
                   int count) {
	LK_ASSERT(count >= 0 && (values || count == 0));
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	if (mark) lk_json_put_text(writer, "mark", mark);
	lk_json_array(writer, "values");
	for (int i = 0; i < count; i++) lk_json_put_number(writer, NULL, values[i]);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

void lk_report_axis(lk_report *writer, const char *key, const char *label, const char *unit,
                    bool log) {
	LK_ASSERT(strcmp(key, "x") == 0 || strcmp(key, "y") == 0);
	lk_json_object(writer, key);
	lk_json_put_text(writer, "label", label);
	lk_json_put_text(writer, "unit", unit);
	if (log) lk_json_put_bool(writer, "log", true);
	lk_json_object_end(writer);
}

void lk_report_series(lk_report *writer, const char *name, const char *key, bool line) {
	LK_ASSERT(name && key);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	lk_json_put_text(writer, "key", key);
	lk_json_put_text(writer, "style", line ? "line" : "points");
	lk_json_array(writer, "points");
}

void lk_report_point(lk_report *writer, double x, double y, const char *text, const char *command) {
	lk_json_array(writer, NULL);
	lk_json_put_number(writer, NULL, x);
	lk_json_put_number(writer, NULL, y);
	if (text || command) lk_json_put_text(writer, NULL, text ? text : "");
	if (command) lk_json_put_text(writer, NULL, command);
	lk_json_array_end(writer);
}

void lk_report_series_end(lk_report *writer) {
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

void lk_report_swing(lk_report *writer, const char *label, double low, double high) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "label", label);
	lk_json_put_number(writer, "low", low);
	lk_json_put_number(writer, "high", high);
	lk_json_object_end(writer);
}

/* ---- tables ---- */

/* Whether people are shown the number itself. */
static bool says_number(const lk_cell *cell) {
	char digits[LK_DIGITS];
	const lk_cell bare = {LK_CELL_NUMBER, NULL, cell->number};
	LK_ASSERT(cell->kind == LK_CELL_NUMBER);
	return !cell->text || strcmp(cell->text, lk_cell_shown(&bare, digits)) == 0;
}

/* A text, a number, or a number with what people are shown of it. */
static void report_put_cell(lk_report *writer, const lk_cell *cell) {
	char digits[LK_DIGITS];
	if (cell->kind == LK_CELL_EMPTY) lk_json_put_null(writer, NULL);
	else if (cell->kind == LK_CELL_BOOL) lk_json_put_bool(writer, NULL, cell->number != 0);
	else if (cell->kind == LK_CELL_TEXT) lk_json_put_text(writer, NULL, cell->text);
	else if (says_number(cell)) lk_json_put_number(writer, NULL, cell->number);
	else {
		lk_json_array(writer, NULL);
		lk_json_put_number(writer, NULL, cell->number);
		lk_json_put_text(writer, NULL, lk_cell_shown(cell, digits));
		lk_json_array_end(writer);
	}
}

static void report_put_columns(lk_report *writer, const lk_table *table) {
	lk_json_array(writer, "columns");
	for (int i = 0; i < table->count; i++) {
		if (table->columns[i].hidden) continue;
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "key", lk_table_key(table, i));
		lk_json_put_text(writer, "title", table->columns[i].title);
		if (table->columns[i].right) lk_json_put_bool(writer, "right", true);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static void report_put_rows(lk_report *writer, const lk_table *table, int rows) {
	LK_ASSERT(rows <= table->rows);
	lk_json_array(writer, "rows");
	for (int row = 0; row < rows; row++) {
		lk_json_array(writer, NULL);
		for (int i = 0; i < table->count; i++)
			if (!table->columns[i].hidden) report_put_cell(writer, lk_table_cell(table, row, i));
		lk_json_array_end(writer);
	}
	lk_json_array_end(writer);
}

static int report_column_of(const lk_table *table, const char *key) {
	int i = 0;
	while (i < table->count && strcmp(lk_table_key(table, i), key) != 0) i++;
	return i < table->count ? i : -1;
}

void lk_report_hide(lk_table *table, const char *key) {
	int column = table && table->status == LK_OK ? report_column_of(table, key) : -1;
	if (column >= 0) table->columns[column].hidden = true;
}

void lk_report_reveal(lk_table *table, const char *key) {
	int column = table && table->status == LK_OK ? report_column_of(table, key) : -1;
	if (column >= 0) table->columns[column].hidden = false;
}

void lk_report_rename(lk_table *table, const char *key, const char *title) {
	int column = table && table->status == LK_OK ? report_column_of(table, key) : -1;
	if (column >= 0) table->columns[column].title = title;
}

void lk_report_round(lk_table *table, int digits) {
	char text[LK_DIGITS];
	LK_ASSERT(digits > 0 && digits < LK_DIGITS - 8);
	for (size_t i = 0; table && i < table->cells.count; i++) {
		lk_cell *cell = &table->cells.at[i];
		const char *end;
		if (cell->kind != LK_CELL_NUMBER || !cell->text) continue;
		snprintf(text, sizeof text, "%.*g", digits, cell->number);
		cell->number = lk_read_real(text, &end);
	}
}

static bool same_throughout(const lk_table *table, int column) {
	char a[LK_DIGITS], b[LK_DIGITS];
	int row = 1;
	while (row < table->rows && strcmp(lk_cell_shown(lk_table_cell(table, 0, column), a),
	                                   lk_cell_shown(lk_table_cell(table, row, column), b)) == 0)
		row++;
	return row > 1 && row == table->rows;
}

char *lk_report_same(lk_table *table, const char *const *keys, char *out, size_t size) {
	size_t used = 0;
	*out = '\0';
	for (; table && table->status == LK_OK && *keys; keys++) {
		char digits[LK_DIGITS];
		int column = report_column_of(table, *keys);
		if (column < 0 || table->columns[column].hidden || !same_throughout(table, column))
			continue;
		const char *shown = lk_cell_shown(lk_table_cell(table, 0, column), digits);
		table->columns[column].hidden = true;
		if (!*shown || used >= size) continue;
		int length = snprintf(out + used, size - used, "%s%s %.60s", used ? ", " : "",
		                      table->columns[column].title, shown);
		used += length > 0 ? (size_t)length : 0;
	}
	return out;
}

lk_status lk_report_table_with(lk_report *writer, const char *title, const char *note, bool wide,
                               lk_table *table, int most, lk_report_more *more, const void *context,
                               lk_error *err) {
	lk_status status = LK_OK;
	if (!table || table->status != LK_OK) {
		lk_table_free(table);
		return lk_oom(err);
	}
	int rows = most > 0 && table->rows > most ? most : table->rows;
	LK_ASSERT(rows >= 0);
	if (rows > 0) {
		lk_report_panel(writer, "table", title, note, wide);
		report_put_columns(writer, table);
		report_put_rows(writer, table, rows);
		if (rows < table->rows) lk_json_put_integer(writer, "left_out", table->rows - rows);
		if (more) status = more(writer, context, err);
		lk_report_panel_end(writer);
	}
	lk_table_free(table);
	return status;
}

lk_status lk_report_table(lk_report *writer, const char *title, const char *note, bool wide,
                          lk_table *table, int most, lk_error *err) {
	return lk_report_table_with(writer, title, note, wide, table, most, NULL, NULL, err);
}
