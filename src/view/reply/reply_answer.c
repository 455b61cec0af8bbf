/* reply_answer.c: begins and ends a reply. */
#include <stdlib.h>

#include "base/check.h"
#include "view/reply/reply.h"

lk_reply *lk_reply_new(void) {
	return calloc(1, sizeof(lk_reply));
}

lk_reply *lk_reply_end(lk_reply *reply, lk_status status, const lk_stop *stop) {
	lk_stop_watch(NULL);
	/* A sweep keeps refusals as rows, so a stop may have left no error. */
	if (lk_stop_asked(stop)) {
		reply->error = (lk_error){0};
		status = lk_fail(&reply->error, LK_ERR_STOPPED, NULL, "stopped before it was done");
	}
	LK_ASSERT(status == LK_OK || *reply->error.what);
	reply->status = status;
	if (status != LK_OK) lk_error_text(&reply->error, reply->line, sizeof reply->line);
	return reply;
}
