/* accelerate_flags.c: flags of accelerate launch (accelerate/commands/launch.py) as the keys of its
 * configuration, whose names they have without the section. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/launchers/launchers.h"

const char *lk_accelerate_key(lk_arena *arena, const char *flag, const char **value) {
	static const struct {
		const char *flag, *key, *value;
	} flags[] = {
		{"use_fsdp", "distributed_type", "FSDP"},
		{"use_deepspeed", "distributed_type", "DEEPSPEED"},
		{"multi_gpu", "distributed_type", "MULTI_GPU"},
		{"mixed_precision", "mixed_precision", NULL},
		{"gradient_accumulation_steps", "gradient_accumulation_steps", NULL},
		{"dynamo_backend", "dynamo_backend", NULL},
		{"zero_stage", "deepspeed_config.zero_stage", NULL},
		{"offload_optimizer_device", "deepspeed_config.offload_optimizer_device", NULL},
		{"offload_param_device", "deepspeed_config.offload_param_device", NULL},
		{"deepspeed_config_file", "deepspeed_config.deepspeed_config_file", NULL},
		{"sharding_strategy", "fsdp_config.fsdp_sharding_strategy", NULL}, /* of old releases */
		{"offload_params", "fsdp_config.fsdp_offload_params", NULL},
	};
	char name[96];
	lk_copy(name, sizeof name, flag);
	for (char *c = name; *c; c++)
		if (*c == '-') *c = '_';
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		if (strcmp(name, flags[i].flag) != 0) continue;
		if (flags[i].value) *value = flags[i].value;
		return flags[i].key;
	}
	if (strncmp(name, "fsdp_", 5) == 0) return lk_arena_printf(arena, "fsdp_config.%s", name);
	if (strncmp(name, "parallelism_config_", 19) == 0)
		return lk_arena_printf(arena, "parallelism_config.%s", name);
	return NULL;
}
