/* emit_page.c: texts and words that grow while a job is written, and words as a line of a shell. */
#include "launch/emit/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"

void lk_page_add(lk_page *page, const char *format, ...) {
	va_list list, again;
	if (page->text == NULL) return;
	va_start(list, format);
	va_copy(again, list);
	int length = vsnprintf(NULL, 0, format, list);
	size_t used = strlen(page->text);
	char *grown = length < 0 ? NULL : lk_arena_alloc(page->arena, used + (size_t)length + 1);
	if (grown != NULL) {
		memcpy(grown, page->text, used);
		vsnprintf(grown + used, (size_t)length + 1, format, again);
	}
	page->text = grown;
	va_end(again);
	va_end(list);
}

void lk_page_lines(lk_page *page, int indent, const char *text) {
	while (text != NULL && *text != '\0') {
		int length = (int)strcspn(text, "\n");
		lk_page_add(page, "%*s%.*s\n", length > 0 ? indent : 0, "", length, text);
		text += length + (text[length] == '\n');
	}
}

bool lk_put_word(lk_words *words, const char *text) {
	if (text == NULL || !lk_push(words)) return false;
	*lk_last(words) = (lk_word){.text = text};
	return true;
}

/* Settings and launcher on the first line, then a line per flag. */
char *lk_join_line(lk_arena *arena, const lk_words *settings, const lk_words *launcher,
                   const lk_words *program) {
	lk_page page = {arena, ""};
	for (size_t i = 0; i < settings->count; i++) {
		LK_ASSERT(strchr(settings->at[i].text, '=') != NULL);
		const char *text = settings->at[i].text, *value = strchr(text, '=') + 1;
		const char *quoted = lk_shell_quote(arena, value);
		if (quoted == NULL) return NULL;
		lk_page_add(&page, "%.*s%s ", (int)(value - text), text, quoted);
	}
	for (size_t i = 0; i < launcher->count; i++)
		lk_page_add(&page, "%s%s", i > 0 ? " " : "", launcher->at[i].text);
	bool named = false; /* the program's own name and command come before its settings */
	for (size_t i = 0; i < program->count; i++) {
		const char *word = lk_shell_quote(arena, program->at[i].text);
		if (word == NULL) return NULL;
		bool setting = word[0] == '-' || (strchr(word, '=') != NULL && strchr(word, '.') != NULL);
		const char *before = i == 0 && launcher->count == 0 ? "" : " ";
		lk_page_add(&page, "%s%s", named && setting ? " \\\n    " : before, word);
		named |= i > 0 || word[0] != '-';
	}
	return (char *)page.text;
}
