/* documents.c: the answers of all verbs, and what is in them, as data: `lockstep --answers`. Schemas,
 * the description of the server's interface and the classes of Python are written from it. */

#include "base/check.h"
#include "base/text.h"
#include "base/vec.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"
#include "view/text/views.h"

enum { TYPE = 8000 };

/* What lk_table_write writes of any table. */
static const lk_answer_field table_fields[] = {
	{"table", NULL, .kind = LK_FIELD_TEXT},
	{"rows", NULL, .kind = LK_FIELD_ROWS},
};
static const lk_answer_record table_record = {.fields = table_fields,
                                              .count = sizeof table_fields / sizeof *table_fields};
static const lk_document table_document = {
	"table",
	"`devices`, `models`, `machines` and `doctor`, and of any verb with `--table`: a table by rows",
	&table_record, 0, NULL};

static const lk_document *const documents[] = {
	&lk_predict_document,    &lk_plan_document,       &lk_explain_document,   &lk_whatif_document,
	&lk_validate_document,   &lk_collective_document, &lk_shard_document,     &lk_rent_document,
	&lk_jobs_document,       &lk_simulate_document,   &lk_compose_document,   &lk_diff_document,
	&lk_replay_document,     &lk_stalls_document,     &lk_calibrate_document, &lk_version_document,
	&lk_postmortem_document, &lk_run_log_document,    &table_document,        &lc_run_document,
	&lc_compare_document,    &lc_verify_document,     &lc_bench_document,     &lk_tune_document,
};
enum { DOCUMENTS = sizeof documents / sizeof *documents };

/* Records, each before what is in it. */
typedef LK_VEC(const lk_answer_record *) answer_records;

static bool add_record(answer_records *records, const lk_answer_record *record) {
	for (size_t i = 0; i < records->count; i++)
		if (records->at[i] == record) return true;
	if (!lk_push(records)) return false;
	*lk_last(records) = record;
	for (int i = 0; i < record->count; i++)
		if (record->fields[i].of && !add_record(records, record->fields[i].of)) return false;
	return true;
}

static bool find_records(answer_records *records) {
	for (int i = 0; i < DOCUMENTS; i++) {
		if (!add_record(records, documents[i]->record)) return false;
		if (documents[i]->other && !add_record(records, documents[i]->other)) return false;
	}
	return true;
}

static void put_types(lk_json_writer *writer, const answer_records *records) {
	char type[TYPE];
	lk_json_object(writer, "types");
	for (size_t i = 0; i < records->count; i++) {
		lk_text text = lk_text_begin(type, sizeof type);
		if (!records->at[i]->name) continue;
		lk_record_type(records->at[i], false, &text);
		lk_json_put_text(writer, records->at[i]->name, type);
	}
	lk_json_object_end(writer);
}

static void put_documents(lk_json_writer *writer) {
	char type[TYPE];
	lk_json_object(writer, "documents");
	for (int i = 0; i < DOCUMENTS; i++) {
		const lk_document *document = documents[i];
		lk_text text = lk_text_begin(type, sizeof type);
		if (document->record->name) lk_text_add(&text, "%s", document->record->name);
		else lk_record_type(document->record, false, &text);
		if (document->other) lk_text_add(&text, " | %s", document->other->name);
		lk_json_object(writer, document->name);
		lk_json_put_text(writer, "prints", document->prints);
		lk_json_put_text(writer, "type", type);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
}

static void put_class_fields(lk_json_writer *writer, const lk_answer_record *record) {
	for (int i = 0; i < record->count; i++) {
		const lk_answer_field *field = &record->fields[i];
		char type[TYPE], key[80];
		if (field->column) continue;
		if (!field->key) {
			put_class_fields(writer, field->of);
			continue;
		}
		lk_text text = lk_text_begin(type, sizeof type);
		lk_field_type(field, true, &text);
		LK_ASSERT(!lk_text_full(&text));
		snprintf(key, sizeof key, "%s%s", field->key, field->when || field->absent ? "?" : "");
		lk_json_put_text(writer, key, type);
	}
}

/* A record with a sentence on what it is has a class; those in it come first. */
static void put_classes(lk_json_writer *writer, const answer_records *records) {
	lk_json_object(writer, "classes");
	for (size_t i = records->count; i-- > 0;) {
		const lk_answer_record *record = records->at[i];
		const char *name = record->python ? record->python : record->name;
		if (!record->what || !name) continue;
		lk_json_object(writer, name);
		lk_json_put_text(writer, "what", record->what);
		lk_json_object(writer, "fields");
		put_class_fields(writer, record);
		lk_json_object_end(writer);
		lk_json_object_end(writer);
	}
	lk_json_object_end(writer);
}

lk_status lk_answers_print(FILE *out, lk_error *err) {
	answer_records records = {0};
	lk_json_writer w;
	bool found = find_records(&records);
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	if (found) {
		put_documents(&w);
		put_types(&w, &records);
		put_classes(&w, &records);
	}
	lk_json_object_end(&w);
	lk_vec_free(&records);
	return found ? lk_json_finish(&w, err) : lk_oom(err);
}
