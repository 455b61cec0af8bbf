/* calibrate_kernels.c: `lockstep calibrate ops`. Memory-bound operations: a row of family "memory"
 * for each device, operation and format, and the widths of ranges from predictions of rows whose
 * width the fit had not seen. */
#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "validate/validate.h"

static lk_status fit_groups(lk_memory_table *table, const char *source, const char *date,
                            lk_calibration *out, lk_error *err) {
	for (size_t i = 0; i < table->groups.count; i++) {
		lk_memory_rows *rows = &table->groups.at[i];
		if (rows->rows.count < LK_MEMORY_POINTS_LEAST) continue;
		lk_memory_group group = lk_memory_table_points(table, rows, -1);
		LK_TRY(
			lk_memory_fit_row(out, &group, lk_memory_table_whole(table, rows), source, date, err));
	}
	return LK_OK;
}

static lk_status write_ranges(const lk_op_samples *samples, const char *source, const char *date,
                              lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_miss *misses;
	double share;
	lk_status status = lk_ops_memory_misses(&arena, samples, &misses, &share, err);
	if (status == LK_OK)
		status = lk_misses_write_of(&arena, misses, samples->count, share, "memory", source, date,
		                            out, err);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_calibrate_memory(const lk_op_samples *samples, const char *source, const char *date,
                              lk_calibration *out, lk_error *err) {
	lk_memory_table table;
	lk_status status =
		lk_memory_table_sort(&out->arena, samples->at, samples->count, NULL, &table, err);
	bool any = status == LK_OK && table.groups.count > 0;
	if (any) status = fit_groups(&table, source, date, out, err);
	lk_memory_table_free(&table);
	return any && status == LK_OK ? write_ranges(samples, source, date, out, err) : status;
}

/* ---- calibrate ops ----
 *
 * `lockstep calibrate ops`: numbers for kernels from a table of their times. */

lk_status lk_calibrate_ops(lk_stream *in, const char *source, const char *date, lk_calibration *out,
                           lk_error *err) {
	lk_op_samples samples = {0};
	lk_status status = lk_ops_read(&out->arena, in, &samples, err);
	if (status == LK_OK) status = lk_calibrate_gemm(&samples, source, date, out, err);
	if (status == LK_OK) status = lk_calibrate_memory(&samples, source, date, out, err);
	lk_vec_free(&samples);
	return status;
}

/* ---- calibrate kernels ----
 *
 * `lockstep calibrate kernels`: numbers of kernel laws from a table of isolated kernels. */

lk_status lk_calibrate_laws(lk_stream *in, const char *source, const char *date,
                            lk_calibration *out, lk_error *err) {
	lk_kernel_rows rows = {0};
	lk_status status = lk_kernel_rows_read(&out->arena, in, &rows, err);
	if (status == LK_OK) status = lk_kernel_fit_rows(&rows, source, date, out, err);
	lk_vec_free(&rows);
	return status;
}
