/* memory.c: bytes in use over a program. A block changes the bytes in use by a fixed amount and
 * rises above its start by a fixed amount, so a call repeated n times peaks in its first repetition
 * or in its last. */
#include "base/arena.h"
#include "sim/memory/memory.h"

#include "base/check.h"

#include <string.h>

/* Effect of operations [begin, end) on the bytes in use. */
struct lk_swing {
	double net[LK_OWNERS], total; /* change over the whole block */
	double rise;                  /* highest point above the start, at least 0 */
	uint32_t at;                  /* operation of the highest point */
	double risen[LK_OWNERS];      /* change by owner up to it */
	bool still;                   /* no change */
};

static lk_swing swing_of_block(const lk_graph *graph, const lk_block *block) {
	const lk_ops *ops = &graph->ops;
	lk_swing swing = {.at = block->begin, .still = true};
	for (uint32_t i = block->begin; i < block->end; i++) {
		swing.still = swing.still && ops->alloc[i] == 0 && ops->release[i] == 0;
		swing.net[ops->alloc_owner[i]] += ops->alloc[i];
		swing.total += ops->alloc[i];
		if (swing.total > swing.rise) {
			swing.rise = swing.total;
			swing.at = i;
			memcpy(swing.risen, swing.net, sizeof swing.risen);
		}
		swing.net[ops->release_owner[i]] -= ops->release[i];
		swing.total -= ops->release[i];
	}
	return swing;
}

static void memory_note_peak(lk_memory *memory, const double *now, double total,
                             const lk_swing *swing, uint32_t call, uint32_t repetition) {
	if (total + swing->rise <= memory->peak) return;
	memory->peak = total + swing->rise;
	for (int o = 0; o < LK_OWNERS; o++) memory->at_peak[o] = now[o] + swing->risen[o];
	memory->call = call;
	memory->repetition = repetition;
	memory->op = swing->at;
}

lk_swing *lk_memory_swings(lk_arena *arena, const lk_graph *graph) {
	lk_swing *swings = LK_ARRAY(arena, lk_swing, graph->blocks.count);
	for (size_t b = 0; swings && b < graph->blocks.count; b++)
		swings[b] = swing_of_block(graph, &graph->blocks.at[b]);
	return swings;
}

static lk_memory memory_follow(const lk_graph *graph, uint32_t stage, const lk_swing *swings,
                               double *after, double *highest) {
	LK_ASSERT(stage < graph->programs.count);
	const lk_program *program = &graph->programs.at[stage];
	double now[LK_OWNERS], total = 0;
	lk_memory memory = {0};
	for (int o = 0; o < LK_OWNERS; o++) total += now[o] = program->resident[o];
	memory.resident = memory.peak = total;
	memcpy(memory.at_peak, now, sizeof now);
	for (uint32_t c = 0; c < program->calls.count; c++) {
		const lk_call *call = &program->calls.at[c];
		lk_swing own;
		if (!swings) own = swing_of_block(graph, &graph->blocks.at[call->block]);
		const lk_swing *swing = swings ? &swings[call->block] : &own;
		if (swing->still && !after && !highest) continue; /* messages and waits */
		double times = call->repeat - 1.0, last = total + times * swing->total;
		memory_note_peak(&memory, now, total, swing, c, 0);
		if (highest) highest[c] = (last > total ? last : total) + swing->rise;
		for (int o = 0; o < LK_OWNERS; o++) now[o] += times * swing->net[o];
		total = last;
		if (times > 0) memory_note_peak(&memory, now, total, swing, c, call->repeat - 1);
		for (int o = 0; o < LK_OWNERS; o++) now[o] += swing->net[o];
		total += swing->total;
		LK_ASSERT(memory.peak >= total - 1 &&
		          total > -1 - 1e-9 * memory.peak); /* whole bytes, except for rounding */
		if (after) after[c] = total;
	}
	return memory;
}

lk_memory lk_memory_walk(const lk_graph *graph, uint32_t stage) {
	return memory_follow(graph, stage, NULL, NULL, NULL);
}

lk_memory lk_memory_walk_with(const lk_graph *graph, const lk_swing *swings, uint32_t stage) {
	return memory_follow(graph, stage, swings, NULL, NULL);
}

void lk_memory_series(const lk_graph *graph, uint32_t stage, double *after, double *highest) {
	memory_follow(graph, stage, NULL, after, highest);
}
