/* gpu_calls.c: records of a program's calls of its device's runtime. */
#include "recorder/gpu/gpu.h"

/* Launches on a stream that follow each other this closely are recorded as one. */
enum { CLOSE_NS = 20000 };

static void prepare_gpu_call(lp_gpu_call *call) {
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
		lp_gpu_note_event(call->event, call->serial = lp_gpu_serial());
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	case LK_DEVICE_STREAM_WAITS:
		call->serial = lp_gpu_event_serial(call->event);
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	case LK_DEVICE_WAIT_EVENT: call->serial = lp_gpu_event_serial(call->event); break;
	case LK_DEVICE_WAIT_ALL: lp_marks_cut_all(); break;
	default:
		if (call->on_stream) lp_marks_cut(call->on_stream, call->stream);
		break;
	}
}

static bool call_has_stream(const lp_gpu_call *call) {
	return call->what != LK_DEVICE_WAIT_EVENT && call->what != LK_DEVICE_WAIT_ALL &&
	       call->what != LK_DEVICE_OTHER;
}

void lp_gpu_begin(lp_gpu_call *call) {
	call->on = lp_enter();
	if (!call->on) return;
	int code = errno;
	call->on_stream = call_has_stream(call) || call->stream ? lp_gpu_stream(call->stream) : NULL;
	prepare_gpu_call(call);
	if (call->what <= LK_DEVICE_SET) lp_cupti_push(call->serial);
	errno = code;
	call->start = lp_now();
}

static bool merge_launch_record(const lp_gpu_call *call, uint32_t stream, uint32_t name,
                                int64_t end) {
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

static void record_gpu_call(const lp_gpu_call *call, int64_t end) {
	LP_ASSERT(lp_thread.busy && end >= call->start);
	uint32_t stream = call->on_stream ? call->on_stream->number : 0;
	lk_record_entry *kept = lp_thread.last;
	uint32_t name = lp_name(call->number, call->epoch, call->name);
	if (!lp_thread.last) lp_thread.last = kept && kept->kind == LK_RECORD_DEVICE_CALL ? kept : NULL;
	if (merge_launch_record(call, stream, name, end)) return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->start_ns = call->start;
	record->end_ns = end;
	record->bytes = (int64_t)call->bytes < 0 ? 0 : (int64_t)call->bytes;
	record->device.serial = call->serial;
	record->device.busy_ns = end - call->start;
	record->device.stream = stream;
	record->device.call = name;
	record->device.count = 1;
	record->device.what = call->what;
	record->device.direction = call->direction;
	lp_publish(record, LK_RECORD_DEVICE_CALL);
	if (call->what == LK_DEVICE_KERNEL) lp_thread.last = record;
}

static bool is_host_wait(const lp_gpu_call *call) {
	return call->what == LK_DEVICE_WAIT_STREAM || call->what == LK_DEVICE_WAIT_EVENT ||
	       call->what == LK_DEVICE_WAIT_ALL;
}

/* The runtime's calls also return errors of earlier work; the record is kept either way. */
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
	record_gpu_call(call, end);
	if (is_host_wait(call)) lp_marks_harvest();
	lp_leave();
	if (is_host_wait(call)) lp_cupti_flush();
	errno = code;
}
