/* document.c: the form of a text, and its reader. */
#include "io/document.h"

#include <ctype.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* ---- the form of a text ---- */

typedef struct document_cursor {
	const char *at, *end;
} document_cursor;

static bool document_sees(const document_cursor *cursor, const char *text) {
	size_t length = strlen(text);
	return (size_t)(cursor->end - cursor->at) >= length && memcmp(cursor->at, text, length) == 0;
}

/* At a blank, a line's end or the text's end. */
static bool document_word_ends(const document_cursor *cursor) {
	return cursor->at == cursor->end || isspace((unsigned char)*cursor->at);
}

static void document_skip(document_cursor *cursor, const char *signs) {
	while (cursor->at < cursor->end && *cursor->at && strchr(signs, *cursor->at)) cursor->at++;
}

/* Go to the first significant line: no comment, no mark or directive of YAML. */
static void document_begin(document_cursor *cursor) {
	if (document_sees(cursor, "\xEF\xBB\xBF")) cursor->at += 3;
	for (;;) {
		document_skip(cursor, " \t\r\n\f\v");
		bool mark = document_sees(cursor, "---");
		if (!mark && !document_sees(cursor, "#") && !document_sees(cursor, "%YAML")) return;
		if (mark) {
			cursor->at += 3;
			if (!document_word_ends(cursor)) return;
		} else {
			while (cursor->at < cursor->end && *cursor->at != '\n') cursor->at++;
		}
	}
}

/* Skip a key, plain or in quotes; false: none. */
static bool document_key(document_cursor *cursor) {
	const char *begin = cursor->at;
	if (begin < cursor->end && (*begin == '"' || *begin == '\'')) {
		const char *line = memchr(begin, '\n', (size_t)(cursor->end - begin));
		const char *end = line ? line : cursor->end;
		const char *close = memchr(begin + 1, *begin, (size_t)(end - begin - 1));
		if (close) cursor->at = close + 1;
		return close != NULL;
	}
	while (cursor->at < cursor->end &&
	       (isalnum((unsigned char)*cursor->at) || (*cursor->at && strchr("_-.", *cursor->at))))
		cursor->at++;
	return cursor->at > begin;
}

/* Match "[table]" or "[[tables]]", followed by nothing but a comment. */
static bool document_is_table(document_cursor cursor) {
	LK_ASSERT(document_sees(&cursor, "["));
	int depth = document_sees(&cursor, "[[") ? 2 : 1;
	cursor.at += depth;
	while (document_key(&cursor)) document_skip(&cursor, ".");
	if (!document_sees(&cursor, depth == 2 ? "]]" : "]") || cursor.at[-1] == '[') return false;
	cursor.at += depth;
	document_skip(&cursor, " \t\r");
	return cursor.at == cursor.end || *cursor.at == '\n' || *cursor.at == '#';
}

/* A brace begins a map if a key or its end follows; in a shell it groups commands. Comments and
 * plain keys occur only in YAML. */
static lk_document_form document_of_brace(document_cursor cursor) {
	const char *begin = ++cursor.at;
	document_skip(&cursor, " \t\r\n");
	bool json = document_sees(&cursor, "\"");
	if (document_sees(&cursor, "}")) return LK_DOCUMENT_JSON;
	cursor.at = begin;
	document_begin(&cursor);
	if (!document_key(&cursor)) return LK_DOCUMENT_NONE;
	document_skip(&cursor, " \t");
	if (!document_sees(&cursor, ":")) return LK_DOCUMENT_NONE;
	return json ? LK_DOCUMENT_JSON : LK_DOCUMENT_YAML;
}

lk_document_form lk_document_form_of(const char *text, size_t size) {
	document_cursor cursor = {text, text + size};
	if (document_sees(&cursor, "#!")) return LK_DOCUMENT_NONE;
	document_begin(&cursor);
	if (document_sees(&cursor, "{")) return document_of_brace(cursor);
	if (document_sees(&cursor, "["))
		return document_is_table(cursor) ? LK_DOCUMENT_TOML : LK_DOCUMENT_NONE;
	if (document_sees(&cursor, "- ")) return LK_DOCUMENT_YAML;
	if (!document_key(&cursor)) return LK_DOCUMENT_NONE;
	const char *name = cursor.at;
	document_skip(&cursor, " \t");
	if (document_sees(&cursor, ":")) {
		cursor.at++;
		return document_word_ends(&cursor) ? LK_DOCUMENT_YAML : LK_DOCUMENT_NONE;
	}
	if (cursor.at == name || !document_sees(&cursor, "=")) return LK_DOCUMENT_NONE;
	cursor.at++;
	return document_word_ends(&cursor) ? LK_DOCUMENT_TOML : LK_DOCUMENT_NONE;
}

/* ---- a whole text ---- */

lk_document_form lk_document_form_named(const char *name, const char *text, size_t size) {
	static const struct {
		const char *ending;
		lk_document_form form;
	} endings[] = {{".yaml", LK_DOCUMENT_YAML},
	               {".yml", LK_DOCUMENT_YAML},
	               {".json", LK_DOCUMENT_JSON},
	               {".toml", LK_DOCUMENT_TOML},
	               {".sh", LK_DOCUMENT_NONE}};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(name, endings[i].ending)) return endings[i].form;
	return lk_document_form_of(text, size);
}

static lk_status document_parse_json(lk_arena *arena, const char *text, size_t size,
                                     const char *name, lk_value **out, lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_stream_memory(text, size, name, &in, err));
	lk_status status = lk_json_document(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

/* A map in braces may go on as YAML, with comments, but for a file whose name says that it is JSON;
 * what is wrong with one that is neither, JSON says. */
static lk_status document_parse_braces(lk_arena *arena, const char *text, size_t size,
                                       const char *name, lk_value **out, lk_error *err) {
	lk_error unused = {0};
	lk_status status = document_parse_json(arena, text, size, name, out, err);
	if (status != LK_ERR_INPUT || lk_ends_in(name, ".json")) return status;
	return lk_yaml_document(arena, text, size, name, out, &unused) == LK_OK ? LK_OK : status;
}

lk_status lk_document_parse(lk_arena *arena, const char *text, size_t size, const char *name,
                            lk_value **out, lk_error *err) {
	switch (lk_document_form_named(name, text, size)) {
	case LK_DOCUMENT_JSON: return document_parse_braces(arena, text, size, name, out, err);
	case LK_DOCUMENT_TOML: return lk_toml_document(arena, text, size, name, out, err);
	case LK_DOCUMENT_YAML:
	case LK_DOCUMENT_NONE: break;
	}
	return lk_yaml_document(arena, text, size, name, out, err);
}
