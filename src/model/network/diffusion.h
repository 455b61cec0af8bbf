/* diffusion.h: diffusion transformers (arXiv 2212.09748): they denoise latents; a token is a patch
 * of latents. Text conditions them; per-sample conditioning (time step, pooled text) scales, shifts
 * and gates each half of a block (adaLN), by one product per sample. */
#ifndef LK_MODEL_NETWORK_DIFFUSION_H
#define LK_MODEL_NETWORK_DIFFUSION_H

#include <stdbool.h>

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

#endif
