/* heap.c: glibc says when pages return to the system; other libraries have no such calls. */
#include "base/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

void lk_heap_give_back(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void lk_heap_keep(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_MAX, 0); /* a mapped block would return as soon as it is freed */
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}
