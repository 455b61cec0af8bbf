/* marks.c: when work of a device was done: events of the runtime, recorded before and after it,
 * asked for later.
 *
 * A *batch* is the kernels that are put on a stream between two things that order it: a wait, an
 * event, a copy, a communication. It has one event before and one behind it, so that a loop of a
 * thousand launches costs two; gaps inside it are part of it. Events are read only when they are
 * done (cudaEventQuery), in the program's own waits; the device's clock is tied to the host's once
 * a second by an event on a stream of the probe's own.
 *
 * Between two looks at the host's clock a busy machine may let milliseconds pass. What is sure is
 * that an event was reached after it was asked for and before it was seen to be done; so each event
 * that would be outside moves the device's clock.
 *
 * One thread at a time works here; one that comes meanwhile leaves its work without times. Nothing
 * is done while the runtime has an error that the program has not asked for, nor on a stream that
 * is being captured into a graph. */
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

/* A piece of work that is on its way. */
struct piece {
	void *begin, *end; /* events */
	int64_t given_ns;  /* when the second one was asked for */
	uint64_t serial;
	int64_t bytes;
	uint32_t stream, count;
	uint8_t what;
};

static struct {
	uint32_t busy, pid;
	enum {
		UNKNOWN,
		WANTED,
		UNWANTED
	} want;
	bool ready, failed, related;
	int device;
	void *base, *other; /* events, the last one and the next */
	void *stream;       /* where they are recorded */
	int64_t base_ns;
	void *pool[EVENTS];
	uint32_t pooled, made;
	struct piece pending[PENDING];
	uint32_t head, tail;
} marks;

static struct {
	int (*create)(void **, unsigned), (*record)(void *, void *), (*query)(void *),
		(*synchronize)(void *);
	int (*elapsed)(float *, void *, void *), (*peek)(void), (*clear)(void), (*device)(int *),
		(*capturing)(void *, int *);
	int (*stream_create)(void **, unsigned);
} below;

bool lp_marks_wanted(void) {
	if (marks.want == UNKNOWN) {
		const char *said = getenv("LOCKSTEP_RECORD_CUDA");
		bool cupti =
			said && strcmp(said, "cupti") == 0; /* which takes events' place, or they its */
		marks.want =
			!said || strcmp(said, "events") == 0 || (cupti && !lp_cupti_on()) ? WANTED : UNWANTED;
	}
	return marks.want == WANTED;
}

static bool find_below(void) {
#define FIND(name, symbol) \
	((below.name = (__typeof__(below.name))(uintptr_t)lp_gpu_symbol(symbol)) != NULL)
	return FIND(create, "cudaEventCreateWithFlags") && FIND(record, "cudaEventRecord") &&
	       FIND(query, "cudaEventQuery") && FIND(synchronize, "cudaEventSynchronize") &&
	       FIND(elapsed, "cudaEventElapsedTime") && FIND(peek, "cudaPeekAtLastError") &&
	       FIND(clear, "cudaGetLastError") && FIND(device, "cudaGetDevice") &&
	       FIND(capturing, "cudaStreamIsCapturing") &&
	       FIND(stream_create, "cudaStreamCreateWithFlags");
#undef FIND
}

/* ---- clocks ---- */

static int64_t between(int64_t time, int64_t from, int64_t to) {
	return time < from ? from : time > to ? to : time;
}

static int64_t time_of(void *event) {
	float ms = 0;
	if (below.elapsed(&ms, marks.base, event) != 0) return below.clear(), -1;
	return marks.base_ns + (int64_t)((double)ms * 1e6);
}

/* The stream has no other work: the event is there as soon as it is asked for. Some tries: the
 * first one may find the device asleep. */
static bool relate(void) {
	for (int i = 0; i < RELATE_TRIES; i++) {
		void *event = marks.other;
		int64_t from = lp_now();
		if (below.record(event, marks.stream) != 0 || below.synchronize(event) != 0) return false;
		int64_t to = lp_now();
		marks.base_ns = marks.related ? between(time_of(event), from, to) : from + (to - from) / 2;
		marks.other = marks.base, marks.base = event, marks.related = true;
		if (to - from < QUICK_NS) break;
	}
	return true;
}

static bool begin_marks(void) {
	if (marks.ready || marks.failed) return marks.ready;
	marks.pid = (uint32_t)getpid();
	marks.ready = find_below() && below.peek() == 0 && below.device(&marks.device) == 0 &&
	              below.stream_create(&marks.stream, NON_BLOCKING) == 0 &&
	              below.create(&marks.base, 0) == 0 && below.create(&marks.other, 0) == 0 &&
	              relate();
	marks.failed = !marks.ready;
	if (marks.failed && below.clear && below.peek) below.clear();
	return marks.ready;
}

/* Takes the lock; false: there will be no mark. */
static bool enter(void) {
	int device;
	if (!lp_marks_wanted() || __atomic_exchange_n(&marks.busy, 1, __ATOMIC_ACQUIRE)) return false;
	if (begin_marks() && below.peek() == 0 && below.device(&device) == 0 && device == marks.device)
		return true;
	__atomic_store_n(&marks.busy, 0, __ATOMIC_RELEASE);
	return false;
}

static void leave(void) {
	__atomic_store_n(&marks.busy, 0, __ATOMIC_RELEASE);
}

/* ---- events ---- */

static void give_back(void *event) {
	if (event) marks.pool[marks.pooled++] = event; /* there are never more than were made */
}

static void *take(void) {
	void *event = NULL;
	if (marks.pooled) return marks.pool[--marks.pooled];
	if (marks.made == EVENTS || below.create(&event, 0) != 0) return NULL;
	marks.made++;
	return event;
}

static void *mark(void *stream) {
	int capturing = 1;
	void *event = below.capturing(stream, &capturing) == 0 && !capturing ? take() : NULL;
	if (!event || below.record(event, stream) == 0) return event;
	below.clear();
	give_back(event);
	return NULL;
}

/* Marks the end of a piece of work. */
static void push(struct piece p, void *stream) {
	p.given_ns = lp_now();
	p.end = mark(stream);
	if (p.begin && p.end && marks.tail - marks.head < PENDING) {
		marks.pending[marks.tail++ % PENDING] = p;
		return;
	}
	give_back(p.begin);
	give_back(p.end);
}

/* ---- work ---- */

static void cut(lp_stream *stream, void *handle) {
	if (!stream->open) return;
	stream->open = false;
	push((struct piece){.begin = stream->begin,
	                    .serial = stream->serial,
	                    .stream = stream->number,
	                    .count = stream->count,
	                    .what = LK_DEVICE_KERNEL},
	     handle);
}

uint64_t lp_marks_open(lp_stream *stream, void *handle) {
	if (!enter()) return 0;
	if (stream->open && stream->count >= LONGEST_BATCH) cut(stream, handle);
	if (!stream->open && (stream->begin = mark(handle)) != NULL)
		stream->open = true, stream->serial = lp_gpu_serial(), stream->count = 0;
	stream->count++;
	uint64_t serial = stream->open ? stream->serial : 0;
	leave();
	return serial;
}

void lp_marks_cut(lp_stream *stream, void *handle) {
	if (!stream->open || !enter()) return;
	cut(stream, handle);
	leave();
}

void *lp_marks_begin(lp_stream *stream, void *handle) {
	if (!enter()) return NULL;
	cut(stream, handle);
	void *event = mark(handle);
	leave();
	return event;
}

void lp_marks_end(lp_stream *stream, void *handle, void *begin, lk_device_what what,
                  uint64_t serial, int64_t bytes) {
	int tries = PATIENCE; /* the begin should not be lost; nobody stays here long */
	while (__atomic_exchange_n(&marks.busy, 1, __ATOMIC_ACQUIRE))
		if (tries-- == 0) return;
	push((struct piece){.begin = begin,
	                    .serial = serial,
	                    .bytes = bytes,
	                    .stream = stream->number,
	                    .count = 1,
	                    .what = (uint8_t)what},
	     handle);
	bool many =
		marks.tail - marks.head >= MANY; /* the program may not wait by calls that are seen */
	leave();
	if (many) lp_marks_harvest();
}

/* ---- records ---- */

/* Whether an event is done. That it is not is an answer, which the runtime keeps as its last error.
 */
static bool is_done(void *event) {
	int answer = below.query(event);
	if (answer != 0) below.clear();
	return answer == 0;
}

static void tell(const struct piece *piece) {
	int64_t start = time_of(piece->begin), end = time_of(piece->end), moved;
	lk_record_entry *record = start >= 0 && end >= start ? lp_next() : NULL;
	if (!record) return;
	moved = between(end, piece->given_ns, lp_now()) - end;
	marks.base_ns += moved, start += moved, end += moved;
	record->start_ns = start, record->end_ns = end;
	record->bytes = piece->bytes;
	record->device.serial = piece->serial, record->device.stream = piece->stream;
	record->device.count = piece->count, record->device.what = piece->what,
	record->device.direction = 4;
	lp_publish(record, LK_RECORD_DEVICE_WORK);
}

void lp_marks_harvest(void) {
	if (!enter()) return;
	for (; marks.head != marks.tail; marks.head++) {
		struct piece *piece = &marks.pending[marks.head % PENDING];
		if (!is_done(piece->end)) break;
		tell(piece);
		give_back(piece->begin);
		give_back(piece->end);
	}
	if (lp_now() - marks.base_ns > RELATE_NS) relate();
	leave();
}

/* A forked child cannot use its parent's device. */
void lp_marks_reset(void) {
	bool child = marks.pid && marks.pid != (uint32_t)getpid();
	memset(&marks, 0, sizeof marks);
	marks.failed = child;
}
