/* test_fields.c: a row of an answer's table is a member of JSON, a cell and a type, whatever its kind
 * and whether it is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/json.h"
#include "lockstep/view.h"
#include "view/table/fields.h"

struct part {
	const char *name;
	double seconds;
};

struct sample {
	bool truth;
	int whole, none, place;
	uint32_t small;
	int64_t lost, all;
	double real, unknown;
	const char *text, *empty, *long_text;
	char inside[8];
	const char *const *texts;
	size_t text_count;
	const struct part *parts, *first;
	int part_count;
	struct part own;
};

#define SAMPLE(member) LK_AT(struct sample, member)

static const lk_answer_field part_fields[] = {
	{"name", "name", LK_AT(struct part, name)},
	{"seconds", "time", LK_AT(struct part, seconds), .shown = lk_format_seconds},
};
static const lk_answer_record part_record = {.name = "Part", LK_RECORD(struct part, part_fields)};

static const lk_answer_field value_fields[] = {{LK_AT(struct part, seconds)}};
static const lk_answer_record value_record = {LK_RECORD(struct part, value_fields)};

static const lk_answer_field first_fields[] = {{"first_s", NULL, LK_AT(struct part, seconds)}};
static const lk_answer_record value_of_first = {LK_RECORD(struct part, first_fields)};

static bool never(const lk_subject *subject) {
	(void)subject;
	return false;
}

static void find_double(const lk_subject *subject, lk_field_value *found) {
	found->number = 2 * ((const struct sample *)subject->record)->whole;
}

static const lk_answer_field sample_fields[] = {
	{"truth", "truth", SAMPLE(truth)},
	{"whole", "whole", SAMPLE(whole)},
	{"none", "none", SAMPLE(none), .known = LK_UNLESS_ZERO},
	{"place", "place", SAMPLE(place), .known = LK_UNLESS_NEGATIVE},
	{"small", "small", SAMPLE(small)},
	{"lost_pctg", "%", SAMPLE(lost), .per_cent = true, .whole = offsetof(struct sample, all)},
	{"real", "real", SAMPLE(real)},
	{"unknown", "unknown", SAMPLE(unknown), .known = LK_MAYBE},
	{"text", "text", SAMPLE(text)},
	{"empty", "empty", SAMPLE(empty), .known = LK_UNLESS_ZERO},
	{"inside", "inside", SAMPLE(inside)},
	{"texts", NULL, LK_LIST(struct sample, texts, text_count)},
	{"parts", NULL, LK_MANY(struct sample, parts, part_count, part_record)},
	{"times", NULL, LK_MAP(struct sample, parts, part_count, value_record),
     .named = offsetof(struct part, name)},
	{"first", NULL, LK_ONE(struct sample, first, part_record), .known = LK_MAYBE},
	{"own", NULL, LK_INSIDE(struct sample, own, part_record)},
	{LK_INSIDE(struct sample, own, part_record)},
	{"gone", NULL, SAMPLE(real), .when = never},
	{"nothing", "nothing", SAMPLE(real), .there = never},
	{"double", "double", LK_FIELD_INT, .get = find_double},
	{"halves", NULL, SAMPLE(real), .times = 20, .over = 4},
	{"endless", NULL, SAMPLE(unknown), .known = LK_EVEN_INFINITE},
	{"left_out", NULL, SAMPLE(empty), .known = LK_UNLESS_ZERO, .absent = true},
	{"kept", NULL, SAMPLE(text), .known = LK_UNLESS_ZERO, .absent = true},
	{"unset", NULL, SAMPLE(whole), LK_IF(struct sample, none)},
	{"set", NULL, SAMPLE(whole), LK_IF(struct sample, all)},
	{LK_ONE(struct sample, parts, value_of_first)},
	{"wide", "wide", SAMPLE(long_text), .width = 6, .column = true},
	{"secret", "secret", SAMPLE(whole), .hidden = true, .column = true},
	{"shown", "shown", LK_FIELD_INT, .get = find_double, .column = true},
};
static const lk_answer_record sample_record = {LK_RECORD(struct sample, sample_fields)};

static const char *const texts[] = {"a", "b"};
static const struct part parts[] = {{"x", 1}, {"y", 0.5}};
static const struct sample sample = {
	.truth = true,
	.whole = 3,
	.place = -1,
	.small = 7,
	.lost = 1,
	.all = 4,
	.real = 0.1,
	.unknown = NAN,
	.text = "t",
	.empty = "",
	.long_text = "a long text",
	.inside = "in",
	.texts = texts,
	.text_count = 2,
	.parts = parts,
	.part_count = 2,
	.own = {"mine", 2},
};

static char *written(lk_status write(FILE *out, lk_error *err)) {
	lk_error err;
	char *text;
	size_t size;
	FILE *out = lk_memory_open(&text, &size);
	assert_non_null(out);
	assert_int_equal(write(out, &err), LK_OK);
	assert_true(lk_memory_close(out));
	return text;
}

static lk_status write_sample(FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, true);
	lk_json_object(&w, NULL);
	lk_json_put_fields(&w, &sample_record, &(lk_subject){&sample, &sample, 0, NULL});
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

static void test_json(void **state) {
	(void)state;
	char *text = written(write_sample);
	assert_string_equal(
		text,
		"{\"truth\":true,\"whole\":3,\"none\":null,\"place\":null,\"small\":7,\"lost_pctg\":25,"
		"\"real\":0.1,\"unknown\":null,\"text\":\"t\",\"empty\":null,\"inside\":\"in\","
		"\"texts\":[\"a\",\"b\"],\"parts\":[{\"name\":\"x\",\"seconds\":1},{\"name\":\"y\","
		"\"seconds\":0.5}],\"times\":{\"x\":1,\"y\":0.5},\"first\":null,\"own\":{\"name\":"
		"\"mine\",\"seconds\":2},\"name\":\"mine\",\"seconds\":2,\"nothing\":null,\"double\":6,"
		"\"halves\":0.5,\"endless\":\"nan\",\"kept\":\"t\",\"unset\":null,\"set\":3,"
		"\"first_s\":1}\n");
	free(text);
}

static lk_status write_rows(FILE *out, lk_error *err) {
	static const char *const keys[] = {"shown:twice", "seconds", "truth",   "none",
	                                   "lost_pctg",   "inside",  "unknown", NULL};
	static const lk_columns columns = {"samples", &sample_record, .keys = keys};
	lk_table *table = lk_fields_rows(&columns, &sample, &sample, 1);
	assert_non_null(table);
	lk_status status = lk_table_write(table, LK_FORMAT_CSV, false, out, err);
	if (status == LK_OK) status = lk_table_write(table, LK_FORMAT_MD, false, out, err);
	lk_table_free(table);
	return status;
}

static void test_cells(void **state) {
	(void)state;
	char *text = written(write_rows);
	assert_string_equal(text,
	                    "shown,seconds,truth,none,lost_pctg,inside,unknown\n6,2,true,,25,in,\n"
	                    "| twice | time | truth | none | % | inside | unknown |\n"
	                    "|---:|---:|---|---:|---:|---|---:|\n"
	                    "| 6 | 2 s | yes |  | 25 | in |  |\n");
	free(text);
}

static lk_status write_for_people(FILE *out, lk_error *err) {
	static const char *const keys[] = {"wide", "secret", NULL};
	const lk_columns columns = {"samples", &sample_record, .keys = keys, .people = true},
					 all = {"samples", &sample_record, .keys = keys, .all = true};
	lk_status status = LK_OK;
	for (int i = 0; i < 2 && status == LK_OK; i++) {
		lk_table *table = lk_fields_rows(i ? &all : &columns, &sample, &sample, 1);
		assert_non_null(table);
		status = lk_table_write(table, LK_FORMAT_MD, false, out, err);
		lk_table_free(table);
	}
	return status;
}

/* People get the beginning of a long text; hidden columns are shown where all are. */
static void test_people(void **state) {
	(void)state;
	char *text = written(write_for_people);
	assert_string_equal(text, "| wide |\n|---|\n| a l... |\n| wide | secret |\n|---|---:|\n"
	                          "| a long text | 3 |\n");
	free(text);
}

static void test_types(void **state) {
	(void)state;
	char type[1000];
	lk_text text = lk_text_begin(type, sizeof type);
	lk_record_type(&sample_record, false, &text);
	assert_string_equal(
		type,
		"{truth:bool whole:int none:int? place:int? small:int lost_pctg:num real:num unknown:num? "
		"text:text empty:text? inside:text texts:[text] parts:[Part] times:{*:num} first:Part? "
		"own:Part name:text seconds:num gone?:num nothing:num? double:int "
		"halves:num endless:real left_out?:text kept?:text unset:int? set:int? first_s:num}");
}

/* Keys of an object are different ones, in every answer. */
static void test_answers(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_value *value;
	lk_stream *in;
	char *text = written(lk_answers_print);
	assert_int_equal(lk_stream_memory(text, strlen(text), "answers", &in, &err), LK_OK);
	assert_int_equal(lk_json_document(&arena, in, &value, &err), LK_OK);
	const lk_value *classes = lk_json_get(value, "classes");
	assert_true(classes->count > 20);
	for (size_t i = 0; i < classes->count; i++) {
		const lk_value *fields = lk_json_get(&classes->items[i], "fields");
		for (size_t a = 0; a < fields->count; a++)
			for (size_t b = 0; b < a; b++)
				assert_string_not_equal(fields->keys[a], fields->keys[b]);
	}
	lk_stream_close(in);
	lk_arena_free(&arena);
	free(text);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),  cmocka_unit_test(test_cells),   cmocka_unit_test(test_people),
		cmocka_unit_test(test_types), cmocka_unit_test(test_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
