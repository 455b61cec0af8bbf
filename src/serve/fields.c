/* fields.c: from the fields of a JSON request to words that lk_args_parse reads. */
#include "serve/serve_internal.h"

#include <string.h>

#include "io/stream.h"

/* Options that take the content of a file, and the name under which the question finds it. */
static const struct {
	const char *option, *file;
	lk_serve_form form;
} contents[] = {
	{"model", "config.json", LK_FIELD_TEXT_OR_FILE},
	{"cluster", "cluster.json", LK_FIELD_TEXT_OR_FILE},
	{"deepspeed_config", "ds_config.json", LK_FIELD_FILE},
	{"script", "script.sh", LK_FIELD_CONTENT},
};
enum { CONTENTS = sizeof contents / sizeof *contents };

/* What the server decides. */
static const char *const decided[] = {"output", "verbose", "table", "threads", "emit"};

static int content_of(const lk_option *o) {
	for (int i = 0; i < CONTENTS; i++)
		if (strcmp(contents[i].option, o->name) == 0) return i;
	return -1;
}

lk_serve_form lk_serve_form_of(const lk_option *o) {
	for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
		if (strcmp(decided[i], o->name) == 0) return LK_FIELD_REFUSED;
	if (content_of(o) >= 0) return contents[content_of(o)].form;
	if (o->value && (strstr(o->value, "FILE") || strstr(o->value, "DIR"))) return LK_FIELD_REFUSED;
	switch (o->kind) {
	case LK_OPTION_FLAG:
	case LK_OPTION_SWITCH: return LK_FIELD_BOOL;
	case LK_OPTION_INT:
	case LK_OPTION_REAL: return LK_FIELD_NUMBER;
	case LK_OPTION_COUNT: return LK_FIELD_COUNT;
	case LK_OPTION_CHOICE: return LK_FIELD_CHOICE;
	case LK_OPTION_TEXT:
	case LK_OPTION_LINES: return LK_FIELD_TEXT;
	}
	return LK_FIELD_REFUSED;
}

const char *lk_serve_form_name(lk_serve_form form) {
	switch (form) {
	case LK_FIELD_REFUSED: return "nothing";
	case LK_FIELD_BOOL: return "true or false";
	case LK_FIELD_NUMBER: return "a number";
	case LK_FIELD_COUNT: return "a number or a text";
	case LK_FIELD_TEXT:
	case LK_FIELD_CHOICE: return "a text";
	case LK_FIELD_TEXT_OR_FILE: return "a text or an object";
	case LK_FIELD_FILE: return "an object";
	case LK_FIELD_CONTENT: return "a text: the content of the file";
	}
	return "";
}

struct reader {
	const lk_verb *verb;
	lk_arena *arena;
	lk_serve_words *out;
	lk_error *err;
};

static lk_status add_word(struct reader *r, const char *name, const char *text) {
	const char *word = lk_arena_printf(r->arena, "--%s=%s", name, text);
	if (!word) return lk_oom(r->err);
	r->out->words[r->out->count++] = word;
	return LK_OK;
}

static lk_status refused(struct reader *r, const lk_option *o) {
	const char *where = lk_arena_printf(r->arena, "--%s", o->name);
	bool file = o->value && (strstr(o->value, "FILE") || strstr(o->value, "DIR"));
	if (file) {
		lk_fail(r->err, LK_ERR_INPUT, where, "the server neither reads nor writes files by name");
		return lk_hint(r->err, "leave it out, or use lockstep %s", r->verb->name);
	}
	lk_fail(r->err, LK_ERR_INPUT, where, "the server decides this");
	return lk_hint(r->err, "leave it out");
}

static lk_status wrong_form(struct reader *r, const lk_option *o, lk_serve_form form) {
	lk_fail(r->err, LK_ERR_INPUT, lk_arena_printf(r->arena, "--%s", o->name), "must be %s in JSON",
			lk_serve_form_name(form));
	return lk_hint(r->err, "see GET /api/v1/options, or leave it out");
}

/* A text that could be a path would be read as one by the verb. */
static lk_status check_text(struct reader *r, const lk_option *o, lk_serve_form form, const char *text) {
	const char *where = lk_arena_printf(r->arena, "--%s", o->name);
	if (!*text) {
		lk_fail(r->err, LK_ERR_INPUT, where, "the value is empty");
		return lk_hint(r->err, "give %.64s, or leave the option out", o->value ? o->value : "a text");
	}
	if (form != LK_FIELD_TEXT_OR_FILE || !strchr(text, '/')) return LK_OK;
	lk_fail(r->err, LK_ERR_INPUT, where, "the server reads no files by name");
	return lk_hint(r->err, "give the content of the file as an object");
}

static lk_status add_file(struct reader *r, const lk_option *o, const lk_value *value) {
	const char *name = contents[content_of(o)].file;
	if (r->out->file_count == LK_SERVE_FILES) return lk_fail(r->err, LK_ERR_INPUT, "body", "too many files");
	r->out->files[r->out->file_count++] = (lk_serve_file){name, value};
	return add_word(r, o->name, name);
}

static lk_status add_field(struct reader *r, const lk_option *o, const lk_value *value) {
	lk_serve_form form = lk_serve_form_of(o);
	lk_json_token kind = value->kind;
	if (form == LK_FIELD_REFUSED) return refused(r, o);
	if (kind == LK_JSON_NULL) return LK_OK;
	if (form == LK_FIELD_BOOL && (kind == LK_JSON_TRUE || kind == LK_JSON_FALSE))
		return add_word(r, o->name, kind == LK_JSON_TRUE ? "true" : "false");
	if ((form == LK_FIELD_NUMBER || form == LK_FIELD_COUNT) && kind == LK_JSON_NUMBER)
		return add_word(r, o->name, value->text);
	if ((form == LK_FIELD_TEXT_OR_FILE || form == LK_FIELD_FILE) && kind == LK_JSON_OBJECT)
		return add_file(r, o, value);
	if (form == LK_FIELD_CONTENT && kind == LK_JSON_STRING) return add_file(r, o, value);
	bool text = form == LK_FIELD_COUNT || form == LK_FIELD_TEXT || form == LK_FIELD_CHOICE ||
		form == LK_FIELD_TEXT_OR_FILE;
	if (!text || kind != LK_JSON_STRING) return wrong_form(r, o, form);
	LK_TRY(check_text(r, o, form, value->text));
	return add_word(r, o->name, value->text);
}

/* The words of a launch line. */
static lk_status add_launch(struct reader *r, const lk_value *value) {
	if (value->kind == LK_JSON_NULL) return LK_OK;
	bool right = value->kind == LK_JSON_ARRAY;
	for (size_t i = 0; right && i < value->count; i++) right = value->items[i].kind == LK_JSON_STRING;
	if (!right) {
		lk_fail(r->err, LK_ERR_INPUT, "launch", "must be an array of texts in JSON");
		return lk_hint(r->err, "give the words of the launch line one by one");
	}
	r->out->launch = LK_ARRAY(r->arena, const char *, value->count + 1);
	if (!r->out->launch) return lk_oom(r->err);
	r->out->launch_count = 0;
	for (size_t i = 0; i < value->count; i++) r->out->launch[r->out->launch_count++] = value->items[i].text;
	return LK_OK;
}

static const lk_option *find(const lk_verb *verb, const char *key) {
	for (const lk_option *o = verb->options; o->name; o++)
		if (strcmp(o->name, key) == 0) return o;
	return NULL;
}

/* The option parser names the nearest option; what it would take in another spelling is no name here. */
static lk_status unknown(struct reader *r, const char *key) {
	lk_args args;
	const char *word = lk_arena_printf(r->arena, "--%s", key);
	if (!word) return lk_oom(r->err);
	bool plain = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == strlen(key);
	if (plain && *key && lk_args_parse(r->verb, 1, &word, &args, r->err) == LK_OK) lk_args_free(&args);
	else if (plain && *key && strcmp(r->err->what, "unknown option") == 0) return r->err->status;
	lk_fail(r->err, LK_ERR_INPUT, word, "unknown option");
	return lk_hint(r->err, "see GET /api/v1/options");
}

static lk_status read_fields(struct reader *r, const lk_value *body) {
	if (body->kind != LK_JSON_OBJECT) {
		lk_fail(r->err, LK_ERR_INPUT, "body", "must be an object in JSON");
		return lk_hint(r->err, "write {\"option\": value, ...}");
	}
	r->out->words = LK_ARRAY(r->arena, const char *, body->count + 1);
	if (!r->out->words) return lk_oom(r->err);
	for (size_t i = 0; i < body->count; i++) {
		const lk_option *o = find(r->verb, body->keys[i]);
		if (o) LK_TRY(add_field(r, o, &body->items[i]));
		else if (r->verb->rest && strcmp(body->keys[i], "launch") == 0) LK_TRY(add_launch(r, &body->items[i]));
		else return unknown(r, body->keys[i]);
	}
	return LK_OK;
}

lk_status lk_serve_fields(const lk_verb *verb, const char *body, size_t size, lk_arena *arena, lk_serve_words *out,
						  lk_error *err) {
	struct reader r = {verb, arena, out, err};
	lk_stream *in = NULL;
	lk_value *value = NULL;
	*out = (lk_serve_words){0};
	LK_TRY(lk_stream_memory(body, size, "body", &in, err));
	bool plain = lk_stream_plain(in);
	lk_status status = plain ? lk_json_document(arena, in, &value, err)
							 : lk_fail(err, LK_ERR_INPUT, "body", "is compressed");
	lk_stream_close(in);
	return status == LK_OK ? read_fields(&r, value) : status;
}
