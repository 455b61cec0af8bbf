/* slowdown.h: tables of kernels measured beside communication and alone, and the fit of the overlap model to them. */
#ifndef LK_ACCURACY_SLOWDOWN_H
#define LK_ACCURACY_SLOWDOWN_H

#include "io/stream.h"
#include "base/vec.h"
#include "cost/kernel/overlap.h"

typedef struct lk_slowdown_row {
	const char *id, *name, *where;
	lk_overlap_kernel kernel;
	double measured_s;          /* in the run with communication */
} lk_slowdown_row;

typedef LK_VEC(lk_slowdown_row) lk_slowdown_table;

/* Reads a table; texts are of the arena. */
lk_status lk_slowdown_read(lk_arena *arena, lk_stream *in, lk_slowdown_table *out, lk_error *err);

/* Fits the model to the rows with use[i] set (NULL: all). False when memory is out. */
bool lk_slowdown_fit(lk_arena *arena, const lk_slowdown_table *table, const bool *use, bool kinds, lk_overlap *out);
/* Fills how far predictions of each kind miss: miss[i] is |ln(predicted / measured)| of row i by a fit that had not seen
 * it, NAN for rows that do not count. False when memory is out. */
bool lk_slowdown_spreads(lk_arena *arena, const lk_slowdown_table *table, const bool *use, const double *miss,
                         lk_overlap *model);
/* The median over time of slower = (measured / alone - 1) / ratio / strength of the rows with strength[i] above 0. */
double lk_slowdown_median(lk_arena *arena, const lk_slowdown_table *table, const double *strength);

#endif
