/* wait_calls.c: the waiting of threads, on connections, on each other and for time to pass; and who
 * ended it (signals.c). */
#undef _FORTIFY_SOURCE
#include "recorder/files/files.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	WAIT_NS = 10000, /* shorter waits are not recorded */
	CLOSE_NS = 20000 /* waits for the same that follow one another so closely are one record */
};

/* ---- records ---- */

/* In programs with MPI, waits for connections are recorded in threads that call MPI, in their own
 * code: the others are the library's. */
static bool is_watching_waits(lk_wait_for what) {
	if (!lp_state.on || lp_thread.busy || !lp_state.gate->open) return false;
	if (what != LK_WAIT_PEERS) return true;
	return lp_has_peers() &&
	       (lp_thread.communicates || !(lp_state.recorder.head->seen & LK_RECORDED_MPI));
}

static bool merge_wait(lk_wait_for what, uint64_t address, int64_t start, int64_t end) {
	lk_record_entry *last = lp_thread.last;
	if (!last || last->kind != LK_RECORD_WAIT || last->object != what || last->wait.on != address ||
	    start - last->end_ns > CLOSE_NS)
		return false;
	last->wait.waker = lp_find_waker(address, start, end, &last->wait.ended_ns);
	last->end_ns = end;
	return true;
}

static void add_wait(lk_wait_for what, uint64_t address, int64_t start, int64_t end) {
	if (lp_is_python_lock(address)) what = LK_WAIT_LOCK;
	if (end - start < WAIT_NS || merge_wait(what, address, start, end)) return;
	lp_record_processor(end, LP_AT_CALLS);
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = what;
	record->start_ns = start;
	record->end_ns = end;
	record->wait.on = address;
	record->wait.waker = lp_find_waker(address, start, end, &record->wait.ended_ns);
	lp_publish(record, LK_RECORD_WAIT);
	lp_thread.last = record;
}

static void record_wait(lk_wait_for what, uint64_t address, int64_t start) {
	int code = errno;
	int64_t end = lp_now();
	if (end - start >= WAIT_NS && lp_enter()) {
		add_wait(what, address, start, end);
		lp_leave();
	}
	errno = code;
}

static void signal_address(uint64_t address) {
	if (!lp_enter()) return;
	int code = errno;
	lp_leave_signal(address);
	errno = code;
	lp_leave();
}

/* Descriptors are no addresses: numbers below any. */
static uint64_t address_of_event(uint32_t fd) {
	return (uint64_t)fd + 1;
}

void lp_event_moved(lk_record_kind kind, uint32_t fd, int64_t start, int64_t end) {
	if (kind == LK_RECORD_READ) add_wait(LK_WAIT_THREAD, address_of_event(fd), start, end);
}

void lp_event_signalled(uint32_t fd) {
	lp_leave_signal(address_of_event(fd));
}

#define AT(pointer) ((uint64_t)(uintptr_t)(pointer))
#define WAITS(what, name, parameters, call, address)    \
	LP_EXPORT int name parameters {                     \
		LP_LIBC(name)                                   \
		if (!is_watching_waits(what)) return real call; \
		int64_t start = lp_now();                       \
		int result = real call;                         \
		record_wait(what, address, start);              \
		return result;                                  \
	}
/* The thread that waits may end the life of what is signalled: it is signalled last. */
#define SIGNALS(name, parameters, call, address) \
	LP_EXPORT int name parameters {              \
		LP_LIBC(name)                            \
		signal_address(address);                 \
		return real call;                        \
	}

/* ---- connections, and time ---- */

int __poll_chk(struct pollfd *all, nfds_t count, int limit, size_t room);

WAITS(LK_WAIT_PEERS, poll, (struct pollfd * all, nfds_t count, int limit), (all, count, limit), 0)
WAITS(LK_WAIT_PEERS, __poll_chk, (struct pollfd * all, nfds_t count, int limit, size_t room),
      (all, count, limit, room), 0)
WAITS(LK_WAIT_PEERS, select,
      (int most, fd_set *in, fd_set *out, fd_set *odd, struct timeval *limit),
      (most, in, out, odd, limit), 0)
WAITS(LK_WAIT_PEERS, epoll_wait, (int fd, struct epoll_event *events, int most, int limit),
      (fd, events, most, limit), 0)
WAITS(LK_WAIT_PEERS, epoll_pwait,
      (int fd, struct epoll_event *events, int most, int limit, const sigset_t *signals),
      (fd, events, most, limit, signals), 0)

WAITS(LK_WAIT_SLEEP, nanosleep, (const struct timespec *time, struct timespec *left), (time, left),
      0)
WAITS(LK_WAIT_SLEEP, clock_nanosleep,
      (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left), 0)
WAITS(LK_WAIT_SLEEP, usleep, (useconds_t microseconds), (microseconds), 0)

/* ---- threads ---- */

WAITS(LK_WAIT_THREAD, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock),
      (condition, lock), AT(condition))
WAITS(LK_WAIT_THREAD, pthread_cond_timedwait,
      (pthread_cond_t * condition, pthread_mutex_t *lock, const struct timespec *until),
      (condition, lock, until), AT(condition))
WAITS(LK_WAIT_THREAD, pthread_cond_clockwait,
      (pthread_cond_t * condition, pthread_mutex_t *lock, clockid_t clock,
       const struct timespec *until),
      (condition, lock, clock, until), AT(condition))
SIGNALS(pthread_cond_signal, (pthread_cond_t * condition), (condition), AT(condition))
SIGNALS(pthread_cond_broadcast, (pthread_cond_t * condition), (condition), AT(condition))

WAITS(LK_WAIT_THREAD, sem_wait, (sem_t * semaphore), (semaphore), AT(semaphore))
WAITS(LK_WAIT_THREAD, sem_timedwait, (sem_t * semaphore, const struct timespec *until),
      (semaphore, until), AT(semaphore))
WAITS(LK_WAIT_THREAD, sem_clockwait,
      (sem_t * semaphore, clockid_t clock, const struct timespec *until), (semaphore, clock, until),
      AT(semaphore))
SIGNALS(sem_post, (sem_t * semaphore), (semaphore), AT(semaphore))

/* A thread signals its own end (arming.c). */
WAITS(LK_WAIT_THREAD, pthread_join, (pthread_t thread, void **left), (thread, left),
      (uint64_t)thread)

/* The last thread at a barrier signals the others. */
LP_EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier) {
	LP_LIBC(pthread_barrier_wait)
	if (!is_watching_waits(LK_WAIT_THREAD)) return real(barrier);
	int64_t start = lp_now();
	signal_address(AT(barrier));
	int result = real(barrier);
	record_wait(LK_WAIT_THREAD, AT(barrier), start);
	return result;
}

/* Futexes of libraries that bring their own conditions: Rust's, C++20's, Abseil's, TBB's. libc's
 * own are not seen here, and all other system calls pass through. */
LP_EXPORT long syscall(long number, ...) {
	LP_LIBC(syscall)
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
	va_end(list);
	int command = number == SYS_futex ? (int)a[1] & FUTEX_CMD_MASK : -1;
	bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
	bool wakes = command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET ||
	             command == FUTEX_WAKE_OP || command == FUTEX_CMP_REQUEUE;
	if (wakes) signal_address((uint64_t)a[0]);
	if (!waits || !is_watching_waits(LK_WAIT_THREAD))
		return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	int64_t start = lp_now();
	long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	record_wait(LK_WAIT_THREAD, (uint64_t)a[0], start);
	return result;
}

/* libc's own calls inside of these are not seen. */
LP_EXPORT int eventfd_read(int fd, eventfd_t *value) {
	LP_LIBC(eventfd_read)
	if (!is_watching_waits(LK_WAIT_THREAD)) return real(fd, value);
	int64_t start = lp_now();
	int result = real(fd, value);
	record_wait(LK_WAIT_THREAD, address_of_event((uint32_t)fd), start);
	return result;
}
LP_EXPORT int eventfd_write(int fd, eventfd_t value) {
	LP_LIBC(eventfd_write)
	signal_address(address_of_event((uint32_t)fd));
	return real(fd, value);
}
