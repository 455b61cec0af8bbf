/* graph_chakra_machine.c: ASTRA-sim's further inputs: the process groups by number, and, if a graph
 * names its cluster, the machine:
 *
 *     comm_group.json  {"1": [0, 1], ...}: --comm-group-configuration
 *     network.yml      the node's links, then the fabric: --network-configuration (analytical)
 *     system.json      collectives, peak and memory of a device: --system-configuration
 *     memory.json      none but the device's: --remote-memory-configuration
 *
 * Rates are 2^30 bytes/s in network.yml and 1e9 bytes/s in system.json, as ASTRA-sim reads them
 * (astra-sim/astra-sim, extern/network_backend/analytical and astra-sim/system/Sys.cc). Latencies
 * are NCCL's of a hop with its LL protocol (nccl, src/graph/tuning.cc, hwLat). */
#include <stdio.h>

#include "base/arena.h"
#include "graph/graph_internal.h"
#include "hw/hw.h"

static const double link_ns = 600, fabric_ns = 2700;

static lk_status machine_open(const char *dir, const char *name, lk_sink **out, lk_error *err) {
	char path[4096];
	int length = snprintf(path, sizeof path, "%s/%s", dir, name);
	if (length < 0 || length >= (int)sizeof path)
		return lk_fail(err, LK_ERR_INPUT, "folder", "its name is too long");
	return lk_sink_open(path, out, err);
}

static lk_status machine_write_groups(const lk_export_groups *groups, const char *dir,
                                      lk_error *err) {
	lk_sink *out;
	LK_TRY(machine_open(dir, "comm_group.json", &out, err));
	lk_sink_printf(out, "{");
	for (size_t i = 0; i < groups->members.count; i++) {
		const lk_export_members *members = &groups->members.at[i];
		lk_sink_printf(out, "%s\n  \"%zu\": [", i ? "," : "", i + 1);
		for (size_t k = 0; k < members->count; k++)
			lk_sink_printf(out, "%s%u", k ? ", " : "", members->at[k]);
		lk_sink_printf(out, "]");
	}
	lk_sink_printf(out, "%s}\n", groups->members.count ? "\n" : "");
	return lk_sink_commit(out, err);
}

/* A node's GPUs share its NICs. The fabric is one switch even if the cluster describes its
 * network. */
int lk_export_levels(const lk_cluster *cluster, uint64_t ranks, lk_export_level levels[2]) {
	const lk_node *node = &cluster->node[0];
	uint64_t inside = (uint64_t)node->gpus < ranks ? (uint64_t)node->gpus : ranks;
	uint64_t nodes = (ranks + inside - 1) / inside;
	int count = 0;
	/* a single rank still occupies one level */
	if (inside > 1 || ranks == 1)
		levels[count++] =
			(lk_export_level){node->intra == LK_INTRA_MESH ? "FullyConnected" : "Switch", inside,
		                      node->intra_rate, link_ns};
	if (nodes > 1)
		levels[count++] = (lk_export_level){
			"Switch", nodes, node->nics * node->nic_rate / node->gpus / cluster->oversubscription,
			fabric_ns + node->nic_latency_s * 1e9};
	return count;
}

static lk_status machine_write_network(const lk_cluster *cluster, uint64_t ranks, const char *dir,
                                       int *dimensions, lk_error *err) {
	lk_export_level levels[2];
	static const char *const keys[] = {"topology", "npus_count", "bandwidth", "latency"};
	lk_sink *out;
	*dimensions = lk_export_levels(cluster, ranks, levels);
	LK_TRY(machine_open(dir, "network.yml", &out, err));
	for (int key = 0; key < 4; key++) {
		lk_sink_printf(out, "%s: [ ", keys[key]);
		for (int i = 0; i < *dimensions; i++) {
			if (i) lk_sink_printf(out, ", ");
			if (key == 0) lk_sink_printf(out, "%s", levels[i].shape);
			else if (key == 1) lk_sink_printf(out, "%llu", (unsigned long long)levels[i].count);
			else if (key == 2) lk_sink_printf(out, "%.3f", levels[i].rate / 0x1p30);
			else lk_sink_printf(out, "%.1f", levels[i].latency_ns);
		}
		lk_sink_printf(out, " ]\n");
	}
	return lk_sink_commit(out, err);
}

static lk_status machine_write_system(const lk_cluster *cluster, int dimensions, bool roofline,
                                      const char *dir, lk_error *err) {
	static const char *const collectives[] = {"all-reduce", "all-gather", "reduce-scatter",
	                                          "all-to-all"};
	const lk_device *device = cluster->node[0].device;
	double peak = device->peak_flops[LK_BF16];
	if (peak <= 0) peak = device->peak_flops[LK_FP16];
	if (peak <= 0) peak = device->vector_flops;
	lk_sink *out;
	LK_TRY(machine_open(dir, "system.json", &out, err));
	lk_sink_printf(out,
	               "{\n"
	               "  \"scheduling-policy\": \"FIFO\",\n"
	               "  \"endpoint-delay\": 10,\n"
	               "  \"active-chunks-per-dimension\": 1,\n"
	               "  \"preferred-dataset-splits\": %d,\n",
	               LK_EXPORT_PIECES);
	for (int i = 0; i < 4; i++)
		lk_sink_printf(out, "  \"%s-implementation\": [\"ring\"%s],\n", collectives[i],
		               dimensions > 1 ? ", \"ring\"" : "");
	lk_sink_printf(out,
	               "  \"collective-optimization\": \"localBWAware\",\n"
	               "  \"local-mem-bw\": %.1f,\n"
	               "  \"peak-perf\": %.1f,\n"
	               "  \"roofline-enabled\": %d,\n"
	               "  \"replay-only\": 0\n"
	               "}\n",
	               device->memory_rate / 1e9, peak / 1e12, roofline);
	return lk_sink_commit(out, err);
}

lk_status lk_chakra_write_machine(const lk_graph *graph, const lk_export_groups *groups,
                                  bool roofline, const char *dir, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_sink *memory = NULL;
	int dimensions = 0;
	LK_TRY(machine_write_groups(groups, dir, err));
	bool known = graph->cluster &&
	             lk_cluster_parse_text(&arena, lk_intern_text(graph->names, graph->cluster),
	                                   &cluster, NULL) == LK_OK;
	lk_status status = LK_OK;
	if (known) status = machine_write_network(&cluster, groups->world, dir, &dimensions, err);
	if (known && status == LK_OK)
		status = machine_write_system(&cluster, dimensions, roofline, dir, err);
	if (known && status == LK_OK) status = machine_open(dir, "memory.json", &memory, err);
	if (memory) {
		lk_sink_printf(memory, "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n");
		status = lk_sink_commit(memory, err);
	}
	lk_arena_free(&arena);
	return status;
}
