/* run_values.h: the insides of a run: the parts of values that ranks hold, and the operations, one file per family. */
#ifndef LK_LANG_RUN_VALUES_H
#define LK_LANG_RUN_VALUES_H

#include "lang/run/field.h"
#include "lang/run/format.h"
#include "lang/run/run.h"

/* Where a rank's part lies in the whole tensor. */
typedef struct lc_box {
	int rank;
	int64_t begin[LC_RANK], extent[LC_RANK], count;
} lc_box;

struct lc_run {
	const lc_program *p;
	const lc_sizes *s;
	lc_run_options o;
	int64_t ranks;
	lc_cells **parts;          /* [values][items * ranks]; without number and element where a rank holds nothing */
	int *last_reader;          /* [values] the id of the value that reads it last; the number of values for results */
	int64_t held, work;        /* cells in memory; products so far */
	LK_VEC(lc_cells *) wholes; /* made by lc_run_whole */
	lk_arena arena;
};

/* What an operation is at: one tensor of one value on one rank. */
typedef struct lc_at {
	lc_run *run;
	const lc_node *n;
	int id;
	int64_t item, rank;
	lc_box box;                /* of the result on this rank */
	lc_cells *out;             /* to be filled */
	lk_error *err;
} lc_at;

static inline bool lc_held(const lc_cells *c) { return c->number || c->element; }
static inline lc_cells *lc_part_of(const lc_run *run, int id, int64_t item, int64_t rank) {
	return &run->parts[id][item * run->ranks + rank];
}
static inline bool lc_in_field(const lc_run *run) { return run->o.arithmetic == LC_FIELD; }

/* ---- run.c ---- */
/* Where the part of a value on a rank lies; false if it has none. */
lk_status lc_box_of(const lc_run *run, const lc_node *n, int64_t item, int64_t rank, lc_box *box, bool *held,
					lk_error *err);
/* Operand i on the rank of `at`, with its box. */
lk_status lc_operand(const lc_at *at, int i, const lc_cells **cells, lc_box *box);
lk_status lc_cells_new(lc_run *run, int64_t count, lc_cells *out, lk_error *err);
void lc_cells_share(const lc_cells *from, lc_cells *out);
void lc_cells_drop(lc_run *run, lc_cells *cells);
/* Counts work against the limit of a run. */
lk_status lc_run_spend(lc_run *run, const lc_node *n, double products, lk_error *err);
lk_status lc_run_wrong(const lc_at *at, const char *fmt, ...) LK_PRINTF(2, 3);

/* The operand whose cells a value shares, or -1: it is another name, or another view, of it. */
int lc_same_cells(const lc_node *n);

/* ---- one file each: fills at->out ---- */
typedef lk_status lc_operation(lc_at *at);
lc_operation lc_run_leaf;                             /* run_draw.c */
lc_operation lc_run_map, lc_run_dropout;              /* run_map.c */
lc_operation lc_run_red, lc_run_total;                /* run_red.c */
lc_operation lc_run_matmul, lc_run_conv, lc_run_rows; /* run_contract.c */
/* run_comm.c: of one tensor, on all ranks at once. `n`: the value's node, or one like it. */
lk_status lc_run_comm(lc_run *run, const lc_node *n, int id, int64_t item, lk_error *err);
/* run_bound.c: a run in numbers that has kept all its values; each of *out's is a bound on how far another execution of
 * the same program, or exact arithmetic, may be from it there. */
lk_status lc_run_bounds(const lc_run *run, lc_run **out, lk_error *err);

/* ---- run_walk.c: the rows that a result and its operands share ---- */
typedef struct lc_walk {
	int rank;
	int64_t extent[LC_RANK];
	int64_t stride[LC_INPUTS][LC_RANK];
} lc_walk;
/* The operands of `at` on its rank, aligned with at->box. */
lk_status lc_walk_operands(const lc_at *at, lc_walk *w, const lc_cells *in[LC_INPUTS]);
/* Calls for each row of the result: its first element, its length, the first element of each operand and its steps. */
typedef void lc_on_row(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
					   const int64_t stride[LC_INPUTS]);
void lc_each_row(const lc_walk *w, int inputs, lc_on_row *call, void *state);

/* ---- run_map_field.c: one row of a pointwise operation in the field ---- */
typedef struct lc_field_row {
	int op;
	bool integer, hashed_cast; /* of integers: / is a hash; a cast that is no embedding: a hash */
	int64_t exponent;          /* POW by a literal: the exponent; else LC_NO_EXPONENT */
	uint64_t key;
} lc_field_row;
#define LC_NO_EXPONENT INT64_MIN
void lc_map_field(const lc_field_row *row, int64_t count, const uint64_t *const in[LC_INPUTS],
				  const int64_t stride[LC_INPUTS], uint64_t *out);
uint64_t lc_field_divide(uint64_t key, uint64_t a, uint64_t b);
/* The one that stands higher in the order of hashes; LC_NOTHING stands below and above all. */
uint64_t lc_field_choose(uint64_t key, bool most, uint64_t a, uint64_t b);

/* ---- run_comm.c: boxes ---- */
typedef struct lc_join {
	bool combine;              /* else copy */
	lc_reduce reduce;
	lc_dtype dtype;
	uint64_t key;
} lc_join;
/* The elements of `from` that lie in `to` as well, joined into it; returns how many. */
int64_t lc_join_boxes(const lc_join *join, const lc_cells *from, const lc_box *from_box, lc_cells *to,
					  const lc_box *to_box);

#endif
