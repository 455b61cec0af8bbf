/* test_lift_odd.c: traces that do not fit together are lifted to legal graphs all the same, or are
 * an error of the input: parts of a collective that a rank's program lacks, messages in larger
 * groups, orders that wait in a circle, times months apart, events nested without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "explain/explain.h"
#include "step/traced.h"

static lk_error err;

enum { RANKS = 3, US = 1000 };
static const char *const all_ranks = "[0, 1, 2]";

struct run {
	lk_capture *capture[RANKS];
	uint32_t count;
};

static struct run new_run(uint32_t count) {
	struct run r = {.count = count};
	for (uint32_t i = 0; i < count; i++) {
		r.capture[i] = lk_capture_new("made", "made");
		assert_non_null(r.capture[i]);
		r.capture[i]->rank = (int32_t)i;
		r.capture[i]->absolute = true;
	}
	return r;
}

static uint32_t add(lk_capture *capture, lk_event_kind kind, bool stream, int64_t lane,
                    const char *name, int64_t start_us, int64_t dur_us, uint32_t correlation) {
	uint32_t event =
		lk_capture_add(capture, &(lk_event){.kind = kind,
	                                        .start_ns = start_us * US,
	                                        .dur_ns = dur_us * US,
	                                        .lane = lk_capture_lane(capture, stream, 0, lane),
	                                        .correlation = correlation,
	                                        .name = lk_intern_id(capture->names, name)});
	assert_true(event != LK_NONE);
	return event;
}

static void step(lk_capture *capture, int64_t start_us) {
	add(capture, LK_EVENT_NOTE, false, 1, start_us ? "ProfilerStep#2" : "ProfilerStep#1", start_us,
	    1000, 0);
	add(capture, LK_EVENT_OP, false, 1, "aten::mm", start_us + 1, 5, 0);
	add(capture, LK_EVENT_RUNTIME, false, 1, "cudaLaunchKernel", start_us + 2, 3,
	    900 + (uint32_t)start_us);
	add(capture, LK_EVENT_KERNEL, true, 7, "gemm", start_us + 6, 50, 900 + (uint32_t)start_us);
}

/* A call of a communication library, and its kernel. */
static void meet(lk_capture *capture, lk_op_kind kind, const char *group, int size, int64_t at_us,
                 uint32_t correlation) {
	add(capture, LK_EVENT_RUNTIME, false, 1, "cudaLaunchKernel", at_us, 5, correlation);
	uint32_t event = add(capture, LK_EVENT_KERNEL, true, 20, "ncclDevKernel_Generic(ncclDevComm*)",
	                     at_us + 10, 100, correlation);
	assert_true(lk_push(&capture->comms));
	*lk_last(&capture->comms) = (lk_comm_note){.event = event,
	                                           .kind = (uint8_t)kind,
	                                           .element_bytes = 4,
	                                           .group_size = size,
	                                           .group = lk_intern_id(capture->names, group),
	                                           .ranks = lk_intern_id(capture->names, all_ranks),
	                                           .peer = -1,
	                                           .in_elements = 100,
	                                           .out_elements = 100};
}

static lk_traces *finish(struct run *run) {
	lk_traces *traces = NULL;
	for (uint32_t i = 0; i < run->count; i++)
		assert_int_equal(lk_capture_finish(run->capture[i], &err), LK_OK);
	assert_int_equal(lk_traces_make(run->capture, run->count, &traces, &err), LK_OK);
	return traces;
}

/* Lifts step `number`, checks and runs it: how many operations meet other captured ranks. */
static uint32_t check(struct run *run, uint32_t number) {
	char text[1024];
	lk_traces *traces = finish(run);
	lk_lifted *lifted = NULL;
	lk_arena arena = LK_ARENA_INIT;
	lk_ran **ran;
	uint32_t met = 0;
	if (lk_lift(traces, number, LK_NONE, &lifted, &err) != LK_OK ||
	    lk_graph_check(lifted->graph, &err) != LK_OK ||
	    lk_lifted_run(&arena, lifted, &ran, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, text, sizeof text));
	for (uint32_t i = 0; i < traces->count; i++)
		for (size_t o = 0; o < lifted->rank[i].ops.count; o++)
			met += lifted->rank[i].ops.at[o].what == LK_LIFTED_COMM &&
			       !lifted->rank[i].ops.at[o].peers;
	lk_arena_free(&arena);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
	return met;
}

static void test_all_meet(void **state) {
	(void)state;
	struct run r = new_run(RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		step(r.capture[i], 0);
		for (uint32_t m = 0; m < 4; m++)
			meet(r.capture[i], LK_OP_ALLREDUCE, "0", RANKS, 100 + 200 * m, 10 + m);
	}
	assert_int_equal(check(&r, 0), 4 * RANKS);
}

/* Rank 2 was profiled for a shorter time: it lacks the last ones. */
static void test_missing(void **state) {
	(void)state;
	struct run r = new_run(RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		step(r.capture[i], 0);
		for (uint32_t m = 0; m < (i == 2 ? 3 : 4); m++)
			meet(r.capture[i], LK_OP_ALLREDUCE, "0", RANKS, 100 + 200 * m, 10 + m);
	}
	assert_int_equal(check(&r, 0), 3 * RANKS);
}

/* Rank 1 launches one of them inside another call: it is released when it ran, and meets. */
static void test_hidden_launch(void **state) {
	(void)state;
	struct run r = new_run(2);
	for (uint32_t i = 0; i < 2; i++) {
		step(r.capture[i], 0);
		for (uint32_t m = 0; m < 4; m++)
			meet(r.capture[i], LK_OP_ALLREDUCE, "0", 2, 100 + 200 * m, 10 + m);
	}
	add(r.capture[1], LK_EVENT_RUNTIME, false, 1, "cudaStreamSynchronize", 499, 20, 0);
	assert_int_equal(check(&r, 0), 8);
}

/* Sends in a group of three are no pair; nor is one that was still under way when the step began.
 */
static void test_messages(void **state) {
	(void)state;
	for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
		struct run r = new_run(ranks);
		for (uint32_t i = 0; i < ranks; i++) {
			step(r.capture[i], 0);
			step(r.capture[i], 1000);
			for (uint32_t m = 0; m < 9; m++)
				meet(r.capture[i], i && m < 5 ? LK_OP_RECV : LK_OP_SEND, "0", RANKS, 150 + 200 * m,
				     10 + m);
			add(r.capture[i], LK_EVENT_RUNTIME, false, 1, "cudaLaunchKernel", 990, 5, 50);
		}
		assert_int_equal(check(&r, 1), 0); /* whose partner is not said */
	}
}

/* Two groups on one stream, in different orders: the simulation says so, and explain goes on
 * without it. */
static void test_circle(void **state) {
	(void)state;
	struct run r = new_run(2);
	for (uint32_t i = 0; i < 2; i++) {
		step(r.capture[i], 0);
		for (uint32_t m = 0; m < 4; m++)
			meet(r.capture[i], LK_OP_ALLREDUCE, (m + i) % 2 ? "a" : "b", 2, 100 + 200 * m, 10 + m);
	}
	lk_explain_request request;
	lk_explanation *explanation = NULL;
	bool said = false;
	lk_traces *traces = finish(&r);
	lk_lifted *lifted = NULL;
	lk_arena arena = LK_ARENA_INIT;
	lk_ran **ran;
	assert_int_equal(lk_lift(traces, 0, LK_NONE, &lifted, &err), LK_OK);
	assert_int_equal(lk_lifted_run(&arena, lifted, &ran, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "wait for one another"));
	lk_arena_free(&arena);
	lk_lifted_free(lifted);
	lk_explain_defaults(&request);
	assert_int_equal(lk_explain_make(traces, &request, &explanation, &err), LK_OK);
	assert_int_equal(lk_explain_simulate(explanation->memory_owner, &err), LK_OK);
	for (int i = 0; i < explanation->warning_count; i++)
		said |= strstr(explanation->warnings[i], "wait for one another") != NULL;
	assert_true(said);
	lk_explain_free(explanation);
}

static void test_months(void **state) {
	(void)state;
	struct run r = new_run(1);
	lk_lifted *lifted = NULL;
	step(r.capture[0], 0);
	add(r.capture[0], LK_EVENT_RUNTIME, false, 1, "cudaLaunchKernel", 100, 5, 5);
	add(r.capture[0], LK_EVENT_KERNEL, true, 7, "gemm", 110, INT64_C(9000000000000), 5);
	lk_traces *traces = finish(&r);
	assert_int_equal(lk_lift(traces, 0, LK_NONE, &lifted, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "months"));
	lk_traces_free(traces);
}

/* Walks to the top are short however deep a damaged trace is; that is said. */
static void test_depth(void **state) {
	(void)state;
	enum { DEEP = 5000, MOST = 256 };
	struct run r = new_run(1);
	lk_capture *capture = r.capture[0];
	for (int64_t i = 0; i < DEEP; i++)
		add(capture, LK_EVENT_OP, false, 1, "aten::mm", i, 3 * DEEP - 2 * i, 0);
	add(capture, LK_EVENT_OP, false, 1, "aten::add", 4 * DEEP, 5, 0);
	lk_traces *traces = finish(&r);
	for (uint32_t i = 0; i < capture->count; i++) {
		uint32_t depth = 0;
		for (uint32_t at = capture->parent[i]; at != LK_NONE; at = capture->parent[at]) {
			assert_true(capture->start_ns[at] <= capture->start_ns[i] &&
			            lk_event_end(capture, at) >= lk_event_end(capture, i));
			depth++;
		}
		assert_int_equal(depth, i == DEEP ? 0 : i < MOST ? i : MOST);
	}
	assert_int_equal(capture->warnings.count, 1);
	assert_non_null(strstr(capture->warnings.at[0], "4744 events are nested more than 256 deep"));
	lk_traces_free(traces);
}

/* Steps are marked on one rank only: the other's whole time is no step beside them. */
static void test_unmarked(void **state) {
	(void)state;
	struct run r = new_run(2);
	uint32_t place;
	step(r.capture[0], 0);
	for (uint32_t i = 0; i < 2; i++) meet(r.capture[i], LK_OP_ALLREDUCE, "0", 2, 100, 10);
	lk_traces *traces = finish(&r);
	assert_int_equal(lk_traced_usual_step(traces, -1, &place, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "no training steps are marked in it"));
	lk_traces_free(traces);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_meet),      cmocka_unit_test(test_missing),
		cmocka_unit_test(test_hidden_launch), cmocka_unit_test(test_messages),
		cmocka_unit_test(test_circle),        cmocka_unit_test(test_months),
		cmocka_unit_test(test_depth),         cmocka_unit_test(test_unmarked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
