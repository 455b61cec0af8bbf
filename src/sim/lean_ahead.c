/* lean_ahead.c: what a rank has ahead of it at least, so that a simulation can be given up before
 * its end.
 *
 * A rank that has not issued compute operations of `ahead` in all needs that long, and when the
 * last of them has ended `tail` more: through what the last call of its program, the end of the
 * step, makes of it; or, where it sends something on first, as the gradients of the last backward
 * pass are, through what its receiver computes then, and on from there. Whatever runs beside an
 * operation makes it longer; waiting, and sharing the device, are left out. */
#include "sim/lean.h"

static int64_t later(int64_t a, int64_t b) {
	return a > b ? a : b;
}

/* ---- the last call ---- */

/* From the end of the compute operations before a block to its end: the longest way through what
 * waits for them. */
static int64_t least_end(const lk_lean *engine, const lk_lean_rank *rank, const lk_block *block,
                         int64_t *slot) {
	const int64_t any = INT64_MIN / 4; /* may be over before */
	int64_t end[LK_STREAMS], last = 0;
	for (int i = 0; i < LK_STREAMS; i++) end[i] = i == LK_STREAM_COMPUTE ? 0 : any;
	for (uint32_t op = block->begin; op < block->end; op++) {
		const lk_insn *insn = &engine->insn[op];
		int64_t ready = insn->what == LK_INSN_HOST ? end[LK_STREAM_HOST] : any;
		for (uint32_t streams = insn->join; streams; streams &= streams - 1)
			ready = later(ready, end[__builtin_ctz(streams)]);
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
			ready = later(ready, slot[engine->sim->deps[d]]);
		end[insn->stream] = ready + lk_lean_least(engine, rank, op);
		if (insn->slot != LK_NO_SLOT) slot[insn->slot] = end[insn->stream];
		last = later(last, end[insn->stream]);
	}
	return last;
}

/* ---- the way on ---- */

/* What a rank sends when all of its compute operations have ended, and to whom. */
typedef struct way {
	uint32_t to;   /* stage, or NOWHERE */
	int64_t takes; /* from here until the receiver's compute operations have ended */
} way;

enum {
	NOWHERE = UINT32_MAX,
	FAR = 4096 /* calls from the end that are looked at */
};

/* The operations of a program before its last call, from the last one back. */
typedef struct back {
	const lk_call *call, *first;
	uint32_t op, left; /* the present operation; calls that may still be looked at */
} back;

static bool step_back(const lk_lean *engine, back *at) {
	const lk_block *block = &engine->blocks[at->call->block];
	if (at->op > block->begin) return at->op--, true;
	do {
		if (at->call == at->first || at->left-- == 0) return false;
		block = &engine->blocks[(--at->call)->block];
		if (at->call->repeat > 1) return false; /* of messages, none is */
	} while (block->begin == block->end);
	at->op = block->end - 1;
	return true;
}

/* Messages are counted from the end: the last call must not have any. */
static bool ends_quietly(const lk_lean *engine, const lk_lean_rank *rank) {
	const lk_block *block = &engine->blocks[rank->calls_end[-1].block];
	for (uint32_t op = block->begin; op < block->end; op++)
		if (engine->insn[op].what == LK_INSN_P2P) return false;
	return true;
}

static back from_last_call(const lk_lean *engine, const lk_lean_rank *rank) {
	const lk_call *last = rank->calls_end - 1;
	return (back){last, rank->call, engine->blocks[last->block].begin, FAR};
}

/* What the rank computes from when it has waited for the last message of a channel; -1: it is not
 * known when that is. */
static int64_t computes_behind(const lk_lean *engine, const lk_lean_rank *rank, uint32_t channel,
                               int64_t *behind) {
	const lk_program *program = &engine->sim->graph->programs.at[rank->stage];
	int64_t sum = 0;
	for (uint32_t e = 0; e < program->events; e++) behind[e] = -1;
	for (back at = from_last_call(engine, rank); step_back(engine, &at);) {
		const lk_insn *insn = &engine->insn[at.op];
		if (insn->what == LK_INSN_P2P && (uint32_t)insn->channel == channel)
			return insn->signal ? behind[at.call->arg[insn->signal - 1]] : -1;
		if (insn->signal)
			behind[at.call->arg[insn->signal - 1]] = -1; /* what waits then waits for this one */
		if (!(insn->flags & LK_INSN_MAIN)) continue;
		sum += lk_lean_least(engine, rank, at.op);
		if (insn->wait) behind[at.call->arg[insn->wait - 1]] = sum;
	}
	return -1;
}

/* The message behind the last compute operation of a rank. */
static lk_status find_way(const lk_lean *engine, const lk_lean_rank *rank, lk_arena *arena,
                          way *out, lk_error *err) {
	const lk_sim *sim = engine->sim;
	*out = (way){.to = NOWHERE};
	for (back at = from_last_call(engine, rank);
	     ends_quietly(engine, rank) && step_back(engine, &at);) {
		const lk_insn *insn = &engine->insn[at.op];
		if (insn->flags & LK_INSN_MAIN) return LK_OK;
		if (insn->what != LK_INSN_P2P || !(insn->join & LK_JOIN(LK_STREAM_COMPUTE))) continue;
		lk_wire wire =
			sim->graph->wires
				.at[(size_t)rank->stage * sim->graph->channels + (uint32_t)insn->channel];
		const lk_lean_rank *to = &engine->rank[wire.stage * sim->lanes + rank->lane];
		int64_t *behind = LK_ARRAY(arena, int64_t, sim->graph->programs.at[wire.stage].events);
		if (!behind) return lk_oom(err);
		int64_t computes =
			ends_quietly(engine, to) ? computes_behind(engine, to, wire.channel, behind) : -1;
		if (computes < 0) return LK_OK;
		*out = (way){wire.stage, lk_lean_least(engine, rank, at.op) + computes};
		return LK_OK;
	}
	return LK_OK;
}

/* Tails through the tails of others, until none is longer: after as many turns as there are stages.
 */
static void lengthen_tails(lk_lean *engine, const way *ways) {
	bool longer = true;
	for (uint32_t turn = 0; longer && turn < engine->sim->stages; turn++) {
		longer = false;
		for (uint32_t i = 0; i < engine->ranks; i++) {
			lk_lean_rank *rank = &engine->rank[i];
			if (ways[i].to == NOWHERE) continue;
			int64_t tail =
				ways[i].takes + engine->rank[ways[i].to * engine->sim->lanes + rank->lane].tail;
			longer = longer || tail > rank->tail;
			rank->tail = later(rank->tail, tail);
		}
	}
}

/* ---- all of it ---- */

static int64_t computes(const lk_lean *engine, const lk_lean_rank *rank, const lk_block *block) {
	int64_t sum = 0;
	for (uint32_t op = block->begin; op < block->end; op++)
		if (engine->insn[op].flags & LK_INSN_MAIN) sum += lk_lean_least(engine, rank, op);
	return sum;
}

static lk_status look_ahead(lk_lean *engine, lk_lean_rank *rank, lk_arena *arena, way *out,
                            lk_error *err) {
	const lk_sim_stage *stage = &engine->sim->stage[rank->stage];
	*out = (way){.to = NOWHERE};
	if (rank->call == rank->calls_end) return LK_OK;
	const lk_call *last = rank->calls_end - 1;
	int64_t *slot = LK_ARRAY(arena, int64_t, engine->sim->slots);
	if (!slot) return lk_oom(err);
	for (uint32_t i = 0; i < stage->use_count; i++) {
		uint64_t times =
			stage->uses[i].times - (stage->uses[i].block == last->block ? last->repeat : 0);
		rank->ahead +=
			(int64_t)times * computes(engine, rank, &engine->blocks[stage->uses[i].block]);
	}
	if (last->repeat == 1) rank->tail = least_end(engine, rank, &engine->blocks[last->block], slot);
	return find_way(engine, rank, arena, out, err);
}

lk_status lk_lean_look_ahead(lk_lean *engine, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	way *ways = LK_ARRAY(&arena, way, engine->ranks);
	lk_status status = ways ? LK_OK : lk_oom(err);
	for (uint32_t i = 0; status == LK_OK && i < engine->ranks; i++)
		status = look_ahead(engine, &engine->rank[i], &arena, &ways[i], err);
	if (status == LK_OK) lengthen_tails(engine, ways);
	lk_arena_free(&arena);
	return status;
}
