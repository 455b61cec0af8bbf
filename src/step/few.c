/* few.c: a step of many micro-batches, predicted from few of them.
 *
 * A periodic schedule repeats itself in its middle. The programs are built with as many
 * micro-batches as the pipeline needs to fill, settle and empty, and the simulation reports whether
 * it has reached a steady state (sim/steady.c): then each omitted micro-batch takes a known time,
 * with the events of one more period. Where kernels slow one another, periods may differ by little
 * for ever; the rate of the slowest rank then suffices for times that need not be exact. Otherwise
 * the step is built with all of them. So the cost of a prediction does not grow
 * with them. */
#include <stdlib.h>

#include "model/layout/schedule.h"
#include "step/step.h"

enum {
	FILL_A_STAGE = 4, /* micro-batches per stage: to fill, to settle, to empty */
	SETTLE = 8,       /* additional periods */
	WORTH_FIRST = 2,  /* the job must have at least this many times as many; otherwise all are
	                   * built */
	WORTH = 3,        /* likewise of more */
};

/* Micro-batches after which programs repeat. Two successive messages use different events. */
static int step_period(const lk_job *job) {
	int group = job->microbatch_group > job->pp ? job->microbatch_group : job->pp;
	if (job->schedule != LK_SCHED_INTERLEAVED) return 2 * lk_schedule_directions(job->schedule);
	return group % 2 ? 2 * group : group;
}

int lk_step_few(const lk_job *job, const lk_step_options *options, int more) {
	bool may = !options->habits.unsettled && options->jitter == 0 &&
	           lk_schedule_get(job->schedule)->periodic;
	int period = step_period(job);
	int64_t few = (int64_t)more * ((int64_t)FILL_A_STAGE * job->pp + (int64_t)SETTLE * period);
	if (!may || few * (more > 1 ? WORTH : WORTH_FIRST) > job->microbatches) return 0;
	return (int)(few + (job->microbatches - few) % period);
}

int lk_step_fewer(const lk_job *job, int few) {
	int period = step_period(job), less = few / 4 / period * period;
	return few - (less > period ? less : period);
}

/* The events in [from, to), with times relative to its beginning. */
static size_t split_clip(const lk_sim_event *events, size_t count, int64_t from, int64_t to,
                         lk_sim_event *out) {
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const lk_sim_event *event = &events[i];
		if (event->end_ps <= from || event->ready_ps >= to) continue;
		out[kept] = *event;
		out[kept].ready_ps = event->ready_ps > from ? event->ready_ps - from : 0;
		out[kept].start_ps = event->start_ps > from ? event->start_ps - from : 0;
		if (event->start_ps > to) out[kept].start_ps = to - from;
		out[kept++].end_ps = (event->end_ps < to ? event->end_ps : to) - from;
	}
	return kept;
}

/* Add what is left out of the events of record `r`. */
static lk_status split_add_gap(const lk_step *step, uint32_t r, const lk_sim_event *events,
                               size_t count, bool pipeline, lk_breakdown *out, lk_error *err) {
	const lk_sim_gap *gap = &step->sim.gap;
	lk_sim_event *period = malloc((count + 1) * sizeof *period);
	lk_breakdown one;
	if (!period) return lk_oom(err);
	count = split_clip(events, count, gap->at_ps[r] - gap->shift_ps, gap->at_ps[r], period);
	lk_status status = lk_breakdown_of(lk_step_simulated(step), step->fold, step->graph, period,
	                                   count, gap->shift_ps, pipeline, &one, err);
	for (int p = 0; p < LK_PART_COUNT && status == LK_OK; p++) {
		out->exposed_s[p] += (double)gap->times * one.exposed_s[p];
		out->hidden_s[p] += (double)gap->times * one.hidden_s[p];
	}
	free(period);
	return status;
}

lk_status lk_step_split(const lk_step *step, uint32_t r, bool pipeline, lk_breakdown *out,
                        lk_error *err) {
	const lk_sim_gap *gap = &step->sim.gap;
	size_t count;
	const lk_sim_event *events = lk_sim_events_of(&step->sim.events, r, &count);
	int64_t span_ps = step->sim.step_ps - (int64_t)gap->times * gap->shift_ps;
	LK_TRY(lk_breakdown_of(lk_step_simulated(step), step->fold, step->graph, events, count, span_ps,
	                       pipeline, out, err));
	return gap->times ? split_add_gap(step, r, events, count, pipeline, out, err) : LK_OK;
}
