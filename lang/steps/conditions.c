/* conditions.c: what is needed only where a condition holds.
 *
 * `if c { w <- e }` is w <- select(c, e, w). A value that only such selects read, in the same
 * place and by the same condition, need not be computed where it does not hold, collectives
 * included: all ranks agree about a condition that is made of scalars and sizes. */
#include "base/arena.h"
#include "lang/steps/steps_internal.h"

enum { NOT_READ = -2, ALWAYS = -1 };

/* Whether every rank can tell a value without memory: arithmetic on scalars, sizes and numbers. */
static bool *known_beforehand(lk_arena *arena, const lc_program *program) {
	bool *known = LK_ARRAY(arena, bool, program->nodes.count + 1);
	for (int v = 0; known && v < (int)program->nodes.count; v++) {
		const lc_node *node = lc_node_at(program, v);
		known[v] = node->op == LC_SCALAR || node->op == LC_CONST ||
		           (node->op == LC_SIZE && node->list < 0) ||
		           (lc_ops[node->op].family == LC_MAP && node->rank == 0 && node->list < 0);
		for (int k = 0; k < node->inputs; k++) known[v] &= known[node->in[k]];
	}
	return known;
}

static lk_status conditions_find(lk_arena *arena, const lc_program *program, int **out,
                                 lk_error *err) {
	bool *known = known_beforehand(arena, program);
	int *only_if = *out = LK_ARRAY(arena, int, program->nodes.count + 1);
	if (!known || !only_if) return lk_oom(err);
	for (size_t v = 0; v < program->nodes.count; v++) only_if[v] = NOT_READ;
	for (int u = (int)program->nodes.count; u-- > 0;) {
		const lc_node *user = lc_node_at(program, u);
		if (only_if[u] == NOT_READ) only_if[u] = ALWAYS;
		for (int k = 0; k < user->inputs; k++) {
			int *of = &only_if[user->in[k]], need = only_if[u];
			if (lc_ops[user->op].family == LC_EFFECT) need = ALWAYS;
			else if (user->op == LC_SELECT && k == 1 && known[user->in[0]]) need = user->in[0];
			*of = *of == NOT_READ || *of == need ? need : ALWAYS;
		}
	}
	return LK_OK;
}

lk_status lc_steps_conditions(lc_steps *steps, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	int *only_if;
	lk_status status = conditions_find(&scratch, steps->p, &only_if, err);
	for (int i = 0; i < steps->count && status == LK_OK; i++) {
		lc_step *step = &steps->at[i];
		step->only_if = step->values.count ? only_if[step->values.at[0]] : ALWAYS;
		for (int k = 1; k < step->values.count; k++)
			if (only_if[step->values.at[k]] != step->only_if) step->only_if = ALWAYS;
	}
	lk_arena_free(&scratch);
	return status;
}
