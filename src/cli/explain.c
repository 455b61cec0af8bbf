/* explain.c: `lockstep explain`: why a run is slow, or died, or hangs; of two runs, what changed
 * between them. */

#include "cli/cli.h"
#include "lockstep/explain.h"

/* Refuses options that show the steps of a single run. */
static lk_status refuse_of_one(const lk_explain_request *request, const lk_outputs *outputs,
                               const char *why, const char *hint, lk_error *err) {
	const struct {
		bool given;
		const char *option;
	} of_one[] = {{outputs->trace, "--trace"},
	              {request->mains.pue > 0, "--pue"},
	              {request->mains.carbon > 0, "--carbon"},
	              {request->mains.price_kwh > 0, "--price-kwh"}};
	for (size_t i = 0; i < sizeof of_one / sizeof *of_one; i++)
		if (of_one[i].given) {
			lk_fail(err, LK_ERR_INPUT, of_one[i].option, "%s", why);
			return lk_hint(err, "%s", hint);
		}
	return LK_OK;
}

/* Options that a log cannot answer. */
static lk_status refuse_of_log(const lk_explain_request *request, const lk_outputs *outputs,
                               lk_error *err) {
	LK_TRY(refuse_of_one(request, outputs, "shows a trace, but the file is a log",
	                     "give traces of torch.profiler for it", err));
	if (outputs->table == LK_EXPLAIN_ALL || outputs->table == LK_EXPLAIN_STEPS) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--table", "%s is a table of a trace, but the file is a log",
	        lk_explain_tables[outputs->table]);
	return lk_hint(err, "give --table steps");
}

/* Options that the row which answers cannot act on. */
static lk_status refuse_of_row(const lk_verb_row *row, const lk_explain_request *request,
                               const lk_outputs *outputs, lk_error *err) {
	if (row == &lk_row_run_log) return refuse_of_log(request, outputs, err);
	if (row != &lk_row_postmortem) return LK_OK;
	return refuse_of_one(request, outputs,
	                     "shows steps, but the files are left of a run that died or hangs",
	                     "leave it out", err);
}

int cli_explain(lk_args *args) {
	const lk_verb_row *row = &lk_row_explain;
	lk_explain_request request;
	void *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_explain_defaults(&request);
	if (cli_read(args, &request, &outputs, row, NULL, &err) != LK_OK) return cli_fail(&err);
	lk_verb_input input = lk_verb_words(args, &outputs);
	lk_status status = row->fill(&request, &input, &err);
	if (status == LK_OK) status = lk_verb_answering(&row, &request, &err);
	if (status == LK_OK) status = refuse_of_row(row, &request, &outputs, &err);
	if (status == LK_OK) status = row->ask(&request, &answer, &err);
	if (status != LK_OK) return cli_fail(&err);
	int result = cli_show(row, &request, answer, &outputs);
	cli_warn_failed(lk_verb_failed_check(row, answer));
	row->free(answer);
	return result;
}
