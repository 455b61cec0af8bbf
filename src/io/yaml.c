/* yaml.c: YAML as a tree of values, from the events of libyaml. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/vec.h"
#include "io/document.h"

/* ---- scalars ---- */

/* yes, Yes and YES, but not yEs. */
static bool yaml_among(const char *text, const char *const *names) {
	bool upper = isupper((unsigned char)text[0]);
	for (const char *c = text; *c && c[1]; c++)
		if (!isupper((unsigned char)c[1]) != !isupper((unsigned char)text[1])) return false;
	if (!upper && text[0] && isupper((unsigned char)text[1])) return false;
	for (; *names; names++)
		if (strcasecmp(text, *names) == 0) return true;
	return false;
}

/* 010, 0b101, 0x1f of YAML 1.1 and 0o10 of 1.2; false: no match. */
static bool yaml_base(const char *digits, double *number) {
	int base = digits[1] == 'x' ? 16 : digits[1] == 'b' ? 2 : 8;
	const char *at = digits + 1 + !isdigit((unsigned char)digits[1]);
	bool any = false;
	for (*number = 0; *at != '\0'; at++) {
		if (*at == '_') continue;
		int digit = isdigit((unsigned char)*at)    ? *at - '0'
		            : isxdigit((unsigned char)*at) ? tolower((unsigned char)*at) - 'a' + 10
		                                           : 99;
		if (digit >= base) return false;
		*number = *number * base + digit;
		any = true;
	}
	return any;
}

/* [+-] digits with '_' between them, '.', exponent; 0x, 0o, 0b, 010; .inf, .nan. */
static bool yaml_number(const char *text, double *number) {
	char plain[64];
	size_t used = 0, length = strlen(text);
	const char *digits = text + (*text == '-' || *text == '+');
	if (strcasecmp(digits, ".inf") == 0) return *number = *text == '-' ? -INFINITY : INFINITY, true;
	if (strcasecmp(text, ".nan") == 0) return *number = NAN, true;
	if (length == 0 || length >= sizeof plain) return false;
	bool based = digits[0] == '0' && digits[1] != '\0' && strchr("xob0123456789_", digits[1]);
	if (based && strpbrk(digits, digits[1] == 'x' ? "." : ".eE") == NULL) {
		if (!yaml_base(digits, number)) return false;
		if (*text == '-') *number = -*number;
		return true;
	}
	if (!isdigit((unsigned char)*digits) && *digits != '.') return false;
	if (*digits == '.' && !isdigit((unsigned char)digits[1])) return false;
	for (const char *c = text; *c; c++)
		if (*c != '_') plain[used++] = *c;
	plain[used] = '\0';
	if (strspn(plain, "+-0123456789.eE") != used) return false;
	const char *stop, *from = plain + (*plain == '+');
	*number = lk_read_real(from, &stop);
	bool open = *stop == '.' && stop[1] == '\0' && strchr(plain, '.') == stop; /* "1." */
	return stop != from && (*stop == '\0' || open);
}

lk_json_token lk_yaml_scalar(const char *text, double *number) {
	static const char *const nothing[] = {"", "~", "null", NULL};
	static const char *const yes[] = {"true", "yes", "on", NULL};
	static const char *const no[] = {"false", "no", "off", NULL};
	*number = 0;
	if (yaml_among(text, nothing)) return LK_JSON_NULL;
	if (yaml_among(text, yes)) return LK_JSON_TRUE;
	if (yaml_among(text, no)) return LK_JSON_FALSE;
	return yaml_number(text, number) ? LK_JSON_NUMBER : LK_JSON_STRING;
}

/* ---- the tree ---- */

struct yaml_anchor {
	const char *name;
	lk_value value;
};

struct yaml_reader {
	lk_arena *arena;
	lk_error *err;
	const char *name;
	yaml_parser_t parser;
	yaml_event_t event;
	bool holds; /* whether an event must be deleted */
	LK_VEC(struct yaml_anchor) anchors;
	size_t values;
	int depth;
};

static lk_status yaml_wrong(struct yaml_reader *reader, yaml_mark_t mark, const char *what) {
	char where[300], shown[160];
	lk_text text = lk_text_begin(where, sizeof where);
	lk_text_add(&text, "%.240s:%zu:%zu", reader->name, mark.line + 1, mark.column + 1);
	lk_fail(reader->err, LK_ERR_INPUT, where, "invalid YAML: %s",
	        lk_escape(what, shown, sizeof shown));
	return lk_hint(reader->err, "correct the file");
}

static lk_status yaml_next(struct yaml_reader *reader) {
	if (reader->holds) yaml_event_delete(&reader->event);
	reader->holds = false;
	if (!yaml_parser_parse(&reader->parser, &reader->event)) {
		if (reader->parser.error == YAML_MEMORY_ERROR) return lk_oom(reader->err);
		return yaml_wrong(reader, reader->parser.problem_mark,
		                  reader->parser.problem ? reader->parser.problem : "it cannot be read");
	}
	reader->holds = true;
	return LK_OK;
}

static lk_status yaml_keep_anchor(struct yaml_reader *reader, const char *anchor,
                                  const lk_value *value) {
	if (!anchor) return LK_OK;
	if (!lk_push(&reader->anchors)) return lk_oom(reader->err);
	*lk_last(&reader->anchors) = (struct yaml_anchor){anchor, *value};
	return LK_OK;
}

static lk_status yaml_alias(struct yaml_reader *reader, lk_value *out) {
	const char *name = (const char *)reader->event.data.alias.anchor;
	for (size_t i = reader->anchors.count; i-- > 0;)
		if (strcmp(reader->anchors.at[i].name, name) == 0) {
			*out = reader->anchors.at[i].value;
			return LK_OK;
		}
	return yaml_wrong(reader, reader->event.start_mark, "an alias of an unknown anchor");
}

/* "int" for !!int and the like, which set a scalar's type, quoted or not; NULL: another tag. */
static const char *yaml_tag(const char *tag) {
	static const char *const kinds[] = {"str", "int", "float", "bool", "null"};
	static const char standard[] = "tag:yaml.org,2002:";
	if (tag == NULL || strncmp(tag, standard, sizeof standard - 1) != 0) return NULL;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(tag + sizeof standard - 1, kinds[i]) == 0) return kinds[i];
	return NULL;
}

/* Strip the blanks and line ends around a number in a block scalar. */
static const char *yaml_trimmed(lk_arena *arena, const char *text) {
	text += strspn(text, " \n");
	size_t length = strlen(text);
	while (length > 0 && strchr(" \n", text[length - 1]) != NULL) length--;
	return lk_arena_strndup(arena, text, length);
}

static lk_status yaml_read_scalar(struct yaml_reader *reader, lk_value *out) {
	const char *text = (const char *)reader->event.data.scalar.value;
	size_t length = reader->event.data.scalar.length;
	if (strlen(text) != length)
		return yaml_wrong(reader, reader->event.start_mark, "a NUL in a text");
	out->text = lk_arena_strndup(reader->arena, text, length);
	if (!out->text) return lk_oom(reader->err);
	bool plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	const char *kind = yaml_tag((const char *)reader->event.data.scalar.tag);
	bool number = kind && (strcmp(kind, "int") == 0 || strcmp(kind, "float") == 0);
	if (number) out->text = yaml_trimmed(reader->arena, out->text);
	if (!out->text) return lk_oom(reader->err);
	out->kind = LK_JSON_STRING;
	if (kind == NULL ? plain : strcmp(kind, "str") != 0)
		out->kind = lk_yaml_scalar(out->text, &out->number);
	if (kind == NULL || strcmp(kind, "str") == 0) return LK_OK;
	if (strcmp(kind, "null") == 0) out->kind = LK_JSON_NULL;
	else if (number && out->kind != LK_JSON_NUMBER)
		return yaml_wrong(reader, reader->event.start_mark, "a number is tagged that is none");
	else if (!number && out->kind != LK_JSON_TRUE && out->kind != LK_JSON_FALSE)
		return yaml_wrong(reader, reader->event.start_mark, "a bool is tagged that is none");
	return LK_OK;
}

static const lk_value *yaml_member(const lk_members *members, const char *key) {
	for (size_t i = 0; i < members->count; i++)
		if (strcmp(members->keys[i], key) == 0) return &members->items[i];
	return NULL;
}

/* "<<": the members of a map, or of several, that the map itself does not state. */
static lk_status yaml_merge(struct yaml_reader *reader, const lk_value *from, lk_members *out) {
	if (from->kind == LK_JSON_ARRAY) {
		for (size_t i = 0; i < from->count; i++) LK_TRY(yaml_merge(reader, &from->items[i], out));
		return LK_OK;
	}
	for (size_t i = 0; from->kind == LK_JSON_OBJECT && i < from->count; i++) {
		if (++reader->values > LK_DOCUMENT_VALUES || out->count > LK_DOCUMENT_KEYS)
			return yaml_wrong(reader, reader->event.start_mark, "too many values");
		if (yaml_member(out, from->keys[i])) continue;
		if (!lk_members_add(out, from->keys[i], &from->items[i])) return lk_oom(reader->err);
	}
	return LK_OK;
}

static lk_status yaml_read_node(struct yaml_reader *reader, lk_value *out);

static lk_status yaml_read_members(struct yaml_reader *reader, bool object, lk_members *members,
                                   lk_members *merged) {
	for (;;) {
		lk_value key = {0}, item = {0};
		LK_TRY(yaml_next(reader));
		if (reader->event.type == (object ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT))
			return LK_OK;
		if (!object) {
			LK_TRY(yaml_read_node(reader, &item));
			if (!lk_members_add(members, NULL, &item)) return lk_oom(reader->err);
			continue;
		}
		yaml_mark_t mark = reader->event.start_mark;
		bool plain = reader->event.type == YAML_SCALAR_EVENT &&
		             reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		LK_TRY(yaml_read_node(reader, &key));
		if (!key.text) return yaml_wrong(reader, mark, "a key that is not text");
		LK_TRY(yaml_next(reader));
		LK_TRY(yaml_read_node(reader, &item));
		lk_members *into = plain && strcmp(key.text, "<<") == 0 ? merged : members;
		if (!lk_members_add(into, key.text, &item)) return lk_oom(reader->err);
	}
}

static lk_status yaml_read_list(struct yaml_reader *reader, bool object, lk_value *out) {
	lk_members members = {0}, merged = {0};
	const unsigned char *anchor =
		object ? reader->event.data.mapping_start.anchor : reader->event.data.sequence_start.anchor;
	const char *name = anchor ? lk_arena_strdup(reader->arena, (const char *)anchor) : NULL;
	if (anchor && !name) return lk_oom(reader->err);
	out->kind = object ? LK_JSON_OBJECT : LK_JSON_ARRAY;
	lk_status status = yaml_read_members(reader, object, &members, &merged);
	if (status == LK_OK && object && !lk_members_settle(&members)) status = lk_oom(reader->err);
	for (size_t i = 0; status == LK_OK && i < merged.count; i++)
		status = yaml_merge(reader, &merged.items[i], &members);
	if (status == LK_OK && !lk_members_end(&members, reader->arena, out))
		status = lk_oom(reader->err);
	lk_members_free(&members);
	lk_members_free(&merged);
	return status == LK_OK ? yaml_keep_anchor(reader, name, out) : status;
}

/* Read the value that begins at the current event; afterwards its last event is the current one. */
static lk_status yaml_read_node(struct yaml_reader *reader, lk_value *out) {
	yaml_mark_t mark = reader->event.start_mark;
	*out = (lk_value){.line = (int)mark.line + 1, .column = (int)mark.column + 1};
	if (++reader->values > LK_DOCUMENT_VALUES) return yaml_wrong(reader, mark, "too many values");
	if (reader->depth >= LK_JSON_DEPTH) return yaml_wrong(reader, mark, "nested too deeply");
	reader->depth++;
	lk_status status = LK_OK;
	switch (reader->event.type) {
	case YAML_ALIAS_EVENT: status = yaml_alias(reader, out); break;
	case YAML_MAPPING_START_EVENT: status = yaml_read_list(reader, true, out); break;
	case YAML_SEQUENCE_START_EVENT: status = yaml_read_list(reader, false, out); break;
	default: {
		const unsigned char *anchor = reader->event.data.scalar.anchor;
		const char *name = anchor ? lk_arena_strdup(reader->arena, (const char *)anchor) : NULL;
		status = anchor && !name ? lk_oom(reader->err) : yaml_read_scalar(reader, out);
		if (status == LK_OK) status = yaml_keep_anchor(reader, name, out);
	}
	}
	reader->depth--;
	return status;
}

static lk_status yaml_read_document(struct yaml_reader *reader, lk_value *out) {
	do LK_TRY(yaml_next(reader));
	while (reader->event.type == YAML_STREAM_START_EVENT ||
	       reader->event.type == YAML_DOCUMENT_START_EVENT);
	if (reader->event.type == YAML_STREAM_END_EVENT) {
		out->kind = LK_JSON_NULL;
		return LK_OK;
	}
	LK_TRY(yaml_read_node(reader, out));
	return yaml_next(reader); /* the value is followed by its end */
}

lk_status lk_yaml_document(lk_arena *arena, const char *text, size_t size, const char *name,
                           lk_value **out, lk_error *err) {
	struct yaml_reader reader = {.arena = arena, .err = err, .name = name};
	*out = LK_NEW(arena, lk_value);
	if (!*out) return lk_oom(err);
	if (size > LK_DOCUMENT_BYTES)
		return lk_fail(err, LK_ERR_INPUT, name, "a document of more than 4 MiB");
	if (!yaml_parser_initialize(&reader.parser)) return lk_oom(err);
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
	lk_status status = yaml_read_document(&reader, *out);
	if (reader.holds) yaml_event_delete(&reader.event);
	yaml_parser_delete(&reader.parser);
	lk_vec_free(&reader.anchors);
	return status;
}
