/* host_time.h: what a CPU thread did, cut into the pieces whose length is host overhead: the terms T1 to T5 (overheads.h),
 * at every level of nesting. Of an operation with others inside, a child counts as a launch does: T2 is the time before the
 * first child or launch, T5 between two, T3 behind the last. So all pieces of a thread add up to its time. */
#ifndef LK_TRACE_HOST_TIME_H
#define LK_TRACE_HOST_TIME_H

#include "trace/capture/capture.h"
#include "trace/lift/overheads.h"

/* What a call means for the device. */
typedef enum lk_call_kind {
	LK_CALL_NONE,
	LK_CALL_LAUNCH,        /* starts work of the device */
	LK_CALL_SYNC,          /* waits for it: a stream, an event or all */
	LK_CALL_STREAM_WAIT,   /* lets a stream wait for an event */
} lk_call_kind;

typedef struct lk_host_piece {
	uint32_t event;        /* T1: the operation behind; T4: the call; else the operation. LK_NONE at the end */
	uint32_t name;         /* its interned name */
	uint32_t path;         /* hash of the names of all that encloses it */
	uint8_t term;          /* LK_T1 ... */
	uint8_t call;          /* of a T4: lk_call_kind; else LK_CALL_NONE */
	uint8_t phase;         /* lk_phase */
	bool loading;          /* inside data loading */
	bool blocked;          /* set by the lift: the call waited for room in the launch queue, so dur_ns says little */
	int64_t start_ns, dur_ns;
} lk_host_piece;

typedef LK_VEC(lk_host_piece) lk_host_pieces;

/* The pieces of a thread from `from_ns` to `to_ns`, without gaps: time before the first operation is a T1. A piece that
 * crosses a border is cut there. */
lk_status lk_host_time(const lk_capture *capture, uint32_t lane, int64_t from_ns, int64_t to_ns, lk_host_pieces *out,
                       lk_error *err);

/* What a runtime call is, by name and by whether it launched something. */
lk_call_kind lk_host_call(const lk_capture *capture, uint32_t event);

/* A thread that does nothing for longer between two operations is waiting: ten times what lies between those of a busy one. */
#define LK_GAP_NS 100000

/* Adds all pieces of all threads within the times to the overheads. Gaps are left out. */
lk_status lk_host_overheads(const lk_capture *capture, int64_t from_ns, int64_t to_ns, lk_overheads *out, lk_error *err);

#endif
