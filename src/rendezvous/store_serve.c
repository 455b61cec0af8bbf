/* store_serve.c: connections of one process to the store of the absent ranks. One thread waits for all of them; a pipe ends it.
 * A connection that sends what is no request is closed, others go on. */
#include "rendezvous/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CLIENTS = 256, WAITING = 64, CHUNK = 1 << 16, FIRST = 2 /* behind the pipe and the port */ };

struct lk_store_server {
	lk_store store;
	lk_store_served served;
	pthread_t thread;
	int listens, port, ends[2];
	struct pollfd poll[FIRST + MOST_CLIENTS];
	lk_store_client client[MOST_CLIENTS];
	size_t count;
};

/* ---- connections ---- */

static void accept_one(lk_store_server *s) {
	int fd = accept4(s->listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) return;
	if (s->count == MOST_CLIENTS) {
		close(fd);
		return;
	}
	s->poll[FIRST + s->count] = (struct pollfd){.fd = fd};
	s->client[s->count++] = (lk_store_client){0};
	s->served.connections++;
}

static void close_one(lk_store_server *s, size_t i) {
	const char *wrong = s->client[i].wrong;
	if (wrong && !*s->served.wrong) snprintf(s->served.wrong, sizeof s->served.wrong, "%s", wrong);
	close(s->poll[FIRST + i].fd);
	lk_store_client_end(&s->client[i]);
	s->count--;
	s->client[i] = s->client[s->count];
	s->poll[FIRST + i] = s->poll[FIRST + s->count];
}

static bool again(ssize_t got) { return got < 0 && (errno == EAGAIN || errno == EINTR); }

static bool receive(lk_store_server *s, size_t i) {
	unsigned char bytes[CHUNK];
	ssize_t got = recv(s->poll[FIRST + i].fd, bytes, sizeof bytes, 0);
	if (got <= 0) return again(got);
	return lk_store_take(&s->store, &s->client[i], bytes, (size_t)got);
}

static bool send_rest(lk_store_server *s, size_t i) {
	lk_bytes *out = &s->client[i].out;
	ssize_t sent = out->count ? send(s->poll[FIRST + i].fd, out->at, out->count, MSG_NOSIGNAL) : 0;
	if (sent < 0) return again(sent);
	if (sent) memmove(out->at, out->at + sent, out->count - (size_t)sent);
	out->count -= (size_t)sent;
	return true;
}

/* What does not read its answers is asked for nothing more. */
static void serve_ready(lk_store_server *s) {
	for (size_t i = s->count; i-- > 0;) {
		short ready = s->poll[FIRST + i].revents;
		bool good = true;
		if (ready & (POLLIN | POLLHUP | POLLERR)) good = receive(s, i);
		if (good && s->client[i].out.count) good = send_rest(s, i);
		if (!good) close_one(s, i);
	}
}

static void *serve(void *argument) {
	lk_store_server *s = argument;
	for (;;) {
		s->poll[0] = (struct pollfd){.fd = s->ends[0], .events = POLLIN};
		s->poll[1] = (struct pollfd){.fd = s->listens, .events = POLLIN};
		for (size_t i = 0; i < s->count; i++)
			s->poll[FIRST + i].events = s->client[i].out.count ? POLLOUT : POLLIN, s->poll[FIRST + i].revents = 0;
		if (poll(s->poll, FIRST + s->count, -1) < 0 && errno != EINTR) break;
		if (s->poll[0].revents) break;
		serve_ready(s);
		if (s->poll[1].revents) accept_one(s);
	}
	return NULL;
}

/* ---- begin and end ---- */

static lk_status cannot(lk_error *err, int port, const char *what) {
	lk_fail(err, LK_ERR_IO, "rendezvous", "port %d of the loopback: cannot %s: %s", port, what, strerror(errno));
	return lk_hint(err, "MASTER_PORT in the environment names another one; without it any free one is taken");
}

static lk_status listen_on(lk_store_server *s, int port, lk_error *err) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof at;
	int yes = 1;
	s->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listens < 0) return cannot(err, port, "make a socket");
	setsockopt(s->listens, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(s->listens, (struct sockaddr *)&at, sizeof at) != 0) return cannot(err, port, "bind");
	if (listen(s->listens, WAITING) != 0) return cannot(err, port, "listen");
	if (getsockname(s->listens, (struct sockaddr *)&at, &size) != 0) return cannot(err, port, "ask for its name");
	s->port = ntohs(at.sin_port);
	return LK_OK;
}

/* The thread takes no signals: they are waited for elsewhere. */
static lk_status start(lk_store_server *s, lk_error *err) {
	sigset_t all, before;
	if (pipe2(s->ends, O_CLOEXEC) != 0) return cannot(err, s->port, "make a pipe");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int code = pthread_create(&s->thread, NULL, serve, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code == 0) return LK_OK;
	close(s->ends[0]);
	close(s->ends[1]);
	errno = code;
	return cannot(err, s->port, "start a thread");
}

lk_status lk_store_serve(int rank, int world, int port, lk_store_server **out, lk_error *err) {
	lk_store_server *s = calloc(1, sizeof *s);
	if (!s) return lk_oom(err);
	s->listens = -1;
	lk_store_begin(&s->store, rank, world);
	lk_status status = listen_on(s, port, err);
	if (status == LK_OK) status = start(s, err);
	if (status == LK_OK) return *out = s, LK_OK;
	if (s->listens >= 0) close(s->listens);
	free(s);
	return status;
}

int lk_store_port(const lk_store_server *server) { return server->port; }

void lk_store_stop(lk_store_server *s, lk_store_served *out) {
	if (!s) return;
	close(s->ends[1]);
	pthread_join(s->thread, NULL);
	s->served.requests = s->store.requests, s->served.made_up = s->store.made_up;
	if (out) *out = s->served;
	while (s->count) close_one(s, s->count - 1);
	close(s->listens);
	close(s->ends[0]);
	lk_store_end(&s->store);
	free(s);
}
