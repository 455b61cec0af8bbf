/* expect_each.c: the causes one by one, as simulated steps: for comparisons that
 * look at more of a step than its length. */
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "predict/predict_internal.h"

/* Predict with one cause and show the step. A change that cannot run, or changes nothing, is
 * none. */
static lk_status each_show(const lk_predict_request *request, const lk_asked *asked,
                           const lk_cause *cause, lk_cause_seen *see, void *context,
                           lk_error *err) {
	static const lk_measured nothing;
	lk_arena arena = LK_ARENA_INIT;
	lk_step_options options;
	lk_step step = {0};
	lk_asked changed;
	bool applies = false;
	lk_caused caused = {.arena = &arena,
	                    .job = &asked->job,
	                    .measured = &nothing,
	                    .request = *request,
	                    .cluster = asked->cluster,
	                    .flops_factor = 1,
	                    .peak_factor = 1};
	lk_status status = lk_where_count(&caused.request.gpu, &caused.request.gpus, err);
	if (caused.request.gpus > 0 || caused.request.cluster) caused.request.dp = 0;
	if (status == LK_OK) status = lk_cause_apply(&caused, cause, &applies, err);
	if (status == LK_OK && applies) {
		status = lk_caused_read(&caused, &changed, err);
		if (status == LK_OK && !caused.cluster_changed && !caused.request.straggler &&
		    caused.request.gpu == request->gpu &&
		    memcmp(&changed.job, &asked->job, sizeof changed.job) == 0)
			applies = false;
	}
	if (status == LK_OK && applies)
		status = lk_predict_simulation(&arena, &caused.request, (uint32_t)changed.job.gpus,
		                               &options, err);
	if (status == LK_OK && applies)
		status = lk_step_ask(&changed.job, &changed.cluster, &options, &step, err);
	if (status == LK_OK && applies)
		status = see(context,
		             &(lk_cause_step){.key = cause->key,
		                              .what = cause->what,
		                              .check = cause->check,
		                              .option = caused.option ? caused.option : "",
		                              .prior = cause->prior,
		                              .of_device = strcmp(cause->family, "device") == 0,
		                              .step = &step},
		             err);
	lk_step_free(&step);
	lk_caused_free(&caused);
	lk_arena_free(&arena);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

lk_status lk_predict_each_cause(const lk_predict_request *request, lk_cause_seen *see,
                                void *context, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked asked;
	lk_status status = lk_request_read(&arena, request, &asked, err);
	for (int i = 0; lk_causes[i].key && status == LK_OK; i++)
		if (!lk_cause_counts(&lk_causes[i]))
			status = each_show(request, &asked, &lk_causes[i], see, context, err);
	lk_arena_free(&arena);
	return status;
}
