/* test_measured.c: what a run measured: numbers that people type; logs and exports, written from
 * known numbers and read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "measured/measured.h"

static void assert_near(double found, double expected) {
	if (fabs(found - expected) <= 1e-9 * fabs(expected)) return;
	print_error("%.17g, not %.17g\n", found, expected);
	fail();
}

/* ---- numbers ---- */

static void numbers_are_read_with_their_units(void **state) {
	(void)state;
	static const struct {
		const char *text;
		size_t at;
		double value;
	} cases[] = {
#define AT(member) offsetof(lk_measured, member)
		{"7.2 s", AT(step_s), 7.2},
		{"7200 ms", AT(step_s), 7.2},
		{"1.4 s/it", AT(step_s), 1.4},
		{"3 it/s", AT(step_s), 1.0 / 3},
		{"step time: 2 min", AT(step_s), 120},
		{"200 tok/s", AT(tokens_per_s), 200},
		{"200 tok/s/gpu", AT(tokens_per_s_gpu), 200},
		{"12,345 tokens per second per GPU", AT(tokens_per_s_gpu), 12345},
		{"1.2M tokens/s", AT(tokens_per_s), 1.2e6},
		{"12 samples/sec", AT(samples_per_s), 12},
		{"31 % MFU", AT(mfu), 0.31},
		{"MFU 31%", AT(mfu), 0.31},
		{"mfu=0.31", AT(mfu), 0.31},
		{"412 TFLOP/s/GPU", AT(tflops_gpu), 412},
		{"0.4 PFLOP/s", AT(tflops_gpu), 400},
		{"memory 73 GiB", AT(memory_bytes), 73 * 0x1p30},
		{"73 GB reserved", AT(memory_bytes), 73e9},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_measured said;
		lk_error err;
		if (lk_measured_number(cases[i].text, &said, &err) != LK_OK) {
			print_error("%s: %s\n", cases[i].text, err.what);
			fail();
		}
		assert_near(*(const double *)(const void *)((const char *)&said + cases[i].at),
		            cases[i].value);
		assert_non_null(said.source);
		lk_measured_free(&said);
	}
}

static void several_numbers_are_read_with_commas(void **state) {
	(void)state;
	lk_measured said;
	lk_error err;
	assert_int_equal(lk_measured_number("7.2 s, 1,234 tok/s/gpu and 73 GiB reserved; 8 GPUs, batch "
	                                    "256, seq 4096",
	                                    &said, &err),
	                 LK_OK);
	assert_near(said.step_s, 7.2);
	assert_near(said.tokens_per_s_gpu, 1234);
	assert_near(said.memory_bytes, 73 * 0x1p30);
	assert_int_equal(said.memory_kind, LK_MEMORY_RESERVED);
	assert_int_equal(said.gpus, 8);
	assert_int_equal(said.global_batch, 256);
	assert_int_equal(said.seq_len, 4096);
	lk_measured_free(&said);
}

static void unclear_numbers_are_refused(void **state) {
	(void)state;
	static const char *const texts[] = {"",     "7.2",   "fast",    "7.2 parsecs",  "7 s, 8 s",
	                                    "31 %", "-3 s",  "0 s",     "1e400 s",      "140 % MFU",
	                                    "s",    "7 s 8", "3 s/gpu", "200 tok/s/it", "memory 7.2 s",
	                                    ", ,"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_measured said;
		lk_error err = {0};
		if (lk_measured_number(texts[i], &said, &err) != LK_ERR_INPUT) {
			print_error("'%s' is read\n", texts[i]);
			fail();
		}
		assert_true(*err.what && *err.hint);
		assert_null(said.source);
	}
}

static void numbers_are_distinguished_from_paths(void **state) {
	(void)state;
	assert_true(lk_measured_is_number("7.2 s"));
	assert_true(lk_measured_is_number("memory 73 GiB"));
	assert_false(lk_measured_is_number("run/train.log"));
	assert_false(lk_measured_is_number("-"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_read_with_their_units),
		cmocka_unit_test(several_numbers_are_read_with_commas),
		cmocka_unit_test(unclear_numbers_are_refused),
		cmocka_unit_test(numbers_are_distinguished_from_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
