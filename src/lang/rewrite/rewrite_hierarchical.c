/* rewrite_hierarchical.c: hierarchical a -> (rs,ar,ag) group N: the axis becomes two, an outer one of groups and an inner
 * one of the N ranks of a group, and the all-reduce a reduce-scatter inside, an all-reduce between, an all-gather inside.
 * Rank r of the axis is rank r % N of group r / N. A dim sliced over the axis is sliced over both, the outer first. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

struct refiner {
	const lc_directive *d;
	lc_build b;
	int outer, inner;     /* the axis keeps its number as the outer one */
	int64_t ranks;        /* of a group */
	int id;               /* the all-reduce */
};

/* ---- the mesh ---- */

static lk_status check_axis(const lc_program *p, const lc_directive *d, const lc_axis *axis, lk_error *err) {
	if (p->axis_count == LC_AXES) {
		lc_wrong(p, d->line, d->column, err, "a mesh has at most %d axes, and %s would become two", LC_AXES, axis->name);
		return lk_hint(err, "leave an axis out");
	}
	if (d->size < 2 || d->size > 1 << 20)
		return lc_wrong(p, d->line, d->column, err, "groups of %lld ranks", (long long)d->size);
	if (!axis->size || (axis->size % d->size == 0 && axis->size > d->size)) return LK_OK;
	lc_wrong(p, d->line, d->column, err, "%s has %lld ranks, which are no groups of %lld", axis->name,
	         (long long)axis->size, (long long)d->size);
	return lk_hint(err, "choose a divisor of %lld", (long long)axis->size);
}

static lk_status name_axis(struct refiner *r, const char *base, const char *end, const char **out, lk_error *err) {
	const lc_program *p = r->b.from;
	for (int i = 0; i < LC_VALUES; i++) {
		char text[LC_NAME];
		if (i) snprintf(text, sizeof text, "%.40s_%s%d", base, end, i);
		else snprintf(text, sizeof text, "%.40s_%s", base, end);
		if (lc_value_find(p, text) >= 0 || lc_axis_find(p, text) >= 0 || lc_dim_find(p, text) >= 0 ||
		    lc_list_find(p, text) >= 0) continue;
		*out = lk_arena_strdup(&p->file->arena, text);
		return *out ? LK_OK : lk_oom(err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, NULL, "no name is free for an axis");
}

static lk_status refine_mesh(struct refiner *r, lk_error *err) {
	lc_program *q = r->b.to;
	lc_axis whole = q->axes[r->outer];
	for (int a = q->axis_count++; a > r->inner; a--) q->axes[a] = q->axes[a - 1];
	q->axes[r->inner].size = r->ranks;
	q->axes[r->outer].size = whole.size / r->ranks;
	LK_TRY(name_axis(r, whole.name, "o", &q->axes[r->outer].name, err));
	LK_TRY(name_axis(r, whole.name, "i", &q->axes[r->inner].name, err));
	return lc_dims_refine(q, r->outer, r->ranks, err);
}

static int moved_axis(const struct refiner *r, int axis) { return axis > r->outer ? axis + 1 : axis; }

/* ---- values ---- */

static lk_status refuse(const struct refiner *r, const lc_node *n, const char *why, lk_error *err) {
	lc_wrong(r->b.from, r->d->line, r->d->column, err, "%s %s over %s, which would become two axes", lc_part_name(n), why,
	         r->b.from->axes[r->outer].name);
	return lk_hint(err, "leave the axis whole");
}

static void refine_layouts(const struct refiner *r, lc_node *n) {
	for (int a = LC_AXES - 1; a > r->inner; a--) n->layout[a] = n->layout[a - 1];
	n->layout[r->inner] = n->layout[r->outer];
	if (n->layout[r->outer].kind != LC_ROOT) return;
	n->layout[r->inner].root %= (int32_t)r->ranks;
	n->layout[r->outer].root /= (int32_t)r->ranks;
}

static lc_node draft_of(const struct refiner *r, int id) {
	lc_node n = lc_build_draft(&r->b, id);
	n.at.axis = moved_axis(r, n.at.axis), n.from.axis = moved_axis(r, n.from.axis);
	n.axis = (int8_t)moved_axis(r, n.axis);
	if (lc_is_leaf(&n)) refine_layouts(r, &n);
	return n;
}

/* The operation over one axis, then over the other; the last takes the name. */
static lk_status twice(struct refiner *r, int id, int first, int second, lk_error *err) {
	const lc_node *from = &r->b.from->nodes.at[id];
	lc_node n = draft_of(r, id);
	int32_t roots[2] = {from->root % (int32_t)r->ranks, from->root / (int32_t)r->ranks};
	LK_TRY(lc_need_unbundled(r->b.from, r->d, id, err));
	n.name = NULL, n.axis = (int8_t)first, n.root = roots[first == r->outer];
	LK_TRY(lc_add(r->b.to, &n, &n.in[0], err));
	n.name = from->name, n.axis = (int8_t)second, n.root = roots[second == r->outer];
	n.list = -1;
	return lc_add(r->b.to, &n, &r->b.map[id], err);
}

static lk_status size_of(struct refiner *r, int id, lk_error *err) {
	lc_node outer = draft_of(r, id), inner = outer, product = lc_build_on(LC_MUL, &outer, 0);
	product.name = outer.name, outer.name = NULL;
	inner.name = NULL, inner.axis = (int8_t)r->inner;
	LK_TRY(lc_add(r->b.to, &outer, &product.in[0], err));
	LK_TRY(lc_add(r->b.to, &inner, &product.in[1], err));
	return lc_add(r->b.to, &product, &r->b.map[id], err);
}

static lk_status over_axis(struct refiner *r, int id, lk_error *err) {
	const lc_node *n = &r->b.from->nodes.at[id];
	switch (n->op) {
	case LC_SIZE: return size_of(r, id, err);
	case LC_ALLREDUCE: case LC_ALLGATHER: case LC_REDUCE: case LC_LOCAL: return twice(r, id, r->inner, r->outer, err);
	case LC_REDUCESCATTER: case LC_SLICE: case LC_BROADCAST: case LC_SLICED: return twice(r, id, r->outer, r->inner, err);
	case LC_PERMUTE: return refuse(r, n, "hands its slices round", err);
	default: return refuse(r, n, "exchanges slices", err);
	}
}

static lk_status levels(struct refiner *r, lk_error *err) {
	const lc_node *n = &r->b.from->nodes.at[r->id];
	lc_node scatter = lc_build_on(LC_REDUCESCATTER, n, r->b.map[n->in[0]]), all = lc_build_on(LC_ALLREDUCE, n, 0),
			gather = lc_build_on(LC_ALLGATHER, n, 0);
	int dim;
	LK_TRY(lc_scatter_dim(r->b.from, r->d, n, &dim, err));
	scatter.d = gather.d = (int8_t)dim;
	scatter.axis = gather.axis = (int8_t)r->inner, all.axis = (int8_t)r->outer;
	scatter.reduce = all.reduce = n->reduce;
	scatter.name = scatter.part_of = r->d->results[0].text;
	all.name = all.part_of = r->d->results[1].text;
	gather.part_of = r->d->results[2].text, gather.name = n->name ? n->name : gather.part_of;
	LK_TRY(lc_add(r->b.to, &scatter, &all.in[0], err));
	LK_TRY(lc_add(r->b.to, &all, &gather.in[0], err));
	return lc_add(r->b.to, &gather, &r->b.map[r->id], err);
}

static lk_status value(struct refiner *r, int id, lk_error *err) {
	const lc_node *n = &r->b.from->nodes.at[id];
	if (id == r->id) return levels(r, err);
	if (n->at.axis == r->outer || n->from.axis == r->outer) return refuse(r, n, "lives at one group", err);
	if (n->axis == r->outer) return over_axis(r, id, err);
	lc_node draft = draft_of(r, id);
	return lc_add(r->b.to, &draft, &r->b.map[id], err);
}

static lk_status make(struct refiner *r, lk_error *err) {
	const lc_program *p = r->b.from;
	LK_TRY(lc_find_reduction(p, &r->d->names[0], &r->id, err));
	if (r->d->result_count != 3) {
		lc_wrong(p, r->d->line, r->d->column, err, "hierarchical gives 3 names");
		return lk_hint(err, "hierarchical %s -> (rs,ar,ag) group N", r->d->names[0].text);
	}
	LK_TRY(lc_names_new(p, r->d, err));
	LK_TRY(lc_need_unbundled(p, r->d, r->id, err));
	r->outer = p->nodes.at[r->id].axis, r->inner = r->outer + 1, r->ranks = r->d->size;
	LK_TRY(check_axis(p, r->d, &p->axes[r->outer], err));
	LK_TRY(refine_mesh(r, err));
	for (int i = 0; i < (int)p->nodes.count; i++) LK_TRY(value(r, i, err));
	return LK_OK;
}

lk_status lc_rewrite_hierarchical(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	struct refiner r = {.d = d};
	lk_status status = lc_build_open(&r.b, p, err);
	if (status == LK_OK) status = make(&r, err);
	return lc_build_close(&r.b, status, out);
}
