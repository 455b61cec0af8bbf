/* request.h: what a user said, as a completed job on a cluster. */
#ifndef LK_ASK_REQUEST_H
#define LK_ASK_REQUEST_H

#include "lockstep/predict.h"
#include "model/layout/job.h"

typedef struct lk_asked {
	lk_job job;
	lk_cluster cluster;
	const lk_ignored *ignored; /* flags of a launch line */
	int ignored_count;
	char warning[256];
} lk_asked;

/* Order of precedence: options, then the launch line or script, then the DeepSpeed file, then the model's config. */
lk_status lk_request_read(lk_arena *arena, const lk_predict_request *request, lk_asked *out, lk_error *err);
/* The same before the job is completed: what was not said is open. */
lk_status lk_request_take(lk_arena *arena, const lk_predict_request *request, lk_asked *out, lk_error *err);

/* NULL, or a software stack that is known; else an error that names the nearest. */
lk_status lk_request_check_stack(const char *stack, lk_error *err);

#endif
