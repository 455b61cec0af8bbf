/* emit_cuda.h: shared by the files of the CUDA target. The context, names, tables and passes are
 * those of the C+MPI target: both write a program the same way, except for the steps themselves.
 *
 * The generated source has, per step, a struct of arguments, a kernel and a host function that
 * fills the struct and launches the kernel. A kernel has no loops over dims: element e of the pass
 * is decomposed into i, j, k, ... where places are not as dense as the pass. */
#ifndef LK_LANG_EMIT_EMIT_CUDA_H
#define LK_LANG_EMIT_EMIT_CUDA_H

#include "lang/emit/emit_internal.h"

/* What a kernel of a RING accesses on other ranks: elements of `held` seen through the slice
 * `through`. */
typedef struct lc_cuda_shared {
	int held, through, place; /* place: in pass.places */
	int value;                /* the reduce-scatter, or the all-gather */
} lc_cuda_shared;

/* Write a pass as a kernel; reductions over other dims than the first one's become kernels of their
 * own before it. */
lk_status lc_cuda_map(lc_mpi *mpi, const lc_step *step);
/* The same with its collectives inside, for ranks that access each other's memory; with the choice
 * at run time. */
lk_status lc_cuda_ring(lc_mpi *mpi, const lc_step *step);
lk_status lc_cuda_overlap(lc_mpi *mpi, const lc_step *step);
/* In an overlap's function, after the fork of its streams: write the version in chunks, if it can
 * be cut. */
void lc_cuda_chunks(lc_mpi *mpi, const lc_step *step);
/* Whether a step's kernel accesses other ranks' memory. */
bool lc_cuda_in_kernel(const lc_mpi *mpi, const lc_step *step);

/* ---- emit_cuda_pass: a kernel under construction: one pass, written in three places at once. */

enum { LC_CUDA_PART = 160, LC_CUDA_SHARED = 16 };

typedef struct lc_kernel {
	lc_mpi *c;
	lc_pass pass;
	char name[LC_IDENTIFIER]; /* of the step's function; the struct is args_NAME, the kernel
	                             kernel_NAME */
	FILE *fields, *fills;     /* the struct of arguments; the host's statements that fill it */
	char *fields_text, *fills_text; /* their buffers */
	size_t fields_size, fills_size;
	FILE *out;   /* current output of expressions */
	bool flat;   /* each place is accessed at i, at 0, or at a stride of i */
	bool fours;  /* process four elements at a time if pointers are aligned */
	int depth;   /* tabs */
	int *groups; /* for reductions: [2 n] which are done, and the members of one group */
	lc_cuda_shared shared[LC_CUDA_SHARED];
	int shared_count;
} lc_kernel;

/* Open the pass of a step and declare its places and numbers. */
lk_status lc_kernel_open(lc_mpi *mpi, const lc_step *step, bool ring, lc_kernel *out);
void lc_kernel_close(lc_kernel *kernel);
lc_dtype lc_kernel_format(const lc_kernel *kernel, int id);
/* Write the index of an element in a place, in the kernel's variables. */
void lc_kernel_index(const lc_kernel *kernel, const lc_place *at, FILE *out);
char *lc_kernel_place_name(const lc_kernel *kernel, const char *prefix, const lc_place *at,
                           char out[LC_IDENTIFIER]);
/* Write lines of a kernel, at depth kernel->depth: single numbers; i, j, ... of element e; loads;
 * variables and y_NAME of stores. */
void lc_kernel_numbers(lc_kernel *kernel);
void lc_kernel_coordinates(lc_kernel *kernel);
void lc_kernel_loads(lc_kernel *kernel);
void lc_kernel_values(lc_kernel *kernel, bool stores);
void lc_kernel_stores(lc_kernel *kernel);
/* Write a value as an expression; or its stored value. */
void lc_kernel_value(lc_kernel *kernel, int id);
/* The place of a stored value. */
lc_place lc_kernel_stored(const lc_kernel *kernel, int id);
bool lc_kernel_is_shared(const lc_kernel *kernel, int id);
bool lc_kernel_keeps(const lc_kernel *kernel, int id);
/* Call `put` for each load from memory, each place once. */
void lc_kernel_each_load(lc_kernel *kernel, void (*put)(lc_kernel *kernel, int id));

/* ---- emit_cuda_share.c: write kernels that differ only in names once ---- */

typedef LK_VEC(const char *) lc_kernel_names; /* in the order of first use */
typedef struct lc_kernel_known {
	uint64_t hash;
	const char *text; /* its struct and kernels, with numbers for names */
	lc_kernel_names names;
} lc_kernel_known;
typedef struct lc_kernels {
	lk_arena arena;
	LK_VEC(lc_kernel_known) all;
} lc_kernels;
typedef void lc_kernel_writer(lc_kernel *kernel);

/* Write what `device` writes (the struct of arguments, the kernels) unless the file has an equal
 * one; then what `host` writes, the function that launches it, which may only name members
 * "a.NAME", the struct and the kernels. */
lk_status lc_kernel_put(lc_kernel *kernel, lc_kernel_writer *device, lc_kernel_writer *host);
void lc_kernels_free(lc_kernels *known);

/* ---- emit_cuda_map.c ---- */
/* Write a kernel's body: its numbers, and a loop over elements from `first` on by `step`, both
 * expressions. */
void lc_kernel_elements(lc_kernel *kernel, const char *first, const char *step);
/* Declare up to where elements go in fours. */
void lc_kernel_alignment(lc_kernel *kernel);
/* Write the struct of arguments; the host function NAME up to where they are filled; its end, and
 * that of its list. */
void lc_kernel_struct(lc_kernel *kernel);
void lc_kernel_host_begin(lc_kernel *kernel, const char *name);
void lc_kernel_host_end(lc_kernel *kernel, const char *name);

#endif
