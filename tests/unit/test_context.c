/* test_context.c: requests in one context do not affect those in another. The reference of every
 * answer is a process of its own; the same requests in any order, with contexts made and freed in
 * between, and on two threads in two contexts, are answered by the same bytes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/context.h"
#include "system/memory.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "system/stop.h"
#include "cost/calibration/calibration.h"
#include "hw/hw.h"
#include "io/embedded.h"
#include "lockstep/catalogue.h"
#include "lockstep/reply.h"
#include "rounds.h"
#include "scratch.h"

/* ---- worlds: a catalogue and a calibration each ---- */

/* What changes in the row of one device, and whether the others go; rows of the calibration. */
static const struct {
	const char *from, *to;
	bool only;
	const char *rows;
} worlds[] = {
	{NULL, NULL, false, NULL},
	{",66.9,79.6,3350,", ",66.9,47.6,2000,", false,
     "collective,default,,launch_us=900 channel_us=9 wire=0.5 nic=0 buffer_mb=0.05,1,0,2026-01-01,"
     "test\nstep,all,,gemm_share=0.4,1,0,2026-01-01,test\n"},
	{",989.4,989.4,1978.9,,,66.9,79.6,3350,", ",494.7,494.7,989.4,,,66.9,79.6,3000,", true,
     "gemm,h100-sxm,bf16,efficiency=0.2 floor_us=40 memory=0.5,1,0,2026-01-01,test\n"},
};

/* Also rows that a request lays on top of its context's, and a device that one world knows. */
#define JOB "--model=llama3.1-8b", "--gpu=h100-sxm", "--gbs=16", "--seq=2048"
enum { STATED, LAID }; /* the first two questions */
static char laid[96];
static const struct {
	const char *verb;
	int count;
	const char *words[7];
} questions[] = {
	{"predict", 6, {JOB, "--gpus=16", "--tp=2"}},
	{"predict", 7, {JOB, "--gpus=16", "--tp=2", laid}},
	{"plan", 6, {JOB, "--gpus=8", "--threads=2"}},
	{"shard", 2, {"--model=dlrm-ddp", "--gpu=2xh100-sxm"}},
	{"rent", 5, {"--model=llama3.1-8b", "--gbs=16", "--seq=2048", "--tokens=1G", "--most-gpus=1"}},
	{"devices", 1, {"100"}},
	{"predict", 3, {"--model=llama3.1-8b", "--gpu=k99", "--gpus=8"}},
};
enum { WORLDS = sizeof worlds / sizeof *worlds, QUESTIONS = sizeof questions / sizeof *questions };

static char folder[WORLDS][128], rows_file[WORLDS][128];
static char *expected[WORLDS][QUESTIONS]; /* of a process of its own */

static const char header[] = "family,subject,variant,numbers,points,error,date,source\n";
static const char laid_rows[] = "family,subject,variant,numbers,points,error,date,source\n"
								"laws,nccl,,base=5 hops_hopper=20 net_hops=9,1,0,2026-01-01,test\n";
static const char k99[] = "k99,K 99,,kepler,1,,,,,,,1,7,1,,1,,1,1,,,,,1,1,1,test\n";

static void write_devices(int world) {
	const char *all = lk_data_file("devices.csv", NULL), *row = strstr(all, "\nh100-sxm,") + 1;
	const char *from = strstr(row, worlds[world].from), *end = strchr(row, '\n') + 1;
	const char *names = strstr(all, "\nname,") + 1;
	assert_true(from && from < end);
	char path[160];
	snprintf(path, sizeof path, "%s/devices.csv", folder[world]);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	if (worlds[world].only) fprintf(out, "%.*s", (int)(strchr(names, '\n') + 1 - names), names);
	else fprintf(out, "%.*s", (int)(row - all), all);
	const char *after = from + strlen(worlds[world].from);
	fprintf(out, "%.*s%s", (int)(from - row), row, worlds[world].to);
	if (worlds[world].only) fprintf(out, "%.*s%s", (int)(end - after), after, k99);
	else fputs(after, out);
	fclose(out);
}

/* ---- contexts ---- */

static bool is_set_up(lk_context *context, int world) {
	lk_error err = {0};
	if (!worlds[world].rows) return true;
	return lk_context_catalogue(context, folder[world], &err) == LK_OK &&
	       lk_context_calibration(context, rows_file[world], &err) == LK_OK;
}

static lk_context *context_of(int world) {
	lk_context *context = lk_context_new();
	assert_true(context && is_set_up(context, world));
	return context;
}

/* The answer as JSON, or the error. */
static char *answer_to(int question) {
	lk_reply *reply = lk_reply_ask(questions[question].verb, questions[question].count,
	                               questions[question].words, NULL, 0, NULL);
	assert_non_null(reply);
	const char *json = lk_reply_json(reply, NULL);
	char *answer = strdup(json ? json : lk_reply_error(reply, LK_REPLY_LINE));
	lk_reply_free(reply);
	assert_non_null(answer);
	return answer;
}

static bool is_as_alone(int world, int question) {
	char *answer = answer_to(question);
	const char *alone = expected[world][question];
	bool same = alone && strcmp(answer, alone) == 0;
	free(answer);
	return same;
}

/* The answer of a process that is asked nothing else. */
static char *answer_apart(int world, int question) {
	int ends[2], status;
	char *text = NULL, block[4096];
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		lk_context *context = lk_context_new();
		if (!context || !is_set_up(context, world)) _exit(2);
		lk_context_use(context);
		char *answer = answer_to(question);
		_exit(write(ends[1], answer, strlen(answer)) != (ssize_t)strlen(answer));
	}
	close(ends[1]);
	FILE *out = lk_memory_open(&text, &(size_t){0});
	assert_non_null(out);
	for (ssize_t got; (got = read(ends[0], block, sizeof block)) > 0;)
		fwrite(block, 1, (size_t)got, out);
	assert_true(lk_memory_close(out));
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return text;
}

static int make_worlds(void **state) {
	if (make_scratch(state) != 0) return -1;
	for (int w = 0; w < WORLDS; w++) {
		char name[16], text[1024];
		snprintf(name, sizeof name, "%d.csv", w);
		snprintf(text, sizeof text, "%s%s", header, worlds[w].rows ? worlds[w].rows : "");
		snprintf(rows_file[w], sizeof rows_file[w], "%s", write_in(scratch, name, text));
		snprintf(folder[w], sizeof folder[w], "%s/world-%d", scratch, w);
		if (mkdir(folder[w], 0700) != 0) return -1;
		if (worlds[w].rows) write_devices(w);
	}
	snprintf(laid, sizeof laid, "--calibration=%s", write_in(scratch, "laid.csv", laid_rows));
	return 0;
}

static int drop_worlds(void **state) {
	for (int w = 0; w < WORLDS; w++)
		for (int q = 0; q < QUESTIONS; q++) free(expected[w][q]);
	return remove_scratch(state);
}

/* ---- the same bytes ---- */

/* Before any other test: nothing has been read in this process. No two worlds answer alike, but
 * where neither knows the device, and rows that a request lays on top change its answer in each. */
static void test_apart(void **state) {
	(void)state;
	for (int w = 0; w < WORLDS; w++) {
		for (int q = 0; q < QUESTIONS; q++) {
			char *answer = expected[w][q] = answer_apart(w, q);
			bool unknown = strstr(answer, "unknown device") != NULL;
			for (int other = 0; other < w; other++)
				if (!unknown && strcmp(expected[other][q], answer) == 0)
					fail_msg("worlds %d and %d answer question %d alike", other, w, q);
		}
		assert_string_not_equal(expected[w][STATED], expected[w][LAID]);
	}
}

/* Also in a context that is made where one was freed. */
static void test_orders(void **state) {
	(void)state;
	lk_context *contexts[WORLDS] = {NULL};
	int asked = rounds(70, 3000);
	for (int i = 0; i < asked; i++) {
		uint64_t drawn = lk_hash64((uint64_t)i);
		int w = (int)(drawn % WORLDS), q = (int)(drawn / WORLDS % QUESTIONS);
		if (w > 0 && drawn >> 32 & 1) {
			lk_context_free(contexts[w]);
			contexts[w] = NULL;
		}
		if (w > 0 && !contexts[w]) contexts[w] = context_of(w);
		lk_context *before = lk_context_use(contexts[w]);
		assert_null(before);
		if (!is_as_alone(w, q)) fail_msg("request %d: question %d in world %d", i, q, w);
		assert_ptr_equal(lk_context_use(NULL), contexts[w]);
	}
	for (int w = 0; w < WORLDS; w++) lk_context_free(contexts[w]);
}

struct asker {
	lk_context *context;
	int world, first, wrong;
};

static void *ask_all(void *argument) {
	struct asker *asker = argument;
	lk_context_use(asker->context);
	int asked = rounds(QUESTIONS, 20 * QUESTIONS);
	for (int i = 0; i < asked || i < 2; i++)
		asker->wrong += !is_as_alone(asker->world, (asker->first + i) % QUESTIONS);
	return NULL;
}

/* Two threads in contexts of their own, one with another two in one context. */
static void test_threads(void **state) {
	(void)state;
	enum { ASKERS = 4 };
	lk_context *one = context_of(1), *two = context_of(2);
	struct asker askers[ASKERS] = {{one, 1, 0, 0}, {two, 2, 1, 0}, {two, 2, 3, 0}, {NULL, 0, 2, 0}};
	pthread_t threads[ASKERS];
	for (int i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_all, &askers[i]), 0);
	for (int i = 0; i < ASKERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(askers[i].wrong, 0);
	}
	lk_context_free(one);
	lk_context_free(two);
}

/* ---- what threads of the library see ---- */

struct seen {
	lk_kept *kept[LK_CONTEXT_PARTS];
	const lk_stop *stop;
};

static void see(struct seen *out) {
	out->stop = lk_stop_watched();
	for (int i = 0; i < LK_CONTEXT_PARTS; i++) out->kept[i] = lk_context_kept((lk_context_part)i);
}

static lk_status compare_seen(void *asker, size_t job, lk_error *err) {
	struct seen here;
	(void)job;
	see(&here);
	return memcmp(&here, asker, sizeof here) == 0 && lk_device_find("k99")
	           ? LK_OK
	           : lk_fail(err, LK_ERR_INTERNAL, NULL, "another context");
}

static lk_status compare_within(void *asker, size_t job, lk_error *err) {
	LK_TRY(compare_seen(asker, job, err));
	return lk_parallel(4, 2, compare_seen, asker, err);
}

static void test_workers(void **state) {
	(void)state;
	lk_error err = {0};
	lk_context *context = context_of(2);
	lk_stop *stop = lk_stop_new();
	struct seen asker;
	assert_non_null(stop);
	lk_context_stop(context, stop);
	lk_context_use(context);
	see(&asker);
	assert_ptr_equal(asker.stop, stop);
	assert_int_equal(lk_parallel(64, 4, compare_within, &asker, &err), LK_OK);
	lk_context_free(context); /* this thread is in the default one again */
	assert_null(lk_stop_watched());
	assert_null(lk_device_find("k99"));
	lk_stop_free(stop);
}

static lk_status count_thread(void *context, size_t job, lk_error *err) {
	(void)job, (void)err;
	if (lk_threads() == 1) return LK_OK; /* a job has one thread of its own, ... */
	*(int *)context = lk_threads();      /* ... or is the only one, and has all */
	return LK_OK;
}

static void test_thread_counts(void **state) {
	(void)state;
	lk_error err = {0};
	int alone = 0;
	lk_context *context = lk_context_new();
	assert_non_null(context);
	lk_context_threads(context, 3);
	assert_int_equal(lk_threads(), lk_cores());
	lk_context_use(context);
	assert_int_equal(lk_threads(), 3);
	assert_int_equal(lk_parallel(1, 1, count_thread, &alone, &err), LK_OK);
	assert_int_equal(alone, 3);
	assert_int_equal(lk_threads(), 3);
	lk_context_threads(context, 0);
	assert_int_equal(lk_threads(), lk_cores());
	lk_context_free(context);
}

/* ---- stopping ---- */

static void test_stop(void **state) {
	(void)state;
	lk_error err = {0};
	lk_context *context = lk_context_new();
	lk_stop *stop = lk_stop_new(), *own = lk_stop_new();
	assert_true(context && stop && own);
	lk_context_stop(context, stop);
	lk_stop_ask(stop);
	assert_int_equal(lk_stop_check(&err), LK_OK); /* in the default context */
	lk_context_use(context);
	assert_int_equal(lk_stop_check(&err), LK_ERR_STOPPED);
	lk_reply *reply =
		lk_reply_ask("predict", questions[STATED].count, questions[STATED].words, NULL, 0, NULL);
	assert_int_equal(lk_reply_status(reply), LK_ERR_STOPPED);
	lk_reply_free(reply);
	lk_stop_watch(own);
	assert_int_equal(lk_stop_check(&err), LK_OK);
	lk_stop_watch(NULL);
	assert_int_equal(lk_stop_check(&err), LK_ERR_STOPPED);
	lk_context_stop(context, NULL);
	assert_int_equal(lk_stop_check(&err), LK_OK);
	lk_context_free(context);
	lk_stop_free(stop);
	lk_stop_free(own);
}

/* ---- set up once ---- */

/* What is refused leaves the context as it was; what is in use does not change. */
static void test_once(void **state) {
	(void)state;
	lk_error err = {0};
	lk_context *context = lk_context_new();
	const char *broken = write_in(scratch, "broken.csv", "family,subject\nnone\n");
	assert_non_null(context);
	assert_int_equal(lk_context_catalogue(context, "/nowhere", &err), LK_ERR_IO);
	assert_int_equal(lk_context_calibration(context, "/nowhere.csv", &err), LK_ERR_IO);
	assert_int_equal(lk_context_calibration(context, broken, &err), LK_ERR_INPUT);
	for (int w = 1; w < WORLDS; w++) {
		lk_status status = w == 1 ? LK_OK : LK_ERR_INPUT;
		assert_int_equal(lk_context_catalogue(context, folder[w], &err), status);
		assert_int_equal(lk_context_calibration(context, rows_file[w], &err), status);
	}
	lk_context_use(context);
	assert_int_equal(lk_catalogue_open(folder[2], &err), LK_ERR_INPUT);
	assert_true(is_as_alone(1, STATED));
	lk_context_use(NULL);
	lk_context_free(context);

	context = lk_context_new();
	assert_non_null(context);
	lk_context_use(context);
	assert_true(is_as_alone(0, STATED));
	assert_int_equal(lk_context_catalogue(context, folder[1], &err), LK_ERR_INPUT);
	assert_int_equal(lk_context_calibration(context, rows_file[1], &err), LK_ERR_INPUT);
	assert_true(is_as_alone(0, STATED));
	lk_context_free(context);
	lk_context_free(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart),   cmocka_unit_test(test_orders),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_workers),
		cmocka_unit_test(test_stop),    cmocka_unit_test(test_thread_counts),
		cmocka_unit_test(test_once),
	};
	return cmocka_run_group_tests_name("context", tests, make_worlds, drop_worlds);
}
