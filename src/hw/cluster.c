/* cluster.c: the common end of all cluster descriptions: default wiring of nodes, limits, places of
 * ranks. */
#include "base/arena.h"
#include "hw/hw_internal.h"
#include "base/check.h"

/* ---- nodes ---- */

static lk_intra usual_intra(const lk_device *device) {
	if (device->link_switch) return LK_INTRA_SWITCH;
	return device->link_rate > 0 && !device->link_bridge ? LK_INTRA_MESH : LK_INTRA_PCIE;
}

lk_node lk_node_usual(const lk_device *device, int gpus) {
	lk_intra intra = usual_intra(device);
	return (lk_node){
		.device = device,
		.gpus = gpus,
		.intra = intra,
		.intra_rate = lk_intra_rate(device, intra),
		.nics = gpus,
		.nic_rate = device->nic_rate,
		.nic_latency_s = 0,
	};
}

/* From small all-reduces between two nodes, after subtracting links and NCCL: 161 us on p4de, whose
 * cards send and receive; 70 us on p5, whose cards write to the receiver's memory (RDMA), as do all
 * cards of Hopper nodes and later. The value for 200 Gb/s and more comes from four nodes of B200
 * with 400 Gb/s, timed from the host. */
double lk_efa_latency(const lk_node *node) {
	lk_arch arch = node->device->arch;
	if (node->nic_rate >= 24e9) return 35e-6;
	return arch == LK_ARCH_HOPPER || arch == LK_ARCH_BLACKWELL ? 20e-6 : 75e-6;
}

/* Platform data of aws-ofi-nccl: 35 us for cards of 200 Gb/s and more, 75 us for earlier ones. */
double lk_efa_hint(double nic_rate) {
	return nic_rate >= 24e9 ? 35e-6 : 75e-6;
}

/* ---- drafts ---- */

static long long draft_gpus(const lk_cluster_draft *draft) {
	long long gpus = 0;
	for (size_t i = 0; i < draft->runs.count; i++) {
		const lk_node_run *run = &draft->runs.at[i];
		gpus += (long long)run->nodes * run->node.gpus;
	}
	return gpus;
}

lk_status lk_cluster_add(lk_cluster_draft *draft, const lk_node *node, int nodes, const char *where,
                         lk_error *err) {
	if (draft_gpus(draft) + (long long)nodes * node->gpus > LK_CLUSTER_GPUS)
		return lk_fail(err, LK_ERR_INPUT, where, "the cluster has more than %d GPUs",
		               LK_CLUSTER_GPUS);
	if (draft->runs.count >= LK_CLUSTER_GROUPS)
		return lk_fail(err, LK_ERR_INPUT, where, "more than %d kinds of nodes", LK_CLUSTER_GROUPS);
	if (!lk_push(&draft->runs)) return lk_oom(err);
	*lk_last(&draft->runs) = (lk_node_run){*node, nodes};
	return LK_OK;
}

lk_status lk_cluster_fill(lk_cluster_draft *draft, const lk_node *node, int gpus, lk_error *err) {
	int full = gpus / node->gpus, rest = gpus % node->gpus;
	if (full) LK_TRY(lk_cluster_add(draft, node, full, "--cluster", err));
	if (!rest) return LK_OK;
	lk_node last = *node;
	last.gpus = rest;
	/* NICs belong to GPUs if there is one for each; else the last node has as many as the
	 * others. */
	if (last.nics == node->gpus) last.nics = rest;
	return lk_cluster_add(draft, &last, 1, "--cluster", err);
}

lk_status lk_cluster_simple(lk_arena *arena, const lk_device *device, int gpus, int domain,
                            double nic_bytes_per_gpu, lk_cluster *out, lk_error *err) {
	if (gpus < 1 || gpus > LK_CLUSTER_GPUS)
		return lk_fail(err, LK_ERR_INPUT, "--gpus", "%d is not a number of GPUs from 1 to %d", gpus,
		               LK_CLUSTER_GPUS);
	if (domain < 0)
		return lk_fail(err, LK_ERR_INPUT, "--domain", "%d GPUs cannot be a domain", domain);
	if (!(nic_bytes_per_gpu >= 0 && nic_bytes_per_gpu <= LK_CLUSTER_RATE))
		return lk_fail(err, LK_ERR_INPUT, "--nic", "%g bytes/s is not a network rate",
		               nic_bytes_per_gpu);
	lk_cluster_draft draft = LK_CLUSTER_DRAFT_INIT;
	lk_node node = lk_node_usual(device, domain ? domain : device->node_gpus);
	if (device->link_bridge &&
	    domain == 2) { /* two cards declared a domain are joined by their bridge */
		node.intra = LK_INTRA_MESH;
		node.intra_rate = device->link_rate;
	}
	if (nic_bytes_per_gpu > 0) node.nic_rate = nic_bytes_per_gpu;
	lk_status status = lk_cluster_fill(&draft, &node, gpus, err);
	if (status == LK_OK) status = lk_cluster_seal(arena, &draft, out, err);
	lk_vec_free(&draft.runs);
	return status;
}

/* ---- places ---- */

lk_place lk_cluster_place(const lk_cluster *cluster, int rank) {
	LK_ASSERT(rank >= 0 && rank < cluster->gpus);
	lk_place place = {0, 0, 0};
	int first = 0; /* the run's first node, counted over all */
	for (int g = 0; g < cluster->groups; g++) {
		int per_node = cluster->node[g].gpus;
		if (g == cluster->groups - 1 || rank / per_node < cluster->nodes[g])
			return (lk_place){g, first + rank / per_node, rank % per_node};
		rank -= per_node * cluster->nodes[g];
		first += cluster->nodes[g];
	}
	return place;
}

/* ---- sealing ---- */

lk_status lk_cluster_seal(lk_arena *arena, const lk_cluster_draft *draft, lk_cluster *out,
                          lk_error *err) {
	size_t groups = draft->runs.count;
	if (!groups) return lk_fail(err, LK_ERR_INPUT, "--cluster", "it has no nodes");
	lk_cluster cluster = {
		.groups = (int)groups,
		.node = LK_ARRAY(arena, lk_node, groups),
		.nodes = LK_ARRAY(arena, int, groups),
		.gpus = (int)draft_gpus(draft),
		.oversubscription = draft->oversubscription,
		.rail_optimised = draft->rail_optimised,
		.net = draft->net,
	};
	if (!cluster.node || !cluster.nodes) return lk_oom(err);
	memcpy(cluster.nccl, draft->nccl, sizeof cluster.nccl);
	cluster.assumed = draft->assumed;
	for (size_t g = 0; g < groups; g++) {
		cluster.node[g] = draft->runs.at[g].node;
		cluster.nodes[g] = draft->runs.at[g].nodes;
	}
	LK_TRY(lk_interconnect_fits(&cluster, err));
	lk_cluster_text(&cluster, cluster.text, sizeof cluster.text);
	*out = cluster;
	return LK_OK;
}
