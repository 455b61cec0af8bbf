/* test_table.c: the table object. Text and Markdown against written-out lines, CSV, JSON, JSON
 * lines and SQLite against other readers: python's where python3 is there, our own CSV and JSON
 * readers and SQLite in any case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/csv.h"
#include "io/json.h"
#include "lockstep/catalogue.h"
#include "base/stats.h"
#include "view/table/table.h"
#include "scratch.h"

static const char *in_folder(const char *name) {
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", scratch, name);
	return path;
}

static char *written(const lk_table *table, lk_format format, bool colour) {
	char *text = NULL;
	size_t size = 0;
	lk_error err = {0};
	FILE *file = open_memstream(&text, &size);
	assert_non_null(file);
	if (lk_table_write(table, format, colour, file, &err) != LK_OK) fail_msg("%s", err.what);
	fclose(file);
	return text;
}

static void expect_written(const lk_table *table, lk_format format, bool colour,
                           const char *wanted) {
	char *text = written(table, format, colour);
	assert_string_equal(text, wanted);
	free(text);
}

static lk_table *small_table(void) {
	static const lk_column columns[] = {
		{"name", "model", false, false},
		{"step_time_s", "step", true, false},
		{"seed", "seed", true, true},
		{"fits", "fits", false, false},
	};
	lk_table *table = lk_table_new("runs", columns, 4);
	assert_non_null(table);
	lk_table_row(table);
	lk_table_text(table, "llama");
	lk_table_number(table, 1.53, "1.53 s");
	lk_table_number(table, 7, NULL);
	lk_table_bool(table, true);
	lk_table_row(table);
	lk_table_text(table, "7 B");
	lk_table_number(table, 0.000812, "812 us");
	lk_table_row(table);
	lk_table_text(table, NULL);
	lk_table_number(table, NAN, "no number");
	lk_table_number(table, 1e300, NULL);
	lk_table_bool(table, false);
	assert_int_equal(lk_table_rows(table), 3);
	return table;
}

static void test_forms(void **state) {
	(void)state;
	lk_table *table = small_table();
	expect_written(table, LK_FORMAT_TEXT, false,
	               "model    step  fits\n"
	               "-----  ------  ----\n"
	               "llama  1.53 s  yes\n"
	               "7 B    812 us\n"
	               "               no\n");
	expect_written(table, LK_FORMAT_TEXT, true,
	               "\x1b[1mmodel    step  fits\n\x1b[0m"
	               "-----  ------  ----\n"
	               "llama  1.53 s  yes\n"
	               "7 B    812 us\n"
	               "               no\n");
	expect_written(table, LK_FORMAT_MD, false,
	               "| model | step | fits |\n"
	               "|---|---:|---|\n"
	               "| llama | 1.53 s | yes |\n"
	               "| 7 B | 812 us |  |\n"
	               "|  |  | no |\n");
	expect_written(table, LK_FORMAT_CSV, false,
	               "name,step_time_s,seed,fits\n"
	               "llama,1.53,7,true\n"
	               "7 B,0.000812,,\n"
	               ",,1e+300,false\n");
	expect_written(table, LK_FORMAT_JSONL, false,
	               "{\"name\":\"llama\",\"step_time_s\":1.53,\"seed\":7,\"fits\":true}\n"
	               "{\"name\":\"7 B\",\"step_time_s\":0.000812,\"seed\":null,\"fits\":null}\n"
	               "{\"name\":null,\"step_time_s\":null,\"seed\":1e+300,\"fits\":false}\n");
	lk_table_free(table);
}

static void test_no_rows_no_columns(void **state) {
	(void)state;
	lk_table *table = lk_table_new("none", (lk_column[]){{"a_s", "a", false, false}}, 1);
	expect_written(table, LK_FORMAT_TEXT, false, "a\n-\n");
	expect_written(table, LK_FORMAT_MD, false, "| a |\n|---|\n");
	expect_written(table, LK_FORMAT_CSV, false, "a_s\n");
	char empty[256];
	snprintf(empty, sizeof empty,
	         "{\n  \"schema\": \"lockstep/table/1\",\n  \"version\": \"%s\",\n  \"data_date\": "
	         "\"%s\",\n  \"table\": \"none\",\n  \"rows\": []\n}\n",
	         lk_version(), lk_data_date());
	expect_written(table, LK_FORMAT_JSON, false, empty);
	expect_written(table, LK_FORMAT_JSONL, false, "");
	lk_table_free(table);
	table = lk_table_new("nothing", NULL, 0);
	lk_table_row(table);
	for (lk_format f = LK_FORMAT_TEXT; f < LK_FORMAT_JSON; f++) expect_written(table, f, false, "");
	lk_table *hidden = lk_table_new("hidden", (lk_column[]){{"a", "a", false, true}}, 1);
	for (lk_format f = LK_FORMAT_TEXT; f < LK_FORMAT_CSV; f++) expect_written(hidden, f, false, "");
	expect_written(hidden, LK_FORMAT_CSV, false, "a\n");
	lk_table_free(hidden);
	lk_error err = {0};
	assert_int_equal(lk_table_sqlite(table, in_folder("none.sqlite"), &err), LK_ERR_INTERNAL);
	lk_table_free(table);
	lk_table_free(NULL);
}

/* What a terminal shows: wide characters take two cells, combining marks none, control characters
 * are visible. */
static void test_width(void **state) {
	(void)state;
	lk_table *table =
		lk_table_new("w", (lk_column[]){{"a", "a", false, false}, {"b", "b", true, false}}, 2);
	static const char *const texts[] = {
		"ab",       "\xe6\xbc\xa2\xe5\xad\x97", "e\xcc\x81", "\xf0\x9f\x9a\x80", "\x1b[2J", "\xff",
		"\xc2\x9b", "d\xc3\xa9j\xc3\xa0",
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_table_row(table);
		lk_table_text(table, texts[i]);
		lk_table_text(table, "x");
	}
	expect_written(table, LK_FORMAT_TEXT, false,
	               "a         b\n"
	               "--------  -\n"
	               "ab        x\n"
	               "\xe6\xbc\xa2\xe5\xad\x97      x\n"
	               "e\xcc\x81         x\n"
	               "\xf0\x9f\x9a\x80        x\n"
	               "\\x1b[2J   x\n"
	               "\\xff      x\n"
	               "\\xc2\\x9b  x\n"
	               "d\xc3\xa9j\xc3\xa0      x\n");
	lk_table_free(table);
}

static void test_markup(void **state) {
	(void)state;
	lk_table *table = lk_table_new("m", (lk_column[]){{"k", "a|b", false, false}}, 1);
	lk_table_row(table);
	lk_table_text(table, "\\| <b>`x`</b> [l](u)\n*i*");
	expect_written(table, LK_FORMAT_MD, false,
	               "| a\\|b |\n|---|\n| \\\\\\| \\<b>\\`x\\`\\</b> \\[l\\](u)\\\\x0a\\*i\\* |\n");
	lk_table_free(table);
}

/* A lone empty field, a comment sign and a formula, which readers would take for something else. */
static void test_csv_traps(void **state) {
	(void)state;
	static const char *const texts[] = {"",
	                                    "#1",
	                                    "\xef\xbb\xbf#",
	                                    "=1+1",
	                                    "@x",
	                                    "-3",
	                                    "a\nb",
	                                    "\r",
	                                    " a",
	                                    "a ",
	                                    "\"",
	                                    "\x1b[31m",
	                                    "\xc2\x9b"
	                                    "1m",
	                                    "\x9b",
	                                    "\xe2\x80\xae"
	                                    "a\xc3\xa9"};
	lk_table *table = lk_table_new("c", (lk_column[]){{"k", NULL, false, false}}, 1);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		lk_table_row(table);
		lk_table_text(table, texts[i]);
	}
	lk_table_row(table);
	lk_table_number(table, -3, NULL);
	expect_written(table, LK_FORMAT_CSV, false,
	               "k\n\"\"\n\"#1\"\n\"\xef\xbb\xbf#\"\n'=1+1\n'@x\n'-3\n\"a\nb\"\n\"'\\x0d\"\n\" "
	               "a\"\n\"a \"\n\"\"\"\"\n\\x1b[31m\n\\xc2\\x9b1m\n\\x9b\n"
	               "\\xe2\\x80\\xaea\xc3\xa9\n-3\n");
	lk_table_free(table);
}

static void test_failures(void **state) {
	(void)state;
	lk_error err = {0};
	lk_table *table = small_table();
	FILE *full = fopen("/dev/full", "w");
	for (lk_format f = LK_FORMAT_TEXT; full && f < LK_FORMAT_SQLITE; f++) {
		assert_int_equal(lk_table_write(table, f, false, full, &err), LK_ERR_IO);
		clearerr(full);
	}
	if (full) fclose(full);
	assert_int_equal(lk_table_write(table, LK_FORMAT_SQLITE, false, stdout, &err), LK_ERR_INPUT);
	assert_string_not_equal(err.hint, "");
	static const char *const streams[] = {"", "-", ":memory:"};
	for (int i = 0; i < 3; i++)
		assert_int_equal(lk_table_sqlite(table, streams[i], &err), LK_ERR_INPUT);
	assert_int_equal(lk_table_sqlite(table, "/nowhere/at/all.sqlite", &err), LK_ERR_IO);
	for (int i = 0; i < 5; i++) lk_table_bool(table, true);
	assert_int_equal(lk_table_write(table, LK_FORMAT_CSV, false, stdout, &err), LK_ERR_INTERNAL);
	assert_int_equal(lk_table_sqlite(table, in_folder("x.sqlite"), &err), LK_ERR_INTERNAL);
	lk_table_free(table);
	table = lk_table_new("norow", (lk_column[]){{"k", "k", false, false}}, 1);
	lk_table_text(table, "a cell before the first row");
	assert_int_equal(lk_table_write(table, LK_FORMAT_CSV, false, stdout, &err), LK_ERR_INTERNAL);
	lk_table_free(table);
}

/* ---- SQLite ---- */

static int64_t ask(sqlite3 *db, const char *sql) {
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	int64_t value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

static void test_sqlite_replaces(void **state) {
	(void)state;
	static const lk_column columns[] = {
		{"a\"); DROP TABLE keep; --", "a", false, false},
		{"select", "b", false, false},
	};
	lk_error err = {0};
	char path[256];
	sqlite3 *db;
	snprintf(path, sizeof path, "%s/file:db?mode=memory.sqlite", scratch);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
	                 SQLITE_OK);
	sqlite3_exec(db, "CREATE TABLE keep (x); INSERT INTO keep VALUES (7)", NULL, NULL, NULL);
	for (int rows = 3; rows >= 0; rows--) {
		lk_table *table = lk_table_new("t\"; DROP TABLE keep; --", columns, 2);
		for (int i = 0; i < rows; i++) {
			lk_table_row(table);
			lk_table_text(table, "'); DROP TABLE keep; --");
			lk_table_number(table, i, NULL);
		}
		if (lk_table_sqlite(table, path, &err) != LK_OK) fail_msg("%s", err.what);
		lk_table_free(table);
		assert_int_equal(ask(db, "SELECT count(*) FROM \"t\"\"; DROP TABLE keep; --\""), rows);
		assert_int_equal(ask(db, "SELECT x FROM keep"), 7);
	}
	sqlite3_close(db);
}

/* What cannot be written leaves the database as it was. */
static void test_sqlite_keeps(void **state) {
	(void)state;
	lk_error err = {0};
	char path[256];
	snprintf(path, sizeof path, "%s", in_folder("kept.sqlite"));
	lk_table *good = lk_table_new("t", (lk_column[]){{"k", "k", false, false}}, 1);
	lk_table_row(good);
	lk_table_text(good, "old");
	assert_int_equal(lk_table_sqlite(good, path, &err), LK_OK);
	lk_table *twice =
		lk_table_new("t", (lk_column[]){{"k", "k", false, false}, {"K", "K", false, false}}, 2);
	assert_int_equal(lk_table_sqlite(twice, path, &err), LK_ERR_INPUT);
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(ask(db, "SELECT k = 'old' FROM t"), 1);
	sqlite3_close(db);
	static const char text[] =
		"This is a text that is long enough to be looked at, and it is no database.";
	write_text(path, text);
	assert_int_equal(lk_table_sqlite(good, path, &err), LK_ERR_INPUT);
	assert_string_not_equal(err.hint, "");
	char read[128] = "";
	FILE *file = fopen(path, "r");
	assert_int_equal(fread(read, 1, sizeof read - 1, file), sizeof text - 1);
	fclose(file);
	assert_string_equal(read, text);
	lk_table_free(good);
	lk_table_free(twice);
}

/* ---- random tables ---- */

struct draw {
	uint64_t seed, counter;
};

static uint64_t next(struct draw *draw, uint64_t below) {
	return lk_hash64(draw->seed * 1000003 + draw->counter++) % below;
}

static void random_text(struct draw *draw, char *out, size_t most) {
	static const char *const parts[] = {
		"a",
		"B",
		"7",
		" ",
		",",
		"\"",
		"'",
		"\n",
		"\r",
		"\t",
		"=",
		"+",
		"-",
		"@",
		"#",
		"|",
		"\\",
		"\x1b[31m",
		"\xc3\xa9",
		"\xe6\xbc\xa2",
		"\xf0\x9f\x9a\x80",
		"\xff",
		"\xc3",
		"\xed\xa0\x80",
		"\xe2\x82",
		"\x7f",
		"null",
		";--",
		"%s",
		"\xef\xbb\xbf",
	};
	size_t used = 0;
	for (uint64_t n = next(draw, 6); n; n--) {
		const char *part = parts[next(draw, sizeof parts / sizeof *parts)];
		if (used + strlen(part) >= most) break;
		memcpy(out + used, part, strlen(part));
		used += strlen(part);
	}
	out[used] = '\0';
}

static double random_number(struct draw *draw) {
	static const double specials[] = {
		0, -1, 1e-308, 5e-324, 1.7976931348623157e308, INFINITY, -INFINITY, 0.1, 9007199254740993.0,
	};
	if (next(draw, 3) == 0) return specials[next(draw, sizeof specials / sizeof *specials)];
	uint64_t bits = next(draw, UINT64_MAX);
	double number;
	memcpy(&number, &bits, sizeof number);
	return next(draw, 2) ? (double)(int64_t)next(draw, 1000000) : number;
}

static void put_hex(FILE *truth, const char *text) {
	for (; *text; text++) fprintf(truth, "%02x", (unsigned char)*text);
}

static void random_cell(struct draw *draw, lk_table *table, FILE *truth) {
	char text[64];
	uint64_t kind = next(draw, 4);
	if (kind == 0) {
		lk_table_text(table, NULL);
		fputc('E', truth);
	} else if (kind == 1) {
		random_text(draw, text, sizeof text);
		lk_table_text(table, text);
		fputc('T', truth);
		put_hex(truth, text);
	} else if (kind == 2) {
		double number = random_number(draw);
		lk_table_number(table, number, next(draw, 2) ? "shown" : NULL);
		if (isnan(number)) fputc('E', truth);
		else if (isinf(number)) fputs(number > 0 ? "Ninf" : "N-inf", truth);
		else fprintf(truth, "N%a", number);
	} else {
		bool value = next(draw, 2);
		lk_table_bool(table, value);
		fprintf(truth, "B%d", value);
	}
}

/* A table and, in `truth`, what is in it, as table_oracle.py reads it. Keys differ for SQLite,
 * which ignores case. */
static lk_table *random_table(struct draw *draw, FILE *truth) {
	char keys[6][64], name[64];
	lk_column columns[6];
	int count = 1 + (int)next(draw, 6);
	name[0] = 't';
	random_text(draw, name + 1, sizeof name - 1);
	put_hex(truth, name);
	for (int i = 0; i < count; i++) {
		random_text(draw, keys[i], 50);
		strcat(keys[i], (char[]){(char)('0' + i), '\0'});
		columns[i] = (lk_column){keys[i], "title", next(draw, 2), next(draw, 4) == 0};
		fputc(' ', truth);
		put_hex(truth, keys[i]);
	}
	lk_table *table = lk_table_new(name, columns, count);
	assert_non_null(table);
	for (uint64_t rows = next(draw, 12); rows; rows--) {
		lk_table_row(table);
		for (int i = 0; i < count; i++) {
			fputc(i ? ' ' : '\n', truth);
			random_cell(draw, table, truth);
		}
	}
	fputc('\n', truth);
	return table;
}

static void write_file(const lk_table *table, int number, const char *ending, lk_format format) {
	char path[256];
	lk_error err = {0};
	snprintf(path, sizeof path, "%s/%d.%s", scratch, number, ending);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	if (lk_table_write(table, format, false, file, &err) != LK_OK)
		fail_msg("%s: %s", path, err.what);
	fclose(file);
}

enum { TABLES = 150 };

static void test_python_reads(void **state) {
	(void)state;
	bool python = system("python3 -c 'import csv, json, sqlite3' 2>/dev/null") == 0;
	if (!python || access("tests/unit/table_oracle.py", R_OK) != 0) {
		print_message(
			"python3 with csv, json and sqlite3, or tests/unit/table_oracle.py, is not here\n");
		skip();
	}
	for (int i = 0; i < TABLES; i++) {
		char path[256], command[400];
		lk_error err = {0};
		snprintf(path, sizeof path, "%s/%d.truth", scratch, i);
		FILE *truth = fopen(path, "w");
		assert_non_null(truth);
		lk_table *table = random_table(&(struct draw){(uint64_t)i, 0}, truth);
		fclose(truth);
		write_file(table, i, "csv", LK_FORMAT_CSV);
		write_file(table, i, "json", LK_FORMAT_JSON);
		write_file(table, i, "jsonl", LK_FORMAT_JSONL);
		snprintf(path, sizeof path, "%s/%d.sqlite", scratch, i);
		if (lk_table_sqlite(table, path, &err) != LK_OK) fail_msg("%s: %s", path, err.what);
		lk_table_free(table);
		if (i < TABLES - 1) continue;
		snprintf(command, sizeof command, "python3 tests/unit/table_oracle.py %s %d", scratch,
		         TABLES);
		assert_int_equal(system(command), 0);
	}
}

static void check_csv_again(const lk_table *table, int columns) {
	lk_error err = {0};
	lk_stream *in;
	lk_csv *csv;
	bool more;
	int rows = 0;
	char *text = written(table, LK_FORMAT_CSV, false);
	assert_int_equal(lk_stream_memory(text, strlen(text), "table", &in, &err), LK_OK);
	if (lk_csv_open(in, &csv, &err) != LK_OK) fail_msg("%s: %s", err.what, text);
	assert_int_equal(lk_csv_columns(csv), columns);
	for (; lk_csv_next(csv, &more, &err) == LK_OK && more; rows++) continue;
	if (more) fail_msg("row %d: %s", rows, err.what);
	if (rows != lk_table_rows(table))
		fail_msg("%d rows of %d were read of:\n%s", rows, lk_table_rows(table), text);
	lk_csv_close(csv);
	lk_stream_close(in);
	free(text);
}

static void check_json_again(const lk_table *table, int columns) {
	lk_error err = {0};
	lk_stream *in;
	lk_value *value;
	lk_arena arena = LK_ARENA_INIT;
	char *text = written(table, LK_FORMAT_JSON, false);
	assert_int_equal(lk_stream_memory(text, strlen(text), "table", &in, &err), LK_OK);
	if (lk_json_document(&arena, in, &value, &err) != LK_OK) fail_msg("%s: %s", err.what, text);
	assert_string_equal(value->keys[0], "schema");
	assert_string_equal(value->keys[1], "version");
	const lk_value *rows = lk_json_get(value, "rows");
	assert_int_equal(rows->count, lk_table_rows(table));
	for (size_t i = 0; i < rows->count; i++) assert_int_equal(rows->items[i].count, columns);
	lk_stream_close(in);
	lk_arena_free(&arena);
	free(text);
}

/* Lines of text have no control characters, one line per row and no blanks at their ends; Markdown
 * has as many bars. */
static void check_lines(const lk_table *table) {
	char *text = written(table, LK_FORMAT_TEXT, false), *md = written(table, LK_FORMAT_MD, false);
	int lines = 0, bars = -1;
	for (char *c = text; *c; c++) {
		assert_true(*c == '\n' || ((unsigned char)*c >= 0x20 && *c != 0x7f));
		if (*c == '\n') lines++;
		if (*c == '\n' && c > text) assert_true(c[-1] != ' ');
	}
	assert_int_equal(lines, lk_table_rows(table) + 2);
	for (char *line = strtok(md, "\n"); line; line = strtok(NULL, "\n")) {
		int found = 0;
		for (char *c = line; *c; c++) {
			if (*c == '\\' && c[1]) c++;
			else found += *c == '|';
		}
		if (bars < 0) bars = found;
		assert_int_equal(found, bars);
	}
	free(text);
	free(md);
}

static void test_own_readers(void **state) {
	(void)state;
	for (int i = 0; i < 2 * TABLES; i++) {
		char *truth_text = NULL;
		size_t size;
		FILE *truth = open_memstream(&truth_text, &size);
		lk_table *table = random_table(&(struct draw){(uint64_t)i + 1000, 0}, truth);
		fclose(truth);
		int columns = 0; /* a blank stands before each key */
		for (char *c = truth_text; *c != '\n'; c++) columns += *c == ' ';
		check_csv_again(table, columns);
		check_json_again(table, columns);
		lk_table_free(table);
		free(truth_text);
	}
}

static void test_random_lines(void **state) {
	(void)state;
	for (int i = 0; i < TABLES; i++) {
		struct draw d = {(uint64_t)i + 5000, 0};
		lk_table *table = lk_table_new(
			"x", (lk_column[]){{"a", "first", false, false}, {"b", "second|x", true, false}}, 2);
		for (uint64_t rows = next(&d, 9); rows; rows--) {
			char text[64];
			lk_table_row(table);
			for (int k = 0; k < 2; k++) {
				text[0] = 'x'; /* a text of blanks alone would end in them */
				random_text(&d, text + 1, 40);
				strcat(text, "y");
				lk_table_text(table, text);
			}
		}
		check_lines(table);
		lk_table_free(table);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),           cmocka_unit_test(test_no_rows_no_columns),
		cmocka_unit_test(test_width),           cmocka_unit_test(test_markup),
		cmocka_unit_test(test_csv_traps),       cmocka_unit_test(test_failures),
		cmocka_unit_test(test_sqlite_replaces), cmocka_unit_test(test_sqlite_keeps),
		cmocka_unit_test(test_own_readers),     cmocka_unit_test(test_random_lines),
		cmocka_unit_test(test_python_reads),
	};
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
