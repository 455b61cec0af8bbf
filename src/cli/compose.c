/* compose.c: `lockstep compose`: a job from recordings of single processes. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/compose.h"

static int compose_run(lk_args *args) {
	lk_compose_request request;
	lk_composed *composed = NULL;
	lk_error err = {0};
	lk_compose_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	const char *const places[] = {request.path, request.graph};
	for (int i = 0; i < 2; i++)
		if (places[i] && cli_check_place(places[i], &err) != LK_OK) return cli_fail(&err);
	request.folder = args->operands[0];
	if (lk_compose(&request, &composed, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_compose_print(composed, request.format, request.verbose, cli_colour(),
	                                    request.path, stdout, &err);
	lk_compose_free(composed);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_compose = {&lk_compose_verb, compose_run};
