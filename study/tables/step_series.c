/* step_series.c: folders of step times of real runs, a file a run: columns step, seconds and run
 * (repeats of one configuration), with a head of comments that says where the run is from and what
 * a step of it is.
 *
 * The first word of a file's name is whose runs it is of, which chooses the preset of noise. The
 * cluster is the word of its source that names the machine: the one after "dgx_" (NVIDIA's release
 * tests), else the one after "results/" (MLPerf: the name of the system); otherwise every source is
 * a cluster of its own. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "io/csv.h"
#include "system/listing.h"
#include "tables/tables.h"

enum { FIRST_STEPS = 10, HEAD = 8192, MOST_STEPS = 10000000 };
enum { STEP, SECONDS, RUN, SERIES_COLUMNS };
static const char *const columns[SERIES_COLUMNS] = {"step", "seconds", "run"};

typedef struct series_reading {
	lk_arena *arena;
	LK_VEC(double) seconds;
	size_t run_begins; /* the current run's first step in `seconds` */
	double run;
	lk_step_series *out;
} series_reading;

/* The word after `mark` in a text, up to the next of `ends`; NULL: there is none. */
static const char *word_after(lk_arena *arena, const char *text, const char *mark,
                              const char *ends) {
	const char *at = strstr(text, mark);
	if (!at) return NULL;
	at += strlen(mark);
	return lk_arena_strndup(arena, at, strcspn(at, ends));
}

/* "mean of 100 consecutive steps", "mean of ten ...". */
static int mean_of(const char *head) {
	const char *at = strstr(head, "mean of ");
	const char *end;
	if (!at) return 1;
	at += strlen("mean of ");
	if (lk_begins_with(at, "ten ")) return 10;
	double number = lk_read_real(at, &end);
	return end > at && number >= 1 && number <= 1e6 ? (int)number : 1;
}

/* What the comments before the first row say. */
static lk_status read_head(series_reading *reading, lk_stream *in, lk_error *err) {
	const char *bytes;
	size_t got;
	LK_TRY(lk_stream_peek(in, HEAD, &bytes, &got, err));
	char *head = lk_arena_strndup(reading->arena, bytes, got);
	if (!head) return lk_oom(err);
	char *rows = strstr(head, "\nstep,");
	if (rows) *rows = '\0';
	reading->out->mean_of = mean_of(head);
	const char *source = word_after(reading->arena, head, "# source: ", "\n");
	const char *cluster = source ? word_after(reading->arena, source, "dgx_", "./_") : NULL;
	if (!cluster && source) cluster = word_after(reading->arena, source, "results/", "._-/");
	reading->out->cluster = cluster ? cluster : source;
	if (!source) reading->out->cluster = reading->out->name;
	return LK_OK;
}

/* Leave out the first steps of the run that ends: they compile and fill caches. */
static void leave_first_steps(series_reading *reading) {
	size_t begin = reading->run_begins, steps = reading->seconds.count - begin, left = steps / 20;
	if (left > FIRST_STEPS) left = FIRST_STEPS;
	memmove(reading->seconds.at + begin, reading->seconds.at + begin + left,
	        (steps - left) * sizeof *reading->seconds.at);
	reading->seconds.count -= left;
	reading->run_begins = reading->seconds.count;
}

static lk_status take_step(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	series_reading *reading = context;
	double seconds, run;
	LK_TRY(
		lk_parse_real(lk_csv_field(csv, at[SECONDS]), 1e-9, 1e9, &seconds, lk_csv_where(csv), err));
	LK_TRY(lk_csv_real(csv, at[RUN], 0, 1e9, &run, err));
	if (isnan(run)) run = 0;
	if (run != reading->run) leave_first_steps(reading);
	reading->run = run;
	if (!lk_push(&reading->seconds)) return lk_oom(err);
	*lk_last(&reading->seconds) = seconds;
	return LK_OK;
}

static lk_status read_series(lk_arena *arena, const char *path, const char *name,
                             lk_step_series *out, lk_error *err) {
	const lk_csv_table table = {columns,    SERIES_COLUMNS, RUN, "table of step times",
	                            MOST_STEPS, take_step,      NULL};
	series_reading reading = {.arena = arena, .out = out};
	size_t word = 0;
	lk_stream *in;
	while (isalpha((unsigned char)name[word])) word++;
	out->name = lk_arena_strndup(arena, name, strcspn(name, "."));
	out->kind = lk_arena_strndup(arena, name, word);
	if (!out->name || !out->kind) return lk_oom(err);
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = read_head(&reading, in, err);
	if (status == LK_OK) status = lk_csv_read(in, &table, &reading, err);
	lk_stream_close(in);
	if (status == LK_OK) {
		leave_first_steps(&reading);
		out->count = reading.seconds.count;
		out->seconds = LK_ARRAY(arena, double, out->count);
		if (!out->seconds) status = lk_oom(err);
		else if (out->count)
			memcpy(out->seconds, reading.seconds.at, out->count * sizeof *out->seconds);
	}
	lk_vec_free(&reading.seconds);
	if (status == LK_OK && out->count < 20)
		return lk_fail(err, LK_ERR_INPUT, path, "%zu steps say nothing about tails: at least 20",
		               out->count);
	return status;
}

lk_status lk_step_series_read(lk_arena *arena, const char *folder, lk_step_series_set *out,
                              lk_error *err) {
	lk_listing names;
	LK_TRY(lk_listing_read(folder, ".csv", &names, err));
	lk_status status = LK_OK;
	for (size_t i = 0; status == LK_OK && i < names.count; i++) {
		const char *path = lk_arena_printf(arena, "%s/%s", folder, names.names[i]);
		status = path && lk_push(out) ? LK_OK : lk_oom(err);
		if (status != LK_OK) break;
		*lk_last(out) = (lk_step_series){0};
		status = read_series(arena, path, names.names[i], lk_last(out), err);
	}
	lk_listing_free(&names);
	if (status == LK_OK && !out->count) {
		lk_fail(err, LK_ERR_INPUT, folder, "it has no .csv files");
		return lk_hint(err, "give a folder of step times: columns step, seconds and run");
	}
	return status;
}
