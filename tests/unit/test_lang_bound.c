/* test_lang_bound.c: bounds on rounding of sums over ranks, against additions in many orders; and
 * that no more than those is let through when an emitted program's results are compared. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run_internal.h"
#include "lockstep/compile.h"
#include "scratch.h"

enum {
	RANKS_MAX = 12
};

/* Parts of sums on ranks, and their sum. */
struct sums {
	char text[128], sizes[32];
	lc_file *file;
	lc_sizes s;
	lc_run *run, *bounds;
	int x, y;
	int64_t ranks;
	lc_dtype format;
};

static void sums_open(struct sums *sums, const char *format, int64_t ranks, uint64_t seed) {
	lk_error err = {0};
	lc_run_options o = {.seed = seed};
	int count;
	sums->ranks = ranks;
	snprintf(sums->text, sizeof sums->text,
	         "program p(mesh a) { dim N in x : %s[N] @ P(sum,a) out allreduce(x, sum, a) }",
	         format);
	snprintf(sums->sizes, sizeof sums->sizes, "a=%d,N=40", (int)ranks);
	assert_int_equal(lc_parse("bound", sums->text, strlen(sums->text), &sums->file, &err), LK_OK);
	const lc_program *program = sums->file->programs.at[0];
	assert_int_equal(lc_sizes_read(program, sums->sizes, 4, &sums->s, &err), LK_OK);
	assert_int_equal(lc_run_program(program, &sums->s, &o, &sums->run, &err), LK_OK);
	assert_int_equal(lc_run_bounds(sums->run, &sums->bounds, &err), LK_OK);
	assert_int_equal(lc_results(program, &sums->y, 1, &count, &err), LK_OK);
	sums->x = lc_value_find(program, "x");
	sums->format = (lc_dtype)program->nodes.at[sums->x].dtype;
}

static void sums_close(struct sums *sums) {
	lc_run_free(sums->run);
	lc_run_free(sums->bounds);
	lc_sizes_free(&sums->s);
	lc_file_free(sums->file);
}

static double part(const struct sums *sums, int64_t rank, int64_t i) {
	return lc_run_local(sums->run, sums->x, 0, rank)->number[i];
}

/* The sum by a tree of additions that `draw` chooses, rounded after each. */
static double sum_by_tree(const struct sums *sums, int64_t i, uint64_t draw) {
	double left[RANKS_MAX];
	for (int64_t r = 0; r < sums->ranks; r++) left[r] = part(sums, r, i);
	for (int64_t count = sums->ranks; count > 1; count--) {
		uint32_t bits = lc_philox(draw, (uint32_t)count, (uint32_t)i, 0);
		int64_t a = bits % count, b = (a + 1 + (bits >> 16) % (count - 1)) % count;
		left[a] = lc_round(sums->format, left[a] + left[b]);
		left[b] = left[count - 1];
	}
	return left[0];
}

/* What two orders of P - 1 additions may be apart: each is within ((1 + u)^(P-1) - 1) sum of |x| of
 * the exact sum. */
static double apart_at_most(const struct sums *sums, int64_t i) {
	double sizes = 0;
	for (int64_t r = 0; r < sums->ranks; r++) sizes += fabs(part(sums, r, i));
	return 2 * (pow(1 + lc_roundoff(sums->format), (double)(sums->ranks - 1)) - 1) * sizes;
}

static void test_orders(void **state) {
	(void)state;
	static const char *const formats[] = {"f32", "f16", "bf16", "f8"};
	double worst = 0;
	for (size_t f = 0; f < 4; f++)
		for (int64_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
			struct sums t;
			sums_open(&t, formats[f], ranks, (uint64_t)ranks);
			const lc_cells *cells = lc_run_local(t.run, t.y, 0, 0),
						   *bound = lc_run_local(t.bounds, t.y, 0, ranks - 1);
			for (int64_t i = 0; i < cells->count; i++) {
				assert_true(fabs(bound->number[i] - apart_at_most(&t, i)) <=
				            1e-6 * bound->number[i]);
				for (uint64_t draw = 0; draw < 200; draw++) {
					double apart = fabs(sum_by_tree(&t, i, draw) - cells->number[i]);
					assert_true(apart <= bound->number[i]);
					if (apart > 0) worst = fmax(worst, apart / bound->number[i]);
				}
			}
			sums_close(&t);
		}
	assert_true(worst > 0.4); /* not far above what happens */
}

/* Sums that overflow in one order do not in another. */
static void test_overflow(void **state) {
	(void)state;
	static const char text[] = "program p(mesh a=3) { dim N in x : f16[N] @ P(sum,a) in w : f16[N] "
							   "out allreduce(x*60000, sum, a) out w*2 out w*w*60000 }";
	lk_error err = {0};
	lc_file *file;
	lc_sizes s;
	lc_run *run, *bounds;
	int ids[3], count, infinite = 0;
	lc_run_options o = {.seed = 1};
	assert_int_equal(lc_parse("bound", text, strlen(text), &file, &err), LK_OK);
	assert_int_equal(lc_sizes_read(file->programs.at[0], "N=200", 3, &s, &err), LK_OK);
	assert_int_equal(lc_run_program(file->programs.at[0], &s, &o, &run, &err), LK_OK);
	assert_int_equal(lc_run_bounds(run, &bounds, &err), LK_OK);
	assert_int_equal(lc_results(file->programs.at[0], ids, 3, &count, &err), LK_OK);
	const lc_cells *sum = lc_run_local(run, ids[0], 0, 0),
				   *far = lc_run_local(bounds, ids[0], 0, 0);
	for (int64_t i = 0; i < sum->count; i++) {
		if (!isfinite(sum->number[i])) assert_true(isinf(far->number[i]));
		infinite += isinf(far->number[i]);
	}
	assert_true(infinite > 0 && infinite < sum->count);
	for (int k = 1; k < 3; k++) {
		const lc_cells *cells = lc_run_local(run, ids[k], 0, 0),
					   *e = lc_run_local(bounds, ids[k], 0, 0);
		for (int64_t i = 0; i < cells->count; i++)
			if (fabs(cells->number[i]) < 30000)
				assert_true(e->number[i] <= 60); /* 4 roundings of 2^-11 */
	}
	lc_run_free(run);
	lc_run_free(bounds);
	lc_sizes_free(&s);
	lc_file_free(file);
}

/* ---- faults in dumps ---- */

static void write_dump(const struct sums *sums, int64_t rank, int64_t faulty, double by) {
	char path[128];
	const lc_cells *cells = lc_run_local(sums->run, sums->y, 0, rank);
	snprintf(path, sizeof path, "%s/plain.%d", scratch, (int)rank);
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fwrite(&cells->count, 8, 1, file);
	for (int64_t i = 0; i < cells->count; i++) {
		double number = cells->number[i] + (i == faulty ? by : 0);
		fwrite(&number, 8, 1, file);
	}
	fclose(file);
}

static bool found(const struct sums *sums) {
	lk_compile *answer;
	lk_error err = {0};
	FILE *nothing = fopen("/dev/null", "w");
	const lk_compile_request request = {
		.action = LK_COMPILE_RUN, .sizes = sums->sizes, .compare = scratch, .seed = 7};
	assert_int_equal(lk_compile_text("text", sums->text, strlen(sums->text), &answer, &err), LK_OK);
	assert_int_equal(lk_compile_act(answer, &request, nothing, &err), LK_OK);
	bool no = lk_compile_no(answer);
	lk_compile_free(answer);
	fclose(nothing);
	return no;
}

/* One element of one rank is off by just more, and just less, than orders of additions explain: in
 * f16 on 4 ranks that is 6 roundings of the sum of sizes. */
static void test_faults(void **state) {
	(void)state;
	static const char *const formats[] = {"f32", "f16", "bf16", "f8"};
	for (size_t f = 0; f < 4; f++) {
		struct sums t;
		sums_open(&t, formats[f], 4, 7);
		for (int64_t rank = 0; rank < 4; rank++) write_dump(&t, rank, -1, 0);
		assert_false(found(&t));
		for (int64_t i = 0; i < 40; i += 7) {
			int64_t rank = i % 4;
			double most = apart_at_most(&t, i);
			write_dump(&t, rank, i, 1.001 * most);
			assert_true(found(&t));
			write_dump(&t, rank, i, -0.999 * most);
			assert_false(found(&t));
			write_dump(&t, rank, -1, 0);
		}
		sums_close(&t);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test_setup_teardown(test_faults, make_scratch, remove_scratch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
