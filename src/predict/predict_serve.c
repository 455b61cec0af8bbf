/* predict_serve.c: `predict --task serve`: requests that arrive at inference engines one after
 * another: how long each waits for its first token, between tokens and for its last, at the rate
 * that is given and at parts and multiples of it, and up to which rate requests keep their limits.
 * The engines are those of `--task generate` (predict_generate.c). */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/stats.h"
#include "base/text.h"
#include "predict/generation.h"

/* Requests of a law: at least so many, for so many times as long as one takes alone, at most so
 * many. */
enum { FEWEST = 1000, TIMES_ALONE = 100, MOST = 100000, SEED = 1 };
/* The first and the last of them meet engines that fill and empty: one in so many at each end is
 * not counted. Those of a file all are. */
enum { NOT_COUNTED = 10 };
/* Share of requests that must keep their limits at a rate that the engines stand; it is looked for
 * within this factor of the rate that is asked for. */
static const double ENOUGH = 0.9, FARTHEST = 1024;
enum { BISECTIONS = 10 };
/* Rates of the answer over the one that is asked for. */
static const double multiples[] = {0.25, 0.5, 1, 2, 4};
enum { LOADS = sizeof multiples / sizeof *multiples, ASKED = 2 };

bool lk_predict_serves(const lk_predict_request *request) {
	return request->task && lk_same_name(request->task, "serve");
}

/* ---- the request ---- */

static const struct {
	const char *name;
	size_t at;
} limits[] = {{"ttft", offsetof(struct service_limits, first_s)},
              {"tpot", offsetof(struct service_limits, token_s)},
              {"e2e", offsetof(struct service_limits, whole_s)}};

static bool read_limit(const char *word, struct service_limits *out) {
	const char *number = strchr(word, '='), *end;
	for (size_t i = 0; number && i < sizeof limits / sizeof *limits; i++) {
		if (strlen(limits[i].name) != (size_t)(number - word)) continue;
		if (strncmp(word, limits[i].name, (size_t)(number - word)) != 0) continue;
		double seconds = lk_read_real(number + 1, &end);
		if (end == number + 1) return false;
		if (strcmp(end, "ms") == 0) seconds /= 1000;
		else if (*end && strcmp(end, "s") != 0) return false;
		*(double *)(void *)((char *)out + limits[i].at) = seconds;
		return out->given = seconds > 0 && seconds <= 1e6;
	}
	return false;
}

static lk_status read_limits(struct generation *generation, const char *text, lk_error *err) {
	char shown[64];
	generation->limits = (struct service_limits){INFINITY, INFINITY, INFINITY, false};
	if (!text) return LK_OK;
	char *words = lk_arena_strdup(generation->arena, text), *word;
	if (!words) return lk_oom(err);
	while ((word = strsep(&words, ","))) {
		if (read_limit(word, &generation->limits)) continue;
		lk_fail(err, LK_ERR_INPUT, "--slo", "'%s' is no limit",
		        lk_escape(word, shown, sizeof shown));
		return lk_hint(err, "give ttft (first token), tpot (each further one) or e2e (the whole), in "
		                    "seconds or milliseconds: ttft=2s,tpot=50ms");
	}
	return LK_OK;
}

/* Requests of a file bring their tokens. */
static lk_status refuse_beside_file(const lk_predict_request *request, lk_error *err) {
	const struct {
		const char *option;
		bool given;
	} said[] = {{"--response", request->response > 0},
	            {"--prompt", request->prompt > 0},
	            {"--lengths", request->lengths != NULL},
	            {"--gbs", request->gbs > 0}};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		if (!said[i].given) continue;
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, said[i].option, "requests and their tokens are those of %s",
		        lk_escape(request->arrivals, shown, sizeof shown));
		return lk_hint(err, "leave it out");
	}
	return LK_OK;
}

/* As many requests as show a steady service at a law's rate. */
static lk_status count_requests(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	lk_prices prices;
	lk_batching alone;
	lk_sequence one = {.prompt = generation->prompt, .response = fmax(1, request->response)};
	LK_TRY(lk_engine_prices(&generation->engine, &prices, err));
	LK_TRY(lk_batching_run(&generation->engine, &prices, LK_ENDLESS_CACHE, &one, 1, 1, NULL, NULL, &alone,
	                       err));
	double steady = ceil(TIMES_ALONE * alone.seconds * generation->law.rate);
	generation->request_s = prices.request_s;
	generation->count = (size_t)fmin(MOST, fmax(FEWEST, steady));
	if (request->gbs > 0) generation->count = (size_t)request->gbs;
	return LK_OK;
}

lk_status lk_serve_read(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	const char *arrivals = request->arrivals;
	if (!arrivals) {
		lk_fail(err, LK_ERR_INPUT, "--arrivals", "when requests come is not known");
		return lk_hint(err, "give requests a second, --arrivals poisson:2, or a file of them");
	}
	LK_TRY(read_limits(generation, request->slo, err));
	generation->listed = !lk_arrivals_named(arrivals) && access(arrivals, R_OK) == 0;
	if (!generation->listed) {
		LK_TRY(lk_arrivals_parse(arrivals, &generation->law, err));
		return count_requests(generation, err);
	}
	LK_TRY(refuse_beside_file(request, err));
	LK_TRY(lk_arrivals_read(generation->arena, arrivals, &generation->sequences,
	                        &generation->count, err));
	lk_prices prices;
	LK_TRY(lk_engine_prices(&generation->engine, &prices, err));
	generation->request_s = prices.request_s;
	return LK_OK;
}

lk_status lk_serve_arrive(struct generation *generation, lk_error *err) {
	size_t count = generation->count;
	double *times = LK_ARRAY(generation->arena, double, count);
	generation->moments = LK_ARRAY(generation->arena, lk_moments, count);
	if (!generation->moments || !times) return lk_oom(err);
	if (generation->listed) return LK_OK;
	lk_arrivals_spread(&generation->law, SEED, count, times);
	for (size_t i = 0; i < count; i++) generation->sequences[i].arrival_s = times[i];
	return LK_OK;
}

/* ---- latencies ---- */

struct served {
	const struct generation *generation;
	lk_arena *arena;
	size_t count;
	lk_sequence *sequences;
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

/* What the requests of a run waited. */
static lk_status fill_waits(const struct served *run, lk_service_load *out, lk_error *err) {
	const struct generation *generation = run->generation;
	const struct service_limits *most = &generation->limits;
	size_t skipped = generation->listed ? 0 : run->count / NOT_COUNTED, first = skipped,
		   end = run->count - skipped, counted = end - first, tokens = 0, waiting = 0, within = 0;
	double last = run->sequences[run->count - 1].arrival_s;
	double *begin_s = LK_ARRAY(run->arena, double, counted),
		   *token_s = LK_ARRAY(run->arena, double, counted),
		   *whole_s = LK_ARRAY(run->arena, double, counted);
	if (!begin_s || !token_s || !whole_s) return lk_oom(err);
	for (size_t i = first; i < end; i++) {
		const lk_moments *at = &run->moments[i];
		double arrival = run->sequences[i].arrival_s - generation->request_s,
			   gaps = run->sequences[i].response - 1,
			   token = gaps > 0 ? (at->end_s - at->first_s) / gaps : 0;
		begin_s[i - first] = at->first_s - arrival;
		whole_s[i - first] = at->end_s - arrival;
		if (gaps > 0) token_s[tokens++] = token;
		within += at->first_s - arrival <= most->first_s && token <= most->token_s &&
		          at->end_s - arrival <= most->whole_s;
	}
	for (size_t i = 0; i < run->count; i++) waiting += run->moments[i].first_s > last;
	out->first = latency_of(begin_s, counted);
	out->whole = latency_of(whole_s, counted);
	if (tokens) out->token = latency_of(token_s, tokens);
	out->tokens_per_s_user = out->token.p50 > 0 ? 1 / out->token.p50 : NAN;
	out->waiting = (double)waiting / (double)run->count;
	out->within = most->given ? (double)within / (double)counted : NAN;
	return LK_OK;
}

static lk_status fill_load(const struct served *run, lk_service_load *out, lk_error *err) {
	const lk_rollout *rollout = &run->rollout;
	double seconds = rollout->longest.seconds, computing = 0;
	for (int part = 0; part < LK_GENERATION_PARTS; part++) computing += rollout->parts[part];
	out->tokens_per_s_per_gpu = rollout->tokens / seconds / run->generation->asked.job.gpus;
	out->busy = lk_share(computing, seconds * rollout->engines);
	out->batch = computing > 0 ? rollout->running_s / computing : 0;
	return fill_waits(run, out, err);
}

/* Requests that come `faster` times as fast: those of a file, or as many more of the law. */
static lk_status take_requests(struct served *run, double faster, lk_error *err) {
	const struct generation *generation = run->generation;
	double scaled = round((double)generation->count * faster), fewest = FEWEST;
	if (generation->count < FEWEST) fewest = (double)generation->count;
	run->count = generation->listed ? generation->count : (size_t)fmin(MOST, fmax(fewest, scaled));
	run->sequences = LK_ARRAY(run->arena, lk_sequence, run->count);
	run->moments = LK_ARRAY(run->arena, lk_moments, run->count);
	double *lengths = LK_ARRAY(run->arena, double, run->count),
		   *times = LK_ARRAY(run->arena, double, run->count);
	if (!run->sequences || !run->moments || !lengths || !times) return lk_oom(err);
	lk_arrival_law law = generation->law;
	law.rate *= faster;
	if (!generation->listed) lk_arrivals_spread(&law, SEED, run->count, times);
	if (generation->kind >= 0)
		lk_lengths_spread((lk_length_kind)generation->kind, generation->mean, generation->most, SEED,
		                  run->count, lengths);
	for (size_t i = 0; i < run->count; i++) {
		lk_sequence *sequence = &run->sequences[i];
		*sequence = generation->sequences[i % generation->count];
		sequence->group = (uint32_t)i;
		if (generation->kind >= 0) sequence->response = lengths[i];
		if (generation->listed) sequence->arrival_s /= faster;
		else sequence->arrival_s = times[i];
	}
	return LK_OK;
}

static lk_status run_faster(const struct generation *generation, double faster,
                            lk_service_load *out, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	struct served run = {.generation = generation, .arena = &scratch};
	lk_status status = take_requests(&run, faster, err);
	if (status == LK_OK)
		status = lk_generation_run(generation, run.sequences, run.count, run.moments, &run.rollout,
		                           err);
	if (status == LK_OK) status = fill_load(&run, out, err);
	lk_arena_free(&scratch);
	return status;
}

/* Whether enough requests keep their limits when they come `faster`. */
static lk_status stands(const struct generation *generation, double faster, bool *out,
                        lk_error *err) {
	lk_service_load load;
	LK_TRY(run_faster(generation, faster, &load, err));
	*out = load.within >= ENOUGH;
	return LK_OK;
}

/* The last rate that the engines stand: between powers of two, from the one that is asked for up or
 * down, and by bisection of its logarithm. */
static lk_status find_capacity(const struct generation *generation, double rate, double *out,
                               lk_error *err) {
	double low = 1, high;
	bool good;
	LK_TRY(stands(generation, low, &good, err));
	if (good) {
		for (high = 2; good && high <= FARTHEST; high *= 2) {
			LK_TRY(stands(generation, high, &good, err));
			if (good) low = high;
		}
		high = 2 * low;
	} else {
		for (high = 1; !good && low > 1 / FARTHEST; high = good ? high : low) {
			low /= 2;
			LK_TRY(stands(generation, low, &good, err));
		}
		if (!good) {
			*out = 0;
			return LK_OK;
		}
	}
	for (int i = 0; i < BISECTIONS; i++) {
		double middle = sqrt(low * high);
		LK_TRY(stands(generation, middle, &good, err));
		if (good) low = middle;
		else high = middle;
	}
	*out = rate * low;
	return LK_OK;
}

/* Requests a second; NAN: all come at once. */
static double rate_of(const lk_sequence *sequences, size_t count) {
	double seconds = sequences[count - 1].arrival_s;
	return seconds > 0 ? (double)(count - 1) / seconds : NAN;
}

lk_status lk_serve_fill(struct generation *generation, const lk_rollout *rollout,
                        lk_prediction *prediction, lk_error *err) {
	lk_service *out = &prediction->service;
	lk_service_load *loads = LK_ARRAY(generation->arena, lk_service_load, LOADS);
	if (!loads) return lk_oom(err);
	double rate = generation->listed ? rate_of(generation->sequences, generation->count)
	                                 : generation->law.rate;
	bool alone = isnan(rate); /* all at once: there is no rate to vary */
	*out = (lk_service){.requests = (int)generation->count,
	                    .loads = loads,
	                    .load_count = alone ? 1 : LOADS,
	                    .asked = alone ? 0 : ASKED,
	                    .capacity = NAN};
	const struct served asked = {generation,           generation->arena,   generation->count,
	                             generation->sequences, generation->moments, *rollout};
	for (int i = 0; i < out->load_count; i++) {
		if (i == out->asked) LK_TRY(fill_load(&asked, &loads[i], err));
		else LK_TRY(run_faster(generation, multiples[i], &loads[i], err));
		loads[i].rate = alone ? NAN : rate * multiples[i];
	}
	if (alone || !generation->limits.given) return LK_OK;
	return find_capacity(generation, rate, &out->capacity, err);
}
