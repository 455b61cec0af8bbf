/* memory.h: device memory in use over a step, in the order in which the host issues operations: the
 * order in which a caching allocator allocates and frees. Nothing here depends on a model's
 * shape. */
#ifndef LK_SIM_MEMORY_H
#define LK_SIM_MEMORY_H

#include "graph/graph.h"
#include "sim/memory/allocator.h"

typedef struct lk_memory {
	double peak;               /* most bytes allocated at any time */
	double at_peak[LK_OWNERS]; /* by owner, at that moment */
	double resident;           /* before the first operation */
	uint32_t call, repetition,
		op; /* the moment: while this operation of the stage's program runs */
} lk_memory;

/* For one stage's program. */
lk_memory lk_memory_walk(const lk_graph *graph, uint32_t stage);

/* For many stages of one graph: each block's effect on the bytes in use, computed once. NULL when
 * out of memory. */
typedef struct lk_swing lk_swing;
lk_swing *lk_memory_swings(lk_arena *arena, const lk_graph *graph);
lk_memory lk_memory_walk_with(const lk_graph *graph, const lk_swing *swings, uint32_t stage);

/* reserved.c: what PyTorch's allocator holds over two steps; over a few more where sequences differ
 * in length. */
typedef struct lk_reserving {
	lk_caching_conf conf;
	const double *sizes; /* of the network's tensors, bytes */
	int size_count;
	int units;        /* buffers of communication are so many layers'; 0: as other tensors */
	int states;       /* the optimizer's states are so many tensors */
	double vocab;     /* columns of logits, which are counted where they are kept */
	int microbatches; /* of a step, the first ones, which decide */
	int ragged;       /* so many micro-batches are shorter than the last ones; 0: all are equal */
	const double *lengths; /* of these, in [0, 1] of the longest */
} lk_reserving;

/* The most bytes held. LK_ALLOCATED_NOTHING: they do not suffice. */
lk_caching_result lk_memory_reserved(const lk_graph *graph, uint32_t stage, const lk_reserving *how,
                                     double *bytes);

/* Bytes allocated after each call of the program, and the highest value during it; arrays of
 * calls.count. */
void lk_memory_series(const lk_graph *graph, uint32_t stage, double *after, double *highest);

#endif
