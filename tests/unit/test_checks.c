/* test_checks.c: an answer that contradicts itself is found before it is printed. Answers as they
 * are pass; each figure that is then made wrong is an internal error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"
#include "replay/replay.h"
#include "stalls/stalls.h"
#include "validate/validate.h"

static lk_error err;

/* Holds as it is, not with `wrong` in place, and again with what was there. */
#define FOUND(check, field, wrong)                                                        \
	do {                                                                                  \
		__typeof__(field) was_ = (field);                                                 \
		assert_int_equal((check), LK_OK);                                                 \
		(field) = (wrong);                                                                \
		if ((check) != LK_ERR_INTERNAL) fail_msg("%s = %s is not found", #field, #wrong); \
		assert_non_null(strstr(err.what, "does not hold"));                               \
		assert_non_null(strstr(err.hint, "report"));                                      \
		(field) = was_;                                                                   \
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
	FOUND(lk_validation_check(answer, &err), all->rows, all->rows + 1);
	FOUND(lk_validation_check(answer, &err), all->scored, all->scored - 1);
	FOUND(lk_validation_check(answer, &err), all->predicted, all->predicted + 1);
	FOUND(lk_validation_check(answer, &err), all->suspect, -1);
	FOUND(lk_validation_check(answer, &err), all->geomean_error, -0.1);
	FOUND(lk_validation_check(answer, &err), all->geomean_error, 1e-4);
	FOUND(lk_validation_check(answer, &err), all->mape, -1);
	FOUND(lk_validation_check(answer, &err), all->p90_error, all->median_error / 2);
	FOUND(lk_validation_check(answer, &err), all->coverage, 1.5);
	FOUND(lk_validation_check(answer, &err), all->within_5, -0.5);
	FOUND(lk_validation_check(answer, &err), all->kendall_tau, -2);
	FOUND(lk_validation_check(answer, &err), all->half_width, -0.1);
	FOUND(lk_validation_check(answer, &err), group->rows, answer->row_count + 1);
	FOUND(lk_validation_check(answer, &err), row->predicted, INFINITY);
	FOUND(lk_validation_check(answer, &err), row->predicted, row->predicted * 1.01);
	FOUND(lk_validation_check(answer, &err), row->low, row->predicted * 2);
	FOUND(lk_validation_check(answer, &err), row->high, row->predicted / 2);
	FOUND(lk_validation_check(answer, &err), row->measured, NAN);
	FOUND(lk_validation_check(answer, &err), row->scored, false);
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
	FOUND(lk_replay_check(answer, &err), answer->predicted, answer->predicted + 1);
	FOUND(lk_replay_check(answer, &err), answer->geomean_error, answer->geomean_error + 0.01);
	FOUND(lk_replay_check(answer, &err), answer->geomean_error, -0.01);
	FOUND(lk_replay_check(answer, &err), answer->baseline_error, -0.01);
	FOUND(lk_replay_check(answer, &err), answer->parts_error, -0.01);
	FOUND(lk_replay_check(answer, &err), answer->residual_s, -1);
	FOUND(lk_replay_check(answer, &err), answer->device_known_shape, 1.1);
	FOUND(lk_replay_check(answer, &err), step->predicted_s, INFINITY);
	FOUND(lk_replay_check(answer, &err), step->predicted_s, step->predicted_s * 1.5);
	FOUND(lk_replay_check(answer, &err), step->measured_s, -step->measured_s);
	FOUND(lk_replay_check(answer, &err), step->left_out, "it is there");
	FOUND(lk_replay_check(answer, &err), step->host_known, 1.01);
	FOUND(lk_replay_check(answer, &err), step->device_known, -0.01);
	FOUND(lk_replay_check(answer, &err), part->predicted_s, -1e-6);
	FOUND(lk_replay_check(answer, &err), part->measured_s, INFINITY);
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
	FOUND(lk_calibrated_check(answer, rows, &err), answer->row_count, answer->row_count - 1);
	FOUND(lk_calibrated_check(answer, rows, &err), row->numbers[0].value, NAN);
	FOUND(lk_calibrated_check(answer, rows, &err), row->numbers[0].value, -1e300);
	FOUND(lk_calibrated_check(answer, rows, &err), row->numbers[0].name, "no such number");
	FOUND(lk_calibrated_check(answer, rows, &err), row->points, -1);
	FOUND(lk_calibrated_check(answer, rows, &err), row->error, -0.5);
	FOUND(lk_calibrated_check(answer, rows, &err), row->family, "");
	FOUND(lk_calibrated_check(answer, rows, &err), row->count, 0);
	lk_measured measured = {"memory", "copy", "GB/s", 10, 9, 12, 5};
	answer->measured = &measured;
	answer->measured_count = 1;
	FOUND(lk_calibrated_check(answer, rows, &err), measured.value, INFINITY);
	FOUND(lk_calibrated_check(answer, rows, &err), measured.value, -1);
	FOUND(lk_calibrated_check(answer, rows, &err), measured.low, 11);
	FOUND(lk_calibrated_check(answer, rows, &err), measured.high, 9.5);
	FOUND(lk_calibrated_check(answer, rows, &err), measured.repeats, -1);
	lk_calibrate_free(answer);
}

/* A step of 10 ms: 6 of compute, 4 of fetch, on two ranks. */
static void make_stalls(lk_stalls_answer *answer, lk_stalls_rank ranks[2],
                        lk_stalls_change *change) {
	*answer = (lk_stalls_answer){.reason = "", .first_s = 0.011, .step_s = 0.010};
	answer->low = answer->high = NAN;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		answer->parts[k] =
			(lk_stalls_part){NAN, NAN, NAN, NAN, NAN, NAN, LK_STALLS_UNKNOWN, false, "not seen"};
	answer->parts[LK_STALL_COMPUTE] =
		(lk_stalls_part){0.006, 0.005, 0.007, 0.6, 0.6, 1, LK_STALLS_MEASURED, true, "null"};
	answer->parts[LK_STALL_FETCH] =
		(lk_stalls_part){0.004, NAN, NAN, 0.4, 0.4, 1, LK_STALLS_ESTIMATED, true, "cold - hot"};
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
	FOUND(lk_stalls_check(&answer, &err), part->seconds, 0.0065);
	FOUND(lk_stalls_check(&answer, &err), part->seconds, -0.006);
	FOUND(lk_stalls_check(&answer, &err), part->seconds, NAN);
	FOUND(lk_stalls_check(&answer, &err), part->low, 0.0061);
	FOUND(lk_stalls_check(&answer, &err), part->high, 0.0059);
	FOUND(lk_stalls_check(&answer, &err), part->share, 1.2);
	FOUND(lk_stalls_check(&answer, &err), part->basis, LK_STALLS_UNKNOWN);
	FOUND(lk_stalls_check(&answer, &err), answer.step_s, 0.02);
	FOUND(lk_stalls_check(&answer, &err), answer.low, 0.02);
	FOUND(lk_stalls_check(&answer, &err), answer.first_s, INFINITY);
	FOUND(lk_stalls_check(&answer, &err), ranks[1].own, 0.012);
	FOUND(lk_stalls_check(&answer, &err), ranks[1].storage, -1e-6);
	FOUND(lk_stalls_check(&answer, &err), row->high, 0.0095);
	FOUND(lk_stalls_check(&answer, &err), row->runs, -1);
	FOUND(lk_stalls_check(&answer, &err), change.factor, 2);
	FOUND(lk_stalls_check(&answer, &err), answer.buckets.per_call_s, -1e-6);
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
	FOUND(lk_stalls_check(&answer, &err), files[0].sequential, 5);
	FOUND(lk_stalls_check(&answer, &err), files[0].reads, 5);
	FOUND(lk_stalls_check(&answer, &err), files[0].read_s, -1);
	FOUND(lk_stalls_check(&answer, &err), folder.files, 3);
	FOUND(lk_stalls_check(&answer, &err), folder.read_bytes, 4096);
	FOUND(lk_stalls_check(&answer, &err), answer.staging.used, 2048);
	FOUND(lk_stalls_check(&answer, &err), answer.staging.gain_s, 2);
	FOUND(lk_stalls_check(&answer, &err), files[0].staged, true);
}

static void test_compile(void **state) {
	(void)state;
	lc_summary one = {.tensors = 1, .elements = 3, .least = 1, .most = 3, .mean = 2, .firsts = 2};
	one.first[0] = 1, one.first[1] = 3;
	FOUND(lc_summary_check(&one, false, &err), one.least, 4);
	FOUND(lc_summary_check(&one, false, &err), one.mean, 3.5);
	FOUND(lc_summary_check(&one, false, &err), one.mean, 0.5);
	FOUND(lc_summary_check(&one, false, &err), one.first[1], 3.5);
	FOUND(lc_summary_check(&one, false, &err), one.firsts, LC_FIRST + 1);
	FOUND(lc_summary_check(&one, false, &err), one.elements, 1);
	FOUND(lc_summary_check(&one, false, &err), one.tensors, -1);
	lc_verdict verdict = {.equal = true, .runs = 6, .meshes = 2, .chance = 1e-9, .worst = NAN};
	FOUND(lc_verdict_check(&verdict, &err), verdict.equal, false);
	FOUND(lc_verdict_check(&verdict, &err), verdict.where[0], 'g');
	FOUND(lc_verdict_check(&verdict, &err), verdict.chance, -1);
	FOUND(lc_verdict_check(&verdict, &err), verdict.runs, 1);
	FOUND(lc_verdict_check(&verdict, &err), verdict.worst, -1);
	FOUND(lc_verdict_check(&verdict, &err), verdict.skipped, -1);
}

static void test_tune(void **state) {
	(void)state;
	lk_found found[2] = {{.time = {3, 1, 2, 100, 5}}, {.time = {4, 1, 3, 100, 5}}};
	lk_search search = {.plain = {.time = {4, 1, 3, 100, 5}}, .looked = 2};
	search.found.at = found;
	search.found.count = 2;
	FOUND(lk_search_check(&search, &err), found[0].time.seconds, 3.5);
	FOUND(lk_search_check(&search, &err), found[0].time.compute_s, -1);
	FOUND(lk_search_check(&search, &err), found[1].time.bytes, -1);
	FOUND(lk_search_check(&search, &err), search.found.count, 0);
	FOUND(lk_search_check(&search, &err), search.looked, 0);
	FOUND(lk_search_check(&search, &err), found[1].time, ((lk_timed){2, 1, 1, 100, 5}));
	FOUND(lk_search_check(&search, &err), search.plain.time, ((lk_timed){2, 1, 1, 100, 5}));
	/* measured ones come in the order of their measurements */
	search.measurement.schedules = 1;
	found[1].time = (lk_timed){2, 1, 1, 100, 5};
	assert_int_equal(lk_search_check(&search, &err), LK_OK);
}

static void test_bench(void **state) {
	(void)state;
	double seconds[3] = {1, 2, 3};
	lc_bench_row row = {.name = "plain", .seconds = seconds, .predicted = NAN};
	row.time = (lc_interval){2, 1, 3}, row.ratio = (lc_interval){1, NAN, NAN};
	row.moved = (lc_moved){64, 32, 128};
	lc_bench_result result = {.rows = &row, .count = 1, .rounds = 3, .ranks = 2, .tau = NAN};
	FOUND(lc_bench_result_check(&result, &err), row.time.low, 2.5);
	FOUND(lc_bench_result_check(&result, &err), row.time.high, 1.5);
	FOUND(lc_bench_result_check(&result, &err), row.ratio.median, NAN);
	FOUND(lc_bench_result_check(&result, &err), seconds[1], -1);
	FOUND(lc_bench_result_check(&result, &err), row.moved.between, 65);
	FOUND(lc_bench_result_check(&result, &err), row.moved.touched, -1);
	FOUND(lc_bench_result_check(&result, &err), row.predicted, 0);
	FOUND(lc_bench_result_check(&result, &err), result.tau, 1.5);
	FOUND(lc_bench_result_check(&result, &err), result.ranks, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_validate),     cmocka_unit_test(test_replay),
		cmocka_unit_test(test_calibrate),    cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_stalls_files), cmocka_unit_test(test_compile),
		cmocka_unit_test(test_tune),         cmocka_unit_test(test_bench),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
