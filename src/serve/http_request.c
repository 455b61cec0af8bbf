/* http_request.c: a request from its headers to its answer: who asks, what is asked, the body, the question. */
#include "serve/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SWALLOWED = 4 * LK_BODY_LIMIT };

#define REQUEST_S 10.0          /* for a request to come whole */
#define RATE (64.0 * 1024)      /* bytes per second that an upload must have on top of that */
#define IDLE_S 30.0             /* between two requests */

/* ---- what is wrong with a request, told from its headers ---- */

static const char *header(const lk_exchange *x, const char *name) {
	return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result refuse_host(lk_exchange *x) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Host", "the server is not known by this name");
	lk_hint(&err, "call it by its address, or start lockstep serve with --name");
	return lk_respond_error(x, MHD_HTTP_MISDIRECTED_REQUEST, &err);
}

static enum MHD_Result refuse_origin(lk_exchange *x) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Origin", "pages of other sites may not ask");
	lk_hint(&err, "open the address that lockstep serve printed");
	return lk_respond_error(x, MHD_HTTP_FORBIDDEN, &err);
}

static enum MHD_Result refuse_token(lk_exchange *x) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Authorization", "the token of this run is missing or wrong");
	lk_hint(&err, "open the address that lockstep serve printed, or send the token in it as \"Authorization: Bearer "
				  "TOKEN\"");
	return lk_respond_with(x, MHD_HTTP_UNAUTHORIZED, &err, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
}

static enum MHD_Result refuse_path(lk_exchange *x, const char *allowed) {
	lk_error err = {0};
	if (!allowed) {
		lk_fail(&err, LK_ERR_INPUT, "path", "there is nothing here");
		lk_hint(&err, "see GET /api/v1/openapi.json");
		return lk_respond_error(x, MHD_HTTP_NOT_FOUND, &err);
	}
	lk_fail(&err, LK_ERR_INPUT, "method", "this path does not take it");
	lk_hint(&err, "use %s", allowed);
	return lk_respond_with(x, MHD_HTTP_METHOD_NOT_ALLOWED, &err, MHD_HTTP_HEADER_ALLOW, allowed);
}

static enum MHD_Result refuse_size(lk_exchange *x, double limit) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "body", "more than %.0f MiB", limit / 1048576);
	if (x->route->body == LK_BODY_FORM)
		lk_hint(&err, "send fewer traces, or start lockstep serve with a larger --upload");
	else
		lk_hint(&err, "send less");
	return lk_respond_error(x, MHD_HTTP_CONTENT_TOO_LARGE, &err);
}

static enum MHD_Result refuse_type(lk_exchange *x, const char *type) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Content-Type", "must be %s", type);
	return lk_respond_error(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, &err);
}

static enum MHD_Result refuse_form(lk_exchange *x) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "form", "is not known");
	lk_hint(&err, "give one of result, report, picture");
	return lk_respond_error(x, MHD_HTTP_BAD_REQUEST, &err);
}

static enum MHD_Result refuse_page(lk_exchange *x) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "page", "has 1 to %d characters", LK_PAGE_SIZE - 1);
	lk_hint(&err, "choose a shorter one, or leave it out");
	return lk_respond_error(x, MHD_HTTP_BAD_REQUEST, &err);
}

static const char *argument(const lk_exchange *x, const char *name) {
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool take_form(lk_exchange *x) {
	static const char *const forms[] = {[LK_FORM_RESULT] = "result", [LK_FORM_REPORT] = "report",
		[LK_FORM_PICTURE] = "picture"};
	const char *form = argument(x, "form");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (form && strcmp(form, forms[i]) != 0) continue;
		x->form = (lk_form)i;
		return true;
	}
	return false;
}

static double body_limit(const lk_exchange *x) {
	/* A form is a little larger than the files in it. */
	return x->route->body == LK_BODY_FORM ? x->server->request->upload_mib * 1048576 + LK_BODY_LIMIT : LK_BODY_LIMIT;
}

static bool has_type(const lk_exchange *x, const char *type) {
	const char *given = header(x, MHD_HTTP_HEADER_CONTENT_TYPE);
	size_t length = strlen(type);
	return given && strncasecmp(given, type, length) == 0 && (given[length] == '\0' || strchr("; \t", given[length]));
}

/* Answers what can be answered without the body: everything that is wrong with the headers. */
static enum MHD_Result check(lk_exchange *x, const char *method, const char *url) {
	const char *host = header(x, MHD_HTTP_HEADER_HOST), *allowed = NULL;
	static const char *const types[] = {[LK_BODY_JSON] = "application/json", [LK_BODY_FORM] = "multipart/form-data"};
	if (!lk_guard_host(&x->server->guard, host)) return refuse_host(x);
	if (!lk_guard_origin(header(x, MHD_HTTP_HEADER_ORIGIN), NULL, host)) return refuse_origin(x);
	x->route = lk_route_find(method, url, &x->rest, &allowed);
	bool open = x->route && x->route->open;
	/* A link from elsewhere may lead to the page; nothing but the page may use the interface. */
	if (!open && !lk_guard_origin(NULL, header(x, "Sec-Fetch-Site"), host)) return refuse_origin(x);
	if (!open && strncmp(url, "/api/", 5) == 0 &&
		!lk_guard_token(&x->server->guard, header(x, MHD_HTTP_HEADER_AUTHORIZATION)))
		return refuse_token(x);
	if (!x->route) return refuse_path(x, allowed);
	if (!take_form(x)) return refuse_form(x);
	x->page = argument(x, "page");
	if (x->page && (!*x->page || strlen(x->page) >= LK_PAGE_SIZE)) return refuse_page(x);
	if (x->route->body != LK_BODY_NONE) {
		const char *length = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
		if (!has_type(x, types[x->route->body])) return refuse_type(x, types[x->route->body]);
		/* what is little more is read first: a client that still sends would not see the answer */
		if (length && strtod(length, NULL) > body_limit(x) + SWALLOWED) return refuse_size(x, body_limit(x));
	}
	return MHD_YES;
}

/* ---- the body ---- */

static bool keep(lk_exchange *x, const char *data, size_t size) {
	if (x->size + size + 1 > x->room) {
		size_t room = 2 * (x->size + size + 1);
		char *body = realloc(x->body, room);
		if (!body) return false;
		x->body = body, x->room = room;
	}
	memcpy(x->body + x->size, data, size);
	x->size += size;
	x->body[x->size] = '\0';
	return true;
}

/* What is too large is counted and thrown away, so that the answer can say so; what is far too large ends the
 * connection. */
static enum MHD_Result take_body(lk_exchange *x, const char *data, size_t size) {
	x->received += (double)size;
	if (x->peer) x->peer->deadline = x->begin + REQUEST_S + (x->route->body == LK_BODY_FORM ? x->received / RATE : 0);
	if (x->route->body == LK_BODY_NONE || x->received > body_limit(x))
		return x->received > body_limit(x) + SWALLOWED ? MHD_NO : MHD_YES;
	if (x->route->body == LK_BODY_JSON) return keep(x, data, size) ? MHD_YES : MHD_NO;
	if (!x->upload) x->upload = lk_upload_new(x);
	if (!x->upload) return MHD_NO;
	lk_upload_take(x->upload, data, size);
	return MHD_YES;
}

/* ---- libmicrohttpd's callbacks ---- */

static lk_exchange *begin(lk_server *server, struct MHD_Connection *connection) {
	lk_exchange *x = calloc(1, sizeof *x);
	if (!x) return NULL;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	*x = (lk_exchange){.server = server, .connection = connection, .peer = info ? info->socket_context : NULL,
		.begin = lk_serve_now()};
	if (x->peer) x->peer->deadline = x->begin + REQUEST_S;
	return x;
}

static enum MHD_Result finish(lk_exchange *x) {
	if (x->ask) {
		lk_ask *ask = x->ask;
		char *text = ask->text;
		ask->text = NULL;
		if (ask->status == MHD_HTTP_NO_CONTENT) return lk_respond(x, MHD_HTTP_NO_CONTENT, "application/json", "", 0);
		return lk_respond_json(x, (unsigned)ask->status, text, ask->text_size);
	}
	if (x->received > body_limit(x)) return refuse_size(x, body_limit(x));
	return x->route->run(x);
}

enum MHD_Result lk_exchange_take(void *server, struct MHD_Connection *connection, const char *url, const char *method,
								const char *version, const char *data, size_t *size, void **exchange) {
	(void)version;
	lk_exchange *x = *exchange;
	if (!x) {
		*exchange = x = begin(server, connection);
		return x ? check(x, method, url) : MHD_NO;
	}
	if (*size > 0) {
		size_t given = *size;
		*size = 0;
		return take_body(x, data, given);
	}
	return finish(x);
}

void lk_exchange_end(void *server, struct MHD_Connection *connection, void **exchange,
					enum MHD_RequestTerminationCode how) {
	(void)connection, (void)how;
	lk_exchange *x = *exchange;
	if (!x) return;
	if (x->peer) x->peer->asking = false, lk_peer_within(x->peer, IDLE_S);
	lk_ask_free(&((lk_server *)server)->asks, x->ask);
	lk_upload_free(x->upload);
	free(x->body);
	free(x);
	*exchange = NULL;
}
