/* diff.h: internals of a difference: from existing explanations. */
#ifndef LK_ASK_DIFF_H
#define LK_ASK_DIFF_H

#include "lockstep/diff.h"

/* Takes ownership of both, also on errors. */
lk_status lk_diff_make(lk_explanation *before, lk_explanation *after, int top, lk_diff **out,
                       lk_error *err);

/* Two-sided 95 % point of Student's distribution with `freedom` degrees, which need not be whole.
 */
double lk_student_95(double freedom);

#endif
