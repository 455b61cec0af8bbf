/* rewrite_reorder.c: reorder ag past {m,w}: the gathers named ag move after these statements. */
#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

/* Find the gathers, and the name by which later directives know them. */
static lk_status find_gathers(const lc_program *program, const lc_word *word, uint8_t *set,
                              const char **name, lk_error *err) {
	LK_TRY(lc_mark(program, word, set, err));
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		set[i] &= node->op == LC_ALLGATHER || node->op == LC_BROADCAST;
		if (set[i]) *name = node->part_of ? node->part_of : word->text;
	}
	if (*name) return LK_OK;
	lc_word_wrong(program, word, err, "%s is not a gather, and reorder moves gathers", word->text);
	return lk_hint(err, "split the allreduce first: split %s -> (rs,ag)", word->text);
}

static lk_status reorder(const lc_program *program, const lc_directive *directive, lk_arena *arena,
                         lc_program **out, lk_error *err) {
	uint8_t *gathers = lc_new_set(program, arena), *past = lc_new_set(program, arena);
	const char *name = NULL;
	if (!gathers || !past) return lk_oom(err);
	LK_TRY(find_gathers(program, &directive->names[0], gathers, &name, err));
	for (int i = 1; i < directive->name_count; i++)
		LK_TRY(lc_mark(program, &directive->names[i], past, err));
	for (size_t i = 0; i < program->nodes.count; i++) past[i] &= !gathers[i];
	lc_passage passage = {.gathers = gathers,
	                      .past = past,
	                      .name = name,
	                      .words = directive->names + 1,
	                      .word_count = directive->name_count - 1,
	                      .line = directive->line,
	                      .column = directive->column};
	return lc_move_gathers(program, &passage, out, err);
}

lk_status lc_rewrite_reorder(const lc_program *program, const lc_directive *directive,
                             lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = reorder(program, directive, &arena, out, err);
	lk_arena_free(&arena);
	return status;
}
