/* table_sqlite.c: tables as tables of an SQLite database. One transaction drops the old ones, makes
 * the new ones and fills them: either all of it is there or nothing has changed. Names are quoted
 * as SQL identifiers, values are bound. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/text.h"
#include "io/sqlite.h"
#include "view/table/table_internal.h"

/* A copy with invalid UTF-8 replaced by U+FFFD, or `text` itself where it is valid; NULL when
 * out of memory. */
static const char *utf8(lk_arena *arena, const char *text) {
	size_t left = strlen(text), good = 0, length;
	while (good < left && (length = lk_utf8_length(text + good, left - good))) good += length;
	if (good == left) return text;
	char *copy = lk_arena_array(arena, left + 1, 3), *to = copy;
	if (!copy) return NULL;
	while (left) {
		length = lk_utf8_length(text, left);
		if (length) {
			memcpy(to, text, length);
			to += length;
		} else {
			memcpy(to, "\xef\xbf\xbd", 3);
			to += 3;
			length = 1;
		}
		text += length;
		left -= length;
	}
	*to = '\0';
	return copy;
}

/* The declared type that leaves every value of the column as it is; "" where kinds are mixed. */
static const char *sqlite_type_of(const lk_table *table, int column) {
	int kinds[4] = {0};
	for (int row = 0; row < table->rows; row++) kinds[lk_table_cell(table, row, column)->kind]++;
	if (!!kinds[LK_CELL_TEXT] + !!kinds[LK_CELL_NUMBER] + !!kinds[LK_CELL_BOOL] != 1) return "";
	if (kinds[LK_CELL_TEXT]) return " TEXT";
	if (kinds[LK_CELL_NUMBER]) return " REAL";
	return " INTEGER";
}

static lk_status sqlite_refused(sqlite3 *db, const char *path, lk_error *err) {
	int code = db ? lk_sqlite.extended_errcode(db) & 0xff : SQLITE_NOMEM;
	if (code == SQLITE_NOMEM) return lk_oom(err);
	lk_status status = code == SQLITE_ERROR || code == SQLITE_NOTADB ? LK_ERR_INPUT : LK_ERR_IO;
	lk_fail(err, status, path, "SQLite: %s", lk_sqlite.errmsg(db));
	if (code == SQLITE_NOTADB) lk_hint(err, "name a new file or an SQLite database");
	if (code == SQLITE_CANTOPEN) lk_hint(err, "does the folder exist?");
	if (code == SQLITE_BUSY) lk_hint(err, "close the other program that writes to it");
	return status;
}

/* Runs a statement that was built, and frees its text. */
static lk_status sqlite_run(sqlite3 *db, const char *path, char *sql, lk_error *err) {
	if (!sql) return lk_oom(err);
	int code = lk_sqlite.exec(db, sql, NULL, NULL, NULL);
	lk_sqlite.free(sql);
	return code == SQLITE_OK ? LK_OK : sqlite_refused(db, path, err);
}

static lk_status sqlite_create(sqlite3 *db, const char *path, const lk_table *table,
                               lk_arena *arena, lk_error *err) {
	const char *name = utf8(arena, table->name);
	if (!name) return lk_oom(err);
	LK_TRY(sqlite_run(db, path, lk_sqlite.mprintf("DROP TABLE IF EXISTS \"%w\"", name), err));
	sqlite3_str *sql = lk_sqlite.str_new(db);
	lk_sqlite.str_appendf(sql, "CREATE TABLE \"%w\" (", name);
	for (int i = 0; i < table->count; i++) {
		const char *key = utf8(arena, lk_table_key(table, i));
		if (key)
			lk_sqlite.str_appendf(sql, "%s\"%w\"%s", i ? ", " : "", key, sqlite_type_of(table, i));
	}
	lk_sqlite.str_appendall(sql, ")");
	return sqlite_run(db, path, lk_sqlite.str_finish(sql), err);
}

static int bind(sqlite3_stmt *insert, int at, const lk_cell *cell, lk_arena *arena) {
	const char *text = cell->kind == LK_CELL_TEXT ? utf8(arena, cell->text) : "";
	if (!text) return SQLITE_NOMEM;
	switch (cell->kind) {
	case LK_CELL_TEXT:
		return lk_sqlite.bind_text64(insert, at, text, strlen(text), SQLITE_TRANSIENT, SQLITE_UTF8);
	case LK_CELL_NUMBER: return lk_sqlite.bind_double(insert, at, cell->number);
	case LK_CELL_BOOL: return lk_sqlite.bind_int(insert, at, cell->number != 0);
	default: return lk_sqlite.bind_null(insert, at);
	}
}

static lk_status sqlite_prepare(sqlite3 *db, const char *path, const lk_table *table,
                                sqlite3_stmt **insert, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	const char *name = utf8(&arena, table->name);
	sqlite3_str *sql = lk_sqlite.str_new(db);
	lk_sqlite.str_appendf(sql, "INSERT INTO \"%w\" VALUES (", name ? name : "");
	for (int i = 0; i < table->count; i++) lk_sqlite.str_appendall(sql, i ? ", ?" : "?");
	lk_sqlite.str_appendall(sql, ")");
	char *text = lk_sqlite.str_finish(sql);
	int code = text && name ? lk_sqlite.prepare_v2(db, text, -1, insert, NULL) : SQLITE_NOMEM;
	lk_sqlite.free(text);
	bool lost = !text || !name;
	lk_arena_free(&arena);
	if (lost) return lk_oom(err);
	return code == SQLITE_OK ? LK_OK : sqlite_refused(db, path, err);
}

static lk_status insert_rows(sqlite3 *db, const char *path, const lk_table *table, lk_arena *arena,
                             lk_error *err) {
	sqlite3_stmt *insert = NULL;
	LK_TRY(sqlite_prepare(db, path, table, &insert, err));
	int code = SQLITE_OK;
	for (int row = 0; row < table->rows && code == SQLITE_OK; row++) {
		for (int i = 0; i < table->count && code == SQLITE_OK; i++)
			code = bind(insert, i + 1, lk_table_cell(table, row, i), arena);
		if (code == SQLITE_OK && lk_sqlite.step(insert) == SQLITE_DONE)
			code = lk_sqlite.reset(insert);
		else if (code == SQLITE_OK) code = SQLITE_ERROR;
		lk_arena_free(arena);
	}
	lk_status status;
	if (code == SQLITE_OK) status = LK_OK;
	else if (code == SQLITE_NOMEM) status = lk_oom(err);
	else status = sqlite_refused(db, path, err);
	lk_sqlite.finalize(insert);
	return status;
}

static lk_status replace(sqlite3 *db, const char *path, const lk_table *const *tables, int count,
                         lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = LK_OK;
	for (int i = 0; status == LK_OK && i < count; i++) {
		status = sqlite_create(db, path, tables[i], &arena, err);
		if (status == LK_OK) status = insert_rows(db, path, tables[i], &arena, err);
	}
	lk_arena_free(&arena);
	LK_TRY(status);
	return sqlite_run(db, path, lk_sqlite.mprintf("COMMIT"), err);
}

/* What SQLite makes of a new name before the first transaction: nothing else has that size. */
static bool sqlite_is_empty(const char *path) {
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
}

/* What a disk that is full does not let SQLite take back itself, of a database that was not there
 * before. Nobody else has written to it: its lock is still ours. */
static void sqlite_remove(const char *path) {
	char journal[PATH_MAX];
	int length = snprintf(journal, sizeof journal, "%s-journal", path);
	unlink(path);
	if (length > 0 && length < (int)sizeof journal) unlink(journal);
}

static lk_status sqlite_write(const lk_table *const *tables, int count, const char *path,
                              lk_error *err) {
	sqlite3 *db = NULL;
	bool is_new = access(path, F_OK) != 0 && errno == ENOENT;
	/* Without SQLITE_OPEN_URI a path that begins with "file:" is only a path. */
	int code = lk_sqlite.open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
	lk_status status = code == SQLITE_OK ? LK_OK : sqlite_refused(db, path, err);
	if (status == LK_OK) lk_sqlite.busy_timeout(db, 2000);
	if (status == LK_OK) status = sqlite_run(db, path, lk_sqlite.mprintf("BEGIN IMMEDIATE"), err);
	bool locked = status == LK_OK, waited = lk_sqlite.errcode(db) == SQLITE_BUSY;
	/* of two that make it at a time the second finds the tables of the first */
	is_new = is_new && !waited && (!locked || sqlite_is_empty(path));
	if (locked) status = replace(db, path, tables, count, err);
	if (status != LK_OK && is_new && locked) sqlite_remove(path);
	lk_sqlite.close(db); /* an open transaction is rolled back */
	if (status != LK_OK && is_new && !locked && sqlite_is_empty(path)) unlink(path);
	return status;
}

lk_status lk_tables_sqlite(const lk_table *const *tables, int count, const char *path,
                           lk_error *err) {
	for (int i = 0; i < count; i++) {
		const lk_table *table = tables[i];
		if (table->status == LK_ERR_MEMORY) return lk_oom(err);
		if (table->status != LK_OK)
			return lk_fail(err, table->status, table->name,
			               "a row of the table has more than its %d cells", table->count);
		if (!table->count)
			return lk_fail(err, LK_ERR_INTERNAL, table->name, "the table has no columns");
	}
	if (!*path || strcmp(path, "-") == 0 || strcmp(path, ":memory:") == 0) {
		lk_fail(err, LK_ERR_INPUT, path, "an SQLite database cannot be written to a stream");
		return lk_hint(err, "name a file");
	}
	LK_TRY(lk_sqlite_load(err));
	/* Nobody is interrupted between the first page and the last: SQLite would leave both the
	 * database and its journal. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	lk_status status = sqlite_write(tables, count, path, err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

lk_status lk_table_sqlite(const lk_table *table, const char *path, lk_error *err) {
	return lk_tables_sqlite(&table, 1, path, err);
}
