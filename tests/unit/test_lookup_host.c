/* test_lookup_host.c: lookups on a processor: what the other tables of a step do to one, numbers
 * through a calibration file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"
#include "lookup_numbers.h"

static lk_lookup lookup_of(double rows, double batch, double pooling) {
	return (lk_lookup){
		.batch = batch, .tables = 1, .rows = rows, .dim = 32, .pooling = pooling, .state = 4};
}

static double in_share_of(const lk_lookup *lookup, int tables, bool backward) {
	lk_host_lookup h = lookup_numbers(1);
	lk_host_share share = {0};
	lk_lookup one = *lookup;
	for (int i = 0; i < tables; i++) lk_host_share_add(&share, lookup);
	one.backward = backward;
	return lk_host_lookup_seconds(&h, &one, &share);
}

/* Two tables that the last cache holds each, but not both; two that it holds both; two that it
 * holds neither. */
static void tables_share_the_caches(void **state) {
	(void)state;
	lk_lookup small = lookup_of(50, 5, 4), middle = lookup_of(5000, 500, 8),
			  large = lookup_of(1e6, 20000, 8);
	for (int backward = 0; backward < 2; backward++) {
		assert_true(in_share_of(&small, 2, backward) < 1.05 * in_share_of(&small, 1, backward));
		assert_true(in_share_of(&middle, 2, backward) > 1.3 * in_share_of(&middle, 1, backward));
		assert_true(in_share_of(&large, 2, backward) < 1.05 * in_share_of(&large, 1, backward));
	}
}

/* Of any table: never faster for more tables beside it, and at last as slow as it gets. */
static void more_tables_make_none_faster(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		lk_lookup l =
			lookup_of(ceil(pow(10, 1 + 5 * lk_uniform(seed, 0))),
		              ceil(pow(10, 3 * lk_uniform(seed, 1))), 0.5 + 30 * lk_uniform(seed, 2));
		for (int backward = 0; backward < 2; backward++) {
			double last = in_share_of(&l, 1, backward);
			assert_true(isfinite(last) && last > 0);
			for (int tables = 2; tables <= 64; tables *= 2) {
				double now = in_share_of(&l, tables, backward);
				assert_true(now >= last * (1 - 1e-9));
				last = now;
			}
		}
	}
}

/* As many equal tables in one lookup, or one after the other; all sort in one room. */
static void shares_add_up(void **state) {
	(void)state;
	lk_lookup l = lookup_of(4000, 300, 5), twice = l;
	lk_host_share one = {0}, both = {0}, together = {0};
	twice.tables = 2;
	lk_host_share_add(&one, &l);
	lk_host_share_add(&both, &l);
	lk_host_share_add(&both, &l);
	lk_host_share_add(&together, &twice);
	assert_true(both.bytes == 2 * one.bytes && both.samples == 600 &&
	            both.sorted_bytes == one.sorted_bytes);
	assert_true(together.bytes == both.bytes && together.samples == both.samples &&
	            together.sorted_bytes == both.sorted_bytes);
	lk_host_share mean = lk_host_share_of(&both, 2);
	assert_true(mean.bytes == one.bytes && mean.samples == one.samples);
	lk_lookup nothing = lookup_of(4000, 300, 0);
	lk_host_share_add(&both, &nothing);
	assert_true(both.samples == 600);
}

static void numbers_survive_a_row(void **state) {
	(void)state;
	lk_calibration file = {0};
	lk_calibration_row *row = lk_calibration_add(&file, "lookup", "x", "");
	lk_host_lookup got;
	assert_non_null(row);
	assert_false(lk_host_lookup_of(row, &got));
	assert_string_equal(lk_host_lookup_missing(row), "threads");
	lk_calibration_put(row, "threads", 4);
	assert_string_equal(lk_host_lookup_missing(row), "near_kib");
	for (const char *name; (name = lk_host_lookup_missing(row));) {
		assert_false(lk_host_lookup_of(row, &got));
		lk_calibration_put(row, name, 2);
	}
	assert_true(lk_host_lookup_of(row, &got));
	assert_int_equal(got.threads, 4);
	lk_calibration_free(&file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_share_the_caches),
		cmocka_unit_test(more_tables_make_none_faster),
		cmocka_unit_test(shares_add_up),
		cmocka_unit_test(numbers_survive_a_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
