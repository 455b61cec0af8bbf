/* explain.c: `lockstep explain`: why a run is slow. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/explain.h"
#include "lockstep/report.h"

static lk_status print(const lk_explain_request *request, const lk_explanation *answer,
                       lk_error *err) {
	LK_TRY(lk_explain_print(answer, request->format, request->table, cli_colour(), request->path,
	                        stdout, err));
	if (request->trace) LK_TRY(lk_explain_trace(answer, request->trace, err));
	return request->html ? lk_report_explain(answer, LK_REPORT_HTML, request->html, NULL, err)
	                     : LK_OK;
}

static int explain_run(lk_args *args) {
	lk_explain_request request;
	lk_explanation *answer = NULL;
	lk_error err = {0};
	lk_explain_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	const char *const places[] = {request.path, request.trace, request.html};
	if (cli_check_places(places, 3, &err) != LK_OK) return cli_fail(&err);
	request.traces = args->operands;
	request.trace_count = args->operand_count;
	if (lk_explain(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	lk_status status = print(&request, answer, &err);
	lk_explain_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_explain = {&lk_explain_verb, explain_run};
