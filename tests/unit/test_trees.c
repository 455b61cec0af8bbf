/* test_trees.c: boosted trees: they find a function, keep it through text, and refuse text that is
 * none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/stats.h"
#include "base/trees.h"

enum { ROWS = 4000, FEATURES = 3 };

static const lk_trees_options usual = {
	.count = 120, .rate = 0.2, .sample = 0.5, .rows = 5, .limit = 1};

/* Steps, a slope and a product: what trees are asked for. */
static double wanted(const float *x) {
	return (x[0] > 0.5 ? 0.4 : -0.2) + 0.3 * x[1] * x[2];
}

static void draw(uint64_t seed, float *x, float *y) {
	for (size_t i = 0; i < ROWS; i++) {
		for (int f = 0; f < FEATURES; f++)
			x[i * FEATURES + (size_t)f] = (float)lk_uniform(seed, i * FEATURES + (uint64_t)f);
		y[i] = (float)(wanted(&x[i * FEATURES]) + 0.02 * lk_normal(seed + 1, i));
	}
}

static void fit(lk_arena *arena, lk_trees *out) {
	static float x[ROWS * FEATURES], y[ROWS];
	lk_error err;
	draw(11, x, y);
	assert_int_equal(lk_trees_fit(arena, x, y, ROWS, FEATURES, &usual, out, &err), LK_OK);
	assert_int_equal(out->count, usual.count);
}

static void test_fit_finds_a_function(void **state) {
	(void)state;
	static float x[ROWS * FEATURES], y[ROWS];
	static lk_trees trees;
	lk_arena arena = LK_ARENA_INIT;
	double off = 0;
	fit(&arena, &trees);
	draw(77, x, y); /* rows that the fit has not seen */
	for (size_t i = 0; i < ROWS; i++)
		off += fabs(lk_trees_at(&trees, &x[i * FEATURES]) - wanted(&x[i * FEATURES])) / ROWS;
	assert_true(off < 0.015);
	lk_arena_free(&arena);
}

static void test_fits_are_equal(void **state) {
	(void)state;
	static lk_trees one, two;
	lk_arena arena = LK_ARENA_INIT;
	fit(&arena, &one);
	fit(&arena, &two);
	assert_string_equal(lk_trees_text(&arena, &one), lk_trees_text(&arena, &two));
	lk_arena_free(&arena);
}

static void test_text_keeps_every_value(void **state) {
	(void)state;
	static lk_trees trees, back;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	fit(&arena, &trees);
	const char *text = lk_trees_text(&arena, &trees);
	assert_int_equal(lk_trees_read(&arena, text, "here", &back, &err), LK_OK);
	assert_string_equal(lk_trees_text(&arena, &back), text);
	for (uint64_t i = 0; i < 2000; i++) {
		float x[FEATURES];
		for (int f = 0; f < FEATURES; f++)
			x[f] = (float)(2 * lk_uniform(5, i * FEATURES + (uint64_t)f) - 0.5);
		assert_true(lk_trees_at(&trees, x) == lk_trees_at(&back, x));
	}
	lk_arena_free(&arena);
}

/* Any cut of a good text, and any changed byte, is an error or trees that can be asked. */
static void test_damaged_text(void **state) {
	(void)state;
	static lk_trees trees, back;
	static const float x[FEATURES] = {0.3f, 0.6f, 0.9f};
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	static float data[ROWS * FEATURES], y[ROWS];
	lk_trees_options few = usual;
	few.count = 2;
	draw(3, data, y);
	assert_int_equal(lk_trees_fit(&arena, data, y, ROWS, FEATURES, &few, &trees, &err), LK_OK);
	char *text = lk_arena_strdup(&arena, lk_trees_text(&arena, &trees));
	for (size_t i = 0, n = strlen(text); i < n; i++) {
		char keep = text[i];
		text[i] = '\0';
		assert_int_not_equal(lk_trees_read(&arena, text, "here", &back, &err), LK_OK);
		text[i] = "9 -A~\n.e"[i % 8];
		if (lk_trees_read(&arena, text, "here", &back, &err) == LK_OK)
			assert_true(isfinite(lk_trees_at(&back, x)));
		text[i] = keep;
	}
	lk_arena_free(&arena);
}

static void test_no_rows(void **state) {
	(void)state;
	static lk_trees trees;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	float x[FEATURES] = {0}, y = 1;
	assert_int_equal(lk_trees_fit(&arena, x, &y, 0, FEATURES, &usual, &trees, &err), LK_OK);
	assert_true(lk_trees_at(&trees, x) == 0);
	assert_int_equal(lk_trees_fit(&arena, x, &y, 1, FEATURES, &usual, &trees, &err), LK_OK);
	assert_true(isfinite(lk_trees_at(&trees, x)));
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fit_finds_a_function),
		cmocka_unit_test(test_fits_are_equal),
		cmocka_unit_test(test_text_keeps_every_value),
		cmocka_unit_test(test_damaged_text),
		cmocka_unit_test(test_no_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
