/* calibrate_view.c: fitted numbers and measured machines: tables for people, the files that
 * --calibration and --cluster read, JSON. */
#include <math.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "base/text.h"
#include "view/text/views.h"

/* ---- tables ---- */

/* Three digits say enough to people; the file has six. */
static void short_numbers(const lk_calibration_row *row, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (int i = 0; i < row->count; i++)
		lk_text_add(&text, "%s%s %.3g", i ? ", " : "", row->numbers[i].name, row->numbers[i].value);
}

/* A subject or variant; "" is all. */
static void find_all(const char *text, lk_field_value *found) {
	found->text = *text ? text : "all";
}

static void find_subject(const lk_subject *subject, lk_field_value *found) {
	find_all(((const lk_fitted *)subject->record)->subject, found);
}

static void find_variant(const lk_subject *subject, lk_field_value *found) {
	find_all(((const lk_fitted *)subject->record)->variant, found);
}

/* `context`: the numbers as text. */
static void find_numbers(const lk_subject *subject, lk_field_value *found) {
	found->text = subject->context;
}

static const lk_answer_field fitted_fields[] = {
	{"family", "family", LK_AT(lk_fitted, family)},
	{"subject", "of", LK_FIELD_TEXT, .get = find_subject},
	{"variant", "part", LK_FIELD_TEXT, .get = find_variant},
	{"points", "points", LK_AT(lk_fitted, points)},
	{"error", "fit error", LK_AT(lk_fitted, error), .shown = lk_percent},
	{"numbers", "numbers", LK_FIELD_TEXT, .get = find_numbers},
};
static const lk_answer_record fitted_record = {LK_RECORD(lk_fitted, fitted_fields)};

static lk_table *fitted_table(const lk_calibrated *calibrated) {
	static const lk_columns columns = {"calibration", &fitted_record, .keys = NULL};
	lk_table *table = lk_fields_table(&columns);
	for (int i = 0; i < calibrated->row_count; i++) {
		char numbers[1024];
		short_numbers(&lk_calibrated_rows(calibrated)->rows.at[i], numbers, sizeof numbers);
		lk_fields_row(table, &columns, &(lk_subject){calibrated, &calibrated->rows[i], i, numbers});
	}
	return table;
}

static char *show_measured(double value, char *out, size_t size) {
	snprintf(out, size, fabs(value) >= 1000 ? "%.0f" : "%.4g", value);
	return out;
}

static const lk_answer_field measured_fields[] = {
	{"group", "of", LK_AT(lk_measured, group)},
	{"name", "what", LK_AT(lk_measured, name)},
	{"value", "median", LK_AT(lk_measured, value), .shown = show_measured},
	{"unit", "unit", LK_AT(lk_measured, unit)},
	{"low", "10 %", LK_AT(lk_measured, low), .shown = show_measured},
	{"high", "90 %", LK_AT(lk_measured, high), .shown = show_measured},
	{"repeats", "repetitions", LK_AT(lk_measured, repeats), .known = LK_UNLESS_ZERO},
};
static const lk_answer_record measured_record = {LK_RECORD(lk_measured, measured_fields)};

static lk_table *measured_table(const lk_calibrated *calibrated) {
	static const lk_columns columns = {"host", &measured_record, .keys = NULL};
	return lk_fields_rows(&columns, calibrated, calibrated->measured, calibrated->measured_count);
}

/* ---- for people ---- */

static void calibrate_view_put_lines(const lk_calibrated *calibrated, FILE *out) {
	char line[800];
	if (calibrated->note_count) fputc('\n', out);
	for (int i = 0; i < calibrated->note_count; i++)
		fprintf(out, "note: %s\n", lk_escape(calibrated->notes[i], line, sizeof line));
	bool host = lk_calibrated_host(calibrated) != NULL,
		 runs = strcmp(calibrated->kind, "runs") == 0;
	fprintf(out, "\nkeep it   %s -f %s\n", lk_escape(calibrated->reproduce, line, sizeof line),
	        host ? "host.json" : "ours.csv");
	if (host) {
		fputs("use it    lockstep predict --cluster host.json --dtype fp32 --model ...\n", out);
		return;
	}
	fputs("use it    lockstep predict --calibration ours.csv ...\n", out);
	fputs("check it  lockstep validate", out);
	if (!runs) fprintf(out, " --%s", calibrated->kind);
	fputs(" TABLE --calibration ours.csv\n", out);
}

static lk_status calibrate_view_print_text(const lk_calibrated *calibrated, bool colour, FILE *out,
                                           lk_error *err) {
	bool host = lk_calibrated_host(calibrated) != NULL;
	LK_TRY(lk_put_table(host ? measured_table(calibrated) : fitted_table(calibrated), colour, out,
	                    err));
	calibrate_view_put_lines(calibrated, out);
	return LK_OK;
}

/* ---- for programs ---- */

static lk_status print_csv(const lk_calibrated *calibrated, FILE *out, lk_error *err) {
	const lk_calibration *rows = lk_calibrated_rows(calibrated);
	if (rows) {
		lk_calibration_write(rows, out);
		return LK_OK;
	}
	lk_table *table = measured_table(calibrated);
	lk_status status = table ? lk_table_write(table, LK_FORMAT_CSV, false, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

#define KEPT(member) LK_AT(lk_calibration_row, member)

static const lk_answer_field number_fields[] = {
	{LK_AT(lk_calibration_number, value), .known = LK_MAYBE},
};
static const lk_answer_record number_record = {LK_RECORD(lk_calibration_number, number_fields)};

static const lk_answer_field kept_fields[] = {
	{"family", NULL, KEPT(family)},
	{"subject", NULL, KEPT(subject), .known = LK_MAYBE},
	{"variant", NULL, KEPT(variant), .known = LK_MAYBE},
	{"numbers", NULL, LK_MAP(lk_calibration_row, numbers, count, number_record),
     .named = offsetof(lk_calibration_number, name)},
	{"points", NULL, KEPT(points)},
	{"error", NULL, KEPT(error), .known = LK_MAYBE},
	{"date", NULL, KEPT(date)},
	{"source", NULL, KEPT(source), .known = LK_MAYBE},
};
static const lk_answer_record kept_record = {LK_RECORD(lk_calibration_row, kept_fields)};

struct kept {
	const lk_calibration_row *rows;
	size_t count;
	const char *command, *failed_check;
};

static const lk_answer_field calibrate_fields[] = {
	{"rows", NULL, LK_MANY(struct kept, rows, count, kept_record)},
	{"command", NULL, LK_AT(struct kept, command)},
};
static const lk_answer_record calibrate_record = {LK_RECORD(struct kept, calibrate_fields)};
const lk_document lk_calibrate_document = {"calibrate", "`calibrate KIND -o json`",
                                           &calibrate_record, offsetof(struct kept, failed_check),
                                           NULL};

static lk_status calibrate_view_print_json(const lk_calibrated *calibrated, FILE *out,
                                           lk_error *err) {
	const lk_calibration *rows = lk_calibrated_rows(calibrated);
	const lk_writing writing = {LK_FORMAT_JSON, false, false, NULL, out};
	if (!rows) return lk_host_write(lk_calibrated_host(calibrated), out, err);
	struct kept kept = {rows->rows.at, rows->rows.count, calibrated->reproduce,
	                    calibrated->failed_check};
	return lk_write_document(&writing, &lk_calibrate_document, &kept, err);
}

lk_status lk_calibrate_print(const lk_calibrated *calibrated, int format, bool colour, FILE *out,
                             lk_error *err) {
	lk_status status;
	if (format == LK_CALIBRATE_TEXT || format == LK_CALIBRATE_AUTO)
		status = calibrate_view_print_text(calibrated, colour, out, err);
	else if (format == LK_CALIBRATE_CSV) status = print_csv(calibrated, out, err);
	else if (format == LK_CALIBRATE_JSON) status = calibrate_view_print_json(calibrated, out, err);
	else return lk_fail(err, LK_ERR_INPUT, NULL, "unknown format %d", format);
	if (status != LK_OK) return status;
	return fflush(out) == 0 && !ferror(out) ? LK_OK
	                                        : lk_fail(err, LK_ERR_IO, "output", "cannot write");
}

/* ---- to a file ---- */

static int calibrate_view_format_of(const char *path) {
	if (path && (lk_ends_in(path, ".csv") || lk_ends_in(path, ".csv.gz"))) return LK_CALIBRATE_CSV;
	if (path && (lk_ends_in(path, ".json") || lk_ends_in(path, ".json.gz")))
		return LK_CALIBRATE_JSON;
	return LK_CALIBRATE_TEXT;
}

struct saved {
	const lk_calibrated *calibrated;
	int format;
};

static lk_status calibrate_view_write_saved(const void *what, bool colour, FILE *out,
                                            lk_error *err) {
	const struct saved *saved = what;
	return lk_calibrate_print(saved->calibrated, saved->format, colour, out, err);
}

lk_status lk_calibrate_save(const lk_calibrated *calibrated, int format, bool colour,
                            const char *path, FILE *out, lk_error *err) {
	lk_writing w = {LK_FORMAT_TEXT, false, colour, path, out};
	struct saved s = {calibrated,
	                  format == LK_CALIBRATE_AUTO ? calibrate_view_format_of(path) : format};
	return lk_write_through(&w, calibrate_view_write_saved, &s, err);
}
