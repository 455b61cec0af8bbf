/* moves_try.c: one move of a search: tries a schedule, and keeps it if it is legal and new. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

lc_directive *lc_move(const lc_mover *mover, lc_directive_kind kind, const int *words, int count) {
	lk_arena *arena = &mover->p->file->arena;
	lc_directive *directive = LK_NEW(arena, lc_directive);
	if (!directive) return NULL;
	directive->kind = kind;
	directive->name_count = count;
	directive->names = LK_ARRAY(arena, lc_word, (size_t)count);
	for (int i = 0; directive->names && i < count; i++)
		directive->names[i].text = mover->word[words[i]];
	if (kind == LC_OVERLAP) directive->chunk = "";
	return directive->names ? directive : NULL;
}

static bool moves_is_free(const lc_program *program, const char *name) {
	int id;
	for (size_t i = 0; i < program->bundles.count; i++)
		if (program->bundles.at[i].name && strcmp(program->bundles.at[i].name, name) == 0)
			return false;
	return lc_part(program, name, &id, 1) == 0 && lc_value_find(program, name) < 0 &&
	       lc_axis_find(program, name) < 0 && lc_dim_find(program, name) < 0 &&
	       lc_list_find(program, name) < 0;
}

bool lc_move_names(const lc_mover *mover, lc_directive *directive, const char *const *names,
                   int count) {
	lk_arena *arena = &mover->p->file->arena;
	directive->results = LK_ARRAY(arena, lc_word, (size_t)count);
	directive->result_count = count;
	for (int i = 0; directive->results && i < count; i++) {
		const char *name = lk_arena_strdup(arena, names[i]);
		for (int k = 2; name && !moves_is_free(mover->p, name); k++)
			name = lk_arena_printf(arena, "%s%d", names[i], k);
		if (!name) return false;
		directive->results[i].text = name;
	}
	return directive->results != NULL;
}

lk_status lc_move_add(lc_mover *mover, const lc_directive *directive, lk_error *err) {
	if (!lk_push(mover->out)) return lk_oom(err);
	*lk_last(mover->out) = *directive;
	return LK_OK;
}

lk_status lc_move_try(lc_mover *mover, const lc_directive *directive, bool *applies,
                      lk_error *err) {
	lc_program *made = NULL;
	lk_error ignored;
	int line = mover->p->file->mistake.line, column = mover->p->file->mistake.column;
	lk_status status = lc_rewrite(mover->p, directive, &made, &ignored);
	mover->p->file->mistake.line = line;
	mover->p->file->mistake.column = column;
	lc_program_free(status == LK_OK ? made : NULL);
	*applies = status == LK_OK;
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK;
}
