/* lifetimes.c: the steps between which a value's memory is in use. */
#include "base/check.h"
#include "lang/steps/steps.h"

/* The value whose memory a step reads for v. */
static int lifetimes_home(const lc_steps *steps, int v) {
	while (steps->storage[v] >= 0 && steps->storage[v] != v) {
		LK_ASSERT(steps->storage[v] < (int)steps->p->nodes.count);
		v = steps->storage[v];
	}
	return v;
}

lk_status lc_lifetimes(lk_arena *arena, const lc_steps *steps, lc_life **out, lk_error *err) {
	const lc_program *program = steps->p;
	lc_life *life = LK_ARRAY(arena, lc_life, program->nodes.count + 1);
	*out = life;
	if (!life) return lk_oom(err);
	for (size_t v = 0; v < program->nodes.count; v++) life[v] = (lc_life){-1, -1};
	for (int i = 0; i < steps->count; i++) {
		const lc_step *step = &steps->at[i];
		for (int k = 0; k < step->writes.count; k++) {
			int v = step->writes.at[k];
			if (steps->storage[v] == v) life[v] = (lc_life){i, i};
		}
		for (int k = 0; k < step->reads.count; k++) {
			lc_life *read = &life[lifetimes_home(steps, step->reads.at[k])];
			if (read->first >= 0) read->last = i;
		}
	}
	for (size_t v = 0; v < program->nodes.count; v++) {
		if (program->nodes.at[v].op != LC_OUT || steps->storage[v] < 0) continue;
		lc_life *kept = &life[lifetimes_home(steps, (int)v)];
		if (kept->first >= 0) kept->last = steps->count;
	}
	return LK_OK;
}
