/* hf_unread.c: members of a config that no reader asked for. A config.json holds much besides the
 * shape of a network: tokens, dropout, how to start, how to generate. What is left after those
 * could be a part of the network that is not understood. */
#include <stdio.h>
#include <string.h>

#include "model/network/hf.h"

/* '*' stands for any text, at the beginning or the end. */
static bool name_is(const char *name, const char *pattern) {
	size_t length = strlen(pattern), all = strlen(name);
	bool any_begin = pattern[0] == '*', any_end = pattern[length - 1] == '*';
	const char *word = pattern + any_begin;
	size_t rest = length - any_begin - any_end;
	if (any_begin && any_end) {
		for (const char *at = name; *at; at++)
			if (strncmp(at, word, rest) == 0) return true;
		return false;
	}
	if (any_begin) return all >= rest && strncmp(name + all - rest, word, rest) == 0;
	return strncmp(name, word, rest) == 0 && (any_end || all == rest);
}

static bool name_among(const char *name, const char *const *patterns) {
	for (; *patterns; patterns++)
		if (name_is(name, *patterns)) return true;
	return false;
}

/* Of layers that are not modelled: state spaces, linear attention, layers that differ from one
 * another, indexers of sparse attention. */
static const char *const unmodelled[] = {"mamba*",
                                         "*_mamba_*",
                                         "ssm_*",
                                         "hybrid_*",
                                         "linear_attn*",
                                         "linear_*_dim",
                                         "linear_*_heads",
                                         "linear_num_*",
                                         "linear_key*",
                                         "linear_value*",
                                         "linear_conv*",
                                         "rwkv*",
                                         "block_configs",
                                         "layers_block_type",
                                         "attn_layer_*",
                                         "expert_layer_*",
                                         "layer_group_size",
                                         "index_topk",
                                         "index_head_dim",
                                         "index_n_heads",
                                         "cross_attention_layers",
                                         "num_mem_blocks",
                                         "moe_layer_start_index",
                                         "interleave_moe_layer_step",
                                         "attn_type_list",
                                         "full_attention_interval",
                                         "residual_moe",
                                         "altup_*",
                                         "laurel_*",
                                         NULL};

/* Bookkeeping of the library, tokens, numerics, start, generation. */
static const char *const harmless[] = {"_*",
                                       "*_version",
                                       "*token_id",
                                       "*token_ids",
                                       "*token_index",
                                       "*dropout*",
                                       "*_drop",
                                       "*pdrop",
                                       "*_eps",
                                       "*_epsilon",
                                       "*init*",
                                       "*_std",
                                       "*attn_implementation*",
                                       "*_aux*",
                                       "*_coef",
                                       "*loss*",
                                       "architectures",
                                       "auto_map",
                                       "torch_dtype",
                                       "dtype",
                                       "model_type",
                                       "name",
                                       "use_cache",
                                       "hidden_act",
                                       "hidden_activation",
                                       "activation_function",
                                       "hidden_activations",
                                       "act_fn",
                                       "pretraining_tp",
                                       "rope_scaling",
                                       "rope_parameters",
                                       "rope_theta",
                                       "rope_type",
                                       "rope_local*",
                                       "tie_*",
                                       "output_*",
                                       "return_*",
                                       "gradient_checkpointing",
                                       "scoring_func",
                                       "norm_topk_prob",
                                       "routed_scaling_factor",
                                       "seq_aux",
                                       "n_group",
                                       "topk_group",
                                       "topk_method",
                                       "ep_size",
                                       "quantization_config",
                                       "*_softcapping",
                                       "*_softcap",
                                       "query_pre_attn_scalar",
                                       "*_multiplier",
                                       "id2label",
                                       "label2id",
                                       "task_specific_params",
                                       "unsloth*",
                                       "problem_type",
                                       "torchscript",
                                       "use_bfloat16",
                                       "pruned_heads",
                                       "is_*",
                                       "chunk_size_feed_forward",
                                       "temperature",
                                       "top_k",
                                       "top_p",
                                       "typical_p",
                                       "num_beams",
                                       "max_length",
                                       "min_length",
                                       "do_sample",
                                       "prefix",
                                       "summary_*",
                                       "scale_*",
                                       "embd_*",
                                       "attention_bias",
                                       "max_window_layers",
                                       "use_sliding_window",
                                       "cache_*",
                                       "model_max_length",
                                       "max_sequence_length",
                                       "seq_length",
                                       "original_max_position_embeddings",
                                       NULL};

static bool is_off(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_NULL:
	case LK_JSON_FALSE: return true;
	case LK_JSON_NUMBER: return value->number == 0;
	case LK_JSON_ARRAY:
	case LK_JSON_OBJECT: return value->count == 0;
	default: return false;
	}
}

const lk_value *lk_hf_unread(const lk_hf_config *config, bool surely, char *out, size_t size) {
	const lk_value *object = config->language, *first = NULL;
	size_t used = 0, more = 0;
	out[0] = '\0';
	for (size_t i = 0; i < object->count; i++) {
		const char *name = object->keys[i];
		bool found = name_among(name, unmodelled) || (!surely && !name_among(name, harmless));
		if (!found || config->read[i] || is_off(&object->items[i])) continue;
		if (!first) first = &object->items[i];
		size_t length = strlen(name);
		if (used + length + 24 < size)
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
		else more++;
	}
	if (more) snprintf(out + used, size - used, "%s%zu more", used ? " and " : "", more);
	return first;
}
