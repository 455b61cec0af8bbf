/* rewrite.c: building a program from another, and the table of directives. */
#include "lang/rewrite/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "lang/rewrite/build.h"

/* ---- building ---- */

static lk_status copy_bundles(lc_program *to, const lc_program *from, lk_error *err) {
	for (size_t i = 0; i < from->bundles.count; i++) {
		if (!lk_push(&to->bundles)) return lk_oom(err);
		*lk_last(&to->bundles) = from->bundles.at[i];
	}
	for (size_t i = 0; i < from->conditions.count; i++) {
		if (!lk_push(&to->conditions)) return lk_oom(err);
		*lk_last(&to->conditions) = from->conditions.at[i];
	}
	return LK_OK;
}

lk_status lc_build_open(lc_build *b, const lc_program *from, lk_error *err) {
	*b = (lc_build){.from = from};
	b->to = lc_program_like(from);
	b->map = LK_ARRAY(&b->arena, int, from->nodes.count);
	if (!b->to || !b->map || !lk_reserve(&b->to->nodes, from->nodes.count + 16)) return lk_oom(err);
	memset(b->map, 0xff, sizeof *b->map * from->nodes.count);
	return copy_bundles(b->to, from, err);
}

lk_status lc_build_close(lc_build *b, lk_status status, lc_program **out) {
	if (status == LK_OK) *out = b->to;
	else lc_program_free(b->to);
	lk_arena_free(&b->arena);
	return status;
}

lc_node lc_build_draft(const lc_build *b, int id) {
	lc_node n = b->from->nodes.at[id];
	for (int k = 0; k < n.inputs; k++) n.in[k] = b->map[n.in[k]];
	if (lc_is_leaf(&n)) return n;
	n.list = -1, n.rank = 0;
	memset(n.layout, 0, sizeof n.layout);
	return n;
}

lc_node lc_build_on(lc_op op, const lc_node *like, int operand) {
	lc_node n = lc_draft(op, like->line, like->column);
	n.in[0] = operand;
	n.part_of = like->part_of, n.also = like->also;
	return n;
}

lk_status lc_build_copy(lc_build *b, int id, lk_error *err) {
	lc_node n = lc_build_draft(b, id);
	return lc_add(b->to, &n, &b->map[id], err);
}

lk_status lc_count_uses(const lc_program *p, lk_arena *arena, int **out, lk_error *err) {
	*out = LK_ARRAY(arena, int, p->nodes.count);
	if (!*out) return lk_oom(err);
	for (size_t i = 0; i < p->nodes.count; i++)
		for (int k = lc_first_read(&p->nodes.at[i]); k < p->nodes.at[i].inputs; k++) (*out)[p->nodes.at[i].in[k]]++;
	return LK_OK;
}

/* ---- directives ---- */

static lc_rewriter *const rewriters[LC_DIRECTIVES] = {
	[LC_SPLIT] = lc_rewrite_split, [LC_REORDER] = lc_rewrite_reorder, [LC_SLICE_STATE] = lc_rewrite_slice,
	[LC_FUSE] = lc_rewrite_fuse, [LC_OVERLAP] = lc_rewrite_overlap, [LC_BUCKET] = lc_rewrite_bucket,
	[LC_HIERARCHICAL] = lc_rewrite_hierarchical,
};

lk_status lc_rewrite(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	*out = NULL;
	if ((unsigned)d->kind >= LC_DIRECTIVES || !rewriters[d->kind] || d->name_count < 1)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "a directive that is none");
	return rewriters[d->kind](p, d, out, err);
}

static lk_status copy(const lc_program *p, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, p, err);
	for (int i = 0; status == LK_OK && i < (int)p->nodes.count; i++) status = lc_build_copy(&b, i, err);
	return lc_build_close(&b, status, out);
}

lk_status lc_rewrite_all(const lc_program *p, const lc_schedule *s, lc_program **out, lk_error *err) {
	*out = NULL;
	LK_TRY(copy(p, out, err));
	for (int i = 0; s && i < s->count; i++) {
		lc_program *before = *out;
		lk_status status = lc_rewrite(before, &s->directives[i], out, err);
		lc_program_free(before);
		LK_TRY(status);
	}
	return LK_OK;
}
