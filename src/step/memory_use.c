/* memory_use.c: from the walk over a stage's allocations to the memory that the device reports
 * (docs/method/memory.md).
 *
 *     total    = reserved + CUDA context + NCCL
 *     reserved = peak + 4 % of what moves + 0.1 GiB
 *
 * Workspaces: cuBLAS keeps one for each handle, and PyTorch has a handle for the forward and
 * one for the backward thread: 32 MiB each from Hopper on, or with CUBLAS_WORKSPACE_CONFIG=:4096:8,
 * which deterministic runs need; else 8.1 MiB (ATen/cuda/CublasHandlePool.cpp). Transformer Engine
 * has one of its own, 32 MiB from Hopper on and 4 MiB before, and four more for grouped products.
 * Megatron-LM's own layers have four cuBLAS workspaces, three with tensor parallelism: observed in
 * the steady allocation of its tests, not derived. */
#include "base/arena.h"
#include "step/step.h"

#include "base/units.h"
#include "model/layout/job.h"
#include "base/check.h"

static double context_bytes(const lk_device *device) {
	return device->arch >= LK_ARCH_HOPPER ? 0.8 * LK_GIB
	                                      : 0.6 * LK_GIB; /* driver, the libraries' kernels */
}

/* NCCL keeps buffers per channel and connection: 4 MiB Simple, 4.7 MiB LL128, 0.5 MiB LL, for a
 * ring's two neighbours, allocated at first use; communicators of up to 16 channels. */
static double nccl_bytes(const lk_ranks *ranks) {
	double per_group = 16 * 2 * (4 + 4.7 + 0.5) / 2 * LK_MIB, bytes = 0;
	uint32_t seen[LK_GROUPS][2];
	int distinct = 0;
	for (int g = 1; g < LK_GROUPS; g++) {
		uint32_t size = ranks->group[g].size, stride = ranks->group[g].stride;
		bool known = size <= 1 || g == LK_GROUP_MODEL || g == LK_GROUP_EMBEDDING;
		for (int i = 0; i < distinct && !known; i++)
			known = seen[i][0] == size && seen[i][1] == stride;
		if (known) continue;
		seen[distinct][0] = size;
		seen[distinct++][1] = stride;
		bytes += per_group;
	}
	return bytes;
}

/* The caching allocator holds more than is in use: blocks of 2 MiB granularity and holes between
 * long-lived tensors. */
static double reserved_bytes(const lk_memory *memory) {
	double moving = memory->peak - memory->resident;
	return memory->peak + 0.04 * moving + 0.1 * LK_GIB;
}

static double workspace_bytes(const lk_job *job, const lk_device *device) {
	bool later = device->arch == LK_ARCH_HOPPER || device->arch == LK_ARCH_BLACKWELL;
	double cublas = (later || job->deterministic ? 32 : 8.125) * LK_MIB;
	double engine = (later ? 32 : 4) * LK_MIB;
	if (job->local_layers) return (job->tp == 1 ? 4 : 3) * cublas;
	if (!lk_job_like_megatron(job)) return 2 * cublas;
	return 2 * cublas + engine * (job->grouped_gemm == LK_ON ? 5 : 1);
}

/* The device with the least memory among the nodes that hold ranks [first, end). */
static const lk_device *smallest_device(const lk_cluster *cluster, int64_t first, int64_t end) {
	LK_ASSERT(first < end);
	const lk_device *least = NULL;
	int64_t rank = 0;
	for (int g = 0; g < cluster->groups; g++) {
		const lk_device *device = cluster->node[g].device;
		int64_t next = rank + (int64_t)cluster->nodes[g] * cluster->node[g].gpus;
		if (rank < end && next > first && (!least || device->memory_bytes < least->memory_bytes))
			least = device;
		rank = next;
	}
	return least ? least : cluster->node[0].device;
}

double lk_memory_least(const lk_job *job, const lk_cluster *cluster, const lk_ranks *ranks,
                       int stage, double resident, double held, double *usable) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	int64_t chains = ranks->chains;
	const lk_device *device = smallest_device(cluster, stage * chains, (stage + 1) * chains);
	double always = resident + workspace_bytes(job, device);
	lk_memory m = {.resident = always, .peak = always + held};
	*usable = device->memory_bytes;
	return reserved_bytes(&m) + context_bytes(device) + nccl_bytes(ranks);
}

/* Memory that a stage of the graph needs on each device, from its walk. */
static void memory_use_stage(const lk_graph *graph, const lk_cluster *cluster,
                             const lk_memory *walk, uint32_t stage, lk_stage_use *use) {
	int64_t chains = graph->ranks.chains;
	const lk_device *device = smallest_device(cluster, stage * chains, (stage + 1) * chains);
	use->walk = *walk;
	use->reserved = reserved_bytes(walk);
	use->context = context_bytes(device);
	use->nccl = nccl_bytes(&graph->ranks);
	use->total = use->reserved + use->context + use->nccl;
	use->usable = device->memory_bytes;
}

lk_stage_use lk_memory_of_graph(const lk_graph *graph, const lk_cluster *cluster) {
	lk_stage_use fullest = {0};
	for (uint32_t s = 0; s < graph->ranks.stages; s++) {
		lk_stage_use use = {0};
		lk_memory walk = lk_memory_walk(graph, s);
		memory_use_stage(graph, cluster, &walk, s, &use);
		if (s == 0 || use.total - use.usable > fullest.total - fullest.usable) fullest = use;
	}
	return fullest;
}

lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, lk_step *out, lk_error *err) {
	int64_t chains = out->graph->ranks.chains;
	out->memory = LK_ARRAY(&out->arena, lk_stage_use, job->pp);
	if (!out->memory) return lk_oom(err);
	lk_swing *swings = lk_memory_swings(&out->arena, out->graph);
	if (!swings) return lk_oom(err);
	lk_memory_band band = {0}; /* measured only for Megatron-LM */
	if (lk_job_like_megatron(job) && job->model.image == 0 && job->model.tower.layers == 0)
		band = lk_memory_band_known(lk_memory_class(&job->model));
	for (int s = 0; s < job->pp; s++) {
		lk_stage_use *use = &out->memory[s];
		const lk_device *device = smallest_device(cluster, s * chains, (s + 1) * chains);
		out->graph->programs.at[s].resident[LK_OWN_WORKSPACE] = workspace_bytes(job, device);
		lk_memory walk = lk_memory_walk_with(out->graph, swings, (uint32_t)s);
		memory_use_stage(out->graph, cluster, &walk, (uint32_t)s, use);
		lk_memory_band_apply(&band, walk.peak, &use->low, &use->high);
		const lk_stage_use *fullest = &out->memory[out->fullest];
		if (use->total - use->usable > fullest->total - fullest->usable) out->fullest = s;
	}
	out->usable = out->memory[out->fullest].usable;
	return LK_OK;
}
