/* test_calibrate.c: `calibrate` on the tables of measurements: what it writes is read back as the
 * same rows, the same in every format, and equal on a second run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "lockstep/calibrate.h"
#include "data.h"
#include "rounds.h"

static lk_calibrated *calibrate(const char *kind, const char *table, const char *name) {
	lk_calibrate_request request;
	lk_calibrated *calibrated = NULL;
	lk_error err = {0};
	lk_calibrate_defaults(&request);
	request.kind = kind;
	request.table = table;
	request.name = name;
	request.source = "ours, \"measured\"";
	request.date = "2026-11-21";
	if (lk_calibrate(&request, &calibrated, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return calibrated;
}

/* The result as text, to be freed. */
static char *printed(const lk_calibrated *calibrated, int format) {
	char *text = NULL;
	size_t size = 0;
	lk_error err = {0};
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	assert_int_equal(lk_calibrate_print(calibrated, format, false, out, &err), LK_OK);
	fclose(out);
	return text;
}

static void check_csv(const lk_calibrated *calibrated, const char *text) {
	lk_calibration read = {0};
	lk_stream *in;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(text, strlen(text), "ours.csv", &in, &err), LK_OK);
	if (lk_calibration_read(in, &read, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	lk_stream_close(in);
	assert_int_equal(read.rows.count, calibrated->row_count);
	for (size_t i = 0; i < read.rows.count; i++) {
		const lk_calibration_row *row = &read.rows.at[i];
		const lk_fitted *wanted = &calibrated->rows[i];
		assert_string_equal(row->family, wanted->family);
		assert_string_equal(row->subject, wanted->subject);
		assert_string_equal(row->source, "ours, \"measured\"");
		assert_string_equal(row->date, "2026-11-21");
		assert_int_equal(row->points, wanted->points);
		for (int n = 0; n < row->count; n++) assert_true(isfinite(row->numbers[n].value));
	}
	lk_calibration_free(&read);
}

static void check_json(const lk_calibrated *calibrated, const char *text) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *top;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(text, strlen(text), "rows", &in, &err), LK_OK);
	assert_int_equal(lk_json_document(&arena, in, &top, &err), LK_OK);
	assert_int_equal(lk_json_get(top, "rows")->count, calibrated->row_count);
	lk_stream_close(in);
	lk_arena_free(&arena);
}

static void check_table(const char *kind, const char *file) {
	const char *path = need_data(file);
	lk_calibrated *calibrated = calibrate(kind, path, NULL);
	assert_true(calibrated->row_count > 0);
	char *csv = printed(calibrated, LK_CALIBRATE_CSV),
		 *json = printed(calibrated, LK_CALIBRATE_JSON),
		 *text = printed(calibrated, LK_CALIBRATE_TEXT);
	check_csv(calibrated, csv);
	check_json(calibrated, json);
	assert_non_null(strstr(text, "--calibration ours.csv"));
	/* The large table is compared byte for byte with what is committed (test_collective_fit.c). */
	if (strcmp(kind, "collectives") != 0) {
		lk_calibrated *again = calibrate(kind, path, NULL);
		char *same = printed(again, LK_CALIBRATE_CSV);
		assert_string_equal(csv, same);
		free(same);
		lk_calibrate_free(again);
	}
	free(csv);
	free(json);
	free(text);
	lk_calibrate_free(calibrated);
}

static void test_collectives(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	check_table("collectives", "measured/collectives.csv");
}

static void test_slowdown(void **state) {
	(void)state;
	check_table("slowdown", "measured/overlap_slowdown_a100.csv");
}

static void test_memory(void **state) {
	(void)state;
	check_table("memory", "measured/megatron_ci_memory.csv");
}

static void test_models(void **state) {
	(void)state;
	check_table("models", "measured/fp32_models_e2e.csv");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_slowdown),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_models),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
