/* command.c: a question as the command that asks it again, from the verb's own table. */
#include "base/arena.h"
#include "options/command.h"

#include <string.h>

#include "base/text.h"

static bool in(const char *name, const char *const *names) {
	for (; names && *names; names++)
		if (strcmp(name, *names) == 0) return true;
	return false;
}

/* A word, as a shell reads it, after the text so far and a name that may be empty; NULL stays
 * NULL. */
static const char *with_word(lk_arena *arena, const char *so_far, const char *before,
                             const char *name, const char *word) {
	const char *quoted = so_far && word ? lk_shell_quote(arena, word) : NULL;
	return quoted ? lk_arena_printf(arena, "%s%s%s %s", so_far, before, name, quoted) : NULL;
}

/* An option that is given any number of times: its values stand one a line. */
static const char *lines(lk_arena *arena, const char *name, const char *values) {
	const char *text = "";
	for (const char *end; text && *values; values = *end ? end + 1 : end) {
		end = values + strcspn(values, "\n");
		text = with_word(arena, text, " --", name,
		                 lk_arena_strndup(arena, values, (size_t)(end - values)));
	}
	return text;
}

static const char *switched(lk_arena *arena, const char *name, bool on) {
	return lk_arena_printf(arena, " --%s%s", on ? "" : "no-", name);
}

static const char *command_number(lk_arena *arena, const char *name, double value) {
	char text[32];
	return lk_arena_printf(arena, " --%s %s", name, lk_format_shortest(value, text, sizeof text));
}

static bool command_same_text(const char *a, const char *b) {
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* " --name value"; "" where the field is as usual. */
static const char *command_spell(lk_arena *arena, const lk_option *option, const void *field,
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
		return is.flag == was.flag ? "" : switched(arena, name, is.flag);
	case LK_OPTION_SWITCH:
	case LK_OPTION_INT:
	case LK_OPTION_CHOICE:
		is.whole = *(const int *)field, was.whole = usual ? *(const int *)usual : 0;
		if (is.whole == was.whole) return "";
		if (option->kind == LK_OPTION_SWITCH) return switched(arena, name, is.whole > 0);
		if (option->kind == LK_OPTION_CHOICE)
			return with_word(arena, "", " --", name, option->choices[is.whole]);
		return lk_arena_printf(arena, " --%s %d", name, is.whole);
	case LK_OPTION_REAL:
	case LK_OPTION_COUNT:
		is.real = *(const double *)field, was.real = usual ? *(const double *)usual : 0;
		return is.real == was.real ? "" : command_number(arena, name, is.real);
	default:
		is.text = *(const char *const *)field,
		was.text = usual ? *(const char *const *)usual : NULL;
		if (!is.text || command_same_text(is.text, was.text)) return "";
		return option->kind == LK_OPTION_LINES ? lines(arena, name, is.text)
		                                       : with_word(arena, "", " --", name, is.text);
	}
}

const char *lk_command_options(lk_arena *arena, const lk_question *question) {
	const char *all = "";
	for (const lk_option *option = question->verb->options; option->name && all; option++) {
		if (option->output || in(option->name, question->but)) continue;
		const char *usual = question->usual ? (const char *)question->usual + option->offset : NULL;
		const char *one =
			command_spell(arena, option, (const char *)question->request + option->offset, usual);
		all = one ? lk_arena_printf(arena, "%s%s", all, one) : NULL;
	}
	return all;
}

const char *lk_command(lk_arena *arena, const lk_question *question) {
	const char *options = lk_command_options(arena, question),
			   *text = lk_arena_printf(arena, "lockstep %s", question->verb->name);
	for (int i = 0; i < question->operand_count; i++)
		text = with_word(arena, text, "", "", question->operands[i]);
	if (text)
		text = options ? lk_arena_printf(arena, "%s%s%s", text, options,
		                                 question->rest_count > 0 ? " --" : "")
		               : NULL;
	for (int i = 0; i < question->rest_count; i++)
		text = with_word(arena, text, "", "", question->rest[i]);
	return text;
}
