/* jobs.c: `lockstep jobs`: how to divide a cluster between jobs. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/jobs.h"

static int jobs_files(const void *request, const char **paths) {
	paths[0] = ((const lk_jobs_request *)request)->write;
	return 1;
}

static int jobs_run(lk_args *args) {
	lk_jobs_request request;
	lk_jobs_answer *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	cli_search search;
	lk_jobs_defaults(&request);
	if (cli_read(args, &request, &outputs, jobs_files, NULL, &err) != LK_OK) return cli_fail(&err);
	request.jobs = args->operand_count ? args->operands[0] : NULL;
	request.progress = cli_search_show;
	request.progress_context = &search;
	cli_search_begin(&search, "jobs under all policies");
	lk_status status = lk_jobs(&request, &answer, &err);
	cli_search_end(&search);
	if (status != LK_OK) return cli_fail(&err);
	status = lk_jobs_print(answer, outputs.format, outputs.verbose, cli_colour(), outputs.path,
	                       stdout, &err);
	cli_warn_failed(answer->failed_check);
	lk_jobs_free(answer);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_jobs = {&lk_jobs_verb, jobs_run};
