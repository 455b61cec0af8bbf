/* form_document.c: the form of a JSON document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/form.h"

enum {
	NEWEST_SCHEMA = 1 /* of all answers */
};

static const char *form_key(lk_form form, char *out, size_t size) {
	snprintf(out, size, "lockstep_%s", lk_form_name(form));
	return out;
}

void lk_form_put(lk_json_writer *writer, lk_form form) {
	char key[32];
	lk_json_put_integer(writer, form_key(form, key, sizeof key), lk_form_newest(form));
}

lk_status lk_form_check_member(lk_form form, const lk_value *document, const char *file,
                               lk_error *err) {
	char key[32], where[256];
	const lk_value *said = lk_json_get(document, form_key(form, key, sizeof key));
	if (!said) return LK_OK;
	snprintf(where, sizeof where, "%.200s:%d:%d", file, said->line, said->column);
	if (said->kind == LK_JSON_NUMBER) return lk_form_check(form, said->number, where, err);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" must be a number", key);
	return lk_hint(err, "it is the form of the file, %d", lk_form_newest(form));
}

lk_status lk_form_check_answer(const lk_value *document, const char *file, char *verb, size_t size,
                               lk_error *err) {
	static const char head[] = "lockstep/";
	const lk_value *schema = lk_json_get(document, "schema");
	*verb = '\0';
	if (!schema || schema->kind != LK_JSON_STRING ||
	    strncmp(schema->text, head, sizeof head - 1) != 0)
		return LK_OK;
	const char *name = schema->text + sizeof head - 1, *slash = strchr(name, '/');
	if (!slash || slash == name || (size_t)(slash - name) >= size) return LK_OK;
	char what[96], *end;
	double version = strtod(slash + 1, &end);
	snprintf(verb, size, "%.*s", (int)(slash - name), name);
	snprintf(what, sizeof what, "an answer of %.60s", verb);
	if (end > slash + 1 && !*end && version >= 1 && version <= NEWEST_SCHEMA) return LK_OK;
	return lk_form_refuse(what, version, NEWEST_SCHEMA, file, err);
}
