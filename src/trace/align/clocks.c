/* clocks.c: the clocks of captures: what the files state about them, and times of a capture on the
 * common clock as far as it has been fitted. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "trace/align/align_internal.h"

/* Each capture states when its host started. Starts further apart than this are of different
 * hosts. */
static const int64_t ONE_START_NS = 100000000;

static bool shares_clock(const lk_capture *a, const lk_capture *b) {
	if (!a->host || !b->host || strcmp(a->host, b->host) != 0) return false;
	int64_t apart = (a->origin_ns - a->host_ns) - (b->origin_ns - b->host_ns);
	return apart > -ONE_START_NS && apart < ONE_START_NS;
}

bool lk_clock_shared(const lk_traces *traces) {
	for (uint32_t c = 0; c < traces->count; c++)
		if (!shares_clock(traces->capture[0], traces->capture[c])) return false;
	return traces->count > 0;
}

int64_t lk_clock_base(const lk_traces *traces, uint32_t capture) {
	LK_ASSERT(capture < traces->count);
	const lk_capture *first = traces->capture[0], *c = traces->capture[capture];
	int64_t apart;
	if (shares_clock(first, c)) apart = c->host_ns - first->host_ns;
	else if (lk_clock_told(first) != lk_clock_told(c) ||
	         __builtin_sub_overflow(c->origin_ns, first->origin_ns, &apart))
		return 0;
	/* Beyond a hundred days doubles round; no run is compared over that time. */
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
	/* Host operations end only when the host notices, so kernels are required. */
	LK_ASSERT(match->begin < match->end && match->end <= traces->members.count);
	lk_match_member first = traces->members.at[match->begin];
	return all_wait && traces->capture[first.capture]->kind[first.event] == LK_EVENT_KERNEL;
}
