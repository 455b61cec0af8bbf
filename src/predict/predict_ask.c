/* predict_ask.c: the questions of predict: one request, one in phases, many, each independently, on
 * all cores; a launch line as the equivalent options. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "system/parallel.h"

lk_status lk_predict(const lk_predict_request *request, lk_prediction **out, lk_error *err) {
	return lk_answer_with(request, request->run ? lk_predict_phases : lk_answer_any, out, err);
}

/* ---- a launch line as the equivalent options ---- */

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

/* ---- many ---- */

struct many {
	const lk_predict_request *requests;
	lk_prediction **predictions;
	lk_error *refusals;
	void (*progress)(void *context, size_t done);
	void *context;
	pthread_t asker;
	atomic_size_t done;
};

static lk_status ask_one(void *context, size_t i, lk_error *err) {
	struct many *many = context;
	lk_status status = lk_predict(&many->requests[i], &many->predictions[i], &many->refusals[i]);
	if (status != LK_OK && status != LK_ERR_INPUT) return lk_fail_as(err, &many->refusals[i]);
	size_t done = atomic_fetch_add(&many->done, 1) + 1;
	if (many->progress && pthread_equal(many->asker, pthread_self()))
		many->progress(many->context, done);
	return LK_OK;
}

/* The file named by all requests, which is read once; NULL: none. */
static const char *shared_calibration(const lk_predict_request *requests, size_t count) {
	const char *file = count ? requests[0].calibration : NULL;
	for (size_t i = 1; i < count && file; i++)
		if (!requests[i].calibration || strcmp(requests[i].calibration, file) != 0) file = NULL;
	return file;
}

lk_status lk_predict_many(const lk_predict_request *requests, size_t count, int threads,
                          lk_prediction **predictions, lk_error *refusals,
                          void (*progress)(void *context, size_t done), void *context,
                          lk_error *err) {
	struct many m = {.requests = requests,
	                 .predictions = predictions,
	                 .refusals = refusals,
	                 .progress = progress,
	                 .context = context,
	                 .asker = pthread_self()};
	memset(predictions, 0, count * sizeof *predictions);
	memset(refusals, 0, count * sizeof *refusals);
	lk_calibration_hold calibration;
	LK_TRY(lk_calibration_begin(&calibration, shared_calibration(requests, count), err));
	lk_status status = lk_parallel(count, threads, ask_one, &m, err);
	lk_calibration_end(&calibration);
	return status;
}
