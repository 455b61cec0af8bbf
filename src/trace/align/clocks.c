/* clocks.c: the clocks of captures: what the files say about them, and times of a capture on the
 * clock of all as far as it has been fitted. */
#include <math.h>

#include "base/check.h"
#include "graph/graph.h"
#include "trace/align/align_internal.h"

int64_t lk_clock_base(const lk_traces *traces, uint32_t capture) {
	LK_ASSERT(capture < traces->count);
	const lk_capture *first = traces->capture[0], *c = traces->capture[capture];
	int64_t apart;
	if (lk_clock_told(first) != lk_clock_told(c) ||
	    __builtin_sub_overflow(c->origin_ns, first->origin_ns, &apart))
		return 0;
	/* Beyond a hundred days doubles round; no run is compared over that. */
	return apart > -(1LL << 53) && apart < 1LL << 53 ? apart : 0;
}

bool lk_clock_told(const lk_capture *capture) {
	/* Before 2024 Kineto wrote times since 1970 without saying so; 1e18 ns is the year 2001. */
	return capture->absolute || capture->origin_ns > 1000000000000000000;
}

double lk_own_end(const lk_traces *traces, lk_match_member m) {
	LK_ASSERT(m.capture < traces->count && m.event < traces->capture[m.capture]->count);
	return (double)lk_event_end(traces->capture[m.capture], m.event);
}

double lk_on_common(const lk_aligner *aligner, uint32_t capture, double own) {
	const lk_clock_fit *fit = &aligner->fit[capture];
	LK_ASSERT(isfinite(own) && isfinite(fit->shift) && isfinite(fit->slope));
	return own + aligner->base[capture] + fit->shift + fit->slope * (own - fit->middle);
}

bool lk_all_wait(const lk_traces *traces, const lk_match *match) {
	bool all_wait = match->kind == LK_OP_ALLREDUCE || match->kind == LK_OP_ALLGATHER ||
	                match->kind == LK_OP_REDUCESCATTER || match->kind == LK_OP_ALLTOALL;
	/* What the host does ends when it is noticed. */
	LK_ASSERT(match->begin < match->end && match->end <= traces->members.count);
	lk_match_member first = traces->members.at[match->begin];
	return all_wait && traces->capture[first.capture]->kind[first.event] == LK_EVENT_KERNEL;
}
