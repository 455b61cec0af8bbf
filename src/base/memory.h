/* memory.h: text written into memory with stdio: lk_memory_open and lk_memory_close. */
#ifndef LK_BASE_MEMORY_H
#define LK_BASE_MEMORY_H

#include "lockstep/view.h"

/* Closes a FILE of lk_memory_open that wrote `*text`: the text, or NULL where it is not whole. */
char *lk_memory_text(FILE *file, char **text);

#endif
