/* calibrate_peaks.c: the errors of predicted peaks against measured ones, as rows of family
 * "range". The memory model itself has no fitted numbers: it counts tensors. */
#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "validate/validate.h"

static lk_status add_band(const lk_memory_residual *rows, size_t count, const char *class,
                          const char *source, const char *date, lk_calibration *out,
                          lk_error *err) {
	lk_memory_band band;
	LK_TRY(lk_memory_band_fit(rows, count, class, NULL, &band, err));
	if (band.rows == 0) return LK_OK;
	lk_calibration_row *row = lk_calibration_add(out, "range", "peak-memory", class);
	if (!row) return lk_oom(err);
	lk_calibration_put(row, "low", band.low);
	lk_calibration_put(row, "high", band.high);
	row->points = band.rows;
	row->error = band.error;
	row->date = date;
	row->source = source;
	return LK_OK;
}

static lk_status add_bands(lk_memory_runs *runs, const char *source, const char *date,
                           lk_calibration *out, lk_error *err) {
	lk_memory_residual *rows = LK_ARRAY(&out->arena, lk_memory_residual, runs->count + 1);
	const char *kept_source = lk_arena_strdup(&out->arena, source),
			   *kept_date = lk_arena_strdup(&out->arena, date);
	if (!rows || !kept_source || !kept_date) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) {
		const lk_memory_run *run = &runs->at[i];
		rows[i] = (lk_memory_residual){.class = run->class, .fold = run->test};
		if (*run->refused || *run->suspect) continue;
		rows[i].measured = run->peak;
		LK_TRY(lk_memory_predict(run, &rows[i].predicted, err));
	}
	for (int c = 0; c < LK_MEMORY_CLASSES; c++)
		LK_TRY(add_band(rows, runs->count, lk_memory_classes[c], kept_source, kept_date, out, err));
	return LK_OK;
}

lk_status lk_calibrate_peaks(lk_stream *in, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	lk_memory_runs runs = {0};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = lk_memory_read(&arena, in, &runs, err);
	if (status == LK_OK) status = add_bands(&runs, source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
