/* comm.c: communication operations of the graph as collectives and messages of the network
 * model. */
#include <limits.h>
#include <math.h>

#include "cost/cost.h"
#include "cost/kernel/kernel.h"
#include "cost/collective/nccl.h"
#include "base/units.h"
#include "base/check.h"
#include "base/stats.h"

static lk_coll_kind comm_collective_of(unsigned kind) {
	switch (kind) {
	case LK_OP_ALLREDUCE: return LK_COLL_ALLREDUCE;
	case LK_OP_ALLGATHER: return LK_COLL_ALLGATHER;
	case LK_OP_REDUCESCATTER: return LK_COLL_REDUCESCATTER;
	case LK_OP_ALLTOALL: return LK_COLL_ALLTOALL;
	default: return LK_COLL_BROADCAST;
	}
}

enum {
	DISPATCH_SMS = 20 /* DeepSeek-V3 report, section 3.2.2 */
};

/* The number of `places` that hold the `limit` of `groups` of experts which a row may use: each
 * group spans places / groups of them, or each place holds groups / places; of C(groups, limit)
 * choices, count those that leave a place out. */
static double places_within(double places, double groups, double limit) {
	if (limit <= 0 || limit >= groups) return places;
	if (places >= groups) return places * limit / groups;
	double held = groups / places, without = 1;
	for (double i = 0; i < limit; i++) without *= fmax(0, groups - held - i) / (groups - i);
	return places * (1 - without);
}

/* Copies of a row that leave if one goes to each place: the distinct places of top-k, N (1 - (1 -
 * 1/N)^k) on average with even routing over N. */
static double row_copies(const lk_ops *ops, uint32_t op, double places) {
	double within = places_within(places, ops->n[op], ops->m[op]);
	return within > 1 ? within * (1 - pow(1 - 1 / within, ops->k[op])) : 1;
}

static bool to_next_stage(unsigned stream) {
	return stream == LK_STREAM_SEND_FORWARD || stream == LK_STREAM_RECV_BACKWARD ||
	       stream == LK_STREAM_RECV_FORWARD_UP || stream == LK_STREAM_SEND_BACKWARD_UP;
}

/* Cost of one kernel that reads and writes its peers' memory, with a proxy that posts to NICs:
 * bytes at the links' rates, and one crossing of 14 us to another node as in NCCL's own table. NICs
 * reach 0.96 of their line rate, as in rings. All-reduce: a reduce-scatter and an all-gather within
 * the node in blocks, overlapped with each GPU's part through the switches, which reduce. */
static lk_coll_cost direct(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                           const lk_group_shape *group, double bytes) {
	LK_ASSERT(op < graph->ops.count);
	const lk_node *node = site->node;
	double n = group->ranks, own = group->ranks_per_node;
	bool sums = graph->ops.kind[op] == LK_OP_ALLREDUCE;
	double inside = sums ? 2 * bytes * (own - 1) / own : bytes * (own - 1) / n;
	double outside;
	if (sums) {
		if (n > own) outside = bytes / own;
		else outside = 0;
	} else outside = bytes * (n - own) / n;
	double part = lk_reach_rate(group->reach, sums ? LK_TRAFFIC_RING : LK_TRAFFIC_ALLTOALL);
	double nic = 0.96 * part * node->nics * node->nic_rate / (node->gpus > 0 ? node->gpus : 1);
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

/* The kernels of such a dispatcher: within a node a row goes to each rank once. Between nodes it
 * crosses the network once per node, to the GPU of the sender's number, which forwards it over the
 * node's links to each rank once; both overlap, and the way back is reversed. Rates reached by
 * DeepEP's own tests on H800 with a 400 Gb/s NIC per GPU (deepseek-ai/DeepEP, docs/legacy.md): on
 * one node 153 GB/s out and 158 back counting the own rank's rows, thus 0.83 of NVLink's rate; 58
 * and 51 GB/s counting the own node's rows on 4 and 8 nodes, thus 0.88 of the line rate for
 * outgoing rows; 43 on 2 nodes, where forwarding limits, thus 0.74 of NVLink's rate. It uses no
 * library of collectives. */
static lk_coll_cost dispatched(const lk_ops *ops, uint32_t op, const lk_cost_site *site,
                               const lk_group_shape *group, double bytes) {
	const lk_node *node = site->node;
	double row = bytes / ops->k[op], own = group->ranks_per_node;
	double outside = row * row_copies(ops, op, group->nodes) * (1 - 1.0 / group->nodes),
		   inside = row * row_copies(ops, op, group->ranks) * (1 - 1 / own);
	double nic = 0.88 * node->nics * node->nic_rate / (node->gpus > 0 ? node->gpus : 1) /
	             fmax(1, site->oversubscription) * lk_reach_rate(group->reach, LK_TRAFFIC_ALLTOALL);
	double across = outside > 0 && nic > 0 ? outside / nic + 14e-6 : 0;
	double links = (outside > 0 ? 0.74 : 0.83) * node->intra_rate;
	double within = links > 0 ? inside / links : 0;
	double seconds = fmax(within, across) + site->constants->kernel_floor_s;
	return (lk_coll_cost){.seconds = seconds,
	                      .algo = LK_ALGO_P2P,
	                      .channels = DISPATCH_SMS,
	                      .memory_rate = 2 * (inside + outside) / seconds,
	                      .intra_rate = inside / seconds,
	                      .nic_rate = outside / seconds};
}

uint32_t lk_cost_product_beside(const lk_ops *ops, uint32_t op) {
	enum { NEAR = 8 };
	bool feeds = ops->kind[op] == LK_OP_ALLGATHER;
	if (!feeds && ops->kind[op] != LK_OP_REDUCESCATTER) return UINT32_MAX;
	for (uint32_t i = 1; i <= NEAR; i++) {
		if (feeds ? op + i >= ops->count : op < i) return UINT32_MAX;
		uint32_t other = feeds ? op + i : op - i;
		if (ops->kind[other] == LK_OP_GEMM) return other;
		if (ops->kind[other] == LK_OP_GROUPED_GEMM) return UINT32_MAX;
	}
	return UINT32_MAX;
}

/* What a collective that runs in pieces with its product adds to the time of the whole product. A
 * gather as a ring brings one rank's rows at a time, the first of which are there (Transformer
 * Engine's ring exchange, PyTorch's symmetric memory); a reduction takes four pieces, each as
 * soon as it is computed (Transformer Engine's pipeline). Whichever of the two is slower runs
 * without a pause; pieces of a product run on several streams, so that their last waves overlap.
 * The SMs that the reduction holds slow the product. */
static double pieced_seconds(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                             const lk_group_shape *group, double seconds, double taken) {
	uint32_t product = lk_cost_product_beside(&graph->ops, op);
	if (product == UINT32_MAX || group->ranks < 2) return seconds;
	bool gather = graph->ops.kind[op] == LK_OP_ALLGATHER;
	double pieces = gather ? group->ranks : 4, all;
	lk_cost product_cost = {.spread = 1};
	lk_cost_gemm(graph, product, site, &product_cost);
	double whole = (double)product_cost.duration_ps / LK_PS_PER_S, part = whole / pieces;
	if (gather) all = fmax(whole, seconds + part);
	else {
		double bytes = graph->ops.bytes[op] / pieces;
		double piece = lk_collective_cost(LK_COLL_REDUCESCATTER, group, bytes).seconds;
		all = fmax(whole + piece, part + pieces * piece) + taken * fmin(whole, pieces * piece);
	}
	return fmin(seconds, all - whole);
}

/* Whether rows go once to each node, by a dispatcher's own kernels. */
static bool comm_by_node(const lk_ops *ops, uint32_t op) {
	return ops->kind[op] == LK_OP_ALLTOALL && ops->k[op] > 0;
}

/* The operation, if it moved so many bytes; and its share of the links between nodes. */
static lk_coll_cost moved(const lk_graph *graph, uint32_t op, const lk_cost_site *site,
                          double bytes, const lk_reach **reach) {
	const lk_ops *ops = &graph->ops;
	unsigned kind = ops->kind[op];
	if (kind == LK_OP_SEND || kind == LK_OP_RECV) {
		const lk_group_shape *pair =
			ops->group[op] == LK_GROUP_TEAM ? lk_site_group(site, graph, op) : NULL;
		bool same_node =
			pair ? pair->nodes == 1 : site->peer_same_node[to_next_stage(ops->stream[op]) ? 0 : 1];
		int sharing = pair ? pair->sharing : site->groups[LK_GROUP_PP].sharing;
		*reach = pair ? pair->reach : site->groups[LK_GROUP_PP].reach;
		if (same_node) *reach = NULL;
		return lk_p2p_cost(site->node, same_node, sharing > 0 ? sharing : 1, site->oversubscription,
		                   &site->constants->nccl, *reach, bytes);
	}
	const lk_group_shape *group = lk_site_group(site, graph, op);
	*reach = group->nodes > 1 ? group->reach : NULL;
	if (ops->flags[op] & LK_OP_DIRECT) return direct(graph, op, site, group, bytes);
	if (comm_by_node(ops, op)) return dispatched(ops, op, site, group, bytes);
	return lk_collective_cost(comm_collective_of(kind), group, bytes);
}

/* Parts of one message, one after the other, take the time of the message together; the last, which
 * is no part for the cost, what a message of its size takes. */
static double part_seconds(double whole, double part, double pieces) {
	return fmax(0, whole - part) / (pieces - 1);
}

void lk_cost_comm(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	unsigned kind = ops->kind[op];
	bool message = kind == LK_OP_SEND || kind == LK_OP_RECV;
	lk_coll_kind collective = message ? LK_COLL_SENDRECV : comm_collective_of(kind);
	const lk_reach *reach;
	lk_coll_cost cost = moved(graph, op, site, lk_kernel_bytes(ops, op), &reach);
	if (comm_by_node(ops, op) && ops->batch[op] > 0)
		cost.channels = (int)fmin(ops->batch[op], INT_MAX);
	double seconds = cost.seconds > 0 ? cost.seconds + site->constants->network_call_s : 0;
	seconds *= site->constants->network_factor;
	float taken = (float)fmin(0.5, device->sms > 0 ? (double)cost.channels / device->sms : 0);
	if (ops->pieces[op] > 1)
		seconds = part_seconds(cost.seconds, moved(graph, op, site, ops->bytes[op], &reach).seconds,
		                       ops->pieces[op]) *
		          site->constants->network_factor;
	if (ops->flags[op] & LK_OP_OVERLAPPED)
		seconds = pieced_seconds(graph, op, site, lk_site_group(site, graph, op), seconds, taken);
	lk_cost_set(out, seconds);
	out->sm = taken;
	out->compute = 0;
	out->exposed = (float)site->constants->network_beside;
	out->memory = (float)lk_share(cost.memory_rate, device->memory_rate);
	out->intra = (float)lk_share(cost.intra_rate, site->node->intra_rate);
	double nic =
		site->node->nics * site->node->nic_rate / (site->node->gpus > 0 ? site->node->gpus : 1);
	out->nic = (float)lk_share(cost.nic_rate, nic);
	const double *use = reach ? reach->flow[lk_coll_traffic(collective, cost.algo)].use : NULL;
	for (int tier = 0; use && tier < LK_TIERS; tier++)
		out->tier[tier] = (float)lk_share(use[tier] * cost.nic_rate, nic);
}
