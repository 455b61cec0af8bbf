/* shell_sets.c: {a,b} and {1..3} in a word, which bash expands before anything else in it (its
 * manual, Brace Expansion). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "shell/shell.h"

enum {
	SET_MEMBERS = 4096 /* of {1..4096} */
};

/* Skip the piece that begins at `at`: a quoted text, an expansion, a character. */
static const char *set_step(const char *at, const char *end) {
	const char *next = NULL;
	if (*at == '\'') next = lk_shell_skip_single(at, end);
	else if (*at == '"') next = lk_shell_skip_double(at, end);
	else if (*at == '`') next = lk_shell_skip_backtick(at, end);
	else if (*at == '\\') next = at + 1 < end ? at + 2 : end;
	else if (*at == '$' && at + 1 < end && at[1] == '\'') next = lk_shell_skip_ansi(at, end);
	else if (*at == '$' && at + 1 < end && at[1] == '{')
		next = lk_shell_close(at + 1, end, '{', '}');
	else if (*at == '$' && at + 1 < end && at[1] == '(')
		next = lk_shell_close(at + 1, end, '(', ')');
	return next != NULL ? next : at + 1;
}

/* Find the bracket that closes a set, and whether a comma is in it; NULL: none. */
static const char *set_close(const char *open, const char *end, bool *commas) {
	int depth = 0;
	*commas = false;
	for (const char *at = open; at < end; at = set_step(at, end)) {
		depth += (*at == '{') - (*at == '}');
		*commas |= *at == ',' && depth == 1;
		if (depth == 0) return at;
	}
	return NULL;
}

/* FIRST..LAST[..STEP] of integers or of letters; false: not a range. */
struct set_range {
	long first, last, step;
	int width; /* digits to which numbers are padded; -1: letters */
};

static bool set_range(const char *at, const char *close, struct set_range *range) {
	char text[64], *end, *start = text;
	size_t size = (size_t)(close - at);
	if (size >= sizeof text || size < 4) return false;
	memcpy(text, at, size);
	text[size] = '\0';
	*range = (struct set_range){.step = 1};
	bool letters = isalpha((unsigned char)text[0]) && strncmp(text + 1, "..", 2) == 0 &&
	               isalpha((unsigned char)text[3]);
	if (letters) {
		range->first = text[0];
		range->last = text[3];
		range->width = -1;
		/* between upper-case and lower-case letters are other characters */
		if (!isupper((unsigned char)text[0]) != !isupper((unsigned char)text[3])) return false;
		end = text + 4;
	} else {
		long *numbers[] = {&range->first, &range->last};
		bool fills = false;
		for (int i = 0; i < 2; i++) {
			bool sign = *start == '-' || *start == '+';
			if (!isdigit((unsigned char)start[sign])) return false;
			*numbers[i] = strtol(start, &end, 10);
			int digits = (int)(end - start);
			fills |= start[sign] == '0' && digits > 1 + sign;
			if (digits > range->width) range->width = digits;
			if (labs(*numbers[i]) > 1L << 40 || (i == 0 && strncmp(end, "..", 2) != 0))
				return false;
			start = end + 2;
		}
		if (!fills) range->width = 0;
	}
	if (strncmp(end, "..", 2) == 0) {
		range->step = labs(strtol(end + 2, &start, 10));
		if (start == end + 2 || range->step > 1L << 40) return false;
		if (range->step == 0) range->step = 1;
		end = start;
	}
	return *end == '\0';
}

static lk_status expand_sets(lk_shell *shell, const lk_raw *raw, lk_raws *out, int depth);

/* Build the word with one member in place of a set. */
static lk_status set_member(lk_shell *shell, const lk_raw *raw, const char *open, const char *close,
                            const char *member, size_t length, lk_raws *out, int depth) {
	const char *text = lk_arena_printf(shell->arena, "%.*s%.*s%.*s", (int)(open - raw->at), raw->at,
	                                   (int)length, member, (int)(raw->end - close - 1), close + 1);
	if (text == NULL) return lk_oom(shell->err);
	size_t size = strlen(text);
	shell->produced += size;
	if (shell->produced > LK_LAUNCH_BYTES)
		return lk_shell_fail(shell, raw->line, "the expanded words are longer than 4 MiB",
		                     "shorten the script");
	lk_raw one = {text, text + size, raw->line};
	return expand_sets(shell, &one, out, depth + 1);
}

static lk_status set_numbers(lk_shell *shell, const lk_raw *raw, const char *open,
                             const char *close, const struct set_range *range, lk_raws *out,
                             int depth) {
	long step = range->first <= range->last ? range->step : -range->step;
	long count = (range->last - range->first) / step;
	if (count >= SET_MEMBERS)
		return lk_shell_fail(shell, raw->line, "a range of more than 4096 members in {..}",
		                     "write a smaller one");
	for (long i = 0; i <= count; i++) {
		char text[64];
		long value = range->first + i * step;
		int n = range->width < 0 ? snprintf(text, sizeof text, "%c", (char)value)
		                         : snprintf(text, sizeof text, "%0*ld",
		                                    range->width > 60 ? 60 : range->width, value);
		LK_TRY(set_member(shell, raw, open, close, text, (size_t)n, out, depth));
	}
	return LK_OK;
}

/* Append a word for each member of the first set of a word, recursively for the sets after it. */
static lk_status expand_sets(lk_shell *shell, const lk_raw *raw, lk_raws *out, int depth) {
	struct set_range range;
	if (depth > LK_SHELL_DEPTH)
		return lk_shell_fail(shell, raw->line, "expansions are nested too deeply",
		                     "simplify the line");
	for (const char *at = raw->at; at < raw->end; at = set_step(at, raw->end)) {
		bool commas;
		const char *close = *at == '{' ? set_close(at, raw->end, &commas) : NULL;
		if (close == NULL) continue;
		if (!commas && set_range(at + 1, close, &range))
			return set_numbers(shell, raw, at, close, &range, out, depth);
		if (!commas) continue;
		const char *member = at + 1;
		int inside = 0;
		for (const char *p = at + 1;; p = set_step(p, raw->end)) {
			bool ends = inside == 0 && (*p == ',' || p == close);
			if (ends) {
				LK_TRY(set_member(shell, raw, at, close, member, (size_t)(p - member), out, depth));
				member = p + 1;
			}
			if (p == close) return LK_OK;
			inside += (*p == '{') - (*p == '}');
		}
	}
	if (out->count >= LK_LAUNCH_WORDS)
		return lk_shell_fail(shell, raw->line, "more than 65536 words", "shorten the script");
	if (!lk_push(out)) return lk_oom(shell->err);
	*lk_last(out) = *raw;
	return LK_OK;
}

lk_status lk_shell_sets(lk_shell *shell, const lk_raw *raw, lk_raws *out) {
	return expand_sets(shell, raw, out, 0);
}
