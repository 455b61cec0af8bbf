/* test_slowdown.c: the overlap model: constants found again in tables made from them, order and
 * units of rows, honest folds, ranges, the calibration that is compiled in, and the bars on the
 * measured table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "base/stats.h"
#include "lockstep/validate.h"
#include "data.h"

static lk_slowdown_row row_of(uint64_t seed, bool few) {
	lk_slowdown_row row = {.id = "", .name = few ? "sums" : "product", .where = ""};
	lk_overlap_kernel *kernel = &row.kernel;
	kernel->alone_s = 1e-4 * (1 + 9 * lk_uniform(seed, 0));
	kernel->ratio = 0.3 + 0.7 * lk_uniform(seed, 1);
	kernel->memory = 0.2 * lk_uniform(seed, 2),
	kernel->dram = few ? 0.3 + 0.3 * lk_uniform(seed, 3) : kernel->memory;
	kernel->compute = few ? 0.1 : 0.5 + 0.5 * lk_uniform(seed, 4);
	kernel->maximum = 1, kernel->achieved = few ? 0.5 : 0.9, kernel->l2 = few ? 0.2 : 0.5;
	return row;
}

/* A table that a model made: the fit finds the model's constants, and predicts every row. */
static void constants_are_found_again(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_slowdown_table table = {0};
	const lk_overlap truth = {.displacement = 0.2, .latency = 7};
	for (uint64_t i = 0; i < 60; i++) {
		assert_true(lk_push(&table));
		*lk_last(&table) = row_of(i, i % 3 == 0);
		lk_last(&table)->measured_s = lk_overlap_seconds(&truth, &lk_last(&table)->kernel);
	}
	lk_overlap found;
	assert_true(lk_slowdown_fit(&arena, &table, NULL, false, &found));
	assert_true(fabs(found.displacement - 0.2) < 1e-9 && fabs(found.latency - 7) < 1e-9);
	for (size_t i = 0; i < table.count; i++)
		assert_true(fabs(lk_overlap_seconds(&found, &table.at[i].kernel) / table.at[i].measured_s -
		                 1) < 1e-9);
	lk_vec_free(&table);
	lk_arena_free(&arena);
}

/* Nothing beside it: the mechanisms add nothing. More beside it: never less. Seconds scale with
 * seconds. */
static void mechanisms(void **state) {
	(void)state;
	const lk_overlap model = {.displacement = 0.2, .latency = 7};
	for (uint64_t i = 0; i < 500; i++) {
		lk_overlap_kernel k = row_of(i, i % 2).kernel;
		double last = 0;
		for (int step = 0; step <= 10; step++) {
			k.ratio = step / 10.;
			double s = lk_overlap_seconds(&model, &k);
			assert_true(step > 0 ? s >= last : s == k.alone_s);
			last = s;
		}
		assert_true(lk_overlap_sm_bound(&k) == 0 || lk_overlap_latency_bound(&k) == 0);
	}
}

/* Rows left out of the fit do not change it, whatever they say. */
static void left_out_rows_are_not_seen(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_slowdown_table table = {0};
	bool use[40];
	for (uint64_t i = 0; i < 40; i++) {
		assert_true(lk_push(&table));
		*lk_last(&table) = row_of(i / 4, i % 3 == 0);
		lk_last(&table)->measured_s = lk_last(&table)->kernel.alone_s * (1 + lk_uniform(9, i));
		use[i] = i % 5 != 0;
	}
	lk_overlap a, b;
	assert_true(lk_slowdown_fit(&arena, &table, use, true, &a));
	for (size_t i = 0; i < table.count; i += 5) {
		table.at[i].measured_s = 1;
		table.at[i].kernel.compute = 0.9;
		table.at[i].kernel.ratio = 0.01;
	}
	assert_true(lk_slowdown_fit(&arena, &table, use, true, &b));
	assert_true(a.displacement == b.displacement && a.latency == b.latency &&
	            a.kind_count == b.kind_count);
	assert_memory_equal(a.kinds, b.kinds, a.kind_count * sizeof *a.kinds);
	lk_vec_free(&table);
	lk_arena_free(&arena);
}

/* A kind's spread is the median miss of its launches, without those left out; a range leans on it
 * the more launches it has, and on what is usual where no kind is near. */
static void spreads_follow_misses(void **state) {
	(void)state;
	enum { ROWS = 42, KINDS = 6, EACH = ROWS / KINDS };
	lk_arena arena = LK_ARENA_INIT;
	lk_slowdown_table table = {0};
	bool use[ROWS];
	double miss[ROWS];
	for (size_t i = 0; i < ROWS; i++) {
		assert_true(lk_push(&table));
		*lk_last(&table) = row_of(i / EACH, false);
		lk_last(&table)->measured_s = lk_last(&table)->kernel.alone_s * (1 + lk_uniform(9, i));
		use[i] = i % EACH != 0;
		miss[i] = !use[i] ? 99 : i % EACH == 1 ? NAN : (double)(i / EACH + 1) * (double)(i % EACH);
	}
	lk_overlap model;
	assert_true(lk_slowdown_fit(&arena, &table, use, true, &model));
	assert_true(lk_slowdown_spreads(&arena, &table, use, miss, &model));
	assert_int_equal(model.kind_count, KINDS);
	for (size_t i = 0; i < ROWS; i++) { /* of 2 to 6 the median is 4 */
		double own = 4 * (double)(i / EACH + 1), usual = 0.5;
		assert_true(fabs(lk_overlap_spread(&model, &table.at[i].kernel, usual) -
		                 (5 * own + usual) / 6) < 1e-12);
	}
	lk_overlap_kernel far = table.at[0].kernel;
	far.alone_s = 1;
	assert_true(lk_overlap_spread(&model, &far, 0.5) == 0.5);
	lk_vec_free(&table);
	lk_arena_free(&arena);
}

static lk_status read_text(const char *text, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_slowdown_table table = {0};
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "kernels.csv", &in, err), LK_OK);
	lk_status status = lk_slowdown_read(&arena, in, &table, err);
	lk_stream_close(in);
	lk_vec_free(&table);
	lk_arena_free(&arena);
	return status;
}

static void wrong_tables_are_refused(void **state) {
	(void)state;
#define HEAD                                                                        \
	"id,Kernel Name,ground_truth,duration,overlap_ratio,Compute throughput,Memory " \
	"throughput,DRAM throughput,"                                                   \
	"Achieved occupancy,Maximum occupancy,L1 hit rate,L2 hit rate\n"
	const struct {
		const char *text, *where, *what;
	} cases[] = {
		{"id,duration\n1,2\n", "kernels.csv", "ground_truth is missing"},
		{HEAD "1,a,0,5,1,1,1,1,1,1,1,1\n", "kernels.csv:2: ground_truth", ""},
		{HEAD "1,a,5,nan,1,1,1,1,1,1,1,1\n", "kernels.csv:2: duration", ""},
		{HEAD "1,a,5,5,1.5,1,1,1,1,1,1,1\n", "kernels.csv:2: overlap_ratio", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_error err = {0};
		assert_int_equal(read_text(cases[i].text, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, cases[i].where);
		assert_non_null(strstr(err.what, cases[i].what));
	}
	lk_error err = {0};
	assert_int_equal(read_text(HEAD "1,a,5,6,1,1,1,1,1,1,1,1\n", &err), LK_OK);
}

/* ---- the measured table ---- */

static const char measured[] = "measured/overlap_slowdown_a100.csv";

static lk_validation *validated(const char *path, bool cross) {
	lk_validate_request request;
	lk_validation *validation = NULL;
	lk_error err = {0};
	lk_validate_defaults(&request);
	request.table = path;
	request.slowdown = true;
	request.cross = cross;
	assert_int_equal(lk_validate(&request, &validation, &err), LK_OK);
	return validation;
}

/* Cross-validated: more than 66 % within 5 %, less than 7 % of all time, better than every
 * baseline; ranges hold. */
static void bars(void **state) {
	(void)state;
	const char *path = need_data(measured);
	lk_validation *validation = validated(path, true);
	assert_true(validation->summary.within_5 > 0.66);
	assert_true(validation->summary.weighted_error < 0.07);
	assert_int_equal(validation->summary.skipped, 0);
	for (int b = 0; b < validation->baseline_count; b++) {
		assert_true(validation->baselines[b].within_5 < validation->summary.within_5);
		assert_true(validation->baselines[b].weighted_error > validation->summary.weighted_error);
	}
	for (int g = 0; g < validation->group_count; g++) {
		if (strcmp(validation->groups[g].by, "bound by") != 0 || validation->groups[g].scored < 10)
			continue;
		assert_true(validation->groups[g].coverage >= 0.7 && validation->groups[g].coverage <= 0.9);
	}
	lk_validate_free(validation);
	validation = validated(path, false);
	assert_true(validation->summary.within_5 > 0.66 && validation->summary.weighted_error < 0.07);
	lk_validate_free(validation);
}

/* The compiled-in rows are what the table gives. */
static void calibration_is_of_the_table(void **state) {
	(void)state;
	const char *path = need_data(measured);
	lk_stream *in;
	lk_error err;
	lk_calibration made = {0};
	const lk_calibration *built_in = lk_calibration_current();
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	assert_int_equal(lk_calibrate_slowdown(in, "source", "2026-11-21", &made, &err), LK_OK);
	lk_stream_close(in);
	assert_true(made.rows.count > 5);
	for (size_t i = 0; i < made.rows.count; i++) {
		const lk_calibration_row *row = &made.rows.at[i];
		const lk_calibration_row *there =
			lk_calibration_find(built_in, row->family, row->subject, row->variant);
		assert_non_null(there);
		assert_int_equal(there->count, row->count);
		for (int n = 0; n < row->count; n++) {
			double value = lk_calibration_value(there, row->numbers[n].name, NAN);
			assert_true(fabs(value - row->numbers[n].value) <=
			            1e-5 * fabs(row->numbers[n].value) + 1e-9);
		}
	}
	lk_calibration_free(&made);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_are_found_again),   cmocka_unit_test(mechanisms),
		cmocka_unit_test(left_out_rows_are_not_seen),  cmocka_unit_test(wrong_tables_are_refused),
		cmocka_unit_test(spreads_follow_misses),       cmocka_unit_test(bars),
		cmocka_unit_test(calibration_is_of_the_table),
	};
	return cmocka_run_group_tests_name("slowdown", tests, NULL, NULL);
}
