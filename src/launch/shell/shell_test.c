/* shell_test.c: conditions of test, [ ] and [[ ]] as far as texts and numbers decide them; files
 * are not looked at. */
#include "launch/shell/shell.h"

#include <stdlib.h>
#include <string.h>

static bool test_is(const lk_word *word, const char *text) {
	return strcmp(word->text, text) == 0;
}

static lk_truth test_truth(bool value) {
	return value ? LK_SHELL_TRUE : LK_SHELL_FALSE;
}

static lk_truth negate(lk_truth value) {
	return value == LK_SHELL_UNKNOWN ? LK_SHELL_UNKNOWN : test_truth(value == LK_SHELL_FALSE);
}

static lk_truth compare_numbers(const char *op, const char *a, const char *b) {
	char *end_a, *end_b;
	long long x = strtoll(a, &end_a, 10), y = strtoll(b, &end_b, 10);
	if (end_a == a || *end_a != '\0' || end_b == b || *end_b != '\0') return LK_SHELL_UNKNOWN;
	if (strcmp(op, "-eq") == 0) return test_truth(x == y);
	if (strcmp(op, "-ne") == 0) return test_truth(x != y);
	if (strcmp(op, "-gt") == 0) return test_truth(x > y);
	if (strcmp(op, "-ge") == 0) return test_truth(x >= y);
	if (strcmp(op, "-lt") == 0) return test_truth(x < y);
	if (strcmp(op, "-le") == 0) return test_truth(x <= y);
	return LK_SHELL_UNKNOWN;
}

/* One comparison of one to three words. */
static lk_truth simple(const lk_word *word, size_t count) {
	if (count > 1 && test_is(&word[0], "!")) return negate(simple(word + 1, count - 1));
	for (size_t i = 0; i < count; i++)
		if (word[i].unknown != NULL) return LK_SHELL_UNKNOWN;
	if (count == 0) return LK_SHELL_FALSE;
	if (count == 1) return test_truth(word[0].text[0] != '\0');
	if (count == 2 && test_is(&word[0], "-z")) return test_truth(word[1].text[0] == '\0');
	if (count == 2 && test_is(&word[0], "-n")) return test_truth(word[1].text[0] != '\0');
	if (count != 3) return LK_SHELL_UNKNOWN;
	bool same = test_is(&word[1], "=") || test_is(&word[1], "==");
	if (!same && !test_is(&word[1], "!="))
		return compare_numbers(word[1].text, word[0].text, word[2].text);
	if (strpbrk(word[2].text, "*?[") != NULL) return LK_SHELL_UNKNOWN; /* a pattern inside [[ ]] */
	return test_truth((strcmp(word[0].text, word[2].text) == 0) == same);
}

static lk_truth test_both(lk_truth a, lk_truth b) {
	if (a == LK_SHELL_FALSE || b == LK_SHELL_FALSE) return LK_SHELL_FALSE;
	if (a == LK_SHELL_TRUE && b == LK_SHELL_TRUE) return LK_SHELL_TRUE;
	return LK_SHELL_UNKNOWN;
}

lk_truth lk_shell_test(const lk_word *words, size_t count) {
	if (count == 0) return LK_SHELL_FALSE;
	/* a || b && c: the sum of products. */
	lk_truth any = LK_SHELL_FALSE, all = LK_SHELL_TRUE;
	for (size_t from = 0, i = 0; i <= count; i++) {
		bool conjunction = i < count && test_is(&words[i], "&&"),
			 disjunction = i < count && test_is(&words[i], "||");
		if (i < count && !conjunction && !disjunction) continue;
		all = test_both(all, simple(words + from, i - from));
		from = i + 1;
		if (conjunction) continue;
		if (any == LK_SHELL_TRUE || all == LK_SHELL_TRUE) any = LK_SHELL_TRUE;
		else if (any == LK_SHELL_FALSE && all == LK_SHELL_FALSE) any = LK_SHELL_FALSE;
		else any = LK_SHELL_UNKNOWN;
		all = LK_SHELL_TRUE;
	}
	return any;
}
