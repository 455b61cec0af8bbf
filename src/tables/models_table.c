/* models_table.c: reads tables of whole networks. */
#include "tables/tables.h"

#include <stdio.h>
#include <string.h>
#include "io/csv.h"
#include "base/text.h"

enum { ROWS = 100000 };
enum { GPU, MODEL, PHASE, SEQ, BATCH, MODE, TIME, COLUMNS };
static const char *const columns[COLUMNS] = {"gpu", "model", "phase", "seq", "batch", "mode", "e2e_ms"};

/* Names of the table that are no preset's. "gpt3_xl" there has 24 heads of 128 and a width of 3072. */
static const struct {
	const char *name, *preset;
} names[] = {{"opt_13", "opt-1.3b"}, {"gpt3_27", "gpt3-2.7b"}, {"gpt3_xl", "gpt3-24x3072"}};

static bool find_model(const char *name, lk_model *out) {
	lk_error unused;
	if (lk_eager_switch(name, out)) return true;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i].name) == 0) name = names[i].preset;
	return lk_model_preset(name, out, &unused) == LK_OK && lk_eager_known(out);
}

static lk_status bad_mode(const char *where, const char *text, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, where, "column mode: \"%.40s\" is no way to run", text);
	return lk_hint(err, "give single, fusion, dpN, tpN or ppN_M");
}

/* "pp4_1", "tp4" */
static lk_status read_mode(lk_model_run *r, lk_error *err) {
	r->data = r->tensor = r->stages = r->micro = 1;
	r->compiled = strcmp(r->mode, "fusion") == 0;
	if (r->compiled || strcmp(r->mode, "single") == 0) return LK_OK;
	static const char *const kinds[] = {"dp", "tp", "pp"};
	int *const counts[] = {&r->data, &r->tensor, &r->stages};
	for (int i = 0; i < 3; i++) {
		int used = 0;
		if (strncmp(r->mode, kinds[i], 2) != 0) continue;
		if (sscanf(r->mode + 2, "%4d%n", counts[i], &used) != 1 || *counts[i] < 1) break;
		const char *rest = r->mode + 2 + used;
		if (!*rest) return LK_OK;
		used = 0;
		if (i == 2 && sscanf(rest, "_%4d%n", &r->micro, &used) == 1 && r->micro >= 1 && !rest[used]) return LK_OK;
		break;
	}
	return bad_mode(r->where, r->mode, err);
}

static lk_status read_row(lk_arena *arena, const lk_csv *csv, const int *at, lk_model_run *r, lk_error *err) {
	const char **texts[] = {&r->gpu, &r->name, &r->phase, &r->mode};
	const int from[] = {GPU, MODEL, PHASE, MODE};
	for (int i = 0; i < 4; i++)
		if (!(*texts[i] = lk_arena_strdup(arena, lk_csv_field(csv, at[from[i]])))) return lk_oom(err);
	if (!(r->where = lk_arena_strdup(arena, lk_csv_where(csv)))) return lk_oom(err);
	long long seq, batch;
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[SEQ]), 1, 1 << 20, &seq, r->where, err));
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[BATCH]), 1, 1 << 20, &batch, r->where, err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[TIME]), 1e-6, 1e9, &r->seconds, r->where, err));
	r->seq = (double)seq, r->batch = (double)batch, r->seconds *= 1e-3;
	r->train = strcmp(r->phase, "train") == 0;
	if (!r->train && strcmp(r->phase, "inf") != 0) {
		lk_fail(err, LK_ERR_INPUT, r->where, "column phase: \"%.40s\" is neither inf nor train", r->phase);
		return LK_ERR_INPUT;
	}
	r->device = lk_device_find(r->gpu);
	r->known = find_model(r->name, &r->model);
	return read_mode(r, err);
}

struct reading {
	lk_arena *arena;
	lk_model_runs *out;
};

static lk_status add_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *r = context;
	return lk_push(r->out) ? read_row(r->arena, csv, at, lk_last(r->out), err) : lk_oom(err);
}

lk_status lk_models_read(lk_arena *arena, lk_stream *in, lk_model_runs *out, lk_error *err) {
	const lk_csv_table table = {columns, COLUMNS, COLUMNS, "table of whole networks", ROWS, add_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){arena, out}, err);
}
