/* fields_table.c: columns and rows of tables from the fields of a record. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "view/table/fields.h"

static const lk_answer_field *find_key(const lk_answer_record *record, const char *key,
                                       size_t length, size_t from, size_t *at) {
	for (int i = 0; i < record->count; i++) {
		const lk_answer_field *field = &record->fields[i], *inner;
		if (!field->key) {
			inner = find_key(field->of, key, length, from + field->at, at);
			if (inner) return inner;
		} else if (strlen(field->key) == length && strncmp(field->key, key, length) == 0) {
			*at = from;
			return field;
		}
	}
	return NULL;
}

const lk_answer_field *lk_field_of(const lk_answer_record *record, const char *key, size_t *at) {
	return find_key(record, key, strlen(key), 0, at);
}

/* The field of a column that a view names. */
static const lk_answer_field *field_of_column(const lk_columns *columns, int column, size_t *at) {
	const char *key = columns->keys[column];
	const lk_answer_field *field = find_key(columns->record, key, strcspn(key, ":"), 0, at);
	LK_ASSERT(field && field->kind <= LK_FIELD_CHARS);
	return field;
}

/* The title that a view gives a column; NULL: that of the field. */
static const char *given_title(const char *key) {
	const char *colon = strchr(key, ':');
	return colon ? colon + 1 : NULL;
}

/* A row that is a column of its own. */
static bool has_column(const lk_answer_field *field) {
	return field->title && field->kind <= LK_FIELD_CHARS;
}

static int count_columns(const lk_columns *columns) {
	int count = 0;
	if (columns->keys)
		while (columns->keys[count]) count++;
	for (int i = 0; !columns->keys && i < columns->record->count; i++)
		count += has_column(&columns->record->fields[i]);
	return count;
}

static lk_column make_column(const lk_answer_field *field, const char *given, bool all) {
	bool text = field->kind == LK_FIELD_TEXT || field->kind == LK_FIELD_CHARS;
	const char *title = given ? given : field->title;
	return (lk_column){.key = field->key,
	                   .title = title ? title : "",
	                   .right = field->right || (!text && field->kind != LK_FIELD_BOOL),
	                   .hidden = field->hidden && !all};
}

lk_table *lk_fields_table(const lk_columns *columns) {
	lk_arena arena = LK_ARENA_INIT;
	int count = count_columns(columns), filled = 0;
	lk_column *all = LK_ARRAY(&arena, lk_column, (size_t)count);
	for (int i = 0; all && columns->keys && i < count; i++) {
		size_t at;
		const lk_answer_field *field = field_of_column(columns, i, &at);
		all[filled++] = make_column(field, given_title(columns->keys[i]), columns->all);
	}
	for (int i = 0; all && !columns->keys && i < columns->record->count; i++) {
		const lk_answer_field *field = &columns->record->fields[i];
		if (has_column(field)) all[filled++] = make_column(field, NULL, columns->all);
	}
	LK_ASSERT(!all || filled == count);
	lk_table *table = all ? lk_table_new(columns->name, all, count) : NULL;
	lk_arena_free(&arena);
	return table;
}

/* A text in `width` columns: itself, or its beginning and dots in `out`. */
static const char *cut_text(const char *text, size_t width, char *out, size_t size) {
	static const char dots[] = "...";
	if (!text || strlen(text) <= width) return text;
	size_t length = 0;
	for (size_t step; (step = lk_utf8_length(text + length, strlen(text + length))) &&
	                  length + step + strlen(dots) <= width;)
		length += step;
	snprintf(out, size, "%.*s%s", (int)length, text, dots);
	return out;
}

static void put_cell(lk_table *table, const lk_columns *columns, const lk_answer_field *field,
                     const lk_subject *subject) {
	lk_field_value found;
	char text[160];
	size_t width = columns->people && field->width ? field->width : SIZE_MAX;
	LK_ASSERT(field->width < sizeof text);
	lk_field_find(field, subject, &found);
	if (field->kind == LK_FIELD_TEXT || field->kind == LK_FIELD_CHARS)
		lk_table_text(table, cut_text(found.text, width, text, sizeof text));
	else if (isnan(found.number)) lk_table_number(table, NAN, NULL);
	else if (field->kind == LK_FIELD_BOOL) lk_table_bool(table, found.number != 0);
	else if (*found.shown) lk_table_number(table, found.number, found.shown);
	else if (field->shown)
		lk_table_number(table, found.number, field->shown(found.number, text, sizeof text));
	else lk_table_number(table, found.number, NULL);
}

void lk_fields_row(lk_table *table, const lk_columns *columns, const lk_subject *subject) {
	if (!table) return;
	lk_table_row(table);
	for (int i = 0; columns->keys && columns->keys[i]; i++) {
		size_t at;
		const lk_answer_field *field = field_of_column(columns, i, &at);
		lk_subject inner = *subject;
		inner.record = (const char *)subject->record + at;
		put_cell(table, columns, field, &inner);
	}
	for (int i = 0; !columns->keys && i < columns->record->count; i++)
		if (has_column(&columns->record->fields[i]))
			put_cell(table, columns, &columns->record->fields[i], subject);
}

lk_table *lk_fields_rows(const lk_columns *columns, const void *answer, const void *records,
                         int count) {
	lk_table *table = lk_fields_table(columns);
	const char *at = records;
	for (int i = 0; i < count; i++, at += columns->record->size)
		lk_fields_row(table, columns, &(lk_subject){answer, at, i, NULL});
	return table;
}
