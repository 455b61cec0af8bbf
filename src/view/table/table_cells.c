/* table_cells.c: cells of a table, as text. */
#include "view/table/table_internal.h"

const lk_cell *lk_table_cell(const lk_table *table, int row, int column) {
	return &table->cells.at[(size_t)row * (size_t)table->count + (size_t)column];
}

const char *lk_table_key(const lk_table *table, int column) {
	return table->columns[column].key;
}

const char *lk_cell_shown(const lk_cell *cell, char digits[LK_DIGITS]) {
	if (cell->text) return cell->text;
	if (cell->kind == LK_CELL_BOOL) return cell->number != 0 ? "yes" : "no";
	if (cell->kind != LK_CELL_NUMBER) return "";
	snprintf(digits, LK_DIGITS, "%.6g", cell->number);
	return digits;
}
