/* shell_edit.c: the operations ${A%pattern}, ${A#pattern}, ${A/pattern/text}, ${A,,} and ${A:2:3}
 * on a text (POSIX.1-2017, Shell Command Language 2.6.2; bash's manual, Shell Parameter
 * Expansion). */
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "shell/shell.h"

enum {
	EDITED = 4096 /* bytes of an edited text */
};

/* Whether a pattern is a plain text; *text is then the pattern without the escapes. */
static bool edit_is_plain(lk_shell *shell, const char *pattern, const char **text) {
	char *out = lk_arena_strdup(shell->arena, pattern), *to = out;
	for (const char *at = pattern; out != NULL && *at != '\0'; at++) {
		if (strchr("*?[", *at) != NULL) return false;
		if (*at == '\\' && at[1] != '\0') at++;
		*to++ = *at;
	}
	if (out != NULL) *to = '\0';
	*text = out;
	return true;
}

/* Bytes of the longest piece at the start of `at` that a pattern matches; -1: none. */
static long edit_match(char *at, const char *pattern, const char *plain, bool to_the_end) {
	size_t left = strlen(at), size = plain != NULL ? strlen(plain) : 0;
	if (plain != NULL && to_the_end && left != size) return -1;
	if (plain != NULL) return strncmp(at, plain, size) == 0 ? (long)size : -1;
	for (size_t length = left;; length--) {
		char kept = at[length];
		at[length] = '\0';
		bool matches = fnmatch(pattern, at, 0) == 0;
		at[length] = kept;
		if (matches) return (long)length;
		if (length == 0 || to_the_end) return -1;
	}
}

/* ${A/from/to}, ${A//from/to}, ${A/#from/to}, ${A/%from/to}; NULL: unknown. */
static const char *edit_replace(lk_shell *shell, const char *text, char how, const char *pattern,
                                const char *to) {
	char *copy = lk_arena_strdup(shell->arena, text);
	const char *plain = NULL, *out = "";
	/* since 5.2 an & in the replacement means the matched text */
	if (copy == NULL || strchr(to, '&') != NULL) return NULL;
	bool whole = edit_is_plain(shell, pattern, &plain);
	if (whole && plain == NULL) return NULL;
	if (!whole && (*text == '\0' || strlen(text) > EDITED / 8)) return NULL;
	if (*pattern == '\0' && how != '#' && how != '%') return text;
	if (*pattern == '\0')
		return lk_arena_printf(shell->arena, "%s%s", how == '#' ? to : text,
		                       how == '#' ? text : to);
	char *from = copy;
	for (char *at = copy; *at != '\0' && out != NULL;) {
		long length = edit_match(at, pattern, plain, how == '%');
		if (length <= 0) {
			if (how == '#') break;
			at++;
			continue;
		}
		out = lk_arena_printf(shell->arena, "%s%.*s%s", out, (int)(at - from), from, to);
		from = at += length;
		if (how != '/') break;
	}
	return out != NULL ? lk_arena_printf(shell->arena, "%s%s", out, from) : NULL;
}

bool lk_shell_is_ascii(const char *text) {
	while (*text != '\0')
		if ((unsigned char)*text++ >= 0x80) return false;
	return true;
}

/* Find begin and end of a slice of `length`; false: an error of the shell. */
bool lk_shell_edit_bounds(const lk_shell_edit *edit, long long length, long long *from,
                          long long *count) {
	*from = edit->from;
	*count = edit->counted ? edit->count : length;
	if (*from < 0) *from = *from + length < 0 ? length : *from + length;
	if (*from > length) *from = length;
	if (*count < 0 && *count < *from - length) return false;
	if (*count < 0) *count += length - *from;
	if (*count > length - *from) *count = length - *from;
	LK_ASSERT(*from >= 0 && *count >= 0 && *from + *count <= length);
	return true;
}

/* Apply an operation to a text; NULL: unknown. */
const char *lk_shell_edit_text(lk_shell *shell, const char *text, const lk_shell_edit *edit) {
	size_t length = strlen(text);
	bool twice = edit->how == edit->op;
	char *copy = length <= EDITED ? lk_arena_strdup(shell->arena, text) : NULL;
	long long from, count;
	if (copy == NULL) return NULL;
	if (edit->op == '/') return edit_replace(shell, text, edit->how, edit->pattern, edit->to);
	if (strchr(":,^", edit->op) != NULL && !lk_shell_is_ascii(text)) return NULL;
	if (edit->op == ':')
		return lk_shell_edit_bounds(edit, (long long)length, &from, &count)
		           ? lk_arena_strndup(shell->arena, text + from, (size_t)count)
		           : NULL;
	if (edit->op == ',' || edit->op == '^') {
		for (char *c = copy; *c && (twice || c == copy); c++)
			*c = (char)(edit->op == ',' ? tolower((unsigned char)*c) : toupper((unsigned char)*c));
		return edit->pattern[0] == '\0' ? copy : NULL;
	}
	for (size_t k = 0; k <= length; k++) {
		bool front = edit->op == '#';
		size_t cut = front == twice ? length - k : k; /* from the shortest piece, or from the
		                                                 longest */
		LK_ASSERT(cut <= length);
		char kept = copy[cut];
		if (front) copy[cut] = '\0';
		bool matches = fnmatch(edit->pattern, front ? copy : copy + cut, 0) == 0;
		copy[cut] = kept;
		if (!matches) continue;
		if (front) return copy + cut;
		copy[cut] = '\0';
		return copy;
	}
	return copy;
}
