/* frameworks.c: recognises the framework of a configuration file by its keys and translates the
 * file. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/document.h"
#include "launch/frameworks/frameworks.h"

static const lk_framework *const frameworks[] = {
#define FRAMEWORK(name) &lk_framework_##name,
	LK_FRAMEWORKS(FRAMEWORK)
#undef FRAMEWORK
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
	int64_t share = job->mbs > 0 ? job->mbs : 1;
	share *= job->microbatches > 0 ? job->microbatches : 1;
	bool whole = job->gbs > 0 && job->mbs > 0 && job->gbs % share == 0 && job->microbatches > 0;
	return lk_launch_count_gpus(reading, job, whole ? job->gbs / share : 1, 0, false);
}

const lk_framework lk_framework_deepspeed = {"deepspeed", deepspeed_file_is, NULL,
                                             deepspeed_file_translate};

/* ---- settings in comments ----
 *
 * Comments "# LOCKSTEP_NAME=value" state fields of the job, as settings of the environment do on a
 * launch line; the framework ignores them. */

/* Return the next such setting from *at on, "LOCKSTEP_NAME=value" in the arena; NULL: no more. */
static const char *config_comment(const lk_config *config, const char **at) {
	static const char mark[] = "# LOCKSTEP_";
	while (*at && **at) {
		const char *line = *at + strspn(*at, " \t");
		size_t length = strcspn(line, "\r\n");
		*at = line + length + strspn(line + length, "\r\n");
		bool ours = strncmp(line, mark, sizeof mark - 1) == 0 && memchr(line, '=', length);
		if (ours) return lk_arena_strndup(config->reading->arena, line + 2, length - 2);
	}
	return NULL;
}

static bool config_is_gpus(const char *setting) {
	return strncmp(setting, "LOCKSTEP_GPUS=", 14) == 0;
}

/* Read LOCKSTEP_GPUS before the keys, unless a launcher states the number. */
static lk_status config_take_gpus(const lk_config *config) {
	lk_reading *reading = config->reading;
	const char *at = config->text, *setting;
	long long gpus;
	while (reading->out->gpus == 0 && (setting = config_comment(config, &at)) != NULL) {
		if (!config_is_gpus(setting)) continue;
		LK_TRY(lk_parse_int(setting + 14, 1, LK_JOB_GPUS, &gpus, "LOCKSTEP_GPUS", reading->err));
		LK_ASSERT(gpus > 0 && gpus <= LK_JOB_GPUS);
		reading->out->gpus = (int)gpus;
	}
	return LK_OK;
}

/* Apply the other settings: to fields of the job, or in front of the words of a launch line. */
static lk_status config_take_comments(const lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	const char *at = config->text, *setting;
	lk_words all = {0};
	lk_status status = LK_OK;
	while (status == LK_OK && (setting = config_comment(config, &at)) != NULL) {
		if (config_is_gpus(setting)) continue;
		if (words->count > 0) status = lk_config_word(config, setting, &all);
		else status = lk_launch_set(reading, setting);
	}
	for (size_t i = 0; status == LK_OK && i < words->count && all.count > 0; i++) {
		if (!lk_push(&all)) status = lk_oom(reading->err);
		else *lk_last(&all) = words->at[i];
	}
	if (status != LK_OK || all.count == 0) {
		lk_vec_free(&all);
		return status;
	}
	lk_vec_free(words);
	*words = all;
	return LK_OK;
}

static lk_status config_translate(lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		const lk_framework *framework = frameworks[i];
		if (!framework->is(config->root)) continue;
		LK_ASSERT(reading->out->job != NULL && words->count == 0);
		reading->out->framework = framework->name;
		if (framework->gather) LK_TRY(framework->gather(config));
		LK_TRY(config_take_gpus(config));
		LK_TRY(lk_config_settle(config));
		LK_TRY(framework->translate(config, words));
		return config_take_comments(config, words);
	}
	bool cluster;
	LK_TRY(lk_config_cluster(config, words, &cluster));
	if (cluster) return LK_OK;
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "its keys belong to no framework that lockstep reads");
	return lk_hint(reading->err,
	               "give a file of Megatron-LM, Megatron-Bridge, NeMo, AutoModel, NeMo RL, Primus, "
	               "torchtitan, "
	               "torchtune, verl, nanotron, gpt-neox, axolotl, LLaMA-Factory, Trainer, "
	               "accelerate, DeepSpeed, "
	               "llm-foundry, MaxText, a SkyPilot task, a Kubernetes job or a script");
}

/* gpt-neox merges the files of its command line. */
static lk_status config_merge_others(lk_config *config) {
	lk_reading *reading = config->reading;
	for (const char *line = config->given.also; line && *line;) {
		size_t size = strcspn(line, "\n");
		const char *name = lk_arena_strndup(reading->arena, line, size);
		const char *path = name ? lk_config_beside(reading->arena, config->file, name) : NULL;
		lk_config part = {.reading = reading, .given = config->given};
		line += size + (line[size] == '\n');
		if (!name) return lk_oom(reading->err);
		if (!path) {
			LK_TRY(lk_launch_note(reading, name, "the file is not here"));
			continue;
		}
		LK_TRY(lk_config_load(&part, path));
		config->root = lk_config_merge(reading->arena, config->root, part.root);
		if (!config->root) return lk_oom(reading->err);
	}
	return LK_OK;
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
	LK_TRY(config_merge_others(&config));
	return config_translate(&config, words);
}

lk_status lk_config_read_text(lk_reading *reading, const char *text, size_t size, const char *name,
                              const lk_launch_given *given, lk_words *words) {
	lk_config config = {.reading = reading,
	                    .file = name,
	                    .text = lk_arena_strndup(reading->arena, text, size),
	                    .given = given ? *given : (lk_launch_given){0}};
	LK_TRY(config_ready(reading));
	LK_TRY(lk_document_parse(reading->arena, text, size, name, &config.root, reading->err));
	if (config.root->kind != LK_JSON_OBJECT)
		return lk_config_fail(&config, name, "the document is not a map of settings",
		                      "give a configuration of a training framework");
	return config_translate(&config, words);
}
