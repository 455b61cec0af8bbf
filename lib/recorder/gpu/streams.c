/* streams.c: streams of a device as numbers, and the piece of work that last recorded an event. */
#include "recorder/gpu/gpu.h"

#include <string.h>

enum { STREAMS = 256, EVENTS = 1 << 12 };

static lp_age age;
static lp_stream streams[STREAMS];
static uint32_t stream_count;

/* The work that last recorded an event: a cache, in which a newer event may replace an older
 * one. */
static struct event { uint64_t key, serial; } events[EVENTS];

static void empty_tables(void) {
	memset(streams, 0, sizeof streams);
	memset(events, 0, sizeof events);
	stream_count = 0;
	lp_renewed(&age);
}

/* ---- streams ---- */

/* NULL is the legacy default stream, whose other name is 1. */
lp_stream *lp_gpu_stream(void *handle) {
	uint64_t key = handle ? (uint64_t)(uintptr_t)handle : 1;
	if (lp_is_stale(&age)) empty_tables();
	for (uint32_t i = 0, at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40); i < STREAMS;
	     i++, at++) {
		lp_stream *stream = &streams[at % STREAMS];
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&stream->taken, &free, 1, false, __ATOMIC_ACQ_REL,
		                                __ATOMIC_RELAXED)) {
			stream->number = __atomic_add_fetch(&stream_count, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&stream->key, key, __ATOMIC_RELEASE);
			return stream;
		}
		if (__atomic_load_n(&stream->key, __ATOMIC_ACQUIRE) == key) return stream;
	}
	return NULL;
}

lp_stream *lp_gpu_next_stream(const lp_stream *after) {
	if (lp_is_stale(&age)) empty_tables();
	lp_stream *stream = after ? streams + (after - streams) + 1 : streams;
	while (stream < streams + STREAMS && !__atomic_load_n(&stream->key, __ATOMIC_ACQUIRE)) stream++;
	return stream < streams + STREAMS ? stream : NULL;
}

/* ---- events ---- */

static struct event *find_event_place(const void *event) {
	return &events[((uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void lp_gpu_note_event(void *event, uint64_t serial) {
	if (lp_is_stale(&age)) empty_tables();
	struct event *place = find_event_place(event);
	__atomic_store_n(&place->key, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&place->serial, serial, __ATOMIC_RELEASE);
	__atomic_store_n(&place->key, (uint64_t)(uintptr_t)event, __ATOMIC_RELEASE);
}

uint64_t lp_gpu_event_serial(const void *event) {
	if (lp_is_stale(&age)) empty_tables();
	const struct event *place = find_event_place(event);
	if (__atomic_load_n(&place->key, __ATOMIC_ACQUIRE) != (uint64_t)(uintptr_t)event) return 0;
	uint64_t serial = __atomic_load_n(&place->serial, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&place->key, __ATOMIC_ACQUIRE) == (uint64_t)(uintptr_t)event ? serial
	                                                                                    : 0;
}
