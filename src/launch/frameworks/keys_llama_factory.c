/* keys_llama_factory.c: LLaMA-Factory v1's YAML (src/llamafactory/v1). */
#include <string.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(llama_factory_v1);

static bool factory_v1_is(const lk_value *root) {
	return lk_config_at(root, "model") &&
	       (lk_config_at(root, "model_class") || lk_config_at(root, "dist_config"));
}

static lk_status factory_v1_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_llama_factory_v1, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_draft_read(config, tables, &draft));
	const char *class = lk_config_text(lk_config_at(config->root, "model_class"));
	if (class && strcmp(class, "cls") == 0)
		return lk_config_fail(config, "model_class",
		                      "a classifier or reward model is trained, whose head is not modelled",
		                      "language models can be predicted");
	if (strncmp(draft.strategy, "fsdp", 4) == 0)
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	if (!lk_config_at(config->root, "bf16")) draft.bf16 = !draft.fp16;
	if (draft.job.mbs == 0) draft.job.mbs = 1;
	if (draft.job.seq == 0) draft.job.seq = 2048;
	if (!draft.adapter) draft.job.lora_rank = 0;
	else if (draft.job.lora_rank == 0) draft.job.lora_rank = 8;
	if (!*draft.recompute_text) lk_copy(draft.recompute_text, sizeof draft.recompute_text, "true");
	LK_TRY(lk_launch_assume(config->reading,
	                        "LLaMA-Factory's defaults where nothing is stated: bf16, activations "
	                        "recomputed, 2048 tokens"));
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_llama_factory_v1 = {"llama-factory", factory_v1_is, NULL,
                                                    factory_v1_translate};
