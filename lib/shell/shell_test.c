/* shell_test.c: conditions of test, [ ] and [[ ]] as far as texts and numbers decide them; files
 * are not looked at. test and [ ] see the words that expansions leave, whose number decides what
 * they mean (POSIX.1-2017, test); [[ ]] sees the words as they are written, with patterns, sums and
 * brackets (bash's manual, Conditional Constructs). */
#include "shell/shell.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool test_is(const lk_word *word, const char *text) {
	return word->unknown == NULL && strcmp(word->text, text) == 0;
}

static lk_truth test_truth(bool value) {
	return value ? LK_SHELL_TRUE : LK_SHELL_FALSE;
}

static lk_truth test_not(lk_truth value) {
	return value == LK_SHELL_UNKNOWN ? LK_SHELL_UNKNOWN : test_truth(value == LK_SHELL_FALSE);
}

static lk_truth test_both(lk_truth a, lk_truth b) {
	if (a == LK_SHELL_FALSE || b == LK_SHELL_FALSE) return LK_SHELL_FALSE;
	if (a == LK_SHELL_TRUE && b == LK_SHELL_TRUE) return LK_SHELL_TRUE;
	return LK_SHELL_UNKNOWN;
}

static lk_truth test_either(lk_truth a, lk_truth b) {
	return test_not(test_both(test_not(a), test_not(b)));
}

/* Text of a word; NULL: only execution could determine it. Arguments that nobody has given are
 * empty if the test asks for emptiness, otherwise unknown. */
static const char *test_text(const lk_word *word, bool emptiness, bool *assumed) {
	*assumed |= word->unknown == NULL && word->empty_if_unset;
	if (word->unknown == NULL) return word->text;
	if (!word->empty_if_unset || (word->argument && !emptiness)) return NULL;
	*assumed = true;
	return "";
}

static bool test_compares(const char *op) {
	static const char *const numbers[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strcmp(op, numbers[i]) == 0) return true;
	return false;
}

static lk_truth test_numbers(const char *op, long long x, long long y) {
	if (strcmp(op, "-eq") == 0) return test_truth(x == y);
	if (strcmp(op, "-ne") == 0) return test_truth(x != y);
	if (strcmp(op, "-gt") == 0) return test_truth(x > y);
	if (strcmp(op, "-ge") == 0) return test_truth(x >= y);
	if (strcmp(op, "-lt") == 0) return test_truth(x < y);
	return test_truth(x <= y);
}

/* -v NAME: whether the variable has a value. */
static lk_truth test_is_set(const lk_shell *shell, const char *name) {
	uint32_t id = lk_intern_find(shell->names, name);
	const lk_shell_var *var = id < shell->vars.count ? &shell->vars.at[id] : NULL;
	if (var == NULL || !var->set || strchr(name, '[') != NULL) return LK_SHELL_UNKNOWN;
	if (var->values.count > 0 && var->values.at[0].unknown != NULL) return LK_SHELL_UNKNOWN;
	return test_truth(lk_shell_element(var, "0") != NULL);
}

/* ---- test and [ ] ---- */

struct test {
	const lk_shell *shell;
	const lk_word *words;
	size_t count, at;
	bool *assumed;
	bool wrong; /* an error of the shell, which makes the test fail */
	bool deep;  /* nested too deeply to be evaluated */
	int depth;
};

/* Read an integer; anything else is an error, but an unset variable is 0, as scripts intend. */
static bool test_integer(struct test *test, const lk_word *word, long long *value, bool *known) {
	char *end;
	const char *text = test_text(word, false, test->assumed);
	*known = text != NULL;
	if (text == NULL) return true;
	*value = strtoll(text, &end, 10);
	bool unset = *text == '\0' && (word->unknown != NULL || word->empty_if_unset);
	while (isspace((unsigned char)*end)) end++;
	return unset || (end > text && *end == '\0' && isdigit((unsigned char)end[-1]));
}

static bool test_is_binary(const lk_word *word) {
	static const char *const other[] = {"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"};
	if (word->unknown != NULL) return false;
	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		if (strcmp(word->text, other[i]) == 0) return true;
	return test_compares(word->text);
}

static lk_truth test_binary(struct test *test, const lk_word *word) {
	const char *op = word[1].text;
	bool emptiness = word[2].unknown == NULL && *word[2].text == '\0';
	if (test_compares(op)) {
		long long x = 0, y = 0;
		bool known_x, known_y, good = test_integer(test, &word[0], &x, &known_x);
		good &= test_integer(test, &word[2], &y, &known_y);
		test->wrong |= !good;
		if (!good) return LK_SHELL_FALSE;
		return known_x && known_y ? test_numbers(op, x, y) : LK_SHELL_UNKNOWN;
	}
	bool same = strcmp(op, "=") == 0 || strcmp(op, "==") == 0;
	const char *a = test_text(&word[0], emptiness, test->assumed),
			   *b = test_text(&word[2], emptiness, test->assumed);
	if (a == NULL || b == NULL || (!same && strcmp(op, "!=") != 0)) return LK_SHELL_UNKNOWN;
	return test_truth((strcmp(a, b) == 0) == same);
}

static lk_truth test_unary(struct test *test, const lk_word *word) {
	const char *text = test_text(&word[1], true, test->assumed);
	if (text == NULL) return LK_SHELL_UNKNOWN;
	if (strcmp(word->text, "-z") == 0) return test_truth(*text == '\0');
	if (strcmp(word->text, "-n") == 0) return test_truth(*text != '\0');
	if (strcmp(word->text, "-v") == 0) return test_is_set(test->shell, text);
	return LK_SHELL_UNKNOWN;
}

static lk_truth test_single(struct test *test, const lk_word *word) {
	const char *text = test_text(word, true, test->assumed);
	return text != NULL ? test_truth(*text != '\0') : LK_SHELL_UNKNOWN;
}

static bool test_is_unary(const lk_word *word) {
	return word->unknown == NULL && word->text[0] == '-' && isalpha((unsigned char)word->text[1]) &&
	       word->text[2] == '\0' && strchr("ao", word->text[1]) == NULL;
}

static lk_truth test_any(struct test *test);

/* Evaluate one comparison, or the test in parentheses or after '!'. */
static lk_truth test_one(struct test *test) {
	const lk_word *word = test->words + test->at;
	size_t left = test->count - test->at;
	if (left == 0) {
		test->wrong = true;
		return LK_SHELL_FALSE;
	}
	if (left >= 3 && test_is_binary(&word[1])) {
		test->at += 3;
		return test_binary(test, word);
	}
	bool not = left >= 2 && test_is(word, "!"), open = left >= 3 && test_is(word, "(");
	if ((not || open) && test->depth == LK_SHELL_DEPTH) {
		test->deep = true;
		test->at = test->count;
		return LK_SHELL_UNKNOWN;
	}
	if (not ) {
		test->at++;
		test->depth++;
		lk_truth inner = test_one(test);
		test->depth--;
		return test_not(inner);
	}
	if (open) {
		test->at++;
		test->depth++;
		lk_truth inner = test_any(test);
		test->depth--;
		test->wrong |= test->at >= test->count || !test_is(&test->words[test->at], ")");
		test->at++;
		return inner;
	}
	bool unary = left >= 2 && test_is_unary(word);
	test->at += unary ? 2 : 1;
	return unary ? test_unary(test, word) : test_single(test, word);
}

static lk_truth test_all(struct test *test) {
	lk_truth all = test_one(test);
	while (test->at < test->count && test_is(&test->words[test->at], "-a")) {
		test->at++;
		all = test_both(all, test_one(test));
	}
	return all;
}

static lk_truth test_any(struct test *test) {
	lk_truth any = test_all(test);
	while (test->at < test->count && test_is(&test->words[test->at], "-o")) {
		test->at++;
		any = test_either(any, test_all(test));
	}
	return any;
}

/* Evaluate by the number of words, as POSIX defines for few. */
static lk_truth test_counted(struct test *test, const lk_word *word, size_t count) {
	if (count == 0) return LK_SHELL_FALSE;
	if (count == 1) return test_single(test, word);
	if (count == 2 && test_is(word, "!")) return test_not(test_single(test, &word[1]));
	if (count == 2 && test_is_unary(word)) return test_unary(test, word);
	if (count == 2) {
		test->wrong = word->unknown == NULL;
		return test->wrong ? LK_SHELL_FALSE : LK_SHELL_UNKNOWN;
	}
	if (count == 3 && test_is_binary(&word[1])) return test_binary(test, word);
	if (count == 3 && test_is(&word[1], "-a"))
		return test_both(test_single(test, word), test_single(test, &word[2]));
	if (count == 3 && test_is(&word[1], "-o"))
		return test_either(test_single(test, word), test_single(test, &word[2]));
	if (count <= 4 && test_is(word, "!")) return test_not(test_counted(test, word + 1, count - 1));
	if (count <= 4 && test_is(word, "(") && test_is(&word[count - 1], ")"))
		return test_counted(test, word + 1, count - 2);
	lk_truth answer = test_any(test);
	test->wrong |= test->at != test->count;
	return answer;
}

lk_truth lk_shell_test(const lk_shell *shell, const lk_word *words, size_t count, bool *assumed) {
	struct test test = {.shell = shell, .words = words, .count = count, .assumed = assumed};
	lk_truth answer = test_counted(&test, words, count);
	if (test.deep) return LK_SHELL_UNKNOWN;
	bool unknown = false;
	for (size_t i = 0; i < count; i++) unknown |= words[i].unknown != NULL;
	if (test.wrong) return unknown ? LK_SHELL_UNKNOWN : LK_SHELL_FALSE;
	return answer;
}

/* ---- [[ ]] ---- */

struct long_test {
	lk_shell *shell;
	const lk_raw *words;
	size_t count, at;
	bool *assumed;
	bool other; /* contains a form that is not evaluated */
	int depth, passed;
};

static bool long_is(const struct long_test *test, size_t ahead, const char *text) {
	return test->at + ahead < test->count && lk_shell_raw_is(&test->words[test->at + ahead], text);
}

lk_truth lk_shell_match(const lk_word *subject, const lk_word *pattern, bool *assumed) {
	const char *text = test_text(subject, false, assumed),
			   *wanted = test_text(pattern, false, assumed);
	if (wanted != NULL && strcmp(wanted, "*") == 0) return LK_SHELL_TRUE;
	if (text == NULL || wanted == NULL) return LK_SHELL_UNKNOWN;
	return test_truth(fnmatch(wanted, text, 0) == 0);
}

static lk_status long_sum(struct long_test *test, const lk_raw *raw, long long *value,
                          bool *known) {
	lk_word word;
	const char *unknown = NULL;
	LK_TRY(lk_shell_expand_one(test->shell, raw, &word));
	const char *text = test_text(&word, false, test->assumed);
	*known = text != NULL;
	*value = 0;
	if (text == NULL) return LK_OK;
	LK_TRY(lk_shell_math(test->shell, text, text + strlen(text), raw->line, lk_shell_expand_one,
	                     value, &unknown));
	*known = unknown == NULL;
	return LK_OK;
}

static lk_status long_binary(struct long_test *test, const lk_raw *word, lk_truth *answer) {
	bool same = lk_shell_raw_is(&word[1], "=") || lk_shell_raw_is(&word[1], "=="),
		 differs = lk_shell_raw_is(&word[1], "!=");
	char op[4] = "";
	for (size_t i = 0; i < 3 && word[1].at + i < word[1].end; i++) op[i] = word[1].at[i];
	*answer = LK_SHELL_UNKNOWN;
	if (same || differs) {
		lk_word subject, pattern;
		LK_TRY(lk_shell_expand_one(test->shell, &word[0], &subject));
		LK_TRY(lk_shell_expand_pattern(test->shell, &word[2], &pattern));
		bool emptiness = pattern.unknown == NULL && *pattern.text == '\0';
		if (emptiness) subject.argument = false;
		*answer = lk_shell_match(&subject, &pattern, test->assumed);
		if (differs) *answer = test_not(*answer);
	} else if (word[1].end - word[1].at == 3 && test_compares(op)) {
		long long x, y;
		bool known_x, known_y;
		LK_TRY(long_sum(test, &word[0], &x, &known_x));
		LK_TRY(long_sum(test, &word[2], &y, &known_y));
		if (known_x && known_y) *answer = test_numbers(op, x, y);
	}
	return LK_OK;
}

static bool long_is_binary(const lk_raw *raw) {
	static const char *const other[] = {"=", "==", "!=", "<", ">", "=~", "-nt", "-ot", "-ef"};
	char op[4] = "";
	if (raw->end - raw->at > 3) return false;
	memcpy(op, raw->at, (size_t)(raw->end - raw->at));
	for (size_t i = 0; i < sizeof other / sizeof *other; i++)
		if (strcmp(op, other[i]) == 0) return true;
	return test_compares(op);
}

static lk_status long_any(struct long_test *test, lk_truth *answer);

/* -n WORD, -v NAME, -f FILE */
static lk_status long_unary(struct long_test *test, char op, const lk_raw *raw, lk_truth *answer) {
	lk_word word;
	LK_TRY(lk_shell_expand_one(test->shell, raw, &word));
	const char *text = test_text(&word, true, test->assumed);
	*answer = LK_SHELL_UNKNOWN;
	if (text == NULL) return LK_OK;
	if (op == 'z') *answer = test_truth(*text == '\0');
	if (op == 'n') *answer = test_truth(*text != '\0');
	if (op == 'v') *answer = test_is_set(test->shell, text);
	return LK_OK;
}

static lk_status long_one(struct long_test *test, lk_truth *answer) {
	const lk_raw *word = test->words + test->at;
	size_t left = test->count - test->at;
	*answer = LK_SHELL_UNKNOWN;
	if (left == 0 || ++test->depth > LK_SHELL_DEPTH) {
		test->other = true;
		return LK_OK;
	}
	size_t length = (size_t)(word->end - word->at);
	bool unary = length == 2 && word->at[0] == '-' && left > 1 &&
	             strchr("abcdefghknoprstuvwxzGLNORS", word->at[1]) != NULL;
	if (long_is(test, 0, "!")) {
		test->at++;
		LK_TRY(long_one(test, answer));
		*answer = test_not(*answer);
	} else if (long_is(test, 0, "(")) {
		test->at++;
		LK_TRY(long_any(test, answer));
		test->other |= !long_is(test, 0, ")");
		test->at++;
	} else if (left >= 3 && !unary && long_is_binary(&word[1])) {
		test->at += 3;
		if (test->passed == 0) LK_TRY(long_binary(test, word, answer));
	} else {
		test->at += unary ? 2 : 1;
		if (test->passed == 0)
			LK_TRY(long_unary(test, unary ? word->at[1] : 'n', &word[unary], answer));
	}
	test->depth--;
	return LK_OK;
}

/* Evaluate parts joined by && or ||; those that no longer matter are read, but not expanded. */
static lk_status long_joined(struct long_test *test, const char *op, lk_truth *answer,
                             lk_status (*part)(struct long_test *test, lk_truth *answer)) {
	bool both = *op == '&';
	LK_TRY(part(test, answer));
	while (long_is(test, 0, op) && !test->other) {
		lk_truth next;
		bool settled = *answer == (both ? LK_SHELL_FALSE : LK_SHELL_TRUE);
		lk_truth certain = test->shell->certain;
		if (*answer == LK_SHELL_UNKNOWN && certain == LK_SHELL_TRUE)
			test->shell->certain = LK_SHELL_UNKNOWN;
		test->at++;
		test->passed += settled;
		LK_TRY(part(test, &next));
		test->passed -= settled;
		test->shell->certain = certain;
		if (!settled) *answer = both ? test_both(*answer, next) : test_either(*answer, next);
	}
	return LK_OK;
}

static lk_status long_all(struct long_test *test, lk_truth *answer) {
	return long_joined(test, "&&", answer, long_one);
}

static lk_status long_any(struct long_test *test, lk_truth *answer) {
	return long_joined(test, "||", answer, long_all);
}

lk_status lk_shell_test_raw(lk_shell *shell, const lk_raw *words, size_t count, bool *assumed,
                            lk_truth *answer) {
	struct long_test test = {.shell = shell, .words = words, .count = count, .assumed = assumed};
	LK_TRY(long_any(&test, answer));
	if (test.other || test.at != count) *answer = LK_SHELL_UNKNOWN;
	return LK_OK;
}
