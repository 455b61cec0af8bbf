/* jobs_simulate.c: a cluster in which jobs arrive, run at their rates, are changed by a policy, and end. Events are
 * arrivals, ends, and the moments from which a policy may change again. Ties go to the job that came first. */
#include <math.h>
#include <stdlib.h>

#include "jobs/jobs.h"

struct cluster {
	const lk_jobs_request *request;
	const lk_job_list *list;
	const lk_policy *policy;
	lk_jobs_course *courses;
	lk_active_job *active;
	int count;
	size_t arrived;
	double now_s, next_change_s;
	bool stale;              /* something happened that the policy has not seen */
	lk_allocator allocator;
	lk_arena scratch;
	const lk_jobs_rate **wanted;
};

static double end_of(const struct cluster *c, const lk_active_job *a) {
	if (!a->now) return INFINITY;
	return fmax(c->now_s, a->paused_until_s) + a->left / a->now->per_s;
}

/* The active job that ends first; -1 where none runs. */
static int first_end(const struct cluster *c, double *end_s) {
	int first = -1;
	*end_s = INFINITY;
	for (int i = 0; i < c->count; i++) {
		double end = end_of(c, &c->active[i]);
		if (end < *end_s) *end_s = end, first = i;
	}
	return first;
}

static void pass_time(struct cluster *c, double until_s) {
	for (int i = 0; i < c->count; i++) {
		lk_active_job *a = &c->active[i];
		if (!a->now) continue;
		double worked = until_s - fmax(c->now_s, a->paused_until_s);
		if (worked > 0) a->left = fmax(0, a->left - worked * a->now->per_s);
		c->courses[a->job].gpu_s += a->now->gpus * (until_s - c->now_s);
	}
	c->now_s = until_s;
}

static void arrive(struct cluster *c) {
	int job = (int)c->arrived++;
	c->active[c->count++] = (lk_active_job){.job = job, .left = c->list->at[job].job.samples};
	c->courses[job] = (lk_jobs_course){.start_s = NAN, .end_s = NAN};
	c->stale = true;
}

static void end(struct cluster *c, int i) {
	c->courses[c->active[i].job].end_s = c->now_s;
	for (c->count--; i < c->count; i++) c->active[i] = c->active[i + 1];
	c->stale = true;
}

static void change(struct cluster *c, lk_active_job *a, const lk_jobs_rate *to) {
	lk_jobs_course *course = &c->courses[a->job];
	if (to == a->now) return;
	a->now = to;
	if (!to) return;
	if (a->started) {
		course->restarts++;
		a->paused_until_s = c->now_s + c->request->restart_s;
	} else {
		course->start_s = c->now_s;
		a->started = true;
	}
	if (to->gpus > course->most_gpus) course->most_gpus = to->gpus;
}

static lk_status divide(struct cluster *c, lk_error *err) {
	lk_jobs_moment moment = {c->request, c->list, c->active, c->count, &c->allocator, &c->scratch};
	LK_TRY(c->policy->divide(&moment, c->wanted, err));
	lk_arena_free(&c->scratch);
	int held = 0;
	for (int i = 0; i < c->count; i++) {
		change(c, &c->active[i], c->wanted[i]);
		held += c->active[i].now ? c->active[i].now->gpus : 0;
	}
	if (held > c->request->gpus)
		return lk_fail(err, LK_ERR_INTERNAL, "jobs", "policy %s gave away %d of %d GPUs", c->policy->name, held, c->request->gpus);
	c->stale = false;
	if (c->policy->elastic) c->next_change_s = c->now_s + 60 * c->request->every_min;
	return LK_OK;
}

/* Goes to the next event; false where there is none. */
static bool next_event(struct cluster *c) {
	double end_s;
	int first = first_end(c, &end_s);
	double arrival_s = c->arrived < c->list->count ? c->list->at[c->arrived].job.submit_s : INFINITY;
	double change_s = c->stale ? c->next_change_s : INFINITY;
	double next_s = fmin(fmin(arrival_s, end_s), change_s);
	if (isinf(next_s)) return false;
	pass_time(c, fmax(next_s, c->now_s));
	if (next_s == end_s) end(c, first);
	else if (next_s == arrival_s) arrive(c);
	return true;
}

static lk_status run(struct cluster *c, lk_error *err) {
	while (next_event(c)) {
		/* Arrivals of one moment are seen together. */
		while (c->arrived < c->list->count && c->list->at[c->arrived].job.submit_s <= c->now_s) arrive(c);
		if (c->stale && (!c->policy->elastic || c->now_s >= c->next_change_s)) LK_TRY(divide(c, err));
	}
	if (c->count)
		return lk_fail(err, LK_ERR_INTERNAL, c->list->at[c->active[0].job].where, "policy %s never starts job %s", c->policy->name,
		               c->list->at[c->active[0].job].job.name);
	return LK_OK;
}

lk_status lk_jobs_simulate(const lk_jobs_request *request, const lk_job_list *list, const lk_policy *policy,
                           lk_jobs_course *courses, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct cluster c = {.request = request, .list = list, .policy = policy, .courses = courses};
	c.active = LK_ARRAY(&arena, lk_active_job, list->count + 1);
	c.wanted = LK_ARRAY(&arena, const lk_jobs_rate *, list->count + 1);
	lk_status status = c.active && c.wanted ? run(&c, err) : lk_oom(err);
	lk_allocator_free(&c.allocator);
	lk_arena_free(&c.scratch);
	lk_arena_free(&arena);
	return status;
}
