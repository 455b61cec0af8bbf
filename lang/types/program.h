/* program.h: programs of computation and communication, the form that everything in lang/ reads and
 * makes.
 *
 * A program is an array of values in SSA form. A value has an operation, operands (ids of earlier
 * values), a number format, a shape and, for each mesh axis, a layout. Shapes are those of the
 * whole tensor; a rank's part follows from the layout. Names begin with lc_, because the step graph
 * has programs and nodes of its own.
 *
 * A state's update is its new version, under the same name; values that read an older version come
 * before the update.
 *
 * lc_add is the only way to append a value: it checks operands by the type rules and derives
 * format, shape, layout and group. The parser, rewrites and tests all build with it, so no
 * ill-typed program exists. */
#ifndef LK_LANG_TYPES_PROGRAM_H
#define LK_LANG_TYPES_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/vec.h"
#include "lang/types/ops.h"

enum {
	LC_AXES = 4,  /* mesh axes of a program */
	LC_DIMS = 36, /* named dims of a program */
	LC_SYMBOLS = LC_AXES + LC_DIMS,
	LC_RANK = 6,      /* dims of a tensor */
	LC_TERMS = 16,    /* in a dim that is a sum */
	LC_INPUTS = 6,    /* operands of a value */
	LC_VALUES = 4096, /* values of a program */
	LC_NAME = 64,     /* bytes of a name, its end included */
	LC_PROGRAMS = 64, /* programs of a file */
	LC_RANKS_OF_AXIS = 1 << 20,
};

/* Where the elements of a tensor are, along one mesh axis. A dim that is sliced over several axes
 * is cut by the first of them, its slices by the next. */
typedef enum lc_layout_kind {
	LC_R,    /* replicated: every rank holds the same */
	LC_S,    /* sliced: rank r holds slice r - turn of dim `dim`, modulo the ranks */
	LC_P,    /* partial: the tensor is the reduction (`reduce`) over the ranks */
	LC_ROOT, /* rank `root` holds it, the others nothing */
	LC_L,    /* local: every rank holds a tensor of its own */
} lc_layout_kind;

typedef struct lc_layout {
	uint8_t kind, reduce;
	int8_t dim;
	int32_t root, turn;
} lc_layout;

/* A number of elements, an index into lc_program.dims: canonical, so equal dims have equal ids. Id
 * 0 is 1. */
typedef int32_t lc_dim;

/* number / divisor * product of symbols to powers; symbols are first the axes' sizes, then the
 * named dims. */
typedef struct lc_term {
	int64_t number, divisor;
	int8_t power[LC_SYMBOLS];
} lc_term;
_Static_assert(sizeof(lc_term) == 16 + LC_SYMBOLS, "terms are compared as bytes");

typedef struct lc_dim_sum {
	int count;
	lc_term *terms; /* sorted, no two with equal powers */
} lc_dim_sum;

/* "at pp=k+1": the value lives on one group of ranks along an axis; axis -1: everywhere. */
typedef struct lc_group {
	int axis;
	const char *index; /* "k", or NULL */
	int64_t offset;
} lc_group;

typedef struct lc_node {
	uint8_t op, dtype, rank, inputs;
	int32_t in[LC_INPUTS];
	lc_dim dim[LC_RANK];
	lc_layout layout[LC_AXES];
	lc_group at, from; /* group of ranks that holds it; SEND: the sender's */
	int32_t list;      /* the list that its elements belong to, or -1 */
	/* attributes, if the operation has them */
	int8_t axis, d, e;    /* SIZE: axis -1 where `symbol` names a dim */
	uint8_t reduce;       /* lc_reduce */
	uint8_t dims, keep;   /* RED: set of dims; whether they stay as 1 */
	uint8_t ta, tb;       /* MATMUL: operand transposed */
	uint8_t reverse;      /* from the last element on */
	uint8_t causal, part; /* ATTEND: a query sees no later keys; the keys are this rank's alone */
	uint8_t stops;        /* no gradient passes: of stop(x), or because the contributions add up to
	                       0 */
	lc_dim count;         /* elements along the new dim, or along d: of views, ADD_ROWS */
	int32_t root, shift, stride, pad, symbol;
	int8_t by;      /* PERMUTE: 1 + the axis whose ranks shift by that many times their place;
	                         0: all by as much */
	int32_t window; /* ATTEND: keys before a query's place that it sees, itself counted; 0: all */
	int64_t key;
	double number;    /* CONST; DROPOUT: probability; ATTEND: scale, 0: 1/sqrt of a head's size */
	const char *name; /* NULL: part of a larger expression. UPDATE: the state's */
	const char *part_of; /* the name by which schedules know it: of its statement, or given by a
	                        directive; NULL for an output's own values and leaves */
	const char *said;    /* the call that made it, in the text's words, for messages: gradients and
	                        composed operations are many values; or NULL */
	const char *also;    /* a second such name: of the reduce-scatter that a value moved along with
	                        follows; or NULL */
	int16_t fuse, overlap, bucket; /* the bundles that it belongs to, or -1 */
	int line, column;
} lc_node;

typedef struct lc_axis {
	const char *name;
	int64_t size; /* 0: any */
} lc_axis;

typedef struct lc_named_dim {
	const char *name;
	int32_t list; /* every element of the list has its own; -1 */
} lc_named_dim;

/* value % divisor == 0 must hold when sizes are known: where slices become separate tensors, LOCAL.
 * Slices as such need not be equal, see lc_slice_begin. */
typedef struct lc_condition {
	lc_dim value, divisor;
	int line, column;
} lc_condition;

/* Schedules are kept as written; names in them are values, and names that earlier directives
 * introduced. */
typedef enum lc_directive_kind {
	LC_SPLIT,
	LC_REORDER,
	LC_SLICE_STATE,
	LC_FUSE,
	LC_OVERLAP,
	LC_BUCKET,
	LC_HIERARCHICAL,
	LC_RECOMPUTE,
	LC_RING,
	LC_ULYSSES,
	LC_DIRECTIVES
} lc_directive_kind;

typedef struct lc_word {
	const char *text;
	int line, column;
} lc_word;

typedef struct lc_directive {
	lc_directive_kind kind;
	lc_word *names; /* its operands; REORDER: the collective first */
	int name_count;
	lc_word *results; /* SPLIT, HIERARCHICAL: the new names; FUSE, OVERLAP: the label, if any;
	                     RECOMPUTE: the statements that read the copies */
	int result_count;
	const char *chunk; /* OVERLAP: "rows", "cols", "batches" or "" (any); NULL if not an overlap */
	int64_t chunks;    /* OVERLAP: number, 0 open */
	const char *order; /* OVERLAP: "ring", "linear" or NULL; SPLIT: "reduce" (as reduce and
	                      broadcast) or NULL */
	int64_t size;      /* BUCKET: bytes; HIERARCHICAL: ranks of an inner group */
	bool dim_given;    /* SPLIT: */
	int dim;           /* the dim to split; if not given, the first that fits */
	int line, column;
} lc_directive;

typedef struct lc_schedule {
	const char *name;
	lc_directive *directives;
	int count;
	int line, column;
} lc_schedule;

/* Values that a schedule runs together. It changes when they are computed, never what. */
typedef struct lc_bundle {
	lc_directive_kind
		kind; /* LC_FUSE: in one pass; LC_OVERLAP: chunk by chunk; LC_BUCKET: as joined messages */
	const char *name;          /* its label, or NULL */
	const char *chunk, *order; /* as in lc_directive */
	int64_t chunks, size;
} lc_bundle;

typedef struct lc_program {
	struct lc_file *file;
	const char *name;
	lc_axis axes[LC_AXES];
	int axis_count;
	lc_named_dim named[LC_DIMS];
	int named_count;
	LK_VEC(const char *) lists;
	LK_VEC(lc_dim_sum) dims;
	LK_VEC(lc_node) nodes; /* LK_VEC moves: keep ids, not pointers, across lc_add */
	LK_VEC(lc_condition) conditions;
	LK_VEC(lc_schedule) schedules;
	LK_VEC(lc_bundle) bundles; /* of a program that was rewritten by a schedule */
	bool derived;              /* it holds values without a word of their own in the text */
	struct {
		int loss, *of; /* [values] adjoints made by lc_gradient, for the loss; -1: none yet */
	} gradients;
	int line, column;
} lc_program;

static inline const lc_node *lc_node_at(const lc_program *program, int id) {
	return &program->nodes.at[id];
}
static inline int lc_node_count(const lc_program *program) {
	return (int)program->nodes.count;
}

/* One file: programs with their schedules. */
typedef struct lc_file {
	lk_arena arena; /* owns names and directives */
	const char *path;
	LK_VEC(lc_program *) programs;
	struct {
		int line, column;
	} mistake; /* place of an error, after lc_parse failed; line 0 if nowhere */
	bool lost; /* memory ran out for a text, see lc_text_open */
} lc_file;

/* ---- program.c ---- */
lc_file *lc_file_new(const char *path); /* NULL when memory runs out */
void lc_file_free(lc_file *file);       /* accepts NULL */
lc_program *lc_program_new(lc_file *file, const char *name);
/* A program with the same axes, dims and lists and no values, for a rewrite to fill. It is not one
 * of the file's programs, takes names from the file's arena, and must be freed before the file.
 * NULL when memory runs out. */
lc_program *lc_program_like(const lc_program *program);
void lc_program_free(lc_program *program); /* one made by lc_program_like; accepts NULL */
const char *lc_dtype_name(lc_dtype dtype);
const char *lc_reduce_name(lc_reduce reduce);
static inline bool lc_is_weak(lc_dtype t) {
	return t == LC_WEAK_INT || t == LC_WEAK_REAL;
}
static inline bool lc_is_real(lc_dtype t) {
	return t <= LC_F8 || t == LC_WEAK_REAL;
}
/* Whether a value is another name for its operand's elements on a rank, perhaps with other dims. */
bool lc_relabels(const lc_node *node);
/* A quotient of reals whose divisor is one number for all elements. */
static inline bool lc_divides_all(const lc_program *program, const lc_node *node) {
	return node->op == LC_DIV && lc_is_real((lc_dtype)node->dtype) && node->rank > 0 &&
	       program->nodes.at[node->in[1]].rank == 0;
}
static inline bool lc_is_integer(lc_dtype t) {
	return (t >= LC_I64 && t <= LC_U8) || t == LC_WEAK_INT;
}
bool lc_same_layout(const lc_layout *a, const lc_layout *b);
bool lc_same_group(const lc_group *a, const lc_group *b);
/* A stream into `out`, to be closed. NULL when memory runs out, which the file then records:
 * callers that return text check file->lost first. */
FILE *lc_text_open(const lc_program *program, char *out, size_t size);
/* Whether a value is of that family. */
bool lc_program_has(const lc_program *program, lc_family family);
/* Ids by name, -1 if unknown. Values: the newest version of a state. */
int lc_axis_find(const lc_program *program, const char *name);
int lc_dim_find(const lc_program *program, const char *name);
int lc_list_find(const lc_program *program, const char *name);
int lc_value_find(const lc_program *program, const char *name);
/* Declare; the name must be free. `size` 0: any. `list` -1: none. */
lk_status lc_axis_add(lc_program *program, const char *name, int64_t size, lk_error *err);
lk_status lc_dim_declare(lc_program *program, const char *name, int list, lk_error *err);
lk_status lc_list_add(lc_program *program, const char *name, lk_error *err);
/* Check that a name is free; the error says what it denotes. */
lk_status lc_name_free(const lc_program *program, const char *name, int line, int column,
                       lk_error *err);
/* Equal except for positions in the text and conditions, which follow from the values. */
bool lc_program_equal(const lc_program *a, const lc_program *b);
/* An error at a place of the file, "file:line:column". */
lk_status lc_wrong(const lc_program *program, int line, int column, lk_error *err, const char *fmt,
                   ...) LK_PRINTF(5, 6);
/* lc_wrong at a draft's place. */
#define lc_refuse(p, n, err, ...) lc_wrong((p), (n)->line, (n)->column, (err), __VA_ARGS__)

/* ---- dims.c ---- */
lk_status lc_dim_number(lc_program *program, int64_t number, lc_dim *out, lk_error *err);
lk_status lc_dim_named(lc_program *program, int named, lc_dim *out, lk_error *err);
lk_status lc_dim_axis(lc_program *program, int axis, lc_dim *out, lk_error *err);
lk_status lc_dim_plus(lc_program *program, lc_dim a, lc_dim b, int sign, lc_dim *out,
                      lk_error *err);
lk_status lc_dim_times(lc_program *program, lc_dim a, lc_dim b, lc_dim *out, lk_error *err);
/* a / b. b must be one product; records that it divides a. */
lk_status lc_dim_over(lc_program *program, lc_dim a, lc_dim b, int line, int column, lc_dim *out,
                      lk_error *err);
bool lc_dim_known(const lc_program *program, lc_dim d, int64_t *value);
/* The value when every symbol has one; LK_ERR_INPUT if it is not an integer >= 1 or does not
 * fit. */
lk_status lc_dim_value(const lc_program *program, lc_dim d, const int64_t size[LC_SYMBOLS],
                       int64_t *out, lk_error *err);
/* Divide the axis into two, of which the inner, the next, has `ranks`; dims keep their ids. */
lk_status lc_dims_refine(lc_program *program, int axis, int64_t ranks, lk_error *err);
int32_t lc_dim_list(const lc_program *program,
                    lc_dim d); /* the list whose dims occur in it, or -1 */
/* The named dim that d is by itself, if it is one of a list; else -1. Slices along such a dim cut
 * across the tensors, see lc_local_part. */
int lc_dim_across(const lc_program *program, lc_dim d);
void lc_dim_print(const lc_program *program, lc_dim d, FILE *out);
char *lc_dim_text(const lc_program *program, lc_dim d, char *out, size_t size);
/* Record value % divisor == 0; an error if it is known to be wrong. */
lk_status lc_divides(lc_program *program, lc_dim value, lc_dim divisor, int line, int column,
                     lk_error *err);

/* ---- types.c: a draft has op, operands, attributes, position and, if wanted, name and `at`;
 * leaves also dtype, shape, layout and list. Replicated operands next to sliced ones are sliced by
 * values that lc_add inserts. *id may be NULL. */
lc_node lc_draft(lc_op op, int line, int column); /* with axis, list and groups set to none */
lk_status lc_add(lc_program *program, const lc_node *draft, int *id, lk_error *err);

/* ---- asked.c: values made for one word of the text, at the place of its draft */
typedef struct lc_asker {
	lc_program *p;
	const lc_node *asked;
	lk_error *err;
} lc_asker;
lc_node lc_ask_draft(const lc_asker *ask, lc_op op);
lk_status lc_ask_unary(const lc_asker *ask, lc_op op, int a, int *out);
lk_status lc_ask_binary(const lc_asker *ask, lc_op op, int a, int b, int *out);
lk_status lc_ask_number(const lc_asker *ask, double number, int *out);
/* a * number, a + number and the like; a factor may be negative. */
lk_status lc_ask_with_number(const lc_asker *ask, lc_op op, int a, double number, int *out);
lk_status lc_ask_cast(const lc_asker *ask, lc_dtype dtype, int a, int *out);
/* 1 if the comparison of a with b holds, else 0; a number of the format. */
lk_status lc_ask_truth(const lc_asker *ask, lc_op compares, int a, int b, lc_dtype dtype, int *out);
lk_status lc_ask_view(const lc_asker *ask, lc_op op, int a, int d, int e, lc_dim count, int *out);
/* A reduction (LC_RED_SUM, ...) over a set of dims; over none: `a` itself. */
lk_status lc_ask_reduced(const lc_asker *ask, lc_op op, int a, unsigned dims, bool keep, int *out);

/* ---- composed.c: operations written as others. A call has its arguments: operands, d, dtype and
 * axis in `node`, sizes in their order. */
typedef struct lc_composed_call {
	lc_node node;
	lc_dim size[LC_RANK];
	int sizes;
} lc_composed_call;
typedef lk_status lc_composer(const lc_asker *ask, const lc_composed_call *call, int *out);
typedef struct lc_composed_row {
	const char *name;
	lc_composer *make;
	uint8_t arguments[LC_ARGUMENTS + 1]; /* lc_argument; LC_A_SIZES is last */
} lc_composed_row;
enum { LC_COMPOSED = 14 };
extern const lc_composed_row lc_composed[LC_COMPOSED];

/* ---- types_block.c: the dims, as a set, of an operand of that rank that one block spans ---- */
unsigned lc_block_dims(const lc_node *node, int rank);

/* ---- types_attend.c: what an operand of attention, or its result, is like ---- */
typedef enum lc_role {
	LC_AS_Q,      /* queries: [.., heads, positions, size of a head] */
	LC_AS_Y,      /* for each query a sum of values */
	LC_AS_NUMBER, /* for each query a number */
	LC_AS_K,      /* keys: fewer heads, if these divide those of queries */
	LC_AS_V,
} lc_role;
enum { LC_ATTENDED = -1 };
lc_role lc_attend_role(const lc_node *node, int k);
/* Whether one kernel makes both: attention and its lse, or gradients, of the same operands. */
bool lc_attend_siblings(const lc_node *a, const lc_node *b);

/* ---- gradient.c: the gradient of `loss`, one real number, with respect to value `by`: of its
 * shape and format, sliced if that is, else whole or partial (to be reduced). `asked` is a draft at
 * the place of the request. Refused: operations without a rule, values that the loss does not
 * depend on. */
lk_status lc_gradient(lc_program *program, int loss, int by, const lc_node *asked, int *out,
                      lk_error *err);
/* gradient_conv.c: the contribution of conv2d `node`, whose adjoint is `a`, to the adjoint of its
 * operand k. */
lk_status lc_gradient_conv(const lc_asker *ask, const lc_node *node, int k, int a, int *out);

/* gradient_attend.c: the same of attention `u`; `a` is whole or sliced. */
lk_status lc_gradient_attend(const lc_asker *ask, int u, int k, int a, int *out);

/* ---- parse_schedule.c, rewrite/rewrite.c ---- */
extern const char *const lc_directive_names[LC_DIRECTIVES];

/* ---- print.c, listing.c ---- */
/* Give names to values without one that have several uses or none, so that each can be written as a
 * statement. Parsed programs need it if backward passes were derived. */
lk_status lc_settle(lc_program *program, lk_error *err);
/* Settle, and put values into the order of the printed text. */
lk_status lc_arrange(lc_program *program, lk_error *err);
void lc_print_program(const lc_program *program, FILE *out);
void lc_print_schedule(const lc_program *program, const lc_schedule *schedule, FILE *out);
/* Print what a call has besides its operands: "sum, tp, dim=0"; a directive without line end. */
void lc_print_attributes(const lc_program *program, const lc_node *node, FILE *out);
void lc_print_directive(const lc_directive *directive, FILE *out);
void lc_print_file(const lc_file *file, FILE *out);
/* A value as an expression, cut to `size`; returns `out`. */
char *lc_value_text(const lc_program *program, int id, char *out, size_t size);
enum { LC_SHOWN = 48 }; /* bytes of an operand in messages */
/* "y", or the expression, cut. */
#define lc_shown(p, id, out) lc_value_text((p), (id), (out), LC_SHOWN)
/* "f16[B,S,H] @ S(2,tp)"; returns `out`. */
char *lc_type_text(const lc_program *program, const lc_node *node, char *out, size_t size);
char *lc_layout_text(const lc_program *program, const lc_layout *layout, int axis, char *out,
                     size_t size);
char *lc_group_text(const lc_program *program, const lc_group *group, char *out, size_t size);
void lc_print_listing(const lc_program *program, FILE *out);

/* ---- properties of operations ---- */

static inline bool lc_compares(int op) {
	return op >= LC_LT && op <= LC_NE;
}
static inline bool lc_is_pointwise(const lc_node *node) {
	return lc_ops[node->op].family == LC_MAP || lc_ops[node->op].family == LC_DROP;
}
static inline bool lc_is_reduction(const lc_node *node) {
	return lc_ops[node->op].family == LC_RED || lc_ops[node->op].family == LC_TOTALS;
}
/* Whether its ranks communicate; a slice and another name for a value do not. */
static inline bool lc_is_collective(const lc_node *node) {
	return lc_ops[node->op].family == LC_COMM && node->op != LC_SLICE && !lc_relabels(node);
}
/* Dim d of a reduction's operand as a dim of its result; -1 where it is gone. */
static inline int lc_reduced_dim(const lc_node *node, int d) {
	int at = d;
	if (node->dims >> d & 1) return -1;
	for (int below = 0; below < d && !node->keep; below++) at -= node->dims >> below & 1;
	return at;
}

static inline const lc_node *lc_in(const lc_program *program, const lc_node *node, int i) {
	return &program->nodes.at[node->in[i]];
}

#endif
