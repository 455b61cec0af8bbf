/* engine_program.c: a rank's place in its program, and the operations after it. */
#include "sim/engine.h"

typedef struct program_place {
	const lk_call *call, *end;
	uint32_t op, end_op, repeats;
} program_place;

/* Open the call, or the next one with operations; false: none. */
static bool place_open_call(const lk_engine *engine, program_place *at) {
	for (; at->call < at->end; at->call++) {
		const lk_block *block = &engine->blocks[at->call->block];
		if (!at->call->repeat || block->begin == block->end) continue;
		at->op = block->begin;
		at->end_op = block->end;
		at->repeats = at->call->repeat;
		return true;
	}
	return false;
}

/* Move to the next operation; false: the current one is the last. */
static bool place_step(const lk_engine *engine, program_place *at) {
	if (++at->op < at->end_op) return true;
	if (--at->repeats > 0) {
		at->op = engine->blocks[at->call->block].begin;
		return true;
	}
	at->call++;
	return place_open_call(engine, at);
}

static program_place place_of(const lk_rank *rank) {
	return (program_place){rank->call, rank->calls_end, rank->op, rank->end_op, rank->repeats};
}

void lk_rank_open_call(const lk_engine *engine, lk_rank *rank) {
	program_place at = place_of(rank);
	bool opened = place_open_call(engine, &at);
	rank->call = at.call;
	if (!opened) return;
	rank->op = at.op;
	rank->end_op = at.end_op;
	rank->repeats = at.repeats;
}

/* Whether it waits for all kernels, and the next one waits for it. */
bool lk_insn_blocks(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	program_place at = place_of(rank);
	if (!(insn->join & LK_JOIN(LK_STREAM_COMPUTE)) || !place_step(engine, &at)) return false;
	const lk_insn *next = &engine->insn[at.op];
	return next->stream == LK_STREAM_COMPUTE && (next->join >> insn->stream & 1);
}

/* Whether `insn` of the call at `at` waits for the message, by its stream or by its event. */
static bool insn_awaits_message(const lk_insn *insn, const lk_call *call, const lk_insn *message,
                                const lk_call *message_call) {
	if (insn->join >> message->stream & 1) return true;
	return insn->wait && message->signal &&
	       call->arg[insn->wait - 1] == message_call->arg[message->signal - 1];
}

uint32_t lk_messages_block(const lk_engine *engine, const lk_rank *rank, uint32_t *ops) {
	const lk_call *call[LK_PARKED_MOST];
	uint32_t count = 0, streams = 0;
	program_place at = place_of(rank);
	const lk_insn *insn = &engine->insn[at.op];
	while (insn->what == LK_INSN_P2P) {
		if (count == LK_PARKED_MOST || !(insn->join & LK_JOIN(LK_STREAM_COMPUTE))) return 0;
		if ((insn->join & streams) || (insn->flags & LK_INSN_EXTRA)) return 0;
		streams |= LK_JOIN(insn->stream);
		ops[count] = at.op;
		call[count++] = at.call;
		if (!place_step(engine, &at)) return 0;
		insn = &engine->insn[at.op];
	}
	if (insn->stream != LK_STREAM_COMPUTE) return 0;
	for (uint32_t i = 0; i < count; i++)
		if (!insn_awaits_message(insn, at.call, &engine->insn[ops[i]], call[i])) return 0;
	return count;
}
