/* rendezvous.c: as-rank: a process that would serve PyTorch's rendezvous itself (rank 0 does) meets
 * no other rank there. At MASTER_PORT the launcher serves the store of the absent ranks; a socket
 * that the process binds to that port gets another one, and is told that it has the port it wanted.
 * So the process connects to the launcher's store, as all ranks would to its own. */
#include "recorder/mode.h"
#include "recorder/recorder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST = 16
};

/* Sockets that were bound elsewhere. */
static struct {
	int fd;         /* + 1; 0: a free place */
	in_port_t port; /* that it has */
} moved[MOST];

static in_port_t *port_of(const void *at, socklen_t length) {
	struct sockaddr_in *v4 = (void *)(uintptr_t)at;
	struct sockaddr_in6 *v6 = (void *)(uintptr_t)at;
	if (length >= sizeof *v4 && v4->sin_family == AF_INET) return &v4->sin_port;
	return length >= sizeof *v6 && v6->sin6_family == AF_INET6 ? &v6->sin6_port : NULL;
}

/* In the order of the network; 0: there is none. */
static in_port_t store_port(void) {
	static in_port_t known;
	static bool asked;
	if (!asked) {
		const char *said = lp_mode.kind == LP_MODE_AS_RANK ? getenv("MASTER_PORT") : NULL;
		long port = said ? strtol(said, NULL, 10) : 0;
		known = htons(port > 0 && port < 65536 ? (in_port_t)port : 0);
		asked = true;
	}
	return known;
}

bool lp_rendezvous_binds(const struct sockaddr *at, socklen_t length,
                         struct sockaddr_storage *elsewhere) {
	const in_port_t *port = at && length <= sizeof *elsewhere ? port_of(at, length) : NULL;
	if (LP_HOT(lp_mode.kind != LP_MODE_AS_RANK) || !port || !*port || *port != store_port())
		return false;
	memcpy(elsewhere, at, length);
	*port_of(elsewhere, length) = 0;
	return true;
}

int getsockname(int fd, struct sockaddr *restrict at, socklen_t *restrict length);

void lp_rendezvous_bound(int fd) {
	struct sockaddr_storage at;
	socklen_t length = sizeof at;
	LP_REAL(getsockname)
	int code = errno;
	const in_port_t *port = real(fd, (void *)&at, &length) == 0 ? port_of(&at, length) : NULL;
	for (int i = 0; port && i < MOST; i++) {
		int none = 0;
		bool own = moved[i].fd == fd + 1;
		if (!own && !__atomic_compare_exchange_n(&moved[i].fd, &none, fd + 1, false,
		                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		moved[i].port = *port;
		break;
	}
	errno = code;
}

LP_EXPORT int getsockname(int fd, struct sockaddr *restrict at, socklen_t *restrict length) {
	LP_REAL(getsockname)
	socklen_t room = length ? *length : 0;
	int result = real(fd, at, length);
	if (LP_HOT(lp_mode.kind != LP_MODE_AS_RANK) || result != 0 || !length) return result;
	in_port_t *port = port_of(at, room < *length ? room : *length);
	for (int i = 0; port && i < MOST; i++)
		if (moved[i].fd == fd + 1 && moved[i].port == *port) *port = store_port();
	return result;
}
