/* asked.c: resolve a request: explicit settings first, then the publisher's number formats, then
 * derived values. The formats apply to pre-training with Megatron-Core on GPUs that run all of
 * Transformer Engine's recipes; launch lines and other software keep their own. */
#include <string.h>

#include "base/arena.h"
#include "options/command.h"
#include "step/step.h"

enum { WORDS = 32 };

/* Keep what the request states; another optimizer has its own moments. */
static void keep_stated(const lk_predict_request *request, const lk_job *job,
                        lk_predict_request *numbers) {
	if (request->state_dtype || job->optimizer != LK_OPT_ADAM) numbers->state_dtype = NULL;
	if (request->fp8_recipe) numbers->fp8_recipe = NULL;
	if (request->fp8_dispatch) numbers->fp8_dispatch = 0;
}

lk_status lk_request_lay_numbers(lk_arena *arena, const char **options,
                                 const lk_predict_request *request, lk_job *job, lk_error *err) {
	const char *words[WORDS];
	int count = 0;
	char *text = lk_arena_strdup(arena, *options), *rest = text;
	lk_predict_request numbers, usual;
	lk_args args;
	if (!text) return lk_oom(err);
	for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
		if (count < WORDS) words[count++] = word;
	lk_predict_defaults(&usual);
	numbers = usual;
	lk_status status = lk_args_parse(&lk_predict_verb, count, words, &args, err);
	if (status == LK_OK) status = lk_args_fill(&args, 0, &numbers, err);
	keep_stated(request, job, &numbers);
	if (status == LK_OK) status = lk_request_take_numbers(&numbers, job, err);
	*options = lk_command_options(
		arena, &(lk_question){.verb = &lk_predict_verb, .request = &numbers, .usual = &usual});
	if (status == LK_OK && !*options) status = lk_oom(err);
	lk_args_free(&args);
	return status;
}

/* Products with block scaling factors need Hopper or later. */
static bool runs_recipes(const lk_cluster *cluster) {
	for (int i = 0; i < cluster->groups; i++) {
		const lk_device *device = cluster->node[i].device;
		if (!lk_device_can(device, LK_CAN_BLOCKS) ||
		    lk_device_peak(device, LK_FP8) <= lk_device_peak(device, LK_BF16))
			return false;
	}
	return true;
}

/* `known`: the formats of the network; NULL: looked up. */
static lk_status take_trained(lk_arena *arena, const lk_predict_request *request,
                              const lk_trained *known, lk_asked *asked, lk_error *err) {
	lk_job *job = &asked->job;
	bool core =
		!*job->stack || strcmp(job->stack, "megatron") == 0 || strcmp(job->stack, "nemo") == 0;
	if (request->dtype || request->deepspeed || lk_request_launched(request) || !core) return LK_OK;
	if (job->task != LK_TASK_PRETRAIN || job->objective != LK_OBJECTIVE_TOKENS || job->labels > 0 ||
	    !runs_recipes(&asked->cluster))
		return LK_OK;
	if (known) asked->trained = *known;
	else LK_TRY(lk_model_trained(arena, &job->model, &asked->trained, err));
	if (!asked->trained.options) return LK_OK;
	return lk_request_lay_numbers(arena, &asked->trained.options, request, job, err);
}

lk_status lk_request_take(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err) {
	LK_TRY(lk_request_take_stated(arena, request, out, err));
	return take_trained(arena, request, NULL, out, err);
}

/* Whether to assume a batch; not if it is partly stated. */
static bool request_want_batch(const lk_predict_request *request, int gpus, lk_asked *out) {
	lk_job *job = &out->job;
	if (job->gbs > 0 || job->microbatches > 0 || lk_request_launched(request)) return false;
	return (job->gbs_wanted = lk_job_assumed_batch(job, gpus)) > 0;
}

lk_status lk_request_fill_batch(lk_arena *arena, const lk_predict_request *request, int gpus,
                                lk_asked *asked, lk_error *err) {
	if (!request_want_batch(request, gpus, asked)) return LK_OK;
	asked->job.gbs = asked->job.gbs_wanted;
	return lk_request_note_batch(arena, &asked->job, &asked->batch_assumed, err);
}

lk_status lk_request_complete(lk_arena *arena, const lk_predict_request *request, lk_asked *asked,
                              lk_error *err) {
	bool assumed = request_want_batch(request, lk_asked_gpus(asked), asked);
	LK_TRY(lk_job_complete(&asked->job, &asked->cluster, err));
	if (assumed) LK_TRY(lk_request_note_batch(arena, &asked->job, &asked->batch_assumed, err));
	return lk_launch_list_idle(arena, &asked->job, &asked->launch, err);
}

lk_status lk_request_read(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                          lk_error *err) {
	LK_TRY(lk_request_take(arena, request, out, err));
	return lk_request_complete(arena, request, out, err);
}

lk_status lk_request_read_on(lk_arena *arena, const lk_ground *ground,
                             const lk_predict_request *request, lk_asked *out, lk_error *err) {
	LK_TRY(lk_request_lay(arena, ground, request, out, err));
	LK_TRY(take_trained(arena, request, &ground->trained, out, err));
	return lk_request_complete(arena, request, out, err);
}
