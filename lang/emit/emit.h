/* emit.h: programs as source text. A target writes one file: the program as a comment, its runtime,
 * a function per schedule, a table of them and a main that is left out with -DLOCKSTEP_NO_MAIN.
 *
 *   emit_text.c         identifiers, indices, expressions in C: shared by C and CUDA
 *   emit_mpi*.c         C and MPI (any MPI-3), BLAS for matmul
 *   emit_cuda*.c        CUDA and NCCL
 *   emit_torch.c        a Python module for PyTorch: the C of emit_mpi.c, and torch's operations
 *   emit_header.c       the function that a user's program calls
 *
 * Input text reaches the output only through emit_text.c: names become identifiers with a prefix,
 * numbers are printed from their binary value, comments are escaped.
 *
 * The executable's arguments are those of `lockstep compile run`: --sizes as lc_sizes_read (its
 * mesh must be that of mpirun), --seed, --set, and --schedule NAME|all, --repeat N (times in JSON
 * lines), --dump DIRECTORY: every rank's part of the results, as read by `lockstep compile run
 * --compare DIRECTORY`. A dump: DIRECTORY/SCHEDULE.RANK, for each of lc_results, for each item:
 * int64 count, then count doubles. */
#ifndef LK_LANG_TARGET_H
#define LK_LANG_TARGET_H

#include "lang/steps/steps.h"

/* One way to run the program, as a row of the executable's table. */
typedef struct lc_variant {
	const char *name;          /* of the schedule; "plain" for none */
	const lc_program *program; /* as rewritten */
	const lc_steps *steps;
	char *schedule; /* its text, for the comment; NULL */
} lc_variant;

typedef lk_status lc_emit(const lc_program *original, const lc_variant *variants, int count,
                          FILE *out, lk_error *err);
lc_emit lc_emit_mpi, lc_emit_cuda, lc_emit_torch;
/* Declarations for a user's program; `cuda`: with ncclComm_t and stream. */
lk_status lc_emit_header(const lc_program *original, const lc_variant *variants, int count,
                         bool cuda, FILE *out, lk_error *err);

#endif
