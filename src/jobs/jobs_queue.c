/* jobs_queue.c: a cluster whose policy leaves running jobs alone. Jobs wait in a heap per number of
 * GPUs, by the policy's priority, ties by submission; the next to start is the first of one of
 * these heaps. Ends are in another heap, so that an event takes the logarithm of the present jobs.
 * At one moment ends come first, then arrivals, then starts. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/noun.h"
#include "jobs/jobs.h"

/* ---- heaps of jobs ---- */

typedef LK_VEC(int) job_heap;

/* Order: least key, then least number. */
static bool queue_before(const double *key, int a, int b) {
	return key[a] != key[b] ? key[a] < key[b] : a < b;
}

static bool queue_push(job_heap *heap, const double *key, int job) {
	if (!lk_push(heap)) return false;
	size_t at = heap->count - 1;
	for (; at > 0 && queue_before(key, job, heap->at[(at - 1) / 2]); at = (at - 1) / 2)
		heap->at[at] = heap->at[(at - 1) / 2];
	heap->at[at] = job;
	return true;
}

static int queue_pop(job_heap *heap, const double *key) {
	int first = heap->at[0], last = heap->at[--heap->count];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count && queue_before(key, heap->at[child + 1], heap->at[child]))
			child++;
		if (!queue_before(key, heap->at[child], last)) break;
		heap->at[at] = heap->at[child];
	}
	heap->at[at] = last;
	return first;
}

/* ---- the cluster ---- */

struct queue {
	const lk_job_list *list;
	const lk_policy *policy;
	lk_jobs_course *courses;
	lk_nodes nodes;
	lk_power *power; /* NULL: all nodes are on */
	lk_history *history;
	double now_s;
	size_t arrived;
	double *priority, *end_s; /* by job: the keys of the heaps */
	int *holding;             /* by job: its holding */
	int *sizes, size_count;   /* numbers of GPUs that jobs request, ascending */
	int *size_of;             /* by GPUs */
	job_heap *waiting;        /* by size */
	job_heap running;
	bool *blocked;           /* by size: scratch for one moment */
	long long waiting_small; /* GPUs wanted by waiting jobs that fit on a node */
	int waiting_nodes;       /* nodes wanted by those that do not */
};

static double queue_run_s(const struct queue *queue, int job) {
	const lk_jobs_job *asked = &queue->list->at[job].job;
	return asked->samples / asked->asked_per_s;
}

/* Add a job to the waiting ones, or remove it. */
static void queue_count(struct queue *queue, int gpus, int sign) {
	if (gpus <= queue->nodes.most) queue->waiting_small += sign * gpus;
	else queue->waiting_nodes += sign * ((gpus + queue->nodes.most - 1) / queue->nodes.most);
}

static lk_status queue_arrive(struct queue *queue, lk_error *err) {
	int job = (int)queue->arrived++, gpus = queue->list->at[job].job.gpus;
	queue->courses[job] = (lk_jobs_course){.start_s = NAN, .end_s = NAN};
	queue->priority[job] = queue->policy->priority(queue->list, queue->history, job);
	queue_count(queue, gpus, 1);
	return queue_push(&queue->waiting[queue->size_of[gpus]], queue->priority, job) ? LK_OK
	                                                                               : lk_oom(err);
}

static lk_status queue_start(struct queue *queue, int job, lk_error *err) {
	double run_s = queue_run_s(queue, job);
	int gpus = queue->list->at[job].job.gpus;
	queue->end_s[job] = queue->now_s + run_s;
	queue->courses[job] = (lk_jobs_course){.start_s = queue->now_s,
	                                       .end_s = queue->end_s[job],
	                                       .gpu_s = gpus * run_s,
	                                       .most_gpus = gpus};
	queue_count(queue, gpus, -1);
	return queue_push(&queue->running, queue->end_s, job) ? LK_OK : lk_oom(err);
}

/* The size whose first job is next, among sizes not blocked; -1 if no job waits. */
static int queue_first(const struct queue *queue) {
	int first = -1;
	for (int s = 0; s < queue->size_count; s++) {
		if (queue->blocked[s] || !queue->waiting[s].count) continue;
		if (first < 0 ||
		    queue_before(queue->priority, queue->waiting[s].at[0], queue->waiting[first].at[0]))
			first = s;
	}
	return first;
}

/* Start what may start. A job without room blocks all later ones, or, if jobs may pass, those of
 * its size. */
static lk_status queue_start_all(struct queue *queue, lk_error *err) {
	for (int s = 0; s < queue->size_count; s++) queue->blocked[s] = false;
	for (int s; (s = queue_first(queue)) >= 0;) {
		int job = queue->waiting[s].at[0];
		LK_TRY(lk_nodes_place(&queue->nodes, queue->sizes[s], &queue->holding[job], err));
		if (queue->holding[job] >= 0) {
			queue_pop(&queue->waiting[s], queue->priority);
			LK_TRY(queue_start(queue, job, err));
		} else if (queue->policy->passes) queue->blocked[s] = true;
		else break;
	}
	return LK_OK;
}

static double queue_next(const struct queue *queue) {
	double next_s = queue->arrived < queue->list->count
	                    ? queue->list->at[queue->arrived].job.submit_s
	                    : INFINITY;
	if (queue->running.count) next_s = fmin(next_s, queue->end_s[queue->running.at[0]]);
	return queue->power ? fmin(next_s, lk_power_next(queue->power)) : next_s;
}

static lk_status queue_run(struct queue *queue, lk_error *err) {
	for (double next_s; (next_s = queue_next(queue)) < INFINITY;) {
		if (queue->power) lk_power_pass(queue->power, &queue->nodes, next_s);
		queue->now_s = next_s;
		while (queue->running.count && queue->end_s[queue->running.at[0]] <= next_s) {
			int job = queue_pop(&queue->running, queue->end_s);
			lk_nodes_release(&queue->nodes, queue->holding[job]);
			lk_history_learn(queue->history, job, queue_run_s(queue, job));
		}
		while (queue->arrived < queue->list->count &&
		       queue->list->at[queue->arrived].job.submit_s <= next_s)
			LK_TRY(queue_arrive(queue, err));
		if (queue->power) LK_TRY(lk_power_advance(queue->power, &queue->nodes, err));
		LK_TRY(queue_start_all(queue, err));
		int small = (int)((queue->waiting_small + queue->nodes.most - 1) / queue->nodes.most);
		if (queue->power && small + queue->waiting_nodes)
			LK_TRY(lk_power_demand(queue->power, &queue->nodes, small + queue->waiting_nodes, err));
	}
	return LK_OK;
}

/* ---- before the first job ---- */

static lk_status queue_find_sizes(struct queue *queue, lk_arena *arena, lk_error *err) {
	int most = 0;
	for (size_t i = 0; i < queue->list->count; i++)
		if (queue->list->at[i].job.gpus > most) most = queue->list->at[i].job.gpus;
	queue->size_of = LK_ARRAY(arena, int, (size_t)most + 1);
	if (!queue->size_of) return lk_oom(err);
	for (size_t i = 0; i < queue->list->count; i++) queue->size_of[queue->list->at[i].job.gpus] = 1;
	for (int gpus = 0; gpus <= most; gpus++) queue->size_count += queue->size_of[gpus];
	queue->sizes = LK_ARRAY(arena, int, (size_t)queue->size_count + 1);
	queue->waiting = LK_ARRAY(arena, job_heap, (size_t)queue->size_count + 1);
	queue->blocked = LK_ARRAY(arena, bool, (size_t)queue->size_count + 1);
	if (!queue->sizes || !queue->waiting || !queue->blocked) return lk_oom(err);
	for (int gpus = 0, at = 0; gpus <= most; gpus++) {
		if (!queue->size_of[gpus]) continue;
		queue->sizes[at] = gpus;
		queue->size_of[gpus] = at++;
	}
	return LK_OK;
}

/* Check that every job has room in the empty cluster; otherwise it would wait forever. */
static lk_status queue_check_room(struct queue *queue, lk_error *err) {
	for (size_t i = 0; i < queue->list->count; i++) {
		const lk_listed_job *job = &queue->list->at[i];
		int holding, size = queue->size_of[job->job.gpus];
		if (queue->blocked[size]) continue;
		queue->blocked[size] = true; /* checked */
		LK_TRY(lk_nodes_place(&queue->nodes, job->job.gpus, &holding, err));
		if (holding < 0)
			return lk_fail(err, LK_ERR_INPUT, job->where,
			               "job %.60s asks for %d %s of a cluster of %d; it would never start",
			               job->job.name, job->job.gpus, lk_noun(job->job.gpus, "GPU", "GPUs"),
			               queue->nodes.free);
		lk_nodes_release(&queue->nodes, holding);
	}
	return LK_OK;
}

static lk_status queue_prepare(struct queue *queue, const lk_places *places, lk_arena *arena,
                               lk_error *err) {
	size_t count = queue->list->count;
	LK_TRY(lk_nodes_make(places->sizes, places->count, arena, &queue->nodes, err));
	queue->priority = LK_ARRAY(arena, double, count);
	queue->end_s = LK_ARRAY(arena, double, count);
	queue->holding = LK_ARRAY(arena, int, count);
	if (!queue->priority || !queue->end_s || !queue->holding) return lk_oom(err);
	LK_TRY(queue_find_sizes(queue, arena, err));
	LK_TRY(queue_check_room(queue, err));
	LK_TRY(lk_history_new(queue->list, arena, &queue->history, err));
	queue->now_s = queue->list->at[0].job.submit_s;
	return queue->power ? lk_power_begin(queue->power, queue->now_s, err) : LK_OK;
}

lk_status lk_jobs_queue(const lk_places *places, const lk_job_list *list, const lk_policy *policy,
                        lk_power *power, lk_jobs_course *courses, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct queue queue = {.list = list, .policy = policy, .courses = courses, .power = power};
	lk_status status = queue_prepare(&queue, places, &arena, err);
	if (status == LK_OK) status = queue_run(&queue, err);
	for (int s = 0; queue.waiting && s < queue.size_count; s++) lk_vec_free(&queue.waiting[s]);
	lk_vec_free(&queue.running);
	lk_nodes_free(&queue.nodes);
	lk_arena_free(&arena);
	return status;
}
