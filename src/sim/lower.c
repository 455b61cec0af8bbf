/* lower.c: a step graph to instructions. Dependencies between operations of a block become slots
 * (registers), found by a linear scan: only an operation that a later one needs gets a slot, and a
 * slot is free again behind its last use. What the order of streams implies anyway is left out.
 *
 * Everything that an engine indexes with is checked here, so that a graph from a file cannot lead
 * it astray. */
#include "sim/lower.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* 46 days in picoseconds: sums below it stay far from the end of int64_t. */
#define MOST_PS      4e18
#define EVERY_STREAM (LK_JOIN(LK_STREAMS) - 1)

static lk_status bad(const lk_graph *graph, uint32_t op, const char *what, lk_error *err) {
	const char *name = lk_intern_text(graph->names, graph->ops.name[op]);
	return lk_fail(err, LK_ERR_INPUT, "step graph", "operation %u (%s) %s", op, name ? name : "?",
	               what);
}

static uint8_t class_of(const lk_graph *graph, uint32_t op) {
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

/* In lifted traces every stream is a queue like any other; launches are operations and
 * dependencies. Stragglers and jitter change all that is neither communication nor a copy. */
static void lower_traced(const lk_graph *graph, uint32_t op, lk_insn *out) {
	unsigned kind = graph->ops.kind[op];
	out->join = (graph->ops.join[op] | LK_JOIN(out->stream)) & EVERY_STREAM;
	if (!lk_op_is_comm(kind) && kind != LK_OP_COPY) out->flags |= LK_INSN_SCALED;
}

static void lower_issued(const lk_graph *graph, uint32_t op, lk_insn *out) {
	bool host = out->stream == LK_STREAM_HOST, compute = out->stream == LK_STREAM_COMPUTE;
	out->join =
		(graph->ops.join[op] | LK_JOIN(out->stream)) & EVERY_STREAM & ~LK_JOIN(LK_STREAM_HOST);
	if (!host && !(out->join & LK_JOIN(LK_STREAM_COMPUTE))) out->flags |= LK_INSN_ISSUED;
	if ((host || compute) && !lk_op_is_comm(graph->ops.kind[op])) out->flags |= LK_INSN_SCALED;
	if (compute) out->flags |= LK_INSN_MAIN;
}

static lk_status lower_op(const lk_graph *graph, uint32_t op, lk_insn *out, lk_error *err) {
	const lk_ops *ops = &graph->ops;
	unsigned kind = ops->kind[op], stream = ops->stream[op];
	if (kind >= LK_OP_COUNT) return bad(graph, op, "has an unknown kind", err);
	if (stream >= LK_STREAMS) return bad(graph, op, "is on a stream that does not exist", err);
	if (ops->group[op] >= LK_GROUPS) return bad(graph, op, "has an unknown process group", err);
	if (ops->wait[op] > 2 || ops->signal[op] > 2)
		return bad(graph, op, "uses an argument that calls do not have", err);
	if (lk_op_is_comm(kind) && stream == LK_STREAM_HOST && !graph->traced)
		return bad(graph, op, "communicates on the host stream", err);
	*out = (lk_insn){
		.slot = LK_NO_SLOT,
		.what = class_of(graph, op),
		.stream = (uint8_t)stream,
		.group = ops->group[op],
		.wait = ops->wait[op],
		.signal = ops->signal[op],
		.channel = ops->channel[op],
	};
	if (out->what == LK_INSN_P2P && (out->channel < 0 || (uint32_t)out->channel >= graph->channels))
		return bad(graph, op, "uses a channel that does not exist", err);
	if (graph->traced) lower_traced(graph, op, out);
	else lower_issued(graph, op, out);
	if (lk_op_is_comm(kind)) out->flags |= LK_INSN_COMM;
	if (kind == LK_OP_WAIT) out->flags |= LK_INSN_INSTANT;
	return LK_OK;
}

/* The order of streams, a join or the host thread makes `before` end before `insn` begins. */
static bool implied(const lk_insn *before, const lk_insn *insn) {
	return before->what == LK_INSN_HOST || (insn->join >> before->stream & 1);
}

typedef struct scan {
	lk_sim *sim;
	uint32_t *last;  /* [ops] place of the last operation that needs this one, 0 none */
	uint16_t *spare; /* free slots */
	uint32_t spares, dep_count;
} scan;

static lk_status find_uses(scan *s, const lk_block *block, lk_error *err) {
	const lk_ops *ops = &s->sim->graph->ops;
	for (uint32_t op = block->begin; op < block->end; op++) {
		for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
			if (ops->deps[d] >= op - block->begin)
				return bad(s->sim->graph, op, "depends on a later operation", err);
			uint32_t before = block->begin + ops->deps[d];
			if (!implied(&s->sim->insn[before], &s->sim->insn[op])) s->last[before] = op;
		}
	}
	return LK_OK;
}

/* Writes the slots that `op` waits for, then gives back those that nobody needs after it. */
static lk_status take_deps(scan *s, const lk_block *block, uint32_t op, lk_error *err) {
	const lk_ops *ops = &s->sim->graph->ops;
	lk_insn *insn = &s->sim->insn[op];
	insn->dep_begin = s->dep_count;
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
		const lk_insn *before = &s->sim->insn[block->begin + ops->deps[d]];
		if (!implied(before, insn)) s->sim->deps[s->dep_count++] = before->slot;
	}
	if (s->dep_count - insn->dep_begin >= UINT16_MAX)
		return bad(s->sim->graph, op, "has too many dependencies", err);
	insn->dep_count = (uint16_t)(s->dep_count - insn->dep_begin);
	for (uint32_t d = ops->dep_begin[op]; d < ops->dep_begin[op + 1]; d++) {
		uint32_t before = block->begin + ops->deps[d];
		if (s->last[before] != op) continue;
		s->last[before] = 0; /* listed twice, freed once */
		s->spare[s->spares++] = s->sim->insn[before].slot;
	}
	if (insn->dep_count || insn->wait) insn->flags |= LK_INSN_EXTRA;
	return LK_OK;
}

static lk_status lower_block(scan *s, const lk_block *block, lk_error *err) {
	uint32_t used = 0;
	s->spares = 0;
	LK_TRY(find_uses(s, block, err));
	for (uint32_t op = block->begin; op < block->end; op++) {
		LK_TRY(take_deps(s, block, op, err));
		if (!s->last[op]) continue;
		if (!s->spares && used >= LK_NO_SLOT)
			return bad(s->sim->graph, op, "is one dependency too many for its block", err);
		s->sim->insn[op].slot = s->spares ? s->spare[--s->spares] : (uint16_t)used++;
	}
	if (used > s->sim->slots) s->sim->slots = used;
	return LK_OK;
}

/* The blocks that programs call, how often and with which arguments: calls are walked once, here.
 */
static lk_status find_stage_uses(lk_sim *sim, uint32_t s, uint32_t *seen, uint32_t *place,
                                 lk_error *err) {
	const lk_graph *graph = sim->graph;
	const lk_program *program = &graph->programs.at[s];
	lk_sim_stage *stage = &sim->stage[s];
	size_t most =
		program->calls.count < graph->blocks.count ? program->calls.count : graph->blocks.count;
	stage->uses = LK_ARRAY(sim->arena, lk_sim_use, most);
	if (!stage->uses) return lk_oom(err);
	for (size_t c = 0; c < program->calls.count; c++) {
		const lk_call *call = &program->calls.at[c];
		if (call->block >= graph->blocks.count)
			return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u, call %zu: no block %u", s, c,
			               call->block);
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

/* *called: of each block, whether any program calls it. */
static lk_status find_uses_of_blocks(lk_sim *sim, uint32_t **called, lk_error *err) {
	uint32_t *place = LK_ARRAY(sim->arena, uint32_t, sim->graph->blocks.count);
	*called =
		LK_ARRAY(sim->arena, uint32_t, sim->graph->blocks.count); /* 1 + the last stage that did */
	if (!*called || !place) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++) LK_TRY(find_stage_uses(sim, s, *called, place, err));
	return LK_OK;
}

static lk_status lower_blocks(lk_sim *sim, const uint32_t *called, lk_error *err) {
	const lk_graph *graph = sim->graph;
	uint32_t n = graph->ops.count;
	sim->insn = LK_ARRAY(sim->arena, lk_insn, n);
	sim->deps = LK_ARRAY(sim->arena, uint16_t, n ? graph->ops.dep_begin[n] : 0);
	scan s = {.sim = sim,
	          .last = LK_ARRAY(sim->arena, uint32_t, n),
	          .spare = LK_ARRAY(sim->arena, uint16_t, n)};
	if (!sim->insn || !sim->deps || !s.last || !s.spare) return lk_oom(err);
	uint32_t begin = 0;
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		if (block->begin < begin || block->begin > block->end || block->end > n)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "block %zu has operations of another or none", b);
		begin = block->end;
		if (!called[b]) continue;
		for (uint32_t op = block->begin; op < block->end; op++)
			LK_TRY(lower_op(graph, op, &sim->insn[op], err));
		LK_TRY(lower_block(&s, block, err));
	}
	return LK_OK;
}

/* Which of the arguments of its calls operations of a block use, as two bits. */
static unsigned args_used(const lk_sim *sim, const lk_block *block) {
	unsigned used = 0;
	for (uint32_t op = block->begin; op < block->end; op++) {
		if (sim->insn[op].wait) used |= 1u << (sim->insn[op].wait - 1);
		if (sim->insn[op].signal) used |= 1u << (sim->insn[op].signal - 1);
	}
	return used;
}

static lk_status no_event(const lk_sim *sim, uint32_t s, uint32_t block, int a, lk_error *err) {
	const lk_program *program = &sim->graph->programs.at[s];
	size_t c = 0;
	while (program->calls.at[c].block != block || program->calls.at[c].arg[a] < program->events)
		c++;
	return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u, call %zu: no event %u", s, c,
	               program->calls.at[c].arg[a]);
}

static lk_status check_programs(lk_sim *sim, lk_error *err) {
	for (uint32_t s = 0; s < sim->stages; s++) {
		lk_sim_stage *stage = &sim->stage[s];
		double ops = 0;
		for (uint32_t i = 0; i < stage->use_count; i++) {
			const lk_sim_use *use = &stage->uses[i];
			const lk_block *block = &sim->graph->blocks.at[use->block];
			unsigned used = args_used(sim, block);
			for (int a = 0; a < 2; a++)
				if ((used >> a & 1) && use->most_arg[a] >= sim->graph->programs.at[s].events)
					return no_event(sim, s, use->block, a, err);
			stage->ops += use->times * (block->end - block->begin);
			ops += (double)use->times * (double)(block->end - block->begin);
		}
		if (ops > 1e15)
			return lk_fail(err, LK_ERR_INPUT, "step graph", "stage %u runs %.3g operations", s,
			               ops);
	}
	return LK_OK;
}

static lk_status check_wire(const lk_sim *sim, uint32_t s, uint32_t a, lk_error *err) {
	const lk_graph *graph = sim->graph;
	lk_wire to = graph->wires.at[(size_t)s * graph->channels + a], back = {0};
	bool there = to.stage < sim->stages && to.channel < graph->channels;
	if (there) back = graph->wires.at[(size_t)to.stage * graph->channels + to.channel];
	if (there && back.stage == s && back.channel == a && !(to.stage == s && to.channel == a))
		return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "step graph", "channel %u of stage %u is not wired both ways",
	               a, s);
}

static lk_status check_meeting(const lk_sim *sim, uint32_t s, uint32_t op, lk_error *err) {
	const lk_insn *insn = &sim->insn[op];
	if (insn->what == LK_INSN_P2P) return check_wire(sim, s, (uint32_t)insn->channel, err);
	if (insn->what != LK_INSN_TEAM) return LK_OK;
	const lk_graph *graph = sim->graph;
	if (insn->channel < 0 || (uint32_t)insn->channel >= graph->teams.count)
		return bad(graph, op, "is of a team that does not exist", err);
	bool member = lk_team_member(graph, &graph->teams.at[insn->channel], s) != UINT32_MAX;
	return member ? LK_OK : bad(graph, op, "is of a team that its program is no member of", err);
}

/* Members are stages, in order. */
static lk_status check_teams(const lk_sim *sim, lk_error *err) {
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

/* Every channel that is used leads to a channel that leads back; operations of a team are its
 * members'. */
static lk_status check_meetings(const lk_sim *sim, lk_error *err) {
	const lk_graph *graph = sim->graph;
	if (graph->wires.count != (size_t)sim->stages * graph->channels)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%zu wires for %u stages of %u channels",
		               graph->wires.count, sim->stages, graph->channels);
	for (uint32_t s = 0; s < sim->stages; s++) {
		for (uint32_t i = 0; i < sim->stage[s].use_count; i++) {
			const lk_block *block = &graph->blocks.at[sim->stage[s].uses[i].block];
			for (uint32_t op = block->begin; op < block->end; op++)
				LK_TRY(check_meeting(sim, s, op, err));
		}
	}
	return LK_OK;
}

/* The longest path visits an operation of a stage's program once at most, so the sum of everything
 * bounds every time.
 */
static lk_status check_time(const lk_sim *sim, const uint32_t *called, lk_error *err) {
	const lk_graph *graph = sim->graph;
	double *sum = LK_ARRAY(sim->arena, double, graph->blocks.count), total = 0, factor = 1;
	if (!sum) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++) {
		for (uint32_t op = graph->blocks.at[b].begin; called[b] && op < graph->blocks.at[b].end;
		     op++) {
			double most = 0;
			for (uint32_t v = 0; v < sim->costs->variants; v++) {
				const lk_cost *c = lk_costs_get(sim->costs, v, op);
				if (c->duration_ps < 0 || c->host_ps < 0 || c->lead_ps < 0 || c->tail_ps < 0)
					return bad(graph, op, "takes negative time", err);
				double work = fmax((double)c->duration_ps, (double)c->tail_ps);
				most = fmax(most, work + (double)c->host_ps + (double)c->lead_ps);
			}
			sum[b] += most;
		}
	}
	for (uint32_t i = 0; i < sim->options->straggler_count; i++)
		factor = fmax(factor, sim->options->stragglers[i].factor);
	factor *= exp(4 * sim->options->jitter) * (sim->options->contention ? LK_MOST_SLOWDOWN : 1);
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t i = 0; i < sim->stage[s].use_count; i++)
			total += sum[sim->stage[s].uses[i].block] * (double)sim->stage[s].uses[i].times;
	if (!(total * factor < MOST_PS)) {
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
	LK_TRY(find_uses_of_blocks(sim, &called, err));
	LK_TRY(lower_blocks(sim, called, err));
	LK_TRY(check_programs(sim, err));
	LK_TRY(check_teams(sim, err));
	LK_TRY(check_meetings(sim, err));
	return check_time(sim, called, err);
}

void lk_sim_where(const lk_graph *graph, uint32_t stage, size_t call, uint32_t op, char *out,
                  size_t size) {
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
