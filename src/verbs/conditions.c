/* conditions.c: --fail-if: whether something holds of an answer, by its keys in JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/json.h"
#include "system/memory.h"
#include "verbs/verbs.h"

typedef enum condition_sign {
	BELOW,
	AT_MOST,
	ABOVE,
	AT_LEAST,
	EQUAL,
	UNEQUAL,
	SIGNS
} condition_sign;

/* The longer of two that begin alike comes first. */
static const struct {
	const char *text;
	condition_sign sign;
} signs[] = {{"<=", AT_MOST}, {">=", AT_LEAST}, {"!=", UNEQUAL}, {"==", EQUAL},
             {"<", BELOW},    {">", ABOVE},     {"=", EQUAL}};

struct condition {
	char key[128], value[128];
	condition_sign sign;
	double number; /* of the value, where it is one */
	bool is_number;
	const char *text; /* the condition as it is written */
};

enum { LONGEST = 160 };

/* Copies a part of a text without the blanks around it, and without quotes; false: too long. */
static bool copy_part(char *out, size_t size, const char *from, size_t length) {
	while (length && *from == ' ') from++, length--;
	while (length && from[length - 1] == ' ') length--;
	bool quoted = length > 1 && (*from == '"' || *from == '\'') && from[length - 1] == *from;
	if (quoted) from++, length -= 2;
	if (length == 0 || length >= size) return false;
	memcpy(out, from, length);
	out[length] = '\0';
	return true;
}

static void read_number(struct condition *out) {
	char *end;
	out->number = strtod(out->value, &end);
	out->is_number = end != out->value;
	if (*end == '%') {
		out->number /= 100;
		end++;
	}
	out->is_number &= *end == '\0';
}

static lk_status read_condition(const char *text, struct condition *out, lk_error *err) {
	size_t at = strcspn(text, "<>=!");
	*out = (struct condition){.sign = SIGNS, .text = text};
	for (size_t i = 0; i < sizeof signs / sizeof *signs && out->sign == SIGNS; i++) {
		size_t length = strlen(signs[i].text);
		if (strncmp(text + at, signs[i].text, length) != 0) continue;
		const char *value = text + at + length;
		if (!copy_part(out->key, sizeof out->key, text, at) ||
		    !copy_part(out->value, sizeof out->value, value, strlen(value)))
			break;
		out->sign = signs[i].sign;
	}
	if (out->sign == SIGNS) {
		lk_fail(err, LK_ERR_INPUT, "--fail-if", "\"%.64s\" is no condition", text);
		return lk_hint(err, "write KEY > NUMBER, as in 'step_time_s > 10'");
	}
	read_number(out);
	return LK_OK;
}

static lk_status fail_no_key(const lk_value *object, const char *key, const struct condition *asked,
                             lk_error *err) {
	const char *of = strcmp(key, asked->key) != 0 ? " of " : "";
	lk_fail(err, LK_ERR_INPUT, "--fail-if", "the answer has no %.64s%s%.64s", key, of,
	        *of ? asked->key : "");
	if (object->kind == LK_JSON_OBJECT) return lk_hint_names(err, key, object->keys, object->count);
	if (object->kind == LK_JSON_ARRAY)
		return lk_hint(err, "give a number below %zu", object->count);
	return lk_hint(err, "-o json shows its keys");
}

static lk_status find_value(const lk_value *answer, const struct condition *asked,
                            const lk_value **out, lk_error *err) {
	char key[sizeof asked->key];
	const char *at = asked->key;
	for (*out = answer; *at; at += *at == '.') {
		size_t length = strcspn(at, ".");
		const lk_value *from = *out;
		memcpy(key, at, length);
		key[length] = '\0';
		at += length;
		char *end;
		unsigned long index = strtoul(key, &end, 10);
		if (from->kind == LK_JSON_ARRAY && end != key && !*end && index < from->count)
			*out = &from->items[index];
		else *out = lk_json_get(from, key);
		if (!*out) return fail_no_key(from, key, asked, err);
	}
	return LK_OK;
}

static bool is_ordered(condition_sign sign, int order) {
	switch (sign) {
	case BELOW: return order < 0;
	case AT_MOST: return order <= 0;
	case ABOVE: return order > 0;
	case AT_LEAST: return order >= 0;
	case EQUAL: return order == 0;
	case UNEQUAL: return order != 0;
	case SIGNS: break;
	}
	return false;
}

/* A value as a word; NULL: an object or an array. */
static const char *word_of(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_TRUE: return "true";
	case LK_JSON_FALSE: return "false";
	case LK_JSON_NULL: return "null";
	default: return value->text;
	}
}

/* Whether it holds of one answer; `said`: the value there. */
static lk_status check_condition(const lk_value *answer, const struct condition *asked, bool *holds,
                                 char said[LONGEST], lk_error *err) {
	const lk_value *value;
	bool only_equal = asked->sign == EQUAL || asked->sign == UNEQUAL;
	*holds = false;
	LK_TRY(find_value(answer, asked, &value, err));
	const char *text = word_of(value);
	if (text) lk_copy(said, LONGEST, text);
	if (value->kind == LK_JSON_NUMBER && asked->is_number) {
		double a = value->number, b = asked->number;
		*holds = is_ordered(asked->sign, (a > b) - (a < b));
		return LK_OK;
	}
	if (text && only_equal && value->kind != LK_JSON_NUMBER) {
		*holds = is_ordered(asked->sign, strcmp(text, asked->value) != 0);
		return LK_OK;
	}
	if (value->kind == LK_JSON_NULL) return LK_OK; /* not known: nothing holds of it */
	lk_fail(err, LK_ERR_INPUT, "--fail-if", "\"%.64s\" does not compare with what the answer has",
	        asked->text);
	return lk_hint(err, "numbers have an order; texts, true and false are equal or not");
}

/* The line at `*at`, which moves to the next; NULL: out of memory. */
static char *next_line(lk_arena *arena, const char **at) {
	size_t length = strcspn(*at, "\n");
	char *line = lk_arena_strndup(arena, *at, length);
	*at += length + ((*at)[length] == '\n');
	return line;
}

lk_status lk_conditions_check(const char *conditions, lk_error *err) {
	lk_arena arena = {0};
	struct condition c;
	lk_status status = LK_OK;
	const char *at = conditions;
	if (!conditions) return LK_OK;
	do {
		const char *line = next_line(&arena, &at);
		status = line ? read_condition(line, &c, err) : lk_oom(err);
	} while (status == LK_OK && *at);
	lk_arena_free(&arena);
	return status;
}

static lk_status check_line(const lk_value *answer, const char *line, char met[LK_MET_SIZE],
                            lk_error *err) {
	struct condition c;
	bool list = answer->kind == LK_JSON_ARRAY, holds = false;
	size_t count = list ? answer->count : 1;
	char said[LONGEST] = "";
	LK_TRY(read_condition(line, &c, err));
	for (size_t i = 0; i < count && !holds; i++) {
		const lk_value *one = list ? &answer->items[i] : answer;
		if (list && lk_json_get(one, "error")) continue; /* a combination that was refused */
		LK_TRY(check_condition(one, &c, &holds, said, err));
		if (holds && list)
			snprintf(met, LK_MET_SIZE, "%.100s: %.100s in row %zu", line, said, i + 1);
		else if (holds) snprintf(met, LK_MET_SIZE, "%.100s: %.100s", line, said);
	}
	return LK_OK;
}

lk_status lk_conditions_met(const char *conditions, const char *json, size_t size,
                            char met[LK_MET_SIZE], lk_error *err) {
	lk_arena arena = {0};
	lk_stream *in = NULL;
	lk_value *answer = NULL;
	*met = '\0';
	lk_status status = lk_stream_memory(json, size, "the answer", &in, err);
	if (status == LK_OK) status = lk_json_document(&arena, in, &answer, err);
	lk_stream_close(in);
	const char *at = conditions;
	while (status == LK_OK && *at && !*met) {
		const char *line = next_line(&arena, &at);
		status = line ? check_line(answer, line, met, err) : lk_oom(err);
	}
	lk_arena_free(&arena);
	return status;
}

lk_status lk_verb_met(const lk_verb_row *row, const void *answer, const lk_outputs *outputs,
                      char met[LK_MET_SIZE], lk_error *err) {
	lk_outputs json = {.format = LK_OUTPUT_JSON, .verbose = outputs->verbose};
	char *text = NULL;
	size_t size = 0;
	*met = '\0';
	if (!outputs->fail_if) return LK_OK;
	FILE *out = lk_memory_open(&text, &size);
	if (!out) return lk_oom(err);
	lk_status status = row->print(answer, &json, false, out, err);
	if (!lk_memory_close(out) && status == LK_OK) status = lk_oom(err);
	if (status == LK_OK) status = lk_conditions_met(outputs->fail_if, text, size, met, err);
	free(text);
	return status;
}
