/* predict_rollout.c: files and command lines of post-training frameworks: their statements about
 * generation and the other phases, as the equivalent options of `predict --task grpo`.
 *
 * No such file states the length of responses: half of the limit is assumed unless it is given, and
 * the range of the answer then extends from a quarter of it to the limit for all. For prompts,
 * whose limit exists to drop the longest, a quarter of it is assumed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "rollout/rollout.h"

enum { ROLLOUT_TEXT = 1024 };

lk_status lk_rollout_stated(lk_arena *arena, const lk_predict_request *request, bool *stated,
                            const char **alone, lk_error *err) {
	*stated = false;
	if (alone) *alone = NULL;
	if (!lk_request_launched(request) || request->task || request->emit) return LK_OK;
	lk_asked *asked = LK_NEW(arena, lk_asked);
	if (!asked) return lk_oom(err);
	LK_TRY(lk_request_take(arena, request, asked, err));
	if (!asked->launch.rollout) return LK_OK;
	const char *lacks = lk_engine_lacks(&asked->job.model);
	*stated = lacks == NULL;
	if (!lacks || !alone) return LK_OK;
	*alone = lk_arena_printf(arena,
	                         "the training part of a step alone: generation of %s is not "
	                         "modelled, %s",
	                         asked->job.model.name, lacks);
	return *alone ? LK_OK : lk_oom(err);
}

static void add_word(char text[ROLLOUT_TEXT], const char *name, double value) {
	size_t used = strlen(text);
	if (value > 0) snprintf(text + used, ROLLOUT_TEXT - used, "%s=%.10g ", name, value);
}

static void add_off_word(char text[ROLLOUT_TEXT], const char *name, bool off) {
	size_t used = strlen(text);
	if (off) snprintf(text + used, ROLLOUT_TEXT - used, "%s=0 ", name);
}

/* Only for the critic: 1 moved, -1 kept, 0 as the policy's. */
static void add_critic_word(char text[ROLLOUT_TEXT], const char *name, int moved) {
	add_word(text, name, moved > 0);
	add_off_word(text, name, moved < 0);
}

static void add_name_word(char text[ROLLOUT_TEXT], const char *name, const char *value) {
	size_t used = strlen(text);
	if (*value) snprintf(text + used, ROLLOUT_TEXT - used, "%s=%s ", name, value);
}

/* The network that a file names, as a preset or a Hugging Face name; anything else, such as a local
 * path, is assumed to be as large as the policy. */
static const char *named_network(const char *name) {
	lk_model model;
	lk_error none;
	return lk_model_preset(name, &model, &none) == LK_OK ? name : "policy";
}

/* The words of --rollout; those of the request follow, so that they override. */
static const char *rollout_words(lk_arena *arena, const lk_launch_rollout *rollout, int gbs,
                                 const char *over) {
	char text[ROLLOUT_TEXT] = "";
	add_word(text, "sequences", rollout->sequences > 0 ? rollout->sequences : gbs);
	add_word(text, "oversample", rollout->oversample);
	add_word(text, "epochs", rollout->epochs);
	add_word(text, "gpus", rollout->gpus);
	add_word(text, "tp", rollout->tp);
	add_word(text, "pp", rollout->pp);
	add_word(text, "ep", rollout->ep);
	add_word(text, "lag", rollout->lag);
	add_word(text, "eager", rollout->eager);
	add_word(text, "padded", rollout->padded);
	add_word(text, "full_rows", rollout->full_rows);
	add_word(text, "by_sequence", rollout->by_sequence && !rollout->padded);
	add_word(text, "pinned_params", rollout->pinned_params);
	add_word(text, "critic_gpus", rollout->critic_gpus);
	add_word(text, "teacher_gpus", rollout->teacher_gpus);
	add_word(text, "teacher_tp", rollout->teacher_tp);
	add_off_word(text, "policy", rollout->no_policy);
	add_off_word(text, "reference", rollout->no_reference);
	add_off_word(text, "offload_params", rollout->keep_params);
	add_off_word(text, "offload_optimizer", rollout->keep_optimizer);
	add_off_word(text, "offload_reference", rollout->keep_reference);
	add_off_word(text, "sleep", rollout->no_sleep);
	add_word(text, "critic_epochs", rollout->critic_epochs);
	add_critic_word(text, "critic_offload_params", rollout->critic_params);
	add_critic_word(text, "critic_offload_optimizer", rollout->critic_optimizer);
	const char *const networks[][2] = {{"critic", rollout->critic},
	                                   {"reward_model", rollout->reward_model},
	                                   {"teacher", rollout->teacher}};
	for (int i = 0; i < 3; i++)
		if (*networks[i][1]) add_name_word(text, networks[i][0], named_network(networks[i][1]));
	add_name_word(text, "dtype", rollout->format);
	return lk_arena_printf(arena, "%s %s", text, over ? over : "");
}

/* The batch of a step stated by micro-batches. */
static int stated_batch(const lk_job *job) {
	int64_t degrees = 1, batch;
	const int each[] = {job->tp, job->pp, job->cp};
	for (int i = 0; i < 3; i++) degrees *= each[i] > 1 && degrees <= LK_JOB_GPUS ? each[i] : 1;
	if (job->gbs > 0 || job->mbs <= 0) return job->gbs;
	batch = (int64_t)job->mbs * (job->microbatches > 0 ? job->microbatches : 1);
	batch *= job->gpus / degrees > 0 ? job->gpus / degrees : 1;
	return batch <= 10000000 ? (int)batch : 0;
}

lk_status lk_rollout_fill(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                          lk_predict_request *out, bool *mean_open, lk_error *err) {
	const lk_launch_rollout *rollout = asked->launch.rollout;
	*out = *request;
	*mean_open = false;
	if (out->gbs == 0) out->gbs = stated_batch(&asked->job);
	if (!out->gpu && !out->cluster) out->gpu = asked->launch.device;
	if (!rollout) return LK_OK;
	if (!out->task) out->task = rollout->task;
	out->rollout = rollout_words(arena, rollout, out->gbs, request->rollout);
	if (!out->rollout) return lk_oom(err);
	if (out->samples == 0) out->samples = rollout->samples;
	if (out->response_max == 0) out->response_max = rollout->response_most;
	if (out->prompt == 0 && rollout->prompt_most > 0)
		out->prompt = fmax(1, floor(rollout->prompt_most / 4));
	if (out->gpu_mem_util == 0 && rollout->memory_share > 0.01 && rollout->memory_share <= 1)
		out->gpu_mem_util = rollout->memory_share;
	if (out->max_sequences == 0) out->max_sequences = rollout->max_sequences;
	if (out->max_tokens == 0) out->max_tokens = rollout->max_tokens;
	if (!out->engine && *rollout->engine) out->engine = rollout->engine;
	if (!out->kv_dtype && *rollout->kv_format) out->kv_dtype = rollout->kv_format;
	if (out->prefix_caching == 0 && rollout->no_prefix_caching) out->prefix_caching = -1;
	out->attention_dp |= rollout->attention_dp;
	bool known = out->response > 0 || (out->lengths && !lk_lengths_named(out->lengths));
	if (!known && out->response_max > 0) {
		*mean_open = true;
		out->response = fmax(1, out->response_max / 2);
	}
	return LK_OK;
}
