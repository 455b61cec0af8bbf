/* keys_nanotron.c: HuggingFace's nanotron (src/nanotron/config). The network is stated in the terms
 * of a HuggingFace config.json.
 *
 *     global batch = micro_batch_size * batch_accumulation_per_replica * dp;  gpus = dp tp pp cp */
#include <string.h>

#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

static int nanotron_whole(const lk_value *value, const char *key) {
	const lk_value *member = lk_config_at(value, key);
	bool fits =
		member && member->kind == LK_JSON_NUMBER && member->number >= 0 && member->number < 1 << 24;
	return fits ? (int)member->number : 0;
}

lk_status lk_own_nanotron_network(const lk_config *config, lk_draft *draft) {
	lk_model *model = &draft->job.model;
	const lk_value *shape = lk_config_at(config->root, "model.model_config");
	const lk_value *experts = lk_config_at(shape, "moe_config");
	static const char *const types[][2] = {{"is_qwen2_config", "qwen2"},
	                                       {"is_starcoder2_config", "starcoder2"},
	                                       {"is_mamba_config", "mamba"}};
	const char *type = "llama";
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (lk_config_on(shape, types[i][0])) type = types[i][1];
	bool qwen = strcmp(type, "qwen2") == 0;
	LK_TRY(
		lk_model_from_hf(shape, config->reading->where, type, model, NULL, config->reading->err));
	if (lk_config_on(shape, "multi_query")) model->kv_heads = 1;
	if (qwen) model->qkv_bias = lk_config_on(shape, "attention_bias");
	if (!experts) return LK_OK;
	model->experts = nanotron_whole(experts, "num_experts");
	model->topk = nanotron_whole(experts, "top_k");
	model->expert_ffn = nanotron_whole(experts, "moe_intermediate_size");
	if (model->expert_ffn == 0) model->expert_ffn = model->ffn;
	if (lk_config_on(experts, "enable_shared_expert")) {
		model->shared_ffn = nanotron_whole(experts, "shared_expert_intermediate_size");
		if (model->shared_ffn == 0) model->shared_ffn = model->ffn;
	}
	model->moe_every = 1;
	return lk_model_check(model, config->reading->where, config->reading->err);
}
