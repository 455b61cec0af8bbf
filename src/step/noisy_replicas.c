/* noisy_replicas.c: seeds by their slowest replicas, as noisy.c describes. */
#include "step/noisy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "system/parallel.h"

enum {
	LANES = 256, /* replicas simulated at a time */
	PAIRS = 6,   /* least number of seeds simulated operation by operation */
	MOST_PAIRS = 32,
	CHUNK = 64,  /* seeds drawn at a time */
	PILOT = 512, /* replicas simulated for the regression */
};
static const double LANE_WORK = 1.5e8; /* operations of all lanes, about two seconds */

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
			slow[s * LANES + lane] =
				(lk_straggler){s * LANES + (uint32_t)lane, (double)set->factors[from * stages + s]};
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
				one[s] = lk_noisy_draw(work, work->options->seed + i, r, s).factor;
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

/* Keep a replica among those of the seed that end last, in falling order; what is not kept counts
 * among the others. Places that are still empty have no time. */
static void seed_add_replica(noisy_work *work, size_t seed, uint64_t key, last_replica now) {
	last_replica *last = work->last + seed * work->kept;
	for (uint32_t k = 0; k < work->kept; k++) {
		if (now.seconds <= last[k].seconds) continue;
		last_replica before = last[k];
		last[k] = now;
		now = before;
	}
	if (now.seconds > 0)
		work->others_s[seed] = fmax(work->others_s[seed], with_residual(work, key, &now));
}

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
				stage_draw draw = lk_noisy_draw(work, seed, r, s);
				one[s] = draw.factor;
				if (draw.factor <= most) continue;
				most = draw.factor;
				now.gpu_s = draw.gpu_s, now.node_s = draw.node_s;
			}
			now.seconds = regression_at(work, features_of(work, one));
			seed_add_replica(work, i, key, now);
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
				lk_noisy_draw(work, work->options->seed + i / work->kept, work->last[i].replica, s)
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

typedef struct pair_runs {
	const noisy_work *work;
	double *seconds;
	const uint32_t *seeds; /* from the first one on */
	bool replica;          /* the last one of each seed */
} pair_runs;

static lk_status run_pair(void *context, size_t i, lk_error *err) {
	const pair_runs *runs = context;
	const noisy_work *work = runs->work;
	size_t at = runs->seeds[i];
	uint64_t seed = work->options->seed + at;
	if (runs->replica)
		return lk_noisy_simulate_replica(work, seed, seed_last(work, at)->replica,
		                                 &runs->seconds[i], err);
	return lk_noisy_simulate(work, seed, &runs->seconds[i], err);
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
		out->apart =
			fmax(out->apart, fabs((work->shift_s + work->factor * lanes[i]) / whole[i] - 1));
}

static lk_status run_pairs(noisy_work *work, lk_step_noise *out, lk_error *err) {
	double lanes[MOST_PAIRS], whole[MOST_PAIRS],
		operations = lk_graph_length(work->step->graph) * work->chains;
	uint32_t chosen[MOST_PAIRS];
	size_t count = (size_t)fmin(MOST_PAIRS, fmax(PAIRS, PAIRS * LK_STEP_SIMULATED / operations));
	if (count > work->seeds) count = work->seeds;
	pair_runs runs = {work, whole, chosen, operations > LK_STEP_SIMULATED};
	uint32_t *order = lk_noisy_order(work->compute_s, work->seeds);
	if (!order) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		size_t at = chosen[i] = order[(2 * i + 1) * work->seeds / (2 * count)];
		lanes[i] = runs.replica ? seed_last(work, at)->seconds : work->compute_s[at];
	}
	free(order);
	LK_TRY(lk_parallel(count, 0, run_pair, &runs, err));
	pairs_fit(work, lanes, whole, count, out);
	return LK_OK;
}

lk_status lk_noisy_run_replicas(noisy_work *work, lk_step_noise *out, lk_error *err) {
	LK_TRY(lanes_set_up(work, err));
	LK_TRY(run_pilot(work, err));
	choose_kept(work);
	work->last = LK_ARRAY(&work->arena, last_replica, work->seeds * work->kept);
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

double lk_noisy_still_s(const noisy_work *work) {
	return work->shift_s + work->factor * regression_at(work, features_of(work, work->even));
}
