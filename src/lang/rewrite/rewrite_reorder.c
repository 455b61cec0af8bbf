/* rewrite_reorder.c: reorder ag past {m,w}: the gathers that ag stands for move behind these statements. */
#include "lang/rewrite/rewrite_internal.h"

/* Also the name by which later directives know them. */
static lk_status find_gathers(const lc_program *p, const lc_word *w, uint8_t *set, const char **name, lk_error *err) {
	LK_TRY(lc_mark(p, w, set, err));
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		set[i] &= n->op == LC_ALLGATHER || n->op == LC_BROADCAST;
		if (set[i]) *name = n->part_of ? n->part_of : w->text;
	}
	if (*name) return LK_OK;
	lc_word_wrong(p, w, err, "%s is no gather that could be moved", w->text);
	return lk_hint(err, "split the allreduce first: split %s -> (rs,ag)", w->text);
}

static lk_status reorder(const lc_program *p, const lc_directive *d, lk_arena *arena, lc_program **out, lk_error *err) {
	uint8_t *gathers = lc_new_set(p, arena), *past = lc_new_set(p, arena);
	const char *name = NULL;
	if (!gathers || !past) return lk_oom(err);
	LK_TRY(find_gathers(p, &d->names[0], gathers, &name, err));
	for (int i = 1; i < d->name_count; i++) LK_TRY(lc_mark(p, &d->names[i], past, err));
	for (size_t i = 0; i < p->nodes.count; i++) past[i] &= !gathers[i];
	lc_passage passage = {.gathers = gathers, .past = past, .name = name, .words = d->names + 1,
	                      .word_count = d->name_count - 1, .line = d->line, .column = d->column};
	return lc_move_gathers(p, &passage, out, err);
}

lk_status lc_rewrite_reorder(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = reorder(p, d, &arena, out, err);
	lk_arena_free(&arena);
	return status;
}
