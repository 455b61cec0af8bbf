/* shell_command.c: the output of $(command) if text alone decides it: echo, expr, seq, basename,
 * dirname, a calculation by bc, a field by cut, blanks by tr and sed, a here-document of cat.
 * Nothing is executed: the output of any other command is unknown. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "shell/shell.h"

enum {
	SEQUENCE = 1024 /* numbers of seq */
};
#define SEQUENCE_BOUND (1L << 40) /* of a number of seq, so that nothing overflows */

static const char *command_join(lk_shell *shell, const lk_words *words, size_t from) {
	const char *text = "";
	for (size_t i = from; i < words->count && text != NULL; i++)
		text =
			lk_arena_printf(shell->arena, "%s%s%s", text, i > from ? " " : "", words->at[i].text);
	return text;
}

static lk_status command_sum(lk_shell *shell, const lk_shell_expanders *expand, const char *text,
                             int line, const char **out) {
	long long value;
	const char *unknown = NULL;
	if (text == NULL) return lk_oom(shell->err);
	/* fractions, and operators that expr, bc and the shell read differently: 2 ^ 3, 1 | 2 */
	if (text[strspn(text, "0123456789+-*/%() \t")] != '\0' || strstr(text, "**") != NULL)
		return LK_OK;
	for (const char *at = text; *at != '\0'; at++) /* leading zeros: 010 is 10 for them */
		if (*at == '0' && at[1] >= '0' && at[1] <= '9' &&
		    (at == text || strchr("0123456789", at[-1]) == NULL))
			return LK_OK;
	LK_TRY(lk_shell_math(shell, text, text + strlen(text), line, expand->one, &value, &unknown));
	if (unknown == NULL) *out = lk_arena_printf(shell->arena, "%lld", value);
	return unknown != NULL || *out != NULL ? LK_OK : lk_oom(shell->err);
}

static bool sequence_number(const lk_word *word, long *number) {
	char *end;
	*number = strtol(word->text, &end, 10);
	return *end == '\0' && end > word->text && *number >= -SEQUENCE_BOUND &&
	       *number <= SEQUENCE_BOUND;
}

/* seq LAST, seq FIRST LAST, seq FIRST STEP LAST. */
static const char *command_sequence(lk_shell *shell, const lk_words *words) {
	long first = 1, step = 1, last;
	size_t count = words->count - 1;
	const char *text = "";
	if (count < 1 || count > 3 || !sequence_number(&words->at[count], &last)) return NULL;
	if (count > 1 && !sequence_number(&words->at[1], &first)) return NULL;
	if (count > 2 && !sequence_number(&words->at[2], &step)) return NULL;
	if (step == 0 || (last - first) / step >= SEQUENCE) return NULL;
	for (long n = first; step > 0 ? n <= last : n >= last; n += step)
		if ((text = lk_arena_printf(shell->arena, "%s%s%ld", text, *text ? "\n" : "", n)) == NULL)
			return NULL;
	return text;
}

static const char *command_path(lk_shell *shell, const lk_words *words, bool folder) {
	const char *path = words->at[1].text, *slash = strrchr(path, '/');
	if (path[0] == '\0' || (slash != NULL && slash[1] == '\0')) return NULL;
	if (folder && slash == NULL) return ".";
	if (folder)
		return lk_arena_strndup(shell->arena, path, slash > path ? (size_t)(slash - path) : 1);
	const char *name = slash != NULL ? slash + 1 : path;
	const char *suffix = words->count > 2 ? words->at[2].text : "";
	size_t length = strlen(name), cut = strlen(suffix);
	bool ends = cut > 0 && cut < length && strcmp(name + length - cut, suffix) == 0;
	return lk_arena_strndup(shell->arena, name, ends ? length - cut : length);
}

/* cut -f N -d C of one line; the values of options may follow after a blank. NULL: other
 * options. */
static const char *command_field(lk_shell *shell, const char *line, const lk_words *cut) {
	long field = 0;
	char mark = '\t';
	if (line == NULL || strchr(line, '\n') != NULL) return NULL;
	for (size_t i = 1; i < cut->count; i++) {
		const char *option = cut->at[i].text, *value = option + 2;
		char *end;
		if (option[0] != '-' || (option[1] != 'f' && option[1] != 'd')) return NULL;
		if (*value == '\0' && ++i < cut->count) value = cut->at[i].text;
		if (option[1] == 'd') {
			if (value[0] == '\0' || value[1] != '\0') return NULL;
			mark = value[0];
		} else if ((field = strtol(value, &end, 10)) < 1 || *end != '\0' || end == value) {
			return NULL;
		}
	}
	if (field == 0) return NULL;
	if (strchr(line, mark) == NULL) return line;
	for (; line != NULL && field > 1; field--)
		line = strchr(line, mark) != NULL ? strchr(line, mark) + 1 : NULL;
	const char *end = line != NULL ? strchr(line, mark) : NULL;
	if (line == NULL) return "";
	return end != NULL ? lk_arena_strndup(shell->arena, line, (size_t)(end - line)) : line;
}

/* Whether all filters of a pipe, from its first '|' on, make ends of lines and runs of blanks one
 * blank: | tr '\n' ' ' | sed 's/  \+/ /g'. */
static bool command_joins_lines(const char *at, const char *end) {
	static const char *const filters[] = {
		"tr '\\n' ' '",    "tr \"\\n\" \" \"",  "tr -s ' '",       "tr -s '[:space:]' ' '",
		"xargs",           "sed 's/  \\+/ /g'", "sed 's/  */ /g'", "sed -E 's/ +/ /g'",
		"sed 's/ \\+/ /g'"};
	while (at < end && *at == '|') {
		size_t used = 0;
		for (at++; at < end && *at == ' ';) at++;
		for (size_t i = 0; used == 0 && i < sizeof filters / sizeof *filters; i++) {
			size_t length = strlen(filters[i]);
			if ((size_t)(end - at) >= length && strncmp(at, filters[i], length) == 0) used = length;
		}
		if (used == 0) return false;
		for (at += used; at < end && strchr(" \t\n", *at) != NULL;) at++;
	}
	return at >= end;
}

/* What echo writes, on one line; unknown parts stay as they are written. */
static lk_status command_one_line(lk_shell *shell, const lk_words *words, lk_word *value) {
	const char *text = command_join(shell, words, 1);
	char *line = text != NULL ? lk_arena_strdup(shell->arena, text) : NULL, *to = line;
	if (line == NULL) return lk_oom(shell->err);
	for (const char *from = line; *from != '\0'; from++) {
		bool blank = strchr(" \t\n", *from) != NULL;
		if (!blank || (to > line && to[-1] != ' ')) *to++ = blank ? ' ' : *from;
	}
	*to = '\0';
	value->text = line;
	for (size_t i = 1; i < words->count; i++) {
		if (value->unknown == NULL) value->unknown = words->at[i].unknown;
		value->argument |= words->at[i].argument;
	}
	return LK_OK;
}

static lk_status command_words(lk_shell *shell, const lk_shell_expanders *expand,
                               const lk_words *words, const lk_words *cut, bool bc, int line,
                               lk_word *value) {
	const char *name = words->count > 0 ? words->at[0].text : "", **out = &value->text;
	bool echo = strcmp(name, "echo") == 0, plain = echo && words->count > 1;
	bool whole = (echo || strcmp(name, "basename") == 0) && words->count == 2 && cut->count == 0;
	value->empty_if_unset = whole && !bc && words->at[1].empty_if_unset;
	for (size_t i = 0; i < words->count; i++)
		if (words->at[i].unknown != NULL) return LK_OK;
	for (size_t i = 0; i < cut->count; i++)
		if (cut->at[i].unknown != NULL) return LK_OK;
	const char *option = plain ? words->at[1].text : NULL;
	bool options = plain && option[0] == '-' && option[1] != '\0' &&
	               strspn(option + 1, "neE") == strlen(option + 1);
	if (options && !bc) return LK_OK;
	if (bc)
		return plain ? command_sum(shell, expand, command_join(shell, words, 1), line, out) : LK_OK;
	if (cut->count > 0) {
		bool field = plain && strcmp(cut->at[0].text, "cut") == 0;
		if (field) *out = command_field(shell, command_join(shell, words, 1), cut);
		return LK_OK;
	}
	if (echo) *out = command_join(shell, words, 1);
	else if (strcmp(name, "expr") == 0)
		return command_sum(shell, expand, command_join(shell, words, 1), line, out);
	else if (strcmp(name, "seq") == 0) *out = command_sequence(shell, words);
	else if (words->count > 1 && strcmp(name, "basename") == 0)
		*out = command_path(shell, words, false);
	else if (words->count > 1 && strcmp(name, "dirname") == 0)
		*out = command_path(shell, words, true);
	return LK_OK;
}

/* cat <<END: its text without trailing line ends; what is not known in it stays as written. */
static lk_status command_document(lk_shell *shell, const lk_shell_expanders *expand, const char *at,
                                  const char *end, int line, lk_word *out) {
	at += strspn(at, "<- \t");
	bool literal = at < end && strchr("'\"\\", *at) != NULL;
	at += literal;
	size_t length = strcspn(at, "'\" \t\r\n");
	const char *word = at, *body = memchr(at, '\n', (size_t)(end - at));
	if (length == 0 || body == NULL) return LK_OK;
	for (const char *next = ++body; next < end;) {
		const char *stop = memchr(next, '\n', (size_t)(end - next));
		const char *begin = next + strspn(next, "\t"), *close = stop != NULL ? stop : end;
		if ((size_t)(close - begin) == length && memcmp(begin, word, length) == 0) {
			lk_word text = {.text = lk_arena_strndup(shell->arena, body, (size_t)(next - body))};
			if (text.text == NULL) return lk_oom(shell->err);
			if (!literal) LK_TRY(expand->here(shell, body, next, line, &text));
			size_t size = strlen(text.text);
			while (size > 0 && text.text[size - 1] == '\n') size--;
			*out = text;
			out->text = lk_arena_strndup(shell->arena, text.text, size);
			return out->text != NULL ? LK_OK : lk_oom(shell->err);
		}
		next = stop != NULL ? stop + 1 : end;
	}
	return LK_OK;
}

lk_status lk_shell_command(lk_shell *shell, const lk_shell_expanders *expand, const char *at,
                           const char *end, int line, lk_word *value) {
	static const char *const known[] = {"echo", "expr", "seq", "basename", "dirname", "cat"};
	bool begins = false, bc = false, piped = false;
	lk_words words = {0}, cut = {0};
	lk_status status = LK_OK;
	*value = (lk_word){0};
	while (at < end && strchr(" \t\n", *at) != NULL) at++;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		size_t length = strlen(known[i]);
		begins |= (size_t)(end - at) > length && strncmp(at, known[i], length) == 0 &&
		          strchr(" \t", at[length]) != NULL;
	}
	if (!begins) return LK_OK;
	if (strncmp(at, "cat", 3) == 0) {
		at += 3 + strspn(at + 3, " \t");
		bool document = end - at > 3 && at[0] == '<' && at[1] == '<' && at[2] != '<';
		return document ? command_document(shell, expand, at, end, line, value) : LK_OK;
	}
	while (status == LK_OK && at < end) {
		if (strchr(" \t\n", *at) != NULL) at++;
		else if (*at == '|' && !piped && words.count > 1 && words.at[0].unknown == NULL &&
		         strcmp(words.at[0].text, "echo") == 0 && words.at[1].text[0] != '-' &&
		         command_joins_lines(at, end)) {
			status = command_one_line(shell, &words, value);
			break;
		} else if (*at == '|' && !piped) {
			/* echo "2 * 4" | bc, echo NAME=VALUE | cut -f1 -d= */
			piped = true;
			at += 1 + strspn(at + 1, " ");
			bc =
				end - at >= 2 && strncmp(at, "bc", 2) == 0 && at + 2 + strspn(at + 2, " \n") >= end;
			if (bc) at = end;
		} else if (strchr("|;&<>()", *at) != NULL) break;
		else {
			lk_raw raw = {.at = at, .line = line};
			raw.end = lk_shell_word_end(shell, at, end, line);
			if (raw.end == NULL) status = LK_ERR_INPUT;
			else status = expand->words(shell, &raw, piped ? &cut : &words);
			at = raw.end > at ? raw.end : at + 1;
		}
	}
	if (status == LK_OK && value->text == NULL && at >= end && (!piped || bc || cut.count > 0))
		status = command_words(shell, expand, &words, &cut, bc, line, value);
	lk_vec_free(&words);
	lk_vec_free(&cut);
	return status;
}
