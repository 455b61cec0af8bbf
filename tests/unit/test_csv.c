/* test_csv.c: random tables are written as RFC 4180 asks and must read back field by field;
 * mistakes are refused with the line they stand in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "io/csv.h"
#include "base/stats.h"

static uint64_t draw(uint64_t *seed, uint64_t below) {
	return lk_hash64((*seed)++) % below;
}

/* ---- random tables ---- */

enum { MAX_FIELD = 24, MAX_COLUMNS = 6, MAX_ROWS = 60 };

struct table {
	int columns, rows;
	char names[MAX_COLUMNS][MAX_FIELD];
	char fields[MAX_ROWS][MAX_COLUMNS][MAX_FIELD];
	int lines[MAX_ROWS]; /* where the rows begin */
};

static void random_field(char *out, uint64_t *seed) {
	static const char bytes[] = "ab,\"\n\r #'\t\xc3\xa9;1.5";
	uint64_t length = draw(seed, MAX_FIELD - 1);
	for (uint64_t i = 0; i < length; i++) out[i] = bytes[draw(seed, sizeof bytes - 1)];
	out[length] = '\0';
}

/* Writes a field, counting the line ends in it. */
static void write_field(FILE *file, const char *field, bool must_quote, int *line) {
	if (!must_quote && !strpbrk(field, ",\"\r\n")) {
		fputs(field, file);
		return;
	}
	putc('"', file);
	for (; *field; field++) {
		if (*field == '"') putc('"', file);
		if (*field == '\n') ++*line;
		putc(*field, file);
	}
	putc('"', file);
}

static void write_row(FILE *file, char (*fields)[MAX_FIELD], int columns, uint64_t *seed, int *line,
                      bool last) {
	for (int c = 0; c < columns; c++) {
		/* A row must not look like a comment or a blank line. */
		bool first = c == 0 && (fields[c][0] == '#' || fields[c][0] == '\0');
		if (c) putc(',', file);
		write_field(file, fields[c], first || draw(seed, 4) == 0, line);
	}
	if (last) return;
	fputs(draw(seed, 2) ? "\n" : "\r\n", file);
	++*line;
}

static char *random_table(struct table *table, uint64_t *seed, size_t *size) {
	char *text;
	int line = 1;
	FILE *file = open_memstream(&text, size);
	table->columns = 1 + (int)draw(seed, MAX_COLUMNS);
	table->rows = (int)draw(seed, MAX_ROWS);
	if (draw(seed, 4) == 0) fputs("\xef\xbb\xbf", file);
	for (int c = 0; c < table->columns; c++)
		snprintf(table->names[c], MAX_FIELD, "column, \"%d\"", c);
	write_row(file, table->names, table->columns, seed, &line, false);
	for (int r = 0; r < table->rows; r++) {
		for (uint64_t n = draw(seed, 3); n > 0; n--, line++)
			fputs(draw(seed, 2) ? "# a \"comment\", with marks\n" : "\r\n", file);
		for (int c = 0; c < table->columns; c++) random_field(table->fields[r][c], seed);
		table->lines[r] = line;
		write_row(file, table->fields[r], table->columns, seed, &line,
		          r + 1 == table->rows && draw(seed, 2));
	}
	fclose(file);
	return text;
}

static void tables_read_back(void **state) {
	(void)state;
	static struct table t;
	uint64_t seed = 1;
	for (int i = 0; i < 2000; i++) {
		size_t size;
		char *text = random_table(&t, &seed, &size);
		lk_stream *in;
		lk_csv *csv;
		lk_error err;
		bool more;
		assert_int_equal(lk_stream_memory(text, size, "t.csv", &in, &err), LK_OK);
		assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
		assert_int_equal(lk_csv_columns(csv), t.columns);
		for (int c = 0; c < t.columns; c++) assert_int_equal(lk_csv_column(csv, t.names[c]), c);
		for (int r = 0; r < t.rows; r++) {
			char where[32];
			assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
			assert_true(more);
			for (int c = 0; c < t.columns; c++)
				assert_string_equal(lk_csv_field(csv, c), t.fields[r][c]);
			snprintf(where, sizeof where, "t.csv:%d", t.lines[r]);
			assert_string_equal(lk_csv_where(csv), where);
		}
		for (int k = 0; k < 2; k++) {
			assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
			assert_false(more);
		}
		lk_csv_close(csv);
		lk_stream_close(in);
		free(text);
	}
}

/* One field of 200 KB with quotes and line ends at every place of the window's edge. */
static void fields_cross_the_window(void **state) {
	(void)state;
	enum { LENGTH = 200000 };
	char *text = malloc(2 * LENGTH + 64), *field = malloc(LENGTH + 1), *p = text;
	assert_non_null(text);
	assert_non_null(field);
	p += sprintf(p, "a,b\n1,\"");
	uint64_t seed = 6;
	for (size_t i = 0; i < LENGTH; i++) {
		field[i] = "x\"\n,"[draw(&seed, 4)];
		if (field[i] == '"') *p++ = '"';
		*p++ = field[i];
	}
	field[LENGTH] = '\0';
	p += sprintf(p, "\"\n2,3\n");
	lk_stream *in;
	lk_csv *csv;
	lk_error err;
	bool more;
	assert_int_equal(lk_stream_memory(text, (size_t)(p - text), "t.csv", &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
	assert_string_equal(lk_csv_field(csv, 1), field);
	assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
	assert_string_equal(lk_csv_field(csv, lk_csv_column(csv, "b")), "3");
	lk_csv_close(csv);
	lk_stream_close(in);
	free(text);
	free(field);
}

/* Reads all rows; the first error, or LK_OK. */
static lk_status read_all(const char *text, size_t size, lk_error *err) {
	lk_stream *in;
	lk_csv *csv = NULL;
	bool more = true;
	assert_int_equal(lk_stream_memory(text, size, "t.csv", &in, err), LK_OK);
	lk_status status = lk_csv_open(in, &csv, err);
	while (status == LK_OK && more) status = lk_csv_next(csv, &more, err);
	lk_csv_close(csv);
	lk_stream_close(in);
	return status;
}

static void mistakes_have_lines(void **state) {
	(void)state;
	static const struct {
		const char *text, *where;
	} cases[] = {
		{"", "t.csv:1"},
		{"# only a comment\n\n", "t.csv:3"},
		{"a,b\n1\n", "t.csv:2"},
		{"a,b\n1,2\n1,2,3\n", "t.csv:3"},
		{"a,b\n\n#\n1,\"2", "t.csv:4"},
		{"a,b\n1,\"2\"x\n", "t.csv:2"},
		{"a,b\n1,2\"\n", "t.csv:2"},
		{"a,b,a\n", "t.csv:1"},
		{"a,b\n1,2\rx\n", "t.csv:2"},
		{"a,b\n1,\"\n\n", "t.csv:2"},
		{"a\n\"b\n\"c\n", "t.csv:3"},
	};
	lk_error err;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(read_all(cases[i].text, strlen(cases[i].text), &err), LK_ERR_INPUT);
		assert_string_equal(err.where, cases[i].where);
		assert_true(err.hint[0] != '\0');
	}
	assert_int_equal(read_all("a,b\n1,\0\n", 8, &err), LK_ERR_INPUT);
	assert_int_equal(read_all("a,b\n1,\"\0\"\n", 10, &err), LK_ERR_INPUT);
	assert_int_equal(read_all("a,b\n", 4, &err), LK_OK);
	assert_int_equal(read_all(",\n1,2", 5, &err), LK_OK); /* columns without names are allowed */
}

static void columns_by_name(void **state) {
	(void)state;
	lk_stream *in;
	lk_csv *csv;
	lk_error err;
	bool more;
	static const char text[] = "name,value\nx,\"\"\n\"\",y";
	assert_int_equal(lk_stream_memory(text, strlen(text), "t.csv", &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	assert_int_equal(lk_csv_column(csv, "absent"), -1);
	assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
	assert_string_equal(lk_csv_field(csv, -1), "");
	assert_string_equal(lk_csv_field(csv, 2), "");
	assert_string_equal(lk_csv_field(csv, 0), "x");
	assert_string_equal(lk_csv_field(csv, 1), "");
	assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
	assert_string_equal(lk_csv_field(csv, 0), "");
	assert_string_equal(lk_csv_field(csv, 1), "y");
	lk_csv_close(csv);
	lk_stream_close(in);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_read_back),
		cmocka_unit_test(fields_cross_the_window),
		cmocka_unit_test(mistakes_have_lines),
		cmocka_unit_test(columns_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
