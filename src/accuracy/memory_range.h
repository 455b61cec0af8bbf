/* memory_range.h: how far measured memory lies from its prediction, by class of network. */
#ifndef LK_ACCURACY_MEMORY_RANGE_H
#define LK_ACCURACY_MEMORY_RANGE_H

#include "accuracy/memory_table.h"

/* A measured row and its prediction, bytes. */
typedef struct lk_memory_residual {
	const char *class, *fold;
	double predicted, measured;
} lk_memory_residual;

/* 80 % of measured values lie in [p exp(low / sqrt(p / GiB)), p exp(high / sqrt(p / GiB))]. */
typedef struct lk_memory_band {
	double low, high, error;    /* error: exp(mean |ln(p / m)|) - 1 of the rows behind it */
	int rows;                   /* 0: nothing is known of the class */
} lk_memory_band;

/* The band of a class from all rows but those of one fold (NULL: from all). */
lk_status lk_memory_band_fit(const lk_memory_residual *rows, size_t count, const char *class, const char *without,
                             lk_memory_band *out, lk_error *err);
/* That of the calibration in use. */
lk_memory_band lk_memory_band_known(const char *class);
void lk_memory_band_apply(const lk_memory_band *band, double predicted, double *low, double *high);

#endif
