/* test_schedule.c: pipeline schedules against published orders, closed forms, and the rules that
 * every order must keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "model/layout/schedule.h"

/* A forward holds its activations until the input gradient is done; a combined backward ends it as
 * well. */
static int most_in_flight(const lk_slots *slots) {
	int now = 0, peak = 0;
	for (size_t i = 0; i < slots->count; i++) {
		uint8_t pass = slots->at[i].pass;
		if (pass == LK_PASS_F) now++;
		if (pass == LK_PASS_B || pass == LK_PASS_BI) now--;
		if (now > peak) peak = now;
	}
	return peak;
}

enum { MOST_PLACES = 4096 };

/* Without messages; times are per micro-batch and whole rank: a chunk takes 1/chunks of them, but
 * for DualPipe, where a micro-batch passes a rank in one direction only. A combined backward takes
 * b + w. `in_flight` may be NULL. */
static lk_status try_makespan(const lk_schedule *schedule, const lk_schedule_shape *shape, double f,
                              double b, double w, double pair, double *makespan, int *in_flight,
                              lk_error *err) {
	static double pass[4][MOST_PLACES], ends[MOST_PLACES];
	double share =
		schedule->kind == LK_SCHED_DUALPIPE || shape->chunks < 1 ? 1.0 : 1.0 / shape->chunks;
	lk_pass_times times = {.pass = {pass[0], pass[1], pass[2], pass[3]}, .pair = pair * share};
	for (int k = 0; k < MOST_PLACES; k++) {
		pass[LK_PASS_F][k] = f * share;
		pass[LK_PASS_B][k] = (b + w) * share;
		pass[LK_PASS_BI][k] = b * share;
		pass[LK_PASS_W][k] = w * share;
	}
	LK_TRY(lk_schedule_walk(schedule, shape, &times, ends, err));
	assert_true(shape->stages * shape->chunks <= MOST_PLACES);
	*makespan = 0;
	for (int s = 0; s < shape->stages; s++) {
		lk_slots slots = {0};
		*makespan = fmax(*makespan, ends[s]);
		assert_int_equal(schedule->order(shape, s, &slots, err), LK_OK);
		if (in_flight) in_flight[s] = most_in_flight(&slots);
		lk_vec_free(&slots);
	}
	return LK_OK;
}

static double makespan(lk_schedule_kind kind, int p, int v, int m, double f, double b, double w,
                       double pair, int *in_flight) {
	lk_schedule_shape shape = {p, v, m, 0, false};
	lk_error err = {0};
	double t = NAN;
	lk_status status =
		try_makespan(lk_schedule_get(kind), &shape, f, b, w, pair, &t, in_flight, &err);
	if (status != LK_OK)
		fail_msg("%s p=%d v=%d m=%d: %s", lk_schedule_get(kind)->name, p, v, m, err.what);
	return t;
}

static void order_of(lk_schedule_kind kind, int p, int v, int m, int stage, lk_slots *out) {
	lk_schedule_shape shape = {p, v, m, 0, false};
	lk_error err = {0};
	if (lk_schedule_get(kind)->order(&shape, stage, out, &err) != LK_OK)
		fail_msg("order: %s", err.what);
}

static void test_check_values(void **state) {
	(void)state;
	static const struct {
		lk_schedule_kind kind;
		int p, v, m;
		double f, b, w, expected;
	} cases[] = {
		{LK_SCHED_GPIPE, 8, 1, 16, 1, 1, 1, 69},
		{LK_SCHED_1F1B, 8, 1, 16, 1, 1, 1, 69},
		{LK_SCHED_INTERLEAVED, 8, 2, 16, 1, 1, 1, 58.5},
		{LK_SCHED_INTERLEAVED, 8, 4, 16, 1, 1, 1, 53.25},
		{LK_SCHED_ZB_H1, 8, 1, 16, 1, 1, 1, 55},
		{LK_SCHED_ZB_H1, 8, 1, 16, 1, 1, .8, 53.2},
		{LK_SCHED_ZB_H1, 8, 1, 16, 1, 1.2, .8, 57.8},
		{LK_SCHED_ZB_V, 8, 2, 16, 1, 1, 1, 51.5},
		{LK_SCHED_ZB_V, 8, 2, 32, 1, 1, 1, 99.5},
		{LK_SCHED_ZB_V, 4, 2, 8, 1, 1, 1, 25.5},
		{LK_SCHED_ZB_V, 8, 2, 16, 1, 1.2, .8, 48 + 4.2},
		{LK_SCHED_DUALPIPE, 4, 2, 8, 1, 1, 1, 26},
		{LK_SCHED_DUALPIPE, 4, 2, 12, 1, 1, 1, 38},
		{LK_SCHED_DUALPIPE, 4, 2, 16, 1, 1, 1, 50},
		{LK_SCHED_DUALPIPE, 8, 2, 16, 1, 1, 1, 54},
		{LK_SCHED_DUALPIPE, 8, 2, 24, 1, 1, 1, 78},
		{LK_SCHED_DUALPIPE, 8, 2, 32, 1, 1, 1, 102},
		{LK_SCHED_DUALPIPE, 16, 2, 32, 1, 1, 1, 110},
		{LK_SCHED_DUALPIPE, 16, 2, 48, 1, 1, 1, 158},
		{LK_SCHED_DUALPIPE, 16, 2, 64, 1, 1, 1, 206},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		double f = cases[i].f, b = cases[i].b, w = cases[i].w;
		double t = makespan(cases[i].kind, cases[i].p, cases[i].v, cases[i].m, f, b, w, 0, NULL);
		if (fabs(t - cases[i].expected) > 1e-9)
			fail_msg("case %zu: makespan %.12g, expected %.12g", i, t, cases[i].expected);
	}
}

/* One slot as the reference prints it: "F0", with chunks "F1.4"; overlapped slots are joined by
 * '&', b is B without W. */
static size_t print_slot(char *out, size_t size, lk_schedule_kind kind, const lk_slot *slot,
                         int chunk) {
	const char *letters = kind == LK_SCHED_DUALPIPE ? "FBbW" : "FBBW";
	const char *join = slot->pair ? "&" : " ";
	if (lk_schedule_get(kind)->fixed_chunks == 1)
		return (size_t)snprintf(out, size, "%c%d%s", letters[slot->pass], slot->microbatch, join);
	return (size_t)snprintf(out, size, "%c%d.%d%s", letters[slot->pass], chunk, slot->microbatch,
	                        join);
}

static void assert_order(lk_schedule_kind kind, int p, int v, int m, int stage,
                         const char *expected) {
	lk_slots slots = {0};
	order_of(kind, p, v, m, stage, &slots);
	char text[1024] = "";
	size_t used = 0;
	bool swapped = kind == LK_SCHED_DUALPIPE &&
	               stage >= p / 2; /* the reference numbers phases, not directions */
	for (size_t i = 0; i < slots.count && used < sizeof text; i++)
		used += print_slot(text + used, sizeof text - used, kind, &slots.at[i],
		                   slots.at[i].chunk ^ swapped);
	if (used > 0) text[used - 1] = '\0';
	assert_string_equal(text, expected);
	lk_vec_free(&slots);
}

static void test_printed_orders(void **state) {
	(void)state;
	assert_order(LK_SCHED_GPIPE, 2, 1, 3, 0, "F0 F1 F2 B0 B1 B2");
	assert_order(LK_SCHED_1F1B, 4, 1, 6, 0, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
	assert_order(LK_SCHED_1F1B, 4, 1, 6, 1, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
	assert_order(LK_SCHED_1F1B, 4, 1, 6, 2, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
	assert_order(LK_SCHED_1F1B, 4, 1, 6, 3, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
	assert_order(
		LK_SCHED_INTERLEAVED, 4, 2, 8, 0,
		"F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 F1.2 F1.3 F0.4 F0.5 F0.6 B1.0 F0.7 B1.1 F1.4 B1.2 F1.5 B1.3 "
		"F1.6 B0.0 F1.7 B0.1 B0.2 B0.3 B1.4 B1.5 B1.6 B1.7 B0.4 B0.5 B0.6 B0.7");
	assert_order(LK_SCHED_INTERLEAVED, 4, 2, 8, 3,
	             "F0.0 F0.1 F0.2 F0.3 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 F0.4 B0.0 F0.5 B0.1 "
	             "F0.6 B0.2 F0.7 "
	             "B0.3 F1.4 B1.4 F1.5 B1.5 F1.6 B1.6 F1.7 B1.7 B0.4 B0.5 B0.6 B0.7");
	assert_order(LK_SCHED_ZB_H1, 4, 1, 6, 0,
	             "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5");
	assert_order(LK_SCHED_ZB_H1, 4, 1, 6, 1,
	             "F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 B4 W3 B5 W4 W5");
	assert_order(LK_SCHED_ZB_H1, 4, 1, 6, 2,
	             "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 B5 W3 W4 W5");
	assert_order(LK_SCHED_ZB_H1, 4, 1, 6, 3,
	             "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5");
	assert_order(LK_SCHED_ZB_V, 2, 2, 4, 0,
	             "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B1.1 W1.1 F0.3 B0.0 W0.0 F1.2 B1.2 W1.2 B0.1 "
	             "W0.1 F1.3 B1.3 W1.3 "
	             "B0.2 W0.2 B0.3 W0.3");
	assert_order(LK_SCHED_V_MIN, 2, 2, 3, 0,
	             "F0.0 F1.0 B1.0 W1.0 F0.1 B0.0 W0.0 F1.1 B1.1 W1.1 F0.2 B0.1 W0.1 F1.2 B1.2 W1.2 "
	             "B0.2 W0.2");
	assert_order(LK_SCHED_ZB_V, 2, 2, 4, 1,
	             "F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 F0.2 B0.0 W0.0 F1.2 B1.1 W1.1 F0.3 B0.1 W0.1 F1.3 "
	             "B1.2 W1.2 B0.2 B1.3 "
	             "B0.3 W0.2 W1.3 W0.3");
	static const char outer[] = "F0.0 F0.1 F0.2 F1.0 b1.0 W1.0 F1.1 F0.3&B1.1 F1.2&B0.0 B1.2 "
								"F1.3&B0.1 B1.3 b0.2 W0.2 b0.3 W0.3";
	static const char inner[] =
		"F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 F1.2&B0.0 F0.3&B1.1 F1.3&B0.1 B1.2 B0.2 b1.3 b0.3 W1.3 W0.3";
	for (int r = 0; r < 4; r++)
		assert_order(LK_SCHED_DUALPIPE, 4, 2, 8, r, r == 0 || r == 3 ? outer : inner);
}

/* All legal shapes of a schedule in a small range, given to `visit`; returns how many. */
static int each_shape(lk_schedule_kind kind,
                      void (*visit)(lk_schedule_kind kind, const lk_schedule_shape *shape)) {
	static const int many[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 13,
	                           15, 16, 20, 24, 31, 32, 36, 40, 63, 64};
	const lk_schedule *schedule = lk_schedule_get(kind);
	int legal = 0;
	for (int p = 1; p <= 16; p++)
		for (int v = 1; v <= 5; v++)
			for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
				lk_schedule_shape shape = {p, v, many[i], 0, false};
				if (schedule->check(&shape, NULL) != LK_OK) continue;
				visit(kind, &shape);
				legal++;
			}
	return legal;
}

/* Each (chunk, micro-batch) has one F; one B, or one input gradient and then one W. */
static void visit_once_each(lk_schedule_kind kind, const lk_schedule_shape *shape) {
	int per_chunk = kind == LK_SCHED_DUALPIPE ? shape->microbatches / 2 : shape->microbatches;
	for (int s = 0; s < shape->stages; s++) {
		lk_slots slots = {0};
		order_of(kind, shape->stages, shape->chunks, shape->microbatches, s, &slots);
		unsigned char *seen = calloc((size_t)per_chunk * (size_t)shape->chunks, 4);
		assert_non_null(seen);
		for (size_t i = 0; i < slots.count; i++) {
			lk_slot slot = slots.at[i];
			assert_true(slot.chunk < shape->chunks && slot.microbatch >= 0 &&
			            slot.microbatch < per_chunk);
			unsigned char *count =
				seen + 4 * ((size_t)slot.chunk * (size_t)per_chunk + (size_t)slot.microbatch);
			if (slot.pass != LK_PASS_F) assert_int_equal(count[LK_PASS_F], 1);
			if (slot.pass == LK_PASS_W) assert_int_equal(count[LK_PASS_BI], 1);
			if (slot.pair) {
				assert_true(i + 1 < slots.count);
				assert_true(slot.pass == LK_PASS_F && slots.at[i + 1].pass == LK_PASS_B);
			}
			assert_int_equal(++count[slot.pass], 1);
		}
		for (int k = 0; k < per_chunk * shape->chunks; k++) {
			const unsigned char *count = seen + 4 * (size_t)k;
			assert_int_equal(count[LK_PASS_F] + count[LK_PASS_B] + count[LK_PASS_BI], 2);
			assert_int_equal(count[LK_PASS_BI], count[LK_PASS_W]);
		}
		free(seen);
		lk_vec_free(&slots);
	}
}

/* The executor ends (no deadlock); a makespan is at least the work of a rank and at most that of
 * GPipe. V-Half and V-Min, whose lists count on equal times, count as if all passes were the
 * longest. */
static void visit_executes(lk_schedule_kind kind, const lk_schedule_shape *shape) {
	double t =
		makespan(kind, shape->stages, shape->chunks, shape->microbatches, 1, 1.3, .7, 0, NULL);
	assert_true(t >= 3.0 * shape->microbatches - 1e-9);
	bool equal = kind == LK_SCHED_V_HALF || kind == LK_SCHED_V_MIN;
	double whole = equal ? 3 * 1.3 : 3;
	assert_true(t <= whole * (shape->microbatches + shape->stages - 1) + 1e-9);
}

static void visit_places(lk_schedule_kind kind, const lk_schedule_shape *shape) {
	const lk_schedule *schedule = lk_schedule_get(kind);
	bool two_ways = kind == LK_SCHED_DUALPIPE;
	int places = two_ways ? shape->stages : shape->stages * shape->chunks;
	unsigned char taken[2][16 * 5] = {{0}};
	for (int s = 0; s < shape->stages; s++)
		for (int c = 0; c < shape->chunks; c++) {
			int place = schedule->place(shape, s, c);
			assert_true(place >= 0 && place < places);
			assert_int_equal(++taken[two_ways ? c : 0][place], 1);
		}
}

static void test_every_pass_once(void **state) {
	(void)state;
	for (int k = 0; k < LK_SCHEDULES; k++) {
		assert_true(each_shape((lk_schedule_kind)k, visit_once_each) > 30);
		each_shape((lk_schedule_kind)k, visit_places);
	}
}

static void test_no_deadlock(void **state) {
	(void)state;
	for (int k = 0; k < LK_SCHEDULES; k++) each_shape((lk_schedule_kind)k, visit_executes);
}

static int least(int a, int b) {
	return a < b ? a : b;
}

static void visit_in_flight(lk_schedule_kind kind, const lk_schedule_shape *shape) {
	int p = shape->stages, v = shape->chunks, m = shape->microbatches, peak[16];
	makespan(kind, p, v, m, 1, 1, 1, 0, peak);
	for (int s = 0; s < p; s++) {
		int expected = m;
		if (kind == LK_SCHED_1F1B || kind == LK_SCHED_ZB_H1) expected = least(m, p - s);
		if (kind == LK_SCHED_INTERLEAVED)
			expected = least(m * v, 2 * (p - s - 1) + (v - 1) * p + 1);
		if (kind == LK_SCHED_ZB_V) expected = 2 * p;
		if (kind == LK_SCHED_DUALPIPE) expected = p + 1;
		if (kind == LK_SCHED_ZB_H2) expected = 2 * (p - s) - 1;
		if (kind == LK_SCHED_DUALPIPE_V) expected = 2 * p + 1;
		if (kind == LK_SCHED_V_HALF || kind == LK_SCHED_V_MIN) { /* bounds: half, a third of 1F1B */
			assert_true(peak[s] <= (kind == LK_SCHED_V_HALF ? p + 2 : 2 * p / 3 + 3));
			continue;
		}
		assert_int_equal(peak[s], expected);
	}
}

/* Interleaved in pairs: it ends on every shape, one more chunk in flight, and with pairs that take
 * as long as their parts no sooner than its slots take. */
static void test_paired(void **state) {
	(void)state;
	for (int p = 2; p <= 8; p++)
		for (int v = 2; v <= 4; v++)
			for (int groups = 1; groups <= 4; groups++) {
				lk_schedule_shape shape = {
					.stages = p, .chunks = v, .microbatches = groups * p, .paired = true};
				const lk_schedule *schedule = lk_schedule_get(LK_SCHED_INTERLEAVED);
				double t, least_time = groups * p * 2.0;
				int peak[16], pairs = 0;
				lk_error err;
				lk_slots slots = {0};
				assert_int_equal(try_makespan(schedule, &shape, 1, 1, 0, 0, &t, peak, &err), LK_OK);
				assert_true(t >= least_time - 1e-9 && t <= least_time + 2.0 * p);
				for (int s = 0; s < p; s++) {
					int expected = 2 * (p - s - 1) + (v - 1) * p + 2, most = groups * p * v;
					assert_int_equal(peak[s], expected < most ? expected : most);
				}
				assert_int_equal(schedule->order(&shape, 0, &slots, &err), LK_OK);
				for (size_t i = 0; i < slots.count; i++) {
					if (!slots.at[i].pair) continue;
					pairs++;
					assert_true(slots.at[i].pass == LK_PASS_F && slots.at[i + 1].pass == LK_PASS_B);
				}
				int warmup = 2 * (p - 1) + (v - 1) * p + 1, steps = groups * p * v;
				assert_int_equal(pairs, steps > warmup ? steps - warmup : 0);
				lk_vec_free(&slots);
			}
}

static void test_in_flight(void **state) {
	(void)state;
	for (int k = 0; k < LK_SCHEDULES; k++) each_shape((lk_schedule_kind)k, visit_in_flight);
}

static void test_dualpipe_symmetry(void **state) {
	(void)state;
	for (int p = 2; p <= 12; p += 2)
		for (int r = 0; r < p / 2; r++) {
			lk_slots a = {0}, b = {0};
			order_of(LK_SCHED_DUALPIPE, p, 2, 3 * p, r, &a);
			order_of(LK_SCHED_DUALPIPE, p, 2, 3 * p, p - 1 - r, &b);
			assert_int_equal(a.count, b.count);
			for (size_t i = 0; i < a.count; i++) {
				b.at[i].chunk ^= 1;
				assert_true(a.at[i].pass == b.at[i].pass && a.at[i].chunk == b.at[i].chunk);
				assert_true(a.at[i].pair == b.at[i].pair &&
				            a.at[i].microbatch == b.at[i].microbatch);
			}
			lk_vec_free(&a);
			lk_vec_free(&b);
		}
}

static int draw(uint64_t *counter, int low, int high) {
	return low + (int)(lk_uniform(2412, (*counter)++) * (high - low + 1));
}

static void assert_close(const char *what, int p, int v, int m, double t, double expected) {
	if (fabs(t - expected) > 1e-9 * expected)
		fail_msg("%s p=%d v=%d m=%d: makespan %.12g, formula %.12g", what, p, v, m, t, expected);
}

/* The closed forms, over random shapes and times. */
static void test_formulas(void **state) {
	(void)state;
	uint64_t counter = 0;
	for (int round = 0; round < 300; round++) {
		int p = draw(&counter, 1, 24), v = draw(&counter, 2, 6), m = draw(&counter, 1, 96);
		double f = .1 + lk_uniform(7, counter++), b = .1 + lk_uniform(7, counter++),
			   w = .1 + lk_uniform(7, counter++);
		double whole = f + b + w;
		assert_close("gpipe", p, 1, m, makespan(LK_SCHED_GPIPE, p, 1, m, f, b, w, 0, NULL),
		             (m + p - 1) * whole);
		assert_close("1f1b", p, 1, m, makespan(LK_SCHED_1F1B, p, 1, m, f, b, w, 0, NULL),
		             (m + p - 1) * whole);
		int groups = draw(&counter, 1, 6), multiple = groups * p;
		assert_close("interleaved", p, v, multiple,
		             makespan(LK_SCHED_INTERLEAVED, p, v, multiple, f, b, w, 0, NULL),
		             multiple * whole + (p - 1) * whole / v);
		int h1 = m + p;
		assert_close("zb-h1", p, 1, h1,
		             makespan(LK_SCHED_ZB_H1, p, 1, h1, f, f, w < f ? w : f, 0, NULL),
		             h1 * (2 * f + (w < f ? w : f)) + (p - 1) * (2 * f - (w < f ? w : f)));
		int zbv = 2 * p - 2 + m;
		assert_close("zb-v", p, 2, zbv, makespan(LK_SCHED_ZB_V, p, 2, zbv, f, f, f, 0, NULL),
		             3 * zbv * f + (p - 1) * f / 2);
		if (p > 1) {
			int half_gap = p % 2 == 0 ? 3 : 0, min_gap = p % 3 == 0 ? 2 : 0, vm = m + p - 1;
			assert_close("v-half", p, 2, vm, makespan(LK_SCHED_V_HALF, p, 2, vm, f, f, f, 0, NULL),
			             3 * vm * f + (7 * p + half_gap - 7) * f / 4);
			assert_close("v-min", p, 2, vm, makespan(LK_SCHED_V_MIN, p, 2, vm, f, f, f, 0, NULL),
			             3 * vm * f + (4 * p + min_gap - 5) * f / 2);
		}
		int even = 2 * ((p + 1) / 2), c = 2 * even + 2 * (m / 2);
		assert_close("dualpipe", even, 2, c,
		             makespan(LK_SCHED_DUALPIPE, even, 2, c, f, f, f, 0, NULL),
		             c * 3 * f + (even / 2 - 1) * (3 * f + 2 * f - 3 * f));
		int folded = 2 * p + m; /* halves of a stage on each place */
		assert_close("dualpipev", p, 2, folded,
		             makespan(LK_SCHED_DUALPIPE_V, p, 2, folded, f, f, f, 0, NULL),
		             folded * 3 * f + (p - 1) * (3 * f + 2 * f - 3 * f) / 2);
	}
}

/* From the first to the last pass of the first rank, which begins at 0 and has the largest bubble.
 */
static void test_zb_h2_span(void **state) {
	(void)state;
	uint64_t counter = 0;
	for (int round = 0; round < 200; round++) {
		int p = draw(&counter, 1, 24), m = 2 * p - 1 + draw(&counter, 0, 60);
		double f = 1, w = lk_uniform(11, counter++), b = f + w * lk_uniform(11, counter++);
		double pass[4][24], ends[24];
		lk_schedule_shape shape = {p, 1, m, 0, false};
		lk_pass_times times = {.pass = {pass[0], pass[1], pass[2], pass[3]}};
		lk_error err = {0};
		for (int k = 0; k < p; k++) {
			pass[LK_PASS_F][k] = f, pass[LK_PASS_BI][k] = b, pass[LK_PASS_W][k] = w;
			pass[LK_PASS_B][k] = b + w;
		}
		assert_int_equal(
			lk_schedule_walk(lk_schedule_get(LK_SCHED_ZB_H2), &shape, &times, ends, &err), LK_OK);
		assert_close("zb-h2", p, 1, m, ends[0], m * (f + b + w) + (p - 1) * fmax(0, f + b - 2 * w));
	}
}

/* An overlapped pair that takes less than its parts: the bubble of the middle ranks is that of the
 * formula. */
static void test_dualpipe_pairs(void **state) {
	(void)state;
	for (int p = 4; p <= 16; p += 2) {
		double pair = 2.6;
		int m = 2 * p + 4, h = p / 2 - 1, pairs = 2 * (m / 2 - p + h + 1) - 1;
		double t = makespan(LK_SCHED_DUALPIPE, p, 2, m, 1, 1, 1, pair, NULL),
			   busy = 3.0 * m - pairs * (3 - pair);
		assert_close("dualpipe pairs", p, 2, m, t - busy, (p / 2 - 1) * (pair + 2 - 3));
		/* half as many ranks, of halves of a stage, are the same pipeline */
		assert_close("dualpipev pairs", p / 2, 2, m / 2,
		             makespan(LK_SCHED_DUALPIPE_V, p / 2, 2, m / 2, 2, 2, 2, 2 * pair, NULL), t);
	}
}

static void assert_refused(lk_schedule_kind kind, int p, int v, int m, const char *hint) {
	lk_schedule_shape shape = {p, v, m, 0, false};
	lk_error err = {0};
	lk_slots slots = {0};
	double t;
	assert_int_equal(lk_schedule_get(kind)->check(&shape, &err), LK_ERR_INPUT);
	if (hint != NULL && strstr(err.hint, hint) == NULL)
		fail_msg("hint '%s' lacks '%s'", err.hint, hint);
	assert_int_equal(lk_schedule_get(kind)->order(&shape, 0, &slots, &err), LK_ERR_INPUT);
	assert_int_equal(slots.count, 0);
	assert_int_equal(try_makespan(lk_schedule_get(kind), &shape, 1, 1, 1, 0, &t, NULL, &err),
	                 LK_ERR_INPUT);
	lk_vec_free(&slots);
}

static void test_refusals(void **state) {
	(void)state;
	for (int k = 0; k < LK_SCHEDULES; k++) {
		assert_refused((lk_schedule_kind)k, 0, 2, 8, NULL);
		assert_refused((lk_schedule_kind)k, -3, 1, 8, NULL);
		assert_refused((lk_schedule_kind)k, INT32_MAX, 2, 8, NULL);
		assert_refused((lk_schedule_kind)k, 4, 0, 8, NULL);
		assert_refused((lk_schedule_kind)k, 4, INT32_MAX, 8, NULL);
		assert_refused((lk_schedule_kind)k, 4, 2, 0, NULL);
		assert_refused((lk_schedule_kind)k, 4, 2, INT32_MIN, NULL);
		assert_refused((lk_schedule_kind)k, 1, 2, INT32_MAX, NULL);
	}
	assert_refused(LK_SCHED_1F1B, 4, 2, 8, "interleaved");
	assert_refused(LK_SCHED_INTERLEAVED, 4, 1, 8, "1f1b");
	assert_refused(LK_SCHED_INTERLEAVED, 4, 2, 10, "8 or 12");
	assert_refused(LK_SCHED_INTERLEAVED, 4, 2, 3, "4");
	assert_refused(LK_SCHED_ZB_V, 4, 2, 6, "7");
	assert_refused(LK_SCHED_ZB_H2, 4, 1, 6, "7");
	assert_refused(LK_SCHED_DUALPIPE_V, 4, 2, 7, "8");
	assert_refused(LK_SCHED_DUALPIPE, 5, 2, 20, "4, 6");
	assert_refused(LK_SCHED_DUALPIPE, 1, 2, 20, "2");
	assert_refused(LK_SCHED_DUALPIPE, 4, 2, 6, "8");
	assert_refused(LK_SCHED_DUALPIPE, 4, 2, 11, "10, 12");
}

static void test_arguments(void **state) {
	(void)state;
	lk_schedule_shape shape = {4, 1, 8, 0, false};
	const lk_schedule *schedule = lk_schedule_get(LK_SCHED_1F1B);
	lk_slots slots = {0};
	assert_int_equal(schedule->order(&shape, 4, &slots, NULL), LK_ERR_INTERNAL);
	assert_int_equal(schedule->order(&shape, -1, &slots, NULL), LK_ERR_INTERNAL);
	assert_null(lk_schedule_get(LK_SCHEDULES));
	assert_null(lk_schedule_find("round-robin"));
	assert_null(lk_schedule_find(NULL));
	for (int k = 0; k < LK_SCHEDULES; k++) {
		const lk_schedule *one = lk_schedule_get((lk_schedule_kind)k);
		assert_int_equal(one->kind, k);
		assert_ptr_equal(lk_schedule_find(one->name), one);
		assert_ptr_equal(lk_schedule_find(one->label), one);
	}
	assert_ptr_equal(lk_schedule_find("ZB_H1"), lk_schedule_get(LK_SCHED_ZB_H1));
}

/* Slots are appended: what stood in the list stays, and a queue of weight gradients is not taken
 * from it. */
static void test_appends(void **state) {
	(void)state;
	for (int k = 0; k < LK_SCHEDULES; k++) {
		lk_slots twice = {0}, once = {0};
		int fixed = lk_schedule_get((lk_schedule_kind)k)->fixed_chunks, v = fixed ? fixed : 3;
		order_of((lk_schedule_kind)k, 4, v, 8, 1, &once);
		order_of((lk_schedule_kind)k, 4, v, 8, 1, &twice);
		order_of((lk_schedule_kind)k, 4, v, 8, 1, &twice);
		assert_int_equal(twice.count, 2 * once.count);
		for (size_t i = 0; i < twice.count; i++) {
			const lk_slot *a = &twice.at[i], *b = &once.at[i % once.count];
			assert_true(a->pass == b->pass && a->pair == b->pair);
			assert_true(a->chunk == b->chunk && a->microbatch == b->microbatch);
		}
		lk_vec_free(&once);
		lk_vec_free(&twice);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_values),      cmocka_unit_test(test_printed_orders),
		cmocka_unit_test(test_every_pass_once),   cmocka_unit_test(test_no_deadlock),
		cmocka_unit_test(test_in_flight),         cmocka_unit_test(test_paired),
		cmocka_unit_test(test_dualpipe_symmetry), cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_dualpipe_pairs),    cmocka_unit_test(test_zb_h2_span),
		cmocka_unit_test(test_refusals),          cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_appends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
