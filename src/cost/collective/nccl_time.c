/* nccl_time.c: how long a collective takes, from what NCCL's tables say of it and five numbers of
 * the fabric:
 *
 *     wait     = launch ppn^ranks + channel (channels - 1) + base' + hops' + net' + network
 *     transfer = max(S / (bandwidth e), what the NICs carry / (rate * reached share))
 *     t        = (wait^p + transfer^p)^(1/p)
 *
 * base', hops' and net' are NCCL's latencies times factors that hold everywhere. e is the fabric's
 * `wire` times the share that the protocol reaches. p is `join`, 1 for one after the other; in
 * rings through NVSwitch it is larger from Hopper on: there the longer of the two counts. Channels
 * are those that a call of this size opens: it is their number, growing with the size, that makes
 * middle sizes slow. */
#include "cost/collective/nccl.h"

#include <math.h>

/* Fitted together to collectives on six fabrics (NDv4, NetX-lab/Echo@15f0d12 nccl-test-log;
 * microsoft/vidur data/profiling/network), and checked on eight H100 (MooreThreads/SimuMax@4dcaae5
 * nccl_fit.py). */
const lk_nccl_globals lk_nccl_global = {
	.base = .48,
	.hops = 2.11,
	.simple_hops = 1.11,
	.hopper_hops = .45,
	.net_hops = 1.22,
	.ranks = .31,
	.least = .92,
	.ll_channel = 1.1,
	.ll = .83,
	.ll128 = 1.06,
	.nvls = .95,
	.fill = .62,
	.nvls_fill_us = 65,
	.nvls_fill_bytes = 8e6,
	.join = 1.08,
	.hopper_join = 5.96,
	.ll_nics = 2.07,
	.socket_us = 10.5,
	.crowd = .26,
	.message_launch = .67,
	.message_hops = 1.9,
	.message_join = 1.4,
	.message_wire = 1.08,
	.message_nic = 1.28,
	.buffer_rate = 8.17,
};

/* Channels that a call of this size uses, as a real number so that a time never falls as bytes
 * grow: each thread of a channel gets at least so many bytes (NCCL's thresholds, enqueue.cc; rings
 * count all ranks). */
static double channels_at(const lk_nccl_site *site, lk_algo algo, lk_proto proto, double bytes) {
	static const double least[LK_PROTOS] = {8 * 512, 8 * 640, 64 * 512};
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE)
		return 1; /* uses all, whatever the size */
	double each = least[proto] * (algo == LK_ALGO_RING && proto == LK_PROTO_LL ? site->n : 1) *
	              lk_nccl_global.least;
	return fmin(fmax(bytes / each, 1), lk_nccl_most_channels(site, algo));
}

/* A Simple ring of few ranks overlaps its steps less. Where its rate is the NICs', only their share
 * counts. */
static double efficiency_of(const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	double wire = site->fabric->wire;
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE) return lk_nccl_global.nvls;
	if (proto == LK_PROTO_LL) return lk_nccl_global.ll * wire;
	if (proto == LK_PROTO_LL128) return lk_nccl_global.ll128 * wire;
	if (algo != LK_ALGO_RING) return wire;
	bool nics = site->nodes > 1 && (site->ppn <= 1 || site->node_nics * .96 < site->wire);
	return nics ? 1 : wire * (1 - lk_nccl_global.fill / site->n);
}

/* Bytes on the NICs per byte: LL sends a flag with every word, LL128 with every line. */
static double nic_bytes(lk_proto proto) {
	if (proto == LK_PROTO_LL) return lk_nccl_global.ll_nics;
	if (proto == LK_PROTO_LL128) return 128. / 120;
	return 1;
}

static double wait_of(const lk_nccl_site *site, lk_algo algo, lk_proto proto, double bytes,
                      const lk_nccl_terms *terms) {
	static const double ll_base = 6.6; /* the fixed latency of LL: part of the fabric's launch */
	const lk_nccl_globals *globals = &lk_nccl_global;
	bool multicast = algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE,
		 simple = proto == LK_PROTO_SIMPLE && !multicast;
	double launch = site->fabric->launch * pow(fmin(site->ppn, 8), globals->ranks);
	double base = globals->base * (multicast ? terms->base : terms->base - ll_base);
	double hops = globals->hops * terms->hops * (simple ? globals->simple_hops : 1);
	if (site->generation >= LK_NCCL_HOPPER) hops *= globals->hopper_hops;
	double channel = site->fabric->channel * (proto == LK_PROTO_LL ? globals->ll_channel : 1);
	double network = globals->net_hops * terms->net + terms->network +
	                 (site->sockets ? globals->socket_us * terms->crossings : 0);
	return fmax(
		launch + base + hops + channel * (channels_at(site, algo, proto, bytes) - 1) + network, .1);
}

bool lk_nccl_estimate_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                         double bytes, lk_nccl_estimate *out) {
	lk_nccl_terms terms;
	if (!lk_nccl_terms_of(kind, site, algo, proto, bytes, &terms)) return false;
	double carried = lk_nccl_nic_traffic(kind, site, algo) * bytes * nic_bytes(proto);
	double nics = carried / (1000 * site->node_nics * site->nic_efficiency);
	double transfer = fmax(terms.smooth_transfer / efficiency_of(site, algo, proto), nics);
	double wait = wait_of(site, algo, proto, bytes, &terms);
	if (algo == LK_ALGO_NVLS)
		transfer += lk_nccl_global.nvls_fill_us * bytes / (bytes + lk_nccl_global.nvls_fill_bytes);
	bool overlaps = algo == LK_ALGO_RING && site->switched && site->generation >= LK_NCCL_HOPPER &&
	                site->nodes == 1;
	double p = overlaps ? lk_nccl_global.hopper_join : lk_nccl_global.join;
	out->latency = terms.latency;
	out->predicted = terms.latency + terms.transfer;
	out->time = pow(pow(wait, p) + pow(transfer, p), 1 / p);
	if (wait > transfer) out->limit = LK_LIMIT_LATENCY;
	else if (nics >= transfer) out->limit = LK_LIMIT_NICS;
	else out->limit = LK_LIMIT_LINKS;
	return true;
}
