/* assumptions.h: a job told in words: one line each for model, cluster and layout, what was assumed, the command to repeat it. */
#ifndef LK_ASK_NOTES_H
#define LK_ASK_NOTES_H

#include "step/request.h"

lk_status lk_note_job(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked, lk_prediction *out, lk_error *err);

/* The command that asks the request again; `job` is its completed job. NULL when memory is out. */
const char *lk_reproduce(lk_arena *arena, const lk_predict_request *request, const lk_job *job);

#endif
