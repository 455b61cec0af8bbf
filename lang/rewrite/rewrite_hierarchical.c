/* rewrite_hierarchical.c: hierarchical a -> (rs,ar,ag) group N: the axis becomes two, an outer one
 * of groups and an inner one of the N ranks of a group, and the all-reduce a reduce-scatter inside,
 * an all-reduce between, an all-gather inside. Rank r of the axis is rank r % N of group r / N. A
 * dim sliced over the axis is sliced over both, the outer first. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

struct refiner {
	const lc_directive *d;
	lc_build b;
	int outer, inner; /* the axis keeps its number as the outer one */
	int64_t ranks;    /* of a group */
	int id;           /* the all-reduce */
};

/* ---- the mesh ---- */

static lk_status check_axis(const lc_program *program, const lc_directive *directive,
                            const lc_axis *axis, lk_error *err) {
	if (program->axis_count == LC_AXES) {
		lc_wrong(program, directive->line, directive->column, err,
		         "a mesh has at most %d axes, and %s would become two", LC_AXES, axis->name);
		return lk_hint(err, "leave an axis out");
	}
	if (directive->size < 2 || directive->size > 1 << 20)
		return lc_wrong(program, directive->line, directive->column, err, "groups of %lld ranks",
		                (long long)directive->size);
	if (!axis->size || (axis->size % directive->size == 0 && axis->size > directive->size))
		return LK_OK;
	lc_wrong(program, directive->line, directive->column, err,
	         "%s has %lld ranks, which are no groups of %lld", axis->name, (long long)axis->size,
	         (long long)directive->size);
	return lk_hint(err, "choose a divisor of %lld", (long long)axis->size);
}

static lk_status name_axis(struct refiner *refiner, const char *base, const char *end,
                           const char **out, lk_error *err) {
	const lc_program *program = refiner->b.from;
	for (int i = 0; i < LC_VALUES; i++) {
		char text[LC_NAME];
		if (i) snprintf(text, sizeof text, "%.40s_%s%d", base, end, i);
		else snprintf(text, sizeof text, "%.40s_%s", base, end);
		if (lc_value_find(program, text) >= 0 || lc_axis_find(program, text) >= 0 ||
		    lc_dim_find(program, text) >= 0 || lc_list_find(program, text) >= 0)
			continue;
		*out = lk_arena_strdup(&program->file->arena, text);
		return *out ? LK_OK : lk_oom(err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, NULL, "no name is free for an axis");
}

static lk_status refine_mesh(struct refiner *refiner, lk_error *err) {
	lc_program *program = refiner->b.to;
	lc_axis whole = program->axes[refiner->outer];
	for (int a = program->axis_count++; a > refiner->inner; a--)
		program->axes[a] = program->axes[a - 1];
	program->axes[refiner->inner].size = refiner->ranks;
	program->axes[refiner->outer].size = whole.size / refiner->ranks;
	LK_TRY(name_axis(refiner, whole.name, "o", &program->axes[refiner->outer].name, err));
	LK_TRY(name_axis(refiner, whole.name, "i", &program->axes[refiner->inner].name, err));
	return lc_dims_refine(program, refiner->outer, refiner->ranks, err);
}

static int moved_axis(const struct refiner *refiner, int axis) {
	return axis > refiner->outer ? axis + 1 : axis;
}

/* ---- values ---- */

static lk_status hierarchical_refuse(const struct refiner *refiner, const lc_node *node,
                                     const char *why, lk_error *err) {
	lc_wrong(refiner->b.from, refiner->d->line, refiner->d->column, err,
	         "%s %s over %s, which would become two axes", lc_part_name(node), why,
	         refiner->b.from->axes[refiner->outer].name);
	return lk_hint(err, "leave the axis whole");
}

static void refine_layouts(const struct refiner *refiner, lc_node *node) {
	for (int a = LC_AXES - 1; a > refiner->inner; a--) node->layout[a] = node->layout[a - 1];
	node->layout[refiner->inner] = node->layout[refiner->outer];
	if (node->layout[refiner->outer].kind != LC_ROOT) return;
	node->layout[refiner->inner].root %= (int32_t)refiner->ranks;
	node->layout[refiner->outer].root /= (int32_t)refiner->ranks;
}

static lc_node draft_of(const struct refiner *refiner, int id) {
	lc_node n = lc_build_draft(&refiner->b, id);
	n.at.axis = moved_axis(refiner, n.at.axis);
	n.from.axis = moved_axis(refiner, n.from.axis);
	n.axis = (int8_t)moved_axis(refiner, n.axis);
	if (lc_is_leaf(&n)) refine_layouts(refiner, &n);
	return n;
}

/* Apply the operation over one axis, then over the other; the last takes the name. */
static lk_status twice(struct refiner *refiner, int id, int first, int second, lk_error *err) {
	const lc_node *from = &refiner->b.from->nodes.at[id];
	lc_node n = draft_of(refiner, id);
	int32_t roots[2] = {from->root % (int32_t)refiner->ranks, from->root / (int32_t)refiner->ranks};
	LK_TRY(lc_need_unbundled(refiner->b.from, refiner->d, id, err));
	n.name = NULL;
	n.axis = (int8_t)first;
	n.root = roots[first == refiner->outer];
	LK_TRY(lc_add(refiner->b.to, &n, &n.in[0], err));
	n.name = from->name;
	n.axis = (int8_t)second;
	n.root = roots[second == refiner->outer];
	n.list = -1;
	return lc_add(refiner->b.to, &n, &refiner->b.map[id], err);
}

static lk_status hierarchical_size_of(struct refiner *refiner, int id, lk_error *err) {
	lc_node outer = draft_of(refiner, id), inner = outer, product = lc_build_on(LC_MUL, &outer, 0);
	product.name = outer.name;
	outer.name = NULL;
	inner.name = NULL;
	inner.axis = (int8_t)refiner->inner;
	LK_TRY(lc_add(refiner->b.to, &outer, &product.in[0], err));
	LK_TRY(lc_add(refiner->b.to, &inner, &product.in[1], err));
	return lc_add(refiner->b.to, &product, &refiner->b.map[id], err);
}

static lk_status over_axis(struct refiner *refiner, int id, lk_error *err) {
	const lc_node *node = &refiner->b.from->nodes.at[id];
	switch (node->op) {
	case LC_SIZE: return hierarchical_size_of(refiner, id, err);
	case LC_ALLREDUCE:
	case LC_ALLGATHER:
	case LC_REDUCE:
	case LC_LOCAL:
	case LC_PARTIAL: return twice(refiner, id, refiner->inner, refiner->outer, err);
	case LC_REDUCESCATTER:
	case LC_SLICE:
	case LC_BROADCAST:
	case LC_SLICED: return twice(refiner, id, refiner->outer, refiner->inner, err);
	case LC_PERMUTE: return hierarchical_refuse(refiner, node, "hands its slices round", err);
	default: return hierarchical_refuse(refiner, node, "exchanges slices", err);
	}
}

static lk_status hierarchical_levels(struct refiner *refiner, lk_error *err) {
	const lc_node *node = &refiner->b.from->nodes.at[refiner->id];
	lc_node scatter = lc_build_on(LC_REDUCESCATTER, node, refiner->b.map[node->in[0]]),
			all = lc_build_on(LC_ALLREDUCE, node, 0), gather = lc_build_on(LC_ALLGATHER, node, 0);
	int dim;
	LK_TRY(lc_scatter_dim(refiner->b.from, refiner->d, node, &dim, err));
	scatter.d = gather.d = (int8_t)dim;
	scatter.axis = gather.axis = (int8_t)refiner->inner;
	all.axis = (int8_t)refiner->outer;
	scatter.reduce = all.reduce = node->reduce;
	scatter.name = scatter.part_of = refiner->d->results[0].text;
	all.name = all.part_of = refiner->d->results[1].text;
	gather.part_of = refiner->d->results[2].text,
	gather.name = node->name ? node->name : gather.part_of;
	LK_TRY(lc_add(refiner->b.to, &scatter, &all.in[0], err));
	LK_TRY(lc_add(refiner->b.to, &all, &gather.in[0], err));
	return lc_add(refiner->b.to, &gather, &refiner->b.map[refiner->id], err);
}

static lk_status value(struct refiner *refiner, int id, lk_error *err) {
	const lc_node *node = &refiner->b.from->nodes.at[id];
	if (id == refiner->id) return hierarchical_levels(refiner, err);
	if (node->at.axis == refiner->outer || node->from.axis == refiner->outer)
		return hierarchical_refuse(refiner, node, "lives at one group", err);
	if (node->axis == refiner->outer) return over_axis(refiner, id, err);
	lc_node draft = draft_of(refiner, id);
	return lc_add(refiner->b.to, &draft, &refiner->b.map[id], err);
}

static lk_status hierarchical_make(struct refiner *refiner, lk_error *err) {
	const lc_program *program = refiner->b.from;
	LK_TRY(lc_find_reduction(program, &refiner->d->names[0], &refiner->id, err));
	if (refiner->d->result_count != 3) {
		lc_wrong(program, refiner->d->line, refiner->d->column, err, "hierarchical gives 3 names");
		return lk_hint(err, "hierarchical %s -> (rs,ar,ag) group N", refiner->d->names[0].text);
	}
	LK_TRY(lc_names_new(program, refiner->d, err));
	LK_TRY(lc_need_unbundled(program, refiner->d, refiner->id, err));
	refiner->outer = program->nodes.at[refiner->id].axis;
	refiner->inner = refiner->outer + 1;
	refiner->ranks = refiner->d->size;
	LK_TRY(check_axis(program, refiner->d, &program->axes[refiner->outer], err));
	LK_TRY(refine_mesh(refiner, err));
	for (int i = 0; i < (int)program->nodes.count; i++) LK_TRY(value(refiner, i, err));
	return LK_OK;
}

lk_status lc_rewrite_hierarchical(const lc_program *program, const lc_directive *directive,
                                  lc_program **out, lk_error *err) {
	struct refiner r = {.d = directive};
	lk_status status = lc_build_open(&r.b, program, err);
	if (status == LK_OK) status = hierarchical_make(&r, err);
	return lc_build_close(&r.b, status, out);
}
