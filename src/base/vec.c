/* vec.c: growing arrays. The caller's pointer has the type T *, not void *; it is therefore read
 * and written as bytes, which the aliasing rules of C allow. */
#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool lk_vec_reserve_(void **at, size_t *capacity, size_t count, size_t extra, size_t size) {
	if (extra <= *capacity - count) return true;
	if (extra > SIZE_MAX - count) return false;
	size_t need = count + extra, wish = *capacity > SIZE_MAX / 2 ? need : *capacity * 2;
	if (wish < 8) wish = 8;
	if (wish < need) wish = need;
	if (wish > SIZE_MAX / size) return false;
	void *block;
	memcpy(&block, at, sizeof block);
	void *grown = realloc(block, wish * size);
	if (!grown) return false;
	memcpy(at, &grown, sizeof grown);
	*capacity = wish;
	/* cppcheck-suppress memleak ; `at` holds it, copied as bytes */
	return true;
}

void lk_vec_fit_(void **at, size_t *capacity, size_t count, size_t size) {
	if (!count || count == *capacity) return;
	void *block;
	memcpy(&block, at, sizeof block);
	void *fitted = realloc(block, count * size);
	if (!fitted) return;
	memcpy(at, &fitted, sizeof fitted);
	*capacity = count;
	/* cppcheck-suppress memleak ; `at` holds it, copied as bytes */
}

void lk_vec_free_(void **at, size_t *count, size_t *capacity) {
	void *block;
	memcpy(&block, at, sizeof block);
	free(block);
	block = NULL;
	memcpy(at, &block, sizeof block);
	*count = *capacity = 0;
}
