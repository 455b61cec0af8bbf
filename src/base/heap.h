/* heap.h: memory that was freed, given back to the system. */
#ifndef LK_BASE_HEAP_H
#define LK_BASE_HEAP_H

/* After a phase that freed much in small blocks: an allocator keeps their pages for blocks to come,
 * beside which the next phase's large ones would count twice. */
void lk_heap_give_back(void);

#endif
