/* kineto_internal.h: the bytes of a JSON trace and how one moves over them fast: a window that
 * slides over the file, the end of a text, the end of a value that nobody needs.
 *
 * An event is read from contiguous bytes. Where the window ends inside it, the window slides so
 * that it begins with the event, reads on, and the event is read again; it grows only for what is
 * longer than itself. After what was read lie LK_SCAN_PAD zero bytes, so blocks of that size may
 * be loaded anywhere, and a zero byte stops every scan.
 */
#ifndef LK_TRACE_READ_KINETO_INTERNAL_H
#define LK_TRACE_READ_KINETO_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/stream.h"
#include "trace/capture/capture.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
	LK_SCAN_PAD = 64,
	LK_SCAN_DEPTH = 1000,
	LK_LOOKAHEAD = 64 /* bytes that tell an event from other objects */
};

typedef struct lk_ahead lk_ahead;

typedef struct lk_window {
	lk_stream *in;
	lk_ahead *ahead; /* reads it; NULL: nobody does */
	char *bytes;     /* `capacity` and LK_SCAN_PAD more */
	size_t capacity;
	size_t step;          /* how much is read next, at most */
	const char *at, *end; /* what is not consumed yet */
	uint64_t read, limit; /* bytes of the file so far; how many it may have */
	uint64_t lines;       /* newlines before `bytes` */
	bool ended;           /* nothing is left to read */
	lk_status broken;     /* the stream failed: not LK_OK */
	lk_error cause;       /* and how */
} lk_window;

typedef enum lk_window_state {
	LK_WINDOW_MORE,  /* there are bytes that were not there before */
	LK_WINDOW_END,   /* the file is over, or broken */
	LK_WINDOW_FULL,  /* what begins at `at` is longer than any window may be */
	LK_WINDOW_LIMIT, /* the file is longer than the limit */
	LK_WINDOW_MEMORY,
} lk_window_state;

/* False when memory runs out. */
bool lk_window_open(lk_window *window, lk_stream *in, lk_ahead *ahead, uint64_t limit);
void lk_window_close(lk_window *window);
/* Slides the window to `at` and reads on after `end`. Pointers into the window are void
 * afterwards. */
lk_window_state lk_window_more(lk_window *window);
/* Moves to byte `place` of the file, after `lines` newlines, where the threads that read ahead go
 * on. */
void lk_window_jump(lk_window *window, uint64_t place, uint64_t lines);
/* Newlines in [from, to). */
uint64_t lk_window_newlines(const char *from, const char *to);
/* The line of a place in the window, counting from 1. */
uint64_t lk_window_line(const lk_window *window, const char *at);

/* Skipping to the end of a value, which may go on in the next window. Begins as {.depth = brackets
 * already open}. */
typedef struct lk_skip {
	int64_t depth;
	bool in_text, escaped;
} lk_skip;

typedef enum lk_skip_state { LK_SKIP_DONE, LK_SKIP_SHORT, LK_SKIP_DEEP } lk_skip_state;

/* Moves *at after the bracket that closes the last open one (DONE), or to `end`. Kinds of brackets
 * are not distinguished. DEEP: more than LK_SCAN_DEPTH levels. */
lk_skip_state lk_skip_on(lk_skip *skip, const char **at, const char *end);

/* The next quote, backslash or control character from `p` on. */
static inline const char *lk_text_stop(const char *p) {
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
				  control = _mm_set1_epi8(0x1f);
	for (;; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i stop = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash));
		stop = _mm_or_si128(stop, _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
		unsigned mask = (unsigned)_mm_movemask_epi8(stop);
		if (mask) return p + __builtin_ctz(mask);
	}
#else
	while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') p++;
	return p;
#endif
}

/* The next byte from `p` on that is no white space; `end` or more: none. */
static inline const char *lk_space_stop(const char *p, const char *end) {
#ifdef __SSE2__
	const __m128i space = _mm_set1_epi8(' ');
	for (; p < end; p += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		unsigned stop =
			0xffff ^ (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, space), x));
		if (stop) return p + __builtin_ctz(stop);
	}
#else
	while (p < end && (unsigned char)*p <= ' ') p++;
#endif
	return p;
}

/* ---- kineto_event: one event of a JSON trace, read from contiguous bytes into fields. Texts stay
 * where they are; nothing is interned before it is clear that the event is kept. */

/* A value in the window: a text without its quotes, or any other value as it is written. */
typedef struct lk_slice {
	const char *at;
	uint32_t length;
	bool plain; /* no escapes and no control characters in it */
} lk_slice;

/* Categories beyond lk_event_kind. */
enum {
	LK_KINETO_UNKNOWN = LK_EVENT_KINDS,
	LK_KINETO_USELESS,
	LK_KINETO_MTIA /* of an accelerator that is not read */
};

/* A number that was not given. */
#define LK_UNSAID INT64_MIN

/* Times are kept far from where the sum of two could overflow. */
#define LK_MOST_NS (INT64_C(1) << 61)

typedef struct lk_kineto_fields {
	char ph;
	uint8_t kind; /* lk_event_kind, LK_KINETO_UNKNOWN or _USELESS */
	int64_t start_ns, dur_ns;
	int64_t process, thread;
	lk_slice name, process_text, thread_text;
	/* arguments */
	int64_t correlation, record, stream, device, bytes;
	int64_t wait_stream, wait_record, in_elements, out_elements, group_size, source, target;
	lk_slice label; /* "name": of metadata, what a process or thread is called */
	lk_slice dims, types, values, sync_kind, collective, dtype, group, group_text, ranks;
	/* what was odd */
	uint64_t seen, seen_args; /* keys, as bits of the tables */
	bool twice, controls, not_finite, comma;
} lk_kineto_fields;

typedef enum lk_event_state {
	LK_EVENT_DONE,
	LK_EVENT_USELESS, /* dropped; `at` is `depth` brackets inside it */
	LK_EVENT_SHORT,   /* the bytes end inside it */
	LK_EVENT_DAMAGED, /* no JSON from `at` on */
	LK_EVENT_DEEP,    /* more than LK_SCAN_DEPTH levels */
	LK_EVENT_NESTED,  /* no event: an object that holds a list `traceEvents`; `at` comes before that
	                     key */
} lk_event_state;

/* Finds keys by their bytes: a hash of length and first bytes into a table. */
typedef struct lk_key_slot {
	uint64_t word;          /* the first 8 bytes */
	uint8_t length, number; /* index + 1 into a table of kineto_event.c; 0: free */
} lk_key_slot;

typedef struct lk_keys {
	lk_key_slot event[64], args[256], category[128];
} lk_keys;
void lk_keys_open(lk_keys *keys);
/* Whether a text is a key of events: what the search for the next sound event goes by. */
bool lk_keys_event(const lk_keys *keys, const char *text, size_t length);
/* Whether an event begins with the '{' at `p`, after which LK_LOOKAHEAD bytes can be read: a key of
 * events follows. */
bool lk_keys_begin(const lk_keys *keys, const char *p);

/* Reads the event that begins with the '{' at *at and moves *at after it (or, see above, into it).
 */
lk_event_state lk_kineto_event(lk_kineto_fields *fields, const lk_keys *keys, const char **at,
                               const char *end, int *depth);

/* A text's characters without escapes, at most size - 1 bytes and '\0'; NUL becomes U+FFFD. Returns
 * its length. */
size_t lk_slice_text(lk_slice slice, char *out, size_t size);
/* A value without white space and quotes, "[[512,13],[],[]]"; objects become lists. Its length, or
 * SIZE_MAX if it is too long. */
size_t lk_slice_compact(lk_slice slice, char *out, size_t size);
/* A number as it is written; LK_UNSAID if it is none. */
int64_t lk_slice_whole(lk_slice slice);
/* Microseconds as nanoseconds, rounded at the fourth decimal and kept within +-2^61. */
int64_t lk_slice_nanoseconds(lk_slice slice);

/* ---- kineto_ahead: one file read by several threads. */

struct lk_kineto;
typedef struct lk_run lk_run;

enum {
	LK_AHEAD_PIECE = 1 << 17 /* bytes that one thread reads */
};

/* Threads read ahead from now on, as many as lk_threads says, the caller's one of them. NULL when
 * out of memory. */
lk_ahead *lk_ahead_open(lk_stream *in, const struct lk_kineto *kineto);
void lk_ahead_close(lk_ahead *ahead);
/* As lk_stream_read. */
lk_status lk_ahead_read(lk_ahead *ahead, char *buffer, size_t size, size_t *got, lk_error *cause);
/* The run that begins at this byte of the file, up to which bytes have been read; NULL: none.
 * *lines: newlines of the file before the piece in which it lies. Holds until more is read. */
lk_run *lk_ahead_run(lk_ahead *ahead, uint64_t place, uint64_t *lines);
/* Reading goes on where the run ends. */
void lk_ahead_pass_run(lk_ahead *ahead, const lk_run *run);

/* ---- kineto_run: consecutive events of a piece of the file, read into columns of their own. */

struct lk_run {
	struct lk_kineto *reader; /* whose capture holds the events */
	uint64_t begin, end;      /* in the file: from '{' of the first to after '}' of the last */
	uint64_t lines;           /* newlines of the piece before `end` */
	bool there;               /* events that are not joined yet */
	/* of names and lanes of the reader's capture that have been joined: their numbers there */
	LK_VEC(uint32_t) names;
	LK_VEC(uint32_t) lanes;
};

/* False when memory runs out. */
bool lk_run_open(lk_run *run, const struct lk_kineto *kineto);
void lk_run_close(lk_run *run);
/* Reads what events it can of `size` bytes of the file that begin at `place`, after which
 * LK_SCAN_PAD zero bytes lie. */
void lk_run_make(lk_run *run, char *bytes, size_t size, uint64_t place);
/* Appends the events, as if each had been kept one after the other; `lines` newlines come before
 * the piece. *taken: false where a limit may be exceeded among them, which only reading them one by
 * one says exactly; nothing has changed then. */
lk_status lk_run_join(struct lk_kineto *kineto, lk_run *run, uint64_t lines, bool *taken);

/* ---- kineto_reader: what the files of the JSON reader share: kineto.c (the document),
 * kineto_keep.c (an event into the capture), kineto_head.c (the fields before and after the
 * events). */

/* What may be odd about a file without making it useless; each becomes at most one warning. */
typedef enum lk_odd {
	LK_ODD_DAMAGED,
	LK_ODD_LONG,
	LK_ODD_NO_TIME,
	LK_ODD_NO_DURATION,
	LK_ODD_NEGATIVE,
	LK_ODD_TWICE,
	LK_ODD_CONTROLS,
	LK_ODD_NOT_FINITE,
	LK_ODD_COMMA,
	LK_ODD_NOT_ENDED,
	LK_ODD_NOT_BEGUN,
	LK_ODD_LONG_SHAPE,
	LK_ODD_HEAD,
	LK_ODD_BEHIND,
	LK_ODD_COUNT,
} lk_odd;

/* An event that began (ph B) and has not ended. */
typedef struct lk_open_call {
	lk_event event;
	uint32_t below; /* the open call around it, or the next free place */
	bool kept;
} lk_open_call;

typedef struct lk_lane_label {
	int64_t process, thread;
	uint32_t name;
} lk_lane_label;

/* A row of deviceProperties. */
typedef struct lk_head_device {
	int64_t id;
	uint32_t name;
	int32_t sms;
	double bytes;
} lk_head_device;

enum {
	LK_SCRATCH = 1 << 16,
	LK_HEAD_DEVICES = 1024,
	LK_MOST_LABELS = 200000,
	LK_BYTES_OF_A_NAME = 64 /* long texts count as several, so that memory is bounded too */
};

typedef struct lk_kineto {
	lk_window window;
	lk_capture *capture;
	lk_read_limits limits; /* defaults filled in */
	lk_error *err;
	lk_keys keys;
	lk_kineto_fields f; /* the event at hand */
	bool full;          /* the window could not grow any more */
	bool found;         /* a list of events */
	bool cut;           /* the file ended inside something */
	bool mtia;          /* it has events of Meta's MTIA */
	bool base_time;     /* the head says what time 0 is */
	struct {
		uint64_t count, line;
	} odd[LK_ODD_COUNT];
	LK_VEC(lk_open_call) open;
	uint32_t free_call; /* LK_NONE: none */
	uint64_t open_count;
	lk_lane_map open_on; /* the innermost open call of a thread */
	LK_VEC(lk_lane_label) labels;
	LK_VEC(lk_head_device) devices;
	char scratch[LK_SCRATCH];
} lk_kineto;

/* Counts something odd; the line of the first is that of `at`, in the window. */
void lk_kineto_odd(lk_kineto *kineto, lk_odd what, const char *at);
/* The number of a text; longer ones are cut at LK_SCRATCH. LK_NONE when memory runs out. */
uint32_t lk_kineto_intern(lk_kineto *kineto, lk_slice text);
/* Adds the event of r->f to the capture, if it is one of use. */
lk_status lk_kineto_keep(lk_kineto *kineto, const char *at);
/* What can be done only when all events are there: names of lanes, calls left open, the device
 * used. */
lk_status lk_kineto_finish(lk_kineto *kineto);
/* The name of a key of the head that there is a use for, or NULL; reads its value, which lies at
 * `text`. */
const char *lk_head_wants(const char *key, size_t length);
lk_status lk_head_read(lk_kineto *kineto, const char *key, const char *text, size_t length);

#endif
