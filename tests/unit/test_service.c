/* test_service.c: requests that arrive at an engine: their times against a queue that has a closed
 * form, and against an executor that runs every iteration; laws and files of arrivals. */
#include <math.h>
#include <string.h>

#include "rounds.h"
#include "scratch.h"

#include "base/arena.h"
#include "base/stats.h"
#include "cost/calibration/calibration.h"
#include "model/read/read.h"
#include "rollout/rollout.h"

enum { REQUESTS = 20000 };

struct bench {
	lk_arena arena;
	lk_model model;
	lk_cluster cluster;
	lk_engine engine;
	lk_prices prices;
};

static void bench_begin(struct bench *bench, int sequences) {
	lk_error err;
	*bench = (struct bench){.engine = {.software = lk_engine_software_find("vllm"),
	                                   .model = &bench->model,
	                                   .cluster = &bench->cluster,
	                                   .tp = 1,
	                                   .pp = 1,
	                                   .ep = 1,
	                                   .dtype = LK_BF16,
	                                   .kv_dtype = LK_BF16,
	                                   .memory_share = 0.9,
	                                   .sequences = sequences,
	                                   .tokens = 1000000}};
	assert_int_equal(lk_calibration_ready(&err), LK_OK);
	assert_int_equal(lk_model_preset("llama3.1-8b", &bench->model, &err), LK_OK);
	assert_int_equal(lk_cluster_simple(&bench->arena, lk_device_find("h100-sxm"), 8, 0, 0,
	                                   &bench->cluster, &err),
	                 LK_OK);
	bench->engine.numbers = lk_engine_numbers_of(bench->engine.software);
	assert_int_equal(lk_engine_prices(&bench->engine, &bench->prices, &err), LK_OK);
}

static lk_batching serve(struct bench *bench, const lk_sequence *requests, size_t count,
                         lk_moments *moments) {
	lk_batching out;
	lk_error err;
	if (lk_batching_run(&bench->engine, &bench->prices, 1e9, requests, count, count, NULL, moments,
	                    &out, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return out;
}

static void near(double a, double b, double within) {
	if (!(fabs(a - b) <= within * fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

/* ---- arrivals ---- */

static void arrivals_have_rate_and_spread(void **state) {
	(void)state;
	static double times[REQUESTS + 1];
	const double spreads[] = {0, 0.5, 1, 2};
	for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++) {
		double mean = 0.25, square = 0, longer = 0;
		lk_arrivals_spread(&(lk_arrival_law){4, spreads[s]}, 3, REQUESTS, times);
		times[REQUESTS] = REQUESTS * mean;
		for (int i = 0; i < REQUESTS; i++) {
			double gap = times[i + 1] - times[i];
			assert_true(gap >= 0);
			square += gap * gap / REQUESTS;
			longer += gap > mean * log(2);
		}
		double spread = sqrt(fmax(0, square - mean * mean)) / mean;
		if (!(fabs(spread - spreads[s]) < 0.05 * spreads[s] + 1e-6)) fail_msg("spread %g", spread);
		if (spreads[s] == 1) near(longer, REQUESTS / 2.0, 0.03); /* the median of an exponential */
	}
}

static void laws_are_read(void **state) {
	(void)state;
	lk_arrival_law law;
	lk_error err;
	assert_int_equal(lk_arrivals_parse("gamma:12:2.5", &law, &err), LK_OK);
	assert_true(law.rate == 12 && law.spread == 2.5);
	assert_int_equal(lk_arrivals_parse("poisson:0.5", &law, &err), LK_OK);
	assert_true(law.rate == 0.5 && law.spread == 1);
	const char *const wrong[] = {"poisson",    "poisson:",    "poisson:0", "poisson:1:2", "gamma:3",
	                             "gamma:3:0",  "even:-1",     "even:nan",  "weibull:3",   "12",
	                             "even:1e300", "poisson:1 2", ""};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(lk_arrivals_parse(wrong[i], &law, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, "--arrivals");
	}
}

/* ---- queues ---- */

/* An engine that holds one request at a time is a queue with equal service times: the mean wait is
 * Pollaczek's and Khinchine's, and none at all where gaps are even. */
static void one_at_a_time(void **state) {
	(void)state;
	static lk_sequence requests[REQUESTS];
	static lk_moments moments[REQUESTS];
	static double times[REQUESTS];
	struct bench bench;
	bench_begin(&bench, 1);
	lk_sequence one = {300, 40, 0, 0};
	double service = serve(&bench, &one, 1, moments).seconds, first = moments[0].first_s;
	for (double load = 0.3; load < 0.8; load += 0.2)
		for (int spread = 0; spread < 2; spread++) {
			double waited = 0, expected = spread * load * service / (2 * (1 - load));
			lk_arrivals_spread(&(lk_arrival_law){load / service, spread}, 5, REQUESTS, times);
			for (uint32_t i = 0; i < REQUESTS; i++)
				requests[i] = (lk_sequence){300, 40, i, times[i]};
			lk_batching out = serve(&bench, requests, REQUESTS, moments);
			for (int i = 0; i < REQUESTS; i++)
				waited += (moments[i].first_s - times[i] - first) / REQUESTS;
			if (fabs(waited - expected) > 0.1 * expected + 1e-9 * service)
				fail_msg("load %g: waited %g of %g", load, waited, expected);
			near(out.seconds - out.idle_s, REQUESTS * service, 1e-9);
		}
	lk_arena_free(&bench.arena);
}

/* The same in iterations, one after another. */
struct plain {
	const lk_sequence *requests;
	lk_moments *moments;
	double *tokens; /* of each; 0: not begun, -1: ended */
	size_t count, next;
	double seconds, running, context;
};

static double admit(struct plain *plain, int most, double *pairs) {
	double rows = 0, admitted = plain->running;
	*pairs = 0;
	for (; plain->next < plain->count && admitted < most; plain->next++, admitted++) {
		const lk_sequence *request = &plain->requests[plain->next];
		if (request->arrival_s > plain->seconds) break;
		rows += request->prompt;
		*pairs += request->prompt * request->prompt / 2;
	}
	return rows;
}

static void iterate(struct plain *plain, const lk_prices *prices, int most) {
	double parts[LK_GENERATION_PARTS] = {0}, pairs;
	size_t old = plain->next;
	if (plain->running == 0 && plain->requests[plain->next].arrival_s > plain->seconds)
		plain->seconds = plain->requests[plain->next].arrival_s;
	double rows = admit(plain, most, &pairs);
	const lk_iteration_span span = {plain->running, plain->context, rows, pairs, 1};
	plain->seconds += lk_iterations(prices, &span, parts);
	for (size_t i = 0; i < plain->next; i++) {
		const lk_sequence *request = &plain->requests[i];
		if (plain->tokens[i] < 0) continue;
		if (i >= old) {
			plain->moments[i].first_s = plain->seconds;
			plain->running++;
			plain->context += request->prompt;
		}
		plain->tokens[i]++;
		plain->context++;
		if (plain->tokens[i] < request->response) continue;
		plain->context -= request->prompt + plain->tokens[i];
		plain->tokens[i] = -1;
		plain->running--;
		plain->moments[i].end_s = plain->seconds;
	}
}

static void every_iteration(void **state) {
	(void)state;
	enum { COUNT = 400 };
	static lk_sequence requests[COUNT];
	static lk_moments moments[COUNT], wanted[COUNT];
	static double times[COUNT], lengths[COUNT], tokens[COUNT];
	const double rates[] = {0.5, 4, 20, 200};
	for (int trial = 0; trial < rounds(8, 80); trial++) {
		int most = trial % 2 ? 16 : 256;
		struct bench bench;
		bench_begin(&bench, most);
		double rate = rates[trial / 2 % 4], worst = 0;
		lk_arrivals_spread(&(lk_arrival_law){rate, 1}, (uint64_t)trial, COUNT, times);
		lk_lengths_spread(LK_LENGTHS_LOGNORMAL, 120, 0, (uint64_t)trial, COUNT, lengths);
		for (uint32_t i = 0; i < COUNT; i++)
			requests[i] = (lk_sequence){100 + i % 7 * 50, lengths[i], i, times[i]};
		memset(tokens, 0, sizeof tokens);
		struct plain plain = {
			.requests = requests, .moments = wanted, .tokens = tokens, .count = COUNT};
		while (plain.next < COUNT || plain.running > 0) iterate(&plain, &bench.prices, most);
		lk_batching out = serve(&bench, requests, COUNT, moments);
		near(out.seconds, plain.seconds, 1e-3);
		for (int i = 0; i < COUNT; i++) {
			worst = fmax(worst, fabs(moments[i].first_s - wanted[i].first_s));
			worst = fmax(worst, fabs(moments[i].end_s - wanted[i].end_s));
		}
		/* A request may be seen one iteration later, and moves those behind it by as much. */
		if (worst > 0.05) fail_msg("rate %g, %d at most: %g s apart", rate, most, worst);
		lk_arena_free(&bench.arena);
	}
}

/* ---- files ---- */

static lk_status read_text(const char *text, lk_arena *arena, lk_sequence **out, size_t *count,
                           lk_error *err) {
	char path[64];
	write_text(new_file(path, ".csv"), text);
	lk_status status = lk_arrivals_read(arena, path, out, count, err);
	remove(path);
	return status;
}

static void requests_of_a_file(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_sequence *requests;
	lk_error err;
	size_t count;
	assert_int_equal(read_text("arrival_s,prompt_tokens,output_tokens\n5,10,3\n5,20,4\n7.5,30,5\n",
	                           &arena, &requests, &count, &err),
	                 LK_OK);
	assert_int_equal(count, 3);
	assert_true(requests[0].arrival_s == 0 && requests[2].arrival_s == 2.5);
	assert_true(requests[1].prompt == 20 && requests[1].response == 4 && requests[1].group == 1);
	const char *const wrong[] = {"arrival_s,prompt_tokens\n1,2\n",
	                             "arrival_s,prompt_tokens,output_tokens\n",
	                             "arrival_s,prompt_tokens,output_tokens\n2,1,1\n1,1,1\n",
	                             "arrival_s,prompt_tokens,output_tokens\n2,,1\n",
	                             "arrival_s,prompt_tokens,output_tokens\n2,0,1\n"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(read_text(wrong[i], &arena, &requests, &count, &err), LK_ERR_INPUT);
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrivals_have_rate_and_spread),
		cmocka_unit_test(laws_are_read),
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(every_iteration),
		cmocka_unit_test(requests_of_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
