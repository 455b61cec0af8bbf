/* calibrate_inference.c: `lockstep calibrate` of a table of generation: the numbers of
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

/* Use rows that can be predicted and are not suspect; skip the others. */
static lk_status inference_terms(lk_arena *arena, const lk_inference_runs *runs,
                                 lk_engine_terms *terms, double *measured, bool *use,
                                 lk_error *err) {
	for (size_t i = 0; i < runs->count; i++) {
		const lk_inference_run *run = &runs->at[i];
		lk_error unknown;
		measured[i] = run->seconds;
		if (run->why_not || run->suspect) continue;
		lk_status status = lk_inference_terms(arena, run, &terms[i], &unknown);
		if (status == LK_ERR_MEMORY) return lk_oom(err);
		use[i] = status == LK_OK;
	}
	return LK_OK;
}

struct inference_rows {
	const lk_inference_runs *runs;
	lk_engine_terms *terms;
	double *measured, *misses;
	bool *known, *use;
};

/* A row of the numbers of one software; of all rows if it is NULL. None with too few rows. */
static lk_status inference_add(const struct inference_rows *rows,
                               const lk_engine_software *software, const char *source,
                               const char *date, lk_calibration *out, lk_error *err) {
	enum { FEWEST = 20 };
	lk_engine_numbers numbers;
	size_t count = 0, misses = 0;
	for (size_t i = 0; i < rows->runs->count; i++) {
		const lk_engine_software *of = rows->runs->at[i].engine.software;
		rows->use[i] = rows->known[i] && (!software || lk_engine_software_fitted(of) == software);
		count += rows->use[i];
	}
	if (software && count < FEWEST) return LK_OK;
	if (count == 0)
		return lk_fail(err, LK_ERR_INPUT, "calibrate inference",
		               "the table has no row that can be predicted");
	lk_engine_fit(rows->terms, rows->measured, rows->use, rows->runs->count, &numbers);
	for (size_t i = 0; i < rows->runs->count; i++)
		if (rows->use[i])
			rows->misses[misses++] =
				fabs(log(lk_engine_seconds(&numbers, &rows->terms[i]) / rows->measured[i]));
	lk_calibration_row *row =
		lk_calibration_add(out, "generation", software ? software->name : "all", "");
	if (!row) return lk_oom(err);
	row->points = (int)count;
	row->error = expm1(lk_mean(rows->misses, misses));
	row->source = source;
	row->date = date;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++)
		lk_calibration_put(row, lk_engine_number_limits[i].name, *lk_engine_number(&numbers, i));
	return LK_OK;
}

static lk_status inference_calibrate(lk_arena *arena, const lk_inference_runs *runs,
                                     const char *source, const char *date, lk_calibration *out,
                                     lk_error *err) {
	struct inference_rows rows = {.runs = runs,
	                              .terms = LK_ARRAY(arena, lk_engine_terms, runs->count),
	                              .measured = LK_ARRAY(arena, double, runs->count),
	                              .misses = LK_ARRAY(arena, double, runs->count),
	                              .known = LK_ARRAY(arena, bool, runs->count),
	                              .use = LK_ARRAY(arena, bool, runs->count)};
	if (!rows.terms || !rows.measured || !rows.misses || !rows.known || !rows.use)
		return lk_oom(err);
	LK_TRY(inference_terms(arena, runs, rows.terms, rows.measured, rows.known, err));
	LK_TRY(inference_add(&rows, NULL, source, date, out, err));
	for (int i = 0; lk_engine_software_at(i); i++)
		LK_TRY(inference_add(&rows, lk_engine_software_at(i), source, date, out, err));
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
