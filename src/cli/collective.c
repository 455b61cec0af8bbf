/* collective.c: `lockstep collective`: a collective by size, predicted and measured. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/collective.h"

static int collective_run(lk_args *args) {
	lk_collective_request request;
	lk_collective *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_collective_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.log = args->operand_count ? args->operands[0] : NULL;
	if (lk_collective_ask(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	lk_status status =
		lk_collective_print(answer, outputs.format, cli_colour(), outputs.path, stdout, &err);
	cli_warn_failed(answer->failed_check);
	lk_collective_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_collective = {&lk_collective_verb, collective_run};
