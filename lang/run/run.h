/* run.h: sizes: numbers for what a program leaves open: ranks of each axis, dims, the tensors of
 * lists, groups' indices.
 *
 * Slices: of n elements over P ranks, the first n % P ranks hold one more than the others, so that
 * every size can be sliced over every number of ranks. The interpreter and all targets cut only
 * with lc_slice_begin.
 *
 * A list is a flat buffer, and its tensors are views of it: along a dim of the list, tensors lie
 * end to end, and it is their joint length that is cut. A slice holds whole tensors, and pieces of
 * those at its two ends. */
#ifndef LK_LANG_RUN_RUN_H
#define LK_LANG_RUN_RUN_H

#include "lang/types/program.h"

typedef struct lc_index {
	const char *name; /* as in "at pp=k" */
	int64_t value;
} lc_index;

typedef struct lc_sizes {
	int64_t symbol[LC_SYMBOLS]; /* axes, then named dims; a list's dim: 0 */
	int64_t *items;             /* [lists] number of tensors */
	int64_t *each[LC_DIMS];     /* a list's dim: [items of its list] */
	int64_t *before[LC_DIMS];   /* [items + 1] what lies before each tensor; the joint length */
	LK_VEC(lc_index) indices;   /* 0 if not given */
	lk_arena arena;
} lc_sizes;

/* The first element of rank r's slice; r == ranks: n. */
static inline int64_t lc_slice_begin(int64_t n, int64_t ranks, int64_t r) {
	int64_t more = n % ranks;
	return n / ranks * r + (r < more ? r : more);
}

enum {
	LC_RANKS = 4096,      /* of a mesh that is interpreted or run */
	LC_AXIS_STEM = 40,    /* bytes of an axis' name that begin the names of its parts, before "_" */
	LC_ITEMS = 65536,     /* tensors of a list */
	LC_EXTENTS = 1 << 24, /* extents checked: values or dims, times the tensors of a list */
};

/* Parse "dp=4,N=1000,params.N=3:5:7": axes, dims, indices by name; a list's dim has one number for
 * each of its tensors, or "@FILE" with a number per line (blanks and # comments allowed). NULL or
 * "": all defaults, small ones: every axis its fixed size or `ranks` (the last axis; the others 1,
 * or what sends and roots need), dims such that all conditions hold. Refused: unknown names (with
 * the nearest), numbers < 1 or too large, lists of unequal length, conditions that do not hold,
 * groups beyond the axis, another size for an axis of fixed size. *out must be freed in every
 * case. */
lk_status lc_sizes_read(const lc_program *program, const char *text, int64_t ranks, lc_sizes *out,
                        lk_error *err);
/* The same, with what the text leaves out drawn by seed: small dims that satisfy the conditions,
 * mostly not divisible by anything. axes: ranks where the text does not say; 0: as above, of 1
 * rank. */
lk_status lc_sizes_draw(const lc_program *program, const char *text, const int64_t axes[LC_AXES],
                        uint64_t seed, lc_sizes *out, lk_error *err);
void lc_sizes_free(lc_sizes *sizes);
/* Fill in `before` for the lists' dims in `each`. Refused: 2^63 elements and more. */
lk_status lc_sizes_lay_out(const lc_program *program, lc_sizes *sizes, lk_error *err);
/* Check sizes against the program: conditions hold, all extents are >= 1, groups exist. Sizes of
 * one program also fit those rewritten from it, unless the mesh is refined. */
lk_status lc_sizes_check(const lc_program *program, const lc_sizes *sizes, lk_error *err);

/* The same for axes and indices only. */
lk_status lc_sizes_check_mesh(const lc_program *program, const lc_sizes *sizes, lk_error *err);
/* The sizes of a program for q, which was rewritten from it: the same, or, if q has several axes in
 * place of one (groups, and ranks of a group; "dp" has become "dp_o" and "dp_i"), that axis' ranks
 * divided among them. Refused: ranks that do not divide. *out must be freed in every case. */
lk_status lc_sizes_refine(const lc_program *program, const lc_sizes *sizes, const lc_program *q,
                          lc_sizes *out, lk_error *err);

int64_t lc_ranks(const lc_program *program, const lc_sizes *sizes); /* of the whole mesh */
/* Ranks count with the last axis fastest. */
int64_t lc_coordinate(const lc_program *program, const lc_sizes *sizes, int64_t rank, int axis);
int64_t lc_items(const lc_program *program, const lc_sizes *sizes,
                 const lc_node *node); /* 1 for a value of no list */
/* Fill in the symbols' values for one tensor of a list. */
void lc_item_symbols(const lc_program *program, const lc_sizes *sizes, int64_t item,
                     int64_t out[LC_SYMBOLS]);
/* Extents of the whole tensor. `item`: which of its list. */
lk_status lc_whole_shape(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                         int64_t item, int64_t out[LC_RANK], lk_error *err);
/* The part of `rank` of a tensor, or of tensor `item` of its list: first element and extent along
 * each dim; extents may be 0. False: none, because the value is on another group or root. */
bool lc_local_part(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                   int64_t item, const int64_t whole[LC_RANK], int64_t rank, int64_t begin[LC_RANK],
                   int64_t extent[LC_RANK]);
int64_t lc_group_place(const lc_program *program, const lc_sizes *sizes,
                       const lc_group *group); /* the coordinate it denotes */

/* ---- run: the interpreter: the meaning of a program, on every rank of a mesh, in one process.
 *
 * Numeric: every value is computed in double and rounded to its format after each operation.
 * Products of matrices and reductions over dims or lists add in double, in order, and are rounded
 * once; reductions over ranks add in the order of ranks and round after each addition. Dropout
 * divides by 1 - p in double and rounds once. Literals take the format of the other operand.
 * Integers wrap; their quotient is truncated, by 0 it is 0. maximum(a,b) is b where a < b, else a;
 * minimum likewise. An index beyond the rows of its table is an error. A reduction over an empty
 * slice is 0, the lowest or the highest number of its format.
 *
 * Field: arithmetic modulo 2^61 - 1. Sums and products are exact and independent of order;
 * constants have their exact values; nonlinear functions are keyed hashes of their arguments, max
 * and min follow a total order of keyed hashes, comparisons are hashes, select(c,a,b) is ca +
 * (1-c)b, division is by the field's inverse (of 0: a keyed hash; of integers: a keyed hash), x^n
 * with an integer literal n is a product, other powers a hash. A cast to a real format, or between
 * integers, is the identity, others are hashes; norm is the hash of the square root of a sum;
 * dropout multiplies by its true mask over 1 - p; an index is taken modulo the rows of its table.
 *
 * Inputs are drawn by the counter generator of run_draw.c from seed, name, item, rank (where ranks
 * differ) and the index in the whole tensor; a program and its rewrites get the same ones. In the
 * field they are elements drawn from the same counters; indices of tables are the same numbers as
 * in numeric mode. */

typedef enum lc_arithmetic { LC_NUMERIC, LC_FIELD } lc_arithmetic;

enum {
	LC_CELLS_LIMIT = 1 << 27, /* elements on all ranks together that a run may hold at a time */
	LC_PARTS_LIMIT = 1 << 24, /* tensors, times values, times ranks */
};
#define LC_WORK_LIMIT 0x1p38 /* products of contractions on all ranks together: some minutes */

typedef struct lc_setting {
	const char *name;
	double value;
} lc_setting;

/* Numbers of an input, state or scalar: the whole tensor's, row by row. A sum that ranks hold in
 * parts lies on the first of them, zeros on the others. */
typedef struct lc_given {
	const char *name;
	const double *number;
	int64_t count;
} lc_given;

/* An element set to another number after it was computed, on all ranks that hold it: makes a run
 * follow another choice than its own where two values are within rounding (run_bound.c). */
typedef struct lc_nudge {
	int id;
	int64_t item, rank, element; /* index in this rank's part */
	double to;
	double bound; /* distance of another execution from that number, at most */
} lc_nudge;

typedef struct lc_run_options {
	lc_arithmetic arithmetic;
	uint64_t seed;              /* of inputs, states and scalars */
	uint64_t key;               /* FIELD: of the hashes */
	const lc_setting *settings; /* scalars given by name; others are drawn */
	int setting_count;
	const lc_given *given; /* NUMERIC: leaves given by name */
	int given_count;
	int64_t cells; /* limit of elements held at a time */
	double work;   /* limit of products in all; 0: the limits above */
	const lc_nudge *nudges;
	int nudge_count;
	bool only_results; /* free values after their last reader; else all values are kept */
} lc_run_options;

typedef struct lc_run lc_run; /* all values on all ranks */

/* A local tensor: `count` elements, in row-major order of the local extents. */
typedef struct lc_cells {
	int64_t count;
	double *number;    /* NUMERIC, else NULL */
	uint64_t *element; /* FIELD: 0 .. 2^61 - 2, else NULL */
} lc_cells;

lk_status lc_run_program(const lc_program *program, const lc_sizes *sizes,
                         const lc_run_options *options, lc_run **out, lk_error *err);
void lc_run_free(lc_run *run); /* accepts NULL */
/* A rank's part of a value; NULL if it has none. */
const lc_cells *lc_run_local(const lc_run *run, int id, int64_t item, int64_t rank);
/* Assemble the whole tensor from the ranks, in row-major order (P: reduced, in the order of ranks;
 * L: refused), and check that ranks holding the same elements agree bit for bit (else an error
 * names the first place). Cells are owned by the run. */
lk_status lc_run_whole(lc_run *run, int id, int64_t item, const lc_cells **out, lk_error *err);
/* The same with L among the layouts: the tensor of the ranks with the same places on the axes of L
 * as `rank`. */
lk_status lc_run_whole_of(lc_run *run, int id, int64_t item, int64_t rank, const lc_cells **out,
                          lk_error *err);

/* Store the numbers of rows of the tables that an input indexes, directly or after moves; returns
 * their number, up to `limit`. The input's integers are drawn below the smallest. */
int lc_index_rows(const lc_program *program, int id, lc_dim *out, int limit);
/* The rank number used in draws: its index over the axes where ranks differ (P, L), last axis
 * fastest, plus 1; 0 if ranks do not differ. */
uint32_t lc_draw_rank(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                      int64_t rank);

/* Results of a program, in this order everywhere: its outputs in order, then the last version of
 * each state in the order of declaration. Stores ids and their *count. */
lk_status lc_results(const lc_program *program, int *ids, int limit, int *count, lk_error *err);

/* verify.c: whether two programs do the same: results agree bit for bit in the field, on every
 * mesh, for every draw. */
typedef struct lc_verify_options {
	uint64_t seed;
	int draws;         /* per mesh; 0: 3 */
	const char *sizes; /* as for lc_sizes_read; the rest is drawn, uneven slices included */
	const int *ranks;  /* of each axis; NULL: {1,2,3,4,8}; all combinations of up to LC_VERIFY_RANKS
	                      ranks */
	int rank_count;
	bool exact_only; /* skip the numeric runs that give `worst` */
} lc_verify_options;

enum { LC_VERIFY_RANKS = 32 };

typedef struct lc_verdict {
	bool equal;
	int runs, meshes; /* draws in all; different meshes */
	int skipped;      /* meshes that do not fit the program or its rewrite */
	int64_t degree;   /* bound on the degree of the results in the drawn variables, from which the
	                     chance follows */
	double chance; /* that programs which differ on one of the meshes and sizes drawn agreed in that
	                  draw */
	int choices;   /* maxima and minima in the original, which chance and degree leave out
	                  (verify.c) */
	double worst;  /* largest difference in numeric mode, in units of the last place of the largest
	                  element of its tensor; NAN if unknown */
	char where[192]; /* the first difference: result, mesh, rank, index */
	char tried[192]; /* the meshes, "1 2 3", "1x1 1x2 ..." */
} lc_verdict;

lk_status lc_verify(const lc_program *original, const lc_program *rewritten,
                    const lc_verify_options *options, lc_verdict *out, lk_error *err);

/* ---- summary: results of a run in few numbers. */

enum { LC_FIRST = 4 }; /* elements shown */

typedef struct lc_summary {
	int id;
	int64_t tensors,
		elements;            /* tensors of a list, or of the ranks of an axis if each has its own */
	int64_t extent[LC_RANK]; /* of the first tensor */
	uint64_t digest;         /* over all elements of all tensors, in order */
	double least, most,
		mean; /* NUMERIC; NAN in the field; least and most without comparable elements are NAN */
	double first[LC_FIRST];
	uint64_t element[LC_FIRST]; /* FIELD */
	int firsts;
} lc_summary;

lk_status lc_summarize(lc_run *run, const lc_program *program, const lc_sizes *sizes, int id,
                       lc_summary *out, lk_error *err);
/* Whether a rank is the first of a group of ranks that holds its own tensor: it is 0 on every axis
 * but those of L. */
bool lc_first_of_local(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                       int64_t rank);
/* "w", or "out 1" for the first output without a name. */
char *lc_result_name(const lc_program *program, int id, char *out, size_t size);

/* ---- degree: how strongly agreement on random elements of the field proves that programs are
 * equal (degree.c). */

typedef struct lc_degree {
	double above, below; /* of a rational function: its numerator and denominator */
} lc_degree;

/* Of a program at given sizes. */
typedef struct lc_degrees {
	double result;   /* of the results: largest sum of numerator and denominator degree */
	double argument; /* the same for arguments of hashes and divisors */
	double hashes;   /* number of keyed hashes and divisions, on all ranks */
	int choices;     /* maxima and minima */
} lc_degrees;

lk_status lc_degrees_of(const lc_program *program, const lc_sizes *sizes, lc_degrees *out,
                        lk_error *err);
/* The largest chance that two programs which differ at these sizes agree in one draw. */
double lc_chance(const lc_degrees *a, const lc_degrees *b);

#endif
