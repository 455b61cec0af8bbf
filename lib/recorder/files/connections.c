/* connections.c: redirects addresses of sockets.
 *
 * In an overlaid run, Unix sockets are those of the scratch folder, and connections to other hosts
 * are logged.
 *
 * In a process that runs as a single rank, rank 0 would serve PyTorch's rendezvous itself and find
 * no other rank there. At MASTER_PORT the launcher serves the store of the absent ranks
 * (src/rendezvous/); a socket that the process binds to that port gets another port, and
 * getsockname reports the wanted one. So the process connects to the launcher's store, like all
 * ranks to their own. */
#undef _FORTIFY_SOURCE
#include "recorder/files/files.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "recorder/overlay/overlay.h"

enum { MOST_MOVED = 16 };

/* ---- the port of the rendezvous ---- */

/* Sockets that were bound to another port. */
static struct {
	int fd;         /* 1; 0: a free slot */
	in_port_t port; /* the actual port */
} moved_binds[MOST_MOVED];

static in_port_t *port_of_address(const void *at, socklen_t length) {
	struct sockaddr_in *v4 = (void *)(uintptr_t)at;
	struct sockaddr_in6 *v6 = (void *)(uintptr_t)at;
	if (length >= sizeof *v4 && v4->sin_family == AF_INET) return &v4->sin_port;
	return length >= sizeof *v6 && v6->sin6_family == AF_INET6 ? &v6->sin6_port : NULL;
}

/* The store's port, in network byte order; 0: no store. */
static in_port_t own_store_port(void) {
	static in_port_t known;
	static bool looked;
	if (!looked) {
		const char *said = lp_mode.kind == LP_MODE_AS_RANK ? getenv("MASTER_PORT") : NULL;
		long port = said ? strtol(said, NULL, 10) : 0;
		known = htons(port > 0 && port < 65536 ? (in_port_t)port : 0);
		looked = true;
	}
	return known;
}

static bool is_store_address(const struct sockaddr *at, socklen_t length,
                             struct sockaddr_storage *elsewhere) {
	const in_port_t *port = at && length <= sizeof *elsewhere ? port_of_address(at, length) : NULL;
	if (LP_HOT(lp_mode.kind != LP_MODE_AS_RANK) || !port || !*port || *port != own_store_port())
		return false;
	memcpy(elsewhere, at, length);
	*port_of_address(elsewhere, length) = 0;
	return true;
}

int getsockname(int fd, struct sockaddr *restrict at, socklen_t *restrict length);

static void keep_moved_bind(int fd) {
	struct sockaddr_storage at;
	socklen_t length = sizeof at;
	LP_LIBC(getsockname)
	int code = errno;
	const in_port_t *port =
		real(fd, (void *)&at, &length) == 0 ? port_of_address(&at, length) : NULL;
	for (int i = 0; port && i < MOST_MOVED; i++) {
		int none = 0;
		bool own = moved_binds[i].fd == fd + 1;
		if (!own && !__atomic_compare_exchange_n(&moved_binds[i].fd, &none, fd + 1, false,
		                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		moved_binds[i].port = *port;
		break;
	}
	errno = code;
}

LP_EXPORT int getsockname(int fd, struct sockaddr *restrict at, socklen_t *restrict length) {
	LP_LIBC(getsockname)
	socklen_t room = length ? *length : 0;
	int result = real(fd, at, length);
	if (LP_HOT(lp_mode.kind != LP_MODE_AS_RANK) || result != 0 || !length) return result;
	in_port_t *port = port_of_address(at, room < *length ? room : *length);
	for (int i = 0; port && i < MOST_MOVED; i++)
		if (moved_binds[i].fd == fd + 1 && moved_binds[i].port == *port) *port = own_store_port();
	return result;
}

/* ---- connecting and binding ---- */

LP_EXPORT int connect(int fd, const struct sockaddr *to, socklen_t length) {
	LP_LIBC(connect)
	lp_overlay_socket moved;
	bool failed = false;
	lp_file_forget(fd);
	if (!lp_overlay_is_active()) return real(fd, to, length);
	lp_overlay_log_connection(fd, to, length, __builtin_return_address(0));
	if (lp_overlay_move_socket(to, length, false, &moved, &failed))
		return lp_overlay_socket_used(&moved, real(fd, (void *)&moved.at, sizeof moved.at));
	return failed ? -1 : real(fd, to, length);
}

LP_EXPORT int bind(int fd, const struct sockaddr *at, socklen_t length) {
	LP_LIBC(bind)
	lp_overlay_socket moved;
	struct sockaddr_storage elsewhere;
	bool failed = false;
	if (is_store_address(at, length, &elsewhere)) {
		int result = real(fd, (void *)&elsewhere, length);
		if (result == 0) keep_moved_bind(fd);
		return result;
	}
	if (!lp_overlay_is_active()) return real(fd, at, length);
	if (lp_overlay_move_socket(at, length, true, &moved, &failed))
		return lp_overlay_socket_used(&moved, real(fd, (void *)&moved.at, sizeof moved.at));
	if (failed && errno == EEXIST) errno = EADDRINUSE;
	return failed ? -1 : real(fd, at, length);
}
