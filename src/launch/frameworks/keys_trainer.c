/* keys_trainer.c: arguments of HuggingFace's Trainer in a file, alone, with TRL's (SFTConfig,
 * DPOConfig), and with LLaMA-Factory's v0 (src/llamafactory/hparams).
 *
 *     global batch = per_device_train_batch_size * gradient_accumulation_steps * dp
 * LLaMA-Factory checkpoints activations and trains LoRA of rank 8 by default; its keys
 * of Megatron-Core (USE_MCA) lay the job out as Megatron-LM does. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(trainer);
LK_KEYS(trainer_megatron);

static bool factory_is(const lk_value *root) {
	return lk_config_at(root, "model_name_or_path") &&
	       (lk_config_at(root, "finetuning_type") || lk_config_at(root, "cutoff_len") ||
	        lk_config_at(root, "stage") || lk_config_at(root, "template"));
}

static bool trainer_is(const lk_value *root) {
	return lk_config_at(root, "model_name_or_path") != NULL ||
	       lk_config_at(root, "per_device_train_batch_size") != NULL;
}

/* Norms, activations and rotary positions of Liger and of Unsloth are one kernel each. */
static bool trainer_fuses(const lk_config *config) {
	return lk_config_any_on(config->root, "use_liger_kernel use_liger enable_liger_kernel "
	                                      "use_unsloth");
}

static lk_status trainer_common(const lk_config *config, lk_draft *draft) {
	static const lk_key *const tables[] = {lk_keys_trainer, lk_keys_trainer_megatron, NULL};
	bool trainer = lk_config_at(config->root, "model_name_or_path") != NULL;
	LK_TRY(lk_draft_read(config, tables, draft));
	if (trainer_fuses(config)) draft->job.eager = LK_OFF;
	if (draft->job.mbs == 0 && trainer) {
		draft->job.mbs = 8;
		LK_TRY(lk_launch_assume(config->reading, "micro-batch 8: the Trainer's default (--mbs)"));
	}
	if (draft->accumulation == 0 && draft->job.mbs > 0) draft->accumulation = 1;
	return LK_OK;
}

/* Samples hold images where the file limits their size or names a set that has some; the encoder is
 * then frozen by default. */
static void factory_images(const lk_config *config, lk_draft *draft) {
	const char *set = lk_config_text(lk_config_at(config->root, "dataset"));
	bool images =
		lk_config_at(config->root, "image_max_pixels") || (set && strstr(set, "mllm") != NULL);
	config->reading->out->samples = images ? LK_SAMPLES_IMAGES : LK_SAMPLES_TEXTS;
	if (images && !lk_config_at(config->root, "freeze_vision_tower"))
		draft->job.freeze_tower = true;
}

static lk_status factory_finish(const lk_config *config, lk_draft *given) {
	lk_draft draft = *given;
	LK_TRY(trainer_common(config, &draft));
	if (strcmp(draft.stage, "rm") == 0 || strcmp(draft.stage, "ppo") == 0)
		return lk_config_fail(config, "stage", "reward models and their use are not modelled",
		                      "pt, sft, dpo and kto can be predicted");
	if (strcmp(draft.stage, "kto") == 0)
		LK_TRY(lk_launch_note(config->reading, "stage",
		                      "kto is priced as sft, without the reference model"));
	if (strcmp(draft.stage, "dpo") == 0) draft.pairs = true;
	bool logits = *draft.stage && strcmp(draft.stage, "pt") != 0 && strcmp(draft.stage, "sft") != 0;
	if (logits && draft.job.loss == LK_LOSS_LINEAR) { /* liger_kernel.py, require_logits */
		draft.job.loss = LK_LOSS_LOGITS;
		draft.job.fused_cross_entropy = LK_ON;
	}
	/* nothing of what is trained is in fp32; DeepSpeed's optimizers have masters and moments in
	 * fp32, whatever the format of the weights */
	if (lk_config_on(config->root, "pure_bf16") && !*draft.deepspeed &&
	    strcmp(draft.job.stack, "deepspeed") != 0) {
		draft.job.master_weights = LK_OFF;
		draft.job.state_dtype = LK_BF16;
	}
	const char *loss = lk_config_text(lk_config_at(config->root, "pref_loss"));
	bool alone = loss && (strcmp(loss, "orpo") == 0 || strcmp(loss, "simpo") == 0);
	draft.job.dpo = draft.pairs && !alone;
	factory_images(config, &draft);
	if (strcmp(draft.method, "oft") == 0)
		LK_TRY(lk_launch_note(config->reading, "finetuning_type", "oft is priced as LoRA"));
	bool full = strcmp(draft.method, "full") == 0 || strcmp(draft.method, "freeze") == 0;
	if (full) draft.job.lora_rank = 0;
	else {
		draft.adapter = true;
		if (draft.job.lora_rank == 0) draft.job.lora_rank = 8;
	}
	if (!*draft.recompute_text) {
		lk_copy(draft.recompute_text, sizeof draft.recompute_text, "true");
		LK_TRY(lk_launch_assume(
			config->reading, "activations are recomputed: LLaMA-Factory's default (--recompute)"));
	}
	if (draft.job.seq == 0) {
		draft.job.seq = 2048;
		LK_TRY(lk_launch_assume(config->reading,
		                        "sequences of 2048 tokens: LLaMA-Factory's default (--seq)"));
	}
	if (draft.job.tp > 1 || draft.job.pp > 1 || draft.job.ep > 1 || draft.job.sharding_said)
		lk_copy(draft.job.stack, sizeof draft.job.stack, "megatron");
	return lk_draft_finish(config, &draft);
}

static lk_status factory_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	return factory_finish(config, &draft);
}

/* TRL's GRPO (trl/trainer/grpo_config.py): a step has generation_batch_size sequences, else
 * steps_per_generation, else gradient_accumulation_steps, micro-batches of each rank; without a
 * beta there is no reference. A server's GPUs are those of one engine, as no flag says. Nothing of
 * the training goes to the host, and engines that share its GPUs stay there unless they sleep. */
static lk_status trainer_rollout(const lk_config *config, lk_draft *draft) {
	lk_launch_rollout *rollout = &draft->rollout;
	const char *mode = lk_config_text(lk_config_at(config->root, "vllm_mode"));
	const lk_value *beta = lk_config_at(config->root, "beta");
	lk_copy(rollout->task, sizeof rollout->task, "grpo");
	rollout->padded = true;
	rollout->keep_params = rollout->keep_optimizer = rollout->keep_reference = true;
	if (!lk_config_at(config->root, "vllm_enable_sleep_mode")) rollout->no_sleep = true;
	rollout->no_reference = !(beta && beta->kind == LK_JSON_NUMBER && beta->number > 0);
	if (rollout->samples == 0) rollout->samples = 8;
	if (!(rollout->response_most > 0)) rollout->response_most = 256;
	if (!(rollout->memory_share > 0)) rollout->memory_share = 0.3;
	double prompt = rollout->prompt_most > 0 ? rollout->prompt_most : 512;
	if (draft->job.seq == 0) draft->job.seq = (int)fmin(1e7, prompt + rollout->response_most);
	if (!lk_config_on(config->root, "use_vllm"))
		return lk_launch_note(config->reading, "use_vllm",
		                      "transformers generate as an engine does, which is faster");
	if (mode && strcmp(mode, "colocate") == 0) return LK_OK;
	rollout->engines = 1;
	rollout->memory_share = 0.9;
	return lk_launch_assume(config->reading, "the server that generates has one engine (--rollout "
	                                         "gpus=)");
}

/* The batches of a step, once the GPUs are known. */
static lk_status trainer_batches(const lk_config *config, lk_draft *draft) {
	lk_job *job = config->reading->out->job;
	int gpus = config->reading->out->gpus > 0 ? config->reading->out->gpus
	                                          : config->reading->out->gpus_assumed;
	const lk_value *steps = lk_config_at(config->root, "steps_per_generation");
	double each = (double)job->mbs * (gpus > 0 ? gpus : 1);
	double written = draft->accumulation;
	if (steps && steps->kind == LK_JSON_NUMBER && steps->number >= 1) written = steps->number;
	job->gbs = (int)fmin(1e7, each * draft->accumulation);
	job->microbatches = 0;
	if (draft->rollout.sequences == 0)
		draft->rollout.sequences = (int)fmin(1e7, each * fmax(1, written));
	if (job->gbs > draft->rollout.sequences) job->gbs = draft->rollout.sequences;
	return lk_draft_rollout(config, draft);
}

static lk_status trainer_finish(const lk_config *config, lk_draft *given, bool trl) {
	lk_draft draft = *given;
	LK_TRY(trainer_common(config, &draft));
	bool rolls = *draft.rollout.task || lk_config_at(config->root, "num_generations") ||
	             (lk_config_at(config->root, "max_completion_length") && !draft.pairs);
	if (rolls) LK_TRY(trainer_rollout(config, &draft));
	if (trl) { /* TRL's defaults differ from the Trainer's */
		if (!lk_config_at(config->root, "bf16") && !draft.fp16) draft.bf16 = true;
		if (!*draft.recompute_text)
			lk_copy(draft.recompute_text, sizeof draft.recompute_text, "true");
		if (draft.job.seq == 0) draft.job.seq = 1024;
		if (!draft.adapter) draft.job.lora_rank = 0;
		else if (draft.job.lora_rank == 0) draft.job.lora_rank = 16;
		LK_TRY(lk_launch_assume(config->reading,
		                        "TRL's defaults where nothing is stated: bf16, activations "
		                        "recomputed, 1024 tokens"));
	}
	LK_TRY(lk_draft_finish(config, &draft));
	return rolls ? trainer_batches(config, &draft) : LK_OK;
}

static lk_status trainer_translate(const lk_config *config, lk_words *words) {
	lk_draft draft = {0};
	(void)words;
	LK_TRY(lk_accelerate_read(config, &draft));
	bool trl = lk_config_at(config->root, "max_length") || lk_config_at(config->root, "use_peft") ||
	           lk_config_at(config->root, "dataset_name") ||
	           lk_config_at(config->root, "num_generations");
	return trainer_finish(config, &draft, trl);
}

const lk_framework lk_framework_llama_factory = {"llama-factory", factory_is, NULL,
                                                 factory_translate};
const lk_framework lk_framework_trainer = {"trainer", trainer_is, NULL, trainer_translate};

/* ---- the same keys as flags of a launch line */

bool lk_trainer_states(const char *key) {
	for (const lk_key *row = lk_keys_trainer; row->path; row++)
		if (strcmp(row->path, key) == 0) return row->kind == LK_KEY_FACT;
	return false;
}

/* TRL's programs: trl sft, trl/scripts/sft.py. Those that train otherwise are refused. */
static lk_status trainer_program(const lk_config *config, const char *program, lk_draft *draft,
                                 bool *trl) {
	static const char *const pairs[] = {"dpo.py", "cpo.py", "orpo.py"};
	static const char *const others[] = {"kto.py",    "bco.py", "ppo.py",
	                                     "reward.py", "gkd.py", "online_dpo.py"};
	static const char *const rolls[] = {"grpo.py", "rloo.py"};
	*trl = strcmp(program, "trl") == 0 || strcmp(program, "sft.py") == 0;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcmp(program, others[i]) == 0)
			return lk_config_fail(config, program, "this method's step is more than training",
			                      "sft, dpo and grpo can be predicted");
	for (size_t i = 0; i < sizeof rolls / sizeof *rolls; i++) {
		if (strcmp(program, rolls[i]) != 0) continue;
		*trl = true;
		lk_copy(draft->rollout.task, sizeof draft->rollout.task, "grpo");
	}
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (strcmp(program, pairs[i]) != 0) continue;
		*trl = draft->pairs = true;
		draft->job.dpo = strcmp(program, "dpo.py") == 0; /* the others have no reference */
	}
	return LK_OK;
}

lk_status lk_trainer_line(lk_reading *reading, lk_members *settings, const char *program) {
	lk_value root = {.kind = LK_JSON_OBJECT};
	lk_draft draft = {.format_open = true};
	bool trl = false;
	if (!lk_members_end(settings, reading->arena, &root)) return lk_oom(reading->err);
	lk_config config = {.reading = reading, .file = reading->where, .text = "", .root = &root};
	if (program) LK_TRY(trainer_program(&config, program, &draft, &trl));
	LK_TRY(lk_accelerate_read(&config, &draft));
	LK_TRY(lk_config_settle(&config));
	LK_TRY(factory_is(&root) && !trl ? factory_finish(&config, &draft)
	                                 : trainer_finish(&config, &draft, trl));
	/* Whoever asks may lay it out otherwise. */
	lk_job *job = reading->out->job;
	if (job->tp == 1) job->tp = 0;
	if (job->pp == 1) job->pp = 0;
	if (job->cp == 1) job->cp = 0;
	return LK_OK;
}
