/* serve_none.c: `lockstep serve` of a build without libmicrohttpd. */
#include "serve/serve.h"

const bool lk_serve_is_built = false;

lk_status lk_serve(const lk_serve_request *request, lk_serve_ready *ready, void *context,
                   lk_error *err) {
	(void)request, (void)ready, (void)context;
	lk_fail(err, LK_ERR_INPUT, "serve", "this lockstep was built without libmicrohttpd");
	return lk_hint(err, "install libmicrohttpd-dev and build it again");
}
