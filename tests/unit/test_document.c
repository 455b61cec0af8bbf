/* test_document.c: YAML and TOML as the values of JSON: a random tree written in each of the three
 * forms is the same tree; scalars, anchors, merge keys, tables and dotted keys; damaged texts are
 * errors with a place, or values, and never more; which form a text has, and that a script has
 * none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "io/document.h"
#include "io/stream.h"

enum { TEXT_BYTES = 1 << 16 };

/* The same tree in three forms; TOML has no null and its top is a table. */
struct forms {
	char *json, *yaml, *toml;
};

static uint32_t document_state = 7;

static int document_roll(int sides) {
	document_state = document_state * 1664525u + 1013904223u;
	return (int)((document_state >> 8) % (uint32_t)sides);
}

static void append(char *to, const char *text) {
	assert_true(strlen(to) + strlen(text) + 1 < TEXT_BYTES);
	strcat(to, text);
}

/* A scalar whose text is the same in all forms. */
static void append_scalar(char *out) {
	static const char *const scalars[] = {
		"1",           "-17",        "0",       "3.25",     "1e6",
		"true",        "false",      "\"\"",    "\"a b\"",  "\"#\"",
		"\"- x\"",     "\"null\"",   "\"1.5\"", "\"a: b\"", "\"\\\"q\\\"\"",
		"\"\\u00e9\"", "\"${a.b}\"", "\"true\""};
	append(out, scalars[document_roll((int)(sizeof scalars / sizeof *scalars))]);
}

/* A flow value: arrays and scalars are written alike in all three. */
static void append_flow(char *out, int depth) {
	if (depth == 0 || document_roll(3) > 0) {
		append_scalar(out);
		return;
	}
	append(out, "[");
	for (int i = 0, count = document_roll(4); i < count; i++) {
		if (i > 0) append(out, ", ");
		append_flow(out, depth - 1);
	}
	append(out, "]");
}

static void append_map(struct forms *forms, const char *path, int depth) {
	char line[256], inner[128];
	int count = 1 + document_roll(4), maps = depth > 0 ? document_roll(3) : 0;
	append(forms->json, "{");
	/* values before tables: what follows a table's header in TOML belongs to it */
	for (int i = 0; i < count; i++) {
		char value[1024] = "";
		append_flow(value, 2);
		snprintf(line, sizeof line, "%s\"k%d\": ", i > 0 ? ", " : "", i);
		append(forms->json, line);
		append(forms->json, value);
		for (const char *dot = path; *dot; dot++)
			if (*dot == '.') append(forms->yaml, "  ");
		if (*path) append(forms->yaml, "  ");
		snprintf(line, sizeof line, "k%d: ", i);
		append(forms->yaml, line);
		append(forms->yaml, value);
		append(forms->yaml, document_roll(4) == 0 ? " # a comment\n" : "\n");
		snprintf(line, sizeof line, "k%d = ", i);
		append(forms->toml, line);
		append(forms->toml, value);
		append(forms->toml, document_roll(4) == 0 ? " # a comment\n" : "\n");
	}
	for (int i = 0; i < maps; i++) {
		snprintf(line, sizeof line, ", \"m%d\": ", i);
		append(forms->json, line);
		for (const char *dot = path; *dot; dot++)
			if (*dot == '.') append(forms->yaml, "  ");
		if (*path) append(forms->yaml, "  ");
		snprintf(line, sizeof line, "m%d:\n", i);
		append(forms->yaml, line);
		snprintf(inner, sizeof inner, "%.100s%sm%d", path, *path ? "." : "", i);
		snprintf(line, sizeof line, "[%s]\n", inner);
		append(forms->toml, line);
		append_map(forms, inner, depth - 1);
	}
	append(forms->json, "}");
}

/* The order of members does not matter. */
static bool document_equal(const lk_value *a, const lk_value *b) {
	if (a->kind != b->kind) return false;
	if (a->kind == LK_JSON_NUMBER) return a->number == b->number;
	if (a->kind == LK_JSON_STRING) return strcmp(a->text, b->text) == 0;
	if (a->kind != LK_JSON_OBJECT && a->kind != LK_JSON_ARRAY) return true;
	if (a->count != b->count) return false;
	for (size_t i = 0; i < a->count; i++) {
		bool map = a->kind == LK_JSON_OBJECT;
		const lk_value *other = map ? lk_json_get(b, a->keys[i]) : &b->items[i];
		if (!other || !document_equal(&a->items[i], other)) return false;
	}
	return true;
}

static lk_value *read_json(lk_arena *arena, const char *text) {
	lk_stream *in;
	lk_value *out = NULL;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(text, strlen(text), "x.json", &in, &err), LK_OK);
	if (lk_json_document(arena, in, &out, &err) != LK_OK) fail_msg("JSON: %s", text);
	lk_stream_close(in);
	return out;
}

static lk_value *read_yaml(lk_arena *arena, const char *text) {
	lk_value *out = NULL;
	char message[900];
	lk_error err = {0};
	if (lk_yaml_document(arena, text, strlen(text), "x.yaml", &out, &err) != LK_OK)
		fail_msg("%s\n%s", text, lk_error_text(&err, message, sizeof message));
	return out;
}

static lk_value *read_toml(lk_arena *arena, const char *text) {
	lk_value *out = NULL;
	char message[900];
	lk_error err = {0};
	if (lk_toml_document(arena, text, strlen(text), "x.toml", &out, &err) != LK_OK)
		fail_msg("%s\n%s", text, lk_error_text(&err, message, sizeof message));
	return out;
}

/* Of a text that ends where its memory does. */
static void expect_form(const char *text, lk_document_form form) {
	size_t size = strlen(text);
	char *exact = malloc(size ? size : 1);
	assert_non_null(exact);
	memcpy(exact, text, size);
	lk_document_form seen = lk_document_form_of(exact, size);
	free(exact);
	if (seen != form) fail_msg("form %d in place of %d:\n%s", seen, form, text);
}

static void three_forms_agree(void **state) {
	(void)state;
	for (int i = 0; i < 500; i++) {
		lk_arena arena = LK_ARENA_INIT;
		struct forms forms = {calloc(1, TEXT_BYTES), calloc(1, TEXT_BYTES), calloc(1, TEXT_BYTES)};
		assert_true(forms.json && forms.yaml && forms.toml);
		append_map(&forms, "", 3);
		expect_form(forms.json, LK_DOCUMENT_JSON);
		if (*forms.yaml) expect_form(forms.yaml, LK_DOCUMENT_YAML);
		if (*forms.toml) expect_form(forms.toml, LK_DOCUMENT_TOML);
		lk_value *json = read_json(&arena, forms.json);
		if (!document_equal(json, read_yaml(&arena, forms.yaml)))
			fail_msg("YAML differs:\n%s\n%s", forms.yaml, forms.json);
		if (!document_equal(json, read_yaml(&arena, forms.json)))
			fail_msg("JSON as YAML differs:\n%s", forms.json);
		if (!document_equal(json, read_toml(&arena, forms.toml)))
			fail_msg("TOML differs:\n%s\n%s", forms.toml, forms.json);
		free(forms.json);
		free(forms.yaml);
		free(forms.toml);
		lk_arena_free(&arena);
	}
}

/* What configurations rely on, each against its JSON. */
static void yaml_as_configurations_have_it(void **state) {
	(void)state;
	static const struct {
		const char *yaml, *json;
	} cases[] = {
		{"lr: 2e-5\nempty:\non: ~\n", NULL},
		{"a: 1\nb: {c: 2, c: 3}\na: 4\na: 5\n", "{\"a\": 5, \"b\": {\"c\": 3}}"},
		{"a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n",
	     "{\"a\": {\"b\": 1, \"c\": 2}, \"d\": {\"b\": 1, \"c\": 3}}"},
		{"{a: 1, # why\n b: [1, 2,],\n}\n", "{\"a\": 1, \"b\": [1, 2]}"},
		{"run: |\n  one\n  two\nnext: >-\n  three\n  four\n",
	     "{\"run\": \"one\\ntwo\\n\", \"next\": \"three four\"}"},
		{"a: [x, 'y z', \"\\t\"]\n", "{\"a\": [\"x\", \"y z\", \"\\t\"]}"},
		{"a: 1\n---\nb: 2\n", "{\"a\": 1}"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_value *yaml = read_yaml(&arena, cases[i].yaml);
		if (!cases[i].json) {
			assert_int_equal(yaml->items[0].kind, LK_JSON_NUMBER);
			assert_true(yaml->items[0].number == 2e-5);
			assert_int_equal(yaml->items[1].kind, LK_JSON_NULL);
		} else if (!document_equal(yaml, read_json(&arena, cases[i].json)))
			fail_msg("differs:\n%s", cases[i].yaml);
		lk_arena_free(&arena);
	}
}

static void toml_as_configurations_have_it(void **state) {
	(void)state;
	static const struct {
		const char *toml, *json;
	} cases[] = {
		{"a.b = 1\na.c = 2\n", "{\"a\": {\"b\": 1, \"c\": 2}}"},
		{"[x]\nn = 1_000\nt = 'a\\b'\n[x.y]\nz = true\n",
	     "{\"x\": {\"n\": 1000, \"t\": \"a\\\\b\", \"y\": {\"z\": true}}}"},
		{"a = { b = 1, c = [ 2,\n 3, ] }\n", "{\"a\": {\"b\": 1, \"c\": [2, 3]}}"},
		{"[[p]]\na = 1\n[[p]]\na = 2\n", "{\"p\": [{\"a\": 1}, {\"a\": 2}]}"},
		{"s = \"\"\"\none\ntwo\"\"\"\n", "{\"s\": \"one\\ntwo\"}"},
		{"\"a b\" = 1e3\n", "{\"a b\": 1000}"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		if (!document_equal(read_toml(&arena, cases[i].toml), read_json(&arena, cases[i].json)))
			fail_msg("differs:\n%s", cases[i].toml);
		lk_arena_free(&arena);
	}
}

/* A refusal names the document and the line. */
static void errors_have_a_place(void **state) {
	(void)state;
	static const char *const yaml[] = {"a: 1\nb: [1, 2\n", "a: 1\n b: 2\n", "a: *nobody\n"};
	static const char *const toml[] = {"a = 1\nb =\n", "a = 1\na = 2\n", "[x\n", "a = \"b\n"};
	for (size_t i = 0; i < 7; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_value *out;
		lk_error err = {0};
		char message[900];
		const char *text = i < 3 ? yaml[i] : toml[i - 3];
		lk_status status = i < 3
		                       ? lk_yaml_document(&arena, text, strlen(text), "x.yaml", &out, &err)
		                       : lk_toml_document(&arena, text, strlen(text), "x.toml", &out, &err);
		assert_int_equal(status, LK_ERR_INPUT);
		lk_error_text(&err, message, sizeof message);
		if (!strstr(message, i < 3 ? "x.yaml:" : "x.toml:")) fail_msg("%s", message);
		lk_arena_free(&arena);
	}
}

/* What a text without a file's name is, by its first line. */
static void forms_by_the_first_line(void **state) {
	(void)state;
	static const char *const texts[][5] = {
		[LK_DOCUMENT_NONE] = {"torchrun train.py --x: 1", "#!/bin/bash\nkey: value\n",
	                          "# a comment\nGPUS=8\nmodel=x torchrun t.py\n",
	                          ": ${GPUS:=8}\ntorchrun t.py\n", "[[ -f x ]] && torchrun t.py\n"},
		[LK_DOCUMENT_JSON] = {"{\"a\": 1}", "{\n}", "\n { \"a b\" : [", "{}", "# x\n{\"a\":1}"},
		[LK_DOCUMENT_YAML] = {"---\nbase_model: x\n", "%YAML 1.2\n---\n# x\n\"a b\": 1\n",
	                          "\xEF\xBB\xBF"
	                          "a-b.c:\n  d: 1\n",
	                          "# x\n{\n # y\n \"a\": 1 }\n", "- a: 1\n"},
		[LK_DOCUMENT_TOML] = {"[table]\nkey = 1\n", "# x\n[[a.\"b c\"]] # y\n", "key = 1",
	                          "a.b = [\n", "'a b' = 1\n"},
	};
	static const char *const scripts[] = {
		"",
		"#",
		"---",
		"-",
		"a",
		"a:b",
		"{ torchrun t.py; }\n",
		"{",
		"[ -f x ] && torchrun t.py\n",
		"[",
		"[a",
		"[[",
		"[[a]",
		"\"",
		"export A=1\n",
		"A=1\n",
		"if true; then\n",
		"\"$PYTHON\" t.py\n",
		"./run.sh a: b\n",
	};
	for (int form = LK_DOCUMENT_NONE; form <= LK_DOCUMENT_TOML; form++)
		for (int i = 0; i < 5; i++) expect_form(texts[form][i], (lk_document_form)form);
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		expect_form(scripts[i], LK_DOCUMENT_NONE);
}

/* A byte changed, or the end cut off: an answer or a refusal. */
static void damaged_texts(void **state) {
	(void)state;
	static const char text[] = "[a]\nb = [1, 2]\nc = { d = \"e\" }\n\"f g\" = 1.5 # h\n[[i]]\nj = "
							   "'''k\nl'''\n- m: &n {o: [p]}\n  <<: *n\n";
	for (int i = 0; i < 4000; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char damaged[sizeof text];
		lk_value *out;
		lk_error err = {0};
		memcpy(damaged, text, sizeof text);
		size_t size = 1 + (size_t)document_roll((int)sizeof text - 2);
		damaged[document_roll((int)size)] = (char)(1 + document_roll(126));
		lk_status status = lk_toml_document(&arena, damaged, size, "x", &out, &err);
		assert_true(status == LK_OK || status == LK_ERR_INPUT);
		status = lk_yaml_document(&arena, damaged, size, "x", &out, &err);
		assert_true(status == LK_OK || status == LK_ERR_INPUT);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_forms_agree),
		cmocka_unit_test(yaml_as_configurations_have_it),
		cmocka_unit_test(toml_as_configurations_have_it),
		cmocka_unit_test(errors_have_a_place),
		cmocka_unit_test(forms_by_the_first_line),
		cmocka_unit_test(damaged_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
