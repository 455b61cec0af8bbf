/* record.c: `lockstep record`: runs a command and records it. lockstep writes to standard error
 * only: standard output is the command's. */
#include <signal.h>
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/record.h"

int cli_record(lk_args *args) {
	lk_record_request request;
	lk_record_answer *answer = NULL;
	lk_error err = {0};
	lk_record_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	request.command = args->rest;
	request.words = args->rest_count;
	if (lk_record(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	signal(SIGPIPE, SIG_IGN); /* a closed pipe must not replace the command's exit status */
	if (answer->failure.status) cli_fail(&answer->failure);
	else lk_record_print(answer, stderr);
	cli_warn_failed(answer->failed_check);
	int status = lk_record_exit_status(answer) | (answer->status ? CLI_OF_PROGRAM : 0);
	lk_record_free(answer);
	return status;
}
