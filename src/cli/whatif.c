/* whatif.c: `lockstep whatif`: a step graph with something changed. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/report.h"
#include "lockstep/whatif.h"

/* Exit status: a change that cannot be made is an answer alongside others; where none can, it is an
 * error. */
static int whatif_refused(const lk_whatif *answer) {
	for (int i = 1; i < answer->column_count; i++)
		if (!answer->columns[i].refused) return CLI_OK;
	if (answer->column_count == 1) return CLI_OK;
	fprintf(stderr, "lockstep: %s\n", answer->columns[1].refused);
	return CLI_WRONG;
}

static int whatif_run(lk_args *args) {
	lk_whatif_request request;
	lk_whatif *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_whatif_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.paths = args->operands;
	request.path_count = args->operand_count;
	if (lk_whatif_ask(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	int result = whatif_refused(answer);
	lk_status status = result == CLI_OK ? lk_whatif_write_files(answer, &outputs, &err) : LK_OK;
	if (status == LK_OK && result == CLI_OK)
		status = lk_whatif_print(answer, outputs.format, outputs.verbose, cli_colour(),
		                         outputs.path, stdout, &err);
	if (status == LK_OK && result == CLI_OK && outputs.html)
		status = lk_report_whatif(answer, LK_REPORT_HTML, outputs.html, NULL, &err);
	if (status == LK_OK && result == CLI_OK && outputs.charts)
		status = lk_report_whatif(answer, LK_REPORT_CHARTS, outputs.charts, NULL, &err);
	cli_warn_failed(answer->failed_check);
	lk_whatif_free(answer);
	return status == LK_OK ? result : cli_fail(&err);
}

const cli_command cli_whatif = {&lk_whatif_verb, whatif_run};
