/* score_inference.c: generation by inference engines: the time until all sequences are finished, as
 * answered by `predict --task generate`. With folds, the engines' numbers are fitted only to rows
 * of other networks, and the range is that of the answer. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "lockstep/predict.h"
#include "predict/predict.h"
#include "rollout/rollout.h"
#include "tables/tables.h"
#include "validate/validate.h"

struct inference {
	lk_arena *arena;
	const lk_validate_request *request;
	lk_inference_run *runs;
	size_t count;
	lk_engine_terms *terms; /* [count] */
	double *measured;       /* [count] */
	bool *use;              /* [count] scratch */
	lk_scoring *out;
};

/* The request that a row answers. */
static lk_predict_request inference_request(const lk_inference_run *run) {
	const lk_engine *engine = &run->engine;
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.task = "generate";
	request.gpu = engine->cluster->node[0].device->name;
	request.gpus = engine->tp * engine->pp;
	request.tp = engine->tp, request.pp = engine->pp, request.ep = engine->ep;
	request.attention_dp = engine->attention_dp;
	request.dtype = lk_dtype_name(engine->dtype);
	request.kv_dtype = lk_dtype_name(engine->kv_dtype);
	request.engine = engine->software->name;
	request.gpu_mem_util = engine->memory_share;
	request.max_sequences = engine->sequences;
	request.max_tokens = engine->tokens;
	request.prompt = run->prompt, request.response = run->response;
	request.lengths = "fixed";
	request.gbs = (int)run->sequences;
	return request;
}

/* Predict a row; if that is impossible, store the reason. */
static lk_status inference_ask(lk_arena *arena, const lk_inference_run *run, lk_validated *row,
                               lk_error *why) {
	const lk_predict_request request = inference_request(run);
	lk_prediction prediction = {0};
	LK_TRY(lk_predict_generate(arena, &request, run->engine.model, &prediction, why));
	row->predicted = prediction.step_time_s;
	row->low = prediction.step_time_low_s, row->high = prediction.step_time_high_s;
	return LK_OK;
}

static lk_status inference_fill_row(struct inference *inference, size_t i, lk_error *err) {
	const lk_inference_run *run = &inference->runs[i];
	lk_validated *row = &inference->out->rows[i];
	lk_error why = {0};
	row->id = run->id;
	row->where = run->where;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->engine.tp * run->engine.pp;
	row->stack = run->software;
	row->precision = run->precision;
	row->measured = inference->measured[i] = run->seconds;
	row->reason = run->why_not;
	inference->out->scores[i].suspect = run->suspect;
	if (row->reason) return LK_OK;
	lk_status status = inference_ask(inference->arena, run, row, &why);
	if (status == LK_OK && inference->request->cross)
		status = lk_engine_terms_of(inference->arena, &run->engine, run->prompt, run->response,
		                            run->sequences, &inference->terms[i], &why);
	if (status == LK_OK) return LK_OK;
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	row->reason = lk_arena_printf(inference->arena, "%s: %s", why.where, why.what);
	return row->reason ? LK_OK : lk_oom(err);
}

static bool inference_same_software(const struct inference *inference, size_t a, size_t b) {
	return lk_engine_software_fitted(inference->runs[a].engine.software) ==
	       lk_engine_software_fitted(inference->runs[b].engine.software);
}

/* Rows that a fit may use: of the software of row `of`, of other networks. */
static void inference_leave_out(struct inference *inference, size_t of) {
	for (size_t i = 0; i < inference->count; i++)
		inference->use[i] = !inference->out->rows[i].reason && !inference->runs[i].suspect &&
		                    inference_same_software(inference, i, of) &&
		                    strcmp(inference->runs[i].model, inference->runs[of].model) != 0;
}

static int inference_softwares(const struct inference *inference) {
	int count = 0;
	for (int i = 0; lk_engine_software_at(i); i++) {
		bool found = false;
		for (size_t k = 0; k < inference->count && !found; k++)
			found = inference->runs[k].engine.software == lk_engine_software_at(i);
		count += found;
	}
	return count;
}

/* From fits without a row's network; the range is as wide as its answer's. */
static void inference_predict_unseen(struct inference *inference) {
	lk_engine_numbers numbers = {0};
	for (size_t i = 0; i < inference->count; i++) {
		lk_validated *row = &inference->out->rows[i];
		if (row->reason) continue;
		bool fitted = i > 0 && inference_same_software(inference, i, i - 1) &&
		              strcmp(inference->runs[i].model, inference->runs[i - 1].model) == 0 &&
		              numbers.products > 0;
		if (!fitted) {
			inference_leave_out(inference, i);
			lk_engine_fit(inference->terms, inference->measured, inference->use, inference->count,
			              &numbers);
		}
		double answered = row->predicted;
		row->predicted = lk_engine_seconds(&numbers, &inference->terms[i]);
		row->low *= row->predicted / answered, row->high *= row->predicted / answered;
	}
}

static lk_status inference_divide(struct inference *inference, lk_error *err) {
	lk_score_key *software = lk_scoring_divide(inference->arena, inference->out, "stack"),
				 *model = lk_scoring_divide(inference->arena, inference->out, "model"),
				 *gpu = lk_scoring_divide(inference->arena, inference->out, "gpu"),
				 *precision = lk_scoring_divide(inference->arena, inference->out, "precision");
	if (!software || !model || !gpu || !precision) return lk_oom(err);
	for (size_t i = 0; i < inference->count; i++) {
		const lk_inference_run *run = &inference->runs[i];
		software[i].name = run->software;
		model[i].name = run->model;
		gpu[i].name = run->gpu;
		precision[i].name = run->precision;
	}
	return LK_OK;
}

static lk_status inference_score(struct inference *inference, lk_error *err) {
	lk_arena *arena = inference->arena;
	LK_TRY(lk_scoring_rows(arena, inference->count, inference->out, err));
	inference->terms = LK_ARRAY(arena, lk_engine_terms, inference->count);
	inference->measured = LK_ARRAY(arena, double, inference->count);
	inference->use = LK_ARRAY(arena, bool, inference->count);
	if (!inference->terms || !inference->measured || !inference->use) return lk_oom(err);
	for (size_t i = 0; i < inference->count; i++) LK_TRY(inference_fill_row(inference, i, err));
	if (inference->request->cross) inference_predict_unseen(inference);
	inference->out->parameters = LK_ENGINE_NUMBERS * inference_softwares(inference);
	inference->out->folds = inference->request->cross ? "network" : "";
	inference->out->unit_of_rows = "run";
	return inference_divide(inference, err);
}

lk_status lk_score_inference(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                             lk_scoring *out, lk_error *err) {
	lk_inference_runs runs = {0};
	lk_status status = lk_inference_read(arena, in, &runs, err);
	struct inference inference = {
		.arena = arena, .request = request, .runs = runs.at, .count = runs.count, .out = out};
	if (status == LK_OK) status = inference_score(&inference, err);
	lk_vec_free(&runs);
	return status;
}
