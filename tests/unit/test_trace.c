/* test_trace.c: random timelines written as Chrome trace events and as Perfetto's protobuf, then
 * decoded again by the decoders of trace_read.h and compared slice by slice. tools/check_trace.py
 * is the second opinion on the JSON form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/stats.h"
#include "view/timeline/trace.h"
#include "rounds.h"
#include "scratch.h"
#include "trace_read.h"

static int files_in_folder(void) {
	int count = 0;
	DIR *dir = opendir(scratch);
	for (struct dirent *dirent; dir && (dirent = readdir(dir));) count += dirent->d_name[0] != '.';
	if (dir) closedir(dir);
	return count;
}

static void write_trace(const lk_timeline *timeline, const char *name, char path[256]) {
	lk_error err = {0};
	snprintf(path, 256, "%s/%s", scratch, name);
	if (lk_trace_write(timeline, path, &err) != LK_OK) fail_msg("%s: %s", path, err.what);
}

/* ---- timelines ---- */

struct draw {
	uint64_t seed, counter;
};

static uint64_t next(struct draw *draw, uint64_t below) {
	return lk_hash64(draw->seed * 1000003 + draw->counter++) % below;
}

static uint32_t name_of(lk_timeline *timeline, const char *text) {
	uint32_t id = lk_intern_id(timeline->names, text);
	assert_true(id != UINT32_MAX);
	return id;
}

static uint32_t add_track(lk_timeline *timeline, int rank, int ranks, const char *process,
                          const char *name) {
	assert_true(lk_push(&timeline->tracks));
	*lk_last(&timeline->tracks) =
		(lk_track){rank, ranks, name_of(timeline, process), name_of(timeline, name)};
	return (uint32_t)timeline->tracks.count - 1;
}

static uint32_t add_slice(lk_timeline *timeline, uint32_t track, const char *name, int64_t start_ps,
                          int64_t end_ps) {
	assert_true(lk_push(&timeline->slices));
	*lk_last(&timeline->slices) = (lk_slice){.track = track,
	                                         .name = name_of(timeline, name),
	                                         .microbatch = -1,
	                                         .layer = -1,
	                                         .start_ps = start_ps,
	                                         .end_ps = end_ps};
	return (uint32_t)timeline->slices.count - 1;
}

static void add_flow(lk_timeline *timeline, uint32_t from, uint32_t to) {
	assert_true(lk_push(&timeline->flows));
	*lk_last(&timeline->flows) = (lk_flow){from, to};
}

static void add_counter(lk_timeline *timeline, int rank, const char *name, int64_t time_ps,
                        double value) {
	assert_true(lk_push(&timeline->counters));
	*lk_last(&timeline->counters) = (lk_counter){rank, name_of(timeline, name), time_ps, value};
}

/* Slices from start_ps to end_ps, side by side or apart, some with slices inside, down to no length
 * at all. */
static void random_slices(struct draw *draw, lk_timeline *timeline, uint32_t track,
                          int64_t start_ps, int64_t end_ps, int depth) {
	static const char *const names[] = {
		"qkv_proj",  "a \"quoted\" \\ name", "line\nbreak\x01", "\xe6\xbc\xa2\xf0\x9f\x9a\x80", "",
		"</script>",
	};
	static const char *const categories[] = {"", "gemm", "all_reduce", "a,\"b\""};
	int64_t at = start_ps;
	for (uint64_t n = next(draw, 7); n && at <= end_ps; n--) {
		int64_t left = end_ps - at,
				length = (int64_t)next(draw, (uint64_t)left + 1) / (next(draw, 2) ? 1 : 4);
		if (next(draw, 8) == 0) length = 0;
		add_slice(timeline, track, names[next(draw, 6)], at, at + length);
		lk_slice *slice = lk_last(&timeline->slices);
		slice->category = name_of(timeline, categories[next(draw, 4)]);
		slice->microbatch = (int32_t)next(draw, 5) - 1;
		slice->layer = (int32_t)next(draw, 80) - 1;
		slice->bytes = next(draw, 2) ? (double)next(draw, 1000000000) : 0;
		slice->flops = next(draw, 3) ? (double)next(draw, UINT64_MAX) / 7 : 0;
		if (depth && next(draw, 2))
			random_slices(draw, timeline, track, at, at + length, depth - 1);
		at += length;
		if (next(draw, 3) == 0 && at < end_ps) at += (int64_t)next(draw, (uint64_t)(end_ps - at));
	}
}

static lk_timeline *random_timeline(uint64_t seed) {
	struct draw d = {seed, 0};
	lk_timeline *timeline = lk_timeline_new();
	assert_non_null(timeline);
	int64_t origin = next(&d, 4) ? 0 : -(int64_t)next(&d, 1000000);
	int64_t length = 1 + (int64_t)next(&d, seed % 3 ? 1000000000 : 5000);
	int ranks = 1 + (int)next(&d, 4);
	for (int rank = 0; rank < ranks; rank++) {
		char process[40];
		snprintf(process, sizeof process, "stage \"%d\"", rank);
		if (next(&d, 4) == 0) *process = '\0';
		for (uint64_t n = next(&d, 4); n; n--)
			random_slices(&d, timeline,
			              add_track(timeline, rank * 8, (int)next(&d, 3), process,
			                        n == 1 ? "compute" : "host"),
			              origin, origin + length, 4);
		for (uint64_t n = next(&d, 6); n; n--)
			add_counter(timeline, rank * 8,
			            next(&d, 2) ? "memory allocated" : "memory \"reserved\"",
			            origin + (int64_t)next(&d, (uint64_t)length),
			            next(&d, 2) ? (double)next(&d, 80000000000) : (double)next(&d, 99) / 7);
	}
	for (uint64_t n = timeline->slices.count > 1 ? next(&d, 12) : 0; n; n--) {
		uint32_t from = (uint32_t)next(&d, timeline->slices.count),
				 to = (uint32_t)next(&d, timeline->slices.count);
		if (from != to && timeline->slices.at[to].end_ps >= timeline->slices.at[from].start_ps)
			add_flow(timeline, from, to);
	}
	return timeline;
}

/* ---- tests ---- */

enum { TIMELINES = 300 };

static void test_random_timelines(void **state) {
	(void)state;
	size_t slices = 0, flows = 0;
	for (uint64_t seed = 0; seed < TIMELINES; seed++) {
		char path[256];
		lk_timeline *timeline = random_timeline(seed);
		write_trace(timeline, "r.json", path);
		decoded json = read_chrome(path);
		expect_same(timeline, 1, &json);
		write_trace(timeline, "r.pftrace", path);
		decoded native = read_perfetto(path);
		assert_int_equal(native.processes, json.processes);
		expect_same(timeline, 1000, &native);
		slices += native.slices.count;
		flows += native.flows;
		free_decoded(&json);
		free_decoded(&native);
		lk_timeline_free(timeline);
	}
	assert_true(slices > 10 * TIMELINES && flows > TIMELINES);
}

static bool same_files(const char *a, const char *b) {
	char *x, *y;
	size_t m, n;
	lk_error err = {0};
	assert_int_equal(lk_stream_slurp(a, 1 << 30, &x, &m, &err), LK_OK);
	assert_int_equal(lk_stream_slurp(b, 1 << 30, &y, &n, &err), LK_OK);
	bool same = m == n && memcmp(x, y, m) == 0;
	free(x);
	free(y);
	return same;
}

/* Slices in another order, with the flows pointing at the same ones. */
static void shuffle(struct draw *draw, lk_timeline *timeline) {
	uint32_t *place = calloc(timeline->slices.count + 1, sizeof *place);
	assert_non_null(place);
	for (uint32_t i = 0; i < timeline->slices.count; i++) place[i] = i; /* place[new] = old */
	for (size_t i = timeline->slices.count; i > 1; i--) {
		size_t j = next(draw, i);
		lk_slice slice = timeline->slices.at[i - 1];
		uint32_t old = place[i - 1];
		timeline->slices.at[i - 1] = timeline->slices.at[j];
		timeline->slices.at[j] = slice;
		place[i - 1] = place[j];
		place[j] = old;
	}
	for (size_t f = 0; f < timeline->flows.count; f++) {
		lk_flow moved = {0, 0};
		for (uint32_t i = 0; i < timeline->slices.count; i++) {
			if (place[i] == timeline->flows.at[f].from) moved.from = i;
			if (place[i] == timeline->flows.at[f].to) moved.to = i;
		}
		timeline->flows.at[f] = moved;
	}
	free(place);
}

/* Equal slices cannot be told apart, so that the arrows of one could move to its twin: each gets a
 * layer of its own. */
static void test_order_does_not_matter(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < TIMELINES / 3; seed++) {
		char before[256], after[256];
		struct draw d = {seed + 77777, 0};
		lk_timeline *timeline = random_timeline(seed);
		for (size_t i = 0; i < timeline->slices.count; i++)
			timeline->slices.at[i].layer = (int32_t)i;
		write_trace(timeline, "before.json", before);
		write_trace(timeline, "before.pftrace", before);
		shuffle(&d, timeline);
		write_trace(timeline, "after.pftrace", after);
		assert_true(same_files(before, after));
		write_trace(timeline, "after.json", after);
		snprintf(before, sizeof before, "%s/before.json", scratch);
		assert_true(same_files(before, after));
		write_trace(timeline, "after.json.gz", after);
		assert_true(same_files(before, after));
		lk_timeline_free(timeline);
	}
}

static lk_timeline *one_track(void) {
	lk_timeline *timeline = lk_timeline_new();
	assert_non_null(timeline);
	add_track(timeline, 0, 1, "", "compute");
	return timeline;
}

static void expect_spans(lk_timeline *timeline, const int64_t (*spans)[2], size_t count) {
	char path[256];
	write_trace(timeline, "s.json", path);
	decoded d = read_chrome(path);
	assert_int_equal(d.slices.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(d.slices.at[i].start, spans[i][0]);
		assert_int_equal(d.slices.at[i].end, spans[i][1]);
	}
	free_decoded(&d);
	write_trace(timeline, "s.pftrace", path);
	d = read_perfetto(path);
	assert_int_equal(d.slices.count, count);
	free_decoded(&d);
	lk_timeline_free(timeline);
}

static void test_rounding_is_clipped(void **state) {
	(void)state;
	lk_timeline *timeline = one_track();
	add_slice(timeline, 0, "first", 0, 10);
	add_slice(timeline, 0, "second", 9, 20);
	add_slice(timeline, 0, "inside second", 9, 15);
	add_slice(timeline, 0, "point", 9, 9);
	expect_spans(timeline, (const int64_t[][2]){{0, 10}, {10, 20}, {10, 15}, {10, 10}}, 4);
	timeline = one_track();
	add_slice(timeline, 0, "parent", 0, 10);
	add_slice(timeline, 0, "child", 2, 11);
	add_slice(timeline, 0, "grandchild", 5, 11);
	add_slice(timeline, 0, "next", 11, 12);
	expect_spans(timeline, (const int64_t[][2]){{0, 10}, {2, 10}, {5, 10}, {11, 12}}, 4);
}

static void expect_failure(lk_timeline *timeline, lk_status wanted) {
	static const char *const names[] = {"bad.json", "bad.json.gz", "bad.pftrace"};
	for (int i = 0; i < 3; i++) {
		char path[256];
		lk_error err = {0};
		int files = files_in_folder();
		snprintf(path, sizeof path, "%s/%s", scratch, names[i]);
		assert_int_equal(lk_trace_write(timeline, path, &err), wanted);
		assert_string_not_equal(err.what, "");
		assert_int_equal(files_in_folder(), files);
	}
	lk_timeline_free(timeline);
}

static void test_wrong_timelines(void **state) {
	(void)state;
	lk_timeline *timeline = one_track();
	add_slice(timeline, 0, "first", 0, 10);
	add_slice(timeline, 0, "second", 8, 20);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_slice(timeline, 0, "whole", INT64_MIN, INT64_MAX - 5);
	add_slice(timeline, 0, "end", 0, INT64_MAX);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_slice(timeline, 0, "backwards", 10, 9);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_slice(timeline, 1, "no track", 0, 1);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_slice(timeline, 0, "no category", 0, 1);
	lk_last(&timeline->slices)->category = 999;
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	timeline->tracks.at[0].process = UINT32_MAX;
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_flow(timeline, add_slice(timeline, 0, "a", 0, 1), 7);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_counter(timeline, 0, "memory", 0, NAN);
	expect_failure(timeline, LK_ERR_INTERNAL);
	timeline = one_track();
	add_slice(timeline, 0, "received", 0, 9);
	add_flow(timeline, add_slice(timeline, 0, "sent", 10, 20), 0);
	expect_failure(timeline, LK_ERR_INPUT);
}

static void test_endings(void **state) {
	(void)state;
	static const char *const wrong[] = {"x.txt", "-",           "", "x.json.zst", "x.gz",
	                                    "json",  "x.pftrace.gz"};
	lk_timeline *timeline = one_track();
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_error err = {0};
		assert_int_equal(lk_trace_write(timeline, wrong[i], &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.hint, ".json or .json.gz"));
		assert_non_null(strstr(err.hint, ".pftrace"));
	}
	lk_error err = {0};
	assert_int_equal(lk_trace_write(timeline, "/nowhere/at/all.json", &err), LK_ERR_IO);
	lk_timeline_free(timeline);
	lk_timeline_free(NULL);
}

/* A send and the receive that waited for it start together; arrows must go forward in time in both
 * orders of tracks, and as Perfetto reads equal times the start must stand before the end in the
 * file. */
static void test_rendezvous(void **state) {
	(void)state;
	lk_timeline *timeline = one_track();
	add_track(timeline, 1, 1, "", "compute");
	uint32_t early = add_slice(timeline, 0, "recv", 0, 50000),
			 late = add_slice(timeline, 1, "send", 20000, 50000);
	uint32_t low = add_slice(timeline, 0, "send", 60000, 90000),
			 high = add_slice(timeline, 1, "recv", 60000, 90000);
	uint32_t same_low = add_slice(timeline, 0, "recv", 100000, 130000);
	uint32_t same_high = add_slice(timeline, 1, "send", 100000, 130000);
	add_flow(timeline, late, early);
	add_flow(timeline, low, high);
	add_flow(timeline, same_high, same_low);
	char path[256];
	write_trace(timeline, "v.json", path);
	char *text;
	size_t size;
	lk_error err = {0};
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &text, &size, &err), LK_OK);
	static const char *const wanted[] = {
		/* in the order of the file */
		"\"id\":1,\"pid\":0,\"tid\":2,\"ts\":0.060}", "\"id\":1,\"pid\":1,\"tid\":3,\"ts\":0.060}",
		"\"id\":2,\"pid\":1,\"tid\":3,\"ts\":0.020}", "\"id\":2,\"pid\":0,\"tid\":2,\"ts\":0.021}",
		"\"id\":3,\"pid\":1,\"tid\":3,\"ts\":0.100}", "\"id\":3,\"pid\":0,\"tid\":2,\"ts\":0.101}",
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (!strstr(text, wanted[i])) fail_msg("%s is not in %s", wanted[i], text);
	assert_true(strstr(text, wanted[0]) < strstr(text, wanted[1]));
	free(text);
	lk_timeline_free(timeline);
}

static void test_processes(void **state) {
	(void)state;
	lk_timeline *timeline = lk_timeline_new();
	add_track(timeline, 3, 4, "predicted", "compute");
	add_track(timeline, 3, 1, "measured", "compute");
	add_track(timeline, 3, 4, "predicted", "host");
	add_counter(timeline, 5, "memory", 0, 1.5);
	char path[256], *text;
	size_t size;
	lk_error err = {0};
	write_trace(timeline, "p.json", path);
	assert_int_equal(lk_stream_slurp(path, 1 << 20, &text, &size, &err), LK_OK);
	static const char *const wanted[] = {
		"\"process_name\",\"pid\":3,\"args\":{\"name\":\"predicted\"}",
		"\"process_name\",\"pid\":6,\"args\":{\"name\":\"measured\"}",
		"\"process_name\",\"pid\":5,\"args\":{\"name\":\"rank 5\"}",
		"\"pid\":3,\"args\":{\"labels\":\"stands for 4 ranks\"}",
		"\"thread_name\",\"pid\":3,\"tid\":9,\"args\":{\"name\":\"host\"}",
		"\"thread_sort_index\",\"pid\":3,\"tid\":9,\"args\":{\"sort_index\":2}",
		"\"process_sort_index\",\"pid\":6,\"args\":{\"sort_index\":1}",
		"{\"ph\":\"C\",\"pid\":5,\"ts\":0.000,\"name\":\"memory\",\"args\":{\"bytes\":1.5}}",
	};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (!strstr(text, wanted[i])) fail_msg("%s is not in %s", wanted[i], text);
	free(text);
	lk_timeline_free(timeline);
}

/* Times over the whole range, names of any bytes and length, deep nesting: files that can still be
 * decoded. */
static void test_extremes(void **state) {
	(void)state;
	char path[256], *name = malloc(200001);
	assert_non_null(name);
	memset(name, '"', 200000);
	name[200000] = '\0';
	lk_timeline *timeline = one_track();
	add_track(timeline, INT32_MAX, 0, "\xff\xfe", "\xc3");
	add_track(timeline, INT32_MIN, INT32_MAX, name, name);
	add_slice(timeline, 1, name, INT64_MIN, INT64_MAX);
	lk_slice *slice = lk_last(&timeline->slices);
	*slice = (lk_slice){.track = 1,
	                    .name = slice->name,
	                    .category = slice->name,
	                    .microbatch = INT32_MAX,
	                    .layer = INT32_MIN,
	                    .start_ps = INT64_MIN,
	                    .end_ps = INT64_MAX,
	                    .bytes = INFINITY,
	                    .flops = NAN,
	                    .phase = slice->name,
	                    .ranks = UINT32_MAX,
	                    .m = INFINITY,
	                    .times = UINT32_MAX,
	                    .every_ps = INT64_MAX};
	for (int i = 0; i < 50000; i++) add_slice(timeline, 0, "deep", i, 200000 - i);
	write_trace(timeline, "x.pftrace", path);
	write_trace(timeline, "x.json", path);
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_stream *in;
	lk_value *root;
	assert_int_equal(lk_stream_open(path, &in, &err), LK_OK);
	if (lk_json_document(&arena, in, &root, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_value *events = lk_json_get(root, "traceEvents"),
				   *last = &events->items[events->count - 1];
	assert_string_equal(text_of(lk_json_get(lk_json_get(last, "args"), "dur_ps")),
	                    "18446744073709551615");
	assert_string_equal(text_of(lk_json_get(last, "name")), name);
	assert_string_equal(text_of(lk_json_get(last, "dur")), "18446744073709.552");
	assert_null(lk_json_get(lk_json_get(last, "args"), "bytes"));
	lk_stream_close(in);
	lk_arena_free(&arena);
	lk_timeline_free(timeline);
	free(name);
}

static void test_empty(void **state) {
	(void)state;
	char path[256];
	lk_timeline *timeline = lk_timeline_new();
	write_trace(timeline, "e.json", path);
	decoded d = read_chrome(path);
	expect_same(timeline, 1, &d);
	write_trace(timeline, "e.pftrace", path);
	d = read_perfetto(path);
	expect_same(timeline, 1000, &d);
	lk_timeline_free(timeline);
}

static void test_python_agrees(void **state) {
	(void)state;
	char path[256], command[400];
	if (judged_elsewhere()) skip();
	if (system("python3 -c 'import json, gzip' 2>/dev/null") != 0 ||
	    access("tools/check_trace.py", R_OK) != 0) {
		print_message("python3 or tools/check_trace.py is not here\n");
		skip();
	}
	for (uint64_t seed = 1000; seed < 1012; seed++) {
		lk_timeline *timeline = random_timeline(seed);
		write_trace(timeline, seed % 2 ? "c.json" : "c.json.gz", path);
		lk_timeline_free(timeline);
		snprintf(command, sizeof command, "python3 tools/check_trace.py %s >/dev/null", path);
		assert_int_equal(system(command), 0);
	}
	write_text(
		path,
		"{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":"
		"\"p\"}},"
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"t\"}},"
		"{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":0.0005,\"dur\":0.0005},"
		"{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":0.0010,\"dur\":0.0020}]}");
	/* Exact in picoseconds, but Perfetto would round the first to 1 to 2 ns and drop the second. */
	snprintf(command, sizeof command, "python3 tools/check_trace.py %s 2>/dev/null", path);
	assert_int_not_equal(system(command), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_timelines),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_rounding_is_clipped),
		cmocka_unit_test(test_wrong_timelines),
		cmocka_unit_test(test_endings),
		cmocka_unit_test(test_rendezvous),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_python_agrees),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
