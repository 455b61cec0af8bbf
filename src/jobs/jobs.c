/* jobs.c: `lockstep jobs`: the list, its rates, every policy, and summaries of their results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/arena.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/noun.h"
#include "system/parallel.h"
#include "hw/hw.h"
#include "jobs/jobs.h"

struct answer {
	lk_arena arena; /* first: lk_arena_free_owner */
	lk_jobs_answer public;
};

static lk_status jobs_check(const lk_jobs_request *request, lk_error *err) {
	if (!request->jobs && !request->draw) {
		lk_fail(err, LK_ERR_INPUT, "jobs", "no list of jobs was given");
		return lk_hint(err,
		               "give a CSV (docs/guide/jobs.md has its columns), or draw one by --draw N");
	}
	if (request->jobs && request->draw) {
		lk_fail(err, LK_ERR_INPUT, "--draw", "a list of jobs was given, too");
		return lk_hint(err, "give either");
	}
	if (request->gpus < 1 && !request->nodes) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "the number of GPUs of the cluster was not given");
		return lk_hint(err, "give --gpus N, or --nodes FILE");
	}
	const lk_device *device;
	if (request->gpu) LK_TRY(lk_device_lookup(request->gpu, "--gpu", &device, err));
	if (request->nodes && (request->gpus || request->gpus_per_node)) {
		lk_fail(err, LK_ERR_INPUT, "--nodes", "it says how many GPUs there are");
		return lk_hint(err, "leave out %s", request->gpus ? "--gpus" : "--gpus-per-node");
	}
	return LK_OK;
}

/* ---- nodes ---- */

static bool places_matter(const lk_jobs_request *request) {
	return request->nodes || request->gpus_per_node || request->save_energy;
}

/* The nodes of the file; nodes of gpus_per_node, the last with the rest; or all GPUs as one. */
static lk_status jobs_make_places(const lk_jobs_request *request, lk_arena *arena, lk_places *out,
                                  lk_error *err) {
	enum { USUAL = 8 };
	if (request->nodes) return lk_places_read(request->nodes, arena, out, err);
	int size = places_matter(request) ? USUAL : request->gpus;
	if (request->gpus_per_node) size = request->gpus_per_node;
	out->count = (request->gpus + size - 1) / size;
	out->sizes = LK_ARRAY(arena, int, (size_t)out->count);
	if (!out->sizes) return lk_oom(err);
	for (int i = 0; i < out->count; i++) out->sizes[i] = size;
	if (request->gpus % size) out->sizes[out->count - 1] = request->gpus % size;
	return LK_OK;
}

/* ---- selection of policies ---- */

/* Policies that change running jobs take GPUs that are all alike; elastic ones also a model. */
static lk_status refuse_elastic(const lk_jobs_request *request, const lk_job_list *list,
                                const lk_policy *policy, lk_error *err) {
	if (!policy->divide) return LK_OK;
	if (places_matter(request)) {
		lk_fail(err, LK_ERR_INPUT, "--policy", "%s does not place jobs on nodes", policy->name);
		const char *nodes = request->nodes ? "--nodes" : "--gpus-per-node";
		return lk_hint(err, "leave it out, or leave out %s",
		               request->nodes || request->gpus_per_node ? nodes : "--save-energy");
	}
	for (size_t i = 0; lk_policy_is_elastic(policy) && i < list->count; i++) {
		if (list->at[i].job.model) continue;
		lk_fail(err, LK_ERR_INPUT, list->at[i].where,
		        "job %.60s has no model: %s cannot say how fast it is on other GPUs",
		        list->at[i].job.name, policy->name);
		return lk_hint(err, "leave it out of --policy");
	}
	return LK_OK;
}

/* Refuse options of policies that change running jobs, if no such policy is simulated. */
static lk_status check_changes(const lk_jobs_request *request, bool elastic, bool changes,
                               lk_error *err) {
	lk_jobs_request usual;
	lk_jobs_defaults(&usual);
	const struct {
		const char *name;
		bool idle;
	} options[] = {
		{"--objective", !elastic && request->objective != usual.objective},
		{"--horizon", !elastic && request->horizon_h != usual.horizon_h},
		{"--restart", !changes && request->restart_s != usual.restart_s},
		{"--every", !changes && request->every_min != usual.every_min},
	};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		if (!options[i].idle) continue;
		lk_fail(err, LK_ERR_INPUT, options[i].name,
		        "it has no effect: no policy that %s is simulated",
		        i < 2 ? "is elastic" : "changes running jobs");
		return lk_hint(err, "add %s to --policy, or leave it out", i < 2 ? "elastic" : "las");
	}
	return LK_OK;
}

/* Refuses options on how fast models train where no job has a model. */
static lk_status check_models(const lk_jobs_request *request, const lk_job_list *list,
                              lk_error *err) {
	const char *idle;
	if (request->gpu) idle = "--gpu";
	else if (request->rates) idle = "--rates";
	else if (request->calibration) idle = "--calibration";
	else return LK_OK;
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].job.model) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, idle, "it has no effect: no job of the list has a model");
	return lk_hint(err, "leave it out: how long the jobs run is in the list");
}

/* The requested policies; by default, those that the list and the nodes allow. */
static lk_status choose_policies(const lk_jobs_request *request, const lk_job_list *list,
                                 lk_arena *arena, const lk_policy ***out, int *count, bool *elastic,
                                 bool *changes, lk_error *err) {
	bool timed = false;
	for (size_t i = 0; !timed && i < list->count; i++) timed = !list->at[i].job.model;
	LK_TRY(lk_policies_named(request->policies, places_matter(request), timed, arena, out, count,
	                         err));
	*elastic = *changes = false;
	for (int i = 0; i < *count; i++) {
		LK_TRY(refuse_elastic(request, list, (*out)[i], err));
		*elastic |= lk_policy_is_elastic((*out)[i]);
		*changes |= (*out)[i]->divide != NULL;
	}
	LK_TRY(check_changes(request, *elastic, *changes, err));
	return check_models(request, list, err);
}

/* ---- summaries ---- */

static lk_status jobs_sum_up(const lk_jobs_request *request, const lk_job_list *list, double *times,
                             lk_jobs_policy *policy, lk_error *err) {
	double waited = 0, held = 0, last_arrival_s = lk_last(list)->job.submit_s,
		   first_s = list->at[0].job.submit_s;
	for (size_t i = 0; i < list->count; i++) {
		const lk_jobs_course *course = &policy->courses[i];
		times[i] = course->end_s - list->at[i].job.submit_s;
		waited += course->start_s - list->at[i].job.submit_s;
		held += course->gpu_s;
		policy->restarts += course->restarts;
		policy->done += course->end_s <= last_arrival_s;
		policy->makespan_s = fmax(policy->makespan_s, course->end_s - first_s);
	}
	policy->mean_s = lk_mean(times, list->count);
	policy->median_s = lk_median(times, list->count);
	policy->late_s = lk_quantile(times, list->count, 0.95);
	policy->wait_s = waited / (double)list->count;
	policy->used = held / (policy->makespan_s * request->gpus);
	return isnan(policy->median_s) || isnan(policy->late_s) ? lk_oom(err) : LK_OK;
}

/* Policies run concurrently and independently. */
struct policy_runs {
	const lk_jobs_request *request;
	const lk_places *places;
	const lk_job_list *list;
	const lk_policy **policies;
	lk_jobs_watch *watch;
	lk_jobs_course **courses;
	const char **cut_off; /* by policy, why it is missing; NULL: it is not */
};

static lk_status run_policy(void *context, size_t i, lk_error *err) {
	struct policy_runs *runs = context;
	runs->cut_off[i] = i > 0 ? lk_cutoff_reached(&runs->watch->cutoff) : NULL;
	if (runs->cut_off[i]) return LK_OK;
	return lk_jobs_simulate(runs->request, runs->places, runs->list, runs->policies[i], runs->watch,
	                        runs->courses[i], &runs->cut_off[i], err);
}

/* Policies that the cutoff leaves out are not among the answer's. */
static lk_status run_policies(const lk_jobs_request *request, const lk_places *places,
                              const lk_job_list *list, const lk_policy **policies,
                              lk_jobs_watch *watch, lk_arena *arena, lk_jobs_answer *out,
                              lk_error *err) {
	size_t count = (size_t)out->policy_count;
	lk_jobs_policy *results = LK_ARRAY(arena, lk_jobs_policy, count);
	double *times = LK_ARRAY(arena, double, list->count);
	struct policy_runs runs = {.request = request,
	                           .places = places,
	                           .list = list,
	                           .policies = policies,
	                           .watch = watch,
	                           .courses = LK_ARRAY(arena, lk_jobs_course *, count),
	                           .cut_off = LK_ARRAY(arena, const char *, count)};
	if (!results || !times || !runs.courses || !runs.cut_off) return lk_oom(err);
	for (size_t i = 0; i < count; i++)
		if (!(runs.courses[i] = LK_ARRAY(arena, lk_jobs_course, list->count))) return lk_oom(err);
	watch->all = list->count * count;
	watch->teller = pthread_self();
	LK_TRY(lk_parallel(count, 0, run_policy, &runs, err));
	if (runs.cut_off[0]) {
		lk_fail(err, LK_ERR_STOPPED, "jobs", "cut off by %s before any policy was simulated",
		        lk_cutoff_text(runs.cut_off[0]));
		return lk_hint(err, "give it more time, or fifo as the first --policy");
	}
	for (size_t i = 0; i < count; i++) {
		if (runs.cut_off[i]) {
			out->cut_off = runs.cut_off[i];
			out->policy_count = (int)i;
			break;
		}
		results[i] = (lk_jobs_policy){
			.name = policies[i]->name, .what = policies[i]->what, .courses = runs.courses[i]};
		LK_TRY(jobs_sum_up(request, list, times, &results[i], err));
		results[i].ratio = results[0].mean_s / results[i].mean_s;
	}
	out->policies = results;
	return LK_OK;
}

/* ---- the answer ---- */

/* GPU time requested per GPU time until the last arrival; NAN if all arrive at once. */
static double load_of(const lk_job_list *list, int gpus) {
	double asked_s = 0, span_s = lk_last(list)->job.submit_s - list->at[0].job.submit_s;
	for (size_t i = 0; i < list->count; i++) {
		const lk_jobs_job *job = &list->at[i].job;
		asked_s += job->gpus * job->samples / job->asked_per_s;
	}
	return span_s > 0 ? asked_s / gpus / span_s : NAN;
}

static lk_status jobs_add_notes(const lk_jobs_request *request, const lk_jobs_left *left,
                                bool elastic, bool changes, lk_arena *arena, lk_jobs_answer *out,
                                lk_error *err) {
	enum { MOST = 7 };
	const char **notes = LK_ARRAY(arena, const char *, MOST);
	char restart[40];
	int n = 0;
	if (!notes) return lk_oom(err);
	if (out->predictions)
		notes[n++] = lk_arena_printf(arena,
		                             "rates are predicted (%d predictions): jobs have GPUs on "
		                             "neighbouring nodes, and do not "
		                             "disturb one another",
		                             out->predictions);
	if (request->rates)
		notes[n++] = lk_arena_printf(arena, "rates of the models in %s are taken from there",
		                             request->rates);
	if (changes)
		notes[n++] = lk_arena_printf(
			arena, "a change of a running job costs it %s (--restart)%s",
			lk_format_seconds(request->restart_s, restart, sizeof restart),
			elastic ? "; a job needs the same samples with every batch in its range" : "");
	if (left->no_gpu)
		notes[n++] =
			lk_arena_printf(arena, "%d %s left out", left->no_gpu,
		                    lk_noun(left->no_gpu, "job without GPUs is", "jobs without GPUs are"));
	if (left->unfinished)
		notes[n++] =
			lk_arena_printf(arena, "%d %s left out", left->unfinished,
		                    lk_noun(left->unfinished, "job that never ran, or had not ended, is",
		                            "jobs that never ran, or had not ended, are"));
	if (left->shared)
		notes[n++] = lk_arena_printf(arena, "%d %s as one whole GPU", left->shared,
		                             lk_noun(left->shared, "job with a share of a GPU counts",
		                                     "jobs with a share of a GPU count"));
	if (request->draw)
		notes[n++] = lk_arena_printf(
			arena, request->users
					   ? "drawn: mean time as in Helios (6651.7 s); users, kinds of jobs, GPU "
						 "counts, networks and ranges are assumed (docs/guide/jobs.md)"
					   : "drawn: times as in Helios (mean 6651.7 s, median 206 s); GPU "
						 "counts, networks and ranges are assumed (docs/guide/jobs.md)");
	for (int i = 0; i < n; i++)
		if (!notes[i]) return lk_oom(err);
	out->notes = notes;
	out->note_count = n;
	return LK_OK;
}

static lk_status jobs_energy_of(const lk_jobs_request *request, const lk_places *places,
                                const lk_job_list *list, const lk_policy *policy, lk_arena *arena,
                                lk_jobs_answer *out, lk_error *err) {
	lk_jobs_energy *energy = LK_NEW(arena, lk_jobs_energy);
	out->energy = energy;
	return energy ? lk_jobs_save_energy(request, places, list, policy, arena, energy, err)
	              : lk_oom(err);
}

static lk_status jobs_make(const lk_jobs_request *asked, lk_arena *arena, lk_job_list *list,
                           lk_jobs_answer *out, lk_error *err) {
	lk_jobs_request completed = *asked;
	const lk_jobs_request *request = &completed;
	const lk_policy **policies;
	lk_places places;
	lk_jobs_left left = {0};
	bool elastic, changes;
	lk_jobs_watch watch = {.cutoff = lk_cutoff_after(asked->search_s),
	                       .progress = asked->progress,
	                       .context = asked->progress_context};
	LK_TRY(jobs_check(asked, err));
	LK_TRY(jobs_make_places(asked, arena, &places, err));
	completed.gpus = 0;
	for (int i = 0; i < places.count; i++) completed.gpus += places.sizes[i];
	if (request->jobs)
		LK_TRY(lk_jobs_read_path(request->jobs, request->gpus, arena, list, &left, err));
	else LK_TRY(lk_jobs_draw(request, arena, list, err));
	LK_TRY(choose_policies(request, list, arena, &policies, &out->policy_count, &elastic, &changes,
	                       err));
	LK_TRY(
		lk_jobs_find_rates(request, !elastic, &watch.cutoff, arena, list, &out->predictions, err));
	lk_jobs_set_work(list);
	if (request->write) LK_TRY(lk_jobs_write(list, request->write, err));
	LK_TRY(run_policies(request, &places, list, policies, &watch, arena, out, err));
	if (request->save_energy && !out->cut_off) out->cut_off = lk_cutoff_reached(&watch.cutoff);
	if (request->save_energy && !out->cut_off)
		LK_TRY(jobs_energy_of(request, &places, list, policies[0], arena, out, err));
	lk_jobs_job *jobs = LK_ARRAY(arena, lk_jobs_job, list->count);
	if (!jobs) return lk_oom(err);
	for (size_t i = 0; i < list->count; i++) jobs[i] = list->at[i].job;
	const lk_device *device =
		request->gpu && out->predictions ? lk_device_find(request->gpu) : NULL;
	out->jobs = jobs;
	out->count = (int)list->count;
	out->gpus = request->gpus;
	out->gpu = device ? device->label : "";
	out->load = load_of(list, request->gpus);
	return jobs_add_notes(request, &left, elastic, changes, arena, out, err);
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static const char *jobs_check_policy(const lk_jobs_answer *answer, const lk_jobs_policy *policy) {
	for (int i = 0; policy->courses && i < answer->count; i++) {
		const lk_jobs_course *course = &policy->courses[i];
		LK_HOLDS(course->start_s >= answer->jobs[i].submit_s && course->end_s >= course->start_s);
		LK_HOLDS(course->most_gpus <= answer->gpus && course->gpu_s >= 0);
		LK_HOLDS(course->gpu_s <=
		         course->most_gpus * (course->end_s - course->start_s) * (1 + 1e-9));
	}
	LK_HOLDS(policy->wait_s >= 0 && policy->wait_s <= policy->mean_s * (1 + 1e-9));
	LK_HOLDS(policy->done >= 0 && policy->done <= answer->count);
	LK_HOLDS(policy->used >= 0 && policy->used <= 1 + 1e-9);
	LK_HOLDS(policy->median_s <= policy->late_s && policy->mean_s <= policy->makespan_s);
	return NULL;
}

static const char *jobs_check_answer(const lk_jobs_answer *answer) {
	for (int i = 0; i < answer->count; i++)
		for (int k = 0; k < answer->jobs[i].rate_count; k++) {
			const lk_jobs_rate *rate = &answer->jobs[i].rates[k];
			LK_HOLDS(isfinite(rate->per_s) && rate->per_s > 0);
			LK_HOLDS(k == 0 || rate->gpus > rate[-1].gpus);
		}
	const lk_jobs_energy *energy = answer->energy;
	for (int i = 0; energy && i < energy->point_count; i++)
		LK_HOLDS(energy->points[i].saved <= 1 && energy->points[i].used <= 1 + 1e-9);
	for (int i = 0; i < answer->policy_count; i++)
		LK_HOLDS_ALL(jobs_check_policy(answer, &answer->policies[i]));
	return NULL;
}

lk_status lk_jobs(const lk_jobs_request *request, lk_jobs_answer **out, lk_error *err) {
	lk_jobs_request counted = *request;
	LK_TRY(lk_devices_ready(err));
	LK_TRY(lk_where_count(&counted.gpu, &counted.gpus, err));
	struct answer *answer = calloc(1, sizeof *answer);
	if (!answer) return lk_oom(err);
	lk_job_list list = {0};
	answer->public.memory_owner = answer;
	lk_status status = jobs_make(&counted, &answer->arena, &list, &answer->public, err);
	if (status == LK_OK)
		answer->public.failed_check = lk_failed_check(jobs_check_answer(&answer->public));
	lk_vec_free(&list);
	*out = status == LK_OK ? &answer->public : NULL;
	if (status != LK_OK) lk_jobs_free(&answer->public);
	return status;
}

void lk_jobs_free(lk_jobs_answer *answer) {
	if (answer) lk_arena_free_owner(answer->memory_owner);
}
