/* sort.h: the one sort. It is stable, so its result is the same on every machine, with or without
 * memory. A C library's qsort is not: glibc's orders equal elements differently when malloc fails,
 * and between versions. */
#ifndef LK_BASE_SORT_H
#define LK_BASE_SORT_H

#include <stddef.h>
#include <string.h>

/* Negative, 0 or positive, as for qsort and bsearch. */
typedef int lk_order(const void *a, const void *b);
typedef int lk_order_by(const void *a, const void *b, void *context);

/* Rising orders of an array's elements; lk_ascending (base/stats.h) is the one of doubles. */
lk_order lk_by_int, lk_by_u32, lk_by_i64, lk_by_u64;
lk_order lk_by_text; /* elements are const char * */

/* Defines a static lk_order of elements of a type, rising by up to five numbers in them: by the
 * second among those with an equal first, and so on.
 *
 *     LK_ORDER_BY(calls_by_start, struct call, start_ns, thread) */
#define LK_ORDER_BY(name, type, ...)                                                    \
	static int name(const void *a, const void *b) {                                     \
		const type *x = a, *y = b;                                                      \
		LK_ORDER_PICK_(__VA_ARGS__, LK_ORDER_5_, LK_ORDER_4_, LK_ORDER_3_, LK_ORDER_2_, \
		               LK_ORDER_1_, )                                                   \
		(__VA_ARGS__)                                                                   \
	}
#define LK_ORDER_PICK_(a, b, c, d, e, pick, ...) pick
#define LK_ORDER_DIFFER_(key) \
	if (x->key != y->key) return x->key < y->key ? -1 : 1;
#define LK_ORDER_1_(key)      return (x->key > y->key) - (x->key < y->key);
#define LK_ORDER_2_(key, ...) LK_ORDER_DIFFER_(key) LK_ORDER_1_(__VA_ARGS__)
#define LK_ORDER_3_(key, ...) LK_ORDER_DIFFER_(key) LK_ORDER_2_(__VA_ARGS__)
#define LK_ORDER_4_(key, ...) LK_ORDER_DIFFER_(key) LK_ORDER_3_(__VA_ARGS__)
#define LK_ORDER_5_(key, ...) LK_ORDER_DIFFER_(key) LK_ORDER_4_(__VA_ARGS__)

/* Defines a static lk_order by a text in the elements. */
#define LK_ORDER_BY_TEXT(name, type, key)           \
	static int name(const void *a, const void *b) { \
		const type *x = a, *y = b;                  \
		return strcmp(x->key, y->key);              \
	}

/* Sort `count` elements of `size` bytes; equal ones keep their order. It cannot fail: without
 * memory it is only slower. `base` may be NULL if `count` is 0. */
void lk_sort(void *base, size_t count, size_t size, lk_order *compare);
/* Likewise with a comparison that has a context. */
void lk_sort_by(void *base, size_t count, size_t size, lk_order_by *compare, void *context);
/* Likewise using only the caller's memory, `room` bytes aligned as by malloc; may be 0. */
void lk_sort_within(void *base, size_t count, size_t size, lk_order *compare, void *memory,
                    size_t room);

#endif
