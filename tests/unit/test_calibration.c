/* Fitting, rows of a calibration, profiles of software stacks. */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "step/step.h"
#include "base/fit.h"
#include "base/stats.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "io/embedded.h"
#include "scratch.h"

/* ---- fitting ---- */

static double bowl(const double *x, void *context) {
	const double *centre = context;
	return pow(x[0] - centre[0], 2) + 3 * pow(log(x[1] / centre[1]), 2) + fabs(x[2] - 7);
}

static double banana(const double *x, void *context) {
	(void)context;
	return 100 * pow(x[1] - x[0] * x[0], 2) + pow(1 - x[0], 2);
}

static double nowhere(const double *x, void *context) {
	(void)context;
	return x[0] > 2 ? NAN : fabs(x[0] - 3);
}

static void test_simplex(void **state) {
	(void)state;
	double centre[] = {.3, 40}, x[3], least;
	const lk_fit_number bowl_numbers[] = {
		{"a", 0, -1, 1, false}, {"b", 1, .1, 1000, true}, {"c", 7, 7, 7, false}};
	lk_fit_simplex(bowl_numbers, 3, 4000, bowl, centre, x, &least);
	assert_true(fabs(x[0] - .3) < 1e-3 && fabs(x[1] - 40) < .1 && x[2] == 7 && least < 1e-5);
	const lk_fit_number plane[] = {{"x", -1.2, -3, 3, false}, {"y", 1, -3, 3, false}};
	lk_fit_simplex(plane, 2, 4000, banana, NULL, x, &least);
	assert_true(fabs(x[0] - 1) < 1e-2 && fabs(x[1] - 1) < 2e-2);
	/* a place without a value is avoided; the limits hold */
	const lk_fit_number line[] = {{"x", 1, 0, 4, false}};
	lk_fit_simplex(line, 1, 1000, nowhere, NULL, x, &least);
	assert_true(x[0] <= 2 && x[0] > 1.9 && isfinite(least));
	double centre_outside[] = {5, 40};
	lk_fit_simplex(bowl_numbers, 3, 4000, bowl, centre_outside, x, NULL);
	assert_true(x[0] <= 1 && x[0] > .99);
}

/* Most rows agree, some are far off: least absolute deviations find what the most say. */
static void test_linear(void **state) {
	(void)state;
	enum { ROWS = 400, COUNT = 3 };
	double truth[COUNT] = {.2, -.1, .05}, x[COUNT],
		   free_prior[COUNT] = {INFINITY, INFINITY, INFINITY};
	double *jacobian = calloc(ROWS * COUNT, sizeof *jacobian), residual[ROWS], weight[ROWS];
	lk_error err;
	for (int i = 0; i < ROWS; i++) {
		residual[i] = i % 10 == 0 ? 3 : 0;
		weight[i] = 1;
		for (int c = 0; c < COUNT; c++) {
			jacobian[i * COUNT + c] = lk_normal(7, (uint64_t)(i * COUNT + c));
			residual[i] += jacobian[i * COUNT + c] * truth[c];
		}
	}
	assert_int_equal(lk_fit_linear(jacobian, residual, weight, ROWS, COUNT, free_prior, x, &err),
	                 LK_OK);
	for (int c = 0; c < COUNT; c++) assert_true(fabs(x[c] - truth[c]) < 5e-3);
	/* a deviation of 0 pins a number, a small one draws it to 0 */
	double prior[COUNT] = {INFINITY, 0, 1e-4};
	assert_int_equal(lk_fit_linear(jacobian, residual, weight, ROWS, COUNT, prior, x, &err), LK_OK);
	assert_true(x[1] == 0 && fabs(x[2]) < 1e-3 && fabs(x[0] - .2) < .02);
	/* rows of weight 0 say nothing; a column that no row moves stays 0 */
	for (int i = 0; i < ROWS; i++) {
		weight[i] = i % 10 != 0;
		jacobian[i * COUNT + 2] = 0;
	}
	for (int i = 0; i < ROWS; i++)
		residual[i] = jacobian[i * COUNT] * .2 + (weight[i] > 0 ? 0 : 50);
	assert_int_equal(lk_fit_linear(jacobian, residual, weight, ROWS, COUNT, free_prior, x, &err),
	                 LK_OK);
	assert_true(fabs(x[0] - .2) < 1e-4 && fabs(x[1]) < 1e-4 && x[2] == 0);
	free(jacobian);
}

/* ---- rows ---- */

static lk_status read_text(const char *text, lk_calibration *out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "mine.csv", &in, err), LK_OK);
	lk_status status = lk_calibration_read(in, out, err);
	lk_stream_close(in);
	return status;
}

static const char head[] = "family,subject,variant,numbers,points,error,date,source\n";

static void test_rows(void **state) {
	(void)state;
	lk_calibration c = {0}, again = {0};
	lk_error err;
	assert_int_equal(read_text("# mine\nfamily,subject,variant,numbers,points,error,date,source\n"
	                           "gemm,a100-sxm-80,fp16,efficiency=0.74 "
	                           "fill_us=4.2,8120,0.049,2026-11-21,\"a, \"\"b\"\"\"\n"
	                           "gemm,A100 SXM 80,FP16,efficiency=0.8,,,,\n"
	                           "stack,nemo,,,0,,,\n",
	                           &c, &err),
	                 LK_OK);
	const lk_calibration_row *row = lk_calibration_find(&c, "gemm", "a100_sxm_80", "fp16");
	assert_non_null(row); /* the later one wins */
	assert_true(lk_calibration_value(row, "efficiency", 0) == .8 &&
	            lk_calibration_value(row, "fill_us", 9) == 9);
	assert_true(lk_calibration_value(NULL, "efficiency", 5) == 5 && isnan(row->error) &&
	            row->points == 0);
	assert_null(lk_calibration_find(&c, "gemm", "a100-sxm-80", "bf16"));
	assert_string_equal(c.rows.at[0].source, "a, \"b\"");
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	lk_calibration_write(&c, out);
	fclose(out);
	assert_int_equal(read_text(text, &again, &err), LK_OK);
	assert_int_equal(again.rows.count, c.rows.count);
	for (size_t i = 0; i < c.rows.count; i++) {
		assert_string_equal(again.rows.at[i].subject, c.rows.at[i].subject);
		assert_string_equal(again.rows.at[i].source, c.rows.at[i].source);
		assert_int_equal(again.rows.at[i].count, c.rows.at[i].count);
		for (int n = 0; n < c.rows.at[i].count; n++)
			assert_true(again.rows.at[i].numbers[n].value == c.rows.at[i].numbers[n].value);
	}
	free(text);
	lk_calibration_free(&c);
	lk_calibration_free(&again);
}

static void refuse_with(const char *body, const char *where, const char *words) {
	char text[4096], message[1024];
	lk_calibration c = {0};
	lk_error err = {0};
	snprintf(text, sizeof text, "%s%s", head, body);
	assert_int_equal(read_text(text, &c, &err), LK_ERR_INPUT);
	assert_string_equal(err.where, where);
	lk_error_text(&err, message, sizeof message);
	if (!strstr(message, words)) fail_msg("\"%s\" should hold \"%s\"", message, words);
	lk_calibration_free(&c);
}

static void refuse(const char *body, const char *where) {
	refuse_with(body, where, "");
}

static void test_bad_rows(void **state) {
	(void)state;
	refuse("gemm,a100,fp16,efficiency,1,0,,\n", "mine.csv:2");
	refuse("gemm,a100,fp16,efficiency=,1,0,,\n", "mine.csv:2");
	refuse("gemm,a100,fp16,efficiency=x,1,0,,\n", "mine.csv:2");
	refuse("gemm,a100,fp16,blend=1,1,0,,\ngemm,a100,fp16,efficiency=nan,1,0,,\n", "mine.csv:3");
	refuse("gemm,a100,fp16,blend=1,-1,0,,\n", "mine.csv:2");
	refuse("gemm,a100,fp16,blend=1,1,-0.5,,\n", "mine.csv:2");
	refuse(",a100,fp16,blend=1,1,0,,\n", "mine.csv:2");
	refuse("gemm,a100\n", "mine.csv:2");
	/* what no model can work with, and names that no model asks for */
	refuse("step,all,,gemm_share=0,1,0,,\n", "mine.csv:2");
	refuse("step,all,,gemm_share=1e18,1,0,,\n", "mine.csv:2");
	refuse("step,all,,launch_s=-1,1,0,,\n", "mine.csv:2");
	refuse("step,all,,gemm_eficiency=1,1,0,,\n", "mine.csv:2");
	refuse("stack,FSDP,,runs=-1,1,0,,\n", "mine.csv:2");
	refuse("collective,default,,wire=0,1,0,,\n", "mine.csv:2");
	refuse("range,step,dense,low=0,1,0,,\n", "mine.csv:2");
	char many[4096] = "gemm,a,b,";
	for (int i = 0; i <= LK_CALIBRATION_NUMBERS; i++) strcat(many, "tiles=1 ");
	strcat(many, ",1,0,,\n");
	refuse_with(many, "mine.csv:2", "more than ");
	refuse_with("gemm,a100,fp16,blend,1,0,,\n", "mine.csv:2",
	            "column numbers: \"blend\" is not of the form NAME=VALUE; write numbers as in");
	refuse_with("step,all,,gemm_share=0,1,0,,\n", "mine.csv:2",
	            "gemm_share=0 is out of range; give a number from 0.001 to 10");
	refuse_with("gemm,a,b,eficiency=1,1,0,,\n", "mine.csv:2",
	            "the family gemm has no number \"eficiency\"; did you mean efficiency?");
	refuse_with("gemm,a,b,xyz=1,1,0,,\n", "mine.csv:2", "rows with efficiency");
	/* families that no model asks for */
	refuse_with("gemm,a,b,tiles=1,1,0,,\ngem,a,b,,1,0,,\n", "mine.csv:3",
	            "unknown family \"gem\"; did you mean gemm?");
	refuse_with(
		"nobody,a,b,n=1,1,0,,\n", "mine.csv:2",
		"unknown family \"nobody\"; the families are step, scaled, architecture, stack, "
		"collective, laws, curve, gemm, product, product_few, attention, mla, experts, state, "
		"quantize, dispatch, farther, memory, network, rates, generation, overlap, lookup, host, "
		"recommender, range, trees");
	refuse_with("tree,gemm,fp16,1 2 3,1,0,,\n", "mine.csv:2", "did you mean trees?");
	lk_calibration c = {0};
	lk_error err = {0};
	assert_int_equal(read_text("a,b\n1,2\n", &c, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "family"));
	lk_calibration_free(&c);
}

/* A file on top of what was compiled in; of one that is refused no row stays. */
static void test_use(void **state) {
	(void)state;
	static const struct {
		const char *body, *words;
	} bad[] = {
		{"gemm,use-test,fp16,efficiency=0.25,1,0,,\nnobody,a,b,,1,0,,\n", "unknown family"},
		{"gemm,use-test,fp16,efficiency=0.25,1,0,,\ntrees,gemm,use-test,1 x 2,1,0,,\n", ":3: "},
		{"gemm,use-test,fp16,efficiency=0.25,1,0,,\ngemm,use-test,fp16,efficiency=9e9,,,,\n",
	     "out of range"},
	};
	const lk_calibration *built_in = lk_calibration_current(), *all;
	size_t rows = built_in->rows.count;
	char text[1024], message[1024], path[64];
	lk_error err = {0};
	lk_calibration_hold hold, inner;
	assert_int_equal(lk_calibration_begin(&hold, "/nowhere/mine.csv", &err), LK_ERR_IO);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text, "%s%s", head, bad[i].body);
		write_text(new_file(path, ".csv"), text);
		assert_int_equal(lk_calibration_begin(&hold, path, &err), LK_ERR_INPUT);
		lk_error_text(&err, message, sizeof message);
		if (!strstr(message, bad[i].words) || !strstr(message, path)) fail_msg("%s", message);
		assert_ptr_equal(lk_calibration_current(), built_in);
		remove(path);
	}
	snprintf(text, sizeof text, "%sgemm,Use Test,FP16,efficiency=0.25,1,0,,\n", head);
	write_text(new_file(path, ".csv"), text);
	assert_int_equal(lk_calibration_begin(&hold, path, &err), LK_OK);
	all = lk_calibration_current();
	assert_int_equal(all->rows.count, rows + 1);
	for (int i = 0; i < 2; i++) { /* requests inside of it share what was read */
		assert_int_equal(lk_calibration_begin(&inner, i ? path : NULL, &err), LK_OK);
		assert_ptr_equal(lk_calibration_current(), all);
		lk_calibration_end(&inner);
	}
	lk_calibration_leave(&hold);
	assert_ptr_equal(lk_calibration_current(), built_in);
	assert_null(lk_calibration_find(built_in, "gemm", "use-test", "fp16"));
	const lk_calibration_row *row = lk_calibration_find(all, "gemm", "use-test", "fp16");
	assert_true(row && lk_calibration_value(row, "efficiency", 0) == 0.25);
	lk_calibration_release(&hold);
	remove(path);
}

static void rows_are_equal(const lk_calibration_row *a, const lk_calibration_row *b) {
	const char *texts[][2] = {{a->family, b->family},
	                          {a->subject, b->subject},
	                          {a->variant, b->variant},
	                          {a->date, b->date},
	                          {a->source, b->source},
	                          {a->where, b->where},
	                          {a->text ? a->text : "", b->text ? b->text : ""}};
	for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
		assert_string_equal(texts[t][0], texts[t][1]);
	assert_true(!a->text == !b->text && a->count == b->count && a->points == b->points);
	assert_true(a->error == b->error || (isnan(a->error) && isnan(b->error)));
	for (int n = 0; n < a->count; n++) {
		assert_string_equal(a->numbers[n].name, b->numbers[n].name);
		assert_true(a->numbers[n].value == b->numbers[n].value);
	}
}

/* The rows that the build packed are those of the files, in order. */
static void test_compiled_in(void **state) {
	(void)state;
	const lk_calibration *packed = lk_calibration_current();
	lk_calibration c = {0};
	glob_t files;
	assert_int_equal(chdir("data"), 0); /* a row names its file as below it */
	assert_int_equal(glob("calibration/*.csv", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		lk_stream *in;
		lk_error err;
		assert_int_equal(lk_stream_open(files.gl_pathv[i], &in, &err), LK_OK);
		assert_int_equal(lk_calibration_read(in, &c, &err), LK_OK);
		lk_stream_close(in);
	}
	globfree(&files);
	assert_int_equal(chdir(".."), 0);
	assert_true(c.rows.count > 0);
	assert_int_equal(packed->rows.count, c.rows.count);
	for (size_t r = 0; r < c.rows.count; r++) {
		rows_are_equal(&packed->rows.at[r], &c.rows.at[r]);
		assert_true(*c.rows.at[r].source && strlen(c.rows.at[r].date) == 10);
	}
	lk_calibration_free(&c);
}

/* Names written in many ways: what the index finds is the last row that fits. */
static void test_find(void **state) {
	(void)state;
	static const char *const subjects[] = {"h100-sxm", "H100 SXM", "h100sxm",
	                                       "h.100_s",  "h100s",    ""},
							 *const families[] = {"gemm", "memory", "gem"};
	enum { ROWS = 700, SUBJECTS = sizeof subjects / sizeof *subjects };
	lk_calibration c = {0};
	char variants[ROWS][16];
	for (int i = 0; i < ROWS; i++) {
		uint64_t draw = lk_hash64((uint64_t)i);
		snprintf(variants[i], sizeof variants[i], draw & 1 ? "v %d" : "V-%d",
		         (int)(draw >> 8) & 31);
		assert_non_null(lk_calibration_add(&c, families[(draw >> 16) % 3],
		                                   subjects[(draw >> 32) % SUBJECTS], variants[i]));
	}
	for (int i = 0; i < ROWS; i++) {
		const lk_calibration_row *row = &c.rows.at[i], *last = NULL;
		for (int j = 0; j < ROWS; j++)
			if (strcmp(c.rows.at[j].family, row->family) == 0 &&
			    lk_same_name(c.rows.at[j].subject, row->subject) &&
			    lk_same_name(c.rows.at[j].variant, row->variant))
				last = &c.rows.at[j];
		assert_ptr_equal(lk_calibration_find(&c, row->family, row->subject, row->variant), last);
	}
	assert_null(lk_calibration_find(&c, "gemm", "h100-sxm", "v 32"));
	lk_calibration_free(&c);
	assert_null(lk_calibration_find(&c, "gemm", "h100-sxm", "v 1"));
}

/* ---- profiles ---- */

static int runs_of(const lk_calibration *calibration, const char *stack) {
	lk_job job = {0};
	snprintf(job.profile, sizeof job.profile, "%s", stack);
	const lk_calibration_row *row = lk_profile_find(calibration, &job);
	return row ? row->points : -1;
}

/* Runs count for the codebase that a stack runs. */
static void test_codebases(void **state) {
	(void)state;
	lk_calibration c = {0};
	lk_error err;
	assert_int_equal(read_text("family,subject,variant,numbers,points\n"
	                           "stack,Megatron-Core,,runs=5,5\nstack,FSDP,,runs=3,3\n"
	                           "stack,internevo,,runs=2,2\n",
	                           &c, &err),
	                 LK_OK);
	assert_int_equal(runs_of(&c, "nemo"), 5);
	assert_int_equal(runs_of(&c, "megatron"), 5);
	assert_int_equal(runs_of(&c, "mlperf-lora"), 5);
	assert_int_equal(runs_of(&c, "torchtitan"), 3);
	assert_int_equal(runs_of(&c, "internevo"), 2);
	assert_int_equal(runs_of(&c, "pax"), -1);
	lk_calibration_free(&c);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simplex),     cmocka_unit_test(test_linear),
		cmocka_unit_test(test_rows),        cmocka_unit_test(test_bad_rows),
		cmocka_unit_test(test_compiled_in), cmocka_unit_test(test_codebases),
		cmocka_unit_test(test_find),        cmocka_unit_test(test_use),
	};
	return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
