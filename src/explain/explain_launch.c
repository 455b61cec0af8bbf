/* explain_launch.c: how far the host is ahead of the device: queues of streams, and costs of
 * launches. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

/* Launches of a stream that CUDA queues before a launch call waits (HTA's documentation of queue
 * lengths). */
enum { QUEUE_FULL = 1024 };

/* Time that the queue had each length; the last bin is a full queue. */
struct queue {
	int64_t time[QUEUE_FULL + 1];
	int64_t length, min, max, since;
	bool begun;
};

static void launch_spend(const lk_rank_work *work, struct queue *queue, int64_t moment) {
	if (queue->begun) {
		int64_t inside = lk_times_between(&work->windows, queue->since, moment);
		if (inside > 0) {
			queue->time[queue->length < QUEUE_FULL ? queue->length : QUEUE_FULL] += inside;
			if (queue->length < queue->min) queue->min = queue->length;
			if (queue->length > queue->max) queue->max = queue->length;
		}
	}
	queue->begun = true;
	queue->since = moment;
}

static int64_t at_share(const struct queue *queue, int64_t span, double share) {
	double want = share * (double)span, sum = 0;
	for (int i = 0; i <= QUEUE_FULL; i++) {
		sum += (double)queue->time[i];
		if (sum >= want && sum > 0) return i;
	}
	return 0;
}

static lk_explain_queue launch_summary(const struct queue *queue) {
	lk_explain_queue row = {.min = queue->min == INT64_MAX ? 0 : queue->min,
	                        .max = queue->max,
	                        .full_ns = queue->time[QUEUE_FULL]};
	double sum = 0;
	for (int i = 0; i <= QUEUE_FULL; i++) {
		row.span_ns += queue->time[i];
		sum += (double)queue->time[i] * i;
	}
	row.mean = row.span_ns ? sum / (double)row.span_ns : 0;
	row.median = (double)at_share(queue, row.span_ns, 0.5);
	row.p95 = (double)at_share(queue, row.span_ns, 0.95);
	return row;
}

/* Merge launches (+1) and kernel starts (-1) of a stream by time. */
static void launch_walk(const lk_rank_work *work, const lk_timed *launch, const lk_timed *begin,
                        size_t count, struct queue *queue) {
	for (size_t up = 0, down = 0; down < count;) {
		bool launched = up < count && launch[up].key <= begin[down].key;
		launch_spend(work, queue, (int64_t)(launched ? launch[up].key : begin[down].key));
		queue->length += launched ? 1 : -1;
		up += launched;
		down += !launched;
	}
}

/* Collect the work of a stream whose launch is known, and its launches. */
static lk_status launched_work(const lk_rank_work *work, const lk_lane *lane,
                               lk_timed_list *launches, lk_timed_list *begins, lk_error *err) {
	const lk_capture *capture = work->capture;
	launches->count = begins->count = 0;
	if (!lk_reserve(launches, lane->end - lane->begin) ||
	    !lk_reserve(begins, lane->end - lane->begin))
		return lk_oom(err);
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = capture->order[at], call = capture->launch[event];
		if (!lk_event_on_device(capture->kind[event]) || call == LK_NONE) continue;
		/* Clocks of host and device may disagree slightly: nothing begins before its launch. */
		int64_t begin = capture->start_ns[event] > capture->start_ns[call]
		                    ? capture->start_ns[event]
		                    : capture->start_ns[call];
		lk_timed_put(launches, (uint64_t)capture->start_ns[call], call);
		lk_timed_put(begins, (uint64_t)begin, event);
	}
	bool sorted =
		lk_timed_sort(launches->at, launches->count) && lk_timed_sort(begins->at, begins->count);
	return sorted ? LK_OK : lk_oom(err);
}

static lk_status stream_queue(lk_rank_work *work, const lk_lane *lane, lk_timed_list *launches,
                              lk_timed_list *begins, lk_error *err) {
	LK_TRY(launched_work(work, lane, launches, begins, err));
	if (!begins->count) return LK_OK;
	struct queue *queue = calloc(1, sizeof *queue);
	if (!queue) return lk_oom(err);
	queue->min = INT64_MAX;
	launch_walk(work, launches->at, begins->at, begins->count, queue);
	lk_explain_queue row = launch_summary(queue);
	free(queue);
	row.rank = work->result.rank;
	row.stream = lane->thread;
	for (size_t i = 0; i < launches->count; i++)
		row.launches += lk_in_windows(work, (int64_t)launches->at[i].key);
	if (!row.launches && !row.span_ns) return LK_OK;
	if (!lk_push(&work->queue_rows)) return lk_oom(err);
	*lk_last(&work->queue_rows) = row;
	return LK_OK;
}

static lk_status queues(lk_rank_work *work, lk_error *err) {
	lk_timed_list launches = {0}, begins = {0};
	lk_status status = LK_OK;
	for (size_t l = 0; l < work->capture->lanes.count && status == LK_OK; l++)
		if (work->capture->lanes.at[l].stream)
			status = stream_queue(work, &work->capture->lanes.at[l], &launches, &begins, err);
	lk_vec_free(&launches);
	lk_vec_free(&begins);
	return status;
}

/* ---- costs of launches ---- */

/* Measures of a launch and its work. */
typedef enum cost {
	CALL_TAKES,
	WORK_TAKES,
	DELAY, /* from the call's return to the work's start; negative if it began earlier */
} cost;

static int64_t cost_of(const lk_capture *capture, uint32_t event, cost which) {
	uint32_t call = capture->launch[event];
	if (which == CALL_TAKES) return capture->dur_ns[call];
	if (which == WORK_TAKES) return capture->dur_ns[event];
	int64_t delay = capture->start_ns[event] - lk_event_end(capture, call);
	return delay > 0 ? delay : 0;
}

/* A graph's launch counts only for its first kernel. */
static bool own_launch(const lk_rank_work *work, uint32_t event) {
	const lk_capture *capture = work->capture;
	uint32_t call = capture->launch[event];
	return call != LK_NONE && capture->launch[call] == event &&
	       lk_in_windows(work, capture->start_ns[event]);
}

static bool launch_costs(const lk_rank_work *work, cost which, lk_timed_list *list,
                         lk_explain_stats *out) {
	list->count = 0;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		if (own_launch(work, event))
			lk_timed_put(list, (uint64_t)cost_of(work->capture, event, which), event);
	}
	if (!lk_timed_sort(list->at, list->count)) return false;
	*out = lk_stats_of(list->at, list->count);
	return true;
}

lk_status lk_rank_launches(lk_rank_work *work, lk_error *err) {
	const lk_capture *capture = work->capture;
	lk_explain_launch *launch = &work->launch;
	lk_timed_list list = {0};
	LK_TRY(queues(work, err));
	launch->rank = work->result.rank;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		launch->short_kernels += own_launch(work, event) &&
		                         capture->dur_ns[event] < capture->dur_ns[capture->launch[event]];
	}
	bool good = lk_reserve(&list, work->device.count) &&
	            launch_costs(work, CALL_TAKES, &list, &launch->cpu_duration) &&
	            launch_costs(work, WORK_TAKES, &list, &launch->gpu_duration) &&
	            launch_costs(work, DELAY, &list, &launch->launch_delay);
	lk_vec_free(&list);
	return good ? LK_OK : lk_oom(err);
}
