/* shell_math.c: $((...)) and ((...)): whole numbers, C's operators that set nothing, brackets,
 * variables with and without '$', elements of arrays. Overflow and division by zero are errors;
 * what is of another form is not known. */
#include "launch/shell/shell.h"

#include "base/arena.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct math {
	lk_shell_expander *expand;
	lk_shell *s;
	const char *at, *end;
	int line, depth;
	int passed; /* operands that the answer does not depend on are read all the same: 0 && 1 / 0 */
	const char *unknown;
};

/* Operators of two operands, by how loosely they bind; a longer one comes before its beginning. */
static const struct math_operator {
	const char *text;
	int level;
} math_operators[] = {
	{"||", 1}, {"&&", 2},  {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<<", 8},
	{">>", 8}, {"**", 11}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},
	{"+", 9},  {"-", 9},   {"*", 10}, {"/", 10}, {"%", 10},
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

static lk_status math_choice(struct math *math, long long *value);

static lk_status math_forget(struct math *math, const char *unknown) {
	if (unknown == NULL) return lk_oom(math->s->err);
	if (math->passed == 0 && math->unknown == NULL) math->unknown = unknown;
	return LK_OK;
}

/* What is of no form that is evaluated: the rest is passed over. */
static lk_status math_other(struct math *math) {
	const char *at = math->at;
	math->at = math->end;
	math->unknown = lk_shell_unknown(math->s, math->line, at, (size_t)(math->end - at),
	                                 "in $((...)) is not evaluated");
	return math->unknown ? LK_OK : lk_oom(math->s->err);
}

static lk_status math_overflow(struct math *math) {
	return lk_shell_fail(math->s, math->line, "$((...)) overflows", "write smaller numbers");
}

static lk_status math_number_of(struct math *math, const char *text, long long *value) {
	char *end;
	while (isspace((unsigned char)*text)) text++;
	*value = 0;
	if (*text == '\0') return LK_OK;
	*value = strtoll(text, &end, 10);
	while (isspace((unsigned char)*end)) end++;
	if (*end == '\0' && *value < 1LL << 53 && *value > -(1LL << 53)) return LK_OK;
	return lk_shell_fail(math->s, math->line, "a variable in $((...)) is not a whole number",
	                     "write the number");
}

/* ${X:-8}, $1, $(command), A[0]: as anywhere else. */
static lk_status math_expand(struct math *math, const char *at, const char *end, long long *value) {
	lk_raw raw = {at, end, math->line};
	lk_word word;
	LK_TRY(math->expand(math->s, &raw, &word));
	if (word.unknown == NULL) return math_number_of(math, word.text, value);
	return math_forget(math, word.unknown);
}

static lk_status math_dollar(struct math *math, long long *value) {
	const char *at = math->at, *name = at + 1;
	char open = '\0';
	if (name < math->end && (*name == '{' || *name == '(')) open = *name;
	size_t n = lk_shell_name(name, math->end);
	const char *end = name + (n > 0 ? n : 1);
	if (open != '\0') end = lk_shell_close(name, math->end, open, open == '{' ? '}' : ')');
	if (*at == '`') end = lk_shell_skip_backtick(at, math->end);
	if (end == NULL || end > math->end)
		return lk_shell_fail(math->s, math->line, "a bracket in $((...)) is not closed",
		                     "close it");
	math->at = end;
	return math_expand(math, at, end, value);
}

static lk_status math_variable(struct math *math, long long *value) {
	const char *name = math->at;
	size_t n = lk_shell_name(name, math->end);
	if (*name == '$' || *name == '`') return math_dollar(math, value);
	if (n == 0) return math_other(math);
	math->at = name + n;
	if (math->at < math->end && *math->at == '[') {
		const char *close = lk_shell_close(math->at, math->end, '[', ']');
		if (close == NULL) return math_other(math);
		math->at = close;
		const char *text = lk_arena_printf(math->s->arena, "${%.*s}", (int)(close - name), name);
		return text ? math_expand(math, text, text + strlen(text), value) : lk_oom(math->s->err);
	}
	const lk_shell_var *var = lk_shell_find(math->s, name, n);
	if (var == NULL || var->values.count == 0)
		return math_forget(
			math, lk_shell_unknown(math->s, math->line, name, n, "is not set in the script"));
	const lk_word *held = &var->values.at[0];
	return held->unknown == NULL ? math_number_of(math, held->text, value)
	                             : math_forget(math, held->unknown);
}

/* 010 is 8 for the shell. */
static bool math_is_octal(const struct math *math) {
	return math->end - math->at > 1 && math->at[0] == '0' && isdigit((unsigned char)math->at[1]);
}

static lk_status math_atom(struct math *math, long long *value) {
	*value = 0;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	if (math_take(math, '-')) {
		LK_TRY(math_atom(math, value));
		if (__builtin_sub_overflow(0LL, *value, value)) return math_overflow(math);
	} else if (math_take(math, '+')) {
		LK_TRY(math_atom(math, value));
	} else if (math_take(math, '!')) {
		LK_TRY(math_atom(math, value));
		*value = *value == 0;
	} else if (math_take(math, '~')) {
		LK_TRY(math_atom(math, value));
		*value = ~*value;
	} else if (math_take(math, '(')) {
		LK_TRY(math_choice(math, value));
		if (!math_take(math, ')') && math->at < math->end) LK_TRY(math_other(math));
		else if (math->at[-1] != ')' && math->unknown == NULL)
			return lk_shell_fail(math->s, math->line, "a bracket in $((...)) is not closed",
			                     "close it");
	} else if (math_is_octal(math)) {
		LK_TRY(math_other(math));
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

/* The operator that comes next, where it binds at least as tightly as the level; NULL: none. */
static const struct math_operator *math_operator_at(struct math *math, int level) {
	size_t left;
	math_skip_blanks(math);
	left = (size_t)(math->end - math->at);
	for (size_t i = 0; i < sizeof math_operators / sizeof *math_operators; i++) {
		const struct math_operator *one = &math_operators[i];
		size_t length = strlen(one->text);
		if (left < length || strncmp(math->at, one->text, length) != 0) continue;
		/* i += 2, i++: they set a variable */
		bool sets = left > length && strchr("=<>!", one->text[0]) == NULL &&
		            (math->at[length] == '=' || (length == 1 && strchr("+-", one->text[0]) &&
		                                         math->at[length] == one->text[0]));
		return sets || one->level < level ? NULL : one;
	}
	return NULL;
}

/* left ** right; true: it overflows. */
static bool math_power(long long left, long long right, long long *value) {
	if (left >= -1 && left <= 1 && right > 2) right = 2 - right % 2;
	for (*value = 1; right > 0; right--)
		if (__builtin_mul_overflow(*value, left, value)) return true;
	return false;
}

/* left OP right; where the answer does not depend on them, or one is not known, 0. */
static lk_status math_apply(struct math *math, const char *op, long long left, long long right,
                            long long *value) {
	bool over = false, none = math->passed > 0 || math->unknown != NULL;
	*value = 0;
	if (none) return LK_OK;
	if ((op[0] == '/' || op[0] == '%') && right == 0)
		return lk_shell_fail(math->s, math->line, "division by zero in $((...))",
		                     "correct the divisor");
	if ((op[0] == '*' && op[1] == '*' && right < 0) ||
	    ((strcmp(op, "<<") == 0 || strcmp(op, ">>") == 0) && (right < 0 || right > 52 || left < 0)))
		return math_overflow(math);
	if (strcmp(op, "**") == 0) over = math_power(left, right, value);
	else if (strcmp(op, "==") == 0) *value = left == right;
	else if (strcmp(op, "!=") == 0) *value = left != right;
	else if (strcmp(op, "<=") == 0) *value = left <= right;
	else if (strcmp(op, ">=") == 0) *value = left >= right;
	else if (strcmp(op, "<<") == 0) over = __builtin_mul_overflow(left, 1LL << right, value);
	else if (strcmp(op, ">>") == 0) *value = left >> right;
	else if (op[0] == '<') *value = left < right;
	else if (op[0] == '>') *value = left > right;
	else if (op[0] == '|') *value = left | right;
	else if (op[0] == '^') *value = left ^ right;
	else if (op[0] == '&') *value = left & right;
	else if (op[0] == '+') over = __builtin_add_overflow(left, right, value);
	else if (op[0] == '-') over = __builtin_sub_overflow(left, right, value);
	else if (op[0] == '*') over = __builtin_mul_overflow(left, right, value);
	else if (right == -1) over = op[0] == '/' && __builtin_sub_overflow(0LL, left, value);
	else *value = op[0] == '/' ? left / right : left % right;
	return over ? math_overflow(math) : LK_OK;
}

/* Operands joined by operators that bind at least as tightly as the level. */
static lk_status math_joined(struct math *math, int level, long long *value) {
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	LK_TRY(math_atom(math, value));
	const struct math_operator *op;
	while ((op = math_operator_at(math, level)) != NULL) {
		bool either = strcmp(op->text, "||") == 0, both = strcmp(op->text, "&&") == 0;
		bool known = math->unknown == NULL,
			 settled = known && ((either && *value) || (both && !*value));
		long long left = *value, right;
		math->at += strlen(op->text);
		math->passed += settled;
		/* a power is joined from the right */
		LK_TRY(math_joined(math, op->level + (strcmp(op->text, "**") != 0), &right));
		math->passed -= settled;
		if (either || both) *value = either ? left || right : left && right;
		else LK_TRY(math_apply(math, op->text, left, right, value));
	}
	math->depth--;
	return LK_OK;
}

/* condition ? a : b */
static lk_status math_choice(struct math *math, long long *value) {
	long long yes, no = 0;
	LK_TRY(math_joined(math, 1, value));
	if (!math_take(math, '?')) return LK_OK;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	bool known = math->unknown == NULL, first = *value != 0;
	math->passed += known && !first;
	LK_TRY(math_choice(math, &yes));
	math->passed += (known && first) - (known && !first);
	if (!math_take(math, ':')) LK_TRY(math_other(math));
	else LK_TRY(math_choice(math, &no));
	math->passed -= known && first;
	math->depth--;
	*value = first ? yes : no;
	return LK_OK;
}

lk_status lk_shell_math(lk_shell *shell, const char *at, const char *end, int line,
                        lk_shell_expander *expand, long long *value, const char **unknown) {
	struct math m = {.s = shell, .at = at, .end = end, .line = line, .expand = expand};
	LK_TRY(math_choice(&m, value));
	math_skip_blanks(&m);
	if (m.at < end) LK_TRY(math_other(&m));
	if (*value > 1LL << 53 || *value < -(1LL << 53))
		return lk_shell_fail(shell, line, "$((...)) is too large", "write smaller numbers");
	*unknown = m.unknown;
	return LK_OK;
}
