/* sizes.c: weights, gradients and optimizer state of a rank (docs/method/memory.md, "Memory").
 *
 * Tensor parallelism splits matrices; norms, router and row-parallel biases are replicated. ZeRO-1
 * divides the optimizer state by the data-parallel ranks, ZeRO-2 the gradients too, ZeRO-3 the
 * weights too (arXiv 1910.02054); the group counts context-parallel ranks, and experts have their
 * own (Megatron-LM theoretical_memory_usage.py).
 */
#include <math.h>

#include "base/check.h"
#include "model/layout/sizes.h"
#include "model/layout/schedule.h"

static bool lora(const lk_job *job) {
	return job->task == LK_TASK_LORA;
}

/* ---- adapters ----
 *
 * rank * (inputs + outputs) parameters for each product (LoRA, arXiv 2106.09685), and a magnitude
 * for each output (DoRA, arXiv 2402.09353). Where one product makes queries, keys and values, or
 * gate and input of an MLP, as in Megatron-LM, one adapter is beside it. */

enum { ADAPT_KV = LK_ADAPT_KEY | LK_ADAPT_VALUE };

lk_adapted lk_job_adapted(const lk_job *job, const lk_reader *readers, int count) {
	lk_adapted sum = {0};
	for (int i = 0; i < count; i++) {
		if (!(job->adapted & readers[i].part)) continue;
		sum.out += readers[i].out;
		sum.products++;
	}
	if (sum.products > 1 && !lk_job_runs_as_written(job)) sum.products = 1;
	return sum;
}

/* Parameters of the adapters of products that read one tensor. */
static double adapter_params(const lk_job *job, double in, const lk_reader *readers, int count) {
	lk_adapted of = lk_job_adapted(job, readers, count);
	return job->lora_rank * (of.products * in + of.out) + (job->dora ? of.out : 0);
}

/* Of queries, keys and values, which latent attention makes in two steps, and of the output. */
static double adapter_attention(const lk_job *job, int layer) {
	const lk_model *model = &job->model;
	lk_layer of = lk_model_layer(model, layer);
	bool latent = model->attention == LK_ATTN_MLA;
	double in = lk_model_attention_inputs(model), low = model->q_lora, heads = model->heads,
		   values = heads * lk_model_value_dim(model), groups = lk_model_kv_heads(model, of.window),
		   q = latent ? heads * (model->qk_nope + model->qk_rope)
	                  : heads * model->head_dim * (model->output_gate ? 2 : 1);
	lk_reader first[] = {{LK_ADAPT_QUERY, low > 0 ? low : q},
	                     {LK_ADAPT_KEY, groups * model->head_dim},
	                     {LK_ADAPT_VALUE, groups * lk_model_value_dim(model)}};
	if (latent) first[1] = (lk_reader){ADAPT_KV, (double)model->kv_lora + model->qk_rope};
	double sum = adapter_params(job, in, first, latent ? 2 : 3);
	if (low > 0) sum += adapter_params(job, low, &(lk_reader){LK_ADAPT_QUERY, q}, 1);
	if (latent)
		sum += adapter_params(job, model->kv_lora,
		                      &(lk_reader){ADAPT_KV, heads * (model->qk_nope + model->v_dim)}, 1);
	return sum + adapter_params(job, values, &(lk_reader){LK_ADAPT_OUT, model->hidden}, 1);
}

static double adapter_mlp(const lk_job *job, double hidden, double ffn) {
	lk_reader first[] = {{LK_ADAPT_UP, ffn}, {LK_ADAPT_GATE, ffn}};
	return adapter_params(job, hidden, first, job->model.gated ? 2 : 1) +
	       adapter_params(job, ffn, &(lk_reader){LK_ADAPT_DOWN, hidden}, 1);
}

void lk_adapters_params(const lk_job *job, int layer, double *dense, double *experts) {
	const lk_model *model = &job->model;
	lk_layer of = lk_model_layer(model, layer);
	bool attends = (of.mixers & LK_MIXER_ATTENTION) && !lk_model_reuses(model, layer);
	bool crosses = model->network == LK_NET_ENCDEC && layer >= model->layers,
		 routes = of.ffn == LK_FFN_EXPERTS;
	double ffn = routes ? model->shared_ffn : 0;
	if (of.ffn == LK_FFN_DENSE) ffn = lk_layer_ffn(model, &of);
	LK_ASSERT(job->tp > 0);
	*dense = *experts = 0;
	if (attends) *dense = adapter_attention(job, layer) * (crosses ? 2 : 1) / job->tp;
	if (ffn > 0) *dense += adapter_mlp(job, model->hidden, ffn) / job->tp;
	if (routes && (job->adapted & LK_ADAPT_EXPERTS))
		*experts = model->experts * adapter_mlp(job, model->hidden, model->expert_ffn) /
		           ((double)lk_job_ep(job) * lk_job_etp(job));
}

/* ---- layers and ends ---- */

lk_rank_params lk_sizes_layer(const lk_job *job, int layer) {
	lk_layer_params p = lk_model_layer_params(&job->model, layer);
	double ep = lk_job_ep(job), etp = lk_job_etp(job);
	lk_rank_params r = {
		.dense = (p.attention + p.mlp) / job->tp + p.router + p.norms,
		.experts = p.experts / (ep * etp),
	};
	r.trained_dense = r.dense;
	r.trained_experts = r.experts;
	if (lora(job)) lk_adapters_params(job, layer, &r.trained_dense, &r.trained_experts);
	if (job->model.network == LK_NET_CONV) {
		lk_conv_unit unit = lk_convnet_unit(&job->model, layer);
		r.tensors = lk_convnet_unit_tensors(&job->model, &unit);
	}
	return r;
}

lk_rank_params lk_sizes_layer_matrices(const lk_job *job, int layer) {
	lk_matrices list;
	lk_rank_params sum = {0};
	lk_model_matrices(&job->model, layer, lk_job_like_megatron(job), &list);
	for (int i = 0; i < list.count; i++) {
		const lk_matrix *matrix = &list.at[i];
		double all = matrix->out * matrix->in * matrix->count;
		if (matrix->expert && lk_base_of(job)->dense) continue;
		if (matrix->expert) sum.experts += all / ((double)job->ep * job->etp);
		else sum.dense += all / (matrix->cut == LK_CUT_NONE ? 1 : job->tp);
	}
	return sum;
}

void lk_sizes_layer_bytes(const lk_job *job, int layer, double each, double *dense,
                          double *experts) {
	lk_rank_params p = lk_sizes_layer(job, layer);
	*dense = each * p.dense;
	*experts = each * p.experts;
	if (!job->narrow_base) return;
	/* A layer's parameters on a rank are counted as divided by tensor parallelism, including the
	 * matrices into latents (MLA), which the list of matrices has whole. */
	lk_rank_params narrow = lk_sizes_layer_matrices(job, layer);
	*dense -= (each - lk_base_bytes(job)) * fmin(narrow.dense, p.dense);
	*experts -= (each - lk_base_bytes(job)) * narrow.experts;
}

/* Matrices of a transformer layer. Megatron-LM's stacks, and networks without a gate (GPT-2, NeoX,
 * BLOOM), have one product for queries, keys and values, and Megatron-LM one for gate and input; in
 * other stacks relatives of Llama have one for each. */
static int transformer_tensors(const lk_job *job, int layer, lk_rank_tensors *out) {
	const lk_model *model = &job->model;
	lk_layer_params p = lk_model_layer_params(model, layer);
	bool apart = model->gated && !lk_job_like_megatron(job) && !lk_job_uses_deepspeed(job);
	int inputs = model->gated ? 2 : 1;
	lk_rank_tensors *next = out;
	double mlp = p.mlp / job->tp, attention = p.attention / job->tp;
	double ep = lk_job_ep(job), etp = lk_job_etp(job);
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
	if (!attends) { /* other mixers have two products: out, in */
		double rest = p.router + p.norms;
		if (attention > 0) *next++ = (lk_rank_tensors){.dense = attention / 3, .count = 1};
		*next++ =
			(lk_rank_tensors){.dense = attention * (attention > 0 ? 2 / 3. : 0) + rest, .count = 1};
		return (int)(next - out);
	}
	double output = (double)model->heads * lk_model_value_dim(model) * model->hidden / job->tp;
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
	if (job->model.tied && job->pp > 1 && !lk_job_folds(job)) /* without folding no rank holds both
	                                                           * ends */
		dense += (double)job->padded_vocab * job->model.hidden /
		         job->tp; /* the last stage's copy of the embedding */
	double tensors = job->model.network == LK_NET_CONV ? lk_convnet_head_tensors(&job->model) : 0;
	/* a classifier's columns are whole on every rank, and trained with adapters too */
	double scores = (double)job->labels * job->model.hidden;
	return (lk_rank_params){.dense = dense + scores,
	                        .trained_dense = (lora(job) ? 0 : dense) + scores,
	                        .tensors = tensors};
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

void lk_rank_params_add(lk_rank_params *sum, lk_rank_params part) {
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
			lk_rank_params_add(&sum, each);
		}
	}
	if (lk_sizes_has_embedding(job, stage)) lk_rank_params_add(&sum, lk_sizes_embedding(job));
	if (lk_sizes_has_embedding(job, stage)) lk_rank_params_add(&sum, lk_sizes_tower(job));
	if (lk_sizes_has_head(job, stage)) lk_rank_params_add(&sum, lk_sizes_head(job));
	return sum;
}

lk_rank_params lk_sizes_tower(const lk_job *job) {
	lk_rank_params sum = {0}, each = {0}, projector;
	lk_job tower;
	if (!lk_job_tower(job, &tower)) return sum;
	lk_rank_params_add(&sum, lk_sizes_embedding(&tower));
	for (int i = 0; i < tower.model.layers; i++) {
		if (!lk_layer_repeats(&tower.model, i)) each = lk_sizes_layer(&tower, i);
		lk_rank_params_add(&sum, each);
	}
	projector = lk_sizes_head(&tower);
	if (!lk_job_trains_tower(job)) sum.trained_dense = 0;
	if (!lk_job_trains_projector(job)) projector.trained_dense = 0;
	lk_rank_params_add(&sum, projector);
	return sum;
}

int lk_sizes_dp_ranks(const lk_job *job) {
	return job->dp * job->cp;
}

int lk_sizes_edp_ranks(const lk_job *job) {
	int ep = lk_job_ep(job), etp = lk_job_etp(job);
	int ranks = job->dp * job->cp * job->tp / (ep * etp);
	return ranks > 0 ? ranks : 1;
}

bool lk_job_shards_master(const lk_job *job) {
	bool whole = job->master_weights != LK_OFF && !(lk_optimizer_of(job)->split > 0);
	return job->sharding == LK_SHARD_ZERO3 && lk_job_sixteen_bit(job) && whole &&
	       !lk_job_uses_deepspeed(job);
}

/* FSDP2 and plain fp32 training keep only fp32 weights; others keep 16-bit weights, with or without
 * the master copy. */
double lk_sizes_weight_bytes(const lk_job *job) {
	if (!lk_job_sixteen_bit(job)) return 4;
	return lk_job_shards_master(job) ? 0 : 2;
}

double lk_sizes_gradient_bytes(const lk_job *job) {
	return job->fp32_grads == LK_ON || !lk_job_sixteen_bit(job) ? 4 : 2;
}

double lk_sizes_state_bytes(const lk_job *job) {
	double moment = lk_dtype_bytes(job->state_dtype);
	const lk_optimizer_kind *kind = lk_optimizer_of(job);
	double copy = kind->split > 0 ? kind->split : 4;
	double master = lk_job_sixteen_bit(job) && job->master_weights != LK_OFF ? copy : 0;
	return master + kind->moments * moment + kind->bytes;
}

double lk_sizes_wire_bytes(const lk_job *job) {
	return job->grad_reduce_fp32 == LK_ON || !lk_job_sixteen_bit(job) ? 4 : 2;
}

/* Ranks that share one copy under ZeRO: the whole group, or the shard group of hybrid sharding. */
static double shard_over(const lk_job *job, int group) {
	if (job->shard_group > 0 && job->shard_group < group) return job->shard_group;
	return group;
}

/* Experts have as many copies as other parameters. */
static double sizes_expert_shards(const lk_job *job) {
	double dense = lk_sizes_dp_ranks(job),
		   shards = lk_sizes_edp_ranks(job) * shard_over(job, (int)dense) / dense;
	return shards > 1 ? shards : 1;
}

void lk_sizes_shards(const lk_job *job, double *dense, double *experts) {
	bool shards = job->sharding != LK_SHARD_NONE;
	*dense = shards ? shard_over(job, lk_sizes_dp_ranks(job)) : 1;
	*experts = shards ? sizes_expert_shards(job) : 1;
}
