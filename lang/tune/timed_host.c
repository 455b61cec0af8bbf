/* timed_host.c: communication of ranks that are processes on hosts: MPI's collectives
 * (cost/collective/host_collective.c) in place of those of GPUs. Inside a node messages are copies
 * through memory that computation uses too, so concurrent ones slow each other down. */
#include <math.h>

#include "base/arena.h"
#include "base/units.h"
#include "cost/collective/collective.h"
#include "lang/tune/tune.h"
#include "base/check.h"

/* Members of a group: of an axis that is chains, or of a team; the first one represents all. */
struct members {
	const lk_graph *graph;
	const lk_cluster *cluster;
	uint32_t ranks, first, step;
};

static struct members host_group_of(const lk_graph *graph, const lk_cluster *cluster, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	unsigned kind = graph->ops.group[op];
	if (kind != LK_GROUP_TEAM)
		return (struct members){graph, cluster, graph->ranks.group[kind].size, 0,
		                        graph->ranks.group[kind].stride};
	const lk_team *team = &graph->teams.at[graph->ops.channel[op]];
	uint32_t a = graph->team_stages.at[team->begin],
			 b = team->end - team->begin > 1 ? graph->team_stages.at[team->begin + 1] : a;
	return (struct members){graph, cluster, team->ranks, lk_rank_of(graph, a, 0),
	                        (b - a) * graph->ranks.chains};
}

static lk_group_shape host_shape_of(const struct members *members) {
	int nodes = 0, last = -1, most = 0, run = 0;
	lk_place place = {0};
	for (uint32_t i = 0; i < members->ranks; i++) {
		place = lk_cluster_place(members->cluster, (int)(members->first + i * members->step));
		if (place.node != last) {
			nodes++;
			run = 0;
			last = place.node;
		}
		if (++run > most) most = run;
	}
	const lk_node *node = &members->cluster->node[place.group];
	int sharing = nodes > 1 && most > 0 ? node->gpus / most : 1;
	return (lk_group_shape){.node = node,
	                        .ranks = (int)members->ranks,
	                        .nodes = nodes,
	                        .ranks_per_node = most,
	                        .sharing = sharing > 0 ? sharing : 1,
	                        .oversubscription = members->cluster->oversubscription};
}

static lk_coll_kind host_kind_of(unsigned kind) {
	switch (kind) {
	case LK_OP_ALLREDUCE: return LK_COLL_ALLREDUCE;
	case LK_OP_ALLGATHER: return LK_COLL_ALLGATHER;
	case LK_OP_REDUCESCATTER: return LK_COLL_REDUCESCATTER;
	case LK_OP_ALLTOALL: return LK_COLL_ALLTOALL;
	case LK_OP_BROADCAST: return LK_COLL_BROADCAST;
	default: return LK_COLL_SENDRECV;
	}
}

static void host_set_seconds(lk_costs *costs, uint32_t op, double seconds, bool between) {
	for (uint32_t v = 0; v < costs->variants; v++) {
		lk_cost *cost = &costs->at[(size_t)v * costs->ops + op];
		cost->duration_ps = cost->tail_ps = llround(fmin(seconds, 1e6) * LK_PS_PER_S);
		cost->sm = cost->intra = 0;
		cost->memory = between ? 0 : 1;
		cost->nic = between ? 1 : 0;
	}
}

/* Whether the previous operation of the rank is a collective too: then ranks arrive together, as
 * they left that one. */
static bool host_follows(const lk_graph *graph, uint32_t op) {
	return op > 0 && graph->ops.join[op] && lk_op_is_comm(graph->ops.kind[op - 1]) &&
	       graph->ops.stream[op] == graph->ops.stream[op - 1];
}

/* An operation that waits for all earlier ones is a collective of the MPI library, as measured;
 * overlapping ones are built from messages by the generated program. */
static double host_seconds(const lk_graph *graph, uint32_t op, const lk_group_shape *shape,
                           const lk_host_messages *messages, const lk_host_messages *own) {
	return lk_host_collective_measured(graph->ops.join[op] ? messages : own,
	                                   host_kind_of(graph->ops.kind[op]), shape,
	                                   graph->ops.bytes[op], host_follows(graph, op))
	    .seconds;
}

/* Seconds that a rank takes to add narrow formats in a library collective: each element of the
 * other ranks once. */
static double host_reduction(const lk_graph *graph, uint32_t op, const lk_group_shape *shape,
                             const lk_device *device, double share) {
	lk_dtype dtype = (lk_dtype)graph->ops.dtype[op];
	bool reduces =
		graph->ops.kind[op] == LK_OP_ALLREDUCE || graph->ops.kind[op] == LK_OP_REDUCESCATTER;
	if (!reduces || !graph->ops.join[op] || device->clock_hz <= 0 || shape->ranks < 2) return 0;
	double elements =
		graph->ops.bytes[op] / (dtype == LK_FP8 ? 1 : 2) * (shape->ranks - 1) / shape->ranks;
	return share * elements * lc_reduction_cycles(dtype) / device->clock_hz;
}

/* A pass takes the longer of its arithmetic and its memory time. */
static void host_set_arithmetic(const lk_graph *graph, uint32_t op, const lk_device *device,
                                double share, lk_costs *costs) {
	double seconds = device->clock_hz > 0 ? share * graph->ops.flops[op] / device->clock_hz : 0;
	for (uint32_t v = 0; v < costs->variants; v++) {
		lk_cost *cost = &costs->at[(size_t)v * costs->ops + op];
		int64_t ps = llround(fmin(seconds, 1e6) * LK_PS_PER_S);
		if (ps <= cost->duration_ps) continue;
		cost->memory *= (float)((double)cost->duration_ps / (double)ps);
		cost->duration_ps = cost->tail_ps = ps;
	}
}

void lk_timed_on_hosts(const lk_graph *graph, const lk_cluster *cluster,
                       const lk_host_messages *messages, lk_costs *costs) {
	lk_host_messages own = {.inside = {.count = 0}};
	if (messages) own.inside = messages->inside, own.between = messages->between;
	double share =
		messages && messages->gelu_cycles > 0 ? messages->gelu_cycles / lc_gelu_cycles() : 1;
	for (uint32_t op = 0; op < graph->ops.count; op++) {
		if (graph->ops.kind[op] == LK_OP_ELEMENTWISE)
			host_set_arithmetic(graph, op, cluster->node[0].device, share, costs);
		if (!lk_op_is_comm(graph->ops.kind[op])) continue;
		struct members m = host_group_of(graph, cluster, op);
		lk_group_shape shape = host_shape_of(&m);
		host_set_seconds(costs, op,
		                 host_seconds(graph, op, &shape, messages, &own) +
		                     host_reduction(graph, op, &shape, cluster->node[0].device, share),
		                 shape.nodes > 1);
	}
}

lk_status lk_timed_share_host(lk_arena *arena, int64_t ranks, lk_cluster *cluster, lk_error *err) {
	if (cluster->groups != 1 || cluster->nodes[0] != 1 ||
	    cluster->node[0].device->arch != LK_ARCH_CPU || ranks <= cluster->gpus || ranks > LC_RANKS)
		return LK_OK;
	lk_device *part = LK_NEW(arena, lk_device);
	lk_node *node = LK_NEW(arena, lk_node);
	if (!part || !node) return lk_oom(err);
	*part = *cluster->node[0].device;
	*node = cluster->node[0];
	double share = (double)cluster->gpus / (double)ranks;
	for (int d = 0; d < LK_DTYPES; d++) part->peak_flops[d] *= share;
	part->vector_flops *= share;
	part->clock_hz *= fmin(1, fmax(1, part->sms) * share);
	part->memory_rate *= share;
	part->gemm_flops *= share;
	part->stream_rate *= share;
	node->device = part;
	node->gpus = cluster->gpus = (int)ranks;
	cluster->node = node;
	return LK_OK;
}
