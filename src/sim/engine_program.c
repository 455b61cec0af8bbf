/* engine_program.c: where a rank is in its program, and what follows there. */
#include "sim/sim_internal.h"

void lk_rank_open_call(const lk_engine *engine, lk_rank *rank) {
	for (; rank->call < rank->calls_end; rank->call++) {
		const lk_block *block = &engine->blocks[rank->call->block];
		if (!rank->call->repeat || block->begin == block->end) continue;
		rank->op = block->begin;
		rank->end_op = block->end;
		rank->repeats = rank->call->repeat;
		return;
	}
}

/* The operation after the present one in the program; NULL: it is the last. */
static const lk_insn *rank_next_insn(const lk_engine *engine, const lk_rank *rank) {
	if (rank->op + 1 < rank->end_op) return &engine->insn[rank->op + 1];
	if (rank->repeats > 1) return &engine->insn[engine->blocks[rank->call->block].begin];
	lk_rank after = {.call = rank->call + 1, .calls_end = rank->calls_end};
	lk_rank_open_call(engine, &after);
	return lk_rank_at_end(&after) ? NULL : &engine->insn[after.op];
}

/* It waits for all kernels, and the next one for it. */
bool lk_insn_blocks(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	if (!(insn->join & LK_JOIN(LK_STREAM_COMPUTE))) return false;
	const lk_insn *next = rank_next_insn(engine, rank);
	return next && next->stream == LK_STREAM_COMPUTE && (next->join >> insn->stream & 1);
}
