/* timed.c: steps -> step graph -> costs -> simulation -> total time, and the part that is
 * computation. */
#include "base/arena.h"
#include "lang/tune/tune.h"

#include <math.h>
#include <string.h>

#include "step/step.h"
#include "base/intervals.h"
#include "base/units.h"
#include "base/noun.h"
#include "lang/steps/steps.h"
#include "sim/memory/memory.h"
#include "sim/sim.h"

void lk_timed_constants(lk_constants *out) {
	lk_profile_base(lk_calibration_current(), out);
	out->network_call_s = out->network_beside = 0; /* a collective takes as long as alone */
}

/* Links carry both directions at full rate; a message is counted at its sender. */
static void both_directions(const lk_graph *graph, lk_costs *costs) {
	for (uint32_t v = 0; v < costs->variants; v++)
		for (uint32_t op = 0; op < graph->ops.count; op++) {
			lk_cost *cost = &costs->at[(size_t)v * costs->ops + op];
			if (graph->ops.kind[op] != LK_OP_RECV) continue;
			cost->intra = cost->nic = cost->memory = 0;
			for (int tier = 0; tier < LK_TIERS; tier++) cost->tier[tier] = 0;
		}
}

static lk_status timed_split(const lk_graph *graph, const lk_sim_result *sim, lk_timed *out,
                             lk_error *err) {
	lk_intervals busy = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < sim->events.count && status == LK_OK; i++) {
		const lk_sim_event *event = &sim->events.at[i];
		if (lk_op_is_comm(graph->ops.kind[event->op]) || event->end_ps <= event->start_ps) continue;
		if (!lk_intervals_add(&busy, event->start_ps, event->end_ps)) status = lk_oom(err);
	}
	if (status == LK_OK) {
		lk_intervals_sort(&busy);
		out->compute_s = (double)lk_intervals_length(&busy) / LK_PS_PER_S;
		out->exposed_s = out->seconds - out->compute_s;
	}
	lk_vec_free(&busy);
	return status;
}

static lk_status timed_simulate(lk_arena *arena, const lk_graph *graph, const lk_costs *costs,
                                lk_timed *out, lk_error *err) {
	lk_sim_options options = {.contention = true, .record_count = graph->ranks.stages};
	lk_sim_result sim = {0};
	uint32_t *record = LK_ARRAY(arena, uint32_t, graph->ranks.stages);
	if (!record) return lk_oom(err);
	for (uint32_t s = 0; s < graph->ranks.stages; s++) record[s] = lk_rank_of(graph, s, 0);
	options.record = record;
	lk_status status = lk_sim_run(graph, costs, &options, &sim, err);
	if (status == LK_OK) {
		out->seconds = (double)sim.step_ps / LK_PS_PER_S;
		out->operations = sim.operations;
		status = timed_split(graph, &sim, out, err);
	}
	lk_sim_result_free(&sim);
	return status;
}

lk_status lk_time_steps(const lc_steps *steps, const lc_sizes *sizes, const lk_cluster *cluster,
                        const lk_host_messages *messages, const lk_constants *constants,
                        int64_t chunks, lk_timed *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_graph *graph = NULL;
	lk_costs costs;
	/* Compiled code issues a launch like the replay of a graph: without a framework in between. */
	lk_cost_options options = {.constants = constants, .cuda_graphs = true};
	*out = (lk_timed){0};
	if (lc_ranks(steps->p, sizes) > cluster->gpus) {
		lk_fail(err, LK_ERR_INPUT, steps->p->name, "the mesh has %lld %s and the cluster %d %s",
		        (long long)lc_ranks(steps->p, sizes),
		        lk_noun(lc_ranks(steps->p, sizes), "rank", "ranks"), cluster->gpus,
		        lk_noun(cluster->gpus, "GPU", "GPUs"));
		return lk_hint(err, "give --gpus, or --sizes with fewer ranks");
	}
	bool hosts = cluster->node[0].device->arch == LK_ARCH_CPU;
	lk_status status = lc_lower(steps, sizes, chunks, hosts, &graph, err);
	for (uint32_t s = 0; status == LK_OK && s < graph->ranks.stages; s++)
		out->bytes = fmax(out->bytes, lk_memory_walk(graph, s).peak);
	if (status == LK_OK) status = lk_costs_build(&arena, graph, cluster, &options, &costs, err);
	if (status == LK_OK && hosts) lk_timed_on_hosts(graph, cluster, messages, &costs);
	if (status == LK_OK) both_directions(graph, &costs);
	if (status == LK_OK) status = timed_simulate(&arena, graph, &costs, out, err);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return status;
}
