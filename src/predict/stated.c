/* stated.c: a launch line as the equivalent options. */
#include "base/arena.h"
#include "lockstep/predict.h"
#include "step/step.h"

#include <stdlib.h>

struct reading {
	lk_arena arena; /* first: lk_arena_free_owner */
	lk_stated stated;
};

void lk_stated_free(lk_stated *stated) {
	if (stated) lk_arena_free_owner(stated->memory_owner);
}

lk_status lk_predict_stated(const lk_predict_request *request, lk_stated **out, lk_error *err) {
	struct reading *reading = calloc(1, sizeof *reading);
	*out = NULL;
	if (!reading) return lk_oom(err);
	lk_stated *stated = &reading->stated;
	stated->memory_owner = reading;
	lk_status status =
		lk_request_stated(&reading->arena, request, &stated->options, &stated->network, err);
	if (status == LK_OK) *out = stated;
	else lk_stated_free(stated);
	return status;
}
