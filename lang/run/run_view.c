/* run_view.c: moved elements, on a rank's part: for each element of the result its place in the
 * operand, by steps along each dim. */
#include <string.h>

#include "lang/run/run_internal.h"

/* Along each dim of the result: a step in an operand; along `cut`, elements begin .. end - 1 of the
 * result come from it, others are 0, or another operand's. */
struct view {
	int64_t step[LC_RANK], shift;
	int cut;
	int64_t begin, end;
};

static struct view view_of(const lc_node *node, int operand, const lc_box *from, const lc_box *to) {
	struct view view = {.cut = -1};
	int64_t step = 1, own[LC_RANK] = {0};
	for (int d = from->rank; d-- > 0; step *= from->extent[d]) own[d] = step;
	for (int d = 0, of = 0; d < to->rank; d++)
		view.step[d] = node->op == LC_SPREAD && d == node->d ? 0 : own[of++];
	if (node->op == LC_TRANSPOSE) {
		view.step[node->d] = own[node->e];
		view.step[node->e] = own[node->d];
	}
	if (node->op == LC_FIRST_OF || node->op == LC_LAST_OF || node->op == LC_CONCAT) {
		int64_t there = from->extent[node->d], here = to->extent[node->d];
		int64_t before = (node->op == LC_LAST_OF || operand == 1)
		                     ? here - there
		                     : 0; /* negative: elements that are left out */
		view.cut = node->d;
		view.begin = before > 0 ? before : 0;
		view.end = before + there < here ? before + there : here;
		view.shift = -before * own[node->d];
	}
	return view;
}

static lk_status put_operand(lc_at *at, int operand) {
	const lc_cells *cells;
	lc_box box;
	int64_t place[LC_RANK] = {0};
	LK_TRY(lc_operand(at, operand, &cells, &box));
	struct view view = view_of(at->n, operand, &box, &at->box);
	for (int64_t i = 0; i < at->box.count; i++) {
		int64_t from = view.shift;
		for (int d = 0; d < at->box.rank; d++) from += place[d] * view.step[d];
		bool there = view.cut < 0 || (place[view.cut] >= view.begin && place[view.cut] < view.end);
		if (there && cells->number) at->out->number[i] = cells->number[from];
		if (there && cells->element) at->out->element[i] = cells->element[from];
		for (int d = at->box.rank; --d >= 0 && ++place[d] == at->box.extent[d];) place[d] = 0;
	}
	return LK_OK;
}

lk_status lc_run_view(lc_at *at) {
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	for (int i = 0; i < at->n->inputs; i++) LK_TRY(put_operand(at, i));
	return LK_OK;
}

lk_status lc_run_iota(lc_at *at) {
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	for (int64_t i = 0; i < at->box.count; i++) {
		double place =
			lc_convert(LC_WEAK_INT, (lc_dtype)at->n->dtype, (double)(at->box.begin[0] + i));
		if (at->out->number) at->out->number[i] = place;
		else at->out->element[i] = lc_field_number((double)(at->box.begin[0] + i));
	}
	return LK_OK;
}
