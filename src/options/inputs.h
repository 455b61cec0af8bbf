/* inputs.h: which files a question is answered from, found in its request: reports name them by their content. */
#ifndef LK_BASE_INPUTS_H
#define LK_BASE_INPUTS_H

#include "base/arena.h"
#include "lockstep/options.h"

/* The operands and values of options that are files which can be read, as they were given; names of presets and descriptions of
 * clusters are none. Options are those of the verb's table that read; folders among the operands are for the caller to list.
 * Memory from the arena. LK_ERR_MEMORY. */
lk_status lk_inputs_find(lk_arena *arena, const lk_verb *verb, const void *request, const char *const *operands, int count,
                         lk_inputs *out, lk_error *err);

#endif
