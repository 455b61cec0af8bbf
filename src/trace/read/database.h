/* database.h: databases of profilers (SQLite), by scans of their tables. */
#ifndef LK_TRACE_READ_DATABASE_H
#define LK_TRACE_READ_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "io/sqlite.h"
#include "lockstep/error.h"

enum { LK_DATABASE_COLUMNS = 20 };

typedef struct lk_database {
	sqlite3 *db;
	const char *path;
	lk_error *err;
	uint64_t steps, most_steps; /* of the progress handler */
} lk_database;

/* Open; close it even if this fails. */
lk_status lk_database_open(lk_database *database, const char *path, lk_error *err);
void lk_database_close(lk_database *database);

/* Read one row, with the requested columns in their order; missing columns are NULL. */
typedef lk_status (*lk_database_row)(void *context, sqlite3_stmt *row);
/* Call `read` for each row of an ordinary table, if it exists. `columns` ends with NULL or is
 * full. */
lk_status lk_database_scan(lk_database *database, const char *table, const char *const *columns,
                           lk_database_row read, void *context);
/* A whole number in a row. */
int64_t lk_database_whole(sqlite3_stmt *row, int column, int64_t none);
/* The names of ordinary tables with this beginning, one per call; LK_OK with *found false after the
 * last. */
lk_status lk_database_table(lk_database *database, const char *beginning, int which, char *out,
                            size_t size, bool *found);

#endif
