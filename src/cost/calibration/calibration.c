/* calibration.c: reads, finds and writes fitted numbers. */
#include "base/arena.h"
#include "cost/calibration/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "base/once.h"
#include "base/text.h"
#include "base/trees.h"
#include "io/embedded.h"

/* ---- reading ---- */

enum {
	FAMILY,
	SUBJECT,
	VARIANT,
	NUMBERS,
	POINTS,
	ERROR,
	DATE,
	SOURCE,
	COLUMNS,
	ROWS = 1 << 20
};
static const char *const column_names[COLUMNS] = {"family", "subject", "variant", "numbers",
                                                  "points", "error",   "date",    "source"};

/* "name=value name=value" into the row. */
static lk_status calibration_read_numbers(lk_arena *arena, const char *text,
                                          lk_calibration_row *row, lk_error *err) {
	char *copy = lk_arena_strdup(arena, text), *state = NULL;
	if (!copy) return lk_oom(err);
	for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
		char *equals = strchr(word, '=');
		if (!equals || equals == word) {
			lk_fail(err, LK_ERR_INPUT, row->where, "column numbers: \"%.40s\" is no NAME=VALUE",
			        word);
			return lk_hint(err, "write numbers as in \"efficiency=0.74 fill_us=4.2\"");
		}
		if (row->count == LK_CALIBRATION_NUMBERS)
			return lk_fail(err, LK_ERR_INPUT, row->where, "more than %d numbers",
			               LK_CALIBRATION_NUMBERS);
		*equals = '\0';
		row->name[row->count] = word;
		LK_TRY(lk_parse_real(equals + 1, -1e18, 1e18, &row->value[row->count], row->where, err));
		LK_TRY(lk_calibration_check(row, row->count, err));
		row->count++;
	}
	return LK_OK;
}

static lk_status calibration_read_row(void *context, const lk_csv *csv, const int *column,
                                      lk_error *err) {
	lk_calibration *into = context;
	const char *text[COLUMNS];
	for (int c = 0; c < COLUMNS; c++) {
		text[c] = lk_arena_strdup(&into->arena, lk_csv_field(csv, column[c]));
		if (!text[c]) return lk_oom(err);
	}
	if (!*text[FAMILY])
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "the column family is empty");
	lk_calibration_row *row = lk_calibration_add(into, text[FAMILY], text[SUBJECT], text[VARIANT]);
	if (!row) return lk_oom(err);
	row->date = text[DATE];
	row->source = text[SOURCE];
	row->where = lk_arena_strdup(&into->arena, lk_csv_where(csv));
	if (!row->where) return lk_oom(err);
	long long points = 0;
	if (*text[POINTS]) LK_TRY(lk_parse_int(text[POINTS], 0, 2000000000, &points, row->where, err));
	row->points = (int)points;
	if (*text[ERROR]) LK_TRY(lk_parse_real(text[ERROR], 0, 1e6, &row->error, row->where, err));
	if (strcmp(row->family, "trees") != 0)
		return calibration_read_numbers(&into->arena, text[NUMBERS], row, err);
	row->text = text[NUMBERS];
	return LK_OK;
}

lk_status lk_calibration_read(lk_stream *in, lk_calibration *into, lk_error *err) {
	static const lk_csv_table table = {
		column_names, COLUMNS,
		NUMBERS + 1,  "calibration, as `lockstep calibrate` writes it",
		ROWS,         calibration_read_row,
		NULL,
	};
	return lk_csv_read(in, &table, into, err);
}

void lk_calibration_free(lk_calibration *calibration) {
	lk_vec_free(&calibration->rows);
	lk_arena_free(&calibration->arena);
}

/* ---- rows ---- */

lk_calibration_row *lk_calibration_add(lk_calibration *into, const char *family,
                                       const char *subject, const char *variant) {
	if (!lk_push(&into->rows)) return NULL;
	lk_calibration_row *row = lk_last(&into->rows);
	*row = (lk_calibration_row){
		.family = family,
		.subject = subject,
		.variant = variant,
		.error = NAN,
		.date = "",
		.source = "",
		.where = "",
	};
	return row;
}

void lk_calibration_put(lk_calibration_row *row, const char *name, double value) {
	if (row->count == LK_CALIBRATION_NUMBERS) return;
	row->name[row->count] = name;
	row->value[row->count++] = value;
}

const lk_calibration_row *lk_calibration_find(const lk_calibration *calibration, const char *family,
                                              const char *subject, const char *variant) {
	for (size_t i = calibration->rows.count; i-- > 0;) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (*row->family == *family && strcmp(row->family, family) == 0 &&
		    lk_same_name(row->subject, subject) && lk_same_name(row->variant, variant))
			return row;
	}
	return NULL;
}

double lk_calibration_value(const lk_calibration_row *row, const char *name, double otherwise) {
	for (int i = 0; row && i < row->count; i++)
		if (strcmp(row->name[i], name) == 0) return row->value[i];
	return otherwise;
}

/* ---- writing ---- */

/* A field of a CSV row, quoted where it needs to be. */
static void calibration_put_field(const char *text, FILE *out) {
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"') fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void lk_calibration_write(const lk_calibration *calibration, FILE *out) {
	for (int c = 0; c < COLUMNS; c++) fprintf(out, "%s%s", c ? "," : "", column_names[c]);
	fputc('\n', out);
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		const char *head[] = {row->family, row->subject, row->variant};
		for (int c = 0; c < 3; c++) {
			calibration_put_field(head[c], out);
			fputc(',', out);
		}
		if (row->text) fputs(row->text, out);
		for (int n = 0; n < row->count; n++)
			fprintf(out, "%s%s=%.6g", n ? " " : "", row->name[n], row->value[n]);
		fprintf(out, ",%d,", row->points);
		if (isfinite(row->error)) fprintf(out, "%.4f", row->error);
		fputc(',', out);
		calibration_put_field(row->date, out);
		fputc(',', out);
		calibration_put_field(row->source, out);
		fputc('\n', out);
	}
}

/* ---- the rows in use ---- */

static lk_calibration current;

static lk_status load_file(const char *name, lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_data_open(NULL, name, &in, err));
	lk_status status = lk_calibration_read(in, &current, err);
	lk_stream_close(in);
	return status;
}

/* Trees that nobody could read would be left out in silence. */
static lk_status check_trees(const lk_calibration *calibration, size_t first, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	lk_status status = LK_OK;
	lk_trees *trees = malloc(sizeof *trees);
	if (!trees) return lk_oom(err);
	for (size_t i = first; i < calibration->rows.count && status == LK_OK; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (row->text) status = lk_trees_read(&scratch, row->text, row->where, trees, err);
	}
	free(trees);
	lk_arena_free(&scratch);
	return status;
}

static lk_status calibration_load(lk_error *err) {
	const char *name;
	for (int i = 0; lk_data_file_at(i, &name, NULL); i++) {
		size_t length = strlen(name);
		bool ours = strncmp(name, "calibration/", 12) == 0 && length > 4 &&
		            strcmp(name + length - 4, ".csv") == 0;
		if (ours) LK_TRY(load_file(name, err));
	}
	return LK_OK;
}

static void calibration_forget(void) {
	lk_calibration_free(&current);
}

/* A test reads what was compiled in: an error here can only be memory. Then nothing is in use, and
 * the next one who asks reads again. */
lk_status lk_calibration_ready(lk_error *err) {
	static lk_once once = LK_ONCE_INIT;
	return lk_once_load(&once, calibration_load, calibration_forget, err);
}

const lk_calibration *lk_calibration_current(void) {
	lk_error unused;
	lk_calibration_ready(&unused);
	return &current;
}

lk_status lk_calibration_use(const char *path, lk_error *err) {
	static const char *in_use; /* the file laid on top last: requests of a sweep all name it */
	LK_TRY(lk_calibration_ready(err));
	if (in_use && strcmp(in_use, path) == 0) return LK_OK;
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	size_t before = current.rows.count;
	lk_status status = lk_calibration_read(in, &current, err);
	lk_stream_close(in);
	if (status == LK_OK) status = check_trees(&current, before, err);
	if (status != LK_OK) current.rows.count = before;
	if (status == LK_OK) in_use = lk_arena_strdup(&current.arena, path);
	return status;
}
