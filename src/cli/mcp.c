/* mcp.c: `lockstep mcp`: the questions as tools for agents. */
#include "cli/cli.h"
#include "mcp/mcp.h"

int cli_mcp(lk_args *args) {
	lk_mcp_request request;
	lk_error err = {0};
	lk_mcp_defaults(&request);
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	/* This very program, also where it has been replaced or is not on the PATH. */
	return lk_mcp_serve(&request, "/proc/self/exe", &err) == LK_OK ? CLI_OK : cli_fail(&err);
}
