/* replay.c: `lockstep replay`: a traced run, simulated again. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/replay.h"

static int replay_files(const void *request, const char **paths) {
	const lk_replay_request *replay = request;
	paths[0] = replay->overheads_out;
	paths[1] = replay->graph;
	return 2;
}

static int replay_run(lk_args *args) {
	lk_replay_request request;
	lk_replay *replay = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_replay_defaults(&request);
	if (cli_read(args, &request, &outputs, replay_files, NULL, &err) != LK_OK)
		return cli_fail(&err);
	request.paths = (const char *const *)args->operands;
	request.path_count = args->operand_count;
	if (lk_replay_ask(&request, &replay, &err) != LK_OK) return cli_fail(&err);
	lk_status status = lk_replay_print(replay, outputs.format, outputs.verbose, cli_colour(),
	                                   outputs.path, stdout, &err);
	cli_warn_failed(replay->failed_check);
	lk_replay_free(replay);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

const cli_command cli_replay = {&lk_replay_verb, replay_run};
