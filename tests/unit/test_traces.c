/* test_traces.c: many ranks of one run. Synthetic captures with known clocks and known faults: what
 * was put in must be found. The clocks of the eight measured ranks of DLRM agree within 15 us. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <cmocka.h>
#include "base/text.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "trace/align/traces.h"
#include "data.h"
#include "rounds.h"
#include "scratch.h"

static lk_error err;

#define assert_ok(call)                                                              \
	do {                                                                             \
		char text[1024];                                                             \
		if ((call) != LK_OK) fail_msg("%s", lk_error_text(&err, text, sizeof text)); \
	} while (0)

/* ---- captures made here ---- */

/* The run that a test makes captures of. */
struct world {
	int ranks, collectives;
	bool told;             /* notes with process groups; otherwise names and streams alone */
	double noise_ns;       /* of ends */
	double offset_ns[300]; /* of clocks: own = true time + offset + drift * true time */
	double drift_ppm[300];
	int skip_begin[300], skip_end[300];
	int group_size; /* > 0: groups of so many neighbours, and of equal places across them every
	                   eighth time */
	bool equal;     /* all collectives alike */
	bool periodic;  /* steps of 10 alike */
	uint64_t seed;
};

enum { FAULT_NONE, FAULT_REMOVED, FAULT_SWAPPED, FAULT_RESIZED, FAULT_EXTRA };
struct fault {
	int what, rank, at;
};

static const int64_t START = 1700000000000000000; /* November 2023 */

static double true_end(const struct world *world, int k) {
	/* Collectives every 100 to 500 us; of groups that only share a stream each at its own times. */
	return 1e6 + 300e3 * k + 200e3 * lk_uniform(world->seed, 1000003ull * 7 + (uint64_t)k);
}

static lk_op_kind kind_of(const struct world *world, int k) {
	static const lk_op_kind kinds[] = {LK_OP_ALLREDUCE, LK_OP_ALLGATHER, LK_OP_REDUCESCATTER};
	int which = world->periodic ? k % 10 : k;
	return world->equal ? LK_OP_ALLREDUCE : kinds[lk_hash64(world->seed + (uint64_t)which) % 3];
}

static int64_t elements_of(const struct world *world, int k) {
	int which = world->periodic ? k % 10 : k;
	return world->equal ? 1024 : 256 << lk_hash64(world->seed * 3 + (uint64_t)which) % 16;
}

static const char *kernel_name(lk_op_kind kind) {
	return kind == LK_OP_ALLREDUCE
	           ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
	       : kind == LK_OP_ALLGATHER
	           ? "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
	           : "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
}

static bool across(const struct world *world, int k) {
	return world->group_size && k % 8 == 7;
}

/* The process groups of a rank: its neighbours, and its peers across. */
struct team {
	uint32_t name, ranks;
	int size;
};

static struct team make_team(const struct world *world, lk_capture *capture, int rank, bool peers) {
	char ranks[4096] = "[";
	int first = 0, step = 1, n = world->ranks;
	if (world->group_size && !peers) {
		first = rank / world->group_size * world->group_size;
		n = world->group_size;
	} else if (world->group_size) {
		first = rank % world->group_size;
		step = world->group_size;
		n = world->ranks / world->group_size;
	}
	size_t used = 1;
	for (int i = 0; i < n; i++)
		used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d", i ? ", " : "",
		                         first + i * step);
	snprintf(ranks + used, sizeof ranks - used, "]");
	const char *name = !world->group_size ? "world" : peers ? "dp" : "tp";
	return (struct team){lk_intern_id(capture->names, name), lk_intern_id(capture->names, ranks),
	                     n};
}

/* `of` NULL: nothing is said of its group. */
static void add_call(lk_capture *capture, const struct team *of, lk_op_kind kind, int64_t start,
                     int64_t took, uint32_t lane, int64_t elements) {
	uint32_t name = lk_intern_id(capture->names, kernel_name(kind));
	uint32_t event = lk_capture_add(capture, &(lk_event){.kind = LK_EVENT_KERNEL,
	                                                     .start_ns = start,
	                                                     .dur_ns = took,
	                                                     .lane = lane,
	                                                     .name = name});
	assert_int_not_equal(event, LK_NONE);
	if (!of) return;
	assert_true(lk_push(&capture->comms));
	*lk_last(&capture->comms) = (lk_comm_note){.event = event,
	                                           .kind = (uint8_t)kind,
	                                           .element_bytes = 4,
	                                           .group = of->name,
	                                           .ranks = of->ranks,
	                                           .group_size = of->size,
	                                           .peer = -1,
	                                           .in_elements = elements,
	                                           .out_elements = elements};
}

static void add_collective(const struct world *world, lk_capture *capture, int rank,
                           const struct team *of, int k, int as, int64_t elements) {
	double end = true_end(world, k) +
	             world->noise_ns * lk_normal(world->seed ^ 77, (uint64_t)k * 1024 + (uint64_t)rank);
	double start =
		end - 20e3 - 100e3 * lk_uniform(world->seed ^ 99, (uint64_t)k * 1024 + (uint64_t)rank);
	double slow = 1 + world->drift_ppm[rank] * 1e-6;
	lk_op_kind kind = kind_of(world, as);
	int64_t from = START + (int64_t)(start * slow + world->offset_ns[rank]),
			to = START + (int64_t)(end * slow + world->offset_ns[rank]);
	uint32_t lane = lk_capture_lane(capture, true, rank % 8, across(world, k) ? 24 : 20);
	add_call(capture, world->told ? of : NULL, kind, from, to - from, lane, elements);
}

static lk_capture *make_rank(const struct world *world, int rank, struct fault f) {
	char path[64];
	snprintf(path, sizeof path, "rank%d.json", rank);
	lk_capture *capture = lk_capture_new(path, "made here");
	assert_non_null(capture);
	capture->rank = rank;
	capture->world = world->ranks;
	capture->absolute = true;
	const struct team teams[2] = {make_team(world, capture, rank, false),
	                              make_team(world, capture, rank, true)};
	int struck = f.rank == rank ? f.what : FAULT_NONE;
	for (int k = world->skip_begin[rank]; k < world->collectives - world->skip_end[rank]; k++) {
		if (struck == FAULT_REMOVED && k == f.at) continue;
		int as = struck != FAULT_SWAPPED ? k : k == f.at ? k + 1 : k == f.at + 1 ? k - 1 : k;
		int64_t elements = elements_of(world, as);
		if (struck == FAULT_RESIZED && k == f.at) elements += 17;
		add_collective(world, capture, rank, &teams[across(world, k)], k, as, elements);
		if (struck == FAULT_EXTRA && k == f.at)
			add_collective(world, capture, rank, &teams[across(world, k)], k, k, elements * 3 + 1);
	}
	assert_ok(lk_capture_finish(capture, &err));
	return capture;
}

static lk_traces *make_run(const struct world *world, struct fault f) {
	lk_capture *captures[300];
	for (int r = 0; r < world->ranks; r++) captures[r] = make_rank(world, r, f);
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, (uint32_t)world->ranks, &traces, &err));
	return traces;
}

static const struct fault no_fault;

static void random_offsets(struct world *world, double deviation) {
	for (int r = 0; r < world->ranks; r++)
		world->offset_ns[r] = deviation * lk_normal(world->seed, 5000 + (uint64_t)r);
}

/* Common time must be the true time plus one constant: the true time of a collective is the oracle.
 */
static double clock_error(const struct world *world, const lk_traces *traces) {
	double worst = 0;
	for (uint32_t c = 0; c < traces->count; c++)
		for (int i = 0; i <= 4; i++) {
			double when = true_end(world, world->collectives * i / 4),
				   slow0 = 1 + world->drift_ppm[0] * 1e-6;
			double own = when * (1 + world->drift_ppm[c] * 1e-6) + world->offset_ns[c] -
			             (double)(traces->capture[c]->origin_ns - START);
			double expected = when * slow0 + world->offset_ns[0] -
			                  (double)(traces->capture[0]->origin_ns - START);
			worst = fmax(worst, fabs((double)lk_traces_time(traces, c, (int64_t)own) - expected));
		}
	return worst;
}

static void print_problems(const lk_traces *traces) {
	for (size_t i = 0; i < traces->problems.count && i < 5; i++)
		print_message("problem: %s\n", traces->problems.at[i]);
	for (size_t i = 0; i < traces->warnings.count && i < 5; i++)
		print_message("warning: %s\n", traces->warnings.at[i]);
}

static void check_whole(const lk_traces *traces) {
	uint32_t at = 0;
	for (uint32_t m = 0; m < traces->matches.count; m++) {
		const lk_match *match = &traces->matches.at[m];
		assert_int_equal(match->begin, at);
		assert_true(match->end > match->begin);
		if (m && match[-1].group == match->group) assert_true(match[-1].sequence < match->sequence);
		else if (m) assert_true(match[-1].group < match->group);
		for (at = match->begin; at < match->end; at++) {
			lk_match_member member = traces->members.at[at];
			if (at > match->begin) assert_true(traces->members.at[at - 1].capture < member.capture);
			assert_ptr_equal(lk_traces_match(traces, member.capture, member.event), match);
		}
	}
	assert_int_equal(at, traces->members.count);
}

/* ---- matching and clocks ---- */

static void test_offsets(void **state) {
	(void)state;
	for (int told = 0; told < 2; told++) {
		struct world w = {.ranks = 8, .collectives = 200, .told = told, .noise_ns = 2e3, .seed = 5};
		random_offsets(&w, 3e9);
		lk_traces *traces = make_run(&w, no_fault);
		print_problems(traces);
		check_whole(traces);
		assert_int_equal(traces->problems.count, 0);
		assert_int_equal(traces->groups.count, 1);
		assert_int_equal(traces->matches.count, 200);
		assert_int_equal(traces->anchors, 200);
		assert_int_equal(traces->shift_ns[0], 0);
		assert_true(clock_error(&w, traces) < 1e3);
		assert_true(traces->residual_ns > 500 && traces->residual_ns < 4e3);
		assert_true(traces->skew_ns > 1e9);
		lk_traces_free(traces);
	}
}

static void test_late_and_early(void **state) {
	(void)state;
	for (int variant = 0; variant < 3; variant++) {
		struct world w = {.ranks = 6,
		                  .collectives = 120,
		                  .told = true,
		                  .noise_ns = 1e3,
		                  .seed = 11 + (uint64_t)variant,
		                  .periodic = variant == 1,
		                  .equal = variant == 2};
		random_offsets(&w, 1e8);
		w.skip_begin[1] = 10;
		w.skip_begin[2] = 23;
		w.skip_end[2] = 4;
		w.skip_end[3] = 30;
		w.skip_begin[5] = 60;
		lk_traces *traces = make_run(&w, no_fault);
		print_problems(traces);
		check_whole(traces);
		assert_int_equal(traces->problems.count, 0);
		print_message("variant %d: %zu matches, clocks wrong by %.1f us, residual %.1f us\n",
		              variant, traces->matches.count, clock_error(&w, traces) * 1e-3,
		              traces->residual_max_ns * 1e-3);
		assert_int_equal(traces->matches.count, 120);
		assert_true(clock_error(&w, traces) < 1e3);
		lk_traces_free(traces);
	}
}

/* Steps without any variation: kinds, sizes and distances agree at every offset; the clocks of the
 * files decide. */
static void test_regular(void **state) {
	(void)state;
	lk_capture *captures[3];
	for (int r = 0; r < 3; r++) {
		lk_capture *capture = captures[r] = lk_capture_new("x", "made here");
		capture->rank = r;
		capture->absolute = true;
		for (int k = 3 * r; k < 40 - r; k++)
			lk_capture_add(capture, &(lk_event){.kind = LK_EVENT_KERNEL,
			                                    .start_ns = START + k * 20000000ll + r * 700000,
			                                    .dur_ns = 1000000,
			                                    .lane = lk_capture_lane(capture, true, 0, 20),
			                                    .name = lk_intern_id(
													capture->names, kernel_name(LK_OP_ALLREDUCE))});
		assert_ok(lk_capture_finish(capture, &err));
	}
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 3, &traces, &err));
	check_whole(traces);
	assert_int_equal(traces->matches.count, 40);
	for (int r = 0; r < 3; r++) {
		int64_t files = traces->capture[r]->origin_ns - traces->capture[0]->origin_ns;
		assert_int_equal(traces->shift_ns[r] - files, -700000 * r);
	}
	lk_traces_free(traces);
}

/* What leaves late on a busy machine looks like another call at another offset. Where both files
 * hold all calls from the program's first on, it is not taken for that, whichever ends first. */
static void test_from_the_first(void **state) {
	(void)state;
	const struct world w = {.ranks = 2, .told = true};
	for (int whole = 0; whole < 2; whole++) {
		lk_capture *captures[2];
		for (int r = 0; r < 2; r++) {
			lk_capture *capture = captures[r] = lk_capture_new("x", "made here");
			capture->rank = r;
			capture->absolute = true;
			capture->whole = whole;
			struct team all = make_team(&w, capture, r, false);
			uint32_t lane = lk_capture_lane(capture, true, r, 20);
			for (int k = 0; k < 60 - 2 * r; k++) {
				double late = 2e6 * lk_uniform(31, (uint64_t)(k + 5 * r));
				add_call(capture, &all, LK_OP_ALLREDUCE, START + 5000000ll * k,
				         (int64_t)(1e6 + late), lane, 1024);
			}
			assert_ok(lk_capture_finish(capture, &err));
		}
		lk_traces *traces = NULL;
		assert_ok(lk_traces_make(captures, 2, &traces, &err));
		check_whole(traces);
		assert_int_equal(traces->problems.count, 0);
		assert_int_equal(traces->matches.count,
		                 whole ? 60 : 63); /* or rank 1's first is taken for rank 0's sixth */
		lk_traces_free(traces);
	}
}

/* Whole groups overlap: neighbours often, across seldom. Clocks of all must still agree. */
static void test_many_groups(void **state) {
	(void)state;
	struct world w = {
		.ranks = 64, .collectives = 160, .told = true, .noise_ns = 2e3, .group_size = 8, .seed = 3};
	random_offsets(&w, 5e6);
	lk_traces *traces = make_run(&w, no_fault);
	print_problems(traces);
	check_whole(traces);
	assert_int_equal(traces->groups.count, 16);
	assert_int_equal(traces->matches.count, 8 * 160);
	assert_int_equal(traces->problems.count, 0);
	assert_int_equal(traces->warnings.count, 0);
	assert_true(clock_error(&w, traces) < 3e3);
	lk_traces_free(traces);
}

/* Ranks 0 to 3 and 4 to 7 share nothing but the number of their streams. */
static void test_guessed_groups(void **state) {
	(void)state;
	lk_capture *captures[8];
	struct world one = {.ranks = 8, .collectives = 100, .noise_ns = 2e3, .equal = true, .seed = 21},
				 two = one;
	two.seed = 22;
	for (int r = 0; r < 8; r++) captures[r] = make_rank(r < 4 ? &one : &two, r, no_fault);
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 8, &traces, &err));
	check_whole(traces);
	assert_int_equal(traces->groups.count, 2);
	assert_string_equal(traces->groups.at[0].name, "stream 20");
	assert_string_equal(traces->groups.at[1].name, "stream 20, part 2");
	for (int g = 0; g < 2; g++) {
		assert_int_equal(traces->groups.at[g].count, 4);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(traces->groups.at[g].captures[i], (uint32_t)g * 4 + i);
	}
	assert_true(traces->residual_max_ns < 20e3);
	assert_int_equal(traces->warnings.count, 4); /* nothing ties 4 to 7 to 0 */
	lk_traces_free(traces);
}

static void test_drift(void **state) {
	(void)state;
	for (int ranks = 2; ranks <= 8; ranks += 3) {
		/* 600 collectives over 0.2 s: 300 ppm are 60 us. */
		struct world w = {
			.ranks = ranks, .collectives = 600, .told = true, .noise_ns = 2e3, .seed = 31};
		random_offsets(&w, 1e6);
		w.drift_ppm[1] = 300;
		lk_traces *traces = make_run(&w, no_fault);
		print_problems(traces);
		assert_true(fabs(traces->drift_ppm[1] + 300) < 15);
		assert_true(fabs(traces->largest_drift_ppm - 300) < 15);
		for (int r = 2; r < ranks; r++) assert_true(fabs(traces->drift_ppm[r]) < 15);
		assert_true(clock_error(&w, traces) < 3e3);
		assert_true(traces->residual_max_ns < 15e3);
		lk_traces_free(traces);
	}
	/* Over several groups: drift is joined as shifts are. */
	struct world many = {.ranks = 16,
	                     .collectives = 800,
	                     .told = true,
	                     .noise_ns = 2e3,
	                     .group_size = 4,
	                     .seed = 33};
	random_offsets(&many, 1e6);
	many.drift_ppm[6] = -200;
	lk_traces *m = make_run(&many, no_fault);
	for (int r = 0; r < 16; r++) assert_true(fabs(m->drift_ppm[r] - (r == 6 ? 200 : 0)) < 15);
	assert_true(clock_error(&many, m) < 4e3);
	lk_traces_free(m);
	struct world still = {
		.ranks = 8, .collectives = 600, .told = true, .noise_ns = 2e3, .seed = 32};
	lk_traces *traces = make_run(&still, no_fault);
	for (int r = 0; r < 8; r++) assert_true(traces->drift_ppm[r] == 0);
	lk_traces_free(traces);
}

/* A tenth of the ends of one rank are far off: medians do not care. */
static void test_outliers(void **state) {
	(void)state;
	struct world w = {.ranks = 5, .collectives = 100, .told = true, .noise_ns = 1e3, .seed = 41};
	random_offsets(&w, 1e7);
	lk_capture *captures[5];
	for (int r = 0; r < 5; r++) captures[r] = make_rank(&w, r, no_fault);
	for (uint32_t i = 0; i < 100; i += 10) captures[3]->dur_ns[i] += 5000000;
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 5, &traces, &err));
	assert_true(clock_error(&w, traces) < 1e3);
	assert_true(traces->residual_max_ns > 4.9e6 && traces->residual_ns < 2e3);
	lk_traces_free(traces);
}

static void test_one_anchor(void **state) {
	(void)state;
	struct world w = {
		.ranks = 2, .collectives = 1, .told = true, .seed = 51, .offset_ns = {0, 4e6}};
	lk_traces *traces = make_run(&w, no_fault);
	assert_int_equal(traces->anchors, 0);
	assert_int_equal(traces->shift_ns[1],
	                 traces->capture[1]->origin_ns - traces->capture[0]->origin_ns);
	assert_int_equal(traces->warnings.count, 1);
	lk_traces_free(traces);
	/* Clocks that count from anywhere begin together. */
	lk_capture *captures[2] = {make_rank(&w, 0, no_fault), make_rank(&w, 1, no_fault)};
	for (int r = 0; r < 2; r++) {
		captures[r]->absolute = false;
		captures[r]->origin_ns = 1000000 * r;
	}
	assert_ok(lk_traces_make(captures, 2, &traces, &err));
	assert_int_equal(traces->shift_ns[1], 0);
	lk_traces_free(traces);
}

/* ---- messages ---- */

/* Rank 0 sends to 1, 1 to 2; a message ends 3 us later where it is received. */
static lk_traces *make_pipeline(bool peers, int lost) {
	static const struct world w = {.seed = 111};
	lk_capture *captures[3];
	for (int r = 0; r < 3; r++) {
		lk_capture *capture = captures[r] = lk_capture_new("x", "made here");
		capture->rank = r;
		capture->world = 3;
		capture->absolute = true;
		uint32_t lane = lk_capture_lane(capture, true, 0, 20),
				 name = lk_intern_id(capture->names,
		                             "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
		for (int k = 0; k < 60; k++) {
			int from = k % 2;
			if ((r != from && r != from + 1) || (r == 2 && k == lost)) continue;
			int64_t end = START + (int64_t)true_end(&w, k) + (r == from ? 0 : 3000) + r * 1000000;
			uint32_t event = lk_capture_add(capture, &(lk_event){.kind = LK_EVENT_KERNEL,
			                                                     .start_ns = end - 50000,
			                                                     .dur_ns = 50000,
			                                                     .lane = lane,
			                                                     .name = name});
			assert_true(lk_push(&capture->comms));
			*lk_last(&capture->comms) =
				(lk_comm_note){.event = event,
			                   .kind = r == from ? LK_OP_SEND : LK_OP_RECV,
			                   .element_bytes = 2,
			                   .group = lk_intern_id(capture->names, "pp"),
			                   .ranks = lk_intern_id(capture->names, "[0, 1, 2]"),
			                   .group_size = 3,
			                   .peer = !peers      ? -1
			                           : r == from ? from + 1
			                                       : from,
			                   .in_elements = 1024 << k / 2 % 5,
			                   .out_elements = -1};
		}
		assert_ok(lk_capture_finish(capture, &err));
	}
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 3, &traces, &err));
	check_whole(traces);
	return traces;
}

static void test_messages(void **state) {
	(void)state;
	lk_traces *traces = make_pipeline(true, -1);
	print_problems(traces);
	assert_int_equal(traces->groups.count, 2);
	assert_string_equal(traces->groups.at[0].name, "pp (0 to 1)");
	assert_string_equal(traces->groups.at[1].name, "pp (1 to 2)");
	assert_int_equal(traces->matches.count, 60);
	assert_int_equal(traces->members.count, 120);
	assert_int_equal(traces->problems.count, 0);
	assert_int_equal(traces->anchors, 60);
	for (int r = 0; r < 3; r++) {
		int64_t clock =
			traces->shift_ns[r] - (traces->capture[r]->origin_ns - traces->capture[0]->origin_ns);
		assert_true(llabs(clock + r * 1000000 + r * 3000) < 10);
	}
	lk_traces_free(traces);
	traces = make_pipeline(true, 21);
	assert_int_equal(traces->problems.count, 1);
	assert_non_null(strstr(traces->problems.at[0], "group pp (1 to 2), number 10"));
	assert_non_null(strstr(traces->problems.at[0], "rank 2")
	                    ? traces->problems.at[0]
	                    : strstr(traces->problems.at[0], "rank 1"));
	lk_traces_free(traces);
	traces = make_pipeline(false, -1);
	assert_int_equal(traces->matches.count, 0);
	assert_int_equal(traces->warnings.count,
	                 5); /* three files whose partners are not said, two clocks that nothing ties */
	lk_traces_free(traces);
}

/* ---- faults are named ---- */

static void expect_problem(const struct world *world, struct fault f, const char *part,
                           size_t most) {
	lk_traces *traces = make_run(world, f);
	check_whole(traces);
	bool named = false;
	for (size_t i = 0; i < traces->problems.count; i++)
		named |= strstr(traces->problems.at[i], part) != NULL;
	if (!named) print_problems(traces);
	assert_true(named);
	assert_in_range(traces->problems.count, 1, most);
	assert_true(clock_error(world, traces) < 2e3);
	lk_traces_free(traces);
}

static void test_faults(void **state) {
	(void)state;
	for (int rank = 0; rank < 4; rank++) {
		struct world w = {.ranks = 4, .collectives = 80, .told = true, .noise_ns = 1e3, .seed = 61};
		random_offsets(&w, 1e9);
		int at = 40;
		while (kind_of(&w, at) == kind_of(&w, at + 1)) at++;
		char part[100];
		snprintf(part, sizeof part,
		         "group world, number %d: %s of %lld bytes is missing on rank %d", at,
		         lk_op_kind_name(kind_of(&w, at)), (long long)elements_of(&w, at) * 4, rank);
		expect_problem(&w, (struct fault){FAULT_REMOVED, rank, at}, part, 1);
		snprintf(part, sizeof part, "number %d: rank %d has %s of %lld bytes where", at, rank,
		         lk_op_kind_name(kind_of(&w, at + 1)), (long long)elements_of(&w, at + 1) * 4);
		expect_problem(&w, (struct fault){FAULT_SWAPPED, rank, at}, part, 2);
		snprintf(part, sizeof part, "number %d: rank %d has %s of %lld bytes where", at, rank,
		         lk_op_kind_name(kind_of(&w, at)), (long long)(elements_of(&w, at) + 17) * 4);
		expect_problem(&w, (struct fault){FAULT_RESIZED, rank, at}, part, 1);
		snprintf(part, sizeof part, "before number %d", at + 1);
		expect_problem(&w, (struct fault){FAULT_EXTRA, rank, at}, part, 1);
	}
}

static void test_absent_rank(void **state) {
	(void)state;
	struct world w = {.ranks = 3, .collectives = 20, .told = true, .seed = 71};
	w.skip_begin[2] = 20;
	lk_capture *captures[3];
	for (int r = 0; r < 3; r++) captures[r] = make_rank(&w, r, no_fault);
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 3, &traces, &err));
	assert_int_equal(traces->problems.count, 1);
	assert_non_null(strstr(traces->problems.at[0], "no collective at all on captured rank 2"));
	lk_traces_free(traces);
}

/* ---- scale and hostile captures ---- */

static void test_large(void **state) {
	(void)state;
	static struct world w = {
		.ranks = 256, .collectives = 2000, .told = true, .noise_ns = 2e3, .seed = 91};
	random_offsets(&w, 1e7);
	w.skip_begin[7] = 100;
	w.skip_end[9] = 300;
	static lk_capture *captures[256];
	for (int r = 0; r < 256; r++)
		captures[r] = make_rank(&w, r, (struct fault){FAULT_REMOVED, 200, 1000});
	lk_traces *traces = NULL;
	clock_t began = clock();
	assert_ok(lk_traces_make(captures, 256, &traces, &err));
	print_message("256 ranks, 2,000 collectives: matched and aligned in %.2f s\n",
	              (double)(clock() - began) / CLOCKS_PER_SEC);
	assert_int_equal(traces->matches.count, 2000);
	assert_int_equal(traces->problems.count, 1);
	assert_true(clock_error(&w, traces) < 1e3);
	lk_traces_free(traces);
}

static void test_hostile(void **state) {
	(void)state;
	lk_capture *captures[20];
	int events = rounds(3000, 3000);
	for (int r = 0; r < 20; r++) {
		lk_capture *capture = captures[r] = lk_capture_new("x", "made here");
		capture->rank = r, capture->origin_ns = r % 3 ? INT64_MAX : INT64_MIN,
		capture->absolute = r % 2;
		for (int i = 0; i < events; i++) {
			uint64_t random = lk_hash64((uint64_t)(r * 10000 + i));
			char group[32];
			snprintf(group, sizeof group, "group %d", i % (events / 2));
			uint32_t event = lk_capture_add(
				capture, &(lk_event){.kind = LK_EVENT_KERNEL,
			                         .lane = lk_capture_lane(capture, true, 0, i % 7),
			                         .start_ns = random % 5 ? (int64_t)random : INT64_MIN,
			                         .dur_ns = i % 3 ? INT64_MAX : 0,
			                         .name = lk_intern_id(
										 capture->names,
										 kernel_name(i % 2 ? LK_OP_ALLREDUCE : LK_OP_ALLGATHER))});
			assert_true(lk_push(&capture->comms));
			*lk_last(&capture->comms) = (lk_comm_note){
				.event = event,
				.kind = LK_OP_COUNT,
				.peer = -1,
				.element_bytes = 255,
				.in_elements = INT64_MAX,
				.out_elements = -1,
				.group = i % 11 ? lk_intern_id(capture->names, group) : 0,
				.ranks = i % 13 ? 0 : lk_intern_id(capture->names, "[9999999999999999999999, 3"),
				.group_size = -5};
		}
		assert_ok(lk_capture_finish(capture, &err));
	}
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 20, &traces, &err));
	check_whole(traces);
	lk_traces_free(traces);
}

/* Nothing agrees with anything: still near linear, and the list of problems ends. */
static void test_noise(void **state) {
	(void)state;
	lk_capture *captures[4];
	for (int r = 0; r < 4; r++) {
		struct world w = {
			.ranks = 4, .collectives = 20000, .told = true, .seed = 100 + (uint64_t)r};
		captures[r] = make_rank(&w, r, no_fault);
	}
	lk_traces *traces = NULL;
	assert_ok(lk_traces_make(captures, 4, &traces, &err));
	check_whole(traces);
	assert_in_range(traces->problems.count, 1, 1001);
	lk_traces_free(traces);
}

static void test_single(void **state) {
	(void)state;
	struct world w = {.ranks = 1, .collectives = 10, .told = true, .seed = 1};
	lk_traces *traces = make_run(&w, no_fault);
	assert_int_equal(traces->matches.count, 10);
	assert_int_equal(traces->anchors, 0);
	assert_int_equal(traces->warnings.count, 0);
	lk_traces_free(traces);
}

/* ---- files ---- */

static void test_ranks_of_files(void **state) {
	(void)state;
	char folder[64];
	new_folder(folder);
	const char *event = "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":"
						"1,\"tid\":1,\"ts\":1,\"dur\":2}]}";
	static const struct {
		const char *name;
		int rank;
	} files[] = {{"rank_10.json", 10},
	             {"trace_rank-2.json", 2},
	             {"worker4_step_12.1694128201545.pt.trace.json", 4},
	             {"run.5.json", 5},
	             {"a.json", 0},
	             {"b.json", 1}};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		write_in(folder, files[i].name, event);
	write_in(folder, "notes.txt", "no trace");
	lk_traces *traces = NULL;
	const char *paths[2] = {folder, "-"};
	assert_ok(lk_traces_read(paths, 1, NULL, 0, &traces, &err));
	assert_int_equal(traces->count, 6);
	assert_int_equal(traces->world, 11);
	for (uint32_t i = 0; i < traces->count; i++)
		for (size_t k = 0; k < sizeof files / sizeof *files; k++)
			if (lk_same_name(strrchr(traces->capture[i]->path, '/') + 1, files[k].name))
				assert_int_equal(traces->capture[i]->rank, files[k].rank);
	size_t guessed = 0;
	for (size_t i = 0; i < traces->warnings.count; i++)
		guessed += strstr(traces->warnings.at[i], "neither the file") != NULL;
	assert_int_equal(guessed, 2);
	lk_traces_free(traces);
	assert_int_equal(lk_traces_read(paths, 2, NULL, 0, &traces, &err),
	                 LK_ERR_INPUT); /* "-" among several */
	write_in(folder, "rank10.json", event);
	assert_int_equal(lk_traces_read(paths, 1, NULL, 0, &traces, &err), LK_ERR_INPUT);
	char text[1024];
	lk_error_text(&err, text, sizeof text);
	assert_non_null(strstr(text, "rank10.json"));
	assert_non_null(strstr(text, "rank_10.json"));
	write_in(folder, "rank10.json",
	         "{\"distributedInfo\":{\"rank\":3,\"world_size\":16},\"traceEvents\":[]}");
	write_in(folder, "b.json",
	         "{\"distributedInfo\":{\"rank\":7,\"world_size\":8},\"traceEvents\":[]}");
	assert_int_equal(lk_traces_read(paths, 1, NULL, 0, &traces, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "16"));
	/* What is no trace is left out, with any number of threads; nothing but such is an error that
	 * names the first. */
	write_in(folder, "a.json", "no trace");
	write_in(folder, "rank10.json", "nor is this");
	for (int threads = 1; threads <= 8; threads++) {
		assert_int_equal(lk_traces_read(paths, 1, NULL, threads, &traces, &err), LK_OK);
		assert_int_equal(traces->count, 5);
		lk_traces_free(traces);
	}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		write_in(folder, files[i].name, "no trace");
	for (int threads = 1; threads <= 8; threads++) {
		assert_int_equal(lk_traces_read(paths, 1, NULL, threads, &traces, &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.where, "/a.json"));
	}
	assert_int_equal(remove_folder(folder), 0);
}

/* ---- threads, medians ---- */

static void test_median(void **state) {
	(void)state;
	for (uint64_t round = 0; round < 3000; round++) {
		double x[40], sorted[40];
		size_t n = 1 + lk_hash64(round) % 40;
		/* Few different values, so that many are equal. */
		for (size_t i = 0; i < n; i++)
			x[i] = sorted[i] = (double)(lk_hash64(round * 64 + i) % (1 + round % 50));
		qsort(sorted, n, sizeof *sorted, lk_ascending);
		assert_true(lk_select_median(x, n) == sorted[(n - 1) / 2]);
		qsort(x, n, sizeof *x, lk_ascending);
		assert_memory_equal(x, sorted, n * sizeof *x);
	}
}

static lk_status square(void *context, size_t job, lk_error *error) {
	((uint64_t *)context)[job] = job * job;
	return job % 100 == 57 ? lk_fail(error, LK_ERR_INPUT, "job", "%zu", job) : LK_OK;
}

static void test_parallel(void **state) {
	(void)state;
	uint64_t squares[400] = {0};
	assert_ok(lk_parallel(57, 8, square, squares, &err));
	for (uint64_t i = 0; i < 57; i++) assert_int_equal(squares[i], i * i);
	assert_ok(lk_parallel(0, 8, square, squares, &err));
	for (int threads = 0; threads < 20; threads++) {
		assert_int_equal(lk_parallel(400, threads, square, squares, &err), LK_ERR_INPUT);
		assert_string_equal(err.what, "57");
	}
}

/* ---- the measured run ---- */

static lk_traces *read_dlrm(int threads) {
	const char *folder = need_data("traces/dlrm8/kineto");
	lk_traces *traces = NULL;
	assert_ok(lk_traces_read(&folder, 1, NULL, threads, &traces, &err));
	return traces;
}

static void test_dlrm(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	lk_traces *traces = read_dlrm(0);
	print_problems(traces);
	check_whole(traces);
	assert_int_equal(traces->count, 8);
	assert_int_equal(traces->world, 8);
	assert_int_equal(traces->problems.count, 0);
	assert_int_equal(traces->matches.count, 8);
	assert_int_equal(traces->members.count, 64);
	print_message("DLRM, 8 ranks: %u anchors, ends apart by %.1f us (median), %.1f us (most); "
	              "clocks of the files by %.1f us\n",
	              traces->anchors, traces->residual_ns * 1e-3, traces->residual_max_ns * 1e-3,
	              traces->skew_ns * 1e-3);
	assert_true(traces->skew_ns < 15e3); /* one host: the clocks agree already */
	lk_traces_free(traces);
}

/* The table of kernels was taken from the same files by another program. */
static void test_dlrm_table(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	lk_traces *traces = read_dlrm(2);
	FILE *IO_FILE = fopen(need_data("measured/dlrm8_nccl_kernels.csv"), "r");
	assert_non_null(IO_FILE);
	char line[1000];
	int rows = 0;
	double origin = 0;
	while (fgets(line, sizeof line, IO_FILE)) {
		int rank, place, stream;
		double start, duration;
		if (sscanf(line, "%d,%d,record_param_comms,%d,%lf,%lf", &rank, &place, &stream, &start,
		           &duration) != 5)
			continue;
		const lk_match *match = &traces->matches.at[place];
		lk_match_member member = traces->members.at[match->begin + (uint32_t)rank];
		const lk_capture *capture = traces->capture[member.capture];
		double own = (double)(capture->origin_ns - traces->capture[0]->origin_ns +
		                      capture->start_ns[member.event]) *
		             1e-3;
		if (!rows++) origin = own - start;
		assert_true(fabs(own - start - origin) < 0.002);
		assert_true(fabs((double)capture->dur_ns[member.event] * 1e-3 - duration) < 0.002);
		int64_t elements = 0;
		if (sscanf(line, "%*[^[][[%ld]", &elements) == 1)
			assert_int_equal(match->kind, LK_OP_ALLTOALL);
		if (elements == 6144 || elements == 384 || elements == 3392)
			assert_int_equal(match->bytes, elements * 4);
		if (elements == 24) assert_int_equal(match->bytes, 24 * 8);
	}
	fclose(IO_FILE);
	assert_int_equal(rows, 64);
	static const int64_t reduced[] = {394241 * 4, 112 * 4, 226960 * 4};
	int n = 0;
	for (size_t i = 0; i < traces->matches.count; i++)
		if (traces->matches.at[i].kind == LK_OP_ALLREDUCE)
			n += traces->matches.at[i].bytes == reduced[0] ||
			     traces->matches.at[i].bytes == reduced[1] ||
			     traces->matches.at[i].bytes == reduced[2];
	assert_int_equal(n, 3);
	lk_traces_free(traces);
}

static void test_threads_agree(void **state) {
	(void)state;
	lk_traces *one = read_dlrm(1), *eight = read_dlrm(8);
	assert_int_equal(one->members.count, eight->members.count);
	assert_memory_equal(one->members.at, eight->members.at,
	                    one->members.count * sizeof *one->members.at);
	assert_memory_equal(one->shift_ns, eight->shift_ns, one->count * sizeof *one->shift_ns);
	assert_memory_equal(&one->residual_ns, &eight->residual_ns, sizeof one->residual_ns);
	assert_int_equal(one->warnings.count, eight->warnings.count);
	for (uint32_t c = 0; c < one->count; c++) {
		assert_string_equal(one->capture[c]->path, eight->capture[c]->path);
		assert_int_equal(one->capture[c]->count, eight->capture[c]->count);
	}
	lk_traces_free(one);
	lk_traces_free(eight);
}

/* Every other public capture, alone. */
static void test_single_files(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	static const char *const files[] = {
		"a100_nccl_args_rank0of2", "a100_rec_rank3of8",  "cpu_only_rank34",
		"mi250_minitoy",           "simple_add",         "rtx2080ti_resnet",
		"v100_resnet_rank0of1",    "no_distributed_info"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char name[100];
		snprintf(name, sizeof name, "traces/kineto/%s.json.gz", files[i]);
		const char *path = need_data(name);
		lk_traces *traces = NULL;
		assert_ok(lk_traces_read(&path, 1, NULL, 1, &traces, &err));
		check_whole(traces);
		print_message("%s: %zu collectives in %zu groups; run of %d ranks\n", files[i],
		              traces->matches.count, traces->groups.count, traces->world);
		lk_traces_free(traces);
	}
}

static void test_sampled(void **state) {
	(void)state;
	const char *paths[] = {need_data("traces/kineto/sampled_rank0of128.json.gz"),
	                       need_data("traces/kineto/sampled_rank1of128.json.gz")};
	lk_traces *traces = NULL;
	assert_ok(lk_traces_read(paths, 2, NULL, 0, &traces, &err));
	check_whole(traces);
	print_problems(traces);
	for (size_t g = 0; g < traces->groups.count; g++)
		print_message("group %s of %u\n", traces->groups.at[g].name, traces->groups.at[g].count);
	print_message(
		"2 of 128: %zu matches, %u anchors, residual %.1f us, most %.1f us, skew %.1f us\n",
		traces->matches.count, traces->anchors, traces->residual_ns * 1e-3,
		traces->residual_max_ns * 1e-3, traces->skew_ns * 1e-3);
	assert_int_equal(traces->world, 128);
	lk_traces_free(traces);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regular),        cmocka_unit_test(test_from_the_first),
		cmocka_unit_test(test_median),         cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_late_and_early), cmocka_unit_test(test_many_groups),
		cmocka_unit_test(test_guessed_groups), cmocka_unit_test(test_drift),
		cmocka_unit_test(test_outliers),       cmocka_unit_test(test_one_anchor),
		cmocka_unit_test(test_faults),         cmocka_unit_test(test_absent_rank),
		cmocka_unit_test(test_large),          cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_noise),          cmocka_unit_test(test_single),
		cmocka_unit_test(test_ranks_of_files), cmocka_unit_test(test_parallel),
		cmocka_unit_test(test_dlrm),           cmocka_unit_test(test_dlrm_table),
		cmocka_unit_test(test_threads_agree),  cmocka_unit_test(test_single_files),
		cmocka_unit_test(test_sampled),        cmocka_unit_test(test_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
