/* heap.c: glibc returns the pages of small blocks on request; other libraries have no such call. */
#include "base/heap.h"

#include <stdlib.h> /* defines __GLIBC__ */
#ifdef __GLIBC__
#include <malloc.h>
#endif

void lk_heap_give_back(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
