/* shell_test.c: conditions of test, [ ] and [[ ]] as far as texts and numbers decide them; files
 * are not looked at. */
#include "launch/shell/shell.h"

#include <fnmatch.h>
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
	/* what is empty counts as 0 */
	if ((*a != '\0' && end_a == a) || *end_a != '\0' || (*b != '\0' && end_b == b) ||
	    *end_b != '\0')
		return LK_SHELL_UNKNOWN;
	if (strcmp(op, "-eq") == 0) return test_truth(x == y);
	if (strcmp(op, "-ne") == 0) return test_truth(x != y);
	if (strcmp(op, "-gt") == 0) return test_truth(x > y);
	if (strcmp(op, "-ge") == 0) return test_truth(x >= y);
	if (strcmp(op, "-lt") == 0) return test_truth(x < y);
	if (strcmp(op, "-le") == 0) return test_truth(x <= y);
	return LK_SHELL_UNKNOWN;
}

/* The text of a word; NULL: only an execution could tell. Arguments that nobody has said are taken
 * as none where it is asked whether they are empty, and else as not known. */
static const char *test_text(const lk_word *word, bool emptiness, bool *assumed) {
	*assumed |= word->unknown == NULL && word->empty_if_unset;
	if (word->unknown == NULL) return word->text;
	if (!word->empty_if_unset || (word->argument && !emptiness)) return NULL;
	*assumed = true;
	return "";
}

/* One comparison of one to three words. */
static lk_truth simple(const lk_word *word, size_t count, bool *assumed) {
	const char *text[3];
	if (count > 1 && test_is(&word[0], "!")) return negate(simple(word + 1, count - 1, assumed));
	if (count == 0) return LK_SHELL_FALSE;
	if (count > 3) return LK_SHELL_UNKNOWN;
	bool emptiness = count == 2 || (count == 3 && *word[2].text == '\0');
	for (size_t i = 0; i < count; i++)
		if ((text[i] = test_text(&word[i], emptiness, assumed)) == NULL) return LK_SHELL_UNKNOWN;
	if (count == 1) return test_truth(text[0][0] != '\0');
	if (count == 2 && test_is(&word[0], "-z")) return test_truth(text[1][0] == '\0');
	if (count == 2 && test_is(&word[0], "-n")) return test_truth(text[1][0] != '\0');
	if (count == 2 && test_is(&word[1], "]")) return test_truth(text[0][0] != '\0');
	if (count != 3) return LK_SHELL_UNKNOWN;
	bool same = test_is(&word[1], "=") || test_is(&word[1], "==");
	if (!same && !test_is(&word[1], "!=")) return compare_numbers(word[1].text, text[0], text[2]);
	bool matches = strpbrk(text[2], "*?[") != NULL ? fnmatch(text[2], text[0], 0) == 0
	                                               : strcmp(text[0], text[2]) == 0;
	return test_truth(matches == same);
}

lk_truth lk_shell_match(const lk_word *subject, const lk_word *pattern, bool *assumed) {
	const char *text = test_text(subject, false, assumed),
			   *wanted = test_text(pattern, false, assumed);
	if (wanted != NULL && strcmp(wanted, "*") == 0) return LK_SHELL_TRUE;
	if (text == NULL || wanted == NULL) return LK_SHELL_UNKNOWN;
	return test_truth(fnmatch(wanted, text, 0) == 0);
}

static lk_truth test_both(lk_truth a, lk_truth b) {
	if (a == LK_SHELL_FALSE || b == LK_SHELL_FALSE) return LK_SHELL_FALSE;
	if (a == LK_SHELL_TRUE && b == LK_SHELL_TRUE) return LK_SHELL_TRUE;
	return LK_SHELL_UNKNOWN;
}

lk_truth lk_shell_test(const lk_word *words, size_t count, bool *assumed) {
	if (count == 0) return LK_SHELL_FALSE;
	/* a || b && c: the sum of products. */
	lk_truth any = LK_SHELL_FALSE, all = LK_SHELL_TRUE;
	for (size_t from = 0, i = 0; i <= count; i++) {
		bool conjunction =
				 i < count && i > from && (test_is(&words[i], "&&") || test_is(&words[i], "-a")),
			 disjunction =
				 i < count && i > from && (test_is(&words[i], "||") || test_is(&words[i], "-o"));
		if (i < count && !conjunction && !disjunction) continue;
		all = test_both(all, simple(words + from, i - from, assumed));
		from = i + 1;
		if (conjunction) continue;
		if (any == LK_SHELL_TRUE || all == LK_SHELL_TRUE) any = LK_SHELL_TRUE;
		else if (any == LK_SHELL_FALSE && all == LK_SHELL_FALSE) any = LK_SHELL_FALSE;
		else any = LK_SHELL_UNKNOWN;
		all = LK_SHELL_TRUE;
	}
	return any;
}
