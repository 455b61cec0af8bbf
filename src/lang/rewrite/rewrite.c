/* rewrite.c: building a program from another, and the table of directives. */
#include "lang/rewrite/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "lang/rewrite/rewrite_internal.h"

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

/* ---- directives ---- */

static lc_rewriter *const rewriters[LC_DIRECTIVES] = {
	[LC_SPLIT] = lc_rewrite_split,
	[LC_REORDER] = lc_rewrite_reorder,
	[LC_SLICE_STATE] = lc_rewrite_slice,
	[LC_FUSE] = lc_rewrite_fuse,
	[LC_OVERLAP] = lc_rewrite_overlap,
	[LC_BUCKET] = lc_rewrite_bucket,
	[LC_HIERARCHICAL] = lc_rewrite_hierarchical,
};

lk_status lc_rewrite(const lc_program *program, const lc_directive *directive, lc_program **out,
                     lk_error *err) {
	*out = NULL;
	if ((unsigned)directive->kind >= LC_DIRECTIVES || !rewriters[directive->kind] ||
	    directive->name_count < 1)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "a directive that is none");
	LK_TRY(rewriters[directive->kind](program, directive, out, err));
	lk_status status = lc_check_sides(*out, directive, err);
	if (status != LK_OK) {
		lc_program_free(*out);
		*out = NULL;
	}
	return status;
}

static lk_status rewrite_copy(const lc_program *program, lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, program, err);
	for (int i = 0; status == LK_OK && i < (int)program->nodes.count; i++)
		status = lc_build_copy(&b, i, err);
	return lc_build_close(&b, status, out);
}

/* Whether a split with this size, and then a reorder, apply. */
static bool applies(const lc_program *program, lc_directive split, const lc_directive *reorder,
                    int64_t size) {
	lc_program *parts = NULL, *moved = NULL;
	lk_error ignored;
	split.size = size;
	lk_status status = lc_rewrite(program, &split, &parts, &ignored);
	if (status == LK_OK) status = lc_rewrite(parts, reorder, &moved, &ignored);
	lc_program_free(parts);
	lc_program_free(moved);
	return status == LK_OK;
}

/* A split that names no dim takes the first along which its gather can then be moved as the
 * schedule wants; the usual one where there is none. */
static int64_t choose_dim(const lc_program *program, const lc_directive *split,
                          const lc_directive *end) {
	const lc_directive *reorder = split + 1;
	int line = program->file->mistake.line, column = program->file->mistake.column;
	int64_t size = 0;
	if (split->kind != LC_SPLIT || split->size || split->order || split->result_count != 2)
		return split->size;
	while (reorder < end && (reorder->kind != LC_REORDER ||
	                         strcmp(reorder->names[0].text, split->results[1].text) != 0))
		reorder++;
	while (reorder < end && size <= LC_RANK && !applies(program, *split, reorder, size)) size++;
	program->file->mistake.line = line;
	program->file->mistake.column = column; /* what was tried is no mistake */
	return size <= LC_RANK ? size : 0;
}

lk_status lc_rewrite_next(const lc_program *program, const lc_schedule *schedule, int which,
                          lc_program **out, lk_error *err) {
	lc_directive d = schedule->directives[which];
	d.size =
		choose_dim(program, &schedule->directives[which], schedule->directives + schedule->count);
	return lc_rewrite(program, &d, out, err);
}

lk_status lc_rewrite_all(const lc_program *program, const lc_schedule *schedule, lc_program **out,
                         lk_error *err) {
	lc_program *now, *next = NULL;
	*out = NULL;
	LK_TRY(rewrite_copy(program, &now, err));
	for (int i = 0; schedule && i < schedule->count; i++) {
		lk_status status = lc_rewrite_next(now, schedule, i, &next, err);
		lc_program_free(now);
		LK_TRY(status);
		now = next;
	}
	*out = now;
	return LK_OK;
}

lk_status lc_schedule_check(const lc_program *program, const lc_schedule *schedule, lk_error *err) {
	lc_program *out;
	LK_TRY(lc_rewrite_all(program, schedule, &out, err));
	lc_program_free(out);
	return LK_OK;
}
