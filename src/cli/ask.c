/* ask.c: verbs that only ask: from the parsed words to the answer in its files, by a verb's row. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/heap.h"
#include "cli/cli.h"
#include "serve/serve.h"

static lk_status refuse_picture(const lk_verb_row *row, const void *request,
                                const lk_outputs *outputs, lk_error *err) {
	bool pictured = outputs->html || outputs->charts;
	const char *option = row->unpictured ? row->unpictured(request) : NULL;
	if (!pictured || !option) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, outputs->html ? "--html" : "--charts",
	               "functions have no page; leave it or %s out", option);
}

static lk_status ask_row(const lk_verb_row *row, lk_args *args, void *request, lk_outputs *outputs,
                         const lk_plan_team *team, void **answer, lk_error *err) {
	cli_search search = {0};
	if (row->defaults) row->defaults(request);
	LK_TRY(cli_read(args, request, outputs, row, team, err));
	lk_verb_input input = lk_verb_words(args, outputs);
	input.team = team;
	input.program = (lk_doctor_request){.commit = cli_commit, .serves = lk_serve_is_built};
	input.progress = row->searches ? cli_search_show : NULL;
	input.doing = isatty(STDERR_FILENO) ? cli_doing_show : NULL;
	input.progress_context = &search;
	if (row->fill) LK_TRY(row->fill(request, &input, err));
	LK_TRY(refuse_picture(row, request, outputs, err));
	if (row->searches) {
		lk_heap_keep();
		cli_search_begin(&search, row->searches);
	}
	lk_status status = row->ask(request, answer, err);
	cli_search_end(&search);
	return status;
}

int cli_show(const lk_verb_row *row, const void *request, const void *answer,
             const lk_outputs *outputs) {
	lk_error err = {0};
	const char *refusal = row->refusal ? row->refusal(answer) : NULL;
	if (refusal) {
		lk_fail(&err, LK_ERR_INPUT, NULL, "%s", refusal);
		return cli_fail(&err);
	}
	cli_answers();
	if (lk_verb_write(row, request, answer, outputs, cli_colour(), stdout, &err) != LK_OK)
		return cli_fail(&err);
	if (outputs->verbose && row->times) row->times(answer, stderr);
	char met[LK_MET_SIZE];
	if (lk_verb_met(row, answer, outputs, met, &err) != LK_OK) return cli_fail(&err);
	return cli_met(met, !row->yes || row->yes(answer) ? CLI_OK : CLI_NO);
}

int cli_ask_with(const lk_verb_row *row, lk_args *args, const lk_plan_team *team, bool speaks) {
	LK_ASSERT(args->verb == row->verb && (speaks || team));
	lk_error err = {0};
	lk_outputs outputs;
	void *request = calloc(1, row->verb->request_size), *answer = NULL;
	lk_status status = request ? ask_row(row, args, request, &outputs, team, &answer, &err)
	                           : lk_fail(&err, LK_ERR_MEMORY, NULL, "out of memory");
	int result = status == LK_OK ? CLI_OK : CLI_WRONG;
	if (speaks && status != LK_OK) cli_fail(&err);
	if (speaks && status == LK_OK) {
		result = cli_show(row, request, answer, &outputs);
		cli_warn_failed(lk_verb_failed_check(row, answer));
	}
	row->free(answer);
	free(request);
	return result;
}
