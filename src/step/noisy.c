/* noisy.c: the spread of a step over seeds of noise.
 *
 * What GPUs, nodes and kernels vary by changes what ranks compute, and so needs a simulation; all
 * other levels are added to its result. A *replica* is a set of ranks that no group but those of
 * data parallelism joins; replicas run by themselves and the step ends with the slowest:
 *
 *   1. For every seed, replica and stage, the factor on kernels: the largest of its ranks, which
 *      synchronise in every layer.
 *   2. A pilot of replicas is simulated as lanes of vectors: the folded step without contention,
 *      where factors act on the computing part of a folded run. A regression on the slowest stage
 *      and on the mean follows, T = a + b max w f + c mean w f for stages that compute w, with a
 *      normal residual.
 *   3. Of every seed the replicas that this puts last are simulated too, as many as take little;
 *      the others have the regression and a residual. The seed takes as long as the slowest.
 *   4. Some seeds, evenly among the ranks from fast to slow, are simulated operation by operation,
 *      with contention: a line through them corrects all. They are whole where that is affordable,
 *      and one replica elsewhere.
 *
 * NICs: the step is simulated with network operations that take several times as long; between
 * these, its time is linear in the factor of the slowest NIC. Inputs: the step begins when the last
 * data-parallel rank has read. The step's own noise is added to all. */
#include "step/noisy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "base/stats.h"
#include "base/units.h"
#include "system/parallel.h"

enum {
	LANES = 256,       /* replicas simulated at a time */
	PAIRS = 6,         /* least number of seeds simulated operation by operation */
	MOST_PAIRS = 32,
	CHUNK = 64,        /* seeds drawn at a time */
	PILOT = 512,       /* replicas simulated for the regression */
	RESPONSES = 6,     /* factors on the network */
};
static const double LANE_WORK = 1.5e8;   /* operations of all lanes, about two seconds */
static const double FULL_WORK = 2e7;     /* operations of all ranks and seeds, likewise */
static const double LEAST_FACTOR = 0.05; /* on kernels */
static const double response_at[RESPONSES] = {1, 1.25, 2, 4, 16, 256};

/* The kernels of one stage of a replica. */
typedef struct stage_draw {
	float factor, gpu_s, node_s; /* of its slowest rank */
} stage_draw;

/* A replica that may be a seed's last. */
typedef struct last_replica {
	double seconds;
	uint32_t replica;
	float gpu_s, node_s; /* of its slowest rank */
} last_replica;

typedef struct noisy_work {
	lk_arena arena;
	const lk_step_options *options;
	const lk_step *step;
	const lk_cluster *cluster;
	const lk_noise *noise;
	size_t seeds;
	uint32_t stages, chains, replicas, size; /* size: chains of a replica, in a row */
	uint32_t *node;                          /* [stages * chains] of each rank */
	double *slow;                            /* [stages * chains] --straggler */
	lk_noise_sampler gpu, node_draws;
	bool gpus, nodes;
	double sigma; /* of single kernels */
	double computing_s, network_s; /* of a rank, mean over stages */
	float *even;    /* [stages] factors of 1 */
	double *weight; /* [stages] kernels of a rank over those of the stage that has most */
	lk_fold *fold;
	lk_graph lanes; /* view of the folded graph: LANES replicas side by side */
	lk_costs lane_costs;
	double lane_operations;
	last_replica *last; /* [seeds * kept] replicas that the regression puts last */
	uint32_t kept;
	bool simulates;             /* these are simulated */
	double *others_s;           /* [seeds] the slowest of the others */
	double *top_gpu, *top_node; /* [seeds] seconds of the slowest rank */
	double base, by_most, by_mean, residual; /* the regression, seconds */
	/* Contention, and what lanes leave out: a seed takes shift_s + factor * (what lanes say). */
	double shift_s, factor;
	double *compute_s;                       /* [seeds] the result */
} noisy_work;

bool lk_noise_computes(const lk_noise *noise) {
	for (int i = 0; i < noise->count; i++) {
		lk_noise_level level = noise->row[i].level;
		if (level != LK_NOISE_STEP && level != LK_NOISE_DATA && noise->row[i].chance > 0)
			return true;
	}
	return false;
}

/* ---- ranks ---- */

/* Whether ranks of the group depend on one another within their replica. */
static bool group_joins(unsigned group) {
	return group == LK_GROUP_TP || group == LK_GROUP_CP || group == LK_GROUP_EP ||
	       group == LK_GROUP_ETP || group == LK_GROUP_CP_HEADS || group == LK_GROUP_CP_RING;
}

/* Chains of a replica: the least number of neighbouring chains that no group leaves. */
static uint32_t replica_size(const lk_graph *graph) {
	uint64_t size = 1, chains = graph->ranks.chains;
	if (graph->teams.count) return (uint32_t)chains;
	for (unsigned group = 0; group < LK_GROUPS; group++) {
		uint64_t members = graph->ranks.group[group].size, stride = graph->ranks.group[group].stride;
		if (!group_joins(group) || members <= 1) continue;
		uint64_t span = members * (stride ? stride : 1), least = size > span ? size : span;
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
				if (!comm && graph->ops.stream[op] == LK_STREAM_COMPUTE)
					work->weight[s] += seconds;
				if (comm && cost->nic > 0) work->network_s += seconds / work->stages;
			}
		}
		work->computing_s += work->weight[s] / work->stages;
		most = fmax(most, work->weight[s]);
	}
	for (uint32_t s = 0; s < work->stages; s++) work->weight[s] /= most > 0 ? most : 1;
	return LK_OK;
}

/* Draw one stage of a replica. Ranks of one node follow one another. */
static stage_draw draw_stage(const noisy_work *work, uint64_t seed, uint32_t replica,
                             uint32_t stage) {
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
		double factor = slow * fmax(LEAST_FACTOR, 1 + (node_s + gpu_s) / work->computing_s);
		if (factor > (double)out.factor)
			out = (stage_draw){(float)factor, (float)gpu_s, (float)node_s};
	}
	return out;
}

/* ---- replicas as lanes ---- */

static lk_status lanes_set_up(noisy_work *work, lk_error *err) {
	const lk_costs *costs = &work->step->costs;
	LK_TRY(lk_sim_fold(work->step->graph, costs, false, NULL, &work->fold, err));
	work->lanes = *work->fold->graph;
	work->lanes.ranks =
		(lk_ranks){.world = work->stages * LANES, .stages = work->stages, .chains = LANES};
	work->lane_costs = work->fold->costs;
	if (costs->variant_of) {
		uint16_t *of = LK_ARRAY(&work->arena, uint16_t, (size_t)work->stages * LANES);
		if (!of) return lk_oom(err);
		for (uint32_t i = 0; i < work->stages * LANES; i++)
			of[i] = costs->variant_of[lk_rank_of(work->step->graph, i / LANES, 0)];
		work->lane_costs.variant_of = of;
	}
	work->lane_operations = lk_graph_length(work->fold->graph);
	return LK_OK;
}

/* Replicas to simulate: factors[lane * stages + stage]. */
typedef struct lane_set {
	const noisy_work *work;
	const float *factors;
	double *seconds; /* [count] */
	size_t count;
	uint64_t seed;
} lane_set;

static lk_status lanes_run_some(void *context, size_t batch, lk_error *err) {
	const lane_set *set = context;
	const noisy_work *work = set->work;
	uint32_t stages = work->stages;
	size_t first = batch * LANES;
	lk_straggler *slow = malloc((size_t)stages * LANES * sizeof *slow);
	if (!slow) return lk_oom(err);
	for (size_t lane = 0; lane < LANES; lane++)
		for (uint32_t s = 0; s < stages; s++) {
			size_t from = first + lane < set->count ? first + lane : first;
			slow[s * LANES + lane] = (lk_straggler){s * LANES + (uint32_t)lane,
			                                        (double)set->factors[from * stages + s]};
		}
	lk_sim_options options = {.apart = true,
	                          .jitter = work->sigma,
	                          .seed = lk_hash64(set->seed + batch),
	                          .stragglers = slow,
	                          .straggler_count = stages * LANES};
	lk_sim_result result;
	lk_status status = lk_sim_run(&work->lanes, &work->lane_costs, &options, &result, err);
	if (status == LK_OK) {
		for (size_t lane = 0; lane < LANES && first + lane < set->count; lane++) {
			int64_t last = 0;
			for (uint32_t s = 0; s < stages; s++)
				if (result.finish_ps[s * LANES + lane] > last)
					last = result.finish_ps[s * LANES + lane];
			set->seconds[first + lane] = (double)last / LK_PS_PER_S;
		}
		lk_sim_result_free(&result);
	}
	free(slow);
	return status;
}

static lk_status lanes_run(const noisy_work *work, const float *factors, size_t count,
                           uint64_t seed, double *seconds, lk_error *err) {
	lane_set set = {work, factors, seconds, count, seed};
	return lk_parallel((count + LANES - 1) / LANES, 0, lanes_run_some, &set, err);
}

/* ---- regression ---- */

typedef struct lane_features {
	double most, mean;
} lane_features;

static lane_features features_of(const noisy_work *work, const float *factors) {
	lane_features out = {0};
	for (uint32_t s = 0; s < work->stages; s++) {
		double takes = work->weight[s] * (double)factors[s];
		out.most = fmax(out.most, takes);
		out.mean += takes / work->stages;
	}
	return out;
}

static double regression_at(const noisy_work *work, lane_features x) {
	return work->base + work->by_most * x.most + work->by_mean * x.mean;
}

/* The time of a replica that is not simulated, with a residual of its own. */
static double with_residual(const noisy_work *work, uint64_t key, const last_replica *of) {
	return of->seconds + work->residual * lk_normal_quantile(lk_uniform(key, of->replica));
}

/* Least squares about the means; a feature that does not vary has no slope. */
static void regression_fit(noisy_work *work, const float *factors, const double *seconds,
                           size_t count) {
	double n = (double)count, most = 0, mean = 0, time = 0, aa = 0, ab = 0, bb = 0, at = 0, bt = 0;
	for (size_t i = 0; i < count; i++) {
		lane_features x = features_of(work, factors + i * work->stages);
		most += x.most / n, mean += x.mean / n, time += seconds[i] / n;
	}
	for (size_t i = 0; i < count; i++) {
		lane_features x = features_of(work, factors + i * work->stages);
		double a = x.most - most, b = x.mean - mean, t = seconds[i] - time;
		aa += a * a, ab += a * b, bb += b * b, at += a * t, bt += b * t;
	}
	double determinant = aa * bb - ab * ab;
	if (determinant > 1e-9 * aa * bb && determinant > 0) {
		work->by_most = (at * bb - bt * ab) / determinant;
		work->by_mean = (bt * aa - at * ab) / determinant;
	} else if (aa > 0) work->by_most = at / aa;
	work->base = time - work->by_most * most - work->by_mean * mean;
	double squares = 0;
	for (size_t i = 0; i < count; i++) {
		double miss =
			seconds[i] - regression_at(work, features_of(work, factors + i * work->stages));
		squares += miss * miss;
	}
	work->residual = sqrt(squares / fmax(1, n - 3));
}

/* Replicas of some seeds, not only those requested: of each, the one with the slowest stage and a
 * random one. */
static lk_status run_pilot(noisy_work *work, lk_error *err) {
	const size_t count = PILOT / 2;
	float *factors = malloc(2 * count * work->stages * sizeof *factors),
		  *one = malloc(work->stages * sizeof *one);
	double *seconds = malloc(2 * count * sizeof *seconds);
	lk_status status = factors && one && seconds ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++) {
		float *slowest = factors + 2 * i * work->stages, *other = slowest + work->stages;
		uint32_t any = (uint32_t)(lk_hash64(i) % work->replicas);
		double most = -1;
		for (uint32_t r = 0; r < work->replicas; r++) {
			for (uint32_t s = 0; s < work->stages; s++)
				one[s] = draw_stage(work, work->options->seed + i, r, s).factor;
			double reached = features_of(work, one).most;
			if (r == any) memcpy(other, one, work->stages * sizeof *one);
			if (reached > most) memcpy(slowest, one, work->stages * sizeof *one), most = reached;
		}
	}
	if (status == LK_OK) status = lanes_run(work, factors, 2 * count, 1, seconds, err);
	if (status == LK_OK) regression_fit(work, factors, seconds, 2 * count);
	free(factors);
	free(one);
	free(seconds);
	return status;
}

/* ---- seeds ---- */

/* Order the replicas of each seed: the last ones are to be simulated. */
static lk_status seeds_rank(void *context, size_t chunk, lk_error *err) {
	noisy_work *work = context;
	float *one = malloc(work->stages * sizeof *one);
	if (!one) return lk_oom(err);
	size_t end = (chunk + 1) * CHUNK < work->seeds ? (chunk + 1) * CHUNK : work->seeds;
	for (size_t i = chunk * CHUNK; i < end; i++) {
		uint64_t seed = work->options->seed + i, key = lk_hash64(seed ^ 0x7265736964u);
		last_replica *last = work->last + i * work->kept;
		for (uint32_t r = 0; r < work->replicas; r++) {
			last_replica now = {.replica = r};
			float most = 0;
			for (uint32_t s = 0; s < work->stages; s++) {
				stage_draw draw = draw_stage(work, seed, r, s);
				one[s] = draw.factor;
				if (draw.factor <= most) continue;
				most = draw.factor;
				now.gpu_s = draw.gpu_s, now.node_s = draw.node_s;
			}
			now.seconds = regression_at(work, features_of(work, one));
			uint32_t at = r < work->kept ? r : work->kept;
			while (at > 0 && now.seconds > last[at - 1].seconds) {
				if (at < work->kept) last[at] = last[at - 1];
				else work->others_s[i] = fmax(work->others_s[i], with_residual(work, key, &last[at - 1]));
				at--;
			}
			if (at < work->kept) last[at] = now;
			else work->others_s[i] = fmax(work->others_s[i], with_residual(work, key, &now));
		}
		for (uint32_t k = 0; k < work->kept && !work->simulates; k++)
			last[k].seconds = with_residual(work, key, &last[k]);
	}
	free(one);
	return LK_OK;
}

/* Simulate the last replicas of every seed. */
static lk_status run_last(noisy_work *work, lk_error *err) {
	size_t count = work->seeds * work->kept;
	float *factors = malloc(count * work->stages * sizeof *factors);
	double *seconds = malloc(count * sizeof *seconds);
	lk_status status = factors && seconds ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		for (uint32_t s = 0; s < work->stages; s++)
			factors[i * work->stages + s] =
				draw_stage(work, work->options->seed + i / work->kept, work->last[i].replica, s)
					.factor;
	if (status == LK_OK) status = lanes_run(work, factors, count, 2, seconds, err);
	for (size_t i = 0; status == LK_OK && i < count; i++) work->last[i].seconds = seconds[i];
	free(factors);
	free(seconds);
	return status;
}

/* The replica of a seed that ends last, of those kept. */
static const last_replica *seed_last(const noisy_work *work, size_t seed) {
	const last_replica *last = work->last + seed * work->kept, *out = last;
	for (uint32_t k = 1; k < work->kept; k++)
		if (last[k].seconds > out->seconds) out = &last[k];
	return out;
}

/* How many replicas of a seed are worth simulating. With noise of single kernels any replica may be
 * the last, and without it the regression may be exact already: then the residual says it all. */
static void choose_kept(noisy_work *work) {
	enum { MOST = 4 };
	double room = LANE_WORK / fmax(work->lane_operations * (double)work->seeds, 1);
	work->simulates = room >= 1 && !(work->sigma > 0) && work->residual > 1e-5 * work->base;
	work->kept = work->simulates ? (uint32_t)fmin(MOST, room) : 1;
	if (work->kept > work->replicas) work->kept = work->replicas;
}

/* ---- operation by operation ---- */

/* A step of all ranks with the factors of a seed. */
static lk_status simulate_whole(const noisy_work *work, uint64_t seed, double *seconds,
                                lk_error *err) {
	size_t ranks = (size_t)work->stages * work->chains;
	lk_straggler *slow = malloc(ranks * sizeof *slow);
	if (!slow) return lk_oom(err);
	for (size_t i = 0; i < ranks; i++) {
		double added = work->nodes ? lk_noise_draw(&work->node_draws, seed, work->node[i]) : 0;
		added += work->gpus ? lk_noise_draw(&work->gpu, seed, i) : 0;
		slow[i] = (lk_straggler){(uint32_t)i, work->slow[i] * fmax(LEAST_FACTOR,
		                                                     1 + added / work->computing_s)};
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

/* One replica with contention, without its data-parallel partners. */
static lk_status simulate_replica(const noisy_work *work, uint64_t seed, uint32_t replica,
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
		double factor = (double)draw_stage(work, seed, replica, s).factor;
		for (uint32_t i = 0; i < work->size; i++) {
			size_t at = (size_t)s * work->size + i;
			slow[at] = (lk_straggler){(uint32_t)at, factor};
			if (costs.variant_of)
				costs.variant_of[at] = all->variant_of[lk_rank_of(
					graph, s, replica * work->size + i)];
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

typedef struct whole_runs {
	const noisy_work *work;
	double *seconds;
	const uint32_t *seeds; /* NULL: all, in order */
	bool replica;          /* the last one of each seed */
} whole_runs;

static lk_status run_whole_one(void *context, size_t i, lk_error *err) {
	const whole_runs *runs = context;
	const noisy_work *work = runs->work;
	size_t at = runs->seeds ? runs->seeds[i] : i;
	uint64_t seed = work->options->seed + at;
	if (runs->replica)
		return simulate_replica(work, seed, seed_last(work, at)->replica, &runs->seconds[i], err);
	return simulate_whole(work, seed, &runs->seconds[i], err);
}

static int seed_order(const void *a, const void *b, void *context) {
	const double *step_s = context;
	size_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (step_s[i] != step_s[j]) return step_s[i] < step_s[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* The seeds from the fastest to the slowest; NULL when memory runs out. */
static uint32_t *seeds_by(const double *step_s, size_t seeds) {
	uint32_t *order = malloc(seeds * sizeof *order);
	for (size_t i = 0; order && i < seeds; i++) order[i] = (uint32_t)i;
	if (order) lk_sort_by(order, seeds, sizeof *order, seed_order, (void *)(uintptr_t)step_s);
	return order;
}

/* The line through pairs of what lanes say and what is right: through the mean ratio, with a slope
 * that counts as far as it stands out from the scatter about it. */
static void pairs_fit(noisy_work *work, const double *lanes, const double *whole, size_t count,
                      lk_step_noise *out) {
	double n = (double)count, x = 0, y = 0, xx = 0, xy = 0, scatter = 0;
	for (size_t i = 0; i < count; i++) x += lanes[i] / n, y += whole[i] / n;
	double ratio = y / x;
	for (size_t i = 0; i < count; i++) {
		double a = lanes[i] - x;
		xx += a * a;
		xy += a * (whole[i] - ratio * lanes[i]);
	}
	double slope = xx > 0 ? xy / xx : 0;
	for (size_t i = 0; i < count; i++) {
		double miss = whole[i] - ratio * lanes[i] - slope * (lanes[i] - x);
		scatter += miss * miss / fmax(1, n - 2);
	}
	if (work->sigma > 0) slope = 0; /* lanes have other draws of single kernels */
	if (xx > 0) slope *= xx / (xx + n * scatter);
	work->factor = ratio + slope;
	work->shift_s = -slope * x;
	out->checked = (int)count;
	out->apart = 0;
	for (size_t i = 0; i < count; i++)
		out->apart = fmax(
			out->apart, fabs((work->shift_s + work->factor * lanes[i]) / whole[i] - 1));
}

static lk_status run_pairs(noisy_work *work, lk_step_noise *out, lk_error *err) {
	double lanes[MOST_PAIRS], whole[MOST_PAIRS],
		operations = lk_graph_length(work->step->graph) * work->chains;
	uint32_t chosen[MOST_PAIRS];
	size_t count = (size_t)fmin(MOST_PAIRS, fmax(PAIRS, PAIRS * LK_STEP_SIMULATED / operations));
	if (count > work->seeds) count = work->seeds;
	whole_runs runs = {work, whole, chosen, operations > LK_STEP_SIMULATED};
	uint32_t *order = seeds_by(work->compute_s, work->seeds);
	if (!order) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		size_t at = chosen[i] = order[(2 * i + 1) * work->seeds / (2 * count)];
		lanes[i] = runs.replica ? seed_last(work, at)->seconds : work->compute_s[at];
	}
	free(order);
	LK_TRY(lk_parallel(count, 0, run_whole_one, &runs, err));
	pairs_fit(work, lanes, whole, count, out);
	return LK_OK;
}

static lk_status run_replicas(noisy_work *work, lk_step_noise *out, lk_error *err) {
	LK_TRY(lanes_set_up(work, err));
	LK_TRY(run_pilot(work, err));
	choose_kept(work);
	work->last = LK_ARRAY(&work->arena, last_replica, work->seeds *work->kept);
	work->others_s = LK_ARRAY(&work->arena, double, work->seeds);
	if (!work->last || !work->others_s) return lk_oom(err);
	LK_TRY(lk_parallel((work->seeds + CHUNK - 1) / CHUNK, 0, seeds_rank, work, err));
	if (work->simulates) LK_TRY(run_last(work, err));
	for (size_t i = 0; i < work->seeds; i++) {
		const last_replica *last = seed_last(work, i);
		work->compute_s[i] = fmax(last->seconds, work->others_s[i]);
		work->top_gpu[i] = (double)last->gpu_s;
		work->top_node[i] = (double)last->node_s;
	}
	LK_TRY(run_pairs(work, out, err));
	for (size_t i = 0; i < work->seeds; i++)
		work->compute_s[i] = work->shift_s + work->factor * work->compute_s[i];
	return LK_OK;
}

/* ---- the network ---- */

typedef struct network_runs {
	const noisy_work *work;
	double seconds[RESPONSES];
} network_runs;

static lk_status run_response(void *context, size_t i, lk_error *err) {
	network_runs *runs = context;
	const lk_step *step = runs->work->step;
	lk_step one = {.graph = step->graph, .costs = step->costs};
	size_t count = (size_t)step->costs.variants * step->costs.ops;
	lk_cost *slowed = malloc(count * sizeof *slowed);
	if (!slowed) return lk_oom(err);
	for (size_t k = 0; k < count; k++) {
		slowed[k] = step->costs.at[k];
		if (!(slowed[k].nic > 0) || !lk_op_is_comm(step->graph->ops.kind[k % step->costs.ops]))
			continue;
		slowed[k].duration_ps = (int64_t)((double)slowed[k].duration_ps * response_at[i]);
		slowed[k].tail_ps = (int64_t)((double)slowed[k].tail_ps * response_at[i]);
	}
	one.costs.at = slowed;
	lk_step_options options = *runs->work->options;
	options.bare = true;
	options.record_count = 0;
	options.all_ranks = false;
	lk_status status = lk_step_simulate(&options, &one, err);
	runs->seconds[i] = one.step_s;
	one.graph = NULL;
	lk_step_free(&one);
	free(slowed);
	return status;
}

/* The step over its quiet time, with the slowest NIC `factor` times as slow. */
static double response_of(const network_runs *runs, double factor) {
	int i = 1;
	while (i < RESPONSES - 1 && factor > response_at[i]) i++;
	double slope = (runs->seconds[i] - runs->seconds[i - 1]) / (response_at[i] - response_at[i - 1]);
	double at = runs->seconds[i - 1] + slope * (factor - response_at[i - 1]);
	return fmax(at / runs->seconds[0], LEAST_FACTOR);
}

/* ---- the whole ---- */

/* What every level adds to every seed, [LK_NOISE_LEVELS * seeds], and the steps. */
typedef struct noisy_result {
	double *step_s, *level_s;
} noisy_result;

/* The noise of the slowest rank of every seed that was simulated whole, and the step with noise of
 * single kernels alone. */
static lk_status note_slowest(noisy_work *work, double *still_s, lk_error *err) {
	for (size_t i = 0; i < work->seeds && (work->gpus || work->nodes); i++) {
		stage_draw slowest = {0};
		for (uint32_t r = 0; r < work->replicas; r++)
			for (uint32_t s = 0; s < work->stages; s++) {
				stage_draw draw = draw_stage(work, work->options->seed + i, r, s);
				if (draw.factor > slowest.factor) slowest = draw;
			}
		work->top_gpu[i] = (double)slowest.gpu_s;
		work->top_node[i] = (double)slowest.node_s;
	}
	noisy_work still = *work;
	still.gpus = still.nodes = false;
	if (!(work->sigma > 0)) return LK_OK;
	return simulate_whole(&still, work->options->seed, still_s, err);
}

static lk_status add_levels(noisy_work *work, noisy_result *result, lk_step_noise *out,
                            lk_error *err) {
	const double quiet_s = work->step->step_s;
	double ranks = (double)work->stages * work->chains, still_s = quiet_s;
	lk_noise_sampler nic, data, whole;
	network_runs network = {.work = work};
	bool nics = lk_noise_sampler_make(work->noise, LK_NOISE_NIC, work->network_s, &nic) &&
	            work->network_s > 0;
	bool inputs = lk_noise_sampler_make(work->noise, LK_NOISE_DATA, quiet_s, &data);
	bool steps = lk_noise_sampler_make(work->noise, LK_NOISE_STEP, quiet_s, &whole);
	if (nics) LK_TRY(lk_parallel(RESPONSES, 0, run_response, &network, err));
	if (out->full) LK_TRY(note_slowest(work, &still_s, err));
	else if (work->sigma > 0)
		still_s = work->shift_s + work->factor * regression_at(work, features_of(work, work->even));
	for (size_t i = 0; i < work->seeds; i++) {
		uint64_t seed = work->options->seed + i;
		double time = work->compute_s[i], level[LK_NOISE_LEVELS] = {0};
		double gpu = work->top_gpu[i], node = work->top_node[i], both = gpu + node;
		double by_node = work->nodes ? 1 : 0, moved = time - still_s;
		if (work->gpus) by_node = both != 0 ? fmin(1, fmax(0, node / both)) : 0;
		bool single = !work->gpus && !work->nodes;
		level[LK_NOISE_OPERATION] = single ? time - quiet_s : still_s - quiet_s;
		level[LK_NOISE_NODE] = single ? 0 : by_node * moved;
		level[LK_NOISE_GPU] = single ? 0 : moved - level[LK_NOISE_NODE];
		if (nics) {
			double late = lk_noise_draw_most(&nic, seed, ranks);
			level[LK_NOISE_NIC] = time * (response_of(&network, 1 + late / work->network_s) - 1);
			time += level[LK_NOISE_NIC];
		}
		if (inputs) {
			level[LK_NOISE_DATA] = fmax(0, lk_noise_draw_most(&data, seed, work->replicas));
			time += level[LK_NOISE_DATA];
		}
		if (steps) {
			level[LK_NOISE_STEP] = fmax(lk_noise_draw(&whole, seed, 0), -0.95 * quiet_s);
			time += level[LK_NOISE_STEP];
		}
		result->step_s[i] = time;
		for (int l = 0; l < LK_NOISE_LEVELS; l++)
			result->level_s[(size_t)l * work->seeds + i] = level[l];
	}
	for (int i = 0; i < work->noise->count; i++)
		if (work->noise->row[i].chance > 0) out->acts[work->noise->row[i].level] = true;
	return LK_OK;
}

/* Means of the levels over the seeds within half a percent around a quantile. */
static void levels_around(const noisy_result *result, const uint32_t *order, size_t seeds,
                          double quantile, size_t member, lk_step_noise *out) {
	double place = quantile * (double)(seeds - 1), half = 0.005 * (double)seeds;
	size_t first = (size_t)fmax(0, ceil(place - half)), last = (size_t)(place + half);
	if (last >= seeds) last = seeds - 1;
	if (first > last) first = last = (size_t)(place + 0.5);
	for (int level = 0; level < LK_NOISE_LEVELS; level++) {
		double sum = 0;
		for (size_t i = first; i <= last; i++)
			sum += result->level_s[(size_t)level * seeds + order[i]];
		*(double *)((char *)&out->level_s[level] + member) = sum / (double)(last - first + 1);
	}
}

static lk_status noisy_fill(const noisy_work *work, const noisy_result *result, lk_step_noise *out,
                            lk_error *err) {
	size_t seeds = work->seeds;
	uint32_t *order = seeds_by(result->step_s, seeds);
	if (!order) return lk_oom(err);
	out->step_s = (lk_quantiles){lk_quantile(result->step_s, seeds, 0.50),
	                             lk_quantile(result->step_s, seeds, 0.95),
	                             lk_quantile(result->step_s, seeds, 0.99)};
	levels_around(result, order, seeds, 0.50, offsetof(lk_quantiles, p50), out);
	levels_around(result, order, seeds, 0.95, offsetof(lk_quantiles, p95), out);
	levels_around(result, order, seeds, 0.99, offsetof(lk_quantiles, p99), out);
	free(order);
	return isnan(out->step_s.p99) ? lk_oom(err) : LK_OK;
}

static lk_status noisy_run(noisy_work *work, lk_noisy_way way, lk_step_noise *out, lk_error *err) {
	noisy_result result = {LK_ARRAY(&work->arena, double, work->seeds),
	                       LK_ARRAY(&work->arena, double, work->seeds *LK_NOISE_LEVELS)};
	work->compute_s = LK_ARRAY(&work->arena, double, work->seeds);
	work->top_gpu = LK_ARRAY(&work->arena, double, work->seeds);
	work->top_node = LK_ARRAY(&work->arena, double, work->seeds);
	if (!result.step_s || !result.level_s || !work->compute_s || !work->top_gpu ||
	    !work->top_node)
		return lk_oom(err);
	LK_TRY(sum_times(work, err));
	for (int i = 0; i < work->noise->count; i++)
		if (work->noise->row[i].level == LK_NOISE_OPERATION)
			work->sigma = hypot(work->sigma, work->noise->row[i].low);
	work->gpus =
		lk_noise_sampler_make(work->noise, LK_NOISE_GPU, work->computing_s, &work->gpu);
	work->nodes =
		lk_noise_sampler_make(work->noise, LK_NOISE_NODE, work->computing_s, &work->node_draws);
	out->full = true;
	out->apart = NAN;
	if (!work->gpus && !work->nodes && !(work->sigma > 0)) {
		for (size_t i = 0; i < work->seeds; i++) work->compute_s[i] = work->step->step_s;
	} else {
		double operations = lk_graph_length(work->step->graph) * work->chains;
		LK_TRY(place_ranks(work, err));
		out->full = way == LK_NOISY_FULL ||
		            (way == LK_NOISY_AUTO && operations * (double)work->seeds <= FULL_WORK);
		whole_runs runs = {work, work->compute_s, NULL, false};
		if (out->full) LK_TRY(lk_parallel(work->seeds, 0, run_whole_one, &runs, err));
		else LK_TRY(run_replicas(work, out, err));
	}
	LK_TRY(add_levels(work, &result, out, err));
	return noisy_fill(work, &result, out, err);
}

lk_status lk_step_noise_over(const lk_step_options *options, const lk_step *step,
                             const lk_cluster *cluster, const lk_noise *noise, int seeds,
                             lk_noisy_way way, lk_step_noise *out, lk_error *err) {
	LK_ASSERT(seeds > 0);
	const lk_ranks *ranks = &step->graph->ranks;
	noisy_work work = {.options = options,
	                   .step = step,
	                   .cluster = cluster,
	                   .noise = noise,
	                   .seeds = (size_t)seeds,
	                   .stages = ranks->stages,
	                   .chains = ranks->chains,
	                   .size = replica_size(step->graph),
	                   .factor = 1};
	work.replicas = work.chains / work.size;
	*out = (lk_step_noise){0};
	lk_status status = noisy_run(&work, way, out, err);
	lk_fold_free(work.fold);
	lk_arena_free(&work.arena);
	return status;
}
