/* http_question.c: makes a question for a child process from a request: folder, limits, form. */
#include "serve/http.h"

#include <stdio.h>

/* Niceness: the server itself comes first, then questions whose user is waiting, then the rest. */
enum { NICE = 5, NICE_QUICK = 1 };

uint64_t lk_exchange_client(const lk_exchange *exchange) {
	return exchange->peer ? exchange->peer->client : 0;
}

enum MHD_Result lk_respond_busy(lk_exchange *exchange) {
	lk_error err = {0};
	bool ending = exchange->server->ending;
	lk_fail(&err, LK_ERR_IO, "server",
	        ending ? "is shutting down" : "too many questions are waiting");
	lk_hint(&err, ending ? "start lockstep serve again" : "ask again in a few seconds");
	return lk_respond_with(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, &err,
	                       MHD_HTTP_HEADER_RETRY_AFTER, "2");
}

lk_ask *lk_exchange_ask(lk_exchange *exchange, const char *folder, const char *const *traces,
                        int count) {
	lk_question_kind kind = exchange->route->kind;
	const lk_serve_request *request = exchange->server->request;
	char own[LK_FOLDER_SIZE];
	lk_error err = {0};
	bool quick = kind == LK_ASK_PREDICT;
	if (exchange->server->ending) {
		lk_respond_busy(exchange);
		return NULL;
	}
	if (!folder && lk_folder_below(exchange->server->folder, ++exchange->server->folders, own,
	                               &err) != LK_OK) {
		lk_respond_error(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, &err);
		return NULL;
	}
	double seconds = quick ? request->seconds : request->long_seconds;
	int threads = quick ? 1 : exchange->server->workers;
	lk_question question = {
		.kind = kind,
		.folder = folder ? folder : own,
		.body = exchange->size ? exchange->body : "{}",
		.size = exchange->size ? exchange->size : 2,
		.traces = traces,
		.trace_count = count,
		.threads = threads,
		.form = exchange->form,
		.limits = {.memory_bytes = request->memory_mib * 1048576,
	               .cpu_seconds = seconds * threads,
	               .nice = exchange->form == LK_FORM_PICTURE ? NICE_QUICK : NICE},
	};
	if (exchange->page && quick)
		snprintf(question.page, sizeof question.page, "%s", exchange->page);
	lk_ask *ask = lk_ask_new(&question, seconds);
	if (ask) {
		ask->client = lk_exchange_client(exchange);
		return ask;
	}
	lk_folder_remove(question.folder);
	lk_respond_busy(exchange);
	return NULL;
}
