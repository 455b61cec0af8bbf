/* layout_parts.c: the least time of a job's layer by itself, and what it keeps. The blocks are
 * those that the builder puts into every graph of the job, priced as in every table of costs; of
 * several kinds of places the cheapest counts.
 *
 * The time of a block runs from compute stream to compute stream with nothing else under way: the
 * simulation only adds waiting and contention. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "step/step.h"
#include "base/units.h"
#include "cost/cost.h"
#include "model/build/build.h"
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "plan/plan.h"
#include "sim/sim.h"
#include "base/check.h"

void lk_bounder_begin(lk_bounder *bounder, const lk_space *space, lk_cost_cache *cache) {
	*bounder = (lk_bounder){.space = space, .cache = cache};
}

void lk_bounder_end(lk_bounder *bounder) {
	for (int i = 0; i < LK_WALKED; i++) lk_arena_free(&bounder->walked[i].arena);
}

const lk_constants *lk_bounder_constants(lk_bounder *bounder, int stack, const lk_job *job) {
	if (!bounder->known[stack]) lk_profile_constants(job, &bounder->constants[stack]);
	bounder->known[stack] = true;
	return &bounder->constants[stack];
}

/* Blocks of one job and their prices. */
struct pricer {
	lk_builder builder;
	lk_graph *graph;
	const lk_cost_sites *sites;
	lk_cost_cache *cache;
	bool contended; /* layers: with contention between their own operations */
	bool alike;     /* places differ in their groups alone: they compute alike */
};

static bool compute_alike(const lk_cost_sites *sites) {
	for (uint32_t v = 1; v < sites->count; v++)
		if (sites->at[v].node != sites->at[0].node ||
		    sites->at[v].oversubscription != sites->at[0].oversubscription)
			return false;
	return true;
}

static lk_status layout_parts_begin(lk_bounder *bounder, int stack, const lk_job *job,
                                    struct pricer *pricer, lk_error *err) {
	pricer->graph = lk_graph_new();
	if (!pricer->graph) return lk_oom(err);
	pricer->cache = bounder->cache;
	lk_build_begin(&pricer->builder, job, pricer->graph, err);
	lk_cost_options options = {
		.constants = lk_bounder_constants(bounder, stack, job),
		.cuda_graphs = job->cuda_graphs == LK_ON,
		.compiled = job->compile,
		.experts_eager = job->graph_experts != LK_ON,
		.cache = bounder->cache,
	};
	LK_TRY(lk_cost_sites_find(bounder->cache, pricer->graph, bounder->space->cluster, &options,
	                          &pricer->sites, err));
	pricer->alike = compute_alike(pricer->sites);
	return LK_OK;
}

/* The operation's least cost over all kinds of places. */
static lk_cost least_cost(const struct pricer *pricer, uint32_t op) {
	LK_ASSERT(op < pricer->graph->ops.count);
	lk_cost least = lk_cost_cached(pricer->cache, pricer->graph, op, &pricer->sites->at[0]);
	bool once = pricer->alike && !lk_op_is_comm(pricer->graph->ops.kind[op]);
	for (uint32_t v = 1; v < pricer->sites->count && !once; v++) {
		lk_cost cost = lk_cost_cached(pricer->cache, pricer->graph, op, &pricer->sites->at[v]);
		if (cost.duration_ps < least.duration_ps) least.duration_ps = cost.duration_ps;
		if (cost.host_ps < least.host_ps) least.host_ps = cost.host_ps;
	}
	return least;
}

/* Time of operations [begin, end), one after another as their streams and joins require. */
struct span {
	double end_s;   /* of all streams */
	double chain_s; /* of the compute stream */
	double compute_s, host_s, traffic_s;
};

static struct span span_of(const struct pricer *pricer, uint32_t begin, uint32_t end) {
	enum { MOST = 512 };
	const lk_ops *ops = &pricer->graph->ops;
	double at[LK_STREAMS] = {0}, done[MOST];
	struct span s = {0};
	for (uint32_t op = begin; op < end; op++) {
		lk_cost cost = least_cost(pricer, op);
		unsigned stream = ops->stream[op];
		double seconds = ops->kind[op] == LK_OP_WAIT ? 0 : (double)cost.duration_ps / LK_PS_PER_S,
			   start = at[stream];
		for (uint32_t mask = ops->join[op] & (LK_JOIN(LK_STREAMS) - 1); mask; mask &= mask - 1)
			start = fmax(start, at[__builtin_ctz(mask)]);
		for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++)
			if (ops->deps[d] < MOST && ops->deps[d] < op - begin)
				start = fmax(start, done[ops->deps[d]]);
		at[stream] = start + seconds;
		if (op - begin < MOST) done[op - begin] = at[stream];
		s.end_s = fmax(s.end_s, at[stream]);
		s.host_s += (double)cost.host_ps / LK_PS_PER_S;
		if (stream == LK_STREAM_COMPUTE) s.compute_s += seconds;
		if (stream == LK_STREAM_DP) s.traffic_s += seconds;
	}
	s.chain_s = at[LK_STREAM_COMPUTE];
	return s;
}

static struct span block_span(const struct pricer *pricer, uint32_t block) {
	return span_of(pricer, pricer->graph->blocks.at[block].begin,
	               pricer->graph->blocks.at[block].end);
}

static double kept_by(const struct pricer *pricer, uint32_t block) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	const lk_block *b = &pricer->graph->blocks.at[block];
	double kept = 0;
	for (uint32_t op = b->begin; op < b->end; op++)
		kept += pricer->graph->ops.alloc[op] - pricer->graph->ops.release[op];
	return kept > 0 ? kept : 0;
}

/* ---- contention within a layer ----
 *
 * The time of a repeated layer, with contention between its own operations: the engine runs it
 * several times, as it does for a folded run of layers (sim/fold_price.c). */

enum { REPEATS = 4 };

/* Whether a block can be run by itself: no other block refers to its operations. */
static bool stands_alone(const struct pricer *pricer, uint32_t block) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	const lk_ops *ops = &pricer->graph->ops;
	for (uint32_t op = pricer->graph->blocks.at[block].begin;
	     op < pricer->graph->blocks.at[block].end; op++)
		if (ops->wait[op] || ops->signal[op] || ops->stream[op] == LK_STREAM_DP) return false;
	return true;
}

/* The costs of a block for every kind of place, with the host far ahead. */
static lk_status costs_of(const struct pricer *pricer, uint32_t block, lk_arena *arena,
                          lk_costs *out, lk_error *err) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	uint32_t kinds = pricer->sites->count, ops = (uint32_t)pricer->graph->ops.count;
	*out = (lk_costs){.variants = kinds,
	                  .ops = ops,
	                  .at = LK_ARRAY(arena, lk_cost, (size_t)kinds * ops),
	                  .variant_of = LK_ARRAY(arena, uint16_t, kinds)};
	if (!out->at || !out->variant_of) return lk_oom(err);
	for (uint32_t v = 0; v < kinds; v++) {
		out->variant_of[v] = (uint16_t)v;
		for (uint32_t op = pricer->graph->blocks.at[block].begin;
		     op < pricer->graph->blocks.at[block].end; op++) {
			lk_cost *cost = &out->at[(size_t)v * ops + op];
			*cost = lk_cost_cached(pricer->cache, pricer->graph, op, &pricer->sites->at[v]);
			cost->host_ps = cost->lead_ps = 0;
		}
	}
	return LK_OK;
}

/* `ends` [kinds of places]: the end of the last repetition. */
static lk_status run_block(const struct pricer *pricer, const lk_costs *costs, uint32_t block,
                           uint32_t times, double *ends, lk_error *err) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	lk_call call = {.block = block, .repeat = times, .microbatch = -1, .layer = -1};
	lk_program program = {.calls = {.at = &call, .count = 1, .capacity = 1}};
	lk_sim_options options = {.contention = true, .apart = true};
	lk_sim_result result;
	lk_graph view = *pricer->graph;
	view.programs.at = &program;
	view.programs.count = view.programs.capacity = 1;
	view.ranks = (lk_ranks){.world = costs->variants, .stages = 1, .chains = costs->variants};
	view.channels = 0;
	view.wires.count = view.teams.count = view.team_stages.count = 0;
	LK_TRY(lk_sim_run(&view, costs, &options, &result, err));
	for (uint32_t v = 0; v < costs->variants; v++)
		ends[v] = (double)result.finish_ps[v] / LK_PS_PER_S;
	lk_sim_result_free(&result);
	return LK_OK;
}

/* The time of one more repetition of a block, on the kind of place where it is least. */
static lk_status repeated_s(const struct pricer *pricer, uint32_t block, double *out,
                            lk_error *err) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	lk_arena arena = LK_ARENA_INIT;
	lk_costs costs;
	lk_status status = costs_of(pricer, block, &arena, &costs, err);
	double *longer = LK_ARRAY(&arena, double, pricer->sites->count),
		   *shorter = LK_ARRAY(&arena, double, pricer->sites->count), least = INFINITY;
	if (status == LK_OK && (!longer || !shorter)) status = lk_oom(err);
	if (status == LK_OK) status = run_block(pricer, &costs, block, REPEATS, longer, err);
	if (status == LK_OK) status = run_block(pricer, &costs, block, REPEATS - 1, shorter, err);
	for (uint32_t v = 0; status == LK_OK && v < costs.variants; v++)
		least = fmin(least, fmin(longer[v] - shorter[v], longer[v] / REPEATS));
	if (status == LK_OK) *out = least;
	lk_arena_free(&arena);
	return status;
}

/* ---- layers and ends ---- */

static void take_forward(const struct pricer *pricer, uint32_t block, lk_layer_part *out) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	struct span s = block_span(pricer, block);
	out->forward_s += s.chain_s;
	out->compute_forward_s += s.compute_s;
	out->host_s += s.host_s;
	out->traffic_s += s.traffic_s;
	out->saved += kept_by(pricer, block);
}

static void take_backward(const struct pricer *pricer, uint32_t block, lk_layer_part *out) {
	LK_ASSERT(block < pricer->graph->blocks.count);
	struct span s = block_span(pricer, block);
	out->backward_s += s.chain_s;
	out->compute_backward_s += s.compute_s;
	out->host_s += s.host_s;
	out->traffic_s += s.traffic_s;
}

/* Build the block of a layer; *more_s: how much longer it takes with contention than its longest
 * chain. */
static lk_status layer_block(struct pricer *pricer, int layer, lk_block_pass pass, uint32_t *block,
                             double *more_s, lk_error *err) {
	*more_s = 0;
	LK_TRY(lk_build_layer(&pricer->builder, layer, pass, block));
	if (!pricer->contended || !stands_alone(pricer, *block)) return LK_OK;
	double alone_s = 0;
	LK_TRY(repeated_s(pricer, *block, &alone_s, err));
	*more_s = fmax(alone_s - block_span(pricer, *block).chain_s, 0);
	return LK_OK;
}

/* Fill in the parts of passes that the schedule splits. */
static lk_status split_compute(struct pricer *pricer, int layer, bool again, lk_layer_part *out) {
	lk_builder *builder = &pricer->builder;
	uint32_t input, weight;
	LK_TRY(lk_build_layer(builder, layer,
	                      again ? LK_BLOCK_INPUT_GRADIENT_CHECKPOINT : LK_BLOCK_INPUT_GRADIENT,
	                      &input));
	LK_TRY(lk_build_layer(builder, layer, LK_BLOCK_WEIGHT_GRADIENT, &weight));
	out->input_s = block_span(pricer, input).chain_s;
	out->weight_s = block_span(pricer, weight).compute_s;
	return LK_OK;
}

static lk_status layer_part(struct pricer *pricer, int layer, bool again, lk_layer_part *out,
                            lk_error *err) {
	static const lk_block_pass passes[2][4] = {
		{LK_BLOCK_FORWARD, LK_BLOCK_BACKWARD, LK_BLOCK_INPUT_GRADIENT, LK_BLOCK_WEIGHT_GRADIENT},
		{LK_BLOCK_FORWARD_CHECKPOINT, LK_BLOCK_BACKWARD_CHECKPOINT,
	     LK_BLOCK_INPUT_GRADIENT_CHECKPOINT, LK_BLOCK_WEIGHT_GRADIENT},
	};
	bool split = lk_job_splits_backward(pricer->builder.job);
	uint32_t block;
	double more_s;
	memset(out, 0, sizeof *out);
	LK_TRY(layer_block(pricer, layer, passes[again][0], &block, &more_s, err));
	take_forward(pricer, block, out);
	out->forward_s += more_s;
	LK_TRY(layer_block(pricer, layer, passes[again][split ? 2 : 1], &block, &more_s, err));
	take_backward(pricer, block, out);
	out->backward_s += more_s;
	if (lk_job_dualpipe(pricer->builder.job)) return split_compute(pricer, layer, again, out);
	if (!split) return LK_OK;
	out->input_s = out->backward_s;
	LK_TRY(layer_block(pricer, layer, passes[again][3], &block, &more_s, err));
	take_backward(pricer, block, out);
	out->backward_s += more_s;
	out->weight_s = out->backward_s - out->input_s;
	return LK_OK;
}

static lk_status end_part(struct pricer *pricer, bool head, lk_layer_part *out) {
	lk_builder *builder = &pricer->builder;
	uint32_t block;
	LK_TRY(head ? lk_build_head(builder, LK_BLOCK_FORWARD, &block)
	            : lk_build_embedding(builder, LK_BLOCK_FORWARD, &block));
	take_forward(pricer, block, out);
	out->saved = 0; /* of the last micro-batch only: bounds count layers */
	LK_TRY(head ? lk_build_head(builder, LK_BLOCK_BACKWARD, &block)
	            : lk_build_embedding(builder, LK_BLOCK_BACKWARD, &block));
	take_backward(pricer, block, out);
	if (lk_job_splits_backward(builder->job)) out->input_s = out->backward_s;
	return LK_OK;
}

static void layout_parts_add_part(lk_layer_part *sum, const lk_layer_part *part) {
	sum->forward_s += part->forward_s;
	sum->backward_s += part->backward_s;
	sum->weight_s += part->weight_s;
	sum->input_s += part->input_s;
	sum->compute_forward_s += part->compute_forward_s;
	sum->compute_backward_s += part->compute_backward_s;
	sum->host_s += part->host_s;
	sum->traffic_s += part->traffic_s;
	sum->saved += part->saved;
}

/* Whether a layer equals the one before, so that its block can be reused. */
static bool layout_parts_repeats(const lk_job *job, int layer) {
	const lk_model *model = &job->model;
	if (model->network != LK_NET_CONV)
		return lk_layer_repeats(model, layer) &&
		       lk_job_is_wide(job, layer) == lk_job_is_wide(job, layer - 1);
	return layer > 0 &&
	       lk_convnet_unit(model, layer).kind == lk_convnet_unit(model, layer - 1).kind;
}

/* `last`: the last layer, recomputed as in the job. */
static lk_status sum_layers(struct pricer *pricer, const lk_parts *plain, lk_parts *out,
                            lk_layer_part *last, lk_arena *arena, lk_error *err) {
	const lk_job *job = pricer->builder.job;
	bool full = job->recompute == LK_RECOMPUTE_FULL;
	out->layers = lk_job_layers(job);
	/* simulating layers takes longer than adding them up: only the variants that the job has */
	const bool wanted[2] = {!pricer->contended || !full || job->recompute_layers > 0, full};
	for (int again = 0; again < 2; again++) {
		if (!again && full && plain) {
			out->sum[0] = plain->sum[0];
			continue;
		}
		lk_layer_part part = {0}, *sum = LK_ARRAY(arena, lk_layer_part, out->layers + 1);
		if (!sum) return lk_oom(err);
		for (int i = 0; i < out->layers; i++) {
			if (wanted[again] && !layout_parts_repeats(job, i))
				LK_TRY(layer_part(pricer, i, again, &part, err));
			sum[i + 1] = sum[i];
			layout_parts_add_part(&sum[i + 1], &part);
		}
		out->sum[again] = sum;
		if (again == full) *last = part;
	}
	return LK_OK;
}

/* ---- pairs ---- */

enum { PAIRED_KINDS = 3 }; /* of layers whose pairs are all priced */

/* The longest run of equal layers: [*first, *end). */
static void longest_run(const lk_job *job, int layers, int *first, int *end) {
	*first = *end = 0;
	for (int i = 0, begin = 0; i < layers; i++) {
		if (!layout_parts_repeats(job, i)) begin = i;
		if (i + 1 - begin <= *end - *first) continue;
		*first = begin;
		*end = i + 1;
	}
}

/* Time of a forward pass of one layer concurrent with a backward pass of another, beyond their own
 * compute operations: messages that the other's computation does not cover, and contention. */
static lk_status beyond_compute(struct pricer *pricer, int ahead, int back, bool again, double *out,
                                lk_error *err) {
	lk_builder *builder = &pricer->builder;
	uint32_t forward, backward, pair;
	double together_s;
	*out = 0;
	LK_TRY(lk_build_layer(builder, ahead, again ? LK_BLOCK_FORWARD_CHECKPOINT : LK_BLOCK_FORWARD,
	                      &forward));
	LK_TRY(lk_build_layer(builder, back, again ? LK_BLOCK_BACKWARD_CHECKPOINT : LK_BLOCK_BACKWARD,
	                      &backward));
	LK_TRY(lk_build_pair(builder, forward, backward, &pair));
	if (!stands_alone(pricer, pair)) return LK_OK;
	LK_TRY(repeated_s(pricer, pair, &together_s, err));
	*out = fmax(together_s - block_span(pricer, pair).compute_s, 0);
	return LK_OK;
}

/* Layers may differ in their mixer and window, and still all send rows to experts: one of each kind
 * of those that have experts where most layers have, or none where most have none. Returns their
 * number, 0 if there are more than PAIRED_KINDS. */
static lk_status find_paired_kinds(struct pricer *pricer, int layers, int most, int *kind,
                                   int *count) {
	const lk_model *model = pricer->builder.model;
	uint32_t known[PAIRED_KINDS], block = 0;
	*count = 0;
	for (int i = 0; i < layers; i++) {
		int k = 0;
		if (lk_model_is_moe(model, i) != lk_model_is_moe(model, most)) continue;
		LK_TRY(lk_build_layer(&pricer->builder, i, LK_BLOCK_FORWARD, &block));
		while (k < *count && known[k] != block) k++;
		if (k < *count) continue;
		if (*count == PAIRED_KINDS) {
			*count = 0;
			return LK_OK;
		}
		known[k] = block;
		kind[(*count)++] = i;
	}
	return LK_OK;
}

/* The least time that a pair of layers takes beyond its computation. Where layers are of many
 * kinds, it is known for the longest run of equal ones. */
static lk_status find_pairs(struct pricer *pricer, lk_parts *out, lk_arena *arena, lk_error *err) {
	const lk_job *job = pricer->builder.job;
	int first, end, kind[PAIRED_KINDS], count;
	double least_s = INFINITY, more_s;
	out->paired = LK_ARRAY(arena, double, out->layers);
	if (!out->paired) return lk_oom(err);
	bool full = job->recompute == LK_RECOMPUTE_FULL;
	if (pricer->contended && full && job->recompute_layers > 0) return LK_OK; /* not needed then */
	longest_run(job, out->layers, &first, &end);
	if (first == end) return LK_OK;
	LK_TRY(find_paired_kinds(pricer, out->layers, first, kind, &count));
	for (int a = 0; a < count; a++)
		for (int b = 0; b < count && least_s > 0; b++) {
			LK_TRY(beyond_compute(pricer, kind[a], kind[b], full, &more_s, err));
			least_s = fmin(least_s, more_s);
		}
	if (!count) LK_TRY(beyond_compute(pricer, first, first, full, &least_s, err));
	const lk_model *model = &job->model;
	for (int i = 0; i < out->layers; i++) {
		bool known = count ? lk_model_is_moe(model, i) == lk_model_is_moe(model, first)
		                   : i >= first && i < end;
		if (known) out->paired[i] = least_s;
	}
	return LK_OK;
}

/* Time of a message between stages, in the cheaper direction. */
static double message_s(struct pricer *pricer, const lk_job *job, lk_error *err,
                        lk_status *status) {
	lk_builder *builder = &pricer->builder;
	bool cut = job->scatter_messages == LK_ON && !builder->sp;
	uint32_t block;
	lk_build_stack(builder, true);
	lk_graph_begin_block(pricer->graph, "messages");
	for (int way = 0; way < 2; way++)
		lk_graph_add(pricer->graph,
		             &(lk_op){
						 .kind = LK_OP_SEND,
						 .stream = way ? LK_STREAM_SEND_BACKWARD : LK_STREAM_SEND_FORWARD,
						 .group = LK_GROUP_PP,
						 .name = "send",
						 .bytes = builder->bytes * builder->rows * builder->model->hidden /
		                          (cut ? builder->tp : 1),
					 });
	*status = lk_graph_end_block(pricer->graph, &block, err);
	if (*status != LK_OK) return 0;
	uint32_t op = pricer->graph->blocks.at[block].begin;
	int64_t down = least_cost(pricer, op).duration_ps, up = least_cost(pricer, op + 1).duration_ps;
	return (double)(down < up ? down : up) / LK_PS_PER_S;
}

static lk_status layout_parts_find(struct pricer *pricer, const lk_job *job, const lk_parts *plain,
                                   lk_arena *arena, lk_parts *out, lk_error *err) {
	lk_layer_part last = {0};
	LK_TRY(sum_layers(pricer, plain, out, &last, arena, err));
	if (lk_job_dualpipe(job) || lk_job_pairs(job)) LK_TRY(find_pairs(pricer, out, arena, err));
	LK_TRY(end_part(pricer, false, &out->embedding));
	LK_TRY(end_part(pricer, true, &out->head));
	if (job->model.mtp_layers > 0) { /* its layer is like the last one */
		out->prediction = last;
		layout_parts_add_part(&out->prediction, &out->head);
	}
	lk_status status = LK_OK;
	if (job->pp > 1) out->message_s = message_s(pricer, job, err, &status);
	return status;
}

lk_status lk_parts_find(lk_bounder *bounder, int stack, const lk_job *job, bool contended,
                        const lk_parts *plain, lk_arena *arena, lk_parts *out, lk_error *err) {
	struct pricer p = {.contended = contended};
	memset(out, 0, sizeof *out);
	lk_status status = layout_parts_begin(bounder, stack, job, &p, err);
	if (status == LK_OK) status = layout_parts_find(&p, job, plain, arena, out, err);
	lk_graph_free(p.graph);
	return status;
}

lk_status lk_parts_pair(lk_bounder *bounder, int stack, const lk_job *job, const lk_parts *apart,
                        lk_arena *arena, lk_parts *out, lk_error *err) {
	struct pricer p = {0};
	*out = *apart;
	lk_status status = layout_parts_begin(bounder, stack, job, &p, err);
	if (status == LK_OK) status = find_pairs(&p, out, arena, err);
	lk_graph_free(p.graph);
	return status;
}

/* ---- the end of the step ---- */

static lk_status layout_parts_tail_of(struct pricer *pricer, int stage, double *before,
                                      double *after, lk_error *err) {
	lk_tail_part parts[LK_TAIL_PARTS];
	int count;
	(void)err;
	LK_TRY(lk_build_tail(&pricer->builder, stage, parts, &count));
	const lk_block *b = &pricer->graph->blocks.at[parts[0].block];
	uint32_t meeting =
		pricer->builder.job->offload_optimizer ? b->end : b->begin; /* the host does not wait for a
		                                                               norm */
	for (uint32_t op = b->begin; op < b->end; op++)
		if (meeting != b->end && pricer->graph->ops.kind[op] == LK_OP_ALLREDUCE &&
		    pricer->graph->ops.group[op] == LK_GROUP_MODEL)
			meeting = op;
	struct span first = span_of(pricer, b->begin, meeting);
	*before = meeting == b->end ? first.end_s : first.chain_s;
	*after = span_of(pricer, meeting, b->end).end_s;
	for (int i = 1; i < count; i++) /* in sequence: each ends on the compute stream */
		*after += parts[i].repeat * block_span(pricer, parts[i].block).chain_s;
	return LK_OK;
}

lk_status lk_tail_find(lk_bounder *bounder, int stack, const lk_job *job, lk_tail *out,
                       lk_error *err) {
	struct pricer p = {0};
	lk_status status = layout_parts_begin(bounder, stack, job, &p, err);
	if (status == LK_OK) status = layout_parts_tail_of(&p, 0, &out->before[0], &out->after[0], err);
	out->before[1] = out->before[0];
	out->after[1] = out->after[0];
	if (status == LK_OK && job->pp > 1)
		status = layout_parts_tail_of(&p, job->pp - 1, &out->before[1], &out->after[1], err);
	lk_graph_free(p.graph);
	return status;
}
