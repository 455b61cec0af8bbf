/* run_attend.c: attention and its gradients on a rank's part, query by query, and the bounds of
 * their errors.
 *
 * In the field a weight is a hash of its score, and the lse of weights w is L = (sum w)^17: a
 * one-to-one map, since 17 and p - 1 have no common divisor, so that no law of logarithms holds
 * and the sum is found again. What parts of the keys give is then joined exactly: (W0 y0 + sum w
 * v)/(W0 + sum w).
 *
 * Bounds: let a score be wrong by g at most, a library's exponential included. Weights of one query
 * are then wrong by a factor within e^(2g) after their division by their sum, within e^(g + e_lse)
 * where the lse is given; what follows are sums of products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lang/run/run_bound.h"

#define LSE_POWER   17u
#define LSE_INVERSE 1763291712928118903u /* 17 times it is 1 modulo p - 1 */

enum { EXPONENTIAL = 8 }; /* roundings of f32 in an exponential and its argument */

struct attention {
	const lc_at *at;
	const lc_cells *x[LC_INPUTS]; /* operands, and with bounds those of their errors */
	const lc_cells *e[LC_INPUTS];
	lc_box box[LC_INPUTS];
	int64_t queries, keys; /* of the whole tensors */
	int64_t group;         /* heads of queries that share one of keys */
	int64_t head, wide;    /* the size of a head of keys, and of values */
	int y, lse, delta;     /* operands, or -1 */
	double scale, unit;    /* unit: roundoff of the targets' arithmetic */
	const double *bounded; /* the run's result, whose bound is made */
	double *score;         /* of one query, by the keys of this rank */
	uint64_t *element;     /* the same in the field */
};

/* One query: its place in the results of its kind, and the keys that it sees, of this rank. */
struct query {
	int64_t row, keys, from, to;
};

/* ---- which keys a query sees ---- */

static lk_status attention_open(const lc_at *at, struct attention *a) {
	const lc_node *node = at->n, *q = &at->run->p->nodes.at[node->in[0]],
				  *k = &at->run->p->nodes.at[node->in[1]];
	int64_t whole[LC_RANK], of_keys[LC_RANK];
	int64_t item = q->list < 0 ? 0 : at->item;
	*a = (struct attention){.at = at, .y = -1, .lse = -1, .delta = -1, .group = 1};
	for (int i = 0; i < node->inputs; i++) {
		lc_role role = lc_attend_role(node, i);
		LK_TRY(lc_operand(at, i, &a->x[i], &a->box[i]));
		if (role == LC_AS_Y) a->y = i;
		if (role == LC_AS_NUMBER) *(a->lse < 0 ? &a->lse : &a->delta) = i;
	}
	LK_TRY(lc_whole_shape(at->run->p, q, at->run->s, item, whole, at->err));
	LK_TRY(lc_whole_shape(at->run->p, k, at->run->s, item, of_keys, at->err));
	a->queries = whole[q->rank - 2];
	a->keys = of_keys[q->rank - 2];
	if (q->rank > 2) a->group = whole[q->rank - 3] / of_keys[q->rank - 3];
	a->head = of_keys[q->rank - 1];
	a->wide = node->inputs > 3 || node->op == LC_ATTENTION ? a->box[2].extent[q->rank - 1] : 0;
	a->scale = node->number > 0 ? node->number : 1 / sqrt((double)a->head);
	a->unit = lc_roundoff(node->dtype == LC_F64 ? LC_F64 : LC_F32);
	return LK_OK;
}

static struct query query_at(const struct attention *a, int64_t row) {
	const lc_box *q = &a->box[0], *k = &a->box[1];
	const lc_node *node = a->at->n;
	int rows = q->rank - 2;
	struct query query = {.row = row};
	int64_t batch = row / q->extent[rows], stride = 1, keys = k->extent[rows];
	int64_t place = q->begin[rows] + row % q->extent[rows] + a->keys - a->queries;
	for (int d = rows - 1; d >= 0; stride *= k->extent[d--]) {
		int64_t at = batch % q->extent[d] + q->begin[d];
		query.keys += ((d == rows - 1 ? at / a->group : at) - k->begin[d]) * stride;
		batch /= q->extent[d];
	}
	query.keys *= keys;
	query.from = node->window ? place - node->window + 1 - k->begin[rows] : 0;
	query.to = node->causal ? place + 1 - k->begin[rows] : keys;
	if (node->window && place + node->window - k->begin[rows] < query.to)
		query.to = place + node->window - k->begin[rows];
	if (query.from < 0) query.from = 0;
	if (query.to > keys) query.to = keys;
	if (query.to < query.from) query.from = query.to = 0;
	query.from += query.keys;
	query.to += query.keys;
	return query;
}

/* What the weights of a gradient are multiplied by: dy, keys or queries. */
static int factor_of(int op) {
	if (op == LC_ATTENTION_DV) return 3;
	return op == LC_ATTENTION_DQ ? 1 : 0;
}

/* ---- numbers ---- */

static double product(const struct attention *a, int i, int64_t row, int k, int64_t key,
                      int64_t size) {
	double sum = 0;
	for (int64_t c = 0; c < size; c++)
		sum += a->x[i]->number[row * size + c] * a->x[k]->number[key * size + c];
	return sum;
}

/* Forward: y or lse of a query. */
static void number_forward(const struct attention *a, const struct query *query) {
	double *out = a->at->out->number;
	bool more = a->lse >= 0, numbers = lc_attend_role(a->at->n, LC_ATTENDED) == LC_AS_NUMBER;
	double top = more ? a->x[a->lse]->number[query->row] : -INFINITY, sum = 0, before = top;
	for (int64_t j = query->from; j < query->to; j++) {
		a->score[j] = a->scale * product(a, 0, query->row, 1, j, a->head);
		if (a->score[j] > top) top = a->score[j];
	}
	if (more && before > -INFINITY) sum = exp(before - top);
	double kept = sum;
	for (int64_t j = query->from; j < query->to; j++) sum += a->score[j] = exp(a->score[j] - top);
	if (numbers) {
		out[query->row] = sum > 0 ? top + log(sum) : -INFINITY;
		return;
	}
	for (int64_t c = 0; c < a->wide; c++) {
		double y = kept > 0 ? kept * a->x[a->y]->number[query->row * a->wide + c] : 0;
		for (int64_t j = query->from; j < query->to; j++)
			y += a->score[j] * a->x[2]->number[j * a->wide + c];
		out[query->row * a->wide + c] = sum > 0 ? y / sum : 0;
	}
}

/* Backward: what a query adds to dq, dk or dv. */
static void number_backward(const struct attention *a, const struct query *query) {
	double *out = a->at->out->number;
	int op = a->at->n->op;
	for (int64_t j = query->from; j < query->to; j++) {
		double score = a->scale * product(a, 0, query->row, 1, j, a->head),
			   p = exp(score - a->x[a->lse]->number[query->row]);
		if (op == LC_ATTENTION_DV) {
			for (int64_t c = 0; c < a->wide; c++)
				out[j * a->wide + c] += p * a->x[3]->number[query->row * a->wide + c];
			continue;
		}
		double ds = a->scale * p *
		            (product(a, 3, query->row, 2, j, a->wide) - a->x[a->delta]->number[query->row]);
		for (int64_t c = 0; c < a->head; c++) {
			int64_t of_query = query->row * a->head + c, of_key = j * a->head + c;
			if (op == LC_ATTENTION_DQ) out[of_query] += ds * a->x[1]->number[of_key];
			else out[of_key] += ds * a->x[0]->number[of_query];
		}
	}
}

/* ---- the field ---- */

static uint64_t element_product(const struct attention *a, int i, int64_t row, int k, int64_t key,
                                int64_t size) {
	uint64_t sum = 0;
	for (int64_t c = 0; c < size; c++)
		sum = lc_field_add(sum, lc_field_multiply(a->x[i]->element[row * size + c],
		                                          a->x[k]->element[key * size + c]));
	return sum;
}

static uint64_t element_weight(const struct attention *a, const struct query *query, int64_t j) {
	uint64_t score = lc_field_multiply(lc_field_number(a->scale),
	                                   element_product(a, 0, query->row, 1, j, a->head));
	return lc_hash_field(lc_hash_word(a->at->run->o.key, LC_EXP), score);
}

static void element_forward(const struct attention *a, const struct query *query) {
	uint64_t *out = a->at->out->element, kept = 0, key = a->at->run->o.key;
	if (a->lse >= 0) kept = lc_field_power(a->x[a->lse]->element[query->row], LSE_INVERSE);
	uint64_t sum = kept;
	for (int64_t j = query->from; j < query->to; j++)
		sum = lc_field_add(sum, a->element[j] = element_weight(a, query, j));
	if (lc_attend_role(a->at->n, LC_ATTENDED) == LC_AS_NUMBER) {
		out[query->row] = lc_field_power(sum, LSE_POWER);
		return;
	}
	for (int64_t c = 0; c < a->wide; c++) {
		uint64_t y = 0;
		if (a->y >= 0) y = lc_field_multiply(kept, a->x[a->y]->element[query->row * a->wide + c]);
		for (int64_t j = query->from; j < query->to; j++)
			y = lc_field_add(y,
			                 lc_field_multiply(a->element[j], a->x[2]->element[j * a->wide + c]));
		out[query->row * a->wide + c] = lc_field_divide(key, y, sum);
	}
}

static void element_backward(const struct attention *a, const struct query *query) {
	uint64_t *out = a->at->out->element, key = a->at->run->o.key;
	uint64_t sum = lc_field_power(a->x[a->lse]->element[query->row], LSE_INVERSE);
	int op = a->at->n->op;
	for (int64_t j = query->from; j < query->to; j++) {
		uint64_t p = lc_field_divide(key, element_weight(a, query, j), sum);
		int64_t size = op == LC_ATTENTION_DV ? a->wide : a->head;
		if (op != LC_ATTENTION_DV) {
			uint64_t ds = lc_field_subtract(element_product(a, 3, query->row, 2, j, a->wide),
			                                a->x[a->delta]->element[query->row]);
			p = lc_field_multiply(lc_field_number(a->scale), lc_field_multiply(p, ds));
		}
		int times = factor_of(op);
		for (int64_t c = 0; c < size; c++) {
			int64_t of_query = query->row * size + c, of_key = j * size + c,
					to = op == LC_ATTENTION_DQ ? of_query : of_key,
					by = op == LC_ATTENTION_DQ ? of_key : of_query;
			out[to] = lc_field_add(out[to], lc_field_multiply(p, a->x[times]->element[by]));
		}
	}
}

/* ---- all queries ---- */

typedef void per_query(const struct attention *a, const struct query *query);

static lk_status each_query(struct attention *a, per_query *call) {
	int64_t head = a->box[0].extent[a->box[0].rank - 1], keys = 1;
	for (int d = 0; d < a->box[1].rank - 1; d++) keys *= a->box[1].extent[d];
	a->score = malloc((size_t)keys * sizeof *a->score + 1);
	a->element = malloc((size_t)keys * sizeof *a->element + 1);
	bool room = a->score && a->element;
	for (int64_t row = 0; room && row * head < a->box[0].count; row++) {
		struct query query = query_at(a, row);
		call(a, &query);
	}
	free(a->score);
	free(a->element);
	return room ? LK_OK : lk_oom(a->at->err);
}

lk_status lc_run_attend(lc_at *at) {
	struct attention a;
	bool backward = at->n->op >= LC_ATTENTION_DQ;
	LK_TRY(attention_open(at, &a));
	double pairs = (double)a.box[0].count * (double)a.box[1].extent[a.box[1].rank - 2];
	LK_TRY(lc_run_spend(at->run, at->n, 2 * pairs, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	if (lc_in_field(at->run)) return each_query(&a, backward ? element_backward : element_forward);
	LK_TRY(each_query(&a, backward ? number_backward : number_forward));
	lc_round_all((lc_dtype)at->n->dtype, at->out->number, at->out->count);
	return LK_OK;
}

/* ---- bounds ---- */

/* Of a product of rows: what errors of the operands and roundings of the sum add up to. */
static double product_error(const struct attention *a, int i, int64_t row, int k, int64_t key,
                            int64_t size) {
	double carried = 0, all = 0, grown = lc_bound_growth(a->unit, (double)size);
	for (int64_t c = 0; c < size; c++) {
		double x = fabs(a->x[i]->number[row * size + c]), y = fabs(a->x[k]->number[key * size + c]),
			   ex = a->e[i]->number[row * size + c], ey = a->e[k]->number[key * size + c];
		carried += x * ey + ex * y + ex * ey;
		all += (x + ex) * (y + ey);
	}
	return carried + grown * all;
}

static double score_error(const struct attention *a, const struct query *query, int64_t j,
                          double score) {
	return a->scale * product_error(a, 0, query->row, 1, j, a->head) +
	       a->unit * (2 * fabs(score) + EXPONENTIAL);
}

/* Of sums of weights times numbers: x with error e, weights w wrong by a factor within 1 + r. */
static double weighted(double w, double r, double x, double e) {
	return w * (r * fabs(x) + (1 + r) * e);
}

static void bound_forward(const struct attention *a, const struct query *query) {
	double *out = a->at->out->number;
	const lc_dtype t = (lc_dtype)a->at->n->dtype;
	const double *y = a->bounded;
	bool more = a->lse >= 0 && a->x[a->lse]->number[query->row] > -INFINITY;
	double far = 0, top = -INFINITY, sum = 0, before = 0;
	double grown = lc_bound_growth(a->unit, (double)(query->to - query->from) + 4);
	if (more) {
		top = a->x[a->lse]->number[query->row];
		far = a->e[a->lse]->number[query->row] + a->unit * (2 * fabs(top) + EXPONENTIAL);
	}
	before = top;
	for (int64_t j = query->from; j < query->to; j++) {
		a->score[j] = a->scale * product(a, 0, query->row, 1, j, a->head);
		far = fmax(far, score_error(a, query, j, a->score[j]));
		top = fmax(top, a->score[j]);
	}
	for (int64_t j = query->from; j < query->to; j++) sum += a->score[j] = exp(a->score[j] - top);
	if (more) sum += before = exp(before - top);
	if (lc_attend_role(a->at->n, LC_ATTENDED) == LC_AS_NUMBER) {
		double carry = sum > 0 ? far + grown : 0;
		if (sum > 0)
			out[query->row] = carry + lc_bound_rounded(t, y[query->row], carry, 4) +
			                  4 * a->unit * (1 + fabs(top));
		return;
	}
	double r = expm1(2 * far) + grown;
	for (int64_t c = 0; c < a->wide && sum > 0; c++) {
		int64_t at = query->row * a->wide + c;
		double carry = 0;
		if (more) carry = weighted(before / sum, r, a->x[a->y]->number[at], a->e[a->y]->number[at]);
		for (int64_t j = query->from; j < query->to; j++)
			carry += weighted(a->score[j] / sum, r, a->x[2]->number[j * a->wide + c],
			                  a->e[2]->number[j * a->wide + c]);
		out[at] = carry + lc_bound_rounded(t, y[at], carry, 1);
	}
}

static void bound_backward(const struct attention *a, const struct query *query) {
	double *out = a->at->out->number;
	int op = a->at->n->op, times = factor_of(op);
	int64_t size = op == LC_ATTENTION_DV ? a->wide : a->head;
	double terms =
		op == LC_ATTENTION_DQ ? (double)(query->to - query->from) : (double)(a->queries * a->group);
	double grown = lc_bound_growth(a->unit, terms + 4);
	for (int64_t j = query->from; j < query->to; j++) {
		double lse = a->x[a->lse]->number[query->row],
			   score = a->scale * product(a, 0, query->row, 1, j, a->head);
		double far = score_error(a, query, j, score) + a->e[a->lse]->number[query->row] +
		             2 * a->unit * fabs(lse);
		double p = exp(score - lse), r = expm1(far), ds = 1, e = 0;
		if (op != LC_ATTENTION_DV) {
			ds = product(a, 3, query->row, 2, j, a->wide) - a->x[a->delta]->number[query->row];
			e = product_error(a, 3, query->row, 2, j, a->wide) +
			    a->e[a->delta]->number[query->row] + 2 * a->unit * fabs(ds);
			p *= a->scale;
		}
		double wrong = weighted(p, r, ds, e), weight = p * fabs(ds);
		for (int64_t c = 0; c < size; c++) {
			int64_t of_query = query->row * size + c, of_key = j * size + c,
					to = op == LC_ATTENTION_DQ ? of_query : of_key,
					by = op == LC_ATTENTION_DQ ? of_key : of_query;
			double x = fabs(a->x[times]->number[by]), ex = a->e[times]->number[by];
			out[to] += wrong * (x + ex) + weight * ex + grown * (weight + wrong) * (x + ex);
		}
	}
}

lk_status lc_bound_attend(lc_bounds *bounds, lc_at *at) {
	struct attention a;
	lc_at values = *at;
	lc_box box;
	const lc_cells *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	bool backward = at->n->op >= LC_ATTENTION_DQ;
	values.run = (lc_run *)(uintptr_t)bounds->run; /* read only */
	LK_TRY(attention_open(&values, &a));
	for (int i = 0; i < at->n->inputs; i++) LK_TRY(lc_operand(at, i, &a.e[i], &box));
	a.at = at;
	a.bounded = cells->number;
	LK_TRY(each_query(&a, backward ? bound_backward : bound_forward));
	for (int64_t i = 0; backward && i < cells->count; i++)
		at->out->number[i] +=
			lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], at->out->number[i], 1);
	return LK_OK;
}
