/* tune_step.c: simulates programs found in the step whose end they replace. Alone, a program waits
 * for its own collectives; in the step they overlap with the backward pass unless they are fused,
 * so another schedule may be best there. Simulated are the programs that are fastest alone, and
 * those with the least computation, whose collectives the step may hide. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"

enum {
	EACH_WAY = 128 /* programs simulated of each: fastest alone, and least computation */
};

lk_status lk_tune_step_begin(lk_graph *graph, const lk_cluster *cluster, lk_whatif_base **out,
                             lk_error *err) {
	lk_whatif_site site = {.cluster = *cluster, .run_ranks = graph->ranks.world};
	return lk_whatif_begin_own(graph, &site, out, err);
}

/* ---- one of them ---- */

lk_status lk_search_step_with(const lc_program *program, const lk_search_options *options,
                              const lk_whatif_base *base, lk_in_step *step, lk_found *found,
                              lk_error *err) {
	lk_graph *graph;
	lk_whatif_outcome outcome;
	lk_error why = {0};
	LK_TRY(lc_schedule_graph(program, &found->schedule, options->sizes, &graph, err));
	lk_status status = lk_whatif_try_update(base, graph, &outcome, &why);
	if (status == LK_OK) {
		lk_stage_use use = lk_memory_of_graph(outcome.step.graph, &outcome.cluster);
		found->in_step = true;
		found->step_s = outcome.step.step_s;
		found->step_bytes = use.total;
		found->step_fits = use.total <= use.usable;
		step->simulated++;
	} else if (status == LK_ERR_INPUT) {
		if (step->refused++ == 0) step->why = why;
		found->not_in_step = true;
		status = LK_OK;
	} else lk_fail_as(err, &why);
	lk_whatif_outcome_free(&outcome);
	lk_graph_free(graph);
	return status;
}

/* ---- all of them ---- */

static int step_compare_compute(const void *a, const void *b) {
	const lk_found *x = *(lk_found *const *)a, *y = *(lk_found *const *)b;
	if (x->time.compute_s != y->time.compute_s)
		return x->time.compute_s < y->time.compute_s ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Seconds of the step with a program: simulated, plus the measured less the simulated time
 * alone. */
static double step_seconds(const lk_found *found) {
	return found->step_s + (found->measured ? found->time.seconds - found->simulated_s : 0);
}

/* Order: in a step before those without; fitting memory first; measured first; then faster, then
 * faster alone. */
static int step_compare(const void *a, const void *b) {
	const lk_found *x = a, *y = b;
	if (x->in_step != y->in_step) return x->in_step ? -1 : 1;
	if (x->step_fits != y->step_fits) return x->step_fits ? -1 : 1;
	if (x->measured != y->measured) return x->measured ? -1 : 1;
	if (step_seconds(x) != step_seconds(y)) return step_seconds(x) < step_seconds(y) ? -1 : 1;
	if (x->time.seconds != y->time.seconds) return x->time.seconds < y->time.seconds ? -1 : 1;
	return (x->schedule.count > y->schedule.count) - (x->schedule.count < y->schedule.count);
}

void lk_search_order_in_step(lk_search *search) {
	lk_sort(search->found.at, search->found.count, sizeof *search->found.at, step_compare);
}

static lk_status step_simulate(const lc_program *program, const lk_search_options *options,
                               const lk_whatif_base *base, lk_found *const *order, size_t count,
                               lk_search *search, lk_error *err) {
	for (size_t i = 0; i < count && i < EACH_WAY; i++) {
		const char *reached = lk_cutoff_reached(options->cutoff);
		if (reached) {
			search->cut_off = reached;
			return LK_OK;
		}
		if (!order[i]->in_step && !order[i]->not_in_step)
			LK_TRY(lk_search_step_with(program, options, base, &search->step, order[i], err));
	}
	return LK_OK;
}

static lk_status step_simulate_found(const lc_program *program, const lk_search_options *options,
                                     const lk_whatif_base *base, lk_search *search, lk_error *err) {
	size_t count = search->found.count;
	lk_found **order = LK_ARRAY(&search->arena, lk_found *, count);
	if (!order) return lk_oom(err);
	for (size_t i = 0; i < count; i++) order[i] = &search->found.at[i];
	LK_TRY(step_simulate(program, options, base, order, count, search, err));
	lk_sort(order, count, sizeof *order, step_compare_compute);
	return step_simulate(program, options, base, order, count, search, err);
}

lk_status lk_search_in_step(const lc_program *program, const lk_search_options *options,
                            const lk_whatif_base *base, lk_search *search, lk_error *err) {
	lk_in_step unused = {0}, *step = &search->step;
	lk_whatif_outcome outcome;
	lk_status status = lk_whatif_try(base, NULL, 0, &outcome, err);
	if (status == LK_OK) {
		lk_stage_use use = lk_memory_of_graph(outcome.step.graph, &outcome.cluster);
		step->seconds = outcome.step.step_s;
		step->bytes = use.total;
		step->usable = use.usable;
	}
	lk_whatif_outcome_free(&outcome);
	LK_TRY(status);
	LK_TRY(step_simulate_found(program, options, base, search, err));
	if (!step->simulated) {
		if (search->cut_off)
			return lk_fail(err, LK_ERR_INPUT, "--step",
			               "the search was cut off before the step was simulated");
		lk_fail(err, LK_ERR_INPUT, "--step", "no schedule can replace the end of that step: %s",
		        step->why.what);
		return lk_hint(err, "%s", step->why.hint);
	}
	LK_ASSERT(search->found.count > 0);
	lk_search_order_in_step(search);
	return lk_search_step_with(program, options, base, &unused, &search->plain, err);
}
