/* stalls_simulate.c: the loader's model as a step graph, simulated by the common engine.
 *
 * The device fetches batches one after another, the workers prepare them in turn, each as long as
 * one thread needs, and the step uses them. The hidden part of the device's work follows the part
 * that a worker waits for; only the device itself waits for it. A loader that runs concurrently
 * with the step has AHEAD batches per worker in progress or waiting, in addition to the one in use,
 * like PyTorch's DataLoader (prefetch_factor). A loader that the step waits for begins a batch
 * after the step before, and its workers share it. */
#include <math.h>

#include "base/arena.h"
#include "step/traced.h"
#include "stalls/stalls.h"
#include "base/check.h"

enum {
	FIRST_WORKER = 3,
	MOST_WORKERS = LK_STREAMS - FIRST_WORKER,
	AHEAD = 2,
	SETTLING = 64,
	MEASURED = 128
};
enum { STEPS = SETTLING + MEASURED };

struct line_up {
	const lk_stalls_model *m;
	lk_graph *graph;
	uint32_t used[STEPS]; /* the operation that uses a step's batch */
	uint32_t prepared[STEPS];
	uint32_t workers;
};

static int64_t stage_picoseconds(double seconds) {
	LK_ASSERT(seconds >= 0);
	return (int64_t)fmax(1, seconds * 1e12 + 0.5);
}

static uint32_t add_stage_op(struct line_up *line_up, const char *name, unsigned stream,
                             double seconds, uint32_t a, uint32_t b) {
	uint32_t deps[2], count = 0;
	if (a != UINT32_MAX) deps[count++] = a;
	if (b != UINT32_MAX && b != a) deps[count++] = b;
	if (count == 2 && deps[0] > deps[1]) {
		deps[0] = b;
		deps[1] = a;
	}
	lk_op op = {.kind = stream == LK_STREAM_COMPUTE ? LK_OP_ELEMENTWISE : LK_OP_HOST,
	            .stream = (uint8_t)stream,
	            .name = name,
	            .measured_ps = stage_picoseconds(seconds),
	            .deps = deps,
	            .dep_count = count};
	return lk_graph_add(line_up->graph, &op);
}

/* A worker's time for a fetched batch: a fractional number of workers is rounded up to slower
 * workers. */
static double loader_work_s(const struct line_up *line_up, double waited) {
	const lk_stalls_model *model = line_up->m;
	double copying = model->bytes > 0 ? model->bytes / model->memory : 0;
	if (!model->pipelined) return copying + model->preparation / fmax(model->workers, 1);
	return fmax(0, (model->preparation + waited) * line_up->workers / fmax(model->workers, 1e-9) -
	                   waited);
}

static void add_stage_steps(struct line_up *line_up) {
	LK_ASSERT(line_up->workers > 0 && line_up->workers <= MOST_WORKERS);
	const lk_stalls_model *model = line_up->m;
	uint32_t ahead = line_up->workers * AHEAD + 1;
	double mean = lk_stalls_device_s(model),
		   work = loader_work_s(line_up, mean - fmin(model->hidden, mean));
	for (uint32_t s = 0; s < STEPS; s++) {
		const struct lk_stalls_unlike *kind =
			model->kinds ? &model->of[s % (uint32_t)model->kinds] : NULL;
		double device = kind ? mean * kind->device : mean,
			   hidden = fmin(kind ? kind->hidden : model->hidden, device);
		uint32_t room = UINT32_MAX, free = UINT32_MAX;
		if (!model->pipelined && s > 0) room = line_up->used[s - 1];
		if (model->pipelined && s >= ahead) room = line_up->used[s - ahead];
		if (model->pipelined && s >= line_up->workers)
			free = line_up->prepared[s - line_up->workers];
		double rest = kind ? kind->rest : 1;
		uint32_t fetched = add_stage_op(line_up, "fetch", 2, device - hidden, room, free);
		add_stage_op(line_up, "read ahead", 2, hidden, fetched, UINT32_MAX);
		line_up->prepared[s] = add_stage_op(line_up, "prepare", FIRST_WORKER + s % line_up->workers,
		                                    rest * work, fetched, room);
		line_up->used[s] =
			add_stage_op(line_up, "step", LK_STREAM_COMPUTE, rest * lk_stalls_compute_s(model),
		                 line_up->prepared[s], UINT32_MAX);
	}
}

static lk_status build_stage_graph(struct line_up *line_up, lk_error *err) {
	uint32_t block;
	line_up->graph->traced = true;
	line_up->graph->ranks = (lk_ranks){.world = 1, .stages = 1, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++)
		line_up->graph->ranks.group[g].size = line_up->graph->ranks.group[g].stride = 1;
	lk_graph_begin_block(line_up->graph, "steps");
	add_stage_steps(line_up);
	LK_TRY(lk_graph_end_block(line_up->graph, &block, err));
	LK_TRY(lk_graph_set_programs(line_up->graph, 1, 0, err));
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1};
	LK_TRY(lk_graph_call(line_up->graph, 0, &call, err));
	for (uint32_t w = 0; w <= line_up->workers; w++)
		LK_TRY(lk_graph_name_stream(line_up->graph, 0, 2 + w, w ? "worker" : "disk", true, err));
	return lk_graph_check(line_up->graph, err);
}

static lk_status run_stage_graph(struct line_up *line_up, lk_arena *arena, double *step_s,
                                 lk_error *err) {
	static const uint32_t first = 0;
	lk_sim_options options = {.record = &first, .record_count = 1};
	lk_sim_result result;
	lk_costs costs;
	LK_TRY(build_stage_graph(line_up, err));
	LK_TRY(lk_lifted_costs(arena, line_up->graph, &costs, err));
	LK_TRY(lk_sim_run(line_up->graph, &costs, &options, &result, err));
	/* rounds of the workers, inside which batches may come in bunches; or of the kinds of steps */
	uint32_t round = line_up->m->kinds ? (uint32_t)line_up->m->kinds : line_up->workers;
	LK_CHECK(round > 0 && round <= MEASURED, err);
	uint32_t measured = MEASURED / round * round;
	int64_t from = 0, to = 0;
	for (size_t i = 0; i < result.events.count; i++) {
		if (result.events.at[i].op == line_up->used[SETTLING - 1])
			from = result.events.at[i].end_ps;
		if (result.events.at[i].op == line_up->used[SETTLING - 1 + measured])
			to = result.events.at[i].end_ps;
	}
	*step_s = 1e-12 * (double)(to - from) / measured;
	lk_sim_result_free(&result);
	return LK_OK;
}

lk_status lk_stalls_simulate(const lk_stalls_model *model, double *step_s, lk_error *err) {
	struct line_up l = {.m = model, .graph = lk_graph_new()};
	lk_arena arena = LK_ARENA_INIT;
	double workers = model->pipelined ? ceil(model->workers) : 1;
	l.workers = (uint32_t)fmin(fmax(workers, 1), MOST_WORKERS);
	lk_status status = l.graph ? run_stage_graph(&l, &arena, step_s, err) : lk_oom(err);
	lk_graph_free(l.graph);
	lk_arena_free(&arena);
	return status;
}
