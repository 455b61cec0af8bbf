/* dlrm_table.c: reads tables of recommendation models' steps. */
#include "base/arena.h"
#include "tables/tables.h"

#include <string.h>

#include "io/csv.h"
#include "base/text.h"
#include "model/read/read.h"

enum { ROWS = 100000, GPU = 0, MODEL, BATCH, TIME, COLUMNS };
static const char *const columns[COLUMNS] = {"gpu", "model", "batch_size", "measured_iter_ms"};
static const char digitised_time[] = "measured_iter_ms_digitised"; /* the same, read off a figure */

/* Find the model. A name that is no preset is not an error: the row is skipped. A file that is
 * named must be readable. */
static lk_status dlrm_table_find_model(lk_arena *arena, lk_dlrm_run *run, lk_error *err) {
	lk_error unknown;
	if (!lk_ends_in(run->name, ".json")) {
		lk_status status = lk_dlrm_preset(arena, run->name, &run->model, &unknown);
		run->known = status == LK_OK;
		return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
	}
	LK_TRY(lk_dlrm_file(arena, run->name, &run->model, err));
	run->known = true;
	return LK_OK;
}

static lk_status dlrm_table_read_row(lk_arena *arena, const lk_csv *csv, const int *at,
                                     lk_dlrm_run *run, lk_error *err) {
	long long batch;
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->name = lk_arena_strdup(arena, lk_csv_field(csv, at[MODEL]));
	run->where = lk_arena_strdup(arena, lk_csv_where(csv));
	if (!run->gpu || !run->name || !run->where) return lk_oom(err);
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[BATCH]), 1, 1 << 24, &batch, run->where, err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[TIME]), 1e-6, 1e9, &run->seconds, run->where, err));
	run->batch = (double)batch;
	run->seconds *= 1e-3;
	run->device = lk_device_find(run->gpu);
	return dlrm_table_find_model(arena, run, err);
}

static lk_status dlrm_table_read_rows(lk_arena *arena, lk_csv *csv, const char *file,
                                      lk_dlrm_runs *out, lk_error *err) {
	int at[COLUMNS];
	bool digitised = lk_csv_column(csv, digitised_time) >= 0;
	LK_TRY(lk_csv_find(csv, columns, COLUMNS, digitised ? TIME : COLUMNS,
	                   "table of recommendation models", at, err));
	if (at[TIME] < 0) at[TIME] = lk_csv_column(csv, digitised_time);
	for (bool more;;) {
		LK_TRY(lk_csv_next(csv, &more, err));
		if (!more) return LK_OK;
		if (out->count == ROWS) return lk_fail(err, LK_ERR_INPUT, file, "more than %d rows", ROWS);
		if (!lk_push(out)) return lk_oom(err);
		LK_TRY(dlrm_table_read_row(arena, csv, at, lk_last(out), err));
	}
}

lk_status lk_dlrm_runs_read(lk_arena *arena, lk_stream *in, lk_dlrm_runs *out, lk_error *err) {
	lk_csv *csv;
	LK_TRY(lk_csv_open(in, &csv, err));
	lk_status status = dlrm_table_read_rows(arena, csv, lk_stream_name(in), out, err);
	lk_csv_close(csv);
	return status;
}
