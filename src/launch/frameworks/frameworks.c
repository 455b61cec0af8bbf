/* frameworks.c: recognises the framework of a configuration file by its keys and translates the
 * file. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/document.h"
#include "io/embedded.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

/* ---- DeepSpeed's file, which deepspeed.c reads */

static lk_status deepspeed_file(const lk_config *config, lk_words *words) {
	lk_reading *reading = config->reading;
	(void)words;
	LK_TRY(lk_deepspeed_tree(reading, config->root));
	const lk_job *job = reading->out->job;
	int64_t share = job->mbs > 0 ? job->mbs : 1;
	share *= job->microbatches > 0 ? job->microbatches : 1;
	bool whole = job->gbs > 0 && job->mbs > 0 && job->gbs % share == 0 && job->microbatches > 0;
	return lk_launch_count_gpus(reading, job, whole ? job->gbs / share : 1, 0, false);
}

/* ---- the frameworks, in the order of trying: stricter recognisers come first */

extern const lk_rule lk_rules_accelerate[], lk_rules_automodel[], lk_rules_aws_fsdp[],
	lk_rules_axolotl[], lk_rules_bridge[], lk_rules_deepspeed[], lk_rules_litgpt[],
	lk_rules_llama_factory[], lk_rules_llama_factory_v1[], lk_rules_llm_foundry[],
	lk_rules_maxtext[], lk_rules_megatron_test[], lk_rules_megatron_yaml[], lk_rules_ms_swift[],
	lk_rules_nanotron[], lk_rules_nemo[], lk_rules_nemo_rl[], lk_rules_neox[], lk_rules_openrlhf[],
	lk_rules_primus[], lk_rules_primus_part[], lk_rules_titan[], lk_rules_torchtune[],
	lk_rules_trainer[], lk_rules_verl[], lk_rules_verl_sft[];
extern const lk_key lk_keys_accelerate[], lk_keys_automodel[], lk_keys_aws_fsdp[],
	lk_keys_axolotl[], lk_keys_litgpt[], lk_keys_llama_factory_v1[], lk_keys_llm_foundry[],
	lk_keys_maxtext[], lk_keys_ms_swift[], lk_keys_ms_swift_megatron[], lk_keys_nanotron[],
	lk_keys_neox[], lk_keys_openrlhf[], lk_keys_torchtune[], lk_keys_trainer[],
	lk_keys_trainer_llama_factory[], lk_keys_trainer_megatron[], lk_keys_verl[], lk_keys_verl_sft[];

#define KEYS(table)                   \
	.keys = (const lk_key *const[]) { \
		lk_keys_##table, NULL         \
	}
#define TRAINER                                         \
	.keys = (const lk_key *const[]) {                   \
		lk_keys_trainer, lk_keys_trainer_megatron, NULL \
	}

/* clang-format off */
/* Their settings may be flags, too. */
static const lk_framework
	llama_factory = {"llama-factory", lk_rules_llama_factory, .launched = true,
	                 .keys = (const lk_key *const[]){lk_keys_trainer_llama_factory, lk_keys_trainer,
	                                                 lk_keys_trainer_megatron, NULL}},
	trainer = {"trainer", lk_rules_trainer, TRAINER, .launched = true, .after = lk_trainer_batches},
	swift = {"ms-swift", lk_rules_ms_swift, .launched = true, .gather = lk_swift_gather,
	         .choose = lk_swift_keys, .after = lk_swift_batches},
	openrlhf = {"openrlhf", lk_rules_openrlhf, KEYS(openrlhf), .names = lk_openrlhf_names},
	litgpt = {"litgpt", lk_rules_litgpt, KEYS(litgpt)},
	aws_fsdp = {"aws-fsdp", lk_rules_aws_fsdp, KEYS(aws_fsdp)};

static const lk_framework *const frameworks[] = {
	&(const lk_framework){"megatron", lk_rules_megatron_test, .translate = lk_megatron_test},
	&(const lk_framework){"primus", lk_rules_primus, .gather = lk_primus_gather,
	                      .translate = lk_primus_words},
	&(const lk_framework){"nemo-rl", lk_rules_nemo_rl, .choose = lk_nemo_rl_keys},
	&(const lk_framework){"verl", lk_rules_verl, KEYS(verl)},
	&(const lk_framework){"verl-sft", lk_rules_verl_sft, KEYS(verl_sft)},
	&(const lk_framework){"axolotl", lk_rules_axolotl, KEYS(axolotl), .launched = true},
	&(const lk_framework){"nanotron", lk_rules_nanotron, KEYS(nanotron)},
	&(const lk_framework){"megatron", lk_rules_megatron_yaml, .keys = NULL},
	&(const lk_framework){"automodel", lk_rules_automodel, KEYS(automodel)},
	&(const lk_framework){"llama-factory", lk_rules_llama_factory_v1, KEYS(llama_factory_v1)},
	&swift,
	&llama_factory,
	&litgpt,
	&(const lk_framework){"accelerate", lk_rules_accelerate, KEYS(accelerate),
	                      .after = lk_accelerate_batch},
	&(const lk_framework){"maxtext", lk_rules_maxtext, KEYS(maxtext)},
	&(const lk_framework){"llm-foundry", lk_rules_llm_foundry, KEYS(llm_foundry)},
	&(const lk_framework){"torchtitan", lk_rules_titan, .translate = lk_titan_words},
	&(const lk_framework){"nemo", lk_rules_nemo, .keys = NULL},
	&(const lk_framework){"megatron-bridge", lk_rules_bridge, .keys = NULL},
	&(const lk_framework){"primus", lk_rules_primus_part, .keys = NULL},
	&(const lk_framework){"gpt-neox", lk_rules_neox, KEYS(neox), .gather = lk_neox_gather,
	                      .after = lk_neox_batch},
	&(const lk_framework){"deepspeed", lk_rules_deepspeed, .translate = deepspeed_file},
	&(const lk_framework){"torchtune", lk_rules_torchtune, KEYS(torchtune)},
	&trainer,
};
/* clang-format on */

/* What a framework's own files state where nothing else does: data/launch/NAME.yaml, which a file
 * is merged into. */
static lk_status framework_defaults(lk_config *config, const lk_framework *framework) {
	lk_arena *arena = config->reading->arena;
	lk_value *defaults;
	char name[64];
	size_t size;
	snprintf(name, sizeof name, "launch/%s.yaml", framework->name);
	const char *text = lk_data_file(name, &size);
	if (!text) return LK_OK;
	LK_TRY(lk_document_parse(arena, text, size, name, &defaults, config->reading->err));
	config->root = lk_config_merge(arena, defaults, config->root);
	if (!config->root) return lk_oom(config->reading->err);
	return lk_launch_assume(config->reading, "%s's defaults where nothing is stated",
	                        framework->name);
}

/* What an edit of the text looks its settings up in. */
static lk_status framework_keep_tables(lk_reading *reading, const lk_framework *framework,
                                       const lk_key *const *tables) {
	const lk_key **kept = LK_ARRAY(reading->arena, const lk_key *, LK_FRAMEWORK_TABLES);
	if (!kept) return lk_oom(reading->err);
	for (int i = 0; i < LK_FRAMEWORK_TABLES - 1 && tables[i]; i++) kept[i] = tables[i];
	reading->out->keys = kept;
	reading->out->names = framework->names;
	return LK_OK;
}

/* Read keys by their tables, then apply the framework's rules, to the job of the reading; or to
 * words. */
static lk_status framework_job(const lk_config *config, const lk_framework *framework,
                               lk_draft *draft, lk_words *words) {
	const lk_key *chosen[LK_FRAMEWORK_TABLES], *const *tables = framework->keys;
	LK_TRY(lk_rules_refuse(config, framework->rules));
	if (framework->translate) return framework->translate(config, words);
	if (framework->choose) framework->choose(config, chosen);
	if (framework->choose) tables = chosen;
	if (framework->launched) LK_TRY(lk_accelerate_read(config, draft));
	/* what FSDP checkpoints stays so, whatever gradient_checkpointing says */
	bool checkpoints = strcasecmp(draft->recompute_text, "true") == 0;
	if (tables) LK_TRY(framework_keep_tables(config->reading, framework, tables));
	if (tables) LK_TRY(lk_draft_read(config, tables, draft));
	if (checkpoints) lk_copy(draft->recompute_text, sizeof draft->recompute_text, "true");
	LK_TRY(lk_rules_apply(config, framework->rules, draft, words));
	if (!tables) return LK_OK; /* its settings are words */
	LK_TRY(lk_draft_finish(config, draft));
	if (framework->after) LK_TRY(framework->after(config, draft));
	return lk_draft_rollout(config, draft);
}

/* ---- settings of a launch line */

/* What a row says of the job: its field, "" where a rule reads it; NULL: nothing. */
static const char *framework_fact(const lk_key *keys, const char *key) {
	for (; keys->path; keys++) {
		if (strcmp(keys->path, key) != 0) continue;
		if (keys->kind == LK_KEY_FACT) return keys->fact;
		return keys->kind == LK_KEY_RULE ? "" : NULL;
	}
	return NULL;
}

lk_verl_kind lk_verl_is(const char *program) {
	static const char *const steps[] = {"main_ppo", "main_dapo", "fully_async_main",
	                                    "one_step_off_policy", "verl_entrypoint"};
	bool own = strncmp(program, "verl.", 5) == 0;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (strstr(program, steps[i]) != NULL) return LK_VERL_STEP;
	if (strncmp(program, "recipe.", 7) == 0) return LK_VERL_STEP; /* recipe.prime.main_prime */
	bool tunes = strstr(program, "fsdp_sft_trainer") || (own && strstr(program, "sft_trainer"));
	return tunes ? LK_VERL_SFT : LK_VERL_NONE;
}

/* The table of the flags of a program. */
static const lk_key *framework_keys(const char *program) {
	lk_verl_kind verl = program ? lk_verl_is(program) : LK_VERL_NONE;
	if (verl != LK_VERL_NONE) return verl == LK_VERL_SFT ? lk_keys_verl_sft : lk_keys_verl;
	if (program && strncmp(program, "openrlhf.", 9) == 0) return lk_keys_openrlhf;
	if (program && strncmp(program, "litgpt ", 7) == 0) return lk_keys_litgpt;
	return lk_keys_trainer;
}

/* ms-swift's own, then the Trainer's. */
static const char *framework_swift_fact(const char *key) {
	const char *fact = framework_fact(lk_keys_ms_swift, key);
	if (!fact) fact = framework_fact(lk_keys_ms_swift_megatron, key);
	return fact ? fact : framework_fact(lk_keys_trainer, key);
}

const char *lk_program_fact(const char *program, const char *key) {
	if (program && (strncmp(program, "swift ", 6) == 0 || strncmp(program, "megatron ", 9) == 0))
		return framework_swift_fact(key);
	const lk_key *keys = framework_keys(program);
	if (keys == lk_keys_openrlhf) key = lk_name_of(lk_openrlhf_names, key);
	return framework_fact(keys, key);
}

bool lk_fact_names_network(const char *fact) {
	static const char *const facts[] = {"network_name", "teacher", "rollout_critic",
	                                    "rollout_reward_model", "rollout_teacher"};
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
		if (strcmp(fact, facts[i]) == 0) return true;
	return false;
}

/* The framework whose flags they are. */
static const lk_framework *framework_of_flags(const lk_config *config) {
	if (strncmp(config->program, "openrlhf.", 9) == 0) return &openrlhf;
	if (strncmp(config->program, "swift ", 6) == 0 || strncmp(config->program, "megatron ", 9) == 0)
		return &swift;
	if (lk_rules_are(config, lk_rules_litgpt)) return &litgpt;
	if (lk_rules_are(config, lk_rules_aws_fsdp)) return &aws_fsdp;
	return lk_rules_are(config, lk_rules_llama_factory) ? &llama_factory : &trainer;
}

lk_status lk_framework_line(lk_reading *reading, lk_members *settings, const char *program) {
	lk_value root = {.kind = LK_JSON_OBJECT};
	lk_draft draft = {.format_open = true};
	if (!lk_members_end(settings, reading->arena, &root)) return lk_oom(reading->err);
	lk_config config = {.reading = reading,
	                    .file = reading->where,
	                    .text = "",
	                    .program = program ? program : "",
	                    .root = &root};
	const lk_framework *framework = framework_of_flags(&config);
	if (framework->gather) LK_TRY(framework->gather(&config));
	LK_TRY(lk_config_settle(&config));
	config.names = framework->names; /* messages have the names that were written */
	for (size_t i = 0; framework->names && i < config.root->count; i++)
		config.root->keys[i] = lk_name_of(framework->names, config.root->keys[i]);
	LK_TRY(framework_job(&config, framework, &draft, NULL));
	bool whole = framework == &openrlhf || framework == &swift || framework == &aws_fsdp;
	reading->out->framework = framework->name;
	if (whole) return LK_OK;
	/* Whoever asks may lay it out otherwise. */
	lk_job *job = reading->out->job;
	if (job->tp == 1) job->tp = 0;
	if (job->pp == 1) job->pp = 0;
	if (job->cp == 1) job->cp = 0;
	return LK_OK;
}

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
	lk_draft draft = {0};
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		const lk_framework *framework = frameworks[i];
		if (!lk_rules_are(config, framework->rules)) continue;
		LK_ASSERT(reading->out->job != NULL && words->count == 0);
		reading->out->framework = framework->name;
		LK_TRY(framework_defaults(config, framework));
		if (framework->gather) LK_TRY(framework->gather(config));
		LK_TRY(config_take_gpus(config));
		LK_TRY(lk_config_settle(config));
		LK_TRY(framework_job(config, framework, &draft, words));
		return config_take_comments(config, words);
	}
	bool cluster;
	LK_TRY(lk_config_cluster(config, words, &cluster));
	if (cluster) return LK_OK;
	char names[512];
	lk_text list = lk_text_begin(names, sizeof names);
	for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++) {
		bool again = false; /* several forms have one name */
		for (size_t k = 0; k < i; k++)
			again |= strcmp(frameworks[k]->name, frameworks[i]->name) == 0;
		if (!again) lk_text_add(&list, "%s%s", i > 0 ? ", " : "", frameworks[i]->name);
	}
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "its keys belong to none of %s", names);
	return lk_hint(reading->err,
	               "give a file of one of them, a SkyPilot task, a Kubernetes job or a script");
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
	config.program = config.given.program;
	LK_TRY(config_ready(reading));
	LK_TRY(lk_config_load(&config, path));
	config.given.text = NULL; /* of no other file */
	LK_TRY(config_merge_others(&config));
	return config_translate(&config, words);
}

lk_status lk_config_read_text(lk_reading *reading, const char *text, size_t size, const char *name,
                              const lk_launch_given *given, lk_words *words) {
	lk_config config = {.reading = reading,
	                    .file = name,
	                    .text = lk_arena_strndup(reading->arena, text, size),
	                    .given = given ? *given : (lk_launch_given){0}};
	config.program = config.given.program;
	LK_TRY(config_ready(reading));
	LK_TRY(lk_document_parse(reading->arena, text, size, name, &config.root, reading->err));
	if (config.root->kind != LK_JSON_OBJECT)
		return lk_config_fail(&config, name, "the document is not a map of settings",
		                      "give a configuration of a training framework");
	return config_translate(&config, words);
}
