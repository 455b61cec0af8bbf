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
#include "rollout/rollout.h"
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
	alone.task = "generate", alone.no_fixes = false, alone.gbs = 1024, alone.tp = 0,
	alone.mbs = alone.seq = 0;
	lk_prediction *written = answer(&alone);
	near(phase(step, "generation"), written->step_time_s, 1e-9);
	/* four updates of as many rows */
	lk_predict_request training = request;
	training.task = "sft", training.rollout = NULL;
	training.response = training.response_max = training.prompt = 0;
	training.gbs = step->gbs;
	lk_prediction *trained = answer(&training);
	near(phase(step, "training"), 4 * trained->step_time_s, 1e-9);
	/* rows hold all tokens, and little else */
	double tokens = 1100.0 * 256, room = 4096.0 * step->gbs;
	assert_true(room >= tokens && room < 1.15 * tokens);
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
	near(phase(ppo, "values"), scoring / 2, 1e-9);
	near(phase(ppo, "critic"), update, 1e-9);
	near(ppo->step_time_s - grpo->step_time_s, scoring / 2 + update, 1e-9);
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
	near(ahead->step_time_s, fmax(learned, written) + refit, 1e-9);
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
		cmocka_unit_test(refits_in_closed_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
