/* shell_read.c: the words of one simple command after another: blanks, comments, continued lines, redirections and
 * here-documents (POSIX.1-2017, Shell Command Language 2.3, 2.7). */
#include "launch/shell/shell.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void skip_heredocs(lk_shell *s) {
	for (int i = 0; i < s->heredocs; i++) {
		size_t length = strlen(s->heredoc[i]);
		while (s->at < s->end) {
			const char *stop = memchr(s->at, '\n', (size_t)(s->end - s->at));
			const char *line = s->at + strspn(s->at, "\t");
			const char *line_end = stop != NULL ? stop : s->end;
			s->at = stop != NULL ? stop + 1 : s->end;
			s->line++;
			if ((size_t)(line_end - line) == length && memcmp(line, s->heredoc[i], length) == 0) break;
		}
	}
	s->heredocs = 0;
}

void lk_shell_newline(lk_shell *s) {
	s->at++;
	s->line++;
	skip_heredocs(s);
}

/* What Slurm sets from the options of the batch script. */
static lk_status batch_variables(lk_shell *s) {
	const struct {
		const char *name;
		int value;
	} sets[] = {{"SLURM_NNODES", s->batch->nodes},          {"SLURM_JOB_NUM_NODES", s->batch->nodes},
				{"SLURM_NTASKS", s->batch->total},          {"SLURM_NTASKS_PER_NODE", s->batch->tasks_per_node},
				{"SLURM_GPUS_ON_NODE", s->batch->per_node}, {"SLURM_GPUS_PER_NODE", s->batch->per_node}};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		char text[96];
		int n = snprintf(text, sizeof text, "%s=%d", sets[i].name, sets[i].value);
		if (sets[i].value > 0) LK_TRY(lk_shell_set(s, text, (size_t)n));
	}
	return LK_OK;
}

static lk_status comment(lk_shell *s) {
	const char *stop = memchr(s->at, '\n', (size_t)(s->end - s->at));
	if (stop == NULL) stop = s->end;
	lk_status status = LK_OK;
	if (stop - s->at > 8 && strncmp(s->at, "#SBATCH", 7) == 0 && s->batch != NULL) {
		char *line = lk_arena_strndup(s->r->arena, s->at + 7, (size_t)(stop - s->at - 7));
		status = line == NULL ? lk_oom(s->r->err) : lk_launcher_sbatch(s->r, line, s->batch);
		if (status == LK_OK) status = batch_variables(s);
	}
	s->at = stop;
	return status;
}

/* Blanks, continued lines and comments. */
static lk_status skip_space(lk_shell *s) {
	while (s->at < s->end) {
		char c = *s->at;
		if (c == '\\' && s->at + 1 < s->end && s->at[1] == '\n') {
			s->at += 2;
			s->line++;
		} else if (c == '\\' && s->at + 2 < s->end && s->at[1] == '\r' && s->at[2] == '\n') {
			s->at += 3;
			s->line++;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			s->at++;
		} else if (c == '#') {
			LK_TRY(comment(s));
		} else {
			return LK_OK;
		}
	}
	return LK_OK;
}

int lk_shell_lines(const char *at, const char *end) {
	int lines = 0;
	for (; at < end; at++) lines += *at == '\n';
	return lines;
}

static lk_status take_word(lk_shell *s, lk_raw *out) {
	*out = (lk_raw){.at = s->at, .line = s->line};
	out->end = lk_shell_word_end(s, s->at, s->end, s->line);
	if (out->end == NULL) return LK_ERR_INPUT;
	s->line += lk_shell_lines(out->at, out->end);
	s->at = out->end;
	return LK_OK;
}

/* "> file", "2>&1", "<<END": dropped, with the number before it. */
static lk_status redirection(lk_shell *s, lk_raws *words) {
	lk_raw target;
	const char *begin = s->at;
	if (words->count > 0 && lk_last(words)->end == begin) {
		const lk_raw *last = lk_last(words);
		bool digits = true;
		for (const char *p = last->at; p < last->end; p++) digits = digits && isdigit((unsigned char)*p);
		if (digits) words->count--;
	}
	while (s->at < s->end && strchr("<>&|-", *s->at) != NULL && *s->at != '\0') s->at++;
	bool here = s->at - begin >= 2 && begin[0] == '<' && begin[1] == '<' && (s->at - begin == 2 || begin[2] == '-');
	LK_TRY(skip_space(s));
	if (s->at < s->end && *s->at == '(') { /* <(command) */
		s->at = lk_shell_close(s->at, s->end, '(', ')');
		return s->at != NULL ? LK_OK : lk_shell_fail(s, s->line, "a bracket is not closed", "close it");
	}
	LK_TRY(take_word(s, &target));
	if (!here) return LK_OK;
	const char *from = target.at + strspn(target.at, "\"'\\");
	size_t length = strcspn(from, "\"' \t\n");
	if (from + length > target.end) length = from < target.end ? (size_t)(target.end - from) : 0;
	if (s->heredocs == 8) return lk_shell_fail(s, s->line, "more than 8 here-documents in a line", "write fewer");
	s->heredoc[s->heredocs] = lk_arena_strndup(s->r->arena, from, length);
	return s->heredoc[s->heredocs++] == NULL ? lk_oom(s->r->err) : LK_OK;
}

bool lk_shell_raw_is(const lk_raw *raw, const char *text) {
	size_t length = strlen(text);
	return (size_t)(raw->end - raw->at) == length && memcmp(raw->at, text, length) == 0;
}

static lk_status push_raw(lk_shell *s, lk_raws *words, const lk_raw *raw) {
	if (!lk_push(words)) return lk_oom(s->r->err);
	*lk_last(words) = *raw;
	return LK_OK;
}

/* An operator inside [[ ]] as a word. */
static lk_status test_operator(lk_shell *s, lk_raws *words) {
	char c = *s->at;
	lk_raw raw = {.at = s->at, .end = s->at + 1, .line = s->line};
	if (s->at + 1 < s->end && s->at[1] == c && (c == '&' || c == '|')) raw.end++;
	s->at = raw.end;
	return push_raw(s, words, &raw);
}

/* ((...)): one word, whose answer is not evaluated; where it sets a variable it is refused. */
static lk_status take_math(lk_shell *s, lk_raws *words) {
	lk_raw raw = {.at = s->at, .line = s->line};
	raw.end = lk_shell_close(s->at, s->end, '(', ')');
	if (raw.end == NULL) return lk_shell_fail(s, s->line, "a '((' is not closed", "close it");
	for (const char *p = raw.at + 1; p < raw.end; p++) {
		bool step = (*p == '+' || *p == '-') && p[-1] == *p;
		bool sets = *p == '=' && strchr("=<>!", p[-1]) == NULL && p[1] != '=';
		if (step || sets)
			return lk_shell_fail(s, s->line, "((...)) that sets a variable is not followed", "write NAME=$((...))");
	}
	s->line += lk_shell_lines(raw.at, raw.end);
	s->at = raw.end;
	return push_raw(s, words, &raw);
}

/* The words up to the end of a simple command, which is left unread. */
lk_status lk_shell_take_words(lk_shell *s, lk_raws *words) {
	words->count = 0;
	bool test = false;
	for (;;) {
		lk_raw raw;
		LK_TRY(skip_space(s));
		if (s->at >= s->end) return LK_OK;
		char c = *s->at;
		if (test && strchr("&|()<>", c) != NULL && c != '\0') {
			LK_TRY(test_operator(s, words));
			continue;
		}
		if (c == '<' || c == '>' || (c == '&' && s->at + 1 < s->end && s->at[1] == '>')) {
			LK_TRY(redirection(s, words));
			continue;
		}
		if (c == '(' && s->at + 1 < s->end && s->at[1] == '(') {
			LK_TRY(take_math(s, words));
			continue;
		}
		if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') return LK_OK;
		const char *before = s->at;
		LK_TRY(take_word(s, &raw));
		if (s->at == before) s->at++; /* a NUL byte or the like stands for itself */
		LK_TRY(push_raw(s, words, &raw));
		if (lk_shell_raw_is(&raw, "[[")) test = true;
		if (lk_shell_raw_is(&raw, "]]")) test = false;
	}
}
