/* nccl_calls.c: collectives and messages of NCCL, and groups of calls.
 *
 * Calls between ncclGroupStart and ncclGroupEnd reach the device together: they are one piece of
 * work per stream. */
#include "recorder/gpu/gpu.h"

#include <string.h>

/* ---- collectives and messages ---- */

static int nccl_type_bytes(int type) {
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

static int64_t nccl_call_bytes(const lp_nccl_call *call) {
	int64_t bytes,
		times = call->all && call->group && call->group->ranks > 0 ? call->group->ranks : 1;
	if (call->count > INT64_MAX ||
	    __builtin_mul_overflow((int64_t)call->count, (int64_t)call->element, &bytes) ||
	    __builtin_mul_overflow(bytes, times, &bytes))
		return 0;
	return bytes;
}

bool lp_nccl_begin(lp_nccl_call *call) {
	call->on = !lp_nccl_by_plugin() && lp_enter();
	if (!call->on) return false;
	call->element = nccl_type_bytes(call->type);
	call->group = lp_nccl_group_of(call->comm);
	call->bytes = nccl_call_bytes(call);
	call->on_stream = lp_gpu_stream(call->stream);
	if (lp_nccl_depth == 0 && call->on_stream) {
		call->serial = lp_gpu_serial();
		call->begin = lp_marks_begin(call->on_stream, call->stream);
	}
	call->start = lp_now();
	if (lp_nccl_depth == 0) lp_cupti_push(call->serial);
	bool done = lp_nccl_replaces(call);
	if (!done && lp_nccl_depth == 0) lp_nccl_hold(call->stream);
	return done;
}

static void fill_nccl_record(const lp_nccl_call *call, lk_record_entry *entry, uint32_t name,
                             int64_t end) {
	*entry = (lk_record_entry){.thread = lp_thread.place.thread,
	                           .object = call->group ? call->group->number : 0,
	                           .start_ns = call->start,
	                           .end_ns = end,
	                           .bytes = call->bytes};
	entry->comm.request = call->serial;
	entry->comm.peer = call->peer;
	entry->comm.from = -1;
	entry->comm.tag = call->on_stream ? (int32_t)call->on_stream->number : 0;
	entry->comm.part = LK_PART_ENQUEUE;
	entry->comm.what = call->what;
	entry->comm.element_bytes = (uint16_t)call->element;
	entry->comm.call = name;
}

void lp_nccl_end(lp_nccl_call *call) {
	lk_record_entry record;
	if (!call->on) return;
	int code = errno;
	uint32_t name = lp_name(call->number, call->epoch, call->name);
	fill_nccl_record(call, &record, name, lp_now());
	if (lp_nccl_depth == 0) lp_cupti_pop();
	lp_nccl_queue *queue = lp_nccl_depth ? lp_nccl_own_queue() : NULL;
	if (call->begin)
		lp_marks_end(call->on_stream, call->stream, call->begin, LK_DEVICE_COMM, call->serial,
		             call->bytes);
	if (call->result == 0 && !lp_nccl_depth) lp_nccl_publish(&record);
	else if (call->result == 0 && queue && queue->count < LP_NCCL_QUEUED) {
		queue->call[queue->count].record = record;
		queue->call[queue->count++].stream = call->stream;
	} else if (call->result == 0)
		__atomic_fetch_add(&lp_state.recorder.head->dropped, 1, __ATOMIC_RELAXED);
	lp_leave();
	errno = code;
}

/* ---- groups of calls ---- */

enum { MOST_STREAMS = 16 };

/* The streams of a group's calls: one piece of work each. */
struct together {
	int count;
	struct {
		lp_stream *stream;
		void *handle, *begin;
		uint64_t serial;
		int64_t bytes;
	} at[MOST_STREAMS];
	int64_t start;
	bool on;
};

static int find_group_stream(struct together *together, void *handle) {
	int i = 0;
	lp_stream *stream = lp_gpu_stream(handle);
	while (i < together->count && together->at[i].stream != stream) i++;
	if (!stream || i == MOST_STREAMS) return -1;
	if (i < together->count) return i;
	together->count++;
	together->at[i].stream = stream;
	together->at[i].handle = handle;
	together->at[i].serial = lp_gpu_serial();
	together->at[i].begin = lp_marks_begin(stream, handle);
	lp_nccl_hold(handle);
	return i;
}

static void begin_group_end(struct together *together) {
	*together =
		(struct together){.on = lp_nccl_depth == 1 && lp_nccl_queued &&
	                            (lp_nccl_queued->count || lp_nccl_queued->made) && lp_enter()};
	for (uint32_t i = 0; together->on && i < lp_nccl_queued->count; i++) {
		int at = find_group_stream(together, lp_nccl_queued->call[i].stream);
		if (at < 0) continue;
		lp_nccl_queued->call[i].record.comm.request = together->at[at].serial;
		together->at[at].bytes += lp_nccl_queued->call[i].record.bytes;
	}
	together->start = together->on ? lp_now() : 0;
	if (together->on) lp_cupti_push(together->count ? together->at[0].serial : 0);
}

static void finish_group_end(struct together *together, int result) {
	if (!together->on) return;
	lp_cupti_pop();
	for (int i = 0; i < together->count; i++)
		if (together->at[i].begin)
			lp_marks_end(together->at[i].stream, together->at[i].handle, together->at[i].begin,
			             LK_DEVICE_COMM, together->at[i].serial, together->at[i].bytes);
	bool good = result == 0 || result == LP_NCCL_IN_PROGRESS;
	for (uint32_t i = 0; good && i < lp_nccl_queued->count; i++)
		lp_nccl_publish(&lp_nccl_queued->call[i].record);
	for (uint32_t i = 0; good && i < lp_nccl_queued->made; i++)
		lp_nccl_keep_made(&lp_nccl_queued->making[i]);
	lp_nccl_queued->count = lp_nccl_queued->made = 0;
	lp_leave();
}

static int end_nccl_group(int (*real)(void), const char *name) {
	static uint32_t number, epoch;
	LP_TAKE(struct together, together, real ? real() : LP_NCCL_ABSENT);
	begin_group_end(together);
	int result = real ? real() : LP_NCCL_ABSENT;
	if (together->on) lp_nccl_record_management(&number, &epoch, name, NULL, together->start);
	finish_group_end(together, result);
	if (lp_nccl_depth) lp_nccl_depth--;
	return result;
}

#define STARTS(name, ...)                            \
	int name(void);                                  \
	LP_EXPORT int name(void) {                       \
		LP_NCCL_REAL(name)                           \
		int result = real ? real() : LP_NCCL_ABSENT; \
		lp_nccl_depth += result == 0;                \
		return result;                               \
	}
#define ENDS(name, ...)                              \
	int name(void);                                  \
	LP_EXPORT int name(void) {                       \
		LP_NCCL_REAL(name)                           \
		return end_nccl_group(real, "ncclGroupEnd"); \
	}
BOTH(STARTS, GroupStart, 0)
BOTH(ENDS, GroupEnd, 0)

#define SIMULATES(name, ...)                                         \
	int name(void *info);                                            \
	LP_EXPORT int name(void *info) {                                 \
		LP_NCCL_REAL(name)                                           \
		if (lp_nccl_depth && --lp_nccl_depth == 0 && lp_nccl_queued) \
			lp_nccl_queued->count = lp_nccl_queued->made = 0;        \
		return real ? real(info) : LP_NCCL_ABSENT;                   \
	}
BOTH(SIMULATES, GroupSimulateEnd, 0)
