/* answer.c: dispatch every request to the part that answers it, and check every answer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "launch/emit/emit.h"
#include "lockstep/predict.h"
#include "options/command.h"
#include "predict/predict.h"
#include "predict/predict_internal.h"
#include "step/step.h"

static lk_status predict_check_task(const lk_predict_request *request, lk_error *err) {
	static const char *const tasks[] = {"pretrain", "sft",  "lora", "generate", "serve",
	                                    "grpo",     "dapo", "ppo",  "distill"};
	lk_objective objective;
	bool adapters;
	if (lk_objective_find(request->task, &objective, &adapters)) return LK_OK;
	for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
		if (!request->task || lk_same_name(request->task, tasks[i])) return LK_OK;
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, "--task", "unknown name '%s'",
	        lk_escape(request->task, shown, sizeof shown));
	return lk_hint(err, "give one of pretrain, sft, lora, dpo, kto, orpo, reward, generate, serve, "
	                    "grpo, dapo, ppo, distill");
}

/* Warn that a training's other phases are stated but cannot be predicted. */
static lk_status warn_alone(struct lk_answer *a, const char *alone, lk_error *err) {
	const char *before = a->p.warning ? a->p.warning : "";
	a->p.warning = lk_arena_printf(&a->arena, "%s%s%s", before, *before ? "; " : "", alone);
	return a->p.warning ? LK_OK : lk_oom(err);
}

lk_status lk_answer_any(const lk_predict_request *request, struct lk_answer *a, lk_error *err) {
	LK_TRY(predict_check_task(request, err));
	if (request->emit) LK_TRY(lk_emit_known(request->emit, err));
	bool recommends;
	LK_TRY(lk_predict_is_dlrm(request, &recommends, err));
	if (request->emit && recommends) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "a recommendation model has no launch line");
		return lk_hint(err, "lockstep shard writes where its tables go (--plan)");
	}
	if (request->measured &&
	    (recommends || lk_predict_generates(request) || lk_predict_posts(request))) {
		lk_fail(err, LK_ERR_INPUT, "--measured",
		        "only steps of pretraining and fine-tuning are "
		        "compared with what was measured");
		return lk_hint(err, "leave it out");
	}
	if (recommends) return lk_answer_dlrm(request, a, err);
	if (request->emit && lk_predict_generates(request)) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "nothing is written for --task %s", request->task);
		return lk_hint(err, "leave it out");
	}
	if (lk_predict_generates(request))
		return lk_predict_generate(&a->arena, request, NULL, &a->p, err);
	bool posts = lk_predict_posts(request);
	const char *alone = NULL;
	if (!posts) LK_TRY(lk_rollout_stated(&a->arena, request, &posts, &alone, err));
	if (posts) {
		LK_TRY(lk_predict_post(&a->arena, request, &a->p, err));
		if (lk_predict_leaves_layout(request))
			a->p.searched =
				"no layout was given: training is data parallelism alone (lockstep plan "
				"searches how the GPUs are used)";
		return LK_OK;
	}
	if (!lk_predict_leaves_layout(request)) {
		LK_TRY(lk_answer_job(request, request->emit, a, err));
		return alone ? warn_alone(a, alone, err) : LK_OK;
	}
	lk_predict_request found;
	lk_asked *taken = LK_NEW(&a->arena, lk_asked);
	if (!taken) return lk_oom(err);
	LK_TRY(lk_request_take(&a->arena, request, taken, err));
	LK_TRY(lk_request_fill_batch(&a->arena, request, lk_asked_gpus(taken), taken, err));
	LK_TRY(lk_predict_search(&a->arena, request, taken, &found, &a->p.searched, err));
	a->batch_assumed = taken->batch_assumed;
	return lk_answer_job(&found, request->emit, a, err);
}

/* ---- checks of every answer ---- */

static bool is_size(double bytes) {
	return isfinite(bytes) && bytes >= 0;
}

static const char *prediction_check_memory(const lk_prediction *prediction) {
	LK_HOLDS(is_size(prediction->peak_bytes) && is_size(prediction->usable_bytes));
	LK_HOLDS(prediction->fits == (prediction->peak_bytes <= prediction->usable_bytes));
	for (int i = 0; i < prediction->memory_count; i++) {
		const lk_stage_memory *stage = &prediction->memory[i];
		double parts = stage->reserved + stage->context + stage->nccl;
		LK_HOLDS(is_size(stage->total) && stage->total <= prediction->peak_bytes * (1 + 1e-9));
		LK_HOLDS(fabs(parts - stage->total) <= 1e-6 * stage->total);
		LK_HOLDS(is_size(stage->allocated) && stage->allocated <= stage->reserved * (1 + 1e-9));
		LK_HOLDS(!(stage->low > stage->allocated) && !(stage->high < stage->allocated));
	}
	return NULL;
}

/* Sizes of the job: every GPU is one rank; there are no more simulated classes than ranks. */
static const char *prediction_check_speed(const lk_prediction *prediction) {
	const lk_energy *energy = &prediction->energy;
	LK_HOLDS(is_size(prediction->samples_per_s) && is_size(prediction->tokens_per_s_per_gpu));
	LK_HOLDS(is_size(prediction->model_flops_per_s_per_gpu) && is_size(prediction->hfu));
	LK_HOLDS(is_size(prediction->days) && is_size(prediction->gpu_hours));
	LK_HOLDS(prediction->goodput >= 0 && prediction->goodput <= 1);
	LK_HOLDS(prediction->ranks_simulated <= prediction->ranks);
	LK_HOLDS(is_size(energy->gpu_watts) && is_size(energy->step_kwh));
	LK_HOLDS(energy->site_watts >= energy->gpu_watts && is_size(energy->site_watts));
	LK_HOLDS(is_size(energy->training_kwh) && is_size(energy->carbon_kg));
	return NULL;
}

/* Data of pictures: each stage's parts add up to the step, kernels are sorted by time. */
static const char *prediction_check_detail(const lk_prediction_detail *detail, double step) {
	for (int s = 0; s < detail->stage_count; s++) {
		double sum = 0;
		for (int i = 0; i < detail->part_count; i++) sum += detail->stages[s].exposed_s[i];
		LK_HOLDS(fabs(sum - step) <= 1e-6 * step);
	}
	for (size_t i = 0; i < detail->span_count; i++) {
		const lk_detail_span *span = &detail->spans[i];
		LK_HOLDS(span->start_s >= 0 && span->start_s <= span->end_s);
		LK_HOLDS(span->end_s <= step * (1 + 1e-6));
	}
	for (int i = 1; i < detail->kernel_count; i++)
		LK_HOLDS(detail->kernels[i].seconds <= detail->kernels[i - 1].seconds);
	for (int i = 0; i < detail->sensitivity_count; i++) {
		double other = detail->sensitivity[i].step_time_s; /* NAN: a job that does not fit */
		LK_HOLDS(isnan(other) || (isfinite(other) && other > 0));
	}
	return NULL;
}

/* An answer that contradicts itself is a defect of lockstep. */
static const char *prediction_check(const lk_prediction *prediction) {
	double step = prediction->step_time_s, sum = 0;
	LK_HOLDS(isfinite(step) && step > 0);
	LK_HOLDS(prediction->step_time_low_s > 0 && prediction->step_time_low_s <= step);
	LK_HOLDS(prediction->step_time_high_s >= step && isfinite(prediction->step_time_high_s));
	LK_HOLDS(is_size(prediction->mfu)); /* more than 1 with Winograd: docs/method/step.md */
	for (int i = 0; i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		LK_HOLDS(part->exposed_s >= 0 && isfinite(part->hidden_s) && part->hidden_s >= 0);
		sum += part->exposed_s;
	}
	LK_HOLDS(fabs(sum - step) <= 1e-6 * step);
	for (int i = 0; i < prediction->spread_count; i++) {
		const lk_seed_spread *row = &prediction->spread[i];
		if (lk_begins_with(row->key, "noise_")) continue; /* of other seeds at each quantile */
		LK_HOLDS(0 <= row->p50 && row->p50 <= row->p95 && row->p95 <= row->p99);
	}
	for (int i = 0; i < prediction->fix_count; i++)
		LK_HOLDS(prediction->fixes[i].step_time_s > 0 &&
		         prediction->fixes[i].peak_bytes <= prediction->usable_bytes * (1 + 1e-9));
	for (int i = 0; i < prediction->phase_span_count; i++)
		LK_HOLDS(prediction->spans[i].start_s <= prediction->spans[i].end_s);
	LK_HOLDS_ALL(prediction_check_speed(prediction));
	for (int i = 0; i < prediction->breakdown_count; i++) /* of what the engine simulates */
		if (strcmp(prediction->breakdown[i].key, "input") == 0)
			step -= prediction->breakdown[i].exposed_s;
	if (prediction->detail) LK_HOLDS_ALL(prediction_check_detail(prediction->detail, step));
	return prediction_check_memory(prediction);
}

static void answer_free(struct lk_answer *answer) {
	lk_step_free(&answer->step);
	lk_calibration_release(&answer->calibration);
	lk_arena_free(&answer->arena);
	free(answer);
}

lk_status lk_answer_with(const lk_predict_request *request, lk_answerer *answer,
                         lk_prediction **out, lk_error *err) {
	*out = NULL;
	struct lk_answer *a = calloc(1, sizeof *a);
	if (!a) return lk_oom(err);
	lk_status status = lk_calibration_begin(&a->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = answer(request, a, err);
		lk_calibration_leave(&a->calibration);
	}
	if (status == LK_OK) a->p.failed_check = lk_failed_check(prediction_check(&a->p));
	if (status == LK_OK)
		status = lk_inputs_find(&a->arena, &lk_predict_verb, request, NULL, 0, &a->p.inputs, err);
	if (status != LK_OK) {
		answer_free(a);
		return status;
	}
	a->p.memory_owner = a;
	*out = &a->p;
	return LK_OK;
}

lk_status lk_predict_emit(const lk_prediction *prediction, lk_emitted *out, lk_error *err) {
	*out = ((const struct lk_answer *)prediction->memory_owner)->emitted;
	if (out->text) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--emit", "the request named nothing to write");
	return lk_hint(err, "name a target such as megatron, axolotl or sbatch:axolotl");
}

lk_status lk_predict_check(const lk_predict_request *request, lk_error *err) {
	lk_calibration_hold calibration;
	bool recommends;
	LK_TRY(lk_predict_is_dlrm(request, &recommends, err));
	if (recommends) return LK_OK;
	LK_TRY(lk_calibration_begin(&calibration, request->calibration, err));
	lk_status status = lk_request_check(request, err);
	lk_calibration_end(&calibration);
	return status;
}

lk_prediction *lk_prediction_new(lk_arena **arena) {
	struct lk_answer *answer = calloc(1, sizeof *answer);
	if (!answer) return NULL;
	*arena = &answer->arena;
	answer->p.memory_owner = answer;
	return &answer->p;
}

void lk_predict_free(lk_prediction *prediction) {
	if (prediction) answer_free(prediction->memory_owner);
}
