/* http_loop.c: runs the server: the socket, preparation, the loop, the end. */
#include "serve/serve.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "lockstep/predict.h"
#include "serve/http.h"
#include "system/clock.h"
#include "serve/serve_internal.h"

enum {
	BACKLOG = 512,
	DESCRIPTORS = 4096,
	POLLED = 512 + 2,
	CONNECTION_MEMORY = 32 << 10,
	SILENT_S = 30,
	ACCEPT_AGAIN_MS = 50,
	URL_SIZE = 256
};

const bool lk_serve_is_built = true;

/* ---- the socket ---- */

struct place {
	int socket;
	bool loopback;
	char url[URL_SIZE]; /* "http://127.0.0.1:8420/" */
};

static lk_status fail_bad_address(const lk_serve_request *request, const char *why, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "--listen", "\"%.64s\" cannot be used: %s", request->listen, why);
	return lk_hint(err, "give an address of this machine, as 127.0.0.1, ::1 or 0.0.0.0");
}

/* Names are not resolved: the static program of a release cannot load what getaddrinfo needs for
 * that. */
static lk_status read_address(const lk_serve_request *request, struct sockaddr_storage *out,
                              socklen_t *size, lk_error *err) {
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)request->port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6,
	                           .sin6_port = htons((uint16_t)request->port)};
	bool local = strcmp(request->listen, "localhost") == 0;
	char host[64];
	snprintf(host, sizeof host, "%s", local ? "127.0.0.1" : request->listen);
	if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
		memcpy(out, &four, *size = sizeof four);
		return LK_OK;
	}
	/* fe80::1%eth0 */
	char *zone = strchr(host, '%');
	if (zone) *zone++ = '\0';
	if (inet_pton(AF_INET6, host, &six.sin6_addr) != 1)
		return fail_bad_address(request, "not an IP address", err);
	if (zone && (six.sin6_scope_id = if_nametoindex(zone)) == 0)
		return fail_bad_address(request, strerror(errno), err);
	memcpy(out, &six, *size = sizeof six);
	return LK_OK;
}

static lk_status bind_address(const lk_serve_request *request,
                              const struct sockaddr_storage *address, socklen_t size,
                              struct place *place, lk_error *err) {
	int on = 1;
	if (place->socket < 0) return fail_bad_address(request, strerror(errno), err);
	setsockopt(place->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(place->socket, (const struct sockaddr *)address, size) == 0 &&
	    listen(place->socket, BACKLOG) == 0)
		return LK_OK;
	if (errno != EADDRINUSE && errno != EACCES)
		return fail_bad_address(request, strerror(errno), err);
	lk_fail(err, LK_ERR_IO, "--port", "%d cannot be used: %s", request->port, strerror(errno));
	return lk_hint(err, "give another, or --port 0 for one that is free");
}

static lk_status name_listen_url(struct place *place, lk_error *err) {
	struct sockaddr_storage own = {0};
	socklen_t size = sizeof own;
	char host[64] = "", port[16] = "";
	if (getsockname(place->socket, (struct sockaddr *)&own, &size) != 0 ||
	    getnameinfo((struct sockaddr *)&own, size, host, sizeof host, port, sizeof port,
	                NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return lk_fail(err, LK_ERR_IO, "socket", "has no name: %s", strerror(errno));
	bool six = own.ss_family == AF_INET6;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&own;
	place->loopback = six ? strcmp(host, "::1") == 0 : (ntohl(four->sin_addr.s_addr) >> 24) == 127;
	/* A server on all addresses is reached on the loopback address too. */
	if (strcmp(host, "0.0.0.0") == 0) snprintf(host, sizeof host, "127.0.0.1");
	if (strcmp(host, "::") == 0) snprintf(host, sizeof host, "::1");
	snprintf(place->url, sizeof place->url, six ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
	return LK_OK;
}

static lk_status open_listen_place(const lk_serve_request *request, struct place *place,
                                   lk_error *err) {
	struct sockaddr_storage address = {0};
	socklen_t size = 0;
	*place = (struct place){.socket = -1};
	LK_TRY(read_address(request, &address, &size, err));
	place->socket = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	LK_TRY(bind_address(request, &address, size, place, err));
	return name_listen_url(place, err);
}

/* ---- preparation ---- */

/* Reads what every prediction needs, once: children start as copies of this process. */
static void warm_up_catalogues(void) {
	lk_predict_request r;
	lk_prediction *prediction = NULL;
	lk_error not_here; /* the question reports it */
	lk_predict_defaults(&r);
	r.model = "llama3.1-8b";
	r.gpu = "h100-sxm";
	r.gpus = 8;
	r.gbs = 8;
	r.seq = 4096;
	if (lk_predict(&r, &prediction, &not_here) == LK_OK) lk_predict_free(prediction);
}

static void raise_descriptor_limit(void) {
	struct rlimit now;
	if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur >= DESCRIPTORS) return;
	now.rlim_cur = now.rlim_max < DESCRIPTORS ? now.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &now);
}

/* ---- the loop ---- */

static void ignore_library_message(void *context, const char *format, va_list values) {
	(void)context, (void)format, (void)values;
}

/* Decodes %XX in a path or argument in place, except %00, which would end the text. */
static size_t decode_percent(void *context, struct MHD_Connection *connection, char *text) {
	char *to = text;
	unsigned byte;
	(void)context, (void)connection;
	for (const char *from = text; *from; to++) {
		bool coded = *from == '%' && isxdigit((unsigned char)from[1]) &&
		             isxdigit((unsigned char)from[2]) && sscanf(from + 1, "%2x", &byte) == 1 &&
		             byte;
		*to = coded ? (char)byte : *from;
		from += coded ? 3 : 1;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static lk_status start_http_daemon(lk_server *server, int socket, lk_error *err) {
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	server->daemon = lk_mhd.start_daemon(
		flags, 0, NULL, NULL, lk_exchange_take, server, MHD_OPTION_EXTERNAL_LOGGER,
		ignore_library_message, NULL, MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)LK_PEERS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT,
		1, MHD_OPTION_UNESCAPE_CALLBACK, decode_percent, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
		MHD_OPTION_NOTIFY_COMPLETED, lk_exchange_end, server, MHD_OPTION_NOTIFY_CONNECTION,
		lk_peer_notify, server, MHD_OPTION_END);
	return server->daemon ? LK_OK
	                      : lk_fail(err, LK_ERR_IO, "server", "libmicrohttpd cannot be started");
}

/* Returns the milliseconds until a deadline or until the library wants to be called; -1: never. */
static int milliseconds_left(lk_server *server) {
	MHD_UNSIGNED_LONG_LONG library;
	double first = fmin(lk_asks_deadline(&server->asks), lk_peers_deadline(server));
	double left = isfinite(first) ? fmax(0, (first - lk_clock_s()) * 1e3 + 1) : INFINITY;
	if (lk_mhd.get_timeout(server->daemon, &library) == MHD_YES) left = fmin(left, (double)library);
	return left > 60e3 ? 60000 : (int)left;
}

static lk_status run_server_loop(lk_server *server, int signals, lk_error *err) {
	struct pollfd fds[POLLED];
	int library = lk_mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	for (;;) {
		fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = library, .events = POLLIN};
		int count = 2 + lk_asks_poll(&server->asks, fds + 2, POLLED - 2);
		if (poll(fds, (nfds_t)count, milliseconds_left(server)) < 0 && errno != EINTR)
			return lk_fail(err, LK_ERR_IO, "poll", "cannot wait: %s", strerror(errno));
		if (fds[0].revents & POLLIN) return LK_OK;
		bool alone = !server->peers;
		lk_asks_step(&server->asks);
		lk_peers_step(server);
		/* One request may end another, which then continues in the next round. */
		do {
			server->resumed = false;
			lk_mhd.run(server->daemon);
		} while (server->resumed);
		/* Descriptors ran out, so a connection could not be accepted: try again after a pause. */
		if (alone && !server->peers && (fds[1].revents & POLLIN)) poll(fds, 1, ACCEPT_AGAIN_MS);
	}
}

/* Ends questions first: the library must not be stopped while requests are suspended, and a request
 * that comes now would be. */
static void finish_server(lk_server *server) {
	server->ending = true;
	while (server->asks.first) lk_asks_cancel(&server->asks, server->asks.first);
	if (server->daemon) {
		lk_mhd.run(server->daemon);
		lk_mhd.stop_daemon(server->daemon);
	}
	lk_job_list_free(&server->jobs, &server->asks);
	lk_lists_free(&server->lists);
	if (server->folder[0]) lk_folder_remove(server->folder);
}

static lk_status serve_until_signal(lk_server *server, const struct place *place, int signals,
                                    lk_serve_ready *ready, void *context, lk_error *err) {
	char url[URL_SIZE + LK_TOKEN_SIZE + 16];
	LK_TRY(lk_guard_init(&server->guard, place->loopback, server->request->names, err));
	LK_TRY(lk_lists_make(&server->lists, err));
	LK_TRY(lk_folder_make(server->folder, err));
	LK_TRY(start_http_daemon(server, place->socket, err));
	snprintf(url, sizeof url, "%s#token=%s", place->url, server->guard.token);
	bool opened =
		server->request->open && lk_open_browser(server->folder, url, &server->asks.signals);
	if (!ready(context, url, opened))
		return lk_fail(err, LK_ERR_IO, "standard output", "the address cannot be written");
	return run_server_loop(server, signals, err);
}

lk_status lk_serve(const lk_serve_request *request, lk_serve_ready *ready, void *context,
                   lk_error *err) {
	LK_TRY(lk_mhd_load(err));
	lk_server *server = calloc(1, sizeof *server);
	sigset_t held, before;
	struct place p;
	if (!server) return lk_oom(err);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	server->request = request;
	server->workers = request->workers;
	if (!server->workers) server->workers = cores > 0 ? (int)cores : 1;
	lk_status status = open_listen_place(request, &p, err);
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGPIPE);
	sigprocmask(SIG_BLOCK, &held, &before);
	sigdelset(&held, SIGPIPE);
	int signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
	if (status == LK_OK && signals < 0)
		status = lk_fail(err, LK_ERR_IO, "signalfd", "%s", strerror(errno));
	server->asks.most = server->workers;
	server->asks.signals = before;
	if (status == LK_OK) {
		raise_descriptor_limit();
		warm_up_catalogues();
		status = serve_until_signal(server, &p, signals, ready, context, err);
	}
	finish_server(server);
	/* The library has closed the socket. */
	if (p.socket >= 0 && !server->daemon) close(p.socket);
	/* Discard the signal that ended the server, so that it does not end the process. */
	while (sigtimedwait(&held, NULL, &(struct timespec){0}) > 0) continue;
	if (signals >= 0) close(signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(server);
	return status;
}
