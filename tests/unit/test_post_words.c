/* test_post_words.c: the words of --rollout: a text and a file of any form say the same; what is
 * wrong is refused at its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/stats.h"
#include "base/text.h"
#include "options/rollout_words.h"
#include "rounds.h"
#include "scratch.h"

enum { YAML, TOML, JSON, FORMS, TEXT = 8192 };

static double number_at(const lk_rollout_words *words, const lk_rollout_word *word) {
	double number;
	memcpy(&number, (const char *)words + word->offset, sizeof number);
	return number;
}

static const char *name_at(const lk_rollout_words *words, const lk_rollout_word *word) {
	const char *name;
	memcpy(&name, (const char *)words + word->offset, sizeof name);
	return name;
}

static void same_words(const lk_rollout_words *a, const lk_rollout_words *b) {
	size_t count;
	const lk_rollout_word *words = lk_rollout_word_list(&count);
	for (size_t i = 0; i < count; i++) {
		if (words[i].kind == LK_ROLLOUT_NAME)
			assert_true(lk_same_text(name_at(a, &words[i]), name_at(b, &words[i])));
		else if (number_at(a, &words[i]) != number_at(b, &words[i]))
			fail_msg("%s: %g is not %g", words[i].name, number_at(a, &words[i]),
			         number_at(b, &words[i]));
	}
}

static lk_rollout_words read_words(lk_arena *arena, const char *text) {
	lk_rollout_words words;
	lk_error err;
	lk_rollout_words_begin(&words);
	if (lk_rollout_words_read(arena, text, &words, &err) != LK_OK)
		fail_msg("%s: %s: %s", text, err.where, err.what);
	return words;
}

/* A legal value of the word, in `text`, and as a file writes it. */
static void draw_value(const lk_rollout_word *word, uint64_t seed, uint64_t at, int form,
                       char text[64], char written[64]) {
	double part = lk_uniform(seed, 2 * at), number;
	number = word->low + part * (word->high - word->low);
	if (word->kind != LK_ROLLOUT_REAL) number = (double)(long long)(number + 0.5);
	if (word->kind == LK_ROLLOUT_NAME) {
		snprintf(text, 64, "org/network-%d", (int)(100 * part));
		snprintf(written, 64, "\"%s\"", text);
		return;
	}
	lk_format_shortest(number, text, 64);
	bool truth =
		word->kind == LK_ROLLOUT_SWITCH && form != TOML && part * 10 - (int)(part * 10) < 0.5;
	lk_copy(written, 64, truth ? (number > 0 ? "true" : "false") : text);
}

/* Draw words as text and as the content of a file; false if there are none. */
static bool draw_words(uint64_t seed, int form, lk_text *line, lk_text *file) {
	static const char *const head[FORMS] = {"", "", "{"}, *const tail[FORMS] = {"", "", "}"};
	static const char *const between[FORMS] = {": ", " = ", ": "};
	static const char *const quote[FORMS] = {"", "", "\""}, *const end[FORMS] = {"\n", "\n", ","};
	size_t count, drawn = 0;
	const lk_rollout_word *words = lk_rollout_word_list(&count);
	lk_text_add(file, "%s", head[form]);
	for (size_t i = 0; i < count; i++) {
		char value[64], written[64];
		if (lk_uniform(seed, 2 * i + 1) < 0.5) continue;
		draw_value(&words[i], seed, i, form, value, written);
		lk_text_add(line, "%s%s=%s", drawn ? seed % 2 ? " " : "," : "", words[i].name, value);
		if (drawn++) lk_text_add(file, "%s", end[form]);
		lk_text_add(file, "%s%s%s%s%s", quote[form], words[i].name, quote[form], between[form],
		            written);
	}
	lk_text_add(file, "%s\n", tail[form]);
	return drawn > 0;
}

static void a_file_says_what_the_text_says(void **state) {
	(void)state;
	static const char *const names[FORMS] = {"rollout.yaml", "rollout.toml", "rollout.json"};
	for (uint64_t seed = 1; seed <= (uint64_t)trials(60); seed++) {
		int form = (int)(seed % FORMS);
		char said[TEXT], content[TEXT];
		lk_text line = lk_text_begin(said, sizeof said);
		lk_text file = lk_text_begin(content, sizeof content);
		if (!draw_words(seed, form, &line, &file)) continue;
		lk_arena arena = LK_ARENA_INIT;
		lk_rollout_words text = read_words(&arena, said);
		lk_rollout_words same = read_words(&arena, write_in(scratch, names[form], content));
		same_words(&text, &same);
		lk_arena_free(&arena);
	}
}

static void later_words_override(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	char text[512];
	const char *path = write_in(scratch, "over.yaml", "lag: 3\ntp: 2\n");
	snprintf(text, sizeof text, "lag=1 tp=4,%s lag=5", path);
	lk_rollout_words words = read_words(&arena, text);
	assert_true(words.lag == 5 && words.tp == 2 && words.pp == 1);
	lk_arena_free(&arena);
}

/* Read `name` with this value, as text and from a file: both accept it, or both refuse it. */
static void judged_alike(const char *name, double value, bool legal) {
	char number[64], text[128];
	lk_rollout_words words;
	lk_format_shortest(value, number, sizeof number);
	for (int file = 0; file < 2; file++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err = {0};
		snprintf(text, sizeof text, file ? "%s: %s\n" : "%s=%s", name, number);
		const char *said = file ? write_in(scratch, "limits.yaml", text) : text;
		lk_status status = lk_rollout_words_read(&arena, said, &words, &err);
		if (status != (legal ? LK_OK : LK_ERR_INPUT)) fail_msg("%s: %s", text, err.what);
		if (!legal) assert_non_null(strstr(err.where, file ? "limits.yaml:1:" : "--rollout"));
		if (!legal) assert_non_null(strstr(err.what, name));
		lk_arena_free(&arena);
	}
}

static void limits_hold(void **state) {
	(void)state;
	size_t count;
	const lk_rollout_word *words = lk_rollout_word_list(&count);
	for (size_t i = 0; i < count; i++) {
		const lk_rollout_word *word = &words[i];
		if (word->kind == LK_ROLLOUT_NAME) continue;
		judged_alike(word->name, word->low, true);
		judged_alike(word->name, word->high, true);
		judged_alike(word->name, word->low - 1, false);
		judged_alike(word->name, word->high + 1, false);
		judged_alike(word->name, word->low + 0.5, word->kind == LK_ROLLOUT_REAL);
	}
}

static void wrong_files_are_refused(void **state) {
	(void)state;
	static const char *const wrong[][4] = {
		{"a.yaml", "lag: 1\nlagg: 2\n", "a.yaml:2:", "unknown word 'lagg'"},
		{"b.yaml", "lag: 1\ntp: 2\nlag: 2\n", "b.yaml:3:", "lag is given twice"},
		{"b.json", "{\"lag\": 1,\n \"lag\": 1}", "b.json:2:", "lag is given twice"},
		{"b.toml", "lag = 1\nlag = 1\n", "b.toml:2:", "invalid TOML: a key is given twice"},
		{"c.yaml", "lag: [1]\n",
	     "c.yaml:1:", "lag must be a whole number from 0 to 64, not 'a list'"},
		{"d.yaml", "lag: '1'\n", "d.yaml:1:", "lag must be a whole number from 0 to 64, not '1'"},
		{"e.yaml", "critic: 5\n", "e.yaml:1:", "critic must be a text, not '5'"},
		{"f.yaml", "sleep: 2\n", "f.yaml:1:", "sleep must be 0 or 1, not '2'"},
		{"g.yaml", "lag: true\n",
	     "g.yaml:1:", "lag must be a whole number from 0 to 64, not 'true'"},
		{"h.yaml", "", "h.yaml", "the document is not a map of words"},
		{"i.json", "[1]", "i.json", "the document is not a map of words"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_rollout_words words;
		const char *path = write_in(scratch, wrong[i][0], wrong[i][1]);
		assert_int_equal(lk_rollout_words_read(&arena, path, &words, &err), LK_ERR_INPUT);
		assert_non_null(strstr(err.where, wrong[i][2]));
		assert_string_equal(err.what, wrong[i][3]);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_says_what_the_text_says),
		cmocka_unit_test(later_words_override),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(wrong_files_are_refused),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
