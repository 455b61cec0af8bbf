/* edit_places.c: where a text states what: the scalars of a configuration by line and column, the
 * flags, words and variables of a script by their look. Whether a place counts, reading tells
 * (edit.c): a flag in a branch that does not run is found here, too. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/text.h"
#include "launch/emit/rows.h"
#include "model/layout/job.h"

enum {
	DEPTH = 8,
	VARIABLES = 4, /* that name one another */
	EDITS = 256    /* that are tried: each is a reading of the text */
};

static bool places_push(lk_spots *out, lk_spot place) {
	if (!place.name || !lk_push(out)) return false;
	*lk_last(out) = place;
	return true;
}

/* ---- files ---- */

/* The byte of a line and a column, which counts characters in YAML. */
static const char *places_byte(const char *text, const lk_value *value, bool characters) {
	for (int line = 1; line < value->line; line++) {
		text = strchr(text, '\n');
		if (!text) return NULL;
		text++;
	}
	for (int column = 1; column < value->column && *text; column++) {
		text++;
		while (characters && ((unsigned char)*text & 0xc0) == 0x80) text++;
	}
	return text;
}

/* Bytes of a scalar as it is written on one line, quotes included; -1: it cannot be told. */
static long places_scalar(const char *at, const lk_value *value) {
	size_t length = value->text ? strlen(value->text) : 0;
	if (*at == '"' || *at == '\'') {
		const char *end = at + 1;
		for (; *end && *end != '\n' && *end != *at; end++)
			if (*end == '\\' && *at == '"' && end[1]) end++;
		return *end == *at ? end + 1 - at : -1;
	}
	if (value->kind == LK_JSON_NULL && length == 0) {
		if (strncasecmp(at, "null", 4) == 0) return 4;
		return *at == '~' ? 1 : 0;
	}
	if (value->kind == LK_JSON_TRUE || value->kind == LK_JSON_FALSE || length == 0)
		length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	else if (strncmp(at, value->text, length) != 0) return -1;
	return (long)length;
}

struct places_walk {
	lk_arena *arena;
	const char *text;
	lk_spot_form form;
	lk_spots *out;
};

/* Where a value begins, and how long it is; -1: it cannot be told. */
static long places_value(const struct places_walk *walk, const lk_value *value, size_t *begin) {
	const char *at = places_byte(walk->text, value, walk->form == LK_SPOT_YAML);
	if (at && walk->form == LK_SPOT_TOML && strchr(" \t=", *at)) at += strspn(at, " \t=");
	if (!at) return -1;
	*begin = (size_t)(at - walk->text);
	return places_scalar(at, value);
}

/* Items of a list of scalars; of one that cannot be told, nothing. */
static lk_status places_items(const struct places_walk *walk, const lk_value *list,
                              const char *path, lk_error *err) {
	const char *name = lk_arena_printf(walk->arena, "%s.-", path);
	size_t first = walk->out->count;
	for (size_t i = 0; i < list->count; i++) {
		size_t at;
		long length = places_value(walk, &list->items[i], &at);
		if (length <= 0) {
			walk->out->count = first;
			return LK_OK;
		}
		size_t line = lk_edit_line(walk->text, at), dash = line + strspn(walk->text + line, " \t");
		bool block = dash < at && walk->text[dash] == '-' && walk->form == LK_SPOT_YAML;
		lk_spot item = {name, walk->form, block ? dash : at, at, at + (size_t)length, true};
		if (!places_push(walk->out, item)) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status places_walk(const struct places_walk *walk, const lk_value *map, const char *path,
                             int depth, lk_error *err) {
	for (size_t i = 0; i < map->count && depth < DEPTH; i++) {
		const lk_value *value = &map->items[i];
		const char *name =
			*path ? lk_arena_printf(walk->arena, "%s.%s", path, map->keys[i]) : map->keys[i];
		if (!name) return lk_oom(err);
		if (value->kind == LK_JSON_OBJECT) LK_TRY(places_walk(walk, value, name, depth + 1, err));
		if (value->kind == LK_JSON_ARRAY) LK_TRY(places_items(walk, value, name, err));
		if (value->kind == LK_JSON_OBJECT || value->kind == LK_JSON_ARRAY) continue;
		size_t to;
		long length = places_value(walk, value, &to);
		if (length < 0) continue;
		/* the key is on the line: a value that an alias shares is another key's */
		size_t begin = lk_edit_line(walk->text, to), key = strlen(map->keys[i]), found = to;
		for (size_t k = begin; k + key <= to; k++)
			if (strncmp(walk->text + k, map->keys[i], key) == 0) found = k;
		if (found == to) continue;
		if (found > begin && strchr("\"'", walk->text[found - 1])) found--;
		if (!places_push(walk->out,
		                 (lk_spot){name, walk->form, found, to, to + (size_t)length, false}))
			return lk_oom(err);
	}
	return LK_OK;
}

LK_ORDER_BY(places_by_begin, lk_spot, begin)

lk_status lk_spots_of_file(lk_arena *arena, const char *path, const char *text, lk_spots *out,
                           lk_error *err) {
	lk_value *root;
	size_t size = strlen(text);
	lk_spot_form form = LK_SPOT_YAML;
	LK_TRY(lk_document_parse(arena, text, size, path, &root, err));
	lk_document_form is = lk_document_form_named(path, text, size);
	if (is == LK_DOCUMENT_JSON || text[strspn(text, " \t\r\n")] == '{') form = LK_SPOT_JSON;
	if (is == LK_DOCUMENT_TOML) form = LK_SPOT_TOML;
	if (root->kind != LK_JSON_OBJECT) return LK_OK;
	const struct places_walk walk = {arena, text, form, out};
	LK_TRY(places_walk(&walk, root, "", 0, err));
	lk_sort(out->at, out->count, sizeof *out->at, places_by_begin);
	return LK_OK;
}

/* ---- scripts ---- */

static bool places_blank(char c) {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

/* The end of a word of a shell that begins at `at`, on this line: quotes that close are part of
 * it. */
static const char *places_word(const char *at) {
	const char *end = at + strlen(at), *line = at + strcspn(at, "\n");
	while (at < line && !strchr(" \t\r;)`", *at)) {
		const char *next = at + 1;
		if (*at == '"' || *at == '\'') {
			next = memchr(at + 1, *at, (size_t)(line - at - 1));
			if (!next) return at; /* it closes what began before */
			next++;
		} else if (*at == '$' && (at[1] == '{' || at[1] == '('))
			next = lk_shell_close(at + 1, end, at[1], at[1] == '{' ? '}' : ')');
		else if (*at == '\\' && at + 1 < line) next = at + 2;
		else if (*at == '\\') return at;
		if (!next || next > line) return at;
		at = next;
	}
	return at;
}

/* A flag or a word NAME=VALUE that begins at `at`; false: neither. */
static bool places_flag(lk_arena *arena, const char *text, const char *at, lk_spot *out) {
	size_t dashes = strspn(at, "-+~"), length = 0;
	const char *name = at + dashes;
	if (isalpha((unsigned char)*name) || *name == '_')
		while (isalnum((unsigned char)name[length]) ||
		       (name[length] && strchr("_-.", name[length])))
			length++;
	bool equals = name[length] == '=', flag = at[0] == '-' && dashes <= 2 && at[dashes - 1] == '-';
	if (length == 0 || (!flag && !equals)) return false;
	*out = (lk_spot){.name = lk_arena_strndup(arena, name, length), .form = LK_SPOT_FLAG};
	out->begin = (size_t)(at - text);
	const char *value = name + length;
	if (equals) value++;
	else value += strspn(value, " \t");
	/* the next flag, a line that goes on, the end of a list or of a string */
	bool none = !equals && (places_blank(*value) || strchr("\\)\"`;|&#<>", *value) ||
	                        (*value == '-' && !isdigit((unsigned char)value[1])));
	if (!none && *value == '"' && strchr(" \t\n)", value[1])) none = true;
	if (!equals && *value == '"' && places_word(value) > value + 1) none = false;
	const char *end = none ? name + length : places_word(value);
	out->at = none ? out->begin + dashes + length : (size_t)(value - text);
	out->end = none ? out->at : (size_t)(end - text);
	return true;
}

lk_status lk_spots_of_script(lk_arena *arena, const char *text, lk_spots *out, lk_error *err) {
	for (const char *line = text; *line;) {
		const char *end = line + strcspn(line, "\n"), *at = line + strspn(line, " \t");
		bool comment = *at == '#' && strncmp(at, "#SBATCH", 7) != 0;
		while (!comment && at < end) {
			lk_spot place;
			bool begins = at == line || strchr(" \t\"'(=", at[-1]);
			if (begins && places_flag(arena, text, at, &place)) {
				if (!places_push(out, place)) return lk_oom(err);
				size_t to = place.end > place.at ? place.at : place.end;
				at = text + (to > place.begin ? to : place.begin + 1);
			} else at++;
		}
		line = end + (*end == '\n');
	}
	return LK_OK;
}

/* ---- changes ---- */

lk_status lk_edit_push(lk_edits *out, size_t at, size_t end, const char *with, lk_error *err) {
	if (out->count == EDITS) return LK_OK;
	if (!with || !lk_push(out)) return lk_oom(err);
	*lk_last(out) = (lk_edit){.at = at, .end = end, .with = with};
	return LK_OK;
}

const char *lk_spot_quoted(lk_arena *arena, const char *text, const lk_spot *place,
                           const char *with) {
	char quote = place->at < place->end ? text[place->at] : '\0';
	bool bare = *with && with[strspn(with, "0123456789.-+eE")] == '\0';
	bool truth =
		strcmp(with, "true") == 0 || strcmp(with, "false") == 0 || strcmp(with, "null") == 0;
	if (place->form == LK_SPOT_FLAG) return lk_shell_quote(arena, with);
	if (quote == '"' || quote == '\'') return lk_arena_printf(arena, "%c%s%c", quote, with, quote);
	if (place->form != LK_SPOT_YAML && !bare && !truth)
		return lk_arena_printf(arena, "\"%s\"", with);
	return *with ? with : "\"\"";
}

/* Whether the line holds this flag or key alone, perhaps with a bracket or what continues it. */
static bool places_alone(const char *text, const lk_spot *place, size_t *from, size_t *to) {
	*from = lk_edit_line(text, place->begin);
	*to = place->end + strcspn(text + place->end, "\n");
	size_t before = strspn(text + *from, " \t"), after = place->end;
	while (after < *to && strchr(" \t\\,\r", text[after])) after++;
	bool alone = *from + before == place->begin && (after == *to || text[after] == '#');
	*to += text[*to] == '\n';
	return alone;
}

static lk_status places_remove(lk_arena *arena, const char *text, const lk_spot *place,
                               lk_edits *out, lk_error *err) {
	size_t from, to;
	bool alone = places_alone(text, place, &from, &to);
	if (place->form == LK_SPOT_JSON || (place->form == LK_SPOT_YAML && !alone))
		return lk_edit_push(out, place->at, place->end, "null", err);
	if (alone) return lk_edit_push(out, from, to, "", err);
	if (place->form == LK_SPOT_TOML) return LK_OK;
	from = place->begin;
	while (from > 0 && strchr(" \t", text[from - 1])) from--;
	(void)arena;
	return lk_edit_push(out, from, place->end, "", err);
}

/* "4", "${1:-4}" or "${TP}" from `at` on: of a literal the change, of a variable those of where it
 * is set. */
static lk_status places_follow(lk_arena *arena, const char *text, size_t at, size_t end,
                               const char *with, int depth, lk_edits *out, lk_error *err) {
	if (end > at + 1 && strchr("\"'", text[at]) && text[end - 1] == text[at]) at++, end--;
	bool literal = end > at;
	for (size_t i = at; i < end; i++)
		literal &= isalnum((unsigned char)text[i]) || strchr("_.,-+", text[i]);
	if (literal) return depth > 0 ? lk_edit_push(out, at, end, with, err) : LK_OK;
	if (text[at] != '$' || depth == VARIABLES || strpbrk(with, " \"'\\$`")) return LK_OK;
	bool braces = text[at + 1] == '{';
	size_t name = at + 1 + braces, length = 0;
	while (isalnum((unsigned char)text[name + length]) || text[name + length] == '_') length++;
	size_t after = name + length;
	if (length == 0) return LK_OK;
	if (braces && (strncmp(text + after, ":-", 2) == 0 || strncmp(text + after, ":=", 2) == 0))
		LK_TRY(places_follow(arena, text, after + 2, end - 1, with, depth + 1, out, err));
	else if (braces && text[after] == '-')
		LK_TRY(places_follow(arena, text, after + 1, end - 1, with, depth + 1, out, err));
	else if (after != end - braces) return LK_OK; /* computed, or a part of the word */
	if (isdigit((unsigned char)text[name])) return LK_OK;
	for (const char *found = text;
	     (found = strstr(found, lk_arena_strndup(arena, text + name, length))) != NULL; found++) {
		size_t place = (size_t)(found - text), next = place + length;
		char before = place > 0 ? text[place - 1] : '\n';
		if (text[next] == '=' && strchr(" \t\n;(", before)) {
			size_t to = (size_t)(places_word(text + next + 1) - text);
			LK_TRY(places_follow(arena, text, next + 1, to, with, depth + 1, out, err));
		} else if (before == '{' && strncmp(text + next, ":=", 2) == 0 && place != name) {
			size_t to = next + strcspn(text + next, "}\n");
			LK_TRY(places_follow(arena, text, next + 2, to, with, depth + 1, out, err));
		}
	}
	return LK_OK;
}

/* Whether a value names layers that have adapters, "q_proj v_proj": an argument each. */
static bool places_names_layers(lk_arena *arena, const char *with) {
	const char *first = lk_arena_strndup(arena, with, strcspn(with, " "));
	return first && lk_adapters_find(first) != 0;
}

/* The end of the arguments of a flag whose first one ends at `end`: plain words on its line. */
static size_t places_arguments(const char *text, size_t end) {
	for (;;) {
		const char *next = text + end + strspn(text + end, " \t"), *to = places_word(next);
		if (next == text + end || !isalpha((unsigned char)*next) || to == next) return end;
		if (memchr(next, '=', (size_t)(to - next))) return end;
		end = (size_t)(to - text);
	}
}

lk_status lk_spot_change(lk_arena *arena, const char *text, const lk_spot *place, const char *with,
                         lk_edits *out, lk_error *err) {
	if (!with) return places_remove(arena, text, place, out, err);
	bool plain = place->at < place->end && isalpha((unsigned char)text[place->at]);
	if (place->form == LK_SPOT_FLAG && plain && text[place->at - 1] != '=' &&
	    places_names_layers(arena, with))
		return lk_edit_push(out, place->at, places_arguments(text, place->end), with, err);
	if (place->form == LK_SPOT_FLAG && place->at < place->end && *with)
		LK_TRY(places_follow(arena, text, place->at, place->end, with, 0, out, err));
	if (place->form == LK_SPOT_FLAG && place->at == place->end) {
		if (!*with) return LK_OK; /* it is on */
		return lk_edit_push(out, place->end, place->end, lk_arena_printf(arena, " %s", with), err);
	}
	const char *value = lk_spot_quoted(arena, text, place, with);
	if (value && place->at == place->end) value = lk_arena_printf(arena, " %s", value);
	return lk_edit_push(out, place->at, place->end, value, err);
}

/* A flag after another: on a line of its own where that one has one. */
static lk_status places_add_flag(lk_arena *arena, const char *text, const lk_spot *beside,
                                 const char *name, const char *with, lk_edits *out, lk_error *err) {
	size_t from, to;
	const char *quoted = lk_shell_quote(arena, with);
	bool dashes = text[beside->begin] == '-', equals = text[beside->at - 1] == '=';
	if (!quoted) return lk_oom(err);
	const char *flag =
		lk_arena_printf(arena, "%s%s%s%s", dashes ? "--" : "", name,
	                    *with ? (equals || !dashes ? "=" : " ") : "", *with ? quoted : "");
	if (!flag) return lk_oom(err);
	if (!places_alone(text, beside, &from, &to))
		return lk_edit_push(out, beside->end, beside->end, lk_arena_printf(arena, " %s", flag),
		                    err);
	int indent = (int)(beside->begin - from);
	bool goes_on = to > from + 1 && text[to - 1] == '\n' && text[to - 2] == '\\';
	bool follows = from > 1 && text[from - 2] == '\\';
	return lk_edit_push(out, beside->end, beside->end,
	                    lk_arena_printf(arena, "%s\n%.*s%s", goes_on || follows ? " \\" : "",
	                                    indent, text + from, flag),
	                    err);
}

/* The key at the end of a path, and the section before it. */
static const char *places_last(const char *path, size_t *section) {
	const char *dot = strrchr(path, '.');
	*section = dot ? (size_t)(dot - path) : 0;
	return dot ? dot + 1 : path;
}

lk_status lk_spot_add(lk_arena *arena, const char *text, const lk_spot *beside, lk_spot_form form,
                      const char *name, const char *with, lk_edits *out, lk_error *err) {
	if (beside && form == LK_SPOT_FLAG)
		return places_add_flag(arena, text, beside, name, with, out, err);
	if (form == LK_SPOT_FLAG || (form == LK_SPOT_JSON && !beside)) return LK_OK;
	size_t section, other = 0, end = strlen(text), indent = 0;
	const char *key = places_last(name, &section), *where = text;
	const char *value = lk_spot_quoted(arena, text, &(lk_spot){.form = form}, with);
	if (!value) return lk_oom(err);
	if (beside) {
		size_t line = lk_edit_line(text, beside->begin);
		(void)places_last(beside->name, &other);
		indent = strspn(text + line, " \t");
		where = text + line;
		end = beside->end + strcspn(text + beside->end, "\n");
		if (form != LK_SPOT_JSON && strpbrk(text + line, "{\n") &&
		    *strpbrk(text + line, "{\n") == '{')
			return LK_OK; /* a map in braces */
	}
	bool same = beside && other == section && strncmp(beside->name, name, section) == 0;
	const char *line_end = end > 0 && text[end - 1] != '\n' ? "\n" : "";
	if (form == LK_SPOT_JSON) {
		bool own = beside->begin == (size_t)(where - text) + indent;
		const char *gap = own ? lk_arena_printf(arena, ",\n%.*s", (int)indent, where) : ", ";
		size_t above = other > 0 ? other + 1 : 0; /* of the name, which the place's section has */
		bool within = !same && other < section && strncmp(beside->name, name, above) == 0;
		if (!gap || (!same && !within && strchr(name, '.'))) return LK_OK;
		if (within) name += above, section -= above;
		if (within && memchr(name, '.', section)) return LK_OK; /* two levels */
		const char *put = same ? lk_arena_printf(arena, "%s\"%s\": %s", gap, key, value)
		                       : lk_arena_printf(arena, "%s\"%.*s\": {\"%s\": %s}", gap,
		                                         (int)section, name, key, value);
		return lk_edit_push(out, beside->end, beside->end, put, err);
	}
	bool toml = form == LK_SPOT_TOML;
	const char *sign = toml ? " =" : ":";
	if (same)
		return lk_edit_push(
			out, end, end,
			lk_arena_printf(arena, "\n%.*s%s%s %s", (int)indent, where, key, sign, value), err);
	end = strlen(text);
	line_end = end > 0 && text[end - 1] != '\n' ? "\n" : "";
	if (section == 0 && toml) return LK_OK; /* the last table would take it */
	if (section == 0)
		return lk_edit_push(out, end, end,
		                    lk_arena_printf(arena, "%s%s: %s\n", line_end, key, value), err);
	if (memchr(name, '.', section) && !toml) return LK_OK;
	const char *head = lk_arena_printf(arena, toml ? "\n[%.*s]\n" : "%.*s:\n", (int)section, name);
	bool item = strcmp(key, "-") == 0;
	if (item && toml) return LK_OK;
	const char *line =
		lk_arena_printf(arena, "%s%s%s %s\n", toml ? "" : "  ", key, item ? "" : sign, value);
	if (!head || !line) return lk_oom(err);
	for (size_t i = 0; i < out->count; i++) { /* a section begins once */
		lk_edit *edit = &out->at[i];
		if (edit->at != end || !strstr(edit->with, head)) continue;
		edit->with = lk_arena_printf(arena, "%s%s", edit->with, line);
		return edit->with ? LK_OK : lk_oom(err);
	}
	return lk_edit_push(out, end, end, lk_arena_printf(arena, "%s%s%s", line_end, head, line), err);
}
