/* fuzz_nsys.c: any bytes after SQLite's magic are a database of Nsight Systems or AMD that can be
 * read, or an error. Any other bytes are the tables of a database that is whole: a line "TABLE
 * COLUMN COLUMN ..." after an empty one, then a line for each row, its values divided by '|'. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/sqlite.h"
#include "trace/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_COLUMNS = 16, MOST_LINES = 200 };

static int run(sqlite3 *db, sqlite3_str *sql) {
	char *text = lk_sqlite.str_finish(sql);
	int code = text ? lk_sqlite.exec(db, text, NULL, NULL, NULL) : SQLITE_NOMEM;
	lk_sqlite.free(text);
	return code;
}

/* The name of a table, with its columns. */
static int make_table(sqlite3 *db, const char *name, char *columns) {
	sqlite3_str *sql = lk_sqlite.str_new(db);
	int count = 0;
	lk_sqlite.str_appendf(sql, "CREATE TABLE \"%w\"(", name);
	for (char *word; (word = strsep(&columns, " ")) && count < MOST_COLUMNS; count++)
		lk_sqlite.str_appendf(sql, "%s\"%w\"", count ? "," : "", word);
	lk_sqlite.str_appendall(sql, ")");
	return run(db, sql) == SQLITE_OK ? count : 0;
}

/* As many values as there are columns: whole numbers, NULL where there is nothing, or texts. */
static void put_row(sqlite3 *db, const char *table, char *values, int columns) {
	sqlite3_str *sql = lk_sqlite.str_new(db);
	lk_sqlite.str_appendf(sql, "INSERT INTO \"%w\" VALUES(", table);
	for (int c = 0; c < columns; c++) {
		const char *value = values ? strsep(&values, "|") : "";
		const char *digits = value + (*value == '-');
		bool number = *digits && digits[strspn(digits, "0123456789")] == '\0';
		if (c) lk_sqlite.str_appendall(sql, ",");
		if (!*value) lk_sqlite.str_appendall(sql, "NULL");
		else lk_sqlite.str_appendf(sql, number ? "%s" : "%Q", value);
	}
	lk_sqlite.str_appendall(sql, ")");
	run(db, sql);
}

static void make_database(const char *path, const uint8_t *data, size_t size) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	sqlite3 *db;
	if (lk_sqlite_load(&err) != LK_OK ||
	    lk_sqlite.open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
		abort();
	lk_sqlite.exec(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN", NULL, NULL, NULL);
	char *text = lk_arena_strndup(&arena, (const char *)data, size), *table = NULL;
	int columns = 0;
	for (int i = 0; i < MOST_LINES && text; i++) {
		char *line = strsep(&text, "\n");
		if (!*line) table = NULL;
		else if (table) put_row(db, table, line, columns);
		else {
			table = strsep(&line, " ");
			columns = line ? make_table(db, table, line) : 0;
		}
	}
	lk_sqlite.exec(db, "COMMIT", NULL, NULL, NULL);
	lk_sqlite.close(db);
	lk_arena_free(&arena);
}

static void put_bytes(const char *path, const uint8_t *data, size_t size) {
	FILE *file = fopen(path, "w");
	if (!file) abort();
	fwrite(data, 1, size, file);
	fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	lk_read_limits limits = {.events = 10000, .names = 10000, .shapes = true};
	lk_error err = {0};
	char path[64];
	snprintf(path, sizeof path, "/dev/shm/fuzz_nsys.%d", (int)getpid());
	remove(path);
	if (size >= 16 && memcmp(data, "SQLite format 3", 16) == 0) put_bytes(path, data, size);
	else make_database(path, data, size);
	lk_capture *capture = lk_capture_new(path, "");
	if (!capture) abort();
	bool amd = false;
	lk_status status = lk_rocpd_found(path, &amd, &err);
	if (status == LK_OK)
		status = (amd ? lk_rocpd_read : lk_nsys_read)(path, &limits, capture, &err);
	if (status == LK_OK) status = lk_capture_finish(capture, &err);
	if (status != LK_OK && err.status == LK_OK) abort();
	lk_capture_free(capture);
	remove(path);
	return 0;
}
