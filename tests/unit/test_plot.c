/* test_plot.c: pictures of validations are well-formed XML whatever the names in them, hold a mark
 * per row, stay small, and have marks on their axes wherever the numbers lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"
#include "io/stream.h"
#include "view/report/report.h"
#include "scratch.h"

enum { MOST = 20000 };

static lk_validated rows[MOST];
static lk_accuracy groups[40];
static lk_validation validation;

/* `count` rows in `parts` groups, a tenth off; names[] stand for the parts. */
static lk_validation *invent(int count, int parts, const char *const *names, const char *unit,
                             double low, double high) {
	for (int g = 0; g < parts; g++)
		groups[g] = (lk_accuracy){.by = "gpu", .name = names[g], .scored = count / parts};
	for (int i = 0; i < count; i++) {
		double m = low * pow(high / low, lk_uniform(1, (uint64_t)i)),
			   p = m * exp(0.1 * lk_normal(2, (uint64_t)i));
		rows[i] = (lk_validated){.row = i + 1,
		                         .predicted = p,
		                         .measured = m,
		                         .unit = unit,
		                         .scored = true,
		                         .part = parts > 0 ? names[i % parts] : NULL};
	}
	validation = (lk_validation){.summary.geomean_error = 0.08,
	                             .groups = groups,
	                             .group_count = parts,
	                             .parts = "gpu",
	                             .folds = "(n, k) pair",
	                             .unit_of_rows = "run",
	                             .rows = rows,
	                             .row_count = count,
	                             .source = "some/runs.csv"};
	return &validation;
}

static char *drawn(const lk_validation *v, size_t *size) {
	char path[64], *text;
	lk_error err = {0};
	new_file(path, ".svg");
	if (lk_validate_plot(v, path, &err) != LK_OK) fail_msg("%s", err.what);
	if (lk_stream_slurp(path, 1 << 24, &text, size, &err) != LK_OK) fail_msg("%s", err.what);
	unlink(path);
	return text;
}

static int times(const char *text, const char *word) {
	int count = 0;
	for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) count++;
	return count;
}

static const char *const plain[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};

static void test_points(void **state) {
	(void)state;
	size_t size;
	char *text =
		drawn(invent(100, 2, plain, "s", 1e-3, 10), &size); /* dots and squares: both end in h1 */
	assert_int_equal(times(text, "h1"), 100 + 2);           /* and the legend */
	assert_non_null(strstr(text, ">runs.csv<"));
	assert_non_null(strstr(text, "100 rows, error 8.0 %, cross-validated: (n, k) pair"));
	assert_non_null(strstr(text, ">100 ms<"));
	assert_null(strstr(text, "script"));
	assert_null(strstr(text, "sample"));
	free(text);
}

/* A large table: a fixed part of it, said so, small; the same twice. */
static void test_large(void **state) {
	(void)state;
	size_t size, again;
	char *text = drawn(invent(MOST, 12, plain, "s", 1e-6, 1e3), &size);
	assert_true(size < 200000);
	assert_non_null(strstr(text, "of 20000 rows are drawn"));
	assert_non_null(strstr(text, ">i</text>"));
	assert_null(strstr(text, ">j</text>"));
	assert_non_null(strstr(text, ">others</text>"));
	char *second = drawn(&validation, &again);
	assert_string_equal(text, second);
	free(text);
	free(second);
}

static void test_nothing(void **state) {
	(void)state;
	size_t size;
	lk_validation *v = invent(3, 0, NULL, "s", 1, 2);
	for (int i = 0; i < 3; i++) rows[i].scored = false;
	v->folds = "";
	char *text = drawn(v, &size);
	assert_non_null(strstr(text, "0 rows"));
	assert_null(strstr(text, "nan"));
	free(text);
}

static void test_wellformed(void **state) {
	(void)state;
	static const char *const hostile[] = {
		"<script>&amp;\"'", "\x01\x1b[31m\xff\xc3", "]]>\xef\xbf\xbe\xef\xbf\xbf", "",
		("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6"
	     "\x9c\xac\xe8\xaa\x9e"
	     "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6"
	     "\x9c\xac\xe8\xaa\x9e")};
	static const struct {
		const char *unit;
		double low, high;
	} cases[] = {{"s", 1e-300, 1e300},
	             {"bytes", 1e6, 1e11},
	             {"<&>", 1, 1.01},
	             {"", 0.9, 1.1},
	             {"s", 5e-324, 1e-310}};
	if (system("python3 -c '' 2>/dev/null") != 0) {
		print_message("python3 is not there\n");
		skip();
	}
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t size;
		lk_validation *v = invent(50, 5, hostile, cases[i].unit, cases[i].low, cases[i].high);
		v->source = "x/<a&b>\x02.csv";
		v->folds = "]]><x";
		char *text = drawn(v, &size);
		FILE *check = popen(
			"python3 -c 'import sys, xml.dom.minidom as m; m.parseString(sys.stdin.buffer.read())'",
			"w");
		assert_non_null(check);
		assert_int_equal(fwrite(text, 1, size, check), size);
		assert_int_equal(pclose(check), 0);
		assert_null(strstr(text, "<script"));
		free(text);
	}
}

/* Some marks, not too many, rising, inside. */
static void test_ticks(void **state) {
	(void)state;
	for (uint64_t i = 0; i < 4000; i++) {
		double low = 600 * lk_uniform(3, i) - 300,
			   span = log10(3.1) * pow(10, 2.5 * lk_uniform(4, i));
		double at[LK_PLOT_TICKS], high = fmin(low + span, 308);
		if (high - low < log10(3.1)) continue;
		const char *unit = i % 3 ? "s" : "bytes";
		int count = lk_plot_ticks(low, high, unit, at);
		if (count < 2 || count > 14) fail_msg("%d marks from %g to %g", count, low, high);
		for (int k = 0; k < count; k++) {
			assert_true(log10(at[k]) >= low - 1e-6 && log10(at[k]) <= high + 1e-6);
			if (k > 0) assert_true(at[k] > at[k - 1]);
		}
	}
}

static void test_refused(void **state) {
	(void)state;
	lk_error err = {0};
	assert_int_equal(lk_validate_plot(invent(3, 1, plain, "s", 1, 2), "/nowhere/at/all.svg", &err),
	                 LK_ERR_IO);
	lk_validate_request request;
	lk_validation *v;
	lk_validate_defaults(&request);
	request.table = "tests/data/runs_small.csv";
	request.plot = "picture.jpg";
	assert_int_equal(lk_validate(&request, &v, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "picture.jpg"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),  cmocka_unit_test(test_large),
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_wellformed),
		cmocka_unit_test(test_ticks),   cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
