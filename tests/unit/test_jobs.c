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
#include "base/arena.h"
#include "jobs/jobs_trace.h"
#include "rounds.h"
#include "scratch.h"

/* All GPUs of a cluster as one node. */
#define one_node(gpus) ((lk_places){(int[]){gpus}, 1})

enum { MOST_JOBS = 4, MOST_OPTIONS = 9 };

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

enum { SMALL_JOBS = 3, SMALL_GPUS = 6 };

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
	assert_int_equal(lk_jobs_simulate(&request, &one_node(small->gpus), &small->list, policy(name),
	                                  NULL, courses, NULL, &err),
	                 LK_OK);
	for (int j = 0; j < SMALL_JOBS; j++) sum += courses[j].end_s;
	return sum;
}

/* With remaining times known, the mean completion time is near the best that any division at ends
 * can reach. */
static void completes_nearly_as_soon_as_possible(void **state) {
	(void)state;
	enum { CASES = 200 };
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
	assert_int_equal(lk_jobs_simulate(&request, &one_node(request.gpus), &list, policy("fifo"),
	                                  NULL, c, NULL, &err),
	                 LK_OK);
	assert_true(c[0].end_s == 10 && c[1].start_s == 10 && c[2].start_s == 10 && c[1].end_s == 15);
	assert_int_equal(lk_jobs_simulate(&request, &one_node(request.gpus), &list, policy("backfill"),
	                                  NULL, c, NULL, &err),
	                 LK_OK);
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
	assert_int_equal(lk_jobs_simulate(&request, &one_node(request.gpus), &list, policy("elastic"),
	                                  NULL, c, NULL, &err),
	                 LK_OK);
	assert_int_equal(c[0].restarts, 1);
	assert_true(fabs(c[1].end_s - 100) < 1e-9);
	assert_true(fabs(c[0].end_s - (100 + 30 + 450)) < 1e-9);
	/* A restart that never pays is not made. */
	request.restart_s = 2000;
	assert_int_equal(lk_jobs_simulate(&request, &one_node(request.gpus), &list, policy("elastic"),
	                                  NULL, c, NULL, &err),
	                 LK_OK);
	assert_int_equal(c[0].restarts, 0);
	assert_true(fabs(c[0].end_s - 1000) < 1e-9);
}

/* ---- queues on nodes, against a plain executor ---- */

enum { QUEUE_JOBS = 40, QUEUE_NODES = 4 };

/* Jobs of known durations; the list owns nothing. */
struct timed {
	lk_listed_job jobs[QUEUE_JOBS];
	lk_jobs_rate rates[QUEUE_JOBS];
	lk_job_list list;
};

static void timed_job(struct timed *timed, double submit_s, double duration_s, int gpus,
                      const char *user, const char *name) {
	size_t at = timed->list.count++;
	timed->list.at = timed->jobs;
	timed->rates[at] = (lk_jobs_rate){gpus, 0, 1};
	timed->jobs[at] = (lk_listed_job){.job = {.name = name,
	                                          .user = user,
	                                          .gpus = gpus,
	                                          .submit_s = submit_s,
	                                          .samples = duration_s,
	                                          .asked_per_s = 1,
	                                          .rates = &timed->rates[at],
	                                          .rate_count = 1},
	                                  .where = name,
	                                  .fixed = &timed->rates[at],
	                                  .fixed_count = 1};
}

/* What a policy that knows durations orders by. */
static double plain_key(const lk_listed_job *job, int i, const char *name) {
	return strcmp(name, "shortest") == 0 ? job->job.gpus * job->job.samples : i;
}

/* Every second, in whole seconds: ends, then starts of the first of those that wait, by key. Nodes
 * are not looked at: all GPUs are one. */
static void plain_run(const lk_job_list *list, int gpus, const char *name, double *start_s) {
	bool passes = strcmp(name, "backfill") == 0;
	int started = 0, count = (int)list->count;
	for (int i = 0; i < count; i++) start_s[i] = -1;
	for (int now = 0; started < count; now++) {
		int left = gpus;
		bool tried[QUEUE_JOBS] = {false};
		for (int i = 0; i < count; i++)
			if (start_s[i] >= 0 && start_s[i] + list->at[i].job.samples > now)
				left -= list->at[i].job.gpus;
		for (;;) {
			int first = -1;
			for (int i = 0; i < count; i++) {
				if (start_s[i] >= 0 || tried[i] || list->at[i].job.submit_s > now) continue;
				if (first < 0 ||
				    plain_key(&list->at[i], i, name) < plain_key(&list->at[first], first, name))
					first = i;
			}
			if (first < 0) break;
			tried[first] = true;
			if (list->at[first].job.gpus <= left) {
				start_s[first] = now;
				left -= list->at[first].job.gpus;
				started++;
			} else if (!passes) break;
		}
	}
}

static void queues_are_as_a_plain_executor_runs_them(void **state) {
	(void)state;
	static const char *const names[] = {"fifo", "backfill", "shortest"};
	for (int n = 0; n < rounds(200, 5000); n++) {
		static struct timed timed;
		uint64_t seed = 100 + (uint64_t)n;
		double submit_s = 0, starts[QUEUE_JOBS];
		int gpus = 4 + (int)(lk_uniform(seed, 0) * 13);
		lk_jobs_course courses[QUEUE_JOBS];
		lk_error err;
		timed.list = (lk_job_list){0};
		for (uint64_t j = 0; j < QUEUE_JOBS; j++) {
			submit_s += floor(6 * lk_uniform(seed, 10 + j));
			timed_job(&timed, submit_s, 1 + floor(20 * lk_uniform(seed, 100 + j)),
			          1 + (int)(4 * lk_uniform(seed, 200 + j)), "u", "j");
		}
		for (int p = 0; p < 3; p++) {
			assert_int_equal(
				lk_jobs_queue(&one_node(gpus), &timed.list, policy(names[p]), NULL, courses, &err),
				LK_OK);
			plain_run(&timed.list, gpus, names[p], starts);
			for (int j = 0; j < QUEUE_JOBS; j++) assert_true(courses[j].start_s == starts[j]);
		}
	}
}

/* No node ever has more than its GPUs; jobs of a node are on one, larger ones on empty nodes; what
 * is given back can be had again. */
static void nodes_are_never_overfull(void **state) {
	(void)state;
	for (int n = 0; n < rounds(300, 5000); n++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_nodes nodes;
		lk_error err;
		uint64_t seed = 7000 + (uint64_t)n;
		int held[30], count = 0, all = QUEUE_NODES * 8;
		assert_int_equal(lk_nodes_make((int[]){8, 8, 8, 8}, QUEUE_NODES, &arena, &nodes, &err),
		                 LK_OK);
		for (uint64_t i = 0; i < 60; i++) {
			int gpus = 1 + (int)(16 * lk_uniform(seed, i)), holding, free = 0, empty = 0;
			bool room = false;
			if (count && (lk_uniform(seed, 100 + i) < 0.4 || count == 30)) {
				int give = (int)(lk_uniform(seed, 200 + i) * count);
				lk_nodes_release(&nodes, held[give]);
				held[give] = held[--count];
				continue;
			}
			for (int k = 0; k < QUEUE_NODES; k++) {
				free += nodes.at[k].free;
				empty += nodes.at[k].free == 8;
				room |= nodes.at[k].free >= gpus;
			}
			assert_int_equal(free, nodes.free);
			assert_int_equal(nodes.used, QUEUE_NODES - empty);
			assert_int_equal(lk_nodes_place(&nodes, gpus, &holding, &err), LK_OK);
			if (gpus <= 8) assert_int_equal(holding >= 0, room);
			if (gpus == 16) assert_int_equal(holding >= 0, empty >= 2);
			int got = 0;
			for (int h = holding; h >= 0; h = nodes.holdings.at[h].next)
				got += nodes.holdings.at[h].gpus;
			assert_int_equal(got, holding >= 0 ? gpus : 0);
			if (gpus <= 8 && holding >= 0) assert_int_equal(nodes.holdings.at[holding].next, -1);
			if (holding >= 0) held[count++] = holding;
			for (int k = 0; k < QUEUE_NODES; k++) assert_true(nodes.at[k].free >= 0);
		}
		while (count) lk_nodes_release(&nodes, held[--count]);
		assert_int_equal(nodes.free, all);
		lk_nodes_free(&nodes);
		lk_arena_free(&arena);
	}
}

/* Two jobs of one GPU beside one another fill a node before the next is begun. */
static void small_jobs_go_to_the_fullest_node(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_nodes nodes;
	lk_error err;
	int a, b, c;
	assert_int_equal(lk_nodes_make((int[]){2, 2}, 2, &arena, &nodes, &err), LK_OK);
	assert_int_equal(lk_nodes_place(&nodes, 1, &a, &err), LK_OK);
	assert_int_equal(lk_nodes_place(&nodes, 1, &b, &err), LK_OK);
	assert_int_equal(nodes.used, 1);
	assert_int_equal(lk_nodes_place(&nodes, 3, &c, &err), LK_OK);
	assert_int_equal(c, -1);
	lk_nodes_free(&nodes);
	lk_arena_free(&arena);
}

/* ---- what is expected of a job ---- */

static void expects_what_such_jobs_took(void **state) {
	(void)state;
	static struct timed timed;
	lk_arena arena = LK_ARENA_INIT;
	lk_history *history;
	lk_error err;
	timed.list = (lk_job_list){0};
	timed_job(&timed, 0, 100, 1, "ann", "train_v1");
	timed_job(&timed, 1, 900, 1, "ann", "train_v1");
	timed_job(&timed, 2, 1, 1, "ann", "train_v1");
	timed_job(&timed, 3, 1, 1, "ann", "train_v2");
	timed_job(&timed, 4, 1, 1, "bob", "other");
	timed_job(&timed, 5, 1, 2, "ann", "train_v1");
	assert_int_equal(lk_history_new(&timed.list, &arena, &history, &err), LK_OK);
	/* Nobody has ended: only that it is short is known, and the same of all. */
	assert_true(lk_history_expect(history, 2) == lk_history_expect(history, 4));
	lk_history_learn(history, 0, 100);
	lk_history_learn(history, 1, 900);
	/* P_R is the mean, 500; P_M the mean logarithm: every level has both jobs, so that shrinking
	 * leaves (ln 100 + ln 900) / 2 as it is: 300. */
	assert_true(fabs(lk_history_expect(history, 2) - (0.1 * 500 + 0.9 * 300)) < 1e-9);
	/* A name with another number is of the same group for P_R; P_M falls back on the user. */
	assert_true(fabs(lk_history_expect(history, 3) - 320) < 1e-9);
	/* A stranger is expected to be like all. */
	assert_true(fabs(lk_history_expect(history, 4) - 320) < 1e-9);
	/* Other GPUs of the same name, where none of these have ended: that name. */
	assert_true(fabs(lk_history_expect(history, 5) - 320) < 1e-9);
	/* Of (1 + 2 parents) / 3: bob's one job of 30 s. */
	lk_history_learn(history, 4, 30);
	double all = (log(100) + log(900) + log(30)) / 3, gpus = (3 * all + 2 * all) / 5,
		   bob = (log(30) + 2 * gpus) / 3, name = (log(30) + 2 * bob) / 3;
	assert_true(fabs(lk_history_expect(history, 4) - (0.1 * 30 + 0.9 * exp(name))) < 1e-9);
	lk_arena_free(&arena);
}

/* A job counts from its end on: while the first of a kind runs, the second is like any other. */
static void history_does_not_look_ahead(void **state) {
	(void)state;
	static struct timed timed;
	lk_jobs_course known[4], unknown[4];
	lk_error err;
	for (int long_one = 0; long_one < 2; long_one++) {
		timed.list = (lk_job_list){0};
		timed_job(&timed, 0, 100, 1, "a", "x");
		timed_job(&timed, 1, long_one ? 5000 : 5, 1, "b", "y");
		timed_job(&timed, 2, 10, 1, "c", "z");
		timed_job(&timed, 3, 7, 1, "b", "y");
		assert_int_equal(lk_jobs_queue(&one_node(1), &timed.list, policy("qssf"), NULL,
		                               long_one ? known : unknown, &err),
		                 LK_OK);
	}
	/* Both lists look alike to the scheduler until job 1 ends. */
	for (int j = 0; j < 2; j++) assert_true(known[j].start_s == unknown[j].start_s);
}

/* Rounds of jobs that recur: expectation is nearly as good as knowledge, and much better than
 * order. */
static void expectation_is_nearly_knowledge(void **state) {
	(void)state;
	enum { SEEDS = 20 };
	double over_fifo[SEEDS], over_known[SEEDS];
	int seeds = judged_elsewhere() ? 2 : SEEDS;
	for (int seed = 0; seed < seeds; seed++) {
		lk_jobs_request request;
		lk_arena arena = LK_ARENA_INIT;
		lk_job_list list = {0};
		lk_error err;
		static const char *const names[] = {"fifo", "shortest", "qssf"};
		double mean_s[3] = {0};
		lk_jobs_defaults(&request);
		request.draw = 15000;
		request.users = 60;
		request.gpus = 64;
		request.seed = seed + 1;
		assert_int_equal(lk_jobs_draw(&request, &arena, &list, &err), LK_OK);
		lk_jobs_course *courses = LK_ARRAY(&arena, lk_jobs_course, list.count);
		for (size_t i = 0; i < list.count; i++) {
			list.at[i].job.asked_per_s = 1;
			list.at[i].job.samples = list.at[i].duration_s;
		}
		for (int p = 0; p < 3; p++) {
			assert_int_equal(
				lk_jobs_queue(&one_node(64), &list, policy(names[p]), NULL, courses, &err), LK_OK);
			for (size_t i = 0; i < list.count; i++)
				mean_s[p] += courses[i].end_s - list.at[i].job.submit_s;
		}
		over_fifo[seed] = mean_s[0] / mean_s[2];
		over_known[seed] = mean_s[2] / mean_s[1];
		lk_vec_free(&list);
		lk_arena_free(&arena);
	}
	double fifo = lk_median(over_fifo, (size_t)seeds), known = lk_median(over_known, (size_t)seeds);
	print_message(
		"mean completion time, medians of %d seeds: fifo / qssf %.2f, qssf / shortest %.3f\n",
		seeds, fifo, known);
	assert_true(fifo >= 3);
	assert_true(known <= 1.2);
}

/* ---- nodes that are off ---- */

/* A job of a node every 12 hours on two nodes, each an hour long: by hand, with no buffer. */
static void off_nodes_are_counted_as_by_hand(void **state) {
	(void)state;
	static struct timed timed;
	lk_jobs_course courses[3];
	lk_error err;
	timed.list = (lk_job_list){0};
	for (int j = 0; j < 3; j++) timed_job(&timed, 43200 * j, 3600, 8, "u", "j");
	lk_places places = {(int[]){8, 8}, 2};
	lk_power power = {.buffer = 0, .boot_s = 300, .until_s = 86400};
	assert_int_equal(lk_jobs_queue(&places, &timed.list, policy("fifo"), &power, courses, &err),
	                 LK_OK);
	/* Each job but the first waits for a node to start. */
	assert_true(courses[0].start_s == 0 && courses[1].start_s == 43200 + 300);
	assert_int_equal(power.wakeups, 2);
	assert_int_equal(power.woken, 2);
	/* At 600 s one of two goes. The job ends at 3600; the slot that ends then had it in use, and
	 * the hour's mean falls to nothing at 7200, when the other goes. From 43200 one starts and runs
	 * to 46800 + 300; its slot ends at 47400, the hour's mean is 0 after six more, and two hours
	 * after the start are over: off at 50400 + 600. */
	double first = 2 * 600 + (7200 - 600.0), second = 51000 - 43200.0;
	print_message("node seconds %.0f (by hand %.0f)\n", power.node_s, first + second);
	assert_true(fabs(power.node_s - (first + second)) < 1e-6);
	lk_power_free(&power);
}

/* With all nodes as buffer nothing is ever off: the same courses as without, all node time. */
static void a_full_buffer_saves_nothing(void **state) {
	(void)state;
	for (int n = 0; n < rounds(50, 1000); n++) {
		static struct timed timed;
		uint64_t seed = 900 + (uint64_t)n;
		double submit_s = 0;
		lk_jobs_course off[QUEUE_JOBS], on[QUEUE_JOBS];
		lk_error err;
		timed.list = (lk_job_list){0};
		for (uint64_t j = 0; j < QUEUE_JOBS; j++) {
			submit_s += 4000 * lk_uniform(seed, 10 + j);
			timed_job(&timed, submit_s, 20000 * lk_uniform(seed, 100 + j),
			          1 + (int)(12 * lk_uniform(seed, 200 + j)), "u", "j");
		}
		lk_places places = {(int[]){8, 8, 8, 8}, QUEUE_NODES};
		for (int buffer = 0; buffer <= QUEUE_NODES; buffer += QUEUE_NODES) {
			lk_power power = {.buffer = buffer, .boot_s = 300, .until_s = submit_s};
			assert_int_equal(lk_jobs_queue(&places, &timed.list, policy("fifo"), &power, off, &err),
			                 LK_OK);
			assert_int_equal(lk_jobs_queue(&places, &timed.list, policy("fifo"), NULL, on, &err),
			                 LK_OK);
			double all = QUEUE_NODES * (submit_s - timed.jobs[0].job.submit_s);
			assert_true(power.node_s <= all * (1 + 1e-12));
			if (buffer) assert_true(fabs(power.node_s / all - 1) < 1e-12);
			for (int j = 0; buffer && j < QUEUE_JOBS; j++)
				assert_true(off[j].start_s == on[j].start_s);
			lk_power_free(&power);
		}
	}
}

/* ---- logs of clusters ---- */

static void times_of_logs(void **state) {
	(void)state;
	assert_true(lk_trace_time("1970-01-01 00:00:00") == 0);
	assert_true(lk_trace_time("2000-02-29T12:30:45") == 951827445);
	assert_true(lk_trace_time("2020-04-01 00:00:43+08:00") == 1585670443);
	assert_true(isnan(lk_trace_time("None")) && isnan(lk_trace_time("Unknown")) &&
	            isnan(lk_trace_time("")) && isnan(lk_trace_time("2020-13-01 00:00:00")));
}

static void read_log(const char *text, const char *name, lk_arena *arena, lk_job_list *list,
                     lk_jobs_left *left) {
	lk_stream *in;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(text, strlen(text), name, &in, &err), LK_OK);
	lk_status status = lk_jobs_read(in, 64, arena, list, left, &err);
	if (status != LK_OK) print_message("%s: %s\n", err.where, err.what);
	assert_int_equal(status, LK_OK);
	lk_stream_close(in);
}

static void assert_job(const lk_listed_job *job, const char *name, const char *user,
                       const char *group, double submit_s, double duration_s, int gpus) {
	assert_string_equal(job->job.name, name);
	assert_string_equal(job->job.user, user);
	assert_string_equal(job->job.group, group);
	assert_true(job->job.submit_s == submit_s && job->duration_s == duration_s);
	assert_int_equal(job->job.gpus, gpus);
}

static void logs_are_read(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_job_list helios = {0}, sacct = {0}, headless = {0}, philly = {0}, pods = {0};
	lk_jobs_left left = {0};
	read_log("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
	         "duration,queue\n"
	         "9,u2,vcA,8,64,1,FAILED,2020-04-01 00:01:00,2020-04-01 00:02:00,2020-04-01 "
	         "00:03:00,60,60\n"
	         "8,u1,vcA,0,4,1,COMPLETED,2020-04-01 00:00:30,2020-04-01 00:00:30,2020-04-01 "
	         "00:00:31,1,0\n"
	         "7,u1,vcB,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 "
	         "01:00:10,3600,10\n"
	         "6,u1,vcB,2,8,1,CANCELLED,2020-04-01 00:00:00,,2020-04-01 01:00:10,0,10\n"
	         "5,u1,vcB,,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 "
	         "01:00:10,3600,10\n"
	         "4,u1,vcB,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 "
	         "01:00:10,1e999,10\n",
	         "helios", &arena, &helios, &left);
	assert_int_equal(helios.count, 2);
	assert_int_equal(left.no_gpu, 2);
	assert_int_equal(left.unfinished, 2);
	assert_job(&helios.at[0], "7", "u1", "vcB-2gpu-8cpu", 0, 3600, 2);
	assert_job(&helios.at[1], "9", "u2", "vcA-8gpu-64cpu", 60, 60, 8);
	read_log("JobID|JobName|User|Partition|Submit|Start|End|State|AllocTRES|ReqTRES\n"
	         "12_3|train|ann|gpu|2023-01-01T00:00:05|2023-01-01T00:00:10|2023-01-01T00:10:10|"
	         "COMPLETED|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|\n"
	         "12_3.batch|batch||gpu|2023-01-01T00:00:05|2023-01-01T00:00:10|2023-01-01T00:10:10|"
	         "COMPLETED|cpu=8,gres/gpu=4|\n"
	         "13|wait|bob|gpu|2023-01-01T00:00:00|Unknown|Unknown|PENDING||gres/gpu=1\n"
	         "14|sum|bob|gpu|2023-01-01T00:01:05|2023-01-01T00:02:05|2023-01-01T00:02:35|"
	         "CANCELLED by 1000|cpu=1,gres/gpu:v100=1,gres/gpu:a100=2|\n",
	         "sacct", &arena, &sacct, &left);
	assert_int_equal(sacct.count, 2);
	assert_int_equal(left.unfinished, 3);
	assert_job(&sacct.at[0], "12_3", "ann", "train", 0, 600, 4);
	assert_job(&sacct.at[1], "14", "bob", "sum", 60, 30, 3);
	read_log("12+0|train|ann|gpu|2023-01-01T00:00:05|2023-01-01T00:00:10|2023-01-01T00:10:10|600|"
	         "TIMEOUT|gres/gpu=4|gres/gpu=4|1\n"
	         "13|wait|bob|gpu|2023-01-01T00:00:00|None|2023-01-01T00:02:35|0|CANCELLED by "
	         "1000||gres/gpu=1|1\n",
	         "sacct -n", &arena, &headless, &left);
	assert_int_equal(headless.count, 1);
	assert_int_equal(left.unfinished, 4);
	assert_job(&headless.at[0], "12+0", "ann", "train", 0, 600, 4);
	read_log(
		"[{\"status\": \"Pass\", \"vc\": \"6214e9\", \"jobid\": \"application_1\", \"user\": "
		"\"ee9e8c\", \"submitted_time\": \"2017-10-09 07:02:05\", \"attempts\": [{\"start_time\": "
		"\"2017-10-09 07:02:10\", \"end_time\": \"2017-10-09 07:03:10\", \"detail\": [{\"ip\": "
		"\"m1\", \"gpus\": [\"gpu0\", \"gpu1\"]}, {\"ip\": \"m2\", \"gpus\": [\"gpu0\"]}]}, "
		"{\"start_time\": \"2017-10-09 07:05:00\", \"end_time\": \"2017-10-09 07:05:30\", "
		"\"detail\": []}]}, {\"jobid\": \"application_2\", \"submitted_time\": \"None\", "
		"\"attempts\": []}]",
		"philly", &arena, &philly, &left);
	assert_int_equal(philly.count, 1);
	assert_int_equal(left.unfinished, 5);
	assert_int_equal(left.no_gpu, 2);
	assert_job(&philly.at[0], "application_1", "ee9e8c", "6214e9", 0, 90, 3);
	read_log("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
	         "deletion_time,scheduled_time\n"
	         "p1,1,1,1,460,,LS,Running,100,400,150\np2,1,1,8,1000,,BE,Pending,120,500,\n",
	         "pods", &arena, &pods, &left);
	assert_int_equal(pods.count, 1);
	assert_int_equal(left.shared, 1);
	assert_job(&pods.at[0], "p1", "", "LS-1-460", 0, 250, 1);
	lk_vec_free(&helios);
	lk_vec_free(&sacct);
	lk_vec_free(&headless);
	lk_vec_free(&philly);
	lk_vec_free(&pods);
	lk_arena_free(&arena);
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
	request.draw = rounds(60, 200);
	request.gpus = judged_elsewhere() ? 4 : 16;
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
		cmocka_unit_test(queues_are_as_a_plain_executor_runs_them),
		cmocka_unit_test(nodes_are_never_overfull),
		cmocka_unit_test(small_jobs_go_to_the_fullest_node),
		cmocka_unit_test(expects_what_such_jobs_took),
		cmocka_unit_test(history_does_not_look_ahead),
		cmocka_unit_test(expectation_is_nearly_knowledge),
		cmocka_unit_test(off_nodes_are_counted_as_by_hand),
		cmocka_unit_test(a_full_buffer_saves_nothing),
		cmocka_unit_test(times_of_logs),
		cmocka_unit_test(logs_are_read),
		cmocka_unit_test(drawn_lists_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
