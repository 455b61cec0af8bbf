/* mcp.h: `lockstep mcp`: the questions as tools for agents, by the Model Context Protocol: JSON-RPC
 * messages, one a line, on standard input and output (modelcontextprotocol.io, revision
 * 2025-06-18). docs/guide/agents.md is for its users.
 *
 * A tool is a verb that only asks; its arguments are the verb's options, in JSON. Each call runs
 * this program with them and returns what it prints, so that agents get the answers of the command
 * line to the byte. Tools read files by name and write none. */
#ifndef LK_MCP_MCP_H
#define LK_MCP_MCP_H

#include "lockstep/error.h"
#include "lockstep/options.h"

typedef struct lk_mcp_request {
	int workers;    /* calls that run at the same time */
	double seconds; /* longest time of a call */
} lk_mcp_request;

extern const lk_verb lk_mcp_verb;
void lk_mcp_defaults(lk_mcp_request *request);

/* Serves until standard input ends and all calls have been answered. `program`: the path of this
 * program. LK_ERR_IO: standard input cannot be read, or output not written; LK_ERR_MEMORY. */
lk_status lk_mcp_serve(const lk_mcp_request *request, const char *program, lk_error *err);

#endif
