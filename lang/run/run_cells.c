/* run_cells.c: a run's numbers: reference-counted blocks of cells, and the operands of an
 * operation. */
#include <stdlib.h>

#include "lang/run/run_internal.h"

struct block {
	int64_t users;
	_Alignas(16) unsigned char cells[];
};

static void *start_of(const lc_cells *cells) {
	return cells->number ? (void *)cells->number : (void *)cells->element;
}

static struct block *run_block_of(const lc_cells *c) {
	return (struct block *)((char *)start_of(c) - offsetof(struct block, cells));
}

lk_status lc_cells_new(lc_run *run, int64_t count, lc_cells *out, lk_error *err) {
	int64_t limit = run->o.cells ? run->o.cells : LC_CELLS_LIMIT;
	if (count > limit - run->held) {
		lk_fail(err, LK_ERR_INPUT, run->p->name,
		        "more than %lld elements at a time, on %lld ranks together", (long long)limit,
		        (long long)run->ranks);
		return lk_hint(err, "give smaller --sizes");
	}
	_Static_assert(sizeof(double) == sizeof(uint64_t), "cells of both kinds have one size");
	struct block *block = calloc(1, sizeof *block + (size_t)count * sizeof(double));
	if (!block) return lk_oom(err);
	block->users = 1;
	run->held += count;
	*out = (lc_cells){.count = count};
	if (lc_in_field(run)) out->element = (uint64_t *)(void *)block->cells;
	else out->number = (double *)(void *)block->cells;
	/* cppcheck-suppress memleak ; `out` holds what is in it */
	return LK_OK;
}

void lc_cells_share(const lc_cells *from, lc_cells *out) {
	run_block_of(from)->users++;
	*out = *from;
}

void lc_cells_drop(lc_run *run, lc_cells *cells) {
	if (!lc_held(cells)) return;
	if (--run_block_of(cells)->users == 0) {
		run->held -= cells->count;
		free(run_block_of(cells));
	}
	*cells = (lc_cells){0};
}

lk_status lc_box_of(const lc_run *run, const lc_node *node, int64_t item, int64_t rank, lc_box *box,
                    bool *held, lk_error *err) {
	int64_t whole[LC_RANK];
	LK_TRY(lc_whole_shape(run->p, node, run->s, item, whole, err));
	box->rank = node->rank;
	box->count = 1;
	*held = lc_local_part(run->p, node, run->s, item, whole, rank, box->begin, box->extent);
	for (int d = 0; d < node->rank && *held; d++) box->count *= box->extent[d];
	return LK_OK;
}

lk_status lc_operand(const lc_at *at, int i, const lc_cells **cells, lc_box *box) {
	const lc_node *node = &at->run->p->nodes.at[at->n->in[i]];
	int64_t item = node->list < 0 ? 0 : at->item;
	bool held;
	LK_TRY(lc_box_of(at->run, node, item, at->rank, box, &held, at->err));
	*cells = lc_part_of(at->run, at->n->in[i], item, at->rank);
	if (held && lc_held(*cells)) return LK_OK;
	return lk_fail(at->err, LK_ERR_INTERNAL, NULL,
	               "value %d reads value %d, which rank %lld does not hold", at->id, at->n->in[i],
	               (long long)at->rank);
}

lk_status lc_run_wrong(const lc_at *at, const char *fmt, ...) {
	char what[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return lc_wrong(at->run->p, at->n->line, at->n->column, at->err, "%s", what);
}

lk_status lc_run_spend(lc_run *run, const lc_node *node, double products, lk_error *err) {
	double work = (double)run->work + products,
		   limit = run->o.work > 0 ? run->o.work : LC_WORK_LIMIT;
	if (work <= limit) {
		run->work = (int64_t)work;
		return LK_OK;
	}
	lc_wrong(run->p, node->line, node->column, err, "more than %.0f products in all", limit);
	return lk_hint(err, "give smaller --sizes");
}

int lc_same_cells(const lc_node *node) {
	if (node->op == LC_UPDATE) return 1;
	return node->op == LC_OUT || node->op == LC_COPY || lc_relabels(node) ? 0 : -1;
}

/* Whether two ranks may hold elements in common; not if they differ along an axis of parts or local
 * tensors. */
static bool same_tensor(const lc_run *run, const lc_node *node, int64_t a, int64_t b) {
	for (int axis = 0; axis < run->p->axis_count; axis++) {
		bool own = node->layout[axis].kind == LC_P || node->layout[axis].kind == LC_L;
		if (own && lc_coordinate(run->p, run->s, a, axis) != lc_coordinate(run->p, run->s, b, axis))
			return false;
	}
	return true;
}

lk_status lc_nudged_element(const lc_run *run, const lc_nudge *nudge, int64_t rank,
                            int64_t *element, bool *held, lk_error *err) {
	const lc_node *node = &run->p->nodes.at[nudge->id];
	int64_t left = nudge->element, step = 1;
	lc_box from, box;
	LK_TRY(lc_box_of(run, node, nudge->item, nudge->rank, &from, held, err));
	LK_TRY(lc_box_of(run, node, nudge->item, rank, &box, held, err));
	*held &= same_tensor(run, node, nudge->rank, rank);
	*element = 0;
	for (int d = node->rank; d-- > 0 && *held;) {
		int64_t place = from.begin[d] + left % from.extent[d] - box.begin[d];
		left /= from.extent[d];
		*held = place >= 0 && place < box.extent[d];
		*element += place * step;
		step *= box.extent[d];
	}
	return LK_OK;
}
