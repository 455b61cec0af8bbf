/* diff.h: the inside of a difference: from explanations that exist already. */
#ifndef LK_ASK_DIFF_H
#define LK_ASK_DIFF_H

#include "lockstep/diff.h"

/* They belong to the difference from then on, also on errors. */
lk_status lk_diff_make(lk_explanation *before, lk_explanation *after, int top, lk_diff **out,
                       lk_error *err);

/* Two-sided 95 % point of Student's distribution with `freedom` degrees, which need not be whole.
 */
double lk_student_95(double freedom);

#endif
