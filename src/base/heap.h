/* heap.h: when freed memory returns to the system. */
#ifndef LK_BASE_HEAP_H
#define LK_BASE_HEAP_H

/* Call after a phase that freed much memory in small blocks: an allocator keeps their pages for
 * later small blocks, in addition to which the next phase's large ones would need new memory. */
void lk_heap_give_back(void);

/* From now on keep freed memory, up to 256 MiB of it: for a search, which needs the same many
 * megabytes again for each step that it simulates. New pages cost more than what is written in
 * them. */
void lk_heap_keep(void);

#endif
