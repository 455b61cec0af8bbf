/* whatif_view.c: changes alongside the base: a few as columns, many as rows; and as data. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/whatif.h"
#include "io/json.h"
#include "base/text.h"
#include "lockstep/whatif.h"
#include "view/table/output.h"
#include "view/table/table.h"
#include "view/timeline/trace.h"
#include "view/text/views.h"

enum { SIDE_BY_SIDE = 6, CELL = 64 };

/* ---- cells ---- */

static char *whatif_view_signed_percent(double share, char out[CELL]) {
	char number[CELL];
	if (fabs(share) < 0.0005) share = 0; /* no sign */
	snprintf(out, CELL, "%s%s %%", share > 0 ? "+" : "",
	         lk_fixed(100 * share, 1, number, sizeof number));
	return out;
}

static char *change_text(const lk_whatif_column *column, bool base, char out[CELL]) {
	if (base) lk_copy(out, CELL, "-");
	else whatif_view_signed_percent(column->change, out);
	return out;
}

static char *efficiency_text(const lk_whatif_column *column, bool base, char out[CELL]) {
	(void)base;
	if (isnan(column->efficiency)) lk_copy(out, CELL, "-");
	else lk_percent(column->efficiency, out, CELL);
	return out;
}

static char *uncertainty_text(const lk_whatif_column *column, bool base, char out[CELL]) {
	char number[CELL];
	(void)base;
	snprintf(out, CELL, "+-%s %%", lk_fixed(100 * column->uncertainty, 1, number, sizeof number));
	return out;
}

/* ---- side by side ---- */

typedef char *cell_text(const lk_whatif_column *c, bool base, char out[CELL]);

static char *gpus_text(const lk_whatif_column *column, bool base, char out[CELL]) {
	(void)base;
	snprintf(out, CELL, "%d", column->ranks);
	return out;
}

/* Of all ranks, in a step; "" where the graph does not state it. */
static char *batch_text(const lk_whatif_column *column, bool base, char out[CELL]) {
	(void)base;
	*out = '\0';
	if (column->samples_per_s > 0)
		lk_format_thousands(round(column->samples_per_s * column->step_s), out, CELL);
	return out;
}

/* A line is a text, or seconds of the column. */
static const struct {
	const char *title;
	cell_text *text;
	size_t seconds;
} lines[] = {
	{"GPUs", gpus_text, 0},
	{"batch, samples", batch_text, 0},
	{"step", NULL, offsetof(lk_whatif_column, step_s)},
	{"vs base", change_text, 0},
	{"scaling efficiency", efficiency_text, 0},
	{"uncertainty", uncertainty_text, 0},
	{"compute", NULL, offsetof(lk_whatif_column, compute_s)},
	{"communication, exposed", NULL, offsetof(lk_whatif_column, exposed_s)},
	{"communication, hidden", NULL, offsetof(lk_whatif_column, hidden_s)},
	{"waiting, host, copies", NULL, offsetof(lk_whatif_column, other_s)},
};
enum { LINES = sizeof lines / sizeof *lines };

static char *line_text(const lk_whatif_column *column, int line, bool base, char out[CELL]) {
	if (lines[line].text) return lines[line].text(column, base, out);
	const char *field = (const char *)column + lines[line].seconds;
	return lk_format_seconds(*(const double *)(const void *)field, out, CELL);
}

static lk_status write_side_by_side(const lk_whatif *whatif, bool colour, FILE *out,
                                    lk_error *err) {
	lk_column columns[SIDE_BY_SIDE + 1] = {{"what", "", false, false}};
	for (int i = 0; i < whatif->column_count; i++)
		columns[i + 1] =
			(lk_column){whatif->columns[i].label, whatif->columns[i].label, true, false};
	lk_table *table = lk_table_new("whatif", columns, whatif->column_count + 1);
	if (!table) return lk_oom(err);
	for (int line = 0; line < LINES; line++) {
		if (lines[line].text == batch_text && !(whatif->columns[0].samples_per_s > 0)) continue;
		lk_table_row(table);
		lk_table_text(table, lines[line].title);
		for (int i = 0; i < whatif->column_count; i++) {
			char text[CELL];
			lk_table_text(table, whatif->columns[i].refused
			                         ? "n/a"
			                         : line_text(&whatif->columns[i], line, i == 0, text));
		}
	}
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	return status;
}

/* ---- rows ---- */

static const lk_column row_columns[] = {
	{"change", "change", false, false},
	{"gpus", "GPUs", true, false},
	{"step_time_s", "step", true, false},
	{"vs_base", "vs base", true, false},
	{"scaling_efficiency", "scaling", true, false},
	{"uncertainty", "range", true, false},
	{"compute_s", "compute", true, false},
	{"exposed_s", "comm.", true, false},
	{"hidden_s", "hidden", true, false},
	{"other_s", "other", true, false},
	{"batch", "batch", true, false},
	{"samples_per_s", "samples/s", true, true},
	{"cluster", "cluster", false, true},
	{"refused", "refused", false, false},
};

static void whatif_view_put_seconds(lk_table *table, const lk_whatif_column *column,
                                    double seconds) {
	char text[CELL];
	lk_table_number(table, column->refused ? NAN : seconds,
	                lk_format_seconds(seconds, text, sizeof text));
}

static void whatif_view_put_row(lk_table *table, const lk_whatif_column *column, bool base) {
	char text[CELL];
	double none = column->refused ? NAN : 0;
	lk_table_row(table);
	lk_table_text(table, column->label);
	lk_table_number(table, column->ranks + none, NULL);
	whatif_view_put_seconds(table, column, column->step_s);
	lk_table_number(table, column->change + none, change_text(column, base, text));
	lk_table_number(table, column->efficiency + none, efficiency_text(column, base, text));
	lk_table_number(table, column->uncertainty + none, uncertainty_text(column, base, text));
	whatif_view_put_seconds(table, column, column->compute_s);
	whatif_view_put_seconds(table, column, column->exposed_s);
	whatif_view_put_seconds(table, column, column->hidden_s);
	whatif_view_put_seconds(table, column, column->other_s);
	double batch = round(column->samples_per_s * column->step_s);
	lk_table_number(table, batch > 0 ? batch + none : NAN, NULL);
	lk_table_number(table, column->samples_per_s > 0 ? column->samples_per_s : NAN, NULL);
	lk_table_text(table, column->cluster);
	lk_table_text(table, column->refused);
}

lk_table *lk_whatif_table(const lk_whatif *whatif) {
	lk_table *table = lk_table_new("whatif", row_columns, sizeof row_columns / sizeof *row_columns);
	for (int i = 0; table && i < whatif->column_count; i++)
		whatif_view_put_row(table, &whatif->columns[i], i == 0);
	if (table) lk_table_hide_empty(table);
	return table;
}

static lk_status whatif_view_write_rows(const lk_whatif *whatif, bool colour, FILE *out,
                                        lk_error *err) {
	lk_table *table = lk_whatif_table(whatif);
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	return status;
}

/* ---- text ---- */

struct text {
	const lk_whatif *w;
	bool verbose;
};

static lk_status whatif_view_put_line(const char *head, const char *line, FILE *out,
                                      lk_error *err) {
	int indent = (int)strlen(head);
	fputs(head, out);
	LK_TRY(lk_put_wrapped(line, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* Combinations repeat what their parts say. */
static bool whatif_view_said(const lk_whatif *whatif, int before, const char *note) {
	for (int i = 0; i < before; i++)
		for (int n = 0; n < whatif->columns[i].note_count; n++)
			if (strcmp(whatif->columns[i].notes[n], note) == 0) return true;
	return false;
}

static lk_status put_remarks(const lk_whatif *whatif, int column, FILE *out, lk_error *err) {
	const lk_whatif_column *whatif_column = &whatif->columns[column];
	if (whatif_column->refused)
		LK_TRY(whatif_view_put_line("cannot   ", whatif_column->refused, out, err));
	for (int n = 0; n < whatif_column->note_count; n++)
		if (!whatif_view_said(whatif, column, whatif_column->notes[n]))
			LK_TRY(whatif_view_put_line("note     ", whatif_column->notes[n], out, err));
	return LK_OK;
}

static bool whatif_view_fits(const lk_whatif *whatif) {
	size_t width = 24;
	for (int i = 0; i < whatif->column_count; i++)
		width += strlen(whatif->columns[i].label) > 10 ? strlen(whatif->columns[i].label) + 2 : 12;
	return whatif->column_count <= SIDE_BY_SIDE && width <= LK_PAGE;
}

static lk_status whatif_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *text = what;
	const lk_whatif *whatif = text->w;
	LK_TRY(whatif_view_put_line("base     ", whatif->source, out, err));
	LK_TRY(whatif_view_put_line("cluster  ", whatif->columns[0].cluster, out, err));
	fputc('\n', out);
	LK_TRY(whatif_view_fits(whatif) ? write_side_by_side(whatif, colour, out, err)
	                                : whatif_view_write_rows(whatif, colour, out, err));
	fputc('\n', out);
	for (int i = 0; i < whatif->column_count; i++) LK_TRY(put_remarks(whatif, i, out, err));
	for (int i = 0; text->verbose && i < whatif->note_count; i++)
		LK_TRY(whatif_view_put_line("basis    ", whatif->notes[i], out, err));
	fputs("reproduce: ", out);
	LK_TRY(lk_put_safe(whatif->reproduce, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* ---- JSON ---- */

static void whatif_view_put_number(lk_json_writer *writer, const char *key, double value,
                                   bool known) {
	if (known && isfinite(value)) lk_json_put_number(writer, key, value);
	else lk_json_put_null(writer, key);
}

static void whatif_view_put_texts(lk_json_writer *writer, const char *key, const char *const *texts,
                                  int count) {
	lk_json_array(writer, key);
	for (int i = 0; i < count; i++) lk_json_put_text(writer, NULL, texts[i]);
	lk_json_array_end(writer);
}

static void whatif_view_put_column(lk_json_writer *writer, const lk_whatif_column *column) {
	bool known = !column->refused;
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "change", column->label);
	whatif_view_put_texts(writer, "sets", column->sets, column->set_count);
	lk_json_put_text(writer, "refused", column->refused);
	whatif_view_put_number(writer, "gpus", column->ranks, known);
	whatif_view_put_number(writer, "batch", round(column->samples_per_s * column->step_s),
	                       known && column->samples_per_s > 0);
	whatif_view_put_number(writer, "step_time_s", column->step_s, known);
	whatif_view_put_number(writer, "vs_base", column->change, known);
	whatif_view_put_number(writer, "scaling_efficiency", column->efficiency, known);
	whatif_view_put_number(writer, "uncertainty", column->uncertainty, known);
	whatif_view_put_number(writer, "compute_s", column->compute_s, known);
	whatif_view_put_number(writer, "exposed_s", column->exposed_s, known);
	whatif_view_put_number(writer, "hidden_s", column->hidden_s, known);
	whatif_view_put_number(writer, "other_s", column->other_s, known);
	whatif_view_put_number(writer, "samples_per_s", column->samples_per_s,
	                       known && column->samples_per_s > 0);
	lk_json_put_text(writer, "cluster", column->cluster);
	whatif_view_put_texts(writer, "notes", column->notes, column->note_count);
	lk_json_object_end(writer);
}

static lk_status whatif_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_whatif *answer = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/whatif/1", answer->failed_check);
	lk_json_put_text(&w, "source", answer->source);
	lk_json_put_bool(&w, "traced", answer->traced);
	lk_json_array(&w, "changes");
	for (int i = 0; i < answer->column_count; i++) whatif_view_put_column(&w, &answer->columns[i]);
	lk_json_array_end(&w);
	whatif_view_put_texts(&w, "notes", answer->notes, answer->note_count);
	lk_json_put_text(&w, "reproduce", answer->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- the ways out ---- */

lk_status lk_whatif_print(const lk_whatif *whatif, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT)
		return lk_write_through(&w, whatif_view_write_text, &(struct text){whatif, verbose}, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, whatif_view_write_json, whatif, err);
	return lk_write_table(&w, lk_whatif_table(whatif), err);
}

lk_status lk_whatif_write_files(const lk_whatif *whatif, const lk_outputs *outputs, lk_error *err) {
	const lk_step *step = lk_whatif_step(whatif);
	if (!outputs->graph && !outputs->trace) return LK_OK;
	if (!step->graph)
		return lk_fail(err, LK_ERR_INPUT, "--graph", "%s",
		               whatif->columns[whatif->together].refused);
	if (outputs->trace) LK_TRY(lk_trace_write_step(step, outputs->trace, err));
	return outputs->graph ? lk_graph_write(step->graph, outputs->graph, err) : LK_OK;
}
