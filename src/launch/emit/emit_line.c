/* emit_line.c: a job as a launch line of Megatron-LM, alone or with a configuration of
 * DeepSpeed. The flags come from the same table that reads them; what no flag can say (a schedule
 * of another framework, LoRA, a network outside Megatron's) is found when the line is read back
 * (emit.c). */
#include "base/arena.h"
#include "launch/emit/emit.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/check.h"
#include "base/text.h"

static void put_experts(lk_arena *arena, const lk_model *model, lk_megatron *megatron) {
	lk_model *out = &megatron->job.model;
	bool plain = model->dense_layers == 0 && model->moe_offset == 0;
	if (plain && model->moe_every > 1) {
		megatron->moe_freq = lk_arena_printf(arena, "%d", model->moe_every);
	} else if (!plain && model->moe_every <= 1 && model->dense_layers <= model->layers) {
		megatron->moe_freq = lk_arena_printf(arena, "([0]*%d+[1]*%d)", model->dense_layers,
		                                     model->layers - model->dense_layers);
	} else if (!plain) {
		char *text = lk_arena_alloc(arena, 2 * (size_t)model->layers + 2), *at = text;
		for (int i = 0; text != NULL && i < model->layers; i++) {
			*at++ = i == 0 ? '[' : ',';
			*at++ = lk_model_is_moe(model, i) ? '1' : '0';
		}
		if (text != NULL) *at = ']';
		megatron->moe_freq = text;
	}
	if (out->expert_ffn == out->ffn) out->expert_ffn = 0;
}

/* The letter of a layer of one half; 0: a pattern has none for it. */
static char hybrid_letter(const lk_model *model, const lk_layer *layer) {
	bool mixes = layer->mixers != 0, feeds = layer->ffn != LK_FFN_NONE;
	if (mixes == feeds || layer->window > 0 || layer->across || layer->width > 0) return 0;
	if (feeds) return layer->ffn == LK_FFN_EXPERTS ? 'E' : '-';
	if (layer->mixers == LK_MIXER_SSM && model->ssm == 2) return 'M';
	if (layer->mixers == LK_MIXER_DELTA && model->delta_rank == 0) return 'G';
	if (layer->mixers != LK_MIXER_ATTENTION) return 0;
	if (model->index_heads > 0) return 'D';
	return model->attention == LK_ATTN_MLA ? '+' : '*';
}

/* A pattern for a network whose layers are all halves. */
static void put_hybrid(lk_arena *arena, const lk_model *model, lk_megatron *megatron) {
	char *pattern = lk_arena_alloc(arena, (size_t)model->layers + 1);
	for (int i = 0; pattern != NULL && i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		pattern[i] = hybrid_letter(model, &layer);
		if (pattern[i] == 0) return;
	}
	if (pattern == NULL) return;
	pattern[model->layers] = '\0';
	megatron->hybrid = pattern;
	if (model->ssm == 0 || model->ssm_heads == 0) return;
	megatron->ssm_state = model->ssm_state;
	megatron->ssm_groups = model->ssm_groups;
	megatron->ssm_heads = model->ssm_heads;
	megatron->ssm_head = model->ssm_inner / model->ssm_heads;
}

/* Delta nets in place of attention in some of the layers, which are whole ones. */
static void put_linear_layers(lk_arena *arena, const lk_model *model, lk_megatron *megatron) {
	char *list = lk_arena_alloc(arena, 2 * (size_t)model->layers + 2), *at = list;
	int first = -1, every = 0;
	for (int i = 0; list != NULL && i < model->layers; i++) {
		int mixers = lk_model_layer(model, i).mixers;
		if (mixers != LK_MIXER_DELTA && mixers != LK_MIXER_ATTENTION) return;
		if (mixers == LK_MIXER_ATTENTION && first < 0) first = i;
		*at++ = i == 0 ? '[' : ',';
		*at++ = mixers == LK_MIXER_DELTA ? '1' : '0';
	}
	if (list == NULL) return;
	*at = ']';
	at[1] = '\0';
	every = first + 1;
	for (int i = 0; i < model->layers && every > 0; i++)
		if ((lk_model_layer(model, i).mixers == LK_MIXER_DELTA) != ((i + 1) % every != 0))
			every = 0;
	megatron->variant = 1;
	megatron->linear_freq = every > 0 ? lk_arena_printf(arena, "%d", every) : list;
}

/* What Megatron-DeepSpeed says with flags of its own. */
static void put_shape_deepspeed(const lk_model *model, lk_megatron *megatron) {
	megatron->group_query = false;
	if (model->kv_heads != model->heads) megatron->job.model.kv_heads = model->kv_heads;
	megatron->rotary = megatron->positions == 1;
	if (model->norm == LK_NORM_RMS) megatron->normalization = 3; /* rmsnorm */
}

/* `hybrids`: the software has layers beyond attention of one kind. */
static void put_shape(lk_arena *arena, const lk_model *model, bool hybrids, lk_megatron *megatron) {
	lk_megatron start;
	lk_megatron_init(&start);
	lk_model *out = &megatron->job.model;
	megatron->group_query = model->kv_heads != model->heads;
	megatron->query_groups = megatron->group_query ? model->kv_heads : 1;
	out->kv_heads = 0;
	if (model->attention == LK_ATTN_HEADS) {
		out->q_lora = 0;
		out->kv_lora = start.job.model.kv_lora;
		out->qk_nope = start.job.model.qk_nope;
		out->qk_rope = start.job.model.qk_rope;
		out->v_dim = start.job.model.v_dim;
	}
	bool ordered = hybrids && model->order[0] != '\0';
	bool delta = ordered && model->delta_rank == 0 && (lk_model_mixers(model) & LK_MIXER_DELTA);
	if (ordered) put_hybrid(arena, model, megatron);
	if (delta && megatron->hybrid == NULL) put_linear_layers(arena, model, megatron);
	if (!delta || (megatron->hybrid == NULL && megatron->variant == 0)) {
		out->delta_conv = start.job.model.delta_conv;
		out->delta_key_dim = start.job.model.delta_key_dim;
		out->delta_value_dim = start.job.model.delta_value_dim;
		out->delta_key_heads = start.job.model.delta_key_heads;
		out->delta_value_heads = start.job.model.delta_value_heads;
	}
	bool sparse = hybrids && !ordered && model->index_heads > 0 && model->attention == LK_ATTN_MLA;
	if (sparse) megatron->variant = 3;
	if (!sparse && (megatron->hybrid == NULL || strchr(megatron->hybrid, 'D') == NULL))
		out->index_heads = out->index_dim = out->index_topk = 0;
	megatron->latent = model->attention == LK_ATTN_MLA;
	megatron->swiglu = model->gated;
	megatron->bias_linear = model->out_bias;
	megatron->qkv_bias = model->qkv_bias && !model->out_bias;
	megatron->untie = !model->tied;
	megatron->normalization = model->norm == LK_NORM_RMS;
	megatron->max_positions = model->context;
	if (model->relative_buckets > 0) megatron->positions = 3;
	else if (model->position_rows > 0) megatron->positions = 0;
	else megatron->positions = model->rotary_base > 0 ? 1 : 4;
	if (model->rotary_base == 0) out->rotary_base = start.job.model.rotary_base;
	megatron->attention_dropout = model->dropout;
	megatron->router_score = model->router_bias; /* Megatron-LM biases sigmoid scores alone */
	if (model->relative_buckets > 0) megatron->relative_buckets = model->relative_buckets;
	megatron->softmax = model->attention_sinks > 0;
	megatron->binary_head = model->pooler || model->network != LK_NET_ENCODER;
	if (model->window > 0) megatron->window = lk_arena_printf(arena, "%d,0", model->window);
	if (model->window > 0 && model->full_every > 0)
		megatron->window_freq = lk_arena_printf(arena, "%d", model->full_every);
	if (model->experts > 0) put_experts(arena, model, megatron);
	else out->topk = start.job.model.topk;
	if (model->image == 0) {
		out->image = start.job.model.image;
		out->patch = start.job.model.patch;
		out->channels = start.job.model.channels;
	}
}

static void emit_line_put_numbers(const lk_job *job, lk_megatron *megatron) {
	static const int moments[LK_DTYPES] = {[LK_FP16] = 1, [LK_BF16] = 2, [LK_FP8] = 3};
	static const int recipes[] = {
		[LK_FP8_TENSORWISE] = 1, [LK_FP8_BLOCKWISE] = 3, [LK_FP8_ROWWISE] = 1};
	megatron->fp16 = job->dtype == LK_FP16;
	megatron->bf16 = job->dtype > LK_FP16;
	megatron->fp8 = job->dtype == LK_FP8 || job->dtype == LK_MXFP8;
	megatron->fp8_recipe = job->dtype == LK_MXFP8 ? 2 : recipes[job->fp8_recipe];
	megatron->fp4 = job->dtype == LK_NVFP4;
	megatron->grads_fp32 = megatron->fp16 && job->fp32_grads == LK_ON;
	megatron->reduce_bf16 = megatron->bf16 && job->grad_reduce_fp32 != LK_ON;
	megatron->params_dtype = job->dtype > LK_TF32 && job->master_weights == LK_OFF;
	megatron->moment_dtype = megatron->moment2_dtype = moments[job->state_dtype];
	static const int optimizers[LK_OPTIMIZERS] = {
		[LK_OPT_SGD] = 1, [LK_OPT_MUON] = 2, [LK_OPT_LION] = 4};
	megatron->optimizer = optimizers[job->optimizer];
	/* Megatron-LM demands it of moments and master weights in few bits and of offloading. */
	megatron->precision_aware =
		megatron->params_dtype > 0 || megatron->moment_dtype > 0 || job->offload_optimizer;
	megatron->bucket_params = job->bucket_bytes / (job->grad_reduce_fp32 == LK_ON ? 4 : 2);
}

static void put_modules(lk_arena *arena, const lk_job *job, lk_megatron *megatron) {
	char names[LK_MODULES_TEXT];
	if (job->recompute == LK_RECOMPUTE_SELECTIVE && job->recompute_modules)
		megatron->modules =
			lk_arena_strdup(arena, lk_module_names(names, job->recompute_modules, ' '));
}

static void put_recompute(lk_arena *arena, const lk_job *job, lk_megatron *megatron) {
	if (job->recompute == LK_RECOMPUTE_FULL) megatron->granularity = 1;
	else if (job->recompute == LK_RECOMPUTE_SELECTIVE) megatron->granularity = 2;
	else megatron->granularity = 0;
	put_modules(arena, job, megatron);
	if (job->recompute != LK_RECOMPUTE_FULL) return;
	megatron->method = job->recompute_layers > 0 ? 2 : 1;
	megatron->recompute_count =
		job->recompute_layers > 0 && job->vp > 0 ? job->recompute_layers / job->vp : 1;
}

static void put_context(lk_arena *arena, const lk_job *job, lk_megatron *megatron) {
	static const char *const types[] = {
		[LK_CP_RING] = "p2p", [LK_CP_ALLGATHER] = "allgather", [LK_CP_ULYSSES] = "a2a"};
	megatron->cp_type = job->cp_heads > 0 ? "a2a+p2p" : types[job->cp_kind];
	if (job->cp_heads > 0)
		megatron->cp_sizes =
			lk_arena_printf(arena, "%d %d", job->cp_heads, job->cp / job->cp_heads);
}

static void put_switches(const lk_job *job, lk_megatron *megatron) {
	static const int dispatchers[] = {
		[LK_DISPATCH_ALLTOALL] = 1, [LK_DISPATCH_ALLGATHER] = 0, [LK_DISPATCH_NODE] = 2};
	megatron->wide_ends = job->wide_first + job->wide_last > 0;
	if (megatron->wide_ends)
		megatron->wide_first = job->wide_first, megatron->wide_last = job->wide_last;
	megatron->sequence_parallel = job->sequence_parallel == LK_ON;
	bool fsdp = job->sharding >= LK_SHARD_ZERO2;
	/* Muon shards its states by layer, and refuses the distributed optimizer. */
	bool muon = job->optimizer == LK_OPT_MUON && job->sharding == LK_SHARD_ZERO1;
	if (muon) megatron->optimizer = 3; /* dist_muon */
	megatron->distributed_optimizer = job->sharding == LK_SHARD_ZERO1 && !muon;
	megatron->megatron_fsdp = fsdp;
	megatron->strategy = fsdp ? (int)job->sharding : 0;
	megatron->overlap_grads = job->overlap_grad_reduce == LK_ON;
	megatron->overlap_params = job->overlap_param_gather == LK_ON;
	megatron->no_overlap_p2p = job->schedule == LK_SCHED_INTERLEAVED && job->overlap_p2p == LK_OFF;
	megatron->tp_overlap = job->tp_overlap == LK_ON;
	megatron->expert_overlap = job->expert_overlap == LK_ON;
	megatron->grouped_gemm = job->grouped_gemm == LK_ON;
	megatron->graph_impl = job->cuda_graphs == LK_ON;
	bool unfused = job->attn_kernel == LK_KERNEL_UNFUSED;
	static const int libraries[] = {
		[LK_ATTN_LIBRARY_FLASH] = 1, [LK_ATTN_LIBRARY_FLASH3] = 1, [LK_ATTN_LIBRARY_CUDNN] = 2};
	megatron->backend = unfused ? 3 : libraries[job->attn_library];
	if (job->attn_torch && !unfused) megatron->backend = 0;
	megatron->fused_loss = job->fused_cross_entropy == LK_ON;
	megatron->loss_impl = job->fused_cross_entropy == LK_ON && !job->native_loss_fusion;
	if (job->loss == LK_LOSS_LINEAR) {
		megatron->fused_loss = true;
		megatron->loss_impl = 2;
	}
	megatron->defer_head = job->defer_head_gradient == LK_ON;
	megatron->implementation = job->local_layers;
	megatron->sft = job->task == LK_TASK_SFT;
	megatron->balanced_experts = job->model.experts > 0 && job->moe_imbalance == 1;
	megatron->dispatcher = job->model.experts > 0 ? dispatchers[job->dispatcher] : 0;
	megatron->flex_backend = megatron->dispatcher == 2;
	if (job->pipeline_layout[0] != '\0') megatron->layout = job->pipeline_layout;
	if (megatron->layout != NULL || job->schedule != LK_SCHED_INTERLEAVED) megatron->job.vp = 0;
	if (job->shard_group > 0 && job->dp > 0 && job->dp * job->cp % job->shard_group == 0)
		megatron->instances = job->dp * job->cp / job->shard_group;
	if (!job->padded_vocab_said) megatron->job.padded_vocab = 0;
	if (job->etp == job->tp) megatron->job.etp = 0;
}

static lk_status emit_line_megatron(lk_arena *arena, const lk_job *job, bool deepspeed,
                                    lk_megatron *out, lk_error *err) {
	lk_megatron_init(out);
	lk_model start = out->job.model;
	out->job = *job;
	if (job->model.layers > 0) put_shape(arena, &job->model, !deepspeed, out);
	else out->job.model = start;
	emit_line_put_numbers(job, out);
	put_recompute(arena, job, out);
	put_context(arena, job, out);
	put_switches(job, out);
	if (deepspeed) {
		put_shape_deepspeed(&job->model, out);
		out->flash_v2 = out->backend == 1;
		if (job->optimizer != LK_OPT_SGD) out->optimizer = 0;
	}
	bool list = job->model.experts > 0 && (job->model.dense_layers > 0 ||
	                                       job->model.moe_offset > 0 || job->model.moe_every > 1);
	return list && out->moe_freq == NULL ? lk_oom(err) : LK_OK;
}

/* ---- words ---- */

/* The words of a list, one for each. */
static bool emit_line_put_list(lk_arena *arena, const char *value, lk_words *words) {
	char *copy = lk_arena_strdup(arena, value), *save = NULL;
	if (copy == NULL) return false;
	for (char *at = strtok_r(copy, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save))
		if (!lk_put_word(words, at)) return false;
	return true;
}

/* A flag and its value; nothing where it says what the program assumes anyway. */
static bool emit_line_put_flag(lk_arena *arena, const lk_flag *flag, const lk_megatron *megatron,
                               const lk_megatron *start, lk_words *words) {
	const void *field = (const char *)megatron + flag->offset,
			   *usual = (const char *)start + flag->offset;
	int number = 0, usual_number = 0;
	const char *value = NULL;
	char real[32];
	if (flag->kind >= LK_FLAG_IGNORED) return true;
	switch (flag->kind) {
	case LK_FLAG_SET:
	case LK_FLAG_CLEAR:
		if (*(const bool *)field == *(const bool *)usual) return true;
		break;
	case LK_FLAG_REAL:
		if (*(const double *)field == *(const double *)usual) return true;
		value =
			lk_arena_strdup(arena, lk_format_shortest(*(const double *)field, real, sizeof real));
		break;
	case LK_FLAG_TEXT:
	case LK_FLAG_LIST:
		value = *(const char *const *)field;
		if (value == *(const char *const *)usual ||
		    (*(const char *const *)usual != NULL &&
		     strcmp(value, *(const char *const *)usual) == 0))
			return true;
		break;
	default:
		memcpy(&number, field, sizeof number);
		memcpy(&usual_number, usual, sizeof usual_number);
		if (number == usual_number) return true;
		if (flag->kind == LK_FLAG_INT && (number < flag->low || number > flag->high)) return true;
		LK_ASSERT(flag->kind != LK_FLAG_CHOICE || number >= 0);
		value = flag->kind == LK_FLAG_CHOICE ? flag->choices[number]
		                                     : lk_arena_printf(arena, "%d", number);
		break;
	}
	if (!lk_put_word(words, lk_arena_printf(arena, "--%s", flag->name))) return false;
	if (flag->kind == LK_FLAG_SET || flag->kind == LK_FLAG_CLEAR) return true;
	if (flag->kind == LK_FLAG_LIST) return emit_line_put_list(arena, value, words);
	return lk_put_word(words, value);
}

static const char *emit_line_script(const lk_model *model, bool hybrid) {
	static const char *const scripts[] = {"pretrain_gpt.py", "pretrain_bert.py", "pretrain_t5.py"};
	bool vision = model->network == LK_NET_ENCODER && model->image > 0;
	if (hybrid) return "pretrain_mamba.py";
	return vision ? "pretrain_vision_classify.py" : scripts[model->network];
}

static bool emit_line_put_launcher(lk_emission *emission, const char *name, const char *per_node,
                                   const char *nodes) {
	lk_arena *arena = emission->arena;
	lk_words *words = &emission->launcher;
	if (!lk_put_word(words, name)) return false;
	return emission->job->gpus == 0 ||
	       (lk_put_word(words, lk_arena_printf(arena, "--%s=%d", per_node, emission->per_node)) &&
	        lk_put_word(words, lk_arena_printf(arena, "--%s=%d", nodes, emission->nodes)));
}

/* ---- DeepSpeed ---- */

/* Bytes as base64 with the alphabet of URLs, in which DeepSpeed takes a configuration. */
static char *base64(lk_arena *arena, const char *bytes, size_t size) {
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char *out = lk_arena_alloc(arena, (size + 2) / 3 * 4 + 1), *at = out;
	for (size_t i = 0; out != NULL && i < size; i += 3) {
		unsigned long group = 0;
		for (size_t k = 0; k < 3; k++)
			group = group << 8 | (i + k < size ? (unsigned char)bytes[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			*at++ = i + k <= size ? letters[group >> (18 - 6 * k) & 63] : '=';
	}
	return out;
}

/* What DeepSpeed has to know: batch, sharding, overlap, buckets, formats. */
static char *deepspeed_config(lk_arena *arena, const lk_job *job) {
	double element = job->grad_reduce_fp32 == LK_ON || job->dtype <= LK_TF32 ? 4 : 2;
	const char *offload =
		job->offload_optimizer ? ",\"offload_optimizer\":{\"device\":\"cpu\"}" : "";
	if (job->offload_params)
		offload = ",\"offload_optimizer\":{\"device\":\"cpu\"},\"offload_param\":{\"device\":"
				  "\"cpu\"}";
	const char *format;
	if (job->dtype == LK_FP16) format = ",\"fp16\":{\"enabled\":true}";
	else if (job->dtype > LK_FP16) format = ",\"bf16\":{\"enabled\":true}";
	else format = "";
	const char *narrow = job->dtype == LK_FP16 ? "fp16" : "bf16";
	bool wide = job->dtype <= LK_TF32 || job->fp32_grads == LK_ON;
	char *json = lk_arena_printf(
		arena,
		"{\"train_batch_size\":%d,\"train_micro_batch_size_per_gpu\":%d,"
		"\"zero_optimization\":{\"stage\":%d,\"overlap_comm\":%s,"
		"\"reduce_bucket_size\":%.0f%s}%s,"
		"\"communication_data_type\":\"%s\",\"data_types\":{\"grad_accum_dtype\":\"%s\"}}",
		job->gbs, job->mbs, (int)job->sharding,
		job->overlap_grad_reduce == LK_ON ? "true" : "false", job->bucket_bytes / element, offload,
		format, element == 4 ? "fp32" : narrow, wide ? "fp32" : narrow);
	return json != NULL ? base64(arena, json, strlen(json)) : NULL;
}

/* ---- the whole ---- */

bool lk_write_line(lk_emission *emission, lk_dialect dialect) {
	lk_arena *arena = emission->arena;
	const lk_job *job = emission->job;
	lk_words *words = &emission->program;
	bool deepspeed = dialect == LK_DIALECT_DEEPSPEED;
	if (dialect != LK_DIALECT_NEMO &&
	    !(deepspeed ? emit_line_put_launcher(emission, "deepspeed", "num_gpus", "num_nodes")
	                : emit_line_put_launcher(emission, "torchrun", "nproc_per_node", "nnodes")))
		return false;
	if (dialect != LK_DIALECT_MEGATRON && !deepspeed) return lk_dotted_write(emission, dialect);
	lk_megatron *megatron = LK_ARRAY(arena, lk_megatron, 2);
	if (megatron == NULL || emit_line_megatron(arena, job, deepspeed, &megatron[0], NULL) != LK_OK)
		return false;
	lk_megatron_init(&megatron[1]);
	bool hybrid = megatron[0].hybrid != NULL;
	if (!lk_put_word(words, emit_line_script(&job->model, hybrid))) return false;
	if (hybrid && !(lk_put_word(words, "--spec") &&
	                lk_put_word(words, "megatron.core.models.mamba.mamba_layer_specs") &&
	                lk_put_word(words, "mamba_stack_spec")))
		return false;
	lk_direction own = deepspeed ? LK_DEEPSPEED : LK_BOTH;
	for (const lk_flag *flag = lk_megatron_flags; flag->name != NULL; flag++)
		if ((flag->direction == own || flag->direction == LK_SHARED) &&
		    !emit_line_put_flag(arena, flag, &megatron[0], &megatron[1], words))
			return false;
	return !deepspeed ||
	       (lk_put_word(words, "--deepspeed") && lk_put_word(words, "--deepspeed_config") &&
	        lk_put_word(words, deepspeed_config(arena, job)));
}
