/* mcp_internal.h: what the files of mcp share.
 *
 *     mcp.c        messages in               mcp_messages.c  messages out
 *     mcp_calls.c  calls that run this program   mcp_tools.c  tools, resources: lists and words
 */
#ifndef LK_MCP_MCP_INTERNAL_H
#define LK_MCP_MCP_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "io/json.h"
#include "lockstep/stop.h"
#include "mcp/mcp.h"

/* Codes of JSON-RPC 2.0, section 5.1; of MCP for a resource that does not exist. */
enum {
	LK_RPC_PARSE = -32700,
	LK_RPC_REQUEST = -32600,
	LK_RPC_METHOD = -32601,
	LK_RPC_PARAMS = -32602,
	LK_RPC_INTERNAL = -32603,
	LK_RPC_NO_RESOURCE = -32002
};

/* ---- mcp_tools.c ---- */

void lk_mcp_put_tools(lk_json_writer *writer);
void lk_mcp_put_resources(lk_json_writer *writer);

/* The words after the program's name, ended by NULL; the arena's. LK_ERR_INPUT: no such tool or
 * resource; an argument that is no option of the tool or of the wrong form. `json`: whether the
 * answer is JSON. */
lk_status lk_mcp_tool_words(const char *tool, const lk_value *arguments, lk_arena *arena,
                            const char ***words, bool *json, lk_error *err);
lk_status lk_mcp_resource_words(const char *uri, lk_arena *arena, const char ***words, bool *json,
                                lk_error *err);

/* ---- mcp_calls.c ---- */

typedef struct lk_mcp_server lk_mcp_server;

/* A request that runs this program; it owns its message. */
typedef struct lk_mcp_call {
	lk_mcp_server *server;
	lk_arena arena;
	const lk_value *id, *token; /* of the request, and of its progress; token NULL: not wanted */
	const char **words;
	const char *uri; /* of a resource; NULL: a tool */
	bool json;
	double start_s;
	pthread_t thread;
	lk_stop *stop;
	bool running, cancelled; /* under the server's lock */
	struct lk_mcp_call *next;
} lk_mcp_call;

struct lk_mcp_server {
	lk_mcp_request request;
	const char *program;
	pthread_mutex_t lock; /* of all below, and of standard output */
	pthread_cond_t ended; /* a call has ended */
	lk_mcp_call *calls;   /* running, or ended but not yet joined */
	int running;
	bool lost; /* standard output cannot be written */
};

/* Starts the call on a thread of its own, once fewer than `workers` run. Takes ownership, also
 * after a failure. LK_ERR_MEMORY. */
lk_status lk_mcp_call_start(lk_mcp_call *call, lk_error *err);
/* Ends the call with this id, which then gets no answer. */
void lk_mcp_call_cancel(lk_mcp_server *server, const lk_value *id);
/* Tells how long calls have run whose progress is wanted. */
void lk_mcp_calls_progress(lk_mcp_server *server);
/* Frees calls that have ended; `all`: waits for those that run. */
void lk_mcp_calls_reap(lk_mcp_server *server, bool all);

/* ---- mcp_messages.c ---- */

/* Begins a message; lk_mcp_send ends it and writes the line. */
typedef struct lk_mcp_message {
	FILE *out;
	char *text;
	size_t size;
	lk_json_writer writer;
} lk_mcp_message;

/* False: out of memory. */
bool lk_mcp_begin(lk_mcp_message *message);
void lk_mcp_send(lk_mcp_server *server, lk_mcp_message *message);
/* Writes the member "id"; NULL: null. */
void lk_mcp_put_id(lk_json_writer *writer, const lk_value *id);
void lk_mcp_send_error(lk_mcp_server *server, const lk_value *id, int code, const char *text);

#endif
