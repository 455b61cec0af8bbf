/* score_collectives.c: not there yet. */
#include "accuracy/scoring.h"

lk_status lk_score_collectives(lk_arena *arena, const lk_validate_request *request, lk_stream *in, lk_scoring *out, lk_error *err) {
	(void)arena, (void)in, (void)out;
	return lk_fail(err, LK_ERR_INPUT, request->table, "tables of this kind are not read yet");
}
