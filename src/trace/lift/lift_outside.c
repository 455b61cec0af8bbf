/* lift_outside.c: device work of a stretch that none of its runs launches. It was launched before
 * and is still running (carried), or its call is missing, is inside another call, or is on a thread
 * without a stream: such work is released at its measured start.
 *
 * A stream runs in the order of launches, so work without a known call was launched before
 * everything that ran after it on its stream:
 *
 *     launch_i = time of the call; else min(start_i, launch_j of all j that ran later)
 *
 * Work becomes operations in this order; work launched before the stretch is carried. */
#include <stdlib.h>

#include "base/sort.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

static lk_status outside_add(lk_lifting *lifting, lk_run_kind kind, uint32_t event,
                             int64_t launch) {
	int64_t start = lifting->capture->start_ns[event];
	if (!lk_push(&lifting->runs)) return lk_oom(lifting->err);
	*lk_last(&lifting->runs) = (lk_run){.order_ns = launch,
	                                    .start_ns = start,
	                                    .end_ns = start,
	                                    .op = LK_NONE,
	                                    .after = LK_NONE,
	                                    .event = event,
	                                    .kind = (uint8_t)kind};
	return LK_OK;
}

static bool outside_within(const lk_lifting *lifting, int64_t time) {
	return time >= lifting->out->from_ns && time < lifting->out->to_ns;
}

static lk_status outside_add_lane(lk_lifting *lifting, const lk_lane *lane, const bool *called) {
	const lk_capture *capture = lifting->capture;
	int64_t later_ns = INT64_MAX; /* the earliest launch of later work */
	for (uint32_t at = lane->end; at-- > lane->begin;) {
		uint32_t event = capture->order[at], call = capture->launch[event];
		if (!lk_event_on_device(capture->kind[event])) continue;
		int64_t start = capture->start_ns[event],
				time = call == LK_NONE ? start : capture->start_ns[call];
		bool known = call != LK_NONE && (called[call] || !outside_within(lifting, time));
		int64_t launch = time;
		if (!known) launch = start < later_ns ? start : later_ns - 1;
		if (launch < later_ns) later_ns = launch;
		if (launch < lifting->out->from_ns) {
			if (lk_event_end(capture, event) > lifting->out->from_ns)
				LK_TRY(outside_add(lifting, LK_RUN_CARRIED, event, launch));
		} else if (!known && outside_within(lifting, time)) {
			LK_TRY(outside_add(lifting, LK_RUN_RELEASE, event, launch));
		}
	}
	return LK_OK;
}

LK_ORDER_BY(outside_by_start, lk_run, start_ns, event)

/* Put releases in order, as on a thread. */
static void outside_chain(lk_run *runs, size_t count) {
	int64_t later_ns = INT64_MAX;
	for (size_t i = count; i-- > 0;) {
		if (runs[i].kind != LK_RUN_RELEASE) continue;
		if (runs[i].order_ns > later_ns) runs[i].order_ns = later_ns;
		later_ns = runs[i].order_ns;
	}
}

lk_status lk_lift_outside(lk_lifting *lifting) {
	const lk_capture *capture = lifting->capture;
	size_t first = lifting->runs.count;
	bool *called = calloc((size_t)capture->count + 1, sizeof *called);
	lk_status status = called ? LK_OK : lk_oom(lifting->err);
	for (size_t i = 0; i < first && status == LK_OK; i++) {
		const lk_run *run = &lifting->runs.at[i];
		if (run->kind == LK_RUN_CALL) called[lifting->out->pieces.at[run->begin].event] = true;
	}
	for (size_t lane = 0; lane < capture->lanes.count && status == LK_OK; lane++)
		if (lifting->stream_of[lane] < LK_STREAMS)
			status = outside_add_lane(lifting, &capture->lanes.at[lane], called);
	free(called);
	size_t count = lifting->runs.count - first;
	if (status != LK_OK || !count) return status;
	lk_sort(&lifting->runs.at[first], count, sizeof *lifting->runs.at, outside_by_start);
	outside_chain(&lifting->runs.at[first], count);
	return LK_OK;
}
