/* toml.c: TOML as a tree of values: tables, arrays of tables, dotted keys, basic and literal
 * strings on one or several lines, numbers, bools, arrays and inline tables. Dates are texts. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/document.h"

enum {
	TOML_PARTS = 32 /* most parts of a dotted key */
};

/* While it is read, a table is a growing list; at the end it becomes values of the tree. */
struct toml_node {
	const char *key;
	lk_value scalar; /* kind OBJECT and ARRAY: see first */
	struct toml_node *first, *last, *next;
	int count;
	bool closed;  /* an inline table or array: nothing may be added later */
	bool defined; /* by its own header, which must not repeat */
	int dotted;   /* the section whose dotted keys created it, from 1 on; 0: none */
};

struct toml_reader {
	lk_arena *arena;
	lk_error *err;
	const char *name, *at, *end, *line_start;
	int line, depth;
	int section; /* 1 + number of headers so far */
	size_t values;
};

static lk_status toml_wrong(struct toml_reader *reader, const char *what) {
	char where[300];
	lk_text text = lk_text_begin(where, sizeof where);
	lk_text_add(&text, "%.240s:%d:%d", reader->name, reader->line,
	            (int)(reader->at - reader->line_start) + 1);
	lk_fail(reader->err, LK_ERR_INPUT, where, "invalid TOML: %s", what);
	return lk_hint(reader->err, "correct the file");
}

static bool toml_sees(const struct toml_reader *reader, const char *text) {
	size_t length = strlen(text);
	return (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, text, length) == 0;
}

static void toml_newline(struct toml_reader *reader) {
	reader->at++;
	reader->line++;
	reader->line_start = reader->at;
}

/* Whether a control character is forbidden: all but tabs and line ends. */
static bool toml_control(const struct toml_reader *reader, const char *at) {
	bool ends = *at == '\r' && at + 1 < reader->end && at[1] == '\n';
	return ((unsigned char)*at < 0x20 && *at != '\t' && !ends) || *at == 0x7f;
}

/* Skip blanks and comments; with `lines`, line ends too. */
static void toml_skip(struct toml_reader *reader, bool lines) {
	while (reader->at < reader->end) {
		char c = *reader->at;
		if (c == ' ' || c == '\t' || toml_sees(reader, "\r\n")) reader->at++;
		else if (c == '#')
			while (reader->at < reader->end && *reader->at != '\n' &&
			       !toml_control(reader, reader->at))
				reader->at++;
		else if (c == '\n' && lines) toml_newline(reader);
		else return;
	}
}

static struct toml_node *toml_add(struct toml_reader *reader, struct toml_node *parent,
                                  const char *key) {
	struct toml_node *node = LK_NEW(reader->arena, struct toml_node);
	if (!node) return NULL;
	node->key = key;
	node->scalar.line = reader->line;
	node->scalar.column = (int)(reader->at - reader->line_start) + 1;
	if (parent->last) parent->last->next = node;
	else parent->first = node;
	parent->last = node;
	parent->count++;
	reader->values++;
	return node;
}

static struct toml_node *toml_find(const struct toml_node *parent, const char *key) {
	for (struct toml_node *node = parent->first; node; node = node->next)
		if (strcmp(node->key, key) == 0) return node;
	return NULL;
}

/* ---- strings ---- */

static size_t toml_utf8(unsigned long code, char *out) {
	if (code < 0x80) return out[0] = (char)code, 1;
	if (code < 0x800)
		return out[0] = (char)(0xc0 | code >> 6), out[1] = (char)(0x80 | (code & 63)), 2;
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 63));
		out[2] = (char)(0x80 | (code & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 63));
	out[2] = (char)(0x80 | (code >> 6 & 63));
	out[3] = (char)(0x80 | (code & 63));
	return 4;
}

/* Decode an escape, after its backslash. */
static lk_status toml_escape(struct toml_reader *reader, char *out, size_t *used) {
	static const char letters[] = "btnfre\"\\", values[] = "\b\t\n\f\r\x1b\"\\";
	if (reader->at >= reader->end) return toml_wrong(reader, "a text does not end");
	char c = *reader->at++;
	const char *known = c ? strchr(letters, c) : NULL;
	if (known) {
		out[(*used)++] = values[known - letters];
		return LK_OK;
	}
	if (c != 'u' && c != 'U') return toml_wrong(reader, "an unknown escape");
	unsigned long code = 0;
	for (int i = c == 'u' ? 4 : 8; i > 0; i--) {
		if (reader->at >= reader->end || !isxdigit((unsigned char)*reader->at))
			return toml_wrong(reader, "an escape without its digits");
		char digit[2] = {*reader->at++, '\0'};
		code = code << 4 | strtoul(digit, NULL, 16);
	}
	if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return toml_wrong(reader, "an escape that is not a character");
	*used += toml_utf8(code, out + *used);
	return LK_OK;
}

static lk_status toml_string(struct toml_reader *reader, const char **out) {
	char quote = *reader->at, triple[4] = {quote, quote, quote, '\0'};
	bool lines = toml_sees(reader, triple);
	reader->at += lines ? 3 : 1;
	if (lines && toml_sees(reader, "\r")) reader->at++;
	if (lines && toml_sees(reader, "\n")) toml_newline(reader);
	/* The value is never longer than its notation. */
	const char *stop = reader->at;
	for (bool skip = false; stop < reader->end; stop++) {
		if (!lines && *stop == '\n') break;
		bool ends = *stop == quote && !skip &&
		            (!lines || ((size_t)(reader->end - stop) >= 3 && memcmp(stop, triple, 3) == 0));
		if (ends) {
			/* quotes before the last three are part of it */
			for (int i = 0; lines && i < 2 && stop + 3 < reader->end && stop[3] == quote; i++)
				stop++;
			break;
		}
		skip = quote == '"' && *stop == '\\' && !skip;
	}
	if (stop >= reader->end || *stop == '\n') return toml_wrong(reader, "a text does not end");
	char *text = lk_arena_alloc(reader->arena, (size_t)(stop - reader->at) + 1);
	size_t used = 0;
	if (!text) return lk_oom(reader->err);
	while (reader->at < stop) {
		char c = *reader->at;
		if (toml_control(reader, reader->at) && !(lines && c == '\n'))
			return toml_wrong(reader, "a control character in a text");
		if (toml_sees(reader, "\r\n")) { /* one line end, as elsewhere */
			reader->at++;
			continue;
		}
		if (quote == '"' && c == '\\') {
			reader->at++;
			const char *next = reader->at + strspn(reader->at, " \t\r");
			if (lines && next < stop && *next == '\n') { /* the line continues */
				while (reader->at < stop && isspace((unsigned char)*reader->at)) {
					if (*reader->at == '\n') toml_newline(reader);
					else reader->at++;
				}
				continue;
			}
			LK_TRY(toml_escape(reader, text, &used));
			continue;
		}
		text[used++] = c;
		if (c == '\n') toml_newline(reader);
		else reader->at++;
	}
	reader->at = stop + (lines ? 3 : 1);
	text[used] = '\0';
	*out = text;
	return LK_OK;
}

/* ---- values ---- */

static lk_status toml_value(struct toml_reader *reader, struct toml_node *into);
static lk_status toml_pair(struct toml_reader *reader, struct toml_node *table);

static lk_status toml_array(struct toml_reader *reader, struct toml_node *into) {
	into->scalar.kind = LK_JSON_ARRAY;
	reader->at++;
	for (;;) {
		toml_skip(reader, true);
		if (toml_sees(reader, "]")) break;
		struct toml_node *item = toml_add(reader, into, "");
		if (!item) return lk_oom(reader->err);
		LK_TRY(toml_value(reader, item));
		toml_skip(reader, true);
		if (toml_sees(reader, ",")) reader->at++;
		else if (!toml_sees(reader, "]")) return toml_wrong(reader, "neither ',' nor ']'");
	}
	reader->at++;
	return LK_OK;
}

static lk_status toml_inline_table(struct toml_reader *reader, struct toml_node *into) {
	into->scalar.kind = LK_JSON_OBJECT;
	reader->at++;
	for (;;) {
		toml_skip(reader, true);
		if (toml_sees(reader, "}")) break;
		LK_TRY(toml_pair(reader, into));
		toml_skip(reader, true);
		if (toml_sees(reader, ",")) reader->at++;
		else if (!toml_sees(reader, "}")) return toml_wrong(reader, "neither ',' nor '}'");
	}
	reader->at++;
	return LK_OK;
}

/* Digits of a base with single '_' between them; returns their end, NULL: none. */
static const char *toml_digits(const char *at, int base) {
	const char *from = at;
	for (;; at++) {
		if (*at == '_' && at > from && at[-1] != '_' && isxdigit((unsigned char)at[1])) continue;
		int digit = isdigit((unsigned char)*at)    ? *at - '0'
		            : isxdigit((unsigned char)*at) ? tolower((unsigned char)*at) - 'a' + 10
		                                           : base;
		if (digit >= base) break;
	}
	return at > from ? at : NULL;
}

/* A number by TOML's rules: no leading zeros, digits on both sides of a point. */
static bool toml_number(const char *text, double *number) {
	const char *at = text + (*text == '+' || *text == '-'), *end;
	double sign = *text == '-' ? -1 : 1;
	if (strcmp(at, "inf") == 0) return *number = sign * INFINITY, true;
	if (strcmp(at, "nan") == 0) return *number = NAN, true;
	if (*at == '0' && at == text && at[1] != '\0' && strchr("xob", at[1]) != NULL) {
		int base = at[1] == 'x' ? 16 : at[1] == 'o' ? 8 : 2;
		*number = 0;
		if ((end = toml_digits(at + 2, base)) == NULL || *end != '\0') return false;
		for (at += 2; *at != '\0'; at++)
			if (*at != '_')
				*number = *number * base +
				          (isdigit((unsigned char)*at) ? *at - '0' : tolower(*at) - 'a' + 10);
		return true;
	}
	if ((end = toml_digits(at, 10)) == NULL || (*at == '0' && end > at + 1)) return false;
	if (*end == '.' && (end = toml_digits(end + 1, 10)) == NULL) return false;
	if (*end == 'e' || *end == 'E') {
		end += 1 + (end[1] == '+' || end[1] == '-');
		if ((end = toml_digits(end, 10)) == NULL) return false;
	}
	if (*end != '\0') return false;
	char plain[400];
	size_t used = 0;
	for (at = text + (*text == '+'); *at != '\0' && used + 1 < sizeof plain; at++)
		if (*at != '_') plain[used++] = *at;
	plain[used] = '\0';
	const char *stop;
	*number = lk_read_real(plain, &stop);
	return *at == '\0' && *stop == '\0';
}

/* The end of a match of the form, where n is a digit and all digits make a number of at most
 * `most`; NULL: no match. */
static const char *toml_form(const char *at, const char *form, int most) {
	int number = 0;
	for (; *form != '\0'; form++, at++) {
		if (*form != 'n' ? *at != *form : !isdigit((unsigned char)*at)) return NULL;
		if (*form == 'n') number = 10 * number + *at - '0';
	}
	return number <= most ? at : NULL;
}

/* 07:32:00, 07:32:00.5 */
static const char *toml_time(const char *at) {
	if ((at = toml_form(at, "nn", 23)) == NULL || (at = toml_form(at, ":nn", 59)) == NULL ||
	    (at = toml_form(at, ":nn", 59)) == NULL)
		return NULL;
	if (*at == '.' && isdigit((unsigned char)at[1])) at += 1 + strspn(at + 1, "0123456789");
	return at;
}

/* 1979-05-27 */
static const char *toml_day(const char *at) {
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	if (toml_form(at, "nnnn-nn-nn", INT_MAX) == NULL) return NULL;
	int year = atoi(at), month = atoi(at + 5), day = atoi(at + 8);
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	bool right = year > 0 && month >= 1 && month <= 12 && day >= 1 &&
	             day <= days[month - 1] + (month == 2 && leap);
	return right ? at + 10 : NULL;
}

/* 1979-05-27, 07:32:00, 1979-05-27T07:32:00.5-07:00: kept as text. */
static bool toml_date(const char *text) {
	const char *at = toml_day(text);
	if (at == NULL) return (at = toml_time(text)) != NULL && *at == '\0';
	if (*at == '\0') return true;
	if (strchr("Tt ", *at) == NULL || (at = toml_time(at + 1)) == NULL) return false;
	if (*at == 'Z' || *at == 'z') return at[1] == '\0';
	if (*at == '+' || *at == '-') {
		at = toml_form(at + 1, "nn", 23);
		at = at ? toml_form(at, ":nn", 59) : NULL;
	}
	return at != NULL && *at == '\0';
}

static lk_status toml_word(struct toml_reader *reader, struct toml_node *into) {
	const char *from = reader->at;
	bool date = false; /* a blank may separate a time from it */
	while (reader->at < reader->end && strchr(",]}#\r\n\t", *reader->at) == NULL) {
		if (*reader->at == ' ') {
			date = reader->at - from == 10 && from[4] == '-' && reader->at + 1 < reader->end &&
			       isdigit((unsigned char)reader->at[1]);
			if (!date) break;
		}
		reader->at++;
	}
	const char *text = lk_arena_strndup(reader->arena, from, (size_t)(reader->at - from));
	if (!text) return lk_oom(reader->err);
	into->scalar.text = text;
	if (strcmp(text, "true") == 0) {
		into->scalar.kind = LK_JSON_TRUE;
		return LK_OK;
	}
	if (strcmp(text, "false") == 0) {
		into->scalar.kind = LK_JSON_FALSE;
		return LK_OK;
	}
	into->scalar.kind = LK_JSON_NUMBER;
	if (toml_number(text, &into->scalar.number)) return LK_OK;
	into->scalar.kind = LK_JSON_STRING;
	if (isdigit((unsigned char)*text) && toml_date(text)) return LK_OK;
	reader->at = from;
	return toml_wrong(reader, "a value is missing, or a text without quotes");
}

static lk_status toml_value(struct toml_reader *reader, struct toml_node *into) {
	if (reader->values > LK_DOCUMENT_VALUES) return toml_wrong(reader, "too many values");
	if (reader->depth >= LK_JSON_DEPTH) return toml_wrong(reader, "nested too deeply");
	if (reader->at >= reader->end) return toml_wrong(reader, "a value is missing");
	reader->depth++;
	lk_status status;
	if (*reader->at == '[') status = toml_array(reader, into);
	else if (*reader->at == '{') status = toml_inline_table(reader, into);
	else if (*reader->at == '"' || *reader->at == '\'') {
		into->scalar.kind = LK_JSON_STRING;
		status = toml_string(reader, &into->scalar.text);
	} else status = toml_word(reader, into);
	into->closed = true;
	reader->depth--;
	return status;
}

/* ---- keys and tables ---- */

static void toml_blanks(struct toml_reader *reader) {
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t')) reader->at++;
}

static lk_status toml_key(struct toml_reader *reader, const char **parts, int *count) {
	for (*count = 0;;) {
		toml_blanks(reader);
		if (*count == TOML_PARTS) return toml_wrong(reader, "a key of too many parts");
		if (toml_sees(reader, "\"\"\"") || toml_sees(reader, "'''"))
			return toml_wrong(reader, "a key of several lines");
		if (toml_sees(reader, "\"") || toml_sees(reader, "'")) {
			LK_TRY(toml_string(reader, &parts[*count]));
		} else {
			const char *from = reader->at;
			while (reader->at < reader->end && (isalnum((unsigned char)*reader->at) ||
			                                    *reader->at == '_' || *reader->at == '-'))
				reader->at++;
			if (reader->at == from) return toml_wrong(reader, "a key is missing");
			parts[*count] = lk_arena_strndup(reader->arena, from, (size_t)(reader->at - from));
			if (!parts[*count]) return lk_oom(reader->err);
		}
		(*count)++;
		toml_blanks(reader);
		if (!toml_sees(reader, ".")) return LK_OK;
		reader->at++;
	}
}

/* The table of this name, created if new; of an array of tables the last one. */
static lk_status toml_descend(struct toml_reader *reader, struct toml_node **table,
                              const char *key) {
	struct toml_node *node = toml_find(*table, key);
	if (!node) {
		if ((*table)->count > LK_DOCUMENT_KEYS || reader->values > LK_DOCUMENT_VALUES)
			return toml_wrong(reader, "a table of too many keys");
		node = toml_add(reader, *table, key);
		if (!node) return lk_oom(reader->err);
		node->scalar.kind = LK_JSON_OBJECT;
	}
	if (node->scalar.kind == LK_JSON_ARRAY && !node->closed && node->last) node = node->last;
	if (node->scalar.kind != LK_JSON_OBJECT || node->closed)
		return toml_wrong(reader, "a key names a value that is not a table");
	*table = node;
	return LK_OK;
}

static lk_status toml_pair(struct toml_reader *reader, struct toml_node *table) {
	const char *parts[TOML_PARTS];
	int count;
	LK_TRY(toml_key(reader, parts, &count));
	if (table->count > LK_DOCUMENT_KEYS) return toml_wrong(reader, "a table of too many keys");
	if (!toml_sees(reader, "=")) return toml_wrong(reader, "'=' is missing after a key");
	reader->at++;
	toml_blanks(reader);
	for (int i = 0; i + 1 < count; i++) {
		LK_TRY(toml_descend(reader, &table, parts[i]));
		if (table->defined || (table->dotted && table->dotted != reader->section))
			return toml_wrong(reader, "a table is given twice");
		table->dotted = reader->section;
	}
	if (toml_find(table, parts[count - 1])) return toml_wrong(reader, "a key is given twice");
	struct toml_node *node = toml_add(reader, table, parts[count - 1]);
	if (!node) return lk_oom(reader->err);
	return toml_value(reader, node);
}

/* "[a.b]" or "[[a.b]]". */
static lk_status toml_header(struct toml_reader *reader, struct toml_node *root,
                             struct toml_node **table) {
	const char *parts[TOML_PARTS];
	int count;
	bool array = toml_sees(reader, "[[");
	reader->at += array ? 2 : 1;
	LK_TRY(toml_key(reader, parts, &count));
	if (!toml_sees(reader, array ? "]]" : "]")) return toml_wrong(reader, "']' is missing");
	reader->at += array ? 2 : 1;
	*table = root;
	reader->section++;
	for (int i = 0; i < count - array; i++) {
		const struct toml_node *list = toml_find(*table, parts[i]);
		if (!array && i + 1 == count && list && list->scalar.kind == LK_JSON_ARRAY)
			return toml_wrong(reader, "a key names a value that is not a table");
		LK_TRY(toml_descend(reader, table, parts[i]));
	}
	if (!array && ((*table)->defined || (*table)->dotted))
		return toml_wrong(reader, "a table is given twice");
	if (!array) {
		(*table)->defined = true;
		return LK_OK;
	}
	struct toml_node *list = toml_find(*table, parts[count - 1]);
	if (!list) {
		list = toml_add(reader, *table, parts[count - 1]);
		if (!list) return lk_oom(reader->err);
		list->scalar.kind = LK_JSON_ARRAY;
	}
	if (list->scalar.kind != LK_JSON_ARRAY || list->closed)
		return toml_wrong(reader, "a key names a value that is not an array of tables");
	*table = toml_add(reader, list, "");
	if (!*table) return lk_oom(reader->err);
	(*table)->scalar.kind = LK_JSON_OBJECT;
	return LK_OK;
}

static lk_status toml_tables(struct toml_reader *reader, struct toml_node *root) {
	struct toml_node *table = root;
	for (;;) {
		toml_skip(reader, true);
		if (reader->at >= reader->end) return LK_OK;
		if (*reader->at == '[') LK_TRY(toml_header(reader, root, &table));
		else LK_TRY(toml_pair(reader, table));
		toml_skip(reader, false);
		if (reader->at < reader->end && *reader->at != '\n')
			return toml_wrong(reader, "more than one thing on a line");
	}
}

static bool toml_tree(lk_arena *arena, const struct toml_node *node, lk_value *out) {
	lk_members members = {0};
	*out = node->scalar;
	if (out->kind != LK_JSON_OBJECT && out->kind != LK_JSON_ARRAY) return true;
	bool ok = true;
	for (const struct toml_node *item = node->first; ok && item; item = item->next) {
		lk_value value;
		ok = toml_tree(arena, item, &value) && lk_members_add(&members, item->key, &value);
	}
	ok = ok && lk_members_end(&members, arena, out);
	lk_members_free(&members);
	return ok;
}

lk_status lk_toml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err) {
	struct toml_reader reader = {.arena = arena, .err = err, .name = name, .line = 1, .section = 1};
	struct toml_node root = {.scalar = {.kind = LK_JSON_OBJECT, .line = 1, .column = 1}};
	if (size > LK_DOCUMENT_BYTES)
		return lk_fail(err, LK_ERR_INPUT, name, "a document of more than 4 MiB");
	/* Followed by a '\0', which ends spans of blanks. */
	reader.at = reader.line_start = lk_arena_strndup(arena, text, size);
	*out = LK_NEW(arena, lk_value);
	if (!*out || !reader.at) return lk_oom(err);
	reader.end = reader.at + strlen(reader.at);
	if ((size_t)(reader.end - reader.at) != size) return toml_wrong(&reader, "a NUL in the text");
	LK_TRY(toml_tables(&reader, &root));
	return toml_tree(arena, &root, *out) ? LK_OK : lk_oom(err);
}
