/* validate_parts.h: what the files of validate share. */
#ifndef LK_ACCURACY_VALIDATE_PARTS_H
#define LK_ACCURACY_VALIDATE_PARTS_H

#include "base/arena.h"
#include "lockstep/validate.h"

/* The command line that gives this result again; NULL when memory is out. */
const char *lk_validate_command(lk_arena *arena, const lk_validate_request *request);

#endif
