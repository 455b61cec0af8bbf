/* explain_host.c: times of the host that keep a device idle for another reason than launches:
 * loading, preparing inputs, work that is done once, allocation by the driver; and the calls in
 * which it waits for the device.
 *
 * Names tell most (trace/capture/host_names.c). Three more kinds are told by what happens: the
 * first launch of a kernel loads its module, so its call takes far longer than any later one;
 * driver calls for memory are work done once, unless they come again in most steps, or give memory
 * back again and again where no steps are known; and a long operation without a call inside
 * computes on the host. */
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "base/check.h"
#include "base/sort.h"
#include "base/text.h"

/* A launch takes 2 to 50 us; the first one of a kernel, which loads it, 0.3 to 50 ms. */
static const int64_t SLOW_LAUNCH_NS = 200000;

/* From this length on, an operation of the host that launches nothing is work of its own. */
static const int64_t LONG_OPERATION_NS = 1000000;

enum { FEW_FREES = 3 };

/* A time of the host with a cause. */
struct host_time {
	int64_t start, end;
	uint32_t name, lane;
	unsigned work;     /* of lk_host_work; 0: a slow launch */
	uint32_t launched; /* name of the kernel of a slow launch */
	lk_host_cause cause;
};
struct host_times {
	LK_VEC(struct host_time) at;
};

/* Whether a long operation has nothing inside. Those that hand work to another thread, or wait for
 * the device in a way that the profiler does not see, compute nothing. */
static bool host_computes(const lk_capture *capture, uint32_t event) {
	static const char *const others[] = {"c10d",     "nccl",         "record_param_comms",
	                                     "copy",     "scalar_dense", "item",
	                                     "aten::to", "nonzero",      "wait"};
	if (capture->kind[event] != LK_EVENT_OP || capture->dur_ns[event] < LONG_OPERATION_NS)
		return false;
	const char *name = lk_capture_text(capture, capture->name[event]);
	if (!lk_begins_with(name, "aten::")) return false;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcasestr(name, others[i])) return false;
	const lk_lane *lane = &capture->lanes.at[capture->lane[event]];
	uint32_t low = lane->begin, high = lane->end;
	while (low < high) { /* the first that begins later */
		uint32_t middle = low + (high - low) / 2;
		if (capture->start_ns[capture->order[middle]] <= capture->start_ns[event]) low = middle + 1;
		else high = middle;
	}
	return low == lane->end ||
	       capture->start_ns[capture->order[low]] >= lk_event_end(capture, event);
}

static bool host_take(lk_rank_work *work, struct host_times *times, uint32_t event,
                      unsigned class) {
	const lk_capture *capture = work->capture;
	unsigned does = class / LK_NAME_HOST & (LK_NAME_OPTIMIZER / LK_NAME_HOST - 1);
	uint32_t launched = capture->launch[event];
	bool slow = capture->kind[event] == LK_EVENT_RUNTIME && launched != LK_NONE &&
	            capture->dur_ns[event] >= SLOW_LAUNCH_NS &&
	            capture->kind[launched] == LK_EVENT_KERNEL;
	if (!does && !slow && host_computes(capture, event)) does = LK_HOST_COMPUTES;
	if (does & LK_HOST_AWAITS) work->sync_calls += lk_in_windows(work, capture->start_ns[event]);
	if (!does && !slow) return true;
	if (!lk_push(&times->at)) return false;
	*lk_last(&times->at) = (struct host_time){.start = capture->start_ns[event],
	                                          .end = lk_event_end(capture, event),
	                                          .name = capture->name[event],
	                                          .lane = capture->lane[event],
	                                          .work = does,
	                                          .launched = slow ? capture->name[launched] : 0};
	return true;
}

/* Collect times with a cause, and calls that wait for the device, of threads that also launch or
 * annotate; the loader's own processes are not in the trace. */
static bool host_collect(lk_rank_work *work, struct host_times *times) {
	const lk_capture *capture = work->capture;
	for (uint32_t i = 0; i < capture->count; i++) {
		bool ours = capture->kind[i] == LK_EVENT_NOTE || capture->kind[i] == LK_EVENT_RUNTIME ||
		            capture->kind[i] == LK_EVENT_OP;
		if (!ours) continue;
		unsigned class = lk_name_class(work, capture->name[i]);
		if (((class & (LK_NAME_OPTIMIZER - LK_NAME_HOST)) ||
		     capture->dur_ns[i] >= SLOW_LAUNCH_NS) &&
		    !host_take(work, times, i, class))
			return false;
		if (!(class & LK_NAME_WAITS) || capture->kind[i] != LK_EVENT_RUNTIME) continue;
		if (!lk_push(&work->waits)) return false;
		*lk_last(&work->waits) = (lk_timed){(uint64_t)capture->start_ns[i], i};
	}
	return lk_timed_sort(work->waits.at, work->waits.count);
}

/* ---- causes ---- */

LK_ORDER_BY(host_by_lane, struct host_time, lane, start)

/* Extend each begin of a capture to its end on the same thread. */
static void host_join_captures(struct host_times *times) {
	struct host_time *begin = NULL;
	lk_sort(times->at.at, times->at.count, sizeof *times->at.at, host_by_lane);
	for (size_t i = 0; i < times->at.count; i++) {
		struct host_time *time = &times->at.at[i];
		if (time->work & LK_HOST_BEGINS_CAPTURE) begin = time;
		if (!(time->work & LK_HOST_ENDS_CAPTURE) || !begin || begin->lane != time->lane) continue;
		begin->end = time->end;
		begin = NULL;
	}
}

/* The start of the first launch of each kernel that was once slow to launch; to be freed. */
static int64_t *host_first_launches(const lk_capture *capture, const struct host_times *times) {
	int64_t *first = calloc(lk_intern_count(capture->names) + (size_t)1, sizeof *first);
	for (size_t i = 0; first && i < times->at.count; i++)
		if (times->at.at[i].launched) first[times->at.at[i].launched] = INT64_MAX;
	for (uint32_t i = 0; first && i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_KERNEL || capture->launch[i] == LK_NONE) continue;
		int64_t start = capture->start_ns[capture->launch[i]];
		if (start < first[capture->name[i]]) first[capture->name[i]] = start;
	}
	return first;
}

/* The analysed step that holds a moment; their count if none does. */
static size_t host_step_at(const lk_rank_work *work, int64_t moment) {
	size_t low = 0, high = work->steps.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (work->steps.at[middle].end_ns <= moment) low = middle + 1;
		else high = middle;
	}
	bool inside = low < work->steps.count && work->steps.at[low].start_ns <= moment;
	return inside ? low : work->steps.count;
}

/* Whether calls for memory come in most steps, or, where no steps are known, give it back often. */
static lk_host_cause host_memory_cause(const lk_rank_work *work, const struct host_times *times) {
	size_t frees = 0, steps = 0, all = work->steps.count;
	bool *holds = calloc(all + 1, sizeof *holds);
	if (!holds) return LK_HOST_SETS;
	for (size_t i = 0; i < times->at.count; i++) {
		const struct host_time *time = &times->at.at[i];
		if (!(time->work & LK_HOST_ALLOCATES)) continue;
		size_t step = host_step_at(work, time->start);
		frees += step < all && (time->work & LK_HOST_FREES);
		steps += step < all && !holds[step];
		holds[step] = true;
	}
	free(holds);
	bool always = all < 2 ? frees >= FEW_FREES : 2 * steps > all;
	return always ? LK_HOST_ALLOCATION : LK_HOST_ONE_OFF;
}

/* Set the causes, and drop times that have none. False: out of memory. */
static bool host_judge(const lk_rank_work *work, struct host_times *times) {
	size_t kept = 0;
	if (!times->at.count) return true;
	bool slow = false;
	for (size_t i = 0; i < times->at.count; i++) slow |= times->at.at[i].launched != 0;
	lk_host_cause memory = host_memory_cause(work, times);
	int64_t *first = slow ? host_first_launches(work->capture, times) : NULL;
	if (memory == LK_HOST_SETS || (slow && !first)) {
		free(first);
		return false;
	}
	host_join_captures(times);
	for (size_t i = 0; i < times->at.count; i++) {
		struct host_time time = times->at.at[i];
		if (time.work & LK_HOST_LOADS) time.cause = LK_HOST_LOADING;
		else if (time.work & (LK_HOST_ONCE | LK_HOST_BEGINS_CAPTURE)) time.cause = LK_HOST_ONE_OFF;
		else if (time.work & LK_HOST_ALLOCATES) time.cause = memory;
		else if (time.work & LK_HOST_SAVES) time.cause = LK_HOST_SAVING;
		else if (time.work & LK_HOST_COLLECTS) time.cause = LK_HOST_COLLECTING;
		else if (time.work & LK_HOST_PREPARES) time.cause = LK_HOST_PREPARING;
		else if (time.work & LK_HOST_COMPUTES) time.cause = LK_HOST_COMPUTING;
		else if (time.work & LK_HOST_AWAITS) time.cause = LK_HOST_AWAITING;
		else if (time.launched && first[time.launched] == time.start) time.cause = LK_HOST_ONE_OFF;
		else continue;
		times->at.at[kept++] = time;
	}
	times->at.count = kept;
	free(first);
	return true;
}

/* ---- sets ---- */

LK_ORDER_BY(host_by_name, struct host_time, cause, name)

/* Names with most time, summed over their events within the windows. */
static void host_find_places(lk_rank_work *work, struct host_times *times) {
	lk_sort(times->at.at, times->at.count, sizeof *times->at.at, host_by_name);
	for (size_t i = 0, from = 0; i < times->at.count; from = i) {
		const struct host_time *time = &times->at.at[from];
		lk_rank_places *places = &work->host_places[time->cause];
		int64_t ns = 0;
		for (; i < times->at.count && host_by_name(time, &times->at.at[i]) == 0; i++)
			ns += lk_times_between(&work->windows, times->at.at[i].start, times->at.at[i].end);
		if (ns <= places->ns[LK_PLACES - 1]) continue;
		int at = LK_PLACES - 1;
		for (; at > 0 && ns > places->ns[at - 1]; at--) {
			places->ns[at] = places->ns[at - 1];
			places->name[at] = places->name[at - 1];
		}
		places->ns[at] = ns;
		places->name[at] = time->name;
	}
}

static bool host_make_sets(lk_rank_work *work, const struct host_times *times) {
	lk_intervals taken = {0}, own = {0};
	bool good = true;
	for (size_t i = 0; good && i < times->at.count; i++)
		good = lk_intervals_add(&work->host[times->at.at[i].cause].set, times->at.at[i].start,
		                        times->at.at[i].end);
	for (int c = 0; good && c < LK_HOST_SETS; c++) {
		lk_intervals *set = &work->host[c].set;
		lk_intervals_sort(set);
		if (taken.count && set->count) {
			good = lk_intervals_minus(set, &taken, &own);
			lk_intervals whole = *set;
			*set = own;
			own = whole;
		}
		for (size_t i = 0; good && i < set->count; i++)
			good = lk_intervals_add(&taken, set->at[i].start, set->at[i].end);
		lk_intervals_sort(&taken);
		good = good && lk_times_index(&work->host[c]);
	}
	lk_vec_free(&taken);
	lk_vec_free(&own);
	return good;
}

lk_status lk_rank_host(lk_rank_work *work, lk_error *err) {
	struct host_times times = {0};
	bool good = host_collect(work, &times) && host_judge(work, &times);
	if (good) host_find_places(work, &times);
	good = good && host_make_sets(work, &times);
	lk_vec_free(&times.at);
	return good ? LK_OK : lk_oom(err);
}
