/* jobs_preempt.c: policies that know nothing of how long jobs run, and preempt: the jobs come first
 * that are most likely to be done soon, by the GPU time that they have received. They are those of
 * Tiresias (NSDI 2019): GPU time is counted in levels, each four times the one before, so that jobs
 * change places only when one reaches a new level; within a level the earlier submission comes
 * first.
 *
 *     las      least attained service: the lowest level first
 *     gittins  the level first whose Gittins index is largest, by the jobs that have ended:
 *
 *         max over later levels t of   P(S <= t | S > a) / E[min(S, t) - a | S > a]
 *
 * for a job that has received a, and the total S of jobs that have ended. */
#include <math.h>

#include "base/arena.h"
#include "jobs/jobs.h"

/* GPU time at which a level ends. */
static double end_of(int level) {
	enum { FIRST_S = 60 };
	return FIRST_S * ldexp(1, 2 * level);
}

int lk_service_level(double gpu_s) {
	int level = 0;
	while (level + 1 < LK_SERVICE_LEVELS && gpu_s * (1 + 1e-9) >= end_of(level)) level++;
	return level;
}

double lk_preempt_review(const lk_jobs_moment *moment) {
	double next_s = INFINITY;
	for (int i = 0; i < moment->count; i++) {
		const lk_active_job *job = &moment->active[i];
		int level = lk_service_level(job->gpu_s);
		if (!job->now || level + 1 == LK_SERVICE_LEVELS) continue;
		next_s = fmin(next_s, (end_of(level) - job->gpu_s) / job->now->gpus);
	}
	return next_s;
}

static const lk_jobs_rate *as_requested(const lk_listed_job *job) {
	const lk_jobs_rate *rate = job->fixed;
	for (int i = 0; i < job->fixed_count; i++)
		if (job->fixed[i].gpus == job->job.gpus) rate = &job->fixed[i];
	return rate;
}

/* Give GPUs to jobs as requested, level by level. A job for which there is no room is passed. */
static lk_status in_levels(const lk_jobs_moment *moment, const int *levels,
                           const lk_jobs_rate **out, lk_error *err) {
	int first[LK_SERVICE_LEVELS], last[LK_SERVICE_LEVELS], free = moment->request->gpus;
	int *next = LK_ARRAY(moment->scratch, int, (size_t)moment->count + 1);
	if (!next) return lk_oom(err);
	for (int level = 0; level < LK_SERVICE_LEVELS; level++) first[level] = -1;
	for (int i = 0; i < moment->count; i++) {
		int level = lk_service_level(moment->active[i].gpu_s);
		out[i] = NULL;
		next[i] = -1;
		if (first[level] < 0) first[level] = i;
		else next[last[level]] = i;
		last[level] = i;
	}
	for (int l = 0; l < LK_SERVICE_LEVELS; l++)
		for (int i = first[levels[l]]; i >= 0 && free > 0; i = next[i]) {
			const lk_listed_job *job = &moment->list->at[moment->active[i].job];
			if (job->job.gpus > free) continue;
			out[i] = as_requested(job);
			free -= job->job.gpus;
		}
	return LK_OK;
}

lk_status lk_preempt_las(const lk_jobs_moment *moment, const lk_jobs_rate **out, lk_error *err) {
	int levels[LK_SERVICE_LEVELS];
	for (int level = 0; level < LK_SERVICE_LEVELS; level++) levels[level] = level;
	return in_levels(moment, levels, out, err);
}

/* The index of a job that has just begun a level. With no ended job beyond it, the least: 0. */
static double gittins_index(const lk_services *ended, int level) {
	double a = level ? end_of(level - 1) : 0, beyond = 0, most = 0, done = 0, worked = 0;
	for (int l = level; l < LK_SERVICE_LEVELS; l++) beyond += ended->jobs[l];
	for (int l = level; l < LK_SERVICE_LEVELS && beyond > 0; l++) {
		done += ended->jobs[l];
		worked += ended->gpu_s[l] - ended->jobs[l] * a;
		double expected = worked + (beyond - done) * (end_of(l) - a);
		if (done > 0) most = fmax(most, done / fmax(expected, 1e-9));
	}
	return most;
}

lk_status lk_preempt_gittins(const lk_jobs_moment *moment, const lk_jobs_rate **out,
                             lk_error *err) {
	int levels[LK_SERVICE_LEVELS] = {0};
	double index[LK_SERVICE_LEVELS];
	for (int level = 0; level < LK_SERVICE_LEVELS; level++) {
		int at = level;
		index[level] = gittins_index(moment->ended, level);
		for (; at > 0 && index[levels[at - 1]] < index[level]; at--) levels[at] = levels[at - 1];
		levels[at] = level;
	}
	return in_levels(moment, levels, out, err);
}
