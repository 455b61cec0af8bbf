/* range.h: the 80 % range of a predicted step time. */
#ifndef LK_ASK_RANGE_H
#define LK_ASK_RANGE_H

#include "cost/calibration/calibration.h"
#include "model/layout/job.h"

/* From the cross-validated errors of the job's class of runs (calibration rows of family "range"); wider on an
 * architecture that no run was measured on, or with a stack that none is known of. `basis` (may be NULL) says which, in
 * words that the arena owns; NULL there when memory is out. */
void lk_range_of(lk_arena *arena, const lk_job *job, const lk_device *device, double seconds, double *low, double *high,
                 const char **basis);

/* The calibration row that the range rests on: the narrowest class of runs that has one; NULL none. */
const lk_calibration_row *lk_range_row(lk_arena *arena, const lk_job *job, const lk_device *device);

/* The variant of a class's row: "nemo blackwell experts"; without an architecture (NULL) "nemo experts", without a stack
 * "experts" or "dense". NULL when memory is out. */
char *lk_range_class(lk_arena *arena, const char *stack, const char *arch, bool experts);

#endif
