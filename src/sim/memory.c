/* memory.c: the allocator's walk. A block changes the bytes in use by a fixed amount and rises
 * above its start by a fixed amount, so a call repeated n times peaks in its first repetition or in
 * its last. */
#include "sim/memory.h"

#include <string.h>

/* Effect of operations [begin, end) on the bytes in use. */
struct lk_swing {
	double net[LK_OWNERS], total; /* change over the whole block */
	double rise;                  /* highest point above the start, at least 0 */
	uint32_t at;                  /* operation of the highest point */
	double risen[LK_OWNERS];      /* change by owner up to it */
	bool still;                   /* nothing changes */
};

static lk_swing swing_of(const lk_graph *graph, const lk_block *block) {
	const lk_ops *ops = &graph->ops;
	lk_swing s = {.at = block->begin, .still = true};
	for (uint32_t i = block->begin; i < block->end; i++) {
		s.still = s.still && ops->alloc[i] == 0 && ops->release[i] == 0;
		s.net[ops->alloc_owner[i]] += ops->alloc[i];
		s.total += ops->alloc[i];
		if (s.total > s.rise) {
			s.rise = s.total, s.at = i;
			memcpy(s.risen, s.net, sizeof s.risen);
		}
		s.net[ops->release_owner[i]] -= ops->release[i];
		s.total -= ops->release[i];
	}
	return s;
}

static void note_peak(lk_memory *m, const double *now, double total, const lk_swing *s,
                      uint32_t call, uint32_t repetition) {
	if (total + s->rise <= m->peak) return;
	m->peak = total + s->rise;
	for (int o = 0; o < LK_OWNERS; o++) m->at_peak[o] = now[o] + s->risen[o];
	m->call = call, m->repetition = repetition, m->op = s->at;
}

lk_swing *lk_memory_swings(lk_arena *arena, const lk_graph *graph) {
	lk_swing *swings = LK_ARRAY(arena, lk_swing, graph->blocks.count);
	for (size_t b = 0; swings && b < graph->blocks.count; b++)
		swings[b] = swing_of(graph, &graph->blocks.at[b]);
	return swings;
}

static lk_memory walk(const lk_graph *graph, uint32_t stage, const lk_swing *swings, double *after,
                      double *highest) {
	const lk_program *program = &graph->programs.at[stage];
	double now[LK_OWNERS], total = 0;
	lk_memory m = {0};
	for (int o = 0; o < LK_OWNERS; o++) total += now[o] = program->resident[o];
	m.resident = m.peak = total;
	memcpy(m.at_peak, now, sizeof now);
	for (uint32_t c = 0; c < program->calls.count; c++) {
		const lk_call *call = &program->calls.at[c];
		lk_swing own;
		if (!swings) own = swing_of(graph, &graph->blocks.at[call->block]);
		const lk_swing *s = swings ? &swings[call->block] : &own;
		if (s->still && !after && !highest) continue; /* messages and waits */
		double times = call->repeat - 1.0, last = total + times * s->total;
		note_peak(&m, now, total, s, c, 0);
		if (highest) highest[c] = (last > total ? last : total) + s->rise;
		for (int o = 0; o < LK_OWNERS; o++) now[o] += times * s->net[o];
		total = last;
		if (times > 0) note_peak(&m, now, total, s, c, call->repeat - 1);
		for (int o = 0; o < LK_OWNERS; o++) now[o] += s->net[o];
		total += s->total;
		if (after) after[c] = total;
	}
	return m;
}

lk_memory lk_memory_walk(const lk_graph *graph, uint32_t stage) {
	return walk(graph, stage, NULL, NULL, NULL);
}

lk_memory lk_memory_walk_with(const lk_graph *graph, const lk_swing *swings, uint32_t stage) {
	return walk(graph, stage, swings, NULL, NULL);
}

void lk_memory_series(const lk_graph *graph, uint32_t stage, double *after, double *highest) {
	walk(graph, stage, NULL, after, highest);
}
