/* kineto_ahead.c: one file read by several threads. The file comes in pieces of 128 KiB, which
 * begin where an event seems to begin. One thread reads a piece and puts its events into columns
 * (kineto_run.c) while its bytes are in that core's cache; only the columns go on to the main
 * thread, which reads the document and appends them.
 *
 * A piece may begin in the wrong place (the text of a name may look like an event): the main thread
 * asks for the run that begins at its own position, and takes only that one, or reads events
 * itself. The result is the same either way. */
#include "trace/kineto/kineto_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "system/parallel.h"

enum {
	PIECE = LK_AHEAD_PIECE,
	TAIL = 1 << 15, /* the longest event that is left to the next piece */
	MOST_THREADS = 16,
	MOST_PIECES = 2 * MOST_THREADS + 2,
};

typedef enum piece_state {
	FREE,
	TAKEN, /* being filled or read */
	READY,
} piece_state;

typedef struct piece {
	char *bytes; /* PIECE and LK_SCAN_PAD more */
	size_t size;
	uint64_t begin; /* offset in the file */
	uint64_t lines; /* newlines in it */
	bool last;
	lk_status broken; /* how the stream ended after its bytes */
	lk_error cause;
	lk_run run;
	piece_state state;
} piece;

struct lk_ahead {
	lk_stream *in;
	const lk_keys *keys;
	pthread_mutex_t lock;
	pthread_cond_t change;
	piece piece[MOST_PIECES]; /* number i is at i % count */
	uint64_t count;           /* of pieces: two for each thread, and two */
	uint64_t next;            /* the next to be filled */
	bool filling;             /* a thread is reading the file */
	bool ended;               /* nothing is left to read */
	bool done;                /* no further requests */
	/* used only by the thread that fills a piece: */
	uint64_t place; /* where the next piece begins */
	char *tail;     /* its first bytes, already read */
	size_t tail_size;
	pthread_t thread[MOST_THREADS];
	int started;
	/* used only by the main thread: */
	uint64_t given_of; /* the piece being consumed; the one before it is kept too */
	size_t given;      /* bytes consumed of it */
	uint64_t lines;    /* newlines before it */
};

/* ---- pieces ---- */

/* Where to end this piece, within its last bytes: where an event begins, or at the end, if none
 * does. */
static size_t piece_cut(const lk_keys *keys, const char *bytes, size_t size) {
	size_t least = size > TAIL ? size - TAIL : 1,
		   at = size > LK_LOOKAHEAD ? size - LK_LOOKAHEAD : 0;
	while (at > least && !(bytes[at] == '{' && lk_keys_begin(keys, bytes + at))) at--;
	return at > least ? at : size;
}

/* Read the next piece; only one thread at a time. */
static void piece_fill(lk_ahead *ahead, piece *to) {
	size_t there = ahead->tail_size, got = 0;
	to->begin = ahead->place;
	to->size = 0;
	to->broken = to->bytes ? LK_OK : LK_ERR_MEMORY;
	to->last = true;
	if (!to->bytes) return;
	memcpy(to->bytes, ahead->tail, there);
	to->broken = lk_stream_read(ahead->in, to->bytes + there, PIECE - there, &got, &to->cause);
	to->last = there + got < PIECE || to->broken != LK_OK;
	to->size = to->last ? there + got : piece_cut(ahead->keys, to->bytes, PIECE);
	ahead->tail_size = there + got - to->size;
	memcpy(ahead->tail, to->bytes + to->size, ahead->tail_size);
	memset(to->bytes + to->size, 0, LK_SCAN_PAD);
	ahead->place += to->size;
}

/* Whether a piece can be read and there is room for it. */
static bool ahead_may_fill(const lk_ahead *ahead) {
	return !ahead->filling && !ahead->ended && !ahead->done &&
	       ahead->piece[ahead->next % ahead->count].state == FREE;
}

/* Read the next piece and its events; the lock is held before and after. */
static void ahead_prepare(lk_ahead *ahead) {
	piece *to = &ahead->piece[ahead->next++ % ahead->count];
	LK_ASSERT(to->state == FREE && !ahead->filling);
	to->state = TAKEN;
	ahead->filling = true;
	pthread_mutex_unlock(&ahead->lock);
	piece_fill(ahead, to);
	pthread_mutex_lock(&ahead->lock);
	ahead->filling = false;
	ahead->ended = to->last;
	pthread_cond_broadcast(&ahead->change);
	pthread_mutex_unlock(&ahead->lock);
	if (to->bytes) {
		lk_run_make(&to->run, to->bytes, to->size, to->begin);
		const char *counted = to->bytes + (to->run.there ? to->run.end - to->begin : 0);
		to->lines = to->run.there ? to->run.lines : 0;
		to->lines += lk_window_newlines(counted, to->bytes + to->size);
	}
	pthread_mutex_lock(&ahead->lock);
	to->state = READY;
	pthread_cond_broadcast(&ahead->change);
}

/* Wait for piece `number`; NULL: the file ended before it. */
static piece *ahead_wait(lk_ahead *ahead, uint64_t number) {
	piece *at = &ahead->piece[number % ahead->count];
	pthread_mutex_lock(&ahead->lock);
	while (number >= ahead->next ? !ahead->ended : at->state != READY) {
		if (ahead_may_fill(ahead)) ahead_prepare(ahead);
		else pthread_cond_wait(&ahead->change, &ahead->lock);
	}
	bool there = number < ahead->next;
	pthread_mutex_unlock(&ahead->lock);
	return there ? at : NULL;
}

/* Free the piece before the one that was just consumed entirely. */
static void ahead_pass(lk_ahead *ahead) {
	uint64_t passed = ahead->given_of++;
	ahead->lines += ahead->piece[passed % ahead->count].lines;
	ahead->given = 0;
	if (!passed) return;
	pthread_mutex_lock(&ahead->lock);
	ahead->piece[(passed - 1) % ahead->count].state = FREE;
	pthread_cond_broadcast(&ahead->change);
	pthread_mutex_unlock(&ahead->lock);
}

lk_status lk_ahead_read(lk_ahead *ahead, char *buffer, size_t size, size_t *got, lk_error *cause) {
	*got = 0;
	while (*got < size) {
		const piece *from = ahead_wait(ahead, ahead->given_of);
		if (!from) return LK_OK;
		size_t n = from->size - ahead->given;
		if (n > size - *got) n = size - *got;
		if (n) memcpy(buffer + *got, from->bytes + ahead->given, n);
		ahead->given += n;
		*got += n;
		if (ahead->given < from->size) return LK_OK;
		if (from->last) {
			*cause = from->cause;
			return from->broken;
		}
		ahead_pass(ahead);
	}
	return LK_OK;
}

/* The last two consumed pieces, one of them perhaps in part, are available. */
lk_run *lk_ahead_run(lk_ahead *ahead, uint64_t place, uint64_t *lines) {
	*lines = ahead->lines;
	piece *given = &ahead->piece[ahead->given_of % ahead->count];
	if (ahead->given && given->run.there && given->run.begin == place) return &given->run;
	if (!ahead->given_of) return NULL;
	piece *before = &ahead->piece[(ahead->given_of - 1) % ahead->count];
	*lines -= before->lines;
	return before->run.there && before->run.begin == place ? &before->run : NULL;
}

void lk_ahead_pass_run(lk_ahead *ahead, const lk_run *run) {
	const piece *given = &ahead->piece[ahead->given_of % ahead->count];
	LK_ASSERT(run == &given->run && run->end <= given->begin + given->size);
	ahead->given = (size_t)(run->end - given->begin);
}

/* ---- threads ---- */

static void *ahead_work(void *argument) {
	lk_ahead *ahead = argument;
	pthread_mutex_lock(&ahead->lock);
	while (!ahead->done && !ahead->ended) {
		if (ahead_may_fill(ahead)) ahead_prepare(ahead);
		else pthread_cond_wait(&ahead->change, &ahead->lock);
	}
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

/* Allocate room for all threads; false when memory runs out. */
static bool ahead_make_room(lk_ahead *ahead, const lk_kineto *kineto) {
	ahead->tail = malloc(TAIL);
	if (!ahead->tail) return false;
	for (uint64_t i = 0; i < ahead->count; i++) {
		ahead->piece[i].bytes = malloc(PIECE + LK_SCAN_PAD);
		if (!ahead->piece[i].bytes || !lk_run_open(&ahead->piece[i].run, kineto)) return false;
	}
	return true;
}

static void ahead_free(lk_ahead *ahead) {
	for (uint64_t i = 0; i < ahead->count; i++) {
		free(ahead->piece[i].bytes);
		lk_run_close(&ahead->piece[i].run);
	}
	free(ahead->tail);
	free(ahead);
}

lk_ahead *lk_ahead_open(lk_stream *in, const lk_kineto *kineto) {
	int threads = lk_threads();
	if (threads > MOST_THREADS) threads = MOST_THREADS;
	lk_ahead *ahead = calloc(1, sizeof *ahead);
	if (!ahead) return NULL;
	*ahead = (lk_ahead){.in = in, .keys = &kineto->keys, .count = 2 * (uint64_t)threads + 2};
	if (!ahead_make_room(ahead, kineto) || pthread_mutex_init(&ahead->lock, NULL) != 0 ||
	    pthread_cond_init(&ahead->change, NULL) != 0) {
		ahead_free(ahead);
		return NULL;
	}
	piece *first = &ahead->piece[ahead->next++];
	piece_fill(ahead, first);
	first->lines = lk_window_newlines(first->bytes, first->bytes + first->size);
	first->state = READY;
	ahead->ended = first->last;
	/* a file of one piece has no work for other threads; without threads the main thread does
	 * everything */
	if (ahead->ended) threads = 1;
	while (ahead->started < threads - 1 &&
	       pthread_create(&ahead->thread[ahead->started], NULL, ahead_work, ahead) == 0)
		ahead->started++;
	return ahead;
}

void lk_ahead_close(lk_ahead *ahead) {
	if (!ahead) return;
	pthread_mutex_lock(&ahead->lock);
	ahead->done = true;
	pthread_cond_broadcast(&ahead->change);
	pthread_mutex_unlock(&ahead->lock);
	for (int i = 0; i < ahead->started; i++) pthread_join(ahead->thread[i], NULL);
	pthread_cond_destroy(&ahead->change);
	pthread_mutex_destroy(&ahead->lock);
	ahead_free(ahead);
}
