/* emit_files.c: writes configurations of axolotl, LLaMA-Factory, nanotron and accelerate: the jobs
 * that they cannot run, and the rules that their rows in data/launch name. Data, rates and length
 * are placeholders, as a prediction does not know them.
 *
 *     accumulation = micro-batches of a step on a replica;  replicas = gpus / (tp cp) */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/emit/rows.h"
#include "model/layout/sizes.h"

LK_KEYS(axolotl);
LK_KEYS(trainer_llama_factory);
LK_KEYS(nanotron);
LK_KEYS(accelerate);
LK_KEYS(trainer);

/* ---- shared ---- */

static bool files_fsdp(const lk_job *job) {
	return strcmp(job->stack, "fsdp") == 0 || strcmp(job->stack, "llm-foundry") == 0 ||
	       strcmp(job->stack, "torchtitan") == 0;
}

static bool files_ddp(const lk_job *job) {
	return strcmp(job->stack, "ddp") == 0;
}

static bool files_deepspeed(const lk_job *job) {
	return strcmp(job->stack, "deepspeed") == 0;
}

static bool files_hybrid(const lk_job *job) {
	return lk_emit_shard(job) < job->dp * job->cp;
}

/* One of HuggingFace's trainers: FSDP, DDP or DeepSpeed, without a pipeline. */
static const char *files_trainer_lacks(const lk_job *job, const char *optimizer) {
	if (!optimizer)
		return "it has no name for the optimizer; add --optimizer adam, adam-8bit or lion";
	if (!files_fsdp(job) && !files_ddp(job) && !files_deepspeed(job))
		return "the layout is one of Megatron-LM; add --stack fsdp, ddp or deepspeed";
	if (job->pp > 1) return "it has no pipeline parallelism; add --pp 1";
	if (files_fsdp(job) && job->offload_optimizer && !job->offload_params)
		return "FSDP moves parameters with the optimizer's states; add --offload-params";
	if (files_fsdp(job) && job->sharding == LK_SHARD_ZERO1)
		return "FSDP shards gradients with the optimizer's states; add --zero 2 or --zero 3";
	return NULL;
}

/* Whether the job offloads only optimizer states with ZeRO 3: published configurations offload
 * both. */
static bool files_offloads_half(const lk_job *job) {
	return files_deepspeed(job) && job->sharding == LK_SHARD_ZERO3 && job->offload_optimizer &&
	       !job->offload_params;
}

#define OFFLOADS_BOTH                                                                \
	"its configuration of ZeRO 3 moves parameters with the optimizer's states; add " \
	"--offload-params"

/* ---- rules of several frameworks ---- */

static const char *files_if(bool is, const char *value) {
	return is ? value : NULL;
}

/* Define a rule that leaves the row out unless a condition of `job` holds. */
#define ONLY(name, is)                                                           \
	const char *lk_rule_##name(const lk_emission *emission, const char *value) { \
		const lk_job *job = emission->job;                                       \
		return files_if(is, value);                                              \
	}

ONLY(pipeline, job->pp > 1)
ONLY(experts, job->model.experts > 0)
ONLY(images, lk_emit_images(job))
ONLY(adapters, job->task == LK_TASK_LORA)
ONLY(adapts_all, job->task == LK_TASK_LORA && job->adapted == LK_ADAPT_LINEAR)
ONLY(narrow_base, job->task == LK_TASK_LORA && job->narrow_base)
ONLY(base_of_4, job->task == LK_TASK_LORA && job->narrow_base && !lk_base_of(job)->integers)
ONLY(base_of_8, job->task == LK_TASK_LORA && job->narrow_base && lk_base_of(job)->integers)
ONLY(fsdp, files_fsdp(job))
ONLY(deepspeed, files_deepspeed(job))
ONLY(hybrid, files_fsdp(job) && files_hybrid(job))
ONLY(tokens, job->model.vocab > 0)
ONLY(attends, job->model.heads > 0)
ONLY(recomputes_all, job->recompute == LK_RECOMPUTE_FULL)

/* Of names of linear layers those that have adapters, between them what separates them; out where
 * all of them have. */
const char *lk_rule_adapts(const lk_emission *emission, const char *value) {
	const lk_job *job = emission->job;
	const char *out = NULL;
	if (job->task != LK_TASK_LORA || (job->adapted & LK_ADAPT_LINEAR) == LK_ADAPT_LINEAR)
		return NULL;
	for (size_t length; *value; value += length + (value[length] != '\0')) {
		length = strcspn(value, " ,");
		const char *name = lk_arena_strndup(emission->arena, value, length);
		if (!name || !(lk_adapters_find(name) & job->adapted & LK_ADAPT_LINEAR)) continue;
		out = out ? lk_arena_printf(emission->arena, "%s%c%s", out, value[-1], name) : name;
	}
	return out;
}

/* The same of Megatron-LM's products, which all have adapters where nothing is said. */
const char *lk_rule_core_adapts(const lk_emission *emission, const char *value) {
	(void)value;
	const char *names = lk_rule_adapts(emission, "linear_qkv,linear_proj,linear_fc1,linear_fc2");
	return names ? lk_arena_printf(emission->arena, "[%s]", names) : NULL;
}

/* Megatron-Bridge's name of a mixed precision; out for that of its recipes (bridge/training/
 * mixed_precision.py). */
const char *lk_rule_bridge_format(const lk_emission *emission, const char *value) {
	static const char *const eights[] = {
		[LK_FP8_DELAYED] = "bf16_with_fp8_delayed_scaling_mixed",
		[LK_FP8_TENSORWISE] = "bf16_with_fp8_current_scaling_mixed",
		[LK_FP8_BLOCKWISE] = "bf16_with_fp8_subchannel_scaling_mixed"};
	lk_dtype dtype = emission->job->dtype;
	return dtype == LK_FP8 ? eights[emission->job->fp8_recipe] : files_if(dtype != LK_BF16, value);
}

/* Leave the row out unless its switch is on. */
const char *lk_rule_on(const lk_emission *emission, const char *value) {
	(void)emission;
	return files_if(strcmp(value, "true") == 0, value);
}

/* Leave the row out if the framework has no name for the value. */
const char *lk_rule_named(const lk_emission *emission, const char *value) {
	(void)emission;
	return files_if(*value != '\0', value);
}

/* Leave the row out unless the degree is above 1. */
const char *lk_rule_several(const lk_emission *emission, const char *value) {
	(void)emission;
	return files_if(strcmp(value, "0") != 0 && strcmp(value, "1") != 0, value);
}

/* Objectives by name; out for one that compares tokens. */
const char *lk_rule_preferences(const lk_emission *emission, const char *value) {
	lk_objective objective = emission->job->objective;
	(void)value;
	bool is = objective != LK_OBJECTIVE_TOKENS && objective != LK_OBJECTIVE_REWARD;
	return files_if(is, lk_objective_names[objective]);
}

ONLY(rewards, job->objective == LK_OBJECTIVE_REWARD)
ONLY(orders, job->objective == LK_OBJECTIVE_ORPO)

/* A linear loss is one kind of fused loss. */
const char *lk_rule_loss_switch(const lk_emission *emission, const char *value) {
	return emission->job->loss == LK_LOSS_LINEAR ? "true" : value;
}

/* ---- axolotl ---- */

/* axolotl's own names come first (src/axolotl/utils/schemas/enums.py, CustomSupportedOptimizers).
 */
static const char *axolotl_optimizer(const lk_job *job) {
	return job->optimizer == LK_OPT_ADAM_FLASH ? "flash_adamw" : lk_emit_optimizer(job);
}

const char *lk_axolotl_lacks(const lk_job *job) {
	if (job->model.network != LK_NET_DECODER) return "it trains decoders alone; use accelerate";
	if (files_offloads_half(job)) return OFFLOADS_BOTH;
	if (job->optimizer == LK_OPT_ADAM_FLASH && files_deepspeed(job))
		return "its flash_adamw does not run under DeepSpeed; add --stack fsdp or ddp";
	if (job->loss == LK_LOSS_CHUNKED) /* src/axolotl/monkeypatch/loss/chunked.py */
		return "its chunked_cross_entropy makes all logits first; use --loss linear, --loss cut or "
			   "--fused-loss";
	return files_trainer_lacks(job, axolotl_optimizer(job));
}

const char *lk_rule_axolotl_optimizer(const lk_emission *emission, const char *value) {
	(void)value;
	return axolotl_optimizer(emission->job);
}

/* Prompt strategies of data with a chosen and a rejected answer (src/axolotl/prompt_strategies). */
const char *lk_rule_axolotl_data(const lk_emission *emission, const char *value) {
	static const char *const types[] = {[LK_OBJECTIVE_DPO] = "chat_template.default",
	                                    [LK_OBJECTIVE_KTO] = "chatml.argilla",
	                                    [LK_OBJECTIVE_ORPO] = "chat_template.argilla",
	                                    [LK_OBJECTIVE_REWARD] = "bradley_terry.chat_template"};
	lk_objective objective = emission->job->objective;
	return objective == LK_OBJECTIVE_TOKENS ? value : types[objective];
}

const char *lk_rule_axolotl_adapter(const lk_emission *emission, const char *value) {
	const lk_job *job = emission->job;
	(void)value;
	return files_if(job->task == LK_TASK_LORA,
	                job->narrow_base && !lk_base_of(job)->integers ? "qlora" : "lora");
}

const char *lk_rule_twice_rank(const lk_emission *emission, const char *value) {
	(void)value;
	if (emission->job->task != LK_TASK_LORA) return NULL;
	return lk_arena_printf(emission->arena, "%d", 2 * emission->job->lora_rank);
}

const char *lk_rule_axolotl_deepspeed(const lk_emission *emission, const char *value) {
	const lk_job *job = emission->job;
	(void)value;
	if (!files_deepspeed(job)) return NULL;
	if (job->offload_params) return "deepspeed_configs/zero3_bf16_cpuoffload_all.json";
	return lk_arena_printf(emission->arena, "deepspeed_configs/zero%d.json", (int)job->sharding);
}

ONLY(loss_cut, job->loss == LK_LOSS_CUT)
ONLY(loss_fused, job->loss == LK_LOSS_LOGITS && job->fused_cross_entropy == LK_ON)
ONLY(liger_plugin, job->loss == LK_LOSS_LINEAR ||
                       (job->loss == LK_LOSS_LOGITS && job->fused_cross_entropy == LK_ON))

/* The command of a node. */
static const char *files_torchrun(const lk_emission *emission, const char *program) {
	return lk_arena_printf(emission->arena, "torchrun --nnodes=%d --nproc_per_node=%d %s",
	                       emission->nodes, emission->per_node, program);
}

/* Write a configuration: `command` (NULL: out of memory) in its first line, then its rows; the
 * program starts with
 * `words` and the file. */
static bool files_write(lk_emission *emission, const char *command, const char *file,
                        const lk_key *rows, const char *const *words) {
	lk_page page = {emission->arena, command ? "" : NULL};
	lk_page_add(&page, "# %s\n", command ? command : "");
	lk_emit_file(&page, emission, rows);
	emission->contents = page.text;
	emission->file = file;
	if (page.text == NULL) return false;
	for (; *words; words++)
		if (!lk_put_word(&emission->program, *words)) return false;
	return lk_put_word(&emission->program, file);
}

bool lk_write_axolotl(lk_emission *emission) {
	static const char *const words[] = {"-m", "axolotl.cli.train", NULL};
	return files_write(emission, files_torchrun(emission, "-m axolotl.cli.train axolotl.yaml"),
	                   "axolotl.yaml", lk_keys_axolotl, words);
}

/* ---- LLaMA-Factory ---- */

const char *lk_llama_factory_lacks(const lk_job *job) {
	if (job->model.network != LK_NET_DECODER) return "it trains decoders alone; use accelerate";
	if (files_offloads_half(job)) return OFFLOADS_BOTH;
	if (lk_job_like_megatron(job)) {
		if (job->task == LK_TASK_LORA)
			return "it trains adapters without Megatron-Core; add --stack fsdp";
		if (job->pp > 1 && job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_INTERLEAVED)
			return "Megatron-Core runs 1f1b and interleaved; add --schedule 1f1b,interleaved";
		return NULL;
	}
	if (job->tp > 1 || job->cp > 1 || job->ep > 1)
		return "tensor, context and expert parallelism are those of Megatron-Core; add --stack "
			   "megatron";
	if (files_deepspeed(job) && job->sharding == LK_SHARD_ZERO1)
		return "examples/deepspeed has no ZeRO 1; add --zero 2 or --zero 3";
	return files_trainer_lacks(job, lk_emit_optimizer(job));
}

ONLY(core, lk_job_like_megatron(job))
ONLY(core_several, lk_job_like_megatron(job) && job->vp > 1)
ONLY(core_experts, lk_job_like_megatron(job) && job->model.experts > 0)
ONLY(core_recomputes, lk_job_like_megatron(job) && job->recompute != LK_RECOMPUTE_NONE)

const char *lk_rule_image_pixels(const lk_emission *emission, const char *value) {
	long long width = emission->job->model.tower.image;
	(void)value;
	if (!lk_emit_images(emission->job)) return NULL;
	return lk_arena_printf(emission->arena, "%lld", width * width);
}

const char *lk_rule_factory_stage(const lk_emission *emission, const char *value) {
	static const char *const stages[] = {[LK_OBJECTIVE_DPO] = "dpo",
	                                     [LK_OBJECTIVE_KTO] = "kto",
	                                     [LK_OBJECTIVE_ORPO] = "dpo", /* with pref_loss */
	                                     [LK_OBJECTIVE_REWARD] = "rm"};
	lk_objective objective = emission->job->objective;
	return objective == LK_OBJECTIVE_TOKENS ? value : stages[objective];
}

/* With Megatron-Core, recomputation and losses have keys of their own. */
const char *lk_rule_factory_keeps(const lk_emission *emission, const char *value) {
	return lk_bool_text(strcmp(value, "false") == 0 || lk_job_like_megatron(emission->job));
}

const char *lk_rule_factory_liger(const lk_emission *emission, const char *value) {
	return lk_bool_text(strcmp(value, "true") == 0 && !lk_job_like_megatron(emission->job));
}

const char *lk_rule_factory_deepspeed(const lk_emission *emission, const char *value) {
	const lk_job *job = emission->job;
	(void)value;
	if (!files_deepspeed(job)) return NULL;
	return lk_arena_printf(emission->arena, "examples/deepspeed/ds_z%d_%sconfig.json",
	                       (int)job->sharding, job->offload_optimizer ? "offload_" : "");
}

const char *lk_rule_factory_fsdp(const lk_emission *emission, const char *value) {
	static const char *const names[2][2] = {{"full_shard", "shard_grad_op"},
	                                        {"hybrid_shard", "hybrid_shard_zero2"}};
	const lk_job *job = emission->job;
	(void)value;
	if (!files_fsdp(job)) return NULL;
	return lk_arena_printf(emission->arena, "%s auto_wrap%s",
	                       names[files_hybrid(job)][job->sharding == LK_SHARD_ZERO2],
	                       job->offload_params ? " offload" : "");
}

bool lk_write_llama_factory(lk_emission *emission) {
	static const char *const words[] = {"-m", "llamafactory.launcher", NULL};
	bool core = lk_job_like_megatron(emission->job);
	const char *command = lk_arena_printf(
		emission->arena,
		"%sFORCE_TORCHRUN=1 NNODES=%d NPROC_PER_NODE=%d llamafactory-cli train llama_factory.yaml",
		core ? "USE_MCA=1 " : "", emission->nodes, emission->per_node);
	if (core && !lk_put_word(&emission->environment, "USE_MCA=1")) return false;
	return files_write(emission, command, "llama_factory.yaml", lk_keys_trainer_llama_factory,
	                   words);
}

/* ---- nanotron ---- */

const char *lk_nanotron_lacks(const lk_job *job) {
	const lk_model *model = &job->model;
	if (!lk_job_like_megatron(job)) return "the layout is one of FSDP; add --stack megatron";
	if (model->network != LK_NET_DECODER || !lk_emit_plain(model) || model->norm != LK_NORM_RMS ||
	    !model->gated || model->position_rows > 0 || model->out_bias || model->mlp_bias ||
	    model->head_dim * model->heads != model->hidden)
		return "its networks are those of Llama and Qwen2; use --emit megatron";
	if (job->vp > 1 ||
	    (job->pp > 1 && job->schedule != LK_SCHED_1F1B && job->schedule != LK_SCHED_GPIPE))
		return "its pipelines run 1f1b and gpipe; add --schedule 1f1b --vp 1";
	if (job->sharding > LK_SHARD_ZERO1) return "it runs ZeRO 0 and 1; add --zero 1";
	return NULL;
}

static bool nanotron_is_qwen(const lk_model *model) {
	return model->qkv_bias || model->experts > 0;
}

ONLY(nanotron_qwen, nanotron_is_qwen(&job->model))
ONLY(nanotron_llama, !nanotron_is_qwen(&job->model))
ONLY(nanotron_adam, job->optimizer != LK_OPT_SGD)
ONLY(shared_width, job->model.experts > 0 && job->model.shared_ffn > 0)

const char *lk_rule_shared_expert(const lk_emission *emission, const char *value) {
	return files_if(emission->job->model.experts > 0, lk_bool_text(strcmp(value, "0") != 0));
}

const char *lk_rule_rotary_base(const lk_emission *emission, const char *value) {
	(void)value;
	return lk_arena_printf(emission->arena, "%.1f", emission->job->model.rotary_base);
}

const char *lk_rule_nanotron_optimizer(const lk_emission *emission, const char *value) {
	(void)value;
	return emission->job->optimizer == LK_OPT_SGD ? "sgd" : "adamW";
}

const char *lk_rule_nanotron_engine(const lk_emission *emission, const char *value) {
	(void)value;
	return emission->job->schedule == LK_SCHED_GPIPE ? "afab" : "1f1b";
}

const char *lk_rule_whole_recomputed(const lk_emission *emission, const char *value) {
	(void)value;
	return lk_bool_text(emission->job->recompute == LK_RECOMPUTE_FULL);
}

bool lk_write_nanotron(lk_emission *emission) {
	static const char *const words[] = {"run_train.py", "--config-file", NULL};
	return files_write(emission,
	                   files_torchrun(emission, "run_train.py --config-file nanotron.yaml"),
	                   "nanotron.yaml", lk_keys_nanotron, words);
}

/* ---- accelerate ---- */

const char *lk_accelerate_lacks(const lk_job *job) {
	return files_trainer_lacks(job, lk_emit_optimizer(job));
}

ONLY(mesh, files_fsdp(job) && (files_hybrid(job) || job->tp > 1 || job->cp > 1))

const char *lk_rule_accelerate_kind(const lk_emission *emission, const char *value) {
	const lk_job *job = emission->job;
	(void)value;
	if (files_fsdp(job)) return "FSDP";
	if (files_deepspeed(job)) return "DEEPSPEED";
	return job->gpus > 1 ? "MULTI_GPU" : "'NO'";
}

const char *lk_rule_accelerate_format(const lk_emission *emission, const char *value) {
	lk_dtype dtype = emission->job->dtype;
	(void)value;
	if (dtype == LK_FP8 || dtype == LK_MXFP8) return "fp8";
	if (dtype >= LK_BF16) return "bf16";
	return dtype == LK_FP16 ? "fp16" : "'no'";
}

const char *lk_rule_head_node(const lk_emission *emission, const char *value) {
	(void)value;
	return emission->nodes > 1 ? "HEAD_NODE" : "127.0.0.1";
}

const char *lk_rule_machines(const lk_emission *emission, const char *value) {
	(void)value;
	return lk_arena_printf(emission->arena, "%d", emission->nodes);
}

const char *lk_rule_zero3(const lk_emission *emission, const char *value) {
	(void)value;
	return files_if(files_deepspeed(emission->job),
	                lk_bool_text(emission->job->sharding == LK_SHARD_ZERO3));
}

const char *lk_rule_fsdp_recomputed(const lk_emission *emission, const char *value) {
	return files_if(files_fsdp(emission->job), lk_rule_whole_recomputed(emission, value));
}

/* The Trainer refuses to checkpoint what FSDP does already (transformers, trainer.py). */
const char *lk_rule_trainer_recomputes(const lk_emission *emission, const char *value) {
	return emission->accelerate && files_fsdp(emission->job) ? "False" : value;
}

/* accelerate's file has the layout; the program's flags, those of the Trainer, have the rest. */
bool lk_write_accelerate(lk_emission *emission) {
	/* TRL's (trl/scripts, examples/scripts); yours where tokens are compared */
	static const char *const programs[] = {"train.py", "dpo.py", "kto.py", "orpo.py", "reward.py"};
	lk_page page = {emission->arena, ""};
	lk_emit_file(&page, emission, lk_keys_accelerate);
	emission->contents = page.text;
	emission->file = "accelerate.yaml";
	emission->accelerate = true;
	return page.text != NULL &&
	       lk_put_word(&emission->program, programs[emission->job->objective]) &&
	       lk_emit_flags(emission, lk_keys_trainer);
}
