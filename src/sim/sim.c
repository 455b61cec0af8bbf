/* sim.c: set up a simulation, run the requested engine, and check that every operation ran. */

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "sim/sim_internal.h"
#include "sim/timeline.h"

static lk_status sim_check_noise(const lk_sim *sim, lk_error *err) {
	const lk_sim_options *options = sim->options;
	if (!(options->jitter >= 0 && options->jitter <= 2))
		return lk_fail(err, LK_ERR_INPUT, "jitter", "%g is not between 0 and 2", options->jitter);
	if (!(options->gpu_spread >= 0 && options->gpu_spread <= 2))
		return lk_fail(err, LK_ERR_INPUT, "spread of GPUs", "%g is not between 0 and 2",
		               options->gpu_spread);
	for (uint32_t i = 0; i < options->straggler_count; i++) {
		const lk_straggler *slow = &options->stragglers[i];
		if (slow->rank >= (uint64_t)sim->stages * sim->chains)
			return lk_fail(err, LK_ERR_INPUT, "straggler", "rank %u does not exist", slow->rank);
		if (!(slow->factor > 0 && slow->factor <= 1e6))
			return lk_fail(err, LK_ERR_INPUT, "straggler",
			               "factor %g of rank %u is not above 0 and at most 1000000", slow->factor,
			               slow->rank);
	}
	for (uint32_t i = 0; i < options->record_count; i++)
		if (options->record[i] >= (uint64_t)sim->stages * sim->chains)
			return lk_fail(err, LK_ERR_INPUT, "recorded ranks", "rank %u does not exist",
			               options->record[i]);
	return LK_OK;
}

static lk_status sim_check_input(const lk_sim *sim, lk_error *err) {
	const lk_graph *graph = sim->graph;
	const lk_costs *costs = sim->costs;
	if (!sim->stages || !sim->chains || graph->programs.count != sim->stages)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu programs for %u stages of %u ranks",
		               graph->programs.count, sim->stages, sim->chains);
	size_t ranks = (size_t)sim->stages * sim->chains;
	if (ranks > UINT32_MAX)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu ranks are too many", ranks);
	if (costs->ops < graph->ops.count || !costs->variants)
		return lk_fail(err, LK_ERR_INTERNAL, "simulation",
		               "costs of %u operations for a graph of %u", costs->ops, graph->ops.count);
	for (size_t i = 0; costs->variant_of && i < ranks; i++)
		if (costs->variant_of[i] >= costs->variants)
			return lk_fail(err, LK_ERR_INTERNAL, "simulation", "rank %zu has no costs", i);
	return sim_check_noise(sim, err);
}

static lk_status stage_set_variant(lk_sim *sim, uint32_t s, lk_error *err) {
	lk_sim_stage *stage = &sim->stage[s];
	const uint16_t *of = sim->costs->variant_of;
	stage->variant = of ? of[lk_rank_of(sim->graph, s, sim->lane_chain[0])] : 0;
	for (uint32_t i = 0; of && i < sim->lanes; i++)
		if (of[lk_rank_of(sim->graph, s, sim->lane_chain[i])] != stage->variant)
			stage->variant = LK_MIXED;
	if (stage->variant != LK_MIXED) return LK_OK;
	stage->variants = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!stage->variants) return lk_oom(err);
	for (uint32_t i = 0; i < sim->lanes; i++)
		stage->variants[i] = of[lk_rank_of(sim->graph, s, sim->lane_chain[i])];
	return LK_OK;
}

/* Factors of a stage's lanes: differences between GPUs. */
static lk_status stage_set_factors(lk_sim *sim, uint32_t s, lk_error *err) {
	lk_sim_stage *stage = &sim->stage[s];
	size_t padded = (size_t)sim->lanes + 64;
	stage->factor = LK_ARRAY(sim->arena, double, padded);
	if (!stage->factor) return lk_oom(err);
	for (size_t i = 0; i < padded; i++)
		stage->factor[i] =
			i < sim->lanes ? lk_sim_rank_factor(sim->options, (uint64_t)s * sim->chains + i) : 1;
	return LK_OK;
}

static lk_status sim_set_factors(lk_sim *sim, lk_error *err) {
	/* then no two ranks are equal: lanes are chains */
	LK_ASSERT(sim->options->gpu_spread == 0 || sim->lanes == sim->chains);
	for (uint32_t s = 0; sim->options->gpu_spread > 0 && s < sim->stages; s++)
		LK_TRY(stage_set_factors(sim, s, err));
	for (uint32_t i = 0; i < sim->options->straggler_count; i++) {
		const lk_straggler *slow = &sim->options->stragglers[i];
		uint32_t s = lk_rank_stage(sim->graph, slow->rank);
		lk_sim_stage *stage = &sim->stage[s];
		if (slow->factor == 1) continue;
		if (!stage->factor) LK_TRY(stage_set_factors(sim, s, err));
		uint32_t chain = lk_rank_chain(sim->graph, slow->rank), lane = sim->lane_of[chain];
		if (sim->lane_chain[lane] == chain) stage->factor[lane] *= slow->factor;
	}
	return LK_OK;
}

static lk_status sim_set_records(lk_sim *sim, lk_error *err) {
	const lk_sim_options *options = sim->options;
	for (uint32_t i = 0; i < options->record_count; i++)
		sim->stage[lk_rank_stage(sim->graph, options->record[i])].record_count++;
	for (uint32_t s = 0; s < sim->stages; s++) {
		lk_sim_stage *stage = &sim->stage[s];
		stage->records = LK_ARRAY(sim->arena, uint32_t, stage->record_count);
		stage->record_lane = LK_ARRAY(sim->arena, uint32_t, stage->record_count);
		stage->record_base = LK_ARRAY(sim->arena, uint64_t, stage->record_count);
		if (!stage->records || !stage->record_lane || !stage->record_base) return lk_oom(err);
		stage->record_count = 0;
	}
	for (uint32_t i = 0; i < options->record_count; i++) {
		lk_sim_stage *stage = &sim->stage[lk_rank_stage(sim->graph, options->record[i])];
		stage->record_lane[stage->record_count] =
			sim->lane_of[lk_rank_chain(sim->graph, options->record[i])];
		stage->record_base[stage->record_count] = sim->event_count;
		sim->event_count += stage->ops;
		stage->records[stage->record_count++] = i;
	}
	return LK_OK;
}

static lk_status sim_set_lanes(lk_sim *sim, lk_error *err) {
	LK_TRY(lk_sim_classes(sim->graph, sim->costs, sim->options, sim->arena, &sim->lanes,
	                      &sim->lane_of, &sim->lane_ranks, err));
	sim->lane_chain = LK_ARRAY(sim->arena, uint32_t, sim->lanes);
	if (!sim->lane_chain) return lk_oom(err);
	for (uint32_t i = sim->chains; i > 0; i--) sim->lane_chain[sim->lane_of[i - 1]] = i - 1;
	for (uint32_t i = 0; i < sim->lanes; i++) LK_ASSERT(sim->lane_of[sim->lane_chain[i]] == i);
	for (uint32_t s = 0; s < sim->stages; s++) LK_TRY(stage_set_variant(sim, s, err));
	LK_TRY(sim_set_factors(sim, err));
	LK_TRY(lk_sim_check_time(sim, err));
	LK_TRY(sim_set_records(sim, err));
	for (unsigned g = 0; g < LK_GROUPS; g++) LK_TRY(lk_lower_groups(sim, g, err));
	return lk_lower_all_lanes(sim, err);
}

static lk_status sim_set_up(lk_sim *sim, lk_error *err) {
	sim->stages = sim->graph->ranks.stages;
	sim->chains = sim->graph->ranks.chains;
	LK_TRY(sim_check_input(sim, err));
	sim->stage = LK_ARRAY(sim->arena, lk_sim_stage, sim->stages);
	if (!sim->stage) return lk_oom(err);
	LK_TRY(lk_lower(sim, err));
	return sim_set_lanes(sim, err);
}

/* The result outlives the simulation: lane tables are copied. */
static lk_status result_set_up(lk_sim *sim, lk_sim_result *out, lk_error *err) {
	out->lanes = sim->lanes;
	out->finish_ps = calloc((size_t)sim->stages * sim->lanes, sizeof *out->finish_ps);
	out->lane_of = malloc(sim->chains * sizeof *out->lane_of);
	out->lane_ranks = malloc(sim->lanes * sizeof *out->lane_ranks);
	if (!out->finish_ps || !out->lane_of || !out->lane_ranks) return lk_oom(err);
	if (sim->event_count && !lk_reserve(&out->events, sim->event_count)) return lk_oom(err);
	sim->events = out->events.at;
	out->events.count = sim->event_count;
	memcpy(out->lane_of, sim->lane_of, sim->chains * sizeof *out->lane_of);
	memcpy(out->lane_ranks, sim->lane_ranks, sim->lanes * sizeof *out->lane_ranks);
	return LK_OK;
}

/* Check the recorded events and ends: in order, and within the step. */
static void result_assert(const lk_sim *sim, const lk_sim_result *out) {
	for (size_t i = 0; i < out->events.count; i++) {
		const lk_sim_event *event = &out->events.at[i];
		LK_ASSERT(0 <= event->ready_ps && event->ready_ps <= event->start_ps &&
		          event->start_ps <= event->end_ps);
		LK_ASSERT(event->end_ps <= out->step_ps && event->op < sim->graph->ops.count);
		(void)event;
	}
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t i = 0; i < sim->lanes; i++)
			LK_ASSERT(out->finish_ps[(size_t)s * sim->lanes + i] >= 0);
	(void)sim;
}

static lk_status result_check(const lk_sim *sim, lk_sim_result *out, lk_error *err) {
	uint64_t operations = 0;
	bool untold = sim->options->left_out && out->unsettled;
	if (out->gave_up || untold) return LK_OK;
	for (uint32_t s = 0; s < sim->stages; s++) operations += sim->stage[s].ops * sim->lanes;
	if (out->operations != operations)
		return lk_fail(err, LK_ERR_INTERNAL, "simulation", "%llu of %llu operations ran",
		               (unsigned long long)out->operations, (unsigned long long)operations);
	for (size_t i = 0; i < (size_t)sim->stages * sim->lanes; i++)
		if (out->finish_ps[i] > out->step_ps) out->step_ps = out->finish_ps[i];
	result_assert(sim, out);
	return LK_OK;
}

/* Expand to every rank, with the times of its class's simulated rank. */
static lk_status result_relabel(const lk_sim *sim, lk_sim_result *out, lk_error *err) {
	if (out->lanes == sim->chains) return LK_OK;
	int64_t *finish_ps = calloc((size_t)sim->stages * sim->chains, sizeof *finish_ps);
	uint32_t *lane_ranks = malloc(sim->chains * sizeof *lane_ranks);
	if (!finish_ps || !lane_ranks) {
		free(finish_ps);
		free(lane_ranks);
		return lk_oom(err);
	}
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t i = 0; i < sim->chains; i++)
			finish_ps[(size_t)s * sim->chains + i] =
				out->finish_ps[(size_t)s * out->lanes + out->lane_of[i]];
	for (uint32_t i = 0; i < sim->chains; i++) {
		lane_ranks[i] = 1;
		out->lane_of[i] = i;
	}
	out->operations = 0;
	for (uint32_t s = 0; s < sim->stages && !out->gave_up; s++)
		out->operations += sim->stage[s].ops * sim->chains;
	free(out->finish_ps);
	free(out->lane_ranks);
	out->finish_ps = finish_ps;
	out->lane_ranks = lane_ranks;
	out->lanes = sim->chains;
	return LK_OK;
}

/* A function that runs a simulation that has been set up. */
typedef lk_status sim_way(lk_sim *sim, lk_sim_result *out, lk_error *err);

static lk_status sim_run(const lk_graph *graph, const lk_costs *costs,
                         const lk_sim_options *options, sim_way *way, lk_sim_result *out,
                         lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_sim sim = {.graph = graph, .costs = costs, .options = options, .arena = &arena};
	memset(out, 0, sizeof *out);
	lk_status status = sim_set_up(&sim, err);
	if (status == LK_OK) status = result_set_up(&sim, out, err);
	if (status == LK_OK) status = way(&sim, out, err);
	if (status == LK_OK) status = result_check(&sim, out, err);
	if (status == LK_OK && options->all_ranks) status = result_relabel(&sim, out, err);
	if (status != LK_OK) lk_sim_result_free(out);
	lk_arena_free(&arena);
	return status;
}

static lk_status sim_run_whole(lk_sim *sim, lk_sim_result *out, lk_error *err) {
	return sim->options->contention ? lk_run_engine(sim, out, err) : lk_run_sweep(sim, out, err);
}

/* If few periods show that most folded runs share the device, give up the step that lacks the
 * others too. */
static bool sim_leave(const lk_sim *sim, lk_sim_result *brief, lk_sim_result *out) {
	if (!sim->options->left_out || !brief->left) return false;
	out->gave_up = out->left = true;
	out->shared = brief->shared;
	brief->shared = NULL;
	return true;
}

/* Run a step of many periods with `more` times the default number of periods. *done false: it needs
 * more of them, or must be run as it is; if it has enough of them it is `unsettled`. */
static lk_status sim_run_steady(lk_sim *sim, size_t more, lk_sim_result *out, bool *done,
                                lk_error *err) {
	lk_steady steady;
	lk_sim_result brief;
	LK_TRY(lk_steady_find(sim, more, &steady, done, err));
	if (!*done) return LK_OK;
	lk_status status =
		sim_run(&steady.graph, sim->costs, &steady.options, sim_run_whole, &brief, err);
	*done = status == LK_OK &&
	        (sim_leave(sim, &brief, out) || lk_steady_extend(sim, &steady, &brief, out));
	out->unsettled = !*done;
	if (out->unsettled && sim->options->left_out) { /* a step of fewer folded runs may settle */
		out->shared = brief.shared;
		brief.shared = NULL;
	}
	lk_sim_result_free(&brief);
	return status;
}

static lk_status sim_run_least(lk_sim *sim, lk_sim_result *out, lk_error *err) {
	enum {
		LATER = 3 /* some steps settle only after three times as long */
	};
	bool done = false;
	if (sim->options->left_out) {
		LK_TRY(sim_run_steady(sim, 1, out, &done, err));
		out->unsettled = !done;
		return LK_OK;
	}
	if (sim->options->unsettled) return sim_run_whole(sim, out, err);
	LK_TRY(sim_run_steady(sim, 1, out, &done, err));
	if (!done) LK_TRY(sim_run_steady(sim, LATER, out, &done, err));
	return done ? LK_OK : sim_run_whole(sim, out, err);
}

lk_status lk_sim_run(const lk_graph *graph, const lk_costs *costs, const lk_sim_options *options,
                     lk_sim_result *out, lk_error *err) {
	return sim_run(graph, costs, options, sim_run_least, out, err);
}

void lk_sim_result_free(lk_sim_result *result) {
	if (!result) return;
	free(result->finish_ps);
	free(result->lane_of);
	free(result->lane_ranks);
	free(result->shared);
	free(result->gap.at_ps);
	lk_vec_free(&result->events);
	memset(result, 0, sizeof *result);
}

/* The first event of a record or a later one. */
static size_t events_find_record(const lk_sim_events *events, uint32_t record) {
	size_t low = 0, high = events->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (events->at[middle].record < record) low = middle + 1;
		else high = middle;
	}
	return low;
}

const lk_sim_event *lk_sim_events_of(const lk_sim_events *events, uint32_t record, size_t *count) {
	size_t begin = events_find_record(events, record);
	*count = events_find_record(events, record + 1) - begin;
	return events->at + begin;
}

/* ---- timelines ---- */

lk_timeline *lk_timeline_new(void) {
	lk_timeline *timeline = calloc(1, sizeof *timeline);
	if (!timeline) return NULL;
	timeline->names = lk_intern_new();
	if (!timeline->names) {
		free(timeline);
		return NULL;
	}
	return timeline;
}

void lk_timeline_free(lk_timeline *timeline) {
	if (!timeline) return;
	lk_intern_free(timeline->names);
	lk_vec_free(&timeline->tracks);
	lk_vec_free(&timeline->slices);
	lk_vec_free(&timeline->flows);
	lk_vec_free(&timeline->counters);
	free(timeline);
}
