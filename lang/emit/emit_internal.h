/* emit_internal.h: programs as C: shared by the targets. A program's text reaches the source only
 * through these functions: names as identifiers with a prefix, numbers from their binary value,
 * comments escaped.
 *
 * Prefixes: d_ dims, q_ axes, k_ group indices, c_ scalars, v_ values in registers, p_ pointers to
 * memory, t_ values by number. The runtimes' own names begin with rt_, which none of these can
 * equal.
 *
 * Expressions use the runtime's inline functions rt_NAME (double), rt_NAMEf (float) and rt_NAMEl
 * (integer), LC_RT_OPS below, rt_from_F, rt_to_F, rt_round_F for the narrow formats F, rt_to_F for
 * integer ones, rt_truth, rt_dropout. Pointwise arithmetic is in float for f32 and narrower
 * formats, in double for f64 and in int64_t or uint64_t for integers. Narrow results are rounded
 * before a cast and when stored, not after each operation: results differ from the interpreter's by
 * the effect of its roundings. */
#ifndef LK_LANG_EMIT_EMIT_INTERNAL_H
#define LK_LANG_EMIT_EMIT_INTERNAL_H

#include "base/text.h"
#include "base/check.h"
#include "lang/emit/emit.h"
#include "lang/steps/steps.h"

enum { LC_IDENTIFIER = LC_NAME + 64 }; /* a name, a prefix, and what steps append */

/* ---- names, comments, numbers ---- */

/* Prefix and name; characters other than letters, digits and '_' become _XX. Returns `out`. */
char *lc_identifier(const char *prefix, const char *name, char out[LC_IDENTIFIER]);
/* "v_gr" for prefix "v"; "v12" for value 12 without a name; "v7_w" for an older version of the
 * state w. */
char *lc_value_identifier(const lc_program *program, const char *prefix, int id,
                          char out[LC_IDENTIFIER]);
/* Write the lines of a comment, each after `lead`; "*" "/", "/" "*", backslashes at line ends,
 * trigraphs and control characters are broken up. */
void lc_put_comment(const char *text, const char *lead, FILE *out);
/* Write a string literal with its quotes. */
void lc_put_string(const char *text, FILE *out);
/* Write a number in format t's register type: 0.1f, 0.1, INT64_C(3); it reads back as the same
 * number. */
void lc_put_number(double number, lc_dtype t, FILE *out);
void lc_put_tabs(int depth, FILE *out);

/* ---- formats ---- */

const char *lc_memory_type(lc_dtype t); /* "uint16_t" for f16 and bf16, "uint8_t" for f8 and bool */
const char *lc_register_type(
	lc_dtype t); /* float, double, int64_t, uint64_t, bool; weak numbers: double */
const char *lc_format_name(lc_dtype t); /* the runtime's enum rt_format: "RT_F16" */
bool lc_is_narrow(lc_dtype t);          /* a real format below f32 */
const char *lc_lowest_text(lc_dtype t); /* the start of a maximum, and of a minimum, over no
                                           elements */
const char *lc_highest_text(lc_dtype t);
/* Text around the element in a load and in a store: "rt_from_f16(" ... ")", "(uint8_t)(" ... ")";
 * "(" ... ")". */
const char *lc_load_call(lc_dtype t);
const char *lc_store_call(lc_dtype t);

/* ---- sizes ---- */

/* Write a dim as an expression of int64_t by rt_plus, rt_times and rt_over, which give a negative
 * number on overflow or if it is not an integer. `dims` and `axes` precede identifiers of dims and
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
	/* Write an available value (a variable, an element of memory, a scalar, a size) and return
	 * true; false: its operation is written instead. `view`: the slice through which it is read, or
	 * -1. */
	bool (*leaf)(void *context, int id, int view, FILE *out);
	/* Whether leaf's text is already rounded to the value's format: a load or a scalar. */
	bool (*rounded)(void *context, int id);
	/* Write the index of a dropout's element in the whole tensor, and the item: "(uint64_t)(i),
	 * 0". */
	void (*place)(void *context, int id, int view, FILE *out);
	void *context;
	int view; /* initially -1 */
} lc_text;
/* Write value id, by leaf or operation, where `wanted` is computed (weak numbers take that
 * format). */
void lc_put_value(const lc_text *text, int id, lc_dtype wanted);
/* Write id's operation without trying leaf for id itself. `stored`: a cast need not round, because
 * the store does. */
void lc_put_operation(const lc_text *text, int id, bool stored);
/* Whether a value is pointwise: MAP, dropout, slice, constant, size, scalar. */
bool lc_is_expression(const lc_node *node);

/* ---- passes over elements: loops and indices ----
 *
 * A pass goes over the local elements of one value, its space. A place is where its elements are
 * found: a tensor in memory, a slice that is read in place, a reduction's result, or the index in a
 * whole tensor. Adjacent dims become one loop if every place allows it. */
typedef enum lc_place_kind {
	LC_PLACE_PART,  /* element of the rank's part of `id` */
	LC_PLACE_VIEW,  /* element of the rank's part of `id`, for an element of its slice `view` */
	LC_PLACE_WHOLE, /* index in the whole tensor of `id` */
	LC_PLACE_RED,   /* element of the result of reduction `id`, for an element of its operand */
} lc_place_kind;

typedef struct lc_place {
	lc_place_kind kind;
	int id, view;        /* view: -1 */
	int8_t dim[LC_RANK]; /* by dim of the space: which dim of `id` it is, -1: repeated */
	bool inner[LC_RANK]; /* by dim of the space: the place holds all elements of that dim */
} lc_place;

typedef struct lc_loops {
	int space;
	int first[LC_RANK + 1]; /* loop l covers dims first[l] .. first[l + 1] - 1 of the space */
	int count;              /* 0: one element */
} lc_loops;

lc_place lc_place_of(const lc_program *program, int space, lc_place_kind kind, int id, int view);
lc_loops lc_loops_of(const lc_program *program, int space, const lc_place *places, int count);
/* Whether the place's index is the space's linear index. */
bool lc_place_dense(const lc_program *program, const lc_loops *loops, const lc_place *place);
/* Whether the place depends on loop l. */
bool lc_place_moves(const lc_program *program, const lc_loops *loops, const lc_place *place, int l);
/* The dims of `id` whose extents multiply to the place's stride along loop l: from *from up to its
 * rank. */
void lc_place_stride(const lc_program *program, const lc_loops *loops, const lc_place *place, int l,
                     int *from, int *rank);

/* Operations called in expressions: X(name, operands). */
/* clang-format off */
#define LC_RT_OPS(X)                                                                                  \
	X(square, 1) X(pow, 2) X(min, 2) X(max, 2) X(sqrt, 1) X(exp, 1) X(log, 1) X(tanh, 1) X(erf, 1)    \
	X(relu, 1) X(gelu, 1) X(sigmoid, 1) X(abs, 1) X(sin, 1) X(cos, 1) X(exp2, 1) X(round, 1)
/* clang-format on */

/* ---- emit_header: functions by which another program calls an emitted one: names and
 * declarations. */

enum { LC_API = 3 * LC_IDENTIFIER };

/* "lk_PROGRAM", `what` ("_run_"), schedule or "". Returns `out`. */
char *lc_api_name(const lc_program *original, const char *what, const char *schedule,
                  char out[LC_API]);
/* Whether a value is an argument of a kind: 0 inputs, 1 states, 2 outputs. */
bool lc_api_is_argument(const lc_program *program, int id, int kind);
/* "in_g", "state_w", "out1", "out2_z" (`output` counts from 1). */
char *lc_api_argument(const lc_program *program, int id, int output, char out[LC_IDENTIFIER]);
/* Indices of groups in the order of first use; returns their number. */
int lc_api_indices(const lc_program *program, const char *names[LC_VALUES]);
/* Declare all functions; then, without ";", those of one schedule, for their definitions. */
void lc_api_declarations(const lc_program *original, const lc_variant *variants, int count,
                         bool cuda, FILE *out);
void lc_api_open_signature(const lc_program *original, const lc_variant *variant, bool cuda,
                           FILE *out);
void lc_api_signature(const lc_program *original, const lc_variant *variant, FILE *out);

/* ---- emit_mpi: shared by the files of the C+MPI target. One context per variant of the program (a
 * schedule).
 *
 * The generated source, per schedule number N of the table:
 *   enum { tN_NAME, ... }                      numbers of the values that have a part, see rt_part
 *   static const rt_value valuesN[]            their formats, dims, layouts, memory
 *   static void stepN_NAME(rt_run *run)        one step; loops over the tensors of its list
 *   static void runN(rt_run *run)              all steps in order
 *
 * In a step, run->part[tN_NAME][item] is this rank's part of a tensor: rt_part has data, whole,
 * begin, extent, count and `here` (false on ranks of other groups). run->mesh has ranks[axis],
 * at[axis] and the communicator along[axis].
 *
 * The file of a kind of step writes all its functions, helpers first. A RING is by default its
 * reduce-scatter, its pass and its all-gathers; an OVERLAP its parts. For these the reduce-scatter
 * and the operands of the gathers have parts with memory of their own, whatever lc_steps.storage
 * says, and so do values that parts pass to each other. */

typedef struct lc_mpi lc_mpi;
/* Emit a step of one kind, or of any kind. */
typedef lk_status lc_mpi_step(lc_mpi *mpi, const lc_step *step);

struct lc_mpi {
	const lc_program *original; /* whose numbering of scalars, dims and indices is used */
	const lc_program *p;
	const lc_steps *steps;
	FILE *out;
	int number;         /* of the schedule: part of all its names */
	const char *helper; /* in the names of functions of a step's parts, "step1pass_F"; else "" */
	int *memory; /* [values] the value whose part holds it: lc_steps.storage, plus what rings need;
	                -1: none */
	bool *part;  /* [values] has a part, perhaps without own memory */
	lc_life *life; /* [values] the steps between which own memory is in use; first -1: always */
	LK_VEC(int) touched;          /* values that passes read or write, for counting bytes */
	LK_VEC(const char *) indices; /* of groups, by the source's numbering */
	int choices;                  /* overlaps with two variants, tried at run time */
	lc_mpi_step *any;             /* of the target: for parts of a step, which are steps again */
	struct lc_kernels *kernels;   /* CUDA: kernels of the file so far */
	lk_arena arena;
	lk_error *err;
};

/* ---- emit_mpi_names.c ---- */
/* The value that has the part: the state of an update, the operand of an output. */
int lc_mpi_owner(const lc_mpi *mpi, int id);
/* The value whose memory it finally is. */
int lc_mpi_root(const lc_mpi *mpi, int id);
/* The part of a value, an expression of type rt_part *: "run->part[t1_gr]"; for lists
 * "&run->part[t1_gr][item]". */
char *lc_mpi_part(const lc_mpi *mpi, int id, char *out, size_t size);
/* For "%s%scount": a member of the part named by the text. */
#define LC_OF(part) (part) + (*(part) == '&'), *(part) == '&' ? "." : "->"
/* Its number: "t1_gr". */
char *lc_mpi_number(const lc_mpi *mpi, int id, char out[LC_IDENTIFIER]);
/* Prefix, '_' and the name, or prefix and number; without a prefix only the name or the number. */
char *lc_mpi_named(const lc_mpi *mpi, const char *prefix, int id, char out[LC_IDENTIFIER]);
/* "step1_gr", unique in the file. */
char *lc_mpi_function(const lc_mpi *mpi, const lc_step *step, char out[LC_IDENTIFIER]);
int lc_mpi_scalar(const lc_mpi *mpi, int id);           /* index among the program's scalars */
void lc_mpi_size(const lc_mpi *mpi, int id, FILE *out); /* size(...), a double */
int lc_mpi_index(lc_mpi *mpi, const char *name);        /* of a group; -1 for none */
bool lc_mpi_may_be_absent(const lc_mpi *mpi, int id);   /* some ranks may hold no part of it */
lk_status lc_mpi_touch(lc_mpi *mpi, int id);

/* ---- emit_mpi_tables.c ---- */
/* Decide which values have parts and which memory; write enum of their numbers, table, shapes,
 * conditions. */
lk_status lc_mpi_plan(lc_mpi *mpi);
lk_status lc_mpi_tables(lc_mpi *mpi);

/* ---- emit_mpi_api.c: definitions of the functions that emit_header.c declares ---- */
void lc_mpi_api_head(const lc_program *original, const lc_variant *variants, int count, bool cuda,
                     FILE *out);
void lc_mpi_api(const lc_mpi *mpi, const lc_variant *variant, bool cuda);

/* ---- one file per kind of step: each writes "static void stepN_NAME(rt_run *run)" and its helpers
 * ---- */
lc_mpi_step lc_mpi_map;      /* emit_mpi_map.c */
lc_mpi_step lc_mpi_contract; /* emit_mpi_contract.c: CONTRACT, ATTEND, ROWS */
lc_mpi_step lc_mpi_comm;     /* emit_mpi_comm.c: COMM and SEND */
lc_mpi_step lc_mpi_ring;     /* emit_mpi_ring.c */
lc_mpi_step lc_mpi_overlap;  /* emit_mpi_overlap.c */
/* emit_mpi_flow.c: an overlap as a pipeline of chunks; if that is impossible, done stays false, and
 * the reason is written as a comment. */
lk_status lc_mpi_flow(lc_mpi *mpi, const lc_step *step, bool *done);
lc_mpi_step lc_mpi_ring_plain,
	lc_mpi_overlap_plain; /* emit_mpi_plain.c: one part after the other */

/* ---- for rings: the pass of a step by ranges ---- */
/* Write "static void NAME(rt_run *run, int64_t item, int64_t from, int64_t to)": a MAP over the
 * elements from .. to - 1 along dim `cut` of its space, in any order. lc_mpi_cuts tells whether
 * that is possible: all that an element of its results needs is in one range. With cut -1 over the
 * whole tensor `item`. */
lk_status lc_mpi_range(lc_mpi *mpi, const lc_step *step, const char *name, int cut);
lk_status lc_mpi_cuts(lc_mpi *mpi, const lc_step *step, int cut, bool *can);
/* For a ring: write "(rt_run *run, int64_t item, int64_t from, int64_t to, const void *arrived,
 * int64_t skip)", trips from .. to - 1 of the outer loop, in ascending order, the first from 0, the
 * last up to the number of trips. Where it reads the reduce-scatter it adds, from trip `from` on,
 * the arrived part and this rank's; `skip`: from an index in the slice to one in the whole tensor.
 * Operands of gathers without other memory are written to the gathers' memory. */
lk_status lc_mpi_ring_pass(lc_mpi *mpi, const lc_step *step, const char *name);
/* The number of leading dims of the space in the outer loop (0: the pass has one element; the outer
 * loop then has one trip); rt_product(part, 0, outer) is the number of trips and rt_product(part,
 * outer, rank) the elements of each. */
lk_status lc_mpi_outer(lc_mpi *mpi, const lc_step *step, int *outer);
/* In emit_mpi_ring.c: write the reduction of elements a and b of memory in the format of
 * reduce-scatter `scatter`. */
void lc_put_join(const lc_node *scatter, const char *a, const char *b, FILE *out);
/* Write the call for a matmul, conv2d, attention, gather_rows, add_rows or view. */
void lc_mpi_contraction(lc_mpi *mpi, const lc_step *step, int depth);
/* Write "(rt_collective){.axis = 0, ...}" for a collective or send. */
void lc_put_settings(lc_mpi *mpi, const lc_node *node);
/* Write the statements for collectives of one kind between whole parts, for all tensors of their
 * list: declarations of `from` and `to`, a call. `bucket`: bytes of a message that joins tensors;
 * 0: one message per tensor. */
lk_status lc_mpi_collectives(lc_mpi *mpi, const int *ids, int count, int64_t bucket, int depth);

/* ---- emit_mpi.c: shared with other targets ---- */
/* Write a schedule: its comment, tables and steps, each by `any`, and the function that runs
 * them. */
lk_status lc_mpi_schedule(lc_mpi *mpi, const lc_variant *variant, lc_mpi_step *any);
/* Write a file with a context per variant. */
typedef lk_status lc_mpi_writer(const lc_program *original, const lc_variant *variants, int count,
                                lc_mpi *contexts, FILE *out, lk_error *err);
lk_status lc_mpi_write(const lc_program *original, const lc_variant *variants, int count,
                       lc_mpi_writer *write, FILE *out, lk_error *err);
lk_status lc_mpi_program_text(const lc_program *program, FILE *out,
                              lk_error *err);                          /* as lines of a comment */
lk_status lc_mpi_find_indices(lc_mpi *mpi, const lc_program *program); /* of groups: fills
                                                                          mpi->indices */
void lc_mpi_step_comment(const lc_mpi *mpi, const lc_step *step);
lk_status lc_mpi_axes(const lc_program *original, const lc_program *program, int number, FILE *out,
                      lk_error *err);
void lc_mpi_program_tables(const lc_program *program, const lc_mpi *mpi, FILE *out);
/* Write the program's schedules; `reaches`: with what kernels access on other ranks, else with what
 * passes read and write. */
void lc_mpi_program(const lc_program *program, const lc_variant *variants, int count, bool reaches,
                    FILE *out);
void lc_mpi_runtime(const char *const *files, FILE *out); /* files of data/; NULL ends the list */

/* ---- emit_pass: one pass over elements, analysed: which values it computes, loads and stores,
 * where they are found, and its loops. */

/* How a pass gets a value. */
typedef enum lc_source {
	LC_UNUSED,
	LC_LITERAL,  /* a constant: written where used */
	LC_NUMBER,   /* a single number: a variable before the loops */
	LC_LOADED,   /* an element of memory */
	LC_COMPUTED, /* computed for each element */
	LC_RESULT,   /* a reduction or total: available after the loops */
} lc_source;

typedef struct lc_pass {
	lc_mpi *c;
	const lc_program *p;
	const lc_step *step;
	lc_source *source; /* [values] */
	int *uses;         /* [values] uses in the pass */
	int *place;        /* [values] of loads and stores: index into places; -1 */
	int *whole;        /* [values] of dropouts: index into places */
	bool *inside;      /* [values] computed by this step */
	LK_VEC(lc_place) places;
	LK_VEC(int) stores;  /* values stored for each element, in order */
	LK_VEC(int) results; /* reductions and totals */
	lc_loops loops;
	bool ranged;  /* the outer loop goes from `from` to `to` */
	int cut_loop; /* the loop over a range of a dim, see lc_pass_cut; -1 */
	bool arrives; /* of a ring: includes the reduce-scatter's last addition */
} lc_pass;

/* Free with lc_pass_close; other memory is the context's. */
lk_status lc_pass_open(lc_mpi *mpi, const lc_step *step, lc_pass *out);
void lc_pass_close(lc_pass *pass);
/* Make the dim of the space the first of a loop, which goes over a range of it. */
void lc_pass_cut(lc_pass *pass, int dim);
/* The value whose elements an update, an output or a copy takes. */
int lc_pass_taken(const lc_program *program, int id);
/* Whether it gets a variable in the loops. */
bool lc_pass_stands_alone(const lc_pass *pass, int id);

/* ---- the text of a pass in C: emit_mpi_map.c has its loops, emit_mpi_sums.c the reductions in
 * them. */

static inline bool lc_pass_stores(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	for (size_t i = 0; i < pass->stores.count; i++)
		if (pass->stores.at[i] == id) return true;
	return false;
}

/* ---- emit_mpi_map.c ---- */
/* What comes before item i of a list. */
static inline const char *lc_comma(int i) {
	return i > 0 ? ", " : "";
}
/* The functions of a reduction are named by it: rt_max, rt_min, rt_add. */
static inline const char *lc_reduction_word(bool max, bool min) {
	if (max) return "max";
	return min ? "min" : "add";
}
static inline char lc_map_variable(int loop) {
	return (char)('i' + loop);
}
static inline lc_dtype lc_pass_format(const lc_pass *pass, int id) {
	return (lc_dtype)lc_node_at(pass->p, id)->dtype;
}

/* ---- emit_mpi_place.c: where a pass finds a number, and how the source writes it ---- */

/* "v_r", or for a scalar "c_lr": the variable of a value. */
char *lc_map_value_name(const lc_pass *pass, int id, char out[LC_IDENTIFIER]);
/* "s_r_i": the variable of a place's stride along a loop. */
void lc_put_stride_name(const lc_pass *pass, const lc_place *at, int loop, FILE *out);
/* Whether the place's elements are consecutive along a loop. */
bool lc_steps_by_one(const lc_pass *pass, const lc_place *at, int loop);
/* The element of a place in the current iteration, in the format of the computation. */
void lc_put_map_load(const lc_pass *pass, int place, lc_dtype t, FILE *out);
/* "p_r"; for a slice that is read in place "pv_r", because the slice itself may be stored, too. */
char *lc_map_place(const lc_pass *pass, const char *prefix, const lc_place *at,
                   char out[LC_IDENTIFIER]);
void lc_put_map_index(const lc_pass *pass, const lc_place *at, FILE *out);
lc_text lc_map_text(lc_pass *pass);

/* ---- emit_mpi_sums.c; ids are those of reductions and totals ---- */
/* How many outer loops the result moves along, if it moves along no others; else -1: sums are in
 * memory. */
int lc_sum_loops(const lc_pass *pass, int id);
/* Whether one sum covers all calls of a ranged pass: in a variable inside, in memory between
 * calls. */
bool lc_sum_carried(const lc_pass *pass, int id);
/* Whether the sum is computed in blocks of the inner loop; whether any is. */
bool lc_sum_blocked(const lc_pass *pass, int id);
bool lc_sums_blocked(const lc_pass *pass);
/* Write the addition of an element; of a block. */
void lc_put_summed(lc_pass *pass, int id, int depth);
void lc_put_sum_block(lc_pass *pass, int id, int depth);
/* Sums in variables: for those that begin inside this many loops, call lc_begin_sum or
 * lc_end_sum. */
void lc_begin_sum(lc_pass *pass, int id, int depth);
void lc_end_sum(lc_pass *pass, int id, int depth);
void lc_sums_at(lc_pass *pass, int loops, int depth, void (*put)(lc_pass *, int, int));
/* Sums in memory, and those that last over several calls. */
void lc_begin_sums(lc_pass *pass, int id, int slot);
void lc_end_sums(lc_pass *pass, int id);

/* ---- emit_mpi_ring: shared by rings and overlaps: one ring of the runtime
 * (data/target/mpi_ring.h) as text. */

enum { LC_RING_GATHERS = 8 }; /* RT_RING_GATHERS */

/* A reduce-scatter, a pass and all-gathers; each may be absent. */
typedef struct lc_ring {
	const lc_step *pass; /* RING or MAP, or NULL */
	int scatter;         /* or -1 */
	int gather[LC_RING_GATHERS], gathers;
	int axis, d;
	int outer; /* dims of the pass's outer loop; the later ones are one trip */
	int64_t bucket, chunks;
	const char *produce, *arrive; /* functions that compute concurrently with the messages, or
	                                 NULL */
	int rows_of, left; /* with those: the value whose rows they follow; the product's left
	                      operand */
	int sends; /* a send, -1: its operand leaves this ring (gives), or its result is gathered */
	bool gives;
} lc_ring;

/* Analyse a step as a ring; false if it cannot be one, with the reason. */
bool lc_ring_see(const lc_mpi *mpi, const lc_step *step, lc_ring *out, const char **why);
/* Whether two values have the same extents on every rank, except for their layout along `axis`. */
bool lc_ring_alike(const lc_mpi *mpi, int a, int b, int axis);
/* Find axis and dim of the collectives, and check that they fit together. */
bool lc_ring_ends(const lc_mpi *mpi, lc_ring *ring, const char **why);
/* Whether trips of the pass fit into contiguous memory. */
bool lc_ring_fits(const lc_mpi *mpi, const lc_ring *ring, const char **why);
/* Write the functions of a ring called NAME: the sum, the pass, and NAME itself. */
lk_status lc_ring_write(lc_mpi *mpi, lc_ring *ring, const char *name);

#endif
