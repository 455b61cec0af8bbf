/* jobs.c: `lockstep jobs`: how to divide a cluster between jobs. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/jobs.h"

static int jobs_run(lk_args *args) {
	lk_jobs_request request;
	lk_jobs_answer *answer = NULL;
	lk_error err = {0};
	lk_jobs_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	if (request.path && cli_check_place(request.path, &err) != LK_OK) return cli_fail(&err);
	if (request.write && cli_check_place(request.write, &err) != LK_OK) return cli_fail(&err);
	request.jobs = args->operand_count ? args->operands[0] : NULL;
	if (lk_jobs(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_jobs_print(answer, request.format, request.verbose, cli_colour(),
	                                 request.path, stdout, &err);
	lk_jobs_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_jobs = {&lk_jobs_verb, jobs_run};
