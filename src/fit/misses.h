/* misses.h: widths of ranges from how far predictions missed: the same share of the rows of a class lies inside. */
#ifndef LK_ACCURACY_MISSES_H
#define LK_ACCURACY_MISSES_H

#include "cost/calibration/calibration.h"

/* A prediction of a row by a fit that had not seen its fold. */
typedef struct lk_miss {
	const char *name;   /* class of the row */
	int fold;
	double by;          /* |ln(predicted / measured)|; NAN: not predicted */
	double width;       /* filled: half the range, as ln; from the rows of the class in other folds */
} lk_miss;

/* Fills the widths. A class with too few rows in other folds takes all rows of other folds. */
lk_status lk_misses_widths(lk_arena *arena, lk_miss *misses, size_t count, lk_error *err);
/* The same for another share of the misses than usual. */
lk_status lk_misses_widths_of(lk_arena *arena, lk_miss *misses, size_t count, double share, lk_error *err);

/* Appends one row per class: family "range", subject `kind`, number "half". */
lk_status lk_misses_write(lk_arena *arena, const lk_miss *misses, size_t count, const char *kind, const char *source,
                          const char *date, lk_calibration *into, lk_error *err);

/* The same for another share. */
lk_status lk_misses_write_of(lk_arena *arena, const lk_miss *misses, size_t count, double share, const char *kind,
                             const char *source, const char *date, lk_calibration *into, lk_error *err);

/* The width of a class in a calibration; `otherwise` where it has none. */
double lk_misses_width(const lk_calibration *calibration, const char *kind, const char *name, double otherwise);

#endif
