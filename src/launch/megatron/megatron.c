/* megatron.c: what the flags of Megatron-LM mean together, after its validate_args
 * (megatron/training/arguments.py), and the flags that state a job.
 *
 *     ffn = 4 h; with --swiglu and unset: int(4 h * 2/3 / 64) * 64       kv_channels = h / heads
 *     groups of queries count only with --group-query-attention           moe ffn = ffn where unset
 *     vp = layers / pp / layers per virtual stage                         gbs = mbs * dp where
 *         unset
 *     bf16 without --grad-reduce-in-bf16: gradients are kept and reduced in fp32
 * Switches that are not given are off: the line says so by leaving them out. */
#include "base/arena.h"
#include "launch/megatron/megatron.h"

#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "base/noun.h"
#include "model/layout/job.h"
#include "model/read/read.h"

void lk_megatron_init(lk_megatron *megatron) {
	*megatron = (lk_megatron){.bias_linear = true,
	                          .binary_head = true,
	                          .query_groups = 1,
	                          .relative_buckets = 32,
	                          .instances = 1,
	                          .cp_type = "p2p",
	                          .cp_sizes = "",
	                          .wide_first = 1,
	                          .wide_last = 1,
	                          .ssm_state = 128,
	                          .ssm_head = 64,
	                          .ssm_groups = 8,
	                          .attention_dropout = -1,
	                          .zero_stage = -1};
	megatron->job.tp = megatron->job.pp = megatron->job.cp = megatron->job.ep = 1;
	megatron->job.vocab_multiple = 128;
	megatron->job.attention_mask = true;
	lk_model *model = &megatron->job.model;
	model->dropout = 0.1;
	model->rotary_base = 1e4;
	model->topk = 2;
	model->delta_conv = 4;
	model->delta_key_dim = model->delta_value_dim = 128;
	model->delta_key_heads = 16;
	model->delta_value_heads = 32;
	model->kv_lora = 32;
	model->qk_nope = model->v_dim = 128;
	model->qk_rope = 64;
	model->image = 224;
	model->patch = 16;
	model->channels = 3;
}

/* ---- shape ---- */

/* Vocabularies of tokenizers that a flag names: those that Megatron-LM brings along, then parts of
 * the names of published ones, with what their tokenizers hold. */
static const struct {
	const char *name;
	int vocab;
} tokenizers[] =
	{
		{"GPT2BPETokenizer", 50257},          {"BertWordPieceLowerCase", 30524},
		{"BertWordPieceCase", 28996},         {"Llama2Tokenizer", 32000},
		{"Llama3Tokenizer", 128256},          {"MixtralTokenizer", 32000},
		{"MistralTokenizer", 32000},          {"DeepSeekV2Tokenizer", 102400},
		{"DeepSeekV3Tokenizer", 129280},      {"TikTokenizer", 131072},
		{"GPTSentencePieceTokenizer", 32000}, {"SentencePieceTokenizer", 32000},
},
  published[] = {
	  {"nemotron_2_256k", 256000},
	  {"multiMixV8", 131072},
	  {"multimixv8", 131072},
	  {"Nemotron", 131072},
	  {"tekken", 131072},
	  {"DeepSeek-V2", 102400},
	  {"DeepSeek", 129280},
	  {"Llama-4", 202048},
	  {"Llama-3", 128256},
	  {"Llama3", 128256},
	  {"CodeLlama", 32016},
	  {"TinyLlama", 32000},
	  {"Llama-2", 32000},
	  {"Llama2", 32000},
	  {"Mixtral-8x22B", 32768},
	  {"Mixtral", 32000},
	  {"Mistral-Nemo", 131072},
	  {"Mistral-Small", 131072},
	  {"Ministral", 131072},
	  {"v0.3", 32768},
	  {"mistral_7b", 32768}, /* examples/multimodal: Mistral-7B-Instruct-v0.3 */
	  {"Mistral", 32000},
	  {"Qwen3.5", 248320},
	  {"Qwen", 151936},
	  {"gpt-oss", 201088},
	  {"gemma-3", 262144},
	  {"gemma-4", 262144},
	  {"gemma", 256000},
	  {"GLM-4", 151552},
	  {"GLM-5", 154880},
	  {"Kimi", 163840},
	  {"Moonlight", 163840},
	  {"MiniMax", 200064},
	  {"grok", 131072},
	  {"LFM2", 65536},
	  {"Phi-3", 32064},
	  {"phi-4", 100352},
	  {"OLMo-2", 100352},
	  {"dbrx", 100352},
	  {"falcon", 65024},
	  {"starcoder", 49152},
	  {"SmolLM", 49152},
	  {"Yi-", 64000},
	  {"internlm2", 92544},
	  {"gpt-neox", 50277},
	  {"pythia", 50277},
	  {"bloom", 250680},
	  {"opt-", 50265},
	  {"gpt2", 50257},
	  {"gpt3", 50257},
	  {"t5", 32100},
	  {"llama", 32000},
};

static int tokenizer_published(const char *name) {
	for (size_t i = 0; name != NULL && i < sizeof published / sizeof *published; i++)
		if (strcasestr(name, published[i].name) != NULL) return published[i].vocab;
	return 0;
}

/* 0: neither type nor name says it, nor the language model of a network that sees. */
static int tokenizer_vocab(const lk_megatron *megatron) {
	const char *type = megatron->tokenizer, *name = megatron->tokenizer_model;
	lk_model model;
	int vocab = tokenizer_published(name);
	if (vocab > 0) return vocab;
	if (name != NULL && strlen(name) < 100 && lk_model_preset(name, &model, NULL) == LK_OK)
		return model.vocab;
	for (size_t i = 0; type != NULL && i < sizeof tokenizers / sizeof *tokenizers; i++)
		if (strcmp(type, tokenizers[i].name) == 0) return tokenizers[i].vocab;
	return tokenizer_published(megatron->language);
}

/* A line that names no tokenizer has that of its program's tests: a vocabulary is no reason to
 * refuse. */
static lk_status megatron_vocab(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	model->vocab =
		megatron->job.padded_vocab > 0 ? megatron->job.padded_vocab : tokenizer_vocab(megatron);
	if (megatron->job.padded_vocab > 0) return LK_OK;
	bool named = model->vocab > 0;
	if (!named) model->vocab = model->network == LK_NET_DECODER ? 50257 : 30524;
	return lk_launch_assume(reading, "a vocabulary of %d%s (--vocab-size)", model->vocab,
	                        named ? ", by the tokenizer's name"
	                              : ": the line names no tokenizer that is known");
}

static lk_status finish_attention(lk_reading *reading, const lk_megatron *megatron,
                                  lk_model *model) {
	if (megatron->group_query) model->kv_heads = megatron->query_groups;
	if (model->kv_heads == 0) model->kv_heads = model->heads;
	if (model->head_dim == 0) model->head_dim = model->hidden / model->heads;
	if (model->head_dim == 0 ||
	    (megatron->job.model.head_dim == 0 && model->hidden % model->heads != 0)) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--hidden-size: %d is not divisible by %d heads", model->hidden, model->heads);
		return lk_hint(reading->err, "state --kv-channels");
	}
	model->attention = megatron->latent ? LK_ATTN_MLA : LK_ATTN_HEADS;
	if (!megatron->latent)
		model->q_lora = model->kv_lora = model->qk_nope = model->qk_rope = model->v_dim = 0;
	model->attention_sinks = megatron->softmax == 1 ? model->heads : 0;
	return lk_megatron_window(reading, megatron, model);
}

static lk_status finish_mlp(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	model->gated = megatron->swiglu || megatron->geglu;
	if (model->ffn == 0)
		model->ffn =
			megatron->swiglu ? (int)(4LL * model->hidden * 2 / 3 / 64) * 64 : 4 * model->hidden;
	if (model->ffn == 0) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--hidden-size: %d is too small for a gated MLP", model->hidden);
		return lk_hint(reading->err, "state --ffn-hidden-size");
	}
	if (model->experts == 0) {
		model->topk = model->expert_ffn = model->shared_ffn = 0;
		model->router_bias = false;
		return LK_OK;
	}
	if (model->expert_ffn == 0) model->expert_ffn = model->ffn;
	return lk_megatron_experts(reading, megatron, model);
}

/* rope, mrope and yarn, by either flag: others have no base. */
static bool is_rotary(const lk_megatron *megatron) {
	return megatron->rotary || megatron->positions == 1 || megatron->positions == 2 ||
	       megatron->positions == 5;
}

static lk_status finish_network(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	bool rope = megatron->rotary || megatron->positions != 0;
	model->norm = megatron->normalization == 1 ? LK_NORM_RMS : LK_NORM_LAYER;
	model->norm_bias = model->norm == LK_NORM_LAYER;
	model->norms_per_layer = 2;
	model->final_norm = model->lm_head = true;
	model->qkv_bias = megatron->bias_linear || megatron->qkv_bias;
	model->out_bias = model->mlp_bias = megatron->bias_linear;
	model->expert_bias = megatron->bias_linear && model->experts > 0;
	model->tied = !megatron->untie;
	model->context = megatron->max_positions > 0 ? megatron->max_positions : megatron->job.seq;
	model->position_rows = rope ? 0 : model->context;
	if (!is_rotary(megatron)) model->rotary_base = 0;
	bool vit = model->network == LK_NET_ENCODER && model->vocab == 0 &&
	           megatron->tokenizer == NULL && !megatron->bert;
	if (model->vocab == 0 && !vit) LK_TRY(megatron_vocab(reading, megatron, model));
	if (model->vocab > 0) model->vocab += megatron->extra_vocab;
	model->relative_buckets = megatron->positions == 3 ? megatron->relative_buckets : 0;
	if (!vit) model->image = model->patch = model->channels = 0;
	if (vit) {
		model->lm_head = model->tied = false;
		model->context = model->patch > 0
		                     ? (model->image / model->patch) * (model->image / model->patch) + 1
		                     : 0;
		model->position_rows = model->context;
	} else if (model->network == LK_NET_ENCODER) {
		model->token_types = 2;
		model->pooler = megatron->binary_head;
		model->head_transform = true;
	}
	model->head_bias = model->lm_head && model->network != LK_NET_DECODER;
	if (model->network == LK_NET_ENCDEC && model->decoder_layers == 0)
		model->decoder_layers = model->layers;
	if (model->network != LK_NET_ENCDEC) model->decoder_layers = 0;
	return LK_OK;
}

static lk_status finish_model(lk_reading *reading, lk_megatron *megatron, lk_job *job) {
	lk_model *model = &job->model;
	LK_TRY(lk_megatron_no_hybrid(reading, megatron, model));
	LK_TRY(lk_megatron_hybrid_shares(reading, megatron, model->layers));
	if (megatron->hybrid != NULL) LK_TRY(lk_megatron_hybrid(reading, megatron, job));
	int given = (model->layers > 0) + (model->hidden > 0) + (model->heads > 0);
	lk_model *shape = LK_NEW(reading->arena, lk_model);
	if (shape == NULL) return lk_oom(reading->err);
	*shape = megatron->job.model;
	if (megatron->group_query || shape->kv_heads == 0) shape->kv_heads = megatron->query_groups;
	reading->out->shape = shape;
	if (given == 0) { /* only a layout was pasted; the network comes from elsewhere */
		*model = (lk_model){.network = model->network};
		return lk_megatron_window(reading, megatron, model);
	}
	if (given < 3) {
		const char *missing = model->hidden == 0 ? "hidden-size" : "num-attention-heads";
		if (model->layers == 0) missing = "num-layers";
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--%s is missing", missing);
		return lk_hint(reading->err,
		               "state layers, hidden size and heads; or leave all out and name a model");
	}
	lk_copy(model->name, sizeof model->name, "megatron");
	LK_TRY(finish_attention(reading, megatron, model));
	LK_TRY(finish_mlp(reading, megatron, model));
	LK_TRY(finish_network(reading, megatron, model));
	LK_TRY(lk_megatron_variant(reading, megatron, model));
	if (megatron->hybrid != NULL && megatron->positions == 4) model->no_positions = true;
	return LK_OK;
}

/* ---- layout ---- */

static lk_status finish_virtual(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	int layers = lk_job_layers(job) + job->account_embedding + job->account_loss, pp = job->pp;
	if (megatron->layout != NULL) {
		if (strlen(megatron->layout) >= sizeof job->pipeline_layout)
			return lk_fail(reading->err, LK_ERR_INPUT, reading->where,
			               "--pipeline-model-parallel-layout: longer than %zu characters",
			               sizeof job->pipeline_layout - 1);
		char *at = job->pipeline_layout; /* "Et\\|t": written for a shell, with or without quotes */
		for (const char *c = megatron->layout; *c; c++)
			if (*c != '\\') *at++ = *c;
		*at = '\0';
		int places;
		LK_TRY(lk_job_layout_places(job, &places, reading->err));
		if (places % pp == 0) job->vp = places / pp;
		return LK_OK;
	}
	if (megatron->virtual_layers == 0 || layers == 0) return LK_OK;
	if (layers % pp == 0 && layers / pp % megatron->virtual_layers == 0) {
		job->vp = layers / pp / megatron->virtual_layers;
		return LK_OK;
	}
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "--num-layers-per-virtual-pipeline-stage: %d %s on %d %s not divide into chunks of %d",
	        layers, lk_noun(layers, "layer", "layers"), pp, lk_noun(pp, "stage does", "stages do"),
	        megatron->virtual_layers);
	char near[LK_JOB_NEAR];
	if (layers % pp != 0)
		return lk_hint(reading->err, "nearest: %s stages", lk_near_divisors(near, pp, layers));
	return lk_hint(reading->err, "nearest: %s",
	               lk_near_divisors(near, megatron->virtual_layers, layers / pp));
}

static void finish_schedule(const lk_megatron *megatron, lk_job *job) {
	if (job->vp <= 1 || job->pp == 1) job->vp = megatron->zero_bubble_v ? 2 : 1;
	if (megatron->zero_bubble_v) job->schedule = LK_SCHED_ZB_V;
	else if (megatron->zero_bubble) job->schedule = LK_SCHED_ZB_H1;
	else if (job->vp > 1) job->schedule = LK_SCHED_INTERLEAVED;
	else job->schedule = LK_SCHED_1F1B;
	job->schedule_said = true;
}

static lk_status finish_sharding(lk_reading *reading, const lk_megatron *megatron, lk_job *job,
                                 int gpus) {
	bool dist_muon = megatron->optimizer == 3;
	job->sharding = megatron->distributed_optimizer || dist_muon ? LK_SHARD_ZERO1 : LK_SHARD_NONE;
	if (megatron->megatron_fsdp) job->sharding = (lk_sharding)megatron->strategy;
	if (megatron->torch_fsdp2)
		job->sharding = megatron->fsdp2_keep ? LK_SHARD_ZERO2 : LK_SHARD_ZERO3;
	if (megatron->zero_stage >= 0) job->sharding = (lk_sharding)megatron->zero_stage;
	job->sharding_said = true;
	if (megatron->instances == 1) return LK_OK;
	int64_t block = (int64_t)job->tp * job->pp;
	if (gpus == 0) {
		job->shard_copies = megatron->instances;
		return LK_OK;
	}
	if (gpus % block == 0 && gpus / block % megatron->instances == 0) {
		job->shard_group = (int)(gpus / block / megatron->instances);
		return LK_OK;
	}
	lk_fail(
		reading->err, LK_ERR_INPUT, reading->where,
		"--num-distributed-optimizer-instances: %d %s / (tp * pp = %lld) are not divisible by %d",
		gpus, lk_noun(gpus, "GPU", "GPUs"), (long long)block, megatron->instances);
	return lk_hint(reading->err, "use a divisor of the data-parallel ranks");
}

/* ---- activations, numbers, switches ---- */

static bool has_module(const char *list, const char *name) {
	size_t length = strlen(name);
	for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
		bool begins = at == list || strchr(" ,[", at[-1]) != NULL;
		if (begins && strchr(" ,]", at[length]) != NULL)
			return true; /* strchr finds the end of the text too */
	}
	return false;
}

/* The modules of a list; what is not modelled is listed. */
static lk_status read_modules(lk_reading *reading, const char *list, int *out) {
	static const char apart[] = " ,[]'\"";
	for (const char *at = list + strspn(list, apart); *at; at += strspn(at, apart)) {
		int size = (int)strcspn(at, apart);
		const char *name = lk_arena_printf(reading->arena, "%.*s", size, at);
		int module = name ? lk_modules_named(name, apart) : 0;
		const char *why = lk_arena_printf(reading->arena, "%.*s is not modelled", size, at);
		if (!name || !why) return lk_oom(reading->err);
		if (!module) LK_TRY(lk_launch_note(reading, "recompute-modules", why));
		*out |= module;
		at += size;
	}
	return LK_OK;
}

static lk_status finish_selective(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	int modules = 0;
	if (megatron->modules != NULL) LK_TRY(read_modules(reading, megatron->modules, &modules));
	else modules = LK_MODULE_CORE_ATTN;
	if (megatron->moe_recompute) modules |= LK_MODULE_MOE;
	if (modules) lk_job_select(job, modules);
	for (int module = 1; module < LK_MODULES_END && job->model.layers > 0; module <<= 1) {
		const char *idle = modules & module ? lk_job_module_idle(job, (lk_module)module) : NULL;
		if (idle) LK_TRY(lk_launch_note(reading, "recompute-modules", idle));
	}
	return LK_OK;
}

static lk_status finish_recompute(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	job->recompute_said = true;
	if (megatron->granularity == 2 ||
	    (megatron->granularity == 0 &&
	     (megatron->recompute_activations || megatron->moe_recompute)))
		return finish_selective(reading, megatron, job);
	bool old = megatron->checkpoint_layers || megatron->old_method > 0;
	int method = megatron->granularity == 0 ? megatron->old_method : megatron->method,
		count = megatron->granularity == 0 ? megatron->old_layers : megatron->recompute_count;
	if (megatron->granularity == 0 && !old) return LK_OK;
	job->recompute = LK_RECOMPUTE_FULL;
	if (megatron->modules != NULL)
		LK_TRY(lk_launch_note(reading, "recompute-modules",
		                      "with full recomputation it has no effect"));
	int per_stage = (lk_job_layers(job) + job->pp - 1) / job->pp;
	int64_t block = (int64_t)count * (job->vp > 0 ? job->vp : 1);
	if (method == 2 && (per_stage == 0 || block < per_stage)) job->recompute_layers = (int)block;
	if (method == 1 && count > 1)
		return lk_launch_note(reading, "recompute-num-layers",
		                      "units of several layers are modelled as single layers");
	return LK_OK;
}

static lk_status finish_dtype(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	static const lk_dtype moments[] = {LK_FP32, LK_FP16, LK_BF16, LK_FP8};
	if (megatron->bf16 && megatron->fp16) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--bf16 and --fp16 are both given");
		return lk_hint(reading->err, "leave one of them out");
	}
	if (megatron->bf16) job->dtype = LK_BF16;
	else if (megatron->fp16) job->dtype = LK_FP16;
	else job->dtype = LK_FP32;
	if (megatron->fp8 > 0) job->dtype = megatron->fp8_recipe == 2 ? LK_MXFP8 : LK_FP8;
	if (megatron->fp4 > 0) job->dtype = LK_NVFP4;
	static const lk_fp8_recipe recipes[] = {
		[1] = LK_FP8_TENSORWISE, [3] = LK_FP8_BLOCKWISE, [4] = 0};
	job->fp8_recipe = recipes[megatron->fp8_recipe];
	if (megatron->fp8 > 0 && megatron->fp8_recipe == 4)
		LK_TRY(lk_launch_note(reading, "fp8-recipe", "a recipe of one's own is priced as delayed"));
	job->dtype_said = true;
	bool wide = job->dtype == LK_FP32 || megatron->grads_fp32 ||
	            (megatron->bf16 && !megatron->reduce_bf16 && megatron->grads_dtype == 0);
	job->fp32_grads = job->grad_reduce_fp32 = wide ? LK_ON : LK_OFF;
	if (megatron->zero_stage >= 0 && !megatron->grads_fp32) job->grad_reduce_fp32 = LK_OFF;
	job->master_weights = job->dtype == LK_FP32 || megatron->params_dtype == 1 ? LK_OFF : LK_ON;
	job->state_dtype = moments[megatron->moment_dtype];
	if (megatron->moment_dtype != megatron->moment2_dtype)
		LK_TRY(lk_launch_note(reading, "exp-avg-sq-dtype",
		                      "both moments are counted in the format of the first"));
	static const lk_optimizer optimizers[] = {LK_OPT_ADAM, LK_OPT_SGD, LK_OPT_MUON, LK_OPT_MUON,
	                                          LK_OPT_LION};
	job->optimizer = optimizers[megatron->optimizer];
	job->bucket_bytes = megatron->bucket_params * (wide ? 4 : 2);
	return LK_OK;
}

static lk_switch on(bool value) {
	return value ? LK_ON : LK_OFF;
}

/* One kind for all layers. "a2a+p2p" exchanges heads within groups of the first size of the
 * hierarchy, neighbours. */
static void finish_context(const lk_megatron *megatron, lk_job *job) {
	const char *type = megatron->cp_type;
	if (has_module(type, "allgather") || has_module(type, "all_gather"))
		job->cp_kind = LK_CP_ALLGATHER;
	else if (job->cp > 1 && strstr(type, "a2a")) job->cp_kind = LK_CP_ULYSSES;
	else job->cp_kind = LK_CP_RING;
	if (job->cp_kind != LK_CP_ULYSSES || !strstr(type, "p2p")) return;
	long first = strtol(megatron->cp_sizes + strspn(megatron->cp_sizes, " ,[]'\""), NULL, 10);
	if (first > 1 && first < job->cp) job->cp_heads = (int)first;
	else job->cp_kind = first == job->cp ? LK_CP_ULYSSES : LK_CP_RING;
}

static lk_status finish_switches(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	job->sequence_parallel = on(megatron->sequence_parallel && job->tp > 1);
	if (megatron->sequence_parallel && job->tp == 1)
		LK_TRY(lk_launch_note(reading, "sequence-parallel",
		                      "without tensor parallelism it has no effect"));
	finish_context(megatron, job);
	job->wide_first = megatron->wide_ends ? megatron->wide_first : 0;
	job->wide_last = megatron->wide_ends ? megatron->wide_last : 0;
	job->overlap_grad_reduce = on(megatron->overlap_grads);
	job->overlap_param_gather = on(megatron->overlap_params && job->sharding != LK_SHARD_NONE);
	if (megatron->torch_fsdp2 || megatron->megatron_fsdp) job->overlap_grad_reduce = LK_ON;
	if (megatron->torch_fsdp2) job->overlap_param_gather = LK_ON; /* FSDP2 fetches one unit ahead */
	job->overlap_p2p = on(!megatron->no_overlap_p2p && job->schedule == LK_SCHED_INTERLEAVED);
	job->tp_overlap = on(megatron->tp_overlap && job->tp > 1);
	job->expert_overlap = on(megatron->expert_overlap);
	job->grouped_gemm = on(megatron->grouped_gemm);
	if (megatron->attention_dropout >= 0 && job->model.layers > 0 &&
	    megatron->attention_dropout != job->model.dropout)
		LK_TRY(lk_launch_note(reading, "attention-dropout",
		                      "attention is modelled with the dropout of --hidden-dropout"));
	if (megatron->expert_overlap && job->schedule != LK_SCHED_INTERLEAVED)
		LK_TRY(lk_launch_note(reading, "overlap-moe-expert-parallel-comm",
		                      "modelled with an interleaved pipeline only"));
	job->cuda_graphs = on(megatron->cuda_graph || megatron->graph_impl > 0);
	if (job->model.network != LK_NET_ENCDEC)
		job->decoder_seq = 0; /* other programs take it as the sequence */
	job->fused_cross_entropy = on(megatron->fused_loss);
	job->native_loss_fusion = megatron->fused_loss && megatron->loss_impl == 0;
	if (megatron->fused_loss && megatron->loss_impl == 2) {
		job->loss = LK_LOSS_LINEAR;
		job->fused_cross_entropy = LK_OFF;
	}
	job->defer_head_gradient = on(megatron->defer_head);
	job->local_layers = megatron->implementation == 1;
	bool flash = megatron->backend == 1 || megatron->flash_attention;
	job->attn_library_said = flash || megatron->backend == 2;
	if (flash) job->attn_library = LK_ATTN_LIBRARY_FLASH;
	else if (megatron->backend == 2) job->attn_library = LK_ATTN_LIBRARY_CUDNN;
	else job->attn_library = LK_ATTN_LIBRARY_AUTO;
	bool local =
		megatron->implementation == 1 && megatron->backend == 0 && !megatron->flash_attention;
	job->attn_kernel = local || megatron->backend >= 3 ? LK_KERNEL_UNFUSED : LK_KERNEL_FLASH;
	job->task = megatron->sft ? LK_TASK_SFT : LK_TASK_PRETRAIN;
	if (job->lora_rank > 0) job->task = LK_TASK_LORA;
	if (job->lora_rank > 0) lk_copy(job->lora_targets, sizeof job->lora_targets, "experts");
	if (megatron->balanced_experts) job->moe_imbalance = 1;
	if (megatron->job.model.experts == 0) return LK_OK;
	job->dispatcher = megatron->dispatcher == 0 ? LK_DISPATCH_ALLGATHER : LK_DISPATCH_ALLTOALL;
	if (megatron->dispatcher == 2 && (megatron->deepep || megatron->flex_backend > 0))
		job->dispatcher = LK_DISPATCH_NODE;
	return LK_OK;
}

/* Primus's layouts of stages may leave the modules out that predict further tokens: they are with
 * the loss. */
static lk_status finish_predictions(lk_reading *reading, lk_job *job) {
	char *layout = job->pipeline_layout, *loss = strrchr(layout, 'L');
	size_t length = strlen(layout), modules = (size_t)job->model.mtp_layers;
	bool primus = reading->out->framework && strcmp(reading->out->framework, "primus") == 0;
	if (!primus || !loss || modules == 0 || strchr(layout, 'm') ||
	    length + modules >= sizeof job->pipeline_layout)
		return LK_OK;
	memmove(loss + modules, loss, strlen(loss) + 1);
	memset(loss, 'm', modules);
	return lk_launch_assume(reading, "the module that predicts a further token is on the stage of "
	                                 "the loss (--pipeline-layout)");
}

lk_status lk_megatron_finish(lk_reading *reading, lk_megatron *megatron, int gpus) {
	lk_job *job = reading->out->job;
	lk_network network = job->model.network;
	LK_TRY(lk_megatron_forks(reading, megatron));
	*job = megatron->job;
	job->model.network = network;
	if (megatron->vlm && job->decoder_seq > 0)
		job->seq = job->decoder_seq; /* of the language model */
	LK_TRY(finish_model(reading, megatron, job));
	if (megatron->vlm)
		LK_TRY(lk_launch_assume(reading, "the language model alone: the encoder of images and its "
		                                 "projector are left out"));
	LK_TRY(finish_virtual(reading, megatron, job));
	LK_TRY(finish_predictions(reading, job));
	finish_schedule(megatron, job);
	LK_TRY(finish_sharding(reading, megatron, job, gpus));
	LK_TRY(finish_dtype(reading, megatron, job));
	LK_TRY(finish_switches(reading, megatron, job));
	LK_TRY(finish_recompute(reading, megatron, job));
	job->padded_vocab_said = job->padded_vocab > 0;
	lk_copy(job->stack, sizeof job->stack,
	        megatron->zero_stage >= 0 ? "megatron-deepspeed" : "megatron");
	if (megatron->batch_steps != NULL) {
		const char *last = strrchr(megatron->batch_steps, ':');
		long long batch;
		LK_TRY(lk_parse_int(last != NULL ? last + 1 : "", 1, 1 << 28, &batch,
		                    "--step-batch-size-schedule", reading->err));
		job->gbs = (int)batch;
		LK_TRY(lk_launch_assume(reading, "a global batch of %d, the last of %.100s (--gbs)",
		                        job->gbs, megatron->batch_steps));
	}
	if (megatron->rampup != NULL)
		LK_TRY(lk_launch_note(reading, "rampup-batch-size",
		                      job->gbs > 0
		                          ? "the batch at the end of the ramp is taken"
		                          : "the line does not say the batch at the end of the ramp"));
	if (job->gbs == 0 && job->mbs > 0 && megatron->rampup == NULL)
		job->microbatches = megatron->accumulation > 0 ? megatron->accumulation : 1;
	return LK_OK;
}
