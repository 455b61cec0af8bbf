/* marks.c: start and end times of device work: events of the runtime, recorded before and after it
 * and read later.
 *
 * A *batch* is the kernels on a stream between two calls that order it: a wait, an event, a copy, a
 * communication. It has one event before and one after it, so that a loop of a thousand launches
 * costs two; gaps inside it are part of it. Events are read only when they are done
 * (cudaEventQuery), during the program's own waits; the device's clock is tied to the host's once a
 * second by an event on the recorder's own stream.
 *
 * On a busy machine milliseconds may pass between two reads of the host's clock. It is certain only
 * that an event was reached after it was recorded and before it was seen to be done; an event
 * outside these bounds shifts the device's clock.
 *
 * One thread at a time works here; others meanwhile leave their work without times. Nothing is done
 * while the runtime has an error that the program has not read, nor on a stream that is being
 * captured into a graph. */
#include "recorder/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	EVENTS = 4096,
	PENDING = 1024,
	LONGEST_BATCH = 256,
	NON_BLOCKING = 1,
	PATIENCE = 10000,
	MANY = 4,
	RELATE_NS = 1000000000,
	RELATE_TRIES = 8,
	QUICK_NS = 50000
};

/* A piece of work in progress. */
struct piece {
	void *begin, *end; /* events */
	int64_t given_ns;  /* when the second one was recorded */
	uint64_t serial;
	int64_t bytes;
	uint32_t stream, count;
	uint8_t what;
};

static struct {
	uint32_t busy, pid;
	enum { UNKNOWN, WANTED, UNWANTED } want;
	bool ready, failed, related;
	int device;
	void *base, *other; /* events: the last one and the next */
	void *stream;       /* where they are recorded */
	int64_t base_ns;
	void *pool[EVENTS];
	uint32_t pooled, made;
	struct piece pending[PENDING];
	uint32_t head, tail;
} marks;
static lp_age age;

static struct {
	int (*create)(void **, unsigned), (*record)(void *, void *), (*query)(void *),
		(*synchronize)(void *);
	int (*elapsed)(float *, void *, void *), (*peek)(void), (*clear)(void), (*device)(int *),
		(*capturing)(void *, int *);
	int (*stream_create)(void **, unsigned);
} runtime;

/* Whether device times are requested, by events. */
static bool is_wanted(void) {
	if (marks.want == UNKNOWN) {
		const char *said = getenv("LOCKSTEP_RECORD_CUDA");
		/* events replace CUPTI if that does not work */
		bool cupti = said && strcmp(said, "cupti") == 0;
		marks.want =
			!said || strcmp(said, "events") == 0 || (cupti && !lp_cupti_on()) ? WANTED : UNWANTED;
	}
	return marks.want == WANTED;
}

static bool find_event_functions(void) {
#define FIND(name, symbol) \
	((runtime.name = (__typeof__(runtime.name))(uintptr_t)lp_gpu_symbol(symbol)) != NULL)
	return FIND(create, "cudaEventCreateWithFlags") && FIND(record, "cudaEventRecord") &&
	       FIND(query, "cudaEventQuery") && FIND(synchronize, "cudaEventSynchronize") &&
	       FIND(elapsed, "cudaEventElapsedTime") && FIND(peek, "cudaPeekAtLastError") &&
	       FIND(clear, "cudaGetLastError") && FIND(device, "cudaGetDevice") &&
	       FIND(capturing, "cudaStreamIsCapturing") &&
	       FIND(stream_create, "cudaStreamCreateWithFlags");
#undef FIND
}

/* ---- clocks ---- */

static int64_t clamp_time(int64_t time, int64_t from, int64_t to) {
	if (time < from) return from;
	return time > to ? to : time;
}

static int64_t host_time_of_event(void *event) {
	float ms = 0;
	if (runtime.elapsed(&ms, marks.base, event) != 0) return runtime.clear(), -1;
	return marks.base_ns + (int64_t)((double)ms * 1e6);
}

/* Relate the clocks. The stream has no other work, so the event is done as soon as it is recorded.
 * Tries several times, because the first may find the device asleep. */
static bool relate_clocks(void) {
	for (int i = 0; i < RELATE_TRIES; i++) {
		void *event = marks.other;
		int64_t from = lp_now();
		if (runtime.record(event, marks.stream) != 0 || runtime.synchronize(event) != 0)
			return false;
		int64_t to = lp_now();
		marks.base_ns = marks.related ? clamp_time(host_time_of_event(event), from, to)
		                              : from + (to - from) / 2;
		marks.other = marks.base;
		marks.base = event;
		marks.related = true;
		if (to - from < QUICK_NS) break;
	}
	return true;
}

static bool begin_marks(void) {
	if (marks.ready || marks.failed) return marks.ready;
	marks.pid = (uint32_t)getpid();
	marks.ready = find_event_functions() && runtime.peek() == 0 &&
	              runtime.device(&marks.device) == 0 &&
	              runtime.stream_create(&marks.stream, NON_BLOCKING) == 0 &&
	              runtime.create(&marks.base, 0) == 0 && runtime.create(&marks.other, 0) == 0 &&
	              relate_clocks();
	marks.failed = !marks.ready;
	if (marks.failed && runtime.clear && runtime.peek) runtime.clear();
	return marks.ready;
}

/* A forked child cannot use its parent's device. */
static void forget_marks(void) {
	bool child = marks.pid && marks.pid != (uint32_t)getpid();
	memset(&marks, 0, sizeof marks);
	marks.failed = child;
	lp_renewed(&age);
}

/* Take the lock; false: no mark. */
static bool enter_marks(void) {
	int device;
	if (lp_is_stale(&age)) forget_marks();
	if (!is_wanted() || __atomic_exchange_n(&marks.busy, 1, __ATOMIC_ACQUIRE)) return false;
	if (begin_marks() && runtime.peek() == 0 && runtime.device(&device) == 0 &&
	    device == marks.device)
		return true;
	__atomic_store_n(&marks.busy, 0, __ATOMIC_RELEASE);
	return false;
}

static void leave_marks(void) {
	__atomic_store_n(&marks.busy, 0, __ATOMIC_RELEASE);
}

/* ---- events ---- */

static void give_back_event(void *event) {
	LP_ASSERT(event == NULL || marks.pooled < EVENTS);
	if (event) marks.pool[marks.pooled++] = event; /* there are never more than were made */
}

static void *take_event(void) {
	void *event = NULL;
	if (marks.pooled) return marks.pool[--marks.pooled];
	if (marks.made == EVENTS || runtime.create(&event, 0) != 0) return NULL;
	marks.made++;
	return event;
}

static void *record_mark(void *stream) {
	int capturing = 1;
	void *event = runtime.capturing(stream, &capturing) == 0 && !capturing ? take_event() : NULL;
	if (!event || runtime.record(event, stream) == 0) return event;
	runtime.clear();
	give_back_event(event);
	return NULL;
}

/* Mark the end of a piece of work. */
static void push_piece(struct piece p, void *stream) {
	LP_ASSERT(marks.busy);
	p.given_ns = lp_now();
	p.end = record_mark(stream);
	if (p.begin && p.end && marks.tail - marks.head < PENDING) {
		marks.pending[marks.tail++ % PENDING] = p;
		return;
	}
	give_back_event(p.begin);
	give_back_event(p.end);
}

/* ---- work ---- */

static void cut_batch(lp_stream *stream, void *handle) {
	if (!stream->open) return;
	stream->open = false;
	push_piece((struct piece){.begin = stream->begin,
	                          .serial = stream->serial,
	                          .stream = stream->number,
	                          .count = stream->count,
	                          .what = LK_DEVICE_KERNEL},
	           handle);
}

uint64_t lp_marks_open(lp_stream *stream, void *handle) {
	if (!enter_marks()) return 0;
	if (stream->open && stream->count >= LONGEST_BATCH) cut_batch(stream, handle);
	if (!stream->open && (stream->begin = record_mark(handle)) != NULL) {
		stream->open = true;
		stream->serial = lp_gpu_serial();
		stream->count = 0;
	}
	stream->count++;
	uint64_t serial = stream->open ? stream->serial : 0;
	leave_marks();
	return serial;
}

void lp_marks_cut(lp_stream *stream, void *handle) {
	if (!stream->open || !enter_marks()) return;
	cut_batch(stream, handle);
	leave_marks();
}

void lp_marks_cut_all(void) {
	for (lp_stream *stream = lp_gpu_next_stream(NULL); stream; stream = lp_gpu_next_stream(stream))
		if (stream->open) lp_marks_cut(stream, (void *)(uintptr_t)stream->key);
}

void *lp_marks_begin(lp_stream *stream, void *handle) {
	if (!enter_marks()) return NULL;
	cut_batch(stream, handle);
	void *event = record_mark(handle);
	leave_marks();
	return event;
}

void lp_marks_end(lp_stream *stream, void *handle, void *begin, lk_device_what what,
                  uint64_t serial, int64_t bytes) {
	int tries = PATIENCE; /* the begin should not be lost, but must not block for long */
	while (__atomic_exchange_n(&marks.busy, 1, __ATOMIC_ACQUIRE))
		if (tries-- == 0) return;
	push_piece((struct piece){.begin = begin,
	                          .serial = serial,
	                          .bytes = bytes,
	                          .stream = stream->number,
	                          .count = 1,
	                          .what = (uint8_t)what},
	           handle);
	bool many = marks.tail - marks.head >= MANY; /* the program may not wait by recorded calls */
	leave_marks();
	if (many) lp_marks_harvest();
}

/* ---- records ---- */

/* Whether an event is done. The runtime keeps "not done" as its last error. */
static bool is_event_done(void *event) {
	int answer = runtime.query(event);
	if (answer != 0) runtime.clear();
	return answer == 0;
}

static void record_piece(const struct piece *piece) {
	LP_ASSERT(marks.related);
	int64_t start = host_time_of_event(piece->begin), end = host_time_of_event(piece->end), moved;
	lk_record_entry *record = start >= 0 && end >= start ? lp_next() : NULL;
	if (!record) return;
	moved = clamp_time(end, piece->given_ns, lp_now()) - end;
	marks.base_ns += moved;
	start += moved;
	end += moved;
	record->start_ns = start;
	record->end_ns = end;
	record->bytes = piece->bytes;
	record->device.serial = piece->serial;
	record->device.stream = piece->stream;
	record->device.count = piece->count;
	record->device.what = piece->what;
	record->device.direction = 4;
	lp_publish(record, LK_RECORD_DEVICE_WORK);
}

void lp_marks_harvest(void) {
	if (!enter_marks()) return;
	for (; marks.head != marks.tail; marks.head++) {
		struct piece *piece = &marks.pending[marks.head % PENDING];
		if (!is_event_done(piece->end)) break;
		record_piece(piece);
		give_back_event(piece->begin);
		give_back_event(piece->end);
	}
	if (lp_now() - marks.base_ns > RELATE_NS) relate_clocks();
	leave_marks();
}
