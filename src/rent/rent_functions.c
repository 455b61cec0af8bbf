/* rent_functions.c: `rent --map`: cross-fitting as calls of functions that a cloud runs on demand
 * (DoubleML-Serverless, arXiv 2101.04025). K folds, M repetitions, L learners are K M L fits: as
 * many calls, or M L calls of K fits each. Memory buys speed: m MiB are m/1769 processors.
 *
 *     call     load + fits x work / min(threads, m/1769)
 *     billed   calls x call + instances x cold, x m/1024 GiB x price; and a price for each call
 *     time     of the N-th end: instance i starts when the ramp lets it, ends calls at
 *              start + cold + k call
 *
 * Prices and limits are those of AWS Lambda as published in 2022: billed by the millisecond, 128 to
 * 10,240 MB, 1,769 MB of one processor, 15 minutes, requests of 6 MB, 1,000 instances at a time
 * unless raised. Not checked: 1,000 more every 10 s. */
#include <math.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"
#include "options/number_words.h"
#include "options/command.h"
#include "rent/rent.h"

/* The words of --map. */
struct map_job {
	double folds, repeats, learners;
	double work_s, load_s, cold_s; /* processor seconds per fit; seconds per call; per instance */
	double threads, memory_mb, payload_mb, concurrency, spread;
};

static const lk_number_word words[] = {
	{"folds", "", offsetof(struct map_job, folds), 2, 1e6, 1, true},
	{"repeats", "", offsetof(struct map_job, repeats), 1, 1e6, 1, true},
	{"learners", "", offsetof(struct map_job, learners), 1, 1e3, 1, true},
	{"work", "s", offsetof(struct map_job, work_s), 1e-3, 1e6, 1, false},
	{"load", "s", offsetof(struct map_job, load_s), 0, 1e6, 1, false},
	{"cold", "s", offsetof(struct map_job, cold_s), 0, 1e3, 1, false},
	{"threads", "", offsetof(struct map_job, threads), 1, 64, 1, true},
	{"memory", "MB", offsetof(struct map_job, memory_mb), 1, 1e5, 1, false},
	{"payload", "MB", offsetof(struct map_job, payload_mb), 0, 1e6, 1, false},
	{"concurrency", "", offsetof(struct map_job, concurrency), 1, 1e6, 1, true},
	{"spread", "%", offsetof(struct map_job, spread), 0, 100, 0.01, false},
};
static const lk_word_list map_words = {
	"--map", words, sizeof words / sizeof *words,
	"give words as folds=5 repeats=100 learners=2 work=12s load=1s cold=2s threads=1 memory=400MB "
	"payload=1MB concurrency=1000 spread=10%"};

static const struct platform {
	const char *name;
	double gib_s, call; /* dollars */
} platforms[] = {{"aws-lambda", 1.66667e-5, 0.2e-6}, {"aws-lambda-arm", 1.33334e-5, 0.2e-6}};

static const int sizes_mib[] = {128,  256,  512,  1024, 1536, 1769,
                                2048, 3072, 4096, 6144, 8192, 10240};

enum {
	PLATFORMS = sizeof platforms / sizeof *platforms,
	SIZES = sizeof sizes_mib / sizeof *sizes_mib,
	MIB_OF_PROCESSOR = 1769,
	RAMP = 1000,
	RAMP_S = 10,
	MOST_CALL_S = 900,
	MOST_PAYLOAD_MB = 6
};

static lk_status map_refuse(const char *word, const char *what, lk_error *err) {
	return lk_number_words_refuse(&map_words, word, what, err);
}

static lk_status map_read(const lk_rent_request *request, lk_arena *arena, struct map_job *job,
                          lk_error *err) {
	static const char *const used[] = {"map", "deadline", "budget", NULL};
	const char *over;
	lk_rent_request usual;
	lk_rent_defaults(&usual);
	const char *others = lk_command_options(
		arena,
		&(lk_question){.verb = &lk_rent_verb, .request = request, .usual = &usual, .but = used});
	if (!others) return lk_oom(err);
	if (*others) {
		lk_fail(err, LK_ERR_INPUT, "--map", "is of functions, and trains no network:%.200s",
		        others);
		return lk_hint(err, "with it only --deadline and --budget are used");
	}
	*job = (struct map_job){.learners = 1, .threads = 1, .concurrency = RAMP, .cold_s = 1};
	LK_TRY(lk_number_words_read(&map_words, request->map, job, &over, err));
	if (over) return map_refuse("over", "is not understood", err);
	if (job->folds == 0) return map_refuse("folds", "is missing", err);
	if (job->repeats == 0) return map_refuse("repeats", "is missing", err);
	if (job->work_s == 0) return map_refuse("work", "is missing", err);
	if (job->payload_mb <= MOST_PAYLOAD_MB) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--map", "a call takes %d MB at the most, payload is %g MB",
	        MOST_PAYLOAD_MB, job->payload_mb);
	return lk_hint(err, "leave the data in a store that each call reads: load=SECONDS in place of "
	                    "payload");
}

/* Calls that have ended by a time, and the instances that have ended one. */
static double map_ended(double time_s, double call_s, double cold_s, double concurrency,
                        double *instances) {
	double ended = 0, at_s = 0;
	*instances = 0;
	while (*instances < concurrency && at_s + cold_s + call_s <= time_s * (1 + 1e-12)) {
		double group = fmin(RAMP, concurrency - *instances);
		ended += group * floor((time_s - at_s - cold_s) / call_s + 1e-9);
		*instances += group;
		at_s += RAMP_S;
	}
	return ended;
}

double lk_rent_calls_s(double calls, double call_s, double cold_s, double concurrency,
                       double *instances) {
	double low = 0, high = cold_s + calls * call_s; /* one instance would be done by then */
	while (high - low > 1e-12 * high) {
		double middle = low + (high - low) / 2;
		if (map_ended(middle, call_s, cold_s, concurrency, instances) >= calls) high = middle;
		else low = middle;
	}
	map_ended(high, call_s, cold_s, concurrency, instances);
	*instances = fmin(*instances, calls);
	return high;
}

/* Try one size at one level: calls of `fits` fits. False if a call would be aborted, or has too
 * little memory. */
static bool map_try(const struct map_job *job, const struct platform *platform, int mib,
                    double fits, lk_rent_function *out) {
	double processors = fmin(job->threads, (double)mib / MIB_OF_PROCESSOR);
	double call_s = job->load_s + fits * job->work_s / processors;
	double calls = job->folds * job->repeats * job->learners / fits;
	if (call_s + job->cold_s > MOST_CALL_S || mib * 0x1p20 < job->memory_mb * 1e6) return false;
	double seconds = lk_rent_calls_s(calls, call_s, job->cold_s, job->concurrency, &out->instances);
	double in_turn = calls / out->instances;
	out->platform = platform->name;
	out->level = fits > 1 ? "repetition" : "fit";
	out->memory_mib = mib;
	out->calls = calls;
	out->call_s = call_s;
	out->seconds =
		seconds + job->spread * call_s * sqrt(in_turn) * lk_normal_largest(out->instances);
	out->gib_s =
		(calls * ceil(call_s * 1e3 - 1e-6) / 1e3 + out->instances * job->cold_s) * mib / 1024;
	out->cost = out->gib_s * platform->gib_s + calls * platform->call;
	return true;
}

LK_ORDER_BY(by_time, lk_rent_function, seconds, cost)

/* Fastest first: the front are those cheaper than all before. */
static void map_judge(lk_rent_function *functions, int count, lk_rent *out) {
	double least = INFINITY;
	lk_sort(functions, (size_t)count, sizeof *functions, by_time);
	for (int i = 0; i < count; i++) {
		lk_rent_function *function = &functions[i];
		function->pareto = function->cost < least;
		least = fmin(least, function->cost);
		function->in_time = !(out->deadline_h > 0) || function->seconds <= out->deadline_h * 3600;
		function->in_budget = !(out->budget > 0) || function->cost <= out->budget;
		if (!function->in_time || !function->in_budget) continue;
		if (out->fastest < 0) out->fastest = i;
		if (out->cheapest < 0 || function->cost < functions[out->cheapest].cost) out->cheapest = i;
	}
}

lk_status lk_rent_map(const lk_rent_request *request, lk_arena *arena, lk_rent *out,
                      lk_error *err) {
	static const char *const notes[] = {
		"list prices of 2022 in US dollars; the first 400,000 GB-seconds and 1,000,000 calls of a "
		"month are free and counted all the same; Arm processors are taken to be as fast",
		"all calls are made at once; an instance that has started takes calls one after another, "
		"and its start is billed",
	};
	struct map_job job;
	char time[40], cost[48];
	LK_TRY(map_read(request, arena, &job, err));
	lk_rent_function *functions = LK_ARRAY(arena, lk_rent_function, (size_t)2 * PLATFORMS * SIZES);
	if (!functions) return lk_oom(err);
	for (int p = 0; p < PLATFORMS; p++)
		for (int s = 0; s < SIZES; s++)
			for (int level = 0; level < 2; level++)
				out->function_count +=
					map_try(&job, &platforms[p], sizes_mib[s], level ? job.folds : 1,
				            &functions[out->function_count]);
	out->functions = functions;
	out->deadline_h = request->deadline_h;
	out->budget = request->budget;
	out->cheapest = out->fastest = out->most = -1;
	out->samples = NAN;
	out->considered = out->function_count;
	out->search_complete = true;
	out->searched = "every listed size of memory at both levels";
	out->model = lk_arena_printf(arena, "%g folds x %g %s x %g %s", job.folds, job.repeats,
	                             lk_noun(job.repeats, "repetition", "repetitions"), job.learners,
	                             lk_noun(job.learners, "learner", "learners"));
	out->notes = notes;
	out->note_count = sizeof notes / sizeof *notes;
	if (!out->model) return lk_oom(err);
	map_judge(functions, out->function_count, out);
	const char *limit = out->budget > 0 ? "the budget" : "the deadline";
	if (out->budget > 0 && out->deadline_h > 0) limit = "both deadline and budget";
	if (!out->function_count) out->nothing = "no size has the memory and ends a call within 900 s";
	else if (out->cheapest < 0)
		out->nothing =
			lk_arena_printf(arena, "no size of memory meets %s: the fastest takes %s for %s", limit,
		                    lk_format_seconds(functions[0].seconds, time, sizeof time),
		                    lk_format_dollars(functions[0].cost, cost, sizeof cost));
	return out->function_count && out->cheapest < 0 && !out->nothing ? lk_oom(err) : LK_OK;
}
