/* hf_unread.c: members of a config that no reader requested. Apart from the shape of a network a
 * config.json holds tokens, dropout, how to initialise, how to generate. What is left after those
 * could be a part of the network that is not understood. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "model/network/hf.h"

/* Patterns of names, as of file names, with blanks between them. */

/* Of layers that are not modelled: state spaces, linear attention, layers that differ from one
 * another, indexers of sparse attention. */
static const char unmodelled[] =
	"mamba* *_mamba_* ssm_* hybrid_* linear_attn* linear_*_dim linear_*_heads "
	"linear_num_* linear_key* linear_value* linear_conv* rwkv* block_configs "
	"layers_block_type attn_layer_* expert_layer_* layer_group_size index_topk "
	"index_head_dim index_n_heads cross_attention_layers num_mem_blocks "
	"moe_layer_start_index interleave_moe_layer_step attn_type_list "
	"full_attention_interval residual_moe altup_* laurel_*";

/* Bookkeeping of the library, tokens, numerics, initialisation, generation. */
static const char harmless[] =
	"_* *_version *token_id *token_ids *token_index *dropout* *_drop *pdrop *_eps "
	"*_epsilon *init* *_std *attn_implementation* *_aux* *_coef *loss* architectures "
	"auto_map torch_dtype dtype model_type name use_cache hidden_act hidden_activation "
	"activation_function hidden_activations act_fn pretraining_tp rope_scaling "
	"rope_parameters rope_theta rope_type rope_local* tie_* output_* return_* "
	"gradient_checkpointing scoring_func norm_topk_prob routed_scaling_factor seq_aux "
	"n_group topk_group topk_method ep_size quantization_config *_softcapping *_softcap "
	"query_pre_attn_scalar *_multiplier id2label label2id task_specific_params unsloth* "
	"problem_type torchscript use_bfloat16 pruned_heads is_* chunk_size_feed_forward "
	"temperature top_k top_p typical_p num_beams max_length min_length do_sample prefix "
	"summary_* scale_* embd_* attention_bias max_window_layers use_sliding_window "
	"cache_* model_max_length max_sequence_length seq_length "
	"original_max_position_embeddings";

static bool name_matches(const char *name, const char *patterns) {
	for (const char *at = patterns; *at;) {
		char pattern[64];
		size_t length = strcspn(at, " ");
		LK_ASSERT(length < sizeof pattern);
		snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
		if (fnmatch(pattern, name, 0) == 0) return true;
		at += length + (at[length] == ' ');
	}
	return false;
}

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
	LK_ASSERT(config->read && size >= 64);
	out[0] = '\0';
	for (size_t i = 0; i < object->count; i++) {
		const char *name = object->keys[i];
		bool found = name_matches(name, unmodelled) || (!surely && !name_matches(name, harmless));
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
