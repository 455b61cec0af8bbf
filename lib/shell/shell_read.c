/* shell_read.c: reads simple commands as words: blanks, comments, continued lines, redirections and
 * here-documents (POSIX.1-2017, Shell Command Language 2.3, 2.7). */
#include "base/arena.h"
#include "shell/shell.h"

#include <ctype.h>
#include <string.h>

const char lk_shell_errors[] = "&2";

/* Read the text of a here-document up to its delimiter; `dashed`: <<-, with tabs allowed before it.
 * NULL: out of memory. */
static const char *shell_read_heredoc(lk_shell *shell, const char *delimiter, bool dashed) {
	size_t length = strlen(delimiter);
	const char *body = shell->at, *body_end = shell->at;
	bool ended = false;
	while (shell->at < shell->end && !ended) {
		const char *stop = memchr(shell->at, '\n', (size_t)(shell->end - shell->at));
		const char *line = shell->at, *line_end = stop != NULL ? stop : shell->end;
		body_end = shell->at;
		while (dashed && line < line_end && *line == '\t') line++;
		shell->at = stop != NULL ? stop + 1 : shell->end;
		shell->line++;
		if (line_end > line && line_end[-1] == '\r') line_end--;
		ended = (size_t)(line_end - line) == length && memcmp(line, delimiter, length) == 0;
	}
	if (!ended) body_end = shell->end;
	char *text = lk_arena_strndup(shell->arena, body, (size_t)(body_end - body)), *to = text;
	bool begins = true; /* at the start of a line */
	for (const char *from = text; dashed && text != NULL && *from != '\0'; from++) {
		if (begins && *from == '\t') continue;
		begins = *from == '\n';
		*to++ = *from;
	}
	if (dashed && text != NULL) *to = '\0';
	return text;
}

static lk_status shell_read_heredocs(lk_shell *shell) {
	const char *output = shell->output != lk_shell_errors ? shell->output : NULL;
	int count = shell->heredocs;
	shell->heredocs = 0;
	shell->output = NULL;
	for (int i = 0; i < count; i++) {
		int line = shell->line;
		const char *body = shell_read_heredoc(shell, shell->heredoc[i], shell->dashed[i]);
		lk_word text = {.text = body};
		if (body == NULL) return lk_oom(shell->err);
		if (!shell->literal[i])
			LK_TRY(lk_shell_expand_here(shell, body, body + strlen(body), line, &text));
		if (shell->wrote != NULL) LK_TRY(shell->wrote(shell, output, &text));
	}
	return LK_OK;
}

lk_status lk_shell_newline(lk_shell *shell) {
	shell->at++;
	shell->line++;
	return shell_read_heredocs(shell);
}

static lk_status read_comment(lk_shell *shell) {
	const char *stop = memchr(shell->at, '\n', (size_t)(shell->end - shell->at));
	if (stop == NULL) stop = shell->end;
	lk_status status = LK_OK;
	if (shell->comment) status = shell->comment(shell, shell->at, (size_t)(stop - shell->at));
	shell->at = stop;
	return status;
}

/* Skip blanks, continued lines and comments. */
static lk_status shell_read_skip_space(lk_shell *shell) {
	while (shell->at < shell->end) {
		char c = *shell->at;
		if (c == '\\' && shell->at + 1 < shell->end && shell->at[1] == '\n') {
			shell->at += 2;
			shell->line++;
		} else if (c == '\\' && shell->at + 2 < shell->end && shell->at[1] == '\r' &&
		           shell->at[2] == '\n') {
			shell->at += 3;
			shell->line++;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			shell->at++;
		} else if (c == '#') {
			LK_TRY(read_comment(shell));
		} else {
			return LK_OK;
		}
	}
	return LK_OK;
}

static lk_status take_word(lk_shell *shell, lk_raw *out) {
	*out = (lk_raw){.at = shell->at, .line = shell->line};
	out->end = lk_shell_word_end(shell, shell->at, shell->end, shell->line);
	if (out->end == NULL) return LK_ERR_INPUT;
	shell->line += lk_shell_lines(out->at, out->end);
	shell->at = out->end;
	return LK_OK;
}

/* "> file", "2>&1", "<<END": dropped, with the number before it. */
static lk_status redirection(lk_shell *shell, lk_raws *words) {
	lk_raw target;
	const char *begin = shell->at;
	bool file = *begin == '>', output = file; /* of standard output */
	if (words->count > 0 && lk_last(words)->end == begin) {
		const lk_raw *last = lk_last(words);
		bool digits = true;
		for (const char *p = last->at; p < last->end; p++)
			digits = digits && isdigit((unsigned char)*p);
		if (digits) words->count--;
		file = file && !digits;
		output = output && (!digits || lk_shell_raw_is(last, "1"));
	}
	while (shell->at < shell->end && strchr("<>&|-", *shell->at) != NULL && *shell->at != '\0')
		shell->at++;
	bool here = shell->at - begin >= 2 && begin[0] == '<' && begin[1] == '<' &&
	            (shell->at - begin == 2 || begin[2] == '-'),
		 string = shell->at - begin == 3 && strncmp(begin, "<<<", 3) == 0,
		 dashed = here && shell->at - begin > 2;
	file = file && memchr(begin, '&', (size_t)(shell->at - begin)) == NULL;
	LK_TRY(shell_read_skip_space(shell));
	if (shell->at < shell->end && *shell->at == '(') { /* <(command) */
		shell->at = lk_shell_close(shell->at, shell->end, '(', ')');
		return shell->at != NULL
		           ? LK_OK
		           : lk_shell_fail(shell, shell->line, "a bracket is not closed", "close it");
	}
	LK_TRY(take_word(shell, &target));
	bool errors = output && lk_shell_raw_is(&target, "2") &&
	              memchr(begin, '&', (size_t)(target.at - begin)) != NULL;
	if (errors) shell->output = lk_shell_errors;
	shell->strung |= string;
	shell->string = string ? target : shell->string;
	if (!here && !file) return LK_OK;
	const char *from = target.at + strspn(target.at, "\"'\\");
	size_t length = strcspn(from, "\"' \t\n");
	if (from + length > target.end) length = from < target.end ? (size_t)(target.end - from) : 0;
	if (file) {
		lk_word name;
		lk_truth certain = shell->certain;
		shell->certain = LK_SHELL_FALSE; /* the command does not run yet */
		lk_status status = lk_shell_expand_one(shell, &target, &name);
		shell->certain = certain;
		if (status == LK_OK) shell->output = name.text;
		shell->appends = begin[0] == '>' && begin[1] == '>';
		return status;
	}
	if (shell->heredocs == 8)
		return lk_shell_fail(shell, shell->line, "more than 8 here-documents in a line",
		                     "write fewer");
	shell->dashed[shell->heredocs] = dashed;
	shell->literal[shell->heredocs] = from != target.at;
	shell->heredoc[shell->heredocs] = lk_arena_strndup(shell->arena, from, length);
	return shell->heredoc[shell->heredocs++] == NULL ? lk_oom(shell->err) : LK_OK;
}

static lk_status push_raw(lk_shell *shell, lk_raws *words, const lk_raw *raw) {
	if (!lk_push(words)) return lk_oom(shell->err);
	*lk_last(words) = *raw;
	return LK_OK;
}

/* Take an operator inside [[ ]] as a word. */
static lk_status test_operator(lk_shell *shell, lk_raws *words) {
	char c = *shell->at;
	lk_raw raw = {.at = shell->at, .end = shell->at + 1, .line = shell->line};
	if (shell->at + 1 < shell->end && shell->at[1] == c && (c == '&' || c == '|')) raw.end++;
	shell->at = raw.end;
	return push_raw(shell, words, &raw);
}

/* ((...)): one word. */
static lk_status take_math(lk_shell *shell, lk_raws *words) {
	lk_raw raw = {.at = shell->at, .line = shell->line};
	raw.end = lk_shell_close(shell->at, shell->end, '(', ')');
	if (raw.end == NULL)
		return lk_shell_fail(shell, shell->line, "a '((' is not closed", "close it");
	shell->line += lk_shell_lines(raw.at, raw.end);
	shell->at = raw.end;
	return push_raw(shell, words, &raw);
}

/* Take the words up to the end of a simple command, which is left unread. */
lk_status lk_shell_take_words(lk_shell *shell, lk_raws *words) {
	words->count = 0;
	shell->strung = false;
	if (shell->heredocs == 0) shell->output = NULL;
	bool test = false;
	for (;;) {
		lk_raw raw;
		LK_TRY(shell_read_skip_space(shell));
		if (shell->at >= shell->end) return LK_OK;
		char c = *shell->at;
		if (test && c == '\n') {
			LK_TRY(lk_shell_newline(shell));
			continue;
		}
		if (test && strchr("&|()<>", c) != NULL && c != '\0') {
			LK_TRY(test_operator(shell, words));
			continue;
		}
		bool literal = lk_shell_placeholder(shell->at, shell->end) != NULL;
		if ((c == '<' && !literal) || c == '>' ||
		    (c == '&' && shell->at + 1 < shell->end && shell->at[1] == '>')) {
			LK_TRY(redirection(shell, words));
			continue;
		}
		if (c == '(' && shell->at + 1 < shell->end && shell->at[1] == '(') {
			LK_TRY(take_math(shell, words));
			continue;
		}
		if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') return LK_OK;
		const char *before = shell->at;
		LK_TRY(take_word(shell, &raw));
		if (shell->at == before) shell->at++; /* skip a NUL byte or the like */
		LK_TRY(push_raw(shell, words, &raw));
		if (lk_shell_raw_is(&raw, "[[")) test = true;
		if (lk_shell_raw_is(&raw, "]]")) test = false;
	}
}
