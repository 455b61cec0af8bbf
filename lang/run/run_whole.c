/* run_whole.c: assembles whole tensors from the ranks' parts; ranks that hold the same elements
 * must agree. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lang/run/run_internal.h"
#include "base/check.h"

struct assembly {
	lc_run *run;
	const lc_node *n;
	int id;
	int64_t item, rank; /* which item; the rank whose places on axes of L count */
	lc_box whole;
	lc_cells *out;
	unsigned char *seen;
	lk_error *err;
};

/* ---- partial values ---- */

/* Whether a rank is the first on every axis where the value is partial. */
static bool begins_sum(const struct assembly *assembly, int64_t rank) {
	for (int x = 0; x < assembly->run->p->axis_count; x++)
		if (assembly->n->layout[x].kind == LC_P &&
		    lc_coordinate(assembly->run->p, assembly->run->s, rank, x) != 0)
			return false;
	return true;
}

/* Whether two ranks have the same place on every axis with, or without, that layout. */
static bool same_place(const struct assembly *assembly, int64_t x, int64_t y, lc_layout_kind kind,
                       bool has) {
	for (int axis = 0; axis < assembly->run->p->axis_count; axis++) {
		if ((assembly->n->layout[axis].kind == kind) != has) continue;
		if (lc_coordinate(assembly->run->p, assembly->run->s, x, axis) !=
		    lc_coordinate(assembly->run->p, assembly->run->s, y, axis))
			return false;
	}
	return true;
}

static lc_reduce reduction_of(const struct assembly *assembly) {
	for (int x = 0; x < assembly->run->p->axis_count; x++)
		if (assembly->n->layout[x].kind == LC_P) return (lc_reduce)assembly->n->layout[x].reduce;
	return LC_SUM;
}

static bool run_whole_partial(const struct assembly *assembly) {
	for (int x = 0; x < assembly->run->p->axis_count; x++)
		if (assembly->n->layout[x].kind == LC_P) return true;
	return false;
}

static lk_status check_reductions(const struct assembly *assembly) {
	int axis = -1;
	for (int x = 0; x < assembly->run->p->axis_count; x++) {
		if (assembly->n->layout[x].kind != LC_P) continue;
		if (axis >= 0 && assembly->n->layout[x].reduce != assembly->n->layout[axis].reduce)
			return lc_wrong(assembly->run->p, assembly->n->line, assembly->n->column, assembly->err,
			                "partial over %s and %s by different reductions",
			                assembly->run->p->axes[axis].name, assembly->run->p->axes[x].name);
		axis = x;
	}
	return LK_OK;
}

/* Join the parts that belong together with `rank`'s, in the order of ranks. */
static lk_status run_whole_sum_parts(const struct assembly *assembly, int64_t rank,
                                     const lc_box *box, lc_cells *sum) {
	lc_join join = {false, reduction_of(assembly), (lc_dtype)assembly->n->dtype,
	                assembly->run->o.key};
	LK_TRY(lc_cells_new(assembly->run, box->count, sum, assembly->err));
	for (int64_t other = rank; other < assembly->run->ranks; other++) {
		if (!same_place(assembly, rank, other, LC_P, false)) continue;
		const lc_cells *part = lc_part_of(assembly->run, assembly->id, assembly->item, other);
		lc_join_boxes(&join, part, box, sum, box);
		join.combine = true;
	}
	return LK_OK;
}

/* ---- assembly ---- */

static bool run_whole_agree(const lc_cells *x, int64_t i, const lc_cells *y, int64_t k) {
	if (x->element) return x->element[i] == y->element[k];
	double a = x->number[i], b = y->number[k];
	return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static lk_status place_element(const struct assembly *assembly, const lc_cells *part, int64_t i,
                               int64_t at, int64_t rank) {
	if (assembly->seen[at] && !run_whole_agree(part, i, assembly->out, at)) {
		lc_wrong(assembly->run->p, assembly->n->line, assembly->n->column, assembly->err,
		         "ranks disagree: element %lld of value %d on rank %lld", (long long)at,
		         assembly->id, (long long)rank);
		assembly->err->status = LK_ERR_INTERNAL;
		return LK_ERR_INTERNAL;
	}
	assembly->seen[at] = 1;
	if (part->element) assembly->out->element[at] = part->element[i];
	else assembly->out->number[at] = part->number[i];
	return LK_OK;
}

static lk_status place_part(const struct assembly *assembly, const lc_cells *part,
                            const lc_box *box, int64_t rank) {
	int64_t place[LC_RANK] = {0};
	for (int64_t i = 0; i < box->count; i++) {
		int64_t at = 0;
		for (int d = 0; d < box->rank; d++)
			at = at * assembly->whole.extent[d] + box->begin[d] + place[d];
		LK_TRY(place_element(assembly, part, i, at, rank));
		for (int d = box->rank; --d >= 0 && ++place[d] == box->extent[d];) place[d] = 0;
	}
	return LK_OK;
}

static lk_status place_rank(const struct assembly *assembly, int64_t rank) {
	lc_box box;
	bool held;
	LK_TRY(lc_box_of(assembly->run, assembly->n, assembly->item, rank, &box, &held, assembly->err));
	if (!held) return LK_OK;
	const lc_cells *part = lc_part_of(assembly->run, assembly->id, assembly->item, rank);
	if (!lc_held(part))
		return lk_fail(assembly->err, LK_ERR_INTERNAL, NULL, "value %d was freed", assembly->id);
	if (!run_whole_partial(assembly)) return place_part(assembly, part, &box, rank);
	lc_cells sum;
	LK_TRY(run_whole_sum_parts(assembly, rank, &box, &sum));
	lk_status status = place_part(assembly, &sum, &box, rank);
	lc_cells_drop(assembly->run, &sum);
	return status;
}

static lk_status place_all(const struct assembly *assembly) {
	for (int64_t rank = 0; rank < assembly->run->ranks; rank++)
		if (begins_sum(assembly, rank) && same_place(assembly, rank, assembly->rank, LC_L, true))
			LK_TRY(place_rank(assembly, rank));
	if (!memchr(assembly->seen, 0, (size_t)assembly->whole.count)) return LK_OK;
	return lk_fail(assembly->err, LK_ERR_INTERNAL, NULL, "no rank holds all of value %d",
	               assembly->id);
}

static lk_status whole_box(const struct assembly *assembly, lc_box *box) {
	LK_TRY(lc_whole_shape(assembly->run->p, assembly->n, assembly->run->s, assembly->item,
	                      box->extent, assembly->err));
	box->rank = assembly->n->rank;
	box->count = 1;
	memset(box->begin, 0, sizeof box->begin);
	for (int d = 0; d < box->rank; d++) box->count *= box->extent[d];
	return LK_OK;
}

lk_status lc_run_whole_of(lc_run *run, int id, int64_t item, int64_t rank, const lc_cells **out,
                          lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	struct assembly a = {
		.run = run, .n = &run->p->nodes.at[id], .id = id, .item = item, .rank = rank, .err = err};
	LK_TRY(check_reductions(&a));
	LK_TRY(whole_box(&a, &a.whole));
	a.out = LK_NEW(&run->arena, lc_cells);
	if (!a.out || !lk_push(&run->wholes)) return lk_oom(err);
	*lk_last(&run->wholes) = a.out;
	LK_TRY(lc_cells_new(run, a.whole.count, a.out, err));
	a.seen = calloc((size_t)a.whole.count, 1);
	if (!a.seen) return lk_oom(err);
	lk_status status = place_all(&a);
	free(a.seen);
	*out = a.out;
	return status;
}

lk_status lc_run_whole(lc_run *run, int id, int64_t item, const lc_cells **out, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < run->p->nodes.count);
	const lc_node *node = &run->p->nodes.at[id];
	for (int a = 0; a < run->p->axis_count; a++)
		if (node->layout[a].kind == LC_L)
			return lc_wrong(run->p, node->line, node->column, err,
			                "a tensor of each rank of %s, and no whole", run->p->axes[a].name);
	return lc_run_whole_of(run, id, item, 0, out, err);
}
