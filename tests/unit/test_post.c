/* test_post.c: a step of reinforcement learning: phases against one another and against steps of
 * training, passes that learn nothing, refits in closed form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "cost/calibration/calibration.h"
#include "lockstep/predict.h"
#include "predict/predict_internal.h"
#include "base/stats.h"
#include "rollout/rollout.h"
#include "rounds.h"
#include "step/step.h"

static void near(double a, double b, double within) {
	if (!(fabs(a - b) <= within * fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

static lk_predict_request llama(void) {
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.task = "grpo", request.model = "llama3.1-8b";
	request.gpu = "h100-sxm", request.gpus = 16;
	request.tp = 2, request.mbs = 1, request.gbs = 256, request.seq = 4096;
	request.response = 1000, request.response_max = 4096, request.prompt = 100;
	request.no_fixes = true;
	return request;
}

static lk_prediction *answer(const lk_predict_request *request) {
	lk_prediction *prediction;
	lk_error err;
	if (lk_predict(request, &prediction, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return prediction;
}

/* What a phase takes, exposed and hidden. */
static double phase(const lk_prediction *prediction, const char *key) {
	for (int i = 0; i < prediction->breakdown_count; i++)
		if (strcmp(prediction->breakdown[i].key, key) == 0)
			return prediction->breakdown[i].exposed_s + prediction->breakdown[i].hidden_s;
	return 0;
}

static double phases_sum(const lk_prediction *prediction) {
	double sum = 0;
	for (int i = 0; i < prediction->breakdown_count; i++) sum += prediction->breakdown[i].exposed_s;
	return sum;
}

static void phases_are_those_of_each_alone(void **state) {
	(void)state;
	lk_predict_request request = llama(), alone = request;
	request.rollout = "sequences=1024";
	lk_prediction *step = answer(&request);
	near(phases_sum(step), step->step_time_s, 1e-9);
	alone.engine = "vllm-rl"; /* which returns probabilities */
	alone.task = "generate", alone.no_fixes = false, alone.gbs = 1024, alone.tp = 0,
	alone.mbs = alone.seq = 0;
	lk_prediction *written = answer(&alone);
	near(phase(step, "generation"), written->step_time_s, 1e-9);
	/* four updates of as many rows */
	lk_predict_request training = request;
	training.task = "sft", training.rollout = NULL;
	training.response = training.response_max = training.prompt = 0;
	int rows = step->microbatches * step->mbs * step->dp;
	assert_int_equal(step->gbs, 256);
	training.gbs = rows, training.seq = step->seq;
	lk_prediction *trained = answer(&training);
	/* attention within sequences takes less than over whole rows */
	assert_true(phase(step, "training") < 4 * trained->step_time_s);
	assert_true(phase(step, "training") > 3.6 * trained->step_time_s);
	/* rows hold all tokens, and little else */
	double tokens = 1100.0 * 256, room = (double)step->seq * rows;
	assert_true(room >= tokens && room < 1.02 * tokens);
	lk_predict_free(trained);
	lk_predict_free(written);
	lk_predict_free(step);
}

/* Two forward passes, of policy and reference, take between a third and all of an update without
 * recomputation; without a reference it is half as long; a critic adds its values and its update.
 */
static void passes_of_an_algorithm(void **state) {
	(void)state;
	lk_predict_request request = llama();
	lk_prediction *grpo = answer(&request);
	request.task = "dapo";
	lk_prediction *dapo = answer(&request);
	request.task = "ppo";
	lk_prediction *ppo = answer(&request);
	double scoring = phase(grpo, "log_probabilities"), update = phase(grpo, "training");
	assert_true(scoring > update / 2 && scoring < update);
	near(phase(dapo, "log_probabilities"), scoring / 2, 1e-9);
	/* a critic has a vector where the policy has a head */
	double values = phase(ppo, "values"), critic = phase(ppo, "critic");
	assert_true(values < scoring / 2 && values > 0.85 * scoring / 2);
	assert_true(critic < update && critic > 0.85 * update);
	near(ppo->step_time_s - phase(ppo, "offload") - grpo->step_time_s + phase(grpo, "offload"),
	     values + critic, 1e-9);
	request.task = "grpo", request.rollout = "reward=7 reference=0";
	lk_prediction *rewarded = answer(&request);
	near(rewarded->step_time_s - dapo->step_time_s, 7, 1e-9);
	lk_predict_free(rewarded);
	lk_predict_free(ppo);
	lk_predict_free(dapo);
	lk_predict_free(grpo);
}

static double step_with(lk_predict_request *request, const char *rollout) {
	request->rollout = rollout;
	lk_prediction *prediction = answer(request);
	double step = prediction->step_time_s;
	near(phases_sum(prediction), step, 1e-9);
	lk_predict_free(prediction);
	return step;
}

/* Ahead, a step is the longer side and the refit; further ahead is never slower. */
static void engines_run_ahead(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.rollout = "gpus=8 lag=1";
	lk_prediction *ahead = answer(&request);
	double learned = phase(ahead, "log_probabilities") + phase(ahead, "training"),
		   written = phase(ahead, "generation"), refit = phase(ahead, "refit");
	learned += phase(ahead, "offload"); /* of the reference, between its passes */
	near(ahead->step_time_s, fmax(learned, written + phase(ahead, "offload")) + refit, 1e-9);
	near(step_with(&request, "gpus=8"), learned + written + refit, 1e-9);
	double before = ahead->step_time_s;
	for (int lag = 2; lag <= 16; lag *= 2) {
		char words[64];
		snprintf(words, sizeof words, "gpus=8 lag=%d", lag);
		double now = step_with(&request, words);
		assert_true(now <= before * 1.001);
		before = now;
	}
	lk_predict_free(ahead);
}

/* With the same training beside them, twice the engines never make a step longer but for the
 * broadcast to more of them. */
static void more_engines(void **state) {
	(void)state;
	for (int lag = 0; lag < 2; lag++) {
		double before = INFINITY;
		for (int gpus = 4; gpus <= 64; gpus *= 2) {
			lk_predict_request request = llama();
			char words[64];
			snprintf(words, sizeof words, "gpus=%d lag=%d", gpus, lag);
			request.gpus = 8 + gpus, request.rollout = words;
			lk_prediction *step = answer(&request);
			double now = step->step_time_s - phase(step, "refit");
			assert_true(now <= before * (1 + 1e-9));
			before = now;
			lk_predict_free(step);
		}
	}
}

/* Passes that learn nothing: a third of the operations, all of them run, on every schedule. */
static void forward_passes_alone(void **state) {
	(void)state;
	static const struct {
		int tp, pp, vp, ep;
		const char *zero, *schedule;
	} layouts[] = {{1, 1, 0, 0, "1", NULL},    {2, 2, 0, 0, "1", NULL},
	               {1, 4, 2, 0, "0", NULL},    {1, 1, 0, 0, "3", NULL},
	               {1, 4, 0, 0, "1", "zb-h1"}, {1, 4, 0, 0, "1", "gpipe"},
	               {1, 4, 2, 0, "1", "zb-v"},  {1, 2, 0, 4, "1", NULL}};
	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_predict_request request = llama();
		lk_asked asked;
		lk_step whole, alone;
		lk_error err;
		request.task = "sft";
		request.response = request.response_max = request.prompt = 0;
		if (layouts[i].ep) request.model = "qwen3-30b-a3b";
		request.tp = layouts[i].tp, request.pp = layouts[i].pp, request.vp = layouts[i].vp;
		request.ep = layouts[i].ep, request.zero = layouts[i].zero;
		request.schedule = layouts[i].schedule, request.recompute = "none";
		if (lk_request_read(&arena, &request, &asked, &err) != LK_OK)
			fail_msg("%zu: %s: %s", i, err.where, err.what);
		lk_step_options options = {0};
		assert_int_equal(lk_step_ask(&asked.job, &asked.cluster, &options, &whole, &err), LK_OK);
		asked.job.forward_only = true;
		if (lk_step_ask(&asked.job, &asked.cluster, &options, &alone, &err) != LK_OK)
			fail_msg("%zu: %s: %s", i, err.where, err.what);
		near(alone.graph->model_flops, whole.graph->model_flops / 3, 1e-9);
		assert_true(alone.step_s > 0.2 * whole.step_s && alone.step_s < 0.6 * whole.step_s);
		assert_true(alone.breakdown.exposed_s[LK_PART_OPTIMIZER] == 0);
		assert_true(alone.memory[0].walk.peak <= whole.memory[0].walk.peak);
		lk_step_free(&whole);
		lk_step_free(&alone);
		lk_arena_free(&arena);
	}
}

/* A critic keeps weights, gradients and states where the policy does; on GPUs of its own it takes
 * no memory there, and runs while the policy does. */
static void critic_in_memory(void **state) {
	(void)state;
	lk_predict_request request = llama();
	lk_prediction *grpo = answer(&request);
	request.task = "ppo";
	lk_prediction *same = answer(&request);
	request.rollout = "critic=llama3.2-1b";
	lk_prediction *small = answer(&request);
	request.gpus = 32, request.rollout = "critic_gpus=16";
	lk_prediction *apart = answer(&request);
	const lk_stage_memory *without = grpo->memory, *with = same->memory;
	/* 8.03 G parameters, of which the head is 0.53 G: two ranks share 16-bit weights and 32-bit
	 * gradients, sixteen the optimizer's twelve bytes */
	double held = (8.03e9 - 0.53e9) / 2;
	near(with->weights - without->weights, 2 * held, 0.02);
	near(with->gradients - without->gradients, 4 * held, 0.02);
	near(with->optimizer - without->optimizer, 12 * held / 8, 0.02);
	near(same->peak_bytes - grpo->peak_bytes,
	     with->weights + with->gradients + with->optimizer - without->weights - without->gradients -
	         without->optimizer,
	     1e-6);
	assert_true(small->peak_bytes < same->peak_bytes && small->peak_bytes > grpo->peak_bytes);
	assert_true(phase(small, "critic") < phase(same, "critic") / 3);
	near(apart->peak_bytes, grpo->peak_bytes, 1e-9);
	near(apart->step_time_s, grpo->step_time_s, 1e-9);
	lk_predict_free(grpo);
	lk_predict_free(same);
	lk_predict_free(small);
	lk_predict_free(apart);
}

/* A network on GPUs of its own has room there as a training, or a frozen copy, alone would: what
 * does not fit is the answer's memory, and is named. */
static void networks_fit_on_their_own(void **state) {
	(void)state;
	lk_predict_request request = llama(), alone = request;
	request.task = "ppo", request.tp = 1, request.zero = "3", request.recompute = "full";
	request.gpus = 17, request.rollout = "critic_gpus=1";
	lk_prediction *critic = answer(&request);
	request.gpus = 32, request.rollout = "critic_gpus=16";
	lk_prediction *roomy = answer(&request);
	request.task = "distill", request.model = "llama3.2-1b";
	request.gpus = 17, request.rollout = "teacher=llama3.1-70b teacher_gpus=1";
	lk_prediction *teacher = answer(&request);
	request.gpus = 24, request.rollout = "teacher=llama3.1-70b teacher_gpus=8";
	lk_prediction *shared = answer(&request);
	alone.task = "sft", alone.tp = 1, alone.zero = "3", alone.recompute = "full", alone.gpus = 1;
	alone.response = alone.response_max = alone.prompt = 0, alone.gbs = 16;
	lk_prediction *trained = answer(&alone);
	assert_false(critic->fits);
	assert_true(critic->peak_bytes > critic->usable_bytes);
	assert_non_null(strstr(critic->warning, "the critic does not fit on the 1 GPU of its own"));
	/* no head and no logits; else a training */
	assert_true(critic->peak_bytes < trained->peak_bytes);
	assert_true(critic->peak_bytes > 0.85 * trained->peak_bytes);
	assert_false(teacher->fits);
	assert_non_null(strstr(teacher->warning, "the teacher does not fit on the 1 GPU of its own"));
	near(teacher->memory->weights, 2 * 70.55e9, 0.01);
	assert_true(teacher->memory->optimizer == 0 && teacher->memory->gradients == 0);
	assert_true(teacher->peak_bytes > teacher->memory->weights);
	assert_true(roomy->fits && shared->fits && !roomy->warning && !shared->warning);
	lk_predict_free(critic);
	lk_predict_free(roomy);
	lk_predict_free(teacher);
	lk_predict_free(shared);
	lk_predict_free(trained);
}

/* A frozen network that passes over the sequences on the GPUs that train has to find room beside
 * what stays there: by default all of the training waits on the host. */
static void networks_fit_beside_the_training(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.task = "distill";
	request.rollout = "teacher=llama3.1-70b";
	lk_prediction *alone = answer(&request);
	request.rollout = "teacher=llama3.1-70b offload_params=0 offload_optimizer=0";
	lk_prediction *beside = answer(&request);
	request.rollout = "teacher=llama3.1-70b teacher_tp=1";
	lk_prediction *undivided = answer(&request);
	assert_true(alone->fits && !alone->warning);
	assert_false(beside->fits);
	assert_non_null(strstr(beside->warning, "the teacher does not fit on the GPUs that train: "));
	near(beside->memory->weights, 70.55e9, 0.01); /* on two ranks */
	assert_true(beside->peak_bytes > beside->usable_bytes);
	assert_false(undivided->fits);
	near(undivided->memory->weights, 2 * 70.55e9, 0.01);
	lk_predict_free(alone);
	lk_predict_free(beside);
	lk_predict_free(undivided);
	request.task = "grpo", request.model = "llama3.1-70b", request.tp = 8, request.zero = "1";
	request.gpus = 16, request.rollout = "tp=8 offload_optimizer=0 offload_params=0";
	lk_prediction *reference = answer(&request);
	assert_non_null(
		strstr(reference->warning, "the reference does not fit on the GPUs that train"));
	lk_predict_free(reference);
}

/* What is kept on the GPUs is not copied, and engines have so much less room. */
static void kept_or_offloaded(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.rollout = "reference=0";
	lk_prediction *both = answer(&request);
	request.rollout = "reference=0 offload_optimizer=0";
	lk_prediction *one = answer(&request);
	request.rollout = "reference=0 offload_optimizer=0 offload_params=0";
	lk_prediction *none = answer(&request);
	request.rollout = "reference=0 offload_optimizer=0 offload_params=0 sleep=0";
	lk_prediction *awake = answer(&request);
	const lk_stage_memory *held = both->memory;
	near(phase(both, "offload"), 2 * (held->weights + held->optimizer) / 4e9, 1e-9);
	near(phase(one, "offload"), 2 * held->weights / 4e9, 1e-9);
	assert_true(phase(none, "offload") == 0);
	request.rollout = "reference=0 pinned_params=1";
	lk_prediction *pinned = answer(&request);
	near(phase(pinned, "offload"),
	     2 * (held->weights / lk_device_find("h100-sxm")->pcie_rate + held->optimizer / 4e9), 1e-9);
	lk_predict_free(pinned);
	assert_true(none->generation.cache_bytes < one->generation.cache_bytes);
	assert_true(one->generation.cache_bytes <= both->generation.cache_bytes);
	assert_true(awake->generation.cache_bytes < none->generation.cache_bytes);
	/* the phase with the least room is the peak: engines beside what the training keeps */
	assert_true(none->peak_bytes > both->peak_bytes);
	assert_true(none->fits && none->peak_bytes <= none->usable_bytes);
	lk_predict_free(both);
	lk_predict_free(one);
	lk_predict_free(none);
	lk_predict_free(awake);
}

/* A critic has epochs and offload of its own; what is not said is the policy's. */
static void critic_of_its_own(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.task = "ppo", request.rollout = "reference=0";
	lk_prediction *usual = answer(&request);
	request.rollout = "reference=0 critic_epochs=1 critic_offload_params=1 "
					  "critic_offload_optimizer=1";
	lk_prediction *same = answer(&request);
	request.rollout = "reference=0 critic_epochs=3 critic_offload_params=0";
	lk_prediction *more = answer(&request);
	request.rollout = "reference=0 epochs=2";
	lk_prediction *both = answer(&request);
	/* 7.5 G parameters without the head, on two ranks */
	near(phase(usual, "offload") - phase(more, "offload"), 2 * 7.5e9 / 4e9, 0.02);
	near(same->step_time_s, usual->step_time_s, 1e-12);
	near(phase(more, "critic"), 3 * phase(usual, "critic"), 1e-9);
	near(phase(more, "training"), phase(usual, "training"), 1e-9);
	near(phase(both, "critic"), 2 * phase(usual, "critic"), 1e-9);
	assert_true(more->generation.cache_bytes < usual->generation.cache_bytes);
	/* of sharded weights, the 4 of 12 bytes of a state that are weights */
	request.tp = 1, request.zero = "3", request.rollout = "reference=0 critic_offload_params=0";
	lk_prediction *left = answer(&request);
	request.rollout = "reference=0";
	lk_prediction *sharded = answer(&request);
	near(phase(sharded, "offload") - phase(left, "offload"), 2 * 4 * 7.5e9 / 16 / 4e9, 0.02);
	lk_predict_free(usual);
	lk_predict_free(same);
	lk_predict_free(more);
	lk_predict_free(both);
	lk_predict_free(left);
	lk_predict_free(sharded);
}

/* A teacher is as long as a pass of its network, hidden on GPUs of its own. */
static void teachers_and_reward_models(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.task = "distill";
	request.rollout = "teacher=policy";
	lk_prediction *same = answer(&request);
	request.rollout = "teacher=llama3.2-1b";
	lk_prediction *small = answer(&request);
	request.rollout = "teacher=llama3.2-1b policy=1 teacher_gpus=16", request.gpus = 32;
	lk_prediction *apart = answer(&request);
	request = llama();
	request.rollout = "reference=0";
	lk_prediction *grpo = answer(&request);
	request.rollout = "reference=0 reward_model=llama3.2-1b";
	lk_prediction *judged = answer(&request);
	near(phase(same, "teacher"), phase(grpo, "log_probabilities"), 1e-9);
	assert_true(phase(same, "log_probabilities") == 0);
	assert_true(phase(small, "teacher") < phase(same, "teacher") / 3);
	near(phase(apart, "teacher"), phase(small, "teacher"), 1e-9);
	near(phases_sum(apart), apart->step_time_s, 1e-9);
	assert_true(apart->step_time_s < small->step_time_s + phase(apart, "log_probabilities"));
	assert_int_equal(apart->gpus, 32);
	double judging = judged->step_time_s - grpo->step_time_s;
	near(phase(judged, "reward"), judging, 1e-6);
	assert_true(judging > 0 && judging < phase(small, "teacher")); /* no head */
	assert_true(judged->peak_bytes > grpo->peak_bytes);
	lk_predict_free(same);
	lk_predict_free(small);
	lk_predict_free(apart);
	lk_predict_free(grpo);
	lk_predict_free(judged);
}

/* Micro-batches of sequences: their number does not depend on lengths, and the memory is that of
 * the longest, as padded sequences have it. */
static void micro_batches_of_sequences(void **state) {
	(void)state;
	lk_predict_request request = llama();
	for (int mbs = 1; mbs <= 4; mbs *= 2) {
		request.mbs = mbs, request.rollout = "by_sequence=1";
		lk_prediction *step = answer(&request);
		request.rollout = "padded=1";
		lk_prediction *padded = answer(&request);
		assert_int_equal(step->microbatches, 256 / (step->dp * mbs));
		assert_int_equal(step->mbs, mbs);
		assert_int_equal(padded->microbatches, step->microbatches);
		assert_true(step->seq >= 1100 * 0.95 && step->seq < 1100 * 1.05 && padded->seq > 3000);
		assert_true(phase(step, "training") < phase(padded, "training"));
		if (mbs == 1) near(step->peak_bytes, padded->peak_bytes, 0.02);
		else assert_true(step->peak_bytes < padded->peak_bytes);
		lk_predict_free(step);
		lk_predict_free(padded);
	}
}

/* First fit decreasing by hand; what attention goes over, and how far rows differ in it. */
static void rows_by_hand(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_post_rows rows;
	lk_error err;
	double lengths[] = {1, 9, 3, 2, 4}; /* rows of 5: the longest is cut; 4 + 1, 3 + 2 */
	assert_int_equal(lk_post_rows_fill(&arena, lengths, 5, 5, true, &rows, &err), LK_OK);
	assert_int_equal(rows.rows, 3);
	near(rows.tokens, 15, 1e-12);
	near(rows.pairs, 25 + 17 + 13, 1e-12);
	near(rows.spread, sqrt((625 + 289 + 169) / 3. - 55 * 55 / 9.), 1e-12);
	assert_int_equal(lk_post_rows_fill(&arena, lengths, 5, 5, false, &rows, &err), LK_OK);
	assert_int_equal(rows.rows, 5);
	near(rows.tokens, 15, 1e-12);
	near(rows.pairs, 55, 1e-12);
	near(rows.spread, sqrt((625 + 256 + 81 + 16 + 1) / 5. - 121), 1e-12);
	lk_arena_free(&arena);
}

/* Attention goes over the pairs within sequences: the same tokens in sequences that differ more
 * take longer, whether they share rows or not. */
static void attention_by_pairs(void **state) {
	(void)state;
	static const char *const words[] = {"by_sequence=1", "reference=1"};
	for (int i = 0; i < 2; i++) {
		lk_predict_request request = llama();
		double spent[3], scored[3];
		request.seq = 32768, request.response_max = 32000, request.response = 6000;
		request.recompute = "full", request.rollout = words[i];
		static const char *const kinds[] = {"fixed", "lognormal", "exponential"};
		for (int k = 0; k < 3; k++) {
			request.lengths = kinds[k];
			lk_prediction *step = answer(&request);
			double rows = (double)step->microbatches * step->dp * step->mbs * step->seq;
			spent[k] = phase(step, "training") / rows, scored[k] = phase(step, "log_probabilities");
			lk_predict_free(step);
		}
		assert_true(spent[1] > 1.02 * spent[0] && spent[2] > 1.02 * spent[0]);
		assert_true(scored[1] > scored[0] && scored[2] > scored[0]);
	}
}

/* Rows that one sequence fills by half are priced by their tokens, padded ones by their length. */
static void half_empty_rows(void **state) {
	(void)state;
	lk_predict_request request = llama();
	request.lengths = "fixed", request.response = 2460, request.prompt = 100;
	lk_prediction *half = answer(&request);
	request.rollout = "full_rows=1";
	lk_prediction *full = answer(&request);
	request.rollout = NULL, request.seq = 2560;
	lk_prediction *fitting = answer(&request);
	assert_int_equal(half->seq, 2560);
	assert_int_equal(full->seq, 4096);
	near(phase(half, "training"), phase(fitting, "training"), 1e-9);
	assert_true(phase(full, "training") > 1.4 * phase(half, "training"));
	lk_predict_free(half);
	lk_predict_free(full);
	lk_predict_free(fitting);
}

/* Random steps: phases add up; twice the engines, more prompts shared and further ahead are never
 * slower; the longest sequence bounds generation from below; the range holds the point and steps
 * with lengths from equal to widely spread. */
static void random_steps(void **state) {
	(void)state;
	for (int i = 0; i < rounds(24, 400); i++) {
		lk_predict_request request = llama();
		char words[96], less[96];
		uint64_t seed = (uint64_t)i;
		int lag = (int)(lk_uniform(seed, 1) * 4), engines = 4 << (int)(lk_uniform(seed, 2) * 3);
		bool apart = lk_uniform(seed, 3) < 0.6;
		request.model = lk_uniform(seed, 4) < 0.5 ? "llama3.2-1b" : "qwen3-4b";
		request.response = 100 + floor(900 * lk_uniform(seed, 5));
		request.prompt = 50 + floor(400 * lk_uniform(seed, 6));
		request.samples = 1 << (int)(lk_uniform(seed, 7) * 5);
		request.gpus = 8 + (apart ? engines : 0);
		const char *format = apart ? "gpus=%d lag=%d" : "reward=%d lag=%d";
		snprintf(words, sizeof words, format, engines, lag);
		request.rollout = words;
		lk_prediction *step = answer(&request);
		near(phases_sum(step), step->step_time_s, 1e-9);
		assert_true(step->step_time_low_s <= step->step_time_s);
		assert_true(step->step_time_s <= step->step_time_high_s);
		/* each token of the longest takes an iteration of its own, which reads all weights */
		double weights = strcmp(request.model, "qwen3-4b") == 0 ? 2 * 4.0e9 : 2 * 1.2e9;
		if (lag <= 1 && apart)
			assert_true(phase(step, "generation") >
			            step->generation.longest_tokens * weights / 3.4e12);
		lk_predict_request other = request;
		double slack = 1 + 1e-6;
		if (lag > 0) {
			snprintf(less, sizeof less, format, engines, lag - 1);
			other.rollout = less;
			lk_prediction *before = answer(&other);
			assert_true(step->step_time_s <= before->step_time_s * 1.002);
			lk_predict_free(before);
		}
		other = request; /* prompts are dealt evenly, and equal responses end alike */
		other.samples = 4, other.lengths = "fixed";
		lk_prediction *four = answer(&other);
		other.samples = 8;
		lk_prediction *eight = answer(&other);
		assert_true(phase(eight, "generation") <= phase(four, "generation") * slack);
		lk_predict_free(four);
		lk_predict_free(eight);
		if (apart) {
			other = request;
			other.gpus += engines;
			snprintf(less, sizeof less, format, 2 * engines, lag);
			other.rollout = less;
			lk_prediction *wider = answer(&other);
			assert_true(phase(wider, "generation") <= phase(step, "generation") * slack);
			lk_predict_free(wider);
		}
		other = request;
		for (int kind = 0; kind < LK_LENGTH_KINDS; kind++) {
			other.lengths = lk_length_kind_names[kind];
			lk_prediction *spread = answer(&other);
			assert_true(spread->step_time_s >= step->step_time_low_s / slack);
			assert_true(spread->step_time_s <= step->step_time_high_s * slack);
			lk_predict_free(spread);
		}
		lk_predict_free(step);
	}
}

static void refits_in_closed_form(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_model dense, experts;
	lk_cluster cluster;
	lk_error err;
	assert_int_equal(lk_calibration_ready(&err), LK_OK);
	assert_int_equal(lk_model_preset("llama3.1-8b", &dense, &err), LK_OK);
	assert_int_equal(lk_model_preset("qwen3-30b-a3b", &experts, &err), LK_OK);
	assert_int_equal(
		lk_cluster_simple(&arena, lk_device_find("h100-sxm"), 64, 0, 0, &cluster, &err), LK_OK);
	near(lk_refit_tensors(&dense), 32 * 9 + 3, 1e-12);
	near(lk_refit_tensors(&experts), 48 * (2 + 4 + 2 + 1 + 3 * 128) + 3, 1e-12);
	lk_refit_job job = {&dense, &cluster, 2, 1, 16, 1, LK_REFIT_IPC};
	lk_refit whole = lk_refit_of(&job);
	assert_true(whole.gather_s == 0);
	near(whole.bytes, 2 * 8.03e9, 0.01);
	near(whole.seconds, fmax(whole.gather_s, whole.move_s) + whole.host_s, 1e-12);
	job.model = &experts;
	job.transport = LK_REFIT_PACKED;
	double before = 0;
	for (int gathered = 1; gathered <= 64; gathered *= 2) {
		job.gathered_over = gathered;
		lk_refit refit = lk_refit_of(&job);
		assert_true(refit.gather_s >= before);
		/* no faster than the network's bytes over the links of a GPU */
		assert_true(refit.move_s >= refit.bytes / cluster.node[0].intra_rate);
		before = refit.gather_s;
	}
	/* a part takes its share of the time of the whole */
	job.gathered_over = 1;
	job.engine_shards = 8;
	for (int transport = 0; transport < LK_REFIT_TRANSPORTS; transport++) {
		job.transport = (lk_refit_transport)transport;
		lk_refit refit = lk_refit_of(&job);
		assert_true(refit.move_s > 0 && refit.host_s > 0);
		near(refit.seconds, refit.move_s + refit.host_s, 1e-12);
	}
	job.transport = LK_REFIT_SHARDS;
	double part = lk_refit_of(&job).move_s;
	job.transport = LK_REFIT_WHOLE;
	near(lk_refit_of(&job).move_s, 8 * part, 1e-12);
	job.width = 1; /* half of the bytes, a tensor of scales for each matrix */
	near(lk_refit_of(&job).move_s, 4 * part, 1e-12);
	near(lk_refit_of(&job).tensors, 2 * lk_refit_tensors(&experts), 1e-12);
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_are_those_of_each_alone),
		cmocka_unit_test(passes_of_an_algorithm),
		cmocka_unit_test(engines_run_ahead),
		cmocka_unit_test(more_engines),
		cmocka_unit_test(forward_passes_alone),
		cmocka_unit_test(critic_in_memory),
		cmocka_unit_test(networks_fit_on_their_own),
		cmocka_unit_test(networks_fit_beside_the_training),
		cmocka_unit_test(kept_or_offloaded),
		cmocka_unit_test(critic_of_its_own),
		cmocka_unit_test(teachers_and_reward_models),
		cmocka_unit_test(micro_batches_of_sequences),
		cmocka_unit_test(rows_by_hand),
		cmocka_unit_test(attention_by_pairs),
		cmocka_unit_test(half_empty_rows),
		cmocka_unit_test(random_steps),
		cmocka_unit_test(refits_in_closed_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
