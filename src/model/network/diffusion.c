/* diffusion.c: diffusion transformers: blocks over tokens of latents and of a text. With hidden
 * size d, MLP width f, heads of e, T_i tokens of the image and T_t of the text, a stream of a block
 * has
 *
 *     attention   q, k, v, out      4 d d     + biases, norms of queries and keys 2 e (Wan: 2 d)
 *     MLP                           2 d f     + biases
 *     adaLN       d -> 6 d          6 d d     read once a sample, not once a token
 *
 * so that 2 x parameters x tokens is wrong: in Flux.1 adaLN has 3.2 of 11.9 billion parameters.
 * Multiply-adds of attention in addition to its products are 2 d per pair of query and key; no pair
 * is masked. Latents are 1/8 of a side in pixels, a video's (n - 1) / 4 + 1 frames; a patch is 2 x
 * 2 of them. Source: huggingface/diffusers,
 * models/transformers/transformer_{flux,sd3,wan,hunyuan_video,
 * qwenimage,ltx,lumina2,z_image,flux2}.py, cogvideox_transformer_3d.py, auraflow_transformer_2d.py,
 * pixart_transformer_2d.py.
 */
#include "model/network/parts.h"
#include "base/check.h"

enum {
	SCALE_FRAMES = 4, /* most video VAEs */
};

lk_dit_unit lk_dit_unit_of(const lk_diffusion *net, lk_dit_block block) {
	LK_ASSERT(block >= 0 && block < LK_DIT_BLOCKS);
	static const lk_dit_unit units[LK_DIT_BLOCKS] = {
		[LK_DIT_REFINE] = {LK_DIT_REFINE, {0}, {true, true, true, 2}},
		[LK_DIT_DUAL] = {LK_DIT_DUAL, {true, true, true, 9}, {true, true, true, 6}},
		[LK_DIT_DOUBLE] = {LK_DIT_DOUBLE, {true, true, true, 6}, {true, true, true, 6}},
		[LK_DIT_LAST] = {LK_DIT_LAST, {true, true, true, 6}, {true, false, false, 2}},
		[LK_DIT_SINGLE] = {LK_DIT_SINGLE, {true, true, true, 3}, {0}},
		[LK_DIT_JOINT] = {LK_DIT_JOINT, {true, true, true, 0}, {0}},
		[LK_DIT_CROSS] = {LK_DIT_CROSS, {true, true, true, 0}, {0}},
	};
	lk_dit_unit unit = units[block];
	if (block == LK_DIT_JOINT) unit.image.modulation = net->joint_modulation;
	if (block == LK_DIT_REFINE && net->repeat[LK_DIT_JOINT] > 0) unit.text.modulation = 0;
	if (net->shared_modulation) unit.image.modulation = unit.text.modulation = 0;
	return unit;
}

const char *lk_dit_block_name(lk_dit_block block) {
	static const char *const names[LK_DIT_BLOCKS] = {
		[LK_DIT_NONE] = "",         [LK_DIT_REFINE] = "refiner", [LK_DIT_DUAL] = "dual",
		[LK_DIT_DOUBLE] = "double", [LK_DIT_LAST] = "last",      [LK_DIT_SINGLE] = "single",
		[LK_DIT_JOINT] = "joint",   [LK_DIT_CROSS] = "cross",
	};
	return names[block];
}

lk_dit_block lk_dit_block_at(const lk_model *model, int layer) {
	LK_ASSERT(layer >= 0);
	for (int block = 0, first = 0; block < LK_DIT_BLOCKS; block++) {
		first += model->dit.repeat[block];
		if (layer < first) return (lk_dit_block)block;
	}
	return LK_DIT_NONE;
}

double lk_dit_latent_tokens(const lk_diffusion *net) {
	int scale = net->frame_scale > 0 ? net->frame_scale : SCALE_FRAMES,
		frames = net->video && net->frames > 0 ? (net->frames - 1) / scale + 1 : 1;
	if (net->scale <= 0) return 0;
	return (double)(net->height / net->scale) * (net->width / net->scale) * frames;
}

/* ---- parameters ---- */

/* Norms of queries and keys: one per head, or one over all heads. */
static double query_norms(const lk_model *model) {
	if (!model->qk_norm) return 0;
	return 2.0 * (model->qk_norm_wide ? model->hidden : model->head_dim);
}

static lk_weights dit_linear(const lk_model *model, double in, double out) {
	return lk_weights_linear(in, out, !model->dit.plain);
}

static void add_times(lk_weights *sum, int times, lk_weights part) {
	for (int i = 0; i < times; i++) lk_weights_add(sum, part);
}

/* Width of keys and of values. */
static double keys_width(const lk_model *model) {
	return (double)model->kv_heads * model->head_dim;
}

/* Number of [d, d] products other than those of keys and values. */
static int stream_products(lk_dit_stream stream) {
	return stream.out ? 2 : 1;
}

static int mlp_inputs(const lk_model *model) {
	return model->gated ? 2 : 1;
}

/* Input width of adaLN. */
static double step_width(const lk_model *model) {
	return model->dit.step_width > 0 ? model->dit.step_width : model->hidden;
}

static void add_stream(const lk_model *model, lk_dit_stream stream, lk_layer_weights *sum) {
	double d = model->hidden, f = model->ffn;
	if (!stream.used) return;
	add_times(&sum->mixers, stream_products(stream), dit_linear(model, d, d));
	add_times(&sum->mixers, 2, dit_linear(model, d, keys_width(model)));
	sum->mixers.others += query_norms(model);
	if (stream.mlp) add_times(&sum->mlp, mlp_inputs(model), dit_linear(model, d, f));
	if (stream.mlp) lk_weights_add(&sum->mlp, dit_linear(model, f, d));
	if (stream.modulation)
		lk_weights_add(&sum->norms, lk_weights_linear(step_width(model), stream.modulation * d,
		                                              !model->dit.mod_plain));
}

lk_layer_weights lk_dit_weights(const lk_model *model, int layer) {
	double d = model->hidden;
	lk_dit_unit unit = lk_dit_unit_of(&model->dit, lk_dit_block_at(model, layer));
	lk_layer_weights sum = {0};
	add_stream(model, unit.image, &sum);
	add_stream(model, unit.text, &sum);
	switch (unit.block) {
	case LK_DIT_REFINE: /* two norms with scale and shift, none for queries and keys; or four */
		sum.norms.others += 4 * d;
		if (model->dit.repeat[LK_DIT_JOINT] == 0) sum.mixers.others -= query_norms(model);
		break;
	case LK_DIT_DUAL:
		add_times(&sum.mixers, 4, dit_linear(model, d, d));
		sum.mixers.others += query_norms(model);
		break;
	case LK_DIT_SINGLE: /* one product gives both outputs, with one bias */
		if (!model->dit.plain) sum.mlp.others -= d;
		break;
	case LK_DIT_JOINT: sum.norms.others += model->dit.joint_norms; break;
	case LK_DIT_CROSS: /* attention to the text, its norm, the block's table for adaLN */
		add_times(&sum.mixers, 4, dit_linear(model, d, d));
		sum.mixers.others += query_norms(model);
		sum.norms.others += (model->dit.cross_plain ? 0 : 2 * d) + 6 * d;
		if (model->dit.image_width > 0) { /* keys and values of the image, and their norm */
			add_times(&sum.mixers, 2, dit_linear(model, d, d));
			sum.mixers.others += query_norms(model) / 2;
		}
		break;
	default: break;
	}
	return sum;
}

static void stream_matrices(const lk_model *model, lk_dit_stream stream, lk_matrices *list) {
	double d = model->hidden, f = model->ffn;
	if (!stream.used) return;
	lk_matrices_add(list, d, d, stream_products(stream), LK_CUT_OUT);
	lk_matrices_add(list, keys_width(model), d, 2, LK_CUT_OUT);
	if (!stream.mlp) return;
	lk_matrices_add(list, f, d, mlp_inputs(model), LK_CUT_OUT);
	lk_matrices_add(list, d, f, 1, LK_CUT_IN);
}

void lk_dit_matrices(const lk_model *model, int layer, lk_matrices *list) {
	lk_dit_unit unit = lk_dit_unit_of(&model->dit, lk_dit_block_at(model, layer));
	stream_matrices(model, unit.image, list);
	stream_matrices(model, unit.text, list);
	bool across = unit.block == LK_DIT_CROSS, reads = across && model->dit.image_width > 0;
	if (unit.block == LK_DIT_DUAL || across) /* a second attention */
		lk_matrices_add(list, model->hidden, model->hidden, reads ? 6 : 4, LK_CUT_OUT);
}

/* Two products, the first from the embedded vector: a time step, a pooled text. */
static double embedder(const lk_model *model, double in) {
	double d = model->hidden;
	return in * d + d + d * d + d;
}

double lk_dit_stem_params(const lk_model *model) {
	const lk_diffusion *net = &model->dit;
	if (net->ends > 0) return net->ends;
	double d = model->hidden, read = net->image_width,
		   sum = (net->patch_inputs + 1) * d + embedder(model, LK_DIT_STEP_WIDTH);
	if (net->guidance) sum += embedder(model, LK_DIT_STEP_WIDTH);
	if (net->pooled_width > 0) sum += embedder(model, net->pooled_width);
	if (net->repeat[LK_DIT_CROSS] > 0) /* the text passes two products; adaLN's is shared */
		return sum + embedder(model, net->text_width) + 6 * d * d + 6 * d +
		       (read > 0 ? 2 * read + read * read + read + read * d + d + 2 * d : 0);
	sum += (net->text_width + 1) * d + net->text_norm;
	if (net->repeat[LK_DIT_REFINE] > 0) /* the refiner's own time step and pooled text */
		sum += embedder(model, LK_DIT_STEP_WIDTH) + embedder(model, net->text_width);
	return sum;
}

/* The last adaLN, a product or a table, and the output patches. */
double lk_dit_head_params(const lk_model *model) {
	double d = model->hidden, last = 2 * d * d + 2 * d;
	if (model->dit.ends > 0) return 0; /* counted with the stem's */
	if (model->dit.repeat[LK_DIT_CROSS] > 0) last = 2 * d;
	return last + (d + 1) * lk_dit_outputs(&model->dit);
}

/* ---- multiply-adds ---- */

static double stream_macs(const lk_model *model, lk_dit_stream stream, double tokens) {
	double d = model->hidden;
	if (!stream.used) return 0;
	double once = stream_products(stream) * d * d + 2 * d * keys_width(model);
	if (stream.mlp) once += (mlp_inputs(model) + 1) * d * model->ffn;
	return tokens * once + stream.modulation * step_width(model) * d;
}

static double block_macs(const lk_model *model, lk_dit_block block, double image, double text) {
	LK_ASSERT(image >= 0 && text >= 0);
	lk_dit_unit unit = lk_dit_unit_of(&model->dit, block);
	bool joint = block == LK_DIT_SINGLE || block == LK_DIT_JOINT;
	double d = model->hidden, all = image + text,
		   read = model->dit.image_width > 0 ? LK_DIT_IMAGE_TOKENS : 0;
	double products =
		stream_macs(model, unit.image, joint ? all : image) + stream_macs(model, unit.text, text);
	switch (block) {
	case LK_DIT_NONE: return 0;
	case LK_DIT_REFINE: return products + 2 * d * text * text;
	case LK_DIT_DUAL: return products + 2 * d * (all * all + image * image) + image * 4 * d * d;
	case LK_DIT_CROSS: return products + 2 * d * image * (all + read) + (all + read) * 2 * d * d;
	default: return products + 2 * d * all * all;
	}
}

/* Of the stem: patches and text once per token; embedded vectors once per sample. */
static double ends_macs(const lk_model *model, double image, double text) {
	const lk_diffusion *net = &model->dit;
	double d = model->hidden, once = LK_DIT_STEP_WIDTH * d + d * d,
		   sum = image * (net->patch_inputs + lk_dit_outputs(net)) * d +
	             once * (net->guidance ? 2 : 1);
	if (net->pooled_width > 0) sum += net->pooled_width * d + d * d;
	if (net->repeat[LK_DIT_CROSS] > 0)
		return sum + text * (net->text_width * d + d * d) + 6 * d * d;
	sum += text * net->text_width * d + 2 * step_width(model) * d;
	if (net->shared_modulation) sum += (6 + 6 + 3) * d * d;
	if (net->repeat[LK_DIT_REFINE] > 0 && net->repeat[LK_DIT_JOINT] == 0)
		sum += once + net->text_width * d + d * d;
	return sum;
}

double lk_dit_macs(const lk_model *model, double s) {
	double text = model->dit.text_tokens < s ? model->dit.text_tokens : s, image = s - text,
		   sum = ends_macs(model, image, text);
	for (int block = 0; block < LK_DIT_BLOCKS; block++)
		sum += model->dit.repeat[block] * block_macs(model, (lk_dit_block)block, image, text);
	return sum;
}
