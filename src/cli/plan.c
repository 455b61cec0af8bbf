/* plan.c: `lockstep plan`: the search for a layout. */
#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/cli.h"
#include "lockstep/plan.h"
#include "lockstep/post_plan.h"
#include "lockstep/report.h"
#include "lockstep/view.h"

static int plan_none(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++)
		if (plan->counts[i].nothing) fprintf(stderr, "lockstep: %s\n", plan->counts[i].nothing);
	return CLI_NO;
}

static int plan_emit(const lk_plan *plan, const lk_plan_request *request, const char *path) {
	lk_error err = {0};
	lk_emitted emitted;
	if (plan->best < 0) return plan_none(plan);
	lk_status status =
		lk_plan_launch(plan, plan->counts[plan->best].choices, request->job.emit, &emitted, &err);
	if (status == LK_OK) status = cli_write_emitted(&emitted, path, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

static double rate(double count, double seconds) {
	return seconds > 0 ? count / seconds : 0;
}

/* Times differ from run to run: they stand on standard error. */
static void show_speed(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++) {
		const lk_plan_count *count = &plan->counts[i];
		if (count->layouts == 0) continue;
		double tried = (double)(count->simulated + count->cut_short + count->found_too_large);
		fprintf(
			stderr,
			"lockstep: %d GPUs: %.0f layouts bounded, %.0f schedules evaluated and %.0f layouts "
			"simulated, cut short or found too large, per "
			"second and core; %.0f of %.0f simulated to the end\n",
			count->gpus, rate((double)count->bounded, count->bound_s),
			rate((double)count->schedules_walked, count->schedule_s),
			rate(tried, count->simulate_s), (double)count->simulated, tried);
	}
	fprintf(stderr, "lockstep: %.2f s with %d threads\n", plan->seconds, plan->threads);
}

static int plan_answer(const lk_plan *plan, const lk_plan_request *request,
                       const lk_outputs *outputs) {
	lk_error err = {0};
	if (outputs->html && lk_report_plan(plan, LK_REPORT_HTML, outputs->html, NULL, &err) != LK_OK)
		return cli_fail(&err);
	if (outputs->charts &&
	    lk_report_plan(plan, LK_REPORT_CHARTS, outputs->charts, NULL, &err) != LK_OK)
		return cli_fail(&err);
	if (request->job.emit) return plan_emit(plan, request, outputs->path);
	if (lk_plan_print(plan, outputs->format, outputs->verbose, cli_colour(), outputs->path, stdout,
	                  &err) != LK_OK)
		return cli_fail(&err);
	if (outputs->verbose) show_speed(plan);
	return plan->best >= 0 && (!plan->tree || plan->tree->keeps) ? CLI_OK : CLI_NO;
}

/* A search asks for the same few megabytes for each layout: they are not given back to the system
 * in between. */
static void keep_memory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/* A step of reinforcement learning: its GPUs are divided. */
static int plan_post(const lk_plan_request *asked, const lk_outputs *outputs, bool speaks) {
	lk_error err = {0};
	cli_search search;
	lk_post_plan *plan = NULL;
	lk_plan_request request = *asked;
	request.progress = cli_search_show;
	request.progress_context = &search;
	cli_search_begin(&search, "splits of the GPUs");
	lk_status status = lk_post_plan_find(&request, &plan, &err);
	cli_search_end(&search);
	if (status != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	status = lk_post_plan_print(plan, outputs->format, outputs->verbose, cli_colour(),
	                            outputs->path, stdout, &err);
	if (status == LK_OK && outputs->html)
		status = lk_report_post_plan(plan, LK_REPORT_HTML, outputs->html, NULL, &err);
	if (status == LK_OK && outputs->charts)
		status = lk_report_post_plan(plan, LK_REPORT_CHARTS, outputs->charts, NULL, &err);
	bool fits = plan->count > 0 && plan->choices[0].fits;
	if (outputs->verbose) fprintf(stderr, "lockstep: %.2f s\n", plan->seconds);
	cli_warn_failed(plan->failed_check);
	lk_post_plan_free(plan);
	if (status != LK_OK) return cli_fail(&err);
	return fits ? CLI_OK : CLI_NO;
}

int cli_plan_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	lk_plan_request r;
	lk_plan *plan = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	cli_search search;
	keep_memory();
	lk_plan_defaults(&r);
	if (cli_read(args, &r, &outputs, NULL, team, &err) != LK_OK ||
	    cli_take_job(args, &r.job.config, &r.job.model, &err) != LK_OK ||
	    cli_check_emit(r.job.emit, &outputs, &err) != LK_OK)
		return speaks ? cli_fail(&err) : CLI_WRONG;
	if ((r.aggregate || r.tree) &&
	    (outputs.html || outputs.charts ||
	     (outputs.format != LK_OUTPUT_TEXT && outputs.format != LK_OUTPUT_JSON &&
	      outputs.format != LK_OUTPUT_JSONL))) {
		lk_fail(&err, LK_ERR_INPUT, r.tree ? "--tree" : "--aggregate",
		        "sites are shown as text, json or jsonl");
		return speaks ? cli_fail(&err) : CLI_WRONG;
	}
	r.job.launch = args->rest;
	r.job.launch_count = args->rest_count;
	r.team = team;
	bool post;
	if (lk_post_plan_asked(&r, &post, &err) != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	if (post) return plan_post(&r, &outputs, speaks);
	if (team && r.threads == 0) r.threads = team->threads;
	if (speaks) {
		r.progress = cli_search_show;
		r.progress_context = &search;
	}
	if (!team) cli_search_begin(&search, "layouts"); /* processes of a team end together */
	lk_status status = lk_plan_find(&r, &plan, &err);
	if (!team) cli_search_end(&search);
	int result;
	if (status != LK_OK) {
		if (speaks) result = cli_fail(&err);
		else result = CLI_WRONG;
	} else if (speaks) {
		result = plan_answer(plan, &r, &outputs);
		cli_warn_failed(plan->failed_check);
	} else result = CLI_OK;
	lk_plan_free(plan);
	return result;
}

static int plan_run(lk_args *args) {
	return cli_plan_with(args, NULL, true);
}

const cli_command cli_plan = {&lk_plan_verb, plan_run};
