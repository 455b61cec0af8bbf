/* lift_rank.c: one rank's program: its threads' runs in order, and the device work that they launch. */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

/* CUDA queues so many launches; the next call waits for the oldest. Seen in traces: the number outstanding never exceeds it. */
enum { LAUNCH_QUEUE = 1022 };

/* A kernel starts about so long after its launch call has returned; if it starts earlier than that before the return, the call
 * did other things after the launch. Copies from pageable memory return when they are over. */
#define LAUNCH_NS 2000

/* A copy that the host waits for: its call takes so long until the copy is queued (the shortest launch calls of the traces seen),
 * the rest of it is waiting. */
#define CALL_NS 4000

lk_status lk_lift_add(lk_lifting *l, const lk_lifted_op *op, uint32_t *place) {
	if (!lk_push(&l->out->ops)) return lk_oom(l->err);
	*place = (uint32_t)l->out->ops.count - 1;
	lk_lifted_op *added = lk_last(&l->out->ops);
	*added = *op;
	added->dep_begin = added->dep_end = (uint32_t)l->out->deps.count;
	return LK_OK;
}

lk_status lk_lift_depend(lk_lifting *l, uint32_t op, uint32_t on) {
	lk_lifted_op *of = &l->out->ops.at[op];
	for (uint32_t d = of->dep_begin; d < of->dep_end; d++)
		if (l->out->deps.at[d] == on) return LK_OK;
	if (!lk_push(&l->out->deps)) return lk_oom(l->err);
	*lk_last(&l->out->deps) = on;
	of->dep_end = (uint32_t)l->out->deps.count;
	return LK_OK;
}

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

/* The thread of the ProfilerStep annotations, else the busiest one. */
static uint32_t main_lane(const lk_capture *c, const struct lane_use *use) {
	for (uint32_t i = 0; i < c->count; i++)
		if (c->kind[i] == LK_EVENT_NOTE && strncmp(lk_capture_text(c, c->name[i]), "ProfilerStep#", 13) == 0) return c->lane[i];
	uint32_t most = LK_NONE;
	for (uint32_t i = 0; i < c->lanes.count; i++)
		if (!use[i].stream && (most == LK_NONE || use[i].events > use[most].events)) most = i;
	return most;
}

/* Threads and streams that did something, by how much, get the streams of the graph. The busiest device stream is the compute
 * stream; a thread without calls and operations gets none. */
static lk_status map_lanes(lk_lifting *l) {
	const lk_capture *c = l->c;
	size_t count = c->lanes.count;
	struct lane_use *use = calloc(count + 1, sizeof *use);
	l->stream_of = malloc(count + 1);
	if (!use || !l->stream_of) return free(use), lk_oom(l->err);
	memset(l->stream_of, LK_STREAMS, count + 1);
	for (size_t i = 0; i < LK_STREAMS; i++) l->out->lanes[i] = LK_NONE;
	for (size_t i = 0; i < count; i++) use[i] = (struct lane_use){(uint32_t)i, 0, c->lanes.at[i].stream};
	for (uint32_t e = 0; e < c->count; e++)
		use[c->lane[e]].events += use[c->lane[e]].stream ? lk_event_on_device(c->kind[e]) : c->kind[e] != LK_EVENT_RUNTIME || lk_host_call(c, e);
	l->main_lane = main_lane(c, use);
	qsort(use, count, sizeof *use, by_use);
	unsigned next = LK_STREAM_COMPUTE + 1;
	for (size_t i = 0; i < count && use[i].events; i++) {
		bool compute = use[i].stream && !(l->out->streams & LK_JOIN(LK_STREAM_COMPUTE));
		/* the last ones are kept for device work without a launch and for peers */
		if (!compute && next == LK_STREAM_PEERS) {
			l->out->dropped_lanes++;
			continue;
		}
		unsigned stream = compute ? LK_STREAM_COMPUTE : next++;
		l->stream_of[use[i].lane] = (uint8_t)stream;
		l->out->lanes[stream] = use[i].lane;
		l->out->streams |= LK_JOIN(stream);
		if (!use[i].stream) l->out->threads |= LK_JOIN(stream);
	}
	free(use);
	for (unsigned s = 0; s < LK_STREAMS; s++) l->stream[s].last = LK_NONE;
	return LK_OK;
}

static int by_launch(const void *a, const void *b, void *context) {
	const lk_capture *c = context;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (c->launch[i] != c->launch[j]) return c->launch[i] < c->launch[j] ? -1 : 1;
	if (c->start_ns[i] != c->start_ns[j]) return c->start_ns[i] < c->start_ns[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* A call may launch much: a CUDA graph. */
static lk_status index_launches(lk_lifting *l) {
	const lk_capture *c = l->c;
	l->by_launch = malloc((c->count + 1) * sizeof *l->by_launch);
	if (!l->by_launch) return lk_oom(l->err);
	for (uint32_t i = 0; i < c->count; i++)
		if (lk_event_on_device(c->kind[i]) && c->launch[i] != LK_NONE) l->by_launch[l->by_launch_count++] = i;
	qsort_r(l->by_launch, l->by_launch_count, sizeof *l->by_launch, by_launch, (void *)c);
	return LK_OK;
}

/* First place in by_launch of a call's work. */
static uint32_t first_of(const lk_lifting *l, uint32_t call) {
	uint32_t low = 0, high = l->by_launch_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (l->c->launch[l->by_launch[middle]] < call) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* ---- device work ---- */

/* Operations that enclose the launch; annotations number steps, so they stay out. */
static uint32_t path_of(const lk_capture *c, uint32_t event) {
	uint64_t path = 0;
	uint32_t at = c->launch[event] == LK_NONE ? LK_NONE : c->parent[c->launch[event]];
	for (; at != LK_NONE; at = c->parent[at])
		if (c->kind[at] == LK_EVENT_OP) path = lk_hash64(path ^ c->name[at]);
	return (uint32_t)path;
}

static lk_status launched_on(lk_lifting *l, uint8_t stream, uint32_t op, int64_t end) {
	lk_lift_stream *s = &l->stream[stream];
	s->last = op;
	s->end_ns = end;
	if (!lk_push(&s->ops) || !lk_push(&l->launched)) return lk_oom(l->err);
	*lk_last(&s->ops) = *lk_last(&l->launched) = op;
	return LK_OK;
}

/* What the peers do between two arrivals at collectives. They are a thread of their own: whether their host waits for a collective
 * is not known, and where it does, they and this rank go on together. Where this rank came last, they came no later. */
static lk_status add_peers(lk_lifting *l, const lk_lifted_op *comm, uint32_t *place) {
	lk_lifted_op peers = {.what = LK_LIFTED_PEERS, .stream = LK_STREAM_PEERS, .event = comm->event, .path = comm->path,
	                      .start_ns = l->met_ns, .end_ns = comm->end_ns - lk_lift_transfer(l, comm->event)};
	if (peers.end_ns < peers.start_ns) peers.end_ns = peers.start_ns;
	l->met_ns = peers.end_ns;
	l->out->streams |= LK_JOIN(LK_STREAM_PEERS);
	l->out->threads |= LK_JOIN(LK_STREAM_PEERS);
	return lk_lift_add(l, &peers, place);
}

/* A communication operation: its lag, for a rank arrives when its kernel starts; then the kernel. */
static lk_status add_comm(lk_lifting *l, lk_lifted_op *op, uint32_t on) {
	lk_lifted_op lag = *op;
	uint32_t place, peers = LK_NONE;
	bool matched = l->stretch->matched && l->stretch->matched(l->stretch->context, op->event);
	lag.what = LK_LIFTED_LAG, lag.end_ns = op->start_ns;
	LK_TRY(lk_lift_add(l, &lag, &place));
	if (on != LK_NONE) LK_TRY(lk_lift_depend(l, place, on));
	if (!matched) LK_TRY(add_peers(l, op, &peers));
	op->what = LK_LIFTED_COMM, op->lag_ns = 0, op->peers = !matched;
	op->met_ns = matched ? op->start_ns : op->end_ns - lk_lift_transfer(l, op->event);
	LK_TRY(lk_lift_add(l, op, &place));
	if (matched) return launched_on(l, op->stream, place, op->end_ns);
	LK_TRY(lk_lift_depend(l, place, peers));
	return launched_on(l, op->stream, place, op->end_ns);
}

bool lk_lift_communicates(const lk_capture *c, uint32_t event) {
	unsigned kind;
	if (c->kind[event] != LK_EVENT_KERNEL) return false;
	return lk_capture_comm(c, event) || lk_comm_kernel(lk_capture_text(c, c->name[event]), &kind);
}

/* Appends device work that may start from `ready` on; its lag is what lies between. */
static lk_status add_device(lk_lifting *l, uint32_t event, uint8_t stream, uint32_t on, int64_t ready) {
	const lk_capture *c = l->c;
	const lk_lift_stream *s = &l->stream[stream];
	if (s->last != LK_NONE && s->end_ns > ready) ready = s->end_ns;
	lk_lifted_op op = {.what = LK_LIFTED_DEVICE, .stream = stream, .event = event, .path = path_of(c, event),
	                   .start_ns = c->start_ns[event], .end_ns = lk_event_end(c, event),
	                   .lag_ns = c->start_ns[event] > ready ? c->start_ns[event] - ready : 0};
	uint32_t place;
	if (lk_lift_communicates(c, event)) return add_comm(l, &op, on);
	LK_TRY(lk_lift_add(l, &op, &place));
	if (on != LK_NONE) LK_TRY(lk_lift_depend(l, place, on));
	return launched_on(l, stream, place, op.end_ns);
}

/* What was launched before the stretch and was not over when it began: what is left of the first one, then the others. */
static lk_status add_carried(lk_lifting *l) {
	const lk_capture *c = l->c;
	int64_t from = l->out->from_ns;
	for (uint32_t i = 0; i < l->by_launch_count; i++) {
		uint32_t event = l->by_launch[i], call = c->launch[event];
		unsigned stream = l->stream_of[c->lane[event]];
		if (stream >= LK_STREAMS || c->start_ns[call] >= from || lk_event_end(c, event) <= from) continue;
		int64_t start = c->start_ns[event] > from ? c->start_ns[event] : from;
		int64_t ready = l->stream[stream].last == LK_NONE ? from : l->stream[stream].end_ns;
		uint32_t place;
		lk_lifted_op op = {.what = LK_LIFTED_CARRIED, .stream = (uint8_t)stream, .event = event, .path = path_of(c, event),
		                   .start_ns = start, .end_ns = lk_event_end(c, event), .lag_ns = start > ready ? start - ready : 0};
		LK_TRY(lk_lift_add(l, &op, &place));
		LK_TRY(launched_on(l, (uint8_t)stream, place, op.end_ns));
	}
	return LK_OK;
}

/* ---- the host ---- */

static lk_status add_host(lk_lifting *l, const lk_run *run, uint32_t begin, uint32_t end, int64_t start, int64_t stop, uint32_t *place) {
	lk_lifted_op op = {.what = LK_LIFTED_HOST, .stream = l->threads.at[run->thread].stream, .event = l->out->pieces.at[begin].event,
	                   .piece_begin = begin, .piece_end = end, .start_ns = start, .end_ns = stop};
	return lk_lift_add(l, &op, place);
}

/* A second piece behind those of all runs: what a call did after its launch. */
static lk_status split_piece(lk_lifting *l, uint32_t piece, int64_t at, uint32_t *rest) {
	if (!lk_push(&l->out->pieces)) return lk_oom(l->err);
	lk_host_piece *first = &l->out->pieces.at[piece], *second = lk_last(&l->out->pieces);
	*second = *first;
	second->start_ns = at;
	second->dur_ns = first->start_ns + first->dur_ns - at;
	second->path = first->path + 1;
	first->dur_ns = at - first->start_ns;
	*rest = (uint32_t)l->out->pieces.count - 1;
	return LK_OK;
}

/* The launch waits until there is room in the queue: that is not its own time. */
static lk_status wait_for_room(lk_lifting *l, uint32_t op, uint32_t piece) {
	if (l->launched.count < LAUNCH_QUEUE) return LK_OK;
	uint32_t oldest = l->launched.at[l->launched.count - LAUNCH_QUEUE];
	lk_host_piece *p = &l->out->pieces.at[piece];
	int64_t end = l->out->ops.at[oldest].end_ns, over = p->start_ns + p->dur_ns;
	if (end > p->start_ns) p->dur_ns = over > end ? over - end : 0, p->blocked = true;
	return lk_lift_depend(l, op, oldest);
}

/* The device work of a call whose launch is operation `op`, behind what its streams wait for. */
static lk_status add_launched(lk_lifting *l, lk_lift_thread *thread, uint32_t first, uint32_t op) {
	const lk_capture *c = l->c;
	uint32_t call = c->launch[l->by_launch[first]];
	for (uint32_t i = first; i < l->by_launch_count && c->launch[l->by_launch[i]] == call; i++) {
		uint32_t event = l->by_launch[i];
		unsigned stream = l->stream_of[c->lane[event]];
		if (stream >= LK_STREAMS) continue;
		if (thread->wait_calls) LK_TRY(lk_lift_stream_waits(l, thread, event, (uint8_t)stream));
		const lk_lifted_op *last = lk_last(&l->out->ops);
		int64_t ready = l->out->ops.at[op].end_ns;
		if (last->what == LK_LIFTED_WAIT && last->end_ns > ready) ready = last->end_ns;
		LK_TRY(add_device(l, event, (uint8_t)stream, op, ready));
		thread->last_launch = (uint32_t)l->out->ops.count - 1;
	}
	return LK_OK;
}

/* Where a launch call is cut: just before its work starts, if it goes on long after that; a copy that it waits for, as soon as
 * it is queued. Its end: not at all. */
static int64_t cut_of(const lk_lifting *l, const lk_run *run, uint32_t work, bool synchronous) {
	int64_t start = l->c->start_ns[work], cut = start - LAUNCH_NS;
	if (synchronous && cut > run->start_ns + CALL_NS) cut = run->start_ns + CALL_NS;
	if (cut < run->start_ns) cut = run->start_ns;
	bool cuts = cut + LAUNCH_NS < run->end_ns && (synchronous || start >= run->start_ns);
	return cuts ? cut : run->end_ns;
}

/* A call that launches: the call up to the launch, the device work, and the rest of the call, which may wait for the work. */
static lk_status launch(lk_lifting *l, lk_run *run) {
	uint32_t piece = run->begin, first = first_of(l, l->out->pieces.at[piece].event), work = l->by_launch[first], rest = LK_NONE;
	bool synchronous = l->c->kind[work] == LK_EVENT_MEMCPY && lk_event_end(l->c, work) <= run->end_ns;
	int64_t cut = cut_of(l, run, work, synchronous);
	lk_lift_thread *thread = &l->threads.at[run->thread];
	if (cut < run->end_ns) LK_TRY(split_piece(l, piece, cut, &rest));
	LK_TRY(add_host(l, run, piece, piece + 1, run->start_ns, cut, &run->op));
	LK_TRY(wait_for_room(l, run->op, piece));
	LK_TRY(add_launched(l, thread, first, run->op));
	if (rest == LK_NONE) return LK_OK;
	LK_TRY(add_host(l, run, rest, rest + 1, cut, run->end_ns, &run->op));
	if (!synchronous || thread->last_launch == LK_NONE) return LK_OK;
	int64_t over = l->out->ops.at[thread->last_launch].end_ns;
	if (over > cut) l->out->pieces.at[rest].dur_ns = run->end_ns > over ? run->end_ns - over : 0;
	return lk_lift_depend(l, run->op, thread->last_launch);
}

static lk_status synchronise(lk_lifting *l, lk_run *run) {
	int64_t until = INT64_MIN;
	lk_host_piece *piece = &l->out->pieces.at[run->begin];
	LK_TRY(add_host(l, run, run->begin, run->end, run->start_ns, run->end_ns, &run->op));
	LK_TRY(lk_lift_sync(l, piece->event, &l->threads.at[run->thread], run->op, &until));
	if (until > run->start_ns) piece->dur_ns = until < run->end_ns ? run->end_ns - until : 0;
	return LK_OK;
}

static lk_status release(lk_lifting *l, lk_run *run) {
	const lk_capture *c = l->c;
	unsigned stream = l->stream_of[c->lane[run->event]];
	if (stream >= LK_STREAMS) return LK_OK;
	lk_lifted_op op = {.what = LK_LIFTED_RELEASE, .stream = LK_STREAM_OUTSIDE, .event = LK_NONE, .start_ns = l->outside_ns,
	                   .end_ns = run->start_ns};
	LK_TRY(lk_lift_add(l, &op, &l->outside));
	l->outside_ns = run->start_ns;
	l->out->streams |= LK_JOIN(LK_STREAM_OUTSIDE);
	l->out->threads |= LK_JOIN(LK_STREAM_OUTSIDE);
	return add_device(l, run->event, (uint8_t)stream, l->outside, run->start_ns);
}

static lk_status add_run(lk_lifting *l, lk_run *run) {
	if (run->kind == LK_RUN_RELEASE) return release(l, run);
	const lk_host_piece *piece = &l->out->pieces.at[run->begin];
	lk_lift_thread *thread = &l->threads.at[run->thread];
	if (run->kind == LK_RUN_CALL && piece->call == LK_CALL_LAUNCH) return launch(l, run);
	if (run->kind == LK_RUN_CALL && piece->call == LK_CALL_SYNC) return synchronise(l, run);
	if (run->kind == LK_RUN_CALL) thread->wait_calls++, thread->wait_event = piece->event;
	LK_TRY(add_host(l, run, run->begin, run->end, run->order_ns, run->end_ns, &run->op));
	if (run->after != LK_NONE) return lk_lift_depend(l, run->op, l->runs.at[run->after].op);
	if (run->kind != LK_RUN_GAP) return LK_OK;
	int64_t until = INT64_MIN;
	LK_TRY(lk_lift_unsaid_sync(l, run, run->op, &until));
	if (until > run->start_ns) l->out->pieces.at[run->begin].dur_ns = run->end_ns - until;
	return LK_OK;
}

/* ---- the whole ---- */

static lk_status add_end(lk_lifting *l) {
	unsigned stream = l->main_lane == LK_NONE ? LK_STREAMS : l->stream_of[l->main_lane];
	lk_lifted_op op = {.what = LK_LIFTED_END, .stream = (uint8_t)(stream < LK_STREAMS ? stream : LK_STREAM_COMPUTE), .event = LK_NONE,
	                   .start_ns = l->out->to_ns, .end_ns = l->out->to_ns};
	LK_TRY(lk_lift_add(l, &op, &l->out->end));
	for (unsigned s = 0; l->stretch->all && s < LK_STREAMS; s++)
		if (l->stream[s].last != LK_NONE) LK_TRY(lk_lift_depend(l, l->out->end, l->stream[s].last));
	return LK_OK;
}

static lk_status lift(lk_lifting *l) {
	LK_TRY(map_lanes(l));
	LK_TRY(index_launches(l));
	LK_TRY(lk_lift_transfers(l));
	LK_TRY(lk_lift_runs(l));
	LK_TRY(add_carried(l));
	for (size_t i = 0; i < l->runs.count; i++) LK_TRY(add_run(l, &l->runs.at[i]));
	return add_end(l);
}

lk_status lk_lift_rank(const lk_capture *capture, const lk_lift_stretch *stretch, lk_lifted_rank *out, lk_error *err) {
	int64_t from = stretch->from_ns;
	*out = (lk_lifted_rank){.capture = capture, .from_ns = from, .to_ns = stretch->to_ns};
	lk_lifting l = {.c = capture, .out = out, .stretch = stretch, .outside = LK_NONE, .outside_ns = from, .met_ns = from,
	                .err = err};
	lk_status status = lift(&l);
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
