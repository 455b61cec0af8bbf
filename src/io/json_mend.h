/* json_mend.h: text that is nearly JSON, made JSON: what profilers that were stopped, or that print values of other
 * languages, leave behind. */
#ifndef LK_BASE_JSON_MEND_H
#define LK_BASE_JSON_MEND_H

#include <stdbool.h>
#include <stddef.h>
#include "lockstep/error.h"

/* What was changed, counted. */
typedef struct lk_json_mended {
	size_t controls;   /* control characters inside texts, now blanks */
	size_t commas;     /* before a closing bracket, now blanks */
	size_t quotes;     /* inside of texts that they would have ended, now ' */
	size_t escapes;    /* backslashes that escape nothing, now / */
	size_t numbers;    /* nan and inf in C's spelling, now NaN */
	size_t words;      /* True, False, None and texts in single quotes (Python) */
	size_t cut;        /* bytes at the end that belonged to something incomplete */
	bool closed;       /* brackets that were open at the end have been closed */
} lk_json_mended;

/* Works in place on `*text`, from malloc, which may move; a '\0' stands behind the result. When the text ends inside of
 * something, it is cut behind the last complete element down to two brackets deep (a list that is a member of the
 * document), and closed. What is still no JSON is left for the reader to complain about. */
lk_status lk_json_mend(char **text, size_t *size, lk_json_mended *mended, lk_error *err);

#endif
