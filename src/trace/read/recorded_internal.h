/* recorded_internal.h: what the files that show recordings share. recording_read.c shows calls on
 * hosts, recording_device.c those of devices and of NCCL, recording_socket.c connections;
 * recorded_groups.c finds the members of groups. */
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
	LK_SHOWN_STREAMS_OF_OTHERS = 1 << 20 /* of a device, that no call of the program named */
};

/* Work of a device, by the serial number that its calls have too. */
typedef struct lk_shown_work {
	uint64_t serial;
	uint32_t call;            /* in run->calls */
	uint32_t correlation;     /* 0 while no call has launched it */
	double bytes[2], done[2]; /* of the communications in it: receives of messages, all others */
} lk_shown_work;

/* CUPTI has numbers of its own for streams. */
typedef struct lk_shown_stream {
	uint32_t theirs, ours;
} lk_shown_stream;

/* What connections have carried until a moment. */
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
	int64_t busy[LK_SHOWN_STREAMS];    /* until when each stream is taken */
	uint32_t *flight;                  /* [calls] stream of a request's call; of others 0 */
	uint32_t own_code, synchronize, sockets, from_pipe; /* interned */
	bool device;                      /* the program has one: the host's time is no computation */
	LK_VEC(lk_shown_work) works;      /* by serial */
	LK_VEC(lk_shown_work) recorded;   /* events: `call` recorded it, by serial */
	LK_VEC(lk_shown_stream) streams;  /* that works with a known call tell */
	LK_VEC(lk_shown_traffic) traffic; /* by time, sums from the begin on */
	uint64_t untimed;                 /* communications whose times on the device are not known */
	lk_error *err;
} lk_shower;

/* ---- recording_events.c ---- */

/* An event of the capture; LK_NONE as lane: none is added. */
lk_status lk_show_event(lk_shower *shower, lk_event_kind kind, uint32_t lane, uint32_t name,
                        int64_t start, int64_t end, uint32_t correlation, uint32_t *event);
/* A wait of the host for a stream, or for all of them. */
lk_status lk_show_wait(lk_shower *shower, uint32_t lane, uint32_t stream, bool all, int64_t start,
                       int64_t end);
/* Work on a stream, launched by a call from `start` to `launched`. */
lk_status lk_show_work(lk_shower *shower, uint32_t lane, uint32_t stream, uint32_t name,
                       int64_t start, int64_t launched, int64_t end, uint32_t *event);
lk_status lk_show_name(lk_shower *shower, const char *text, uint32_t *out);
/* The note of a communication: kind of lk_op_kind. */
lk_status lk_show_note(lk_shower *shower, uint32_t event, const lk_record_entry *record,
                       unsigned kind, int32_t peer);
unsigned lk_show_kind(lk_comm_what what);

/* ---- recording_device.c ---- */

/* Before calls are shown. */
lk_status lk_show_prepare_device(lk_shower *shower);
/* A call of the device's runtime; a communication that was put on a stream; a transfer of the
 * network. */
lk_status lk_show_device_call(lk_shower *shower, uint32_t lane, const lk_recorded_call *call);
lk_status lk_show_enqueued(lk_shower *shower, uint32_t lane, const lk_recorded_call *call);
lk_status lk_show_proxy(lk_shower *shower, const lk_recorded_call *call);
/* Work of a device that no recorded call has put there. */
lk_status lk_show_unclaimed(lk_shower *shower, const lk_recorded_call *work);
void lk_show_free_device(lk_shower *shower);

/* ---- recording_socket.c ---- */

/* What connections carried, as communications. */
lk_status lk_show_traffic(lk_shower *shower);
/* A call of the main thread that waits, or that moves bytes itself. */
lk_status lk_show_waiting(lk_shower *shower, uint32_t lane, uint32_t index);

/* ---- recorded_groups.c ---- */

/* Gives groups their ranks where files in the recording's folder list the members. */
lk_status lk_recorded_find_members(lk_recorded_run *run, const char *path, lk_error *err);

#endif
