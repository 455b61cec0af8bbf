/* config_rollout.c: what the settings of a post-training framework mean together:
 *
 *     sequences of a step = prompts * responses to each
 *     experts on more GPUs than split a layer: the engine has so many GPUs, which attend to
 *         sequences of their own (vLLM's expert parallelism over data parallel ranks)
 *     engines that run ahead need GPUs of their own
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/noun.h"
#include "launch/config/config.h"

/* Names of formats as lockstep has them; "auto" and what is unknown state nothing. */
static void rollout_format(char *format, size_t size) {
	static const lk_pair names[] = {{"bfloat16", "bf16"}, {"bf16", "bf16"}, {"float16", "fp16"},
	                                {"half", "fp16"},     {"fp16", "fp16"}, {"mxfp8", "mxfp8"},
	                                {"nvfp4", "nvfp4"},   {NULL, NULL}};
	const char *ours = strncasecmp(format, "fp8", 3) == 0 ? "fp8" : "";
	for (const lk_pair *name = names; name->theirs; name++)
		if (strcasecmp(name->theirs, format) == 0) ours = name->ours;
	char kept[16];
	lk_copy(kept, sizeof kept, ours);
	lk_copy(format, size, kept);
}

/* The engine as lockstep names it; one that was not measured is taken as vLLM. */
static lk_status rollout_engine(const lk_config *config, lk_launch_rollout *rollout) {
	static const lk_pair names[] = {{"vllm", "vllm"},
	                                {"sglang", "sglang"},
	                                {"trtllm", "tensorrt-llm"},
	                                {"tensorrt_llm", "tensorrt-llm"},
	                                {NULL, NULL}};
	char said[sizeof rollout->engine], shown[48];
	lk_copy(said, sizeof said, rollout->engine);
	lk_copy(rollout->engine, sizeof rollout->engine, "vllm");
	for (const lk_pair *name = names; name->theirs; name++) {
		if (strcasecmp(name->theirs, said) != 0) continue;
		lk_copy(rollout->engine, sizeof rollout->engine, name->ours);
		return LK_OK;
	}
	if (!*said) return lk_launch_assume(config->reading, "vllm generates (--engine)");
	return lk_launch_assume(config->reading, "%s generates as vllm does (--engine)",
	                        lk_escape(said, shown, sizeof shown));
}

static lk_status rollout_layout(const lk_config *config, lk_launch_rollout *rollout) {
	if (rollout->tp < 1) rollout->tp = 1;
	if (rollout->pp < 1) rollout->pp = 1;
	if (rollout->ep > rollout->tp) {
		LK_TRY(lk_launch_assume(
			config->reading, "engines of %d %s share experts and attend to sequences of their own",
			rollout->ep, lk_noun(rollout->ep, "GPU", "GPUs")));
		rollout->tp = rollout->ep;
		rollout->attention_dp = true;
	}
	if (rollout->engines > 0 && rollout->gpus == 0 &&
	    (int64_t)rollout->engines * rollout->tp * rollout->pp <= LK_JOB_GPUS)
		rollout->gpus = rollout->engines * rollout->tp * rollout->pp;
	if (rollout->lag == 0 || rollout->gpus > 0) return LK_OK;
	rollout->lag = 0;
	return lk_launch_note(config->reading, "asynchronous steps",
	                      "engines on the GPUs that train cannot run ahead");
}

lk_status lk_draft_rollout(const lk_config *config, const lk_draft *draft) {
	if (!*draft->rollout.task) return LK_OK;
	lk_launch_rollout *rollout = LK_NEW(config->reading->arena, lk_launch_rollout);
	if (!rollout) return lk_oom(config->reading->err);
	*rollout = draft->rollout;
	rollout->shared_rows = draft->mbs_most;
	LK_TRY(rollout_engine(config, rollout));
	LK_TRY(rollout_layout(config, rollout));
	rollout_format(rollout->format, sizeof rollout->format);
	rollout_format(rollout->kv_format, sizeof rollout->kv_format);
	if (rollout->samples < 1) rollout->samples = 1;
	if (rollout->sequences == 0 && rollout->prompts > 0 &&
	    (int64_t)rollout->prompts * rollout->samples <= 10000000)
		rollout->sequences = rollout->prompts * rollout->samples;
	config->reading->out->rollout = rollout;
	return LK_OK;
}
