/* options.c: from the words of a command line to a request struct, driven by the table of a verb.
 *
 * Parsing converts every text once, into a scratch value, so that a mistake anywhere in a comma list
 * is reported before the first request is made. `args->memory` keeps the lists. */
#include "lockstep/options.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/check.h"
#include "options/options_internal.h"
#include "options/rows.h"
#include "base/text.h"

const char *const lk_output_formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

enum { COMBINATION_LIMIT = 100000, WHERE_SIZE = 80 };

/* The values in the comma list of one option. */
struct list {
	const char **items;
	size_t count;
};

struct memory {
	lk_arena arena;
	struct list *lists; /* one per option; count 0: the option is not a list */
	size_t option_count;
};

struct parser {
	const lk_verb *verb;
	lk_args *args;
	struct memory *memory;
	int argc, at; /* at: the next word */
	const char *const *argv;
	lk_error *err;
};

static size_t count_options(const lk_verb *verb) {
	size_t n = 0;
	while (verb->options && verb->options[n].name) n++;
	return n;
}

/* ---- conversion ---- */

static void where_of(const lk_option *option, char out[WHERE_SIZE]) {
	snprintf(out, WHERE_SIZE, "--%s", option->name);
}

static lk_status parse_choice(const lk_option *option, const char *text, int *out, lk_error *err) {
	size_t count = 0;
	LK_ASSERT(option->choices != NULL);
	for (; option->choices[count]; count++) {
		if (!lk_same_name(text, option->choices[count])) continue;
		*out = (int)count;
		return LK_OK;
	}
	char where[WHERE_SIZE], shown[64];
	where_of(option, where);
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not known", shown);
	return lk_hint_names(err, text, option->choices, count);
}

/* Returns "8Ki" for "8k" and "1Mi" for "1M" in counts of sequence tokens, every other text as it
 * is. */
static const char *options_sequence(lk_option_unit unit, const char *text, char *out, size_t size) {
	size_t length = strlen(text);
	bool suffix = length > 1 && length + 2 <= size && strchr("kKM", text[length - 1]);
	if (unit != LK_UNIT_SEQUENCE || !suffix) return text;
	snprintf(out, size, "%si", text);
	return out;
}

static lk_status convert_count(lk_option_unit unit, const char *text, double low, double high,
                               double *field, const char *where, lk_error *err) {
	switch (unit) {
	case LK_UNIT_NONE:
	case LK_UNIT_SEQUENCE: return lk_parse_count(text, low, high, field, where, err);
	case LK_UNIT_SECONDS: return lk_parse_duration(text, 1, low, high, field, where, err);
	case LK_UNIT_MINUTES: return lk_parse_duration(text, 60, low, high, field, where, err);
	case LK_UNIT_HOURS: return lk_parse_duration(text, 3600, low, high, field, where, err);
	case LK_UNIT_DOLLARS: return lk_parse_dollars(text, low, high, field, where, err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, where, "a quantity of unknown unit");
}

/* Returns the unit of an option from its placeholder in help; NULL: the placeholder names none. */
static const char *options_unit(const lk_option *option) {
	static const char *const units[][2] = {
		{"HOURS", "hours"},     {"H", "hours"},       {"MINUTES", "minutes"},
		{"SECONDS", "seconds"}, {"S", "seconds"},     {"MS", "milliseconds"},
		{"US", "microseconds"}, {"W", "watts"},       {"DOLLARS", "US dollars"},
		{"PERCENT", "percent"}, {"MiB", "MiB"},       {"GiB", "GiB"},
		{"GB/S", "GB/s"},       {"BYTES", "bytes"},   {"SAMPLES/S", "samples/s"},
		{"G/KWH", "g/kWh"},     {"TOKENS", "tokens"}, {"PIXELS", "pixels"},
	};
	for (size_t i = 0; option->value && i < sizeof units / sizeof *units; i++)
		if (strcmp(option->value, units[i][0]) == 0) return units[i][1];
	return NULL;
}

/* Adds the unit to a hint: "give a number from 1 to 60" becomes "give a number of minutes from 1 to
 * 60". */
static void options_name_unit(const char *unit, lk_error *err) {
	static const char *const starts[] = {"give a number", "give a whole number"};
	char hint[sizeof err->hint];
	for (size_t i = 0; unit && i < sizeof starts / sizeof *starts; i++) {
		size_t length = strlen(starts[i]);
		if (strncmp(err->hint, starts[i], length) != 0) continue;
		lk_copy(hint, sizeof hint, err->hint + length);
		lk_hint(err, "%s of %s%s", starts[i], unit, hint);
		return;
	}
}

/* Converts `text` to the type of the option and stores it at `field`. */
static lk_status convert_field(const lk_option *option, const char *text, void *field,
                               lk_error *err) {
	char where[WHERE_SIZE];
	where_of(option, where);
	LK_ASSERT(option->low <= option->high);
	bool limited = option->low != 0 || option->high != 0;
	double low = limited ? option->low : -INFINITY;
	double high = limited ? option->high : INFINITY;
	long long number = 0;
	char length[32];
	text = options_sequence(option->unit, text, length, sizeof length);
	switch (option->kind) {
	case LK_OPTION_FLAG: return lk_parse_bool(text, field, where, err);
	case LK_OPTION_SWITCH: {
		bool on;
		LK_TRY(lk_parse_bool(text, &on, where, err));
		*(int *)field = on ? 1 : -1;
		return LK_OK;
	}
	case LK_OPTION_TEXT:
	case LK_OPTION_LINES: memcpy(field, &text, sizeof text); return LK_OK;
	case LK_OPTION_INT:
		low = fmax(ceil(low), INT_MIN);
		high = fmin(floor(high), INT_MAX);
		LK_TRY(lk_parse_whole(text, (long long)low, (long long)high, &number, where, err));
		*(int *)field = (int)number;
		return LK_OK;
	case LK_OPTION_REAL: return lk_parse_real(text, low, high, field, where, err);
	case LK_OPTION_COUNT: return convert_count(option->unit, text, low, high, field, where, err);
	case LK_OPTION_CHOICE: return parse_choice(option, text, field, err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, where, "an option of unknown kind");
}

static lk_status convert(const lk_option *option, const char *text, void *field, lk_error *err) {
	lk_status status = convert_field(option, text, field, err);
	if (status != LK_OK && err) options_name_unit(options_unit(option), err);
	return status;
}

static lk_status options_check(const lk_option *option, const char *text, lk_error *err) {
	union {
		bool flag;
		const char *text;
		int number;
		double real;
	} scratch;
	return convert(option, text, &scratch, err);
}

/* ---- comma lists ---- */

static lk_status options_split(struct parser *parser, size_t index) {
	const lk_option *option = &parser->verb->options[index];
	const char *text = parser->args->texts[index];
	struct list *list = &parser->memory->lists[index];
	char where[WHERE_SIZE];
	where_of(option, where);
	LK_ASSERT(!list->items && !option->output);
	size_t count = 1;
	for (const char *c = text; *c; c++) count += *c == ',';
	if (count > COMBINATION_LIMIT) {
		lk_fail(parser->err, LK_ERR_INPUT, where, "a list of %zu values", count);
		return lk_hint(parser->err, "give at most %d", COMBINATION_LIMIT);
	}
	list->items = LK_ARRAY(&parser->memory->arena, const char *, count);
	if (!list->items) return lk_oom(parser->err);
	for (list->count = 0; list->count < count; list->count++) {
		size_t length = strcspn(text, ",");
		if (!length && count > 1) {
			lk_fail(parser->err, LK_ERR_INPUT, where, "an empty value in the list");
			return lk_hint(parser->err, "write lists as 1,2,4");
		}
		const char *item = lk_arena_strndup(&parser->memory->arena, text, length);
		if (!item) return lk_oom(parser->err);
		LK_TRY(options_check(option, item, parser->err));
		list->items[list->count] = item;
		text += length + 1;
	}
	return LK_OK;
}

/* Checks the given texts and splits the comma lists. */
static lk_status check_texts(struct parser *parser) {
	for (size_t i = 0; i < parser->memory->option_count; i++) {
		if (!parser->args->texts[i]) continue;
		if (parser->verb->options[i].sweep) LK_TRY(options_split(parser, i));
		else LK_TRY(options_check(&parser->verb->options[i], parser->args->texts[i], parser->err));
	}
	return LK_OK;
}

/* ---- words ---- */

static bool is_number(const char *text) {
	double number;
	return lk_parse_count(text, -INFINITY, INFINITY, &number, NULL, NULL) == LK_OK;
}

/* Whether a word is an operand or a value even though it may begin with '-': "-" (standard input), a
 * negative number, a list of them. */
static bool is_plain_word(const char *word) {
	if (word[0] != '-' || !word[1]) return true;
	char first[64];
	lk_copy(first, sizeof first, word);
	first[strcspn(first, ",")] = '\0';
	return is_number(first);
}

static const lk_option *find_name(const struct parser *parser, const char *word, size_t length) {
	for (size_t i = 0; i < parser->memory->option_count; i++) {
		if (lk_option_is_name(word, length, parser->verb->options[i].name))
			return &parser->verb->options[i];
	}
	return NULL;
}

static const lk_option *find_letter(const struct parser *parser, char letter) {
	for (size_t i = 0; i < parser->memory->option_count; i++) {
		if (parser->verb->options[i].letter == letter) return &parser->verb->options[i];
	}
	return NULL;
}

static void options_set(struct parser *parser, const lk_option *option, const char *text) {
	LK_ASSERT(option >= parser->verb->options &&
	          option < parser->verb->options + parser->memory->option_count);
	parser->args->texts[option - parser->verb->options] = text;
}

/* The last of repeated options counts; LINES collects all of them. */
static lk_status options_set_value(struct parser *parser, const lk_option *option,
                                   const char *text) {
	const char *before = parser->args->texts[option - parser->verb->options];
	if (option->kind == LK_OPTION_LINES && before)
		text = lk_arena_printf(&parser->memory->arena, "%s\n%s", before, text);
	options_set(parser, option, text);
	return text ? LK_OK : lk_oom(parser->err);
}

/* Whether an operand begins a launch line that lacks its "--". */
static bool options_launches(const char *word) {
	static const char *const launchers[] = {
		"torchrun",         "deepspeed", "accelerate", "python", "python3", "mpirun",
		"mpiexec",          "srun",      "torchx",     "ray",    "axolotl", "composer",
		"llamafactory-cli", "swift",     "megatron"};
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
		if (strcmp(word, launchers[i]) == 0) return true;
	return false;
}

/* Quotes a word of an example for a shell. */
static const char *options_quoted(const struct parser *parser, const char *word) {
	const char *quoted = lk_shell_quote(&parser->memory->arena, word);
	return quoted ? quoted : "COMMAND";
}

static lk_status options_unknown(struct parser *parser, const char *word, size_t length) {
	char shown[WHERE_SIZE], name[WHERE_SIZE];
	snprintf(shown, sizeof shown, "%.*s", (int)(length < sizeof shown ? length : sizeof shown - 1),
	         word);
	lk_fail(parser->err, LK_ERR_INPUT, shown, "unknown option");
	lk_copy(name, sizeof name, shown + strspn(shown, "-"));
	const char **names =
		LK_ARRAY(&parser->memory->arena, const char *, parser->memory->option_count);
	if (!names) return lk_oom(parser->err);
	for (size_t i = 0; i < parser->memory->option_count; i++)
		names[i] = parser->verb->options[i].name;
	const char *near = lk_option_words(parser->verb, name);
	if (!near) near = lk_nearest(name, names, parser->memory->option_count);
	if (parser->verb->rest && parser->args->operand_count > 0 &&
	    options_launches(parser->args->operands[0]))
		lk_hint(parser->err, "a launch line follows --: lockstep %s -- %s ...", parser->verb->name,
		        parser->args->operands[0]);
	else if (near) lk_hint(parser->err, "did you mean --%s?", near);
	else lk_hint(parser->err, "see lockstep %s --help", parser->verb->name);
	return LK_ERR_INPUT;
}

/* Takes the value of an option: the text after '=' or the letter, else the next word. */
static lk_status take_value(struct parser *parser, const lk_option *option, const char *attached) {
	if (attached) return options_set_value(parser, option, attached);
	char where[WHERE_SIZE];
	where_of(option, where);
	const char *next = parser->at < parser->argc ? parser->argv[parser->at] : NULL;
	if (!next || !is_plain_word(next)) {
		lk_fail(parser->err, LK_ERR_INPUT, NULL, "%s needs a value", where);
		if (next)
			return lk_hint(parser->err, "write %s=VALUE where the value begins with -", where);
		return lk_hint(parser->err, "write %s %s", where, option->value ? option->value : "VALUE");
	}
	parser->at++;
	return options_set_value(parser, option, next);
}

static lk_status long_option(struct parser *parser, const char *word) {
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	const char *value = equals ? equals + 1 : NULL;
	if (lk_option_is_name(name, length, "help")) {
		parser->args->help = true;
		return LK_OK;
	}
	const lk_option *option = find_name(parser, name, length);
	if (option && !lk_option_is_switch(option)) return take_value(parser, option, value);
	if (option) {
		options_set(parser, option, value ? value : "1");
		return LK_OK;
	}
	bool no = length > 3 && lk_option_is_name(name, 3, "no-");
	option = no && !value ? find_name(parser, name + 3, length - 3) : NULL;
	if (!option || !lk_option_is_switch(option)) return options_unknown(parser, word, length + 2);
	options_set(parser, option, "0");
	return LK_OK;
}

/* -o value, -ovalue, -v, and several flags in one word: -vq. */
static lk_status letters(struct parser *parser, const char *word) {
	for (const char *c = word + 1; *c; c++) {
		const lk_option *option = find_letter(parser, *c);
		if (!option && *c == 'h') {
			parser->args->help = true;
			continue;
		}
		if (!option) {
			char shown[3] = {'-', *c, '\0'};
			if (c == word + 1) return options_unknown(parser, word, strlen(word));
			return options_unknown(parser, shown, 2);
		}
		if (!lk_option_is_switch(option))
			return take_value(parser, option, c[1] ? c + 1 + (c[1] == '=') : NULL);
		options_set(parser, option, "1");
	}
	return LK_OK;
}

static lk_status options_words(struct parser *parser) {
	while (parser->at < parser->argc) {
		const char *word = parser->argv[parser->at++];
		if (strcmp(word, "--") == 0) {
			int left = parser->argc - parser->at;
			for (int i = 0; i < left; i++) {
				if (parser->verb->rest)
					parser->args->rest[parser->args->rest_count++] = parser->argv[parser->at++];
				else
					parser->args->operands[parser->args->operand_count++] =
						parser->argv[parser->at++];
			}
		} else if (strncmp(word, "--", 2) == 0) {
			LK_TRY(long_option(parser, word));
		} else if (is_plain_word(word)) {
			parser->args->operands[parser->args->operand_count++] = word;
		} else {
			LK_TRY(letters(parser, word));
		}
	}
	return LK_OK;
}

static lk_status check_operands(struct parser *parser) {
	const lk_verb *verb = parser->verb;
	int n = parser->args->operand_count;
	const char *named = verb->operands ? verb->operands : "";
	if (n < verb->min_operands) {
		size_t length = strlen(named); /* "TRACE..." is one or more of them */
		while (length > 0 && named[length - 1] == '.') length--;
		if (length == 0) lk_fail(parser->err, LK_ERR_INPUT, verb->name, "an operand is missing");
		else lk_fail(parser->err, LK_ERR_INPUT, verb->name, "%.*s is missing", (int)length, named);
		return lk_hint(parser->err, "see lockstep %s --help", verb->name);
	}
	if (verb->max_operands < 0 || n <= verb->max_operands) return LK_OK;
	char shown[64];
	lk_copy(shown, sizeof shown, parser->args->operands[verb->max_operands]);
	lk_fail(parser->err, LK_ERR_INPUT, verb->name, "\"%s\" is one word too many", shown);
	if (verb->rest && verb->max_operands == 0)
		lk_hint(parser->err, "the command goes after --: lockstep %s -- %s ...", verb->name,
		        options_quoted(parser, shown));
	else if (verb->max_operands == 0) lk_hint(parser->err, "%s takes options only", verb->name);
	else lk_hint(parser->err, "give at most %d; quote names that hold blanks", verb->max_operands);
	return LK_ERR_INPUT;
}

/* ---- options that need another option or a certain operand ---- */

static bool company_given(const struct parser *parser, const char *names) {
	for (size_t i = 0; i < parser->memory->option_count; i++)
		if (parser->args->texts[i] && lk_name_among(names, parser->verb->options[i].name))
			return true;
	return false;
}

/* Writes "jitter noise" as "--jitter or --noise". */
static void name_all(const char *names, const char *dashes, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (const char *at = names; *at;) {
		size_t length = strcspn(at, " ");
		lk_text_add(&text, "%s%s%.*s", at == names ? "" : " or ", dashes, (int)length, at);
		at += length + (at[length] == ' ');
	}
}

static lk_status check_company(struct parser *parser) {
	const lk_args *args = parser->args;
	const char *action = args->operand_count > 0 ? args->operands[0] : "";
	for (size_t i = 0; i < parser->memory->option_count; i++) {
		const lk_option *option = &parser->verb->options[i];
		bool off =
			lk_option_is_switch(option) && args->texts[i] && strcmp(args->texts[i], "0") == 0;
		bool alone = option->with && !company_given(parser, option->with);
		bool elsewhere = option->verbs && !lk_name_among(option->verbs, action);
		char where[WHERE_SIZE], names[128];
		if (!args->texts[i] || off || (!alone && !elsewhere)) continue;
		where_of(option, where);
		if (elsewhere) {
			name_all(option->verbs, "", names, sizeof names);
			lk_fail(parser->err, LK_ERR_INPUT, where, "it has no effect on %s %s, only on %s %s",
			        parser->verb->name, action, parser->verb->name, names);
			return lk_hint(parser->err, "leave it out");
		}
		name_all(option->with, "--", names, sizeof names);
		lk_fail(parser->err, LK_ERR_INPUT, where, "it has no effect without %s", names);
		return lk_hint(parser->err, "give %s too, or leave it out", names);
	}
	return LK_OK;
}

static lk_status options_parse(struct parser *parser) {
	lk_args *args = parser->args;
	struct memory *memory = parser->memory;
	size_t words_max = parser->argc > 0 ? (size_t)parser->argc : 0;
	args->texts = LK_ARRAY(&memory->arena, const char *, memory->option_count);
	memory->lists = LK_ARRAY(&memory->arena, struct list, memory->option_count);
	args->operands = LK_ARRAY(&memory->arena, const char *, words_max);
	args->rest = LK_ARRAY(&memory->arena, const char *, words_max);
	if (!args->texts || !memory->lists || !args->operands || !args->rest)
		return lk_oom(parser->err);
	LK_TRY(options_words(parser));
	LK_ASSERT(args->operand_count + args->rest_count <= parser->argc);
	/* --help is answered whatever else is wrong. */
	if (args->help) return LK_OK;
	LK_TRY(check_texts(parser));
	LK_TRY(check_operands(parser));
	return check_company(parser);
}

lk_status lk_args_parse(const lk_verb *verb, int argc, const char *const *argv, lk_args *out,
                        lk_error *err) {
	*out = (lk_args){.verb = verb};
	struct memory *memory = calloc(1, sizeof *memory);
	if (!memory) return lk_oom(err);
	memory->option_count = count_options(verb);
	out->memory = memory;
	struct parser p = {
		.verb = verb, .args = out, .memory = memory, .argc = argc, .argv = argv, .err = err};
	lk_status status = options_parse(&p);
	if (status != LK_OK) lk_args_free(out);
	return status;
}

void lk_args_free(lk_args *args) {
	if (!args || !args->memory) return;
	lk_arena_free(&((struct memory *)args->memory)->arena);
	free(args->memory);
	*args = (lk_args){.verb = args->verb};
}

/* ---- requests ---- */

lk_status lk_args_combinations(const lk_args *args, size_t *count, lk_error *err) {
	const struct memory *memory = args->memory;
	*count = 1;
	for (size_t i = 0; i < memory->option_count; i++) {
		if (memory->lists[i].count) *count *= memory->lists[i].count;
		if (*count <= COMBINATION_LIMIT) continue;
		lk_fail(err, LK_ERR_INPUT, NULL, "the lists make over %d combinations", COMBINATION_LIMIT);
		return lk_hint(err, "shorten a list, or run in parts");
	}
	return LK_OK;
}

lk_status lk_args_fill(lk_args *args, size_t index, void *request, lk_error *err) {
	const struct memory *memory = args->memory;
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	if (index >= count)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "combination %zu of %zu", index, count);
	/* The index is a number of mixed radix; its lowest digit belongs to the last list. */
	for (size_t i = memory->option_count; i-- > 0;) {
		const lk_option *option = &args->verb->options[i];
		const char *text = args->texts[i];
		if (!text || option->output) continue;
		LK_ASSERT(option->offset < args->verb->request_size);
		if (memory->lists[i].count) {
			text = memory->lists[i].items[index % memory->lists[i].count];
			index /= memory->lists[i].count;
		}
		LK_TRY(convert(option, text, (char *)request + option->offset, err));
	}
	return LK_OK;
}

lk_status lk_args_fill_outputs(const lk_args *args, lk_outputs *outputs, lk_error *err) {
	const struct memory *memory = args->memory;
	*outputs = (lk_outputs){0};
	for (size_t i = 0; i < memory->option_count; i++) {
		const lk_option *option = &args->verb->options[i];
		if (!option->output || !args->texts[i]) continue;
		LK_ASSERT(!option->sweep && option->offset < sizeof *outputs);
		LK_TRY(convert(option, args->texts[i], (char *)outputs + option->offset, err));
	}
	return LK_OK;
}

bool lk_args_given(const lk_args *args, const char *name) {
	const struct memory *memory = args->memory;
	for (size_t i = 0; memory && i < memory->option_count; i++) {
		if (strcmp(args->verb->options[i].name, name) == 0) return args->texts[i] != NULL;
	}
	return false;
}

lk_status lk_args_check_empty(const lk_args *args, lk_error *err) {
	for (size_t i = 0; args->verb->options && args->verb->options[i].name; i++) {
		const lk_option *option = &args->verb->options[i];
		if (args->help || option->kind != LK_OPTION_TEXT || !args->texts[i] || *args->texts[i])
			continue;
		char where[WHERE_SIZE];
		where_of(option, where);
		lk_fail(err, LK_ERR_INPUT, where, "the value is empty");
		return lk_hint(err, "give %.64s, or leave the option out",
		               option->value ? option->value : "a text");
	}
	return LK_OK;
}
