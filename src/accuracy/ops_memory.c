/* ops_memory.c: not there yet. */
#include "accuracy/ops_parts.h"

lk_status lk_ops_memory_score(lk_arena *arena, lk_ops_part *part, lk_error *err) {
	(void)arena, (void)err;
	for (size_t i = 0; i < part->count; i++)
		if (part->samples[i].family == LK_FAMILY_MEMORY) part->rows[i].reason = "memory-bound operations are not scored yet";
	return LK_OK;
}
