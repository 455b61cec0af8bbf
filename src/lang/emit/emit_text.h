/* emit_text.h: programs as C: what the targets share. Nothing of a program's text gets into a source but through these
 * functions: names as identifiers with a prefix, numbers from their binary value, comments escaped.
 *
 * Prefixes: d_ dims, q_ axes, k_ group indices, c_ scalars, v_ values in registers, p_ pointers to what lies in memory,
 * t_ values by number. The runtimes' own names begin with rt_, which none of these can equal.
 *
 * Expressions use the runtime's inline functions rt_NAME (double), rt_NAMEf (float) and rt_NAMEl (whole), LC_RT_OPS below,
 * rt_from_F, rt_to_F, rt_round_F for the narrow formats F, rt_to_F for whole ones, rt_truth, rt_dropout. Pointwise arithmetic is in float for f32 and narrower formats,
 * in double for f64 and in int64_t or uint64_t for whole numbers. Narrow results are rounded where a cast takes them up
 * and where they are stored, not after each operation: results differ from the interpreter's by what its own rounding
 * costs.
 */
#ifndef LK_LANG_TARGET_TEXT_H
#define LK_LANG_TARGET_TEXT_H

#include "lang/steps/steps.h"

enum { LC_IDENTIFIER = LC_NAME + 64 }; /* a name, a prefix, and what steps add to names */

/* ---- names, comments, numbers ---- */

/* prefix and name, what is no letter, digit or '_' as _XX. Returns `out`. */
char *lc_identifier(const char *prefix, const char *name, char out[LC_IDENTIFIER]);
/* "v_gr" for prefix "v"; "v12" for value 12 without a name; "v7_w" for an older version of the state w. */
char *lc_value_identifier(const lc_program *p, const char *prefix, int id, char out[LC_IDENTIFIER]);
/* Lines of a comment's inside, each after `lead`; "*" "/", "/" "*", backslashes at line ends, trigraphs and control
 * characters are broken up. */
void lc_put_comment(const char *text, const char *lead, FILE *out);
/* A string literal with its quotes. */
void lc_put_string(const char *text, FILE *out);
/* As a number of format t's register type: 0.1f, 0.1, INT64_C(3); reads back as the same number. */
void lc_put_number(double number, lc_dtype t, FILE *out);
void lc_put_tabs(int depth, FILE *out);

/* ---- formats ---- */

const char *lc_memory_type(lc_dtype t);   /* "uint16_t" for f16 and bf16, "uint8_t" for f8 and bool */
const char *lc_register_type(lc_dtype t); /* float, double, int64_t, uint64_t, bool; weak numbers: double */
const char *lc_format_name(lc_dtype t);   /* "RT_F16": of the runtime's enum rt_format */
bool lc_is_narrow(lc_dtype t);            /* a real format below f32 */
const char *lc_lowest_text(lc_dtype t);   /* where a maximum over nothing begins, and a minimum */
const char *lc_highest_text(lc_dtype t);
/* What is around the element in a load and in a store: "rt_from_f16(" ... ")", "(uint8_t)(" ... ")"; "(" ... ")". */
const char *lc_load_call(lc_dtype t);
const char *lc_store_call(lc_dtype t);

/* ---- sizes ---- */

/* A dim as an expression of int64_t by rt_plus, rt_times and rt_over, which give a negative number for what overflows or
 * is no whole number. `dims` and `axes` stand before identifiers of dims and axes ("z->"), `item` indexes the dims of
 * lists. Refused: a common divisor beyond 64 bits. */
typedef struct lc_dim_names {
	const char *dims, *axes, *item;
} lc_dim_names;
lk_status lc_put_dim(const lc_program *p, lc_dim d, const lc_dim_names *names, FILE *out, lk_error *err);

/* ---- pointwise values ---- */

typedef struct lc_text {
	const lc_program *p;
	FILE *out;
	/* Writes a value that is already there (a variable, an element of memory, a scalar, a size) and returns true, or
	 * returns false: then what it is made of is written. `view`: the slice through which it is read, or -1. */
	bool (*leaf)(void *context, int id, int view, FILE *out);
	/* Whether what leaf writes is rounded to the value's format already: it was loaded, or is a scalar. */
	bool (*rounded)(void *context, int id);
	/* Writes the index of a dropout's element in the whole tensor, and the item: "(uint64_t)(i), 0". */
	void (*place)(void *context, int id, int view, FILE *out);
	void *context;
	int view; /* -1 to begin with */
} lc_text;
/* Value id where `wanted` is computed (weak numbers become that): leaf or operation. */
void lc_put_value(const lc_text *t, int id, lc_dtype wanted);
/* What id is made of, without asking leaf for itself. `stored`: a cast need not round, for the store does. */
void lc_put_operation(const lc_text *t, int id, bool stored);
/* Whether a value is pointwise: MAP, dropout, slice, constant, size, scalar. */
bool lc_is_pointwise(const lc_node *n);

/* ---- passes over elements: loops and indices ----
 *
 * A pass goes over the local elements of one value, its space. A place is something that its elements are found in: a
 * tensor in memory, a slice of one that is read in place, a reduction's result, or the index in a whole tensor. Adjacent
 * dims become one loop where every place allows it.
 */
typedef enum lc_place_kind {
	LC_PLACE_PART,  /* element of what the rank holds of `id` */
	LC_PLACE_VIEW,  /* element of what the rank holds of `id`, for an element of its slice `view` */
	LC_PLACE_WHOLE, /* index in the whole tensor of `id` */
	LC_PLACE_RED,   /* element of the result of reduction `id`, for an element of its operand */
} lc_place_kind;

typedef struct lc_place {
	lc_place_kind kind;
	int id, view;           /* view: -1 */
	int8_t dim[LC_RANK];    /* of the space's dims: which dim of `id` they are, -1: repeated */
	bool inner[LC_RANK];    /* of the space's dims: the place holds all elements of that dim */
} lc_place;

typedef struct lc_loops {
	int space;
	int first[LC_RANK + 1]; /* loop l goes over dims first[l] .. first[l + 1] - 1 of the space */
	int count;              /* 0: one element */
} lc_loops;

lc_place lc_place_of(const lc_program *p, int space, lc_place_kind kind, int id, int view);
lc_loops lc_loops_of(const lc_program *p, int space, const lc_place *places, int count);
/* Whether the place's index is the space's own linear index. */
bool lc_place_dense(const lc_program *p, const lc_loops *loops, const lc_place *place);
/* Whether the place depends on loop l at all. */
bool lc_place_moves(const lc_loops *loops, const lc_place *place, int l);
/* The dims of `id` whose extents, multiplied, are the place's stride along loop l: those from *from up to its rank. */
void lc_place_stride(const lc_program *p, const lc_loops *loops, const lc_place *place, int l, int *from, int *rank);

/* The operations that expressions call: X(name, operands). */
#define LC_RT_OPS(X)                                                                                  \
	X(square, 1) X(pow, 2) X(min, 2) X(max, 2) X(sqrt, 1) X(exp, 1) X(log, 1) X(tanh, 1) X(erf, 1)    \
	X(relu, 1) X(gelu, 1) X(sigmoid, 1) X(abs, 1)

#endif
