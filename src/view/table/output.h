/* output.h: where a view is written: a stream, a file that appears when it is complete, or a table
 * of a database. */
#ifndef LK_VIEW_OUTPUT_H
#define LK_VIEW_OUTPUT_H

#include "view/table/table.h"

/* Where and how; the fields are the arguments of the public print functions. */
typedef struct lk_writing {
	int format; /* an lk_format */
	bool verbose, colour;
	const char *path; /* NULL: out */
	FILE *out;
} lk_writing;

/* Writes something; `colour` tells whether `out` takes it. */
typedef lk_status lk_writer(const void *what, bool colour, FILE *out, lk_error *err);

/* Refuses formats that do not exist, or that need a path and have none. */
lk_status lk_writing_check(const lk_writing *writing, lk_error *err);
/* Calls `write` with the stream or with the file of w->path. Not for SQLite. */
lk_status lk_write_through(const lk_writing *writing, lk_writer *write, const void *what,
                           lk_error *err);
/* A table in any format; frees the table. NULL (out of memory) is an error. */
lk_status lk_write_table(const lk_writing *writing, lk_table *table, lk_error *err);
/* A table as text inside of a report; frees the table. NULL (out of memory) is an error. */
lk_status lk_put_table(lk_table *table, bool colour, FILE *out, lk_error *err);
/* Tables of a database, all of them or none; frees them. A NULL one is an error. */
lk_status lk_write_database(const lk_writing *writing, lk_table *const *tables, int count,
                            lk_error *err);

/* Text with control characters escaped. */
lk_status lk_put_safe(const char *text, FILE *out, lk_error *err);
/* Text with control characters escaped, from column `column` of a line that is begun; further lines
 * begin in column `indent`. Lines are no longer than a page; a word that is longer is not broken,
 * and a number and its unit stay together. No newline at the end. */
lk_status lk_put_wrapped(const char *text, int indent, int column, FILE *out, lk_error *err);
/* A line of a report: "model      llama ..."; none where there is no text. */
lk_status lk_put_labelled(const char *label, const char *text, FILE *out, lk_error *err);
/* A table as text, which it frees. It is no wider than a page, unless `all` is NULL: columns of
 * `keys` are left out as far as needed (lk_table_fit), and what is left out is said below, with the
 * option `all` that shows it. A NULL table (out of memory) is an error. */
lk_status lk_put_fitted(lk_table *table, const char *const *keys, const char *all, bool colour,
                        FILE *out, lk_error *err);
/* `number` with so many decimal places, a point before them in every locale; "n/a" where it is not
 * finite. */
char *lk_fixed(double number, int places, char *out, size_t size);
/* The same with commas between thousands: "2,078.6". */
char *lk_grouped(double number, int places, char *out, size_t size);
/* lk_fixed with none to three decimal places, as columns show their numbers: "1204". */
char *lk_whole(double number, char *out, size_t size);
char *lk_tenths(double number, char *out, size_t size);
char *lk_hundredths(double number, char *out, size_t size);
char *lk_thousandths(double number, char *out, size_t size);
/* Days of a training: "1.60", "168.4", "3,838". */
char *lk_days(double days, char *out, size_t size);
/* GiB of bytes: "73.6", "0.42", "2,078.6"; returns `out`. */
char *lk_gib(double bytes, char *out, size_t size);
/* "45.0 %" */
char *lk_percent(double share, char *out, size_t size);
/* TFLOP/s of FLOP/s: "494.2". */
char *lk_tera(double flops, char *out, size_t size);
/* Samples per second: "56.3", "2,078". */
char *lk_samples(double rate, char *out, size_t size);

/* A heading in bold after an empty line. */
void lk_put_heading(const char *text, bool colour, FILE *out);

#endif
