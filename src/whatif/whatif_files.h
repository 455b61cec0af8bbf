/* whatif_files.h: the step behind an answer, for what is written of it. */
#ifndef LK_ASK_WHATIF_FILES_H
#define LK_ASK_WHATIF_FILES_H

#include "step/step.h"
#include "lockstep/whatif.h"

/* Of all changes together; owned by the answer. Its graph is NULL where they cannot be made. */
const lk_step *lk_whatif_step(const lk_whatif *whatif);

#endif
