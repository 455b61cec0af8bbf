/* mcp_calls.c: calls: each runs this program on a thread that waits for it, and answers. */
#include "mcp/mcp_internal.h"

#include <stdlib.h>
#include <string.h>

#include "system/clock.h"
#include "system/process.h"

enum { OUTPUT_LIMIT = 64 << 20 };

/* ---- answers ---- */

static void put_content(lk_json_writer *writer, const char *text) {
	lk_json_array(writer, "content");
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "type", "text");
	lk_json_put_text(writer, "text", text);
	lk_json_object_end(writer);
	lk_json_array_end(writer);
}

/* The document that the program printed, as an object; NULL: none, or a list, which the protocol
 * has no place for. */
static const lk_value *read_structure(lk_mcp_call *call, const char *text) {
	lk_stream *in = NULL;
	lk_value *value = NULL;
	if (!call->json || lk_stream_memory(text, strlen(text), "answer", &in, NULL) != LK_OK)
		return NULL;
	bool read = lk_json_document(&call->arena, in, &value, NULL) == LK_OK;
	lk_stream_close(in);
	return read && value->kind == LK_JSON_OBJECT ? value : NULL;
}

static void put_tool_answer(lk_mcp_call *call, lk_json_writer *writer, const lk_process_end *end,
                            const char *failed) {
	bool wrong = failed || end->code > 1; /* 1: it does not fit, which is an answer */
	const char *text = wrong && *end->messages ? end->messages : end->out;
	if (failed) text = failed;
	const lk_value *structure = failed ? NULL : read_structure(call, end->out);
	lk_json_object(writer, "result");
	put_content(writer, text);
	if (structure) lk_json_put_value(writer, "structuredContent", structure);
	lk_json_put_bool(writer, "isError", wrong);
	lk_json_object_end(writer);
}

static void put_resource_answer(const lk_mcp_call *call, lk_json_writer *writer,
                                const lk_process_end *end) {
	lk_json_object(writer, "result");
	lk_json_array(writer, "contents");
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "uri", call->uri);
	lk_json_put_text(writer, "mimeType", call->json ? "application/json" : "text/plain");
	lk_json_put_text(writer, "text", end->out);
	lk_json_object_end(writer);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void send_answer(lk_mcp_call *call, const lk_process_end *end, const char *failed) {
	lk_mcp_message m;
	if (call->uri && (failed || end->code != 0)) {
		const char *why = failed ? failed : end->messages;
		lk_mcp_send_error(call->server, call->id, LK_RPC_INTERNAL, why);
	} else if (lk_mcp_begin(&m)) {
		lk_json_put_value(&m.writer, "id", call->id);
		if (call->uri) put_resource_answer(call, &m.writer, end);
		else put_tool_answer(call, &m.writer, end, failed);
		lk_mcp_send(call->server, &m);
	}
}

/* ---- running ---- */

static const char **program_words(lk_mcp_call *call) {
	size_t count = 0;
	while (call->words[count]) count++;
	const char **all = LK_ARRAY(&call->arena, const char *, count + 2);
	if (!all) return NULL;
	all[0] = call->server->program;
	memcpy(all + 1, call->words, (count + 1) * sizeof *all);
	return all;
}

static void *run_call(void *context) {
	lk_mcp_call *call = context;
	lk_mcp_server *server = call->server;
	lk_process_end end = {0};
	lk_error err = {0};
	char line[sizeof err];
	const char **words = program_words(call), *failed = NULL;
	lk_stop_watch(call->stop);
	lk_status status = words ? LK_OK : lk_oom(&err);
	if (words) {
		lk_process process = {
			.arguments = words, .seconds = server->request.seconds, .limit = OUTPUT_LIMIT};
		status = lk_process_run(&process, &end, &err);
	}
	lk_stop_watch(NULL);
	if (status == LK_OK && end.late) {
		snprintf(line, sizeof line, "ended after %g s; lockstep mcp --seconds gives more",
		         server->request.seconds);
		failed = line;
	} else if (status != LK_OK) {
		failed = lk_error_text(&err, line, sizeof line);
	}
	pthread_mutex_lock(&server->lock);
	bool cancelled = call->cancelled;
	pthread_mutex_unlock(&server->lock);
	if (!cancelled) send_answer(call, &end, failed);
	lk_process_end_free(&end);
	pthread_mutex_lock(&server->lock);
	call->running = false;
	server->running--;
	pthread_cond_signal(&server->ended);
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

static void free_call(lk_mcp_call *call) {
	lk_stop_free(call->stop);
	lk_arena_free(&call->arena);
	free(call);
}

lk_status lk_mcp_call_start(lk_mcp_call *call, lk_error *err) {
	lk_mcp_server *server = call->server;
	call->stop = lk_stop_new();
	call->start_s = lk_clock_s();
	pthread_mutex_lock(&server->lock);
	while (server->running >= server->request.workers)
		pthread_cond_wait(&server->ended, &server->lock);
	call->running = call->stop && pthread_create(&call->thread, NULL, run_call, call) == 0;
	bool started = call->running;
	if (started) {
		server->running++;
		call->next = server->calls;
		server->calls = call;
	}
	pthread_mutex_unlock(&server->lock);
	if (started) return LK_OK;
	free_call(call);
	return lk_oom(err);
}

static bool is_same_id(const lk_value *a, const lk_value *b) {
	return a->kind == b->kind && a->text && b->text && strcmp(a->text, b->text) == 0;
}

void lk_mcp_call_cancel(lk_mcp_server *server, const lk_value *id) {
	pthread_mutex_lock(&server->lock);
	for (lk_mcp_call *call = server->calls; call; call = call->next)
		if (call->running && is_same_id(call->id, id)) {
			call->cancelled = true;
			lk_stop_ask(call->stop);
		}
	pthread_mutex_unlock(&server->lock);
}

static void send_progress(const lk_mcp_call *call, double seconds) {
	lk_mcp_message m;
	char text[128];
	if (!lk_mcp_begin(&m)) return;
	snprintf(text, sizeof text, "%.64s: %.0f s", call->words[0], seconds);
	lk_json_put_text(&m.writer, "method", "notifications/progress");
	lk_json_object(&m.writer, "params");
	lk_json_put_value(&m.writer, "progressToken", call->token);
	lk_json_put_number(&m.writer, "progress", seconds);
	lk_json_put_text(&m.writer, "message", text);
	lk_json_object_end(&m.writer);
	lk_mcp_send(call->server, &m);
}

void lk_mcp_calls_progress(lk_mcp_server *server) {
	/* Only this thread takes calls off the list. */
	for (lk_mcp_call *call = server->calls; call; call = call->next) {
		pthread_mutex_lock(&server->lock);
		bool running = call->running && !call->cancelled;
		pthread_mutex_unlock(&server->lock);
		if (running && call->token) send_progress(call, lk_clock_s() - call->start_s);
	}
}

void lk_mcp_calls_reap(lk_mcp_server *server, bool all) {
	for (lk_mcp_call **at = &server->calls; *at;) {
		lk_mcp_call *call = *at;
		pthread_mutex_lock(&server->lock);
		bool running = call->running;
		pthread_mutex_unlock(&server->lock);
		if (running && !all) {
			at = &call->next;
			continue;
		}
		pthread_join(call->thread, NULL);
		*at = call->next;
		free_call(call);
	}
}
