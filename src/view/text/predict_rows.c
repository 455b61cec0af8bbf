/* predict_rows.c: predictions as rows of one table. What people look at is shown, the rest is there
 * for programs. A column is a line of `fixed`; after them stand those of swept options that have
 * no line, and those of the parts of a step. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "view/text/views.h"

typedef enum kind {
	BEST,
	NOTES,
	VERDICT,
	MODEL,
	REFUSED,
	OPTION,
	PART, /* made by hand */
	TEXT,
	LIST, /* of texts, as one */
	REAL,
	REAL_OR_NONE, /* the field of lk_prediction; OR_NONE: 0 means not known */
	INT,
	INT_OR_NONE,
	WIDE,
	NARROW, /* int, uint64_t, uint32_t */
} kind;

/* When people see a column: always; never; where its cells differ; where one is not 1; where one is
 * not empty; where one is not empty and no row has tokens. */
typedef enum show { ALWAYS, NEVER, VARIES, NOT_ONE, PRESENT, WITHOUT_TOKENS } show;

typedef char *shown_as(double number, char *out, size_t size);

struct spec {
	const char *key, *title;
	kind kind;
	show show;
	size_t offset;           /* of the field in lk_prediction */
	size_t count;            /* LIST: of the field with the number of its texts */
	shown_as *shown;         /* NULL: %.6g */
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

#define AT(field) offsetof(lk_prediction, field)

static const struct spec fixed[] = {
	{.key = "best", .title = "", .kind = BEST, .show = VARIES},
	{.key = "verdict", .title = "verdict", .kind = VERDICT},
	{.key = "peak_bytes", .title = "GiB", .kind = REAL, .offset = AT(peak_bytes), .shown = lk_gib},
	{.key = "usable_bytes",
     .title = "of GiB",
     .kind = REAL,
     .offset = AT(usable_bytes),
     .shown = lk_gib,
     .show = VARIES},
	{.key = "fullest_stage",
     .title = "stage",
     .kind = INT,
     .offset = AT(fullest_stage),
     .show = NEVER},
	{.key = "model", .title = "model", .kind = MODEL, .show = VARIES},
	{.key = "cluster", .title = "cluster", .kind = TEXT, .offset = AT(cluster), .show = NEVER},
	{.key = "gpus", .title = "GPUs", .kind = INT_OR_NONE, .offset = AT(gpus), .show = VARIES},
	{.key = "tp", .title = "tp", .kind = INT_OR_NONE, .offset = AT(tp)},
	{.key = "pp", .title = "pp", .kind = INT_OR_NONE, .offset = AT(pp)},
	{.key = "vp", .title = "vp", .kind = INT_OR_NONE, .offset = AT(vp), .show = NOT_ONE},
	{.key = "cp", .title = "cp", .kind = INT_OR_NONE, .offset = AT(cp), .show = NOT_ONE},
	{.key = "ep", .title = "ep", .kind = INT_OR_NONE, .offset = AT(ep), .show = NOT_ONE},
	{.key = "dp", .title = "dp", .kind = INT_OR_NONE, .offset = AT(dp)},
	{.key = "mbs", .title = "mbs", .kind = INT_OR_NONE, .offset = AT(mbs)},
	{.key = "gbs", .title = "gbs", .kind = INT_OR_NONE, .offset = AT(gbs)},
	{.key = "seq", .title = "seq", .kind = INT_OR_NONE, .offset = AT(seq), .show = PRESENT},
	{.key = "microbatches", .kind = INT_OR_NONE, .offset = AT(microbatches), .show = NEVER},
	{.key = "recompute", .title = "recompute", .kind = TEXT, .offset = AT(recompute)},
	{.key = "dtype", .title = "dtype", .kind = TEXT, .offset = AT(dtype)},
	{.key = "schedule", .title = "schedule", .kind = TEXT, .offset = AT(schedule), .show = VARIES},
};

static const struct spec results[] = {
	{.key = "step_time_s",
     .title = "step",
     .kind = REAL,
     .offset = AT(step_time_s),
     .shown = lk_format_seconds},
	{.key = "step_time_low_s",
     .title = "low",
     .kind = REAL,
     .offset = AT(step_time_low_s),
     .show = NEVER,
     .shown = lk_format_seconds},
	{.key = "step_time_high_s",
     .title = "high",
     .kind = REAL,
     .offset = AT(step_time_high_s),
     .show = NEVER,
     .shown = lk_format_seconds},
	{.key = "basis", .kind = TEXT, .offset = AT(basis), .show = NEVER},
	{.key = "tokens_per_s_per_gpu",
     .title = "tokens/s/GPU",
     .kind = REAL_OR_NONE,
     .offset = AT(tokens_per_s_per_gpu),
     .show = PRESENT,
     .shown = lk_format_thousands},
	{.key = "samples_per_s",
     .title = "samples/s",
     .kind = REAL,
     .offset = AT(samples_per_s),
     .show = WITHOUT_TOKENS,
     .shown = lk_format_thousands},
	{.key = "model_tflops_per_gpu",
     .kind = REAL,
     .offset = AT(model_flops_per_s_per_gpu),
     .show = NEVER},
	{.key = "mfu", .title = "MFU", .kind = REAL_OR_NONE, .offset = AT(mfu), .shown = lk_percent},
	{.key = "hfu",
     .title = "HFU",
     .kind = REAL_OR_NONE,
     .offset = AT(hfu),
     .shown = lk_percent,
     .show = NEVER},
	{.key = "peak_flops", .kind = REAL, .offset = AT(peak_flops), .show = NEVER},
	{.key = "days",
     .title = "days",
     .kind = REAL_OR_NONE,
     .offset = AT(days),
     .show = PRESENT,
     .shown = lk_days},
	{.key = "gpu_hours",
     .title = "GPU-hours",
     .kind = REAL_OR_NONE,
     .offset = AT(gpu_hours),
     .show = PRESENT,
     .shown = lk_format_thousands},
	{.key = "goodput",
     .title = "goodput",
     .kind = REAL_OR_NONE,
     .offset = AT(goodput),
     .show = PRESENT,
     .shown = lk_percent},
	{.key = "gpu_watts", .kind = REAL_OR_NONE, .offset = AT(energy.gpu_watts), .show = NEVER},
	{.key = "site_watts", .kind = REAL_OR_NONE, .offset = AT(energy.site_watts), .show = NEVER},
	{.key = "pue", .kind = REAL_OR_NONE, .offset = AT(energy.pue), .show = NEVER},
	{.key = "step_kwh", .kind = REAL_OR_NONE, .offset = AT(energy.step_kwh), .show = NEVER},
	{.key = "training_kwh",
     .title = "energy",
     .kind = REAL_OR_NONE,
     .offset = AT(energy.training_kwh),
     .show = PRESENT,
     .shown = lk_format_energy},
	{.key = "carbon_kg",
     .title = "CO2e",
     .kind = REAL_OR_NONE,
     .offset = AT(energy.carbon_kg),
     .show = PRESENT,
     .shown = lk_format_mass},
	{.key = "power_usd",
     .title = "power",
     .kind = REAL_OR_NONE,
     .offset = AT(energy.power_usd),
     .show = PRESENT,
     .shown = lk_format_dollars},
};

static const struct spec closing[] = {
	{.key = "operations", .kind = WIDE, .offset = AT(operations), .show = NEVER},
	{.key = "layer_operations", .kind = NARROW, .offset = AT(layer_operations), .show = NEVER},
	{.key = "ranks_simulated", .kind = NARROW, .offset = AT(ranks_simulated), .show = NEVER},
	{.key = "ranks", .kind = NARROW, .offset = AT(ranks), .show = NEVER},
	{.key = "ignored",
     .kind = LIST,
     .offset = AT(ignored),
     .count = AT(ignored_count),
     .show = NEVER},
	{.key = "notable",
     .title = "ignored flags",
     .kind = LIST,
     .offset = AT(ignored),
     .count = AT(notable_count),
     .show = PRESENT},
	{.key = "reproduce", .kind = TEXT, .offset = AT(reproduce), .show = NEVER},
	{.key = "searched", .kind = TEXT, .offset = AT(searched), .show = NEVER},
	{.key = "warning", .title = "warning", .kind = TEXT, .offset = AT(warning), .show = PRESENT},
	{.key = "refused", .title = "why refused", .kind = REFUSED, .show = PRESENT},
};

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

static void predict_rows_set_field(struct cell *out, const struct spec *spec,
                                   const lk_prediction *prediction) {
	const char *at = (const char *)prediction + spec->offset;
	double number = 0;
	switch (spec->kind) {
	case TEXT: predict_rows_set_text(out, *(const char *const *)(const void *)at); return;
	case WIDE: number = (double)*(const uint64_t *)(const void *)at; break;
	case NARROW: number = *(const uint32_t *)(const void *)at; break;
	case INT:
	case INT_OR_NONE: number = *(const int *)(const void *)at; break;
	default: number = *(const double *)(const void *)at;
	}
	bool none = number == 0 && (spec->kind == INT_OR_NONE || spec->kind == REAL_OR_NONE);
	if (spec->offset == AT(model_flops_per_s_per_gpu)) number /= 1e12;
	if (!none) predict_rows_set_number(out, number);
}

static void set_part(struct cell *out, const char *part, const lk_prediction *prediction) {
	if (prediction) predict_rows_set_number(out, 0);
	for (int i = 0; prediction && i < prediction->breakdown_count; i++)
		if (strcmp(prediction->breakdown[i].key, part) == 0)
			predict_rows_set_number(out, prediction->breakdown[i].exposed_s);
}

static const char *predict_rows_join(const struct spec *spec, const lk_prediction *prediction,
                                     lk_arena *arena) {
	const char *at = (const char *)prediction, *all = "";
	const char *const *texts = *(const char *const *const *)(const void *)(at + spec->offset);
	int count = *(const int *)(const void *)(at + spec->count);
	for (int i = 0; i < count && all; i++)
		all = lk_arena_printf(arena, "%s%s%s", all, i ? "; " : "", texts[i]);
	return all;
}

/* Texts that are made for it are owned by the arena, or lie in the cell. */
static void fill_cell(const lk_sweep *sweep, const struct spec *spec, size_t row, long best,
                      lk_arena *arena, struct cell *out) {
	const lk_sweep_row *sweep_row = &sweep->rows[row];
	const lk_prediction *prediction = sweep_row->prediction;
	out->filled = out->is_text = false;
	switch (spec->kind) {
	case BEST:
		predict_rows_set_number(out, (long)row == best);
		lk_copy(out->shown, sizeof out->shown, (long)row == best ? "*" : "");
		return;
	case VERDICT:
		predict_rows_set_text(out, !prediction        ? "refused"
		                           : prediction->fits ? "fits"
		                                              : "does not fit");
		return;
	case MODEL:
		predict_rows_set_text(out, sweep_row->request && sweep_row->request->model
		                               ? sweep_row->request->model
		                           : prediction ? prediction->model
		                                        : NULL);
		return;
	case REFUSED:
		predict_rows_set_text(
			out, sweep_row->refusal
					 ? lk_error_text(sweep_row->refusal, out->buffer, sizeof out->buffer)
					 : NULL);
		return;
	case OPTION: set_asked(out, spec->option, sweep_row->request); break;
	case PART: set_part(out, spec->part, prediction); return;
	case LIST:
		if (prediction) predict_rows_set_text(out, predict_rows_join(spec, prediction, arena));
		return;
	default:
		if (prediction) predict_rows_set_field(out, spec, prediction);
		else if (option_of(spec->key)) set_asked(out, option_of(spec->key), sweep_row->request);
	}
}

/* What people see of it. */
static void show_cell(const struct spec *spec, struct cell *out) {
	if (!out->filled || out->is_text || spec->kind == BEST) return;
	if (spec->shown) spec->shown(out->number, out->shown, sizeof out->shown);
	else
		lk_format_shortest(spec->kind == REAL_OR_NONE ? round(out->number * 10) / 10 : out->number,
		                   out->shown, sizeof out->shown);
}

/* ---- notes below the table ---- */

static bool is_note(const struct spec *spec) {
	return strcmp(spec->key, "refused") == 0 || strcmp(spec->key, "warning") == 0 ||
	       strcmp(spec->key, "notable") == 0;
}

/* The number of a text, from 1. */
static size_t note_number(lk_sweep_notes *notes, const struct spec *spec, const char *text) {
	const char *whole =
		spec->kind == REFUSED ? text : lk_arena_printf(&notes->arena, "%s: %s", spec->title, text);
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
		fill_cell(sweep, &closing[i], row, -1, arena, &note);
		if (!note.filled || !*note.text) continue;
		lk_text_add(&numbers, "%s%zu", out->filled ? ", " : "",
		            note_number(sweep->notes, &closing[i], note.text));
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
		if (!add_spec(all, some[i])) return false;
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
	return spec->kind >= REAL;
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
		                         .title = spec->title,
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
	return spec->kind == VERDICT || spec->kind == MODEL || spec->kind == REFUSED ||
	       spec->kind == TEXT || spec->kind == LIST ||
	       (spec->kind == OPTION && spec->option->kind == LK_OPTION_TEXT);
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
