/* cupti.c: a stand-in for the part of libcupti that lockstep uses: records of the work of the
 * stand-in's streams. Tests only. With STUB_CUPTI_TAKEN in the environment somebody else has
 * subscribed. Like CUPTI's, its clock begins anew when the device is first used; with
 * STUB_CUPTI_OLD=1 it takes no other clock, and records no calls, so that no work is correlated. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KERNEL = 0, COPY = 1, SET = 2, CALL = 5, TAKEN = 39, END = 12 };
extern unsigned (*stub_given)(void);
extern void (*stub_done)(unsigned, int, int, size_t, uint64_t, uint64_t, unsigned);

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *buffer;
static size_t size, used;
static __thread uint64_t pushed[16];
static __thread int depth;
static int calls; /* of the runtime are recorded */

/* Every record has 128 bytes here; its real size is its kind's. */
static uint8_t *next_record(void) {
	size_t records;
	if (buffer && used + 128 > size) complete(NULL, 0, buffer, size, used), buffer = NULL;
	if (!buffer) request(&buffer, &size, &records), used = 0;
	used += 128;
	return memset(buffer + used - 128, 0, 128);
}

static void put(uint8_t *to, int at, uint64_t value, int bytes) {
	memcpy(to + at, &value, (size_t)bytes);
}

static uint64_t (*clock_of_user)(void), began;

static uint64_t system_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static unsigned given(void) {
	static unsigned count;
	if (!began) began = system_ns() - 1000;
	unsigned correlation = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&lock);
	if (depth && calls) {
		uint8_t *r = next_record();
		put(r, 0, 39, 4), put(r, 4, 3, 4), put(r, 8, pushed[depth - 1], 8),
			put(r, 16, correlation, 4);
	}
	pthread_mutex_unlock(&lock);
	return correlation;
}

static void done(unsigned correlation, int kind, int direction, size_t bytes, uint64_t start,
                 uint64_t end, unsigned stream) {
	pthread_mutex_lock(&lock);
	uint8_t *r = next_record();
	int memory = kind == COPY || kind == SET;
	put(r, 0, kind == COPY ? 1 : kind == SET ? 2 : 10, 4);
	uint64_t ago = system_ns() - end, user = clock_of_user ? clock_of_user() - ago : end - began;
	put(r, 16, user - (end - start), 8), put(r, 24, user, 8);
	if (memory)
		put(r, 4, (uint64_t)(direction == 3 ? 8 : direction), 1), put(r, 8, bytes, 8),
			put(r, 40, stream, 4), put(r, 44, correlation, 4);
	else {
		const char *name = kind == CALL ? "ncclDevKernel_stub" : "_Z11stub_kernelPfi";
		put(r, 48, stream, 4), put(r, 92, correlation, 4),
			put(r, 104, (uint64_t)(uintptr_t)name, 8);
	}
	pthread_mutex_unlock(&lock);
}

int cuptiSubscribe(void **subscriber, void *callback, void *data) {
	(void)callback, (void)data;
	return getenv("STUB_CUPTI_TAKEN") ? TAKEN : (*subscriber = &lock, 0);
}
int cuptiUnsubscribe(void *subscriber) {
	return subscriber != &lock;
}
int cuptiActivityRegisterCallbacks(void (*a)(uint8_t **, size_t *, size_t *),
                                   void (*b)(void *, uint32_t, uint8_t *, size_t, size_t)) {
	return request = a, complete = b, 0;
}
int cuptiActivityEnable(int kind) {
	if (kind == 5) calls = !getenv("STUB_CUPTI_OLD");
	return stub_given = given, stub_done = done, kind <= 0;
}
int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint32_t **record) {
	uint8_t *at = *record ? (uint8_t *)*record + 128 : from;
	if (at >= from + valid) return END;
	return *record = (uint32_t *)(void *)at, 0;
}
int cuptiActivityFlushAll(uint32_t flag) {
	(void)flag;
	pthread_mutex_lock(&lock);
	if (buffer) complete(NULL, 0, buffer, size, used), buffer = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
	return pushed[depth++ & 15] = id, kind != 3;
}
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *id) {
	return *id = pushed[--depth & 15], kind != 3;
}
int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) {
	if (getenv("STUB_CUPTI_OLD")) return TAKEN;
	return clock_of_user = clock, 0;
}
int cuptiGetTimestamp(uint64_t *ns) {
	return *ns = clock_of_user ? clock_of_user() : system_ns() - began, 0;
}
