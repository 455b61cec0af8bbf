/* calibrate.c: passes a table to the function of its kind, or measures the machine; the result has
 * one form. */
#include "base/arena.h"
#include "base/check.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "validate/validate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "options/command.h"

/* Everything that a result owns. */
struct work {
	lk_calibrated result; /* first: the result is the work */
	lk_arena arena;
	lk_calibration calibration;
	lk_host host;
	bool is_host;
};

static const struct kind {
	const char *name;
	lk_calibrate_fn *fit; /* NULL: host */
	const char *table;    /* an example of it */
} kinds[] = {
	{"ops", lk_calibrate_ops, "ops_fp16.csv.gz"},
	{"kernels", lk_calibrate_laws, "kernels_gemm_2026.csv.gz"},
	{"collectives", lk_calibrate_collectives, "collectives.csv"},
	{"memory", lk_calibrate_peaks, "megatron_ci_memory.csv"},
	{"finetune", lk_calibrate_finetune, "finetune_runs.csv"},
	{"slowdown", lk_calibrate_slowdown, "overlap_slowdown_a100.csv"},
	{"models", lk_calibrate_models, "fp32_models_e2e.csv"},
	{"inference", lk_calibrate_inference, "inference_throughput.csv"},
	{"runs", lk_calibrate_runs, "llm_runs.csv"},
	{"overheads", lk_calibrate_overheads, "host_op_overheads.csv"},
	{"host", NULL, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const lk_calibration *lk_calibrated_rows(const lk_calibrated *calibrated) {
	const struct work *work = calibrated->memory_owner;
	return work->is_host ? NULL : &work->calibration;
}

const lk_host *lk_calibrated_host(const lk_calibrated *calibrated) {
	const struct work *work = calibrated->memory_owner;
	return work->is_host ? &work->host : NULL;
}

void lk_calibrate_free(lk_calibrated *calibrated) {
	if (!calibrated) return;
	struct work *work = calibrated->memory_owner;
	lk_calibration_free(&work->calibration);
	lk_host_free(&work->host);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- the request ---- */

static lk_status calibrate_find_kind(const char *name, const struct kind **out, lk_error *err) {
	const char *names[KINDS];
	for (int i = 0; i < KINDS; i++) {
		names[i] = kinds[i].name;
		*out = &kinds[i];
		if (strcmp(name, names[i]) == 0) return LK_OK;
	}
	char shown[64];
	const char *near = lk_nearest(name, names, KINDS);
	lk_fail(err, LK_ERR_INPUT, "calibrate", "\"%s\" is not a kind of calibration",
	        lk_escape(name, shown, sizeof shown));
	if (near) return lk_hint(err, "did you mean %s?", near);
	return lk_hint(
		err, "give one of ops, kernels, collectives, memory, slowdown, models, inference, runs, "
			 "overheads and host");
}

static lk_status check_table(const lk_calibrate_request *request, const struct kind *kind,
                             lk_error *err) {
	if (!kind->fit && request->table) {
		lk_fail(err, LK_ERR_INPUT, "calibrate host", "it measures this machine and reads no file");
		return lk_hint(
			err, "say ops, kernels, collectives, memory, slowdown, models, inference, runs or "
				 "overheads for a table; "
				 "-f FILE names the output");
	}
	if (!kind->fit) return LK_OK;
	const struct {
		const char *option;
		bool given;
	} of_host[] = {{"--seconds", request->seconds > 0},
	               {"--disk", request->disk != NULL},
	               {"--mpi", request->mpi != NULL}};
	for (int i = 0; i < 3; i++)
		if (of_host[i].given)
			return lk_fail(err, LK_ERR_INPUT, of_host[i].option,
			               "goes with calibrate host, not with %s", kind->name);
	if (request->more_count > 0 && kind->fit != lk_calibrate_runs &&
	    kind->fit != lk_calibrate_collectives && kind->fit != lk_calibrate_inference) {
		lk_fail(err, LK_ERR_INPUT, request->more[0], "a second table");
		return lk_hint(err, "only tables of training runs, of collectives, or of generation and "
		                    "served requests are fitted together; give one");
	}
	if (request->table) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "calibrate", "no table of measurements is named");
	return lk_hint(err, "give a CSV file, such as lockstep calibrate %s %s", kind->name,
	               kind->table);
}

/* Check texts that are written into files: short, and of one line. */
static lk_status calibrate_check_text(const char *option, const char *text, size_t longest,
                                      lk_error *err) {
	if (!text) return LK_OK;
	if (!*text) return lk_fail(err, LK_ERR_INPUT, option, "the text is empty");
	if (strlen(text) > longest)
		return lk_fail(err, LK_ERR_INPUT, option, "longer than %zu bytes", longest);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return lk_fail(err, LK_ERR_INPUT, option,
			               "control characters cannot be kept in a file of one line a row");
	return LK_OK;
}

static bool is_date(const char *text) {
	struct tm day = {0};
	if (strlen(text) != 10 || strspn(text, "0123456789-") != 10) return false;
	const char *end = strptime(text, "%Y-%m-%d", &day);
	if (!end || *end) return false;
	struct tm same = day;
	time_t when = timegm(&same); /* 31 February becomes a day of March */
	return when != (time_t)-1 && same.tm_mday == day.tm_mday && same.tm_mon == day.tm_mon;
}

static lk_status calibrate_check_request(const lk_calibrate_request *request,
                                         const struct kind *kind, lk_error *err) {
	LK_TRY(check_table(request, kind, err));
	LK_TRY(calibrate_check_text("--source", request->source, 400, err));
	LK_TRY(calibrate_check_text("--name", request->name, 39, err));
	if (request->date && !is_date(request->date))
		return lk_fail(err, LK_ERR_INPUT, "--date", "\"%.20s\" is not a date; write 2026-11-21",
		               request->date);
	bool wrong = request->seconds != 0 && !(request->seconds >= 0.1 && request->seconds <= 3600);
	return wrong ? lk_fail(err, LK_ERR_INPUT, "--seconds", "must be a number from 0.1 to 3600")
	             : LK_OK;
}

static const char *date_of(const lk_calibrate_request *request, lk_arena *arena) {
	char today[16];
	time_t now = time(NULL);
	struct tm day;
	if (request->date) return lk_arena_strdup(arena, request->date);
	gmtime_r(&now, &day);
	strftime(today, sizeof today, "%Y-%m-%d", &day);
	return lk_arena_strdup(arena, today);
}

/* The name of a file without its folders. */
static const char *source_of(const lk_calibrate_request *request, lk_arena *arena) {
	if (request->source) return lk_arena_strdup(arena, request->source);
	if (!request->table) return lk_arena_strdup(arena, "lockstep calibrate host");
	if (strcmp(request->table, "-") == 0) return lk_arena_strdup(arena, "standard input");
	char shown[256];
	return lk_arena_strdup(arena, lk_escape(lk_file_name(request->table), shown, sizeof shown));
}

/* ---- tables ---- */

/* --name is for a table of one device or fabric: two under one name would hide each other. Rows
 * that apply to all of them ("", "all", "default") and those of other families keep their subject;
 * ranges have it as a part of the variant. */
static bool has_own_subject(const lk_calibration_row *row) {
	static const char *const families[] = {"gemm", "memory", "collective", "overlap", "network"};
	if (!*row->subject || strcmp(row->subject, "all") == 0 || strcmp(row->subject, "default") == 0)
		return false;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(row->family, families[i]) == 0) return true;
	return false;
}

/* `text` with the first word `old` replaced by `name`; NULL when memory runs out. */
static const char *rename_words(lk_arena *arena, const char *text, const char *old,
                                const char *name) {
	size_t length = strlen(old);
	for (const char *at = text; (at = strstr(at, old)) != NULL; at++) {
		bool begins = at == text || at[-1] == ' ', ends = at[length] == '\0' || at[length] == ' ';
		if (begins && ends)
			return lk_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, name, at + length);
	}
	return text;
}

static lk_status rename_subject(const char *name, lk_calibration *calibration, lk_error *err) {
	const char *only = NULL;
	for (size_t i = 0; i < calibration->rows.count; i++) {
		if (!has_own_subject(&calibration->rows.at[i])) continue;
		const char *subject = calibration->rows.at[i].subject;
		if (only && strcmp(only, subject) != 0) {
			lk_fail(err, LK_ERR_INPUT, "--name", "the table holds more than one: %.60s, %.60s",
			        only, subject);
			return lk_hint(err, "leave --name out, or calibrate from a table of one");
		}
		only = subject;
	}
	if (!only)
		return lk_fail(err, LK_ERR_INPUT, "--name",
		               "these numbers are not those of one device or fabric");
	for (size_t i = 0; i < calibration->rows.count; i++) {
		lk_calibration_row *row = &calibration->rows.at[i];
		if (has_own_subject(row)) row->subject = name;
		else if (strcmp(row->family, "range") == 0)
			row->variant = rename_words(&calibration->arena, row->variant, only, name);
		if (!row->variant) return lk_oom(err);
	}
	return LK_OK;
}

static const char *numbers_text(lk_arena *arena, const lk_calibration_row *row) {
	const char *text = "";
	for (int i = 0; text && i < row->count; i++)
		text = lk_arena_printf(arena, "%s%s%s=%.6g", text, i ? " " : "", row->numbers[i].name,
		                       row->numbers[i].value);
	return text;
}

static lk_status list_rows(struct work *work, lk_error *err) {
	const lk_calibration *calibration = &work->calibration;
	lk_fitted *rows = LK_ARRAY(&work->arena, lk_fitted, calibration->rows.count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		rows[i] =
			(lk_fitted){row->family, row->subject, row->variant, numbers_text(&work->arena, row),
		                row->points, row->error,   row->date,    row->source};
		if (!rows[i].numbers) return lk_oom(err);
	}
	work->result.rows = rows;
	work->result.row_count = (int)calibration->rows.count;
	return LK_OK;
}

static lk_status calibrate_fit(const lk_calibrate_request *request, const struct kind *kind,
                               struct work *work, lk_error *err) {
	const char *source = source_of(request, &work->arena), *date = date_of(request, &work->arena);
	const char *name = request->name ? lk_arena_strdup(&work->arena, request->name) : NULL;
	lk_stream *in;
	if (!source || !date || (request->name && !name)) return lk_oom(err);
	LK_TRY(lk_stream_open(request->table, &in, err));
	const lk_fit_watch watch = {request->progress, request->context};
	lk_status status;
	if (kind->fit == lk_calibrate_runs)
		status = lk_calibrate_run_tables(in, request->more, request->more_count,
		                                 request->progress ? &watch : NULL, source, date,
		                                 &work->calibration, err);
	else if (kind->fit == lk_calibrate_collectives)
		status = lk_calibrate_collective_tables(in, request->more, request->more_count, source,
		                                        date, &work->calibration, err);
	else if (kind->fit == lk_calibrate_inference)
		status = lk_calibrate_inference_tables(in, request->more, request->more_count, source, date,
		                                       &work->calibration, err);
	else status = kind->fit(in, source, date, &work->calibration, err);
	lk_stream_close(in);
	LK_TRY(status);
	if (work->calibration.rows.count == 0) {
		lk_fail(err, LK_ERR_INPUT, request->table, "nothing in the table could be fitted");
		return lk_hint(err, "a table such as %s is wanted", kind->table);
	}
	if (name) LK_TRY(rename_subject(name, &work->calibration, err));
	return list_rows(work, err);
}

/* ---- the machine ---- */

static lk_status calibrate_measure(const lk_calibrate_request *request, struct work *work,
                                   lk_error *err) {
	work->is_host = true;
	const lk_host_options options = {
		.seconds = request->seconds > 0 ? request->seconds : 20,
		.name = request->name,
		.date = date_of(request, &work->arena),
		.source = source_of(request, &work->arena),
		.disk = request->disk,
		.mpi = request->mpi,
		.progress = request->progress,
		.context = request->context,
	};
	if (!options.date || !options.source) return lk_oom(err);
	LK_TRY(lk_host_measure(&options, &work->host, err));
	size_t count = work->host.quantities.count;
	lk_measured *measured = LK_ARRAY(&work->arena, lk_measured, count);
	if (!measured) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const lk_quantity *quantity = &work->host.quantities.at[i];
		measured[i] =
			(lk_measured){quantity->group, quantity->name, quantity->unit,   quantity->value,
		                  quantity->low,   quantity->high, quantity->repeats};
	}
	work->result.measured = measured;
	work->result.measured_count = (int)count;
	work->result.notes = work->host.notes.at;
	work->result.note_count = (int)work->host.notes.count;
	return LK_OK;
}

/* The command line that reproduces this result; NULL when memory runs out. */
static const char *calibrate_command(lk_arena *arena, const lk_calibrate_request *request) {
	const char *const operands[] = {request->kind, request->table};
	return lk_command(arena, &(lk_question){.verb = &lk_calibrate_verb,
	                                        .request = request,
	                                        .operands = operands,
	                                        .operand_count = request->table ? 2 : 1});
}

lk_status lk_calibrate(const lk_calibrate_request *request, lk_calibrated **out, lk_error *err) {
	*out = NULL;
	LK_TRY(lk_cost_ready(err));
	const struct kind *kind;
	LK_TRY(calibrate_find_kind(request->kind ? request->kind : "", &kind, err));
	LK_TRY(calibrate_check_request(request, kind, err));
	struct work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->result.memory_owner = work;
	work->result.kind = kind->name;
	lk_status status =
		kind->fit ? calibrate_fit(request, kind, work, err) : calibrate_measure(request, work, err);
	if (status == LK_OK)
		work->result.failed_check =
			lk_failed_check(lk_calibrated_check(&work->result, lk_calibrated_rows(&work->result)));
	if (status == LK_OK) {
		work->result.reproduce = calibrate_command(&work->arena, request);
		if (!work->result.reproduce) status = lk_oom(err);
	}
	if (status == LK_OK) *out = &work->result;
	else lk_calibrate_free(&work->result);
	return status;
}
