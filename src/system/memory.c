/* memory.c: a FILE that writes into memory and reports lost data. open_memstream does not: when
 * memory runs out, glibc drops the piece without an error. */
#include "system/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096 };

struct memory_file {
	char **text;
	size_t *size;
	size_t room;
};

/* Make room for `more` bytes and a final '\0'. */
static bool memory_grow(struct memory_file *memory, size_t more) {
	if (more > SIZE_MAX / 4 || *memory->size > SIZE_MAX / 4) return false;
	size_t need = *memory->size + more + 1;
	if (need <= memory->room) return true;
	size_t room = need > 2 * memory->room ? need : 2 * memory->room;
	char *text = realloc(*memory->text, room);
	if (!text) return false;
	*memory->text = text;
	memory->room = room;
	return true;
}

static ssize_t memory_write(void *cookie, const char *bytes, size_t size) {
	struct memory_file *memory = cookie;
	if (!memory_grow(memory, size)) return 0; /* stdio keeps that as the FILE's error */
	memcpy(*memory->text + *memory->size, bytes, size);
	*memory->size += size;
	(*memory->text)[*memory->size] = '\0';
	return (ssize_t)size;
}

static int memory_forget(void *cookie) {
	free(cookie);
	return 0;
}

FILE *lk_memory_open(char **text, size_t *size) {
	struct memory_file *memory = malloc(sizeof *memory);
	*text = malloc(FIRST_BYTES);
	*size = 0;
	if (memory) *memory = (struct memory_file){text, size, FIRST_BYTES};
	FILE *file =
		memory && *text
			? fopencookie(memory, "w",
	                      (cookie_io_functions_t){.write = memory_write, .close = memory_forget})
			: NULL;
	if (file) {
		**text = '\0';
		return file;
	}
	free(*text);
	free(memory);
	*text = NULL;
	return NULL;
}

bool lk_memory_close(FILE *file) {
	bool whole = !ferror(file);
	return fclose(file) == 0 && whole;
}

char *lk_memory_text(FILE *file, char **text) {
	if (lk_memory_close(file)) return *text;
	free(*text);
	return *text = NULL;
}
