/* fit_memory.h: the numbers of lk_memory_model from measurements of one operation on one device. */
#ifndef LK_ACCURACY_FIT_MEMORY_H
#define LK_ACCURACY_FIT_MEMORY_H

#include "cost/kernel/memory_model.h"

/* One measured call. */
typedef struct lk_memory_point {
	double rows, width, seconds;
} lk_memory_point;

enum { LK_MEMORY_POINTS_LEAST = 8 }; /* fewer are not fitted: relatives know more */

/* What is fitted at a time. */
typedef struct lk_memory_group {
	const lk_device *device;
	const lk_memory_kernel *kernel;
	lk_dtype dtype;
	const lk_memory_point *points;
	size_t count;
} lk_memory_group;

/* The model with the least mean error by ratio; numbers that the points do not show stay near the usual ones. */
lk_memory_model lk_memory_fit(const lk_memory_group *group);

/* exp(mean |ln(predicted / measured)|) - 1 over the points. */
double lk_memory_fit_error(const lk_memory_group *group, const lk_memory_model *model);

/* Appends the model as a row of family "memory"; texts stay owned by the caller. */
lk_status lk_memory_fit_row(lk_calibration *into, const lk_memory_group *group, const lk_memory_model *model,
                            const char *source, const char *date, lk_error *err);

/* How many numbers of a model are fitted. */
int lk_memory_fit_numbers(const lk_memory_kernel *kernel);

#endif
