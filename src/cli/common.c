/* common.c: errors, colour and requests, the same for every verb. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

const char *const cli_formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

int cli_fail(const lk_error *err) {
	char line[2048];
	fprintf(stderr, "lockstep: %s\n", lk_error_text(err, line, sizeof line));
	return CLI_WRONG;
}

bool cli_colour(void) {
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
	if (no && *no) return false;
	return isatty(STDOUT_FILENO) && terminal && *terminal && !(terminal[0] == 'd' && terminal[1] == 'u');
}
