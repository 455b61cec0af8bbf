/* predict_rows.c: predictions as rows of one table: which fields of a prediction are columns, and
 * when people see them. Swept options without a row and the parts of a step add columns. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/vec.h"
#include "view/text/views.h"

typedef enum kind {
	FIELD, /* of a prediction */
	BEST,
	NOTES,
	VERDICT,
	MODEL,
	REFUSED,
	OPTION,
	PART, /* made by hand */
} kind;

/* When people see a column: always; never; where its cells differ; where one is not 1; where one is
 * not empty; where one is not empty and no row has tokens. */
typedef enum show { ALWAYS, NEVER, VARIES, NOT_ONE, PRESENT, WITHOUT_TOKENS } show;

struct spec {
	const char *key;
	show show;
	kind kind;
	bool unknown_zero;            /* FIELD: a cell with 0 is empty */
	const lk_answer_field *field; /* FIELD: filled by find_field */
	size_t at;
	const char *title;       /* of columns that are no FIELD */
	const lk_option *option; /* OPTION */
	const char *part;        /* PART */
};

struct specs {
	LK_VEC(struct spec) list;
	lk_arena arena; /* of keys that are made up */
};

struct cell {
	bool filled, is_text;
	double number;
	const char *text;
	char shown[64], buffer[512];
};

static const struct spec fixed[] = {
	{.key = "best", .show = VARIES, .kind = BEST, .title = ""},
	{.key = "verdict", .kind = VERDICT, .title = "verdict"},
	{.key = "peak_bytes"},
	{.key = "usable_bytes", .show = VARIES},
	{.key = "fullest_stage", .show = NEVER},
	{.key = "model", .show = VARIES, .kind = MODEL, .title = "model"},
	{.key = "cluster", .show = NEVER},
	{.key = "gpus", .show = VARIES, .unknown_zero = true},
	{.key = "tp", .unknown_zero = true},
	{.key = "pp", .unknown_zero = true},
	{.key = "vp", .show = NOT_ONE, .unknown_zero = true},
	{.key = "cp", .show = NOT_ONE, .unknown_zero = true},
	{.key = "ep", .show = NOT_ONE, .unknown_zero = true},
	{.key = "dp", .unknown_zero = true},
	{.key = "mbs", .unknown_zero = true},
	{.key = "gbs", .unknown_zero = true},
	{.key = "seq", .show = PRESENT, .unknown_zero = true},
	{.key = "microbatches", .show = NEVER, .unknown_zero = true},
	{.key = "recompute"},
	{.key = "dtype"},
	{.key = "schedule", .show = VARIES},
};

static const struct spec results[] = {
	{.key = "step_time_s"},
	{.key = "step_time_low_s", .show = NEVER},
	{.key = "step_time_high_s", .show = NEVER},
	{.key = "basis", .show = NEVER},
	{.key = "tokens_per_s_per_gpu", .show = PRESENT},
	{.key = "samples_per_s", .show = WITHOUT_TOKENS},
	{.key = "model_tflops_per_gpu", .show = NEVER},
	{.key = "mfu"},
	{.key = "hfu", .show = NEVER},
	{.key = "peak_flops", .show = NEVER},
	{.key = "days", .show = PRESENT},
	{.key = "gpu_hours", .show = PRESENT},
	{.key = "goodput", .show = PRESENT},
	{.key = "gpu_watts", .show = NEVER},
	{.key = "site_watts", .show = NEVER},
	{.key = "pue", .show = NEVER},
	{.key = "step_kwh", .show = NEVER},
	{.key = "training_kwh", .show = PRESENT},
	{.key = "carbon_kg", .show = PRESENT},
	{.key = "power_usd", .show = PRESENT},
};

static const struct spec closing[] = {
	{.key = "operations", .show = NEVER},
	{.key = "layer_operations", .show = NEVER},
	{.key = "ranks_simulated", .show = NEVER},
	{.key = "ranks", .show = NEVER},
	{.key = "ignored", .show = NEVER},
	{.key = "notable", .show = PRESENT},
	{.key = "reproduce", .show = NEVER},
	{.key = "searched", .show = NEVER},
	{.key = "warning", .show = PRESENT},
	{.key = "refused", .show = PRESENT, .kind = REFUSED, .title = "why refused"},
};

/* The row of a prediction's field, with what its table says of it. */
static struct spec find_field(struct spec spec) {
	if (spec.kind != FIELD) return spec;
	spec.field = lk_field_of(&lk_prediction_record, spec.key, &spec.at);
	if (!spec.field) spec.field = lk_field_of(&lk_layout_record, spec.key, &spec.at);
	LK_ASSERT(spec.field);
	return spec;
}

/* ---- cells ---- */

static void predict_rows_set_text(struct cell *out, const char *text) {
	out->filled = text && *text;
	out->is_text = true;
	out->text = text;
}

static void predict_rows_set_number(struct cell *out, double number) {
	out->filled = true;
	out->number = number;
}

/* Of a refused row, or of an option without a field in lk_prediction: what was requested. */
static void set_asked(struct cell *out, const lk_option *option,
                      const lk_predict_request *request) {
	if (!request) return;
	lk_option_text(option, request, out->buffer, sizeof out->buffer);
	const char *end;
	double number = lk_read_real(out->buffer, &end);
	if (option->kind == LK_OPTION_TEXT || end == out->buffer || *end)
		predict_rows_set_text(out, out->buffer);
	else predict_rows_set_number(out, number);
}

static const lk_option *option_of(const char *key) {
	for (const lk_option *option = lk_predict_verb.options; option->name; option++)
		if (strcmp(option->name, key) == 0) return option;
	return NULL;
}

static bool is_text(const struct spec *spec) {
	return spec->field->kind == LK_FIELD_TEXT || spec->field->kind == LK_FIELD_TEXTS;
}

static void set_field(struct cell *out, const struct spec *spec, const lk_prediction *prediction) {
	lk_subject subject = {prediction, (const char *)prediction + spec->at, 0, NULL};
	lk_field_value found;
	lk_field_find(spec->field, &subject, &found);
	if (is_text(spec)) predict_rows_set_text(out, found.text);
	else if (!isnan(found.number) && (found.number != 0 || !spec->unknown_zero))
		predict_rows_set_number(out, found.number);
}

static void set_part(struct cell *out, const char *part, const lk_prediction *prediction) {
	if (prediction) predict_rows_set_number(out, 0);
	for (int i = 0; prediction && i < prediction->breakdown_count; i++)
		if (strcmp(prediction->breakdown[i].key, part) == 0)
			predict_rows_set_number(out, prediction->breakdown[i].exposed_s);
}

/* A list of texts as one. */
static const char *predict_rows_join(const struct spec *spec, const lk_prediction *prediction,
                                     lk_arena *arena) {
	const char *at = (const char *)prediction, *all = "";
	const char *const *texts = *(const char *const *const *)(const void *)(at + spec->field->at);
	int count = *(const int *)(const void *)(at + spec->field->count);
	for (int i = 0; i < count && all; i++)
		all = lk_arena_printf(arena, "%s%s%s", all, i ? "; " : "", texts[i]);
	return all;
}

static const char *row_verdict(const lk_prediction *prediction) {
	if (!prediction) return "refused";
	static const char *const verdicts[] = {[LK_VERDICT_FITS] = "fits",
	                                       [LK_VERDICT_MAY_NOT_FIT] = "may not fit",
	                                       [LK_VERDICT_MISFIT] = "does not fit"};
	return verdicts[lk_verdict_of(prediction)];
}

static const char *model_of(const lk_sweep_row *row) {
	if (row->request && row->request->model) return row->request->model;
	return row->prediction ? row->prediction->model : NULL;
}

/* Texts that are made for it are owned by the arena, or lie in the cell. */
static void fill_cell(const lk_sweep *sweep, const struct spec *spec, size_t row, long best,
                      lk_arena *arena, struct cell *out) {
	LK_ASSERT(row < sweep->count);
	const lk_sweep_row *sweep_row = &sweep->rows[row];
	const lk_prediction *prediction = sweep_row->prediction;
	out->filled = out->is_text = false;
	switch (spec->kind) {
	case BEST:
		predict_rows_set_number(out, (long)row == best);
		lk_copy(out->shown, sizeof out->shown, (long)row == best ? "*" : "");
		return;
	case VERDICT: predict_rows_set_text(out, row_verdict(prediction)); return;
	case MODEL: predict_rows_set_text(out, model_of(sweep_row)); return;
	case REFUSED:
		predict_rows_set_text(
			out, sweep_row->refusal
					 ? lk_error_text(sweep_row->refusal, out->buffer, sizeof out->buffer)
					 : NULL);
		return;
	case OPTION: set_asked(out, spec->option, sweep_row->request); return;
	case PART: set_part(out, spec->part, prediction); return;
	default: break;
	}
	if (!prediction) {
		if (option_of(spec->key)) set_asked(out, option_of(spec->key), sweep_row->request);
	} else if (spec->field->kind == LK_FIELD_TEXTS)
		predict_rows_set_text(out, predict_rows_join(spec, prediction, arena));
	else set_field(out, spec, prediction);
}

/* What people see of it. */
static void show_cell(const struct spec *spec, struct cell *out) {
	if (!out->filled || out->is_text || spec->kind == BEST) return;
	const lk_answer_field *field = spec->field;
	double number = out->number;
	if (field && field->shown) {
		field->shown(number, out->shown, sizeof out->shown);
		return;
	}
	bool rounded = field && field->kind == LK_FIELD_REAL && field->known == LK_UNLESS_ZERO;
	lk_format_shortest(rounded ? round(number * 10) / 10 : number, out->shown, sizeof out->shown);
}

/* ---- notes below the table ---- */

static const char *title_of(const struct spec *spec) {
	return spec->field ? spec->field->title : spec->title;
}

static bool is_note(const struct spec *spec) {
	return strcmp(spec->key, "refused") == 0 || strcmp(spec->key, "warning") == 0 ||
	       strcmp(spec->key, "notable") == 0;
}

/* The number of a text, from 1. */
static size_t note_number(lk_sweep_notes *notes, const struct spec *spec, const char *text) {
	LK_ASSERT(text && *text);
	const char *whole = spec->kind == REFUSED
	                        ? text
	                        : lk_arena_printf(&notes->arena, "%s: %s", title_of(spec), text);
	size_t i = 0;
	while (whole && i < notes->texts.count && strcmp(notes->texts.at[i], whole) != 0) i++;
	if (whole && i < notes->texts.count) return i + 1;
	const char *copy = whole ? lk_arena_strdup(&notes->arena, whole) : NULL;
	if (!copy || !lk_push(&notes->texts)) notes->failed = true;
	else *lk_last(&notes->texts) = copy;
	return i + 1;
}

/* "1, 3" */
static void fill_notes(const lk_sweep *sweep, size_t row, lk_arena *arena, struct cell *out) {
	lk_text numbers = lk_text_begin(out->shown, sizeof out->shown);
	out->filled = out->is_text = false;
	for (size_t i = 0; i < sizeof closing / sizeof *closing; i++) {
		struct cell note;
		if (!is_note(&closing[i])) continue;
		struct spec spec = find_field(closing[i]);
		fill_cell(sweep, &spec, row, -1, arena, &note);
		if (!note.filled || !*note.text) continue;
		lk_text_add(&numbers, "%s%zu", out->filled ? ", " : "",
		            note_number(sweep->notes, &spec, note.text));
		predict_rows_set_text(out, out->shown);
	}
}

/* ---- columns ---- */

static bool same_cell(const struct cell *a, const struct cell *b) {
	if (a->is_text != b->is_text) return false;
	return a->is_text ? strcmp(a->text, b->text) == 0 : a->number == b->number;
}

/* Empty cells, those of refused rows, do not count. */
static bool is_shown(const lk_sweep *sweep, const struct spec *spec, long best, lk_arena *arena) {
	struct cell cells[2], *first = NULL;
	if (spec->show == ALWAYS || spec->show == NEVER) return spec->show == ALWAYS;
	if (sweep->notes && is_note(spec)) return false;
	for (size_t i = 0; spec->kind == NOTES && i < sweep->count; i++) {
		fill_notes(sweep, i, arena, &cells[0]);
		if (cells[0].filled) return true;
	}
	if (spec->kind == NOTES) return false;
	for (size_t i = 0; i < sweep->count; i++) {
		struct cell *at = first ? &cells[1] : &cells[0];
		fill_cell(sweep, spec, i, best, arena, at);
		if (!at->filled) continue;
		if (spec->show == PRESENT) return true;
		if (spec->show == WITHOUT_TOKENS && sweep->rows[i].prediction->tokens_per_s_per_gpu > 0)
			return false;
		if (spec->show == NOT_ONE && at->number != 1) return true;
		if (spec->show == VARIES && first && !same_cell(first, at)) return true;
		first = &cells[0];
	}
	return spec->show == WITHOUT_TOKENS && first;
}

static bool add_spec(struct specs *all, struct spec s) {
	if (!s.key || !lk_push(&all->list)) return false;
	*lk_last(&all->list) = s;
	return true;
}

static bool add_specs(struct specs *all, const struct spec *some, size_t count) {
	for (size_t i = 0; i < count; i++)
		if (!add_spec(all, find_field(some[i]))) return false;
	return true;
}

static bool has_key(const struct specs *all, const char *key) {
	for (size_t i = 0; i < all->list.count; i++)
		if (strcmp(all->list.at[i].key, key) == 0) return true;
	return false;
}

/* Options that were swept and have no column. */
static bool add_swept(struct specs *all, const lk_sweep *sweep) {
	for (int i = 0; i < sweep->varying_count; i++) {
		const lk_option *option = sweep->varying[i];
		if (has_key(all, option->name)) continue;
		char *key = lk_arena_strdup(&all->arena, option->name);
		for (char *c = key; c && *c; c++)
			if (*c == '-') *c = '_';
		if (!add_spec(
				all,
				(struct spec){.key = key, .title = option->name, .kind = OPTION, .option = option}))
			return false;
	}
	return true;
}

/* "gemm_exposed_s" for every part of any row. */
static bool predict_rows_add_parts(struct specs *all, const lk_sweep *sweep) {
	for (size_t i = 0; i < sweep->count; i++) {
		const lk_prediction *prediction = sweep->rows[i].prediction;
		for (int k = 0; prediction && k < prediction->breakdown_count; k++) {
			char key[80];
			snprintf(key, sizeof key, "%s_exposed_s", prediction->breakdown[k].key);
			if (has_key(all, key)) continue;
			struct spec s = {.key = lk_arena_strdup(&all->arena, key),
			                 .kind = PART,
			                 .part = prediction->breakdown[k].key,
			                 .show = NEVER};
			if (!add_spec(all, s)) return false;
		}
	}
	return true;
}

#define ADD(all, table) add_specs(all, table, sizeof table / sizeof *table)

static bool predict_rows_find_columns(struct specs *all, const lk_sweep *sweep) {
	return ADD(all, fixed) && add_swept(all, sweep) && ADD(all, results) &&
	       predict_rows_add_parts(all, sweep) && ADD(all, closing) &&
	       (!sweep->notes ||
	        add_spec(all, (struct spec){
							  .key = "notes", .title = "note", .kind = NOTES, .show = PRESENT}));
}

/* ---- the table ---- */

static bool is_number_kind(const struct spec *spec) {
	if (spec->kind == OPTION) return spec->option->kind != LK_OPTION_TEXT;
	return spec->kind == FIELD && !is_text(spec);
}

static void predict_rows_put_cell(lk_table *table, const struct cell *cell) {
	if (!cell->filled) lk_table_text(table, NULL);
	else if (cell->is_text) lk_table_text(table, cell->text);
	else lk_table_number(table, cell->number, cell->shown);
}

static lk_table *make_table(struct specs *all, const lk_sweep *sweep) {
	lk_arena arena = LK_ARENA_INIT;
	size_t count = all->list.count;
	long best = lk_sweep_best(sweep);
	lk_column *columns = LK_ARRAY(&arena, lk_column, count);
	for (size_t i = 0; columns && i < count; i++) {
		const struct spec *spec = &all->list.at[i];
		columns[i] = (lk_column){.key = spec->key,
		                         .title = title_of(spec),
		                         .right = is_number_kind(spec),
		                         .hidden = !is_shown(sweep, spec, best, &all->arena)};
	}
	lk_table *table = columns ? lk_table_new("predictions", columns, (int)count) : NULL;
	lk_arena_free(&arena);
	for (size_t row = 0; table && row < sweep->count; row++) {
		struct cell c;
		lk_table_row(table);
		for (size_t i = 0; i < count; i++) {
			if (all->list.at[i].kind == NOTES) fill_notes(sweep, row, &all->arena, &c);
			else fill_cell(sweep, &all->list.at[i], row, best, &all->arena, &c);
			show_cell(&all->list.at[i], &c);
			predict_rows_put_cell(table, &c);
		}
	}
	return table;
}

lk_table *lk_sweep_table(const lk_sweep *sweep) {
	struct specs all = {0};
	lk_table *table = predict_rows_find_columns(&all, sweep) ? make_table(&all, sweep) : NULL;
	lk_vec_free(&all.list);
	lk_arena_free(&all.arena);
	return table;
}

/* ---- as arrays ---- */

static bool is_text_column(const struct spec *spec) {
	if (spec->kind == FIELD) return is_text(spec);
	if (spec->kind == OPTION) return spec->option->kind == LK_OPTION_TEXT;
	return spec->kind == VERDICT || spec->kind == MODEL || spec->kind == REFUSED;
}

static bool fill_texts(const lk_sweep *sweep, const struct spec *spec, lk_arena *arena,
                       lk_sweep_column *out) {
	const char **texts = LK_ARRAY(arena, const char *, sweep->count);
	for (size_t row = 0; texts && row < sweep->count; row++) {
		struct cell c;
		fill_cell(sweep, spec, row, -1, arena, &c);
		if (!c.filled) texts[row] = NULL;
		else if (c.text == c.buffer) texts[row] = lk_arena_strdup(arena, c.text);
		else texts[row] = c.text;
		if (c.filled && !texts[row]) return false;
	}
	out->texts = texts;
	return texts != NULL;
}

static bool fill_numbers(const lk_sweep *sweep, const struct spec *spec, long best, lk_arena *arena,
                         lk_sweep_column *out) {
	double *numbers = LK_ARRAY(arena, double, sweep->count);
	for (size_t row = 0; numbers && row < sweep->count; row++) {
		struct cell c;
		fill_cell(sweep, spec, row, best, arena, &c);
		numbers[row] = c.filled && !c.is_text ? c.number : NAN;
	}
	out->numbers = numbers;
	return numbers != NULL;
}

lk_sweep_column *lk_sweep_columns(const lk_sweep *sweep, lk_arena *arena, int *count) {
	struct specs all = {0};
	long best = lk_sweep_best(sweep);
	bool fine = predict_rows_find_columns(&all, sweep);
	lk_sweep_column *columns = fine ? LK_ARRAY(arena, lk_sweep_column, all.list.count) : NULL;
	*count = (int)all.list.count;
	for (int i = 0; columns && fine && i < *count; i++) {
		const struct spec *spec = &all.list.at[i];
		columns[i].key = lk_arena_strdup(arena, spec->key);
		fine = columns[i].key &&
		       (is_text_column(spec) ? fill_texts(sweep, spec, arena, &columns[i])
		                             : fill_numbers(sweep, spec, best, arena, &columns[i]));
	}
	lk_vec_free(&all.list);
	lk_arena_free(&all.arena);
	return fine ? columns : NULL;
}
