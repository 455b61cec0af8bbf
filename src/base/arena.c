/* arena.c: memory by phase. Chunks grow from 512 bytes to 1 MiB; a block that is large for its
 * chunk gets a separate one, linked after the newest so that the room left there is not lost.
 * Chunks come from calloc: large ones are zero pages of the system and cost nothing until they are
 * touched. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under the address sanitizer every block is a separate chunk, so that an overrun is detected. */
#if defined(__SANITIZE_ADDRESS__)
#define ONE_BLOCK_PER_CHUNK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BLOCK_PER_CHUNK 1
#endif
#endif
#ifndef ONE_BLOCK_PER_CHUNK
#define ONE_BLOCK_PER_CHUNK 0
#endif

enum { ALIGN = 16, FIRST_CHUNK = 512, LAST_CHUNK = 1 << 20 };

struct lk_arena_chunk {
	struct lk_arena_chunk *next;
	size_t size, used;
	_Alignas(ALIGN) unsigned char bytes[];
};

static struct lk_arena_chunk *new_chunk(size_t size) {
	if (size > SIZE_MAX - sizeof(struct lk_arena_chunk)) return NULL;
	struct lk_arena_chunk *chunk = calloc(1, sizeof *chunk + size);
	if (chunk) chunk->size = size;
	return chunk;
}

static size_t next_size(const struct lk_arena_chunk *newest) {
	if (!newest) return FIRST_CHUNK;
	if (newest->size >= LAST_CHUNK / 2) return LAST_CHUNK;
	if (newest->size < FIRST_CHUNK) return FIRST_CHUNK;
	return newest->size * 2;
}

/* Allocate a separate chunk for a block of `size` bytes, after the newest chunk. */
static void *arena_alone(lk_arena *arena, size_t size) {
	struct lk_arena_chunk *chunk = new_chunk(size);
	if (!chunk) return NULL;
	chunk->used = size;
	struct lk_arena_chunk **link = arena->chunks ? &arena->chunks->next : &arena->chunks;
	chunk->next = *link;
	*link = chunk;
	arena->used += size;
	return chunk->bytes;
}

void *lk_arena_alloc(lk_arena *arena, size_t size) {
	if (ONE_BLOCK_PER_CHUNK) return arena_alone(arena, size);
	if (size > SIZE_MAX - ALIGN) return NULL;
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	struct lk_arena_chunk *chunk = arena->chunks;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = next_size(chunk);
		if (size > room / 4) return arena_alone(arena, size);
		chunk = new_chunk(room);
		if (!chunk) return NULL;
		chunk->next = arena->chunks;
		arena->chunks = chunk;
	}
	void *block = chunk->bytes + chunk->used;
	chunk->used += size;
	arena->used += size;
	return block;
}

void *lk_arena_array(lk_arena *arena, size_t count, size_t size) {
	if (size && count > SIZE_MAX / size) return NULL;
	return lk_arena_alloc(arena, count * size);
}

char *lk_arena_strndup(lk_arena *arena, const char *text, size_t length) {
	if (length == SIZE_MAX) return NULL;
	char *copy = lk_arena_alloc(arena, length + 1);
	if (copy) memcpy(copy, text, length);
	return copy;
}

char *lk_arena_strdup(lk_arena *arena, const char *text) {
	return lk_arena_strndup(arena, text, strlen(text));
}

char *lk_arena_printf(lk_arena *arena, const char *fmt, ...) {
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int length = vsnprintf(NULL, 0, fmt, args);
	char *text = length < 0 ? NULL : lk_arena_alloc(arena, (size_t)length + 1);
	if (text) vsnprintf(text, (size_t)length + 1, fmt, again);
	va_end(again);
	va_end(args);
	return text;
}

void lk_arena_free(lk_arena *arena) {
	struct lk_arena_chunk *chunk = arena->chunks;
	while (chunk) {
		struct lk_arena_chunk *next = chunk->next;
		free(chunk);
		chunk = next;
	}
	*arena = (lk_arena)LK_ARENA_INIT;
}

void lk_arena_free_owner(void *owner) {
	if (owner) lk_arena_free(owner);
	free(owner);
}

const char *lk_shell_quote(lk_arena *arena, const char *text) {
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,:/@%=";
	if (text[0] != '\0' && strspn(text, plain) == strlen(text)) return text;
	char *out = lk_arena_alloc(arena, 4 * strlen(text) + 3), *at = out;
	if (out == NULL) return NULL;
	*at++ = '\'';
	for (; *text != '\0'; text++) {
		if (*text == '\'') {
			memcpy(at, "'\\''", 4);
			at += 4;
		} else {
			*at++ = *text;
		}
	}
	*at++ = '\'';
	*at = '\0';
	return out;
}
