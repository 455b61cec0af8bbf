/* service.c: requests that arrive at engines one after another, at a rate and at parts and
 * multiples of it: what they wait, and up to which rate they keep their limits. Of a law there are
 * as many requests as show a steady service; the first and the last of them meet engines that fill
 * and empty, and are not counted. */
#include <math.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"
#include "rollout/rollout.h"

/* Requests of a law: for so many times as long as one takes alone, from FEWEST to MOST; one in
 * NOT_COUNTED at each end is not counted. */
enum { FEWEST = 1000, MOST = 100000, TIMES_ALONE = 100, NOT_COUNTED = 10, SEED = 1 };
/* Share of requests that must keep their limits at a rate that the engines stand; it is looked for
 * within this factor of the rate that is asked for. */
static const double ENOUGH = 0.9, FARTHEST = 1024;
enum { BISECTIONS = 10 };
/* Rates of the answer over the one that is asked for. */
static const double multiples[] = {0.25, 0.5, 1, 2, 4};
enum { LOADS = sizeof multiples / sizeof *multiples, ASKED = 2 };

lk_status lk_service_steady(const lk_engine *engine, const lk_arrival_law *law, double prompt,
                            double response, size_t *out, lk_error *err) {
	lk_prices prices;
	lk_batching alone;
	const lk_sequence one = {.prompt = prompt, .response = response};
	LK_TRY(lk_engine_prices(engine, &prices, err));
	LK_TRY(lk_batching_run(engine, &prices, LK_ENDLESS_CACHE, &one, 1, 1, NULL, NULL, &alone, err));
	*out = (size_t)fmin(MOST, fmax(FEWEST, ceil(TIMES_ALONE * alone.seconds * law->rate)));
	return LK_OK;
}

/* A run at one rate. */
struct served {
	const lk_service_question *asked;
	double request_s; /* of each request, beside its iterations */
	lk_arena *arena;
	size_t count;
	lk_sequence *requests;
	lk_moments *moments;
	lk_rollout rollout;
};

static lk_latency latency_of(double *seconds, size_t count) {
	lk_latency out = {lk_mean(seconds, count), 0, 0, 0};
	out.p50 = lk_quantile(seconds, count, 0.5);
	out.p90 = lk_quantile(seconds, count, 0.9);
	out.p99 = lk_quantile(seconds, count, 0.99);
	return out;
}

/* What the requests waited. */
static lk_status fill_waits(const struct served *run, lk_service_load *out, lk_error *err) {
	const lk_service_limits *most = &run->asked->limits;
	size_t skipped = run->asked->law ? run->count / NOT_COUNTED : 0,
		   counted = run->count - 2 * skipped, tokens = 0, waiting = 0, within = 0;
	double last = run->requests[run->count - 1].arrival_s;
	double *first_s = LK_ARRAY(run->arena, double, counted),
		   *token_s = LK_ARRAY(run->arena, double, counted),
		   *whole_s = LK_ARRAY(run->arena, double, counted);
	if (!first_s || !token_s || !whole_s) return lk_oom(err);
	for (size_t i = 0; i < counted; i++) {
		const lk_moments *at = &run->moments[skipped + i];
		const lk_sequence *request = &run->requests[skipped + i];
		double began = request->arrival_s - run->request_s, gaps = request->response - 1,
			   token = gaps > 0 ? (at->end_s - at->first_s) / gaps : 0;
		first_s[i] = at->first_s - began;
		whole_s[i] = at->end_s - began;
		if (gaps > 0) token_s[tokens++] = token;
		within +=
			first_s[i] <= most->first_s && token <= most->token_s && whole_s[i] <= most->whole_s;
	}
	for (size_t i = 0; i < run->count; i++) waiting += run->moments[i].first_s > last;
	out->first = latency_of(first_s, counted);
	out->whole = latency_of(whole_s, counted);
	if (tokens) out->token = latency_of(token_s, tokens);
	out->tokens_per_s_user = out->token.p50 > 0 ? 1 / out->token.p50 : NAN;
	out->waiting = (double)waiting / (double)run->count;
	out->within = most->given ? (double)within / (double)counted : NAN;
	return LK_OK;
}

static lk_status fill_load(const struct served *run, lk_service_load *out, lk_error *err) {
	const lk_rollout *rollout = &run->rollout;
	const lk_engine *engine = run->asked->engine;
	double seconds = rollout->longest.seconds, computing = 0;
	for (int part = 0; part < LK_GENERATION_PARTS; part++) computing += rollout->parts[part];
	double gpus = (double)rollout->engines * engine->tp * engine->pp;
	*out = (lk_service_load){.tokens_per_s_per_gpu = rollout->tokens / seconds / gpus};
	out->busy = lk_share(computing, seconds * rollout->engines);
	out->batch = computing > 0 ? rollout->running_s / computing : 0;
	return fill_waits(run, out, err);
}

/* Requests that come `faster` times as fast: those of a file, or as many more of the law. */
static lk_status take_requests(struct served *run, double faster, lk_error *err) {
	const lk_service_question *asked = run->asked;
	double many = fmin(MOST, fmax(FEWEST, round((double)asked->count * faster)));
	run->count = asked->law && faster != 1 ? (size_t)many : asked->count;
	run->requests = LK_ARRAY(run->arena, lk_sequence, run->count);
	run->moments = LK_ARRAY(run->arena, lk_moments, run->count);
	double *lengths = LK_ARRAY(run->arena, double, run->count),
		   *times = LK_ARRAY(run->arena, double, run->count);
	if (!run->requests || !run->moments || !lengths || !times) return lk_oom(err);
	for (size_t i = 0; i < run->count; i++) {
		run->requests[i] = asked->requests[i % asked->count];
		run->requests[i].arrival_s /= faster;
		run->requests[i].group = (uint32_t)i;
	}
	if (!asked->law) return LK_OK;
	lk_arrivals_spread(&(lk_arrival_law){asked->law->rate * faster, asked->law->spread}, SEED,
	                   run->count, times);
	for (size_t i = 0; i < run->count; i++) run->requests[i].arrival_s = times[i];
	if (asked->kind < 0) return LK_OK;
	lk_lengths_spread((lk_length_kind)asked->kind, asked->mean, asked->most, SEED, run->count,
	                  lengths);
	for (size_t i = 0; i < run->count; i++) run->requests[i].response = lengths[i];
	return LK_OK;
}

/* `rollout`: of the run; NULL: not wanted. */
static lk_status run_faster(const lk_service_question *asked, double faster, lk_service_load *out,
                            lk_rollout *rollout, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	lk_prices prices;
	struct served run = {.asked = asked, .arena = &scratch};
	LK_TRY(lk_engine_prices(asked->engine, &prices, err));
	run.request_s = prices.request_s;
	lk_status status = take_requests(&run, faster, err);
	if (status == LK_OK)
		status = lk_rollout_run(asked->engine, asked->engines, asked->cache_tokens, run.requests,
		                        run.count, run.moments, &run.rollout, err);
	if (status == LK_OK) status = fill_load(&run, out, err);
	if (rollout) *rollout = run.rollout;
	lk_arena_free(&scratch);
	return status;
}

/* Whether enough requests keep their limits when they come `faster`. */
static lk_status stands(const lk_service_question *asked, double faster, bool *out, lk_error *err) {
	lk_service_load load;
	LK_TRY(run_faster(asked, faster, &load, NULL, err));
	*out = load.within >= ENOUGH;
	return LK_OK;
}

/* The last rate that the engines stand, over the one that is asked for; 0: none. It lies between
 * two powers of two, up or down from 1; its logarithm is bisected. */
static lk_status find_capacity(const lk_service_question *asked, double *out, lk_error *err) {
	double low = 1, high;
	bool good;
	LK_TRY(stands(asked, low, &good, err));
	if (good) {
		for (high = 2; high <= FARTHEST; high *= 2) {
			LK_TRY(stands(asked, high, &good, err));
			if (!good) break;
			low = high;
		}
	} else {
		while (!good && low > 1 / FARTHEST) LK_TRY(stands(asked, low /= 2, &good, err));
		high = 2 * low;
	}
	*out = 0;
	if (low < 1 && !good) return LK_OK;
	for (int i = 0; i < BISECTIONS; i++) {
		double middle = sqrt(low * high);
		LK_TRY(stands(asked, middle, &good, err));
		if (good) low = middle;
		else high = middle;
	}
	*out = low;
	return LK_OK;
}

/* Requests a second; NAN: all come at once. */
static double rate_of(const lk_service_question *asked) {
	double seconds = asked->requests[asked->count - 1].arrival_s;
	if (asked->law) return asked->law->rate;
	return seconds > 0 ? (double)(asked->count - 1) / seconds : NAN;
}

lk_status lk_service_run(const lk_service_question *asked, lk_arena *arena, lk_service *out,
                         lk_rollout *rollout, lk_error *err) {
	lk_service_load *loads = LK_ARRAY(arena, lk_service_load, LOADS);
	double rate = rate_of(asked), times = NAN;
	bool varied = !isnan(rate);
	if (!loads) return lk_oom(err);
	LK_ASSERT(asked->count > 0 && asked->count <= INT32_MAX);
	*out = (lk_service){.requests = (int)asked->count, .loads = loads, .load_count = 1};
	if (varied) out->load_count = LOADS, out->asked = ASKED;
	for (int i = 0; i < out->load_count; i++) {
		double faster = varied ? multiples[i] : 1;
		LK_TRY(run_faster(asked, faster, &loads[i], i == out->asked ? rollout : NULL, err));
		loads[i].rate = rate * faster;
	}
	if (varied && asked->limits.given) LK_TRY(find_capacity(asked, &times, err));
	out->capacity = rate * times;
	return LK_OK;
}
