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

#include "io/json.h"
#include "lockstep/error.h"
#include "lockstep/options.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* ---- confine.c: what the child of a question may use ---- */

typedef struct lk_limits {
	double memory_bytes; /* address space */
	double cpu_seconds;  /* of all threads together */
	int nice;            /* how far it gives way to others */
} lk_limits;

/* For a process with one thread that is about to answer a question, in whose working folder the
 * files of the question lie. lk_confine_limits: the limits hold from now on. lk_confine_files:
 * files can be read below the working folder, written and renamed there too where `writing` is
 * true, and used nowhere else; nothing can be run or connected. What was taken stays taken: a
 * second call can only take more. False where the kernel cannot. */
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

/* The answer as -o json prints it; the report that the page shows. Of a prediction: the report
 * without what takes further predictions (changes that would make it fit, other rates); the events
 * of its timeline; its step graph; or, in place of one, what its launch line states. */
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
	const char *folder; /* private to this question; what was sent lies there */
	const char *body;   /* fields in JSON */
	size_t size;
	const char *const *traces; /* names below the folder: traces, step graphs, recordings */
	int trace_count;
	int threads; /* of all but a prediction */
	lk_form form;
	char page[LK_PAGE_SIZE]; /* who asks; "" unknown. A newer question of the same page ends this
	                            one */
	lk_limits limits;
} lk_question;

const lk_verb *lk_question_verb(lk_question_kind kind);
/* The last part of its path: "sweep", or the verb's name. */
const char *lk_question_name(lk_question_kind kind);

/* What the child writes, one after the other: a head, then `size` bytes. */
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

/* Confines this process, answers and writes frames to `out`. The caller then leaves the process. */
void lk_answer(const lk_question *question, int out);

/* ---- questions.c: the verbs ---- */

/* What a verb is asked with, and where its answer goes. */
typedef struct lk_asked {
	const lk_question *question;
	lk_args *args;             /* of its fields, and the files that were sent as operands */
	const char *const *launch; /* words of a launch line */
	int launch_count;
	void (*progress)(void *context, int gpus, double done, double all);
	void *context;
	FILE *out;
} lk_asked;

/* Asks the verb of the question and writes the answer in its form, which is none of
 * LK_FORM_STATED. The errors of the verb. */
lk_status lk_question_ask(const lk_asked *asked, lk_error *err);
/* Whether the answer is a file that the verb writes first. */
bool lk_question_writes(const lk_question *question);
/* LK_ERR_INPUT where comma lists make more than one combination; `where` is of the error. */
lk_status lk_question_single(const lk_args *args, const char *where, lk_error *err);

/* ---- asks.c: questions on their way: waiting, in the hands of a child, answered ---- */

typedef enum lk_ask_state { LK_ASK_WAITING, LK_ASK_RUNNING, LK_ASK_DONE } lk_ask_state;

typedef struct lk_ask {
	lk_question question;       /* folder, body, names are owned */
	double seconds;             /* wall time that it may take once it runs */
	uint64_t client;            /* whose it is; 0 not known */
	void (*ended)(void *owner); /* called when it is done; NULL: nobody waits */
	void *owner;
	/* what came of it */
	lk_ask_state state;
	bool cancelled;
	lk_progress progress;
	int status; /* of HTTP: 200, or what went wrong */
	char *text; /* JSON: the answer, or {"error": ...} */
	size_t text_size;
	/* of asks.c */
	uint64_t round;
	double deadline;
	pid_t child;
	int pipe;
	char *bytes; /* that came through the pipe and are no whole frame yet */
	size_t used, room;
	struct lk_ask *next;
} lk_ask;

/* Of one client no more than LK_ASKS_OF_CLIENT wait, so that others have room. */
enum { LK_ASKS_WAITING = 256, LK_ASKS_OF_CLIENT = 192 };

typedef struct lk_asks {
	int most;                /* predictions at a time; as many of the others */
	sigset_t signals;        /* that children take */
	lk_ask *first;           /* those that wait or run, in order */
	int running[2], waiting; /* predictions, others */
	uint64_t round;          /* of the latest that started */
} lk_asks;

double lk_serve_now(void);

/* `question` without what it owns; copies are made. NULL when memory runs out. */
lk_ask *lk_ask_new(const lk_question *question, double seconds);
/* Ends it if it waits or runs, and removes its folder. Accepts NULL. */
void lk_ask_free(lk_asks *asks, lk_ask *ask);
/* The same for one that was never submitted. */
void lk_ask_drop(lk_ask *ask);

/* Whether a question of this client may wait. */
bool lk_asks_have_room(const lk_asks *asks, uint64_t client);
/* Where they have room. Clients take turns: a question is one round later than the latest of its
 * client that waits or runs, and those of the earliest round start first. */
void lk_asks_submit(lk_asks *asks, lk_ask *ask);
/* It is done then, with status 409. */
void lk_asks_cancel(lk_asks *asks, lk_ask *ask);

/* A newer question of this page has come: those before it that wait or run are done, with status
 * 204 and no text. */
void lk_asks_overtake(lk_asks *asks, const char *page);

/* The descriptors to wait for; at most `room`, the number is returned. */
int lk_asks_poll(const lk_asks *asks, struct pollfd *fds, int room);
/* The next time at which something is late; INFINITY never. */
double lk_asks_deadline(const lk_asks *asks);
/* Takes what children wrote, ends those that are late, starts those that wait. */
void lk_asks_step(lk_asks *asks);

/* {"error": {"where", "what", "remedy", "text"}}; NULL when memory runs out. */
char *lk_error_json(const lk_error *err, size_t *size);

/* ---- jobs.c: all questions but predictions, which are started now and fetched later ---- */

enum {
	LK_JOBS = 64,
	LK_JOBS_OF_CLIENT = 48 /* that are not done */
};

/* The latest questions; a finished one gives way to a new one, the oldest first. */
typedef struct lk_job {
	unsigned long long id; /* 0: free */
	lk_ask *ask;           /* owned */
} lk_job;

typedef struct lk_job_list {
	lk_job jobs[LK_JOBS];
	unsigned long long last;
} lk_job_list;

/* Takes the question over. NULL: all places, or the client's, are taken by jobs that are not done;
 * the caller still owns it. */
const lk_job *lk_job_list_add(lk_job_list *jobs, lk_asks *asks, lk_ask *ask);
const lk_job *lk_job_list_find(const lk_job_list *jobs, const char *id);
void lk_job_list_remove(lk_job_list *jobs, lk_asks *asks, const lk_job *job);
void lk_job_list_free(lk_job_list *jobs, lk_asks *asks);

/* {"id", "verb", "state": "waiting" | "running" | "done" | "failed", "progress": {"gpus", "done",
 * "all"} or null, "status", "answer", "error"}. NULL when memory runs out. */
char *lk_job_json(const lk_job *job, size_t *size);

/* ---- folder.c: private folders for what is uploaded ---- */

enum { LK_FOLDER_SIZE = 4096 };

/* A new folder below $TMPDIR or /tmp that only this user may enter. */
lk_status lk_folder_make(char path[LK_FOLDER_SIZE], lk_error *err);
/* Folder NUMBER below another. */
lk_status lk_folder_below(const char *parent, unsigned long long number, char path[LK_FOLDER_SIZE],
                          lk_error *err);
/* The files of a folder, which has no folders in it, and the folder. */
void lk_folder_remove(const char *path);
/* A file's name as it was sent, made one that can do nothing but name a file: the part after the
 * last '/' or '\', other signs than letters, digits, '.', '_' and '-' as '_', no '.' in front,
 * "trace" where nothing is left. */
void lk_folder_name(const char *sent, char *name, size_t size);

/* ---- guard: who may ask. Three checks, each on the texts of headers alone.
 *
 * Host: a page of another site whose name was made to lead here (DNS rebinding) sends its own name.
 * An address cannot be rebound, so addresses and localhost pass, and the names that the user gave.
 * On a loopback address only loopback addresses pass. Origin: a browser says which page asks; only
 * our own may. Token: a secret of this run in the header "Authorization: Bearer TOKEN". It is no
 * cookie: a cookie is sent to every port of a host and with requests that other pages start. */

enum { LK_TOKEN_BYTES = 16, LK_TOKEN_SIZE = 2 * LK_TOKEN_BYTES + 1 };

typedef struct lk_guard {
	bool loopback;     /* listens on a loopback address */
	const char *names; /* one a line, or NULL */
	char token[LK_TOKEN_SIZE];
} lk_guard;

/* Draws the token. Errors: LK_ERR_IO where the system gives no random numbers. */
lk_status lk_guard_init(lk_guard *guard, bool loopback, const char *names, lk_error *err);

/* `host`: the header, or NULL. */
bool lk_guard_host(const lk_guard *guard, const char *host);
/* `origin`: the header, or NULL, which programs that are no browsers send. `site`: Sec-Fetch-Site,
 * or NULL. */
bool lk_guard_origin(const char *origin, const char *site, const char *host);
/* `authorization`: the header, or NULL. Takes as long for a wrong token as for another. */
bool lk_guard_token(const lk_guard *guard, const char *authorization);

/* ---- lists: what does not change and is made once: what may be asked, as JSON (models, GPUs, the
 * fields of each verb), and style and script of reports. */

typedef struct lk_list_text {
	char *text;
	size_t size;
} lk_list_text;

typedef struct lk_lists {
	lk_list_text models, gpus, machines, options, style, script;
} lk_lists;

lk_status lk_lists_make(lk_lists *lists, lk_error *err);
void lk_lists_free(lk_lists *lists);

/* ---- open: the page, opened in the user's browser. */

/* Opens the address with a command of $BROWSER, or xdg-open. What the command is given is a page
 * below `folder` that leads there and that only this user can read: the address holds the token,
 * and all users of a machine see the words of commands. The command gets the signal mask, and
 * nothing of what this process has open. False where none could be started. */
bool lk_open_browser(const char *folder, const char *url, const sigset_t *mask);

/* ---- fields: the fields of a JSON request as the words of a command line.
 *
 * A field has the name of an option of the verb, so that one table says what may be asked, and one
 * parser what is wrong with it: errors have the text that the command line gives. In addition to
 * options, verbs that take a launch line have the field "launch", an array of its words, and shard
 * the field "tables", the content of its operand. Comma lists of numbers are texts.
 *
 * Options that name files take the file's content instead (model, cluster, deepspeed_config,
 * script, config, prices, catalog, placement) or are refused. */

/* A file that is to be written into the folder of the question before it is asked. */
typedef struct lk_serve_file {
	const char *name; /* "config.json" */
	/* Its content: an object, written as JSON, or a text, written as it is. */
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

/* How an option is given in JSON. */
typedef enum lk_serve_form {
	LK_FIELD_REFUSED, /* not at all: it names a file, or the server decides it */
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
/* The name of the file that holds the content of an option; NULL: it takes none. */
const char *lk_serve_file_of(const lk_option *option);
/* "text or object", for documents and errors. */
const char *lk_serve_form_name(lk_serve_form form);

/* Reads a body. Texts are owned by the arena. Errors: LK_ERR_INPUT. */
lk_status lk_serve_fields(const lk_verb *verb, const char *body, size_t size, lk_arena *arena,
                          lk_serve_words *out, lk_error *err);

#endif
