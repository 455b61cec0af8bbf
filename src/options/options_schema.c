/* options_schema.c: the options of a verb as a JSON Schema, for programs that ask with objects. */
#include "options/options_schema.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "options/options_internal.h"

/* Types of the values that an option takes in JSON; a list of several values is a text. */
static void put_types(lk_json_writer *writer, const lk_option *option) {
	bool number = option->kind == LK_OPTION_INT || option->kind == LK_OPTION_REAL ||
	              option->kind == LK_OPTION_COUNT;
	bool text = option->kind != LK_OPTION_REAL || option->sweep;
	bool lines = option->kind == LK_OPTION_LINES;
	if (lk_option_is_switch(option)) return lk_json_put_text(writer, "type", "boolean");
	if (number != text && !lines)
		return lk_json_put_text(writer, "type", number ? "number" : "string");
	lk_json_array(writer, "type");
	lk_json_put_text(writer, NULL, lines ? "array" : "number");
	lk_json_put_text(writer, NULL, "string");
	lk_json_array_end(writer);
	if (!lines) return;
	lk_json_object(writer, "items");
	lk_json_put_text(writer, "type", "string");
	lk_json_object_end(writer);
}

static void schema_put_option(lk_json_writer *writer, const lk_option *option) {
	char help[2048], note[512];
	lk_text text = lk_text_begin(help, sizeof help);
	lk_text_add(&text, "%s", option->help ? option->help : "");
	lk_option_note(option, note, sizeof note);
	if (*note && option->kind != LK_OPTION_CHOICE) lk_text_add(&text, " [%s]", note);
	lk_json_object(writer, option->name);
	put_types(writer, option);
	if (option->kind == LK_OPTION_CHOICE && !option->sweep) {
		lk_json_array(writer, "enum");
		for (size_t i = 0; option->choices[i]; i++)
			lk_json_put_text(writer, NULL, option->choices[i]);
		lk_json_array_end(writer);
	}
	lk_json_put_text(writer, "description", help);
	lk_json_object_end(writer);
}

static void put_words(lk_json_writer *writer, const char *key, const char *what) {
	lk_json_object(writer, key);
	lk_json_put_text(writer, "type", "array");
	lk_json_object(writer, "items");
	lk_json_put_text(writer, "type", "string");
	lk_json_object_end(writer);
	lk_json_put_text(writer, "description", what);
	lk_json_object_end(writer);
}

static void put_schema(lk_json_writer *writer, const lk_verb *verb, lk_option_wanted *wanted) {
	LK_ASSERT(verb->options != NULL);
	bool whole = true;
	lk_json_put_text(writer, "type", "object");
	lk_json_object(writer, "properties");
	for (const lk_option *option = verb->options; option->name; option++) {
		bool put = !wanted || wanted(verb, option);
		whole &= put;
		if (put) schema_put_option(writer, option);
	}
	if (verb->max_operands != 0) put_words(writer, "operands", verb->operands);
	if (verb->rest) put_words(writer, "launch", "the words of a launch line, as they are typed");
	lk_json_object_end(writer);
	lk_json_put_bool(writer, "additionalProperties", !whole);
}

void lk_verb_schema_put(lk_json_writer *writer, const char *key, const lk_verb *verb,
                        lk_option_wanted *wanted) {
	lk_json_object(writer, key);
	put_schema(writer, verb, wanted);
	lk_json_object_end(writer);
}

const lk_option *lk_option_of_member(const lk_verb *verb, const char *key) {
	for (const lk_option *option = verb->options; option->name; option++)
		if (lk_option_is_name(key, strlen(key), option->name)) return option;
	return NULL;
}

bool lk_option_wanted_first(const lk_verb *verb, const lk_option *option) {
	return !verb->first || lk_option_is_first(verb, option);
}

lk_status lk_verb_schema(const lk_verb *verb, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
	lk_json_put_text(&w, "title", verb->name);
	lk_json_put_text(&w, "description", verb->summary);
	put_schema(&w, verb, NULL);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
