/* parallel.c: a counter from which threads take jobs. Jobs are taken in order, so when one fails
 * every earlier one has been taken already and will finish: the first error in order is the same
 * with any number of threads. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/carried.h"
#include "base/stop.h"

enum { MOST_THREADS = 256 };

struct queue {
	pthread_mutex_t lock;
	size_t next, count;
	lk_parallel_job *job;
	void *context;
	bool shared;        /* several threads take from it, or from an enclosing one */
	int spare;          /* allowed threads that it does not need: for lk_parallel in its jobs */
	lk_carried carried; /* of the caller, and so of its threads */
	size_t failed;      /* first failed job; count: none */
	lk_status status;
	lk_error error;
};

/* Set in a thread of lk_parallel that has siblings: they keep the cores busy, so by default it runs
 * the jobs of an inner lk_parallel itself. Once siblings have run out of jobs, an inner one may use
 * their cores. */
static _Thread_local bool parallel_is_inside;
static _Thread_local struct queue *parallel_around; /* the queue of the thread's job */

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

/* Take up to `most` threads that the queue does not need. */
static int queue_take_spare(struct queue *queue, size_t most) {
	pthread_mutex_lock(&queue->lock);
	int taken = (size_t)queue->spare < most ? queue->spare : (int)most;
	queue->spare -= taken;
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

static void queue_add_spare(struct queue *queue, int threads) {
	pthread_mutex_lock(&queue->lock);
	queue->spare += threads;
	pthread_mutex_unlock(&queue->lock);
}

static void *parallel_work(void *argument) {
	struct queue *queue = argument;
	*lk_carried_here() = queue->carried;
	parallel_is_inside = queue->shared;
	parallel_around = queue;
	for (;;) {
		pthread_mutex_lock(&queue->lock);
		size_t job = queue->failed < queue->count ? queue->count : queue->next++;
		pthread_mutex_unlock(&queue->lock);
		if (job >= queue->count) {
			queue_add_spare(queue, 1);
			return NULL;
		}
		lk_error error = {0};
		lk_status status = lk_stop_check(&error);
		if (status == LK_OK) status = queue->job(queue->context, job, &error);
		if (status != LK_OK) note_failure(queue, job, status, &error);
	}
}

lk_status lk_parallel(size_t count, int threads, lk_parallel_job *job, void *context,
                      lk_error *err) {
	bool inside = parallel_is_inside;
	struct queue *around = parallel_around;
	int taken = 0, spare = 0;
	if (threads <= 0 && inside && count > 1) taken = queue_take_spare(around, count - 1);
	if (threads <= 0) threads = lk_threads() + taken;
	if (threads > MOST_THREADS) threads = MOST_THREADS;
	if ((size_t)threads > count) {
		spare = threads - (count ? (int)count : 1);
		threads -= spare;
	}
	struct queue q = {.count = count,
	                  .spare = spare,
	                  .failed = count,
	                  .job = job,
	                  .context = context,
	                  .shared = inside || threads > 1,
	                  .carried = *lk_carried_here()};
	if (pthread_mutex_init(&q.lock, NULL) != 0) return lk_oom(err);
	pthread_t thread[MOST_THREADS];
	int started = 0;
	/* If the system gives no more threads, fewer do the work. */
	while (started < threads - 1 && pthread_create(&thread[started], NULL, parallel_work, &q) == 0)
		started++;
	parallel_work(&q);
	parallel_is_inside = inside;
	parallel_around = around;
	for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
	if (taken) queue_add_spare(around, taken);
	pthread_mutex_destroy(&q.lock);
	if (q.failed < count && err) *err = q.error;
	return q.failed < count ? q.status : LK_OK;
}
