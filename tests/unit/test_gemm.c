/* test_gemm.c: the product model against its formula counted another way, on every device; tables
 * of kernel times; fits that find the numbers that a table was made with; rows that come back from
 * a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "validate/validate.h"
#include "base/stats.h"
#include "cost/kernel/kernel.h"
#include "rounds.h"

static const lk_gemm_numbers plain = {
	.efficiency = 0.7,
	.unaligned = 1,
	.tiles = 1,
	.fill_s = 4.5e-6,
	.floor_s = 6e-6,
	.memory = 0.55,
	.blend = INFINITY,
};

static lk_gemm_shape random_shape(uint64_t seed, lk_dtype dtype) {
	double size[4];
	for (uint64_t i = 0; i < 4; i++) size[i] = floor(exp2(12 * lk_uniform(seed, i)));
	return (lk_gemm_shape){dtype, fmax(1, floor(size[0] / 64)), size[1], size[2], size[3]};
}

/* ---- the formula ---- */

/* Every tile and split, without short cuts. */
static double counted(const lk_gemm_numbers *numbers, const lk_device *device,
                      const lk_gemm_shape *shape) {
	static const double tiles[][3] = {{256, 128, 1}, {128, 256, 1},  {128, 128, .95}, {64, 256, .9},
	                                  {256, 64, .9}, {64, 128, .82}, {128, 64, .82},  {64, 64, .62},
	                                  {32, 64, .4},  {16, 64, .25}};
	double best = INFINITY, rate = lk_peak_flops(device, shape->dtype) * numbers->efficiency;
	for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
		double grid = ceil(shape->m / tiles[t][0]) * ceil(shape->n / tiles[t][1]) * shape->batch;
		for (int splits = 1; splits <= 4; splits *= 2) {
			double waves = grid * splits / device->sms;
			if (splits > 1 && (shape->k / splits < 512 || grid * (splits / 2) / device->sms >= 1))
				break;
			double one = 2 * tiles[t][0] * tiles[t][1] * shape->k / splits /
			                 (rate / device->sms * tiles[t][2]) +
			             numbers->fill_s;
			double whole = waves <= 1 ? 1 : waves < 8 ? ceil(waves) : waves + 0.5;
			best = fmin(best, whole * one + (splits > 1 ? 0.05 * splits * one : 0));
		}
	}
	double bytes = lk_dtype_bytes(shape->dtype) * shape->batch *
	               (shape->m * shape->n + shape->m * shape->k + shape->n * shape->k);
	return fmax(best, bytes / device->memory_rate / numbers->memory) + numbers->floor_s;
}

static void test_formula(void **state) {
	(void)state;
	const lk_device *devices[] = {lk_device_find("a100"), lk_device_find("b200"),
	                              lk_device_find("p4")};
	for (uint64_t i = 0; i < 3000; i++) {
		lk_gemm_shape s = random_shape(i, i % 2 ? LK_FP16 : LK_FP32);
		double wanted = counted(&plain, devices[i % 3], &s),
			   got = lk_gemm_formula(&plain, devices[i % 3], &s, NAN, NULL);
		assert_true(fabs(got / wanted - 1) < 1e-12);
	}
}

/* More work, slower hardware: never faster. */
static void test_formula_grows(void **state) {
	(void)state;
	lk_device slow = *lk_device_find("a100");
	slow.memory_rate /= 2;
	slow.peak_flops[LK_FP16] /= 2;
	lk_gemm_numbers x = plain;
	x.blend = 3;
	x.traffic = 0.05;
	x.k_step = 16;
	x.k_extra = 20;
	x.unaligned = 0.8;
	for (uint64_t i = 0; i < 2000; i++) {
		lk_gemm_shape s = random_shape(i, LK_FP16), more = s;
		more.batch *= 2;
		double seconds = lk_gemm_formula(&x, lk_device_find("a100"), &s, NAN, NULL);
		assert_true(lk_gemm_formula(&x, lk_device_find("a100"), &more, NAN, NULL) >=
		            seconds * (1 - 1e-12));
		assert_true(lk_gemm_formula(&x, &slow, &s, NAN, NULL) >= seconds * (1 - 1e-12));
	}
}

/* Every device and format has a model that says where it comes from. */
static void test_models_in_use(void **state) {
	(void)state;
	for (int i = 0; i < lk_device_count(); i++) {
		for (int d = 0; d < LK_DTYPES; d++) {
			lk_gemm_model model;
			const lk_device *device = lk_device_at(i);
			lk_gemm_model_of(device, (lk_dtype)d, &model);
			assert_true(strlen(model.note) > 10);
			for (uint64_t n = 0; n < 20; n++) {
				lk_gemm_shape s = random_shape(n, (lk_dtype)d);
				double seconds = lk_gemm_seconds(&model, device, &s, NULL);
				assert_true(seconds > 1e-7 && seconds < 1e4);
			}
		}
	}
	lk_gemm_model model;
	lk_gemm_model_of(lk_device_find("a100-sxm-80"), LK_FP16, &model);
	assert_true(model.measured && model.trees && model.trees->count > 0);
	lk_gemm_model_of(lk_device_find("a100-sxm-80"), LK_BF16, &model);
	assert_true(!model.measured && model.trees);
	lk_gemm_model_of(lk_device_find("b200"), LK_BF16, &model);
	assert_true(!model.measured && strstr(model.note, "not measured"));
}

/* ---- tables ---- */

static lk_status read_text(const char *text, lk_arena *arena, lk_op_samples *out, lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_stream_memory(text, strlen(text), "ops.csv", &in, err));
	lk_status status = lk_ops_read(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

static void test_tables(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_op_samples s = {0};
	lk_error err;
	assert_int_equal(
		read_text("gpu,op,m,n,k,dtype,time_ms,n_meas,model\nA100-SXM-80,gemm,8,16,32,fp16,0.5,3,x\n"
	              "H100-SXM,add,7,9,,fp16,0.25,,\nmystery,add,7,9,,bf16,1,,\n",
	              &arena, &s, &err),
		LK_OK);
	assert_int_equal(s.count, 3);
	const lk_op_sample *a = &s.at[0], *b = &s.at[1];
	assert_true(a->family == LK_FAMILY_GEMM && a->batch == 1 && a->m == 8 && a->n == 16 &&
	            a->k == 32 && a->points == 3);
	assert_true(a->dtype == LK_FP16 && a->seconds == 0.5e-3 &&
	            a->device == lk_device_find("a100-sxm-80"));
	assert_string_equal(a->where, "ops.csv:2");
	assert_true(b->family == LK_FAMILY_MEMORY && b->m == 7 && b->n == 9 && b->points == 1);
	assert_true(!s.at[2].device && s.at[2].op == b->op);
	s.count = 0;
	assert_int_equal(
		read_text("op,gpu,d0,d1,d2,d3,latency_ms\nbmm,Tesla T4,2,3,4,5,1\nln,Tesla T4,6,7,,,2\n",
	              &arena, &s, &err),
		LK_OK);
	assert_true(s.at[0].batch == 2 && s.at[0].m == 3 && s.at[0].n == 4 && s.at[0].k == 5 &&
	            s.at[0].dtype == LK_FP32);
	assert_true(s.at[1].family == LK_FAMILY_MEMORY && s.at[1].m == 6 && s.at[1].n == 7);
	lk_vec_free(&s);
	lk_arena_free(&arena);
}

static void test_wrong_tables(void **state) {
	(void)state;
	static const char *const wrong[][2] = {
		{"a,b\n1,2\n", "columns"},
		{"gpu,op,m,n,k,time_ms\nx,gemm,0,1,1,1\n", "ops.csv:2: m"},
		{"gpu,op,m,n,k,time_ms\nx,gemm,1,1,1,nan\n", "time_ms"},
		{"gpu,op,m,n,k,time_ms\nx,gemm,1,1,1,-1\n", "time_ms"},
		{"gpu,op,m,n,k,dtype,time_ms\nx,gemm,1,1,1,fp17,1\n", "dtype"},
		{"op,gpu,d0,d1,d2,d3,latency_ms\nbmm,x,1,1,1.5,1,1\n", "d2"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_op_samples s = {0};
		lk_error err;
		char line[1024];
		assert_int_not_equal(read_text(wrong[i][0], &arena, &s, &err), LK_OK);
		assert_non_null(strstr(lk_error_text(&err, line, sizeof line), wrong[i][1]));
		lk_vec_free(&s);
		lk_arena_free(&arena);
	}
}

/* ---- fits ---- */

enum { POINTS = 3000 };

/* A table made with known numbers, on two devices. */
static void make_table(lk_op_samples *out) {
	lk_gemm_numbers x = plain;
	x.efficiency = 0.8;
	x.floor_s = 9e-6;
	x.blend = 4;
	x.k_step = 16;
	x.tiles = 0.3;
	x.memory = 0.7;
	for (uint64_t i = 0; i < POINTS; i++) {
		const lk_device *device = lk_device_find(i % 2 ? "a100" : "v100");
		lk_gemm_shape s = random_shape(i, LK_FP32);
		double seconds = lk_gemm_formula(&x, device, &s, NAN, NULL);
		assert_true(lk_push(out));
		*lk_last(out) = (lk_op_sample){.op = "bmm",
		                               .gpu = device->name,
		                               .where = "",
		                               .model = "",
		                               .device = device,
		                               .dtype = LK_FP32,
		                               .batch = s.batch,
		                               .m = s.m,
		                               .n = s.n,
		                               .k = s.k,
		                               .seconds = seconds,
		                               .points = 1};
	}
}

static double off(const lk_gemm_table *table, const double *predicted) {
	double sum = 0;
	for (size_t i = 0; i < table->count; i++)
		sum += fabs(log(predicted[i] / table->points[i].sample->seconds));
	return expm1(sum / (double)table->count);
}

static void test_cross_validation(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	lk_arena arena = LK_ARENA_INIT;
	lk_op_samples s = {0};
	lk_gemm_table t;
	lk_error err;
	make_table(&s);
	for (int folds = 0; folds < 2; folds++) {
		assert_int_equal(lk_gemm_table_build(&arena, s.at, s.count, LK_FP32, folds, &t, &err),
		                 LK_OK);
		double *predicted = LK_ARRAY(&arena, double, t.count),
			   *again = LK_ARRAY(&arena, double, t.count);
		assert_int_equal(lk_gemm_cross(&t, folds == LK_FOLDS_GPU, predicted, NULL, &err), LK_OK);
		if (folds == LK_FOLDS_GPU) {
			assert_int_equal(lk_gemm_cross(&t, true, again, NULL, &err), LK_OK);
			assert_memory_equal(predicted, again, t.count * sizeof *predicted);
		}
		assert_true(off(&t, predicted) < 0.05);
		/* What a fold holds does not enter its predictions. */
		for (size_t i = 0; i < t.count; i++)
			if (t.points[i].fold == 1) s.at[t.points[i].row].seconds *= 1000;
		assert_int_equal(lk_gemm_cross(&t, folds == LK_FOLDS_GPU, again, NULL, &err), LK_OK);
		for (size_t i = 0; i < t.count; i++)
			if (t.points[i].fold == 1) {
				assert_true(again[i] == predicted[i]);
				s.at[t.points[i].row].seconds /= 1000;
			}
	}
	lk_vec_free(&s);
	lk_arena_free(&arena);
}

/* The nearest by a search through all. */
static void test_nearest(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_op_samples s = {0};
	lk_gemm_table t;
	lk_error err;
	make_table(&s);
	assert_int_equal(lk_gemm_table_build(&arena, s.at, s.count, LK_FP32, LK_FOLDS_SHAPE, &t, &err),
	                 LK_OK);
	double *predicted = LK_ARRAY(&arena, double, t.count);
	assert_int_equal(lk_gemm_nearest(&t, true, false, predicted, &err), LK_OK);
	for (size_t i = 0; i < t.count; i += 17) {
		const lk_gemm_shape *a = &t.points[i].shape;
		double least = INFINITY, found = NAN, ties = 0;
		for (size_t j = 0; j < t.count; j++) {
			const lk_gemm_shape *b = &t.points[j].shape;
			if (t.points[j].fold == t.points[i].fold || t.points[j].device != t.points[i].device)
				continue;
			double far = pow(log(a->batch / b->batch), 2) + pow(log(a->m / b->m), 2) +
			             pow(log(a->n / b->n), 2) + pow(log(a->k / b->k), 2);
			ties = fabs(far - least) < 1e-9 ? ties + 1 : far < least ? 0 : ties;
			if (far < least) {
				least = far;
				found = t.points[j].sample->seconds * a->batch * a->m * a->n * a->k / b->batch /
				        b->m / b->n / b->k;
			}
		}
		if (ties == 0) assert_true(fabs(predicted[i] / found - 1) < 1e-9);
	}
	lk_vec_free(&s);
	lk_arena_free(&arena);
}

/* Rows that calibrate writes are rows that the models read. */
static void test_rows_come_back(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	lk_op_samples s = {0};
	lk_calibration written = {0}, read = {0};
	lk_error err;
	lk_stream *in;
	char *text = NULL;
	size_t size = 0, trees = 0, devices = 0;
	make_table(&s);
	assert_int_equal(lk_calibrate_gemm(&s, "a table", "2026-11-21", &written, &err), LK_OK);
	FILE *out = open_memstream(&text, &size);
	lk_calibration_write(&written, out);
	fclose(out);
	assert_int_equal(lk_stream_memory(text, size, "gemm.csv", &in, &err), LK_OK);
	assert_int_equal(lk_calibration_read(in, &read, &err), LK_OK);
	lk_stream_close(in);
	assert_int_equal(read.rows.count, written.rows.count);
	for (size_t i = 0; i < read.rows.count; i++) {
		const lk_calibration_row *a = &written.rows.at[i], *b = &read.rows.at[i];
		static lk_trees back;
		lk_arena arena = LK_ARENA_INIT;
		assert_true(strcmp(a->family, b->family) == 0 && a->points == b->points &&
		            a->count == b->count);
		devices += strcmp(a->family, "gemm") == 0 && *a->subject;
		if (a->text) {
			trees++;
			assert_string_equal(a->text, b->text);
			assert_int_equal(lk_trees_read(&arena, b->text, "", &back, &err), LK_OK);
		}
		lk_arena_free(&arena);
	}
	assert_true(devices == 2 &&
	            trees == 1); /* two devices are too few for trees that hold on others */
	free(text);
	lk_calibration_free(&written);
	lk_calibration_free(&read);
	lk_vec_free(&s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formula),       cmocka_unit_test(test_formula_grows),
		cmocka_unit_test(test_models_in_use), cmocka_unit_test(test_tables),
		cmocka_unit_test(test_wrong_tables),  cmocka_unit_test(test_cross_validation),
		cmocka_unit_test(test_nearest),       cmocka_unit_test(test_rows_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
