/* lift_rank.c: one rank's program: its threads' runs in order, and the device work that they
 * launch. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "base/sort.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

/* Launches that CUDA queues, a graph counting as one; the next call waits for the oldest. Other
 * runtimes queue more: if more are outstanding in a capture, its queue has room for those. */
enum { LAUNCH_QUEUE = 1022 };

/* A kernel normally starts this long after its launch call has returned; if it starts earlier than
 * that before the return, the call did other things after the launch. Copies from pageable memory
 * return when they are finished. */
#define LAUNCH_NS 2000

/* A copy that the host waits for: its call needs this long to queue the copy (the shortest launch
 * calls of the traces seen); the rest of it is waiting. */
#define CALL_NS 4000

/* ---- streams ---- */

struct lane_use {
	uint32_t lane, events;
	bool stream;
};

static int by_use(const void *a, const void *b) {
	const struct lane_use *x = a, *y = b;
	if (x->events != y->events) return x->events > y->events ? -1 : 1;
	return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* The thread with the step's annotation, else the busiest one. */
static uint32_t main_lane(const lk_lifting *lifting, const struct lane_use *use) {
	const lk_capture *capture = lifting->capture;
	if (lifting->stretch->mark != LK_NONE) return capture->lane[lifting->stretch->mark];
	uint32_t most = LK_NONE;
	for (uint32_t i = 0; i < capture->lanes.count; i++)
		if (!use[i].stream && (most == LK_NONE || use[i].events > use[most].events)) most = i;
	return most;
}

/* Assign the graph's streams to active threads and device streams, the busiest first. The busiest
 * device stream is the compute stream; a thread without calls and operations gets none. */
static lk_status map_lanes(lk_lifting *lifting) {
	const lk_capture *capture = lifting->capture;
	size_t count = capture->lanes.count;
	struct lane_use *use = calloc(count + 1, sizeof *use);
	lifting->stream_of = malloc(count + 1);
	if (!use || !lifting->stream_of) {
		free(use);
		return lk_oom(lifting->err);
	}
	memset(lifting->stream_of, LK_STREAMS, count + 1);
	for (size_t i = 0; i < LK_STREAMS; i++) lifting->out->lanes[i] = LK_NONE;
	for (size_t i = 0; i < count; i++)
		use[i] = (struct lane_use){(uint32_t)i, 0, capture->lanes.at[i].stream};
	for (uint32_t e = 0; e < capture->count; e++)
		use[capture->lane[e]].events +=
			use[capture->lane[e]].stream
				? lk_event_on_device(capture->kind[e])
				: capture->kind[e] != LK_EVENT_RUNTIME || lk_host_call(capture, e);
	lifting->main_lane = main_lane(lifting, use);
	lk_sort(use, count, sizeof *use, by_use);
	unsigned next = LK_STREAM_COMPUTE + 1;
	for (size_t i = 0; i < count && use[i].events; i++) {
		bool compute = use[i].stream && !(lifting->out->streams & LK_JOIN(LK_STREAM_COMPUTE));
		/* the last ones are reserved for device work without a launch and for peers */
		if (!compute && next == LK_STREAM_PEERS) {
			lifting->out->dropped_lanes++;
			continue;
		}
		unsigned stream = compute ? LK_STREAM_COMPUTE : next++;
		lifting->stream_of[use[i].lane] = (uint8_t)stream;
		lifting->out->lanes[stream] = use[i].lane;
		lifting->out->streams |= LK_JOIN(stream);
		if (!use[i].stream) lifting->out->threads |= LK_JOIN(stream);
	}
	free(use);
	for (unsigned s = 0; s < LK_STREAMS; s++) lifting->stream[s].last = LK_NONE;
	return LK_OK;
}

static int by_launch(const void *a, const void *b, void *context) {
	const lk_capture *capture = context;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (capture->launch[i] != capture->launch[j])
		return capture->launch[i] < capture->launch[j] ? -1 : 1;
	return lk_by_i64(&capture->start_ns[i], &capture->start_ns[j]);
}

/* A call may launch many works: a CUDA graph. */
static lk_status index_launches(lk_lifting *lifting) {
	const lk_capture *capture = lifting->capture;
	lifting->by_launch = malloc((capture->count + 1) * sizeof *lifting->by_launch);
	if (!lifting->by_launch) return lk_oom(lifting->err);
	for (uint32_t i = 0; i < capture->count; i++)
		if (lk_event_on_device(capture->kind[i]) && capture->launch[i] != LK_NONE)
			lifting->by_launch[lifting->by_launch_count++] = i;
	lk_sort_by(lifting->by_launch, lifting->by_launch_count, sizeof *lifting->by_launch, by_launch,
	           (void *)capture);
	return LK_OK;
}

/* The most launches outstanding when a call returns, from `count` end times of calls and of the
 * work that they launched. */
static size_t most_outstanding(int64_t *called, int64_t *over, size_t count) {
	size_t most = 0, done = 0;
	lk_sort(called, count, sizeof *called, lk_by_i64);
	lk_sort(over, count, sizeof *over, lk_by_i64);
	for (size_t i = 0; i < count; i++) {
		while (done < count && over[done] <= called[i]) done++;
		if (i + 1 > done && i + 1 - done > most) most = i + 1 - done;
	}
	return most;
}

static lk_status find_room(lk_lifting *lifting) {
	const lk_capture *capture = lifting->capture;
	size_t most = lifting->by_launch_count + 1, count = 0;
	int64_t *called = malloc(most * sizeof *called), *over = malloc(most * sizeof *over);
	lk_status status = called && over ? LK_OK : lk_oom(lifting->err);
	for (uint32_t i = 0; status == LK_OK && i < lifting->by_launch_count; i++) {
		uint32_t event = lifting->by_launch[i], call = capture->launch[event];
		int64_t end = lk_event_end(capture, event);
		if (!i || capture->launch[lifting->by_launch[i - 1]] != call) {
			called[count] = lk_event_end(capture, call);
			over[count++] = end;
		} else if (end > over[count - 1]) over[count - 1] = end;
	}
	lifting->room = LAUNCH_QUEUE;
	if (status == LK_OK) {
		size_t seen = most_outstanding(called, over, count);
		if (seen > lifting->room) lifting->room = seen;
	}
	free(called);
	free(over);
	return status;
}

/* Index in by_launch of a call's first work. */
static uint32_t rank_first_of(const lk_lifting *lifting, uint32_t call) {
	uint32_t low = 0, high = lifting->by_launch_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (lifting->capture->launch[lifting->by_launch[middle]] < call) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* ---- device work ---- */

/* Hash the operations around a launch, without annotations, because they number the steps. */
static uint32_t rank_path_of(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	uint64_t path = 0;
	uint32_t at =
		capture->launch[event] == LK_NONE ? LK_NONE : capture->parent[capture->launch[event]];
	for (; at != LK_NONE; at = capture->parent[at])
		if (capture->kind[at] == LK_EVENT_OP) path = lk_hash64(path ^ capture->name[at]);
	return (uint32_t)path;
}

static lk_status launched_on(lk_lifting *lifting, uint8_t stream, uint32_t op, int64_t end) {
	lk_lift_stream *lift_stream = &lifting->stream[stream];
	lift_stream->last = op;
	lift_stream->end_ns = end;
	if (!lk_push(&lift_stream->ops)) return lk_oom(lifting->err);
	*lk_last(&lift_stream->ops) = op;
	return LK_OK;
}

/* A launch occupies the queue until its last work ends. */
static lk_status launched_by_call(lk_lifting *lifting, uint32_t last) {
	if (!lk_push(&lifting->launched)) return lk_oom(lifting->err);
	*lk_last(&lifting->launched) = last;
	return LK_OK;
}

/* Add what the peers do between two arrivals at collectives. They are a thread of their own:
 * whether their host waits for a collective is unknown, and if it does, they and this rank continue
 * together. If this rank came last, they are assumed to have arrived with it. Peers that follow do
 * what this rank does, and arrive after the end of this rank's `lag` by the measured delay. */
static lk_status add_peers(lk_lifting *lifting, const lk_lifted_op *comm, uint32_t lag,
                           uint32_t *place) {
	lk_lifted_op peers = {.what = LK_LIFTED_PEERS,
	                      .stream = LK_STREAM_PEERS,
	                      .event = comm->event,
	                      .path = comm->path,
	                      .start_ns = lifting->met_ns,
	                      .end_ns = comm->end_ns - lk_lift_transfer(lifting, comm->event)};
	if (peers.end_ns < peers.start_ns) peers.end_ns = peers.start_ns;
	lifting->met_ns = peers.end_ns;
	lifting->out->streams |= LK_JOIN(LK_STREAM_PEERS);
	lifting->out->threads |= LK_JOIN(LK_STREAM_PEERS);
	LK_TRY(lk_lift_add(lifting, &peers, place));
	return lifting->stretch->follow ? lk_lift_depend(lifting, *place, lag) : LK_OK;
}

/* Add the lag before device work: it ends when the work starts. */
static lk_status add_lag(lk_lifting *lifting, const lk_lifted_op *work, uint32_t *place) {
	lk_lifted_op lag = *work;
	lag.what = LK_LIFTED_LAG;
	lag.carried = work->what == LK_LIFTED_CARRIED;
	lag.end_ns = work->start_ns;
	return lk_lift_add(lifting, &lag, place);
}

/* Add a communication operation, after its lag. */
static lk_status rank_add_comm(lk_lifting *lifting, lk_lifted_op *op, uint32_t lag) {
	uint32_t place, peers = LK_NONE;
	bool matched = lifting->stretch->matched &&
	               lifting->stretch->matched(lifting->stretch->context, op->event);
	if (!matched) LK_TRY(add_peers(lifting, op, lag, &peers));
	op->what = LK_LIFTED_COMM;
	op->peers = !matched;
	op->met_ns = matched ? op->start_ns : op->end_ns - lk_lift_transfer(lifting, op->event);
	LK_TRY(lk_lift_add(lifting, op, &place));
	if (matched) return launched_on(lifting, op->stream, place, op->end_ns);
	LK_TRY(lk_lift_depend(lifting, place, peers));
	return launched_on(lifting, op->stream, place, op->end_ns);
}

/* Append the lag of device work, which waits for its launch or release and perhaps for other work,
 * and the work itself. */
static lk_status rank_add_device(lk_lifting *lifting, uint32_t event, uint8_t stream,
                                 uint32_t launch, uint32_t other) {
	LK_ASSERT(event < lifting->capture->count);
	const lk_capture *capture = lifting->capture;
	lk_lifted_op op = {.what = LK_LIFTED_DEVICE,
	                   .stream = stream,
	                   .event = event,
	                   .path = rank_path_of(capture, event),
	                   .start_ns = capture->start_ns[event],
	                   .end_ns = lk_event_end(capture, event)};
	uint32_t place;
	LK_TRY(add_lag(lifting, &op, &place));
	LK_TRY(lk_lift_depend(lifting, place, launch));
	if (other != LK_NONE) LK_TRY(lk_lift_depend(lifting, place, other));
	if (lk_lift_communicates(capture, event)) return rank_add_comm(lifting, &op, place);
	LK_TRY(lk_lift_add(lifting, &op, &place));
	return launched_on(lifting, stream, place, op.end_ns);
}

/* Add the rest of work that was launched before the stretch and was still running when it began. */
static lk_status rank_add_carried(lk_lifting *lifting, const lk_run *run) {
	const lk_capture *capture = lifting->capture;
	int64_t start = capture->start_ns[run->event], from = lifting->out->from_ns;
	uint32_t place, call = capture->launch[run->event];
	lk_lifted_op op = {.what = LK_LIFTED_CARRIED,
	                   .stream = lifting->stream_of[capture->lane[run->event]],
	                   .event = run->event,
	                   .path = rank_path_of(capture, run->event),
	                   .start_ns = start > from ? start : from,
	                   .end_ns = lk_event_end(capture, run->event)};
	LK_ASSERT(op.stream < LK_STREAMS); /* lift_outside.c makes no other runs */
	LK_TRY(add_lag(lifting, &op, &place));
	LK_TRY(lk_lift_add(lifting, &op, &place));
	LK_TRY(launched_on(lifting, op.stream, place, op.end_ns));
	bool more = run < lk_last(&lifting->runs) && run[1].kind == LK_RUN_CARRIED &&
	            capture->launch[run[1].event] == call;
	return call == LK_NONE || more ? LK_OK : launched_by_call(lifting, place);
}

/* ---- the host ---- */

static lk_status rank_add_host(lk_lifting *lifting, const lk_run *run, uint32_t begin, uint32_t end,
                               int64_t start, int64_t stop, uint32_t *place) {
	lk_lifted_op op = {.what = LK_LIFTED_HOST,
	                   .stream = lifting->threads.at[run->thread].stream,
	                   .event = lifting->out->pieces.at[begin].event,
	                   .piece_begin = begin,
	                   .piece_end = end,
	                   .start_ns = start,
	                   .end_ns = stop};
	return lk_lift_add(lifting, &op, place);
}

/* Add a second piece after those of all runs: the part of a call after its launch. */
static lk_status split_piece(lk_lifting *lifting, uint32_t piece, int64_t at, uint32_t *rest) {
	if (!lk_push(&lifting->out->pieces)) return lk_oom(lifting->err);
	LK_ASSERT(piece + 1 < lifting->out->pieces.count);
	lk_host_piece *first = &lifting->out->pieces.at[piece],
				  *second = lk_last(&lifting->out->pieces);
	*second = *first;
	second->start_ns = at;
	second->dur_ns = first->start_ns + first->dur_ns - at;
	second->path = first->path + 1;
	second->second = true;
	first->dur_ns = at - first->start_ns;
	first->half = *rest = (uint32_t)lifting->out->pieces.count - 1;
	return LK_OK;
}

/* Let a launch wait until there is room in the queue: that is not its own time. */
static lk_status wait_for_room(lk_lifting *lifting, uint32_t op, uint32_t piece) {
	if (lifting->launched.count < lifting->room) return LK_OK;
	LK_ASSERT(piece < lifting->out->pieces.count);
	uint32_t oldest = lifting->launched.at[lifting->launched.count - lifting->room];
	lk_host_piece *host_piece = &lifting->out->pieces.at[piece];
	host_piece->blocked = lifting->out->ops.at[oldest].end_ns > host_piece->start_ns;
	return lk_lift_depend(lifting, op, oldest);
}

/* The work that a graph node waits for inside its graph: the last work of another branch to end
 * before it began. LK_NONE if its own stream ended later. */
static uint32_t graph_before(const lk_lifting *lifting, uint32_t launch, uint8_t stream,
                             int64_t start) {
	uint32_t best = LK_NONE;
	const lk_lift_stream *own = &lifting->stream[stream];
	int64_t latest = own->last == LK_NONE ? INT64_MIN : own->end_ns;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (s == stream || lifting->stream[s].last == LK_NONE || lifting->stream[s].last < launch)
			continue;
		uint32_t op = lk_lift_over_by(lifting, (uint8_t)s, start);
		if (op == LK_NONE || op < launch || lifting->out->ops.at[op].end_ns <= latest) continue;
		latest = lifting->out->ops.at[op].end_ns;
		best = op;
	}
	return best;
}

/* Add the device work of a call whose launch is operation `op`, after what its streams wait for. */
static lk_status add_launched(lk_lifting *lifting, lk_lift_thread *thread, uint32_t first,
                              uint32_t op) {
	const lk_capture *capture = lifting->capture;
	LK_ASSERT(first < lifting->by_launch_count && op < lifting->out->ops.count);
	uint32_t call = capture->launch[lifting->by_launch[first]], latest = LK_NONE;
	for (uint32_t i = first;
	     i < lifting->by_launch_count && capture->launch[lifting->by_launch[i]] == call; i++) {
		uint32_t event = lifting->by_launch[i];
		unsigned stream = lifting->stream_of[capture->lane[event]];
		if (stream >= LK_STREAMS) continue;
		if (thread->wait_calls)
			LK_TRY(lk_lift_stream_waits(lifting, thread, event, (uint8_t)stream));
		uint32_t other = i > first
		                     ? graph_before(lifting, op, (uint8_t)stream, capture->start_ns[event])
		                     : LK_NONE;
		LK_TRY(rank_add_device(lifting, event, (uint8_t)stream, op, other));
		thread->last_launch = (uint32_t)lifting->out->ops.count - 1;
		if (latest == LK_NONE ||
		    lifting->out->ops.at[thread->last_launch].end_ns > lifting->out->ops.at[latest].end_ns)
			latest = thread->last_launch;
	}
	return latest == LK_NONE ? LK_OK : launched_by_call(lifting, latest);
}

/* Where a launch call is cut: just before its work starts, if the call continues long after that;
 * for a synchronous copy, as soon as it is queued. The call's end means no cut. */
static int64_t cut_of(const lk_lifting *lifting, const lk_run *run, uint32_t work,
                      bool synchronous) {
	int64_t start = lifting->capture->start_ns[work], cut = start - LAUNCH_NS;
	if (synchronous && cut > run->start_ns + CALL_NS) cut = run->start_ns + CALL_NS;
	if (cut < run->start_ns) cut = run->start_ns;
	bool cuts = cut + LAUNCH_NS < run->end_ns;
	return cuts ? cut : run->end_ns;
}

/* Add a launching call: the call up to the launch, the device work, and the rest of the call, which
 * may wait for the work. */
static lk_status rank_launch(lk_lifting *lifting, lk_run *run) {
	uint32_t piece = run->begin,
			 first = rank_first_of(lifting, lifting->out->pieces.at[piece].event),
			 work = lifting->by_launch[first], rest = LK_NONE;
	bool synchronous = lifting->capture->kind[work] == LK_EVENT_MEMCPY &&
	                   lk_event_end(lifting->capture, work) <= run->end_ns;
	int64_t cut = cut_of(lifting, run, work, synchronous);
	lk_lift_thread *thread = &lifting->threads.at[run->thread];
	if (cut < run->end_ns) LK_TRY(split_piece(lifting, piece, cut, &rest));
	LK_TRY(rank_add_host(lifting, run, piece, piece + 1, run->start_ns, cut, &run->op));
	LK_TRY(wait_for_room(lifting, run->op, piece));
	LK_TRY(add_launched(lifting, thread, first, run->op));
	if (rest == LK_NONE) return LK_OK;
	LK_TRY(rank_add_host(lifting, run, rest, rest + 1, cut, run->end_ns, &run->op));
	if (!synchronous || thread->last_launch == LK_NONE) return LK_OK;
	return lk_lift_depend(lifting, run->op, thread->last_launch);
}

static lk_status synchronise(lk_lifting *lifting, lk_run *run) {
	LK_TRY(rank_add_host(lifting, run, run->begin, run->end, run->start_ns, run->end_ns, &run->op));
	return lk_lift_sync(lifting, lifting->out->pieces.at[run->begin].event,
	                    &lifting->threads.at[run->thread], run->op);
}

static lk_status release(lk_lifting *lifting, lk_run *run) {
	const lk_capture *capture = lifting->capture;
	uint8_t stream = lifting->stream_of[capture->lane[run->event]];
	LK_ASSERT(stream < LK_STREAMS);
	lk_lifted_op op = {.what = LK_LIFTED_RELEASE,
	                   .stream = LK_STREAM_OUTSIDE,
	                   .event = LK_NONE,
	                   .start_ns = lifting->outside_ns,
	                   .end_ns = run->start_ns};
	LK_TRY(lk_lift_add(lifting, &op, &lifting->outside));
	lifting->outside_ns = run->start_ns;
	lifting->out->streams |= LK_JOIN(LK_STREAM_OUTSIDE);
	lifting->out->threads |= LK_JOIN(LK_STREAM_OUTSIDE);
	return rank_add_device(lifting, run->event, stream, lifting->outside, LK_NONE);
}

static lk_status rank_add_run(lk_lifting *lifting, lk_run *run) {
	if (run->kind == LK_RUN_CARRIED) return rank_add_carried(lifting, run);
	if (run->kind == LK_RUN_RELEASE) return release(lifting, run);
	const lk_host_piece *piece = &lifting->out->pieces.at[run->begin];
	lk_lift_thread *thread = &lifting->threads.at[run->thread];
	if (run->kind == LK_RUN_CALL && piece->call == LK_CALL_LAUNCH) return rank_launch(lifting, run);
	if (run->kind == LK_RUN_CALL && piece->call == LK_CALL_SYNC) return synchronise(lifting, run);
	if (run->kind == LK_RUN_CALL) {
		thread->wait_calls++;
		thread->wait_event = piece->event;
	}
	LK_TRY(rank_add_host(lifting, run, run->begin, run->end, run->order_ns, run->end_ns, &run->op));
	if (run->after != LK_NONE)
		return lk_lift_depend(lifting, run->op, lifting->runs.at[run->after].op);
	return run->kind == LK_RUN_GAP ? lk_lift_unsaid_sync(lifting, run, run->op) : LK_OK;
}

/* ---- the whole rank ---- */

static lk_status rank_add_end(lk_lifting *lifting) {
	unsigned stream =
		lifting->main_lane == LK_NONE ? LK_STREAMS : lifting->stream_of[lifting->main_lane];
	lk_lifted_op op = {.what = LK_LIFTED_END,
	                   .stream = (uint8_t)(stream < LK_STREAMS ? stream : LK_STREAM_COMPUTE),
	                   .event = LK_NONE,
	                   .start_ns = lifting->out->to_ns,
	                   .end_ns = lifting->out->to_ns};
	LK_TRY(lk_lift_add(lifting, &op, &lifting->out->end));
	uint32_t last[LK_STREAMS];
	for (unsigned s = 0; s < LK_STREAMS; s++) last[s] = LK_NONE;
	for (uint32_t i = 0; i < lifting->out->end; i++) last[lifting->out->ops.at[i].stream] = i;
	for (unsigned s = 0; lifting->stretch->all && s < LK_STREAM_PEERS; s++)
		if (last[s] != LK_NONE && s != op.stream)
			LK_TRY(lk_lift_depend(lifting, lifting->out->end, last[s]));
	return LK_OK;
}

/* Postcondition of lifting: operations depend on earlier ones, and the lists of dependencies are
 * contiguous; a stream waits for something, and not for itself; the end is the last operation. */
static void assert_lifted(const lk_lifted_rank *rank) {
	for (size_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		LK_ASSERT(op->stream < LK_STREAMS);
		LK_ASSERT(op->dep_begin == (i ? op[-1].dep_end : 0) && op->dep_begin <= op->dep_end);
		LK_ASSERT(op->event == LK_NONE || op->event < rank->capture->count);
		LK_ASSERT((op->what == LK_LIFTED_HOST) == (op->piece_begin < op->piece_end));
		LK_ASSERT(op->what != LK_LIFTED_WAIT || op->dep_begin < op->dep_end);
		for (uint32_t d = op->dep_begin; d < op->dep_end; d++) {
			LK_ASSERT(rank->deps.at[d] < i);
			LK_ASSERT(op->what != LK_LIFTED_WAIT ||
			          rank->ops.at[rank->deps.at[d]].stream != op->stream);
		}
	}
	LK_ASSERT(rank->end + 1 == rank->ops.count && rank->ops.at[rank->end].what == LK_LIFTED_END);
	LK_ASSERT(!rank->ops.count || lk_last(&rank->ops)->dep_end == rank->deps.count);
	LK_ASSERT((rank->threads & ~rank->streams) == 0);
}

static lk_status rank_lift(lk_lifting *lifting) {
	LK_TRY(map_lanes(lifting));
	LK_TRY(index_launches(lifting));
	LK_TRY(find_room(lifting));
	LK_TRY(lk_lift_transfers(lifting));
	LK_TRY(lk_lift_runs(lifting));
	for (size_t i = 0; i < lifting->runs.count; i++)
		LK_TRY(rank_add_run(lifting, &lifting->runs.at[i]));
	LK_TRY(rank_add_end(lifting));
	assert_lifted(lifting->out);
	return LK_OK;
}

lk_status lk_lift_rank(const lk_capture *capture, const lk_lift_stretch *stretch,
                       lk_lifted_rank *out, lk_error *err) {
	int64_t from = stretch->from_ns;
	*out = (lk_lifted_rank){.capture = capture, .from_ns = from, .to_ns = stretch->to_ns};
	lk_lifting l = {.capture = capture,
	                .out = out,
	                .stretch = stretch,
	                .outside = LK_NONE,
	                .outside_ns = from,
	                .met_ns = from,
	                .err = err};
	lk_status status = rank_lift(&l);
	lk_vec_free(&l.runs);
	lk_vec_free(&l.threads);
	lk_vec_free(&l.launched);
	for (unsigned s = 0; s < LK_STREAMS; s++) lk_vec_free(&l.stream[s].ops);
	lk_lift_transfers_free(&l);
	free(l.stream_of);
	free(l.by_launch);
	if (status != LK_OK) lk_lifted_rank_free(out);
	return status;
}

void lk_lifted_rank_free(lk_lifted_rank *rank) {
	lk_vec_free(&rank->ops);
	lk_vec_free(&rank->deps);
	lk_vec_free(&rank->pieces);
}
