/* jobs_read.c: a list of jobs as CSV, read and written; the nodes of a cluster. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "io/csv.h"
#include "io/form.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "jobs/jobs_trace.h"

enum {
	NAME,
	SUBMIT,
	GPUS,
	NEEDED,
	MODEL = NEEDED,
	SAMPLES,
	BATCH,
	TRAINED, /* columns before it are required for jobs without a duration */
	BATCH_MIN = TRAINED,
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
	DURATION,
	USER,
	GROUP,
	COLUMNS,
};
static const char *const columns[COLUMNS] = {
	"job",       "submit_h", "gpus",      "model",      "samples", "batch", "batch_min",
	"batch_max", "gpus_min", "gpus_max",  "seq",        "tp",      "pp",    "mbs",
	"dtype",     "zero",     "recompute", "duration_s", "user",    "group",
};

static lk_status jobs_read_empty(const lk_csv *csv, int column, lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "column %s is empty", columns[column]);
}

/* Read an integer of a column; if it is empty or absent, `otherwise`. */
static lk_status jobs_read_whole(const lk_csv *csv, const int *at, int column, long long high,
                                 int otherwise, int *out, lk_error *err) {
	const char *text = lk_csv_field(csv, at[column]);
	char where[256];
	long long value;
	if (!*text && column < TRAINED) return jobs_read_empty(csv, column, err);
	if (!*text) {
		*out = otherwise;
		return LK_OK;
	}
	snprintf(where, sizeof where, "%.200s: column %s", lk_csv_where(csv), columns[column]);
	LK_TRY(lk_parse_int(text, 1, high, &value, where, err));
	*out = (int)value;
	return LK_OK;
}

static lk_status jobs_read_text_of(const lk_csv *csv, const int *at, int column, lk_arena *arena,
                                   const char **out, lk_error *err) {
	const char *text = lk_csv_field(csv, at[column]);
	*out = NULL;
	if (!*text && column < TRAINED) return jobs_read_empty(csv, column, err);
	if (*text && !(*out = lk_arena_strdup(arena, text))) return lk_oom(err);
	return LK_OK;
}

static lk_status jobs_read_check_gpus(const lk_listed_job *listed_job, int gpus, lk_error *err) {
	if (listed_job->job.gpus <= gpus) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, listed_job->where, "job %.60s asks for %d %s of a cluster of %d",
	        listed_job->job.name, listed_job->job.gpus,
	        lk_noun(listed_job->job.gpus, "GPU", "GPUs"), gpus);
	return lk_hint(err, "it would never start; give it at most %d, or a larger cluster by --gpus",
	               gpus);
}

static lk_status jobs_read_check_ranges(const lk_listed_job *listed_job, lk_error *err) {
	const lk_jobs_job *job = &listed_job->job;
	if (job->batch_min > job->batch || job->batch > job->batch_max) {
		lk_fail(err, LK_ERR_INPUT, listed_job->where,
		        "the batch %d of job %.60s is not between batch_min %d and batch_max %d",
		        job->batch, job->name, job->batch_min, job->batch_max);
		return lk_hint(err, "batch is what the job runs with when nothing is elastic");
	}
	if (job->gpus_min > job->gpus || job->gpus > job->gpus_max) {
		lk_fail(err, LK_ERR_INPUT, listed_job->where,
		        "the %d %s of job %.60s are not between gpus_min %d and gpus_max %d", job->gpus,
		        lk_noun(job->gpus, "GPU", "GPUs"), job->name, job->gpus_min, job->gpus_max);
		return lk_hint(err, "gpus is what the job asks for when nothing is elastic");
	}
	return LK_OK;
}

/* Read a job of known duration, which has no model. */
static lk_status jobs_read_duration(const lk_csv *csv, const int *at, lk_listed_job *listed_job,
                                    lk_error *err) {
	char where[256];
	for (int c = NEEDED; c < DURATION; c++) {
		if (!*lk_csv_field(csv, at[c])) continue;
		lk_fail(err, LK_ERR_INPUT, listed_job->where, "job %.60s has both duration_s and %s",
		        listed_job->job.name, columns[c]);
		return lk_hint(err, "a duration is of a job without a model: leave one of them empty");
	}
	snprintf(where, sizeof where, "%.200s: column duration_s", listed_job->where);
	return lk_parse_real(lk_csv_field(csv, at[DURATION]), 1e-3, 1e10, &listed_job->duration_s,
	                     where, err);
}

/* Read what predict needs for a job, and how far it may be changed. */
static lk_status jobs_read_training(const lk_csv *csv, const int *at, int gpus, lk_arena *arena,
                                    lk_listed_job *listed_job, lk_error *err) {
	lk_jobs_job *job = &listed_job->job;
	char where[256];
	LK_TRY(jobs_read_text_of(csv, at, MODEL, arena, &job->model, err));
	snprintf(where, sizeof where, "%.200s: column samples", listed_job->where);
	LK_TRY(lk_parse_count(lk_csv_field(csv, at[SAMPLES]), 1, 1e15, &job->samples, where, err));
	LK_TRY(jobs_read_whole(csv, at, BATCH, LK_JOBS_BATCH_MOST, 0, &job->batch, err));
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
	return jobs_read_check_ranges(listed_job, err);
}

static lk_status jobs_read_row(const lk_csv *csv, const int *at, int gpus, lk_arena *arena,
                               lk_listed_job *listed_job, lk_error *err) {
	lk_jobs_job *job = &listed_job->job;
	char where[256];
	if (!(listed_job->where = lk_arena_strdup(arena, lk_csv_where(csv)))) return lk_oom(err);
	LK_TRY(jobs_read_text_of(csv, at, NAME, arena, &job->name, err));
	LK_TRY(jobs_read_text_of(csv, at, USER, arena, &job->user, err));
	LK_TRY(jobs_read_text_of(csv, at, GROUP, arena, &job->group, err));
	snprintf(where, sizeof where, "%.200s: column submit_h", listed_job->where);
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[SUBMIT]), 0, 1e6, &job->submit_s, where, err));
	job->submit_s *= 3600;
	LK_TRY(jobs_read_whole(csv, at, GPUS, LK_JOBS_GPUS_MOST, 0, &job->gpus, err));
	LK_TRY(jobs_read_check_gpus(listed_job, gpus, err));
	return *lk_csv_field(csv, at[DURATION])
	           ? jobs_read_duration(csv, at, listed_job, err)
	           : jobs_read_training(csv, at, gpus, arena, listed_job, err);
}

/* Jobs of one moment stay in the file's order. */
LK_ORDER_BY(by_submission, lk_listed_job, job.submit_s, row)

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
	(void)context;
	LK_TRY(lk_csv_refuse_others(csv, columns, COLUMNS, "list of jobs", err));
	for (int c = NEEDED; at[DURATION] < 0 && c < TRAINED; c++) {
		if (at[c] >= 0) continue;
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "the column %s is missing", columns[c]);
		return lk_hint(err, "jobs have model, samples and batch, or duration_s");
	}
	return LK_OK;
}

/* Shift the times of a log so that its first job comes at 0. */
static lk_status jobs_read_settle_trace(lk_job_list *list, int gpus, lk_error *err) {
	double first_s = list->at[0].job.submit_s;
	for (size_t i = 0; i < list->count; i++) {
		list->at[i].job.submit_s -= first_s;
		LK_TRY(jobs_read_check_gpus(&list->at[i], gpus, err));
	}
	return LK_OK;
}

static lk_status jobs_read_none(const char *name, const lk_jobs_left *left, lk_error *err) {
	if (!left->no_gpu && !left->unfinished) return lk_fail(err, LK_ERR_INPUT, name, "holds no job");
	lk_fail(err, LK_ERR_INPUT, name,
	        "holds no job to simulate: %d without GPUs, %d without a known start and end",
	        left->no_gpu, left->unfinished);
	return lk_hint(err, "a job counts once it has ended; times are as in 2026-01-31T12:00:00");
}

static lk_status jobs_read_sort(const char *name, const lk_jobs_left *left, lk_job_list *list,
                                lk_error *err) {
	if (!list->count) return jobs_read_none(name, left, err);
	lk_sort(list->at, list->count, sizeof *list->at, by_submission);
	return LK_OK;
}

lk_status lk_jobs_read(lk_stream *in, int gpus, lk_arena *arena, lk_job_list *out,
                       lk_jobs_left *left, lk_error *err) {
	const lk_csv_table table = {columns,      COLUMNS,           NEEDED,        "list of jobs",
	                            LK_JOBS_MOST, jobs_read_add_row, jobs_read_head};
	lk_trace_reader *reader;
	LK_TRY(lk_trace_form(in, &reader, err));
	if (reader) LK_TRY(reader(in, &(lk_job_trace){arena, out, left}, err));
	else LK_TRY(lk_csv_read(in, &table, &(struct reading){gpus, arena, out}, err));
	LK_TRY(jobs_read_sort(lk_stream_name(in), left, out, err));
	return reader ? jobs_read_settle_trace(out, gpus, err) : LK_OK;
}

lk_status lk_jobs_read_path(const char *path, int gpus, lk_arena *arena, lk_job_list *out,
                            lk_jobs_left *left, lk_error *err) {
	struct stat entry;
	if (stat(path, &entry) == 0 && S_ISDIR(entry.st_mode)) {
		LK_TRY(lk_trace_read_folder(path, &(lk_job_trace){arena, out, left}, err));
		LK_TRY(jobs_read_sort(path, left, out, err));
		return jobs_read_settle_trace(out, gpus, err);
	}
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_jobs_read(in, gpus, arena, out, left, err);
	lk_stream_close(in);
	return status;
}

/* ---- nodes ---- */

typedef LK_VEC(int) node_sizes;

static lk_status jobs_read_node(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	node_sizes *sizes = context;
	long long gpus;
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[0]), 0, LK_JOBS_GPUS_MOST, &gpus, lk_csv_where(csv),
	                    err));
	if (!gpus) return LK_OK;
	if (!lk_push(sizes)) return lk_oom(err);
	*lk_last(sizes) = (int)gpus;
	return LK_OK;
}

lk_status lk_places_read(const char *path, lk_arena *arena, lk_places *out, lk_error *err) {
	static const char *const column[] = {"gpu"};
	const lk_csv_table table = {column,         1,   1, "list of nodes", LK_JOBS_GPUS_MOST,
	                            jobs_read_node, NULL};
	node_sizes sizes = {0};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_csv_read(in, &table, &sizes, err);
	lk_stream_close(in);
	out->count = (int)sizes.count;
	out->sizes = LK_ARRAY(arena, int, sizes.count);
	if (status == LK_OK && !out->sizes) status = lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < sizes.count; i++) out->sizes[i] = sizes.at[i];
	lk_vec_free(&sizes);
	return status == LK_OK && !out->count
	           ? lk_fail(err, LK_ERR_INPUT, path, "no node has GPUs in the column gpu")
	           : status;
}

/* ---- writing ---- */

/* A field as CSV: quoted if necessary. */
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
	bool trained = job->model != NULL;
	jobs_read_put_text(sink, job->name);
	lk_sink_printf(sink, ",%s,%d,", lk_format_shortest(job->submit_s / 3600, hours, sizeof hours),
	               job->gpus);
	jobs_read_put_text(sink, job->model);
	lk_sink_printf(sink, ",%s",
	               trained ? lk_format_shortest(job->samples, samples, sizeof samples) : "");
	put_if(sink, job->batch);
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
	lk_sink_printf(sink, ",%s,",
	               trained ? ""
	                       : lk_format_shortest(listed_job->duration_s, samples, sizeof samples));
	jobs_read_put_text(sink, job->user);
	lk_sink_printf(sink, ",");
	jobs_read_put_text(sink, job->group);
	lk_sink_printf(sink, "\n");
}

lk_status lk_jobs_write(const lk_job_list *list, const char *path, lk_error *err) {
	lk_sink *sink;
	char form[64];
	LK_TRY(lk_sink_open(path, &sink, err));
	lk_sink_printf(sink, "%s\n", lk_form_line(LK_FORM_JOBS, form, sizeof form));
	for (int i = 0; i < COLUMNS; i++) lk_sink_printf(sink, "%s%s", i ? "," : "", columns[i]);
	lk_sink_printf(sink, "\n");
	for (size_t i = 0; i < list->count; i++) jobs_read_put_job(sink, &list->at[i]);
	return lk_sink_commit(sink, err);
}
