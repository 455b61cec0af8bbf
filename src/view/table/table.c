/* table.c: the table object and its text form for terminals. Columns are as wide as their widest
 * cell, counted in terminal cells: combining marks take none, East Asian wide characters and emoji
 * take two (Unicode Standard Annex 11; the ranges below are its blocks, rounded outwards to whole
 * blocks). */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "view/table/table_internal.h"

const char *lk_bold(bool colour) {
	return colour ? "\x1b[1m" : "";
}

const char *lk_plain(bool colour) {
	return colour ? "\x1b[0m" : "";
}

static bool copy_columns(lk_table *table, const lk_column *columns) {
	table->columns = LK_ARRAY(&table->arena, lk_column, (size_t)table->count);
	if (!table->columns) return false;
	for (int i = 0; i < table->count; i++) {
		const char *key = columns[i].key, *title = columns[i].title;
		table->columns[i] = columns[i];
		if (!key) key = title ? title : "";
		if (!title) title = key;
		table->columns[i].key = lk_arena_strdup(&table->arena, key);
		table->columns[i].title = lk_arena_strdup(&table->arena, title);
		if (!table->columns[i].key || !table->columns[i].title) return false;
	}
	return true;
}

lk_table *lk_table_new(const char *name, const lk_column *columns, int count) {
	lk_table *table = calloc(1, sizeof *table);
	if (!table) return NULL;
	table->count = count > 0 ? count : 0;
	table->name = lk_arena_strdup(&table->arena, name ? name : "");
	if (table->name && copy_columns(table, columns)) return table;
	lk_table_free(table);
	return NULL;
}

lk_table *lk_table_mark(lk_table *table, const char *failed_check) {
	if (table) table->failed_check = failed_check;
	return table;
}

void lk_table_free(lk_table *table) {
	if (!table) return;
	lk_arena_free(&table->arena);
	lk_vec_free(&table->cells);
	free(table);
}

static void table_keep(lk_table *table, lk_status status) {
	if (table->status == LK_OK) table->status = status;
}

void lk_table_row(lk_table *table) {
	if (table->status != LK_OK) return;
	if (table->rows == INT32_MAX || !lk_reserve(&table->cells, (size_t)table->count)) {
		table_keep(table, LK_ERR_MEMORY);
		return;
	}
	if (table->count)
		memset(table->cells.at + table->cells.count, 0,
		       (size_t)table->count * sizeof *table->cells.at);
	table->cells.count += (size_t)table->count;
	table->rows++;
	table->filled = 0;
}

/* The next cell of the last row; NULL if there is none. */
static lk_cell *next_cell(lk_table *table) {
	if (table->status != LK_OK) return NULL;
	if (!table->rows || table->filled >= table->count) {
		table_keep(table, LK_ERR_INTERNAL);
		return NULL;
	}
	return &table->cells.at[table->cells.count - (size_t)table->count + (size_t)table->filled++];
}

static void table_set_text(lk_table *table, lk_cell *cell, const char *text) {
	cell->text = lk_arena_strdup(&table->arena, text);
	if (!cell->text) table_keep(table, LK_ERR_MEMORY);
}

void lk_table_text(lk_table *table, const char *text) {
	lk_cell *cell = next_cell(table);
	if (!cell || !text) return;
	cell->kind = LK_CELL_TEXT;
	table_set_text(table, cell, text);
}

void lk_table_number(lk_table *table, double number, const char *shown) {
	lk_cell *cell = next_cell(table);
	if (!cell || isnan(number)) return;
	cell->kind = LK_CELL_NUMBER;
	cell->number = number;
	if (shown) table_set_text(table, cell, shown);
}

void lk_table_bool(lk_table *table, bool value) {
	lk_cell *cell = next_cell(table);
	if (!cell) return;
	cell->kind = LK_CELL_BOOL;
	cell->number = value;
}

int lk_table_rows(const lk_table *table) {
	return table->rows;
}

bool lk_table_shows(const lk_table *table) {
	return table->rows > 0 || table->status != LK_OK;
}

static bool says_nothing(const lk_cell *cell) {
	if (cell->kind == LK_CELL_TEXT) return !*cell->text;
	return cell->kind == LK_CELL_EMPTY ||
	       (cell->kind == LK_CELL_NUMBER && !cell->text && cell->number == 0);
}

void lk_table_hide_empty(lk_table *table) {
	for (int column = 0; table->status == LK_OK && column < table->count; column++) {
		int row = 0;
		while (row < table->rows && says_nothing(lk_table_cell(table, row, column))) row++;
		if (row == table->rows) table->columns[column].hidden = true;
	}
}

static int column_of(const lk_table *table, const char *key) {
	for (int i = 0; i < table->count; i++)
		if (strcmp(table->columns[i].key, key) == 0) return i;
	return -1;
}

void lk_table_hide(lk_table *table, const char *key, bool hidden) {
	if (!table) return;
	int column = column_of(table, key);
	LK_ASSERT(column >= 0);
	if (column >= 0) table->columns[column].hidden = hidden;
}

static uint32_t table_code_point(const unsigned char *s, size_t length) {
	if (length == 2) return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	if (length == 3) return (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	if (length == 4)
		return (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
	return s[0];
}

static int cells_of(uint32_t c) {
	static const struct {
		uint32_t first, last;
		int cells;
	} ranges[] = {
		{0x0300, 0x036f, 0},   {0x0483, 0x0489, 0},   {0x0591, 0x05bd, 0},   {0x064b, 0x065f, 0},
		{0x1100, 0x115f, 2},   {0x1ab0, 0x1aff, 0},   {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},
		{0x202a, 0x202e, 0},   {0x2060, 0x2064, 0},   {0x20d0, 0x20ff, 0},   {0x231a, 0x231b, 2},
		{0x23e9, 0x23ec, 2},   {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xa960, 0xa97f, 2},
		{0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},
		{0xfe30, 0xfe6f, 2},   {0xfeff, 0xfeff, 0},   {0xff01, 0xff60, 2},   {0xffe0, 0xffe6, 2},
		{0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
		{0xe0100, 0xe01ef, 0},
	};
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges && c >= ranges[i].first; i++)
		if (c <= ranges[i].last) return ranges[i].cells;
	return 1;
}

/* Terminal cells of the first bytes of an escaped, hence valid, text. */
static int table_width_of(const char *text, size_t left) {
	int width = 0;
	for (size_t length; left; text += length, left -= length) {
		length = lk_utf8_length(text, left);
		if (!length) length = 1;
		width += cells_of(table_code_point((const unsigned char *)text, length));
	}
	return width;
}

/* ---- lines of a page ---- */

/* Whether a word of `length` bytes after a number goes on with it: its unit, with what punctuation
 * ends it, or three more digits of it, "1 204". */
static bool wrap_of_number(const char *word, size_t length) {
	static const char units[] =
		" % s ms us ns ps min h d B KiB MiB GiB TiB kB MB GB TB GB/s TB/s MB/s Gbit/s TFLOP/s "
		"GFLOP/s W kW MW Wh kWh MWh GWh kg t k M G T ";
	char unit[16];
	while (length > 0 && strchr(",;:.)", word[length - 1])) length--;
	if (length == 3 && strspn(word, "0123456789") == 3) return true;
	if (length == 0 || length + 3 > sizeof unit) return false;
	snprintf(unit, sizeof unit, " %.*s ", (int)length, word);
	return strstr(units, unit) != NULL;
}

/* Bytes of a word; of a number with its unit. */
static size_t wrap_word(const char *text) {
	size_t length = strcspn(text, " ");
	while (length > 0 && text[length - 1] >= '0' && text[length - 1] <= '9' &&
	       text[length] == ' ') {
		size_t next = strcspn(text + length + 1, " ");
		if (!wrap_of_number(text + length + 1, next)) break;
		length += 1 + next;
	}
	return length;
}

/* Bytes up to a comma or semicolon that ends a word. */
static size_t wrap_clause(const char *text) {
	size_t length = wrap_word(text);
	while (text[length] && !strchr(",;", text[length - 1])) {
		length += strspn(text + length, " ");
		if (text[length]) length += wrap_word(text + length);
	}
	return length;
}

void lk_wrap(const char *safe, bool clauses, int indent, int column, FILE *out) {
	LK_ASSERT(indent >= 0 && column >= 0);
	bool first = true;
	const char *broken = safe; /* the end of a clause that no line holds: it goes word by word */
	for (const char *at = safe; *at;) {
		int blanks = (int)strspn(at, " ");
		at += blanks;
		size_t piece = *at ? wrap_word(at) : 0;
		if (!piece) break;
		if (clauses && at >= broken) {
			size_t clause = wrap_clause(at);
			if (table_width_of(at, clause) <= LK_PAGE - indent) piece = clause;
			else broken = at + clause;
		}
		int width = table_width_of(at, piece);
		if (!first && column + blanks + width > LK_PAGE) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
			blanks = 0;
		}
		fprintf(out, "%*s%.*s", blanks, "", (int)piece, at);
		column += blanks + width;
		at += piece;
		first = false;
	}
}

/* The escaped form of every title and cell that is shown: one row of `count` texts for the titles,
 * then the rows. */
struct sheet {
	lk_arena arena;
	const char **texts;
	int *widths;  /* of the texts */
	int *columns; /* of the columns */
	int wrapped;  /* the column that is wrapped; -1 none */
};

static bool table_put_text(struct sheet *sheet, size_t at, int column, const char *text) {
	size_t room = strlen(text) * 4 + 1;
	char *copy = lk_arena_alloc(&sheet->arena, room);
	if (!copy) return false;
	sheet->texts[at] = lk_escape(text, copy, room);
	sheet->widths[at] = table_width_of(copy, strlen(copy));
	if (sheet->widths[at] > sheet->columns[column]) sheet->columns[column] = sheet->widths[at];
	return true;
}

enum {
	WRAPPED = 20 /* cells that a wrapped column has at least */
};

/* Cells of a line. A last column of texts may be wrapped to make it a page; `wrapped` is that
 * column then, else -1. */
static int sheet_width(const struct sheet *sheet, const lk_table *table, int *wrapped) {
	int width = -2, last = -1;
	*wrapped = -1;
	for (int i = 0; i < table->count; i++)
		if (!table->columns[i].hidden) width += sheet->columns[last = i] + 2;
	if (width <= LK_PAGE || last < 0 || table->columns[last].right) return width;
	if (width - sheet->columns[last] > LK_PAGE - WRAPPED) return width;
	*wrapped = last;
	return LK_PAGE;
}

static bool fill_sheet(struct sheet *sheet, const lk_table *table) {
	size_t count = (size_t)table->count, texts = count * ((size_t)table->rows + 1);
	char digits[LK_DIGITS];
	sheet->texts = LK_ARRAY(&sheet->arena, const char *, texts);
	sheet->widths = LK_ARRAY(&sheet->arena, int, texts);
	sheet->columns = LK_ARRAY(&sheet->arena, int, count);
	if (!sheet->texts || !sheet->widths || !sheet->columns) return false;
	for (size_t i = 0; i < texts; i++) {
		int column = (int)(i % count);
		if (table->columns[column].hidden) continue;
		const char *text = i < count ? table->columns[column].title
		                             : lk_cell_shown(&table->cells.at[i - count], digits);
		if (!table_put_text(sheet, i, column, text)) return false;
	}
	sheet_width(sheet, table, &sheet->wrapped);
	return true;
}

/* The text of all cells of a column; NULL: they differ. */
static const char *sheet_same(const struct sheet *sheet, const lk_table *table, int column) {
	const char *first = NULL;
	for (int row = 0; row < table->rows; row++) {
		const char *text = sheet->texts[((size_t)row + 1) * (size_t)table->count + (size_t)column];
		if (!first) first = text;
		else if (strcmp(first, text) != 0) return NULL;
	}
	return first;
}

/* The title of a column, with that of the column before it where another has the same: "80 % range
 * of hours". */
static const char *sheet_title(struct sheet *sheet, const lk_table *table, int column) {
	LK_ASSERT(column >= 0 && column < table->count);
	const char *title = sheet->texts[column];
	for (int i = 0; column > 0 && i < table->count; i++)
		if (i != column && strcmp(table->columns[i].title, table->columns[column].title) == 0)
			return lk_arena_printf(&sheet->arena, "%s of %s", title,
			                       table->columns[column - 1].title);
	return title;
}

lk_status lk_table_fit(lk_table *table, const char *const *keys, lk_table_left_out *out,
                       lk_error *err) {
	struct sheet s = {0};
	lk_text same = lk_text_begin(out->same, sizeof out->same),
			more = lk_text_begin(out->more, sizeof out->more);
	if (table->status != LK_OK) return LK_OK; /* lk_table_write says so */
	if (!fill_sheet(&s, table)) {
		lk_arena_free(&s.arena);
		return lk_oom(err);
	}
	for (int equal = 1, wrapped; equal >= 0; equal--)
		for (int i = 0; keys[i] && sheet_width(&s, table, &wrapped) > LK_PAGE; i++) {
			int column = column_of(table, keys[i]);
			if (column < 0 || table->columns[column].hidden) continue;
			const char *text = sheet_same(&s, table, column);
			const char *title = sheet_title(&s, table, column);
			if (!title) {
				lk_arena_free(&s.arena);
				return lk_oom(err);
			}
			if (equal != (text != NULL)) continue;
			table->columns[column].hidden = true;
			if (!text) lk_text_add(&more, "%s%s", *out->more ? ", " : "", title);
			else if (*text) lk_text_add(&same, "%s%s %s", *out->same ? ", " : "", title, text);
		}
	lk_arena_free(&s.arena);
	return LK_OK;
}

static void put_repeated(int character, int times, FILE *out) {
	while (times-- > 0) putc(character, out);
}

/* One line. Blanks are owed, not written, until a text follows, so that no line ends in blanks. */
static void table_put_line(const struct sheet *sheet, const lk_table *table, size_t row,
                           FILE *out) {
	const char *const *texts = sheet->texts + row * (size_t)table->count;
	const int *widths = sheet->widths + row * (size_t)table->count;
	int owed = 0, column = 0;
	for (int i = 0; i < table->count; i++) {
		if (table->columns[i].hidden) continue;
		int pad = sheet->columns[i] - widths[i];
		if (table->columns[i].right) owed += pad;
		if (*texts[i]) {
			put_repeated(' ', owed, out);
			column += owed;
			if (i == sheet->wrapped) lk_wrap(texts[i], true, column, column, out);
			else fputs(texts[i], out);
			column += widths[i];
			owed = 0;
		}
		owed += 2 + (table->columns[i].right ? 0 : pad);
	}
	putc('\n', out);
}

static void put_rule(const struct sheet *sheet, const lk_table *table, FILE *out) {
	int column = 0;
	for (int i = 0; i < table->count; i++) {
		if (table->columns[i].hidden) continue;
		if (column) fputs("  ", out);
		column += column ? 2 : 0;
		put_repeated('-', i == sheet->wrapped ? LK_PAGE - column : sheet->columns[i], out);
		column += sheet->columns[i];
	}
	putc('\n', out);
}

static lk_status table_write_text(const lk_table *table, bool colour, FILE *out, lk_error *err) {
	struct sheet s = {0};
	int shown = 0;
	for (int i = 0; i < table->count; i++) shown += !table->columns[i].hidden;
	if (!shown) return LK_OK;
	if (!fill_sheet(&s, table)) {
		lk_arena_free(&s.arena);
		return lk_oom(err);
	}
	fputs(lk_bold(colour), out);
	table_put_line(&s, table, 0, out);
	fputs(lk_plain(colour), out);
	put_rule(&s, table, out);
	for (int row = 0; row < table->rows; row++) table_put_line(&s, table, (size_t)row + 1, out);
	lk_arena_free(&s.arena);
	return LK_OK;
}

lk_status lk_table_write(const lk_table *table, lk_format format, bool colour, FILE *out,
                         lk_error *err) {
	lk_status status = LK_OK;
	if (table->status == LK_ERR_MEMORY) return lk_oom(err);
	if (table->status != LK_OK)
		return lk_fail(err, table->status, table->name,
		               "a row of the table has more than its %d cells", table->count);
	switch (format) {
	case LK_FORMAT_TEXT: status = table_write_text(table, colour, out, err); break;
	case LK_FORMAT_MD: status = lk_table_markdown(table, out, err); break;
	case LK_FORMAT_CSV: lk_table_csv(table, out); break;
	case LK_FORMAT_JSON: status = lk_table_json(table, out, err); break;
	case LK_FORMAT_JSONL: lk_table_jsonl(table, out); break;
	default:
		lk_fail(err, LK_ERR_INPUT, table->name, "the format sqlite needs a file");
		return lk_hint(err, "name one that ends in .sqlite or .db");
	}
	if (status == LK_OK && (fflush(out) != 0 || ferror(out)))
		return lk_fail(err, LK_ERR_IO, table->name, "the table could not be written");
	return status;
}
