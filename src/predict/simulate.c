/* simulate.c: read a step graph from its file form, price it, simulate it operation by operation,
 * and list what ran. */
#include "base/check.h"
#include "base/arena.h"
#include "predict/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "step/traced.h"
#include "step/step.h"
#include "whatif/whatif.h"
#include "base/units.h"
#include "sim/memory/memory.h"

typedef struct lk_simulated {
	lk_simulation s;
	lk_arena arena;
	lk_step step;
	lk_cluster cluster; /* gpus 0: none */
	lk_calibration_hold calibration;
} simulated;

const lk_step *lk_simulation_step(const lk_simulation *simulation) {
	return &((const simulated *)simulation->memory_owner)->step;
}

/* ---- the graph ---- */

static lk_status simulate_read_graph(const lk_simulate_request *request, lk_graph **out,
                                     lk_error *err) {
	if (request->graph && request->text)
		return lk_fail(err, LK_ERR_INPUT, "graph", "a file and a text are mutually exclusive");
	if (request->graph) return lk_graph_read(request->graph, out, err);
	if (!request->text) {
		lk_fail(err, LK_ERR_INPUT, "simulate", "no graph was given");
		return lk_hint(err, "give a file as `lockstep predict --graph FILE` writes it");
	}
	lk_stream *in;
	LK_TRY(lk_stream_memory(request->text, request->text_size, "graph", &in, err));
	lk_status status = lk_graph_read_stream(in, out, err);
	lk_stream_close(in);
	return status;
}

/* Every operation of a program is kept as a span; a few bytes can request any number of them. */
static lk_status simulate_check_length(const lk_graph *graph, lk_error *err) {
	const double most = 1e7;
	double ops = lk_graph_length(graph);
	if (ops <= most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "graph",
	        "its programs run %.3g operations: at most %.0e are simulated", ops, most);
	return lk_hint(err, "give fewer repetitions");
}

/* ---- prices ---- */

static lk_status simulate_read_cluster(simulated *a, const lk_simulate_request *request,
                                       lk_error *err) {
	const lk_graph *graph = a->step.graph;
	const lk_ranks *ranks = &graph->ranks;
	const char *origin = graph->cluster ? lk_intern_text(graph->names, graph->cluster) : NULL;
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .origin = origin,
	                  .ranks = ranks->world,
	                  .needed = ranks->world};
	LK_TRY(lk_request_check_stack(request->stack, err));
	LK_TRY(lk_request_check_release(request->release, err));
	if (!request->cluster && !request->gpu && !origin) return LK_OK; /* durations of the graph */
	return lk_where_read(&a->arena, &where, &a->cluster, NULL, err);
}

/* Waits take no time by themselves; everything else must state its time. */
static lk_status simulate_check_times(const lk_graph *graph, lk_error *err) {
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		for (uint32_t i = block->begin; i < block->end; i++) {
			unsigned kind = graph->ops.kind[i];
			if (graph->ops.measured_ps[i] > 0 || kind == LK_OP_WAIT || kind == LK_OP_HOST) continue;
			char where[160];
			snprintf(where, sizeof where, "block '%.64s', operation %u '%.64s'",
			         lk_intern_text(graph->names, block->name), i - block->begin,
			         lk_intern_text(graph->names, graph->ops.name[i]));
			lk_fail(err, LK_ERR_INPUT, where,
			        "it has no duration, and no hardware is named to reckon one from");
			return lk_hint(err, "give its time, or name a GPU or a cluster");
		}
	}
	return LK_OK;
}

static lk_status simulate_price(simulated *a, const lk_simulate_request *request, lk_error *err) {
	lk_constants constants;
	lk_cost_options options;
	const lk_graph *graph = a->step.graph;
	if (!a->cluster.gpus) {
		LK_TRY(simulate_check_times(graph, err));
		return lk_lifted_costs(&a->arena, graph, &a->step.costs, err);
	}
	lk_profile_of_graph(graph, request->stack, request->release, (lk_dtype)graph->peak_dtype,
	                    &constants, &options);
	options.cuda_graphs |= request->cuda_graphs;
	options.compiled |= request->compile;
	return lk_costs_build(&a->arena, graph, &a->cluster, &options, &a->step.costs, err);
}

static const lk_cost *simulate_cost_of(const lk_step *step, size_t program, uint32_t op) {
	return lk_costs_get(&step->costs,
	                    lk_whatif_variant(step->graph, &step->costs, (uint32_t)program), op);
}

/* Times are 64-bit picoseconds: even the sum of all operations must stay within them. */
static lk_status check_durations(const lk_step *step, lk_error *err) {
	const double most_s = 4e6;
	const lk_graph *graph = step->graph;
	double seconds = 0;
	for (size_t p = 0; p < graph->programs.count; p++) {
		const lk_program *program = &graph->programs.at[p];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			double once = 0;
			for (uint32_t i = block->begin; i < block->end; i++) {
				const lk_cost *cost = simulate_cost_of(step, p, i);
				once += (double)cost->duration_ps + (double)cost->host_ps;
			}
			seconds += once * program->calls.at[c].repeat / LK_PS_PER_S;
		}
	}
	if (seconds <= most_s) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "graph",
	        "its operations take %.3g s one after the other: at most %.0e s are simulated", seconds,
	        most_s);
	return lk_hint(err, "are their times in picoseconds?");
}

/* ---- results ---- */

static lk_status list_operations(simulated *a, lk_error *err) {
	const lk_graph *graph = a->step.graph;
	lk_simulated_operation *ops = LK_ARRAY(&a->arena, lk_simulated_operation, graph->ops.count);
	if (!ops) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++)
		for (uint32_t i = graph->blocks.at[b].begin; i < graph->blocks.at[b].end; i++)
			ops[i] = (lk_simulated_operation){
				.block = lk_intern_text(graph->names, graph->blocks.at[b].name),
				.name = lk_intern_text(graph->names, graph->ops.name[i]),
				.kind = lk_op_kind_name((lk_op_kind)graph->ops.kind[i]),
				.stream = lk_stream_label(graph->ops.stream[i]),
				.duration_s = NAN,
			};
	for (size_t p = graph->programs.count; p-- > 0;) {
		const lk_program *program = &graph->programs.at[p];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			for (uint32_t i = block->begin; i < block->end; i++) {
				ops[i].stream = lk_graph_stream(graph, (uint32_t)p, graph->ops.stream[i]);
				ops[i].duration_s =
					(double)simulate_cost_of(&a->step, p, i)->duration_ps / LK_PS_PER_S;
			}
		}
	}
	a->s.operations = ops;
	a->s.operation_count = graph->ops.count;
	return LK_OK;
}

static lk_status list_spans(simulated *a, lk_error *err) {
	const lk_sim_events *events = &a->step.sim.events;
	lk_simulated_span *spans = LK_ARRAY(&a->arena, lk_simulated_span, events->count);
	if (!spans) return lk_oom(err);
	for (size_t i = 0; i < events->count; i++) {
		const lk_sim_event *event = &events->at[i];
		spans[i] = (lk_simulated_span){
			.rank = (int)a->step.record[event->record],
			.call = event->call,
			.repetition = event->repetition,
			.operation = event->op,
			.ready_s = (double)event->ready_ps / LK_PS_PER_S,
			.start_s = (double)event->start_ps / LK_PS_PER_S,
			.end_s = (double)event->end_ps / LK_PS_PER_S,
		};
	}
	a->s.spans = spans;
	a->s.span_count = events->count;
	return LK_OK;
}

static lk_status list_programs(simulated *a, lk_error *err) {
	const lk_graph *graph = a->step.graph;
	const lk_sim_result *sim = &a->step.sim;
	lk_simulated_program *programs =
		LK_ARRAY(&a->arena, lk_simulated_program, graph->programs.count);
	if (!programs) return lk_oom(err);
	for (uint32_t p = 0; p < graph->programs.count; p++) {
		size_t count; /* the first of each program are recorded first */
		const lk_sim_event *first = lk_sim_events_of(&sim->events, p, &count);
		double split[3] = {0};
		LK_TRY(lk_whatif_split(graph, first, count, split, err));
		programs[p] = (lk_simulated_program){
			.name = lk_intern_text(graph->names, graph->programs.at[p].name),
			.rank = (int)lk_rank_of(graph, p, 0),
			.finish_s =
				(double)sim->finish_ps[(size_t)p * sim->lanes + sim->lane_of[0]] / LK_PS_PER_S,
			.peak_bytes = lk_memory_walk(graph, p).peak,
			.compute_s = split[0],
			.exposed_s = split[1],
			.hidden_s = split[2],
		};
	}
	a->s.programs = programs;
	a->s.program_count = (int)graph->programs.count;
	return LK_OK;
}

static lk_status simulate_fill(simulated *a, lk_error *err) {
	a->s.step_s = a->step.step_s;
	a->s.ran = a->step.sim.operations;
	a->s.ranks = (int)a->step.graph->ranks.world;
	a->s.ranks_simulated = (int)(a->step.sim.lanes * a->step.graph->ranks.stages);
	a->s.cluster = a->cluster.gpus ? a->cluster.text : NULL;
	LK_TRY(list_operations(a, err));
	LK_TRY(list_programs(a, err));
	return list_spans(a, err);
}

/* ---- the whole ---- */

/* A user's graph with a deadlock is a mistake; in one of our own graphs it would be a bug. */
static lk_status predict_simulate_run(simulated *a, const lk_step_options *options, lk_error *err) {
	lk_error why = {0};
	lk_status status = lk_step_simulate(options, &a->step, &why);
	if (status == LK_ERR_INTERNAL) status = why.status = LK_ERR_INPUT;
	if (status != LK_OK) lk_fail_as(err, &why);
	if (status != LK_OK || !a->step.graph->traced) return status;
	a->step.sim.step_ps =
		lk_traced_step_ps(a->step.graph, &a->step.sim.events, a->step.sim.step_ps);
	a->step.step_s = (double)a->step.sim.step_ps / LK_PS_PER_S;
	return LK_OK;
}

static lk_status simulate_read_options(simulated *a, const lk_simulate_request *request,
                                       lk_step_options *out, lk_error *err) {
	uint32_t world = a->step.graph->ranks.world;
	*out = (lk_step_options){
		.exact = true,
		.all_ranks = request->all_ranks,
		.jitter = request->jitter,
		.gpu_spread = request->gpu_spread,
		.seed = (uint64_t)request->seed,
		.no_contention = request->no_contention || !a->cluster.gpus || a->step.graph->traced,
	};
	LK_TRY(lk_read_stragglers(&a->arena, request->straggler, out, err));
	for (uint32_t i = 0; i < out->straggler_count; i++)
		if (out->stragglers[i].rank >= world)
			return lk_fail(err, LK_ERR_INPUT, "--straggler", "there is no rank %u; the last is %u",
			               out->stragglers[i].rank, world - 1);
	LK_TRY(lk_read_ranks(&a->arena, request->ranks, "--ranks", out, err));
	for (uint32_t i = 0; i < out->record_count; i++)
		if (out->record[i] >= world)
			return lk_fail(err, LK_ERR_INPUT, "--ranks", "there is no rank %u; the last is %u",
			               out->record[i], world - 1);
	return LK_OK;
}

static lk_status predict_simulate(const lk_simulate_request *request, simulated *a, lk_error *err) {
	lk_step_options options;
	LK_TRY(simulate_read_graph(request, &a->step.graph, err));
	LK_TRY(simulate_check_length(a->step.graph, err));
	LK_TRY(simulate_read_cluster(a, request, err));
	LK_TRY(simulate_read_options(a, request, &options, err));
	LK_TRY(simulate_price(a, request, err));
	LK_TRY(check_durations(&a->step, err));
	LK_TRY(predict_simulate_run(a, &options, err));
	return simulate_fill(a, err);
}

/* Views index by these. */
static lk_status simulation_check_places(const lk_simulation *simulation, lk_error *err) {
	for (size_t i = 0; i < simulation->span_count; i++)
		LK_CHECK(simulation->spans[i].operation < simulation->operation_count, err);
	return LK_OK;
}

/* An answer that contradicts itself is a defect of lockstep. */
static const char *simulation_check(const lk_simulation *simulation) {
	double step = simulation->step_s * (1 + 1e-9);
	LK_HOLDS(isfinite(step) && step >= 0);
	LK_HOLDS(simulation->ranks_simulated <= simulation->ranks);
	for (int i = 0; i < simulation->program_count; i++) {
		const lk_simulated_program *program = &simulation->programs[i];
		LK_HOLDS(program->finish_s >= 0 && program->finish_s <= step);
		LK_HOLDS(program->compute_s + program->exposed_s <= step + 1e-12);
		LK_HOLDS(program->peak_bytes >= 0 && program->hidden_s >= 0);
	}
	for (size_t i = 0; i < simulation->span_count; i++) {
		const lk_simulated_span *span = &simulation->spans[i];
		LK_HOLDS(span->start_s <= span->end_s && span->end_s <= step);
	}
	return NULL;
}

lk_status lk_simulate(const lk_simulate_request *request, lk_simulation **out, lk_error *err) {
	*out = NULL;
	simulated *a = calloc(1, sizeof *a);
	if (!a) return lk_oom(err);
	a->s.memory_owner = a;
	lk_status status = lk_calibration_begin(&a->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = lk_cost_ready(err);
		if (status == LK_OK) status = predict_simulate(request, a, err);
		lk_calibration_leave(&a->calibration);
	}
	if (status == LK_OK) status = simulation_check_places(&a->s, err);
	if (status == LK_OK) a->s.failed_check = lk_failed_check(simulation_check(&a->s));
	if (status == LK_OK) *out = &a->s;
	else lk_simulate_free(&a->s);
	return status;
}

void lk_simulate_free(lk_simulation *simulation) {
	if (!simulation) return;
	simulated *a = simulation->memory_owner;
	lk_step_free(&a->step);
	lk_calibration_release(&a->calibration);
	lk_arena_free(&a->arena);
	free(a);
}
