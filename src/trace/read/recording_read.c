/* recording_read.c: the calls of a recording as a capture; the form is described in read.h.
 *
 * The main thread's time between calls becomes a piece of "own code" on the processor: a launch of
 * a nanosecond and a call that waits for it. A blocking communication call is a launch, the
 * communication on a stream of its own, and a wait; a non-blocking one lasts from its start until
 * something waited for it, which is the latest it can have ended. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/noun.h"
#include "trace/capture/capture.h"
#include "trace/read/recorded_internal.h"

enum { SHOWN_FILES = 64, LOOKED_BACK = 4096 };

/* ---- own code ---- */

static lk_status add_own_code(lk_shower *shower, uint32_t lane, int64_t start, int64_t end) {
	uint32_t event;
	if (end - start < 3) return LK_OK;
	LK_TRY(lk_show_work(shower, lane, LK_SHOWN_OWN_CODE, shower->own_code, start, start + 1, end,
	                    &event));
	return lk_show_wait(shower, lane, LK_SHOWN_OWN_CODE, false, start + 1, end);
}

/* ---- communication ---- */

static uint32_t call_name(const lk_shower *shower, const lk_recorded_call *call) {
	const lk_recorded_name *name =
		lk_recorded_find(&shower->run->names, call->process, call->record.comm.call);
	return name ? name->name : 0;
}

/* MPI_Gatherv, MPI_Iscatterv, MPI_Scatterv_init: amounts differ between members. */
static bool is_uneven_call(lk_comm_what what, const char *name) {
	return (what == LK_WHAT_GATHER || what == LK_WHAT_SCATTER) &&
	       (strstr(name, "gatherv") || strstr(name, "Gatherv") || strstr(name, "catterv"));
}

/* Add one communication from `start` to `end`, whose call returns at `launched`. */
static lk_status recording_read_add_comm(lk_shower *shower, uint32_t lane, uint32_t stream,
                                         const lk_recorded_call *call, unsigned kind, int32_t peer,
                                         int64_t launched, int64_t end) {
	const lk_record_entry *entry = &call->record;
	uint32_t event, name = call_name(shower, call);
	if (kind == LK_OP_COUNT) {
		/* creating communicators, prefix sums: host time */
		if (entry->end_ns <= entry->start_ns) return LK_OK;
		return lk_show_event(shower, LK_EVENT_OP, lane, name, entry->start_ns, entry->end_ns, 0,
		                     &event);
	}
	if (peer < -1) return LK_OK; /* without a peer: MPI_PROC_NULL */
	LK_TRY(lk_show_work(shower, lane, stream, name, entry->start_ns, launched, end, &event));
	LK_TRY(lk_show_note(shower, event, entry, kind, peer));
	lk_last(&shower->capture->comms)->uneven =
		is_uneven_call((lk_comm_what)entry->comm.what, lk_capture_text(shower->capture, name));
	return LK_OK;
}

static lk_status add_blocking(lk_shower *shower, uint32_t lane, const lk_recorded_call *call) {
	const lk_record_entry *entry = &call->record;
	int64_t start = entry->start_ns, end = entry->end_ns > start + 2 ? entry->end_ns : start + 2;
	if (entry->comm.what == LK_WHAT_SENDRECV) {
		uint32_t send, receive;
		LK_TRY(lk_show_name(shower, "MPI_Send", &send));
		LK_TRY(lk_show_name(shower, "MPI_Recv", &receive));
		for (int i = 0; i < 2; i++) {
			uint32_t event;
			int32_t peer = i ? (int32_t)entry->comm.from : entry->comm.peer;
			if (peer < -1) continue;
			uint32_t stream = i ? LK_SHOWN_BLOCKING_TOO : LK_SHOWN_BLOCKING;
			LK_TRY(lk_show_work(shower, lane, stream, i ? receive : send, start + i, start + i + 1,
			                    end, &event));
			LK_TRY(lk_show_note(shower, event, entry, i ? LK_OP_RECV : LK_OP_SEND, peer));
		}
		return lk_show_wait(shower, lane, 0, true, start + 2, end);
	}
	unsigned kind = lk_show_kind((lk_comm_what)entry->comm.what);
	LK_TRY(recording_read_add_comm(shower, lane, LK_SHOWN_BLOCKING, call, kind, entry->comm.peer,
	                               start + 1, end));
	return kind == LK_OP_COUNT || entry->comm.peer < -1
	           ? LK_OK
	           : lk_show_wait(shower, lane, LK_SHOWN_BLOCKING, false, start + 1, end);
}

/* A free stream, else the last one. */
static uint32_t recording_read_free_stream(const lk_shower *shower, int64_t start) {
	uint32_t stream = LK_SHOWN_FLIGHTS;
	while (stream < LK_SHOWN_STREAMS - 1 && shower->busy[stream] > start) stream++;
	return stream;
}

/* Complete a receive from its status: source, tag and bytes may be known only then. */
static lk_recorded_call call_as_done(const lk_recorded_run *run, uint32_t index) {
	lk_recorded_call call = run->calls.at[index];
	if (call.done == LK_NONE || call.record.comm.what != LK_WHAT_RECV) return call;
	const lk_record_entry *done = &run->calls.at[call.done].record;
	if (run->head.version < LK_RECORDING_THREAD_USE || done->comm.from < 0) return call;
	call.record.comm.peer = done->comm.peer;
	call.record.comm.tag = done->comm.tag;
	call.record.bytes = done->comm.from;
	return call;
}

static lk_status add_begin(lk_shower *shower, uint32_t lane, uint32_t index) {
	lk_recorded_call as_done = call_as_done(shower->run, index), *call = &as_done;
	const lk_record_entry *entry = &call->record;
	int64_t launched = entry->end_ns > entry->start_ns ? entry->end_ns : entry->start_ns + 1;
	int64_t end =
		call->done != LK_NONE ? shower->run->calls.at[call->done].record.end_ns : launched;
	if (end <= launched) end = launched + 1;
	uint32_t stream = recording_read_free_stream(shower, entry->start_ns);
	LK_ASSERT(stream < LK_SHOWN_STREAMS && end > launched);
	shower->busy[stream] = end;
	shower->flight[index] = stream;
	return recording_read_add_comm(shower, lane, stream, call,
	                               lk_show_kind((lk_comm_what)entry->comm.what), entry->comm.peer,
	                               launched, end);
}

/* Show all requests that one call waited for. */
static lk_status recording_read_add_done(lk_shower *shower, uint32_t lane, uint32_t *index) {
	const lk_record_entry *first = &shower->run->calls.at[*index].record;
	uint32_t stream = 0, at = *index;
	bool several = false;
	for (; at < shower->run->calls.count; at++) {
		const lk_recorded_call *call = &shower->run->calls.at[at];
		const lk_record_entry *entry = &call->record;
		if (call->process || entry->kind != LK_RECORD_COMM || entry->comm.part != LK_PART_DONE ||
		    entry->thread != first->thread || entry->start_ns != first->start_ns ||
		    entry->end_ns != first->end_ns)
			break;
		uint32_t one = call->done != LK_NONE ? shower->flight[call->done] : 0;
		if (one && stream && one != stream) several = true;
		if (one) stream = one;
	}
	LK_ASSERT(at > *index);
	*index = at - 1;
	return stream && first->end_ns > first->start_ns
	           ? lk_show_wait(shower, lane, stream, several, first->start_ns, first->end_ns)
	           : LK_OK;
}

/* ---- files ---- */

static const char *recording_read_file_of(const lk_shower *shower, const lk_recorded_call *call) {
	const lk_recorded_name *file =
		lk_recorded_find(&shower->run->files, call->process, call->record.object);
	if (!file) return "a file";
	if (shower->run->files.count <= SHOWN_FILES)
		return lk_capture_text(shower->capture, file->shown);
	return "many files";
}

static lk_status recording_read_add_file(lk_shower *shower, uint32_t lane,
                                         const lk_recorded_call *call) {
	static const char *const words[LK_RECORD_KINDS] = {
		[LK_RECORD_OPEN] = "open", [LK_RECORD_READ] = "read", [LK_RECORD_WRITE] = "write",
		[LK_RECORD_SYNC] = "sync", [LK_RECORD_MAP] = "map",   [LK_RECORD_CLOSE] = "close"};
	const lk_record_entry *entry = &call->record;
	const char *word = entry->kind < LK_RECORD_KINDS ? words[entry->kind] : NULL;
	char text[LK_TEXT_MOST + 32];
	uint32_t name, event;
	if (!word) return LK_OK;
	snprintf(text, sizeof text, "file:%s %s", word, recording_read_file_of(shower, call));
	LK_TRY(lk_show_name(shower, text, &name));
	return lk_show_event(shower, LK_EVENT_NOTE, lane, name, entry->start_ns, entry->end_ns, 0,
	                     &event);
}

/* ---- all ---- */

static lk_status recording_read_add_call(lk_shower *shower, uint32_t lane, uint32_t *index) {
	const lk_recorded_call *call = &shower->run->calls.at[*index];
	switch (call->record.kind) {
	case LK_RECORD_COMM: break;
	case LK_RECORD_SENT:
	case LK_RECORD_RECEIVED:
	case LK_RECORD_WAIT:
		return call->process || call->record.thread != shower->run->main_thread
		           ? LK_OK
		           : lk_show_waiting(shower, lane, *index);
	case LK_RECORD_DEVICE_CALL:
		return call->process ? LK_OK : lk_show_device_call(shower, lane, call);
	default: return recording_read_add_file(shower, lane, call);
	}
	if (call->process) return LK_OK; /* a forked child has no part in its parent's communication */
	switch (call->record.comm.part) {
	case LK_PART_ENQUEUE: return lk_show_enqueued(shower, lane, call);
	case LK_PART_WHOLE: return add_blocking(shower, lane, call);
	case LK_PART_POST:
	case LK_PART_START: return add_begin(shower, lane, *index);
	case LK_PART_DONE: return recording_read_add_done(shower, lane, index);
	default: return LK_OK;
	}
}

/* Add calls of the main thread, and its own code between them, which may sleep; nested calls are
 * not reported. */
static lk_status add_calls(lk_shower *shower) {
	lk_recorded_run *run = shower->run;
	int64_t cursor = 0;
	uint32_t main = lk_capture_lane(shower->capture, false, run->head.pid, run->main_thread);
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		const lk_record_entry *entry = &call->record;
		bool own = call->process == 0 && entry->thread == run->main_thread;
		uint32_t lane =
			own ? main
				: lk_capture_lane(shower->capture, false, (int64_t)run->head.pid + call->process,
		                          entry->thread);
		if (entry->kind == LK_RECORD_PROXY && !call->process) LK_TRY(lk_show_proxy(shower, call));
		if (entry->kind == LK_RECORD_DEVICE_WORK && !call->process)
			LK_TRY(lk_show_unclaimed(shower, call));
		bool sleeps = entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_SLEEP;
		if (entry->kind == LK_RECORD_DEVICE_WORK || entry->kind == LK_RECORD_PROXY || sleeps ||
		    (own && entry->start_ns < cursor))
			continue;
		if (lane == LK_NONE) {
			run->strange++; /* of more threads than a capture has lanes */
			continue;
		}
		if (own && !shower->device) LK_TRY(add_own_code(shower, main, cursor, entry->start_ns));
		int64_t end = entry->end_ns;
		LK_TRY(recording_read_add_call(shower, lane, &i));
		if (own) cursor = end > entry->start_ns + 2 ? end : entry->start_ns + 2;
	}
	return run->head.end_ns < cursor || shower->device
	           ? LK_OK
	           : add_own_code(shower, main, cursor, run->head.end_ns);
}

static lk_status recording_read_add_steps(lk_shower *shower) {
	uint32_t main =
		lk_capture_lane(shower->capture, false, shower->run->head.pid, shower->run->main_thread);
	for (size_t i = 0; i + 1 < shower->steps.begin.count; i++) {
		char text[40];
		uint32_t name, event;
		snprintf(text, sizeof text, "ProfilerStep#%zu", i);
		LK_TRY(lk_show_name(shower, text, &name));
		LK_TRY(lk_show_event(shower, LK_EVENT_NOTE, main, name, shower->steps.begin.at[i],
		                     shower->steps.begin.at[i + 1], 0, &event));
	}
	return LK_OK;
}

/* Name groups identically on all their ranks: "world", "ranks [0, 2]", with a number if several are
 * alike. */
static lk_status name_groups(lk_shower *shower) {
	lk_recorded_names *groups = &shower->run->groups;
	for (size_t i = 0; i < groups->count; i++) {
		char text[120];
		const char *ranks = lk_capture_text(shower->capture, groups->at[i].name);
		int again = 1;
		for (size_t k = i > LOOKED_BACK ? i - LOOKED_BACK : 0; k < i; k++)
			again += groups->at[k].name == groups->at[i].name;
		if (*ranks == '#') {
			groups->at[i].shown = groups->at[i].name; /* its members are unknown */
			continue;
		}
		bool world = groups->at[i].size == shower->run->head.world && again == 1 &&
		             strncmp(ranks, "[0", 2) == 0;
		if (world) snprintf(text, sizeof text, "world");
		else if (strlen(ranks) < 60)
			snprintf(text, sizeof text, again > 1 ? "ranks %s, #%d" : "ranks %s", ranks, again);
		else
			snprintf(text, sizeof text, "%d %s from %.20s#%d", groups->at[i].size,
			         lk_noun(groups->at[i].size, "rank", "ranks"), ranks, again);
		LK_TRY(lk_show_name(shower, text, &groups->at[i].shown));
	}
	return LK_OK;
}

static void recording_read_say(const lk_shower *shower) {
	const lk_recorded_run *run = shower->run;
	if (run->dropped)
		lk_capture_damage(shower->capture, run->dropped,
		                  "calls that found no room and are missing: %llu; record with a larger "
		                  "--max-mb",
		                  (unsigned long long)run->dropped);
	if (run->strange)
		lk_capture_damage(shower->capture, run->strange,
		                  "records that are damaged, or of too many threads, left out: %llu",
		                  (unsigned long long)run->strange);
	if (run->head.mode == LK_RECORDED_NULL)
		lk_capture_warn(shower->capture, "recorded with --mode null: large collectives returned at "
		                                 "once");
	if (run->head.seen & LK_RECORDED_URING)
		lk_capture_warn(shower->capture,
		                "the program uses io_uring; what it reads that way is not seen");
	if (shower->untimed)
		lk_capture_warn(
			shower->capture,
			"of %llu %s on streams the times are not known; they are shown as calls of the host",
			(unsigned long long)shower->untimed,
			lk_noun(shower->untimed, "communication", "communications"));
	bool maps = false;
	for (size_t i = 0; i < run->calls.count && !maps; i++)
		maps = run->calls.at[i].record.kind == LK_RECORD_MAP;
	if (maps)
		lk_capture_warn(shower->capture,
		                "the program maps files; what it reads that way is not seen");
}

static lk_status recording_read_show(lk_shower *shower) {
	lk_recorded_run *run = shower->run;
	lk_capture *capture = shower->capture;
	shower->device = run->head.seen & (LK_RECORDED_DEVICE | LK_RECORDED_NCCL);
	capture->processor = !shower->device;
	capture->rank = run->head.rank >= 0 && run->head.rank < 1 << 30 ? run->head.rank : -1;
	capture->world = run->head.world > 0 && run->head.world < 1 << 30 ? run->head.world : 0;
	capture->origin_ns = run->head.realtime_ns > 0 && run->head.realtime_ns < INT64_MAX / 2
	                         ? run->head.realtime_ns
	                         : 0;
	capture->emulated = run->head.mode == LK_RECORDED_AS_RANK;
	capture->absolute = capture->origin_ns > 0;
	capture->host_ns = run->head.monotonic_ns;
	if (*run->head.host && capture->absolute && run->head.monotonic_ns > 0 &&
	    run->head.monotonic_ns < INT64_MAX / 4 &&
	    !(capture->host = lk_arena_strdup(&capture->arena, run->head.host)))
		return lk_oom(shower->err);
	capture->whole = !run->dropped;
	if (run->head.seen & LK_RECORDED_MPI) LK_TRY(lk_show_name(shower, "mpi", &capture->backend));
	if (run->head.seen & LK_RECORDED_NCCL) LK_TRY(lk_show_name(shower, "nccl", &capture->backend));
	LK_TRY(lk_show_name(shower, "own code", &shower->own_code));
	LK_TRY(lk_show_name(shower, "MPI_Wait, Synchronize", &shower->synchronize));
	LK_TRY(lk_show_name(shower, LK_SOCKETS, &shower->sockets));
	LK_TRY(lk_show_name(shower, "file:read from a pipe", &shower->from_pipe));
	for (uint32_t i = 1; i < LK_SHOWN_STREAMS; i++)
		shower->stream[i] = lk_capture_lane(capture, true, 0, i);
	LK_TRY(name_groups(shower));
	LK_TRY(lk_recorded_find_steps(run, &shower->steps, shower->err));
	LK_TRY(recording_read_add_steps(shower));
	LK_TRY(lk_show_traffic(shower));
	LK_TRY(lk_show_prepare_device(shower));
	LK_TRY(add_calls(shower));
	recording_read_say(shower);
	return LK_OK;
}

lk_status lk_recording_show(lk_recorded_run *run, lk_capture *capture, lk_error *err) {
	lk_shower s = {.run = run,
	               .capture = capture,
	               .flight = calloc(run->calls.count + 1, sizeof *s.flight),
	               .err = err};
	lk_status status = s.flight ? recording_read_show(&s) : lk_oom(err);
	free(s.flight);
	lk_vec_free(&s.traffic);
	lk_vec_free(&s.steps.begin);
	lk_show_free_device(&s);
	return status;
}

lk_status lk_recording_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                            lk_error *err) {
	lk_recorded_run run;
	LK_TRY(lk_recorded_load(path, limits, capture->names, &run, err));
	lk_status status = lk_recording_show(&run, capture, err);
	lk_recorded_free(&run);
	return status;
}
