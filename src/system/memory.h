/* memory.h: text written into memory with stdio: lk_memory_open and lk_memory_close. */
#ifndef LK_SYSTEM_MEMORY_H
#define LK_SYSTEM_MEMORY_H

#include "lockstep/view.h"

/* Close a FILE of lk_memory_open that wrote `*text`; returns the text, or NULL if it is
 * incomplete. */
char *lk_memory_text(FILE *file, char **text);

#endif
