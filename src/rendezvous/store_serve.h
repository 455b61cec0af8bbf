/* store_serve.h: the store of the absent ranks (store.h) on a port of the loopback, served by a thread. */
#ifndef LK_ASK_STORE_SERVE_H
#define LK_ASK_STORE_SERVE_H

#include <stdint.h>
#include "lockstep/error.h"

typedef struct lk_store_server lk_store_server;

typedef struct lk_store_served {
	uint64_t connections, requests, made_up;
	char wrong[160];         /* the first connection that was closed: why; "" none */
} lk_store_served;

/* Listens and serves until it is ended. `port` 0: any that is free. */
lk_status lk_store_serve(int rank, int world, int port, lk_store_server **out, lk_error *err);
int lk_store_port(const lk_store_server *server);
void lk_store_stop(lk_store_server *server, lk_store_served *out); /* accepts NULL */

#endif
