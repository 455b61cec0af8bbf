/* run_internal.h: internals of a run: the ranks' parts of values, and the operations, one file per
 * family. */
#ifndef LK_LANG_RUN_RUN_INTERNAL_H
#define LK_LANG_RUN_RUN_INTERNAL_H

#include <math.h>
#include <stdint.h>

#include "lang/run/run.h"
#include "lang/types/program.h"

/* ---- field: arithmetic modulo the prime 2^61 - 1. Elements are 0 .. 2^61 - 2.
 *
 * 2^61 is 1 here, so a product's high bits are added to its low ones. */

#define LC_PRIME ((1ull << 61) - 1)
/* No element: the maximum over nothing. */
#define LC_NOTHING UINT64_MAX

__extension__ typedef unsigned __int128 lc_wide;

static inline uint64_t lc_field_reduce(lc_wide x) {
	uint64_t sum = (uint64_t)(x & LC_PRIME) + (uint64_t)(x >> 61 & LC_PRIME) + (uint64_t)(x >> 122);
	sum = (sum & LC_PRIME) + (sum >> 61);
	return sum >= LC_PRIME ? sum - LC_PRIME : sum;
}

static inline uint64_t lc_field_add(uint64_t a, uint64_t b) {
	return a + b >= LC_PRIME ? a + b - LC_PRIME : a + b;
}
static inline uint64_t lc_field_negate(uint64_t a) {
	return a ? LC_PRIME - a : 0;
}
static inline uint64_t lc_field_subtract(uint64_t a, uint64_t b) {
	return lc_field_add(a, lc_field_negate(b));
}
static inline uint64_t lc_field_multiply(uint64_t a, uint64_t b) {
	return lc_field_reduce((lc_wide)a * b);
}

static inline uint64_t lc_field_power(uint64_t base, uint64_t exponent) {
	uint64_t result = 1;
	for (; exponent; exponent >>= 1, base = lc_field_multiply(base, base))
		if (exponent & 1) result = lc_field_multiply(result, base);
	return result;
}

/* By Fermat: a^(p-2); for 0 it gives 0, which callers replace. */
static inline uint64_t lc_field_inverse(uint64_t a) {
	return lc_field_power(a, LC_PRIME - 2);
}

/* The exact value of a finite double: an integer times a power of 2. */
static inline uint64_t lc_field_number(double x) {
	int exponent;
	double fraction = frexp(fabs(x), &exponent);
	uint64_t whole = (uint64_t)ldexp(fraction, 53); /* x = whole * 2^(exponent - 53) */
	uint64_t shift = (uint64_t)(((exponent - 53) % 61 + 61) % 61);
	uint64_t element = lc_field_multiply(whole, 1ull << shift);
	return x < 0 ? lc_field_negate(element) : element;
}

/* Keyed hashes: a mixing of 64 bits with full avalanche (the finisher of MurmurHash3 and of
 * splitmix64), once per word. */
static inline uint64_t lc_mix(uint64_t x) {
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline uint64_t lc_hash_word(uint64_t key, uint64_t a) {
	return lc_mix(lc_mix(a + 0x9e3779b97f4a7c15u) ^ key);
}

static inline uint64_t lc_hash_field(uint64_t key, uint64_t a) {
	uint64_t h = lc_hash_word(key, a) >> 3;
	return h == LC_PRIME ? 0 : h;
}

static inline uint64_t lc_hash_pair(uint64_t key, uint64_t a, uint64_t b) {
	return lc_hash_field(lc_hash_word(key, a), b);
}

/* ---- format: numbers in their formats. A number is a double everywhere in the interpreter; these
 * functions define which doubles a format has.
 *
 * Real formats round to nearest, ties to even, subnormals included: f16 is IEEE 754 binary16, bf16
 * has f32's exponent and 8 bits of precision; both overflow to infinity. f8 is e4m3fn of the OCP
 * 8-bit floating point specification 1.0 in its saturating mode: largest number 448, no infinities;
 * larger values, infinities included, become 448.
 *
 * Integers wrap like C's unsigned ones, signed ones in two's complement. A real becomes an integer
 * by truncation and saturates at the ends of the format; NAN becomes 0. A quotient is truncated; by
 * 0 it is 0. Integers of 64 bits are exact up to 2^53, the limit of a double. Bool is 0 or 1. */

/* Convert a number of format `from` to `to`. Weak formats are doubles: literals are exact until
 * they meet another format. */
double lc_convert(lc_dtype from, lc_dtype to, double x);
/* Round results of arithmetic in double to a real format, in place. Other formats: unchanged. */
void lc_round_all(lc_dtype to, double *x, int64_t count);
static inline double lc_round(lc_dtype to, double x) {
	return lc_round_all(to, &x, 1), x;
}

/* Integers as bits: two's complement in 64 bits, and back, wrapped to the format. */
uint64_t lc_bits(double x);
double lc_wrap(lc_dtype to, uint64_t bits);
double lc_integer_over(lc_dtype t, double a, double b);
double lc_integer_power(lc_dtype t, double base, double exponent);

/* The unit roundoff: half the distance from 1 to the next number; 0 for integers and bool. */
double lc_roundoff(lc_dtype t);
/* The largest distance of a number near x from the real it was rounded from: half a step of the
 * format there. */
double lc_rounding(lc_dtype t, double x);
/* The largest finite number of a real format. */
double lc_largest(lc_dtype t);
/* The smallest and the largest number: the start of a maximum and of a minimum. */
double lc_lowest(lc_dtype t);
double lc_highest(lc_dtype t);

/* A rank's part as a box of the whole tensor. */
typedef struct lc_box {
	int rank;
	int64_t begin[LC_RANK], extent[LC_RANK], count;
} lc_box;

struct lc_run {
	const lc_program *p;
	const lc_sizes *s;
	lc_run_options o;
	int64_t ranks;
	lc_cells *
		*parts; /* [values][items * ranks]; without number and element if a rank holds nothing */
	int *last_reader;          /* [values] the value that reads it last; the number of values for
	                              results */
	int64_t held, work;        /* cells in memory; products so far */
	LK_VEC(lc_cells *) wholes; /* made by lc_run_whole */
	lk_arena arena;
};

/* Context of an operation: one tensor of one value on one rank. */
typedef struct lc_at {
	lc_run *run;
	const lc_node *n;
	int id;
	int64_t item, rank;
	lc_box box;    /* of the result on this rank */
	lc_cells *out; /* to be filled */
	lk_error *err;
} lc_at;

static inline bool lc_held(const lc_cells *cells) {
	return cells->number || cells->element;
}
static inline lc_cells *lc_part_of(const lc_run *run, int id, int64_t item, int64_t rank) {
	return &run->parts[id][item * run->ranks + rank];
}
static inline bool lc_in_field(const lc_run *run) {
	return run->o.arithmetic == LC_FIELD;
}

/* ---- run.c ---- */
/* The box of a value on a rank; false if it has none. */
lk_status lc_box_of(const lc_run *run, const lc_node *node, int64_t item, int64_t rank, lc_box *box,
                    bool *held, lk_error *err);
/* Operand i on the rank of `at`, with its box. */
lk_status lc_operand(const lc_at *at, int i, const lc_cells **cells, lc_box *box);
lk_status lc_cells_new(lc_run *run, int64_t count, lc_cells *out, lk_error *err);
void lc_cells_share(const lc_cells *from, lc_cells *out);
void lc_cells_drop(lc_run *run, lc_cells *cells);
/* Count work against the limit of a run. */
lk_status lc_run_spend(lc_run *run, const lc_node *node, double products, lk_error *err);
lk_status lc_run_wrong(const lc_at *at, const char *fmt, ...) LK_PRINTF(2, 3);

/* The operand whose cells a value shares, or -1: it is another name, or another view, of it. */
int lc_same_cells(const lc_node *node);

/* ---- one file each: fills at->out ---- */
typedef lk_status lc_operation(lc_at *at);
lc_operation lc_run_leaf;                                              /* run_draw.c */
lc_operation lc_run_map, lc_run_dropout;                               /* run_map.c */
lc_operation lc_run_red, lc_run_total;                                 /* run_red.c */
lc_operation lc_run_matmul, lc_run_conv, lc_run_rows, lc_run_add_rows; /* run_contract.c */
lc_operation lc_run_cumsum;                                            /* run_contract.c */
lc_operation lc_run_attend;                                            /* run_attend.c */
lc_operation lc_run_block;                                             /* run_block.c */
lc_operation lc_run_view, lc_run_iota;                                 /* run_view.c */
/* run_comm.c: for one tensor, on all ranks at once. `node`: the value's node, or one like it. */
lk_status lc_run_comm(lc_run *run, const lc_node *node, int id, int64_t item, lk_error *err);
/* run_cells.c: whether a rank holds the nudged element, and where. */
lk_status lc_nudged_element(const lc_run *run, const lc_nudge *nudge, int64_t rank,
                            int64_t *element, bool *held, lk_error *err);

/* Choices that another execution may reverse: comparisons and roundings whose operands are within
 * their bounds of the step. Each as the nudge that makes a run choose so. */
typedef struct lc_choices {
	LK_VEC(lc_nudge) nudges; /* the first LC_CHOICES */
	int64_t count;           /* of all */
} lc_choices;
enum { LC_CHOICES = 256 };
/* run_bound.c: bounds for a numeric run that has kept all its values: each value of *out bounds the
 * distance of another execution of the same program with the same choices, or of exact arithmetic.
 * *choices must be freed in every case. */
lk_status lc_run_bounds(const lc_run *run, lc_run **out, lc_choices *choices, lk_error *err);
void lc_choices_free(lc_choices *choices);

/* ---- run_walk.c: rows shared by a result and its operands ---- */
typedef struct lc_walk {
	int rank;
	int64_t extent[LC_RANK];
	int64_t stride[LC_INPUTS][LC_RANK];
} lc_walk;
/* The operands of `at` on its rank, aligned with at->box. */
lk_status lc_walk_operands(const lc_at *at, lc_walk *walk, const lc_cells *in[LC_INPUTS]);
/* Called for each row of the result: its first element, its length, the first element of each
 * operand and its steps. */
typedef void lc_on_row(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                       const int64_t stride[LC_INPUTS]);
void lc_each_row(const lc_walk *walk, int inputs, lc_on_row *call, void *state);

/* ---- run_map_field.c: one row of a pointwise operation in the field ---- */
typedef struct lc_field_row {
	int op;
	bool integer, hashed_cast; /* integer: / is a hash; hashed_cast: the cast is no embedding but a
	                              hash */
	int64_t exponent;          /* POW by a literal: the exponent; else LC_NO_EXPONENT */
	uint64_t key;
} lc_field_row;
#define LC_NO_EXPONENT INT64_MIN
void lc_map_field(const lc_field_row *row, int64_t count, const uint64_t *const in[LC_INPUTS],
                  const int64_t stride[LC_INPUTS], uint64_t *out);
uint64_t lc_field_divide(uint64_t key, uint64_t a, uint64_t b);
/* The greater one in the order of hashes; LC_NOTHING loses against all. */
uint64_t lc_field_choose(uint64_t key, bool most, uint64_t a, uint64_t b);

/* ---- run_comm.c: boxes ---- */
typedef struct lc_join {
	bool combine; /* else copy */
	lc_reduce reduce;
	lc_dtype dtype;
	uint64_t key;
} lc_join;
/* Join the elements of `from` that are also in `to` into it; returns their number. */
int64_t lc_join_boxes(const lc_join *join, const lc_cells *from, const lc_box *from_box,
                      lc_cells *to, const lc_box *to_box);

/* ---- draw: the counter generator shared by the interpreter and every target: a value follows from
 * its position, so that ranks, chunks and schedules agree about it. Philox 4x32 with 10 rounds
 * (Salmon et al., SC 2011).
 *
 * Inputs: counter {index low, index high, rank + 1 where ranks differ (else 0), item}, the rank
 * counted over those axes where they differ (P, L), last axis fastest; key {low, high 32 bits of
 * seed ^ name}, name = FNV-1a, 64 bits, of its bytes. From the first word u: inputs are (u + 0.5) /
 * 2^31 - 1, in (-1,1); states and scalars (u + 0.5) / 2^32 * 15/16 + 1/16, in (1/16,1), so that
 * they suit roots and divisors; integers u % bound, where bound is the number of rows if the value
 * indexes rows, else 8; bools u & 1. Then rounded to the format. Dropout: counter {index low, index
 * high, 0, item}, key {low, high 32 bits of key}; an element is kept where (u + 0.5) / 2^32 >= p,
 * and then divided by 1 - p. */

static inline uint32_t lc_philox(uint64_t index, uint32_t rank, uint32_t item, uint64_t key) {
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = rank, c3 = item;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0, c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1, c3 = (uint32_t)a;
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
	return c0;
}

static inline uint64_t lc_name_key(const char *name) {
	uint64_t h = 0xcbf29ce484222325u;
	for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h;
}

#endif
