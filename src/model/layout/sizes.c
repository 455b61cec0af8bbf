/* sizes.c: weights, gradients and optimizer state of a rank (docs/method/memory.md, "Memory").
 *
 * Tensor parallelism splits matrices; norms, router and row-parallel biases are replicated. ZeRO-1
 * divides the optimizer state by the data-parallel ranks, ZeRO-2 the gradients too, ZeRO-3 the
 * weights too (arXiv 1910.02054); the group counts context-parallel ranks, and experts have their
 * own (Megatron-LM theoretical_memory_usage.py).
 */
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "base/check.h"

static bool lora(const lk_job *job) {
	return job->task == LK_TASK_LORA;
}

/* Low-rank pairs on the attention projections: rank * (in + out) each, a
 * TP-th on each rank. */
static double lora_params(const lk_job *job, int layer) {
	const lk_model *model = &job->model;
	if (!(lk_model_layer(model, layer).mixers & LK_MIXER_ATTENTION)) return 0;
	double q = (double)model->heads * model->head_dim,
		   kv = (double)model->kv_heads * model->head_dim;
	return job->lora_rank * ((model->hidden + q + 2 * kv) + (q + model->hidden)) / job->tp;
}

lk_rank_params lk_sizes_layer(const lk_job *job, int layer) {
	lk_layer_params p = lk_model_layer_params(&job->model, layer);
	double ep = job->ep > 0 ? job->ep : 1, etp = job->etp > 0 ? job->etp : 1;
	lk_rank_params r = {
		.dense = (p.attention + p.mlp) / job->tp + p.router + p.norms,
		.experts = p.experts / (ep * etp),
	};
	r.trained_dense = lora(job) ? lora_params(job, layer) : r.dense;
	r.trained_experts = lora(job) ? 0 : r.experts;
	if (job->model.network == LK_NET_CONV) {
		lk_conv_unit unit = lk_convnet_unit(&job->model, layer);
		r.tensors = lk_convnet_unit_tensors(&job->model, &unit);
	}
	return r;
}

/* Matrices of a transformer layer. Megatron-LM's stacks, and networks without a gate (GPT-2, NeoX,
 * BLOOM), have one product for queries, keys and values, and Megatron-LM's one for gate and input;
 * Llama's relatives elsewhere have one for each. */
static int transformer_tensors(const lk_job *job, int layer, lk_rank_tensors *out) {
	const lk_model *model = &job->model;
	lk_layer_params p = lk_model_layer_params(model, layer);
	bool apart = model->gated && !lk_job_like_megatron(job) && !lk_job_uses_deepspeed(job);
	int inputs = model->gated ? 2 : 1;
	lk_rank_tensors *next = out;
	double mlp = p.mlp / job->tp, attention = p.attention / job->tp;
	double ep = job->ep > 0 ? job->ep : 1, etp = job->etp > 0 ? job->etp : 1;
	if (p.experts > 0) { /* each: out, in */
		double each = p.experts / model->experts / etp / (inputs + 1);
		int held = (int)(model->experts / ep);
		*next++ = (lk_rank_tensors){.experts = each, .count = held};
		*next++ = (lk_rank_tensors){.experts = each * inputs, .count = held};
	}
	if (mlp > 0) {
		double each = mlp / (inputs + 1);
		*next++ = (lk_rank_tensors){.dense = each, .count = 1};
		*next++ =
			(lk_rank_tensors){.dense = each * (apart ? 1 : inputs), .count = apart ? inputs : 1};
	}
	bool attends = lk_model_layer(model, layer).mixers & LK_MIXER_ATTENTION;
	if (!attends) { /* of other mixers the two products: out, in */
		double rest = p.router + p.norms;
		if (attention > 0) *next++ = (lk_rank_tensors){.dense = attention / 3, .count = 1};
		*next++ =
			(lk_rank_tensors){.dense = attention * (attention > 0 ? 2 / 3. : 0) + rest, .count = 1};
		return (int)(next - out);
	}
	double output = (double)model->heads *
	                (model->attention == LK_ATTN_MLA ? model->v_dim : model->head_dim) *
	                model->hidden / job->tp;
	if (output > attention) output = attention;
	*next++ = (lk_rank_tensors){.dense = output, .count = 1};
	double rest = attention - output + p.router + p.norms;
	double kv = apart && model->attention == LK_ATTN_HEADS
	                ? (double)model->kv_heads * model->head_dim * model->hidden / job->tp
	                : 0;
	if (kv > 0 && 2 * kv < rest) {
		*next++ = (lk_rank_tensors){.dense = kv, .count = 2};
		rest -= 2 * kv;
	}
	*next++ = (lk_rank_tensors){.dense = rest, .count = 1};
	LK_ASSERT(next - out <= LK_LAYER_TENSORS);
	return (int)(next - out);
}

int lk_sizes_tensors(const lk_job *job, int layer, lk_rank_params part,
                     lk_rank_tensors out[LK_LAYER_TENSORS]) {
	if (layer >= 0 && job->model.network != LK_NET_CONV && !lora(job))
		return transformer_tensors(job, layer, out);
	double count = part.tensors > 1 ? part.tensors : 1;
	out[0] = (lk_rank_tensors){.dense = part.trained_dense / count,
	                           .experts = part.trained_experts / count,
	                           .count = (int)count};
	return 1;
}

static double padded_share(const lk_job *job) {
	return job->model.vocab > 0 ? (double)job->padded_vocab / job->model.vocab : 1;
}

lk_rank_params lk_sizes_embedding(const lk_job *job) {
	double own = lk_model_embedding_params(&job->model) - lk_model_tower_params(&job->model),
		   dense = own * padded_share(job) / job->tp;
	double tensors = job->model.network == LK_NET_CONV ? lk_convnet_stem_tensors(&job->model) : 0;
	return (lk_rank_params){
		.dense = dense, .trained_dense = lora(job) ? 0 : dense, .tensors = tensors};
}

lk_rank_params lk_sizes_head(const lk_job *job) {
	double dense = lk_model_head_params(&job->model) * padded_share(job) / job->tp;
	if (job->model.tied && job->pp > 1 && !lk_job_folds(job)) /* whose first rank holds both ends */
		dense += (double)job->padded_vocab * job->model.hidden /
		         job->tp; /* the last stage's copy of the embedding */
	double tensors = job->model.network == LK_NET_CONV ? lk_convnet_head_tensors(&job->model) : 0;
	return (lk_rank_params){
		.dense = dense, .trained_dense = lora(job) ? 0 : dense, .tensors = tensors};
}

static bool holds_place(const lk_job *job, int stage, int wanted) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	for (int chunk = 0; chunk < job->vp; chunk++)
		if (schedule->place(&shape, stage, chunk) == wanted) return true;
	return false;
}

bool lk_sizes_has_embedding(const lk_job *job, int stage) {
	return holds_place(job, stage, 0);
}
bool lk_sizes_has_head(const lk_job *job, int stage) {
	return holds_place(job, stage, lk_job_places(job) - 1);
}

static void sizes_add(lk_rank_params *sum, lk_rank_params part) {
	sum->dense += part.dense;
	sum->experts += part.experts;
	sum->trained_dense += part.trained_dense;
	sum->trained_experts += part.trained_experts;
	sum->tensors += part.tensors;
}

lk_rank_params lk_sizes_stage(const lk_job *job, int stage) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	lk_rank_params sum = {0}, each = {0};
	for (int chunk = 0; chunk < job->vp; chunk++) {
		int first, count = lk_job_chunk_layers(job, stage, chunk, &first);
		for (int i = 0; i < count; i++) {
			if (i == 0 || !lk_layer_repeats(&job->model, first + i))
				each = lk_sizes_layer(job, first + i);
			sizes_add(&sum, each);
		}
	}
	if (lk_sizes_has_embedding(job, stage)) sizes_add(&sum, lk_sizes_embedding(job));
	if (lk_sizes_has_embedding(job, stage)) sizes_add(&sum, lk_sizes_tower(job));
	if (lk_sizes_has_head(job, stage)) sizes_add(&sum, lk_sizes_head(job));
	return sum;
}

lk_rank_params lk_sizes_tower(const lk_job *job) {
	lk_rank_params sum = {0}, each = {0}, projector;
	lk_job tower;
	if (!lk_job_tower(job, &tower)) return sum;
	sizes_add(&sum, lk_sizes_embedding(&tower));
	for (int i = 0; i < tower.model.layers; i++) {
		if (!lk_layer_repeats(&tower.model, i)) each = lk_sizes_layer(&tower, i);
		sizes_add(&sum, each);
	}
	projector = lk_sizes_head(&tower);
	if (!lk_job_trains_tower(job)) sum.trained_dense = 0;
	if (!lk_job_trains_projector(job)) projector.trained_dense = 0;
	sizes_add(&sum, projector);
	return sum;
}

int lk_sizes_dp_ranks(const lk_job *job) {
	return job->dp * job->cp;
}

int lk_sizes_edp_ranks(const lk_job *job) {
	int ep = job->ep > 0 ? job->ep : 1, etp = job->etp > 0 ? job->etp : 1;
	int ranks = job->dp * job->cp * job->tp / (ep * etp);
	return ranks > 0 ? ranks : 1;
}

static bool sixteen_bit(const lk_job *job) {
	return job->dtype != LK_FP32 && job->dtype != LK_TF32;
}

/* FSDP2 and plain fp32 training keep fp32 weights as the only copy; others keep 16-bit weights
 * alongside the master copy.
 */
double lk_sizes_weight_bytes(const lk_job *job) {
	if (!sixteen_bit(job)) return 4;
	return job->sharding == LK_SHARD_ZERO3 ? 0 : 2;
}

double lk_sizes_gradient_bytes(const lk_job *job) {
	return job->fp32_grads == LK_ON || !sixteen_bit(job) ? 4 : 2;
}

double lk_sizes_state_bytes(const lk_job *job) {
	double moment = lk_dtype_bytes(job->state_dtype);
	double master = sixteen_bit(job) && job->master_weights != LK_OFF ? 4 : 0;
	switch (job->optimizer) {
	case LK_OPT_SGD: return master + moment;     /* momentum */
	case LK_OPT_ADAFACTOR: return master + 0.05; /* rows and columns of the second moment */
	default: return master + 2 * moment;         /* Adam, LAMB */
	}
}

double lk_sizes_wire_bytes(const lk_job *job) {
	return job->grad_reduce_fp32 == LK_ON || !sixteen_bit(job) ? 4 : 2;
}

/* Ranks that share one copy of what ZeRO divides: all of the group, or the shard group of hybrid
 * sharding. */
static double shard_over(const lk_job *job, int group) {
	if (job->shard_group > 0 && job->shard_group < group) return job->shard_group;
	return group;
}

/* Experts have as many copies as all else. */
static double sizes_expert_shards(const lk_job *job) {
	double dense = lk_sizes_dp_ranks(job),
		   shards = lk_sizes_edp_ranks(job) * shard_over(job, (int)dense) / dense;
	return shards > 1 ? shards : 1;
}

/* Modules of multi-token prediction stand with the head: a layer, the product that joins token and
 * state, three norms, and a copy of the embedding where no rank holds both ends (Megatron-LM,
 * multi_token_prediction.py); DualPipe's first and last rank do. */
static lk_rank_params prediction_modules(const lk_job *job) {
	const lk_model *model = &job->model;
	lk_rank_params sum = {0};
	for (int i = 0; i < model->mtp_layers; i++) {
		double join = 2.0 * model->hidden * model->hidden / job->tp + 3.0 * model->hidden;
		sizes_add(&sum, lk_sizes_layer(job, model->layers - 1));
		sizes_add(&sum, (lk_rank_params){.dense = join, .trained_dense = lora(job) ? 0 : join});
	}
	bool shared = lk_job_folds(job) || job->schedule == LK_SCHED_DUALPIPE;
	double copy = model->mtp_layers > 0 && job->pp > 1 && !model->tied && !shared
	                  ? (double)job->padded_vocab * model->hidden / job->tp
	                  : 0;
	sizes_add(&sum, (lk_rank_params){.dense = copy, .trained_dense = lora(job) ? 0 : copy});
	return sum;
}

/* Tensor parallelism leaves the down-projections of latent attention and the indexer whole on every
 * rank;
 * lk_sizes_layer divides them, as all of attention, for the traffic. */
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
	return (lk_rank_params){.dense = layers * each, .trained_dense = lora(job) ? 0 : layers * each};
}

/* Copies of the layers' weights that Transformer Engine keeps in 8 or 4 bits, as they are and
 * transposed. */
static double narrow_copies(const lk_job *job, int stage, lk_rank_params p) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	if (job->dtype < LK_FP8 || !lk_job_like_megatron(job) || job->sharding == LK_SHARD_ZERO3)
		return 0;
	double ends = 0;
	if (lk_sizes_has_embedding(job, stage))
		ends += lk_sizes_embedding(job).dense + lk_sizes_tower(job).dense;
	if (lk_sizes_has_head(job, stage)) ends += lk_sizes_head(job).dense;
	double layers = p.dense + p.experts - ends;
	double instead = job->narrow_weights ? 2 : 0; /* of the 16-bit weights */
	return (2 * lk_job_operand_bytes(job) - instead) * layers;
}

double lk_sizes_checkpoint(const lk_job *job) {
	double dense = 0, experts = 0;
	for (int stage = 0; stage < job->pp; stage++) {
		lk_rank_params p = lk_sizes_stage(job, stage);
		if (lk_sizes_has_head(job, stage)) sizes_add(&p, prediction_modules(job));
		dense += p.trained_dense * job->tp;
		experts += p.trained_experts * (job->ep > 0 ? job->ep : 1) * (job->etp > 0 ? job->etp : 1);
	}
	return (dense + experts) * (lk_sizes_weight_bytes(job) + lk_sizes_state_bytes(job));
}

lk_resident lk_sizes_resident(const lk_job *job, int stage) {
	LK_ASSERT(stage >= 0 && stage < job->pp);
	lk_rank_params p = lk_sizes_stage(job, stage);
	double copies = narrow_copies(job, stage, p);
	if (lk_sizes_has_head(job, stage)) sizes_add(&p, prediction_modules(job));
	sizes_add(&p, whole_latent(job, stage));
	double dense = shard_over(job, lk_sizes_dp_ranks(job)), experts = sizes_expert_shards(job);
	double held = p.dense + p.experts;
	double trained = p.trained_dense + p.trained_experts;
	double sharded = p.trained_dense / dense + p.trained_experts / experts;
	double frozen = held - trained;
	if (frozen < 0) frozen = 0;
	lk_resident r;
	if (job->sharding == LK_SHARD_ZERO3) {
		/* FSDP: the fp32 master shard is the weight; DeepSpeed has a 16-bit shard beside it; frozen
		 * weights are sharded in 16 bits */
		double weight;
		if (!sixteen_bit(job)) weight = 4;
		else if (lk_job_uses_deepspeed(job)) weight = 2;
		else weight = 0;
		r.weights = weight * sharded + 2 * frozen / dense;
	} else {
		r.weights = lk_sizes_weight_bytes(job) * (lora(job) ? held + trained : held) + copies;
	}
	/* a gradient has the format of its parameter: the fp32 shard of FSDP */
	bool wide =
		job->sharding == LK_SHARD_ZERO3 && sixteen_bit(job) && job->master_weights != LK_OFF;
	r.gradients = (wide ? 4 : lk_sizes_gradient_bytes(job)) *
	              (job->sharding >= LK_SHARD_ZERO2 ? sharded : trained);
	double state = job->sharding >= LK_SHARD_ZERO1 ? sharded : trained;
	r.optimizer = job->offload_optimizer ? 0 : lk_sizes_state_bytes(job) * state;
	return r;
}
