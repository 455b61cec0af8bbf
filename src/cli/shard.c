/* shard.c: `lockstep shard`: embedding tables placed on GPUs. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/report.h"
#include "lockstep/shard.h"

static int shard_files(const void *request, const char **paths) {
	const lk_shard_request *shard = request;
	paths[0] = shard->plan;
	paths[1] = shard->graph;
	return 2;
}

/* Times differ from run to run: they stand on standard error. */
static void show_sharders(const lk_shard_answer *answer) {
	for (int i = 0; i < answer->tried_count; i++)
		fprintf(stderr, "lockstep: %s: %.3f s\n", answer->tried[i].name, answer->tried[i].seconds);
}

static int shard_run(lk_args *args) {
	lk_shard_request request;
	lk_shard_answer *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	cli_search search;
	lk_shard_defaults(&request);
	if (cli_read(args, &request, &outputs, shard_files, NULL, &err) != LK_OK) return cli_fail(&err);
	request.tables = args->operand_count ? args->operands[0] : NULL;
	request.progress = cli_search_show;
	request.progress_context = &search;
	cli_search_begin(&search, "placements");
	lk_status status = lk_shard(&request, &answer, &err);
	cli_search_end(&search);
	if (status == LK_OK && answer->fits && request.plan)
		status = lk_shard_write_plan(answer, request.plan, &err);
	if (status == LK_OK && outputs.html)
		status = lk_report_shard(answer, LK_REPORT_HTML, outputs.html, NULL, &err);
	if (status == LK_OK && outputs.charts)
		status = lk_report_shard(answer, LK_REPORT_CHARTS, outputs.charts, NULL, &err);
	if (status == LK_OK)
		status = lk_shard_print(answer, outputs.table, outputs.format, cli_colour(), outputs.path,
		                        stdout, &err);
	if (status == LK_OK && outputs.verbose) show_sharders(answer);
	int result;
	if (status != LK_OK) result = cli_fail(&err);
	else if (answer->fits) result = CLI_OK;
	else result = CLI_NO;
	if (answer) cli_warn_failed(answer->failed_check);
	lk_shard_free(answer);
	return result;
}

const cli_command cli_shard = {&lk_shard_verb, shard_run};
