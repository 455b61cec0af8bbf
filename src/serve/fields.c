/* fields.c: turns the fields of a JSON request into words for lk_args_parse. */
#include "base/arena.h"
#include "serve/serve_internal.h"

#include <string.h>

#include "io/stream.h"
#include "options/rollout_words.h"
#include "lockstep/shard.h"
#include "base/check.h"
#include "base/text.h"

/* Options that take the content of a file, and the name of the file that will hold it. */
static const struct {
	const char *option, *file;
	lk_serve_form form;
} contents[] = {
	{"model", "config.json", LK_FIELD_TEXT_OR_FILE},
	{"cluster", "cluster.json", LK_FIELD_TEXT_OR_FILE},
	{"deepspeed_config", "ds_config.json", LK_FIELD_FILE},
	{"script", "script.sh", LK_FIELD_CONTENT},
	{"config", "job", LK_FIELD_CONTENT}, /* its text determines its form */
	{"measured", "run.log", LK_FIELD_CONTENT},
	{"prices", "prices.csv", LK_FIELD_CONTENT},
	{"catalog", "vms.csv", LK_FIELD_CONTENT},
	{"placement", "placement.json", LK_FIELD_FILE},
	{"rollout", "rollout.json", LK_FIELD_TEXT_OR_FILE},
	{"job", "job.json", LK_FIELD_TEXT_OR_FILE},
};
enum { CONTENTS = sizeof contents / sizeof *contents };

/* Options that the server sets itself, in addition to all output options. */
static const char *const decided[] = {"threads", "emit"};

/* The operand of shard is a field too: the content of the table. */
static const char tables_field[] = "tables", tables_file[] = "tables.csv";

static int find_content_option(const lk_option *option) {
	for (int i = 0; i < CONTENTS; i++)
		if (strcmp(contents[i].option, option->name) == 0) return i;
	return -1;
}

const char *lk_serve_file_of(const lk_option *option) {
	int content = find_content_option(option);
	return content >= 0 ? contents[content].file : NULL;
}

lk_serve_form lk_serve_form_of(const lk_option *option) {
	if (option->output) return LK_FIELD_REFUSED;
	for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
		if (strcmp(decided[i], option->name) == 0) return LK_FIELD_REFUSED;
	if (find_content_option(option) >= 0) return contents[find_content_option(option)].form;
	if (option->value && (strstr(option->value, "FILE") || strstr(option->value, "DIR")))
		return LK_FIELD_REFUSED;
	switch (option->kind) {
	case LK_OPTION_FLAG:
	case LK_OPTION_SWITCH: return LK_FIELD_BOOL;
	case LK_OPTION_REAL: return LK_FIELD_NUMBER;
	case LK_OPTION_INT:
	case LK_OPTION_COUNT: return LK_FIELD_COUNT;
	case LK_OPTION_CHOICE: return LK_FIELD_CHOICE;
	case LK_OPTION_TEXT:
	case LK_OPTION_LINES: return LK_FIELD_TEXT;
	}
	return LK_FIELD_REFUSED;
}

const lk_serve_form_name lk_serve_form_names[] = {
	[LK_FIELD_REFUSED] = {"refused", "nothing"},
	[LK_FIELD_BOOL] = {"boolean", "true or false"},
	[LK_FIELD_NUMBER] = {"number", "a number"},
	[LK_FIELD_COUNT] = {"count", "a number or a text"},
	[LK_FIELD_TEXT] = {"text", "a text"},
	[LK_FIELD_CHOICE] = {"choice", "a text"},
	[LK_FIELD_TEXT_OR_FILE] = {"text_or_object", "a text or an object"},
	[LK_FIELD_FILE] = {"object", "an object"},
	[LK_FIELD_CONTENT] = {"content", "a text: the content of the file"},
};

struct reader {
	const lk_verb *verb;
	lk_arena *arena;
	lk_serve_words *out;
	lk_error *err;
};

static lk_status add_option_word(struct reader *reader, const char *name, const char *text) {
	const char *word = lk_arena_printf(reader->arena, "--%s=%s", name, text);
	if (!word) return lk_oom(reader->err);
	reader->out->words[reader->out->count++] = word;
	return LK_OK;
}

static lk_status fail_refused_option(struct reader *reader, const lk_option *option) {
	const char *where = lk_arena_printf(reader->arena, "--%s", option->name);
	bool file = option->value && (strstr(option->value, "FILE") || strstr(option->value, "DIR"));
	if (file) {
		lk_fail(reader->err, LK_ERR_INPUT, where,
		        "the server neither reads nor writes files by name");
		return lk_hint(reader->err, "leave it out, or use lockstep %s", reader->verb->name);
	}
	lk_fail(reader->err, LK_ERR_INPUT, where, "the server decides this");
	return lk_hint(reader->err, "leave it out");
}

static lk_status fail_wrong_form(struct reader *reader, const lk_option *option,
                                 lk_serve_form form) {
	lk_fail(reader->err, LK_ERR_INPUT, lk_arena_printf(reader->arena, "--%s", option->name),
	        "must be %s in JSON", lk_serve_form_names[form].said);
	return lk_hint(reader->err, "see GET /api/v1/options, or leave it out");
}

/* Refuses an empty text and a text that the verb might read as a path. The id of a network has a
 * slash too; it names no file in the child's working folder. */
static lk_status check_option_text(struct reader *reader, const lk_option *option,
                                   lk_serve_form form, const char *text) {
	const char *where = lk_arena_printf(reader->arena, "--%s", option->name);
	if (!*text) {
		lk_fail(reader->err, LK_ERR_INPUT, where, "the value is empty");
		return lk_hint(reader->err, "give %.64s, or leave the option out",
		               option->value ? option->value : "a text");
	}
	bool id = strcmp(option->name, "model") == 0 && lk_id_form(text);
	bool words = strcmp(option->name, "rollout") == 0; /* values may be ids */
	bool path = words ? lk_rollout_file(text, &(size_t){0}) != NULL : strchr(text, '/') && !id;
	if (form != LK_FIELD_TEXT_OR_FILE || !path) return LK_OK;
	lk_fail(reader->err, LK_ERR_INPUT, where, "the server reads no files by name");
	return lk_hint(reader->err, "give the content of the file as an object");
}

static lk_status keep_file(struct reader *reader, const char *name, const lk_value *value) {
	if (reader->out->file_count == LK_SERVE_FILES)
		return lk_fail(reader->err, LK_ERR_INPUT, "body", "too many files");
	reader->out->files[reader->out->file_count++] = (lk_serve_file){name, value};
	return LK_OK;
}

static lk_status add_content_file(struct reader *reader, const lk_option *option,
                                  const lk_value *value) {
	LK_ASSERT(find_content_option(option) >= 0);
	const char *name = contents[find_content_option(option)].file;
	LK_TRY(keep_file(reader, name, value));
	return add_option_word(reader, option->name, name);
}

static lk_status add_tables(struct reader *reader, const lk_value *value) {
	if (value->kind == LK_JSON_NULL) return LK_OK;
	if (value->kind != LK_JSON_STRING) {
		lk_fail(reader->err, LK_ERR_INPUT, tables_field, "must be %s in JSON",
		        lk_serve_form_names[LK_FIELD_CONTENT].said);
		return lk_hint(reader->err, "give the lines of the CSV file, or leave it out");
	}
	LK_TRY(keep_file(reader, tables_file, value));
	reader->out->words[reader->out->count++] = tables_file;
	return LK_OK;
}

static lk_status add_json_field(struct reader *reader, const lk_option *option,
                                const lk_value *value) {
	lk_serve_form form = lk_serve_form_of(option);
	lk_json_token kind = value->kind;
	if (form == LK_FIELD_REFUSED) return fail_refused_option(reader, option);
	if (kind == LK_JSON_NULL) return LK_OK;
	if (form == LK_FIELD_BOOL && (kind == LK_JSON_TRUE || kind == LK_JSON_FALSE))
		return add_option_word(reader, option->name, kind == LK_JSON_TRUE ? "true" : "false");
	/* A number may stand for a text: a list of one, as "gpus": 16 of a plan, or a name, as "zero":
	 * 3. */
	if ((form == LK_FIELD_NUMBER || form == LK_FIELD_COUNT || form == LK_FIELD_TEXT) &&
	    kind == LK_JSON_NUMBER)
		return add_option_word(reader, option->name, value->text);
	if ((form == LK_FIELD_TEXT_OR_FILE || form == LK_FIELD_FILE) && kind == LK_JSON_OBJECT)
		return add_content_file(reader, option, value);
	if (form == LK_FIELD_CONTENT && kind == LK_JSON_STRING)
		return add_content_file(reader, option, value);
	bool list = option->sweep && kind == LK_JSON_STRING && strchr(value->text, ',');
	bool text = form == LK_FIELD_COUNT || form == LK_FIELD_TEXT || form == LK_FIELD_CHOICE ||
	            form == LK_FIELD_TEXT_OR_FILE || (form == LK_FIELD_NUMBER && list);
	if (!text || kind != LK_JSON_STRING) return fail_wrong_form(reader, option, form);
	LK_TRY(check_option_text(reader, option, form, value->text));
	return add_option_word(reader, option->name, value->text);
}

/* Takes the words of a launch line. */
static lk_status add_launch_words(struct reader *reader, const lk_value *value) {
	if (value->kind == LK_JSON_NULL) return LK_OK;
	bool right = value->kind == LK_JSON_ARRAY;
	for (size_t i = 0; right && i < value->count; i++)
		right = value->items[i].kind == LK_JSON_STRING;
	if (!right) {
		lk_fail(reader->err, LK_ERR_INPUT, "launch", "must be an array of texts in JSON");
		return lk_hint(reader->err, "give the words of the launch line one by one");
	}
	reader->out->launch = LK_ARRAY(reader->arena, const char *, value->count + 1);
	if (!reader->out->launch) return lk_oom(reader->err);
	reader->out->launch_count = 0;
	for (size_t i = 0; i < value->count; i++)
		reader->out->launch[reader->out->launch_count++] = value->items[i].text;
	return LK_OK;
}

static const lk_option *find_verb_option(const lk_verb *verb, const char *key) {
	for (const lk_option *option = verb->options; option->name; option++)
		if (strcmp(option->name, key) == 0) return option;
	return NULL;
}

/* Fails with the hint of the option parser, which names the nearest option. Other spellings that
 * the parser accepts are unknown here. */
static lk_status fail_unknown_field(struct reader *reader, const char *key) {
	lk_args args;
	const char *word = lk_arena_printf(reader->arena, "--%s", key);
	if (!word) return lk_oom(reader->err);
	bool plain = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
	             strlen(key);
	if (plain && *key && lk_args_parse(reader->verb, 1, &word, &args, reader->err) == LK_OK)
		lk_args_free(&args);
	else if (plain && *key &&
	         (strcmp(reader->err->what, "unknown option") == 0 ||
	          strncmp(reader->err->what, "not modelled", strlen("not modelled")) == 0))
		return reader->err->status;
	lk_fail(reader->err, LK_ERR_INPUT, word, "unknown option");
	return lk_hint(reader->err, "see GET /api/v1/options");
}

static lk_status read_body_fields(struct reader *reader, const lk_value *body) {
	if (body->kind != LK_JSON_OBJECT) {
		lk_fail(reader->err, LK_ERR_INPUT, "body", "must be an object in JSON");
		return lk_hint(reader->err, "write {\"option\": value, ...}");
	}
	reader->out->words = LK_ARRAY(reader->arena, const char *, body->count + 1);
	if (!reader->out->words) return lk_oom(reader->err);
	for (size_t i = 0; i < body->count; i++) {
		const lk_option *option = find_verb_option(reader->verb, body->keys[i]);
		if (option) LK_TRY(add_json_field(reader, option, &body->items[i]));
		else if (reader->verb->rest && strcmp(body->keys[i], "launch") == 0)
			LK_TRY(add_launch_words(reader, &body->items[i]));
		else if (reader->verb == &lk_shard_verb && strcmp(body->keys[i], tables_field) == 0)
			LK_TRY(add_tables(reader, &body->items[i]));
		else return fail_unknown_field(reader, body->keys[i]);
	}
	return LK_OK;
}

lk_status lk_serve_fields(const lk_verb *verb, const char *body, size_t size, lk_arena *arena,
                          lk_serve_words *out, lk_error *err) {
	struct reader r = {verb, arena, out, err};
	lk_stream *in = NULL;
	lk_value *value = NULL;
	*out = (lk_serve_words){0};
	LK_TRY(lk_stream_memory(body, size, "body", &in, err));
	bool plain = lk_stream_plain(in);
	lk_status status = plain ? lk_json_document(arena, in, &value, err)
	                         : lk_fail(err, LK_ERR_INPUT, "body", "is compressed");
	lk_stream_close(in);
	return status == LK_OK ? read_body_fields(&r, value) : status;
}
