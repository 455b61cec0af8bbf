/* jobs_rates.c: speeds of jobs, as predicted by `predict`: every relevant (kind, GPUs, batch) is
 * predicted once, on all cores.
 *
 * Of the batches that a job may use on some GPUs, those that divide the largest are not predicted
 * if that one runs without a pipeline: more micro-batches of the same layout then need no more
 * memory, and have fewer step ends per sample, so the largest is the fastest per sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "lockstep/predict.h"
#include "jobs/jobs.h"

struct question {
	const lk_jobs_kind *kind;
	int gpus, batch;
	bool wanted, asked;
	bool needed;  /* as requested by a job: every policy needs it */
	double per_s; /* result: 0 impossible */
	bool pipelined;
	char why[200]; /* why it is impossible */
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

static const char *const rates_columns[] = {"model", "gpus", "batch", "samples_per_s"};

static lk_status rates_head(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)context, (void)at;
	return lk_csv_refuse_others(csv, rates_columns, 4, "table of rates", err);
}

static lk_status read_rates(const char *path, lk_arena *arena, measured_rates *out, lk_error *err) {
	const lk_csv_table table = {rates_columns, 4,        4,         "table of rates",
	                            1000000,       add_rate, rates_head};
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_csv_read(in, &table, &(struct reading){arena, out}, err);
	lk_stream_close(in);
	return status;
}

/* ---- predicted ---- */

static void rates_fill_request(const lk_jobs_request *request, const struct question *question,
                               lk_predict_request *out) {
	const lk_jobs_kind *kind = question->kind;
	lk_predict_defaults(out);
	out->model = kind->model;
	out->gpu = request->gpu;
	out->gpus = question->gpus;
	out->calibration = request->calibration;
	out->tp = kind->tp;
	out->pp = kind->pp;
	out->mbs = kind->mbs;
	out->seq = kind->seq;
	out->dtype = kind->dtype;
	out->recompute = kind->recompute;
	out->zero = kind->zero;
	out->gbs = question->batch;
	out->no_fixes = true;
}

/* `prediction` NULL: it was refused. */
static void rates_take(struct question *question, const lk_prediction *prediction,
                       const lk_error *refusal) {
	char text[200];
	question->asked = true;
	if (!prediction)
		lk_copy(question->why, sizeof question->why, lk_error_text(refusal, text, sizeof text));
	else if (!prediction->fits)
		snprintf(question->why, sizeof question->why, "it does not fit on %d %s: %.1f of %.1f GiB",
		         question->gpus, lk_noun(question->gpus, "GPU", "GPUs"),
		         prediction->peak_bytes / 0x1p30, prediction->usable_bytes / 0x1p30);
	else question->per_s = prediction->samples_per_s;
	question->pipelined = prediction && prediction->pp > 1;
}

enum {
	ASKED_AT_ONCE = 512 /* predictions are kept until all of these are complete */
};

struct rates_asking {
	struct question *asked[ASKED_AT_ONCE];
	lk_predict_request requests[ASKED_AT_ONCE];
	lk_prediction *predictions[ASKED_AT_ONCE];
	lk_error refusals[ASKED_AT_ONCE];
	size_t count;
};

/* Answer the open questions that are wanted, from number *from on; `needed`: only needed ones. */
static lk_status rates_ask_some(const lk_jobs_request *request, questions *all, bool needed,
                                size_t *from, struct rates_asking *asking, lk_error *err) {
	asking->count = 0;
	for (; *from < all->count && asking->count < ASKED_AT_ONCE; ++*from) {
		struct question *question = &all->at[*from];
		if (!question->wanted || question->asked || (needed && !question->needed)) continue;
		rates_fill_request(request, question, &asking->requests[asking->count]);
		asking->asked[asking->count++] = question;
	}
	lk_status status = lk_predict_many(asking->requests, asking->count, 0, asking->predictions,
	                                   asking->refusals, NULL, NULL, err);
	for (size_t i = 0; i < asking->count; i++) {
		if (status == LK_OK)
			rates_take(asking->asked[i], asking->predictions[i], &asking->refusals[i]);
		lk_predict_free(asking->predictions[i]);
	}
	return status;
}

/* Answer the needed ones; or the wanted ones, until the cutoff. */
static lk_status rates_ask(const lk_jobs_request *request, questions *all, bool needed,
                           const lk_cutoff *cutoff, lk_error *err) {
	struct rates_asking *asking = calloc(1, sizeof *asking);
	lk_status status = asking ? LK_OK : lk_oom(err);
	for (size_t from = 0; status == LK_OK && from < all->count && !lk_cutoff_reached(cutoff);)
		status = rates_ask_some(request, all, needed, &from, asking, err);
	free(asking);
	return status;
}

/* ---- selection of questions ---- */

/* GPU counts to try: up to a node, then whole nodes. */
static int next_count(int gpus) {
	return gpus < 8 ? gpus + 1 : gpus + 8;
}

static int divisor_of(const lk_jobs_kind *kind) {
	return (kind->tp ? kind->tp : 1) * (kind->pp ? kind->pp : 1);
}

/* Samples that all replicas process at once: batches are multiples of it. */
static int rates_batch_step(const lk_jobs_kind *kind, int gpus) {
	int64_t step = (int64_t)(gpus / divisor_of(kind)) * (kind->mbs ? kind->mbs : 1);
	return step < LK_JOBS_BATCH_MOST ? (int)step : LK_JOBS_BATCH_MOST;
}

/* Batches to try on this many GPUs: powers of two times the least, the largest, the requested one,
 * each rounded to a multiple of what the replicas process at once. */
static int batches_of(const lk_listed_job *job, int gpus, int out[34]) {
	int step = rates_batch_step(&job->kind, gpus), count = 0;
	for (long long b = job->job.batch_min;;
	     b = 2 * b > job->job.batch_max ? job->job.batch_max : 2 * b) {
		long long fits = b / step * step;
		if (fits < job->job.batch_min) fits += step;
		if (fits <= job->job.batch_max && (!count || out[count - 1] != fits))
			out[count++] = (int)fits;
		if (b == job->job.batch_max) return count;
	}
}

static lk_status rates_add(questions *all, const lk_jobs_kind *kind, int gpus, int batch,
                           bool wanted, lk_error *err) {
	if (!lk_push(all)) return lk_oom(err);
	*lk_last(all) = (struct question){.kind = kind, .gpus = gpus, .batch = batch, .wanted = wanted};
	return LK_OK;
}

static lk_status rates_add_job(questions *all, const lk_listed_job *job, bool as_requested,
                               lk_error *err) {
	LK_TRY(rates_add(all, &job->kind, job->job.gpus, job->job.batch, true, err));
	lk_last(all)->needed = true;
	if (as_requested) return LK_OK;
	for (int gpus = 1; gpus <= job->job.gpus_max; gpus = next_count(gpus)) {
		int batches[34];
		if (gpus < job->job.gpus_min || gpus % divisor_of(&job->kind)) continue;
		int count = batches_of(job, gpus, batches);
		for (int b = 0; b < count; b++)
			LK_TRY(rates_add(all, &job->kind, gpus, batches[b],
			                 b == count - 1 || batches[count - 1] % batches[b] != 0, err));
		if (job->job.batch % rates_batch_step(&job->kind, gpus) == 0)
			LK_TRY(rates_add(all, &job->kind, gpus, job->job.batch, true, err));
	}
	return LK_OK;
}

static int compare_texts(const char *a, const char *b) {
	return a == b ? 0 : strcmp(a ? a : "", b ? b : "");
}

static int by_question(const void *a, const void *b) {
	const struct question *x = a, *y = b;
	const int numbers[][2] = {{x->kind->seq, y->kind->seq}, {x->kind->tp, y->kind->tp},
	                          {x->kind->pp, y->kind->pp},   {x->kind->mbs, y->kind->mbs},
	                          {x->gpus, y->gpus},           {x->batch, y->batch}};
	int order = compare_texts(x->kind->model, y->kind->model);
	if (!order) order = compare_texts(x->kind->dtype, y->kind->dtype);
	if (!order) order = compare_texts(x->kind->zero, y->kind->zero);
	if (!order) order = compare_texts(x->kind->recompute, y->kind->recompute);
	for (size_t i = 0; !order && i < sizeof numbers / sizeof *numbers; i++)
		order = (numbers[i][0] > numbers[i][1]) - (numbers[i][0] < numbers[i][1]);
	return order;
}

/* ---- jobs with equal questions ---- */

static int by_what_is_asked(const void *a, const void *b) {
	const lk_listed_job *x = *(lk_listed_job *const *)a, *y = *(lk_listed_job *const *)b;
	const int numbers[][2] = {{x->job.gpus_min, y->job.gpus_min},
	                          {x->job.gpus_max, y->job.gpus_max},
	                          {x->job.batch_min, y->job.batch_min},
	                          {x->job.batch_max, y->job.batch_max}};
	int order = by_question(
		&(struct question){.kind = &x->kind, .gpus = x->job.gpus, .batch = x->job.batch},
		&(struct question){.kind = &y->kind, .gpus = y->job.gpus, .batch = y->job.batch});
	for (size_t i = 0; !order && i < sizeof numbers / sizeof *numbers; i++)
		order = (numbers[i][0] > numbers[i][1]) - (numbers[i][0] < numbers[i][1]);
	return order;
}

/* For each job the first of the list with equal questions, which answers for all: a cluster's
 * million jobs are of a few thousand kinds and sizes. NULL when memory runs out. */
static lk_listed_job **rates_first_alike(lk_job_list *list) {
	lk_listed_job **sorted = malloc((list->count + 1) * sizeof *sorted),
				  **first = malloc((list->count + 1) * sizeof *first);
	for (size_t i = 0; sorted && i < list->count; i++) sorted[i] = &list->at[i];
	if (sorted && first) {
		lk_sort(sorted, list->count, sizeof *sorted, by_what_is_asked);
		for (size_t i = 0, begin = 0; i < list->count; i++) {
			if (by_what_is_asked(&sorted[begin], &sorted[i])) begin = i;
			first[sorted[i] - list->at] = sorted[begin];
		}
		free(sorted);
		return first;
	}
	free(sorted);
	free(first);
	return NULL;
}

static void keep_distinct(questions *all) {
	size_t kept = 0;
	lk_sort(all->at, all->count, sizeof *all->at, by_question);
	for (size_t i = 0; i < all->count; i++)
		if (!kept || by_question(&all->at[kept - 1], &all->at[i])) all->at[kept++] = all->at[i];
		else {
			all->at[kept - 1].wanted |= all->at[i].wanted;
			all->at[kept - 1].needed |= all->at[i].needed;
		}
	all->count = kept;
}

static struct question *rates_find(const questions *all, const lk_listed_job *job, int gpus,
                                   int batch) {
	struct question key = {.kind = &job->kind, .gpus = gpus, .batch = batch};
	return !all->count ? NULL : bsearch(&key, all->at, all->count, sizeof *all->at, by_question);
}

/* Want the batches not covered by the largest, once that is answered. */
static void rates_want_smaller(questions *all, const lk_listed_job *job) {
	for (int gpus = 1; gpus <= job->job.gpus_max; gpus = next_count(gpus)) {
		int batches[34];
		if (gpus < job->job.gpus_min || gpus % divisor_of(&job->kind)) continue;
		int count = batches_of(job, gpus, batches);
		const struct question *largest =
			count ? rates_find(all, job, gpus, batches[count - 1]) : NULL;
		if (!largest || (largest->per_s > 0 && !largest->pipelined)) continue;
		for (int b = 0; b < count; b++) rates_find(all, job, gpus, batches[b])->wanted = true;
	}
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

LK_ORDER_BY(by_gpus, struct measured_rate, gpus)

static bool is_measured(const measured_rates *measured, const char *model) {
	for (size_t i = 0; i < measured->count; i++)
		if (strcmp(measured->at[i].model, model) == 0) return true;
	return false;
}

/* Whether a job's speed is predicted. */
static bool rates_predicted(const measured_rates *measured, const lk_listed_job *job) {
	return job->job.model && !is_measured(measured, job->job.model);
}

/* Take the measured rates of the model that the job may use. */
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
	/* The questions of a kind are consecutive, by GPUs, then by batch. */
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

/* Insert the rate as requested in order: its GPU count need not be one of those tried. */
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
	        "job %.60s cannot run with a batch of %d on %d %s: %.200s", job->job.name,
	        job->job.batch, job->job.gpus, lk_noun(job->job.gpus, "GPU", "GPUs"), why);
	return lk_hint(err, "change gpus or batch, or give tp, pp, zero or recompute of the job");
}

/* A job of known duration: a sample is a second, and it runs only as requested. */
static lk_status rates_settle_duration(lk_arena *arena, lk_listed_job *job, lk_error *err) {
	lk_jobs_rate *rate = LK_NEW(arena, lk_jobs_rate);
	if (!rate) return lk_oom(err);
	*rate = (lk_jobs_rate){job->job.gpus, 0, 1};
	job->job.rates = job->fixed = rate;
	job->job.rate_count = job->fixed_count = 1;
	job->job.asked_per_s = 1;
	return LK_OK;
}

static lk_status rates_settle(const questions *all, const measured_rates *measured,
                              bool as_requested, lk_arena *arena, lk_listed_job *job,
                              lk_error *err) {
	size_t most = as_requested ? 1 : 8 + (size_t)job->job.gpus_max / 8;
	if (is_measured(measured, job->job.model)) most = measured->count;
	struct rate_list free_batch = {LK_ARRAY(arena, lk_jobs_rate, most + 1), 0},
					 fixed = {LK_ARRAY(arena, lk_jobs_rate, most + 1), 0};
	if (!free_batch.at || !fixed.at) return lk_oom(err);
	const char *why = "no such rate was measured";
	if (is_measured(measured, job->job.model)) {
		take_measured(measured, &job->job, &free_batch, &fixed);
	} else {
		const struct question *question = rates_find(all, job, job->job.gpus, job->job.batch);
		if (!as_requested) take_predicted(all, job, &free_batch, &fixed);
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

static void rates_copy(const lk_listed_job *from, lk_listed_job *to) {
	to->job.rates = from->job.rates;
	to->job.rate_count = from->job.rate_count;
	to->job.asked_per_s = from->job.asked_per_s;
	to->fixed = from->fixed;
	to->fixed_count = from->fixed_count;
}

/* ---- faults of a kind on any number of GPUs ---- */

static bool rates_same_kind(const struct question *a, const struct question *b) {
	struct question x = {.kind = a->kind}, y = {.kind = b->kind};
	return by_question(&x, &y) == 0;
}

/* The first of the list of that kind. */
static const lk_listed_job *rates_first_of(const lk_job_list *list, const struct question *of) {
	for (size_t i = 0; i < list->count; i++)
		if (rates_same_kind(&(struct question){.kind = &list->at[i].kind}, of)) return &list->at[i];
	return NULL;
}

/* Refuse a faulty kind with its own error, instead of as a batch that cannot run on some GPUs. */
static lk_status rates_check_kinds(const lk_jobs_request *request, const lk_job_list *list,
                                   const questions *all, lk_error *err) {
	for (size_t i = 0; i < all->count; i++) {
		lk_predict_request asked;
		lk_error why = {0};
		if (i > 0 && rates_same_kind(&all->at[i - 1], &all->at[i])) continue;
		rates_fill_request(request, &all->at[i], &asked);
		lk_status status = lk_predict_check(&asked, &why);
		if (status == LK_OK) continue;
		const lk_listed_job *job = rates_first_of(list, &all->at[i]);
		lk_fail(err, status, job ? job->where : NULL, "%s%s%s", why.where, *why.where ? ": " : "",
		        why.what);
		return lk_hint(err, "%s", why.hint);
	}
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status rates_ask_all(const lk_jobs_request *request, const measured_rates *measured,
                               bool as_requested, const lk_cutoff *cutoff, const lk_job_list *list,
                               lk_listed_job *const *first, questions *all, int *predictions,
                               lk_error *err) {
	if (!all->count) return LK_OK;
	if (!request->gpu) {
		lk_fail(err, LK_ERR_INPUT, "--gpu",
		        "no GPU was given, which it takes to predict how fast %.60s trains",
		        all->at[0].kind->model);
		return lk_hint(err, "give a name of `lockstep devices`, or measured rates by --rates");
	}
	LK_TRY(rates_check_kinds(request, list, all, err));
	LK_TRY(rates_ask(request, all, true, NULL, err));
	LK_TRY(rates_ask(request, all, false, cutoff, err));
	for (size_t i = 0; !as_requested && i < list->count; i++)
		if (first[i] == &list->at[i] && rates_predicted(measured, first[i]))
			rates_want_smaller(all, first[i]);
	LK_TRY(rates_ask(request, all, false, cutoff, err));
	for (size_t i = 0; i < all->count; i++) *predictions += all->at[i].asked;
	return LK_OK;
}

/* `first`: for each job the one that answers for it. */
static lk_status rates_find_rates(const lk_jobs_request *request, bool as_requested,
                                  const lk_cutoff *cutoff, lk_arena *arena, lk_job_list *list,
                                  lk_listed_job *const *first, questions *all,
                                  measured_rates *measured, int *predictions, lk_error *err) {
	if (request->rates) LK_TRY(read_rates(request->rates, arena, measured, err));
	lk_sort(measured->at, measured->count, sizeof *measured->at, by_gpus);
	for (size_t i = 0, limit = 4096; i < list->count; i++) {
		if (first[i] != &list->at[i] || !rates_predicted(measured, first[i])) continue;
		LK_TRY(rates_add_job(all, first[i], as_requested, err));
		if (all->count < limit) continue;
		keep_distinct(all);
		limit = 2 * all->count + 4096;
	}
	keep_distinct(all);
	LK_TRY(
		rates_ask_all(request, measured, as_requested, cutoff, list, first, all, predictions, err));
	for (size_t i = 0; i < list->count; i++) {
		lk_listed_job *job = &list->at[i];
		if (first[i] != job) rates_copy(first[i], job);
		else if (!job->job.model) LK_TRY(rates_settle_duration(arena, job, err));
		else LK_TRY(rates_settle(all, measured, as_requested, arena, job, err));
	}
	return LK_OK;
}

lk_status lk_jobs_find_rates(const lk_jobs_request *request, bool as_requested,
                             const lk_cutoff *cutoff, lk_arena *arena, lk_job_list *list,
                             int *predictions, lk_error *err) {
	questions all = {0};
	measured_rates measured = {0};
	lk_listed_job **first = rates_first_alike(list);
	lk_status status = first ? rates_find_rates(request, as_requested, cutoff, arena, list, first,
	                                            &all, &measured, predictions, err)
	                         : lk_oom(err);
	free(first);
	lk_vec_free(&all);
	lk_vec_free(&measured);
	return status;
}
