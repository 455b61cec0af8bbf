/* collective.c: the cost of a collective: NCCL's choice of algorithm and protocol, its time, and
 * the resources that it occupies.
 *
 * DRAM traffic of a rank per byte of the call, n ranks (upper limits, as L2 absorbs a part): a ring
 * all-reduce reads and writes the buffer once and passes 2(n-1)/n of it through receive buffers, in
 * and out: 2 + 4(n-1)/n; all-gather and reduce-scatter 1 + 1/n + 2(n-1)/n. NVLS: buffer and staging
 * each read and written once. */
#include "cost/collective/collective.h"
#include "cost/collective/nccl.h"

#include <math.h>
#include <stddef.h>

lk_coll_cost lk_p2p_cost(const lk_node *node, bool same_node, int sharing, double oversubscription,
                         const lk_nccl_settings *settings, const lk_reach *reach, double bytes) {
	lk_group_shape pair = {.node = node,
	                       .ranks = 2,
	                       .nodes = same_node ? 1 : 2,
	                       .ranks_per_node = same_node ? 2 : 1,
	                       .apart = 2, /* no bridge: which pair sends is open */
	                       .sharing = sharing,
	                       .oversubscription = oversubscription,
	                       .settings = settings,
	                       .reach = reach};
	return lk_collective_cost(LK_COLL_SENDRECV, &pair, bytes);
}

const char *lk_algo_name(lk_algo algo) {
	static const char *const names[LK_ALGOS] = {"Tree", "Ring",          "NVLS",         "NVLSTree",
	                                            "PAT",  "CollNetDirect", "CollNetChain", "P2P"};
	return (unsigned)algo < LK_ALGOS ? names[algo] : "unknown";
}

const char *lk_proto_name(lk_proto proto) {
	static const char *const names[LK_PROTOS] = {"LL", "LL128", "Simple"};
	return (unsigned)proto < LK_PROTOS ? names[proto] : "unknown";
}

const char *lk_coll_limit_name(lk_coll_limit limit) {
	static const char *const names[] = {"latency", "links", "NICs", "network"};
	return names[limit];
}

static double memory_traffic(lk_coll_kind kind, lk_algo algo, double n) {
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE) return 4;
	if (algo == LK_ALGO_TREE || algo == LK_ALGO_COLLNET_CHAIN)
		return 6; /* the buffer, and every byte through a buffer up and down */
	if (kind == LK_COLL_ALLREDUCE) return 2 + 4 * (n - 1) / n;
	if (kind == LK_COLL_BROADCAST || kind == LK_COLL_REDUCE) return 3;
	return 1 + 1 / n + 2 * (n - 1) / n;
}

/* Bytes that a GPU sends within the node per byte of the call. */
static double intra_traffic(lk_coll_kind kind, lk_algo algo, double n) {
	if (algo == LK_ALGO_PAT) return 0;
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE) return (n + 1) / n;
	if (algo == LK_ALGO_TREE || algo == LK_ALGO_COLLNET_CHAIN) return 2;
	return lk_coll_busbw_factor(kind, (int)n);
}

static void occupy(lk_coll_kind kind, const lk_nccl_site *site, double bytes, lk_coll_cost *cost) {
	double rate = bytes / cost->seconds, n = site->n;
	cost->channels = lk_nccl_channels(kind, site, cost->algo, cost->proto, bytes);
	cost->memory_rate = rate * memory_traffic(kind, cost->algo, n);
	cost->intra_rate = site->ppn > 1 ? rate * intra_traffic(kind, cost->algo, n) : 0;
	cost->nic_rate = rate * lk_nccl_nic_traffic(kind, site, cost->algo) / site->ppn;
}

/* Choose the fastest offered combination: by the calibrated time, so that a better fabric, on which
 * every combination is faster, is never slower; or by NCCL's own estimate. Settings that leave no
 * combination on these ranks are ignored, as by NCCL before 2.24; later releases end the
 * program. */
static lk_nccl_estimate collective_choose(lk_coll_kind kind, const lk_nccl_site *site, double bytes,
                                          bool by_estimate, lk_algo *algo, lk_proto *proto) {
	lk_nccl_estimate best, one;
	double least = INFINITY;
	*algo = LK_ALGO_RING;
	*proto = LK_PROTO_SIMPLE;
	for (int a = LK_ALGO_TREE; a < LK_ALGO_P2P; a++)
		for (int p = LK_PROTO_LL; p < LK_PROTOS; p++) {
			if (!lk_nccl_estimate_of(kind, site, (lk_algo)a, (lk_proto)p, bytes, &one)) continue;
			if (by_estimate && a == LK_ALGO_PAT && site->ppn > 1) continue; /* as NCCL */
			double time = by_estimate ? one.predicted : one.time;
			if (time >= least) continue;
			least = time;
			best = one;
			*algo = (lk_algo)a;
			*proto = (lk_proto)p;
		}
	if (!isfinite(least)) {
		lk_nccl_site open = *site;
		lk_nccl_settings all = *site->settings;
		all.without_algo[kind] = all.without_proto[kind] = 0;
		open.settings = &all;
		lk_nccl_estimate_of(kind, &open, *algo, *proto, bytes, &best);
	}
	return best;
}

bool lk_nccl_raw_of(lk_coll_kind kind, const lk_group_shape *group, double bytes,
                    lk_nccl_raw *out) {
	if (kind == LK_COLL_SENDRECV || kind == LK_COLL_ALLTOALL || group->ranks < 2 || !(bytes > 0))
		return false;
	lk_nccl_site site;
	lk_algo algo;
	lk_nccl_site_of(group, &site);
	lk_nccl_estimate best =
		collective_choose(kind, &site, fmin(bytes, 1e18), true, &algo, &out->proto);
	out->latency = best.latency;
	out->transfer = best.predicted - best.latency;
	return true;
}

/* Across nodes of a fabric with measured NICs, and across racks, which NCCL joins by NVLSTree
 * although trees would be faster, use NCCL's own choice: the measurements include it. */
static lk_coll_cost best_collective(lk_coll_kind kind, const lk_nccl_site *site, double bytes) {
	lk_coll_cost cost = {0};
	bool own_choice = site->nodes > 1 && (site->fabric->nic > 0 || lk_nccl_is_rack(site));
	lk_nccl_estimate best =
		collective_choose(kind, site, bytes, own_choice, &cost.algo, &cost.proto);
	cost.seconds = best.time * 1e-6;
	cost.limit = best.limit;
	occupy(kind, site, bytes, &cost);
	return cost;
}

/* Apply the measured correction for this collective in this group; the choice is unchanged. */
static void correct(lk_coll_kind kind, const lk_group_shape *group, double bytes,
                    lk_coll_cost *cost) {
	const lk_fabric *fabric = group->fabric ? group->fabric : lk_fabric_default();
	double factor = lk_curves_factor(fabric->curves, kind, group, bytes);
	cost->seconds *= factor;
	cost->busbw /= factor;
	cost->memory_rate /= factor;
	cost->intra_rate /= factor;
	cost->nic_rate /= factor;
}

lk_coll_cost lk_collective_cost(lk_coll_kind kind, const lk_group_shape *group, double bytes) {
	lk_coll_cost cost = {.algo = LK_ALGO_RING, .proto = LK_PROTO_SIMPLE};
	if (group->ranks < 2 || !(bytes > 0)) return cost;
	bytes = fmin(bytes, 1e18);
	lk_nccl_site site;
	lk_nccl_site_of(group, &site);
	if (kind == LK_COLL_SENDRECV) cost = lk_nccl_sendrecv(group, bytes);
	else if (kind == LK_COLL_ALLTOALL) cost = lk_nccl_alltoall(&site, bytes);
	else cost = best_collective(kind, &site, bytes);
	cost.busbw = bytes / cost.seconds * lk_coll_busbw_factor(kind, group->ranks);
	correct(kind, group, bytes, &cost);
	return cost;
}
