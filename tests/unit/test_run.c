/* test_run.c: whole runs: the simulation against Daly's closed form where it is exact, and against
 * a plain simulation, checkpoint by checkpoint, where it is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/stats.h"
#include "run/run.h"
#include "rounds.h"

static const double DAY = 86400;

/* A run with one recovery time and one kind of checkpoint. */
static lk_long_run simple(double stops_per_h, double stall_s, double recovery_s,
                          double interval_s) {
	return (lk_long_run){.work_s = 400 * DAY,
	                     .gpus = 1024,
	                     .nodes = 128,
	                     .replicas = 16,
	                     .stops_per_h = stops_per_h,
	                     .replaced_share = 1,
	                     .recovery = {.restart_s = recovery_s},
	                     .tiers = {{.interval_s = interval_s,
	                                .stall_s = stall_s,
	                                .write_s = stall_s,
	                                .survives = true}},
	                     .tier_count = 1,
	                     .spares = -1,
	                     .seed = 1,
	                     .samples = 200};
}

static lk_run_days simulate(const lk_long_run *run) {
	lk_long_run settled = *run;
	lk_run_days days;
	lk_error err;
	lk_run_settle(&settled);
	assert_int_equal(lk_run_simulate(&settled, 1, &days, &err), LK_OK);
	double sum = 0;
	for (int i = 0; i < LK_RUN_PARTS; i++) sum += days.part_days[i];
	assert_true(fabs(sum / days.days.mean - 1) < 1e-9);
	assert_true(fabs(days.part_days[LK_RUN_USEFUL] * DAY / run->work_s - 1) < 1e-9);
	assert_true(days.days.p5 <= days.days.p50 && days.days.p50 <= days.days.p95);
	return days;
}

/* Daly 2006, equation 13. */
static double daly(double stops_per_h, double stall_s, double recovery_s, double interval_s) {
	double mean_s = 3600 / stops_per_h;
	return interval_s /
	       (mean_s * exp(recovery_s / mean_s) * expm1((interval_s + stall_s) / mean_s));
}

static void closed_form_is_dalys(void **state) {
	(void)state;
	for (int i = 0; i < 200; i++) {
		double per_h = exp(-6 + 6 * lk_uniform(1, (uint64_t)i)),
			   stall = 100 * lk_uniform(2, (uint64_t)i) + 0.1,
			   recovery = 1000 * lk_uniform(3, (uint64_t)i),
			   interval = 60 + 7000 * lk_uniform(4, (uint64_t)i);
		interval = fmax(interval, stall);
		lk_long_run run = simple(per_h, stall, recovery, interval);
		double expected = daly(per_h, stall, recovery, interval), found = lk_run_goodput(&run);
		assert_true(lk_run_is_closed(&run));
		if (expected > 0.05) assert_true(fabs(found / expected - 1) < 1e-9);
		else assert_true(found == 0);
	}
}

static void simulation_is_the_closed_form(void **state) {
	(void)state;
	const struct {
		double per_h, stall, recovery, interval;
	} cases[] = {{0.1, 20, 600, 3600}, {1, 5, 300, 600}, {0.02, 60, 900, 0}, {2, 1, 120, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_long_run run =
			simple(cases[i].per_h, cases[i].stall, cases[i].recovery, cases[i].interval);
		run.replaced_share = 0.7;
		run.recovery.in_place_s = 60;
		run.recovery.hang_share = 0.2;
		run.recovery.hang_s = 400;
		lk_run_days days = simulate(&run);
		double exact = lk_run_goodput(&run);
		assert_true(fabs(run.work_s / DAY / days.days.mean / exact - 1) < 1e-3);
		/* which costs what stops times the variance say */
		double low = days.days.p5 / days.days.mean, high = days.days.p95 / days.days.mean,
			   spread = 2 * 1.645 * sqrt(lk_run_variance(&run) / (days.days.mean * 24));
		assert_true((high - low) / spread > 0.7 && (high - low) / spread < 1.6);
	}
}

static void best_interval_is_the_best(void **state) {
	(void)state;
	for (int i = 0; i < 200; i++) {
		double per_h = exp(-8 + 9 * lk_uniform(5, (uint64_t)i)),
			   stall = exp(-2 + 7 * lk_uniform(6, (uint64_t)i));
		double best = lk_run_best_interval(per_h, stall), young = sqrt(2 * stall * 3600 / per_h);
		double at = daly(per_h, stall, 100, best);
		assert_true(at >= daly(per_h, stall, 100, best * 1.01));
		assert_true(at >= daly(per_h, stall, 100, best / 1.01));
		if (stall * per_h / 3600 < 1e-6) assert_true(fabs(best / young - 1) < 2e-3);
	}
	assert_true(lk_run_best_interval(0, 10) == 0 && lk_run_best_interval(1, 0) == 0);
}

/* ---- a plain simulation: event by event, everything that happens in its order */

struct plain {
	const lk_long_run *run;
	uint64_t draws;
	double now, stop, done, kept[LK_RUN_TIERS];
};

static double plain_draw(struct plain *p) {
	return lk_uniform(99, p->draws++);
}

static void plain_next_stop(struct plain *p) {
	p->stop = p->now - log(plain_draw(p)) * 3600 / p->run->stops_per_h;
}

/* Pass seconds; false: it stopped before. */
static bool plain_pass(struct plain *p, double seconds) {
	if (p->now + seconds >= p->stop) {
		p->now = p->stop;
		return false;
	}
	p->now += seconds;
	return true;
}

static void plain_recover(struct plain *p, double *broken, int *broken_count) {
	const lk_long_run *run = p->run;
	bool lost = false;
	for (;;) {
		bool replaces = plain_draw(p) < run->replaced_share,
			 hangs = plain_draw(p) < run->recovery.hang_share;
		double load = 0, wait = 0, best = -1;
		lost |= replaces;
		plain_next_stop(p);
		for (int k = 0; k < run->tier_count; k++)
			if ((run->tiers[k].survives || !lost) && p->kept[k] > best)
				best = p->kept[k], load = run->tiers[k].load_s;
		p->done = best;
		if (replaces && run->spares >= 0) {
			int left = 0;
			for (int i = 0; i < *broken_count; i++)
				if (broken[i] > p->now) broken[left++] = broken[i];
			*broken_count = left;
			if (left >= run->spares) {
				wait = broken[0] - p->now;
				memmove(broken, broken + 1, (size_t)(--*broken_count) * sizeof *broken);
			}
			broken[(*broken_count)++] = p->now + run->repair_h * 3600;
		}
		p->now += wait; /* nothing runs, so nothing stops */
		p->stop += wait;
		double r = (hangs ? run->recovery.hang_s : run->recovery.detect_s) +
		           run->recovery.diagnose_s +
		           (replaces ? run->recovery.replace_s + run->recovery.restart_s
		                     : run->recovery.in_place_s) +
		           load;
		if (plain_pass(p, r)) break;
	}
	for (int k = 0; k < run->tier_count; k++) p->kept[k] = p->done;
}

static double plain_days(const lk_long_run *run, uint64_t sample) {
	struct plain p = {.run = run, .draws = sample << 32};
	double broken[64];
	int broken_count = 0;
	plain_next_stop(&p);
	while (p.done < run->work_s) {
		/* a segment, to the next multiple of the fastest tier's interval, and its checkpoints */
		double base = p.done, pending[LK_RUN_TIERS], safe_at[LK_RUN_TIERS];
		for (int k = 0; k < run->tier_count; k++) safe_at[k] = INFINITY;
		bool stopped = false;
		for (int n = 1; !stopped && p.done < run->work_s; n++) {
			double step = fmin(run->tiers[0].interval_s, run->work_s - p.done);
			stopped = !plain_pass(&p, step);
			if (!stopped) p.done += step;
			for (int k = 0; !stopped && k < run->tier_count && p.done < run->work_s; k++) {
				long every = lround(run->tiers[k].interval_s / run->tiers[0].interval_s);
				if (n % every) continue;
				double begin = p.now;
				if (safe_at[k] <= begin) p.kept[k] = pending[k], safe_at[k] = INFINITY;
				stopped = !plain_pass(&p, run->tiers[k].stall_s);
				if (stopped) break;
				pending[k] = base + n * run->tiers[0].interval_s;
				safe_at[k] = begin + run->tiers[k].write_s;
			}
		}
		for (int k = 0; k < run->tier_count; k++)
			if (safe_at[k] <= p.now) p.kept[k] = pending[k];
		if (stopped) plain_recover(&p, broken, &broken_count);
	}
	return p.now / DAY;
}

static void simulation_is_a_plain_one(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	lk_long_run tiers = simple(0.5, 2, 300, 60), spares = simple(0.2, 5, 300, 600);
	tiers.tiers[0].survives = false;
	tiers.tiers[1] = (lk_run_tier){
		.interval_s = 1800, .stall_s = 3, .write_s = 400, .load_s = 30, .survives = true};
	tiers.tier_count = 2;
	tiers.replaced_share = 0.6;
	tiers.recovery.in_place_s = 30;
	tiers.work_s = spares.work_s = 60 * DAY;
	spares.spares = 3;
	spares.repair_h = 24;
	spares.recovery.detect_s = 30;
	const lk_long_run *const runs[] = {&tiers, &spares};
	for (int i = 0; i < 2; i++) {
		int count = 300;
		double mean = 0;
		for (int n = 0; n < count; n++) mean += plain_days(runs[i], (uint64_t)n) / count;
		lk_run_days days = simulate(runs[i]);
		assert_true(fabs(days.days.mean / mean - 1) < 0.01);
	}
}

static void parts_have_their_costs(void **state) {
	(void)state;
	lk_error err;
	lk_long_run run = simple(0.2, 5, 300, 600);
	run.work_s = 100 * DAY;
	lk_run_days plenty = simulate(&run);
	assert_true(plenty.part_days[LK_RUN_SPARES] == 0);
	run.spares = 3;
	run.repair_h = 24;
	lk_run_days few = simulate(&run);
	assert_true(few.part_days[LK_RUN_SPARES] > 1 && few.days.mean > plenty.days.mean);
	int cheapest, enough;
	lk_run_best_spares(&run, &cheapest, &enough);
	assert_true(cheapest > 4 && enough >= 10 && enough <= 12); /* 4.8 under repair, Poisson: 10 */
	run.spares = cheapest;
	lk_run_days best = simulate(&run);
	assert_true((run.nodes + cheapest) * best.days.mean < (run.nodes + 3) * few.days.mean);
	/* an elastic run loses no work */
	run.spares = -1;
	run.recovery.elastic = true;
	run.recovery.replace_s = 600;
	lk_run_days elastic = simulate(&run);
	assert_true(fabs(elastic.part_days[LK_RUN_REPEATED]) < 1e-6);
	double missing = elastic.stops.mean * 600 / 16 / DAY;
	assert_true(fabs(elastic.part_days[LK_RUN_REDUCED] / missing - 1) < 0.01);
	/* planned stops lose no work either */
	lk_long_run planned = simple(0, 5, 300, 600);
	planned.planned_per_h = 0.1;
	planned.recovery.in_place_s = 100;
	lk_run_days quiet = simulate(&planned);
	assert_true(quiet.part_days[LK_RUN_REPEATED] < 1e-9 && quiet.part_days[LK_RUN_PLANNED] > 0.5);
	/* two halves are a whole */
	lk_long_run halves[2] = {planned, planned};
	halves[0].work_s = halves[1].work_s = planned.work_s / 2;
	halves[1].gpus *= 2;
	lk_run_settle(&halves[0]);
	lk_run_settle(&halves[1]);
	assert_int_equal(lk_run_simulate(halves, 2, &few, &err), LK_OK);
	assert_true(fabs(few.days.mean / quiet.days.mean - 1) < 1e-3);
	assert_true(fabs(few.gpu_days.mean / quiet.days.mean / (1.5 * planned.gpus) - 1) < 1e-3);
	/* of a run with millions of stops a part is simulated */
	lk_long_run endured = simple(1, 5, 300, 600);
	endured.samples = 20;
	endured.work_s = 4e6 * 3600;
	lk_run_days years = simulate(&endured);
	assert_true(fabs(endured.work_s / DAY / years.days.mean / lk_run_goodput(&endured) - 1) < 1e-3);
	assert_true(years.stops.p95 / years.stops.p5 - 1 < 4 / sqrt(years.stops.mean));
	/* nothing ends a run whose stops cost more than their distance */
	lk_long_run endless = simple(20, 60, 3000, 3600);
	lk_run_days days;
	assert_int_equal(lk_run_simulate(&endless, 1, &days, &err), LK_ERR_INPUT);
}

static lk_run_words words_of(double gpus, const char *failures) {
	return (lk_run_words){
		.gpus = gpus, .nodes = gpus / 8, .failures = failures, .bytes = 8e12, .node_gbps = 1};
}

static void words_make_a_run(void **state) {
	(void)state;
	lk_run_words words = words_of(1000, "typical");
	lk_long_run run;
	lk_error err;
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	/* Llama 3: 419 in 54 days of 16,384 GPUs */
	assert_true(fabs(run.stops_per_h * 24 - 0.474) < 0.005 && run.spares < 0);
	assert_true(fabs(run.replaced_share - 356.0 / 419) < 0.002);
	words.failures = "low";
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	assert_true(fabs(run.stops_per_h * 24 - 0.14) < 0.01);
	words.failures = "high";
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	assert_true(fabs(run.stops_per_h * 24 - 1.8) < 0.1 && run.planned_per_h > 0);
	words.failures = NULL;
	words.node_mtbf_h = 1000;
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	assert_true(run.stops_per_h == 0.125 && run.planned_per_h == 0);
	words.recovery = "requeue";
	words.gpus = 16384;
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	assert_true(fabs(run.recovery.restart_s / 768 - 1) < 0.01); /* ByteRobust, table 7 */
	words.gpus = 1000;
	words.tiers = "host:1min+async";
	words.interval_s = 1800;
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	assert_true(run.tier_count == 2 && run.tiers[0].interval_s == 60 && !run.tiers[0].survives);
	assert_true(fabs(run.tiers[1].stall_s - 8e12 / 1000 / 25e9) < 1e-9);
	assert_true(run.tiers[1].write_s == 64 && run.tiers[1].interval_s == 1800);
	static const char *const wrong[] = {
		"host", "tape", "async:soon", "async:0", "+", "async+async+async+async+async", ":5min"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		words.tiers = wrong[i];
		assert_int_equal(lk_run_of(&words, &run, &err), LK_ERR_INPUT);
	}
	words.tiers = NULL;
	words.recovery = "never";
	assert_int_equal(lk_run_of(&words, &run, &err), LK_ERR_INPUT);
	words.recovery = NULL;
	words.failures = "/nowhere/rates.csv";
	assert_int_equal(lk_run_of(&words, &run, &err), LK_ERR_IO);
}

/* 100 days of 100,000 GPUs, a thousand times: seconds. */
static void large_runs_are_quick(void **state) {
	(void)state;
	lk_run_words words = words_of(100000, "typical");
	lk_long_run run;
	lk_error err;
	words.spares = 200;
	words.tiers = "host:30s+async";
	assert_int_equal(lk_run_of(&words, &run, &err), LK_OK);
	run.work_s = 100 * DAY;
	clock_t begin = clock();
	lk_run_days days = simulate(&run);
	double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
	print_message("%.2f s for %d samples of %.0f stops\n", seconds, run.samples, days.stops.mean);
	assert_true(days.stops.mean > 4700);
	lk_run_days again = simulate(&run);
	assert_memory_equal(&days, &again, offsetof(lk_run_days, samples));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_form_is_dalys),
		cmocka_unit_test(simulation_is_the_closed_form),
		cmocka_unit_test(best_interval_is_the_best),
		cmocka_unit_test(simulation_is_a_plain_one),
		cmocka_unit_test(parts_have_their_costs),
		cmocka_unit_test(words_make_a_run),
		cmocka_unit_test(large_runs_are_quick),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
