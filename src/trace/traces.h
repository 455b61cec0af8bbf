/* traces.h: the captures of several ranks of one run, on one clock, with their collectives matched. */
#ifndef LK_TRACE_TRACES_H
#define LK_TRACE_TRACES_H

#include "trace/capture.h"

/* One rank's part in a communication operation: a kernel, or on hosts an operation. */
typedef struct lk_match_member {
	uint32_t capture;        /* index in lk_traces.capture */
	uint32_t event;
} lk_match_member;

/* One communication operation of the run. All its kernels on all ranks that were captured. */
typedef struct lk_match {
	uint8_t kind;            /* lk_op_kind */
	uint32_t group;          /* index in lk_traces.groups */
	uint32_t sequence;       /* the how-manieth of its group */
	int64_t bytes;           /* message as nccl-tests count it, the largest over ranks; -1 not said */
	uint32_t begin, end;     /* its members in lk_traces.members, by capture */
} lk_match;

/* A process group of the run. */
typedef struct lk_run_group {
	const char *name;        /* "default_pg", "tp", "0"; never NULL */
	int32_t size;            /* ranks, captured or not; 0 not said */
	uint32_t *captures;      /* those that were captured, ascending */
	uint32_t count;
	const char *ranks;       /* "[0, 1, 2, 3]", or "" */
} lk_run_group;

typedef struct lk_traces {
	lk_capture **capture;    /* by rank */
	int64_t *shift_ns;       /* common time = a capture's own time + this; 0 for the first rank */
	uint32_t count;
	int32_t world;           /* ranks of the run, captured or not */
	/* how well the clocks were aligned, on the ends of matched collectives */
	uint32_t anchors;        /* collectives used; 0: as the files say */
	double residual_ns, residual_max_ns; /* median and largest |end - common end| that stays */
	double skew_ns;          /* largest difference between the clocks as the files have them */
	LK_VEC(lk_match) matches;        /* by group, then sequence */
	LK_VEC(lk_match_member) members;
	LK_VEC(lk_run_group) groups;
	LK_VEC(const char *) problems;   /* desynchronised, missing, of another size; sentences that name rank, group and number */
	LK_VEC(const char *) warnings;   /* of all files, with their names */
	lk_arena arena;
} lk_traces;

/* Reads the files, in parallel on up to `threads` (0: as many as there are cores); folders stand for the traces in them.
 * Two files of one rank, or of different runs, are an error. `progress` may be NULL: called with bytes read. */
lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits, int threads, lk_traces **out,
                         lk_error *err);
/* The same from captures that were read already; they belong to the traces from then on. */
lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err);
void lk_traces_free(lk_traces *traces);

/* The match that an event of a capture is part of, and its place there; NULL if none. */
const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event);

#endif
