/* http_request.c: handles a request: checks its headers, reads its body, calls its route. */
#include "serve/http.h"
#include "system/clock.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SWALLOWED = 4 * LK_BODY_LIMIT };

#define REQUEST_S 10.0          /* for a complete request */
#define RATE      (64.0 * 1024) /* minimum rate of an upload, bytes per second, after that */
#define IDLE_S    30.0          /* between requests */

/* ---- checks of headers ---- */

static const char *find_header(const lk_exchange *exchange, const char *name) {
	return lk_mhd.lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result refuse_host(lk_exchange *exchange) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Host", "the server is not known by this name");
	lk_hint(&err, "call it by its address, or start lockstep serve with --name");
	return lk_respond_error(exchange, MHD_HTTP_MISDIRECTED_REQUEST, &err);
}

/* Headers that identify the client or delimit the body must not be repeated: a proxy may have
 * followed the other one (RFC 9112, section 3.2: two Host headers are answered with 400). */
static enum MHD_Result refuse_twice(lk_exchange *exchange, const char *name) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, name, "is given twice");
	lk_hint(&err, "send it once");
	return lk_respond_error(exchange, MHD_HTTP_BAD_REQUEST, &err);
}

static enum MHD_Result refuse_framing(lk_exchange *exchange, const char *name, const char *what) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, name, "%s", what);
	lk_hint(&err, "send Content-Length, or Transfer-Encoding: chunked");
	return lk_respond_error(exchange, MHD_HTTP_BAD_REQUEST, &err);
}

static enum MHD_Result refuse_origin(lk_exchange *exchange) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Origin", "pages of other sites may not send requests");
	lk_hint(&err, "open the address that lockstep serve printed");
	return lk_respond_error(exchange, MHD_HTTP_FORBIDDEN, &err);
}

static enum MHD_Result refuse_token(lk_exchange *exchange) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Authorization", "the token of this run is missing or wrong");
	lk_hint(&err, "open the address that lockstep serve printed, or send the token in it as "
	              "\"Authorization: Bearer "
	              "TOKEN\"");
	return lk_respond_with(exchange, MHD_HTTP_UNAUTHORIZED, &err, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
	                       "Bearer");
}

static enum MHD_Result refuse_path(lk_exchange *exchange, const char *allowed) {
	lk_error err = {0};
	if (!allowed) {
		lk_fail(&err, LK_ERR_INPUT, "path", "not found");
		lk_hint(&err, "see GET /api/v1/openapi.json");
		return lk_respond_error(exchange, MHD_HTTP_NOT_FOUND, &err);
	}
	lk_fail(&err, LK_ERR_INPUT, "method", "not allowed for this path");
	lk_hint(&err, "use %s", allowed);
	return lk_respond_with(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, &err, MHD_HTTP_HEADER_ALLOW,
	                       allowed);
}

static enum MHD_Result refuse_size(lk_exchange *exchange, double limit) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "body", "more than %.0f MiB", limit / 1048576);
	if (exchange->route->body == LK_BODY_FORM)
		lk_hint(&err, "send fewer traces, or start lockstep serve with a larger --upload");
	else lk_hint(&err, "send less");
	return lk_respond_error(exchange, MHD_HTTP_CONTENT_TOO_LARGE, &err);
}

static enum MHD_Result refuse_type(lk_exchange *exchange, const char *type) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "Content-Type", "must be %s", type);
	return lk_respond_error(exchange, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, &err);
}

static enum MHD_Result refuse_form(lk_exchange *exchange) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "form", "is unknown");
	lk_hint(&err, "give one of result, report, picture; of a prediction timeline, graph too");
	return lk_respond_error(exchange, MHD_HTTP_BAD_REQUEST, &err);
}

static enum MHD_Result refuse_page(lk_exchange *exchange) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "page", "has 1 to %d characters", LK_PAGE_SIZE - 1);
	lk_hint(&err, "choose a shorter one, or leave it out");
	return lk_respond_error(exchange, MHD_HTTP_BAD_REQUEST, &err);
}

static const char *find_query_argument(const lk_exchange *exchange, const char *name) {
	return lk_mhd.lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

static bool take_form_argument(lk_exchange *exchange) {
	static const char *const forms[] = {
		[LK_FORM_RESULT] = "result",     [LK_FORM_REPORT] = "report", [LK_FORM_PICTURE] = "picture",
		[LK_FORM_TIMELINE] = "timeline", [LK_FORM_GRAPH] = "graph",
	};
	const char *form = find_query_argument(exchange, "form");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (form && strcmp(form, forms[i]) != 0) continue;
		if (i > LK_FORM_PICTURE && exchange->route->kind != LK_ASK_PREDICT) return false;
		exchange->form = (lk_form)i;
		return true;
	}
	return false;
}

static double find_body_limit(const lk_exchange *exchange) {
	/* The form adds some bytes to those of its files. */
	return exchange->route->body == LK_BODY_FORM
	           ? exchange->server->request->upload_mib * 1048576 + LK_BODY_LIMIT
	           : LK_BODY_LIMIT;
}

static bool has_content_type(const lk_exchange *exchange, const char *type) {
	const char *given = find_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE);
	size_t length = strlen(type);
	return given && strncasecmp(given, type, length) == 0 &&
	       (given[length] == '\0' || strchr("; \t", given[length]));
}

static const char *const given_once[] = {MHD_HTTP_HEADER_HOST,
                                         MHD_HTTP_HEADER_ORIGIN,
                                         MHD_HTTP_HEADER_AUTHORIZATION,
                                         "Sec-Fetch-Site",
                                         MHD_HTTP_HEADER_CONTENT_TYPE,
                                         MHD_HTTP_HEADER_CONTENT_LENGTH,
                                         MHD_HTTP_HEADER_TRANSFER_ENCODING};

struct head_count {
	unsigned seen;     /* a bit for each of given_once */
	const char *twice; /* the first repeated header, or NULL */
};

static enum MHD_Result count_header(void *count, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
	(void)kind, (void)value;
	struct head_count *heads = count;
	for (unsigned i = 0; i < sizeof given_once / sizeof *given_once; i++) {
		if (strcasecmp(name, given_once[i]) != 0) continue;
		if (heads->seen & 1u << i && !heads->twice) heads->twice = given_once[i];
		heads->seen |= 1u << i;
	}
	return MHD_YES;
}

/* Answers requests whose headers a proxy may have understood differently: where the body ends, who
 * asks. MHD_YES: there are no such headers. */
static enum MHD_Result check_framing(lk_exchange *exchange, bool *refused) {
	struct head_count heads = {0};
	lk_mhd.get_connection_values(exchange->connection, MHD_HEADER_KIND, count_header, &heads);
	const char *coding = find_header(exchange, MHD_HTTP_HEADER_TRANSFER_ENCODING);
	*refused = true;
	if (heads.twice) return refuse_twice(exchange, heads.twice);
	if (coding && strcasecmp(coding, "chunked") != 0)
		return refuse_framing(exchange, MHD_HTTP_HEADER_TRANSFER_ENCODING, "is not chunked");
	if (coding && find_header(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH))
		return refuse_framing(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH,
		                      "and Transfer-Encoding both say where the body ends");
	*refused = false;
	return MHD_YES;
}

/* Answers errors in the headers, without the body. */
static enum MHD_Result check_request_head(lk_exchange *exchange, const char *method,
                                          const char *url) {
	const char *host = find_header(exchange, MHD_HTTP_HEADER_HOST), *allowed = NULL;
	static const char *const types[] = {
		[LK_BODY_JSON] = "application/json", [LK_BODY_FORM] = "multipart/form-data"};
	bool refused;
	enum MHD_Result framing = check_framing(exchange, &refused);
	if (refused) return framing;
	if (!lk_guard_host(&exchange->server->guard, host)) return refuse_host(exchange);
	if (!lk_guard_origin(find_header(exchange, MHD_HTTP_HEADER_ORIGIN), NULL, host))
		return refuse_origin(exchange);
	exchange->route = lk_route_find(method, url, &exchange->rest, &allowed);
	bool open = exchange->route && exchange->route->open;
	/* Other sites may link to the page, but only the page may use the interface. */
	if (!open && !lk_guard_origin(NULL, find_header(exchange, "Sec-Fetch-Site"), host))
		return refuse_origin(exchange);
	if (!open && strncmp(url, "/api/", 5) == 0 &&
	    !lk_guard_token(&exchange->server->guard,
	                    find_header(exchange, MHD_HTTP_HEADER_AUTHORIZATION)))
		return refuse_token(exchange);
	if (!exchange->route) return refuse_path(exchange, allowed);
	if (!take_form_argument(exchange)) return refuse_form(exchange);
	exchange->page = find_query_argument(exchange, "page");
	if (exchange->page && (!*exchange->page || strlen(exchange->page) >= LK_PAGE_SIZE))
		return refuse_page(exchange);
	if (exchange->route->body != LK_BODY_NONE) {
		const char *length = find_header(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH);
		if (!has_content_type(exchange, types[exchange->route->body]))
			return refuse_type(exchange, types[exchange->route->body]);
		/* A slightly larger body is read first: a client that is still sending would not see the
		 * answer. */
		if (length && strtod(length, NULL) > find_body_limit(exchange) + SWALLOWED)
			return refuse_size(exchange, find_body_limit(exchange));
	}
	return MHD_YES;
}

/* ---- the body ---- */

static bool keep_body_bytes(lk_exchange *exchange, const char *data, size_t size) {
	LK_ASSERT(exchange->size <= exchange->room);
	if (exchange->size + size + 1 > exchange->room) {
		size_t room = 2 * (exchange->size + size + 1);
		char *body = realloc(exchange->body, room);
		if (!body) return false;
		exchange->body = body;
		exchange->room = room;
	}
	memcpy(exchange->body + exchange->size, data, size);
	exchange->size += size;
	exchange->body[exchange->size] = '\0';
	return true;
}

/* Counts and discards the bytes beyond the limit, so that the answer can report it; far beyond it
 * the connection ends. */
static enum MHD_Result take_body_bytes(lk_exchange *exchange, const char *data, size_t size) {
	exchange->received += (double)size;
	if (exchange->peer)
		exchange->peer->deadline =
			exchange->begin + REQUEST_S +
			(exchange->route->body == LK_BODY_FORM ? exchange->received / RATE : 0);
	if (exchange->route->body == LK_BODY_NONE || exchange->received > find_body_limit(exchange))
		return exchange->received > find_body_limit(exchange) + SWALLOWED ? MHD_NO : MHD_YES;
	if (exchange->route->body == LK_BODY_JSON)
		return keep_body_bytes(exchange, data, size) ? MHD_YES : MHD_NO;
	if (!exchange->upload) exchange->upload = lk_upload_new(exchange);
	if (!exchange->upload) return MHD_NO;
	lk_upload_take(exchange->upload, data, size);
	return MHD_YES;
}

/* ---- libmicrohttpd's callbacks ---- */

static lk_exchange *begin_exchange(lk_server *server, struct MHD_Connection *connection) {
	lk_exchange *exchange = calloc(1, sizeof *exchange);
	if (!exchange) return NULL;
	const union MHD_ConnectionInfo *info =
		lk_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	*exchange = (lk_exchange){.server = server,
	                          .connection = connection,
	                          .peer = info ? info->socket_context : NULL,
	                          .begin = lk_clock_s()};
	if (exchange->peer) exchange->peer->deadline = exchange->begin + REQUEST_S;
	return exchange;
}

static enum MHD_Result finish_exchange(lk_exchange *exchange) {
	if (exchange->ask) {
		lk_ask *ask = exchange->ask;
		char *text = ask->text;
		ask->text = NULL;
		if (ask->status == MHD_HTTP_NO_CONTENT)
			return lk_respond(exchange, MHD_HTTP_NO_CONTENT, "application/json", "", 0);
		return lk_respond_json(exchange, (unsigned)ask->status, text, ask->text_size);
	}
	if (exchange->received > find_body_limit(exchange))
		return refuse_size(exchange, find_body_limit(exchange));
	return exchange->route->run(exchange);
}

enum MHD_Result lk_exchange_take(void *server, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **exchange) {
	(void)version;
	lk_exchange *x = *exchange;
	if (!x) {
		*exchange = x = begin_exchange(server, connection);
		return x ? check_request_head(x, method, url) : MHD_NO;
	}
	if (*size > 0) {
		size_t given = *size;
		*size = 0;
		return take_body_bytes(x, data, given);
	}
	return finish_exchange(x);
}

void lk_exchange_end(void *server, struct MHD_Connection *connection, void **exchange,
                     enum MHD_RequestTerminationCode how) {
	(void)connection, (void)how;
	lk_exchange *x = *exchange;
	if (!x) return;
	if (x->peer) {
		x->peer->asking = false;
		lk_peer_within(x->peer, IDLE_S);
	}
	lk_ask_free(&((lk_server *)server)->asks, x->ask);
	lk_upload_free(x->upload);
	free(x->body);
	free(x);
	*exchange = NULL;
}
