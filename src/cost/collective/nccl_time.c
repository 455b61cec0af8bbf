/* nccl_time.c: how long a collective takes, from what NCCL's tables say of it, five numbers of the
 * fabric and the laws that all fabrics share:
 *
 *     wait     = launch ppn^ranks + channel (channels - 1) + base' + hops' + net' + network
 *                + scan LL's bytes over the network
 *     transfer = max(S / (bandwidth e), what the NICs carry / (rate * reached share))
 *     t        = wait + transfer
 *
 * base', hops' and net' are NCCL's latencies times factors. LL's bytes lie in the host's memory
 * before they leave, where a proxy thread looks at each flag. e is the fabric's `wire` times the
 * share that the protocol reaches. Channels are those that a call of this size opens: it is their
 * number, growing with the size, that makes middle sizes slow. */
#include "cost/collective/nccl.h"

#include <math.h>

/* Channels that a call of this size uses, as a real number so that a time never falls as bytes
 * grow: each thread of a channel gets at least so many bytes (NCCL's thresholds, enqueue.cc; rings
 * count all ranks). */
static double channels_at(const lk_nccl_site *site, lk_algo algo, lk_proto proto, double bytes) {
	static const double least[LK_PROTOS] = {8 * 512, 8 * 640, 64 * 512};
	if (algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE)
		return 1; /* uses all, whatever the size */
	double each = least[proto] * (algo == LK_ALGO_RING && proto == LK_PROTO_LL ? site->n : 1);
	return fmin(fmax(bytes / each, 1), lk_nccl_most_channels(site, algo));
}

/* A Simple ring of few ranks overlaps its steps less, which shows on NVLinks. Where its rate is the
 * NICs', only their share counts. */
static double efficiency_of(const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	const lk_nccl_laws *laws = site->laws;
	double wire = site->fabric->wire;
	if (proto == LK_PROTO_LL) return laws->ll * wire;
	if (proto == LK_PROTO_LL128) return laws->ll128 * wire;
	if (algo != LK_ALGO_RING) return wire;
	bool nics = site->nodes > 1 && (site->ppn <= 1 || site->node_nics * .96 < site->wire);
	if (nics) return 1;
	return site->nvlink ? wire * (1 - laws->fill / site->n) : fmin(wire, 1);
}

/* Bytes of a call that fill half of the multicast's pipeline. */
static const double half_filled = 8e6;

/* Where a switch multicasts, each GPU sends and receives every byte once, and those of its own
 * share once more. In time NCCL's own estimate, by which it chooses, is too low for few GPUs. */
static double multicast_transfer(const lk_nccl_site *site, double bytes) {
	const lk_nccl_laws *laws = site->laws;
	double share = laws->nvls_hopper, heads = site->heads;
	if (site->ppn > 8) share = laws->nvls_rack;
	else if (site->generation == LK_NCCL_BLACKWELL) share = laws->nvls_blackwell;
	return bytes * (heads + 1) / heads / (1000 * site->wire * site->fabric->wire * share) +
	       laws->nvls_fill_us * site->ppn * bytes / (bytes + half_filled);
}

/* GB/s that the channels of a call move at most: each is one CTA, and no more of its buffer than
 * the receiver has given back is under way. */
static double channels_limit(const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	const lk_nccl_settings *settings = site->settings;
	double channels = lk_nccl_most_channels(site, algo), each = INFINITY;
	if (settings->most_channels > 0) each = lk_nccl_channel_rate(site->generation);
	if (settings->buffer_bytes > 0 && proto == LK_PROTO_SIMPLE) {
		lk_nccl_hop hop = site->nvlink ? LK_NCCL_HOP_NVLINK : LK_NCCL_HOP_PCI;
		if (site->nodes > 1) hop = LK_NCCL_HOP_NET;
		double there = lk_nccl_hop_latency(hop, LK_ALGO_RING, proto) + site->nic_latency;
		each = fmin(each, settings->buffer_bytes / (2000 * there));
	}
	return channels * each;
}

/* Bytes on the NICs per byte: LL sends a flag with every word, LL128 with every line. */
static double nic_bytes(lk_proto proto) {
	if (proto == LK_PROTO_LL) return 2;
	if (proto == LK_PROTO_LL128) return 128. / 120;
	return 1;
}

static double wait_of(const lk_nccl_site *site, lk_algo algo, lk_proto proto, double bytes,
                      const lk_nccl_terms *terms) {
	static const double ll_base = 6.6; /* the fixed latency of LL: part of the fabric's launch */
	const lk_nccl_laws *laws = site->laws;
	bool multicast = algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE;
	double launch = site->fabric->launch * pow(fmin(site->ppn, 8), laws->ranks);
	double base = laws->base * (multicast ? terms->base : terms->base - ll_base);
	double hops = laws->hops * terms->hops;
	if (site->generation >= LK_NCCL_HOPPER) hops *= laws->hopper_hops;
	double scanned = proto == LK_PROTO_LL ? terms->crossings * bytes / 1000 : 0;
	if (algo == LK_ALGO_RING) scanned /= site->n; /* a step passes a part, a tree's all */
	double channel = site->fabric->channel;
	if (site->generation >= LK_NCCL_HOPPER) channel *= laws->hopper_hops;
	double network = laws->net_hops * terms->net + terms->network + laws->scan * scanned +
	                 (site->sockets ? laws->socket_us * terms->crossings : 0);
	return fmax(
		launch + base + hops + channel * (channels_at(site, algo, proto, bytes) - 1) + network, .1);
}

bool lk_nccl_estimate_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                         double bytes, lk_nccl_estimate *out) {
	lk_nccl_terms terms;
	if (!lk_nccl_terms_of(kind, site, algo, proto, bytes, &terms)) return false;
	double carried = lk_nccl_nic_traffic(kind, site, algo) * bytes * nic_bytes(proto);
	double nics = carried / (1000 * site->node_nics * site->nic_efficiency);
	bool multicast = algo == LK_ALGO_NVLS || algo == LK_ALGO_NVLSTREE;
	double links = multicast ? multicast_transfer(site, bytes)
	                         : terms.smooth_transfer / efficiency_of(site, algo, proto);
	double moved = bytes * (multicast ? 1 : lk_coll_busbw_factor(kind, site->n));
	double transfer = fmax(fmax(links, moved / (1000 * channels_limit(site, algo, proto))), nics);
	double wait = wait_of(site, algo, proto, bytes, &terms);
	out->latency = terms.latency;
	out->predicted = terms.latency + terms.transfer;
	out->time = wait + transfer;
	if (wait > transfer) out->limit = LK_LIMIT_LATENCY;
	else if (nics >= transfer) out->limit = LK_LIMIT_NICS;
	else out->limit = LK_LIMIT_LINKS;
	return true;
}
