/* compile.c: `lockstep compile`: programs of computation and communication. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "cli/cli.h"
#include "lockstep/compile.h"
#include "lockstep/view.h"

static lk_status act_tune(lk_compile *answer, lk_compile_request request, FILE *out,
                          lk_error *err) {
	cli_search search;
	request.progress = cli_search_show;
	request.progress_context = &search;
	cli_search_begin(&search, "programs");
	lk_status status = lk_compile_tune(answer, &request, out, err);
	cli_search_end(&search);
	return status;
}

static lk_status act(lk_compile *answer, const lk_compile_request *request, FILE *out,
                     lk_error *err) {
	if (request->action == LK_COMPILE_TUNE) return act_tune(answer, *request, out, err);
	if (request->action != LK_COMPILE_BENCH) return lk_compile_act(answer, request, out, err);
	cli_stop stop;
	cli_stop_begin(&stop);
	lk_status status = lk_compile_bench(answer, request, out, err);
	cli_stop_end(&stop);
	return status;
}

static int run_file(const char *path, const lk_compile_request *request, FILE *out) {
	lk_compile *answer = NULL;
	lk_error err = {0};
	int result = CLI_OK;
	if (lk_compile_read(path, &answer, &err) != LK_OK) {
		result = cli_fail(&err);
		if (request->action == LK_COMPILE_CHECK && request->format == LK_COMPILE_TEXT)
			lk_compile_caret(answer, stdout);
	} else if (act(answer, request, out, &err) != LK_OK) {
		result = cli_fail(&err);
	}
	if (result == CLI_OK && lk_compile_no(answer)) result = CLI_NO;
	cli_warn_failed(lk_compile_failed_check(answer));
	lk_compile_free(answer);
	return result;
}

/* Collects the output in memory and writes it only if no program was refused. path NULL: standard
 * output. */
static int run_as_whole(const char *const *files, int count, const lk_compile_request *request,
                        const char *path) {
	lk_error err = {0};
	char *text = NULL;
	size_t size;
	FILE *memory = lk_memory_open(&text, &size);
	int result = CLI_OK;
	for (int i = 0; memory && i < count; i++) {
		int one = run_file(files[i], request, memory);
		if (one > result) result = one;
	}
	lk_status status = LK_OK;
	cli_answers();
	if (!memory || (!lk_memory_close(memory) && result != CLI_WRONG))
		status = lk_fail(&err, LK_ERR_MEMORY, NULL, "out of memory");
	else if (result != CLI_WRONG && size) status = lk_text_save(text, path, stdout, &err);
	free(text);
	return status == LK_OK ? result : cli_fail(&err);
}

static int run_one_by_one(const char *const *files, int count, const lk_compile_request *request) {
	int result = CLI_OK;
	for (int i = 0; i < count; i++) {
		int one = run_as_whole(&files[i], 1, request, NULL);
		if (one > result) result = one;
	}
	return result;
}

static lk_status compile_check_single(const lk_args *args, const lk_compile_request *request,
                                      lk_error *err) {
	if (request->action != LK_COMPILE_EMIT || args->operand_count <= 2) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--out", "%d programs would be written to the same file",
	        args->operand_count - 1);
	return lk_hint(err, "name one program");
}

int cli_compile(lk_args *args) {
	lk_compile_request request = {0};
	lk_outputs outputs;
	lk_error err = {0};
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	if (lk_compile_action_find(args->operands[0], &request.action, &err) != LK_OK)
		return cli_fail(&err);
	LK_ASSERT(args->operand_count >= 2); /* the table's min_operands */
	const char *const *files = args->operands + 1;
	int count = args->operand_count - 1;
	if (!outputs.path && request.format != LK_COMPILE_JSON)
		return run_one_by_one(files, count, &request);
	if (outputs.path && compile_check_single(args, &request, &err) != LK_OK) return cli_fail(&err);
	return run_as_whole(files, count, &request, outputs.path);
}
