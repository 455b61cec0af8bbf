/* convnet_read.c: convolution nets from JSON (model.h has the format), and Hugging Face's resnet,
 * convnext and swin. */
#include <string.h>

#include "model/read/hf.h"
#include "base/noun.h"

enum { SIDE = 1 << 14, CHANNELS = 1 << 20, KERNEL = 64, REPEAT = 1000 };

/* Read an integer member of an object; a missing one leaves *out unchanged, unless it is needed. */
static lk_status convnet_read_take(const lk_hf_config *config, const lk_value *object,
                                   const char *name, int low, int high, bool needed, int *out,
                                   lk_error *err) {
	const lk_value *value = lk_hf_get(config, object, name);
	if (!value || value->kind == LK_JSON_NULL) {
		if (!needed) return LK_OK;
		lk_hf_fail(config, object, err, "%s is missing", name);
		return lk_hint(err, "give a whole number from %d to %d", low, high);
	}
	if (value->kind == LK_JSON_NUMBER && value->number >= low && value->number <= high &&
	    value->number == (int)value->number) {
		*out = (int)value->number;
		return LK_OK;
	}
	lk_hf_fail(config, value, err, "%s cannot be this", name);
	return lk_hint(err, "give a whole number from %d to %d", low, high);
}

static lk_status convnet_read_take_flag(const lk_hf_config *config, const lk_value *object,
                                        const char *name, bool *out, lk_error *err) {
	const lk_value *value = lk_hf_get(config, object, name);
	if (!value || value->kind == LK_JSON_NULL) return LK_OK;
	if (value->kind != LK_JSON_TRUE && value->kind != LK_JSON_FALSE) {
		lk_hf_fail(config, value, err, "%s is neither true nor false", name);
		return err->status;
	}
	*out = value->kind == LK_JSON_TRUE;
	return LK_OK;
}

static lk_status read_stem(const lk_hf_config *config, lk_convnet *net, lk_error *err) {
	const lk_value *stem = lk_hf_get(config, config->object, "stem");
	if (!stem || stem->kind != LK_JSON_OBJECT) {
		lk_hf_fail(config, stem, err, "a convnet needs its stem");
		return lk_hint(
			err, "as \"stem\": {\"kernel\": 7, \"stride\": 2, \"width\": 64, \"pool\": true}");
	}
	LK_TRY(convnet_read_take(config, stem, "kernel", 1, KERNEL, true, &net->stem_kernel, err));
	LK_TRY(convnet_read_take(config, stem, "stride", 1, KERNEL, true, &net->stem_stride, err));
	LK_TRY(convnet_read_take(config, stem, "width", 1, CHANNELS, true, &net->stem_width, err));
	return convnet_read_take_flag(config, stem, "pool", &net->stem_pool, err);
}

static lk_status read_block(const lk_hf_config *config, const lk_value *object,
                            lk_conv_stage *stage, lk_error *err) {
	static const char *const names[] = {"plain",    "basic",   "bottleneck",
	                                    "inverted", "shuffle", "fire"};
	const lk_value *block = lk_hf_get(config, object, "block");
	for (int i = 0;
	     block && block->kind == LK_JSON_STRING && i < (int)(sizeof names / sizeof *names); i++)
		if (strcmp(block->text, names[i]) == 0) {
			stage->block = i;
			return LK_OK;
		}
	lk_hf_fail(config, block ? block : object, err, "a stage needs its block");
	return lk_hint(err, "plain, basic, bottleneck, inverted, shuffle or fire");
}

static bool has_inner(const lk_conv_stage *stage) {
	return stage->block == LK_CONV_BOTTLENECK || stage->block == LK_CONV_FIRE;
}

/* Each of two branches has half of the channels; a fire keeps the image's size; a shuffle that
 * keeps the size keeps its channels. */
static lk_status check_branches(const lk_hf_config *config, const lk_value *object, int in,
                                const lk_conv_stage *stage, lk_error *err) {
	bool shuffle = stage->block == LK_CONV_SHUFFLE, fire = stage->block == LK_CONV_FIRE;
	const char *why;
	if (!shuffle && !fire) why = NULL;
	else if (stage->width % 2) why = "two branches need an even width";
	else if (fire && stage->stride > 1) why = "a fire has no stride";
	else if (shuffle && stage->stride == 1 && stage->width != in)
		why = "a shuffle without stride has the width that comes in";
	else why = NULL;
	if (!why) return LK_OK;
	lk_hf_fail(config, object, err, "%s", why);
	return err->status;
}

static lk_status convnet_read_stage(const lk_hf_config *config, const lk_value *object, int in,
                                    lk_conv_stage *stage, lk_error *err) {
	if (object->kind != LK_JSON_OBJECT) {
		lk_hf_fail(config, object, err, "a stage is not an object");
		return err->status;
	}
	*stage = (lk_conv_stage){.kernel = 3, .stride = 1, .groups = 1, .expand = 1};
	LK_TRY(read_block(config, object, stage, err));
	LK_TRY(convnet_read_take(config, object, "repeat", 1, REPEAT, true, &stage->repeat, err));
	LK_TRY(convnet_read_take(config, object, "width", 1, CHANNELS, true, &stage->width, err));
	LK_TRY(convnet_read_take(config, object, "inner", 1, CHANNELS, has_inner(stage), &stage->inner,
	                         err));
	LK_TRY(convnet_read_take(config, object, "expand", 1, 64, stage->block == LK_CONV_INVERTED,
	                         &stage->expand, err));
	LK_TRY(convnet_read_take(config, object, "kernel", 1, KERNEL, false, &stage->kernel, err));
	LK_TRY(convnet_read_take(config, object, "stride", 1, KERNEL, false, &stage->stride, err));
	LK_TRY(convnet_read_take(config, object, "groups", 1, CHANNELS, false, &stage->groups, err));
	LK_TRY(convnet_read_take(config, object, "squeeze", 0, CHANNELS, false, &stage->squeeze, err));
	LK_TRY(convnet_read_take_flag(config, object, "pool", &stage->pool, err));
	LK_TRY(check_branches(config, object, in, stage, err));
	int within = stage->block == LK_CONV_BOTTLENECK ? stage->inner : stage->width;
	int before = stage->block == LK_CONV_BOTTLENECK ? stage->inner : in;
	if (within % stage->groups == 0 && before % stage->groups == 0) return LK_OK;
	lk_hf_fail(config, object, err, "%d and %d %s not divide into %d %s", before, within,
	           lk_noun(within, "channel does", "channels do"), stage->groups,
	           lk_noun(stage->groups, "group", "groups"));
	return lk_hint(err, "groups must divide the channels on both sides");
}

static lk_status read_stages(const lk_hf_config *config, lk_model *model, lk_error *err) {
	const lk_value *list = lk_hf_get(config, config->object, "stages");
	int in = model->conv.stem_width;
	if (!list || list->kind != LK_JSON_ARRAY || !list->count || list->count > LK_CONV_STAGES) {
		lk_hf_fail(config, list, err, "a convnet needs stages");
		return lk_hint(err, "a list of 1 to %d objects", LK_CONV_STAGES);
	}
	for (size_t i = 0; i < list->count; i++) {
		lk_conv_stage *stage = &model->conv.stage[model->conv.stages++];
		LK_TRY(convnet_read_stage(config, &list->items[i], in, stage, err));
		model->layers += stage->repeat;
		in = stage->width;
	}
	model->hidden = in;
	return LK_OK;
}

static lk_status read_dense(const lk_hf_config *config, lk_convnet *net, lk_error *err) {
	const lk_value *list = lk_hf_get(config, config->object, "dense");
	if (!list || list->kind == LK_JSON_NULL) return LK_OK;
	if (list->kind != LK_JSON_ARRAY || list->count > LK_CONV_DENSE) {
		lk_hf_fail(config, list, err, "dense is not a list of up to %d widths", LK_CONV_DENSE);
		return err->status;
	}
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *value = &list->items[i];
		if (value->kind != LK_JSON_NUMBER || !(value->number >= 1 && value->number <= CHANNELS) ||
		    value->number != (int)value->number) {
			lk_hf_fail(config, value, err, "no width of a fully connected layer");
			return lk_hint(err, "give a whole number from 1 to %d", CHANNELS);
		}
		net->dense[net->dense_count++] = (int)value->number;
	}
	return LK_OK;
}

lk_status lk_hf_finish_convnet(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_convnet *net = &model->conv;
	net->norm = true;
	net->pool_side = 1;
	LK_TRY(
		convnet_read_take(config, config->object, "image_size", 1, SIDE, true, &model->image, err));
	LK_TRY(convnet_read_take(config, config->object, "num_channels", 1, 4096, false,
	                         &model->channels, err));
	LK_TRY(convnet_read_take(config, config->object, "num_classes", 1, CHANNELS, false,
	                         &net->classes, err));
	LK_TRY(convnet_read_take(config, config->object, "top", 0, CHANNELS, false, &net->top, err));
	LK_TRY(
		convnet_read_take(config, config->object, "pool_side", 1, 64, false, &net->pool_side, err));
	LK_TRY(convnet_read_take_flag(config, config->object, "norm", &net->norm, err));
	LK_TRY(convnet_read_take_flag(config, config->object, "class_maps", &net->class_maps, err));
	LK_TRY(read_stem(config, net, err));
	LK_TRY(read_stages(config, model, err));
	return read_dense(config, net, err);
}

/* ---- Hugging Face's resnet (transformers, models/resnet/modeling_resnet.py) ---- */

/* One stage: only its first block has a stride, a bottleneck is a quarter of its width inside. */
static lk_status resnet_stage(const lk_hf_config *config, const lk_value *depth,
                              const lk_value *width, bool halves, int block, lk_conv_stage *stage,
                              lk_error *err) {
	if (depth->kind != LK_JSON_NUMBER || !(depth->number >= 1 && depth->number <= REPEAT) ||
	    depth->number != (int)depth->number) {
		lk_hf_fail(config, depth, err, "depths holds no number of blocks");
		return lk_hint(err, "give whole numbers from 1 to %d", REPEAT);
	}
	if (width->kind != LK_JSON_NUMBER || !(width->number >= 4 && width->number <= CHANNELS) ||
	    width->number != (int)width->number) {
		lk_hf_fail(config, width, err, "hidden_sizes holds no number of channels");
		return lk_hint(err, "give whole numbers from 4 to %d", CHANNELS);
	}
	*stage = (lk_conv_stage){.block = block,
	                         .repeat = (int)depth->number,
	                         .width = (int)width->number,
	                         .kernel = 3,
	                         .stride = halves ? 2 : 1,
	                         .groups = 1,
	                         .expand = 1};
	if (block == LK_CONV_BOTTLENECK) stage->inner = stage->width / 4;
	if (block == LK_CONV_NEXT) stage->inner = 4 * stage->width, stage->kernel = 7;
	return LK_OK;
}

static lk_status resnet_block(const lk_hf_config *config, int *block, lk_error *err) {
	const lk_value *type = lk_hf_get(config, config->object, "layer_type");
	*block = LK_CONV_BOTTLENECK;
	if (!type || type->kind == LK_JSON_NULL) return LK_OK;
	if (type->kind == LK_JSON_STRING && strcmp(type->text, "bottleneck") == 0) return LK_OK;
	*block = LK_CONV_BASIC;
	if (type->kind == LK_JSON_STRING && strcmp(type->text, "basic") == 0) return LK_OK;
	lk_hf_fail(config, type, err, "unknown layer_type");
	return lk_hint(err, "bottleneck or basic");
}

static lk_status resnet_stages(const lk_hf_config *config, int block, bool first_halves,
                               lk_model *model, lk_error *err) {
	const lk_value *depths = lk_hf_get(config, config->object, "depths");
	const lk_value *widths = lk_hf_get(config, config->object, "hidden_sizes");
	if (!depths || !widths || depths->kind != LK_JSON_ARRAY || widths->kind != LK_JSON_ARRAY ||
	    !depths->count || depths->count != widths->count || depths->count > LK_CONV_STAGES) {
		lk_hf_fail(config, depths, err, "depths and hidden_sizes do not describe the same stages");
		return lk_hint(err, "two lists of the same 1 to %d numbers of stages", LK_CONV_STAGES);
	}
	for (size_t i = 0; i < depths->count; i++) {
		lk_conv_stage *stage = &model->conv.stage[model->conv.stages++];
		LK_TRY(resnet_stage(config, &depths->items[i], &widths->items[i], i > 0 || first_halves,
		                    block, stage, err));
		model->layers += stage->repeat;
		model->hidden = stage->width;
	}
	return LK_OK;
}

/* Number of classes in a config; default 1,000. */
static lk_status read_classes(const lk_hf_config *config, int *classes, lk_error *err) {
	const lk_value *labels = lk_hf_get(config, config->object, "id2label");
	if (labels && labels->kind == LK_JSON_OBJECT && labels->count) {
		*classes = (int)labels->count;
		return LK_OK;
	}
	return convnet_read_take(config, config->object, "num_labels", 1, CHANNELS, false, classes,
	                         err);
}

lk_status lk_hf_finish_resnet(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_convnet *net = &model->conv;
	bool early = false, first_halves = false;
	int block;
	*net = (lk_convnet){.stem_kernel = 7,
	                    .stem_stride = 2,
	                    .stem_width = 64,
	                    .stem_pool = true,
	                    .norm = true,
	                    .pool_side = 1,
	                    .classes = net->classes};
	model->image = 224;
	LK_TRY(convnet_read_take_flag(config, config->object, "downsample_in_bottleneck", &early, err));
	if (early) {
		lk_hf_fail(config, lk_hf_get(config, config->object, "downsample_in_bottleneck"), err,
		           "a stride in the first convolution of a bottleneck is not modelled");
		return lk_hint(err, "set downsample_in_bottleneck to false");
	}
	LK_TRY(convnet_read_take(config, config->object, "image_size", 1, SIDE, false, &model->image,
	                         err));
	LK_TRY(convnet_read_take(config, config->object, "num_channels", 1, 4096, false,
	                         &model->channels, err));
	LK_TRY(convnet_read_take(config, config->object, "embedding_size", 1, CHANNELS, false,
	                         &net->stem_width, err));
	LK_TRY(read_classes(config, &net->classes, err));
	LK_TRY(resnet_block(config, &block, err));
	LK_TRY(convnet_read_take_flag(config, config->object, "downsample_in_first_stage",
	                              &first_halves, err));
	return resnet_stages(config, block, first_halves, model, err);
}

/* ---- Hugging Face's convnext and convnextv2 (transformers, models/convnext/modeling_convnext.py,
 * models/convnextv2/modeling_convnextv2.py) ---- */

static lk_status read_next(const lk_hf_config *config, bool second, lk_model *model,
                           lk_error *err) {
	lk_convnet *net = &model->conv;
	double scale = 1e-6;
	*net =
		(lk_convnet){.stem_kernel = 4, .stem_width = 96, .pool_side = 1, .classes = net->classes};
	model->image = 224;
	LK_TRY(convnet_read_take(config, config->object, "image_size", 1, SIDE, false, &model->image,
	                         err));
	LK_TRY(convnet_read_take(config, config->object, "num_channels", 1, 4096, false,
	                         &model->channels, err));
	LK_TRY(convnet_read_take(config, config->object, "patch_size", 1, KERNEL, false,
	                         &net->stem_kernel, err));
	LK_TRY(lk_hf_real(config, "layer_scale_init_value", &scale, err));
	net->stem_stride = net->stem_kernel;
	LK_TRY(read_classes(config, &net->classes, err));
	LK_TRY(resnet_stages(config, LK_CONV_NEXT, false, model, err));
	net->stem_width = net->stage[0].width;
	for (int i = 0; i < net->stages; i++) {
		net->stage[i].layer_scale = !second && scale > 0;
		net->stage[i].response_norm = second;
	}
	return LK_OK;
}

lk_status lk_hf_finish_convnext(const lk_hf_config *config, lk_model *model, lk_error *err) {
	return read_next(config, false, model, err);
}

lk_status lk_hf_finish_convnextv2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	return read_next(config, true, model, err);
}

/* ---- Hugging Face's swin (transformers, models/swin/modeling_swin.py) ---- */

/* Each stage is twice as wide as the one before, with a quarter of its pixels. */
static lk_status swin_stages(const lk_hf_config *config, lk_model *model, int window, double ratio,
                             lk_error *err) {
	const lk_value *depths = lk_hf_get(config, config->object, "depths"),
				   *heads = lk_hf_get(config, config->object, "num_heads");
	int width = model->conv.stem_width;
	if (!depths || !heads || depths->kind != LK_JSON_ARRAY || heads->kind != LK_JSON_ARRAY ||
	    !depths->count || depths->count != heads->count || depths->count > 8) {
		lk_hf_fail(config, depths, err, "depths and num_heads do not describe the same stages");
		return lk_hint(err, "two lists of the same 1 to 8 numbers of stages");
	}
	for (size_t i = 0; i < depths->count; i++, width *= 2) {
		double depth = depths->items[i].number, count = heads->items[i].number;
		lk_conv_stage *stage = &model->conv.stage[model->conv.stages++];
		bool wide = width <= 1 << 16 && width * ratio >= 1 && width * ratio <= CHANNELS;
		if (depths->items[i].kind != LK_JSON_NUMBER || !(depth >= 1 && depth <= REPEAT) ||
		    heads->items[i].kind != LK_JSON_NUMBER || !(count >= 1 && count <= width) || !wide ||
		    width % (int)count != 0)
			return lk_hf_fail(
				config, &depths->items[i], err,
				"stage %zu has no whole numbers of layers and of heads that divide %d", i, width);
		*stage = (lk_conv_stage){.block = LK_CONV_WINDOW,
		                         .repeat = (int)depth,
		                         .width = width,
		                         .inner = (int)(width * ratio),
		                         .heads = (int)count,
		                         .window = window,
		                         .kernel = 1,
		                         .stride = i > 0 ? 2 : 1,
		                         .groups = 1,
		                         .expand = 1};
		model->layers += stage->repeat;
		model->hidden = width;
	}
	return LK_OK;
}

lk_status lk_hf_finish_swin(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_convnet *net = &model->conv;
	int window = 7, patch = 4;
	double ratio = 4;
	bool places = false, biases = true;
	model->image = 224;
	*net = (lk_convnet){.stem_width = 96, .pool_side = 1, .classes = net->classes};
	LK_TRY(convnet_read_take(config, config->object, "image_size", 1, SIDE, false, &model->image,
	                         err));
	LK_TRY(convnet_read_take(config, config->object, "num_channels", 1, 4096, false,
	                         &model->channels, err));
	LK_TRY(convnet_read_take(config, config->object, "patch_size", 1, KERNEL, false, &patch, err));
	LK_TRY(convnet_read_take(config, config->object, "embed_dim", 1, 1 << 14, false,
	                         &net->stem_width, err));
	LK_TRY(
		convnet_read_take(config, config->object, "window_size", 1, KERNEL, false, &window, err));
	LK_TRY(lk_hf_real(config, "mlp_ratio", &ratio, err));
	LK_TRY(lk_hf_flag(config, "use_absolute_embeddings", &places, err));
	LK_TRY(lk_hf_flag(config, "qkv_bias", &biases, err));
	if (places || !biases)
		return lk_hf_fail(config, NULL, err,
		                  "use_absolute_embeddings, or qkv_bias false, is not modelled");
	net->stem_kernel = net->stem_stride = patch;
	LK_TRY(read_classes(config, &net->classes, err));
	return swin_stages(config, model, window, ratio, err);
}
