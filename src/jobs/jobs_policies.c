/* jobs_policies.c: ways to divide a cluster. A fixed policy gives every job what it requested, when
 * its turn comes, and leaves it alone; an elastic one divides all GPUs anew. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "jobs/jobs.h"

/* ---- fixed requests ---- */

/* The rate at which a job runs as it was requested. */
static const lk_jobs_rate *asked(const lk_listed_job *job) {
	for (int i = 0; i < job->fixed_count; i++)
		if (job->fixed[i].gpus == job->job.gpus) return &job->fixed[i];
	return NULL;
}

static int free_gpus(const lk_jobs_moment *moment) {
	int gpus = moment->request->gpus;
	for (int i = 0; i < moment->count; i++)
		gpus -= moment->active[i].now ? moment->active[i].now->gpus : 0;
	return gpus;
}

/* Those that wait are started in the order given while they fit; `pass`: one that does not fit lets
 * others pass. */
static void start_in_order(const lk_jobs_moment *moment, const int *order, bool pass,
                           const lk_jobs_rate **out) {
	int left = free_gpus(moment);
	for (int i = 0; i < moment->count; i++) out[i] = moment->active[i].now;
	for (int n = 0; n < moment->count; n++) {
		int i = order ? order[n] : n;
		if (out[i]) continue;
		const lk_jobs_rate *rate = asked(&moment->list->at[moment->active[i].job]);
		if (rate->gpus <= left) {
			out[i] = rate;
			left -= rate->gpus;
		} else if (!pass) return;
	}
}

static lk_status fifo(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err) {
	(void)err;
	start_in_order(moment, NULL, false, out);
	return LK_OK;
}

static lk_status backfill(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err) {
	(void)err;
	start_in_order(moment, NULL, true, out);
	return LK_OK;
}

/* GPU time that a job will take as it was requested: what QSSF orders by (Helios, arXiv
 * 2109.01313), known exactly here. */
static double service_of(const lk_jobs_moment *moment, int i) {
	const lk_jobs_job *job = &moment->list->at[moment->active[i].job].job;
	return job->gpus * job->samples / job->asked_per_s;
}

static lk_status policies_shortest(const lk_jobs_moment *moment, const lk_jobs_rate **out,
                                   lk_error *err) {
	int *order = LK_ARRAY(moment->scratch, int, (size_t)moment->count + 1);
	if (!order) return lk_oom(err);
	for (int i = 0; i < moment->count; i++) {
		int at = i;
		for (; at > 0 && service_of(moment, order[at - 1]) > service_of(moment, i); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	start_in_order(moment, order, false, out);
	return LK_OK;
}

/* ---- elastic ---- */

/* Samples per second until the horizon, of which a restart takes its part. */
static double policies_rate_of(const lk_jobs_moment *moment, const lk_active_job *job,
                               const lk_jobs_rate *rate) {
	if (!job->started || rate == job->now) return rate->per_s;
	double horizon_s = fmin(3600 * moment->request->horizon_h,
	                        job->left / rate->per_s + moment->request->restart_s);
	return rate->per_s * fmax(1e-6, 1 - moment->request->restart_s / fmax(horizon_s, 1e-9));
}

static double policies_value_of(const lk_jobs_moment *moment, const lk_active_job *job,
                                const lk_jobs_rate *rate, double smallest) {
	double per_s = policies_rate_of(moment, job, rate);
	switch (moment->request->objective) {
	case LK_JOBS_LOG: return log(per_s / smallest);
	case LK_JOBS_SPEEDUP: return per_s / smallest;
	default: return per_s / fmax(job->left, 1e-9);
	}
}

/* The ways a job may run, and with `waits` as option 0 that it waits. */
static lk_status options_of(const lk_jobs_moment *moment, const lk_active_job *job,
                            const lk_jobs_rate *rates, int count, bool waits,
                            lk_allocation_job *out, lk_error *err) {
	lk_allocation_option *options =
		LK_ARRAY(moment->scratch, lk_allocation_option, (size_t)count + 1);
	if (!options) return lk_oom(err);
	int n = 0;
	if (waits) options[n++] = (lk_allocation_option){0, 0};
	for (int i = 0; i < count; i++)
		options[n++] = (lk_allocation_option){
			rates[i].gpus, policies_value_of(moment, job, &rates[i], rates[0].per_s)};
	*out = (lk_allocation_job){options, n};
	return LK_OK;
}

/* Where finishing early counts, any job may have to wait. Else all that fit with their fewest GPUs,
 * the oldest first, share the GPUs; the newest wait. */
static lk_status policies_share(const lk_jobs_moment *moment, bool batches,
                                const lk_jobs_rate **out, lk_error *err) {
	lk_allocation_job *jobs =
		LK_ARRAY(moment->scratch, lk_allocation_job, (size_t)moment->count + 1);
	int *choice = LK_ARRAY(moment->scratch, int, (size_t)moment->count + 1);
	bool waits = moment->request->objective == LK_JOBS_COMPLETION, possible;
	if (!jobs || !choice) return lk_oom(err);
	int fitting = 0;
	for (int needed = 0; fitting < moment->count; fitting++) {
		const lk_active_job *job = &moment->active[fitting];
		const lk_listed_job *listed_job = &moment->list->at[job->job];
		const lk_jobs_rate *rates = batches ? listed_job->job.rates : listed_job->fixed;
		if (!waits && (needed += rates->gpus) > moment->request->gpus) break;
		LK_TRY(options_of(moment, job, rates,
		                  batches ? listed_job->job.rate_count : listed_job->fixed_count, waits,
		                  &jobs[fitting], err));
	}
	LK_TRY(lk_allocate(moment->allocator, jobs, fitting, moment->request->gpus, choice, &possible,
	                   err));
	for (int i = 0; i < moment->count; i++) {
		const lk_listed_job *listed_job = &moment->list->at[moment->active[i].job];
		int chosen = possible && i < fitting ? choice[i] - waits : -1;
		out[i] =
			chosen >= 0 ? &(batches ? listed_job->job.rates : listed_job->fixed)[chosen] : NULL;
	}
	return LK_OK;
}

static lk_status elastic_gpus(const lk_jobs_moment *moment, const lk_jobs_rate **out,
                              lk_error *err) {
	return policies_share(moment, false, out, err);
}

static lk_status elastic(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err) {
	return policies_share(moment, true, out, err);
}

/* ---- the table ---- */

const lk_policy lk_policies[] = {
	{"fifo", "as requested, in order of submission", false, fifo},
	{"backfill", "as requested; jobs that fit may pass jobs that wait", false, backfill},
	{"shortest", "as requested; least GPU time first, lengths known", false, policies_shortest},
	{"elastic-gpus", "GPUs divided anew, the batch as requested", true, elastic_gpus},
	{"elastic", "GPUs and batch divided anew", true, elastic},
};
const int lk_policy_count = sizeof lk_policies / sizeof *lk_policies;

static lk_status policies_find(const char *name, const lk_policy **out, lk_error *err) {
	const char *names[sizeof lk_policies / sizeof *lk_policies];
	for (int i = 0; i < lk_policy_count; i++) {
		names[i] = lk_policies[i].name;
		if (strcmp(names[i], name) == 0) return *out = &lk_policies[i], LK_OK;
	}
	const char *nearest = lk_nearest(name, names, (size_t)lk_policy_count);
	lk_fail(err, LK_ERR_INPUT, "--policy", "unknown policy \"%.40s\"", name);
	if (nearest) return lk_hint(err, "did you mean %s?", nearest);
	return lk_hint(err, "give fifo, backfill, shortest, elastic-gpus or elastic");
}

lk_status lk_policies_named(const char *names, lk_arena *arena, const lk_policy ***out, int *count,
                            lk_error *err) {
	const lk_policy **found = LK_ARRAY(arena, const lk_policy *, (size_t)lk_policy_count);
	if (!found) return lk_oom(err);
	*out = found;
	*count = 0;
	for (int i = 0; !names && i < lk_policy_count; i++) found[(*count)++] = &lk_policies[i];
	for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		char *name = lk_arena_strndup(arena, at, strcspn(at, ","));
		if (!name) return lk_oom(err);
		if (*count == lk_policy_count)
			return lk_fail(err, LK_ERR_INPUT, "--policy", "names a policy twice");
		LK_TRY(policies_find(name, &found[*count], err));
		for (int i = 0; i < *count; i++)
			if (found[i] == found[*count])
				return lk_fail(err, LK_ERR_INPUT, "--policy", "names %s twice", name);
		++*count;
	}
	return LK_OK;
}
