/* serve.h: `lockstep serve`: a page with live controls and a JSON interface, over HTTP.
 * docs/guide/serve.md is for its users.
 *
 * One thread waits for everything: connections (libmicrohttpd, driven from outside), children,
 * signals. Each question is answered by a child of its own, forked for it, under limits of memory,
 * processor time and wall time, that can open no files but those that came with the question. What
 * a hostile question can break is its own child. */
#ifndef LK_SERVE_SERVE_H
#define LK_SERVE_SERVE_H

#include <stdbool.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

typedef struct lk_serve_request {
	const char *listen; /* numeric address, or localhost */
	int port;           /* 0: one that is free */
	const char *names;  /* host names by which the server may be called, one a line; NULL none */
	int workers; /* predictions answered at a time, and as many long questions; 0: one per core */
	double memory_mib;   /* of one question; so are the next two */
	double seconds;      /* wall and processor time of a prediction */
	double long_seconds; /* wall time of a plan or an explanation */
	double upload_mib;   /* of the traces of one explanation */
	bool open;           /* opens the page in a browser */
} lk_serve_request;

/* False in a build without libmicrohttpd: lk_serve refuses everything. */
extern const bool lk_serve_is_built;
extern const lk_verb lk_serve_verb;
void lk_serve_defaults(lk_serve_request *request);

/* Serves until SIGINT or SIGTERM comes, then ends cleanly: LK_OK. `ready` is called once with the
 * address, with the token of this run: "http://127.0.0.1:8420/#token=...", and whether a browser
 * was started where that was requested; it returns false where it could tell nobody, which ends the
 * server. The calling process must have no other threads. Errors: an address that cannot be used or
 * told, a build without an HTTP library. */
typedef bool lk_serve_ready(void *context, const char *url, bool opened);
lk_status lk_serve(const lk_serve_request *request, lk_serve_ready *ready, void *context,
                   lk_error *err);

#endif
