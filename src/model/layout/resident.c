/* resident.c: what a rank holds for the whole step, and the size of a checkpoint
 * (docs/method/memory.md): the parameters of sizes.c plus multi-token prediction, latent attention
 * and narrow copies. */
#include "model/layout/sizes.h"
#include "base/check.h"

/* Multi-token prediction modules are on the head's stage: a layer, the product that joins token and
 * state, three norms, and a copy of the embedding if no rank holds both ends (Megatron-LM,
 * multi_token_prediction.py); DualPipe's first and last rank do. */
static lk_rank_params prediction_modules(const lk_job *job) {
	const lk_model *model = &job->model;
	lk_rank_params sum = {0};
	for (int i = 0; i < model->mtp_layers; i++) {
		double join = 2.0 * model->hidden * model->hidden / job->tp + 3.0 * model->hidden;
		lk_rank_params_add(&sum, lk_sizes_layer(job, model->layers - 1));
		lk_rank_params_add(
			&sum,
			(lk_rank_params){.dense = join, .trained_dense = job->task == LK_TASK_LORA ? 0 : join});
	}
	bool shared = lk_job_folds(job) || job->schedule == LK_SCHED_DUALPIPE;
	double copy = model->mtp_layers > 0 && job->pp > 1 && !model->tied && !shared
	                  ? (double)job->padded_vocab * model->hidden / job->tp
	                  : 0;
	lk_rank_params_add(
		&sum,
		(lk_rank_params){.dense = copy, .trained_dense = job->task == LK_TASK_LORA ? 0 : copy});
	return sum;
}

/* Tensor parallelism leaves the indexer and the down-projections of latent attention whole on every
 * rank; lk_sizes_layer divides them, like the rest of attention, for the traffic. */
static lk_rank_params whole_latent(const lk_job *job, int stage) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	const lk_model *model = &job->model;
	double from = model->q_lora > 0 ? model->q_lora : model->hidden, heads = model->index_heads;
	double indexer =
		from * heads * model->index_dim + (double)model->hidden * (model->index_dim + heads);
	double down = (double)model->hidden * (model->q_lora + model->kv_lora + model->qk_rope);
	double layers = 0, each = (down + (heads > 0 ? indexer : 0)) * (1 - 1.0 / job->tp);
	if (model->attention != LK_ATTN_MLA) return (lk_rank_params){0};
	for (int chunk = 0, first; chunk < job->vp; chunk++)
		layers += lk_job_chunk_layers(job, stage, chunk, &first);
	return (lk_rank_params){.dense = layers * each,
	                        .trained_dense = job->task == LK_TASK_LORA ? 0 : layers * each};
}

/* Parameters of a stage's layers that compute in bf16. */
static double wide_layers(const lk_job *job, int stage) {
	double sum = 0;
	if (job->wide_first + job->wide_last == 0) return 0;
	for (int chunk = 0, first; chunk < job->vp; chunk++) {
		int count = lk_job_chunk_layers(job, stage, chunk, &first);
		for (int i = 0; i < count; i++) {
			if (!lk_job_is_wide(job, first + i)) continue;
			lk_rank_params layer = lk_sizes_layer(job, first + i);
			sum += layer.dense + layer.experts;
		}
	}
	return sum;
}

/* The 8- or 4-bit copies of the layers' weights that Transformer Engine keeps, plain and
 * transposed. */
static double narrow_copies(const lk_job *job, int stage, lk_rank_params p) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	if (job->dtype < LK_FP8 || !lk_job_like_megatron(job) || job->sharding == LK_SHARD_ZERO3)
		return 0;
	double ends = 0;
	if (lk_sizes_has_embedding(job, stage))
		ends += lk_sizes_embedding(job).dense + lk_sizes_tower(job).dense;
	if (lk_sizes_has_head(job, stage)) ends += lk_sizes_head(job).dense;
	double layers = p.dense + p.experts - ends - wide_layers(job, stage);
	double instead = job->narrow_weights ? 2 : 0; /* instead of the 16-bit weights */
	return (2 * lk_job_operand_bytes(job) - instead) * layers;
}

/* Weights stored only in 8 bits are gathered in 8 bits; MXFP8 ones, whose factors run along either
 * axis, are gathered in 16 bits and then cast (Megatron-LM's
 * --reuse-grad-buf-for-mxfp8-param-ag). */
void lk_sizes_gathered(const lk_job *job, int stage, double each, double *dense, double *experts) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	lk_rank_params p = lk_sizes_stage(job, stage);
	*dense = each * p.trained_dense;
	*experts = each * p.trained_experts;
	double saved = each - lk_job_operand_bytes(job);
	if (!job->narrow_weights || job->dtype != LK_FP8 || !lk_job_like_megatron(job)) return;
	for (int chunk = 0, first; chunk < job->vp; chunk++) {
		int count = lk_job_chunk_layers(job, stage, chunk, &first);
		for (int i = 0; i < count; i++) {
			if (lk_job_is_wide(job, first + i)) continue;
			lk_rank_params layer = lk_sizes_layer(job, first + i);
			*dense -= saved * layer.trained_dense;
			*experts -= saved * layer.trained_experts;
		}
	}
}

double lk_sizes_checkpoint(const lk_job *job) {
	double dense = 0, experts = 0, more = 0;
	int ep = lk_job_ep(job), etp = lk_job_etp(job);
	for (int stage = 0; stage < job->pp; stage++) {
		lk_rank_params p = lk_sizes_stage(job, stage);
		lk_matrix_state state = lk_optimizer_state(job, stage);
		more += (state.moments[0] + state.statistics[0]) * job->tp;
		more += (state.moments[1] + state.statistics[1]) * ep * etp;
		if (lk_sizes_has_head(job, stage)) lk_rank_params_add(&p, prediction_modules(job));
		dense += p.trained_dense * job->tp;
		experts += p.trained_experts * ep * etp;
	}
	return (dense + experts) * (lk_sizes_weight_bytes(job) + lk_sizes_state_bytes(job)) + more;
}

/* Bytes saved by frozen matrices in fewer bits than 16, before sharding. */
static double narrow_saving(const lk_job *job, int stage) {
	double elements = 0;
	if (!job->narrow_base) return 0;
	for (int chunk = 0, first; chunk < job->vp; chunk++) {
		int count = lk_job_chunk_layers(job, stage, chunk, &first);
		for (int i = 0; i < count; i++) {
			lk_rank_params layer = lk_sizes_layer_matrices(job, first + i);
			elements += layer.dense + layer.experts;
		}
	}
	return (2 - lk_base_bytes(job)) * elements;
}

/* A teacher's weights: one copy in 16 bits. */
static double teacher_weights(const lk_job *job) {
	lk_job teacher;
	if (!lk_job_teacher(job, &teacher)) return 0;
	lk_rank_params p = lk_sizes_stage(&teacher, 0);
	return (lk_job_sixteen_bit(job) ? 2 : 4) * (p.dense + p.experts);
}

bool lk_job_gradients_on_host(const lk_job *job) {
	bool with_optimizer = lk_job_uses_deepspeed(job) && job->sharding >= LK_SHARD_ZERO2;
	return job->offload_params || (job->offload_optimizer && with_optimizer);
}

double lk_sizes_shard_bytes(const lk_job *job) {
	return lk_job_sixteen_bit(job) && !lk_job_shards_master(job) ? 2 : 4;
}

double lk_sizes_shard_gradient_bytes(const lk_job *job) {
	return lk_job_shards_master(job) ? 4 : lk_sizes_gradient_bytes(job);
}

lk_resident lk_sizes_resident(const lk_job *job, int stage) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	lk_rank_params p = lk_sizes_stage(job, stage);
	double copies = narrow_copies(job, stage, p);
	if (lk_sizes_has_head(job, stage)) lk_rank_params_add(&p, prediction_modules(job));
	lk_rank_params_add(&p, whole_latent(job, stage));
	double dense, experts;
	lk_sizes_shards(job, &dense, &experts);
	double held = p.dense + p.experts;
	double trained = p.trained_dense + p.trained_experts;
	double sharded = p.trained_dense / dense + p.trained_experts / experts;
	double frozen = held - trained;
	if (frozen < 0) frozen = 0;
	double weight_shards = job->sharding == LK_SHARD_ZERO3 ? dense : 1;
	lk_resident r = {0};
	if (job->sharding != LK_SHARD_ZERO3)
		r.weights =
			lk_sizes_weight_bytes(job) * (job->task == LK_TASK_LORA ? held + trained : held) +
			copies - narrow_saving(job, stage);
	else if (job->offload_params) r.weights = 0;
	else /* fp32 shards count with the optimizer, unless it is only on the host */
		r.weights =
			(lk_job_shards_master(job) && !job->offload_optimizer ? 0 : lk_sizes_shard_bytes(job)) *
				sharded +
			(2 * frozen - narrow_saving(job, stage)) / dense;
	/* with adapters the frozen base is the reference network, otherwise a copy is */
	if (lk_objective_of(job->objective)->reference > 0 && job->task != LK_TASK_LORA)
		r.weights += (lk_job_sixteen_bit(job) ? 2 : 4) * held / weight_shards;
	r.weights += teacher_weights(job) / weight_shards;
	if (!lk_job_gradients_on_host(job) && !job->optimizer_in_backward)
		r.gradients = lk_sizes_shard_gradient_bytes(job) *
		              (job->sharding >= LK_SHARD_ZERO2 ? sharded : trained);
	double state = job->sharding >= LK_SHARD_ZERO1 ? sharded : trained;
	lk_matrix_state of = lk_optimizer_state(job, stage);
	r.optimizer = job->offload_optimizer ? 0
	                                     : lk_sizes_state_bytes(job) * state +
	                                           (of.moments[0] + of.statistics[0]) / dense +
	                                           (of.moments[1] + of.statistics[1]) / experts;
	if (job->average == LK_AVERAGE_DEVICE) r.optimizer += 4 * state;
	return r;
}
