/* tower.h: what comes before a language model or an encoder: an image encoder with its projector,
 * and convolutions over sound. */
#ifndef LK_MODEL_NETWORK_TOWER_H
#define LK_MODEL_NETWORK_TOWER_H

#include <stdbool.h>

enum { LK_PROJECTOR_WIDTHS = 3 };

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

#endif
