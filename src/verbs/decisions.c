/* decisions.c: verbs that search: layouts, machines, placements, divisions of a cluster. */
#include "verbs/verbs_internal.h"

#include "lockstep/jobs.h"
#include "lockstep/post_plan.h"
#include "lockstep/rent.h"
#include "lockstep/shard.h"

/* ---- plan ---- */

ROW_FUNCTIONS(plan, lk_plan, lk_plan_find)
ROW_PRINT(plan, verbose)
ROW_REPORT(plan)

static lk_status plan_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	lk_plan_request *r = request;
	LK_TRY(lk_verb_take_job(input, &r->job.config, &r->job.model, err));
	r->job.launch = input->launch;
	r->job.launch_count = input->launch_count;
	r->team = input->team;
	if (input->threads) r->threads = input->threads;
	r->progress = input->progress;
	r->progress_context = input->progress_context;
	return LK_OK;
}

static lk_status plan_row_emit(const void *request, const void *answer, lk_emitted *emitted,
                               lk_error *err) {
	const char *target = ((const lk_plan_request *)request)->job.emit;
	const lk_plan *plan = answer;
	if (!target || plan->best < 0) return LK_OK;
	return lk_plan_launch(plan, plan->counts[plan->best].choices, target, emitted, err);
}

/* A layout was found and, of a tree of sites, a way to aggregate within what is asked. */
static bool plan_row_yes(const void *answer) {
	const lk_plan *plan = answer;
	return plan->best >= 0 && (!plan->tree || plan->tree->keeps);
}

static double per_second(double count, double seconds) {
	return seconds > 0 ? count / seconds : 0;
}

static void plan_row_times(const void *answer, FILE *out) {
	const lk_plan *plan = answer;
	for (int i = 0; i < plan->count; i++) {
		const lk_plan_count *count = &plan->counts[i];
		if (count->layouts == 0) continue;
		double tried = (double)(count->simulated + count->cut_short + count->found_too_large);
		fprintf(out,
		        "lockstep: %d GPUs: %.0f layouts bounded, %.0f schedules evaluated and %.0f "
		        "layouts simulated, cut short or found too large, per second and core; %.0f of "
		        "%.0f simulated to the end\n",
		        count->gpus, per_second((double)count->bounded, count->bound_s),
		        per_second((double)count->schedules_walked, count->schedule_s),
		        per_second(tried, count->simulate_s), (double)count->simulated, tried);
	}
	fprintf(out, "lockstep: %.2f s with %d threads\n", plan->seconds, plan->threads);
}

static lk_status plan_row_instead(const void *request, const lk_verb_row **row, lk_error *err) {
	bool post = false;
	LK_TRY(lk_post_plan_asked(request, &post, err));
	if (post) *row = &lk_row_post_plan;
	return LK_OK;
}

const lk_verb_row lk_row_plan = {
	ROW_MEMBERS(plan, lk_plan), .instead = plan_row_instead, .report = plan_row_report,
	.emit = plan_row_emit,      .yes = plan_row_yes,         .times = plan_row_times,
	.searches = "layouts",
};

/* ---- plan, of a step of post-training ---- */

ROW_ASK(post_plan, lk_post_plan, lk_post_plan_find)
ROW_FREE(post_plan)
ROW_PRINT(post_plan, verbose)
ROW_REPORT(post_plan)

static bool post_plan_row_yes(const void *answer) {
	const lk_post_plan *plan = answer;
	return plan->count > 0 && plan->choices[0].fits;
}

static void post_plan_row_times(const void *answer, FILE *out) {
	fprintf(out, "lockstep: %.2f s\n", ((const lk_post_plan *)answer)->seconds);
}

const lk_verb_row lk_row_post_plan = {
	.verb = &lk_plan_verb,
	.defaults = plan_row_defaults,
	.fill = plan_row_fill,
	.ask = post_plan_row_ask,
	.free = post_plan_row_free,
	.print = post_plan_row_print,
	.report = post_plan_row_report,
	.yes = post_plan_row_yes,
	.times = post_plan_row_times,
	.failed_check = ROW_PLACE(lk_post_plan, failed_check),
	.searches = "splits of the GPUs",
};

/* ---- rent ---- */

ROW_FUNCTIONS(rent, lk_rent, lk_rent_find)
ROW_PRINT(rent, verbose)
ROW_REPORT(rent)

static lk_status rent_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	lk_rent_request *r = request;
	r->progress = input->progress;
	r->progress_context = input->progress_context;
	return lk_verb_take_job(input, NULL, &r->job.model, err);
}

static bool rent_row_yes(const void *answer) {
	return !((const lk_rent *)answer)->nothing;
}

/* Functions have no machines to draw. */
static const char *rent_row_unpictured(const void *request) {
	return ((const lk_rent_request *)request)->map ? "--map" : NULL;
}

const lk_verb_row lk_row_rent = {
	ROW_MEMBERS(rent, lk_rent),        .report = rent_row_report,          .yes = rent_row_yes,
	.unpictured = rent_row_unpictured, .searches = "machines and batches",
};

/* ---- shard ---- */

ROW_FUNCTIONS(shard, lk_shard_answer, lk_shard)
ROW_REPORT(shard)

static lk_status shard_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_shard_request *r = request;
	r->tables = first_operand(input);
	r->progress = input->progress;
	r->progress_context = input->progress_context;
	return LK_OK;
}

static lk_status shard_row_print(const void *answer, const lk_outputs *outputs, bool colour,
                                 FILE *out, lk_error *err) {
	return lk_shard_print(answer, outputs->table, outputs->format, colour, outputs->path, out, err);
}

static lk_status shard_row_files(const void *request, const void *answer, const lk_outputs *outputs,
                                 lk_error *err) {
	(void)outputs;
	const char *plan = ((const lk_shard_request *)request)->plan;
	bool fits = ((const lk_shard_answer *)answer)->fits;
	return plan && fits ? lk_shard_write_plan(answer, plan, err) : LK_OK;
}

static bool shard_row_yes(const void *answer) {
	return ((const lk_shard_answer *)answer)->fits;
}

static void shard_row_times(const void *answer, FILE *out) {
	const lk_shard_answer *shard = answer;
	for (int i = 0; i < shard->tried_count; i++)
		fprintf(out, "lockstep: %s: %.3f s\n", shard->tried[i].name, shard->tried[i].seconds);
}

const lk_verb_row lk_row_shard = {
	ROW_MEMBERS(shard, lk_shard_answer),
	.files = shard_row_files,
	.report = shard_row_report,
	.yes = shard_row_yes,
	.paths = {ROW_PLACE(lk_shard_request, plan), ROW_PLACE(lk_shard_request, graph)},
	.times = shard_row_times,
	.searches = "placements",
};

/* ---- jobs ---- */

ROW_FUNCTIONS(jobs, lk_jobs_answer, lk_jobs)
ROW_PRINT(jobs, verbose)

static lk_status jobs_row_fill(void *request, const lk_verb_input *input, lk_error *err) {
	(void)err;
	lk_jobs_request *r = request;
	r->jobs = first_operand(input);
	r->progress = input->progress;
	r->progress_context = input->progress_context;
	return LK_OK;
}

const lk_verb_row lk_row_jobs = {
	ROW_MEMBERS(jobs, lk_jobs_answer),
	.paths = {ROW_PLACE(lk_jobs_request, write)},
	.searches = "jobs under all policies",
};
