/* nccl_p2p.c: traffic that NCCL runs as send-receive pairs: pipeline messages and all-to-all.
 *
 * A rank's time is its busiest link class: bytes over that link's rate, after the latency of its
 * rounds. An all-to-all over nodes runs in batches of 8 peers; the first batch counts in full,
 * later ones add a hop each. Parts, channels and the limit of the LL protocol: NCCL 2.30, init.cc
 * (ncclP2pSchedule), enqueue.cc; restated in docs/method/collectives.md. */
#include "cost/collective/nccl.h"

#include <math.h>

enum { CONCURRENT = 8, LL_LIMIT = 16384 };

/* Channels of messages, and GB/s of one: two B200 exchange 650 GB/s. */
static const double most_channels = 32, channel_rate = 20.5;

static const double part_bytes = 65536; /* smallest part of a message that gets its own channel */

static double power_above(double x) {
	double power = 1;
	while (power < x && power < 64) power *= 2;
	return power;
}

/* Channels to one peer: over NVLink two per link of the path, over the network one per 14 GB/s. */
static double channels_per_peer(const lk_nccl_site *site, bool same_node, double rate) {
	if (!same_node) return power_above(fmax(2, ceil(rate / 14)));
	return site->nvlink ? power_above(fmin(2 * fmax(1, floor(site->pair_wire / 20)), 32)) : 2;
}

/* Of one hop within a node; to another node, where rings with one GPU per node also use the tree's
 * value. */
static double near_latency(const lk_nccl_site *site, lk_proto proto) {
	lk_nccl_hop hop = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
	return lk_nccl_hops(site) * lk_nccl_hop_latency(hop, LK_ALGO_RING, proto);
}

static double far_latency(const lk_nccl_site *site, lk_proto proto) {
	return site->laws->message_hops * lk_nccl_hop_latency(LK_NCCL_HOP_NET, LK_ALGO_TREE, proto);
}

/* The calibrated form; `own` and `transfer` in us, `network` times the network's own latency. LL
 * sends a flag with every word. */
static double p2p_seconds(const lk_nccl_site *site, double own, double network, lk_traffic flow,
                          lk_proto proto, double transfer) {
	double flags = proto == LK_PROTO_LL ? 2 : 1;
	network *= site->nic_latency * (proto == LK_PROTO_SIMPLE ? 2 : 1) + site->message_us +
	           1e6 * lk_reach_latency(site->reach, flow);
	double waits = lk_nccl_launch(site) * site->laws->message_launch + own + network;
	return pow(pow(waits, site->laws->message_join) +
	               pow(flags * transfer, site->laws->message_join),
	           1 / site->laws->message_join) *
	       1e-6;
}

/* Up to 2.28 a message was split over channels first. */
static lk_proto protocol(const lk_nccl_site *site, double message) {
	double most = lk_nccl_before(site, 22900) ? 4 * LL_LIMIT : LL_LIMIT;
	return message <= most ? LK_PROTO_LL : LK_PROTO_SIMPLE;
}

static double rounds_of(double peers) {
	return fmin(peers, CONCURRENT) + floor(peers / CONCURRENT);
}

lk_coll_cost lk_nccl_alltoall(const lk_nccl_site *site, double bytes) {
	double n = site->n, inside = (site->ppn - 1) / n * bytes, outside = (n - site->ppn) / n * bytes,
		   each = bytes / n;
	double wire = (site->nvlink ? site->wire : site->pair_wire) * fmin(site->fabric->wire, 1);
	double part = lk_nccl_network_part(site, LK_TRAFFIC_ALLTOALL),
		   nic = site->node_nics / site->ppn * site->nic_efficiency * part;
	double transfer =
		fmax((inside + lk_nccl_own_bytes(site, bytes)) / (1000 * wire), outside / (1000 * nic));
	/* each channel is a CTA, which also copies the own share */
	transfer = fmax(transfer, bytes / (1000 * most_channels * channel_rate));
	/* if GPUs are attached to two CPUs, half of a node's GPUs send to the other half through the
	 * link between them */
	if (site->bridge > 0)
		transfer = fmax(transfer, lk_bridge_bytes(site->ppn, n, bytes) / (1000 * site->bridge));
	lk_proto proto = protocol(site, each);
	/* all peers of a node run at once, with those of other nodes: twice as many cost one more hop
	 * of flags */
	double own = far_latency(site, proto) * rounds_of(n - site->ppn);
	if (site->ppn > 1)
		own = fmax(own,
		           near_latency(site, proto) + log2(site->ppn) * near_latency(site, LK_PROTO_LL));
	if (proto == LK_PROTO_SIMPLE) own += site->laws->base * 8.4; /* base latency of Simple */
	double time = p2p_seconds(site, own, site->nodes > 1, LK_TRAFFIC_ALLTOALL, proto, transfer);
	double parts = fmax(1, ceil(each / part_bytes)),
		   peer = channels_per_peer(site, site->nodes == 1, nic);
	double channels = fmin(fmin(parts, peer) * (n - 1),
	                       power_above(fmin(2 * site->ring.channels, most_channels)));
	lk_coll_limit limit = LK_LIMIT_LINKS;
	if (transfer * 2e-6 < time) limit = LK_LIMIT_LATENCY;
	else if (outside / nic > inside / wire) limit = part < 1 ? LK_LIMIT_NETWORK : LK_LIMIT_NICS;
	return (lk_coll_cost){
		.seconds = time,
		.limit = limit,
		.algo = LK_ALGO_P2P,
		.proto = proto,
		.channels = (int)channels,
		.memory_rate =
			4 * (inside + outside) / time, /* read, into the peer's buffer, out of it, written */
		.intra_rate = inside / time,
		.nic_rate = outside / time,
	};
}

/* If the network is slower than the buffers before it, the first bytes only have to reach those. */
static double p2p_transfer_of(const lk_nccl_site *site, bool same_node, double rate, double bytes) {
	double quick =
		same_node || rate >= site->laws->buffer_rate ? 0 : fmin(bytes, site->fabric->buffer * 1e6);
	return (bytes - quick) / (1000 * rate) + quick / (1000 * site->laws->buffer_rate);
}

static lk_coll_cost p2p_message(const lk_group_shape *pair, double bytes) {
	const lk_node *node = pair->node;
	bool same_node = pair->nodes < 2;
	lk_nccl_site site;
	lk_nccl_site_of(pair, &site);
	lk_coll_cost cost = {.algo = LK_ALGO_P2P, .proto = protocol(&site, bytes)};
	/* One GPU uses the NICs nearest to it, not all of its node. */
	double nearest = lk_nccl_nearest_nics(node);
	double share = fmin(site.nic_efficiency * site.laws->message_nic, .97);
	double part = lk_nccl_network_part(&site, LK_TRAFFIC_CHAIN);
	double nic = fmin(site.node_nics, lk_link_rate_of(node->nic_rate) * nearest) * share * part;
	/* NCCL counts 20 of 25 GB/s of a link: the rate through a switch. A message over direct links
	 * between GPUs gets all of it. */
	bool meshed = node->intra == LK_INTRA_MESH || lk_group_on_bridge(pair);
	double direct = meshed && node->device->arch < LK_ARCH_CDNA1 ? 1.25 : 1;
	double rate =
		same_node ? site.pair_wire * site.fabric->wire * site.laws->message_wire * direct : nic;
	double own = same_node ? near_latency(&site, cost.proto) : far_latency(&site, cost.proto);
	cost.seconds = p2p_seconds(&site, own, !same_node, LK_TRAFFIC_CHAIN, cost.proto,
	                           p2p_transfer_of(&site, same_node, rate, bytes));
	bool waits = bytes / (rate * 1e9) < cost.seconds / 2;
	if (waits) cost.limit = LK_LIMIT_LATENCY;
	else if (same_node) cost.limit = LK_LIMIT_LINKS;
	else cost.limit = part < 1 ? LK_LIMIT_NETWORK : LK_LIMIT_NICS;
	cost.channels =
		(int)fmin(fmax(1, ceil(bytes / part_bytes)), channels_per_peer(&site, same_node, nic));
	cost.busbw = bytes / cost.seconds;
	cost.memory_rate =
		2 * cost.busbw; /* mean of the sender, which reads, and the receiver, which copies through a
		                 * buffer */
	*(same_node ? &cost.intra_rate : &cost.nic_rate) = cost.busbw;
	return cost;
}

lk_coll_cost lk_nccl_sendrecv(const lk_group_shape *group, double bytes) {
	lk_group_shape pair = *group;
	pair.ranks = 2, pair.nodes = group->nodes < 2 ? 1 : 2,
	pair.ranks_per_node = group->nodes < 2 ? 2 : 1;
	if (group->ranks > 2) pair.apart = 2; /* which of them send is open */
	return p2p_message(&pair, fmin(bytes, 1e18));
}
