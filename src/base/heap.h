/* heap.h: return freed memory to the system. */
#ifndef LK_BASE_HEAP_H
#define LK_BASE_HEAP_H

/* Call after a phase that freed much memory in small blocks: an allocator keeps their pages for
 * later small blocks, in addition to which the next phase's large ones would need new memory. */
void lk_heap_give_back(void);

#endif
