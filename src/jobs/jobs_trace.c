/* jobs_trace.c: logs of clusters as lists of jobs: their names and users if known, durations and
 * numbers of GPUs. A job's `group` is its owner's name for such jobs; if a log withholds names, it
 * is what jobs of one kind share.
 *
 *     Helios    cluster_log.csv of S-Lab-System-Group/HeliosData: names withheld; group: virtual
 *               cluster, GPUs and CPUs
 *     Alibaba   v2023: openb_pods.csv of alibaba/clusterdata, cluster-trace-gpu-v2023; no users
 *               v2020: a folder with pai_job_table.csv, pai_task_table.csv, pai_group_tag_table.csv
 *     Slurm     sacct -a -X -P -o JobID,JobName,User,Submit,Start,End,AllocTRES,ReqTRES (any
 *               fields, in any order, with the header line; without it, -n, those of a known list)
 *     Philly    cluster_job_log of msr-fiddle/philly-traces, one JSON document; attempts are
 *               added up
 *
 * A share of a GPU counts as a whole one. Jobs without GPUs, and jobs that never ran or still run,
 * are left out and counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "io/csv.h"
#include "io/json.h"
#include "jobs/jobs_trace.h"

/* ---- shared by all formats ---- */

enum {
	TEXT_MOST = 1 << 30 /* bytes of a log that is read whole */
};

/* A job of a log; NAN if a time or the number of GPUs is unknown. */
typedef struct traced_job {
	const char *name, *user, *group;
	double submit_s, duration_s, gpus;
} traced_job;

/* Add a job, or count why it is left out. */
static lk_status trace_add(lk_job_trace *trace, const char *where, const traced_job *traced,
                           lk_error *err) {
	if (traced->gpus <= 0) {
		trace->left->no_gpu++;
		return LK_OK;
	}
	if (!(traced->duration_s >= 0) || !isfinite(traced->duration_s) ||
	    !isfinite(traced->submit_s)) {
		trace->left->unfinished++;
		return LK_OK;
	}
	if (isnan(traced->gpus)) {
		trace->left->no_gpu++;
		return LK_OK;
	}
	if (traced->gpus > LK_JOBS_GPUS_MOST) {
		lk_fail(err, LK_ERR_INPUT, where, "job %.60s has %.0f %s", traced->name, traced->gpus,
		        lk_noun(traced->gpus, "GPU", "GPUs"));
		return lk_hint(err, "at most %d are simulated", LK_JOBS_GPUS_MOST);
	}
	if (trace->out->count == LK_JOBS_MOST)
		return lk_fail(err, LK_ERR_INPUT, where, "more than %d jobs", LK_JOBS_MOST);
	if (!lk_push(trace->out)) return lk_oom(err);
	lk_listed_job *listed_job = lk_last(trace->out);
	trace->left->shared += traced->gpus != ceil(traced->gpus);
	listed_job->row = (int)trace->out->count;
	listed_job->where = lk_arena_strdup(trace->arena, where);
	listed_job->job.name = lk_arena_strdup(trace->arena, traced->name);
	listed_job->job.group = lk_arena_strdup(trace->arena, traced->group);
	listed_job->job.user = lk_arena_strdup(trace->arena, traced->user);
	listed_job->job.submit_s = traced->submit_s;
	listed_job->job.gpus = (int)ceil(traced->gpus);
	listed_job->duration_s = fmax(traced->duration_s, 1);
	return listed_job->where && listed_job->job.name && listed_job->job.group &&
	               listed_job->job.user
	           ? LK_OK
	           : lk_oom(err);
}

double lk_trace_time(const char *text) {
	int year, month, day, hour, minute, second, end = 0;
	if (sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute,
	           &second, &end) != 6 ||
	    !end || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
		return NAN;
	int zone_h = 0, zone_m = 0;
	char sign = '+';
	sscanf(text + end, "%c%2d:%2d", &sign, &zone_h, &zone_m);
	int zone_s = sign == '+' || sign == '-' ? 3600 * zone_h + 60 * zone_m : 0;
	return (double)timegm(&(struct tm){.tm_year = year - 1900,
	                                   .tm_mon = month - 1,
	                                   .tm_mday = day,
	                                   .tm_hour = hour,
	                                   .tm_min = minute,
	                                   .tm_sec = second}) -
	       (sign == '-' ? -zone_s : zone_s);
}

/* The number if it is the whole text, else NAN. */
static double trace_number(const char *text) {
	const char *end;
	double number = lk_read_real(text, &end);
	return end == text || *end ? NAN : number;
}

/* ---- Helios ---- */

enum {
	HELIOS_ID,
	HELIOS_USER,
	HELIOS_VC,
	HELIOS_GPUS,
	HELIOS_CPUS,
	HELIOS_SUBMIT,
	HELIOS_DURATION,
	HELIOS_NEEDED,
	HELIOS_START = HELIOS_NEEDED,
	HELIOS_COLUMNS
};
static const char *const helios_columns[HELIOS_COLUMNS] = {
	"job_id", "user", "vc", "gpu_num", "cpu_num", "submit_time", "duration", "start_time"};

static lk_status helios_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	char group[160];
	double duration_s = trace_number(lk_csv_field(csv, at[HELIOS_DURATION]));
	/* cancelled while it waited */
	if (duration_s == 0 && isnan(lk_trace_time(lk_csv_field(csv, at[HELIOS_START]))))
		duration_s = NAN;
	snprintf(group, sizeof group, "%.60s-%.20sgpu-%.20scpu", lk_csv_field(csv, at[HELIOS_VC]),
	         lk_csv_field(csv, at[HELIOS_GPUS]), lk_csv_field(csv, at[HELIOS_CPUS]));
	return trace_add(context, lk_csv_where(csv),
	                 &(traced_job){.name = lk_csv_field(csv, at[HELIOS_ID]),
	                               .user = lk_csv_field(csv, at[HELIOS_USER]),
	                               .group = group,
	                               .submit_s = lk_trace_time(lk_csv_field(csv, at[HELIOS_SUBMIT])),
	                               .duration_s = duration_s,
	                               .gpus = trace_number(lk_csv_field(csv, at[HELIOS_GPUS]))},
	                 err);
}

static lk_status trace_read_helios(lk_stream *in, lk_job_trace *trace, lk_error *err) {
	const lk_csv_table table = {helios_columns, HELIOS_COLUMNS, HELIOS_NEEDED, "log of Helios",
	                            LK_JOBS_MOST,   helios_row,     NULL};
	return lk_csv_read(in, &table, trace, err);
}

/* ---- Alibaba v2023 ---- */

enum {
	POD_NAME,
	POD_GPUS,
	POD_SHARE,
	POD_QOS,
	POD_CREATED,
	POD_SCHEDULED,
	POD_DELETED,
	POD_COLUMNS
};
static const char *const pod_columns[POD_COLUMNS] = {
	"name", "num_gpu", "gpu_milli", "qos", "creation_time", "scheduled_time", "deletion_time"};

static lk_status pod_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	double gpus = trace_number(lk_csv_field(csv, at[POD_GPUS])),
		   milli = trace_number(lk_csv_field(csv, at[POD_SHARE]));
	char group[100];
	snprintf(group, sizeof group, "%.40s-%.20s-%.20s", lk_csv_field(csv, at[POD_QOS]),
	         lk_csv_field(csv, at[POD_GPUS]), lk_csv_field(csv, at[POD_SHARE]));
	return trace_add(
		context, lk_csv_where(csv),
		&(traced_job){.name = lk_csv_field(csv, at[POD_NAME]),
	                  .user = "",
	                  .group = group,
	                  .submit_s = trace_number(lk_csv_field(csv, at[POD_CREATED])),
	                  .duration_s = trace_number(lk_csv_field(csv, at[POD_DELETED])) -
	                                trace_number(lk_csv_field(csv, at[POD_SCHEDULED])),
	                  .gpus = gpus == 1 && milli > 0 && milli < 1000 ? milli / 1000 : gpus},
		err);
}

static lk_status trace_read_pods(lk_stream *in, lk_job_trace *trace, lk_error *err) {
	const lk_csv_table table = {pod_columns,  POD_COLUMNS, POD_COLUMNS, "list of pods",
	                            LK_JOBS_MOST, pod_row,     NULL};
	return lk_csv_read(in, &table, trace, err);
}

/* ---- lines of fields without quotes ---- */

enum { FIELDS = 64 };

struct trace_lines {
	char *text, *next;
	const char *name;
	int line, count;
	char *fields[FIELDS];
	char where[240];
};

static lk_status trace_lines_open(lk_stream *in, struct trace_lines *out, lk_error *err) {
	size_t size;
	*out = (struct trace_lines){.name = lk_stream_name(in)};
	LK_TRY(lk_stream_rest(in, TEXT_MOST, &out->text, &size, err));
	out->next = out->text;
	if (strlen(out->text) == size) return LK_OK;
	free(out->text);
	return lk_fail(err, LK_ERR_INPUT, out->name, "it holds a NUL byte: is this a text file?");
}

/* Read the next line that is not empty, split into fields; false at the end. */
static bool trace_lines_next(struct trace_lines *lines, char separator) {
	while (*lines->next) {
		char *line = lines->next, *end = line + strcspn(line, "\n");
		lines->next = *end ? end + 1 : end;
		lines->line++;
		if (end > line && end[-1] == '\r') end--;
		*end = '\0';
		if (end == line) continue;
		snprintf(lines->where, sizeof lines->where, "%.200s:%d", lines->name, lines->line);
		lines->count = 0;
		for (char *field = line; field && lines->count < FIELDS;) {
			lines->fields[lines->count++] = field;
			field = strchr(field, separator);
			if (field) *field++ = '\0';
		}
		return true;
	}
	return false;
}

static const char *trace_field(const struct trace_lines *lines, int at) {
	return at >= 0 && at < lines->count ? lines->fields[at] : "";
}

/* ---- Slurm ---- */

enum {
	SACCT_ID,
	SACCT_NAME,
	SACCT_USER,
	SACCT_SUBMIT,
	SACCT_START,
	SACCT_END,
	SACCT_NEEDED,
	SACCT_ALLOCATED = SACCT_NEEDED,
	SACCT_REQUESTED,
	SACCT_COLUMNS,
	FIELDS_OF_SACCT = 12
};
static const char *const sacct_columns[SACCT_COLUMNS] = {
	"JobID", "JobName", "User", "Submit", "Start", "End", "AllocTRES", "ReqTRES"};

/* GPUs of "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2": the total if listed, else the sum of the
 * types. */
static double sacct_gpus(const char *resources) {
	double typed = 0;
	for (const char *at = resources; (at = strstr(at, "gres/gpu"));) {
		at += strlen("gres/gpu");
		const char *value = at + strcspn(at, "=,");
		double gpus = *value == '=' ? strtod(value + 1, NULL) : 0;
		if (*at == '=') return gpus;
		if (*at == ':') typed += gpus;
	}
	return typed;
}

/* Known lists of fields, identified by their number, for sacct -n without a header line. */
static const char *const sacct_lists[][FIELDS_OF_SACCT] = {
	{"JobID", "JobName", "User", "Submit", "Start", "End", "AllocTRES", "ReqTRES"},
	{"JobID", "JobName", "User", "Partition", "Submit", "Start", "End", "ElapsedRaw", "State",
     "AllocTRES", "ReqTRES", "NNodes"},
};

/* Column indices in a line of a job; false if no known list has that many fields, or the submission
 * field has no time. */
static bool sacct_places(const struct trace_lines *lines, int *at) {
	for (size_t i = 0; i < sizeof sacct_lists / sizeof *sacct_lists; i++) {
		int count = 0;
		for (int c = 0; c < SACCT_COLUMNS; c++) at[c] = -1;
		for (; count < FIELDS_OF_SACCT && sacct_lists[i][count]; count++)
			for (int c = 0; c < SACCT_COLUMNS; c++)
				if (strcmp(sacct_lists[i][count], sacct_columns[c]) == 0) at[c] = count;
		if (count == lines->count && !isnan(lk_trace_time(trace_field(lines, at[SACCT_SUBMIT]))))
			return true;
	}
	return false;
}

static lk_status sacct_head(struct trace_lines *lines, int *at, lk_error *err) {
	for (int c = 0; c < SACCT_COLUMNS; c++) {
		at[c] = -1;
		for (int f = 0; f < lines->count; f++)
			if (strcmp(lines->fields[f], sacct_columns[c]) == 0) at[c] = f;
		if (at[c] >= 0 || c >= SACCT_NEEDED) continue;
		lk_fail(err, LK_ERR_INPUT, lines->where, "the field %s is missing", sacct_columns[c]);
		return lk_hint(err, "write the log by sacct -a -X -P -o "
		                    "JobID,JobName,User,Submit,Start,End,AllocTRES,ReqTRES");
	}
	if (at[SACCT_ALLOCATED] >= 0 || at[SACCT_REQUESTED] >= 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, lines->where, "neither AllocTRES nor ReqTRES is a field");
	return lk_hint(err, "they have the GPUs: add AllocTRES to sacct's -o");
}

static lk_status sacct_job(const struct trace_lines *lines, const int *at, lk_job_trace *trace,
                           lk_error *err) {
	double gpus = sacct_gpus(trace_field(lines, at[SACCT_ALLOCATED]));
	if (gpus <= 0) gpus = sacct_gpus(trace_field(lines, at[SACCT_REQUESTED]));
	/* The steps of a job, "12.batch", repeat its time. */
	if (strchr(trace_field(lines, at[SACCT_ID]), '.')) return LK_OK;
	return trace_add(trace, lines->where,
	                 &(traced_job){.name = trace_field(lines, at[SACCT_ID]),
	                               .user = trace_field(lines, at[SACCT_USER]),
	                               .group = trace_field(lines, at[SACCT_NAME]),
	                               .submit_s = lk_trace_time(trace_field(lines, at[SACCT_SUBMIT])),
	                               .duration_s = lk_trace_time(trace_field(lines, at[SACCT_END])) -
	                                             lk_trace_time(trace_field(lines, at[SACCT_START])),
	                               .gpus = gpus},
	                 err);
}

static lk_status trace_read_sacct(lk_stream *in, lk_job_trace *trace, lk_error *err) {
	struct trace_lines lines;
	int at[SACCT_COLUMNS];
	LK_TRY(trace_lines_open(in, &lines, err));
	lk_status status = LK_OK;
	bool first = trace_lines_next(&lines, '|'), headless = first && sacct_places(&lines, at);
	if (headless) status = sacct_job(&lines, at, trace, err);
	else if (first) status = sacct_head(&lines, at, err);
	while (status == LK_OK && trace_lines_next(&lines, '|'))
		status = sacct_job(&lines, at, trace, err);
	free(lines.text);
	return status;
}

/* ---- Alibaba v2020: tables without header, joined by job name and instance ---- */

struct pai_job {
	const char *name, *inst, *user, *group, *where;
	double submit_s, start_s, end_s, gpus;
	bool open; /* a task has not ended */
};
typedef LK_VEC(struct pai_job) pai_jobs;

LK_ORDER_BY_TEXT(pai_by_name, struct pai_job, name)

LK_ORDER_BY_TEXT(pai_by_inst, struct pai_job, inst)

static lk_status pai_short(const struct trace_lines *lines, int count, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, lines->where, "%d fields where this table has %d", lines->count,
	        count);
	return lk_hint(err, "the tables of cluster-trace-gpu-v2020 have no header line");
}

/* job_name,inst_id,user,status,start_time,end_time */
static lk_status pai_job(struct trace_lines *lines, pai_jobs *jobs, lk_arena *arena,
                         lk_error *err) {
	if (lines->count < 6) return pai_short(lines, 6, err);
	if (!lk_push(jobs)) return lk_oom(err);
	struct pai_job *job = lk_last(jobs);
	job->name = lk_arena_strdup(arena, lines->fields[0]);
	job->inst = lk_arena_strdup(arena, lines->fields[1]);
	job->user = lk_arena_strdup(arena, lines->fields[2]);
	job->where = lk_arena_strdup(arena, lines->where);
	job->group = "";
	job->submit_s = trace_number(lines->fields[4]);
	job->start_s = INFINITY;
	job->end_s = -INFINITY;
	return job->name && job->inst && job->user && job->where ? LK_OK : lk_oom(err);
}

/* job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type: GPUs
 * in percent of each instance. A job runs from the start of its first task to the end of its
 * last. */
static lk_status pai_task(struct trace_lines *lines, pai_jobs *jobs, lk_arena *arena,
                          lk_error *err) {
	(void)arena;
	if (lines->count < 9) return pai_short(lines, 10, err);
	struct pai_job key = {.name = lines->fields[0]};
	struct pai_job *job =
		!jobs->count ? NULL : bsearch(&key, jobs->at, jobs->count, sizeof key, pai_by_name);
	if (!job) return LK_OK;
	double instances = trace_number(lines->fields[2]), start_s = trace_number(lines->fields[4]),
		   end_s = trace_number(lines->fields[5]), percent = trace_number(lines->fields[8]);
	if (percent > 0 && instances > 0) job->gpus += instances * percent / 100;
	if (isnan(start_s) || isnan(end_s)) job->open = true;
	job->start_s = fmin(job->start_s, start_s);
	job->end_s = fmax(job->end_s, end_s);
	return LK_OK;
}

/* inst_id,user,gpu_type_spec,group,workload */
static lk_status pai_tag(struct trace_lines *lines, pai_jobs *jobs, lk_arena *arena,
                         lk_error *err) {
	if (lines->count < 4) return pai_short(lines, 5, err);
	struct pai_job key = {.inst = lines->fields[0]};
	struct pai_job *job =
		!jobs->count ? NULL : bsearch(&key, jobs->at, jobs->count, sizeof key, pai_by_inst);
	if (job && !(job->group = lk_arena_strdup(arena, lines->fields[3]))) return lk_oom(err);
	return LK_OK;
}

typedef lk_status pai_row(struct trace_lines *lines, pai_jobs *jobs, lk_arena *arena,
                          lk_error *err);

static lk_status pai_read(const char *folder, const char *file, pai_row *row, pai_jobs *jobs,
                          lk_arena *arena, lk_error *err) {
	const char *path = lk_arena_printf(arena, "%s/%s", folder, file);
	struct trace_lines lines;
	lk_stream *in;
	if (!path) return lk_oom(err);
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = trace_lines_open(in, &lines, err);
	if (status == LK_OK) {
		while (status == LK_OK && trace_lines_next(&lines, ','))
			status = row(&lines, jobs, arena, err);
		free(lines.text);
	}
	lk_stream_close(in);
	return status;
}

static lk_status pai_read_all(const char *folder, pai_jobs *jobs, lk_job_trace *trace,
                              lk_error *err) {
	struct stat tags;
	const char *path = lk_arena_printf(trace->arena, "%s/pai_group_tag_table.csv", folder);
	if (!path) return lk_oom(err);
	LK_TRY(pai_read(folder, "pai_job_table.csv", pai_job, jobs, trace->arena, err));
	if (stat(path, &tags) == 0) {
		lk_sort(jobs->at, jobs->count, sizeof *jobs->at, pai_by_inst);
		LK_TRY(pai_read(folder, "pai_group_tag_table.csv", pai_tag, jobs, trace->arena, err));
	}
	lk_sort(jobs->at, jobs->count, sizeof *jobs->at, pai_by_name);
	LK_TRY(pai_read(folder, "pai_task_table.csv", pai_task, jobs, trace->arena, err));
	for (size_t i = 0; i < jobs->count; i++) {
		const struct pai_job *job = &jobs->at[i];
		traced_job traced = {job->name,
		                     job->user,
		                     job->group,
		                     job->submit_s,
		                     job->open ? NAN : job->end_s - job->start_s,
		                     job->gpus};
		LK_TRY(trace_add(trace, job->where, &traced, err));
	}
	return LK_OK;
}

lk_status lk_trace_read_folder(const char *folder, lk_job_trace *trace, lk_error *err) {
	pai_jobs jobs = {0};
	lk_status status = pai_read_all(folder, &jobs, trace, err);
	lk_vec_free(&jobs);
	return status;
}

/* ---- Philly: one document ---- */

static double philly_gpus(const lk_value *attempt) {
	const lk_value *detail = lk_json_get(attempt, "detail");
	double gpus = 0;
	for (size_t i = 0; detail && detail->kind == LK_JSON_ARRAY && i < detail->count; i++) {
		const lk_value *of_node = lk_json_get(&detail->items[i], "gpus");
		if (of_node && of_node->kind == LK_JSON_ARRAY) gpus += (double)of_node->count;
	}
	return gpus;
}

static lk_status philly_job(const lk_value *job, const char *where, lk_job_trace *trace,
                            lk_error *err) {
	const lk_value *attempts = lk_json_get(job, "attempts");
	traced_job traced = {.name = lk_json_get_text(job, "jobid", ""),
	                     .user = lk_json_get_text(job, "user", ""),
	                     .group = lk_json_get_text(job, "vc", ""),
	                     .submit_s = lk_trace_time(lk_json_get_text(job, "submitted_time", "")),
	                     .duration_s = NAN};
	for (size_t i = 0; attempts && attempts->kind == LK_JSON_ARRAY && i < attempts->count; i++) {
		const lk_value *attempt = &attempts->items[i];
		double ran_s = lk_trace_time(lk_json_get_text(attempt, "end_time", "")) -
		               lk_trace_time(lk_json_get_text(attempt, "start_time", ""));
		traced.gpus = fmax(traced.gpus, philly_gpus(attempt));
		if (ran_s >= 0) traced.duration_s = fmax(traced.duration_s, 0) + ran_s;
	}
	if (isnan(traced.duration_s)) traced.gpus = NAN; /* attempts state them */
	return trace_add(trace, where, &traced, err);
}

static lk_status trace_read_philly(lk_stream *in, lk_job_trace *trace, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_value *log;
	lk_status status = lk_json_document(&arena, in, &log, err);
	if (status == LK_OK && log->kind != LK_JSON_ARRAY)
		status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in),
		                 "the log of Philly must be a JSON list of jobs");
	for (size_t i = 0; status == LK_OK && i < log->count; i++) {
		char where[256];
		snprintf(where, sizeof where, "%.200s:%d", lk_stream_name(in), log->items[i].line);
		status = philly_job(&log->items[i], where, trace, err);
	}
	lk_arena_free(&arena);
	return status;
}

/* ---- recognising the format ---- */

enum { HEAD_MOST = 4096 };

/* Read the first line that is no comment, cut to `size`. */
static lk_status trace_head(lk_stream *in, char *out, size_t size, lk_error *err) {
	const char *bytes;
	size_t got, from = 0, length = 0;
	LK_TRY(lk_stream_peek(in, HEAD_MOST, &bytes, &got, err));
	while (from < got && (bytes[from] == '#' || bytes[from] == '\n' || bytes[from] == '\r')) {
		const char *end = memchr(bytes + from, '\n', got - from);
		from = end ? (size_t)(end - bytes) + 1 : got;
	}
	while (from + length < got && length + 1 < size && bytes[from + length] != '\n') length++;
	memcpy(out, bytes + from, length);
	out[length] = '\0';
	return LK_OK;
}

static bool trace_all_in(const char *head, const char *const *names, int count) {
	for (int i = 0; i < count; i++)
		if (!strstr(head, names[i])) return false;
	return true;
}

/* A header line, or a job line of sacct -n: its number, then fields between bars. */
static bool trace_is_sacct(const char *head) {
	if (!strchr(head, '|')) return false;
	return strstr(head, "JobID") || (*head >= '0' && *head <= '9');
}

lk_status lk_trace_form(lk_stream *in, lk_trace_reader **out, lk_error *err) {
	char head[1024];
	LK_TRY(trace_head(in, head, sizeof head, err));
	const char *first = head + strspn(head, " \t\r");
	*out = NULL;
	if (*first == '[' || *first == '{') *out = trace_read_philly;
	else if (trace_is_sacct(head)) *out = trace_read_sacct;
	else if (trace_all_in(head, helios_columns, HELIOS_NEEDED)) *out = trace_read_helios;
	else if (trace_all_in(head, pod_columns, POD_COLUMNS)) *out = trace_read_pods;
	return LK_OK;
}
