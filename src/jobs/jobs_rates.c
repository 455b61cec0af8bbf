/* jobs_rates.c: how fast jobs are: every (kind, GPUs, batch) that some job may use is asked once,
 * on all cores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/parallel.h"
#include "base/text.h"
#include "lockstep/predict.h"
#include "jobs/jobs.h"

struct question {
	const lk_jobs_kind *kind;
	int gpus, batch;
	double per_s; /* answer: 0 cannot be */
	int predictions;
	char why[200]; /* then */
};
typedef LK_VEC(struct question) questions;

/* ---- measured ---- */

struct measured_rate {
	const char *model;
	int gpus, batch;
	double per_s;
};
typedef LK_VEC(struct measured_rate) measured_rates;

static lk_status rates_read_rate(const lk_csv *csv, const int *at, lk_arena *arena,
                                 struct measured_rate *out, lk_error *err) {
	long long gpus, batch;
	if (!(out->model = lk_arena_strdup(arena, lk_csv_field(csv, at[0])))) return lk_oom(err);
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[1]), 1, LK_JOBS_GPUS_MOST, &gpus, lk_csv_where(csv),
	                    err));
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[2]), 1, LK_JOBS_BATCH_MOST, &batch, lk_csv_where(csv),
	                    err));
	LK_TRY(
		lk_parse_real(lk_csv_field(csv, at[3]), 1e-9, 1e12, &out->per_s, lk_csv_where(csv), err));
	out->gpus = (int)gpus;
	out->batch = (int)batch;
	return LK_OK;
}

struct reading {
	lk_arena *arena;
	measured_rates *out;
};

static lk_status add_rate(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out)
	           ? rates_read_rate(csv, at, reading->arena, lk_last(reading->out), err)
	           : lk_oom(err);
}

static lk_status read_rates(const char *path, lk_arena *arena, measured_rates *out, lk_error *err) {
	static const char *const columns[] = {"model", "gpus", "batch", "samples_per_s"};
	const lk_csv_table table = {columns, 4, 4, "table of rates", 1000000, add_rate, NULL};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_csv_read(in, &table, &(struct reading){arena, out}, err);
	lk_stream_close(in);
	return status;
}

/* ---- predicted ---- */

static void fill_request(const lk_jobs_request *request, const struct question *question, int tp,
                         int mbs, lk_predict_request *out) {
	lk_predict_defaults(out);
	out->model = question->kind->model;
	out->gpu = request->gpu;
	out->gpus = question->gpus;
	out->calibration = request->calibration;
	out->tp = tp;
	out->pp = question->kind->pp;
	out->seq = question->kind->seq;
	out->dtype = question->kind->dtype;
	out->recompute = question->kind->recompute;
	out->zero = question->kind->zero ? question->kind->zero : "1";
	out->gbs = question->batch;
	out->mbs = mbs;
	out->no_fixes = true;
}

/* With this tensor parallelism: the largest micro-batch that fits, of pipelines the fastest. */
static void ask_layout(const lk_jobs_request *jobs_request, int tp, struct question *question) {
	int pp = question->kind->pp ? question->kind->pp : 1, replicas = question->gpus / (tp * pp);
	if (replicas * tp * pp != question->gpus || question->batch % replicas) {
		snprintf(question->why, sizeof question->why, "a batch of %d does not divide over %d GPUs",
		         question->batch, question->gpus);
		return;
	}
	for (int mbs = question->batch / replicas; mbs >= 1; mbs = mbs % 2 ? 0 : mbs / 2) {
		lk_predict_request request;
		lk_prediction *prediction = NULL;
		lk_error err = {0};
		char text[200];
		fill_request(jobs_request, question, tp, mbs, &request);
		question->predictions++;
		double before = question->per_s;
		if (lk_predict(&request, &prediction, &err) != LK_OK)
			lk_copy(question->why, sizeof question->why, lk_error_text(&err, text, sizeof text));
		else if (!prediction->fits)
			snprintf(question->why, sizeof question->why,
			         "it does not fit on %d GPUs (a micro-batch of %d needs %.0f GiB)",
			         question->gpus, mbs, prediction->peak_bytes / 1073741824.0);
		else if (prediction->samples_per_s > question->per_s)
			question->per_s = prediction->samples_per_s;
		lk_predict_free(prediction);
		if (question->per_s > 0 && (pp == 1 || question->per_s == before)) return;
	}
}

/* The least tensor parallelism with which it fits, where the job does not say one. */
static lk_status rates_ask(void *context, size_t job, lk_error *err) {
	const lk_jobs_request *request = ((void **)context)[0];
	struct question *question = &((questions *)((void **)context)[1])->at[job];
	(void)err;
	int least = question->kind->tp ? question->kind->tp : 1,
		most = question->kind->tp ? question->kind->tp : 8;
	for (int tp = least; tp <= most && question->per_s == 0; tp *= 2)
		if (question->gpus % tp == 0) ask_layout(request, tp, question);
	return LK_OK;
}

/* ---- which questions ---- */

/* GPU counts worth a look: all of a node's, then whole nodes. */
static int next_count(int gpus) {
	return gpus < 8 ? gpus + 1 : gpus + 8;
}

static int divisor_of(const lk_jobs_kind *kind) {
	return (kind->tp ? kind->tp : 1) * (kind->pp ? kind->pp : 1);
}

/* Batches that a job may use on so many GPUs: powers of two times the least, the largest, the one
 * requested, each made a multiple of the replicas. */
static int batches_of(const lk_listed_job *job, int gpus, int out[34]) {
	int replicas = gpus / divisor_of(&job->kind), count = 0;
	for (long long b = job->job.batch_min;;
	     b = 2 * b > job->job.batch_max ? job->job.batch_max : 2 * b) {
		long long fits = b / replicas * replicas;
		if (fits < job->job.batch_min) fits += replicas;
		if (fits <= job->job.batch_max && (!count || out[count - 1] != fits))
			out[count++] = (int)fits;
		if (b == job->job.batch_max) return count;
	}
}

static lk_status rates_add(questions *all, const lk_jobs_kind *kind, int gpus, int batch,
                           lk_error *err) {
	if (!lk_push(all)) return lk_oom(err);
	*lk_last(all) = (struct question){.kind = kind, .gpus = gpus, .batch = batch};
	return LK_OK;
}

static lk_status rates_add_job(questions *all, const lk_listed_job *job, lk_error *err) {
	LK_TRY(rates_add(all, &job->kind, job->job.gpus, job->job.batch, err));
	for (int gpus = 1; gpus <= job->job.gpus_max; gpus = next_count(gpus)) {
		int batches[34];
		if (gpus < job->job.gpus_min || gpus % divisor_of(&job->kind)) continue;
		int count = batches_of(job, gpus, batches);
		for (int b = 0; b < count; b++) LK_TRY(rates_add(all, &job->kind, gpus, batches[b], err));
		if (job->job.batch % (gpus / divisor_of(&job->kind)) == 0)
			LK_TRY(rates_add(all, &job->kind, gpus, job->job.batch, err));
	}
	return LK_OK;
}

static int compare_texts(const char *a, const char *b) {
	return strcmp(a ? a : "", b ? b : "");
}

static int by_question(const void *a, const void *b) {
	const struct question *x = a, *y = b;
	const int numbers[][2] = {{x->kind->seq, y->kind->seq},
	                          {x->kind->tp, y->kind->tp},
	                          {x->kind->pp, y->kind->pp},
	                          {x->gpus, y->gpus},
	                          {x->batch, y->batch}};
	int order = compare_texts(x->kind->model, y->kind->model);
	if (!order) order = compare_texts(x->kind->dtype, y->kind->dtype);
	if (!order) order = compare_texts(x->kind->zero, y->kind->zero);
	if (!order) order = compare_texts(x->kind->recompute, y->kind->recompute);
	for (int i = 0; !order && i < 5; i++)
		order = (numbers[i][0] > numbers[i][1]) - (numbers[i][0] < numbers[i][1]);
	return order;
}

static void keep_distinct(questions *all) {
	size_t kept = 0;
	if (all->count) qsort(all->at, all->count, sizeof *all->at, by_question);
	for (size_t i = 0; i < all->count; i++)
		if (!kept || by_question(&all->at[kept - 1], &all->at[i])) all->at[kept++] = all->at[i];
	all->count = kept;
}

static const struct question *rates_find(const questions *all, const lk_listed_job *job, int gpus,
                                         int batch) {
	struct question key = {.kind = &job->kind, .gpus = gpus, .batch = batch};
	return !all->count ? NULL : bsearch(&key, all->at, all->count, sizeof *all->at, by_question);
}

/* ---- answers to jobs ---- */

struct rate_list {
	lk_jobs_rate *at;
	int count;
};

static void keep_best(struct rate_list *list, int gpus, int batch, double per_s) {
	if (!list->count || list->at[list->count - 1].gpus != gpus)
		list->at[list->count++] = (lk_jobs_rate){gpus, batch, per_s};
	else if (per_s > list->at[list->count - 1].per_s)
		list->at[list->count - 1] = (lk_jobs_rate){gpus, batch, per_s};
}

static int by_gpus(const void *a, const void *b) {
	const struct measured_rate *x = a, *y = b;
	return (x->gpus > y->gpus) - (x->gpus < y->gpus);
}

static bool is_measured(const measured_rates *measured, const char *model) {
	for (size_t i = 0; i < measured->count; i++)
		if (strcmp(measured->at[i].model, model) == 0) return true;
	return false;
}

/* Of the measured rates, those of the model that the job may use. */
static void take_measured(const measured_rates *measured, lk_jobs_job *job,
                          struct rate_list *free_batch, struct rate_list *fixed) {
	for (size_t i = 0; i < measured->count; i++) {
		const struct measured_rate *rate = &measured->at[i];
		if (strcmp(rate->model, job->model) != 0 || rate->gpus < job->gpus_min ||
		    rate->gpus > job->gpus_max)
			continue;
		if (rate->batch >= job->batch_min && rate->batch <= job->batch_max)
			keep_best(free_batch, rate->gpus, rate->batch, rate->per_s);
		if (rate->batch == job->batch) keep_best(fixed, rate->gpus, rate->batch, rate->per_s);
	}
}

static void take_predicted(const questions *all, const lk_listed_job *job,
                           struct rate_list *free_batch, struct rate_list *fixed) {
	/* The questions of a kind stand together, by GPUs, then by batch. */
	for (int gpus = 1; gpus <= job->job.gpus_max; gpus = next_count(gpus)) {
		int batches[34];
		const struct question *question;
		if (gpus < job->job.gpus_min || gpus % divisor_of(&job->kind)) continue;
		int count = batches_of(job, gpus, batches);
		for (int b = 0; b < count; b++)
			if ((question = rates_find(all, job, gpus, batches[b])) && question->per_s > 0)
				keep_best(free_batch, gpus, question->batch, question->per_s);
		if (!(question = rates_find(all, job, gpus, job->job.batch)) || question->per_s <= 0)
			continue;
		keep_best(free_batch, gpus, question->batch, question->per_s);
		keep_best(fixed, gpus, question->batch, question->per_s);
	}
}

/* Puts the rate as requested where it belongs: its GPU count need not be one of those looked at. */
static void rates_insert(struct rate_list *list, lk_jobs_rate rate) {
	int at = 0;
	while (at < list->count && list->at[at].gpus < rate.gpus) at++;
	if (at < list->count && list->at[at].gpus == rate.gpus) return;
	memmove(&list->at[at + 1], &list->at[at], (size_t)(list->count - at) * sizeof *list->at);
	list->at[at] = rate;
	list->count++;
}

static lk_status cannot_run(const lk_listed_job *job, const char *why, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, job->where,
	        "job %.60s cannot run with a batch of %d on %d GPUs: %.200s", job->job.name,
	        job->job.batch, job->job.gpus, why);
	return lk_hint(err, "change gpus or batch, or give tp, pp, zero or recompute of the job");
}

static lk_status rates_settle(const questions *all, const measured_rates *measured, lk_arena *arena,
                              lk_listed_job *job, lk_error *err) {
	size_t most =
		is_measured(measured, job->job.model) ? measured->count : 8 + (size_t)job->job.gpus_max / 8;
	struct rate_list free_batch = {LK_ARRAY(arena, lk_jobs_rate, most + 1), 0},
					 fixed = {LK_ARRAY(arena, lk_jobs_rate, most + 1), 0};
	if (!free_batch.at || !fixed.at) return lk_oom(err);
	const char *why = "no such rate was measured";
	if (is_measured(measured, job->job.model)) {
		take_measured(measured, &job->job, &free_batch, &fixed);
	} else {
		const struct question *question = rates_find(all, job, job->job.gpus, job->job.batch);
		take_predicted(all, job, &free_batch, &fixed);
		if (question && question->per_s > 0) {
			rates_insert(&fixed, (lk_jobs_rate){question->gpus, question->batch, question->per_s});
			rates_insert(&free_batch,
			             (lk_jobs_rate){question->gpus, question->batch, question->per_s});
		} else {
			why = question ? question->why : "it was not predicted";
		}
	}
	job->job.rates = free_batch.at;
	job->job.rate_count = free_batch.count;
	job->fixed = fixed.at;
	job->fixed_count = fixed.count;
	for (int i = 0; i < fixed.count; i++)
		if (fixed.at[i].gpus == job->job.gpus) job->job.asked_per_s = fixed.at[i].per_s;
	return job->job.asked_per_s > 0 ? LK_OK : cannot_run(job, why, err);
}

/* ---- all of it ---- */

static lk_status rates_ask_all(const lk_jobs_request *request, questions *all, int *predictions,
                               lk_error *err) {
	void *context[] = {(void *)request, all};
	if (!all->count) return LK_OK;
	if (!request->gpu) {
		lk_fail(err, LK_ERR_INPUT, "--gpu", "is needed to predict how fast %.60s trains",
		        all->at[0].kind->model);
		return lk_hint(err, "give a name of `lockstep devices`, or measured rates by --rates");
	}
	/* The calibration is read before threads are. */
	LK_TRY(rates_ask(context, 0, err));
	all->at[0].predictions = 0;
	all->at[0].per_s = 0;
	LK_TRY(lk_parallel(all->count, 0, rates_ask, context, err));
	for (size_t i = 0; i < all->count; i++) *predictions += all->at[i].predictions;
	return LK_OK;
}

static lk_status rates_find_rates(const lk_jobs_request *request, lk_arena *arena,
                                  lk_job_list *list, questions *all, measured_rates *measured,
                                  int *predictions, lk_error *err) {
	if (request->rates) LK_TRY(read_rates(request->rates, arena, measured, err));
	if (measured->count) qsort(measured->at, measured->count, sizeof *measured->at, by_gpus);
	for (size_t i = 0, limit = 4096; i < list->count; i++) {
		if (is_measured(measured, list->at[i].job.model)) continue;
		LK_TRY(rates_add_job(all, &list->at[i], err));
		if (all->count < limit) continue;
		keep_distinct(all);
		limit = 2 * all->count + 4096;
	}
	keep_distinct(all);
	LK_TRY(rates_ask_all(request, all, predictions, err));
	for (size_t i = 0; i < list->count; i++)
		LK_TRY(rates_settle(all, measured, arena, &list->at[i], err));
	return LK_OK;
}

lk_status lk_jobs_find_rates(const lk_jobs_request *request, lk_arena *arena, lk_job_list *list,
                             int *predictions, lk_error *err) {
	questions all = {0};
	measured_rates measured = {0};
	lk_status status = rates_find_rates(request, arena, list, &all, &measured, predictions, err);
	lk_vec_free(&all);
	lk_vec_free(&measured);
	return status;
}
