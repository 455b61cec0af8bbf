/* http_respond.c: queues answers with headers that restrict what a browser may do with them. */
#include "serve/http.h"

#include <stdlib.h>

#define TAKING_S 60.0

static const char json[] = "application/json";

/* Scripts, styles and data come only from this server; no site frames the page; no site learns its
 * address. */
static const struct {
	const char *name, *value;
} headers[] = {
	{"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
                                "'self' data:; connect-src 'self'; "
                                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Referrer-Policy", "no-referrer"},
	/* The page may open Perfetto and pass it a timeline; no other window has access to the page. */
	{"Cross-Origin-Opener-Policy", "same-origin-allow-popups"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-store"},
};

static enum MHD_Result queue_response(lk_exchange *exchange, unsigned status, const char *type,
                                      struct MHD_Response *response, const char *header,
                                      const char *value) {
	if (!response) return MHD_NO;
	bool whole = lk_mhd.add_response_header(response, "Content-Type", type) == MHD_YES;
	for (size_t i = 0; whole && i < sizeof headers / sizeof *headers; i++)
		whole = lk_mhd.add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
	if (whole && header) whole = lk_mhd.add_response_header(response, header, value) == MHD_YES;
	if (!whole) { /* out of memory: no answer is better than one without its headers */
		lk_mhd.destroy_response(response);
		return MHD_NO;
	}
	if (exchange->peer) {
		exchange->peer->asking = false;
		lk_peer_within(exchange->peer, TAKING_S);
	}
	enum MHD_Result result = lk_mhd.queue_response(exchange->connection, status, response);
	lk_mhd.destroy_response(response);
	return result;
}

enum MHD_Result lk_respond(lk_exchange *exchange, unsigned status, const char *type,
                           const void *bytes, size_t size) {
	struct MHD_Response *Response =
		lk_mhd.create_response_from_buffer(size, (void *)bytes, MHD_RESPMEM_MUST_COPY);
	return queue_response(exchange, status, type, Response, NULL, NULL);
}

enum MHD_Result lk_respond_static(lk_exchange *exchange, const char *type, const void *bytes,
                                  size_t size) {
	struct MHD_Response *Response =
		lk_mhd.create_response_from_buffer(size, (void *)bytes, MHD_RESPMEM_PERSISTENT);
	return queue_response(exchange, MHD_HTTP_OK, type, Response, NULL, NULL);
}

static enum MHD_Result respond_text(lk_exchange *exchange, unsigned status, char *text, size_t size,
                                    const char *header, const char *value) {
	if (!text) return MHD_NO;
	struct MHD_Response *Response =
		lk_mhd.create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!Response) free(text);
	return queue_response(exchange, status, json, Response, header, value);
}

enum MHD_Result lk_respond_json(lk_exchange *exchange, unsigned status, char *text, size_t size) {
	return respond_text(exchange, status, text, size, NULL, NULL);
}

enum MHD_Result lk_respond_with(lk_exchange *exchange, unsigned status, const lk_error *err,
                                const char *header, const char *value) {
	size_t size = 0;
	char *text = lk_error_json(err, &size);
	return respond_text(exchange, status, text, size, header, value);
}

enum MHD_Result lk_respond_error(lk_exchange *exchange, unsigned status, const lk_error *err) {
	return lk_respond_with(exchange, status, err, NULL, NULL);
}
