/* serve.c: `lockstep serve`: a page and a JSON interface. */
#include <stdio.h>

#include "cli/cli.h"
#include "serve/serve.h"

static bool cli_serve_ready(void *context, const char *url, bool opened) {
	const lk_serve_request *request = context;
	if (printf("lockstep serve: open %s\n", url) < 0 || fflush(stdout) != 0) return false;
	if (request->open && !opened)
		fprintf(stderr, "lockstep: --open: no browser can be started; open the address, or name a "
		                "command in BROWSER\n");
	return true;
}

int cli_serve(lk_args *args) {
	lk_serve_request request;
	lk_error err = {0};
	lk_serve_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	return lk_serve(&request, cli_serve_ready, &request, &err) == LK_OK ? CLI_OK : cli_fail(&err);
}
