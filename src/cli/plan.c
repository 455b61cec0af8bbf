/* plan.c: `lockstep plan`: the search for a layout or, for a step of post-training, for a division
 * of the GPUs. */
#include <stdio.h>

#include "base/check.h"
#include "base/heap.h"
#include "cli/cli.h"

/* With --emit and no layout: the reasons, one per number of GPUs. */
static int plan_none(const lk_plan *plan) {
	for (int i = 0; i < plan->count; i++)
		if (plan->counts[i].nothing) fprintf(stderr, "lockstep: %s\n", plan->counts[i].nothing);
	return CLI_NO;
}

static int plan_emit(const lk_plan *plan, const lk_plan_request *request, const char *path) {
	lk_error err = {0};
	lk_emitted emitted = {0};
	if (plan->best < 0) return plan_none(plan);
	lk_status status = lk_row_plan.emit(request, plan, &emitted, &err);
	if (status == LK_OK) status = cli_write_emitted(&emitted, path, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

/* Sites have no pictures and no tables. */
static lk_status plan_check_sites(const lk_plan_request *request, const lk_outputs *outputs,
                                  lk_error *err) {
	bool text = outputs->format == LK_OUTPUT_TEXT || outputs->format == LK_OUTPUT_JSON ||
	            outputs->format == LK_OUTPUT_JSONL;
	if (!request->aggregate && !request->tree) return LK_OK;
	if (text && !outputs->html && !outputs->charts) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, request->tree ? "--tree" : "--aggregate",
	               "sites are shown as text, json or jsonl");
}

static lk_status plan_fill(lk_args *args, const lk_plan_team *team, lk_plan_request *request,
                           lk_outputs *outputs, cli_search *search, lk_error *err) {
	LK_TRY(cli_read(args, request, outputs, &lk_row_plan, team, err));
	lk_verb_input input = lk_verb_words(args, outputs);
	input.team = team;
	input.threads = team && request->threads == 0 ? team->threads : 0;
	input.progress = search ? cli_search_show : NULL;
	input.progress_context = search;
	LK_TRY(lk_row_plan.fill(request, &input, err));
	LK_TRY(cli_check_emit(request->job.emit, outputs, err));
	return plan_check_sites(request, outputs, err);
}

static int plan_answer(const lk_verb_row *row, const lk_plan_request *request, const void *answer,
                       const lk_outputs *outputs) {
	lk_error err = {0};
	if (!request->job.emit || row != &lk_row_plan) return cli_show(row, request, answer, outputs);
	char met[LK_MET_SIZE];
	if (lk_verb_report(row, answer, outputs, &err) != LK_OK) return cli_fail(&err);
	int status = plan_emit(answer, request, outputs->path);
	if (status == CLI_WRONG) return status;
	if (lk_verb_met(row, answer, outputs, met, &err) != LK_OK) return cli_fail(&err);
	return cli_met(met, status);
}

int cli_plan_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	LK_ASSERT(speaks || team);
	lk_plan_request request;
	lk_outputs outputs;
	lk_error err = {0};
	cli_search search = {0};
	void *answer = NULL;
	lk_heap_keep();
	lk_plan_defaults(&request);
	lk_status status = plan_fill(args, team, &request, &outputs, speaks ? &search : NULL, &err);
	const lk_verb_row *row = &lk_row_plan;
	if (status == LK_OK) status = lk_verb_answering(&row, &request, &err);
	if (status != LK_OK) return speaks ? cli_fail(&err) : CLI_WRONG;
	/* Processes of a team end together: none of them stops its search alone. */
	if (!team) cli_search_begin(&search, row->searches);
	status = row->ask(&request, &answer, &err);
	if (!team) cli_search_end(&search);
	int result = status == LK_OK ? CLI_OK : CLI_WRONG;
	if (speaks && status != LK_OK) cli_fail(&err);
	if (speaks && status == LK_OK) {
		result = plan_answer(row, &request, answer, &outputs);
		cli_warn_failed(lk_verb_failed_check(row, answer));
	}
	row->free(answer);
	return result;
}

int cli_plan(lk_args *args) {
	return cli_plan_with(args, NULL, true);
}
