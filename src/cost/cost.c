/* cost.c: the family for each operation, and the host time of its launch.
 *
 * Order of sources for a duration: measured in the trace, measured on the device as rates, then the
 * family's analytic model. Lifted traces hold launches as operations: nothing else takes host time,
 * and a measured time of 0 is 0. */
#include "cost/cost.h"

#include <math.h>

#include "cost/kernel/laws.h"

#include "base/check.h"

typedef void (*lk_cost_family)(const lk_graph *, uint32_t, const lk_cost_site *, lk_cost *);

static const lk_cost_family family_of[LK_OP_COUNT] = {
	[LK_OP_GEMM] = lk_cost_gemm,
	[LK_OP_GROUPED_GEMM] = lk_cost_grouped_gemm,
	[LK_OP_CONV] = lk_cost_conv,
	[LK_OP_ATTENTION] = lk_cost_attention,
	[LK_OP_ATTENTION_BWD] = lk_cost_attention,
	[LK_OP_SOFTMAX] = lk_cost_memory,
	[LK_OP_SCAN] = lk_cost_scan,
	[LK_OP_SCAN_BWD] = lk_cost_scan,
	[LK_OP_NORM] = lk_cost_memory,
	[LK_OP_ELEMENTWISE] = lk_cost_memory,
	[LK_OP_PERMUTE] = lk_cost_memory,
	[LK_OP_EMBEDDING] = lk_cost_embedding,
	[LK_OP_LOSS] = lk_cost_memory,
	[LK_OP_OPTIMIZER] = lk_cost_memory,
	[LK_OP_COPY] = lk_cost_copy,
	[LK_OP_HOST] = lk_cost_host,
	[LK_OP_ALLREDUCE] = lk_cost_comm,
	[LK_OP_ALLGATHER] = lk_cost_comm,
	[LK_OP_REDUCESCATTER] = lk_cost_comm,
	[LK_OP_ALLTOALL] = lk_cost_comm,
	[LK_OP_BROADCAST] = lk_cost_comm,
	[LK_OP_SEND] = lk_cost_comm,
	[LK_OP_RECV] = lk_cost_comm,
};

/* Host time to issue an operation: nearly nothing within a CUDA graph, nothing of its own for a
 * collective there, whose time, as NCCL's tests take it, holds its launch; torch.compile fuses the
 * element-wise launches. */
static double launch_seconds(const lk_graph *graph, uint32_t op, const lk_cost_site *site) {
	LK_ASSERT(op < graph->ops.count);
	const lk_constants *constants = site->constants;
	unsigned kind = graph->ops.kind[op];
	if (kind == LK_OP_WAIT || kind == LK_OP_HOST || graph->traced) return 0;
	bool experts = kind == LK_OP_GROUPED_GEMM || kind == LK_OP_PERMUTE;
	bool eager = !site->cuda_graphs || (experts && site->experts_eager);
	if (!eager) return lk_op_is_comm(kind) ? 0 : constants->graph_launch_s;
	if (kind == LK_OP_GROUPED_GEMM && !constants->grouped_experts)
		return constants->launch_s + constants->expert_call_s +
		       constants->expert_launch_s * graph->ops.batch[op];
	bool fusible = kind == LK_OP_NORM || kind == LK_OP_ELEMENTWISE;
	return site->compiled && fusible ? constants->launch_s / 2 : constants->launch_s;
}

lk_status lk_cost_ready(lk_error *err) {
	LK_TRY(lk_gemm_ready(err));
	LK_TRY(lk_laws_ready(err));
	return lk_coll_ready(err);
}

lk_cost lk_cost_op(const lk_graph *graph, uint32_t op, const lk_cost_site *site) {
	LK_ASSERT(op < graph->ops.count);
	lk_cost cost = {.spread = 1};
	bool nothing = graph->traced && graph->ops.kind[op] == LK_OP_HOST;
	lk_cost_family family = nothing ? NULL : family_of[graph->ops.kind[op]];
	double pieces = fmax(1, graph->ops.pieces[op]);
	if (family && !lk_cost_measured(graph, op, site, &cost)) family(graph, op, site, &cost);
	if (!lk_op_is_comm(graph->ops.kind[op]))
		cost.duration_ps = llround((double)cost.duration_ps / pieces);
	if (graph->ops.measured_ps[op] > 0) cost.duration_ps = graph->ops.measured_ps[op];
	cost.host_ps = lk_cost_picoseconds(launch_seconds(graph, op, site) / pieces);
	cost.lead_ps = cost.host_ps;
	cost.tail_ps = cost.duration_ps;
	return cost;
}
