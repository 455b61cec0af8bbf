/* models_table.c: reads tables of whole networks. */
#include "base/arena.h"
#include "tables/tables.h"

#include <stdio.h>
#include <string.h>
#include "io/csv.h"
#include "base/text.h"
#include "model/read/read.h"

enum { ROWS = 100000 };
enum { GPU, MODEL, PHASE, SEQ, BATCH, MODE, TIME, COLUMNS };
static const char *const columns[COLUMNS] = {"gpu",   "model", "phase", "seq",
                                             "batch", "mode",  "e2e_ms"};

/* Names of the table that are no presets. "gpt3_xl" there has 24 heads of 128 and a width of
 * 3072. */
static const struct {
	const char *name, *preset;
} names[] = {{"opt_13", "opt-1.3b"}, {"gpt3_27", "gpt3-2.7b"}, {"gpt3_xl", "gpt3-24x3072"}};

static lk_status models_table_find_model(const char *name, lk_model *out, bool *known,
                                         lk_error *err) {
	*known = lk_eager_switch(name, out);
	if (*known) return LK_OK;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i].name) == 0) name = names[i].preset;
	LK_TRY(lk_model_find(name, out, known, err));
	*known = *known && lk_eager_known(out);
	return LK_OK;
}

/* "pp4_1", "tp4" */
static lk_status read_mode(lk_model_run *run, lk_error *err) {
	run->data = run->tensor = run->stages = run->micro = 1;
	run->compiled = strcmp(run->mode, "fusion") == 0;
	if (run->compiled || strcmp(run->mode, "single") == 0) return LK_OK;
	static const char *const kinds[] = {"dp", "tp", "pp"};
	int *const counts[] = {&run->data, &run->tensor, &run->stages};
	for (int i = 0; i < 3; i++) {
		int used = 0;
		if (strncmp(run->mode, kinds[i], 2) != 0) continue;
		if (sscanf(run->mode + 2, "%4d%n", counts[i], &used) != 1 || *counts[i] < 1) break;
		const char *rest = run->mode + 2 + used;
		if (!*rest) return LK_OK;
		used = 0;
		if (i == 2 && sscanf(rest, "_%4d%n", &run->micro, &used) == 1 && run->micro >= 1 &&
		    !rest[used])
			return LK_OK;
		break;
	}
	lk_fail(err, LK_ERR_INPUT, run->where, "column mode: \"%.40s\" is not a way to run", run->mode);
	return lk_hint(err, "give single, fusion, dpN, tpN or ppN_M");
}

static lk_status models_table_read_row(lk_arena *arena, const lk_csv *csv, const int *at,
                                       lk_model_run *run, lk_error *err) {
	const char **texts[] = {&run->gpu, &run->name, &run->phase, &run->mode};
	const int from[] = {GPU, MODEL, PHASE, MODE};
	for (int i = 0; i < 4; i++)
		if (!(*texts[i] = lk_arena_strdup(arena, lk_csv_field(csv, at[from[i]]))))
			return lk_oom(err);
	if (!(run->where = lk_arena_strdup(arena, lk_csv_where(csv)))) return lk_oom(err);
	long long seq, batch;
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[SEQ]), 1, 1 << 20, &seq, run->where, err));
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[BATCH]), 1, 1 << 20, &batch, run->where, err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[TIME]), 1e-6, 1e9, &run->seconds, run->where, err));
	run->seq = (double)seq;
	run->batch = (double)batch;
	run->seconds *= 1e-3;
	run->train = strcmp(run->phase, "train") == 0;
	if (!run->train && strcmp(run->phase, "inf") != 0) {
		lk_fail(err, LK_ERR_INPUT, run->where, "column phase: \"%.40s\" is neither inf nor train",
		        run->phase);
		return LK_ERR_INPUT;
	}
	run->device = lk_device_find(run->gpu);
	LK_TRY(models_table_find_model(run->name, &run->model, &run->known, err));
	return read_mode(run, err);
}

struct reading {
	lk_arena *arena;
	lk_model_runs *out;
};

static lk_status models_table_add_row(void *context, const lk_csv *csv, const int *at,
                                      lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out)
	           ? models_table_read_row(reading->arena, csv, at, lk_last(reading->out), err)
	           : lk_oom(err);
}

lk_status lk_models_read(lk_arena *arena, lk_stream *in, lk_model_runs *out, lk_error *err) {
	const lk_csv_table table = {
		columns, COLUMNS, COLUMNS, "table of whole networks", ROWS, models_table_add_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){arena, out}, err);
}
