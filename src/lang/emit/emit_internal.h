/* emit_internal.h: programs as C: what the targets share. Nothing of a program's text gets into a
 * source but through these functions: names as identifiers with a prefix, numbers from their binary
 * value, comments escaped.
 *
 * Prefixes: d_ dims, q_ axes, k_ group indices, c_ scalars, v_ values in registers, p_ pointers to
 * what lies in memory, t_ values by number. The runtimes' own names begin with rt_, which none of
 * these can equal.
 *
 * Expressions use the runtime's inline functions rt_NAME (double), rt_NAMEf (float) and rt_NAMEl
 * (whole), LC_RT_OPS below, rt_from_F, rt_to_F, rt_round_F for the narrow formats F, rt_to_F for
 * whole ones, rt_truth, rt_dropout. Pointwise arithmetic is in float for f32 and narrower formats,
 * in double for f64 and in int64_t or uint64_t for whole numbers. Narrow results are rounded where
 * a cast takes them up and where they are stored, not after each operation: results differ from the
 * interpreter's by what its own rounding costs.
 */
#ifndef LK_LANG_EMIT_EMIT_INTERNAL_H
#define LK_LANG_EMIT_EMIT_INTERNAL_H

#include "base/check.h"
#include "lang/emit/emit.h"
#include "lang/steps/steps.h"

enum { LC_IDENTIFIER = LC_NAME + 64 }; /* a name, a prefix, and what steps add to names */

/* ---- names, comments, numbers ---- */

/* prefix and name, what is no letter, digit or '_' as _XX. Returns `out`. */
char *lc_identifier(const char *prefix, const char *name, char out[LC_IDENTIFIER]);
/* "v_gr" for prefix "v"; "v12" for value 12 without a name; "v7_w" for an older version of the
 * state w. */
char *lc_value_identifier(const lc_program *program, const char *prefix, int id,
                          char out[LC_IDENTIFIER]);
/* Lines of a comment's inside, each after `lead`; "*" "/", "/" "*", backslashes at line ends,
 * trigraphs and control characters are broken up. */
void lc_put_comment(const char *text, const char *lead, FILE *out);
/* A string literal with its quotes. */
void lc_put_string(const char *text, FILE *out);
/* As a number of format t's register type: 0.1f, 0.1, INT64_C(3); reads back as the same number. */
void lc_put_number(double number, lc_dtype t, FILE *out);
void lc_put_tabs(int depth, FILE *out);

/* ---- formats ---- */

const char *lc_memory_type(lc_dtype t); /* "uint16_t" for f16 and bf16, "uint8_t" for f8 and bool */
const char *lc_register_type(
	lc_dtype t); /* float, double, int64_t, uint64_t, bool; weak numbers: double */
const char *lc_format_name(lc_dtype t); /* "RT_F16": of the runtime's enum rt_format */
bool lc_is_narrow(lc_dtype t);          /* a real format below f32 */
const char *lc_lowest_text(lc_dtype t); /* where a maximum over nothing begins, and a minimum */
const char *lc_highest_text(lc_dtype t);
/* What is around the element in a load and in a store: "rt_from_f16(" ... ")", "(uint8_t)(" ...
 * ")"; "(" ... ")". */
const char *lc_load_call(lc_dtype t);
const char *lc_store_call(lc_dtype t);

/* ---- sizes ---- */

/* A dim as an expression of int64_t by rt_plus, rt_times and rt_over, which give a negative number
 * for what overflows or is no whole number. `dims` and `axes` come before identifiers of dims and
 * axes ("z->"), `item` indexes the dims of lists. Refused: a common divisor beyond 64 bits. */
typedef struct lc_dim_names {
	const char *dims, *axes, *item;
} lc_dim_names;
lk_status lc_put_dim(const lc_program *program, lc_dim d, const lc_dim_names *names, FILE *out,
                     lk_error *err);

/* ---- pointwise values ---- */

typedef struct lc_text {
	const lc_program *p;
	FILE *out;
	/* Writes a value that is already there (a variable, an element of memory, a scalar, a size) and
	 * returns true, or returns false: then what it is made of is written. `view`: the slice through
	 * which it is read, or -1. */
	bool (*leaf)(void *context, int id, int view, FILE *out);
	/* Whether what leaf writes is rounded to the value's format already: it was loaded, or is a
	 * scalar. */
	bool (*rounded)(void *context, int id);
	/* Writes the index of a dropout's element in the whole tensor, and the item: "(uint64_t)(i),
	 * 0". */
	void (*place)(void *context, int id, int view, FILE *out);
	void *context;
	int view; /* -1 to begin with */
} lc_text;
/* Value id where `wanted` is computed (weak numbers become that): leaf or operation. */
void lc_put_value(const lc_text *text, int id, lc_dtype wanted);
/* What id is made of, without asking leaf for itself. `stored`: a cast need not round, for the
 * store does. */
void lc_put_operation(const lc_text *text, int id, bool stored);
/* Whether a value is pointwise: MAP, dropout, slice, constant, size, scalar. */
bool lc_is_expression(const lc_node *node);

/* ---- passes over elements: loops and indices ----
 *
 * A pass goes over the local elements of one value, its space. A place is something that its
 * elements are found in: a tensor in memory, a slice of one that is read in place, a reduction's
 * result, or the index in a whole tensor. Adjacent dims become one loop where every place allows
 * it.
 */
typedef enum lc_place_kind {
	LC_PLACE_PART,  /* element of what the rank holds of `id` */
	LC_PLACE_VIEW,  /* element of what the rank holds of `id`, for an element of its slice `view` */
	LC_PLACE_WHOLE, /* index in the whole tensor of `id` */
	LC_PLACE_RED,   /* element of the result of reduction `id`, for an element of its operand */
} lc_place_kind;

typedef struct lc_place {
	lc_place_kind kind;
	int id, view;        /* view: -1 */
	int8_t dim[LC_RANK]; /* of the space's dims: which dim of `id` they are, -1: repeated */
	bool inner[LC_RANK]; /* of the space's dims: the place holds all elements of that dim */
} lc_place;

typedef struct lc_loops {
	int space;
	int first[LC_RANK + 1]; /* loop l goes over dims first[l] .. first[l + 1] - 1 of the space */
	int count;              /* 0: one element */
} lc_loops;

lc_place lc_place_of(const lc_program *program, int space, lc_place_kind kind, int id, int view);
lc_loops lc_loops_of(const lc_program *program, int space, const lc_place *places, int count);
/* Whether the place's index is the space's own linear index. */
bool lc_place_dense(const lc_program *program, const lc_loops *loops, const lc_place *place);
/* Whether the place depends on loop l at all. */
bool lc_place_moves(const lc_program *program, const lc_loops *loops, const lc_place *place, int l);
/* The dims of `id` whose extents, multiplied, are the place's stride along loop l: those from *from
 * up to its rank. */
void lc_place_stride(const lc_program *program, const lc_loops *loops, const lc_place *place, int l,
                     int *from, int *rank);

/* The operations that expressions call: X(name, operands). */
/* clang-format off */
#define LC_RT_OPS(X)                                                                                  \
	X(square, 1) X(pow, 2) X(min, 2) X(max, 2) X(sqrt, 1) X(exp, 1) X(log, 1) X(tanh, 1) X(erf, 1)    \
	X(relu, 1) X(gelu, 1) X(sigmoid, 1) X(abs, 1) X(sin, 1) X(cos, 1) X(exp2, 1) X(round, 1)
/* clang-format on */

/* ---- emit_header: the functions by which another program calls an emitted one: their names and
 * declarations. */

enum { LC_API = 3 * LC_IDENTIFIER };

/* "lk_PROGRAM", `what` ("_run_"), schedule or "". Returns `out`. */
char *lc_api_name(const lc_program *original, const char *what, const char *schedule,
                  char out[LC_API]);
/* Whether a value is an argument of a kind: inputs, states, outputs are 0, 1, 2. */
bool lc_api_is_argument(const lc_program *program, int id, int kind);
/* "in_g", "state_w", "out1", "out2_z" (`output` counts from 1). */
char *lc_api_argument(const lc_program *program, int id, int output, char out[LC_IDENTIFIER]);
/* Indices of groups in the order of their first use; how many. */
int lc_api_indices(const lc_program *program, const char *names[LC_VALUES]);
/* Declarations of all functions; then those of one schedule without ";", for their definitions. */
void lc_api_declarations(const lc_program *original, const lc_variant *variants, int count,
                         bool cuda, FILE *out);
void lc_api_open_signature(const lc_program *original, const lc_variant *variant, bool cuda,
                           FILE *out);
void lc_api_signature(const lc_program *original, const lc_variant *variant, FILE *out);

/* ---- emit_mpi: what the files of the C+MPI target share. One context per way to run the program
 * (a schedule).
 *
 * The generated source, per schedule number N of the table:
 *   enum { tN_NAME, ... }                      numbers of the values that have a part, see rt_part
 *   static const rt_value valuesN[]            their formats, dims, layouts, memory
 *   static void stepN_NAME(rt_run *run)        one step; loops over the tensors of its list
 *   static void runN(rt_run *run)              all steps in order
 *
 * In a step, run->part[tN_NAME][item] is what this rank holds of a tensor: rt_part has data, whole,
 * begin, extent, count and `here` (false on ranks of other groups). run->mesh has ranks[axis],
 * at[axis] and the communicator along[axis].
 *
 * Who implements a kind of step writes all its functions, helpers before it. A RING is, without
 * more, its reduce-scatter, its pass and its all-gathers; an OVERLAP its parts. For these the
 * reduce-scatter and the operands of the gathers have parts with memory of their own, whatever
 * lc_steps.storage says, and so have what parts hand to each other. */

typedef struct lc_mpi lc_mpi;
/* Emits a step of one kind, or of any. */
typedef lk_status lc_mpi_step(lc_mpi *mpi, const lc_step *step);

struct lc_mpi {
	const lc_program *original; /* scalars, dims and indices are numbered as there */
	const lc_program *p;
	const lc_steps *steps;
	FILE *out;
	int number;         /* of the schedule: in all its names */
	const char *helper; /* "": in the names of functions that parts of a step get, "step1pass_F" */
	int *memory; /* [values] the value whose part holds it: lc_steps.storage, with what rings need;
	                -1: none */
	bool *part;  /* [values] has a part of its own, perhaps without memory */
	lc_life
		*life; /* [values] the steps between which memory of its own is in use; first -1: always */
	LK_VEC(int) touched;          /* values that passes read or write, for the count of bytes */
	LK_VEC(const char *) indices; /* of groups, as numbered in the source */
	int choices;                  /* overlaps that are tried in two ways */
	lc_mpi_step *any;             /* of the target: the parts of a step are steps again */
	struct lc_kernels *kernels;   /* CUDA: those of the file so far */
	lk_arena arena;
	lk_error *err;
};

/* ---- emit_mpi_names.c ---- */
/* The value that has the part: a state for its updates, what an output puts out. */
int lc_mpi_owner(const lc_mpi *mpi, int id);
/* The value whose memory it is in the end. */
int lc_mpi_root(const lc_mpi *mpi, int id);
/* The part of a value, an expression of type rt_part *: "run->part[t1_gr]"; for lists
 * "&run->part[t1_gr][item]". */
char *lc_mpi_part(const lc_mpi *mpi, int id, char *out, size_t size);
/* For "%s%scount": a member of the part that the text stands for. */
#define LC_OF(part) (part) + (*(part) == '&'), *(part) == '&' ? "." : "->"
/* Its number: "t1_gr". */
char *lc_mpi_number(const lc_mpi *mpi, int id, char out[LC_IDENTIFIER]);
/* prefix, '_' and the name, or prefix and number; without a prefix the name or the number alone. */
char *lc_mpi_named(const lc_mpi *mpi, const char *prefix, int id, char out[LC_IDENTIFIER]);
/* "step1_gr", unique in the file. */
char *lc_mpi_function(const lc_mpi *mpi, const lc_step *step, char out[LC_IDENTIFIER]);
int lc_mpi_scalar(const lc_mpi *mpi, int id);           /* its place among the program's scalars */
void lc_mpi_size(const lc_mpi *mpi, int id, FILE *out); /* size(...), a double */
int lc_mpi_index(lc_mpi *mpi, const char *name);        /* of a group; -1 for none */
bool lc_mpi_may_be_absent(const lc_mpi *mpi, int id);   /* some ranks may hold nothing of it */
lk_status lc_mpi_touch(lc_mpi *mpi, int id);

/* ---- emit_mpi_tables.c ---- */
/* Which values have parts and which memory; enum of their numbers, table, shapes, conditions. */
lk_status lc_mpi_plan(lc_mpi *mpi);
lk_status lc_mpi_tables(lc_mpi *mpi);

/* ---- emit_mpi_api.c: definitions of what emit_header.c declares ---- */
void lc_mpi_api_head(const lc_program *original, const lc_variant *variants, int count, bool cuda,
                     FILE *out);
void lc_mpi_api(const lc_mpi *mpi, const lc_variant *variant, bool cuda);

/* ---- one file per kind of step: each writes "static void stepN_NAME(rt_run *run)" and what it
 * needs ---- */
lc_mpi_step lc_mpi_map;      /* emit_mpi_map.c */
lc_mpi_step lc_mpi_contract; /* emit_mpi_contract.c: CONTRACT and ROWS */
lc_mpi_step lc_mpi_comm;     /* emit_mpi_comm.c: COMM and SEND */
lc_mpi_step lc_mpi_ring;     /* emit_mpi_ring.c */
lc_mpi_step lc_mpi_overlap;  /* emit_mpi_overlap.c */
/* emit_mpi_flow.c: an overlap as a pipeline of chunks; done stays false, with the reason as a
 * comment, where it cannot be. */
lk_status lc_mpi_flow(lc_mpi *mpi, const lc_step *step, bool *done);
lc_mpi_step lc_mpi_ring_plain,
	lc_mpi_overlap_plain; /* emit_mpi_plain.c: one part after the other */

/* ---- for rings: the pass of a step by ranges ---- */
/* Writes "static void NAME(rt_run *run, int64_t item, int64_t from, int64_t to)": a MAP over the
 * elements from .. to - 1 along dim `cut` of its space, in any order, if lc_mpi_cuts (whether all
 * that makes an element of its results is in one range); with cut -1 over the whole tensor `item`.
 */
lk_status lc_mpi_range(lc_mpi *mpi, const lc_step *step, const char *name, int cut);
lk_status lc_mpi_cuts(lc_mpi *mpi, const lc_step *step, int cut, bool *can);
/* For a ring: "(rt_run *run, int64_t item, int64_t from, int64_t to, const void *arrived, int64_t
 * skip)", trips from .. to - 1 of the outer loop, in ascending order, the first from 0, the last up
 * to the number of trips. Where it reads the reduce-scatter it adds, of trip `from` on, what
 * arrived and what this rank has; `skip`: from an index in the slice to one in the whole tensor.
 * Operands of gathers without other memory are written to the gathers' own. */
lk_status lc_mpi_ring_pass(lc_mpi *mpi, const lc_step *step, const char *name);
/* How many leading dims of the space the outer loop goes over (0: the pass has one element; the
 * outer loop then has one trip); rt_product(part, 0, outer) is the number of trips and
 * rt_product(part, outer, rank) the elements of each. */
lk_status lc_mpi_outer(lc_mpi *mpi, const lc_step *step, int *outer);
/* In emit_mpi_ring.c: the reduction of elements a and b of memory in the format of reduce-scatter
 * `scatter`. */
void lc_put_join(const lc_node *scatter, const char *a, const char *b, FILE *out);
/* The call that makes a matmul, conv2d, gather_rows, add_rows or view. */
void lc_mpi_contraction(lc_mpi *mpi, int id, int depth);
/* "(rt_collective){.axis = 0, ...}" of a collective or send. */
void lc_put_settings(lc_mpi *mpi, const lc_node *node);
/* Writes the statements of collectives of one kind between whole parts, for all tensors of their
 * list: declarations of `from` and `to`, a call. `bucket`: bytes of a message that joins tensors,
 * 0: one for each. */
lk_status lc_mpi_collectives(lc_mpi *mpi, const int *ids, int count, int64_t bucket, int depth);

/* ---- emit_mpi.c: what other targets write the same way ---- */
/* Writes a schedule: its comment, tables and steps, each by `any`, and the function that runs them.
 */
lk_status lc_mpi_schedule(lc_mpi *mpi, const lc_variant *variant, lc_mpi_step *any);
/* Writes a file with a context for each variant. */
typedef lk_status lc_mpi_writer(const lc_program *original, const lc_variant *variants, int count,
                                lc_mpi *contexts, FILE *out, lk_error *err);
lk_status lc_mpi_write(const lc_program *original, const lc_variant *variants, int count,
                       lc_mpi_writer *write, FILE *out, lk_error *err);
lk_status lc_mpi_program_text(const lc_program *program, FILE *out,
                              lk_error *err);                          /* as lines of a comment */
lk_status lc_mpi_find_indices(lc_mpi *mpi, const lc_program *program); /* of groups: c->indices */
void lc_mpi_step_comment(const lc_mpi *mpi, const lc_step *step);
lk_status lc_mpi_axes(const lc_program *original, const lc_program *program, int number, FILE *out,
                      lk_error *err);
void lc_mpi_program_tables(const lc_program *program, const lc_mpi *mpi, FILE *out);
/* The program's schedules; `reaches`: with what kernels reach on other ranks, else with what passes
 * read and write. */
void lc_mpi_program(const lc_program *program, const lc_variant *variants, int count, bool reaches,
                    FILE *out);
void lc_mpi_runtime(const char *const *files, FILE *out); /* files of data/, NULL ends */

/* ---- emit_pass: one pass over elements, taken apart: which values it computes, loads and stores,
 * where they are found, and its loops. */

/* How a value comes into a pass. */
typedef enum lc_source {
	LC_UNUSED,
	LC_LITERAL,  /* a constant: written where it is used */
	LC_NUMBER,   /* a single number: a variable before the loops */
	LC_LOADED,   /* an element of memory */
	LC_COMPUTED, /* made of others for each element */
	LC_RESULT,   /* a reduction or total: after the loops */
} lc_source;

typedef struct lc_pass {
	lc_mpi *c;
	const lc_program *p;
	const lc_step *step;
	lc_source *source; /* [values] */
	int *uses;         /* [values] in the pass */
	int *place;        /* [values] of what is loaded, or stored: index into places; -1 */
	int *whole;        /* [values] of dropouts: index into places */
	bool *inside;      /* [values] computed by this step */
	LK_VEC(lc_place) places;
	LK_VEC(int) stores;  /* values that are stored for each element, in order */
	LK_VEC(int) results; /* reductions and totals */
	lc_loops loops;
	bool ranged;  /* the outer loop goes from .. to */
	int cut_loop; /* the loop that goes over a range of a dim, see lc_pass_cut; -1 */
	bool arrives; /* of a ring: the reduce-scatter's last addition is in it */
} lc_pass;

/* Frees by lc_pass_close; memory alongside the vectors is the context's. */
lk_status lc_pass_open(lc_mpi *mpi, const lc_step *step, lc_pass *out);
void lc_pass_close(lc_pass *pass);
/* Makes the dim of the space the first of a loop, which goes over a range of it. */
void lc_pass_cut(lc_pass *pass, int dim);
/* What an update, an output or a copy takes its elements from. */
int lc_pass_taken(const lc_program *program, int id);
/* Whether it gets a variable in the loops. */
bool lc_pass_stands_alone(const lc_pass *pass, int id);

/* ---- what the text of a pass in C is made of: emit_mpi_map.c has its loops,
 * emit_mpi_sums.c the reductions inside of them. */

static inline bool lc_pass_stores(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	for (size_t i = 0; i < pass->stores.count; i++)
		if (pass->stores.at[i] == id) return true;
	return false;
}

/* ---- emit_mpi_map.c ---- */
static inline char lc_map_variable(int loop) {
	return (char)('i' + loop);
}
static inline lc_dtype lc_pass_format(const lc_pass *pass, int id) {
	return (lc_dtype)lc_node_at(pass->p, id)->dtype;
}

/* ---- emit_mpi_place.c: where a pass finds a number, and how the source writes it ---- */

/* "v_r", or of a scalar "c_lr": the variable of a value. */
char *lc_map_value_name(const lc_pass *pass, int id, char out[LC_IDENTIFIER]);
/* "s_r_i": the variable of a place's stride along a loop. */
void lc_put_stride_name(const lc_pass *pass, const lc_place *at, int loop, FILE *out);
/* Whether the place's elements follow each other along a loop. */
bool lc_steps_by_one(const lc_pass *pass, const lc_place *at, int loop);
/* The element of a place that a turn reads, in the format that is computed in. */
void lc_put_map_load(const lc_pass *pass, int place, lc_dtype t, FILE *out);
/* "p_r"; of a slice that is read in place "pv_r", for the slice itself may be stored, too. */
char *lc_map_place(const lc_pass *pass, const char *prefix, const lc_place *at,
                   char out[LC_IDENTIFIER]);
void lc_put_map_index(const lc_pass *pass, const lc_place *at, FILE *out);
lc_text lc_map_text(lc_pass *pass);

/* ---- emit_mpi_sums.c; ids are those of reductions and totals ---- */
/* How many outer loops the result moves along, if those are all that it moves along; else -1: sums
 * lie in memory. */
int lc_sum_loops(const lc_pass *pass, int id);
/* One sum for all calls of a ranged pass: in a variable inside, in memory between. */
bool lc_sum_carried(const lc_pass *pass, int id);
/* Whether it is made of blocks of the inner loop, or any is. */
bool lc_sum_blocked(const lc_pass *pass, int id);
bool lc_sums_blocked(const lc_pass *pass);
/* An element is added; a block of them. */
void lc_put_summed(lc_pass *pass, int id, int depth);
void lc_put_sum_block(lc_pass *pass, int id, int depth);
/* Sums in variables: those that begin inside of so many loops, by lc_begin_sum or lc_end_sum. */
void lc_begin_sum(lc_pass *pass, int id, int depth);
void lc_end_sum(lc_pass *pass, int id, int depth);
void lc_sums_at(lc_pass *pass, int loops, int depth, void (*put)(lc_pass *, int, int));
/* Sums in memory, and those that last over calls. */
void lc_begin_sums(lc_pass *pass, int id, int slot);
void lc_end_sums(lc_pass *pass, int id);

/* ---- emit_mpi_ring: what rings and overlaps share: one ring of the runtime
 * (data/target/mpi_ring.h) as text. */

enum { LC_RING_GATHERS = 8 }; /* RT_RING_GATHERS */

/* A reduce-scatter, a pass and all-gathers, as far as there are any. */
typedef struct lc_ring {
	const lc_step *pass; /* RING or MAP, or NULL */
	int scatter;         /* or -1 */
	int gather[LC_RING_GATHERS], gathers;
	int axis, d;
	int outer; /* dims of the pass's outer loop; those after are one trip */
	int64_t bucket, chunks;
	const char *produce, *arrive; /* functions that compute alongside the messages, or NULL */
	int rows_of, left; /* with them: the value whose rows they go by; the product's left operand */
	int sends; /* a send, -1: what it takes leaves this ring (gives), or what it brings is gathered
	            */
	bool gives;
} lc_ring;

/* What a step is as a ring; false where it cannot be one, with the reason. */
bool lc_ring_see(const lc_mpi *mpi, const lc_step *step, lc_ring *out, const char **why);
/* Whether two values have the same extents on every rank, but for how they lie along `axis`. */
bool lc_ring_alike(const lc_mpi *mpi, int a, int b, int axis);
/* Finds axis and dim of the collectives, and whether they fit together. */
bool lc_ring_ends(const lc_mpi *mpi, lc_ring *ring, const char **why);
/* Whether trips of the pass fit into what lies together. */
bool lc_ring_fits(const lc_mpi *mpi, const lc_ring *ring, const char **why);
/* The functions of a ring called NAME: the sum, the pass, and NAME itself. */
lk_status lc_ring_write(lc_mpi *mpi, lc_ring *ring, const char *name);

#endif
