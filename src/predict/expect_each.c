/* expect_each.c: the causes one by one, as simulated steps: for comparisons that
 * look at more of a step than its length. */
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "system/parallel.h"

struct each {
	const lk_predict_request *request;
	lk_asked asked;
	lk_cause_seen *see;
	void *context;
};

/* Predict with one cause and show the step. A change that cannot run, or changes nothing, is
 * none. */
static lk_status each_show(void *context, size_t index, lk_error *err) {
	const struct each *each = context;
	const lk_predict_request *request = each->request;
	const lk_asked *asked = &each->asked;
	const lk_cause *cause = &lk_causes[index];
	if (lk_cause_counts(cause)) return LK_OK;
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
		status = each->see(each->context,
		                   &(lk_cause_step){.index = index,
		                                    .key = cause->key,
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

size_t lk_predict_causes(void) {
	size_t count = 0;
	while (lk_causes[count].key) count++;
	return count;
}

lk_status lk_predict_each_cause(const lk_predict_request *request, int threads, lk_cause_seen *see,
                                void *context, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct each each = {.request = request, .see = see, .context = context};
	lk_status status = lk_request_read(&arena, request, &each.asked, err);
	if (status == LK_OK) status = lk_parallel(lk_predict_causes(), threads, each_show, &each, err);
	lk_arena_free(&arena);
	return status;
}
