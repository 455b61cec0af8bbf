/* measure_pairs.c: two processes of this machine that exchange messages, without MPI: through a
 * local socket, through TCP on the loopback, and through shared memory.
 *
 * An exchange sends and receives at the same time, like MPI_Isend and MPI_Irecv with a wait for
 * both. One way: the other side sends back a single byte. The child only copies and ends; it does
 * not touch the parent's state. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/clock.h"
#include "calibrate/host/meter.h"

enum { MESSAGE = 4 << 20, TURNS = 100 };

/* A repetition of the pair, as seen by the parent. */
struct pair {
	int fd;
	char *out, *in; /* MESSAGE bytes each */
	size_t send, receive;
	int turns;
};

/* ---- through a socket ---- */

/* Send and receive at the same time; false if the other side is gone. */
static bool pairs_exchange(int fd, const char *out, size_t send_bytes, char *in,
                           size_t receive_bytes) {
	size_t sent = 0, got = 0;
	while (sent < send_bytes || got < receive_bytes) {
		short events =
			(short)((sent < send_bytes ? POLLOUT : 0) | (got < receive_bytes ? POLLIN : 0));
		ssize_t moved = sent < send_bytes
		                    ? send(fd, out + sent, send_bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
		                    : 0;
		if (moved > 0) sent += (size_t)moved;
		if (moved < 0 && errno != EAGAIN && errno != EINTR) return false;
		ssize_t read_now =
			got < receive_bytes ? recv(fd, in + got, receive_bytes - got, MSG_DONTWAIT) : 0;
		if (read_now > 0) got += (size_t)read_now;
		if (read_now == 0 && got < receive_bytes) return false;
		if (read_now < 0 && errno != EAGAIN && errno != EINTR) return false;
		struct pollfd wait = {fd, events, 0};
		if (moved <= 0 && read_now <= 0 && poll(&wait, 1, 10000) <= 0) return false;
	}
	return true;
}

/* A repetition's orders to the child: how much it receives and sends, how often. */
struct order {
	size_t receive, send;
	int turns;
};

static void serve_socket(int fd, char *out, char *in) {
	struct order o;
	while (pairs_exchange(fd, NULL, 0, (char *)&o, sizeof o))
		for (int i = 0; i < o.turns; i++) {
			size_t at_once =
				o.send > 1 ? o.send : 0; /* a single byte acknowledges that everything has
				                            arrived */
			if (!pairs_exchange(fd, out, at_once, in, o.receive) ||
			    !pairs_exchange(fd, out, o.send - at_once, NULL, 0))
				return;
		}
}

/* If only one side sends, the other finally answers with a byte, after everything has arrived. */
static double time_socket(void *context) {
	const struct pair *pair = context;
	struct order o = {pair->send, pair->receive, pair->turns};
	if (!pairs_exchange(pair->fd, (const char *)&o, sizeof o, NULL, 0)) return NAN;
	double start = lk_clock_s();
	for (int i = 0; i < pair->turns; i++)
		if (!pairs_exchange(pair->fd, pair->out, pair->send, pair->in, pair->receive)) return NAN;
	return lk_clock_s() - start;
}

/* A ping-pong of one byte: received before it is sent back. */
static void serve_pong(int fd) {
	char byte;
	while (pairs_exchange(fd, NULL, 0, &byte, 1) && byte)
		if (!pairs_exchange(fd, &byte, 1, NULL, 0)) return;
}

static double time_pong(void *context) {
	const struct pair *pair = context;
	char byte = 1;
	double start = lk_clock_s();
	for (int i = 0; i < TURNS; i++)
		if (!pairs_exchange(pair->fd, &byte, 1, NULL, 0) ||
		    !pairs_exchange(pair->fd, NULL, 0, &byte, 1))
			return NAN;
	return lk_clock_s() - start;
}

static bool connect_loopback(int fd[2]) {
	struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof place;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fd[0] = fd[1] = -1;
	if (listener < 0) return false;
	bool ready = bind(listener, (struct sockaddr *)&place, size) == 0 && listen(listener, 1) == 0 &&
	             getsockname(listener, (struct sockaddr *)&place, &size) == 0;
	if (ready) fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd[0] >= 0 && connect(fd[0], (struct sockaddr *)&place, size) == 0)
		fd[1] = accept(listener, NULL, NULL);
	close(listener);
	return fd[1] >= 0;
}

static lk_status measure_ways(lk_meter *meter, struct pair *pair, const char *way, double seconds) {
	const struct {
		const char *what;
		size_t send, receive;
	} ways[] = {{"0 to 1", MESSAGE, 1},
	            {"1 to 0", 1, MESSAGE},
	            {"both ways at once, each", MESSAGE, MESSAGE}};
	for (int i = 0; i < 3; i++) {
		char name[96];
		pair->send = ways[i].send;
		pair->receive = ways[i].receive;
		pair->turns = 4;
		lk_sample s = lk_repeat(time_socket, pair, seconds / 4, 3);
		snprintf(name, sizeof name, "%s, 4 MiB %s", way, ways[i].what);
		LK_TRY(lk_meter_rate(meter, "pair", name, "GB/s", 4.0 * MESSAGE, 1e9, &s));
		if (s.repeats && i < 2) meter->send_rate = fmax(meter->send_rate, 4.0 * MESSAGE / s.low);
	}
	return LK_OK;
}

/* Start a second process, which ends with this one. */
static pid_t start_child(void) {
	pid_t child = fork();
	if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

/* Start a child for the messages, and one for the byte. */
static lk_status with_child(lk_meter *meter, struct pair *pair, const char *way, int fd[2],
                            bool pong, double seconds) {
	pid_t child = start_child();
	if (child < 0) return lk_meter_note(meter, "pairs: no second process could be started");
	if (child == 0) {
		close(fd[0]);
		if (pong) serve_pong(fd[1]);
		else serve_socket(fd[1], pair->out, pair->in);
		_exit(0);
	}
	close(fd[1]);
	pair->fd = fd[0];
	lk_status status = LK_OK;
	if (pong) {
		char name[64];
		lk_sample s = lk_repeat(time_pong, pair, seconds, 3);
		snprintf(name, sizeof name, "%s, one byte there or back", way);
		status = lk_meter_time(meter, "pair", name, "us", 2 * TURNS, 1e-6, &s);
	} else status = measure_ways(meter, pair, way, seconds);
	close(fd[0]);
	waitpid(child, NULL, 0);
	return status;
}

static lk_status measure_sockets(lk_meter *meter, struct pair *pair, bool tcp, double seconds) {
	const char *way = tcp ? "TCP loopback" : "local socket";
	for (int pong = 0; pong < 2; pong++) {
		int fd[2];
		bool connected = tcp ? connect_loopback(fd)
		                     : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0;
		if (!connected) return lk_meter_note(meter, "pairs: no %s here", way);
		LK_TRY(with_child(meter, pair, way, fd, pong, pong ? seconds * 0.25 : seconds * 0.75));
	}
	return LK_OK;
}

/* ---- through memory ---- */

/* Two halves of a buffer; the sender copies in, the receiver copies out, like MPI between
 * processes. */
struct mailbox {
	_Atomic long written, taken; /* pieces so far */
	_Atomic int over;
	_Alignas(64) char piece[2][128 << 10];
};

struct mail {
	struct mailbox *box;
	char *out;
	long pieces;
};

/* Wait without occupying the core forever; false if the other process has ended. */
static bool wait_until(const struct mailbox *box, const _Atomic long *counter, long wanted) {
	for (long i = 0; atomic_load_explicit(counter, memory_order_acquire) < wanted; i++) {
		if (atomic_load(&box->over)) return false;
		if (i > 1000) sched_yield();
		if (i > 100000000) return false;
	}
	return true;
}

static void take_mail(struct mailbox *box, char *in) {
	for (long n = 0; wait_until(box, &box->written, n + 1); n++) {
		size_t place = (size_t)n % (MESSAGE / sizeof box->piece[0]) * sizeof box->piece[0];
		memcpy(in + place, box->piece[n % 2], sizeof box->piece[0]);
		atomic_store_explicit(&box->taken, n + 1, memory_order_release);
	}
}

static double time_mail(void *context) {
	struct mail *mail = context;
	struct mailbox *box = mail->box;
	const long count = MESSAGE / (long)sizeof box->piece[0];
	double start = lk_clock_s();
	for (long i = 0; i < count; i++, mail->pieces++) {
		if (!wait_until(box, &box->taken, mail->pieces - 1)) return NAN;
		memcpy(box->piece[mail->pieces % 2], mail->out + i * (long)sizeof box->piece[0],
		       sizeof box->piece[0]);
		atomic_store_explicit(&box->written, mail->pieces + 1, memory_order_release);
	}
	return wait_until(box, &box->taken, mail->pieces) ? lk_clock_s() - start : NAN;
}

static lk_status measure_shared(lk_meter *meter, const struct pair *pair, double seconds) {
	struct mailbox *box =
		mmap(NULL, sizeof *box, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (box == MAP_FAILED) return lk_meter_note(meter, "pairs: no memory that two processes share");
	pid_t child = start_child();
	if (child == 0) {
		take_mail(box, pair->in);
		_exit(0);
	}
	lk_status status = LK_OK;
	if (child > 0) {
		struct mail letters = {.box = box, .out = pair->out};
		lk_sample s = lk_repeat(time_mail, &letters, seconds, 3);
		status =
			lk_meter_rate(meter, "pair", "shared memory, 4 MiB 0 to 1", "GB/s", MESSAGE, 1e9, &s);
		if (s.repeats) meter->send_rate = fmax(meter->send_rate, MESSAGE / s.low);
		atomic_store(&box->over, 1);
		waitpid(child, NULL, 0);
	}
	munmap(box, sizeof *box);
	return status;
}

lk_status lk_measure_pairs(lk_meter *meter, double seconds) {
	lk_meter_say(meter, "pairs of processes");
	struct pair p = {.out = lk_pages(2 * (size_t)MESSAGE)};
	if (!p.out) return lk_oom(meter->err);
	p.in = p.out + MESSAGE;
	memset(p.out, 1, 2 * (size_t)MESSAGE);
	lk_status status = measure_sockets(meter, &p, false, seconds * 0.4);
	if (status == LK_OK) status = measure_sockets(meter, &p, true, seconds * 0.4);
	if (status == LK_OK) status = measure_shared(meter, &p, seconds * 0.2);
	munmap(p.out, 2 * (size_t)MESSAGE);
	return status;
}
