/* network_flags.c: what the flags of a launch line say of the network, held against the network that
 * is trained. */
#include "launch/megatron/megatron.h"
#include "launch/read.h"

#include <stdio.h>
#include <string.h>

enum { NAMED = 4 }; /* flags by name, then their number */

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
