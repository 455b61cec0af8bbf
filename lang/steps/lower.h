/* lower.h: shared by the files that make a step graph of steps.
 *
 *   lower.c         steps as operations
 *   lower_memory.c  the bytes that they read and write, and the memory that a rank holds */
#ifndef LK_LANG_STEPS_LOWER_H
#define LK_LANG_STEPS_LOWER_H

#include "lang/steps/steps_internal.h"

typedef struct lc_lowering {
	const lc_steps *steps;
	const lc_program *p;
	const lc_sizes *sizes;
	lk_graph *graph;
	lk_arena scratch;
	int64_t chunks;
	bool hosts; /* processes of emitted C; else kernels on GPUs */
	int inner;  /* the first axis whose ranks are chains */
	uint32_t stages, chains;
	uint8_t kind_of[LC_AXES];    /* process groups of the axes that are chains */
	uint32_t team_of[LC_AXES];   /* the first team of an axis that is stages */
	struct lc_pair **pairs;      /* [stages] teams in which a stage sends */
	int64_t place[LC_AXES];      /* of the current stage */
	uint32_t stage, block_begin; /* its first operation */
	uint64_t ops;
	const lc_life *life;  /* [values] */
	double *bytes, *pass; /* [values] cached: of values without list, of passes by their last value;
	                         0 */
	/* of the current step */
	double share;    /* of the work: one chunk's */
	double pieces;   /* of one kernel, of which the chunk is one; else 0 */
	bool last;       /* the last of them */
	int64_t item;    /* of the list: one chunk's, or -1 all */
	uint8_t compute; /* the stream of its computation */
	uint32_t join;
	const uint32_t *deps;
	uint32_t dep_count;
	lk_error *err;
} lc_lowering;

/* The greatest extents of a rank's part of a value. */
lk_status lc_lower_extents(const lc_program *program, const lc_sizes *sizes, const lc_node *node,
                           int64_t item, int64_t out[LC_RANK], lk_error *err);
/* Bytes of value v that a chunk uses. */
lk_status lc_lower_value_bytes(const lc_lowering *lowering, int v, int64_t item, double *out);
/* Whether this stage's ranks hold a value at a group. */
bool lc_lowering_holds(const lc_lowering *lowering, const lc_group *group);
/* What a rank of the stage holds from step to step, and what it updates. */
lk_status lc_lower_hold(const lc_lowering *lowering, lk_program *program);
/* Take the memory of step i with the first operation from `first` on and give it back with the
 * last. If this stage has no operation there, adjacent ones do it. */
lk_status lc_lower_take_memory(lc_lowering *lowering, int i, uint32_t first, double *pending);

#endif
