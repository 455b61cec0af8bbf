/* keys_swift.c: ms-swift's arguments (swift/arguments, swift/megatron/arguments): what no row can
 * say. Where nothing states it,
 *
 *     accumulation = ceil(16 / per_device_train_batch_size / GPUs), of GRPO 1
 * A step of GRPO by Megatron-Core has global_batch_size * steps_per_generation sequences. */
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"

LK_KEYS(ms_swift);
LK_KEYS(ms_swift_megatron);
LK_KEYS(trainer);

/* Whether Megatron-Core trains: by the command, of a file by its keys. */
static bool swift_is_megatron(const lk_config *config) {
	if (config->program) return strncmp(config->program, "megatron", 8) == 0;
	return lk_config_at(config->root, "micro_batch_size") ||
	       lk_config_at(config->root, "tensor_model_parallel_size");
}

void lk_swift_keys(const lk_config *config, const lk_key *tables[LK_FRAMEWORK_TABLES]) {
	if (swift_is_megatron(config)) *tables++ = lk_keys_ms_swift_megatron;
	*tables++ = lk_keys_ms_swift;
	*tables++ = lk_keys_trainer;
	*tables = NULL;
}

/* --fsdp fsdp.json: the file states what the arguments fsdp and fsdp_config would. */
lk_status lk_swift_gather(lk_config *config) {
	lk_arena *arena = config->reading->arena;
	const char *name = lk_config_text(lk_config_at(config->root, "fsdp"));
	const char *path =
		name && lk_ends_in(name, ".json") ? lk_config_beside(arena, config->file, name) : NULL;
	static const char *const keys[] = {"fsdp", "fsdp_config"};
	lk_config file = {.reading = config->reading};
	lk_members members = {0};
	lk_value part = {.kind = LK_JSON_OBJECT};
	bool ok = true;
	if (!path) return LK_OK;
	LK_TRY(lk_config_load(&file, path));
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const lk_value *value = lk_config_at(file.root, keys[i]);
		if (value) ok = ok && lk_members_add(&members, keys[i], value);
	}
	ok = ok && lk_members_end(&members, arena, &part);
	lk_members_free(&members);
	config->root = ok ? lk_config_merge(arena, config->root, &part) : NULL;
	return config->root ? LK_OK : lk_oom(config->reading->err);
}

/* The batches of a step, once the GPUs are known. */
lk_status lk_swift_batches(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	lk_job *job = reading->out->job;
	if (swift_is_megatron(config)) {
		const lk_value *value = lk_config_at(config->root, "recompute_granularity");
		/* elsewhere "none" is like a key that is not there */
		bool none = value && value->kind == LK_JSON_STRING && strcasecmp(value->text, "none") == 0;
		if (none) job->recompute = LK_RECOMPUTE_NONE;
		return LK_OK;
	}
	if (draft->accumulation == 0) {
		int64_t gpus = reading->out->gpus > 0 ? reading->out->gpus : reading->out->gpus_assumed;
		int64_t samples = draft->pairs ? job->mbs / 2 : job->mbs;
		int64_t pass = gpus > 0 ? samples * gpus : samples;
		bool rolls = strcmp(draft->rollout.task, "grpo") == 0;
		LK_ASSERT(pass > 0);
		draft->accumulation = rolls || pass >= 16 ? 1 : (int)((16 + pass - 1) / pass);
		job->microbatches = draft->accumulation;
		if (!rolls)
			LK_TRY(lk_launch_assume(reading,
			                        "gradient_accumulation_steps %d: ms-swift's default, for 16 "
			                        "samples a step or more",
			                        draft->accumulation));
	}
	return lk_trainer_batches(config, draft);
}
