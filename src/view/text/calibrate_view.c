/* calibrate_view.c: fitted numbers and measured machines: tables for people, the files that
 * --calibration and --cluster read, JSON. */
#include <math.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "io/json.h"
#include "base/text.h"
#include "view/table/output.h"
#include "view/text/views.h"

/* ---- tables ---- */

static const lk_column fitted_columns[] = {
	{"family", "family", false, false},  {"subject", "of", false, false},
	{"variant", "part", false, false},   {"points", "points", true, false},
	{"error", "fit error", true, false}, {"numbers", "numbers", false, false},
};

/* Three digits say enough to people; the file has six. */
static void short_numbers(const lk_calibration_row *row, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (int i = 0; i < row->count; i++)
		lk_text_add(&text, "%s%s %.3g", i ? ", " : "", row->numbers[i].name, row->numbers[i].value);
}

static lk_table *fitted_table(const lk_calibrated *calibrated) {
	lk_table *table =
		lk_table_new("calibration", fitted_columns, sizeof fitted_columns / sizeof *fitted_columns);
	for (int i = 0; table && i < calibrated->row_count; i++) {
		const lk_fitted *row = &calibrated->rows[i];
		char shown[32], numbers[1024];
		short_numbers(&lk_calibrated_rows(calibrated)->rows.at[i], numbers, sizeof numbers);
		lk_table_row(table);
		lk_table_text(table, row->family);
		lk_table_text(table, *row->subject ? row->subject : "all");
		lk_table_text(table, *row->variant ? row->variant : "all");
		lk_table_number(table, row->points, NULL);
		lk_table_number(table, row->error,
		                isfinite(row->error) ? lk_percent(row->error, shown, sizeof shown) : NULL);
		lk_table_text(table, numbers);
	}
	return table;
}

static const lk_column measured_columns[] = {
	{"group", "of", false, false},
	{"name", "what", false, false},
	{"value", "median", true, false},
	{"unit", "unit", false, false},
	{"low", "10 %", true, false},
	{"high", "90 %", true, false},
	{"repeats", "repetitions", true, false},
};

static void calibrate_view_put_value(lk_table *table, double value) {
	char shown[32];
	snprintf(shown, sizeof shown, fabs(value) >= 1000 ? "%.0f" : "%.4g", value);
	lk_table_number(table, value, isfinite(value) ? shown : NULL);
}

static lk_table *measured_table(const lk_calibrated *calibrated) {
	lk_table *table =
		lk_table_new("host", measured_columns, sizeof measured_columns / sizeof *measured_columns);
	for (int i = 0; table && i < calibrated->measured_count; i++) {
		const lk_measured *measured = &calibrated->measured[i];
		lk_table_row(table);
		lk_table_text(table, measured->group);
		lk_table_text(table, measured->name);
		calibrate_view_put_value(table, measured->value);
		lk_table_text(table, measured->unit);
		calibrate_view_put_value(table, measured->low);
		calibrate_view_put_value(table, measured->high);
		lk_table_number(table, measured->repeats ? measured->repeats : NAN, NULL);
	}
	return table;
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
	lk_table *table =
		lk_calibrated_host(calibrated) ? measured_table(calibrated) : fitted_table(calibrated);
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	if (status == LK_OK) calibrate_view_put_lines(calibrated, out);
	return status;
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

static void calibrate_view_put_row(lk_json_writer *writer, const lk_calibration_row *row) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "family", row->family);
	lk_json_put_text(writer, "subject", row->subject);
	lk_json_put_text(writer, "variant", row->variant);
	lk_json_object(writer, "numbers");
	for (int i = 0; i < row->count; i++)
		lk_json_put_number(writer, row->numbers[i].name, row->numbers[i].value);
	lk_json_object_end(writer);
	lk_json_put_integer(writer, "points", row->points);
	lk_json_put_number(writer, "error", row->error);
	lk_json_put_text(writer, "date", row->date);
	lk_json_put_text(writer, "source", row->source);
	lk_json_object_end(writer);
}

static lk_status calibrate_view_print_json(const lk_calibrated *calibrated, FILE *out,
                                           lk_error *err) {
	const lk_calibration *rows = lk_calibrated_rows(calibrated);
	if (!rows) return lk_host_write(lk_calibrated_host(calibrated), out, err);
	lk_json_writer w;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/calibrate/1", calibrated->failed_check);
	lk_json_array(&w, "rows");
	for (size_t i = 0; i < rows->rows.count; i++) calibrate_view_put_row(&w, &rows->rows.at[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "command", calibrated->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
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
