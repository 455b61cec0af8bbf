/* noisy_ranks.c: where ranks are, what their noise makes of their kernels, and steps of them that
 * are simulated operation by operation. */
#include "step/noisy_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/sort.h"
#include "base/units.h"

/* Whether ranks of the group depend on one another within their replica. */
static bool group_joins(unsigned group) {
	return group == LK_GROUP_TP || group == LK_GROUP_CP || group == LK_GROUP_EP ||
	       group == LK_GROUP_ETP || group == LK_GROUP_CP_HEADS || group == LK_GROUP_CP_RING;
}

uint32_t lk_noisy_replica_size(const lk_graph *graph) {
	uint64_t size = 1, chains = graph->ranks.chains;
	if (graph->teams.count) return (uint32_t)chains;
	for (unsigned group = 0; group < LK_GROUPS; group++) {
		uint64_t members = graph->ranks.group[group].size,
				 stride = graph->ranks.group[group].stride;
		if (!group_joins(group) || members <= 1) continue;
		uint64_t span = members * (stride ? stride : 1);
		uint64_t least = size > span ? size : span;
		while (least < chains && (least % span || least % size)) least++;
		size = least;
	}
	return (uint32_t)(size < chains && chains % size == 0 ? size : chains);
}

static lk_status place_ranks(noisy_work *work, lk_error *err) {
	size_t ranks = (size_t)work->stages * work->chains, rank = 0;
	work->node = LK_ARRAY(&work->arena, uint32_t, ranks);
	work->slow = LK_ARRAY(&work->arena, double, ranks);
	if (!work->node || !work->slow) return lk_oom(err);
	uint32_t node = 0;
	for (int group = 0; group < work->cluster->groups; group++)
		for (int i = 0; i < work->cluster->nodes[group]; i++, node++)
			for (int gpu = 0; gpu < work->cluster->node[group].gpus && rank < ranks; gpu++)
				work->node[rank++] = node;
	for (size_t i = 0; i < ranks; i++) work->slow[i] = 1;
	for (uint32_t i = 0; i < work->options->straggler_count; i++)
		work->slow[work->options->stragglers[i].rank] *= work->options->stragglers[i].factor;
	return LK_OK;
}

static lk_status sum_times(noisy_work *work, lk_error *err) {
	const lk_graph *graph = work->step->graph;
	double most = 0;
	work->weight = LK_ARRAY(&work->arena, double, work->stages);
	work->even = LK_ARRAY(&work->arena, float, work->stages);
	if (!work->weight || !work->even) return lk_oom(err);
	for (uint32_t s = 0; s < work->stages; s++) work->even[s] = 1;
	for (uint32_t s = 0; s < work->stages; s++) {
		const lk_program *program = &graph->programs.at[s];
		uint32_t variant = work->step->costs.variant_of
		                       ? work->step->costs.variant_of[lk_rank_of(graph, s, 0)]
		                       : 0;
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_call *call = &program->calls.at[c];
			const lk_block *block = &graph->blocks.at[call->block];
			for (uint32_t op = block->begin; op < block->end; op++) {
				const lk_cost *cost = lk_costs_get(&work->step->costs, variant, op);
				double seconds = (double)cost->duration_ps / LK_PS_PER_S * call->repeat;
				bool comm = lk_op_is_comm(graph->ops.kind[op]);
				if (!comm && graph->ops.stream[op] == LK_STREAM_COMPUTE) work->weight[s] += seconds;
				if (comm && cost->nic > 0) work->network_s += seconds / work->stages;
			}
		}
		work->computing_s += work->weight[s] / work->stages;
		most = fmax(most, work->weight[s]);
	}
	for (uint32_t s = 0; s < work->stages; s++) work->weight[s] /= most > 0 ? most : 1;
	return LK_OK;
}

/* On the kernels of a rank that take `added_s` more. */
static double rank_factor(const noisy_work *work, double slow, double added_s) {
	double factor = slow * fmax(LK_NOISY_LEAST_FACTOR, 1 + added_s / work->computing_s);
	return fmin(factor, LK_NOISY_MOST_FACTOR);
}

/* Ranks of one node follow one another. */
stage_draw lk_noisy_draw(const noisy_work *work, uint64_t seed, uint32_t replica, uint32_t stage) {
	enum { RUN = 256 };
	stage_draw out = {.factor = 0};
	size_t first = (size_t)stage * work->chains + (size_t)replica * work->size;
	for (size_t i = 0, run; i < work->size; i += run) {
		uint32_t units[RUN], node = work->node[first + i];
		double slow = work->slow[first + i];
		for (run = 0; run < RUN && i + run < work->size && work->node[first + i + run] == node &&
		              work->slow[first + i + run] == slow;
		     run++)
			units[run] = (uint32_t)(first + i + run);
		double node_s = work->nodes ? lk_noise_draw(&work->node_draws, seed, node) : 0;
		double gpu_s = work->gpus ? lk_noise_draw_largest(&work->gpu, seed, units, run) : 0;
		double factor = rank_factor(work, slow, node_s + gpu_s);
		if (factor > (double)out.factor)
			out = (stage_draw){(float)factor, (float)gpu_s, (float)node_s};
	}
	return out;
}

lk_status lk_noisy_place(noisy_work *work, lk_error *err) {
	LK_TRY(place_ranks(work, err));
	return sum_times(work, err);
}

/* ---- operation by operation ---- */

lk_status lk_noisy_simulate(const noisy_work *work, uint64_t seed, double *seconds, lk_error *err) {
	size_t ranks = (size_t)work->stages * work->chains;
	lk_straggler *slow = malloc(ranks * sizeof *slow);
	if (!slow) return lk_oom(err);
	for (size_t i = 0; i < ranks; i++) {
		double added = work->nodes ? lk_noise_draw(&work->node_draws, seed, work->node[i]) : 0;
		added += work->gpus ? lk_noise_draw(&work->gpu, seed, i) : 0;
		slow[i] = (lk_straggler){(uint32_t)i, rank_factor(work, work->slow[i], added)};
	}
	lk_step_options options = *work->options;
	options.stragglers = slow;
	options.straggler_count = (uint32_t)ranks;
	options.jitter = work->sigma;
	options.gpu_spread = 0;
	options.seed = seed;
	options.bare = true;
	options.record_count = 0;
	options.all_ranks = false;
	lk_step one = {.graph = work->step->graph, .costs = work->step->costs};
	lk_status status = lk_step_simulate(&options, &one, err);
	*seconds = one.step_s;
	one.graph = NULL;
	lk_step_free(&one);
	free(slow);
	return status;
}

lk_status lk_noisy_simulate_replica(const noisy_work *work, uint64_t seed, uint32_t replica,
                                    double *seconds, lk_error *err) {
	const lk_graph *graph = work->step->graph;
	const lk_costs *all = &work->step->costs;
	size_t ranks = (size_t)work->stages * work->size;
	lk_graph view = *graph;
	lk_costs costs = *all;
	view.ranks.chains = work->size;
	view.ranks.world = (uint32_t)ranks;
	for (unsigned group = 0; group < LK_GROUPS; group++)
		if (!group_joins(group) && !lk_group_crosses_stages(group))
			view.ranks.group[group].size = view.ranks.group[group].stride = 0;
	lk_straggler *slow = malloc(ranks * sizeof *slow);
	costs.variant_of = all->variant_of ? malloc(ranks * sizeof *costs.variant_of) : NULL;
	lk_status status = slow && (costs.variant_of || !all->variant_of) ? LK_OK : lk_oom(err);
	for (uint32_t s = 0; status == LK_OK && s < work->stages; s++) {
		double factor = (double)lk_noisy_draw(work, seed, replica, s).factor;
		for (uint32_t i = 0; i < work->size; i++) {
			size_t at = (size_t)s * work->size + i;
			slow[at] = (lk_straggler){(uint32_t)at, factor};
			if (costs.variant_of)
				costs.variant_of[at] =
					all->variant_of[lk_rank_of(graph, s, replica * work->size + i)];
		}
	}
	lk_sim_options options = {.contention = !work->options->no_contention,
	                          .jitter = work->sigma,
	                          .seed = seed,
	                          .stragglers = slow,
	                          .straggler_count = (uint32_t)ranks};
	lk_sim_result result = {0};
	if (status == LK_OK) status = lk_sim_run(&view, &costs, &options, &result, err);
	*seconds = (double)result.step_ps / LK_PS_PER_S;
	lk_sim_result_free(&result);
	free(slow);
	if (all->variant_of) free(costs.variant_of);
	return status;
}

static int seed_order(const void *a, const void *b, void *context) {
	const double *step_s = context;
	size_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (step_s[i] != step_s[j]) return step_s[i] < step_s[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

uint32_t *lk_noisy_order(const double *step_s, size_t seeds) {
	uint32_t *order = malloc(seeds * sizeof *order);
	for (size_t i = 0; order && i < seeds; i++) order[i] = (uint32_t)i;
	if (order) lk_sort_by(order, seeds, sizeof *order, seed_order, (void *)(uintptr_t)step_s);
	return order;
}
