/* test_lift.c: from captures to step graphs. Host pieces tile a thread's time; the lifted graph,
 * simulated with its own times, gives the measured timeline back, operation by operation; held-out
 * steps and ranks are predicted within the bars. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "step/traced.h"
#include "base/stats.h"
#include "lockstep/replay.h"
#include "trace/lift/lift.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"

static lk_error err;

#define assert_ok(call)                                                                \
	do {                                                                               \
		char text_[1024];                                                              \
		if ((call) != LK_OK) fail_msg("%s", lk_error_text(&err, text_, sizeof text_)); \
	} while (0)

static lk_traces *read_traces(const char *name) {
	const char *path = need_data(name);
	lk_traces *traces = NULL;
	lk_read_limits limits = {.shapes = true};
	assert_ok(lk_traces_read(&path, 1, &limits, 1, &traces, &err));
	return traces;
}

static const char *const files[] = {
	"traces/kineto/a100_rec_rank3of8.json.gz",
	"traces/kineto/a100_nccl_args_rank0of2.json.gz",
	"traces/kineto/v100_resnet_rank0of1.json.gz",
	"traces/kineto/a100_alexnet.json.gz",
	"traces/kineto/b200_eager_rank0of8.json.gz",
	"traces/kineto/cuda_graphs_piecewise.json.gz",
	"traces/kineto/event_sync_multi_stream.json.gz",
	"traces/kineto/h100_qwen_forward.json.gz",
	"traces/kineto/mi250_minitoy.json.gz",
	"traces/kineto/mi300_resnet_rank0of8.json.gz",
	"traces/kineto/no_distributed_info.json.gz",
	"traces/kineto/rtx2080ti_resnet.json.gz",
	"traces/kineto/sampled_rank0of128.json.gz",
	"traces/kineto/simple_add.json.gz",
	"traces/kineto/simple_add_with_et.json.gz",
	"traces/dlrm8/kineto",
};
enum { FILES = sizeof files / sizeof *files };

/* ---- host time ---- */

static void check_tiles(const lk_capture *capture, uint32_t lane, int64_t from, int64_t to) {
	lk_host_pieces pieces = {0};
	int64_t at = from;
	assert_ok(lk_host_time(capture, lane, from, to, &pieces, &err));
	for (size_t i = 0; i < pieces.count; i++) {
		assert_int_equal(pieces.at[i].start_ns, at);
		assert_true(pieces.at[i].dur_ns >= 0);
		at += pieces.at[i].dur_ns;
	}
	assert_int_equal(at, to);
	lk_vec_free(&pieces);
}

static void test_pieces_tile_time(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	for (int f = 0; f < FILES; f++) {
		lk_traces *traces = read_traces(files[f]);
		for (uint32_t r = 0; r < traces->count; r++) {
			const lk_capture *capture = traces->capture[r];
			lk_capture_steps steps = {0};
			assert_ok(lk_capture_find_steps(capture, &steps, &err));
			for (size_t s = 0; s < steps.count; s++)
				for (uint32_t lane = 0; lane < capture->lanes.count; lane++)
					if (!capture->lanes.at[lane].stream)
						check_tiles(capture, lane, steps.at[s].start_ns, steps.at[s].end_ns);
			lk_vec_free(&steps);
		}
		lk_traces_free(traces);
	}
}

/* ---- the lifted graph gives the timeline back ---- */

static int64_t common(const lk_lifted *lifted, uint32_t rank, int64_t own_ns, int64_t origin) {
	return lk_traces_time(lifted->traces, rank, own_ns) - origin;
}

static int64_t origin_of(const lk_lifted *lifted) {
	int64_t origin = INT64_MAX;
	for (uint32_t r = 0; r < lifted->traces->count; r++) {
		int64_t begin = lk_traces_time(lifted->traces, r, lifted->rank[r].from_ns);
		if (begin < origin) origin = begin;
	}
	return origin;
}

/* Every operation's simulated end against its measured one. Clocks of ranks agree within
 * microseconds only. */
static void check_timeline(const lk_lifted *lifted, lk_ran **ran, const char *name) {
	int64_t origin = origin_of(lifted), tolerance = lifted->traces->count > 1 ? 12000 : 5000;
	for (uint32_t r = 0; r < lifted->traces->count; r++) {
		for (uint32_t i = 0; i < lifted->rank[r].ops.count; i++) {
			const lk_lifted_op *op = &lifted->rank[r].ops.at[i];
			if (op->what == LK_LIFTED_WAIT || op->what == LK_LIFTED_PEERS ||
			    lifted->rank[r].ops.count == 1)
				continue;
			int64_t measured = common(lifted, r, op->end_ns, origin),
					simulated = ran[r][i].end_ps / 1000;
			if (llabs(measured - simulated) > tolerance)
				fail_msg("%s, rank %u, operation %u: measured end %lld ns, simulated %lld", name, r,
				         i, (long long)measured, (long long)simulated);
		}
	}
}

static void test_timeline(void **state) {
	(void)state;
	for (int f = 0; f < FILES; f++) {
		lk_traces *traces = read_traces(files[f]);
		lk_capture_steps steps = {0};
		assert_ok(lk_capture_find_steps(traces->capture[0], &steps, &err));
		for (uint32_t s = 0; s < steps.count && s < (uint32_t)rounds(6, 6); s++) {
			lk_lifted *lifted = NULL;
			lk_arena arena = LK_ARENA_INIT;
			lk_ran **ran;
			assert_ok(lk_lift(traces, s, LK_NONE, &lifted, &err));
			assert_ok(lk_graph_check(lifted->graph, &err));
			assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
			check_timeline(lifted, ran, files[f]);
			lk_arena_free(&arena);
			lk_lifted_free(lifted);
		}
		lk_vec_free(&steps);
		lk_traces_free(traces);
	}
}

/* Written and read, the graph simulates the same. */
static int64_t simulated_ps(const lk_graph *graph) {
	lk_arena arena = LK_ARENA_INIT;
	lk_costs costs;
	lk_sim_result result;
	assert_ok(lk_lifted_costs(&arena, graph, &costs, &err));
	assert_ok(lk_sim_run(graph, &costs, &(lk_sim_options){0}, &result, &err));
	int64_t step = result.step_ps;
	lk_sim_result_free(&result);
	lk_arena_free(&arena);
	return step;
}

static void test_file(void **state) {
	(void)state;
	lk_traces *traces = read_traces("traces/dlrm8/kineto");
	lk_lifted *lifted = NULL;
	lk_graph *read = NULL;
	char path[64];
	new_file(path, ".json.gz");
	assert_ok(lk_lift(traces, 0, LK_NONE, &lifted, &err));
	assert_ok(lk_graph_write(lifted->graph, path, &err));
	assert_ok(lk_graph_read(path, &read, &err));
	assert_true(read->traced);
	assert_int_equal(read->ops.count, lifted->graph->ops.count);
	assert_int_equal(simulated_ps(read), simulated_ps(lifted->graph));
	unlink(path);
	lk_graph_free(read);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* ---- captures made here ---- */

struct made {
	lk_capture *c;
	uint32_t main, worker, compute, side;
	uint32_t correlation;
};

static struct made make_capture(void) {
	struct made m = {.c = lk_capture_new("made", "made")};
	assert_non_null(m.c);
	m.main = lk_capture_lane(m.c, false, 1, 1);
	m.worker = lk_capture_lane(m.c, false, 1, 2);
	m.compute = lk_capture_lane(m.c, true, 0, 7);
	m.side = lk_capture_lane(m.c, true, 0, 20);
	return m;
}

static void add(struct made *made, lk_event_kind kind, uint32_t lane, const char *name,
                int64_t start, int64_t dur, uint32_t correlation) {
	uint32_t id = lk_intern_id(made->c->names, name);
	lk_event e = {.kind = kind,
	              .lane = lane,
	              .name = id,
	              .start_ns = start * 1000,
	              .dur_ns = dur * 1000,
	              .correlation = correlation};
	assert_int_not_equal(lk_capture_add(made->c, &e), LK_NONE);
}

/* A launch of 5 us at `start` and its kernel. Microseconds. */
static void launch(struct made *made, uint32_t thread, uint32_t stream, int64_t start,
                   int64_t kernel, int64_t dur) {
	uint32_t correlation = ++made->correlation;
	add(made, LK_EVENT_RUNTIME, thread, "cudaLaunchKernel", start, 5, correlation);
	add(made, LK_EVENT_KERNEL, stream, "kernel", kernel, dur, correlation);
}

static lk_traces *finish(struct made *made) {
	lk_traces *traces = NULL;
	assert_ok(lk_capture_finish(made->c, &err));
	lk_capture **one = malloc(sizeof *one);
	*one = made->c;
	assert_ok(lk_traces_make(one, 1, &traces, &err));
	free(one);
	return traces;
}

static const lk_lifted_op *nth(const lk_lifted *lifted, int what, int n) {
	for (size_t i = 0; i < lifted->rank[0].ops.count; i++)
		if (lifted->rank[0].ops.at[i].what == what && n-- == 0) return &lifted->rank[0].ops.at[i];
	fail_msg("there is no such operation");
	return NULL;
}

static bool depends(const lk_lifted *lifted, const lk_lifted_op *op, const lk_lifted_op *on) {
	const lk_lifted_rank *rank = &lifted->rank[0];
	for (uint32_t d = op->dep_begin; d < op->dep_end; d++)
		if (&rank->ops.at[rank->deps.at[d]] == on) return true;
	return false;
}

/* A backward thread starts when the main thread has called it, and the main thread goes on when it
 * is done. */
static void test_hand_over(void **state) {
	(void)state;
	struct made m = make_capture();
	add(&m, LK_EVENT_NOTE, m.main, "ProfilerStep#0", 0, 1300, 0);
	add(&m, LK_EVENT_OP, m.main, "forward", 0, 100, 0);
	launch(&m, m.main, m.compute, 50, 57, 20);
	add(&m, LK_EVENT_OP, m.worker, "autograd::engine::evaluate_function: X", 400, 600, 0);
	launch(&m, m.worker, m.compute, 700, 707, 20);
	add(&m, LK_EVENT_OP, m.main, "Optimizer", 1200, 100, 0);
	lk_traces *traces = finish(&m);
	lk_lifted *lifted = NULL;
	assert_ok(lk_lift(traces, 0, LK_NONE, &lifted, &err));
	const lk_lifted_rank *rank = &lifted->rank[0];
	/* The worker's first operation waits 300 us behind the end of `forward`; the main thread 200 us
	 * behind the worker's end. */
	int found = 0;
	for (size_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		if (op->what != LK_LIFTED_HOST || op->dep_begin == op->dep_end) continue;
		const lk_lifted_op *on = &rank->ops.at[rank->deps.at[op->dep_begin]];
		assert_int_not_equal(op->stream, on->stream);
		int64_t own = lk_lifted_own(rank, (uint32_t)i);
		if (on->end_ns == 100000) assert_int_equal(own, 300000);
		else if (on->end_ns == 1000000) assert_int_equal(own, 200000);
		else fail_msg("handed over at %lld", (long long)on->end_ns);
		found++;
	}
	assert_int_equal(found, 2);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* The host waits for its stream; only what comes behind the wait is its own. */
static void test_sync(void **state) {
	(void)state;
	struct made m = make_capture();
	add(&m, LK_EVENT_NOTE, m.main, "ProfilerStep#0", 0, 400, 0);
	add(&m, LK_EVENT_OP, m.main, "item", 0, 400, 0);
	launch(&m, m.main, m.compute, 10, 17, 300);
	add(&m, LK_EVENT_RUNTIME, m.main, "cudaStreamSynchronize", 30, 295, 99);
	lk_traces *traces = finish(&m);
	lk_lifted *lifted = NULL;
	assert_ok(lk_lift(traces, 0, LK_NONE, &lifted, &err));
	const lk_lifted_op *kernel = nth(lifted, LK_LIFTED_DEVICE, 0);
	const lk_lifted_rank *rank = &lifted->rank[0];
	int found = 0;
	for (size_t i = 0; i < rank->ops.count; i++) {
		if (rank->ops.at[i].what == LK_LIFTED_END || !depends(lifted, &rank->ops.at[i], kernel))
			continue;
		found++;
		assert_int_equal(lk_lifted_own(rank, (uint32_t)i), 8000); /* 325 - 317 */
	}
	assert_int_equal(found, 1);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* A stream waits for an event of another one: the work launched there last, if it was over; of
 * several streams the one that communicates. */
static void test_stream_waits(void **state) {
	(void)state;
	struct made m = make_capture();
	uint32_t comm = lk_capture_lane(m.c, true, 0, 33);
	add(&m, LK_EVENT_NOTE, m.main, "ProfilerStep#0", 0, 600, 0);
	add(&m, LK_EVENT_OP, m.main, "work", 0, 100, 0);
	launch(&m, m.main, m.compute, 10, 17, 500);
	add(&m, LK_EVENT_RUNTIME, m.main, "cudaLaunchKernel", 15, 2, 700);
	add(&m, LK_EVENT_KERNEL, comm, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 25, 400, 700);
	add(&m, LK_EVENT_RUNTIME, m.main, "cudaStreamWaitEvent", 20, 2, 77);
	launch(&m, m.main, m.side, 30, 519, 50);
	lk_traces *traces = finish(&m);
	lk_lifted *lifted = NULL;
	assert_ok(lk_lift(traces, 0, LK_NONE, &lifted, &err));
	const lk_lifted_op *wait = nth(lifted, LK_LIFTED_WAIT, 0),
					   *side = nth(lifted, LK_LIFTED_DEVICE, 1);
	assert_true(depends(lifted, wait, nth(lifted, LK_LIFTED_COMM, 0)));
	assert_int_equal(wait->stream, side->stream);
	assert_int_equal(side[-1].what, LK_LIFTED_LAG);
	assert_int_equal(side[-1].end_ns - side[-1].start_ns, 519000 - 425000);
	assert_int_equal(side->end_ns - side->start_ns, 50000);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* Work without a call comes before what was called earlier and ran later on its stream; what ran
 * before carried work is carried. */
static void test_unlaunched(void **state) {
	(void)state;
	struct made m = make_capture();
	add(&m, LK_EVENT_NOTE, m.main, "ProfilerStep#0", 0, 1000, 0);
	launch(&m, m.main, m.compute, 900, 1500, 50);
	add(&m, LK_EVENT_NOTE, m.main, "ProfilerStep#1", 1000, 1000, 0);
	add(&m, LK_EVENT_KERNEL, m.compute, "odd", 1200, 30, 0);
	launch(&m, m.main, m.compute, 1010, 1800, 40);
	add(&m, LK_EVENT_KERNEL, m.compute, "odd", 1600, 30, 0);
	lk_traces *traces = finish(&m);
	lk_lifted *lifted = NULL;
	lk_arena arena = LK_ARENA_INIT;
	lk_ran **ran;
	assert_ok(lk_lift(traces, 1, LK_NONE, &lifted, &err));
	assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
	assert_int_equal(nth(lifted, LK_LIFTED_CARRIED, 0)->start_ns, 1200000);
	assert_int_equal(nth(lifted, LK_LIFTED_CARRIED, 1)->start_ns, 1500000);
	assert_int_equal(nth(lifted, LK_LIFTED_DEVICE, 0)->start_ns, 1600000);
	assert_int_equal(nth(lifted, LK_LIFTED_DEVICE, 1)->start_ns, 1800000);
	check_timeline(lifted, ran, "made");
	lk_arena_free(&arena);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* 1500 launches of 2 us each before kernels of 100 us: the queue of 1022 holds the host back. With
 * faster kernels the graph lets it run on. */
static void test_launch_queue(void **state) {
	(void)state;
	enum { KERNELS = 1500, QUEUE = 1022 };
	struct made m = make_capture();
	int64_t host = 0, device = 0, over[KERNELS];
	for (int i = 0; i < KERNELS; i++) {
		int64_t start = host;
		if (i >= QUEUE && over[i - QUEUE] > host) host = over[i - QUEUE];
		host += 5;
		uint32_t correlation = ++m.correlation;
		add(&m, LK_EVENT_RUNTIME, m.main, "cudaLaunchKernel", start, host - start, correlation);
		device = (device > host ? device : host) + 2;
		add(&m, LK_EVENT_KERNEL, m.compute, "kernel", device, 100, correlation);
		device += 100;
		over[i] = device;
		host += 1;
	}
	lk_traces *traces = finish(&m);
	lk_lifted *lifted = NULL;
	lk_arena arena = LK_ARENA_INIT;
	lk_ran **ran;
	assert_ok(lk_lift(traces, 0, LK_NONE, &lifted, &err));
	assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
	check_timeline(lifted, ran, "made");
	for (uint32_t op = 0; op < lifted->graph->ops.count; op++)
		if (lifted->graph->ops.kind[op] != LK_OP_HOST) lifted->graph->ops.measured_ps[op] = 1000000;
	assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
	/* nothing holds the host up any more: 6 us a launch */
	int64_t end = ran[0][lifted->rank[0].end].end_ps / 1000000;
	if (llabs(end - 6 * KERNELS) > 150)
		fail_msg("%lld us for %d launches", (long long)end, KERNELS);
	lk_arena_free(&arena);
	lk_lifted_free(lifted);
	lk_traces_free(traces);
}

/* ---- hostile captures ---- */

/* Events at random, overlapping anyhow: the lift must end, the graph be whole, and the simulation
 * run. */
static void test_random_captures(void **state) {
	(void)state;
	uint64_t captures = (uint64_t)rounds(300, 3000);
	for (uint64_t seed = 0; seed < captures; seed++) {
		static const char *const names[] = {"aten::mm",
		                                    "cudaLaunchKernel",
		                                    "cudaStreamSynchronize",
		                                    "cudaStreamWaitEvent",
		                                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
		                                    "cudaMemcpyAsync",
		                                    "ProfilerStep#1",
		                                    "enumerate(DataLoader)#x",
		                                    "cudaDeviceSynchronize",
		                                    "cudaEventSynchronize"};
		struct made m = make_capture();
		uint64_t n = 0;
		for (int i = 0; i < 120; i++) {
			lk_event_kind kind = (lk_event_kind)(lk_hash64(seed * 1000 + n++) % LK_EVENT_SYNC);
			uint32_t lane = (uint32_t)(lk_hash64(seed * 1000 + n++) % 2);
			const char *name = names[lk_hash64(seed * 1000 + n++) % 10];
			int64_t start = (int64_t)(lk_hash64(seed * 1000 + n++) % 2000),
					dur = (int64_t)(lk_hash64(seed * 1000 + n++) % 300);
			add(&m, kind, lane + (lk_event_on_device(kind) ? 2 : 0), name, start, dur,
			    (uint32_t)(lk_hash64(seed * 1000 + n++) % 40));
		}
		lk_traces *traces = finish(&m);
		lk_lifted *lifted = NULL;
		lk_arena arena = LK_ARENA_INIT;
		lk_ran **ran;
		assert_ok(lk_lift(traces, LK_NONE, LK_NONE, &lifted, &err));
		assert_ok(lk_graph_check(lifted->graph, &err));
		assert_ok(lk_lifted_run(&arena, lifted, &ran, &err));
		lk_arena_free(&arena);
		lk_lifted_free(lifted);
		lk_traces_free(traces);
	}
}

/* ---- overheads ---- */

static void test_overheads(void **state) {
	(void)state;
	lk_overheads *overheads = lk_overheads_new(), *read = NULL;
	bool known;
	assert_non_null(overheads);
	/* 100 far out: it is part of the mean, and not of the level */
	for (int i = 1; i <= 9; i++) assert_ok(lk_overheads_add(overheads, LK_T2, "aten::mm", i, &err));
	assert_ok(lk_overheads_add(overheads, LK_T2, "aten::mm", 100, &err));
	assert_ok(lk_overheads_add(overheads, LK_T5, "a \"quoted\", name", 3, &err));
	assert_true(fabs(lk_overheads_mean(overheads, LK_T2, "aten::mm", &known) - 14.5) < 1e-9 &&
	            known);
	assert_true(fabs(lk_overheads_mean(overheads, LK_T2, "other", &known) - 5) < 1e-9 && !known);
	assert_true(isnan(lk_overheads_mean(overheads, LK_T3, "aten::mm", &known)) && !known);
	char path[64];
	new_file(path, ".csv");
	assert_ok(lk_overheads_write(overheads, path, &err));
	assert_ok(lk_overheads_read(path, &read, &err));
	assert_true(fabs(lk_overheads_mean(read, LK_T2, "aten::mm", &known) - 14.5) < 1e-9 && known);
	assert_true(fabs(lk_overheads_mean(read, LK_T5, "a \"quoted\", name", &known) - 3) < 1e-9 &&
	            known);
	unlink(path);
	lk_overheads_free(overheads);
	lk_overheads_free(read);
}

/* ---- replay ---- */

static lk_replay *replay(const char *name, int hold_out, const char *overheads) {
	const char *path = need_data(name);
	lk_replay_request request;
	lk_replay *out = NULL;
	lk_replay_defaults(&request);
	request.paths = &path;
	request.path_count = 1;
	request.hold_out = hold_out;
	request.overheads = overheads;
	assert_ok(lk_replay_ask(&request, &out, &err));
	return out;
}

/* A step is whole; its parts are what an independent sum over the trace gives. */
static void test_replay_bars(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	static const struct {
		const char *file;
		double most; /* the bar */
		bool beats;  /* its steps or ranks differ in what they do: the mean of the others must be
		                worse */
	} bars[] = {
		{"traces/kineto/a100_rec_rank3of8.json.gz", 0.03, false},
		{"traces/kineto/a100_nccl_args_rank0of2.json.gz", 0.03, false},
		{"traces/kineto/v100_resnet_rank0of1.json.gz", 0.03, true},
		{"traces/dlrm8/kineto", 0.05, true},
	};
	for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
		lk_replay *r = replay(bars[i].file, LK_HOLD_AUTO, NULL);
		print_message("%s: %.2f %%, mean of the others %.2f %%, parts %.1f %% (%s)\n", bars[i].file,
		              100 * r->geomean_error, 100 * r->baseline_error, 100 * r->parts_error,
		              r->worst_part);
		assert_true(r->geomean_error < bars[i].most);
		if (bars[i].beats) assert_true(r->geomean_error < r->baseline_error);
		/* Waiting for the last rank is none on the last rank, so parts are judged where steps are
		 * held out. */
		if (strcmp(r->held_out, "steps") == 0) assert_true(r->parts_error < 0.05);
		lk_replay_free(r);
	}
}

static void test_shared_overheads(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	static const char rec[] = "traces/kineto/a100_rec_rank3of8.json.gz";
	static const char args[] = "traces/kineto/a100_nccl_args_rank0of2.json.gz";
	for (int turn = 0; turn < 2; turn++) {
		lk_replay *r = replay(turn ? rec : args, LK_HOLD_NONE, data_path(turn ? args : rec));
		print_message("shared overheads: %.2f %%\n", 100 * r->geomean_error);
		assert_true(r->geomean_error < 0.10);
		lk_replay_free(r);
	}
}

/* By itself a step comes out as it was; steps that differ in nothing predict one another exactly.
 */
static void test_replay_itself(void **state) {
	(void)state;
	lk_replay *r = replay("traces/dlrm8/kineto", LK_HOLD_NONE, NULL);
	assert_true(r->geomean_error < 1e-3);
	lk_replay_free(r);
}

static void test_equal_steps(void **state) {
	(void)state;
	struct made m = make_capture();
	for (int64_t s = 0; s < 3; s++) {
		char name[32];
		snprintf(name, sizeof name, "ProfilerStep#%d", (int)s);
		add(&m, LK_EVENT_NOTE, m.main, name, s * 1000, 990, 0);
		add(&m, LK_EVENT_OP, m.main, "aten::mm", s * 1000 + 10, 100, 0);
		launch(&m, m.main, m.compute, s * 1000 + 20, s * 1000 + 27, 500);
		add(&m, LK_EVENT_RUNTIME, m.main, "cudaStreamSynchronize", s * 1000 + 120, 410, 0);
	}
	lk_traces *traces = finish(&m);
	lk_lifted *one = NULL, *two = NULL;
	lk_retimed retimed;
	assert_ok(lk_lift(traces, 0, LK_NONE, &one, &err));
	assert_ok(lk_lift(traces, 1, LK_NONE, &two, &err));
	lk_step_times *times = lk_step_times_new();
	assert_ok(lk_step_times_add(times, &one->rank[0], 0, &err));
	assert_ok(lk_step_times_predict(times, &two->rank[0], NULL, LK_NONE, &retimed, &err));
	for (uint32_t i = 0; i < two->rank[0].ops.count; i++)
		assert_int_equal(retimed.ns[i], lk_lifted_own(&two->rank[0], i));
	assert_true(retimed.host_ns[LK_KNOWN_NOT] == 0 && retimed.device_ns[LK_KNOWN_PLACE] > 0);
	lk_retimed_free(&retimed);
	lk_step_times_free(times);
	lk_lifted_free(one);
	lk_lifted_free(two);
	lk_traces_free(traces);
}

static void test_wrong_requests(void **state) {
	(void)state;
	lk_replay_request request;
	lk_replay *out = NULL;
	const char *path = need_data("traces/kineto/simple_add.json.gz");
	lk_replay_defaults(&request);
	request.paths = &path;
	request.path_count = 1;
	request.hold_out = LK_HOLD_STEP;
	assert_int_equal(lk_replay_ask(&request, &out, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "no other step"));
	request.hold_out = LK_HOLD_RANK;
	assert_int_equal(lk_replay_ask(&request, &out, &err), LK_ERR_INPUT);
	request.hold_out = LK_HOLD_AUTO;
	request.overheads = "/nonexistent.csv";
	assert_int_equal(lk_replay_ask(&request, &out, &err), LK_ERR_IO);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_tile_time),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_sync),
		cmocka_unit_test(test_stream_waits),
		cmocka_unit_test(test_unlaunched),
		cmocka_unit_test(test_launch_queue),
		cmocka_unit_test(test_random_captures),
		cmocka_unit_test(test_overheads),
		cmocka_unit_test(test_replay_bars),
		cmocka_unit_test(test_shared_overheads),
		cmocka_unit_test(test_replay_itself),
		cmocka_unit_test(test_equal_steps),
		cmocka_unit_test(test_wrong_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
