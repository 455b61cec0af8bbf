/* engine_bound.c: the minimum remaining time of a rank, so that a simulation can be given up before
 * its end.
 *
 * A rank with unissued compute operations of total duration `ahead` needs that long, and then
 * `tail` more: through the last call of its program, the end of the step; or, if it first sends a
 * message, such as the gradients of the last backward pass, through what its receiver computes
 * then, and so on. Concurrent work only makes an operation longer; waiting, and sharing the device,
 * are left out.
 *
 * Compute operations count with their *lead-in*: the operations between the previous compute
 * operation and this one that wait for the former and are waited for by the latter, such as an
 * all-reduce between two layers. */
#include "base/arena.h"
#include "sim/engine.h"

static int64_t rank_least_time(const lk_engine *engine, const lk_rank *rank, uint32_t op) {
	const lk_insn *insn = &engine->insn[op];
	int64_t alone = insn->flags & LK_INSN_INSTANT ? 0 : rank->costs[op].duration_ps;
	if (rank->info->factor && (insn->flags & LK_INSN_SCALED))
		alone = lk_sim_scale(alone, rank->info->factor[rank->lane]);
	return lk_least_time(alone);
}

/* ---- the last call ---- */

/* From the end of the compute operations before a block to its end: the longest path through what
 * waits for them. */
static int64_t block_least_end(const lk_engine *engine, const lk_rank *rank, const lk_block *block,
                               int64_t *slot) {
	const int64_t any = INT64_MIN / 4; /* may end earlier */
	int64_t end[LK_STREAMS], last = 0;
	for (int i = 0; i < LK_STREAMS; i++) end[i] = i == LK_STREAM_COMPUTE ? 0 : any;
	for (uint32_t op = block->begin; op < block->end; op++) {
		const lk_insn *insn = &engine->insn[op];
		int64_t ready = insn->what == LK_INSN_HOST ? end[LK_STREAM_HOST] : any;
		for (uint32_t streams = insn->join; streams; streams &= streams - 1)
			ready = lk_later(ready, end[__builtin_ctz(streams)]);
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
			ready = lk_later(ready, slot[engine->sim->deps[d]]);
		end[insn->stream] = ready + rank_least_time(engine, rank, op);
		if (insn->slot != LK_NO_SLOT) slot[insn->slot] = end[insn->stream];
		last = lk_later(last, end[insn->stream]);
	}
	return last;
}

/* ---- messages after the last compute operation ---- */

enum {
	NOWHERE = UINT32_MAX,
	FAR = 4096 /* calls from the end that are examined */
};

/* A rank's message after the end of all its compute operations, and its receiver. */
typedef struct lk_last_message {
	uint32_t to;   /* stage, or NOWHERE */
	int64_t takes; /* from then until the end of the receiver's compute operations */
} lk_last_message;

/* The operations of a program before its last call, in reverse. */
typedef struct lk_reverse_cursor {
	const lk_call *call, *first;
	uint32_t op, left; /* current operation; calls that may still be examined */
} lk_reverse_cursor;

static bool reverse_cursor_step(const lk_engine *engine, lk_reverse_cursor *at) {
	const lk_block *block = &engine->blocks[at->call->block];
	if (at->op > block->begin) {
		at->op--;
		return true;
	}
	do {
		if (at->call == at->first || at->left-- == 0) return false;
		block = &engine->blocks[(--at->call)->block];
		if (at->call->repeat > 1) return false; /* messages do not repeat */
	} while (block->begin == block->end);
	at->op = block->end - 1;
	return true;
}

static lk_reverse_cursor reverse_cursor_new(const lk_engine *engine, const lk_rank *rank) {
	const lk_call *last = rank->calls_end - 1;
	return (lk_reverse_cursor){last, rank->call, engine->blocks[last->block].begin, FAR};
}

/* Messages are counted from the end: the last call must not have any. */
static bool rank_ends_without_messages(const lk_engine *engine, const lk_rank *rank) {
	const lk_block *block = &engine->blocks[rank->calls_end[-1].block];
	for (uint32_t op = block->begin; op < block->end; op++)
		if (engine->insn[op].what == LK_INSN_P2P) return false;
	return true;
}

/* Compute time of the rank after it has waited for the last message of a channel; -1: that moment
 * is unknown. `after`: space for the events of its program. */
static int64_t rank_computes_after(const lk_engine *engine, const lk_rank *rank, uint32_t channel,
                                   int64_t *after) {
	int64_t sum = 0;
	for (uint32_t e = 0; e < rank->program->events; e++) after[e] = -1;
	for (lk_reverse_cursor at = reverse_cursor_new(engine, rank);
	     reverse_cursor_step(engine, &at);) {
		const lk_insn *insn = &engine->insn[at.op];
		if (insn->what == LK_INSN_P2P && (uint32_t)insn->channel == channel)
			return insn->signal ? after[at.call->arg[insn->signal - 1]] : -1;
		if (insn->signal)
			after[at.call->arg[insn->signal - 1]] = -1; /* then that waits for this operation */
		if (!(insn->flags & LK_INSN_MAIN)) continue;
		sum += rank_least_time(engine, rank, at.op);
		if (insn->wait) after[at.call->arg[insn->wait - 1]] = sum;
	}
	return -1;
}

static lk_status rank_find_last_message(const lk_engine *engine, const lk_rank *rank,
                                        lk_arena *arena, lk_last_message *out, lk_error *err) {
	const lk_sim *sim = engine->sim;
	if (!rank_ends_without_messages(engine, rank)) return LK_OK;
	for (lk_reverse_cursor at = reverse_cursor_new(engine, rank);
	     reverse_cursor_step(engine, &at);) {
		const lk_insn *insn = &engine->insn[at.op];
		if (insn->flags & LK_INSN_MAIN) return LK_OK;
		if (insn->what != LK_INSN_P2P || !(insn->join & LK_JOIN(LK_STREAM_COMPUTE))) continue;
		lk_wire wire =
			sim->graph->wires
				.at[(size_t)rank->stage * sim->graph->channels + (uint32_t)insn->channel];
		const lk_rank *to = &engine->rank[(size_t)wire.stage * sim->lanes + rank->lane];
		if (lk_rank_at_end(to) || !rank_ends_without_messages(engine, to)) return LK_OK;
		int64_t *after = LK_ARRAY(arena, int64_t, to->program->events);
		if (!after) return lk_oom(err);
		int64_t computes = rank_computes_after(engine, to, wire.channel, after);
		if (computes >= 0)
			*out = (lk_last_message){wire.stage, rank_least_time(engine, rank, at.op) + computes};
		return LK_OK;
	}
	return LK_OK;
}

/* Extend tails by the tails of receivers, until none grows: at most as many rounds as there are
 * stages. */
static void lengthen_tails(lk_engine *engine, const lk_last_message *messages) {
	bool longer = true;
	for (uint32_t turn = 0; longer && turn < engine->sim->stages; turn++) {
		longer = false;
		for (uint32_t i = 0; i < engine->ranks; i++) {
			lk_rank *rank = &engine->rank[i];
			if (messages[i].to == NOWHERE) continue;
			const lk_rank *to =
				&engine->rank[(size_t)messages[i].to * engine->sim->lanes + rank->lane];
			int64_t tail = messages[i].takes + to->tail;
			longer = longer || tail > rank->tail;
			rank->tail = lk_later(rank->tail, tail);
		}
	}
}

/* ---- lead-ins ---- */

/* For each compute operation of a block but the first: the longest path from the end of the
 * previous one through the operations between. If the host waits between the two, the later one may
 * be issued only after that path has passed: then its lead-in is 0. */
static void block_set_lead_ins(lk_engine *engine, const lk_rank *rank, const lk_block *block,
                               int64_t *slot, int64_t *lead_in) {
	const int64_t any = INT64_MIN / 4;
	int64_t end[LK_STREAMS];
	bool counts = false; /* there is a compute operation before, without a host wait in between */
	for (uint32_t op = block->begin; op < block->end; op++) {
		const lk_insn *insn = &engine->insn[op];
		int64_t ready = any;
		for (uint32_t streams = insn->join; counts && streams; streams &= streams - 1)
			ready = lk_later(ready, end[__builtin_ctz(streams)]);
		for (uint32_t d = insn->dep_begin; counts && d < insn->dep_begin + insn->dep_count; d++)
			ready = lk_later(ready, slot[engine->sim->deps[d]]);
		if (insn->flags & LK_INSN_MAIN) {
			lead_in[op] = ready > 0 ? ready : 0;
			counts = true;
			for (int i = 0; i < LK_STREAMS; i++) end[i] = i == LK_STREAM_COMPUTE ? 0 : any;
			for (uint32_t i = 0; i < engine->sim->slots; i++) slot[i] = any;
			if (insn->slot != LK_NO_SLOT) slot[insn->slot] = 0;
			continue;
		}
		if (insn->what == LK_INSN_HOST) counts = false;
		if (!counts) continue;
		/* ranks of a kind of place share lead-ins, but may differ in compute speed */
		int64_t least = insn->flags & LK_INSN_SCALED ? 0 : rank_least_time(engine, rank, op);
		end[insn->stream] = ready >= 0 ? ready + least : any;
		if (insn->slot != LK_NO_SLOT) slot[insn->slot] = end[insn->stream];
	}
}

/* Once per kind of place among the ranks. */
static lk_status lead_ins_set_up(lk_engine *engine, lk_arena *arena, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	uint32_t variants = engine->sim->costs->variants;
	int64_t *slot = LK_ARRAY(arena, int64_t, engine->sim->slots + 1);
	bool *known = LK_ARRAY(arena, bool, variants);
	engine->lead_in = LK_ARRAY(&engine->arena, int64_t, (size_t)variants * graph->ops.count + 1);
	if (!slot || !known || !engine->lead_in) return lk_oom(err);
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_rank *rank = &engine->rank[i];
		if (known[rank->variant]) continue;
		known[rank->variant] = true;
		for (size_t b = 0; b < graph->blocks.count; b++)
			block_set_lead_ins(engine, rank, &graph->blocks.at[b], slot,
			                   engine->lead_in + (size_t)rank->variant * graph->ops.count);
	}
	return LK_OK;
}

/* ---- bounds ---- */

static int64_t block_computes(const lk_engine *engine, const lk_rank *rank, const lk_block *block) {
	const int64_t *lead_in =
		engine->lead_in + (size_t)rank->variant * engine->sim->graph->ops.count;
	int64_t sum = 0;
	for (uint32_t op = block->begin; op < block->end; op++)
		if (engine->insn[op].flags & LK_INSN_MAIN)
			sum += rank_least_time(engine, rank, op) + lead_in[op];
	return sum;
}

static lk_status rank_look_ahead(lk_engine *engine, lk_rank *rank, lk_arena *arena,
                                 lk_last_message *out, lk_error *err) {
	*out = (lk_last_message){.to = NOWHERE};
	if (lk_rank_at_end(rank)) return LK_OK;
	const lk_call *last = rank->calls_end - 1;
	int64_t *slot = LK_ARRAY(arena, int64_t, engine->sim->slots);
	if (!slot) return lk_oom(err);
	for (uint32_t i = 0; i < rank->info->use_count; i++) {
		const lk_sim_use *use = &rank->info->uses[i];
		uint64_t times = use->times - (use->block == last->block ? last->repeat : 0);
		rank->ahead += (int64_t)times * block_computes(engine, rank, &engine->blocks[use->block]);
	}
	if (last->repeat == 1)
		rank->tail = block_least_end(engine, rank, &engine->blocks[last->block], slot);
	return rank_find_last_message(engine, rank, arena, out, err);
}

lk_status lk_bound_set_up(lk_engine *engine, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_last_message *messages = LK_ARRAY(&arena, lk_last_message, engine->ranks);
	lk_status status = messages ? lead_ins_set_up(engine, &arena, err) : lk_oom(err);
	for (uint32_t i = 0; status == LK_OK && i < engine->ranks; i++)
		status = rank_look_ahead(engine, &engine->rank[i], &arena, &messages[i], err);
	if (status == LK_OK) lengthen_tails(engine, messages);
	lk_arena_free(&arena);
	return status;
}

bool lk_bound_too_late(lk_engine *engine) {
	int64_t limit = engine->sim->options->give_up_ps;
	if (!engine->bounded) return false;
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_rank *rank = &engine->rank[i];
		if (rank->asleep) { /* woken early, it will not be done sooner */
			engine->least_end =
				lk_later(engine->least_end, rank->solo.start + rank->solo.ahead + rank->tail);
			continue;
		}
		/* Unissued operations start after the end of issued ones; for a kernel that runs alone that
		 * end is known. What a blocked rank waits for may be part of the next lead-in, and in
		 * progress. */
		int64_t now = rank->stream[LK_STREAM_COMPUTE].end - 1;
		if (!rank->parked && !rank->messages) now = lk_later(engine->now, now);
		if (rank->ahead > 0)
			engine->least_end = lk_later(engine->least_end, now + rank->ahead + rank->tail);
	}
	return engine->least_end > limit;
}
