/* calibration.c: read, find and write fitted numbers. */
#include "base/arena.h"
#include "cost/calibration/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cost/calibration/calibration_packed.h"
#include "io/csv.h"
#include "io/form.h"

/* ---- reading ---- */

enum { FAMILY, SUBJECT, VARIANT, NUMBERS, POINTS, ERROR, DATE, SOURCE, COLUMNS, ROWS = 1 << 20 };
static const char *const column_names[COLUMNS] = {"family", "subject", "variant", "numbers",
                                                  "points", "error",   "date",    "source"};

/* Parse "name=value name=value" into the row. */
static lk_status calibration_read_numbers(lk_arena *arena, const char *text,
                                          lk_calibration_row *row, lk_error *err) {
	char *copy = lk_arena_strdup(arena, text), *state = NULL;
	if (!copy) return lk_oom(err);
	for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
		char *equals = strchr(word, '=');
		if (!equals || equals == word) {
			lk_fail(err, LK_ERR_INPUT, row->where,
			        "column numbers: \"%.40s\" is not of the form NAME=VALUE", word);
			return lk_hint(err, "write numbers as in \"efficiency=0.74 fill_us=4.2\"");
		}
		if (row->count == LK_CALIBRATION_NUMBERS)
			return lk_fail(err, LK_ERR_INPUT, row->where, "more than %d numbers",
			               LK_CALIBRATION_NUMBERS);
		*equals = '\0';
		lk_calibration_number *number = &row->numbers[row->count];
		number->name = word;
		LK_TRY(lk_parse_real(equals + 1, -1e18, 1e18, &number->value, row->where, err));
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
	LK_TRY(lk_calibration_check_family(text[FAMILY], lk_csv_where(csv), err));
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
	lk_vec_free(&calibration->buckets);
	lk_arena_free(&calibration->arena);
}

/* ---- rows ----
 * The index: rows whose keys agree in their low bits form a chain from the last one back, so that
 * the first match has precedence. */

/* FNV-1a; of subject and variant only what lk_same_name compares. */
static uint32_t calibration_key(const char *family, const char *subject, const char *variant) {
	uint32_t key = 2166136261u;
	for (; *family; family++) key = (key ^ (unsigned char)*family) * 16777619u;
	key = lk_name_hash(key * 16777619u, subject);
	return lk_name_hash(key * 16777619u, variant);
}

static void calibration_link(lk_calibration *into, size_t row) {
	uint32_t *bucket = &into->buckets.at[into->rows.at[row].key & (into->buckets.count - 1)];
	into->rows.at[row].older = *bucket;
	*bucket = (uint32_t)row + 1;
}

bool lk_calibration_reserve(lk_calibration *into, size_t extra) {
	size_t rows = into->rows.count + extra,
		   buckets = into->buckets.count ? into->buckets.count : 64;
	while (buckets < rows) buckets *= 2;
	if (!lk_reserve(&into->rows, extra) ||
	    !lk_reserve(&into->buckets, buckets - into->buckets.count))
		return false;
	if (buckets == into->buckets.count) return true;
	into->buckets.count = buckets;
	memset(into->buckets.at, 0, buckets * sizeof *into->buckets.at);
	for (size_t i = 0; i < into->rows.count; i++) calibration_link(into, i);
	return true;
}

lk_calibration_row *lk_calibration_enter(lk_calibration *into, const lk_calibration_row *row) {
	LK_ASSERT(into->rows.count < into->rows.capacity && into->rows.count < into->buckets.count);
	into->rows.at[into->rows.count] = *row;
	calibration_link(into, into->rows.count++);
	return lk_last(&into->rows);
}

lk_calibration_row *lk_calibration_add(lk_calibration *into, const char *family,
                                       const char *subject, const char *variant) {
	lk_calibration_number *numbers =
		LK_ARRAY(&into->arena, lk_calibration_number, LK_CALIBRATION_NUMBERS);
	if (!numbers || !lk_calibration_reserve(into, 1)) return NULL;
	return lk_calibration_enter(into, &(lk_calibration_row){
										  .family = family,
										  .subject = subject,
										  .variant = variant,
										  .numbers = numbers,
										  .error = NAN,
										  .date = "",
										  .source = "",
										  .where = "",
										  .key = calibration_key(family, subject, variant),
									  });
}

void lk_calibration_put(lk_calibration_row *row, const char *name, double value) {
	if (row->count == LK_CALIBRATION_NUMBERS) return;
	row->numbers[row->count++] = (lk_calibration_number){name, value};
}

const lk_calibration_row *lk_calibration_find(const lk_calibration *calibration, const char *family,
                                              const char *subject, const char *variant) {
	if (calibration->buckets.count == 0) return NULL;
	uint32_t key = calibration_key(family, subject, variant);
	uint32_t at = calibration->buckets.at[key & (calibration->buckets.count - 1)];
	while (at > 0) {
		const lk_calibration_row *row = &calibration->rows.at[at - 1];
		if (row->key == key && strcmp(row->family, family) == 0 &&
		    lk_same_name(row->subject, subject) && lk_same_name(row->variant, variant))
			return row;
		at = row->older;
	}
	return NULL;
}

double lk_calibration_value(const lk_calibration_row *row, const char *name, double otherwise) {
	for (int i = 0; row && i < row->count; i++)
		if (strcmp(row->numbers[i].name, name) == 0) return row->numbers[i].value;
	return otherwise;
}

/* ---- writing ---- */

/* Write a field of a CSV row, quoted if necessary. */
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
	char form[64];
	fprintf(out, "%s\n", lk_form_line(LK_FORM_CALIBRATION, form, sizeof form));
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
			fprintf(out, "%s%s=%.6g", n ? " " : "", row->numbers[n].name, row->numbers[n].value);
		fprintf(out, ",%d,", row->points);
		if (isfinite(row->error)) fprintf(out, "%.4f", row->error);
		fputc(',', out);
		calibration_put_field(row->date, out);
		fputc(',', out);
		calibration_put_field(row->source, out);
		fputc('\n', out);
	}
}
