/* test_lang_bound.c: bounds on rounding of sums over ranks, against additions in many orders; and
 * that no more than those is let through when an emitted program's results are compared: neither
 * where they are sums, nor where they are chosen by comparisons of sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run_internal.h"
#include "lang/syntax/parse.h"
#include "lockstep/compile.h"
#include "scratch.h"

enum { RANKS_MAX = 12 };

/* Parts of sums on ranks, and their sum. */
struct sums {
	char text[128], sizes[32];
	lc_file *file;
	lc_sizes s;
	lc_run *run, *bounds;
	lc_choices choices;
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
	assert_int_equal(lc_run_bounds(sums->run, &sums->bounds, &sums->choices, &err), LK_OK);
	assert_int_equal(lc_results(program, &sums->y, 1, &count, &err), LK_OK);
	sums->x = lc_value_find(program, "x");
	sums->format = (lc_dtype)program->nodes.at[sums->x].dtype;
}

static void sums_close(struct sums *sums) {
	lc_run_free(sums->run);
	lc_run_free(sums->bounds);
	lc_choices_free(&sums->choices);
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
	lc_choices choices;
	int ids[3], count, infinite = 0;
	lc_run_options o = {.seed = 1};
	assert_int_equal(lc_parse("bound", text, strlen(text), &file, &err), LK_OK);
	assert_int_equal(lc_sizes_read(file->programs.at[0], "N=200", 3, &s, &err), LK_OK);
	assert_int_equal(lc_run_program(file->programs.at[0], &s, &o, &run, &err), LK_OK);
	assert_int_equal(lc_run_bounds(run, &bounds, &choices, &err), LK_OK);
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
	lc_choices_free(&choices);
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

/* What `compile run --compare` says of the folder: "" where it agrees. */
static const char *compared(const char *program, const char *sizes) {
	static char said[8192];
	lk_compile *answer;
	lk_error err = {0};
	memset(said, 0, sizeof said);
	FILE *out = fmemopen(said, sizeof said - 1, "w");
	const lk_compile_request request = {
		.action = LK_COMPILE_RUN, .sizes = sizes, .compare = scratch, .seed = 7};
	assert_int_equal(lk_compile_text("text", program, strlen(program), &answer, &err), LK_OK);
	assert_int_equal(lk_compile_act(answer, &request, out, &err), LK_OK);
	fclose(out);
	if (!lk_compile_no(answer)) said[0] = '\0';
	lk_compile_free(answer);
	return said;
}

static bool found(const struct sums *sums) {
	return *compared(sums->text, sums->sizes) != '\0';
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

/* ---- results that are chosen, counted and indexed ---- */

enum { RESULTS = 16, CELLS = 128 };

/* What two ranks would dump: each result's elements, free to be spoiled. */
struct dump {
	const char *text, *sizes;
	lc_file *file;
	lc_sizes s;
	lc_run *run;
	int ids[RESULTS], count;
	double number[2][RESULTS][CELLS];
	int64_t cells[2][RESULTS];
};

static void dump_open(struct dump *dump, const char *text, const char *sizes) {
	lk_error err = {0};
	lc_run_options o = {.seed = 7};
	*dump = (struct dump){.text = text, .sizes = sizes};
	assert_int_equal(lc_parse("bound", text, strlen(text), &dump->file, &err), LK_OK);
	const lc_program *program = dump->file->programs.at[0];
	assert_int_equal(lc_sizes_read(program, sizes, 2, &dump->s, &err), LK_OK);
	assert_int_equal(lc_run_program(program, &dump->s, &o, &dump->run, &err), LK_OK);
	assert_int_equal(lc_results(program, dump->ids, RESULTS, &dump->count, &err), LK_OK);
	for (int rank = 0; rank < 2; rank++)
		for (int k = 0; k < dump->count; k++) {
			const lc_cells *cells = lc_run_local(dump->run, dump->ids[k], 0, rank);
			assert_true(cells->count <= CELLS);
			dump->cells[rank][k] = cells->count;
			memcpy(dump->number[rank][k], cells->number, (size_t)cells->count * sizeof(double));
		}
}

static void dump_close(struct dump *dump) {
	lc_run_free(dump->run);
	lc_sizes_free(&dump->s);
	lc_file_free(dump->file);
}

static const double *input_of(const struct dump *dump, const char *name, int rank) {
	return lc_run_local(dump->run, lc_value_find(dump->file->programs.at[0], name), 0, rank)
	    ->number;
}

static const char *dump_compared(const struct dump *dump) {
	for (int rank = 0; rank < 2; rank++) {
		char path[128];
		snprintf(path, sizeof path, "%s/plain.%d", scratch, rank);
		FILE *file = fopen(path, "wb");
		assert_non_null(file);
		for (int k = 0; k < dump->count; k++) {
			fwrite(&dump->cells[rank][k], 8, 1, file);
			fwrite(dump->number[rank][k], 8, (size_t)dump->cells[rank][k], file);
		}
		fclose(file);
	}
	return compared(dump->text, dump->sizes);
}

/* Ways in which an emitted program could be wrong: the next index, the neighbour's element, rows
 * that are swapped, nothing at all. Each returns whether it has changed anything. */
typedef bool fault(double *number, int64_t count);

static bool next_index(double *number, int64_t count) {
	number[count / 2] += 1;
	return true;
}
static bool off_by_one(double *number, int64_t count) {
	double first = number[0];
	memmove(number, number + 1, (size_t)(count - 1) * sizeof *number);
	number[count - 1] = first;
	for (int64_t i = 1; i < count; i++)
		if (number[i] != number[0]) return true;
	return false;
}
static bool swapped_rows(double *number, int64_t count) {
	bool differ = false;
	for (int64_t i = 0; i < count / 2; i++) {
		double other = number[count / 2 + i];
		differ |= other != number[i];
		number[count / 2 + i] = number[i];
		number[i] = other;
	}
	return differ;
}
static bool nothing_there(double *number, int64_t count) {
	bool differ = false;
	for (int64_t i = 0; i < count; i++) {
		differ |= number[i] != 0;
		number[i] = 0;
	}
	return differ;
}

/* No result that follows from comparisons of rounded numbers may be wrong unnoticed. */
static void test_chosen(void **state) {
	(void)state;
	static const char text[] =
		"program p(mesh a) { dim T, E in x : f32[T,E] @ P(sum,a), h : f32[T,E]\n"
		"q = softmax(allreduce(x, sum, a)*2, 1)\n"
		"k = topk_index(q, 1, 2)\n"
		"out k, argmax(q, 1), argmin(cast(bf16, q), 1), topk(q, 1, 2), gather(h, k, 1)\n"
		"out scatter_add(gather(q, k, 1), k, 1, E), onehot(f32, k, E), q > 0.2\n"
		"out select(q > 0.2, h, q), round(q*100), cast(i32, q*50), maximum(q, h) }";
	static fault *const faults[] = {next_index, off_by_one, swapped_rows, nothing_there};
	struct dump dump;
	dump_open(&dump, text, "a=2,T=4,E=7");
	assert_string_equal(dump_compared(&dump), "");
	for (int k = 0; k < dump.count; k++)
		for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
			double kept[CELLS];
			memcpy(kept, dump.number[1][k], sizeof kept);
			if (!faults[f](dump.number[1][k], dump.cells[1][k])) continue;
			assert_non_null(strstr(dump_compared(&dump), "DIFFERS"));
			memcpy(dump.number[1][k], kept, sizeof kept);
		}
	dump_close(&dump);
}

/* Every column stands there twice, so that the largest may be found in either place; what is taken
 * there must then be that place's. */
static void test_ties(void **state) {
	(void)state;
	enum { T = 4, E = 3 };
	static const char text[] =
		"program p(mesh a) { dim T, E in x : f32[T,E] @ P(sum,a), h : f32[T,2*E]\n"
		"y = allreduce(x, sum, a)*3\n"
		"q = concat(y, y, 1)\n"
		"k = argmax(q, 1)\n"
		"out k, gather(h, spread(k, 1, 1), 1) }";
	struct dump dump;
	dump_open(&dump, text, "a=2,T=4,E=3");
	assert_string_equal(dump_compared(&dump), "");
	for (int64_t t = 0; t < T; t += 2) { /* two rows choose the second place */
		double *k[2] = {&dump.number[0][0][t], &dump.number[1][0][t]};
		int64_t place = (int64_t)*k[0] + E;
		for (int rank = 0; rank < 2; rank++) *k[rank] = (double)place;
		assert_non_null(strstr(dump_compared(&dump), "DIFFERS")); /* h of the first place */
		for (int rank = 0; rank < 2; rank++)
			dump.number[rank][1][t] = input_of(&dump, "h", rank)[t * 2 * E + place];
		assert_string_equal(dump_compared(&dump), "");
		for (int other = 0; other < 2 * E; other++) { /* no third place */
			for (int rank = 0; rank < 2; rank++) *k[rank] = other;
			bool tied = other % E == place % E;
			if (!tied) assert_non_null(strstr(dump_compared(&dump), "DIFFERS"));
		}
		for (int rank = 0; rank < 2; rank++) *k[rank] = (double)place;
	}
	dump_close(&dump);
}

/* Numbers on both sides of a threshold and of a half. */
static void test_thresholds(void **state) {
	(void)state;
	static const char text[] = "program p(mesh a) { dim N in x : f32[N] @ P(sum,a), h : f32[N]\n"
							   "y = allreduce(x, sum, a)\n"
							   "z = y - y + 0.5\n"
							   "out round(z), select(z > 0.5, h, -h), select(z > 0.75, h, -h) }";
	struct dump dump;
	dump_open(&dump, text, "a=2,N=5");
	assert_string_equal(dump_compared(&dump), "");
	for (int rank = 0; rank < 2; rank++) {
		dump.number[rank][0][1] = 1;
		dump.number[rank][1][1] *= -1;
	}
	assert_string_equal(dump_compared(&dump), "");
	for (int rank = 0; rank < 2; rank++) dump.number[rank][2][1] *= -1; /* 0.5 is not near 0.75 */
	assert_non_null(strstr(dump_compared(&dump), "DIFFERS"));
	dump_close(&dump);
}

/* Bounds that grow through many products do not let through what is a thousandth off. */
static void test_long(void **state) {
	(void)state;
	static const char text[] = "program p(mesh a) { dim N in x : f32[N,N] @ P(sum,a)\n"
							   "y0 = allreduce(x, sum, a)\n"
							   "for i = 0 to 7 { y[i+1] = matmul(y[i], y[i], tb)/norm(y[i]) }\n"
							   "out y8 }";
	struct dump dump;
	dump_open(&dump, text, "a=2,N=9");
	assert_string_equal(dump_compared(&dump), "");
	dump.number[0][0][7] *= 1.001;
	assert_non_null(strstr(dump_compared(&dump), "DIFFERS"));
	dump_close(&dump);
}

/* A difference of equal numbers is nothing but rounding. */
static void test_noise(void **state) {
	(void)state;
	static const char text[] = "program p(mesh a) { dim N in x : f32[N] @ P(sum,a)\n"
							   "y = allreduce(x, sum, a)\n"
							   "out (y + 100000) - (y + 100000) }";
	struct dump dump;
	dump_open(&dump, text, "a=2,N=5");
	assert_non_null(strstr(dump_compared(&dump), "not comparable"));
	dump_close(&dump);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test_setup_teardown(test_faults, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(test_chosen, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(test_ties, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(test_thresholds, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(test_long, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(test_noise, make_scratch, remove_scratch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
