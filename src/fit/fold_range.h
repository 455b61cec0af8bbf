/* fold_range.h: ranges of rows from the errors of other rows that were predicted without seeing their own fold. */
#ifndef LK_ACCURACY_FOLD_RANGE_H
#define LK_ACCURACY_FOLD_RANGE_H

#include "base/arena.h"
#include "lockstep/validate.h"

/* Whether two rows are alike: of one class, of one fold. */
typedef bool lk_rows_alike(const void *context, size_t a, size_t b);

/* Gives predicted rows without a range that of measured / predicted of the rows of their class (NULL: all) and other folds;
 * none where fewer than ten are left. Call it for a class, then for a wider one. */
lk_status lk_fold_ranges(lk_arena *arena, lk_validated *rows, size_t count, lk_rows_alike *class, lk_rows_alike *fold,
                         const void *context, lk_error *err);

#endif
