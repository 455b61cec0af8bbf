/* slowdown_table.c: reads a table of kernels, each with its duration alone and during communication
 * and with Nsight Compute's metrics of it alone. Durations in ns; throughputs, occupancies and hit
 * rates in percent. */
#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "io/csv.h"
#include "base/text.h"

enum {
	ALONE,
	BESIDE,
	RATIO,
	COMPUTE,
	MEMORY,
	DRAM,
	ACHIEVED,
	MAXIMUM,
	L1,
	L2,
	NUMBERS,
	NAME = NUMBERS,
	ID,
	COLUMNS,
};

static const struct column {
	const char *name;
	double low, high;
} columns[COLUMNS] = {
	[ALONE] = {"ground_truth", 1, 1e15},
	[BESIDE] = {"duration", 1, 1e15},
	[RATIO] = {"overlap_ratio", 0, 1},
	[COMPUTE] = {"Compute throughput", 0, 1000},
	[MEMORY] = {"Memory throughput", 0, 1000},
	[DRAM] = {"DRAM throughput", 0, 1000},
	[ACHIEVED] = {"Achieved occupancy", 0, 1000},
	[MAXIMUM] = {"Maximum occupancy", 0, 1000},
	[L1] = {"L1 hit rate", 0, 1000},
	[L2] = {"L2 hit rate", 0, 1000},
	[NAME] = {"Kernel Name", 0, 0},
	[ID] = {"id", 0, 0},
};

enum { ROWS = 1 << 13 };

static lk_status slowdown_table_read_numbers(const lk_csv *csv, const int *column, double *value,
                                             lk_error *err) {
	for (int c = 0; c < NUMBERS; c++) {
		char where[LK_CSV_PLACE];
		LK_TRY(lk_parse_real(lk_csv_field(csv, column[c]), columns[c].low, columns[c].high,
		                     &value[c], lk_csv_place(csv, columns[c].name, where), err));
	}
	return LK_OK;
}

struct reading {
	lk_arena *arena;
	lk_slowdown_table *out;
};

static lk_status slowdown_table_read_row(void *context, const lk_csv *csv, const int *column,
                                         lk_error *err) {
	const struct reading *reading = context;
	double v[NUMBERS];
	LK_TRY(slowdown_table_read_numbers(csv, column, v, err));
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_slowdown_row *row = lk_last(reading->out);
	*row = (lk_slowdown_row){
		.id = lk_arena_strdup(reading->arena, lk_csv_field(csv, column[ID])),
		.name = lk_arena_strdup(reading->arena, lk_csv_field(csv, column[NAME])),
		.where = lk_arena_strdup(reading->arena, lk_csv_where(csv)),
		.measured_s = v[BESIDE] * 1e-9,
		.kernel =
			{
				.alone_s = v[ALONE] * 1e-9,
				.ratio = v[RATIO],
				.compute = v[COMPUTE] / 100,
				.memory = v[MEMORY] / 100,
				.dram = v[DRAM] / 100,
				.achieved = v[ACHIEVED] / 100,
				.maximum = v[MAXIMUM] / 100,
				.l1 = fmin(v[L1] / 100, 1),
				.l2 = fmin(v[L2] / 100, 1),
			},
	};
	return row->id && row->name && row->where ? LK_OK : lk_oom(err);
}

lk_status lk_slowdown_read(lk_arena *arena, lk_stream *in, lk_slowdown_table *out, lk_error *err) {
	const char *names[COLUMNS];
	for (int c = 0; c < COLUMNS; c++) names[c] = columns[c].name;
	const lk_csv_table table = {
		names, COLUMNS, NUMBERS, "table of overlapped kernels", ROWS, slowdown_table_read_row,
		NULL};
	return lk_csv_read(in, &table, &(struct reading){arena, out}, err);
}
