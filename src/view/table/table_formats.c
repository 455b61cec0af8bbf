/* table_formats.c: a table as Markdown (GitHub's table extension), CSV (RFC 4180), JSON and JSON
 * lines. Markdown is for people and shows what the terminal shows; the others are for machines: all
 * columns, keys as names, numbers with the fewest digits that read back the same. */
#include <math.h>
#include <string.h>
#include "base/arena.h"
#include "io/json.h"
#include "base/text.h"
#include "view/table/fields.h"
#include "view/table/table_internal.h"

char *lk_cell_digits(double number, char out[LK_DIGITS]) {
	if (isfinite(number)) return lk_format_shortest(number, out, LK_DIGITS);
	lk_copy(out, LK_DIGITS, number > 0 ? "inf" : "-inf");
	return out;
}

/* Characters that Markdown would take for markup get a backslash; "&" and "<" would begin an entity
 * or HTML. */
static lk_status put_markdown(const char *text, FILE *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	size_t room = strlen(text) * 4 + 1;
	char *safe = lk_arena_alloc(&arena, room);
	if (!safe) return lk_oom(err);
	for (lk_escape(text, safe, room); *safe; safe++) {
		if (strchr("\\|`*[]<&~", *safe)) putc('\\', out);
		putc(*safe, out);
	}
	lk_arena_free(&arena);
	return LK_OK;
}

lk_status lk_table_markdown(const lk_table *table, FILE *out, lk_error *err) {
	char digits[LK_DIGITS];
	int shown = 0;
	for (int i = 0; i < table->count; i++) shown += !table->columns[i].hidden;
	if (!shown) return LK_OK;
	for (int row = -1; row < table->rows; row++) {
		for (int i = 0; i < table->count; i++) {
			if (table->columns[i].hidden) continue;
			fputs("| ", out);
			const char *text = row < 0 ? table->columns[i].title
			                           : lk_cell_shown(lk_table_cell(table, row, i), digits);
			LK_TRY(put_markdown(text, out, err));
			putc(' ', out);
		}
		fputs("|\n", out);
		if (row >= 0) continue;
		for (int i = 0; i < table->count; i++)
			if (!table->columns[i].hidden) fputs(table->columns[i].right ? "|---:" : "|---", out);
		fputs("|\n", out);
	}
	return LK_OK;
}

/* Text that a spreadsheet would run as a formula gets a quote before it (OWASP, "CSV Injection").
 * What a terminal would obey, and bytes that are no UTF-8, are written as \xNN.
 * In quotes stand also:
 * '#' at the start of a line, a comment to some readers; a byte-order mark there, which readers
 * would take off; an empty field that is alone, which looks like a blank line. */
static void formats_put_field(const char *text, bool guard, bool first, bool alone, FILE *out) {
	bool formula = guard && *text && strchr("=+-@\t\r", *text);
	bool quoted =
		strpbrk(text, ",\"\r\n") || *text == ' ' || (*text && text[strlen(text) - 1] == ' ') ||
		(first && (*text == '#' || strncmp(text, "\xef\xbb\xbf", 3) == 0)) || (alone && !*text);
	if (quoted) putc('"', out);
	if (formula) putc('\'', out);
	for (size_t left = strlen(text); left;) {
		size_t run = 0;
		while (run < left && text[run] >= ' ' && text[run] < 0x7f && text[run] != '"') run++;
		fwrite(text, 1, run, out);
		text += run;
		left -= run;
		if (!left) break;
		size_t unsafe = strchr("\t\n", *text) ? 0 : lk_unsafe_length(text, left);
		size_t taken = unsafe ? unsafe : lk_utf8_length(text, left);
		if (*text == '"') putc('"', out);
		for (size_t i = 0; i < unsafe; i++) fprintf(out, "\\x%02x", (unsigned char)text[i]);
		if (!unsafe) fwrite(text, 1, taken, out);
		text += taken;
		left -= taken;
	}
	if (quoted) putc('"', out);
}

static const char *machine_text(const lk_cell *cell, char digits[LK_DIGITS]) {
	if (cell->kind == LK_CELL_NUMBER) return lk_cell_digits(cell->number, digits);
	if (cell->kind == LK_CELL_BOOL) return cell->number != 0 ? "true" : "false";
	return cell->kind == LK_CELL_TEXT ? cell->text : "";
}

void lk_table_csv(const lk_table *table, FILE *out) {
	char digits[LK_DIGITS];
	bool alone = table->count == 1;
	if (!table->count) return;
	for (int row = -1; row < table->rows; row++) {
		for (int i = 0; i < table->count; i++) {
			const lk_cell *cell = row < 0 ? NULL : lk_table_cell(table, row, i);
			if (i) putc(',', out);
			formats_put_field(cell ? machine_text(cell, digits) : lk_table_key(table, i),
			                  !cell || cell->kind == LK_CELL_TEXT, !i, alone, out);
		}
		putc('\n', out);
	}
}

static void put_member(lk_json_writer *writer, const char *key, const lk_cell *cell) {
	switch (cell->kind) {
	case LK_CELL_TEXT: lk_json_put_text(writer, key, cell->text); break;
	case LK_CELL_NUMBER: lk_json_put_number(writer, key, cell->number); break;
	case LK_CELL_BOOL: lk_json_put_bool(writer, key, cell->number != 0); break;
	default: lk_json_put_null(writer, key);
	}
}

static void put_object(lk_json_writer *writer, const lk_table *table, int row) {
	lk_json_object(writer, NULL);
	for (int i = 0; i < table->count; i++)
		put_member(writer, lk_table_key(table, i), lk_table_cell(table, row, i));
	lk_json_object_end(writer);
}

static void formats_put_rows(lk_json_writer *writer, const char *key, const lk_table *table) {
	lk_json_array(writer, key);
	for (int row = 0; row < table->rows; row++) put_object(writer, table, row);
	lk_json_array_end(writer);
}

void lk_json_put_table(lk_json_writer *writer, const char *key, const lk_table *table) {
	if (table->status == LK_ERR_MEMORY) writer->out_of_memory = true;
	else if (table->status != LK_OK) writer->wrong = true;
	formats_put_rows(writer, key, table);
}

lk_status lk_table_json(const lk_table *table, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/table/1", table->failed_check);
	lk_json_put_text(&w, "table", table->name);
	formats_put_rows(&w, "rows", table);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* One document a line; the caller flushes, once. */
void lk_table_jsonl(const lk_table *table, FILE *out) {
	for (int row = 0; row < table->rows; row++) {
		lk_json_writer w;
		lk_json_begin(&w, out, true);
		put_object(&w, table, row);
		putc('\n', out);
	}
}
