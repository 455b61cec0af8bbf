/* lists.h: what may be asked, as JSON: models, GPUs, the fields of each verb. Made once; they do not change. */
#ifndef LK_SERVE_LISTS_H
#define LK_SERVE_LISTS_H

#include <stddef.h>
#include "lockstep/error.h"

typedef struct lk_text {
	char *text;
	size_t size;
} lk_text;

typedef struct lk_lists {
	lk_text models, gpus, options;
} lk_lists;

lk_status lk_lists_make(lk_lists *lists, lk_error *err);
void lk_lists_free(lk_lists *lists);

#endif
