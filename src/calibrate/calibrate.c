/* calibrate.c: hands a table to the function of its kind, or measures the machine; the result in one form. */
#include "calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

/* Everything that a result owns. */
struct work {
	lk_calibrated result;       /* first: the result is the work */
	lk_arena arena;
	lk_calibration calibration;
	lk_host host;
	bool is_host;
};

static const struct kind {
	const char *name;
	lk_calibrate_fn *fit;       /* NULL: host */
	const char *table;          /* such as this */
} kinds[] = {
	{"ops", lk_calibrate_ops, "ops_fp16.csv.gz"},
	{"collectives", lk_calibrate_collectives, "collectives.csv"},
	{"memory", lk_calibrate_peaks, "megatron_ci_memory.csv"},
	{"slowdown", lk_calibrate_slowdown, "overlap_slowdown_a100.csv"},
	{"models", lk_calibrate_models, "fp32_models_e2e.csv"},
	{"runs", lk_calibrate_runs, "llm_runs.csv"},
	{"host", NULL, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const lk_calibration *lk_calibrated_rows(const lk_calibrated *calibrated) {
	const struct work *w = calibrated->memory_owner;
	return w->is_host ? NULL : &w->calibration;
}

const lk_host *lk_calibrated_host(const lk_calibrated *calibrated) {
	const struct work *w = calibrated->memory_owner;
	return w->is_host ? &w->host : NULL;
}

void lk_calibrate_free(lk_calibrated *calibrated) {
	if (!calibrated) return;
	struct work *w = calibrated->memory_owner;
	lk_calibration_free(&w->calibration);
	lk_host_free(&w->host);
	lk_arena_free(&w->arena);
	free(w);
}

/* ---- what is asked ---- */

static lk_status find_kind(const char *name, const struct kind **out, lk_error *err) {
	const char *names[KINDS];
	for (int i = 0; i < KINDS; i++) {
		names[i] = kinds[i].name;
		*out = &kinds[i];
		if (strcmp(name, names[i]) == 0) return LK_OK;
	}
	char shown[64];
	const char *near = lk_nearest(name, names, KINDS);
	lk_fail(err, LK_ERR_INPUT, "calibrate", "\"%s\" is no kind of calibration", lk_escape(name, shown, sizeof shown));
	if (near) return lk_hint(err, "did you mean %s?", near);
	return lk_hint(err, "give one of ops, collectives, memory, slowdown, models, runs and host");
}

static lk_status check_table(const lk_calibrate_request *r, const struct kind *kind, lk_error *err) {
	if (!kind->fit && r->table) {
		lk_fail(err, LK_ERR_INPUT, "calibrate host", "it measures this machine and reads no file");
		return lk_hint(err, "say ops, collectives, memory, slowdown, models or runs for a table; -f FILE names the output");
	}
	if (!kind->fit) return LK_OK;
	const struct {
		const char *option;
		bool given;
	} of_host[] = {{"--seconds", r->seconds > 0}, {"--disk", r->disk != NULL}, {"--mpi", r->mpi != NULL}};
	for (int i = 0; i < 3; i++)
		if (of_host[i].given)
			return lk_fail(err, LK_ERR_INPUT, of_host[i].option, "goes with calibrate host, not with %s", kind->name);
	if (r->table) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "calibrate", "no table of measurements is named");
	return lk_hint(err, "give a CSV file, such as lockstep calibrate %s %s", kind->name, kind->table);
}

/* Texts that get into files: short, and of one line. */
static lk_status check_text(const char *option, const char *text, size_t longest, lk_error *err) {
	if (!text) return LK_OK;
	if (!*text) return lk_fail(err, LK_ERR_INPUT, option, "the text is empty");
	if (strlen(text) > longest) return lk_fail(err, LK_ERR_INPUT, option, "longer than %zu bytes", longest);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return lk_fail(err, LK_ERR_INPUT, option, "control characters cannot be kept in a file of one line a row");
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

static lk_status check_request(const lk_calibrate_request *r, const struct kind *kind, lk_error *err) {
	LK_TRY(check_table(r, kind, err));
	LK_TRY(check_text("--source", r->source, 400, err));
	LK_TRY(check_text("--name", r->name, 39, err));
	if (r->date && !is_date(r->date))
		return lk_fail(err, LK_ERR_INPUT, "--date", "\"%.20s\" is no date; write 2026-11-21", r->date);
	bool wrong = r->seconds != 0 && !(r->seconds >= 0.1 && r->seconds <= 3600);
	return wrong ? lk_fail(err, LK_ERR_INPUT, "--seconds", "must be a number from 0.1 to 3600") : LK_OK;
}

static const char *date_of(const lk_calibrate_request *r, lk_arena *arena) {
	char today[16];
	time_t now = time(NULL);
	struct tm day;
	if (r->date) return lk_arena_strdup(arena, r->date);
	gmtime_r(&now, &day);
	strftime(today, sizeof today, "%Y-%m-%d", &day);
	return lk_arena_strdup(arena, today);
}

/* The name of a file without its folders. */
static const char *source_of(const lk_calibrate_request *r, lk_arena *arena) {
	if (r->source) return lk_arena_strdup(arena, r->source);
	if (!r->table) return lk_arena_strdup(arena, "lockstep calibrate host");
	if (strcmp(r->table, "-") == 0) return lk_arena_strdup(arena, "standard input");
	const char *slash = strrchr(r->table, '/');
	char shown[256];
	return lk_arena_strdup(arena, lk_escape(slash ? slash + 1 : r->table, shown, sizeof shown));
}

/* ---- tables ---- */

/* --name is for a table of one device or fabric: two under one name would hide each other. Rows that hold for all of
 * them ("", "all", "default") and those of other families keep their subject; ranges have it as a part of the variant. */
static bool has_own_subject(const lk_calibration_row *row) {
	static const char *const families[] = {"gemm", "memory", "collective", "overlap", "network"};
	if (!*row->subject || strcmp(row->subject, "all") == 0 || strcmp(row->subject, "default") == 0) return false;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(row->family, families[i]) == 0) return true;
	return false;
}

/* `text` with the first word `old` replaced by `name`; NULL when memory is out. */
static const char *rename_words(lk_arena *arena, const char *text, const char *old, const char *name) {
	size_t length = strlen(old);
	for (const char *at = text; (at = strstr(at, old)) != NULL; at++) {
		bool begins = at == text || at[-1] == ' ', ends = at[length] == '\0' || at[length] == ' ';
		if (begins && ends) return lk_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, name, at + length);
	}
	return text;
}

static lk_status rename_subject(const char *name, lk_calibration *c, lk_error *err) {
	const char *only = NULL;
	for (size_t i = 0; i < c->rows.count; i++) {
		if (!has_own_subject(&c->rows.at[i])) continue;
		const char *subject = c->rows.at[i].subject;
		if (only && strcmp(only, subject) != 0) {
			lk_fail(err, LK_ERR_INPUT, "--name", "the table holds more than one: %.60s, %.60s", only, subject);
			return lk_hint(err, "leave --name out, or calibrate from a table of one");
		}
		only = subject;
	}
	if (!only) return lk_fail(err, LK_ERR_INPUT, "--name", "these numbers are not those of one device or fabric");
	for (size_t i = 0; i < c->rows.count; i++) {
		lk_calibration_row *row = &c->rows.at[i];
		if (has_own_subject(row)) row->subject = name;
		else if (strcmp(row->family, "range") == 0) row->variant = rename_words(&c->arena, row->variant, only, name);
		if (!row->variant) return lk_oom(err);
	}
	return LK_OK;
}

static const char *numbers_text(lk_arena *arena, const lk_calibration_row *row) {
	const char *text = "";
	for (int i = 0; text && i < row->count; i++)
		text = lk_arena_printf(arena, "%s%s%s=%.6g", text, i ? " " : "", row->name[i], row->value[i]);
	return text;
}

static lk_status list_rows(struct work *w, lk_error *err) {
	const lk_calibration *c = &w->calibration;
	lk_fitted *rows = LK_ARRAY(&w->arena, lk_fitted, c->rows.count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < c->rows.count; i++) {
		const lk_calibration_row *row = &c->rows.at[i];
		rows[i] = (lk_fitted){row->family, row->subject, row->variant, numbers_text(&w->arena, row), row->points,
		                      row->error, row->date, row->source};
		if (!rows[i].numbers) return lk_oom(err);
	}
	w->result.rows = rows;
	w->result.row_count = (int)c->rows.count;
	return LK_OK;
}

static lk_status fit(const lk_calibrate_request *r, const struct kind *kind, struct work *w, lk_error *err) {
	const char *source = source_of(r, &w->arena), *date = date_of(r, &w->arena);
	const char *name = r->name ? lk_arena_strdup(&w->arena, r->name) : NULL;
	lk_stream *in;
	if (!source || !date || (r->name && !name)) return lk_oom(err);
	LK_TRY(lk_stream_open(r->table, &in, err));
	lk_status status = kind->fit(in, source, date, &w->calibration, err);
	lk_stream_close(in);
	LK_TRY(status);
	if (w->calibration.rows.count == 0) {
		lk_fail(err, LK_ERR_INPUT, r->table, "nothing in the table could be fitted");
		return lk_hint(err, "a table such as %s is wanted", kind->table);
	}
	if (name) LK_TRY(rename_subject(name, &w->calibration, err));
	return list_rows(w, err);
}

/* ---- the machine ---- */

static lk_status measure(const lk_calibrate_request *r, struct work *w, lk_error *err) {
	w->is_host = true;
	const lk_host_options options = {
		.seconds = r->seconds > 0 ? r->seconds : 20, .name = r->name, .date = date_of(r, &w->arena),
		.source = source_of(r, &w->arena), .disk = r->disk, .mpi = r->mpi, .progress = r->progress, .context = r->context,
	};
	if (!options.date || !options.source) return lk_oom(err);
	LK_TRY(lk_host_measure(&options, &w->host, err));
	size_t count = w->host.quantities.count;
	lk_measured *measured = LK_ARRAY(&w->arena, lk_measured, count);
	if (!measured) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const lk_quantity *q = &w->host.quantities.at[i];
		measured[i] = (lk_measured){q->group, q->name, q->unit, q->value, q->low, q->high, q->repeats};
	}
	w->result.measured = measured, w->result.measured_count = (int)count;
	w->result.notes = w->host.notes.at, w->result.note_count = (int)w->host.notes.count;
	return LK_OK;
}

lk_status lk_calibrate(const lk_calibrate_request *request, lk_calibrated **out, lk_error *err) {
	const struct kind *kind;
	*out = NULL;
	LK_TRY(find_kind(request->kind ? request->kind : "", &kind, err));
	LK_TRY(check_request(request, kind, err));
	struct work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->result.memory_owner = w;
	w->result.kind = kind->name;
	lk_status status = kind->fit ? fit(request, kind, w, err) : measure(request, w, err);
	if (status == LK_OK) {
		w->result.reproduce = lk_calibrate_command(&w->arena, request);
		if (!w->result.reproduce) status = lk_oom(err);
	}
	if (status == LK_OK) *out = &w->result;
	else lk_calibrate_free(&w->result);
	return status;
}
