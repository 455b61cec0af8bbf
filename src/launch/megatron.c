/* megatron.c: what the flags of Megatron-LM mean together, after its validate_args (megatron/training/arguments.py),
 * and the flags that state a job.
 *
 *     ffn = 4 h; with --swiglu and unset: int(4 h * 2/3 / 64) * 64       kv_channels = h / heads
 *     groups of queries count only with --group-query-attention           moe ffn = ffn where unset
 *     vp = layers / pp / layers per virtual stage                         gbs = mbs * dp where unset
 *     bf16 without --grad-reduce-in-bf16: gradients are kept and reduced in fp32
 * Switches that are not given are off: the line says so by leaving them out. */
#include "launch/launch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "model/layout/job.h"

enum { LIST_MOST = 10000 };

void lk_megatron_init(lk_megatron *m) {
	*m = (lk_megatron){.bias_linear = true,
					   .binary_head = true,
					   .query_groups = 1,
					   .relative_buckets = 32,
					   .instances = 1,
					   .cp_type = "p2p",
					   .zero_stage = -1};
	m->job.tp = m->job.pp = m->job.cp = m->job.ep = 1;
	m->job.vocab_multiple = 128;
	m->job.attention_mask = true;
	lk_model *model = &m->job.model;
	model->dropout = 0.1;
	model->topk = 2;
	model->kv_lora = 32;
	model->qk_nope = model->v_dim = 128;
	model->qk_rope = 64;
	model->image = 224;
	model->patch = 16;
	model->channels = 3;
}

/* ---- list expressions ---- */

struct list_reader {
	const char *at;
	int *list, limit, count;
	int depth;
	bool wrong;
};

static int list_number(struct list_reader *p) {
	char *end;
	long value = isdigit((unsigned char)*p->at) ? strtol(p->at, &end, 10) : -1;
	if (value < 0 || value > LIST_MOST) {
		p->wrong = true;
		return 0;
	}
	p->at = end;
	return (int)value;
}

static void list_repeat(struct list_reader *p, int from, int times) {
	int size = p->count - from;
	if (times == 0) p->count = from;
	if ((long)from + (long)size * times > p->limit) p->wrong = true;
	for (int n = 1; n < times && !p->wrong; n++)
		for (int i = 0; i < size; i++) p->list[p->count++] = p->list[from + i];
}

static void list_sum(struct list_reader *p);

/* atom := '[' number {',' number} ']' | '(' sum ')'; term := atom {'*' number} */
static void list_term(struct list_reader *p) {
	int from = p->count;
	if (++p->depth > 16) p->wrong = true;
	if (p->wrong) return;
	if (*p->at == '[') {
		do {
			p->at++;
			if (*p->at == ']') break;
			int value = list_number(p);
			if (p->count >= p->limit) p->wrong = true;
			if (!p->wrong) p->list[p->count++] = value;
		} while (*p->at == ',' && !p->wrong);
		if (*p->at++ != ']') p->wrong = true;
	} else if (*p->at == '(') {
		p->at++;
		list_sum(p);
		if (p->wrong || *p->at++ != ')') p->wrong = true;
	} else {
		p->wrong = true;
	}
	while (!p->wrong && *p->at == '*') {
		p->at++;
		int times = list_number(p);
		if (!p->wrong) list_repeat(p, from, times);
	}
	p->depth--;
}

static void list_sum(struct list_reader *p) {
	list_term(p);
	while (!p->wrong && *p->at == '+') {
		p->at++;
		list_term(p);
	}
}

bool lk_python_list(const char *text, int *every, int *list, int limit, int *count) {
	struct list_reader p = {.at = text, .list = list, .limit = limit};
	*every = *count = 0;
	if (strchr(text, '[') == NULL) {
		*every = list_number(&p);
		return !p.wrong && *p.at == '\0' && *every > 0;
	}
	list_sum(&p);
	*count = p.count;
	return !p.wrong && *p.at == '\0';
}

static lk_status read_pattern(lk_reading *r, const char *flag, const char *text, int layers, int *every, int **list) {
	int count;
	*list = LK_ARRAY(r->arena, int, LIST_MOST);
	if (*list == NULL) return lk_oom(r->err);
	if (lk_python_list(text, every, *list, LIST_MOST, &count) && (*every > 0 || count == layers)) return LK_OK;
	lk_fail(r->err, LK_ERR_INPUT, r->where, "--%s: \"%s\" is neither a number nor a list of %d layers", flag, text,
			layers);
	return lk_hint(r->err, "write for instance \"([0]*3+[1]*%d)\"", layers > 3 ? layers - 3 : 1);
}

/* Which layers are mixtures of experts: `dense` first, then one in `every` of those with (i + offset) % every == 0. */
static lk_status read_moe_layers(lk_reading *r, const lk_megatron *m, lk_model *model) {
	int *list, layers = model->layers, every;
	model->dense_layers = model->moe_offset = 0;
	model->moe_every = 1;
	if (m->moe_freq == NULL) return LK_OK;
	LK_TRY(read_pattern(r, "moe-layer-freq", m->moe_freq, layers, &every, &list));
	if (every > 0) {
		model->moe_every = every;
		return LK_OK;
	}
	int first = 0, second;
	while (first < layers && list[first] == 0) first++;
	for (second = first + 1; second < layers && list[second] == 0;) second++;
	model->moe_every = second < layers ? second - first : 1;
	model->moe_offset = (model->moe_every - first % model->moe_every) % model->moe_every;
	model->dense_layers = first;
	for (int i = 0; i < layers; i++) {
		if (lk_model_is_moe(model, i) == (list[i] != 0)) continue;
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--moe-layer-freq: layer %d breaks the period of %d", i,
				model->moe_every);
		return lk_hint(r->err, "dense layers first and then one expert layer in every N can be predicted");
	}
	return LK_OK;
}

/* "(128,0)" or "128,0": the tokens to the left. Full attention in one layer of N with --window-attn-skip-freq. */
static lk_status read_window(lk_reading *r, const lk_megatron *m, lk_model *model) {
	int *list, every;
	if (m->window == NULL) return LK_OK;
	const char *at = m->window + strspn(m->window, "( ");
	char *end;
	long width = strtol(at, &end, 10);
	if (end == at || (*end != ',' && *end != '\0' && *end != ')') || width < -1 || width > 1 << 30) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--window-size: \"%s\" is no pair of numbers", m->window);
		return lk_hint(r->err, "write for instance 128,0");
	}
	if (width <= 0) return LK_OK;
	model->window = (int)width;
	if (m->window_freq == NULL) return LK_OK;
	LK_TRY(read_pattern(r, "window-attn-skip-freq", m->window_freq, model->layers, &every, &list));
	for (int i = 0; every == 0 && i < model->layers; i++)
		if (list[i] == 0) every = i + 1;
	model->full_every = every;
	for (int i = 0; i < model->layers && strchr(m->window_freq, '[') != NULL; i++) {
		if ((lk_model_window(model, i) == 0) == (list[i] == 0)) continue;
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--window-attn-skip-freq: layer %d breaks the period of %d", i, every);
		return lk_hint(r->err, "one full layer in every N can be predicted");
	}
	return LK_OK;
}

/* ---- shape ---- */

/* Vocabularies of tokenizers that a flag names: those that Megatron-LM brings along, and the published vocabulary sizes
 * of model families (their config.json). */
static const struct {
	const char *name;
	int vocab;
} tokenizers[] = {
	{"GPT2BPETokenizer", 50257}, {"BertWordPieceLowerCase", 30524}, {"BertWordPieceCase", 28996},
	{"Llama2Tokenizer", 32000},
	{"DeepSeek-V3", 129280}, {"DeepSeek-R1", 129280}, {"DeepSeek-V2", 102400}, {"Llama-3", 128256}, {"Llama-2", 32000},
	{"Mixtral-8x7B", 32000}, {"Mixtral-8x22B", 32768}, {"Qwen3", 151936}, {"gpt-oss", 201088}, {"gpt2", 50257},
};

static int tokenizer_vocab(const lk_megatron *m) {
	for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
		if (m->tokenizer != NULL && strcmp(m->tokenizer, tokenizers[i].name) == 0) return tokenizers[i].vocab;
		if (m->tokenizer_model != NULL && strcasestr(m->tokenizer_model, tokenizers[i].name) != NULL)
			return tokenizers[i].vocab;
	}
	return 0;
}

static lk_status finish_attention(lk_reading *r, const lk_megatron *m, lk_model *model) {
	if (m->group_query) model->kv_heads = m->query_groups;
	if (model->kv_heads == 0) model->kv_heads = model->heads;
	if (model->head_dim == 0) model->head_dim = model->hidden / model->heads;
	if (model->head_dim == 0 || (m->job.model.head_dim == 0 && model->hidden % model->heads != 0)) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--hidden-size: %d does not divide by %d heads", model->hidden,
				model->heads);
		return lk_hint(r->err, "state --kv-channels");
	}
	model->attention = m->latent ? LK_ATTN_MLA : LK_ATTN_HEADS;
	if (!m->latent) model->q_lora = model->kv_lora = model->qk_nope = model->qk_rope = model->v_dim = 0;
	model->attention_sinks = m->softmax == 1;
	return read_window(r, m, model);
}

static lk_status finish_mlp(lk_reading *r, const lk_megatron *m, lk_model *model) {
	model->gated = m->swiglu || m->geglu;
	if (model->ffn == 0) model->ffn = m->swiglu ? (int)(4LL * model->hidden * 2 / 3 / 64) * 64 : 4 * model->hidden;
	if (model->ffn == 0) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--hidden-size: %d is too small for a gated MLP", model->hidden);
		return lk_hint(r->err, "state --ffn-hidden-size");
	}
	if (model->experts == 0) {
		model->topk = model->expert_ffn = model->shared_ffn = 0;
		model->router_bias = false;
		return LK_OK;
	}
	if (model->expert_ffn == 0) model->expert_ffn = model->ffn;
	return read_moe_layers(r, m, model);
}

static void finish_network(const lk_megatron *m, lk_model *model) {
	bool rope = m->rotary || m->positions != 0;
	model->norm = m->normalization == 1 ? LK_NORM_RMS : LK_NORM_LAYER;
	model->norm_bias = model->norm == LK_NORM_LAYER;
	model->norms_per_layer = 2;
	model->final_norm = model->lm_head = true;
	model->qkv_bias = m->bias_linear || m->qkv_bias;
	model->out_bias = model->mlp_bias = m->bias_linear;
	model->expert_bias = m->bias_linear && model->experts > 0;
	model->tied = !m->untie;
	model->context = m->max_positions > 0 ? m->max_positions : m->job.seq;
	model->position_rows = rope ? 0 : model->context;
	if (model->vocab == 0) model->vocab = m->job.padded_vocab > 0 ? m->job.padded_vocab : tokenizer_vocab(m);
	if (model->vocab > 0) model->vocab += m->extra_vocab;
	model->relative_buckets = m->positions == 3 ? m->relative_buckets : 0;
	bool vit = model->network == LK_NET_ENCODER && model->vocab == 0 && m->tokenizer == NULL;
	if (!vit) model->image = model->patch = model->channels = 0;
	if (vit) {
		model->lm_head = model->tied = false;
		model->context = model->patch > 0 ? (model->image / model->patch) * (model->image / model->patch) + 1 : 0;
		model->position_rows = model->context;
	} else if (model->network == LK_NET_ENCODER) {
		model->token_types = 2;
		model->pooler = m->binary_head;
		model->head_transform = true;
	}
	model->head_bias = model->lm_head && model->network != LK_NET_DECODER;
	if (model->network == LK_NET_ENCDEC && model->decoder_layers == 0) model->decoder_layers = model->layers;
	if (model->network != LK_NET_ENCDEC) model->decoder_layers = 0;
}

static lk_status finish_model(lk_reading *r, const lk_megatron *m, lk_job *job) {
	lk_model *model = &job->model;
	int given = (model->layers > 0) + (model->hidden > 0) + (model->heads > 0);
	if (given == 0) { /* only a layout was pasted; the network comes from elsewhere */
		*model = (lk_model){.network = model->network};
		return LK_OK;
	}
	if (given < 3) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--%s is missing",
		        model->layers == 0 ? "num-layers" : model->hidden == 0 ? "hidden-size" : "num-attention-heads");
		return lk_hint(r->err, "state layers, hidden size and heads, or none of them and a model");
	}
	lk_copy(model->name, sizeof model->name, "megatron");
	LK_TRY(finish_attention(r, m, model));
	LK_TRY(finish_mlp(r, m, model));
	finish_network(m, model);
	return LK_OK;
}

/* ---- layout ---- */

static lk_status finish_virtual(lk_reading *r, const lk_megatron *m, lk_job *job) {
	int layers = lk_job_layers(job) + job->account_embedding + job->account_loss, pp = job->pp;
	if (m->layout != NULL) {
		if (strlen(m->layout) >= sizeof job->pipeline_layout)
			return lk_fail(r->err, LK_ERR_INPUT, r->where,
						   "--pipeline-model-parallel-layout: longer than %zu characters",
						   sizeof job->pipeline_layout - 1);
		lk_copy(job->pipeline_layout, sizeof job->pipeline_layout, m->layout);
		int places;
		LK_TRY(lk_job_layout_places(job, &places, r->err));
		if (places % pp == 0) job->vp = places / pp;
		return LK_OK;
	}
	if (m->virtual_layers == 0 || layers == 0) return LK_OK;
	if (layers % pp == 0 && layers / pp % m->virtual_layers == 0) {
		job->vp = layers / pp / m->virtual_layers;
		return LK_OK;
	}
	lk_fail(r->err, LK_ERR_INPUT, r->where,
			"--num-layers-per-virtual-pipeline-stage: %d layers on %d stages do not divide "
			"into chunks of %d",
			layers, pp, m->virtual_layers);
	char near[LK_JOB_NEAR];
	if (layers % pp != 0) return lk_hint(r->err, "nearest: %s stages", lk_near_divisors(near, pp, layers));
	return lk_hint(r->err, "nearest: %s", lk_near_divisors(near, m->virtual_layers, layers / pp));
}

static void finish_schedule(const lk_megatron *m, lk_job *job) {
	if (job->vp <= 1 || job->pp == 1) job->vp = m->zero_bubble_v ? 2 : 1;
	job->schedule = m->zero_bubble_v ? LK_SCHED_ZB_V : m->zero_bubble ? LK_SCHED_ZB_H1
	              : job->vp > 1 ? LK_SCHED_INTERLEAVED : LK_SCHED_1F1B;
	job->schedule_said = true;
}

static lk_status finish_sharding(lk_reading *r, const lk_megatron *m, lk_job *job, int gpus) {
	job->sharding = m->distributed_optimizer ? LK_SHARD_ZERO1 : LK_SHARD_NONE;
	if (m->megatron_fsdp) job->sharding = (lk_sharding)m->strategy;
	if (m->torch_fsdp2) job->sharding = m->fsdp2_keep ? LK_SHARD_ZERO2 : LK_SHARD_ZERO3;
	if (m->zero_stage >= 0) job->sharding = (lk_sharding)m->zero_stage;
	job->sharding_said = true;
	if (m->instances == 1) return LK_OK;
	int64_t block = (int64_t)job->tp * job->pp;
	if (gpus == 0)
		return lk_launch_note(r, "num-distributed-optimizer-instances",
							  "the launch line does not say how many GPUs there are");
	if (gpus % block == 0 && gpus / block % m->instances == 0) {
		job->shard_group = (int)(gpus / block / m->instances);
		return LK_OK;
	}
	lk_fail(r->err, LK_ERR_INPUT, r->where,
			"--num-distributed-optimizer-instances: %d GPUs / (tp * pp = %lld) do not divide by %d", gpus,
			(long long)block, m->instances);
	return lk_hint(r->err, "use a divisor of the data-parallel ranks");
}

/* ---- activations, numbers, switches ---- */

static bool has_module(const char *list, const char *name) {
	size_t length = strlen(name);
	for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
		bool begins = at == list || strchr(" ,[", at[-1]) != NULL;
		if (begins && strchr(" ,]", at[length]) != NULL) return true; /* strchr finds the end of the text too */
	}
	return false;
}

static lk_status finish_selective(lk_reading *r, const lk_megatron *m, lk_job *job) {
	job->recompute = LK_RECOMPUTE_SELECTIVE;
	job->recompute_mlp = m->moe_recompute;
	if (m->modules == NULL) return LK_OK;
	job->recompute_mlp |= has_module(m->modules, "mlp") || has_module(m->modules, "moe");
	if (!job->recompute_mlp && !has_module(m->modules, "core_attn")) job->recompute = LK_RECOMPUTE_NONE;
	job->recompute_norms = has_module(m->modules, "layernorm");
	job->recompute_expert_activation = has_module(m->modules, "moe_act") && job->model.experts > 0;
	job->recompute_latent_up = has_module(m->modules, "mla_up_proj") && m->latent;
	if (job->recompute_norms || job->recompute_expert_activation || job->recompute_latent_up)
		LK_TRY(lk_launch_note(r, "recompute-modules",
		                      "layernorm, moe_act and mla_up_proj save memory; their time is not modelled"));
	if (!has_module(m->modules, "shared_experts")) return LK_OK;
	return lk_launch_note(r, "recompute-modules", "recomputing shared_experts is not modelled");
}

static lk_status finish_recompute(lk_reading *r, const lk_megatron *m, lk_job *job) {
	job->recompute_said = true;
	if (m->granularity == 2 || (m->granularity == 0 && (m->recompute_activations || m->moe_recompute)))
		return finish_selective(r, m, job);
	if (m->granularity == 0) return LK_OK;
	job->recompute = LK_RECOMPUTE_FULL;
	int per_stage = (lk_job_layers(job) + job->pp - 1) / job->pp;
	int64_t block = (int64_t)m->recompute_count * (job->vp > 0 ? job->vp : 1);
	if (m->method == 2 && (per_stage == 0 || block < per_stage)) job->recompute_layers = (int)block;
	if (m->method == 1 && m->recompute_count > 1)
		return lk_launch_note(r, "recompute-num-layers", "units of several layers are modelled as single layers");
	return LK_OK;
}

static lk_status finish_dtype(lk_reading *r, const lk_megatron *m, lk_job *job) {
	static const lk_dtype moments[] = {LK_FP32, LK_FP16, LK_BF16, LK_FP8};
	if (m->bf16 && m->fp16) {
		lk_fail(r->err, LK_ERR_INPUT, r->where, "--bf16 and --fp16 are both given");
		return lk_hint(r->err, "leave one of them out");
	}
	job->dtype = m->bf16 ? LK_BF16 : m->fp16 ? LK_FP16 : LK_FP32;
	if (m->fp8 > 0) job->dtype = m->fp8_recipe == 2 ? LK_MXFP8 : LK_FP8;
	if (m->fp4 > 0) job->dtype = LK_NVFP4;
	job->dtype_said = true;
	bool wide = job->dtype == LK_FP32 || m->grads_fp32 || (m->bf16 && !m->reduce_bf16 && m->grads_dtype == 0);
	job->fp32_grads = job->grad_reduce_fp32 = wide ? LK_ON : LK_OFF;
	if (m->zero_stage >= 0 && !m->grads_fp32) job->grad_reduce_fp32 = LK_OFF;
	job->master_weights = job->dtype == LK_FP32 || m->params_dtype == 1 ? LK_OFF : LK_ON;
	job->state_dtype = moments[m->moment_dtype];
	if (m->moment_dtype != m->moment2_dtype)
		LK_TRY(lk_launch_note(r, "exp-avg-sq-dtype", "both moments are counted in the format of the first"));
	job->optimizer = m->optimizer == 1 ? LK_OPT_SGD : LK_OPT_ADAM;
	job->bucket_bytes = m->bucket_params * (wide ? 4 : 2);
	if (m->optimizer < 2) return LK_OK;
	return lk_launch_note(r, "optimizer", "it is priced as adam");
}

static lk_switch on(bool value) {
	return value ? LK_ON : LK_OFF;
}

static lk_status finish_switches(lk_reading *r, const lk_megatron *m, lk_job *job) {
	job->sequence_parallel = on(m->sequence_parallel && job->tp > 1);
	if (m->sequence_parallel && job->tp == 1)
		LK_TRY(lk_launch_note(r, "sequence-parallel", "without tensor parallelism it has no effect"));
	job->cp_kind =
		has_module(m->cp_type, "allgather") || has_module(m->cp_type, "all_gather") ? LK_CP_ALLGATHER : LK_CP_RING;
	if (job->cp > 1 && strstr(m->cp_type, "a2a") != NULL)
		LK_TRY(lk_launch_note(r, "cp-comm-type", "all-to-all context parallelism is modelled as a ring"));
	job->overlap_grad_reduce = on(m->overlap_grads);
	job->overlap_param_gather = on(m->overlap_params && job->sharding != LK_SHARD_NONE);
	if (m->torch_fsdp2 || m->megatron_fsdp) job->overlap_grad_reduce = LK_ON;
	if (m->torch_fsdp2) job->overlap_param_gather = LK_ON; /* FSDP2 fetches one unit ahead */
	job->overlap_p2p = on(!m->no_overlap_p2p && job->schedule == LK_SCHED_INTERLEAVED);
	job->tp_overlap = on(m->tp_overlap && job->tp > 1);
	job->expert_overlap = on(m->expert_overlap);
	if (m->expert_overlap && job->schedule != LK_SCHED_INTERLEAVED)
		LK_TRY(lk_launch_note(r, "overlap-moe-expert-parallel-comm", "modelled with an interleaved pipeline only"));
	job->cuda_graphs = on(m->cuda_graph || m->graph_impl > 0);
	if (job->model.network != LK_NET_ENCDEC) job->decoder_seq = 0; /* other programs take it as the sequence */
	job->fused_cross_entropy = on(m->fused_loss);
	job->native_loss_fusion = m->fused_loss && m->loss_impl == 0;
	job->defer_head_gradient = on(m->defer_head);
	job->local_layers = m->implementation == 1;
	bool flash = m->backend == 1 || m->flash_attention;
	job->attn_library = flash ? LK_ATTN_LIBRARY_FLASH : m->backend == 2 ? LK_ATTN_LIBRARY_CUDNN : LK_ATTN_LIBRARY_AUTO;
	bool local = m->implementation == 1 && m->backend == 0 && !m->flash_attention;
	job->attn_kernel = local || m->backend >= 3 ? LK_KERNEL_UNFUSED : LK_KERNEL_FLASH;
	job->task = m->sft ? LK_TASK_SFT : LK_TASK_PRETRAIN;
	if (m->balanced_experts) job->moe_imbalance = 1;
	if (m->job.model.experts == 0) return LK_OK;
	job->dispatcher = m->dispatcher == 0 ? LK_DISPATCH_ALLGATHER : LK_DISPATCH_ALLTOALL;
	if (m->dispatcher == 2 && (m->deepep || m->flex_backend > 0)) job->dispatcher = LK_DISPATCH_NODE;
	return LK_OK;
}

lk_status lk_megatron_finish(lk_reading *r, lk_megatron *m, int gpus) {
	lk_job *job = r->out->job;
	lk_network network = job->model.network;
	*job = m->job;
	job->model.network = network;
	LK_TRY(finish_model(r, m, job));
	LK_TRY(finish_virtual(r, m, job));
	finish_schedule(m, job);
	LK_TRY(finish_sharding(r, m, job, gpus));
	LK_TRY(finish_recompute(r, m, job));
	LK_TRY(finish_dtype(r, m, job));
	LK_TRY(finish_switches(r, m, job));
	job->padded_vocab_said = job->padded_vocab > 0;
	lk_copy(job->stack, sizeof job->stack, m->zero_stage >= 0 ? "megatron-deepspeed" : "megatron");
	if (m->rampup != NULL)
		LK_TRY(lk_launch_note(r, "rampup-batch-size",
							  job->gbs > 0 ? "the batch at the end of the ramp is taken"
										   : "the line does not say the batch at the end of the ramp"));
	if (job->gbs == 0 && job->mbs > 0 && m->rampup == NULL) job->microbatches = 1;
	return LK_OK;
}
