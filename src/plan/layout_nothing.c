/* layout_nothing.c: the answer where no layout fits: the smallest one, and what would make it fit.
 * That changes the training's arithmetic, its speed or the number of GPUs, so it is suggested, not
 * searched. Each is asked as predict would be asked, at the smallest layout. */
#include <string.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "plan/plan.h"
#include "step/step.h"

static void bf16_moments(lk_predict_request *request) {
	request->state_dtype = "bf16";
}

static void host_optimizer(lk_predict_request *request) {
	request->offload_optimizer = true;
}

static void host_weights(lk_predict_request *request) {
	request->zero = "3";
	request->offload_optimizer = request->offload_params = true;
}

static void adapters(lk_predict_request *request) {
	request->task = lk_objective_adapted(lk_request_objective(request));
}

static void narrow_adapters(lk_predict_request *request) {
	adapters(request);
	request->qlora = true;
}

/* A way out, as options of plan; the task's value depends on the objective. */
typedef struct lk_way_out {
	const char *options;
	void (*set)(lk_predict_request *request);
} lk_way_out;

static const lk_way_out ways_out[] = {
	{"--state-dtype bf16", bf16_moments}, {"--offload", host_optimizer},
	{"--offload-params", host_weights},   {"--task", adapters},
	{"--task", narrow_adapters},
};

enum { DOUBLINGS = 6 }; /* of the number of GPUs */

/* The bytes of the fullest GPU; *legal: the request can be read and run. */
static lk_status nothing_bytes(const lk_predict_request *request, double *bytes, bool *fits,
                               bool *legal, lk_error *err) {
	const lk_step_options memory = {.memory_only = true, .few = true};
	lk_arena arena = LK_ARENA_INIT;
	lk_asked asked;
	lk_step step = {0};
	lk_status status = lk_request_read(&arena, request, &asked, err);
	if (status == LK_OK) status = lk_step_ask(&asked.job, &asked.cluster, &memory, &step, err);
	if ((*legal = status == LK_OK)) {
		*bytes = step.memory[step.fullest].total;
		*fits = lk_step_fits(&step);
	}
	lk_step_free(&step);
	lk_arena_free(&arena);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

/* "; at that layout --offload fits with 64.7 GiB"; only what fits is named. */
static lk_status name_way(lk_text *text, const char *options, const lk_predict_request *changed,
                          int *named, bool *fits, lk_error *err) {
	double bytes;
	bool legal;
	char shown[32];
	LK_TRY(nothing_bytes(changed, &bytes, fits, &legal, err));
	*fits = *fits && legal;
	if (!*fits) return LK_OK;
	lk_text_add(text, "%s %s (%s)", *named ? "," : "; what would fit:", options,
	            lk_format_bytes(bytes, shown, sizeof shown));
	++*named;
	return LK_OK;
}

static lk_status name_ways(const lk_plan_request *request, const lk_predict_request *smallest,
                           lk_text *text, lk_error *err) {
	int named = 0;
	bool fits = false;
	char options[32];
	for (size_t i = 0; i < sizeof ways_out / sizeof *ways_out; i++) {
		lk_predict_request changed = *smallest;
		ways_out[i].set(&changed);
		bool adapts = strcmp(ways_out[i].options, "--task") == 0;
		if (adapts)
			snprintf(options, sizeof options, "--task %s%s", changed.task,
			         changed.qlora ? " --qlora" : "");
		LK_TRY(
			name_way(text, adapts ? options : ways_out[i].options, &changed, &named, &fits, err));
	}
	if (request->job.cluster) return LK_OK; /* it has so many GPUs */
	for (int i = 1; i <= DOUBLINGS; i++) {
		lk_predict_request changed = *smallest;
		changed.gpus = smallest->gpus << i;
		snprintf(options, sizeof options, "--gpus %d", changed.gpus);
		LK_TRY(name_way(text, options, &changed, &named, &fits, err));
		if (fits) break;
	}
	return LK_OK;
}

lk_status lk_answer_nearest(const lk_plan_request *request, const lk_space *space,
                            const lk_hunt *hunt, lk_arena *arena, const char **out, lk_error *err) {
	lk_job job;
	lk_predict_request smallest;
	char need[32], have[32], ways[512];
	lk_text text = lk_text_begin(ways, sizeof ways);
	if (!hunt->any ||
	    lk_layout_job(space, &hunt->closest.core, &hunt->closest.layout, &job, NULL) != LK_OK) {
		*out = lk_arena_printf(arena, "no layout of %d %s is legal", space->gpus,
		                       lk_noun(space->gpus, "GPU", "GPUs"));
		return *out ? LK_OK : lk_oom(err);
	}
	const char *layout = lk_layout_text(arena, &job);
	if (!layout ||
	    !lk_layout_request(request, space, &hunt->closest.layout, &job, arena, &smallest))
		return lk_oom(err);
	LK_TRY(name_ways(request, &smallest, &text, err));
	*out =
		lk_arena_printf(arena, "nothing fits on %d %s: the smallest layout, %s, needs %s of %s%s",
	                    space->gpus, lk_noun(space->gpus, "GPU", "GPUs"), layout,
	                    lk_format_bytes(hunt->closest.trial.peak, need, sizeof need),
	                    lk_format_bytes(hunt->closest.trial.usable, have, sizeof have), ways);
	return *out ? LK_OK : lk_oom(err);
}
