/* csv.c: RFC 4180 reader. A record is split into one text buffer, field after field; offsets, not
 * pointers, are kept while the buffer may still move. Line numbers count physical lines, as in
 * editors. */
#include "base/arena.h"
#include "io/csv.h"
#include "io/form.h"

#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/text.h"
#include "base/vec.h"
#include "base/sort.h"

enum { WINDOW = 1 << 16, RECORD_LIMIT = 1 << 26, COLUMN_LIMIT = 1 << 16 };

struct lk_csv {
	lk_stream *in;
	lk_arena arena;
	char *window;
	size_t at, end;        /* of the window */
	long long line;        /* of the byte at `at` */
	long long row_line;    /* where the current row began */
	LK_VEC(char) text;     /* the fields of the row, each ended by '\0' */
	LK_VEC(size_t) starts; /* of the fields in `text` */
	const char **names;
	size_t columns;
	char first[80]; /* of the first line, if that is a comment */
	char where[256];
};

enum { NOTHING = -1 }; /* the end of the file */

/* Peek at the next byte; NOTHING at the end. */
static lk_status csv_peek(lk_csv *csv, int *byte, lk_error *err) {
	if (csv->at == csv->end) {
		csv->at = 0;
		csv->end = 0;
		LK_TRY(lk_stream_read(csv->in, csv->window, WINDOW, &csv->end, err));
	}
	LK_ASSERT(csv->end <= WINDOW && (csv->at < csv->end || csv->end == 0));
	*byte = csv->end ? (unsigned char)csv->window[csv->at] : NOTHING;
	return LK_OK;
}

static void csv_take(lk_csv *csv) {
	LK_ASSERT(csv->at < csv->end);
	if (csv->window[csv->at++] == '\n') csv->line++;
}

static const char *where_line(lk_csv *csv, long long line) {
	snprintf(csv->where, sizeof csv->where, "%.200s:%lld", lk_stream_name(csv->in), line);
	return csv->where;
}

static lk_status csv_wrong(lk_csv *csv, lk_error *err, const char *what, const char *hint) {
	lk_fail(err, LK_ERR_INPUT, where_line(csv, csv->line), "%s", what);
	return lk_hint(err, "%s", hint);
}

static lk_status csv_put(lk_csv *csv, const char *bytes, size_t count, lk_error *err) {
	LK_ASSERT(csv->text.count <= RECORD_LIMIT);
	bool fits = count <= RECORD_LIMIT - csv->text.count;
	if (!fits) return csv_wrong(csv, err, "a row of over 64 MiB", "is a quote not closed?");
	bool room = csv->text.capacity - csv->text.count >= count;
	if (!room && !lk_reserve(&csv->text, count)) return lk_oom(err);
	if (count) memcpy(csv->text.at + csv->text.count, bytes, count);
	csv->text.count += count;
	return LK_OK;
}

/* Copy the bytes of the window up to one that needs a decision. */
static lk_status csv_put_run(lk_csv *csv, bool quoted, lk_error *err) {
	size_t from = csv->at, i = from;
	for (; i < csv->end; i++) {
		char c = csv->window[i];
		if (c == '"' || c == '\n' || c == '\0' || (!quoted && (c == ',' || c == '\r'))) break;
	}
	LK_TRY(csv_put(csv, csv->window + from, i - from, err));
	csv->at = i;
	return LK_OK;
}

/* The rest of a quoted field, after its opening quote. */
static lk_status quoted_field(lk_csv *csv, lk_error *err) {
	long long opened = csv->line;
	for (;;) {
		LK_TRY(csv_put_run(csv, true, err));
		int c;
		LK_TRY(csv_peek(csv, &c, err));
		if (c == NOTHING) {
			lk_fail(err, LK_ERR_INPUT, where_line(csv, opened), "a quoted field is not closed");
			return lk_hint(err, "end it with a quote; quotes inside a field are written twice");
		}
		if (c == '\0') return csv_wrong(csv, err, "a NUL byte", "is this a text file?");
		if (c == '"') {
			csv_take(csv);
			LK_TRY(csv_peek(csv, &c, err));
			if (c != '"') return LK_OK;
		}
		LK_TRY(csv_put(csv, csv->window + csv->at, 1, err));
		csv_take(csv);
	}
}

/* Read one field; *last is set if a line end or the end of the file follows it. */
static lk_status csv_field(lk_csv *csv, bool *last, lk_error *err) {
	if (csv->starts.count >= COLUMN_LIMIT)
		return csv_wrong(csv, err, "over 65536 fields in a row", "is this a CSV file?");
	if (!lk_push(&csv->starts)) return lk_oom(err);
	*lk_last(&csv->starts) = csv->text.count;
	int c;
	LK_TRY(csv_peek(csv, &c, err));
	bool quoted = c == '"';
	if (quoted) {
		csv_take(csv);
		LK_TRY(quoted_field(csv, err));
	}
	for (;;) {
		LK_TRY(csv_peek(csv, &c, err));
		if (c == NOTHING || c == '\n' || c == ',') break;
		if (c == '\0') return csv_wrong(csv, err, "a NUL byte", "is this a text file?");
		if (c == '\r') { /* part of a line end, or an old-style line end */
			csv_take(csv);
			LK_TRY(csv_peek(csv, &c, err));
			if (c == '\n' || c == NOTHING) break;
			return csv_wrong(csv, err, "a carriage return inside a row",
			                 "end lines with \\n or \\r\\n");
		}
		if (quoted)
			return csv_wrong(csv, err, "text after a closing quote",
			                 "write a quote inside a field twice");
		if (c == '"')
			return csv_wrong(csv, err, "a quote inside a field that does not begin with one",
			                 "quote it all");
		LK_TRY(csv_put_run(csv, false, err));
	}
	*last = c != ',';
	if (c != NOTHING) csv_take(csv);
	return lk_push(&csv->text) ? LK_OK : lk_oom(err); /* the end of the field: '\0' */
}

/* Keep the first line's statement of the file's form. */
static void csv_keep_comment(lk_csv *csv, int byte) {
	size_t used = strlen(csv->first);
	if (csv->line == 1 && byte != '\r' && byte != '\n' && used + 1 < sizeof csv->first)
		csv->first[used] = (char)byte;
}

/* Skips blank lines and comments; *more is false at the end of the file. */
static lk_status to_row(lk_csv *csv, bool *more, lk_error *err) {
	bool comment = false, fresh = true; /* fresh: nothing of this line was read */
	for (;;) {
		int c;
		LK_TRY(csv_peek(csv, &c, err));
		*more = c != NOTHING;
		if (c == NOTHING) return LK_OK;
		if (fresh && c == '#') comment = true;
		if (!comment && c != '\n' && c != '\r') return LK_OK;
		fresh = c == '\n';
		if (comment) csv_keep_comment(csv, c);
		if (c == '\n') comment = false;
		csv_take(csv);
	}
}

static lk_status csv_row(lk_csv *csv, bool *more, lk_error *err) {
	csv->text.count = csv->starts.count = 0;
	LK_TRY(to_row(csv, more, err));
	if (!*more) return LK_OK;
	csv->row_line = csv->line;
	for (bool last = false; !last;) LK_TRY(csv_field(csv, &last, err));
	return LK_OK;
}

static lk_status csv_check_names(lk_csv *csv, lk_error *err) {
	const char **sorted = LK_ARRAY(&csv->arena, const char *, csv->columns);
	if (!sorted) return lk_oom(err);
	memcpy(sorted, csv->names, csv->columns * sizeof *sorted);
	lk_sort(sorted, csv->columns, sizeof *sorted, lk_by_text);
	for (size_t i = 1; i < csv->columns; i++) {
		if (!*sorted[i] || strcmp(sorted[i - 1], sorted[i]) != 0) continue;
		lk_fail(err, LK_ERR_INPUT, where_line(csv, csv->row_line),
		        "two columns are named \"%.100s\"", sorted[i]);
		return lk_hint(err, "rename one of them");
	}
	return LK_OK;
}

static lk_status csv_header(lk_csv *csv, lk_error *err) {
	int c;
	LK_TRY(csv_peek(csv, &c, err));
	if (csv->end >= 3 && memcmp(csv->window, "\xef\xbb\xbf", 3) == 0)
		csv->at = 3; /* a byte-order mark */
	bool more;
	LK_TRY(csv_row(csv, &more, err));
	if (!more) return csv_wrong(csv, err, "no rows", "the first row names the columns");
	csv->columns = csv->starts.count;
	csv->names = LK_ARRAY(&csv->arena, const char *, csv->columns);
	if (!csv->names) return lk_oom(err);
	for (size_t i = 0; i < csv->columns; i++) {
		csv->names[i] = lk_arena_strdup(&csv->arena, csv->text.at + csv->starts.at[i]);
		if (!csv->names[i]) return lk_oom(err);
	}
	return csv_check_names(csv, err);
}

lk_status lk_csv_open(lk_stream *in, lk_csv **out, lk_error *err) {
	lk_csv *csv = calloc(1, sizeof *csv);
	*out = NULL;
	if (!csv) return lk_oom(err);
	csv->in = in;
	csv->line = 1;
	csv->window = malloc(WINDOW);
	lk_status status = csv->window ? csv_header(csv, err) : lk_oom(err);
	if (status != LK_OK) {
		lk_csv_close(csv);
		return status;
	}
	*out = csv;
	return LK_OK;
}

void lk_csv_close(lk_csv *csv) {
	if (!csv) return;
	free(csv->window);
	lk_vec_free(&csv->text);
	lk_vec_free(&csv->starts);
	lk_arena_free(&csv->arena);
	free(csv);
}

lk_status lk_csv_next(lk_csv *csv, bool *more, lk_error *err) {
	LK_TRY(csv_row(csv, more, err));
	if (!*more || csv->starts.count == csv->columns) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where_line(csv, csv->row_line),
	        "%zu fields where the header has %zu", csv->starts.count, csv->columns);
	return lk_hint(err, "quote fields that hold commas");
}

int lk_csv_column(const lk_csv *csv, const char *name) {
	for (size_t i = 0; i < csv->columns; i++) {
		if (strcmp(csv->names[i], name) == 0) return (int)i;
	}
	return -1;
}

lk_status lk_csv_find(const lk_csv *csv, const char *const *names, int count, int needed,
                      const char *what, int *at, lk_error *err) {
	LK_ASSERT(0 <= needed && needed <= count);
	const char *missing = NULL;
	char all[200];
	lk_text text = lk_text_begin(all, sizeof all);
	for (int i = 0; i < count; i++) {
		at[i] = lk_csv_column(csv, names[i]);
		if (i >= needed) continue;
		if (at[i] < 0 && !missing) missing = names[i];
		const char *between = i + 1 == needed ? " and " : ", ";
		lk_text_add(&text, "%s%s", i ? between : "", names[i]);
	}
	if (!missing) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lk_stream_name(csv->in),
	        "the column %s is missing: this is not a %s", missing, what);
	return lk_hint(err, "one has the columns %s", all);
}

lk_status lk_csv_refuse_others(const lk_csv *csv, const char *const *names, int count,
                               const char *what, lk_error *err) {
	char known[200], shown[64];
	lk_text text = lk_text_begin(known, sizeof known);
	for (int i = 0; i < count; i++) lk_text_add(&text, "%s%s", i > 0 ? ", " : "", names[i]);
	for (size_t column = 0; column < csv->columns; column++) {
		int i = 0;
		while (i < count && strcmp(names[i], csv->names[column]) != 0) i++;
		if (i < count) continue;
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "unknown column \"%s\" in a %s",
		        lk_escape(csv->names[column], shown, sizeof shown), what);
		const char *near = lk_nearest(csv->names[column], names, (size_t)count);
		return near ? lk_hint(err, "did you mean %s? one of %s", near, known)
		            : lk_hint(err, "leave it out; the columns are %s", known);
	}
	return LK_OK;
}

int lk_csv_columns(const lk_csv *csv) {
	return (int)csv->columns;
}

const char *lk_csv_name(const lk_csv *csv, int column) {
	return column < 0 || (size_t)column >= csv->columns ? "" : csv->names[column];
}

const char *lk_csv_field(const lk_csv *csv, int column) {
	if (column < 0 || (size_t)column >= csv->starts.count) return "";
	LK_ASSERT(csv->starts.at[column] < csv->text.count);
	return csv->text.at + csv->starts.at[column];
}

const char *lk_csv_named(const lk_csv *csv, const char *name) {
	return lk_csv_field(csv, lk_csv_column(csv, name));
}

const char *lk_csv_where(const lk_csv *csv) {
	/* The reader itself is not constant: only its callers promise not to change it. */
	return where_line((lk_csv *)csv, csv->row_line);
}

const char *lk_csv_place(const lk_csv *csv, const char *what, char out[LK_CSV_PLACE]) {
	snprintf(out, LK_CSV_PLACE, "%.200s: %s", lk_csv_where(csv), what);
	return out;
}

lk_status lk_csv_real(const lk_csv *csv, int column, double low, double high, double *out,
                      lk_error *err) {
	const char *text = lk_csv_field(csv, column);
	char where[LK_CSV_PLACE];
	*out = NAN;
	if (!*text) return LK_OK;
	snprintf(where, sizeof where, "%.200s: column %s", lk_csv_where(csv), lk_csv_name(csv, column));
	return lk_parse_real(text, low, high, out, where, err);
}

static lk_status csv_read_rows(lk_csv *csv, const lk_csv_table *table, void *context,
                               lk_error *err) {
	int at[LK_CSV_MOST_COLUMNS], rows = 0;
	if (table->count > LK_CSV_MOST_COLUMNS)
		return lk_fail(err, LK_ERR_INTERNAL, table->what, "%d columns", table->count);
	LK_TRY(lk_form_check_line(csv->first, where_line(csv, 1), err));
	LK_TRY(lk_csv_find(csv, table->columns, table->count, table->needed, table->what, at, err));
	if (table->head) LK_TRY(table->head(context, csv, at, err));
	for (bool more;;) {
		LK_TRY(lk_csv_next(csv, &more, err));
		if (!more) return LK_OK;
		if (rows++ == table->most)
			return lk_fail(err, LK_ERR_INPUT, lk_stream_name(csv->in), "more than %d rows",
			               table->most);
		LK_TRY(table->row(context, csv, at, err));
	}
}

lk_status lk_csv_read(lk_stream *in, const lk_csv_table *table, void *context, lk_error *err) {
	lk_csv *csv;
	LK_TRY(lk_csv_open(in, &csv, err));
	lk_status status = csv_read_rows(csv, table, context, err);
	lk_csv_close(csv);
	return status;
}
