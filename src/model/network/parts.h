/* parts.h: internals of the counts: parameters and operations of each kind of mixer. One kind, one
 * row of lk_mixer_kinds and one file, mixer_*.c. */
#ifndef LK_MODEL_PARTS_H
#define LK_MODEL_PARTS_H

#include "model/network/model.h"

/* Parameters: of matrices that multiply every token, and all others (biases, norms, convolutions
 * along the sequence). */
typedef struct lk_weights {
	double matrices, others;
} lk_weights;

typedef struct lk_mixer_kind {
	lk_mixer mixer;
	char letter; /* in lk_model.order; attention has several */
	lk_weights (*weights)(const lk_model *model);
	/* Append the same matrices one by one to the list. */
	void (*matrices)(const lk_model *model, lk_matrices *list);
	/* Multiply-adds of a sequence of s tokens, forward, in addition to one per matrix weight and
	 * token. For recurrences those of the recurrence itself, without the kernels' extra work. */
	double (*core)(const lk_model *model, const lk_layer *layer, double s);
	/* Values that a recurrence keeps per sequence, with the window of its convolution. NULL:
	 * attention keeps keys and values; RWKV's are not counted. */
	double (*state)(const lk_model *model);
} lk_mixer_kind;

enum { LK_MIXER_KINDS = 6 };
extern const lk_mixer_kind lk_mixer_kinds[LK_MIXER_KINDS];

/* mixer_attention.c: grouped heads and latent attention, with or without an indexer. */
lk_weights lk_attention_weights(const lk_model *model);
void lk_attention_matrices(const lk_model *model, lk_matrices *list);
double lk_attention_core(const lk_model *model, const lk_layer *layer, double s);
double lk_attention_cross(const lk_model *model, double queries, double keys); /* all pairs */
/* mixer_ssm.c, mixer_delta.c, mixer_lightning.c, mixer_rwkv.c, mixer_conv.c */
lk_weights lk_ssm_weights(const lk_model *model);
void lk_ssm_matrices(const lk_model *model, lk_matrices *list);
double lk_ssm_core(const lk_model *model, const lk_layer *layer, double s);
double lk_ssm_state(const lk_model *model);
lk_weights lk_delta_weights(const lk_model *model);
void lk_delta_matrices(const lk_model *model, lk_matrices *list);
double lk_delta_core(const lk_model *model, const lk_layer *layer, double s);
double lk_delta_state(const lk_model *model);
lk_weights lk_lightning_weights(const lk_model *model);
void lk_lightning_matrices(const lk_model *model, lk_matrices *list);
double lk_lightning_core(const lk_model *model, const lk_layer *layer, double s);
double lk_lightning_state(const lk_model *model);
lk_weights lk_rwkv_weights(const lk_model *model);
void lk_rwkv_matrices(const lk_model *model, lk_matrices *list);
double lk_rwkv_core(const lk_model *model, const lk_layer *layer, double s);
lk_weights lk_conv_weights(const lk_model *model);
void lk_conv_matrices(const lk_model *model, lk_matrices *list);
double lk_conv_core(const lk_model *model, const lk_layer *layer, double s);
/* A channel mix in addition to an MLP; zero in other networks. */
lk_weights lk_rwkv_channel_weights(const lk_model *model);

/* weights.c: a linear layer; a norm over `width` elements. */
lk_weights lk_weights_linear(double in, double out, bool bias);
double lk_weights_norm(const lk_model *model, double width);
void lk_weights_add(lk_weights *sum, lk_weights part);
/* layers.c: the network as the mixers of a layer see it: if layers with a window have their own
 * key/value heads, `room` with these. */
const lk_model *lk_model_seen(const lk_model *model, const lk_layer *layer, lk_model *room);
/* Append to the list; nothing if a side is 0. */
void lk_matrices_add(lk_matrices *list, double out, double in, double count, lk_cut cut);

/* streams.c: additions to a layer, the embedding and the head in networks with several streams;
 * zero in others. */
lk_weights lk_streams_layer(const lk_model *model);
double lk_streams_embedding(const lk_model *model);
double lk_streams_head(const lk_model *model);
/* Matrices applied to every token before the first layer and after the last. */
double lk_streams_edges(const lk_model *model);
void lk_streams_matrices(const lk_model *model, lk_matrices *list);

typedef struct lk_layer_weights {
	lk_weights mixers, mlp, router, experts, norms;
} lk_layer_weights;
lk_layer_weights lk_layer_weights_of(const lk_model *model, int layer);
/* diffusion.c: weights of a block; what adaLN reads once per sample counts with the norms. */
lk_layer_weights lk_dit_weights(const lk_model *model, int layer);
/* The matrices of a block, except adaLN's. */
void lk_dit_matrices(const lk_model *model, int layer, lk_matrices *list);
/* layers.c: whether the order is a list of layers. */
bool lk_model_order_valid(const lk_model *model);

#endif
