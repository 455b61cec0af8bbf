/* explain_stretches.c: stretches of a log's steps between which their times change, what the slower
 * ones cost, and the noise of the steps.
 *
 * A series is divided where Pettitt's statistic is largest (Applied Statistics 28, 1979): with
 * ranks r of n times, K = max |U_k|, U_k = 2 sum_{i<=k} r_i - k (n + 1); by chance K is reached
 * with probability 2 exp(-6 K^2 / (n^3 + n^2)). Both parts are divided again, and neighbours of
 * nearly one median joined. Ranks make single slow steps harmless. */
#include <math.h>
#include <stdlib.h>

#include "base/sort.h"
#include "base/stats.h"
#include "explain/explain.h"
#include "noise/noise.h"

enum { LEAST_STEPS = 20, DEEPEST = 5 };
static const double CHANCE = 1e-6;
static const double LEAST_CHANGE = 0.01; /* of the median */

/* A time with its place. */
struct ranked_step {
	double seconds;
	size_t place;
};

static int by_seconds(const void *a, const void *b) {
	const struct ranked_step *x = a, *y = b;
	if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Where the times change most; 0: nowhere, by more than chance. */
static lk_status find_change(const double *times, size_t count, size_t *at, lk_error *err) {
	struct ranked_step *steps = malloc(count * sizeof *steps);
	double *rank = malloc(count * sizeof *rank), n = (double)count, sum = 0, most = 0;
	*at = 0;
	if (!steps || !rank) {
		free(steps);
		free(rank);
		return lk_oom(err);
	}
	for (size_t i = 0; i < count; i++) steps[i] = (struct ranked_step){times[i], i};
	lk_sort(steps, count, sizeof *steps, by_seconds);
	for (size_t i = 0, tied; i < count; i += tied) { /* equal times share their mean rank */
		for (tied = 1; i + tied < count && steps[i + tied].seconds == steps[i].seconds;) tied++;
		for (size_t k = 0; k < tied; k++)
			rank[steps[i + k].place] = (double)i + (double)(tied + 1) / 2;
	}
	for (size_t k = 1; k < count; k++) {
		sum += rank[k - 1];
		double reached = fabs(2 * sum - (double)k * (n + 1));
		if (reached > most && k >= LEAST_STEPS && count - k >= LEAST_STEPS) most = reached, *at = k;
	}
	if (2 * exp(-6 * most * most / (n * n * n + n * n)) > CHANCE) *at = 0;
	free(steps);
	free(rank);
	return LK_OK;
}

/* Append the ends of the stretches of [begin, end). */
static lk_status divide_steps(const double *times, size_t begin, size_t end, int depth,
                              size_t *ends, int *count, lk_error *err) {
	size_t at = 0;
	if (depth < DEEPEST && end - begin >= 2 * LEAST_STEPS)
		LK_TRY(find_change(times + begin, end - begin, &at, err));
	if (!at) {
		ends[(*count)++] = end;
		return LK_OK;
	}
	LK_TRY(divide_steps(times, begin, begin + at, depth + 1, ends, count, err));
	return divide_steps(times, begin + at, end, depth + 1, ends, count, err);
}

/* Join neighbours whose medians hardly differ; returns the stretches left. */
static int join_alike(const double *times, size_t *ends, int count) {
	int kept = 0;
	for (int i = 1; i < count; i++) {
		size_t begin = kept ? ends[kept - 1] : 0, middle = ends[kept], end = ends[i];
		double before = lk_median(times + begin, middle - begin),
			   after = lk_median(times + middle, end - middle);
		if (fabs(after / before - 1) >= LEAST_CHANGE) kept++;
		ends[kept] = end;
	}
	return kept + 1;
}

lk_status lk_log_divide(lk_arena *arena, const double *times, const int64_t *numbers, size_t count,
                        const lk_log_stretch **out, int *stretches, lk_error *err) {
	size_t ends[1 << DEEPEST];
	*stretches = 0;
	*out = NULL;
	if (count < 2 * LEAST_STEPS) return LK_OK;
	LK_TRY(divide_steps(times, 0, count, 0, ends, stretches, err));
	*stretches = join_alike(times, ends, *stretches);
	lk_log_stretch *all = LK_ARRAY(arena, lk_log_stretch, *stretches);
	double fastest = INFINITY;
	if (!all) return lk_oom(err);
	for (int i = 0; i < *stretches; i++) {
		size_t begin = i ? ends[i - 1] : 0;
		all[i] = (lk_log_stretch){.first = numbers[begin],
		                          .last = numbers[ends[i] - 1],
		                          .steps = (int)(ends[i] - begin),
		                          .seconds = lk_median(times + begin, ends[i] - begin)};
		fastest = fmin(fastest, all[i].seconds);
	}
	for (int i = 0; i < *stretches; i++) {
		all[i].slower = all[i].seconds / fastest - 1;
		all[i].cost_s = (all[i].seconds - fastest) * all[i].steps;
	}
	*out = all;
	return LK_OK;
}

lk_status lk_run_log_write_noise(const lk_run_log *log, const char *path, lk_error *err) {
	enum { LEAST = 40 };
	size_t count = 0;
	lk_noise noise;
	lk_arena arena = {0};
	for (int i = 0; i < log->step_count; i++) count += !log->steps[i].first;
	if (count < LEAST)
		return lk_fail(err, LK_ERR_INPUT, "--noise",
		               "%zu steps after the first ones say nothing about tails: at least %d", count,
		               LEAST);
	double *times = LK_ARRAY(&arena, double, count);
	char *source = lk_arena_strdup(&arena, log->source);
	lk_status status = times && source ? LK_OK : lk_oom(err);
	for (int i = 0, kept = 0; status == LK_OK && i < log->step_count; i++)
		if (!log->steps[i].first) times[kept++] = log->steps[i].seconds;
	for (char *c = source; c && *c; c++)
		if ((unsigned char)*c < ' ') *c = ' '; /* a comment is one line */
	const lk_noise_series series = {times, count, 1};
	if (status == LK_OK) status = lk_noise_fit(&series, 1, &noise, err);
	if (status == LK_OK) status = lk_noise_write(path, &noise, source, err);
	lk_arena_free(&arena);
	return status;
}
