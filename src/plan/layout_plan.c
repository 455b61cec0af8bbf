/* layout_plan.c: `lockstep plan`: one search for each number of GPUs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options/command.h"
#include "step/step.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "model/layout/job.h"
#include "plan/plan.h"

enum { MOST_COUNTS = 64 };

/* Everything that a plan owns. */
struct work {
	lk_plan plan;
	lk_arena arena;
	lk_asked asked[MOST_COUNTS];
	lk_plan_count counts[MOST_COUNTS];
	int gpus[MOST_COUNTS], count;
};

void lk_plan_defaults(lk_plan_request *request) {
	memset(request, 0, sizeof *request);
}

static double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is asked ---- */

static lk_status read_counts(const lk_plan_request *r, struct work *w, lk_error *err) {
	const char *at = r->gpus;
	if (!at) {
		w->gpus[w->count++] = r->job.gpus;
		return LK_OK;
	}
	while (at) {
		char item[32];
		long long value;
		size_t length = strcspn(at, ",");
		lk_copy(item, length + 1 < sizeof item ? length + 1 : sizeof item, at);
		at = at[length] ? at + length + 1 : NULL;
		LK_TRY(lk_parse_int(item, 1, LK_JOB_GPUS, &value, "--gpus", err));
		if (w->count == MOST_COUNTS) return lk_fail(err, LK_ERR_INPUT, "--gpus", "more than %d numbers", MOST_COUNTS);
		bool known = false;
		for (int i = 0; i < w->count; i++) known |= w->gpus[i] == (int)value;
		if (!known) w->gpus[w->count++] = (int)value;
	}
	return LK_OK;
}

static lk_status check_request(const lk_plan_request *r, const lk_asked *asked, lk_error *err) {
	if (asked->job.gbs <= 0) {
		lk_fail(err, LK_ERR_INPUT, "--gbs", "the global batch was not given");
		return lk_hint(err, "give --gbs N: layouts are compared on the same batch");
	}
	if ((r->hours > 0 || r->gpu_hours > 0) && r->tokens <= 0) {
		lk_fail(err, LK_ERR_INPUT, r->hours > 0 ? "--hours" : "--gpu-hours",
				"a budget needs the length of the training");
		return lk_hint(err, "add --tokens N");
	}
	return LK_OK;
}

/* Of a number of GPUs for which there is no layout at all: which batches would do. */
static lk_status explain_none(const lk_space *space, lk_plan_count *count, lk_arena *arena, lk_error *err) {
	int64_t block = 1, most = 1;
	for (int t = 0; t < space->tp.count; t++)
		for (int p = 0; p < space->pp.count; p++)
			for (int c = 0; c < space->cp.count; c++) {
				block = (int64_t)space->tp.at[t] * space->pp.at[p] * space->cp.at[c];
				if (space->gpus % block == 0 && block > most) most = block;
			}
	int64_t least = space->gpus / most * (space->mbs.count ? space->mbs.at[0] : 1);
	char near[LK_JOB_NEAR];
	const char *text = NULL;
	if (space->base.gbs % least != 0)
		text = lk_arena_printf(
			arena,
			"no layout of %d GPUs: a global batch of %d does not divide by micro-batch * dp of any; with the fewest "
			"replicas, %lld, nearest: %s",
			space->gpus, space->base.gbs, (long long)(space->gpus / most),
			lk_near_multiples(near, space->base.gbs, least));
	else
		text = lk_arena_printf(arena, "no layout of %d GPUs among the values that are searched is legal", space->gpus);
	count->gpus = space->gpus;
	count->nothing = text;
	return text ? LK_OK : lk_oom(err);
}

/* ---- searches ---- */

static lk_status search(const lk_plan_request *r, struct work *w, int i, lk_error *err) {
	lk_space space;
	lk_hunt hunt;
	LK_TRY(lk_space_read(r, &w->asked[i], &space, err));
	LK_TRY(lk_hunt_run(r, &space, &w->arena, &hunt, err));
	if (hunt.layouts == 0) return explain_none(&space, &w->counts[i], &w->arena, err);
	return lk_answer_count(r, &w->asked[i], &space, &hunt, &w->arena, &w->counts[i], err);
}

static lk_status describe(const lk_plan_request *r, struct work *w, lk_error *err) {
	const lk_asked *first = &w->asked[0];
	char size[32];
	lk_plan *p = &w->plan;
	p->model =
		lk_arena_printf(&w->arena, "%s, %s parameters", first->job.model.name[0] ? first->job.model.name : "network",
						lk_format_count(lk_model_params(&first->job.model), size, sizeof size));
	p->cluster =
		lk_arena_strdup(&w->arena, r->job.cluster ? first->cluster.text : first->cluster.node[0].device->label);
	if (!p->model || !p->cluster) return lk_oom(err);
	p->gbs = first->job.gbs, p->seq = first->job.seq;
	p->tokens = r->tokens;
	p->threads = r->threads > 0 ? r->threads : lk_cores();
	return LK_OK;
}

static void choose(struct work *w) {
	lk_plan *p = &w->plan;
	p->counts = w->counts, p->count = w->count;
	p->best = -1;
	lk_answer_pareto(w->counts, w->count);
	for (int i = 0; i < w->count; i++) {
		if (w->counts[i].choice_count == 0) continue;
		const lk_plan_choice *best = p->best >= 0 ? w->counts[p->best].choices : NULL;
		if (!best || w->counts[i].choices->step_time_s < best->step_time_s) p->best = i;
		p->seq = ((const lk_job *)w->counts[i].choices->job)->seq; /* where it was not said, the network's own */
	}
}

static lk_status answer(const lk_plan_request *r, struct work *w, lk_error *err) {
	double start = now_s();
	LK_TRY(read_counts(r, w, err));
	for (int i = 0; i < w->count; i++) {
		lk_predict_request one = r->job;
		if (w->gpus[i] > 0) one.gpus = w->gpus[i];
		LK_TRY(lk_request_take(&w->arena, &one, &w->asked[i], err));
		LK_TRY(check_request(r, &w->asked[i], err));
	}
	LK_TRY(describe(r, w, err));
	for (int i = 0; i < w->count; i++) LK_TRY(search(r, w, i, err));
	choose(w);
	w->plan.seconds = now_s() - start;
	return LK_OK;
}

static const char *reproduce(lk_arena *arena, const lk_plan_request *r) {
	static const char *const but[] = {"threads", "resume", "emit", "output", "file", "html", "verbose", NULL};
	return lk_command(arena, &(lk_question){
		.verb = &lk_plan_verb, .request = r, .but = but, .rest = r->job.launch, .rest_count = r->job.launch_count});
}

lk_status lk_plan_find(const lk_plan_request *request, lk_plan **out, lk_error *err) {
	*out = NULL;
	if (request->job.calibration) LK_TRY(lk_calibration_use(request->job.calibration, err));
	struct work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->plan.memory_owner = w;
	lk_status status = answer(request, w, err);
	if (status == LK_OK) status = lk_inputs_find(&w->arena, &lk_plan_verb, request, NULL, 0, &w->plan.inputs, err);
	if (status == LK_OK && !(w->plan.reproduce = reproduce(&w->arena, request))) status = lk_oom(err);
	if (status == LK_OK)
		*out = &w->plan;
	else
		lk_plan_free(&w->plan);
	return status;
}

lk_arena *lk_plan_arena(const lk_plan *plan) {
	return &((struct work *)plan->memory_owner)->arena;
}

void lk_plan_free(lk_plan *plan) {
	if (!plan) return;
	struct work *w = plan->memory_owner;
	lk_arena_free(&w->arena);
	free(w);
}
