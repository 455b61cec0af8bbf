/* compile.c: `lockstep compile`: programs of computation and communication. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/compile.h"

static lk_status act(lk_compile *answer, const lk_compile_request *request, lk_error *err) {
	if (request->action == LK_COMPILE_BENCH) return lk_compile_bench(answer, request, stdout, err);
	if (request->action == LK_COMPILE_TUNE) return lk_compile_tune(answer, request, stdout, err);
	return lk_compile_act(answer, request, stdout, err);
}

static int run_file(const char *path, const lk_compile_request *request) {
	lk_compile *answer = NULL;
	lk_error err = {0};
	int result = CLI_OK;
	if (lk_compile_read(path, &answer, &err) != LK_OK) {
		result = cli_fail(&err);
		if (request->action == LK_COMPILE_CHECK && request->format == LK_COMPILE_TEXT)
			lk_compile_caret(answer, stdout);
	} else if (act(answer, request, &err) != LK_OK) {
		result = cli_fail(&err);
	}
	if (result == CLI_OK && lk_compile_no(answer)) result = CLI_NO;
	lk_compile_free(answer);
	return result;
}

static int compile_run(lk_args *args) {
	lk_compile_request request = {0};
	lk_error err = {0};
	int result = CLI_OK;
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	if (lk_compile_action_find(args->operands[0], &request.action, &err) != LK_OK)
		return cli_fail(&err);
	for (int i = 1; i < args->operand_count; i++) {
		int one = run_file(args->operands[i], &request);
		if (one > result) result = one;
	}
	return result;
}

const cli_command cli_compile = {&lk_compile_verb, compile_run};
