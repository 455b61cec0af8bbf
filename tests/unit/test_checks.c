/* test_checks.c: an answer that contradicts itself is found before it is printed. Answers as they
 * are pass; each figure that is then made wrong is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "calibrate/calibrate.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"
#include "lockstep/predict.h"
#include "predict/predict.h"
#include "replay/replay.h"
#include "stalls/stalls.h"
#include "validate/validate.h"

static lk_error err;

/* Holds as it is, not with `wrong` in place, and again with what was there. */
#define FOUND(check, field, wrong)                                     \
	do {                                                               \
		__typeof__(field) was_ = (field);                              \
		assert_null((check));                                          \
		(field) = (wrong);                                             \
		const char *found_ = (check);                                  \
		if (!found_) fail_msg("%s = %s is not found", #field, #wrong); \
		assert_non_null(strstr(found_, "_check.c:"));                  \
		(field) = was_;                                                \
	} while (0)

static void test_validate(void **state) {
	(void)state;
	lk_validate_request request;
	lk_validation *answer = NULL;
	lk_validate_defaults(&request);
	request.table = "tests/data/runs_small.csv";
	if (lk_validate(&request, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	lk_accuracy *all = &answer->summary, *group = (lk_accuracy *)answer->groups;
	lk_validated *row = (lk_validated *)answer->rows;
	while (!row->scored) row++;
	FOUND(lk_validation_check(answer), all->rows, all->rows + 1);
	FOUND(lk_validation_check(answer), all->scored, all->scored - 1);
	FOUND(lk_validation_check(answer), all->predicted, all->predicted + 1);
	FOUND(lk_validation_check(answer), all->suspect, -1);
	FOUND(lk_validation_check(answer), all->geomean_error, -0.1);
	FOUND(lk_validation_check(answer), all->geomean_error, 1e-4);
	FOUND(lk_validation_check(answer), all->mape, -1);
	FOUND(lk_validation_check(answer), all->p90_error, all->median_error / 2);
	FOUND(lk_validation_check(answer), all->coverage, 1.5);
	FOUND(lk_validation_check(answer), all->within_5, -0.5);
	FOUND(lk_validation_check(answer), all->kendall_tau, -2);
	FOUND(lk_validation_check(answer), all->half_width, -0.1);
	FOUND(lk_validation_check(answer), group->rows, answer->row_count + 1);
	FOUND(lk_validation_check(answer), row->predicted, INFINITY);
	FOUND(lk_validation_check(answer), row->predicted, row->predicted * 1.01);
	FOUND(lk_validation_check(answer), row->low, row->predicted * 2);
	FOUND(lk_validation_check(answer), row->high, row->predicted / 2);
	FOUND(lk_validation_check(answer), row->measured, NAN);
	FOUND(lk_validation_check(answer), row->scored, false);
	lk_validate_free(answer);
}

static void test_replay(void **state) {
	(void)state;
	const char *path = "tests/data/trace_small.json";
	lk_replay_request request;
	lk_replay *answer = NULL;
	lk_replay_defaults(&request);
	request.paths = &path;
	request.path_count = 1;
	if (lk_replay_ask(&request, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	lk_replay_step *step = (lk_replay_step *)answer->ranks[0].steps;
	while (step->left_out) step++;
	lk_replay_part *part = (lk_replay_part *)step->parts;
	FOUND(lk_replay_check(answer), answer->predicted, answer->predicted + 1);
	FOUND(lk_replay_check(answer), answer->geomean_error, answer->geomean_error + 0.01);
	FOUND(lk_replay_check(answer), answer->geomean_error, -0.01);
	FOUND(lk_replay_check(answer), answer->baseline_error, -0.01);
	FOUND(lk_replay_check(answer), answer->parts_error, -0.01);
	FOUND(lk_replay_check(answer), answer->residual_s, -1);
	FOUND(lk_replay_check(answer), answer->device_known_shape, 1.1);
	FOUND(lk_replay_check(answer), step->predicted_s, INFINITY);
	FOUND(lk_replay_check(answer), step->predicted_s, step->predicted_s * 1.5);
	FOUND(lk_replay_check(answer), step->measured_s, -step->measured_s);
	FOUND(lk_replay_check(answer), step->left_out, "it is there");
	FOUND(lk_replay_check(answer), step->host_known, 1.01);
	FOUND(lk_replay_check(answer), step->device_known, -0.01);
	FOUND(lk_replay_check(answer), part->predicted_s, -1e-6);
	FOUND(lk_replay_check(answer), part->measured_s, INFINITY);
	lk_replay_free(answer);
}

static void test_calibrate(void **state) {
	(void)state;
	lk_calibrate_request request;
	lk_calibrated *answer = NULL;
	lk_calibrate_defaults(&request);
	request.kind = "runs";
	request.table = "tests/data/runs_small.csv";
	if (lk_calibrate(&request, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_calibration *rows = lk_calibrated_rows(answer);
	lk_calibration_row *row = rows->rows.at;
	while (!row->count) row++;
	FOUND(lk_calibrated_check(answer, rows), answer->row_count, answer->row_count - 1);
	FOUND(lk_calibrated_check(answer, rows), row->numbers[0].value, NAN);
	FOUND(lk_calibrated_check(answer, rows), row->numbers[0].value, -1e300);
	FOUND(lk_calibrated_check(answer, rows), row->numbers[0].name, "no such number");
	FOUND(lk_calibrated_check(answer, rows), row->points, -1);
	FOUND(lk_calibrated_check(answer, rows), row->error, -0.5);
	FOUND(lk_calibrated_check(answer, rows), row->family, "");
	FOUND(lk_calibrated_check(answer, rows), row->count, 0);
	lk_measured measured = {"memory", "copy", "GB/s", 10, 9, 12, 5};
	answer->measured = &measured;
	answer->measured_count = 1;
	FOUND(lk_calibrated_check(answer, rows), measured.value, INFINITY);
	FOUND(lk_calibrated_check(answer, rows), measured.value, -1);
	FOUND(lk_calibrated_check(answer, rows), measured.low, 11);
	FOUND(lk_calibrated_check(answer, rows), measured.high, 9.5);
	FOUND(lk_calibrated_check(answer, rows), measured.repeats, -1);
	lk_calibrate_free(answer);
}

/* A step of 10 ms: 6 of compute, 4 of fetch, on two ranks. */
static void make_stalls(lk_stalls_answer *answer, lk_stalls_rank ranks[2],
                        lk_stalls_change *change) {
	*answer = (lk_stalls_answer){.reason = "", .first_s = 0.011, .step_s = 0.010};
	answer->low = answer->high = NAN;
	answer->part_count = LK_STALL_KINDS;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		answer->parts[k] = lk_stalls_unknown((lk_stalls_kind)k, "not seen");
	answer->parts[LK_STALL_COMPUTE] = (lk_stalls_part){
		"compute", false, 0.006, 0.005, 0.007, 0.6, 0.6, 1, LK_STALLS_MEASURED, true, "null"};
	answer->parts[LK_STALL_FETCH] = (lk_stalls_part){
		"fetch", false, 0.004, NAN, NAN, 0.4, 0.4, 1, LK_STALLS_ESTIMATED, true, "cold - hot"};
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++)
		answer->rows[c] = (lk_stalls_row){0, NAN, NAN, NAN, NAN, ""};
	answer->rows[LK_STALLS_COLD] = (lk_stalls_row){3, 0.010, 0.009, 0.011, 0, ""};
	for (int i = 0; i < 2; i++)
		ranks[i] = (lk_stalls_rank){i, 0.010, 0.006, 0.005, 0.001, 0, NAN, 0};
	answer->by_rank = ranks;
	answer->rank_count = 2;
	*change = (lk_stalls_change){"disk x2", 0.008, 1.25, NAN, "compute"};
	answer->changes = change;
	answer->change_count = 1;
}

static void test_stalls(void **state) {
	(void)state;
	lk_stalls_answer answer;
	lk_stalls_rank ranks[2];
	lk_stalls_change change;
	make_stalls(&answer, ranks, &change);
	lk_stalls_part *part = &answer.parts[LK_STALL_COMPUTE];
	lk_stalls_row *row = &answer.rows[LK_STALLS_COLD];
	FOUND(lk_stalls_check(&answer), part->seconds, 0.0065);
	FOUND(lk_stalls_check(&answer), part->seconds, -0.006);
	FOUND(lk_stalls_check(&answer), part->seconds, NAN);
	FOUND(lk_stalls_check(&answer), part->low, 0.0061);
	FOUND(lk_stalls_check(&answer), part->high, 0.0059);
	FOUND(lk_stalls_check(&answer), part->share, 1.2);
	FOUND(lk_stalls_check(&answer), part->basis, LK_STALLS_UNKNOWN);
	FOUND(lk_stalls_check(&answer), answer.step_s, 0.02);
	FOUND(lk_stalls_check(&answer), answer.low, 0.02);
	FOUND(lk_stalls_check(&answer), answer.first_s, INFINITY);
	FOUND(lk_stalls_check(&answer), ranks[1].own, 0.012);
	FOUND(lk_stalls_check(&answer), ranks[1].storage, -1e-6);
	FOUND(lk_stalls_check(&answer), row->high, 0.0095);
	FOUND(lk_stalls_check(&answer), row->runs, -1);
	FOUND(lk_stalls_check(&answer), change.factor, 2);
	FOUND(lk_stalls_check(&answer), answer.buckets.per_call_s, -1e-6);
}

static void test_stalls_files(void **state) {
	(void)state;
	lk_stalls_answer answer;
	lk_stalls_rank ranks[2];
	lk_stalls_change change;
	make_stalls(&answer, ranks, &change);
	lk_stalls_file files[2] = {{.path = "/d/a",
	                            .reads = 4,
	                            .sequential = 3,
	                            .read_bytes = 4096,
	                            .size = 8192,
	                            .read_s = 1},
	                           {.path = "/d/b",
	                            .reads = 2,
	                            .sequential = 1,
	                            .read_bytes = 512,
	                            .size = 512,
	                            .read_s = 0.5}};
	lk_stalls_folder folder = {"/d", "", 2, 0, 6, 4, 4608, 8704, 1.5};
	files[1].staged = true;
	answer.files = files;
	answer.file_count = 2;
	answer.folders = &folder;
	answer.folder_count = 1;
	answer.staging = (lk_stalls_staging){1024, 512, 1, 0, 1.5, 0.4, 0.1};
	FOUND(lk_stalls_check(&answer), files[0].sequential, 5);
	FOUND(lk_stalls_check(&answer), files[0].reads, 5);
	FOUND(lk_stalls_check(&answer), files[0].read_s, -1);
	FOUND(lk_stalls_check(&answer), folder.files, 3);
	FOUND(lk_stalls_check(&answer), folder.read_bytes, 4096);
	FOUND(lk_stalls_check(&answer), answer.staging.used, 2048);
	FOUND(lk_stalls_check(&answer), answer.staging.gain_s, 2);
	FOUND(lk_stalls_check(&answer), files[0].staged, true);
}

static void test_compile(void **state) {
	(void)state;
	lc_summary one = {.tensors = 1, .elements = 3, .least = 1, .most = 3, .mean = 2, .firsts = 2};
	one.first[0] = 1, one.first[1] = 3;
	FOUND(lc_summary_check(&one, false), one.least, 4);
	FOUND(lc_summary_check(&one, false), one.mean, 3.5);
	FOUND(lc_summary_check(&one, false), one.mean, 0.5);
	FOUND(lc_summary_check(&one, false), one.first[1], 3.5);
	FOUND(lc_summary_check(&one, false), one.firsts, LC_FIRST + 1);
	FOUND(lc_summary_check(&one, false), one.elements, 1);
	FOUND(lc_summary_check(&one, false), one.tensors, -1);
	lc_verdict verdict = {.equal = true, .runs = 6, .meshes = 2, .chance = 1e-9, .worst = NAN};
	FOUND(lc_verdict_check(&verdict), verdict.equal, false);
	FOUND(lc_verdict_check(&verdict), verdict.where[0], 'g');
	FOUND(lc_verdict_check(&verdict), verdict.chance, -1);
	FOUND(lc_verdict_check(&verdict), verdict.runs, 1);
	FOUND(lc_verdict_check(&verdict), verdict.worst, -1);
	FOUND(lc_verdict_check(&verdict), verdict.skipped, -1);
}

static void test_tune(void **state) {
	(void)state;
	lk_found found[2] = {{.time = {3, 1, 2, 100, 5}}, {.time = {4, 1, 3, 100, 5}}};
	lk_search search = {.plain = {.time = {4, 1, 3, 100, 5}}, .looked = 2};
	search.found.at = found;
	search.found.count = 2;
	FOUND(lk_search_check(&search), found[0].time.seconds, 3.5);
	FOUND(lk_search_check(&search), found[0].time.compute_s, -1);
	FOUND(lk_search_check(&search), found[1].time.bytes, -1);
	FOUND(lk_search_check(&search), search.found.count, 0);
	FOUND(lk_search_check(&search), search.looked, 0);
	FOUND(lk_search_check(&search), found[1].time, ((lk_timed){2, 1, 1, 100, 5}));
	FOUND(lk_search_check(&search), search.plain.time, ((lk_timed){2, 1, 1, 100, 5}));
	/* measured ones come in the order of their measurements */
	search.measurement.schedules = 1;
	found[1].time = (lk_timed){2, 1, 1, 100, 5};
	assert_null(lk_search_check(&search));
}

static void test_bench(void **state) {
	(void)state;
	double seconds[3] = {1, 2, 3};
	lc_bench_row row = {.name = "plain", .seconds = seconds, .predicted = NAN};
	row.time = (lc_interval){2, 1, 3}, row.ratio = (lc_interval){1, NAN, NAN};
	row.moved = (lc_moved){64, 32, 128};
	lc_bench_result result = {.rows = &row, .count = 1, .rounds = 3, .ranks = 2, .tau = NAN};
	FOUND(lc_bench_result_check(&result), row.time.low, 2.5);
	FOUND(lc_bench_result_check(&result), row.time.high, 1.5);
	FOUND(lc_bench_result_check(&result), row.ratio.median, NAN);
	FOUND(lc_bench_result_check(&result), seconds[1], -1);
	FOUND(lc_bench_result_check(&result), row.moved.between, 65);
	FOUND(lc_bench_result_check(&result), row.moved.touched, -1);
	FOUND(lc_bench_result_check(&result), row.predicted, 0);
	FOUND(lc_bench_result_check(&result), result.tau, 1.5);
	FOUND(lc_bench_result_check(&result), result.ranks, 0);
}

/* ---- what becomes of a finding ---- */

static int signal_of_finding(const char *mode) {
	pid_t child = fork();
	if (child == 0) {
		close(STDERR_FILENO);
		if (mode) setenv("LOCKSTEP_CHECKS", mode, 1);
		else unsetenv("LOCKSTEP_CHECKS");
		_exit(lk_failed_check("f.c:1: true is false") != NULL);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

/* The library of unit tests has LK_ASSERTS. */
static void test_finding(void **state) {
	(void)state;
	assert_null(lk_failed_check(NULL));
	assert_int_equal(signal_of_finding("abort"), SIGABRT);
	assert_int_equal(signal_of_finding(NULL), SIGABRT);
	assert_int_equal(signal_of_finding("fail"), -1);
}

/* An answer that fails is the same answer, marked; the mark goes with it to other processes. */
static void test_marked(void **state) {
	(void)state;
	lk_predict_request request;
	lk_prediction *answer, *marked, *copy;
	void *bytes;
	size_t size;
	lk_predict_defaults(&request);
	request.model = "llama3.1-8b", request.gpu = "h100-sxm", request.gpus = 8;
	request.measured = "90 s";
	assert_int_equal(lk_predict(&request, &answer, &err), LK_OK);
	assert_null(answer->failed_check);
	setenv("LOCKSTEP_CHECKS", "fail", 1);
	assert_int_equal(lk_predict(&request, &marked, &err), LK_OK);
	unsetenv("LOCKSTEP_CHECKS");
	assert_non_null(marked->failed_check);
	assert_true(marked->step_time_s == answer->step_time_s);
	assert_int_equal(lk_predict_pack(marked, &bytes, &size, &err), LK_OK);
	assert_int_equal(lk_predict_unpack(bytes, size, &copy, &err), LK_OK);
	assert_string_equal(copy->failed_check, marked->failed_check);
	/* what points somewhere points into the copy: numbers have no such bits */
	for (size_t i = 0; i < sizeof *copy / sizeof(uint64_t); i++) {
		uint64_t here = ((const uint64_t *)(const void *)copy)[i];
		if (here >> 44 == 5 || here >> 44 == 7)
			assert_int_not_equal(here, ((const uint64_t *)(const void *)marked)[i]);
	}
	const lk_expected *came = copy->expected, *went = marked->expected;
	assert_non_null(came);
	assert_string_equal(came->verdict, went->verdict);
	assert_true(went->suspect_count > 0 && came->suspect_count == went->suspect_count);
	for (int i = 0; i < went->suspect_count; i++) {
		assert_string_equal(came->suspects[i].check, went->suspects[i].check);
		assert_true(came->suspects[i].share == went->suspects[i].share);
	}
	assert_string_equal(came->compared[0].label, went->compared[0].label);
	free(bytes);
	lk_predict_free(copy);
	lk_predict_free(marked);
	lk_predict_free(answer);
}

/* Convolutions count with all their multiplications, of which Winograd's algorithms run fewer: no
 * limit of 1 takes an answer away. */
static void test_convolution_nets(void **state) {
	(void)state;
	static const char *const models[] = {"vgg11",   "vgg13",    "vgg16",    "vgg19",
	                                     "alexnet", "resnet18", "resnet34", "resnet50"};
	static const char *const gpus[] = {"v100-sxm-16", "a100-sxm-40"};
	static const char *const dtypes[] = {"fp32", "fp16"};
	static const int counts[] = {1, 4}, batches[] = {8, 32, 128};
	int above = 0, answered = 0;
	for (size_t m = 0; m < sizeof models / sizeof *models; m++)
		for (int i = 0; i < 24; i++) {
			lk_predict_request request;
			lk_prediction *answer = NULL;
			lk_predict_defaults(&request);
			request.model = models[m];
			request.gpu = gpus[i / 12], request.dtype = dtypes[i / 6 % 2];
			request.gpus = counts[i / 3 % 2], request.mbs = batches[i % 3];
			request.gbs = request.mbs * request.gpus;
			if (lk_predict(&request, &answer, &err) != LK_OK)
				fail_msg("%s: %s: %s", models[m], err.where, err.what);
			assert_null(answer->failed_check);
			above += answer->mfu > 1, answered++;
			lk_predict_free(answer);
		}
	assert_int_equal(answered, 192);
	assert_true(above > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_validate),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_calibrate),
		cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_stalls_files),
		cmocka_unit_test(test_compile),
		cmocka_unit_test(test_tune),
		cmocka_unit_test(test_bench),
		cmocka_unit_test(test_finding),
		cmocka_unit_test(test_marked),
		cmocka_unit_test(test_convolution_nets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
