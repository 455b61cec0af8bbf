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
#include "step/noisy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/stats.h"
#include "system/parallel.h"

enum { RESPONSES = 6 /* factors on the network */ };
static const double FULL_WORK = 2e7; /* operations of all ranks and seeds, about two seconds */
static const double response_at[RESPONSES] = {1, 1.25, 2, 4, 16, 256};

bool lk_noise_computes(const lk_noise *noise) {
	for (int i = 0; i < noise->count; i++) {
		lk_noise_level level = noise->row[i].level;
		if (level != LK_NOISE_STEP && level != LK_NOISE_DATA && noise->row[i].chance > 0)
			return true;
	}
	return false;
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
	double slope =
		(runs->seconds[i] - runs->seconds[i - 1]) / (response_at[i] - response_at[i - 1]);
	double at = runs->seconds[i - 1] + slope * (factor - response_at[i - 1]);
	return fmax(at / runs->seconds[0], LK_NOISY_LEAST_FACTOR);
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
				stage_draw draw = lk_noisy_draw(work, work->options->seed + i, r, s);
				if (draw.factor > slowest.factor) slowest = draw;
			}
		work->top_gpu[i] = (double)slowest.gpu_s;
		work->top_node[i] = (double)slowest.node_s;
	}
	noisy_work still = *work;
	still.gpus = still.nodes = false;
	if (!(work->sigma > 0)) return LK_OK;
	return lk_noisy_simulate(&still, work->options->seed, still_s, err);
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
	else if (work->sigma > 0) still_s = lk_noisy_still_s(work);
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
		sum /= (double)(last - first + 1);
		memcpy((char *)&out->level_s[level] + member, &sum, sizeof sum);
	}
}

static lk_status noisy_fill(const noisy_work *work, const noisy_result *result, lk_step_noise *out,
                            lk_error *err) {
	size_t seeds = work->seeds;
	uint32_t *order = lk_noisy_order(result->step_s, seeds);
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

static lk_status run_whole(void *context, size_t i, lk_error *err) {
	const noisy_work *work = context;
	return lk_noisy_simulate(work, work->options->seed + i, &work->compute_s[i], err);
}

static lk_status noisy_run(noisy_work *work, lk_noisy_way way, lk_step_noise *out, lk_error *err) {
	noisy_result result = {LK_ARRAY(&work->arena, double, work->seeds),
	                       LK_ARRAY(&work->arena, double, work->seeds *LK_NOISE_LEVELS)};
	work->compute_s = LK_ARRAY(&work->arena, double, work->seeds);
	work->top_gpu = LK_ARRAY(&work->arena, double, work->seeds);
	work->top_node = LK_ARRAY(&work->arena, double, work->seeds);
	if (!result.step_s || !result.level_s || !work->compute_s || !work->top_gpu || !work->top_node)
		return lk_oom(err);
	LK_TRY(lk_noisy_place(work, err));
	for (int i = 0; i < work->noise->count; i++)
		if (work->noise->row[i].level == LK_NOISE_OPERATION)
			work->sigma = hypot(work->sigma, work->noise->row[i].low);
	if (work->sigma > 2)
		return lk_fail(err, LK_ERR_INPUT, work->noise->name,
		               "spreads of level operation come to %.3g: at most 2", work->sigma);
	work->gpus = lk_noise_sampler_make(work->noise, LK_NOISE_GPU, work->computing_s, &work->gpu);
	work->nodes =
		lk_noise_sampler_make(work->noise, LK_NOISE_NODE, work->computing_s, &work->node_draws);
	out->full = true;
	out->apart = NAN;
	if (!work->gpus && !work->nodes && !(work->sigma > 0)) {
		for (size_t i = 0; i < work->seeds; i++) work->compute_s[i] = work->step->step_s;
	} else {
		double operations = lk_graph_length(work->step->graph) * work->chains;
		out->full = way == LK_NOISY_FULL ||
		            (way == LK_NOISY_AUTO && operations * (double)work->seeds <= FULL_WORK);
		if (out->full) LK_TRY(lk_parallel(work->seeds, 0, run_whole, work, err));
		else LK_TRY(lk_noisy_run_replicas(work, out, err));
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
	                   .size = lk_noisy_replica_size(step->graph),
	                   .factor = 1};
	work.replicas = work.chains / work.size;
	*out = (lk_step_noise){0};
	lk_status status = noisy_run(&work, way, out, err);
	lk_fold_free(work.fold);
	lk_arena_free(&work.arena);
	return status;
}
