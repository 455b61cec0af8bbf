/* config.c: finds out which framework a configuration file is of, by what stands in it, and has it
 * translated. */
#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config.h"

/* In the order in which they are tried: what states more comes first. */
static const lk_framework *const frameworks[] = {
	&lk_framework_megatron_test, &lk_framework_primus,
	&lk_framework_nemo_rl,       &lk_framework_axolotl,
	&lk_framework_nanotron,      &lk_framework_megatron_yaml,
	&lk_framework_automodel,     &lk_framework_llama_factory_v1,
	&lk_framework_llama_factory, &lk_framework_accelerate,
	&lk_framework_maxtext,       &lk_framework_mosaic,
	&lk_framework_titan,         &lk_framework_nemo,
	&lk_framework_bridge,        &lk_framework_primus_part,
	&lk_framework_neox,          &lk_framework_deepspeed,
	&lk_framework_trainer,
};

/* ---- DeepSpeed's file, which deepspeed.c reads */

static bool deepspeed_file_is(const lk_value *root) {
	static const char *const keys[] = {"train_micro_batch_size_per_gpu", "zero_optimization",
	                                   "train_batch_size"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (lk_config_at(root, keys[i])) return true;
	return false;
}

static lk_status deepspeed_file_translate(const lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	(void)words;
	LK_TRY(lk_deepspeed_tree(reading, config->root));
	const lk_job *job = reading->out->job;
	int64_t share =
		(int64_t)(job->mbs > 0 ? job->mbs : 1) * (job->microbatches > 0 ? job->microbatches : 1);
	bool whole = job->gbs > 0 && job->mbs > 0 && job->gbs % share == 0 && job->microbatches > 0;
	return lk_launch_count_gpus(reading, job, whole ? job->gbs / share : 1, 0, false);
}

const lk_framework lk_framework_deepspeed = {"deepspeed", deepspeed_file_is, NULL,
                                             deepspeed_file_translate};

/* ---- files that hold a command */

/* SkyPilot's run:, Kubernetes' command: the inner text is what launches. */
static const char *config_inner_command(const lk_value *root) {
	const char *run = lk_config_text(lk_config_at(root, "run"));
	return run && lk_config_at(root, "resources") ? run : NULL;
}

static lk_status config_translate(lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		const lk_framework *framework = frameworks[i];
		if (!framework->is(config->root)) continue;
		reading->out->framework = framework->name;
		if (framework->gather) LK_TRY(framework->gather(config));
		LK_TRY(lk_config_settle(config));
		return framework->translate(config, words);
	}
	if (config_inner_command(config->root))
		return lk_config_fail(config, "run", "the training is launched by a script in the file",
		                      "give that script with --script");
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "its keys are of no framework that is read");
	return lk_hint(
		reading->err,
		"give a file of Megatron-LM, Megatron-Bridge, NeMo, AutoModel, NeMo RL, Primus, "
		"torchtitan, "
		"nanotron, gpt-neox, axolotl, LLaMA-Factory, the Trainer, accelerate, DeepSpeed, "
		"llm-foundry or MaxText, or the launch script");
}

static lk_status config_ready(lk_reading *reading) {
	if (!reading->out->job) reading->out->job = LK_NEW(reading->arena, lk_job);
	return reading->out->job ? LK_OK : lk_oom(reading->err);
}

lk_status lk_config_read(lk_reading *reading, const char *path, const lk_launch_given *given,
                         lk_words *words) {
	lk_config config = {.reading = reading, .given = given ? *given : (lk_launch_given){0}};
	LK_TRY(config_ready(reading));
	LK_TRY(lk_config_load(&config, path));
	return config_translate(&config, words);
}

lk_status lk_config_read_text(lk_reading *reading, const char *text, size_t size, const char *name,
                              const lk_launch_given *given, lk_words *words) {
	lk_config config = {.reading = reading,
	                    .file = name,
	                    .text = lk_arena_strndup(reading->arena, text, size),
	                    .given = given ? *given : (lk_launch_given){0}};
	LK_TRY(config_ready(reading));
	LK_TRY(lk_config_parse(reading->arena, text, size, name, &config.root, reading->err));
	if (config.root->kind != LK_JSON_OBJECT)
		return lk_config_fail(&config, name, "the document is not a map of settings",
		                      "give a configuration of a training framework");
	return config_translate(&config, words);
}

/* By its ending; without one that is known by its first line that is no comment: a brace, or
 * "key:" alone or before a blank. */
bool lk_config_is(const char *name, const char *text, size_t size) {
	static const char *const endings[] = {".yaml", ".yml", ".json", ".toml"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(name, endings[i])) return true;
	if (lk_ends_in(name, ".sh") || (size > 1 && text[0] == '#' && text[1] == '!')) return false;
	const char *at = text, *end = text + size;
	while (at < end && (isspace((unsigned char)*at) || *at == '#')) {
		if (*at == '#')
			while (at < end && *at != '\n') at++;
		else at++;
	}
	if (at < end && *at == '{') return true;
	while (at < end && (isalnum((unsigned char)*at) || *at == '_' || *at == '-' || *at == '.'))
		at++;
	return at < end && *at == ':' && (at + 1 == end || isspace((unsigned char)at[1]));
}
