/* json_writer.c: JSON out. Whatever the caller passes, the text is valid JSON: invalid UTF-8
 * becomes U+FFFD, non-finite numbers become null. */
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include "base/check.h"
#include "base/text.h"

void lk_json_begin(lk_json_writer *writer, FILE *file, bool compact) {
	*writer = (lk_json_writer){.file = file, .compact = compact};
}

static void write_escape(FILE *file, unsigned char c) {
	static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *found = c ? strchr(bytes, c) : NULL;
	if (found) fprintf(file, "\\%c", letters[found - bytes]);
	else fprintf(file, "\\u%04x", c);
}

/* Write a character of 2 or 3 bytes by its number: one that a terminal would obey. */
static void write_code_point(FILE *file, const char *text, size_t length) {
	LK_ASSERT(length == 2 || length == 3);
	const unsigned char *byte = (const unsigned char *)text;
	unsigned point = length == 2
	                     ? (byte[0] & 0x1fu) << 6 | (byte[1] & 0x3fu)
	                     : (byte[0] & 0x0fu) << 12 | (byte[1] & 0x3fu) << 6 | (byte[2] & 0x3fu);
	fprintf(file, "\\u%04x", point);
}

static bool writer_plain(unsigned char c) {
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void writer_write_text(FILE *file, const char *text) {
	size_t left = strlen(text);
	putc('"', file);
	while (left) {
		size_t run = 0;
		while (run < left && writer_plain((unsigned char)text[run])) run++;
		fwrite(text, 1, run, file);
		text += run;
		left -= run;
		if (!left) break;
		size_t length = lk_utf8_length(text, left);
		if (length > 1 && lk_unsafe_length(text, left)) write_code_point(file, text, length);
		else if (length > 1) fwrite(text, 1, length, file);
		else if (length) write_escape(file, (unsigned char)*text);
		else fputs("\xef\xbf\xbd", file);
		text += length ? length : 1;
		left -= length ? length : 1;
	}
	putc('"', file);
}

static void new_line(lk_json_writer *writer) {
	if (writer->compact) return;
	fprintf(writer->file, "\n%*s", writer->depth * 2, "");
}

/* Write what precedes a value: comma, line, key. */
static void writer_before(lk_json_writer *writer, const char *key) {
	LK_ASSERT(0 <= writer->depth && writer->depth <= LK_JSON_DEPTH);
	if (writer->depth > 0) {
		bool *filled = &writer->filled[writer->depth - 1];
		if (*filled) putc(',', writer->file);
		*filled = true;
		new_line(writer);
	}
	if (!key) return;
	writer_write_text(writer->file, key);
	fputs(writer->compact ? ":" : ": ", writer->file);
}

static void open_value(lk_json_writer *writer, const char *key, char bracket) {
	if (writer->depth >= LK_JSON_DEPTH) {
		writer->wrong = true;
		return;
	}
	writer_before(writer, key);
	putc(bracket, writer->file);
	writer->filled[writer->depth++] = false;
}

static void close_value(lk_json_writer *writer, char bracket) {
	if (writer->depth == 0) {
		writer->wrong = true;
		return;
	}
	if (writer->filled[--writer->depth]) new_line(writer);
	putc(bracket, writer->file);
}

void lk_json_object(lk_json_writer *writer, const char *key) {
	open_value(writer, key, '{');
}

void lk_json_object_end(lk_json_writer *writer) {
	close_value(writer, '}');
}

void lk_json_array(lk_json_writer *writer, const char *key) {
	open_value(writer, key, '[');
}

void lk_json_array_end(lk_json_writer *writer) {
	close_value(writer, ']');
}

void lk_json_put_text(lk_json_writer *writer, const char *key, const char *text) {
	writer_before(writer, key);
	if (text) writer_write_text(writer->file, text);
	else fputs("null", writer->file);
}

void lk_json_put_number(lk_json_writer *writer, const char *key, double number) {
	char digits[32];
	writer_before(writer, key);
	fputs(isfinite(number) ? lk_format_shortest(number, digits, sizeof digits) : "null",
	      writer->file);
}

void lk_json_put_real(lk_json_writer *writer, const char *key, double number) {
	if (isfinite(number)) lk_json_put_number(writer, key, number);
	else lk_json_put_text(writer, key, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

void lk_json_put_integer(lk_json_writer *writer, const char *key, long long number) {
	writer_before(writer, key);
	fprintf(writer->file, "%lld", number);
}

void lk_json_put_bool(lk_json_writer *writer, const char *key, bool value) {
	writer_before(writer, key);
	fputs(value ? "true" : "false", writer->file);
}

void lk_json_put_null(lk_json_writer *writer, const char *key) {
	writer_before(writer, key);
	fputs("null", writer->file);
}

void lk_json_put_document(lk_json_writer *writer, const char *key, const char *document,
                          size_t size) {
	bool quoted = false;
	size_t from = 0;
	writer_before(writer, key);
	for (size_t i = 0; i < size; i++) {
		if (document[i] == '\\' && quoted) i++;
		else if (document[i] == '"') quoted = !quoted;
		else if (!quoted && (document[i] == ' ' || document[i] == '\n')) {
			fwrite(document + from, 1, i - from, writer->file);
			from = i + 1;
		}
	}
	if (from < size) fwrite(document + from, 1, size - from, writer->file);
}

void lk_json_put_value(lk_json_writer *writer, const char *key, const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_OBJECT:
		lk_json_object(writer, key);
		for (size_t i = 0; i < value->count; i++)
			lk_json_put_value(writer, value->keys[i], &value->items[i]);
		lk_json_object_end(writer);
		break;
	case LK_JSON_ARRAY:
		lk_json_array(writer, key);
		for (size_t i = 0; i < value->count; i++) lk_json_put_value(writer, NULL, &value->items[i]);
		lk_json_array_end(writer);
		break;
	case LK_JSON_STRING: lk_json_put_text(writer, key, value->text); break;
	case LK_JSON_NUMBER: lk_json_put_number(writer, key, value->number); break;
	case LK_JSON_TRUE: lk_json_put_bool(writer, key, true); break;
	case LK_JSON_FALSE: lk_json_put_bool(writer, key, false); break;
	default: lk_json_put_null(writer, key); break;
	}
}

void lk_json_put_error(lk_json_writer *writer, const char *key, const lk_error *err) {
	char line[sizeof *err];
	lk_json_object(writer, key);
	lk_json_put_text(writer, "where", err->where);
	lk_json_put_text(writer, "what", err->what);
	lk_json_put_text(writer, "remedy", err->hint);
	lk_json_put_text(writer, "text", lk_error_text(err, line, sizeof line));
	lk_json_object_end(writer);
}

lk_status lk_json_finish(lk_json_writer *writer, lk_error *err) {
	if (writer->out_of_memory) return lk_oom(err);
	putc('\n', writer->file);
	bool whole = !writer->wrong && writer->depth == 0;
	if (!whole)
		return lk_fail(err, LK_ERR_INTERNAL, NULL, "objects of the JSON output do not match");
	errno = 0;
	if (fflush(writer->file) == 0 && !ferror(writer->file)) return LK_OK;
	return lk_fail(err, LK_ERR_IO, NULL, "cannot write: %s", strerror(errno ? errno : EIO));
}
