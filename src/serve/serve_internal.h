/* serve_internal.h: what the files of serve share that do not know HTTP: questions, from the fields
 * of a request to the answer of a child process.
 *
 *     guard.c      who may ask          folder.c   private folders
 *     confine.c    limits of a child    fields.c   JSON fields as words of a command line
 *     answer.c     one question answered in a child
 *     questions.c  the verbs: from words to the answer
 *     asks.c       children: started, listened to, ended
 *     jobs.c       questions whose answers are fetched later
 *     lists.c      what is made once    open.c     the user's browser
 */
#ifndef LK_SERVE_SERVE_INTERNAL_H
#define LK_SERVE_SERVE_INTERNAL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "io/json.h"
#include "lockstep/error.h"
#include "lockstep/options.h"

/* ---- confine.c: limits of the child of a question ---- */

typedef struct lk_limits {
	double memory_bytes; /* address space */
	double cpu_seconds;  /* of all threads together */
	int nice;            /* added to its niceness */
} lk_limits;

/* Confine a process of one thread that is about to answer a question, in whose working folder the
 * files of the question are. lk_confine_limits sets limits of resources. lk_confine_files allows
 * reading below the working folder and, if `writing`, writing and renaming there; it denies all
 * other files, running programs and connections. A second call can only deny more. False: the
 * kernel cannot confine. */
void lk_confine_limits(const lk_limits *limits);
bool lk_confine_files(bool writing);

/* ---- answer.c: one question, answered in a process of its own ---- */

typedef enum lk_question_kind {
	LK_ASK_PREDICT,
	LK_ASK_SWEEP, /* predictions of all combinations of comma lists */
	LK_ASK_PLAN,
	LK_ASK_RENT,
	LK_ASK_SHARD,
	LK_ASK_EXPLAIN,
	LK_ASK_WHATIF,
	LK_ASK_DIFF,
	LK_ASK_STALLS,
	LK_ASK_KINDS
} lk_question_kind;

/* RESULT is the answer as -o json prints it, REPORT the document that the page shows. Only for a
 * prediction: PICTURE is the report without what needs further predictions (changes that would make
 * it fit, other rates), TIMELINE its events, GRAPH its step graph, STATED what its launch line
 * states, without a prediction. */
typedef enum lk_form {
	LK_FORM_RESULT,
	LK_FORM_REPORT,
	LK_FORM_PICTURE,
	LK_FORM_TIMELINE,
	LK_FORM_GRAPH,
	LK_FORM_STATED
} lk_form;

enum { LK_PAGE_SIZE = 33 };

typedef struct lk_question {
	lk_question_kind kind;
	const char *folder; /* private to this question; holds the files that were sent */
	const char *body;   /* fields in JSON */
	size_t size;
	const char *const *traces; /* files in the folder: traces, step graphs, recordings */
	int trace_count;
	int threads; /* for all but predictions */
	lk_form form;
	char page[LK_PAGE_SIZE]; /* the page that asks; "" unknown. Its next question ends this one */
	lk_limits limits;
} lk_question;

const lk_verb *lk_question_verb(lk_question_kind kind);
/* Returns the last part of its path: "sweep", or the name of the verb. */
const char *lk_question_name(lk_question_kind kind);

/* The child writes frames: a head, then `size` bytes. */
typedef enum lk_frame_kind {
	LK_FRAME_PROGRESS = 1, /* an lk_progress; any number of them */
	LK_FRAME_ANSWER,       /* JSON; the last */
	LK_FRAME_ERROR,        /* an lk_error; the last */
} lk_frame_kind;

typedef struct lk_frame {
	uint32_t kind, size;
} lk_frame;

typedef struct lk_progress {
	int gpus;
	double done, all;
} lk_progress;

/* Confines this process, answers the question and writes frames to `out`. The caller then exits. */
void lk_answer(const lk_question *question, int out);

/* ---- questions.c: the verbs ---- */

/* The input of a question, and the stream for its answer. */
typedef struct lk_asked {
	const lk_question *question;
	lk_args *args;             /* the fields, and the files that were sent as operands */
	const char *const *launch; /* words of a launch line */
	int launch_count;
	void (*progress)(void *context, int gpus, double done, double all);
	void *context;
	FILE *out;
} lk_asked;

/* Asks the verb of the question and writes the answer in its form, which is not LK_FORM_STATED. The
 * errors of the verb. */
lk_status lk_question_ask(const lk_asked *asked, lk_error *err);
/* Whether the verb writes the answer to a file first. */
bool lk_question_writes(const lk_question *question);
/* Checks that comma lists make a single combination; else LK_ERR_INPUT at `where`. */
lk_status lk_question_single(const lk_args *args, const char *where, lk_error *err);

/* ---- asks.c: questions that wait, run in a child, or are answered ---- */

typedef enum lk_ask_state { LK_ASK_WAITING, LK_ASK_RUNNING, LK_ASK_DONE } lk_ask_state;

typedef struct lk_ask {
	lk_question question; /* folder, body, names are the arena's */
	lk_arena arena;
	double seconds;             /* limit of wall time, from its start */
	uint64_t client;            /* 0: unknown */
	void (*ended)(void *owner); /* called at its end; may be NULL */
	void *owner;
	/* the outcome */
	lk_ask_state state;
	bool cancelled;
	lk_progress progress;
	int status; /* status of HTTP */
	char *text; /* JSON: the answer, or {"error": ...} */
	size_t text_size;
	/* used by asks.c */
	uint64_t round;
	double deadline;
	pid_t child;
	int pipe;
	char *bytes; /* received, but not yet a complete frame */
	size_t used, room;
	struct lk_ask *next;
} lk_ask;

/* At most LK_ASKS_OF_CLIENT questions of one client wait, so that others have room. */
enum { LK_ASKS_WAITING = 256, LK_ASKS_OF_CLIENT = 192 };

typedef struct lk_asks {
	int most;                /* most concurrent predictions, and most others */
	sigset_t signals;        /* signal mask of the children */
	lk_ask *first;           /* waiting or running, in order of submission */
	int running[2], waiting; /* predictions, others */
	uint64_t round;          /* of the latest question that started */
} lk_asks;

/* Makes a question and copies the texts of `question`. NULL: out of memory. */
lk_ask *lk_ask_new(const lk_question *question, double seconds);
/* Cancels the question if it is not done, and frees it with its folder. Accepts NULL. */
void lk_ask_free(lk_asks *asks, lk_ask *ask);
/* The same for a question that was not submitted. */
void lk_ask_drop(lk_ask *ask);

/* Whether a question of this client may wait. */
bool lk_asks_have_room(const lk_asks *asks, uint64_t client);
/* Submits a question; lk_asks_have_room must hold. Clients take turns: a question is one round
 * later than the latest unfinished one of its client, and the earliest round starts first. */
void lk_asks_submit(lk_asks *asks, lk_ask *ask);
/* Ends a question with status 409. */
void lk_asks_cancel(lk_asks *asks, lk_ask *ask);

/* Ends the unfinished questions of a page that asks a new one, with status 204 and no text. */
void lk_asks_overtake(lk_asks *asks, const char *page);

/* Sets the descriptors to wait for, at most `room`; returns their number. */
int lk_asks_poll(const lk_asks *asks, struct pollfd *fds, int room);
/* Returns the earliest deadline; INFINITY: none. */
double lk_asks_deadline(const lk_asks *asks);
/* Reads what children wrote, ends late ones, starts waiting ones. */
void lk_asks_step(lk_asks *asks);

/* Writes {"error": {"where", "what", "remedy", "text"}}. NULL: out of memory; else the caller frees
 * it. */
char *lk_error_json(const lk_error *err, size_t *size);

/* ---- jobs.c: questions other than predictions: started now, fetched later ---- */

enum {
	LK_JOBS = 64,
	LK_JOBS_OF_CLIENT = 48 /* unfinished */
};

/* The latest questions. A new one replaces the oldest finished one. */
typedef struct lk_job {
	unsigned long long id; /* 0: free */
	lk_ask *ask;           /* owned */
} lk_job;

typedef struct lk_job_list {
	lk_job jobs[LK_JOBS];
	unsigned long long last;
} lk_job_list;

/* Takes ownership of the question. NULL: unfinished jobs fill all places, or those of the client;
 * then the caller keeps it. */
const lk_job *lk_job_list_add(lk_job_list *jobs, lk_asks *asks, lk_ask *ask);
const lk_job *lk_job_list_find(const lk_job_list *jobs, const char *id);
void lk_job_list_remove(lk_job_list *jobs, lk_asks *asks, const lk_job *job);
void lk_job_list_free(lk_job_list *jobs, lk_asks *asks);

/* Writes {"id", "verb", "state": "waiting" | "running" | "done" | "failed", "progress": {"gpus",
 * "done", "all"} or null, "status", "answer", "error"}. NULL: out of memory. */
char *lk_job_json(const lk_job *job, size_t *size);

/* ---- folder.c: private folders for what is uploaded ---- */

enum { LK_FOLDER_SIZE = 4096 };

/* Makes a folder below $TMPDIR or /tmp that only this user may enter. */
lk_status lk_folder_make(char path[LK_FOLDER_SIZE], lk_error *err);
/* Makes folder `number` in another folder. */
lk_status lk_folder_below(const char *parent, unsigned long long number, char path[LK_FOLDER_SIZE],
                          lk_error *err);
/* Removes a folder and its files; it contains no folders. */
void lk_folder_remove(const char *path);
/* Makes the name of a file that was sent harmless: takes the part after the last '/' or '\',
 * replaces all characters but letters, digits, '.', '_' and '-' by '_', and removes leading dots.
 * An empty name becomes "trace". */
void lk_folder_name(const char *sent, char *name, size_t size);

/* ---- guard: who may ask. Three checks, each on the text of a header.
 *
 * Host: a page of another site whose name was redirected to this server (DNS rebinding) sends its
 * own name. An address cannot be rebound, so addresses, localhost and the names that the user gave
 * pass. A server on a loopback address accepts only loopback addresses. Origin: a browser names the
 * page that asks; only our own page may. Token: a secret of this run in the header "Authorization:
 * Bearer TOKEN". It is not a cookie, because browsers send cookies to every port of a host and with
 * requests from other pages. */

enum { LK_TOKEN_BYTES = 16, LK_TOKEN_SIZE = 2 * LK_TOKEN_BYTES + 1 };

typedef struct lk_guard {
	bool loopback;     /* the server listens on a loopback address */
	const char *names; /* one per line, or NULL */
	char token[LK_TOKEN_SIZE];
} lk_guard;

/* Draws the token. LK_ERR_IO: the system has no random numbers. */
lk_status lk_guard_init(lk_guard *guard, bool loopback, const char *names, lk_error *err);

/* Whether Host passes; `host`: the header, or NULL. */
bool lk_guard_host(const lk_guard *guard, const char *host);
/* Whether Origin passes. `origin`: the header, or NULL, as of programs other than browsers. `site`:
 * Sec-Fetch-Site, or NULL. */
bool lk_guard_origin(const char *origin, const char *site, const char *host);
/* Whether the token is right, in a time that does not depend on it. `authorization`: the header, or
 * NULL. */
bool lk_guard_token(const lk_guard *guard, const char *authorization);

/* ---- lists: constant answers, made once: catalogues and the fields of each verb as JSON, style
 * and script of reports. */

typedef struct lk_list_text {
	char *text;
	size_t size;
} lk_list_text;

typedef struct lk_lists {
	lk_list_text models, gpus, machines, options, style, script;
} lk_lists;

lk_status lk_lists_make(lk_lists *lists, lk_error *err);
void lk_lists_free(lk_lists *lists);

/* ---- open: opens the page in the user's browser. */

/* Opens the address with a command of $BROWSER, or xdg-open. The command gets a page in `folder`
 * that only this user can read and that redirects to the address: the address contains the token,
 * and all users of a machine see the words of commands. The command gets the signal mask and no
 * open descriptors. False: no command could be started. */
bool lk_open_browser(const char *folder, const char *url, const sigset_t *mask);

/* ---- fields: turns the fields of a JSON request into the words of a command line.
 *
 * A field has the name of an option of the verb, so that the option table and its parser serve
 * both, with the same error texts. In addition to options, verbs that take a launch line have the
 * field "launch", an array of its words, and shard the field "tables", the content of its operand.
 * Comma lists of numbers are texts.
 *
 * Options that name files take the content of the file instead (model, cluster, deepspeed_config,
 * script, config, prices, catalog, placement) or are refused. */

/* A file to write into the folder of the question before the verb is asked. */
typedef struct lk_serve_file {
	const char *name; /* "config.json" */
	/* Its content: an object, written as JSON, or a text. */
	const lk_value *value;
} lk_serve_file;

enum { LK_SERVE_FILES = 8 };

typedef struct lk_serve_words {
	const char **words; /* "--model=llama3.1-8b" */
	int count;
	const char **launch; /* words of a launch line */
	int launch_count;
	lk_serve_file files[LK_SERVE_FILES];
	int file_count;
} lk_serve_words;

/* The form of an option in JSON. */
typedef enum lk_serve_form {
	LK_FIELD_REFUSED, /* not accepted: it names a file, or the server sets it */
	LK_FIELD_BOOL,
	LK_FIELD_NUMBER,
	LK_FIELD_COUNT, /* a number, or a text as "15T" or "8k" */
	LK_FIELD_TEXT,
	LK_FIELD_CHOICE,       /* a text, one of the option's choices */
	LK_FIELD_TEXT_OR_FILE, /* a text, or the content of a JSON file as an object */
	LK_FIELD_FILE,         /* the content of a JSON file as an object */
	LK_FIELD_CONTENT,      /* the content of a file as a text */
} lk_serve_form;

lk_serve_form lk_serve_form_of(const lk_option *option);
/* Returns the name of the file for the content of an option; NULL: the option takes no content. */
const char *lk_serve_file_of(const lk_option *option);
/* Names of a form: in lists of options, and in errors. */
typedef struct lk_serve_form_name {
	const char *key, *said; /* "text_or_object", "a text or an object" */
} lk_serve_form_name;
extern const lk_serve_form_name lk_serve_form_names[];

/* Reads the body of a request. The arena owns the texts. LK_ERR_INPUT. */
lk_status lk_serve_fields(const lk_verb *verb, const char *body, size_t size, lk_arena *arena,
                          lk_serve_words *out, lk_error *err);

#endif
