/* arena.h: memory by phase. An arena owns everything that one phase (a graph, a parsed file, a
 * result) allocates; it is freed as a whole. Blocks are zeroed. Not thread-safe: one arena, one
 * thread. */
#ifndef LK_BASE_ARENA_H
#define LK_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include "lockstep/error.h"

typedef struct lk_arena {
	struct lk_arena_chunk *chunks; /* newest first */
	size_t used;                   /* bytes allocated, for reports and tests */
} lk_arena;

#define LK_ARENA_INIT \
	{ 0 }

/* Allocate `size` zeroed bytes aligned to 16; NULL when memory runs out. `size` 0 gives a valid
 * pointer. */
void *lk_arena_alloc(lk_arena *arena, size_t size);

/* Allocate count * size bytes; NULL on overflow or when memory runs out. */
void *lk_arena_array(lk_arena *arena, size_t count, size_t size);

/* Copies of text; NULL when memory runs out. */
char *lk_arena_strdup(lk_arena *arena, const char *text);
char *lk_arena_strndup(lk_arena *arena, const char *text, size_t length);
char *lk_arena_printf(lk_arena *arena, const char *fmt, ...) LK_PRINTF(2, 3);

/* Free everything; the arena may be used again. Accepts an arena that was never used. */
void lk_arena_free(lk_arena *arena);

/* Frees an object from malloc that begins with the arena of all it holds; accepts NULL. */
void lk_arena_free_owner(void *owner);

#define LK_NEW(arena, type)          ((type *)lk_arena_alloc((arena), sizeof(type)))
#define LK_ARRAY(arena, type, count) ((type *)lk_arena_array((arena), (count), sizeof(type)))

/* Quote `text` for a shell if necessary; NULL when memory runs out. */
const char *lk_shell_quote(lk_arena *arena, const char *text);

#endif
