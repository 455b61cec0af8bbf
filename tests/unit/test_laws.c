/* test_laws.c: laws of isolated kernels: linear layers counted another way, what more work does to
 * a time, numbers carried to other devices, which row is nearest, rows of a user, and what the
 * learned correction may do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "cost/cost.h"
#include "cost/kernel/laws.h"
#include "scratch.h"

enum { DRAWS = 4000 };

static const char *const format_names[] = {"bf16",      "fp8",   "fp8_static",
                                           "fp8_block", "nvfp4", "int4_weight_only"};
static const char *const device_names[] = {"a100-sxm-80", "h100-sxm", "h200",        "b200",
                                           "gb200",       "t4",       "rtx-pro-6000"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static lk_law_call random_call(uint64_t seed, double most_rows) {
	lk_law_call call = {
		.device = lk_device_find(device_names[lk_hash64(seed) % COUNT(device_names)]),
		.format = lk_law_format_find(format_names[lk_hash64(seed + 7) % COUNT(format_names)])};
	assert_true(call.device && call.format);
	call.size[0] = floor(pow(most_rows, lk_uniform(seed, 0)));
	call.size[1] = floor(32 * exp2(10 * lk_uniform(seed, 1)));
	call.size[2] = floor(32 * exp2(10 * lk_uniform(seed, 2)));
	return call;
}

/* Between the limits. */
static void random_numbers(const lk_law *law, uint64_t seed, double *numbers) {
	for (int i = 0; i < law->count; i++) {
		const lk_fit_number *n = &law->numbers[i];
		double at = .1 + .8 * lk_uniform(seed, 100 + (uint64_t)i);
		numbers[i] =
			n->ratio ? n->low * pow(n->high / n->low, at) : n->low + at * (n->high - n->low);
	}
}

static double number(const lk_law *law, const double *numbers, const char *name) {
	for (int i = 0; i < law->count; i++)
		if (strcmp(law->numbers[i].name, name) == 0) return numbers[i];
	fail_msg("%s has no %s", law->family, name);
	return 0;
}

static double power_sum(double a, double b, double c, double p) {
	return pow(pow(a, p) + pow(b, p) + pow(c, p), 1 / p);
}

/* ---- the formulas ---- */

static double cast_seconds(const lk_law *law, const double *x, const lk_law_call *call) {
	const lk_law_format *f = call->format;
	if (f->reads == 0) return 0;
	return (2 * f->reads + f->activation) * call->size[0] * call->size[2] /
	           (number(law, x, "cast") * call->device->memory_rate) +
	       f->reads * number(law, x, "cast_us") * 1e-6 +
	       (law == &lk_law_few ? 0 : f->reads * number(law, x, "cast_row_ns") * 1e-9) *
	           call->size[0];
}

static double few_by_hand(const double *x, const lk_law_call *call) {
	const lk_law *law = &lk_law_few;
	double m = call->size[0], n = call->size[1], k = call->size[2], us = 1e-6;
	double bytes = call->format->activation * m * k + call->format->weight * k * n + m * n * 2;
	double padded = m + fmod(16 - fmod(m, 16), 16), blocks = 0;
	for (double i = 0; i < m; i += 128)
		for (double j = 0; j < n; j += 128) blocks++;
	double full = fmax(1, blocks / call->device->sms);
	double weight = bytes / call->device->memory_rate / number(law, x, "memory");
	double compute = 2 * padded * n * k / lk_peak_flops(call->device, call->format->units) /
	                 number(law, x, "efficiency");
	double chain = number(law, x, "depth_us") * us * exp(number(law, x, "reach") * log(k / 4096)) *
	               pow(full, number(law, x, "spill"));
	return power_sum(weight, compute, chain, number(law, x, "blend")) +
	       number(law, x, "start_us") * us + number(law, x, "row_us") * us * m / 128 +
	       cast_seconds(law, x, call);
}

static double many_by_hand(const double *x, const lk_law_call *call) {
	double m = call->size[0], n = call->size[1], k = call->size[2];
	lk_gemm_numbers gemm = lk_law_product_numbers(x);
	lk_gemm_shape shape = {call->format->units, 1, m, n, k};
	double bytes = call->format->activation * m * k + call->format->weight * k * n + m * n * 2;
	return lk_gemm_formula(&gemm, call->device, &shape, bytes, NULL) +
	       cast_seconds(&lk_law_product, x, call);
}

static void test_formulas(void **state) {
	(void)state;
	double x[LK_LAW_NUMBERS];
	for (uint64_t i = 0; i < DRAWS; i++) {
		lk_law_call call = random_call(i, i % 2 ? LK_LAW_FEW_ROWS : 1e5);
		const lk_law *law = i % 2 ? &lk_law_few : &lk_law_product;
		random_numbers(law, i, x);
		double wanted = i % 2 ? few_by_hand(x, &call) : many_by_hand(x, &call);
		assert_true(fabs(law->seconds(x, &call) / wanted - 1) < 1e-9);
	}
}

/* More rows, columns or depth never take less time: exactly for few rows; the formula of tiles
 * rounds, so there a size is doubled. */
static void test_more_is_not_faster(void **state) {
	(void)state;
	double x[LK_LAW_NUMBERS];
	for (uint64_t i = 0; i < DRAWS; i++) {
		const lk_law *law = i % 2 ? &lk_law_few : &lk_law_product;
		lk_law_call call = random_call(i, i % 2 ? LK_LAW_FEW_ROWS : 1e5), more = call;
		random_numbers(law, i, x);
		if (i % 2) more.size[i / 2 % 3] += 1;
		else more.size[i / 2 % 3] *= 2;
		double before = law->seconds(x, &call), after = law->seconds(x, &more);
		assert_true(before > 0 && isfinite(after));
		if (after < before * (i % 2 ? 1 - 1e-12 : .9))
			fail_msg("%s: %g, %g, %g: %g after %g", law->family, call.size[0], call.size[1],
			         call.size[2], after, before);
	}
}

/* ---- rows ---- */

static void use(lk_calibration_hold *hold, const char *rows) {
	char path[64];
	lk_error err;
	FILE *file = fopen(new_file(path, ".csv"), "w");
	assert_non_null(file);
	fprintf(file,
	        "# lockstep calibration 1\n"
	        "family,subject,variant,numbers,points,error,date,source\n%s",
	        rows);
	fclose(file);
	if (lk_calibration_begin(hold, path, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	remove(path);
}

static lk_law_fit found(const char *device, const lk_law_series *series) {
	lk_law_fit fit;
	assert_true(lk_law_find(&lk_law_few, lk_device_find(device), series, NULL, &fit));
	return fit;
}

/* What runs, and rows from the nearest to the farthest: without the first ones the next is found.
 * The format is one that no built-in row has. */
static void test_nearest(void **state) {
	(void)state;
	static const struct {
		const char *device, *series;
		lk_law_basis basis;
	} rows[] = {
		{"a100-sxm-80", "k lib 1.3.0rc17 sustained", LK_LAW_DEVICE},
		{"a100-sxm-80", "k lib 1.3.0rc15 sustained", LK_LAW_SERIES},
		{"a100-sxm-80", "k lib 1.2.0 sustained", LK_LAW_SERIES},
		{"a100-sxm-80", "k other 1.3.0rc17 sustained", LK_LAW_SERIES},
		{"a100-sxm-80", "k lib 1.3.0rc17 short", LK_LAW_SERIES},
		{"a100-sxm-80", "l lib 1.3.0rc17 sustained", LK_LAW_SERIES},
		{"a100-sxm-80", "l lib 1.3.0rc17 short", LK_LAW_SERIES},
		{"a100-sxm-80", "l other 1.3.0rc17 sustained", LK_LAW_SERIES},
		{"a100-pcie-80", "k lib 1.3.0rc17 sustained", LK_LAW_RELATIVE},
		{"a100-pcie-80", "k lib 1.3.0rc17 short", LK_LAW_RELATIVE},
		{"a40", "k lib 1.3.0rc17 sustained", LK_LAW_COUSIN},
		{"h100-sxm", "k lib 1.3.0rc17 sustained", LK_LAW_ARCHITECTURE},
	};
	const lk_law_series series = {"linear", "mxfp8", "k", "lib", "1.3.0rc17", true};
	for (size_t first = 0; first < COUNT(rows); first++) {
		char text[4096] = "";
		lk_calibration_hold hold;
		if (!lk_device_find(rows[first].device)) fail_msg("%s", rows[first].device);
		for (size_t i = first; i < COUNT(rows); i++)
			snprintf(text + strlen(text), sizeof text - strlen(text),
			         "product_few,%s,linear mxfp8 %s,start_us=%zu,1,0,2026-11-29,test\n",
			         rows[i].device, rows[i].series, i + 10);
		use(&hold, text);
		lk_law_fit fit = found("a100-sxm-80", &series);
		if (number(&lk_law_few, fit.numbers, "start_us") != (double)first + 10)
			fail_msg("row %zu: found %g", first, number(&lk_law_few, fit.numbers, "start_us") - 10);
		assert_int_equal(fit.basis, rows[first].basis);
		lk_calibration_end(&hold);
	}
}

/* Every series on every device: numbers stay within their limits and give a time. */
static void test_carried_numbers(void **state) {
	(void)state;
	for (int d = 0; d < lk_device_count(); d++)
		for (size_t f = 0; f < COUNT(format_names); f++)
			for (int l = 0; l < 2; l++) {
				const lk_law *law = l ? &lk_law_few : &lk_law_product;
				const lk_law_series series = {"linear", format_names[f], "", "", "", false};
				lk_law_call call = {
					lk_device_at(d), lk_law_format_find(format_names[f]), {256, 4096, 4096}};
				lk_law_fit fit;
				assert_true(lk_law_find(law, call.device, &series, NULL, &fit));
				for (int i = 0; i < law->count; i++)
					assert_true(fit.numbers[i] >= law->numbers[i].low * (1 - 1e-5) &&
					            fit.numbers[i] <= law->numbers[i].high * (1 + 1e-5));
				double seconds = lk_law_seconds(&fit, &call);
				assert_true(seconds > 0 && isfinite(seconds) && fit.spread > 0);
				if (fit.basis > LK_LAW_CARRIES) /* trees know relatives alone */
					assert_true(lk_law_corrected(&fit, &series, &call) == seconds);
				else
					assert_true(fabs(log(lk_law_corrected(&fit, &series, &call) / seconds)) < 1.21);
			}
}

static void test_row_of_a_user(void **state) {
	(void)state;
	const lk_law_series series = {"linear", "bf16", "", "trtllm", "", true};
	lk_law_fit fit;
	lk_calibration_hold hold;
	use(&hold, "product,b200,linear bf16 mine trtllm 9 sustained,efficiency=0.123 spread=0.5,1,0,"
	           "2026-11-29,test\n");
	assert_true(lk_law_find(&lk_law_product, lk_device_find("b200"), &series, NULL, &fit));
	assert_true(number(&lk_law_product, fit.numbers, "efficiency") == .123 && fit.spread == .5);
	lk_calibration_end(&hold);
	assert_true(lk_law_find(&lk_law_product, lk_device_find("b200"), &series, NULL, &fit));
	assert_true(number(&lk_law_product, fit.numbers, "efficiency") != .123);
}

static int ready(void **state) {
	(void)state;
	return lk_cost_ready(NULL) == LK_OK ? 0 : -1;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formulas),      cmocka_unit_test(test_more_is_not_faster),
		cmocka_unit_test(test_nearest),       cmocka_unit_test(test_carried_numbers),
		cmocka_unit_test(test_row_of_a_user),
	};
	return cmocka_run_group_tests(tests, ready, NULL);
}
