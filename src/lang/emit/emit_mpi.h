/* emit_mpi.h: what the files of the C+MPI target share. One context per way to run the program (a schedule).
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

#include "lang/emit/emit.h"
#include "lang/emit/emit_text.h"

typedef struct lc_mpi {
	const lc_program *original; /* scalars, dims and indices are numbered as there */
	const lc_program *p;
	const lc_steps *steps;
	FILE *out;
	int number;      /* of the schedule: in all its names */
	const char *helper; /* "": in the names of functions that parts of a step get, "step1pass_F" */
	int *memory;     /* [values] the value whose part holds it: lc_steps.storage, with what rings need; -1: none */
	bool *part;      /* [values] has a part of its own, perhaps without memory */
	LK_VEC(int) touched; /* values that passes read or write, for the count of bytes */
	LK_VEC(const char *) indices; /* of groups, as numbered in the source */
	int choices;     /* overlaps that are tried in two ways */
	lk_arena arena;
	lk_error *err;
} lc_mpi;

/* ---- target_mpi_names.c ---- */
/* The value that has the part: a state for its updates, what an output puts out. */
int lc_mpi_owner(const lc_mpi *c, int id);
/* The value whose memory it is in the end. */
int lc_mpi_root(const lc_mpi *c, int id);
/* The part of a value, an expression of type rt_part *: "run->part[t1_gr]"; for lists "&run->part[t1_gr][item]". */
char *lc_mpi_part(const lc_mpi *c, int id, char *out, size_t size);
/* For "%s%scount": a member of the part that the text stands for. */
#define LC_OF(part) (part) + (*(part) == '&'), *(part) == '&' ? "." : "->"
/* Its number: "t1_gr". */
char *lc_mpi_number(const lc_mpi *c, int id, char out[LC_IDENTIFIER]);
/* prefix, '_' and the name, or prefix and number; without a prefix the name or the number alone. */
char *lc_mpi_named(const lc_mpi *c, const char *prefix, int id, char out[LC_IDENTIFIER]);
/* "step1_gr", unique in the file. */
char *lc_mpi_function(const lc_mpi *c, const lc_step *s, char out[LC_IDENTIFIER]);
int lc_mpi_scalar(const lc_mpi *c, int id);            /* its place among the program's scalars */
void lc_mpi_size(const lc_mpi *c, int id, FILE *out);  /* size(...), a double */
int lc_mpi_index(lc_mpi *c, const char *name);         /* of a group; -1 for none */
bool lc_mpi_may_be_absent(const lc_mpi *c, int id);    /* some ranks may hold nothing of it */
lk_status lc_mpi_touch(lc_mpi *c, int id);

/* ---- target_mpi_tables.c ---- */
/* Which values have parts and which memory; enum of their numbers, table, shapes, conditions. */
lk_status lc_mpi_plan(lc_mpi *c);
lk_status lc_mpi_tables(lc_mpi *c);

/* ---- target_mpi_api.c: definitions of what target_header.c declares ---- */
void lc_mpi_api_head(const lc_program *original, const lc_variant *variants, int count, bool cuda, FILE *out);
void lc_mpi_api(const lc_mpi *c, const lc_variant *v, bool cuda);

/* ---- one file per kind of step: each writes "static void stepN_NAME(rt_run *run)" and what it needs ---- */
typedef lk_status lc_mpi_step(lc_mpi *c, const lc_step *s);
lc_mpi_step lc_mpi_map;      /* target_mpi_map.c */
lc_mpi_step lc_mpi_contract; /* target_mpi_contract.c: CONTRACT and ROWS */
lc_mpi_step lc_mpi_comm;     /* target_mpi_comm.c: COMM and SEND */
lc_mpi_step lc_mpi_ring;     /* target_mpi_ring.c */
lc_mpi_step lc_mpi_overlap;  /* target_mpi_overlap.c */
/* target_mpi_flow.c: an overlap as a pipeline of chunks; done stays false, with the reason as a comment, where it cannot be. */
lk_status lc_mpi_flow(lc_mpi *c, const lc_step *s, bool *done);
lc_mpi_step lc_mpi_ring_plain, lc_mpi_overlap_plain; /* target_mpi_plain.c: one part after the other */
lk_status lc_mpi_any(lc_mpi *c, const lc_step *s);   /* by its kind */

/* ---- for rings: the pass of a step by ranges ---- */
/* Writes "static void NAME(rt_run *run, int64_t item, int64_t from, int64_t to)": a MAP over the elements from .. to - 1
 * along dim `cut` of its space, in any order, if lc_mpi_cuts (whether all that makes an element of its results is in one
 * range); with cut -1 over the whole tensor `item`. */
lk_status lc_mpi_range(lc_mpi *c, const lc_step *s, const char *name, int cut);
lk_status lc_mpi_cuts(lc_mpi *c, const lc_step *s, int cut, bool *can);
/* For a ring: "(rt_run *run, int64_t item, int64_t from, int64_t to, const void *arrived, int64_t skip)", trips from ..
 * to - 1 of the outer loop, in ascending order, the first from 0, the last up to the number of trips. Where it reads the
 * reduce-scatter it adds, of trip `from` on, what arrived and what this rank has; `skip`: from an index in the slice to one
 * in the whole tensor. Operands of gathers without other memory are written to the gathers' own. */
lk_status lc_mpi_ring_pass(lc_mpi *c, const lc_step *s, const char *name);
/* How many leading dims of the space the outer loop goes over (0: the pass has one element; the outer loop then has one
 * trip); rt_product(part, 0, outer) is the number of trips and rt_product(part, outer, rank) the elements of each. */
lk_status lc_mpi_outer(lc_mpi *c, const lc_step *s, int *outer);
/* In target_mpi_ring.c: the reduction of elements a and b of memory in the format of reduce-scatter `scatter`. */
void lc_put_join(const lc_node *scatter, const char *a, const char *b, FILE *out);
/* The call that makes a matmul, conv2d or gather_rows. */
void lc_mpi_contraction(lc_mpi *c, int id, int depth);
/* "(rt_collective){.axis = 0, ...}" of a collective or send. */
void lc_put_settings(lc_mpi *c, const lc_node *n);
/* Writes the statements of collectives of one kind between whole parts, for all tensors of their list: declarations of
 * `from` and `to`, a call. `bucket`: bytes of a message that joins tensors, 0: one for each. */
lk_status lc_mpi_collectives(lc_mpi *c, const int *ids, int count, int64_t bucket, int depth);

/* ---- target_mpi.c: what other targets write the same way ---- */
/* Writes a schedule: its comment, tables and steps, each by `any`, and the function that runs them. */
lk_status lc_mpi_schedule(lc_mpi *c, const lc_variant *v, lc_mpi_step *any);
/* Writes a file with a context for each variant. */
typedef lk_status lc_mpi_writer(const lc_program *original, const lc_variant *variants, int count, lc_mpi *contexts, FILE *out, lk_error *err);
lk_status lc_mpi_write(const lc_program *original, const lc_variant *variants, int count, lc_mpi_writer *write, FILE *out, lk_error *err);
lk_status lc_mpi_program_text(const lc_program *p, FILE *out, lk_error *err);    /* as lines of a comment */
lk_status lc_mpi_find_indices(lc_mpi *c, const lc_program *p);                   /* of groups: c->indices */
void lc_mpi_step_comment(const lc_mpi *c, const lc_step *s);
lk_status lc_mpi_axes(const lc_program *original, const lc_program *p, int number, FILE *out, lk_error *err);
void lc_mpi_program_tables(const lc_program *p, const lc_mpi *c, FILE *out);
/* The program's schedules; `reaches`: with what kernels reach on other ranks, else with what passes read and write. */
void lc_mpi_program(const lc_program *p, const lc_variant *variants, int count, bool reaches, FILE *out);
void lc_mpi_runtime(const char *const *files, FILE *out); /* files of data/, NULL ends */

#endif
