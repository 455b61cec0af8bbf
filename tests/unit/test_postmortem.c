/* test_postmortem.c: pickles against what Python's pickle writes, byte by byte cut and changed; the
 * sentences of memory that ran out, of every version; what was held when. */
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
#include "base/text.h"
#include "oom/oom.h"
#include "pickle/pickle.h"

/* ---- pickles ---- */

static lk_status unpickle(lk_arena *arena, const void *bytes, size_t size, lk_value **out,
                          lk_error *err) {
	return lk_pickle_document(arena, bytes, size, "p", out, err);
}

static void assert_written(const lk_value *value, const char *expected) {
	char *text = NULL;
	size_t size = 0;
	lk_json_writer writer;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	lk_json_begin(&writer, out, true);
	lk_json_put_value(&writer, NULL, value);
	assert_int_equal(lk_json_finish(&writer, NULL), LK_OK);
	fclose(out);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, expected);
	free(text);
}

#define PICKLE(text) text, sizeof text - 1

/* pickle.dumps of one value by each protocol, from CPython 3.11. The last ones are by hand: a
 * shared list, a list that grows after it was memoized, LIST and DICT after a mark. */
static const struct {
	const char *bytes;
	size_t size;
	const char *json;
} pickles[] = {
	{PICKLE(
		 "\x80\x02}q\x00(X\x01\x00\x00\x00"
		 "aq\x01K\x01X\x01\x00\x00\x00"
		 "bq\x02]q\x03(J\xfe\xff\xff"
		 "\xffM\x2c\x01\x8a\x05\x00\x00\x00\x00\x01G?\xf8\x00\x00\x00\x00\x00\x00\x88\x89N\x86q\x04"
		 "eu."),
     "{\"a\":1,\"b\":[-2,300,4294967296,1.5,true,[false,null]]}"},
	{PICKLE(
		 "\x80\x02]q\x00(J\xfe\xff\xff\xffM\x2c\x01\x8a\x05\x00\x00\x00\x00\x01G?\xf8\x00\x00\x00"
		 "\x00\x00\x00\x88\x89Ne."),
     "[-2,300,4294967296,1.5,true,false,null]"},
	{PICKLE("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01"
            "a\x94K\x01K\x02\x86\x94s."),
     "{\"a\":[1,2]}"},
	{PICKLE("\x80\x05\x95\x0f\x00\x00\x00\x00\x00\x00\x00}\x94(K\x07\x8c\x01x\x94NC\x02hi\x94u."),
     "{\"7\":\"x\",\"null\":\"hi\"}"},
	{PICKLE("\x80\x04\x8a\x01\x80."), "-128"},
	{PICKLE("\x80\x04\x8a\x00."), "0"},
	{PICKLE("\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "1.8446744073709552e+19"},
	{PICKLE("\x80\x04\x8c\x03"
            "a\x00z."),
     "\"a\xef\xbf\xbdz\""},
	{PICKLE("\x80\x02]q\x00(]q\x01(K\x01K\x02"
            "eh\x01h\x01"
            "e."),
     "[[1,2],[1,2],[1,2]]"},
	{PICKLE("\x80\x02]q\x00K\x01"
            "ah\x00K\x02"
            "a0."),
     "[1,2]"},
	{PICKLE("\x80\x02(K\x01K\x02l."), "[1,2]"},
	{PICKLE("\x80\x02(U\x01kK\x02"
            "d."),
     "{\"k\":2}"},
	{PICKLE("\x80\x02)."), "[]"},
	{PICKLE("\x80\x02K\x01\x32\x86."), "[1,1]"},
	{PICKLE("\x80\x02(K\x01K\x02"
            "1N."),
     "null"},
};

static void test_pickles_of_python(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_value *root;
		lk_error err = {0};
		lk_status status = unpickle(&arena, pickles[i].bytes, pickles[i].size, &root, &err);
		if (status != LK_OK) fail_msg("pickle %zu: %s: %s", i, err.where, err.what);
		assert_written(root, pickles[i].json);
		lk_arena_free(&arena);
	}
}

/* Every cut is an error with a place, and no changed byte does harm. */
static void test_pickles_damaged(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
		unsigned char bytes[128];
		lk_arena arena = LK_ARENA_INIT;
		lk_value *root;
		lk_error err = {0};
		memcpy(bytes, pickles[i].bytes, pickles[i].size);
		for (size_t size = 0; size < pickles[i].size; size++) {
			assert_int_equal(unpickle(&arena, bytes, size, &root, &err), LK_ERR_INPUT);
			assert_non_null(strstr(err.where, "p: byte "));
		}
		for (size_t at = 0; at < pickles[i].size; at++)
			for (int value = 0; value < 256; value++) {
				bytes[at] = (unsigned char)value;
				lk_status status = unpickle(&arena, bytes, pickles[i].size, &root, &err);
				assert_true(status == LK_OK || err.where[0]);
				bytes[at] = (unsigned char)pickles[i].bytes[at];
			}
		lk_arena_free(&arena);
	}
}

static void test_pickles_refused(void **state) {
	(void)state;
	static const struct {
		const char *bytes;
		size_t size;
		const char *says;
	} refused[] = {
		{PICKLE("\x80\x02"
	            "cposix\nsystem\nq\x00X\x02\x00\x00\x00idR."),
	     "imports posix.system"},
		{PICKLE("\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."), "imports posix.system"},
		{PICKLE("\x80\x02N)R."), "calls a function"},
		{PICKLE("\x80\x02N)\x81."), "creates an object"},
		{PICKLE("\x80\x02NQ."), "outside of the file"},
		{PICKLE("\x80\x02N}b."), "sets the state"},
		{PICKLE("\x80\x04\x8f."), "holds a set"},
		{PICKLE("\x80\x02\x7f."), "opcode 0x7f"},
		{PICKLE("\x80\x06N."), "protocol 2 to 5"},
		{PICKLE("\x80\x02j\x05\x00\x00\x00."), "refers to a value"},
		{PICKLE("\x80\x02Nr\xff\xff\xff\xff."), "memo with gaps"},
		{PICKLE("\x80\x02NK\x01s."), "no list or dict"},
		{PICKLE("\x80\x02}]K\x01s."), "key is no text"},
		{PICKLE("\x80\x02NN."), "one value"},
		{PICKLE("\x80\x02(N0."), "one value"},
		{PICKLE("\x80\x02N(0."), "more values"},
	};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_value *root;
		lk_error err = {0};
		assert_int_equal(unpickle(&arena, refused[i].bytes, refused[i].size, &root, &err),
		                 LK_ERR_INPUT);
		if (!strstr(err.what, refused[i].says)) fail_msg("%zu: %s", i, err.what);
		lk_arena_free(&arena);
	}
}

/* ((((...)))) deeper than any reader's stack, and lists that share their members: 2^60 paths. */
static void test_pickles_deep_and_shared(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_value *root;
	lk_error err = {0};
	unsigned char deep[4096];
	memset(deep, 0x85, sizeof deep);
	memcpy(deep, "\x80\x02N", 3);
	deep[sizeof deep - 1] = '.';
	assert_int_equal(unpickle(&arena, deep, sizeof deep, &root, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "nested too deep"));
	unsigned char shared[3 + 60 * 2 + 1] = "\x80\x02N";
	for (size_t i = 3; i + 1 < sizeof shared; i += 2) memcpy(shared + i, "2\x86", 2);
	shared[sizeof shared - 1] = '.';
	assert_int_equal(unpickle(&arena, shared, sizeof shared, &root, &err), LK_OK);
	assert_true(arena.used < 100000);
	lk_arena_free(&arena);
}

/* ---- memory that ran out ---- */

#define GIB 1073741824.0
#define MIB 1048576.0

static lk_oom_text oom(const char *text) {
	lk_oom_text found;
	if (!lk_oom_find(text, strlen(text), &found)) fail_msg("no message in: %s", text);
	return found;
}

static void test_oom_old(void **state) {
	(void)state;
	lk_oom_text found =
		oom("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 2; 23.69 GiB total "
	        "capacity; 21.10 GiB already allocated; 12.50 MiB free; 20.00 GiB allowed; 22.20 GiB "
	        "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
	        "max_split_size_mb to avoid fragmentation.");
	assert_int_equal(found.source, LK_OOM_ALLOCATOR);
	assert_int_equal(found.device, 2);
	assert_int_equal(found.rank, -1);
	assert_true(found.requested == 20 * MIB && found.free == 12.5 * MIB);
	assert_true(found.total == 23.69 * GIB && found.allocated == 21.10 * GIB);
	assert_true(found.reserved == 22.20 * GIB && found.allowed == 20 * GIB);
	assert_true(isnan(found.in_use) && isnan(found.others) && isnan(found.private_pools));
	assert_int_equal(found.places, 1);
}

static void test_oom_new(void **state) {
	(void)state;
	lk_oom_text found = oom(
		"[rank3]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.50 GiB. GPU 3 has "
		"a total capacity of 79.15 GiB of which 1.10 GiB is free. Process 17 has 1.00 GiB memory "
		"in "
		"use. Including non-PyTorch memory, this process has 77.00 GiB memory in use. Of the "
		"allocated memory 70.00 GiB is allocated by PyTorch, with 12.00 MiB allocated in private "
		"pools (e.g., CUDA Graphs), and 5.00 GiB is reserved by PyTorch but unallocated.");
	assert_int_equal(found.rank, 3);
	assert_int_equal(found.device, 3);
	assert_true(found.requested == 2.5 * GIB && found.total == 79.15 * GIB);
	assert_true(found.allocated == 70 * GIB && found.reserved == 75 * GIB);
	assert_true(found.in_use == 77 * GIB && found.others == GIB);
	assert_true(found.private_pools == 12 * MIB && found.free == 1.10 * GIB);
}

/* In a container the process is not recognised by its number; 2.1 wrote "capacty". */
static void test_oom_processes(void **state) {
	(void)state;
	const char *form =
		"CUDA out of memory. Tried to allocate 512 bytes. GPU 0 has a total capacty of 80.00 GiB "
		"of "
		"which 1.00 MiB is free. Process 5 has %s memory in use. Process 6 has 30.00 GiB memory in "
		"use. Of the allocated memory 40.00 GiB is allocated by PyTorch, and 5.00 GiB is reserved "
		"by PyTorch but unallocated.";
	char text[700];
	snprintf(text, sizeof text, form, "48.00 GiB");
	lk_oom_text found = oom(text);
	assert_true(found.requested == 512 && found.total == 80 * GIB);
	assert_true(found.in_use == 48 * GIB && found.others == 30 * GIB);
	snprintf(text, sizeof text, form, "2.00 GiB"); /* none of them holds what PyTorch reserves */
	found = oom(text);
	assert_true(isnan(found.in_use) && found.others == 32 * GIB);
}

/* Lines of many ranks, quotes and wrapped lines; words that are no message. */
static void test_oom_in_logs(void **state) {
	(void)state;
	const char *log =
		"we never run out of memory here\n"
		"> > [1] CUDA out of memory. Tried to allocate 1.00 GiB (GPU 1; 4.00 GiB total capacity;\n"
		"> > 2.00 GiB already allocated; 1.00 MiB free; 3.00 GiB reserved in total by PyTorch)\n"
		"12: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 4 "
		"has\n"
		"[default7]:RuntimeError: CUDA error: out of memory\n"
		"[2026-01-02 10:11:12] Out of memory: Killed process 4711 (python) total-vm:9kB, "
		"anon-rss:1048576kB, file-rss:0kB\n"
		"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1024 bytes.";
	static const struct {
		int rank;
		lk_oom_source source;
		double requested, in_use;
	} expected[] = {{1, LK_OOM_ALLOCATOR, GIB, NAN},
	                {12, LK_OOM_ALLOCATOR, 3 * GIB, NAN},
	                {7, LK_OOM_DRIVER, NAN, NAN},
	                {-1, LK_OOM_HOST, NAN, GIB},
	                {-1, LK_OOM_ALLOCATOR, 1024, NAN}};
	lk_oom_text found;
	size_t at = 0, count = 0;
	for (; lk_oom_next(log, strlen(log), &at, &found); count++) {
		assert_true(count < sizeof expected / sizeof *expected);
		assert_int_equal(found.rank, expected[count].rank);
		assert_int_equal(found.source, expected[count].source);
		assert_true(isnan(expected[count].requested)
		                ? isnan(found.requested)
		                : found.requested == expected[count].requested);
		assert_true(isnan(expected[count].in_use) ? isnan(found.in_use)
		                                          : found.in_use == expected[count].in_use);
		if (count == 0) assert_true(found.reserved == 3 * GIB);
	}
	assert_int_equal(count, sizeof expected / sizeof *expected);
	assert_true(lk_oom_find(log, strlen(log), &found) && found.places == count && found.rank == 1);
	assert_false(lk_oom_find(log, 30, &found));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pickles_of_python), cmocka_unit_test(test_pickles_damaged),
		cmocka_unit_test(test_pickles_refused),   cmocka_unit_test(test_pickles_deep_and_shared),
		cmocka_unit_test(test_oom_old),           cmocka_unit_test(test_oom_new),
		cmocka_unit_test(test_oom_processes),     cmocka_unit_test(test_oom_in_logs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
