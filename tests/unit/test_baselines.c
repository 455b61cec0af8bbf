/* test_baselines.c: scaling error by hand and its properties; baselines of training runs on
 * invented rows: they find what they can, and nothing of a fold reaches its own predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "rounds.h"
#include "validate/validate.h"
#include "base/stats.h"
#include "cost/kernel/kernel.h"

static void near(double value, double wanted) {
	if (isnan(wanted) ? isnan(value) : fabs(value - wanted) <= 1e-12 * fmax(1, fabs(wanted)))
		return;
	fail_msg("%.17g is not %.17g", value, wanted);
}

static lk_accuracy summary_of(const lk_score *scores, size_t count) {
	lk_accuracy a = {.by = "all", .name = "all"};
	lk_error err = {0};
	if (lk_summarise(scores, count, &a, &err) != LK_OK) fail_msg("%s", err.what);
	return a;
}

/* ---- scaling ---- */

static lk_score pace(const char *series, int gpus, double predicted, double measured) {
	return (lk_score){.predicted = predicted,
	                  .measured = measured,
	                  .stack = "",
	                  .series = series,
	                  .gpus = gpus,
	                  .work = gpus};
}

static void test_scaling(void **state) {
	(void)state;
	lk_score scores[] = {
		pace("a", 8, 1, 2),   pace("a", 16, 1.5, 2), /* the speed-up is 1.5 times too small */
		pace("a", 64, 2, 2),                         /* 2 times */
		pace("b", 4, 3, 1),   pace("b", 8, 3, 2),
		pace("b", 8, 3, 0.5),                     /* geometric mean 1: right */
		pace("c", 8, 1, 5),   pace("c", 8, 2, 1), /* one size is no series */
		pace(NULL, 1, 1, 1),  pace(NULL, 2, 9, 1),
	};
	size_t n = sizeof scores / sizeof *scores;
	lk_accuracy a = summary_of(scores, n);
	assert_int_equal(a.series, 2);
	near(a.scaling_error, exp((log(1.5) + log(2)) / 3) - 1);
	for (size_t i = 0; i < n; i++) {
		scores[i].predicted *= 7;
		scores[i].work *= 3;
	} /* what is wrong everywhere alike */
	near(summary_of(scores, n).scaling_error, a.scaling_error);
	scores[2].suspect = true;
	near(summary_of(scores, n).scaling_error, exp(log(1.5) / 2) - 1);
	near(summary_of(scores + 6, 4).scaling_error, NAN);
}

/* ---- baselines ---- */

enum { ROWS = 24 };

struct world {
	lk_arena arena;
	lk_runs runs;
	lk_scoring scoring;
	int fold[ROWS], folds;
};

static const char *const baseline_names[] = {
	"constant MFU",
	"constant MFU per stack",
	"roofline, alpha-beta",
	"nearest run",
};
enum { BASELINES = 4 };

static double mfu(const struct world *world, size_t i) {
	return strcmp(world->runs.at[i].stack, "nemo") == 0 ? 0.5 : 0.3;
}

/* Two stacks, three networks, two GPUs, two sizes each; every run at its stack's MFU, or all at
 * 0.4. */
static void invent(struct world *world, bool by_stack) {
	static const char *const networks[] = {"llama3.1-8b", "llama2-7b", "gpt3-175b"};
	static const char *const gpus[] = {"h100-sxm", "a100-sxm-80"};
	char text[4000];
	lk_stream *in;
	lk_error err = {0};
	int used = snprintf(text, sizeof text,
	                    "id,model,gpu,n_gpu,seq,mbs,gbs,tp,pp,precision,stack,step_s\n");
	for (int i = 0; i < ROWS; i++) {
		int network = i / 2 % 3;
		used += snprintf(text + used, sizeof text - (size_t)used,
		                 "r%d,%s,%s,%d,2048,1,%d,%d,%d,bf16,%s,1\n", i, networks[network],
		                 gpus[i / 6 % 2], i % 2 ? 128 : 64, 128 << (i % 2), network == 2 ? 8 : 2,
		                 network == 2 ? 8 : 1, i < 12 ? "nemo" : "llm-foundry");
	}
	memset(world, 0, sizeof *world);
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	if (lk_runs_read(&world->arena, in, &world->runs, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	lk_stream_close(in);
	assert_int_equal(world->runs.count, ROWS);
	for (size_t i = 0; i < ROWS; i++) {
		lk_run *run = &world->runs.at[i];
		if (*run->refused) fail_msg("%s: %s", run->id, run->refused);
		double peak = lk_peak_flops(run->cluster.node[0].device, LK_BF16);
		run->measured_s =
			lk_model_flops(&run->job.model, run->job.seq) * run->job.gbs / run->job.gpus / peak;
		run->measured_s /= by_stack ? mfu(world, i) : 0.4;
	}
}

static void compare(struct world *world) {
	lk_error err = {0};
	memset(&world->scoring, 0, sizeof world->scoring);
	assert_int_equal(lk_runs_folds(&world->runs, LK_RUNS_GROUP, world->fold, &world->folds, &err),
	                 LK_OK);
	assert_int_equal(lk_scoring_rows(&world->arena, world->runs.count, &world->scoring, &err),
	                 LK_OK);
	assert_int_equal(
		lk_baselines_runs(&world->arena, &world->runs, world->fold, &world->scoring, &err), LK_OK);
	assert_int_equal(world->scoring.baseline_count, BASELINES);
}

static void drop(struct world *world) {
	lk_vec_free(&world->runs);
	lk_arena_free(&world->arena);
}

static void test_folds(void **state) {
	(void)state;
	struct world w;
	invent(&w, false);
	compare(&w);
	assert_int_equal(w.folds, 12);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t k = 0; k < ROWS; k++) {
			const lk_run *a = &w.runs.at[i], *b = &w.runs.at[k];
			bool same = !strcmp(a->stack, b->stack) && !strcmp(a->model, b->model) &&
			            !strcmp(a->gpu, b->gpu);
			assert_int_equal(w.fold[i] == w.fold[k], same);
		}
	drop(&w);
}

/* What a baseline assumes, it finds exactly. */
static void test_found(void **state) {
	(void)state;
	struct world w;
	for (int by_stack = 0; by_stack < 2; by_stack++) {
		invent(&w, by_stack);
		compare(&w);
		for (int b = 0; b < BASELINES; b++) {
			assert_string_equal(w.scoring.baselines[b].name, baseline_names[b]);
			for (size_t i = 0; i < ROWS; i++) {
				double predicted = w.scoring.baselines[b].predicted[i];
				assert_true(predicted > 0 && isfinite(predicted));
				if (by_stack ? b == 1 : b != 2) near(predicted, w.runs.at[i].measured_s);
			}
		}
		drop(&w);
	}
}

/* Nothing of a fold enters what is predicted for it, and suspect rows teach nobody. */
static void test_unseen(void **state) {
	(void)state;
	struct world w, other;
	invent(&w, true);
	compare(&w);
	for (int fold = 0; fold < w.folds; fold++) {
		invent(&other, true);
		for (size_t i = 0; i < ROWS; i++)
			if (w.fold[i] == fold) other.runs.at[i].measured_s *= 1 + 9 * lk_uniform(1, i);
		compare(&other);
		for (int b = 0; b < BASELINES; b++)
			for (size_t i = 0; i < ROWS; i++)
				if (w.fold[i] == fold)
					near(other.scoring.baselines[b].predicted[i],
					     w.scoring.baselines[b].predicted[i]);
		drop(&other);
	}
	invent(&other, false);
	for (size_t i = 0; i < ROWS; i += 2) {
		other.runs.at[i].suspect = "yes";
		other.runs.at[i].measured_s *= 50;
	}
	compare(&other);
	for (size_t i = 1; i < ROWS; i += 2) {
		near(other.scoring.baselines[0].predicted[i], other.runs.at[i].measured_s);
		near(other.scoring.baselines[3].predicted[i], other.runs.at[i].measured_s);
	}
	drop(&other);
	drop(&w);
}

/* One fold alone has nobody to learn from. */
static void test_alone(void **state) {
	(void)state;
	struct world w;
	invent(&w, false);
	w.runs.count = 2;
	compare(&w);
	assert_int_equal(w.folds, 1);
	for (int b = 0; b < BASELINES; b++)
		for (size_t i = 0; i < 2; i++) near(w.scoring.baselines[b].predicted[i], NAN);
	drop(&w);
}

/* Runs that differ by data parallelism alone are one series. */
static void test_series(void **state) {
	(void)state;
	struct world w;
	invent(&w, false);
	for (size_t i = 0; i < ROWS; i += 2) {
		const char *a = lk_run_series(&w.arena, &w.runs.at[i]),
				   *b = lk_run_series(&w.arena, &w.runs.at[i + 1]);
		assert_string_equal(a, b);
		if (i > 0) assert_string_not_equal(a, lk_run_series(&w.arena, &w.runs.at[i - 1]));
		w.runs.at[i].job.mbs++;
		assert_string_not_equal(lk_run_series(&w.arena, &w.runs.at[i]), b);
	}
	drop(&w);
}

/* ---- ranges of what was left out whole ---- */

/* The distance that holds 80 % of the runs of other folds, counted. */
static double held_by_others(const struct world *world, const lk_cross_run *cross, int fold) {
	double least = INFINITY;
	size_t others = 0;
	for (size_t i = 0; i < ROWS; i++) others += world->fold[i] != fold;
	for (size_t k = 0; k < ROWS; k++) {
		double reach = fabs(log(world->runs.at[k].measured_s / cross[k].predicted));
		size_t within = 0;
		for (size_t i = 0; i < ROWS; i++)
			within += world->fold[i] != fold &&
			          fabs(log(world->runs.at[i].measured_s / cross[i].predicted)) <= reach + 1e-12;
		if (world->fold[k] != fold && (double)within >= .8 * (double)others - 1e-9)
			least = fmin(least, reach);
	}
	return least;
}

static void watch_fit(void *context, const char *doing, double share) {
	double *last = context;
	assert_string_equal(doing, "fitting training runs");
	assert_true(share >= 0 && share > *last && share < 1);
	*last = share;
}

/* Where an architecture or a stack was left out, the range is as wide to both sides. */
static void test_even_ranges(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	static const lk_runs_alike leaning[] = {LK_RUNS_ARCHITECTURE, LK_RUNS_STACK};
	struct world w;
	lk_runs_fit *fit;
	lk_error err = {0};
	lk_cross_run cross[ROWS];
	double last = -1;
	const lk_fit_watch watch = {watch_fit, &last};
	invent(&w, true);
	assert_int_equal(lk_runs_fit_all(&w.arena, &w.runs, &watch, &fit, &err), LK_OK);
	assert_true(last > .8);
	for (size_t a = 0; a < sizeof leaning / sizeof *leaning; a++) {
		assert_int_equal(lk_runs_folds(&w.runs, leaning[a], w.fold, &w.folds, &err), LK_OK);
		assert_int_equal(w.folds, 2);
		assert_int_equal(
			lk_runs_cross(&w.arena, &w.runs, fit, leaning[a], w.fold, w.folds, cross, &err), LK_OK);
		for (size_t i = 0; i < ROWS; i++) {
			double reach = held_by_others(&w, cross, w.fold[i]);
			near(log(cross[i].high / cross[i].predicted), reach);
			near(log(cross[i].predicted / cross[i].low), reach);
		}
	}
	drop(&w);
}

/* An architecture of which the other folds hold too few runs counts as unseen: the range reaches at
 * least as far as where it was left out. */
static void test_scarce_device(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	struct world w;
	lk_runs_fit *fit;
	lk_error err = {0};
	lk_cross_run cross[ROWS], far[ROWS];
	const size_t kept = 6; /* and the next: the one fold of the second GPU that is scored */
	invent(&w, false);
	for (size_t i = 0; i < ROWS; i++) {
		if (i / 6 % 2 == 1 && i / 2 != kept / 2) w.runs.at[i].suspect = "left out";
		w.runs.at[i].measured_s *= i / 6 % 2 == 1 ? 1.3 : 1;
	}
	assert_int_equal(lk_runs_fit_all(&w.arena, &w.runs, NULL, &fit, &err), LK_OK);
	assert_int_equal(lk_runs_folds(&w.runs, LK_RUNS_ARCHITECTURE, w.fold, &w.folds, &err), LK_OK);
	assert_int_equal(
		lk_runs_cross(&w.arena, &w.runs, fit, LK_RUNS_ARCHITECTURE, w.fold, w.folds, far, &err),
		LK_OK);
	assert_int_equal(lk_runs_folds(&w.runs, LK_RUNS_GROUP, w.fold, &w.folds, &err), LK_OK);
	assert_int_equal(
		lk_runs_cross(&w.arena, &w.runs, fit, LK_RUNS_GROUP, w.fold, w.folds, cross, &err), LK_OK);
	for (size_t i = kept; i < kept + 2; i++) {
		assert_true(cross[i].low < cross[i].predicted && cross[i].predicted < cross[i].high);
		assert_true(cross[i].high / cross[i].predicted >=
		            far[i].high / far[i].predicted * (1 - 1e-9));
		assert_true(cross[i].low / cross[i].predicted <=
		            far[i].low / far[i].predicted * (1 + 1e-9));
		assert_true(cross[i].high / cross[i].low > cross[0].high / cross[0].low);
	}
	drop(&w);
}

/* Rows of one publication are one fold: the repository that their source begins with, or the site.
 */
static void test_publications(void **state) {
	(void)state;
	static const struct {
		const char *source;
		int fold;
	} rows[] = {
		{"own/rep/docs/a.md@1a2b one row", 0},
		{"own/rep/b.md@3c", 0},
		{"own/rep", 0},
		{"own/rep2/a.md", 1},
		{"example.org", 2},
		{"example.org page 3", 2},
		{"example.org/tables/x", 3},
		{"", 4},
	};
	enum { COUNT = sizeof rows / sizeof *rows };
	lk_run run[COUNT] = {{0}};
	int fold[COUNT], folds;
	lk_error err = {0};
	for (size_t i = 0; i < COUNT; i++)
		run[i] = (lk_run){.source = rows[i].source, .model = "m", .stack = "s", .gpu = "g"};
	lk_runs runs = {.at = run, .count = COUNT};
	assert_int_equal(lk_runs_folds(&runs, LK_RUNS_SOURCE, fold, &folds, &err), LK_OK);
	assert_int_equal(folds, 5);
	for (size_t i = 0; i < COUNT; i++) assert_int_equal(fold[i], rows[i].fold);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scaling),      cmocka_unit_test(test_folds),
		cmocka_unit_test(test_found),        cmocka_unit_test(test_even_ranges),
		cmocka_unit_test(test_unseen),       cmocka_unit_test(test_alone),
		cmocka_unit_test(test_series),       cmocka_unit_test(test_scarce_device),
		cmocka_unit_test(test_publications),
	};
	return cmocka_run_group_tests_name("baselines", tests, NULL, NULL);
}
