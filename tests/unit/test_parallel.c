/* test_parallel.c: jobs on several threads: each runs once, the first failure in order is reported,
 * and a pool of one job leaves the cores to what that job shares out. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "system/parallel.h"

enum {
	JOBS = 100,
	FIRST_BAD = 40,
	MEETING_S = 20 /* so long a job waits for the other one: a thread that never comes */
};

static lk_status count_job(void *context, size_t job, lk_error *err) {
	int *ran = context;
	(void)err;
	ran[job]++;
	return LK_OK;
}

static void each_job_runs_once(void **unused) {
	(void)unused;
	for (int threads = 0; threads < 5; threads++) {
		int ran[JOBS] = {0};
		assert_int_equal(lk_parallel(JOBS, threads, count_job, ran, NULL), LK_OK);
		for (int i = 0; i < JOBS; i++) assert_int_equal(ran[i], 1);
	}
}

static lk_status fail_late(void *context, size_t job, lk_error *err) {
	(void)context;
	return job < FIRST_BAD ? LK_OK : lk_fail(err, LK_ERR_INPUT, "job", "number %zu", job);
}

static void the_first_failure_is_told(void **unused) {
	(void)unused;
	lk_error err;
	assert_int_equal(lk_parallel(JOBS, 4, fail_late, NULL, &err), LK_ERR_INPUT);
	assert_string_equal(err.what, "number 40");
}

/* ---- jobs inside of a job ---- */

typedef struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all_here;
	int here;
	int met; /* jobs that found the other one running */
} meeting;

static lk_status come_together(void *context, size_t job, lk_error *err) {
	meeting *at = context;
	struct timespec until;
	(void)job, (void)err;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += MEETING_S;
	pthread_mutex_lock(&at->lock);
	if (++at->here == 2) pthread_cond_broadcast(&at->all_here);
	while (at->here < 2 && pthread_cond_timedwait(&at->all_here, &at->lock, &until) == 0) {
	}
	at->met += at->here == 2;
	pthread_mutex_unlock(&at->lock);
	return LK_OK;
}

static lk_status share_out(void *context, size_t job, lk_error *err) {
	(void)job;
	return lk_parallel(2, 0, come_together, context, err);
}

static void a_single_job_has_all_cores(void **unused) {
	(void)unused;
	meeting at = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
	if (lk_cores() < 2) skip();
	assert_int_equal(lk_parallel(1, 0, share_out, &at, NULL), LK_OK);
	assert_int_equal(at.met, 2);
}

/* ---- jobs inside of one of several ---- */

static lk_status note_thread(void *context, size_t job, lk_error *err) {
	pthread_t *ran = context;
	const struct timespec wait = {0, 1000000};
	(void)err;
	ran[job] = pthread_self();
	nanosleep(&wait, NULL);
	return LK_OK;
}

/* The first job ends at once; then the jobs of the second run on its thread's core as well. */
static lk_status share_late(void *context, size_t job, lk_error *err) {
	int *shared = context;
	if (job == 0) return LK_OK;
	for (time_t until = time(NULL) + MEETING_S; !*shared && time(NULL) < until;) {
		pthread_t ran[4];
		LK_TRY(lk_parallel(4, 0, note_thread, ran, err));
		for (int i = 1; i < 4; i++) *shared |= !pthread_equal(ran[0], ran[i]);
	}
	return LK_OK;
}

static void the_last_job_has_the_cores_of_the_others(void **unused) {
	(void)unused;
	int shared = 0;
	assert_int_equal(lk_parallel(2, 2, share_late, &shared, NULL), LK_OK);
	assert_true(shared);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_job_runs_once),
		cmocka_unit_test(the_first_failure_is_told),
		cmocka_unit_test(a_single_job_has_all_cores),
		cmocka_unit_test(the_last_job_has_the_cores_of_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
