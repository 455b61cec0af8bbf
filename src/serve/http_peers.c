/* http_peers.c: deadlines of connections. A client has a limited time for each step: to send a
 * whole request, to take the answer, to begin the next request. A client that sends byte by byte is
 * as late as a silent one. */
#include "serve/http.h"
#include "system/clock.h"
#include "base/check.h"
#include "base/stats.h"

#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_S 10.0

void lk_peer_within(lk_peer *peer, double seconds) {
	peer->deadline = lk_clock_s() + seconds;
}

/* Closes the connection that has waited longest for its client, if nearly all places are taken. */
static void make_peer_place(const lk_server *server) {
	lk_peer *oldest = NULL;
	for (lk_peer *peer = server->peers; peer; peer = peer->next)
		if (!peer->asking && !peer->leaving && (!oldest || peer->deadline < oldest->deadline))
			oldest = peer;
	if (!oldest) return;
	oldest->leaving = true;
	shutdown(oldest->fd, SHUT_RDWR);
}

/* Returns a hash of the client's address, 0 if unknown. Of an IPv6 address only the /64 network
 * counts: a client controls all 2^64 addresses in it. */
static uint64_t client_of(struct MHD_Connection *connection) {
	const union MHD_ConnectionInfo *info =
		lk_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *from = info ? info->client_addr : NULL;
	uint64_t network = 0;
	if (from && from->sa_family == AF_INET)
		network = ((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr;
	else if (from && from->sa_family == AF_INET6) {
		const struct in6_addr *address =
			&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
		size_t begin = IN6_IS_ADDR_V4MAPPED(address) ? sizeof *address - sizeof network : 0;
		memcpy(&network, address->s6_addr + begin, sizeof network);
	} else return 0;
	return lk_hash64(network + from->sa_family);
}

static lk_peer *begin_peer(lk_server *server, struct MHD_Connection *connection) {
	lk_peer *peer = calloc(1, sizeof *peer);
	if (!peer) return NULL;
	if (server->peer_count >= LK_PEERS - LK_PEERS / 8) make_peer_place(server);
	const union MHD_ConnectionInfo *info =
		lk_mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	*peer = (lk_peer){.server = server, .fd = info ? info->connect_fd : -1, .next = server->peers};
	peer->client = client_of(connection);
	lk_peer_within(peer, FIRST_S);
	if (server->peers) server->peers->previous = peer;
	server->peers = peer;
	server->peer_count++;
	return peer;
}

static void end_peer(lk_peer *peer) {
	LK_ASSERT(peer->server->peer_count > 0);
	if (peer->next) peer->next->previous = peer->previous;
	if (peer->previous) peer->previous->next = peer->next;
	else peer->server->peers = peer->next;
	peer->server->peer_count--;
	free(peer);
}

void lk_peer_notify(void *server, struct MHD_Connection *connection, void **peer,
                    enum MHD_ConnectionNotificationCode what) {
	if (what == MHD_CONNECTION_NOTIFY_STARTED) *peer = begin_peer(server, connection);
	else if (*peer) {
		end_peer(*peer);
		*peer = NULL;
	}
}

double lk_peers_deadline(const lk_server *server) {
	double first = INFINITY;
	for (const lk_peer *peer = server->peers; peer; peer = peer->next)
		if (!peer->asking && peer->deadline < first) first = peer->deadline;
	return first;
}

void lk_peers_step(lk_server *server) {
	double now = lk_clock_s();
	for (lk_peer *peer = server->peers; peer; peer = peer->next) {
		if (peer->asking || peer->deadline > now) continue;
		shutdown(peer->fd, SHUT_RDWR);
		/* The library notices the closed connection; the wait for that is limited. */
		peer->deadline = now + 1;
	}
}
