/* calibrate_runs.c: from measured training runs to rows of a calibration: base constants, factors
 * of architectures, profiles of stacks, and ranges from cross-validation. */
#include "base/arena.h"
#include "validate/validate.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"

static lk_status fit_runs(lk_arena *arena, const lk_runs *runs, const lk_fit_watch *watch,
                          const char *source, const char *date, lk_calibration *out,
                          lk_error *err) {
	lk_runs_fit *fit;
	LK_TRY(lk_runs_fit_all(arena, runs, watch, &fit, err));
	LK_TRY(lk_runs_fit_rows(fit, source, date, out, err));
	return lk_runs_range_rows(arena, runs, fit, source, date, out, err);
}

lk_status lk_calibrate_run_tables(lk_stream *in, const char *const *more, int more_count,
                                  const lk_fit_watch *watch, const char *source, const char *date,
                                  lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_runs runs = {0};
	lk_status status = lk_runs_read(&arena, in, &runs, err);
	if (status == LK_OK) status = lk_runs_read_files(&arena, more, more_count, &runs, err);
	if (status == LK_OK && runs.count == 0)
		status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "the table has no rows");
	if (status == LK_OK) status = fit_runs(&arena, &runs, watch, source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_calibrate_runs(lk_stream *in, const char *source, const char *date,
                            lk_calibration *out, lk_error *err) {
	return lk_calibrate_run_tables(in, NULL, 0, NULL, source, date, out, err);
}
