/* predict_search.c: a request without a layout is answered for the fastest one that fits; the
 * answer says so, and gives the result of pure data parallelism. */
#include "predict/predict_internal.h"

#include "base/arena.h"
#include "base/text.h"
#include "plan/plan.h"

/* Options that shape a layout, and texts that state one: any of them means that the user chose the
 * layout. */
static bool names_layout(const lk_predict_request *request) {
	static const char layout[] =
		"config set var script deepspeed_config tp pp vp cp ep etp dp mbs zero "
		"shard-group schedule recompute first-stage-layers last-stage-layers "
		"pipeline-layout sequence-parallel cp-kind dispatcher expert-overlap "
		"delay-wgrad overlap-grad-reduce overlap-param-gather overlap-p2p tp-overlap "
		"bucket "
		"max-connections offload-optimizer";
	for (const lk_option *option = lk_predict_verb.options; option->name; option++)
		if (!option->output && lk_name_among(layout, option->name) &&
		    lk_request_gives(request, option))
			return true;
	return request->launch_count > 0;
}

bool lk_predict_leaves_layout(const lk_predict_request *request) {
	return !names_layout(request);
}

/* One replica per GPU, one sequence at a time: "takes 3.80 s", "does not fit: 1499.9 of 139.8 GiB",
 * or why the job is refused. Unreadable input says nothing about the job: an error. */
static lk_status naive_line(lk_arena *arena, const lk_predict_request *request, const char **text,
                            lk_error *err) {
	lk_asked asked;
	lk_step step = {0};
	lk_error refused = {0};
	const lk_step_options options = {.bare = true, .few = true};
	char line[512], shown[32];
	LK_TRY(lk_request_take(arena, request, &asked, err));
	lk_status status = lk_request_complete(arena, request, &asked, &refused);
	if (status == LK_OK)
		status = lk_step_ask(&asked.job, &asked.cluster, &options, &step, &refused);
	if (status == LK_ERR_INPUT)
		*text =
			lk_arena_printf(arena, "is refused (%s)", lk_error_text(&refused, line, sizeof line));
	else if (status != LK_OK) lk_fail_as(err, &refused);
	else if (!lk_step_fits(&step))
		*text = lk_arena_printf(arena, "does not fit: %.1f of %.1f GiB",
		                        step.memory[step.fullest].total / 0x1p30, step.usable / 0x1p30);
	else
		*text =
			lk_arena_printf(arena, "takes %s", lk_format_seconds(step.step_s, shown, sizeof shown));
	lk_step_free(&step);
	if (status != LK_OK && status != LK_ERR_INPUT) return status;
	return *text ? LK_OK : lk_oom(err);
}

/* The batch if none was given: the assumed one, or, for a job without a default, one sequence per
 * GPU. */
static lk_status fill_batch(lk_arena *arena, const lk_predict_request *request, lk_asked *taken,
                            lk_predict_request *out, lk_error *err) {
	lk_asked naive;
	*out = *request;
	if (taken->job.gbs > 0) {
		out->gbs = taken->job.gbs;
		return LK_OK;
	}
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
	lk_format_thousands((double)layouts, count, sizeof count);
	if (!found) {
		*out = *request;
		*searched = lk_arena_printf(
			arena, "no layout was given, and none of %s fits: this is data parallelism alone",
			count);
		return *searched ? LK_OK : lk_oom(err);
	}
	const char *naive = NULL;
	LK_TRY(naive_line(arena, request, &naive, err));
	*searched = lk_arena_printf(
		arena,
		"no layout was given: this is the fastest of %s with default switches (lockstep plan "
		"compares more); data parallelism alone %s",
		count, naive);
	return *searched ? LK_OK : lk_oom(err);
}
