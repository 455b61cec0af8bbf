/* layout_switches.c: the switches that a search combines with a core, and the job of a layout. */
#include <string.h>

#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "model/layout/schedule.h"
#include "plan/layout_space.h"

/* ---- jobs ---- */

static void set_switches(const lk_space *space, const lk_layout *layout, lk_job *job) {
	job->recompute = (lk_recompute)layout->recompute;
	job->recompute_layers = layout->recompute_layers;
	job->recompute_said = true;
	if (job->recompute != LK_RECOMPUTE_SELECTIVE)
		job->recompute_modules = space->base.recompute_modules;
	job->sharding = (lk_sharding)layout->sharding;
	job->sharding_said = true;
	if (!space->base.sequence_parallel) job->sequence_parallel = layout->sp ? LK_ON : LK_OFF;
	if (!space->base.tp_overlap) job->tp_overlap = layout->tp_overlap ? LK_ON : LK_OFF;
	if (!space->base.overlap_grad_reduce) job->overlap_grad_reduce = layout->grads ? LK_ON : LK_OFF;
	if (!space->base.overlap_param_gather)
		job->overlap_param_gather = layout->params ? LK_ON : LK_OFF;
	job->offload_optimizer = layout->offload;
}

lk_status lk_layout_job(const lk_space *space, const lk_core *core, const lk_layout *layout,
                        lk_job *out, lk_error *err) {
	lk_core_apply(space, core, out);
	set_switches(space, layout, out);
	int bucket = space->bucket.at[layout->bucket];
	if (bucket > 0) out->bucket_bytes = bucket * 1048576.0;
	LK_TRY(lk_space_complete(space, out, err));
	if (bucket == LK_BUCKET_LARGE) out->bucket_bytes *= 4;
	if (space->usual_software && strcmp(out->stack, lk_job_usual_stack(out)) != 0)
		return lk_fail(err, LK_ERR_INPUT, "--stack", "such a layout runs under %s",
		               lk_job_usual_stack(out));
	return LK_OK;
}

/* ---- switches ---- */

struct ways {
	uint8_t a[LK_WAYS], b[LK_WAYS];
	int count;
};

static void way(struct ways *ways, int a, int b) {
	for (int i = 0; i < ways->count; i++)
		if (ways->a[i] == a && ways->b[i] == b) return;
	if (ways->count < LK_WAYS) {
		ways->a[ways->count] = (uint8_t)a;
		ways->b[ways->count++] = (uint8_t)b;
	}
}

/* Ways of sequence parallelism and overlap of tensor parallelism. */
static void tensor_ways(const lk_space *space, const lk_job *job, struct ways *out) {
	bool may = job->sequence_parallel == LK_ON, said = space->base.sequence_parallel != LK_AUTO;
	/* torchtitan's asynchronous tensor parallelism is a compiler pass */
	bool titan = strcmp(job->stack, "torchtitan") == 0 && job->compile;
	bool overlaps =
		space->base.tp_overlap != LK_OFF && (lk_stack_is_megatron_core(job->stack) || titan);
	out->count = 0;
	bool usual = space->fixed_switches && space->base.tp_overlap == LK_AUTO &&
	             lk_job_features(job)->tp_overlap;
	if (may) {
		if (space->base.tp_overlap != LK_ON && !usual) way(out, 1, 0);
		if (space->base.tp_overlap == LK_ON || usual || (overlaps && !space->fixed_switches))
			way(out, 1, 1);
	}
	if (!may || (!said && !space->fixed_switches && space->base.tp_overlap != LK_ON))
		way(out, 0, 0);
}

/* Ways of overlapping gradients and parameters. */
static void data_ways(const lk_space *space, const lk_job *job, int sharding, struct ways *out) {
	bool replicas = (int64_t)job->dp * job->cp > 1, sharded = sharding != LK_SHARD_NONE;
	const lk_job *base = &space->base;
	out->count = 0;
	for (int grads = 1; grads >= 0; grads--)
		for (int params = 1; params >= 0; params--) {
			if (base->overlap_grad_reduce && (base->overlap_grad_reduce == LK_ON) != grads)
				continue;
			if (base->overlap_param_gather && (base->overlap_param_gather == LK_ON) != params)
				continue;
			bool usual = grads && params == sharded;
			if (params && (!sharded || (!grads && !base->overlap_grad_reduce))) continue;
			if (!usual && (space->fixed_switches || !replicas || sharding >= LK_SHARD_ZERO2) &&
			    !base->overlap_grad_reduce && !base->overlap_param_gather)
				continue;
			way(out, grads, params);
		}
}

/* Layers of the stage with most; a remainder goes to the second stage first. */
static int most_layers(const lk_job *job) {
	int first = lk_job_stage_layers(job, 0), second = job->pp > 1 ? lk_job_stage_layers(job, 1) : 0;
	return first > second ? first : second;
}

/* Whether selective recomputation frees little. Without modules Megatron-LM's recomputes the core
 * of attention: with fused kernels that frees only the softmax statistics, and Megatron-LM itself
 * warns of it. */
static bool selects_little(const lk_job *job) {
	return lk_job_like_megatron(job) && job->attn_kernel == LK_KERNEL_FLASH &&
	       !job->recompute_modules;
}

void lk_space_recomputes(const lk_space *space, const lk_job *job, lk_recomputes *out) {
	*out = (lk_recomputes){0};
	int most = most_layers(job);
	bool same = !space->recompute.said && selects_little(job);
	for (int i = 0; i < space->recompute.count; i++) {
		lk_recompute_way way = space->recompute.at[i];
		if (way.layers <= most && !(same && way.kind == LK_RECOMPUTE_SELECTIVE))
			lk_recomputes_add(out, way.kind, way.layers);
	}
	if (!space->recompute_quarters || !lk_job_like_megatron(job) || job->vp > 1) return;
	for (int quarter = 1; quarter < 4; quarter++)
		if (most * quarter / 4 > 0 && most * quarter / 4 < most)
			lk_recomputes_add(out, LK_RECOMPUTE_FULL, most * quarter / 4);
}

/* Two buckets of different sizes that are filled with the same gradients. */
struct two_buckets {
	double size[2], held[2];
};

/* Whether both are full, or neither, after each tensor of a layer (-1: of an end). */
static bool fill_alike(struct two_buckets *buckets, const lk_job *job, int layer,
                       lk_rank_params part) {
	lk_rank_tensors tensors[LK_LAYER_TENSORS];
	double wire = lk_sizes_wire_bytes(job);
	int kinds = lk_sizes_tensors(job, layer, part, tensors);
	for (int k = 0; k < kinds; k++)
		for (int i = 0; i < tensors[k].count; i++) {
			bool full[2];
			for (int b = 0; b < 2; b++) {
				buckets->held[b] += wire * (tensors[k].dense + tensors[k].experts);
				full[b] = buckets->held[b] >= buckets->size[b];
				if (full[b]) buckets->held[b] = 0;
			}
			if (full[0] != full[1]) return false;
		}
	return true;
}

/* Whether buckets of both sizes cut the gradients of every chunk alike, in the order of its
 * backward pass. */
static bool cuts_alike(const lk_job *job, double small, double large) {
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	for (int stage = 0; stage < job->pp; stage++)
		for (int chunk = 0; chunk < job->vp; chunk++) {
			struct two_buckets buckets = {.size = {small, large}};
			int first, count = lk_job_chunk_layers(job, stage, chunk, &first);
			int place = schedule->place(&shape, stage, chunk);
			if (place == lk_job_places(job) - 1 &&
			    !fill_alike(&buckets, job, -1, lk_sizes_head(job)))
				return false;
			for (int i = first + count - 1; i >= first; i--)
				if (!fill_alike(&buckets, job, i, lk_sizes_layer(job, i))) return false;
			if (place == 0 && !fill_alike(&buckets, job, -1, lk_sizes_embedding(job))) return false;
			if (place == 0 && !fill_alike(&buckets, job, -1, lk_sizes_tower(job))) return false;
		}
	return true;
}

static double bucket_bytes(const lk_space *space, const lk_job *job, int i) {
	switch (space->bucket.at[i]) {
	case LK_BUCKET_USUAL: return job->bucket_bytes;
	case LK_BUCKET_LARGE: return 4 * job->bucket_bytes;
	default: return space->bucket.at[i] * 1048576.0;
	}
}

/* Bucket sizes that make a difference, and those that were requested. */
static void bucket_ways(const lk_space *space, const lk_job *job, lk_axis *out) {
	memset(out, 0, sizeof *out);
	for (int i = 0; i < space->bucket.count; i++) {
		bool known = false;
		for (int k = 0; k < out->count && !known && !space->bucket.said; k++)
			known =
				cuts_alike(job, bucket_bytes(space, job, out->at[k]), bucket_bytes(space, job, i));
		if (!known) lk_axis_add(out, i);
	}
}

static lk_status add_layouts(const lk_space *space, lk_layout l, const struct ways *data,
                             const lk_axis *buckets, lk_layouts *out, lk_error *err) {
	for (int d = 0; d < data->count; d++) {
		l.grads = data->a[d];
		l.params = data->b[d];
		int choices = l.grads && l.sharding < LK_SHARD_ZERO2 ? buckets->count : 1;
		int homes = space->offload && !space->base.offload_optimizer ? 2 : 1;
		for (int bucket = 0; bucket < choices; bucket++)
			for (int offload = 0; offload < homes; offload++) {
				if (!lk_push(out)) return lk_oom(err);
				l.bucket = (uint8_t)buckets->at[bucket];
				l.offload = (uint8_t)(offload || space->base.offload_optimizer);
				*lk_last(out) = l;
			}
	}
	return LK_OK;
}

lk_status lk_space_switches(const lk_space *space, const lk_core *core, uint32_t number,
                            const lk_job *job, lk_layouts *out, lk_error *err) {
	struct ways tensor, data;
	lk_axis shardings, buckets;
	lk_recomputes recompute;
	bool replicas = (int64_t)job->dp * job->cp > 1;
	bucket_ways(space, job, &buckets);
	if (!replicas) buckets.count = 1; /* no traffic */
	tensor_ways(space, job, &tensor);
	lk_space_recomputes(space, job, &recompute);
	lk_core_shardings(space, core, &shardings);
	for (int r = 0; r < recompute.count; r++)
		for (int t = 0; t < tensor.count; t++)
			for (int z = 0; z < shardings.count; z++) {
				lk_layout l = {.core = number,
				               .sp = tensor.a[t],
				               .tp_overlap = tensor.b[t],
				               .sharding = (uint8_t)shardings.at[z]};
				l.recompute = (uint8_t)recompute.at[r].kind;
				l.recompute_layers = recompute.at[r].layers;
				if (!replicas && z > 0) continue; /* nothing to shard */
				data_ways(space, job, l.sharding, &data);
				LK_TRY(add_layouts(space, l, &data, &buckets, out, err));
			}
	return LK_OK;
}
