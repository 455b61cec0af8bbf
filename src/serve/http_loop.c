/* http_loop.c: the life of the server: the socket, what is known beforehand, the loop, the end. */
#include "serve/serve.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "lockstep/predict.h"
#include "serve/http.h"
#include "serve/serve_internal.h"

enum { BACKLOG = 512, DESCRIPTORS = 4096, POLLED = 512 + 2, CONNECTION_MEMORY = 32 << 10, SILENT_S = 30,
	URL_SIZE = 256 };

/* ---- the socket ---- */

struct place {
	int socket;
	bool loopback;
	char url[URL_SIZE];     /* "http://127.0.0.1:8420/" */
};

static lk_status bad_address(const lk_serve_request *r, const char *why, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "--listen", "\"%.64s\" cannot be used: %s", r->listen, why);
	return lk_hint(err, "give an address of this machine, as 127.0.0.1, ::1 or 0.0.0.0");
}

static lk_status look_up(const lk_serve_request *r, struct addrinfo **out, lk_error *err) {
	char port[16];
	bool local = strcmp(r->listen, "localhost") == 0;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	snprintf(port, sizeof port, "%d", r->port);
	int code = getaddrinfo(local ? "127.0.0.1" : r->listen, port, &hints, out);
	return code == 0 ? LK_OK : bad_address(r, gai_strerror(code), err);
}

static lk_status bound(const lk_serve_request *r, const struct addrinfo *a, struct place *p, lk_error *err) {
	int on = 1;
	if (p->socket < 0) return bad_address(r, strerror(errno), err);
	setsockopt(p->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(p->socket, a->ai_addr, a->ai_addrlen) == 0 && listen(p->socket, BACKLOG) == 0) return LK_OK;
	if (errno != EADDRINUSE && errno != EACCES) return bad_address(r, strerror(errno), err);
	lk_fail(err, LK_ERR_IO, "--port", "%d cannot be used: %s", r->port, strerror(errno));
	return lk_hint(err, "give another, or --port 0 for one that is free");
}

static lk_status name_place(struct place *p, lk_error *err) {
	struct sockaddr_storage own = {0};
	socklen_t size = sizeof own;
	char host[64] = "", port[16] = "";
	if (getsockname(p->socket, (struct sockaddr *)&own, &size) != 0 ||
		getnameinfo((struct sockaddr *)&own, size, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return lk_fail(err, LK_ERR_IO, "socket", "has no name: %s", strerror(errno));
	bool six = own.ss_family == AF_INET6;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&own;
	p->loopback = six ? strcmp(host, "::1") == 0 : (ntohl(four->sin_addr.s_addr) >> 24) == 127;
	/* Who listens everywhere is reached here too. */
	if (strcmp(host, "0.0.0.0") == 0) snprintf(host, sizeof host, "127.0.0.1");
	if (strcmp(host, "::") == 0) snprintf(host, sizeof host, "::1");
	snprintf(p->url, sizeof p->url, six ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
	return LK_OK;
}

static lk_status open_place(const lk_serve_request *r, struct place *p, lk_error *err) {
	struct addrinfo *a = NULL;
	*p = (struct place){.socket = -1};
	LK_TRY(look_up(r, &a, err));
	p->socket = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	lk_status status = bound(r, a, p, err);
	freeaddrinfo(a);
	return status == LK_OK ? name_place(p, err) : status;
}

/* ---- what is known beforehand ---- */

/* Children begin as copies of this process: what every prediction needs is read here, once. */
static void warm_up(void) {
	lk_predict_request r;
	lk_prediction *prediction = NULL;
	lk_predict_defaults(&r);
	r.model = "llama3.1-8b", r.gpu = "h100-sxm", r.gpus = 8, r.gbs = 8, r.seq = 4096;
	if (lk_predict(&r, &prediction, NULL) == LK_OK) lk_predict_free(prediction);
}

static void raise_descriptors(void) {
	struct rlimit now;
	if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= DESCRIPTORS) return;
	now.rlim_cur = now.rlim_max < DESCRIPTORS ? now.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &now);
}

/* ---- the loop ---- */

static void silent(void *context, const char *format, va_list values) {
	(void)context, (void)format, (void)values;
}

static lk_status start_daemon(lk_server *s, int socket, lk_error *err) {
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, lk_exchange_take, s,
		MHD_OPTION_EXTERNAL_LOGGER, silent, NULL,
		MHD_OPTION_LISTEN_SOCKET, socket,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)LK_PEERS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
		MHD_OPTION_NOTIFY_COMPLETED, lk_exchange_end, s,
		MHD_OPTION_NOTIFY_CONNECTION, lk_peer_notify, s,
		MHD_OPTION_END);
	return s->daemon ? LK_OK : lk_fail(err, LK_ERR_IO, "server", "libmicrohttpd cannot be started");
}

/* Milliseconds until something is late or the library wants to be called; -1: never. */
static int time_left(lk_server *s) {
	MHD_UNSIGNED_LONG_LONG library;
	double first = fmin(lk_asks_deadline(&s->asks), lk_peers_deadline(s));
	double left = isfinite(first) ? fmax(0, (first - lk_serve_now()) * 1e3 + 1) : INFINITY;
	if (MHD_get_timeout(s->daemon, &library) == MHD_YES) left = fmin(left, (double)library);
	return left > 60e3 ? 60000 : (int)left;
}

static void loop(lk_server *s, int signals) {
	struct pollfd fds[POLLED];
	int library = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	for (;;) {
		fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = library, .events = POLLIN};
		int count = 2 + lk_asks_poll(&s->asks, fds + 2, POLLED - 2);
		if (poll(fds, (nfds_t)count, time_left(s)) < 0 && errno != EINTR) return;
		if (fds[0].revents & POLLIN) return;
		lk_asks_step(&s->asks);
		lk_peers_step(s);
		/* One request may end another, which then goes on in the next round. */
		do {
			s->resumed = false;
			MHD_run(s->daemon);
		} while (s->resumed);
	}
}

/* Questions first: the library may not be stopped while requests stand still, and one that comes now would. */
static void finish(lk_server *s) {
	s->ending = true;
	while (s->asks.first) lk_asks_cancel(&s->asks, s->asks.first);
	if (s->daemon) {
		MHD_run(s->daemon);
		MHD_stop_daemon(s->daemon);
	}
	lk_job_list_free(&s->jobs, &s->asks);
	lk_lists_free(&s->lists);
	if (s->folder[0]) lk_folder_remove(s->folder);
}

static lk_status serve(lk_server *s, const struct place *p, int signals, lk_serve_ready *ready, void *context, lk_error *err) {
	char url[URL_SIZE + LK_TOKEN_SIZE + 16];
	LK_TRY(lk_guard_init(&s->guard, p->loopback, s->request->names, err));
	LK_TRY(lk_lists_make(&s->lists, err));
	LK_TRY(lk_folder_make(s->folder, err));
	LK_TRY(start_daemon(s, p->socket, err));
	snprintf(url, sizeof url, "%s#token=%s", p->url, s->guard.token);
	ready(context, url, s->request->open && lk_open_browser(s->folder, url, &s->asks.signals));
	loop(s, signals);
	return LK_OK;
}

lk_status lk_serve(const lk_serve_request *request, lk_serve_ready *ready, void *context, lk_error *err) {
	lk_server *s = calloc(1, sizeof *s);
	sigset_t held, before;
	struct place p;
	if (!s) return lk_oom(err);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	s->request = request;
	s->workers = request->workers ? request->workers : cores > 0 ? (int)cores : 1;
	lk_status status = open_place(request, &p, err);
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGPIPE);
	sigprocmask(SIG_BLOCK, &held, &before);
	sigdelset(&held, SIGPIPE);
	int signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
	if (status == LK_OK && signals < 0) status = lk_fail(err, LK_ERR_IO, "signalfd", "%s", strerror(errno));
	s->asks.most = s->workers;
	s->asks.signals = before;
	if (status == LK_OK) {
		raise_descriptors();
		warm_up();
		status = serve(s, &p, signals, ready, context, err);
	}
	finish(s);
	/* The library closes the socket that it was given. */
	if (p.socket >= 0 && !s->daemon) close(p.socket);
	if (signals >= 0) {
		struct signalfd_siginfo taken;
		while (read(signals, &taken, sizeof taken) > 0) continue;
		close(signals);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(s);
	return status;
}
