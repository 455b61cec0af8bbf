/* rendezvous.h: a server of PyTorch's rendezvous (TCPStore) that answers for all ranks but one. The
 * protocol, the rules and what is not covered are in docs/method/rendezvous.md.
 *
 *     lk_store_server *server;
 *     LK_TRY(lk_store_serve(5, 1024, 0, &server, err));     rank 5 of 1024 is real; any free port
 *     ...                                                   MASTER_PORT is lk_store_port(server)
 *     lk_store_stop(server, &served);
 *
 * Ranks agree there on keys with values, and on counters. All ranks but one are absent, so:
 *
 *     a counter      what the rank adds, all add
 *     waiting        ends at once: the others have done their part
 *     getting        the value set; else the one the rank itself set under the same key with its
 *                    own number in place of another rank's; else 128 bytes that no other key has,
 *                    which serve as NCCL's unique id
 *     checking       a key exists if it was set, or the rank has set its own
 *
 * Form 1 of the protocol (PyTorch up to 2.0): a byte for the kind of request, then keys (length as
 * 8 bytes, bytes), values, numbers of 8 bytes. Form 2 (from 2.1 on): the same with other numbers,
 * after a first request with 0x3C85F7CE. All little-endian. Limits are the LK_STORE_MOST_
 * constants: a connection may send anything. */
#ifndef LK_RENDEZVOUS_RENDEZVOUS_H
#define LK_RENDEZVOUS_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "lockstep/error.h"

typedef LK_VEC(unsigned char) lk_bytes;

typedef struct lk_store_entry {
	struct lk_store_entry *next; /* with the same hash */
	size_t key_size, size;
	char *key;
	unsigned char *value;
} lk_store_entry;

enum {
	LK_STORE_PLACES = 1 << 12,
	LK_STORE_MOST_BYTES = 1 << 26,
	LK_STORE_MOST_REQUEST = 1 << 24,
	LK_STORE_MOST_KEYS = 1 << 17
};

typedef struct lk_store {
	int rank, world;
	size_t keys, bytes;
	uint64_t requests, made_up; /* values that no rank has set */
	lk_store_entry *at[LK_STORE_PLACES];
} lk_store;

/* A connection. */
typedef struct lk_store_client {
	int form;          /* 1, 2; 0: unknown yet */
	lk_bytes in, out;  /* not yet a whole request; still to be sent */
	const char *wrong; /* why it must be closed; NULL */
} lk_store_client;

void lk_store_begin(lk_store *store, int rank, int world);
void lk_store_end(lk_store *store);
/* Process bytes of a connection, split in any way. False: close it; `wrong` says why. */
bool lk_store_take(lk_store *store, lk_store_client *client, const unsigned char *bytes,
                   size_t size);
void lk_store_client_end(lk_store_client *client);

/* ---- store_serve: the store of the absent ranks (store.c) on a port of the loopback, served by a
 * thread. */

typedef struct lk_store_server lk_store_server;

typedef struct lk_store_served {
	uint64_t connections, requests, made_up;
	char wrong[160]; /* why the first closed connection was closed; "" none */
} lk_store_served;

/* Listen and serve until stopped. `port` 0: any free port. */
lk_status lk_store_serve(int rank, int world, int port, lk_store_server **out, lk_error *err);
int lk_store_port(const lk_store_server *server);
void lk_store_stop(lk_store_server *server, lk_store_served *out); /* accepts NULL */

#endif
