/* options_json.c: option tables as JSON, for programs that write something of their own from them. */
#include "lockstep/options.h"

#include "io/json.h"
#include "options/options_internal.h"

static const char *const kinds[] = {"flag", "switch", "text", "lines", "int", "real", "count", "choice"};
_Static_assert(sizeof kinds / sizeof *kinds == LK_OPTION_CHOICE + 1, "a name for each kind of option");

static void put_limits(lk_json_writer *w, const lk_option *o) {
	bool limited = o->low != 0 || o->high != 0;
	if (limited) lk_json_put_number(w, "low", o->low), lk_json_put_number(w, "high", o->high);
	else lk_json_put_null(w, "low"), lk_json_put_null(w, "high");
}

static void put_choices(lk_json_writer *w, const lk_option *o) {
	if (!o->choices) return lk_json_put_null(w, "choices");
	lk_json_array(w, "choices");
	for (size_t i = 0; o->choices[i]; i++) lk_json_put_text(w, NULL, o->choices[i]);
	lk_json_array_end(w);
}

static void put_option(lk_json_writer *w, const lk_option *o, const char *group) {
	const char letter[2] = {o->letter, '\0'};
	lk_json_object(w, NULL);
	lk_json_put_text(w, "name", o->name);
	lk_json_put_text(w, "letter", o->letter ? letter : NULL);
	lk_json_put_text(w, "kind", kinds[o->kind]);
	lk_json_put_bool(w, "sweep", o->sweep);
	put_limits(w, o);
	put_choices(w, o);
	lk_json_put_text(w, "value", lk_option_is_switch(o) ? NULL : lk_option_value(o));
	lk_json_put_text(w, "group", group);
	lk_json_put_text(w, "help", o->help);
	lk_json_object_end(w);
}

static void put_verb(lk_json_writer *w, const lk_verb *v) {
	const char *group = NULL;
	lk_json_object(w, v->name);
	lk_json_put_text(w, "summary", v->summary);
	lk_json_put_text(w, "operands", v->operands);
	lk_json_put_text(w, "description", v->description);
	lk_json_array(w, "options");
	for (const lk_option *o = v->options; o && o->name; o++) {
		if (o->group) group = o->group;
		put_option(w, o, group);
	}
	lk_json_array_end(w);
	lk_json_object_end(w);
}

lk_status lk_verbs_json(const lk_verb *const *verbs, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	for (size_t i = 0; verbs[i]; i++) put_verb(&w, verbs[i]);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}
