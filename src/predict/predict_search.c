/* predict_search.c: a request that names no layout is answered for the fastest one that fits, and
 * says so beside what no parallelism at all would come to. */
#include "predict/predict_internal.h"

#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "plan/plan.h"

/* A launch line, a script and a DeepSpeed file are layouts; so are degrees, micro-batches, sharding
 * and recomputation. */
static bool names_layout(const lk_predict_request *request) {
	const int degrees[] = {request->tp,
	                       request->pp,
	                       request->vp,
	                       request->cp,
	                       request->ep,
	                       request->etp,
	                       request->dp,
	                       request->mbs,
	                       request->shard_group,
	                       request->sequence_parallel,
	                       request->first_stage_layers,
	                       request->last_stage_layers,
	                       request->tp_overlap,
	                       request->overlap_grad_reduce,
	                       request->overlap_param_gather,
	                       request->overlap_p2p,
	                       request->expert_overlap};
	const char *const words[] = {
		request->zero,    request->schedule, request->recompute, request->pipeline_layout,
		request->cp_kind, request->script,   request->deepspeed};
	for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
		if (degrees[i]) return true;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (words[i]) return true;
	return request->launch_count > 0 || request->bucket_mib > 0 || request->offload_optimizer ||
	       request->dispatcher || request->max_connections;
}

bool lk_predict_leaves_layout(const lk_predict_request *request, const lk_asked *taken) {
	return !names_layout(request) && taken->job.model.network != LK_NET_CONV && taken->job.gpus > 1;
}

/* One replica on each GPU, a sequence at a time: "takes 3.80 s", "does not fit: 1499.9 of 139.8
 * GiB", or why it is refused; NULL when memory is out. */
static const char *naive_line(lk_arena *arena, const lk_predict_request *request) {
	lk_asked asked;
	lk_step step = {0};
	lk_error refused = {0};
	const lk_step_options options = {.bare = true};
	const char *text = NULL;
	char line[512], shown[32];
	lk_status status = lk_request_read(arena, request, &asked, &refused);
	if (status == LK_OK)
		status = lk_step_ask(&asked.job, &asked.cluster, &options, &step, &refused);
	if (status == LK_ERR_MEMORY) text = NULL;
	else if (status != LK_OK)
		text =
			lk_arena_printf(arena, "is refused (%s)", lk_error_text(&refused, line, sizeof line));
	else if (!lk_step_fits(&step))
		text = lk_arena_printf(arena, "does not fit: %.1f of %.1f GiB",
		                       step.memory[step.fullest].total / 0x1p30, step.usable / 0x1p30);
	else
		text =
			lk_arena_printf(arena, "takes %s", lk_format_seconds(step.step_s, shown, sizeof shown));
	lk_step_free(&step);
	return text;
}

/* The batch where none was given: that of one sequence on each GPU. */
static lk_status fill_batch(lk_arena *arena, const lk_predict_request *request, lk_asked *taken,
                            lk_predict_request *out, lk_error *err) {
	lk_asked naive;
	*out = *request;
	if (taken->job.gbs > 0) return LK_OK;
	LK_TRY(lk_request_read(arena, request, &naive, err));
	out->gbs = taken->job.gbs = naive.job.gbs;
	return LK_OK;
}

lk_status lk_predict_search(lk_arena *arena, const lk_predict_request *request,
                            const lk_asked *taken, lk_predict_request *out, const char **searched,
                            lk_error *err) {
	lk_asked asked = *taken;
	lk_predict_request filled;
	uint64_t layouts = 0;
	bool found = false;
	char count[32];
	LK_TRY(lk_request_check_network(request, &asked.job, err));
	LK_TRY(fill_batch(arena, request, &asked, &filled, err));
	LK_TRY(lk_plan_best(arena, &filled, &asked, out, &found, &layouts, err));
	const char *naive = naive_line(arena, request);
	if (!naive) return lk_oom(err);
	lk_format_thousands((double)layouts, count, sizeof count);
	if (!found) *out = *request;
	if (!found)
		*searched = lk_arena_printf(
			arena, "no layout was given, and none of %s fits; this is data parallelism alone",
			count);
	else
		*searched = lk_arena_printf(
			arena,
			"no layout was given: this is the fastest of %s with the usual switches (lockstep plan "
			"compares more); data parallelism alone %s",
			count, naive);
	return *searched ? LK_OK : lk_oom(err);
}
