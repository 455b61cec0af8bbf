/* model.h: the shape of a network: what a HuggingFace config.json states, in one struct for all families. */
#ifndef LK_MODEL_MODEL_H
#define LK_MODEL_MODEL_H

#include <stdbool.h>
#include "base/arena.h"
#include "io/json.h"
#include "lockstep/error.h"
#include "model/network/convnet.h"

typedef enum lk_attention { LK_ATTN_HEADS /* MHA, GQA, MQA by kv_heads */, LK_ATTN_MLA } lk_attention;
typedef enum lk_norm { LK_NORM_RMS, LK_NORM_LAYER } lk_norm;
typedef enum lk_network {
	LK_NET_DECODER,  /* causal language model */
	LK_NET_ENCODER,  /* bert, vit: bidirectional */
	LK_NET_ENCDEC,   /* t5 */
	LK_NET_CONV,     /* resnet and relatives: blocks are layers, hidden is the last width */
} lk_network;

typedef struct lk_model {
	char name[64];         /* preset name, or model_type of the config */
	char family[32];       /* HF model_type: "llama", "qwen3_moe", ... */
	lk_network network;

	int layers;            /* of the decoder, or of the encoder where there is no decoder; ENCDEC: encoder layers */
	int decoder_layers;    /* ENCDEC only */
	int hidden, heads, kv_heads, head_dim, ffn, vocab;
	int context;           /* max positions stated by the config: the default sequence length; 0 unknown */

	lk_norm norm;
	int norms_per_layer;   /* norms over hidden in a layer: 2, 4 for gemma2/3, 1 for falcon-7b */
	bool qk_norm;          /* + a norm over head_dim for q and for k */
	bool embed_norm;       /* a norm behind the embedding: bloom, bert, phi? no */
	bool final_norm;
	bool qkv_bias, out_bias, mlp_bias; /* biases of q/k/v, of the attention output, of the MLP */
	bool norm_bias;        /* LayerNorm with bias; false for mpt */
	bool norm_plain;       /* norms without learned scale or bias: no parameters */
	bool head_bias;
	bool gated;            /* three MLP matrices instead of two */
	bool parallel_residual; /* attention and MLP read the same input */
	bool tied;             /* head shares the embedding */
	int position_rows;     /* learned positions (gpt2 1024, opt 2048 + 2, bert 512), else 0 */
	int token_types;       /* bert 2 */
	int embed_dim;         /* opt-350m projects; 0 = hidden */
	bool pooler;
	bool head_transform;   /* bert as Megatron-LM trains it: a dense layer and a norm before the head */
	bool lm_head;          /* false: backbone only, as bert and vit are counted */
	int relative_buckets;  /* t5: buckets * heads in the first layer of each stack */
	double dropout;        /* of hidden states; 0 in recent models */

	lk_attention attention;
	int q_lora, kv_lora, qk_nope, qk_rope, v_dim; /* MLA; q_lora 0: none */
	int attention_sinks;   /* learned logits per layer: gpt_oss has one per head; 0: none */

	int experts, topk, expert_ffn; /* 0: dense */
	int shared_ffn;        /* total width of the shared experts, 0: none */
	int dense_layers;      /* first layers that are dense */
	int moe_every;         /* one MoE layer in `moe_every`; 0 and 1 = all */
	int moe_offset;        /* layer i is one if i >= dense_layers and (i + moe_offset) % moe_every == 0; qwen 1, else 0 */
	bool shared_gate;      /* qwen2_moe: a learned gate (hidden -> 1) on the shared expert */
	bool router_bias;
	bool expert_bias;
	bool clipped_glu;      /* what the experts' gated activation takes is clipped first (gpt_oss: swiglu_limit) */

	int window;            /* sliding-window width, 0: none */
	int full_every;        /* one layer in `full_every`, the last of each group, attends fully (gemma3 6, gemma2 and
	                        * gpt_oss 2); 0: all windowed */
	int mtp_layers;        /* multi-token prediction modules, not counted in the parameters */

	int image, patch, channels; /* vit: pixels; tokens = (image/patch)^2 + 1. CONV: no patches */
	lk_convnet conv;       /* CONV only */
} lk_model;

/* Reads a config. `where` of errors is "file:line:column". Unknown model types with llama's keys are accepted and
 * `warning` (256 bytes, may be NULL) says so; it is "" where there is nothing to say. Nested text_config /
 * thinker_config are followed. The result has passed lk_model_check. */
enum { LK_MODEL_WARNING = 256 };
lk_status lk_model_from_hf(const lk_value *config, const char *file, lk_model *out, char *warning, lk_error *err);
/* The same from a path (a config.json, or a folder that holds one). */
lk_status lk_model_read(const char *path, lk_model *out, char *warning, lk_error *err);

/* Presets: "llama3.1-70b". Case, '-', '_' and blanks do not count (but between digits they do); an owner before '/' and
 * endings such as "-instruct" or "-hf" are dropped; the first words of one single name stand for it ("phi3-mini"). Other
 * names give an error with the nearest one. lk_model_preset_at parses all presets once; NULL out of range or when memory
 * is out. */
lk_status lk_model_preset(const char *name, lk_model *out, lk_error *err);
int lk_model_preset_count(void);
const lk_model *lk_model_preset_at(int index);

/* Refuses shapes that cannot be: zero or negative sizes, products that overflow, experts without top-k, ... */
lk_status lk_model_check(const lk_model *model, const char *where, lk_error *err);

/* Parameters of one layer. `layer` counts from 0 over encoder then decoder layers. */
typedef struct lk_layer_params {
	double attention;    /* projections, their biases, q/k norms, MLA's inner norms, cross-attention */
	double mlp;          /* dense MLP, or the shared experts of an MoE layer */
	double router;
	double experts;      /* all routed experts */
	double norms;
} lk_layer_params;

bool lk_model_is_moe(const lk_model *model, int layer);
/* Sliding-window width of a layer, 0 for full attention. */
int lk_model_window(const lk_model *model, int layer);
lk_layer_params lk_model_layer_params(const lk_model *model, int layer);
double lk_model_embedding_params(const lk_model *model); /* tokens, positions, types, patches, embedding norm */
double lk_model_head_params(const lk_model *model);      /* final norm, untied head, pooler */
double lk_model_params(const lk_model *model);           /* exact total, as HF counts it (MTP excluded) */
double lk_model_active_params(const lk_model *model);    /* per token: top-k experts only */

/* Floating-point operations of the model for one sequence of `seq` tokens, forward and backward, without recomputation:
 * 6 per matrix parameter and token plus attention scores, causal halved and windows honoured (Megatron-LM's formula:
 * num_floating_point_operations in megatron/training/training.py). The MFU's numerator. Modules of multi-token
 * prediction count as Megatron counts them. ENCDEC: both stacks see `seq` tokens. vit: `seq` is the context, patches and
 * the class token. */
double lk_model_flops(const lk_model *model, int seq);
/* The part of them that is the product over the vocabulary. */
double lk_model_head_flops(const lk_model *model, double seq);

#endif
