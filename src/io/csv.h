/* csv.h: RFC 4180 reader with named columns. Lines that begin with '#' are comments; blank lines
 * are skipped; fields may be quoted; .gz is read too. The first row names the columns. */
#ifndef LK_BASE_CSV_H
#define LK_BASE_CSV_H

#include <stdbool.h>
#include "io/stream.h"
#include "lockstep/error.h"

typedef struct lk_csv lk_csv;

lk_status lk_csv_open(lk_stream *in, lk_csv **out,
                      lk_error *err); /* reads the header row; borrows `in` */
void lk_csv_close(lk_csv *csv);
/* Read the next row. *more is false at the end. A row with more or fewer fields than the header is
 * an error. */
lk_status lk_csv_next(lk_csv *csv, bool *more, lk_error *err);
/* Column index by name, or -1. */
int lk_csv_column(const lk_csv *csv, const char *name);
/* Find columns by name into at[count], -1 if missing. The first `needed` are required: the error
 * says that the file is no `what` ("table of kernel times"), and which columns one has. */
lk_status lk_csv_find(const lk_csv *csv, const char *const *names, int count, int needed,
                      const char *what, int *at, lk_error *err);
/* Refuse an unknown column, for lists that people write: it would be ignored, so it is misspelt or
 * an unsupported feature. */
lk_status lk_csv_refuse_others(const lk_csv *csv, const char *const *names, int count,
                               const char *what, lk_error *err);
int lk_csv_columns(const lk_csv *csv);
/* Name of a column; valid until the reader is closed. */
const char *lk_csv_name(const lk_csv *csv, int column);
/* Field of the current row ("" if column is -1); valid until the next row. */
const char *lk_csv_field(const lk_csv *csv, int column);
/* Field of the current row in the column of this name, "" if there is none. */
const char *lk_csv_named(const lk_csv *csv, const char *name);
/* "file:line" of the current row. */
const char *lk_csv_where(const lk_csv *csv);
enum { LK_CSV_PLACE = 256 };
/* "file:line: what" of the current row; returns `out`. */
const char *lk_csv_place(const lk_csv *csv, const char *what, char out[LK_CSV_PLACE]);
/* The number in a column of the current row, within inclusive limits; NAN where the field is empty. */
lk_status lk_csv_real(const lk_csv *csv, int column, double low, double high, double *out,
                      lk_error *err);

/* A table read as a whole. */
enum { LK_CSV_MOST_COLUMNS = 64 };
/* A row, with the places of its columns. */
typedef lk_status lk_csv_row_fn(void *context, const lk_csv *csv, const int *at, lk_error *err);
typedef struct lk_csv_table {
	const char *const *columns; /* [count], the first `needed` required */
	int count, needed;
	const char *what; /* "table of kernel times" */
	int most;         /* most rows */
	lk_csv_row_fn *row;
	lk_csv_row_fn *head; /* called before the first row; NULL: the header needs no further checks */
} lk_csv_table;
/* Read all rows of `in`, which stays open; the first error ends it. */
lk_status lk_csv_read(lk_stream *in, const lk_csv_table *table, void *context, lk_error *err);

#endif
