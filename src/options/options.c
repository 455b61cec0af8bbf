/* options.c: from the words of a command line to a request struct, driven by the table of a verb.
 *
 * Every text is converted once while it is parsed, into a scratch value, so that a mistake anywhere in a comma list
 * shows before the first request is made. The lists themselves are kept apart in `args->memory`. */
#include "lockstep/options.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "options/options_internal.h"
#include "base/text.h"

enum { COMBINATION_LIMIT = 100000, WHERE_SIZE = 80 };

/* The values of one swept option. */
struct list {
	const char **items;
	size_t count;
};

struct memory {
	lk_arena arena;
	struct list *lists; /* one per option; count 0 where it is no list */
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

static void where_of(const lk_option *o, char out[WHERE_SIZE]) {
	snprintf(out, WHERE_SIZE, "--%s", o->name);
}

static lk_status parse_choice(const lk_option *o, const char *text, int *out, lk_error *err) {
	size_t count = 0;
	for (; o->choices[count]; count++) {
		if (!lk_same_name(text, o->choices[count])) continue;
		*out = (int)count;
		return LK_OK;
	}
	char where[WHERE_SIZE], shown[64], all[sizeof err->hint];
	where_of(o, where);
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not known", shown);
	const char *near = lk_nearest(text, o->choices, count);
	if (near) return lk_hint(err, "did you mean %s?", near);
	size_t used = 0;
	all[0] = '\0';
	for (size_t i = 0; i < count && used < sizeof all - 24; i++) {
		used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", o->choices[i]);
	}
	return lk_hint(err, "give one of %.220s", all);
}

/* Converts `text` to the type of the option and stores it at `field`. */
static lk_status convert(const lk_option *o, const char *text, void *field, lk_error *err) {
	char where[WHERE_SIZE];
	where_of(o, where);
	bool limited = o->low != 0 || o->high != 0;
	double low = limited ? o->low : -INFINITY, high = limited ? o->high : INFINITY;
	long long number = 0;
	switch (o->kind) {
	case LK_OPTION_FLAG:
		return lk_parse_bool(text, field, where, err);
	case LK_OPTION_SWITCH: {
		bool on;
		LK_TRY(lk_parse_bool(text, &on, where, err));
		*(int *)field = on ? 1 : -1;
		return LK_OK;
	}
	case LK_OPTION_TEXT:
	case LK_OPTION_LINES:
		memcpy(field, &text, sizeof text);
		return LK_OK;
	case LK_OPTION_INT:
		LK_TRY(lk_parse_int(text, low > INT_MIN ? (long long)ceil(low) : INT_MIN,
		                    high < INT_MAX ? (long long)floor(high) : INT_MAX, &number, where, err));
		*(int *)field = (int)number;
		return LK_OK;
	case LK_OPTION_REAL:
		return lk_parse_real(text, low, high, field, where, err);
	case LK_OPTION_COUNT:
		return lk_parse_count(text, low, high, field, where, err);
	case LK_OPTION_CHOICE:
		return parse_choice(o, text, field, err);
	}
	return lk_fail(err, LK_ERR_INTERNAL, where, "an option of unknown kind");
}

static lk_status check(const lk_option *o, const char *text, lk_error *err) {
	union {
		bool flag;
		const char *text;
		int number;
		double real;
	} scratch;
	return convert(o, text, &scratch, err);
}

/* ---- comma lists ---- */

static lk_status split(struct parser *p, size_t index) {
	const lk_option *o = &p->verb->options[index];
	const char *text = p->args->texts[index];
	struct list *l = &p->memory->lists[index];
	char where[WHERE_SIZE];
	where_of(o, where);
	size_t count = 1;
	for (const char *c = text; *c; c++) count += *c == ',';
	if (count > COMBINATION_LIMIT) {
		lk_fail(p->err, LK_ERR_INPUT, where, "a list of %zu values", count);
		return lk_hint(p->err, "give at most %d", COMBINATION_LIMIT);
	}
	l->items = LK_ARRAY(&p->memory->arena, const char *, count);
	if (!l->items) return lk_oom(p->err);
	for (l->count = 0; l->count < count; l->count++) {
		size_t length = strcspn(text, ",");
		if (!length && count > 1) {
			lk_fail(p->err, LK_ERR_INPUT, where, "an empty value in the list");
			return lk_hint(p->err, "write lists as 1,2,4");
		}
		const char *item = lk_arena_strndup(&p->memory->arena, text, length);
		if (!item) return lk_oom(p->err);
		LK_TRY(check(o, item, p->err));
		l->items[l->count] = item;
		text += length + 1;
	}
	return LK_OK;
}

/* Checks all texts that were given and takes the lists apart. */
static lk_status check_texts(struct parser *p) {
	for (size_t i = 0; i < p->memory->option_count; i++) {
		if (!p->args->texts[i]) continue;
		if (p->verb->options[i].sweep) LK_TRY(split(p, i));
		else LK_TRY(check(&p->verb->options[i], p->args->texts[i], p->err));
	}
	return LK_OK;
}

/* ---- words ---- */

static bool is_number(const char *text) {
	double number;
	return lk_parse_count(text, -INFINITY, INFINITY, &number, NULL, NULL) == LK_OK;
}

/* Whether a word that begins with '-' stands for itself: standard input, or a negative number (or a list of such). */
static bool is_plain_word(const char *word) {
	if (word[0] != '-' || !word[1]) return true;
	char first[64];
	lk_copy(first, sizeof first, word);
	first[strcspn(first, ",")] = '\0';
	return is_number(first);
}

/* As strcmp() == 0 of `length` characters of `word` with `name`; '_' counts as '-'. */
static bool is_name(const char *word, size_t length, const char *name) {
	for (size_t i = 0; i < length; i++) {
		if (!name[i] || (word[i] == '_' ? '-' : word[i]) != (name[i] == '_' ? '-' : name[i])) return false;
	}
	return name[length] == '\0';
}

static const lk_option *find_name(const struct parser *p, const char *word, size_t length) {
	for (size_t i = 0; i < p->memory->option_count; i++) {
		if (is_name(word, length, p->verb->options[i].name)) return &p->verb->options[i];
	}
	return NULL;
}

static const lk_option *find_letter(const struct parser *p, char letter) {
	for (size_t i = 0; i < p->memory->option_count; i++) {
		if (p->verb->options[i].letter == letter) return &p->verb->options[i];
	}
	return NULL;
}

static void set(struct parser *p, const lk_option *o, const char *text) {
	p->args->texts[o - p->verb->options] = text;
}

/* An option given again: the last one counts, but of LINES all do. */
static lk_status set_value(struct parser *p, const lk_option *o, const char *text) {
	const char *before = p->args->texts[o - p->verb->options];
	if (o->kind == LK_OPTION_LINES && before) text = lk_arena_printf(&p->memory->arena, "%s\n%s", before, text);
	set(p, o, text);
	return text ? LK_OK : lk_oom(p->err);
}

static lk_status unknown(struct parser *p, const char *word, size_t length) {
	char shown[WHERE_SIZE], name[WHERE_SIZE];
	snprintf(shown, sizeof shown, "%.*s", (int)(length < sizeof shown ? length : sizeof shown - 1), word);
	lk_fail(p->err, LK_ERR_INPUT, shown, "unknown option");
	lk_copy(name, sizeof name, shown + strspn(shown, "-"));
	const char **names = LK_ARRAY(&p->memory->arena, const char *, p->memory->option_count);
	if (!names) return lk_oom(p->err);
	for (size_t i = 0; i < p->memory->option_count; i++) names[i] = p->verb->options[i].name;
	const char *near = lk_nearest(name, names, p->memory->option_count);
	if (near) lk_hint(p->err, "did you mean --%s?", near);
	else lk_hint(p->err, "see lockstep %s --help", p->verb->name);
	return LK_ERR_INPUT;
}

/* The value of an option: what stands behind '=' or the letter, or the next word. */
static lk_status take_value(struct parser *p, const lk_option *o, const char *attached) {
	if (attached) return set_value(p, o, attached);
	char where[WHERE_SIZE];
	where_of(o, where);
	const char *next = p->at < p->argc ? p->argv[p->at] : NULL;
	if (!next || !is_plain_word(next)) {
		lk_fail(p->err, LK_ERR_INPUT, NULL, "%s needs a value", where);
		if (next) return lk_hint(p->err, "write %s=VALUE where the value begins with -", where);
		return lk_hint(p->err, "write %s %s", where, o->value ? o->value : "VALUE");
	}
	p->at++;
	return set_value(p, o, next);
}

static lk_status long_option(struct parser *p, const char *word) {
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	const char *value = equals ? equals + 1 : NULL;
	if (is_name(name, length, "help")) {
		p->args->help = true;
		return LK_OK;
	}
	const lk_option *o = find_name(p, name, length);
	if (o && !lk_option_is_switch(o)) return take_value(p, o, value);
	if (o) {
		set(p, o, value ? value : "1");
		return LK_OK;
	}
	bool no = length > 3 && is_name(name, 3, "no-");
	o = no && !value ? find_name(p, name + 3, length - 3) : NULL;
	if (!o || !lk_option_is_switch(o)) return unknown(p, word, length + 2);
	set(p, o, "0");
	return LK_OK;
}

/* -o value, -ovalue, -v, and several flags in one word: -vq. */
static lk_status letters(struct parser *p, const char *word) {
	for (const char *c = word + 1; *c; c++) {
		const lk_option *o = find_letter(p, *c);
		if (!o && *c == 'h') {
			p->args->help = true;
			continue;
		}
		if (!o) {
			char shown[3] = {'-', *c, '\0'};
			return unknown(p, c == word + 1 ? word : shown, c == word + 1 ? strlen(word) : 2);
		}
		if (!lk_option_is_switch(o)) return take_value(p, o, c[1] ? c + 1 + (c[1] == '=') : NULL);
		set(p, o, "1");
	}
	return LK_OK;
}

static lk_status words(struct parser *p) {
	while (p->at < p->argc) {
		const char *word = p->argv[p->at++];
		if (strcmp(word, "--") == 0) {
			int left = p->argc - p->at;
			for (int i = 0; i < left; i++) {
				if (p->verb->rest) p->args->rest[p->args->rest_count++] = p->argv[p->at++];
				else p->args->operands[p->args->operand_count++] = p->argv[p->at++];
			}
		} else if (strncmp(word, "--", 2) == 0) {
			LK_TRY(long_option(p, word));
		} else if (is_plain_word(word)) {
			p->args->operands[p->args->operand_count++] = word;
		} else {
			LK_TRY(letters(p, word));
		}
	}
	return LK_OK;
}

static lk_status check_operands(struct parser *p) {
	const lk_verb *v = p->verb;
	int n = p->args->operand_count;
	const char *named = v->operands ? v->operands : "";
	if (n < v->min_operands) {
		lk_fail(p->err, LK_ERR_INPUT, v->name, "%s is missing", *named ? named : "an operand");
		return lk_hint(p->err, "see lockstep %s --help", v->name);
	}
	if (v->max_operands < 0 || n <= v->max_operands) return LK_OK;
	char shown[64];
	lk_copy(shown, sizeof shown, p->args->operands[v->max_operands]);
	lk_fail(p->err, LK_ERR_INPUT, v->name, "\"%s\" is one word too many", shown);
	if (v->max_operands == 0) lk_hint(p->err, "%s takes options only", v->name);
	else lk_hint(p->err, "give at most %d; quote names that hold blanks", v->max_operands);
	return LK_ERR_INPUT;
}

static lk_status parse(struct parser *p) {
	lk_args *a = p->args;
	struct memory *m = p->memory;
	size_t words_max = p->argc > 0 ? (size_t)p->argc : 0;
	a->texts = LK_ARRAY(&m->arena, const char *, m->option_count);
	m->lists = LK_ARRAY(&m->arena, struct list, m->option_count);
	a->operands = LK_ARRAY(&m->arena, const char *, words_max);
	a->rest = LK_ARRAY(&m->arena, const char *, words_max);
	if (!a->texts || !m->lists || !a->operands || !a->rest) return lk_oom(p->err);
	LK_TRY(words(p));
	/* Who asks for help need not have everything else right. */
	if (a->help) return LK_OK;
	LK_TRY(check_texts(p));
	return check_operands(p);
}

lk_status lk_args_parse(const lk_verb *verb, int argc, const char *const *argv, lk_args *out, lk_error *err) {
	*out = (lk_args){.verb = verb};
	struct memory *m = calloc(1, sizeof *m);
	if (!m) return lk_oom(err);
	m->option_count = count_options(verb);
	out->memory = m;
	struct parser p = {.verb = verb, .args = out, .memory = m, .argc = argc, .argv = argv, .err = err};
	lk_status status = parse(&p);
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
	const struct memory *m = args->memory;
	*count = 1;
	for (size_t i = 0; i < m->option_count; i++) {
		if (m->lists[i].count) *count *= m->lists[i].count;
		if (*count <= COMBINATION_LIMIT) continue;
		lk_fail(err, LK_ERR_INPUT, NULL, "the lists make over %d combinations", COMBINATION_LIMIT);
		return lk_hint(err, "shorten a list, or run in parts");
	}
	return LK_OK;
}

lk_status lk_args_fill(lk_args *args, size_t index, void *request, lk_error *err) {
	const struct memory *m = args->memory;
	size_t count;
	LK_TRY(lk_args_combinations(args, &count, err));
	if (index >= count) return lk_fail(err, LK_ERR_INTERNAL, NULL, "combination %zu of %zu", index, count);
	/* The index is a number of mixed radix; its lowest digit belongs to the last list. */
	for (size_t i = m->option_count; i-- > 0;) {
		const lk_option *o = &args->verb->options[i];
		const char *text = args->texts[i];
		if (!text) continue;
		if (m->lists[i].count) {
			text = m->lists[i].items[index % m->lists[i].count];
			index /= m->lists[i].count;
		}
		LK_TRY(convert(o, text, (char *)request + o->offset, err));
	}
	return LK_OK;
}

bool lk_args_given(const lk_args *args, const char *name) {
	const struct memory *m = args->memory;
	for (size_t i = 0; m && i < m->option_count; i++) {
		if (strcmp(args->verb->options[i].name, name) == 0) return args->texts[i] != NULL;
	}
	return false;
}

lk_status lk_args_check_empty(const lk_args *args, lk_error *err) {
	for (size_t i = 0; args->verb->options && args->verb->options[i].name; i++) {
		const lk_option *o = &args->verb->options[i];
		if (args->help || o->kind != LK_OPTION_TEXT || !args->texts[i] || *args->texts[i]) continue;
		char where[WHERE_SIZE];
		where_of(o, where);
		lk_fail(err, LK_ERR_INPUT, where, "the value is empty");
		return lk_hint(err, "give %.64s, or leave the option out", o->value ? o->value : "a text");
	}
	return LK_OK;
}
