/* test_stalls.c: the figures of stalls where the truth is known: intervals, parts of a step, the
 * bucket model, the loader's model in closed form against its simulated timeline. */
#include <math.h>

#include "base/arena.h"
#include "stalls/stalls.h"
#include "base/stats.h"
#include "scratch.h"

static double draw(uint64_t seed, uint64_t at, double low, double high) {
	return low + (high - low) * lk_uniform(seed, at);
}

static void assert_near(double a, double b, double relative) {
	if (!(fabs(a - b) <= relative * fmax(fabs(a), fabs(b)) + 1e-15))
		fail_msg("%.9g is not %.9g", a, b);
}

/* ---- intervals ---- */

static void test_interval(void **state) {
	(void)state;
	const double three[] = {1, 2, 3}, gap[] = {NAN, 4, NAN, 6};
	lk_estimate e = lk_estimate_of(three, 3);
	assert_near(e.mean, 2, 1e-12);
	assert_near(e.high - 2, 4.3027 / sqrt(3), 1e-6); /* t of 2 degrees, deviation 1 */
	assert_near(2 - e.low, e.high - 2, 1e-9);
	e = lk_estimate_of(gap, 4);
	assert_near(e.mean, 5, 1e-12);
	assert_near(e.high - 5, 12.7062, 1e-6);
	e = lk_estimate_of(three, 1);
	assert_true(e.mean == 1 && isnan(e.low) && isnan(e.high));
	assert_true(isnan(lk_estimate_of(gap, 1).mean));
}

/* The interval holds the mean of normal numbers 95 times of 100, for few numbers and for many. */
static void test_interval_holds(void **state) {
	(void)state;
	for (int n = 2; n <= 40; n += n < 12 ? 1 : 7) {
		int held = 0, tries = 4000;
		for (int i = 0; i < tries; i++) {
			double x[40];
			for (int k = 0; k < n; k++) x[k] = 10 + lk_normal((uint64_t)n, (uint64_t)(i * 40 + k));
			lk_estimate e = lk_estimate_of(x, n);
			held += e.low <= 10 && 10 <= e.high;
		}
		if (abs(held - (int)(0.95 * tries)) > 60) fail_msg("%d numbers: %d of %d", n, held, tries);
	}
}

/* ---- parts ---- */

/* What a step is made of. */
struct truth {
	double own, sharing, waiting, interconnect, network, preparation, fetch, writing;
};

static lk_stalls_rounds rounds_of(const struct truth *truth, int count, double noise, uint64_t seed,
                                  bool loader) {
	lk_stalls_rounds r = {.count = count};
	double comm = truth->waiting + truth->interconnect + truth->network,
		   one = truth->own + truth->writing + (loader ? 0 : truth->preparation);
	double steps[] = {one, one + truth->sharing, one + truth->sharing + comm,
	                  one + truth->sharing + comm + (loader ? truth->preparation : 0), 0};
	steps[LK_STALLS_COLD] = steps[LK_STALLS_HOT] + truth->fetch;
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		for (int i = 0; i < count; i++) {
			bool talks = c >= LK_STALLS_READY;
			double factor = 1 + noise * lk_normal(seed, (uint64_t)(c * 100 + i));
			r.at[c][i] = (lk_stalls_times){.step = steps[c] * factor,
			                               .waiting = talks ? truth->waiting : 0,
			                               .interconnect = talks ? truth->interconnect : 0,
			                               .network = talks ? truth->network : 0,
			                               .preparation = loader ? NAN : truth->preparation,
			                               .writing = truth->writing};
			if (c == LK_STALLS_READY && !loader) r.at[c][i].step = NAN;
		}
	r.first = r.at[LK_STALLS_COLD][0];
	return r;
}

static double sum_of(const lk_stalls_answer *answer) {
	double sum = 0;
	for (int k = 0; k < answer->part_count; k++)
		sum += isnan(answer->parts[k].seconds) ? 0 : answer->parts[k].seconds;
	return sum;
}

static void test_parts(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 500; seed++) {
		struct truth t = {.own = draw(seed, 0, 0.1, 1),
		                  .sharing = draw(seed, 1, 0, 0.3),
		                  .waiting = draw(seed, 2, 0, 0.2),
		                  .interconnect = draw(seed, 3, 0, 0.3),
		                  .network = draw(seed, 4, 0, 0.5),
		                  .preparation = draw(seed, 5, 0, 0.3),
		                  .fetch = draw(seed, 6, 0, 0.5),
		                  .writing = draw(seed, 7, 0, 0.1)};
		lk_stalls_answer x = {.hosts = 2, .ranks = 2};
		lk_stalls_rounds r = rounds_of(&t, 3, 0, seed, seed % 2);
		lk_stalls_split(&r, &x);
		assert_string_equal(x.base, "cold");
		assert_near(sum_of(&x), x.step_s, 1e-9);
		const struct {
			lk_stalls_kind kind;
			double seconds;
		} expected[] = {{LK_STALL_COMPUTE, t.own},
		                {LK_STALL_WRITING, t.writing},
		                {LK_STALL_SHARING, t.sharing},
		                {LK_STALL_PREPARATION, t.preparation},
		                {LK_STALL_FETCH, t.fetch},
		                {LK_STALL_WAITING, t.waiting},
		                {LK_STALL_INTERCONNECT, t.interconnect},
		                {LK_STALL_NETWORK, t.network}};
		for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
			const lk_stalls_part *part = &x.parts[expected[i].kind];
			assert_near(part->seconds, expected[i].seconds, 1e-9);
			assert_near(part->share, expected[i].seconds / x.step_s, 1e-9);
			bool stall =
				expected[i].kind != LK_STALL_COMPUTE && expected[i].seconds > 0.02 * x.step_s;
			assert_int_equal(part->named, stall);
		}
		assert_near(x.parts[LK_STALL_FETCH].factor, x.step_s / (x.step_s - t.fetch), 1e-9);
		assert_int_equal(x.parts[LK_STALL_PREPARATION].basis,
		                 seed % 2 ? LK_STALLS_MEASURED : LK_STALLS_ESTIMATED);
	}
}

/* Stash's percentages: interconnect of RUN1, preparation of RUN3, fetch of RUN2. */
static void test_stash(void **state) {
	(void)state;
	struct truth t = {.own = 0.4, .interconnect = 0.1, .preparation = 0.5, .fetch = 1};
	lk_stalls_answer x = {.hosts = 1};
	lk_stalls_rounds r = rounds_of(&t, 2, 0, 1, true);
	lk_stalls_split(&r, &x);
	assert_near(x.parts[LK_STALL_INTERCONNECT].own_share, 0.2, 1e-9);
	assert_near(x.parts[LK_STALL_PREPARATION].own_share, 0.5, 1e-9);
	assert_near(x.parts[LK_STALL_FETCH].own_share, 0.5, 1e-9);
	assert_near(x.parts[LK_STALL_INTERCONNECT].factor, 1.25, 1e-9);
	assert_near(x.parts[LK_STALL_INTERCONNECT].share, 0.05, 1e-9);
}

/* Of noise alone nothing is called a stall more often than the intervals allow (2.5 % each); a real
 * one of five deviations is found nearly always. */
static void test_noise(void **state) {
	(void)state;
	int wrong = 0, found = 0, tries = 1000;
	for (int i = 0; i < tries; i++) {
		struct truth nothing = {.own = 1}, slow = {.own = 1, .fetch = 0.3};
		lk_stalls_answer x = {.hosts = 1}, y = {.hosts = 1};
		lk_stalls_rounds a = rounds_of(&nothing, 5, 0.03, (uint64_t)i, true),
						 b = rounds_of(&slow, 5, 0.03, (uint64_t)i, true);
		lk_stalls_split(&a, &x);
		lk_stalls_split(&b, &y);
		for (int k = 0; k < LK_STALL_KINDS; k++) wrong += x.parts[k].named;
		found += y.parts[LK_STALL_FETCH].named;
	}
	if (wrong > tries * 4 * 0.04) fail_msg("%d stalls of nothing in %d", wrong, tries);
	if (found < tries * 0.95) fail_msg("%d of %d found", found, tries);
}

/* With configurations missing, what is left adds up still, and says what it is. */
static void test_missing(void **state) {
	(void)state;
	struct truth t = {.own = 1,
	                  .sharing = 0.2,
	                  .waiting = 0.05,
	                  .network = 0.4,
	                  .preparation = 0.1,
	                  .fetch = 0.3};
	for (unsigned missing = 0; missing < 1u << LK_STALLS_CONFIGURATIONS; missing++) {
		lk_stalls_answer x = {.hosts = 2};
		lk_stalls_rounds r = rounds_of(&t, 3, 0, missing, true);
		r.first.preparation = 0.1;
		for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
			for (int i = 0; i < 3 && missing >> c & 1; i++) r.at[c][i].step = NAN;
		lk_stalls_split(&r, &x);
		assert_near(sum_of(&x), x.step_s, 1e-9);
		bool cold = !(missing >> LK_STALLS_COLD & 1), hot = !(missing >> LK_STALLS_HOT & 1);
		assert_string_equal(x.base, cold ? "cold" : hot ? "hot" : "first");
		assert_int_equal(x.parts[LK_STALL_FETCH].basis,
		                 cold && hot ? LK_STALLS_MEASURED : LK_STALLS_UNKNOWN);
		for (int k = 0; k < LK_STALL_KINDS; k++) assert_non_null(x.parts[k].how);
	}
}

/* Messages that null leaves are communication, not compute. */
static void test_left_in_null(void **state) {
	(void)state;
	struct truth t = {.own = 1, .interconnect = 0.2};
	lk_stalls_answer x = {.hosts = 1};
	lk_stalls_rounds r = rounds_of(&t, 3, 0, 1, true);
	for (int i = 0; i < 3; i++) {
		r.at[LK_STALLS_NULL][i].interconnect = 0.15;
		r.at[LK_STALLS_NULL][i].step += 0.15;
	}
	for (int i = 0; i < 3; i++) r.at[LK_STALLS_ONE][i].step = NAN;
	lk_stalls_split(&r, &x);
	assert_near(x.parts[LK_STALL_INTERCONNECT].seconds, 0.2, 1e-9);
	assert_near(x.parts[LK_STALL_COMPUTE].seconds, 1, 1e-9);
}

/* ---- simulated experiments ---- */

enum {
	STEPS = 20, /* of a run */
	MOST_CYCLES = 12,
	RUNS = LK_STALLS_CONFIGURATIONS * MOST_CYCLES
};

/* A step that is long in every run is the program's (a checkpoint); long steps of one run alone, or
 * of each run at another step, are bursts, and no part of the program's has them. */
static void test_rare_long_steps(void **state) {
	(void)state;
	enum { ROUNDS = 4, LONG = 7 };
	const double usual = 0.010, longer = 0.060;
	for (int where = 0; where < 3; where++) { /* in all runs; in one; elsewhere in each */
		double length[ROUNDS][STEPS];
		lk_stalls_rounds rounds = {.count = ROUNDS};
		lk_stalls_answer x = {.hosts = 1, .ranks = 1};
		double all = 0;
		for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
			for (int k = 0; k < ROUNDS; k++) rounds.at[c][k].step = NAN;
		for (int k = 0; k < ROUNDS; k++) {
			bool has = where != 1 || k == 2;
			double sum = 0;
			for (int s = 0; s < STEPS; s++) {
				length[k][s] = has && s == (where == 2 ? LONG + k : LONG) ? longer : usual;
				sum += length[k][s] / STEPS;
			}
			all += sum / ROUNDS;
			rounds.at[LK_STALLS_HOT][k] = (lk_stalls_times){.step = sum,
			                                                .preparation = NAN,
			                                                .steps = {.length = length[k],
			                                                          .slowest = length[k],
			                                                          .working = length[k],
			                                                          .count = STEPS}};
		}
		rounds.first = rounds.at[LK_STALLS_HOT][0];
		lk_stalls_split(&rounds, &x);
		double bursts = x.parts[LK_STALL_BURSTS].seconds;
		assert_near(x.step_s, all, 1e-9);
		assert_near(bursts, where ? all - usual : 0, 1e-9);
		assert_near(x.parts[LK_STALL_COMPUTE].seconds, where ? usual : all, 1e-9);
		assert_false(x.parts[LK_STALL_BURSTS].named);
	}
}

/* Two ranks, one of which works longer; parts in milliseconds. With `late` no data can be made
 * ready: in one step the one rank waits so long for its loader, in the next one the other. */
struct experiment {
	const char *name;
	double own, imbalance, sharing, interconnect, preparation, fetch;
	int cycles;
	double late;
};

struct lab {
	double length[RUNS][STEPS], slowest[RUNS][STEPS], working[RUNS][STEPS];
	double drift; /* the geometric mean over all runs: what the truth is multiplied by */
};

/* None, a line of 10 %, a random walk; by the run's place in the sequence. */
static double slowness(int kind, int at, int runs, uint64_t seed) {
	double walk = 0;
	if (kind == 1) return 0.95 + 0.1 * at / runs;
	for (int i = 0; kind == 2 && i <= at; i++) walk += 0.003 * lk_normal(seed, (uint64_t)i);
	return exp(walk);
}

/* A run's steps, each with noise of 2 %, the run's of 0.5 %, and bursts. `calls`: what is recorded
 * of communication, over what a step without it would save. */
static lk_stalls_times simulate_run(const struct experiment *truth, int c, double slow,
                                    double calls, uint64_t seed, double length[STEPS],
                                    double slowest[STEPS], double working[STEPS]) {
	bool ready = c <= LK_STALLS_READY && !truth->late, talks = c >= LK_STALLS_READY;
	double usual = truth->own, late = truth->late / 2;
	if (c >= LK_STALLS_NULL) usual += truth->sharing;
	if (!ready && !truth->late) usual += truth->preparation;
	if (c == LK_STALLS_COLD) usual += truth->fetch;
	double uneven = c == LK_STALLS_NULL ? truth->imbalance / 2 + late : 0,
		   step = usual + uneven + (c == LK_STALLS_ONE ? late : 0);
	if (talks) step += truth->imbalance + truth->interconnect;
	double run = 1e-3 * slow * (1 + 0.005 * lk_normal(seed, 1)), sum = 0, all = 0;
	for (int s = 0; s < STEPS; s++) {
		uint64_t at = 10 * (uint64_t)s;
		double noise = run * (1 + 0.02 * lk_normal(seed, 100 + at)),
			   burst =
				   lk_uniform(seed, 101 + at) < 0.03 ? -60e-3 * log(lk_uniform(seed, 102 + at)) : 0;
		double most = s % 2 ? truth->late + truth->imbalance : fmax(truth->late, truth->imbalance);
		working[s] = (usual + truth->imbalance) * noise + burst;
		slowest[s] = (usual + most) * noise + burst;
		length[s] = (step + (talks ? most - truth->imbalance : 0)) * noise + burst;
		sum += length[s] / STEPS;
		all += most / STEPS;
	}
	return (lk_stalls_times){
		.step = sum,
		.waiting = talks ? run * (all - truth->imbalance / 2 - late) : 0,
		.interconnect = talks ? run * calls * truth->interconnect : 0,
		.preparation = truth->late ? run * late : NAN,
		.handed = truth->late > 0,
		.usual = run * usual,
		.own = run * (usual + truth->imbalance / 2 + late),
		.uneven = run * uneven,
		.steps = {.length = length, .slowest = slowest, .working = working, .count = STEPS}};
}

static void simulate_experiment(const struct experiment *truth, int kind, uint64_t seed,
                                struct lab *lab, lk_stalls_answer *out) {
	lk_stalls_rounds rounds = {.count = truth->cycles};
	int runs = truth->cycles * LK_STALLS_CONFIGURATIONS;
	double calls = 1 + 0.1 * lk_normal(lk_hash64(seed), 1000);
	lab->drift = 0;
	for (int k = 0, at = 0; k < truth->cycles; k++) {
		int order[LK_STALLS_CONFIGURATIONS];
		lk_stalls_order(k, order);
		for (int i = 0; i < LK_STALLS_CONFIGURATIONS; i++, at++) {
			int c = order[i];
			double slow = slowness(kind, at, runs, lk_hash64(seed));
			lab->drift += log(slow) / runs;
			rounds.at[c][k] =
				simulate_run(truth, c, slow, calls, lk_hash64(seed * 1000 + (uint64_t)at),
			                 lab->length[at], lab->slowest[at], lab->working[at]);
		}
		if (truth->late) rounds.at[LK_STALLS_READY][k].step = NAN;
	}
	lab->drift = exp(lab->drift);
	rounds.first = rounds.at[LK_STALLS_COLD][0];
	*out = (lk_stalls_answer){.hosts = 1, .ranks = 2};
	lk_stalls_split(&rounds, out);
}

static const struct experiment experiments[] = {
	{"prep and skew", 203, 107, 0, 2, 214, 0, 8, 0},
	{"skew small", 100, 30, 0, 5, 40, 0, 8, 0},
	{"cold reads", 150, 0, 0, 5, 0, 80, 8, 0},
	{"communication", 60, 5, 10, 90, 20, 0, 8, 0},
	{"all of it", 100, 20, 15, 40, 30, 60, 12, 0},
	{"few rounds", 100, 20, 15, 40, 30, 60, 5, 0},
	/* (50 + 44) / 2 more than the slower rank's work, though each rank waits 25 */
	{"loaders in turn", 100, 6, 15, 20, 47, 40, 8, 50},
};

/* 95 % intervals hold the truth in 90 to 98 of 100 experiments; of a part that is not there their
 * lower end is 0, which is the one-sided half of it. Waits for loaders are recorded exactly here,
 * which the fit does not take for granted: intervals may hold more often then. The largest parts
 * are not mistaken, and the parts sum to the step in each. */
static void test_intervals_hold(void **state) {
	(void)state;
	static struct lab lab;
	int tries = getenv("LOCKSTEP_LONG") ? 2000 : 200, wrong = 0;
	for (size_t e = 0; e < sizeof experiments / sizeof *experiments; e++) {
		const struct experiment *truth = &experiments[e];
		const struct {
			lk_stalls_kind kind;
			double ms;
		} parts[] = {{LK_STALL_COMPUTE, truth->own},
		             {LK_STALL_IMBALANCE, truth->imbalance},
		             {LK_STALL_SHARING, truth->sharing},
		             {LK_STALL_INTERCONNECT, truth->interconnect},
		             {LK_STALL_PREPARATION, truth->preparation},
		             {LK_STALL_FETCH, truth->fetch}};
		int held[6] = {0}, mistaken = 0;
		double width[6] = {0};
		for (int i = 0; i < tries; i++) {
			lk_stalls_answer x;
			simulate_experiment(truth, i % 3, (uint64_t)i + 1, &lab, &x);
			assert_near(sum_of(&x), x.step_s, 1e-12);
			for (int p = 0; p < 6; p++) {
				const lk_stalls_part *part = &x.parts[parts[p].kind];
				double ms = parts[p].ms * lab.drift * 1e-3;
				if (!(part->low <= part->seconds && part->seconds <= part->high && part->low >= 0))
					fail_msg("%s: %g not in %g - %g", lk_stalls_kinds[parts[p].kind], part->seconds,
					         part->low, part->high);
				held[p] += part->low <= ms && (ms == 0 || ms <= part->high);
				width[p] += (part->high - part->low) / x.step_s / tries;
			}
			bool own =
				truth->own >= fmax(fmax(truth->preparation, truth->interconnect), truth->fetch);
			mistaken += x.lead.apart && (x.lead.first == LK_STALL_COMPUTE) != own;
		}
		for (int p = 0; p < 6; p++) {
			double share = (double)held[p] / tries;
			bool good = share >= 0.9 && (share <= 0.98 || parts[p].ms == 0 || truth->late > 0);
			print_message("%-14s %-13s %6.1f ms: held %5.1f %%, %4.1f %% of the step wide%s\n",
			              truth->name, lk_stalls_kinds[parts[p].kind], parts[p].ms, 100 * share,
			              100 * width[p], good ? "" : "  <--");
			wrong += !good;
		}
		if (mistaken > 0.025 * tries)
			fail_msg("%s: %d of %d headlines", truth->name, mistaken, tries);
	}
	if (wrong) fail_msg("%d parts whose intervals do not hold as often as they say", wrong);
}

/* ---- calls and bytes ---- */

static void test_buckets(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		double a = seed % 5 ? draw(seed, 0, 1e-6, 1e-3) : 0,
			   b = seed % 7 ? draw(seed, 1, 1e-11, 1e-8) : 0;
		lk_stalls_size sizes[8];
		lk_arena arena = LK_ARENA_INIT;
		lk_stalls_buckets x = {0};
		double shown = 0;
		if (a == 0 && b == 0) continue;
		for (int i = 0; i < 8; i++) {
			sizes[i] = (lk_stalls_size){.bytes = pow(4, i + 4), .calls = 1 + (double)(seed % 3)};
			sizes[i].seconds = a + b * sizes[i].bytes;
			shown += sizes[i].calls * sizes[i].seconds;
		}
		assert_true(lk_stalls_fit_buckets(sizes, 8, NAN, shown + 0.01, 2 * shown + 1, &arena, &x));
		assert_near(x.per_call_s, a, 1e-6);
		assert_near(x.per_byte_s, b, 1e-6);
		assert_near(x.rest_s, 0.01, 1e-6);
		assert_true(x.error < 1e-6);
		for (int i = 0; i < x.count; i++) {
			double calls = ceil(x.bytes / x.at[i].bucket_bytes), then = a * calls + b * x.bytes;
			assert_near(x.at[i].step_s, 2 * shown + 1 + fmax(-(shown + 0.01), then - shown), 1e-6);
		}
		lk_arena_free(&arena);
	}
}

/* Of one size, with what a call takes: the rest is the bytes'; no more than all of it is the
 * call's. */
static void test_buckets_of_one_size(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	const lk_stalls_size size = {.bytes = 1e6, .calls = 4, .seconds = 3e-3};
	const double calls[] = {1e-3, 3e-3, 1};
	for (int i = 0; i < 3; i++) {
		lk_stalls_buckets x = {0};
		double per_call = fmin(calls[i], 3e-3);
		assert_true(lk_stalls_fit_buckets(&size, 1, calls[i], 0.02, 0.1, &arena, &x));
		assert_near(x.per_call_s, per_call, 1e-9);
		assert_near(x.per_byte_s + 1e-20, (3e-3 - per_call) / 1e6 + 1e-20, 1e-9);
		assert_near(x.rest_s, 0.008, 1e-9);
		assert_true(x.error == 0 && x.sizes == 1 && x.count > 1);
		assert_near(x.at[0].step_s, 0.1 - 3 * per_call, 1e-9); /* one bucket for four */
	}
	lk_stalls_buckets x = {0};
	assert_true(lk_stalls_fit_buckets(&size, 1, NAN, 0.02, 0.1, &arena, &x));
	assert_true(isnan(x.error) && isnan(x.per_call_s) && !x.count && *x.note);
	lk_arena_free(&arena);
}

/* Never a negative number, whatever the sizes; too few of them give none. */
static void test_buckets_odd(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	for (uint64_t seed = 0; seed < 500; seed++) {
		lk_stalls_size sizes[5];
		int count = (int)(seed % 6);
		for (int i = 0; i < count; i++)
			sizes[i] = (lk_stalls_size){floor(draw(seed, (uint64_t)i, 0, 1e6)), 1,
			                            draw(seed, 100 + (uint64_t)i, 0, 1e-2)};
		lk_stalls_buckets x = {0};
		assert_true(lk_stalls_fit_buckets(sizes, count, NAN, 0.01, 0.1, &arena, &x));
		if (x.sizes < 2) assert_true(isnan(x.per_call_s) && x.count == 0 && *x.note);
		else
			assert_true(x.per_call_s >= 0 && x.per_byte_s >= 0 && x.rest_s >= 0 &&
			            isfinite(x.per_call_s + x.per_byte_s));
		for (int i = 0; i < x.count; i++) assert_true(x.at[i].step_s >= 0.09 - 1e-12);
	}
	lk_arena_free(&arena);
}

/* ---- the loader's model ---- */

static lk_stalls_model model_of(uint64_t seed) {
	double memory = draw(seed, 8, 1e9, 1e10);
	return (lk_stalls_model){.pipelined = seed % 2,
	                         .own = draw(seed, 0, 0.001, 0.1),
	                         .waiting = draw(seed, 1, 0, 0.01),
	                         .interconnect = draw(seed, 2, 0, 0.02),
	                         .network = draw(seed, 3, 0, 0.02),
	                         .writing = draw(seed, 4, 0, 0.01),
	                         .preparation = draw(seed, 5, 0, 0.3),
	                         .workers = seed % 2 ? 1 + floor(draw(seed, 6, 0, 8)) : 1,
	                         .bytes = draw(seed, 7, 1e5, 1e8),
	                         .memory = memory,
	                         .disk = memory * draw(seed, 9, 0.01, 1),
	                         .hit = lk_uniform(seed, 10),
	                         .hidden = seed % 3 ? draw(seed, 13, 0, 0.1) : 0,
	                         .cores = 1 + floor(draw(seed, 11, 0, 8)),
	                         .busy = draw(seed, 12, 1, 8)};
}

static void test_closed_and_simulated(void **state) {
	(void)state;
	int hangs_on[3] = {0};
	for (uint64_t seed = 0; seed < 400; seed++) {
		lk_stalls_model m = model_of(seed);
		lk_error err = {0};
		const char *what;
		double simulated;
		if (lk_stalls_simulate(&m, &simulated, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		assert_near(simulated, lk_stalls_closed(&m, &what), 1e-3);
		hangs_on[*what == 'c' ? 0 : *what == 'p' ? 1 : 2]++;
		lk_stalls_machine machine = {.disk = draw(seed, 20, 0.5, 4),
		                             .network = draw(seed, 21, 0.5, 10),
		                             .speed = draw(seed, 22, 0.5, 3),
		                             .cores = seed % 3 ? NAN : draw(seed, 23, 1, 16),
		                             .hit = seed % 4 ? NAN : lk_uniform(seed, 24)};
		lk_stalls_model other = lk_stalls_on(&m, &machine);
		assert_int_equal(lk_stalls_simulate(&other, &simulated, &err), LK_OK);
		assert_near(simulated, lk_stalls_closed(&other, NULL), 1e-3);
	}
	for (int i = 0; i < 3; i++) assert_true(hangs_on[i] > 20);
}

/* The closed forms' thresholds are where the step stops to hang on the loader. */
static void test_thresholds(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed < 400; seed += 2) {
		lk_stalls_model m = model_of(seed);
		double cores = lk_stalls_cores_to_hide(&m), share = lk_stalls_cache_to_hide(&m),
			   least = lk_stalls_compute_s(&m);
		const char *what;
		lk_stalls_model cached = m, hidden = m, shown = m;
		m.workers = cores;
		assert_near(lk_stalls_closed(&m, &what), fmax(least, lk_stalls_device_s(&m)), 1e-9);
		assert_string_not_equal(what, "preparation");
		m.workers = cores - 1;
		if (cores > 1) assert_true(lk_stalls_closed(&m, &what) > least);
		m.bytes = 0;
		m.workers = fmax(1, lk_stalls_cores_to_hide(&m) - 1);
		if (lk_stalls_closed(&m, &what) > least) assert_string_equal(what, "preparation");
		cached.hit = 1;
		hidden.hit = fmin(1, share * (1 + 1e-9));
		shown.hit = share - 1e-3;
		assert_near(lk_stalls_closed(&hidden, NULL), lk_stalls_closed(&cached, NULL), 1e-6);
		if (share > 1e-3)
			assert_true(lk_stalls_closed(&shown, NULL) > lk_stalls_closed(&cached, NULL));
	}
}

/* Nothing changed is nothing gained; a better machine is never slower. */
static void test_machines(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		lk_stalls_model m = model_of(seed);
		lk_stalls_machine same = {1, 1, 1, NAN, NAN}, as_many = {1, 1, 1, m.cores, m.hit},
						  better = {2, 10, 2, 2 * m.cores, 1};
		lk_stalls_model a = lk_stalls_on(&m, &same), b = lk_stalls_on(&m, &as_many),
						c = lk_stalls_on(&m, &better);
		assert_near(lk_stalls_closed(&a, NULL), lk_stalls_closed(&m, NULL), 1e-12);
		assert_near(lk_stalls_closed(&b, NULL), lk_stalls_closed(&m, NULL), 1e-9);
		assert_true(lk_stalls_closed(&c, NULL) <= lk_stalls_closed(&m, NULL) * (1 + 1e-9));
	}
}

static void test_machine_texts(void **state) {
	(void)state;
	lk_stalls_machine m;
	lk_error err = {0};
	char name[160];
	assert_int_equal(lk_stalls_machine_of("disk=2,cores=4,cache=0.5\nnetwork=10", &m, name, &err),
	                 LK_OK);
	assert_true(m.disk == 2 && m.cores == 4 && m.hit == 0.5 && m.network == 1 && m.speed == 1);
	assert_string_equal(name, "disk x2, 4 cores, 50 % in memory");
	static const char *const wrong[] = {"",          "disk",    "disk=",   "disk=x", "disk=0",
	                                    "disk=1e99", "cache=2", "dsik=2",  "=2",     "disk=2,,",
	                                    "disk=nan",  "cores=0", "disk=2=3"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		if (lk_stalls_machine_of(wrong[i], &m, name, &err) == LK_OK)
			fail_msg("\"%s\" was taken", wrong[i]);
		assert_true(*err.what);
	}
	lk_stalls_machine_of("dsik=2", &m, name, &err);
	assert_non_null(strstr(err.hint, "disk"));
}

/* ---- files ---- */

/* What is staged fits, and the best choice of all is worth at the most the stated bound more. */
static void test_staging(void **state) {
	(void)state;
	enum { FILES = 10 };
	for (uint64_t seed = 0; seed < 200; seed++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_stalls_profile profile = {0};
		lk_stalls_staging staging;
		lk_stalls_file *file;
		lk_error err;
		char name[16];
		for (int f = 0; f < FILES; f++) {
			snprintf(name, sizeof name, "/data/%d", f);
			assert_int_equal(lk_stalls_file_of(&profile, name, &arena, &file, &err), LK_OK);
			file->size = 1e6 * floor(draw(seed, 3 * (uint64_t)f, 1, 50));
			file->reads = 10, file->read_bytes = 4 * file->size;
			file->read_s = draw(seed, 3 * (uint64_t)f + 1, 0.001, 5);
		}
		assert_int_equal(lk_stalls_stage(&profile, "size=0.1GB rate=1GB/s latency=1000us", &arena,
		                                 &staging, &err),
		                 LK_OK);
		double best = 0, used = 0, gain = 0, all = 0;
		for (int f = 0; f < FILES; f++) {
			const lk_stalls_file *at = &profile.files.at[f];
			all += at->read_s;
			assert_near(at->gain_s, fmax(0, at->read_s - 0.01 - at->read_bytes / 1e9), 1e-12);
			if (at->staged) used += at->size, gain += at->gain_s;
		}
		for (unsigned set = 0; set < 1u << FILES; set++) {
			double size = 0, worth = 0;
			for (int f = 0; f < FILES; f++)
				if (set >> f & 1)
					size += profile.files.at[f].size, worth += profile.files.at[f].gain_s;
			if (size <= 0.1e9) best = fmax(best, worth);
		}
		assert_near(staging.read_s, all, 1e-12);
		assert_near(staging.used, used, 1e-12);
		assert_near(staging.gain_s, gain, 1e-12);
		assert_true(used <= 0.1e9 && gain <= best * (1 + 1e-12) && best <= gain + staging.bound_s);
		lk_stalls_profile_free(&profile);
		lk_arena_free(&arena);
	}
}

static void test_read_classes(void **state) {
	(void)state;
	static const double sizes[] = {100, 101, 1024, 10240, 1048576, 1048577, 104857600, 2e9};
	static const int classes[] = {0, 1, 1, 2, 4, 5, 7, 9};
	for (int i = 0; i < 8; i++) assert_int_equal(lk_stalls_read_class(sizes[i]), classes[i]);
}

static const char darshan[] = "# darshan log version: 3.41\n# exe: ./train\n# nprocs: 2\n\n"
							  "POSIX\t0\t7\tPOSIX_OPENS\t2\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_READS\t20\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_SEQ_READS\t15\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_BYTES_READ\t2000000\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_MAX_BYTE_READ\t999999\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_SIZE_READ_10K_100K\t20\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_F_READ_TIME\t1.5\t/data/a\t/\text4\n"
							  "POSIX\t0\t7\tPOSIX_F_META_TIME\t0.25\t/data/a\t/\text4\n"
							  "POSIX\t1\t7\tPOSIX_READS\t5\t/data/a\t/\text4\n"
							  "POSIX\t0\t8\tPOSIX_READS\t0\t/data/written\t/\text4\n"
							  "STDIO\t0\t9\tSTDIO_READS\t3\t/data/b\t/\text4\n"
							  "STDIO\t0\t9\tSTDIO_F_READ_TIME\t-1\t/data/b\t/\text4\n"
							  "LUSTRE\t0\t9\tLUSTRE_OSTS\t3\t/data/b\t/\tlustre\n";

static void test_darshan(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_stalls_profile profile = {0};
	lk_error err;
	static const char wrong[] = "# darshan log version: 3.41\nPOSIX\t0\tx\n";
	lk_stream *in;
	char path[64];
	write_text(new_file(path, ".txt"), darshan);
	bool is;
	assert_int_equal(lk_stalls_is_darshan(path, &is, &err), LK_OK);
	assert_true(is);
	assert_int_equal(lk_stalls_profile_of(path, &arena, &profile, &err), LK_OK);
	assert_int_equal(profile.files.count, 2);
	const lk_stalls_file *a = &profile.files.at[0], *b = &profile.files.at[1];
	assert_string_equal(a->path, "/data/a");
	assert_true(a->opens == 2 && a->reads == 25 && a->sequential == 15 && a->read_bytes == 2e6);
	assert_true(a->size == 1e6 && a->sizes[3] == 20 && a->read_s == 1.75);
	assert_string_equal(a->tier, "/ (ext4)");
	assert_string_equal(b->path, "/data/b");
	assert_true(b->reads == 3 && b->read_s == 0 && b->size == 0);
	assert_int_equal(lk_stream_memory(wrong, strlen(wrong), "wrong.txt", &in, &err), LK_OK);
	assert_int_equal(lk_stalls_darshan_read(in, &arena, &profile, &err), LK_ERR_INPUT);
	lk_stream_close(in);
	assert_non_null(strstr(err.where, ":2"));
	unlink(path);
	lk_stalls_profile_free(&profile);
	lk_arena_free(&arena);
}

/* A data set of a folder for each class is one row, whatever else is read; files of one folder on
 * two tiers are two. Sums are those of the files. */
static void test_folders(void **state) {
	(void)state;
	enum { CLASSES = 1000 };
	lk_arena arena = LK_ARENA_INIT;
	lk_stalls_profile profile = {0};
	const lk_stalls_folder *folders;
	lk_error err;
	double reads = 0, seconds = 0;
	int count;
	for (int i = 0; i < CLASSES + 3; i++) {
		static const char *const others[] = {"/etc/passwd", "/data/train/labels", "/top"};
		char path[64];
		lk_stalls_file *file;
		snprintf(path, sizeof path, "/data/train/n%04d/sample.jpg", i);
		assert_int_equal(lk_stalls_file_of(&profile, i < CLASSES ? path : others[i - CLASSES],
		                                   &arena, &file, &err),
		                 LK_OK);
		file->tier = i == CLASSES + 1 ? "/data/train (overlay)" : "/ (ext4)";
		file->reads = 2;
		file->opens = 1;
		file->read_bytes = 1000;
		file->read_s = 1e-3;
	}
	assert_int_equal(lk_stalls_folders_of(&profile, &arena, &folders, &count, &err), LK_OK);
	assert_int_equal(count, 4);
	assert_string_equal(folders[0].path, "/data/train");
	assert_true(folders[0].files == CLASSES && folders[0].read_bytes == 1e3 * CLASSES);
	assert_string_equal(folders[1].path, "/");
	assert_string_equal(folders[2].path, "/data/train");
	assert_string_equal(folders[2].tier, "/data/train (overlay)");
	assert_string_equal(folders[3].path, "/etc");
	for (int i = 0; i < count; i++) reads += folders[i].reads, seconds += folders[i].read_s;
	assert_true(reads == 2 * (CLASSES + 3));
	assert_near(seconds, 1e-3 * (CLASSES + 3), 1e-9);
	lk_stalls_profile_free(&profile);
	assert_int_equal(lk_stalls_folders_of(&(lk_stalls_profile){0}, &arena, &folders, &count, &err),
	                 LK_OK);
	assert_int_equal(count, 0);
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_staging),        cmocka_unit_test(test_read_classes),
		cmocka_unit_test(test_folders),        cmocka_unit_test(test_buckets_of_one_size),
		cmocka_unit_test(test_darshan),        cmocka_unit_test(test_interval),
		cmocka_unit_test(test_interval_holds), cmocka_unit_test(test_parts),
		cmocka_unit_test(test_stash),          cmocka_unit_test(test_noise),
		cmocka_unit_test(test_missing),        cmocka_unit_test(test_left_in_null),
		cmocka_unit_test(test_buckets),        cmocka_unit_test(test_intervals_hold),
		cmocka_unit_test(test_buckets_odd),    cmocka_unit_test(test_closed_and_simulated),
		cmocka_unit_test(test_thresholds),     cmocka_unit_test(test_machines),
		cmocka_unit_test(test_machine_texts),  cmocka_unit_test(test_rare_long_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
