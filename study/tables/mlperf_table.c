/* mlperf_table.c: reads tables of MLPerf steps. */
#include "base/arena.h"
#include "tables/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "base/text.h"

enum {
	ROWS = 100000,
	ID = 0,
	BENCHMARK,
	GPU,
	GPUS,
	BATCH,
	TIME,
	NODES,
	FRAMEWORK,
	SOURCE,
	COLUMNS,
	NEEDED = NODES
};
static const char *const columns[COLUMNS] = {"id",     "benchmark", "gpu",       "n_gpu", "gbs",
                                             "step_s", "nodes",     "framework", "source"};

static lk_status mlperf_table_number(const char *text, double low, double high, double *out,
                                     const char *where, lk_error *err) {
	*out = NAN;
	return *text ? lk_parse_real(text, low, high, out, where, err) : LK_OK;
}

/* Nodes stated by a system's name, "..._n4" or "..._n4_..."; 0: none. */
static int nodes_of(const char *name) {
	for (const char *at = name; (at = strstr(at, "_n")) != NULL; at++) {
		size_t digits = strspn(at + 2, "0123456789");
		if (digits && digits < 6 && (at[2 + digits] == '_' || at[2 + digits] == '\0'))
			return atoi(at + 2);
	}
	return 0;
}

/* "v5.0" of "mlperf v5.0 NVIDIA nyx_n1"; "" if the source names no round. */
static const char *mlperf_table_round(lk_arena *arena, const char *source) {
	static const char label[] = "mlperf ";
	const char *at = strstr(source, label);
	if (!at) return "";
	at += sizeof label - 1;
	return lk_arena_printf(arena, "%.*s", (int)strcspn(at, " "), at);
}

static lk_status mlperf_table_read_row(lk_arena *arena, const lk_csv *csv, const int *at,
                                       lk_mlperf_run *run, lk_error *err) {
	double gpus, nodes;
	run->where = lk_arena_strdup(arena, lk_csv_where(csv));
	run->id = lk_arena_strdup(arena, lk_csv_field(csv, at[ID]));
	run->benchmark = lk_arena_strdup(arena, lk_csv_field(csv, at[BENCHMARK]));
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->framework = lk_arena_strdup(arena, lk_csv_field(csv, at[FRAMEWORK]));
	run->round = mlperf_table_round(arena, lk_csv_field(csv, at[SOURCE]));
	if (!run->where || !run->id || !run->benchmark || !run->gpu || !run->framework || !run->round)
		return lk_oom(err);
	LK_TRY(mlperf_table_number(lk_csv_field(csv, at[GPUS]), 1, 1 << 20, &gpus, run->where, err));
	LK_TRY(mlperf_table_number(lk_csv_field(csv, at[NODES]), 1, 1 << 20, &nodes, run->where, err));
	LK_TRY(mlperf_table_number(lk_csv_field(csv, at[BATCH]), 1, 1e9, &run->batch, run->where, err));
	LK_TRY(mlperf_table_number(lk_csv_field(csv, at[TIME]), 1e-9, 1e6, &run->seconds, run->where,
	                           err));
	run->gpus = isnan(gpus) ? 0 : (int)gpus, run->nodes = isnan(nodes) ? 1 : (int)nodes;
	int named = nodes_of(lk_csv_field(csv, at[SOURCE]));
	run->named_nodes = named && !isnan(nodes) && named != run->nodes ? named : 0;
	return LK_OK;
}

struct reading {
	lk_arena *arena;
	lk_mlperf_runs *out;
};

static lk_status mlperf_table_add_row(void *context, const lk_csv *csv, const int *at,
                                      lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out)
	           ? mlperf_table_read_row(reading->arena, csv, at, lk_last(reading->out), err)
	           : lk_oom(err);
}

lk_status lk_mlperf_read(lk_arena *arena, lk_stream *in, lk_mlperf_runs *out, lk_error *err) {
	const lk_csv_table table = {
		columns, COLUMNS, NEEDED, "table of MLPerf steps", ROWS, mlperf_table_add_row, NULL};
	return lk_csv_read(in, &table, &(struct reading){arena, out}, err);
}
