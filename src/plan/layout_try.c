/* layout_try.c: one layout, simulated as predict does it. */
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "plan/plan.h"
#include "step/energy.h"
#include "step/step.h"

static bool is_tight(const lk_space *space, const lk_step *step) {
	const lk_stage_use *use = &step->memory[step->fullest];
	LK_ASSERT(space->headroom < 1);
	if (lk_step_risky(step)) return true;
	if (space->headroom >= 0) return use->total > use->usable * (1 - space->headroom);
	return use->total + lk_memory_spread(use, &space->base.model) > use->usable;
}

struct beating {
	const lk_space *space;
	lk_time_to_beat beat;
	double least_ps; /* the layout's bound */
	bool hopeless;   /* that is above the time to beat */
};

/* Memory, which is known first, says which time a layout has to beat. */
static int64_t time_to_beat(void *context, const lk_step *step) {
	struct beating *beating = context;
	int64_t beat_ps =
		is_tight(beating->space, step) ? beating->beat.tight_ps : beating->beat.roomy_ps;
	beating->hopeless = beat_ps > 0 && beating->least_ps > (double)beat_ps;
	return beating->hopeless ? -1 : beat_ps;
}

/* Simulate once more, with a breakdown: few layouts get this far. */
static lk_status rank_by_energy(const lk_bounder *bounder, const lk_job *job,
                                const lk_step_options *bare, lk_trial *out, lk_error *err) {
	lk_step step;
	lk_step_options options = *bare;
	options.bare = false;
	options.give_up_at = NULL;
	options.habits = out->habits;
	lk_status status = lk_step_ask(job, bounder->space->cluster, &options, &step, err);
	if (status == LK_OK)
		out->rank_ps = (int64_t)(lk_energy_full_s(&step.breakdown, step.step_s) * LK_PS_PER_S);
	lk_step_free(&step);
	return status;
}

lk_status lk_layout_try(lk_bounder *bounder, const lk_core *core, const lk_layout *layout,
                        lk_time_to_beat beat, lk_step_habits known, lk_trial *out, lk_error *err) {
	lk_job job;
	lk_step step;
	memset(out, 0, sizeof *out);
	out->outcome = LK_ILLEGAL;
	if (lk_layout_job(bounder->space, core, layout, &job, NULL) != LK_OK) return LK_OK;
	struct beating beating = {
		.space = bounder->space, .beat = beat, .least_ps = (double)layout->least_s * LK_PS_PER_S};
	lk_step_options options = {.bare = true,
	                           .few = true,
	                           .guesses = true,
	                           .habits = known,
	                           .give_up_at = time_to_beat,
	                           .give_up_context = &beating,
	                           .cache = bounder->cache,
	                           .constants = lk_bounder_constants(bounder, core->stack, &job)};
	lk_status status = lk_step_ask(&job, bounder->space->cluster, &options, &step, err);
	if (status == LK_OK) {
		out->peak = step.memory[step.fullest].total;
		out->usable = step.usable;
		out->tight = is_tight(bounder->space, &step);
		out->step_ps = out->rank_ps = step.sim.step_ps;
		out->habits = beating.hopeless ? known : step.habits;
		if (!lk_step_fits(&step)) out->outcome = LK_TOO_LARGE;
		else if (step.sim.gave_up) out->outcome = LK_CUT_SHORT;
		else out->outcome = LK_SIMULATED;
	}
	lk_step_free(&step);
	if (status == LK_OK && bounder->space->by_energy && out->outcome == LK_SIMULATED)
		status = rank_by_energy(bounder, &job, &options, out, err);
	return status == LK_ERR_INPUT ? LK_OK : status; /* more kinds of places than are simulated */
}
