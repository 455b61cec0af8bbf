/* jobs_energy.c: costs and savings of switching nodes off: the list is run with all nodes on, then
 * with nodes switched off beyond a forecast of demand and a buffer (jobs_power.c), for buffers from
 * none to half of the cluster. The best point has the least of
 *
 *     node hours + penalty x additional waiting hours of jobs
 *
 * Node hours are counted until the last job arrives, because savings of an emptying cluster are
 * meaningless. */
#include <math.h>

#include "base/arena.h"
#include "jobs/jobs.h"

enum { POINTS_MOST = 24 };

/* Waiting seconds of all jobs together. */
static double energy_waited(const lk_job_list *list, const lk_jobs_course *courses) {
	double waited_s = 0;
	for (size_t i = 0; i < list->count; i++)
		waited_s += courses[i].start_s - list->at[i].job.submit_s;
	return waited_s;
}

/* GPU time held until the last arrival. */
static double energy_held(const lk_job_list *list, const lk_jobs_course *courses, double until_s) {
	double held_s = 0;
	for (size_t i = 0; i < list->count; i++)
		held_s +=
			fmax(0, fmin(courses[i].end_s, until_s) - courses[i].start_s) * list->at[i].job.gpus;
	return held_s;
}

/* Buffers: 0, 1, 2, 5, 10, 20, 50, ... up to half of the nodes. */
static int energy_buffers(int nodes, int out[POINTS_MOST]) {
	static const int steps[] = {1, 2, 5};
	int count = 0;
	out[count++] = 0;
	for (int i = 0, scale = 1; count < POINTS_MOST && steps[i % 3] * scale <= (nodes + 1) / 2;) {
		out[count++] = steps[i % 3] * scale;
		if (++i % 3 == 0) scale *= 10;
	}
	return count;
}

struct energy_run {
	const lk_places *places;
	const lk_job_list *list;
	const lk_policy *policy;
	lk_jobs_course *courses;
	double from_s, until_s;
	double gpus; /* of the cluster */
};

static lk_status energy_point(const struct energy_run *run, const lk_jobs_request *request,
                              int buffer, lk_jobs_energy_point *out, lk_error *err) {
	lk_power power = {.buffer = buffer, .boot_s = request->boot_s, .until_s = run->until_s};
	lk_status status =
		lk_jobs_queue(run->places, run->list, run->policy, &power, run->courses, err);
	double days = (run->until_s - run->from_s) / 86400;
	*out = (lk_jobs_energy_point){.buffer = buffer,
	                              .node_hours = power.node_s / 3600,
	                              .wakeups_a_day = power.wakeups / days,
	                              .woken = power.wakeups ? (double)power.woken / power.wakeups : 0};
	lk_power_free(&power);
	return status;
}

static lk_status energy_curve(const struct energy_run *run, const lk_jobs_request *request,
                              lk_jobs_energy_point *points, lk_jobs_energy *out, lk_error *err) {
	double count = (double)run->list->count, waited_s = energy_waited(run->list, run->courses),
		   held_s = energy_held(run->list, run->courses, run->until_s), least = INFINITY;
	int buffers[POINTS_MOST];
	out->node_hours = out->nodes * (run->until_s - run->from_s) / 3600;
	out->wait_s = waited_s / count;
	out->used = held_s / (run->gpus * (run->until_s - run->from_s));
	out->point_count = energy_buffers(out->nodes, buffers);
	for (int i = 0; i < out->point_count; i++) {
		LK_TRY(energy_point(run, request, buffers[i], &points[i], err));
		double longer_s = energy_waited(run->list, run->courses) - waited_s,
			   cost = points[i].node_hours + request->penalty * longer_s / 3600;
		points[i].saved = 1 - points[i].node_hours / out->node_hours;
		points[i].longer_s = longer_s / count;
		points[i].used = energy_held(run->list, run->courses, run->until_s) /
		                 (run->gpus / out->nodes * points[i].node_hours * 3600);
		if (cost >= least) continue;
		least = cost;
		out->best = i;
	}
	out->worth = least < out->node_hours;
	return LK_OK;
}

lk_status lk_jobs_save_energy(const lk_jobs_request *request, const lk_places *places,
                              const lk_job_list *list, const lk_policy *policy, lk_arena *arena,
                              lk_jobs_energy *out, lk_error *err) {
	struct energy_run run = {.places = places,
	                         .list = list,
	                         .policy = policy,
	                         .courses = LK_ARRAY(arena, lk_jobs_course, list->count),
	                         .from_s = list->at[0].job.submit_s,
	                         .until_s = list->at[list->count - 1].job.submit_s};
	lk_jobs_energy_point *points = LK_ARRAY(arena, lk_jobs_energy_point, POINTS_MOST);
	if (!run.courses || !points) return lk_oom(err);
	if (run.until_s - run.from_s < 3600) {
		lk_fail(err, LK_ERR_INPUT, "--save-energy", "all jobs arrive within an hour");
		return lk_hint(err, "a forecast of demand needs a list of a day or more");
	}
	for (int i = 0; i < places->count; i++) run.gpus += places->sizes[i];
	*out = (lk_jobs_energy){.policy = policy->name,
	                        .nodes = places->count,
	                        .boot_s = request->boot_s,
	                        .penalty = request->penalty,
	                        .points = points};
	LK_TRY(lk_jobs_queue(places, list, policy, NULL, run.courses, err));
	return energy_curve(&run, request, points, out, err);
}
