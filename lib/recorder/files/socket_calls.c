/* socket_calls.c: sends and receives on sockets. */
#undef _FORTIFY_SOURCE
#include "recorder/files/files.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int64_t sum_iovec_bytes(const struct iovec *at, size_t count) {
	int64_t sum = 0;
	for (size_t i = 0; at && i < count; i++) sum += (int64_t)at[i].iov_len;
	return sum;
}

#define MOVES(name, kind, parameters, call, wanted)                                   \
	LP_EXPORT ssize_t name parameters {                                               \
		LP_LIBC(name)                                                                 \
		if (!lp_enter()) return real call;                                            \
		bool moved;                                                                   \
		uint32_t peer = lp_target(fd, &moved);                                        \
		int64_t start = peer & LP_SOCKET ? lp_now() : 0;                              \
		lp_leave();                                                                   \
		ssize_t result = real call;                                                   \
		if (peer & LP_SOCKET && result > 0 && lp_enter()) {                           \
			int code = errno;                                                         \
			if (peer & LP_EVENT) lp_event_moved(kind, (uint32_t)fd, start, lp_now()); \
			else                                                                      \
				lp_peer_moved(kind, peer & ~LP_SOCKET, start, lp_now(), result,       \
				              (int64_t)(wanted));                                     \
			lp_leave();                                                               \
			errno = code;                                                             \
		}                                                                             \
		return result;                                                                \
	}

ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from,
                       socklen_t *length);

MOVES(send, LK_RECORD_WRITE, (int fd, const void *from, size_t size, int flags),
      (fd, from, size, flags), size)
MOVES(sendto, LK_RECORD_WRITE,
      (int fd, const void *from, size_t size, int flags, const struct sockaddr *to,
       socklen_t length),
      (fd, from, size, flags, to, length), size)
MOVES(sendmsg, LK_RECORD_WRITE, (int fd, const struct msghdr *message, int flags),
      (fd, message, flags), sum_iovec_bytes(message->msg_iov, message->msg_iovlen))
MOVES(recv, LK_RECORD_READ, (int fd, void *to, size_t size, int flags), (fd, to, size, flags), size)
MOVES(__recv_chk, LK_RECORD_READ, (int fd, void *to, size_t size, size_t room, int flags),
      (fd, to, size, room, flags), size)
MOVES(recvfrom, LK_RECORD_READ,
      (int fd, void *to, size_t size, int flags, struct sockaddr *from, socklen_t *length),
      (fd, to, size, flags, from, length), size)
MOVES(__recvfrom_chk, LK_RECORD_READ,
      (int fd, void *to, size_t size, size_t room, int flags, struct sockaddr *from,
       socklen_t *length),
      (fd, to, size, room, flags, from, length), size)
MOVES(recvmsg, LK_RECORD_READ, (int fd, struct msghdr *message, int flags), (fd, message, flags),
      sum_iovec_bytes(message->msg_iov, message->msg_iovlen))
