/* asks.h: questions on their way: waiting, in the hands of a child, answered. */
#ifndef LK_SERVE_ASKS_H
#define LK_SERVE_ASKS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include "serve/answer.h"

typedef enum lk_ask_state { LK_ASK_WAITING, LK_ASK_RUNNING, LK_ASK_DONE } lk_ask_state;

typedef struct lk_ask {
	lk_question question;       /* folder, body, names are owned */
	double seconds;             /* wall time that it may take once it runs */
	void (*ended)(void *owner); /* told when it is done; NULL nobody */
	void *owner;
	/* what came of it */
	lk_ask_state state;
	bool cancelled;
	lk_progress progress;
	int status;                 /* of HTTP: 200, or what went wrong */
	char *text;                 /* JSON: the answer, or {"error": ...} */
	size_t text_size;
	/* of asks.c */
	double deadline;
	pid_t child;
	int pipe;
	char *bytes;                /* that came through the pipe and are no whole frame yet */
	size_t used, room;
	struct lk_ask *next;
} lk_ask;

enum { LK_ASKS_WAITING = 256 };

typedef struct lk_asks {
	int most;                   /* predictions at a time; as many of the others */
	sigset_t signals;           /* that children take */
	lk_ask *first;              /* those that wait or run, in order */
	int running[2], waiting;    /* predictions, others */
} lk_asks;

double lk_serve_now(void);

/* `question` without what it owns; copies are made. NULL when memory is out. */
lk_ask *lk_ask_new(const lk_question *question, double seconds);
/* Ends it if it waits or runs, and removes its folder. Accepts NULL. */
void lk_ask_free(lk_asks *asks, lk_ask *ask);
/* The same for one that was never submitted. */
void lk_ask_drop(lk_ask *ask);

/* For fewer than LK_ASKS_WAITING that wait. */
void lk_asks_submit(lk_asks *asks, lk_ask *ask);
/* It is done then, with status 409. */
void lk_asks_cancel(lk_asks *asks, lk_ask *ask);

/* A newer question of this page has come: those before it that wait or run are done, with status 204 and no text. */
void lk_asks_overtake(lk_asks *asks, const char *page);

/* The descriptors to wait for; at most `room`, the number is returned. */
int lk_asks_poll(const lk_asks *asks, struct pollfd *fds, int room);
/* The next time at which something is late; INFINITY never. */
double lk_asks_deadline(const lk_asks *asks);
/* Takes what children wrote, ends those that are late, starts those that wait. */
void lk_asks_step(lk_asks *asks);

/* {"error": {"where", "what", "remedy", "text"}}; NULL when memory is out. */
char *lk_error_json(const lk_error *err, size_t *size);

#endif
