/* asks.c: starts child processes that answer questions, reads their pipes, and ends them. */
#include "serve/serve_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/json.h"
#include "base/check.h"
#include "system/clock.h"
#include "system/memory.h"
#include "system/process.h"

enum { ANSWER_LIMIT = 64 << 20, CHUNK = 256 << 10, CHILD_PIPE = 3 };

char *lk_error_json(const lk_error *err, size_t *size) {
	char *text = NULL;
	FILE *out = lk_memory_open(&text, size);
	lk_json_writer w;
	if (!out) return NULL;
	lk_json_begin(&w, out, true);
	lk_json_object(&w, NULL);
	lk_json_put_error(&w, "error", err);
	lk_json_object_end(&w);
	lk_json_finish(&w, NULL);
	return lk_memory_text(out, &text);
}

/* ---- making and freeing ---- */

lk_ask *lk_ask_new(const lk_question *question, double seconds) {
	LK_ASSERT(question->folder != NULL && seconds > 0);
	lk_ask *ask = calloc(1, sizeof *ask);
	if (!ask) return NULL;
	*ask = (lk_ask){.question = *question, .seconds = seconds, .pipe = -1};
	lk_question *own = &ask->question;
	const char **traces = LK_ARRAY(&ask->arena, const char *, (size_t)question->trace_count + 1);
	bool whole = traces != NULL;
	for (int i = 0; whole && i < question->trace_count; i++)
		whole = (traces[i] = lk_arena_strdup(&ask->arena, question->traces[i])) != NULL;
	own->traces = traces;
	own->folder = lk_arena_strdup(&ask->arena, question->folder);
	own->body = lk_arena_strndup(&ask->arena, question->body, question->size);
	if (whole && own->folder && own->body) return ask;
	lk_arena_free(&ask->arena);
	free(ask);
	return NULL;
}

static void remove_from_asks(lk_asks *asks, lk_ask *ask) {
	lk_ask **at = &asks->first;
	while (*at && *at != ask) at = &(*at)->next;
	if (*at) *at = ask->next;
	ask->next = NULL;
}

static int lane_of_ask(const lk_ask *ask) {
	return ask->question.kind != LK_ASK_PREDICT;
}

/* ---- ends ---- */

/* Kills the child, if any, and waits for it. Returns its status, as waitpid gives it. */
static int reap_child(lk_ask *ask) {
	int how = 0;
	if (ask->child <= 0) return 0;
	kill(ask->child, SIGKILL);
	while (waitpid(ask->child, &how, 0) < 0 && errno == EINTR) continue;
	ask->child = 0;
	return how;
}

static void finish_ask(lk_asks *asks, lk_ask *ask, int status, char *text, size_t size) {
	LK_ASSERT(ask->state != LK_ASK_DONE &&
	          (ask->state == LK_ASK_WAITING ? asks->waiting : asks->running[lane_of_ask(ask)]) > 0);
	if (ask->state == LK_ASK_RUNNING) asks->running[lane_of_ask(ask)]--;
	else asks->waiting--;
	remove_from_asks(asks, ask);
	if (ask->pipe >= 0) close(ask->pipe);
	reap_child(ask);
	free(ask->bytes);
	ask->pipe = -1;
	ask->bytes = NULL;
	ask->state = LK_ASK_DONE;
	ask->status = status;
	ask->text = text;
	ask->text_size = text ? size : 0;
	lk_folder_remove(ask->question.folder);
	if (ask->ended) ask->ended(ask->owner);
}

static void fail_ask(lk_asks *asks, lk_ask *ask, int status, const lk_error *err) {
	size_t size = 0;
	char *text = lk_error_json(err, &size);
	finish_ask(asks, ask, status, text, size);
}

static void fail_ask_memory(lk_asks *asks, lk_ask *ask) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_MEMORY, "memory", "the question takes more than %.0f MiB",
	        ask->question.limits.memory_bytes / 1048576);
	lk_hint(&err, "ask for less, or start lockstep serve with a larger --memory");
	fail_ask(asks, ask, 422, &err);
}

static void fail_ask_time(lk_asks *asks, lk_ask *ask) {
	lk_error err = {0};
	lk_fail(&err, LK_ERR_INPUT, "time", "the question takes more than %g s", ask->seconds);
	lk_hint(&err, "ask for less, or start lockstep serve with a larger --%s",
	        lane_of_ask(ask) ? "long-seconds" : "seconds");
	fail_ask(asks, ask, 422, &err);
}

/* Share of its time that a question has left if it was not killed for it. */
#define EARLY 0.1

/* Fails a question whose pipe ended without an answer. */
static void fail_ask_broken(lk_asks *asks, lk_ask *ask) {
	lk_error err = {0};
	/* A child that is exiting keeps its status in spite of the signal; any other is killed. */
	int how = reap_child(ask);
	bool killed = WIFSIGNALED(how);
	/* SIGKILL comes at the hard limit of processor time, and when the machine's memory runs out */
	bool early = lk_clock_s() < ask->deadline - EARLY * ask->seconds;
	if (killed && (WTERMSIG(how) == SIGXCPU || (WTERMSIG(how) == SIGKILL && !early))) {
		fail_ask_time(asks, ask);
		return;
	}
	if (killed && WTERMSIG(how) == SIGKILL) {
		lk_fail(&err, LK_ERR_MEMORY, "memory",
		        "the process that computes the answer was killed, as by a system that runs out of "
		        "memory");
		lk_hint(&err, "ask for less, or give the server's machine or container more memory");
		fail_ask(asks, ask, 422, &err);
		return;
	}
	lk_fail(&err, LK_ERR_INTERNAL, "answer",
	        "the process that computes the answer ended without one (%s %d)",
	        killed ? "signal" : "status", killed ? WTERMSIG(how) : WEXITSTATUS(how));
	lk_hint(&err, "this is an error in lockstep; the server continues");
	fail_ask(asks, ask, 500, &err);
}

void lk_asks_cancel(lk_asks *asks, lk_ask *ask) {
	lk_error err = {0};
	if (ask->state == LK_ASK_DONE) return;
	ask->cancelled = true;
	lk_fail(&err, LK_ERR_INPUT, "job", "was cancelled");
	fail_ask(asks, ask, 409, &err);
}

void lk_asks_overtake(lk_asks *asks, const char *page) {
	for (lk_ask *ask = asks->first, *next; ask; ask = next) {
		next = ask->next;
		if (strcmp(ask->question.page, page) == 0) finish_ask(asks, ask, 204, NULL, 0);
	}
}

void lk_ask_free(lk_asks *asks, lk_ask *ask) {
	if (!ask) return;
	ask->ended = NULL;
	lk_asks_cancel(asks, ask);
	lk_arena_free(&ask->arena);
	free(ask->text);
	free(ask);
}

void lk_ask_drop(lk_ask *ask) {
	lk_folder_remove(ask->question.folder);
	lk_arena_free(&ask->arena);
	free(ask);
}

/* ---- starting ---- */

static void answer_in_child(const lk_asks *asks, const lk_ask *ask, int out) {
	if (out != CHILD_PIPE && dup2(out, CHILD_PIPE) < 0) _exit(1);
	/* Connections of other clients, the listening socket and other pipes stay with the parent. */
	lk_process_close_from(CHILD_PIPE + 1);
	sigprocmask(SIG_SETMASK, &asks->signals, NULL);
	lk_answer(&ask->question, CHILD_PIPE);
	_exit(0);
}

static void start_ask(lk_asks *asks, lk_ask *ask) {
	LK_ASSERT(ask->state == LK_ASK_WAITING && asks->waiting > 0 && ask->child <= 0);
	lk_error err = {0};
	int ends[2];
	asks->waiting--;
	if (ask->round > asks->round) asks->round = ask->round;
	asks->running[lane_of_ask(ask)]++;
	ask->state = LK_ASK_RUNNING;
	ask->deadline = lk_clock_s() + ask->seconds;
	if (pipe2(ends, O_CLOEXEC) == 0) {
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		ask->child = fork();
		if (ask->child == 0) answer_in_child(asks, ask, ends[1]);
		close(ends[1]);
		ask->pipe = ends[0];
		if (ask->child > 0) return;
		ask->child = 0;
	}
	lk_fail(&err, LK_ERR_IO, "answer", "cannot start a process: %s", strerror(errno));
	lk_hint(&err, "ask again later");
	fail_ask(asks, ask, 503, &err);
}

bool lk_asks_have_room(const lk_asks *asks, uint64_t client) {
	int waiting = 0;
	for (const lk_ask *ask = asks->first; ask; ask = ask->next)
		waiting += ask->state == LK_ASK_WAITING && ask->client == client;
	return asks->waiting < LK_ASKS_WAITING && waiting < LK_ASKS_OF_CLIENT;
}

void lk_asks_submit(lk_asks *asks, lk_ask *ask) {
	LK_ASSERT(asks->waiting < LK_ASKS_WAITING && ask->next == NULL);
	lk_ask **at = &asks->first;
	ask->round = asks->round;
	for (; *at; at = &(*at)->next)
		if ((*at)->client == ask->client && (*at)->round >= ask->round)
			ask->round = (*at)->round + 1;
	*at = ask;
	asks->waiting++;
	ask->state = LK_ASK_WAITING;
	if (asks->running[lane_of_ask(ask)] < asks->most) start_ask(asks, ask);
}

/* ---- listening ---- */

/* Takes the complete frames. True: the last one has come. */
static bool take_whole_frames(lk_asks *asks, lk_ask *ask) {
	LK_ASSERT(ask->used <= ask->room);
	size_t at = 0;
	lk_frame frame;
	while (ask->used - at >= sizeof frame) {
		memcpy(&frame, ask->bytes + at, sizeof frame);
		if (ask->used - at - sizeof frame < frame.size) break;
		const char *content = ask->bytes + at + sizeof frame;
		at += sizeof frame + frame.size;
		if (frame.kind == LK_FRAME_PROGRESS && frame.size == sizeof(lk_progress)) {
			memcpy(&ask->progress, content, sizeof(lk_progress));
		} else if (frame.kind == LK_FRAME_ANSWER) {
			char *text = malloc(frame.size + (size_t)1);
			if (text) *(char *)mempcpy(text, content, frame.size) = '\0';
			ask->progress.done = ask->progress.all;
			finish_ask(asks, ask, text ? 200 : 500, text, frame.size);
			return true;
		} else if (frame.kind == LK_FRAME_ERROR && frame.size == sizeof(lk_error)) {
			lk_error err;
			memcpy(&err, content, sizeof err);
			err.where[sizeof err.where - 1] = err.what[sizeof err.what - 1] =
				err.hint[sizeof err.hint - 1] = '\0';
			if (err.status == LK_ERR_MEMORY) fail_ask_memory(asks, ask);
			else fail_ask(asks, ask, err.status == LK_ERR_INPUT ? 400 : 500, &err);
			return true;
		}
	}
	ask->used -= at;
	if (at && ask->used) memmove(ask->bytes, ask->bytes + at, ask->used);
	return false;
}

static bool make_frame_room(lk_ask *ask) {
	LK_ASSERT(ask->used <= ask->room);
	if (ask->room - ask->used >= CHUNK) return true;
	size_t room = ask->room ? 2 * ask->room : 2 * (size_t)CHUNK;
	char *bytes = room <= ANSWER_LIMIT ? realloc(ask->bytes, room) : NULL;
	if (!bytes) return false;
	ask->bytes = bytes;
	ask->room = room;
	return true;
}

static void read_child_pipe(lk_asks *asks, lk_ask *ask) {
	for (;;) {
		if (!make_frame_room(ask)) {
			fail_ask_memory(asks, ask);
			return;
		}
		ssize_t n = read(ask->pipe, ask->bytes + ask->used, ask->room - ask->used);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
		if (n <= 0) {
			fail_ask_broken(asks, ask);
			return;
		}
		ask->used += (size_t)n;
		if (take_whole_frames(asks, ask)) return;
	}
	if (lk_clock_s() > ask->deadline) fail_ask_time(asks, ask);
}

/* Finds the question of the earliest round that waits and may start; NULL: none. */
static lk_ask *next_in_turn(const lk_asks *asks) {
	lk_ask *best = NULL;
	for (lk_ask *ask = asks->first; ask; ask = ask->next)
		if (ask->state == LK_ASK_WAITING && asks->running[lane_of_ask(ask)] < asks->most &&
		    (!best || ask->round < best->round))
			best = ask;
	return best;
}

void lk_asks_step(lk_asks *asks) {
	LK_ASSERT(asks->waiting >= 0 && asks->running[0] >= 0 && asks->running[1] >= 0);
	for (lk_ask *ask = asks->first, *next; ask; ask = next) {
		next = ask->next;
		if (ask->state == LK_ASK_RUNNING) read_child_pipe(asks, ask);
	}
	for (lk_ask *ask; (ask = next_in_turn(asks));) start_ask(asks, ask);
}

int lk_asks_poll(const lk_asks *asks, struct pollfd *fds, int room) {
	int count = 0;
	for (const lk_ask *ask = asks->first; ask && count < room; ask = ask->next)
		if (ask->state == LK_ASK_RUNNING)
			fds[count++] = (struct pollfd){.fd = ask->pipe, .events = POLLIN};
	return count;
}

double lk_asks_deadline(const lk_asks *asks) {
	double first = INFINITY;
	for (const lk_ask *ask = asks->first; ask; ask = ask->next)
		if (ask->state == LK_ASK_RUNNING && ask->deadline < first) first = ask->deadline;
	return first;
}
