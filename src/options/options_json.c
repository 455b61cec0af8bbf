/* options_json.c: option tables as JSON, from which other programs generate code and documents. */
#include "lockstep/options.h"

#include "base/check.h"
#include "io/json.h"
#include "options/options_internal.h"

static const char *const kinds[] = {"flag", "switch", "text",  "lines",
                                    "int",  "real",   "count", "choice"};
_Static_assert(sizeof kinds / sizeof *kinds == LK_OPTION_CHOICE + 1,
               "a name for each kind of option");

static void put_limits(lk_json_writer *writer, const lk_option *option) {
	bool limited = option->low != 0 || option->high != 0;
	if (limited) {
		lk_json_put_number(writer, "low", option->low);
		lk_json_put_number(writer, "high", option->high);
	} else {
		lk_json_put_null(writer, "low");
		lk_json_put_null(writer, "high");
	}
}

static void put_choices(lk_json_writer *writer, const lk_option *option) {
	if (!option->choices) return lk_json_put_null(writer, "choices");
	lk_json_array(writer, "choices");
	for (size_t i = 0; option->choices[i]; i++) lk_json_put_text(writer, NULL, option->choices[i]);
	lk_json_array_end(writer);
}

static void json_put_option(lk_json_writer *writer, const lk_option *option, const char *group) {
	const char letter[2] = {option->letter, '\0'};
	LK_ASSERT((size_t)option->kind < sizeof kinds / sizeof *kinds);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", option->name);
	lk_json_put_text(writer, "letter", option->letter ? letter : NULL);
	lk_json_put_text(writer, "kind", kinds[option->kind]);
	lk_json_put_bool(writer, "sweep", option->sweep);
	put_limits(writer, option);
	put_choices(writer, option);
	lk_json_put_text(writer, "value", lk_option_is_switch(option) ? NULL : lk_option_value(option));
	lk_json_put_text(writer, "group", group);
	lk_json_put_text(writer, "help", option->help);
	lk_json_object_end(writer);
}

static void put_verb(lk_json_writer *writer, const lk_verb *verb) {
	const char *group = NULL;
	lk_json_object(writer, verb->name);
	lk_json_put_text(writer, "summary", verb->summary);
	lk_json_put_text(writer, "operands", verb->operands);
	lk_json_put_text(writer, "description", verb->description);
	lk_json_array(writer, "options");
	for (const lk_option *option = verb->options; option && option->name; option++) {
		if (option->group) group = option->group;
		json_put_option(writer, option, group);
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

lk_status lk_verbs_json(const lk_verb *const *verbs, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	for (size_t i = 0; verbs[i]; i++) put_verb(&w, verbs[i]);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
