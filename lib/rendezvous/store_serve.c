/* store_serve.c: connections of one process to the store of the absent ranks. One thread waits for
 * all of them; a pipe ends it. A connection with an invalid request is closed, others continue. */
#include "rendezvous/rendezvous.h"
#include "base/check.h"

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

enum {
	MOST_CLIENTS = 256,
	WAITING = 64,
	CHUNK = 1 << 16,
	FIRST = 2 /* after the pipe and the port */
};

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

static void accept_client(lk_store_server *server) {
	LK_ASSERT(server->count <= MOST_CLIENTS);
	int fd = accept4(server->listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) return;
	if (server->count == MOST_CLIENTS) {
		close(fd);
		return;
	}
	server->poll[FIRST + server->count] = (struct pollfd){.fd = fd};
	server->client[server->count++] = (lk_store_client){0};
	server->served.connections++;
}

static void close_client(lk_store_server *server, size_t i) {
	LK_ASSERT(i < server->count);
	const char *wrong = server->client[i].wrong;
	if (wrong && !*server->served.wrong)
		snprintf(server->served.wrong, sizeof server->served.wrong, "%s", wrong);
	close(server->poll[FIRST + i].fd);
	lk_store_client_end(&server->client[i]);
	server->count--;
	server->client[i] = server->client[server->count];
	server->poll[FIRST + i] = server->poll[FIRST + server->count];
}

static bool is_worth_retrying(ssize_t got) {
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool receive_from_client(lk_store_server *server, size_t i) {
	LK_ASSERT(i < server->count);
	unsigned char bytes[CHUNK];
	ssize_t got = recv(server->poll[FIRST + i].fd, bytes, sizeof bytes, 0);
	if (got <= 0) return is_worth_retrying(got);
	return lk_store_take(&server->store, &server->client[i], bytes, (size_t)got);
}

static bool send_pending_reply(lk_store_server *server, size_t i) {
	lk_bytes *out = &server->client[i].out;
	ssize_t sent =
		out->count ? send(server->poll[FIRST + i].fd, out->at, out->count, MSG_NOSIGNAL) : 0;
	if (sent < 0) return is_worth_retrying(sent);
	if (sent) memmove(out->at, out->at + sent, out->count - (size_t)sent);
	out->count -= (size_t)sent;
	return true;
}

/* Serve ready clients; a client that does not read its answers is not read from. */
static void serve_ready_clients(lk_store_server *server) {
	for (size_t i = server->count; i-- > 0;) {
		short ready = server->poll[FIRST + i].revents;
		bool good = true;
		if (ready & (POLLIN | POLLHUP | POLLERR)) good = receive_from_client(server, i);
		if (good && server->client[i].out.count) good = send_pending_reply(server, i);
		if (!good) close_client(server, i);
	}
}

static void *serve_until_stopped(void *argument) {
	lk_store_server *server = argument;
	for (;;) {
		server->poll[0] = (struct pollfd){.fd = server->ends[0], .events = POLLIN};
		server->poll[1] = (struct pollfd){.fd = server->listens, .events = POLLIN};
		for (size_t i = 0; i < server->count; i++) {
			server->poll[FIRST + i].events = server->client[i].out.count ? POLLOUT : POLLIN;
			server->poll[FIRST + i].revents = 0;
		}
		if (poll(server->poll, FIRST + server->count, -1) < 0 && errno != EINTR) break;
		if (server->poll[0].revents) break;
		serve_ready_clients(server);
		if (server->poll[1].revents) accept_client(server);
	}
	return NULL;
}

/* ---- begin and end ---- */

static lk_status fail_store_port(lk_error *err, int port, const char *what) {
	lk_fail(err, LK_ERR_IO, "rendezvous", "port %d of the loopback: cannot %s: %s", port, what,
	        strerror(errno));
	return lk_hint(
		err, "set MASTER_PORT in the environment to another port, or unset it to use any free one");
}

static lk_status listen_on_loopback(lk_store_server *server, int port, lk_error *err) {
	struct sockaddr_in at = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)port),
	                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof at;
	int yes = 1;
	server->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listens < 0) return fail_store_port(err, port, "make a socket");
	setsockopt(server->listens, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(server->listens, (struct sockaddr *)&at, sizeof at) != 0)
		return fail_store_port(err, port, "bind");
	if (listen(server->listens, WAITING) != 0) return fail_store_port(err, port, "listen");
	if (getsockname(server->listens, (struct sockaddr *)&at, &size) != 0)
		return fail_store_port(err, port, "ask for its name");
	server->port = ntohs(at.sin_port);
	return LK_OK;
}

/* The thread blocks all signals, which are waited for elsewhere. */
static lk_status start_store_thread(lk_store_server *server, lk_error *err) {
	sigset_t all, before;
	if (pipe2(server->ends, O_CLOEXEC) != 0)
		return fail_store_port(err, server->port, "make a pipe");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int code = pthread_create(&server->thread, NULL, serve_until_stopped, server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code == 0) return LK_OK;
	close(server->ends[0]);
	close(server->ends[1]);
	errno = code;
	return fail_store_port(err, server->port, "start a thread");
}

lk_status lk_store_serve(int rank, int world, int port, lk_store_server **out, lk_error *err) {
	LK_ASSERT(port >= 0 && port < 65536);
	lk_store_server *server = calloc(1, sizeof *server);
	if (!server) return lk_oom(err);
	server->listens = -1;
	lk_store_begin(&server->store, rank, world);
	lk_status status = listen_on_loopback(server, port, err);
	if (status == LK_OK) status = start_store_thread(server, err);
	if (status == LK_OK) {
		*out = server;
		return LK_OK;
	}
	if (server->listens >= 0) close(server->listens);
	free(server);
	return status;
}

int lk_store_port(const lk_store_server *server) {
	return server->port;
}

void lk_store_stop(lk_store_server *server, lk_store_served *out) {
	if (!server) return;
	close(server->ends[1]);
	pthread_join(server->thread, NULL);
	server->served.requests = server->store.requests;
	server->served.made_up = server->store.made_up;
	if (out) *out = server->served;
	while (server->count) close_client(server, server->count - 1);
	close(server->listens);
	close(server->ends[0]);
	lk_store_end(&server->store);
	free(server);
}
