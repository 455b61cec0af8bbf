/* run_comm.c: movement between ranks. A rank's part is a box of the whole tensor; every collective
 * joins into it, in the order of ranks, the overlapping elements of the participating ranks'
 * boxes. */
#include <string.h>

#include "lang/run/run_internal.h"
#include "base/check.h"

/* ---- boxes ---- */

static double comm_join_numbers(const lc_join *join, double a, double b) {
	if (join->reduce == LC_RMAX) return a < b ? b : a;
	if (join->reduce == LC_RMIN) return b < a ? b : a;
	if (lc_is_real(join->dtype)) return a + b;
	return lc_wrap(join->dtype, lc_bits(a) + lc_bits(b));
}

static void comm_join_row(const lc_join *join, const lc_cells *from, int64_t at, lc_cells *to,
                          int64_t out, int64_t count) {
	if (!join->combine && to->number)
		memcpy(to->number + out, from->number + at, (size_t)count * sizeof *to->number);
	else if (!join->combine)
		memcpy(to->element + out, from->element + at, (size_t)count * sizeof *to->element);
	else if (to->number) {
		for (int64_t i = 0; i < count; i++)
			to->number[out + i] =
				comm_join_numbers(join, to->number[out + i], from->number[at + i]);
		lc_round_all(join->dtype, to->number + out, count);
	} else if (join->reduce == LC_SUM) {
		for (int64_t i = 0; i < count; i++)
			to->element[out + i] = lc_field_add(to->element[out + i], from->element[at + i]);
	} else {
		for (int64_t i = 0; i < count; i++)
			to->element[out + i] = lc_field_choose(join->key, join->reduce == LC_RMAX,
			                                       to->element[out + i], from->element[at + i]);
	}
}

static int64_t comm_offset(const lc_box *box, const int64_t place[LC_RANK]) {
	int64_t at = 0;
	for (int d = 0; d < box->rank; d++) at = at * box->extent[d] + place[d] - box->begin[d];
	return at;
}

/* Intersect two boxes; false: empty. */
static bool comm_overlap(const lc_box *a, const lc_box *b, lc_box *out) {
	out->rank = a->rank;
	out->count = 1;
	for (int d = 0; d < a->rank; d++) {
		int64_t end = a->begin[d] + a->extent[d], other = b->begin[d] + b->extent[d];
		out->begin[d] = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
		out->extent[d] = (end < other ? end : other) - out->begin[d];
		if (out->extent[d] <= 0) return false;
		out->count *= out->extent[d];
	}
	return true;
}

/* The number of last dims that are contiguous in both; their elements are one row. */
static int row_dims(const lc_box *part, const lc_box *a, const lc_box *b, int64_t *row) {
	int d = part->rank;
	*row = 1;
	while (d > 0) {
		d--;
		*row *= part->extent[d];
		if (part->extent[d] != a->extent[d] || part->extent[d] != b->extent[d]) break;
	}
	return d;
}

int64_t lc_join_boxes(const lc_join *join, const lc_cells *from, const lc_box *from_box,
                      lc_cells *to, const lc_box *to_box) {
	lc_box part;
	int64_t row, place[LC_RANK];
	if (!comm_overlap(from_box, to_box, &part)) return 0;
	int outer = row_dims(&part, from_box, to_box, &row);
	memcpy(place, part.begin, sizeof place);
	for (int64_t done = 0; done < part.count; done += row) {
		comm_join_row(join, from, comm_offset(from_box, place), to, comm_offset(to_box, place),
		              row);
		for (int d = outer; --d >= 0 && ++place[d] == part.begin[d] + part.extent[d];)
			place[d] = part.begin[d];
	}
	return part.count;
}

/* ---- who gives to whom ---- */

/* The rank at place `to` on one axis, otherwise equal to `rank`. */
static int64_t comm_moved(const lc_run *run, int64_t rank, int axis, int64_t to) {
	LK_ASSERT(axis >= 0 && axis < run->p->axis_count);
	int64_t stride = 1;
	for (int a = axis + 1; a < run->p->axis_count; a++) stride *= run->s->symbol[a];
	return rank + (to - lc_coordinate(run->p, run->s, rank, axis)) * stride;
}

/* The places on the axis that contribute to a rank's part: `count` from *first on. */
static int64_t givers(const lc_run *run, const lc_node *node, int64_t rank, int64_t *first) {
	*first = lc_group_place(run->p, run->s, &node->from);
	if (node->op == LC_SEND) return 1;
	int64_t ranks = run->s->symbol[node->axis],
			at = lc_coordinate(run->p, run->s, rank, node->axis);
	*first = 0;
	switch (node->op) {
	case LC_SLICE: *first = at; return 1;
	case LC_BROADCAST: *first = run->p->nodes.at[node->in[0]].layout[node->axis].root; return 1;
	case LC_PERMUTE: {
		int64_t shift = node->shift;
		if (node->by) shift *= lc_coordinate(run->p, run->s, rank, node->by - 1);
		*first = ((at - shift) % ranks + ranks) % ranks;
		return 1;
	}
	default: return ranks;
	}
}

/* Share results that are the same on all ranks of the axis: the first of them computed it. */
static bool share_first(lc_run *run, const lc_node *node, int id, int64_t item, int64_t rank) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	if (node->op != LC_ALLREDUCE && node->op != LC_ALLGATHER && node->op != LC_BROADCAST)
		return false;
	int64_t first = comm_moved(run, rank, node->axis, 0);
	if (first == rank) return false;
	lc_cells_share(lc_part_of(run, id, item, first), lc_part_of(run, id, item, rank));
	return true;
}

static lk_status comm_take(const lc_at *at, int64_t from, const lc_join *join, int64_t *joined) {
	const lc_node *node = &at->run->p->nodes.at[at->n->in[0]];
	const lc_cells *part = lc_part_of(at->run, at->n->in[0], at->item, from);
	lc_box box;
	bool held;
	LK_TRY(lc_box_of(at->run, node, at->item, from, &box, &held, at->err));
	if (!held || !lc_held(part))
		return lk_fail(at->err, LK_ERR_INTERNAL, NULL,
		               "value %d takes value %d of rank %lld, which does not hold it", at->id,
		               at->n->in[0], (long long)from);
	*joined += lc_join_boxes(join, part, &box, at->out, &at->box);
	return LK_OK;
}

static lk_status comm_collect(lc_at *at) {
	bool reduces =
		at->n->op == LC_ALLREDUCE || at->n->op == LC_REDUCESCATTER || at->n->op == LC_REDUCE;
	lc_join join = {false, (lc_reduce)at->n->reduce, (lc_dtype)at->n->dtype, at->run->o.key};
	int64_t first, joined = 0, count = givers(at->run, at->n, at->rank, &first);
	int axis = at->n->op == LC_SEND ? at->n->at.axis : at->n->axis;
	for (int64_t i = 0; i < count; i++) {
		join.combine = reduces && i > 0;
		LK_TRY(comm_take(at, comm_moved(at->run, at->rank, axis, first + i), &join, &joined));
	}
	if (joined == at->box.count * (reduces ? count : 1)) return LK_OK;
	return lk_fail(at->err, LK_ERR_INTERNAL, NULL, "value %d: ranks gave %lld elements for %lld",
	               at->id, (long long)joined, (long long)at->box.count);
}

lk_status lc_run_comm(lc_run *run, const lc_node *node, int id, int64_t item, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	for (int64_t rank = 0; rank < run->ranks; rank++) {
		lc_at at = {.run = run, .n = node, .id = id, .item = item, .rank = rank, .err = err};
		bool held;
		LK_TRY(lc_box_of(run, node, item, rank, &at.box, &held, err));
		if (!held || share_first(run, node, id, item, rank)) continue;
		at.out = lc_part_of(run, id, item, rank);
		LK_TRY(lc_cells_new(run, at.box.count, at.out, err));
		LK_TRY(comm_collect(&at));
	}
	return LK_OK;
}
