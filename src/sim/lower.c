/* lower.c: a step graph to instructions. Dependencies between operations of a block become slots
 * (registers), found by a linear scan: only an operation that a later one needs gets a slot, and a
 * slot is free again after its last use. Dependencies implied by the order of streams are left out.
 *
 * Everything that an engine indexes with is checked here, so that a graph from a file cannot lead
 * it astray. */
#include "base/arena.h"
#include "sim/sim_internal.h"
#include "base/check.h"

#include <math.h>
#include <stdio.h>

/* 46 days in picoseconds: sums below it stay far from the end of int64_t. */
#define MOST_PS      4e18
#define EVERY_STREAM (LK_JOIN(LK_STREAMS) - 1)

static lk_status lower_refuse(const lk_graph *graph, uint32_t op, const char *what, lk_error *err) {
	LK_ASSERT(op < graph->ops.count);
	const char *name = lk_intern_text(graph->names, graph->ops.name[op]);
	return lk_fail(err, LK_ERR_INPUT, "step graph", "operation %u (%s) %s", op, name ? name : "?",
	               what);
}

static uint8_t insn_class_of(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	unsigned kind = graph->ops.kind[op], group = graph->ops.group[op];
	if (lk_op_is_comm(kind) && group == LK_GROUP_TEAM) return LK_INSN_TEAM;
	if (kind == LK_OP_SEND || kind == LK_OP_RECV) return LK_INSN_P2P;
	if (lk_op_is_collective(kind)) {
		bool across =
			group == LK_GROUP_PP || group == LK_GROUP_EMBEDDING || group == LK_GROUP_MODEL;
		return across && graph->ranks.stages > 1 ? LK_INSN_CROSS : LK_INSN_GROUP;
	}
	return graph->ops.stream[op] == LK_STREAM_HOST && !graph->traced ? LK_INSN_HOST : LK_INSN_LOCAL;
}

/* In lifted traces every stream is an ordinary queue; launches are operations and dependencies. A
 * rank's factor and jitter apply to everything but communication and copies. */
static void insn_set_traced(const lk_graph *graph, uint32_t op, lk_insn *out) {
	LK_ASSERT(op < graph->ops.count);
	unsigned kind = graph->ops.kind[op];
	out->join = (graph->ops.join[op] | LK_JOIN(out->stream)) & EVERY_STREAM;
	if (!lk_op_is_comm(kind) && kind != LK_OP_COPY) out->flags |= LK_INSN_SCALED;
}

static void insn_set_issued(const lk_graph *graph, uint32_t op, lk_insn *out) {
	LK_ASSERT(op < graph->ops.count);
	bool host = out->stream == LK_STREAM_HOST, compute = out->stream == LK_STREAM_COMPUTE;
	out->join =
		(graph->ops.join[op] | LK_JOIN(out->stream)) & EVERY_STREAM & ~LK_JOIN(LK_STREAM_HOST);
	if (!host && !(out->join & LK_JOIN(LK_STREAM_COMPUTE))) out->flags |= LK_INSN_ISSUED;
	if ((host || compute) && !lk_op_is_comm(graph->ops.kind[op])) out->flags |= LK_INSN_SCALED;
	if (compute) out->flags |= LK_INSN_MAIN;
}

static lk_status insn_set(const lk_graph *graph, uint32_t op, lk_insn *out, lk_error *err) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	unsigned kind = ops->kind[op], stream = ops->stream[op];
	if (kind >= LK_OP_COUNT) return lower_refuse(graph, op, "has an unknown kind", err);
	if (stream >= LK_STREAMS)
		return lower_refuse(graph, op, "is on a stream that does not exist", err);
	if (ops->group[op] >= LK_GROUPS)
		return lower_refuse(graph, op, "has an unknown process group", err);
	if (ops->wait[op] > 2 || ops->signal[op] > 2)
		return lower_refuse(graph, op, "uses an argument that calls do not have", err);
	if (lk_op_is_comm(kind) && stream == LK_STREAM_HOST && !graph->traced)
		return lower_refuse(graph, op, "communicates on the host stream", err);
	*out = (lk_insn){
		.slot = LK_NO_SLOT,
		.what = insn_class_of(graph, op),
		.stream = (uint8_t)stream,
		.group = ops->group[op],
		.wait = ops->wait[op],
		.signal = ops->signal[op],
		.channel = ops->channel[op],
	};
	if (out->what == LK_INSN_P2P && (out->channel < 0 || (uint32_t)out->channel >= graph->channels))
		return lower_refuse(graph, op, "uses a channel that does not exist", err);
	if (graph->traced) insn_set_traced(graph, op, out);
	else insn_set_issued(graph, op, out);
	if (lk_op_is_comm(kind)) out->flags |= LK_INSN_COMM;
	if (kind == LK_OP_WAIT) out->flags |= LK_INSN_INSTANT;
	return LK_OK;
}

/* Whether the order of streams, a join or the host thread makes `before` end before `insn`
 * begins. */
static bool insn_order_is_implied(const lk_insn *before, const lk_insn *insn) {
	return before->what == LK_INSN_HOST || (insn->join >> before->stream & 1);
}

typedef struct lk_slot_scan {
	lk_sim *sim;
	uint32_t *last;  /* [ops] place of the last operation that needs this one, 0: none */
	uint16_t *spare; /* free slots */
	uint32_t spares, dep_count;
} lk_slot_scan;

static lk_status slots_find_uses(lk_slot_scan *scan, const lk_block *block, lk_error *err) {
	const lk_ops *ops = &scan->sim->graph->ops;
	for (uint32_t op = block->begin; op < block->end; op++) {
		for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
			if (ops->deps[d] >= op - block->begin)
				return lower_refuse(scan->sim->graph, op, "depends on a later operation", err);
			uint32_t before = block->begin + ops->deps[d];
			if (!insn_order_is_implied(&scan->sim->insn[before], &scan->sim->insn[op]))
				scan->last[before] = op;
		}
	}
	return LK_OK;
}

/* Write the slots that `op` waits for, then free those that nothing needs after it. */
static lk_status slots_take_deps(lk_slot_scan *scan, const lk_block *block, uint32_t op,
                                 lk_error *err) {
	const lk_ops *ops = &scan->sim->graph->ops;
	lk_insn *insn = &scan->sim->insn[op];
	insn->dep_begin = scan->dep_count;
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
		const lk_insn *before = &scan->sim->insn[block->begin + ops->deps[d]];
		if (!insn_order_is_implied(before, insn)) scan->sim->deps[scan->dep_count++] = before->slot;
	}
	if (scan->dep_count - insn->dep_begin >= UINT16_MAX)
		return lower_refuse(scan->sim->graph, op, "has too many dependencies", err);
	insn->dep_count = (uint16_t)(scan->dep_count - insn->dep_begin);
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
		uint32_t before = block->begin + ops->deps[d];
		if (scan->last[before] != op) continue;
		scan->last[before] = 0; /* listed twice, freed once */
		scan->spare[scan->spares++] = scan->sim->insn[before].slot;
	}
	if (insn->dep_count || insn->wait) insn->flags |= LK_INSN_EXTRA;
	return LK_OK;
}

static lk_status slots_set_block(lk_slot_scan *scan, const lk_block *block, lk_error *err) {
	uint32_t used = 0;
	scan->spares = 0;
	LK_TRY(slots_find_uses(scan, block, err));
	for (uint32_t op = block->begin; op < block->end; op++) {
		LK_TRY(slots_take_deps(scan, block, op, err));
		if (!scan->last[op]) continue;
		if (!scan->spares && used >= LK_NO_SLOT)
			return lower_refuse(scan->sim->graph, op, "is one dependency too many for its block",
			                    err);
		scan->sim->insn[op].slot = scan->spares ? scan->spare[--scan->spares] : (uint16_t)used++;
	}
	if (used > scan->sim->slots) scan->sim->slots = used;
	return LK_OK;
}

/* Find the blocks that programs call, how often and with which arguments: calls are traversed only
 * here. */
static lk_status stage_find_uses(lk_sim *sim, uint32_t s, uint32_t *seen, uint32_t *place,
                                 lk_error *err) {
	const lk_graph *graph = sim->graph;
	const lk_program *program = &graph->programs.at[s];
	lk_sim_stage *stage = &sim->stage[s];
	size_t most =
		program->calls.count < graph->blocks.count ? program->calls.count : graph->blocks.count;
	stage->uses = LK_ARRAY(sim->arena, lk_sim_use, most);
	if (!stage->uses) return lk_oom(err);
	for (size_t cost = 0; cost < program->calls.count; cost++) {
		const lk_call *call = &program->calls.at[cost];
		if (call->block >= graph->blocks.count)
			return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u, call %zu: no block %u", s,
			               cost, call->block);
		if (seen[call->block] != s + 1) {
			seen[call->block] = s + 1;
			place[call->block] = stage->use_count;
			stage->uses[stage->use_count++].block = call->block;
		}
		lk_sim_use *use = &stage->uses[place[call->block]];
		use->times += call->repeat;
		for (int a = 0; a < 2; a++)
			if (call->arg[a] > use->most_arg[a]) use->most_arg[a] = call->arg[a];
	}
	return LK_OK;
}

/* *called: for each block, whether any program calls it. */
static lk_status sim_find_uses(lk_sim *sim, uint32_t **called, lk_error *err) {
	uint32_t *place = LK_ARRAY(sim->arena, uint32_t, sim->graph->blocks.count);
	*called =
		LK_ARRAY(sim->arena, uint32_t, sim->graph->blocks.count); /* 1 + the last stage that did */
	if (!*called || !place) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++) LK_TRY(stage_find_uses(sim, s, *called, place, err));
	return LK_OK;
}

/* Check every index that engines use, for all instructions of a block. */
static void block_assert(const lk_sim *sim, const lk_block *block) {
	for (uint32_t op = block->begin; op < block->end; op++) {
		const lk_insn *insn = &sim->insn[op];
		LK_ASSERT(insn->stream < sim->streams && sim->streams <= LK_STREAMS &&
		          !(insn->join >> sim->streams));
		LK_ASSERT(insn->what == LK_INSN_HOST || (insn->join >> insn->stream & 1));
		LK_ASSERT(insn->slot == LK_NO_SLOT || insn->slot < sim->slots);
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
			LK_ASSERT(sim->deps[d] < sim->slots);
		LK_ASSERT(!(insn->dep_count || insn->wait) == !(insn->flags & LK_INSN_EXTRA));
		(void)insn;
	}
}

static lk_status sim_lower_blocks(lk_sim *sim, const uint32_t *called, lk_error *err) {
	const lk_graph *graph = sim->graph;
	uint32_t n = graph->ops.count;
	sim->insn = LK_ARRAY(sim->arena, lk_insn, n);
	sim->deps = LK_ARRAY(sim->arena, uint16_t, n ? graph->ops.dep_begin[n] : 0);
	lk_slot_scan scan = {.sim = sim,
	                     .last = LK_ARRAY(sim->arena, uint32_t, n),
	                     .spare = LK_ARRAY(sim->arena, uint16_t, n)};
	if (!sim->insn || !sim->deps || !scan.last || !scan.spare) return lk_oom(err);
	uint32_t begin = 0;
	sim->streams = LK_STREAM_COMPUTE + 1;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		if (block->begin < begin || block->begin > block->end || block->end > n)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "block %zu has operations of another or none", b);
		begin = block->end;
		if (!called[b]) continue;
		for (uint32_t op = block->begin; op < block->end; op++) {
			lk_insn *insn = &sim->insn[op];
			LK_TRY(insn_set(graph, op, insn, err));
			uint32_t streams = 32 - (uint32_t)__builtin_clz(insn->join | 1u << insn->stream);
			if (streams > sim->streams) sim->streams = streams;
			if (insn->what == LK_INSN_GROUP || insn->what == LK_INSN_CROSS)
				sim->kinds_used |= 1u << insn->group;
		}
		LK_TRY(slots_set_block(&scan, block, err));
		block_assert(sim, block);
	}
	return LK_OK;
}

/* Which of their calls' arguments the operations of a block use, as two bits. */
static unsigned block_args_used(const lk_sim *sim, const lk_block *block) {
	unsigned used = 0;
	for (uint32_t op = block->begin; op < block->end; op++) {
		if (sim->insn[op].wait) used |= 1u << (sim->insn[op].wait - 1);
		if (sim->insn[op].signal) used |= 1u << (sim->insn[op].signal - 1);
	}
	return used;
}

static lk_status stage_refuse_event(const lk_sim *sim, uint32_t s, uint32_t block, int a,
                                    lk_error *err) {
	LK_ASSERT(block < sim->graph->blocks.count);
	const lk_program *program = &sim->graph->programs.at[s];
	size_t cost = 0;
	while (program->calls.at[cost].block != block ||
	       program->calls.at[cost].arg[a] < program->events)
		cost++;
	return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u, call %zu: no event %u", s, cost,
	               program->calls.at[cost].arg[a]);
}

static lk_status sim_check_programs(lk_sim *sim, lk_error *err) {
	for (uint32_t s = 0; s < sim->stages; s++) {
		lk_sim_stage *stage = &sim->stage[s];
		double ops = 0;
		for (uint32_t i = 0; i < stage->use_count; i++) {
			const lk_sim_use *use = &stage->uses[i];
			const lk_block *block = &sim->graph->blocks.at[use->block];
			unsigned used = block_args_used(sim, block);
			for (int a = 0; a < 2; a++)
				if ((used >> a & 1) && use->most_arg[a] >= sim->graph->programs.at[s].events)
					return stage_refuse_event(sim, s, use->block, a, err);
			stage->ops += use->times * (block->end - block->begin);
			ops += (double)use->times * (double)(block->end - block->begin);
		}
		if (ops > 1e15)
			return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u runs %.3g operations", s,
			               ops);
	}
	return LK_OK;
}

static lk_status sim_check_wire(const lk_sim *sim, uint32_t s, uint32_t a, lk_error *err) {
	const lk_graph *graph = sim->graph;
	lk_wire to = graph->wires.at[(size_t)s * graph->channels + a], back = {0};
	bool there = to.stage < sim->stages && to.channel < graph->channels;
	if (there) back = graph->wires.at[(size_t)to.stage * graph->channels + to.channel];
	if (there && back.stage == s && back.channel == a && !(to.stage == s && to.channel == a))
		return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "step graph", "channel %u of stage %u is not wired both ways",
	               a, s);
}

static lk_status sim_check_partners(const lk_sim *sim, uint32_t s, uint32_t op, lk_error *err) {
	LK_ASSERT(op < sim->graph->ops.count);
	const lk_insn *insn = &sim->insn[op];
	if (insn->what == LK_INSN_P2P) return sim_check_wire(sim, s, (uint32_t)insn->channel, err);
	if (insn->what != LK_INSN_TEAM) return LK_OK;
	const lk_graph *graph = sim->graph;
	if (insn->channel < 0 || (uint32_t)insn->channel >= graph->teams.count)
		return lower_refuse(graph, op, "is of a team that does not exist", err);
	bool member = lk_team_member(graph, &graph->teams.at[insn->channel], s) != UINT32_MAX;
	return member
	           ? LK_OK
	           : lower_refuse(graph, op, "is of a team of which its program is not a member", err);
}

/* Check that members are stages, in order. */
static lk_status sim_check_teams(const lk_sim *sim, lk_error *err) {
	const lk_graph *graph = sim->graph;
	for (size_t t = 0; t < graph->teams.count; t++) {
		const lk_team *team = &graph->teams.at[t];
		bool fine = team->begin < team->end && team->end <= graph->team_stages.count;
		for (uint32_t i = team->begin; fine && i < team->end; i++) {
			uint32_t stage = graph->team_stages.at[i];
			fine =
				stage < sim->stages && (i == team->begin || graph->team_stages.at[i - 1] < stage);
		}
		if (!fine)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "the members of team %zu are no list of stages", t);
	}
	return LK_OK;
}

/* Check that every used channel leads to a channel that leads back, and that operations of a team
 * belong to its members. */
static lk_status sim_check_rendezvous(const lk_sim *sim, lk_error *err) {
	const lk_graph *graph = sim->graph;
	if (graph->wires.count != (size_t)sim->stages * graph->channels)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu wires for %u stages of %u channels",
		               graph->wires.count, sim->stages, graph->channels);
	for (uint32_t s = 0; s < sim->stages; s++) {
		for (uint32_t i = 0; i < sim->stage[s].use_count; i++) {
			const lk_block *block = &graph->blocks.at[sim->stage[s].uses[i].block];
			for (uint32_t op = block->begin; op < block->end; op++)
				LK_TRY(sim_check_partners(sim, s, op, err));
		}
	}
	return LK_OK;
}

/* The longest path visits each operation of a stage's program at most once, so the sum of
 * everything bounds every time. */
static lk_status sim_sum_work(lk_sim *sim, const uint32_t *called, lk_error *err) {
	const lk_graph *graph = sim->graph;
	double *sum = LK_ARRAY(sim->arena, double, graph->blocks.count);
	if (!sum) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++) {
		for (uint32_t op = graph->blocks.at[b].begin; called[b] && op < graph->blocks.at[b].end;
		     op++) {
			double most = 0;
			for (uint32_t v = 0; v < sim->costs->variants; v++) {
				const lk_cost *cost = lk_costs_get(sim->costs, v, op);
				if (cost->duration_ps < 0 || cost->host_ps < 0 || cost->lead_ps < 0 ||
				    cost->tail_ps < 0)
					return lower_refuse(graph, op, "takes negative time", err);
				double work = fmax((double)cost->duration_ps, (double)cost->tail_ps);
				most = fmax(most, work + (double)cost->host_ps + (double)cost->lead_ps);
			}
			sum[b] += most;
		}
	}
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t i = 0; i < sim->stage[s].use_count; i++)
			sim->work_ps += sum[sim->stage[s].uses[i].block] * (double)sim->stage[s].uses[i].times;
	return LK_OK;
}

lk_status lk_sim_check_time(const lk_sim *sim, lk_error *err) {
	double factor = 1; /* a rank named several times is slowed by the product */
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t i = 0; sim->stage[s].factor && i < sim->lanes; i++)
			factor = fmax(factor, sim->stage[s].factor[i]);
	factor *= exp(4 * sim->options->jitter) * (sim->options->contention ? LK_MOST_SLOWDOWN : 1);
	if (!(sim->work_ps * factor < MOST_PS)) {
		lk_fail(err, LK_ERR_INPUT, "step graph",
		        "all operations of a step together may take more than 46 days, beyond what is "
		        "simulated");
		return lk_hint(
			err,
			"give fewer micro-batches (--gbs), shorter sequences or smaller straggler factors");
	}
	return LK_OK;
}

lk_status lk_lower(lk_sim *sim, lk_error *err) {
	uint32_t *called;
	LK_TRY(sim_find_uses(sim, &called, err));
	LK_TRY(sim_lower_blocks(sim, called, err));
	LK_TRY(sim_check_programs(sim, err));
	LK_TRY(sim_check_teams(sim, err));
	LK_TRY(sim_check_rendezvous(sim, err));
	return sim_sum_work(sim, called, err);
}

void lk_sim_describe_op(const lk_graph *graph, uint32_t stage, size_t call, uint32_t op, char *out,
                        size_t size) {
	LK_ASSERT(op < graph->ops.count);
	LK_ASSERT(stage < graph->programs.count);
	const lk_program *program = &graph->programs.at[stage];
	const char *block = "", *name = lk_intern_text(graph->names, graph->ops.name[op]);
	if (call < program->calls.count)
		block = lk_intern_text(graph->names, graph->blocks.at[program->calls.at[call].block].name);
	if (!graph->traced) {
		snprintf(out, size, "stage %u, call %zu (%s): %s", stage, call, block ? block : "",
		         name ? name : "");
		return;
	}
	const char *rank = lk_intern_text(graph->names, program->name);
	uint32_t begin =
		call < program->calls.count ? graph->blocks.at[program->calls.at[call].block].begin : 0;
	snprintf(out, size, "%.30s, call %zu (%.30s), operation %u (%.60s)", rank ? rank : "", call,
	         block ? block : "", op - begin, name ? name : "");
}

lk_status lk_sim_deadlock(const lk_graph *graph, const char *first, const char *second,
                          lk_error *err) {
	lk_status status = graph->traced ? LK_ERR_INPUT : LK_ERR_INTERNAL;
	if (second[0])
		lk_fail(err, status, "simulation", "ranks wait for one another forever: %s; and %s", first,
		        second);
	else lk_fail(err, status, "simulation", "a rank waits forever: %s", first);
	return lk_hint(err, "check the order of sends, receives and collectives of these programs");
}
