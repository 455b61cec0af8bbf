/* test_measure.c: what measures the machine: our own product against a plain loop, the team of
 * threads, repetition, the matrix of links; a whole measurement with hardly any time, whose file
 * the cluster reader takes; and costs on such a device. Nothing here depends on how fast the
 * machine is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/units.h"
#include "cost/cost.h"
#include "lockstep/calibrate.h"
#include "lockstep/predict.h"
#include "calibrate/host/meter.h"
#include "scratch.h"

/* ---- threads ---- */

struct tally {
	_Atomic int runs[8];
	_Atomic int threads;
};

static void count_me(void *context, int thread, int threads) {
	struct tally *tally = context;
	tally->runs[thread]++;
	tally->threads = threads;
}

static void test_team(void **state) {
	(void)state;
	for (int size = 1; size <= 5; size += 2) {
		struct tally t = {0};
		lk_team *team = lk_team_new(size);
		assert_non_null(team);
		assert_int_equal(lk_team_size(team), size);
		for (int i = 0; i < 100; i++) lk_team_run(team, count_me, &t);
		for (int i = 0; i < 8; i++) assert_int_equal(t.runs[i], i < size ? 100 : 0);
		assert_int_equal(t.threads, size);
		lk_team_free(team);
	}
	lk_team_free(NULL);
}

/* ---- repetition ---- */

struct script {
	const double *seconds;
	int at, count;
};

static double next_of(void *context) {
	struct script *script = context;
	return script->at < script->count ? script->seconds[script->at++]
	                                  : script->seconds[script->count - 1];
}

static void test_repeat(void **state) {
	(void)state;
	const double steady[] = {9, 1, 3, 2}; /* the first does not count */
	struct script s = {steady, 0, 4};
	lk_sample sample = lk_repeat(next_of, &s, 0, 3);
	assert_int_equal(sample.repeats, 3);
	assert_true(sample.median == 2 && sample.low > 1 && sample.low < sample.high &&
	            sample.high < 3);
	const double failing[] = {1, 1, NAN};
	s = (struct script){failing, 0, 3};
	sample = lk_repeat(next_of, &s, 0, 3);
	assert_int_equal(sample.repeats, 0);
	assert_true(isnan(sample.median));
}

/* ---- products ---- */

static void plain_product(long m, long n, long k, const float *a, const float *b, float *c) {
	for (long i = 0; i < m; i++)
		for (long j = 0; j < n; j++) {
			double sum = 0;
			for (long p = 0; p < k; p++) sum += (double)a[i * k + p] * b[p * n + j];
			c[i * n + j] = (float)sum;
		}
}

static void check_product(lk_team *team, const lk_kernels *kernels, long m, long n, long k) {
	size_t cells = (size_t)(m * n), left = (size_t)(m * k), right = (size_t)(k * n);
	float *a = malloc(left * sizeof *a), *b = malloc(right * sizeof *b);
	float *c = malloc((cells + 1) * sizeof *c), *wanted = malloc(cells * sizeof *c);
	float *room = malloc(lk_product_room(kernels, lk_team_size(team), n, k) * sizeof *room);
	assert_true(a && b && c && wanted && room);
	for (size_t i = 0; i < left; i++) a[i] = (float)((i * 37 + 11) % 17) - 8;
	for (size_t i = 0; i < right; i++) b[i] = (float)((i * 29 + 5) % 13) - 6;
	c[cells] = 12345; /* nothing is written behind the end */
	plain_product(m, n, k, a, b, wanted);
	lk_product(team, kernels, room, m, n, k, a, b, c);
	for (size_t i = 0; i < cells; i++)
		if (c[i] != wanted[i])
			fail_msg("%s, %ld x %ld x %ld, cell %zu: %g, not %g", kernels->name, m, n, k, i, c[i],
			         wanted[i]);
	assert_true(c[cells] == 12345);
	free(a);
	free(b);
	free(c);
	free(wanted);
	free(room);
}

/* Small whole numbers: every order of summation gives the same. Sizes at, below and above tiles,
 * blocks and slabs. */
static void test_product(void **state) {
	(void)state;
	static const long sizes[][3] = {{1, 1, 1},     {12, 32, 256},  {13, 33, 257}, {5, 7, 600},
	                                {121, 65, 40}, {250, 31, 300}, {64, 64, 64}};
	for (int threads = 1; threads <= 3; threads += 2) {
		lk_team *team = lk_team_new(threads);
		const lk_kernels *kernels;
		for (int set = 0; (kernels = lk_kernels_at(set)); set++)
			for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
				check_product(team, kernels, sizes[i][0], sizes[i][1], sizes[i][2]);
		lk_team_free(team);
	}
}

static void test_loops(void **state) {
	(void)state;
	_Alignas(64) uint64_t words[256];
	uint64_t sum = 0;
	for (size_t i = 0; i < 256; i++) sum += words[i] = i * i * 977;
	const lk_kernels *kernels;
	for (int set = 0; (kernels = lk_kernels_at(set)); set++) {
		double flops;
		assert_true(kernels->read(words, 256) == sum);
		assert_true(isfinite(kernels->multiply_add(10, &flops)));
		assert_true(flops == 10.0 * 12 * kernels->columns);
		assert_true(kernels->rows * kernels->columns <= 12 * 32); /* as product.c has room for */
	}
}

/* ---- links ---- */

static void test_topology(void **state) {
	(void)state;
	lk_topology t;
	int pairs;
	assert_true(lk_topology_read(
		"\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
		"GPU0\t X \tNV12\tPIX\t0-31\t0\nGPU1\tNV12\t X \tSYS\t0-31\t0\nNIC0\tPIX\tSYS\t X \n\n"
		"Legend:\n\n  X    = Self\n  GPU = no row\n",
		&t));
	assert_int_equal(t.gpus, 2);
	assert_string_equal(t.link[0][1], "NV12");
	assert_string_equal(t.link[1][1], "X");
	assert_int_equal(lk_topology_joined(&t, &pairs), 1);
	assert_int_equal(pairs, 1);
	assert_true(lk_topology_read(
		"\tGPU0\tGPU1\tGPU2\nGPU0 X PHB NV1\nGPU1 PHB X SYS\nGPU2 NV1 SYS X\n", &t));
	assert_int_equal(lk_topology_joined(&t, &pairs), 1);
	assert_int_equal(pairs, 3);
	static const char *const wrong[] = {
		"",
		"\n\n",
		"No devices were found\n",
		"\tGPU0\tGPU1\nGPU0 X NV1\n",
		"\tGPU0\tGPU1\nGPU0 X\nGPU1 X X\n",
		"GPU0 GPU0\n",
		"GPU99999999999\n",
		"\x1b[",
		"\tGPU0\nGPU1 X\n",
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_false(lk_topology_read(wrong[i], &t));
	char many[400] = "";
	for (int i = 0; i < 20; i++) sprintf(many + strlen(many), "GPU%d ", i);
	assert_false(lk_topology_read(many, &t));
}

/* ---- the machine ---- */

/* Measured once, for the tests that look at it: a sanitizer makes it take seconds. */
static lk_calibrated *measured_host;

static const lk_calibrated *measure_host(void) {
	if (measured_host) return measured_host;
	lk_calibrate_request request;
	lk_error err = {0};
	lk_calibrate_defaults(&request);
	request.kind = "host";
	request.seconds = 0.1;
	request.date = "2026-11-21";
	request.name = "our machine";
	if (lk_calibrate(&request, &measured_host, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	return measured_host;
}

static int forget_host(void **state) {
	(void)state;
	lk_calibrate_free(measured_host);
	return 0;
}

static const lk_measured *find(const lk_calibrated *calibrated, const char *group,
                               const char *part) {
	for (int i = 0; i < calibrated->measured_count; i++)
		if (strcmp(calibrated->measured[i].group, group) == 0 &&
		    strstr(calibrated->measured[i].name, part))
			return &calibrated->measured[i];
	fail_msg("%s: nothing is called '%s'", group, part);
	return NULL;
}

static void test_host(void **state) {
	(void)state;
	const lk_calibrated *calibrated = measure_host();
	for (int i = 0; i < calibrated->measured_count; i++) {
		const lk_measured *measured = &calibrated->measured[i];
		if (!isfinite(measured->value) || measured->value <= 0)
			fail_msg("%s, %s: %g", measured->group, measured->name, measured->value);
		if (measured->repeats && !(measured->low > 0 && measured->low <= measured->value &&
		                           measured->value <= measured->high))
			fail_msg("%s, %s: %g is not in %g to %g", measured->group, measured->name,
			         measured->value, measured->low, measured->high);
	}
	find(calibrated, "product", "fp32 product, n = 64");
	find(calibrated, "product", "registers");
	find(calibrated, "memory", "triad, all cores");
	find(calibrated, "cache", "read, 16 KiB");
	find(calibrated, "call", "system call");
	find(calibrated, "call", "all cores");
	find(calibrated, "pair", "local socket");
	assert_true(calibrated->note_count > 0);
	assert_int_equal(calibrated->row_count, 0);
	/* What is never in the result: where it ran. */
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	FILE *file = tmpfile();
	char text[65536] = "";
	lk_error err = {0};
	assert_non_null(file);
	assert_int_equal(lk_calibrate_print(calibrated, LK_CALIBRATE_JSON, false, file, &err), LK_OK);
	rewind(file);
	size_t size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	assert_true(size > 500 && !strstr(text, "/tmp"));
	if (strlen(host) > 8) assert_null(strstr(text, host));
}

/* The file of a measurement is a cluster; its JSON holds what the table shows; a network is
 * predicted on it. */
static void test_round_trip(void **state) {
	(void)state;
	char path[64];
	new_file(path, ".json");
	lk_error err = {0};
	const lk_calibrated *calibrated = measure_host();
	assert_int_equal(lk_calibrate_save(calibrated, LK_CALIBRATE_AUTO, false, path, stdout, &err),
	                 LK_OK);
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	if (lk_cluster_parse(&arena, path, &cluster, &err) != LK_OK)
		fail_msg("%s: %s", err.where, err.what);
	const lk_device *device = cluster.node[0].device;
	if (device->arch == LK_ARCH_CPU) {
		assert_string_equal(device->name, "our machine");
		assert_true(device->gemm_flops > 0 &&
		            device->gemm_flops <= device->peak_flops[LK_FP32] * 1.001);
		assert_true(
			fabs(device->stream_rate / 1e9 / find(calibrated, "memory", "triad, all")->high - 1) <
			1e-3);
		lk_predict_request ask;
		lk_prediction *prediction = NULL;
		lk_predict_defaults(&ask);
		ask.model = "gpt2";
		ask.cluster = path;
		ask.dtype = "fp32";
		ask.gbs = 1;
		ask.seq = 64;
		if (lk_predict(&ask, &prediction, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
		assert_true(isfinite(prediction->step_time_s) && prediction->step_time_s > 0);
		assert_true(prediction->model_flops_per_s_per_gpu <= device->gemm_flops * 1.05);
		lk_predict_free(prediction);
	}
	lk_value *top;
	lk_stream *in;
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	assert_int_equal(lk_json_document(&arena, in, &top, &err), LK_OK);
	lk_stream_close(in);
	const lk_value *memory = lk_json_get(lk_json_get(top, "measured"), "memory");
	const lk_value *triad = lk_json_get(memory, "triad, all cores");
	assert_non_null(triad);
	assert_true(
		fabs(lk_json_get(triad, "value")->number / find(calibrated, "memory", "triad, all")->value -
	         1) < 1e-3);
	assert_string_equal(lk_json_get(triad, "unit")->text, "GB/s");
	lk_arena_free(&arena);
	unlink(path);
}

/* ---- costs on a measured device ---- */

static double seconds_of(lk_op op, const lk_device *device) {
	lk_graph *graph = lk_graph_new();
	lk_error err = {0};
	uint32_t block;
	assert_non_null(graph);
	op.stream = LK_STREAM_COMPUTE;
	op.name = "op";
	lk_graph_begin_block(graph, "all");
	lk_graph_add(graph, &op);
	assert_int_equal(lk_graph_end_block(graph, &block, &err), LK_OK);
	const lk_node node = {.device = device, .gpus = 1};
	lk_cost_site site = {.constants = &lk_default_constants, .node = &node};
	lk_step_products(device, site.products);
	lk_cost cost = lk_cost_op(graph, 0, &site);
	assert_true(cost.compute >= 0 && cost.compute <= 1 && cost.memory >= 0 && cost.memory <= 1);
	lk_graph_free(graph);
	return (double)cost.duration_ps / LK_PS_PER_S;
}

static void near(double value, double wanted) {
	if (fabs(value - wanted) > 1e-9 * wanted + 1e-12) fail_msg("%.12g is not %.12g", value, wanted);
}

static void test_measured_costs(void **state) {
	(void)state;
	lk_device d = *lk_device_find("xeon-8380");
	lk_op product = {.kind = LK_OP_GEMM,
	                 .dtype = LK_FP32,
	                 .m = 1000,
	                 .n = 1000,
	                 .k = 1000,
	                 .batch = 1,
	                 .flops = 2e9,
	                 .bytes = 12e6};
	lk_op add = {.kind = LK_OP_ELEMENTWISE, .dtype = LK_FP32, .flops = 1, .bytes = 1e9};
	double spec = seconds_of(product, &d), spec_add = seconds_of(add, &d);
	d.gemm_flops = 1e12;
	d.stream_rate = 50e9;
	d.call_s = 3e-6;
	near(seconds_of(product, &d), 2e9 / 1e12 + 3e-6);
	near(seconds_of(add, &d), 1e9 / 50e9 + 3e-6);
	product.bytes = 1e9; /* a product that memory holds up */
	near(seconds_of(product, &d), 1e9 / 50e9 + 3e-6);
	product.bytes = 12e6;
	product.dtype = LK_BF16; /* no bf16 on this device: as fp32 */
	near(seconds_of(product, &d), 2e9 / 1e12 + 3e-6);
	d.peak_flops[LK_BF16] = 4 * d.peak_flops[LK_FP32];
	near(seconds_of(product, &d), 0.5e9 / 1e12 + 3e-6);
	/* Each kind goes back to the peaks where its rate was not measured. */
	d = *lk_device_find("xeon-8380");
	product.dtype = LK_FP32;
	near(seconds_of(product, &d), spec);
	near(seconds_of(add, &d), spec_add);
	d.gemm_flops = 100e12;
	near(seconds_of(add, &d), spec_add);
	assert_true(seconds_of(product, &d) < spec);
}

/* ---- what is refused ---- */

static void refused(const lk_calibrate_request *request, const char *where, const char *what) {
	lk_calibrated *calibrated = NULL;
	lk_error err = {0};
	char text[1024];
	assert_int_not_equal(lk_calibrate(request, &calibrated, &err), LK_OK);
	assert_null(calibrated);
	lk_error_text(&err, text, sizeof text);
	if (strncmp(text, where, strlen(where)) != 0 || !strstr(text, what)) fail_msg("%s", text);
}

static void test_refused(void **state) {
	(void)state;
	const lk_calibrate_request requests[] = {
		{.kind = NULL},
		{.kind = "hots"},
		{.kind = "ops"},
		{.kind = "host", .table = "x.csv"},
		{.kind = "ops", .table = "x.csv", .mpi = "mpirun -n 2"},
		{.kind = "host", .date = "21.11.2026"},
		{.kind = "host", .date = "2026-02-30"},
		{.kind = "host", .name = "a name of a device that is longer than a field"},
		{.kind = "ops", .table = "x.csv", .source = "two\nlines"},
		{.kind = "host", .seconds = 1e9},
		{.kind = "host", .seconds = NAN},
		{.kind = "host", .seconds = 0.1, .disk = "/no/such/place"},
		{.kind = "ops", .table = "/no/such/table.csv"},
	};
	static const char *const wanted[][2] = {
		{"calibrate: ", "not a kind"},
		{"calibrate: ", "did you mean host?"},
		{"calibrate: ", "no table"},
		{"calibrate host: ", "reads no file"},
		{"--mpi: ", "calibrate host"},
		{"--date: ", "not a date"},
		{"--date: ", "not a date"},
		{"--name: ", "longer"},
		{"--source: ", "control"},
		{"--seconds: ", "0.1 to 3600"},
		{"--seconds: ", "0.1 to 3600"},
		{"--disk: ", "cannot read"},
		{"/no/such/table.csv: ", "cannot open"},
	};
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
		refused(&requests[i], wanted[i][0], wanted[i][1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_team),       cmocka_unit_test(test_repeat),
		cmocka_unit_test(test_product),    cmocka_unit_test(test_loops),
		cmocka_unit_test(test_topology),   cmocka_unit_test(test_host),
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_measured_costs),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, forget_host);
}
