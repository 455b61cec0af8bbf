/* step.c: build the graph, cost it, fold it, run it, read times and memory from what ran. */
#include "base/arena.h"
#include "step/step.h"

#include <math.h>
#include <string.h>
#include "system/clock.h"
#include "system/stop.h"
#include "base/units.h"
#include "graph/edit/edit.h"
#include "model/build/build.h"
#include "model/layout/schedule.h"
#include "base/check.h"

/* Growth of a step that agrees with a rate, relative: a third of the error that is allowed. */
static const double NEARLY = 3e-5;

/* Relative error above that of any guess of a step's length from few micro-batches
 * (tests/unit/test_long_search.c); how close two guesses, one from a quarter as many, are to count
 * as the time. */
static const double FAR = 5e-3, AGREED = 1e-4;

/* With so many times the micro-batches of which a rate is read, the lead of the slowest rank, less
 * than the pipeline holds, is next to nothing. */
enum { LEAD = 64 };

/* ---- times ---- */

static lk_status choose_records(const lk_step_options *options, lk_step *out, lk_error *err) {
	const lk_ranks *ranks = &out->graph->ranks;
	out->record = LK_ARRAY(&out->arena, uint32_t, ranks->stages + options->record_count);
	if (!out->record) return lk_oom(err);
	for (uint32_t s = 0; s < ranks->stages; s++)
		out->record[out->record_count++] = lk_rank_of(out->graph, s, 0);
	for (uint32_t i = 0; i < options->record_count; i++) {
		if (options->record[i] >= ranks->world)
			return lk_fail(err, LK_ERR_INPUT, "--trace-ranks",
			               "there is no rank %u; the last is %u", options->record[i],
			               ranks->world - 1);
		bool known = false;
		for (uint32_t k = 0; k < out->record_count; k++)
			known |= out->record[k] == options->record[i];
		if (!known) out->record[out->record_count++] = options->record[i];
	}
	return LK_OK;
}

static lk_status split_time(lk_step *out, lk_error *err) {
	uint32_t stages = out->graph->ranks.stages;
	out->stage_time = LK_ARRAY(&out->arena, lk_breakdown, stages);
	if (!out->stage_time) return lk_oom(err);
	for (uint32_t r = 0; r < stages; r++) {
		lk_breakdown *one = &out->stage_time[r];
		LK_TRY(lk_step_split(out, r, stages > 1, one, err));
		for (int p = 0; p < LK_PART_COUNT; p++) {
			out->breakdown.exposed_s[p] += one->exposed_s[p] / stages;
			out->breakdown.hidden_s[p] += one->hidden_s[p] / stages;
		}
	}
	return LK_OK;
}

/* How often a call of the graph runs in the step: calls of the micro-batch in the middle also
 * represent those of the omitted ones. A pair of passes counts for that of its forward pass. */
static double call_times(const lk_step *step, const lk_call *call) {
	bool later = step->left_out && call->microbatch >= step->left_out; /* numbers skip them */
	bool middle = call->microbatch - (later ? step->left_out : 0) == step->middle;
	return call->repeat * (middle ? 1.0 + step->left_out : 1.0);
}

/* Flops of all ranks. Each block is summed once, however often it is called. */
static lk_status step_count_flops(lk_step *out, lk_error *err) {
	const lk_graph *graph = out->graph;
	double *of_block = LK_ARRAY(&out->arena, double, graph->blocks.count + 1);
	if (!of_block) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t i = graph->blocks.at[b].begin; i < graph->blocks.at[b].end; i++)
			of_block[b] += graph->ops.flops[i];
	for (uint32_t s = 0; s < graph->ranks.stages; s++) {
		const lk_program *program = &graph->programs.at[s];
		double flops = 0;
		for (size_t c = 0; c < program->calls.count; c++)
			flops += of_block[program->calls.at[c].block] * call_times(out, &program->calls.at[c]);
		out->executed_flops += flops * graph->ranks.chains;
	}
	return LK_OK;
}

/* A slow rank or noise changes compute but not communication, and a folded run contains both: such
 * steps are simulated operation by operation, unless noise puts every chain of a very large job in
 * its own class. */
static bool step_may_fold(const lk_step_options *options, const lk_graph *graph) {
	if (options->exact || options->straggler_count > 0 || graph->traced) return false;
	bool noisy = options->jitter > 0 || options->gpu_spread > 0;
	return !noisy || graph->ranks.chains > LK_STEP_NOISY_CHAINS;
}

/* Operations of one rank per stage, in the whole step or in the graph's own micro-batches; excludes
 * the calls in `left`. */
typedef struct lk_operation_count {
	double step, graph;
} lk_operation_count;

static lk_operation_count step_count_operations(const lk_step *step, const bool *left) {
	const lk_graph *graph = step->graph;
	lk_operation_count count = {0};
	size_t number = 0;
	for (size_t s = 0; s < graph->programs.count; s++) {
		const lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count; c++, number++) {
			const lk_call *call = &program->calls.at[c];
			const lk_block *block = &graph->blocks.at[call->block];
			if (left && left[number]) continue;
			count.step += call_times(step, call) * (block->end - block->begin);
			count.graph += (double)call->repeat * (block->end - block->begin);
		}
	}
	return count;
}

/* `leave_lanes`: see lk_sim_options. */
static lk_status run_graph(const lk_step_options *options, double leave_lanes, lk_step *out,
                           lk_error *err) {
	lk_sim_options run = {
		.contention = !options->no_contention,
		.all_ranks = options->all_ranks,
		.jitter = options->jitter,
		.gpu_spread = options->gpu_spread,
		.seed = options->seed,
		.stragglers = options->stragglers,
		.straggler_count = options->straggler_count,
		.record = out->record,
		.record_count = out->record_count,
		.give_up_ps = options->bare ? out->give_up_ps : 0,
		.unsettled = options->habits.unsettled || out->habits.unsettled,
		.leave_lanes = leave_lanes,
		.left_out = (uint32_t)out->left_out,
		.exactly = options->exactly || !options->few,
	};
	LK_TRY(lk_sim_run(lk_step_simulated(out), out->fold ? &out->fold->costs : &out->costs, &run,
	                  &out->sim, err));
	out->habits.unsettled = run.unsettled || out->sim.unsettled;
	return LK_OK;
}

/* Add to `keep` the calls of the graph whose folded runs shared the device. */
static void keep_shared(const lk_step *step, bool *keep) {
	const bool *shared = step->sim.shared;
	size_t first = 0;
	for (uint32_t s = 0; s < step->graph->ranks.stages; s++) {
		const lk_program *folded = &step->fold->graph->programs.at[s];
		size_t count = step->graph->programs.at[s].calls.count;
		const uint32_t *source = step->fold->source_call[s];
		for (size_t c = 0; c < folded->calls.count; c++, shared++) {
			size_t end = c + 1 < folded->calls.count ? source[c + 1] : count;
			for (size_t i = source[c]; *shared && i < end; i++) keep[first + i] = true;
		}
		first += count;
	}
}

/* A folded run that has the device to itself takes as long as its operations simulated separately.
 * So the calls whose runs shared it are kept unfolded, and the step is simulated again until no run
 * shares anything: the answer then equals that of the unfolded simulation. It does not where
 * unfolding would be too much to simulate. If most runs share the device, simulate unfolded at
 * once. */
static lk_status run_folded(const lk_step_options *options, lk_step *out, lk_error *err) {
	lk_operation_count all = step_count_operations(out, NULL);
	LK_ASSERT(out->share >= 0 && out->share <= 1);
	double most = options->habits.crowded ? LK_STEP_CROWDED : LK_STEP_SIMULATED;
	double limit = most / (out->share > 0 ? out->share : 1);
	size_t calls = 0;
	/* equal ranks have one lane: any folding ends in simulating the step unfolded */
	out->habits.crowded = options->habits.crowded && out->costs.variants == 1 && all.graph <= limit;
	if (out->habits.crowded) return run_graph(options, 0, out, err);
	for (size_t s = 0; s < out->graph->programs.count; s++)
		calls += out->graph->programs.at[s].calls.count;
	bool *keep = LK_ARRAY(&out->arena, bool, calls + 1);
	if (!keep) return lk_oom(err);
	for (int round = 0; round < LK_STEP_ROUNDS; round++) {
		LK_TRY(
			lk_sim_fold(out->graph, &out->costs, !options->no_contention, keep, &out->fold, err));
		LK_TRY(run_graph(options, limit / fmax(all.graph, 1), out, err));
		if (!out->sim.shared) {
			out->fold->alone =
				!(options->jitter > 0 || options->gpu_spread > 0 || options->straggler_count > 0);
			return LK_OK;
		}
		out->habits.shares = true;
		keep_shared(out, keep);
		lk_operation_count folds = step_count_operations(out, keep);
		double lanes = out->sim.lanes;
		if (!out->sim.left && (all.graph - folds.graph) * lanes > limit) return LK_OK;
		bool left = out->sim.left;
		lk_sim_result_free(&out->sim);
		lk_fold_free(out->fold);
		out->fold = NULL;
		if (left) break;
		if (folds.step < all.step / 2 && all.graph * lanes <= 2.0 * limit) break;
	}
	out->habits.crowded = true;
	return run_graph(options, 0, out, err);
}

/* Small steps are simulated faster than folded. */
static bool step_is_small(const lk_step_options *options, const lk_step *step) {
	return !options->no_contention && step->costs.variants == 1 &&
	       step_count_operations(step, NULL).step <= LK_STEP_SMALL;
}

/* Whether the graph's few micro-batches do not determine the time of all. */
static bool step_is_unsettled(const lk_step *step) {
	return step->left_out && step->sim.unsettled;
}

lk_status lk_step_simulate(const lk_step_options *options, lk_step *out, lk_error *err) {
	if (!options->bare) LK_TRY(choose_records(options, out, err));
	double start = lk_clock_s();
	if (step_may_fold(options, out->graph) && !step_is_small(options, out))
		LK_TRY(run_folded(options, out, err));
	else LK_TRY(run_graph(options, 0, out, err));
	out->simulation_s = lk_clock_s() - start;
	out->step_s = (double)out->sim.step_ps / LK_PS_PER_S;
	if (options->bare || step_is_unsettled(out)) return LK_OK;
	LK_TRY(step_count_flops(out, err));
	return split_time(out, err);
}

static lk_status ask_times(const lk_job *job, const lk_cluster *cluster,
                           const lk_step_options *options, lk_step *out, lk_error *err) {
	lk_constants constants;
	if (!options->constants) lk_profile_constants(job, &constants);
	lk_cost_options costing = {
		.constants = options->constants ? options->constants : &constants,
		.cuda_graphs = job->cuda_graphs == LK_ON,
		.compiled = job->compile,
		.experts_eager = job->graph_experts != LK_ON,
		.cache = options->cache,
	};
	LK_TRY(lk_costs_build(&out->arena, out->graph, cluster, &costing, &out->costs, err));
	return lk_step_simulate(options, out, err);
}

/* Replace the step's end by the program. */
static lk_status replace_update(lk_step *step, const lk_graph *update, lk_error *err) {
	lk_edit edit;
	if (!update) return LK_OK;
	LK_TRY(lk_edit_begin(step->graph, &edit, err));
	lk_status status = lk_edit_replace_update(&edit, update, err);
	if (status == LK_OK) {
		for (uint32_t i = 0; i < edit.graph->ops.count; i++)
			edit.graph->ops.measured_ps[i] = (int64_t)edit.op.at[i].measured_ps;
		lk_graph *before = step->graph;
		step->graph = edit.graph;
		edit.graph = before;
	}
	lk_edit_free(&edit);
	return status;
}

/* Predict the step with `few` of its micro-batches in the graph, for `all`; see lk_step.share. */
static lk_status ask_with(const lk_job *job, const lk_cluster *cluster,
                          const lk_step_options *options, int few, int all, double share,
                          lk_step *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(lk_stop_check(err));
	out->left_out = (all - few) / lk_schedule_directions(job->schedule);
	out->middle = few / lk_schedule_directions(job->schedule) / 2;
	out->share = share;
	LK_TRY(lk_build_few(job, few, &out->graph, err));
	LK_TRY(replace_update(out, options->update, err));
	if (job->max_connections == 1) LK_TRY(lk_graph_one_queue(out->graph, err));
	LK_TRY(lk_memory_ask(job, cluster, options->memory_only || options->bare, out, err));
	bool enough = options->memory_only || (options->bare && !lk_step_fits(out));
	if (enough) return LK_OK;
	out->give_up_ps = options->give_up_ps;
	if (options->give_up_at) out->give_up_ps = options->give_up_at(options->give_up_context, out);
	out->sim.gave_up = out->give_up_ps < 0;
	return out->sim.gave_up ? LK_OK : ask_times(job, cluster, options, out, err);
}

/* Whether the end of a step of fewer micro-batches than `few`, simulated whole, is as much earlier
 * as the step that was derived from these says. */
static lk_status confirm_rate(const lk_job *job, const lk_cluster *cluster,
                              const lk_step_options *options, int few, const lk_step *step,
                              bool *right, lk_error *err) {
	int fewer = lk_step_fewer(job, few);
	lk_step_options brief = *options;
	lk_step other;
	double inserted = (double)step->sim.gap.times * (double)step->sim.gap.shift_ps;
	double rate = inserted / (job->microbatches - few);
	brief.habits.unsettled = true;
	brief.habits.crowded |= step->habits.crowded;
	lk_status status = ask_with(job, cluster, &brief, fewer, fewer, 1, &other, err);
	double between = (double)(step->sim.step_ps - other.sim.step_ps) - inserted;
	*right =
		status == LK_OK && fabs(between - rate * (few - fewer)) <= NEARLY * rate * (few - fewer);
	lk_step_free(&other);
	return status;
}

/* Where few micro-batches do not determine a step's time exactly, a search does without: with a
 * step that is far beyond the limit by its guess, or whose guess agrees with the one `before`. */
static bool guess_suffices(const lk_step_options *options, double *before, lk_step *step) {
	lk_sim_result *sim = &step->sim;
	bool unsettled = step_is_unsettled(step);
	double guess = (double)(unsettled ? sim->guess_ps : sim->step_ps), earlier = *before;
	*before = guess;
	if (!options->guesses || sim->gave_up || !(unsettled || sim->doubtful)) return false;
	sim->gave_up = step->give_up_ps > 0 && guess > (1 + FAR) * (double)step->give_up_ps;
	bool agrees = unsettled && guess > 0 && fabs(guess - earlier) <= AGREED * guess;
	if (!sim->gave_up && !agrees) return false;
	sim->step_ps = sim->gave_up ? step->give_up_ps : (int64_t)guess;
	step->step_s = (double)sim->step_ps / LK_PS_PER_S;
	return true;
}

/* Where a report or a trace needs all micro-batches, few of them are asked first: whether they
 * settle decides how much of the whole is simulated unfolded. */
lk_status lk_step_ask(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options,
                      lk_step *out, lk_error *err) {
	static const int more[] = {1, 4, 16}; /* some steps settle only after so many times as long */
	lk_step_options whole = *options, brief = *options;
	brief.habits.unsettled = options->habits.unsettled && !options->guesses;
	bool folds = !options->exact && !options->memory_only, tells = options->few || folds;
	bool shares = false;
	double share = 1, guess = 0;
	for (size_t i = 0; tells && i < sizeof more / sizeof *more && share == 1; i++) {
		int few = lk_step_few(job, &brief, more[i]);
		if (!few) continue;
		LK_TRY(ask_with(job, cluster, &brief, few, job->microbatches, 1, out, err));
		bool settled = !step_is_unsettled(out);
		if (guess_suffices(options, &guess, out)) return LK_OK;
		bool large = i > 0 && few <= job->microbatches / LEAD;
		if (settled && out->sim.doubtful && !large) {
			LK_TRY(confirm_rate(job, cluster, &brief, few, out, &settled, err));
			out->sim.doubtful = !settled;
		}
		if (settled && options->few) return LK_OK;
		brief.habits.crowded |= out->habits.crowded;
		shares |= out->habits.shares;
		lk_step_free(out);
		if (settled) share = (double)few / job->microbatches;
		else whole.habits.unsettled = true;
	}
	whole.habits.crowded = brief.habits.crowded || (whole.habits.unsettled && shares);
	return ask_with(job, cluster, &whole, job->microbatches, job->microbatches, share, out, err);
}

/* In billionths: sums over a folded step and over a whole one differ in their last bit. */
double lk_step_network_share(const lk_step *step) {
	double waits = 0;
	for (int part = LK_PART_TP; part <= LK_PART_PP; part++)
		waits += step->breakdown.exposed_s[part];
	return step->step_s > 0 ? round(fmin(1, waits / step->step_s) * 1e9) / 1e9 : 0;
}

void lk_step_free(lk_step *step) {
	if (!step) return;
	lk_sim_result_free(&step->sim);
	lk_fold_free(step->fold);
	lk_graph_free(step->graph);
	lk_arena_free(&step->arena);
	memset(step, 0, sizeof *step);
}
