/* http.h: what the files of the server share. They alone know libmicrohttpd; the daemon is driven
 * by the loop in http_loop.c, so that every callback runs in the one thread. */
#ifndef LK_SERVE_HTTP_H
#define LK_SERVE_HTTP_H

#include <microhttpd.h>
#include "serve/serve_internal.h"
#include "serve/serve.h"

typedef struct lk_server lk_server;
typedef struct lk_exchange lk_exchange;
typedef struct lk_upload lk_upload;

/* A connection of a client, and until when it must have done what is next. */
typedef struct lk_peer {
	struct lk_peer *next, *previous;
	lk_server *server;
	int fd;
	bool leaving; /* was shown out to make place */
	bool asking;  /* a request is complete, the answer not yet made: not the client's time */
	double deadline;
} lk_peer;

/* One request and its answer. */
struct lk_exchange {
	lk_server *server;
	struct MHD_Connection *connection;
	lk_peer *peer;
	const struct lk_route *route;
	const char *rest;       /* of the path, behind the route's: an id */
	lk_form form;           /* ?form= */
	const char *page;       /* ?page=, or NULL */
	double begin, received; /* bytes of the body */
	char *body;             /* of a JSON request */
	size_t size, room;
	lk_upload *upload; /* of an explanation */
	lk_ask *ask;       /* a prediction that is waited for; owned */
	bool suspended;
};

/* What is asked by which method where. */
typedef struct lk_route {
	const char *method, *path; /* a path that ends in '/' takes what follows as `rest` */
	enum MHD_Result (*run)(lk_exchange *x);
	enum {
		LK_BODY_NONE,
		LK_BODY_JSON,
		LK_BODY_FORM
	} body;
	bool open; /* needs no token */
} lk_route;

struct lk_server {
	const lk_serve_request *request;
	lk_guard guard;
	lk_asks asks;
	lk_job_list jobs;
	lk_lists lists;
	struct MHD_Daemon *daemon;
	lk_peer *peers; /* the newest first */
	int peer_count;
	int workers;
	char folder[LK_FOLDER_SIZE];
	unsigned long long folders; /* made so far */
	int uploads;                /* under way */
	bool resumed;               /* a request goes on that stood still */
	bool ending;                /* takes no more questions */
};

/* LK_UPLOADS: explanations at a time, waiting or not, whose traces lie on the disk. */
enum {
	LK_BODY_LIMIT = 1 << 20,
	LK_PEERS = 512,
	LK_UPLOADS = 4
};

/* http_routes.c. *route is NULL where the path is unknown or the method wrong; `allowed` then says
 * which would do. */
const lk_route *lk_route_find(const char *method, const char *path, const char **rest,
                              const char **allowed);
/* A question of this kind, with the body, in a folder of its own; NULL: answered with an error. */
lk_ask *lk_exchange_ask(lk_exchange *exchange, lk_question_kind kind, const char *folder,
                        const char *const *traces, int count);

/* http_respond.c. All of them queue the answer of the exchange. `text` of lk_respond is copied. */
enum MHD_Result lk_respond(lk_exchange *exchange, unsigned status, const char *type,
                           const void *bytes, size_t size);
enum MHD_Result lk_respond_static(lk_exchange *exchange, const char *type, const void *bytes,
                                  size_t size);
enum MHD_Result lk_respond_json(lk_exchange *exchange, unsigned status, char *text,
                                size_t size); /* takes `text` over */
enum MHD_Result lk_respond_error(lk_exchange *exchange, unsigned status, const lk_error *err);
enum MHD_Result lk_respond_with(lk_exchange *exchange, unsigned status, const lk_error *err,
                                const char *header, const char *value);

/* http_request.c: libmicrohttpd's callbacks. */
enum MHD_Result lk_exchange_take(void *server, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **exchange);
void lk_exchange_end(void *server, struct MHD_Connection *connection, void **exchange,
                     enum MHD_RequestTerminationCode how);

/* http_peers.c. */
void lk_peer_notify(void *server, struct MHD_Connection *connection, void **peer,
                    enum MHD_ConnectionNotificationCode what);
void lk_peer_within(lk_peer *peer, double seconds);
double lk_peers_deadline(const lk_server *server);
void lk_peers_step(lk_server *server);

/* http_upload.c: traces that come as multipart/form-data. */
lk_upload *lk_upload_new(lk_exchange *exchange);
/* What is wrong shows in lk_upload_ask. */
void lk_upload_take(lk_upload *upload, const char *data, size_t size);
/* The question, or NULL: answered with an error. */
lk_ask *lk_upload_ask(lk_upload *upload, lk_exchange *exchange);
void lk_upload_free(lk_upload *upload);

/* http_assets.c: the page's files; NULL where there is none of this path. */
const char *lk_asset_find(const char *path, const char **type, size_t *size);

#endif
