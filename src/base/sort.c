/* sort.c: merge sort. Runs of a few elements are sorted by insertion and merged as soon as two have
 * the same length, while they are still in the caches. Two runs already in order cost one
 * comparison: sorted input takes linear time.
 *
 * A merge copies its shorter side into memory, at most half of the array, and traverses both with
 * one comparison per element. With less memory it is divided until the parts fit: SymMerge of P.
 * Kim and A. Kutzner, "Stable minimum storage merging by symmetric comparisons" (ESA 2004, LNCS
 * 3221), with O(n log n) comparisons in all but O(n log^2 n) moves. */
#include "base/sort.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
	RUN = 8,           /* elements sorted by insertion */
	STACK_BYTES = 2048 /* if this suffices, no heap memory is needed */
};

struct sorter {
	lk_order *order; /* NULL: order_by with context */
	lk_order_by *order_by;
	void *context;
	char *memory;
	size_t room; /* bytes of memory */
};

static inline int sort_compare(const struct sorter *sorter, const void *a, const void *b) {
	return sorter->order ? sorter->order(a, b) : sorter->order_by(a, b, sorter->context);
}

/* ---- without enough memory ---- */

static void sort_swap_bytes(char *a, char *b, size_t bytes) {
	char held[256];
	for (size_t part; bytes > 0; a += part, b += part, bytes -= part) {
		part = bytes < sizeof held ? bytes : sizeof held;
		memcpy(held, a, part);
		memcpy(a, b, part);
		memcpy(b, held, part);
	}
}

/* Exchange the first `left` bytes with the `right` ones after them. */
static void sort_rotate(const struct sorter *sorter, char *at, size_t left, size_t right) {
	while (left > 0 && right > 0) {
		if (left <= right && left <= sorter->room) {
			memcpy(sorter->memory, at, left);
			memmove(at, at + left, right);
			memcpy(at + right, sorter->memory, left);
			return;
		}
		if (right <= sorter->room) {
			memcpy(sorter->memory, at + left, right);
			memmove(at + right, at, left);
			memcpy(at, sorter->memory, right);
			return;
		}
		/* The shorter side is swapped into its final place; the rest remains. */
		if (left <= right) {
			sort_swap_bytes(at, at + left, left);
			at += left;
			right -= left;
		} else {
			sort_swap_bytes(at + left - right, at + left, right);
			left -= right;
		}
	}
}

/* ---- for every size of elements ---- */

#define SORT_INLINE static inline __attribute__((always_inline))

/* The left side is copied; the remainder of the right one is already in place. */
SORT_INLINE void sort_merge_forward(const struct sorter *sorter, char *at, size_t left,
                                    size_t right, size_t size) {
	const char *a = sorter->memory, *a_end = a + left * size;
	const char *b = at + left * size, *b_end = b + right * size;
	memcpy(sorter->memory, at, left * size);
	for (; a < a_end && b < b_end; at += size) {
		/* avoid an unpredictable branch */
		size_t from_b = sort_compare(sorter, a, b) > 0 ? size : 0;
		memcpy(at, from_b ? b : a, size);
		b += from_b;
		a += size - from_b;
	}
	memcpy(at, a, (size_t)(a_end - a));
}

/* The right side is copied, and the largest come first. */
SORT_INLINE void sort_merge_backward(const struct sorter *sorter, char *at, size_t left,
                                     size_t right, size_t size) {
	const char *a = at + left * size, *b = sorter->memory + right * size;
	char *to = at + (left + right) * size;
	memcpy(sorter->memory, at + left * size, right * size);
	while (a > at && b > sorter->memory) {
		size_t from_a = sort_compare(sorter, a - size, b - size) > 0 ? size : 0;
		to -= size;
		memcpy(to, from_a ? a - size : b - size, size);
		a -= from_a;
		b -= size - from_a;
	}
	memcpy(at + (a - at), sorter->memory, (size_t)(b - sorter->memory));
}

static void sort_merge_divided(const struct sorter *sorter, char *at, size_t left, size_t right,
                               size_t size);

SORT_INLINE void sort_merge(const struct sorter *sorter, char *at, size_t left, size_t right,
                            size_t size) {
	char *middle = at + left * size;
	if (sort_compare(sorter, middle - size, middle) <= 0) return;
	if (left <= right && left * size <= sorter->room)
		sort_merge_forward(sorter, at, left, right, size);
	else if (right * size <= sorter->room) sort_merge_backward(sorter, at, left, right, size);
	else sort_merge_divided(sorter, at, left, right, size);
}

/* Exchange the end of the left side with the matching begin of the right one, giving two
 * independent merges: everything in the first precedes everything in the second. */
static void sort_merge_divided(const struct sorter *sorter, char *at, size_t left, size_t right,
                               size_t size) {
	size_t count = left + right, middle = count / 2, both = middle + left;
	size_t low = left > middle ? both - count : 0, high = left > middle ? middle : left;
	while (low < high) {
		size_t i = low + (high - low) / 2;
		if (sort_compare(sorter, at + i * size, at + (both - 1 - i) * size) <= 0) low = i + 1;
		else high = i;
	}
	size_t end = both - low;
	LK_ASSERT(low <= left && left <= end && end <= count);
	sort_rotate(sorter, at + low * size, (left - low) * size, (end - left) * size);
	if (low > 0 && low < middle) sort_merge(sorter, at, low, middle - low, size);
	if (end > middle && end < count)
		sort_merge(sorter, at + middle * size, end - middle, count - end, size);
}

SORT_INLINE void sort_insert(const struct sorter *sorter, char *at, size_t count, size_t size) {
	for (size_t i = 1; i < count; i++) {
		char *own = at + i * size, *place = own;
		while (place > at && sort_compare(sorter, place - size, own) > 0) place -= size;
		if (place < own) sort_rotate(sorter, place, (size_t)(own - place), size);
	}
}

/* Merge a sorted run with those before it like a binary carry: the bits of the number of runs
 * represent the sorted lengths; at the end merge all. */
SORT_INLINE void sort_runs(const struct sorter *sorter, char *at, size_t count, size_t size) {
	for (size_t end = 0, runs = 0; end < count; runs++) {
		size_t last = count - end < RUN ? count - end : RUN, before = runs;
		sort_insert(sorter, at + end * size, last, size);
		end += last;
		for (size_t width = 1; before > 0 && ((before & width) || end == count); width *= 2) {
			if (!(before & width)) continue;
			size_t left = width * RUN;
			sort_merge(sorter, at + (end - last - left) * size, left, last, size);
			last += left;
			before -= width;
		}
	}
}

/* Frequent sizes have specialised code, in which an element moves in a few instructions. */
static void sort_elements(const struct sorter *sorter, void *base, size_t count, size_t size) {
	switch (size) {
	case 4: sort_runs(sorter, base, count, 4); break;
	case 8: sort_runs(sorter, base, count, 8); break;
	case 12: sort_runs(sorter, base, count, 12); break;
	case 16: sort_runs(sorter, base, count, 16); break;
	case 20: sort_runs(sorter, base, count, 20); break;
	case 24: sort_runs(sorter, base, count, 24); break;
	case 32: sort_runs(sorter, base, count, 32); break;
	case 40: sort_runs(sorter, base, count, 40); break;
	case 48: sort_runs(sorter, base, count, 48); break;
	case 56: sort_runs(sorter, base, count, 56); break;
	case 64: sort_runs(sorter, base, count, 64); break;
	default: sort_runs(sorter, base, count, size);
	}
}

static void sort_with_memory(struct sorter *sorter, void *base, size_t count, size_t size) {
	_Alignas(max_align_t) char stack[STACK_BYTES];
	size_t wanted = count / 2 * size;
	char *heap = wanted > sizeof stack ? malloc(wanted) : NULL;
	sorter->memory = heap ? heap : stack;
	sorter->room = heap ? wanted : sizeof stack;
	sort_elements(sorter, base, count, size);
	free(heap);
}

void lk_sort(void *base, size_t count, size_t size, lk_order *compare) {
	sort_with_memory(&(struct sorter){.order = compare}, base, count, size);
}

void lk_sort_by(void *base, size_t count, size_t size, lk_order_by *compare, void *context) {
	sort_with_memory(&(struct sorter){.order_by = compare, .context = context}, base, count, size);
}

void lk_sort_within(void *base, size_t count, size_t size, lk_order *compare, void *memory,
                    size_t room) {
	struct sorter sorter = {.order = compare, .memory = memory, .room = room};
	sort_elements(&sorter, base, count, size);
}

int lk_by_int(const void *a, const void *b) {
	int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

int lk_by_u32(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

int lk_by_i64(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

int lk_by_u64(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int lk_by_text(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}
