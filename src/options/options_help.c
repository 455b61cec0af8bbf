/* options_help.c: help for people, wrapped at 100 columns. */
#include <math.h>
#include <string.h>
#include "base/check.h"
#include "options/options_internal.h"
#include "options/rollout_words.h"
#include "base/text.h"

enum { COLUMNS = 100, HELP_COLUMN = 30, LABEL_SIZE = 128, NOTE_SIZE = 512 };

/* ---- what the man page and completion say too ---- */

const char *lk_option_value(const lk_option *option) {
	if (lk_option_is_switch(option)) return "";
	if (option->value) return option->value;
	if (option->kind == LK_OPTION_TEXT || option->kind == LK_OPTION_LINES) return "TEXT";
	if (option->kind == LK_OPTION_CHOICE) return "NAME";
	return "N";
}

bool lk_option_is_path(const lk_option *option) {
	const char *value = lk_option_value(option);
	return option->kind == LK_OPTION_TEXT &&
	       (strstr(value, "FILE") || strstr(value, "DIR") || strstr(value, "PATH"));
}

bool lk_verb_sweeps(const lk_verb *verb) {
	for (const lk_option *option = verb->options; option && option->name; option++) {
		if (option->sweep) return true;
	}
	return false;
}

/* Writes "1 to 64" or "at least 0"; limits of 1e15 and more are no limits for people. */
static void note_limits(lk_text *note, const lk_option *option) {
	bool low = isfinite(option->low) && option->low > -1e15;
	bool high = isfinite(option->high) && option->high < 1e15;
	if (low && high) lk_text_add(note, "%.12g to %.12g", option->low, option->high);
	else if (low) lk_text_add(note, "at least %.12g", option->low);
	else if (high) lk_text_add(note, "at most %.12g", option->high);
}

char *lk_option_note(const lk_option *option, char *out, size_t size) {
	lk_text note = lk_text_begin(out, size);
	bool number = option->kind == LK_OPTION_INT || option->kind == LK_OPTION_REAL ||
	              option->kind == LK_OPTION_COUNT;
	if (number && (option->low != 0 || option->high != 0)) note_limits(&note, option);
	if (option->kind == LK_OPTION_CHOICE) {
		for (size_t i = 0; option->choices[i]; i++)
			lk_text_add(&note, "%s%s", note.used ? ", " : "", option->choices[i]);
	}
	if (option->sweep) lk_text_add(&note, "%slist", note.used ? "; " : "");
	return out;
}

/* ---- wrapping ---- */

/* The place on the page: the column of the next character and the column where lines begin. */
struct page {
	FILE *out;
	int column, indent;
	bool colour;
};

/* Counts columns: bytes that do not continue a UTF-8 sequence. */
static int help_width(const char *text, size_t length) {
	int n = 0;
	for (size_t i = 0; i < length; i++) n += (text[i] & 0xc0) != 0x80;
	return n;
}

static void to_column(struct page *page, int column) {
	for (; page->column < column; page->column++) putc(' ', page->out);
}

static void help_end_line(struct page *page) {
	if (page->column) putc('\n', page->out);
	page->column = 0;
}

/* Writes words and breaks lines before COLUMNS; the line may hold words of earlier calls. */
static void wrap(struct page *page, const char *text) {
	LK_ASSERT(page->indent < COLUMNS);
	while (*(text += strspn(text, " \t\n"))) {
		size_t length = strcspn(text, " \t\n");
		int taken = help_width(text, length);
		if (page->column > page->indent && page->column + 1 + taken > COLUMNS) help_end_line(page);
		if (page->column <= page->indent) to_column(page, page->indent);
		else page->column += fprintf(page->out, " ");
		fwrite(text, 1, length, page->out);
		page->column += taken;
		text += length;
	}
}

static void heading(struct page *page, const char *text) {
	fprintf(page->out, "\n%s%s%s\n", page->colour ? "\033[1m" : "", text,
	        page->colour ? "\033[0m" : "");
}

/* Writes paragraphs, which blank lines separate; a line that begins with a blank or tab is written
 * as it is. */
static void help_paragraphs(struct page *page, const char *text) {
	page->indent = 0;
	while (*text) {
		size_t length = strcspn(text, "\n");
		if (length == 0) {
			help_end_line(page);
			putc('\n', page->out);
		} else if (*text == ' ' || *text == '\t') {
			help_end_line(page);
			fprintf(page->out, "%.*s\n", (int)length, text);
		} else {
			char line[4096];
			snprintf(line, sizeof line, "%.*s", (int)length, text);
			wrap(page, line);
		}
		text += length + (text[length] == '\n');
	}
	help_end_line(page);
}

/* ---- the page ---- */

static void help_usage(struct page *page, const lk_verb *verb) {
	page->indent = 4;
	page->column = fprintf(page->out, "Usage: lockstep");
	wrap(page, verb->name);
	wrap(page, "[OPTION...]");
	if (verb->operands) wrap(page, verb->operands);
	if (verb->rest) wrap(page, "[-- WORD...]");
	help_end_line(page);
}

static void one_option(struct page *page, const lk_option *option) {
	char label[LABEL_SIZE], note[NOTE_SIZE], bracketed[NOTE_SIZE + 4];
	const char *value = lk_option_value(option);
	const char *no = option->kind == LK_OPTION_SWITCH ? "[no-]" : "";
	char letter[] = "   ";
	if (option->letter) snprintf(letter, sizeof letter, "-%c,", option->letter);
	snprintf(label, sizeof label, "  %s --%s%s%s%s", letter, no, option->name, *value ? " " : "",
	         value);
	fputs(label, page->out);
	page->column = help_width(label, strlen(label));
	page->indent = HELP_COLUMN;
	if (page->column + 2 > HELP_COLUMN) help_end_line(page);
	wrap(page, option->help ? option->help : "");
	lk_option_note(option, note, sizeof note);
	snprintf(bracketed, sizeof bracketed, "[%s]", note);
	if (*note) wrap(page, bracketed);
	help_end_line(page);
}

bool lk_option_is_first(const lk_verb *verb, const lk_option *option) {
	return verb->first && lk_name_among(verb->first, option->name);
}

/* The options that most questions need, then the others under their headings. */
static void help_options(struct page *page, const lk_verb *verb) {
	if (verb->first) heading(page, "Most questions");
	for (const lk_option *option = verb->options; option && option->name; option++)
		if (lk_option_is_first(verb, option)) one_option(page, option);
	const char *group = verb->options && !verb->options->group ? "Options" : NULL;
	for (const lk_option *option = verb->options; option && option->name; option++) {
		if (option->group) group = option->group;
		if (lk_option_is_first(verb, option)) continue;
		if (group) heading(page, group);
		group = NULL;
		one_option(page, option);
	}
	if (!lk_verb_sweeps(verb)) return;
	putc('\n', page->out);
	page->indent = 0;
	wrap(page, LK_SWEEP_NOTE);
	help_end_line(page);
}

static void help_examples(struct page *page, const lk_verb *verb) {
	if (!verb->examples || !verb->examples[0]) return;
	heading(page, "Examples");
	for (size_t i = 0; verb->examples[i]; i += 2) {
		fprintf(page->out, "  %s\n", verb->examples[i]);
		if (!verb->examples[i + 1]) break;
		page->indent = 6;
		wrap(page, verb->examples[i + 1]);
		help_end_line(page);
	}
}

void lk_verb_help(const lk_verb *verb, bool colour, FILE *out) {
	struct page p = {.out = out, .colour = colour};
	if (verb->summary) fprintf(out, "%s\n\n", verb->summary);
	help_usage(&p, verb);
	if (verb->description && *verb->description) {
		putc('\n', out);
		help_paragraphs(&p, verb->description);
	}
	help_options(&p, verb);
	help_examples(&p, verb);
}

/* ---- a topic ---- */

static void one_rollout_word(struct page *page, const lk_rollout_word *word) {
	char note[NOTE_SIZE];
	page->column = fprintf(page->out, "  %s=%s", word->name, word->unit);
	page->indent = HELP_COLUMN;
	if (page->column + 2 > HELP_COLUMN) help_end_line(page);
	wrap(page, word->help);
	lk_text text = lk_text_begin(note, sizeof note);
	lk_text_add(&text, "[");
	if (word->kind == LK_ROLLOUT_COUNT || word->kind == LK_ROLLOUT_REAL)
		lk_text_add(&text, "%.10g to %.10g; ", word->low, word->high);
	if (word->left_out) lk_text_add(&text, "default: %s]", word->left_out);
	else lk_text_add(&text, "default: %.10g]", word->otherwise);
	wrap(page, note);
	help_end_line(page);
}

void lk_rollout_help(bool colour, FILE *out) {
	struct page page = {.out = out, .colour = colour};
	size_t count;
	const lk_rollout_word *words = lk_rollout_word_list(&count);
	help_paragraphs(&page,
	                "Words of --rollout, the engines and the other phases of a step of "
	                "reinforcement learning: \"sequences=1024 lag=1\", separated by blanks or "
	                "commas. Or a file in YAML, TOML or JSON with the words as keys: "
	                "rollout.yaml. Words after the file override it: "
	                "\"rollout.yaml lag=0\".\n");
	heading(&page, "Words");
	for (size_t i = 0; i < count; i++) one_rollout_word(&page, &words[i]);
}
