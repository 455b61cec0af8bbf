/* guard.h: who may ask. Three checks, each on the texts of headers alone.
 *
 * Host: a page of another site whose name was made to lead here (DNS rebinding) sends its own name. An address
 * cannot be rebound, so addresses and localhost pass, and the names that the user gave. On a loopback address only
 * loopback addresses pass. Origin: a browser says which page asks; only our own may. Token: a secret of this run in
 * the header "Authorization: Bearer TOKEN". It is no cookie: a cookie is sent to every port of a host and with
 * requests that other pages start. */
#ifndef LK_SERVE_GUARD_H
#define LK_SERVE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

enum { LK_TOKEN_BYTES = 16, LK_TOKEN_SIZE = 2 * LK_TOKEN_BYTES + 1 };

typedef struct lk_guard {
	bool loopback;          /* listens on a loopback address */
	const char *names;      /* one a line, or NULL */
	char token[LK_TOKEN_SIZE];
} lk_guard;

/* Draws the token. Errors: LK_ERR_IO where the system gives no random numbers. */
lk_status lk_guard_init(lk_guard *guard, bool loopback, const char *names, lk_error *err);

/* `host`: the header, or NULL. */
bool lk_guard_host(const lk_guard *guard, const char *host);
/* `origin`: the header, or NULL, which programs that are no browsers send. `site`: Sec-Fetch-Site, or NULL. */
bool lk_guard_origin(const char *origin, const char *site, const char *host);
/* `authorization`: the header, or NULL. Takes as long for a wrong token as for another. */
bool lk_guard_token(const lk_guard *guard, const char *authorization);

#endif
