/* kineto_ahead.c: one file read by several threads. The file comes in stretches. While one thread
 * walks the document and keeps events, others read on and look at the events of stretches to come.
 *
 * What an event's fields are follows from its bytes alone, wherever one comes from. So a stretch is
 * read from the first place that looks like the beginning of an event, which may be wrong (the text
 * of a name may look so): whoever walks the document asks for the event at his own place, and takes
 * what is known of just that place, or reads it himself. The answer is the same either way. */
#include "trace/read/kineto_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/parallel.h"

enum {
	STRETCH = 1 << 19,
	MOST_THREADS = 4, /* who walks the document is busy with the events of three others */
	MOST_STRETCHES = MOST_THREADS + 2,
};

typedef enum stretch_state {
	FREE,
	TAKEN, /* somebody is at it */
	READY,
} stretch_state;

typedef struct stretch {
	char *bytes; /* STRETCH and LK_SCAN_PAD more */
	size_t size;
	uint64_t begin; /* of it in the file */
	bool last;
	lk_status broken; /* what came after its bytes */
	lk_error cause;
	LK_VEC(lk_seen_event) events;
	size_t at; /* the first event that is not passed */
	stretch_state state;
} stretch;

struct lk_ahead {
	lk_stream *in;
	const lk_keys *keys;
	pthread_mutex_t lock;
	pthread_cond_t change;
	stretch stretch[MOST_STRETCHES]; /* number i is i % count */
	uint64_t count;                  /* of stretches: one for each thread, and two */
	uint64_t next;                   /* the next to be filled */
	uint64_t read;                   /* bytes of the file */
	bool ended;                      /* nothing is left to read */
	bool done;                       /* nobody asks any more */
	pthread_t thread[MOST_THREADS];
	int started;
	/* who walks the document alone looks at these: */
	uint64_t given_of; /* the stretch that is given out; of those before, the last is kept */
	size_t given;      /* its bytes that have been */
};

/* ---- looking at a stretch ---- */

/* The next '{' from `p` on that looks like the beginning of an event; NULL: none. */
static const char *ahead_find(const lk_keys *keys, const char *p, const char *end) {
	while (p < end && (p = memchr(p, '{', (size_t)(end - p)))) {
		if (end - p >= LK_LOOKAHEAD && lk_keys_begin(keys, p)) return p;
		p++;
	}
	return NULL;
}

/* The '{' after an event and its comma; NULL: something else. */
static const char *ahead_after(const char *p, const char *end) {
	while (p < end && (unsigned char)*p <= ' ') p++;
	if (p == end || *p++ != ',') return NULL;
	while (p < end && (unsigned char)*p <= ' ') p++;
	return p < end && *p == '{' ? p : NULL;
}

static bool ahead_note(stretch *to, const char *begin, const char *end, lk_event_state state,
                       const lk_kineto_fields *fields) {
	if (!lk_push(&to->events)) return false;
	lk_seen_event *seen = lk_last(&to->events);
	seen->begin = (uint32_t)(begin - to->bytes);
	seen->at = begin;
	seen->length = (size_t)(end - begin);
	seen->state = state;
	seen->fields = *fields;
	return true;
}

/* Notes the events that end in the stretch. Where memory has run out, fewer are noted. */
static void ahead_look(const lk_ahead *ahead, stretch *at) {
	const char *end = at->bytes + at->size, *p = ahead_find(ahead->keys, at->bytes, end);
	while (p) {
		lk_kineto_fields fields;
		const char *after = p;
		int depth = 0;
		lk_event_state state = lk_kineto_event(&fields, ahead->keys, &after, end, &depth);
		if (state == LK_EVENT_USELESS) {
			lk_skip skip = {.depth = depth};
			if (lk_skip_on(&skip, &after, end) != LK_SKIP_DONE) return;
		}
		if (state == LK_EVENT_SHORT) return;
		bool whole = state == LK_EVENT_DONE || state == LK_EVENT_USELESS;
		if (whole && !ahead_note(at, p, after, state, &fields)) return;
		const char *next = whole ? ahead_after(after, end) : NULL;
		p = next ? next : ahead_find(ahead->keys, whole ? after : p + 1, end);
	}
}

/* ---- stretches ---- */

/* Reads the next stretch; the lock is held. */
static void ahead_fill(lk_ahead *ahead) {
	stretch *to = &ahead->stretch[ahead->next++ % ahead->count];
	LK_ASSERT(to->state == FREE);
	to->state = TAKEN;
	to->begin = ahead->read;
	to->size = to->at = 0;
	to->events.count = 0;
	to->broken = to->bytes ? LK_OK : LK_ERR_MEMORY;
	if (to->bytes)
		to->broken = lk_stream_read(ahead->in, to->bytes, STRETCH, &to->size, &to->cause);
	if (to->bytes) memset(to->bytes + to->size, 0, LK_SCAN_PAD);
	ahead->read += to->size;
	to->last = ahead->ended = to->size < STRETCH || to->broken != LK_OK;
}

/* Whether there is a stretch to be read, and room for it. */
static bool ahead_may_fill(const lk_ahead *ahead) {
	return !ahead->ended && !ahead->done &&
	       ahead->stretch[ahead->next % ahead->count].state == FREE;
}

/* Reads the next stretch and looks at it; the lock is held before and after. */
static void ahead_prepare(lk_ahead *ahead) {
	stretch *to = &ahead->stretch[ahead->next % ahead->count];
	ahead_fill(ahead);
	pthread_mutex_unlock(&ahead->lock);
	if (to->bytes) ahead_look(ahead, to);
	pthread_mutex_lock(&ahead->lock);
	to->state = READY;
	pthread_cond_broadcast(&ahead->change);
}

/* Stretch `number`, once it is ready; NULL: the file is over before it. */
static stretch *ahead_wait(lk_ahead *ahead, uint64_t number) {
	stretch *at = &ahead->stretch[number % ahead->count];
	pthread_mutex_lock(&ahead->lock);
	while (number >= ahead->next ? !ahead->ended : at->state != READY) {
		if (ahead_may_fill(ahead)) ahead_prepare(ahead);
		else pthread_cond_wait(&ahead->change, &ahead->lock);
	}
	bool there = number < ahead->next;
	pthread_mutex_unlock(&ahead->lock);
	return there ? at : NULL;
}

/* All of a stretch has been given out, and the events of the one before it are passed. */
static void ahead_pass(lk_ahead *ahead) {
	uint64_t passed = ahead->given_of++;
	ahead->given = 0;
	if (!passed) return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stretch[(passed - 1) % ahead->count].state = FREE;
	pthread_cond_broadcast(&ahead->change);
	pthread_mutex_unlock(&ahead->lock);
}

lk_status lk_ahead_read(lk_ahead *ahead, char *buffer, size_t size, size_t *got, lk_error *cause) {
	*got = 0;
	while (*got < size) {
		const stretch *from = ahead_wait(ahead, ahead->given_of);
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

static const lk_seen_event *stretch_event(stretch *at, uint64_t place) {
	while (at->at < at->events.count && at->begin + at->events.at[at->at].begin < place) at->at++;
	if (at->at == at->events.count) return NULL;
	const lk_seen_event *seen = &at->events.at[at->at];
	return at->begin + seen->begin == place ? seen : NULL;
}

const lk_seen_event *lk_ahead_event(lk_ahead *ahead, uint64_t place) {
	uint64_t number = place / STRETCH; /* all are of this length but the last */
	bool there = number == ahead->given_of ? ahead->given > 0 : number + 1 == ahead->given_of;
	return there ? stretch_event(&ahead->stretch[number % ahead->count], place) : NULL;
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

lk_ahead *lk_ahead_open(lk_stream *in, const lk_keys *keys) {
	int threads = lk_threads();
	if (threads > MOST_THREADS) threads = MOST_THREADS;
	lk_ahead *ahead = calloc(1, sizeof *ahead);
	if (!ahead) return NULL;
	*ahead = (lk_ahead){.in = in, .keys = keys, .count = (uint64_t)threads + 2};
	if (pthread_mutex_init(&ahead->lock, NULL) != 0 ||
	    pthread_cond_init(&ahead->change, NULL) != 0) {
		free(ahead);
		return NULL;
	}
	for (uint64_t i = 0; i < ahead->count; i++)
		ahead->stretch[i].bytes = malloc(STRETCH + LK_SCAN_PAD);
	ahead_fill(ahead);
	ahead->stretch[0].state = READY;
	/* a file of one stretch has no work for others; without threads the walk does it all */
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
	for (uint64_t i = 0; i < ahead->count; i++) {
		free(ahead->stretch[i].bytes);
		lk_vec_free(&ahead->stretch[i].events);
	}
	pthread_cond_destroy(&ahead->change);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}
