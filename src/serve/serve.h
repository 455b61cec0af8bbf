/* serve.h: `lockstep serve`: a page with live controls and a JSON interface, over HTTP.
 * docs/guide/serve.md is for its users.
 *
 * One thread waits for connections (libmicrohttpd, driven by our loop), children and signals. A
 * child process, forked for it, answers each question under limits of memory, processor time and
 * wall time; it can open only the files that came with the question. A hostile question can break
 * only its own child. */
#ifndef LK_SERVE_SERVE_H
#define LK_SERVE_SERVE_H

#include <stdbool.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

typedef struct lk_serve_request {
	const char *listen;  /* numeric address, or localhost */
	int port;            /* 0: a free one */
	const char *names;   /* host names that clients may use, one per line; NULL: none */
	int workers;         /* concurrent predictions, and as many long questions; 0: one per core */
	double memory_mib;   /* of one question, as the next two */
	double seconds;      /* wall and processor time of a prediction */
	double long_seconds; /* wall time of a plan or an explanation */
	double upload_mib;   /* size of the traces of one explanation */
	bool open;           /* opens the page in a browser */
} lk_serve_request;

/* False in a build without libmicrohttpd, in which lk_serve fails. */
extern const bool lk_serve_is_built;
extern const lk_verb lk_serve_verb;
void lk_serve_defaults(lk_serve_request *request);

/* Serves until SIGINT or SIGTERM, then returns LK_OK. Calls `ready` once with the address, which
 * contains the token of this run ("http://127.0.0.1:8420/#token=..."), and with whether a requested
 * browser was started; if `ready` returns false, the server ends. The calling process must have no
 * other threads. LK_ERR_INPUT and LK_ERR_IO: an address that cannot be used or reported, a build
 * without an HTTP library. */
typedef bool lk_serve_ready(void *context, const char *url, bool opened);
lk_status lk_serve(const lk_serve_request *request, lk_serve_ready *ready, void *context,
                   lk_error *err);

#endif
