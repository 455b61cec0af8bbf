/* engine_stride.c: work that a rank does by itself is simulated once and then repeated in one step.
 *
 * When a kernel has just started and nothing else runs on its rank, everything on the rank until
 * the next such moment follows only from the operations, if the host is far enough ahead and
 * nothing comes from outside: times are sums of whole picoseconds, and rates depend on what runs
 * concurrently, so they do not depend on when it begins. From one such kernel to the next is a
 * *stride*. The first time it is simulated operation by operation and recorded; from then on the
 * rank takes all consecutive strides at once: it sleeps until the last one has ended. Anything that
 * begins on it earlier, such as a message whose partner has arrived, wakes it: strides that have
 * ended by then are taken, and from the last one's kernel on operations are simulated one by one.
 *
 * A stride contains no operations that wait for another rank, wait for or set an event, or let the
 * host wait. The host is far enough ahead when each launch precedes the start of the kernel
 * before. */
#include "base/arena.h"
#include "sim/engine.h"

enum {
	NONE = UINT32_MAX,
	LEVEL_MOST = 8 /* at most 2^8 strides are taken at once */
};

lk_status lk_strides_set_up(lk_engine *engine, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	if (graph->traced || engine->shared || lk_sim_jittered(engine->sim)) return LK_OK;
	engine->stride = LK_ARRAY(&engine->arena, lk_stride *,
	                          (size_t)engine->sim->costs->variants * graph->ops.count + 1);
	engine->host_follows = LK_ARRAY(&engine->arena, bool, graph->blocks.count);
	if (!engine->stride || !engine->host_follows) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t op = graph->blocks.at[b].begin; op < graph->blocks.at[b].end; op++)
			engine->host_follows[b] |=
				engine->insn[op].what == LK_INSN_HOST && engine->insn[op].dep_count > 0;
	return LK_OK;
}

/* ---- known strides ---- */

static inline lk_stride **strides_of(const lk_engine *engine, const lk_rank *rank, uint32_t op) {
	return &engine->stride[(size_t)rank->variant * engine->sim->graph->ops.count + op];
}

/* The first operation after the current repetition; NONE: the program ends. */
static uint32_t stride_next_begin(const lk_engine *engine, const lk_solo *at,
                                  const lk_call *calls_end) {
	if (at->repeats > 1) return engine->blocks[at->call->block].begin;
	for (const lk_call *call = at->call + 1; call < calls_end; call++) {
		const lk_block *block = &engine->blocks[call->block];
		if (call->repeat && block->begin < block->end) return block->begin;
	}
	return NONE;
}

/* The stride that starts at a kernel; NULL: unknown. */
static lk_stride *stride_find(const lk_engine *engine, const lk_rank *rank, const lk_solo *at) {
	uint32_t after = 0;
	bool looked = false;
	for (lk_stride *one = *strides_of(engine, rank, at->kernel); one; one = one->other) {
		if (one->next != at->op) continue;
		if (one->after == NONE) return one;
		if (!looked) after = stride_next_begin(engine, at, rank->calls_end);
		looked = true;
		if (one->after == after) return one;
	}
	return NULL;
}

/* ---- taking strides ---- */

static void solo_open_next(const lk_engine *engine, lk_solo *at, const lk_call *calls_end) {
	if (at->repeats > 1) {
		at->repeats--;
		at->op = engine->blocks[at->call->block].begin;
		return;
	}
	for (at->call++; at->call < calls_end; at->call++) {
		const lk_block *block = &engine->blocks[at->call->block];
		if (!at->call->repeat || block->begin == block->end) continue;
		at->op = block->begin;
		at->end_op = block->end;
		at->repeats = at->call->repeat;
		return;
	}
}

/* Record operations [from, to) of the stride, all of one call. */
static void rank_record_part(const lk_rank *rank, const lk_stride *stride, const lk_solo *at,
                             uint64_t number, uint32_t from, uint32_t to) {
	for (uint32_t i = from; i < to; i++) {
		lk_sim_event *event = &rank->events[number + i];
		*event = stride->events[i + 1];
		event->record = rank->record;
		event->call = (uint32_t)(at->call - rank->program->calls.at);
		event->repetition = at->call->repeat - at->repeats;
		event->ready_ps += at->start;
		event->start_ps += at->start;
		event->end_ps += at->start;
	}
}

/* Record the events of a stride that is about to be taken; its last kernel's end is not known
 * yet. */
static void rank_record_stride(const lk_engine *engine, const lk_rank *rank,
                               const lk_stride *stride, const lk_solo *at) {
	uint32_t here = stride->after == NONE ? stride->ops : at->end_op - at->op;
	rank->events[at->ops - 1].end_ps = at->start + stride->events[0].end_ps;
	rank_record_part(rank, stride, at, at->ops, 0, here);
	if (stride->after == NONE) return;
	lk_solo next = {.call = at->call, .repeats = at->repeats, .start = at->start};
	solo_open_next(engine, &next, rank->calls_end);
	rank_record_part(rank, stride, &next, at->ops, here, stride->ops);
}

static void solo_take(const lk_engine *engine, const lk_rank *rank, const lk_stride *stride,
                      lk_solo *at) {
	if (rank->events) rank_record_stride(engine, rank, stride, at);
	if (stride->after != NONE) solo_open_next(engine, at, rank->calls_end);
	at->kernel = stride->to;
	at->kernel_call = at->call;
	at->op = stride->to + 1;
	LK_ASSERT(at->op <= at->end_op);
	if (at->op == at->end_op) solo_open_next(engine, at, rank->calls_end);
	uint32_t streams = stride->streams;
	for (uint32_t i = 0; streams; streams &= streams - 1, i++)
		at->end[__builtin_ctz(streams)] = at->start + stride->end[i];
	at->streams |= stride->streams;
	at->made |= stride->made;
	at->ops += stride->ops;
	at->host += stride->host;
	at->ahead -= stride->ahead;
	at->start += stride->time;
}

static inline bool register_is_past(const lk_register *known, int64_t time) {
	return !known->pending && known->end <= time;
}

static bool stride_applies(const lk_rank *rank, const lk_stride *stride, const lk_solo *at) {
	if (rank->events && !stride->events) return false;
	if (at->host - at->start > stride->slack) return false;
	for (uint32_t streams = stride->joined; streams; streams &= streams - 1)
		if (!register_is_past(&rank->stream[__builtin_ctz(streams)], at->start)) return false;
	for (uint64_t slots = stride->slots; slots; slots &= slots - 1)
		if (!register_is_past(&rank->slot[__builtin_ctzll(slots)], at->start)) return false;
	return true;
}

/* The rank's state when one of its kernels runs alone. */
static void solo_set(lk_solo *at, const lk_rank *rank) {
	const lk_act *kernel = rank->on[LK_STREAM_COMPUTE];
	at->call = rank->call;
	at->kernel_call = kernel->call;
	at->op = rank->op;
	at->end_op = rank->end_op;
	at->repeats = rank->repeats;
	at->kernel = lk_act_op(kernel);
	at->streams = 0; /* `end` belongs to no stream */
	at->made = 0;
	at->ops = rank->ops;
	at->start = kernel->last;
	at->host = rank->host;
	at->ahead = rank->ahead;
}

/* When each stream's last operation of the two ends, relative to the start of the first. */
static void strides_join_ends(const lk_stride *first, const lk_stride *second, int64_t *end) {
	uint32_t streams = first->streams | second->streams, i = 0, j = 0;
	for (; streams; streams &= streams - 1, end++) {
		uint32_t one = streams & -streams;
		if (first->streams & one) *end = first->end[i++];
		if (second->streams & one) *end = first->time + second->end[j++];
	}
}

/* Join two consecutive strides into one. It requires as much as both, all at its start: if that is
 * too much, they are still taken one by one. */
static void strides_join(lk_engine *engine, lk_stride *first, const lk_stride *second) {
	lk_stride *both = LK_NEW(&engine->arena, lk_stride);
	if (!both) return; /* nothing but time is lost */
	int64_t slack = second->slack + first->time - first->host;
	*both = (lk_stride){
		.level = first->level + 1,
		.next = first->next,
		.after = NONE,
		.to = second->to,
		.ops = first->ops + second->ops,
		.streams = first->streams | second->streams,
		.joined = first->joined | second->joined,
		.made = first->made | second->made,
		.slots = first->slots | second->slots,
		.time = first->time + second->time,
		.host = first->host + second->host,
		.ahead = first->ahead + second->ahead,
		.slack = slack < first->slack ? slack : first->slack,
	};
	both->end = LK_ARRAY(&engine->arena, int64_t, __builtin_popcount(both->streams) + 1);
	if (!both->end) return;
	strides_join_ends(first, second, both->end);
	first->longer = both;
}

/* Whether the second stride always follows the first: it begins within the block in which the first
 * ends, and neither leaves it. */
static bool strides_follow(const lk_engine *engine, const lk_stride *first, const lk_stride *second,
                           const lk_solo *between) {
	return first && !first->longer && first->level == second->level && first->level < LEVEL_MOST &&
	       first->after == NONE && second->after == NONE &&
	       between->op != engine->blocks[between->call->block].begin;
}

/* Take strides with known ends not later than `until`; false: none. Strides taken in succession are
 * joined in pairs, so that a block soon takes only few. */
static bool solo_walk(lk_engine *engine, const lk_rank *rank, int64_t until, lk_solo *at) {
	lk_stride *last = NULL;
	while (at->call < rank->calls_end) {
		lk_stride *stride = stride_find(engine, rank, at);
		if (!stride || at->start + stride->time > until || !stride_applies(rank, stride, at)) break;
		while (stride->longer && !rank->events && at->start + stride->longer->time <= until &&
		       stride_applies(rank, stride->longer, at))
			stride = stride->longer;
		if (strides_follow(engine, last, stride, at)) strides_join(engine, last, stride);
		solo_take(engine, rank, stride, at);
		last = stride;
	}
	return last != NULL;
}

/* ---- strides simulated for the first time ---- */

/* Whether a kernel of the rank has started at this moment, and nothing else runs. */
static bool rank_is_solo(const lk_engine *engine, const lk_rank *rank) {
	const lk_act *kernel = rank->on[LK_STREAM_COMPUTE];
	return rank->live == 1u << LK_STREAM_COMPUTE && kernel->state == LK_ACT_RUNNING &&
	       kernel->last == engine->now && kernel->duration > 0 && !kernel->out && !kernel->event &&
	       kernel->rate == 1 && kernel->left == (double)kernel->duration &&
	       kernel->due == kernel->last + kernel->duration && lk_act_is_kernel(engine, kernel) &&
	       !rank->unstarted && !lk_rank_at_end(rank) &&
	       (!rank->events || kernel->record + 1 == rank->ops);
}

static void stride_open(const lk_engine *engine, lk_rank *rank) {
	lk_stride_tape *tape = &rank->tape;
	solo_set(&tape->from, rank);
	uint16_t given = engine->insn[tape->from.kernel].slot;
	tape->open = true;
	tape->call = rank->call;
	tape->repeats = rank->repeats;
	tape->others = rank->others;
	tape->given = given < 64 ? UINT64_C(1) << given : 0;
	tape->stride = (lk_stride){.next = rank->op, .after = NONE, .slack = INT64_MAX};
}

/* Dependencies of the operation must have ended when the stride begins, unless they are part of
 * it. */
static void stride_note_sources(const lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	lk_stride_tape *tape = &rank->tape;
	lk_stride *stride = &tape->stride;
	uint32_t own = stride->streams | LK_JOIN(LK_STREAM_COMPUTE);
	for (uint32_t streams = insn->join & ~own; streams; streams &= streams - 1)
		if (!register_is_past(&rank->stream[__builtin_ctz(streams)], tape->from.start))
			tape->open = false;
	stride->joined |= insn->join & ~own;
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
		uint16_t slot = engine->sim->deps[d];
		if (slot < 64 && (stride->made | tape->given) >> slot & 1) continue;
		if (slot >= 64 || !register_is_past(&rank->slot[slot], tape->from.start))
			tape->open = false;
		else stride->slots |= UINT64_C(1) << slot;
	}
}

void lk_stride_note(const lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	lk_stride_tape *tape = &rank->tape;
	lk_stride *stride = &tape->stride;
	const lk_cost *cost = &rank->costs[rank->op];
	/* if one group of the kind has several members, another rank's may too */
	bool local = insn->what == LK_INSN_LOCAL ||
	             (insn->what == LK_INSN_GROUP &&
	              engine->sim->group[insn->group].groups == engine->sim->lanes);
	if (!local || insn->wait || insn->signal || engine->host_follows[rank->call->block] ||
	    cost->tail_ps > cost->duration_ps) {
		tape->open = false;
		return;
	}
	if (rank->call != tape->call || rank->repeats != tape->repeats) {
		if (stride->after != NONE) tape->open = false;
		stride->after = rank->op;
		tape->call = rank->call;
		tape->repeats = rank->repeats;
	}
	stride_note_sources(engine, rank, insn);
	stride->streams |= LK_JOIN(insn->stream);
	if (insn->slot < 64) stride->made |= UINT64_C(1) << insn->slot;
	else if (insn->slot != LK_NO_SLOT) tape->open = false;
	/* its launch, and the least end of a kernel, which follows from it */
	int64_t host = rank->host - tape->from.host + lk_later(cost->lead_ps, cost->host_ps);
	int64_t slack = engine->now - tape->from.start - host;
	if (slack < stride->slack) stride->slack = slack;
}

/* The events recorded from the kernel that starts the stride to the one that ends it, relative to
 * its start; NULL: out of memory. */
static lk_sim_event *stride_take_events(lk_engine *engine, const lk_rank *rank) {
	const lk_solo *from = &rank->tape.from;
	size_t count = rank->ops - from->ops + 1;
	lk_sim_event *events = LK_ARRAY(&engine->arena, lk_sim_event, count);
	for (size_t i = 0; events && i < count; i++) {
		events[i] = rank->events[from->ops - 1 + i];
		events[i].ready_ps -= from->start;
		events[i].start_ps -= from->start;
		events[i].end_ps -= from->start;
	}
	return events;
}

/* The next kernel has started alone: the stride is known. */
static void stride_close(lk_engine *engine, lk_rank *rank) {
	lk_stride_tape *tape = &rank->tape;
	lk_solo at;
	solo_set(&at, rank);
	lk_stride *stride = &tape->stride;
	tape->open = false;
	if (rank->others != tape->others || tape->from.host - tape->from.start > stride->slack ||
	    stride_find(engine, rank, &tape->from))
		return;
	LK_ASSERT(at.kernel_call == tape->call);
	stride->streams &= ~LK_JOIN(LK_STREAM_COMPUTE);
	stride->to = at.kernel;
	stride->ops = (uint32_t)(at.ops - tape->from.ops);
	stride->time = at.start - tape->from.start;
	stride->host = at.host - tape->from.host;
	stride->ahead = tape->from.ahead - at.ahead;
	lk_stride *known = LK_NEW(&engine->arena, lk_stride);
	if (known) *known = *stride;
	if (known)
		known->end = LK_ARRAY(&engine->arena, int64_t, __builtin_popcount(stride->streams) + 1);
	if (known && known->end && rank->events) known->events = stride_take_events(engine, rank);
	if (!known || !known->end || (rank->events && !known->events)) {
		lk_engine_no_memory(engine);
		return;
	}
	uint32_t streams = stride->streams;
	for (uint32_t i = 0; streams; streams &= streams - 1, i++)
		known->end[i] = rank->stream[__builtin_ctz(streams)].end - tape->from.start;
	lk_stride **strides = strides_of(engine, rank, tape->from.kernel);
	known->other = *strides;
	*strides = known;
}

/* ---- sleep ---- */

bool lk_rank_stride(lk_engine *engine, lk_rank *rank) {
	if (!engine->stride || rank->noisy || !rank_is_solo(engine, rank)) return false;
	if (rank->tape.open) stride_close(engine, rank);
	solo_set(&rank->solo, rank);
	if (solo_walk(engine, rank, LK_NEVER, &rank->solo)) {
		rank->asleep = true;
		lk_rank_note_change(engine, rank);
		return true;
	}
	stride_open(engine, rank);
	return false;
}

void lk_rank_wake(lk_engine *engine, lk_rank *rank) {
	if (engine->now < rank->solo.start) {
		solo_set(&rank->solo, rank);
		solo_walk(engine, rank, engine->now, &rank->solo);
	}
	const lk_solo *at = &rank->solo;
	lk_act *act = rank->on[LK_STREAM_COMPUTE];
	rank->asleep = false;
	if (at->ops == rank->ops) return; /* no stride has ended yet */
	const lk_insn *insn = &engine->insn[at->kernel];
	if (act->slot && act->slot->pending == act) *act->slot = (lk_register){at->start, NULL};
	for (uint32_t streams = at->streams; streams; streams &= streams - 1) {
		unsigned stream = (unsigned)__builtin_ctz(streams);
		rank->stream[stream] = (lk_register){at->end[stream], NULL};
	}
	for (uint64_t slots = rank->others ? at->made : 0; slots; slots &= slots - 1)
		rank->slot[__builtin_ctzll(slots)] = (lk_register){at->start, NULL};
	act->key = at->kernel * 2;
	act->record = rank->events ? at->ops - 1 : LK_NO_RECORD;
	act->call = at->kernel_call;
	act->duration = lk_rank_duration(engine, rank, insn, rank->costs[at->kernel].duration_ps);
	act->arrival = act->last = at->start;
	act->left = (double)act->duration;
	act->due = at->start + act->duration;
	act->floor = 0;
	act->slot = insn->slot != LK_NO_SLOT ? &rank->slot[insn->slot] : NULL;
	act->event = NULL;
	lk_rank_promise(rank, act);
	rank->call = at->call;
	rank->op = at->op;
	rank->end_op = at->end_op;
	rank->repeats = at->repeats;
	rank->ops = at->ops;
	rank->host = at->host;
	rank->ahead = at->ahead;
	rank->start = at->start;
	rank->finish = lk_later(rank->finish, at->start);
}
