/* recorded_internal.h: shared by the files that show recordings. recording_read.c shows calls on
 * hosts, recording_device.c those of devices and of NCCL, recording_socket.c connections;
 * recorded_groups.c finds the members of groups, recorded_marks.c the marks of threads. */
#ifndef LK_TRACE_READ_RECORDED_INTERNAL_H
#define LK_TRACE_READ_RECORDED_INTERNAL_H

#include "trace/read/read.h"

/* Streams of the processor; those of devices follow, by their numbers. */
enum {
	LK_SHOWN_OWN_CODE = 1,
	LK_SHOWN_BLOCKING,
	LK_SHOWN_BLOCKING_TOO,
	LK_SHOWN_FLIGHTS,
	LK_SHOWN_MOST_FLIGHTS = 4,
	LK_SHOWN_STREAMS = LK_SHOWN_FLIGHTS + LK_SHOWN_MOST_FLIGHTS,
	LK_SHOWN_DEVICE = 100,
	LK_SHOWN_STREAMS_OF_OTHERS = 1 << 20 /* of a device, named by no call of the program */
};

/* Device work, by the serial number that its calls share. */
typedef struct lk_shown_work {
	uint64_t serial;
	uint32_t call;            /* in run->calls */
	uint32_t correlation;     /* 0 until a call has launched it */
	double bytes[2], done[2]; /* of the communications in it: receives of messages, all others */
} lk_shown_work;

/* CUPTI numbers streams itself. */
typedef struct lk_shown_stream {
	uint32_t theirs, ours;
} lk_shown_stream;

/* Bytes that connections have carried until a moment. */
typedef struct lk_shown_traffic {
	int64_t ns;
	double bytes;
} lk_shown_traffic;

typedef struct lk_shower {
	lk_recorded_run *run;
	lk_capture *capture;
	lk_recorded_steps steps;
	uint32_t correlation;
	uint32_t stream[LK_SHOWN_STREAMS]; /* lanes */
	int64_t busy[LK_SHOWN_STREAMS];    /* end of the last work on each stream */
	uint32_t *flight;                  /* [calls] stream of a request's call; 0 for others */
	uint32_t own_code, synchronize, sockets, from_pipe; /* interned */
	bool device;                      /* the program has a device: host time is no computation */
	LK_VEC(lk_shown_work) works;      /* by serial */
	LK_VEC(lk_shown_work) recorded;   /* events: `call` recorded it, by serial */
	LK_VEC(lk_shown_stream) streams;  /* known from works with a known call */
	LK_VEC(lk_shown_traffic) traffic; /* by time, sums from the start */
	uint64_t untimed;                 /* communications whose device times are unknown */
	lk_error *err;
} lk_shower;

/* ---- recording_events.c ---- */

/* Add an event to the capture; lane LK_NONE: nothing is added. */
lk_status lk_show_event(lk_shower *shower, lk_event_kind kind, uint32_t lane, uint32_t name,
                        int64_t start, int64_t end, uint32_t correlation, uint32_t *event);
/* Add a wait of the host for a stream, or for all of them. */
lk_status lk_show_wait(lk_shower *shower, uint32_t lane, uint32_t stream, bool all, int64_t start,
                       int64_t end);
/* Add work on a stream, launched by a call from `start` to `launched`. */
lk_status lk_show_work(lk_shower *shower, uint32_t lane, uint32_t stream, uint32_t name,
                       int64_t start, int64_t launched, int64_t end, uint32_t *event);
lk_status lk_show_name(lk_shower *shower, const char *text, uint32_t *out);
/* Add the note of a communication: kind of lk_op_kind. */
lk_status lk_show_note(lk_shower *shower, uint32_t event, const lk_record_entry *record,
                       unsigned kind, int32_t peer);
unsigned lk_show_kind(lk_comm_what what);

/* ---- recording_device.c ---- */

/* Called before calls are shown. */
lk_status lk_show_prepare_device(lk_shower *shower);
/* Show a call of the device's runtime; a communication put on a stream; a transfer over the
 * network. */
lk_status lk_show_device_call(lk_shower *shower, uint32_t lane, const lk_recorded_call *call);
lk_status lk_show_enqueued(lk_shower *shower, uint32_t lane, const lk_recorded_call *call);
lk_status lk_show_proxy(lk_shower *shower, const lk_recorded_call *call);
/* Show device work that no recorded call has launched. */
lk_status lk_show_unclaimed(lk_shower *shower, const lk_recorded_call *work);
void lk_show_free_device(lk_shower *shower);

/* ---- recording_socket.c ---- */

/* Show the traffic of connections as communications. */
lk_status lk_show_traffic(lk_shower *shower);
/* Show a call of the main thread that waits, or that moves bytes itself. */
lk_status lk_show_waiting(lk_shower *shower, uint32_t lane, uint32_t index);

/* ---- recorded_marks.c ---- */

/* Fill the run's spans and mark_names from its marks, which it sorts. LK_ERR_MEMORY. */
lk_status lk_recorded_span_marks(lk_recorded_run *run, lk_error *err);

/* ---- recorded_groups.c ---- */

/* Give groups their ranks if files in the recording's folder list the members. */
lk_status lk_recorded_find_members(lk_recorded_run *run, const char *path, lk_error *err);

#endif
