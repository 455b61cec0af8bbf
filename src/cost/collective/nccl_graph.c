/* nccl_graph.c: from a group of ranks to the result of NCCL's topology search: the number of
 * channels and the rate of each. The search itself traverses a graph of PCIe bridges, links and
 * NICs; for the regular nodes of training clusters its result has a closed form, which is computed
 * here.
 *
 * Channel speeds and the doubling of channels: NCCL 2.30, src/graph/search.cc and connect.cc. The
 * results match logs and measurements: A100 with 8 GPUs 12 x 20 GB/s, H100 12 x 30, H100 NVLS 16 x
 * 20, eight 200 Gb/s NICs 8 x 24. */
#include "cost/collective/nccl.h"

#include <math.h>

enum { most_ranks = 1 << 24 }; /* keeps step counts in an int */
static const double gb = 1e9;
static const double line_share = .96; /* NCCL counts 12 GB/s per 100 Gb/s of NIC */

/* Between the two CPUs of a host, each way, by the PCIe generation. Gen3 and 4: NCCL's
 * src/graph/topo.h: Broadwell (QPI; hosts of GPUs before Volta) 6, Skylake 10, AMD 16. Gen5: a ring
 * of 8 GPUs (NVIDIA/nccl issue 1639). */
double lk_host_bridge_rate(const lk_device *device) {
	if (device->pcie_rate >= 40 * gb) return 28;
	if (device->pcie_rate >= 20 * gb) return 16;
	return device->arch < LK_ARCH_VOLTA ? 6 : 10;
}

static lk_nccl_generation generation_of(lk_arch arch) {
	switch (arch) {
	case LK_ARCH_AMPERE:
	case LK_ARCH_ADA:
	case LK_ARCH_CDNA2:
	case LK_ARCH_CDNA3:
	case LK_ARCH_CDNA4: return LK_NCCL_AMPERE;
	case LK_ARCH_HOPPER: return LK_NCCL_HOPPER;
	case LK_ARCH_BLACKWELL: return LK_NCCL_BLACKWELL;
	default: return LK_NCCL_VOLTA;
	}
}

double lk_link_rate_of(double bytes_per_s) {
	return bytes_per_s > 0 ? fmin(fmax(bytes_per_s / gb, 1e-9), 1e6) : .125;
}

/* Channel speeds that the search tries, fastest first (ends with 0). */
static const double speeds[LK_NCCL_GENERATIONS][14] = {
	[LK_NCCL_VOLTA] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 0},
	[LK_NCCL_AMPERE] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 0},
	[LK_NCCL_HOPPER] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, 0},
	[LK_NCCL_BLACKWELL] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18, 0},
};

/* The speed and number of channels (at most 16) that use most of `rate`; the faster one if
 * equal. */
static lk_nccl_graph graph_search(lk_nccl_generation generation, double rate) {
	lk_nccl_graph best = {1, rate, rate};
	double most = 0;
	for (const double *speed = speeds[generation]; *speed > 0; speed++) {
		double channels = floor(rate / *speed + 1e-9);
		if (channels > 16) channels = 16;
		if (channels * *speed <= most * (1 + 1e-9)) continue;
		most = channels * *speed;
		best = (lk_nccl_graph){(int)channels, *speed, *speed};
	}
	return best;
}

static int channels_within(int channels, const lk_nccl_settings *settings) {
	if (settings->most_channels > 0 && channels > settings->most_channels)
		channels = settings->most_channels;
	return channels < settings->least_channels ? settings->least_channels : channels;
}

/* The search doubles its result: twice the channels at half the speed. */
static lk_nccl_graph doubled(lk_nccl_graph graph) {
	return (lk_nccl_graph){2 * graph.channels, graph.intra / 2, graph.inter / 2};
}

static lk_nccl_graph ring_in_node(const lk_nccl_site *site) {
	if (!site->nvlink) return (lk_nccl_graph){2, site->wire / 2, site->wire / 2};
	return doubled(graph_search(site->generation, site->wire));
}

/* Rings across nodes before 2.25; before 2.20, which joins the ports of a card, each uses one
 * NIC. */
static const double old_rings = 16;

/* Between nodes every channel enters and leaves through one NIC, at no more than 48 GB/s. */
static lk_nccl_graph ring_over_nodes(const lk_nccl_site *site, double nics) {
	double total = fmin(site->node_nics * line_share, site->ppn > 1 ? site->wire : INFINITY);
	double channels = fmax(1, fmax(floor(nics), ceil(total / 48 - 1e-9)));
	channels = fmin(channels, lk_nccl_before(site, 22500) ? old_rings : 32);
	return (lk_nccl_graph){(int)channels, total / channels, total / channels};
}

/* Trees use the ring's channels. On two nodes a byte crosses the NICs once but a node's links
 * twice, up and down, and the search raises the speed within the node as far as the links allow. */
static lk_nccl_graph tree(const lk_nccl_site *site) {
	lk_nccl_graph graph = site->ring;
	if (site->nodes == 2 && site->ppn > 1) {
		double most = fmin(site->wire / graph.channels, 2 * graph.inter);
		graph.intra = fmax(graph.intra, most);
	}
	return graph;
}

/* Each GPU of a node, at most 32, heads one share of the multicast tree, which needs 1 + 1/heads of
 * its speed on every link: of 8 GPUs 8 x 40 GB/s on Hopper, run as 16 channels of 20; 8 x 80 on
 * Blackwell, run as 24. */
static lk_nccl_graph multicast(const lk_nccl_site *site) {
	const int heads = site->heads;
	double share = site->wire / (heads + 1), speed = 0;
	for (const double *s = speeds[site->generation]; *s > 0 && speed == 0; s++)
		if (*s <= share) speed = *s;
	int channels;
	if (site->generation == LK_NCCL_BLACKWELL) {
		if (site->nodes > 1) channels = 32;
		else channels = 24;
	} else channels = 16;
	channels = channels_within(channels, site->settings);
	double total = heads * (speed > 0 ? speed : share);
	return (lk_nccl_graph){channels, total / channels,
	                       fmin(2 * total, site->node_nics * line_share) / channels};
}

/* GB/s of messages through the host's memory, where it refuses peer access between root ports: 16
 * to 64 MiB between two of 4 A40 (vidur). */
static const double staged = 4;

bool lk_group_on_bridge(const lk_group_shape *group) {
	return group->node->pair_rate > 0 && group->apart <= 1 && group->ranks_per_node == 2 &&
	       group->ranks == 2 * group->nodes;
}

/* Links within the node, at rates as NCCL counts them (and the catalogue). Through a switch a GPU
 * reaches every other at its full rate; without one only the links to the members of the group
 * count. */
static void wire_node(const lk_group_shape *group, lk_nccl_site *site) {
	const lk_node *node = group->node;
	double rate = lk_link_rate_of(node->intra_rate);
	if (lk_group_on_bridge(group)) {
		site->wire = site->pair_wire = lk_link_rate_of(node->pair_rate);
		site->bridge = 0;
		return;
	}
	if (node->no_peer) rate = fmin(rate, staged);
	site->wire = site->pair_wire = rate;
	double host = lk_host_bridge_rate(node->device);
	bool pcie = node->intra == LK_INTRA_PCIE;
	site->bridge = pcie && site->ppn > 4 ? host : 0;
	if (site->bridge > 0) site->wire = fmin(rate, site->bridge);
	/* Root ports of generation 5 pass no more either: 26 GB/s for 4 of 8 RTX PRO 6000. */
	else if (pcie && site->ppn > 2 && node->gpus > 4 && node->device->pcie_rate >= 40 * gb)
		site->wire = site->pair_wire = fmin(rate, host);
	if (node->intra != LK_INTRA_MESH || node->gpus <= 2) return;
	double peers = node->gpus - 1, links = node->device->links > 0 ? node->device->links : peers;
	if (site->ppn > 1 && site->ppn - 1 < peers) site->wire = rate * fmax(site->ppn - 1, 1) / peers;
	site->pair_wire = rate / fmin(links, peers);
}

double lk_nccl_nearest_nics(const lk_node *node) {
	return node->gpus > 0 && node->nics > node->gpus ? (double)node->nics / node->gpus : 1;
}

/* A GPU's channels go through the NICs next to it. */
static double nics_of(const lk_group_shape *group, double ppn) {
	const lk_node *node = group->node;
	double sharing = group->sharing > 1 ? group->sharing : 1,
		   nics = (node->nics > 0 ? node->nics : 1) / sharing;
	return fmin(nics, fmax(ppn, 1) * lk_nccl_nearest_nics(node));
}

double lk_group_nics(const lk_group_shape *group) {
	return nics_of(group, (double)group->ranks / fmax(group->nodes, 1));
}

lk_traffic lk_coll_traffic(lk_coll_kind kind, lk_algo algo) {
	switch (algo) {
	case LK_ALGO_NVLS:
	case LK_ALGO_COLLNET_DIRECT:
	case LK_ALGO_COLLNET_CHAIN: return LK_TRAFFIC_SWITCHES;
	case LK_ALGO_TREE:
	case LK_ALGO_NVLSTREE: return LK_TRAFFIC_TREE;
	case LK_ALGO_PAT: return LK_TRAFFIC_DOUBLING;
	case LK_ALGO_P2P: return kind == LK_COLL_SENDRECV ? LK_TRAFFIC_CHAIN : LK_TRAFFIC_ALLTOALL;
	default: return LK_TRAFFIC_RING;
	}
}

double lk_nccl_network_part(const lk_nccl_site *site, lk_traffic flow) {
	double share = lk_reach_rate(site->reach, flow), all = site->node_nics * site->nic_efficiency;
	return share < 1 ? fmin(1, site->nic_line * share / all) : 1;
}

/* us: no other network has as much. */
static const double efa_least = 10;

/* A proxy thread copies each message of TCPX. The time per message and the share of the NICs' rate:
 * TCPX from all-gathers of 16 H100 on two a3-highgpu; TCPXO, whose cards copy, unverified. */
static const struct {
	double message_us, share; /* 0: the laws' */
} transports[LK_TRANSPORTS] = {
	[LK_TRANSPORT_TCPX] = {58, .72},
	[LK_TRANSPORT_TCPXO] = {15, .85},
};

/* This group's share of the node's NICs; a GPU cannot send faster than its PCIe slot. */
static double wire_network(const lk_group_shape *group, lk_nccl_site *site) {
	const lk_node *node = group->node;
	const lk_nccl_laws *laws = site->laws;
	double nics = nics_of(group, site->ppn);
	if (lk_nccl_before(site, 22000)) nics = fmin(nics, old_rings);
	double oversubscription = group->oversubscription > 1 ? group->oversubscription : 1;
	double line = fmax(lk_link_rate_of(node->nic_rate) * nics / oversubscription, 1e-12);
	double slots = node->device->pcie_rate > 0
	                   ? lk_link_rate_of(node->device->pcie_rate) * site->ppn
	                   : INFINITY;
	site->node_nics = fmin(line, slots / line_share);
	site->nic_latency = node->nic_latency_s > 0 ? fmin(node->nic_latency_s, 1) * 1e6 : 0;
	site->nic_hint = site->nic_latency;
	if (site->nic_latency >= efa_least)
		site->nic_hint = fmax(site->nic_hint, 1e6 * lk_efa_hint(node->nic_rate));
	site->transport = node->transport;
	site->sockets = node->transport != LK_TRANSPORT_RDMA;
	site->message_us = transports[node->transport].message_us;
	/* Rates reached by large messages: NICs .97 of eight 400 Gb/s (16 H100, ring), .83 of four 100
	 * Gb/s (p4de, tree); through a PCIe slot of generation 4 .65 of 200 Gb/s (NDv4, 16 to 64
	 * A100). */
	double gen4 = node->device->pcie_rate < 40 * gb ? laws->slot : 1;
	/* Several GPUs per NIC open more connections, which reach more of it. */
	double crowd = site->ppn / fmax(1, fmin(nics, site->ppn));
	double most = laws->nics, reached = most;
	if (site->fabric->nic > 0) reached = fmin(site->fabric->nic, 1), most = 1, gen4 = 1;
	else if (transports[node->transport].share > 0) reached = transports[node->transport].share;
	else if (site->sockets) reached = laws->socket_nics;
	if (node->transport == LK_TRANSPORT_SOCKETS)
		reached = fmin(most, reached * pow(crowd, laws->crowd));
	site->nic_efficiency = fmin(line * reached, slots * gen4 * most) / site->node_nics;
	site->nic_line = line * reached;
	site->reach = group->nodes > 1 ? group->reach : NULL;
	site->sharp = lk_reach_reduces(site->reach);
	return nics;
}

/* GPUs that head a share of a multicast tree: NCCL's limit. */
enum { most_heads = 32 };

void lk_nccl_site_of(const lk_group_shape *group, lk_nccl_site *site) {
	static const lk_nccl_settings none;
	const lk_node *node = group->node;
	site->settings = group->settings ? group->settings : &none;
	site->generation = generation_of(node->device->arch);
	site->n = group->ranks < most_ranks ? group->ranks : most_ranks;
	if (group->nodes < 1) site->nodes = 1;
	else if (group->nodes < site->n) site->nodes = group->nodes;
	else site->nodes = site->n;
	site->ppn = (double)site->n / site->nodes;
	site->nvlink = node->intra != LK_INTRA_PCIE || lk_group_on_bridge(group);
	site->switched = node->intra == LK_INTRA_SWITCH;
	site->nvls = node->intra == LK_INTRA_SWITCH && lk_device_can(node->device, LK_CAN_MULTICAST) &&
	             site->ppn > 2 && site->settings->nvls >= 0 &&
	             !lk_nccl_before(site, lk_capability_nccl(LK_CAN_MULTICAST));
	site->heads = site->ppn < most_heads ? (int)ceil(site->ppn) : most_heads;
	site->fabric = group->fabric ? group->fabric : lk_fabric_default();
	site->laws = site->fabric->laws ? site->fabric->laws : lk_nccl_laws_default();
	wire_node(group, site);
	double nics = wire_network(group, site);
	site->ring = site->nodes > 1 ? ring_over_nodes(site, nics) : ring_in_node(site);
	site->tree = tree(site);
	if (site->nvls) site->multicast = multicast(site);
}
