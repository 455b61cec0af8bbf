/* test_nsys.c: Nsight Systems' databases, made here by the schema of its export: what is in them is
 * in the capture; tables and columns that are missing, and databases that mean harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace/read/read.h"
#include "scratch.h"

static char path[64];

static int make_path(void **state) {
	(void)state;
	new_file(path, "");
	return 0;
}

static int remove_path(void **state) {
	(void)state;
	return unlink(path);
}

static void make(const char *sql) {
	sqlite3 *db;
	char *wrong = NULL;
	write_text(path, "");
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &wrong) != SQLITE_OK) fail_msg("%s", wrong);
	sqlite3_close(db);
}

static lk_status try_read(const lk_read_limits *limits, lk_capture **out, lk_error *err) {
	*out = lk_capture_new(path, "");
	assert_non_null(*out);
	lk_status status = lk_nsys_read(path, limits, *out, err);
	if (status == LK_OK) status = lk_capture_finish(*out, err);
	if (status == LK_OK) return LK_OK;
	lk_capture_free(*out);
	*out = NULL;
	return status;
}

static lk_capture *read_capture(void) {
	lk_capture *capture;
	lk_error err = {0};
	if (try_read(NULL, &capture, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return capture;
}

static uint32_t find(const lk_capture *capture, lk_event_kind kind, const char *name) {
	for (uint32_t i = 0; i < capture->count; i++)
		if (capture->kind[i] == kind &&
		    strcmp(lk_capture_text(capture, capture->name[i]), name) == 0)
			return i;
	fail_msg("no %s", name);
	return 0;
}

/* Process 77, thread 78: 77 << 24 | 78 = 1291845710; the process alone 1291845632. */
#define STRINGS                                                                                \
	"CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"            \
	"INSERT INTO StringIds VALUES (1, 'gemm<float>(int)'), (2, 'gemm'), (3, "                  \
	"'cudaLaunchKernel_v7000'), (4, 'cudaMemcpyAsync_v3020'),"                                 \
	"(5, 'ProfilerStep#4'), (6, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (7, 'NVIDIA H100 " \
	"80GB HBM3');"
#define KERNELS                                                                                  \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, "     \
	"deviceId INTEGER, contextId INTEGER,"                                                       \
	"streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, "        \
	"shortName INTEGER, gridX INTEGER, gridY INTEGER,"                                           \
	"gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);"                            \
	"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 9000, 0, 1, 7, 11, 1291845632, 1, 2, " \
	"4, 2, 1, 128, 1, 1),"                                                                       \
	"(9500, 9900, 0, 1, 20, 12, 1291845632, 6, 6, 8, 1, 1, 512, 1, 1);"
#define CALLS                                                                                    \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, eventClass INTEGER, "  \
	"globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"                                 \
	"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2000, 2500, 0, 1291845710, 11, 3), (3000, " \
	"3400, 0, 1291845710, 12, 3), (3600, 3700, 0, 1291845710, 13, 4);"
#define REST                                                                                       \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER, "       \
	"streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind "         \
	"INTEGER);"                                                                                    \
	"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10000, 11000, 0, 7, 13, 1291845632, 4096, 1);" \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER, end INTEGER, deviceId INTEGER, "       \
	"streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER);"                  \
	"INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (12000, 12100, 0, 7, 14, 1291845632, 64);"      \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER, end INTEGER, deviceId "       \
	"INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER);"      \
	"INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (13000, 13500, 0, 7, 15, 1291845632, " \
	"3);"                                                                                          \
	"CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId "   \
	"INTEGER, globalTid INTEGER);"                                                                 \
	"INSERT INTO NVTX_EVENTS VALUES (1000, 14000, 59, NULL, 5, 1291845710), (1900, 2600, 59, "     \
	"'nccl:all_reduce', NULL, 1291845710),"                                                        \
	"(1, 2, 60, 'a start-end range', NULL, 1291845710), (1500, NULL, 34, 'a mark', NULL, "         \
	"1291845710);"                                                                                 \
	"CREATE TABLE TARGET_INFO_GPU(vmId INTEGER, id INTEGER, name TEXT, totalMemory INTEGER, "      \
	"smCount INTEGER);"                                                                            \
	"INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100 80GB HBM3', 85520809984, 132);"        \
	"CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT, localTime "     \
	"TEXT);"                                                                                       \
	"INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');"

static void test_everything(void **state) {
	(void)state;
	make(STRINGS KERNELS CALLS REST);
	lk_capture *capture = read_capture();
	assert_int_equal(capture->count, 2 + 3 + 1 + 1 + 1 + 2);
	assert_int_equal(capture->dropped, 2);
	assert_string_equal(lk_capture_text(capture, capture->device), "NVIDIA H100 80GB HBM3");
	assert_int_equal(capture->sms, 132);
	assert_true(capture->absolute && capture->origin_ns == 1700000000000001000);
	uint32_t gemm = find(capture, LK_EVENT_KERNEL, "gemm<float>(int)"),
			 call = find(capture, LK_EVENT_RUNTIME, "cudaLaunchKernel");
	assert_int_equal(capture->launch[gemm], call);
	assert_int_equal(capture->launch[call], gemm);
	assert_int_equal(capture->start_ns[gemm], 4000);
	assert_int_equal(capture->dur_ns[gemm], 4000);
	assert_int_equal(capture->lanes.at[capture->lane[gemm]].thread, 7);
	assert_int_equal(capture->lanes.at[capture->lane[call]].process, 77);
	assert_int_equal(capture->lanes.at[capture->lane[call]].thread, 78);
	uint32_t step = find(capture, LK_EVENT_NOTE, "ProfilerStep#4"),
			 note = find(capture, LK_EVENT_NOTE, "nccl:all_reduce");
	assert_int_equal(capture->parent[note], step);
	assert_int_equal(capture->parent[call], note);
	uint32_t copy = find(capture, LK_EVENT_MEMCPY, "Memcpy HtoD");
	assert_int_equal(lk_capture_copied(capture, copy), 4096);
	assert_int_equal(lk_capture_sync(capture, find(capture, LK_EVENT_SYNC, "Stream Sync"))->kind,
	                 LK_SYNC_STREAM);
	lk_capture_steps steps = {0};
	assert_int_equal(lk_capture_find_steps(capture, &steps, NULL), LK_OK);
	assert_int_equal(steps.count, 1);
	assert_int_equal(steps.at[0].number, 4);
	lk_vec_free(&steps);
	lk_capture_free(capture);
}

/* Tables come when something goes into them. */
static void test_parts(void **state) {
	(void)state;
	make(STRINGS KERNELS);
	lk_capture *capture = read_capture();
	assert_int_equal(capture->count, 2);
	lk_capture_free(capture);
	make(CALLS); /* names without texts */
	capture = read_capture();
	assert_int_equal(capture->count, 3);
	assert_int_equal(capture->name[0], 0);
	lk_capture_free(capture);
	make("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, shortName); INSERT INTO "
	     "CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 'in place')");
	capture = read_capture();
	find(capture, LK_EVENT_KERNEL, "in place");
	lk_capture_free(capture);
}

static void test_processes(void **state) {
	(void)state;
	make(STRINGS KERNELS CALLS REST "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1, 1, 7, "
	                                "11, 1308622848, 1, 2, 1, 1, 1, 1, 1, 1)");
	lk_capture *capture = read_capture();
	assert_non_null(capture->next);
	assert_null(capture->next->next);
	assert_int_equal(capture->count + capture->next->count, 11);
	assert_int_equal(capture->parts, 2);
	assert_int_equal(capture->warnings.count, 0);
	lk_capture_free(capture);
}

static void refuse(const char *sql, const char *what) {
	lk_capture *capture;
	lk_error err = {0};
	make(sql);
	assert_int_equal(try_read(NULL, &capture, &err), LK_ERR_INPUT);
	if (!strstr(err.what, what) || !err.hint[0]) fail_msg("%s: %s", err.what, err.hint);
}

static void test_refused(void **state) {
	(void)state;
	lk_capture *capture;
	lk_error err = {0};
	refuse("", "holds no kernels");
	refuse("CREATE TABLE other(a)", "holds no kernels");
	/* what is no table is not read: a view may compute for ever, a virtual table run anything */
	refuse("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE f(start) AS (SELECT 1 UNION "
	       "ALL SELECT start + 1 FROM f) "
	       "SELECT start, start AS end FROM f",
	       "holds no kernels");
	refuse("CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_KERNEL USING fts5(start, end)",
	       "holds no kernels");
	refuse("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end); INSERT INTO "
	       "CUPTI_ACTIVITY_KIND_KERNEL VALUES "
	       "(5, 4), (-1, 3), (NULL, 3), (1, 9223372036854775807)",
	       "holds no kernels");
	/* a column that works for ever at every row */
	refuse("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, shortName AS "
	       "(hex(zeroblob(8000000)) || "
	       "replace(hex(zeroblob(8000000)), '0', '11')));"
	       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, end) VALUES (1, 2)",
	       "SQLite");
	lk_read_limits few = {.events = 2};
	make(STRINGS CALLS);
	assert_int_equal(try_read(&few, &capture, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "over 2 events"));
	FILE *text = fopen(path, "w");
	for (int i = 0; i < 2000; i++) fputs("no database", text);
	fclose(text);
	assert_int_equal(try_read(NULL, &capture, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "not a database"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, make_path, remove_path);
}
