/* build.c: a program built from another, node by node, operands first. A rewrite copies the nodes
 * that stay and adds its own in between; `map` gives each node's new id. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "lang/rewrite/rewrite_internal.h"

static lk_status bundles_add(lc_build *build, const lc_directive *directive, const uint8_t *set,
                             lk_error *err) {
	if (build->to->bundles.count == INT16_MAX)
		return lc_wrong(build->from, directive->line, directive->column, err,
		                "more than %d bundles", INT16_MAX);
	if (!lk_push(&build->to->bundles)) return lk_oom(err);
	lc_bundle *bundle = lk_last(&build->to->bundles);
	*bundle = (lc_bundle){.kind = directive->kind,
	                      .name = directive->result_count ? directive->results[0].text : NULL};
	if (directive->kind == LC_OVERLAP) {
		bundle->chunk = directive->chunk;
		bundle->order = directive->order;
		bundle->chunks = directive->chunks;
	}
	if (directive->kind == LC_BUCKET) bundle->size = directive->size;
	for (size_t i = 0; i < build->from->nodes.count; i++)
		if (set[i])
			*lc_bundle_slot(&build->to->nodes.at[build->map[i]], directive->kind) =
				(int16_t)(build->to->bundles.count - 1);
	return LK_OK;
}

lk_status lc_add_bundle(const lc_program *program, const lc_directive *directive,
                        const uint8_t *set, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, program, err);
	for (int i = 0; status == LK_OK && i < (int)program->nodes.count; i++)
		status = lc_build_copy(&b, i, err);
	if (status == LK_OK) status = bundles_add(&b, directive, set, err);
	return lc_build_close(&b, status, out);
}

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

lk_status lc_build_open(lc_build *build, const lc_program *from, lk_error *err) {
	*build = (lc_build){.from = from};
	build->to = lc_program_like(from);
	build->map = LK_ARRAY(&build->arena, int, from->nodes.count);
	if (!build->to || !build->map || !lk_reserve(&build->to->nodes, from->nodes.count + 16))
		return lk_oom(err);
	memset(build->map, 0xff, sizeof *build->map * from->nodes.count);
	return copy_bundles(build->to, from, err);
}

lk_status lc_build_close(lc_build *build, lk_status status, lc_program **out) {
	if (status == LK_OK) {
		lc_drop_idle_bundles(build->to);
		*out = build->to;
	} else lc_program_free(build->to);
	lk_arena_free(&build->arena);
	return status;
}

lc_node lc_build_draft(const lc_build *build, int id) {
	lc_node n = build->from->nodes.at[id];
	for (int k = 0; k < n.inputs; k++) {
		LK_ASSERT(n.in[k] >= 0 && n.in[k] < id); /* SSA: operands were built before */
		n.in[k] = build->map[n.in[k]];
	}
	if (lc_is_leaf(&n)) return n;
	n.list = -1;
	n.rank = 0;
	memset(n.layout, 0, sizeof n.layout);
	return n;
}

lc_node lc_build_on(lc_op op, const lc_node *like, int operand) {
	lc_node n = lc_draft(op, like->line, like->column);
	n.in[0] = operand;
	n.part_of = like->part_of;
	n.also = like->also;
	return n;
}

lk_status lc_build_copy(lc_build *build, int id, lk_error *err) {
	lc_node n = lc_build_draft(build, id);
	return lc_add(build->to, &n, &build->map[id], err);
}

lk_status lc_count_uses(const lc_program *program, lk_arena *arena, int **out, lk_error *err) {
	*out = LK_ARRAY(arena, int, program->nodes.count);
	if (!*out) return lk_oom(err);
	for (size_t i = 0; i < program->nodes.count; i++)
		for (int k = lc_first_read(&program->nodes.at[i]); k < program->nodes.at[i].inputs; k++)
			(*out)[program->nodes.at[i].in[k]]++;
	return LK_OK;
}

lk_status lc_build_same(const lc_program *program, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, program, err);
	for (int i = 0; status == LK_OK && i < (int)program->nodes.count; i++)
		status = lc_build_copy(&b, i, err);
	return lc_build_close(&b, status, out);
}
