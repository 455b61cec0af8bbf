/* shell_math.c: $((...)): whole numbers, + - * / % and brackets, variables with and without '$'. Overflow and division
 * by zero are errors. */
#include "launch/shell/shell.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct math {
	lk_shell *s;
	const char *at, *end;
	int line, depth;
	const char *unknown;
};

static void skip_blanks(struct math *m) {
	while (m->at < m->end && isspace((unsigned char)*m->at)) m->at++;
}

static bool take(struct math *m, char c) {
	skip_blanks(m);
	if (m->at >= m->end || *m->at != c) return false;
	m->at++;
	return true;
}

static lk_status sum(struct math *m, long long *value);

static lk_status number_of(struct math *m, const char *text, long long *value) {
	char *end;
	while (isspace((unsigned char)*text)) text++;
	*value = 0;
	if (*text == '\0') return LK_OK;
	*value = strtoll(text, &end, 10);
	while (isspace((unsigned char)*end)) end++;
	if (*end == '\0' && *value < 1LL << 53 && *value > -(1LL << 53)) return LK_OK;
	return lk_shell_fail(m->s, m->line, "a variable in $((...)) is no whole number", "write the number");
}

static lk_status variable(struct math *m, long long *value) {
	bool braces = m->at < m->end && *m->at == '$' && m->at + 1 < m->end && m->at[1] == '{';
	const char *start = m->at, *name = m->at + (*m->at == '$') + braces;
	size_t n = lk_shell_name(name, m->end);
	if (*start == '$') { /* ${X:-8} and the like: as anywhere else */
		const char *end = braces ? lk_shell_close(start + 1, m->end, '{', '}') : name + (n > 0 ? n : 1);
		lk_raw raw = {start, end, m->line};
		lk_word word;
		if (end == NULL || end > m->end) return lk_shell_fail(m->s, m->line, "a '${' is not closed", "close it");
		m->at = end;
		LK_TRY(lk_shell_expand_one(m->s, &raw, &word));
		if (word.unknown == NULL) return number_of(m, word.text, value);
		m->unknown = word.unknown;
		return LK_OK;
	}
	if (n == 0)
		return lk_shell_fail(m->s, m->line, "$((...)) holds what is no number, name or sign", "write the result");
	m->at = name + n;
	const lk_shell_var *var = lk_shell_find(m->s, name, n);
	if (var != NULL && var->values.count > 0 && var->values.at[0].unknown == NULL)
		return number_of(m, var->values.at[0].text, value);
	m->unknown = var != NULL && var->values.count > 0
					 ? var->values.at[0].unknown
					 : lk_shell_unknown(m->s, m->line, name, n, "is not set in the script");
	return m->unknown == NULL ? lk_oom(m->s->r->err) : LK_OK;
}

static lk_status atom(struct math *m, long long *value) {
	*value = 0;
	if (++m->depth > 64) return lk_shell_fail(m->s, m->line, "$((...)) is nested too deeply", "write the result");
	if (take(m, '-')) {
		LK_TRY(atom(m, value));
		if (__builtin_sub_overflow(0LL, *value, value))
			return lk_shell_fail(m->s, m->line, "$((...)) overflows", "write smaller numbers");
	} else if (take(m, '+')) {
		LK_TRY(atom(m, value));
	} else if (take(m, '(')) {
		LK_TRY(sum(m, value));
		if (!take(m, ')')) return lk_shell_fail(m->s, m->line, "a bracket in $((...)) is not closed", "close it");
	} else if (m->at < m->end && isdigit((unsigned char)*m->at)) {
		for (; m->at < m->end && isdigit((unsigned char)*m->at); m->at++) {
			*value = *value * 10 + (*m->at - '0');
			if (*value > 1LL << 53)
				return lk_shell_fail(m->s, m->line, "a number in $((...)) is too large", "write a smaller one");
		}
	} else if (m->at < m->end) {
		LK_TRY(variable(m, value));
	} else {
		return lk_shell_fail(m->s, m->line, "$((...)) ends where a number should stand", "write the result");
	}
	m->depth--;
	return LK_OK;
}

static lk_status product(struct math *m, long long *value) {
	long long right;
	LK_TRY(atom(m, value));
	for (;;) {
		char op = take(m, '*') ? '*' : take(m, '/') ? '/' : take(m, '%') ? '%' : 0;
		if (op == 0) return LK_OK;
		LK_TRY(atom(m, &right));
		if (op != '*' && right == 0 && m->unknown == NULL)
			return lk_shell_fail(m->s, m->line, "division by zero in $((...))", "correct the divisor");
		if (op == '*' && __builtin_mul_overflow(*value, right, value))
			return lk_shell_fail(m->s, m->line, "$((...)) overflows", "write smaller numbers");
		if (op == '/' && right == -1 && __builtin_sub_overflow(0LL, *value, value))
			return lk_shell_fail(m->s, m->line, "$((...)) overflows", "write smaller numbers");
		if (op == '/' && right != 0 && right != -1) *value /= right;
		if (op == '%' && right != 0) *value = right == -1 ? 0 : *value % right;
	}
}

static lk_status sum(struct math *m, long long *value) {
	long long right;
	LK_TRY(product(m, value));
	for (;;) {
		bool minus = false;
		if (!take(m, '+')) {
			if (!take(m, '-')) return LK_OK;
			minus = true;
		}
		LK_TRY(product(m, &right));
		bool over = minus ? __builtin_sub_overflow(*value, right, value) : __builtin_add_overflow(*value, right, value);
		if (over) return lk_shell_fail(m->s, m->line, "$((...)) overflows", "write smaller numbers");
	}
}

lk_status lk_shell_math(lk_shell *s, const char *at, const char *end, int line, long long *value,
						const char **unknown) {
	struct math m = {.s = s, .at = at, .end = end, .line = line};
	LK_TRY(sum(&m, value));
	skip_blanks(&m);
	if (m.at < end)
		return lk_shell_fail(s, line, "only + - * / % and brackets are evaluated in $((...))", "write the result");
	if (*value > 1LL << 53 || *value < -(1LL << 53))
		return lk_shell_fail(s, line, "$((...)) is too large", "write smaller numbers");
	*unknown = m.unknown;
	return LK_OK;
}
