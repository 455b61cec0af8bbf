/* emit_cuda.h: what the files of the CUDA target share. The context, names, tables and passes are those of the C+MPI
 * target: both write a program the same way, up to what a step is.
 *
 * The generated source has, per step, a struct of arguments, a kernel and a host function that fills the one and
 * launches the other. A kernel's text has no loops over dims: element e of the pass is taken apart into i, j, k, ...
 * where places are not as dense as the pass.
 */
#ifndef LK_LANG_TARGET_CUDA_H
#define LK_LANG_TARGET_CUDA_H

#include "lang/emit/emit_mpi.h"
#include "lang/emit/emit_pass.h"

/* What a kernel reaches of other ranks, of a RING: elements of `held` seen through the slice `through`. */
typedef struct lc_cuda_shared {
	int held, through, place; /* place: in pass.places */
	int value;                /* the reduce-scatter, or the all-gather */
} lc_cuda_shared;

/* Writes a pass as a kernel; reductions that go over other dims than the first one's are kernels of their own before
 * it. */
lk_status lc_cuda_map(lc_mpi *c, const lc_step *s);
/* The same with its collectives inside, for ranks that reach each other's memory; and the choice at run time. */
lk_status lc_cuda_ring(lc_mpi *c, const lc_step *s);
lk_status lc_cuda_overlap(lc_mpi *c, const lc_step *s);
/* Of an overlap's function, behind the fork of its streams: the way in chunks, if it can be cut. */
void lc_cuda_chunks(lc_mpi *c, const lc_step *s);
lk_status lc_cuda_any(lc_mpi *c, const lc_step *s);      /* by its kind */
/* The values that kernels reach of other ranks. */
bool lc_cuda_in_kernel(const lc_mpi *c, const lc_step *s);

#endif
