/* explain_gaps.c: why the device is idle, in two views: gaps of each stream, as HTA classifies
 * them, and gaps of the whole device with the host's activity.
 *
 * A gap of the device ends with some kernel. If its launch call began before the gap did, the host
 * did not cause it, once that call has returned. Otherwise: times of the host with a cause of their
 * own (explain_host.c) have that; of the rest, if the host was waiting for the device when the gap
 * began, it let the device run dry; else it was late with the next launch. */
#include <stdlib.h>

#include "explain/explain.h"
#include "base/check.h"

/* The normal gap between two kernels of a stream. HTA's consecutive_kernel_delay is 30, documented
 * as nanoseconds; it is compared with Kineto's times, which are microseconds. */
static const int64_t KERNEL_WAIT_NS = 30000;

/* ---- gaps of streams ---- */

static void gaps_classify(lk_rank_work *work, lk_explain_idle *row, int64_t begin, uint32_t next) {
	const lk_capture *capture = work->capture;
	int64_t gap = lk_times_between(&work->windows, begin, capture->start_ns[next]);
	if (gap <= 0) return;
	uint32_t launch = capture->launch[next];
	row->gaps++;
	row->idle_ns += gap;
	if (launch != LK_NONE && capture->start_ns[launch] > begin) row->host_wait_ns += gap;
	else if (capture->start_ns[next] - begin < KERNEL_WAIT_NS) row->kernel_wait_ns += gap;
	else row->other_ns += gap;
}

static lk_status stream_gaps(lk_rank_work *work, const lk_lane *lane, lk_error *err) {
	const lk_capture *capture = work->capture;
	lk_explain_idle row = {.rank = work->result.rank, .stream = lane->thread};
	int64_t busy = INT64_MIN;
	uint32_t seen = 0;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = capture->order[at];
		if (!lk_event_on_device(capture->kind[event])) continue;
		seen += lk_in_windows(work, capture->start_ns[event]);
		if (busy != INT64_MIN) gaps_classify(work, &row, busy, event);
		if (lk_event_end(capture, event) > busy) busy = lk_event_end(capture, event);
	}
	if (!seen) return LK_OK;
	if (!lk_push(&work->idle_rows)) return lk_oom(err);
	*lk_last(&work->idle_rows) = row;
	return LK_OK;
}

/* ---- gaps of the device ---- */

/* Time by name: of annotations and of operations. */
struct blame {
	int64_t *note, *op;
	uint64_t gaps;
};

static void blame_add(lk_rank_work *work, struct blame *blame, uint32_t call, int64_t ns) {
	uint32_t note, op;
	lk_rank_place(work, call, &note, &op);
	blame->gaps++;
	if (note) blame->note[note] += ns;
	blame->op[op] += ns;
}

static lk_rank_places worst_places(const int64_t *ns, size_t names) {
	lk_rank_places out = {0};
	for (size_t name = 1; name < names; name++) {
		if (ns[name] <= out.ns[LK_PLACES - 1]) continue;
		int at = LK_PLACES - 1;
		for (; at > 0 && ns[name] > out.ns[at - 1]; at--) {
			out.name[at] = out.name[at - 1];
			out.ns[at] = out.ns[at - 1];
		}
		out.name[at] = (uint32_t)name;
		out.ns[at] = ns[name];
	}
	return out;
}

static lk_rank_blame gaps_summary(const struct blame *blame, size_t names) {
	return (lk_rank_blame){blame->gaps, worst_places(blame->note, names),
	                       worst_places(blame->op, names)};
}

/* The host's wait at a moment; moments ascend. Waits do not nest, but each thread may have one: the
 * longest counts. */
struct waiting {
	size_t next;
	uint32_t call;
	int64_t end;
};

static uint32_t waiting_at(const lk_rank_work *work, struct waiting *at, int64_t moment) {
	for (; at->next < work->waits.count; at->next++) {
		uint32_t call = work->waits.at[at->next].item;
		if (work->capture->start_ns[call] >= moment) break;
		if (lk_event_end(work->capture, call) > at->end) {
			at->call = call;
			at->end = lk_event_end(work->capture, call);
		}
	}
	return at->call != LK_NONE && at->end >= moment ? at->call : LK_NONE;
}

/* Until when the host caused a gap: to its end if the work that ends it was launched in it or none
 * ends it, to the return of its launch call if that was under way when the gap began, else not. */
static int64_t gaps_host_until(const lk_capture *capture, const lk_interval *gap, uint32_t launch,
                               bool ended) {
	if (launch == LK_NONE) return ended ? gap->start : gap->end;
	if (capture->start_ns[launch] > gap->start) return gap->end;
	return lk_sooner(gap->end, lk_later(gap->start, lk_event_end(capture, launch)));
}

/* Whether device work has this name for the first time. */
static bool gaps_is_new(lk_rank_work *work, uint32_t event) {
	return event != LK_NONE && !(work->name_class[work->capture->name[event]] & LK_NAME_SEEN);
}

/* The time in a gap, up to the launch that ends it, in which the host waited for results in the
 * framework. If it still does when another thread launches, that thread was late. */
static int64_t gaps_awaited(const lk_rank_work *work, const lk_interval *gap, int64_t until,
                            uint32_t launch) {
	const lk_times *times = &work->host[LK_HOST_AWAITING];
	int64_t end = launch == LK_NONE ? until : lk_sooner(until, work->capture->start_ns[launch]);
	size_t low = 0, high = times->set.count;
	while (low < high) { /* the first wait that ends after the launch began */
		size_t middle = low + (high - low) / 2;
		if (times->set.at[middle].end <= end) low = middle + 1;
		else high = middle;
	}
	if (low < times->set.count) end = lk_sooner(end, times->set.at[low].start);
	return lk_times_between(times, gap->start, end);
}

/* ---- what a late host did ---- */

/* From this length and share of the analysed time on, a gap is more than a launch. */
static const int64_t LONG_GAP_NS = 1000000;
enum { LONG_GAP_PART = 50 };

/* The first event of a lane, in its order, that begins at `time` or later. */
static uint32_t gaps_lane_from(const lk_capture *capture, const lk_lane *lane, int64_t time) {
	uint32_t low = lane->begin, high = lane->end;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (capture->start_ns[capture->order[middle]] < time) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* The time of a gap in which the thread that ends it was in no operation and no call. */
static int64_t gaps_outside(const lk_capture *capture, const lk_interval *gap, uint32_t call) {
	const lk_lane *lane = &capture->lanes.at[capture->lane[call]];
	int64_t covered = 0, since = gap->start, end = lk_sooner(gap->end, capture->start_ns[call]);
	uint32_t at = gaps_lane_from(capture, lane, gap->start);
	/* what was open when the gap began encloses the event before */
	uint32_t open = at > lane->begin ? capture->order[at - 1] : LK_NONE;
	for (; open != LK_NONE; open = capture->parent[open])
		if (capture->kind[open] != LK_EVENT_NOTE)
			since = lk_later(since, lk_sooner(end, lk_event_end(capture, open)));
	covered += since - gap->start;
	for (; at < lane->end && capture->start_ns[capture->order[at]] < end; at++) {
		uint32_t event = capture->order[at];
		if (capture->kind[event] == LK_EVENT_NOTE) continue;
		int64_t from = lk_later(since, capture->start_ns[event]),
				to = lk_sooner(end, lk_event_end(capture, event));
		if (to <= from) continue;
		covered += to - from;
		since = to;
	}
	return lk_later(0, end - gap->start - covered);
}

static bool gaps_in_optimizer(lk_rank_work *work, uint32_t call) {
	for (uint32_t e = call; e != LK_NONE; e = work->capture->parent[e])
		if (lk_name_class(work, work->capture->name[e]) & LK_NAME_OPTIMIZER) return true;
	return false;
}

/* Of the time `late` of a gap in which the host was late with `call`. */
static void gaps_look_at_host(lk_rank_work *work, const lk_interval *gap, uint32_t call,
                              int64_t late) {
	lk_explain_rank *rank = &work->result;
	int64_t least = lk_later(LONG_GAP_NS, lk_times_length(&work->windows) / LONG_GAP_PART);
	int64_t outside = late >= least ? gaps_outside(work->capture, gap, call) : 0;
	if (2 * outside > late) rank->idle_outside_ns += lk_sooner(outside, late);
	else if (gaps_in_optimizer(work, call)) rank->idle_optimizer_ns += late;
}

/* Assign a gap to its causes. `next` is the work that ends it, `wait` the call in which the host
 * waited when it began; LK_NONE. */
static bool explain_gap(lk_rank_work *work, const lk_interval *gap, uint32_t next, uint32_t wait,
                        struct blame *late, struct blame *sync) {
	lk_explain_rank *rank = &work->result;
	uint32_t launch = next == LK_NONE ? LK_NONE : work->capture->launch[next];
	int64_t until = gaps_host_until(work->capture, gap, launch, next != LK_NONE);
	int64_t rest = until - gap->start, spent[LK_HOST_CAUSES];
	for (int c = 0; c < LK_HOST_CAUSES; c++)
		rest -= spent[c] = lk_times_between(&work->host[c], gap->start, until);
	LK_ASSERT(gap->start < gap->end && rest >= 0);
	/* A library that begins a kernel for the first time does more than load it. */
	if (spent[LK_HOST_ONE_OFF] > 0 && !work->annotated && gaps_is_new(work, next)) {
		spent[LK_HOST_ONE_OFF] += rest;
		rest = 0;
	}
	rank->idle_other_ns += gap->end - until;
	for (int c = 0; c < LK_HOST_CAUSES; c++) {
		*lk_idle_host(rank, (lk_host_cause)c) += spent[c];
		if (!lk_stretch_add(work, LK_STRETCH_HOST + c, gap, spent[c], LK_NONE)) return false;
	}
	if (!rest) return true;
	int64_t awaited = lk_sooner(rest, gaps_awaited(work, gap, until, launch));
	rank->idle_sync_ns += awaited;
	rest -= awaited;
	if (!lk_stretch_add(work, LK_STRETCH_SYNC, gap, awaited, LK_NONE)) return false;
	if (!rest) return true;
	bool waited = wait != LK_NONE;
	*(waited ? &rank->idle_sync_ns : &rank->idle_host_ns) += rest;
	uint32_t call = waited ? wait : launch;
	if (call != LK_NONE) blame_add(work, waited ? sync : late, call, rest);
	if (call != LK_NONE && !waited) gaps_look_at_host(work, gap, call, rest);
	if (waited && awaited) return true; /* one stretch holds a gap once */
	return lk_stretch_add(work, waited ? LK_STRETCH_SYNC : LK_STRETCH_LAUNCH, gap, rest, call);
}

static bool gaps_device_gaps(lk_rank_work *work, struct blame *late, struct blame *sync) {
	struct waiting at = {.call = LK_NONE, .end = INT64_MIN};
	size_t next = 0;
	for (size_t g = 0; g < work->idle.set.count; g++) {
		const lk_interval *gap = &work->idle.set.at[g];
		for (;
		     next < work->device.count && work->capture->start_ns[work->device.at[next]] < gap->end;
		     next++)
			work->name_class[work->capture->name[work->device.at[next]]] |= LK_NAME_SEEN;
		uint32_t event = next < work->device.count ? work->device.at[next] : LK_NONE;
		if (!explain_gap(work, gap, event, waiting_at(work, &at, gap->start), late, sync))
			return false;
	}
	return lk_stretches_end(work);
}

lk_status lk_rank_gaps(lk_rank_work *work, lk_error *err) {
	for (size_t l = 0; l < work->capture->lanes.count; l++)
		if (work->capture->lanes.at[l].stream)
			LK_TRY(stream_gaps(work, &work->capture->lanes.at[l], err));
	size_t names = (size_t)lk_intern_count(work->capture->names) + 1;
	int64_t *counters = calloc(names * 4, sizeof *counters);
	if (!counters) return lk_oom(err);
	struct blame late = {counters, counters + names, 0},
				 sync = {counters + 2 * names, counters + 3 * names, 0};
	bool good = true;
	if (work->device.count) good = gaps_device_gaps(work, &late, &sync);
	else work->result.idle_other_ns = work->result.idle_ns;
	/* every idle nanosecond has one cause */
	LK_ASSERT(!good || lk_idle_sum(&work->result) == work->result.idle_ns);
	work->late = gaps_summary(&late, names);
	work->sync = gaps_summary(&sync, names);
	free(counters);
	return good ? LK_OK : lk_oom(err);
}
