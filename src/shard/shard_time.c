/* shard_time.c: from a placement to the time of a step.
 *
 *     all-to-all of indices | lookups | all-to-all of sums | dense part | all-to-all of gradients |
 *         lookups backward |
 *     all-reduce of the gradients of copies
 *
 * Each is a barrier for the ranks, so a step is the sum of the slowest ranks' times. The search
 * uses that closed form; the answer comes from the simulation of the step graph, and a test
 * compares the two.
 *
 * Exchange: it waits for the rank that sends most and the one that receives most (Lin et al., arXiv
 * 2404.12674, "max of max"): with c_i columns on rank i, B samples and n ranks, max(c_max (n - 1),
 * sum c - c_min) * B/n * 4 bytes. */
#include <math.h>

#include "base/arena.h"
#include "base/units.h"
#include "shard/shard.h"
#include "sim/sim.h"

enum { FLOAT = 4, INDEX = 8, LENGTH = 4 };

static void shard_time_add(lk_shard_cost *sum, const lk_shard_cost *cost) {
	sum->forward_s += cost->forward_s;
	sum->backward_s += cost->backward_s;
	sum->columns += cost->columns;
	sum->device_bytes += cost->device_bytes;
	sum->host_bytes += cost->host_bytes;
	sum->reduced_bytes += cost->reduced_bytes;
}

/* ---- communication ---- */

double lk_shard_exchange_s(const lk_shard_problem *problem, double most, double least,
                           double total) {
	double n = problem->ranks, one = problem->batch / n * FLOAT;
	if (n < 2 || !(total > 0)) return 0;
	double bytes = fmax(most * (n - 1), total - least) * one;
	return lk_collective_cost(LK_COLL_ALLTOALL, &problem->network, bytes * n / (n - 1)).seconds;
}

double lk_shard_reduce_s(const lk_shard_problem *problem, double bytes) {
	return bytes > 0 ? lk_collective_cost(LK_COLL_ALLREDUCE, &problem->network, bytes).seconds : 0;
}

double lk_shard_index_s(const lk_shard_problem *problem) {
	double lookups = 0;
	for (uint32_t t = 0; t < problem->count; t++) lookups += problem->tables[t].pooling;
	double bytes =
		problem->batch / problem->ranks * (lookups * INDEX + (double)problem->count * LENGTH);
	return lk_collective_cost(LK_COLL_ALLTOALL, &problem->network, bytes).seconds;
}

/* ---- loads ---- */

static void shard_time_sum_up(const lk_shard_problem *problem, lk_shard_load *out) {
	double most = 0, least = INFINITY, total = 0, floor_s = problem->at.floor_s;
	out->forward_s = out->backward_s = 0;
	for (int r = 0; r < problem->ranks; r++) {
		lk_shard_cost *cost = &out->rank[r];
		if (cost->forward_s > 0) cost->forward_s += floor_s;
		if (cost->backward_s > 0) cost->backward_s += floor_s;
		out->forward_s = fmax(out->forward_s, cost->forward_s);
		out->backward_s = fmax(out->backward_s, cost->backward_s);
		most = fmax(most, cost->columns);
		least = fmin(least, cost->columns);
		total += cost->columns;
	}
	out->index_s = lk_shard_index_s(problem);
	out->exchange_s = lk_shard_exchange_s(problem, most, least, total);
	out->reduce_s = lk_shard_reduce_s(problem, out->rank[0].reduced_bytes);
	out->step_s = out->index_s + out->forward_s + 2 * out->exchange_s + problem->dense_s +
	              out->backward_s + out->reduce_s;
}

/* Interpolate linearly between known sizes; beyond them use the last. */
static void shard_time_add_shared(const lk_shard_problem *problem, double touched,
                                  const lk_shard_shared *shared, lk_shard_cost *sum) {
	double at = (fmin(fmax(log2(touched / problem->share.bytes), -1), 1) + 1) * LK_SHARD_OCTAVE;
	int i = (int)fmin(floor(at), LK_SHARD_SIZES - 2);
	sum->forward_s +=
		shared->forward_s[i] + (at - i) * (shared->forward_s[i + 1] - shared->forward_s[i]);
	sum->backward_s +=
		shared->backward_s[i] + (at - i) * (shared->backward_s[i + 1] - shared->backward_s[i]);
}

static void shard_time_ranks_of(const lk_shard_problem *problem, const lk_shard_piece *piece,
                                int *first, int *end) {
	*first = piece->rank;
	*end = piece->rank + 1;
	if (piece->kind != LK_SHARD_DATA) return;
	*first = 0; /* copied to all */
	*end = problem->ranks;
}

lk_status lk_shard_load_of(lk_arena *arena, const lk_shard_problem *problem,
                           const lk_shard_pieces *pieces, lk_shard_load *out, lk_error *err) {
	double *touched = LK_ARRAY(arena, double, problem->ranks);
	int first, end;
	*out = (lk_shard_load){.rank = LK_ARRAY(arena, lk_shard_cost, problem->ranks)};
	if (!out->rank || !touched) return lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		shard_time_ranks_of(problem, piece, &first, &end);
		for (int r = first; r >= 0 && r < end; r++) {
			shard_time_add(&out->rank[r], &piece->cost);
			touched[r] += piece->shared.bytes;
		}
	}
	for (size_t i = 0; i < pieces->count && problem->share.bytes > 0; i++) {
		shard_time_ranks_of(problem, &pieces->at[i], &first, &end);
		for (int r = first; r >= 0 && r < end; r++)
			if (touched[r] > 0)
				shard_time_add_shared(problem, touched[r], &pieces->at[i].shared, &out->rank[r]);
	}
	shard_time_sum_up(problem, out);
	return LK_OK;
}

bool lk_shard_fits(const lk_shard_problem *problem, const lk_shard_load *load) {
	for (int r = 0; r < problem->ranks; r++)
		if (load->rank[r].device_bytes > problem->capacity ||
		    load->rank[r].host_bytes > problem->host_capacity)
			return false;
	return true;
}

/* ---- the step graph ---- */

struct builder {
	lk_graph *graph;
	const lk_shard_problem *p;
	LK_VEC(double) seconds; /* by operation */
	uint32_t team;
	bool failed;
};

static void shard_time_put(struct builder *builder, lk_op op, double seconds) {
	lk_graph_add(builder->graph, &op);
	if (lk_push(&builder->seconds)) *lk_last(&builder->seconds) = seconds;
	else builder->failed = true;
}

static void shard_time_communicate(struct builder *builder, const char *name, lk_op_kind kind,
                                   lk_phase phase, double seconds) {
	if (builder->p->ranks < 2) return;
	shard_time_put(builder,
	               (lk_op){.kind = (uint8_t)kind,
	                       .stream = LK_STREAM_EP,
	                       .phase = (uint8_t)phase,
	                       .group = LK_GROUP_TEAM,
	                       .name = name,
	                       .join = LK_JOIN(LK_STREAM_COMPUTE),
	                       .channel = (int32_t)builder->team},
	               seconds);
}

/* Without work there is no kernel. */
static void compute(struct builder *builder, const char *name, lk_op_kind kind, lk_phase phase,
                    double seconds) {
	if (!(seconds > 0)) return;
	shard_time_put(builder,
	               (lk_op){.kind = (uint8_t)kind,
	                       .stream = LK_STREAM_COMPUTE,
	                       .phase = (uint8_t)phase,
	                       .name = name,
	                       .join = LK_JOIN(LK_STREAM_EP)},
	               seconds);
}

static void step_of_rank(struct builder *builder, const lk_shard_load *load, int rank) {
	const lk_shard_cost *cost = &load->rank[rank];
	shard_time_communicate(builder, "indices", LK_OP_ALLTOALL, LK_PHASE_FORWARD, load->index_s);
	compute(builder, "lookups", LK_OP_EMBEDDING, LK_PHASE_FORWARD, cost->forward_s);
	shard_time_communicate(builder, "pooled sums", LK_OP_ALLTOALL, LK_PHASE_FORWARD,
	                       load->exchange_s);
	compute(builder, "dense part", LK_OP_GEMM, LK_PHASE_OTHER, builder->p->dense_s);
	shard_time_communicate(builder, "gradients of sums", LK_OP_ALLTOALL, LK_PHASE_BACKWARD,
	                       load->exchange_s);
	compute(builder, "lookups backward", LK_OP_EMBEDDING, LK_PHASE_BACKWARD, cost->backward_s);
	if (load->reduce_s > 0)
		shard_time_communicate(builder, "gradients of copies", LK_OP_ALLREDUCE, LK_PHASE_BACKWARD,
		                       load->reduce_s);
}

static lk_status build_programs(struct builder *builder, const lk_shard_load *load, lk_error *err) {
	uint32_t n = (uint32_t)builder->p->ranks;
	uint32_t *all = LK_ARRAY(builder->p->arena, uint32_t, n);
	if (!all) return lk_oom(err);
	for (uint32_t r = 0; r < n; r++) all[r] = r;
	LK_TRY(lk_graph_set_programs(builder->graph, n, 0, err));
	builder->team = lk_graph_add_team(builder->graph, "all ranks", all, n, n, false);
	for (uint32_t r = 0; r < n; r++) {
		uint32_t block;
		char name[32];
		snprintf(name, sizeof name, "rank %u", r);
		lk_graph_begin_block(builder->graph, name);
		step_of_rank(builder, load, (int)r);
		LK_TRY(lk_graph_end_block(builder->graph, &block, err));
		LK_TRY(lk_graph_call(builder->graph, r,
		                     &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1},
		                     err));
	}
	return builder->failed ? lk_oom(err) : LK_OK;
}

static lk_status shard_time_price(lk_arena *arena, const struct builder *builder, lk_costs *costs,
                                  lk_error *err) {
	*costs = (lk_costs){.variants = 1,
	                    .ops = builder->graph->ops.count,
	                    .at = LK_ARRAY(arena, lk_cost, builder->graph->ops.count)};
	if (!costs->at) return lk_oom(err);
	for (uint32_t i = 0; i < costs->ops; i++) {
		int64_t ps = llround(fmin(builder->seconds.at[i], 1e6) * LK_PS_PER_S);
		costs->at[i] = (lk_cost){.duration_ps = ps, .tail_ps = ps, .spread = 1};
	}
	return LK_OK;
}

lk_status lk_shard_graph(lk_arena *arena, const lk_shard_problem *problem,
                         const lk_shard_load *load, lk_graph **graph, lk_costs *costs,
                         lk_error *err) {
	struct builder b = {.graph = lk_graph_new(), .p = problem};
	if (!b.graph) return lk_oom(err);
	b.graph->ranks.world = b.graph->ranks.stages = (uint32_t)problem->ranks;
	b.graph->ranks.chains = 1;
	b.graph->samples = problem->batch;
	b.graph->traced = true; /* not delayed by launches */
	lk_status status = build_programs(&b, load, err);
	if (status == LK_OK) status = shard_time_price(arena, &b, costs, err);
	lk_vec_free(&b.seconds);
	*graph = status == LK_OK ? b.graph : NULL;
	if (status != LK_OK) lk_graph_free(b.graph);
	return status;
}

lk_status lk_shard_simulate(const lk_shard_problem *problem, const lk_shard_load *load,
                            double *step_s, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_graph *graph = NULL;
	lk_costs costs;
	lk_sim_result result = {0};
	const lk_sim_options options = {.contention = false};
	lk_status status = lk_shard_graph(&arena, problem, load, &graph, &costs, err);
	if (status == LK_OK) status = lk_sim_run(graph, &costs, &options, &result, err);
	if (status == LK_OK) *step_s = (double)result.step_ps / LK_PS_PER_S;
	lk_sim_result_free(&result);
	lk_graph_free(graph);
	lk_arena_free(&arena);
	return status;
}
