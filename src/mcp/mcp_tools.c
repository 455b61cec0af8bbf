/* mcp_tools.c: verbs as tools and catalogues as resources; arguments in JSON as words of a command
 * line. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mcp/mcp_internal.h"
#include "options/options_schema.h"
#include "verbs/verbs.h"

static const lk_verb_row *const tools[] = {
	&lk_row_predict,  &lk_row_plan,       &lk_row_explain, &lk_row_whatif, &lk_row_diff,
	&lk_row_replay,   &lk_row_collective, &lk_row_shard,   &lk_row_rent,   &lk_row_jobs,
	&lk_row_machines, &lk_row_devices,    &lk_row_models,
};
enum { TOOLS = sizeof tools / sizeof *tools };

/* A tool of its own: the help of a verb, with all of its options. */
static const char help_tool[] = "help";

static const struct {
	const char *uri, *name, *what, *verb;
} lists[] = {
	{"lockstep://devices", "devices", "GPUs known by name: peaks, memory, links", "devices"},
	{"lockstep://models", "models", "networks known by name, with their sizes", "models"},
	{"lockstep://machines", "machines", "machines with GPUs that can be rented, with prices",
     "machines"},
};
enum { LISTS = sizeof lists / sizeof *lists };

static const char help_uri[] = "lockstep://help/";

/* ---- lists ---- */

/* Whether an option names a file or a folder that the verb writes, or is the server's to set. */
static bool is_withheld(const lk_verb_row *row, const lk_option *option) {
	static const char *const kept[] = {"output", "table", "verbose"};
	bool keeps = false;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		keeps |= strcmp(option->name, kept[i]) == 0;
	if (option->output) return !keeps;
	for (int i = 0; i < LK_VERB_PATHS && row->paths[i]; i++)
		if (option->offset == row->paths[i] - 1) return true;
	return row->folder && option->offset == row->folder - 1;
}

static const lk_verb_row *find_tool(const char *name) {
	for (int i = 0; i < TOOLS; i++)
		if (strcmp(tools[i]->verb->name, name) == 0) return tools[i];
	return NULL;
}

static bool is_shown(const lk_verb *verb, const lk_option *option) {
	const lk_verb_row *row = find_tool(verb->name);
	LK_ASSERT(row != NULL);
	return lk_option_wanted_first(verb, option) && !is_withheld(row, option);
}

static void put_annotations(lk_json_writer *writer) {
	lk_json_object(writer, "annotations");
	lk_json_put_bool(writer, "readOnlyHint", true);
	lk_json_put_bool(writer, "openWorldHint", false);
	lk_json_object_end(writer);
}

static void put_tool(lk_json_writer *writer, const lk_verb *verb) {
	char text[8192];
	lk_text description = lk_text_begin(text, sizeof text);
	lk_text_add(&description, "%s\n\n%s", verb->summary, verb->description);
	if (verb->first)
		lk_text_add(&description,
		            "\n\nMore options are accepted as further members, by their names without "
		            "dashes; the tool help lists them.");
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", verb->name);
	lk_json_put_text(writer, "description", text);
	lk_verb_schema_put(writer, "inputSchema", verb, is_shown);
	put_annotations(writer);
	lk_json_object_end(writer);
}

static void put_help_tool(lk_json_writer *writer) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", help_tool);
	lk_json_put_text(writer, "description", "all options of a verb, with examples");
	lk_json_object(writer, "inputSchema");
	lk_json_put_text(writer, "type", "object");
	lk_json_object(writer, "properties");
	lk_json_object(writer, "verb");
	lk_json_put_text(writer, "type", "string");
	lk_json_array(writer, "enum");
	for (int i = 0; i < TOOLS; i++) lk_json_put_text(writer, NULL, tools[i]->verb->name);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
	lk_json_object_end(writer);
	lk_json_array(writer, "required");
	lk_json_put_text(writer, NULL, "verb");
	lk_json_array_end(writer);
	lk_json_object_end(writer);
	put_annotations(writer);
	lk_json_object_end(writer);
}

void lk_mcp_put_tools(lk_json_writer *writer) {
	lk_json_array(writer, "tools");
	for (int i = 0; i < TOOLS; i++) put_tool(writer, tools[i]->verb);
	put_help_tool(writer);
	lk_json_array_end(writer);
}

static void put_resource(lk_json_writer *writer, const char *uri, const char *name,
                         const char *what, const char *type) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "uri", uri);
	lk_json_put_text(writer, "name", name);
	lk_json_put_text(writer, "description", what);
	lk_json_put_text(writer, "mimeType", type);
	lk_json_object_end(writer);
}

void lk_mcp_put_resources(lk_json_writer *writer) {
	lk_json_array(writer, "resources");
	for (int i = 0; i < LISTS; i++)
		put_resource(writer, lists[i].uri, lists[i].name, lists[i].what, "application/json");
	for (int i = 0; i < TOOLS; i++) {
		char uri[64], name[64];
		snprintf(uri, sizeof uri, "%s%s", help_uri, tools[i]->verb->name);
		snprintf(name, sizeof name, "help of %s", tools[i]->verb->name);
		put_resource(writer, uri, name, tools[i]->verb->summary, "text/plain");
	}
	lk_json_array_end(writer);
}

/* ---- words ---- */

struct words {
	lk_arena *arena;
	const char **out;
	size_t count, room;
	lk_error *err;
};

static lk_status words_open(struct words *words, size_t room) {
	words->room = room;
	words->out = LK_ARRAY(words->arena, const char *, room + 1);
	if (!words->out) return lk_oom(words->err);
	words->out[0] = NULL;
	return LK_OK;
}

static lk_status words_add(struct words *words, const char *word) {
	if (!word) return lk_oom(words->err);
	LK_ASSERT(words->count < words->room);
	words->out[words->count++] = word;
	words->out[words->count] = NULL;
	return LK_OK;
}

static lk_status fail_form(struct words *words, const char *name, const char *form) {
	lk_fail(words->err, LK_ERR_INPUT, name, "must be %s in JSON", form);
	return lk_hint(words->err, "leave it out, or look at the tool's inputSchema");
}

/* A value as the text behind "--name="; NULL: of another kind. */
static const char *text_of(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_STRING:
	case LK_JSON_NUMBER: return value->text;
	case LK_JSON_TRUE: return "true";
	case LK_JSON_FALSE: return "false";
	default: return NULL;
	}
}

static lk_status add_option(struct words *words, const lk_verb_row *row, const char *key,
                            const lk_value *value) {
	const lk_option *option = lk_option_of_member(row->verb, key);
	/* A '=' or a blank would make another option of the word. */
	if (!*key ||
	    key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")]) {
		lk_fail(words->err, LK_ERR_INPUT, key, "unknown option");
		return lk_hint(words->err, "the tool help lists those of %s", row->verb->name);
	}
	if (option && is_withheld(row, option)) {
		lk_fail(words->err, LK_ERR_INPUT, key, "names a file to write, and tools write none");
		return lk_hint(words->err, "leave it out, or run lockstep %s in a shell", row->verb->name);
	}
	if (value->kind == LK_JSON_NULL) return LK_OK;
	/* An unknown name fails in the program, which names the nearest. */
	if (value->kind != LK_JSON_ARRAY) {
		const char *text = text_of(value);
		if (!text) return fail_form(words, key, "a text, a number, true or false");
		return words_add(words, lk_arena_printf(words->arena, "--%s=%s", key, text));
	}
	bool lines = option && option->kind == LK_OPTION_LINES;
	const char *list = "";
	for (size_t i = 0; i < value->count; i++) {
		const char *text = text_of(&value->items[i]);
		if (!text) return fail_form(words, key, "an array of texts or numbers");
		if (lines) LK_TRY(words_add(words, lk_arena_printf(words->arena, "--%s=%s", key, text)));
		else if (!(list = lk_arena_printf(words->arena, "%s%s%s", list, i ? "," : "", text)))
			return lk_oom(words->err);
	}
	if (lines || value->count == 0) return LK_OK;
	return words_add(words, lk_arena_printf(words->arena, "--%s=%s", key, list));
}

static lk_status add_texts(struct words *words, const char *key, const lk_value *value) {
	if (!value || value->kind == LK_JSON_NULL) return LK_OK;
	if (value->kind != LK_JSON_ARRAY) return fail_form(words, key, "an array of texts");
	bool operands = strcmp(key, "operands") == 0;
	if (!operands && value->count > 0) LK_TRY(words_add(words, "--"));
	for (size_t i = 0; i < value->count; i++) {
		if (value->items[i].kind != LK_JSON_STRING)
			return fail_form(words, key, "an array of texts");
		if (operands && value->items[i].text[0] == '-') {
			lk_fail(words->err, LK_ERR_INPUT, key, "%.64s is no file", value->items[i].text);
			return lk_hint(words->err, "give options as members of their own");
		}
		LK_TRY(words_add(words, value->items[i].text));
	}
	return LK_OK;
}

/* Words that the members of an object need at most. */
static size_t count_words(const lk_value *arguments) {
	size_t count = 4;
	for (size_t i = 0; arguments && i < arguments->count; i++)
		count += 2 + arguments->items[i].count;
	return count;
}

static bool has_option(const lk_verb *verb, const char *name) {
	for (const lk_option *option = verb->options; option->name; option++)
		if (strcmp(option->name, name) == 0) return true;
	return false;
}

static bool is_text(const lk_value *value, const char *text) {
	return value && value->kind == LK_JSON_STRING && strcmp(value->text, text) == 0;
}

static lk_status help_words(struct words *words, const char *verb) {
	const char *names[TOOLS];
	for (int i = 0; i < TOOLS; i++) names[i] = tools[i]->verb->name;
	if (!verb || !find_tool(verb)) {
		lk_fail(words->err, LK_ERR_INPUT, "verb", "there is no tool \"%.64s\"", verb ? verb : "");
		return lk_hint_names(words->err, verb ? verb : "", names, TOOLS);
	}
	LK_TRY(words_open(words, 2));
	LK_TRY(words_add(words, help_tool));
	return words_add(words, verb);
}

static lk_status tool_words(struct words *words, const lk_verb_row *row, const lk_value *arguments,
                            bool *json) {
	const lk_value *emit = lk_json_get(arguments, "emit"),
				   *output = lk_json_get(arguments, "output");
	bool emits = emit && emit->kind != LK_JSON_NULL;
	*json = !emits && (!output || output->kind == LK_JSON_NULL || is_text(output, "json"));
	LK_TRY(words_open(words, count_words(arguments)));
	LK_TRY(words_add(words, row->verb->name));
	if (*json && has_option(row->verb, "output")) LK_TRY(words_add(words, "--output=json"));
	for (size_t i = 0; arguments && i < arguments->count; i++) {
		const char *key = arguments->keys[i];
		if (strcmp(key, "operands") == 0 || strcmp(key, "launch") == 0) continue;
		if (*json && strcmp(key, "output") == 0) continue;
		LK_TRY(add_option(words, row, key, &arguments->items[i]));
	}
	LK_TRY(add_texts(words, "operands", lk_json_get(arguments, "operands")));
	return add_texts(words, "launch", lk_json_get(arguments, "launch"));
}

lk_status lk_mcp_tool_words(const char *tool, const lk_value *arguments, lk_arena *arena,
                            const char ***words, bool *json, lk_error *err) {
	struct words w = {.arena = arena, .err = err};
	const lk_verb_row *row = find_tool(tool);
	*json = false;
	lk_status status;
	if (row) status = tool_words(&w, row, arguments, json);
	else if (strcmp(tool, help_tool) == 0)
		status = help_words(&w, lk_json_get_text(arguments, "verb", NULL));
	else status = lk_fail(err, LK_ERR_INPUT, "name", "there is no tool \"%.64s\"", tool);
	*words = w.out;
	return status;
}

lk_status lk_mcp_resource_words(const char *uri, lk_arena *arena, const char ***words, bool *json,
                                lk_error *err) {
	struct words w = {.arena = arena, .err = err};
	size_t length = strlen(help_uri);
	lk_status status = lk_fail(err, LK_ERR_INPUT, "uri", "there is no resource \"%.128s\"", uri);
	*json = false;
	for (int i = 0; i < LISTS; i++) {
		if (strcmp(uri, lists[i].uri) != 0) continue;
		status = words_open(&w, 2);
		if (status == LK_OK) status = words_add(&w, lists[i].verb);
		if (status == LK_OK) status = words_add(&w, "--output=json");
		*json = true;
	}
	if (strncmp(uri, help_uri, length) == 0) status = help_words(&w, uri + length);
	*words = w.out;
	return status;
}
