/* audio.c: convolutions along time before an encoder: over log-mel frames (Whisper: 80 or 128 bins,
 * halves the number of frames, arXiv 2212.04356), or over samples (wav2vec 2.0: one token per 320,
 * arXiv 2006.11477). With k the window, c channels and w the width of one:
 *
 *     parameters k c w (+ w)      multiply-adds k c w per output frame
 *
 * and k h h / groups of the convolution that gives tokens their positions. */
#include "model/network/parts.h"
#include "base/check.h"

double lk_audio_inputs(const lk_audio *audio, int conv) {
	LK_ASSERT(conv >= 0 && conv < LK_AUDIO_CONVS);
	return (double)audio->kernel[conv] * (conv > 0 ? audio->width[conv - 1] : audio->channels);
}

double lk_audio_frames(const lk_audio *audio, int conv, double tokens) {
	LK_ASSERT(conv < LK_AUDIO_CONVS);
	for (int later = conv + 1; later < audio->convs; later++) tokens *= audio->stride[later];
	return tokens;
}

static double positions_inputs(const lk_model *model) {
	const lk_audio *audio = &model->audio;
	if (audio->position_kernel == 0) return 0;
	return (double)audio->position_kernel * model->hidden / audio->position_groups;
}

double lk_audio_params(const lk_model *model) {
	const lk_audio *audio = &model->audio;
	double sum = 0, h = model->hidden;
	if (audio->convs == 0) return 0;
	for (int i = 0; i < audio->convs; i++)
		sum += (lk_audio_inputs(audio, i) + audio->bias) * audio->width[i] +
		       2.0 * audio->width[i] * (i < audio->normed);
	double last = audio->width[audio->convs - 1];
	if (audio->projected) sum += 2 * last + last * h + h;
	/* weights are stored as directions and one length per place of the window */
	if (audio->position_kernel > 0) sum += positions_inputs(model) * h + audio->position_kernel + h;
	return sum;
}

double lk_audio_macs(const lk_model *model, double tokens) {
	const lk_audio *audio = &model->audio;
	double sum = 0, h = model->hidden;
	if (audio->convs == 0) return 0;
	for (int i = 0; i < audio->convs; i++)
		sum += lk_audio_frames(audio, i, tokens) * lk_audio_inputs(audio, i) * audio->width[i];
	if (audio->projected) sum += tokens * audio->width[audio->convs - 1] * h;
	return sum + tokens * positions_inputs(model) * h;
}
