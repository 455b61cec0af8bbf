/* engine_set_up.c: the engine's tables for one simulation, its run, and its results. */
#include "base/arena.h"
#include "sim/engine.h"

#include <stdlib.h>
#include <string.h>

/* Ranks of a stage have the same program: count for the first of them. */
static lk_status rank_set_flow(lk_engine *engine, lk_rank *rank, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	const lk_program *program = rank->program;
	rank->flow = LK_NEW(&engine->arena, lk_trace_flow);
	if (!rank->flow) return lk_oom(err);
	if (rank->lane) {
		*rank->flow = *rank[-(ptrdiff_t)rank->lane].flow;
		return LK_OK;
	}
	for (size_t c = 0; c < program->calls.count; c++) {
		const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
		for (uint32_t op = block->begin; op < block->end; op++)
			rank->flow->left[graph->ops.stream[op]] += program->calls.at[c].repeat;
	}
	for (unsigned s = 0; s < LK_STREAMS; s++) rank->flow->starved += rank->flow->left[s] > 0;
	return LK_OK;
}

static lk_status rank_set_up(lk_engine *engine, uint32_t number, lk_error *err) {
	const lk_sim *sim = engine->sim;
	lk_rank *rank = &engine->rank[number];
	rank->number = number;
	rank->stage = number / sim->lanes;
	rank->lane = number % sim->lanes;
	rank->info = &sim->stage[rank->stage];
	rank->program = &sim->graph->programs.at[rank->stage];
	rank->variant =
		rank->info->variant == LK_MIXED ? rank->info->variants[rank->lane] : rank->info->variant;
	rank->costs = lk_costs_get(sim->costs, rank->variant, 0);
	rank->noisy = rank->info->factor || lk_sim_jittered(sim);
	if (lk_sim_jittered(sim)) {
		rank->draws = LK_NEW(&engine->arena, lk_jitter_draws);
		if (!rank->draws) return lk_oom(err);
		rank->draws->first = UINT64_MAX; /* nothing is drawn yet */
	}
	rank->call = rank->program->calls.at;
	rank->calls_end = rank->call + rank->program->calls.count;
	rank->kernel.op = UINT32_MAX;
	rank->alone = !sim->graph->traced;
	size_t registers = (size_t)sim->streams + sim->slots + rank->program->events;
	rank->stream = LK_ARRAY(&engine->arena, lk_register, registers);
	rank->on = LK_ARRAY(&engine->arena, lk_act *, sim->streams);
	rank->issued = LK_ARRAY(&engine->arena, uint32_t, LK_GROUPS + (size_t)sim->graph->channels);
	if (!rank->stream || !rank->on || !rank->issued) return lk_oom(err);
	rank->slot = rank->stream + sim->streams;
	rank->event = rank->slot + sim->slots;
	for (uint32_t r = rank->info->record_count; r > 0; r--) {
		if (rank->info->record_lane[r - 1] != rank->lane) continue;
		rank->events = sim->events + rank->info->record_base[r - 1];
		rank->record = rank->info->records[r - 1];
	}
	lk_rank_open_call(engine, rank);
	return sim->graph->traced ? rank_set_flow(engine, rank, err) : LK_OK;
}

static lk_status order_set_up(lk_engine *engine, lk_error *err) {
	size_t nodes = engine->ranks;
	for (;;) {
		LK_ASSERT(engine->levels < LK_ORDER_LEVELS);
		size_t parents = (nodes + LK_FAN - 1) / LK_FAN;
		int64_t *key = LK_ARRAY(&engine->arena, int64_t, parents * LK_FAN);
		if (!key) return lk_oom(err);
		for (size_t i = 0; i < parents * LK_FAN; i++) key[i] = LK_NEVER;
		engine->order[engine->levels++] = key;
		if (nodes <= LK_TOP) break;
		nodes = parents;
	}
	engine->top_nodes = (uint32_t)nodes;
	for (int i = 0; i < 2; i++) {
		engine->due[i] =
			LK_ARRAY(&engine->arena, uint32_t, (size_t)engine->ranks + LK_TOP + LK_FAN);
		if (!engine->due[i]) return lk_oom(err);
	}
	engine->changed = LK_ARRAY(&engine->arena, lk_rank *, engine->ranks);
	engine->issuing = LK_ARRAY(&engine->arena, lk_rank *, engine->ranks);
	engine->again = LK_ARRAY(&engine->arena, lk_rank *, engine->ranks);
	return engine->changed && engine->issuing && engine->again ? LK_OK : lk_oom(err);
}

enum {
	RATES_LEAST = 5, /* powers of two */
	RATES_MOST = 11
};

/* Operations that the programs run, counted up to `most`; pricing a part of a graph runs only few
 * of its operations. */
static uint64_t operations_run(const lk_graph *graph, uint64_t most) {
	uint64_t count = 0;
	for (size_t s = 0; s < graph->programs.count; s++) {
		const lk_program *program = &graph->programs.at[s];
		for (size_t c = 0; c < program->calls.count && count < most; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			count += block->end - block->begin;
		}
	}
	return count < graph->ops.count ? count : graph->ops.count;
}

/* Reserve space for the rates of as many sets as may occur: a few per operation. */
static lk_status rates_set_up(lk_engine *engine, lk_error *err) {
	uint64_t wanted = 4 * operations_run(engine->sim->graph, UINT64_C(1) << RATES_MOST);
	unsigned log2 = RATES_LEAST;
	while (log2 < RATES_MOST && (UINT64_C(1) << log2) < wanted) log2++;
	engine->rates_shift = 64 - log2;
	engine->rates = LK_ARRAY(&engine->arena, lk_rate_entry, (size_t)1 << log2);
	return engine->rates ? LK_OK : lk_oom(err);
}

/* Only folded graphs have folded runs, whose sharing is recorded. */
static lk_status shared_set_up(lk_engine *engine, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	bool folded = false;
	size_t calls = 0;
	for (uint32_t op = 0; op < graph->ops.count && !folded; op++)
		folded = graph->ops.kind[op] == LK_OP_MACRO;
	if (!folded) return LK_OK;
	engine->first_call = LK_ARRAY(&engine->arena, uint32_t, graph->ranks.stages);
	for (uint32_t s = 0; engine->first_call && s < graph->ranks.stages; s++) {
		engine->first_call[s] = (uint32_t)calls;
		calls += graph->programs.at[s].calls.count;
		for (uint32_t u = 0; u < engine->sim->stage[s].use_count; u++) {
			const lk_sim_use *use = &engine->sim->stage[s].uses[u];
			const lk_block *block = &graph->blocks.at[use->block];
			if (block->begin < block->end && graph->ops.kind[block->begin] == LK_OP_MACRO)
				engine->folded_calls += (double)use->times;
		}
	}
	engine->calls = (double)calls;
	engine->shared = calloc(calls + 1, sizeof *engine->shared);
	return engine->first_call && engine->shared ? LK_OK : lk_oom(err);
}

static lk_status engine_set_up(lk_engine *engine, lk_error *err) {
	const lk_sim *sim = engine->sim;
	engine->ranks = sim->stages * sim->lanes;
	engine->rank = LK_ARRAY(&engine->arena, lk_rank, engine->ranks);
	if (!engine->rank) return lk_oom(err);
	LK_TRY(order_set_up(engine, err));
	LK_TRY(rates_set_up(engine, err));
	LK_TRY(lk_venues_set_up(engine, err));
	LK_TRY(shared_set_up(engine, err));
	LK_TRY(lk_strides_set_up(engine, err));
	LK_TRY(lk_gangs_set_up(engine, err));
	for (uint32_t i = 0; i < engine->ranks; i++) LK_TRY(rank_set_up(engine, i, err));
	engine->bounded = sim->options->give_up_ps > 0 && !sim->graph->traced && !lk_sim_jittered(sim);
	return engine->bounded ? lk_bound_set_up(engine, err) : LK_OK;
}

/* ---- errors ---- */

/* The first operation at which a rank waits for others; false: none. */
static bool rank_stuck_at(const lk_engine *engine, const lk_rank *rank, uint32_t *op,
                          const lk_call **call) {
	if (rank->parked) {
		*op = rank->parking[__builtin_ctz(rank->parked)].op;
		*call = rank->parking[__builtin_ctz(rank->parked)].call;
		return true;
	}
	bool found = false;
	for (unsigned s = 0; s < engine->sim->streams; s++) {
		const lk_act *act = rank->on[s];
		if (!act || act->state != LK_ACT_POSTED) continue;
		if (found && (act->call > *call || (act->call == *call && lk_act_op(act) >= *op))) continue;
		*op = lk_act_op(act);
		*call = act->call;
		found = true;
	}
	return found;
}

static lk_status engine_stuck(const lk_engine *engine, lk_error *err) {
	char where[2][120] = {"", ""};
	uint32_t found = 0, op = 0, last = UINT32_MAX;
	const lk_call *call = NULL;
	for (uint32_t i = 0; i < engine->ranks && found < 2; i++) {
		const lk_rank *rank = &engine->rank[i];
		if (rank->stage == last || !rank_stuck_at(engine, rank, &op, &call)) continue;
		last =
			rank->stage; /* one of each stage: the others wait at the same place, or for this one */
		lk_sim_describe_op(engine->sim->graph, rank->stage,
		                   (size_t)(call - rank->program->calls.at), op, where[found++],
		                   sizeof where[0]);
	}
	return lk_sim_deadlock(engine->sim->graph, where[0], where[1], err);
}

/* Check the state of a finished rank. */
static void rank_assert_done(const lk_engine *engine, const lk_rank *rank) {
	for (uint32_t s = 0; s < engine->sim->streams; s++)
		LK_ASSERT(!rank->stream[s].pending && !rank->on[s]);
	for (unsigned s = 0; rank->flow && s < LK_STREAMS; s++)
		LK_ASSERT(!rank->flow->left[s] && !rank->flow->issued[s]);
	LK_ASSERT(rank->ops == rank->info->ops);
	LK_ASSERT(engine->order[0][rank->number] == LK_NEVER);
	(void)engine;
	(void)rank;
}

static bool rank_is_done(const lk_rank *rank) {
	return lk_rank_at_end(rank) && !rank->parked && !rank->others && !rank->live &&
	       !rank->unstarted;
}

static lk_status engine_check(const lk_engine *engine, lk_error *err) {
	if (engine->stopped) return lk_stop_fail(err);
	if (engine->crowded)
		return lk_fail(err, LK_ERR_INPUT, "step graph",
		               "%llu operations wait at the same time: at most %llu are simulated",
		               (unsigned long long)engine->acts, (unsigned long long)LK_MOST_ACTS);
	if (engine->no_memory) return lk_oom(err);
	for (uint32_t i = 0; i < engine->ranks && !engine->gave_up && !engine->left; i++) {
		if (!rank_is_done(&engine->rank[i])) return engine_stuck(engine, err);
		rank_assert_done(engine, &engine->rank[i]);
	}
	for (size_t i = 0; i < engine->venues && !engine->gave_up && !engine->left; i++)
		LK_ASSERT(!engine->venue[i].first.arrived && !engine->venue[i].others);
	return LK_OK;
}

/* ---- results ---- */

/* Recorded ranks of one class share the same events. */
static void engine_share_events(const lk_engine *engine) {
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_rank *rank = &engine->rank[i];
		for (uint32_t r = 0; r < rank->info->record_count; r++) {
			lk_sim_event *to = engine->sim->events + rank->info->record_base[r];
			if (rank->info->record_lane[r] != rank->lane || to == rank->events) continue;
			memcpy(to, rank->events, rank->ops * sizeof *to);
			for (uint64_t k = 0; k < rank->ops; k++) to[k].record = rank->info->records[r];
		}
	}
}

static void engine_fill(const lk_engine *engine, lk_sim_result *out) {
	out->gave_up = engine->gave_up || engine->left;
	if (out->gave_up) {
		out->step_ps = engine->least_end;
		return;
	}
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_rank *rank = &engine->rank[i];
		out->finish_ps[i] = lk_later(rank->finish, rank->host);
		out->operations += rank->ops;
	}
	engine_share_events(engine);
}

lk_status lk_run_engine(const lk_sim *sim, lk_sim_result *out, lk_error *err) {
	lk_engine engine = {
		.sim = sim,
		.blocks = sim->graph->blocks.at,
		.insn = sim->insn,
		.act_chunk = 16,
		.stop = lk_stop_watched(),
	};
	lk_status status = engine_set_up(&engine, err);
	if (status == LK_OK) lk_engine_run(&engine);
	if (status == LK_OK) status = engine_check(&engine, err);
	if (status == LK_OK) engine_fill(&engine, out);
	if (status == LK_OK && engine.some_shared) {
		out->shared = engine.shared;
		out->left = engine.left;
		engine.shared = NULL;
	}
	free(engine.shared);
	lk_arena_free(&engine.arena);
	return status;
}
