/* keys_accelerate.c: configurations of HuggingFace accelerate, and the flags of accelerate launch
 * that override their keys. They state the layout only: a file needs --model, or a file that names
 * the network. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(accelerate);

LK_RULES(accelerate);

static lk_status accelerate_facts(const lk_config *config, lk_draft *draft) {
	static const lk_key *const tables[] = {lk_keys_accelerate, NULL};
	LK_TRY(lk_draft_read(config, tables, draft));
	return lk_rules_apply(config, lk_rules_accelerate, draft, NULL);
}

/* A batch that nothing states stays open. */
lk_status lk_accelerate_batch(const lk_config *config, lk_draft *draft) {
	if (draft->accumulation == 0) config->reading->out->job->microbatches = 0;
	return LK_OK;
}

/* Published configurations that are not here, by their names: deepspeed_zero3.yaml, fsdp2.yaml,
 * multi_gpu.yaml. NULL: the name says nothing. */
static const char *accelerate_named(lk_arena *arena, const char *name) {
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	const char *zero = strcasestr(base, "zero");
	if (zero) zero += strspn(zero, "zeroZERO_-");
	if (zero && *zero >= '1' && *zero <= '3')
		return lk_arena_printf(
			arena, "{distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: %c}}", *zero);
	if (strcasestr(base, "fsdp")) return "{distributed_type: FSDP, fsdp_config: {}}";
	if (strcasestr(base, "multi_gpu") || strcasestr(base, "ddp"))
		return "{distributed_type: MULTI_GPU}";
	return NULL;
}

/* Load the file that accelerate is launched with; config->root stays NULL if it is not here. */
static lk_status accelerate_load(lk_config *config, const char *name) {
	const lk_inner_file *inner;
	lk_reading *reading = config->reading;
	const char *path = lk_launch_file_named(reading, name, &inner);
	config->file = name;
	if (!path && !inner) {
		const char *text = accelerate_named(reading->arena, name);
		if (!text)
			return lk_launch_note(reading, name, "the configuration of accelerate is not here");
		LK_TRY(lk_launch_assume(reading, "%s, by the name of %.80s, which is not here",
		                        strstr(text, "DEEPSPEED") ? "ZeRO of DeepSpeed"
		                        : strstr(text, "FSDP")    ? "fully sharded data parallelism"
		                                                  : "data parallelism",
		                        name));
		return lk_document_parse(reading->arena, text, strlen(text), "accelerate.yaml",
		                         &config->root, reading->err); /* YAML, whatever its name ends in */
	}
	if (path) LK_TRY(lk_config_load(config, path));
	else
		LK_TRY(lk_document_parse(reading->arena, inner->text, inner->size, name, &config->root,
		                         reading->err));
	if (config->root->kind == LK_JSON_OBJECT && lk_rules_are(config, lk_rules_accelerate))
		return LK_OK;
	return lk_config_fail(config, name, "it is not a configuration of accelerate",
	                      "accelerate config writes one");
}

lk_status lk_accelerate_read(const lk_config *line, lk_draft *draft) {
	lk_reading *reading = line->reading;
	draft->shard_beside_cp = true; /* its keys may be in the program's own file */
	lk_config config = {.reading = reading,
	                    .file = "accelerate launch",
	                    .text = "",
	                    .given = {.sets = reading->accelerate_flags}};
	if (reading->accelerate) LK_TRY(accelerate_load(&config, reading->accelerate));
	if (!config.root && !reading->accelerate_flags) return LK_OK;
	if (!config.root) { /* only flags */
		config.root = LK_NEW(reading->arena, lk_value);
		if (!config.root) return lk_oom(reading->err);
		config.root->kind = LK_JSON_OBJECT;
	}
	LK_TRY(lk_config_settle(&config));
	return accelerate_facts(&config, draft);
}
