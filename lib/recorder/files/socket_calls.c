/* socket_calls.c: sends and receives, and the waiting of threads, on sockets and on each other. */
#undef _FORTIFY_SOURCE
#include "recorder/files/files.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
	WAIT_NS = 10000 /* shorter waits are not recorded */
};

/* ---- messages ---- */

static int64_t sum_iovec_bytes(const struct iovec *at, size_t count) {
	int64_t sum = 0;
	for (size_t i = 0; at && i < count; i++) sum += (int64_t)at[i].iov_len;
	return sum;
}

#define MOVES(name, kind, parameters, call, wanted)                                             \
	LP_EXPORT ssize_t name parameters {                                                         \
		LP_LIBC(name)                                                                           \
		if (!lp_enter()) return real call;                                                      \
		bool moved;                                                                             \
		uint32_t peer = lp_target(fd, &moved);                                                  \
		int64_t start = peer & LP_SOCKET ? lp_now() : 0;                                        \
		lp_leave();                                                                             \
		ssize_t result = real call;                                                             \
		if (peer & LP_SOCKET && result > 0 && lp_enter()) {                                     \
			int code = errno;                                                                   \
			lp_peer_moved(kind, peer & ~LP_SOCKET, start, lp_now(), result, (int64_t)(wanted)); \
			lp_leave();                                                                         \
			errno = code;                                                                       \
		}                                                                                       \
		return result;                                                                          \
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

/* ---- waiting ---- */

/* Without MPI, waits of all threads are recorded; with it, only those of threads that call MPI
 * themselves, in their own code: the MPI library's internal waits are not. */
static bool is_watching_waits(lk_wait_for what) {
	if (!lp_state.on || lp_thread.busy || !lp_state.gate->open) return false;
	if (lp_thread.processor_ns) return what != LK_WAIT_PEERS || lp_has_peers();
	return lp_has_peers() && !(lp_state.recorder.head->seen & LK_RECORDED_MPI);
}

static void record_wait(lk_wait_for what, int64_t start) {
	int code = errno;
	int64_t end = lp_now();
	if (end - start >= WAIT_NS && lp_enter()) {
		lk_record_entry *record = lp_next();
		if (record) {
			record->object = what;
			record->start_ns = start;
			record->end_ns = end;
			lp_publish(record, LK_RECORD_WAIT);
		}
		lp_leave();
	}
	errno = code;
}

#define WAITS(what, name, parameters, call)             \
	LP_EXPORT int name parameters {                     \
		LP_LIBC(name)                                   \
		if (!is_watching_waits(what)) return real call; \
		int64_t start = lp_now();                       \
		int result = real call;                         \
		record_wait(what, start);                       \
		return result;                                  \
	}

int __poll_chk(struct pollfd *all, nfds_t count, int limit, size_t room);

WAITS(LK_WAIT_PEERS, poll, (struct pollfd * all, nfds_t count, int limit), (all, count, limit))
WAITS(LK_WAIT_PEERS, __poll_chk, (struct pollfd * all, nfds_t count, int limit, size_t room),
      (all, count, limit, room))
WAITS(LK_WAIT_PEERS, select,
      (int most, fd_set *in, fd_set *out, fd_set *odd, struct timeval *limit),
      (most, in, out, odd, limit))
WAITS(LK_WAIT_PEERS, epoll_wait, (int fd, struct epoll_event *events, int most, int limit),
      (fd, events, most, limit))
WAITS(LK_WAIT_PEERS, epoll_pwait,
      (int fd, struct epoll_event *events, int most, int limit, const sigset_t *signals),
      (fd, events, most, limit, signals))

WAITS(LK_WAIT_SLEEP, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
WAITS(LK_WAIT_SLEEP, clock_nanosleep,
      (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left))
WAITS(LK_WAIT_SLEEP, usleep, (useconds_t microseconds), (microseconds))

/* Conditions once had another form; request the version of libc's present symbol. */
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
		if (!is_watching_waits(LK_WAIT_THREAD)) return real call;                             \
		int64_t start = lp_now();                                                             \
		int result = real call;                                                               \
		record_wait(LK_WAIT_THREAD, start);                                                   \
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
