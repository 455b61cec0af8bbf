/* reproduce.c: a request as the command that asks it again. What was left open and decided is
 * written out (degrees, batch, format, schedule); every other option stands as it was given
 * (command.c). */
#include "base/arena.h"
#include "options/command.h"
#include "step/step.h"
#include "launch/launch.h"
#include "model/layout/schedule.h"

static const char *reproduce_given(lk_arena *arena, const lk_predict_request *request,
                                   const char *const *but) {
	return lk_command_options(
		arena, &(lk_question){.verb = &lk_predict_verb, .request = request, .but = but});
}

/* What changes no figure. */
#define SHOWN "trace-ranks", "no-fixes"

const char *lk_reproduce_where(lk_arena *arena, const lk_predict_request *request, int gpus) {
	const char *gpu = request->gpu ? request->gpu : "";
	int counted = 0; /* "256xh200": the number is in --gpus */
	if (request->cluster) {
		const char *cluster = lk_shell_quote(arena, request->cluster);
		return cluster ? lk_arena_printf(arena, "--cluster %s", cluster) : NULL;
	}
	if (lk_where_count(&gpu, &counted, &(lk_error){0}) != LK_OK) return NULL;
	return lk_arena_printf(arena, "--gpu %s --gpus %d", gpu, gpus);
}

static const char *of_options(lk_arena *arena, const lk_predict_request *request,
                              const lk_job *job) {
	static const char *const recompute[] = {"none", "selective", "full"};
	static const char *const but[] = {"model", "gpu",       "gpus", "cluster",  "tp",  "pp",
	                                  "vp",    "cp",        "ep",   "mbs",      "gbs", "seq",
	                                  "dtype", "recompute", "zero", "schedule", SHOWN, NULL};
	lk_predict_request said = *request;
	if (!request->dtype && job->dtype_said) lk_request_state_numbers(job, &said);
	const char *options = reproduce_given(arena, &said, but),
			   *model = lk_shell_quote(arena, request->model);
	const char *where = lk_reproduce_where(arena, request, job->gpus);
	const char *seq =
		job->model.network == LK_NET_CONV ? "" : lk_arena_printf(arena, " --seq %d", job->seq);
	if (!options || !model || !where || !seq) return NULL;
	return lk_arena_printf(arena,
	                       "lockstep predict --model %s %s --tp %d --pp %d --vp %d --cp %d --ep %d "
	                       "--mbs %d --gbs %d%s --dtype %s "
	                       "--recompute %s --zero %d --schedule %s%s",
	                       model, where, job->tp, job->pp, job->vp, job->cp, job->ep, job->mbs,
	                       job->gbs, seq, lk_dtype_name(job->dtype),
	                       request->recompute ? request->recompute : recompute[job->recompute],
	                       (int)job->sharding, lk_schedule_get(job->schedule)->name, options);
}

const char *lk_reproduce(lk_arena *arena, const lk_predict_request *request, const lk_job *job) {
	static const char *const but[] = {SHOWN, NULL};
	if (request->model && !request->script && !request->config && request->launch_count == 0)
		return of_options(arena, request, job);
	return lk_command(arena, &(lk_question){.verb = &lk_predict_verb,
	                                        .request = request,
	                                        .but = but,
	                                        .rest = request->launch,
	                                        .rest_count = request->launch_count});
}
