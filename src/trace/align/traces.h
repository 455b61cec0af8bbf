/* traces.h: the captures of several ranks of one run, on one clock, with their collectives matched. */
#ifndef LK_TRACE_TRACES_H
#define LK_TRACE_TRACES_H

#include "trace/capture/capture.h"

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

typedef LK_VEC(const char *) lk_sentences;

typedef struct lk_traces {
	lk_capture **capture;    /* by rank */
	int64_t *shift_ns;       /* common time = a capture's own time + this; 0 for the first rank; see lk_traces_time */
	double *drift_ppm;       /* by which its clock is slow against the first rank's, where that is clear; else 0. The shift
	                            then holds at middle_ns */
	int64_t *middle_ns;      /* own time */
	uint32_t count;
	int32_t world;           /* ranks of the run, captured or not */
	/* how well the clocks were aligned, on the ends of matched collectives */
	uint32_t anchors;        /* collectives used; 0: as the files say */
	double residual_ns, residual_max_ns; /* median and largest |end - common end| that stays */
	double skew_ns;          /* largest difference between the clocks as the files have them */
	double largest_drift_ppm; /* that was found, corrected or not; 0 where captures are too short to tell */
	LK_VEC(lk_match) matches;        /* by group, then sequence */
	LK_VEC(lk_match_member) members;
	LK_VEC(lk_run_group) groups;
	lk_sentences problems;   /* desynchronised, missing, of another size; sentences that name rank, group and number */
	lk_sentences warnings;   /* of all files, with their names */
	lk_sentences notes;      /* what execution traces added to which rank */
	struct lk_match_index *index; /* of lk_traces_match */
	lk_arena arena;
} lk_traces;

/* Reads the files, in parallel on up to `threads` (0: as many as there are cores); folders stand for the traces in them.
 * Two captures of one rank, or of different runs, are an error. Execution traces (works.h) may stand among them: the capture of
 * the same rank learns from them what it does not say itself. trace_files.h has the two steps apart. */
lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits, int threads, lk_traces **out,
                         lk_error *err);
/* The same from captures that were read already; they belong to the traces from then on, or are freed when it fails. */
lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err);
void lk_traces_free(lk_traces *traces);

/* A capture's own time on the clock of all. */
static inline int64_t lk_traces_time(const lk_traces *t, uint32_t capture, int64_t own_ns) {
	double drift = t->drift_ppm[capture] * 1e-6 * ((double)own_ns - (double)t->middle_ns[capture]);
	return own_ns + t->shift_ns[capture] + (int64_t)drift;
}

/* The match that an event of a capture is part of, and its place there; NULL if none. */
const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event);

#endif
