/* whatif_view.c: changes alongside the base: a few as columns, many as rows; and as data. */
#include <math.h>
#include <string.h>

#include "whatif/whatif.h"
#include "base/check.h"
#include "base/text.h"
#include "lockstep/whatif.h"
#include "view/table/fields.h"
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
	LK_ASSERT(line >= 0 && line < LINES);
	if (lines[line].text) return lines[line].text(column, base, out);
	const char *field = (const char *)column + lines[line].seconds;
	return lk_format_seconds(*(const double *)(const void *)field, out, CELL);
}

static lk_status write_side_by_side(const lk_whatif *whatif, bool colour, FILE *out,
                                    lk_error *err) {
	LK_ASSERT(whatif->column_count > 0 && whatif->column_count <= SIDE_BY_SIDE);
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
	return lk_put_table(table, colour, out, err);
}

/* ---- fields ---- */

#define COLUMN(member) LK_AT(lk_whatif_column, member)

static bool is_answered(const lk_subject *subject) {
	return !((const lk_whatif_column *)subject->record)->refused;
}

static bool counts_samples(const lk_subject *subject) {
	return is_answered(subject) && ((const lk_whatif_column *)subject->record)->samples_per_s > 0;
}

static void find_batch(const lk_subject *subject, lk_field_value *found) {
	const lk_whatif_column *column = subject->record;
	found->number = round(column->samples_per_s * column->step_s);
}

static void find_change(const lk_subject *subject, lk_field_value *found) {
	const lk_whatif_column *column = subject->record;
	found->number = column->change;
	change_text(column, subject->index == 0, found->shown);
}

static char *show_uncertainty(double share, char *out, size_t size) {
	char number[CELL];
	snprintf(out, size, "+-%s %%", lk_fixed(100 * share, 1, number, sizeof number));
	return out;
}

static const lk_answer_field change_fields[] = {
	{"change", "change", COLUMN(label)},
	{"sets", NULL, LK_LIST(lk_whatif_column, sets, set_count)},
	{"refused", "refused", COLUMN(refused), .known = LK_MAYBE},
	{"gpus", "GPUs", COLUMN(ranks), .there = is_answered},
	{"batch", "batch", LK_FIELD_REAL, .get = find_batch, .there = counts_samples},
	{"step_time_s", "step", COLUMN(step_s), .there = is_answered, .shown = lk_format_seconds},
	{"vs_base", "vs base", LK_FIELD_REAL, .get = find_change, .there = is_answered},
	{"scaling_efficiency", "scaling", COLUMN(efficiency), .there = is_answered,
     .shown = lk_percent},
	{"uncertainty", "range", COLUMN(uncertainty), .there = is_answered, .shown = show_uncertainty},
	{"compute_s", "compute", COLUMN(compute_s), .there = is_answered, .shown = lk_format_seconds},
	{"exposed_s", "comm.", COLUMN(exposed_s), .there = is_answered, .shown = lk_format_seconds},
	{"hidden_s", "hidden", COLUMN(hidden_s), .there = is_answered, .shown = lk_format_seconds},
	{"other_s", "other", COLUMN(other_s), .there = is_answered, .shown = lk_format_seconds},
	{"samples_per_s", "samples/s", COLUMN(samples_per_s), .there = counts_samples, .hidden = true},
	{"cluster", "cluster", COLUMN(cluster), .known = LK_MAYBE, .hidden = true},
	{"notes", NULL, LK_LIST(lk_whatif_column, notes, note_count)},
};
static const lk_answer_record change_record = {.python = "Change",
                                               .what = "The base, one change, or several together.",
                                               LK_RECORD(lk_whatif_column, change_fields)};

static const lk_answer_field whatif_fields[] = {
	{"source", NULL, LK_AT(lk_whatif, source)},
	{"traced", NULL, LK_AT(lk_whatif, traced)},
	{"changes", NULL, LK_MANY(lk_whatif, columns, column_count, change_record)},
	{"notes", NULL, LK_LIST(lk_whatif, notes, note_count)},
	{"reproduce", NULL, LK_AT(lk_whatif, reproduce)},
};
static const lk_answer_record whatif_record = {
	.python = "WhatIf",
	.what = "What a step would take with changes; changes[0] is the base.",
	LK_RECORD(lk_whatif, whatif_fields)};
const lk_document lk_whatif_document = {"whatif", "`whatif -o json`", &whatif_record,
                                        offsetof(lk_whatif, failed_check), NULL};

/* ---- rows ---- */

lk_table *lk_whatif_table(const lk_whatif *whatif) {
	static const char *const keys[] = {
		"change",      "gpus",          "step_time_s", "vs_base",  "scaling_efficiency",
		"uncertainty", "compute_s",     "exposed_s",   "hidden_s", "other_s",
		"batch",       "samples_per_s", "cluster",     "refused",  NULL};
	static const lk_columns columns = {"whatif", &change_record, .keys = keys};
	lk_table *table = lk_fields_rows(&columns, whatif, whatif->columns, whatif->column_count);
	if (table) lk_table_hide_empty(table);
	return table;
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

bool lk_whatif_said(const lk_whatif *whatif, int before, const char *note) {
	LK_ASSERT(before <= whatif->column_count);
	for (int i = 0; i < before; i++)
		for (int n = 0; n < whatif->columns[i].note_count; n++)
			if (strcmp(whatif->columns[i].notes[n], note) == 0) return true;
	return false;
}

static lk_status put_remarks(const lk_whatif *whatif, int column, FILE *out, lk_error *err) {
	LK_ASSERT(column < whatif->column_count);
	const lk_whatif_column *whatif_column = &whatif->columns[column];
	if (whatif_column->refused)
		LK_TRY(whatif_view_put_line("cannot   ", whatif_column->refused, out, err));
	for (int n = 0; n < whatif_column->note_count; n++)
		if (!lk_whatif_said(whatif, column, whatif_column->notes[n]))
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
	                                : lk_put_table(lk_whatif_table(whatif), colour, out, err));
	fputc('\n', out);
	for (int i = 0; i < whatif->column_count; i++) LK_TRY(put_remarks(whatif, i, out, err));
	for (int i = 0; text->verbose && i < whatif->note_count; i++)
		LK_TRY(whatif_view_put_line("basis    ", whatif->notes[i], out, err));
	fputs("reproduce: ", out);
	LK_TRY(lk_put_safe(whatif->reproduce, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* ---- the ways out ---- */

lk_status lk_whatif_print(const lk_whatif *whatif, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT)
		return lk_write_through(&w, whatif_view_write_text, &(struct text){whatif, verbose}, err);
	if (format == LK_FORMAT_JSON) return lk_write_document(&w, &lk_whatif_document, whatif, err);
	return lk_write_table(&w, lk_whatif_table(whatif), err);
}

lk_status lk_whatif_write_files(const lk_whatif *whatif, const lk_outputs *outputs, lk_error *err) {
	const lk_step *step = lk_whatif_step(whatif);
	if (!outputs->graph && !outputs->trace) return LK_OK;
	LK_ASSERT(whatif->together >= 0 && whatif->together < whatif->column_count);
	if (!step->graph)
		return lk_fail(err, LK_ERR_INPUT, "--graph", "%s",
		               whatif->columns[whatif->together].refused);
	if (outputs->trace) LK_TRY(lk_trace_write_step(step, outputs->trace, err));
	return outputs->graph ? lk_graph_write(step->graph, outputs->graph, err) : LK_OK;
}
