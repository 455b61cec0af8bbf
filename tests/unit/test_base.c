/* test_base.c: arena, vectors, texts, statistics, interning. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/intern.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/vec.h"
#include "scratch.h"

static uint64_t draw(uint64_t *state) {
	return lk_hash64((*state)++);
}

/* ---- arena and vectors ---- */

static void arena_blocks_do_not_overlap(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	enum { BLOCKS = 3000 };
	static unsigned char *blocks[BLOCKS];
	static size_t sizes[BLOCKS];
	uint64_t seed = 1;
	for (int i = 0; i < BLOCKS; i++) {
		/* mostly small, sometimes larger than a chunk */
		sizes[i] = draw(&seed) % (i % 50 ? 200 : 300000);
		blocks[i] = lk_arena_alloc(&arena, sizes[i]);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % 16, 0);
		for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], 0);
		memset(blocks[i], i & 0xff, sizes[i]);
	}
	for (int i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], i & 0xff);
	}
	assert_true(arena.used > 0);
	lk_arena_free(&arena);
	assert_int_equal(arena.used, 0);
	lk_arena_free(&arena); /* twice is allowed, and so is use afterwards */
	assert_string_equal(lk_arena_strdup(&arena, "again"), "again");
	lk_arena_free(&arena);
}

static void arena_refuses_what_overflows(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	assert_null(lk_arena_array(&arena, SIZE_MAX / 8, 16));
	assert_null(lk_arena_alloc(&arena, SIZE_MAX));
	assert_null(lk_arena_alloc(&arena, SIZE_MAX - 20));
	assert_null(lk_arena_strndup(&arena, "x", SIZE_MAX));
	assert_non_null(lk_arena_alloc(&arena, 0));
	assert_non_null(lk_arena_array(&arena, 0, 0));
	lk_arena_free(&arena);
}

static void arena_copies_text(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	assert_string_equal(lk_arena_strndup(&arena, "abcdef", 3), "abc");
	assert_string_equal(lk_arena_printf(&arena, "%d of %s", 3, "x"), "3 of x");
	char *wide = lk_arena_printf(&arena, "%20000d", 7);
	assert_int_equal(strlen(wide), 20000);
	lk_arena_free(&arena);
}

static void vectors_keep_what_is_pushed(void **state) {
	(void)state;
	LK_VEC(int64_t) v = {0};
	for (int64_t i = 0; i < 10000; i++) {
		assert_true(lk_push(&v));
		assert_int_equal(*lk_last(&v), 0);
		*lk_last(&v) = i * i;
	}
	for (int64_t i = 0; i < 10000; i++) assert_int_equal(v.at[i], i * i);
	assert_true(lk_reserve(&v, 100000));
	assert_true(v.capacity >= 110000);
	size_t capacity = v.capacity;
	assert_false(lk_reserve(&v, SIZE_MAX - 5));
	assert_false(lk_reserve(&v, SIZE_MAX / 4));
	assert_int_equal(v.count, 10000);
	assert_int_equal(v.capacity, capacity);
	lk_vec_fit(&v);
	assert_int_equal(v.capacity, 10000);
	assert_int_equal(v.at[9999], 9999 * 9999);
	assert_true(lk_push(&v));
	lk_vec_free(&v);
	assert_null(v.at);
	assert_int_equal(v.count + v.capacity, 0);
}

/* ---- numbers that are read ---- */

/* strtod is the oracle: every number must come out the same to the last bit, and end at the same
 * place. */
static void same_as_strtod(const char *text) {
	const char *end;
	char *their_end;
	double mine = lk_read_real(text, &end), theirs = strtod(text, &their_end);
	bool same = memcmp(&mine, &theirs, sizeof mine) == 0 && end == their_end;
	if (!same) fail_msg("%s: %.17g, strtod %.17g", text, mine, theirs);
}

static void numbers_read_as_strtod_does(void **state) {
	(void)state;
	static const char *const cases[] = {
		"0",
		"-0",
		"1",
		"+1",
		"1.",
		".5",
		"-.5",
		"1e5",
		"1e+5",
		"1E-5",
		"1e",
		"1e+",
		"1.5x",
		"9007199254740993",
		"1e22",
		"1e23",
		"9007199254740993e3",
		"123456789012345678901234567890",
		"0.000000000000000000000000000001",
		"1e400",
		"-1e400",
		"1e-400",
		"4.9e-324",
		"2.2250738585072011e-308",
		"1.7976931348623157e308",
		"1e99999999999",
		"0e99999999999",
		"1695835653234567.123",
		"18446744073709551615",
		"18446744073709551616",
		"9999999999999999999e22",
		"5e-324",
		"00012",
		"1..2",
		"1e5.5",
		"3e-22",
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) same_as_strtod(cases[i]);
	uint64_t seed = 7;
	for (int i = 0; i < 300000; i++) {
		char text[96];
		uint64_t a = draw(&seed) >> (draw(&seed) % 64), b = draw(&seed) >> (draw(&seed) % 64);
		int power = (int)(draw(&seed) % 60) - 30;
		switch (draw(&seed) % 5) {
		case 0:
			snprintf(text, sizeof text, "%llu.%llu", (unsigned long long)a, (unsigned long long)b);
			break;
		case 1: snprintf(text, sizeof text, "%llue%d", (unsigned long long)a, power); break;
		case 2:
			snprintf(text, sizeof text, "%llu.%03llu", (unsigned long long)a,
			         (unsigned long long)b % 1000);
			break;
		case 3:
			snprintf(text, sizeof text, "-%llu.%llue%d", (unsigned long long)a % 1000,
			         (unsigned long long)b, power);
			break;
		default:
			snprintf(text, sizeof text, "%.*g", (int)(1 + draw(&seed) % 20),
			         ldexp((double)a, power * 16));
			break;
		}
		same_as_strtod(text);
	}
	/* halves between two doubles and their neighbours, the hard cases of rounding */
	for (int i = 0; i < 100000; i++) {
		char text[64];
		uint64_t half =
			(((uint64_t)1 << 52 | draw(&seed) >> 12) << 11) + 0x400 + draw(&seed) % 5 - 2;
		snprintf(text, sizeof text, "%llu", (unsigned long long)half);
		same_as_strtod(text);
		size_t length = strlen(text);
		memmove(text + length - 2, text + length - 3, 4);
		text[length - 3] = '.';
		same_as_strtod(text);
	}
}

/* The digits of a number without zeros at either end, without its exponent. */
static int digits_of(const char *text) {
	int digits = 0, with_zeros = 0;
	for (; *text && *text != 'e'; text++) {
		if (*text < '0' || *text > '9' || (*text == '0' && !with_zeros)) continue;
		with_zeros++;
		if (*text != '0') digits = with_zeros;
	}
	return digits;
}

static void shortest_reads_back_and_is_short(void **state) {
	(void)state;
	char text[64], longer[400];
	const char *end;
	uint64_t seed = 3;
	for (int i = 0; i < 100000; i++) {
		uint64_t bits = draw(&seed);
		double number;
		memcpy(&number, &bits, sizeof number);
		if (!isfinite(number)) continue;
		if (i % 2) number = (double)(bits % 100000) / 1000;
		lk_format_shortest(number, text, sizeof text);
		assert_true(lk_read_real(text, &end) == number);
		assert_int_equal(*end, 0);
		int digits = digits_of(text);
		snprintf(longer, sizeof longer, "%.*g", digits > 15 ? digits - 1 : 15, number);
		assert_true(digits <= 15 || strtod(longer, NULL) != number);
	}
	assert_string_equal(lk_format_shortest(0.1, text, sizeof text), "0.1");
	assert_string_equal(lk_format_shortest(1e15, text, sizeof text), "1000000000000000");
	assert_string_equal(lk_format_shortest(-0.0, text, sizeof text), "-0");
	assert_string_equal(lk_format_shortest(9007199254740993e3, text, sizeof text),
	                    "9.007199254740993e+18");
	assert_string_equal(lk_format_shortest(123456, text, sizeof text), "123456");
}

/* A locale with a decimal comma: one of the machine's, or one made in the folder, from what the
 * package locales has. */
static bool comma_locale(const char *folder) {
	char command[256];
	if (setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8")) return true;
	snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 > /dev/null 2>&1",
	         folder);
	if (system(command) != 0) return false;
	setenv("LOCPATH", folder, 1);
	return setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
}

static void numbers_do_not_depend_on_the_locale(void **state) {
	(void)state;
	char folder[64];
	bool there = comma_locale(new_folder(folder));
	unsetenv("LOCPATH");
	remove_folder(folder);
	if (!there) {
		print_message("no locale with a decimal comma is installed, nor the package locales\n");
		skip();
	}
	assert_string_equal(localeconv()->decimal_point, ",");
	const char *end;
	char text[64];
	assert_true(lk_read_real("0.1234567890123456789012345", &end) == 0x1.f9add3746f65fp-4);
	assert_string_equal(lk_format_shortest(1.5, text, sizeof text), "1.5");
	assert_string_equal(lk_format_seconds(1.53, text, sizeof text), "1.53 s");
	setlocale(LC_NUMERIC, "C");
}

static void strict_numbers(void **state) {
	(void)state;
	lk_error err;
	long long n = 5;
	assert_int_equal(lk_parse_int("42", 1, 64, &n, "--tp", &err), LK_OK);
	assert_int_equal(n, 42);
	assert_int_equal(lk_parse_int("-9223372036854775808", INT64_MIN, INT64_MAX, &n, "", &err),
	                 LK_OK);
	assert_true(n == INT64_MIN);
	static const char *const bad[] = {"",
	                                  " 1",
	                                  "1 ",
	                                  "1.0",
	                                  "0x10",
	                                  "65",
	                                  "0",
	                                  "-1",
	                                  "1e3",
	                                  "++1",
	                                  "-",
	                                  "9223372036854775808",
	                                  "99999999999999999999999",
	                                  "one",
	                                  "1,2"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		n = 5;
		assert_int_equal(lk_parse_int(bad[i], 1, 64, &n, "--tp", &err), LK_ERR_INPUT);
		assert_int_equal(n, 5);
		assert_string_equal(err.where, "--tp");
		assert_non_null(strstr(err.hint, "from 1 to 64"));
	}
	double x = 5;
	static const char *const bad_real[] = {"",   "nan", "inf", "-inf", "0x1p3", "1e999",
	                                       " 1", "1 ",  "1k",  "1.5.", "2",     "-0.1"};
	for (size_t i = 0; i < sizeof bad_real / sizeof *bad_real; i++) {
		assert_int_equal(lk_parse_real(bad_real[i], 0, 1, &x, "--x", &err), LK_ERR_INPUT);
		assert_true(x == 5);
	}
	assert_int_equal(lk_parse_real("1e-3", 0, 1, &x, "--x", &err), LK_OK);
	assert_true(x == 1e-3);
	assert_int_equal(lk_parse_real("-3", -INFINITY, INFINITY, &x, "--x", NULL), LK_OK);
	assert_int_equal(lk_parse_real("1e999", -INFINITY, INFINITY, &x, "--x", NULL), LK_ERR_INPUT);
}

/* A week is seven days of 24 hours, in whatever unit the answer is. */
static void durations_and_dollars(void **state) {
	(void)state;
	static const struct {
		const char *text;
		double hours;
	} good[] = {{"336", 336},   {"336h", 336},  {"14d", 336},    {"2 weeks", 336},
	            {"0.5", 0.5},   {"1d 12h", 36}, {"1d12h", 36},   {"30 min", 0.5},
	            {"5400s", 1.5}, {"1 day", 24},  {"1.5 hr ", 1.5}};
	double x;
	long long n;
	lk_error err;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(lk_parse_duration(good[i].text, 3600, 0, 1e9, &x, "--x", &err), LK_OK);
		assert_true(fabs(x - good[i].hours) < 1e-12);
		assert_int_equal(lk_parse_duration(good[i].text, 60, 0, 1e9, &x, "--x", &err), LK_OK);
		bool bare = !strpbrk(good[i].text, "hdwms");
		assert_true(fabs(x - (bare ? good[i].hours : 60 * good[i].hours)) < 1e-9);
	}
	static const char *const bad[] = {"",       "h",   "14x",  "2 weeks and", "1d 12", "1 12h",
	                                  "2d -1h", "-1d", "1e9d", "d14",         "1d,2h", " "};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(lk_parse_duration(bad[i], 3600, 0, 1e9, &x, "--x", &err), LK_ERR_INPUT);

	assert_int_equal(lk_parse_dollars("$100k", 0, 1e9, &x, "--x", &err), LK_OK);
	assert_true(x == 1e5);
	assert_int_equal(lk_parse_dollars("250", 0, 1e9, &x, "--x", &err), LK_OK);
	assert_true(x == 250);
	assert_int_equal(lk_parse_dollars("$100,000", 0, 1e9, &x, "--x", &err), LK_OK);
	assert_true(x == 100000);
	assert_int_equal(lk_parse_dollars("1,234,567.50", 0, 1e9, &x, "--x", &err), LK_OK);
	assert_true(x == 1234567.5);
	static const char *const no_thousands[] = {"1,23",   "1234,567", ",100",
	                                           "1,2345", "1,000,",   "1,000,00"};
	for (size_t i = 0; i < sizeof no_thousands / sizeof *no_thousands; i++)
		assert_int_equal(lk_parse_dollars(no_thousands[i], 0, 1e9, &x, "--x", &err), LK_ERR_INPUT);
	assert_int_equal(lk_parse_dollars("$$1", 0, 1e9, &x, "--x", &err), LK_ERR_INPUT);
	assert_int_equal(lk_parse_dollars("$", 0, 1e9, &x, "--x", &err), LK_ERR_INPUT);
	assert_string_equal(err.what, "\"$\" is not an amount of US dollars");
	assert_int_equal(lk_parse_dollars("$1,250,000.50", 0, 1e9, &x, "--x", &err), LK_OK);
	assert_true(x == 1250000.5);

	assert_int_equal(lk_parse_whole("8k", 1, 1 << 24, &n, "--seq", &err), LK_OK);
	assert_int_equal(n, 8000);
	assert_int_equal(lk_parse_whole("1Ki", 1, 1 << 24, &n, "--seq", &err), LK_OK);
	assert_int_equal(n, 1024);
	assert_int_equal(lk_parse_whole("1.5k", 1, 1 << 24, &n, "--seq", &err), LK_OK);
	assert_int_equal(n, 1500);
	assert_int_equal(lk_parse_whole("1e4", 1, 1 << 24, &n, "--seq", &err), LK_OK);
	assert_int_equal(n, 10000);
	assert_int_equal(lk_parse_whole("8192.0", 1, 1 << 24, &n, "--seq", &err), LK_OK);
	assert_int_equal(n, 8192);
	static const char *const parts[] = {"1.5", "0.0001k", "1kk", "k", "99G", "1e300T"};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		assert_int_equal(lk_parse_whole(parts[i], 1, 1 << 24, &n, "--seq", &err), LK_ERR_INPUT);
}

static void counts_and_bools(void **state) {
	(void)state;
	static const struct {
		const char *text;
		double number;
	} good[] = {{"15T", 15e12},      {"1.5k", 1500},      {"64Ki", 65536},  {"2Mi", 2097152},
	            {"1Gi", 1073741824}, {"3G", 3e9},         {"1B", 1e9},      {"2.5B", 25e8},
	            {"10M", 1e7},        {"1K", 1e3},         {"7", 7},         {"15 T", 15e12},
	            {"300b", 3e11},      {"15m", 15e6},       {"2t", 2e12},     {"1,500,000", 15e5},
	            {"100,000", 1e5},    {"1,000.5", 1000.5}, {"12,000k", 12e6}};
	double x;
	lk_error err;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(lk_parse_count(good[i].text, 0, 1e18, &x, "--tokens", &err), LK_OK);
		assert_true(x == good[i].number);
	}
	static const char *const bad[] = {"",  "T",  "15 T T", "15TB",  "1,5",    "1,50,000", "15BB",
	                                  "B", "-1", "1e300T", "15Tii", "1,0000", "1000,000", ",100"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(lk_parse_count(bad[i], 0, 1e18, &x, "--tokens", &err), LK_ERR_INPUT);
	}
	bool b;
	assert_int_equal(lk_parse_bool("True", &b, "", &err), LK_OK);
	assert_true(b);
	assert_int_equal(lk_parse_bool("off", &b, "", &err), LK_OK);
	assert_false(b);
	assert_int_equal(lk_parse_bool("maybe", &b, "", &err), LK_ERR_INPUT);
}

/* ---- numbers for people ---- */

static void formats(void **state) {
	(void)state;
	typedef char *format(double number, char *out, size_t size);
	static const struct {
		format *format;
		double number;
		const char *text;
	} cases[] = {
		{lk_format_seconds, 1.53, "1.53 s"},
		{lk_format_seconds, 812e-6, "812 us"},
		{lk_format_seconds, 0, "0 s"},
		{lk_format_seconds, 0.99996, "1 s"},
		{lk_format_seconds, 90, "90 s"},
		{lk_format_seconds, 600, "10 min"},
		{lk_format_seconds, 86400 * 36.2, "36.2 days"},
		{lk_format_seconds, -2e-9, "-2 ns"},
		{lk_format_seconds, NAN, "n/a"},
		{lk_format_seconds, INFINITY, "infinite"},
		{lk_format_bytes, 73.6 * 0x1p30, "73.6 GiB"},
		{lk_format_bytes, 512, "512 B"},
		{lk_format_bytes, 1024, "1 KiB"},
		{lk_format_rate, 1.8e12, "1.8 TB/s"},
		{lk_format_rate, 450e9, "450 GB/s"},
		{lk_format_count, 405.9e9, "405.9 G"},
		{lk_format_count, 70.6e9, "70.6 G"},
		{lk_format_count, 12, "12"},
		{lk_format_thousands, 1012, "1,012"},
		{lk_format_thousands, 11234, "11,234"},
		{lk_format_thousands, -1234567, "-1,234,567"},
		{lk_format_thousands, 999.6, "1,000"},
		{lk_format_thousands, 0.2, "0"},
	};
	char text[64];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_string_equal(cases[i].format(cases[i].number, text, sizeof text), cases[i].text);
	}
	/* whatever the number: it fits, and two digits of it are right */
	uint64_t seed = 5;
	for (int i = 0; i < 100000; i++) {
		uint64_t bits = draw(&seed);
		double number;
		memcpy(&number, &bits, sizeof number);
		char small[8], full[400];
		assert_true(strlen(lk_format_seconds(number, small, sizeof small)) < sizeof small);
		double bytes = pow(10, (double)(bits % 1500) / 100);
		lk_format_rate(bytes, full, sizeof full);
		static const char units[] = " kMGTP";
		const char *unit = strchr(full, ' ') + 1;
		double factor = *unit == 'B' ? 1 : pow(1000, (double)(strchr(units, *unit) - units));
		assert_true(fabs(strtod(full, NULL) * factor / bytes - 1) < 0.006);
	}
}

/* ---- names ---- */

static void names(void **state) {
	(void)state;
	assert_true(lk_same_name("H100-SXM_80", "h100 sxm.80"));
	assert_true(lk_same_name("", "-_."));
	assert_false(lk_same_name("h100", "h1000"));
	assert_false(lk_same_name("h100", "a100"));
	static const char *const options[] = {"tp",          "pp",    "dp", "tokens", "sequence-length",
	                                      "micro-batch", "output"};
	size_t n = sizeof options / sizeof *options;
	assert_string_equal(lk_nearest("tpp", options, n), "tp");
	assert_string_equal(lk_nearest("tokesn", options, n), "tokens");
	assert_string_equal(lk_nearest("seq", options, n), "sequence-length");
	assert_string_equal(lk_nearest("Sequence_Lenght", options, n), "sequence-length");
	assert_string_equal(lk_nearest("microbatch", options, n), "micro-batch");
	assert_null(lk_nearest("zzzzzz", options, n));
	static const char *const short_names[] = {"md", "csv"};
	assert_null(lk_nearest("xml", short_names, 2));
	assert_string_equal(lk_nearest("mdd", short_names, 2), "md");
	assert_null(lk_nearest("", options, n));
	assert_null(lk_nearest("tp", options, 0));
	char huge[1000];
	memset(huge, 'a', sizeof huge - 1);
	huge[sizeof huge - 1] = '\0';
	assert_null(lk_nearest(huge, options, n));
}

static void one_slip_is_always_found(void **state) {
	(void)state;
	static const char *const options[] = {"pipeline-schedule", "recompute-granularity",
	                                      "expert-parallel"};
	uint64_t seed = 11;
	for (int i = 0; i < 2000; i++) {
		const char *meant = options[draw(&seed) % 3];
		char typed[64];
		lk_copy(typed, sizeof typed, meant);
		size_t at = draw(&seed) % (strlen(typed) - 1);
		switch (draw(&seed) % 3) {
		case 0: typed[at] = 'q'; break;
		case 1: memmove(typed + at, typed + at + 1, strlen(typed + at)); break;
		default: {
			char c = typed[at];
			typed[at] = typed[at + 1];
			typed[at + 1] = c;
		}
		}
		assert_string_equal(lk_nearest(typed, options, 3), meant);
	}
}

/* ---- escapes ---- */

static void escapes(void **state) {
	(void)state;
	char out[64];
	assert_string_equal(lk_escape("a\033[1m\nb\x7f", out, sizeof out), "a\\x1b[1m\\x0ab\\x7f");
	assert_string_equal(lk_escape("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", out, sizeof out),
	                    "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_string_equal(lk_escape("\xff\xc3(\xed\xa0\x80", out, sizeof out),
	                    "\\xff\\xc3(\\xed\\xa0\\x80");
	assert_string_equal(lk_escape("\xc2\x9b"
	                              "1m",
	                              out, sizeof out),
	                    "\\xc2\\x9b1m");
	/* what turns the order around, and line separators; not their neighbours */
	assert_string_equal(lk_escape("\xe2\x80\xae"
	                              "b\xe2\x81\xa6\xe2\x80\xa8",
	                              out, sizeof out),
	                    "\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xe2\\x80\\xa8");
	assert_string_equal(
		lk_escape("\xe2\x80\xaf\xe2\x80\xa7\xe2\x81\xa5\xe2\x81\xaa\xc2\xa0", out, sizeof out),
		"\xe2\x80\xaf\xe2\x80\xa7\xe2\x81\xa5\xe2\x81\xaa\xc2\xa0");
	assert_string_equal(lk_escape("ab\n", out, 6), "ab"); /* no half escape */
	assert_string_equal(lk_escape("\xe2\x82\xac", out, 3), "");
	/* whatever the bytes: what comes out is UTF-8 without control characters and fits */
	uint64_t seed = 2;
	for (int i = 0; i < 50000; i++) {
		char in[32];
		size_t size = 1 + draw(&seed) % sizeof out;
		for (size_t k = 0; k < sizeof in - 1; k++) in[k] = (char)(1 + draw(&seed) % 255);
		in[sizeof in - 1] = '\0';
		lk_escape(in, out, size);
		size_t left = strlen(out);
		assert_true(left < size);
		for (const char *p = out; left;) {
			size_t length = lk_utf8_length(p, left);
			assert_true(length >= 1 && (length > 1 || (*p >= 0x20 && *p < 0x7f)));
			p += length;
			left -= length;
		}
	}
}

/* All sequences of up to four bytes against an encoder: exactly the encodings of scalar values are
 * accepted. */
static void utf8_lengths(void **state) {
	(void)state;
	size_t accepted = 0;
	for (uint32_t lead = 0x80; lead < 0x100; lead++) {
		for (uint32_t second = 0; second < 0x100; second++) {
			for (uint32_t last = 0x80; last < 0xc0; last++) {
				char text[4] = {(char)lead, (char)second, (char)last, (char)last};
				size_t length = lk_utf8_length(text, 4);
				assert_int_equal(lk_utf8_length(text, length ? length - 1 : 4), 0);
				if (!length) continue;
				accepted++;
				uint32_t tail = last & 0x3f;
				uint32_t code =
					length == 2   ? (lead & 0x1f) << 6 | (second & 0x3f)
					: length == 3 ? (lead & 0x0f) << 12 | (second & 0x3f) << 6 | tail
								  : (lead & 0x07) << 18 | (second & 0x3f) << 12 | tail << 6 | tail;
				assert_true(code >= (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u));
				assert_true(code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000));
			}
		}
	}
	/* 30 leads of two bytes, 16 of three (two of them limited), 5 of four (two limited), 64 last
	 * bytes each */
	assert_int_equal(accepted, (30 * 64 + (16 * 64 - 64) + (5 * 64 - 16 - 48)) * 64);
}

static void errors_are_one_line(void **state) {
	(void)state;
	lk_error err;
	char out[1024];
	assert_int_equal(lk_fail(&err, LK_ERR_INPUT, "f.json:1:2", "bad \"%s\"", "a\nb"), LK_ERR_INPUT);
	assert_string_equal(lk_error_text(&err, out, sizeof out), "f.json:1:2: bad \"a\\x0ab\"");
	assert_int_equal(lk_hint(&err, "do %d", 7), LK_ERR_INPUT);
	assert_string_equal(lk_error_text(&err, out, sizeof out), "f.json:1:2: bad \"a\\x0ab\"; do 7");
	/* an error may be wrapped with parts of itself */
	lk_fail(&err, LK_ERR_IO, err.where, "%s, then more", err.what);
	assert_string_equal(lk_error_text(&err, out, sizeof out),
	                    "f.json:1:2: bad \"a\\x0ab\", then more");
	assert_int_equal(lk_oom(&err), LK_ERR_MEMORY);
	assert_string_equal(lk_error_text(&err, out, sizeof out), "out of memory");
	assert_int_equal(lk_fail(NULL, LK_ERR_IO, NULL, "x"), LK_ERR_IO);
	assert_string_equal(lk_error_text(&err, out, 4), "out");
}

/* ---- interning ---- */

static void interning(void **state) {
	(void)state;
	lk_intern *intern = lk_intern_new();
	assert_non_null(intern);
	assert_int_equal(lk_intern_id(intern, ""), 0);
	enum { NAMES = 20000 };
	char name[32];
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; i < NAMES; i++) {
			snprintf(name, sizeof name, "aten::op%*u", (int)(i % 13), i);
			assert_int_equal(lk_intern_id(intern, name), i);
		}
	}
	assert_int_equal(lk_intern_count(intern), NAMES);
	snprintf(name, sizeof name, "aten::op%*u", 7, 20u);
	assert_int_equal(lk_intern_find(intern, name), 20);
	assert_string_equal(lk_intern_text(intern, 20), name);
	assert_int_equal(lk_intern_find(intern, "absent"), UINT32_MAX);
	assert_string_equal(lk_intern_text(intern, UINT32_MAX), "");
	lk_intern_free(intern);
	lk_intern_free(NULL);
}

/* Ids stay, what is added later is the table's own, and the pool outlives whoever made it. */
static void interned_texts_are_shared(void **state) {
	(void)state;
	static const char *const texts[2][3] = {{"mm", "add", "copy"}, {"copy", "relu", "mm"}};
	lk_intern *pool = lk_intern_new(), *table[2];
	for (int t = 0; t < 2; t++) {
		table[t] = lk_intern_new();
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(lk_intern_id(table[t], texts[t][i]), i + 1);
		assert_true(lk_intern_share(table[t], pool));
	}
	lk_intern_free(pool);
	assert_ptr_equal(lk_intern_text(table[0], 3), lk_intern_text(table[1], 1));
	assert_int_equal(lk_intern_bytes_used(table[0]), 0);
	lk_intern_free(table[0]);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(lk_intern_find(table[1], texts[1][i]), i + 1);
		assert_string_equal(lk_intern_text(table[1], i + 1), texts[1][i]);
	}
	assert_int_equal(lk_intern_id(table[1], "later"), 4);
	assert_string_equal(lk_intern_text(table[1], 4), "later");
	lk_intern_free(table[1]);
}

/* ---- statistics ---- */

static void quantiles(void **state) {
	(void)state;
	double x[] = {3, 1, 2, 4};
	assert_true(lk_median(x, 4) == 2.5);
	assert_true(lk_quantile(x, 4, 0) == 1 && lk_quantile(x, 4, 1) == 4);
	assert_true(fabs(lk_quantile(x, 4, 0.25) - 1.75) < 1e-12);
	/* without memory to sort them in: the same number, to the last bit */
	const double mixed[] = {3, -1e300, 0, 5e-324, 3, -2.5, INFINITY, 1e-9, 7, -0.0, 3};
	for (double q = 0; q <= 1; q += 0.03125)
		assert_true(lk_quantile(mixed, 10, q) == lk_quantile_unsorted(mixed, 10, q));
	assert_true(x[0] == 3); /* the array is not sorted in place */
	assert_true(isnan(lk_median(x, 0)) && isnan(lk_quantile(x, 4, -0.1)) &&
	            isnan(lk_quantile(x, 4, NAN)));
	double equal[10] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
	assert_true(lk_mean(equal, 10) == 0.1);
	assert_true(isnan(lk_mean(equal, 0)));
	double infinite[] = {1, INFINITY};
	assert_true(lk_quantile(infinite, 2, 0) == 1);
	const double sorted[] = {0, 4, 5, 5.5, 9};
	double low, high;
	lk_shortest(sorted, 5, 3, &low, &high);
	assert_true(low == 4 && high == 5.5);
	lk_shortest(sorted, 5, 5, &low, &high);
	assert_true(low == 0 && high == 9);
	lk_shortest(sorted, 5, 1, &low, &high);
	assert_true(low == high);
	assert_true(lk_ends_in("a.csv.gz", ".gz") && lk_ends_in(".gz", ".gz") &&
	            !lk_ends_in("gz", ".gz") && lk_ends_in("", ""));
	/* at least q of the values are not above the quantile, and it never falls as q rises */
	uint64_t seed = 9;
	for (int round = 0; round < 500; round++) {
		double values[40];
		size_t n = 1 + draw(&seed) % 40;
		for (size_t i = 0; i < n; i++) values[i] = (double)(draw(&seed) % 20);
		double before = -1;
		for (int k = 0; k <= 20; k++) {
			double q = k / 20.0, v = lk_quantile(values, n, q);
			size_t not_above = 0;
			for (size_t i = 0; i < n; i++) not_above += values[i] <= v;
			assert_true((double)not_above >= floor(q * (double)(n - 1)) + 1);
			assert_true(v >= before);
			before = v;
		}
	}
}

static void kendall(void **state) {
	(void)state;
	double up[] = {1, 2, 3, 4, 5}, down[] = {5, 4, 3, 2, 1}, flat[] = {2, 2, 2, 2, 2};
	assert_true(fabs(lk_kendall_tau(up, up, 5) - 1) < 1e-12);
	assert_true(fabs(lk_kendall_tau(up, down, 5) + 1) < 1e-12);
	assert_true(isnan(lk_kendall_tau(up, flat, 5)) && isnan(lk_kendall_tau(up, up, 1)) &&
	            isnan(lk_kendall_tau(up, up, 0)));
	/* four concordant and one discordant pair of six, one tie in x, none in y: 3 / sqrt(5 * 6) */
	double x[] = {1, 2, 2, 3}, y[] = {1, 3, 2, 2.5};
	assert_true(fabs(lk_kendall_tau(x, y, 4) - 3 / sqrt(30)) < 1e-12);
}

static void random_numbers(void **state) {
	(void)state;
	enum { N = 200000 };
	static double u[N], z[N];
	size_t bins[16] = {0};
	double square = 0;
	for (size_t i = 0; i < N; i++) {
		u[i] = lk_uniform(42, i);
		z[i] = lk_normal(42, i);
		assert_true(u[i] > 0 && u[i] < 1 && isfinite(z[i]));
		bins[(int)(u[i] * 16)]++;
		square += z[i] * z[i];
	}
	/* five deviations of the binomial count */
	for (int b = 0; b < 16; b++) assert_true(fabs((double)bins[b] - N / 16.0) < 5 * sqrt(N / 16.0));
	assert_true(fabs(lk_mean(z, N)) < 5 / sqrt(N));
	assert_true(fabs(square / N - 1) < 5 * sqrt(2.0 / N));
	assert_true(fabs(lk_quantile(z, N, 0.975) - 1.96) < 0.03);
	assert_true(lk_uniform(42, 5) == u[5] && lk_uniform(43, 5) != u[5]);
	/* splitmix64 from state 0, the first value of the published generator */
	assert_true(lk_hash64(0) == 0xe220a8397b1dcdafu);
}

static void texts_grow_within_their_bounds(void **state) {
	(void)state;
	for (size_t size = 1; size < 24; size++) {
		char at[32], whole[64] = "";
		memset(at, 'x', sizeof at);
		lk_text text = lk_text_begin(at, size);
		assert_string_equal(at, "");
		for (int i = 0; i < 6; i++) {
			lk_text_add(&text, "%s%d", i ? ", " : "", i * 37);
			snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%s%d", i ? ", " : "",
			         i * 37);
			assert_int_equal(strlen(at), text.used);
			assert_int_equal(text.used, strlen(whole) < size ? strlen(whole) : size - 1);
			assert_memory_equal(at, whole, text.used);
			assert_int_equal(lk_text_full(&text), strlen(whole) + 1 >= size);
		}
		for (size_t i = size; i < sizeof at; i++) assert_int_equal(at[i], 'x');
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_blocks_do_not_overlap),
		cmocka_unit_test(arena_refuses_what_overflows),
		cmocka_unit_test(arena_copies_text),
		cmocka_unit_test(texts_grow_within_their_bounds),
		cmocka_unit_test(vectors_keep_what_is_pushed),
		cmocka_unit_test(numbers_read_as_strtod_does),
		cmocka_unit_test(shortest_reads_back_and_is_short),
		cmocka_unit_test(numbers_do_not_depend_on_the_locale),
		cmocka_unit_test(strict_numbers),
		cmocka_unit_test(counts_and_bools),
		cmocka_unit_test(durations_and_dollars),
		cmocka_unit_test(formats),
		cmocka_unit_test(names),
		cmocka_unit_test(one_slip_is_always_found),
		cmocka_unit_test(escapes),
		cmocka_unit_test(utf8_lengths),
		cmocka_unit_test(errors_are_one_line),
		cmocka_unit_test(interning),
		cmocka_unit_test(interned_texts_are_shared),
		cmocka_unit_test(quantiles),
		cmocka_unit_test(kendall),
		cmocka_unit_test(random_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
