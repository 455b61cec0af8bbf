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

enum { FEWEST = 20 }; /* rows of a software */

/* What a row measures: all of its tokens, or the first one. */
struct inference_times {
	lk_engine_terms *terms;
	double *measured;
	bool *known;
};

struct inference_rows {
	const lk_inference_runs *runs;
	struct inference_times tokens, first;
	double *misses, *weight;
};

/* Use rows that can be predicted and are not suspect; skip the others. Rows of throughput have no
 * first token. */
static lk_status inference_terms(lk_arena *arena, const lk_inference_runs *runs, bool first,
                                 struct inference_times *out, lk_error *err) {
	lk_engine_priced *priced = NULL;
	for (size_t i = 0; i < runs->count; i++) {
		const lk_inference_run *run = &runs->at[i];
		lk_error unknown;
		out->measured[i] = first ? run->first_s : run->seconds;
		if (run->why_not || run->suspect || !(out->measured[i] > 0)) continue;
		lk_status status = lk_inference_terms(arena, run, first, &priced, &out->terms[i], &unknown);
		if (status == LK_ERR_MEMORY) return lk_oom(err);
		out->known[i] = status == LK_OK;
	}
	return LK_OK;
}

/* Every table weighs the same: rows of a table share its weight. */
static size_t inference_weigh(const struct inference_rows *rows,
                              const struct inference_times *times,
                              const lk_engine_software *software) {
	size_t count = 0, used[2] = {0};
	for (size_t i = 0; i < rows->runs->count; i++) {
		const lk_inference_run *run = &rows->runs->at[i];
		bool use = times->known[i] &&
		           (!software || lk_engine_software_fitted(run->engine.software) == software);
		rows->weight[i] = use;
		used[run->served.sequences > 0] += use;
		count += use;
	}
	for (size_t i = 0; i < rows->runs->count; i++)
		if (rows->weight[i] > 0)
			rows->weight[i] = 1.0 / (double)used[rows->runs->at[i].served.sequences > 0];
	return count;
}

/* Returns the number of rows; numbers keep what too few rows do not tell. */
static size_t inference_fit(const struct inference_rows *rows, const struct inference_times *times,
                            const lk_engine_software *software, lk_engine_fitted kind,
                            lk_engine_numbers *numbers) {
	size_t count = inference_weigh(rows, times, software);
	const lk_engine_rows fitted = {times->terms, times->measured, rows->weight, rows->runs->count};
	if (count >= (software ? FEWEST : 1)) lk_engine_fit(&fitted, kind, numbers);
	return count;
}

/* A row of the numbers of one software, or of all rows if it is NULL: those of the kind, and the
 * time of a request. None with too few rows. */
static lk_status inference_add(const struct inference_rows *rows,
                               const lk_engine_software *software, const char *source,
                               const char *date, lk_engine_fitted kind, lk_engine_numbers *numbers,
                               lk_calibration *out, lk_error *err) {
	size_t count = inference_fit(rows, &rows->tokens, software, kind, numbers), misses = 0;
	if (software && count < FEWEST) return LK_OK;
	if (count == 0)
		return lk_fail(err, LK_ERR_INPUT, "calibrate inference",
		               "the table has no row that can be predicted");
	for (size_t i = 0; i < rows->runs->count; i++)
		if (rows->weight[i] > 0)
			rows->misses[misses++] = fabs(
				log(lk_engine_seconds(numbers, &rows->tokens.terms[i]) / rows->tokens.measured[i]));
	size_t firsts = inference_fit(rows, &rows->first, software, LK_ENGINE_FIT_REQUEST, numbers);
	lk_calibration_row *row =
		lk_calibration_add(out, "generation", software ? software->name : "all", "");
	if (!row) return lk_oom(err);
	row->points = (int)count;
	row->error = expm1(lk_mean(rows->misses, misses));
	row->source = source;
	row->date = date;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++)
		if (i == LK_ENGINE_REQUEST ? firsts >= FEWEST
		                           : kind == LK_ENGINE_FIT_ALL || i == LK_ENGINE_FLOOR ||
		                                 i == LK_ENGINE_STEP || i == LK_ENGINE_SEQUENCE)
			lk_calibration_put(row, lk_engine_number_limits[i].name, *lk_engine_number(numbers, i));
	return LK_OK;
}

/* Software that is like another one differs from it in its host. Early releases have no row. */
static lk_status inference_add_software(const struct inference_rows *rows,
                                        const lk_engine_software *software,
                                        const lk_engine_numbers *all, const char *source,
                                        const char *date, lk_calibration *out, lk_error *err) {
	const lk_engine_software *alike = lk_engine_software_find(software->alike);
	lk_engine_numbers numbers = *all;
	if (software->early) return LK_OK;
	if (alike) inference_fit(rows, &rows->tokens, alike, LK_ENGINE_FIT_ALL, &numbers);
	return inference_add(rows, software, source, date,
	                     alike ? LK_ENGINE_FIT_HOST : LK_ENGINE_FIT_ALL, &numbers, out, err);
}

static bool times_make(lk_arena *arena, size_t count, struct inference_times *out) {
	out->terms = LK_ARRAY(arena, lk_engine_terms, count);
	out->measured = LK_ARRAY(arena, double, count);
	out->known = LK_ARRAY(arena, bool, count);
	return out->terms && out->measured && out->known;
}

static lk_status inference_calibrate(lk_arena *arena, const lk_inference_runs *runs,
                                     const char *source, const char *date, lk_calibration *out,
                                     lk_error *err) {
	struct inference_rows rows = {.runs = runs,
	                              .misses = LK_ARRAY(arena, double, runs->count),
	                              .weight = LK_ARRAY(arena, double, runs->count)};
	lk_engine_numbers all = {0};
	if (!rows.misses || !rows.weight || !times_make(arena, runs->count, &rows.tokens) ||
	    !times_make(arena, runs->count, &rows.first))
		return lk_oom(err);
	LK_TRY(inference_terms(arena, runs, false, &rows.tokens, err));
	LK_TRY(inference_terms(arena, runs, true, &rows.first, err));
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++)
		*lk_engine_number(&all, i) = lk_engine_number_limits[i].start;
	LK_TRY(inference_add(&rows, NULL, source, date, LK_ENGINE_FIT_ALL, &all, out, err));
	for (int i = 0; lk_engine_software_at(i); i++)
		LK_TRY(
			inference_add_software(&rows, lk_engine_software_at(i), &all, source, date, out, err));
	return LK_OK;
}

static lk_status inference_read_more(lk_arena *arena, const char *path, lk_inference_runs *runs,
                                     lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_serving_read(arena, in, runs, err);
	lk_stream_close(in);
	return status;
}

lk_status lk_calibrate_inference_tables(lk_stream *in, const char *const *more, int more_count,
                                        const char *source, const char *date, lk_calibration *out,
                                        lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_inference_runs runs = {0};
	const char *from = lk_arena_strdup(&out->arena, source),
			   *on = lk_arena_strdup(&out->arena, date);
	lk_status status = from && on ? lk_inference_read(&arena, in, &runs, err) : lk_oom(err);
	for (int i = 0; status == LK_OK && i < more_count; i++)
		status = inference_read_more(&arena, more[i], &runs, err);
	if (status == LK_OK) status = inference_calibrate(&arena, &runs, from, on, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_calibrate_inference(lk_stream *in, const char *source, const char *date,
                                 lk_calibration *out, lk_error *err) {
	return lk_calibrate_inference_tables(in, NULL, 0, source, date, out, err);
}
