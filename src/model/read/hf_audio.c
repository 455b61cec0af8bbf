/* hf_audio.c: derivations of configs with audio input. */
#include "model/read/hf.h"

/* Two convolutions of frames; the second halves their number. Positions of both stacks are tables;
 * keys have no bias. */
lk_status lk_hf_finish_whisper(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_audio *audio = &model->audio;
	LK_TRY(lk_hf_equal_stacks(config, model, err));
	double second = (double)model->decoder_context * model->hidden;
	if (second > 1 << 24)
		return lk_hf_fail(config, NULL, err, "a table of positions of %g numbers", second);
	model->loose = (int)second;
	model->context = model->position_rows;
	audio->convs = 2;
	audio->width[0] = audio->width[1] = model->hidden;
	audio->kernel[0] = audio->kernel[1] = 3;
	audio->stride[0] = 1;
	audio->stride[1] = 2;
	return lk_hf_heads(config, model, err);
}

/* Read one number per convolution, listed as conv_NAME; `count`: length of the lists before, 0:
 * none yet. A missing list has the class's seven. */
static lk_status read_convs(const lk_hf_config *config, const char *name, int *out, int *count,
                            lk_error *err) {
	enum { USUAL = 7 };
	const lk_value *list = lk_hf_find(config, name);
	if (!list && *count > 0 && *count != USUAL)
		return lk_hf_fail(config, NULL, err, "%s is not stated for %d convolutions", name, *count);
	if (!list) *count = USUAL;
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY || list->count < 1 || list->count > LK_AUDIO_CONVS)
		return lk_hf_wrong_kind(config, list, name, "a list of up to 8 numbers", err);
	for (size_t i = 0; i < list->count; i++) {
		const lk_value *item = &list->items[i];
		if (item->kind != LK_JSON_NUMBER || !(item->number >= 1 && item->number <= 65536) ||
		    item->number != (int)item->number)
			return lk_hf_wrong_kind(config, item, name, "whole numbers from 1 to 65536", err);
		out[i] = (int)item->number;
	}
	if (*count > 0 && (size_t)*count != list->count)
		return lk_hf_fail(config, list, err, "%s has %zu numbers, others %d", name, list->count,
		                  *count);
	*count = (int)list->count;
	return LK_OK;
}

/* Norms before the layers, or, "stable", after them; of the first convolution, or of all. The heads
 * of pre-training and recognition are left out, like BERT's. */
lk_status lk_hf_finish_wav2vec2(const lk_hf_config *config, lk_model *model, lk_error *err) {
	lk_audio *audio = &model->audio;
	bool stable = false;
	LK_TRY(lk_hf_flag(config, "conv_bias", &audio->bias, err));
	LK_TRY(lk_hf_flag(config, "do_stable_layer_norm", &stable, err));
	LK_TRY(read_convs(config, "conv_dim", audio->width, &audio->convs, err));
	LK_TRY(read_convs(config, "conv_kernel", audio->kernel, &audio->convs, err));
	LK_TRY(read_convs(config, "conv_stride", audio->stride, &audio->convs, err));
	audio->normed = lk_hf_says(config, "feat_extract_norm", "layer") ? audio->convs : 1;
	model->embed_norm = !stable;
	model->final_norm = stable;
	model->loose = model->hidden; /* the embedding of masked tokens */
	return lk_hf_heads(config, model, err);
}
