/* profiler.c: does to a profiler plugin what NCCL does: loads it by NCCL_PROFILER_PLUGIN, takes
 * ncclProfiler_vN, tells it of a communicator, collectives, channels and network operations.
 * Descriptions of events are put together byte by byte, at the offsets that NCCL's own declarations
 * have on 64 bits, so that nothing is shared with what is tested.
 *
 * Usage: profiler VERSION STEPS. Each step: two all-reduces of 1000 floats (2 and 1 ms on the
 * device), one all-gather of 10 halves from each of 4 ranks (1 ms), a message of 7 bytes to rank 3;
 * one network operation of two transfers, which waits 1 ms for the device and 2 ms for the wire. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, KERNEL_CH = 64, COLL_API = 512 };
enum { SEND_GPU_WAIT = 8, SEND_WAIT = 9, CH_STOP = 22 };

/* The device's clock began at another time. */
static const int64_t APART = 5000000000;

typedef struct table {
	const char *name;
	void *init;
	int (*start)(void *, void **, void *);
	int (*stop)(void *);
	int (*state)(void *, int, void *);
	int (*finalize)(void *);
} table;

static const table *t;
static int version;
static void *context;

static int64_t now(void) {
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000 + at.tv_nsec;
}

static void put(char *to, int at, uint64_t value, int size) {
	memcpy(to + at, &value, (size_t)size);
}
static void put_text(char *to, int at, const char *text) {
	put(to, at, (uint64_t)(uintptr_t)text, 8);
}

static void *start(uint64_t type, void *parent, char *d) {
	void *event = NULL;
	put(d, 0, type, version < 5 ? 1 : 8);
	put(d, 8, (uint64_t)(uintptr_t)parent, 8);
	put(d, 16, 1, 4);
	if (t->start(context, &event, d) != 0) exit(3);
	return event;
}

static void *begin_coll(const char *func, size_t count, const char *type, uint64_t sequence) {
	char d[256] = {0}, api[256] = {0};
	void *parent = NULL;
	if (version >= 5) {
		put(api, 56, 0x1234, 8); /* stream */
		parent = start(COLL_API, NULL, api);
	}
	int at = version == 3 ? 40 : 24;
	if (version == 3) put_text(d, 24, "name"), put(d, 32, 0xabcdef, 8);
	put(d, at, sequence, 8), put_text(d, at + 8, func);
	put(d, at + 32, count, 8), put_text(d, at + 48, type), put(d, at + 56, 2, 1);
	void *event = start(COLL, parent, d);
	t->stop(event);
	if (parent) t->stop(parent);
	return event;
}

/* Two channels, one behind the other by a quarter; the news of them comes later. */
static void channels(void *parent, int64_t begin, int64_t length) {
	void *channel[2];
	for (int i = 0; i < 2; i++) {
		char d[256] = {0};
		put(d, 24, (uint64_t)i, 1), put(d, 32, (uint64_t)(begin + i * length / 4 + APART), 8);
		channel[i] = start(KERNEL_CH, parent, d);
	}
	for (int i = 0; i < 2; i++) {
		uint64_t with = (uint64_t)(begin + (i ? length : length / 2) + APART);
		if (version > 3) t->state(channel[i], CH_STOP, &with);
		t->stop(channel[i]);
	}
}

static void network(void *parent) {
	char d[256] = {0}, step[256] = {0};
	put(d, 24, (uint64_t)getpid(), 4), put(d, 28, 1, 1), put(d, 32, 2, 4), put(d, 36, 2, 4),
		put(d, 40, 500, 4), put(d, 44, 1, 4);
	void *op = start(PROXY_OP, parent, d);
	for (int i = 0; i < 2; i++) {
		uint64_t bytes[2] = {500, 0};
		put(step, 24, (uint64_t)i, 4);
		void *event = start(PROXY_STEP, op, step);
		t->state(event, SEND_GPU_WAIT, NULL);
		usleep(500);
		t->state(event, SEND_WAIT, version > 3 ? bytes : NULL);
		usleep(1000);
		t->stop(event);
	}
	t->stop(op);
}

static void message(void) {
	char d[256] = {0};
	int at = version == 3 ? 40 : 24;
	if (version == 3) put_text(d, 24, "name"), put(d, 32, 0xabcdef, 8);
	put_text(d, at, "Send"), put_text(d, at + 16, "ncclInt8"), put(d, at + 24, 7, 8),
		put(d, at + 32, 3, 4);
	t->stop(start(P2P, NULL, d));
}

static void begin(int *mask) {
	int result;
	if (version == 3) result = ((int (*)(void **, int *))(uintptr_t)t->init)(&context, mask);
	else if (version == 4)
		result = ((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))(
					  uintptr_t)t->init)(&context, mask, "name", 0xabcdef, 2, 4, 1, NULL);
	else
		result = ((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))(
					  uintptr_t)t->init)(&context, 0xabcdef, mask, "name", 2, 4, 1, NULL);
	if (result != 0) exit(2);
}

int main(int argc, char **argv) {
	char symbol[40];
	const char *plugin = getenv("NCCL_PROFILER_PLUGIN");
	int mask = 0, steps = argc > 2 ? atoi(argv[2]) : 10;
	version = argc > 1 ? atoi(argv[1]) : 4;
	snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
	void *library = plugin ? dlopen(plugin, RTLD_NOW | RTLD_LOCAL) : NULL;
	t = library ? dlsym(library, symbol) : NULL;
	if (!t) return fprintf(stderr, "no %s: %s\n", symbol, dlerror()), 1;
	begin(&mask);
	for (int i = 0; i < steps; i++) {
		int64_t at = now();
		void *first = begin_coll("AllReduce", 1000, "ncclFloat32", (uint64_t)(3 * i));
		void *second = begin_coll("AllReduce", 1000, "ncclFloat32", (uint64_t)(3 * i + 1));
		void *third = begin_coll("AllGather", 10, "ncclFloat16", (uint64_t)(3 * i + 2));
		message();
		network(first);
		while (now() < at + 4500000) usleep(100);
		channels(first, at, 2000000), channels(second, at + 2000000, 1000000),
			channels(third, at + 3000000, 1000000);
	}
	t->stop(NULL);
	t->state((void *)0x7777777, SEND_WAIT, NULL); /* no event of it */
	t->finalize(context);
	printf("%s, mask %d\n", t->name, mask);
	return 0;
}
