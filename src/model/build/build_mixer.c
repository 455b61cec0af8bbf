/* build_mixer.c: the first half of a layer: norm, mixers, residual sum; and the table of mixers.
 * Mixers of one layer read the same normed input, and their outputs are added. */
#include "model/build/build.h"
#include "model/layout/job.h"

const lk_mixer_build lk_mixer_builds[LK_MIXER_BUILDS] = {
	{LK_MIXER_ATTENTION, "", lk_build_attention_forward, lk_build_attention_backward,
     lk_build_attention_between},
	{LK_MIXER_SSM, "mamba ", lk_build_ssm_forward, lk_build_ssm_backward, lk_build_ssm_between},
	{LK_MIXER_DELTA, "delta ", lk_build_delta_forward, lk_build_delta_backward,
     lk_build_delta_between},
	{LK_MIXER_LIGHTNING, "lightning ", lk_build_lightning_forward, lk_build_lightning_backward,
     lk_build_lightning_between},
	{LK_MIXER_RWKV, "rwkv ", lk_build_rwkv_forward, lk_build_rwkv_backward, lk_build_rwkv_between},
	{LK_MIXER_CONV, "conv ", lk_build_short_conv_forward, lk_build_short_conv_backward,
     lk_build_short_conv_between},
};

/* Width of the mixers' input in hidden sizes: larger if attention also reads the embedded token. */
static double mixer_inputs(const lk_builder *builder, const lk_layer_shape *shape) {
	bool attends = shape->layer.mixers & LK_MIXER_ATTENTION;
	return attends ? lk_model_attention_inputs(builder->model) / (double)builder->model->hidden : 1;
}

static double mixer_elements(const lk_builder *builder, const lk_layer_shape *shape) {
	return mixer_inputs(builder, shape) * builder->rows * builder->model->hidden;
}

/* Products that read the norm's output: queries, keys and values are separate products outside
 * Megatron-LM. */
static int mixer_readers(const lk_builder *builder, const lk_layer_shape *shape) {
	bool apart = lk_job_runs_as_written(builder->job) && !builder->model->qkv_joined;
	return apart && (shape->layer.mixers & LK_MIXER_ATTENTION) ? 3 : 1;
}

static double mixer_norm_out(const lk_builder *builder, const lk_layer_shape *shape) {
	return builder->replays ? 0
	                        : lk_build_norm_made(builder, mixer_elements(builder, shape),
	                                             mixer_readers(builder, shape));
}

/* The output of the norm is discarded and made again; that before cross-attention is kept. */
static bool mixer_makes_norm_again(const lk_builder *builder, const lk_layer_shape *shape) {
	return !shape->across && lk_build_runs_again(builder, LK_MODULE_LAYERNORM) &&
	       lk_job_norm_apart(builder->job, true, false);
}

static const char *norm_name(const lk_layer_shape *shape) {
	return shape->across ? "cross_norm" : "input_norm";
}

void lk_build_mixers_forward(lk_builder *builder, const lk_layer_shape *shape) {
	double row = lk_build_row_bytes(builder), inputs = mixer_inputs(builder, shape) * row;
	if (inputs > row) lk_build_memory(builder, LK_OP_ELEMENTWISE, "join_embedding", 2 * inputs);
	double elements = mixer_elements(builder, shape), held = lk_build_norm_held(builder, elements);
	lk_build_norm(builder, norm_name(shape), elements, mixer_readers(builder, shape));
	bool replay = builder->phase == LK_PHASE_RECOMPUTE && !(shape->across && shape->cross);
	/* a replay has its input, but not the embedded token beside it */
	lk_build_save(builder, replay ? held - lk_build_stream_bytes(builder) : held,
	              LK_OWN_ACTIVATIONS);
	lk_build_save(builder, mixer_norm_out(builder, shape), LK_OWN_ACTIVATIONS);
	lk_build_quantize_normed(builder);
	lk_build_tp_enter(builder, "gather_attention_input");
	for (int i = 0; i < LK_MIXER_BUILDS; i++)
		if (shape->layer.mixers & lk_mixer_builds[i].mixer)
			lk_mixer_builds[i].forward(builder, shape);
	lk_build_tp_leave(builder, "reduce_attention_output");
	if (builder->model->norms_per_layer >= 4)
		lk_build_memory(builder, LK_OP_NORM, "post_attention_norm", 2 * row);
	lk_build_residual(builder, "attention_residual", false);
	lk_build_save(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
	if (mixer_makes_norm_again(builder, shape))
		lk_build_release(builder, mixer_norm_out(builder, shape), LK_OWN_ACTIVATIONS);
}

static void mixer_norm_again(lk_builder *builder, const lk_layer_shape *shape) {
	lk_build_begin_again(builder);
	lk_build_norm(builder, "input_norm", mixer_elements(builder, shape),
	              mixer_readers(builder, shape));
	lk_build_save(builder, mixer_norm_out(builder, shape), LK_OWN_ACTIVATIONS);
	lk_build_end_again(builder);
}

/* Kept between the two passes of a split backward: the gradient of the output, and what each mixer
 * keeps, as the weight gradients' products read them. */
static double kept_for_weights(const lk_builder *builder, const lk_layer_shape *shape) {
	double sum = lk_build_kept_bytes(builder, builder->rows * builder->model->hidden);
	for (int i = 0; i < LK_MIXER_BUILDS; i++)
		if (shape->layer.mixers & lk_mixer_builds[i].mixer)
			sum += lk_mixer_builds[i].between(builder);
	return sum;
}

void lk_build_mixers_backward(lk_builder *builder, const lk_layer_shape *shape, bool input,
                              bool weight) {
	double row = lk_build_row_bytes(builder), inputs = mixer_inputs(builder, shape) * row;
	bool last = weight ||
	            !builder->train_base; /* this block is the last that needs the inputs of products */
	if (input && mixer_makes_norm_again(builder, shape)) mixer_norm_again(builder, shape);
	if (input) {
		lk_build_residual(builder, "attention_residual_grad", true);
		lk_build_release(builder, lk_build_mask_bytes(builder), LK_OWN_ACTIVATIONS);
	}
	if (input && builder->model->norms_per_layer >= 4)
		lk_build_memory(builder, LK_OP_NORM, "post_attention_norm_grad", 3 * row);
	if (input || builder->sp) lk_build_tp_leave_backward(builder, "gather_attention_grad");
	for (int i = 0; i < LK_MIXER_BUILDS; i++)
		if (shape->layer.mixers & lk_mixer_builds[i].mixer)
			lk_mixer_builds[i].backward(builder, shape, input, weight);
	if (last) lk_build_release(builder, mixer_norm_out(builder, shape), LK_OWN_ACTIVATIONS);
	if (input && !last)
		lk_build_save(builder, kept_for_weights(builder, shape), LK_OWN_ACTIVATIONS);
	if (!input && weight)
		lk_build_release(builder, kept_for_weights(builder, shape), LK_OWN_ACTIVATIONS);
	if (!input) return;
	double elements = mixer_elements(builder, shape);
	lk_build_norm_grad(builder, shape->across ? "cross_norm_grad" : "input_norm_grad", elements,
	                   mixer_readers(builder, shape));
	lk_build_release(builder, lk_build_norm_held(builder, elements), LK_OWN_ACTIVATIONS);
	if (inputs > row)
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "join_embedding_grad", 3 * inputs);
}
