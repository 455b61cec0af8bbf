/* compose.c: `lockstep compose`: a job from recordings of single processes. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/compose.h"

static int compose_files(const void *request, const char **paths) {
	paths[0] = ((const lk_compose_request *)request)->graph;
	return 1;
}

static int compose_run(lk_args *args) {
	lk_compose_request request;
	lk_composed *composed = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_compose_defaults(&request);
	if (cli_read(args, &request, &outputs, compose_files, NULL, &err) != LK_OK)
		return cli_fail(&err);
	request.folder = args->operands[0];
	if (lk_compose(&request, &composed, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_compose_print(composed, outputs.format, outputs.verbose, cli_colour(),
	                                    outputs.path, stdout, &err);
	cli_warn_failed(composed->failed_check);
	lk_compose_free(composed);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_compose = {&lk_compose_verb, compose_run};
