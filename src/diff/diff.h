/* diff.h: internals of a difference: from existing explanations. */
#ifndef LK_ASK_DIFF_H
#define LK_ASK_DIFF_H

#include "lockstep/diff.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* Takes ownership of both, also on errors. */
lk_status lk_diff_make(lk_explanation *before, lk_explanation *after, int top, lk_diff **out,
                       lk_error *err);

/* Pair the operations of two explanations that have them, the largest change first; the rows are in
 * the arena, their texts belong to the explanations. `before_s`, NULL or one of each
 * operation of `after`: its part of the durations that its pair has in `before`, by its own. */
lk_status lk_diff_pair(lk_arena *arena, const lk_explanation *before, const lk_explanation *after,
                       const lk_diff_operation **out, int *count, double *before_s, lk_error *err);
/* Analysed ranks times steps. */
double lk_diff_rank_steps(const lk_explanation *explanation);
/* The mean per rank and step, in seconds, of a time of lk_rank_time. */
double lk_diff_mean_of(const lk_explanation *explanation, size_t time);

/* Two-sided 95 % point of Student's distribution with `freedom` degrees, which need not be whole.
 */
double lk_student_95(double freedom);

#endif
