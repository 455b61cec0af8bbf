/* rewrite.c: the table of directives, and schedules applied one directive after another. */

#include <string.h>

#include "lang/rewrite/rewrite_internal.h"
#include "lang/rewrite/rewrite.h"

static lc_rewriter *const rewriters[LC_DIRECTIVES] = {
	[LC_SPLIT] = lc_rewrite_split,
	[LC_REORDER] = lc_rewrite_reorder,
	[LC_SLICE_STATE] = lc_rewrite_slice,
	[LC_FUSE] = lc_rewrite_fuse,
	[LC_OVERLAP] = lc_rewrite_overlap,
	[LC_BUCKET] = lc_rewrite_bucket,
	[LC_HIERARCHICAL] = lc_rewrite_hierarchical,
	[LC_RECOMPUTE] = lc_rewrite_recompute,
	[LC_RING] = lc_rewrite_attention,
	[LC_ULYSSES] = lc_rewrite_attention,
};

lk_status lc_rewrite(const lc_program *program, const lc_directive *directive, lc_program **out,
                     lk_error *err) {
	*out = NULL;
	if ((unsigned)directive->kind >= LC_DIRECTIVES || !rewriters[directive->kind] ||
	    directive->name_count < 1)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "an unknown directive");
	LK_TRY(rewriters[directive->kind](program, directive, out, err));
	lk_status status = lc_check_sides(*out, directive, err);
	if (status != LK_OK) {
		lc_program_free(*out);
		*out = NULL;
	}
	return status;
}

/* Whether a split, and then a reorder, apply. */
static lk_status applies(const lc_program *program, const lc_directive *split,
                         const lc_directive *reorder, bool *apply, lk_error *err) {
	lc_program *parts = NULL, *moved = NULL;
	lk_error ignored;
	lk_status status = lc_rewrite(program, split, &parts, &ignored);
	if (status == LK_OK) status = lc_rewrite(parts, reorder, &moved, &ignored);
	lc_program_free(parts);
	lc_program_free(moved);
	*apply = status == LK_OK;
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}

/* A split without a dim takes the first one along which its gather can then be moved as the
 * schedule requires; it stays open if there is none. */
static lk_status choose_dim(const lc_program *program, const lc_directive *split,
                            const lc_directive *end, lc_directive *out, lk_error *err) {
	const lc_directive *reorder = split + 1;
	int line = program->file->mistake.line, column = program->file->mistake.column;
	*out = *split;
	if (split->kind != LC_SPLIT || split->dim_given || split->order || split->result_count != 2)
		return LK_OK;
	while (reorder < end && (reorder->kind != LC_REORDER ||
	                         strcmp(reorder->names[0].text, split->results[1].text) != 0))
		reorder++;
	if (reorder == end) return LK_OK;
	lc_directive tried = *split;
	bool found;
	lk_status status = applies(program, &tried, reorder, &found, err);
	tried.dim_given = true;
	for (tried.dim = 0; status == LK_OK && !found && tried.dim < LC_RANK; tried.dim++) {
		status = applies(program, &tried, reorder, &found, err);
		if (status == LK_OK && found) *out = tried;
	}
	program->file->mistake.line = line;
	program->file->mistake.column = column; /* failed attempts are no mistakes of the user */
	return status;
}

lk_status lc_rewrite_next(const lc_program *program, const lc_schedule *schedule, int which,
                          lc_program **out, lk_error *err) {
	lc_directive d;
	LK_TRY(choose_dim(program, &schedule->directives[which], schedule->directives + schedule->count,
	                  &d, err));
	return lc_rewrite(program, &d, out, err);
}

lk_status lc_rewrite_all(const lc_program *program, const lc_schedule *schedule, lc_program **out,
                         lk_error *err) {
	lc_program *now, *next = NULL;
	*out = NULL;
	LK_TRY(lc_build_same(program, &now, err));
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
