/* step.c: build the graph, cost it, fold it, run it, read times and memory from what ran. */
#include "ask/step.h"

#include <string.h>
#include <time.h>

#include "base/units.h"
#include "model/build.h"

static double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- memory outside the allocator (docs/METHOD.md, "Memory") ---- */

static double context_bytes(const lk_device *device) {
	return device->arch >= LK_ARCH_HOPPER ? 0.8 * LK_GIB : 0.6 * LK_GIB; /* driver, kernels of the libraries */
}

/* NCCL keeps buffers per channel and connection: 4 MiB Simple, 4.7 MiB LL128, 0.5 MiB LL, for a ring's two neighbours,
 * allocated at first use; communicators of up to 16 channels. */
static double nccl_bytes(const lk_ranks *ranks) {
	double per_group = 16 * 2 * (4 + 4.7 + 0.5) / 2 * LK_MIB, bytes = 0;
	uint32_t seen[LK_GROUPS][2];
	int distinct = 0;
	for (int g = 1; g < LK_GROUPS; g++) {
		uint32_t size = ranks->group[g].size, stride = ranks->group[g].stride;
		bool known = size <= 1 || g == LK_GROUP_MODEL || g == LK_GROUP_EMBEDDING;
		for (int i = 0; i < distinct && !known; i++) known = seen[i][0] == size && seen[i][1] == stride;
		if (known) continue;
		seen[distinct][0] = size, seen[distinct++][1] = stride;
		bytes += per_group;
	}
	return bytes;
}

/* The caching allocator holds more than is in use: blocks of 2 MiB granularity and holes between long-lived tensors. */
static double reserved_bytes(const lk_memory *m) {
	double moving = m->peak - m->resident;
	return m->peak + 0.04 * moving + 0.1 * LK_GIB;
}

/* Libraries' workspaces: cuBLAS and Transformer Engine keep a few of 32 MiB. */
static const double workspace_bytes = 0.1 * LK_GIB;

/* The device with the least memory among the nodes that hold ranks [first, end). */
static const lk_device *smallest_device(const lk_cluster *cluster, int64_t first, int64_t end) {
	const lk_device *least = NULL;
	int64_t rank = 0;
	for (int g = 0; g < cluster->groups; g++) {
		const lk_device *device = cluster->node[g].device;
		int64_t next = rank + (int64_t)cluster->nodes[g] * cluster->node[g].gpus;
		if (rank < end && next > first && (!least || device->memory_bytes < least->memory_bytes)) least = device;
		rank = next;
	}
	return least ? least : cluster->node[0].device;
}

static lk_status ask_memory(const lk_job *job, const lk_cluster *cluster, lk_step *out, lk_error *err) {
	int64_t chains = out->graph->ranks.chains;
	out->memory = LK_ARRAY(&out->arena, lk_stage_use, job->pp);
	if (!out->memory) return lk_oom(err);
	for (int s = 0; s < job->pp; s++) {
		lk_stage_use *use = &out->memory[s];
		const lk_device *device = smallest_device(cluster, s * chains, (s + 1) * chains);
		out->graph->programs.at[s].resident[LK_OWN_WORKSPACE] = workspace_bytes;
		use->walk = lk_memory_walk(out->graph, (uint32_t)s);
		use->reserved = reserved_bytes(&use->walk);
		use->context = context_bytes(device);
		use->nccl = nccl_bytes(&out->graph->ranks);
		use->total = use->reserved + use->context + use->nccl;
		use->usable = device->memory_bytes;
		const lk_stage_use *fullest = &out->memory[out->fullest];
		if (use->total - use->usable > fullest->total - fullest->usable) out->fullest = s;
	}
	out->usable = out->memory[out->fullest].usable;
	return LK_OK;
}

/* ---- times ---- */

static lk_status choose_records(const lk_step_options *options, const lk_ranks *ranks, lk_step *out, lk_error *err) {
	out->record = LK_ARRAY(&out->arena, uint32_t, ranks->stages + options->record_count);
	if (!out->record) return lk_oom(err);
	for (uint32_t s = 0; s < ranks->stages; s++) out->record[out->record_count++] = s * ranks->chains;
	for (uint32_t i = 0; i < options->record_count; i++) {
		if (options->record[i] >= ranks->world)
			return lk_fail(err, LK_ERR_INPUT, "--trace-ranks", "there is no rank %u; the last is %u",
						   options->record[i], ranks->world - 1);
		bool known = false;
		for (uint32_t k = 0; k < out->record_count; k++) known |= out->record[k] == options->record[i];
		if (!known) out->record[out->record_count++] = options->record[i];
	}
	return LK_OK;
}

static lk_status split_time(lk_step *out, lk_error *err) {
	const lk_sim_events *events = &out->sim.events;
	uint32_t stages = out->graph->ranks.stages;
	size_t begin = 0;
	for (uint32_t r = 0; r < out->record_count; r++) {
		size_t end = begin;
		while (end < events->count && events->at[end].record == r) end++;
		if (r < stages) {
			lk_breakdown one;
			LK_TRY(lk_breakdown_of(lk_step_simulated(out), out->fold, out->graph, events->at + begin, end - begin,
								   out->sim.step_ps, stages > 1, &one, err));
			for (int p = 0; p < LK_PART_COUNT; p++) {
				out->breakdown.exposed_s[p] += one.exposed_s[p] / stages;
				out->breakdown.hidden_s[p] += one.hidden_s[p] / stages;
			}
		}
		begin = end;
	}
	return LK_OK;
}

static double program_flops(const lk_graph *graph, uint32_t stage) {
	double flops = 0;
	const lk_program *program = &graph->programs.at[stage];
	for (size_t c = 0; c < program->calls.count; c++) {
		const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
		double sum = 0;
		for (uint32_t i = block->begin; i < block->end; i++) sum += graph->ops.flops[i];
		flops += sum * program->calls.at[c].repeat;
	}
	return flops;
}

/* A slow rank or noise changes compute but not communication, which a folded run holds both of: such steps are
 * simulated operation by operation, unless noise makes every chain of a very large job its own class. */
static bool folds(const lk_step_options *options, const lk_ranks *ranks) {
	if (options->exact || options->straggler_count > 0) return false;
	return options->jitter <= 0 || ranks->chains > LK_STEP_NOISY_CHAINS;
}

static lk_status ask_times(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options, lk_step *out,
						   lk_error *err) {
	lk_cost_options costing = {
		.constants = options->constants ? options->constants : &lk_default_constants,
		.cuda_graphs = job->cuda_graphs == LK_ON,
		.compiled = job->compile,
	};
	LK_TRY(lk_costs_build(&out->arena, out->graph, cluster, &costing, &out->costs, err));
	LK_TRY(choose_records(options, &out->graph->ranks, out, err));
	if (folds(options, &out->graph->ranks))
		LK_TRY(lk_sim_fold(out->graph, &out->costs, !options->no_contention, &out->fold, err));
	lk_sim_options run = {
		.contention = !options->no_contention,
		.all_ranks = options->all_ranks,
		.jitter = options->jitter,
		.seed = options->seed,
		.stragglers = options->stragglers,
		.straggler_count = options->straggler_count,
		.record = out->record,
		.record_count = out->record_count,
	};
	double start = now_s();
	LK_TRY(lk_sim_run(lk_step_simulated(out), out->fold ? &out->fold->costs : &out->costs, &run, &out->sim, err));
	out->simulation_s = now_s() - start;
	out->step_s = (double)out->sim.step_ps / LK_PS_PER_S;
	for (uint32_t s = 0; s < out->graph->ranks.stages; s++)
		out->executed_flops += program_flops(out->graph, s) * out->graph->ranks.chains;
	return split_time(out, err);
}

lk_status lk_step_ask(const lk_job *job, const lk_cluster *cluster, const lk_step_options *options, lk_step *out,
					  lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(lk_build_graph(job, &out->graph, err));
	if (job->max_connections == 1) LK_TRY(lk_graph_one_queue(out->graph, err));
	LK_TRY(ask_memory(job, cluster, out, err));
	return options->memory_only ? LK_OK : ask_times(job, cluster, options, out, err);
}

void lk_step_free(lk_step *step) {
	if (!step) return;
	lk_sim_result_free(&step->sim);
	lk_fold_free(step->fold);
	lk_graph_free(step->graph);
	lk_arena_free(&step->arena);
	memset(step, 0, sizeof *step);
}
