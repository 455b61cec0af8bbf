/* keys_axolotl.c: axolotl's YAML (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas).
 *
 *     global batch = micro_batch_size * gradient_accumulation_steps * gpus / (cp tp)
 * An empty adapter trains all weights; with sample_packing a row is sequence_len tokens. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(axolotl);

static bool axolotl_is(const lk_value *root) {
	return lk_config_at(root, "base_model") != NULL &&
	       (lk_config_at(root, "sequence_len") != NULL || lk_config_at(root, "datasets") != NULL);
}

/* What reinforcement and preferences add to a step. */
static lk_status axolotl_method(const lk_config *config, lk_draft *draft) {
	const char *method = lk_config_text(lk_config_at(config->root, "rl"));
	if (!method) return LK_OK;
	static const char *const refused[] = {"kto", "ebft", "grpo", "gdpo", "ppo"};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (strcasecmp(method, refused[i]) == 0)
			return lk_config_fail(config, "rl", "this method's step is more than training",
			                      "dpo, ipo, orpo and simpo can be predicted");
	draft->pairs = true;
	draft->job.dpo = strcasecmp(method, "dpo") == 0 || strcasecmp(method, "ipo") == 0;
	return LK_OK; /* orpo and simpo have no reference */
}

static lk_status axolotl_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_axolotl, NULL};
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	LK_TRY(axolotl_method(config, &draft));
	LK_TRY(lk_draft_read(config, tables, &draft));
	if (draft.job.mbs == 0) draft.job.mbs = 1;
	/* batch_size is that of a rank */
	if (draft.accumulation == 0) draft.accumulation = draft.multiple / draft.job.mbs;
	if (draft.accumulation == 0) draft.accumulation = 1;
	if (!draft.adapter) draft.job.lora_rank = 0;
	if (draft.job.seq == 0) {
		draft.job.seq = 512;
		LK_TRY(lk_launch_assume(config->reading, "sequences of 512 tokens: axolotl's default"));
	}
	bool engine = *draft.deepspeed || lk_config_at(config->root, "deepspeed");
	bool sharded = lk_config_at(config->root, "fsdp") || lk_config_at(config->root, "fsdp_config");
	bool meshed = draft.dp_shard > 1 || draft.job.tp > 1 || draft.job.cp > 1 || draft.job.ep > 1;
	if ((sharded || (meshed && !*draft.deepspeed)) && !*draft.sharding_name && !*draft.fsdp)
		lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	const lk_value *plugins = lk_config_at(config->root, "plugins");
	for (size_t i = 0; plugins && plugins->kind == LK_JSON_ARRAY && i < plugins->count; i++) {
		const char *name = lk_config_text(&plugins->items[i]);
		if (name && strstr(name, "cut_cross_entropy")) draft.job.loss = LK_LOSS_CUT;
	}
	/* weights are loaded in bf16, which accelerate widens for FSDP, and DeepSpeed for itself */
	if (draft.bf16 && !draft.adapter && !engine && !sharded && !meshed && !*draft.sharding_name &&
	    !*draft.fsdp) {
		draft.job.master_weights = LK_OFF;
		draft.job.state_dtype = LK_BF16;
	}
	if (!draft.packing)
		LK_TRY(lk_launch_assume(config->reading,
		                        "sequences are full: without sample_packing %d tokens are an upper "
		                        "bound (--seq)",
		                        draft.job.seq));
	config->reading->out->samples =
		lk_config_at(config->root, "processor_type") ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_axolotl = {"axolotl", axolotl_is, NULL, axolotl_translate};
