/* kineto_event.h: one event of a JSON trace, read from contiguous bytes into fields. Texts stay where they are; nothing
 * is interned before it is clear that the event is kept. */
#ifndef LK_TRACE_KINETO_EVENT_H
#define LK_TRACE_KINETO_EVENT_H

#include "trace/capture/capture.h"
#include "trace/read/kineto_scan.h"

/* A value in the window: a text without its quotes, or any other value as it is written. */
typedef struct lk_slice {
	const char *at;
	uint32_t length;
	bool plain;              /* no escapes and no control characters in it */
} lk_slice;

/* Categories beyond lk_event_kind. */
enum { LK_KINETO_UNKNOWN = LK_EVENT_KINDS, LK_KINETO_USELESS };

/* A number that was not said. */
#define LK_UNSAID INT64_MIN

/* Times are kept far from where the sum of two could overflow. */
#define LK_MOST_NS (INT64_C(1) << 61)

typedef struct lk_kineto_fields {
	char ph;
	uint8_t kind;            /* lk_event_kind, LK_KINETO_UNKNOWN or _USELESS */
	int64_t start_ns, dur_ns;
	int64_t process, thread;
	lk_slice name, process_text, thread_text;
	/* arguments */
	int64_t external, correlation, record, sequence, stream, device, bytes;
	int64_t grid, block;     /* products of the three dimensions */
	int64_t wait_stream, wait_record, in_elements, out_elements, group_size, source, target;
	lk_slice label;          /* "name": of metadata, what a process or thread is called */
	lk_slice dims, types, values, sync_kind, collective, dtype, group, group_text, ranks;
	/* what was odd */
	uint64_t seen, seen_args; /* keys, as bits of the tables */
	bool twice, controls, not_finite, comma;
} lk_kineto_fields;

typedef enum lk_event_state {
	LK_EVENT_DONE,
	LK_EVENT_USELESS,        /* dropped; `at` stands `depth` brackets inside it */
	LK_EVENT_SHORT,          /* the bytes end inside it */
	LK_EVENT_DAMAGED,        /* no JSON from `at` on */
	LK_EVENT_DEEP,           /* more than LK_SCAN_DEPTH levels */
	LK_EVENT_NESTED,         /* no event: an object that holds a list `traceEvents`; `at` stands before that key */
} lk_event_state;

/* Finds keys by their bytes: a hash of length and first bytes into a table. */
typedef struct lk_key_slot {
	uint64_t word;           /* the first 8 bytes */
	uint8_t length, number;  /* index + 1 into a table of kineto_event.c; 0: free */
} lk_key_slot;

typedef struct lk_keys {
	lk_key_slot event[64], args[256], category[128];
} lk_keys;
void lk_keys_open(lk_keys *keys);
/* Whether a text is a key of events: what the search for the next sound event goes by. */
bool lk_keys_event(const lk_keys *keys, const char *text, size_t length);

/* Reads the event that begins with the '{' at *at and moves *at behind it (or, see above, into it). */
lk_event_state lk_kineto_event(lk_kineto_fields *f, const lk_keys *keys, const char **at, const char *end, int *depth);

/* A text's characters without escapes, at most size - 1 bytes and '\0'; NUL becomes U+FFFD. Returns its length. */
size_t lk_slice_text(lk_slice slice, char *out, size_t size);
/* A value without white space and quotes, "[[512,13],[],[]]"; objects become lists. Its length, or SIZE_MAX if it is
 * too long. */
size_t lk_slice_compact(lk_slice slice, char *out, size_t size);
/* A number as it is written; LK_UNSAID if it is none. */
int64_t lk_slice_whole(lk_slice slice);
/* Microseconds as nanoseconds, rounded at the fourth decimal and kept within +-2^61. */
int64_t lk_slice_nanoseconds(lk_slice slice);

#endif
