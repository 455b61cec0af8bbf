/* rewrite_split.c: split a -> (rs,ag): an all-reduce as a reduce-scatter and an all-gather; `by reduce`: as a reduce to
 * rank 0 and a broadcast.
 *
 * The dim that is scattered is the first that is not sliced already and does not have one element only, unless the
 * directive names one: split a -> (rs,ag) dim 1. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

lk_status lc_find_reduction(const lc_program *p, const lc_word *w, int *id, lk_error *err) {
	int ids[LC_VALUES], found = 0, count = lc_part(p, w->text, ids, LC_VALUES);
	for (int i = 0; i < count; i++) {
		if (p->nodes.at[ids[i]].op != LC_ALLREDUCE) continue;
		*id = ids[i];
		found++;
	}
	if (found == 1) return LK_OK;
	if (!count && lc_value_find(p, w->text) < 0) {
		uint8_t none;
		return lc_mark(p, w, &none, err); /* which says what there is */
	}
	lc_word_wrong(p, w, err, "%s holds %s allreduce", w->text, found ? "more than one" : "no unsplit");
	return lk_hint(err, found ? "give each a name of its own" : "name the value that is reduced");
}

static lk_status check_names(const lc_program *p, const lc_directive *d, lk_error *err) {
	if (d->result_count == 2) return lc_names_new(p, d, err);
	lc_wrong(p, d->line, d->column, err, "split gives 2 names");
	return lk_hint(err, "split %s -> (rs,ag)", d->names[0].text);
}

static bool is_sliced(const lc_program *p, const lc_node *n, int d) {
	for (int a = 0; a < p->axis_count; a++)
		if (n->layout[a].kind == LC_S && n->layout[a].dim == d) return true;
	return false;
}

lk_status lc_scatter_dim(const lc_program *p, const lc_directive *d, const lc_node *n, int *dim, lk_error *err) {
	const lc_word *w = &d->names[0];
	*dim = d->kind == LC_SPLIT ? (int)d->size - 1 : -1;
	if (n->rank == 0) {
		lc_word_wrong(p, w, err, "%s is one number, which has no slices", w->text);
		return d->kind == LC_SPLIT ? lk_hint(err, "leave it reduced, or write by reduce") : lk_hint(err, "leave it out");
	}
	if (*dim >= n->rank) {
		lc_word_wrong(p, w, err, "%s has no dim %d", w->text, *dim);
		return lk_hint(err, "its dims count from 0 to %d", n->rank - 1);
	}
	if (*dim >= 0) return LK_OK;
	for (int i = 0; i < n->rank; i++)
		if (n->dim[i] != 0 && !is_sliced(p, n, i)) return *dim = i, LK_OK;
	lc_word_wrong(p, w, err, "every dim of %s is sliced already, or has one element", w->text);
	return lk_hint(err, "leave it reduced");
}

lk_status lc_need_unbundled(const lc_program *p, const lc_directive *d, int id, lk_error *err) {
	const lc_node *n = &p->nodes.at[id];
	if (n->fuse < 0 && n->overlap < 0 && n->bucket < 0) return LK_OK;
	lc_wrong(p, d->line, d->column, err, "%s is fused, overlapped or in a bucket already", lc_part_name(n));
	return lk_hint(err, "write %s before fuse, overlap and bucket", lc_directive_names[d->kind]);
}

/* The first half, which takes the first name; the second takes what was the all-reduce's. */
static lk_status halves(lc_build *b, const lc_directive *d, int id, lk_error *err) {
	const lc_node *n = &b->from->nodes.at[id];
	bool root = d->order && strcmp(d->order, "reduce") == 0;
	int dim = 0;
	if (!root) LK_TRY(lc_scatter_dim(b->from, d, n, &dim, err));
	lc_node first = lc_build_on(root ? LC_REDUCE : LC_REDUCESCATTER, n, b->map[n->in[0]]);
	lc_node second = lc_build_on(root ? LC_BROADCAST : LC_ALLGATHER, n, 0);
	first.reduce = n->reduce, first.axis = second.axis = n->axis;
	first.d = second.d = (int8_t)dim;
	first.name = first.part_of = d->results[0].text;
	second.part_of = d->results[1].text, second.name = n->name ? n->name : second.part_of;
	LK_TRY(lc_add(b->to, &first, &second.in[0], err));
	return lc_add(b->to, &second, &b->map[id], err);
}

static lk_status build(lc_build *b, const lc_directive *d, lk_error *err) {
	int id;
	LK_TRY(lc_find_reduction(b->from, &d->names[0], &id, err));
	LK_TRY(check_names(b->from, d, err));
	LK_TRY(lc_need_unbundled(b->from, d, id, err));
	for (int i = 0; i < (int)b->from->nodes.count; i++)
		LK_TRY(i == id ? halves(b, d, i, err) : lc_build_copy(b, i, err));
	return LK_OK;
}

lk_status lc_rewrite_split(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, p, err);
	if (status == LK_OK) status = build(&b, d, err);
	return lc_build_close(&b, status, out);
}
