/* convnet.h: convolution nets for images: a stem, stages of equal blocks, a classifier. ResNet,
 * ResNeXt, VGG, AlexNet, MobileNetV2, EfficientNet, ShuffleNetV2 and SqueezeNet are such lists.
 *
 *     {"model_type": "convnet", "image_size": 224,
 *      "stem": {"kernel": 7, "stride": 2, "width": 64, "pool": true},
 *      "stages": [{"block": "bottleneck", "repeat": 3, "width": 256, "inner": 64}, ...],
 *      "num_classes": 1000}
 *
 * A block is a layer of lk_model; the first block of a stage may halve the image and change the
 * width. */
#ifndef LK_MODEL_NETWORK_CONVNET_H
#define LK_MODEL_NETWORK_CONVNET_H

#include <stdbool.h>

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

#endif
