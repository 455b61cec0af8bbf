/* table.h: the one table object. Whatever prints rows fills one of these; the output formats live
 * after it. */
#ifndef LK_VIEW_TABLE_TABLE_H
#define LK_VIEW_TABLE_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "lockstep/error.h"

typedef enum lk_format {
	LK_FORMAT_TEXT,
	LK_FORMAT_MD,
	LK_FORMAT_CSV,
	LK_FORMAT_JSON,
	LK_FORMAT_JSONL,
	LK_FORMAT_SQLITE,
	LK_FORMATS,
} lk_format;

typedef enum lk_cell_kind {
	LK_CELL_EMPTY,
	LK_CELL_TEXT,
	LK_CELL_NUMBER,
	LK_CELL_BOOL
} lk_cell_kind;

typedef struct lk_cell {
	lk_cell_kind kind;
	const char *text; /* for people: "1.53 s"; NULL: made from the number */
	double number;    /* for machines: 1.53 */
} lk_cell;

typedef struct lk_column {
	const char *key;   /* stable machine name with unit: "step_time_s" */
	const char *title; /* for people: "step" */
	bool right;        /* aligned to the right */
	bool hidden;       /* machine formats only */
} lk_column;

typedef struct lk_table lk_table;

/* A table named `name` (its name in SQLite). Texts given are copied. */
lk_table *lk_table_new(const char *name, const lk_column *columns, int count);
/* The table (may be NULL) as one of an answer with this failed check (NULL: none), as JSON states
 * it. */
lk_table *lk_table_mark(lk_table *table, const char *failed_check);
void lk_table_free(lk_table *table);
/* Cells of a new row are set left to right. Errors of memory are kept and returned by
 * lk_table_write. */
void lk_table_row(lk_table *table);
void lk_table_text(lk_table *table, const char *text); /* NULL: empty */
void lk_table_number(lk_table *table, double number,
                     const char *shown); /* shown NULL: %.6g; NAN: empty */
void lk_table_bool(lk_table *table, bool value);
int lk_table_rows(const lk_table *table);
/* Whether there is something to write: rows, or the failure that lk_table_write tells. */
bool lk_table_shows(const lk_table *table);
/* Hides a column from people, or shows it again. `table` may be NULL. */
void lk_table_hide(lk_table *table, const char *key, bool hidden);
/* People are not shown columns that are empty, or a count of zero, in every row. */
void lk_table_hide_empty(lk_table *table);

/* What begins and ends bold text; "" without colour. */
const char *lk_bold(bool colour);
const char *lk_plain(bool colour);

/* Columns of a page: no line of a report is longer, but for commands, paths and tables with -v. */
#define LK_PAGE 100

/* What lk_table_fit hid: columns whose cells are all equal, as "seq 4096, dtype bf16", and the
 * titles of the others; empty: none. */
typedef struct lk_table_left_out {
	char same[512], more[512];
} lk_table_left_out;

/* Hides columns of `keys` (NULL ends them) until the text form is no wider than a page: first those
 * whose cells are all equal, then the others, in their order. */
lk_status lk_table_fit(lk_table *table, const char *const *keys, lk_table_left_out *out,
                       lk_error *err);

/* Writes in a format. TEXT: aligned columns, control characters escaped, a rule below the titles,
 * colour only if `colour`; the last column is wrapped where that makes the table as wide as a page.
 * MD and CSV: cells that a spreadsheet would run as formulas (= + - @ in text) are prefixed with a
 * quote in CSV, and '|' is escaped in MD. JSON: an object whose `rows` are objects; JSONL: one
 * object a line; empty cells are null. SQLITE needs a path, not a stream: use lk_table_sqlite. */
lk_status lk_table_write(const lk_table *table, lk_format format, bool colour, FILE *out,
                         lk_error *err);
/* Creates or replaces the table in the database at `path`. */
lk_status lk_table_sqlite(const lk_table *table, const char *path, lk_error *err);
/* All of these or none. */
lk_status lk_tables_sqlite(const lk_table *const *tables, int count, const char *path,
                           lk_error *err);

#endif
