/* target_mpi.h: what the files of the C+MPI target share. One context per way to run the program (a schedule).
 *
 * The generated source, per schedule number N of the table:
 *   enum { tN_NAME, ... }                      numbers of the values that have a part, see rt_part
 *   static const rt_value valuesN[]            their formats, dims, layouts, memory
 *   static void stepN_NAME(rt_run *run)        one step; loops over the tensors of its list
 *   static void runN(rt_run *run)              all steps in order
 *
 * In a step, run->part[tN_NAME][item] is what this rank holds of a tensor: rt_part has data, whole, begin, extent, count
 * and `here` (false on ranks of other groups). run->mesh has ranks[axis], at[axis] and the communicator along[axis].
 *
 * Who implements a kind of step writes all its functions, helpers before it. A RING is, without more, its reduce-scatter,
 * its pass and its all-gathers; an OVERLAP its parts. For these the reduce-scatter and the operands of the gathers have
 * parts with memory of their own, whatever lc_steps.storage says, and so have what parts hand to each other.
 */
#ifndef LK_LANG_TARGET_MPI_H
#define LK_LANG_TARGET_MPI_H

#include "lang/target/target_text.h"

typedef struct lc_mpi {
	const lc_program *p;
	const lc_steps *steps;
	FILE *out;
	int number;      /* of the schedule: in all its names */
	int *memory;     /* [values] the value whose part holds it: lc_steps.storage, with what rings need; -1: none */
	bool *part;      /* [values] has a part of its own */
	bool *stated;    /* [values] is written in a pass already: used while a function is written */
	lk_arena arena;
	lk_error *err;
} lc_mpi;

/* ---- target_mpi_names.c ---- */
/* The part of a value, as an expression: "run->part[t1_gr][item]"; item "0" for values of no list. Returns `out`. */
char *lc_mpi_part(const lc_mpi *c, int id, char *out, size_t size);
/* The value that has the part: a state for its updates, what an output puts out. */
int lc_mpi_owner(const lc_mpi *c, int id);
/* "step1_gr", unique in the file. */
char *lc_mpi_function(const lc_mpi *c, const lc_step *s, char out[LC_IDENTIFIER]);

/* ---- one file per kind of step: each writes "static void stepN_NAME(rt_run *run)" and what it needs ---- */
typedef lk_status lc_mpi_step(lc_mpi *c, const lc_step *s);
lc_mpi_step lc_mpi_map;      /* target_mpi_map.c */
lc_mpi_step lc_mpi_contract; /* target_mpi_contract.c: CONTRACT and ROWS */
lc_mpi_step lc_mpi_comm;     /* target_mpi_comm.c: COMM and SEND */
lc_mpi_step lc_mpi_ring;     /* target_mpi_ring.c */
lc_mpi_step lc_mpi_overlap;  /* target_mpi_overlap.c */
lk_status lc_mpi_any(lc_mpi *c, const lc_step *s); /* by its kind */

/* ---- for rings: the pass of a step by ranges ---- */
/* Writes "static void NAME(rt_run *run, int64_t item, int64_t from, int64_t to)": trips from .. to - 1 of the outer loop
 * of the step's pass (MAP, RING without its collectives) on this rank, to be called in ascending order, the first from 0,
 * the last up to the number of trips. *outer: how many leading dims of the space the outer loop goes over (0: the pass
 * has one element; the outer loop then has one trip); rt_product(part, 0, outer) is the number of trips and
 * rt_product(part, outer, rank) the elements of each. */
lk_status lc_mpi_pass(lc_mpi *c, const lc_step *s, const char *name, int *outer);
/* Writes the call "NAME(run);"-style statements of a collective between whole parts: the body of lc_mpi_comm's function,
 * indented by `depth` tabs, for `item` in scope. */
lk_status lc_mpi_collective(lc_mpi *c, int id, int depth);

#endif
