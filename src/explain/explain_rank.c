/* explain_rank.c: where the time of one rank's device goes. Device events in order of start become unions of intervals,
 * one per class; everything else is the algebra of these sets, so that parts add up to the whole by construction. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"

void lk_rank_free(lk_rank_work *w) {
	lk_times *const sets[] = {&w->windows, &w->busy, &w->compute, &w->communication, &w->memory, &w->exposed,
	                          &w->exposed_memory, &w->idle, &w->loading};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) lk_times_free(sets[i]);
	free(w->name_class);
	lk_vec_free(&w->steps);
	lk_vec_free(&w->device);
	lk_vec_free(&w->waits);
	lk_vec_free(&w->comms);
	lk_vec_free(&w->durations);
	lk_vec_free(&w->step_rows);
	lk_vec_free(&w->idle_rows);
	lk_vec_free(&w->stretches);
	lk_vec_free(&w->queue_rows);
	memset(w, 0, sizeof *w);
}

/* Collective kernels are told by their arguments, or else by their names. */
static bool communicates(lk_rank_work *w, uint32_t event) {
	const lk_capture *c = w->c;
	if (c->kind[event] != LK_EVENT_KERNEL) return false;
	return (lk_name_class(w, c->name[event]) & LK_NAME_COMM) || lk_capture_comm(c, event);
}

/* ---- events of the windows ---- */

static bool collect(lk_rank_work *w, const lk_lane *lane) {
	const lk_capture *c = w->c;
	const lk_interval *first = w->windows.set.at, *last = lk_last(&w->windows.set);
	if (!lk_reserve(&w->device, lane->end - lane->begin)) return false;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = c->order[at];
		if (c->start_ns[event] >= last->end) break;
		if (!lk_event_on_device(c->kind[event])) continue;
		if (c->start_ns[event] < first->start && lk_event_end(c, event) <= first->start) continue;
		lk_timed_put(&w->device, (uint64_t)c->start_ns[event], event);
	}
	return true;
}

static lk_status collect_all(lk_rank_work *w, lk_error *err) {
	if (!w->windows.set.count) return LK_OK;
	for (size_t l = 0; l < w->c->lanes.count; l++)
		if (w->c->lanes.at[l].stream && !collect(w, &w->c->lanes.at[l])) return lk_oom(err);
	return lk_timed_sort(w->device.at, w->device.count) ? LK_OK : lk_oom(err);
}

/* The host's side: data loading, and calls that wait for the device. Of threads that also launch or annotate; the
 * loader's own processes are not in the trace. */
static lk_status collect_host(lk_rank_work *w, lk_error *err) {
	const lk_capture *c = w->c;
	for (uint32_t i = 0; i < c->count; i++) {
		bool ours = c->kind[i] == LK_EVENT_NOTE || c->kind[i] == LK_EVENT_RUNTIME || c->kind[i] == LK_EVENT_OP;
		if (!ours) continue;
		unsigned class = lk_name_class(w, c->name[i]);
		if ((class & LK_NAME_LOADS) && !lk_intervals_add(&w->loading.set, c->start_ns[i], lk_event_end(c, i)))
			return lk_oom(err);
		if (!(class & LK_NAME_WAITS) || c->kind[i] != LK_EVENT_RUNTIME) continue;
		if (!lk_push(&w->waits)) return lk_oom(err);
		*lk_last(&w->waits) = (lk_timed){(uint64_t)c->start_ns[i], i};
	}
	if (!lk_timed_sort(w->waits.at, w->waits.count)) return lk_oom(err);
	lk_intervals_sort(&w->loading.set);
	return lk_times_index(&w->loading) ? LK_OK : lk_oom(err);
}

/* ---- sets ---- */

struct unions {
	lk_intervals busy, compute, communication, memory;
};

static bool gather(lk_rank_work *w, struct unions *u) {
	const lk_capture *c = w->c;
	for (size_t i = 0; i < w->device.count; i++) {
		uint32_t event = w->device.at[i].item;
		int64_t start = c->start_ns[event], end = lk_event_end(c, event);
		lk_intervals *set = c->kind[event] != LK_EVENT_KERNEL ? &u->memory
		                    : communicates(w, event)         ? &u->communication
		                                                     : &u->compute;
		if (!lk_times_append(set, start, end) || !lk_times_append(&u->busy, start, end)) return false;
		w->result.device_events += lk_in_windows(w, start);
	}
	return true;
}

static bool within(lk_times *out, const lk_intervals *a, const lk_times *windows) {
	return lk_intervals_and(a, &windows->set, &out->set) && lk_times_index(out);
}

static bool without(lk_times *out, const lk_intervals *a, const lk_times *b) {
	return lk_intervals_minus(a, &b->set, &out->set) && lk_times_index(out);
}

static bool make_sets(lk_rank_work *w, struct unions *u) {
	lk_intervals bare = {0};
	bool good =
		gather(w, u) && within(&w->busy, &u->busy, &w->windows) && within(&w->compute, &u->compute, &w->windows) &&
		within(&w->communication, &u->communication, &w->windows) && within(&w->memory, &u->memory, &w->windows) &&
		without(&w->idle, &w->windows.set, &w->busy) && without(&w->exposed, &w->communication.set, &w->compute) &&
		lk_intervals_minus(&w->memory.set, &w->compute.set, &bare) &&
		without(&w->exposed_memory, &bare, &w->communication);
	lk_vec_free(&bare);
	return good;
}

static lk_status sets_of(lk_rank_work *w, lk_error *err) {
	struct unions u = {0};
	bool good = make_sets(w, &u);
	lk_vec_free(&u.busy);
	lk_vec_free(&u.compute);
	lk_vec_free(&u.communication);
	lk_vec_free(&u.memory);
	return good ? LK_OK : lk_oom(err);
}

/* ---- figures ---- */

/* Copies to the device. Where copies overlap, the one that began first has the time. */
static void copies(lk_rank_work *w) {
	const lk_capture *c = w->c;
	int64_t claimed = INT64_MIN;
	for (size_t i = 0; i < w->device.count; i++) {
		uint32_t event = w->device.at[i].item;
		if (c->kind[event] != LK_EVENT_MEMCPY && c->kind[event] != LK_EVENT_MEMSET) continue;
		int64_t start = c->start_ns[event], end = lk_event_end(c, event);
		if (start < claimed) start = claimed;
		if (end > claimed) claimed = end;
		if (!(lk_name_class(w, c->name[event]) & LK_NAME_TO_DEVICE)) continue;
		w->result.h2d_ns += lk_times_between(&w->windows, start, end);
		w->result.h2d_exposed_ns += lk_times_between(&w->exposed_memory, start, end);
	}
}

static void figures(lk_rank_work *w) {
	lk_explain_rank *r = &w->result;
	r->kernel_time_ns = lk_times_length(&w->windows);
	r->compute_ns = lk_times_length(&w->compute);
	r->communication_ns = lk_times_length(&w->communication);
	r->memory_ns = lk_times_length(&w->memory);
	r->exposed_communication_ns = lk_times_length(&w->exposed);
	r->exposed_memory_ns = lk_times_length(&w->exposed_memory);
	r->non_compute_ns = r->exposed_communication_ns + r->exposed_memory_ns;
	r->idle_ns = lk_times_length(&w->idle);
	r->overlap_ns = r->communication_ns - r->exposed_communication_ns;
	for (size_t i = 0; i < w->windows.set.count; i++)
		r->data_loading_ns += lk_times_between(&w->loading, w->windows.set.at[i].start, w->windows.set.at[i].end);
	for (size_t i = 0; i < w->waits.count; i++) {
		uint32_t call = w->waits.at[i].item;
		int64_t inside = lk_times_between(&w->windows, w->c->start_ns[call], lk_event_end(w->c, call));
		r->sync_ns += inside;
		w->sync_calls += inside > 0;
	}
}

static lk_status step_rows(lk_rank_work *w, lk_error *err) {
	for (size_t i = 0; i < w->steps.count; i++) {
		const lk_capture_step *s = &w->steps.at[i];
		int64_t a = s->start_ns, b = s->end_ns;
		if (!lk_push(&w->step_rows)) return lk_oom(err);
		*lk_last(&w->step_rows) = (lk_explain_step){
			.rank = w->result.rank,
			.number = s->number,
			.start_ns = lk_common_ns(w->traces, w->index, a),
			.dur_ns = b - a,
			.compute_ns = lk_times_between(&w->compute, a, b),
			.exposed_communication_ns = lk_times_between(&w->exposed, a, b),
			.exposed_memory_ns = lk_times_between(&w->exposed_memory, a, b),
			.idle_ns = lk_times_between(&w->idle, a, b),
			.data_loading_ns = lk_times_between(&w->loading, a, b),
		};
	}
	w->result.steps = (int)w->steps.count;
	return LK_OK;
}

lk_status lk_rank_explain(lk_rank_work *w, const lk_traces *traces, uint32_t index, const lk_explain_request *request,
                          lk_error *err) {
	const lk_capture *c = traces->capture[index];
	*w = (lk_rank_work){
		.traces = traces, .index = index, .c = c, .name_class = calloc(lk_intern_count(c->names) + 1, 1)};
	if (!w->name_class) return lk_oom(err);
	w->result = (lk_explain_rank){.rank = c->rank < 0 ? (int)index : c->rank, .path = c->path, .format = c->format,
	                              .device = lk_capture_text(c, c->device), .events = c->count};
	LK_TRY(lk_rank_select(w, request->steps, err));
	LK_TRY(collect_all(w, err));
	LK_TRY(collect_host(w, err));
	LK_TRY(sets_of(w, err));
	figures(w);
	copies(w);
	LK_TRY(step_rows(w, err));
	LK_TRY(lk_rank_gaps(w, err));
	LK_TRY(lk_rank_launches(w, err));
	LK_TRY(lk_rank_comms(w, err));
	return lk_rank_durations(w, err);
}
