/* build_audio.c: convolutions along time before an encoder (model/network/audio.c), each with an
 * activation, some with a norm; the tokens made of the last output; their positions. Every
 * tensor-parallel rank runs all of it. The input needs no gradient; inputs and outputs of all
 * convolutions are kept. */
#include "model/build/build.h"

static uint32_t time_conv(lk_builder *builder, const char *name, double frames, double out,
                          double in) {
	uint32_t op = lk_build_gemm(builder, name, frames, out, in);
	if (builder->graph->ops.count)
		builder->graph->ops.kind[builder->graph->ops.count - 1] = LK_OP_CONV;
	return op;
}

static double conv_frames(const lk_builder *builder, int conv) {
	return lk_audio_frames(&builder->model->audio, conv, builder->tokens);
}

/* What the activations, the norms and the product after the last convolution read. */
static double audio_saved(const lk_builder *builder) {
	const lk_audio *audio = &builder->model->audio;
	double sum = conv_frames(builder, 0) * audio->stride[0] * audio->channels;
	for (int i = 0; i < audio->convs; i++)
		sum += conv_frames(builder, i) * audio->width[i] * (i < audio->normed ? 3 : 2);
	if (audio->projected) sum += builder->tokens * audio->width[audio->convs - 1];
	if (audio->position_kernel > 0) sum += 2 * builder->tokens * builder->model->hidden;
	return builder->bytes * sum;
}

static double position_inputs(const lk_builder *builder) {
	const lk_audio *audio = &builder->model->audio;
	return (double)audio->position_kernel * builder->model->hidden / audio->position_groups;
}

static void audio_forward(lk_builder *builder) {
	const lk_audio *audio = &builder->model->audio;
	double h = builder->model->hidden, t = builder->tokens;
	for (int i = 0; i < audio->convs; i++) {
		double frames = conv_frames(builder, i), bytes = builder->bytes * frames * audio->width[i];
		time_conv(builder, "audio_conv", frames, audio->width[i], lk_audio_inputs(audio, i));
		if (i < audio->normed) lk_build_memory(builder, LK_OP_NORM, "audio_norm", 2 * bytes);
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "audio_activation", 2 * bytes);
	}
	double last = audio->width[audio->convs - 1];
	if (audio->projected) {
		lk_build_memory(builder, LK_OP_NORM, "feature_norm", 2 * builder->bytes * t * last);
		lk_build_gemm(builder, "feature_proj", t, h, last);
	}
	if (audio->position_kernel > 0) {
		time_conv(builder, "position_conv", t, h, position_inputs(builder));
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "position_activation",
		                2 * builder->bytes * t * h);
	}
	if (builder->train_base) lk_build_save(builder, audio_saved(builder), LK_OWN_ACTIVATIONS);
}

static void conv_gradients(lk_builder *builder, double frames, double out, double in, bool input) {
	if (input) time_conv(builder, "audio_conv_grad", frames, in, out);
	time_conv(builder, "audio_conv_weight_grad", out, in, frames);
}

static void audio_backward(lk_builder *builder) {
	const lk_audio *audio = &builder->model->audio;
	double h = builder->model->hidden, t = builder->tokens, last = audio->width[audio->convs - 1];
	if (audio->position_kernel > 0) {
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "position_activation_grad",
		                3 * builder->bytes * t * h);
		conv_gradients(builder, t, h, position_inputs(builder), true);
	}
	if (audio->projected) {
		lk_build_gemm(builder, "feature_proj_grad", t, last, h);
		lk_build_gemm(builder, "feature_proj_weight_grad", h, last, t);
		lk_build_memory(builder, LK_OP_NORM, "feature_norm_grad", 3 * builder->bytes * t * last);
	}
	for (int i = audio->convs - 1; i >= 0; i--) {
		double frames = conv_frames(builder, i), bytes = builder->bytes * frames * audio->width[i];
		lk_build_memory(builder, LK_OP_ELEMENTWISE, "audio_activation_grad", 3 * bytes);
		if (i < audio->normed) lk_build_memory(builder, LK_OP_NORM, "audio_norm_grad", 3 * bytes);
		conv_gradients(builder, frames, audio->width[i], lk_audio_inputs(audio, i), i > 0);
	}
	lk_build_release(builder, audio_saved(builder), LK_OWN_ACTIVATIONS);
}

void lk_build_audio(lk_builder *builder, bool forward) {
	if (forward) audio_forward(builder);
	else audio_backward(builder);
}
