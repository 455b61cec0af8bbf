/* reply_answer.c: an answer for bindings: begun, ended. */
#include <stdlib.h>

#include "view/reply/reply.h"

lk_reply *lk_reply_new(void) {
	return calloc(1, sizeof(lk_reply));
}

lk_reply *lk_reply_end(lk_reply *reply, lk_status status, const lk_stop *stop) {
	lk_stop_watch(NULL);
	/* What works on row by row keeps refusals as answers, this one too. */
	if (lk_stop_asked(stop)) {
		reply->error = (lk_error){0};
		status = lk_fail(&reply->error, LK_ERR_STOPPED, NULL, "stopped before it was done");
	}
	reply->status = status;
	if (status != LK_OK) lk_error_text(&reply->error, reply->line, sizeof reply->line);
	return reply;
}
