/* model.h: the shape of a network, as stated by a HuggingFace config.json, in one struct for all
 * families. */
#ifndef LK_MODEL_NETWORK_MODEL_H
#define LK_MODEL_NETWORK_MODEL_H

#include <stdbool.h>

#include "io/json.h"
#include "lockstep/error.h"

/* ---- convnet: convolution nets for images: a stem, stages of equal blocks, a classifier. ResNet,
 * ResNeXt, VGG, AlexNet, MobileNetV2, EfficientNet, ShuffleNetV2 and SqueezeNet are such lists.
 *
 *     {"model_type": "convnet", "image_size": 224,
 *      "stem": {"kernel": 7, "stride": 2, "width": 64, "pool": true},
 *      "stages": [{"block": "bottleneck", "repeat": 3, "width": 256, "inner": 64}, ...],
 *      "num_classes": 1000}
 *
 * A block is a layer of lk_model; the first block of a stage may halve the image and change the
 * width. */

enum {
	LK_CONV_STAGES = 24,
	LK_CONV_KINDS = 3 * LK_CONV_STAGES,
	LK_CONV_IN_BLOCK = 5,
	LK_CONV_DENSE = 2
};

typedef enum lk_conv_block {
	LK_CONV_PLAIN,      /* one convolution: VGG, AlexNet */
	LK_CONV_BASIC,      /* two 3 x 3 and the residual: ResNet-18, -34 (arXiv 1512.03385) */
	LK_CONV_BOTTLENECK, /* 1 x 1, 3 x 3, 1 x 1 and the residual: ResNet-50 and deeper; with groups
	                       ResNeXt (arXiv 1611.05431) */
	LK_CONV_INVERTED,   /* 1 x 1 wider, depthwise, 1 x 1 narrower: MobileNetV2, EfficientNet (arXiv
	                       1801.04381, 1905.11946) */
	LK_CONV_SHUFFLE,    /* half of the channels: 1 x 1, depthwise, 1 x 1; joined and shuffled:
	                       ShuffleNetV2 (arXiv 1807.11164) */
	LK_CONV_FIRE,       /* 1 x 1 narrower, then 1 x 1 and 3 x 3 in parallel: SqueezeNet (arXiv
	                       1602.07360) */
	LK_CONV_WINDOW,     /* attention within windows, an MLP of `inner` channels; 2 x 2 pixels are
	                       merged before the first of a stage: Swin (arXiv 2103.14030). Only from
	                       Hugging Face's configs, as is the next */
	LK_CONV_NEXT, /* depthwise, 1 x 1 wider, 1 x 1 narrower, with layer norms: ConvNeXt and its
	                 second version (arXiv 2201.03545, 2301.00808) */
} lk_conv_block;

typedef struct lk_conv_stage {
	int block;         /* lk_conv_block */
	int repeat, width; /* blocks; output channels */
	int inner;         /* BOTTLENECK, FIRE, WINDOW, NEXT: channels within */
	int heads, window; /* WINDOW: of attention; side in pixels */
	int expand;        /* INVERTED: inner channels over input channels */
	int kernel, stride, groups;
	int squeeze; /* squeeze-and-excitation: the block's channels over those of its waist; 0: none
	                (arXiv 1709.01507) */
	bool layer_scale, response_norm; /* NEXT: the output is scaled by channel; the wide channels are
	                                    normed by their response in the image (GRN) */
	bool pool;                       /* max pooling halves the image after the last block */
} lk_conv_stage;

typedef struct lk_convnet {
	int stem_kernel, stem_stride, stem_width;
	bool stem_pool;
	bool norm; /* batch norms; otherwise biases */
	int stages;
	lk_conv_stage stage[LK_CONV_STAGES];
	int top;                               /* channels of a last 1 x 1 convolution; 0: none */
	int dense_count, dense[LK_CONV_DENSE]; /* fully connected layers before the classifier */
	int pool_side;                         /* side in pixels of the classifier's input */
	int classes;
	bool class_maps; /* the classifier is a 1 x 1 convolution, its maps are averaged: SqueezeNet */
} lk_convnet;

struct lk_model;

/* A convolution of a block and the operations after it. */
typedef struct lk_conv {
	double in, out, kernel, groups; /* channels, window */
	double side_in, side_out;       /* pixels */
	bool active;                    /* an activation after it */
	bool layer_norm;                /* a layer norm of its input channels */
	bool plain;                     /* without a bias */
} lk_conv;

/* A layer as computed. */
typedef struct lk_conv_unit {
	lk_conv conv[LK_CONV_IN_BLOCK];
	int count;
	bool shortcut; /* the last convolution is the residual's */
	bool residual;
	double scale;               /* scaled output channels; 0: none */
	double response;            /* wide channels with a response norm; 0: none */
	double squeeze_in, squeeze; /* channels of squeeze-and-excitation and of its waist; 0: none */
	double heads, window; /* attention in windows of this many pixels per side, after the second to
	                         last four convolutions: queries, keys and values; output; MLP. 0:
	                         none */
	bool pool;
	double copies;      /* passes over the output that join branches and shuffle channels */
	double width, side; /* of the output */
	int kind;           /* layers of one kind are equal: 0 to LK_CONV_KINDS - 1 */
} lk_conv_unit;

/* A layer by number; the stem's convolution; that of the top (out 0: none). */
lk_conv_unit lk_convnet_unit(const struct lk_model *model, int layer);
lk_conv lk_convnet_stem(const struct lk_model *model);
lk_conv lk_convnet_top(const struct lk_model *model);
/* Inputs of the classifier's first fully connected layer. */
double lk_convnet_features(const struct lk_model *model);

/* Parameters; number of their tensors. */
double lk_convnet_unit_tensors(const struct lk_model *model, const lk_conv_unit *unit);
double lk_convnet_stem_tensors(const struct lk_model *model);
double lk_convnet_head_tensors(const struct lk_model *model);
double lk_convnet_conv_params(const struct lk_model *model, const lk_conv *conv);
double lk_convnet_norm_params(const struct lk_model *model, const lk_conv *conv);
double lk_convnet_unit_matrices(const struct lk_model *model, const lk_conv_unit *unit);
double lk_convnet_unit_norms(const struct lk_model *model, const lk_conv_unit *unit);
double lk_convnet_stem_params(const struct lk_model *model);
double lk_convnet_head_params(const struct lk_model *model);
/* Multiply-adds of an image, forward. */
double lk_convnet_macs(const struct lk_model *model);
/* Those of the convolution that reads the image. */
double lk_convnet_stem_macs(const struct lk_model *model);

/* ---- diffusion transformers (arXiv 2212.09748): they denoise latents; a token is a patch of
 * latents. Text conditions them; per-sample conditioning (time step, pooled text) scales, shifts
 * and gates each half of a block (adaLN), by one product per sample. */

typedef enum lk_dit_block {
	LK_DIT_NONE,
	LK_DIT_REFINE, /* text tokens only (HunyuanVideo, arXiv 2412.03603) */
	LK_DIT_DUAL,   /* DOUBLE with a second attention over the image only (SD3.5-medium) */
	LK_DIT_DOUBLE, /* one stream for the image and one for the text, each with its own weights,
	                  joint attention (MMDiT, arXiv 2403.03206) */
	LK_DIT_LAST,   /* DOUBLE whose text stream ends in its attention */
	LK_DIT_SINGLE, /* both as one stream, attention and MLP in parallel (Flux.1) */
	LK_DIT_JOINT,  /* both as one stream, attention, then MLP (CogVideoX, arXiv 2408.06072;
	                  AuraFlow; Lumina-Image 2.0, arXiv 2503.21758; Z-Image) */
	LK_DIT_CROSS,  /* the image: attention, attention to the text, MLP (Wan, arXiv 2503.20314) */
	LK_DIT_BLOCKS
} lk_dit_block;

enum {
	LK_DIT_STEP_WIDTH = 256,   /* sines of the time step, the input of its embedding */
	LK_DIT_IMAGE_TOKENS = 257, /* image tokens that CROSS blocks read: CLIP's */
};

typedef struct lk_diffusion {
	int repeat[LK_DIT_BLOCKS];                 /* blocks of each kind, one kind after the other */
	int text_tokens, text_width, pooled_width; /* of the text encoders; no pooled text: 0 */
	int patch_inputs;                          /* input values per patch of latents, a token */
	int patch_outputs;                         /* output values of a patch; 0: as many */
	int text_norm;             /* parameters of a text norm before the first product */
	bool cross_plain;          /* CROSS: the norm before attention to the text has no parameters */
	int step_width;            /* width of the embedded time step that adaLN reads; 0: the hidden
	                            * size */
	int joint_modulation;      /* JOINT: outputs of adaLN, in hidden sizes */
	int joint_norms;           /* JOINT: parameters of the norms of a block */
	bool plain, mod_plain;     /* products of blocks, and of adaLN and the ends, have no biases */
	bool shared_modulation;    /* adaLN is the same in all blocks of a kind (Flux.2) */
	int ends;                  /* parameters before the first block and after the last, if the
	                              reader counts them; 0: lk_dit_stem_params and _head_params count
	                              them */
	int image_width;           /* CROSS: width of the tokens of an image that blocks read in
	                              addition to the text (Wan2.1's image-to-video); 0: none */
	int height, width, frames; /* pixels and frames of a sample, unless --seq overrides them */
	int scale;                 /* pixels per side of a token: the VAE's factor times the patch */
	int frame_scale;           /* video frames per latent frame; 0: 4 */
	bool video, guidance;      /* the guidance strength is embedded too */
} lk_diffusion;

struct lk_model;

/* The operations of a block on one of its streams. */
typedef struct lk_dit_stream {
	bool used, mlp; /* present in the block; with an MLP */
	bool out;       /* attention's output is projected: 4 products of the hidden size; otherwise
	                 * 3 */
	int modulation; /* outputs of adaLN's product, in hidden sizes; 0: a table instead */
} lk_dit_stream;

typedef struct lk_dit_unit {
	lk_dit_block block;
	lk_dit_stream image, text; /* SINGLE: both are the first */
} lk_dit_unit;

lk_dit_unit lk_dit_unit_of(const lk_diffusion *net, lk_dit_block block);
lk_dit_block lk_dit_block_at(const struct lk_model *model, int layer);
const char *lk_dit_block_name(lk_dit_block block);
static inline int lk_dit_outputs(const lk_diffusion *net) {
	return net->patch_outputs > 0 ? net->patch_outputs : net->patch_inputs;
}
/* Latent tokens of a sample of the network's own size, text tokens excluded. */
double lk_dit_latent_tokens(const lk_diffusion *net);
/* Parameters before the blocks and after them. */
double lk_dit_stem_params(const struct lk_model *model);
double lk_dit_head_params(const struct lk_model *model);
/* Multiply-adds, forward, of a sample of `s` tokens including text. */
double lk_dit_macs(const struct lk_model *model, double s);

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
	LK_PROJECTOR_WIDTHS = 3,
	LK_IMAGE_PIXELS = 448 /* side, if a config accepts images of any size */
};

/* Attention that pools an image's tokens into few, with `heads` heads: keys and values of all
 * tokens but the class token; learned queries, or the mean of each merge x merge tokens. Queries,
 * keys, values and the output have biases. */
typedef struct lk_pool {
	int width; /* of queries, keys, values and output; 0: no pooling */
	int heads;
	int inputs;  /* width of its input tokens: several layers' outputs, or the last one's */
	int before;  /* output width of a preceding product without a bias; 0: none */
	int queries; /* learned queries per image; 0: means */
} lk_pool;

/* From the tokens of an encoder to those of a language model: merge x merge adjacent tokens, or
 * pooled ones, become one; then a chain of products. */
typedef struct lk_projector {
	int merge;                      /* 0 and 1: no merging */
	int averages;                   /* 1: tokens are averaged, which keeps the width of one */
	int width[LK_PROJECTOR_WIDTHS]; /* output width of each product; 0: no more products */
	bool bias;
	int gated;           /* 1: the first product has a gate */
	int norms;           /* parameters of the norm before it */
	int taps, tap_norms; /* further projectors, of intermediate layers (Qwen3-VL's deepstack), and
	                        the parameters of the norm in each */
	int loose;           /* parameters that no product reads: the end-of-row embedding */
	int inputs; /* first product's input width if it reads several layers; 0: one layer's */
	lk_pool pool;
} lk_projector;

/* ---- towers: an image encoder before the language model, which reads the encoder's tokens in
 * place of words. Its layers, patches and projector are those of the network that lk_model_tower
 * makes of it: nothing is counted twice. */
typedef struct lk_tower {
	int layers; /* 0: no tower */
	int hidden, heads, ffn;
	int image, patch, channels, frames; /* pixels per side of an image, of a patch; frames per
	                                     * patch */
	int position_rows;                  /* learned positions; 0: rotary */
	int window, full_every;             /* window in tokens; one layer in N without it */
	int class_token, patch_bias, gated, layer_scale, biases; /* 0 or 1 */
	int pre_norm, post_norm;                                 /* norms before, after all layers */
	int rms;                                                 /* RMS norms; otherwise with biases */
	int qkv_plain, qk_norm; /* 1: queries, keys, values have no bias; a norm over all heads */
	int out_plain;          /* 1: the output of attention has no bias */
	int tiles;              /* tiles that an image is cut into, which attend to each other; 0: 1 */
	int crossed; /* 1: layers of the language model read its tokens, class tokens included, as keys
	                and values; they take no place in the sequence */
	int loose;
	int any_size; /* images of any size; otherwise only of `image` pixels */
	int images;   /* per sequence */
	int apart;    /* its tokens take no place in the sequence: the outputs of both encoders for a
	                 pair of image and text are compared (CLIP, arXiv 2103.00020; SigLIP,
	                 2303.15343) */
	lk_projector project;
} lk_tower;

/* ---- audio: convolutions along time before an encoder, over frames or samples. */
enum { LK_AUDIO_CONVS = 8 };

typedef struct lk_audio {
	int channels; /* of a frame: mel bins; of samples: 1 */
	int convs;    /* 0: the network has no audio input */
	int width[LK_AUDIO_CONVS], kernel[LK_AUDIO_CONVS], stride[LK_AUDIO_CONVS];
	int normed;                           /* this many leading ones have a norm */
	bool bias;                            /* of the convolutions */
	bool projected;                       /* a norm and a product turn their output into tokens */
	int position_kernel, position_groups; /* a convolution gives tokens their positions; 0: none */
} lk_audio;

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

/* Read a config. Errors are at "file:line:column". Unknown network types, parts other than the
 * language model (vision, audio) and members of networks that are not modelled are errors that name
 * them. `as` (NULL: the config's own type) is the type to read it as on purpose; `warning`
 * (LK_MODEL_WARNING bytes, may be NULL) then states what that leaves out, else "". Nested
 * text_config / thinker_config are followed. The result has passed lk_model_check. */
enum { LK_MODEL_WARNING = 512 };
lk_status lk_model_from_hf(const lk_value *config, const char *file, const char *as, lk_model *out,
                           char *warning, lk_error *err);
/* lk_model_from_hf for a path (a config.json, or a folder that holds one). */
lk_status lk_model_read(const char *path, const char *as, lk_model *out, char *warning,
                        lk_error *err);

/* Presets: "llama3.1-70b", or the id of a repository that a preset states. Case, '-', '_' and
 * blanks are ignored, except between digits; an owner before '/' and endings such as "-instruct" or
 * "-hf" are dropped; the first words of a name suffice if they are unambiguous ("phi3-mini"), and
 * the end or the beginning of a name identifies the network that it was trained from
 * ("Hermes-3-Llama-3.1-8B", "Llama-3-8b-sft-mixture"). Other names give an error with the nearest
 * one. lk_model_preset_at parses all presets once; NULL out of range or when memory runs out. */
lk_status lk_model_preset(const char *name, lk_model *out, lk_error *err);
/* lk_model_preset without an error for unknown names: *found says whether there is a preset.
 * LK_ERR_MEMORY. */
lk_status lk_model_find(const char *name, lk_model *out, bool *found, lk_error *err);
/* The remark on answers for this name: the preset is the language model of a larger network, or
 * only a part of the name is known. "": none. LK_ERR_MEMORY. */
enum { LK_MODEL_REASON = 160 };
lk_status lk_model_taken(const char *name, char out[LK_MODEL_REASON], lk_error *err);
int lk_model_preset_count(void);
const lk_model *lk_model_preset_at(int index);
/* Names of the recommendation models (dlrm.h), which are not lk_models; NULL past the last. */
const char *lk_model_recommender_at(int index);
/* The id of the repository that a preset's config.json comes from, "meta-llama/Llama-3.1-8B"; false
 * if it comes from elsewhere, or `preset` is unknown. */
enum { LK_MODEL_ID = 128 };
bool lk_model_hub_id(const char *preset, char out[LK_MODEL_ID]);
/* The number formats in which its publishers trained a network, as options of predict, and the
 * source; both NULL if no preset of the same shape states them. The arena owns the texts. */
typedef struct lk_trained {
	const char *options, *source;
} lk_trained;
lk_status lk_model_trained(lk_arena *arena, const lk_model *model, lk_trained *out, lk_error *err);

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
static inline double lk_model_kv_width(const lk_model *model, int window) {
	return lk_model_kv_heads(model, window) * (model->head_dim + lk_model_value_dim(model));
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
