/* scoring.c: rows, divisions and baselines that every kind of validation fills. */
#include <math.h>

#include "base/arena.h"
#include "lockstep/predict.h"
#include "validate/validate.h"

lk_status lk_scoring_rows(lk_arena *arena, size_t count, lk_scoring *out, lk_error *err) {
	out->rows = LK_ARRAY(arena, lk_validated, count);
	out->scores = LK_ARRAY(arena, lk_score, count);
	if (!out->rows || !out->scores) return lk_oom(err);
	out->count = count;
	for (size_t i = 0; i < count; i++) {
		out->rows[i] = (lk_validated){
			.row = (int)i + 1,
			.id = "",
			.where = "",
			.stack = "",
			.release = "",
			.model = "",
			.gpu = "",
			.layout = "",
			.precision = "",
			.unit = "s",
			.predicted = NAN,
			.measured = NAN,
			.error = NAN,
			.low = NAN,
			.high = NAN,
		};
		out->scores[i].stack = "";
	}
	return LK_OK;
}

lk_score_key *lk_scoring_divide(lk_arena *arena, lk_scoring *out, const char *by) {
	lk_score_key *keys = LK_ARRAY(arena, lk_score_key, out->count);
	if (!keys || out->division_count == LK_DIVISIONS) return NULL;
	out->divisions[out->division_count++] = (lk_division){by, keys};
	return keys;
}

lk_baseline *lk_scoring_baseline(lk_arena *arena, lk_scoring *out, const char *name,
                                 int parameters) {
	double *predicted = LK_ARRAY(arena, double, out->count);
	if (!predicted || out->baseline_count == LK_BASELINES) return NULL;
	for (size_t i = 0; i < out->count; i++) predicted[i] = NAN;
	lk_baseline *baseline = &out->baselines[out->baseline_count++];
	*baseline = (lk_baseline){name, parameters, predicted};
	return baseline;
}

lk_status lk_scoring_ask(lk_arena *arena, const lk_predict_request *request, lk_validated *row,
                         double *mfu, lk_error *err) {
	lk_prediction *prediction = NULL;
	lk_error why = {0};
	lk_status status = lk_predict(request, &prediction, &why);
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status != LK_OK) {
		row->reason = lk_arena_printf(arena, "%s: %s", why.where, why.what);
		return row->reason ? LK_OK : lk_oom(err);
	}
	row->predicted = prediction->step_time_s;
	row->low = prediction->step_time_low_s, row->high = prediction->step_time_high_s;
	row->layout = lk_arena_strdup(arena, prediction->layout);
	if (mfu) *mfu = prediction->mfu;
	lk_predict_free(prediction);
	return row->layout ? LK_OK : lk_oom(err);
}
