/* http.h: what the http_*.c files share. They alone know libmicrohttpd; the daemon is driven by the
 * loop in http_loop.c, so that every callback runs in the one thread.
 *
 *     http_library.c    libmicrohttpd itself, loaded when the server starts
 *     http_respond.c    answers and their headers
 *     http_peers.c      connections by age
 *     http_question.c   a request as a question for a child process
 *     http_upload.c     a form with files
 *     http_routes.c     the table of requests, and the functions that answer
 *     http_request.c    a request from its headers to its answer
 *     http_loop.c       lk_serve: the socket, the loop, the end
 */
#ifndef LK_SERVE_HTTP_H
#define LK_SERVE_HTTP_H

#include "serve/http_library.h"
#include "serve/serve_internal.h"
#include "serve/serve.h"

typedef struct lk_server lk_server;
typedef struct lk_exchange lk_exchange;
typedef struct lk_upload lk_upload;

/* A connection of a client, and the deadline of its next step. */
typedef struct lk_peer {
	struct lk_peer *next, *previous;
	lk_server *server;
	int fd;
	uint64_t client; /* its address, for IPv6 the /64 network; 0: unknown */
	bool leaving;    /* closed to make room */
	bool asking; /* the request is complete, the answer is not: the clock of the client stands still
	              */
	double deadline;
} lk_peer;

/* One request and its answer. */
struct lk_exchange {
	lk_server *server;
	struct MHD_Connection *connection;
	lk_peer *peer;
	const struct lk_route *route;
	const char *rest; /* the path after that of the route: an id */
	lk_form form;     /* ?form= */
	const char *page; /* ?page=, or NULL */
	double begin;     /* time of its first byte */
	double received;  /* bytes of the body */
	char *body;       /* of a JSON request */
	size_t size, room;
	lk_upload *upload; /* of a question about files */
	lk_ask *ask;       /* a prediction that the client waits for; owned */
	bool suspended;
};

/* The function that answers a method and path. */
typedef struct lk_route {
	const char *method, *path; /* a path that ends in '/' matches any continuation, the `rest` */
	enum MHD_Result (*run)(lk_exchange *x);
	enum { LK_BODY_NONE, LK_BODY_JSON, LK_BODY_FORM } body;
	bool open;             /* needs no token */
	lk_question_kind kind; /* for questions */
} lk_route;

struct lk_server {
	const lk_serve_request *request;
	lk_guard guard;
	lk_asks asks;
	lk_job_list jobs;
	lk_lists lists;
	struct MHD_Daemon *daemon;
	lk_peer *peers; /* newest first */
	int peer_count;
	int workers;
	char folder[LK_FOLDER_SIZE];
	unsigned long long folders; /* made by now */
	int uploads;                /* running */
	bool resumed;               /* a suspended request was resumed */
	bool ending;                /* accepts no more questions */
};

enum {
	LK_BODY_LIMIT = 1 << 20, /* bytes of a JSON request */
	LK_PEERS = 512,          /* connections */
	LK_UPLOADS = 4           /* questions with files on the disk, including waiting ones */
};

/* ---- answers (http_respond.c): each queues the answer of the exchange ---- */

/* Copies `bytes`. */
enum MHD_Result lk_respond(lk_exchange *exchange, unsigned status, const char *type,
                           const void *bytes, size_t size);
/* Borrows `bytes`, which must outlive the server. */
enum MHD_Result lk_respond_static(lk_exchange *exchange, const char *type, const void *bytes,
                                  size_t size);
/* Takes ownership of `text`, allocated by malloc; NULL: out of memory. */
enum MHD_Result lk_respond_json(lk_exchange *exchange, unsigned status, char *text, size_t size);
enum MHD_Result lk_respond_error(lk_exchange *exchange, unsigned status, const lk_error *err);
/* The same with one more header. */
enum MHD_Result lk_respond_with(lk_exchange *exchange, unsigned status, const lk_error *err,
                                const char *header, const char *value);

/* ---- connections (http_peers.c) ---- */

void lk_peer_notify(void *server, struct MHD_Connection *connection, void **peer,
                    enum MHD_ConnectionNotificationCode what);
/* Sets the deadline of the next step of the client, in seconds from now. */
void lk_peer_within(lk_peer *peer, double seconds);
/* Returns the earliest deadline of a client; INFINITY: none. */
double lk_peers_deadline(const lk_server *server);
/* Closes connections past their deadline. */
void lk_peers_step(lk_server *server);

/* ---- questions (http_question.c) ---- */

uint64_t lk_exchange_client(const lk_exchange *exchange);
/* Answers 503, so that the client tries again. */
enum MHD_Result lk_respond_busy(lk_exchange *exchange);
/* Makes the question of the route with the body of the request, in `folder` or (NULL) in a new one.
 * NULL: an error was answered. */
lk_ask *lk_exchange_ask(lk_exchange *exchange, const char *folder, const char *const *traces,
                        int count);

/* ---- files that come as multipart/form-data (http_upload.c) ---- */

lk_upload *lk_upload_new(lk_exchange *exchange); /* NULL: out of memory */
/* Takes a piece of the form; lk_upload_ask reports errors. */
void lk_upload_take(lk_upload *upload, const char *data, size_t size);
/* Makes the question. NULL: an error was answered. */
lk_ask *lk_upload_ask(lk_upload *upload, lk_exchange *exchange);
void lk_upload_free(lk_upload *upload); /* accepts NULL */

/* ---- routes (http_routes.c) ---- */

/* Finds a route and sets *rest to the path after that of the route. NULL: the path is unknown, or
 * the method is wrong; then *allowed names the methods of the path. */
const lk_route *lk_route_find(const char *method, const char *path, const char **rest,
                              const char **allowed);

/* ---- libmicrohttpd's callbacks (http_request.c) ---- */

enum MHD_Result lk_exchange_take(void *server, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **exchange);
void lk_exchange_end(void *server, struct MHD_Connection *connection, void **exchange,
                     enum MHD_RequestTerminationCode how);

#endif
