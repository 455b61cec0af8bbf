/* sort.h: the one sort. It is stable, so that its result is one on every machine, with memory and
 * without. The qsort of a C library is not: glibc's puts elements that are equal in another order
 * where malloc fails, and from version to version. */
#ifndef LK_BASE_SORT_H
#define LK_BASE_SORT_H

#include <stddef.h>

/* Negative, 0 or positive, as for qsort and bsearch. */
typedef int lk_order(const void *a, const void *b);
typedef int lk_order_by(const void *a, const void *b, void *context);

/* Sorts `count` elements of `size` bytes; those that are equal stay in their order. It cannot fail:
 * where memory runs out it gives the same, more slowly. `base` may be NULL where `count` is 0. */
void lk_sort(void *base, size_t count, size_t size, lk_order *compare);
/* The same with a comparison that looks at something else. */
void lk_sort_by(void *base, size_t count, size_t size, lk_order_by *compare, void *context);
/* The same with memory of the caller's, `room` bytes aligned as malloc's, and no other; may be 0.
 */
void lk_sort_within(void *base, size_t count, size_t size, lk_order *compare, void *memory,
                    size_t room);

#endif
