/* expect_each.c: the causes one by one, as simulated steps: for comparisons that
 * look at more of a step than its length. */
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "system/parallel.h"

struct each {
	const lk_predict_request *request;
	bool devices_known;
	lk_asked asked;
	lk_cause_seen *see;
	void *context;
};

/* Predict with one cause. A change that cannot run, or changes nothing, is none: *ran is false. */
static lk_status each_ask(const struct each *each, const lk_cause *cause, lk_caused *caused,
                          lk_step *step, bool *ran, lk_error *err) {
	static const lk_measured nothing;
	lk_step_options options;
	lk_asked changed;
	LK_TRY(lk_caused_begin(caused->arena, each->request, &each->asked, &nothing, caused, err));
	LK_TRY(lk_cause_apply(caused, cause, ran, err));
	if (!*ran) return LK_OK;
	LK_TRY(lk_caused_read(caused, &changed, err));
	*ran = !lk_caused_is_same(caused, &changed.job);
	if (!*ran) return LK_OK;
	LK_TRY(lk_predict_simulation(caused->arena, &caused->request, (uint32_t)changed.job.gpus,
	                             &options, err));
	options.few = options.exactly = true;
	return lk_step_ask(&changed.job, &changed.cluster, &options, step, err);
}

static lk_status each_show(void *context, size_t index, lk_error *err) {
	const struct each *each = context;
	const lk_cause *cause = &lk_causes[index];
	if (lk_cause_counts(cause)) return LK_OK;
	if (each->devices_known && strcmp(cause->family, "device") == 0) return LK_OK;
	lk_arena arena = LK_ARENA_INIT;
	lk_caused caused = {.arena = &arena};
	lk_step step = {0};
	bool ran = false;
	lk_status status = each_ask(each, cause, &caused, &step, &ran, err);
	if (status == LK_OK && ran)
		status = each->see(each->context,
		                   &(lk_cause_step){.index = index,
		                                    .key = cause->key,
		                                    .what = cause->what,
		                                    .check = cause->check,
		                                    .option = caused.option ? caused.option : "",
		                                    .prior = cause->prior,
		                                    .step = &step},
		                   err);
	lk_step_free(&step);
	lk_caused_free(&caused);
	lk_arena_free(&arena);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

size_t lk_predict_causes(void) {
	size_t count = 0;
	while (lk_causes[count].key) count++;
	return count;
}

lk_status lk_predict_each_cause(const lk_predict_request *request, bool devices_known, int threads,
                                lk_cause_seen *see, void *context, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct each each = {
		.request = request, .devices_known = devices_known, .see = see, .context = context};
	lk_status status = lk_request_read(&arena, request, &each.asked, err);
	if (status == LK_OK) status = lk_parallel(lk_predict_causes(), threads, each_show, &each, err);
	lk_arena_free(&arena);
	return status;
}
