/* keys_llama_factory.c: LLaMA-Factory v1's YAML (src/llamafactory/v1). */
#include <string.h>

#include "base/text.h"
#include "launch/config.h"

static const lk_pair adapters[] = {{"lora", "1"}, {"qlora", "1"}, {"freeze", "0"}, {NULL, NULL}};
static const lk_pair quants[] = {{"bnb", "1"}, {"gptq", "1"}, {"awq", "1"}, {NULL, NULL}};

static const lk_key keys[] = {
	LK_FACT("model", "network_name"),
	LK_FACT("micro_batch_size", "mbs"),
	LK_FACT("global_batch_size", "gbs"),
	LK_FACT("gradient_accumulation_steps", "accumulation"),
	LK_FACT("cutoff_len", "seq"),
	LK_FACT("cp_size", "cp"),
	LK_FACT("dist_config.cp_size", "cp"),
	LK_FACT("dist_config.ep_size", "ep"),
	LK_FACT("dist_config.mp_replicate_size", "dp_replicate"),
	LK_FACT("dist_config.mp_shard_size", "dp_shard"),
	LK_FACT("bf16", "bf16"),
	LK_FACT("fp16", "fp16"),
	LK_FACT("flash_attn", "attention_name"),
	LK_FACT("enable_activation_checkpointing", "recompute_text"),
	LK_FACT("gradient_checkpointing", "recompute_text"),
	LK_FACT("optim_config.name", "optimizer_name"),
	LK_FACT("dist_config.name", "strategy"),
	LK_FACT("dist_config.config_file", "deepspeed"),
	LK_SKIP("optim_config*", LK_WHY_RATE),
	LK_NOTE("mtp_config*", "prediction of several tokens is priced as the network states it"),
	LK_WORDS("peft_config.name", "adapter", adapters),
	LK_FACT("peft_config.r", "lora_rank"),
	LK_WORDS("quant_config.name", "quantized", quants),
	LK_SKIP("quant_config*", "see quant_config.name"),
	LK_NOTE("peft_config.freeze_trainable_layers", "all weights are priced as trained"),
	LK_SKIP("peft_config*", "how adapters are computed and scaled changes no shape"),
	LK_SKIP("dist_config*", LK_WHY_SAVING),
	LK_SKIP("init_config*", LK_WHY_START),
	LK_SKIP("kernel_config*", "fusion of single kernels is not modelled"),
	LK_SKIP("cp_mode", "context parallelism is modelled as a ring"),
	LK_SKIP("model_class", "a language model is priced; others are refused"),
	LK_SKIP("train_dataset", LK_WHY_DATA),
	LK_SKIP("batching*", LK_WHY_DATA),
	LK_SKIP("eval*", LK_WHY_EVAL),
	LK_SKIP("sample_backend", LK_WHY_EVAL),
	LK_SKIP("max_new_tokens", LK_WHY_EVAL),
	LK_SKIP("output_dir", LK_WHY_SAVING),
	LK_SKIP("save*", LK_WHY_SAVING),
	LK_SKIP("learning_rate", LK_WHY_RATE),
	LK_SKIP("max_steps", LK_WHY_LENGTH),
	LK_SKIP("num_train_epochs", LK_WHY_LENGTH),
	LK_SKIP("trust_remote_code", LK_WHY_START),
	LK_SKIP("template", LK_WHY_DATA),
	LK_SKIP("logging*", LK_WHY_LOGGING),
	LK_SKIP("report_to", LK_WHY_LOGGING),
	LK_SKIP("dpo_*", LK_WHY_RATE),
	LK_KEYS_END};

static bool factory_v1_is(const lk_value *root) {
	return lk_config_at(root, "model") &&
	       (lk_config_at(root, "model_class") || lk_config_at(root, "dist_config"));
}

static lk_status factory_v1_translate(const lk_config *config, lk_words *words) {
	static const lk_key *const tables[] = {keys, NULL};
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
