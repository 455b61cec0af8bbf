/* model.h: the shape of a network in one struct for all families. */
#ifndef LK_MODEL_NETWORK_MODEL_H
#define LK_MODEL_NETWORK_MODEL_H

#include <stdbool.h>

#include "lockstep/error.h"
#include "model/network/convnet.h"
#include "model/network/diffusion.h"
#include "model/network/tower.h"

typedef enum lk_attention {
	LK_ATTN_HEADS, /* MHA, GQA, MQA by kv_heads */
	LK_ATTN_MLA
} lk_attention;
/* ---- layers: a network is an ordered list of layers. A layer consists of mixers, which read other
 * tokens, and a feed-forward, which does not; each half has its own norms and adds to the residual
 * stream. */

/* Mixers of one layer read the same input, and their outputs are added (Falcon-H1). */
typedef enum lk_mixer {
	LK_MIXER_ATTENTION = 1 << 0, /* of the network's kind, lk_attention */
	LK_MIXER_SSM = 1 << 1,       /* state space: Mamba of the network's version */
	LK_MIXER_DELTA = 1 << 2,     /* gated delta net (arXiv 2412.06464) */
	LK_MIXER_LIGHTNING = 1 << 3, /* linear attention with decay (arXiv 2501.08313) */
	LK_MIXER_RWKV = 1 << 4,      /* RWKV's time mix (mixer_rwkv.c) */
	LK_MIXER_CONV = 1 << 5,      /* gated short convolution (mixer_conv.c) */
	LK_MIXERS_END = 1 << 6,
} lk_mixer;
typedef enum lk_ffn { LK_FFN_NONE, LK_FFN_DENSE, LK_FFN_EXPERTS } lk_ffn;
typedef struct lk_layer {
	int mixers, ffn;  /* a set of lk_mixer; lk_ffn */
	int width;        /* width of a dense feed-forward; 0: the network's */
	int window;       /* of attention, in tokens; 0: all */
	bool chunked;     /* the window is a chunk: tokens attend only within their chunk */
	bool causal;      /* tokens attend only to earlier ones */
	bool across;      /* keys and values come from an image's tokens instead of the sequence's */
	lk_dit_block dit; /* of a diffusion transformer: the block, which has its own mixers and
	                     feed-forwards */
} lk_layer;

typedef enum lk_norm { LK_NORM_RMS, LK_NORM_LAYER } lk_norm;
/* How the published code computes an MLP's activation. */
typedef enum lk_activation {
	LK_ACT_KERNEL, /* one operation: GELU, SiLU */
	LK_ACT_RELU,   /* one operation whose gradient needs only its result */
	LK_ACT_STEPS,  /* GELU written out with a power and a tanh: "gelu_new" */
} lk_activation;
typedef enum lk_network {
	LK_NET_DECODER,   /* causal language model */
	LK_NET_ENCODER,   /* bert, vit: bidirectional */
	LK_NET_ENCDEC,    /* t5 */
	LK_NET_CONV,      /* resnet and relatives: blocks are layers, hidden is the last width */
	LK_NET_DIFFUSION, /* flux, sd3, wan, hunyuan-video: blocks of lk_diffusion are layers */
} lk_network;

enum {
	LK_MODEL_ORDER = 640,
	LK_IMAGE_PIXELS = 448 /* side, if a config accepts images of any size */
};

/* ---- streams: Gemma 3n (arXiv 2301.13310, 2411.07501): streams in addition to the residual one;
 * each layer predicts them from one another and corrects them. */
typedef struct lk_streams {
	int count;      /* 0: one, the common case */
	int low_rank;   /* of a product added to attention */
	int inputs;     /* values per token that each layer reads from its own table */
	int input_rows; /* of those tables */
} lk_streams;

typedef struct lk_model {
	char name[64];   /* preset name, or model_type of the config */
	char family[32]; /* HF model_type: "llama", "qwen3_moe", ... */
	lk_network network;

	int layers;         /* of the decoder, or of the encoder if there is no decoder; ENCDEC: encoder
	                       layers */
	int decoder_layers; /* ENCDEC only */
	int decoder_context; /* ENCDEC: tokens of the decoder if they differ from the encoder's; 0:
	                        equal */
	/* The list of layers, as repeats and kinds: "3GE *E", "M- ME *- ME". Letters of mixers: * full
	 * attention, w and c attention within `window`, sliding or in chunks, x attention to the tokens
	 * of an image (tower.crossed), M Mamba, G gated delta net, L lightning attention, R RWKV,
	 * S short convolution; of feed-forwards: - dense, with its own width if a number follows
	 * ("*-512"), E experts. It repeats until all layers are named. "": the fields below
	 * (dense_layers, moe_every, moe_offset, window, full_every) state it. Only lk_model_layer reads
	 * it. */
	char order[LK_MODEL_ORDER];
	int hidden, heads, kv_heads, head_dim, ffn, vocab;
	int context; /* max positions stated by the config: the default sequence length; 0 unknown */

	lk_norm norm;
	int norms_per_layer; /* norms over hidden in a layer: 2, 4 for gemma2/3, 1 for falcon-7b */
	bool qk_norm;        /* + a norm over head_dim for q and for k */
	bool qk_norm_wide;   /* with a scale for each head, no bias: olmo2, cohere, stablelm */
	bool embed_norm;     /* a norm after the embedding: bloom, bert */
	bool final_norm;
	bool qkv_joined; /* the published code has one matrix for queries, keys and values */
	bool qkv_bias, out_bias, mlp_bias; /* biases of q/k/v, of the attention output, of the MLP */
	bool key_plain;                    /* keys have no bias; queries and values may */
	bool norm_bias;                    /* LayerNorm with bias; false for mpt */
	bool norm_plain;                   /* norms without learned scale or bias: no parameters */
	bool head_bias;
	bool gated; /* three MLP matrices instead of two */
	lk_activation activation;
	bool parallel_residual; /* attention and MLP read the same input */
	bool tied;              /* head shares the embedding */
	int position_rows;      /* learned positions (gpt2 1024, opt 2048 + 2, bert 512), else 0 */
	bool position_setting;  /* the training length sets their number: mpt's max_seq_len */
	double rotary_base;     /* of rotary positions (rope_theta); 0: none */
	int token_types;        /* bert 2 */
	int embed_dim;          /* opt-350m projects; 0 = hidden */
	bool pooler;
	bool head_transform;  /* bert in Megatron-LM's training: a dense layer and a norm before the
	                       * head */
	bool lm_head;         /* false: only the backbone, as bert and vit are counted */
	int relative_rows;    /* deberta: positions between tokens, one row each, which all layers
	                         project to keys and queries; a norm over them; 0: none */
	int relative_buckets; /* t5: buckets * heads in the first layer of each stack */
	bool relative_all;    /* umt5: in every layer */
	double dropout;       /* of hidden states; 0 in recent models */

	lk_attention attention;
	int q_lora, kv_lora, qk_nope, qk_rope, v_dim; /* MLA; q_lora 0: none. Also for heads: low-rank
	                                                 queries with a norm (Step-3), values of another
	                                                 size than keys (MiMo-V2); v_dim 0: equal */
	int window_kv_heads; /* key/value heads of layers with a window; 0: as in all */
	int attention_sinks; /* learned logits per layer: gpt_oss has one per head; 0: none */
	bool window_sinks;   /* only in layers with a window */
	bool no_positions;   /* attention without positions of any kind: hybrids leave order to Mamba */
	bool output_gate;    /* attention's output is multiplied by an element-wise gate from the
	                      * layer's input */
	int index_heads, index_dim, index_topk; /* DSA, in addition to MLA: the indexer's heads, their
	                                           size, keys per query; 0: none */

	/* Mamba: version 1 or 2 (0: none), inner width, states, heads and groups (2), width of the
	 * convolution, rank of the step size (1), tokens of a chunk (2). */
	int ssm, ssm_inner, ssm_state, ssm_heads, ssm_groups, ssm_conv, ssm_rank, ssm_chunk;
	bool ssm_bias, ssm_conv_bias; /* of both projections; of the convolution */
	bool ssm_norm; /* 2: the gated norm of the output; 1: norms of step size and states (Jamba) */
	/* Gated delta net: heads of keys and of values, their sizes, width of the convolution. */
	int delta_key_heads, delta_value_heads, delta_key_dim, delta_value_dim, delta_conv;
	/* Kimi delta attention (arXiv 2510.26692): low rank of the decay, one value per key channel,
	 * and of the output gate; 0: one decay per head, and a gate in the first product. */
	int delta_rank;
	int short_conv; /* gated short convolution: its width */
	/* Number of weight sets that attention layers share in turns (ALBERT, Zamba2); the first layers
	 * hold one each; 0: each layer has its own. */
	int shared_sets;
	/* Zamba2 (arXiv 2411.15242): width of attention's input, the hidden state and the embedded
	 * token; 0: only the hidden state. Each use of a set has its own product of the output, and
	 * low-rank pairs parallel to the products into the MLP and into attention. */
	int attention_inputs, use_mlp_rank, use_qkv_rank;
	bool use_product;
	/* RWKV: width of the time mix, 0: none; its MLPs are channel mixes. Version, 0: 4; size of a
	 * head, from 5 on; low ranks: 6: of mixes and of decay; 7: of decay, rate, value and gate. */
	int rwkv_inner, rwkv, rwkv_head, rwkv_ranks[4];

	int experts, topk, expert_ffn; /* 0: dense */
	int shared_ffn;                /* total width of the shared experts, 0: none */
	int dense_layers;              /* number of leading dense layers */
	int moe_every;                 /* one MoE layer in `moe_every`; 0 and 1: all */
	int moe_offset;    /* layer i is MoE if i >= dense_layers and (i + moe_offset) % moe_every == 0;
	                      qwen 1, else 0 */
	int expert_latent; /* width at which routed experts work, between two projections; 0: hidden */
	/* Number of expert groups, and how many of them a token's experts come from; 0: all. */
	int router_groups, router_group_limit;
	bool shared_gate; /* qwen2_moe: a learned gate (hidden -> 1) on the shared expert */
	bool router_bias;
	bool expert_bias;
	bool clipped_glu; /* the input of the experts' gated activation is clipped first (gpt_oss:
	                     swiglu_limit) */

	int window;     /* sliding-window width, 0: none */
	int full_every; /* one layer in `full_every`, the last of each group, attends fully (gemma3 6,
	                 * gemma2 and gpt_oss 2); 0: all windowed */
	int mtp_layers; /* multi-token prediction modules, not counted in the parameters */

	int image, patch, channels; /* vit: pixels; tokens = (image/patch)^2 + 1. CONV: no patches */
	int patch_frames;           /* video frames per patch; 0: 1 */
	bool patch_plain;           /* patches without a bias */
	bool no_class;              /* no class token: tokens = (image/patch)^2 */
	bool distills;              /* DeiT: a second token in addition to the class token */
	int tiles;                  /* tiles per image, with as many tokens each; 0: 1 */
	bool layer_scale;           /* a factor per element of what a half of a layer adds */
	int loose;                  /* parameters that no operation of a step reads: mask tokens */
	lk_projector project;       /* of a tower, after its last norm */
	lk_convnet conv;            /* CONV only */
	lk_diffusion dit;           /* DIFFUSION only */
	lk_audio audio;
	lk_tower tower;
	lk_streams streams;
	double beside; /* parameters of the published network's parts that no step runs (audio encoders,
	                  speech generators): counted only in the total */
} lk_model;

/* Values that a convolution reads per frame; frames of its output, if the last gives `tokens`;
 * parameters of all, multiply-adds for `tokens` tokens: 0 for networks without audio. */
double lk_audio_inputs(const lk_audio *audio, int conv);
double lk_audio_frames(const lk_audio *audio, int conv, double tokens);
double lk_audio_params(const lk_model *model);
double lk_audio_macs(const lk_model *model, double tokens);

/* The image encoder as a network of its own; false without one. */
bool lk_model_tower(const lk_model *model, lk_model *out);
/* Input width of the patch product; of a projector's first product. */
double lk_model_patch_inputs(const lk_model *model);
double lk_model_projector_inputs(const lk_model *model);
/* Parameters of a projector's products, including attention, without norms and tables;
 * multiply-adds per image. */
double lk_model_projector_products(const lk_model *model);
double lk_model_projector_macs(const lk_model *model);
/* Pooling attention: tokens of an image whose keys it reads, keys per query, and input width of
 * keys and values. */
double lk_model_pool_tokens(const lk_model *model);
double lk_model_pool_keys(const lk_model *model);
double lk_model_pool_reads(const lk_model *model);
/* Tokens of an image, class token included; 0 for a network without images. */
double lk_model_image_tokens(const lk_model *model);
/* Tokens that cross-attending layers read: those of all images of a sequence. */
double lk_model_crossed_tokens(const lk_model *model);
/* Tokens of an image after its projector; of a tower's images in the language model's sequence. */
double lk_model_projected_tokens(const lk_model *model);
double lk_tower_tokens(const lk_tower *tower);

/* Refuse impossible shapes: zero or negative sizes, products that overflow, experts without top-k,
 * ... */
lk_status lk_model_check(const lk_model *model, const char *where, lk_error *err);

/* A layer's description. `layer` counts from 0 over encoder then decoder layers; all zero out of
 * range. */
lk_layer lk_model_layer(const lk_model *model, int layer);
/* Whether a layer reuses the weights of an earlier one. */
bool lk_model_reuses(const lk_model *model, int layer);
/* RWKV: mixes of a token with the one before in the time mix; products of them. */
static inline int lk_rwkv_mixes(const lk_model *model) {
	static const int mixes[] = {[5] = 4, [6] = 5, [7] = 6};
	return model->rwkv < 5 ? 3 : mixes[model->rwkv];
}
static inline int lk_rwkv_inputs(const lk_model *model) {
	return model->rwkv == 5 || model->rwkv == 6 ? 4 : 3;
}
/* Size of a head's values; key/value heads of a layer, with or without a window; columns of both
 * per token. */
static inline int lk_model_value_dim(const lk_model *model) {
	return model->v_dim > 0 ? model->v_dim : model->head_dim;
}
static inline double lk_model_kv_heads(const lk_model *model, int window) {
	return window > 0 && model->window_kv_heads > 0 ? model->window_kv_heads : model->kv_heads;
}
/* Width of attention's input per token. */
static inline int lk_model_attention_inputs(const lk_model *model) {
	return model->attention_inputs > 0 ? model->attention_inputs : model->hidden;
}
bool lk_layer_same(const lk_layer *a, const lk_layer *b);
/* Whether the order states widths of feed-forwards. */
bool lk_model_has_widths(const lk_model *model);
/* The width of a layer's dense feed-forward. */
static inline int lk_layer_ffn(const lk_model *model, const lk_layer *layer) {
	return layer->width > 0 ? layer->width : model->ffn;
}
/* Whether a layer has the parameters and operations of the one before it, so that sums can reuse
 * them. For a convolution net's units the caller decides. */
bool lk_layer_repeats(const lk_model *model, int layer);
/* Set of mixers in any layer; whether any layer has this feed-forward. */
int lk_model_mixers(const lk_model *model);
bool lk_model_has_ffn(const lk_model *model, lk_ffn ffn);
/* Write the order of layers from a list: equal neighbours become one item, a repeating sequence is
 * written once. False if it does not fit. */
bool lk_model_set_order(lk_model *model, const lk_layer *layers, int count);

/* Parameters of a linear layer. */
static inline double lk_linear_params(double in, double out, bool bias) {
	return in * out + (bias ? out : 0);
}

/* Parameters of one layer. */
typedef struct lk_layer_params {
	double attention; /* all mixers: projections, their biases, inner norms, cross-attention */
	double mlp;       /* dense MLP, or the shared experts of an MoE layer */
	double router;
	double experts; /* all routed experts */
	double norms;
} lk_layer_params;

/* Weight matrices of a layer, y[out] = W[out, in] x[in], equal ones grouped. */
typedef enum lk_cut {
	LK_CUT_NONE, /* whole on every tensor-parallel rank */
	LK_CUT_OUT,  /* each rank has a share of the outputs (column-parallel) */
	LK_CUT_IN    /* a share of the inputs (row-parallel) */
} lk_cut;
typedef struct lk_matrix {
	double out, in, count;
	lk_cut cut;
	bool expert; /* of a routed expert; `count` counts all of them */
	bool bundle; /* several projections of different kinds in one: Mamba's and delta nets' input */
} lk_matrix;
enum {
	LK_LAYER_MATRICES = 32 /* most kinds of matrices in a layer */
};
typedef struct lk_matrices {
	lk_matrix at[LK_LAYER_MATRICES];
	int count;
} lk_matrices;
/* A layer's recurrences (state space, delta nets, linear attention) in generation; zero for
 * attention. `state`: values kept per sequence; `core`: multiply-adds per token in addition to the
 * matrices. RWKV's state is not counted. */
typedef struct lk_recurrence {
	lk_matrices matrices;
	double state, core;
} lk_recurrence;
lk_recurrence lk_model_recurrence(const lk_model *model, int layer);
/* List a layer's matrices; empty for a convolution net. `joined`: the gate and the input of an MLP
 * are one matrix, as in Megatron-LM. */
void lk_model_matrices(const lk_model *model, int layer, bool joined, lk_matrices *out);

bool lk_model_is_moe(const lk_model *model, int layer);
/* Sliding-window width of a layer, 0 for full attention. */
int lk_model_window(const lk_model *model, int layer);
lk_layer_params lk_model_layer_params(const lk_model *model, int layer);
double lk_model_embedding_params(
	const lk_model *model); /* tokens, positions, types, patches, embedding norm; the tower */
double lk_model_tower_params(const lk_model *model); /* the tower's part */
double lk_model_head_params(
	const lk_model *model); /* final norm, untied head, pooler; a tower's projector */
/* The unit of a batch: "image", "video", "pair" of image and text, "clip" of sound or "sequence";
 * whether speeds are reported in its tokens. */
static inline const char *lk_model_unit(const lk_model *model) {
	if (model->network == LK_NET_DIFFUSION) return model->dit.video ? "video" : "image";
	if (model->tower.apart) return "pair";
	if (model->audio.convs > 0) return "clip";
	return model->network == LK_NET_CONV ? "image" : "sequence";
}
static inline bool lk_model_in_tokens(const lk_model *model) {
	return model->vocab > 0 && !model->tower.apart && model->audio.convs == 0;
}
double lk_model_params(const lk_model *model); /* exact total, as HF counts it (MTP excluded) */
double lk_model_active_params(const lk_model *model); /* per token: top-k experts only */

/* Floating-point operations of the model for one sequence of `seq` tokens, forward and backward,
 * without recomputation: 6 per matrix parameter and token plus attention scores, causal halved and
 * windows honoured (Megatron-LM's formula: num_floating_point_operations in
 * megatron/training/training.py). The numerator of MFU. Multi-token prediction modules count as in
 * Megatron. ENCDEC: both stacks see `seq` tokens, unless decoder_context is set. vit: `seq` is the
 * context, patches and the class token. DIFFUSION: `seq` is the tokens of latents and of the
 * text. */
double lk_model_flops(const lk_model *model, int seq);
/* The parts of lk_model_flops of the tower's encoder and of its projector. */
double lk_model_tower_flops(const lk_model *model);
double lk_model_projector_flops(const lk_model *model);
/* Multiply-adds, once forward, of the entry that turns a sequence's pixels or sound into vectors;
 * *first: those of the product that reads the input itself, whose gradient is not needed. */
double lk_model_entry_macs(const lk_model *model, double seq, double *first);
/* The part of lk_model_flops of the product over the vocabulary. */
double lk_model_head_flops(const lk_model *model, double seq);

#endif
