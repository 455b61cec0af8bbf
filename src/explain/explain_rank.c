/* explain_rank.c: where one rank's device time goes. Device events in order of start become unions
 * of intervals, one per class; everything else is algebra on these sets, so parts add up to the
 * whole by construction. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "base/check.h"
#include "system/parallel.h"

enum {
	FEW_EVENTS = 1 << 16 /* not worth another thread */
};

/* Free what only lk_rank_explain needs. */
static void free_sets(lk_rank_work *work) {
	lk_times *const sets[] = {&work->compute, &work->communication,  &work->memory,
	                          &work->exposed, &work->exposed_memory, &work->idle};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) lk_times_free(sets[i]);
	lk_vec_free(&work->waits);
	free(work->module);
	work->module = NULL;
}

void lk_rank_free(lk_rank_work *work) {
	free_sets(work);
	for (int c = 0; c < LK_HOST_SETS; c++) lk_times_free(&work->host[c]);
	lk_times_free(&work->windows);
	free(work->name_class);
	lk_vec_free(&work->steps);
	lk_vec_free(&work->device);
	lk_vec_free(&work->comms);
	lk_vec_free(&work->durations);
	lk_vec_free(&work->operations);
	lk_vec_free(&work->modules);
	lk_intern_free(work->module_paths);
	lk_vec_free(&work->step_rows);
	lk_vec_free(&work->idle_rows);
	lk_vec_free(&work->stretches);
	lk_vec_free(&work->queue_rows);
	memset(work, 0, sizeof *work);
}

/* Collective kernels are recognised by their arguments, else by their names. */
static bool rank_communicates(lk_rank_work *work, uint32_t event) {
	LK_ASSERT(event < work->capture->count);
	const lk_capture *capture = work->capture;
	if (capture->kind[event] != LK_EVENT_KERNEL) return false;
	return (lk_name_class(work, capture->name[event]) & LK_NAME_COMM) ||
	       lk_capture_comm(capture, event);
}

/* ---- events of the windows ---- */

static bool rank_collect(lk_rank_work *work, const lk_lane *lane, lk_timed_list *device) {
	const lk_capture *capture = work->capture;
	const lk_interval *first = work->windows.set.at, *last = lk_last(&work->windows.set);
	if (!lk_reserve(device, lane->end - lane->begin)) return false;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = capture->order[at];
		if (capture->start_ns[event] >= last->end) break;
		if (!lk_event_on_device(capture->kind[event])) continue;
		if (capture->start_ns[event] < first->start && lk_event_end(capture, event) <= first->start)
			continue;
		lk_timed_put(device, (uint64_t)capture->start_ns[event], event);
	}
	return true;
}

static lk_status collect_device(lk_rank_work *work, lk_error *err) {
	lk_timed_list device = {0};
	bool good = true;
	if (!work->windows.set.count) return LK_OK;
	for (size_t l = 0; good && l < work->capture->lanes.count; l++)
		if (work->capture->lanes.at[l].stream)
			good = rank_collect(work, &work->capture->lanes.at[l], &device);
	good = good && lk_timed_sort(device.at, device.count);
	return lk_timed_events(&device, &work->device) && good ? LK_OK : lk_oom(err);
}

/* ---- sets ---- */

struct unions {
	lk_intervals busy, compute, communication, memory;
};

static bool rank_gather(lk_rank_work *work, struct unions *unions) {
	const lk_capture *capture = work->capture;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		int64_t start = capture->start_ns[event], end = lk_event_end(capture, event);
		lk_intervals *set;
		if (capture->kind[event] != LK_EVENT_KERNEL) set = &unions->memory;
		else if (rank_communicates(work, event)) set = &unions->communication;
		else set = &unions->compute;
		if (!lk_times_append(set, start, end) || !lk_times_append(&unions->busy, start, end))
			return false;
		work->result.device_events += lk_in_windows(work, start);
	}
	return true;
}

static bool rank_within(lk_times *out, const lk_intervals *a, const lk_times *windows) {
	return lk_intervals_and(a, &windows->set, &out->set) && lk_times_index(out);
}

static bool without(lk_times *out, const lk_intervals *a, const lk_intervals *b) {
	return lk_intervals_minus(a, b, &out->set) && lk_times_index(out);
}

/* Make the sets; each union is freed after its last use. */
static bool make_sets(lk_rank_work *work, struct unions *unions) {
	lk_intervals bare = {0};
	if (!rank_gather(work, unions)) return false;
	bool good = without(&work->idle, &work->windows.set, &unions->busy);
	lk_vec_free(&unions->busy);
	good = good && rank_within(&work->compute, &unions->compute, &work->windows);
	lk_vec_free(&unions->compute);
	good = good && rank_within(&work->communication, &unions->communication, &work->windows) &&
	       rank_within(&work->memory, &unions->memory, &work->windows) &&
	       without(&work->exposed, &work->communication.set, &work->compute.set) &&
	       lk_intervals_minus(&work->memory.set, &work->compute.set, &bare) &&
	       without(&work->exposed_memory, &bare, &work->communication.set);
	lk_vec_free(&bare);
	return good;
}

static lk_status sets_of(lk_rank_work *work, lk_error *err) {
	struct unions u = {0};
	bool good = make_sets(work, &u);
	lk_vec_free(&u.busy);
	lk_vec_free(&u.compute);
	lk_vec_free(&u.communication);
	lk_vec_free(&u.memory);
	return good ? LK_OK : lk_oom(err);
}

/* ---- figures ---- */

/* Count copies to the device, and those of pageable memory. If copies overlap, the first one gets
 * the common time. */
static void rank_copies(lk_rank_work *work) {
	const lk_capture *capture = work->capture;
	int64_t claimed = INT64_MIN;
	for (size_t i = 0; i < work->device.count; i++) {
		uint32_t event = work->device.at[i];
		if (capture->kind[event] != LK_EVENT_MEMCPY && capture->kind[event] != LK_EVENT_MEMSET)
			continue;
		int64_t start = capture->start_ns[event], end = lk_event_end(capture, event);
		if (start < claimed) start = claimed;
		if (end > claimed) claimed = end;
		unsigned class = lk_name_class(work, capture->name[event]);
		if (!(class & (LK_NAME_TO_DEVICE | LK_NAME_PAGEABLE))) continue;
		int64_t exposed = lk_times_between(&work->exposed_memory, start, end);
		if (class & LK_NAME_PAGEABLE) work->result.pageable_exposed_ns += exposed;
		if (!(class & LK_NAME_TO_DEVICE)) continue;
		work->result.h2d_ns += lk_times_between(&work->windows, start, end);
		work->result.h2d_exposed_ns += exposed;
		if (class & LK_NAME_PINNED) work->result.pinned_exposed_ns += exposed;
		if (class & LK_NAME_PAGEABLE) work->result.pageable_h2d_ns += exposed;
	}
}

static void figures(lk_rank_work *work) {
	lk_explain_rank *rank = &work->result;
	rank->kernel_time_ns = lk_times_length(&work->windows);
	rank->compute_ns = lk_times_length(&work->compute);
	rank->communication_ns = lk_times_length(&work->communication);
	rank->memory_ns = lk_times_length(&work->memory);
	rank->exposed_communication_ns = lk_times_length(&work->exposed);
	rank->exposed_memory_ns = lk_times_length(&work->exposed_memory);
	rank->non_compute_ns = rank->exposed_communication_ns + rank->exposed_memory_ns;
	rank->idle_ns = lk_times_length(&work->idle);
	rank->overlap_ns = rank->communication_ns - rank->exposed_communication_ns;
	/* during the steps the device is idle, or computes, or something is exposed */
	LK_ASSERT(rank->compute_ns + rank->non_compute_ns + rank->idle_ns == rank->kernel_time_ns);
	LK_ASSERT(rank->overlap_ns >= 0);
	for (size_t i = 0; i < work->windows.set.count; i++)
		rank->data_loading_ns +=
			lk_times_between(&work->host[LK_HOST_LOADING], work->windows.set.at[i].start,
		                     work->windows.set.at[i].end);
	for (size_t i = 0; i < work->waits.count; i++) {
		uint32_t call = work->waits.at[i].item;
		int64_t inside = lk_times_between(&work->windows, work->capture->start_ns[call],
		                                  lk_event_end(work->capture, call));
		rank->sync_ns += inside;
		work->sync_calls += inside > 0;
	}
}

static lk_status step_rows(lk_rank_work *work, lk_error *err) {
	for (size_t i = 0; i < work->steps.count; i++) {
		const lk_capture_step *step = &work->steps.at[i];
		int64_t a = step->start_ns, b = step->end_ns;
		if (!lk_push(&work->step_rows)) return lk_oom(err);
		*lk_last(&work->step_rows) = (lk_explain_step){
			.rank = work->result.rank,
			.number = step->number,
			.start_ns = lk_common_ns(work->traces, work->index, a),
			.dur_ns = b - a,
			.compute_ns = lk_times_between(&work->compute, a, b),
			.exposed_communication_ns = lk_times_between(&work->exposed, a, b),
			.exposed_memory_ns = lk_times_between(&work->exposed_memory, a, b),
			.idle_ns = lk_times_between(&work->idle, a, b),
			.data_loading_ns = lk_times_between(&work->host[LK_HOST_LOADING], a, b),
		};
	}
	work->result.steps = (int)work->steps.count;
	return LK_OK;
}

/* Two independent parts; only the first classifies names. */
static lk_status rank_part(void *context, size_t part, lk_error *err) {
	lk_rank_work *work = context;
	if (part) {
		LK_TRY(lk_rank_launches(work, err));
		return lk_rank_durations(work, err);
	}
	LK_TRY(lk_rank_gaps(work, err));
	return lk_rank_comms(work, err);
}

lk_status lk_rank_explain(lk_rank_work *work, const lk_traces *traces, const lk_arrival *arrival,
                          uint32_t index, const lk_explain_request *request, lk_error *err) {
	const lk_capture *capture = traces->capture[index];
	*work = (lk_rank_work){
		.traces = traces,
		.arrival = arrival,
		.index = index,
		.capture = capture,
		.name_class = calloc(lk_intern_count(capture->names) + (size_t)1, sizeof(uint32_t))};
	if (!work->name_class) return lk_oom(err);
	work->result = (lk_explain_rank){.rank = capture->rank < 0 ? (int)index : capture->rank,
	                                 .path = capture->path,
	                                 .format = capture->format,
	                                 .device = lk_capture_text(capture, capture->device),
	                                 .events = capture->count};
	LK_TRY(lk_rank_select(work, request->steps, err));
	LK_TRY(collect_device(work, err));
	LK_TRY(lk_rank_host(work, err));
	LK_TRY(sets_of(work, err));
	figures(work);
	rank_copies(work);
	LK_TRY(step_rows(work, err));
	LK_TRY(lk_parallel(2, capture->count < FEW_EVENTS ? 1 : 0, rank_part, work, err));
	LK_TRY(lk_rank_modules(work, err));
	if (request->operations) LK_TRY(lk_rank_operations(work, err));
	free_sets(work);
	return LK_OK;
}
