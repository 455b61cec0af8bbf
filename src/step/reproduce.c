/* reproduce.c: the command that reproduces a request. Derived values are written out (degrees,
 * batch, format, schedule); every other option is written as given (command.c). */
#include "base/arena.h"
#include "options/command.h"
#include "step/step.h"
#include "model/layout/schedule.h"

/* Options that change no figure. */
#define SHOWN "trace-ranks", "no-fixes"

void lk_reproduce_where(lk_command_line *line, const lk_predict_request *request, int gpus) {
	const char *gpu = request->gpu ? request->gpu : "";
	int counted = 0; /* "256xh200": the number is in --gpus */
	if (request->cluster) {
		lk_command_text(line, "cluster", request->cluster);
		return;
	}
	lk_error unused;
	if (lk_where_count(&gpu, &counted, &unused) != LK_OK) line->text = NULL;
	lk_command_text(line, "gpu", gpu);
	lk_command_number(line, "gpus", gpus);
}

static const char *of_options(lk_arena *arena, const lk_predict_request *request,
                              const lk_job *job) {
	static const char *const recompute[] = {"none", "selective", "full"};
	static const char *const but[] = {"model", "gpu",       "gpus", "cluster",  "tp",  "pp",
	                                  "vp",    "cp",        "ep",   "mbs",      "gbs", "seq",
	                                  "dtype", "recompute", "zero", "schedule", SHOWN, NULL};
	const struct {
		const char *name;
		int value;
	} numbers[] = {{"tp", job->tp}, {"pp", job->pp},   {"vp", job->vp},   {"cp", job->cp},
	               {"ep", job->ep}, {"mbs", job->mbs}, {"gbs", job->gbs}, {"seq", job->seq}};
	enum { NUMBERS = sizeof numbers / sizeof *numbers };
	lk_predict_request said = *request;
	if (!request->dtype && job->dtype_said) lk_request_state_numbers(job, &said);
	lk_command_line line = lk_command_begin(arena, lk_predict_verb.name);
	lk_command_text(&line, "model", request->model);
	lk_reproduce_where(&line, request, job->gpus);
	bool sequences = job->model.network != LK_NET_CONV;
	for (int i = 0; i < (sequences ? NUMBERS : NUMBERS - 1); i++)
		lk_command_number(&line, numbers[i].name, numbers[i].value);
	lk_command_text(&line, "dtype", lk_dtype_name(job->dtype));
	lk_command_text(&line, "recompute",
	                request->recompute ? request->recompute : recompute[job->recompute]);
	lk_command_number(&line, "zero", job->sharding);
	lk_command_text(&line, "schedule", lk_schedule_get(job->schedule)->name);
	lk_command_part(
		&line, lk_command_options(
				   arena, &(lk_question){.verb = &lk_predict_verb, .request = &said, .but = but}));
	return line.text;
}

const char *lk_reproduce(lk_arena *arena, const lk_predict_request *request, const lk_job *job) {
	if (request->model && !request->script && !request->config && request->launch_count == 0)
		return of_options(arena, request, job);
	return lk_reproduce_given(arena, request);
}

const char *lk_reproduce_given(lk_arena *arena, const lk_predict_request *request) {
	static const char *const but[] = {SHOWN, NULL};
	return lk_command(arena, &(lk_question){.verb = &lk_predict_verb,
	                                        .request = request,
	                                        .but = but,
	                                        .rest = request->launch,
	                                        .rest_count = request->launch_count});
}
