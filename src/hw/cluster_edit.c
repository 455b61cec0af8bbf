/* cluster_edit.c: clusters derived from others: larger, with another device, with another
 * network. */
#include "hw/hw.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "hw/hw_internal.h"

static lk_cluster_draft draft_like(const lk_cluster *from) {
	lk_cluster_draft draft = LK_CLUSTER_DRAFT_INIT;
	draft.oversubscription = from->oversubscription;
	draft.rail_optimised = from->rail_optimised;
	draft.net = from->net;
	return draft;
}

static lk_status seal(lk_arena *arena, lk_cluster_draft *draft, lk_status status, lk_cluster *out,
                      lk_error *err) {
	if (status == LK_OK) status = lk_cluster_seal(arena, draft, out, err);
	lk_vec_free(&draft->runs);
	return status;
}

static bool edit_same_node(const lk_node *a, const lk_node *b) {
	return a->device == b->device && a->gpus == b->gpus && a->intra == b->intra &&
	       a->intra_rate == b->intra_rate && a->pair_rate == b->pair_rate &&
	       a->no_peer == b->no_peer && a->nics == b->nics && a->nic_rate == b->nic_rate &&
	       a->nic_latency_s == b->nic_latency_s && a->transport == b->transport;
}

/* Whether all nodes are of one kind, except perhaps a smaller last one, as lk_cluster_fill makes
 * them. */
static bool filled(const lk_cluster *cluster) {
	lk_cluster_draft again = LK_CLUSTER_DRAFT_INIT;
	bool same = lk_cluster_fill(&again, &cluster->node[0], cluster->gpus, NULL) == LK_OK &&
	            again.runs.count == (size_t)cluster->groups;
	for (int g = 0; same && g < cluster->groups; g++)
		same = edit_same_node(&again.runs.at[g].node, &cluster->node[g]) &&
		       again.runs.at[g].nodes == cluster->nodes[g];
	lk_vec_free(&again.runs);
	return same;
}

/* A part of a default node grows into default nodes: `lockstep predict --gpus 4` and 16 are of one
 * kind. */
static lk_node whole_node(const lk_cluster *cluster) {
	lk_node node = cluster->node[0], usual = lk_node_usual(node.device, node.device->node_gpus);
	lk_node part = usual;
	part.gpus = node.gpus;
	part.nics = node.gpus;
	bool alone = cluster->groups == 1 && cluster->nodes[0] == 1 && node.gpus < usual.gpus;
	return alone && edit_same_node(&node, &part) ? usual : node;
}

lk_status lk_cluster_grown(lk_arena *arena, const lk_cluster *from, int gpus, lk_cluster *out,
                           lk_error *err) {
	if (gpus <= from->gpus) {
		*out = *from;
		return LK_OK;
	}
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	lk_node node = whole_node(from);
	if (filled(from))
		return seal(arena, &draft, lk_cluster_fill(&draft, &node, gpus, err), out, err);
	const lk_node *last = &from->node[from->groups - 1];
	for (int g = 0; g < from->groups && status == LK_OK; g++)
		status = lk_cluster_add(&draft, &from->node[g], from->nodes[g], "--cluster", err);
	int more = (gpus - from->gpus + last->gpus - 1) / last->gpus;
	if (status == LK_OK) status = lk_cluster_add(&draft, last, more, "--cluster", err);
	return seal(arena, &draft, status, out, err);
}

/* ---- another device ---- */

static bool edit_usual(lk_arena *arena, const lk_cluster *cluster) {
	lk_cluster simple;
	if (lk_cluster_simple(arena, cluster->node[0].device, cluster->gpus, 0, 0, &simple, NULL) !=
	    LK_OK)
		return false;
	bool same =
		simple.groups == cluster->groups && simple.oversubscription == cluster->oversubscription;
	for (int g = 0; same && g < cluster->groups; g++)
		same = simple.nodes[g] == cluster->nodes[g] &&
		       edit_same_node(&simple.node[g], &cluster->node[g]);
	return same;
}

lk_status lk_cluster_with_device(lk_arena *arena, const lk_cluster *from, const lk_device *device,
                                 lk_cluster *out, lk_error *err) {
	bool same = true;
	for (int g = 0; g < from->groups; g++) same &= from->node[g].device == device;
	if (same) {
		*out = *from;
		return LK_OK;
	}
	if (edit_usual(arena, from))
		return lk_cluster_simple(arena, device, from->gpus, 0, 0, out, err);
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	for (int g = 0; g < from->groups && status == LK_OK; g++) {
		lk_node node = from->node[g], fresh = lk_node_usual(device, node.gpus);
		node.device = device;
		node.intra = fresh.intra;
		node.intra_rate = fresh.intra_rate;
		node.pair_rate = node.pair_rate > 0 && device->link_bridge ? device->link_rate : 0;
		node.no_peer &= fresh.intra == LK_INTRA_PCIE;
		status = lk_cluster_add(&draft, &node, from->nodes[g], "--cluster", err);
	}
	return seal(arena, &draft, status, out, err);
}

lk_status lk_cluster_with_power(lk_arena *arena, const lk_cluster *from, double watts,
                                lk_cluster *out, lk_error *err) {
	bool same = true;
	for (int g = 0; g < from->groups; g++) same &= from->node[g].device->power_w == watts;
	if (same) {
		*out = *from;
		return LK_OK;
	}
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	const lk_device *last = NULL, *held = NULL;
	for (int g = 0; g < from->groups && status == LK_OK; g++) {
		lk_node node = from->node[g];
		if (node.device != last)
			status = lk_device_with_power(arena, last = node.device, watts, &held, err);
		node.device = held;
		if (status == LK_OK)
			status = lk_cluster_add(&draft, &node, from->nodes[g], "--cluster", err);
	}
	return seal(arena, &draft, status, out, err);
}

/* ---- rates ---- */

/* An amount: a factor, or a rate in bytes/s; optionally preceded by a count. */
struct amount {
	double factor, rate;
	int count;
};

/* Bytes/s of a unit; 0: unknown. "g" means Gbit/s, as links are sold. */
static double unit(const char *text) {
	static const struct {
		const char *name;
		double bytes;
	} units[] = {{"g", 1e9 / 8}, {"gbit/s", 1e9 / 8}, {"gbps", 1e9 / 8},
	             {"gb/s", 1e9},  {"gbs", 1e9},        {"tb/s", 1e12}};
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcasecmp(text, units[i].name) == 0) return units[i].bytes;
	return 0;
}

static bool read_amount(const char *text, struct amount *out) {
	const char *end;
	double number = lk_read_real(text, &end);
	*out = (struct amount){0};
	if (end == text || !(number > 0)) return false;
	if ((*end == 'x' || *end == 'X' || *end == '*') && end[1]) {
		if (number != floor(number) || number > LK_CLUSTER_NICS) return false;
		out->count = (int)number;
		text = end + 1;
		number = lk_read_real(text, &end);
		if (end == text || !(number > 0)) return false;
	} else if (strcasecmp(end, "x") == 0) {
		return out->factor = number, number >= 1e-6 && number <= 1e6;
	}
	out->rate = number * unit(end);
	return out->rate > 0 && out->rate <= LK_CLUSTER_RATE;
}

lk_status lk_cluster_with_nics(lk_arena *arena, const lk_cluster *from, const char *text,
                               lk_cluster *out, lk_error *err) {
	struct amount a;
	if (!read_amount(text, &a))
		return lk_not_understood("nic", text, "write 2x, 400g (Gbit/s), 50GB/s or 8*400g", err);
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	for (int g = 0; g < from->groups && status == LK_OK; g++) {
		lk_node node = from->node[g];
		node.nic_rate = a.factor > 0 ? node.nic_rate * a.factor : a.rate;
		if (a.count) node.nics = a.count;
		status = lk_cluster_add(&draft, &node, from->nodes[g], "nic", err);
	}
	return seal(arena, &draft, status, out, err);
}

lk_status lk_cluster_with_links(lk_arena *arena, const lk_cluster *from, const char *text,
                                lk_cluster *out, lk_error *err) {
	struct amount a;
	if (!read_amount(text, &a) || a.count)
		return lk_not_understood("link", text, "write 2x, or a rate as 450GB/s", err);
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	for (int g = 0; g < from->groups && status == LK_OK; g++) {
		lk_node node = from->node[g];
		node.intra_rate = a.factor > 0 ? node.intra_rate * a.factor : a.rate;
		if (node.pair_rate > 0) node.pair_rate *= node.intra_rate / from->node[g].intra_rate;
		status = lk_cluster_add(&draft, &node, from->nodes[g], "link", err);
	}
	return seal(arena, &draft, status, out, err);
}

lk_status lk_cluster_with_topology(lk_arena *arena, const lk_cluster *from, const char *text,
                                   lk_cluster *out, lk_error *err) {
	lk_cluster_draft draft = draft_like(from);
	const char *at = text;
	draft.oversubscription = 1;
	draft.net = (lk_interconnect){0};
	if (!lk_same_name(text, "none")) {
		lk_error why = {0};
		lk_status status = lk_interconnect_read(&at, &draft.net, &why);
		if (status != LK_OK) {
			lk_fail(err, status, "topology", "%s", why.what);
			return lk_hint(err, "%s", why.hint);
		}
		if (*at) return lk_not_understood("topology", at, "write it as in tree 16 leaf 4:1", err);
	}
	lk_status status = LK_OK;
	for (int g = 0; g < from->groups && status == LK_OK; g++)
		status = lk_cluster_add(&draft, &from->node[g], from->nodes[g], "topology", err);
	return seal(arena, &draft, status, out, err);
}

/* ---- faults ---- */

static bool node_has_fault(lk_link_fault fault, const lk_cluster *from, lk_node *node, int *nodes) {
	bool pcie = node->intra == LK_INTRA_PCIE, several = from->gpus > node->gpus;
	switch (fault) {
	case LK_FAULT_SOCKETS:
		if (!several || node->transport != LK_TRANSPORT_RDMA) return false;
		node->transport = LK_TRANSPORT_SOCKETS;
		return true;
	case LK_FAULT_NO_LINKS:
		if (pcie || node->gpus < 2 || !(node->device->pcie_rate > 0)) return false;
		node->intra = LK_INTRA_PCIE;
		node->intra_rate = lk_intra_rate(node->device, LK_INTRA_PCIE);
		node->pair_rate = 0;
		return true;
	case LK_FAULT_NO_PEER:
		if (!pcie || node->no_peer || node->gpus < 2) return false;
		return node->no_peer = true;
	case LK_FAULT_HALF_NODES:
		if (node->gpus % 2) return false;
		node->gpus /= 2, *nodes *= 2;
		node->nics = node->nics > 1 ? node->nics / 2 : node->nics;
		return true;
	case LK_FAULT_SHARED_TREE:
		return several && from->oversubscription == 1 && from->net.kind == LK_NET_FLAT;
	}
	return false;
}

lk_status lk_cluster_with_fault(lk_arena *arena, const lk_cluster *from, lk_link_fault fault,
                                lk_cluster *out, bool *applies, lk_error *err) {
	lk_cluster_draft draft = draft_like(from);
	lk_status status = LK_OK;
	*applies = true;
	if (fault == LK_FAULT_SHARED_TREE) draft.oversubscription = 4;
	for (int g = 0; g < from->groups && status == LK_OK && *applies; g++) {
		lk_node node = from->node[g];
		int nodes = from->nodes[g];
		*applies = node_has_fault(fault, from, &node, &nodes);
		if (*applies) status = lk_cluster_add(&draft, &node, nodes, "--cluster", err);
	}
	if (*applies) return seal(arena, &draft, status, out, err);
	lk_vec_free(&draft.runs);
	return status;
}
