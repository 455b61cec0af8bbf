/* recorded.h: recordings (io/recording.h) as captures.
 *
 * A program without a device is shown as one with: the *processor* is the device. Its streams are "own code" (what the
 * main thread does between calls that were recorded), blocking communication, and communication in flight. The main
 * thread launches each of them and waits for it, so that explain, replay and whatif work on it as on any capture. What it
 * reads is data loading: the annotation "file:read NAME".
 */
#ifndef LK_TRACE_RECORDED_H
#define LK_TRACE_RECORDED_H

#include "io/recording.h"
#include "trace/capture/capture.h"

/* One call, of this process or one that it forked. */
typedef struct lk_recorded_call {
	lk_record_entry record;
	uint32_t process;        /* index of its recording; 0: the one that was asked for */
	uint32_t done;           /* POST, START: the call that waited for it, LK_NONE; DONE: the call that it waited for */
} lk_recorded_call;
typedef LK_VEC(lk_recorded_call) lk_recorded_calls;

/* What a number of a recording stands for. */
typedef struct lk_recorded_name {
	uint64_t key;            /* process << 32 | number */
	uint32_t name;           /* interned: of a call; path of a file; ranks of a group, "[0, 1]" */
	uint32_t shown;          /* interned: base name of a file; name of a group */
	int32_t size, rank;      /* of a group: ranks, own rank; -1: it is none of this process's */
	uint64_t division;       /* of a group of a pretended world: what it was made with */
} lk_recorded_name;
typedef LK_VEC(lk_recorded_name) lk_recorded_names;

typedef struct lk_recorded_run {
	const char *path;
	lk_recording_head head;  /* of the process that was asked for */
	lk_recorded_calls calls; /* by start */
	lk_recorded_calls storage; /* LK_RECORD_STORAGE, which are no calls; by start */
	lk_recorded_names names, files, groups, peers; /* by key */
	uint16_t main_thread;
	uint64_t strange;        /* records that cannot be */
	uint64_t dropped;        /* for want of room, while recording */
	uint32_t children;
	lk_intern *texts;        /* of the names; borrowed */
} lk_recorded_run;

/* Reads a recording and those of the processes that were forked from it, beside it in the folder. */
lk_status lk_recorded_load(const char *path, const lk_read_limits *limits, lk_intern *texts, lk_recorded_run *out,
                           lk_error *err);
/* The same of one recording that is open. */
lk_status lk_recorded_take(lk_recording *recording, const lk_read_limits *limits, lk_intern *texts, lk_recorded_run *out,
                           lk_error *err);
void lk_recorded_free(lk_recorded_run *run);
/* Whether a call is one of a pipe, not of a connection to another process's address. */
bool lk_recorded_by_pipe(const lk_recorded_run *run, const lk_recorded_call *call);
const lk_recorded_name *lk_recorded_find(const lk_recorded_names *names, uint32_t process, uint32_t number); /* or NULL */

/* The steps: moments at which one begins, and the last one's end. */
typedef struct lk_recorded_steps {
	LK_VEC(int64_t) begin;   /* steps + 1; empty: none were found */
	uint32_t calls;          /* of communication in a step; 0: found by the marker */
} lk_recorded_steps;
lk_status lk_recorded_find_steps(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err);

/* Fills a new capture, which the caller finishes. */
lk_status lk_recording_read(const char *path, const lk_read_limits *limits, lk_capture *capture, lk_error *err);
lk_status lk_recording_show(lk_recorded_run *run, lk_capture *capture, lk_error *err);

#endif
