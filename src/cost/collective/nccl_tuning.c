/* nccl_tuning.c: NCCL's own cost model: for every algorithm and protocol a latency and a bandwidth,
 * by which it chooses. nccl_time.c turns them into a time.
 *
 * Tables and formulas: NCCL 2.30, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime) and
 * enqueue.cc, restated in docs/method/collectives.md. With n ranks on N nodes, ppn = n/N and S
 * bytes:
 *     ring   steps of S/n: all-reduce 2(n-1), all-gather and reduce-scatter n-1, broadcast and
 *            reduce n
 *     tree   double binary tree over nodes, chain inside; each node sends S twice (N > 2) or once
 *            (N = 2)
 *     NVLS   the switch reduces and multicasts; NVLSTree joins nodes by trees
 *     PAT    all-gather and reduce-scatter in log2(N) steps
 * NCCL chooses by latency + S / bandwidth. */
#include "cost/collective/nccl.h"

#include <math.h>

/* Latencies in us, by protocol LL, LL128, Simple. Entries for protocols that an algorithm lacks are
 * unused. */
static const double base_latency[LK_ALGOS][LK_PROTOS] = {
	[LK_ALGO_TREE] = {6.8, 14, 8.4},
	[LK_ALGO_RING] = {6.6, 14, 8.4},
	[LK_ALGO_PAT] = {8, 8, 8},
};

static const double hop_latency[3][LK_ALGOS][LK_PROTOS] = {
	[LK_NCCL_HOP_NVLINK] = {[LK_ALGO_TREE] = {.6, 1.25, 4},
                            [LK_ALGO_RING] = {.6, 1.9, 3.4},
                            [LK_ALGO_NVLS] = {0, 0, 25},
                            [LK_ALGO_NVLSTREE] = {0, 0, 25},
                            [LK_ALGO_PAT] = {0, 0, 4},
                            [LK_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
                            [LK_ALGO_COLLNET_CHAIN] = {0, 0, 2.8}},
	[LK_NCCL_HOP_PCI] = {[LK_ALGO_TREE] = {1, 1.9, 4},
                         [LK_ALGO_RING] = {1, 2.5, 5.7},
                         [LK_ALGO_PAT] = {0, 0, 4},
                         [LK_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
                         [LK_ALGO_COLLNET_CHAIN] = {0, 0, 2.8}},
	[LK_NCCL_HOP_NET] = {[LK_ALGO_TREE] = {5, 8.5, 14},
                         [LK_ALGO_RING] = {2.7, 4, 14},
                         [LK_ALGO_NVLS] = {0, 0, 18},
                         [LK_ALGO_NVLSTREE] = {0, 0, 20.9},
                         [LK_ALGO_PAT] = {0, 0, 14},
                         [LK_ALGO_COLLNET_DIRECT] = {0, 0, 31},
                         [LK_ALGO_COLLNET_CHAIN] = {0, 0, 30}},
};

/* Bandwidth limits in GB/s on 1, 2, and 3 or more nodes. The LL row depends on the GPU on one node
 * and on the CPU vendor on more: Ampere's for AMD CPUs, Volta's for others. */
static const double ll_most[LK_NCCL_GENERATIONS][3] = {
	{39, 39, 20.4},
	{87.7, 22.5, 19},
	{141, 45, 35},
	{282, 90, 70},
};
static const double ring_ll128_channel[LK_NCCL_GENERATIONS] = {20, 20, 36.7, 40};
static const double tree_ll128_channel[LK_NCCL_GENERATIONS][3] = {
	{20, 20, 20},
	{20, 20, 20},
	{36.7, 36.7, 29},
	{55.6, 31.67, 20},
};
static const double tree_channel[LK_NCCL_GENERATIONS][3] = {
	{26.5, 18.5, 10},
	{24, 23.6, 17.8},
	{38.7, 41.4, 36},
	{70, 42.8, 24},
};
static const double nvlstree_channel[LK_NCCL_GENERATIONS][3] = {
	{26.5, 18.5, 10},
	{24, 23.6, 17.8},
	{0, 57.7, 45.5},
	{0, 96, 80},
};
static const double collnet_direct_share = .85; /* from Hopper on */
static const double nvls_efficiency[LK_NCCL_GENERATIONS] = {0, 0, .85, .74};

/* ---- differences of earlier releases, from the tables of their tuning.cc ---- */

/* Until 2.28 Blackwell had the row of Hopper times 2. */
static bool as_hopper(const lk_nccl_site *site) {
	return site->generation == LK_NCCL_BLACKWELL && lk_nccl_before(site, 22800);
}

/* A limit per channel from a table, for the generation and number of nodes. */
static double channel_limit(const double table[LK_NCCL_GENERATIONS][3], const lk_nccl_site *site) {
	int column = site->nodes > 2 ? 2 : site->nodes - 1;
	if (as_hopper(site)) return 2 * table[LK_NCCL_HOPPER][column];
	return table[site->generation][column];
}

static double multicast_efficiency(const lk_nccl_site *site) {
	return lk_nccl_before(site, 22800) ? 5. / 6 : nvls_efficiency[site->generation];
}

/* Trees of the Simple protocol: 28 us per hop from 2.19 to 2.22, so that rings are chosen
 * instead. */
static double tree_simple_hop(const lk_nccl_site *site, lk_nccl_hop hop, double now) {
	static const double at_218[] = {4, 6, 14};
	if (lk_nccl_before(site, 21900)) return at_218[hop];
	return lk_nccl_before(site, 22300) ? 28 : now;
}

/* NVLS: 0 in 2.18, 23 in 2.19 and 2.20. */
static double multicast_hop(const lk_nccl_site *site, double now) {
	if (lk_nccl_before(site, 21900)) return 0;
	return lk_nccl_before(site, 22100) ? 23 : now;
}

/* By floor(log2(S / 64)), 64 B to 256 MiB. */
static const double tree_correction[LK_PROTOS][24] = {
	{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
	{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
	{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

double lk_nccl_channel_rate(lk_nccl_generation generation) {
	return tree_channel[generation][0];
}

double lk_nccl_hop_latency(lk_nccl_hop hop, lk_algo algo, lk_proto proto) {
	return hop_latency[hop][algo][proto];
}

static int floor_log2(double x) {
	return x >= 1 ? ilogb(x) : 0;
}

static int node_column(const lk_nccl_site *site) {
	return site->nodes > 2 ? 2 : site->nodes - 1;
}

static double ll_limit(const lk_nccl_site *site) {
	lk_nccl_generation row = site->generation;
	if (site->nodes > 1 && row > LK_NCCL_AMPERE)
		row = LK_NCCL_VOLTA; /* DGX H100 and later: Intel CPUs */
	if (site->nodes == 1 && row >= LK_NCCL_HOPPER && lk_nccl_before(site, 22100))
		row = LK_NCCL_AMPERE;
	return ll_most[row][node_column(site)];
}

static int steps_of(lk_coll_kind kind, int n) {
	if (kind == LK_COLL_ALLREDUCE) return 2 * (n - 1);
	return kind == LK_COLL_ALLGATHER || kind == LK_COLL_REDUCESCATTER ? n - 1 : n;
}

double lk_nccl_ring_traffic(lk_coll_kind kind, int n) {
	return (double)steps_of(kind, n) / n;
}

/* ---- offered combinations ---- */

static bool gathers(lk_coll_kind kind) {
	return kind == LK_COLL_ALLGATHER || kind == LK_COLL_REDUCESCATTER;
}

/* PCIe nodes have no LL128. On EFA it is assumed off: the plugin disables it unless the provider
 * keeps the order of writes. */
static bool has_ll128(const lk_nccl_site *site) {
	return site->nvlink && !((site->nic_latency > 0 || site->sockets) && site->nodes > 1);
}

/* Settings that Google gives out for its networks: Simple rings on TCPX, and trees too on TCPXO. */
static bool transport_offers(lk_transport transport, lk_algo algo, lk_proto proto) {
	if (transport < LK_TRANSPORT_TCPX) return true;
	bool tree = algo == LK_ALGO_TREE && transport == LK_TRANSPORT_TCPXO;
	return proto == LK_PROTO_SIMPLE && (algo == LK_ALGO_RING || tree);
}

/* NVLS reduces in the switch of one node; across nodes it needs switches that reduce there too
 * (SHARP), otherwise NVLSTree replaces it. All-gather and reduce-scatter run as rings even if a
 * switch could multicast. NCCL uses PAT only with one GPU per node; here it is also offered with
 * more, so that two GPUs per node are not slower than one. */
static bool offered(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	const lk_nccl_settings *settings = site->settings;
	if (settings->without_algo[kind] >> algo & 1 || settings->without_proto[kind] >> proto & 1)
		return false;
	if (site->nodes > 1 && !transport_offers(site->transport, algo, proto)) return false;
	/* a user who names LL128 gets it even if NCCL would not choose it */
	if (proto == LK_PROTO_LL128 && !has_ll128(site) && settings->without_proto[kind] == 0)
		return false;
	switch (algo) {
	case LK_ALGO_RING: return true;
	case LK_ALGO_TREE: return kind == LK_COLL_ALLREDUCE;
	case LK_ALGO_NVLS:
		return proto == LK_PROTO_SIMPLE && kind == LK_COLL_ALLREDUCE && site->nvls &&
		       (site->nodes == 1 || site->sharp);
	case LK_ALGO_NVLSTREE:
		return proto == LK_PROTO_SIMPLE && kind == LK_COLL_ALLREDUCE && site->nvls &&
		       site->nodes > 1;
	case LK_ALGO_COLLNET_DIRECT:
		if (!site->switched) return false;
		/* fall through */
	case LK_ALGO_COLLNET_CHAIN:
		return proto == LK_PROTO_SIMPLE && kind == LK_COLL_ALLREDUCE && site->sharp;
	case LK_ALGO_PAT:
		return proto == LK_PROTO_SIMPLE && gathers(kind) && site->nodes > 1 &&
		       !lk_nccl_before(site, 22300);
	default: return false;
	}
}

/* ---- bandwidth: bytes of the call over time, GB/s ---- */

static double ring_bandwidth(lk_coll_kind kind, const lk_nccl_site *site, lk_proto proto) {
	const lk_nccl_graph *graph = &site->ring;
	double bus = graph->channels * (site->nodes <= 2 ? graph->intra : graph->inter);
	if (proto == LK_PROTO_LL) bus = fmin(ll_limit(site), .5 * bus);
	if (proto == LK_PROTO_LL128)
		bus = fmin(.92 * bus, graph->channels * ring_ll128_channel[site->generation]);
	return bus * site->n / steps_of(kind, site->n);
}

static double tree_bandwidth(const lk_nccl_site *site, lk_proto proto) {
	const lk_nccl_graph *graph = &site->tree;
	double bus = graph->channels * (site->nodes <= 2 ? graph->intra : graph->inter);
	bus = fmin(.92 * bus, graph->channels * channel_limit(tree_channel, site));
	if (proto == LK_PROTO_LL) bus = fmin(bus / 3.8, ll_limit(site));
	if (proto == LK_PROTO_LL128)
		bus = fmin(bus * (site->nodes == 1 ? 7. / 9 : 15. / 16),
		           graph->channels * channel_limit(tree_ll128_channel, site));
	return bus * .5;
}

/* By the heads of the search: the purpose of the channel limits. */
static double multicast_bandwidth(const lk_nccl_site *site, lk_algo algo) {
	const lk_nccl_graph *graph = &site->multicast;
	double channels = graph->channels, heads = site->heads;
	double rate = graph->intra * multicast_efficiency(site) * (heads - 1) / heads * 2;
	if (algo == LK_ALGO_NVLSTREE) {
		double outside = graph->inter * (site->nodes <= 2 ? 2 : 1);
		if (site->nodes > 2 && lk_nccl_before(site, 22800)) outside /= 2;
		rate = fmin(rate, outside);
		if (!lk_nccl_before(site, 22800)) rate = fmin(rate, channel_limit(nvlstree_channel, site));
	}
	return channels * rate * site->n / steps_of(LK_COLL_ALLREDUCE, site->n);
}

/* Reducing switches between nodes: half of what the ring's channels carry within the node; for
 * Direct, whose GPUs each hold a part, times NCCL's reduction. */
static double collnet_bandwidth(const lk_nccl_site *site, lk_algo algo) {
	double bus = site->ring.channels * site->ring.intra;
	if (algo == LK_ALGO_COLLNET_DIRECT) {
		double parts = site->ppn / site->ring.channels;
		bus /= (parts + 1) / 2;
		if (site->generation >= LK_NCCL_HOPPER) bus *= collnet_direct_share;
	}
	return bus * .5;
}

static double bandwidth_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                           lk_proto proto) {
	if (algo == LK_ALGO_RING) return ring_bandwidth(kind, site, proto);
	if (algo == LK_ALGO_TREE) return tree_bandwidth(site, proto);
	if (algo == LK_ALGO_PAT) return .75 * site->ring.channels * site->ring.inter;
	if (algo == LK_ALGO_COLLNET_DIRECT || algo == LK_ALGO_COLLNET_CHAIN)
		return collnet_bandwidth(site, algo);
	return multicast_bandwidth(site, algo);
}

double lk_nccl_nic_traffic(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo) {
	if (site->nodes == 1) return 0;
	if (algo == LK_ALGO_RING) return lk_nccl_ring_traffic(kind, site->n);
	if (algo == LK_ALGO_PAT) return (site->n - 1.0) / site->n;
	if (lk_coll_traffic(kind, algo) == LK_TRAFFIC_SWITCHES) return 1;
	return site->nodes == 2 ? 1 : 2;
}

/* ---- latency, us ---- */

struct latency {
	double base;
	double near, near_hops; /* latency and number of hops within nodes; likewise between them */
	double far, crossings;
	double network; /* number of network latencies, two for Simple: data and flush */
	double plateau; /* NCCL's factor on the rest of the estimate */
};

static struct latency ring_latency(lk_coll_kind kind, const lk_nccl_site *site, lk_proto proto,
                                   double bytes) {
	lk_nccl_hop inside = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
	double near = hop_latency[inside][LK_ALGO_RING][proto],
		   far = hop_latency[LK_NCCL_HOP_NET][LK_ALGO_RING][proto],
		   base = base_latency[LK_ALGO_RING][proto];
	if (kind == LK_COLL_BROADCAST || kind == LK_COLL_REDUCE) { /* all channels use the same ring */
		bool over = site->nodes > 1;
		return (struct latency){base, near, over ? 0 : 1, far, over ? 1 : 0, over ? 1 : 0, 1};
	}
	double crossings = 0, stretch = 1;
	if (site->nodes > 1) {
		crossings = kind == LK_COLL_ALLREDUCE ? 2. * (site->nodes - 1) : site->nodes - 1.;
		near = fmax(near, proto == LK_PROTO_SIMPLE ? 3 : 1); /* posting a network request, 1 us */
	}
	bool plateau = kind == LK_COLL_ALLREDUCE && proto == LK_PROTO_SIMPLE && site->nodes > 1 &&
	               bytes / ((double)site->ring.channels * site->n) >= 64;
	if (plateau) stretch = site->generation == LK_NCCL_VOLTA ? 1.9 : 1.4;
	return (struct latency){base,      near,   steps_of(kind, site->n) - crossings, far, crossings,
	                        crossings, stretch};
}

static struct latency tree_latency(const lk_nccl_site *site, lk_proto proto) {
	lk_nccl_hop inside = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
	double levels = floor_log2(site->nodes), ppn = fmax(site->ppn, 1);
	double near = hop_latency[inside][LK_ALGO_TREE][proto],
		   far = hop_latency[LK_NCCL_HOP_NET][LK_ALGO_TREE][proto];
	if (proto == LK_PROTO_SIMPLE) {
		near = tree_simple_hop(site, inside, near);
		far = tree_simple_hop(site, LK_NCCL_HOP_NET, far);
	}
	return (struct latency){
		base_latency[LK_ALGO_TREE][proto], near, 2 * (ppn - 1), far, 2 * levels, 2 * levels, 1};
}

static struct latency collnet_latency(const lk_nccl_site *site, lk_algo algo) {
	lk_nccl_hop inside = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
	double others = fmax(site->ppn - 1, 0), hops = others, base = 0;
	if (algo == LK_ALGO_COLLNET_DIRECT) hops = fmin(others, 1), base = 2 * .4 * others;
	return (struct latency){base,     hop_latency[inside][algo][LK_PROTO_SIMPLE],
	                        2 * hops, hop_latency[LK_NCCL_HOP_NET][algo][LK_PROTO_SIMPLE],
	                        1,        1,
	                        1};
}

static struct latency latency_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                                 lk_proto proto, double bytes) {
	double levels = floor_log2(site->nodes), far = hop_latency[LK_NCCL_HOP_NET][algo][proto];
	switch (algo) {
	case LK_ALGO_RING: return ring_latency(kind, site, proto, bytes);
	case LK_ALGO_TREE: return tree_latency(site, proto);
	case LK_ALGO_PAT:
		return (struct latency){
			base_latency[algo][proto], 2.8, site->n, far / 3.5, levels, levels, 1};
	case LK_ALGO_COLLNET_DIRECT:
	case LK_ALGO_COLLNET_CHAIN: return collnet_latency(site, algo);
	default:                                                         /* NVLS and NVLSTree */
		if (algo == LK_ALGO_NVLS) levels = site->nodes > 1 ? .5 : 0; /* to the switches and back */
		return (struct latency){multicast_hop(site, hop_latency[LK_NCCL_HOP_NVLINK][algo][proto]),
		                        0,
		                        0,
		                        far,
		                        2 * levels,
		                        2 * levels,
		                        1};
	}
}

/* ---- bandwidth and latency combined ---- */

struct correction {
	double step,
		smooth; /* as in NCCL; interpolated between the steps, so that a time never falls as bytes
		         * grow */
};

static struct correction correction_of(const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                                       double bytes) {
	bool trees =
		algo == LK_ALGO_TREE || (algo == LK_ALGO_NVLSTREE && site->generation == LK_NCCL_BLACKWELL);
	int index = floor_log2(bytes / 64);
	if (!trees || index > 23) return (struct correction){1, 1};
	double low = tree_correction[proto][index],
		   high = index < 23 ? tree_correction[proto][index + 1] : 1;
	double part = fmax(0, ldexp(bytes / 64, -index) - 1);
	return (struct correction){low, low + (high - low) * part};
}

bool lk_nccl_terms_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                      double bytes, lk_nccl_terms *out) {
	if (!offered(kind, site, algo, proto)) return false;
	struct latency wait = latency_of(kind, site, algo, proto, bytes);
	struct correction tree = correction_of(site, algo, proto, bytes);
	double rate = bandwidth_of(kind, site, algo, proto);
	double passes = proto == LK_PROTO_SIMPLE ? 2 : 1; /* data and flush */
	double told = wait.network * site->nic_hint * passes;
	double links = 1e6 * lk_reach_latency(site->reach, lk_coll_traffic(kind, algo));
	*out = (lk_nccl_terms){
		.base = wait.base,
		.near = wait.near,
		.near_hops = wait.near_hops,
		.far = wait.far,
		.crossings = wait.crossings,
		.network = wait.network * (site->nic_latency * passes + links),
		.latency =
			wait.plateau * (wait.base + wait.near * wait.near_hops + wait.far * wait.crossings) +
			told,
		.transfer = bytes / (1000 * rate * tree.step),
		.smooth = tree.smooth,
	};
	return true;
}

/* ---- channels ---- */

/* Channels of the communicator: the search's result, doubled, at most 64. */
int lk_nccl_most_channels(const lk_nccl_site *site, lk_algo algo) {
	const lk_nccl_settings *settings = site->settings;
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE) return site->multicast.channels;
	int channels = 2 * site->ring.channels;
	if (channels > 64) channels = 64;
	if (settings->most_channels > 0 && channels > settings->most_channels)
		channels = settings->most_channels;
	return channels < settings->least_channels ? settings->least_channels : channels;
}

/* Every channel gets at least 32 KiB of traffic, LL counting four times; NVLS uses all of its
 * channels. */
int lk_nccl_channels(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                     double bytes) {
	int most = lk_nccl_most_channels(site, algo);
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE) return most;
	double traffic = bytes * (kind == LK_COLL_ALLREDUCE ? 2 : 1) * (proto == LK_PROTO_LL ? 4 : 1);
	double wanted = ceil(traffic / 32768);
	if (wanted >= most) return most;
	if (wanted < 1) return 1;
	return (int)wanted;
}
