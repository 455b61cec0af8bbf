/* run_bound.c: bounds, element by element, on how far executions of a program may be from a run of
 * the interpreter: a running forward error analysis (Wilkinson; Higham, Accuracy and Stability of
 * Numerical Algorithms, chapters 2 to 4) of two executions at a time. One is the run, whose numbers
 * are known; the other is any that rounds each operation to its format or to a finer one, exact
 * arithmetic among them.
 *
 * With u the unit roundoff of the value's format, y the run's value, x its operands and e the
 * bounds of the operands, the operands contribute to the result's error c =
 *
 *   sums         e1 + e2                             products     |x1|e2 + |x2|e1 + e1e2
 *   quotients    (e1 + |y|e2)/(|x2| - e2)            functions    (slope over x +- e) e
 *   n summands   sum of e                            matmul       (|A| + e1)(|B| + e2) - |A||B|
 *
 * and the result's bound is c + u|y| + u(|y| + c): the run's rounding, and the other's. Library
 * functions may be wrong by 4 roundings.
 *
 * Sums and matrix products are bounded for every order of summation: if n numbers x are added with
 * a rounding after each addition, each passes through n - 1 roundings at most, whatever the tree,
 * so the result is within ((1 + v)^(n-1) - 1) sum of |x| of the exact one (Higham, section 4.2); a
 * product's or a mean's own rounding makes it n. v is the roundoff of the format of the summation.
 * On a rank that is the value's, but no worse than f32, in which targets sum narrower formats; the
 * run sums in double. Over ranks it is the value's: parts are rounded to it before they are sent,
 * libraries choose the order and round after each addition, and the run does so in its own order.
 * So both count: u' = (1 + u)^(P-1) - 1 times the sum over P ranks of |x|, and of |x| + e.
 * Additions have no error of underflow.
 *
 * Comparisons, roundings to integers and truncations are steps. The other execution is assumed to
 * be on the same side of each as the run, so that choices, counts and indices are the same in both;
 * if the operands' bounds reach across the step, that is a choice, which is reported with the
 * number that makes a run take the other side. An element that is the extremum of its row is no
 * choice, however it was rounded, unless another equals it: it is compared with itself.
 *
 * At a pole, where numbers become infinite, or where partial sums over ranks may overflow or
 * saturate, there is no bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lang/run/run_bound.h"

enum { LIBRARY = 4 }; /* roundings by which a library function may be wrong */

static double sum_roundoff(lc_dtype t) {
	if (t == LC_F64 || t == LC_F32) return lc_roundoff(t);
	if (lc_is_real(t)) return 0x1p-24;
	return 0;
}

/* ---- pointwise ---- */

static double quotient(const double x[], const double e[], double y) {
	double room = fabs(x[1]) - e[1];
	return room > 0 ? (e[0] + fabs(y) * e[1]) / room : INFINITY;
}

static double bound_power(const double x[], const double e[], double y) {
	double whole = floor(x[1]), base = fabs(x[0]) + e[0];
	if (e[1] == 0 && whole == x[1] && x[1] >= 1) return x[1] * pow(base, x[1] - 1) * e[0];
	if (e[1] == 0 && x[1] == 0) return 0;
	double least = x[0] - e[0];
	if (!(least > 0)) return e[0] == 0 && e[1] == 0 ? 0 : INFINITY;
	double logs = fmax(fabs(log(least)), fabs(log(base)));
	return fabs(y) * expm1(fabs(x[1]) * e[0] / least + e[1] * logs);
}

static double bound_root(double x, double e) {
	if (e == 0) return 0;
	return x - e > 0 ? e / (sqrt(x) + sqrt(x - e)) : sqrt(fmax(x, 0) + e);
}

/* The change of a monotonic y = f(x) from f(x - e) to f(x + e); with two operands, of both. */
static double bound_between(double least, double y, double most) {
	return most == least ? 0 : fmax(most - y, y - least);
}

/* The change of a step whose operands have bounds, both executions being on one side. */
static double same_side(double far) {
	return isfinite(far) ? 0 : INFINITY;
}

/* The error that the operands' bounds carry into the result, before its own rounding. */
static double bound_carried(int op, const double x[], const double e[], double y) {
	switch (op) {
	case LC_ADD:
	case LC_SUB: return e[0] + e[1];
	case LC_MUL: return fabs(x[0]) * e[1] + fabs(x[1]) * e[0] + e[0] * e[1];
	case LC_DIV: return quotient(x, e, y);
	case LC_POW: return bound_power(x, e, y);
	case LC_LT:
	case LC_LE:
	case LC_GT:
	case LC_GE:
	case LC_EQ:
	case LC_NE: return same_side(e[0] + e[1]);
	case LC_ROUND: return same_side(e[0]);
	case LC_MIN:
		return bound_between(fmin(x[0] - e[0], x[1] - e[1]), y, fmin(x[0] + e[0], x[1] + e[1]));
	case LC_MAX:
		return bound_between(fmax(x[0] - e[0], x[1] - e[1]), y, fmax(x[0] + e[0], x[1] + e[1]));
	case LC_RELU: return bound_between(fmax(x[0] - e[0], 0), y, fmax(x[0] + e[0], 0));
	case LC_SELECT: return same_side(e[0]) + (x[0] != 0 ? e[1] : e[2]);
	case LC_SQRT: return bound_root(x[0], e[0]);
	case LC_EXP: return fabs(y) * expm1(e[0]);
	case LC_LOG: {
		if (e[0] == 0) return 0;
		if (x[0] - e[0] > 0) return log(x[0] / (x[0] - e[0]));
		return INFINITY;
	}
	case LC_ERF:
	case LC_GELU: return 1.13 * e[0]; /* 2/sqrt(pi) = 1.1284; the steepest of gelu is 1.1290 */
	case LC_SIGMOID: return e[0] / 4;
	case LC_EXP2: return fabs(y) * expm1(e[0] * 0.69314718055994530942);
	default: return e[0]; /* slopes of at most 1 */
	}
}

static bool exact(int op) {
	return op == LC_NEG || op == LC_COPY || op == LC_MIN || op == LC_MAX || op == LC_RELU ||
	       op == LC_ABS || op == LC_ROUND || op == LC_SELECT || (op >= LC_LT && op <= LC_NE);
}

/* The own rounding; literals are rounded to the other operand's format. */
static double bound_rounded(const lc_program *program, const lc_node *node, const double x[],
                            double y, double carry) {
	lc_dtype t = (lc_dtype)node->dtype;
	if (exact(node->op)) return 0;
	if ((node->op >= LC_SQRT && node->op <= LC_ERF) || node->op == LC_POW ||
	    (node->op >= LC_SIN && node->op <= LC_EXP2))
		return lc_bound_rounded(t, y, carry, LIBRARY);
	if (node->op == LC_GELU || node->op == LC_SIGMOID)
		return lc_bound_rounded(t, fmax(fabs(x[0]), fabs(y)), carry, LIBRARY);
	return lc_bound_rounded(t, y, carry,
	                        lc_divides_all(program, node) ? 2 : 1); /* by a reciprocal */
}

/* ---- rows ---- */

static void bound_row(void *state, int64_t out, int64_t count, const int64_t in[LC_INPUTS],
                      const int64_t stride[LC_INPUTS]) {
	lc_bound_row *row_state = state;
	const lc_node *node = row_state->n;
	lc_dtype t = (lc_dtype)node->dtype;
	bool truncated = lc_bound_truncates(row_state);
	for (int64_t i = 0; i < count; i++) {
		double x[LC_INPUTS] = {0}, e[LC_INPUTS] = {0}, y = row_state->y[out + i];
		int64_t element[LC_INPUTS] = {0};
		for (int k = 0; k < node->inputs; k++) {
			element[k] = in[k] + i * stride[k];
			x[k] = row_state->x[k][element[k]];
			e[k] = row_state->e[k][element[k]];
			if (row_state->weak[k] && lc_round(t, x[k]) != x[k]) e[k] += lc_rounding(t, x[k]);
		}
		if (lc_compares(node->op)) lc_note_comparison(row_state, x, e, element);
		if (node->op == LC_ROUND || truncated)
			lc_note_truncation(row_state, x[0], e[0], y, element[0]);
		double carry = truncated ? same_side(e[0]) : bound_carried(node->op, x, e, y);
		row_state->out[out + i] =
			carry + bound_rounded(row_state->bounds->run->p, node, x, y, carry);
	}
}

static lk_status bound_map(lc_bounds *bounds, lc_at *at) {
	const lc_cells *x[LC_INPUTS], *e[LC_INPUTS];
	lc_walk w;
	lc_at values = *at;
	lc_bound_row s = {
		.bounds = bounds, .at = at, .n = at->n, .out = at->out->number, .extremum = -1};
	values.run = (lc_run *)(uintptr_t)bounds->run; /* read only */
	LK_TRY(lc_walk_operands(&values, &w, x));
	LK_TRY(lc_walk_operands(at, &w, e));
	s.y = lc_part_of(bounds->run, at->id, at->item, at->rank)->number;
	for (int i = 0; i < at->n->inputs; i++) {
		s.x[i] = x[i]->number;
		s.e[i] = e[i]->number;
		s.weak[i] = lc_is_weak((lc_dtype)bounds->run->p->nodes.at[at->n->in[i]].dtype) &&
		            !lc_is_weak((lc_dtype)at->n->dtype);
	}
	for (int k = 0; k < 2 && lc_compares(at->n->op) && s.extremum < 0; k++)
		if (lc_bound_is_extremum(bounds->run->p, at->n, k)) s.extremum = k;
	if (s.extremum >= 0) {
		s.equals = calloc((size_t)x[s.extremum]->count + 1, sizeof *s.equals);
		if (!s.equals) return lk_oom(bounds->err);
		if (at->box.count) lc_each_row(&w, at->n->inputs, lc_bound_count_equals, &s);
	}
	if (at->box.count) lc_each_row(&w, at->n->inputs, bound_row, &s);
	free(s.equals);
	return s.status;
}

static lk_status bound_dropout(lc_bounds *bounds, lc_at *at) {
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank), *x, *e;
	lc_at values = *at;
	lc_box box;
	values.run = (lc_run *)(uintptr_t)bounds->run; /* read only */
	LK_TRY(lc_operand(&values, 0, &x, &box));
	LK_TRY(lc_operand(at, 0, &e, &box));
	/* 1 - p is rounded too, and may be multiplied by its inverse. A zero was dropped, unless it was
	 * zero before: a sum that is zero here by the order of its additions may not be zero
	 * elsewhere. */
	for (int64_t i = 0; i < cells->count; i++) {
		bool dropped = cells->number[i] == 0 && x->number[i] != 0;
		double carry = e->number[i] / (1 - at->n->number);
		at->out->number[i] =
			dropped ? 0
					: carry + lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], carry, 3);
	}
	return LK_OK;
}

/* ---- operations on transformed operands ---- */

typedef double form(double x, double e);
static double bound_size_of(double x, double e) {
	return (void)e, fabs(x);
}
static double most_of(double x, double e) {
	return fabs(x) + e;
}
static double least_of(double x, double e) {
	return x - e;
}
static double highest_of(double x, double e) {
	return x + e;
}
static double slack_of(double x, double e) {
	return (2 * fabs(x) + e) * e;
} /* of squares */
static double square_of(double x, double e) {
	return (fabs(x) + e) * (fabs(x) + e);
}
static double bound_of(double x, double e) {
	return (void)x, e;
}
static double bound_value_of(double x, double e) {
	return (void)e, x;
}

static lk_status form_part(lc_bounds *bounds, int id, int64_t at, form *f) {
	const lc_cells *cells = &bounds->run->parts[id][at], *e = &bounds->out->parts[id][at];
	lc_cells *to = &bounds->scratch.parts[id][at];
	lc_cells_drop(&bounds->scratch, to);
	if (!cells->number) return LK_OK;
	LK_TRY(lc_cells_new(&bounds->scratch, cells->count, to, bounds->err));
	for (int64_t i = 0; i < cells->count; i++) to->number[i] = f(cells->number[i], e->number[i]);
	return LK_OK;
}

static int64_t bound_parts_of(const lc_bounds *bounds, int id) {
	return lc_items(bounds->run->p, bounds->run->s, &bounds->run->p->nodes.at[id]) *
	       bounds->run->ranks;
}

static lk_status bound_make_room(lc_bounds *bounds, int id) {
	if (!bounds->scratch.parts[id])
		bounds->scratch.parts[id] =
			LK_ARRAY(&bounds->scratch.arena, lc_cells, (size_t)bound_parts_of(bounds, id));
	return bounds->scratch.parts[id] ? LK_OK : lk_oom(bounds->err);
}

enum { ALL_RANKS = -1 };

/* Transform operand `id`, on one rank or on all. */
static lk_status bound_take_form(lc_bounds *bounds, int id, int64_t rank, form *f) {
	LK_TRY(bound_make_room(bounds, id));
	for (int64_t i = 0; i < bound_parts_of(bounds, id); i++)
		if (rank == ALL_RANKS || i % bounds->run->ranks == rank)
			LK_TRY(form_part(bounds, id, i, f));
	return LK_OK;
}

static void drop_form(lc_bounds *bounds, int id) {
	for (int64_t i = 0; bounds->scratch.parts[id] && i < bound_parts_of(bounds, id); i++)
		lc_cells_drop(&bounds->scratch, &bounds->scratch.parts[id][i]);
}

/* Apply the operation to the transformed operands, in double. */
static lk_status bound_apply(lc_bounds *bounds, const lc_at *at, const lc_node *node,
                             lc_operation *operation, lc_cells *out) {
	lc_at other = *at;
	other.run = &bounds->scratch;
	other.n = node;
	other.out = out;
	bounds->scratch.work = 0;
	return operation(&other);
}

struct linear {
	lc_operation *operation;
	form *most, *least, *size; /* bound = most - least + slack * size + both roundings */
	double slack;
};

static void bound_combine(const lc_bounds *bounds, const lc_at *at, const struct linear *linear,
                          const lc_cells of[3]) {
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	for (int64_t i = 0; i < cells->count; i++) {
		double apart = of[0].number[i] - (linear->least ? of[1].number[i] : 0);
		double carry = (isnan(apart) ? INFINITY : fmax(apart, 0)) + linear->slack * of[2].number[i];
		at->out->number[i] =
			carry + lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], carry, 1);
	}
}

static lk_status bound_linear(lc_bounds *bounds, const lc_at *at, const lc_node *node,
                              const struct linear *linear) {
	form *const forms[3] = {linear->most, linear->least, linear->size};
	lc_cells of[3] = {{0}};
	lk_status status = LK_OK;
	for (int k = 0; k < 3 && status == LK_OK; k++) {
		for (int i = 0; i < node->inputs && forms[k] && status == LK_OK; i++)
			status = bound_take_form(bounds, node->in[i], at->rank, forms[k]);
		if (forms[k] && status == LK_OK)
			status = bound_apply(bounds, at, node, linear->operation, &of[k]);
	}
	if (status == LK_OK) bound_combine(bounds, at, linear, of);
	for (int k = 0; k < 3; k++) lc_cells_drop(&bounds->scratch, &of[k]);
	for (int i = 0; i < node->inputs; i++) drop_form(bounds, node->in[i]);
	return status;
}

/* ---- sums ---- */

/* Effect of n roundings of an execution, and as many of the run, on the terms of a sum on a
 * rank. */
static double sum_slack(lc_dtype t, double n) {
	return lc_is_real(t)
	           ? lc_bound_growth(sum_roundoff(t), n) + lc_bound_growth(lc_roundoff(LC_F64), n)
	           : 0;
}

/* The most elements in one element of the result. */
static lk_status summands(const lc_bounds *bounds, const lc_at *at, double *out) {
	const lc_node *node = &bounds->run->p->nodes.at[at->n->in[0]];
	int64_t whole[LC_RANK];
	double all = 1;
	LK_TRY(lc_whole_shape(bounds->run->p, node, bounds->run->s,
	                      node->list < 0 || at->n->op == LC_TOTAL ? 0 : at->item, whole,
	                      bounds->err));
	for (int d = 0; d < node->rank; d++) all *= (double)whole[d];
	if (at->n->op == LC_TOTAL) all = (double)lc_items(bounds->run->p, bounds->run->s, node);
	if (at->n->op == LC_MATMUL) all = (double)whole[node->rank - (at->n->ta ? 2 : 1)];
	if (at->n->op == LC_CUMSUM) all = (double)whole[at->n->d];
	if (at->n->op == LC_CONV2D) {
		const lc_node *value = &bounds->run->p->nodes.at[at->n->in[1]];
		LK_TRY(lc_whole_shape(bounds->run->p, value, bounds->run->s, value->list < 0 ? 0 : at->item,
		                      whole, bounds->err));
		all = (double)(whole[1] * whole[2]) * (double)whole[3];
	}
	*out = all;
	return LK_OK;
}

static lk_status bound_sum(lc_bounds *bounds, lc_at *at) {
	lc_node n = *at->n;
	double count;
	n.dtype = LC_F64;
	LK_TRY(summands(bounds, at, &count));
	double slack = sum_slack((lc_dtype)at->n->dtype, count);
	switch (at->n->op) {
	case LC_MATMUL:
		return bound_linear(
			bounds, at, &n,
			&(struct linear){lc_run_matmul, most_of, bound_size_of, most_of, slack});
	case LC_CONV2D:
		return bound_linear(bounds, at, &n,
		                    &(struct linear){lc_run_conv, most_of, bound_size_of, most_of, slack});
	case LC_TOTAL:
		return bound_linear(bounds, at, &n,
		                    &(struct linear){lc_run_total, bound_of, NULL, most_of, slack});
	case LC_CUMSUM:
		return bound_linear(bounds, at, &n,
		                    &(struct linear){lc_run_cumsum, bound_of, NULL, most_of, slack});
	default:
		return bound_linear(bounds, at, &n,
		                    &(struct linear){lc_run_red, bound_of, NULL, most_of, slack});
	}
}

/* The change between the extremum of x - e and that of x + e. */
static lk_status bound_extremum(lc_bounds *bounds, lc_at *at) {
	static form *const forms[2] = {least_of, highest_of};
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	lc_node n = *at->n;
	lc_cells of[2] = {{0}};
	lk_status status = LK_OK;
	n.dtype = LC_F64;
	for (int k = 0; k < 2 && status == LK_OK; k++) {
		status = bound_take_form(bounds, n.in[0], at->rank, forms[k]);
		if (status == LK_OK) status = bound_apply(bounds, at, &n, lc_run_red, &of[k]);
	}
	for (int64_t i = 0; i < cells->count && status == LK_OK; i++)
		at->out->number[i] = bound_between(of[0].number[i], cells->number[i], of[1].number[i]);
	for (int k = 0; k < 2; k++) lc_cells_drop(&bounds->scratch, &of[k]);
	drop_form(bounds, n.in[0]);
	return status;
}

/* The root of a sum of squares: first the bound of the sum, then that of its root. */
static lk_status bound_norm(lc_bounds *bounds, lc_at *at) {
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	lc_node n = *at->n;
	double count;
	n.dtype = LC_F64;
	n.op = LC_RED_SUM;
	LK_TRY(summands(bounds, at, &count));
	double slack = sum_slack((lc_dtype)at->n->dtype, count);
	LK_TRY(bound_linear(bounds, at, &n,
	                    &(struct linear){lc_run_red, slack_of, NULL, square_of, slack}));
	for (int64_t i = 0; i < cells->count; i++) {
		double carry = bound_root(cells->number[i] * cells->number[i], at->out->number[i]);
		at->out->number[i] =
			carry + lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], carry, 2);
	}
	return LK_OK;
}

static lk_status bound_rows(lc_bounds *bounds, lc_at *at) {
	lc_node n = *at->n;
	lc_cells rows = {0};
	n.dtype = LC_F64;
	LK_TRY(bound_take_form(bounds, n.in[0], at->rank, bound_of));
	LK_TRY(bound_take_form(bounds, n.in[1], at->rank, bound_value_of));
	lk_status status = bound_apply(bounds, at, &n, lc_run_rows, &rows);
	for (int64_t i = 0; i < rows.count && status == LK_OK; i++) at->out->number[i] = rows.number[i];
	lc_cells_drop(&bounds->scratch, &rows);
	drop_form(bounds, n.in[0]);
	drop_form(bounds, n.in[1]);
	return status;
}

/* Bounds move with the values. */
static lk_status bound_view(lc_bounds *bounds, lc_at *at) {
	lc_node n = *at->n;
	lc_cells moved = {0};
	n.dtype = LC_F64;
	if (n.op == LC_IOTA) return LK_OK; /* exact, or rounded alike */
	lk_status status = LK_OK;
	for (int k = 0; k < n.inputs && status == LK_OK; k++)
		status = bound_take_form(bounds, n.in[k], at->rank, bound_of);
	if (status == LK_OK) status = bound_apply(bounds, at, &n, lc_run_view, &moved);
	for (int64_t i = 0; i < moved.count && status == LK_OK; i++)
		at->out->number[i] = moved.number[i];
	lc_cells_drop(&bounds->scratch, &moved);
	for (int k = 0; k < n.inputs; k++) drop_form(bounds, n.in[k]);
	return status;
}

/* Sums of at most as many rows as there are indices, in any order. */
static lk_status bound_add_rows(lc_bounds *bounds, lc_at *at) {
	static form *const forms[2] = {bound_of, most_of};
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	lc_node n = *at->n;
	lc_cells of[2] = {{0}};
	lk_status status = bound_take_form(bounds, n.in[1], at->rank, bound_value_of);
	double count = (double)lc_part_of(bounds->run, n.in[1], at->item, at->rank)->count;
	n.dtype = LC_F64;
	for (int k = 0; k < 2 && status == LK_OK; k++) {
		status = bound_take_form(bounds, n.in[0], at->rank, forms[k]);
		if (status == LK_OK) status = bound_apply(bounds, at, &n, lc_run_add_rows, &of[k]);
	}
	double slack = sum_slack((lc_dtype)at->n->dtype, count);
	for (int64_t i = 0; i < cells->count && status == LK_OK; i++) {
		double carry = of[0].number[i] + slack * of[1].number[i];
		at->out->number[i] =
			carry + lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], carry, 1);
	}
	for (int k = 0; k < 2; k++) lc_cells_drop(&bounds->scratch, &of[k]);
	drop_form(bounds, n.in[0]);
	drop_form(bounds, n.in[1]);
	return status;
}

/* ---- between ranks ---- */

static bool sums_ranks(const lc_node *node) {
	return (node->op == LC_ALLREDUCE || node->op == LC_REDUCESCATTER || node->op == LC_REDUCE) &&
	       node->reduce == LC_SUM;
}

/* Bounds move with the values; for a maximum, the largest holds. */
static lk_status move_bounds(lc_bounds *bounds, int id, int64_t item) {
	lc_node n = bounds->run->p->nodes.at[id];
	n.dtype = LC_F64;
	if (n.reduce != LC_SUM) n.reduce = LC_RMAX;
	return lc_run_comm(bounds->out, &n, id, item, bounds->err);
}

/* The difference of two orders of additions in a sum over ranks whose terms have these sizes in the
 * run and in the other execution. */
static double reordered(lc_dtype t, double grown, double here, double elsewhere) {
	return lc_is_real(t) && (1 + grown) * elsewhere > lc_largest(t) ? INFINITY
	                                                                : grown * (here + elsewhere);
}

static lk_status add_rank_roundoff(lc_bounds *bounds, int id, int64_t item) {
	lc_node n = bounds->run->p->nodes.at[id];
	lc_dtype t = (lc_dtype)n.dtype;
	double grown = lc_bound_growth(lc_roundoff(t), (double)(bounds->run->s->symbol[n.axis] - 1));
	n.dtype = LC_F64;
	LK_TRY(bound_take_form(bounds, n.in[0], ALL_RANKS, bound_size_of));
	LK_TRY(bound_make_room(bounds, id));
	lk_status status = lc_run_comm(&bounds->scratch, &n, id, item, bounds->err);
	for (int64_t rank = 0; rank < bounds->run->ranks && status == LK_OK; rank++) {
		lc_cells *cells = lc_part_of(bounds->out, id, item, rank);
		const lc_cells *sizes = lc_part_of(&bounds->scratch, id, item, rank);
		bool shared = n.op == LC_ALLREDUCE &&
		              lc_coordinate(bounds->run->p, bounds->run->s, rank, n.axis) != 0;
		for (int64_t i = 0; i < cells->count && !shared; i++)
			cells->number[i] +=
				reordered(t, grown, sizes->number[i], sizes->number[i] + cells->number[i]);
	}
	drop_form(bounds, id);
	drop_form(bounds, n.in[0]);
	return status;
}

static lk_status bound_comm(lc_bounds *bounds, int id, int64_t item) {
	const lc_node *node = &bounds->run->p->nodes.at[id];
	LK_TRY(move_bounds(bounds, id, item));
	return sums_ranks(node) ? add_rank_roundoff(bounds, id, item) : LK_OK;
}

/* ---- all values ---- */

static lk_status bound_operation(lc_bounds *bounds, lc_at *at) {
	switch (lc_ops[at->n->op].family) {
	case LC_MAP: return bound_map(bounds, at);
	case LC_DROP: return bound_dropout(bounds, at);
	case LC_ROWS:
		return at->n->op == LC_GATHER_ROWS ? bound_rows(bounds, at) : bound_add_rows(bounds, at);
	case LC_ATTEND: return lc_bound_attend(bounds, at);
	case LC_BLOCK: return lc_bound_block(bounds, at);
	case LC_VIEW: return at->n->op == LC_CUMSUM ? bound_sum(bounds, at) : bound_view(bounds, at);
	case LC_RED:
		if (at->n->op == LC_RED_MAX || at->n->op == LC_RED_MIN) return bound_extremum(bounds, at);
		return at->n->op == LC_RED_NORM ? bound_norm(bounds, at) : bound_sum(bounds, at);
	case LC_CONTRACT:
	case LC_TOTALS: return bound_sum(bounds, at);
	default: return LK_OK;
	}
}

/* If a value is within its bound of the largest number, one of two executions may have overflowed.
 * Saturation is no step. */
static void bound_overflow(const lc_bounds *bounds, const lc_at *at) {
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	lc_dtype t = (lc_dtype)at->n->dtype;
	double top = lc_is_real(t) && isinf(lc_highest(t)) ? lc_largest(t) : INFINITY;
	for (int64_t i = 0; i < cells->count; i++) {
		double *bound = &at->out->number[i];
		if (isnan(*bound) || (*bound > 0 && fabs(cells->number[i]) + *bound > top))
			*bound = INFINITY;
	}
}

static lk_status bound_part(lc_bounds *bounds, lc_at *at) {
	int same = lc_same_cells(at->n);
	if (same >= 0) {
		lc_cells_share(lc_part_of(bounds->out, at->n->in[same], at->item, at->rank), at->out);
		return LK_OK;
	}
	LK_TRY(
		lc_cells_new(bounds->out, at->box.count, at->out, bounds->err)); /* zeros, as for leaves */
	LK_TRY(bound_operation(bounds, at));
	bound_overflow(bounds, at);
	return LK_OK;
}

/* A nudge sets the run's number; another execution may be as far from it as its bound. */
static lk_status bound_nudged(lc_bounds *bounds, int id) {
	const lc_run_options *o = &bounds->run->o;
	for (int i = 0; i < o->nudge_count; i++)
		for (int64_t rank = 0; rank < bounds->run->ranks && o->nudges[i].id == id; rank++) {
			int64_t element;
			bool held;
			LK_TRY(
				lc_nudged_element(bounds->run, &o->nudges[i], rank, &element, &held, bounds->err));
			if (!held) continue;
			double *bound = &lc_part_of(bounds->out, id, o->nudges[i].item, rank)->number[element];
			*bound = fmax(*bound, o->nudges[i].bound);
		}
	return LK_OK;
}

static lk_status bound_value(lc_bounds *bounds, int id) {
	const lc_node *node = &bounds->run->p->nodes.at[id];
	int64_t items = lc_items(bounds->run->p, bounds->run->s, node);
	bool together =
		(lc_ops[node->op].family == LC_COMM || node->op == LC_SEND) && lc_same_cells(node) < 0;
	bounds->out->parts[id] =
		LK_ARRAY(&bounds->out->arena, lc_cells, (size_t)(items * bounds->run->ranks));
	if (!bounds->out->parts[id]) return lk_oom(bounds->err);
	for (int64_t item = 0; item < items; item++) {
		if (together) LK_TRY(bound_comm(bounds, id, item));
		for (int64_t rank = 0; rank < bounds->run->ranks && !together; rank++) {
			lc_at at = {.run = bounds->out,
			            .n = node,
			            .id = id,
			            .item = item,
			            .rank = rank,
			            .err = bounds->err};
			bool held;
			LK_TRY(lc_box_of(bounds->run, node, item, rank, &at.box, &held, bounds->err));
			at.out = lc_part_of(bounds->out, id, item, rank);
			if (held) LK_TRY(bound_part(bounds, &at));
		}
	}
	return bound_nudged(bounds, id);
}

static lk_status bound_begin(const lc_run *run, lc_run *out, lk_error *err) {
	*out = (lc_run){.p = run->p, .s = run->s, .o = run->o, .ranks = run->ranks};
	out->parts = LK_ARRAY(&out->arena, lc_cells *, run->p->nodes.count);
	return out->parts ? LK_OK : lk_oom(err);
}

lk_status lc_run_bounds(const lc_run *run, lc_run **out, lc_choices *choices, lk_error *err) {
	lc_bounds b = {.run = run, .choices = choices, .err = err};
	*choices = (lc_choices){0};
	b.out = *out = malloc(sizeof **out);
	if (!b.out) return lk_oom(err);
	lk_status status = bound_begin(run, b.out, err);
	if (status == LK_OK) status = bound_begin(run, &b.scratch, err);
	for (int id = 0; id < (int)run->p->nodes.count && status == LK_OK; id++)
		status = bound_value(&b, id);
	for (int id = 0; id < (int)run->p->nodes.count && b.scratch.parts; id++) drop_form(&b, id);
	lk_arena_free(&b.scratch.arena);
	if (status == LK_OK) return LK_OK;
	lc_run_free(b.out);
	*out = NULL;
	return status;
}
