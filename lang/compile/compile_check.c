/* compile_check.c: invariants of every answer of `compile run` and `compile verify`.
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */
#include <math.h>

#include "base/check.h"
#include "lang/compile/compile.h"

/* Infinite or NaN results come from the program. */
const char *lc_summary_check(const lc_summary *summary, bool field) {
	LK_HOLDS(summary->tensors >= 0 && summary->elements >= 0);
	LK_HOLDS(summary->firsts >= 0 && summary->firsts <= LC_FIRST);
	LK_HOLDS(summary->firsts <= summary->elements);
	LK_HOLDS(!(summary->least > summary->most));
	for (int i = 0; i < summary->firsts && !field; i++)
		LK_HOLDS(!(summary->first[i] < summary->least) && !(summary->first[i] > summary->most));
	if (!isfinite(summary->least) || !isfinite(summary->most)) return NULL;
	double rounding = 1e-9 * fmax(fabs(summary->least), fabs(summary->most));
	LK_HOLDS(!(summary->mean < summary->least - rounding));
	LK_HOLDS(!(summary->mean > summary->most + rounding));
	return NULL;
}

const char *lc_verdict_check(const lc_verdict *verdict) {
	LK_HOLDS(verdict->equal == !*verdict->where);
	LK_HOLDS(verdict->meshes >= 0 && verdict->skipped >= 0);
	LK_HOLDS(verdict->runs >= verdict->meshes);
	LK_HOLDS(verdict->chance >= 0 && verdict->degree >= 0 && verdict->choices >= 0);
	LK_HOLDS(isnan(verdict->worst) || verdict->worst >= 0);
	return NULL;
}
