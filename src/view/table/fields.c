/* fields.c: values of an answer's fields, and the answer as JSON. */
#include "view/table/fields.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

/* ---- values ---- */

static const void *fields_at(const lk_answer_field *field, const lk_subject *subject) {
	return (const char *)subject->record + field->at;
}

static size_t fields_count(const lk_answer_field *field, const lk_subject *subject) {
	const void *at = (const char *)subject->record + field->count;
	if (field->wide) return *(const size_t *)at;
	int count = *(const int *)at;
	LK_ASSERT(count >= 0);
	return (size_t)count;
}

static const void *fields_pointer(const lk_answer_field *field, const lk_subject *subject) {
	return *(const void *const *)fields_at(field, subject);
}

static bool field_is_text(const lk_answer_field *field) {
	return field->kind == LK_FIELD_TEXT || field->kind == LK_FIELD_CHARS;
}

static void load(const lk_answer_field *field, const lk_subject *subject, lk_field_value *found) {
	const void *at = fields_at(field, subject);
	switch (field->kind) {
	case LK_FIELD_BOOL: found->number = *(const bool *)at; break;
	case LK_FIELD_INT: found->number = *(const int *)at; break;
	case LK_FIELD_UINT32: found->number = *(const uint32_t *)at; break;
	case LK_FIELD_INT64: found->number = (double)*(const int64_t *)at; break;
	case LK_FIELD_UINT64: found->number = (double)*(const uint64_t *)at; break;
	case LK_FIELD_REAL: found->number = *(const double *)at; break;
	case LK_FIELD_TEXT: found->text = *(const char *const *)at; break;
	case LK_FIELD_CHARS: found->text = at; break;
	default: LK_ASSERT(!"a field with one value");
	}
}

static double per_cent_of(const lk_answer_field *field, const lk_subject *subject, double part) {
	lk_field_value whole = {.number = 1};
	lk_answer_field at_whole = *field;
	at_whole.at = field->whole;
	if (field->whole) load(&at_whole, subject, &whole);
	return whole.number > 0 ? 100 * part / whole.number : NAN;
}

static bool is_there(const lk_answer_field *field, const lk_subject *subject) {
	const char *at = (const char *)subject->record + field->if_at;
	size_t zeros = 0;
	while (zeros < field->if_size && !at[zeros]) zeros++;
	bool set = !field->if_size || zeros < field->if_size;
	return set && (!field->there || field->there(subject));
}

void lk_field_find(const lk_answer_field *field, const lk_subject *subject, lk_field_value *found) {
	found->number = NAN;
	found->text = NULL;
	*found->shown = '\0';
	if (field->get) field->get(subject, found);
	else load(field, subject, found);
	if (field->times > 0) found->number *= field->times;
	if (field->over > 0) found->number /= field->over;
	if (field->per_cent) found->number = per_cent_of(field, subject, found->number);
	bool empty = field_is_text(field) ? found->text && !*found->text : found->number == 0;
	if (!is_there(field, subject) || (field->known == LK_UNLESS_ZERO && empty)) {
		found->number = NAN;
		found->text = NULL;
	}
	if (field->known == LK_MAYBE && !isfinite(found->number)) found->number = NAN;
	if (field->known == LK_UNLESS_NEGATIVE && found->number < 0) found->number = NAN;
}

void lk_find_row_number(const lk_subject *subject, lk_field_value *found) {
	found->number = subject->index + 1;
}

/* ---- JSON ---- */

bool lk_record_is_value(const lk_answer_record *record) {
	return !record->fields->key && record->fields->kind <= LK_FIELD_CHARS;
}

static void fields_put_value(lk_json_writer *writer, const lk_answer_field *field,
                             const lk_subject *subject) {
	lk_field_value found;
	lk_field_find(field, subject, &found);
	if (field_is_text(field)) lk_json_put_text(writer, field->key, found.text);
	else if (field->known == LK_EVEN_INFINITE) lk_json_put_real(writer, field->key, found.number);
	else if (isnan(found.number)) lk_json_put_null(writer, field->key);
	else if (field->kind == LK_FIELD_BOOL) lk_json_put_bool(writer, field->key, found.number != 0);
	else if (field->kind == LK_FIELD_REAL || field->per_cent)
		lk_json_put_number(writer, field->key, found.number);
	else lk_json_put_integer(writer, field->key, (long long)found.number);
}

static void put_record(lk_json_writer *writer, const char *key, const lk_answer_record *record,
                       const lk_subject *subject) {
	LK_ASSERT(record->count > 0);
	if (lk_record_is_value(record)) {
		lk_answer_field field = *record->fields;
		field.key = key;
		fields_put_value(writer, &field, subject);
		return;
	}
	lk_json_object(writer, key);
	lk_json_put_fields(writer, record, subject);
	lk_json_object_end(writer);
}

static void put_elements(lk_json_writer *writer, const lk_answer_field *field,
                         const lk_subject *subject) {
	const char *at = fields_pointer(field, subject);
	size_t count = fields_count(field, subject);
	for (size_t i = 0; i < count; i++, at += field->of->size) {
		const void *name = at + field->named;
		lk_subject element = {subject->answer, at, (int)i, NULL};
		put_record(writer, field->kind == LK_FIELD_MAP ? *(const char *const *)name : NULL,
		           field->of, &element);
	}
}

static void fields_put_texts(lk_json_writer *writer, const lk_answer_field *field,
                             const lk_subject *subject) {
	const char *const *texts = fields_pointer(field, subject);
	size_t count = fields_count(field, subject);
	lk_json_array(writer, field->key);
	for (size_t i = 0; i < count; i++) lk_json_put_text(writer, NULL, texts[i]);
	lk_json_array_end(writer);
}

static void put_integers(lk_json_writer *writer, const lk_answer_field *field,
                         const lk_subject *subject) {
	const int *numbers = fields_pointer(field, subject);
	size_t count = fields_count(field, subject);
	lk_json_array(writer, field->key);
	for (size_t i = 0; i < count; i++) lk_json_put_integer(writer, NULL, numbers[i]);
	lk_json_array_end(writer);
}

static void put_map(lk_json_writer *writer, const lk_answer_field *field,
                    const lk_subject *subject) {
	lk_json_object(writer, field->key);
	if (field->put) field->put(writer, subject);
	else put_elements(writer, field, subject);
	lk_json_object_end(writer);
}

static void put_many(lk_json_writer *writer, const lk_answer_field *field,
                     const lk_subject *subject) {
	lk_json_array(writer, field->key);
	if (field->put) field->put(writer, subject);
	else put_elements(writer, field, subject);
	lk_json_array_end(writer);
}

static bool is_wanted(const lk_answer_field *field, const lk_subject *subject) {
	const int *which = subject->context;
	return !which || *which == 0 || *which == field->which;
}

static void put_table(lk_json_writer *writer, const lk_answer_field *field,
                      const lk_subject *subject) {
	LK_ASSERT(field->rows);
	lk_table *table = field->rows(subject->answer, field->which);
	if (table) lk_json_put_table(writer, field->key, table);
	else writer->out_of_memory = true;
	lk_table_free(table);
}

static void put_inside(lk_json_writer *writer, const lk_answer_field *field,
                       const lk_subject *subject) {
	lk_subject inner = {subject->answer, fields_at(field, subject), subject->index,
	                    subject->context};
	if (field->key) put_record(writer, field->key, field->of, &inner);
	else lk_json_put_fields(writer, field->of, &inner);
}

static void put_one(lk_json_writer *writer, const lk_answer_field *field,
                    const lk_subject *subject) {
	lk_subject inner = {subject->answer, fields_pointer(field, subject), subject->index,
	                    subject->context};
	if (!field->key) lk_json_put_fields(writer, field->of, &inner);
	else if (inner.record) put_record(writer, field->key, field->of, &inner);
	else lk_json_put_null(writer, field->key);
}

static void put_field(lk_json_writer *writer, const lk_answer_field *field,
                      const lk_subject *subject) {
	if (!is_there(field, subject)) {
		lk_json_put_null(writer, field->key);
		return;
	}
	switch (field->kind) {
	case LK_FIELD_TEXTS: fields_put_texts(writer, field, subject); break;
	case LK_FIELD_INTS: put_integers(writer, field, subject); break;
	case LK_FIELD_ONE: put_one(writer, field, subject); break;
	case LK_FIELD_INSIDE: put_inside(writer, field, subject); break;
	case LK_FIELD_MANY: put_many(writer, field, subject); break;
	case LK_FIELD_MAP: put_map(writer, field, subject); break;
	case LK_FIELD_ROWS: put_table(writer, field, subject); break;
	default: fields_put_value(writer, field, subject);
	}
}

static bool is_absent(const lk_answer_field *field, const lk_subject *subject) {
	lk_field_value found;
	if (field->when && !field->when(subject)) return true;
	if (field->kind == LK_FIELD_ROWS) return !is_wanted(field, subject);
	if (!field->absent) return false;
	if (field->kind == LK_FIELD_ONE) return !fields_pointer(field, subject);
	lk_field_find(field, subject, &found);
	return field_is_text(field) ? !found.text : isnan(found.number);
}

void lk_json_put_fields(lk_json_writer *writer, const lk_answer_record *record,
                        const lk_subject *subject) {
	for (int i = 0; i < record->count; i++) {
		const lk_answer_field *field = &record->fields[i];
		if (!field->column && !is_absent(field, subject)) put_field(writer, field, subject);
	}
}

/* ---- documents ---- */

struct documented {
	const lk_document *document;
	const void *answer;
	bool compact;
	const int *which; /* the one table that is wanted; NULL: all */
};

static lk_status write_documented(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct documented *documented = what;
	const lk_document *document = documented->document;
	const char *failed = (const char *)documented->answer + document->failed_check, *const * check;
	lk_subject place = {documented->answer, documented->answer, 0, documented->which};
	char schema[64];
	lk_json_writer w;
	(void)colour;
	check = (const void *)failed;
	snprintf(schema, sizeof schema, "lockstep/%s/1", document->name);
	lk_json_begin(&w, out, documented->compact);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, schema, *check);
	lk_json_put_fields(&w, document->record, &place);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_write_document_part(const lk_writing *writing, const lk_document *document,
                                 const void *answer, int which, lk_error *err) {
	struct documented documented = {document, answer, writing->format == LK_FORMAT_JSONL, &which};
	return lk_write_through(writing, write_documented, &documented, err);
}

lk_status lk_write_document(const lk_writing *writing, const lk_document *document,
                            const void *answer, lk_error *err) {
	return lk_write_document_part(writing, document, answer, 0, err);
}
