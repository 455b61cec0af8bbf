/* sort.h: the one sort. It is stable, so its result is the same on every machine, with or without
 * memory. A C library's qsort is not: glibc's orders equal elements differently when malloc fails,
 * and between versions. */
#ifndef LK_BASE_SORT_H
#define LK_BASE_SORT_H

#include <stddef.h>

/* Negative, 0 or positive, as for qsort and bsearch. */
typedef int lk_order(const void *a, const void *b);
typedef int lk_order_by(const void *a, const void *b, void *context);

/* Sort `count` elements of `size` bytes; equal ones keep their order. It cannot fail: without
 * memory it is only slower. `base` may be NULL if `count` is 0. */
void lk_sort(void *base, size_t count, size_t size, lk_order *compare);
/* Likewise with a comparison that has a context. */
void lk_sort_by(void *base, size_t count, size_t size, lk_order_by *compare, void *context);
/* Likewise using only the caller's memory, `room` bytes aligned as by malloc; may be 0. */
void lk_sort_within(void *base, size_t count, size_t size, lk_order *compare, void *memory,
                    size_t room);

#endif
