/* shard_model.c: a recommendation model's tables as a placement problem, and the training step of a
 * placement: MLPs copied on all ranks, tables as placed. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/units.h"
#include "shard/shard.h"
#include "model/dlrm/dlrm_build.h"

/* ---- the problem ---- */

/* "t0", "t1", ... over all kinds, as named in plans. */
static lk_status model_tables(lk_arena *arena, const lk_dlrm *model, double batch,
                              const lk_shard_table **out, lk_error *err) {
	lk_shard_table *tables = LK_ARRAY(arena, lk_shard_table, (size_t)model->tables);
	size_t at = 0;
	if (!tables) return lk_oom(err);
	for (int kind = 0; kind < model->kind_count; kind++) {
		const lk_dlrm_tables *like = &model->kinds[kind];
		lk_locality *locality = LK_NEW(arena, lk_locality);
		if (!locality) return lk_oom(err);
		lk_locality_zipf(like->rows, batch * like->pooling, 0, locality);
		for (int i = 0; i < (int)like->count; i++, at++) {
			tables[at] = (lk_shard_table){.name = lk_arena_printf(arena, "t%zu", at),
			                              .rows = like->rows,
			                              .dim = model->dim,
			                              .pooling = like->pooling,
			                              .allowed = (1u << LK_SHARD_KINDS) - 1,
			                              .locality = locality};
			if (!tables[at].name) return lk_oom(err);
		}
	}
	*out = tables;
	return LK_OK;
}

/* Time of one rank's device besides lookups: between the exchanges, as the search sees it. */
static lk_status dense_seconds(const lk_shard_problem *problem, const lk_dlrm *model,
                               lk_dtype dtype, double *out, lk_error *err) {
	const double none = 0;
	const lk_dlrm_placed alone = {.ranks = 1, .forward_s = &none, .backward_s = &none};
	lk_arena arena = LK_ARENA_INIT;
	lk_eager_device device;
	lk_graph *graph;
	lk_costs costs;
	LK_TRY(lk_dlrm_step(model, problem->batch / problem->ranks, dtype, &alone, NULL, &graph, err));
	lk_eager_device_of(problem->at.device, dtype, &device);
	lk_status status = lk_eager_costs(&arena, graph, &device, &costs, err);
	*out = 0;
	for (uint32_t i = 0; status == LK_OK && i < costs.ops; i++)
		*out += (double)costs.at[i].duration_ps / LK_PS_PER_S;
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_shard_of_model(lk_arena *arena, const lk_dlrm *model, const lk_cluster *cluster,
                            int ranks, double batch, lk_dtype dtype, lk_shard_problem *out,
                            lk_error *err) {
	LK_ASSERT(ranks > 0 && batch >= ranks);
	*out = (lk_shard_problem){.arena = arena,
	                          .count = (uint32_t)model->tables,
	                          .ranks = ranks,
	                          .batch = batch,
	                          .element = 4,
	                          .row_state = lk_dlrm_row_state(model),
	                          .cache_share = LK_SHARD_CACHE,
	                          .network = lk_shard_network(cluster, ranks)};
	LK_TRY(lk_shard_check_devices(cluster, ranks, err));
	LK_TRY(lk_shard_device_of(arena, cluster->node[0].device, &out->at, err));
	out->capacity = out->at.device->memory_bytes * (1 - LK_SHARD_RESERVE);
	LK_TRY(model_tables(arena, model, batch, &out->tables, err));
	LK_TRY(dense_seconds(out, model, dtype, &out->dense_s, err));
	lk_shard_share(out);
	return LK_OK;
}

/* ---- the step ---- */

static lk_status placed_of(lk_arena *arena, const lk_shard_problem *problem,
                           const lk_shard_load *load, lk_dlrm_placed *out, lk_error *err) {
	double *forward = LK_ARRAY(arena, double, problem->ranks),
		   *backward = LK_ARRAY(arena, double, problem->ranks);
	if (!forward || !backward) return lk_oom(err);
	for (int r = 0; r < problem->ranks; r++) {
		forward[r] = load->rank[r].forward_s;
		backward[r] = load->rank[r].backward_s;
	}
	*out = (lk_dlrm_placed){problem->ranks, forward,          backward,
	                        load->index_s,  load->exchange_s, load->reduce_s};
	return LK_OK;
}

static void hold_tables(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                        lk_graph *graph) {
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		bool copied = piece->kind == LK_SHARD_DATA;
		LK_ASSERT(copied || (piece->rank >= 0 && piece->rank < problem->ranks));
		double held[LK_OWNERS] = {0};
		lk_shard_piece_hold(problem, piece, held);
		for (int r = copied ? 0 : piece->rank; r < (copied ? problem->ranks : piece->rank + 1); r++)
			for (int owner = 0; owner < LK_OWNERS; owner++)
				graph->programs.at[r].resident[owner] += held[owner];
	}
}

lk_status lk_shard_step(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                        const lk_dlrm *model, lk_dtype dtype, const lk_host_terms *host,
                        const lk_step_options *options, lk_step *out, lk_error *err) {
	const lk_host_times times = {lk_host_terms_seconds, host};
	lk_step_options simulated = options ? *options : (lk_step_options){.bare = true};
	lk_eager_device device;
	lk_dlrm_placed placed;
	lk_shard_load load;
	memset(out, 0, sizeof *out);
	simulated.no_contention = true; /* eager kernels have times, but unknown occupancy */
	LK_TRY(lk_shard_load_of(&out->arena, problem, pieces, &load, err));
	LK_TRY(placed_of(&out->arena, problem, &load, &placed, err));
	LK_TRY(lk_dlrm_step(model, problem->batch, dtype, &placed, host ? &times : NULL, &out->graph,
	                    err));
	hold_tables(problem, pieces, out->graph);
	lk_eager_device_of(problem->at.device, dtype, &device);
	device.network = problem->network;
	LK_TRY(lk_eager_costs(&out->arena, out->graph, &device, &out->costs, err));
	return lk_step_simulate(&simulated, out, err);
}

void lk_shard_step_work(const lk_step *step, double *host_s, double *kernels_s) {
	const lk_block *block = &step->graph->blocks.at[step->graph->programs.at[0].calls.at[0].block];
	*host_s = *kernels_s = 0;
	for (uint32_t i = block->begin; i < block->end; i++) {
		double seconds = (double)lk_costs_get(&step->costs, 0, i)->duration_ps / LK_PS_PER_S;
		*(step->graph->ops.kind[i] == LK_OP_HOST ? host_s : kernels_s) += seconds;
	}
}

const char *lk_shard_step_class(const lk_step *step) {
	double host_s, kernels_s;
	lk_shard_step_work(step, &host_s, &kernels_s);
	return host_s > kernels_s ? "host-bound step" : "device-bound step";
}

void lk_shard_step_range(bool measured, double *low, double *high) {
	/* from cross-validation over the three models of the public table */
	static const double width = 0.16;
	lk_range_recommender(low, high);
	*low = measured ? exp(-width) : fmin(*low, 1);
	*high = measured ? exp(width) : fmax(*high, 1);
}

/* ---- a placement ---- */

/* Search like `lockstep shard`. Tables without room are placed as if they had it: not fitting is an
 * answer. */
static lk_status search_placement(const lk_shard_problem *problem, lk_shard_plan *out,
                                  lk_error *err) {
	lk_error refused = {0};
	lk_status status = lk_shard_search(problem, out, &refused);
	if (status != LK_ERR_INPUT) {
		return status == LK_OK ? LK_OK : lk_fail_as(err, &refused);
	}
	lk_shard_problem roomy = *problem;
	roomy.capacity = INFINITY;
	return lk_shard_search(&roomy, out, err);
}

lk_status lk_shard_placement(const lk_shard_problem *problem, const char *plan, lk_shard_plan *out,
                             lk_error *err) {
	return plan ? lk_shard_read_plan(problem, plan, out, err) : search_placement(problem, out, err);
}
