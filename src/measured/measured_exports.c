/* measured_exports.c: files of one kind or another as hits: JSON documents and lines, CSV exports,
 * event files, and logs by their lines. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/csv.h"
#include "io/json.h"
#include "measured/measured_internal.h"

/* ---- JSON ---- */

/* The step that an object states; NAN: none. */
static double object_step(const lk_hits *hits, const lk_value *object, double otherwise) {
	for (size_t i = 0; i < object->count; i++) {
		const char *text = object->items[i].text, *end;
		if (!text || !lk_hits_is_step(hits, object->keys[i])) continue;
		double step = lk_read_number(text, &end);
		if (end > text) return step;
	}
	return otherwise;
}

static void read_json_value(lk_hits *hits, const lk_value *value, double step) {
	if (value->kind == LK_JSON_OBJECT) step = object_step(hits, value, step);
	for (size_t i = 0; i < value->count; i++) {
		const lk_value *item = &value->items[i];
		if (value->kind == LK_JSON_OBJECT && item->text)
			lk_hits_named(hits, value->keys[i], item->text, step);
		if (item->count > 0) read_json_value(hits, item, step);
	}
}

/* False: it is no JSON. */
static bool read_json(lk_hits *hits, const char *text, size_t size) {
	lk_arena arena = {0};
	lk_stream *in = NULL;
	lk_value *document = NULL;
	bool read = lk_stream_memory(text, size, "json", &in, NULL) == LK_OK &&
	            lk_json_document(&arena, in, &document, NULL) == LK_OK;
	/* an answer of lockstep measures nothing */
	bool own = read && lk_begins_with(lk_json_get_text(document, "schema", ""), "lockstep/");
	if (read && !own) read_json_value(hits, document, NAN);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return read;
}

/* ---- CSV ---- */

static size_t line_length(const char *text, const char *end) {
	size_t length = 0, left = (size_t)(end - text);
	while (length < left && text[length] != '\n') length++;
	return length;
}

/* The next field of a line without its quotes, cut to `name`; false at the end. */
static bool next_field(const char **at, const char *end, char name[128]) {
	size_t used = 0;
	bool quoted = false;
	if (*at > end) return false;
	for (; *at < end && (quoted || **at != ','); ++*at) {
		if (**at == '"') quoted = !quoted;
		else if (used + 1 < 128 && **at != '\r') name[used++] = **at;
	}
	name[used] = '\0';
	++*at;
	return true;
}

/* Whether the first line that is no comment names columns that we know, and the next has as many
 * fields. */
static bool is_csv(const lk_hits *hits, const char *text, const char *end) {
	char name[128];
	size_t columns = 0, fields = 0;
	bool known = false;
	while (text < end && *text == '#' && line_length(text, end) < (size_t)(end - text))
		text += line_length(text, end) + 1;
	const char *stop = text + line_length(text, end), *at = text;
	for (; next_field(&at, stop, name); columns++) known |= lk_hits_knows(hits, name);
	if (columns < 2 || !known || stop == end) return false;
	at = stop + 1;
	stop = at + line_length(at, end);
	while (next_field(&at, stop, name)) fields++;
	return fields == columns;
}

static double csv_step(const lk_hits *hits, const lk_csv *csv) {
	for (int i = 0; i < lk_csv_columns(csv); i++) {
		const char *text = lk_csv_field(csv, i), *end;
		if (!*text || !lk_hits_is_step(hits, lk_csv_name(csv, i))) continue;
		double step = lk_read_number(text, &end);
		if (end > text) return step;
	}
	return NAN;
}

/* Rows up to the first that is damaged. Where a column `run` changes, the steps of another run
 * follow those before. */
static void read_csv_rows(lk_hits *hits, lk_csv *csv) {
	bool more = true;
	char run[32] = "", now[32];
	double last = 0, before = 0;
	while (lk_csv_next(csv, &more, NULL) == LK_OK && more) {
		lk_copy(now, sizeof now, lk_csv_named(csv, "run"));
		if (strcmp(now, run) != 0) {
			before = last;
			if (before > 0 && before < 0x1p53 && hits->run_count < LK_MEASURED_RUNS)
				hits->run_after[hits->run_count++] = (int64_t)before;
		}
		lk_copy(run, sizeof run, now);
		double step = csv_step(hits, csv) + before;
		if (step > last) last = step;
		for (int i = 0; i < lk_csv_columns(csv); i++) {
			const char *name = lk_csv_name(csv, i), *field = lk_csv_field(csv, i);
			field += strspn(field, " ");
			if (strcmp(name + strspn(name, " "), "name") == 0)
				lk_copy(hits->device, sizeof hits->device, field);
			else lk_hits_named(hits, name, field, step);
		}
	}
}

static void read_csv(lk_hits *hits, const char *text, size_t size) {
	lk_stream *in = NULL;
	lk_csv *csv = NULL;
	hits->container = "CSV export";
	if (lk_stream_memory(text, size, "csv", &in, NULL) == LK_OK &&
	    lk_csv_open(in, &csv, NULL) == LK_OK)
		read_csv_rows(hits, csv);
	lk_csv_close(csv);
	lk_stream_close(in);
}

/* ---- MLflow ---- */

/* A line of a file of MLflow's metrics, whose name is the metric's: moment in ms, value, step. */
static void read_metric(lk_hits *hits, const char *name, const char *line) {
	const char *at, *value;
	char number[64];
	double moment = lk_read_real(line, &at);
	if (at == line || *at != ' ') return;
	value = at + 1;
	lk_read_real(value, &at);
	if (at == value || *at != ' ') return;
	lk_copy(number, (size_t)(at - value) < sizeof number ? (size_t)(at - value) + 1 : 1, value);
	double step = lk_read_real(at + 1, &at);
	hits->stamp = moment / 1000;
	if (!lk_hits_named(hits, name, number, step)) lk_hits_add(hits, 0, NULL, step, step);
}

/* The name of a metric by the path of its file; NULL: it is none. */
static const char *metric_name(const char *path) {
	const char *found = NULL;
	for (const char *at = path; (at = strstr(at, "metrics/")); at += 8)
		if (at == path || at[-1] == '/') found = at + 8;
	return found && *found ? found : NULL;
}

/* ---- all ---- */

static void read_line(lk_hits *hits, const char *line, size_t length, const char *metric) {
	char text[128];
	size_t blanks = 0;
	while (blanks < length && line[blanks] == ' ') blanks++;
	if (metric && length < sizeof text) {
		lk_copy(text, length + 1, line);
		read_metric(hits, metric, text);
		return;
	}
	bool object = length - blanks > 2 && line[blanks] == '{' && line[length - 1] == '}' &&
	              (line[blanks + 1] == '"' || line[blanks + 1] == ' ');
	if (!object || !read_json(hits, line + blanks, length - blanks))
		lk_hits_line(hits, line, length);
}

static void read_lines(lk_hits *hits, const char *text, size_t size, const char *metric) {
	const char *end = text + size;
	while (text < end && !hits->lost) {
		size_t length = 0, left = (size_t)(end - text);
		while (length < left && text[length] != '\n' && text[length] != '\r') length++;
		if (length > 0) read_line(hits, text, length, metric);
		text += length + 1;
	}
}

lk_status lk_hits_text(lk_hits *hits, const char *text, size_t size, const char *name,
                       lk_error *err) {
	for (uint32_t i = 0; i < hits->table_count; i++) {
		hits->tables[i].step = NAN;
		hits->tables[i].rounds = hits->tables[i].most = 0;
	}
	hits->column_count = 0;
	hits->stamp = NAN;
	if (size > 2 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3;
	size_t blank = 0;
	while (blank < size && strchr(" \t\r\n", text[blank])) blank++;
	bool json = blank < size && (text[blank] == '{' || text[blank] == '[');
	const char *metric = metric_name(name);
	if (metric) hits->container = "metrics folder";
	if (lk_hits_is_events(text, size)) lk_hits_events(hits, text, size);
	else if (!metric && json && read_json(hits, text, size)) hits->container = "JSON";
	else if (!metric && is_csv(hits, text, text + size)) read_csv(hits, text, size);
	else read_lines(hits, text, size, metric);
	return hits->lost ? lk_oom(err) : LK_OK;
}
