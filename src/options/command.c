/* command.c: writes a question as the command that asks it again, from the verb's own table. */
#include "base/arena.h"
#include "options/command.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

static bool in(const char *name, const char *const *names) {
	for (; names && *names; names++)
		if (strcmp(name, *names) == 0) return true;
	return false;
}

/* ---- the writer ---- */

lk_command_line lk_command_begin(lk_arena *arena, const char *verb) {
	return (lk_command_line){arena, lk_arena_printf(arena, "lockstep %s", verb)};
}

void lk_command_part(lk_command_line *line, const char *part) {
	if (line->text)
		line->text = part ? lk_arena_printf(line->arena, "%s%s", line->text, part) : NULL;
}

void lk_command_word(lk_command_line *line, const char *word) {
	lk_command_part(line, " ");
	lk_command_part(line, word ? lk_shell_quote(line->arena, word) : NULL);
}

void lk_command_text(lk_command_line *line, const char *name, const char *value) {
	if (!value) return;
	lk_command_part(line, " --");
	lk_command_part(line, name);
	lk_command_word(line, value);
}

void lk_command_number(lk_command_line *line, const char *name, double value) {
	char text[32];
	lk_command_text(line, name, lk_format_shortest(value, text, sizeof text));
}

/* ---- options of a question ---- */

/* Writes an option that may be repeated, once per line of its value. */
static void command_put_lines(lk_command_line *line, const char *name, const char *values) {
	for (const char *end; line->text && *values; values = *end ? end + 1 : end) {
		end = values + strcspn(values, "\n");
		const char *value = lk_arena_strndup(line->arena, values, (size_t)(end - values));
		if (value) lk_command_text(line, name, value);
		else line->text = NULL;
	}
}

static void command_put_switch(lk_command_line *line, const char *name, bool on) {
	lk_command_part(line, on ? " --" : " --no-");
	lk_command_part(line, name);
}

static bool command_same_text(const char *a, const char *b) {
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Writes nothing if the field has its default. */
static void command_put_option(lk_command_line *line, const lk_option *option, const void *field,
                               const void *usual) {
	const char *name = option->name;
	union {
		bool flag;
		int whole;
		double real;
		const char *text;
	} is = {.text = NULL}, was = {.text = NULL};
	switch (option->kind) {
	case LK_OPTION_FLAG:
		is.flag = *(const bool *)field;
		was.flag = usual && *(const bool *)usual;
		if (is.flag != was.flag) command_put_switch(line, name, is.flag);
		break;
	case LK_OPTION_SWITCH:
	case LK_OPTION_INT:
	case LK_OPTION_CHOICE:
		is.whole = *(const int *)field;
		was.whole = usual ? *(const int *)usual : 0;
		if (is.whole == was.whole) break;
		LK_ASSERT(option->kind != LK_OPTION_CHOICE || is.whole >= 0);
		if (option->kind == LK_OPTION_SWITCH) command_put_switch(line, name, is.whole > 0);
		else if (option->kind == LK_OPTION_CHOICE)
			lk_command_text(line, name, option->choices[is.whole]);
		else lk_command_number(line, name, is.whole);
		break;
	case LK_OPTION_REAL:
	case LK_OPTION_COUNT:
		is.real = *(const double *)field;
		was.real = usual ? *(const double *)usual : 0;
		if (is.real != was.real) lk_command_number(line, name, is.real);
		break;
	default:
		is.text = *(const char *const *)field;
		was.text = usual ? *(const char *const *)usual : NULL;
		if (!is.text || command_same_text(is.text, was.text)) break;
		if (option->kind == LK_OPTION_LINES) command_put_lines(line, name, is.text);
		else lk_command_text(line, name, is.text);
	}
}

const char *lk_command_options(lk_arena *arena, const lk_question *question) {
	lk_command_line line = {arena, ""};
	LK_ASSERT(question->request != NULL);
	for (const lk_option *option = question->verb->options; option->name; option++) {
		if (option->output || in(option->name, question->but)) continue;
		LK_ASSERT(option->offset < question->verb->request_size);
		const char *usual = question->usual ? (const char *)question->usual + option->offset : NULL;
		command_put_option(&line, option, (const char *)question->request + option->offset, usual);
	}
	return line.text;
}

const char *lk_command(lk_arena *arena, const lk_question *question) {
	lk_command_line line = lk_command_begin(arena, question->verb->name);
	for (int i = 0; i < question->operand_count; i++) lk_command_word(&line, question->operands[i]);
	lk_command_part(&line, lk_command_options(arena, question));
	if (question->rest_count > 0) lk_command_part(&line, " --");
	for (int i = 0; i < question->rest_count; i++) lk_command_word(&line, question->rest[i]);
	return line.text;
}
