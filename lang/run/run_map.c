/* run_map.c: pointwise operations: a kernel per operation for each row that all operands share. */
#include <math.h>

#include "lang/run/run_internal.h"
#include "base/check.h"

enum { ROW = 512 }; /* numbers that a kernel processes at a time */

/* ---- kernels on numbers ---- */

static double gelu(double x) {
	return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double sigmoid(double x) {
	return 1 / (1 + exp(-x));
}

#define EACH(expression) \
	for (int64_t i = 0; i < n; i++) out[i] = (expression)

static void real_kernel(int op, int64_t n, const double *a, const double *b, const double *c,
                        double *out) {
	switch (op) {
	case LC_ADD: EACH(a[i] + b[i]); break;
	case LC_SUB: EACH(a[i] - b[i]); break;
	case LC_MUL: EACH(a[i] * b[i]); break;
	case LC_DIV: EACH(a[i] / b[i]); break;
	case LC_POW: EACH(b[i] == 2 ? a[i] * a[i] : pow(a[i], b[i])); break;
	case LC_LT: EACH(a[i] < b[i]); break;
	case LC_LE: EACH(a[i] <= b[i]); break;
	case LC_GT: EACH(a[i] > b[i]); break;
	case LC_GE: EACH(a[i] >= b[i]); break;
	case LC_EQ: EACH(a[i] == b[i]); break;
	case LC_NE: EACH(a[i] != b[i]); break;
	case LC_NEG: EACH(-a[i]); break;
	case LC_MIN: EACH(b[i] < a[i] ? b[i] : a[i]); break;
	case LC_MAX: EACH(a[i] < b[i] ? b[i] : a[i]); break;
	case LC_SQRT: EACH(sqrt(a[i])); break;
	case LC_EXP: EACH(exp(a[i])); break;
	case LC_LOG: EACH(log(a[i])); break;
	case LC_TANH: EACH(tanh(a[i])); break;
	case LC_ERF: EACH(erf(a[i])); break;
	case LC_RELU: EACH(a[i] > 0 ? a[i] : 0); break;
	case LC_GELU: EACH(gelu(a[i])); break;
	case LC_SIGMOID: EACH(sigmoid(a[i])); break;
	case LC_ABS: EACH(fabs(a[i])); break;
	case LC_SIN: EACH(sin(a[i])); break;
	case LC_COS: EACH(cos(a[i])); break;
	case LC_EXP2: EACH(exp2(a[i])); break;
	case LC_ROUND: EACH(rint(a[i])); break;
	case LC_SELECT: EACH(a[i] != 0 ? b[i] : c[i]); break;
	default: EACH(a[i]); break; /* cast: converted when it was fetched */
	}
}

/* Integer versions of operations that differ from the real ones; false: no difference. */
static bool integer_kernel(int op, lc_dtype t, int64_t n, const double *a, const double *b,
                           double *out) {
	switch (op) {
	case LC_ADD: EACH(lc_wrap(t, lc_bits(a[i]) + lc_bits(b[i]))); return true;
	case LC_SUB: EACH(lc_wrap(t, lc_bits(a[i]) - lc_bits(b[i]))); return true;
	case LC_MUL: EACH(lc_wrap(t, lc_bits(a[i]) * lc_bits(b[i]))); return true;
	case LC_DIV: EACH(lc_integer_over(t, a[i], b[i])); return true;
	case LC_POW: EACH(lc_integer_power(t, a[i], b[i])); return true;
	case LC_NEG: EACH(lc_wrap(t, 0 - lc_bits(a[i]))); return true;
	case LC_ABS: EACH(lc_wrap(t, lc_bits(fabs(a[i])))); return true;
	default: return false;
	}
}

/* ---- rows of numbers ---- */

struct numbers {
	const lc_node *n;
	const double *in[LC_INPUTS];
	double *out;
	lc_dtype from[LC_INPUTS],
		as[LC_INPUTS]; /* formats of operands, and the formats they are read in */
	lc_dtype working;  /* of the arithmetic: the format operands are read in */
};

/* Operand i, `count` numbers from `at` on, in the working format. */
static const double *fetch(const struct numbers *numbers, int i, int64_t at, int64_t stride,
                           int64_t count, double *room) {
	const double *from = numbers->in[i] + at;
	if (numbers->from[i] == numbers->as[i] && stride == 1) return from;
	if (stride == 0) {
		double one = numbers->from[i] == numbers->as[i]
		                 ? *from
		                 : lc_convert(numbers->from[i], numbers->as[i], *from);
		for (int64_t k = 0; k < count; k++) room[k] = one;
		return room;
	}
	for (int64_t k = 0; k < count; k++)
		room[k] = numbers->from[i] == numbers->as[i]
		              ? from[k * stride]
		              : lc_convert(numbers->from[i], numbers->as[i], from[k * stride]);
	return room;
}

static void number_row(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                       const int64_t stride[LC_INPUTS]) {
	const struct numbers *numbers = state;
	double room[LC_INPUTS][ROW];
	const double *x[LC_INPUTS] = {NULL};
	for (int64_t done = 0; done < count; done += ROW) {
		int64_t n = count - done < ROW ? count - done : ROW;
		double *to = numbers->out + out + done;
		for (int i = 0; i < numbers->n->inputs; i++)
			x[i] = fetch(numbers, i, in[i] + done * stride[i], stride[i], n, room[i]);
		bool whole = lc_is_integer(numbers->working) && numbers->working != LC_WEAK_INT;
		if (!whole || !integer_kernel(numbers->n->op, numbers->working, n, x[0], x[1], to))
			real_kernel(numbers->n->op, n, x[0], x[1], x[2], to);
		lc_round_all((lc_dtype)numbers->n->dtype, to, n);
	}
}

/* The common format of the operands: that of the one that is not weak. */
static lc_dtype working_format(const lc_at *at) {
	if (at->n->op == LC_CAST) return (lc_dtype)at->n->dtype;
	for (int i = at->n->op == LC_SELECT; i < at->n->inputs; i++) {
		lc_dtype t = (lc_dtype)at->run->p->nodes.at[at->n->in[i]].dtype;
		if (!lc_is_weak(t)) return t;
	}
	return LC_WEAK_REAL;
}

static void map_numbers(const lc_at *at, const lc_walk *walk, const lc_cells *const in[LC_INPUTS]) {
	struct numbers s = {.n = at->n, .out = at->out->number, .working = working_format(at)};
	for (int i = 0; i < at->n->inputs; i++) {
		s.in[i] = in[i]->number;
		s.from[i] = (lc_dtype)at->run->p->nodes.at[at->n->in[i]].dtype;
		bool condition = at->n->op == LC_SELECT && i == 0;
		s.as[i] =
			condition || (lc_is_weak(s.from[i]) && lc_is_weak(s.working)) ? s.from[i] : s.working;
	}
	lc_each_row(walk, at->n->inputs, number_row, &s);
}

/* ---- rows of field elements ---- */

struct elements {
	lc_field_row row;
	const uint64_t *in[LC_INPUTS];
	uint64_t *out;
	int inputs;
};

static void element_row(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                        const int64_t stride[LC_INPUTS]) {
	const struct elements *elements = state;
	const uint64_t *x[LC_INPUTS] = {NULL};
	for (int i = 0; i < elements->inputs; i++) x[i] = elements->in[i] + in[i];
	lc_map_field(&elements->row, count, x, stride, elements->out + out);
}

/* An integer literal exponent, with or without a sign. */
static int64_t literal(const lc_program *program, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *n = &program->nodes.at[id];
	bool minus = n->op == LC_NEG;
	if (minus) n = &program->nodes.at[n->in[0]];
	if (n->op != LC_CONST || n->dtype != LC_WEAK_INT || n->number > 1024) return LC_NO_EXPONENT;
	return minus ? -(int64_t)n->number : (int64_t)n->number;
}

/* Whether a cast is the identity: to a real format; between integers; of bool to anything. */
static bool embeds(const lc_at *at) {
	lc_dtype from = (lc_dtype)at->run->p->nodes.at[at->n->in[0]].dtype, to = (lc_dtype)at->n->dtype;
	if (to == LC_BOOL) return from == LC_BOOL;
	return lc_is_real(to) || !lc_is_real(from);
}

static void map_elements(const lc_at *at, const lc_walk *walk,
                         const lc_cells *const in[LC_INPUTS]) {
	struct elements s = {.out = at->out->element, .inputs = at->n->inputs};
	s.row = (lc_field_row){.op = at->n->op, .key = at->run->o.key, .exponent = LC_NO_EXPONENT};
	s.row.integer = lc_is_integer((lc_dtype)at->n->dtype) && at->n->dtype != LC_WEAK_INT;
	if (at->n->op == LC_POW) s.row.exponent = literal(at->run->p, at->n->in[1]);
	if (s.row.integer && s.row.exponent < 0) s.row.exponent = LC_NO_EXPONENT;
	s.row.hashed_cast = at->n->op == LC_CAST && !embeds(at);
	for (int i = 0; i < at->n->inputs; i++) s.in[i] = in[i]->element;
	lc_each_row(walk, at->n->inputs, element_row, &s);
}

lk_status lc_run_map(lc_at *at) {
	const lc_cells *in[LC_INPUTS] = {NULL};
	lc_walk w;
	LK_TRY(lc_walk_operands(at, &w, in));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	if (at->box.count == 0) return LK_OK;
	if (lc_in_field(at->run)) map_elements(at, &w, in);
	else map_numbers(at, &w, in);
	return LK_OK;
}

/* ---- dropout ---- */

struct mask {
	uint32_t item;
	uint64_t key;
	double probability;
};

static bool run_map_kept(const struct mask *mask, int64_t index) {
	return (lc_philox((uint64_t)index, 0, mask->item, mask->key) + 0.5) / 0x1p32 >=
	       mask->probability;
}

static void drop_row(const lc_at *at, const struct mask *mask, const lc_cells *in, int64_t first,
                     int64_t begin, int64_t count) {
	double scale = 1 - mask->probability;
	uint64_t inverse = lc_field_inverse(lc_field_number(scale));
	for (int64_t i = 0; i < count; i++) {
		bool keep = run_map_kept(mask, first + i);
		int64_t k = begin + i;
		if (at->out->number) at->out->number[k] = keep ? in->number[k] / scale : 0;
		else at->out->element[k] = keep ? lc_field_multiply(in->element[k], inverse) : 0;
	}
	if (at->out->number) lc_round_all((lc_dtype)at->n->dtype, at->out->number + begin, count);
}

lk_status lc_run_dropout(lc_at *at) {
	const struct mask m = {(uint32_t)at->item, (uint64_t)at->n->key, at->n->number};
	const lc_cells *in;
	lc_box box;
	int last = at->box.rank - 1;
	int64_t whole[LC_RANK], place[LC_RANK] = {0}, row = last < 0 ? 1 : at->box.extent[last];
	LK_TRY(lc_operand(at, 0, &in, &box));
	LK_TRY(lc_whole_shape(at->run->p, at->n, at->run->s, at->item, whole, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	for (int64_t begin = 0; begin < at->box.count; begin += row) {
		int64_t first = 0;
		for (int d = 0; d < at->box.rank; d++)
			first = first * whole[d] + at->box.begin[d] + place[d];
		drop_row(at, &m, in, first, begin, row);
		for (int d = last; --d >= 0 && ++place[d] == at->box.extent[d];) place[d] = 0;
	}
	return LK_OK;
}
