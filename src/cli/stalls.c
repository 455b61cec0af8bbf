/* stalls.c: `lockstep stalls`: what stalls a training command. The report follows the output of the
 * first run on standard output; messages go to standard error. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/cli.h"
#include "lockstep/stalls.h"

static void stalls_say(const char *line, void *context) {
	(void)context;
	fprintf(stderr, "lockstep: %s\n", line);
}

static bool stalls_ask(void) {
	char line[16];
	fputs("  run it? [y/N] ", stderr);
	return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

static bool confirm(const lk_stalls_plan *plan, void *context) {
	const lk_stalls_request *request = context;
	lk_stalls_print_plan(plan, stderr);
	if (request->yes) return true;
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) return stalls_ask();
	fputs("lockstep: no terminal to ask on; --yes agrees\n", stderr);
	return false;
}

int cli_stalls(lk_args *args) {
	const lk_verb_row *row = &lk_row_stalls;
	lk_stalls_request request;
	lk_stalls_answer *answer = NULL;
	lk_outputs outputs;
	lk_error err = {0};
	lk_stalls_defaults(&request);
	if (cli_read(args, &request, &outputs, row, NULL, &err) != LK_OK) return cli_fail(&err);
	lk_verb_input input = lk_verb_words(args, &outputs);
	if (row->fill(&request, &input, &err) != LK_OK) return cli_fail(&err);
	request.confirm = confirm;
	request.say = request.recording ? NULL : stalls_say;
	request.context = &request;
	cli_answers(); /* standard output is the command's */
	if (lk_stalls(&request, &answer, &err) != LK_OK) return cli_fail(&err);
	LK_ASSERT(answer != NULL);
	int status = CLI_OK;
	char met[LK_MET_SIZE];
	if (answer->status) signal(SIGPIPE, SIG_IGN); /* a closed pipe must not replace the status */
	if (answer->failure.status) status = cli_fail(&answer->failure);
	else if (*answer->reason) fprintf(stderr, "lockstep: %s\n", answer->reason);
	else if (lk_verb_write(row, &request, answer, &outputs, cli_colour(), stdout, &err) != LK_OK)
		status = cli_fail(&err);
	else if (lk_verb_met(row, answer, &outputs, met, &err) != LK_OK) status = cli_fail(&err);
	else status = cli_met(met, status);
	cli_warn_failed(answer->failed_check);
	if (answer->status) status = answer->status | CLI_OF_PROGRAM;
	lk_stalls_free(answer);
	return status;
}
