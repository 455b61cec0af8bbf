/* keys_titan.c: torchtitan's TOML, which it read until 2026: the sections of its command line. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "launch/frameworks/frameworks.h"

lk_status lk_titan_numbers(const lk_config *config, lk_words *words) {
	static const struct {
		const char *part, *setting;
	} converters[] = {{"float8", "LOCKSTEP_DTYPE=fp8"}, {".mx", "LOCKSTEP_DTYPE=mxfp8"}};
	const lk_value *list = lk_config_at(config->root, "model.converters");
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count; i++) {
		const char *name = lk_config_text(&list->items[i]);
		for (size_t k = 0; name && k < sizeof converters / sizeof *converters; k++)
			if (strstr(name, "linear") ? strstr(name, converters[k].part) != NULL
			                           : strcmp(name, converters[k].part) == 0)
				return lk_config_word(config, converters[k].setting, words);
	}
	return LK_OK;
}

/* "# NOTE: this toml config is a preset for 64 A100 GPUs.": the GPUs, eight a node, and their kind,
 * where nothing else states them. */
static lk_status titan_preset(const lk_config *config, lk_words *words) {
	static const char mark[] = "preset for";
	lk_reading *reading = config->reading;
	int gpus = lk_config_commented(config, mark), node = gpus % 8 == 0 ? 8 : gpus;
	if (gpus == 0 || reading->out->gpus > 0) return LK_OK;
	const char *kind = strstr(config->text, mark) + sizeof mark - 1;
	kind += strspn(kind, " =0123456789");
	LK_TRY(lk_launch_device(reading, kind, strcspn(kind, " .\n")));
	LK_TRY(lk_launch_assume(reading, "%d GPUs, which a comment of the file names (--gpus)", gpus));
	const char *nodes = lk_arena_printf(reading->arena, "--nnodes=%d", gpus / node),
			   *ranks = lk_arena_printf(reading->arena, "--nproc_per_node=%d", node);
	if (nodes == NULL || ranks == NULL) return lk_oom(reading->err);
	LK_TRY(lk_config_word(config, nodes, words));
	return lk_config_word(config, ranks, words);
}

lk_status lk_titan_words(const lk_config *config, lk_words *words) {
	static const char *const front[] = {"torchrun", "-m", "torchtitan.train"};
	LK_TRY(lk_titan_numbers(config, words));
	LK_TRY(lk_config_word(config, front[0], words));
	LK_TRY(titan_preset(config, words));
	for (size_t i = 1; i < 3; i++) LK_TRY(lk_config_word(config, front[i], words));
	for (size_t i = 0; i < config->count; i++) {
		const char *path = config->settings[i].path;
		const char *text = lk_config_text(config->settings[i].value);
		if (!text || !*text || strcmp(text, "-1") == 0 || !strchr(path, '.')) continue;
		LK_TRY(lk_config_word(
			config, lk_arena_printf(config->reading->arena, "--%s=%s", path, text), words));
	}
	/* its default (torchtitan/config/job_config.py, ActivationCheckpoint) */
	if (lk_config_at(config->root, "activation_checkpoint.mode")) return LK_OK;
	LK_TRY(lk_launch_assume(config->reading, "selective recomputation, torchtitan's default "
	                                         "(activation_checkpoint.mode)"));
	return lk_config_word(config, "--activation_checkpoint.mode=selective", words);
}
