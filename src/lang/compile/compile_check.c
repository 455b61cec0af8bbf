/* compile_check.c: what holds for every answer of `compile run` and `compile verify`.
 *
 * Nothing is printed that contradicts itself: whatever made it is a defect of lockstep. */
#include <math.h>

#include "base/check.h"
#include "lang/compile/compile.h"

/* Results that are infinite or no number are the program's. */
lk_status lc_summary_check(const lc_summary *summary, bool field, lk_error *err) {
	LK_CHECK(summary->tensors >= 0 && summary->elements >= 0, err);
	LK_CHECK(summary->firsts >= 0 && summary->firsts <= LC_FIRST, err);
	LK_CHECK(summary->firsts <= summary->elements, err);
	LK_CHECK(!(summary->least > summary->most), err);
	for (int i = 0; i < summary->firsts && !field; i++)
		LK_CHECK(!(summary->first[i] < summary->least) && !(summary->first[i] > summary->most),
		         err);
	if (!isfinite(summary->least) || !isfinite(summary->most)) return LK_OK;
	double rounding = 1e-9 * fmax(fabs(summary->least), fabs(summary->most));
	LK_CHECK(!(summary->mean < summary->least - rounding), err);
	LK_CHECK(!(summary->mean > summary->most + rounding), err);
	return LK_OK;
}

lk_status lc_verdict_check(const lc_verdict *verdict, lk_error *err) {
	LK_CHECK(verdict->equal == !*verdict->where, err);
	LK_CHECK(verdict->meshes >= 0 && verdict->skipped >= 0, err);
	LK_CHECK(verdict->runs >= verdict->meshes, err);
	LK_CHECK(verdict->chance >= 0 && verdict->degree >= 0 && verdict->choices >= 0, err);
	LK_CHECK(isnan(verdict->worst) || verdict->worst >= 0, err);
	return LK_OK;
}
