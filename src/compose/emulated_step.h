/* emulated_step.h: the usual step of a recording that was made alone, as one rank of a pretended world: what it communicates and
 * asks of its device, in order, and how long its own work between takes. Times in communication mean nothing there and are left
 * out. What several threads ask of the device is taken as one thread's, in the order of time. */
#ifndef LK_TRACE_POSED_STEP_H
#define LK_TRACE_POSED_STEP_H

#include "trace/read/recorded.h"

/* A communicator of the pretended world; of a recording also those of other ranks that were made with its own. */
typedef struct lk_posed_group {
	uint32_t number;         /* in the recording */
	int32_t own;             /* own rank in it; -1: of other ranks */
	uint64_t division;
	int32_t size;
	int32_t *ranks;          /* [size] of the world */
	uint32_t again;          /* how many communicators of these very ranks came before */
} lk_posed_group;

/* A call, and what comes before it. */
typedef struct lk_posed_item {
	uint8_t part, what;      /* WHOLE, POST, START, DONE, ENQUEUE; lk_comm_what */
	uint8_t device;          /* 1 + lk_device_what: a call of a device's runtime; 0: communication */
	uint8_t direction;       /* of a copy, as recorded */
	bool waits;              /* a copy that the call itself waits for */
	uint16_t element_bytes;
	uint32_t group;          /* index into groups */
	uint32_t name;           /* interned in the run's texts */
	int32_t peer, from, tag;
	int64_t bytes;
	uint32_t begun;          /* DONE: the item that it waits for; a wait for an event: the one that recorded it; LK_NONE: none here */
	uint32_t stream;         /* of a device: its number in the recording; 0 none */
	uint32_t on;             /* a wait for an event: the stream that it was recorded in; 0 not known */
	uint32_t last, members;  /* ENQUEUE: last item of its group of calls on this stream, and how many there are */
	double work_ns;          /* on the stream: median; NAN not known */
	double own_ns, low_ns, high_ns; /* own work since the item before: median, 10 % and 90 % quantile over steps */
	double files_ns;         /* in reading and writing, median */
} lk_posed_item;

typedef struct lk_posed_step {
	const lk_recorded_run *run;
	int32_t rank, world;
	LK_VEC(lk_posed_group) groups;
	LK_VEC(lk_posed_item) items;
	uint32_t steps, unlike;  /* in the recording; of these, with another sequence of calls */
	double step_ns;          /* own work and files of a usual step: sum of the medians */
	double low_ns, high_ns;  /* 10 % and 90 % quantile over whole steps */
	double beside_ns;        /* what a mean step has more than the usual one: checkpoints, evaluation */
	double device_ns, device_low_ns, device_high_ns; /* work on streams: sum of the medians; quantiles over whole steps */
	uint32_t untimed;        /* pieces of it whose time is not known */
	lk_arena arena;
} lk_posed_step;

/* The run outlives it. Errors say why the recording has no such step. */
lk_status lk_posed_step_of(const lk_recorded_run *run, lk_posed_step *out, lk_error *err);
void lk_posed_step_free(lk_posed_step *step);

#endif
