/* explain.c: `lockstep explain`: why a run is slow. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/explain.h"
#include "lockstep/report.h"

static lk_status print(const lk_outputs *outputs, const lk_explanation *answer, lk_error *err) {
	LK_TRY(lk_explain_print(answer, outputs->format, outputs->table, cli_colour(), outputs->path,
	                        stdout, err));
	if (outputs->trace) LK_TRY(lk_explain_trace(answer, outputs->trace, err));
	if (outputs->charts)
		LK_TRY(lk_report_explain(answer, LK_REPORT_CHARTS, outputs->charts, NULL, err));
	return outputs->html ? lk_report_explain(answer, LK_REPORT_HTML, outputs->html, NULL, err)
	                     : LK_OK;
}

static int explain_run(lk_args *args) {
	lk_explain_request request;
	lk_explanation *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_explain_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.roofline = outputs.html || outputs.charts;
	request.roofline_needed = outputs.table == LK_EXPLAIN_ROOFLINE;
	request.traces = args->operands;
	request.trace_count = args->operand_count;
	if (lk_explain(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	lk_status status = print(&outputs, answer, &err);
	lk_explain_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_explain = {&lk_explain_verb, explain_run};
