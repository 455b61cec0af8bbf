/* http_routes.c: the table of requests, and the functions that answer them. */
#include "serve/http.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/embedded.h"
#include "lockstep/catalogue.h"

/* ---- lists and files of the page ---- */

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

static enum MHD_Result get_machines(lk_exchange *exchange) {
	return get_list(exchange, &exchange->server->lists.machines);
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

/* The page's files are compiled in from data/web. */
static const struct {
	const char *ending, *type;
} asset_types[] = {
	{".html", "text/html; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

static const char *find_asset(const char *path, const char **type, size_t *size) {
	char name[256];
	snprintf(name, sizeof name, "web/%s", *path ? path : "serve.html");
	for (size_t i = 0; i < sizeof asset_types / sizeof *asset_types; i++) {
		if (!lk_ends_in(name, asset_types[i].ending)) continue;
		*type = asset_types[i].type;
		return lk_data_file(name, size);
	}
	return NULL;
}

static enum MHD_Result get_asset(lk_exchange *exchange) {
	const char *type = NULL;
	size_t size = 0;
	const char *bytes = find_asset(exchange->rest, &type, &size);
	if (bytes) return lk_respond_static(exchange, type, bytes, size);
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "path", "not found");
	lk_hint(&err, "the page is at /");
	return lk_respond_error(exchange, MHD_HTTP_NOT_FOUND, &err);
}

/* ---- questions ---- */

/* Resumes a suspended request whose answer is ready. */
static void resume_exchange(void *exchange) {
	lk_exchange *x = exchange;
	if (x->suspended) {
		lk_mhd.resume_connection(x->connection);
		x->server->resumed = true;
	}
	x->suspended = false;
}

static enum MHD_Result post_predict(lk_exchange *exchange) {
	if (exchange->page) lk_asks_overtake(&exchange->server->asks, exchange->page);
	if (!lk_asks_have_room(&exchange->server->asks, lk_exchange_client(exchange)))
		return lk_respond_busy(exchange);
	lk_ask *ask = lk_exchange_ask(exchange, NULL, NULL, 0);
	if (!ask) return MHD_YES;
	ask->ended = resume_exchange;
	ask->owner = exchange;
	exchange->ask = ask;
	exchange->suspended = true;
	lk_mhd.suspend_connection(exchange->connection);
	if (exchange->peer) exchange->peer->asking = true;
	lk_asks_submit(&exchange->server->asks, ask);
	return MHD_YES;
}

/* Answers what a launch line states, under the limits of a prediction. */
static enum MHD_Result post_launch(lk_exchange *exchange) {
	exchange->form = LK_FORM_STATED;
	return post_predict(exchange);
}

static enum MHD_Result respond_job(lk_exchange *exchange, unsigned status, const lk_job *job) {
	size_t size = 0;
	char *text = lk_job_json(job, &size);
	return lk_respond_json(exchange, status, text, size);
}

/* Starts a job for the question; without a question the exchange is already answered. */
static enum MHD_Result start_job(lk_exchange *exchange, lk_ask *ask) {
	lk_server *server = exchange->server;
	if (!ask) return MHD_YES;
	const lk_job *job = lk_asks_have_room(&server->asks, ask->client)
	                        ? lk_job_list_add(&server->jobs, &server->asks, ask)
	                        : NULL;
	if (!job) {
		lk_ask_drop(ask);
		return lk_respond_busy(exchange);
	}
	lk_asks_submit(&server->asks, ask);
	return respond_job(exchange, MHD_HTTP_ACCEPTED, job);
}

static enum MHD_Result post_job(lk_exchange *exchange) {
	return start_job(exchange, lk_exchange_ask(exchange, NULL, NULL, 0));
}

static enum MHD_Result post_files(lk_exchange *exchange) {
	if (!exchange->upload) exchange->upload = lk_upload_new(exchange);
	return exchange->upload ? start_job(exchange, lk_upload_ask(exchange->upload, exchange))
	                        : lk_respond_busy(exchange);
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
	{"POST", "/api/v1/predict", post_predict, LK_BODY_JSON, false, LK_ASK_PREDICT},
	{"POST", "/api/v1/launch", post_launch, LK_BODY_JSON, false, LK_ASK_PREDICT},
	{"POST", "/api/v1/sweep", post_job, LK_BODY_JSON, false, LK_ASK_SWEEP},
	{"POST", "/api/v1/plan", post_job, LK_BODY_JSON, false, LK_ASK_PLAN},
	{"POST", "/api/v1/rent", post_job, LK_BODY_JSON, false, LK_ASK_RENT},
	{"POST", "/api/v1/shard", post_job, LK_BODY_JSON, false, LK_ASK_SHARD},
	{"POST", "/api/v1/explain", post_files, LK_BODY_FORM, false, LK_ASK_EXPLAIN},
	{"POST", "/api/v1/whatif", post_files, LK_BODY_FORM, false, LK_ASK_WHATIF},
	{"POST", "/api/v1/diff", post_files, LK_BODY_FORM, false, LK_ASK_DIFF},
	{"POST", "/api/v1/stalls", post_files, LK_BODY_FORM, false, LK_ASK_STALLS},
	{"GET", "/api/v1/jobs/", get_job, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"DELETE", "/api/v1/jobs/", delete_job, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"GET", "/api/v1/models", get_models, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"GET", "/api/v1/gpus", get_gpus, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"GET", "/api/v1/machines", get_machines, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"GET", "/api/v1/options", get_options, LK_BODY_NONE, false, LK_ASK_KINDS},
	{"GET", "/api/v1/health", get_health, LK_BODY_NONE, true, LK_ASK_KINDS},
	{"GET", "/api/v1/openapi.json", get_openapi, LK_BODY_NONE, true, LK_ASK_KINDS},
	{"GET", "/report.css", get_style, LK_BODY_NONE, true, LK_ASK_KINDS},
	{"GET", "/report.js", get_script, LK_BODY_NONE, true, LK_ASK_KINDS},
	{"GET", "/", get_asset, LK_BODY_NONE, true, LK_ASK_KINDS},
};

static bool route_matches(const lk_route *route, const char *path, const char **rest) {
	size_t length = strlen(route->path);
	bool folder = route->path[length - 1] == '/';
	if (strncmp(route->path, path, length) != 0) return false;
	*rest = path + length;
	/* Paths below /api/ are no files of the page. */
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
