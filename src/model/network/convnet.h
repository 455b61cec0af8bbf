/* convnet.h: convolution nets for images: a stem, stages of equal blocks, a classifier. ResNet, ResNeXt, VGG, AlexNet,
 * MobileNetV2, EfficientNet, ShuffleNetV2 and SqueezeNet are such lists.
 *
 *     {"model_type": "convnet", "image_size": 224, "stem": {"kernel": 7, "stride": 2, "width": 64, "pool": true},
 *      "stages": [{"block": "bottleneck", "repeat": 3, "width": 256, "inner": 64}, ...], "num_classes": 1000}
 *
 * A block is a layer of lk_model; its first of a stage may halve the image and change the width.
 */
#ifndef LK_MODEL_CONVNET_H
#define LK_MODEL_CONVNET_H

#include <stdbool.h>

enum { LK_CONV_STAGES = 24, LK_CONV_KINDS = 3 * LK_CONV_STAGES, LK_CONV_IN_BLOCK = 5, LK_CONV_DENSE = 2 };

typedef enum lk_conv_block {
	LK_CONV_PLAIN,      /* one convolution: VGG, AlexNet */
	LK_CONV_BASIC,      /* two of 3 x 3 and the residual: ResNet-18, -34 (arXiv 1512.03385) */
	LK_CONV_BOTTLENECK, /* 1 x 1, 3 x 3, 1 x 1 and the residual: ResNet-50 and deeper; with groups ResNeXt (arXiv 1611.05431) */
	LK_CONV_INVERTED,   /* 1 x 1 wider, depthwise, 1 x 1 narrower: MobileNetV2, EfficientNet (arXiv 1801.04381, 1905.11946) */
	LK_CONV_SHUFFLE,    /* half of the channels: 1 x 1, depthwise, 1 x 1; joined and shuffled: ShuffleNetV2 (arXiv 1807.11164) */
	LK_CONV_FIRE,       /* 1 x 1 narrower, then 1 x 1 and 3 x 3 side by side: SqueezeNet (arXiv 1602.07360) */
} lk_conv_block;

typedef struct lk_conv_stage {
	int block;              /* lk_conv_block */
	int repeat, width;      /* blocks; channels that come out */
	int inner;              /* BOTTLENECK, FIRE: channels within */
	int expand;             /* INVERTED: channels within over those that come in */
	int kernel, stride, groups;
	int squeeze;            /* squeeze-and-excitation: the block's channels over those of its waist; 0: none (arXiv 1709.01507) */
	bool pool;              /* the image is halved by a maximum behind the last block */
} lk_conv_stage;

typedef struct lk_convnet {
	int stem_kernel, stem_stride, stem_width;
	bool stem_pool;
	bool norm;              /* batch norms; else biases */
	int stages;
	lk_conv_stage stage[LK_CONV_STAGES];
	int top;                /* channels of a last 1 x 1 convolution; 0: none */
	int dense_count, dense[LK_CONV_DENSE]; /* fully connected layers before the classifier */
	int pool_side;          /* pixels a side of what the classifier sees */
	int classes;
	bool class_maps;        /* the classifier is a 1 x 1 convolution, its maps are averaged: SqueezeNet */
} lk_convnet;

struct lk_model;

/* One convolution of a block with what follows it. */
typedef struct lk_conv {
	double in, out, kernel, groups; /* channels, window */
	double side_in, side_out;       /* pixels */
	bool active;                    /* an activation behind it */
} lk_conv;

/* A layer as it is computed. */
typedef struct lk_conv_unit {
	lk_conv conv[LK_CONV_IN_BLOCK];
	int count;
	bool shortcut;          /* the last of them is the residual's own */
	bool residual;
	double squeeze_in, squeeze; /* channels of squeeze-and-excitation and of its waist; 0: none */
	bool pool;
	double copies;          /* passes over what comes out that join branches and shuffle channels */
	double width, side;     /* of what comes out */
	int kind;               /* layers of one kind are alike: 0 to LK_CONV_KINDS - 1 */
} lk_conv_unit;

/* The layer of a number; the convolution of the stem; that of the top (out 0: none). */
lk_conv_unit lk_convnet_unit(const struct lk_model *model, int layer);
lk_conv lk_convnet_stem(const struct lk_model *model);
lk_conv lk_convnet_top(const struct lk_model *model);
/* Inputs of the classifier's first fully connected layer. */
double lk_convnet_features(const struct lk_model *model);

/* Parameters; tensors of them. */
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

#endif
