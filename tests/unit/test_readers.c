/* test_readers.c: what Python's own readers find in random documents
 * (tests/unit/readers_oracle.py), ours find too: CSV of any dialect, gzip of several members with
 * every part of their headers, zstd of several frames with all their forms, zip, tar, YAML, TOML
 * and pickles. 100,000 of each with LOCKSTEP_LONG=1. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/vec.h"
#include "io/archive.h"
#include "io/csv.h"
#include "io/document.h"
#include "pickle/pickle.h"
#include "io/stream.h"
#include "rounds.h"
#include "scratch.h"

typedef LK_VEC(char) bytes;

static void add(bytes *out, const void *data, size_t size) {
	assert_true(lk_reserve(out, size + 1));
	if (size > 0) memcpy(out->at + out->count, data, size);
	out->count += size;
	out->at[out->count] = '\0';
}

static void add_text(bytes *out, const char *text) {
	add(out, text, strlen(text));
}

/* ---- what a reader of ours says of a document; false: it is refused ---- */

static const lk_value *sorted_value;

static int by_key(const void *a, const void *b) {
	return strcmp(sorted_value->keys[*(const size_t *)a], sorted_value->keys[*(const size_t *)b]);
}

/* The members of an object in the order of their keys. */
static size_t *order_of(const lk_value *value) {
	size_t *order = calloc(value->count + 1, sizeof *order);
	assert_non_null(order);
	for (size_t i = 0; i < value->count; i++) order[i] = i;
	sorted_value = value;
	if (value->kind == LK_JSON_OBJECT) qsort(order, value->count, sizeof *order, by_key);
	return order;
}

static void describe(const lk_value *value, bytes *out) {
	char number[40];
	static const char *const marks[] = {
		[LK_JSON_TRUE] = "t,", [LK_JSON_FALSE] = "f,", [LK_JSON_NULL] = "0,"};
	switch (value->kind) {
	case LK_JSON_OBJECT:
	case LK_JSON_ARRAY: {
		bool object = value->kind == LK_JSON_OBJECT;
		add_text(out, object ? "{," : "[,");
		size_t *order = order_of(value);
		for (size_t i = 0; i < value->count; i++) {
			size_t at = order[i];
			lk_value key = {.kind = LK_JSON_STRING, .text = object ? value->keys[at] : NULL};
			size_t from = out->count;
			if (object) describe(&key, out);
			if (object) out->at[from] = 'k';
			describe(&value->items[at], out);
		}
		free(order);
		add_text(out, object ? "}," : "],");
		break;
	}
	case LK_JSON_STRING:
		add_text(out, "s");
		for (const char *c = value->text; *c; c++) {
			snprintf(number, sizeof number, "%02x", (unsigned char)*c);
			add_text(out, number);
		}
		add_text(out, ",");
		break;
	case LK_JSON_NUMBER: {
		uint64_t bits;
		double plain = value->number + 0.0; /* -0 is 0 */
		memcpy(&bits, &plain, sizeof bits);
		snprintf(number, sizeof number, "n%016llx,",
		         isnan(value->number) ? 0x7ff8000000000000ull : (unsigned long long)bits);
		add_text(out, number);
		break;
	}
	default: add_text(out, marks[value->kind]); break;
	}
}

static bool read_values(const bytes *document, bool toml, bytes *out) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *root;
	lk_error err = {0};
	lk_status status = (toml ? lk_toml_document : lk_yaml_document)(
		&arena, document->at, document->count, "text", &root, &err);
	if (status == LK_OK) describe(root, out);
	lk_arena_free(&arena);
	return status == LK_OK;
}

static bool read_yaml(const bytes *document, bytes *out) {
	return read_values(document, false, out);
}

static bool read_toml(const bytes *document, bytes *out) {
	return read_values(document, true, out);
}

static bool read_pickle(const bytes *document, bytes *out) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *root;
	lk_error err = {0};
	lk_status status = lk_pickle_document(&arena, document->at, document->count, "p", &root, &err);
	if (status == LK_OK) describe(root, out);
	lk_arena_free(&arena);
	return status == LK_OK;
}

static bool read_csv(const bytes *document, bytes *out) {
	lk_stream *in;
	lk_csv *csv;
	lk_error err = {0};
	assert_int_equal(lk_stream_memory(document->at, document->count, "t.csv", &in, &err), LK_OK);
	bool more = lk_csv_open(in, &csv, &err) == LK_OK, good = more;
	for (int i = 0; more && i < lk_csv_columns(csv); i++) {
		if (i > 0) add_text(out, "\x1f");
		add_text(out, lk_csv_name(csv, i));
	}
	while (more && (good = lk_csv_next(csv, &more, &err) == LK_OK) && more) {
		for (int i = 0; i < lk_csv_columns(csv); i++) {
			add_text(out, i > 0 ? "\x1f" : "\x1e");
			add_text(out, lk_csv_field(csv, i));
		}
	}
	if (good) lk_csv_close(csv);
	lk_stream_close(in);
	return good;
}

static bool read_stream(lk_stream *in, bytes *out) {
	static char piece[70000];
	size_t got = 1, most = 1 + out->count % 7 + 977 * (out->count % 3) + 60000 * (out->count % 2);
	lk_error err = {0};
	while (got > 0) {
		if (lk_stream_read(in, piece, most, &got, &err) != LK_OK) return false;
		add(out, piece, got);
	}
	return true;
}

/* The document as a file, in which gzip and zstd are found by their first bytes. */
static bool read_packed(const bytes *document, bytes *out) {
	char path[64];
	lk_stream *in;
	lk_error err = {0};
	write_bytes(new_file(path, ""), document->at, document->count);
	bool good = lk_stream_open(path, &in, &err) == LK_OK;
	if (good) {
		good = read_stream(in, out);
		lk_stream_close(in);
	}
	remove(path);
	return good;
}

struct members {
	const char *path;
	bytes *out;
};

static lk_status read_member(void *context, const char *name, lk_error *err) {
	const struct members *members = context;
	char path[600];
	lk_stream *in;
	if (members->out->count > 0) add_text(members->out, "\x1e");
	add_text(members->out, name);
	add_text(members->out, "\x1f");
	snprintf(path, sizeof path, "%s!%s", members->path, name);
	LK_TRY(lk_archive_open(path, &in, err));
	bool good = read_stream(in, members->out);
	lk_stream_close(in);
	return good ? LK_OK : LK_ERR_INPUT;
}

static bool read_archive(const bytes *document, bytes *out) {
	char path[64];
	lk_error err = {0};
	write_bytes(new_file(path, ""), document->at, document->count);
	struct members members = {path, out};
	bool good = lk_archive_is(path) && lk_archive_list(path, read_member, &members, &err) == LK_OK;
	remove(path);
	return good;
}

/* ---- the comparison ---- */

static int digit(char c) {
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static const char *unhex(const char *at, bytes *out) {
	out->count = 0;
	for (; at[0] > ' ' && at[1] > ' '; at += 2) {
		char byte = (char)(digit(at[0]) * 16 + digit(at[1]));
		add(out, &byte, 1);
	}
	add(out, "", 0);
	return at;
}

static void compare(const char *kind, int usual, bool (*read)(const bytes *document, bytes *out)) {
	char path[64], command[300];
	if (judged_elsewhere() || system("python3 -c 'import tomllib' 2>/dev/null") != 0) skip();
	if (strcmp(kind, "yaml") == 0 && system("python3 -c 'import yaml' 2>/dev/null") != 0) {
		print_message("python3-yaml is not here\n");
		skip();
	}
	uint64_t seed = is_asked_for("LOCKSTEP_SEED") ? strtoull(getenv("LOCKSTEP_SEED"), NULL, 10) : 1;
	snprintf(command, sizeof command, "python3 tests/unit/readers_oracle.py %s %d %d %s", kind,
	         rounds(usual, 100000), (int)seed, new_file(path, ""));
	assert_int_equal(system(command), 0);
	bytes document = {0}, theirs = {0}, ours = {0};
	char *line = NULL;
	size_t room = 0;
	int count = 0, refused = 0, wrong = 0;
	FILE *file = fopen(path, "r");
	while (getline(&line, &room, file) > 0) {
		const char *inside = unhex(line, &document) + 1;
		bool error = strncmp(inside, "error", 5) == 0;
		ours.count = 0;
		add(&ours, "", 0);
		bool good = read(&document, &ours);
		if (!error) unhex(inside, &theirs);
		count++;
		refused += error;
		bool same = error ? !good
		                  : good && ours.count == theirs.count &&
		                        memcmp(ours.at, theirs.at, ours.count) == 0;
		if (same || wrong++ >= 15) continue;
		print_error("%s: %.*s\n%.200s...\npython: %.700s\nours:   %.700s\n", kind,
		            (int)(document.count > 700 ? 700 : document.count), document.at, line,
		            error ? "error" : theirs.at, good ? ours.at : "error");
	}
	fclose(file);
	remove(path);
	free(line);
	lk_vec_free(&document);
	lk_vec_free(&theirs);
	lk_vec_free(&ours);
	print_message("%s: %d documents, %d of them refused, %d wrong\n", kind, count, refused, wrong);
	assert_int_equal(wrong, 0);
	assert_int_equal(count, rounds(usual, 100000));
}

static void csv(void **state) {
	(void)state;
	compare("csv", 400, read_csv);
}

static void gzip(void **state) {
	(void)state;
	compare("gzip", 300, read_packed);
}

static void zstd(void **state) {
	(void)state;
	compare("zstd", 200, read_packed);
}

static void zip(void **state) {
	(void)state;
	compare("zip", 150, read_archive);
}

static void tar(void **state) {
	(void)state;
	compare("tar", 150, read_archive);
}

static void yaml(void **state) {
	(void)state;
	compare("yaml", 500, read_yaml);
}

static void toml(void **state) {
	(void)state;
	compare("toml", 500, read_toml);
}

static void pickles(void **state) {
	(void)state;
	compare("pickle", 300, read_pickle);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv),  cmocka_unit_test(gzip),    cmocka_unit_test(zstd),
		cmocka_unit_test(zip),  cmocka_unit_test(tar),     cmocka_unit_test(yaml),
		cmocka_unit_test(toml), cmocka_unit_test(pickles),
	};
	return cmocka_run_group_tests_name("readers", tests, NULL, NULL);
}
