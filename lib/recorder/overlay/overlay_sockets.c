/* overlay_sockets.c: addresses of sockets: connections to other hosts are logged, and Unix sockets
 * are found in the scratch folder. The wrappers are in files/connections.c. */
#include "recorder/overlay/overlay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>

enum {
	LONGEST_NAME = 64 /* of a socket whose folder is given by a descriptor */
};

/* ---- other hosts ---- */

static bool is_other_host(const struct sockaddr *to, socklen_t length, char *text, size_t room) {
	char host[INET6_ADDRSTRLEN] = "";
	unsigned port = 0;
	if (to->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *v4 = (const void *)to;
		if (ntohl(v4->sin_addr.s_addr) >> 24 == 127 || v4->sin_addr.s_addr == 0) return false;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
		port = ntohs(v4->sin_port);
	} else if (to->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *v6 = (const void *)to;
		const uint8_t *b = v6->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
		    (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && b[12] == 127))
			return false;
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
		port = ntohs(v6->sin6_port);
	}
	char digits[LP_DIGITS];
	lp_join(text, room, host, " port ", lp_digits(port, digits), LP_END);
	return *host != '\0';
}

/* Communication libraries connect to other ranks, which are guarded like this one. */
static bool is_communication_library(const void *caller) {
	static const char *const names[] = {"libmpi", "libopen-", "libpmix",  "mca_",    "libfabric",
	                                    "libuc",  "libgloo",  "libtorch", "libnccl", "libevent"};
	Dl_info info;
	if (!dladdr(caller, &info) || !info.dli_fname) return false;
	const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
	return false;
}

void lp_overlay_log_connection(int fd, const struct sockaddr *to, socklen_t length,
                               const void *caller) {
	char text[INET6_ADDRSTRLEN + 32], what[128];
	int type = 0, code = errno;
	socklen_t size = sizeof type;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	    is_other_host(to, length, text, sizeof text) && !is_communication_library(caller)) {
		lp_join(what, sizeof what - sizeof " connected to", program_invocation_short_name, LP_END);
		strcat(what, " connected to");
		lp_overlay_log(what, text);
	}
	errno = code;
}

/* ---- Unix sockets ---- */

/* Paths of sockets are short; a long one is given by its folder's descriptor. */
static bool put_socket_path(const char *path, lp_overlay_socket *out) {
	const char *name = strrchr(path, '/');
	*out = (lp_overlay_socket){.at = {.sun_family = AF_UNIX}, .folder = -1};
	if (strlen(path) < sizeof out->at.sun_path) {
		strcpy(out->at.sun_path, path);
		return true;
	}
	if (!name || strlen(name) > LONGEST_NAME) {
		errno = ENAMETOOLONG;
		return false;
	}
	LP_TAKE(lp_path, folder, false);
	*(char *)mempcpy(*folder, path, (size_t)(name - path)) = '\0';
	out->folder = (int)syscall(SYS_openat, AT_FDCWD, *folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (out->folder < 0) return false;
	char digits[LP_DIGITS];
	lp_join(out->at.sun_path, sizeof out->at.sun_path, "/proc/self/fd/",
	        lp_digits((uint64_t)out->folder, digits), name, LP_END);
	return true;
}

bool lp_overlay_move_socket(const struct sockaddr *at, socklen_t length, bool makes,
                            lp_overlay_socket *out, bool *failed) {
	char name[sizeof out->at.sun_path + 1] = "";
	LP_ROOM(room);
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	*failed = false;
	if (at->sa_family != AF_UNIX || length <= before || length > sizeof out->at) return false;
	memcpy(name, (const char *)at + before, length - before);
	if (!*name) return false; /* it has no name in the file system */
	const char *given = makes ? lp_overlay_make(AT_FDCWD, name, false, &room)
	                          : lp_overlay_read(AT_FDCWD, name, true, &room);
	if (given && strcmp(given, name) == 0) return false;
	*failed = !given || !put_socket_path(given, out);
	return !*failed;
}

int lp_overlay_socket_used(lp_overlay_socket *moved, int result) {
	int code = errno;
	if (moved->folder >= 0) syscall(SYS_close, moved->folder);
	errno = code;
	return result;
}
