/* keys_torchtune.c: torchtune's recipes (pytorch/torchtune, recipes): what no row of
 * data/launch/torchtune.csv can say.
 *
 * The builder's name says what trains: lora_llama3_1_8b adapters, qlora_ adapters of 4-bit weights.
 * Recipes for a single device do not shard, all others run FSDP2; the recipe and its GPUs are in
 * the command of a comment. Weights, gradients and the moments of torch.optim have one format,
 * dtype. */
#include <string.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(torchtune);

static const char *torchtune_text(const lk_value *root, const char *path) {
	const char *text = lk_config_text(lk_config_at(root, path));
	return text ? text : "";
}

static bool torchtune_is(const lk_value *root) {
	return strncmp(torchtune_text(root, "model._component_"), "torchtune.", 10) == 0;
}

static void torchtune_numbers(const lk_config *config, lk_draft *draft) {
	if (strcmp(draft->format, "bf16") != 0) return;
	draft->job.master_weights = draft->job.fp32_grads = draft->job.grad_reduce_fp32 = LK_OFF;
	if (strstr(torchtune_text(config->root, "optimizer._component_"), "torch.optim"))
		draft->job.state_dtype = LK_BF16;
}

static lk_status torchtune_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {lk_keys_torchtune, NULL};
	static const char *const per_node[] = {"--nproc_per_node", NULL}, *const nodes[] = {"--nnodes",
	                                                                                    NULL};
	const char *builder = torchtune_text(config->root, "model._component_");
	lk_draft draft = {.adapter = strstr(builder, "lora_") != NULL};
	(void)words;
	if (!lk_config_at(config->root, "optimizer"))
		return lk_config_fail(config, "optimizer", "it is missing: the recipe trains nothing",
		                      "give a recipe that trains");
	LK_TRY(lk_draft_read(config, tables, &draft));
	draft.job.narrow_base = strstr(builder, "qlora_") != NULL;
	if (draft.adapter && draft.job.lora_rank == 0) draft.job.lora_rank = 8;
	if (strstr(config->text, "_single_device --config")) draft.all_gpus = 1;
	else lk_copy(draft.fsdp, sizeof draft.fsdp, "full_shard");
	draft.per_node = lk_config_commented(config, per_node);
	draft.nodes = lk_config_commented(config, nodes);
	torchtune_numbers(config, &draft);
	draft.pairs = draft.job.dpo =
		lk_ends_in(torchtune_text(config->root, "loss._component_"), "DPOLoss");
	if (draft.job.seq == 0) LK_TRY(lk_draft_assume_length(config, &draft));
	return lk_draft_finish(config, &draft);
}

const lk_framework lk_framework_torchtune = {"torchtune", torchtune_is, NULL, torchtune_translate};
