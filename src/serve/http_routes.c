/* http_routes.c: the table of what can be asked, and the functions that answer. */
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/embedded.h"
#include "lockstep/catalogue.h"

/* Questions give way to the server itself, which everybody waits for; least of all those whose
 * answer is watched. */
enum {
	NICE = 5,
	NICE_QUICK = 1
};

/* ---- what is known without asking ---- */

static enum MHD_Result get_list(lk_exchange *exchange, const lk_list_text *list) {
	return lk_respond_static(exchange, "application/json", list->text, list->size);
}

static enum MHD_Result get_style(lk_exchange *exchange) {
	return lk_respond_static(exchange, "text/css; charset=utf-8",
	                         exchange->server->lists.style.text,
	                         exchange->server->lists.style.size);
}

static enum MHD_Result get_script(lk_exchange *exchange) {
	return lk_respond_static(exchange, "text/javascript; charset=utf-8",
	                         exchange->server->lists.script.text,
	                         exchange->server->lists.script.size);
}

static enum MHD_Result get_models(lk_exchange *exchange) {
	return get_list(exchange, &exchange->server->lists.models);
}

static enum MHD_Result get_gpus(lk_exchange *exchange) {
	return get_list(exchange, &exchange->server->lists.gpus);
}

static enum MHD_Result get_options(lk_exchange *exchange) {
	return get_list(exchange, &exchange->server->lists.options);
}

static enum MHD_Result get_openapi(lk_exchange *exchange) {
	size_t size = 0;
	const char *text = lk_data_file("web/openapi.json", &size);
	return text ? lk_respond_static(exchange, "application/json", text, size) : MHD_NO;
}

static enum MHD_Result get_health(lk_exchange *exchange) {
	const lk_asks *asks = &exchange->server->asks;
	char text[256];
	int size = snprintf(text, sizeof text,
	                    "{\"status\": \"ok\", \"version\": \"%s\", \"data_date\": \"%s\", "
	                    "\"running\": %d, \"waiting\": %d, "
	                    "\"upload_bytes\": %.0f}\n",
	                    lk_version(), lk_data_date(), asks->running[0] + asks->running[1],
	                    asks->waiting, exchange->server->request->upload_mib * 1048576);
	return lk_respond(exchange, MHD_HTTP_OK, "application/json", text, (size_t)size);
}

static enum MHD_Result get_asset(lk_exchange *exchange) {
	const char *type = NULL;
	size_t size = 0;
	const char *bytes = lk_asset_find(exchange->rest, &type, &size);
	if (bytes) return lk_respond_static(exchange, type, bytes, size);
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "path", "not found");
	lk_hint(&err, "the page is at /");
	return lk_respond_error(exchange, MHD_HTTP_NOT_FOUND, &err);
}

/* ---- questions ---- */

static enum MHD_Result respond_busy(lk_exchange *exchange) {
	lk_error err = {0};
	bool ending = exchange->server->ending;
	lk_fail(&err, LK_ERR_IO, "server", ending ? "it is ending" : "too many questions wait");
	lk_hint(&err, ending ? "start lockstep serve again" : "ask again in a few seconds");
	return lk_respond_with(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, &err,
	                       MHD_HTTP_HEADER_RETRY_AFTER, "2");
}

lk_ask *lk_exchange_ask(lk_exchange *exchange, lk_question_kind kind, const char *folder,
                        const char *const *traces, int count) {
	const lk_serve_request *request = exchange->server->request;
	char own[LK_FOLDER_SIZE];
	lk_error err = {0};
	bool quick = kind == LK_ASK_PREDICT;
	if (exchange->server->ending) {
		respond_busy(exchange);
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
	if (ask) return ask;
	lk_folder_remove(question.folder);
	respond_busy(exchange);
	return NULL;
}

/* The answer was made; the request goes on where it stood. */
static void resume_exchange(void *exchange) {
	lk_exchange *x = exchange;
	if (x->suspended) MHD_resume_connection(x->connection), x->server->resumed = true;
	x->suspended = false;
}

static enum MHD_Result post_predict(lk_exchange *exchange) {
	if (exchange->page) lk_asks_overtake(&exchange->server->asks, exchange->page);
	if (exchange->server->asks.waiting >= LK_ASKS_WAITING) return respond_busy(exchange);
	lk_ask *ask = lk_exchange_ask(exchange, LK_ASK_PREDICT, NULL, NULL, 0);
	if (!ask) return MHD_YES;
	ask->ended = resume_exchange, ask->owner = exchange;
	exchange->ask = ask;
	exchange->suspended = true;
	MHD_suspend_connection(exchange->connection);
	if (exchange->peer) exchange->peer->asking = true;
	lk_asks_submit(&exchange->server->asks, ask);
	return MHD_YES;
}

static enum MHD_Result respond_job(lk_exchange *exchange, unsigned status, const lk_job *job) {
	size_t size = 0;
	char *text = lk_job_json(job, &size);
	return lk_respond_json(exchange, status, text, size);
}

/* A job for the question; without a question the exchange is answered. */
static enum MHD_Result start_job(lk_exchange *exchange, lk_ask *ask) {
	lk_server *server = exchange->server;
	if (!ask) return MHD_YES;
	const lk_job *job = server->asks.waiting < LK_ASKS_WAITING
	                        ? lk_job_list_add(&server->jobs, &server->asks, ask)
	                        : NULL;
	if (!job) {
		lk_ask_drop(ask);
		return respond_busy(exchange);
	}
	lk_asks_submit(&server->asks, ask);
	return respond_job(exchange, MHD_HTTP_ACCEPTED, job);
}

static enum MHD_Result post_plan(lk_exchange *exchange) {
	return start_job(exchange, lk_exchange_ask(exchange, LK_ASK_PLAN, NULL, NULL, 0));
}

static enum MHD_Result post_explain(lk_exchange *exchange) {
	if (!exchange->upload) exchange->upload = lk_upload_new(exchange);
	return exchange->upload ? start_job(exchange, lk_upload_ask(exchange->upload, exchange))
	                        : respond_busy(exchange);
}

static const lk_job *find_job(lk_exchange *exchange) {
	const lk_job *job = lk_job_list_find(&exchange->server->jobs, exchange->rest);
	if (job) return job;
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "job", "unknown job");
	lk_hint(&err, "only the latest %d are kept", LK_JOBS);
	lk_respond_error(exchange, MHD_HTTP_NOT_FOUND, &err);
	return NULL;
}

static enum MHD_Result get_job(lk_exchange *exchange) {
	const lk_job *job = find_job(exchange);
	return job ? respond_job(exchange, MHD_HTTP_OK, job) : MHD_YES;
}

static enum MHD_Result delete_job(lk_exchange *exchange) {
	const lk_job *job = find_job(exchange);
	if (!job) return MHD_YES;
	lk_job_list_remove(&exchange->server->jobs, &exchange->server->asks, job);
	return lk_respond(exchange, MHD_HTTP_NO_CONTENT, "application/json", "", 0);
}

/* ---- the table ---- */

static const lk_route routes[] = {
	{"POST", "/api/v1/predict", post_predict, LK_BODY_JSON, false},
	{"POST", "/api/v1/plan", post_plan, LK_BODY_JSON, false},
	{"POST", "/api/v1/explain", post_explain, LK_BODY_FORM, false},
	{"GET", "/api/v1/jobs/", get_job, LK_BODY_NONE, false},
	{"DELETE", "/api/v1/jobs/", delete_job, LK_BODY_NONE, false},
	{"GET", "/api/v1/models", get_models, LK_BODY_NONE, false},
	{"GET", "/api/v1/gpus", get_gpus, LK_BODY_NONE, false},
	{"GET", "/api/v1/options", get_options, LK_BODY_NONE, false},
	{"GET", "/api/v1/health", get_health, LK_BODY_NONE, true},
	{"GET", "/api/v1/openapi.json", get_openapi, LK_BODY_NONE, true},
	{"GET", "/report.css", get_style, LK_BODY_NONE, true},
	{"GET", "/report.js", get_script, LK_BODY_NONE, true},
	{"GET", "/", get_asset, LK_BODY_NONE, true},
};

static bool route_matches(const lk_route *route, const char *path, const char **rest) {
	size_t length = strlen(route->path);
	bool folder = route->path[length - 1] == '/';
	if (strncmp(route->path, path, length) != 0) return false;
	*rest = path + length;
	/* What stands behind /api/ is no file of the page. */
	if (length == 1) return strncmp(path, "/api/", 5) != 0;
	return folder ? **rest != '\0' : **rest == '\0';
}

const lk_route *lk_route_find(const char *method, const char *path, const char **rest,
                              const char **allowed) {
	const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		if (!route_matches(&routes[i], path, rest)) continue;
		if (strcmp(routes[i].method, wanted) == 0) return &routes[i];
		*allowed = *allowed ? "GET, DELETE" : routes[i].method;
	}
	return NULL;
}
