/* cupti.c: device work from CUPTI's activity records: every kernel with its name, whatever launched
 * it.
 *
 * Used only on request, if libcupti is found, and if nobody else uses it: another subscriber (a
 * profiler) makes the first call fail, and the times come from events instead. Nothing is linked or
 * needed to build; the binary interface is a few functions and the first members of four records,
 * which have kept their places since CUDA 9.
 *
 * A call of the program pushes its serial number as an external correlation; CUPTI reports its own
 * number for it before it reports the work. Filled buffers arrive in a thread of CUPTI's own. */
#include "recorder/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	MEMCPY = 1,
	MEMSET = 2,
	DRIVER = 4, /* calls: only work that one of them launches is correlated */
	RUNTIME = 5,
	KERNEL = 10,
	EXTERNAL = 39,
	CUSTOM = 3,
	END_OF_RECORDS = 12
};
enum {
	BUFFER = 1 << 20,
	CORRELATIONS = 1 << 16,
	NAMES = 1 << 12,
	FLUSH_NS = 200000000,
	NAME = 512
};

/* The used part of records; `kind` is first in all. */
struct kernel_record {
	uint32_t kind, caches, partitions[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], shared[2];
	uint32_t local[2], correlation;
	int64_t grid_id;
	const char *name;
};
_Static_assert(offsetof(struct kernel_record, start) == 16 &&
                   offsetof(struct kernel_record, stream) == 48 &&
                   offsetof(struct kernel_record, correlation) == 92 &&
                   offsetof(struct kernel_record, name) == 104,
               "as CUPTI has it");

struct memory_record { /* copies and fills */
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};
_Static_assert(offsetof(struct memory_record, start) == 16 &&
                   offsetof(struct memory_record, stream) == 40 &&
                   offsetof(struct memory_record, correlation) == 44,
               "as CUPTI has it");

struct external_record {
	uint32_t kind, external_kind;
	uint64_t external;
	uint32_t correlation, unused;
};

static struct {
	int (*subscribe)(void **, void *, void *), (*unsubscribe)(void *);
	int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *),
	                 void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
	int (*enable)(int), (*next)(uint8_t *, size_t, uint32_t **), (*flush)(uint32_t);
	int (*push)(int, uint64_t), (*pop)(int, uint64_t *), (*timestamp)(uint64_t *);
	int (*clock)(uint64_t (*)(void)); /* since CUDA 11.6; NULL */
} cupti;

static enum { UNKNOWN, ON, OFF } state;
static lp_age age;
static bool own_clock; /* CUPTI uses the recording's clock */
static int64_t flushed_ns;
static struct {
	uint32_t correlation;
	uint64_t serial;
} serials[CORRELATIONS];
static struct name {
	char text[NAME];
	uint32_t number, epoch;
} * names; /* [NAMES], by hash */

/* ---- the library ---- */

static void *open_cupti(void) {
	static const char *const libraries[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
	                                        "libcupti.so"};
	void *library = NULL;
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !library; i++)
		library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	dlerror();
	return library;
}

static bool find_cupti_functions(void *library) {
#define FIND(name, symbol) \
	((cupti.name = (__typeof__(cupti.name))(uintptr_t)dlsym(library, symbol)) != NULL)
	if (!library) return false;
	if (!FIND(clock, "cuptiActivityRegisterTimestampCallback")) dlerror();
	return FIND(subscribe, "cuptiSubscribe") && FIND(unsubscribe, "cuptiUnsubscribe") &&
	       FIND(callbacks, "cuptiActivityRegisterCallbacks") &&
	       FIND(enable, "cuptiActivityEnable") && FIND(next, "cuptiActivityGetNextRecord") &&
	       FIND(flush, "cuptiActivityFlushAll") &&
	       FIND(push, "cuptiActivityPushExternalCorrelationId") &&
	       FIND(pop, "cuptiActivityPopExternalCorrelationId") &&
	       FIND(timestamp, "cuptiGetTimestamp");
#undef FIND
}

/* Whether nobody else has subscribed. */
static void ignore_callback(void *unused, int domain, uint32_t id, const void *data) {
	(void)unused, (void)domain, (void)id, (void)data;
}
static bool is_cupti_free(void) {
	void *subscriber = NULL;
	return cupti.subscribe(&subscriber, (void *)(uintptr_t)ignore_callback, NULL) == 0 &&
	       cupti.unsubscribe(subscriber) == 0;
}

/* ---- the clock ----
 *
 * CUPTI takes its times from a clock that the recording provides. An older CUPTI has its own clock,
 * whose origin may change when the device is initialised: it is compared with the recording's
 * whenever records come. */

static uint64_t recording_clock(void) {
	return (uint64_t)lp_now();
}

/* Offset from CUPTI's clock to the recording's: of a few comparisons, the one that took the least
 * time. */
static int64_t clock_offset(void) {
	int64_t offset = 0, least = INT64_MAX;
	for (int i = 0; i < 3 && !own_clock; i++) {
		uint64_t theirs = 0;
		int64_t before = lp_now();
		if (cupti.timestamp(&theirs) != 0) break;
		int64_t took = lp_now() - before;
		if (took >= least) continue;
		least = took;
		offset = before + took / 2 - (int64_t)theirs;
	}
	return offset;
}

/* ---- records ---- */

static void give_activity_buffer(uint8_t **buffer, size_t *size, size_t *records) {
	void *room = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*buffer = room == MAP_FAILED ? NULL : room;
	*size = *buffer ? BUFFER : 0;
	*records = 0;
}

/* The name as in the source, if the program has C++'s library. */
static char *demangled(const char *text) {
	static char *(*demangle)(const char *, char *, size_t *, int *);
	static bool looked;
	if (!looked) {
		void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
		demangle =
			library ? (__typeof__(demangle))(uintptr_t)dlsym(library, "__cxa_demangle") : NULL;
		dlerror();
		looked = true;
	}
	return demangle && strncmp(text, "_Z", 2) == 0 ? demangle(text, NULL, NULL, NULL) : NULL;
}

static uint32_t number_of_kernel_name(const char *text) {
	uint32_t hash = UINT32_C(2166136261);
	struct cut_name {
		char text[NAME];
	};
	if (!text || !names) return 0;
	LP_TAKE(struct cut_name, room, 0);
	char *cut = room->text;
	strncpy(cut, text, NAME - 1);
	cut[NAME - 1] = '\0';
	for (const char *at = cut; *at; at++) hash = (hash ^ (uint8_t)*at) * UINT32_C(16777619);
	for (uint32_t i = 0; i < 16; i++) {
		struct name *name = &names[(hash + i) % NAMES];
		if (!name->text[0]) memcpy(name->text, cut, NAME);
		if (strcmp(name->text, cut) != 0) continue;
		char *shown = name->number ? NULL : demangled(text);
		uint32_t number = lp_name(&name->number, &name->epoch, shown ? shown : name->text);
		free(shown);
		return number;
	}
	return 0;
}

/* CUPTI's direction of a copy (1 to the device, 2 from it, 8 on it) as recorded; 4 unknown. */
static uint8_t recorded_direction(uint8_t direction) {
	if (direction == 1 || direction == 2) return direction;
	return direction == 8 ? 3 : 4;
}

static void record_activity(lk_device_what what, uint32_t correlation, int64_t from, int64_t to,
                            uint32_t stream, uint64_t bytes, uint8_t direction, uint32_t name) {
	lk_record_entry *record = from >= 0 && to >= from && bytes <= INT64_MAX ? lp_next() : NULL;
	if (!record) return;
	record->start_ns = from;
	record->end_ns = to;
	record->bytes = (int64_t)bytes;
	record->device.serial = serials[correlation % CORRELATIONS].correlation == correlation
	                            ? serials[correlation % CORRELATIONS].serial
	                            : 0;
	record->device.stream = stream + 1;
	record->device.call = name;
	record->device.count = 1;
	record->device.what = (uint8_t)what;
	record->device.direction = recorded_direction(direction);
	lp_publish(record, LK_RECORD_DEVICE_WORK);
}

static void take_activity(const uint32_t *record, int64_t offset) {
	if (*record == EXTERNAL) {
		const struct external_record *external_record =
			(const struct external_record *)(const void *)record;
		serials[external_record->correlation % CORRELATIONS].correlation =
			external_record->correlation;
		serials[external_record->correlation % CORRELATIONS].serial = external_record->external;
	} else if (*record == KERNEL) {
		const struct kernel_record *kernel_record =
			(const struct kernel_record *)(const void *)record;
		bool comm = kernel_record->name && strncmp(kernel_record->name, "nccl", 4) == 0;
		record_activity(comm ? LK_DEVICE_COMM : LK_DEVICE_KERNEL, kernel_record->correlation,
		                (int64_t)kernel_record->start + offset,
		                (int64_t)kernel_record->end + offset, kernel_record->stream, 0, 0,
		                number_of_kernel_name(kernel_record->name));
	} else if (*record == MEMCPY || *record == MEMSET) {
		const struct memory_record *memory_record =
			(const struct memory_record *)(const void *)record;
		bool copy = *record == MEMCPY;
		record_activity(copy ? LK_DEVICE_COPY : LK_DEVICE_SET, memory_record->correlation,
		                (int64_t)memory_record->start + offset,
		                (int64_t)memory_record->end + offset, memory_record->stream,
		                memory_record->bytes, copy ? memory_record->direction : 0, 0);
	}
}

static void take_activity_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid) {
	uint32_t *record = NULL;
	(void)context, (void)stream, (void)size;
	bool was = lp_thread.busy;
	lp_thread.busy = false; /* it may come while the program's call is in the runtime */
	if (lp_enter()) {
		int64_t offset = clock_offset();
		while (valid && cupti.next(buffer, valid, &record) == 0 && record)
			take_activity(record, offset);
		lp_leave();
	}
	lp_thread.busy = was;
	if (buffer) munmap(buffer, BUFFER);
}

/* ---- beginning ---- */

static bool begin_cupti(void) {
	static const int kinds[] = {EXTERNAL, DRIVER, RUNTIME, MEMCPY, MEMSET, KERNEL};
	if (!find_cupti_functions(open_cupti()) || !is_cupti_free()) return false;
	own_clock = cupti.clock && cupti.clock(recording_clock) == 0;
	void *room = mmap(NULL, NAMES * sizeof *names, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	names = room == MAP_FAILED ? NULL : room;
	if (cupti.callbacks(give_activity_buffer, take_activity_buffer) != 0) return false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (cupti.enable(kinds[i]) != 0) return false;
	return true;
}

/* A forked child has no device. */
static bool is_on(void) {
	if (lp_is_stale(&age)) {
		if (state == ON) state = OFF;
		lp_renewed(&age);
	}
	return state == ON;
}

bool lp_cupti_on(void) {
	static uint32_t beginning;
	uint32_t no = 0;
	bool on = is_on();
	if (LP_HOT(state != UNKNOWN)) return on;
	if (!__atomic_compare_exchange_n(&beginning, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	const char *said = getenv("LOCKSTEP_RECORD_CUDA");
	state = said && strcmp(said, "cupti") == 0 && begin_cupti() ? ON : OFF;
	return state == ON;
}

void lp_cupti_push(uint64_t serial) {
	if (lp_cupti_on()) cupti.push(CUSTOM, serial);
}

void lp_cupti_pop(void) {
	uint64_t unused;
	if (lp_cupti_on()) cupti.pop(CUSTOM, &unused);
}

/* Hand over complete buffers; meanwhile the thread is not in the recorder. */
void lp_cupti_flush(void) {
	if (!is_on() || lp_now() - flushed_ns < FLUSH_NS) return;
	flushed_ns = lp_now();
	cupti.flush(0);
}

void lp_cupti_end(void) {
	if (is_on()) cupti.flush(1);
}
