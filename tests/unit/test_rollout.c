/* test_rollout.c: generation: lengths with their mean, batching against an executor that counts
 * every token, what more engines, more room and longer sequences do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"
#include "scratch.h"

#include "base/arena.h"
#include "base/stats.h"
#include "cost/calibration/calibration.h"
#include "fit/fits.h"
#include "rollout/rollout.h"

enum { SEQUENCES = 400 };

struct bench {
	lk_arena arena;
	lk_model model;
	lk_cluster cluster;
	lk_engine engine;
	lk_prices prices;
	lk_sequence sequences[SEQUENCES];
	double lengths[SEQUENCES];
};

static struct bench bench_of(const char *model, const char *gpu, int tp) {
	struct bench bench = {0};
	lk_error err;
	assert_int_equal(lk_calibration_ready(&err), LK_OK);
	assert_int_equal(lk_model_preset(model, &bench.model, &err), LK_OK);
	assert_int_equal(
		lk_cluster_simple(&bench.arena, lk_device_find(gpu), 64, 0, 0, &bench.cluster, &err),
		LK_OK);
	bench.engine = (lk_engine){.software = lk_engine_software_find("vllm"),
	                           .tp = tp,
	                           .pp = 1,
	                           .ep = 1,
	                           .dtype = LK_BF16,
	                           .kv_dtype = LK_BF16,
	                           .memory_share = 0.9,
	                           .sequences = 256,
	                           .tokens = 8192,
	                           .prefix_caching = true};
	bench.engine.numbers = lk_engine_numbers_of(bench.engine.software);
	return bench;
}

/* Pointers into the struct, which has moved since. */
static void bench_ready(struct bench *bench) {
	lk_error err;
	bench->engine.model = &bench->model;
	bench->engine.cluster = &bench->cluster;
	if (lk_engine_prices(&bench->engine, &bench->prices, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
}

static void bench_draw(struct bench *bench, lk_length_kind kind, double mean, double prompt,
                       uint64_t seed) {
	lk_lengths_spread(kind, mean, 8 * mean, seed, SEQUENCES, bench->lengths);
	for (uint32_t i = 0; i < SEQUENCES; i++)
		bench->sequences[i] = (lk_sequence){prompt, bench->lengths[i], i, 0};
}

static lk_batching run_one(struct bench *bench, double cache, size_t count) {
	lk_batching out;
	lk_error err;
	if (lk_batching_run(&bench->engine, &bench->prices, cache, bench->sequences, count, SEQUENCES,
	                    NULL, NULL, &out, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return out;
}

static double parts_sum(const lk_batching *batching) {
	double sum = 0;
	for (int i = 0; i < LK_GENERATION_PARTS; i++) sum += batching->parts[i];
	return sum;
}

static void near(double a, double b, double within) {
	if (!(fabs(a - b) <= within * fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

/* ---- lengths ---- */

static void lengths_have_their_mean(void **state) {
	(void)state;
	static double lengths[2000];
	for (int kind = 0; kind < LK_LENGTH_KINDS; kind++)
		for (double mean = 2; mean < 5000; mean *= 3) {
			double most = mean * 1.5;
			lk_lengths_spread((lk_length_kind)kind, mean, most, 7, 2000, lengths);
			near(lk_mean(lengths, 2000), mean, kind == LK_LENGTHS_FIXED ? 1e-9 : 0.5 / mean + 1e-3);
			for (int i = 0; i < 2000; i++) assert_true(lengths[i] >= 1 && lengths[i] <= ceil(most));
		}
	lk_lengths_spread(LK_LENGTHS_EXPONENTIAL, 100, 80, 7, 2000, lengths);
	assert_true(lengths[0] == 80 && lengths[1999] == 80);
}

static int lower_first(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Share of the law, with this mean, that is longer. */
static double share_longer(lk_length_kind kind, double length, double mean) {
	if (kind == LK_LENGTHS_EXPONENTIAL) return exp(-length / mean);
	double sigma = lk_lengths_sigma, middle = log(mean) - sigma * sigma / 2;
	return erfc((log(length) - middle) / sigma / sqrt(2)) / 2;
}

/* At every length as many are longer as the law says, to one sequence and what the scale differs;
 * the seed changes the order alone. */
static void lengths_follow_their_law(void **state) {
	(void)state;
	static double one[512], two[512];
	for (int kind = LK_LENGTHS_LOGNORMAL; kind < LK_LENGTH_KINDS; kind++) {
		lk_lengths_spread((lk_length_kind)kind, 2000, 0, 1, 512, one);
		lk_lengths_spread((lk_length_kind)kind, 2000, 0, 2, 512, two);
		assert_memory_not_equal(one, two, sizeof one);
		qsort(one, 512, sizeof *one, lower_first);
		qsort(two, 512, sizeof *two, lower_first);
		assert_memory_equal(one, two, sizeof one);
		for (int i = 0; i < 512; i++) {
			double longer = 512 * share_longer((lk_length_kind)kind, one[i], 2000);
			if (fabs(longer - (511.5 - i)) > 1) fail_msg("%d of kind %d: %g", i, kind, longer);
		}
	}
}

/* The seed orders without a bias: each place holds the mean, over many seeds. */
static void lengths_in_any_order(void **state) {
	(void)state;
	double sum[16] = {0}, lengths[16];
	int seeds = rounds(2000, 20000);
	for (int seed = 0; seed < seeds; seed++) {
		lk_lengths_spread(LK_LENGTHS_EXPONENTIAL, 1000, 0, (uint64_t)seed, 16, lengths);
		for (int i = 0; i < 16; i++) sum[i] += lengths[i] / 1000 / seeds;
	}
	for (int i = 0; i < 16; i++) near(sum[i], 1, 5 / sqrt(seeds));
}

static void lengths_of_a_file(void **state) {
	(void)state;
	char folder[64], path[128], where[140];
	double out[5];
	snprintf(path, sizeof path, "%s/lengths.txt", new_folder(folder));
	snprintf(where, sizeof where, "%s:2", path);
	lk_error err;
	FILE *file = fopen(path, "w");
	fputs("# tokens\n10\n 20 # the second\n\n30\n", file);
	fclose(file);
	assert_int_equal(lk_lengths_read(path, 5, out, &err), LK_OK);
	for (int i = 0; i < 5; i++) assert_true(out[i] == 10 * (i % 3 + 1));
	file = fopen(path, "w");
	fputs("10\nmany\n", file);
	fclose(file);
	assert_int_equal(lk_lengths_read(path, 5, out, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, where);
	fclose(fopen(path, "w"));
	assert_int_equal(lk_lengths_read(path, 5, out, &err), LK_ERR_INPUT);
	assert_int_equal(remove_folder(folder), 0);
}

/* ---- batching ---- */

/* The same without folding: all sequences start together, then one iteration after another. */
static double count_tokens(struct bench *bench, size_t count) {
	double parts[LK_GENERATION_PARTS] = {0}, prompts = 0, pairs = 0, seconds;
	for (size_t i = 0; i < count; i++) {
		prompts += bench->sequences[i].prompt;
		pairs += bench->sequences[i].prompt * bench->sequences[i].prompt / 2;
	}
	seconds = lk_iterations(&bench->prices, &(lk_iteration_span){0, 0, prompts, pairs, 1}, parts);
	for (double token = 1;; token++) {
		double running = 0, context = 0;
		for (size_t i = 0; i < count; i++)
			if (bench->sequences[i].response > token) {
				running++;
				context += bench->sequences[i].prompt + token;
			}
		if (running == 0) return seconds;
		seconds +=
			lk_iterations(&bench->prices, &(lk_iteration_span){running, context, 0, 0, 1}, parts);
	}
}

static void folding_changes_nothing(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	for (int kind = 0; kind < LK_LENGTH_KINDS; kind++)
		for (size_t count = 1; count <= 81; count += 20) {
			bench_draw(&bench, (lk_length_kind)kind, 300, 50, count);
			lk_batching all = run_one(&bench, 1e9, count);
			/* attention is not quite linear in what is cached */
			near(all.seconds, count_tokens(&bench, count), 2e-3);
			near(parts_sum(&all), all.seconds, 1e-9);
			assert_true(all.most <= (double)count && all.preempted == 0);
		}
	lk_arena_free(&bench.arena);
}

/* No phase is shorter than its longest sequence takes alone, nor longer than all of them one after
 * another. */
static void the_longest_sequence_bounds(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("qwen3-30b-a3b", "h200", 2);
	bench_ready(&bench);
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(10, 40); seed++) {
		bench_draw(&bench, LK_LENGTHS_EXPONENTIAL, 500, 100, seed);
		lk_batching all = run_one(&bench, 1e9, SEQUENCES);
		double sum = 0, longest = 0;
		for (int i = 0; i < SEQUENCES; i++) {
			lk_sequence one = bench.sequences[i];
			one.group = 0;
			lk_batching alone;
			lk_error err;
			assert_int_equal(lk_batching_run(&bench.engine, &bench.prices, 1e9, &one, 1, 1, NULL,
			                                 NULL, &alone, &err),
			                 LK_OK);
			sum += alone.seconds;
			longest = fmax(longest, alone.seconds);
		}
		assert_true(all.seconds >= longest && all.seconds <= sum);
	}
	lk_arena_free(&bench.arena);
}

/* A cache that is too small costs time, never sequences; software that reserves preempts none. */
static void little_room(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	bench_draw(&bench, LK_LENGTHS_LOGNORMAL, 400, 100, 3);
	double before = 0;
	for (double cache = 200e3; cache > 4000; cache /= 2) {
		bench.engine.software = lk_engine_software_find("vllm");
		lk_batching all = run_one(&bench, cache, SEQUENCES);
		assert_true(all.most_tokens <= cache * (1 + 1e-9));
		assert_true(all.seconds > 0.98 * before);
		near(parts_sum(&all), all.seconds, 1e-9);
		assert_true(cache > 50e3 || all.preempted > 0);
		before = all.seconds;
		bench.engine.software = lk_engine_software_find("tensorrt-llm");
		lk_batching reserved = run_one(&bench, cache, SEQUENCES);
		assert_true(reserved.preempted == 0 && reserved.most_tokens <= cache);
		assert_true(reserved.most <= all.most);
	}
	lk_batching out;
	lk_error err;
	assert_int_equal(lk_batching_run(&bench.engine, &bench.prices, 300, bench.sequences, SEQUENCES,
	                                 SEQUENCES, NULL, NULL, &out, &err),
	                 LK_ERR_INPUT);
	lk_arena_free(&bench.arena);
}

/* Prompts of one group are computed and kept once; chunks change the order of work, not its sum. */
static void prompts_are_shared(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	bench_draw(&bench, LK_LENGTHS_FIXED, 64, 4000, 3);
	lk_batching own = run_one(&bench, 1e9, 64);
	for (uint32_t i = 0; i < 64; i++) bench.sequences[i].group = i / 16;
	lk_batching shared = run_one(&bench, 1e9, 64);
	assert_true(shared.parts[LK_GENERATION_PREFILL] < own.parts[LK_GENERATION_PREFILL] / 10);
	near(shared.most_tokens, 4 * 4000 + 64 * 64, 0.02);
	near(own.most_tokens, 64 * (4000 + 64), 0.02);
	bench.engine.prefix_caching = false;
	near(run_one(&bench, 1e9, 64).seconds, own.seconds, 1e-9);
	bench.engine.tokens = 1000;
	lk_batching chunks = run_one(&bench, 1e9, 64);
	assert_true(chunks.iterations >= 256);
	near(chunks.parts[LK_GENERATION_PREFILL], own.parts[LK_GENERATION_PREFILL], 0.3);
	lk_arena_free(&bench.arena);
}

/* ---- prices ---- */

static void prices_never_fall(void **state) {
	(void)state;
	static const char *const models[] = {"llama3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b",
	                                     "deepseek-v3"};
	for (int m = 0; m < 4; m++) {
		static struct bench bench;
		bench = bench_of(models[m], "b200", 8);
		bench_ready(&bench);
		double before = 0;
		for (double rows = 1; rows < 8000; rows *= 1.1) {
			double parts[LK_GENERATION_PARTS] = {0};
			double seconds = lk_iterations(&bench.prices,
			                               &(lk_iteration_span){rows, rows * 1000, 0, 0, 1}, parts);
			assert_true(seconds >= before && isfinite(seconds));
			before = seconds;
		}
		lk_arena_free(&bench.arena);
	}
}

/* A batch of one reads all weights: no engine is faster than memory. Guesses that are always right
 * save iterations; those that are never right cost time. */
static void bounds_of_an_iteration(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	double parts[LK_GENERATION_PARTS] = {0};
	double plain = lk_iterations(&bench.prices, &(lk_iteration_span){1, 1000, 0, 0, 1}, parts);
	assert_true(plain > 7.5e9 * 2 / bench.cluster.node[0].device->memory_rate && plain < 0.02);
	bench_draw(&bench, LK_LENGTHS_FIXED, 500, 100, 1);
	double without = run_one(&bench, 1e9, 16).seconds;
	bench.engine.draft = 3, bench.engine.accept = 1;
	bench_ready(&bench);
	assert_true(run_one(&bench, 1e9, 16).seconds < without / 3);
	bench.engine.accept = 0;
	bench_ready(&bench);
	assert_true(run_one(&bench, 1e9, 16).seconds > without);
	lk_arena_free(&bench.arena);
}

static void memory_of_an_engine(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	lk_engine_memory one = lk_engine_memory_of(&bench.engine, 1000);
	near(one.weights, 8.03e9 * 2, 0.01);
	near(one.token, 2 * 8 * 128 * 2 * 32, 1e-9);
	bench.engine.tp = 4;
	lk_engine_memory four = lk_engine_memory_of(&bench.engine, 1000);
	near(four.weights, one.weights / 4, 0.01);
	near(four.token, one.token / 4, 1e-9);
	bench.engine.tp = 16; /* more GPUs than heads of keys: each holds one */
	near(lk_engine_memory_of(&bench.engine, 1000).token, one.token / 8, 1e-9);
	lk_arena_free(&bench.arena);
}

/* Host and device hide each other: never below the longer of them, never above their sum; software
 * that does not overlap adds its host time. */
static void host_and_device_overlap(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("qwen3-30b-a3b", "b200", 1);
	for (double sequence_us = 0.1; sequence_us < 1e3; sequence_us *= 4) {
		bench.engine.numbers.sequence_us = sequence_us;
		for (double rows = 1; rows <= 256; rows *= 4) {
			const lk_iteration_span span = {rows, rows * 2000, 0, 0, 1};
			double apart[LK_GENERATION_PARTS] = {0}, hidden[LK_GENERATION_PARTS] = {0};
			bench.engine.software = lk_engine_software_find("vllm");
			bench_ready(&bench);
			double sum = lk_iterations(&bench.prices, &span, apart),
				   host = apart[LK_GENERATION_HOST];
			bench.engine.software = lk_engine_software_find("sglang");
			bench_ready(&bench);
			double both = lk_iterations(&bench.prices, &span, hidden);
			near(host, 1e-6 * (bench.engine.numbers.step_us + rows * sequence_us), 1e-9);
			assert_true(both >= fmax(host, sum - host) * (1 - 1e-12) && both <= sum);
		}
	}
	lk_arena_free(&bench.arena);
}

/* GPUs that attend to sequences of their own do not gather logits: their head costs what one GPU
 * pays for its part of the rows. */
static void heads_of_attention_apart(void **state) {
	(void)state;
	static struct bench bench;
	double alone[LK_GENERATION_PARTS] = {0}, apart[LK_GENERATION_PARTS] = {0};
	bench = bench_of("qwen3-30b-a3b", "rtx-6000-pro", 1);
	bench_ready(&bench);
	lk_iterations(&bench.prices, &(lk_iteration_span){64, 64000, 0, 0, 1}, alone);
	bench.engine.tp = bench.engine.ep = 8;
	bench.engine.attention_dp = true;
	bench_ready(&bench);
	lk_iterations(&bench.prices, &(lk_iteration_span){512, 512000, 0, 0, 1}, apart);
	near(apart[LK_GENERATION_HEAD], alone[LK_GENERATION_HEAD], 1e-9);
	lk_arena_free(&bench.arena);
}

/* GPUs that attend to sequences of their own split experts alone: of a dense network each holds all
 * and exchanges nothing. What a layer with chunks caches depends on the software. */
static void all_but_experts_whole(void **state) {
	(void)state;
	struct bench bench = bench_of("llama3.1-8b", "h100-sxm", 8);
	bench_ready(&bench);
	double split = lk_engine_memory_of(&bench.engine, 1000).weights;
	bench.engine.attention_dp = true;
	bench_ready(&bench);
	near(lk_engine_memory_of(&bench.engine, 1000).weights, 8 * split, 1e-9);
	for (int i = 0; i < LK_PRICE_ROWS; i++) assert_true(bench.prices.exchange_s[i] == 0);
	lk_arena_free(&bench.arena);
	struct bench chunks = bench_of("llama4-scout", "h100-sxm", 1);
	bench_ready(&chunks);
	chunks.engine.software = lk_engine_software_find("vllm");
	double dropped = lk_engine_memory_of(&chunks.engine, 32768).token;
	chunks.engine.software = lk_engine_software_find("tensorrt-llm");
	double kept = lk_engine_memory_of(&chunks.engine, 32768).token;
	/* three layers of four attend within chunks of 8192 tokens */
	near(dropped / kept, 0.25 + 0.75 * 8192 / 32768, 1e-9);
	lk_arena_free(&chunks.arena);
}

/* Layers with a state in place of a cache: bytes in closed form, which do not grow with what was
 * written, and fewer sequences where states leave less room. */
static void recurrences(void **state) {
	(void)state;
	struct bench bench = bench_of("nemotron3-nano-30b-a3b", "h100-sxm", 1);
	bench_ready(&bench);
	lk_engine_memory memory = lk_engine_memory_of(&bench.engine, 1000);
	const lk_model *model = &bench.model;
	double own = 0, layers = 0, attends = 0;
	for (int i = 0; i < model->layers; i++) {
		layers += (lk_model_layer(model, i).mixers & LK_MIXER_SSM) != 0;
		attends += (lk_model_layer(model, i).mixers & LK_MIXER_ATTENTION) != 0;
	}
	assert_true(layers > 0 && attends > 0);
	own = (double)model->ssm_inner * model->ssm_state +
	      (model->ssm_inner + 2.0 * model->ssm_groups * model->ssm_state) * (model->ssm_conv - 1);
	near(memory.state, 4 * own * layers, 1e-12);
	near(memory.token, attends * 2 * 2 * model->kv_heads * model->head_dim, 1e-12);
	assert_true(memory.sequences <= bench.engine.sequences);
	assert_true(lk_engine_memory_of(&bench.engine, 30000).sequences < memory.sequences);
	double near_end[LK_GENERATION_PARTS] = {0}, start[LK_GENERATION_PARTS] = {0};
	lk_iterations(&bench.prices, &(lk_iteration_span){64, 64 * 100, 0, 0, 1}, start);
	lk_iterations(&bench.prices, &(lk_iteration_span){64, 64 * 10000, 0, 0, 1}, near_end);
	/* states are read and written; the caches of the layers that attend grow alone */
	double rate = bench.cluster.node[0].device->memory_rate * bench.engine.numbers.attention;
	assert_true(start[LK_GENERATION_ATTENTION] > 64 * 2 * memory.state / rate);
	double grown = near_end[LK_GENERATION_ATTENTION] - start[LK_GENERATION_ATTENTION];
	assert_true(grown > 64 * 9900 * memory.token / rate);
	assert_true(grown < 3 * 64 * 9900 * memory.token / rate);
	assert_non_null(lk_engine_lacks(&(lk_model){.network = LK_NET_ENCODER}));
	lk_arena_free(&bench.arena);
}

/* A Grace host takes 1.5 times as long, an early release more for each sequence. */
static void hosts_and_releases(void **state) {
	(void)state;
	struct bench x86 = bench_of("llama3.1-8b", "b200", 1),
				 grace = bench_of("llama3.1-8b", "gb200", 1);
	x86.engine.numbers.early_us = 7;
	bench_ready(&x86);
	bench_ready(&grace);
	near(grace.prices.step_s, 1.5 * x86.prices.step_s, 1e-12);
	near(grace.prices.sequence_s, 1.5 * x86.prices.sequence_s, 1e-12);
	near(grace.prices.issue_s, 1.5 * x86.prices.issue_s, 1e-12);
	double later = x86.prices.sequence_s;
	x86.engine.software = lk_engine_software_find("tensorrt-llm-1.0");
	bench_ready(&x86);
	near(x86.prices.sequence_s - later, 7e-6, 1e-9);
	lk_arena_free(&x86.arena);
	lk_arena_free(&grace.arena);
}

/* Experts in 4 bits take less memory and no more time, where 4 bits are multiplied and where not.
 */
static void experts_in_four_bits(void **state) {
	(void)state;
	static struct bench bench;
	const char *const gpus[] = {"h100-sxm", "b200"};
	for (int i = 0; i < 2; i++) {
		double parts[LK_GENERATION_PARTS] = {0};
		bench = bench_of("gpt-oss-20b", gpus[i], 1);
		bench_ready(&bench);
		const lk_iteration_span span = {32, 32000, 0, 0, 1};
		double wide = lk_iterations(&bench.prices, &span, parts);
		double held = lk_engine_memory_of(&bench.engine, 1000).weights;
		bench.engine.mxfp4_experts = true;
		bench_ready(&bench);
		assert_true(lk_iterations(&bench.prices, &span, parts) < wide);
		/* 19.1 of 20.9 G parameters are experts': 4.25 bits of them, 16 of the rest */
		near(lk_engine_memory_of(&bench.engine, 1000).weights, 19.1e9 * 4.25 / 8 + 1.8e9 * 2, 0.05);
		assert_true(held > 2.5 * lk_engine_memory_of(&bench.engine, 1000).weights);
		lk_arena_free(&bench.arena);
	}
}

/* The terms of a fit, put together with an engine's numbers, are the time of the simulation. */
static void terms_are_the_simulation(void **state) {
	(void)state;
	static struct bench bench;
	const char *const softwares[] = {"vllm", "sglang", "tensorrt-engine"}, *const models[] = {
																			   "llama3.1-8b",
																			   "qwen3-30b-a3b"};
	for (int i = 0; i < 6; i++) {
		lk_engine_terms terms;
		lk_error err;
		bench = bench_of(models[i % 2], "h100-sxm", 2);
		bench.engine.software = lk_engine_software_find(softwares[i / 2]);
		bench.engine.tokens = 2048;
		bench_ready(&bench);
		for (uint32_t k = 0; k < SEQUENCES; k++) bench.sequences[k] = (lk_sequence){500, 300, k, 0};
		double room = lk_engine_memory_of(&bench.engine, 800).tokens;
		assert_int_equal(
			lk_engine_terms_of(&bench.arena, &bench.engine, 500, 300, SEQUENCES, &terms, &err),
			LK_OK);
		near(lk_engine_seconds(&bench.engine.numbers, &terms),
		     run_one(&bench, room, SEQUENCES).seconds, 0.03);
		lk_arena_free(&bench.arena);
	}
}

/* ---- all engines ---- */

static double token_time_of(const char *software, const char *model, const char *gpu, int tp,
                            lk_dtype dtype, const lk_served *served) {
	struct bench bench = bench_of(model, gpu, tp);
	bench.engine.software = lk_engine_software_find(software);
	bench.engine.numbers = lk_engine_numbers_of(bench.engine.software);
	bench.engine.dtype = dtype;
	bench_ready(&bench);
	double first, token = lk_serving_token(&bench.engine, &bench.prices, served, &first);
	assert_true(token > 0 && first > token);
	lk_arena_free(&bench.arena);
	return token;
}

static double token_time(const char *model, const char *gpu, int tp, const lk_served *served) {
	return token_time_of("vllm", model, gpu, tp, LK_BF16, served);
}

/* Under each software and format, more requests are never faster, nor is an older GPU. */
static void newer_devices_are_never_slower(void **state) {
	(void)state;
	const char *const models[] = {"llama3.1-70b", "qwen3-30b-a3b", "deepseek-v3"},
					  *const softwares[] = {"vllm", "sglang", "tensorrt-llm"},
					  *const gpus[] = {"h100-sxm", "h200", "b200"};
	for (int m = 0; m < 3; m++)
		for (int e = 0; e < 3; e++)
			for (int narrow = 0; narrow < 2; narrow++) {
				double before[3] = {0};
				for (double n = 1; n <= 256; n *= 4) {
					double older = INFINITY;
					for (int g = 0; g < 3; g++) {
						const lk_served served = {.sequences = n, .prompt = 1024, .response = 512};
						double token = token_time_of(softwares[e], models[m], gpus[g], 8,
						                             narrow ? LK_FP8 : LK_BF16, &served);
						if (g == 1) assert_true(token <= older * 1.001); /* of one family */
						assert_true(token >= before[g] * (1 - 1e-9));
						older = before[g] = token;
					}
				}
			}
}

/* Served requests: a larger batch is never faster, nor is a GPU with slower memory; GPUs split
 * weights; prompts that other GPUs compute cost nothing; one request alone waits for no prompt. */
static void tokens_of_served_requests(void **state) {
	(void)state;
	const char *const models[] = {"llama3.1-70b", "qwen3-30b-a3b", "deepseek-v3"};
	for (int m = 0; m < 3; m++) {
		double before = 0;
		for (double sequences = 1; sequences <= 512; sequences *= 2) {
			lk_served served = {.sequences = sequences, .prompt = 1024, .response = 512},
					  apart = served;
			apart.apart = true;
			double token = token_time(models[m], "h200", 8, &served);
			assert_true(token >= before);
			assert_true(token_time(models[m], "h100-sxm", 8, &served) >= token * .999);
			double alone = token_time(models[m], "h200", 8, &apart);
			if (sequences == 1) near(alone, token, 1e-9);
			else assert_true(alone < token);
			before = token;
		}
	}
	const lk_served one = {.sequences = 1, .prompt = 1024, .response = 512};
	double whole = token_time("llama3.1-70b", "h200", 1, &one),
		   half = token_time("llama3.1-70b", "h200", 2, &one);
	assert_true(half < whole && half > whole / 2);
	/* weights at the whole bandwidth, and no more than what a launch of every kernel adds */
	assert_true(whole > 70e9 * 2 / 4.8e12 && whole < 1.5 * 70e9 * 2 / 4.8e12);
}

static lk_serving serving_of(const char *software, const lk_served *served, double *token,
                             double *first) {
	struct bench bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	lk_serving serving;
	bench.engine.software = lk_engine_software_find(software);
	bench.engine.numbers = lk_engine_numbers_of(bench.engine.software);
	bench.engine.memory_share = bench.engine.software->memory_share;
	bench_ready(&bench);
	lk_serving_of(&bench.engine, &bench.prices, served, &serving);
	*token = lk_serving_token(&bench.engine, &bench.prices, served, first);
	lk_arena_free(&bench.arena);
	return serving;
}

/* Prompts of others, however they are divided: while equal requests are decoded in step, half of
 * them; else all. They wait for one another at the start, and for the cache. */
static void prompts_of_served_requests(void **state) {
	(void)state;
	lk_served served = {.sequences = 32, .prompt = 4096, .response = 256};
	double mixed, mixed_first, apart, apart_first, together, together_first, start, start_first;
	lk_serving spans = serving_of("vllm", &served, &mixed, &mixed_first);
	assert_int_equal(spans.tokens, 2);
	near(spans.token[0].count + spans.token[1].count, 255, 1e-9);
	spans = serving_of("sglang", &served, &apart, &apart_first);
	near(spans.token[0].count, 255, 1e-9); /* decoding waits for prompts */
	assert_true(spans.token[1].sequences == 0);
	assert_true(spans.token[1].count < 31);
	served.equal = true;
	spans = serving_of("sglang", &served, &together, &together_first);
	near(spans.token[1].count, 31 / 2.0, 1e-3);
	assert_true(together < apart && together_first > 5 * apart_first);
	served.equal = false, served.rounds = 10;
	serving_of("vllm", &served, &start, &start_first);
	assert_true(start_first > 1.5 * mixed_first && start < mixed);
	/* more requests than the cache holds: tokens take as long, first ones wait for their turn */
	double full, full_first, over, over_first;
	served = (lk_served){.sequences = 100, .prompt = 30000, .response = 1000};
	serving_of("vllm", &served, &full, &full_first);
	served.sequences = 200;
	serving_of("vllm", &served, &over, &over_first);
	near(over, full, 0.02);
	assert_true(over_first > full_first + 0.9 * 1000 * full);
}

/* A request waits for half of the iterations between two looks, or for as many as the first of a
 * group waits, less where others join it; what comes meanwhile is computed with it. */
static void held_requests(void **state) {
	(void)state;
	lk_served served = {.sequences = 1, .prompt = 1024, .response = 4096};
	double token, first, polled, gathered;
	serving_of("sglang", &served, &token, &first);
	served.poll = 30;
	serving_of("sglang", &served, &token, &polled);
	near(polled - first, 15 * token, 0.01); /* alone: iterations without prompts */
	served.poll = 0, served.gather = 20;
	serving_of("tensorrt-llm", &served, &token, &gathered);
	served.gather = 0;
	serving_of("tensorrt-llm", &served, &token, &first);
	near(gathered - first, 20 * token, 0.01);
	/* 64 clients send one every 16 iterations; together they wait less, and are longer computed */
	served.sequences = 64, served.response = 1024;
	serving_of("tensorrt-llm", &served, &token, &first);
	served.gather = 80;
	lk_serving spans = serving_of("tensorrt-llm", &served, &token, &gathered);
	double held = spans.first[spans.firsts - 1].count,
		   group = spans.token[1].prompt / served.prompt;
	assert_true(group > 4 && group < 6);
	near(held, 80 * (1 + (group - 1) / 2) / group, 1e-9);
	assert_true(gathered > first + 40 * token);
	served.apart = true;
	serving_of("tensorrt-llm", &served, &token, &gathered);
	served.gather = 0;
	serving_of("tensorrt-llm", &served, &token, &first);
	near(gathered, first, 1e-12); /* prompts are computed elsewhere */
}

/* An indexer's network attends to the keys chosen, and reads all others' keys of the indexer. */
static void chosen_keys(void **state) {
	(void)state;
	struct bench bench = bench_of("glm5", "b200", 8);
	bench.engine.kv_dtype = LK_FP8;
	bench_ready(&bench);
	double parts[LK_GENERATION_PARTS] = {0}, at[3];
	const double lengths[3] = {4096, 8192, 65536};
	for (int i = 0; i < 3; i++) {
		double before = parts[LK_GENERATION_ATTENTION];
		lk_iterations(&bench.prices, &(lk_iteration_span){16, 16 * lengths[i], 0, 0, 1}, parts);
		at[i] = parts[LK_GENERATION_ATTENTION] - before;
	}
	near((at[2] - at[0]) / (65536 - 4096), (at[1] - at[0]) / 4096, 1e-6);
	double rate = bench.cluster.node[0].device->memory_rate;
	assert_true(at[2] - at[0] > 78.0 * 16 * (65536 - 4096) * 132 / rate);
	/* all keys in the latent space would take longer */
	assert_true(at[2] < 78.0 * 16 * 65536 * 576 / rate);
	/* of its 576 elements and the indexer's 128 and a scale, each in a byte or four */
	near(lk_engine_memory_of(&bench.engine, 8192).token, 78 * (576 + 128 + 4), 1e-6);
	lk_arena_free(&bench.arena);
}

static double part_of(const struct bench *bench, const lk_iteration_span *span, int part) {
	double parts[LK_GENERATION_PARTS] = {0};
	lk_iterations(&bench->prices, span, parts);
	return parts[part];
}

/* Norms are a part of the engines' own all-reduce, of up to 8 MiB; behind NCCL's they are passes. */
static void norms_behind_reductions(void **state) {
	(void)state;
	struct bench bench = bench_of("llama3.1-8b", "h100-sxm", 2);
	bench_ready(&bench);
	double seconds[3];
	for (int i = 0; i < 3; i++) {
		double rows = 1024 * exp2((i - 1) / 8.0); /* 8 MiB at the second */
		seconds[i] = part_of(&bench, &(lk_iteration_span){0, 0, rows, 0, 1}, LK_GENERATION_PREFILL);
	}
	double passes = 2 * 32 * 1024 * 4096 * 8.0 / bench.cluster.node[0].device->memory_rate;
	assert_true(seconds[2] - seconds[1] > seconds[1] - seconds[0] + 1.5 * passes);
	lk_arena_free(&bench.arena);
}

/* One copy of a row per expert travels on superchips; else rows travel to all GPUs. */
static void copies_to_experts(void **state) {
	(void)state;
	const char *const gpus[2] = {"b200", "gb200"};
	double seconds[2];
	for (int i = 0; i < 2; i++) {
		struct bench bench = bench_of("llama4-maverick", gpus[i], 4);
		bench.engine.attention_dp = true;
		bench.engine.ep = 4;
		bench_ready(&bench);
		seconds[i] = part_of(&bench, &(lk_iteration_span){4096, 4096 * 1024.0, 0, 0, 1},
		                     LK_GENERATION_EXCHANGE);
		lk_arena_free(&bench.arena);
	}
	assert_true(seconds[1] < 0.7 * seconds[0]);
}

/* Rows choose some experts more often than others: fewer are read than of equal chances, all in the
 * end. */
static void popular_experts(void **state) {
	(void)state;
	struct bench bench = bench_of("deepseek-v3", "b200", 8);
	bench.engine.dtype = LK_NVFP4;
	bench_ready(&bench);
	double parts[3][LK_GENERATION_PARTS] = {0};
	const double rows[3] = {1, 16, 256};
	for (int i = 0; i < 3; i++)
		lk_iterations(&bench.prices, &(lk_iteration_span){rows[i], rows[i] * 1024, 0, 0, 1},
		              parts[i]);
	double grown = parts[1][LK_GENERATION_PRODUCTS] - parts[0][LK_GENERATION_PRODUCTS];
	/* 16 rows choose 102 of 256 experts of equal chances, 65 of these */
	double bytes = 58.0 * 3 * 7168 * 2048 / 8 * (0.5 + 1 / 16.0);
	double rate = bench.cluster.node[0].device->memory_rate * 0.5;
	assert_true(grown < (102 - 8) * bytes / rate);
	assert_true(parts[2][LK_GENERATION_PRODUCTS] > 200 * bytes / (2 * rate));
	lk_arena_free(&bench.arena);
}

static void more_engines_are_never_slower(void **state) {
	(void)state;
	static struct bench bench;
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	lk_error err;
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(10, 50); seed++) {
		bench_draw(&bench, (lk_length_kind)(seed % LK_LENGTH_KINDS), 700, 200, seed);
		double before = INFINITY;
		for (int engines = 1; engines <= 128; engines *= 2) {
			lk_rollout out;
			assert_int_equal(lk_rollout_run(&bench.engine, engines, 50e3, bench.sequences,
			                                SEQUENCES, NULL, &out, &err),
			                 LK_OK);
			assert_true(out.longest.seconds <= before * 1.0001);
			assert_true(out.mean_end_s <= out.longest.seconds * (1 + 1e-12));
			before = out.longest.seconds;
		}
	}
	lk_arena_free(&bench.arena);
}

static void ten_thousand_in_a_second(void **state) {
	(void)state;
	static struct bench bench;
	static lk_sequence sequences[10000];
	static double lengths[10000];
	bench = bench_of("llama3.1-8b", "h100-sxm", 1);
	bench_ready(&bench);
	lk_lengths_spread(LK_LENGTHS_EXPONENTIAL, 4000, 32768, 1, 10000, lengths);
	for (uint32_t i = 0; i < 10000; i++) sequences[i] = (lk_sequence){300, lengths[i], i / 16, 0};
	lk_rollout out;
	lk_error err;
	assert_int_equal(lk_rollout_run(&bench.engine, 64, 300e3, sequences, 10000, NULL, &out, &err),
	                 LK_OK);
	near(out.tokens, 4000.0 * 10000, 0.01);
	assert_true(out.events < 100000); /* a change of the batch each, not a token */
	lk_arena_free(&bench.arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_have_their_mean),
		cmocka_unit_test(lengths_follow_their_law),
		cmocka_unit_test(lengths_in_any_order),
		cmocka_unit_test(lengths_of_a_file),
		cmocka_unit_test(folding_changes_nothing),
		cmocka_unit_test(the_longest_sequence_bounds),
		cmocka_unit_test(little_room),
		cmocka_unit_test(prompts_are_shared),
		cmocka_unit_test(prices_never_fall),
		cmocka_unit_test(bounds_of_an_iteration),
		cmocka_unit_test(memory_of_an_engine),
		cmocka_unit_test(host_and_device_overlap),
		cmocka_unit_test(heads_of_attention_apart),
		cmocka_unit_test(all_but_experts_whole),
		cmocka_unit_test(recurrences),
		cmocka_unit_test(hosts_and_releases),
		cmocka_unit_test(experts_in_four_bits),
		cmocka_unit_test(terms_are_the_simulation),
		cmocka_unit_test(tokens_of_served_requests),
		cmocka_unit_test(prompts_of_served_requests),
		cmocka_unit_test(held_requests),
		cmocka_unit_test(chosen_keys),
		cmocka_unit_test(norms_behind_reductions),
		cmocka_unit_test(copies_to_experts),
		cmocka_unit_test(popular_experts),
		cmocka_unit_test(newer_devices_are_never_slower),
		cmocka_unit_test(more_engines_are_never_slower),
		cmocka_unit_test(ten_thousand_in_a_second),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
