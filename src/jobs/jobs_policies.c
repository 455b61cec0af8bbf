/* jobs_policies.c: policies that divide a cluster. A fixed policy gives every job what it
 * requested, in its turn, and leaves it alone; an elastic one divides all GPUs anew; those that
 * preempt are in jobs_preempt.c. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "jobs/jobs.h"

/* ---- fixed requests ---- */

static double in_order(const lk_job_list *list, const lk_history *history, int job) {
	(void)list, (void)history;
	return job;
}

/* GPU time of a job as requested. */
static double policies_service(const lk_job_list *list, const lk_history *history, int job) {
	const lk_jobs_job *asked = &list->at[job].job;
	(void)history;
	return asked->gpus * asked->samples / asked->asked_per_s;
}

/* Quasi-shortest-service-first (Helios, arXiv 2109.01313). */
static double policies_expected(const lk_job_list *list, const lk_history *history, int job) {
	return list->at[job].job.gpus * lk_history_expect(history, job);
}

/* ---- elastic ---- */

/* Samples per second until the horizon, reduced by the time of a restart. */
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

/* The ways a job may run; with `waits`, option 0 is waiting. */
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

/* Share the GPUs. If finishing early counts, any job may have to wait. Otherwise the oldest jobs
 * that fit with their fewest GPUs share them; the newest wait. */
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
	{"fifo", "as requested, in order of submission", .priority = in_order},
	{"backfill", "as requested; jobs that fit may pass jobs that wait", .passes = true,
     .priority = in_order},
	{"shortest", "as requested; least GPU time first, lengths known", .priority = policies_service},
	{"qssf", "as requested; least GPU time first, expected from users' jobs that ended",
     .priority = policies_expected},
	{"las", "as requested, preempted; least GPU time received first, nothing known",
     .divide = lk_preempt_las, .review = lk_preempt_review},
	{"gittins", "as requested, preempted; likeliest to end soon, by all jobs that ended",
     .divide = lk_preempt_gittins, .review = lk_preempt_review},
	{"elastic-gpus", "GPUs divided anew, the batch as requested", .divide = elastic_gpus},
	{"elastic", "GPUs and batch divided anew", .divide = elastic},
};
const int lk_policy_count = sizeof lk_policies / sizeof *lk_policies;

static lk_status policies_find(const char *name, const lk_policy **out, lk_error *err) {
	const char *names[sizeof lk_policies / sizeof *lk_policies];
	for (int i = 0; i < lk_policy_count; i++) {
		names[i] = lk_policies[i].name;
		if (strcmp(names[i], name) == 0) {
			*out = &lk_policies[i];
			return LK_OK;
		}
	}
	const char *nearest = lk_nearest(name, names, (size_t)lk_policy_count);
	lk_fail(err, LK_ERR_INPUT, "--policy", "unknown policy \"%.40s\"", name);
	if (nearest) return lk_hint(err, "did you mean %s?", nearest);
	return lk_hint(err,
	               "give fifo, backfill, shortest, qssf, las, gittins, elastic-gpus or elastic");
}

lk_status lk_policies_named(const char *names, bool placed, bool timed, lk_arena *arena,
                            const lk_policy ***out, int *count, lk_error *err) {
	const lk_policy **found = LK_ARRAY(arena, const lk_policy *, (size_t)lk_policy_count);
	if (!found) return lk_oom(err);
	*out = found;
	*count = 0;
	for (int i = 0; !names && i < lk_policy_count; i++)
		if (!(placed && lk_policies[i].divide) && !(timed && lk_policy_is_elastic(&lk_policies[i])))
			found[(*count)++] = &lk_policies[i];
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
