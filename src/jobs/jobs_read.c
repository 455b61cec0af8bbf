/* jobs_read.c: a list of jobs as CSV, read and written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/text.h"
#include "jobs/jobs.h"

enum {
	NAME,
	SUBMIT,
	MODEL,
	SAMPLES,
	BATCH,
	GPUS,
	NEEDED,
	BATCH_MIN = NEEDED,
	BATCH_MAX,
	GPUS_MIN,
	GPUS_MAX,
	SEQ,
	TP,
	PP,
	MBS,
	DTYPE,
	ZERO,
	RECOMPUTE,
	COLUMNS,
};
static const char *const columns[COLUMNS] = {
	"job",       "submit_h",  "model",    "samples",  "batch",     "gpus",
	"batch_min", "batch_max", "gpus_min", "gpus_max", "seq",       "tp",
	"pp",        "mbs",       "dtype",    "zero",     "recompute",
};

static lk_status jobs_read_empty(const lk_csv *csv, int column, lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "column %s is empty", columns[column]);
}

/* A whole number of a column; where it is empty or absent, `otherwise`. */
static lk_status jobs_read_whole(const lk_csv *csv, const int *at, int column, long long high,
                                 int otherwise, int *out, lk_error *err) {
	const char *text = lk_csv_field(csv, at[column]);
	char where[256];
	long long value;
	if (!*text && column < NEEDED) return jobs_read_empty(csv, column, err);
	if (!*text) return *out = otherwise, LK_OK;
	snprintf(where, sizeof where, "%.200s: column %s", lk_csv_where(csv), columns[column]);
	LK_TRY(lk_parse_int(text, 1, high, &value, where, err));
	*out = (int)value;
	return LK_OK;
}

static lk_status jobs_read_text_of(const lk_csv *csv, const int *at, int column, lk_arena *arena,
                                   const char **out, lk_error *err) {
	const char *text = lk_csv_field(csv, at[column]);
	*out = NULL;
	if (!*text && column < NEEDED) return jobs_read_empty(csv, column, err);
	if (*text && !(*out = lk_arena_strdup(arena, text))) return lk_oom(err);
	return LK_OK;
}

static lk_status jobs_read_check_ranges(const lk_listed_job *listed_job, int gpus, lk_error *err) {
	const lk_jobs_job *job = &listed_job->job;
	if (job->gpus > gpus) {
		lk_fail(err, LK_ERR_INPUT, listed_job->where,
		        "job %.60s asks for %d GPUs of a cluster of %d", job->name, job->gpus, gpus);
		return lk_hint(
			err, "it would never start; give it at most %d, or a larger cluster by --gpus", gpus);
	}
	if (job->batch_min > job->batch || job->batch > job->batch_max) {
		lk_fail(err, LK_ERR_INPUT, listed_job->where,
		        "the batch %d of job %.60s is not between batch_min %d and batch_max %d",
		        job->batch, job->name, job->batch_min, job->batch_max);
		return lk_hint(err, "batch is what the job runs with when nothing is elastic");
	}
	if (job->gpus_min > job->gpus || job->gpus > job->gpus_max) {
		lk_fail(err, LK_ERR_INPUT, listed_job->where,
		        "the %d GPUs of job %.60s are not between gpus_min %d and gpus_max %d", job->gpus,
		        job->name, job->gpus_min, job->gpus_max);
		return lk_hint(err, "gpus is what the job asks for when nothing is elastic");
	}
	return LK_OK;
}

static lk_status jobs_read_row(const lk_csv *csv, const int *at, int gpus, lk_arena *arena,
                               lk_listed_job *listed_job, lk_error *err) {
	lk_jobs_job *job = &listed_job->job;
	if (!(listed_job->where = lk_arena_strdup(arena, lk_csv_where(csv)))) return lk_oom(err);
	LK_TRY(jobs_read_text_of(csv, at, NAME, arena, &job->name, err));
	LK_TRY(jobs_read_text_of(csv, at, MODEL, arena, &job->model, err));
	char where[256];
	snprintf(where, sizeof where, "%.200s: column submit_h", listed_job->where);
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[SUBMIT]), 0, 1e6, &job->submit_s, where, err));
	snprintf(where, sizeof where, "%.200s: column samples", listed_job->where);
	LK_TRY(lk_parse_count(lk_csv_field(csv, at[SAMPLES]), 1, 1e15, &job->samples, where, err));
	job->submit_s *= 3600;
	LK_TRY(jobs_read_whole(csv, at, BATCH, LK_JOBS_BATCH_MOST, 0, &job->batch, err));
	LK_TRY(jobs_read_whole(csv, at, GPUS, LK_JOBS_GPUS_MOST, 0, &job->gpus, err));
	LK_TRY(
		jobs_read_whole(csv, at, BATCH_MIN, LK_JOBS_BATCH_MOST, job->batch, &job->batch_min, err));
	LK_TRY(
		jobs_read_whole(csv, at, BATCH_MAX, LK_JOBS_BATCH_MOST, job->batch, &job->batch_max, err));
	LK_TRY(jobs_read_whole(csv, at, GPUS_MIN, LK_JOBS_GPUS_MOST, 1, &job->gpus_min, err));
	LK_TRY(jobs_read_whole(csv, at, GPUS_MAX, LK_JOBS_GPUS_MOST, gpus, &job->gpus_max, err));
	if (job->gpus_max > gpus) job->gpus_max = gpus;
	listed_job->kind.model = job->model;
	LK_TRY(jobs_read_whole(csv, at, SEQ, 1 << 24, 0, &listed_job->kind.seq, err));
	LK_TRY(jobs_read_whole(csv, at, TP, 1024, 0, &listed_job->kind.tp, err));
	LK_TRY(jobs_read_whole(csv, at, PP, 1024, 0, &listed_job->kind.pp, err));
	LK_TRY(jobs_read_whole(csv, at, MBS, LK_JOBS_BATCH_MOST, 0, &listed_job->kind.mbs, err));
	LK_TRY(jobs_read_text_of(csv, at, DTYPE, arena, &listed_job->kind.dtype, err));
	LK_TRY(jobs_read_text_of(csv, at, ZERO, arena, &listed_job->kind.zero, err));
	LK_TRY(jobs_read_text_of(csv, at, RECOMPUTE, arena, &listed_job->kind.recompute, err));
	return jobs_read_check_ranges(listed_job, gpus, err);
}

/* Jobs of one moment stay in the file's order. */
static int by_submission(const void *a, const void *b) {
	const lk_listed_job *x = a, *y = b;
	if (x->job.submit_s != y->job.submit_s) return x->job.submit_s < y->job.submit_s ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

struct reading {
	int gpus;
	lk_arena *arena;
	lk_job_list *out;
};

static lk_status jobs_read_add_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *reading = context;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_last(reading->out)->row = (int)reading->out->count;
	return jobs_read_row(csv, at, reading->gpus, reading->arena, lk_last(reading->out), err);
}

static lk_status jobs_read_head(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)context, (void)at;
	return lk_csv_refuse_others(csv, columns, COLUMNS, "list of jobs", err);
}

lk_status lk_jobs_read(lk_stream *in, int gpus, lk_arena *arena, lk_job_list *out, lk_error *err) {
	const lk_csv_table table = {columns,      COLUMNS,           NEEDED,        "list of jobs",
	                            LK_JOBS_MOST, jobs_read_add_row, jobs_read_head};
	LK_TRY(lk_csv_read(in, &table, &(struct reading){gpus, arena, out}, err));
	if (!out->count) return lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "holds no job");
	qsort(out->at, out->count, sizeof *out->at, by_submission);
	return LK_OK;
}

/* ---- writing ---- */

/* A field as CSV: quoted where it must be. */
static void jobs_read_put_text(lk_sink *sink, const char *text) {
	if (!text) text = "";
	if (!text[strcspn(text, ",\"\r\n")]) {
		lk_sink_printf(sink, "%s", text);
		return;
	}
	lk_sink_printf(sink, "\"");
	for (; *text; text++) lk_sink_printf(sink, *text == '"' ? "\"\"" : "%c", *text);
	lk_sink_printf(sink, "\"");
}

static void put_if(lk_sink *sink, int value) {
	lk_sink_printf(sink, ",");
	if (value) lk_sink_printf(sink, "%d", value);
}

static void jobs_read_put_job(lk_sink *sink, const lk_listed_job *listed_job) {
	const lk_jobs_job *job = &listed_job->job;
	char hours[32], samples[32];
	jobs_read_put_text(sink, job->name);
	lk_sink_printf(sink, ",%s,", lk_format_shortest(job->submit_s / 3600, hours, sizeof hours));
	jobs_read_put_text(sink, job->model);
	lk_sink_printf(sink, ",%s,%d,%d", lk_format_shortest(job->samples, samples, sizeof samples),
	               job->batch, job->gpus);
	put_if(sink, job->batch_min);
	put_if(sink, job->batch_max);
	put_if(sink, job->gpus_min);
	put_if(sink, job->gpus_max);
	put_if(sink, listed_job->kind.seq);
	put_if(sink, listed_job->kind.tp);
	put_if(sink, listed_job->kind.pp);
	put_if(sink, listed_job->kind.mbs);
	const char *const texts[] = {listed_job->kind.dtype, listed_job->kind.zero,
	                             listed_job->kind.recompute};
	for (int i = 0; i < 3; i++) {
		lk_sink_printf(sink, ",");
		jobs_read_put_text(sink, texts[i]);
	}
	lk_sink_printf(sink, "\n");
}

lk_status lk_jobs_write(const lk_job_list *list, const char *path, lk_error *err) {
	lk_sink *sink;
	LK_TRY(lk_sink_open(path, &sink, err));
	for (int i = 0; i < COLUMNS; i++) lk_sink_printf(sink, "%s%s", i ? "," : "", columns[i]);
	lk_sink_printf(sink, "\n");
	for (size_t i = 0; i < list->count; i++) jobs_read_put_job(sink, &list->at[i]);
	return lk_sink_commit(sink, err);
}
