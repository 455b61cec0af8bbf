/* layout_plan.c: `lockstep plan`: one search per number of GPUs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/arena.h"
#include "system/clock.h"
#include "options/command.h"
#include "step/step.h"
#include "system/parallel.h"
#include "base/text.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"
#include "model/layout/job.h"
#include "launch/emit/emit.h"
#include "plan/plan.h"
#include "step/energy.h"

enum { MOST_COUNTS = 64 };

/* Everything that a plan owns. */
struct work {
	lk_plan plan;
	lk_arena arena;
	lk_asked asked[MOST_COUNTS];
	lk_plan_count counts[MOST_COUNTS];
	int gpus[MOST_COUNTS], count, most_gpus;
	lk_sites sites;
	lk_plan_sync syncs[4];
	struct lk_hierarchy_asked *tree; /* NULL: none */
	lk_calibration_hold calibration;
};

/* ---- the request ---- */

static lk_status read_counts(const lk_plan_request *request, struct work *work, lk_error *err) {
	const char *at = request->gpus;
	if (!at) {
		work->gpus[work->count++] = request->job.gpus;
		return LK_OK;
	}
	while (at) {
		char item[32];
		long long value;
		size_t length = strcspn(at, ",");
		lk_copy(item, length + 1 < sizeof item ? length + 1 : sizeof item, at);
		at = at[length] ? at + length + 1 : NULL;
		LK_TRY(lk_parse_whole(item, 1, LK_JOB_GPUS, &value, "--gpus", err));
		if (work->count == MOST_COUNTS)
			return lk_fail(err, LK_ERR_INPUT, "--gpus", "more than %d numbers", MOST_COUNTS);
		bool known = false;
		for (int i = 0; i < work->count; i++) known |= work->gpus[i] == (int)value;
		if (!known) work->gpus[work->count++] = (int)value;
	}
	return LK_OK;
}

/* The first option of generation, which lk_post_plan_find handles. */
static const char *option_of_generation(const lk_plan_request *request) {
	const lk_predict_request *job = &request->job;
	if (job->response > 0) return "--response";
	if (job->response_max > 0) return "--response-max";
	if (job->prompt > 0) return "--prompt";
	if (job->lengths) return "--lengths";
	if (job->engine) return "--engine";
	if (job->rollout) return "--rollout";
	if (job->samples > 0) return "--samples";
	return job->gpu_mem_util > 0 ? "--gpu-mem-util" : NULL;
}

static lk_status plan_check_request(const lk_plan_request *request, const lk_asked *asked,
                                    lk_error *err) {
	if (asked->job.gbs <= 0) {
		lk_fail(err, LK_ERR_INPUT, "--gbs", "the global batch was not given");
		return lk_hint(err, "give --gbs N: layouts are compared on the same batch");
	}
	if ((request->hours > 0 || request->gpu_hours > 0) && request->tokens <= 0) {
		lk_fail(err, LK_ERR_INPUT, request->hours > 0 ? "--hours" : "--gpu-hours",
		        "a budget needs the length of the training");
		return lk_hint(err, "add --tokens N");
	}
	if (request->objective == LK_PLAN_ENERGY && !(lk_energy_board_w(&asked->cluster) > 0)) {
		lk_fail(err, LK_ERR_INPUT, "--objective", "the power of a GPU's board is not known");
		return lk_hint(err, "give it: --power W");
	}
	const char *idle = option_of_generation(request);
	if (idle) {
		lk_fail(err, LK_ERR_INPUT, idle, "it has no effect: nothing is generated");
		return lk_hint(err, "use --task grpo, dapo, ppo or distill, or leave it out");
	}
	if (request->etp) idle = "--etp";
	else if (request->ep && strcmp(request->ep, "1") != 0) idle = "--ep";
	if (asked->job.model.experts == 0 && idle) {
		lk_fail(err, LK_ERR_INPUT, idle, "it has no effect: the model has no experts");
		return lk_hint(err, "leave it out");
	}
	return lk_job_check_device(&asked->job, &asked->cluster, err);
}

/* The fault of the first layout of a space; empty: none. */
static lk_status first_fault(const lk_space *space, lk_error *why, lk_error *err) {
	lk_cores_list cores = {0};
	lk_job job;
	lk_status status = lk_space_cores(space, &cores, err);
	*why = (lk_error){0};
	if (status == LK_OK && cores.count && lk_space_job(space, &cores.at[0], &job, why) == LK_OK)
		*why = (lk_error){0};
	lk_vec_free(&cores);
	return status;
}

/* Explain a number of GPUs without any layout: which batches would work, or the fault of the first
 * layout. */
static lk_status explain_none(const lk_space *space, lk_plan_count *count, lk_arena *arena,
                              lk_error *err) {
	int64_t most = 0, smallest = INT64_MAX; /* of tp * pp * cp: the largest that divides the GPUs */
	for (int t = 0; t < space->tp.count; t++)
		for (int p = 0; p < space->pp.count; p++)
			for (int c = 0; c < space->cp.count; c++) {
				int64_t block = (int64_t)space->tp.at[t] * space->pp.at[p] * space->cp.at[c];
				if (block < smallest) smallest = block;
				if (space->gpus % block == 0 && block > most) most = block;
			}
	int64_t replicas = most ? space->gpus / most : 1,
			least = replicas * (space->mbs.count ? space->mbs.at[0] : 1);
	char near[LK_JOB_NEAR];
	const char *text = NULL, *gpus = lk_noun(space->gpus, "GPU", "GPUs");
	lk_error why = {0};
	char said[400];
	if (most == 0) {
		text = lk_arena_printf(arena,
		                       "no layout of %d %s: no value of tp * pp * cp that is searched "
		                       "(--tp, --pp, --cp) divides that number; nearest --gpus: %s",
		                       space->gpus, gpus, lk_near_multiples(near, space->gpus, smallest));
	} else if (space->base.gbs % least != 0) {
		text = lk_arena_printf(arena,
		                       "no layout of %d %s: none divides a global batch of %d evenly among "
		                       "its replicas; with the fewest replicas (dp %lld), nearest "
		                       "--gbs: %s",
		                       space->gpus, gpus, space->base.gbs, (long long)replicas,
		                       lk_near_multiples(near, space->base.gbs, least));
	} else {
		LK_TRY(first_fault(space, &why, err));
		text = lk_arena_printf(arena,
		                       "no layout of %d %s among the values that are searched is legal%s%s",
		                       space->gpus, gpus, *why.what ? "; of the first: " : "",
		                       *why.what ? lk_error_text(&why, said, sizeof said) : "");
	}
	count->gpus = space->gpus;
	count->nothing = text;
	return text ? LK_OK : lk_oom(err);
}

/* ---- searches ---- */

/* The longest step with which the training meets its limits of hours and GPU-hours; infinite: no
 * limit. */
static lk_status longest_step(const lk_plan_request *request, const lk_space *space, double *out,
                              lk_error *err) {
	double hours = request->hours > 0 ? request->hours : INFINITY;
	lk_cores_list cores = {0};
	lk_job job;
	*out = INFINITY;
	if (request->gpu_hours > 0) hours = fmin(hours, request->gpu_hours / space->gpus);
	if (isinf(hours)) return LK_OK;
	lk_status status = lk_space_cores(space, &cores, err);
	for (size_t i = 0; status == LK_OK && i < cores.count && isinf(*out); i++)
		if (lk_space_job(space, &cores.at[i], &job, NULL) == LK_OK) {
			int tokens = lk_job_tokens(&job);
			double per_step = (double)job.gbs * (tokens ? tokens : 1);
			*out = hours * 3600 * per_step / request->tokens;
		}
	lk_vec_free(&cores);
	return status;
}

/* A search gets an equal share of the time left to it and the later ones. */
static lk_cutoff plan_cutoff(const lk_cutoff *all, int searches) {
	return lk_cutoff_after(lk_cutoff_left_s(all) / searches);
}

static lk_status plan_search(const lk_plan_request *request, struct work *work, int i,
                             const lk_cutoff *all, lk_error *err) {
	const lk_cutoff cutoff = plan_cutoff(all, work->count - i);
	lk_space space;
	lk_hunt hunt;
	LK_TRY(lk_space_read(request, &work->asked[i], &space, err));
	if (space.gpus > work->most_gpus)
		LK_TRY(lk_space_unsearched(request, &space, &work->arena, &work->plan.not_searched,
		                           &work->plan.not_searched_count, err));
	if (space.gpus > work->most_gpus) work->most_gpus = space.gpus;
	double longest_s; /* so that bounds can drop layouts that exceed the hours */
	LK_TRY(longest_step(request, &space, &longest_s, err));
	space.slowest_s = fmin(space.slowest_s, longest_s);
	LK_TRY(lk_hunt_run(request, &space, &cutoff, &work->arena, &hunt, err));
	if (hunt.cut_off) work->plan.cut_off = hunt.cut_off;
	if (hunt.layouts == 0) return explain_none(&space, &work->counts[i], &work->arena, err);
	return lk_answer_count(request, &work->asked[i], &space, &cutoff, &hunt, &work->arena,
	                       &work->counts[i], &work->plan.cut_off, err);
}

static lk_status plan_describe(const lk_plan_request *request, struct work *work, lk_error *err) {
	const lk_asked *first = &work->asked[0];
	char size[32];
	lk_plan *plan = &work->plan;
	plan->model =
		lk_arena_printf(&work->arena, "%s, %s parameters",
	                    first->job.model.name[0] ? first->job.model.name : "network",
	                    lk_format_count(lk_model_params(&first->job.model), size, sizeof size));
	plan->cluster =
		lk_arena_strdup(&work->arena, request->job.cluster ? first->cluster.text
	                                                       : first->cluster.node[0].device->label);
	if (!plan->model || !plan->cluster) return lk_oom(err);
	plan->gbs = first->job.gbs;
	plan->seq = lk_job_tokens(&first->job);
	plan->unit = lk_model_unit(&first->job.model);
	plan->tokens = request->tokens;
	plan->objective = request->objective;
	plan->mains = request->job.mains;
	plan->threads = request->threads > 0 ? request->threads : lk_threads();
	return LK_OK;
}

static bool is_better(int objective, const lk_plan_choice *one, const lk_plan_choice *other) {
	if (objective == LK_PLAN_ENERGY) return one->energy.step_kwh < other->energy.step_kwh;
	return one->step_time_s < other->step_time_s;
}

static void plan_choose(struct work *work) {
	lk_plan *plan = &work->plan;
	plan->counts = work->counts;
	plan->count = work->count;
	plan->best = -1;
	lk_answer_pareto(work->counts, work->count);
	for (int i = 0; i < work->count; i++) {
		if (work->counts[i].choice_count == 0) continue;
		const lk_plan_choice *best = plan->best >= 0 ? work->counts[plan->best].choices : NULL;
		if (!best || is_better(plan->objective, work->counts[i].choices, best)) plan->best = i;
		/* If not given, the network's own. */
		plan->seq = lk_job_tokens(work->counts[i].choices->job);
	}
}

/* Note the assumptions of the first choice, as predict would; without a choice, those of the
 * request. */
static lk_status plan_note(const lk_plan_request *request, struct work *work, lk_error *err) {
	lk_plan *plan = &work->plan;
	lk_asked asked = work->asked[plan->best >= 0 ? plan->best : 0];
	LK_TRY(lk_note_warning(&work->arena, &asked, &plan->warning, err));
	if (plan->best < 0) return LK_OK;
	const lk_plan_choice *best = plan->counts[plan->best].choices;
	asked.job = *(const lk_job *)best->job;
	lk_predict_request said = request->job;
	said.mbs = best->mbs; /* the choice itself states these two */
	said.zero = "";
	plan->taken_count = lk_note_taken(&asked);
	return lk_note_assumptions(&work->arena, &said, &asked, NULL, &plan->notes, &plan->note_count,
	                           err);
}

static lk_status plan_check_sites(const lk_plan_request *request, struct work *work,
                                  lk_error *err) {
	const char *option = request->tree ? "--tree" : "--aggregate";
	if (!request->aggregate && !request->tree) return LK_OK;
	if (request->job.task) {
		lk_fail(err, LK_ERR_INPUT, "--task", "with %s sites exchange whole weights", option);
		return lk_hint(err, "leave --task or %s out", option);
	}
	if (request->job.emit) {
		lk_fail(err, LK_ERR_INPUT, "--emit", "no target launches several sites");
		return lk_hint(err, "leave --emit or %s out", option);
	}
	if (request->tree) return lk_hierarchy_take(request, &work->arena, &work->tree, err);
	return lk_sites_read(request->aggregate, &work->sites, err);
}

/* Join sites that each train with the best choice. */
static lk_status plan_join_sites(const lk_plan_request *request, struct work *work,
                                 const lk_cutoff *cutoff, lk_error *err) {
	static const int precisions[] = {32, 16, 8, 4};
	lk_plan *plan = &work->plan;
	if ((!request->aggregate && !request->tree) || plan->best < 0) return LK_OK;
	const lk_plan_choice *best = plan->counts[plan->best].choices;
	const lk_sites *sites = &work->sites;
	double parameters = lk_model_params(&((const lk_job *)best->job)->model);
	double tokens_of_sample = plan->seq ? (double)plan->seq : 1;
	double batch = plan->gbs * tokens_of_sample;
	if (work->tree) {
		const lk_hierarchy_training training = {parameters, best->step_time_s, plan->gbs,
		                                        tokens_of_sample, request->tokens};
		return lk_hierarchy_answer(work->tree, &training, cutoff, &work->arena, &plan->tree,
		                           &plan->cut_off, err);
	}
	for (int i = 0; i < 4; i++) {
		if (sites->bits > 0 && sites->bits != precisions[i]) continue;
		lk_plan_sync *sync = &work->syncs[plan->sync_count++];
		*sync = lk_sites_sync(sites, precisions[i], parameters, best->step_time_s);
		sync->tokens_per_s = sites->sites * batch / best->step_time_s * sync->utilisation;
	}
	plan->syncs = work->syncs;
	return LK_OK;
}

/* The least common multiple of the odd parts of all numbers of GPUs: one batch for all, so that
 * their times can be compared; 0: none of reasonable size. */
static int plan_common_gpus(const struct work *work) {
	int64_t common = 1;
	for (int i = 0; i < work->count; i++) {
		int64_t odd = lk_asked_gpus(&work->asked[i]), a = common, b;
		while (odd > 0 && odd % 2 == 0) odd /= 2;
		for (b = odd; b > 0;) {
			int64_t rest = a % b;
			a = b;
			b = rest;
		}
		common *= odd / a;
		if (common <= 0 || common > LK_JOB_GPUS) return 0;
	}
	return (int)common;
}

/* A file that states micro-batch and accumulation states the batch of its own layout. */
static void plan_take_own_batch(lk_asked *asked) {
	lk_job own = asked->job;
	if (own.gbs > 0 || own.microbatches <= 0) return;
	if (lk_job_complete(&own, &asked->cluster, NULL) != LK_OK) return;
	asked->job.gbs = own.gbs;
	asked->job.microbatches = 0;
}

static lk_status plan_take_batches(const lk_plan_request *request, struct work *work,
                                   lk_error *err) {
	int common = plan_common_gpus(work);
	for (int i = 0; i < work->count; i++) {
		lk_predict_request one = request->job;
		if (work->gpus[i] > 0) one.gpus = work->gpus[i];
		LK_TRY(lk_request_fill_batch(&work->arena, &one, common, &work->asked[i], err));
		if (work->count == 1) plan_take_own_batch(&work->asked[i]);
		LK_TRY(plan_check_request(request, &work->asked[i], err));
	}
	return LK_OK;
}

static lk_status layout_plan_answer(const lk_plan_request *request, struct work *work,
                                    lk_error *err) {
	const double start = lk_clock_s();
	const lk_cutoff cutoff = lk_cutoff_after(request->search_s);
	LK_TRY(plan_check_sites(request, work, err));
	LK_TRY(read_counts(request, work, err));
	for (int i = 0; i < work->count; i++) {
		lk_predict_request one = request->job;
		if (work->gpus[i] > 0) one.gpus = work->gpus[i];
		LK_TRY(lk_request_take(&work->arena, &one, &work->asked[i], err));
		LK_TRY(lk_request_check_network(&one, &work->asked[i].job, err));
	}
	LK_TRY(plan_take_batches(request, work, err));
	LK_TRY(plan_describe(request, work, err));
	for (int i = 0; i < work->count; i++) LK_TRY(plan_search(request, work, i, &cutoff, err));
	plan_choose(work);
	LK_TRY(plan_join_sites(request, work, &cutoff, err));
	LK_TRY(plan_note(request, work, err));
	work->plan.seconds = lk_clock_s() - start;
	return LK_OK;
}

static const char *plan_reproduce(lk_arena *arena, const lk_plan_request *request) {
	static const char *const but[] = {"threads", "emit", NULL};
	return lk_command(arena, &(lk_question){.verb = &lk_plan_verb,
	                                        .request = request,
	                                        .but = but,
	                                        .rest = request->job.launch,
	                                        .rest_count = request->job.launch_count});
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static const char *plan_check_choice(const lk_plan_choice *choice) {
	double step = choice->step_time_s, sum = 0;
	LK_HOLDS(isfinite(step) && step > 0);
	LK_HOLDS(choice->step_time_low_s > 0 && choice->step_time_low_s <= step);
	LK_HOLDS(choice->step_time_high_s >= step && isfinite(choice->step_time_high_s));
	LK_HOLDS(choice->peak_bytes > 0 && choice->peak_bytes <= choice->usable_bytes);
	LK_HOLDS(isfinite(choice->mfu) && choice->mfu >= 0);
	LK_HOLDS(isnan(choice->exact_s) || (isfinite(choice->exact_s) && choice->exact_s > 0));
	LK_HOLDS(choice->tp * choice->pp * choice->cp * choice->dp == choice->gpus);
	LK_HOLDS(isfinite(choice->days) && choice->days >= 0 && choice->gpu_hours >= 0);
	for (int i = 0; i < choice->breakdown_count; i++) sum += choice->breakdown[i].exposed_s;
	LK_HOLDS(choice->breakdown_count == 0 || fabs(sum - step) <= 1e-6 * step);
	return NULL;
}

/* Indices that views follow. */
static lk_status plan_check_places(const lk_plan *plan, lk_error *err) {
	LK_CHECK(plan->best < plan->count, err);
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->counts[i].sensitivity_count; k++) {
			int best = plan->counts[i].sensitivity[k].best;
			LK_CHECK(best >= 0 && best < plan->counts[i].choice_count, err);
		}
	return LK_OK;
}

static const char *plan_check(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++) {
		const lk_plan_count *count = &plan->counts[i];
		LK_HOLDS(count->choice_count > 0 || count->nothing || plan->cut_off);
		LK_HOLDS(count->bounded <= count->layouts && count->too_large <= count->bounded);
		LK_HOLDS(count->too_slow <= count->bounded);
		for (int k = 0; k < count->sensitivity_count; k++) {
			const lk_plan_sensitivity *other = &count->sensitivity[k];
			LK_HOLDS(isfinite(other->step_time_s) && other->step_time_s > 0);
		}
		const lk_plan_choice *first = count->choices;
		for (int k = 0; k < count->choice_count; k++) {
			const lk_plan_choice *choice = &count->choices[k];
			LK_HOLDS_ALL(plan_check_choice(choice));
			LK_HOLDS(choice->gpus == count->gpus);
			/* choices that may run out of memory come last */
			LK_HOLDS(plan->objective != LK_PLAN_TIME || (choice->tight && !first->tight) ||
			         choice->step_time_s >= first->step_time_s);
		}
	}
	for (int i = 0; i < plan->sync_count; i++) {
		const lk_plan_sync *sync = &plan->syncs[i];
		LK_HOLDS(isfinite(sync->sync_s) && sync->sync_s >= 0 && sync->stall_s >= 0);
		LK_HOLDS(sync->utilisation >= 0 && sync->utilisation <= 1 + 1e-9);
	}
	return NULL;
}

lk_status lk_plan_find(const lk_plan_request *request, lk_plan **out, lk_error *err) {
	*out = NULL;
	if (request->job.emit) LK_TRY(lk_emit_known(request->job.emit, err));
	struct work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->plan.memory_owner = work;
	lk_status status = lk_calibration_begin(&work->calibration, request->job.calibration, err);
	if (status == LK_OK) {
		status = layout_plan_answer(request, work, err);
		lk_calibration_leave(&work->calibration);
	}
	if (status == LK_OK)
		status =
			lk_inputs_find(&work->arena, &lk_plan_verb, request, NULL, 0, &work->plan.inputs, err);
	if (status == LK_OK && !(work->plan.reproduce = plan_reproduce(&work->arena, request)))
		status = lk_oom(err);
	if (status == LK_OK) status = plan_check_places(&work->plan, err);
	if (status == LK_OK) work->plan.failed_check = lk_failed_check(plan_check(&work->plan));
	if (status == LK_OK) *out = &work->plan;
	else lk_plan_free(&work->plan);
	return status;
}

void lk_plan_free(lk_plan *plan) {
	if (!plan) return;
	struct work *work = plan->memory_owner;
	lk_calibration_release(&work->calibration);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- launch lines of a choice ---- */

lk_status lk_plan_launch(const lk_plan *plan, const lk_plan_choice *choice, const char *target,
                         lk_emitted *out, lk_error *err) {
	struct work *work = plan->memory_owner;
	const lk_cluster *cluster = NULL;
	for (int i = 0; i < work->count; i++)
		if (work->gpus[i] == choice->gpus || work->count == 1) cluster = &work->asked[i].cluster;
	return lk_step_emit(&work->arena, target, work->asked[0].source, choice->job, cluster, out,
	                    err);
}
