/* output.c: one way out for all views, and the numbers that they share. */
#include "view/table/output.h"
#include "view/table/table_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "system/memory.h"
#include "io/stream.h"
#include "base/text.h"
#include "lockstep/view.h"
#include "view/table/table_internal.h"

lk_status lk_writing_check(const lk_writing *writing, lk_error *err) {
	if (writing->format < 0 || writing->format >= LK_FORMATS)
		return lk_fail(err, LK_ERR_INPUT, NULL, "unknown format %d", writing->format);
	if (writing->format != LK_FORMAT_SQLITE || writing->path) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
	return lk_hint(err, "add --file NAME.sqlite");
}

/* What was made goes out in one piece: where a part of it cannot be written, nothing follows. */
static lk_status write_made(const char *text, size_t size, FILE *out, lk_error *err) {
	errno = 0;
	if (fwrite(text, 1, size, out) == size && fflush(out) == 0 && !ferror(out)) return LK_OK;
	int code = errno;
	if (!code) return lk_fail(err, LK_ERR_IO, "output", "cannot write");
	return lk_fail(err, LK_ERR_IO, "output", "cannot write: %s", strerror(code));
}

/* Made in memory first: what fails on the way leaves no part of an answer on a stream. */
static lk_status write_stream(const lk_writing *writing, lk_writer *write, const void *what,
                              lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	FILE *made = lk_memory_open(&text, &size);
	if (!made) return lk_oom(err);
	lk_status status = write(what, writing->colour, made, err);
	if (!lk_memory_close(made)) status = lk_oom(err);
	if (status == LK_OK) status = write_made(text, size, writing->out, err);
	free(text);
	return status;
}

lk_status lk_write_through(const lk_writing *writing, lk_writer *write, const void *what,
                           lk_error *err) {
	if (!writing->path) return write_stream(writing, write, what, err);
	lk_sink *sink;
	LK_TRY(lk_sink_open(writing->path, &sink, err));
	FILE *file = lk_sink_file(sink);
	lk_status status = file ? write(what, false, file, err) : lk_oom(err);
	/* A disk that is full makes the writer fail first, and the commit tells why. */
	if (status == LK_OK || lk_sink_failed(sink)) return lk_sink_commit(sink, err);
	lk_sink_abandon(sink);
	return status;
}

static lk_status output_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	(void)colour;
	(void)err; /* what fails to be written is noticed by the stream */
	fputs(what, out);
	if (!lk_ends_in(what, "\n")) fputc('\n', out);
	return LK_OK;
}

lk_status lk_text_save(const char *text, const char *path, FILE *out, lk_error *err) {
	lk_writing writing = {.path = path, .out = out};
	return lk_write_through(&writing, output_write_text, text, err);
}

struct formatted {
	const lk_table *table;
	lk_format format;
};

static lk_status write_formatted(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct formatted *formatted = what;
	return lk_table_write(formatted->table, formatted->format, colour, out, err);
}

lk_status lk_write_table(const lk_writing *writing, lk_table *table, lk_error *err) {
	if (!table) return lk_oom(err);
	struct formatted f = {table, (lk_format)writing->format};
	lk_status status = lk_writing_check(writing, err);
	if (status == LK_OK && writing->format == LK_FORMAT_SQLITE)
		status = lk_table_sqlite(table, writing->path, err);
	else if (status == LK_OK) status = lk_write_through(writing, write_formatted, &f, err);
	lk_table_free(table);
	return status;
}

lk_status lk_put_table(lk_table *table, bool colour, FILE *out, lk_error *err) {
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	return status;
}

lk_status lk_write_database(const lk_writing *writing, lk_table *const *tables, int count,
                            lk_error *err) {
	lk_status status = lk_writing_check(writing, err);
	for (int i = 0; status == LK_OK && i < count; i++)
		if (!tables[i]) status = lk_oom(err);
	if (status == LK_OK)
		status = lk_tables_sqlite((const lk_table *const *)tables, count, writing->path, err);
	for (int i = 0; i < count; i++) lk_table_free(tables[i]);
	return status;
}

/* ---- text and numbers ---- */

lk_status lk_put_safe(const char *text, FILE *out, lk_error *err) {
	size_t room = strlen(text) * 4 + 1;
	char *safe = malloc(room);
	if (!safe) return lk_oom(err);
	fputs(lk_escape(text, safe, room), out);
	free(safe);
	return LK_OK;
}

lk_status lk_put_wrapped(const char *text, int indent, int column, FILE *out, lk_error *err) {
	size_t room = strlen(text) * 4 + 1;
	char *safe = malloc(room);
	if (!safe) return lk_oom(err);
	lk_wrap(lk_escape(text, safe, room), false, indent, column, out);
	free(safe);
	return LK_OK;
}

lk_status lk_put_labelled(const char *label, const char *text, FILE *out, lk_error *err) {
	if (!text || !*text) return LK_OK;
	int indent = fprintf(out, "%-10s ", label);
	LK_TRY(lk_put_wrapped(text, indent, indent, out, err));
	putc('\n', out);
	return LK_OK;
}

lk_status lk_put_fitted(lk_table *table, const char *const *keys, const char *all, bool colour,
                        FILE *out, lk_error *err) {
	lk_table_left_out fitted = {.same = "", .more = ""};
	char line[600];
	lk_status status = LK_OK;
	if (!table) return lk_oom(err);
	if (all) status = lk_table_fit(table, keys, &fitted, err);
	if (status == LK_OK) status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	if (status != LK_OK) return status;
	if (*fitted.same || *fitted.more) fputc('\n', out);
	if (*fitted.same) {
		snprintf(line, sizeof line, "all rows: %s", fitted.same);
		LK_TRY(lk_put_wrapped(line, 10, 0, out, err));
		fputc('\n', out);
	}
	if (*fitted.more) {
		snprintf(line, sizeof line, "%s also shows: %s", all, fitted.more);
		LK_TRY(lk_put_wrapped(line, (int)strlen(all) + 13, 0, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

char *lk_fixed(double number, int places, char *out, size_t size) {
	if (!isfinite(number) || fabs(number) >= 1e15) return lk_format_count(number, out, size);
	snprintf(out, size, "%.*f", places, number);
	char *comma = strchr(out, ',');
	if (comma) *comma = '.';
	return out;
}

char *lk_grouped(double number, int places, char *out, size_t size) {
	char plain[64];
	lk_fixed(number, places, plain, sizeof plain);
	size_t sign = *plain == '-', digits = strspn(plain + sign, "0123456789"), used = 0;
	if (!isfinite(number) || fabs(number) >= 1e15 || strlen(plain) + digits / 3 >= size)
		return lk_fixed(number, places, out, size);
	for (size_t i = 0; plain[i]; i++) {
		size_t after = i < sign + digits ? sign + digits - i : 0;
		if (i > sign && after && after % 3 == 0) out[used++] = ',';
		out[used++] = plain[i];
	}
	out[used] = '\0';
	return out;
}

char *lk_whole(double number, char *out, size_t size) {
	return lk_fixed(number, 0, out, size);
}

char *lk_tenths(double number, char *out, size_t size) {
	return lk_fixed(number, 1, out, size);
}

char *lk_hundredths(double number, char *out, size_t size) {
	return lk_fixed(number, 2, out, size);
}

char *lk_thousandths(double number, char *out, size_t size) {
	return lk_fixed(number, 3, out, size);
}

char *lk_days(double days, char *out, size_t size) {
	double magnitude = fabs(days);
	int places = 0;
	if (magnitude < 9.995) places = 2;
	else if (magnitude < 999.95) places = 1;
	return lk_grouped(days, places, out, size);
}

char *lk_gib(double bytes, char *out, size_t size) {
	double gib = bytes / 0x1p30;
	return lk_grouped(gib, gib != 0 && fabs(gib) < 1 ? 2 : 1, out, size);
}

char *lk_percent(double share, char *out, size_t size) {
	lk_fixed(share * 100, 1, out, size);
	size_t used = strlen(out);
	if (isfinite(share)) snprintf(out + used, size - used, " %%");
	return out;
}

char *lk_tera(double flops, char *out, size_t size) {
	return lk_fixed(flops / 1e12, 1, out, size);
}

char *lk_samples(double rate, char *out, size_t size) {
	return lk_grouped(rate, fabs(rate) < 100 ? 1 : 0, out, size);
}

void lk_put_heading(const char *text, bool colour, FILE *out) {
	fprintf(out, "\n%s%s%s\n", lk_bold(colour), text, lk_plain(colour));
}
