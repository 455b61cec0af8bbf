/* memory_range.h: how far measured memory lies from its prediction, by class of network. */
#ifndef LK_ACCURACY_MEMORY_RANGE_H
#define LK_ACCURACY_MEMORY_RANGE_H

#include "tables/memory_table.h"
#include "step/memory_range.h"

/* A measured row and its prediction, bytes. */
typedef struct lk_memory_residual {
	const char *class, *fold;
	double predicted, measured;
} lk_memory_residual;

/* The band of a class from all rows but those of one fold (NULL: from all). */
lk_status lk_memory_band_fit(const lk_memory_residual *rows, size_t count, const char *class, const char *without,
                             lk_memory_band *out, lk_error *err);

#endif
