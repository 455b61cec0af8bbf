/* diff.c: `lockstep diff`: what changed between two runs. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/diff.h"

static int diff_run(lk_args *args) {
	lk_diff_request request;
	lk_diff *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_diff_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.before = args->operands[0];
	request.after = args->operands[1];
	if (lk_diff_ask(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_diff_print(answer, outputs.format, outputs.table, cli_colour(),
	                                 outputs.path, stdout, &err);
	cli_warn_failed(answer->failed_check);
	lk_diff_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_diff = {&lk_diff_verb, diff_run};
