/* check.c: refuses shapes that cannot be. What passes has positive sizes within limits far above
 * any network's, heads that divide, experts that can be chosen, and a parameter count that a double
 * holds exactly. */
#include <math.h>
#include <stddef.h>

#include "model/network/model.h"

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
	RANGE(image, 0, WIDTH),
	RANGE(patch, 0, WIDTH),
	RANGE(channels, 0, 4096),
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
	if (model->attention == LK_ATTN_MLA) {
		if (model->kv_lora > 0 && model->v_dim > 0 && model->qk_nope + model->qk_rope > 0)
			return LK_OK;
		lk_fail(err, LK_ERR_INPUT, where, "latent attention lacks a size");
		return lk_hint(err,
		               "state kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim");
	}
	if (model->kv_heads <= model->heads && model->heads % model->kv_heads == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%d heads are not a multiple of %d key/value heads",
	        model->heads, model->kv_heads);
	return lk_hint(err, "correct num_attention_heads or num_key_value_heads");
}

static lk_status network_check_experts(const lk_model *model, const char *where, lk_error *err) {
	if (model->dense_layers > model->layers) {
		lk_fail(err, LK_ERR_INPUT, where, "%d dense layers of %d layers", model->dense_layers,
		        model->layers);
		return lk_hint(err, "correct first_k_dense_replace or the number of layers");
	}
	if (model->experts == 0) return LK_OK;
	if (model->topk < 1 || model->topk > model->experts) {
		lk_fail(err, LK_ERR_INPUT, where, "%d of %d experts per token", model->topk,
		        model->experts);
		return lk_hint(err, "set num_experts_per_tok from 1 to %d", model->experts);
	}
	if (model->expert_ffn > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "experts without a width");
	return lk_hint(err, "set moe_intermediate_size");
}

static lk_status check_network(const lk_model *model, const char *where, lk_error *err) {
	if (model->network == LK_NET_CONV) return LK_OK; /* its reader has looked */
	if (model->vocab == 0 && model->image == 0) {
		lk_fail(err, LK_ERR_INPUT, where, "vocab is 0");
		return lk_hint(err, "set vocab_size");
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

lk_status lk_model_check(const lk_model *model, const char *where, lk_error *err) {
	LK_TRY(network_check_ranges(model, where, err));
	LK_TRY(check_attention(model, where, err));
	LK_TRY(network_check_experts(model, where, err));
	LK_TRY(check_network(model, where, err));
	double params = lk_model_params(model);
	if (params < ldexp(1, 53)) return LK_OK; /* whole numbers up to here are exact in a double */
	lk_fail(err, LK_ERR_INPUT, where, "the network has %.3g parameters", params);
	return lk_hint(err, "lockstep counts up to 9e15; correct a size");
}
