/* heap.c: glibc gives the pages of small blocks back when it is told to; other libraries have no
 * call for it. */
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
