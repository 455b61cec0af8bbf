/* comm.c: communication operations of the graph as collectives and messages of the network model.
 */
#include <math.h>

#include "cost/cost.h"
#include "cost/kernel/kernel.h"
#include "cost/collective/nccl.h"
#include "base/check.h"

static lk_coll_kind comm_collective_of(unsigned kind) {
	switch (kind) {
	case LK_OP_ALLREDUCE: return LK_COLL_ALLREDUCE;
	case LK_OP_ALLGATHER: return LK_COLL_ALLGATHER;
	case LK_OP_REDUCESCATTER: return LK_COLL_REDUCESCATTER;
	case LK_OP_ALLTOALL: return LK_COLL_ALLTOALL;
	default: return LK_COLL_BROADCAST;
	}
}

static double comm_share(double rate, double capacity) {
	return capacity > 0 ? fmin(1, rate / capacity) : 0;
}

/* A dispatcher that sends one copy per node, and inside a node one per rank: of top-k copies only
 * those to distinct places leave, N (1 - (1 - 1/N)^k) on average with even routing. `topk` 0: a
 * copy per expert. */
static double copies_share(const lk_group_shape *group, double topk) {
	double places = group->nodes > 1 ? group->nodes : group->ranks;
	return topk > 0 && places > 1 ? places * (1 - pow(1 - 1 / places, topk)) / topk : 1;
}

static bool to_next_stage(unsigned stream) {
	return stream == LK_STREAM_SEND_FORWARD || stream == LK_STREAM_RECV_BACKWARD ||
	       stream == LK_STREAM_RECV_FORWARD_UP || stream == LK_STREAM_SEND_BACKWARD_UP;
}

/* By one kernel that reads and writes its peers' memory, with a proxy that posts to NICs: bytes at
 * the links' rates, and one crossing of 14 us to another node as in NCCL's own table. NICs reach
 * 0.96 of their line rate, as rings do. All-reduce: a reduce-scatter and an all-gather inside the
 * node in blocks, alongside them each GPU's part through the switches, which add up.
 */
static lk_coll_cost direct(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                           const lk_group_shape *group) {
	LK_ASSERT(op < graph->ops.count);
	const lk_node *node = site->node;
	double bytes = graph->ops.bytes[op], n = group->ranks, own = group->ranks_per_node;
	bool sums = graph->ops.kind[op] == LK_OP_ALLREDUCE;
	double inside = sums ? 2 * bytes * (own - 1) / own : bytes * (own - 1) / n;
	double outside;
	if (sums) {
		if (n > own) outside = bytes / own;
		else outside = 0;
	} else outside = bytes * (n - own) / n;
	double nic = 0.96 * node->nics * node->nic_rate / (node->gpus > 0 ? node->gpus : 1);
	double across = outside > 0 && nic > 0 ? outside / nic + 14e-6 : 0;
	double within = node->intra_rate > 0 ? inside / node->intra_rate : 0;
	if (node->intra == LK_INTRA_PCIE && own > 4) {
		/* an all-reduce's ring crosses once, an all-to-all half of all */
		double crossing = sums ? inside : lk_bridge_bytes(own, n, bytes);
		within = fmax(within, crossing / (lk_host_bridge_rate(node->device) * 1e9));
	}
	double seconds = fmax(within, across) + site->constants->kernel_floor_s;
	return (lk_coll_cost){.seconds = seconds,
	                      .algo = LK_ALGO_P2P,
	                      .channels = 16,
	                      .memory_rate = 2 * (inside + outside) / seconds,
	                      .intra_rate = inside / seconds,
	                      .nic_rate = outside / seconds};
}

void lk_cost_comm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	unsigned kind = ops->kind[op];
	lk_coll_cost cost;
	if (kind == LK_OP_SEND || kind == LK_OP_RECV) {
		const lk_group_shape *pair =
			ops->group[op] == LK_GROUP_TEAM ? lk_site_group(site, graph, op) : NULL;
		bool same_node =
			pair ? pair->nodes == 1 : site->peer_same_node[to_next_stage(ops->stream[op]) ? 0 : 1];
		int sharing = pair ? pair->sharing : site->groups[LK_GROUP_PP].sharing;
		cost = lk_p2p_cost(site->node, same_node, sharing > 0 ? sharing : 1, site->oversubscription,
		                   &site->constants->nccl, ops->bytes[op]);
	} else {
		const lk_group_shape *group = lk_site_group(site, graph, op);
		if (ops->flags[op] & LK_OP_DIRECT) cost = direct(graph, op, site, group);
		else
			cost = lk_collective_cost(comm_collective_of(kind), group,
			                          ops->bytes[op] * copies_share(group, ops->k[op]));
	}
	double seconds =
		cost.seconds / (ops->flags[op] & LK_OP_DIRECT ? 1 : site->constants->network_efficiency);
	if (ops->flags[op] & LK_OP_OVERLAPPED)
		seconds /= 4; /* pipelined in four pieces with its GEMM: the first shows */
	lk_cost_set(out, seconds);
	out->sm = (float)fmin(0.5, device->sms > 0 ? (double)cost.channels / device->sms : 0);
	out->compute = 0;
	out->memory = (float)comm_share(cost.memory_rate, device->memory_rate);
	out->intra = (float)comm_share(cost.intra_rate, site->node->intra_rate);
	double nic =
		site->node->nics * site->node->nic_rate / (site->node->gpus > 0 ? site->node->gpus : 1);
	out->nic = (float)comm_share(cost.nic_rate, nic);
}
