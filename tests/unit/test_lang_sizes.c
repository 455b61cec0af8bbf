/* test_lang_sizes.c: sizes of programs: what is read, what is refused, what is found for what is
 * left out; slices of every tensor over every mesh put together give the whole, each element once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run.h"
#include "lang/syntax/parse.h"
#include "scratch.h"

static lc_file *read_ok(const char *text) {
	lc_file *file = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_parse("sizes", text, strlen(text), &file, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return file;
}

static const char mesh[] =
	"program p(mesh dp, pp, tp) { dim N, M list ps dim K, L of ps\n"
	"in x : f32[N,M] @ S(1,tp), y : f32[K,L] of ps @ S(0,dp), z : f32[M/size(tp)]\n"
	"a = copy(z) at pp=k-1 b = send(a, pp: k-1 -> k+2) out b at pp=k+2 out x, y }";

static int64_t dim(const lc_program *program, const lc_sizes *sizes, const char *name) {
	return sizes->symbol[LC_AXES + lc_dim_find(program, name)];
}

static void test_defaults(void **state) {
	(void)state;
	lc_file *file = read_ok(mesh);
	const lc_program *program = file->programs.at[0];
	for (int64_t ranks = 1; ranks <= 9; ranks++) {
		lc_sizes s;
		lk_error err = {0};
		if (lc_sizes_read(program, NULL, ranks, &s, &err) != LK_OK) fail_msg("%s", err.what);
		assert_int_equal(s.symbol[0], 1);
		assert_int_equal(s.symbol[1], 4); /* k = 1 for k-1, so that k+2 is the fourth */
		assert_int_equal(s.symbol[2], ranks);
		assert_int_equal(dim(program, &s, "M") % ranks, 0);
		assert_int_equal(lc_ranks(program, &s), 4 * ranks);
		assert_int_equal(lc_sizes_check(program, &s, &err), LK_OK);
		lc_sizes_free(&s);
	}
	lc_file_free(file);
}

static void test_read(void **state) {
	(void)state;
	lc_file *file = read_ok(mesh);
	const lc_program *program = file->programs.at[0];
	lc_sizes s;
	lk_error err = {0};
	char path[64], text[256];
	write_text(new_file(path, ".txt"), "# rows\n 3\n\n5 # five\r\n7");
	snprintf(text, sizeof text, "dp=2,k=2,ps.K=@%s,pp=6,tp=3,M=9,L=1:2:1099511627776,N=1", path);
	if (lc_sizes_read(program, text, 4, &s, &err) != LK_OK) fail_msg("%s", err.what);
	assert_int_equal(s.items[0], 3);
	assert_int_equal(s.each[lc_dim_find(program, "K")][1], 5);
	assert_int_equal(s.each[lc_dim_find(program, "L")][2], (int64_t)1 << 40);
	assert_int_equal(lc_coordinate(program, &s, 35, 0), 1);
	assert_int_equal(lc_coordinate(program, &s, 35, 1), 5);
	assert_int_equal(lc_coordinate(program, &s, 34, 2), 1);
	assert_int_equal(lc_group_place(program, &s, &(lc_group){.axis = 1, .index = "k", .offset = 2}),
	                 4);
	lc_sizes_free(&s);
	remove(path);
	lc_file_free(file);
}

static void test_refused(void **state) {
	(void)state;
	static const struct {
		const char *text, *what;
	} rows[] = {
		{"Q=3", "no axis, dim or index Q"},
		{"N", "\"N\" is not a size"},
		{"N=3,,", "\"\" is not a size"},
		{"N=", "--sizes: N"},
		{"N=0", "--sizes: N"},
		{"N=-4", "--sizes: N"},
		{"N=99999999999999999999", "--sizes: N"},
		{"N=3x", "--sizes: N"},
		{"N=3,N=3", "given twice"},
		{"k=1,k=1", "given twice"},
		{"tp=5000", "--sizes: tp"},
		{"tp=0", "--sizes: tp"},
		{"tp=4096,dp=4096", "more than 4096"},
		{"pp=2", "group pp=k+2 does not exist"},
		{"k=0", "group pp=k-1 does not exist"},
		{"tp=2,M=3", "not divisible by size(tp)"},
		{"K=1:2,L=3", "1 numbers, where another dim of ps has 2"},
		{"K=1:0", "--sizes: K"},
		{"K=@/nowhere", "/nowhere"},
		{"N=1099511627776,M=1099511627776", "2^63"},
		{"=3", "no axis, dim or index "},
		{"M=1:2", "--sizes: M"},
	};
	lc_file *file = read_ok(mesh);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_sizes s;
		lk_error err = {0};
		char line[1024];
		if (lc_sizes_read(file->programs.at[0], rows[i].text, 2, &s, &err) == LK_OK)
			fail_msg("%s is taken", rows[i].text);
		if (!strstr(lk_error_text(&err, line, sizeof line), rows[i].what))
			fail_msg("%s: %s", rows[i].text, line);
		lc_sizes_free(&s);
	}
	lc_file_free(file);
	file = read_ok("program p(mesh a=4) { dim N in x : f32[N/4] @ S(0,a) out x }");
	lc_sizes s;
	lk_error err = {0};
	assert_int_equal(lc_sizes_read(file->programs.at[0], "a=2", 2, &s, &err), LK_ERR_INPUT);
	lc_sizes_free(&s);
	assert_int_equal(lc_sizes_read(file->programs.at[0], NULL, 2, &s, &err), LK_OK);
	assert_int_equal(s.symbol[0], 4);
	lc_sizes_free(&s);
	lc_file_free(file);
}

/* Sizes that cannot be are refused in time, however long the program. */
static void test_impossible(void **state) {
	(void)state;
	lc_file *file = read_ok("program p(mesh a) { dim N in x : f32[N-100000000] @ S(0,a) out x }");
	lc_sizes s;
	lk_error err = {0};
	assert_int_equal(lc_sizes_read(file->programs.at[0], NULL, 2, &s, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.hint, "--sizes"));
	lc_sizes_free(&s);
	lc_file_free(file);
}

/* Each element of the whole is held by every rank of the axes that do not divide it, and by one of
 * each that does. */
static void check_cover(const lc_program *program, const lc_node *node, const lc_sizes *sizes) {
	int64_t whole[LC_RANK] = {0}, begin[LC_RANK], extent[LC_RANK], cells = 1,
			copies = lc_ranks(program, sizes);
	lk_error err;
	assert_int_equal(lc_whole_shape(program, node, sizes, 0, whole, &err), LK_OK);
	for (int d = 0; d < node->rank; d++) cells *= whole[d];
	for (int a = 0; a < program->axis_count; a++)
		if (node->layout[a].kind == LC_S || node->layout[a].kind == LC_ROOT || node->at.axis == a)
			copies /= sizes->symbol[a];
	int *seen = calloc((size_t)cells, sizeof *seen);
	for (int64_t r = 0; r < lc_ranks(program, sizes); r++) {
		if (!lc_local_part(program, node, sizes, 0, whole, r, begin, extent)) continue;
		for (int64_t i = 0; i < extent[0]; i++)
			for (int64_t j = 0; j < extent[1]; j++)
				seen[(begin[0] + i) * whole[1] + begin[1] + j]++;
	}
	for (int64_t i = 0; i < cells; i++) assert_int_equal(seen[i], copies);
	free(seen);
}

static void test_parts(void **state) {
	(void)state;
	lc_file *file = read_ok(
		"program p(mesh a, b) { dim N, M in x : f32[N,M] @ S(1,b) S(0,a), y : f32[N,M] @ S(0,b) "
		"L(a)\n"
		"z = permute(x, b, shift=1) w = permute(z, a, shift=-2) u = permute(w, a, shift=7)\n"
		"in q : f32[N,M] @ ROOT(1,a) P(sum,b) out u, y, q }");
	const lc_program *program = file->programs.at[0];
	for (uint64_t seed = 1; seed < 200; seed++) {
		lc_sizes s;
		lk_error err = {0};
		int64_t axes[LC_AXES] = {1 + (int64_t)seed % 5, 1 + (int64_t)seed % 7};
		if (lc_sizes_draw(program, NULL, axes, seed, &s, &err) != LK_OK) fail_msg("%s", err.what);
		for (size_t i = 0; i < program->nodes.count; i++)
			if (program->nodes.at[i].rank == 2) check_cover(program, &program->nodes.at[i], &s);
		lc_sizes_free(&s);
	}
	lc_file_free(file);
}

/* Slices of a list are those of a flat tensor of as many elements: end to end they are the same
 * ranges, over one axis or two, of whatever lengths the tensors are. */
static void test_lists(void **state) {
	(void)state;
	lc_file *file =
		read_ok("program p(mesh a, b) { list l dim N of l dim K, F\n"
	            "in x : f32[N] of l @ S(0,b) S(0,a), y : f32[K,N] of l @ S(1,b)\n"
	            "in f : f32[F] @ S(0,b) S(0,a), g : f32[K,F] @ S(1,b) out x, y, f, g }");
	const lc_program *p = file->programs.at[0];
	const struct {
		const char *list, *flat;
		int d;
	} rows[] = {{"x", "f", 0}, {"y", "g", 1}};
	for (uint64_t seed = 1; seed < 200; seed++) {
		lc_sizes s;
		lk_error err = {0};
		char text[96];
		int64_t axes[LC_AXES] = {1 + (int64_t)seed % 3, 1 + (int64_t)seed % 7};
		int64_t n[4] = {1 + (int64_t)(seed * 7 % 23), 1 + (int64_t)(seed % 2),
		                1 + (int64_t)(seed * 5 % 11), 1 + (int64_t)(seed % 4)};
		snprintf(text, sizeof text, "K=2,N=%d:%d:%d:%d,F=%d", (int)n[0], (int)n[1], (int)n[2],
		         (int)n[3], (int)(n[0] + n[1] + n[2] + n[3]));
		if (lc_sizes_draw(p, text, axes, seed, &s, &err) != LK_OK) fail_msg("%s", err.what);
		for (int64_t r = 0; r < lc_ranks(p, &s); r++)
			for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
				const lc_node *list = lc_node_at(p, lc_value_find(p, rows[i].list)),
							  *flat = lc_node_at(p, lc_value_find(p, rows[i].flat));
				int64_t whole[LC_RANK], begin[LC_RANK], extent[LC_RANK], from[LC_RANK],
					length[LC_RANK], before = 0;
				assert_int_equal(lc_whole_shape(p, flat, &s, 0, whole, &err), LK_OK);
				assert_true(lc_local_part(p, flat, &s, 0, whole, r, from, length));
				for (int64_t item = 0; item < 4; before += n[item++]) {
					int64_t own = 0, first = -1; /* by asking for each place of the flat one */
					for (int64_t at = 0; at < n[item]; at++) {
						int64_t place = before + at - from[rows[i].d];
						if (place < 0 || place >= length[rows[i].d]) continue;
						if (first < 0) first = at;
						own++;
					}
					assert_int_equal(lc_whole_shape(p, list, &s, item, whole, &err), LK_OK);
					assert_true(lc_local_part(p, list, &s, item, whole, r, begin, extent));
					assert_int_equal(extent[rows[i].d], own);
					if (own) assert_int_equal(begin[rows[i].d], first);
				}
			}
		lc_sizes_free(&s);
	}
	lc_file_free(file);
}

/* A mesh that a rewrite has made of another: groups, groups of groups; what stands beside keeps its
 * ranks. */
static void test_refined(void **state) {
	(void)state;
	lc_file *file = read_ok("program p(mesh a, b) { dim N list l dim K of l in x : f32[N] @ "
	                        "S(0,b), y : f32[K] of l out x, y }\n"
	                        "program q(mesh a_o, a_i=2, b) { dim N list l dim K of l in x : f32[N] "
	                        "@ S(0,b), y : f32[K] of l out x, y }\n"
	                        "program r(mesh a, b_o_o, b_o_i=3, b_i=2) { dim N list l dim K of l in "
	                        "x : f32[N] out x in y : f32[K] of l out "
	                        "y }");
	const lc_program *program = file->programs.at[0];
	lc_sizes s, t;
	lk_error err = {0};
	assert_int_equal(lc_sizes_read(program, "a=6,b=12,K=3:1", 1, &s, &err), LK_OK);
	assert_int_equal(lc_sizes_refine(program, &s, file->programs.at[1], &t, &err), LK_OK);
	assert_true(t.symbol[0] == 3 && t.symbol[1] == 2 && t.symbol[2] == 12 && t.items[0] == 2 &&
	            t.each[1][0] == 3);
	assert_int_equal(dim(program, &s, "N"), dim(file->programs.at[1], &t, "N"));
	lc_sizes_free(&t);
	assert_int_equal(lc_sizes_refine(program, &s, file->programs.at[2], &t, &err), LK_OK);
	assert_true(t.symbol[0] == 6 && t.symbol[1] == 2 && t.symbol[2] == 3 && t.symbol[3] == 2);
	assert_int_equal(lc_ranks(program, &s), lc_ranks(file->programs.at[2], &t));
	lc_sizes_free(&t);
	lc_sizes_free(&s);
	assert_int_equal(lc_sizes_read(program, "a=5,b=1", 1, &s, &err), LK_OK);
	assert_int_equal(lc_sizes_refine(program, &s, file->programs.at[1], &t, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "groups of 2"));
	lc_sizes_free(&t);
	lc_sizes_free(&s);
	lc_file_free(file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_read),
		cmocka_unit_test(test_refused),  cmocka_unit_test(test_impossible),
		cmocka_unit_test(test_parts),    cmocka_unit_test(test_lists),
		cmocka_unit_test(test_refined),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
