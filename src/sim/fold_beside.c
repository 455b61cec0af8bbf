/* fold_beside.c: what goes on beside folded operations: messages between stages, gradients and
 * parameters of data parallelism.
 *
 * How much a folded operation is slowed by it depends on each kernel inside: on its waves, on what
 * it waits for, on its memory traffic. So each is asked how it runs beside the mean of what there
 * is, and the folded one is slowed as much. */
#include "sim/fold.h"

bool lk_fold_is_traffic(const lk_graph *graph, uint32_t op) {
	unsigned group = graph->ops.group[op];
	return lk_op_is_collective(graph->ops.kind[op]) && group >= LK_GROUP_DP &&
	       group <= LK_GROUP_REPLICA;
}

static bool is_beside(const lk_graph *graph, uint32_t op) {
	unsigned kind = graph->ops.kind[op];
	bool team = lk_op_is_comm(kind) && graph->ops.group[op] == LK_GROUP_TEAM;
	return kind == LK_OP_SEND || kind == LK_OP_RECV || team || lk_fold_is_traffic(graph, op);
}

uint32_t lk_fold_foreign(const lk_graph *graph) {
	uint32_t streams = 0;
	for (uint32_t op = 0; op < graph->ops.count; op++)
		if (is_beside(graph, op)) streams |= LK_JOIN(graph->ops.stream[op]);
	return streams & ~(LK_JOIN(LK_STREAM_COMPUTE) | LK_JOIN(LK_STREAM_HOST));
}

typedef struct sums {
	double time, sm, memory;
} sums;

static sums sums_of_block(const lk_graph *graph, const lk_costs *costs, const lk_block *block) {
	sums s = {0};
	for (uint32_t op = block->begin; op < block->end; op++) {
		if (!is_beside(graph, op)) continue;
		const lk_cost *c = lk_costs_get(costs, 0, op);
		double d = (double)c->duration_ps;
		s.time += d, s.sm += d * (double)c->sm, s.memory += d * (double)c->memory;
	}
	return s;
}

static lk_cost mean_of(const lk_graph *graph, const lk_costs *costs, const double *times) {
	sums all = {0};
	for (size_t b = 0; b < graph->blocks.count; b++) {
		if (!(times[b] > 0)) continue;
		sums one = sums_of_block(graph, costs, &graph->blocks.at[b]);
		all.time += times[b] * one.time, all.sm += times[b] * one.sm,
			all.memory += times[b] * one.memory;
	}
	if (!(all.time > 0)) return (lk_cost){0};
	/* a trace of a link: data moves, which slows kernels that wait for memory; links are shared
	 * elsewhere */
	return (lk_cost){
		.sm = (float)(all.sm / all.time), .memory = (float)(all.memory / all.time), .nic = 1e-6F};
}

lk_cost lk_fold_beside(const lk_graph *graph, const lk_costs *costs, const lk_fold_times *times) {
	lk_cost mean = mean_of(graph, costs, times->passes);
	return mean.nic > 0 ? mean : mean_of(graph, costs, times->all);
}

double lk_fold_slowed(const lk_cost *kernel, const lk_cost *beside) {
	double rates[2];
	lk_contention_rates((const lk_cost *const[]){kernel, beside}, (const bool[]){false, true}, 2,
	                    rates);
	return 1 / rates[0] - 1;
}
