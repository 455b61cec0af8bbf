/* calibrate_inference.c: `lockstep calibrate` of a table of generation: the five numbers of
 * inference engines, fitted to all rows together (fit/engine_fit.c), as the row "all" of the family
 * "generation". */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/stats.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "rollout/rollout.h"
#include "tables/tables.h"

/* Rows that can be predicted and are not suspect; the others teach nothing. */
static lk_status inference_terms(const lk_inference_runs *runs, lk_engine_terms *terms,
                                 double *measured, bool *use, lk_error *err) {
	for (size_t i = 0; i < runs->count; i++) {
		const lk_inference_run *run = &runs->at[i];
		lk_error unknown;
		measured[i] = run->seconds;
		if (run->why_not || run->suspect) continue;
		lk_status status = lk_engine_terms_of(&run->engine, run->prompt, run->response,
		                                      run->sequences, &terms[i], &unknown);
		if (status == LK_ERR_MEMORY) return lk_oom(err);
		use[i] = status == LK_OK;
	}
	return LK_OK;
}

static lk_status inference_calibrate(lk_arena *arena, const lk_inference_runs *runs,
                                     const char *source, const char *date, lk_calibration *out,
                                     lk_error *err) {
	lk_engine_terms *terms = LK_ARRAY(arena, lk_engine_terms, runs->count);
	double *measured = LK_ARRAY(arena, double, runs->count),
		   *misses = LK_ARRAY(arena, double, runs->count);
	bool *use = LK_ARRAY(arena, bool, runs->count);
	lk_engine_numbers numbers;
	size_t count = 0;
	if (!terms || !measured || !misses || !use) return lk_oom(err);
	LK_TRY(inference_terms(runs, terms, measured, use, err));
	lk_engine_fit(terms, measured, use, runs->count, &numbers);
	for (size_t i = 0; i < runs->count; i++)
		if (use[i])
			misses[count++] = fabs(log(lk_engine_seconds(&numbers, &terms[i]) / measured[i]));
	if (count == 0)
		return lk_fail(err, LK_ERR_INPUT, "calibrate inference",
		               "the table has no row that can be predicted");
	lk_calibration_row *row = lk_calibration_add(out, "generation", "all", "");
	if (!row) return lk_oom(err);
	row->points = (int)count;
	row->error = expm1(lk_mean(misses, count));
	row->source = source;
	row->date = date;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++)
		lk_calibration_put(row, lk_engine_number_limits[i].name, *lk_engine_number(&numbers, i));
	return LK_OK;
}

lk_status lk_calibrate_inference(lk_stream *in, const char *source, const char *date,
                                 lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_inference_runs runs = {0};
	const char *from = lk_arena_strdup(&out->arena, source),
			   *on = lk_arena_strdup(&out->arena, date);
	lk_status status = from && on ? lk_inference_read(&arena, in, &runs, err) : lk_oom(err);
	if (status == LK_OK) status = inference_calibrate(&arena, &runs, from, on, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
