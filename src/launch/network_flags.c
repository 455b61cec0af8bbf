/* network_flags.c: what a launch line says of the network, by name or by flags, held against the
 * network that is trained. */
#include "base/arena.h"
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
	NAMED = 4,   /* flags by name, then their number */
	FOLDERS = 2, /* above a file, whose names may hold the network's */
	WORDS = 16   /* of a name */
};

/* Megatron-LM's count of key and value heads is 1 without --group-query-attention, so that flag
 * lands beside the model and is put where the model has it. */
static size_t shape_offset(const lk_flag *flag) {
	if (flag->offset == offsetof(lk_megatron, query_groups)) return offsetof(lk_model, kv_heads);
	return flag->offset - offsetof(lk_megatron, job.model);
}

static bool states_shape(const lk_flag *flag) {
	size_t first = offsetof(lk_megatron, job.model), end = first + sizeof(lk_model);
	return (flag->kind == LK_FLAG_INT || flag->kind == LK_FLAG_SET) &&
	       ((flag->offset >= first && flag->offset < end) ||
	        flag->offset == offsetof(lk_megatron, query_groups));
}

/* "--num-layers 80 (32)", "--qk-layernorm"; "" where the flag and the model agree. */
static void put_conflict(const lk_flag *flag, const lk_model *shape, const lk_model *model,
                         char *out, size_t size) {
	size_t offset = shape_offset(flag);
	const void *said = (const char *)shape + offset, *is = (const char *)model + offset;
	*out = '\0';
	if (flag->kind == LK_FLAG_SET) {
		if (*(const bool *)said != *(const bool *)is) snprintf(out, size, "--%s", flag->name);
	} else if (*(const int *)said != *(const int *)is) {
		snprintf(out, size, "--%s %d (%d)", flag->name, *(const int *)said, *(const int *)is);
	}
}

/* Compressed attention has no key and value heads, nor a width of a head, that flags would state.
 */
static bool compares(const lk_flag *flag, const lk_model *model) {
	return model->attention != LK_ATTN_MLA || (shape_offset(flag) != offsetof(lk_model, kv_heads) &&
	                                           shape_offset(flag) != offsetof(lk_model, head_dim));
}

void lk_launch_conflicts(const lk_launch *launch, const lk_model *model,
                         char out[LK_LAUNCH_CONFLICTS]) {
	int count = 0;
	size_t used = 0;
	*out = '\0';
	for (int i = 0; i < launch->flag_count && launch->shape != NULL; i++) {
		char one[96];
		const lk_flag *flag = lk_megatron_flag(launch->flags[i]);
		if (flag == NULL || !states_shape(flag) || !compares(flag, model)) continue;
		put_conflict(flag, launch->shape, model, one, sizeof one);
		if (*one == '\0' || count++ >= NAMED || used + strlen(one) + 2 >= LK_LAUNCH_CONFLICTS)
			continue;
		snprintf(out + used, LK_LAUNCH_CONFLICTS - used, "%s%s", used > 0 ? ", " : "", one);
		used += strlen(out + used);
	}
	if (count > NAMED)
		snprintf(out + used, LK_LAUNCH_CONFLICTS - used, " and %d more", count - NAMED);
}

lk_status lk_launch_network(lk_reading *reading, const char *flag, const char *name) {
	lk_launch *out = reading->out;
	out->network = lk_arena_strdup(reading->arena, name);
	out->network_flag = lk_arena_strdup(reading->arena, flag);
	if (out->network == NULL || out->network_flag == NULL) return lk_oom(reading->err);
	return lk_launch_skip(reading, flag, "it names the network");
}

/* "/path/to/checkpoint", "<model>", "Follow instructions in ...": text that someone is to replace.
 */
static bool network_is_place(const char *name) {
	return *name == '/' || strpbrk(name, " <>$") != NULL || strstr(name, "path/to") != NULL;
}

/* The longest run of words of "grpo-deepseek-v3-32n4g" that names a preset, without words that say
 * nothing of it: "sft-" of "sft-qwen3-8b". False: none does. */
static bool network_in_name(const char *text, size_t length, char *out, size_t size) {
	size_t begin[WORDS], end[WORDS], count = 0;
	char name[sizeof((lk_model *)0)->name] = "";
	for (size_t at = 0; at < length && count < WORDS; at++) {
		begin[count] = at;
		while (at < length && strchr("-_.", text[at]) == NULL) at++;
		end[count++] = at;
	}
	size_t low = 0, high = count;
	for (size_t words = count; words > 0; words--)
		for (size_t first = low; first + words <= high; first++) {
			char one[64];
			lk_model model;
			size_t used = end[first + words - 1] - begin[first];
			if (used + 1 > size || used + 1 > sizeof one) continue;
			memcpy(one, text + begin[first], used);
			one[used] = '\0';
			bool sized = strpbrk(one, "0123456789") != NULL;
			if (!sized || lk_model_preset(one, &model, NULL) != LK_OK) continue;
			if (*name && strcmp(name, model.name) != 0) continue;
			lk_copy(name, sizeof name, model.name);
			lk_copy(out, size, one);
			low = first, high = first + words; /* less of it may say the same */
			break;
		}
	return *name != '\0';
}

lk_status lk_launch_network_of_file(lk_reading *reading, const char *flag, const char *name,
                                    const char *file) {
	char found[64];
	lk_model model;
	bool known = false;
	if (!network_is_place(name) || lk_model_preset(name, &model, NULL) == LK_OK)
		return lk_launch_network(reading, flag, name);
	const char *dot = strrchr(file, '.'), *end = dot != NULL ? dot : file + strlen(file);
	for (int above = 0; above <= FOLDERS && !known && end > file; above++) {
		const char *begin = end;
		while (begin > file && begin[-1] != '/') begin--;
		known = network_in_name(begin, (size_t)(end - begin), found, sizeof found);
		end = begin > file ? begin - 1 : file;
	}
	if (!known) return lk_launch_network(reading, flag, name);
	LK_TRY(lk_launch_assume(reading,
	                        "the network is %s, by the name of the file: %s names none "
	                        "(--model)",
	                        found, flag));
	return lk_launch_network(reading, flag, found);
}
