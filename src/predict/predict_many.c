/* predict_many.c: many requests answered, each as if it were alone, on all cores. */
#include "lockstep/predict.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"
#include "cost/calibration/calibration.h"

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

/* The calibration is the process' own: it is laid on before threads look at it. */
static lk_status use_calibration(const lk_predict_request *requests, size_t count, lk_error *err) {
	const char *file = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *named = requests[i].calibration;
		if (!named || (file && strcmp(named, file) == 0)) continue;
		if (file) {
			lk_fail(err, LK_ERR_INPUT, "--calibration",
			        "two requests name different files, %.100s and %.100s", file, named);
			return lk_hint(err, "ask them in separate processes");
		}
		file = named;
	}
	return file ? lk_calibration_use(file, err) : LK_OK;
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
	LK_TRY(use_calibration(requests, count, err));
	return lk_parallel(count, threads, ask_one, &m, err);
}
