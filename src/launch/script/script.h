/* script.h: shell scripts that launch a training. */
#ifndef LK_LAUNCH_SCRIPT_H
#define LK_LAUNCH_SCRIPT_H

#include "launch/reading/reading.h"

/* script.c: the words of the last launch command of a script, in *words (freed by the caller).
 * `environment` (may be NULL): NAME=value words that the script inherits. */
lk_status lk_script_words(lk_reading *reading, const char *text, size_t size,
                          const lk_words *environment, const lk_launch_given *given,
                          lk_words *words, lk_launch_ranks *batch);

#endif
