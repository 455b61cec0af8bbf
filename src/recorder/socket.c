/* socket.c: communication of programs that have no MPI: TCP connections by peer (gloo, parameter
 * servers, rendezvous), and how long threads wait meanwhile, on sockets and on each other. Within a
 * call of MPI nothing of it is told: what its library sends is MPI's affair.
 *
 * A message that a non-blocking socket takes in pieces is one: the pieces behind the first go on
 * (io.sequential), and io.most is what the first was asked to send, so that messages can be told
 * apart by their sizes. */
#undef _FORTIFY_SOURCE
#include "recorder/recorder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum {
	PEERS = 1 << 12,
	WAIT_NS = 10000
};

/* By number: whether the last message was not taken whole. */
static uint8_t cut[PEERS];
static uint32_t peers;

void lp_sockets_reset(void) {
	memset(cut, 0, sizeof cut);
	__atomic_store_n(&peers, 0, __ATOMIC_RELAXED);
}

/* ---- who ---- */

static bool address_text(const struct sockaddr_storage *at, char *out, size_t room) {
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *v4 = (const void *)at;
	const struct sockaddr_in6 *v6 = (const void *)at;
	if (at->ss_family == AF_INET) inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
	else if (at->ss_family == AF_INET6) inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
	else return false;
	snprintf(out, room, "%s:%u", host,
	         ntohs(at->ss_family == AF_INET ? v4->sin_port : v6->sin6_port));
	return true;
}

static bool connection_text(int fd, char out[176]) {
	struct sockaddr_storage own, other;
	socklen_t size = sizeof own, other_size = sizeof other;
	char here[80], there[80];
	if (getpeername(fd, (void *)&other, &other_size) != 0 ||
	    getsockname(fd, (void *)&own, &size) != 0)
		return false;
	if (!address_text(&other, there, sizeof there) || !address_text(&own, here, sizeof here))
		return false;
	return snprintf(out, 176, "%s from %s", there, here) > 0;
}

/* Loader processes hand over their batches by pipes. Those of standard input and output are the
 * user's. */
static bool pipe_text(int fd, ino_t inode, char out[176]) {
	return fd > 2 && snprintf(out, 176, LK_RECORD_PIPE "%llu", (unsigned long long)inode) > 0;
}

uint32_t lp_new_peer(int fd, const struct stat *info) {
	char text[176];
	if (lp_state.recorder.head->seen & LK_RECORDED_MPI) return 0;
	bool socket = S_ISSOCK(info->st_mode);
	if (socket ? !connection_text(fd, text)
	           : !S_ISFIFO(info->st_mode) || !pipe_text(fd, info->st_ino, text))
		return 0;
	uint32_t number = __atomic_add_fetch(&peers, 1, __ATOMIC_RELAXED);
	if (number >= PEERS) return 0;
	lk_recording_head *head = lp_state.recorder.head;
	if (socket && head->rank < 0 && !head->root && lp_state.rank >= 0)
		head->rank = lp_state.rank, head->world = lp_state.world;
	lk_record_entry record = {.object = number, .start_ns = lp_now()};
	lp_text(&record, LK_RECORD_PEER, text);
	return number;
}

/* ---- what ---- */

void lp_socket_moved(lk_record_kind kind, uint32_t peer, int64_t start, int64_t end, int64_t bytes,
                     int64_t asked) {
	bool sends = kind == LK_RECORD_WRITE;
	if (bytes <= 0 || peer >= PEERS) return; /* nothing to be had now, or its end */
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = peer;
	record->start_ns = start, record->end_ns = end;
	record->bytes = bytes;
	record->io.busy_ns = end - start;
	record->io.offset = -1;
	record->io.count = 1;
	record->io.most = asked;
	if (sends) record->io.sequential = cut[peer], cut[peer] = bytes < asked;
	lp_publish(record, sends ? LK_RECORD_SENT : LK_RECORD_RECEIVED);
}

static int64_t bytes_in(const struct iovec *at, size_t count) {
	int64_t sum = 0;
	for (size_t i = 0; at && i < count; i++) sum += (int64_t)at[i].iov_len;
	return sum;
}

#define MOVES(name, kind, parameters, call, asked)                                               \
	LP_EXPORT ssize_t name parameters {                                                          \
		LP_REAL(name)                                                                            \
		if (!lp_enter()) return real call;                                                       \
		bool moved;                                                                              \
		uint32_t peer = lp_target(fd, &moved);                                                   \
		int64_t start = peer & LP_SOCKET ? lp_now() : 0;                                         \
		lp_leave();                                                                              \
		ssize_t result = real call;                                                              \
		if (peer & LP_SOCKET && result > 0 && lp_enter()) {                                      \
			int code = errno;                                                                    \
			lp_socket_moved(kind, peer & ~LP_SOCKET, start, lp_now(), result, (int64_t)(asked)); \
			lp_leave();                                                                          \
			errno = code;                                                                        \
		}                                                                                        \
		return result;                                                                           \
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
      (fd, message, flags), bytes_in(message->msg_iov, message->msg_iovlen))
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
      bytes_in(message->msg_iov, message->msg_iovlen))

/* ---- waiting ---- */

static bool watches(void) {
	return lp_state.on && __atomic_load_n(&peers, __ATOMIC_RELAXED) && !lp_thread.busy &&
	       lp_state.gate->open && !(lp_state.recorder.head->seen & LK_RECORDED_MPI);
}

static void waited(int64_t start) {
	int code = errno;
	int64_t end = lp_now();
	if (end - start >= WAIT_NS && lp_enter()) {
		lk_record_entry *record = lp_next();
		if (record) {
			record->start_ns = start, record->end_ns = end;
			lp_publish(record, LK_RECORD_WAIT);
		}
		lp_leave();
	}
	errno = code;
}

#define WAITS(name, parameters, call)     \
	LP_EXPORT int name parameters {       \
		LP_REAL(name)                     \
		if (!watches()) return real call; \
		int64_t start = lp_now();         \
		int result = real call;           \
		waited(start);                    \
		return result;                    \
	}

int __poll_chk(struct pollfd *all, nfds_t count, int limit, size_t room);

WAITS(poll, (struct pollfd * all, nfds_t count, int limit), (all, count, limit))
WAITS(__poll_chk, (struct pollfd * all, nfds_t count, int limit, size_t room),
      (all, count, limit, room))
WAITS(select, (int most, fd_set *in, fd_set *out, fd_set *odd, struct timeval *limit),
      (most, in, out, odd, limit))
WAITS(epoll_wait, (int fd, struct epoll_event *events, int most, int limit),
      (fd, events, most, limit))
WAITS(epoll_pwait,
      (int fd, struct epoll_event *events, int most, int limit, const sigset_t *signals),
      (fd, events, most, limit, signals))

/* Conditions have had another form; libc's symbol of today's is asked for by its version. */
#if defined __x86_64__
#define CONDITION_VERSION "GLIBC_2.3.2"
#else
#define CONDITION_VERSION "GLIBC_2.17"
#endif
#define WAITS_FOR_CONDITION(name, parameters, call)                                           \
	LP_EXPORT int name parameters {                                                           \
		static __typeof__(&name) real_;                                                       \
		__typeof__(&name) real = __atomic_load_n(&real_, __ATOMIC_RELAXED);                   \
		if (!real) {                                                                          \
			real = (__typeof__(&name))(uintptr_t)dlvsym(RTLD_NEXT, #name, CONDITION_VERSION); \
			if (!real) real = (__typeof__(&name))(uintptr_t)lp_symbol(#name);                 \
			__atomic_store_n(&real_, real, __ATOMIC_RELAXED);                                 \
		}                                                                                     \
		if (!watches()) return real call;                                                     \
		int64_t start = lp_now();                                                             \
		int result = real call;                                                               \
		waited(start);                                                                        \
		return result;                                                                        \
	}

WAITS_FOR_CONDITION(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock),
                    (condition, lock))
WAITS_FOR_CONDITION(pthread_cond_timedwait,
                    (pthread_cond_t * condition, pthread_mutex_t *lock,
                     const struct timespec *until),
                    (condition, lock, until))
WAITS_FOR_CONDITION(pthread_cond_clockwait,
                    (pthread_cond_t * condition, pthread_mutex_t *lock, clockid_t clock,
                     const struct timespec *until),
                    (condition, lock, clock, until))
