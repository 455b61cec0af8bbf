/* options_man.c: the man page of a verb, in troff with the man macros (groff_man(7)). */
#include <ctype.h>
#include <string.h>
#include "options/options_internal.h"

/* Writes text for troff: escapes backslashes, hyphens (so that they can be copied), control lines,
 * and in an argument of a macro (`quoted`) quotes. */
static void man_text(FILE *out, const char *s, bool quoted) {
	bool line_start = !quoted;
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (line_start && (c == '.' || c == '\'')) fputs("\\&", out);
		line_start = c == '\n' && !quoted;
		if (c == '\\') fputs("\\e", out);
		else if (c == '-') fputs("\\-", out);
		else if (c == '\'') fputs("\\(aq", out);
		else if (c == '`') fputs("\\(ga", out);
		else if (c == '"' && quoted) fputs("\\(dq", out);
		else if (c < 0x20 && c != '\n') putc(' ', out);
		else if (c == '\n' && quoted) putc(' ', out);
		else putc(c, out);
	}
}

static void upper(FILE *out, const char *s) {
	for (; *s; s++) putc(toupper((unsigned char)*s), out);
}

static void synopsis(const lk_verb *verb, FILE *out) {
	fputs(".SH SYNOPSIS\n.B lockstep ", out);
	man_text(out, verb->name, true);
	fputs("\n[\\fIOPTION\\fR...]", out);
	if (verb->operands && *verb->operands) {
		putc(' ', out);
		man_text(out, verb->operands, true);
	}
	if (verb->rest) fputs(" [\\fB\\-\\-\\fR \\fIWORD\\fR...]", out);
	putc('\n', out);
}

/* Writes paragraphs: a blank line becomes .PP, a line that begins with a blank stays as it is. */
static void man_paragraphs(const char *s, FILE *out) {
	bool kept = false;
	while (*s) {
		size_t length = strcspn(s, "\n");
		char line[4096];
		snprintf(line, sizeof line, "%.*s", (int)length, s);
		bool keep = *line == ' ' || *line == '\t';
		if (keep != kept) fputs(keep ? ".RS 4\n.nf\n" : ".fi\n.RE\n", out);
		kept = keep;
		if (!*line) fputs(".PP", out);
		man_text(out, line + strspn(line, " \t"), false);
		putc('\n', out);
		s += length + (s[length] == '\n');
	}
	if (kept) fputs(".fi\n.RE\n", out);
}

static void option(const lk_option *o, FILE *out) {
	char note[512];
	fputs(".TP\n", out);
	if (o->letter) fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", out);
	if (o->kind == LK_OPTION_SWITCH) fputs("[no\\-]", out);
	man_text(out, o->name, true);
	fputs("\\fR", out);
	if (*lk_option_value(o)) {
		fputs(" \\fI", out);
		man_text(out, lk_option_value(o), true);
		fputs("\\fR", out);
	}
	putc('\n', out);
	man_text(out, o->help ? o->help : "", false);
	lk_option_note(o, note, sizeof note);
	if (*note) {
		fputs("\n[", out);
		man_text(out, note, true);
		putc(']', out);
	}
	putc('\n', out);
}

static void man_options(const lk_verb *verb, FILE *out) {
	if (!verb->options || !verb->options->name) return;
	fputs(".SH OPTIONS\n", out);
	for (const lk_option *o = verb->options; o->name; o++) {
		if (o->group) {
			fputs(".SS \"", out);
			man_text(out, o->group, true);
			fputs("\"\n", out);
		}
		option(o, out);
	}
	if (!lk_verb_sweeps(verb)) return;
	fputs(".PP\n", out);
	man_text(out, LK_SWEEP_NOTE "\n", false);
}

static void man_examples(const lk_verb *verb, FILE *out) {
	if (!verb->examples || !verb->examples[0]) return;
	fputs(".SH EXAMPLES\n", out);
	for (size_t i = 0; verb->examples[i]; i += 2) {
		fputs(".TP\n", out);
		man_text(out, verb->examples[i], false);
		putc('\n', out);
		if (!verb->examples[i + 1]) break;
		man_text(out, verb->examples[i + 1], false);
		putc('\n', out);
	}
}

void lk_verb_man(const lk_verb *verb, const char *version, const char *date, FILE *out) {
	fputs(".TH \"LOCKSTEP\\-", out);
	upper(out, verb->name);
	fputs("\" 1 \"", out);
	fputs(date, out);
	fputs("\" \"lockstep ", out);
	man_text(out, version, true);
	fputs("\" \"lockstep\"\n.SH NAME\nlockstep\\-", out);
	man_text(out, verb->name, true);
	fputs(" \\- ", out);
	man_text(out, verb->summary ? verb->summary : "", true);
	putc('\n', out);
	synopsis(verb, out);
	if (verb->description && *verb->description) {
		fputs(".SH DESCRIPTION\n", out);
		man_paragraphs(verb->description, out);
	}
	man_options(verb, out);
	man_examples(verb, out);
	fputs(".SH SEE ALSO\n.BR lockstep (1)\n", out);
}
