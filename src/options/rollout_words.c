/* rollout_words.c: the table of the words of --rollout, and its readers of words and files. */
#include "options/rollout_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/document.h"

enum { FILE_BYTES = 1 << 16 };

/* clang-format off */
#define WORD(name, kind, unit, low, high) \
	#name, LK_ROLLOUT_##kind, unit, offsetof(lk_rollout_words, name), low, high
#define COUNT(name, low, high) WORD(name, COUNT, "N", low, high)
#define SWITCH(name)           WORD(name, SWITCH, "0|1", 0, 1)
#define NAME(name, unit)       WORD(name, NAME, unit, 0, 0), 0
static const lk_rollout_word words[] = {
	{COUNT(sequences, 1, 1e7), 0, "--gbs, else 512",
	 "sequences of a step; with more than --gbs there are several updates"},
	{WORD(oversample, REAL, "X", 1, 100), 1, NULL,
	 "sequences generated for each one that is kept (dynamic sampling)"},
	{COUNT(epochs, 1, 1000), 1, NULL, "passes of updates over the sequences"},
	{COUNT(gpus, 0, 1 << 20), 0, NULL,
	 "GPUs of their own for the engines, out of --gpus; 0: engines run on the GPUs that train"},
	{COUNT(tp, 1, 4096), 1, NULL, "tensor parallelism of an engine"},
	{COUNT(pp, 1, 4096), 1, NULL, "pipeline stages of an engine"},
	{COUNT(ep, 1, 4096), 1, NULL, "expert parallelism of an engine"},
	{NAME(dtype, "TYPE"), "--dtype", "format of the engines' weights"},
	{SWITCH(eager), 0, NULL, "engines run without CUDA graphs"},
	{COUNT(lag, 0, 64), 0, NULL,
	 "batches that the engines may be ahead; 0: they wait for the new weights. On the GPUs that "
	 "train: steps over which an unfinished sequence may go on"},
	{WORD(reward, REAL, "SECONDS", 0, 1e6), 0, NULL, "judging the sequences of a step"},
	{SWITCH(policy), 1, "1; distill 0",
	 "log-probabilities of the policy before the update; 0: an on-policy ratio"},
	{SWITCH(reference), 1, "grpo and ppo 1; dapo and distill 0",
	 "log-probabilities of a frozen reference"},
	{SWITCH(padded), 0, NULL, "every sequence is padded to the longest of the step, not packed"},
	{SWITCH(full_rows), 0, NULL,
	 "packed rows are padded to --seq, as a pipeline of NeMo RL has them; 0: a row is as long as "
	 "what is in it"},
	{SWITCH(by_sequence), 0, NULL,
	 "--mbs counts sequences, which are not padded: micro-batches of verl and OpenRLHF without a "
	 "budget of tokens; 0: sequences fill rows of --seq tokens"},
	{NAME(critic, "NAME"), "as the policy", "network of PPO's critic"},
	{COUNT(critic_gpus, 0, 1 << 20), 0, NULL,
	 "GPUs of the critic's own, out of --gpus; 0: those that train"},
	{COUNT(critic_epochs, 1, 1000), -1, "epochs", "passes of updates of the critic"},
	{SWITCH(critic_offload_params), -1, "offload_params", "as offload_params, of the critic"},
	{SWITCH(critic_offload_optimizer), -1, "offload_optimizer",
	 "as offload_optimizer, of the critic"},
	{NAME(reward_model, "NAME"), "none",
	 "a network that judges the sequences, on the GPUs that train"},
	{NAME(teacher, "NAME"), "none",
	 "network that --task distill learns from; policy: shaped as the policy"},
	{COUNT(teacher_gpus, 0, 1 << 20), 0, NULL,
	 "GPUs of the teacher's own, out of --gpus; 0: those that train"},
	{COUNT(teacher_tp, 1, 4096), 0, "as the policy", "tensor parallelism of the teacher"},
	{SWITCH(offload_params), 1, NULL,
	 "weights and gradients wait in the host's memory while engines run on the GPUs that train; "
	 "0: they stay"},
	{SWITCH(offload_optimizer), 1, NULL, "likewise the optimizer's states"},
	{SWITCH(offload_reference), 1, NULL,
	 "the reference waits in the host's memory outside of its passes; 0: it stays"},
	{SWITCH(pinned_params), 0, NULL,
	 "weights that wait on the host are in pinned memory, as Megatron-LM's under NeMo RL: they "
	 "are moved at the rate of PCIe; 0: in new pages, 4 GB/s at most"},
	{SWITCH(sleep), 1, NULL,
	 "engines release their memory while the GPUs train; 0: they keep it"},
};
#undef WORD
#undef COUNT
#undef SWITCH
#undef NAME
/* clang-format on */
enum { WORDS = sizeof words / sizeof *words };

static const char list_hint[] = "`lockstep help rollout` lists the words";

const lk_rollout_word *lk_rollout_word_list(size_t *count) {
	*count = WORDS;
	return words;
}

void lk_rollout_words_begin(lk_rollout_words *out) {
	*out = (lk_rollout_words){0};
	for (size_t i = 0; i < WORDS; i++)
		if (words[i].kind != LK_ROLLOUT_NAME)
			memcpy((char *)out + words[i].offset, &words[i].otherwise, sizeof words[i].otherwise);
}

/* ---- one word ---- */

/* The row of the name; NULL with an error that names the nearest one. */
static const lk_rollout_word *rollout_word_of(const char *name, size_t length, const char *where,
                                              lk_error *err) {
	const char *names[WORDS];
	char plain[64], shown[64];
	for (size_t i = 0; i < WORDS; i++) {
		names[i] = words[i].name;
		if (strlen(names[i]) == length && strncmp(name, names[i], length) == 0) return &words[i];
	}
	lk_copy(plain, length < sizeof plain ? length + 1 : sizeof plain, name);
	const char *near = lk_nearest(plain, names, WORDS);
	lk_fail(err, LK_ERR_INPUT, where, "unknown word '%s'", lk_escape(plain, shown, sizeof shown));
	if (near) lk_hint(err, "did you mean %s? %s", near, list_hint);
	else lk_hint(err, "%s", list_hint);
	return NULL;
}

static void rollout_limits(const lk_rollout_word *word, char *out, size_t size) {
	const char *kind = word->kind == LK_ROLLOUT_REAL ? "a number" : "a whole number";
	if (word->kind == LK_ROLLOUT_NAME) lk_copy(out, size, "a text");
	else if (word->kind == LK_ROLLOUT_SWITCH) lk_copy(out, size, "0 or 1");
	else snprintf(out, size, "%s from %.10g to %.10g", kind, word->low, word->high);
}

/* `value`: as written. */
static lk_status rollout_refuse(const lk_rollout_word *word, const char *value, const char *where,
                                lk_error *err) {
	char shown[64], limits[64];
	rollout_limits(word, limits, sizeof limits);
	lk_fail(err, LK_ERR_INPUT, where, "%s must be %s, not '%s'", word->name, limits,
	        lk_escape(value, shown, sizeof shown));
	return lk_hint(err, "%s", list_hint);
}

static bool rollout_set(const lk_rollout_word *word, double number, lk_rollout_words *out) {
	LK_ASSERT(word->kind != LK_ROLLOUT_NAME);
	bool whole = word->kind == LK_ROLLOUT_REAL || number == floor(number);
	if (!(number >= word->low && number <= word->high && whole)) return false;
	memcpy((char *)out + word->offset, &number, sizeof number);
	return true;
}

static bool rollout_set_name(const lk_rollout_word *word, const char *name, lk_rollout_words *out) {
	LK_ASSERT(word->kind == LK_ROLLOUT_NAME);
	if (!*name) return false;
	memcpy((char *)out + word->offset, &name, sizeof name);
	return true;
}

/* ---- a file ---- */

static const char *rollout_shown(const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_STRING:
	case LK_JSON_NUMBER: return value->text;
	case LK_JSON_TRUE: return "true";
	case LK_JSON_FALSE: return "false";
	case LK_JSON_OBJECT: return "a map";
	case LK_JSON_ARRAY: return "a list";
	default: return "null";
	}
}

static lk_status rollout_take(const char *path, const char *key, const lk_value *value,
                              lk_rollout_words *out, lk_error *err) {
	char where[300];
	bool taken = false;
	snprintf(where, sizeof where, "%.250s:%d:%d", path, value->line, value->column);
	const lk_rollout_word *word = rollout_word_of(key, strlen(key), where, err);
	if (!word) return LK_ERR_INPUT;
	if (value->repeated) {
		lk_fail(err, LK_ERR_INPUT, where, "%s is given twice", word->name);
		return lk_hint(err, "leave one of them");
	}
	if (word->kind == LK_ROLLOUT_NAME)
		taken = value->kind == LK_JSON_STRING && rollout_set_name(word, value->text, out);
	else if (value->kind == LK_JSON_NUMBER) taken = rollout_set(word, value->number, out);
	else if (word->kind == LK_ROLLOUT_SWITCH)
		taken = (value->kind == LK_JSON_TRUE || value->kind == LK_JSON_FALSE) &&
		        rollout_set(word, value->kind == LK_JSON_TRUE, out);
	return taken ? LK_OK : rollout_refuse(word, rollout_shown(value), where, err);
}

static lk_status rollout_load(lk_arena *arena, const char *path, lk_rollout_words *out,
                              lk_error *err) {
	char *text;
	size_t size;
	lk_value *top;
	LK_TRY(lk_stream_slurp(path, FILE_BYTES, &text, &size, err));
	lk_status status = lk_document_parse(arena, text, size, path, &top, err);
	free(text);
	LK_TRY(status);
	if (top->kind != LK_JSON_OBJECT) {
		lk_fail(err, LK_ERR_INPUT, path, "the document is not a map of words");
		return lk_hint(err, "write lines as sequences: 1024; %s", list_hint);
	}
	for (size_t i = 0; i < top->count; i++)
		LK_TRY(rollout_take(path, top->keys[i], &top->items[i], out, err));
	return LK_OK;
}

/* ---- the text ---- */

static bool rollout_names_file(const char *word) {
	size_t name = strcspn(word, "= ,");
	return strcspn(word, "./") < name;
}

const char *lk_rollout_file(const char *text, size_t *length) {
	for (; text && *(text += strspn(text, " ,")); text += *length) {
		*length = strcspn(text, " ,");
		if (rollout_names_file(text)) return text;
	}
	return NULL;
}

static lk_status rollout_read_word(const char *said, lk_rollout_words *out, lk_error *err) {
	static const char where[] = "--rollout";
	size_t length = strcspn(said, "=");
	const char *value = said[length] ? said + length + 1 : NULL, *end;
	const lk_rollout_word *word = rollout_word_of(said, length, where, err);
	if (!word) return LK_ERR_INPUT;
	if (!value) {
		lk_fail(err, LK_ERR_INPUT, where, "%s has no value", word->name);
		return lk_hint(err, "write %s=%s; %s", word->name, word->unit, list_hint);
	}
	if (word->kind == LK_ROLLOUT_NAME)
		return rollout_set_name(word, value, out) ? LK_OK : rollout_refuse(word, "", where, err);
	double number = lk_read_real(value, &end);
	bool read = end > value && *end == '\0';
	return read && rollout_set(word, number, out) ? LK_OK : rollout_refuse(word, value, where, err);
}

lk_status lk_rollout_words_read(lk_arena *arena, const char *text, lk_rollout_words *out,
                                lk_error *err) {
	char *rest = text ? lk_arena_strdup(arena, text) : NULL;
	if (text && !rest) return lk_oom(err);
	for (char *word; rest && (word = strsep(&rest, " ,"));) {
		if (!*word) continue;
		if (rollout_names_file(word)) LK_TRY(rollout_load(arena, word, out, err));
		else LK_TRY(rollout_read_word(word, out, err));
	}
	return LK_OK;
}
