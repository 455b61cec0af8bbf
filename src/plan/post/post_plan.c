/* post_plan.c: `lockstep plan --task grpo`: the split of the GPUs between engines and training, the
 * engines' layout, the training's, and how far the engines run ahead. Every step is predicted as
 * `predict` does.
 *
 *   - splits: none (all GPUs do both), and eighths of the GPUs in whole nodes for the engines
 *   - training: the fastest layouts of `plan` for the GPUs that train, on as many rows as the
 *     sequences of an update fill
 *   - engines: powers of two of GPUs each, experts split over them or not, with the fastest of
 *     these layouts: engines that are slower with it are slower with any other
 *   - lag: 0 and 1, and the value of --rollout
 * With --exhaustive all splits in whole nodes, all layouts and all engines are combined. */
#include "cost/calibration/calibration.h"
#include "base/check.h"
#include "lockstep/post_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/clock.h"
#include "system/cutoff.h"
#include "base/text.h"
#include "base/vec.h"
#include "base/sort.h"
#include "options/command.h"
#include "options/rollout_words.h"
#include "predict/predict.h"

enum {
	SPLITS = 64,
	ENGINES = 16,
	LAGS = 3,
	LAYOUTS = 8,      /* training layouts kept per split; slower ones may take new weights sooner */
	EVERY_LAYOUT = 64 /* with --exhaustive */
};
static const double SEARCH_SECONDS = 60;

typedef LK_VEC(lk_post_choice) choices;

/* The search and its results. */
struct post_search {
	lk_post_plan plan;
	lk_arena arena;
	const lk_plan_request *request;
	const char *words; /* text of --rollout as given */
	int gpus, rows, seq, mbs, node;
	int others; /* dedicated GPUs of critic and teacher */
	bool experts, launched;
	int lags[LAGS], lag_count;
	int fixed_gpus, fixed_tp, fixed_ep; /* from --rollout; -1: searched */
	lk_cutoff cutoff;
	choices found;
	lk_calibration_hold calibration;
};

/* An engine: GPUs per layer, and the number over which experts are split. */
struct engine_layout {
	int tp, ep;
};

lk_status lk_post_plan_asked(const lk_plan_request *request, bool *asked, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = LK_OK;
	*asked = lk_predict_posts(&request->job);
	if (!*asked) status = lk_rollout_stated(&arena, &request->job, asked, NULL, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- the question ---- */

static lk_status refuse_idle_options(const lk_plan_request *request, lk_error *err) {
	const char *idle = NULL;
	if (request->aggregate) idle = "--aggregate";
	if (request->tree) idle = "--tree";
	if (request->tokens > 0) idle = "--tokens";
	if (request->hours > 0) idle = "--hours";
	if (request->objective != LK_PLAN_TIME) idle = "--objective";
	if (request->gpu_hours > 0) idle = "--gpu-hours";
	if (request->job.emit) idle = "--emit";
	if (request->job.cluster) idle = "--cluster";
	if (request->team) idle = "lockstep-mpi";
	if (!idle && !(request->gpus && strchr(request->gpus, ','))) return LK_OK;
	if (!idle) {
		lk_fail(err, LK_ERR_INPUT, "--gpus",
		        "several numbers for a step of reinforcement learning");
		return lk_hint(err, "give one number of GPUs; the search divides it");
	}
	lk_post_no_effect(idle, request->job.task, err);
	return lk_hint(err, "leave it out");
}

static lk_status read_search(struct post_search *search, lk_error *err) {
	const lk_plan_request *request = search->request;
	long long gpus = request->job.gpus;
	lk_rollout_words words;
	LK_TRY(refuse_idle_options(request, err));
	if (request->gpus) LK_TRY(lk_parse_whole(request->gpus, 1, LK_JOB_GPUS, &gpus, "--gpus", err));
	search->gpus = (int)gpus;
	search->words = request->job.rollout ? request->job.rollout : "";
	lk_rollout_words_begin(&words);
	words.gpus = words.tp = words.ep = words.lag = -1; /* not given: searched */
	LK_TRY(lk_rollout_words_read(&search->arena, search->words, &words, err));
	search->fixed_gpus = (int)words.gpus;
	search->fixed_tp = (int)words.tp;
	search->fixed_ep = (int)words.ep;
	search->others = (int)(words.critic_gpus + words.teacher_gpus);
	search->launched = lk_request_launched(&request->job);
	int lag = (int)words.lag;
	for (int i = 0; i < 2; i++) search->lags[search->lag_count++] = i;
	if (lag > 1) search->lags[search->lag_count++] = lag;
	return LK_OK;
}

/* ---- requests of predict ---- */

/* The step with a split, engines and a lag. The caller sets the training layout. */
static lk_status step_request(struct post_search *search, int engine_gpus,
                              struct engine_layout engine, int lag, lk_predict_request *out,
                              lk_error *err) {
	*out = search->request->job;
	out->gpus = search->gpus;
	out->no_fixes = true;
	if (!search->launched) out->task = search->request->job.task;
	out->rollout =
		lk_arena_printf(&search->arena, "%s%sgpus=%d tp=%d ep=%d lag=%d", search->words,
	                    *search->words ? " " : "", engine_gpus, engine.tp, engine.ep, lag);
	return out->rollout ? LK_OK : lk_oom(err);
}

/* `launched`: a file may state pipeline chunks and experts that the choice lacks. */
static void take_training(const lk_plan_choice *choice, bool launched, lk_predict_request *out) {
	static const char *const stages[] = {"0", "1", "2", "3"};
	int none = launched ? 1 : 0;
	out->tp = choice->tp, out->pp = choice->pp, out->cp = choice->cp;
	out->vp = choice->vp > 1 ? choice->vp : none;
	out->ep = none;
	out->etp = 0;
	if (choice->ep > 1) {
		out->ep = choice->ep;
		out->etp = choice->etp;
	}
	out->mbs = choice->mbs;
	out->zero = choice->zero >= 0 && choice->zero < 4 ? stages[choice->zero] : NULL;
	out->recompute = choice->recompute;
	out->schedule = choice->pp > 1 || launched ? choice->schedule : NULL;
	out->stack = choice->stack;
	out->offload_optimizer |= choice->offload;
}

/* Measure rows and their length, by predicting a step on all GPUs that does both. */
static lk_status measure_rows(struct post_search *search, lk_error *err) {
	lk_predict_request request = search->request->job;
	lk_prediction *step;
	lk_asked *asked = LK_NEW(&search->arena, lk_asked);
	if (!asked) return lk_oom(err);
	if (search->gpus > 0) request.gpus = search->gpus;
	request.no_fixes = true;
	LK_TRY(lk_predict(&request, &step, err));
	search->gpus = step->gpus;
	search->mbs = step->mbs;
	search->rows = step->microbatches * step->mbs * step->dp, search->seq = step->seq;
	search->plan.model = lk_arena_strdup(&search->arena, step->model);
	search->plan.cluster = lk_arena_strdup(&search->arena, step->cluster);
	search->plan.failed_check = step->failed_check;
	lk_predict_free(step);
	if (!search->plan.model || !search->plan.cluster) return lk_oom(err);
	request.task = search->launched ? NULL : "sft", request.rollout = NULL;
	if (!search->launched && !request.stack) request.stack = LK_STACK_DEFAULT;
	request.gpus = search->gpus;
	LK_TRY(lk_request_take(&search->arena, &request, asked, err));
	search->experts = asked->job.model.experts > 0;
	search->node = asked->cluster.node[0].gpus;
	return LK_OK;
}

/* ---- the space ---- */

static void add_split(struct post_search *search, int *splits, int gpus) {
	bool legal =
		gpus >= 0 && gpus < search->gpus - search->others && search->plan.splits_all < SPLITS;
	for (int i = 0; i < search->plan.splits_all; i++) legal &= splits[i] != gpus;
	if (legal) splits[search->plan.splits_all++] = gpus;
}

/* GPUs of the engines; 0: the training GPUs. Of the real splits the even one comes first. */
static void list_splits(struct post_search *search, int *splits) {
	static const int eighths[] = {4, 2, 6, 1, 3, 5, 7};
	int unit = search->gpus > search->node ? search->node : 1;
	if (search->fixed_gpus >= 0) {
		add_split(search, splits, search->fixed_gpus);
		return;
	}
	add_split(search, splits, 0);
	for (size_t i = 0; i < sizeof eighths / sizeof *eighths; i++) {
		int gpus = search->gpus * eighths[i] / 8 / unit * unit;
		if (gpus > 0) add_split(search, splits, gpus);
	}
	for (int gpus = unit; search->request->exhaustive && gpus < search->gpus; gpus += unit)
		add_split(search, splits, gpus);
}

static int list_engines(const struct post_search *search, int gpus, struct engine_layout *out) {
	int count = 0;
	for (int tp = 1; tp <= gpus && tp <= 4 * search->node; tp *= 2) {
		int split = search->experts && tp > 1 ? 2 : 1;
		if (gpus % tp != 0 || (search->fixed_tp > 0 && tp != search->fixed_tp)) continue;
		for (int i = 0; i < split && count < ENGINES; i++) {
			int ep = i == 0 ? 1 : tp;
			if (search->fixed_ep < 0 || ep == search->fixed_ep)
				out[count++] = (struct engine_layout){tp, ep};
		}
	}
	if (count == 0) {
		int tp = search->fixed_tp > 0 ? search->fixed_tp : 1;
		int ep = search->fixed_ep > 0 ? search->fixed_ep : 1;
		out[count++] = (struct engine_layout){tp, ep};
	}
	return count;
}

/* The largest micro-batch to search; 0: left open. */
static int stated_mbs(const struct post_search *search) {
	int most = search->launched ? search->mbs : 0;
	for (const char *at = search->request->mbs; at && *at; at += strcspn(at, ","), at += *at == ',')
		most = atoi(at) > most ? atoi(at) : most;
	return most;
}

/* A batch near the number of rows that divides among many replicas and, with stated micro-batches,
 * into the groups that pipeline chunks alternate. */
static int batch_of(int rows, int gpus, int mbs) {
	int power = 1, each = gpus * (mbs > 0 ? mbs : 1);
	if (rows >= gpus) return rows >= each ? rows / each * each : each;
	while (power * 2 <= rows) power *= 2;
	return power;
}

/* The fastest layouts of the training GPUs; the caller frees *plan, NULL if none is legal. */
static lk_status plan_training(const struct post_search *search, int gpus, lk_plan **plan,
                               lk_error *err) {
	lk_plan_request training = *search->request;
	char count[16];
	lk_error none = {0};
	snprintf(count, sizeof count, "%d", gpus);
	training.gpus = count;
	training.job.task = search->launched ? NULL : "sft";
	if (!search->launched && !training.stack) training.stack = LK_STACK_DEFAULT;
	training.job.rollout = training.job.lengths = training.job.engine = NULL;
	training.job.kv_dtype = training.job.speculative = NULL;
	training.job.prompt = training.job.response = training.job.response_max = 0;
	training.job.gpu_mem_util = 0;
	training.job.samples = training.job.max_sequences = training.job.max_tokens = 0;
	training.job.prefix_caching = 0;
	training.job.attention_dp = false;
	char rows[16]; /* per micro-batch, which a file may state in sequences */
	snprintf(rows, sizeof rows, "%d", search->mbs);
	if (search->launched && !training.mbs) training.mbs = rows;
	training.job.gbs = batch_of(search->rows, gpus, stated_mbs(search));
	training.job.seq = search->seq;
	training.fixed_switches = training.no_exact = training.no_sensitivity = true;
	training.top = search->request->exhaustive ? EVERY_LAYOUT : LAYOUTS;
	training.progress = NULL;
	training.search_s = lk_cutoff_left_s(&search->cutoff);
	lk_status status = lk_plan_find(&training, plan, &none);
	if (status == LK_ERR_INPUT) *plan = NULL;
	else if (status != LK_OK) lk_fail_as(err, &none);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

/* ---- results ---- */

static double part_of(const lk_prediction *step, const char *keys) {
	double sum = 0;
	for (int i = 0; i < step->breakdown_count; i++)
		if (lk_name_among(keys, step->breakdown[i].key))
			sum += step->breakdown[i].exposed_s + step->breakdown[i].hidden_s;
	return sum;
}

static lk_status keep_choice(struct post_search *search, int engine_gpus,
                             struct engine_layout engine, int lag, const lk_prediction *step,
                             lk_error *err) {
	if (!lk_push(&search->found)) return lk_oom(err);
	lk_post_choice *choice = lk_last(&search->found);
	*choice = (lk_post_choice){
		.gpus = search->gpus,
		.train_gpus = search->gpus - engine_gpus - search->others,
		.engine_gpus = engine_gpus,
		.engine_tp = engine.tp,
		.engine_ep = engine.ep,
		.lag = lag,
		.tp = step->tp,
		.pp = step->pp,
		.cp = step->cp,
		.ep = step->ep,
		.dp = step->dp,
		.mbs = step->mbs,
		.layout = lk_arena_strdup(&search->arena, step->layout),
		.step_time_s = step->step_time_s,
		.step_time_low_s = step->step_time_low_s,
		.step_time_high_s = step->step_time_high_s,
		.generation_s = part_of(step, "generation"),
		.learning_s = part_of(step, "reward values log_probabilities teacher training critic"),
		.moving_s = part_of(step, "refit offload"),
		.train_idle_s = part_of(step, "idle"),
		.peak_bytes = step->peak_bytes,
		.usable_bytes = step->usable_bytes,
		.fits = step->fits,
		.reproduce = lk_arena_strdup(&search->arena, step->reproduce),
	};
	if (engine_gpus > 0) choice->engine_idle_s = fmax(0, step->step_time_s - choice->generation_s);
	if (engine_gpus > 0 && lag == 0) choice->train_idle_s += choice->generation_s;
	return choice->layout && choice->reproduce ? LK_OK : lk_oom(err);
}

/* One candidate of a batch that is predicted on all cores. */
struct candidate {
	struct engine_layout engine;
	int lag;
};

/* Predict the candidates and keep the legal ones. */
static lk_status predict_candidates(struct post_search *search, int engine_gpus,
                                    const struct candidate *candidates,
                                    const lk_plan_choice *const *trainings, size_t count,
                                    lk_error *err) {
	lk_predict_request *requests = LK_ARRAY(&search->arena, lk_predict_request, count);
	lk_prediction **steps = LK_ARRAY(&search->arena, lk_prediction *, count);
	lk_error *refusals = LK_ARRAY(&search->arena, lk_error, count);
	if (!requests || !steps || !refusals) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		LK_TRY(step_request(search, engine_gpus, candidates[i].engine, candidates[i].lag,
		                    &requests[i], err));
		take_training(trainings[i], search->launched, &requests[i]);
	}
	lk_status status = lk_predict_many(requests, count, search->request->threads, steps, refusals,
	                                   NULL, NULL, err);
	search->plan.asked += (int)count;
	for (size_t i = 0; i < count; i++) {
		if (status == LK_OK && steps[i])
			status = keep_choice(search, engine_gpus, candidates[i].engine, candidates[i].lag,
			                     steps[i], err);
		lk_predict_free(steps[i]);
	}
	return status;
}

/* The fastest kept choice from `from` on with this lag; NULL: none. */
static const lk_post_choice *fastest_of(const struct post_search *search, size_t from, int lag) {
	const lk_post_choice *best = NULL;
	for (size_t i = from; i < search->found.count; i++) {
		const lk_post_choice *choice = &search->found.at[i];
		if (choice->lag != lag) continue;
		bool better = !best || choice->fits > best->fits ||
		              (choice->fits == best->fits && choice->step_time_s < best->step_time_s);
		if (better) best = choice;
	}
	return best;
}

/* Engines with the fastest training, then the other trainings with the best engines. */
static lk_status search_layouts(struct post_search *search, int engine_gpus,
                                const lk_plan_count *trainings, lk_error *err) {
	struct engine_layout engines[ENGINES];
	int generating = engine_gpus > 0 ? engine_gpus : search->gpus - search->others;
	int engine_count = list_engines(search, generating, engines);
	int lags = engine_gpus > 0 ? search->lag_count : 1;
	int first = search->request->exhaustive ? trainings->choice_count : 1;
	size_t most = (size_t)(engine_count * lags * first + lags * trainings->choice_count), count = 0,
		   from = search->found.count;
	struct candidate *candidates = LK_ARRAY(&search->arena, struct candidate, most);
	const lk_plan_choice **chosen = LK_ARRAY(&search->arena, const lk_plan_choice *, most);
	if (!candidates || !chosen) return lk_oom(err);
	for (int e = 0; e < engine_count; e++)
		for (int l = 0; l < lags; l++)
			for (int t = 0; t < first; t++) {
				candidates[count] = (struct candidate){engines[e], search->lags[l]};
				chosen[count++] = &trainings->choices[t];
			}
	LK_TRY(predict_candidates(search, engine_gpus, candidates, chosen, count, err));
	count = 0;
	for (int l = 0; l < lags && !search->request->exhaustive; l++) {
		const lk_post_choice *best = fastest_of(search, from, search->lags[l]);
		for (int t = 1; best && t < trainings->choice_count; t++) {
			candidates[count] = (struct candidate){{best->engine_tp, best->engine_ep}, best->lag};
			chosen[count++] = &trainings->choices[t];
		}
	}
	return predict_candidates(search, engine_gpus, candidates, chosen, count, err);
}

static lk_status search_split(struct post_search *search, int engine_gpus, lk_error *err) {
	lk_plan *plan = NULL;
	LK_TRY(plan_training(search, search->gpus - engine_gpus - search->others, &plan, err));
	lk_status status = LK_OK;
	if (plan && plan->count > 0 && plan->counts[0].choice_count > 0)
		status = search_layouts(search, engine_gpus, &plan->counts[0], err);
	lk_plan_free(plan);
	return status;
}

static int faster_first(const void *a, const void *b) {
	const lk_post_choice *x = a, *y = b;
	if (x->fits != y->fits) return y->fits - x->fits;
	if (x->fits) return (x->step_time_s > y->step_time_s) - (x->step_time_s < y->step_time_s);
	return (x->peak_bytes > y->peak_bytes) - (x->peak_bytes < y->peak_bytes);
}

/* Keep the fastest of each split and lag. */
static void keep_some(struct post_search *search) {
	int top = search->request->top > 0 ? search->request->top : 10;
	size_t kept = 0;
	choices *found = &search->found;
	lk_sort(found->at, found->count, sizeof *found->at, faster_first);
	for (size_t i = 0; i < found->count && kept < (size_t)top; i++) {
		bool known = false;
		for (size_t k = 0; k < kept && !search->request->exhaustive; k++)
			known |= found->at[k].engine_gpus == found->at[i].engine_gpus &&
			         found->at[k].lag == found->at[i].lag;
		if (known) continue;
		found->at[kept++] = found->at[i];
	}
	search->plan.choices = found->at;
	search->plan.count = (int)kept;
}

static lk_status post_plan_answer(struct post_search *search, lk_error *err) {
	const double start = lk_clock_s();
	int splits[SPLITS] = {0};
	LK_TRY(read_search(search, err));
	LK_TRY(measure_rows(search, err));
	list_splits(search, splits);
	for (int i = 0; i < search->plan.splits_all; i++) {
		if (i > 0 && (search->plan.cut_off = lk_cutoff_reached(&search->cutoff))) break;
		LK_TRY(search_split(search, splits[i], err));
		search->plan.splits++;
		if (search->request->progress)
			search->request->progress(search->request->progress_context, 0, i + 1,
			                          search->plan.splits_all);
	}
	keep_some(search);
	search->plan.reproduce =
		lk_command(&search->arena, &(lk_question){.verb = &lk_plan_verb,
	                                              .request = search->request,
	                                              .rest = search->request->job.launch,
	                                              .rest_count = search->request->job.launch_count});
	search->plan.seconds = lk_clock_s() - start;
	return search->plan.reproduce ? LK_OK : lk_oom(err);
}

/* ---- checks of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep. Choices that fit come first, fastest
 * first. */

static const char *post_plan_check(const lk_post_plan *plan) {
	LK_HOLDS_ALL(plan->failed_check); /* of an underlying prediction */
	LK_HOLDS(plan->splits <= plan->splits_all && plan->count <= plan->asked);
	for (int i = 0; i < plan->count; i++) {
		const lk_post_choice *choice = &plan->choices[i];
		double step = choice->step_time_s;
		LK_HOLDS(isfinite(step) && step > 0);
		LK_HOLDS(choice->step_time_low_s > 0 && choice->step_time_low_s <= step);
		LK_HOLDS(choice->step_time_high_s >= step && isfinite(choice->step_time_high_s));
		LK_HOLDS(choice->generation_s >= 0 && choice->learning_s >= 0);
		LK_HOLDS(choice->moving_s >= 0 && choice->train_idle_s >= 0);
		LK_HOLDS(choice->engine_idle_s >= 0);
		LK_HOLDS(choice->fits == (choice->peak_bytes <= choice->usable_bytes));
		LK_HOLDS(choice->train_gpus + choice->engine_gpus <= choice->gpus);
		if (i == 0) continue;
		LK_HOLDS(choice[-1].fits || !choice->fits);
		LK_HOLDS(!choice->fits || step >= choice[-1].step_time_s);
	}
	return NULL;
}

lk_status lk_post_plan_find(const lk_plan_request *request, lk_post_plan **out, lk_error *err) {
	*out = NULL;
	struct post_search *search = calloc(1, sizeof *search);
	if (!search) return lk_oom(err);
	search->request = request;
	search->cutoff = lk_cutoff_after(request->search_s > 0 ? request->search_s : SEARCH_SECONDS);
	search->plan.memory_owner = search;
	lk_status status = lk_calibration_begin(&search->calibration, request->job.calibration, err);
	if (status == LK_OK) {
		status = post_plan_answer(search, err);
		lk_calibration_leave(&search->calibration);
	}
	if (status == LK_OK)
		search->plan.failed_check = lk_failed_check(post_plan_check(&search->plan));
	if (status == LK_OK) *out = &search->plan;
	else lk_post_plan_free(&search->plan);
	return status;
}

void lk_post_plan_free(lk_post_plan *plan) {
	if (!plan) return;
	struct post_search *search = plan->memory_owner;
	lk_vec_free(&search->found);
	lk_calibration_release(&search->calibration);
	lk_arena_free(&search->arena);
	free(search);
}
