/* shard_device.c: rates of lookups on a device, and the network of all ranks. */
#include <math.h>

#include "base/arena.h"
#include "cost/calibration/calibration.h"
#include "shard/shard.h"

lk_status lk_shard_check_devices(const lk_cluster *cluster, int ranks, lk_error *err) {
	if (ranks > LK_SHARD_MOST_RANKS) {
		lk_fail(err, LK_ERR_INPUT, "--gpus", "%d ranks are more than are searched", ranks);
		return lk_hint(err, "give at most %d", LK_SHARD_MOST_RANKS);
	}
	for (int i = 1; i < cluster->groups; i++)
		if (cluster->node[i].device != cluster->node[0].device) {
			lk_fail(err, LK_ERR_INPUT, "--cluster", "ranks on %s and on %s",
			        cluster->node[0].device->name, cluster->node[i].device->name);
			return lk_hint(err, "give devices of one kind");
		}
	return LK_OK;
}

lk_group_shape lk_shard_network(const lk_cluster *cluster, int ranks) {
	const lk_node *node = &cluster->node[0];
	int in_node = ranks < node->gpus ? ranks : node->gpus;
	return (lk_group_shape){.node = node,
	                        .ranks = ranks,
	                        .nodes = (ranks + node->gpus - 1) / node->gpus,
	                        .ranks_per_node = in_node,
	                        .sharing = 1,
	                        .oversubscription = cluster->oversubscription};
}

static lk_status processor_of(lk_arena *arena, const lk_device *device, lk_shard_device *out,
                              lk_error *err) {
	lk_host_lookup *host = LK_NEW(arena, lk_host_lookup);
	if (!host) return lk_oom(err);
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "lookup", device->name, "");
	if (lk_host_lookup_of(row, host)) {
		out->host = host;
		out->floor_s = 0;
		return LK_OK;
	}
	if (row)
		lk_fail(err, LK_ERR_INPUT, "--calibration",
		        "what was measured of lookups on \"%.40s\" is of another version: it has no %s",
		        device->name, lk_host_lookup_missing(row));
	else
		lk_fail(err, LK_ERR_INPUT, "--cluster", "lookups on \"%.40s\" were not measured",
		        device->name);
	return lk_hint(
		err,
		"measure them (docs/guide/shard.md): bench-lookup shares > a.csv; bench-lookup fit "
		"a.csv %.40s > b.csv; then --calibration b.csv",
		device->name);
}

lk_status lk_shard_device_of(lk_arena *arena, const lk_device *device, lk_shard_device *out,
                             lk_error *err) {
	lk_eager_device eager;
	LK_TRY(lk_cost_ready(err));
	lk_eager_device_of(device, LK_FP32, &eager);
	*out = (lk_shard_device){.device = device,
	                         .memory_rate = eager.memory,
	                         .l2_rate = eager.l2,
	                         .host_rate = fmax(device->pcie_rate, 1),
	                         .floor_s = lk_eager_start_s};
	return device->arch == LK_ARCH_CPU ? processor_of(arena, device, out, err) : LK_OK;
}
