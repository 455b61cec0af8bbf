/* score_inference.c: generation by inference engines: the time until all sequences are finished, as
 * answered by `predict --task generate`, and the time per token, or to the first one, of served
 * requests (rollout/serving.c). With folds, the engines' numbers are fitted only to rows
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
	lk_engine_terms *terms;   /* [count] */
	lk_engine_terms *first;   /* [count] of first tokens, where they are scored */
	double *measured;         /* [count] */
	double *tokens;           /* [count] measured, of all tokens or each further one */
	double *weight;           /* [count] scratch */
	bool *seen;               /* [count] predicted from its fold */
	bool served;              /* requests arrive as others end */
	lk_engine_priced *priced; /* of the row before */
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

/* Likewise for served requests. */
static lk_status serving_ask(const struct inference *inference, const lk_inference_run *run,
                             lk_validated *row, lk_error *why) {
	lk_engine engine = run->engine;
	lk_prices prices;
	double first, token;
	engine.numbers = lk_engine_numbers_of(engine.software);
	LK_TRY(lk_engine_prices(&engine, &prices, why));
	token = lk_serving_token(&engine, &prices, &run->served, &first);
	row->predicted = inference->request->first_token ? first : token;
	lk_generation_range(&row->low, &row->high);
	row->low *= row->predicted, row->high *= row->predicted;
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
	inference->tokens[i] = row->measured = run->seconds;
	if (inference->request->first_token) row->measured = run->first_s > 0 ? run->first_s : NAN;
	inference->measured[i] = row->measured;
	row->reason = run->why_not;
	if (!row->reason && inference->request->first_token && run->served.apart)
		row->reason = "first tokens by engines that compute prompts alone are not predicted";
	inference->out->scores[i].suspect = run->suspect;
	if (row->reason) return LK_OK;
	lk_status status = inference->served ? serving_ask(inference, run, row, &why)
	                                     : inference_ask(inference->arena, run, row, &why);
	if (status == LK_OK && inference->request->cross)
		status = lk_inference_terms(inference->arena, run, false, &inference->priced,
		                            &inference->terms[i], &why);
	if (status == LK_OK && inference->request->cross && inference->request->first_token)
		status = lk_inference_terms(inference->arena, run, true, &inference->priced,
		                            &inference->first[i], &why);
	if (status == LK_OK) return LK_OK;
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	row->reason = lk_arena_printf(inference->arena, "%s: %s", why.where, why.what);
	return row->reason ? LK_OK : lk_oom(err);
}

static bool inference_same_software(const struct inference *inference, size_t a, size_t b) {
	return lk_engine_software_fitted(inference->runs[a].engine.software) ==
	       lk_engine_software_fitted(inference->runs[b].engine.software);
}

/* Published versions of a network are one (DeepSeek-V3 and R1). */
static const char *inference_network(const lk_inference_run *run) {
	return run->engine.model ? run->engine.model->name : run->model;
}

/* Weigh the rows of `software` (NULL: of all) of other networks than that of row `of`. Returns
 * whether there are any. */
static bool inference_leave_out(struct inference *inference, size_t of,
                                const lk_engine_software *software) {
	bool any = false;
	for (size_t i = 0; i < inference->count; i++) {
		const lk_inference_run *run = &inference->runs[i];
		bool use = !inference->out->rows[i].reason && !run->suspect &&
		           (!software || lk_engine_software_fitted(run->engine.software) == software) &&
		           strcmp(inference_network(run), inference_network(&inference->runs[of])) != 0;
		inference->weight[i] = use;
		any |= use;
	}
	return any;
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

/* Numbers for the rows of a network and software, from rows without the network: software that is
 * like another one differs from it in its host. */
static void inference_fit_unseen(struct inference *inference, size_t of, lk_engine_numbers *out) {
	const lk_engine_rows rows = {inference->terms, inference->tokens, inference->weight,
	                             inference->count},
						 first = {inference->first, inference->measured, inference->weight,
	                              inference->count};
	const lk_engine_software *own = lk_engine_software_fitted(inference->runs[of].engine.software),
							 *alike = lk_engine_software_find(own->alike);
	*out = lk_engine_numbers_of(own);
	if (!inference_leave_out(inference, of, alike ? alike : own))
		inference_leave_out(inference, of, NULL);
	lk_engine_fit(&rows, LK_ENGINE_FIT_ALL, out);
	bool known = inference_leave_out(inference, of, own);
	if (alike && known) lk_engine_fit(&rows, LK_ENGINE_FIT_HOST, out);
	if (!inference->request->first_token) return;
	if (!known) inference_leave_out(inference, of, NULL);
	for (size_t i = 0; i < inference->count; i++)
		if (!(inference->measured[i] > 0)) inference->weight[i] = 0;
	lk_engine_fit(&first, LK_ENGINE_FIT_REQUEST, out);
}

/* From fits without a row's network; the range is as wide as its answer's. */
static void inference_predict_unseen(struct inference *inference) {
	const lk_engine_terms *terms =
		inference->request->first_token ? inference->first : inference->terms;
	for (size_t i = 0; i < inference->count; i++) {
		lk_engine_numbers numbers;
		if (inference->out->rows[i].reason || inference->seen[i]) continue;
		inference_fit_unseen(inference, i, &numbers);
		for (size_t k = i; k < inference->count; k++) {
			lk_validated *row = &inference->out->rows[k];
			if (row->reason || !inference_same_software(inference, k, i) ||
			    strcmp(inference_network(&inference->runs[k]),
			           inference_network(&inference->runs[i])) != 0)
				continue;
			double answered = row->predicted;
			inference->seen[k] = true;
			row->predicted = lk_engine_seconds(&numbers, &terms[k]);
			row->low *= row->predicted / answered, row->high *= row->predicted / answered;
		}
	}
}

/* A class of requests in flight on an engine. */
static lk_score_key serving_key(double sequences) {
	static const struct {
		double most;
		const char *name;
	} classes[] = {
		{4, "1-4"}, {16, "5-16"}, {64, "17-64"}, {256, "65-256"}, {INFINITY, "over 256"}};
	int i = 0;
	while (sequences > classes[i].most) i++;
	return (lk_score_key){classes[i].name, i};
}

static lk_status inference_divide(struct inference *inference, lk_error *err) {
	lk_score_key *software = lk_scoring_divide(inference->arena, inference->out, "stack"),
				 *model = lk_scoring_divide(inference->arena, inference->out, "model"),
				 *gpu = lk_scoring_divide(inference->arena, inference->out, "gpu"),
				 *precision = lk_scoring_divide(inference->arena, inference->out, "precision"),
				 *size = NULL;
	if (inference->served)
		size = lk_scoring_divide(inference->arena, inference->out, "concurrency");
	if (!software || !model || !gpu || !precision || (inference->served && !size))
		return lk_oom(err);
	for (size_t i = 0; i < inference->count; i++) {
		const lk_inference_run *run = &inference->runs[i];
		software[i].name = run->software;
		model[i].name = run->model;
		gpu[i].name = run->gpu;
		precision[i].name = run->precision;
		if (!size) continue;
		software[i].name = run->engine.software ? run->engine.software->name : run->software;
		if (!*run->precision) precision[i].name = "not stated";
		size[i] = serving_key(run->served.sequences);
	}
	return LK_OK;
}

static lk_status inference_score(struct inference *inference, lk_error *err) {
	lk_arena *arena = inference->arena;
	LK_TRY(lk_scoring_rows(arena, inference->count, inference->out, err));
	inference->terms = LK_ARRAY(arena, lk_engine_terms, inference->count);
	inference->first = LK_ARRAY(arena, lk_engine_terms, inference->count);
	inference->measured = LK_ARRAY(arena, double, inference->count);
	inference->tokens = LK_ARRAY(arena, double, inference->count);
	inference->weight = LK_ARRAY(arena, double, inference->count);
	inference->seen = LK_ARRAY(arena, bool, inference->count);
	if (!inference->terms || !inference->first || !inference->measured || !inference->tokens ||
	    !inference->weight || !inference->seen)
		return lk_oom(err);
	for (size_t i = 0; i < inference->count; i++) LK_TRY(inference_fill_row(inference, i, err));
	if (inference->request->cross) inference_predict_unseen(inference);
	inference->out->parameters = LK_ENGINE_NUMBERS + 4 * inference_softwares(inference);
	inference->out->folds = inference->request->cross ? "network" : "";
	inference->out->unit_of_rows = "run";
	return inference_divide(inference, err);
}

static lk_status score_generation(lk_arena *arena, const lk_validate_request *request,
                                  lk_stream *in, bool served, lk_scoring *out, lk_error *err) {
	lk_inference_runs runs = {0};
	lk_status status =
		served ? lk_serving_read(arena, in, &runs, err) : lk_inference_read(arena, in, &runs, err);
	struct inference inference = {.arena = arena,
	                              .request = request,
	                              .runs = runs.at,
	                              .count = runs.count,
	                              .served = served,
	                              .out = out};
	if (status == LK_OK) status = inference_score(&inference, err);
	lk_vec_free(&runs);
	return status;
}

lk_status lk_score_inference(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                             lk_scoring *out, lk_error *err) {
	return score_generation(arena, request, in, false, out, err);
}

lk_status lk_score_serving(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                           lk_scoring *out, lk_error *err) {
	return score_generation(arena, request, in, true, out, err);
}
