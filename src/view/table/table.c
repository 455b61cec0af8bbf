/* table.c: the table object and its text form for terminals. Columns are as wide as their widest cell, counted in
 * terminal cells: combining marks take none, East Asian wide characters and emoji take two (Unicode Standard Annex 11;
 * the ranges below are its blocks, rounded outwards to whole blocks). */
#include "view/table/table.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "view/table/table_internal.h"

const char *const lk_format_names[LK_FORMATS + 1] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

static const char BOLD[] = "\x1b[1m", PLAIN[] = "\x1b[0m";

static bool copy_columns(lk_table *t, const lk_column *columns) {
	t->columns = LK_ARRAY(&t->arena, lk_column, (size_t)t->count);
	if (!t->columns) return false;
	for (int i = 0; i < t->count; i++) {
		const char *key = columns[i].key, *title = columns[i].title;
		t->columns[i] = columns[i];
		t->columns[i].key = lk_arena_strdup(&t->arena, key ? key : title ? title : "");
		t->columns[i].title = lk_arena_strdup(&t->arena, title ? title : key ? key : "");
		if (!t->columns[i].key || !t->columns[i].title) return false;
	}
	return true;
}

lk_table *lk_table_new(const char *name, const lk_column *columns, int count) {
	lk_table *t = calloc(1, sizeof *t);
	if (!t) return NULL;
	t->count = count > 0 ? count : 0;
	t->name = lk_arena_strdup(&t->arena, name ? name : "");
	if (t->name && copy_columns(t, columns)) return t;
	lk_table_free(t);
	return NULL;
}

void lk_table_free(lk_table *table) {
	if (!table) return;
	lk_arena_free(&table->arena);
	lk_vec_free(&table->cells);
	free(table);
}

static void keep(lk_table *t, lk_status status) {
	if (t->status == LK_OK) t->status = status;
}

void lk_table_row(lk_table *t) {
	if (t->status != LK_OK) return;
	if (t->rows == INT32_MAX || !lk_reserve(&t->cells, (size_t)t->count)) {
		keep(t, LK_ERR_MEMORY);
		return;
	}
	if (t->count) memset(t->cells.at + t->cells.count, 0, (size_t)t->count * sizeof *t->cells.at);
	t->cells.count += (size_t)t->count;
	t->rows++;
	t->filled = 0;
}

/* The next cell of the last row; NULL if there is none. */
static lk_cell *next_cell(lk_table *t) {
	if (t->status != LK_OK) return NULL;
	if (!t->rows || t->filled >= t->count) {
		keep(t, LK_ERR_INTERNAL);
		return NULL;
	}
	return &t->cells.at[t->cells.count - (size_t)t->count + (size_t)t->filled++];
}

static void set_text(lk_table *t, lk_cell *cell, const char *text) {
	cell->text = lk_arena_strdup(&t->arena, text);
	if (!cell->text) keep(t, LK_ERR_MEMORY);
}

void lk_table_text(lk_table *t, const char *text) {
	lk_cell *cell = next_cell(t);
	if (!cell || !text) return;
	cell->kind = LK_CELL_TEXT;
	set_text(t, cell, text);
}

void lk_table_number(lk_table *t, double number, const char *shown) {
	lk_cell *cell = next_cell(t);
	if (!cell || isnan(number)) return;
	cell->kind = LK_CELL_NUMBER;
	cell->number = number;
	if (shown) set_text(t, cell, shown);
}

void lk_table_bool(lk_table *t, bool value) {
	lk_cell *cell = next_cell(t);
	if (!cell) return;
	cell->kind = LK_CELL_BOOL;
	cell->number = value;
}

int lk_table_rows(const lk_table *table) {
	return table->rows;
}

const lk_cell *lk_table_cell(const lk_table *t, int row, int column) {
	return &t->cells.at[(size_t)row * (size_t)t->count + (size_t)column];
}

static bool says_nothing(const lk_cell *cell) {
	if (cell->kind == LK_CELL_TEXT) return !*cell->text;
	return cell->kind == LK_CELL_EMPTY || (cell->kind == LK_CELL_NUMBER && !cell->text && cell->number == 0);
}

void lk_table_hide_empty(lk_table *t) {
	for (int column = 0; t->status == LK_OK && column < t->count; column++) {
		int row = 0;
		while (row < t->rows && says_nothing(lk_table_cell(t, row, column))) row++;
		if (row == t->rows) t->columns[column].hidden = true;
	}
}

const char *lk_table_key(const lk_table *t, int column) {
	return t->columns[column].key;
}

const char *lk_cell_shown(const lk_cell *cell, char digits[LK_DIGITS]) {
	if (cell->text) return cell->text;
	if (cell->kind == LK_CELL_BOOL) return cell->number != 0 ? "yes" : "no";
	if (cell->kind != LK_CELL_NUMBER) return "";
	snprintf(digits, LK_DIGITS, "%.6g", cell->number);
	return digits;
}

static uint32_t code_point(const unsigned char *s, size_t length) {
	if (length == 2) return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	if (length == 3) return (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	if (length == 4) return (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
	return s[0];
}

static int cells_of(uint32_t c) {
	static const struct { uint32_t first, last; int cells; } ranges[] = {
		{0x0300, 0x036f, 0}, {0x0483, 0x0489, 0}, {0x0591, 0x05bd, 0}, {0x064b, 0x065f, 0}, {0x1100, 0x115f, 2},
		{0x1ab0, 0x1aff, 0}, {0x1dc0, 0x1dff, 0}, {0x200b, 0x200f, 0}, {0x202a, 0x202e, 0}, {0x2060, 0x2064, 0},
		{0x20d0, 0x20ff, 0}, {0x231a, 0x231b, 2}, {0x23e9, 0x23ec, 2}, {0x2e80, 0x303e, 2}, {0x3041, 0xa4cf, 2},
		{0xa960, 0xa97f, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xfe00, 0xfe0f, 0}, {0xfe20, 0xfe2f, 0},
		{0xfe30, 0xfe6f, 2}, {0xfeff, 0xfeff, 0}, {0xff01, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2},
		{0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0},
	};
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges && c >= ranges[i].first; i++)
		if (c <= ranges[i].last) return ranges[i].cells;
	return 1;
}

/* Terminal cells of an escaped, hence valid, text. */
static int width_of(const char *text) {
	int width = 0;
	for (size_t left = strlen(text), length; left; text += length, left -= length) {
		length = lk_utf8_length(text, left);
		if (!length) length = 1;
		width += cells_of(code_point((const unsigned char *)text, length));
	}
	return width;
}

/* The escaped form of every title and cell that is shown: one row of `count` texts for the titles, then the rows. */
struct sheet {
	lk_arena arena;
	const char **texts;
	int *widths;   /* of the texts */
	int *columns;  /* of the columns */
};

static bool put_text(struct sheet *s, size_t at, int column, const char *text) {
	size_t room = strlen(text) * 4 + 1;
	char *copy = lk_arena_alloc(&s->arena, room);
	if (!copy) return false;
	s->texts[at] = lk_escape(text, copy, room);
	s->widths[at] = width_of(copy);
	if (s->widths[at] > s->columns[column]) s->columns[column] = s->widths[at];
	return true;
}

static bool fill_sheet(struct sheet *s, const lk_table *t) {
	size_t count = (size_t)t->count, texts = count * ((size_t)t->rows + 1);
	char digits[LK_DIGITS];
	s->texts = LK_ARRAY(&s->arena, const char *, texts);
	s->widths = LK_ARRAY(&s->arena, int, texts);
	s->columns = LK_ARRAY(&s->arena, int, count);
	if (!s->texts || !s->widths || !s->columns) return false;
	for (size_t i = 0; i < texts; i++) {
		int column = (int)(i % count);
		if (t->columns[column].hidden) continue;
		const char *text = i < count ? t->columns[column].title : lk_cell_shown(&t->cells.at[i - count], digits);
		if (!put_text(s, i, column, text)) return false;
	}
	return true;
}

static void put_repeated(int character, int times, FILE *out) {
	while (times-- > 0) putc(character, out);
}

/* One line. Blanks are owed, not written, until a text follows, so that no line ends in blanks. */
static void put_line(const struct sheet *s, const lk_table *t, size_t row, FILE *out) {
	const char *const *texts = s->texts + row * (size_t)t->count;
	const int *widths = s->widths + row * (size_t)t->count;
	int owed = 0;
	for (int i = 0; i < t->count; i++) {
		if (t->columns[i].hidden) continue;
		int pad = s->columns[i] - widths[i];
		if (t->columns[i].right) owed += pad;
		if (*texts[i]) {
			put_repeated(' ', owed, out);
			fputs(texts[i], out);
			owed = 0;
		}
		owed += 2 + (t->columns[i].right ? 0 : pad);
	}
	putc('\n', out);
}

static void put_rule(const struct sheet *s, const lk_table *t, FILE *out) {
	bool first = true;
	for (int i = 0; i < t->count; i++) {
		if (t->columns[i].hidden) continue;
		if (!first) fputs("  ", out);
		put_repeated('-', s->columns[i], out);
		first = false;
	}
	putc('\n', out);
}

static lk_status write_text(const lk_table *t, bool colour, FILE *out, lk_error *err) {
	struct sheet s = {0};
	int shown = 0;
	for (int i = 0; i < t->count; i++) shown += !t->columns[i].hidden;
	if (!shown) return LK_OK;
	if (!fill_sheet(&s, t)) {
		lk_arena_free(&s.arena);
		return lk_oom(err);
	}
	if (colour) fputs(BOLD, out);
	put_line(&s, t, 0, out);
	if (colour) fputs(PLAIN, out);
	put_rule(&s, t, out);
	for (int row = 0; row < t->rows; row++) put_line(&s, t, (size_t)row + 1, out);
	lk_arena_free(&s.arena);
	return LK_OK;
}

lk_status lk_table_write(const lk_table *t, lk_format format, bool colour, FILE *out, lk_error *err) {
	lk_status status = LK_OK;
	if (t->status == LK_ERR_MEMORY) return lk_oom(err);
	if (t->status != LK_OK)
		return lk_fail(err, t->status, t->name, "a row of the table has more than its %d cells", t->count);
	switch (format) {
	case LK_FORMAT_TEXT: status = write_text(t, colour, out, err); break;
	case LK_FORMAT_MD: status = lk_table_markdown(t, out, err); break;
	case LK_FORMAT_CSV: lk_table_csv(t, out); break;
	case LK_FORMAT_JSON: status = lk_table_json(t, out, err); break;
	case LK_FORMAT_JSONL: lk_table_jsonl(t, out); break;
	default:
		lk_fail(err, LK_ERR_INPUT, t->name, "the format sqlite needs a file");
		return lk_hint(err, "name one that ends in .sqlite or .db");
	}
	if (status == LK_OK && (fflush(out) != 0 || ferror(out)))
		return lk_fail(err, LK_ERR_IO, t->name, "the table could not be written");
	return status;
}
