/* http_routes.c: the table of what can be asked, and the functions that answer. */
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/embedded.h"
#include "lockstep/catalogue.h"

/* Questions give way to the server itself, which everybody waits for; least of all those whose answer is watched. */
enum { NICE = 5, NICE_QUICK = 1 };

/* ---- what is known without asking ---- */

static enum MHD_Result get_list(lk_exchange *x, const lk_list_text *list) {
	return lk_respond_static(x, "application/json", list->text, list->size);
}

static enum MHD_Result get_style(lk_exchange *x) {
	return lk_respond_static(x, "text/css; charset=utf-8", x->server->lists.style.text, x->server->lists.style.size);
}

static enum MHD_Result get_script(lk_exchange *x) {
	return lk_respond_static(x, "text/javascript; charset=utf-8", x->server->lists.script.text,
		x->server->lists.script.size);
}

static enum MHD_Result get_models(lk_exchange *x) {
	return get_list(x, &x->server->lists.models);
}

static enum MHD_Result get_gpus(lk_exchange *x) {
	return get_list(x, &x->server->lists.gpus);
}

static enum MHD_Result get_options(lk_exchange *x) {
	return get_list(x, &x->server->lists.options);
}

static enum MHD_Result get_openapi(lk_exchange *x) {
	size_t size = 0;
	const char *text = lk_data_file("web/openapi.json", &size);
	return text ? lk_respond_static(x, "application/json", text, size) : MHD_NO;
}

static enum MHD_Result get_health(lk_exchange *x) {
	const lk_asks *asks = &x->server->asks;
	char text[256];
	int size = snprintf(text, sizeof text,
		"{\"status\": \"ok\", \"version\": \"%s\", \"data_date\": \"%s\", \"running\": %d, \"waiting\": %d, "
		"\"upload_bytes\": %.0f}\n",
		lk_version(), lk_data_date(), asks->running[0] + asks->running[1], asks->waiting,
		x->server->request->upload_mib * 1048576);
	return lk_respond(x, MHD_HTTP_OK, "application/json", text, (size_t)size);
}

static enum MHD_Result get_asset(lk_exchange *x) {
	const char *type = NULL;
	size_t size = 0;
	const char *bytes = lk_asset_find(x->rest, &type, &size);
	if (bytes) return lk_respond_static(x, type, bytes, size);
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "path", "there is nothing here");
	lk_hint(&err, "the page is at /");
	return lk_respond_error(x, MHD_HTTP_NOT_FOUND, &err);
}

/* ---- questions ---- */

static enum MHD_Result busy(lk_exchange *x) {
	lk_error err = {0};
	bool ending = x->server->ending;
	lk_fail(&err, LK_ERR_IO, "server", ending ? "it is ending" : "too many questions wait");
	lk_hint(&err, ending ? "start lockstep serve again" : "ask again in a few seconds");
	return lk_respond_with(x, MHD_HTTP_SERVICE_UNAVAILABLE, &err, MHD_HTTP_HEADER_RETRY_AFTER, "2");
}

lk_ask *lk_exchange_ask(lk_exchange *x, lk_question_kind kind, const char *folder, const char *const *traces,
						int count) {
	const lk_serve_request *r = x->server->request;
	char own[LK_FOLDER_SIZE];
	lk_error err = {0};
	bool quick = kind == LK_ASK_PREDICT;
	if (x->server->ending) {
		busy(x);
		return NULL;
	}
	if (!folder && lk_folder_below(x->server->folder, ++x->server->folders, own, &err) != LK_OK) {
		lk_respond_error(x, MHD_HTTP_SERVICE_UNAVAILABLE, &err);
		return NULL;
	}
	double seconds = quick ? r->seconds : r->long_seconds;
	int threads = quick ? 1 : x->server->workers;
	lk_question question = {
		.kind = kind, .folder = folder ? folder : own, .body = x->size ? x->body : "{}", .size = x->size ? x->size : 2,
		.traces = traces, .trace_count = count, .threads = threads, .form = x->form,
		.limits = {.memory_bytes = r->memory_mib * 1048576, .cpu_seconds = seconds * threads,
			.nice = x->form == LK_FORM_PICTURE ? NICE_QUICK : NICE},
	};
	if (x->page && quick) snprintf(question.page, sizeof question.page, "%s", x->page);
	lk_ask *ask = lk_ask_new(&question, seconds);
	if (ask) return ask;
	lk_folder_remove(question.folder);
	busy(x);
	return NULL;
}

/* The answer was made; the request goes on where it stood. */
static void resume(void *exchange) {
	lk_exchange *x = exchange;
	if (x->suspended) MHD_resume_connection(x->connection), x->server->resumed = true;
	x->suspended = false;
}

static enum MHD_Result post_predict(lk_exchange *x) {
	if (x->page) lk_asks_overtake(&x->server->asks, x->page);
	if (x->server->asks.waiting >= LK_ASKS_WAITING) return busy(x);
	lk_ask *ask = lk_exchange_ask(x, LK_ASK_PREDICT, NULL, NULL, 0);
	if (!ask) return MHD_YES;
	ask->ended = resume, ask->owner = x;
	x->ask = ask;
	x->suspended = true;
	MHD_suspend_connection(x->connection);
	if (x->peer) x->peer->asking = true;
	lk_asks_submit(&x->server->asks, ask);
	return MHD_YES;
}

static enum MHD_Result respond_job(lk_exchange *x, unsigned status, const lk_job *job) {
	size_t size = 0;
	char *text = lk_job_json(job, &size);
	return lk_respond_json(x, status, text, size);
}

/* A job for the question; without a question the exchange is answered. */
static enum MHD_Result start_job(lk_exchange *x, lk_ask *ask) {
	lk_server *s = x->server;
	if (!ask) return MHD_YES;
	const lk_job *job = s->asks.waiting < LK_ASKS_WAITING ? lk_job_list_add(&s->jobs, &s->asks, ask) : NULL;
	if (!job) {
		lk_ask_drop(ask);
		return busy(x);
	}
	lk_asks_submit(&s->asks, ask);
	return respond_job(x, MHD_HTTP_ACCEPTED, job);
}

static enum MHD_Result post_plan(lk_exchange *x) {
	return start_job(x, lk_exchange_ask(x, LK_ASK_PLAN, NULL, NULL, 0));
}

static enum MHD_Result post_explain(lk_exchange *x) {
	if (!x->upload) x->upload = lk_upload_new(x);
	return x->upload ? start_job(x, lk_upload_ask(x->upload, x)) : busy(x);
}

static const lk_job *find_job(lk_exchange *x) {
	const lk_job *job = lk_job_list_find(&x->server->jobs, x->rest);
	if (job) return job;
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "job", "there is none of this number");
	lk_hint(&err, "only the latest %d are kept", LK_JOBS);
	lk_respond_error(x, MHD_HTTP_NOT_FOUND, &err);
	return NULL;
}

static enum MHD_Result get_job(lk_exchange *x) {
	const lk_job *job = find_job(x);
	return job ? respond_job(x, MHD_HTTP_OK, job) : MHD_YES;
}

static enum MHD_Result delete_job(lk_exchange *x) {
	const lk_job *job = find_job(x);
	if (!job) return MHD_YES;
	lk_job_list_remove(&x->server->jobs, &x->server->asks, job);
	return lk_respond(x, MHD_HTTP_NO_CONTENT, "application/json", "", 0);
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

static bool leads_to(const lk_route *route, const char *path, const char **rest) {
	size_t length = strlen(route->path);
	bool folder = route->path[length - 1] == '/';
	if (strncmp(route->path, path, length) != 0) return false;
	*rest = path + length;
	/* What stands behind /api/ is no file of the page. */
	if (length == 1) return strncmp(path, "/api/", 5) != 0;
	return folder ? **rest != '\0' : **rest == '\0';
}

const lk_route *lk_route_find(const char *method, const char *path, const char **rest, const char **allowed) {
	const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		if (!leads_to(&routes[i], path, rest)) continue;
		if (strcmp(routes[i].method, wanted) == 0) return &routes[i];
		*allowed = *allowed ? "GET, DELETE" : routes[i].method;
	}
	return NULL;
}
