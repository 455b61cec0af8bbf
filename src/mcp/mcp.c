/* mcp.c: lines of standard input, answered at once or by a call. */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "lockstep/catalogue.h"

enum { LINE_LIMIT = 16 << 20, CHUNK = 1 << 16, PROGRESS_MS = 1000 };

/* Revisions of the protocol, the latest first. */
static const char *const revisions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};
enum { REVISIONS = sizeof revisions / sizeof *revisions };

static const char instructions[] =
	"lockstep predicts, explains, plans and prices distributed training of neural networks without "
	"a GPU. predict: does a job fit, and how long is a step? plan: which layout? explain: why is a "
	"profiled run slow? rent: which machines? Give jobs by options (model, gpu, gpus, gbs, seq "
	"...) "
	"or as a file or launch line of the training framework (operands, launch). An answer has a "
	"range; say it.";

/* ---- answered at once ---- */

/* A request that has been read; its arena is moved to the call that it starts. */
struct asked {
	lk_mcp_server *server;
	lk_arena *arena;
	const lk_value *id, *params;
};

static lk_status answer_initialize(struct asked *asked, lk_json_writer *writer) {
	const char *wanted = lk_json_get_text(asked->params, "protocolVersion", "");
	const char *revision = revisions[0];
	for (int i = 0; i < REVISIONS; i++)
		if (strcmp(revisions[i], wanted) == 0) revision = revisions[i];
	lk_json_put_text(writer, "protocolVersion", revision);
	lk_json_object(writer, "capabilities");
	lk_json_object(writer, "tools");
	lk_json_object_end(writer);
	lk_json_object(writer, "resources");
	lk_json_object_end(writer);
	lk_json_object_end(writer);
	lk_json_object(writer, "serverInfo");
	lk_json_put_text(writer, "name", "lockstep");
	lk_json_put_text(writer, "version", lk_version());
	lk_json_object_end(writer);
	lk_json_put_text(writer, "instructions", instructions);
	return LK_OK;
}

static lk_status answer_ping(struct asked *asked, lk_json_writer *writer) {
	(void)asked, (void)writer;
	return LK_OK;
}

static lk_status answer_tools(struct asked *asked, lk_json_writer *writer) {
	(void)asked;
	lk_mcp_put_tools(writer);
	return LK_OK;
}

static lk_status answer_resources(struct asked *asked, lk_json_writer *writer) {
	(void)asked;
	lk_mcp_put_resources(writer);
	return LK_OK;
}

static lk_status answer_templates(struct asked *asked, lk_json_writer *writer) {
	(void)asked;
	lk_json_array(writer, "resourceTemplates");
	lk_json_array_end(writer);
	return LK_OK;
}

/* ---- answered by a call ---- */

/* The words of a call that is to be started; errors of a tool's arguments are its answer, those of
 * a resource the error `code`. */
static lk_status start_call(struct asked *asked, const char **words, const char *uri, bool json,
                            lk_error *err) {
	lk_mcp_call *call = calloc(1, sizeof *call);
	if (!call) return lk_oom(err);
	*call =
		(lk_mcp_call){.server = asked->server,
	                  .arena = *asked->arena,
	                  .id = asked->id,
	                  .token = lk_json_get(lk_json_get(asked->params, "_meta"), "progressToken"),
	                  .words = words,
	                  .uri = uri,
	                  .json = json};
	*asked->arena = (lk_arena){0};
	return lk_mcp_call_start(call, err);
}

static void send_tool_error(const struct asked *asked, const lk_error *err) {
	char line[sizeof *err];
	lk_mcp_message m;
	if (!lk_mcp_begin(&m)) return;
	lk_mcp_put_id(&m.writer, asked->id);
	lk_json_object(&m.writer, "result");
	lk_json_array(&m.writer, "content");
	lk_json_object(&m.writer, NULL);
	lk_json_put_text(&m.writer, "type", "text");
	lk_json_put_text(&m.writer, "text", lk_error_text(err, line, sizeof line));
	lk_json_object_end(&m.writer);
	lk_json_array_end(&m.writer);
	lk_json_object(&m.writer, "structuredContent");
	lk_json_put_error(&m.writer, "error", err);
	lk_json_object_end(&m.writer);
	lk_json_put_bool(&m.writer, "isError", true);
	lk_json_object_end(&m.writer);
	lk_mcp_send(asked->server, &m);
}

static void begin_tool(struct asked *asked) {
	const char *name = lk_json_get_text(asked->params, "name", NULL);
	const lk_value *arguments = lk_json_get(asked->params, "arguments");
	bool object = !arguments || arguments->kind == LK_JSON_OBJECT;
	const char **words;
	bool json;
	lk_error err = {0};
	char line[sizeof err];
	if (!name || !object) {
		lk_mcp_send_error(asked->server, asked->id, LK_RPC_PARAMS,
		                  "params: give name, a text, and arguments, an object");
		return;
	}
	lk_status status = lk_mcp_tool_words(name, arguments, asked->arena, &words, &json, &err);
	if (status == LK_ERR_INPUT && strcmp(err.where, "name") == 0)
		lk_mcp_send_error(asked->server, asked->id, LK_RPC_PARAMS,
		                  lk_error_text(&err, line, sizeof line));
	else if (status != LK_OK) send_tool_error(asked, &err);
	else if (start_call(asked, words, NULL, json, &err) != LK_OK)
		asked->server->lost = true; /* out of memory */
}

static void begin_resource(struct asked *asked) {
	const char *uri = lk_json_get_text(asked->params, "uri", "");
	const char **words;
	bool json;
	lk_error err = {0};
	char line[sizeof err];
	lk_status status = lk_mcp_resource_words(uri, asked->arena, &words, &json, &err);
	if (status != LK_OK)
		lk_mcp_send_error(asked->server, asked->id, LK_RPC_NO_RESOURCE,
		                  lk_error_text(&err, line, sizeof line));
	else if (start_call(asked, words, uri, json, &err) != LK_OK) asked->server->lost = true;
}

/* ---- messages in ---- */

static const struct {
	const char *name;
	lk_status (*answer)(struct asked *asked, lk_json_writer *writer); /* members of the result */
	void (*begin)(struct asked *asked);
} methods[] = {
	{"initialize", answer_initialize, NULL},
	{"ping", answer_ping, NULL},
	{"tools/list", answer_tools, NULL},
	{"tools/call", NULL, begin_tool},
	{"resources/list", answer_resources, NULL},
	{"resources/templates/list", answer_templates, NULL},
	{"resources/read", NULL, begin_resource},
};

static void answer_request(struct asked *asked, const char *method) {
	lk_mcp_message m;
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (strcmp(methods[i].name, method) != 0) continue;
		if (methods[i].begin) {
			methods[i].begin(asked);
		} else if (lk_mcp_begin(&m)) {
			lk_mcp_put_id(&m.writer, asked->id);
			lk_json_object(&m.writer, "result");
			methods[i].answer(asked, &m.writer);
			lk_json_object_end(&m.writer);
			lk_mcp_send(asked->server, &m);
		}
		return;
	}
	lk_mcp_send_error(asked->server, asked->id, LK_RPC_METHOD, "there is no such method");
}

static void take_notification(struct asked *asked, const char *method) {
	const lk_value *id = lk_json_get(asked->params, "requestId");
	if (strcmp(method, "notifications/cancelled") == 0 && id) lk_mcp_call_cancel(asked->server, id);
}

static void take_message(struct asked *asked, const lk_value *message) {
	const char *method = lk_json_get_text(message, "method", NULL);
	const lk_value *id = lk_json_get(message, "id");
	bool right = message->kind == LK_JSON_OBJECT &&
	             strcmp(lk_json_get_text(message, "jsonrpc", ""), "2.0") == 0 &&
	             (!id || id->kind == LK_JSON_STRING || id->kind == LK_JSON_NUMBER);
	/* An answer to a request, of which this server sends none. */
	if (right && !method && (lk_json_get(message, "result") || lk_json_get(message, "error")))
		return;
	if (!right || !method) {
		lk_mcp_send_error(asked->server, NULL, LK_RPC_REQUEST,
		                  "a request is an object with jsonrpc \"2.0\", id and method");
		return;
	}
	asked->id = id;
	asked->params = lk_json_get(message, "params");
	if (id) answer_request(asked, method);
	else take_notification(asked, method);
}

static void take_line(lk_mcp_server *server, const char *line, size_t size) {
	lk_arena arena = {0};
	lk_stream *in = NULL;
	lk_value *message = NULL;
	lk_error err = {0};
	char text[sizeof err];
	struct asked asked = {.server = server, .arena = &arena};
	if (strspn(line, " \t\r\n") >= size) return;
	lk_status status = lk_stream_memory(line, size, "message", &in, &err);
	bool plain = status == LK_OK && lk_stream_plain(in);
	if (plain) status = lk_json_document(&arena, in, &message, &err);
	else if (status == LK_OK) status = lk_fail(&err, LK_ERR_INPUT, "message", "is compressed");
	lk_stream_close(in);
	if (status == LK_OK) take_message(&asked, message);
	else lk_mcp_send_error(server, NULL, LK_RPC_PARSE, lk_error_text(&err, text, sizeof text));
	lk_arena_free(&arena);
}

/* Lines that are complete; what is left of the buffer moves to its start. */
static void take_lines(lk_mcp_server *server, char *buffer, size_t *used) {
	char *start = buffer, *end;
	while ((end = memchr(start, '\n', *used - (size_t)(start - buffer)))) {
		*end = '\0';
		take_line(server, start, (size_t)(end - start));
		start = end + 1;
	}
	*used -= (size_t)(start - buffer);
	memmove(buffer, start, *used);
}

/* Waits for input; tells the progress of calls meanwhile. */
static void wait_input(lk_mcp_server *server) {
	struct pollfd fd = {STDIN_FILENO, POLLIN, 0};
	while (poll(&fd, 1, server->calls ? PROGRESS_MS : -1) == 0) {
		lk_mcp_calls_progress(server);
		lk_mcp_calls_reap(server, false);
	}
}

static lk_status read_messages(lk_mcp_server *server, lk_error *err) {
	size_t used = 0, room = CHUNK;
	char *buffer = malloc(room + 1);
	lk_status status = buffer ? LK_OK : lk_oom(err);
	while (status == LK_OK && !server->lost) {
		wait_input(server);
		ssize_t got = read(STDIN_FILENO, buffer + used, room - used);
		if (got < 0 && errno == EINTR) continue;
		if (got < 0) status = lk_fail(err, LK_ERR_IO, "standard input", "%s", strerror(errno));
		if (got <= 0) break;
		used += (size_t)got;
		take_lines(server, buffer, &used);
		lk_mcp_calls_reap(server, false);
		if (used < room) continue;
		char *larger = room < LINE_LIMIT ? realloc(buffer, 2 * room + 1) : NULL;
		if (!larger) {
			status = lk_fail(err, LK_ERR_INPUT, "standard input",
			                 "a message of more than %zu bytes", room);
			break;
		}
		buffer = larger;
		room *= 2;
	}
	if (status == LK_OK && used > 0 && !server->lost) {
		buffer[used] = '\0';
		take_line(server, buffer, used);
	}
	free(buffer);
	return status;
}

lk_status lk_mcp_serve(const lk_mcp_request *request, const char *program, lk_error *err) {
	lk_mcp_server server = {.request = *request,
	                        .program = program,
	                        .lock = PTHREAD_MUTEX_INITIALIZER,
	                        .ended = PTHREAD_COND_INITIALIZER};
	LK_ASSERT(request->workers > 0 && request->seconds > 0);
	lk_status status = read_messages(&server, err);
	lk_mcp_calls_reap(&server, true);
	if (status == LK_OK && server.lost)
		status = lk_fail(err, LK_ERR_IO, "standard output", "cannot write");
	return status;
}
