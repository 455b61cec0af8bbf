/* gpu.c: records of what a program asks of its device's runtime; streams and events as numbers. */
#include "recorder/gpu/gpu.h"

#include <string.h>

enum {
	STREAMS = 256,
	EVENTS = 1 << 12
};

/* Launches that follow one another so closely on a stream are told as one. */
enum {
	CLOSE_NS = 20000
};

/* ---- symbols ---- */

void *lp_gpu_symbol(const char *name) {
	static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12",
	                                        "libcudart.so.11.0"};
	int code = errno;
	void *found = dlsym(RTLD_NEXT, name);
	/* loaded where the search for the next symbol does not look: by a module of Python */
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !found; i++) {
		void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		if (library) found = dlsym(library, name), dlclose(library);
	}
	dlerror();
	errno = code;
	return found;
}

/* ---- numbers ---- */

uint64_t lp_gpu_serial(void) {
	static uint64_t serial;
	return __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
}

uint32_t lp_name(uint32_t *number, uint32_t *epoch, const char *name) {
	static uint32_t names = LP_FIRST_NAME;
	if (*epoch == lp_state.epoch) return *number;
	*number = __atomic_add_fetch(&names, 1, __ATOMIC_RELAXED);
	lk_record_entry record = {.object = *number};
	lp_text(&record, LK_RECORD_NAME, name);
	*epoch = lp_state.epoch;
	return *number;
}

static lp_stream streams[STREAMS];
static uint32_t stream_count;

/* NULL is the legacy default stream, whose other name is 1. */
lp_stream *lp_gpu_stream(void *handle) {
	uint64_t key = handle ? (uint64_t)(uintptr_t)handle : 1;
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

void lp_marks_cut_all(void) {
	for (uint32_t i = 0; i < STREAMS; i++) {
		uint64_t key = __atomic_load_n(&streams[i].key, __ATOMIC_ACQUIRE);
		if (key && streams[i].open) lp_marks_cut(&streams[i], (void *)(uintptr_t)key);
	}
}

/* What last recorded an event: a cache, in which a younger event may take an older one's place. */
static struct event { uint64_t key, serial; } events[EVENTS];

static struct event *event_place(const void *event) {
	return &events[((uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

static void event_recorded(void *event, uint64_t serial) {
	struct event *e = event_place(event);
	__atomic_store_n(&e->key, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&e->serial, serial, __ATOMIC_RELEASE);
	__atomic_store_n(&e->key, (uint64_t)(uintptr_t)event, __ATOMIC_RELEASE);
}

static uint64_t recorded_by(const void *event) {
	const struct event *e = event_place(event);
	if (__atomic_load_n(&e->key, __ATOMIC_ACQUIRE) != (uint64_t)(uintptr_t)event) return 0;
	uint64_t serial = __atomic_load_n(&e->serial, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&e->key, __ATOMIC_ACQUIRE) == (uint64_t)(uintptr_t)event ? serial : 0;
}

void lp_gpu_reset(void) {
	memset(streams, 0, sizeof streams);
	memset(events, 0, sizeof events);
	stream_count = 0;
	lp_cupti_reset();
	lp_marks_reset();
}

/* ---- calls ---- */

static void before(lp_gpu_call *call) {
	switch (call->what) {
	case LK_DEVICE_KERNEL:
		if (lp_cupti_on()) call->serial = lp_gpu_serial();
		else call->serial = call->on_stream ? lp_marks_open(call->on_stream, call->stream) : 0;
		break;
	case LK_DEVICE_COPY:
	case LK_DEVICE_SET:
		call->serial = lp_gpu_serial();
		if (call->on_stream) call->begin = lp_marks_begin(call->on_stream, call->stream);
		break;
	case LK_DEVICE_RECORD:
		event_recorded(call->event, call->serial = lp_gpu_serial());
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	case LK_DEVICE_STREAM_WAITS:
		call->serial = recorded_by(call->event);
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	case LK_DEVICE_WAIT_EVENT: call->serial = recorded_by(call->event); break;
	case LK_DEVICE_WAIT_ALL: lp_marks_cut_all(); break;
	default:
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	}
}

static bool has_stream(const lp_gpu_call *call) {
	return call->what != LK_DEVICE_WAIT_EVENT && call->what != LK_DEVICE_WAIT_ALL &&
	       call->what != LK_DEVICE_OTHER;
}

void lp_gpu_begin(lp_gpu_call *call) {
	call->on = lp_enter();
	if (!call->on) return;
	int code = errno;
	call->on_stream = has_stream(call) || call->stream ? lp_gpu_stream(call->stream) : NULL;
	before(call);
	if (call->what <= LK_DEVICE_SET) lp_cupti_push(call->serial);
	errno = code;
	call->start = lp_now();
}

static bool add_to_last(const lp_gpu_call *call, uint32_t stream, uint32_t name, int64_t end) {
	lk_record_entry *last = lp_thread.last;
	if (call->what != LK_DEVICE_KERNEL || !last || last->kind != LK_RECORD_DEVICE_CALL ||
	    last->device.stream != stream || last->device.call != name ||
	    last->device.serial != call->serial || call->start - last->end_ns > CLOSE_NS)
		return false;
	last->device.count++;
	last->device.busy_ns += end - call->start;
	last->end_ns = end;
	return true;
}

static void tell(const lp_gpu_call *call, int64_t end) {
	uint32_t stream = call->on_stream ? call->on_stream->number : 0;
	lk_record_entry *kept = lp_thread.last;
	uint32_t name = lp_name(call->number, call->epoch, call->name);
	if (!lp_thread.last) lp_thread.last = kept && kept->kind == LK_RECORD_DEVICE_CALL ? kept : NULL;
	if (add_to_last(call, stream, name, end)) return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->start_ns = call->start, record->end_ns = end;
	record->bytes = (int64_t)call->bytes < 0 ? 0 : (int64_t)call->bytes;
	record->device.serial = call->serial, record->device.busy_ns = end - call->start;
	record->device.stream = stream, record->device.call = name, record->device.count = 1;
	record->device.what = call->what, record->device.direction = call->direction;
	lp_publish(record, LK_RECORD_DEVICE_CALL);
	if (call->what == LK_DEVICE_KERNEL) lp_thread.last = record;
}

static bool waits(const lp_gpu_call *call) {
	return call->what == LK_DEVICE_WAIT_STREAM || call->what == LK_DEVICE_WAIT_EVENT ||
	       call->what == LK_DEVICE_WAIT_ALL;
}

/* The runtime's calls end in an error of earlier work too; the record is kept either way. */
void lp_gpu_end(lp_gpu_call *call, int result) {
	(void)result;
	if (!call->on) return;
	int code = errno;
	int64_t end = lp_now();
	if (call->what <= LK_DEVICE_SET) lp_cupti_pop();
	if (!(__atomic_load_n(&lp_state.recorder.head->seen, __ATOMIC_RELAXED) & LK_RECORDED_DEVICE))
		__atomic_fetch_or(&lp_state.recorder.head->seen, LK_RECORDED_DEVICE, __ATOMIC_RELAXED);
	if (call->begin)
		lp_marks_end(call->on_stream, call->stream, call->begin, (lk_device_what)call->what,
		             call->serial, (int64_t)call->bytes);
	tell(call, end);
	if (waits(call)) lp_marks_harvest();
	lp_leave();
	if (waits(call)) lp_cupti_flush();
	errno = code;
}
