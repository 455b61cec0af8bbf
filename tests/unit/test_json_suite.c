/* test_json_suite.c: every production of RFC 8259 and each way to break it, as documents of their
 * own, inside a configuration, and inside a trace: in an argument of an event, before the list of
 * events, between two of them. What is JSON is read; what is not is refused, in a trace with
 * --strict, and without it no event is lost in silence. What the RFC leaves open is stated below.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/arena.h"
#include "io/json.h"
#include "scratch.h"
#include "trace/capture/capture.h"
#include "trace/read/read.h"

struct document {
	const char *bytes;
	size_t size;
};
#define D(text) \
	{ text, sizeof(text) - 1 }
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* clang-format off */
static const struct document valid[] = {
	D("[[] ]"),
	D("[\"\"]"),
	D("[]"),
	D("[\"a\"]"),
	D("[false]"),
	D("[null, 1, \"1\", {}]"),
	D("[null]"),
	D("[1\n]"),
	D(" [1]"),
	D("[1,null,null,null,2]"),
	D("[2] "),
	D("[0e+1]"),
	D("[0e1]"),
	D("[ 4]"),
	D("[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]\n"),
	D("[20e1]"),
	D("[-0]"),
	D("[-123]"),
	D("[-1]"),
	D("[1E22]"),
	D("[1E-2]"),
	D("[1E+2]"),
	D("[123e45]"),
	D("[123.456e78]"),
	D("[1e-2]"),
	D("[1e+2]"),
	D("[123]"),
	D("[123.456789]"),
	D("{\"asd\":\"sdf\", \"dfg\":\"fgh\"}"),
	D("{\"asd\":\"sdf\"}"),
	D("{\"a\":\"b\",\"a\":\"c\"}"),
	D("{\"a\":\"b\",\"a\":\"b\"}"),
	D("{}"),
	D("{\"\":0}"),
	D("{\"foo\\u0000bar\": 42}"),
	D("{ \"min\": -1.0e+28, \"max\": 1.0e+28 }"),
	D("{\"x\":[{\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}], \"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}"),
	D("{\"a\":[]}"),
	D("{\"title\":\"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430\"}"),
	D("{\n\"a\": \"b\"\n}"),
	D("[\"\\u0060\\u012a\\u12AB\"]"),
	D("[\"\\uD801\\udc37\"]"),
	D("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"),
	D("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
	D("[\"\\\\u0000\"]"),
	D("[\"\\\"\"]"),
	D("[\"a/*b*/c/*d//e\"]"),
	D("[\"\\\\a\"]"),
	D("[\"\\\\n\"]"),
	D("[\"\\u0012\"]"),
	D("[\"\\uFFFF\"]"),
	D("[\"asd\"]"),
	D("[ \"asd\"]"),
	D("[\"\\uDBFF\\uDFFF\"]"),
	D("[\"new\\u00A0line\"]"),
	D("[\"\364\217\277\277\"]"),
	D("[\"\357\277\277\"]"),
	D("[\"\\u0000\"]"),
	D("[\"\\u002c\"]"),
	D("[\"\317\200\"]"),
	D("[\"\360\233\277\277\"]"),
	D("[\"asd \"]"),
	D("\" \""),
	D("[\"\\uD834\\uDd1e\"]"),
	D("[\"\\u0821\"]"),
	D("[\"\\u0123\"]"),
	D("[\"\342\200\250\"]"),
	D("[\"\342\200\251\"]"),
	D("[\"\\u0061\\u30af\\u30EA\\u30b9\"]"),
	D("[\"new\\u000Aline\"]"),
	D("[\"\177\"]"),
	D("[\"\\uA66D\"]"),
	D("[\"\\u005C\"]"),
	D("[\"\342\215\202\343\210\264\342\215\202\"]"),
	D("[\"\\u200B\"]"),
	D("[\"\\u2064\"]"),
	D("[\"\\uDBFF\\uDFFE\"]"),
	D("[\"\\uD83F\\uDFFE\"]"),
	D("[\"\\uFDD0\"]"),
	D("[\"\\uFFFE\"]"),
	D("[\"\\u0022\"]"),
	D("[\"\342\202\254\360\235\204\236\"]"),
	D("[\"a\177a\"]"),
	D("false"),
	D("42"),
	D("-0.1"),
	D("null"),
	D("\"asd\""),
	D("true"),
	D("\"\""),
	D("[\"a\"]\n"),
	D("[true]"),
	D(" [] "),
};

static const struct document broken[] = {
	D("[1 true]"),
	D("[a\345]"),
	D("[\"\": 1]"),
	D("[\"\"],"),
	D("[,1]"),
	D("[1,,2]"),
	D("[\"x\",,]"),
	D("[\"x\"]]"),
	D("[\"\",]"),
	D("[\"x\""),
	D("[x"),
	D("[3[4]]"),
	D("[\377]"),
	D("[1:2]"),
	D("[,]"),
	D("[-]"),
	D("[   , \"\"]"),
	D("[\"a\",\n4\n,1,"),
	D("[1,]"),
	D("[1,,]"),
	D("[\"\013a\"\\f]"),
	D("[*]"),
	D("[\"\""),
	D("[1,"),
	D("[1,\n1\n,1"),
	D("[{}"),
	D("[fals]"),
	D("[nul]"),
	D("[tru]"),
	D("123\000"),
	D("[++1234]"),
	D("[+1]"),
	D("[+Inf]"),
	D("[-01]"),
	D("[-1.0.]"),
	D("[-2.]"),
	D("[-NaN]"),
	D("[.-1]"),
	D("[.2e-3]"),
	D("[0.1.2]"),
	D("[0.3e+]"),
	D("[0.3e]"),
	D("[0.e1]"),
	D("[0E+]"),
	D("[0E]"),
	D("[0e+]"),
	D("[0e]"),
	D("[1.0e+]"),
	D("[1.0e-]"),
	D("[1.0e]"),
	D("[1 000.0]"),
	D("[1eE2]"),
	D("[2.e+3]"),
	D("[2.e-3]"),
	D("[2.e3]"),
	D("[9.e+]"),
	D("[Inf]"),
	D("[NaN]"),
	D("[\357\274\221]"),
	D("[1+2]"),
	D("[0x1]"),
	D("[0x42]"),
	D("[Infinity]"),
	D("[0e+-1]"),
	D("[-123.123foo]"),
	D("[123\345]"),
	D("[1e1\345]"),
	D("[0\345]\n"),
	D("[-Infinity]"),
	D("[-foo]"),
	D("[- 1]"),
	D("[-012]"),
	D("[-.123]"),
	D("[-1x]"),
	D("[1ea]"),
	D("[1e\345]"),
	D("[1.]"),
	D("[.123]"),
	D("[1.2a-3]"),
	D("[1.8011670033376514H-308]"),
	D("[012]"),
	D("[-00.0]"),
	D("[00.0]"),
	D("[00e0]"),
	D("[\"x\", truth]"),
	D("{[: \"x\"}\n"),
	D("{\"x\", null}"),
	D("{\"x\"::\"b\"}"),
	D("{\360\237\207\250\360\237\207\255}"),
	D("{\"a\":\"a\" 123}"),
	D("{key: 'value'}"),
	D("{\"\271\":\"0\",}"),
	D("{\"a\" b}"),
	D("{:\"b\"}"),
	D("{\"a\" \"b\"}"),
	D("{\"a\":"),
	D("{\"a\""),
	D("{1:1}"),
	D("{9999E9999:1}"),
	D("{null:null,null:null}"),
	D("{\"id\":0,,,,,}"),
	D("{'a':0}"),
	D("{\"id\":0,}"),
	D("{\"a\":\"b\"}/**/"),
	D("{\"a\":\"b\"}/**//"),
	D("{\"a\":\"b\"}//"),
	D("{\"a\":\"b\"}/"),
	D("{\"a\":\"b\",,\"c\":\"d\"}"),
	D("{a: \"b\"}"),
	D("{\"a\":\"a"),
	D("{ \"foo\" : \"bar\", \"a\" }"),
	D("{\"a\":\"b\"}#"),
	D(" "),
	D("[\"\\uD800\\\"]"),
	D("[\"\\uD800\\u\"]"),
	D("[\"\\uD800\\u1\"]"),
	D("[\"\\uD800\\u1x\"]"),
	D("[\303\251]"),
	D("[\"\\\000\"]"),
	D("[\"\\x00\"]"),
	D("[\"\\\\\\\"]"),
	D("[\"\\\t\"]"),
	D("[\"\\\360\237\214\200\"]"),
	D("[\"\\\"]"),
	D("[\"\\u00A\"]"),
	D("[\"\\uD834\\uDd\"]"),
	D("[\"\\uD800\\uD800\\x\"]"),
	D("[\"\\u\345\"]"),
	D("[\"\\a\"]"),
	D("[\"\\uqqqq\"]"),
	D("[\"\\\345\"]"),
	D("[\\u0020\"asd\"]"),
	D("[\\n]"),
	D("\""),
	D("['single quote']"),
	D("abc"),
	D("[\"\\"),
	D("[\"a\000a\"]"),
	D("[\"new\nline\"]"),
	D("[\"\t\"]"),
	D("\"\\UA66D\""),
	D("\"\"x"),
	D("[\"\037\"]"),
	D("[\342\201\240]"),
	D("\357\273\277"),
	D("<.>"),
	D("[<null>]"),
	D("[1]x"),
	D("[1]]"),
	D("[\"asd]"),
	D("a\303\245"),
	D("[True]"),
	D("1]"),
	D("{\"x\": true,"),
	D("[][]"),
	D("]"),
	D("\357\273{}"),
	D("\345"),
	D("["),
	D(""),
	D("[\000]"),
	D("2@"),
	D("{}}"),
	D("{\"\":"),
	D("{\"a\":/*comment*/\"b\"}"),
	D("{\"a\": true} \"x\""),
	D("['"),
	D("[,"),
	D("[{"),
	D("[\"a"),
	D("[\"a\""),
	D("{"),
	D("{]"),
	D("{,"),
	D("{["),
	D("{'"),
	D("{\"a"),
	D("[\"\\{[\"\\{[\"\\{[\"\\{"),
	D("\351"),
	D("*"),
	D("{\"a\":\"b\"}#{}"),
	D("[\\u000A\"\"]"),
	D("[1"),
	D("[ false, nul"),
	D("[ true, fals"),
	D("[ false, tru"),
	D("{\"asd\":\"asd\""),
	D("\303\245"),
	D("[\342\201\240]"),
	D("[\014]"),
	D("[1\013]"),
};

/* What the RFC leaves to the reader: numbers beyond doubles and halves of surrogate pairs are read. */
static const struct document read_as_well[] = {
	D("[123.456e-789]"),
	D("[0.4e00669999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999969999999006]"),
	D("[-1e+9999]"),
	D("[1.5e+9999]"),
	D("[-123123123123123123123123123123]"),
	D("[100000000000000000000]"),
	D("[-237462374673276894279832749832423479823246327846]"),
	D("{\"\\uDFAA\":0}"),
	D("[\"\\uDADA\"]"),
	D("[\"\\uD888\\u1234\"]"),
	D("[\"\\uD800\\n\"]"),
	D("[\"\\uDd1ea\"]"),
	D("[\"\\uD800\\uD800\\n\"]"),
	D("[\"\\ud800\"]"),
	D("[\"\\ud800abc\"]"),
	D("[\"\\uDd1e\\uD834\"]"),
	D("[\"\\uDFAA\"]"),
	D("\357\273\277{}"),
};

/* Bytes that are no UTF-8, and UTF-16, are refused. */
static const struct document refused[] = {
	D("[\"\346\227\245\321\210\372\"]"),
	D("[\"\377\"]"),
	D("[\"\351\"]"),
	D("[\"\201\"]"),
	D("[\"\364\277\277\277\"]"),
	D("[\"\355\240\200\"]"),
	D("[\"\300\257\"]"),
	D("[\"\374\203\277\277\277\277\"]"),
	D("[\"\374\200\200\200\200\200\"]"),
	D("[\"\340\377\"]"),
	D("[\"\355\277\277\"]"),
	D("\377\376[\000\"\000\351\000\"\000]\000"),
	D("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
	D("[\000\""),
};
/* clang-format on */

static lk_status read_document(const char *bytes, size_t size, bool strict) {
	lk_stream *in;
	lk_error err = {0};
	lk_json_token token = LK_JSON_NULL;
	assert_int_equal(lk_stream_memory(bytes, size, "text", &in, &err), LK_OK);
	lk_json *json = lk_json_open(in);
	if (strict) lk_json_be_strict(json);
	lk_status status = LK_OK;
	while (status == LK_OK && token != LK_JSON_END) status = lk_json_next(json, &token, &err);
	lk_json_close(json);
	lk_stream_close(in);
	return status;
}

static void show(const char *what, const struct document *document) {
	print_error("%s: %.*s\n", what, (int)document->size, document->bytes);
}

static void documents(void **state) {
	(void)state;
	int wrong = 0;
	for (size_t i = 0; i < COUNT(valid); i++)
		for (int strict = 0; strict < 2; strict++)
			if (read_document(valid[i].bytes, valid[i].size, strict) != LK_OK)
				show("refused", &valid[i]), wrong++;
	for (size_t i = 0; i < COUNT(broken); i++) {
		bool constant = strstr(broken[i].bytes, "NaN]") == broken[i].bytes + 1 ||
		                strstr(broken[i].bytes, "Infinity]") != NULL;
		if (read_document(broken[i].bytes, broken[i].size, true) == LK_OK)
			show("read in strictness", &broken[i]), wrong++;
		if ((read_document(broken[i].bytes, broken[i].size, false) == LK_OK) != constant)
			show("else", &broken[i]), wrong++;
	}
	for (size_t i = 0; i < COUNT(read_as_well); i++)
		if (read_document(read_as_well[i].bytes, read_as_well[i].size, true) != LK_OK)
			show("refused", &read_as_well[i]), wrong++;
	for (size_t i = 0; i < COUNT(refused); i++)
		if (read_document(refused[i].bytes, refused[i].size, false) == LK_OK)
			show("read", &refused[i]), wrong++;
	assert_int_equal(wrong, 0);
	assert_true(COUNT(valid) >= 93 && COUNT(broken) >= 188);
}

/* Nothing that is cut off is whole, be it deep or not. */
static void cut_and_deep(void **state) {
	(void)state;
	int wrong = 0;
	for (size_t i = 0; i < COUNT(valid); i++) {
		const struct document *one = &valid[i];
		size_t size = one->size;
		while (size > 0 && strchr(" \t\n\r", one->bytes[size - 1]) != NULL) size--;
		bool closes = size > 0 && strchr("]}\"", one->bytes[size - 1]) != NULL;
		for (size_t cut = 0; closes && cut < size; cut++)
			if (read_document(one->bytes, cut, false) == LK_OK)
				show("read though cut off", one), wrong++;
	}
	assert_int_equal(wrong, 0);
	static char deep[600000];
	for (int form = 0; form < 3; form++) {
		size_t size = 0;
		const char *unit = form == 1 ? "{\"\":" : "[";
		for (int i = 0; i < 100000; i++, size += strlen(unit))
			memcpy(deep + size, unit, strlen(unit));
		for (int i = 0; form == 2 && i < 100000; i++) deep[size++] = ']';
		assert_int_equal(read_document(deep, size, false), LK_ERR_INPUT);
	}
}

/* ---- inside a trace ---- */

#define EVENT(ts, more)                                                              \
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":" ts \
	",\"dur\":5,\"args\":{\"stream\":7,\"correlation\":1,\"device\":0" more "}}"

static const struct place {
	const char *name, *before, *after;
} places[] = {
	{"an argument",
     "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":"
     "1,"
     "\"dur\":5,\"args\":{\"stream\":7,\"correlation\":1,\"device\":0,\"more\":",
     "}}," EVENT("10", "") "]}"},
	{"before the events",
     "{\"more\":", ",\"traceEvents\":[" EVENT("1", "") "," EVENT("10", "") "]}"},
	{"between events", "{\"traceEvents\":[" EVENT("1", "") ",", "," EVENT("10", "") "]}"},
};

/* How a trace with the document in a place is read. */
static void read_trace(const struct place *place, const struct document *document, bool *read,
                       bool *strictly, uint32_t *events, uint64_t *damaged) {
	char path[64];
	lk_capture *capture;
	lk_error err = {0};
	FILE *file = fopen(new_file(path, ".json"), "w");
	fputs(place->before, file);
	fwrite(document->bytes, 1, document->size, file);
	fputs(place->after, file);
	fclose(file);
	*read = lk_trace_read(path, false, NULL, &capture, &(lk_works *){NULL}, &err) == LK_OK;
	*strictly = *read && capture->damages.count == 0 && lk_capture_check(capture, &err) == LK_OK;
	*events = *read ? capture->count : 0;
	*damaged = *read ? capture->damaged : 0;
	if (*read) lk_capture_free(capture);
	remove(path);
}

static void traces(void **state) {
	(void)state;
	int wrong = 0, lost = 0;
	for (size_t p = 0; p < COUNT(places); p++) {
		bool read, strictly;
		uint32_t events;
		uint64_t damaged;
		for (size_t i = 0; i < COUNT(valid); i++) {
			read_trace(&places[p], &valid[i], &read, &strictly, &events, &damaged);
			/* a value that is no event between events is damage */
			bool good = p == 2 ? read && events == 2 : strictly && events == 2 && damaged == 0;
			if (!good) show(places[p].name, &valid[i]), wrong++;
		}
		for (size_t i = 0; i < COUNT(broken); i++) {
			read_trace(&places[p], &broken[i], &read, &strictly, &events, &damaged);
			if (strictly) show(places[p].name, &broken[i]), wrong++;
			lost += read && events < 2;
			if (read && events < 2 && damaged == 0) show("lost in silence", &broken[i]), wrong++;
		}
	}
	print_message("%d broken traces read in part\n", lost);
	assert_int_equal(wrong, 0);
	assert_true(lost > 50);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents),
		cmocka_unit_test(cut_and_deep),
		cmocka_unit_test(traces),
	};
	return cmocka_run_group_tests_name("json_suite", tests, NULL, NULL);
}
