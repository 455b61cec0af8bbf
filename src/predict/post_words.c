/* post_words.c: the words of --rollout: the engines of a step of reinforcement learning, and the
 * step's phases other than generation and training. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "predict/predict_internal.h"

static const struct post_word {
	const char *name;
	size_t offset;
	double low, high;
	bool whole;
} numbers[] = {
#define WORD(name, low, high, whole) \
	{ #name, offsetof(lk_post_words, name), low, high, whole }
	WORD(sequences, 1, 1e7, true),
	WORD(oversample, 1, 100, false),
	WORD(epochs, 1, 1000, true),
	WORD(gpus, 0, 1 << 20, true),
	WORD(tp, 1, 4096, true),
	WORD(pp, 1, 4096, true),
	WORD(ep, 1, 4096, true),
	WORD(lag, 0, 64, true),
	WORD(reward, 0, 1e6, false),
	WORD(policy, 0, 1, true),
	WORD(reference, 0, 1, true),
	WORD(eager, 0, 1, true),
	WORD(padded, 0, 1, true),
	WORD(full_rows, 0, 1, true),
	WORD(by_sequence, 0, 1, true),
	WORD(offload_params, 0, 1, true),
	WORD(offload_optimizer, 0, 1, true),
	WORD(offload_reference, 0, 1, true),
	WORD(critic_epochs, 1, 1000, true),
	WORD(critic_offload_params, 0, 1, true),
	WORD(critic_offload_optimizer, 0, 1, true),
	WORD(pinned_params, 0, 1, true),
	WORD(sleep, 0, 1, true),
	WORD(critic_gpus, 0, 1 << 20, true),
	WORD(teacher_gpus, 0, 1 << 20, true),
	WORD(teacher_tp, 1, 4096, true),
#undef WORD
};

static const struct {
	const char *name;
	size_t offset;
} texts[] = {
	{"dtype", offsetof(lk_post_words, dtype)},
	{"critic", offsetof(lk_post_words, critic)},
	{"reward_model", offsetof(lk_post_words, reward_model)},
	{"teacher", offsetof(lk_post_words, teacher)},
};

static lk_status post_word_refuse(const char *word, const char *what, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, "--rollout", "'%s' %s", lk_escape(word, shown, sizeof shown), what);
	return lk_hint(err, "give words as tp=2 or reference=0; `lockstep predict --help` lists them");
}

static lk_status post_word_read(const char *word, lk_post_words *out, lk_error *err) {
	const char *value = strchr(word, '='), *end;
	size_t length = value ? (size_t)(value - word) : 0;
	for (size_t i = 0; value && i < sizeof texts / sizeof *texts; i++) {
		if (strlen(texts[i].name) != length || strncmp(word, texts[i].name, length) != 0) continue;
		if (!value[1]) return post_word_refuse(word, "names nothing", err);
		value++;
		memcpy((char *)out + texts[i].offset, &value, sizeof value);
		return LK_OK;
	}
	for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++) {
		const struct post_word *known = &numbers[i];
		if (strlen(known->name) != length || strncmp(word, known->name, length) != 0) continue;
		double number = lk_read_real(value + 1, &end);
		bool read = end > value + 1 && *end == '\0' && number >= known->low &&
		            number <= known->high && (!known->whole || number == floor(number));
		if (!read) return post_word_refuse(word, "is outside of its limits", err);
		memcpy((char *)out + known->offset, &number, sizeof number);
		return LK_OK;
	}
	return post_word_refuse(word, "is not understood", err);
}

lk_status lk_post_words_read(lk_arena *arena, const char *text, lk_post_words *out, lk_error *err) {
	char *rest = text ? lk_arena_strdup(arena, text) : NULL;
	if (text && !rest) return lk_oom(err);
	for (char *word; rest && (word = strsep(&rest, " ,"));)
		if (*word) LK_TRY(post_word_read(word, out, err));
	return LK_OK;
}
