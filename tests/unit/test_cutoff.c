/* test_cutoff.c: searches that a signal cuts off: where they are is known by what they tell of
 * themselves, so that nothing here depends on time. Each answers with what it has found, says so,
 * does the same every time, and with more of the search finds no worse. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "system/cutoff.h"
#include "base/text.h"
#include "lockstep/compile.h"
#include "lockstep/jobs.h"
#include "lockstep/plan.h"
#include "lockstep/post_plan.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"
#include "lockstep/view.h"

enum { NEVER = 1 << 30 };

static lk_stop *ending; /* the signal handler's */

static void on_interrupt(int signal) {
	(void)signal;
	lk_stop_search(ending);
}

/* Interrupts the search when it tells of itself for the last time before it would go on. */
struct watcher {
	int told, interrupt_at;
};

static void watch(void *context, int gpus, double done, double all) {
	struct watcher *watcher = context;
	(void)gpus;
	assert_true(all == 0 || done <= all);
	if (++watcher->told == watcher->interrupt_at) raise(SIGINT);
}

static void begin_watching(struct watcher *watcher, int interrupt_at) {
	struct sigaction act = {.sa_handler = on_interrupt};
	*watcher = (struct watcher){.interrupt_at = interrupt_at};
	ending = lk_stop_new();
	assert_non_null(ending);
	sigemptyset(&act.sa_mask);
	assert_int_equal(sigaction(SIGINT, &act, NULL), 0);
	lk_stop_watch(ending);
}

static void end_watching(void) {
	lk_stop_watch(NULL);
	lk_stop_free(ending);
	ending = NULL;
	assert_true(signal(SIGINT, SIG_DFL) != SIG_ERR);
}

static void cut_off_by_interrupt(const char *cut_off) {
	assert_non_null(cut_off);
	assert_string_equal(cut_off, "interrupt");
}

/* ---- the cutoff itself ---- */

static void says_why(void **unused) {
	(void)unused;
	struct watcher watcher;
	begin_watching(&watcher, NEVER);
	lk_cutoff open = lk_cutoff_after(0), over = lk_cutoff_after(1e-9), far = lk_cutoff_after(1e6);
	assert_null(lk_cutoff_reached(NULL));
	assert_null(lk_cutoff_reached(&open));
	assert_true(lk_cutoff_left_s(&open) == 0);
	assert_string_equal(lk_cutoff_reached(&over), "time");
	assert_true(lk_cutoff_left_s(&over) > 0);
	assert_null(lk_cutoff_reached(&far));
	assert_true(lk_cutoff_left_s(&far) > 0 && lk_cutoff_left_s(&far) <= 1e6);
	raise(SIGINT);
	cut_off_by_interrupt(lk_cutoff_reached(&open));
	cut_off_by_interrupt(lk_cutoff_reached(&over));
	assert_false(lk_stop_asked(ending)); /* what is no search goes on */
	end_watching();
	assert_string_equal(lk_cutoff_text(NULL), "");
	assert_string_equal(lk_cutoff_text("time"), "--search-time");
}

/* ---- plan ---- */

static lk_plan_request plan_request(struct watcher *watcher) {
	lk_plan_request request;
	lk_plan_defaults(&request);
	request.job.model = "llama3.1-8b";
	request.job.gpu = "h100-sxm";
	request.gpus = "16";
	request.job.gbs = 64;
	request.job.seq = 4096;
	request.threads = 1;
	request.top = 1; /* small batches first */
	request.progress = watch;
	request.progress_context = watcher;
	return request;
}

static char *plan_json(const lk_plan *plan) {
	char *text = NULL;
	size_t size;
	lk_error err;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	assert_int_equal(lk_plan_print(plan, LK_OUTPUT_JSON, false, false, NULL, out, &err), LK_OK);
	assert_int_equal(fclose(out), 0);
	return text;
}

static lk_plan *plan_until(int interrupt_at, int *told) {
	struct watcher watcher;
	lk_error err = {0};
	lk_plan *plan = NULL;
	begin_watching(&watcher, interrupt_at);
	lk_plan_request request = plan_request(&watcher);
	if (lk_plan_find(&request, &plan, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	end_watching();
	*told = watcher.told;
	return plan;
}

static void plan_keeps_the_best_so_far(void **unused) {
	(void)unused;
	int told, all;
	lk_plan *whole = plan_until(NEVER, &all);
	double fastest = whole->counts[0].choices[0].step_time_s, before = INFINITY;
	uint64_t tried_before = 0;
	assert_null(whole->cut_off);
	assert_true(whole->counts[0].untried == 0 && all > 3);
	for (int at = 1; at < all; at++) {
		lk_plan *plan = plan_until(at, &told), *again = plan_until(at, &told);
		const lk_plan_count *count = &plan->counts[0];
		char *one = plan_json(plan), *other = plan_json(again);
		assert_string_equal(one, other);
		cut_off_by_interrupt(plan->cut_off);
		assert_true(told >= at && (told > 1 || at > 1)); /* until a layout fits it goes on */
		assert_true(count->untried > 0 && count->choice_count > 0);
		uint64_t tried = count->simulated + count->cut_short + count->found_too_large;
		assert_true(tried >= tried_before && tried <= whole->counts[0].simulated +
		                                                  whole->counts[0].cut_short +
		                                                  whole->counts[0].found_too_large);
		assert_true(count->choices[0].step_time_s <= before);
		assert_true(count->choices[0].step_time_s >= fastest);
		assert_null(count->sensitivity);
		before = count->choices[0].step_time_s;
		tried_before = tried;
		free(one);
		free(other);
		lk_plan_free(plan);
		lk_plan_free(again);
	}
	lk_plan_free(whole);
}

/* Interrupted before it begins: the same, and the time limit alike. */
static void plan_tries_something(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	lk_plan *plan;
	begin_watching(&watcher, NEVER);
	lk_plan_request request = plan_request(&watcher);
	raise(SIGINT);
	assert_int_equal(lk_plan_find(&request, &plan, &err), LK_OK);
	cut_off_by_interrupt(plan->cut_off);
	assert_int_equal(plan->counts[0].choice_count > 0, plan->best == 0);
	assert_true(plan->counts[0].choice_count > 0);
	lk_plan_free(plan);
	end_watching();
	request.search_s = 1e-9;
	assert_int_equal(lk_plan_find(&request, &plan, &err), LK_OK);
	assert_string_equal(plan->cut_off, "time");
	assert_true(plan->counts[0].choice_count > 0);
	lk_plan_free(plan);
}

static void splits_keep_the_best_so_far(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	lk_post_plan *plan;
	for (int at = 1; at < 3; at++) {
		begin_watching(&watcher, at);
		lk_plan_request request = plan_request(&watcher);
		request.job.model = "llama3.2-1b";
		request.job.task = "grpo";
		request.job.response = 500;
		request.job.seq = 2048;
		request.gpus = "4";
		if (lk_post_plan_find(&request, &plan, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		cut_off_by_interrupt(plan->cut_off);
		assert_int_equal(plan->splits, at);
		assert_true(plan->splits < plan->splits_all && plan->count > 0);
		lk_post_plan_free(plan);
		end_watching();
	}
}

/* ---- rent ---- */

static void rent_keeps_the_best_so_far(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	lk_rent *rent;
	lk_rent_request request;
	lk_rent_defaults(&request);
	request.job.model = "bert-large";
	request.job.seq = 128;
	request.batches = "32";
	request.samples = 1e6;
	request.budget = 1000;
	request.machines.filter = "p3";
	request.progress = watch;
	request.progress_context = &watcher;
	for (int at = 1; at < 3; at++) {
		begin_watching(&watcher, at);
		if (lk_rent_find(&request, &rent, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
		cut_off_by_interrupt(rent->cut_off);
		assert_int_equal(watcher.told, at);
		assert_true(rent->count > 0 && !rent->search_complete);
		assert_non_null(strstr(rent->searched, "interrupted"));
		lk_rent_free(rent);
		end_watching();
	}
	begin_watching(&watcher, NEVER);
	raise(SIGINT);
	assert_int_equal(lk_rent_find(&request, &rent, &err), LK_ERR_STOPPED);
	assert_non_null(strstr(err.what, "an interrupt"));
	end_watching();
}

/* ---- shard ---- */

static void shard_keeps_the_best_so_far(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	char path[] = "/tmp/lockstep-cutoff-XXXXXX";
	int handle = mkstemp(path);
	assert_true(handle >= 0);
	FILE *file = fdopen(handle, "w");
	fputs("name,rows,dim,pooling\n", file);
	for (int i = 0; i < 60; i++)
		fprintf(file, "t%d,%d,%d,%d\n", i, 1000 * (1 + i * i * 37 % 900), 32 << i % 3,
		        1 + i * 7 % 23);
	assert_int_equal(fclose(file), 0);
	lk_shard_request request;
	lk_shard_defaults(&request);
	request.tables = path;
	request.gpu = "a100-sxm-80";
	request.gpus = 8;
	request.progress = watch;
	request.progress_context = &watcher;
	double before = INFINITY;
	for (int at = 1; at < 6; at++) {
		lk_shard_answer *answer;
		begin_watching(&watcher, at);
		if (lk_shard(&request, &answer, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
		end_watching();
		cut_off_by_interrupt(answer->cut_off);
		assert_int_equal(watcher.told, at);
		assert_true(answer->fits && answer->placed_s <= before);
		before = answer->placed_s;
		lk_shard_free(answer);
	}
	lk_shard_answer *whole;
	begin_watching(&watcher, NEVER);
	assert_int_equal(lk_shard(&request, &whole, &err), LK_OK);
	end_watching();
	assert_null(whole->cut_off);
	assert_true(whole->placed_s <= before);
	lk_shard_free(whole);
	remove(path);
}

/* ---- jobs ---- */

static void jobs_keep_policies(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	lk_jobs_request request;
	lk_jobs_answer *whole, *answer;
	lk_jobs_defaults(&request);
	request.draw = 6;
	request.gpu = "a100-sxm-80";
	request.gpus = 16;
	request.progress = watch;
	request.progress_context = &watcher;
	begin_watching(&watcher, NEVER);
	if (lk_jobs(&request, &whole, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	end_watching();
	assert_null(whole->cut_off);
	/* Policies run side by side: at any moment none may be left to give up, but not always. */
	const int moments[] = {1, watcher.told / 2, watcher.told - 1};
	int cut_off = 0;
	for (int i = 0; i < 3 || (!cut_off && i < 300); i++) {
		begin_watching(&watcher, moments[i % 3]);
		assert_int_equal(lk_jobs(&request, &answer, &err), LK_OK);
		end_watching();
		bool cut = answer->cut_off != NULL;
		if (cut) cut_off_by_interrupt(answer->cut_off);
		cut_off += cut;
		assert_true(answer->policy_count >= 1 && answer->policy_count <= whole->policy_count - cut);
		for (int p = 0; p < answer->policy_count; p++) {
			assert_string_equal(answer->policies[p].name, whole->policies[p].name);
			assert_true(answer->policies[p].mean_s == whole->policies[p].mean_s);
		}
		lk_jobs_free(answer);
	}
	assert_true(cut_off > 0);
	lk_jobs_free(whole);
	request.policies = "elastic"; /* nothing is found before the first policy is through */
	begin_watching(&watcher, 1);
	assert_int_equal(lk_jobs(&request, &answer, &err), LK_ERR_STOPPED);
	end_watching();
}

/* ---- tune ---- */

static void tune_keeps_the_best_so_far(void **unused) {
	(void)unused;
	struct watcher watcher;
	lk_error err = {0};
	size_t sizes[4];
	for (int at = 1; at < 4; at++) {
		lk_compile *program;
		char *text = NULL;
		FILE *out = open_memstream(&text, &sizes[at]);
		lk_compile_request request = {.action = LK_COMPILE_TUNE,
		                              .format = LK_COMPILE_JSON,
		                              .gpu = "h100-sxm",
		                              .sizes = "dp=8,N=1000000",
		                              .progress = watch,
		                              .progress_context = &watcher};
		assert_int_equal(lk_compile_read("examples/lang/adam.lk", &program, &err), LK_OK);
		begin_watching(&watcher, at);
		if (lk_compile_tune(program, &request, out, &err) != LK_OK)
			fail_msg("%s: %s", err.where, err.what);
		end_watching();
		assert_int_equal(fclose(out), 0);
		assert_non_null(strstr(text, "\"cut_off\": \"interrupt\""));
		assert_non_null(strstr(text, "\"complete\": false"));
		lk_compile_free(program);
		free(text);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_why),
		cmocka_unit_test(plan_keeps_the_best_so_far),
		cmocka_unit_test(plan_tries_something),
		cmocka_unit_test(splits_keep_the_best_so_far),
		cmocka_unit_test(rent_keeps_the_best_so_far),
		cmocka_unit_test(shard_keeps_the_best_so_far),
		cmocka_unit_test(jobs_keep_policies),
		cmocka_unit_test(tune_keeps_the_best_so_far),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
