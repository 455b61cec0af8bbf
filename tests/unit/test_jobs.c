/* test_jobs.c: dividing a cluster: the dynamic program against exhaustive search, simulated
 * clusters against known courses, lists that read back as written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/stats.h"
#include "jobs/jobs.h"
#include "scratch.h"

enum {
	MOST_JOBS = 4,
	MOST_OPTIONS = 9
};

/* ---- the dynamic program ---- */

static double exhaustive(const lk_allocation_job *jobs, int count, int gpus) {
	if (!count) return 0;
	double best = -INFINITY;
	for (int o = 0; o < jobs->count; o++) {
		if (jobs->options[o].gpus > gpus) continue;
		best = fmax(best, jobs->options[o].value +
		                      exhaustive(jobs + 1, count - 1, gpus - jobs->options[o].gpus));
	}
	return best;
}

static void is_as_good_as_exhaustive_search(void **state) {
	(void)state;
	lk_allocator allocator = {0};
	lk_error err;
	uint64_t draw = 0;
	for (int n = 0; n < 3000; n++) {
		lk_allocation_option options[MOST_JOBS][MOST_OPTIONS];
		lk_allocation_job jobs[MOST_JOBS];
		int count = 1 + (int)(lk_uniform(1, draw++) * MOST_JOBS),
			gpus = 1 + (int)(lk_uniform(1, draw++) * 16), choice[MOST_JOBS];
		bool possible;
		for (int j = 0; j < count; j++) {
			jobs[j] =
				(lk_allocation_job){options[j], 1 + (int)(lk_uniform(1, draw++) * MOST_OPTIONS)};
			for (int o = 0; o < jobs[j].count; o++) {
				options[j][o].gpus = (int)(lk_uniform(1, draw++) * 9);
				options[j][o].value = lk_normal(2, draw++);
			}
		}
		double best = exhaustive(jobs, count, gpus);
		assert_int_equal(lk_allocate(&allocator, jobs, count, gpus, choice, &possible, &err),
		                 LK_OK);
		assert_int_equal(possible, best > -INFINITY);
		if (!possible) continue;
		double sum = 0;
		int used = 0;
		for (int j = 0; j < count; j++) {
			sum += options[j][choice[j]].value;
			used += options[j][choice[j]].gpus;
		}
		assert_true(used <= gpus);
		assert_true(fabs(sum - best) < 1e-9);
	}
	lk_allocator_free(&allocator);
}

/* ---- whole courses ---- */

enum {
	SMALL_JOBS = 3,
	SMALL_GPUS = 6
};

struct small {
	int gpus;
	double work[SMALL_JOBS];
	lk_jobs_rate rates[SMALL_JOBS][SMALL_GPUS];
	lk_listed_job jobs[SMALL_JOBS];
	lk_job_list list;
};

/* Jobs that all arrive at once, each scaling with losses of its own. */
static void draw_small(struct small *small, uint64_t seed) {
	*small = (struct small){.gpus = 3 + (int)(lk_uniform(seed, 0) * 4)};
	for (int j = 0; j < SMALL_JOBS; j++) {
		double loss = 0.15 * lk_uniform(seed, 10 + (uint64_t)j);
		small->work[j] = exp(1.2 * lk_normal(seed, 20 + (uint64_t)j));
		for (int k = 1; k <= small->gpus; k++)
			small->rates[j][k - 1] = (lk_jobs_rate){k, 1, k / (1 + loss * (k - 1))};
		small->jobs[j] = (lk_listed_job){.job = {.name = "j",
		                                         .gpus = 1,
		                                         .batch = 1,
		                                         .samples = small->work[j],
		                                         .asked_per_s = small->rates[j][0].per_s,
		                                         .rates = small->rates[j],
		                                         .rate_count = small->gpus},
		                                 .where = "here",
		                                 .fixed = small->rates[j],
		                                 .fixed_count = small->gpus};
	}
	small->list.at = small->jobs;
	small->list.count = SMALL_JOBS;
}

/* The least sum of completion times over all ways to divide the GPUs at every end. */
static double best_sum(const struct small *small, const double *left) {
	int active = 0, give[SMALL_JOBS];
	double best = INFINITY;
	for (int j = 0; j < SMALL_JOBS; j++) active += left[j] > 0;
	if (!active) return 0;
	for (give[0] = 0; give[0] <= small->gpus; give[0]++) {
		for (give[1] = 0; give[0] + give[1] <= small->gpus; give[1]++) {
			give[2] = small->gpus - give[0] - give[1];
			double next = INFINITY, after[SMALL_JOBS];
			bool wasted = false;
			for (int j = 0; j < SMALL_JOBS; j++) {
				if (give[j] && !(left[j] > 0)) wasted = true;
				else if (give[j]) next = fmin(next, left[j] / small->rates[j][give[j] - 1].per_s);
			}
			if (wasted) continue;
			for (int j = 0; j < SMALL_JOBS; j++) {
				after[j] = give[j] ? left[j] - next * small->rates[j][give[j] - 1].per_s : left[j];
				if (after[j] < 1e-9 * small->work[j]) after[j] = 0;
			}
			best = fmin(best, active * next + best_sum(small, after));
		}
	}
	return best;
}

static const lk_policy *policy(const char *name) {
	for (int i = 0; i < lk_policy_count; i++)
		if (strcmp(lk_policies[i].name, name) == 0) return &lk_policies[i];
	return NULL;
}

static double sum_under(const struct small *small, const char *name, int objective) {
	lk_jobs_request request;
	lk_jobs_course courses[SMALL_JOBS];
	lk_error err;
	double sum = 0;
	lk_jobs_defaults(&request);
	request.gpus = small->gpus;
	request.objective = objective;
	request.restart_s = 0;
	assert_int_equal(lk_jobs_simulate(&request, &small->list, policy(name), courses, &err), LK_OK);
	for (int j = 0; j < SMALL_JOBS; j++) sum += courses[j].end_s;
	return sum;
}

/* With remaining times known, the mean completion time is near the best that any division at ends
 * can reach. */
static void completes_nearly_as_soon_as_possible(void **state) {
	(void)state;
	enum {
		CASES = 200
	};
	double excess = 0, fair = 0;
	for (uint64_t seed = 1; seed <= CASES; seed++) {
		struct small s;
		draw_small(&s, seed);
		double best = best_sum(&s, s.work), ours = sum_under(&s, "elastic", LK_JOBS_COMPLETION);
		assert_true(ours >= best * (1 - 1e-9));
		excess += (ours / best - 1) / CASES;
		fair += (sum_under(&s, "elastic", LK_JOBS_LOG) / best - 1) / CASES;
	}
	print_message(
		"mean completion time %.2f %% above the best; %.2f %% by logarithms of speed-ups\n",
		100 * excess, 100 * fair);
	assert_true(excess < 0.05);
}

static void finishes_all_work(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct small s;
		draw_small(&s, seed);
		for (int p = 0; p < lk_policy_count; p++) {
			for (int objective = LK_JOBS_LOG; objective <= LK_JOBS_COMPLETION; objective++) {
				double least = 0;
				for (int j = 0; j < SMALL_JOBS; j++)
					least += s.work[j] / s.rates[j][s.gpus - 1].per_s;
				assert_true(sum_under(&s, lk_policies[p].name, objective) >= least * (1 - 1e-9));
			}
		}
	}
}

/* Two jobs of 2 GPUs and one of 1 on 3 GPUs: who starts when can be told by hand. */
static void fixed_policies_as_by_hand(void **state) {
	(void)state;
	static const lk_jobs_rate two[] = {{2, 1, 1}}, one[] = {{1, 1, 1}};
	lk_listed_job jobs[] = {
		{.job = {.name = "a",
	             .gpus = 2,
	             .batch = 1,
	             .samples = 10,
	             .asked_per_s = 1,
	             .rates = two,
	             .rate_count = 1},
	     .fixed = two,
	     .fixed_count = 1},
		{.job = {.name = "b",
	             .submit_s = 1,
	             .gpus = 2,
	             .batch = 1,
	             .samples = 5,
	             .asked_per_s = 1,
	             .rates = two,
	             .rate_count = 1},
	     .fixed = two,
	     .fixed_count = 1},
		{.job = {.name = "c",
	             .submit_s = 2,
	             .gpus = 1,
	             .batch = 1,
	             .samples = 4,
	             .asked_per_s = 1,
	             .rates = one,
	             .rate_count = 1},
	     .fixed = one,
	     .fixed_count = 1},
	};
	lk_job_list list = {jobs, 3, 3};
	lk_jobs_request request;
	lk_jobs_course c[3];
	lk_error err;
	lk_jobs_defaults(&request);
	request.gpus = 3;
	assert_int_equal(lk_jobs_simulate(&request, &list, policy("fifo"), c, &err), LK_OK);
	assert_true(c[0].end_s == 10 && c[1].start_s == 10 && c[2].start_s == 10 && c[1].end_s == 15);
	assert_int_equal(lk_jobs_simulate(&request, &list, policy("backfill"), c, &err), LK_OK);
	assert_true(c[2].start_s == 2 && c[2].end_s == 6 && c[1].start_s == 10);
	assert_true(c[0].gpu_s == 20 && c[2].gpu_s == 4);
}

/* One job whose GPUs double when the other ends: it pays for the restart, once. */
static void a_change_costs_a_restart(void **state) {
	(void)state;
	static const lk_jobs_rate rates[] = {{1, 1, 1}, {2, 1, 2}};
	lk_listed_job jobs[] = {
		{.job = {.name = "a",
	             .gpus = 1,
	             .batch = 1,
	             .samples = 1000,
	             .asked_per_s = 1,
	             .rates = rates,
	             .rate_count = 2},
	     .fixed = rates,
	     .fixed_count = 2},
		{.job = {.name = "b",
	             .gpus = 1,
	             .batch = 1,
	             .samples = 100,
	             .asked_per_s = 1,
	             .rates = rates,
	             .rate_count = 2},
	     .fixed = rates,
	     .fixed_count = 2},
	};
	lk_job_list list = {jobs, 2, 2};
	lk_jobs_request request;
	lk_jobs_course c[2];
	lk_error err;
	lk_jobs_defaults(&request);
	request.gpus = 2;
	request.restart_s = 30;
	assert_int_equal(lk_jobs_simulate(&request, &list, policy("elastic"), c, &err), LK_OK);
	assert_int_equal(c[0].restarts, 1);
	assert_true(fabs(c[1].end_s - 100) < 1e-9);
	assert_true(fabs(c[0].end_s - (100 + 30 + 450)) < 1e-9);
	/* A restart that never pays is not made. */
	request.restart_s = 2000;
	assert_int_equal(lk_jobs_simulate(&request, &list, policy("elastic"), c, &err), LK_OK);
	assert_int_equal(c[0].restarts, 0);
	assert_true(fabs(c[0].end_s - 1000) < 1e-9);
}

/* ---- lists ---- */

static void drawn_lists_read_back(void **state) {
	(void)state;
	char path[64];
	new_file(path, ".csv");
	lk_jobs_request request;
	lk_jobs_answer *drawn, *read;
	lk_error err;
	lk_jobs_defaults(&request);
	request.draw = 60;
	request.gpus = 16;
	request.gpu = "a100-sxm-80";
	request.write = path;
	assert_int_equal(lk_jobs(&request, &drawn, &err), LK_OK);
	request.draw = 0;
	request.jobs = path;
	request.write = NULL;
	assert_int_equal(lk_jobs(&request, &read, &err), LK_OK);
	assert_int_equal(drawn->count, read->count);
	for (int p = 0; p < drawn->policy_count; p++)
		assert_true(fabs(drawn->policies[p].mean_s / read->policies[p].mean_s - 1) < 1e-9);
	lk_jobs_free(drawn);
	lk_jobs_free(read);
	unlink(path);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_as_good_as_exhaustive_search),
		cmocka_unit_test(completes_nearly_as_soon_as_possible),
		cmocka_unit_test(finishes_all_work),
		cmocka_unit_test(fixed_policies_as_by_hand),
		cmocka_unit_test(a_change_costs_a_restart),
		cmocka_unit_test(drawn_lists_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
