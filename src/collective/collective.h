/* collective.h: flags of measured collectives. */
#ifndef LK_COLLECTIVE_COLLECTIVE_H
#define LK_COLLECTIVE_COLLECTIVE_H

#include "lockstep/collective.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum { LK_COLLECTIVE_FLAGS = 3 };

/* Set the flags of rows sorted by size and append sentences to notes[*count], at most
 * LK_COLLECTIVE_FLAGS. */
lk_status lk_collective_flag(lk_arena *arena, lk_collective_row *rows, int row_count,
                             const char **notes, int *count, lk_error *err);

#endif
