/* explain.c: `lockstep explain`: why a run is slow; of two runs, what changed between them. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cli/cli.h"
#include "lockstep/diff.h"
#include "lockstep/explain.h"
#include "lockstep/run_log.h"

/* Refuses options that show a single run with its trace; `shows`: why they cannot here. */
static lk_status refuse_of_one(const lk_explain_request *request, const lk_outputs *outputs,
                               const char *shows, const char *hint, lk_error *err) {
	const struct {
		bool given;
		const char *option;
	} of_one[] = {{outputs->trace, "--trace"},
	              {outputs->html, "--html"},
	              {outputs->charts, "--charts"},
	              {request->mains.pue > 0, "--pue"},
	              {request->mains.carbon > 0, "--carbon"},
	              {request->mains.price_kwh > 0, "--price-kwh"}};
	for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++)
		if (of_one[i].given) {
			lk_fail(err, LK_ERR_INPUT, of_one[i].option, "shows %s", shows);
			return lk_hint(err, "%s", hint);
		}
	return LK_OK;
}

/* Finds the table of a comparison that has the name of a table of one run. */
static lk_status diff_table_of(int table, int *out, lk_error *err) {
	for (*out = 0; *out < LK_DIFF_TABLES; ++*out)
		if (strcmp(lk_diff_tables[*out], lk_explain_tables[table]) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--table",
	        "%s is a table of one run, but the two traces are of two runs, which are compared",
	        lk_explain_tables[table]);
	return lk_hint(err, "give --table kernels, or `lockstep diff A B --table categories`");
}

/* Checks that the outputs can show a comparison, and names its table there. */
static lk_status show_runs(const lk_explain_request *request, lk_outputs *outputs, lk_error *err) {
	LK_TRY(refuse_of_one(request, outputs,
	                     "one run, but the two traces are of two runs, which are compared",
	                     "explain each run by itself for it", err));
	return diff_table_of(outputs->table, &outputs->table, err);
}

/* Options that a log cannot answer. */
static lk_status refuse_of_log(const lk_explain_request *request, const lk_outputs *outputs,
                               lk_error *err) {
	LK_TRY(refuse_of_one(request, outputs, "a trace, but the file is a log",
	                     "give traces of torch.profiler for it", err));
	if (outputs->table == LK_EXPLAIN_ALL || outputs->table == LK_EXPLAIN_STEPS) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--table", "%s is a table of a trace, but the file is a log",
	        lk_explain_tables[outputs->table]);
	return lk_hint(err, "give --table steps");
}

static int show_log(const lk_explain_request *request, lk_run_log *log, const lk_outputs *outputs) {
	lk_error err = {0};
	int result = refuse_of_log(request, outputs, &err) == LK_OK
	                 ? cli_show(&lk_row_run_log, request, log, outputs)
	                 : cli_fail(&err);
	cli_warn_failed(lk_verb_failed_check(&lk_row_run_log, log));
	lk_run_log_free(log);
	return result;
}

int cli_explain(lk_args *args) {
	const lk_verb_row *row = &lk_row_explain;
	lk_explain_request request;
	lk_explanation *one = NULL;
	lk_diff *two = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_explain_defaults(&request);
	if (cli_read(args, &request, &outputs, row, NULL, &err) != LK_OK) return cli_fail(&err);
	lk_verb_input input = lk_verb_words(args, &outputs);
	lk_status status = row->fill(&request, &input, &err);
	bool measured = false;
	void *answer = NULL;
	lk_run_log *log = NULL;
	if (status == LK_OK) status = lk_measured_run_asked(&request, &measured, &err);
	if (measured) row = &lk_row_measured_run;
	if (status == LK_OK && !request.job) status = lk_run_log_try(&request, &log, &err);
	if (log) return show_log(&request, log, &outputs);
	if (status == LK_OK && request.job) status = row->ask(&request, &answer, &err);
	else if (status == LK_OK) status = lk_explain_or_diff(&request, &one, &two, &err);
	if (status != LK_OK) return cli_fail(&err);
	if (two) row = &lk_row_diff;
	if (!answer) answer = two ? (void *)two : one;
	LK_ASSERT(answer);
	if (two) status = show_runs(&request, &outputs, &err);
	int result = status == LK_OK ? cli_show(row, &request, answer, &outputs) : cli_fail(&err);
	cli_warn_failed(lk_verb_failed_check(row, answer));
	row->free(answer);
	return result;
}
