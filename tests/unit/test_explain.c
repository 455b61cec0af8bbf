/* test_explain.c: where a run's time goes. Random captures against a bitmap of every nanosecond,
 * small ones whose answer is known, and all public traces against Python. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diff/diff.h"
#include "explain/explain.h"
#include "base/stats.h"
#include "io/stream.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"

/* ---- captures made by hand ---- */

static uint32_t add(lk_capture *capture, lk_event_kind kind, int64_t lane, const char *name,
                    int64_t start, int64_t end, uint32_t correlation) {
	bool stream = lk_event_on_device(kind);
	lk_event e = {
		.kind = kind, .start_ns = start, .dur_ns = end - start, .correlation = correlation};
	e.lane = lk_capture_lane(capture, stream, stream ? 0 : 1, lane);
	e.name = lk_intern_id(capture->names, name);
	uint32_t event = lk_capture_add(capture, &e);
	assert_int_not_equal(event, LK_NONE);
	return event;
}

/* A kernel and the call that launched it. */
static void launched(lk_capture *capture, int64_t stream, const char *name, int64_t call,
                     int64_t start, int64_t end) {
	uint32_t correlation = capture->count + 1;
	add(capture, LK_EVENT_RUNTIME, 1, "cudaLaunchKernel", call, call + 2, correlation);
	add(capture, LK_EVENT_KERNEL, stream, name, start, end, correlation);
}

static lk_capture *capture(int rank) {
	lk_capture *c = lk_capture_new("made by hand", "test");
	assert_non_null(c);
	c->rank = rank;
	return c;
}

static lk_explanation *explain_all(lk_capture **captures, uint32_t count,
                                   const lk_explain_request *request) {
	lk_explain_request plain;
	lk_traces *traces;
	lk_explanation *explanation;
	lk_error err = {0};
	lk_explain_defaults(&plain);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(lk_capture_finish(captures[i], &err), LK_OK);
	assert_int_equal(lk_traces_make(captures, count, &traces, &err), LK_OK);
	if (lk_explain_make(traces, request ? request : &plain, &explanation, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return explanation;
}

static lk_explanation *explain(lk_capture *capture) {
	return explain_all(&capture, 1, NULL);
}

/* ---- random captures against a bitmap ---- */

enum { NS = 4000, STREAMS = 4 };

struct bitmap {
	bool compute[NS], comm[NS], memory[NS], window[NS];
};

static void mark(bool *set, int64_t start, int64_t end) {
	for (int64_t t = start; t < end && t < NS; t++) set[t] = true;
}

static int64_t draw(uint64_t seed, int k, int64_t below) {
	return (int64_t)(lk_uniform(seed, (uint64_t)k) * (double)below);
}

static const struct {
	lk_event_kind kind;
	const char *name;
} works[] = {
	{LK_EVENT_KERNEL, "sgemm"},
	{LK_EVENT_KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"},
	{LK_EVENT_MEMCPY, "Memcpy HtoD (Pinned -> Device)"},
	{LK_EVENT_MEMSET, "Memset (Device)"},
	{LK_EVENT_KERNEL, "ncclKernel_SendRecv_RING_SIMPLE"},
};

/* Work of random kinds, in order within a stream, and now and then a step. */
static lk_capture *random_capture(uint64_t seed, struct bitmap *bitmap) {
	lk_capture *c = capture(0);
	memset(bitmap, 0, sizeof *bitmap);
	int k = 0;
	add(c, LK_EVENT_OP, 1, "first", 0, 1, 0);
	for (int64_t at = draw(seed, k++, 500), step = 0; at < NS - 500 && step < 4; step++) {
		char name[48];
		int64_t end = at + 100 + draw(seed, k++, 900);
		if (end > NS) end = NS;
		snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)step + 3);
		add(c, LK_EVENT_NOTE, 1, name, at, end, 0);
		mark(bitmap->window, at, end);
		at = end + (draw(seed, k++, 2) ? 0 : draw(seed, k++, 200));
	}
	for (int s = 0; s < STREAMS; s++) {
		for (int64_t at = draw(seed, k++, 300); at < NS - 400; at += draw(seed, k++, 150)) {
			int64_t end = at + draw(seed, k++, 250);
			size_t which = (size_t)draw(seed, k++, sizeof works / sizeof *works);
			add(c, works[which].kind, s, works[which].name, at, end, 0);
			mark(works[which].kind != LK_EVENT_KERNEL ? bitmap->memory
			     : strstr(works[which].name, "nccl")  ? bitmap->comm
			                                          : bitmap->compute,
			     at, end);
			at = end;
		}
	}
	return c;
}

static void check_against_bitmap(const lk_explanation *explanation, const struct bitmap *bitmap) {
	int64_t whole = 0, compute = 0, comm = 0, memory = 0, idle = 0, overlap = 0, all_comm = 0;
	for (int t = 0; t < NS; t++) {
		if (!bitmap->window[t]) continue;
		whole++;
		compute += bitmap->compute[t];
		comm += bitmap->comm[t] && !bitmap->compute[t];
		memory += bitmap->memory[t] && !bitmap->compute[t] && !bitmap->comm[t];
		idle += !bitmap->memory[t] && !bitmap->compute[t] && !bitmap->comm[t];
		overlap += bitmap->comm[t] && bitmap->compute[t];
		all_comm += bitmap->comm[t];
	}
	const lk_explain_rank *rank = &explanation->ranks[0];
	assert_int_equal(rank->kernel_time_ns, whole);
	assert_int_equal(rank->compute_ns, compute);
	assert_int_equal(rank->exposed_communication_ns, comm);
	assert_int_equal(rank->exposed_memory_ns, memory);
	assert_int_equal(rank->non_compute_ns, comm + memory);
	assert_int_equal(rank->idle_ns, idle);
	assert_int_equal(rank->overlap_ns, overlap);
	assert_int_equal(rank->communication_ns, all_comm);
	assert_int_equal(
		rank->idle_data_ns + rank->idle_sync_ns + rank->idle_host_ns + rank->idle_other_ns, idle);
	int64_t by_kind = 0;
	for (int i = 0; i < explanation->comm_count; i++) by_kind += explanation->comm[i].exposed_ns;
	assert_int_equal(by_kind, comm);
	for (int i = 0; i < explanation->step_rows; i++) {
		const lk_explain_step *step = &explanation->steps[i];
		assert_int_equal(step->compute_ns + step->exposed_communication_ns +
		                     step->exposed_memory_ns + step->idle_ns,
		                 step->dur_ns);
	}
}

static void test_bitmap(void **state) {
	(void)state;
	static struct bitmap b;
	int checked = 0;
	uint64_t captures = (uint64_t)rounds(150, 3000);
	for (uint64_t seed = 0; seed < captures; seed++) {
		lk_capture *capture = random_capture(seed, &b);
		/* A single step would be lengthened by what it launched: nothing here has a launch, so it
		 * is not. */
		lk_explanation *explanation = explain(capture);
		check_against_bitmap(explanation, &b);
		checked += explanation->ranks[0].overlap_ns > 0;
		lk_explain_free(explanation);
	}
	assert_true(checked > (int)captures * 2 / 3);
}

/* ---- small ones ---- */

static void test_stream_gaps(void **state) {
	(void)state;
	lk_capture *c = capture(0);
	launched(c, 7, "a", 0, 10, 100);
	launched(c, 7, "b", 50, 30099, 40000);     /* launched in time, 29,999 ns later: kernel_wait */
	launched(c, 7, "c", 60, 70000, 80000);     /* launched in time, 30 us later: other */
	launched(c, 7, "d", 80040, 80100, 90000);  /* launched after the gap began: host_wait */
	launched(c, 7, "e", 80050, 90000, 100000); /* no gap */
	launched(c, 9, "f", 0, 10, 100000);
	lk_explanation *explanation = explain(c);
	assert_int_equal(explanation->idle_count, 2);
	const lk_explain_idle *idle = &explanation->idle[0];
	assert_int_equal(idle->stream, 7);
	assert_int_equal(idle->kernel_wait_ns, 29999);
	assert_int_equal(idle->other_ns, 30000);
	assert_int_equal(idle->host_wait_ns, 100);
	assert_int_equal(idle->gaps, 3);
	assert_int_equal(explanation->idle[1].idle_ns, 0);
	assert_int_equal(explanation->ranks[0].idle_ns, 0); /* stream 9 is busy all the time */
	lk_explain_free(explanation);
}

static void test_device_gaps(void **state) {
	(void)state;
	lk_capture *c = capture(0);
	launched(c, 7, "a", 0, 10, 1000);
	launched(c, 7, "b", 500, 1200, 2000); /* in time: other, 200 */
	add(c, LK_EVENT_OP, 1, "aten::item", 1300, 2110, 0);
	add(c, LK_EVENT_RUNTIME, 1, "cudaStreamSynchronize", 1400, 2100, 0); /* waits until b is done */
	launched(c, 7, "c", 2200, 2300, 3000);                               /* sync, 300 */
	add(c, LK_EVENT_NOTE, 1, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 2900,
	    3600, 0);
	launched(c, 7, "d", 3700, 4000, 5000); /* data 600, late 400 */
	add(c, LK_EVENT_NOTE, 1, "Optimizer.step#SGD.step", 5100, 5500, 0);
	add(c, LK_EVENT_OP, 1, "aten::add_", 5200, 5450, 0);
	launched(c, 7, "e", 5300, 5500, 6000); /* late 500 */
	lk_explanation *explanation = explain(c);
	const lk_explain_rank *rank = &explanation->ranks[0];
	assert_int_equal(rank->kernel_time_ns, 5990);
	assert_int_equal(rank->idle_other_ns, 200);
	assert_int_equal(rank->idle_sync_ns, 300);
	assert_int_equal(rank->idle_data_ns, 600);
	assert_int_equal(rank->idle_host_ns, 900);
	assert_int_equal(rank->sync_ns, 700);
	bool sync = false, launch = false;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		assert_true(i == 0 || stall->lost_s <= explanation->stalls[i - 1].lost_s);
		assert_true(isnan(stall->gain_s));
		if (strcmp(stall->kind, "sync") == 0) sync = strstr(stall->evidence, "aten::item") != NULL;
		if (strcmp(stall->kind, "launch") == 0)
			launch = strstr(stall->evidence, "Optimizer.step#SGD.step") != NULL;
	}
	assert_true(sync && launch);
	/* Each reason is a stretch of its own; the late launches are too far apart to be one. */
	static const struct {
		const char *cause, *operation;
		int64_t start, lost;
	} stretches[] = {{"data loading", "", 3000, 600},
	                 {"launch", "aten::add_", 5000, 500},
	                 {"launch", "cudaLaunchKernel", 3000, 400},
	                 {"sync", "aten::item", 2000, 300}};
	assert_int_equal(explanation->stretch_count, 4);
	for (int i = 0; i < 4; i++) {
		assert_string_equal(explanation->stretches[i].cause, stretches[i].cause);
		assert_string_equal(explanation->stretches[i].operation, stretches[i].operation);
		assert_int_equal(explanation->stretches[i].start_ns, stretches[i].start);
		assert_int_equal(explanation->stretches[i].lost_ns, stretches[i].lost);
	}
	lk_explain_free(explanation);
}

/* The queue's length at every nanosecond. */
static void test_queue(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed < 60; seed++) {
		enum { WORKS = 40 };
		static int64_t length[NS];
		int64_t call[WORKS], begin[WORKS], at = 0, free_at = 0;
		lk_capture *c = capture(0);
		memset(length, 0, sizeof length);
		for (int i = 0; i < WORKS; i++) {
			call[i] = at += 3 + draw(seed, 4 * i, 40);
			begin[i] = (free_at > at ? free_at : at) + 2 + draw(seed, 4 * i + 1, 30);
			free_at = begin[i] + 1 + draw(seed, 4 * i + 2, 60);
			launched(c, 7, "k", call[i], begin[i], free_at);
			/* finishing makes time count from the first call */
			for (int64_t t = call[i] - call[0]; t < begin[i] - call[0]; t++) length[t]++;
		}
		lk_explanation *explanation = explain(c);
		/* looked at: from the first begin of work to the last end; the queue is known until the
		 * last begin */
		int64_t from = begin[0] - call[0], to = begin[WORKS - 1] - call[0], sum = 0, most = 0;
		for (int64_t t = from; t < to; t++)
			sum += length[t], most = length[t] > most ? length[t] : most;
		assert_int_equal(explanation->queue_count, 1);
		assert_int_equal(explanation->queues[0].span_ns, to - from);
		assert_int_equal(explanation->queues[0].max, most);
		assert_true(fabs(explanation->queues[0].mean - (double)sum / (double)(to - from)) < 1e-9);
		assert_int_equal(explanation->queues[0].full_ns, 0);
		lk_explain_free(explanation);
	}
}

static void test_full_queue(void **state) {
	(void)state;
	lk_capture *c = capture(0);
	enum { WORKS = 1100 };
	launched(c, 7, "first", 0, 5, 10000);
	for (int i = 0; i < WORKS; i++)
		launched(c, 7, "k", 10 + i, 10000 + 10 * i, 10000 + 10 * i + 10);
	lk_explanation *explanation = explain(c);
	assert_int_equal(explanation->queues[0].max, WORKS);
	/* From the 1024th launch at 10 + 1023 until 1023 are left, when the 77th begins. */
	assert_int_equal(explanation->queues[0].full_ns, 10000 + 10 * (WORKS - 1024) - (10 + 1023));
	lk_explain_free(explanation);
}

static void test_sort_and_statistics(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		enum { MANY = 300 };
		lk_timed list[MANY];
		double plain[MANY];
		int count = 1 + (int)draw(seed, 0, MANY);
		int64_t below = seed % 2 ? 40 : INT64_MAX / 2;
		for (int i = 0; i < count; i++) {
			list[i] = (lk_timed){(uint64_t)draw(seed, i + 1, below), (uint32_t)i};
			plain[i] = (double)list[i].key;
		}
		assert_true(lk_timed_sort(list, (size_t)count));
		for (int i = 1; i < count; i++) {
			assert_true(list[i - 1].key <= list[i].key);
			assert_true(list[i - 1].key < list[i].key ||
			            list[i - 1].item < list[i].item); /* stable */
		}
		lk_explain_stats s = lk_stats_of(list, (size_t)count);
		assert_true(fabs(s.median_ns - lk_median(plain, (size_t)count)) <=
		            1e-9 * fabs(s.median_ns));
		assert_true(fabs(s.p95_ns - lk_quantile(plain, (size_t)count, 0.95)) <=
		            1e-9 * fabs(s.p95_ns));
		assert_true(fabs(s.mean_ns - lk_mean(plain, (size_t)count)) <= 1e-9 * fabs(s.mean_ns));
		assert_int_equal(s.count, count);
	}
}

/* ---- many ranks ---- */

static void comm_kernel(lk_capture *capture, int64_t start, int64_t end) {
	uint32_t e = add(capture, LK_EVENT_KERNEL, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)",
	                 start, end, 0);
	assert_true(lk_push(&capture->comms));
	*lk_last(&capture->comms) =
		(lk_comm_note){.event = e,
	                   .kind = LK_OP_ALLREDUCE,
	                   .element_bytes = 4,
	                   .group_size = 3,
	                   .peer = -1,
	                   .in_elements = 256,
	                   .out_elements = 256,
	                   .group = lk_intern_id(capture->names, "0"),
	                   .group_text = lk_intern_id(capture->names, "default_pg"),
	                   .ranks = lk_intern_id(capture->names, "[0, 1, 2]")};
}

/* Three ranks meet 20 times; rank 1 is 300 ns late at each, the transfer takes 100 ns, rank 2 hides
 * half of its waiting. */
static void test_straggler(void **state) {
	(void)state;
	enum { MEETINGS = 20 };
	lk_capture *c[3];
	for (int r = 0; r < 3; r++) {
		c[r] = capture(r);
		c[r]->world = 3;
		c[r]->absolute = true;
		c[r]->origin_ns = 1700000000000000000;
		add(c[r], LK_EVENT_OP, 1, "begin", 0, 1, 0);
		for (int i = 0; i < MEETINGS; i++) {
			int64_t base = 10000 * (i + 1), arrival = base + (r == 1 ? 300 : 0);
			add(c[r], LK_EVENT_KERNEL, 7, "gemm", base - 5000, r == 2 ? base + 150 : base, 0);
			comm_kernel(c[r], arrival, base + 400);
		}
	}
	lk_explanation *explanation = explain_all(c, 3, NULL);
	if (!lk_explain_traces(explanation)->matches.count) {
		print_message("collectives are not matched here: skipped\n");
		lk_explain_free(explanation);
		skip();
	}
	assert_int_equal(explanation->comm_count, 1);
	const lk_explain_comm *all = &explanation->comm[0];
	assert_string_equal(all->kind, "all_reduce");
	assert_string_equal(all->group, "default_pg");
	assert_int_equal(all->matched, 3 * MEETINGS);
	assert_int_equal(all->wait_ns, 2 * 300 * MEETINGS);
	assert_int_equal(all->transfer_ns, 3 * 100 * MEETINGS);
	assert_int_equal(all->exposed_wait_ns, (300 + 150) * MEETINGS);
	assert_int_equal(all->exposed_ns, (300 + 150 + 3 * 100) * MEETINGS);
	assert_true(fabs(all->busbw - 1024.0 / 100 * 4 / 3) <
	            1e-9); /* bytes a nanosecond, 2 (n - 1) / n */
	assert_int_equal(explanation->straggler_count, 3);
	for (int r = 0; r < 3; r++) {
		const lk_explain_straggler *straggler = &explanation->stragglers[r];
		assert_int_equal(straggler->rank, r);
		assert_int_equal(straggler->collectives, MEETINGS);
		assert_int_equal(straggler->last, r == 1 ? MEETINGS : 0);
		assert_int_equal(straggler->late_ns, r == 1 ? 300 * MEETINGS : 0);
		assert_int_equal(straggler->caused_ns, r == 1 ? 450 * MEETINGS : 0);
		assert_int_equal(straggler->waited_ns, r == 1 ? 0 : 300 * MEETINGS);
	}
	bool named = false;
	for (int i = 0; i < explanation->stall_count; i++)
		if (strcmp(explanation->stalls[i].kind, "straggler") == 0)
			named = strcmp(explanation->stalls[i].what, "rank 1") == 0;
	assert_true(named);
	lk_explain_free(explanation);
}

/* What another finds later is shown: the critical path as a track of its own, behind all ranks. */
static void test_critical_path(void **state) {
	(void)state;
	lk_capture *c = capture(0);
	launched(c, 7, "a", 0, 10, 100);
	launched(c, 8, "b", 50, 120, 200);
	lk_explanation *explanation = explain(c);
	static const lk_critical_part parts[] = {{"computation", 170e-9}, {"launch", 20e-9}};
	static const lk_critical_event events[] = {{0, 1}, {0, 3}};
	const lk_critical_path found = {
		.parts = parts, .part_count = 2, .events = events, .event_count = 2};
	char path[64], *text = NULL;
	size_t size;
	lk_error err = {0};
	assert_int_equal(lk_explain_set_path(explanation, &found, &err), LK_OK);
	assert_int_equal(lk_explain_trace(explanation, new_file(path, ".json"), &err), LK_OK);
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &text, &size, &err), LK_OK);
	assert_non_null(strstr(text, "critical path"));
	int slices = 0;
	for (const char *at = text; (at = strstr(at, "\"X\"")); at++) slices++;
	assert_int_equal(slices, 1 + 2 + 2); /* the part of the launch call, kernels, the path */
	free(text);
	assert_int_equal(lk_explain_print(explanation, 0, LK_EXPLAIN_ALL, false, path, stdout, &err),
	                 LK_OK);
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &text, &size, &err), LK_OK);
	assert_non_null(strstr(text, "critical path\n"));
	assert_non_null(strstr(text, "89.5 %  computation"));
	if (explanation->stall_count) lk_explain_set_gain(explanation, 0, 1e-9, 1e-9, "launch=graphs");
	assert_true(!explanation->stall_count || explanation->stalls[0].gain_s == 1e-9);
	free(text);
	unlink(path);
	lk_explain_free(explanation);
}

/* ---- what is asked ---- */

static lk_capture *stepped(int steps, const int64_t *lengths) {
	lk_capture *c = capture(0);
	int64_t at = 0;
	for (int i = 0; i < steps; at += lengths[i], i++) {
		char name[32];
		snprintf(name, sizeof name, "ProfilerStep#%d", 10 + i);
		add(c, LK_EVENT_NOTE, 1, name, at, at + lengths[i], 0);
		launched(c, 7, "gemm", at + 1, at + 10, at + lengths[i] / 2);
	}
	return c;
}

static void test_steps(void **state) {
	(void)state;
	static const int64_t lengths[] = {1000, 1100, 900, 1000, 5000};
	lk_explain_request request;
	lk_explain_defaults(&request);
	static const struct {
		const char *steps;
		int count;
		double mean_ns;
	} cases[] = {
		{NULL, 5, 1800}, {"10-12", 3, 1000}, {"14", 1, 5000}, {"13-99", 2, 3000}, {"all", 1, 6490}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_capture *capture = stepped(5, lengths);
		request.steps = cases[i].steps;
		lk_explanation *explanation = explain_all(&capture, 1, &request);
		assert_int_equal(explanation->step_count, cases[i].count);
		assert_true(fabs(explanation->step_s * 1e9 - cases[i].mean_ns) < 1e-6);
		lk_explain_free(explanation);
	}
	static const char *const wrong[] = {
		"15", "1-2", "", "-", "3-2", "1-", "x", "1-2-3", "99999999999999999999999999"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_capture *capture = stepped(5, lengths);
		lk_traces *traces;
		lk_explanation *explanation;
		lk_error err = {0};
		request.steps = wrong[i];
		assert_int_equal(lk_capture_finish(capture, &err), LK_OK);
		assert_int_equal(lk_traces_make(&capture, 1, &traces, &err), LK_OK);
		assert_int_equal(lk_explain_make(traces, &request, &explanation, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, "--steps");
		assert_true(*err.hint);
	}
}

static void test_nothing(void **state) {
	(void)state;
	for (int i = 0; i < 2; i++) {
		lk_capture *c = capture(0);
		lk_traces *traces;
		lk_explanation *explanation;
		lk_error err = {0};
		lk_explain_request request;
		lk_explain_defaults(&request);
		if (i) add(c, LK_EVENT_OP, 1, "instant", 5, 5, 0);
		assert_int_equal(lk_capture_finish(c, &err), LK_OK);
		assert_int_equal(lk_traces_make(&c, 1, &traces, &err), LK_OK);
		assert_int_equal(lk_explain_make(traces, &request, &explanation, &err), LK_ERR_INPUT);
		assert_true(*err.what && *err.hint);
	}
}

/* ---- differences ---- */

static lk_diff *difference(const int64_t *before, int n, const int64_t *after, int m) {
	lk_diff *diff;
	lk_error err = {0};
	lk_explanation *a = explain(stepped(n, before)), *b = explain(stepped(m, after));
	assert_int_equal(lk_diff_make(a, b, 10, &diff, &err), LK_OK);
	return diff;
}

static void test_diff(void **state) {
	(void)state;
	static const int64_t slow[] = {1000, 1010, 990, 1000}, fast[] = {900, 910, 890, 900},
						 wild[] = {500, 1500, 700, 1200};
	lk_diff *diff = difference(slow, 4, fast, 4);
	assert_int_equal(diff->verdict, 1);
	assert_true(fabs(diff->ratio - 1000.0 / 900) < 1e-9);
	double relative = hypot(8.16496580927726 / 1000, 8.16496580927726 / 900);
	assert_true(fabs(diff->ratio_deviation - diff->ratio * relative) < 1e-9);
	double before = 0, after = 0;
	for (int i = 0; i < diff->category_count; i++) {
		before += diff->categories[i].before_s;
		after += diff->categories[i].after_s;
	}
	assert_true(fabs(before - diff->before_s) < 1e-15 && fabs(after - diff->after_s) < 1e-15);
	assert_int_equal(diff->kernel_count, 1);
	assert_true(fabs(diff->kernels[0].delta_s * 1e9 - (440.0 - 490.0)) < 1e-6);
	lk_diff_free(diff);

	diff = difference(fast, 4, slow, 4);
	assert_int_equal(diff->verdict, -1);
	assert_non_null(strstr(diff->sentence, "slower"));
	lk_diff_free(diff);
	diff = difference(slow, 4, wild, 4);
	assert_int_equal(diff->verdict, 0);
	assert_non_null(strstr(diff->sentence, "within noise"));
	lk_diff_free(diff);
	diff = difference(slow, 4, fast, 1);
	assert_int_equal(diff->verdict, 0);
	assert_true(isnan(diff->ratio_deviation));
	assert_non_null(strstr(diff->sentence, "noise is not known"));
	lk_diff_free(diff);
}

static void test_diff_kernels(void **state) {
	(void)state;
	lk_capture *a = capture(0), *b = capture(0);
	launched(a, 7, "kept", 0, 10, 110);
	launched(a, 7, "gone", 20, 110, 400);
	launched(b, 7, "come", 0, 10, 35);
	launched(b, 7, "kept", 20, 35, 155);
	lk_diff *diff;
	lk_error err = {0};
	lk_explanation *x = explain(a), *y = explain(b);
	assert_int_equal(lk_diff_make(x, y, 10, &diff, &err), LK_OK);
	static const struct {
		const char *name, *state;
		double delta_ns;
	} rows[] = {{"gone", "removed", -290}, {"come", "new", 25}, {"kept", "", 20}};
	assert_int_equal(diff->kernel_count, 3);
	for (int i = 0; i < 3; i++) {
		assert_string_equal(diff->kernels[i].name, rows[i].name);
		assert_string_equal(diff->kernels[i].state, rows[i].state);
		assert_true(fabs(diff->kernels[i].delta_s * 1e9 - rows[i].delta_ns) < 1e-6);
	}
	lk_diff_free(diff);
}

/* Points of the distribution, also between the rows of the table: qt(0.975, n) of R. */
static void test_student(void **state) {
	(void)state;
	static const double known[][2] = {{1, 12.7062}, {2, 4.3027},   {7, 2.3646},
	                                  {12, 2.1788}, {18, 2.1009},  {25, 2.0595},
	                                  {40, 2.0211}, {100, 1.9840}, {1000, 1.9623}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_true(fabs(lk_student_95(known[i][0]) / known[i][1] - 1) < 0.002);
	for (double n = 1; n < 300; n += 0.25) assert_true(lk_student_95(n) >= lk_student_95(n + 0.25));
}

/* ---- public traces ---- */

static void write_answer(const char *trace, const char *steps, const char *path) {
	lk_explain_request request;
	lk_explanation *explanation;
	lk_error err = {0};
	lk_explain_defaults(&request);
	request.traces = &trace;
	request.trace_count = 1;
	request.steps = steps;
	if (lk_explain(&request, &explanation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	if (lk_explain_print(explanation, 3, LK_EXPLAIN_ALL, false, path, stdout, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	lk_explain_free(explanation);
}

/* Every public trace gives an answer, and it is Python's. */
static void check_folder(const char *folder, int *checked) {
	DIR *dir = opendir(folder);
	char all[64], steps[64];
	if (!has_data(folder)) return;
	assert_non_null(dir);
	new_file(all, ".json");
	new_file(steps, ".json");
	bool python = !judged_elsewhere() && system("python3 -c 'import json, gzip' 2>/dev/null") == 0;
	if (!python && !judged_elsewhere())
		print_message("python3 is not there: answers are not compared\n");
	for (struct dirent *entry; (entry = readdir(dir));) {
		char trace[900], command[2200];
		if (!strstr(entry->d_name, ".json")) continue;
		snprintf(trace, sizeof trace, "%s/%s", folder, entry->d_name);
		write_answer(trace, "all", all);
		write_answer(trace, NULL, steps);
		snprintf(command, sizeof command, "python3 tests/unit/explain_oracle.py '%s' %s %s", trace,
		         all, steps);
		if (python && file_has_its_turn(entry->d_name) && system(command) != 0)
			fail_msg("%s: python differs", trace);
		snprintf(command, sizeof command,
		         "python3 tests/unit/hta_oracle.py compare '%s' %s && python3 "
		         "tests/unit/hta_oracle.py document docs/accuracy/hta.md '%s'",
		         trace, all, trace);
		if (python && takes_long() && system(command) != 0)
			fail_msg("%s: HTA's definitions differ", trace);
		++*checked;
	}
	closedir(dir);
	unlink(all);
	unlink(steps);
}

static void test_public(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	int checked = 0;
	static const char *const folders[] = {"traces/kineto", "traces/dlrm8/kineto"};
	for (int i = 0; i < 2; i++) check_folder(data_path(folders[i]), &checked);
	if (!checked) skip();
	assert_true(checked >= 21);
}

/* Random traces by HTA's definitions, of which Python has its own program. */
static void test_hta(void **state) {
	(void)state;
	if (judged_elsewhere() || system("python3 -c 'import json' 2>/dev/null") != 0) skip();
	char folder[64], command[200];
	int count = rounds(30, 1000);
	uint64_t seed = 20;
	snprintf(command, sizeof command, "python3 tests/unit/hta_oracle.py random %s %d %d",
	         new_folder(folder), count, (int)seed);
	assert_int_equal(system(command), 0);
	FILE *list = fopen(write_in(folder, "list", ""), "w");
	for (int i = 0; i < count; i++) {
		char trace[128], answer[128];
		snprintf(trace, sizeof trace, "%s/%d.json", folder, i);
		snprintf(answer, sizeof answer, "%s/%d.answer", folder, i);
		write_answer(trace, "all", answer);
		fprintf(list, "%s\n%s\n", trace, answer);
	}
	fclose(list);
	snprintf(command, sizeof command, "xargs python3 tests/unit/hta_oracle.py compare <%s/list",
	         folder);
	assert_int_equal(system(command), 0);
	remove_folder(folder);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bitmap),      cmocka_unit_test(test_stream_gaps),
		cmocka_unit_test(test_device_gaps), cmocka_unit_test(test_queue),
		cmocka_unit_test(test_full_queue),  cmocka_unit_test(test_sort_and_statistics),
		cmocka_unit_test(test_straggler),   cmocka_unit_test(test_critical_path),
		cmocka_unit_test(test_steps),       cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_diff),        cmocka_unit_test(test_diff_kernels),
		cmocka_unit_test(test_student),     cmocka_unit_test(test_public),
		cmocka_unit_test(test_hta),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
