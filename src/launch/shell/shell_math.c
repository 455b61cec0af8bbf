/* shell_math.c: $((...)): whole numbers, + - * / % and brackets, variables with and without '$'.
 * Overflow and division by zero are errors. */
#include "launch/shell/shell.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct math {
	lk_shell_expander *expand;
	lk_shell *s;
	const char *at, *end;
	int line, depth;
	const char *unknown;
};

static void math_skip_blanks(struct math *math) {
	while (math->at < math->end && isspace((unsigned char)*math->at)) math->at++;
}

static bool math_take(struct math *math, char c) {
	math_skip_blanks(math);
	if (math->at >= math->end || *math->at != c) return false;
	math->at++;
	return true;
}

static lk_status math_sum(struct math *math, long long *value);

static lk_status math_number_of(struct math *math, const char *text, long long *value) {
	char *end;
	while (isspace((unsigned char)*text)) text++;
	*value = 0;
	if (*text == '\0') return LK_OK;
	*value = strtoll(text, &end, 10);
	while (isspace((unsigned char)*end)) end++;
	if (*end == '\0' && *value < 1LL << 53 && *value > -(1LL << 53)) return LK_OK;
	return lk_shell_fail(math->s, math->line, "a variable in $((...)) is no whole number",
	                     "write the number");
}

static lk_status math_variable(struct math *math, long long *value) {
	bool braces =
		math->at < math->end && *math->at == '$' && math->at + 1 < math->end && math->at[1] == '{';
	const char *start = math->at, *name = math->at + (*math->at == '$') + braces;
	size_t n = lk_shell_name(name, math->end);
	if (*start == '$') { /* ${X:-8} and the like: as anywhere else */
		const char *end =
			braces ? lk_shell_close(start + 1, math->end, '{', '}') : name + (n > 0 ? n : 1);
		lk_raw raw = {start, end, math->line};
		lk_word word;
		if (end == NULL || end > math->end)
			return lk_shell_fail(math->s, math->line, "a '${' is not closed", "close it");
		math->at = end;
		LK_TRY(math->expand(math->s, &raw, &word));
		if (word.unknown == NULL) return math_number_of(math, word.text, value);
		math->unknown = word.unknown;
		return LK_OK;
	}
	if (n == 0)
		return lk_shell_fail(math->s, math->line,
		                     "$((...)) has something other than numbers, "
		                     "names and signs",
		                     "write the result");
	math->at = name + n;
	const lk_shell_var *var = lk_shell_find(math->s, name, n);
	if (var != NULL && var->values.count > 0 && var->values.at[0].unknown == NULL)
		return math_number_of(math, var->values.at[0].text, value);
	math->unknown =
		var != NULL && var->values.count > 0
			? var->values.at[0].unknown
			: lk_shell_unknown(math->s, math->line, name, n, "is not set in the script");
	return math->unknown == NULL ? lk_oom(math->s->err) : LK_OK;
}

static lk_status atom(struct math *math, long long *value) {
	*value = 0;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	if (math_take(math, '-')) {
		LK_TRY(atom(math, value));
		if (__builtin_sub_overflow(0LL, *value, value))
			return lk_shell_fail(math->s, math->line, "$((...)) overflows",
			                     "write smaller numbers");
	} else if (math_take(math, '+')) {
		LK_TRY(atom(math, value));
	} else if (math_take(math, '(')) {
		LK_TRY(math_sum(math, value));
		if (!math_take(math, ')'))
			return lk_shell_fail(math->s, math->line, "a bracket in $((...)) is not closed",
			                     "close it");
	} else if (math->at < math->end && isdigit((unsigned char)*math->at)) {
		for (; math->at < math->end && isdigit((unsigned char)*math->at); math->at++) {
			*value = *value * 10 + (*math->at - '0');
			if (*value > 1LL << 53)
				return lk_shell_fail(math->s, math->line, "a number in $((...)) is too large",
				                     "write a smaller one");
		}
	} else if (math->at < math->end) {
		LK_TRY(math_variable(math, value));
	} else {
		return lk_shell_fail(math->s, math->line, "$((...)) ends where a number is expected",
		                     "write the result");
	}
	math->depth--;
	return LK_OK;
}

static lk_status math_product(struct math *math, long long *value) {
	long long right;
	LK_TRY(atom(math, value));
	for (;;) {
		char op;
		if (math_take(math, '*')) op = '*';
		else if (math_take(math, '/')) op = '/';
		else if (math_take(math, '%')) op = '%';
		else op = 0;
		if (op == 0) return LK_OK;
		LK_TRY(atom(math, &right));
		if (op != '*' && right == 0 && math->unknown == NULL)
			return lk_shell_fail(math->s, math->line, "division by zero in $((...))",
			                     "correct the divisor");
		if (op == '*' && __builtin_mul_overflow(*value, right, value))
			return lk_shell_fail(math->s, math->line, "$((...)) overflows",
			                     "write smaller numbers");
		if (op == '/' && right == -1 && __builtin_sub_overflow(0LL, *value, value))
			return lk_shell_fail(math->s, math->line, "$((...)) overflows",
			                     "write smaller numbers");
		if (op == '/' && right != 0 && right != -1) *value /= right;
		if (op == '%' && right != 0) *value = right == -1 ? 0 : *value % right;
	}
}

static lk_status math_sum(struct math *math, long long *value) {
	long long right;
	LK_TRY(math_product(math, value));
	for (;;) {
		bool minus = false;
		if (!math_take(math, '+')) {
			if (!math_take(math, '-')) return LK_OK;
			minus = true;
		}
		LK_TRY(math_product(math, &right));
		bool over = minus ? __builtin_sub_overflow(*value, right, value)
		                  : __builtin_add_overflow(*value, right, value);
		if (over)
			return lk_shell_fail(math->s, math->line, "$((...)) overflows",
			                     "write smaller numbers");
	}
}

lk_status lk_shell_math(lk_shell *shell, const char *at, const char *end, int line,
                        lk_shell_expander *expand, long long *value, const char **unknown) {
	struct math m = {.s = shell, .at = at, .end = end, .line = line, .expand = expand};
	LK_TRY(math_sum(&m, value));
	math_skip_blanks(&m);
	if (m.at < end)
		return lk_shell_fail(shell, line, "only + - * / % and brackets are evaluated in $((...))",
		                     "write the result");
	if (*value > 1LL << 53 || *value < -(1LL << 53))
		return lk_shell_fail(shell, line, "$((...)) is too large", "write smaller numbers");
	*unknown = m.unknown;
	return LK_OK;
}
