/* fold_parts.c: which operations inside a block fold. A call that asks for sharded weights or
 * scatters gradients does not fold as a whole, because that traffic and its events go on behind
 * other calls; what it computes in between does. A part is a stretch of operations that begins on
 * the compute stream, and behind which nothing of it is under way elsewhere. */
#include "sim/fold.h"

enum {
	LEAST = 2
}; /* operations of a part */

/* Nothing of this operation concerns what is outside the part that begins at `begin`. */
static bool inside(const lk_graph *graph, const lk_block *block, uint32_t begin, uint32_t op,
                   uint32_t foreign) {
	const lk_ops *ops = &graph->ops;
	if (lk_fold_meets(graph, op) || lk_fold_is_traffic(graph, op)) return false;
	if (op > begin && (ops->join[op] & foreign)) return false;
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++)
		if (block->begin + ops->deps[d] < begin) return false;
	return true;
}

/* Traffic should meet about the kernels that it would meet, not the mean of a layer: parts are a
 * quarter as long as the shortest of it. */
int64_t lk_fold_part_most(const lk_graph *graph, const lk_costs *costs) {
	int64_t least = 0;
	for (uint32_t op = 0; op < graph->ops.count; op++) {
		int64_t time = lk_fold_is_traffic(graph, op) ? lk_costs_get(costs, 0, op)->duration_ps : 0;
		if (time > 0 && (least == 0 || time < least)) least = time;
	}
	return least / 4;
}

uint32_t lk_fold_part(const lk_graph *graph, const lk_costs *costs, const lk_block *block,
                      uint32_t begin, uint32_t foreign, int64_t most_ps) {
	const lk_ops *ops = &graph->ops;
	uint32_t end = begin, open = 0; /* streams beside compute on which something may be under way */
	int64_t time = 0;
	if (ops->stream[begin] != LK_STREAM_COMPUTE) return begin;
	for (uint32_t op = begin; op < block->end && inside(graph, block, begin, op, foreign); op++) {
		unsigned stream = ops->stream[op];
		if (stream == LK_STREAM_COMPUTE) open &= ~ops->join[op];
		else if (stream != LK_STREAM_HOST) open |= LK_JOIN(stream);
		time += lk_costs_get(costs, 0, op)->duration_ps;
		if (open) continue;
		end = op + 1;
		if (time > most_ps) break;
	}
	return end - begin < LEAST ? begin : end;
}
