/* misses.h: ranges from how far predictions missed: the same share of the rows of a class lies inside. */
#ifndef LK_ACCURACY_MISSES_H
#define LK_ACCURACY_MISSES_H

#include "cost/calibration.h"

/* A range around a prediction, as ln of its ends over the prediction. */
typedef struct lk_range_ends {
	double low, high;
} lk_range_ends;

/* A prediction of a row by a fit that had not seen its fold. */
typedef struct lk_miss {
	const char *name;     /* class of the row; NULL: no prediction */
	int fold;
	double by;            /* ln(measured / predicted) */
	lk_range_ends range;  /* filled: from the rows of the class in other folds */
} lk_miss;

/* Fills the ranges: the shortest that hold the share `inside` of misses. A class with too few rows in other folds takes all
 * rows of other folds. */
lk_status lk_misses_ranges(lk_arena *arena, lk_miss *misses, size_t count, double inside, lk_error *err);

/* Appends one row per class: family "range", subject `kind`, numbers "low" and "high". Names are owned by the arena of
 * `into`. */
lk_status lk_misses_write(lk_arena *arena, const lk_miss *misses, size_t count, double inside, const char *kind,
                          const char *source, const char *date, lk_calibration *into, lk_error *err);

/* The range of a class in a calibration: `otherwise` to both sides where it has none. */
lk_range_ends lk_misses_range(const lk_calibration *calibration, const char *kind, const char *name, double otherwise);

#endif
