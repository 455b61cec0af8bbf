/* memory_use.c: from the walk over a stage's allocations to the memory that the device reports
 * (docs/method/memory.md).
 *
 *     total    = reserved + CUDA context + NCCL
 *     reserved = peak + 4 % of what moves + 0.1 GiB for Megatron-LM's stacks; for others what the
 *                caching allocator holds (sim/memory/reserved.c)
 *
 * Workspaces: cuBLAS keeps one for each handle, and PyTorch has a handle for the forward and
 * one for the backward thread: 32 MiB each from Hopper on, or with CUBLAS_WORKSPACE_CONFIG=:4096:8,
 * which deterministic runs need; else 8.1 MiB (ATen/cuda/CublasHandlePool.cpp). Transformer Engine
 * has one of its own, 32 MiB from Hopper on and 4 MiB before, and four more for grouped products.
 * Megatron-LM's own layers have four cuBLAS workspaces, three with tensor parallelism: observed in
 * the steady allocation of its tests, not derived. */
#include "base/arena.h"
#include "step/step.h"

#include <math.h>

#include "base/sort.h"
#include "base/stats.h"
#include "base/units.h"
#include "model/build/build.h"
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

/* Sizes of a network's tensors, of one micro-batch: a hidden state and logits, in their format and
 * in fp32; queries, keys, the inner width of an MLP; of DeepSpeed the flat gradients of a
 * sub-group. */
static int tensor_sizes(const lk_job *job, int stage, double *sizes) {
	const lk_model *model = &job->model;
	double tokens = (double)job->mbs * lk_job_tokens(job) / job->cp,
		   bytes = lk_job_sixteen_bit(job) ? 2 : 4;
	struct {
		double width;
		bool wide;
	} of[] = {
		{(double)job->padded_vocab / job->tp, true},
		{model->hidden, true},
		{(double)model->ffn / job->tp, lk_job_autocasts(job)},
		{(double)model->heads * model->head_dim / job->tp, false},
		{(double)model->kv_heads * model->head_dim / job->tp, false},
	};
	int count = 0;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		if (!(of[i].width > 0)) continue;
		if (of[i].wide && bytes < 4) sizes[count++] = 4 * tokens * of[i].width;
		sizes[count++] = bytes * tokens * of[i].width;
	}
	if (!lk_job_uses_deepspeed(job)) return count;
	double dense, experts;
	lk_rank_params p = lk_sizes_stage(job, stage);
	lk_sizes_shards(job, &dense, &experts);
	double group = p.trained_dense / dense + p.trained_experts / experts;
	if (job->sharding == LK_SHARD_ZERO3) group = fmin(group, 1e9);
	sizes[count++] = 4 * group;
	sizes[count++] = 2 * group;
	return count;
}

/* PyTorch's own optimizers have states for each parameter, FSDP for each layer's; DeepSpeed's are
 * flat, and lie there from the start. */
static int states_of(const lk_job *job) {
	if (lk_job_uses_deepspeed(job)) return 1;
	int layers = lk_job_layers(job) / job->pp;
	return 2 * (layers > 0 ? layers : 1) * (job->sharding == LK_SHARD_ZERO3 ? 1 : 4);
}

/* Whether the caching allocator is simulated for the job; Megatron-LM's pretraining is measured as
 * what tensors take. */
static bool simulates_caching(const lk_job *job) {
	return (!lk_job_like_megatron(job) || job->task != LK_TASK_PRETRAIN) && lk_job_tokens(job) > 0;
}

/* Orders of sequences of differing lengths that are tried, and micro-batches that are shorter than
 * the longest in each. */
enum { ORDERS = 10, RAGGED = 8 };

/* Lengths lie at the multiples of the golden ratio, modulo 1, from another start in each order:
 * evenly among all, and each order has another sequence of records. */
static void order_lengths(const lk_job *job, double start, double *lengths) {
	static const double golden = 0.61803398874989485;
	for (int i = 0; i < RAGGED; i++)
		lengths[i] = lk_job_ragged_length(job, fmod((i + 1) * golden + start, 1));
}

/* What the allocator holds where the device has all that it asks for; where that is too much, what
 * it holds after giving back cached blocks, if that suffices. */
static lk_status order_bytes(const lk_graph *graph, uint32_t stage, lk_reserving *how, double peak,
                             double room, double *bytes, lk_error *err) {
	how->conf.limit = 0;
	if (lk_memory_reserved(graph, stage, how, bytes) == LK_ALLOCATED_ERROR) return lk_oom(err);
	*bytes = fmax(*bytes, peak);
	if (*bytes <= room || peak >= room) return LK_OK;
	double squeezed;
	how->conf.limit = room;
	lk_caching_result result = lk_memory_reserved(graph, stage, how, &squeezed);
	if (result == LK_ALLOCATED_ERROR) return lk_oom(err);
	if (result == LK_ALLOCATED) *bytes = fmax(squeezed, peak);
	return LK_OK;
}

/* Of several orders the answer is the middle one. */
static lk_status caching_bytes(const lk_job *job, const lk_graph *graph, uint32_t stage,
                               lk_stage_use *use, lk_error *err) {
	double sizes[16], lengths[RAGGED], bytes[ORDERS], room = use->usable - use->context - use->nccl;
	bool ragged = job->ragged == LK_ON;
	lk_reserving how = {
		.sizes = sizes,
		.size_count = tensor_sizes(job, (int)stage, sizes),
		.units = lk_build_shards_layers(job) ? 2 : 0,
		.states = states_of(job),
		.vocab = (double)job->padded_vocab / job->tp,
		.microbatches = ragged ? 1 : 2,
		.ragged = ragged ? RAGGED : 0,
		.lengths = lengths,
	};
	if (job->pp > 1) how.microbatches = 2 * job->pp + 2;
	lk_alloc_conf conf;
	LK_TRY(lk_alloc_conf_read(job->alloc_conf, "PYTORCH_CUDA_ALLOC_CONF", &conf, err));
	how.conf = (lk_caching_conf){.expandable_segments = conf.expandable,
	                             .max_split_bytes = conf.max_split_mib * LK_MIB,
	                             .roundup_power2_divisions = (uint32_t)conf.roundup_divisions};
	int orders = ragged ? ORDERS : 1;
	for (int i = 0; i < orders; i++) {
		order_lengths(job, (double)i / orders, lengths);
		LK_TRY(order_bytes(graph, stage, &how, use->walk.peak, room, &bytes[i], err));
		if (ragged) use->orders++, use->orders_fit += bytes[i] <= room;
	}
	lk_sort(bytes, (size_t)orders, sizeof *bytes, lk_ascending);
	use->reserved = bytes[(orders - 1) / 2];
	use->total = use->reserved + use->context + use->nccl;
	return LK_OK;
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
	if (simulates_caching(job)) return m.peak + context_bytes(device) + nccl_bytes(ranks);
	return reserved_bytes(&m) + context_bytes(device) + nccl_bytes(ranks);
}

bool lk_memory_hopeless(const lk_job *job, const lk_cluster *cluster) {
	lk_builder builder;
	lk_graph frame = {0}; /* receives facts of the job that are not needed */
	lk_build_begin(&builder, job, &frame, NULL);
	for (int s = 0; s < job->pp; s++) {
		double usable, resident = lk_build_resident_sum(&builder, s);
		if (lk_memory_least(job, cluster, &frame.ranks, s, resident, 0, &usable) > usable)
			return true;
	}
	return false;
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
	use->reserved_low = use->reserved_high = use->out_of_memory = NAN;
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

/* How sure it is, from what measured runs held. What runs of Megatron-LM's layers held says how far
 * off the prediction may be; whether they fit follows from the tests of the sum. */
static void judge_odds(const lk_job *job, lk_stage_use *use) {
	lk_memory_odds odds;
	bool megatron = lk_job_like_megatron(job);
	if (!(use->reserved > 0) || !simulates_caching(job)) return;
	if (!lk_memory_odds_known(megatron ? LK_MEMORY_TUNED : LK_MEMORY_PYTORCH, &odds)) return;
	double room = use->usable - use->context - use->nccl;
	use->reserved_low = use->reserved * exp(fmin(odds.decile[0], 0));
	use->reserved_high = use->reserved * exp(fmax(odds.decile[LK_MEMORY_DECILES - 1], 0));
	if (!megatron) use->out_of_memory = lk_memory_odds_of(&odds, use->reserved, room);
}

/* The range of the sum: measured for Megatron-LM's own tests, and for fine-tuning with PyTorch. */
static lk_memory_band band_of(const lk_job *job) {
	if (job->model.image > 0 || job->model.tower.layers > 0) return (lk_memory_band){0};
	if (lk_job_like_megatron(job)) return lk_memory_band_known(lk_memory_class(&job->model));
	return simulates_caching(job) ? lk_memory_band_known(LK_MEMORY_TENSORS) : (lk_memory_band){0};
}

lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, bool search, lk_step *out,
                        lk_error *err) {
	int64_t chains = out->graph->ranks.chains;
	out->memory = LK_ARRAY(&out->arena, lk_stage_use, job->pp);
	if (!out->memory) return lk_oom(err);
	lk_swing *swings = lk_memory_swings(&out->arena, out->graph);
	if (!swings) return lk_oom(err);
	lk_memory_band band = band_of(job);
	for (int s = 0; s < job->pp; s++) {
		lk_stage_use *use = &out->memory[s];
		const lk_device *device = smallest_device(cluster, s * chains, (s + 1) * chains);
		out->graph->programs.at[s].resident[LK_OWN_WORKSPACE] = workspace_bytes(job, device);
		lk_memory walk = lk_memory_walk_with(out->graph, swings, (uint32_t)s);
		memory_use_stage(out->graph, cluster, &walk, (uint32_t)s, use);
		bool hopeless = walk.peak + use->context + use->nccl > use->usable;
		if (simulates_caching(job) && !(search && hopeless))
			LK_TRY(caching_bytes(job, out->graph, (uint32_t)s, use, err));
		lk_memory_band_apply(&band, walk.peak, &use->low, &use->high);
		judge_odds(job, use);
		const lk_stage_use *fullest = &out->memory[out->fullest];
		if (use->total - use->usable > fullest->total - fullest->usable) out->fullest = s;
	}
	out->usable = out->memory[out->fullest].usable;
	return LK_OK;
}
