/* test_sort.c: the one sort: in order, stable, and of one result however much memory it has. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/sort.h"
#include "base/stats.h"
#include "rounds.h"

enum {
	MOST = 3000,   /* elements */
	LARGEST = 5000 /* bytes of one */
};

/* An element begins with its key and its place before; what follows are bytes made from both. */
struct start {
	uint16_t key, place;
};

static int by_key(const void *a, const void *b) {
	const struct start *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

static int by_key_downwards(const void *a, const void *b, void *context) {
	*(size_t *)context += 1;
	return by_key(b, a);
}

static unsigned char filling(struct start start, size_t at) {
	return (unsigned char)lk_hash64((uint64_t)start.key << 32 | (uint64_t)start.place << 16 | at);
}

/* What the keys are: one of these kinds, or else random ones of so many. */
enum { SORTED, REVERSED, EQUAL, SAW, KINDS = 12 };

static uint16_t key_of(uint64_t seed, int kind, size_t i, size_t count) {
	if (kind == SORTED) return (uint16_t)(i / 3);
	if (kind == REVERSED) return (uint16_t)((count - i) / 3);
	if (kind == EQUAL) return 7;
	if (kind == SAW) return (uint16_t)(i % 37);
	return (uint16_t)(lk_hash64(seed + i) % (kind % 2 ? 5 : 1000));
}

static void fill(char *at, size_t count, size_t size, uint64_t seed, int kind) {
	for (size_t i = 0; i < count; i++, at += size) {
		struct start start = {key_of(seed, kind, i, count), (uint16_t)i};
		memcpy(at, &start, sizeof start);
		for (size_t k = sizeof start; k < size; k++) at[k] = (char)filling(start, k);
	}
}

static void check_sorted(const char *at, size_t count, size_t size, bool downwards) {
	static bool seen[MOST];
	memset(seen, 0, sizeof seen);
	struct start before = {0}, now;
	for (size_t i = 0; i < count; i++, at += size, before = now) {
		memcpy(&now, at, sizeof now);
		assert_true(now.place < count && !seen[now.place]);
		seen[now.place] = true;
		for (size_t k = sizeof now; k < size; k++)
			assert_int_equal((unsigned char)at[k], filling(now, k));
		if (i == 0) continue;
		assert_true(downwards ? before.key >= now.key : before.key <= now.key);
		if (before.key == now.key) assert_true(before.place < now.place);
	}
}

/* Every element is there once, in order, equal ones as before; and the same with any memory. */
static void test_property(void **state) {
	(void)state;
	static const size_t sizes[] = {4,  8,  12, 16, 20, 24,  28,  32,
	                               36, 40, 48, 56, 64, 100, 400, LARGEST};
	for (int n = 0; n < rounds(400, 20000); n++) {
		uint64_t seed = lk_hash64((uint64_t)n);
		size_t size = sizes[seed % (sizeof sizes / sizeof *sizes)];
		size_t most = size > 100 ? 200 : n % 4 ? 200 : MOST, count = (seed >> 8) % (most + 1);
		int kind = (int)((seed >> 32) % KINDS);
		char *first = malloc(count * size + 1), *again = malloc(count * size + 1);
		assert_true(first && again);
		fill(first, count, size, seed, kind);
		lk_sort(first, count, size, by_key);
		check_sorted(first, count, size, false);
		size_t rooms[] = {0, 1, size, 3 * size, 10 * size, count / 4 * size, count / 2 * size};
		for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
			char *memory = malloc(rooms[i] + 1);
			assert_non_null(memory);
			fill(again, count, size, seed, kind);
			lk_sort_within(again, count, size, by_key, memory, rooms[i]);
			assert_memory_equal(again, first, count * size);
			free(memory);
		}
		size_t calls = 0;
		fill(again, count, size, seed, kind);
		lk_sort_by(again, count, size, by_key_downwards, &calls);
		check_sorted(again, count, size, true);
		free(first);
		free(again);
	}
}

static int count_calls(const void *a, const void *b, void *context) {
	assert_ptr_not_equal(a, b);
	++*(size_t *)context;
	return *(const int *)a - *(const int *)b;
}

/* What is sorted already takes a comparison an element, and less than one a run more; anything at
 * most n log2 n. */
static void test_comparisons(void **state) {
	(void)state;
	enum { COUNT = 1 << 16 };
	int *numbers = malloc(COUNT * sizeof *numbers);
	assert_non_null(numbers);
	size_t calls = 0;
	for (int i = 0; i < COUNT; i++) numbers[i] = i;
	lk_sort_by(numbers, COUNT, sizeof *numbers, count_calls, &calls);
	assert_true(calls < COUNT);
	calls = 0;
	for (int i = 0; i < COUNT; i++) numbers[i] = (int)(lk_hash64((uint64_t)i) % COUNT);
	lk_sort_by(numbers, COUNT, sizeof *numbers, count_calls, &calls);
	assert_true(calls < 16 * COUNT + COUNT);
	free(numbers);
}

static void test_nothing(void **state) {
	(void)state;
	double one[] = {3};
	lk_sort(NULL, 0, sizeof *one, lk_ascending);
	lk_sort(one, 1, sizeof *one, lk_ascending);
	assert_true(one[0] == 3);
}

/* Bytes in five fields: memcmp is the order by all of them, from the first to the last. */
struct keys {
	unsigned char a, b, c, d, e;
};

LK_ORDER_BY(by_one, struct keys, a)
LK_ORDER_BY(by_three, struct keys, a, b, c)
LK_ORDER_BY(by_five, struct keys, a, b, c, d, e)

static void check_order(lk_order *order, size_t keys, const struct keys *x, const struct keys *y) {
	int expected = memcmp(x, y, keys), found = order(x, y);
	assert_int_equal((found > 0) - (found < 0), (expected > 0) - (expected < 0));
}

static void test_orders(void **state) {
	(void)state;
	for (int i = 0; i < rounds(10000, 1000000); i++) {
		uint64_t drawn = lk_hash64((uint64_t)i);
		struct keys x = {drawn & 1, drawn >> 1 & 1, drawn >> 2 & 1, drawn >> 3 & 1, drawn >> 4 & 1};
		drawn >>= 8;
		struct keys y = {drawn & 1, drawn >> 1 & 1, drawn >> 2 & 1, drawn >> 3 & 1, drawn >> 4 & 1};
		check_order(by_one, 1, &x, &y);
		check_order(by_three, 3, &x, &y);
		check_order(by_five, 5, &x, &y);
	}
	const int64_t rising[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			assert_int_equal(lk_by_i64(&rising[i], &rising[j]), (i > j) - (i < j));
	const uint64_t least = 0, most = UINT64_MAX;
	assert_int_equal(lk_by_u64(&least, &most), -1);
	const char *one = "b", *other = "a";
	assert_true(lk_by_text(&one, &other) > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_property),
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_orders),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
