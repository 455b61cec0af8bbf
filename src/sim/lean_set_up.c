/* lean_set_up.c: which graphs the lean engine runs, and its tables for one. */
#include <string.h>

#include "sim/lean.h"

/* --- does it suit?
 * ------------------------------------------------------------------------------------------------
 */

/* The stream that a stage uses a group or channel on, 1 + stream; false where there is a second
 * one. */
static bool one_stream(uint8_t *stream, const lk_insn *insn) {
	if (*stream && *stream != insn->stream + 1) return false;
	*stream = (uint8_t)(insn->stream + 1);
	return true;
}

/* A collective of several simulated ranks. */
static bool meets(const lk_sim *sim, const lk_insn *insn) {
	return insn->what == LK_INSN_CROSS ||
	       (insn->what == LK_INSN_GROUP && sim->group[insn->group].groups < sim->lanes);
}

static bool block_suits(const lk_sim *sim, const lk_block *block, uint8_t *group,
                        uint8_t *channel) {
	for (uint32_t op = block->begin; op < block->end; op++) {
		const lk_insn *insn = &sim->insn[op];
		if (insn->what == LK_INSN_TEAM) return false;
		if (insn->what == LK_INSN_P2P && !one_stream(&channel[insn->channel], insn)) return false;
		if (meets(sim, insn) && !one_stream(&group[insn->group], insn)) return false;
	}
	return true;
}

/* Every group and channel is used on one stream of a stage. */
static lk_status one_stream_each(lk_lean *engine, bool *suits, lk_error *err) {
	const lk_sim *sim = engine->sim;
	uint8_t *channel = LK_ARRAY(&engine->arena, uint8_t, sim->graph->channels);
	if (!channel) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages && *suits; s++) {
		const lk_sim_stage *stage = &sim->stage[s];
		uint8_t group[LK_GROUPS] = {0};
		if (sim->graph->channels) memset(channel, 0, sim->graph->channels);
		for (uint32_t i = 0; i < stage->use_count && *suits; i++)
			*suits = block_suits(sim, &sim->graph->blocks.at[stage->uses[i].block], group, channel);
	}
	return LK_OK;
}

/* --- tables
 * -------------------------------------------------------------------------------------------------------
 */

static lk_lean_op code_of(const lk_lean *engine, const lk_lean_rank *rank, uint32_t op) {
	const lk_insn *insn = &engine->insn[op];
	const lk_cost *cost = &rank->costs[op];
	bool kernel = insn->what == LK_INSN_LOCAL && (insn->flags & LK_INSN_MAIN);
	bool quiet = !insn->signal && insn->slot == LK_NO_SLOT && !cost->host_ps && !cost->lead_ps;
	return (lk_lean_op){
		.duration = lk_lean_scaled(rank, insn, cost->duration_ps),
		.host = cost->host_ps,
		.lead = cost->lead_ps,
		.floor = kernel ? lk_lean_scaled(rank, insn, cost->tail_ps) : INT64_MIN / 2,
		.insn = *insn,
		.kernel = kernel,
		.melts = kernel && quiet && (insn->flags & LK_INSN_INSTANT),
	};
}

/* The code of ranks that are like one before is that one's. */
static lk_status set_code(lk_lean *engine, lk_lean_rank *rank, lk_error *err) {
	uint32_t ops = engine->sim->graph->ops.count;
	for (const lk_lean_rank *other = engine->rank; other < rank; other++)
		if (other->variant == rank->variant && other->factor == rank->factor)
			return rank->code = other->code, LK_OK;
	lk_lean_op *code = LK_ARRAY(&engine->arena, lk_lean_op, ops);
	if (!code) return lk_oom(err);
	for (uint32_t op = 0; op < ops; op++) code[op] = code_of(engine, rank, op);
	rank->code = code;
	return LK_OK;
}

static lk_status set_rank(lk_lean *engine, uint32_t number, lk_error *err) {
	const lk_sim *sim = engine->sim;
	lk_lean_rank *rank = &engine->rank[number];
	rank->stage = number / sim->lanes;
	rank->lane = number % sim->lanes;
	const lk_sim_stage *info = &sim->stage[rank->stage];
	const lk_program *program = &sim->graph->programs.at[rank->stage];
	rank->variant = info->variant == LK_MIXED ? info->variants[rank->lane] : info->variant;
	rank->costs = lk_costs_get(sim->costs, rank->variant, 0);
	rank->factor = info->factor ? info->factor[rank->lane] : 1;
	rank->call = program->calls.at;
	rank->calls_end = program->calls.at + program->calls.count;
	rank->unstarted = LK_LEAN_NONE;
	rank->port_place = engine->port_place + (size_t)rank->stage * sim->graph->channels;
	rank->slot = LK_ARRAY(&engine->arena, lk_lean_register, sim->slots);
	rank->event = LK_ARRAY(&engine->arena, lk_lean_register, program->events);
	if (!rank->slot || !rank->event) return lk_oom(err);
	return set_code(engine, rank, err);
}

static bool across(const lk_sim *sim, unsigned kind) {
	return sim->stages > 1 &&
	       (kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING || kind == LK_GROUP_MODEL);
}

/* Places of groups, then of channels; `room` is of all their members. */
static lk_status set_places(lk_lean *engine, lk_error *err) {
	const lk_sim *sim = engine->sim;
	const lk_graph *graph = sim->graph;
	size_t ports = (size_t)sim->stages * graph->channels, count = 0, wired = 0;
	for (unsigned kind = 0; kind < LK_GROUPS; kind++) {
		engine->group_place[kind] = count;
		count += (size_t)sim->group[kind].groups * (across(sim, kind) ? 1 : sim->stages);
	}
	size_t groups = count;
	engine->port_place = LK_ARRAY(&engine->arena, uint32_t, ports);
	if (!engine->port_place) return lk_oom(err);
	for (size_t port = 0; port < ports; port++) {
		lk_wire to = graph->wires.at[port];
		if (to.stage >= sim->stages || to.channel >= graph->channels)
			continue; /* nothing is sent here */
		size_t peer = (size_t)to.stage * graph->channels + to.channel;
		engine->port_place[port] = peer < port ? engine->port_place[peer] : (uint32_t)count;
		if (peer >= port) count += sim->lanes, wired += sim->lanes;
	}
	engine->meeting = LK_ARRAY(&engine->arena, lk_lean_meeting, count);
	engine->member =
		LK_ARRAY(&engine->arena, lk_lean_member, (size_t)engine->ranks * LK_GROUPS + 2 * wired);
	if (!engine->meeting || !engine->member) return lk_oom(err);
	uint32_t first = 0;
	for (unsigned kind = 0; kind < LK_GROUPS; kind++) {
		const lk_lane_groups *g = &sim->group[kind];
		for (uint32_t s = 0; s < (across(sim, kind) ? 1 : sim->stages); s++)
			for (uint32_t i = 0; i < g->groups; i++) {
				engine->meeting[engine->group_place[kind] + s * g->groups + i].first = first;
				first += (g->begin[i + 1] - g->begin[i]) * (across(sim, kind) ? sim->stages : 1);
			}
	}
	for (size_t place = groups; place < count; place++, first += 2)
		engine->meeting[place].first = first, engine->meeting[place].members = 2;
	return LK_OK;
}

static lk_status set_order(lk_lean *engine, lk_error *err) {
	engine->gangs = (engine->ranks + LK_GANG - 1) / LK_GANG;
	engine->key = LK_ARRAY(&engine->arena, int64_t, engine->gangs * LK_GANG);
	engine->least = LK_ARRAY(&engine->arena, int64_t, engine->gangs);
	if (!engine->key || !engine->least) return lk_oom(err);
	for (uint32_t i = 0; i < engine->gangs * LK_GANG; i++) engine->key[i] = LK_NEVER;
	for (uint32_t i = 0; i < engine->gangs; i++) engine->least[i] = LK_NEVER;
	return LK_OK;
}

lk_status lk_lean_set_up(lk_lean *engine, bool *suits, lk_error *err) {
	const lk_sim *sim = engine->sim;
	engine->ranks = sim->stages * sim->lanes;
	*suits = !sim->graph->traced && !lk_sim_jittered(sim) && sim->event_count == 0 &&
	         engine->ranks <= LK_LEAN_RANKS;
	if (*suits) LK_TRY(one_stream_each(engine, suits, err));
	if (!*suits) return LK_OK;
	engine->rank = LK_ARRAY(&engine->arena, lk_lean_rank, engine->ranks);
	engine->rates = LK_ARRAY(&engine->arena, lk_lean_rates, (size_t)1 << LK_LEAN_RATES_LOG2);
	if (!engine->rank || !engine->rates) return lk_oom(err);
	LK_TRY(set_places(engine, err));
	LK_TRY(set_order(engine, err));
	for (uint32_t i = 0; i < engine->ranks; i++) LK_TRY(set_rank(engine, i, err));
	return sim->options->give_up_ps > 0 ? lk_lean_look_ahead(engine, err) : LK_OK;
}
