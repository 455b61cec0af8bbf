/* stalls_simulate.c: the loader's model as a step graph, run by the engine that runs every other one.
 *
 * Steps are fetched by the device one after another, prepared by the workers in turn, each work as long as one thread needs,
 * and used by the step. What of the device's work is hidden comes behind what a worker waits for, and nothing but the device
 * waits for it. A loader beside the step has AHEAD batches per worker on their way or waiting, beside the
 * one in use, as PyTorch's DataLoader has (prefetch_factor); one that the step waits for begins a batch when the step before is
 * over, and its workers share it. */
#include <math.h>

#include "step/traced.h"
#include "stalls/stalls.h"

enum { FIRST_WORKER = 3, MOST_WORKERS = LK_STREAMS - FIRST_WORKER, AHEAD = 2, SETTLING = 64, MEASURED = 128 };
enum { STEPS = SETTLING + MEASURED };

struct line_up {
	const lk_stalls_model *m;
	lk_graph *graph;
	uint32_t used[STEPS];    /* the operation that uses a step's batch */
	uint32_t prepared[STEPS];
	uint32_t workers;
};

static int64_t picoseconds(double seconds) { return (int64_t)fmax(1, seconds * 1e12 + 0.5); }

static uint32_t add(struct line_up *l, const char *name, unsigned stream, double seconds, uint32_t a, uint32_t b) {
	uint32_t deps[2], count = 0;
	if (a != UINT32_MAX) deps[count++] = a;
	if (b != UINT32_MAX && b != a) deps[count++] = b;
	if (count == 2 && deps[0] > deps[1]) deps[0] = b, deps[1] = a;
	lk_op op = {.kind = stream == LK_STREAM_COMPUTE ? LK_OP_ELEMENTWISE : LK_OP_HOST, .stream = (uint8_t)stream, .name = name,
	            .measured_ps = picoseconds(seconds), .deps = deps, .dep_count = count};
	return lk_graph_add(l->graph, &op);
}

/* A worker's time for a batch behind its fetching: workers that are no whole number are as many that work longer. */
static double work_s(const struct line_up *l, double waited) {
	const lk_stalls_model *m = l->m;
	double copying = m->bytes > 0 ? m->bytes / m->memory : 0;
	if (!m->pipelined) return copying + m->preparation / fmax(m->workers, 1);
	return fmax(0, (m->preparation + waited) * l->workers / fmax(m->workers, 1e-9) - waited);
}

static void add_steps(struct line_up *l) {
	const lk_stalls_model *m = l->m;
	uint32_t ahead = l->workers * AHEAD + 1;
	double mean = lk_stalls_device_s(m), work = work_s(l, mean - fmin(m->hidden, mean));
	for (uint32_t s = 0; s < STEPS; s++) {
		const struct lk_stalls_unlike *kind = m->kinds ? &m->of[s % (uint32_t)m->kinds] : NULL;
		double device = kind ? mean * kind->device : mean, hidden = fmin(kind ? kind->hidden : m->hidden, device);
		uint32_t room = UINT32_MAX, free = UINT32_MAX;
		if (!m->pipelined && s > 0) room = l->used[s - 1];
		if (m->pipelined && s >= ahead) room = l->used[s - ahead];
		if (m->pipelined && s >= l->workers) free = l->prepared[s - l->workers];
		double rest = kind ? kind->rest : 1;
		uint32_t fetched = add(l, "fetch", 2, device - hidden, room, free);
		add(l, "read ahead", 2, hidden, fetched, UINT32_MAX);
		l->prepared[s] = add(l, "prepare", FIRST_WORKER + s % l->workers, rest * work, fetched, room);
		l->used[s] = add(l, "step", LK_STREAM_COMPUTE, rest * lk_stalls_compute_s(m), l->prepared[s], UINT32_MAX);
	}
}

static lk_status build(struct line_up *l, lk_error *err) {
	uint32_t block;
	l->graph->traced = true;
	l->graph->ranks = (lk_ranks){.world = 1, .stages = 1, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++) l->graph->ranks.group[g].size = l->graph->ranks.group[g].stride = 1;
	lk_graph_begin_block(l->graph, "steps");
	add_steps(l);
	LK_TRY(lk_graph_end_block(l->graph, &block, err));
	LK_TRY(lk_graph_set_programs(l->graph, 1, 0, err));
	lk_call call = {.block = block, .repeat = 1, .microbatch = -1, .layer = -1};
	LK_TRY(lk_graph_call(l->graph, 0, &call, err));
	for (uint32_t w = 0; w <= l->workers; w++) LK_TRY(lk_graph_name_stream(l->graph, 0, 2 + w, w ? "worker" : "disk", true, err));
	return lk_graph_check(l->graph, err);
}

static lk_status run(struct line_up *l, lk_arena *arena, double *step_s, lk_error *err) {
	static const uint32_t first = 0;
	lk_sim_options options = {.record = &first, .record_count = 1};
	lk_sim_result result;
	lk_costs costs;
	LK_TRY(build(l, err));
	LK_TRY(lk_lifted_costs(arena, l->graph, &costs, err));
	LK_TRY(lk_sim_run(l->graph, &costs, &options, &result, err));
	/* rounds of the workers, inside which batches may come in a bunch; or of the kinds of steps */
	uint32_t round = l->m->kinds ? (uint32_t)l->m->kinds : l->workers, measured = MEASURED / round * round;
	int64_t from = 0, to = 0;
	for (size_t i = 0; i < result.events.count; i++) {
		if (result.events.at[i].op == l->used[SETTLING - 1]) from = result.events.at[i].end_ps;
		if (result.events.at[i].op == l->used[SETTLING - 1 + measured]) to = result.events.at[i].end_ps;
	}
	*step_s = 1e-12 * (double)(to - from) / measured;
	lk_sim_result_free(&result);
	return LK_OK;
}

lk_status lk_stalls_simulate(const lk_stalls_model *m, double *step_s, lk_error *err) {
	struct line_up l = {.m = m, .graph = lk_graph_new()};
	lk_arena arena = LK_ARENA_INIT;
	double workers = m->pipelined ? ceil(m->workers) : 1;
	l.workers = workers < 1 ? 1 : workers > MOST_WORKERS ? MOST_WORKERS : (uint32_t)workers;
	lk_status status = l.graph ? run(&l, &arena, step_s, err) : lk_oom(err);
	lk_graph_free(l.graph);
	lk_arena_free(&arena);
	return status;
}
