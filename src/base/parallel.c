/* parallel.c: a counter of jobs that threads take from. Jobs are taken in order, so when one fails
 * every earlier one has been taken already and will finish: the first error in order is the same
 * with any number of threads. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/stop.h"

enum {
	MOST_THREADS = 256
};

struct queue {
	pthread_mutex_t lock;
	size_t next, count;
	lk_parallel_job *job;
	void *context;
	bool shared;         /* several threads take from it, or from one around it */
	const lk_stop *stop; /* what the caller watches, its threads watch too */
	size_t failed;       /* first job that failed; count: none */
	lk_status status;
	lk_error error;
};

/* Set in a thread of lk_parallel that has siblings: the cores are busy with them, so by default it
 * runs the jobs of an inner lk_parallel itself. */
static _Thread_local bool parallel_is_inside;

int lk_cores(void) {
	cpu_set_t set;
	int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return cores > 0 ? cores : 1;
}

int lk_threads(void) {
	return parallel_is_inside ? 1 : lk_cores();
}

static void note_failure(struct queue *queue, size_t job, lk_status status, const lk_error *error) {
	pthread_mutex_lock(&queue->lock);
	if (job < queue->failed) {
		queue->failed = job;
		queue->status = status;
		queue->error = *error;
	}
	pthread_mutex_unlock(&queue->lock);
}

static void *parallel_work(void *argument) {
	struct queue *queue = argument;
	lk_stop_watch(queue->stop);
	parallel_is_inside = queue->shared;
	for (;;) {
		pthread_mutex_lock(&queue->lock);
		size_t job = queue->failed < queue->count ? queue->count : queue->next++;
		pthread_mutex_unlock(&queue->lock);
		if (job >= queue->count) return NULL;
		lk_error error = {0};
		lk_status status = lk_stop_check(&error);
		if (status == LK_OK) status = queue->job(queue->context, job, &error);
		if (status != LK_OK) note_failure(queue, job, status, &error);
	}
}

lk_status lk_parallel(size_t count, int threads, lk_parallel_job *job, void *context,
                      lk_error *err) {
	bool inside = parallel_is_inside;
	if (threads <= 0) threads = lk_threads();
	if (threads > MOST_THREADS) threads = MOST_THREADS;
	if ((size_t)threads > count) threads = count ? (int)count : 1;
	struct queue q = {.count = count,
	                  .failed = count,
	                  .job = job,
	                  .context = context,
	                  .shared = inside || threads > 1,
	                  .stop = lk_stop_watched()};
	if (pthread_mutex_init(&q.lock, NULL) != 0) return lk_oom(err);
	pthread_t thread[MOST_THREADS];
	int started = 0;
	/* Where the system gives no more threads, fewer do the work. */
	while (started < threads - 1 && pthread_create(&thread[started], NULL, parallel_work, &q) == 0)
		started++;
	parallel_work(&q);
	parallel_is_inside = inside;
	for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
	pthread_mutex_destroy(&q.lock);
	if (q.failed < count && err) *err = q.error;
	return q.failed < count ? q.status : LK_OK;
}
