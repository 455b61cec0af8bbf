/* engine_stride.c: what a rank does by itself, once for all.
 *
 * When a kernel has just started and nothing else runs on its rank, all that the rank does until
 * the next such moment follows from the operations alone, if the host is far enough ahead and
 * nothing comes from outside: times are sums of whole picoseconds, rates depend on what runs side
 * by side, so that they are the same whenever it begins. The way from one such kernel to the next
 * is a *stride*. The first time it is gone operation by operation and noted; from then on the rank
 * goes all strides that follow on one another at once: it sleeps until the last one is over. What
 * begins on it before, a message whose partner has come, wakes it: strides that are over by then
 * are taken, and from the last one's kernel on operations are gone through as ever.
 *
 * A stride says nothing about operations that wait for another rank, wait for or set an event, or
 * let the host wait. The host is far enough ahead when each launch precedes the start of the kernel
 * before. */
#include "base/arena.h"
#include "sim/sim_internal.h"

enum {
	LEAST_LOG2 = 8, /* room for strides: four for every operation */
	MOST_LOG2 = 16,
	NONE = UINT32_MAX
};

lk_status lk_strides_set_up(lk_engine *engine, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	unsigned log2 = LEAST_LOG2;
	if (graph->traced || engine->shared || lk_sim_jittered(engine->sim)) return LK_OK;
	while (log2 < MOST_LOG2 && (UINT32_C(1) << log2) < 4 * graph->ops.count) log2++;
	engine->stride_room = UINT32_C(1) << log2;
	engine->stride = LK_ARRAY(&engine->arena, lk_stride *, engine->stride_room);
	engine->host_follows = LK_ARRAY(&engine->arena, bool, graph->blocks.count);
	if (!engine->stride || !engine->host_follows) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t op = graph->blocks.at[b].begin; op < graph->blocks.at[b].end; op++)
			engine->host_follows[b] |=
				engine->insn[op].what == LK_INSN_HOST && engine->insn[op].dep_count > 0;
	return LK_OK;
}

/* ---- strides that are known ---- */

static uint32_t stride_slot(const lk_engine *engine, uint32_t variant, uint32_t kernel,
                            uint32_t next) {
	uint64_t hash = ((uint64_t)kernel << 32 | next) * 0x9e3779b97f4a7c15u;
	hash = (hash ^ hash >> 29 ^ variant) * 0xbf58476d1ce4e5b9u;
	return (uint32_t)(hash >> 32) & (engine->stride_room - 1);
}

/* The first operation after the present repetition; NONE: the program is over. */
static uint32_t stride_next_begin(const lk_engine *engine, const lk_solo *at,
                                  const lk_call *calls_end) {
	if (at->repeats > 1) return engine->blocks[at->call->block].begin;
	for (const lk_call *call = at->call + 1; call < calls_end; call++) {
		const lk_block *block = &engine->blocks[call->block];
		if (call->repeat && block->begin < block->end) return block->begin;
	}
	return NONE;
}

/* The stride from a kernel on; NULL: it is not known. */
static const lk_stride *stride_find(const lk_engine *engine, uint32_t variant, const lk_solo *at,
                                    const lk_call *calls_end) {
	uint32_t slot = stride_slot(engine, variant, at->kernel, at->op), after = 0;
	bool asked = false;
	for (const lk_stride *one; (one = engine->stride[slot]);
	     slot = (slot + 1) & (engine->stride_room - 1)) {
		if (one->kernel != at->kernel || one->next != at->op || one->variant != variant) continue;
		if (one->after == NONE) return one;
		if (!asked) after = stride_next_begin(engine, at, calls_end);
		asked = true;
		if (one->after == after) return one;
	}
	return NULL;
}

/* ---- going strides ---- */

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

static void solo_take(const lk_engine *engine, const lk_stride *stride, lk_solo *at,
                      const lk_call *calls_end) {
	if (stride->after != NONE) solo_open_next(engine, at, calls_end);
	at->kernel = stride->to;
	at->kernel_call = at->call;
	at->op = stride->to + 1;
	LK_ASSERT(at->op <= at->end_op);
	if (at->op == at->end_op) solo_open_next(engine, at, calls_end);
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
	if (at->host - at->start > stride->slack) return false;
	for (uint32_t streams = stride->joined; streams; streams &= streams - 1)
		if (!register_is_past(&rank->stream[__builtin_ctz(streams)], at->start)) return false;
	for (uint64_t slots = stride->slots; slots; slots &= slots - 1)
		if (!register_is_past(&rank->slot[__builtin_ctzll(slots)], at->start)) return false;
	return true;
}

static lk_solo solo_of(const lk_rank *rank) {
	const lk_act *kernel = rank->on[LK_STREAM_COMPUTE];
	return (lk_solo){.call = rank->call,
	                 .kernel_call = kernel->call,
	                 .op = rank->op,
	                 .end_op = rank->end_op,
	                 .repeats = rank->repeats,
	                 .kernel = lk_act_op(kernel),
	                 .ops = rank->ops,
	                 .start = kernel->last,
	                 .host = rank->host,
	                 .ahead = rank->ahead};
}

/* Goes the strides whose ends are known, and no later than `until`; false: none. */
static bool solo_walk(const lk_engine *engine, const lk_rank *rank, int64_t until, lk_solo *at) {
	bool any = false;
	while (at->call < rank->calls_end) {
		const lk_stride *stride = stride_find(engine, rank->variant, at, rank->calls_end);
		if (!stride || at->start + stride->time > until || !stride_applies(rank, stride, at))
			return any;
		solo_take(engine, stride, at, rank->calls_end);
		any = true;
	}
	return any;
}

/* ---- strides that are gone for the first time ---- */

/* A kernel of the rank has started this moment, and nothing else runs. */
static bool rank_is_solo(const lk_engine *engine, const lk_rank *rank) {
	const lk_act *kernel = rank->on[LK_STREAM_COMPUTE];
	return rank->live == 1u << LK_STREAM_COMPUTE && kernel->state == LK_ACT_RUNNING &&
	       kernel->last == engine->now && kernel->duration > 0 && !kernel->out && !kernel->event &&
	       kernel->rate == 1 && kernel->left == (double)kernel->duration &&
	       kernel->due == kernel->last + kernel->duration && lk_act_is_kernel(engine, kernel) &&
	       !rank->unstarted && !lk_rank_at_end(rank);
}

static void stride_open(const lk_engine *engine, lk_rank *rank) {
	const lk_solo at = solo_of(rank);
	uint16_t given = engine->insn[at.kernel].slot;
	rank->tape = (lk_stride_tape){.open = true,
	                              .others = rank->others,
	                              .given = given < 64 ? UINT64_C(1) << given : 0,
	                              .from = at,
	                              .call = at.call,
	                              .repeats = at.repeats,
	                              .stride = {.kernel = at.kernel,
	                                         .next = at.op,
	                                         .after = NONE,
	                                         .variant = rank->variant,
	                                         .slack = INT64_MAX}};
}

/* What the operation waits for has to be over when the stride begins, unless it is part of it. */
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
	/* where one group of the kind has several members, another rank's may */
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

/* The next kernel has started alone: the stride is known. It is not where there is no room. */
static void stride_close(lk_engine *engine, lk_rank *rank) {
	lk_stride_tape *tape = &rank->tape;
	const lk_solo at = solo_of(rank);
	lk_stride *stride = &tape->stride;
	tape->open = false;
	if (engine->strides * 2 >= engine->stride_room || rank->others != tape->others ||
	    tape->from.host - tape->from.start > stride->slack)
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
	if (!known || !known->end) {
		lk_engine_no_memory(engine);
		return;
	}
	uint32_t streams = stride->streams;
	for (uint32_t i = 0; streams; streams &= streams - 1, i++)
		known->end[i] = rank->stream[__builtin_ctz(streams)].end - tape->from.start;
	uint32_t slot = stride_slot(engine, stride->variant, stride->kernel, stride->next);
	while (engine->stride[slot]) slot = (slot + 1) & (engine->stride_room - 1);
	engine->stride[slot] = known;
	engine->strides++;
}

/* ---- sleep ---- */

bool lk_rank_stride(lk_engine *engine, lk_rank *rank) {
	if (!engine->stride || rank->noisy || rank->events || !rank_is_solo(engine, rank)) return false;
	if (rank->tape.open) stride_close(engine, rank);
	rank->solo = solo_of(rank);
	if (solo_walk(engine, rank, LK_NEVER, &rank->solo)) {
		rank->asleep = true;
		lk_rank_note_change(engine, rank);
		return true;
	}
	stride_open(engine, rank);
	return false;
}

void lk_rank_wake(lk_engine *engine, lk_rank *rank) {
	lk_solo at = rank->solo;
	if (engine->now < at.start) {
		at = solo_of(rank);
		solo_walk(engine, rank, engine->now, &at);
	}
	lk_act *act = rank->on[LK_STREAM_COMPUTE];
	rank->asleep = false;
	if (at.ops == rank->ops) return; /* no stride is over yet */
	const lk_insn *insn = &engine->insn[at.kernel];
	if (act->slot && act->slot->pending == act) *act->slot = (lk_register){at.start, NULL};
	for (uint32_t streams = at.streams; streams; streams &= streams - 1) {
		unsigned stream = (unsigned)__builtin_ctz(streams);
		rank->stream[stream] = (lk_register){at.end[stream], NULL};
	}
	for (uint64_t slots = rank->others ? at.made : 0; slots; slots &= slots - 1)
		rank->slot[__builtin_ctzll(slots)] = (lk_register){at.start, NULL};
	act->key = at.kernel * 2;
	act->call = at.kernel_call;
	act->duration = lk_rank_duration(engine, rank, insn, rank->costs[at.kernel].duration_ps);
	act->arrival = act->last = at.start;
	act->left = (double)act->duration;
	act->due = at.start + act->duration;
	act->floor = 0;
	act->slot = insn->slot != LK_NO_SLOT ? &rank->slot[insn->slot] : NULL;
	act->event = NULL;
	lk_rank_promise(rank, act);
	rank->call = at.call;
	rank->op = at.op;
	rank->end_op = at.end_op;
	rank->repeats = at.repeats;
	rank->ops = at.ops;
	rank->host = at.host;
	rank->ahead = at.ahead;
	rank->start = at.start;
	rank->finish = lk_later(rank->finish, at.start);
}
