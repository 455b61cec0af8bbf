/* fields_types.c: the types of fields in the notation of tools/schemas.py, for schemas and for the
 * classes of Python. */
#include "base/check.h"
#include "base/text.h"
#include "view/table/fields.h"

/* The name under which a record is referred to; NULL: it is written in place. */
static const char *referred(const lk_answer_record *record, bool classes) {
	return classes && record->python ? record->python : record->name;
}

static const char *plain_type(lk_field_kind kind) {
	switch (kind) {
	case LK_FIELD_BOOL: return "bool";
	case LK_FIELD_REAL: return "num";
	case LK_FIELD_TEXT:
	case LK_FIELD_CHARS: return "text";
	case LK_FIELD_TEXTS: return "[text]";
	case LK_FIELD_INTS: return "[int]";
	case LK_FIELD_ROWS: return "[Row]";
	default: return "int";
	}
}

static void add_members(const lk_answer_record *record, bool classes, lk_text *out, bool *any) {
	for (int i = 0; i < record->count; i++) {
		const lk_answer_field *field = &record->fields[i];
		if (field->column) continue;
		if (!field->key) {
			add_members(field->of, classes, out, any);
			continue;
		}
		if (*any) lk_text_add(out, " ");
		lk_text_add(out, "%s%s:", field->key, field->when || field->absent ? "?" : "");
		*any = true;
		lk_field_type(field, classes, out);
	}
}

void lk_record_type(const lk_answer_record *record, bool classes, lk_text *out) {
	bool any = false;
	lk_text_add(out, "{");
	add_members(record, classes, out, &any);
	lk_text_add(out, "}");
	LK_ASSERT(!lk_text_full(out));
}

/* What an element, or the field itself, is. */
static void add_inner(const lk_answer_field *field, bool classes, lk_text *out) {
	const lk_answer_record *of = field->kind == LK_FIELD_ROWS ? NULL : field->of;
	if (field->type) lk_text_add(out, "%s", field->type);
	else if (!of && field->known == LK_EVEN_INFINITE) lk_text_add(out, "real");
	else if (!of) lk_text_add(out, "%s", field->per_cent ? "num" : plain_type(field->kind));
	else if (referred(of, classes)) lk_text_add(out, "%s", referred(of, classes));
	else if (lk_record_is_value(of)) lk_field_type(of->fields, classes, out);
	else lk_record_type(of, classes, out);
}

void lk_field_type(const lk_answer_field *field, bool classes, lk_text *out) {
	const char *open = "", *close = "";
	if (field->kind == LK_FIELD_MANY) open = "[", close = "]";
	if (field->kind == LK_FIELD_MAP) open = "{*:", close = "}";
	lk_text_add(out, "%s", open);
	if (classes && field->kind == LK_FIELD_ROWS && field->of)
		lk_text_add(out, "[%s]", referred(field->of, classes));
	else add_inner(field, classes, out);
	bool always = field->known == LK_ALWAYS || field->known == LK_EVEN_INFINITE;
	bool null = !field->absent && (!always || field->there || field->if_size);
	lk_text_add(out, "%s%s", close, null ? "?" : "");
}
