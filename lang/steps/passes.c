/* passes.c: joins statements over the same elements that share memory into one pass.
 *
 * Without a schedule every statement is a pass of its own, which reads and writes memory that the
 * next one reads again. If a later pass has the same elements, and nothing in between needs the
 * first and feeds the later one, both become one loop, which computes the same, element by element.
 * From the first pass on, each takes in later ones as long as that is legal; passes that a schedule
 * has fused, and overlaps, stay as they are. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite.h"
#include "lang/steps/steps.h"

enum {
	PASS_TENSORS = 16 /* tensors that a joined pass reads or writes: more compete for a core's
	                     cache */
};

struct joiner {
	lc_program *p; /* the present program */
	lc_steps *steps;
	uint8_t *tried; /* [values] of passes that nothing more joins */
	uint8_t *set, *wider;
	lk_arena arena;
};

/* ---- which passes may join ---- */

static bool passes_elementwise(const struct joiner *joiner, const lc_step *step) {
	if (step->kind != LC_STEP_MAP || step->space < 0 ||
	    lc_node_at(joiner->p, step->space)->rank == 0)
		return false;
	for (int i = 0; i < step->values.count; i++) {
		const lc_node *node = lc_node_at(joiner->p, step->values.at[i]);
		lc_family family = lc_ops[node->op].family;
		if (family != LC_MAP && family != LC_DROP && node->op != LC_UPDATE) return false;
		if (node->fuse >= 0 || node->overlap >= 0 || joiner->tried[step->values.at[i]])
			return false;
	}
	return true;
}

/* Whether a rank's parts of a and b are the same. */
static bool passes_alike(const struct joiner *joiner, int a, int b) {
	const lc_node *x = lc_node_at(joiner->p, a), *y = lc_node_at(joiner->p, b);
	if (x->rank != y->rank || x->list != y->list || !lc_same_group(&x->at, &y->at)) return false;
	if (memcmp(x->dim, y->dim, sizeof *x->dim * x->rank) != 0) return false;
	for (int axis = 0; axis < joiner->p->axis_count; axis++)
		if (!lc_same_layout(&x->layout[axis], &y->layout[axis]) &&
		    (x->layout[axis].kind == LC_S || y->layout[axis].kind == LC_S ||
		     x->layout[axis].kind == LC_ROOT || y->layout[axis].kind == LC_ROOT))
			return false;
	return true;
}

/* Tensors in memory that steps of the set touch, up to `count`; returns their number. */
static int passes_touched(const struct joiner *joiner, const lc_step *step, int *homes, int count) {
	const lc_ids *both[] = {&step->reads, &step->writes};
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < both[k]->count; i++) {
			int home = both[k]->at[i], known = 0;
			while (joiner->steps->storage[home] >= 0 && joiner->steps->storage[home] != home)
				home = joiner->steps->storage[home];
			while (known < count && homes[known] != home) known++;
			if (known < count) continue;
			if (count < PASS_TENSORS) homes[count] = home;
			count++;
		}
	return count;
}

/* ---- joining ---- */

static void passes_mark(uint8_t *set, const lc_step *step) {
	for (int i = 0; i < step->values.count; i++) set[step->values.at[i]] = 1;
}

/* Add pass `step` to the set if it shares memory with it and both can be one. */
static lk_status passes_take(struct joiner *joiner, const lc_step *step, int homes[PASS_TENSORS],
                             int *count, bool *taken, lk_error *err) {
	int wider[PASS_TENSORS], own[PASS_TENSORS];
	*taken = false;
	memcpy(wider, homes, sizeof wider);
	int alone = passes_touched(joiner, step, own, 0),
		together = passes_touched(joiner, step, wider, *count);
	if (together > PASS_TENSORS || together == *count + alone) return LK_OK;
	memcpy(joiner->wider, joiner->set, joiner->p->nodes.count);
	passes_mark(joiner->wider, step);
	LK_TRY(lc_rewrite_fuse_set(joiner->p, joiner->wider, taken, NULL, err));
	if (!*taken) return LK_OK;
	memcpy(joiner->set, joiner->wider, joiner->p->nodes.count);
	memcpy(homes, wider, sizeof wider);
	*count = together;
	return LK_OK;
}

/* Make the set of all passes that step `first` takes in; *members: their number. */
static lk_status passes_grow(struct joiner *joiner, int first, int *members, lk_error *err) {
	int homes[PASS_TENSORS], count;
	bool more = true, taken;
	memset(joiner->set, 0, joiner->p->nodes.count);
	passes_mark(joiner->set, &joiner->steps->at[first]);
	count = passes_touched(joiner, &joiner->steps->at[first], homes, 0);
	*members = 1;
	while (more && count <= PASS_TENSORS) { /* one that joins may have separated two others */
		more = false;
		for (int i = first + 1; i < joiner->steps->count; i++) {
			const lc_step *step = &joiner->steps->at[i];
			if (!passes_elementwise(joiner, step) || joiner->set[step->values.at[0]] ||
			    !passes_alike(joiner, joiner->steps->at[first].space, step->space))
				continue;
			LK_TRY(passes_take(joiner, step, homes, &count, &taken, err));
			more |= taken, *members += taken;
		}
	}
	return LK_OK;
}

/* Put the set in place of its passes, unless the program then cannot be made into steps. */
static lk_status passes_put(struct joiner *joiner, lk_error *err) {
	lc_program *joined = NULL;
	lc_steps *steps = NULL;
	lk_error why;
	bool legal;
	int line = joiner->p->file->mistake.line, column = joiner->p->file->mistake.column;
	LK_TRY(lc_rewrite_fuse_set(joiner->p, joiner->set, &legal, &joined, err));
	if (!legal) return LK_OK;
	lk_status status = lc_steps_make(joined, &steps, &why);
	joiner->p->file->mistake.line = line;
	joiner->p->file->mistake.column = column;
	if (status != LK_OK) {
		lc_program_free(joined);
		return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
	}
	lc_steps_free(joiner->steps);
	lc_program_free(joiner->p);
	joiner->p = joined;
	joiner->steps = steps;
	return LK_OK;
}

static lk_status passes_join_all(struct joiner *joiner, lk_error *err) {
	size_t values = joiner->p->nodes.count;
	joiner->tried = LK_ARRAY(&joiner->arena, uint8_t, values);
	joiner->set = LK_ARRAY(&joiner->arena, uint8_t, values);
	joiner->wider = LK_ARRAY(&joiner->arena, uint8_t, values);
	if (!joiner->tried || !joiner->set || !joiner->wider) return lk_oom(err);
	for (int i = 0, members; i < joiner->steps->count; i++) {
		const lc_step *step = &joiner->steps->at[i];
		if (!passes_elementwise(joiner, step)) continue;
		LK_TRY(passes_grow(joiner, i, &members, err));
		passes_mark(joiner->tried, step);
		if (members == 1) continue;
		LK_TRY(passes_put(joiner, err));
		i = -1; /* the steps have changed */
	}
	return LK_OK;
}

lk_status lc_steps_joined(lc_program *program, lc_program **joined, lc_steps **out, lk_error *err) {
	struct joiner j = {.p = program};
	*out = NULL;
	lk_status status = lc_steps_make(program, &j.steps, err);
	if (status == LK_OK) status = passes_join_all(&j, err);
	lk_arena_free(&j.arena);
	*joined = j.p;
	if (status == LK_OK) *out = j.steps;
	else lc_steps_free(j.steps);
	return status;
}
