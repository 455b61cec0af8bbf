/* replay.c: `lockstep replay`: a traced run, simulated again. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/replay.h"

static int replay_run(lk_args *args) {
	lk_replay_request request;
	lk_replay *replay = NULL;
	lk_error err = {0};
	lk_replay_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	const char *const places[] = {request.path, request.overheads_out, request.graph};
	for (int i = 0; i < 3; i++)
		if (places[i] && cli_check_place(places[i], &err) != LK_OK) return cli_fail(&err);
	request.paths = (const char *const *)args->operands;
	request.path_count = args->operand_count;
	if (lk_replay_ask(&request, &replay, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_replay_print(replay, request.format, request.verbose, cli_colour(),
	                                   request.path, stdout, &err);
	lk_replay_free(replay);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_replay = {&lk_replay_verb, replay_run};
