/* test_lang_run.c: what programs mean. Number formats against all their numbers in a list; the
 * field against arithmetic in 128 bits; the counter generator against its published vectors;
 * programs against an evaluation by recursion over indices; pairs of programs that are equal, and
 * pairs that are not; bounds on rounding against the same in f64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lang/run/run.h"
#include "lang/run/run_internal.h"
#include "lang/syntax/parse.h"
#include "lang_random.h"
#include "lockstep/compile.h"
#include "rounds.h"
#include "scratch.h"

static lc_file *read_ok(const char *text) {
	lc_file *file = NULL;
	lk_error err = {0};
	char line[1024];
	if (lc_parse("run", text, strlen(text), &file, &err) != LK_OK)
		fail_msg("%s\n%s", lk_error_text(&err, line, sizeof line), text);
	return file;
}

/* ---- the generator: known answers of Random123 for philox4x32-10, first word ---- */

static void test_philox(void **state) {
	(void)state;
	assert_int_equal(lc_philox(0, 0, 0, 0), 0x6627e8d5u);
	assert_int_equal(lc_philox(UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX), 0x408f276du);
	assert_int_equal(lc_philox(0x85a308d3243f6a88u, 0x13198a2eu, 0x03707344u, 0x299f31d0a4093822u),
	                 0xd16cfe09u);
	assert_int_equal(lc_name_key(""), 0xcbf29ce484222325u);
	assert_int_equal(lc_name_key("a"), 0xaf63dc4c8601ec8cu); /* of FNV-1a's authors */
}

/* ---- formats ---- */

struct grid {
	lc_dtype dtype;
	int exponent_bits, mantissa_bits;
	bool finite_top;        /* e4m3fn: the top exponent holds numbers; all ones is NAN */
	double number[1 << 15]; /* the non-negative finite ones, ascending */
	int count;
};

static void make_grid(struct grid *grid) {
	int bias = (1 << (grid->exponent_bits - 1)) - 1, top = (1 << grid->exponent_bits) - 1;
	grid->count = 0;
	for (int bits = 0; bits < 1 << (grid->exponent_bits + grid->mantissa_bits); bits++) {
		int exponent = bits >> grid->mantissa_bits,
			mantissa = bits & ((1 << grid->mantissa_bits) - 1);
		if (exponent == top && (!grid->finite_top || mantissa == (1 << grid->mantissa_bits) - 1))
			continue;
		double m = exponent ? 1 + ldexp(mantissa, -grid->mantissa_bits)
		                    : ldexp(mantissa, -grid->mantissa_bits);
		grid->number[grid->count++] = ldexp(m, (exponent ? exponent : 1) - bias);
	}
}

/* The nearest of all numbers; of two, the one whose last bit is 0: the one with the even place. */
static double nearest(const struct grid *grid, double x) {
	double size = fabs(x);
	int low = 0, high = grid->count - 1;
	double past =
		2 * grid->number[high] - grid->number[high - 1]; /* where the next number would be */
	if (size >= grid->number[high]) {
		bool stays = size - grid->number[high] < past - size || grid->dtype == LC_F8;
		return copysign(stays ? grid->number[high] : INFINITY, x);
	}
	while (high - low > 1) {
		int middle = (low + high) / 2;
		if (grid->number[middle] <= size) low = middle;
		else high = middle;
	}
	double below = size - grid->number[low], above = grid->number[high] - size;
	int at = below < above ? low : above < below ? high : low % 2 ? high : low;
	return copysign(grid->number[at], x);
}

static double random_double(uint64_t *seed, const struct grid *grid) {
	double x = grid->number[draw(seed, (uint64_t)grid->count)],
		   next = grid->number[draw(seed, (uint64_t)grid->count)];
	switch (draw(seed, 4)) {
	case 0: break;
	case 1: x = x + ldexp(x, -(int)draw(seed, 20)) * (draw(seed, 2) ? 0.5 : 0.4999999); break;
	case 2: x = ldexp(1 + (double)draw(seed, 1 << 30) / (1 << 30), (int)draw(seed, 60) - 40); break;
	default: x = x / 2 + next / 2;
	}
	return draw(seed, 2) ? x : -x;
}

static void test_formats(void **state) {
	(void)state;
	static struct grid grids[] = {
		{.dtype = LC_F16, .exponent_bits = 5, .mantissa_bits = 10},
		{.dtype = LC_BF16, .exponent_bits = 8, .mantissa_bits = 7},
		{.dtype = LC_F8, .exponent_bits = 4, .mantissa_bits = 3, .finite_top = true}};
	for (size_t k = 0; k < 3; k++) {
		struct grid *grid = &grids[k];
		uint64_t seed = k << 40;
		make_grid(grid);
		for (int i = 0; i < grid->count; i++) {
			assert_true(lc_round(grid->dtype, grid->number[i]) == grid->number[i]);
			if (i == 0) continue;
			double middle = (grid->number[i - 1] + grid->number[i]) / 2;
			assert_true(lc_round(grid->dtype, middle) == nearest(grid, middle));
			assert_true(lc_round(grid->dtype, nextafter(middle, 1e300)) == grid->number[i]);
			assert_true(lc_round(grid->dtype, -nextafter(middle, 0)) == -grid->number[i - 1]);
			assert_true(lc_rounding(grid->dtype, grid->number[i]) * 1.0001 >=
			            (grid->number[i] - grid->number[i - 1]) / 2);
		}
		for (int i = rounds(300000, 3000000); i > 0; i--) {
			double x = random_double(&seed, grid), got = lc_round(grid->dtype, x),
				   want = nearest(grid, x);
			if (got != want || signbit(got) != signbit(want))
				fail_msg("%s of %a: %a, not %a", lc_dtype_name(grid->dtype), x, got, want);
#ifdef __FLT16_MAX__
			if (grid->dtype == LC_F16) assert_true(got == (double)(_Float16)x);
#endif
		}
		assert_true(isnan(lc_round(grid->dtype, NAN)));
		assert_true(lc_round(grid->dtype, INFINITY) == (grid->dtype == LC_F8 ? 448 : INFINITY));
	}
	assert_true(lc_round(LC_F32, 1 + 0x1p-24) == 1 &&
	            lc_round(LC_F32, 1 + 0x1.8p-23) == 1 + 0x1p-22 && lc_round(LC_F64, M_PI) == M_PI);
}

#define CHECK_INTEGERS(type, dtype)                                                                \
	for (int i = 0; i < 20000; i++) {                                                              \
		type a = (type)lk_hash64(seed++), b = (type)(lk_hash64(seed++) >> draw(&seed, 64));        \
		if (sizeof a == 8) a = (type)(a % 100000007), b = (type)(b % 1009);                        \
		double x = (double)a, y = (double)b;                                                       \
		assert_true(lc_wrap(dtype, lc_bits(x)) == x);                                              \
		assert_true(lc_wrap(dtype, lc_bits(x) + lc_bits(y)) ==                                     \
		            (double)(type)((uint64_t)a + (uint64_t)b));                                    \
		assert_true(lc_wrap(dtype, lc_bits(x) * lc_bits(y)) ==                                     \
		            (double)(type)((uint64_t)a * (uint64_t)b));                                    \
		assert_true(lc_wrap(dtype, 0 - lc_bits(x)) == (double)(type)(0 - (uint64_t)a));            \
		if (b != 0 && y != -1) assert_true(lc_integer_over(dtype, x, y) == (double)(type)(a / b)); \
		assert_true(lc_integer_over(dtype, x, 0) == 0);                                            \
		assert_true(lc_integer_power(dtype, x, 3) ==                                               \
		                (double)(type)((uint64_t)a * (uint64_t)a * (uint64_t)a) ||                 \
		            sizeof a == 8);                                                                \
	}

static void test_integers(void **state) {
	(void)state;
	uint64_t seed = 77;
	CHECK_INTEGERS(int8_t, LC_I8)
	CHECK_INTEGERS(uint8_t, LC_U8)
	CHECK_INTEGERS(int16_t, LC_I16)
	CHECK_INTEGERS(uint16_t, LC_U16)
	CHECK_INTEGERS(int32_t, LC_I32)
	CHECK_INTEGERS(uint32_t, LC_U32)
	CHECK_INTEGERS(int64_t, LC_I64)
	CHECK_INTEGERS(uint64_t, LC_U64)
	assert_true(lc_convert(LC_F32, LC_I8, 300) == 127 && lc_convert(LC_F32, LC_I8, -300.5) == -128);
	assert_true(lc_convert(LC_F32, LC_U8, -1) == 0 && lc_convert(LC_F32, LC_I32, -1.9) == -1 &&
	            lc_convert(LC_F32, LC_I32, NAN) == 0);
	assert_true(lc_convert(LC_I32, LC_I8, 300) == 44 && lc_convert(LC_F32, LC_BOOL, -0.5) == 1 &&
	            lc_convert(LC_BOOL, LC_F16, 1) == 1);
	assert_true(lc_integer_power(LC_I32, 2, -1) == 0 && lc_integer_power(LC_I32, -1, -3) == -1 &&
	            lc_integer_power(LC_I32, 7, 0) == 1);
}

/* ---- the field ---- */

static uint64_t element(uint64_t *seed) {
	static const uint64_t corners[] = {0, 1, 2, LC_PRIME - 1, LC_PRIME - 2, 1ull << 60};
	return draw(seed, 8) ? lk_hash64((*seed)++) % LC_PRIME : corners[draw(seed, 6)];
}

static void test_field(void **state) {
	(void)state;
	uint64_t seed = 5;
	for (int i = rounds(100000, 1000000); i > 0; i--) {
		uint64_t a = element(&seed), b = element(&seed), c = element(&seed);
		assert_int_equal(lc_field_add(a, b), (uint64_t)(((lc_wide)a + b) % LC_PRIME));
		assert_int_equal(lc_field_multiply(a, b), (uint64_t)((lc_wide)a * b % LC_PRIME));
		assert_int_equal(lc_field_subtract(lc_field_add(a, b), b), a);
		assert_int_equal(lc_field_multiply(a, lc_field_add(b, c)),
		                 lc_field_add(lc_field_multiply(a, b), lc_field_multiply(a, c)));
		assert_int_equal(lc_field_reduce(((lc_wide)a << 64) + b),
		                 (uint64_t)((((lc_wide)a << 64) + b) % LC_PRIME));
		if (a && i % 50 == 0) assert_int_equal(lc_field_multiply(a, lc_field_inverse(a)), 1);
		assert_true(lc_hash_field(seed, a) < LC_PRIME && lc_hash_pair(seed, a, b) < LC_PRIME);
		uint64_t most = lc_field_choose(7, true, a, b), least = lc_field_choose(7, false, a, b);
		assert_int_equal(lc_field_add(most, least), lc_field_add(a, b));
		assert_int_equal(most, lc_field_choose(7, true, b, a));
		assert_int_equal(lc_field_choose(7, true, most, c),
		                 lc_field_choose(7, true, a, lc_field_choose(7, true, b, c)));
	}
	/* doubles are what they are exactly */
	assert_int_equal(lc_field_multiply(lc_field_number(0.375), 8), 3);
	assert_int_equal(lc_field_number(-7), LC_PRIME - 7);
	assert_int_equal(lc_field_number(0), 0);
	for (int i = 0; i < 2000; i++) {
		double x = ldexp((double)(int64_t)(lk_hash64(seed++) >> 12), (int)draw(&seed, 600) - 300),
			   y = ldexp(x, 61);
		assert_int_equal(lc_field_number(x), lc_field_number(y)); /* 2^61 is 1 */
		assert_int_equal(lc_field_add(lc_field_number(x), lc_field_number(x)),
		                 lc_field_number(2 * x));
	}
}

/* ---- numbers on one rank, against recursion over indices ---- */

/* f64 without rounding and without ranks: an element from the elements that it is made of. */
static double pull(const lc_run *run, int id, const int64_t *at);

static double pull_operand(const lc_run *run, const lc_node *n, int i, const int64_t *at) {
	const lc_node *x = &run->p->nodes.at[n->in[i]];
	int64_t index[LC_RANK], whole[LC_RANK];
	lk_error err;
	lc_whole_shape(run->p, x, run->s, 0, whole, &err);
	for (int d = 0; d < x->rank; d++) index[d] = whole[d] == 1 ? 0 : at[d + n->rank - x->rank];
	return pull(run, n->in[i], index);
}

static double pull_sum(const lc_run *run, const lc_node *n, const int64_t *at) {
	const lc_node *x = &run->p->nodes.at[n->in[0]];
	int64_t whole[LC_RANK], index[LC_RANK], all = 1;
	double sum = n->op == LC_RED_MAX ? -INFINITY : n->op == LC_RED_MIN ? INFINITY : 0, count = 1;
	lk_error err;
	lc_whole_shape(run->p, x, run->s, 0, whole, &err);
	for (int d = 0; d < x->rank; d++) {
		if (!(n->dims >> d & 1)) continue;
		all *= whole[d];
		count *= (double)whole[d];
	}
	for (int64_t k = 0; k < all; k++) {
		int64_t rest = k;
		for (int d = 0, to = 0; d < x->rank; d++) {
			bool gone = n->dims >> d & 1;
			index[d] = gone ? rest % whole[d] : at[to];
			if (gone) rest /= whole[d];
			if (!gone || n->keep) to++;
		}
		double one = pull(run, n->in[0], index);
		sum = n->op == LC_RED_MAX   ? fmax(sum, one)
		      : n->op == LC_RED_MIN ? fmin(sum, one)
		                            : sum + (n->op == LC_RED_NORM ? one * one : one);
	}
	return n->op == LC_RED_MEAN ? sum / count : n->op == LC_RED_NORM ? sqrt(sum) : sum;
}

static double pull_matmul(const lc_run *run, const lc_node *n, const int64_t *at) {
	const lc_node *a = &run->p->nodes.at[n->in[0]], *b = &run->p->nodes.at[n->in[1]];
	int64_t i[LC_RANK] = {0}, j[LC_RANK] = {0}, whole[LC_RANK], other[LC_RANK];
	double sum = 0;
	lk_error err;
	lc_whole_shape(run->p, a, run->s, 0, whole, &err);
	lc_whole_shape(run->p, b, run->s, 0, other, &err);
	for (int d = 0; d < a->rank - 2; d++) i[d] = whole[d] == 1 ? 0 : at[d + n->rank - a->rank];
	for (int d = 0; d < b->rank - 2; d++) j[d] = other[d] == 1 ? 0 : at[d + n->rank - b->rank];
	for (int64_t k = 0; k < whole[a->rank - (n->ta ? 2 : 1)]; k++) {
		i[a->rank - (n->ta ? 1 : 2)] = at[n->rank - 2];
		i[a->rank - (n->ta ? 2 : 1)] = k;
		j[b->rank - (n->tb ? 1 : 2)] = k;
		j[b->rank - (n->tb ? 2 : 1)] = at[n->rank - 1];
		sum += pull(run, n->in[0], i) * pull(run, n->in[1], j);
	}
	return sum;
}

static double pull_conv(const lc_run *run, const lc_node *n, const int64_t *at) {
	int64_t x[LC_RANK], w[LC_RANK];
	double sum = 0;
	lk_error err;
	lc_whole_shape(run->p, &run->p->nodes.at[n->in[0]], run->s, 0, x, &err);
	lc_whole_shape(run->p, &run->p->nodes.at[n->in[1]], run->s, 0, w, &err);
	for (int64_t c = 0; c < w[1]; c++)
		for (int64_t k = 0; k < w[2]; k++)
			for (int64_t l = 0; l < w[3]; l++) {
				int64_t i[] = {at[0], c, at[2] * n->stride + k - n->pad,
				               at[3] * n->stride + l - n->pad},
						j[] = {at[1], c, k, l};
				if (i[2] >= 0 && i[2] < x[2] && i[3] >= 0 && i[3] < x[3])
					sum += pull(run, n->in[0], i) * pull(run, n->in[1], j);
			}
	return sum;
}

/* The element of a view's operand for one of the view; false: 0. */
static bool viewed(const lc_run *run, const lc_node *n, const int64_t *at, int64_t *of) {
	const lc_node *x = &run->p->nodes.at[n->in[0]];
	int64_t whole[LC_RANK], own[LC_RANK], d = n->d;
	lk_error err;
	lc_whole_shape(run->p, x, run->s, 0, whole, &err);
	lc_whole_shape(run->p, n, run->s, 0, own, &err);
	for (int i = 0; i < x->rank; i++) {
		bool beyond = i > d;
		switch (n->op) {
		case LC_TRANSPOSE: of[i] = at[i == d ? n->e : i == n->e ? d : i]; break;
		case LC_PARTS: of[i] = i == d ? at[d] * own[d + 1] + at[d + 1] : at[i + beyond]; break;
		case LC_JOIN:
			of[i] = i == d       ? at[d] / whole[d + 1]
			        : i == d + 1 ? at[d] % whole[d + 1]
			                     : at[i - beyond];
			break;
		case LC_SPREAD: of[i] = at[i + (i >= d)]; break;
		default: of[i] = i == d && n->op == LC_LAST_OF ? at[i] + whole[i] - own[i] : at[i]; break;
		}
		if (of[i] < 0 || of[i] >= whole[i]) return false;
	}
	return true;
}

static double pull_added(const lc_run *run, const lc_node *n, const int64_t *at) {
	int64_t whole[LC_RANK], row[2] = {0, at[1]};
	double sum = 0;
	lk_error err;
	lc_whole_shape(run->p, &run->p->nodes.at[n->in[1]], run->s, 0, whole, &err);
	for (; row[0] < whole[0]; row[0]++)
		if ((int64_t)pull(run, n->in[1], row) == at[0]) sum += pull(run, n->in[0], row);
	return sum;
}

static double pull(const lc_run *run, int id, const int64_t *at) {
	const lc_node *n = &run->p->nodes.at[id];
	int64_t whole[LC_RANK], of[LC_RANK], index = 0;
	lk_error err;
	lc_whole_shape(run->p, n, run->s, 0, whole, &err);
	for (int d = 0; d < n->rank; d++) index = index * whole[d] + at[d];
	double a = n->inputs && lc_ops[n->op].family == LC_MAP ? pull_operand(run, n, 0, at) : 0;
	double b = n->inputs > 1 && lc_ops[n->op].family == LC_MAP ? pull_operand(run, n, 1, at) : 0;
	switch (n->op) {
	case LC_INPUT:
	case LC_STATE:
	case LC_SCALAR: return lc_run_local(run, id, 0, 0)->number[index];
	case LC_CONST: return n->number;
	case LC_SIZE: return n->axis >= 0 ? 1 : (double)run->s->symbol[LC_AXES + n->symbol];
	case LC_ADD: return a + b;
	case LC_SUB: return a - b;
	case LC_MUL: return a * b;
	case LC_DIV: return a / b;
	case LC_POW: return pow(a, b);
	case LC_LT: return a < b;
	case LC_GE: return a >= b;
	case LC_NEG: return -a;
	case LC_MIN: return fmin(a, b);
	case LC_MAX: return fmax(a, b);
	case LC_SQRT: return sqrt(a);
	case LC_EXP: return exp(a);
	case LC_LOG: return log(a);
	case LC_TANH: return tanh(a);
	case LC_ERF: return erf(a);
	case LC_RELU: return fmax(a, 0);
	case LC_GELU: return a / 2 * (1 + erf(a / sqrt(2)));
	case LC_SIGMOID: return 1 / (1 + exp(-a));
	case LC_ABS: return fabs(a);
	case LC_SIN: return sin(a);
	case LC_COS: return cos(a);
	case LC_EXP2: return pow(2, a);
	case LC_ROUND: return nearbyint(a);
	case LC_SELECT: return a ? b : pull_operand(run, n, 2, at);
	case LC_DROPOUT: {
		double u = (lc_philox((uint64_t)index, 0, 0, (uint64_t)n->key) + 0.5) / 0x1p32;
		return u >= n->number ? pull(run, n->in[0], at) / (1 - n->number) : 0;
	}
	case LC_MATMUL: return pull_matmul(run, n, at);
	case LC_CONV2D: return pull_conv(run, n, at);
	case LC_GATHER_ROWS: {
		int64_t row[] = {(int64_t)pull(run, n->in[1], at), at[n->rank - 1]};
		return pull(run, n->in[0], row);
	}
	case LC_ADD_ROWS: return pull_added(run, n, at);
	case LC_IOTA: return (double)at[0];
	case LC_CUMSUM: {
		double sum = 0;
		memcpy(of, at, sizeof *of * n->rank);
		for (int64_t i = 0; i < whole[n->d]; i++) {
			of[n->d] = i;
			if (n->reverse ? i >= at[n->d] : i <= at[n->d]) sum += pull(run, n->in[0], of);
		}
		return sum;
	}
	case LC_CONCAT: {
		const lc_node *first = &run->p->nodes.at[n->in[0]];
		lc_whole_shape(run->p, first, run->s, 0, of, &err);
		int64_t begin = of[n->d];
		memcpy(of, at, sizeof *of * n->rank);
		if (at[n->d] >= begin) of[n->d] -= begin;
		return pull(run, n->in[at[n->d] >= begin], of);
	}
	case LC_TRANSPOSE:
	case LC_PARTS:
	case LC_JOIN:
	case LC_SPREAD:
	case LC_FIRST_OF:
	case LC_LAST_OF: return viewed(run, n, at, of) ? pull(run, n->in[0], of) : 0;
	case LC_RED_SUM:
	case LC_RED_MAX:
	case LC_RED_MIN:
	case LC_RED_MEAN:
	case LC_RED_NORM: return pull_sum(run, n, at);
	case LC_UPDATE: return pull(run, n->in[1], at);
	default: return pull(run, n->in[0], at); /* on one rank nothing moves */
	}
}

static void check_pulled(const char *text, uint64_t seed) {
	lc_file *file = read_ok(text);
	const lc_program *p = file->programs.at[0];
	int64_t axes[LC_AXES] = {1, 1}, whole[LC_RANK], at[LC_RANK];
	lc_sizes s;
	lc_run *run;
	lk_error err = {0};
	int ids[64], count;
	if (lc_sizes_draw(p, NULL, axes, seed, &s, &err) != LK_OK) fail_msg("%s", err.what);
	lc_run_options o = {.seed = seed};
	if (lc_run_program(p, &s, &o, &run, &err) != LK_OK) fail_msg("%s", err.what);
	assert_int_equal(lc_results(p, ids, 64, &count, &err), LK_OK);
	for (int k = 0; k < count; k++) {
		const lc_node *n = &p->nodes.at[ids[k]];
		const lc_cells *got = lc_run_local(run, ids[k], 0, 0);
		lc_whole_shape(p, n, &s, 0, whole, &err);
		for (int64_t i = 0; i < got->count; i++) {
			int64_t rest = i;
			for (int d = n->rank; d-- > 0; rest /= whole[d]) at[d] = rest % whole[d];
			double want = pull(run, ids[k], at);
			if (!(fabs(got->number[i] - want) <= 1e-12 * (1 + fabs(want))) &&
			    !(isnan(want) && isnan(got->number[i])))
				fail_msg("result %d, element %lld: %.17g, not %.17g\n%s", k, (long long)i,
				         got->number[i], want, text);
		}
	}
	lc_run_free(run);
	lc_sizes_free(&s);
	lc_file_free(file);
}

static void test_one_rank(void **state) {
	(void)state;
	static const char *const programs[] = {
		"program p(mesh a, b) { dim N, M, K in x : f64[N,M] @ P(sum,a) in y : f64[M] in z : "
		"f64[K,N,M], i : i32[K]\n"
		"state w : f64[N,M] scalar f64 t\n"
		"q = allreduce(x, sum, a) o = dropout(q*y + w, 0.3, key=9) out o, z - q, z*w, matmul(q, w, "
		"tb), matmul(z, w, "
		"ta)\n"
		"out gather_rows(w, i), sum(z), sum(z, 1), mean(z, 0, 2, keep), max(z, 2), min(z, 0, 1), "
		"norm(z, 1)\n"
		"w <- select(q < y, sqrt(w), w^3)/t out exp(q), log(w), tanh(q), erf(q), relu(q), gelu(q), "
		"sigmoid(q), abs(q), "
		"-q\n"
		"out minimum(q, y), maximum(q, t), q^t, w*size(N) - 2.5/size(a), 1/w, w^-2, matmul(z, z, "
		"tb) }",
		"program v(mesh a, b) { dim N, M, K in x : f64[N,6*M,K], i : i32[N], u : f64[N,M] out "
		"transpose(x, 2, 0), parts(x, 1, 3), parts(x, 1, M), join(x, 0), join(x, 1), spread(x, 0, "
		"2), spread(u, 2, "
		"K), spread(u, 1, 3), first(x, 1, M), first(x, 0, N+3), last(x, 1, M), last(x, 2, K+2), "
		"iota(f64, N), concat(first(x, 1, M), x, 1), concat(x, x, 0), concat(u, u, 1), add_rows(u, "
		"i, N+1), sin(u*9), cos(u*9), exp2(u*9), round(u*9), cumsum(x, 0), cumsum(x, 1, reverse), "
		"cumsum(u, 1), cumsum(i, 0) }",
		"program c(mesh a, b) { dim N, C, H, O in x : f64[N,C,H+3,H+5] in w : f64[O,C,3,2]\n"
		"out conv2d(x, w), conv2d(x, w, pad=2), conv2d(x, w, pad=1) }",
		"program c(mesh a, b) { dim N, C in x : f64[N,C,9,11] in w : f64[5,C,3,3] out conv2d(x, w, "
		"stride=2), "
		"conv2d(x, w, stride=2, pad=2) }",
		"program c(mesh a, b) { dim A, B, M, K in x : f64[A,1,M,K], y : f64[B,K,M], z : f64[K,M] "
		"out matmul(x, y), "
		"matmul(y, x, ta, tb), matmul(x, z) }",
	};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		for (uint64_t seed = 1; seed <= (uint64_t)rounds(12, 120); seed++)
			check_pulled(programs[i], seed);
}

/* ---- operations that are written as others, against what they are to be ---- */

static const double *result_of(const lc_file *file, const lc_run *run, int which) {
	int ids[64], count;
	lk_error err;
	assert_int_equal(lc_results(file->programs.at[0], ids, 64, &count, &err), LK_OK);
	assert_in_range(which, 0, count - 1);
	return lc_run_local(run, ids[which], 0, 0)->number;
}

/* Rows of x in the order of their elements, the largest first; equal ones as they lie. */
static void order_of(const double *x, int n, int *order) {
	for (int i = 0; i < n; i++) {
		int to = i;
		for (; to > 0 && x[order[to - 1]] < x[i]; to--) order[to] = order[to - 1];
		order[to] = i;
	}
}

static void test_composed(void **state) {
	(void)state;
	static const char text[] =
		"program p(mesh a) { dim N, E in x : f64[N,E], y : f64[N,E]\n"
		"r = round(x*2) i = topk_index(r, 1, 3) out argmax(r, 1), argmin(r, 1), i, topk(r, 1, 3)\n"
		"out gather(y, i, 1), scatter_add(topk(r, 1, 3), i, 1, E), onehot(f64, argmax(r, 1), E)\n"
		"out pad(x, 1, 2, 1), narrow(x, 0, 1, N - 1), reshape(x, 1, E, N), softmax(x, 1), r }";
	for (uint64_t seed = 1; seed <= (uint64_t)rounds(8, 80); seed++) {
		lc_file *file = read_ok(text);
		const lc_program *p = file->programs.at[0];
		lc_sizes s;
		lc_run *run;
		lk_error err = {0};
		lc_run_options o = {.seed = seed};
		assert_int_equal(lc_sizes_read(p, "N=4,E=7", 1, &s, &err), LK_OK);
		assert_int_equal(lc_run_program(p, &s, &o, &run, &err), LK_OK);
		const double *x = lc_run_local(run, 0, 0, 0)->number,
					 *y = lc_run_local(run, 1, 0, 0)->number, *r = result_of(file, run, 11);
		for (int n = 0; n < 4; n++) {
			int order[7], least = 0;
			double scale = 0, chosen[7] = {0};
			order_of(r + n * 7, 7, order);
			for (int e = 1; e < 7; e++)
				if (r[n * 7 + e] < r[n * 7 + least]) least = e;
			for (int e = 0; e < 7; e++) scale += exp(x[n * 7 + e]);
			for (int k = 0; k < 3; k++) chosen[order[k]] = r[n * 7 + order[k]];
			assert_true(result_of(file, run, 0)[n] == order[0]);
			assert_true(result_of(file, run, 1)[n] == least);
			for (int k = 0; k < 3; k++) {
				assert_true(result_of(file, run, 2)[n * 3 + k] == order[k]);
				assert_true(result_of(file, run, 3)[n * 3 + k] == r[n * 7 + order[k]]);
				assert_true(result_of(file, run, 4)[n * 3 + k] == y[n * 7 + order[k]]);
			}
			for (int e = 0; e < 7; e++) {
				assert_true(result_of(file, run, 5)[n * 7 + e] == chosen[e]);
				assert_true(result_of(file, run, 6)[n * 7 + e] == (e == order[0]));
				assert_true(result_of(file, run, 7)[n * 10 + 2 + e] == x[n * 7 + e]);
				assert_true(fabs(result_of(file, run, 10)[n * 7 + e] - exp(x[n * 7 + e]) / scale) <
				            1e-14);
				if (n > 0) assert_true(result_of(file, run, 8)[(n - 1) * 7 + e] == x[n * 7 + e]);
			}
			for (int e = 0; e < 10; e += e == 1 ? 8 : 1)
				assert_true(result_of(file, run, 7)[n * 10 + e] == 0);
		}
		assert_memory_equal(result_of(file, run, 9), x, 28 * sizeof *x);
		lc_run_free(run);
		lc_sizes_free(&s);
		lc_file_free(file);
	}
}

/* Rank r sends row k of block p to rank p, if its count is larger than k. */
static void test_rows_for_ranks(void **state) {
	(void)state;
	lc_file *file =
		read_ok("program p(mesh a) { dim C in x : f64[size(a),C,2] @ L(a), f : f64[size(a)] @ "
	            "L(a) c = cast(i32, round(f*3 + 1)) out alltoallv(x, c, a), c }");
	const lc_program *p = file->programs.at[0];
	lc_sizes s;
	lc_run *run;
	lk_error err = {0};
	lc_run_options o = {.seed = 3};
	int ids[64], count;
	assert_int_equal(lc_sizes_read(p, "a=3,C=3", 1, &s, &err), LK_OK);
	assert_int_equal(lc_run_program(p, &s, &o, &run, &err), LK_OK);
	assert_int_equal(lc_results(p, ids, 64, &count, &err), LK_OK);
	for (int to = 0; to < 3; to++)
		for (int from = 0; from < 3; from++)
			for (int i = 0; i < 6; i++) {
				double sent = lc_run_local(run, ids[1], 0, from)->number[to];
				double want = i / 2 < sent ? lc_run_local(run, 0, 0, from)->number[to * 6 + i] : 0;
				assert_true(lc_run_local(run, ids[0], 0, to)->number[from * 6 + i] == want);
			}
	lc_run_free(run);
	lc_sizes_free(&s);
	lc_file_free(file);
}

/* ---- pairs of programs ---- */

#define HEAD                                                                                  \
	"program p(mesh a, b) { dim N, M in x : f32[N,M] @ P(sum,a), y : f32[N,M] @ S(0,a), r : " \
	"f32[N,M], l : f32[N,M] @ "                                                               \
	"S(1,b)\n"                                                                                \
	"in m : f32[N,M] @ P(max,a), k : f32[N,M] @ P(min,b), i : i32[N] state w : f32[N,M] out " \
	"copy(r*0) "

static lc_verdict verify_pair(const char *one, const char *other, uint64_t seed) {
	char text[2][1200];
	lc_file *file[2];
	lc_verdict v;
	lk_error err = {0};
	for (int k = 0; k < 2; k++) {
		snprintf(text[k], sizeof text[k], HEAD "%s }", k ? other : one);
		file[k] = read_ok(text[k]);
	}
	lc_verify_options o = {.seed = seed};
	if (lc_verify(file[0]->programs.at[0], file[1]->programs.at[0], &o, &v, &err) != LK_OK)
		fail_msg("%s\n%s\n%s", err.what, one, other);
	lc_file_free(file[0]);
	lc_file_free(file[1]);
	return v;
}

static void test_equal_pairs(void **state) {
	(void)state;
	static const char *const rows[][2] = {
		{"out allreduce(x, sum, a)", "out allgather(reducescatter(x, sum, a, dim=0), 0, a)"},
		{"out allreduce(x, sum, a)", "out allgather(reducescatter(x, sum, a, dim=1), 1, a)"},
		{"out allreduce(x, sum, a)", "out broadcast(reduce(x, sum, a, root=0), a)"},
		{"out allreduce(m, max, a)", "out allgather(reducescatter(m, max, a, dim=1), 1, a)"},
		{"out allreduce(k, min, b)", "out broadcast(reduce(k, min, b, root=0), b)"},
		{"out x", "out allreduce(x, sum, a)"},
		{"out y", "out allgather(y, 0, a)"},
		{"out y", "out alltoall(y, 0, 1, a)"},
		{"out y", "out permute(permute(y, a, shift=3), a, shift=-3)"},
		{"out permute(y, a, shift=1)", "out y"},
		{"out dropout(r, 0.5, key=3)", "out allgather(dropout(slice(r, 0, a), 0.5, key=3), 0, a)"},
		{"out dropout(r, 0.5, key=3)",
	     "out allgather(dropout(slice(slice(r, 0, a), 1, b), 0.5, key=3), 1, b)"},
		{"out dropout(y, 0.5, key=3)",
	     "out permute(dropout(permute(y, a, shift=1), 0.5, key=3), a, shift=-1)"},
		{"out sum(r)", "out allreduce(sum(slice(r, 1, b)), sum, b)"},
		{"out mean(r, 1)", "out allreduce(mean(slice(r, 1, b), 1), sum, b)"},
		{"out max(r, 0, keep)", "out allreduce(max(slice(r, 0, a), 0, keep), max, a)"},
		{"out norm(r)", "out sqrt(allreduce(sum(slice(r, 1, b)^2), sum, b))"},
		{"out matmul(r, w, tb)",
	     "out allreduce(matmul(slice(r, 1, b), slice(w, 1, b), tb), sum, b)"},
		{"out matmul(r, w, ta)", "out allgather(matmul(r, slice(w, 1, a), ta), 1, a)"},
		{"out softmax(r, 1)", "out allgather(softmax(slice(r, 0, a), 1), 0, a)"},
		{"out gather(r, reshape(i, N, 1), 1)",
	     "out allreduce(gather(slice(r, 1, a), reshape(i, N, 1), 1), sum, a)"},
		{"out reshape(r, N, 1, M)", "out allgather(reshape(slice(r, 0, a), N, 1, M), 0, a)"},
		{"out cumsum(r, 1)", "out allgather(cumsum(slice(r, 0, a), 1), 0, a)"},
		{"out cumsum(x, 0)", "out cumsum(allreduce(x, sum, a), 0)"},
		{"out cumsum(r, 0, reverse)", "out sum(r, 0, keep) - cumsum(r, 0) + r"},
		{"out gather_rows(r, i)", "out allreduce(gather_rows(slice(r, 0, a), i), sum, a)"},
		{"out gather_rows(r, i)", "out allgather(gather_rows(slice(r, 1, b), i), 1, b)"},
		{"out add_rows(r, i, 5)",
	     "out allreduce(add_rows(slice(r, 0, a), slice(i, 0, a), 5), sum, a)"},
		{"out add_rows(r, i, 5)", "out allgather(add_rows(slice(r, 1, b), i, 5), 1, b)"},
		{"out add_rows(r, i, 5)", "out add_rows(r + w, i, 5) - add_rows(w, i, 5)"},
		{"out transpose(y, 0, 1)", "out allgather(transpose(y, 0, 1), 1, a)"},
		{"out transpose(r, 0, 1)", "out transpose(transpose(transpose(r, 1, 0), 0, 1), 0, 1)"},
		{"out parts(r, 0, N)", "out parts(allgather(slice(r, 0, a), 0, a), 0, N)"},
		{"out join(r, 0)", "out allgather(join(spread(slice(join(r, 0), 0, a), 1, 1), 0), 0, a)"},
		{"out join(parts(r, 1, M), 1)", "out r"},
		{"out concat(r, w, 1)", "out first(r, 1, 2*M) + last(w, 1, 2*M)"},
		{"out concat(x, x*2, 0)", "out concat(allreduce(x, sum, a), 2*allreduce(x, sum, a), 0)"},
		{"out concat(r, y, 1)", "out allgather(concat(slice(r, 0, a), y, 1), 0, a)"},
		{"out spread(r, 1, 3)", "out allgather(spread(slice(r, 0, b), 1, 3), 0, b)"},
		{"out last(first(r, 0, 2*N), 0, 2*N)", "out first(r, 0, 2*N)"},
		{"out last(first(r, 0, N+M), 0, M)", "out last(r, 0, M)*0"},
		{"out first(r, 1, M+2) + last(w, 1, M+2)", "out last(w, 1, M+2) + first(r, 1, M+2)"},
		{"out r*spread(iota(f32, M), 0, N)",
	     "out allgather(slice(r, 1, b)*slice(iota(f32, M), 0, b), 1, b)"},
		{"out allreduce(x, sum, a)*2", "out allreduce(x*2, sum, a)"},
		{"out (r + w)*r", "out r*r + r*w"},
		{"out r/w", "out r*(1/w)"},
		{"out r/w/w", "out r*w^-2"},
		{"out maximum(r, w)", "out maximum(w, r)"},
		{"out exp(r + w)", "out exp(w + r)"},
		{"out cast(f16, r)", "out cast(f16, cast(f64, r))"},
		{"w <- w + r", "w <- w*2 w <- w - w/2 w <- w + r"},
		{"w <- w + r", "w <- allgather(slice(w, 0, a) + slice(r, 0, a), 0, a)"},
	};
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		lc_verdict v = verify_pair(rows[k][0], rows[k][1], k);
		if (!v.equal) fail_msg("%s | %s: %s", rows[k][0], rows[k][1], v.where);
		if (v.runs < 30 || v.meshes < 10 || !(v.chance > 0 && v.chance < 1e-6))
			fail_msg("%s: %d runs on %d meshes, chance %g", rows[k][0], v.runs, v.meshes, v.chance);
	}
}

static void test_different_pairs(void **state) {
	(void)state;
	static const char *const rows[][2] = {
		{"out dropout(r, 0.5, key=3)", "out dropout(r, 0.5, key=4)"},
		{"out dropout(r, 0.5, key=3)", "out dropout(r, 0.25, key=3)"},
		{"out r + w", "out r - w"},
		{"out r", "out w"},
		{"out exp(r)", "out sigmoid(r)"},
		{"out r^2", "out r^3"},
		{"out r^w", "out w^r"},
		{"out r < w", "out r <= w"},
		{"out relu(r)", "out r"},
		{"out sqrt(r*r)", "out r"},
		{"out matmul(r, w, ta)", "out matmul(w, r, ta)"},
		{"out mean(r)", "out sum(r)"},
		{"out max(r, 0)", "out min(r, 0)"},
		{"out allreduce(x, sum, a)", "out allreduce(x, sum, a)*size(a)"},
		{"out allreduce(x, sum, a)*0.1", "out allreduce(x, sum, a)*0.1000000000000000055"},
		{"out sigmoid(allreduce(x, sum, a))", "out allreduce(x*0.5, sum, a)"},
		{"out max(r)", "out max(r*2)/2"},
		{"out select(r > w, r, w)", "out select(r > w, w, r)"},
		{"out gather_rows(r, i)", "out r"},
		{"w <- w + r", "w <- w + r w <- w + r"},
		{"out i/2", "out i/4*2"},
		{"out cast(i32, r)", "out cast(i32, r + 0.0001)"},
		{"out log(r*w)", "out log(r) + log(w)"},
	};
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		bool same = strcmp(rows[k][1], "out allreduce(x, sum, a)*0.1000000000000000055") ==
		            0; /* one double */
		lc_verdict v = verify_pair(rows[k][0], rows[k][1], k);
		if (v.equal != same)
			fail_msg("%s | %s are taken for %s", rows[k][0], rows[k][1],
			         v.equal ? "equal" : "different");
		if (!same) assert_true(strlen(v.where) > 8);
	}
}

/* ---- bounds on rounding: the same in f64 is as good as exact ---- */

/* "$x" becomes "x", or "X", which is x in f64. */
static void put_body(const char *body, bool wide, FILE *out) {
	for (const char *c = body; *c; c++) {
		if (*c != '$') fputc(*c, out);
		else {
			c++;
			fputc(wide ? *c - 'a' + 'A' : *c, out);
		}
	}
}

static lc_file *bounded_program(const char *format, const char *body) {
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	fprintf(out,
	        "program p(mesh a) { dim N, M in x : %s[N,M] @ P(sum,a), y : %s[N,M] @ S(0,a), z : "
	        "%s[N,M] state w : %s[N,M]\n",
	        format, format, format, format);
	fputs("X = cast(f64, x) Y = cast(f64, y) Z = cast(f64, z) W = cast(f64, w) out ", out);
	put_body(body, false, out);
	fputs(" out ", out);
	put_body(body, true, out);
	fputs(" }", out);
	fclose(out);
	lc_file *file = read_ok(text);
	free(text);
	return file;
}

/* Bounds hold where both make the same choices; *decided: draws that leave no choice. */
static void check_bound(const char *format, const char *body, uint64_t seed, double *worst,
                        int *decided) {
	lc_file *file = bounded_program(format, body);
	const lc_program *p = file->programs.at[0];
	int64_t axes[LC_AXES] = {1 + (int64_t)seed % 5};
	int ids[8], count;
	lc_sizes s;
	lc_run *run, *bounds;
	lc_choices choices;
	lk_error err = {0};
	lc_run_options o = {.seed = seed};
	if (lc_sizes_draw(p, NULL, axes, seed, &s, &err) != LK_OK) fail_msg("%s", err.what);
	if (lc_run_program(p, &s, &o, &run, &err) != LK_OK ||
	    lc_run_bounds(run, &bounds, &choices, &err) != LK_OK)
		fail_msg("%s", err.what);
	assert_int_equal(lc_results(p, ids, 8, &count, &err), LK_OK);
	*decided += choices.count == 0;
	for (int64_t rank = 0; rank < run->ranks && choices.count == 0; rank++) {
		const lc_cells *low = lc_run_local(run, ids[0], 0, rank),
					   *high = lc_run_local(run, ids[1], 0, rank);
		const lc_cells *low_bound = lc_run_local(bounds, ids[0], 0, rank),
					   *high_bound = lc_run_local(bounds, ids[1], 0, rank);
		for (int64_t i = 0; low && i < low->count; i++) {
			double apart = fabs(low->number[i] - high->number[i]),
				   bound = low_bound->number[i] + high_bound->number[i];
			if (!isfinite(bound) || isnan(apart)) continue;
			if (apart > bound)
				fail_msg("%s, %s: %g is %g away, and the bound %g", format, body, low->number[i],
				         apart, bound);
			if (bound > 0) *worst = fmax(*worst, apart / bound);
		}
	}
	lc_run_free(run);
	lc_run_free(bounds);
	lc_choices_free(&choices);
	lc_sizes_free(&s);
	lc_file_free(file);
}

static void test_bounds(void **state) {
	(void)state;
	static const char *const formats[] = {"f32", "f16", "bf16", "f8"};
	static const char *const bodies[] = {
		"allreduce($x, sum, a)",
		"reducescatter($x, sum, a, dim=1)*$w",
		"matmul($z, $w, tb)",
		"matmul($y, $w, tb)",
		"matmul($w, $w, ta)*0.1",
		"$z/$w",
		"sqrt($w + 0.3)",
		"exp($z*$w)",
		"log($w + 1)",
		"tanh($z + $w)",
		"erf($z - $w)",
		"gelu($z*3)",
		"sigmoid($z*$z)",
		"relu($z - $w)",
		"$w^3",
		"($w + 1)^-2",
		"$w^$z",
		"abs($z + $w)",
		"minimum($z*$w, $w*$w)",
		"maximum($z, $w*$w)",
		"select($z < $w*$w, $w + 1, $z/3)",
		"argmax($z*$w, 1)",
		"argmin(allreduce($x, sum, a), 0)",
		"round($z*$w*9)",
		"sum($z*$w)",
		"mean($z, 0)",
		"norm($z + $w)",
		"max($z*$z, 1)",
		"allreduce(sum($y + 1, 0), sum, a)",
		"dropout($z*$w, 0.3, key=1)",
		"dropout($z + 100 - 100, 0.3, key=1)", /* zeros by rounding are no dropped elements */
		"dropout(allreduce($x, sum, a), 0.3, key=1) + $z*0.01",
		"($z + $w)*($z - $w)/($w + 0.1)",
		"$y*$w - $z*0.1 + 1/3",
		"permute($y*$y, a, shift=1)",
		"alltoall($y + $w, 0, 1, a)",
		"$w - 0.001*($z/(1 - 0.9^3))/(sqrt($w/(1 - 0.99^3)) + 0.00001)",
		"allgather(reducescatter($x*$w, sum, a, dim=0)/size(a), 0, a)",
	};
	double worst = 0;
	for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
		int decided = 0;
		for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
			for (uint64_t seed = 1; seed <= 6; seed++)
				check_bound(formats[f], bodies[b], seed, &worst, &decided);
		if (decided < 6) fail_msg("%s: %d draws without a choice", bodies[b], decided);
	}
	assert_true(worst > 0.2 && worst <= 1); /* not far above what happens */
}

/* ---- degrees ---- */

static void test_degrees(void **state) {
	(void)state;
	static const struct {
		const char *body;
		double result, hashes;
	} rows[] = {
		{"out x*y + 1", 2, 0},   {"out (x + y)^5", 5, 0},           {"out x/y", 2, 1},
		{"out x/y + y/x", 4, 2}, {"out x*0.5 - 3", 1, 0},           {"out sqrt(x*y)*x", 2, 1},
		{"out x^y", 1, 1},       {"out select(x < y, x, y)", 2, 1}, {"out (1 - x)*(1 - x)", 2, 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[256];
		lc_sizes s;
		lc_degrees d;
		lk_error err = {0};
		snprintf(text, sizeof text, "program p(mesh a) { in x : f32, y : f32 %s }", rows[i].body);
		lc_file *file = read_ok(text);
		assert_int_equal(lc_sizes_read(file->programs.at[0], "a=1", 1, &s, &err), LK_OK);
		assert_int_equal(lc_degrees_of(file->programs.at[0], &s, &d, &err), LK_OK);
		if (d.result != rows[i].result || d.hashes != rows[i].hashes)
			fail_msg("%s: %g, %g hashes", rows[i].body, d.result, d.hashes);
		assert_true(lc_chance(&d, &d) >= d.result / 0x1p61 && lc_chance(&d, &d) < 1e-15);
		lc_sizes_free(&s);
		lc_file_free(file);
	}
}

/* ---- a slice of one element that is repeated is on one rank alone ---- */

static void test_repeated(void **state) {
	(void)state;
	static const char *const bodies[] = {
		"in x : f32[1] @ S(0,a), y : f32[N] @ S(0,a) out x + y",
		"in x : f32[N,1] @ S(1,a), y : f32[M] @ S(0,a) out x*y",
		"in x : f32[1,N,N] @ S(0,a), y : f32[M,N,N] out matmul(x, y)"};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		char text[256];
		lc_file *file = NULL;
		lk_error err = {0};
		snprintf(text, sizeof text, "program p(mesh a) { dim N, M %s }", bodies[i]);
		assert_int_equal(lc_parse("repeated", text, strlen(text), &file, &err), LK_ERR_INPUT);
		if (!strstr(err.what, "repeated on all ranks") || !strstr(err.hint, "allgather(x, "))
			fail_msg("%s; %s", err.what, err.hint);
		lc_file_free(file);
	}
}

/* ---- limits ---- */

static void test_limits(void **state) {
	(void)state;
	static const struct {
		const char *text, *sizes, *what;
	} rows[] = {
		{"program p(mesh a) { dim N in x : f32[N,N] out exp(x) }", "N=1000000",
	     "elements at a time"},
		{"program p(mesh a) { dim N in x : f32[N,N] out matmul(x, x) }", "N=8000,a=1", "products"},
		{"program p(mesh a) { in t : f32[3,2] in i : i32[4] out gather_rows(t, i + 3) }", "a=1",
	     "and the table has 3 rows"},
		{"program p(mesh a) { list L in x : f32[2] of L y = x + 1 z = y + 1 out z }", "a=4096",
	     NULL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		lc_file *file = read_ok(rows[i].text);
		const lc_program *p = file->programs.at[0];
		lc_sizes s;
		lc_run *run = NULL;
		lk_error err = {0};
		lc_run_options o = {.seed = 1};
		if (lc_sizes_read(p, rows[i].sizes, 1, &s, &err) != LK_OK) fail_msg("%s", err.what);
		lk_status status = lc_run_program(p, &s, &o, &run, &err);
		if (!rows[i].what) assert_int_equal(status, LK_OK);
		else if (status != LK_ERR_INPUT || !strstr(err.what, rows[i].what))
			fail_msg("%s: %s", rows[i].text, err.what);
		lc_run_free(run);
		lc_sizes_free(&s);
		lc_file_free(file);
	}
}

/* ---- dumps ---- */

static lc_run *dump(const lc_program *p, lc_sizes *s, const char *sizes, const char *folder) {
	lk_error err = {0};
	lc_run *run;
	int ids[8], count;
	lc_run_options o = {.seed = 0};
	assert_int_equal(lc_sizes_read(p, sizes, 4, s, &err), LK_OK);
	assert_int_equal(lc_run_program(p, s, &o, &run, &err), LK_OK);
	lc_results(p, ids, 8, &count, &err);
	for (int64_t rank = 0; rank < run->ranks; rank++) {
		char path[128];
		snprintf(path, sizeof path, "%s/plain.%d", folder, (int)rank);
		FILE *file = fopen(path, "wb");
		for (int i = 0; i < count; i++)
			for (int64_t item = 0; item < lc_items(p, s, &p->nodes.at[ids[i]]); item++) {
				const lc_cells *cells = lc_run_local(run, ids[i], item, rank);
				int64_t n = cells ? cells->count : 0;
				fwrite(&n, 8, 1, file);
				if (n) fwrite(cells->number, 8, (size_t)n, file);
			}
		fclose(file);
	}
	return run;
}

static lk_status compare(const char *text, const char *folder, bool *no, lk_error *err) {
	lk_compile *answer;
	FILE *nothing = fopen("/dev/null", "w");
	const lk_compile_request request = {
		.action = LK_COMPILE_RUN, .sizes = "N=10", .compare = folder};
	assert_int_equal(lk_compile_text("text", text, strlen(text), &answer, err), LK_OK);
	lk_status status = lk_compile_act(answer, &request, nothing, err);
	*no = lk_compile_no(answer);
	lk_compile_free(answer);
	fclose(nothing);
	return status;
}

/* Changes 8 bytes of a file at a place, or cuts it there. */
static void damage(const char *path, long at, double value, bool cut) {
	if (cut) {
		assert_int_equal(truncate(path, at), 0);
		return;
	}
	FILE *file = fopen(path, "r+b");
	fseek(file, at, SEEK_SET);
	fwrite(&value, sizeof value, 1, file);
	fclose(file);
}

static void test_compare(void **state) {
	(void)state;
	static const char text[] = "program p(mesh a) { dim N in x : f32[N] @ P(sum,a) state w : "
							   "f32[N] g = allreduce(x, sum, a)\n"
							   "w <- w - 0.1*g r = reducescatter(x, sum, a, dim=0) out r }";
	char path[128];
	bool no;
	lk_error err = {0};
	lc_file *file = read_ok(text);
	lc_sizes s;
	lc_run *run = dump(file->programs.at[0], &s, "N=10", scratch);
	int ids[8], count;
	lc_results(file->programs.at[0], ids, 8, &count, &err);
	double x = lc_run_local(run, ids[0], 0, 2)->number[1];
	snprintf(path, sizeof path, "%s/plain.2", scratch);
	assert_int_equal(compare(text, scratch, &no, &err), LK_OK);
	assert_false(no);
	damage(path, 16, x * (1 + 0x1p-22), false); /* within rounding */
	assert_int_equal(compare(text, scratch, &no, &err), LK_OK);
	assert_false(no);
	damage(path, 16, x * 1.001, false);
	assert_int_equal(compare(text, scratch, &no, &err), LK_OK);
	assert_true(no);
	damage(path, 16, NAN, false);
	assert_int_equal(compare(text, scratch, &no, &err), LK_OK);
	assert_true(no);
	damage(path, 0, 1, false); /* a count that is none */
	assert_int_equal(compare(text, scratch, &no, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "another number of elements"));
	damage(path, 5, 0, true);
	assert_int_equal(compare(text, scratch, &no, &err), LK_ERR_INPUT);
	assert_non_null(strstr(err.what, "too early"));
	remove(path);
	assert_int_equal(compare(text, scratch, &no, &err), LK_ERR_INPUT);
	lc_run_free(run);
	lc_sizes_free(&s);
	lc_file_free(file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_philox),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_field),
		cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_composed),
		cmocka_unit_test(test_rows_for_ranks),
		cmocka_unit_test(test_equal_pairs),
		cmocka_unit_test(test_different_pairs),
		cmocka_unit_test(test_degrees),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_limits),
		cmocka_unit_test_setup_teardown(test_compare, make_scratch, remove_scratch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
