/* run.h: the interpreter: what a program means, on every rank of a mesh, in one process.
 *
 * Numeric: every value is computed in double and rounded to its format after each operation (format.h). Products of
 * matrices and reductions over dims or lists add in double, in order, and are rounded once; reductions over ranks add
 * in the order of ranks and round after each addition. Dropout divides by 1 - p in double and rounds once. Literals
 * take the format of what they meet. Integers wrap; their quotient is truncated, by 0 it is 0. maximum(a,b) is b where
 * a < b, else a; minimum likewise. An index beyond the rows of its table is an error. A reduction over an empty slice
 * is 0, the lowest or the highest number of its format.
 *
 * Field: arithmetic modulo 2^61 - 1. Sums and products are exact and free of order there, constants are what they are
 * exactly; nonlinear functions are keyed hashes of their arguments, max and min go by a total order of keyed hashes,
 * comparisons are hashes, select(c,a,b) is ca + (1-c)b, division is by the field's inverse (of 0: a keyed hash; of
 * integers: a keyed hash), x^n with a literal whole n is a product, other powers a hash. A cast to a real format, or
 * between integers, is the identity, others are hashes; norm is the hash of the square root of a sum; dropout
 * multiplies by its true mask over 1 - p; an index is taken modulo the rows of its table.
 *
 * Inputs are drawn by the counter generator of draw.h from seed, name, item, rank (where ranks differ) and the index in
 * the whole tensor; a program and its rewrites get the same ones. In the field they are elements drawn from the same
 * counters; indices of tables are the same numbers as in numeric mode.
 */
#ifndef LK_LANG_RUN_H
#define LK_LANG_RUN_H

#include "lang/run/sizes.h"

typedef enum lc_arithmetic { LC_NUMERIC, LC_FIELD } lc_arithmetic;

enum {
	LC_CELLS_LIMIT = 1 << 27,       /* elements of all ranks together that a run may hold at a time */
	LC_PARTS_LIMIT = 1 << 24,       /* tensors, times values, times ranks */
};
#define LC_WORK_LIMIT 0x1p38        /* products of contractions on all ranks together: some minutes */

typedef struct lc_setting { const char *name; double value; } lc_setting;

typedef struct lc_run_options {
	lc_arithmetic arithmetic;
	uint64_t seed;                  /* of inputs, states and scalars */
	uint64_t key;                   /* FIELD: of the hashes */
	const lc_setting *settings;     /* scalars given by name; others are drawn */
	int setting_count;
	int64_t cells;                  /* elements at a time, and */
	double work;                    /* products in all, that are not to be exceeded; 0: the limits above */
	bool only_results;              /* frees what nobody reads any more; else every value can be asked for */
} lc_run_options;

typedef struct lc_run lc_run;       /* all values on all ranks */

/* A local tensor: `count` elements, in row-major order of the local extents. */
typedef struct lc_cells {
	int64_t count;
	double *number;                 /* NUMERIC, else NULL */
	uint64_t *element;              /* FIELD: 0 .. 2^61 - 2, else NULL */
} lc_cells;

lk_status lc_run_program(const lc_program *p, const lc_sizes *s, const lc_run_options *o, lc_run **out, lk_error *err);
void lc_run_free(lc_run *run);      /* accepts NULL */
/* What a rank holds of a value; NULL where it holds nothing. */
const lc_cells *lc_run_local(const lc_run *run, int id, int64_t item, int64_t rank);
/* The whole tensor put together from the ranks, in row-major order (P: reduced, in the order of ranks; L: refused), and
 * whether ranks that hold the same elements agree bit for bit (else an error names the first place). Cells are owned by
 * the run. */
lk_status lc_run_whole(lc_run *run, int id, int64_t item, const lc_cells **out, lk_error *err);
/* The same where L is among the layouts: the tensor that ranks hold whose places on the axes of L are those of `rank`.
 */
lk_status lc_run_whole_of(lc_run *run, int id, int64_t item, int64_t rank, const lc_cells **out, lk_error *err);

/* The numbers of rows of the tables that an input is an index of, directly or moved about; returns how many there are,
 * up to `limit`. Its integers are drawn below the smallest. */
int lc_index_rows(const lc_program *p, int id, lc_dim *out, int limit);
/* The rank that a draw counts with: its number among the axes where ranks differ (P, L), last axis fastest, plus 1; 0
 * where they do not differ. */
uint32_t lc_draw_rank(const lc_program *p, const lc_node *n, const lc_sizes *s, int64_t rank);

/* What a program leaves behind, in this order everywhere: its outputs in order, then the last version of each state in
 * the order of declaration. Ids in p; *count of them. */
lk_status lc_results(const lc_program *p, int *ids, int limit, int *count, lk_error *err);

/* verify.c: whether two programs do the same: results agree bit for bit in the field, on every mesh, for every draw. */
typedef struct lc_verify_options {
	uint64_t seed;
	int draws;                      /* per mesh; 0: 3 */
	const char *sizes;              /* as lc_sizes_read; what it leaves out is drawn, uneven slices included */
	const int *ranks; /* of each axis; NULL: {1,2,3,4,8}; all combinations of up to LC_VERIFY_RANKS ranks */
	int rank_count;
	bool exact_only;                /* leaves out the runs in numbers that `worst` is found by */
} lc_verify_options;

enum { LC_VERIFY_RANKS = 32 };

typedef struct lc_verdict {
	bool equal;
	int runs, meshes;               /* draws in all; different meshes */
	int skipped;                    /* meshes that the program or its rewrite cannot have */
	int64_t degree; /* bound on the degree of the results in what is drawn, that the chance follows from */
	double chance;  /* that programs which differ on one of the meshes and sizes drawn agreed in that draw */
	int choices;                    /* maxima and minima in the original: chance and degree leave them out (verify.c) */
	double worst; /* largest difference in numeric mode, in units of the last place of the largest element
					 of its tensor; NAN where not known */
	char where[192];                /* the first difference: result, mesh, rank, index */
	char tried[192];                /* the meshes, "1 2 3", "1x1 1x2 ..." */
} lc_verdict;

lk_status lc_verify(const lc_program *original, const lc_program *rewritten, const lc_verify_options *o,
					lc_verdict *out, lk_error *err);

#endif
