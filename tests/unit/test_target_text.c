/* test_target_text.c: nothing of a program's text gets into a source but as identifiers, numbers,
 * escaped comments and strings; numbers of generated programs against the interpreter's formats;
 * sizes that overflow; loops of passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/stats.h"
#include "lang/run/run_internal.h"
#include "lang/emit/emit_internal.h"
#include "lang/syntax/parse.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include "../../data/target/numbers.h"

/* ---- text ---- */

static char *captured(void (*put)(const char *, FILE *), const char *text) {
	char *out = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&out, &size);
	assert_non_null(file);
	put(text, file);
	assert_int_equal(fclose(file), 0);
	return out;
}

static void comment(const char *text, FILE *out) {
	lc_put_comment(text, " * ", out);
}

static void test_identifiers(void **state) {
	char out[LC_IDENTIFIER], seen[256][LC_IDENTIFIER];
	(void)state;
	assert_string_equal(lc_identifier("v_", "gr", out), "v_gr");
	assert_string_equal(lc_identifier("v_", "int", out), "v_int");
	for (int c = 1; c < 256; c++) {
		char name[] = {'a', (char)c, '\0'};
		lc_identifier("v_", name, seen[c]);
		for (const char *at = seen[c]; *at; at++)
			assert_true(*at == '_' || (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
			            (*at >= 'A' && *at <= 'Z'));
		for (int other = 1; other < c; other++) assert_string_not_equal(seen[c], seen[other]);
	}
	char longest[2 * LC_IDENTIFIER];
	memset(longest, '"', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	assert_true(strlen(lc_identifier("v_", longest, out)) < LC_IDENTIFIER);
}

/* No end of the comment, no beginning of another, no line that goes on, no trigraph, no control
 * character. */
static void test_comments(void **state) {
	static const char pieces[] = {'*', '/', '\\', '?', '\n', 'a', '\r', 1, 127, '\t'};
	uint64_t seed = 5000000;
	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[16];
		for (size_t k = 0; k < sizeof text - 1; k++)
			text[k] = pieces[lk_hash64(seed++) % sizeof pieces];
		text[sizeof text - 1] = '\0';
		char *out = captured(comment, text);
		assert_null(strstr(out, "*/"));
		assert_null(strstr(out, "/*"));
		assert_null(strstr(out, "\\\n"));
		assert_null(strstr(out, "\?\?"));
		for (const char *at = out; *at; at++)
			assert_true(*at == '\n' || *at == '\t' || ((unsigned char)*at >= ' ' && *at != 127));
		free(out);
	}
}

static void test_strings(void **state) {
	char all[256];
	(void)state;
	for (int c = 1; c < 256; c++) all[c - 1] = (char)c;
	all[255] = '\0';
	char *out = captured(lc_put_string, all);
	size_t length = strlen(out);
	assert_true(out[0] == '"' && out[length - 1] == '"');
	for (size_t i = 1; i + 1 < length; i++) {
		assert_true(out[i] >= ' ' && out[i] < 127 && out[i] != '"' && out[i] != '?');
		if (out[i] != '\\') continue;
		assert_true(out[i + 1] == '"' || out[i + 1] == '\\' ||
		            (out[i + 1] >= '0' && out[i + 1] <= '3'));
		i += out[i + 1] >= '0' && out[i + 1] <= '3' ? 3 : 1;
	}
	free(out);
}

static void test_numbers_read_back(void **state) {
	uint64_t seed = 5000000;
	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[64] = "";
		uint64_t bits = lk_hash64(seed++);
		double number;
		memcpy(&number, &bits, sizeof number);
		if (!isfinite(number)) continue;
		for (int format = LC_F64; format <= LC_F32; format++) {
			FILE *file = fmemopen(text, sizeof text, "w");
			assert_non_null(file);
			lc_put_number(number, (lc_dtype)format, file);
			fclose(file);
			assert_non_null(strpbrk(text, ".eI"));
			if (format == LC_F64) assert_true(strtod(text, NULL) == number);
			else if (!strstr(text, "INF"))
				assert_true(strtof(text, NULL) == (float)number && text[strlen(text) - 1] == 'f');
			else assert_true(isinf((float)number));
		}
	}
}

/* ---- the runtime's formats ---- */

static void hold(lc_dtype format, float x, float got) {
	double wanted = lc_round(format, (double)x);
	if (isnan(wanted) && isnan(got)) return;
	if (wanted != (double)got || !signbit(wanted) != !signbit(got))
		fail_msg("%s of %a: %a, not %a", lc_dtype_name(format), (double)x, (double)got, wanted);
}

static void test_formats(void **state) {
	uint64_t seed = 5000000;
	(void)state;
	for (int i = 0; i < 400000; i++) {
		float x = rt_float((uint32_t)lk_hash64(seed++));
		hold(LC_F16, x, rt_round_f16(x));
		hold(LC_BF16, x, rt_round_bf16(x));
		hold(LC_F8, x, rt_round_f8(x));
	}
	for (int i = 0; i < 400000; i++) { /* doubles near to halfway */
		uint64_t u = lk_hash64(seed++);
		double x = (double)rt_from_f16((uint16_t)(u % 0x7c00)) *
		           (1 + ldexp(1, -11) * (1 + ldexp(1, -(int)(u >> 32) % 40)));
		if (lc_round(LC_F16, x) != (double)rt_round_f16(rt_odd(x))) fail_msg("f16 of %a", x);
		if (lc_round(LC_BF16, x) != (double)rt_round_bf16(rt_odd(x))) fail_msg("bf16 of %a", x);
	}
	/* Every number of the format, and halfway to the next, a little less and a little more. */
	for (uint32_t h = 0; h < 0x7c00; h++) {
		float a = rt_from_f16((uint16_t)h), b = rt_from_f16((uint16_t)(h + 1)),
			  middle = isinf(b) ? 65520 : (a + b) / 2;
		float near[] = {a, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), -middle};
		for (int k = 0; k < 5; k++) hold(LC_F16, near[k], rt_round_f16(near[k]));
	}
	for (uint32_t h = 0; h < 0x7e; h++) {
		float a = rt_from_f8((uint8_t)h), b = rt_from_f8((uint8_t)(h + 1)), middle = (a + b) / 2;
		float near[] = {a, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), -middle};
		for (int k = 0; k < 5; k++) hold(LC_F8, near[k], rt_round_f8(near[k]));
	}
}

static void test_whole_numbers(void **state) {
	static const int64_t some[] = {0,    1,     -1,     2,         -3,        7,        127,
	                               -128, 46341, -46341, INT32_MAX, INT32_MIN, 1ll << 52};
	enum { SOME = sizeof some / sizeof *some };
	(void)state;
	for (int i = 0; i < SOME; i++)
		for (int k = 0; k < SOME; k++) {
			double a = (double)some[i], b = (double)some[k];
			assert_true(lc_wrap(LC_I32, lc_bits(trunc(b == 0 ? 0 : a / b))) ==
			            (double)(int32_t)rt_quotientl(some[i], some[k]));
			if (llabs(some[k]) < 64)
				assert_true(lc_integer_power(LC_I32, a, b) ==
				            (double)(int32_t)rt_powl(some[i], some[k]));
		}
	assert_true(rt_quotientl(INT64_MIN, -1) == INT64_MIN && rt_mull(INT64_MAX, 2) == -2 &&
	            rt_negl(INT64_MIN) == INT64_MIN);
	assert_true(rt_to_i8(1e9) == 127 && rt_to_u8(-1) == 0 && rt_to_i64(NAN) == 0 &&
	            rt_to_i64(1e300) == INT64_MAX);
}

/* ---- sizes ---- */

static void test_sizes_overflow(void **state) {
	(void)state;
	assert_true(rt_times(INT64_MAX, 2) < 0 && rt_plus(rt_times(INT64_MAX, 2), 7) < 0 &&
	            rt_over(7, 2) < 0 && rt_over(7, 0) < 0);
	assert_true(rt_over(rt_times(INT64_MAX, 2), 2) < 0);
	assert_true(rt_over(rt_plus(rt_times(3, 4), 8), 5) == 4);
}

static lc_program *program(lc_file **file, const char *text) {
	lk_error err = {0};
	lk_status status = lc_parse("test.lk", text, strlen(text), file, &err);
	if (status != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return (*file)->programs.at[0];
}

static void test_dims(void **state) {
	static const lc_dim_names names = {"z->", "z->", "item"};
	lc_file *file;
	lc_program *p = program(
		&file, "program p(mesh tp) { dim B, S  in x : f32[4*B*S + 2, S/size(tp), B] out x }");
	char text[256] = "";
	lk_error err = {0};
	(void)state;
	static const char *const wanted[] = {"rt_plus(rt_times(rt_times(4, z->d_B), z->d_S), 2)",
	                                     "rt_over(z->d_S, z->q_tp)", "z->d_B"};
	for (int d = 0; d < 3; d++) {
		FILE *out = fmemopen(text, sizeof text, "w");
		assert_non_null(out);
		assert_int_equal(lc_put_dim(p, p->nodes.at[0].dim[d], &names, out, &err), LK_OK);
		fclose(out);
		assert_string_equal(text, wanted[d]);
	}
	lc_file_free(file);
}

/* ---- loops ---- */

static void test_loops(void **state) {
	lc_file *file;
	lc_program *p =
		program(&file, "program p(mesh tp) { dim A, B, C  in x : f32[A,B,C] @ S(0,tp)  in b : "
	                   "f32[C]  in s : f32[A,1,C] @ S(0,tp)\n"
	                   "in w : f32[A,B,C]  y = x + b  z = x + s  v = x + w  out y, z, v }");
	(void)state;
	int x = lc_value_find(p, "x"), b = lc_value_find(p, "b"), s = lc_value_find(p, "s"),
		w = lc_value_find(p, "w"), v = lc_value_find(p, "v");
	lc_place dense = lc_place_of(p, v, LC_PLACE_PART, x, -1),
			 row = lc_place_of(p, v, LC_PLACE_PART, b, -1),
			 middle = lc_place_of(p, v, LC_PLACE_PART, s, -1),
			 slice = lc_place_of(p, v, LC_PLACE_VIEW, w, p->nodes.at[v].in[1]),
			 whole = lc_place_of(p, v, LC_PLACE_WHOLE, v, -1);
	assert_int_equal(lc_loops_of(p, v, &dense, 1).count, 1);
	lc_place pair[] = {dense, row};
	lc_loops loops = lc_loops_of(p, v, pair, 2);
	assert_int_equal(loops.count, 2);
	assert_int_equal(loops.first[1], 2);
	assert_true(lc_place_dense(p, &loops, &dense) && !lc_place_dense(p, &loops, &row));
	assert_true(!lc_place_moves(p, &loops, &row, 0) && lc_place_moves(p, &loops, &row, 1));
	lc_place three[] = {dense, middle};
	assert_int_equal(lc_loops_of(p, v, three, 2).count, 3);
	/* A slice of the first dim lies together; so does its part of the whole. */
	lc_place views[] = {dense, slice, whole};
	assert_int_equal(lc_loops_of(p, v, views, 3).count, 1);
	lc_file_free(file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identifiers),    cmocka_unit_test(test_comments),
		cmocka_unit_test(test_strings),        cmocka_unit_test(test_numbers_read_back),
		cmocka_unit_test(test_formats),        cmocka_unit_test(test_whole_numbers),
		cmocka_unit_test(test_sizes_overflow), cmocka_unit_test(test_dims),
		cmocka_unit_test(test_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
