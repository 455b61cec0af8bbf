/* nccl_time.c: the duration of a collective from NCCL's tables, five numbers of the fabric and the
 * laws that all fabrics share:
 *
 *     wait     = launch' + channel (channels - 1) + base' + near' hops + far' crossings + network
 *                + scan LL's bytes over the network
 *     transfer = max((what the links carry + a ring's copy of the own share) / (rate e), what the
 *                NICs carry / (rate * reached share), limits)
 *     t        = wait + transfer
 *
 * launch', base', near' and far' are the fabric's launch and NCCL's latencies times factors,
 * launch' and near' by the generation of the GPUs. LL's bytes wait in host memory before
 * they leave, where a proxy thread checks each flag. e is the fabric's `wire` times the share that
 * the protocol reaches. Before NCCL 2.22 channels, those that a call of this size opens, cost time
 * each: their number grows with the size, which makes medium sizes slow.
 *
 * Every term falls or is unchanged as any part of the fabric improves: faster or more links and
 * NICs, less latency, a newer GPU, a larger domain. As the fastest candidate is chosen and a better
 * fabric has all candidates of a worse one, better hardware is never slower. */
#include "cost/collective/nccl.h"

#include <math.h>

static bool multicasts(lk_algo algo) {
	return algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE;
}

/* Ranks up to which a group multicasts like one board: two boards do. */
static const int board_ranks = 16;

bool lk_nccl_is_rack(const lk_nccl_site *site) {
	return site->nvls && site->ppn > board_ranks;
}

/* Channels of a call after which a further one costs nothing: as many as NCCL's search finds. Equal
 * for all links, so that faster ones, which open more channels, do not pay for them; half on PCIe,
 * which opens few. */
static const double channels_paid = 16;

/* Channels that a call of this size uses, as a real number so that a time never falls as bytes
 * grow: each thread of a channel gets at least a minimum of bytes (NCCL's thresholds, enqueue.cc;
 * rings count all ranks). */
static double channels_at(const lk_nccl_site *site, lk_algo algo, lk_proto proto, double bytes) {
	static const double least[LK_PROTOS] = {8 * 512, 8 * 640, 64 * 512};
	if (multicasts(algo)) return 1;             /* uses all channels at any size */
	if (!lk_nccl_before(site, 22200)) return 1; /* one launch holds them all */
	double each = least[proto] * (algo == LK_ALGO_RING && proto == LK_PROTO_LL ? site->n : 1);
	double most = site->nvlink || site->nodes > 1 ? channels_paid : channels_paid / 2;
	if (site->settings->most_channels > 0) most = fmin(most, site->settings->most_channels);
	return fmin(fmax(bytes / each, 1), most);
}

/* ---- transfer ---- */

/* The bandwidth share that an algorithm's protocol reaches, from NCCL's tables and, for LL and
 * LL128, measurements. */
static double protocol_share(const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	const lk_nccl_laws *laws = site->laws;
	static const double ring[LK_PROTOS] = {.5, .92, 1}, tree[LK_PROTOS] = {.92 / 3.8, .8625, .92};
	double share = 1;
	if (algo == LK_ALGO_RING) share = ring[proto];
	if (algo == LK_ALGO_TREE) share = tree[proto];
	if (algo == LK_ALGO_PAT) share = .75;
	if (algo == LK_ALGO_COLLNET_DIRECT && site->generation >= LK_NCCL_HOPPER) share = .85;
	if (proto == LK_PROTO_LL) return share * laws->ll;
	return proto == LK_PROTO_LL128 ? share * laws->ll128 : share;
}

/* Most GB/s of LL on 1, 2, and 3 or more nodes: NCCL's table, raised where a newer GPU or fewer
 * nodes would have less than older ones or more nodes. */
static double ll_most(const lk_nccl_site *site) {
	static const double most[LK_NCCL_GENERATIONS][3] = {
		{39, 22.5, 19},
		{87.7, 22.5, 19},
		{141, 39, 20.4},
		{282, 39, 20.4},
	};
	return most[site->generation][site->nodes > 2 ? 2 : site->nodes - 1];
}

/* Bytes that a GPU sends through its links, per byte of the call, without multicast. */
static double link_bytes(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo) {
	if (algo == LK_ALGO_TREE || algo == LK_ALGO_COLLNET_CHAIN) return 2;
	if (algo == LK_ALGO_COLLNET_DIRECT) return 2 * (site->ppn - 1) / site->ppn;
	return lk_nccl_ring_traffic(kind, site->n);
}

double lk_nccl_own_bytes(const lk_nccl_site *site, double bytes) {
	if (!site->nvlink || site->nodes > 1) return 0;
	double share = bytes / site->n, most = site->laws->own * 1e6;
	return share * pow(fmax(1, share / most), -site->laws->own_power);
}

static double links_transfer(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                             lk_proto proto, double bytes) {
	if (site->ppn <= 1) return 0;
	double wire = site->nvlink ? site->fabric->wire : fmin(site->fabric->wire, 1);
	double rate = site->wire * wire * protocol_share(site, algo, proto);
	double own = algo == LK_ALGO_RING ? lk_nccl_own_bytes(site, bytes) : 0;
	return (link_bytes(kind, site, algo) * bytes + own) / (1000 * rate);
}

/* Across nodes a tree has the channels that its NICs open, each with NCCL's limit, raised where a
 * newer GPU or fewer nodes would have less than older ones or more nodes. */
static double tree_transfer(const lk_nccl_site *site, lk_proto proto, double bytes) {
	static const double simple[LK_NCCL_GENERATIONS][2] = {
		{18.5, 10},
		{23.6, 17.8},
		{41.4, 36},
		{42.8, 36},
	};
	static const double ll128[LK_NCCL_GENERATIONS][2] = {
		{20, 20},
		{20, 20},
		{36.7, 29},
		{36.7, 29},
	};
	if (site->nodes < 2) return 0;
	const double(*table)[2] = proto == LK_PROTO_LL128 ? ll128 : simple;
	double each = table[site->generation][site->nodes > 2];
	if (proto == LK_PROTO_LL) each *= site->laws->ll / 3.8;
	return 2 * bytes / (1000 * site->ring.channels * each);
}

/* Share of data among the bytes on the NICs: LL sends a flag with every word, LL128 with every
 * line. */
static double nics_share(lk_algo algo, lk_proto proto) {
	static const double data[LK_PROTOS] = {.5, 120. / 128, 1};
	return algo == LK_ALGO_PAT ? .75 : data[proto];
}

/* Messages that pass one edge between nodes one after another: those of all steps of a ring, in
 * which each step waits for the slowest edge. */
static double messages_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                          double crossings) {
	if (lk_coll_traffic(kind, algo) == LK_TRAFFIC_TREE) return crossings;
	return lk_nccl_ring_traffic(kind, site->n) * site->n;
}

/* GB/s of the NICs that the multicast of a rack sends through: one in eight, at no more than a
 * channel's 48. Two and twenty racks of GB200 take 2.40 and 4.66 ms per GB, once and twice a byte
 * at 9 x 48. */
static double rack_nics(const lk_nccl_site *site) {
	return fmin(site->node_nics / site->ppn, 50) * site->ppn / 8;
}

static double nics_transfer(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                            lk_proto proto, double crossings, double bytes) {
	if (site->nodes < 2) return 0;
	double nics = site->node_nics;
	if (multicasts(algo) && lk_nccl_is_rack(site)) nics = fmin(nics, rack_nics(site));
	double rate = nics * site->nic_efficiency * nics_share(algo, proto) *
	              lk_nccl_network_part(site, lk_coll_traffic(kind, algo));
	double sent = lk_nccl_nic_traffic(kind, site, algo) * bytes / (1000 * rate);
	return site->message_us > 0
	           ? hypot(sent, site->message_us * messages_of(kind, site, algo, crossings))
	           : sent;
}

/* Bytes of a call that half fill the multicast's pipeline, and the most ranks whose filling was
 * measured: two racks. */
static const double half_filled = 8e6;
static const int most_filling = 144;

/* Rounds of a multicast's call, in each of which every channel and head moves a chunk. NCCL takes
 * 16, 32 and 64 KiB and the most that is set for calls of more than 0, 2, 8 and 64 times such a
 * round (enqueue.cc). The chunk grows around a step as a power of the bytes. */
static double multicast_rounds(const lk_nccl_site *site, double bytes) {
	double set = site->settings->nvls_chunk, most = set > 0 ? set / 1024 : 128;
	const double times[] = {2, 8, 64}, chunks[] = {32, 64, most};
	double kib = 16, each = bytes / 1024 / ((double)site->multicast.channels * site->heads);
	for (int i = 0; i < 3; i++) {
		double chunk = fmax(kib, fmin(chunks[i], most));
		double passed = log2(each / (times[i] * chunk)) + .5; /* octaves, from sqrt(1/2) of it */
		kib *= pow(chunk / kib, fmin(fmax(passed, 0), 1));
	}
	return each / kib;
}

/* If a switch multicasts, each GPU sends and receives every byte once, and those of its own share
 * once more; a round has a least time. NCCL's own estimate is too low for few GPUs. Terms depend
 * either on the ranks or on the domain, so that a larger domain is never slower. */
static double multicast_transfer(const lk_nccl_site *site, double bytes) {
	const lk_nccl_laws *laws = site->laws;
	double share = laws->nvls_hopper, heads = site->heads;
	if (site->n > board_ranks) share = laws->nvls_rack;
	else if (site->generation == LK_NCCL_BLACKWELL) share = laws->nvls_blackwell;
	double moved = bytes * (heads + 1) / heads / (1000 * site->wire * site->fabric->wire * share);
	return hypot(moved, laws->nvls_round_us * multicast_rounds(site, bytes)) +
	       laws->nvls_fill_us * fmin(site->n, most_filling) * bytes / (bytes + half_filled);
}

/* Bytes of a channel's buffer unless NCCL_BUFFSIZE is set. */
static const double buffer_default = 4 << 20;

/* Most GB/s of a call's channels: each is one CTA, and has no more bytes of its buffer in flight
 * than the receiver has returned. An unset buffer is large enough except for the latency that a
 * described network adds. */
static double channels_limit(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo,
                             lk_proto proto) {
	const lk_nccl_settings *settings = site->settings;
	double channels = lk_nccl_most_channels(site, algo), each = INFINITY;
	if (settings->most_channels > 0) each = lk_nccl_channel_rate(site->generation);
	double links = 1e6 * lk_reach_latency(site->reach, lk_coll_traffic(kind, algo));
	if ((settings->buffer_bytes > 0 || links > 0) && proto == LK_PROTO_SIMPLE) {
		lk_nccl_hop hop = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
		if (site->nodes > 1) hop = LK_NCCL_HOP_NET;
		double there = lk_nccl_hop_latency(hop, LK_ALGO_RING, proto) + site->nic_latency + links,
			   buffer = settings->buffer_bytes > 0 ? settings->buffer_bytes : buffer_default;
		each = fmin(each, buffer / (2000 * there));
	}
	return channels * each;
}

/* ---- wait ---- */

double lk_nccl_hops(const lk_nccl_site *site) {
	const lk_nccl_laws *laws = site->laws;
	if (!site->nvlink) return laws->hops_pcie;
	if (site->generation == LK_NCCL_BLACKWELL) return laws->hops_blackwell;
	return site->generation == LK_NCCL_HOPPER ? laws->hops_hopper : laws->hops_ampere;
}

double lk_nccl_launch(const lk_nccl_site *site) {
	double factor = 1;
	if (site->generation < LK_NCCL_HOPPER) factor = site->laws->launch_ampere;
	if (site->generation == LK_NCCL_BLACKWELL && site->nvlink)
		factor = site->laws->launch_blackwell;
	return site->fabric->launch * factor;
}

/* A tree is a chain of the GPUs of a node, up and down. If one more level costs less than half of
 * the chain, it has one more: then a node of twice the GPUs is never slower than two nodes. */
static double tree_hops(const lk_nccl_site *site, double near, double far, double crossings) {
	double chain = fmax(site->ppn, 1), levels = crossings / 2;
	for (; chain > 1 && chain / 2 * near > far; chain /= 2) levels++;
	return 2 * ((chain - 1) * near + levels * far);
}

static double wait_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                      double bytes, const lk_nccl_terms *terms) {
	static const double ll_base = 6.6; /* the fixed latency of LL: part of the fabric's launch */
	const lk_nccl_laws *laws = site->laws;
	double launch = lk_nccl_launch(site);
	bool without_ll = multicasts(algo) || lk_coll_traffic(kind, algo) == LK_TRAFFIC_SWITCHES;
	double base = laws->base * (without_ll ? terms->base : terms->base - ll_base);
	double near = lk_nccl_hops(site) * terms->near, far = fmax(laws->net_hops * terms->far, near);
	double hops = algo == LK_ALGO_TREE ? tree_hops(site, near, far, terms->crossings)
	                                   : near * terms->near_hops + far * terms->crossings;
	double scanned = proto == LK_PROTO_LL ? terms->crossings * bytes / 1000 : 0;
	if (algo == LK_ALGO_RING)
		scanned /= site->n; /* a ring's step passes a part, a tree's
		                     * everything */
	double channels = site->fabric->channel * (channels_at(site, algo, proto, bytes) - 1);
	double network = terms->network + laws->scan * scanned +
	                 (site->sockets ? laws->socket_us * terms->crossings : 0);
	return fmax(launch + base + hops + channels + network, .1);
}

bool lk_nccl_estimate_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                         double bytes, lk_nccl_estimate *out) {
	lk_nccl_terms terms;
	if (!lk_nccl_terms_of(kind, site, algo, proto, bytes, &terms)) return false;
	double nics = nics_transfer(kind, site, algo, proto, terms.crossings, bytes), links;
	if (multicasts(algo)) links = multicast_transfer(site, bytes);
	else {
		links = links_transfer(kind, site, algo, proto, bytes) / terms.smooth;
		if (algo == LK_ALGO_TREE)
			links = fmax(links, tree_transfer(site, proto, bytes) / terms.smooth);
		nics /= terms.smooth;
	}
	double moved = bytes * (multicasts(algo) ? 1 : link_bytes(kind, site, algo));
	if (proto == LK_PROTO_LL)
		links = fmax(links, moved / (1000 * ll_most(site) * site->laws->ll) / terms.smooth);
	double transfer =
		fmax(fmax(links, moved / (1000 * channels_limit(kind, site, algo, proto))), nics);
	double wait = wait_of(kind, site, algo, proto, bytes, &terms);
	out->latency = terms.latency;
	out->predicted = terms.latency + terms.transfer;
	out->time = wait + transfer;
	if (wait > transfer) out->limit = LK_LIMIT_LATENCY;
	else if (nics >= transfer)
		out->limit = lk_nccl_network_part(site, lk_coll_traffic(kind, algo)) < 1 ? LK_LIMIT_NETWORK
		                                                                         : LK_LIMIT_NICS;
	else out->limit = LK_LIMIT_LINKS;
	return true;
}
