/* spread.c: the spread of a step over seeds of the variation of its GPUs and kernels. Each seed is
 * a separate simulation of the same graph with the same costs, so seeds run concurrently; the first
 * is the already known step. One more, with all ranks equally fast, shows the cost of waiting for
 * slow ones. */
#include "base/check.h"
#include "base/arena.h"
#include "step/step.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "system/parallel.h"
#include "base/stats.h"

/* Values per seed: the step, its parts, the straggler's share. */
enum { SPREAD_STEP = LK_PART_COUNT, SPREAD_STRAGGLER, SPREAD_NUMBERS };

typedef struct lk_spreading {
	const lk_step_options *options;
	const lk_step *step;
	size_t seeds;
	double *number;               /* [SPREAD_NUMBERS * seeds] */
	double even_s;                /* the step with all ranks equally fast */
	lk_search_progress *progress; /* NULL: no progress reports; `asker` is its context */
	void *progress_context;
	pthread_t asker;
	atomic_size_t done;
} lk_spreading;

static void spreading_note(const lk_spreading *spreading, size_t seed, const lk_step *step) {
	for (int p = 0; p < LK_PART_COUNT; p++)
		spreading->number[(size_t)p * spreading->seeds + seed] = step->breakdown.exposed_s[p];
	spreading->number[SPREAD_STEP * spreading->seeds + seed] = step->step_s;
}

/* Task 0 is the step with all ranks equally fast, task i is seed i. Graph and costs belong to the
 * step; what the simulation allocates is freed here. */
static lk_status spreading_run_one(void *context, size_t task, lk_error *err) {
	lk_spreading *spreading = context;
	lk_step_options options = *spreading->options;
	lk_step one = {.graph = spreading->step->graph, .costs = spreading->step->costs};
	options.record_count = 0;
	options.all_ranks = false;
	options.seed += task;
	if (task == 0) {
		options.jitter = options.gpu_spread = 0;
		options.straggler_count = 0;
		options.bare = true; /* only its time */
	}
	lk_status status = lk_step_simulate(&options, &one, err);
	if (status == LK_OK && task == 0) spreading->even_s = one.step_s;
	else if (status == LK_OK) spreading_note(spreading, task, &one);
	one.graph = NULL;
	lk_step_free(&one);
	size_t done = atomic_fetch_add(&spreading->done, 1) + 1;
	if (spreading->progress && pthread_equal(spreading->asker, pthread_self()))
		spreading->progress(spreading->progress_context, 0, (double)done, (double)spreading->seeds);
	return status;
}

/* False when memory runs out, the only cause of a NAN here. */
static bool spreading_quantiles(const lk_spreading *spreading, int number, lk_quantiles *out) {
	const double *of = spreading->number + (size_t)number * spreading->seeds;
	*out = (lk_quantiles){lk_quantile(of, spreading->seeds, 0.50),
	                      lk_quantile(of, spreading->seeds, 0.95),
	                      lk_quantile(of, spreading->seeds, 0.99)};
	return !isnan(out->p50) && !isnan(out->p95) && !isnan(out->p99);
}

static lk_status spreading_fill(const lk_spreading *spreading, lk_step_spread *out, lk_error *err) {
	bool filled = spreading_quantiles(spreading, SPREAD_STEP, &out->step_s) &&
	              spreading_quantiles(spreading, SPREAD_STRAGGLER, &out->straggler_share);
	for (int p = 0; filled && p < LK_PART_COUNT; p++)
		filled = spreading_quantiles(spreading, p, &out->part_s[p]);
	return filled ? LK_OK : lk_oom(err);
}

/* A seed may be no slower than equal ranks: then stragglers cost nothing. */
static void spreading_share(const lk_spreading *spreading) {
	const double *step_s = spreading->number + SPREAD_STEP * spreading->seeds;
	double *share = spreading->number + SPREAD_STRAGGLER * spreading->seeds;
	for (size_t i = 0; i < spreading->seeds; i++)
		share[i] = step_s[i] > 0 ? fmax(0, 1 - spreading->even_s / step_s[i]) : 0;
}

lk_status lk_step_spread_over(const lk_step_options *options, const lk_step *step, int seeds,
                              lk_search_progress *progress, void *context, lk_step_spread *out,
                              lk_error *err) {
	LK_ASSERT(seeds > 0);
	lk_arena arena = LK_ARENA_INIT;
	lk_spreading spreading = {.options = options,
	                          .step = step,
	                          .seeds = (size_t)seeds,
	                          .progress = progress,
	                          .progress_context = context,
	                          .asker = pthread_self()};
	spreading.number = LK_ARRAY(&arena, double, SPREAD_NUMBERS *spreading.seeds);
	lk_status status = spreading.number ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		spreading_note(&spreading, 0, step);
		status = lk_parallel(spreading.seeds, 0, spreading_run_one, &spreading, err);
	}
	if (status == LK_OK) {
		spreading_share(&spreading);
		status = spreading_fill(&spreading, out, err);
	}
	lk_arena_free(&arena);
	return status;
}
