/* parallel.c: a counter from which threads take jobs. Jobs are taken in order, so when one fails
 * every earlier one has been taken already and will finish: the first error in order is the same
 * with any number of threads. */
#include "system/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "system/context.h"
#include "system/stop.h"

enum { MOST_THREADS = 256 };

struct lk_queue {
	pthread_mutex_t lock;
	size_t next, count;
	lk_parallel_job *job;
	void *context;
	bool shared; /* several threads take from it, or from one around it */
	int spare;   /* threads that it may have and does not need: for lk_parallel in its jobs */
	lk_carried carried; /* of the caller, and so of its threads */
	size_t failed;      /* first job that failed; count: none */
	lk_status status;
	lk_error error;
};

int lk_cores(void) {
	cpu_set_t set;
	int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return cores > 0 ? cores : 1;
}

/* In a thread of lk_parallel that has siblings the cores are busy with them, so by default it runs
 * the jobs of an inner lk_parallel itself. Once siblings have run out of jobs, an inner one has
 * their cores. */
static bool parallel_is_inside(void) {
	const struct lk_queue *around = lk_carried_here()->around;
	return around && around->shared;
}

int lk_threads(void) {
	if (parallel_is_inside()) return 1;
	int stated = lk_context_thread_count();
	return stated > 0 ? stated : lk_cores();
}

static void note_failure(struct lk_queue *queue, size_t job, lk_status status,
                         const lk_error *error) {
	pthread_mutex_lock(&queue->lock);
	if (job < queue->failed) {
		queue->failed = job;
		queue->status = status;
		queue->error = *error;
	}
	pthread_mutex_unlock(&queue->lock);
}

/* Up to `most` threads that the queue does not need. */
static int queue_take_spare(struct lk_queue *queue, size_t most) {
	pthread_mutex_lock(&queue->lock);
	int taken = (size_t)queue->spare < most ? queue->spare : (int)most;
	queue->spare -= taken;
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

static void queue_add_spare(struct lk_queue *queue, int threads) {
	pthread_mutex_lock(&queue->lock);
	queue->spare += threads;
	pthread_mutex_unlock(&queue->lock);
}

static void *parallel_work(void *argument) {
	struct lk_queue *queue = argument;
	*lk_carried_here() = queue->carried;
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
	bool inside = parallel_is_inside();
	struct lk_queue *around = lk_carried_here()->around;
	int taken = 0, spare = 0;
	if (threads <= 0 && inside && count > 1) taken = queue_take_spare(around, count - 1);
	if (threads <= 0) threads = lk_threads() + taken;
	if (threads > MOST_THREADS) threads = MOST_THREADS;
	if ((size_t)threads > count) {
		spare = threads - (count ? (int)count : 1);
		threads -= spare;
	}
	struct lk_queue q = {.count = count,
	                     .spare = spare,
	                     .failed = count,
	                     .job = job,
	                     .context = context,
	                     .shared = inside || threads > 1,
	                     .carried = *lk_carried_here()};
	q.carried.around = &q;
	if (pthread_mutex_init(&q.lock, NULL) != 0) return lk_oom(err);
	pthread_t thread[MOST_THREADS];
	int started = 0;
	/* Where the system gives no more threads, fewer do the work. */
	while (started < threads - 1 && pthread_create(&thread[started], NULL, parallel_work, &q) == 0)
		started++;
	parallel_work(&q);
	lk_carried_here()->around = around;
	for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
	if (taken) queue_add_spare(around, taken);
	pthread_mutex_destroy(&q.lock);
	if (q.failed < count && err) *err = q.error;
	return q.failed < count ? q.status : LK_OK;
}
