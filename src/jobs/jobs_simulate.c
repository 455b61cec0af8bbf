/* jobs_simulate.c: a cluster in which jobs arrive, run at their rates, are changed by an elastic
 * policy, and end; policies that leave running jobs alone use jobs_queue.c. Events are arrivals,
 * ends, and the moments from which a policy may change jobs again. Ties go to the job that came
 * first. */
#include <math.h>

#include "base/arena.h"
#include "jobs/jobs.h"

struct cluster {
	const lk_jobs_request *request;
	const lk_job_list *list;
	const lk_policy *policy;
	lk_jobs_course *courses;
	lk_jobs_watch *watch; /* NULL: none */
	lk_active_job *active;
	int count;
	size_t arrived, told; /* told: arrivals already reported to the watch */
	double now_s, next_change_s;
	bool stale; /* the policy has not seen the last event */
	lk_services ended;
	lk_allocator allocator;
	lk_arena scratch;
	const lk_jobs_rate **wanted;
};

static double simulate_end_of(const struct cluster *cluster, const lk_active_job *job) {
	if (!job->now) return INFINITY;
	return fmax(cluster->now_s, job->paused_until_s) + job->left / job->now->per_s;
}

/* The active job that ends first; -1 if none runs. */
static int first_end(const struct cluster *cluster, double *end_s) {
	int first = -1;
	*end_s = INFINITY;
	for (int i = 0; i < cluster->count; i++) {
		double end = simulate_end_of(cluster, &cluster->active[i]);
		if (end < *end_s) {
			*end_s = end;
			first = i;
		}
	}
	return first;
}

static void pass_time(struct cluster *cluster, double until_s) {
	for (int i = 0; i < cluster->count; i++) {
		lk_active_job *job = &cluster->active[i];
		if (!job->now) continue;
		double worked = until_s - fmax(cluster->now_s, job->paused_until_s);
		if (worked > 0) job->left = fmax(0, job->left - worked * job->now->per_s);
		job->gpu_s += job->now->gpus * (until_s - cluster->now_s);
	}
	cluster->now_s = until_s;
}

static void simulate_arrive(struct cluster *cluster) {
	int job = (int)cluster->arrived++;
	cluster->active[cluster->count++] =
		(lk_active_job){.job = job, .left = cluster->list->at[job].job.samples};
	cluster->courses[job] = (lk_jobs_course){.start_s = NAN, .end_s = NAN};
	cluster->stale = true;
}

static void simulate_end(struct cluster *cluster, int i) {
	const lk_active_job *job = &cluster->active[i];
	int level = lk_service_level(job->gpu_s);
	cluster->courses[job->job].end_s = cluster->now_s;
	cluster->courses[job->job].gpu_s = job->gpu_s;
	cluster->ended.jobs[level]++;
	cluster->ended.gpu_s[level] += job->gpu_s;
	for (cluster->count--; i < cluster->count; i++) cluster->active[i] = cluster->active[i + 1];
	cluster->stale = true;
}

static void simulate_change(struct cluster *cluster, lk_active_job *job, const lk_jobs_rate *to) {
	lk_jobs_course *course = &cluster->courses[job->job];
	if (to == job->now) return;
	job->now = to;
	if (!to) return;
	if (job->started) {
		course->restarts++;
		job->paused_until_s = cluster->now_s + cluster->request->restart_s;
	} else {
		course->start_s = cluster->now_s;
		job->started = true;
	}
	if (to->gpus > course->most_gpus) course->most_gpus = to->gpus;
}

static lk_jobs_moment moment_of(struct cluster *cluster) {
	return (lk_jobs_moment){cluster->request, cluster->list,       cluster->active,  cluster->count,
	                        &cluster->ended,  &cluster->allocator, &cluster->scratch};
}

static lk_status simulate_divide(struct cluster *cluster, lk_error *err) {
	lk_jobs_moment moment = moment_of(cluster);
	LK_TRY(cluster->policy->divide(&moment, cluster->wanted, err));
	lk_arena_free(&cluster->scratch);
	int held = 0;
	for (int i = 0; i < cluster->count; i++) {
		simulate_change(cluster, &cluster->active[i], cluster->wanted[i]);
		held += cluster->active[i].now ? cluster->active[i].now->gpus : 0;
	}
	if (held > cluster->request->gpus)
		return lk_fail(err, LK_ERR_INTERNAL, "jobs", "policy %s gave away %d of %d GPUs",
		               cluster->policy->name, held, cluster->request->gpus);
	cluster->stale = false;
	cluster->next_change_s = cluster->now_s + 60 * cluster->request->every_min;
	return LK_OK;
}

/* Advance to the next event; false: none is left. */
static bool next_event(struct cluster *cluster) {
	double end_s;
	int first = first_end(cluster, &end_s);
	double arrival_s = cluster->arrived < cluster->list->count
	                       ? cluster->list->at[cluster->arrived].job.submit_s
	                       : INFINITY;
	double change_s = cluster->stale ? cluster->next_change_s : INFINITY;
	double review_s = INFINITY;
	if (cluster->policy->review) {
		lk_jobs_moment moment = moment_of(cluster);
		review_s = cluster->now_s + cluster->policy->review(&moment);
	}
	double next_s = fmin(fmin(arrival_s, end_s), fmin(change_s, review_s));
	if (isinf(next_s)) return false;
	pass_time(cluster, fmax(next_s, cluster->now_s));
	cluster->stale |= next_s == review_s;
	if (next_s == end_s) simulate_end(cluster, first);
	else if (next_s == arrival_s) simulate_arrive(cluster);
	return true;
}

/* Report progress; returns why the simulation ends here, or NULL. */
static const char *simulate_look(struct cluster *cluster) {
	lk_jobs_watch *watch = cluster->watch;
	if (!watch) return NULL;
	if (watch->progress) {
		size_t more = cluster->arrived - cluster->told,
			   done = atomic_fetch_add(&watch->done, more) + more;
		cluster->told = cluster->arrived;
		if (pthread_equal(watch->teller, pthread_self()))
			watch->progress(watch->context, 0, (double)done, (double)watch->all);
	}
	return lk_cutoff_reached(&watch->cutoff);
}

static lk_status simulate_run(struct cluster *cluster, const char **cut_off, lk_error *err) {
	while (next_event(cluster)) {
		const char *reached = simulate_look(cluster);
		if (reached) {
			*cut_off = reached;
			return LK_OK;
		}
		/* Arrivals of one moment are seen together. */
		while (cluster->arrived < cluster->list->count &&
		       cluster->list->at[cluster->arrived].job.submit_s <= cluster->now_s)
			simulate_arrive(cluster);
		if (cluster->stale && cluster->now_s >= cluster->next_change_s)
			LK_TRY(simulate_divide(cluster, err));
	}
	if (cluster->count)
		return lk_fail(err, LK_ERR_INTERNAL, cluster->list->at[cluster->active[0].job].where,
		               "policy %s never starts job %s", cluster->policy->name,
		               cluster->list->at[cluster->active[0].job].job.name);
	return LK_OK;
}

static lk_status simulate_elastic(const lk_jobs_request *request, const lk_job_list *list,
                                  const lk_policy *policy, lk_jobs_watch *watch,
                                  lk_jobs_course *courses, const char **cut_off, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct cluster c = {
		.request = request, .list = list, .policy = policy, .courses = courses, .watch = watch};
	c.active = LK_ARRAY(&arena, lk_active_job, list->count + 1);
	c.wanted = LK_ARRAY(&arena, const lk_jobs_rate *, list->count + 1);
	lk_status status = c.active && c.wanted ? simulate_run(&c, cut_off, err) : lk_oom(err);
	lk_allocator_free(&c.allocator);
	lk_arena_free(&c.scratch);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_jobs_simulate(const lk_jobs_request *request, const lk_places *places,
                           const lk_job_list *list, const lk_policy *policy, lk_jobs_watch *watch,
                           lk_jobs_course *courses, const char **cut_off, lk_error *err) {
	return policy->divide ? simulate_elastic(request, list, policy, watch, courses, cut_off, err)
	                      : lk_jobs_queue(places, list, policy, NULL, courses, err);
}
