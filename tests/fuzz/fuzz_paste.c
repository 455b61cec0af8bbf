/* fuzz_paste.c: any text is a pasted one with a launch line, which stays within it line by line, or
 * an error with a remedy. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "launch/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t lines_of(const char *text, size_t size) {
	size_t lines = 0;
	for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
	return lines + (size > 0 && text[size - 1] != '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_paste paste;
	lk_error err = {0};
	const char *text = (const char *)data;
	if (lk_paste_is(text, size, "issue.txt")) {
		lk_status status = lk_paste_read(&arena, text, size, "issue.txt", &paste, &err);
		if (status != LK_OK && (!*err.what || !*err.hint)) abort();
		if (status == LK_OK && lines_of(paste.script, paste.size) != lines_of(text, size)) abort();
		if (status == LK_OK && paste.notes.found_count == 0) abort();
	}
	lk_arena_free(&arena);
	return 0;
}
