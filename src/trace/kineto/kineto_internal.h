/* kineto_internal.h: fast scanning of a JSON trace: a window that slides over the file, the end of
 * a text, the end of a value that is skipped.
 *
 * An event is read from contiguous bytes. If the window ends inside it, the window slides so that
 * it begins with the event, reads on, and the event is read again; it grows only for events longer
 * than itself. LK_SCAN_PAD zero bytes follow the bytes read, so blocks of that size may be loaded
 * anywhere, and a zero byte stops every scan. */
#ifndef LK_TRACE_KINETO_INTERNAL_H
#define LK_TRACE_KINETO_INTERNAL_H

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
	lk_ahead *ahead; /* reads the stream with threads; NULL: read directly */
	char *bytes;     /* `capacity` and LK_SCAN_PAD more */
	size_t capacity;
	size_t step;          /* bytes of the next read, at most */
	const char *at, *end; /* not consumed yet */
	uint64_t read, limit; /* bytes of the file so far; the most it may have */
	uint64_t lines;       /* newlines before `bytes` */
	bool ended;           /* nothing is left to read */
	lk_status broken;     /* the stream's error, if not LK_OK */
	lk_error cause;       /* details */
} lk_window;

typedef enum lk_window_state {
	LK_WINDOW_MORE,  /* there are new bytes */
	LK_WINDOW_END,   /* the file has ended, or is broken */
	LK_WINDOW_FULL,  /* the value at `at` is longer than any window may be */
	LK_WINDOW_LIMIT, /* the file is longer than the limit */
	LK_WINDOW_MEMORY,
} lk_window_state;

/* Open; false when memory runs out. */
bool lk_window_open(lk_window *window, lk_stream *in, lk_ahead *ahead, uint64_t limit);
void lk_window_close(lk_window *window);
/* Slide the window to `at` and read on after `end`. Pointers into the window become invalid. */
lk_window_state lk_window_more(lk_window *window);
/* Move to byte `place` of the file, after `lines` newlines, where the threads that read ahead
 * continue. */
void lk_window_jump(lk_window *window, uint64_t place, uint64_t lines);
/* Newlines in [from, to). */
uint64_t lk_window_newlines(const char *from, const char *to);
/* The line of a place in the window, counting from 1. */
uint64_t lk_window_line(const lk_window *window, const char *at);

/* State of skipping to the end of a value, which may continue in the next window. Begins as {.depth
 * = brackets already open}. */
typedef struct lk_skip {
	int64_t depth;
	bool in_text, escaped;
} lk_skip;

typedef enum lk_skip_state { LK_SKIP_DONE, LK_SKIP_SHORT, LK_SKIP_DEEP } lk_skip_state;

/* Move *at after the bracket that closes the last open one (DONE), or to `end`. Kinds of brackets
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

/* The next byte from `p` on that is not white space; `end` or more: none. */
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
 * in place; they are interned only when the event is kept. */

/* A value in the window: a text without its quotes, or any other value as written. */
typedef struct lk_slice {
	const char *at;
	uint32_t length;
	bool plain; /* without escapes and control characters */
} lk_slice;

/* Categories beyond lk_event_kind. */
enum {
	LK_KINETO_UNKNOWN = LK_EVENT_KINDS,
	LK_KINETO_PYTHON, /* a function, which counts as an annotation where its name tells work ... */
	LK_KINETO_MODULE, /* ... and is kept apart where it is a call of a module */
	LK_KINETO_USELESS,
	LK_KINETO_MTIA /* of an accelerator that is not supported */
};

/* A missing number. */
#define LK_UNSAID INT64_MIN

/* Limit of times, so that the sum of two cannot overflow. */
#define LK_MOST_NS (INT64_C(1) << 61)

typedef struct lk_kineto_fields {
	char ph;
	uint8_t kind; /* lk_event_kind, LK_KINETO_UNKNOWN, _PYTHON or _USELESS */
	int64_t start_ns, dur_ns;
	int64_t process, thread;
	lk_slice name, process_text, thread_text;
	/* arguments */
	int64_t correlation, record, stream, device, bytes;
	int64_t wait_stream, wait_record, in_elements, out_elements, group_size, source, target;
	int64_t sequence,
		forward_thread; /* autograd's number; of gradients, the thread it comes from */
	lk_slice label;     /* "name": in metadata, the name of a process or thread */
	lk_slice dims, types, values, sync_kind, collective, dtype, group, group_text, ranks;
	/* oddities */
	uint64_t seen, seen_args; /* keys, as bits of the tables */
	bool twice, controls, not_finite, comma;
} lk_kineto_fields;

typedef enum lk_event_state {
	LK_EVENT_DONE,
	LK_EVENT_USELESS, /* dropped; `at` is `depth` brackets inside it */
	LK_EVENT_SHORT,   /* the bytes end inside the event */
	LK_EVENT_DAMAGED, /* not JSON from `at` on */
	LK_EVENT_DEEP,    /* more than LK_SCAN_DEPTH levels */
	LK_EVENT_NESTED,  /* not an event: an object that holds a list `traceEvents`; `at` is before
	                     that key */
} lk_event_state;

/* Hash table of keys, by length and first bytes. */
typedef struct lk_key_slot {
	uint64_t word;          /* the first 8 bytes */
	uint8_t length, number; /* index + 1 into a table of kineto_event.c; 0: free */
} lk_key_slot;

typedef struct lk_keys {
	lk_key_slot event[64], args[256], category[128];
} lk_keys;
void lk_keys_open(lk_keys *keys);
/* Whether a text is a key of events; used in the search for the next sound event. */
bool lk_keys_event(const lk_keys *keys, const char *text, size_t length);
/* Whether an event begins with the '{' at `p`, after which LK_LOOKAHEAD bytes can be read: a key of
 * events follows. */
bool lk_keys_begin(const lk_keys *keys, const char *p);

/* Read the event that begins with the '{' at *at and move *at after it (or, see above, into it). */
lk_event_state lk_kineto_event(lk_kineto_fields *fields, const lk_keys *keys, const char **at,
                               const char *end, int *depth);

/* Copy a text without escapes, at most size - 1 bytes and '\0'; NUL becomes U+FFFD. Returns its
 * length. */
size_t lk_slice_text(lk_slice slice, char *out, size_t size);
/* Copy a value without white space and quotes, "[[512,13],[],[]]"; objects become lists. Returns
 * its length, or SIZE_MAX if it is too long. */
size_t lk_slice_compact(lk_slice slice, char *out, size_t size);
/* Parse a whole number; LK_UNSAID if it is none. */
int64_t lk_slice_whole(lk_slice slice);
/* Convert microseconds to nanoseconds, rounded at the fourth decimal and limited to +-2^61. */
int64_t lk_slice_nanoseconds(lk_slice slice);

/* ---- kineto_ahead: one file read by several threads. */

struct lk_kineto;
typedef struct lk_run lk_run;

enum {
	LK_AHEAD_PIECE = 1 << 17 /* bytes that one thread reads */
};

/* Start reading ahead with lk_threads() threads, the caller included. NULL when memory runs out. */
lk_ahead *lk_ahead_open(lk_stream *in, const struct lk_kineto *kineto);
void lk_ahead_close(lk_ahead *ahead);
/* As lk_stream_read. */
lk_status lk_ahead_read(lk_ahead *ahead, char *buffer, size_t size, size_t *got, lk_error *cause);
/* The run that begins at this byte of the file, up to which bytes have been read; NULL: none.
 * *lines: newlines of the file before its piece. Valid until the next read. */
lk_run *lk_ahead_run(lk_ahead *ahead, uint64_t place, uint64_t *lines);
/* Continue reading after the run. */
void lk_ahead_pass_run(lk_ahead *ahead, const lk_run *run);

/* ---- kineto_run: consecutive events of a piece of the file, read into columns of their own. */

struct lk_run {
	struct lk_kineto *reader; /* whose capture holds the events */
	uint64_t begin, end;      /* in the file: from '{' of the first to after '}' of the last */
	uint64_t lines;           /* newlines of the piece before `end` */
	bool there;               /* it has events not joined yet */
	/* numbers in the main capture of the reader's names and lanes that have been joined */
	LK_VEC(uint32_t) names;
	LK_VEC(uint32_t) lanes;
};

/* False when memory runs out. */
bool lk_run_open(lk_run *run, const struct lk_kineto *kineto);
void lk_run_close(lk_run *run);
/* Read the leading events of `size` bytes of the file that begin at `place`, followed by
 * LK_SCAN_PAD zero bytes. */
void lk_run_make(lk_run *run, char *bytes, size_t size, uint64_t place);
/* Append the events, as if each had been kept one after the other; `lines` newlines precede the
 * piece. *taken: false if a limit may be exceeded among them, which must be found by reading them
 * one by one; then nothing has changed. */
lk_status lk_run_join(struct lk_kineto *kineto, lk_run *run, uint64_t lines, bool *taken);

/* ---- kineto_reader: shared by the files of the JSON reader: kineto.c (the document),
 * kineto_keep.c (an event into the capture), kineto_head.c (the fields before and after the
 * events). */

/* Oddities that do not make a file useless; each becomes at most one warning. */
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
	uint32_t below; /* index of the enclosing open call, or of the next free slot */
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
	LK_BYTES_OF_A_NAME = 64 /* long texts count as several names, so that memory is bounded too */
};

typedef struct lk_kineto {
	lk_window window;
	lk_capture *capture;
	lk_read_limits limits; /* defaults filled in */
	lk_error *err;
	lk_keys keys;
	lk_kineto_fields f; /* the current event */
	bool full;          /* the window could not grow further */
	bool found;         /* a list of events was found */
	bool cut;           /* the file ended inside something */
	bool mtia;          /* it has events of Meta's MTIA */
	bool base_time;     /* the head defines time 0 */
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

/* Count an oddity; the first one's line is that of `at`, in the window. */
void lk_kineto_odd(lk_kineto *kineto, lk_odd what, const char *at);
/* Intern a text, cut at LK_SCRATCH. LK_NONE when memory runs out. */
uint32_t lk_kineto_intern(lk_kineto *kineto, lk_slice text);
/* Add the event of kineto->f to the capture, if it is needed. */
lk_status lk_kineto_keep(lk_kineto *kineto, const char *at);
/* Finish after the last event: names of lanes, calls left open, the device used. */
lk_status lk_kineto_finish(lk_kineto *kineto);
/* The name of a needed key of the head, or NULL; lk_head_read reads its value, which is at
 * `text`. */
const char *lk_head_wants(const char *key, size_t length);
lk_status lk_head_read(lk_kineto *kineto, const char *key, const char *text, size_t length);

#endif
