/* test_memory_model.c: the model of memory-bound kernels: limits, monotony, numbers from relatives,
 * fits of made data; whole networks from their kernels: operator lists against counts by hand;
 * tables of both, and the public ones. */
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
#include "tables/tables.h"
#include "fit/fits.h"
#include "validate/validate.h"
#include "base/stats.h"
#include "io/embedded.h"
#include "lockstep/validate.h"
#include "data.h"

static const lk_device *device(const char *name) {
	const lk_device *d = lk_device_find(name);
	if (!d) fail_msg("%s is not in the catalogue", name);
	return d;
}

static const lk_memory_kernel *kernel(const char *name) {
	const lk_memory_kernel *memory_kernel = lk_memory_kernel_find(name);
	if (!memory_kernel) fail_msg("%s is not known", name);
	return memory_kernel;
}

static lk_memory_model random_model(uint64_t seed) {
	double x[LK_MEMORY_NUMBERS];
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) {
		const lk_memory_number *n = &lk_memory_numbers[i];
		double u = lk_uniform(seed, (uint64_t)i);
		x[i] = n->ratio ? n->usual * exp(2 * u - 1) : u;
	}
	return lk_memory_model_from(x);
}

static double seconds(const lk_memory_model *model, const lk_device *device, const char *name,
                      double rows, double width) {
	lk_memory_work work = lk_memory_work_of(kernel(name), rows, width, 4);
	return lk_memory_seconds(model, device, &work);
}

/* ---- the formula ---- */

static void test_limits(void **state) {
	(void)state;
	const char *const names[] = {"add", "softmax", "rmsnorm", "rope"};
	for (uint64_t seed = 0; seed < 400; seed++) {
		lk_memory_model m = random_model(seed);
		const lk_device *device = lk_device_at((int)(seed % (uint64_t)lk_device_count()));
		const char *name = names[seed % 4];
		double rows = floor(exp(12 * lk_uniform(seed, 100))),
			   width = 1 + floor(exp(9 * lk_uniform(seed, 101)));
		double t = seconds(&m, device, name, rows, width);
		lk_memory_work work = lk_memory_work_of(kernel(name), rows, width, 4);
		assert_true(isfinite(t) && t > 0);
		assert_true(t >= m.floor_s && t >= m.start_s);
		assert_true(t >= work.bytes / (device->memory_rate * m.efficiency * (1 + m.cache_gain)));
		assert_true(seconds(&m, device, name, 2 * rows, width) >= t * (1 - 1e-12));
		m.efficiency *= 2;
		assert_true(seconds(&m, device, name, rows, width) <= t * (1 + 1e-12));
	}
}

/* With start, gain and share alone it is the step's form, by hand. */
static void test_step_form(void **state) {
	(void)state;
	const lk_device *d = device("a100-sxm-80");
	const lk_memory_model m = {
		.efficiency = 0.5, .start_s = 6e-6, .cache_gain = 1, .cache_share = 0.5};
	double large = lk_memory_seconds(&m, d, &(lk_memory_work){.bytes = 1e9});
	assert_true(fabs(large - (1e9 / (0.5 * d->memory_rate) + 6e-6)) < 1e-12);
	double half = d->l2_bytes / 4, rate = 0.5 * d->memory_rate * 1.5;
	double small = lk_memory_seconds(&m, d, &(lk_memory_work){.bytes = half});
	assert_true(fabs(small - (half / rate + 6e-6)) < 1e-12);
}

/* A row that does not fill the block's last pass costs as one that does. */
static void test_passes(void **state) {
	(void)state;
	const lk_device *d = device("a100-sxm-80");
	const lk_memory_model m = {.efficiency = 1e3, .row_s = 1e-6, .pass_s = 1e-6};
	double one = seconds(&m, d, "silu_and_mul", 1e5, 1024),
		   part = seconds(&m, d, "silu_and_mul", 1e5, 1025);
	double two = seconds(&m, d, "silu_and_mul", 1e5, 2048);
	assert_true(fabs(part / two - 1) < 1e-3);
	assert_true(fabs(two / one - 1.5) < 1e-2);
}

/* ---- numbers ---- */

static void put(lk_calibration *calibration, const char *subject, const char *variant,
                double efficiency) {
	lk_calibration_row *row = lk_calibration_add(calibration, "memory", subject, variant);
	assert_non_null(row);
	lk_calibration_put(row, "efficiency", efficiency);
}

static double efficiency_of(const lk_calibration *calibration, const char *name, const char *op,
                            const char *without, lk_memory_basis wanted) {
	lk_memory_basis basis;
	const lk_device *left_out = without ? device(without) : NULL;
	lk_memory_model m =
		lk_memory_model_find(calibration, device(name), kernel(op), LK_FP16, left_out, &basis);
	assert_int_equal(basis, wanted);
	return m.efficiency;
}

static void test_relatives(void **state) {
	(void)state;
	lk_calibration c = {0};
	put(&c, "a100-sxm-80", "add fp16", 0.8);
	put(&c, "a40", "add fp16", 0.2);
	put(&c, "h100-sxm", "rope fp16", 0.3);
	assert_true(efficiency_of(&c, "a40", "add", NULL, LK_BASIS_DEVICE) == 0.2);
	assert_true(fabs(efficiency_of(&c, "a40", "add", "a40", LK_BASIS_FAMILY) - 0.8) < 1e-12);
	assert_true(fabs(efficiency_of(&c, "a10", "add", NULL, LK_BASIS_FAMILY) - 0.4) < 1e-12);
	assert_true(fabs(efficiency_of(&c, "h100-sxm", "add", NULL, LK_BASIS_ANY) - 0.4) < 1e-12);
	assert_true(fabs(efficiency_of(&c, "h100-sxm", "silu_and_mul", NULL, LK_BASIS_KIND) - 0.3) <
	            1e-12);
	assert_true(efficiency_of(&c, "v100-pcie-32", "softmax", NULL, LK_BASIS_NONE) ==
	            lk_memory_numbers[0].usual);
	lk_calibration_free(&c);
}

/* A fit of made data comes back to within what is left of the search, and reads back from its row.
 */
static void fit_made(const char *op, double limit) {
	enum { POINTS = 240 };
	lk_memory_point points[POINTS];
	lk_memory_group group = {device("v100-pcie-32"), kernel(op), LK_FP32, points, POINTS};
	lk_memory_model made = random_model(7);
	lk_error err;
	for (uint64_t i = 0; i < POINTS; i++) {
		double rows = floor(16 * exp(8 * lk_uniform(1, i))),
			   width = floor(256 * exp(3 * lk_uniform(2, i)));
		points[i] = (lk_memory_point){rows, width, seconds(&made, group.device, op, rows, width)};
	}
	lk_memory_model found = lk_memory_fit(&group);
	double error = lk_memory_fit_error(&group, &found);
	if (!(error < limit)) fail_msg("%s: %.4f", op, error);
	lk_calibration c = {0};
	assert_int_equal(lk_memory_fit_row(&c, &group, &found, "made", "2026-01-01", &err), LK_OK);
	lk_memory_model read =
		lk_memory_model_find(&c, group.device, group.kernel, LK_FP32, NULL, NULL);
	assert_true(fabs(lk_memory_fit_error(&group, &read) - error) < 1e-9);
	lk_calibration_free(&c);
}

static void test_fit(void **state) {
	(void)state;
	fit_made("add", 0.01);
	fit_made("rmsnorm", 0.03);
	fit_made("softmax", 0.04);
}

/* ---- ranges ---- */

/* The width of a row comes from other folds alone: what its own fold missed by changes nothing. */
static void test_widths(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_miss misses[90];
	double before[90];
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 90; i++)
			misses[i] = (lk_miss){i < 60 ? "a" : "b", i % 3,
			                      turn && i % 3 == 0 ? 9 : lk_uniform(5, (uint64_t)i), NAN};
		assert_int_equal(lk_misses_widths(&arena, misses, 90, &err), LK_OK);
		for (int i = 0; i < 90; i++) {
			assert_true(misses[i].width > 0);
			if (turn && i % 3 == 0) assert_true(misses[i].width == before[i]);
			before[i] = misses[i].width;
		}
	}
	lk_arena_free(&arena);
}

/* ---- whole networks ---- */

static double product_flops(const lk_model *model, const lk_eager_run *run, double *launches) {
	lk_eager_ops ops = {0};
	lk_error err;
	double flops = 0;
	*launches = 0;
	assert_int_equal(lk_eager_list(model, run, &ops, &err), LK_OK);
	for (size_t i = 0; i < ops.count; i++) {
		const lk_eager_op *op = &ops.at[i];
		*launches += op->count;
		assert_true(op->product || (op->kernel && op->bytes > 0));
		if (op->product) flops += op->count * 2 * op->batch * op->m * op->n * op->k;
	}
	lk_vec_free(&ops);
	return flops;
}

/* Forward: two operations for each weight of a matrix and token, and the scores; backward twice as
 * many. */
static void test_operators(void **state) {
	(void)state;
	static const struct {
		const char *name;
		double layer, extra; /* matrix weights of a layer in units of h^2; others */
	} networks[] = {{"gpt2-large", 12, 0}, {"opt-1.3b", 12, 0}, {"bert-large", 12, 1}};
	for (int i = 0; i < 3; i++) {
		lk_model m;
		lk_error err;
		assert_int_equal(lk_model_preset(networks[i].name, &m, &err), LK_OK);
		assert_true(lk_eager_known(&m));
		double h = m.hidden, s = 512, b = 2, launches, more;
		double weights =
			m.layers * networks[i].layer * h * h + networks[i].extra * h * h + h * m.vocab;
		double forward = 2 * b * s * weights + m.layers * 4 * b * s * s * h;
		const lk_eager_run train = {b, s, true, false}, infer = {b, s, false, false},
						   fused = {b, s, false, true};
		double all = product_flops(&m, &train, &launches);
		assert_true(fabs(all / (3 * forward) - 1) < 1e-12);
		if (strcmp(m.family, "bert") != 0)
			assert_true(fabs(product_flops(&m, &infer, &launches) / forward - 1) < 1e-12);
		assert_true(product_flops(&m, &fused, &more) <= forward * (1 + 1e-12));
		product_flops(&m, &infer, &launches);
		assert_true(more < launches);
	}
	lk_model t5;
	assert_false(lk_eager_switch("switch-nothing", &t5));
	assert_true(lk_eager_switch("switchxl4", &t5) && lk_eager_known(&t5));
}

static lk_status read_models(const char *text, lk_model_runs *out, lk_arena *arena, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "m.csv", &in, err), LK_OK);
	lk_status status = lk_models_read(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

#define HEAD "gpu,model,phase,seq,batch,mode,n_gpu,e2e_ms\n"

static void test_table(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_model_runs runs = {0};
	lk_error err = {0};
	const char *good = HEAD
		"NVIDIA_L4,bert_large,inf,512,16,fusion,1,724.7\nTesla_T4,gpt3_xl,train,2048,4,pp4_2,4,9\n"
		"Abacus,own,inf,1,1,tp2,2,1\n";
	assert_int_equal(read_models(good, &runs, &arena, &err), LK_OK);
	assert_int_equal(runs.count, 3);
	assert_true(runs.at[0].compiled && !runs.at[0].train && runs.at[0].seconds == 0.7247);
	assert_string_equal(runs.at[0].model.name, "bert-large");
	assert_true(runs.at[1].stages == 4 && runs.at[1].micro == 2 && runs.at[1].model.hidden == 3072);
	assert_true(!runs.at[2].known && !runs.at[2].device && runs.at[2].tensor == 2);
	lk_vec_free(&runs);
	static const char *const bad[] = {
		"gpu,model\nx,y\n",
		HEAD "l4,bert_large,eval,512,16,single,1,7\n",
		HEAD "l4,bert_large,inf,0,16,single,1,7\n",
		HEAD "l4,bert_large,inf,512,16,single,1,-7\n",
		HEAD "l4,bert_large,inf,512,16,pp,1,7\n",
		HEAD "l4,bert_large,inf,512,16,tp0,1,7\n",
		HEAD "l4,bert_large,inf,512,16,pp4_x,1,7\n",
		HEAD "l4,bert_large,inf,512,16,cloud,1,7\n",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_not_equal(read_models(bad[i], &runs, &arena, &err), LK_OK);
		assert_true(strstr(err.where, "m.csv") != NULL && *err.what);
		lk_vec_free(&runs);
	}
	lk_arena_free(&arena);
}

/* The device's time or the host's, whichever is longer, and no less than either. */
static void test_network_time(void **state) {
	(void)state;
	lk_network_model m = lk_network_usual();
	lk_network_work w = {
		.products_s = {1, 2}, .passes_s = {0.5, 1}, .launches = {100, 200}, .call_s = 20e-6};
	w.bubble = 1;
	double device_s = m.products * 1 + m.passes * 0.5 + m.gap_s * 100;
	assert_true(fabs(lk_network_seconds(&m, &w) / device_s - 1) < 1e-6);
	w.train = true;
	double train = lk_network_seconds(&m, &w);
	assert_true(train > 2.9 * device_s && train < 3.1 * device_s);
	w.call_s = 1;
	assert_true(lk_network_seconds(&m, &w) >= m.host * 300);
	w.bubble = 0.5;
	assert_true(lk_network_seconds(&m, &w) >= m.host * 150);
}

/* ---- public measurements ---- */

static lk_validation *validate(const char *path, bool models) {
	lk_validate_request request;
	lk_validation *validation;
	lk_error err = {0};
	lk_validate_defaults(&request);
	request.table = path;
	request.models = models;
	request.ops = !models;
	request.cross = true;
	if (lk_validate(&request, &validation, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return validation;
}

static void test_networks_measured(void **state) {
	(void)state;
	lk_validation *validation = validate(need_data("measured/fp32_models_e2e.csv"), true);
	assert_true(validation->summary.geomean_error < 0.10);
	assert_true(validation->summary.skipped * 50 <= validation->summary.rows);
	assert_true(validation->summary.coverage > 0.7 && validation->summary.coverage < 0.9);
	lk_validate_free(validation);
}

static void test_kernels_measured(void **state) {
	(void)state;
	if (!getenv("LOCKSTEP_LONG")) skip();
	lk_validation *validation = validate(need_data("measured/ops_fp32_memory.csv.gz"), false);
	assert_true(validation->summary.geomean_error < 0.08);
	assert_int_equal(validation->summary.skipped, 0);
	assert_true(validation->summary.coverage > 0.7 && validation->summary.coverage < 0.9);
	lk_validate_free(validation);
}

/* The rows as text are the committed file. */
static void written(lk_calibration *rows, const char *file) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	assert_non_null(out);
	lk_calibration_write(rows, out);
	fclose(out);
	assert_string_equal(text, lk_data_file(file, NULL));
	free(text);
	lk_calibration_free(rows);
}

/* What is committed is what calibration writes; it takes a minute. */
static void test_committed(void **state) {
	(void)state;
	static const struct {
		const char *table, *source;
	} tables[] = {{"measured/ops_fp16.csv.gz", "microsoft/vidur data/profiling"},
	              {"measured/ops_fp32_memory.csv.gz", "sitar-lab/NeuSight"}};
	if (!getenv("LOCKSTEP_LONG")) skip();
	lk_calibration all = {0};
	lk_error err = {0};
	for (int i = 0; i < 2; i++) {
		lk_stream *in;
		lk_op_samples samples = {0};
		assert_int_equal(lk_stream_open(need_data(tables[i].table), &in, &err), LK_OK);
		assert_int_equal(lk_ops_read(&all.arena, in, &samples, &err), LK_OK);
		assert_int_equal(lk_calibrate_memory(&samples, tables[i].source, "2026-11-21", &all, &err),
		                 LK_OK);
		lk_stream_close(in);
		lk_vec_free(&samples);
	}
	written(&all, "calibration/memory.csv");
}

static void test_committed_networks(void **state) {
	(void)state;
	lk_stream *in;
	lk_calibration all = {0};
	lk_error err = {0};
	if (!getenv("LOCKSTEP_LONG")) skip();
	assert_int_equal(lk_stream_open(need_data("measured/fp32_models_e2e.csv"), &in, &err), LK_OK);
	assert_int_equal(lk_calibrate_models(in, "sitar-lab/NeuSight", "2026-11-21", &all, &err),
	                 LK_OK);
	lk_stream_close(in);
	written(&all, "calibration/networks.csv");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_step_form),
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_relatives),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_widths),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_network_time),
		cmocka_unit_test(test_networks_measured),
		cmocka_unit_test(test_kernels_measured),
		cmocka_unit_test(test_committed),
		cmocka_unit_test(test_committed_networks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
