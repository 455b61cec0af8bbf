/* lists.h: what does not change and is made once: what may be asked, as JSON (models, GPUs, the fields of each
 * verb), and style and script of reports. */
#ifndef LK_SERVE_LISTS_H
#define LK_SERVE_LISTS_H

#include <stddef.h>
#include "lockstep/error.h"

typedef struct lk_text {
	char *text;
	size_t size;
} lk_text;

typedef struct lk_lists {
	lk_text models, gpus, options, style, script;
} lk_lists;

lk_status lk_lists_make(lk_lists *lists, lk_error *err);
void lk_lists_free(lk_lists *lists);

#endif
