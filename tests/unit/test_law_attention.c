/* test_law_attention.c: the law of attention alone against its formula counted query by query, and
 * what must hold of it for any numbers; the same of latent attention; the forward pass of training,
 * by the law or by published rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "cost/cost.h"
#include "cost/kernel/laws.h"
#include "rounds.h"

/* Relative room for rounding. */
static const double ROUNDING = 1 + 1e-9;

static uint64_t below(uint64_t seed, uint64_t which, uint64_t count) {
	return (uint64_t)(lk_uniform(seed, which) * (double)count);
}

static const lk_device *device_at_random(uint64_t seed) {
	static const char *const names[] = {"a100-sxm-80", "h100-sxm",     "h200",  "b200",
	                                    "gb200",       "rtx-pro-6000", "mi300x"};
	const lk_device *device = lk_device_find(names[below(seed, 90, 7)]);
	assert_non_null(device);
	return device;
}

static void draw_numbers(const lk_law *law, uint64_t seed, double *out) {
	for (int i = 0; i < law->count; i++) {
		const lk_fit_number *number = &law->numbers[i];
		double u = lk_uniform(seed, 100 + (uint64_t)i);
		out[i] = number->ratio ? number->low * pow(number->high / number->low, u)
		                       : number->low + u * (number->high - number->low);
	}
}

static double size_at_random(uint64_t seed, uint64_t which, double most) {
	return floor(pow(most, lk_uniform(seed, which)));
}

static lk_law_call call_at_random(uint64_t seed) {
	static const double heads[] = {64, 72, 80, 96, 128, 192, 256, 512};
	lk_law_call call = {.device = device_at_random(seed), .format = lk_law_format_find("bf16")};
	double keys = size_at_random(seed, 1, 65536), groups = size_at_random(seed, 2, 64);
	call.size[LK_ATTENTION_BATCH] = size_at_random(seed, 3, 256);
	call.size[LK_ATTENTION_KEYS] = keys;
	call.size[LK_ATTENTION_QUERIES] = lk_uniform(seed, 4) < .5 ? keys : 1;
	call.size[LK_ATTENTION_KV_HEADS] = size_at_random(seed, 5, 32);
	call.size[LK_ATTENTION_HEADS] = call.size[LK_ATTENTION_KV_HEADS] * groups;
	call.size[LK_ATTENTION_HEAD] = heads[below(seed, 6, 8)];
	call.size[LK_ATTENTION_WINDOW] = lk_uniform(seed, 7) < .5 ? 0 : size_at_random(seed, 8, keys);
	call.size[LK_ATTENTION_CAUSAL] = lk_uniform(seed, 9) < .8;
	call.size[LK_ATTENTION_CACHE] = lk_uniform(seed, 10) < .5 ? 1 : 2;
	return call;
}

static double seconds_with(const lk_law *law, const double *numbers, lk_law_call call, int size,
                           double value) {
	call.size[size] = value;
	return law->seconds(numbers, &call);
}

static void more_work_takes_longer(void **state) {
	(void)state;
	const lk_law *law = &lk_law_attention;
	for (int i = 0; i < rounds(5000, 100000); i++) {
		double x[LK_LAW_NUMBERS];
		lk_law_call call = call_at_random((uint64_t)i);
		draw_numbers(law, (uint64_t)i, x);
		double base = law->seconds(x, &call), *size = call.size;
		assert_true(isfinite(base) && base > 0);
		double batch = size[LK_ATTENTION_BATCH], keys = size[LK_ATTENTION_KEYS];
		assert_true(seconds_with(law, x, call, LK_ATTENTION_BATCH, 2 * batch) * ROUNDING >= base);
		lk_law_call longer = call, wider = call;
		longer.size[LK_ATTENTION_KEYS] = keys * 2 + 1;
		if (size[LK_ATTENTION_QUERIES] == keys && keys > 1) {
			longer.size[LK_ATTENTION_QUERIES] = keys * 2 + 1;
			assert_true(law->seconds(x, &longer) * ROUNDING >= base);
		} else if (size[LK_ATTENTION_QUERIES] < keys) {
			assert_true(law->seconds(x, &longer) * ROUNDING >= base);
		}
		wider.size[LK_ATTENTION_HEADS] *= 2;
		wider.size[LK_ATTENTION_KV_HEADS] *= 2;
		assert_true(law->seconds(x, &wider) * ROUNDING >= base);
	}
}

static void shorter_windows_are_not_slower(void **state) {
	(void)state;
	const lk_law *law = &lk_law_attention;
	for (int i = 0; i < rounds(5000, 100000); i++) {
		double x[LK_LAW_NUMBERS];
		lk_law_call call = call_at_random((uint64_t)i);
		draw_numbers(law, (uint64_t)i, x);
		call.size[LK_ATTENTION_CAUSAL] = 1;
		double keys = call.size[LK_ATTENTION_KEYS];
		double window = size_at_random((uint64_t)i, 11, keys);
		double none = seconds_with(law, x, call, LK_ATTENTION_WINDOW, 0),
			   wide = seconds_with(law, x, call, LK_ATTENTION_WINDOW, window),
			   half = seconds_with(law, x, call, LK_ATTENTION_WINDOW, fmax(1, floor(window / 2)));
		assert_true(wide <= none * ROUNDING);
		assert_true(half <= wide * ROUNDING);
		assert_true(fabs(seconds_with(law, x, call, LK_ATTENTION_WINDOW, keys) / none - 1) < 1e-9);
	}
}

/* Keys that each query sees, one by one. */
static double counted_keys(const double *size, double window) {
	double sum = 0, queries = size[LK_ATTENTION_QUERIES];
	for (int i = 0; i < (int)queries; i++)
		sum += fmin(window, size[LK_ATTENTION_KEYS] - queries + i + 1);
	return sum / queries;
}

static void terms_follow_the_formula(void **state) {
	(void)state;
	for (int i = 0; i < rounds(1000, 20000); i++) {
		double x[LK_LAW_NUMBERS];
		lk_law_call call = call_at_random((uint64_t)i);
		const double *size = call.size;
		draw_numbers(&lk_law_attention, (uint64_t)i, x);
		lk_attention_parts parts;
		double seconds = lk_attention_parts_of(x, &call, &parts), p = x[3];
		double heads = size[LK_ATTENTION_BATCH] * size[LK_ATTENTION_HEADS];
		assert_true(fabs(parts.loose - heads * ceil(size[LK_ATTENTION_QUERIES] / 128)) < 1e-6);
		assert_true(parts.packed <= parts.loose);
		assert_true(parts.units >= parts.packed / ROUNDING &&
		            parts.units <= parts.loose * ROUNDING);
		if (size[LK_ATTENTION_CAUSAL] > 0) {
			double waste = parts.keys - counted_keys(size, parts.window);
			assert_true(waste >= -1 && waste <= 128.5);
		} else {
			assert_true(parts.keys == size[LK_ATTENTION_KEYS]);
		}
		double flops = 4 * parts.units * 128 * parts.keys * size[LK_ATTENTION_HEAD];
		assert_true(parts.total * lk_peak_flops(call.device, LK_BF16) * 40 >= flops);
		double sum = pow(parts.total / parts.longest, p) + 1 + pow(parts.memory / parts.longest, p);
		double again = parts.longest * pow(sum, 1 / p) + parts.start;
		if (isfinite(again)) assert_true(fabs(again / seconds - 1) < 1e-6);
	}
}

static void latent_attention_grows_with_work(void **state) {
	(void)state;
	const lk_law *law = &lk_law_mla;
	for (int i = 0; i < rounds(5000, 100000); i++) {
		double x[LK_LAW_NUMBERS];
		uint64_t seed = (uint64_t)i;
		lk_law_call call = {.device = device_at_random(seed), .format = lk_law_format_find("fp8")};
		bool generation = lk_uniform(seed, 1) < .5;
		double keys = size_at_random(seed, 2, 65536);
		call.size[LK_MLA_BATCH] = size_at_random(seed, 3, 256);
		call.size[LK_MLA_KEYS] = keys;
		call.size[LK_MLA_QUERIES] = generation ? 1 : keys;
		call.size[LK_MLA_HEADS] = size_at_random(seed, 4, 128);
		call.size[LK_MLA_PART] = (double)below(seed, 5, 3);
		call.size[LK_MLA_GENERATION] = generation;
		call.size[LK_MLA_CACHE] = 1;
		draw_numbers(law, seed, x);
		double base = law->seconds(x, &call);
		assert_true(isfinite(base) && base > 0);
		for (int size = LK_MLA_BATCH; size <= LK_MLA_HEADS; size++) {
			lk_law_call more = call;
			more.size[size] *= 2;
			if (size == LK_MLA_QUERIES) more.size[LK_MLA_KEYS] *= 2;
			assert_true(law->seconds(x, &more) * ROUNDING >= base);
		}
	}
}

static int ready(void **state) {
	lk_error err;
	(void)state;
	return lk_devices_ready(&err) == LK_OK && lk_calibration_ready(&err) == LK_OK &&
	               lk_cost_ready(&err) == LK_OK
	           ? 0
	           : -1;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_work_takes_longer),
		cmocka_unit_test(shorter_windows_are_not_slower),
		cmocka_unit_test(terms_follow_the_formula),
		cmocka_unit_test(latent_attention_grows_with_work),
	};
	return cmocka_run_group_tests(tests, ready, NULL);
}
