/* run_red.c: reductions over dims, and over the tensors of a list. Elements are added in order;
 * sums of reals are kept in double and rounded once. */
#include <math.h>
#include <string.h>

#include "lang/run/run_internal.h"

/* ---- joining one more element ---- */

struct reducer {
	int op; /* RED_* */
	lc_dtype dtype;
	bool whole; /* of integers: sums wrap */
	uint64_t key;
};

static double red_join_numbers(const struct reducer *reducer, double sum, double x) {
	switch (reducer->op) {
	case LC_RED_MAX: return sum < x ? x : sum;
	case LC_RED_MIN: return x < sum ? x : sum;
	case LC_RED_NORM: return sum + x * x;
	default: return reducer->whole ? lc_wrap(reducer->dtype, lc_bits(sum) + lc_bits(x)) : sum + x;
	}
}

static uint64_t join_elements(const struct reducer *reducer, uint64_t sum, uint64_t x) {
	if (reducer->op == LC_RED_MAX || reducer->op == LC_RED_MIN)
		return lc_field_choose(reducer->key, reducer->op == LC_RED_MAX, sum, x);
	return lc_field_add(sum, reducer->op == LC_RED_NORM ? lc_field_multiply(x, x) : x);
}

/* `step` 0: the row is reduced to one element. */
static void red_join_row(const struct reducer *reducer, const lc_cells *in, int64_t from,
                         int64_t count, lc_cells *out, int64_t to, int64_t step) {
	bool plain = out->number && reducer->op != LC_RED_MAX && reducer->op != LC_RED_MIN &&
	             reducer->op != LC_RED_NORM && !reducer->whole;
	if (plain && step)
		for (int64_t i = 0; i < count; i++) out->number[to + i] += in->number[from + i];
	else if (out->number)
		for (int64_t i = 0; i < count; i++)
			out->number[to + i * step] =
				red_join_numbers(reducer, out->number[to + i * step], in->number[from + i]);
	else
		for (int64_t i = 0; i < count; i++)
			out->element[to + i * step] =
				join_elements(reducer, out->element[to + i * step], in->element[from + i]);
}

static void begin_with(const struct reducer *reducer, lc_cells *out) {
	double first;
	if (reducer->op == LC_RED_MAX) first = lc_lowest(reducer->dtype);
	else if (reducer->op == LC_RED_MIN) first = lc_highest(reducer->dtype);
	else first = 0;
	bool choice = reducer->op == LC_RED_MAX || reducer->op == LC_RED_MIN;
	for (int64_t i = 0; i < out->count; i++) {
		if (out->number) out->number[i] = first;
		else out->element[i] = choice ? LC_NOTHING : 0;
	}
}

static struct reducer reducer_of(const lc_at *at, int op) {
	lc_dtype t = (lc_dtype)at->n->dtype;
	return (struct reducer){
		.op = op, .dtype = t, .whole = lc_is_integer(t) && t != LC_WEAK_INT, .key = at->run->o.key};
}

/* ---- over dims ---- */

/* Strides in the result along each dim of the operand. */
static void result_strides(const lc_at *at, int rank, int64_t out[LC_RANK]) {
	int64_t step = 1;
	int to = at->box.rank;
	for (int d = rank; d-- > 0;) {
		bool gone = at->n->dims >> d & 1;
		if (!gone || at->n->keep) to--;
		out[d] = gone ? 0 : step;
		if (!gone) step *= at->box.extent[to];
	}
}

static void reduce_box(const lc_at *at, const struct reducer *reducer, const lc_cells *in,
                       const lc_box *box) {
	int last = box->rank - 1;
	int64_t stride[LC_RANK], place[LC_RANK] = {0}, to = 0;
	result_strides(at, box->rank, stride);
	for (int64_t from = 0; from < box->count; from += box->extent[last]) {
		red_join_row(reducer, in, from, box->extent[last], at->out, to, stride[last]);
		for (int d = last; --d >= 0;) {
			to += stride[d];
			if (++place[d] < box->extent[d]) break;
			to -= stride[d] * box->extent[d];
			place[d] = 0;
		}
	}
}

/* The number of elements of the whole tensor in one element of the result. */
static lk_status reduced_count(const lc_at *at, double *out) {
	const lc_node *node = &at->run->p->nodes.at[at->n->in[0]];
	int64_t whole[LC_RANK];
	LK_TRY(lc_whole_shape(at->run->p, node, at->run->s, node->list < 0 ? 0 : at->item, whole,
	                      at->err));
	*out = 1;
	for (int d = 0; d < node->rank; d++)
		if (at->n->dims >> d & 1) *out *= (double)whole[d];
	return LK_OK;
}

static lk_status red_finish(const lc_at *at) {
	double count;
	lc_cells *out = at->out;
	LK_TRY(reduced_count(at, &count));
	uint64_t inverse = lc_field_inverse(lc_field_number(count)),
			 root = lc_hash_word(at->run->o.key, LC_SQRT + 1);
	for (int64_t i = 0; i < out->count; i++) {
		if (at->n->op == LC_RED_MEAN && out->number) out->number[i] /= count;
		else if (at->n->op == LC_RED_MEAN)
			out->element[i] = lc_field_multiply(out->element[i], inverse);
		else if (at->n->op == LC_RED_NORM && out->number) out->number[i] = sqrt(out->number[i]);
		else if (at->n->op == LC_RED_NORM) out->element[i] = lc_hash_field(root, out->element[i]);
	}
	if (out->number) lc_round_all((lc_dtype)at->n->dtype, out->number, out->count);
	return LK_OK;
}

lk_status lc_run_red(lc_at *at) {
	const lc_cells *in;
	lc_box box;
	struct reducer r = reducer_of(at, at->n->op);
	LK_TRY(lc_operand(at, 0, &in, &box));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	begin_with(&r, at->out);
	if (box.count) reduce_box(at, &r, in, &box);
	return red_finish(at);
}

/* ---- over a list ---- */

lk_status lc_run_total(lc_at *at) {
	const lc_run *run = at->run;
	const lc_node *node = &run->p->nodes.at[at->n->in[0]];
	struct reducer r = reducer_of(at, LC_RED_SUM);
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	begin_with(&r, at->out);
	for (int64_t item = 0; item < lc_items(run->p, run->s, node); item++)
		red_join_row(&r, lc_part_of(run, at->n->in[0], item, at->rank), 0, at->box.count, at->out,
		             0, 1);
	if (at->out->number) lc_round_all((lc_dtype)at->n->dtype, at->out->number, at->out->count);
	return LK_OK;
}
