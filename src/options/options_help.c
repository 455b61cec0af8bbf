/* options_help.c: help for people, wrapped at 100 columns. */
#include <math.h>
#include <string.h>
#include "options/options_internal.h"
#include "base/text.h"

enum { COLUMNS = 100, HELP_COLUMN = 30, LABEL_SIZE = 128, NOTE_SIZE = 512 };

/* ---- what other outputs say too ---- */

const char *lk_option_value(const lk_option *o) {
	if (lk_option_is_switch(o)) return "";
	return o->value ? o->value : o->kind == LK_OPTION_TEXT || o->kind == LK_OPTION_LINES ? "TEXT" : o->kind == LK_OPTION_CHOICE ? "NAME" : "N";
}

bool lk_option_is_path(const lk_option *o) {
	const char *value = lk_option_value(o);
	return o->kind == LK_OPTION_TEXT && (strstr(value, "FILE") || strstr(value, "DIR") || strstr(value, "PATH"));
}

bool lk_verb_sweeps(const lk_verb *verb) {
	for (const lk_option *o = verb->options; o && o->name; o++) {
		if (o->sweep) return true;
	}
	return false;
}

static void append(char *out, size_t size, const char *separator, const char *text) {
	size_t used = strlen(out);
	snprintf(out + used, size - used, "%s%s", used ? separator : "", text);
}

/* "1 to 64", "at least 0"; a limit that nobody can reach is not shown. */
static void note_limits(const lk_option *o, char *out, size_t size) {
	bool low = isfinite(o->low) && o->low > -1e15, high = isfinite(o->high) && o->high < 1e15;
	if (low && high) snprintf(out, size, "%.12g to %.12g", o->low, o->high);
	else if (low) snprintf(out, size, "at least %.12g", o->low);
	else if (high) snprintf(out, size, "at most %.12g", o->high);
}

char *lk_option_note(const lk_option *o, char *out, size_t size) {
	out[0] = '\0';
	bool number = o->kind == LK_OPTION_INT || o->kind == LK_OPTION_REAL || o->kind == LK_OPTION_COUNT;
	if (number && (o->low != 0 || o->high != 0)) note_limits(o, out, size);
	if (o->kind == LK_OPTION_CHOICE) {
		for (size_t i = 0; o->choices[i]; i++) append(out, size, ", ", o->choices[i]);
	}
	if (o->sweep) append(out, size, "; ", "list");
	return out;
}

/* ---- wrapping ---- */

/* A place on the page: the column that is written next and the column where lines begin. */
struct page {
	FILE *out;
	int column, indent;
	bool colour;
};

/* Columns that text takes: bytes that do not continue a UTF-8 sequence. */
static int width(const char *text, size_t length) {
	int n = 0;
	for (size_t i = 0; i < length; i++) n += (text[i] & 0xc0) != 0x80;
	return n;
}

static void to_column(struct page *p, int column) {
	for (; p->column < column; p->column++) putc(' ', p->out);
}

static void end_line(struct page *p) {
	if (p->column) putc('\n', p->out);
	p->column = 0;
}

/* Writes words, breaking lines before COLUMNS; words of earlier calls may stand on the line. */
static void wrap(struct page *p, const char *text) {
	while (*(text += strspn(text, " \t\n"))) {
		size_t length = strcspn(text, " \t\n");
		int taken = width(text, length);
		if (p->column > p->indent && p->column + 1 + taken > COLUMNS) end_line(p);
		if (p->column <= p->indent) to_column(p, p->indent);
		else p->column += fprintf(p->out, " ");
		fwrite(text, 1, length, p->out);
		p->column += taken;
		text += length;
	}
}

static void heading(struct page *p, const char *text) {
	fprintf(p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

/* Paragraphs are separated by blank lines; a line that begins with a blank or tab is kept as it is. */
static void paragraphs(struct page *p, const char *text) {
	p->indent = 0;
	while (*text) {
		size_t length = strcspn(text, "\n");
		if (length == 0) {
			end_line(p);
			putc('\n', p->out);
		} else if (*text == ' ' || *text == '\t') {
			end_line(p);
			fprintf(p->out, "%.*s\n", (int)length, text);
		} else {
			char line[4096];
			snprintf(line, sizeof line, "%.*s", (int)length, text);
			wrap(p, line);
		}
		text += length + (text[length] == '\n');
	}
	end_line(p);
}

/* ---- the page ---- */

static void usage(struct page *p, const lk_verb *verb) {
	p->indent = 4;
	p->column = fprintf(p->out, "Usage: lockstep");
	wrap(p, verb->name);
	wrap(p, "[OPTION...]");
	if (verb->operands) wrap(p, verb->operands);
	if (verb->rest) wrap(p, "[-- WORD...]");
	end_line(p);
}

static void one_option(struct page *p, const lk_option *o) {
	char label[LABEL_SIZE], note[NOTE_SIZE], bracketed[NOTE_SIZE + 4];
	const char *value = lk_option_value(o);
	const char *no = o->kind == LK_OPTION_SWITCH ? "[no-]" : "";
	snprintf(label, sizeof label, "  %c%c%c --%s%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
	         o->letter ? ',' : ' ', no, o->name, *value ? " " : "", value);
	fputs(label, p->out);
	p->column = width(label, strlen(label));
	p->indent = HELP_COLUMN;
	if (p->column + 2 > HELP_COLUMN) end_line(p);
	wrap(p, o->help ? o->help : "");
	lk_option_note(o, note, sizeof note);
	snprintf(bracketed, sizeof bracketed, "[%s]", note);
	if (*note) wrap(p, bracketed);
	end_line(p);
}

static void options(struct page *p, const lk_verb *verb) {
	for (const lk_option *o = verb->options; o && o->name; o++) {
		if (o->group || o == verb->options) heading(p, o->group ? o->group : "Options");
		one_option(p, o);
	}
	if (!lk_verb_sweeps(verb)) return;
	putc('\n', p->out);
	p->indent = 0;
	wrap(p, LK_SWEEP_NOTE);
	end_line(p);
}

static void examples(struct page *p, const lk_verb *verb) {
	if (!verb->examples || !verb->examples[0]) return;
	heading(p, "Examples");
	for (size_t i = 0; verb->examples[i]; i += 2) {
		fprintf(p->out, "  %s\n", verb->examples[i]);
		if (!verb->examples[i + 1]) break;
		p->indent = 6;
		wrap(p, verb->examples[i + 1]);
		end_line(p);
	}
}

void lk_verb_help(const lk_verb *verb, bool colour, FILE *out) {
	struct page p = {.out = out, .colour = colour};
	if (verb->summary) fprintf(out, "%s\n\n", verb->summary);
	usage(&p, verb);
	if (verb->description && *verb->description) {
		putc('\n', out);
		paragraphs(&p, verb->description);
	}
	options(&p, verb);
	examples(&p, verb);
}
