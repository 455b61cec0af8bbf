/* check.c: refuse impossible shapes. A shape that passes has positive sizes within limits far above
 * any network's, heads that divide, experts that can be chosen, and a parameter count that a double
 * holds exactly. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "model/network/parts.h"

struct range {
	const char *name;
	size_t offset;
	int low, high;
};

#define RANGE(field, low, high) \
	{ #field, offsetof(lk_model, field), low, high }

enum {
	LAYERS = 10000,
	WIDTH = 1 << 20,
	HEADS = 65536,
	FFN = 1 << 24,
	VOCAB = 1 << 26,
	CONTEXT = 1 << 30,
	EXPERTS = 65536,
	IMAGES = 65536,
};

static const struct range ranges[] = {
	RANGE(layers, 1, LAYERS),
	RANGE(decoder_layers, 0, LAYERS),
	RANGE(hidden, 1, WIDTH),
	RANGE(heads, 1, HEADS),
	RANGE(kv_heads, 1, HEADS),
	RANGE(head_dim, 1, WIDTH),
	RANGE(ffn, 1, FFN),
	RANGE(vocab, 0, VOCAB),
	RANGE(context, 0, CONTEXT + 1),
	RANGE(norms_per_layer, 0, 16),
	RANGE(position_rows, 0, CONTEXT + 2),
	RANGE(token_types, 0, VOCAB),
	RANGE(embed_dim, 0, WIDTH),
	RANGE(relative_buckets, 0, WIDTH),
	RANGE(q_lora, 0, WIDTH),
	RANGE(kv_lora, 0, WIDTH),
	RANGE(qk_nope, 0, WIDTH),
	RANGE(qk_rope, 0, WIDTH),
	RANGE(v_dim, 0, WIDTH),
	RANGE(window_kv_heads, 0, HEADS),
	RANGE(attention_sinks, 0, HEADS),
	RANGE(experts, 0, EXPERTS),
	RANGE(topk, 0, EXPERTS),
	RANGE(expert_ffn, 0, FFN),
	RANGE(shared_ffn, 0, FFN),
	RANGE(dense_layers, 0, LAYERS),
	RANGE(moe_every, 0, LAYERS),
	RANGE(moe_offset, 0, LAYERS),
	RANGE(window, 0, CONTEXT),
	RANGE(full_every, 0, LAYERS),
	RANGE(mtp_layers, 0, 64),
	RANGE(index_heads, 0, HEADS),
	RANGE(index_dim, 0, WIDTH),
	RANGE(index_topk, 0, CONTEXT),
	RANGE(expert_latent, 0, WIDTH),
	RANGE(router_groups, 0, EXPERTS),
	RANGE(router_group_limit, 0, EXPERTS),
	RANGE(ssm, 0, 2),
	RANGE(ssm_inner, 0, WIDTH),
	RANGE(ssm_state, 0, WIDTH),
	RANGE(ssm_heads, 0, HEADS),
	RANGE(ssm_groups, 0, HEADS),
	RANGE(ssm_conv, 0, 1024),
	RANGE(ssm_rank, 0, WIDTH),
	RANGE(ssm_chunk, 0, WIDTH),
	RANGE(delta_key_heads, 0, HEADS),
	RANGE(delta_value_heads, 0, HEADS),
	RANGE(delta_key_dim, 0, WIDTH),
	RANGE(delta_value_dim, 0, WIDTH),
	RANGE(delta_conv, 0, 1024),
	RANGE(delta_rank, 0, WIDTH),
	RANGE(short_conv, 0, 1024),
	RANGE(rwkv_inner, 0, WIDTH),
	RANGE(rwkv, 0, 7),
	RANGE(rwkv_head, 0, WIDTH),
	RANGE(rwkv_ranks[0], 0, WIDTH),
	RANGE(rwkv_ranks[1], 0, WIDTH),
	RANGE(rwkv_ranks[2], 0, WIDTH),
	RANGE(rwkv_ranks[3], 0, WIDTH),
	RANGE(shared_sets, 0, LAYERS),
	RANGE(attention_inputs, 0, WIDTH),
	RANGE(use_mlp_rank, 0, WIDTH),
	RANGE(use_qkv_rank, 0, WIDTH),
	RANGE(image, 0, WIDTH),
	RANGE(patch, 0, WIDTH),
	RANGE(channels, 0, 4096),
	RANGE(patch_frames, 0, 64),
	RANGE(loose, 0, 1 << 28),
	RANGE(streams.count, 0, 64),
	RANGE(streams.low_rank, 0, WIDTH),
	RANGE(streams.inputs, 0, WIDTH),
	RANGE(streams.input_rows, 0, VOCAB),
	RANGE(relative_rows, 0, WIDTH),
	RANGE(decoder_context, 0, CONTEXT),
	RANGE(audio.channels, 0, WIDTH),
	RANGE(audio.convs, 0, LK_AUDIO_CONVS),
	RANGE(audio.position_kernel, 0, WIDTH),
	RANGE(audio.position_groups, 0, WIDTH),
	RANGE(dit.repeat[LK_DIT_REFINE], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_DUAL], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_DOUBLE], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_LAST], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_SINGLE], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_JOINT], 0, LAYERS),
	RANGE(dit.repeat[LK_DIT_CROSS], 0, LAYERS),
	RANGE(dit.step_width, 0, WIDTH),
	RANGE(dit.joint_modulation, 0, 64),
	RANGE(dit.image_width, 0, WIDTH),
	RANGE(dit.text_tokens, 0, VOCAB),
	RANGE(dit.text_width, 0, WIDTH),
	RANGE(dit.pooled_width, 0, WIDTH),
	RANGE(dit.patch_inputs, 0, WIDTH),
	RANGE(dit.patch_outputs, 0, WIDTH),
	RANGE(dit.text_norm, 0, WIDTH),
	RANGE(dit.frame_scale, 0, 64),
	RANGE(dit.height, 0, WIDTH),
	RANGE(dit.width, 0, WIDTH),
	RANGE(dit.frames, 0, WIDTH),
	RANGE(dit.scale, 0, WIDTH),
	RANGE(tower.layers, 0, LAYERS),
	RANGE(tower.hidden, 0, WIDTH),
	RANGE(tower.heads, 0, HEADS),
	RANGE(tower.images, 0, IMAGES),
	RANGE(tower.full_every, 0, LAYERS),
	RANGE(tower.tiles, 0, 1024),
	RANGE(tower.project.inputs, 0, WIDTH),
	RANGE(project.merge, 0, 1024),
	RANGE(project.width[0], 0, WIDTH),
	RANGE(project.width[1], 0, WIDTH),
	RANGE(project.width[2], 0, WIDTH),
	RANGE(project.norms, 0, FFN),
	RANGE(project.taps, 0, LAYERS),
	RANGE(project.tap_norms, 0, FFN),
	RANGE(project.loose, 0, FFN),
	RANGE(project.pool.width, 0, WIDTH),
	RANGE(project.pool.heads, 0, HEADS),
	RANGE(project.pool.inputs, 0, WIDTH),
	RANGE(project.pool.before, 0, WIDTH),
	RANGE(tower.project.pool.queries, 0, 1 << 20),
};

static lk_status network_check_ranges(const lk_model *model, const char *where, lk_error *err) {
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		const struct range *range = &ranges[i];
		int value = *(const int *)(const void *)((const char *)model + range->offset);
		if (value >= range->low && value <= range->high) continue;
		lk_fail(err, LK_ERR_INPUT, where, "%s is %d", range->name, value);
		return lk_hint(err, "give a number from %d to %d", range->low, range->high);
	}
	if (!(model->dropout >= 0 && model->dropout < 1)) {
		lk_fail(err, LK_ERR_INPUT, where, "dropout is %g", model->dropout);
		return lk_hint(err, "give a number from 0 to below 1");
	}
	return LK_OK;
}

static lk_status check_attention(const lk_model *model, const char *where, lk_error *err) {
	if (model->index_heads > 0 &&
	    (model->attention != LK_ATTN_MLA || model->index_dim == 0 || model->index_topk == 0)) {
		lk_fail(err, LK_ERR_INPUT, where, "an indexer of %d heads lacks a size or latent attention",
		        model->index_heads);
		return lk_hint(err, "state index_head_dim, index_topk and kv_lora_rank");
	}
	if (model->attention == LK_ATTN_MLA && model->output_gate) {
		lk_fail(err, LK_ERR_INPUT, where, "latent attention with an output gate is not modelled");
		return lk_hint(err, "leave the gate out");
	}
	if (model->attention == LK_ATTN_MLA) {
		if (model->kv_lora > 0 && model->v_dim > 0 && model->qk_nope + model->qk_rope > 0)
			return LK_OK;
		lk_fail(err, LK_ERR_INPUT, where, "latent attention lacks a size");
		return lk_hint(err,
		               "state kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim");
	}
	if (model->output_gate && (model->q_lora > 0 || lk_model_value_dim(model) != model->head_dim)) {
		lk_fail(err, LK_ERR_INPUT, where,
		        "an output gate with a low rank of queries, or with values of another size");
		return lk_hint(err, "leave the gate out");
	}
	if (model->window_kv_heads > 0 && model->heads % model->window_kv_heads != 0) {
		lk_fail(err, LK_ERR_INPUT, where,
		        "%d heads are not a multiple of %d key/value heads of layers with a window",
		        model->heads, model->window_kv_heads);
		return lk_hint(err, "correct one of them");
	}
	if (model->kv_heads <= model->heads && model->heads % model->kv_heads == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%d heads are not a multiple of %d key/value heads",
	        model->heads, model->kv_heads);
	return lk_hint(err, "correct num_attention_heads or num_key_value_heads");
}

static lk_status check_ssm(const lk_model *model, const char *where, lk_error *err) {
	bool first = model->ssm == 1 && model->ssm_rank > 0,
		 second = model->ssm == 2 && model->ssm_heads > 0 && model->ssm_groups > 0 &&
	              model->ssm_chunk > 0;
	if (!(first || second) || model->ssm_inner == 0 || model->ssm_state == 0) {
		lk_fail(err, LK_ERR_INPUT, where, "a Mamba layer lacks a size");
		return lk_hint(err, "state inner width, states, and heads, groups and chunk of Mamba-2 or "
		                    "the rank of Mamba-1's step size");
	}
	if (first ||
	    (model->ssm_inner % model->ssm_heads == 0 && model->ssm_heads % model->ssm_groups == 0))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where,
	        "a Mamba layer's width of %d does not divide into %d heads of %d %s", model->ssm_inner,
	        model->ssm_heads, model->ssm_groups, lk_noun(model->ssm_groups, "group", "groups"));
	return lk_hint(err, "heads must divide the width and be a multiple of groups");
}

static lk_status check_delta(const lk_model *model, const char *where, lk_error *err) {
	bool sized = model->delta_key_heads > 0 && model->delta_value_heads > 0 &&
	             model->delta_key_dim > 0 && model->delta_value_dim > 0;
	if (sized && model->delta_value_heads % model->delta_key_heads == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "a gated delta net has %d heads of keys and %d of values",
	        model->delta_key_heads, model->delta_value_heads);
	return lk_hint(err, "heads of values must be a multiple of heads of keys, and have sizes");
}

static lk_status check_rwkv(const lk_model *model, const char *where, lk_error *err) {
	bool heads =
		model->rwkv < 5 || (model->rwkv_head > 0 && model->rwkv_inner % model->rwkv_head == 0);
	if (model->rwkv_inner > 0 && !model->gated && heads) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where,
	        model->gated ? "RWKV with a gated MLP is not modelled"
	                     : "an RWKV layer lacks the width of its time mix");
	return lk_hint(err, "state attention_hidden_size, and an MLP of two matrices");
}

/* Windows, chunks and experts named by the order must have a size. */
static bool order_stands(const lk_model *model) {
	for (int i = 0; i < model->layers; i++)
		if (lk_model_layer(model, i).ffn == LK_FFN_EXPERTS && model->experts == 0) return false;
	if (strchr(model->order, 'x') && !model->tower.crossed) return false;
	return model->window > 0 || !strpbrk(model->order, "wc");
}

/* Most kinds of layers in a list: the builder keeps one block of each. */
enum { KINDS = 60 };

static bool few_kinds(const lk_model *model) {
	lk_layer kinds[KINDS];
	int count = 0;
	if (!lk_model_has_widths(model)) return true; /* layers differ in few other ways */
	for (int i = 0; i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		int k = 0;
		while (k < count && !lk_layer_same(&kinds[k], &layer)) k++;
		if (k < count) continue;
		if (count == KINDS) return false;
		kinds[count++] = layer;
	}
	return true;
}

static lk_status check_order(const lk_model *model, const char *where, lk_error *err) {
	char shown[64];
	int mixers = lk_model_mixers(model);
	if (!model->order[0]) return LK_OK;
	bool whole = memchr(model->order, '\0', sizeof model->order) != NULL;
	if (!whole || model->network == LK_NET_ENCDEC || !lk_model_order_valid(model) ||
	    !order_stands(model)) {
		lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not an order of this network's layers",
		        whole ? lk_escape(model->order, shown, sizeof shown) : "...");
		return lk_hint(err, "give items such as \"3GE *E\": a repeat and letters of *wcxMGLRS-E; "
		                    "windows and experts need their sizes");
	}
	if (!few_kinds(model)) {
		lk_fail(err, LK_ERR_INPUT, where, "layers of more than %d kinds", KINDS);
		return lk_hint(err, "networks of so many widths are not modelled");
	}
	if (mixers & LK_MIXER_SSM) LK_TRY(check_ssm(model, where, err));
	if (mixers & LK_MIXER_DELTA) LK_TRY(check_delta(model, where, err));
	if (mixers & LK_MIXER_RWKV) LK_TRY(check_rwkv(model, where, err));
	if ((mixers & LK_MIXER_CONV) && model->short_conv < 1) {
		lk_fail(err, LK_ERR_INPUT, where, "a short convolution lacks its width");
		return lk_hint(err, "state conv_L_cache");
	}
	return LK_OK;
}

static lk_status network_check_experts(const lk_model *model, const char *where, lk_error *err) {
	if (model->dense_layers > model->layers) {
		lk_fail(err, LK_ERR_INPUT, where, "%d dense layers of %d %s", model->dense_layers,
		        model->layers, lk_noun(model->layers, "layer", "layers"));
		return lk_hint(err, "correct first_k_dense_replace or the number of layers");
	}
	if (model->experts == 0) return LK_OK;
	if (model->topk < 1 || model->topk > model->experts) {
		lk_fail(err, LK_ERR_INPUT, where, "%d of %d %s per token", model->topk, model->experts,
		        lk_noun(model->experts, "expert", "experts"));
		return lk_hint(err, "set num_experts_per_tok from 1 to %d", model->experts);
	}
	if (model->expert_ffn > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "experts without a width");
	return lk_hint(err, "set moe_intermediate_size");
}

/* Check the blocks of each kind, and that a sample has tokens. */
static lk_status check_diffusion(const lk_model *model, const char *where, lk_error *err) {
	double blocks = 0;
	for (int i = 0; i < LK_DIT_BLOCKS; i++) blocks += model->dit.repeat[i];
	if (blocks != model->layers)
		return lk_fail(err, LK_ERR_INPUT, where, "%g %s of %d %s", blocks,
		               lk_noun(blocks, "block", "blocks"), model->layers,
		               lk_noun(model->layers, "layer", "layers"));
	double tokens = lk_dit_latent_tokens(&model->dit) + model->dit.text_tokens;
	if (tokens >= 1 && tokens <= CONTEXT && (double)model->heads * model->head_dim == model->hidden)
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "samples of %g tokens, %d heads of %d that are %d wide",
	        tokens, model->heads, model->head_dim, model->hidden);
	return lk_hint(err, "samples need tokens, and heads make up the hidden size");
}

static lk_status check_network(const lk_model *model, const char *where, lk_error *err) {
	if (model->network == LK_NET_CONV) return LK_OK; /* its reader has checked it */
	if (model->network == LK_NET_DIFFUSION) return check_diffusion(model, where, err);
	if (model->vocab == 0 && model->image == 0 && model->audio.convs == 0) {
		lk_fail(err, LK_ERR_INPUT, where, "vocab is 0");
		return lk_hint(err, "set vocab_size");
	}
	for (int i = 0; i < model->audio.convs; i++)
		if (model->audio.width[i] < 1 || model->audio.kernel[i] < 1 || model->audio.stride[i] < 1)
			return lk_fail(err, LK_ERR_INPUT, where, "convolution %d lacks a size", i);
	if (model->audio.position_kernel > 0 &&
	    (model->audio.position_groups < 1 || model->hidden % model->audio.position_groups != 0)) {
		lk_fail(err, LK_ERR_INPUT, where, "a hidden size of %d in %d %s of positions",
		        model->hidden, model->audio.position_groups,
		        lk_noun(model->audio.position_groups, "group", "groups"));
		return lk_hint(err, "groups must divide the hidden size");
	}
	if (model->image > 0 &&
	    (model->patch < 1 || model->patch > model->image || model->channels < 1)) {
		lk_fail(err, LK_ERR_INPUT, where, "an image of %d pixels has no patches of %d",
		        model->image, model->patch);
		return lk_hint(err, "correct image_size, patch_size or num_channels");
	}
	if ((model->network == LK_NET_ENCDEC) == (model->decoder_layers > 0)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%d decoder layers", model->decoder_layers);
	return lk_hint(err, "decoder layers are those of encoder-decoder networks, which need them");
}

/* The image encoder is a network like any other; its tokens have the language model's width. */
static lk_status check_tower(const lk_model *model, const char *where, lk_error *err) {
	lk_model tower;
	const lk_tower *stated = &model->tower;
	if (!lk_model_tower(model, &tower)) return LK_OK;
	if (stated->heads < 1 || stated->hidden % stated->heads != 0) {
		lk_fail(err, LK_ERR_INPUT, where, "%d heads of an encoder that is %d wide", stated->heads,
		        stated->hidden);
		return lk_hint(err, "heads must divide the width of vision_config");
	}
	const lk_pool *pool = &stated->project.pool;
	if (pool->width > 0 && (pool->heads < 1 || pool->inputs < 1)) {
		lk_fail(err, LK_ERR_INPUT, where, "attention that pools %d numbers of an image in %d heads",
		        pool->inputs, pool->heads);
		return lk_hint(err, "state its heads and what they read");
	}
	LK_TRY(lk_model_check(&tower, where, err));
	if (stated->images > 0 && lk_tower_tokens(stated) >= 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%d %s of %d pixels have no token", stated->images,
	        lk_noun(stated->images, "image", "images"), stated->image);
	return lk_hint(err, "an image needs patches and what its projector merges of them");
}

lk_status lk_model_check(const lk_model *model, const char *where, lk_error *err) {
	LK_ASSERT(where);
	LK_TRY(network_check_ranges(model, where, err));
	LK_TRY(check_tower(model, where, err));
	LK_TRY(check_attention(model, where, err));
	LK_TRY(network_check_experts(model, where, err));
	LK_TRY(check_network(model, where, err));
	LK_TRY(check_order(model, where, err));
	double params = lk_model_params(model);
	if (params < ldexp(1, 53)) return LK_OK; /* integers up to here are exact in a double */
	lk_fail(err, LK_ERR_INPUT, where, "the network has %.3g parameters", params);
	return lk_hint(err, "lockstep counts up to 9e15; correct a size");
}
