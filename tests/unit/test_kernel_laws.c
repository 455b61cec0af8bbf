/* test_kernel_laws.c: laws of experts, of layers with a state and of quantisation passes: against
 * their formulas counted another way, and what has to hold whatever their numbers are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/stats.h"
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"
#include "fit/fits.h"
#include "rounds.h"
#include "tables/tables.h"

static double random_number(const lk_fit_number *number, uint64_t seed, uint64_t i) {
	double u = lk_uniform(seed, i);
	return number->ratio ? number->low * pow(number->high / number->low, u)
	                     : number->low + (number->high - number->low) * u;
}

static void random_numbers(const lk_law *law, uint64_t seed, double *out) {
	for (int i = 0; i < law->count; i++)
		out[i] = random_number(&law->numbers[i], seed, (uint64_t)i);
}

static const lk_device *random_device(uint64_t seed) {
	static const char *const names[] = {"a100-sxm-80", "h100-sxm", "h200-sxm", "b200", "gb200"};
	const lk_device *device = lk_device_find(names[lk_hash64(seed) % 5]);
	assert_non_null(device);
	return device;
}

static double number_of(const lk_law *law, const double *numbers, const char *name) {
	for (int i = 0; i < law->count; i++)
		if (strcmp(law->numbers[i].name, name) == 0) return numbers[i];
	fail_msg("%s has no number %s", law->family, name);
	return 0;
}

/* ---- experts ---- */

/* The experts of one rank: `rows` spread evenly over its experts, of `tokens` that reach it. */
struct experts_work {
	double rows, tokens, experts, hidden, inter;
	double routed; /* experts of the layer on all ranks, which the router scores */
	bool gated;
};

static void experts_amounts(const struct experts_work *work, lk_law_call *out) {
	static const double heights[LK_EXPERT_TILES] = LK_EXPERT_HEIGHTS;
	double *size = out->size, hit = fmin(work->experts, work->rows);
	size[LK_EXPERTS_TOKENS] = size[LK_EXPERTS_REACH] = work->tokens;
	size[LK_EXPERTS_HIDDEN] = work->hidden;
	size[LK_EXPERTS_INTER] = work->inter;
	size[LK_EXPERTS_EXPERTS] = work->routed;
	size[LK_EXPERTS_TP] = 1;
	size[LK_EXPERTS_GATED] = work->gated;
	size[LK_EXPERTS_ROWS] = size[LK_EXPERTS_CHOICES] = work->rows;
	size[LK_EXPERTS_HIT] = hit;
	for (int t = 0; t < LK_EXPERT_TILES; t++)
		size[LK_EXPERTS_PADDED + t] = hit * ceil(work->rows / hit / heights[t]) * heights[t];
}

static struct experts_work random_experts(uint64_t seed) {
	double experts = exp2(floor(8 * lk_uniform(seed, 30)));
	return (struct experts_work){.rows = ceil(exp2(16 * lk_uniform(seed, 31))),
	                             .tokens = ceil(exp2(14 * lk_uniform(seed, 32))),
	                             .experts = experts,
	                             .hidden = 64 * ceil(128 * lk_uniform(seed, 33)),
	                             .inter = 64 * ceil(128 * lk_uniform(seed, 34)),
	                             .routed = experts * 4,
	                             .gated = lk_uniform(seed, 35) < .7};
}

static double experts_seconds(const double *numbers, const lk_device *device, const char *format,
                              const struct experts_work *work) {
	lk_law_call call = {.device = device, .format = lk_law_format_find(format)};
	experts_amounts(work, &call);
	return lk_law_experts.seconds(numbers, &call);
}

/* Tile by tile and expert by expert. */
static double counted_product(const double *x, const lk_device *device,
                              const struct experts_work *work, double n, double k) {
	const lk_law *law = &lk_law_experts;
	double least = INFINITY, blend = number_of(law, x, "blend");
	double hit = fmin(work->experts, work->rows);
	double weights = 2 * hit * n * k, rows = work->rows * (2 * k + 2 * n);
	double faster = 1 + number_of(law, x, "cache") * exp(-weights / device->l2_bytes);
	double memory = (weights / faster + rows) / number_of(law, x, "memory") / device->memory_rate;
	for (int height = 16; height <= 128; height *= height == 16 ? 4 : 2) {
		double tiles = 0;
		for (int e = 0; e < (int)hit; e++) tiles += ceil(work->rows / hit / height) * ceil(n / 128);
		double full = fmax(1, tiles / device->sms), part = number_of(law, x, "waves");
		double waves = (1 - part) * full + part * ceil(full);
		double rate = number_of(law, x, "efficiency") * lk_peak_flops(device, LK_BF16) *
		              pow(height / 128., number_of(law, x, "tiles"));
		double deep = k + number_of(law, x, "k_extra");
		least = fmin(least, waves * device->sms * 2 * height * 128 * deep / rate);
	}
	return pow(pow(least, blend) + pow(memory, blend), 1 / blend);
}

static void experts_follow_the_formula(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(400, 400 * 20); seed++) {
		double x[LK_LAW_NUMBERS];
		const lk_device *device = random_device(seed);
		struct experts_work work = random_experts(seed);
		random_numbers(&lk_law_experts, seed, x);
		double up = work.gated ? 2 * work.inter : work.inter;
		double moved = number_of(&lk_law_experts, x, "permute") * work.rows * work.hidden +
		               number_of(&lk_law_experts, x, "pass") * work.tokens * work.hidden +
		               number_of(&lk_law_experts, x, "route") * work.tokens * work.routed;
		double plain =
			counted_product(x, device, &work, up, work.hidden) +
			counted_product(x, device, &work, work.hidden, work.inter) +
			moved / device->memory_rate +
			1e-6 * (number_of(&lk_law_experts, x, "start_us") +
		            number_of(&lk_law_experts, x, "expert_us") * fmin(work.experts, work.rows));
		assert_float_equal(experts_seconds(x, device, "bf16", &work) / plain, 1, 1e-6);
	}
}

static void more_work_takes_longer(void **state) {
	(void)state;
	static const char *const formats[] = {"bf16", "fp8_block", "nvfp4"};
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(600, 600 * 20); seed++) {
		double x[LK_LAW_NUMBERS];
		const lk_device *device = random_device(seed);
		const char *format = formats[seed % 3];
		struct experts_work work = random_experts(seed), more = work;
		random_numbers(&lk_law_experts, seed, x);
		x[5] = 0; /* a cache makes a little more data faster than a little less */
		assert_string_equal(lk_law_experts.numbers[5].name, "cache");
		double before = experts_seconds(x, device, format, &work) * (1 - 1e-9);
		more.rows = work.rows * 2;
		more.tokens = work.tokens * 2;
		assert_true(experts_seconds(x, device, format, &more) >= before);
		more = work;
		more.hidden *= 2;
		assert_true(experts_seconds(x, device, format, &more) >= before);
		more = work; /* the same rows, on twice as many experts */
		more.experts *= 2;
		more.rows = work.rows = fmax(work.rows, 256 * more.experts);
		before = experts_seconds(x, device, format, &work) * (1 - 1e-9);
		assert_true(experts_seconds(x, device, format, &more) >= before);
	}
}

/* ---- loads of experts ---- */

static void loads_of_the_busiest_rank(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_expert_loads loads = {0};
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(200, 200 * 20); seed++) {
		double experts = exp2(3 + floor(6 * lk_uniform(seed, 1))),
			   ranks = fmin(experts, exp2(floor(6 * lk_uniform(seed, 2)))),
			   tokens = ceil(exp2(14 * lk_uniform(seed, 3)));
		lk_expert_routing even = {tokens, experts, 8, ranks, 0}, skewed = even;
		const lk_expert_load *load = lk_expert_load_of(&arena, &loads, &even);
		assert_non_null(load);
		assert_float_equal(load->rows, fmax(tokens * 8 / ranks, 1), 1e-6 * load->rows);
		assert_true(load->hit <= experts / ranks && load->reach <= tokens);
		double balanced = load->rows;
		skewed.skew = 1.2;
		load = lk_expert_load_of(&arena, &loads, &skewed);
		assert_non_null(load);
		assert_true(load->hit <= experts / ranks + 1e-9 && load->reach <= tokens);
		assert_true(load->rows <= tokens * experts / ranks + 1e-6);
		/* an expert has at most all tokens; rounding moves half a row an expert */
		if (tokens > 4 * experts && ranks > 1 && experts >= 64)
			assert_true(load->rows + experts > balanced);
		for (int t = 0; t < LK_EXPERT_TILES; t++) assert_true(load->padded[t] >= load->rows - 1e-6);
	}
	lk_arena_free(&arena);
}

/* ---- layers with a state ---- */

static lk_state_layer random_layer(uint64_t seed) {
	return (lk_state_layer){.kernel = (lk_state_kernel)(lk_hash64(seed) % (LK_STATE_MHC_POST + 1)),
	                        .batch = ceil(64 * lk_uniform(seed, 40)),
	                        .length = ceil(exp2(15 * lk_uniform(seed, 41))),
	                        .heads = ceil(64 * lk_uniform(seed, 42)),
	                        .key_heads = 4,
	                        .key_dim = 128,
	                        .value_dim = 64,
	                        .channels = 4096,
	                        .window = 4,
	                        .chunk = 128};
}

static double layer_seconds(const double *numbers, const lk_device *device,
                            const lk_state_layer *layer) {
	lk_law_call call = {.device = device, .format = lk_law_format_find("bf16")};
	lk_state_amounts(layer, &call);
	return lk_law_state.seconds(numbers, &call);
}

static void more_tokens_take_longer(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(600, 600 * 20); seed++) {
		double x[LK_LAW_NUMBERS];
		const lk_device *device = random_device(seed);
		lk_state_layer layer = random_layer(seed), more = layer;
		random_numbers(&lk_law_state, seed, x);
		assert_string_equal(lk_law_state.numbers[2].name, "cache");
		x[2] = 0;
		double before = layer_seconds(x, device, &layer) * (1 - 1e-9);
		assert_true(before > 0);
		more.length += 1;
		assert_true(layer_seconds(x, device, &more) >= before);
		more = layer;
		more.batch *= 2;
		assert_true(layer_seconds(x, device, &more) >= before);
		more = layer;
		more.heads *= 2;
		assert_true(layer_seconds(x, device, &more) >= before);
	}
}

/* x, B, C, y and dt once, fp32 states of chunks written and read: counted element by element. */
static void mamba_moves_its_tensors(void **state) {
	(void)state;
	lk_state_layer layer = {LK_STATE_MAMBA_SCAN, 2, 4096, 64, 8, 128, 64, 0, 0, 256};
	lk_law_call call = {0};
	lk_state_amounts(&layer, &call);
	double tokens = 4096, chunks = tokens / 256;
	double bytes =
		tokens * (2 * 64 * 64 * 2 + 2 * 8 * 128 * 2 + 64 * 4) + chunks * 64 * 64 * 128 * 8;
	assert_float_equal(call.size[LK_STATE_TOKEN_BYTES] * tokens / bytes, 1, 1e-12);
	/* of the masked product with x a half */
	double in_chunks = chunks * 256 * 256 * (2 * 8 * 128 + 64 * 64),
		   with_states = chunks * 2 * 2. * 256 * 64 * 64 * 128;
	assert_float_equal(call.size[LK_STATE_TOKEN_FLOPS] * tokens / (in_chunks + with_states), 1,
	                   1e-12);
}

/* One sequence of one head waits for its chunks; without limits nothing else is left. */
static void chunks_follow_one_another(void **state) {
	(void)state;
	double x[LK_LAW_NUMBERS];
	const lk_device *device = lk_device_find("h100-sxm");
	for (int i = 0; i < lk_law_state.count; i++) x[i] = lk_law_state.numbers[i].start;
	lk_state_layer layer = {LK_STATE_DELTA_SCAN, 1, 1 << 20, 1, 1, 16, 16, 0, 0, 0};
	double chain = layer.length / 64 * number_of(&lk_law_state, x, "step_us") * 1e-6;
	assert_true(layer_seconds(x, device, &layer) >= chain);
	assert_true(layer_seconds(x, device, &layer) < 1.2 * chain);
}

/* ---- quantisation ---- */

static void a_pass_is_start_and_bytes(void **state) {
	(void)state;
	double x[LK_LAW_NUMBERS];
	lk_law_call call = {.device = lk_device_find("h100-sxm"), .format = lk_law_format_find("fp8")};
	for (int i = 0; i < lk_law_quantize.count; i++) x[i] = lk_law_quantize.numbers[i].start;
	call.size[LK_QUANTIZE_M] = 65536;
	call.size[LK_QUANTIZE_K] = 65536;
	call.size[LK_QUANTIZE_BYTES] = 3;
	double bytes = 3. * 65536 * 65536,
		   plain = bytes / (number_of(&lk_law_quantize, x, "memory") * call.device->memory_rate) +
	               65536 * number_of(&lk_law_quantize, x, "row_ns") * 1e-9 +
	               number_of(&lk_law_quantize, x, "start_us") * 1e-6;
	assert_float_equal(lk_law_quantize.seconds(x, &call) / plain, 1, 1e-9);
}

/* ---- dispatch ---- */

static lk_law_call dispatch_call(double tokens, double topk, double experts, double ranks,
                                 double sms) {
	return (lk_law_call){.device = lk_device_find("h100-sxm"),
	                     .format = lk_law_format_find("bf16"),
	                     .size = {[LK_DISPATCH_TOKENS] = tokens,
	                              [LK_DISPATCH_HIDDEN] = 4096,
	                              [LK_DISPATCH_TOPK] = topk,
	                              [LK_DISPATCH_EXPERTS] = experts,
	                              [LK_DISPATCH_RANKS] = ranks,
	                              [LK_DISPATCH_SMS] = sms}};
}

/* Ranks that hold one of each choice of `topk` of `experts`, on average, one choice at a time. */
static double ranks_of_choices(int ranks, int experts, int topk) {
	long long sum = 0, choices = 0;
	for (unsigned set = 0; set < 1u << experts; set++) {
		unsigned reached = 0;
		if (__builtin_popcount(set) != topk) continue;
		for (int e = 0; e < experts; e++)
			if (set >> e & 1) reached |= 1u << e / (experts / ranks);
		sum += __builtin_popcount(reached), choices++;
	}
	return (double)sum / (double)choices;
}

/* Of many tokens the bytes alone count: a copy for each rank of a choice but the own one. */
static void tokens_go_to_each_rank_once(void **state) {
	(void)state;
	static const int cases[][3] = {{2, 8, 1}, {2, 8, 2}, {4, 8, 3}, {8, 16, 2}, {4, 16, 8}};
	double x[LK_LAW_NUMBERS];
	for (int i = 0; i < lk_law_dispatch.count; i++) {
		const char *name = lk_law_dispatch.numbers[i].name;
		bool none = strcmp(name, "repeat") == 0 || strcmp(name, "pass") == 0;
		x[i] = none ? 0 : lk_law_dispatch.numbers[i].start;
		if (strcmp(name, "blend") == 0) x[i] = 1;
	}
	for (int i = 0; i < 5; i++) {
		const int *c = cases[i];
		lk_law_call call = dispatch_call(1e12, c[2], c[1], c[0], 0);
		double copies = ranks_of_choices(c[0], c[1], c[2]) * (1 - 1. / c[0]),
			   wires = number_of(&lk_law_dispatch, x, "link") * call.device->link_rate;
		assert_float_equal(lk_law_dispatch.seconds(x, &call) / (1e12 * 4096 * 2 * copies / wires),
		                   1, 1e-6);
	}
}

/* More tokens, experts of a token, ranks: never faster; more SMs: never slower, and never faster
 * than the links alone. */
static void more_to_send_takes_longer(void **state) {
	(void)state;
	double x[LK_LAW_NUMBERS];
	for (int i = 0; i < lk_law_dispatch.count; i++) x[i] = lk_law_dispatch.numbers[i].start;
	for (double tokens = 1; tokens < 1e5; tokens *= 3)
		for (double topk = 1; topk <= 8; topk++)
			for (double ranks = 2; ranks <= 64; ranks *= 2)
				for (double sms = 4; sms <= 24; sms += 4) {
					lk_law_call call = dispatch_call(tokens, topk, 256, ranks, sms),
								more[] = {dispatch_call(tokens + 1, topk, 256, ranks, sms),
					                      dispatch_call(tokens, topk + 1, 256, ranks, sms),
					                      dispatch_call(tokens, topk, 256, 2 * ranks, sms)},
								less[] = {dispatch_call(tokens, topk, 256, ranks, sms + 4),
					                      dispatch_call(tokens, topk, 256, ranks, 0)};
					double seconds = lk_law_dispatch.seconds(x, &call);
					for (int i = 0; i < 3; i++)
						assert_true(lk_law_dispatch.seconds(x, &more[i]) >= seconds);
					for (int i = 0; i < 2; i++)
						assert_true(lk_law_dispatch.seconds(x, &less[i]) <= seconds);
				}
}

/* ---- fits ---- */

/* Rows that a law made, a tenth of them three times slower: the fit finds the law. */
static void fit_ignores_fallbacks(void **state) {
	(void)state;
	enum { COUNT = 600 };
	static lk_kernel_row rows[COUNT];
	static const lk_kernel_row *pointers[COUNT];
	double truth[LK_LAW_NUMBERS], found[LK_LAW_NUMBERS], misses[COUNT];
	lk_error err;
	for (int i = 0; i < lk_law_experts.count; i++) truth[i] = lk_law_experts.numbers[i].start;
	truth[0] = .83;
	for (uint64_t i = 0; i < COUNT; i++) {
		struct experts_work work = random_experts(i + 7);
		rows[i] = (lk_kernel_row){.law = &lk_law_experts, .refused = "", .shape = i};
		rows[i].call.device = lk_device_find("h100-sxm");
		rows[i].call.format = lk_law_format_find("bf16");
		experts_amounts(&work, &rows[i].call);
		rows[i].seconds = lk_law_experts.seconds(truth, &rows[i].call) * (i % 10 == 0 ? 3 : 1);
		pointers[i] = &rows[i];
	}
	lk_kernel_group group = {pointers, COUNT};
	assert_int_equal(lk_kernel_fit(&group, -1, found, &err), LK_OK);
	for (int i = 0; i < COUNT; i++)
		misses[i] = fabs(log(lk_law_experts.seconds(found, &rows[i].call) / rows[i].seconds));
	assert_true(lk_median(misses, COUNT) < .04);
}

/* ---- estimates by the numbers in use ---- */

static double measured_seconds(const lk_law *law, const char *kind, lk_law_call *call) {
	lk_law_series series = {kind, "bf16", "", "", "", false};
	lk_law_fit fit;
	call->device = lk_device_find("h100-sxm");
	call->format = lk_law_format_find("bf16");
	assert_true(lk_law_find(law, call->device, &series, NULL, &fit));
	return lk_law_seconds(&fit, call);
}

static void estimates_by_measured_numbers(void **state) {
	(void)state;
	/* Qwen3-30B on one GPU: one launch for 128 experts, not one each */
	struct experts_work work = {32768, 4096, 128, 2048, 768, 128, true};
	lk_law_call call = {0};
	experts_amounts(&work, &call);
	double one = measured_seconds(&lk_law_experts, "experts", &call);
	assert_true(one > 6 * work.rows * 2048 * 768 / lk_peak_flops(call.device, LK_BF16));
	assert_true(one < 128 * 34e-6);
	work.rows *= 2;
	work.tokens *= 2;
	experts_amounts(&work, &call);
	assert_true(measured_seconds(&lk_law_experts, "experts", &call) > one);

	lk_state_layer layer = {LK_STATE_DELTA_SCAN, 1, 8192, 32, 16, 128, 128, 0, 0, 0};
	lk_state_amounts(&layer, &call);
	one = measured_seconds(&lk_law_state, "gdn_scan", &call);
	layer.batch = 2;
	lk_state_amounts(&layer, &call);
	assert_true(measured_seconds(&lk_law_state, "gdn_scan", &call) > one && one > 1e-5);
	assert_true(lk_state_backward(LK_STATE_DELTA_SCAN) > lk_state_backward(LK_STATE_CONVOLUTION));
	assert_true(lk_state_backward(LK_STATE_STEP) == 0);
}

static int ready(void **state) {
	(void)state;
	lk_error err;
	return lk_devices_ready(&err) == LK_OK ? 0 : -1;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(experts_follow_the_formula),
		cmocka_unit_test(more_work_takes_longer),
		cmocka_unit_test(tokens_go_to_each_rank_once),
		cmocka_unit_test(more_to_send_takes_longer),
		cmocka_unit_test(loads_of_the_busiest_rank),
		cmocka_unit_test(more_tokens_take_longer),
		cmocka_unit_test(mamba_moves_its_tensors),
		cmocka_unit_test(chunks_follow_one_another),
		cmocka_unit_test(a_pass_is_start_and_bytes),
		cmocka_unit_test(fit_ignores_fallbacks),
		cmocka_unit_test(estimates_by_measured_numbers),
	};
	return cmocka_run_group_tests(tests, ready, NULL);
}
