/* reproduce.c: a request as the command that asks it again. What was left open and decided is written out (degrees, batch,
 * format, schedule); every other option stands as it was given (command.c). */
#include "options/command.h"
#include "step/step.h"
#include "launch/launch.h"
#include "model/layout/schedule.h"

static const char *given(lk_arena *arena, const lk_predict_request *r, const char *const *but) {
	return lk_command_options(arena, &(lk_question){.verb = &lk_predict_verb, .request = r, .but = but});
}

#define OUTPUT "resume", "trace", "trace-ranks", "graph", "chakra", "no-fixes", "output", "file", "verbose"

static const char *of_options(lk_arena *arena, const lk_predict_request *r, const lk_job *job) {
	static const char *const recompute[] = {"none", "selective", "full"};
	static const char *const but[] = {"model", "gpu", "gpus", "cluster", "tp", "pp", "vp", "cp", "ep", "mbs", "gbs", "seq",
	                                  "dtype", "recompute", "zero", "schedule", OUTPUT, NULL};
	const char *options = given(arena, r, but), *model = lk_shell_quote(arena, r->model);
	const char *cluster = r->cluster ? lk_shell_quote(arena, r->cluster) : "";
	if (!options || !model || !cluster) return NULL;
	const char *where = r->cluster ? lk_arena_printf(arena, "--cluster %s", cluster)
	                               : lk_arena_printf(arena, "--gpu %s --gpus %d", r->gpu ? r->gpu : "", job->gpus);
	if (!where) return NULL;
	return lk_arena_printf(
		arena,
		"lockstep predict --model %s %s --tp %d --pp %d --vp %d --cp %d --ep %d --mbs %d --gbs %d --seq %d --dtype %s "
		"--recompute %s --zero %d --schedule %s%s",
		model, where, job->tp, job->pp, job->vp, job->cp, job->ep, job->mbs, job->gbs, job->seq, lk_dtype_name(job->dtype),
		r->recompute ? r->recompute : recompute[job->recompute], (int)job->sharding,
		lk_schedule_get(job->schedule)->name, options);
}

const char *lk_reproduce(lk_arena *arena, const lk_predict_request *r, const lk_job *job) {
	static const char *const but[] = {OUTPUT, NULL};
	if (r->model && !r->script && r->launch_count == 0) return of_options(arena, r, job);
	return lk_command(arena, &(lk_question){
		.verb = &lk_predict_verb, .request = r, .but = but, .rest = r->launch, .rest_count = r->launch_count});
}
