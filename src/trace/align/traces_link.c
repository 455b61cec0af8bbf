/* traces_link.c: links each execution trace with the capture of its rank, which it supplements. */
#include <stdio.h>

#include "base/arena.h"
#include "trace/align/traces.h"

static uint32_t link_capture_of(const lk_traces *traces, int32_t rank) {
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->rank == rank) return i;
	return LK_NONE;
}

/* The rank by the trace or its name; one trace given with one capture is of its rank. */
static int32_t link_rank_of(const lk_traces *traces, const lk_works *works, uint32_t count) {
	int32_t rank = works->rank >= 0 ? works->rank : lk_trace_rank_in_name(works->path);
	return rank < 0 && count == 1 && traces->count == 1 ? traces->capture[0]->rank : rank;
}

static lk_status traces_link_learn(lk_traces *traces, lk_capture *capture, const lk_works *works,
                                   const lk_link *link, lk_error *err) {
	uint32_t comms, shapes, joined = link->by_record + link->by_order,
							all = works->count - link->roots;
	/* In a trace of another run or step, a few names agree by chance. */
	if (joined * 2 < all) {
		lk_traces_warn(traces,
		               "%s: only %u of its %u works are in the capture of rank %d; it was left "
		               "out; is it of the same "
		               "step?",
		               works->path, joined, all, capture->rank);
		return LK_OK;
	}
	LK_TRY(lk_link_comms(capture, works, link, &comms, err));
	LK_TRY(lk_link_shapes(capture, works, link, &shapes, err));
	char more[96] = "";
	if (link->uncertain)
		snprintf(more, sizeof more, " (%u of them by order alone)", link->uncertain);
	lk_traces_note(
		traces,
		"execution trace of rank %d: %u of %u works joined%s; it described %u communication "
		"operations and the "
		"shapes of %u others",
		capture->rank, joined, works->count, more, comms, shapes);
	return LK_OK;
}

static lk_status link_one(lk_traces *traces, const lk_works *works, uint32_t count, bool *taken,
                          lk_error *err) {
	int32_t rank = link_rank_of(traces, works, count);
	uint32_t at = rank < 0 ? LK_NONE : link_capture_of(traces, rank);
	lk_link link;
	for (size_t i = 0; i < works->warnings.count; i++)
		lk_traces_warn(traces, "%s: %s", works->path, works->warnings.at[i]);
	if (at == LK_NONE || taken[at]) {
		if (rank < 0)
			lk_traces_warn(traces, "%s: its name does not say of which rank it is; it was left out",
			               works->path);
		else if (at == LK_NONE)
			lk_traces_warn(traces, "%s: there is no capture of rank %d; it was left out",
			               works->path, rank);
		else
			lk_traces_warn(traces, "%s: a second execution trace of rank %d; it was left out",
			               works->path, rank);
		return LK_OK;
	}
	taken[at] = true;
	LK_TRY(lk_link_works(works, traces->capture[at], &link, err));
	lk_status status = traces_link_learn(traces, traces->capture[at], works, &link, err);
	lk_link_free(&link);
	return status;
}

lk_status lk_traces_link(lk_traces *traces, lk_works *const *works, uint32_t count, lk_error *err) {
	bool *taken = LK_ARRAY(&traces->arena, bool, traces->count);
	if (!taken) return lk_oom(err);
	for (uint32_t i = 0; i < count; i++) LK_TRY(link_one(traces, works[i], count, taken, err));
	return LK_OK;
}
