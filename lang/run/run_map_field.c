/* run_map_field.c: pointwise operations in the field: exact sums and products, everything else as
 * keyed hashes. */
#include "lang/run/run_internal.h"

static uint64_t field_key_of(uint64_t key, int op) {
	return lc_hash_word(key, (uint64_t)op + 1);
}

uint64_t lc_field_divide(uint64_t key, uint64_t a, uint64_t b) {
	if (b == 0) return lc_hash_pair(field_key_of(key, LC_DIV), a, b);
	return lc_field_multiply(a, lc_field_inverse(b));
}

enum { BATCH = 256 };

/* Divide `n` <= BATCH elements with one inversion: the inverse of the product of all divisors,
 * divided up from its end (Montgomery's trick). */
static void divide_batch(uint64_t key, int64_t n, const uint64_t *a, int64_t a_step,
                         const uint64_t *b, int64_t b_step, uint64_t *out) {
	uint64_t before[BATCH], product = 1;
	for (int64_t i = 0; i < n; i++) {
		before[i] = product;
		if (b[i * b_step]) product = lc_field_multiply(product, b[i * b_step]);
	}
	uint64_t inverse = lc_field_inverse(product);
	for (int64_t i = n; i-- > 0;) {
		uint64_t x = a[i * a_step], y = b[i * b_step];
		out[i] = y ? lc_field_multiply(x, lc_field_multiply(inverse, before[i]))
		           : lc_field_divide(key, x, 0);
		if (y) inverse = lc_field_multiply(inverse, y);
	}
}

static void field_divide(uint64_t key, int64_t n, const uint64_t *const in[LC_INPUTS],
                         const int64_t step[LC_INPUTS], uint64_t *out) {
	for (int64_t done = 0; done < n; done += BATCH)
		divide_batch(key, n - done < BATCH ? n - done : BATCH, in[0] + done * step[0], step[0],
		             in[1] + done * step[1], step[1], out + done);
}

static uint64_t raise(uint64_t key, uint64_t a, int64_t exponent) {
	if (exponent >= 0) return lc_field_power(a, (uint64_t)exponent);
	return lc_field_divide(key, 1, lc_field_power(a, (uint64_t)-exponent));
}

uint64_t lc_field_choose(uint64_t key, bool most, uint64_t a, uint64_t b) {
	if (a == LC_NOTHING) return b;
	if (b == LC_NOTHING) return a;
	uint64_t order = field_key_of(key, LC_MAX), x = lc_hash_word(order, a),
			 y = lc_hash_word(order, b);
	return (x < y) == most ? b : a;
}

static uint64_t field_mix(uint64_t c, uint64_t a, uint64_t b) {
	return lc_field_add(b, lc_field_multiply(c, lc_field_subtract(a, b)));
}

#define EACH(expression) \
	for (int64_t i = 0; i < n; i++) out[i] = (expression)
#define A in[0][i * step[0]]
#define B in[1][i * step[1]]
#define C in[2][i * step[2]]

void lc_map_field(const lc_field_row *row, int64_t n, const uint64_t *const in[LC_INPUTS],
                  const int64_t step[LC_INPUTS], uint64_t *out) {
	uint64_t key = row->key, of_op = field_key_of(key, row->op);
	switch (row->op) {
	case LC_ADD: EACH(lc_field_add(A, B)); break;
	case LC_SUB: EACH(lc_field_subtract(A, B)); break;
	case LC_MUL: EACH(lc_field_multiply(A, B)); break;
	case LC_NEG: EACH(lc_field_negate(A)); break;
	case LC_SELECT: EACH(field_mix(A, B, C)); break;
	case LC_MIN: EACH(lc_field_choose(key, false, A, B)); break;
	case LC_MAX: EACH(lc_field_choose(key, true, A, B)); break;
	case LC_DIV:
		if (row->integer) EACH(lc_hash_pair(of_op, A, B));
		else field_divide(key, n, in, step, out);
		break;
	case LC_POW:
		if (row->exponent == LC_NO_EXPONENT) EACH(lc_hash_pair(of_op, A, B));
		else EACH(raise(key, A, row->exponent));
		break;
	case LC_LT:
	case LC_LE:
	case LC_GT:
	case LC_GE:
	case LC_EQ:
	case LC_NE: EACH(lc_hash_pair(of_op, A, B)); break;
	case LC_CAST:
		if (row->hashed_cast) EACH(lc_hash_pair(of_op, A, 0));
		else EACH(A);
		break;
	default: EACH(lc_hash_field(of_op, A)); break; /* functions of one argument */
	}
}
