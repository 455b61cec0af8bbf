/* timeline.h: the events of the requested ranks over time. The engines fill it; every view reads
 * it. */
#ifndef LK_SIM_TIMELINE_H
#define LK_SIM_TIMELINE_H

#include <stdint.h>
#include "base/intern.h"
#include "base/vec.h"

/* A row of the picture: a stream of a rank. Slices of a track never overlap partially: they follow
 * one another or nest. */
typedef struct lk_track {
	int32_t rank;     /* global rank of the representative */
	int32_t ranks;    /* number of ranks that it represents */
	uint32_t process; /* interned: "stage 3 (ranks 24-31)" */
	uint32_t name;    /* interned: "compute", "tensor-parallel", "host", ... */
} lk_track;

typedef struct lk_slice {
	uint32_t track;
	uint32_t name;      /* interned: "qkv_proj" */
	uint32_t category;  /* interned: "gemm", "all_reduce", "forward" ... */
	int32_t microbatch; /* -1: none */
	int32_t layer;      /* -1: none */
	int64_t start_ps, end_ps;
	double bytes; /* for communication, else 0 */
	double flops;
	/* What an operation of a step is; all 0: not stated */
	uint32_t phase, group, dtype; /* interned: "backward"; "tp"; "bf16" */
	uint32_t ranks;               /* of its group */
	double m, n, k, batch;        /* its shape, see LK_OP_KINDS */
	/* A repetition that stands for others: it happens this many times, every_ps apart; 0: once.
	 * Only the first is drawn. */
	uint32_t times;
	int64_t every_ps;
} lk_slice;

/* What slices say in addition to name, category and time, numbers and texts: in the order in which
 * trace files have them. X(name, member, text) */
#define LK_SLICE_FACTS(X) \
	X("bytes", bytes, 0)  \
	X("flops", flops, 0)  \
	X("phase", phase, 1)  \
	X("group", group, 1)  \
	X("ranks", ranks, 0)  \
	X("dtype", dtype, 1)  \
	X("m", m, 0)          \
	X("n", n, 0)          \
	X("k", k, 0)          \
	X("batch", batch, 0)  \
	X("times", times, 0)  \
	X("every_ps", every_ps, 0)

/* An arrow from a slice to a later one: a message from send to receive. */
typedef struct lk_flow {
	uint32_t from, to; /* slice indices */
} lk_flow;

/* A point of a counter: memory in use on a rank. */
typedef struct lk_counter {
	int32_t rank;
	uint32_t name; /* interned: "memory allocated" */
	int64_t time_ps;
	double value; /* bytes */
} lk_counter;

typedef struct lk_timeline {
	lk_intern *names;
	LK_VEC(lk_track) tracks;
	LK_VEC(lk_slice) slices;
	LK_VEC(lk_flow) flows;
	LK_VEC(lk_counter) counters;
} lk_timeline;

/* An empty timeline, or NULL when memory runs out. */
lk_timeline *lk_timeline_new(void);
void lk_timeline_free(lk_timeline *timeline);

#endif
