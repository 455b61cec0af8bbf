/* database.c: databases of profilers. Columns vary by version, so they are queried first.
 *
 * Files may come from anywhere. The database is opened read-only and defensive; only ordinary
 * tables are read, by plain scans; views, triggers, extensions and attached databases are off; the
 * work of a scan is limited by the file's size. */
#include "trace/read/database.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include "base/text.h"

static int database_progress(void *context) {
	lk_database *database = context;
	return ++database->steps > database->most_steps;
}

static lk_status database_refused(const lk_database *database) {
	int code = lk_sqlite.errcode(database->db);
	if (code == SQLITE_NOMEM) return lk_oom(database->err);
	if (code == SQLITE_INTERRUPT) {
		lk_fail(database->err, LK_ERR_INPUT, database->path,
		        "reading takes more work than a file of its size should");
		return lk_hint(database->err,
		               "the database is damaged or was made to be slow; write it again");
	}
	lk_status status = code == SQLITE_CANTOPEN || code == SQLITE_IOERR || code == SQLITE_PERM
	                       ? LK_ERR_IO
	                       : LK_ERR_INPUT;
	lk_fail(database->err, status, database->path, "SQLite: %.300s",
	        lk_sqlite.errmsg(database->db));
	return lk_hint(database->err,
	               "give a database of `nsys export --type sqlite`, or of rocprofv3");
}

static lk_status database_harden(lk_database *database) {
	static const struct {
		int what, limit;
	} limits[] = {
		{SQLITE_LIMIT_LENGTH, 1 << 24},     {SQLITE_LIMIT_SQL_LENGTH, 1 << 17},
		{SQLITE_LIMIT_COLUMN, 256},         {SQLITE_LIMIT_EXPR_DEPTH, 32},
		{SQLITE_LIMIT_COMPOUND_SELECT, 2},  {SQLITE_LIMIT_VDBE_OP, 10000},
		{SQLITE_LIMIT_FUNCTION_ARG, 8},     {SQLITE_LIMIT_ATTACHED, 0},
		{SQLITE_LIMIT_VARIABLE_NUMBER, 16}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
		{SQLITE_LIMIT_WORKER_THREADS, 0},
	};
	struct stat file;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		lk_sqlite.limit(database->db, limits[i].what, limits[i].limit);
	lk_sqlite.db_config(database->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	lk_sqlite.db_config(database->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	lk_sqlite.db_config(database->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	lk_sqlite.db_config(database->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	lk_sqlite.db_config(database->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	lk_sqlite.exec(database->db,
	               "PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", NULL,
	               NULL, NULL);
	/* A row has at least ten bytes and takes some fifty instructions; the handler is called every
	 * thousand. */
	if (stat(database->path, &file) != 0)
		return lk_fail(database->err, LK_ERR_IO, database->path, "cannot be looked at: %s",
		               strerror(errno));
	database->most_steps = (uint64_t)(1e4 + (double)file.st_size * 50 / 1000);
	lk_sqlite.progress_handler(database->db, 1000, database_progress, database);
	return LK_OK;
}

int64_t lk_database_whole(sqlite3_stmt *row, int column, int64_t none) {
	return lk_sqlite.column_type(row, column) == SQLITE_NULL ? none
	                                                         : lk_sqlite.column_int64(row, column);
}

/* Whether an ordinary table of this name exists. */
static lk_status database_has_table(lk_database *database, const char *table, bool *found) {
	sqlite3_stmt *row;
	*found = false;
	if (lk_sqlite.prepare_v2(database->db,
	                         "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", -1,
	                         &row, NULL) != SQLITE_OK)
		return database_refused(database);
	lk_sqlite.bind_text(row, 1, table, -1, SQLITE_STATIC);
	int code = lk_sqlite.step(row);
	const char *sql = code == SQLITE_ROW ? (const char *)lk_sqlite.column_text(row, 0) : NULL;
	*found = sql && strncasecmp(sql, "CREATE TABLE", 12) == 0;
	if (code == SQLITE_ROW && !sql) code = lk_sqlite.errcode(database->db);
	lk_status status =
		code == SQLITE_ROW || code == SQLITE_DONE ? LK_OK : database_refused(database);
	lk_sqlite.finalize(row);
	return status;
}

/* Prepare a statement made by SQLite's mprintf, and free its text. */
static lk_status database_prepare(const lk_database *database, char *sql, sqlite3_stmt **out) {
	if (!sql) return lk_oom(database->err);
	int code = lk_sqlite.prepare_v2(database->db, sql, -1, out, NULL);
	lk_sqlite.free(sql);
	return code == SQLITE_OK ? LK_OK : database_refused(database);
}

/* SELECT those of the columns that the table has. */
static lk_status database_select(const lk_database *database, const char *table,
                                 const char *const *columns, sqlite3_stmt **out) {
	sqlite3_stmt *all = NULL;
	bool named = true;
	LK_TRY(
		database_prepare(database, lk_sqlite.mprintf("SELECT * FROM \"%w\" LIMIT 0", table), &all));
	sqlite3_str *text = lk_sqlite.str_new(database->db);
	for (int i = 0; i < LK_DATABASE_COLUMNS && columns[i]; i++) {
		bool there = false;
		for (int c = 0; c < lk_sqlite.column_count(all); c++) {
			const char *name = lk_sqlite.column_name(all, c); /* NULL: memory ran out */
			named = named && name;
			there |= name && lk_sqlite.stricmp(name, columns[i]) == 0;
		}
		lk_sqlite.str_appendf(text, there ? "%s\"%w\"" : "%sNULL", i ? ", " : "SELECT ",
		                      columns[i]);
	}
	lk_sqlite.str_appendf(text, " FROM \"%w\"", table);
	lk_sqlite.finalize(all);
	char *sql = lk_sqlite.str_finish(text);
	if (named) return database_prepare(database, sql, out);
	lk_sqlite.free(sql);
	return lk_oom(database->err);
}

lk_status lk_database_scan(lk_database *database, const char *table, const char *const *columns,
                           lk_database_row read, void *context) {
	bool found;
	LK_TRY(database_has_table(database, table, &found));
	if (!found) return LK_OK;
	sqlite3_stmt *row = NULL;
	LK_TRY(database_select(database, table, columns, &row));
	lk_status status = LK_OK;
	int code = SQLITE_OK;
	while (status == LK_OK && (code = lk_sqlite.step(row)) == SQLITE_ROW)
		status = read(context, row);
	if (status == LK_OK && code != SQLITE_DONE) status = database_refused(database);
	lk_sqlite.finalize(row);
	return status;
}

lk_status lk_database_table(lk_database *database, const char *beginning, int which, char *out,
                            size_t size, bool *found) {
	sqlite3_stmt *row;
	int code = SQLITE_DONE;
	*found = false;
	if (lk_sqlite.prepare_v2(database->db,
	                         "SELECT name, sql FROM sqlite_master WHERE type = 'table'", -1, &row,
	                         NULL) != SQLITE_OK)
		return database_refused(database);
	while (!*found && (code = lk_sqlite.step(row)) == SQLITE_ROW) {
		const char *name = (const char *)lk_sqlite.column_text(row, 0);
		const char *sql = (const char *)lk_sqlite.column_text(row, 1);
		if (!name || !sql || strncasecmp(sql, "CREATE TABLE", 12) != 0 || strlen(name) >= size ||
		    !lk_begins_with(name, beginning) || which-- > 0)
			continue;
		lk_copy(out, size, name);
		*found = true;
	}
	lk_status status = *found || code == SQLITE_DONE ? LK_OK : database_refused(database);
	lk_sqlite.finalize(row);
	return status;
}

lk_status lk_database_open(lk_database *database, const char *path, lk_error *err) {
	*database = (lk_database){.path = path, .err = err};
	LK_TRY(lk_sqlite_load(err));
	int code = lk_sqlite.open_v2(
		path, &database->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
		NULL);
	if (code != SQLITE_OK) return database->db ? database_refused(database) : lk_oom(err);
	return database_harden(database);
}

void lk_database_close(lk_database *database) {
	if (database->db) lk_sqlite.close(database->db);
	database->db = NULL;
}
