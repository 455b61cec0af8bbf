/* layout_answer.c: the best layouts in full: where their time goes, why the others are not first,
 * what a change of a cost by 10 % would change, and which numbers of GPUs are worth their money. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "options/command.h"
#include "step/energy.h"
#include "step/step.h"
#include "base/text.h"
#include "base/units.h"
#include "base/noun.h"
#include "base/sort.h"
#include "model/layout/job.h"
#include "launch/emit/emit.h"
#include "model/layout/schedule.h"
#include "plan/plan.h"

/* ---- one choice ---- */

/* Results of a choice's step. */
struct timing {
	double step_s, network_share, peak, usable, samples, tokens, model_flops;
	lk_breakdown breakdown;
	bool unfolded; /* simulated operation by operation */
};

struct timed {
	const lk_space *space;
	const lk_plan_choice *choices;
	const lk_ranked *ranked;
};

static lk_status time_choice(void *context, size_t i, void *result, lk_error *err) {
	const struct timed *timed = context;
	struct timing *out = result;
	lk_step step;
	lk_step_options options = {.few = true, .habits = timed->ranked[i].trial.habits};
	lk_status status =
		lk_step_ask(timed->choices[i].job, timed->space->cluster, &options, &step, err);
	if (status == LK_OK)
		*out = (struct timing){
			.step_s = step.step_s,
			.network_share = lk_step_network_share(&step),
			.peak = step.memory[step.fullest].total,
			.usable = step.usable,
			.samples = step.graph->samples,
			.tokens = step.graph->tokens,
			.model_flops = step.graph->model_flops,
			.breakdown = step.breakdown,
			.unfolded = !step.fold,
		};
	lk_step_free(&step);
	return status;
}

static lk_status answer_fill_breakdown(lk_plan_choice *out, const lk_breakdown *breakdown,
                                       lk_arena *arena, lk_error *err) {
	lk_time_part *parts = LK_ARRAY(arena, lk_time_part, LK_PART_COUNT);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < LK_PART_COUNT; i++) {
		double exposed = breakdown->exposed_s[i], hidden = breakdown->hidden_s[i];
		if (exposed <= 0 && hidden <= 0) continue;
		parts[out->breakdown_count++] =
			(lk_time_part){lk_part_key((lk_part)i), lk_part_label((lk_part)i), exposed, hidden};
	}
	out->breakdown = parts;
	return LK_OK;
}

static void fill_degrees(lk_plan_choice *out, const lk_job *job) {
	out->gpus = job->gpus;
	out->tp = job->tp;
	out->pp = job->pp;
	out->vp = job->vp;
	out->cp = job->cp;
	out->ep = job->ep;
	out->etp = job->etp;
	out->dp = job->dp;
	out->mbs = job->mbs;
	out->microbatches = job->microbatches;
	out->zero = (int)job->sharding;
	out->schedule = lk_schedule_get(job->schedule)->name;
	out->stack = job->stack;
	out->dispatcher = job->ep > 1 ? lk_dispatcher_names[job->dispatcher] : NULL;
	if (!job->split_open && job->pipeline_layout[0]) out->pipeline_layout = job->pipeline_layout;
	out->sequence_parallel = job->sequence_parallel == LK_ON;
	out->tp_overlap = job->tp_overlap == LK_ON;
	out->overlap_grad_reduce = job->overlap_grad_reduce == LK_ON;
	out->overlap_param_gather = job->overlap_param_gather == LK_ON;
	out->offload = job->offload_optimizer;
	out->bucket_bytes = job->bucket_bytes;
}

static void answer_fill_speed(const lk_plan_request *request, lk_plan_choice *out,
                              const lk_job *job, const lk_cluster *cluster,
                              const struct timing *timing, lk_arena *arena) {
	const lk_device *device = cluster->node[0].device;
	double seconds = timing->step_s,
		   per_step = lk_model_in_tokens(&job->model) ? timing->tokens : timing->samples;
	out->step_time_s = seconds;
	lk_range_of(arena, job, cluster, timing->network_share, seconds, &out->step_time_low_s,
	            &out->step_time_high_s, NULL);
	out->peak_bytes = timing->peak;
	out->usable_bytes = timing->usable;
	out->tokens_per_s_per_gpu =
		lk_model_in_tokens(&job->model) ? timing->tokens / seconds / job->gpus : 0;
	double peak = lk_device_peak(device, job->dtype);
	if (peak > 0 && cluster->groups == 1)
		out->mfu = timing->model_flops / seconds / job->gpus / peak;
	if (request->tokens > 0 && per_step > 0)
		out->days = request->tokens / per_step * seconds / 86400;
	out->gpu_hours = out->days * 24 * job->gpus;
	out->energy = lk_energy_of(&timing->breakdown, cluster, job->gpus, seconds, out->days * 24,
	                           &request->job.mains);
}

/* The command that predicts a choice. A launch line's layout was not used, so with one the command
 * is the choice's own launch line, if it can describe the network. */
static const char *answer_reproduce(const lk_plan_request *request, const lk_space *space,
                                    const lk_layout *layout, const lk_job *job, lk_arena *arena) {
	lk_predict_request wanted;
	bool described = lk_launch_describes(&job->model),
		 launched = request->job.launch_count || request->job.script || request->job.config;
	if (!described || (request->job.model && !launched))
		return lk_layout_request(request, space, layout, job, arena, &wanted)
		           ? lk_reproduce(arena, &wanted, job)
		           : NULL;
	lk_command_line line = lk_command_begin(arena, lk_predict_verb.name);
	lk_command_text(&line, "cluster", request->job.cluster);
	if (request->job.cluster) lk_command_number(&line, "gpus", job->gpus);
	else lk_command_text(&line, "gpu", request->job.gpu);
	lk_command_part(&line, " -- ");
	lk_command_part(&line, lk_launch_write(arena, job));
	return line.text;
}

static lk_status fill_choice(const lk_plan_request *request, const lk_space *space,
                             const lk_ranked *ranked, lk_arena *arena, lk_plan_choice *out,
                             lk_error *err) {
	lk_job *job = LK_NEW(arena, lk_job);
	if (!job) return lk_oom(err);
	LK_TRY(lk_layout_job(space, &ranked->core, &ranked->layout, job, err));
	out->job = job;
	out->tight = ranked->trial.tight;
	out->exact_s = NAN;
	fill_degrees(out, job);
	out->layout = lk_layout_text(arena, job);
	out->recompute = lk_recompute_text(arena, job);
	out->reproduce = answer_reproduce(request, space, &ranked->layout, job, arena);
	return out->layout && out->recompute && out->reproduce ? LK_OK : lk_oom(err);
}

/* Simulate all choices in full. The one simulated operation by operation serves the exact check. */
static lk_status fill_times(const lk_plan_request *request, const lk_space *space,
                            const lk_ranked *ranked, lk_plan_choice *choices, int count,
                            lk_arena *arena, lk_error *err) {
	struct timing *timings = LK_ARRAY(arena, struct timing, count);
	struct timed timed = {space, choices, ranked};
	if (!timings) return lk_oom(err);
	LK_TRY(
		lk_plan_share(request, (size_t)count, sizeof *timings, time_choice, &timed, timings, err));
	for (int i = 0; i < count; i++) {
		answer_fill_speed(request, &choices[i], choices[i].job, space->cluster, &timings[i], arena);
		if (timings[i].unfolded && !request->no_exact) choices[i].exact_s = timings[i].step_s;
		LK_TRY(answer_fill_breakdown(&choices[i], &timings[i].breakdown, arena, err));
	}
	return LK_OK;
}

/* ---- why not ---- */

static double answer_exposed(const lk_plan_choice *choice, const char *key) {
	for (int i = 0; i < choice->breakdown_count; i++)
		if (strcmp(choice->breakdown[i].key, key) == 0) return choice->breakdown[i].exposed_s;
	return 0;
}

struct difference {
	const char *label;
	double seconds;
};

static int answer_by_size(const void *a, const void *b) {
	const struct difference *x = a, *y = b;
	double dx = fabs(x->seconds), dy = fabs(y->seconds);
	return (dx < dy) - (dx > dy);
}

static int answer_differences(const lk_plan_choice *choice, const lk_plan_choice *best,
                              struct difference *out) {
	int count = 0;
	for (int i = 0; i < choice->breakdown_count; i++)
		out[count++] = (struct difference){choice->breakdown[i].label,
		                                   choice->breakdown[i].exposed_s -
		                                       answer_exposed(best, choice->breakdown[i].key)};
	for (int i = 0; i < best->breakdown_count; i++) {
		bool both = false;
		for (int k = 0; k < choice->breakdown_count; k++)
			both |= strcmp(choice->breakdown[k].key, best->breakdown[i].key) == 0;
		if (!both)
			out[count++] =
				(struct difference){best->breakdown[i].label, -best->breakdown[i].exposed_s};
	}
	lk_sort(out, (size_t)count, sizeof *out, answer_by_size);
	return count;
}

/* "+1.31 s pipeline bubble, -0.20 s tensor parallelism: 3.1 % slower": the parts that differ
 * most. */
static const char *answer_why_not(lk_arena *arena, const lk_plan_choice *choice,
                                  const lk_plan_choice *best, bool by_energy) {
	enum { SHOWN = 3 };
	struct difference parts[2 * LK_PART_COUNT];
	int count = answer_differences(choice, best, parts);
	const char *text = "";
	for (int i = 0; i < count && i < SHOWN && text; i++) {
		char shown[32];
		if (fabs(parts[i].seconds) < 0.0005 * best->step_time_s) break;
		text = lk_arena_printf(
			arena, "%s%s%s%s %s", text, *text ? ", " : "", parts[i].seconds < 0 ? "-" : "+",
			lk_format_seconds(fabs(parts[i].seconds), shown, sizeof shown), parts[i].label);
	}
	if (!text) return NULL;
	double worse = by_energy ? choice->energy.step_kwh / best->energy.step_kwh - 1
	                         : choice->step_time_s / best->step_time_s - 1;
	char free[32];
	if (worse < 0 && choice->tight)
		return lk_arena_printf(
			arena, "%.1f %% %s, but only %s stay free, and memory may run out (--headroom)",
			-100 * worse, by_energy ? "less energy" : "faster",
			lk_format_bytes(choice->usable_bytes - choice->peak_bytes, free, sizeof free));
	return lk_arena_printf(arena, "%s%s%.1f %% %s", text, *text ? ": " : "", 100 * worse,
	                       by_energy ? "more energy" : "slower");
}

/* ---- exact, sensitivity ---- */

enum { COSTS = LK_SENSITIVE_COSTS, WAYS = LK_SENSITIVE_WAYS };

struct retrial {
	const lk_space *space;
	const lk_plan_choice *choices;
	const lk_ranked *ranked; /* of the choices */
	const double *limit_s;   /* [changes] 0: none */
	const lk_cutoff *cutoff;
};

static lk_status try_exactly(void *context, size_t i, void *result, lk_error *err) {
	const struct retrial *retrial = context;
	lk_step step;
	lk_step_options options = {
		.bare = true, .exact = true, .few = true, .habits = retrial->ranked[i].trial.habits};
	*(double *)result = retrial->choices[i].exact_s;
	if (!isnan(retrial->choices[i].exact_s) || lk_cutoff_reached(retrial->cutoff)) return LK_OK;
	lk_status status =
		lk_step_ask(retrial->choices[i].job, retrial->space->cluster, &options, &step, err);
	*(double *)result = status == LK_OK ? step.step_s : NAN;
	lk_step_free(&step);
	return status;
}

/* Task: a choice with one cost changed in one way. */
static lk_status try_changed(void *context, size_t i, void *result, lk_error *err) {
	const struct retrial *retrial = context;
	int cost = (int)(i / WAYS % COSTS), way = (int)(i % WAYS);
	*(double *)result = NAN;
	if (lk_cutoff_reached(retrial->cutoff)) return LK_OK;
	double limit_s = retrial->limit_s ? retrial->limit_s[i % (COSTS * WAYS)] : 0;
	size_t choice = i / (COSTS * WAYS);
	lk_step_habits habits = retrial->ranked[choice].trial.habits;
	habits.crowded = habits.crowded && !limit_s; /* folded, its bound passes the limit sooner */
	return lk_sensitivity_ask(retrial->choices[choice].job, retrial->space->cluster, habits, cost,
	                          way, limit_s, result, err);
}

static lk_status ask_exact(const lk_plan_request *request, const lk_space *space,
                           const lk_cutoff *cutoff, const lk_ranked *ranked,
                           lk_plan_choice *choices, int count, lk_arena *arena, lk_error *err) {
	double *seconds = LK_ARRAY(arena, double, count);
	struct retrial r = {space, choices, ranked, NULL, cutoff};
	if (!seconds) return lk_oom(err);
	LK_TRY(lk_plan_share(request, (size_t)count, sizeof *seconds, try_exactly, &r, seconds, err));
	for (int i = 0; i < count; i++) choices[i].exact_s = seconds[i];
	return LK_OK;
}

/* Simulate the first choice with each change; the others only until they are clearly slower.
 * Reports nothing if the cutoff left out some of it. */
static lk_status ask_sensitivity(const lk_plan_request *request, const lk_space *space,
                                 const lk_cutoff *cutoff, const lk_ranked *ranked,
                                 lk_plan_count *out, lk_arena *arena, lk_error *err) {
	size_t each = COSTS * WAYS, tasks = (size_t)out->choice_count * each;
	double *seconds = LK_ARRAY(arena, double, tasks);
	lk_plan_sensitivity *rows = LK_ARRAY(arena, lk_plan_sensitivity, each);
	if (!seconds || !rows) return lk_oom(err);
	struct retrial first = {space, out->choices, ranked, NULL, cutoff};
	struct retrial others = {space, out->choices + 1, ranked + 1, seconds, cutoff};
	LK_TRY(lk_plan_share(request, each, sizeof *seconds, try_changed, &first, seconds, err));
	LK_TRY(lk_plan_share(request, tasks - each, sizeof *seconds, try_changed, &others,
	                     seconds + each, err));
	for (size_t i = 0; i < tasks; i++)
		if (isnan(seconds[i])) return LK_OK;
	for (size_t i = 0; i < each; i++) {
		rows[i] = (lk_plan_sensitivity){.cost = lk_sensitive_costs[i / WAYS],
		                                .factor = lk_sensitive_factors[i % WAYS],
		                                .step_time_s = seconds[i]};
		for (int c = 1; c < out->choice_count; c++)
			if (seconds[(size_t)c * each + i] * lk_tight_factor(out->choices[c].tight) <
			    seconds[(size_t)rows[i].best * each + i] *
			        lk_tight_factor(out->choices[rows[i].best].tight))
				rows[i].best = c;
	}
	out->sensitivity = rows;
	out->sensitivity_count = (int)each;
	return LK_OK;
}

/* ---- other formats ---- */

/* The user decides the number format of a job, so narrower formats do not compete: what the recipe
 * of DeepSeek-V3 (arXiv 2412.19437, 3.3) would give is found by a separate search. */
static const char narrow_recipe[] = "--dtype fp8 --fp8-recipe blockwise --fp8-params "
									"--fp8-activations --fp8-dispatch --state-dtype bf16";

static bool may_narrow(const lk_space *space, const lk_job *job) {
	const lk_device *device = space->cluster->node[0].device;
	return !space->base.dtype_said && job->dtype == LK_BF16 && job->state_dtype == LK_FP32 &&
	       lk_space_wide_experts(space, job->ep, job->etp) && lk_job_like_megatron(job) &&
	       lk_device_peak(device, LK_FP8) > lk_device_peak(device, LK_BF16);
}

static const char *narrow_text(lk_arena *arena, const char *numbers, const lk_job *job,
                               const lk_trial *trial) {
	char seconds[32], need[32];
	const char *layout = lk_layout_text(arena, job);
	return layout ? lk_arena_printf(arena, "with%s, which change what is computed: %s in %s, %s",
	                                numbers,
	                                lk_format_seconds((double)trial->step_ps / LK_PS_PER_S, seconds,
	                                                  sizeof seconds),
	                                lk_format_bytes(trial->peak, need, sizeof need), layout)
	              : NULL;
}

static lk_status answer_in_fp8(const lk_plan_request *request, const lk_space *space,
                               const lk_cutoff *cutoff, const lk_plan_choice *choice,
                               lk_arena *arena, const char **out, lk_error *err) {
	lk_plan_request one = *request;
	const char *numbers = narrow_recipe;
	lk_space narrow = *space;
	lk_hunt hunt;
	lk_job job;
	if (!may_narrow(space, choice->job)) return LK_OK;
	one.top = 1;
	one.exhaustive = false;
	one.progress = NULL;
	LK_TRY(lk_request_lay_numbers(arena, &numbers, &request->job, &narrow.base, err));
	LK_TRY(lk_hunt_run(&one, &narrow, cutoff, arena, &hunt, err));
	if (!hunt.best_count || hunt.cut_off) return LK_OK;
	LK_TRY(lk_layout_job(&narrow, &hunt.best[0].core, &hunt.best[0].layout, &job, err));
	*out = narrow_text(arena, numbers, &job, &hunt.best[0].trial);
	return *out ? LK_OK : lk_oom(err);
}

/* ---- other software ---- */

/* The software to compare with, where one was named or read: Megatron-Core's, else torchtitan's;
 * NULL: adapters, and networks that they do not train. */
static const char *other_software(const lk_plan_request *request, const lk_space *space) {
	bool chosen = request->stack || lk_request_launched(&request->job);
	bool trains = space->base.task != LK_TASK_LORA && space->base.model.network <= LK_NET_ENCDEC;
	if (!chosen || !trains || space->stack_count != 1) return NULL;
	return lk_stack_like_megatron(space->stacks[0]) ? "torchtitan" : "megatron";
}

/* A search for its best layout, with the switches that it has by default and for steps below the
 * range of the choice, which most layouts miss by their bounds. */
static lk_status answer_in_software(const lk_plan_request *request, const lk_asked *asked,
                                    const lk_space *space, const lk_cutoff *cutoff,
                                    const lk_plan_choice *choice, lk_arena *arena, const char **out,
                                    lk_error *err) {
	lk_plan_request one = *request;
	char seconds[32];
	lk_hunt hunt;
	if (!(one.stack = other_software(request, space))) return LK_OK;
	lk_space *other = LK_NEW(arena, lk_space);
	lk_asked *free_of = LK_NEW(arena, lk_asked);
	if (!other || !free_of) return lk_oom(err);
	*free_of = *asked;
	free_of->launch.framework = one.job.emit = NULL;
	free_of->launch.keys = NULL;
	one.top = 1;
	one.fixed_switches = true;
	one.exhaustive = false;
	one.progress = NULL;
	if (lk_space_read(&one, free_of, other, NULL) != LK_OK) return LK_OK; /* it lacks a switch */
	other->slowest_s = fmin(other->slowest_s, choice->step_time_low_s);
	LK_TRY(lk_hunt_run(&one, other, cutoff, arena, &hunt, err));
	if (!hunt.best_count || hunt.cut_off) return LK_OK;
	double step_s = (double)hunt.best[0].trial.step_ps / LK_PS_PER_S;
	if (step_s >= choice->step_time_low_s || hunt.best[0].trial.tight) return LK_OK;
	*out = lk_arena_printf(arena, "%s would take %s (%.0f %%): --stack %s",
	                       lk_stack_codebase(one.stack),
	                       lk_format_seconds(step_s, seconds, sizeof seconds),
	                       100 * (step_s / choice->step_time_s - 1), one.stack);
	return *out ? LK_OK : lk_oom(err);
}

/* ---- the whole answer ---- */

static void take_counts(const lk_hunt *hunt, const lk_space *space, lk_plan_count *out) {
	out->gpus = space->gpus;
	out->layouts = hunt->layouts;
	out->bounded = hunt->bounded;
	out->too_large = hunt->too_large;
	out->too_slow = hunt->too_slow;
	out->schedules_walked = hunt->schedules_walked;
	out->simulated = hunt->simulated;
	out->cut_short = hunt->cut_short;
	out->found_too_large = hunt->found_too_large;
	out->untried = hunt->untried;
	out->bound_s = hunt->bound_s;
	out->schedule_s = hunt->schedule_s;
	out->simulate_s = hunt->simulate_s;
}

static lk_status over_budget(const lk_plan_request *request, lk_plan_count *out, lk_arena *arena,
                             lk_error *err) {
	const lk_plan_choice *best = &out->choices[0];
	double hours = best->days * 24;
	const char *text = NULL;
	if (request->hours > 0 && hours > request->hours)
		text = lk_arena_printf(arena,
		                       "the fastest layout on %d %s takes %.6g hours, and %.6g are allowed",
		                       out->gpus, lk_noun(out->gpus, "GPU", "GPUs"), hours, request->hours);
	else if (request->gpu_hours > 0 && best->gpu_hours > request->gpu_hours)
		text = lk_arena_printf(
			arena, "the fastest layout on %d %s takes %.6g GPU-hours, and %.6g are allowed",
			out->gpus, lk_noun(out->gpus, "GPU", "GPUs"), best->gpu_hours, request->gpu_hours);
	else return LK_OK;
	if (!text) return lk_oom(err);
	out->nothing = text;
	out->choice_count = 0;
	return LK_OK;
}

static lk_status answer_slower(const lk_plan_request *request, const lk_space *space,
                               lk_arena *arena, lk_plan_count *out, lk_error *err) {
	char longest[32], allowed[32];
	const char *gpus = lk_noun(space->gpus, "GPU", "GPUs");
	double limit = request->hours > 0 ? request->hours : request->gpu_hours;
	lk_format_seconds(space->slowest_s, longest, sizeof longest);
	if (limit < 1000) snprintf(allowed, sizeof allowed, "%.4g", limit);
	else lk_format_thousands(limit, allowed, sizeof allowed);
	out->nothing = limit > 0
	                   ? lk_arena_printf(
							 arena,
							 "no layout on %d %s trains in %s %s, which takes steps of at most %s; "
							 "without %s the fastest is shown",
							 space->gpus, gpus, allowed, request->hours > 0 ? "hours" : "GPU-hours",
							 longest, request->hours > 0 ? "--hours" : "--gpu-hours")
	                   : lk_arena_printf(arena, "no layout on %d %s has a step of at most %s",
	                                     space->gpus, gpus, longest);
	return out->nothing ? LK_OK : lk_oom(err);
}

static lk_status answer_cut_off(const lk_space *space, lk_arena *arena, lk_plan_count *out,
                                lk_error *err) {
	out->nothing =
		lk_arena_printf(arena, "the search on %d %s was cut off before it found a layout that fits",
	                    space->gpus, lk_noun(space->gpus, "GPU", "GPUs"));
	return out->nothing ? LK_OK : lk_oom(err);
}

lk_status lk_answer_count(const lk_plan_request *request, const lk_asked *asked,
                          const lk_space *space, const lk_cutoff *cutoff, const lk_hunt *hunt,
                          lk_arena *arena, lk_plan_count *out, const char **cut_off,
                          lk_error *err) {
	take_counts(hunt, space, out);
	lk_plan_choice *choices = LK_ARRAY(arena, lk_plan_choice, hunt->best_count);
	if (!choices) return lk_oom(err);
	for (int i = 0; i < hunt->best_count; i++)
		LK_TRY(fill_choice(request, space, &hunt->best[i], arena, &choices[i], err));
	LK_TRY(fill_times(request, space, hunt->best, choices, hunt->best_count, arena, err));
	for (int i = 1; i < hunt->best_count; i++)
		if (!(choices[i].why_not =
		          answer_why_not(arena, &choices[i], &choices[0], space->by_energy)))
			return lk_oom(err);
	out->choices = choices;
	out->choice_count = hunt->best_count;
	if ((out->slower = hunt->slower)) return answer_slower(request, space, arena, out, err);
	if (hunt->best_count == 0 && hunt->cut_off) return answer_cut_off(space, arena, out, err);
	if (hunt->best_count == 0)
		return lk_answer_nearest(request, space, hunt, arena, &out->nothing, err);
	LK_TRY(over_budget(request, out, arena, err));
	if (out->choice_count)
		LK_TRY(answer_in_fp8(request, space, cutoff, &choices[0], arena, &out->in_fp8, err));
	if (out->choice_count && !space->by_energy)
		LK_TRY(answer_in_software(request, asked, space, cutoff, &choices[0], arena,
		                          &out->in_software, err));
	if (!request->no_exact)
		LK_TRY(
			ask_exact(request, space, cutoff, hunt->best, choices, out->choice_count, arena, err));
	/* the rates change which layout is fastest */
	bool sensitive = !request->no_sensitivity && !space->by_energy && out->choice_count;
	if (sensitive) LK_TRY(ask_sensitivity(request, space, cutoff, hunt->best, out, arena, err));
	bool short_of_it = (sensitive && !out->sensitivity_count) ||
	                   (!request->no_exact && out->choice_count && isnan(choices[0].exact_s));
	if (short_of_it && !*cut_off) *cut_off = lk_cutoff_reached(cutoff);
	return LK_OK;
}

void lk_answer_pareto(lk_plan_count *counts, int count) {
	for (int i = 0; i < count; i++) {
		if (counts[i].choice_count == 0) continue;
		lk_plan_choice *own = (lk_plan_choice *)counts[i].choices;
		own->pareto = true;
		for (int k = 0; k < count; k++) {
			if (k == i || counts[k].choice_count == 0) continue;
			const lk_plan_choice *other = counts[k].choices;
			double hours = own->step_time_s * own->gpus, others = other->step_time_s * other->gpus;
			bool no_worse = other->step_time_s <= own->step_time_s && others <= hours;
			if (no_worse && (other->step_time_s < own->step_time_s || others < hours || k < i))
				own->pareto = false;
		}
	}
}
