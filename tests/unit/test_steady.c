/* test_steady.c: steps of many micro-batches, most of whose periods are put in and not simulated,
 * against the same steps simulated period by period: equal in every event, to the picosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "lockstep/predict.h"
#include "sim/sim.h"
#include "step/step.h"

/* A job of so many micro-batches, with its costs. */
typedef struct lk_posed {
	lk_arena arena;
	lk_asked asked;
	lk_step step; /* memory alone was asked */
	lk_costs costs;
} lk_posed;

static void pose(int pp, int vp, int microbatches, int tp, const char *cluster, lk_posed *out) {
	lk_predict_request request;
	lk_error err = {0};
	int gpus = 8;
	memset(out, 0, sizeof *out);
	lk_predict_defaults(&request);
	request.model = "gpt2";
	request.cluster = cluster;
	request.tp = tp;
	request.pp = pp;
	request.vp = vp;
	request.mbs = 1;
	request.seq = 1024;
	request.gbs = gpus / (tp * pp) * microbatches;
	assert_int_equal(lk_request_read(&out->arena, &request, &out->asked, &err), LK_OK);
	lk_step_options options = {.memory_only = true};
	assert_int_equal(lk_step_ask(&out->asked.job, &out->asked.cluster, &options, &out->step, &err),
	                 LK_OK);
	lk_constants constants;
	lk_profile_constants(&out->asked.job, &constants);
	lk_cost_options costing = {.constants = &constants};
	assert_int_equal(lk_costs_build(&out->arena, out->step.graph, &out->asked.cluster, &costing,
	                                &out->costs, &err),
	                 LK_OK);
}

static void posed_free(lk_posed *posed) {
	lk_step_free(&posed->step);
	lk_arena_free(&posed->arena);
}

static lk_sim_result simulate(const lk_graph *graph, const lk_costs *costs,
                              lk_sim_options options) {
	lk_sim_result result;
	lk_error err = {0};
	lk_status status = lk_sim_run(graph, costs, &options, &result, &err);
	if (status != LK_OK) print_message("%s: %s\n", err.where, err.what);
	assert_int_equal(status, LK_OK);
	return result;
}

/* Whether the steady state was used; the answer is the same anyway. */
static bool is_steady(const lk_graph *graph, const lk_costs *costs, lk_sim_options options) {
	uint32_t record[] = {0, graph->ranks.world - 1};
	options.record = record;
	options.record_count = 2;
	options.all_ranks = true;
	lk_sim_result fast = simulate(graph, costs, options);
	options.apart = true;
	lk_sim_result whole = simulate(graph, costs, options);
	assert_int_equal(whole.periods_put_in, 0);
	assert_true(fast.step_ps == whole.step_ps && fast.operations == whole.operations);
	assert_int_equal(fast.lanes, whole.lanes);
	for (size_t i = 0; i < (size_t)graph->ranks.stages * whole.lanes; i++)
		assert_true(fast.finish_ps[i] == whole.finish_ps[i]);
	assert_int_equal(fast.events.count, whole.events.count);
	for (size_t i = 0; i < whole.events.count; i++) {
		const lk_sim_event *a = &fast.events.at[i], *b = &whole.events.at[i];
		assert_true(a->record == b->record && a->call == b->call && a->op == b->op &&
		            a->repetition == b->repetition);
		assert_true(a->ready_ps == b->ready_ps && a->start_ps == b->start_ps &&
		            a->end_ps == b->end_ps);
	}
	/* more folded runs may be said to have shared the device than did, never fewer */
	size_t calls = 0;
	for (uint32_t s = 0; s < graph->ranks.stages; s++) calls += graph->programs.at[s].calls.count;
	for (size_t i = 0; whole.shared && i < calls; i++)
		assert_true(!whole.shared[i] || (fast.shared && fast.shared[i]));
	bool steady = fast.periods_put_in > 0;
	lk_sim_result_free(&fast);
	lk_sim_result_free(&whole);
	return steady;
}

static const char CLUSTER[] = "1 node * 8 h100-sxm nvlink4, nic 8*400g";

/* Of a posed job as it is and folded, with and without contention; how many came to a steady
 * state. */
static int steady_ways(const lk_posed *posed, lk_sim_options options) {
	int steady = 0;
	for (int contention = 0; contention < 2; contention++) {
		lk_error err = {0};
		lk_fold *fold = NULL;
		options.contention = contention;
		steady += is_steady(posed->step.graph, &posed->costs, options);
		assert_int_equal(
			lk_sim_fold(posed->step.graph, &posed->costs, contention, NULL, &fold, &err), LK_OK);
		steady += is_steady(fold->graph, &fold->costs, options);
		lk_fold_free(fold);
	}
	return steady;
}

static void periods_are_put_in_to_the_picosecond(void **state) {
	(void)state;
	static const struct {
		int pp, vp, microbatches, tp;
	} jobs[] = {{1, 1, 700, 1}, {2, 1, 601, 2}, {4, 1, 602, 2}, {2, 2, 640, 1}, {4, 3, 1200, 1}};
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
		lk_posed posed;
		pose(jobs[i].pp, jobs[i].vp, jobs[i].microbatches, jobs[i].tp, CLUSTER, &posed);
		int steady = steady_ways(&posed, (lk_sim_options){0});
		print_message("pp %d, vp %d: %d of 4 steady\n", jobs[i].pp, jobs[i].vp, steady);
		assert_true(steady >= 2); /* without contention, as it is and folded */
		posed_free(&posed);
	}
}

/* Slow ranks and uneven stages settle later, or never: then nothing is put in. */
static void slow_ranks_change_no_answer(void **state) {
	(void)state;
	static const double factors[] = {1.0001, 1.01, 1.3, 3};
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
		for (uint32_t rank = 0; rank < 8; rank += 3) {
			lk_posed posed;
			lk_straggler slow = {rank, factors[i]};
			pose(4, 1, 500, 1, CLUSTER, &posed);
			steady_ways(&posed, (lk_sim_options){.stragglers = &slow, .straggler_count = 1});
			posed_free(&posed);
		}
}

/* Short steps and jitter are simulated whole. */
static void short_steps_and_jitter_are_simulated(void **state) {
	(void)state;
	lk_posed posed;
	pose(4, 1, 40, 1, CLUSTER, &posed);
	assert_int_equal(steady_ways(&posed, (lk_sim_options){0}), 0);
	posed_free(&posed);
	pose(4, 1, 500, 1, CLUSTER, &posed);
	assert_int_equal(steady_ways(&posed, (lk_sim_options){.jitter = 0.02, .seed = 3}), 0);
	posed_free(&posed);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(periods_are_put_in_to_the_picosecond),
		cmocka_unit_test(slow_ranks_change_no_answer),
		cmocka_unit_test(short_steps_and_jitter_are_simulated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
