/* fuzz_traces.c: any calls of any ranks at any time are matched and laid on one clock: every call
 * is in one match at most, matches are in order, the same rank is in none twice. Three bytes are a
 * call: rank and group, kind and size, time. */
#include <stdint.h>
#include <stdlib.h>

#include "trace/align/traces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	RANKS = 5,
	MOST_BYTES = 1536 /* more of them are only slower */
};

static const char *const names[] = {
	"ncclKernel_AllReduce_RING_LL_Sum_float", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
	"ncclDevKernel_Generic", "ncclKernel_AllGather_RING_LL_Sum_int8_t"};
static const char *const ranks[] = {"", "[0, 1, 2, 3, 4]", "[0, 1", "[4, 0]"};

static void add_call(lk_capture *capture, const uint8_t *byte, int64_t *now) {
	int64_t step = byte[2] < 250 ? byte[2] * 1000 : INT64_MAX / 300 * (byte[2] - 249);
	if (__builtin_add_overflow(*now, step, now)) *now = INT64_MAX;
	uint32_t event = lk_capture_add(
		capture, &(lk_event){.kind = LK_EVENT_KERNEL,
	                         .start_ns = *now,
	                         .dur_ns = byte[2] * 100,
	                         .lane = lk_capture_lane(capture, true, 0, byte[0] >> 6),
	                         .name = lk_intern_id(capture->names, names[byte[1] & 3])});
	int group = byte[0] >> 4 & 3;
	if (event == LK_NONE || group == 0 || !lk_push(&capture->comms)) return;
	*lk_last(&capture->comms) =
		(lk_comm_note){.event = event,
	                   .kind = (uint8_t)(byte[1] & 4 ? LK_OP_COUNT : LK_OP_ALLREDUCE + byte[1] % 7),
	                   .group = lk_intern_id(capture->names, group > 1 ? "a" : "b"),
	                   .ranks = lk_intern_id(capture->names, ranks[group]),
	                   .element_bytes = 4,
	                   .peer = byte[1] & 8 ? byte[1] % RANKS : -1,
	                   .group_size = byte[1] & 16 ? 2 : 0,
	                   .in_elements = (byte[1] >> 5) - 1,
	                   .out_elements = -1};
}

static void check(const lk_traces *traces) {
	uint32_t at = 0;
	for (uint32_t m = 0; m < traces->matches.count; m++) {
		const lk_match *match = &traces->matches.at[m];
		if (match->begin != at || match->end <= at || match->end > traces->members.count) abort();
		if (m && match->group == match[-1].group && match->sequence <= match[-1].sequence) abort();
		for (; at < match->end; at++) {
			lk_match_member member = traces->members.at[at];
			if (at > match->begin && traces->members.at[at - 1].capture >= member.capture) abort();
			if (lk_traces_match(traces, member.capture, member.event) != match) abort();
		}
	}
	if (at != traces->members.count || traces->shift_ns[0] != 0 ||
	    !(traces->residual_max_ns >= traces->residual_ns))
		abort();
}

static lk_traces *make(const uint8_t *data, size_t size) {
	lk_capture *captures[RANKS];
	int64_t now[RANKS] = {0};
	for (int r = 0; r < RANKS; r++) {
		captures[r] = lk_capture_new("x", "bytes");
		if (!captures[r]) abort();
		captures[r]->rank = r;
		captures[r]->absolute = size > 0 && data[0] >> r & 1;
	}
	for (size_t i = 0; i + 3 <= size; i += 3)
		add_call(captures[(data[i] & 15) % RANKS], data + i, &now[(data[i] & 15) % RANKS]);
	for (int r = 0; r < RANKS; r++)
		if (lk_capture_finish(captures[r], NULL) != LK_OK) abort();
	lk_traces *traces = NULL;
	return lk_traces_make(captures, RANKS, &traces, NULL) == LK_OK ? traces : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (size > MOST_BYTES) return 0;
	lk_traces *traces = make(data, size);
	if (!traces) abort();
	check(traces);
	lk_traces_free(traces);
	return 0;
}
