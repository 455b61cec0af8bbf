/* table_internal.h: the inside of a table, for the files that write its formats. */
#ifndef LK_VIEW_TABLE_INTERNAL_H
#define LK_VIEW_TABLE_INTERNAL_H

#include "base/arena.h"
#include "base/vec.h"
#include "view/table/table.h"

/* Long enough for every number that lk_cell_digits writes. */
enum { LK_DIGITS = 40 };

struct lk_table {
	lk_arena arena; /* all texts */
	const char *name;
	lk_column *columns;
	int count; /* of columns */
	int rows;
	int filled;               /* cells set in the last row */
	LK_VEC(lk_cell) cells;    /* rows * count, row by row */
	lk_status status;         /* the first failure while filling */
	const char *failed_check; /* of the answer; NULL: none */
};

const lk_cell *lk_table_cell(const lk_table *table, int row, int column);
/* The key of a column for machines: its key, or else its title. */
const char *lk_table_key(const lk_table *table, int column);
/* The number with the fewest digits that read back the same; "inf" and "-inf" as such. Returns
 * `out`. */
char *lk_cell_digits(double number, char out[LK_DIGITS]);
/* What people see: the text given, or else made from the value. `digits` is room for a number. */
const char *lk_cell_shown(const lk_cell *cell, char digits[LK_DIGITS]);

lk_status lk_table_markdown(const lk_table *table, FILE *out, lk_error *err);
void lk_table_csv(const lk_table *table, FILE *out);
lk_status lk_table_json(const lk_table *table, FILE *out, lk_error *err);
void lk_table_jsonl(const lk_table *table, FILE *out);

/* Writes an escaped text from column `column` of a line that is begun; further lines begin in
 * column `indent`, and none ends after the page unless a word does. A number and its unit stay
 * together; with `clauses` so does what stands between commas or semicolons, if a line holds it. */
void lk_wrap(const char *safe, bool clauses, int indent, int column, FILE *out);

#endif
