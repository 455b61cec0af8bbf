/* intervals.h: sets of times as sorted, disjoint half-open intervals, and their algebra. */
#ifndef LK_BASE_INTERVALS_H
#define LK_BASE_INTERVALS_H

#include <stdint.h>
#include "base/vec.h"

typedef struct lk_interval {
	int64_t start, end;
} lk_interval;

typedef LK_VEC(lk_interval) lk_intervals;

static inline int64_t lk_later(int64_t a, int64_t b) {
	return a > b ? a : b;
}
static inline int64_t lk_sooner(int64_t a, int64_t b) {
	return a < b ? a : b;
}

/* Append [start, end); empty ones are dropped. False when memory runs out. Order does not matter
 * until lk_intervals_sort. */
bool lk_intervals_add(lk_intervals *set, int64_t start, int64_t end);
/* Sort and join touching or overlapping intervals. Required before any other operation. */
void lk_intervals_sort(lk_intervals *set);
int64_t lk_intervals_length(const lk_intervals *set);
/* out = a and b; out = a without b. `out` is cleared first and must be neither. False when memory
 * runs out. */
bool lk_intervals_and(const lk_intervals *a, const lk_intervals *b, lk_intervals *out);
bool lk_intervals_minus(const lk_intervals *a, const lk_intervals *b, lk_intervals *out);

#endif
