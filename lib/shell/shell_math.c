/* shell_math.c: $((...)) and ((...)): whole numbers, C's operators, assignments and commas,
 * variables with and without '$', elements of arrays. Overflow and division by zero are errors;
 * what is of another form is not known. */
#include "shell/shell.h"

#include "base/arena.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct math {
	lk_shell_expander *expand;
	lk_shell *s;
	const char *at, *end;
	int line, depth;
	int passed; /* > 0: the operands do not affect the result and are only parsed: 0 && 1 / 0 */
	const char *unknown;
};

/* Binary operators and their precedence; an operator comes before its own prefixes. */
static const struct math_operator {
	const char *text;
	int level;
} math_operators[] = {
	{"||", 1}, {"&&", 2},  {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<<", 8},
	{">>", 8}, {"**", 11}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},
	{"+", 9},  {"-", 9},   {"*", 10}, {"/", 10}, {"%", 10},
};

/* Skip blanks, and quotes, which have no meaning here. */
static void math_skip_blanks(struct math *math) {
	while (math->at < math->end && (isspace((unsigned char)*math->at) || *math->at == '"'))
		math->at++;
}

static bool math_take(struct math *math, char c) {
	math_skip_blanks(math);
	if (math->at >= math->end || *math->at != c) return false;
	math->at++;
	return true;
}

static lk_status math_choice(struct math *math, long long *value);
static lk_status math_sequence(struct math *math, long long *value);

static lk_status math_forget(struct math *math, const char *unknown) {
	if (unknown == NULL) return lk_oom(math->s->err);
	if (math->passed == 0 && math->unknown == NULL) math->unknown = unknown;
	return LK_OK;
}

/* Make a variable, or an array, unknown from here on. */
static lk_status math_spoil(struct math *math, const char *name, size_t length) {
	lk_shell_var *var;
	if (math->passed > 0 || math->s->certain == LK_SHELL_FALSE) return LK_OK;
	lk_word value = {.text = lk_arena_printf(math->s->arena, "$%.*s", (int)length, name)};
	value.unknown = lk_shell_unknown(math->s, math->line, name, length, "is set by $((...))");
	if (value.text == NULL || value.unknown == NULL) return lk_oom(math->s->err);
	LK_TRY(lk_shell_put(math->s, name, length, &value, math->line));
	LK_TRY(lk_shell_var_at(math->s, name, length, &var));
	if (!var->held && var->values.count > 1) var->values.count = 1;
	return LK_OK;
}

/* Handle a form that is not evaluated: skip the rest and make the variables that it may set
 * unknown. */
static lk_status math_other(struct math *math) {
	const char *at = math->at;
	math->at = math->end;
	math->unknown = lk_shell_unknown(math->s, math->line, at, (size_t)(math->end - at),
	                                 "in $((...)) is not evaluated");
	if (math->unknown == NULL) return lk_oom(math->s->err);
	bool sets = false;
	for (const char *p = at; p < math->end; p++)
		sets |= *p == '=' || ((*p == '+' || *p == '-') && p > at && p[-1] == *p);
	for (const char *p = at; sets && p < math->end;) {
		size_t length = lk_shell_name(p, math->end);
		if (length > 0) LK_TRY(math_spoil(math, p, length));
		p += length > 0 ? length : 1;
	}
	return LK_OK;
}

static lk_status math_overflow(struct math *math) {
	return lk_shell_fail(math->s, math->line, "$((...)) overflows", "write smaller numbers");
}

/* Read 12, 010, 0x1f or 2#101; false: no number begins here, or it has another form. */
static bool math_digits(struct math *math, long long *value, bool *large) {
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	const char *at = math->at;
	int base = 10;
	if (at >= math->end || !isdigit((unsigned char)*at)) return false;
	if (*at == '0' && at + 1 < math->end) {
		bool hex = at[1] == 'x' || at[1] == 'X';
		if (hex || isdigit((unsigned char)at[1])) base = hex ? 16 : 8;
		at += hex ? 2 : 0;
	}
	*value = 0;
	*large = false;
	const char *first = at;
	for (;
	     at < math->end && (isalnum((unsigned char)*at) || *at == '#' || *at == '_' || *at == '@');
	     at++) {
		if (*at == '#' && base == 10 && *value >= 2 && *value <= 36) {
			base = (int)*value;
			*value = 0;
			first = at + 1;
			continue;
		}
		const char *digit = strchr(digits, tolower((unsigned char)*at));
		if (digit == NULL || digit - digits >= base) return false;
		*value = *value * base + (digit - digits);
		*large |= *value > 1LL << 53;
		if (*large) *value = 0;
	}
	math->at = at;
	return at > first;
}

static lk_status math_large(struct math *math) {
	return lk_shell_fail(math->s, math->line, "a number in $((...)) is too large",
	                     "write a smaller one");
}

/* Evaluate the value of a variable as an expression of its own. */
static lk_status math_number_of(struct math *math, const char *text, long long *value) {
	struct math inner = *math;
	bool large;
	*value = 0;
	inner.at = text;
	inner.end = text + strlen(text);
	math_skip_blanks(&inner);
	if (inner.at == inner.end) return LK_OK;
	if (math_digits(&inner, value, &large)) {
		math_skip_blanks(&inner);
		if (large) return math_large(math);
		if (inner.at == inner.end) return LK_OK;
	}
	inner.at = text;
	inner.depth++;
	LK_TRY(math_sequence(&inner, value));
	math_skip_blanks(&inner);
	if (inner.at < inner.end) LK_TRY(math_other(&inner));
	if (inner.unknown != NULL) math->unknown = inner.unknown;
	return LK_OK;
}

/* Evaluate ${X:-8}, $1, $(command), A[0], expanded as anywhere else. */
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

/* Evaluate a variable. */
static lk_status math_value_of(struct math *math, const char *name, size_t length,
                               long long *value) {
	const lk_shell_var *var = lk_shell_find(math->s, name, length);
	*value = 0;
	if (var == NULL)
		return math_forget(
			math, lk_shell_unknown(math->s, math->line, name, length, "is not set in the script"));
	const lk_word *held = lk_shell_element(var, "0");
	if (held == NULL) return LK_OK; /* an unset variable counts as 0 */
	if (held->unknown != NULL) return math_forget(math, held->unknown);
	return math_number_of(math, held->text + (var->keyed ? lk_shell_key(held->text) : 0), value);
}

static lk_status math_set(struct math *math, const char *name, size_t length, long long value) {
	if (math->passed > 0) return LK_OK;
	if (math->unknown != NULL) return math_spoil(math, name, length);
	lk_word word = {.text = lk_arena_printf(math->s->arena, "%lld", value)};
	if (word.text == NULL) return lk_oom(math->s->err);
	return lk_shell_put(math->s, name, length, &word, math->line);
}

/* N++ and ++N; `after`: the value is the one before. */
static lk_status math_step(struct math *math, const char *name, size_t length, char sign,
                           bool after, long long *value) {
	long long before, next;
	LK_TRY(math_value_of(math, name, length, &before));
	if (__builtin_add_overflow(before, sign == '+' ? 1 : -1, &next)) return math_overflow(math);
	LK_TRY(math_set(math, name, length, next));
	*value = after ? before : next;
	return LK_OK;
}

static bool math_is_step(const struct math *math, const char *at) {
	return at + 1 < math->end && (*at == '+' || *at == '-') && at[1] == *at;
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
		math_skip_blanks(math);
		if (math_is_step(math, math->at)) {
			LK_TRY(math_spoil(math, name, n));
			return math_other(math);
		}
		const char *text = lk_arena_printf(math->s->arena, "${%.*s}", (int)(close - name), name);
		return text ? math_expand(math, text, text + strlen(text), value) : lk_oom(math->s->err);
	}
	math_skip_blanks(math);
	if (!math_is_step(math, math->at)) return math_value_of(math, name, n, value);
	char sign = *math->at;
	math->at += 2;
	return math_step(math, name, n, sign, true, value);
}

static lk_status math_atom(struct math *math, long long *value) {
	*value = 0;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	math_skip_blanks(math);
	struct math ahead = *math;
	if (math_is_step(math, math->at)) {
		ahead.at += 2;
		math_skip_blanks(&ahead);
	}
	size_t stepped = ahead.at > math->at ? lk_shell_name(ahead.at, math->end) : 0;
	if (stepped > 0) {
		char sign = *math->at;
		math->at = ahead.at + stepped;
		LK_TRY(math_step(math, ahead.at, stepped, sign, false, value));
	} else if (math_take(math, '-')) {
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
		LK_TRY(math_sequence(math, value));
		if (!math_take(math, ')') && math->at < math->end) LK_TRY(math_other(math));
		else if (math->at[-1] != ')' && math->unknown == NULL)
			return lk_shell_fail(math->s, math->line, "a bracket in $((...)) is not closed",
			                     "close it");
	} else if (math->at < math->end && isdigit((unsigned char)*math->at)) {
		bool large = false;
		if (!math_digits(math, value, &large)) LK_TRY(math_other(math));
		if (large) return math_large(math);
	} else if (math->at < math->end) {
		LK_TRY(math_variable(math, value));
	} else {
		return lk_shell_fail(math->s, math->line, "$((...)) ends where a number is expected",
		                     "write the result");
	}
	math->depth--;
	return LK_OK;
}

/* Find the next operator if it binds at least as tightly as `level`; NULL: none. */
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

/* left ** right; true if it overflows. */
static bool math_power(long long left, long long right, long long *value) {
	if (left >= -1 && left <= 1 && right > 2) right = 2 - right % 2;
	for (*value = 1; right > 0; right--)
		if (__builtin_mul_overflow(*value, left, value)) return true;
	return false;
}

/* left OP right; 0 if the operands do not affect the result, or one is unknown. */
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

/* Evaluate operands joined by operators that bind at least as tightly as `level`. */
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
		/* powers associate to the right */
		LK_TRY(math_joined(math, op->level + (strcmp(op->text, "**") != 0), &right));
		math->passed -= settled;
		if (either || both) *value = either ? left || right : left && right;
		else LK_TRY(math_apply(math, op->text, left, right, value));
	}
	math->depth--;
	return LK_OK;
}

/* Length of the operator of NAME = ..., NAME += ...; 0: none is here. */
static size_t math_assigns(const char *at, const char *end) {
	static const char *const operators[] = {
		"<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "="};
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		size_t length = strlen(operators[i]);
		if ((size_t)(end - at) < length || strncmp(at, operators[i], length) != 0) continue;
		return length == 1 && end - at > 1 && at[1] == '=' ? 0 : length;
	}
	return 0;
}

/* NAME = value, NAME += value; *is false: not an assignment. */
static lk_status math_assignment(struct math *math, long long *value, bool *is) {
	struct math ahead = *math;
	math_skip_blanks(&ahead);
	const char *name = ahead.at;
	size_t length = lk_shell_name(name, math->end);
	ahead.at += length;
	bool element = length > 0 && ahead.at < math->end && *ahead.at == '[';
	if (element) ahead.at = lk_shell_close(ahead.at, math->end, '[', ']');
	*is = false;
	if (length == 0 || ahead.at == NULL) return LK_OK;
	math_skip_blanks(&ahead);
	size_t op = math_assigns(ahead.at, math->end);
	if (op == 0) return LK_OK;
	*is = true;
	long long before = 0, right;
	const char sign[3] = {ahead.at[0], op == 3 ? ahead.at[1] : '\0', '\0'};
	math->at = ahead.at + op;
	if (op > 1 && !element) LK_TRY(math_value_of(math, name, length, &before));
	LK_TRY(math_choice(math, &right));
	if (element) {
		LK_TRY(math_spoil(math, name, length));
		return math_forget(
			math, lk_shell_unknown(math->s, math->line, name, length, "is set by $((...))"));
	}
	*value = right;
	if (op > 1) LK_TRY(math_apply(math, sign, before, right, value));
	return math_set(math, name, length, *value);
}

/* condition ? a : b, or an assignment */
static lk_status math_choice(struct math *math, long long *value) {
	long long yes, no = 0;
	bool assigns;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	LK_TRY(math_assignment(math, value, &assigns));
	if (!assigns) LK_TRY(math_joined(math, 1, value));
	math->depth--;
	if (assigns || !math_take(math, '?')) return LK_OK;
	if (++math->depth > 64)
		return lk_shell_fail(math->s, math->line, "$((...)) is nested too deeply",
		                     "write the result");
	bool known = math->unknown == NULL, first = *value != 0;
	math->passed += known && !first;
	LK_TRY(math_sequence(math, &yes));
	math->passed += (known && first) - (known && !first);
	if (!math_take(math, ':')) LK_TRY(math_other(math));
	else LK_TRY(math_choice(math, &no));
	math->passed -= known && first;
	math->depth--;
	*value = first ? yes : no;
	return LK_OK;
}

/* Comma-separated expressions: the last is the value. */
static lk_status math_sequence(struct math *math, long long *value) {
	LK_TRY(math_choice(math, value));
	while (math_take(math, ',')) LK_TRY(math_choice(math, value));
	return LK_OK;
}

lk_status lk_shell_math(lk_shell *shell, const char *at, const char *end, int line,
                        lk_shell_expander *expand, long long *value, const char **unknown) {
	struct math m = {.s = shell, .at = at, .end = end, .line = line, .expand = expand};
	*unknown = NULL;
	*value = 0;
	if (memchr(at, '$', (size_t)(end - at)) != NULL ||
	    memchr(at, '`', (size_t)(end - at)) != NULL) {
		/* $N is replaced by its text first: N=1+1; $(($N * 2)) is 3 */
		lk_raw raw = {at, end, line};
		lk_word word;
		LK_TRY(expand(shell, &raw, &word));
		if (word.unknown == NULL) {
			m.at = word.text;
			m.end = end = word.text + strlen(word.text);
		}
	}
	math_skip_blanks(&m);
	if (m.at == end) return LK_OK;
	LK_TRY(math_sequence(&m, value));
	math_skip_blanks(&m);
	if (m.at < end) LK_TRY(math_other(&m));
	if (*value > 1LL << 53 || *value < -(1LL << 53))
		return lk_shell_fail(shell, line, "$((...)) is too large", "write smaller numbers");
	*unknown = m.unknown;
	return LK_OK;
}
