/* reply.h: the members of a reply, for the files that fill it. */
#ifndef LK_VIEW_REPLY_H
#define LK_VIEW_REPLY_H

#include "base/arena.h"
#include "lockstep/predict.h"
#include "lockstep/reply.h"
#include "lockstep/simulate.h"
#include "verbs/verbs.h"
#include "view/text/views.h"

struct lk_reply {
	lk_arena arena;
	lk_status status;
	lk_error error;
	char line[2048]; /* the error as one line */
	bool yes;
	char *json, *row_json; /* of open_memstream */
	size_t json_size;
	const char *text;
	/* columns, and the objects that own their texts */
	lk_sweep_column *columns;
	int column_count;
	size_t rows;
	lk_combinations sweep; /* [rows] of a sweep */
	lk_args *args;         /* [parts] */
	int parts;
	lk_simulation *simulation;
};

/* Keeps what `write` prints in reply->json. LK_ERR_MEMORY, and the errors of `write`. */
typedef lk_status lk_reply_writer(const void *what, FILE *out, lk_error *err);
lk_status lk_reply_write(lk_reply *reply, lk_reply_writer *write, const void *what, lk_error *err);

/* Makes the spans of reply->simulation columns of the reply. LK_ERR_MEMORY. */
lk_status lk_reply_spans(lk_reply *reply, lk_error *err);

lk_reply *lk_reply_new(void);
/* Sets the status of the reply and the line of its error; a requested stop overrides the result.
 * Returns `reply`. */
lk_reply *lk_reply_end(lk_reply *reply, lk_status status, const lk_stop *stop);

#endif
