/* sim_random.h: random step graphs for the tests of sim/, and an oracle: a third engine, slow and
 * plain, that follows the waiting rules of graph.h word by word. It walks all ranks again and again
 * until no new time becomes known. */
#ifndef LK_TEST_SIM_RANDOM_H
#define LK_TEST_SIM_RANDOM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/stats.h"
#include "sim/sim_internal.h"
#include "sim/sim.h"

enum { FROM_BEFORE, TO_NEXT, FROM_NEXT, TO_BEFORE, CHANNELS };

typedef struct dice {
	uint64_t state;
} dice;

static inline uint32_t roll(dice *d, uint32_t below) {
	d->state = lk_hash64(d->state + 0x9e3779b97f4a7c15u);
	return (uint32_t)(d->state >> 33) % below;
}

static inline bool chance(dice *d, uint32_t percent) {
	return roll(d, 100) < percent;
}

typedef struct shape {
	bool jams; /* sends may be waited for in an order that jams */
	bool macros, variants;
	bool queue; /* one hardware queue: lk_graph_one_queue */
	bool loose; /* operations off the compute stream that nobody waits for soon */
	bool gangs; /* blocks of kernels and of all-reduces that may overlap with them, alone */
} shape;

typedef struct world {
	lk_graph *graph;
	lk_costs costs;
	shape shape;
} world;

static inline uint16_t random_join(dice *d, const shape *s) {
	static const uint8_t streams[] = {LK_STREAM_COMPUTE,
	                                  LK_STREAM_TP,
	                                  LK_STREAM_EP,
	                                  LK_STREAM_DP,
	                                  LK_STREAM_COPY,
	                                  LK_STREAM_RECV_FORWARD,
	                                  LK_STREAM_RECV_BACKWARD,
	                                  LK_STREAM_SEND_FORWARD,
	                                  LK_STREAM_SEND_BACKWARD};
	uint16_t join = 0;
	for (uint32_t n = roll(d, 3); n > 0; n--)
		join |= (uint16_t)LK_JOIN(streams[roll(d, s->jams ? 9 : 7)]);
	return join;
}

static inline void random_op(dice *d, lk_graph *g, const shape *s, uint32_t place) {
	lk_op op = {.name = "op"};
	uint32_t deps[3];
	uint32_t what = roll(d, 100);
	if (what < 50) op = (lk_op){.kind = LK_OP_GEMM, .stream = LK_STREAM_COMPUTE, .name = "gemm"};
	else if (what < 55)
		op = (lk_op){.kind = s->macros ? LK_OP_MACRO : LK_OP_NORM,
		             .stream = LK_STREAM_COMPUTE,
		             .name = "macro"};
	else if (what < 72)
		op = (lk_op){
			.kind = LK_OP_ALLREDUCE, .stream = LK_STREAM_TP, .group = LK_GROUP_TP, .name = "tp"};
	else if (what < 76)
		op = (lk_op){.kind = LK_OP_ALLREDUCE,
		             .stream = LK_STREAM_COMPUTE,
		             .group = LK_GROUP_TP,
		             .name = "tp_compute"};
	else if (what < 82)
		op = (lk_op){
			.kind = LK_OP_ALLTOALL, .stream = LK_STREAM_EP, .group = LK_GROUP_EP, .name = "ep"};
	else if (what < 87) op = (lk_op){.kind = LK_OP_COPY, .stream = LK_STREAM_COPY, .name = "copy"};
	else if (what < 92)
		op = (lk_op){.kind = LK_OP_REDUCESCATTER,
		             .stream = LK_STREAM_DP,
		             .group = LK_GROUP_DP,
		             .name = "dp"};
	else if (what < 96) op = (lk_op){.kind = LK_OP_HOST, .stream = LK_STREAM_HOST, .name = "host"};
	else op = (lk_op){.kind = LK_OP_WAIT, .stream = (uint8_t)(1 + roll(d, 4)), .name = "wait"};
	if (op.stream != LK_STREAM_COMPUTE && op.stream != LK_STREAM_HOST &&
	    !chance(d, s->loose ? 30 : 5))
		op.join = LK_JOIN(LK_STREAM_COMPUTE);
	if (chance(d, 35)) op.join |= random_join(d, s);
	if (op.kind == LK_OP_GEMM && chance(d, 60))
		op.join |= LK_JOIN(LK_STREAM_TP) | LK_JOIN(LK_STREAM_EP);
	if (op.kind == LK_OP_WAIT || chance(d, 8)) op.wait = (uint8_t)(1 + roll(d, 2));
	if (chance(d, 12)) op.signal = (uint8_t)(1 + roll(d, 2));
	for (uint32_t n = place && chance(d, 30) ? 1 + roll(d, 3) : 0; n > 0; n--)
		deps[op.dep_count++] = roll(d, place);
	op.deps = deps;
	lk_graph_add(g, &op);
}

/* A kernel, or an all-reduce on the stream of its own. */
static inline void random_gang_op(dice *d, lk_graph *g, uint32_t place) {
	lk_op op = {.kind = LK_OP_GEMM, .stream = LK_STREAM_COMPUTE, .name = "gemm"};
	uint32_t deps[2];
	if (chance(d, 40))
		op = (lk_op){
			.kind = LK_OP_ALLREDUCE, .stream = LK_STREAM_TP, .group = LK_GROUP_TP, .name = "tp"};
	else if (chance(d, 8)) op.kind = LK_OP_WAIT;
	bool comm = op.kind == LK_OP_ALLREDUCE;
	if (chance(d, comm ? 70 : 40)) op.join = LK_JOIN(comm ? LK_STREAM_COMPUTE : LK_STREAM_TP);
	for (uint32_t n = place && chance(d, 30) ? 1 + roll(d, 2) : 0; n > 0; n--)
		deps[op.dep_count++] = roll(d, place);
	op.deps = deps;
	lk_graph_add(g, &op);
}

static inline uint32_t random_block(dice *d, lk_graph *g, const shape *s, const char *name,
                                    uint32_t most) {
	uint32_t id = 0;
	lk_graph_begin_block(g, name);
	for (uint32_t i = 0, n = 1 + roll(d, most); i < n; i++) {
		if (s->gangs) random_gang_op(d, g, i);
		else random_op(d, g, s, i);
	}
	lk_graph_end_block(g, &id, NULL);
	return id;
}

/* A receive and a kernel that waits for it, or a send; now and then the kernel waits for the send
 * too. */
static inline uint32_t random_ends(dice *d, lk_graph *g, const shape *s, bool send, unsigned stream,
                                   int channel) {
	uint32_t id = 0;
	lk_graph_begin_block(g, send ? "send" : "receive");
	uint16_t join = send || chance(d, 30) ? LK_JOIN(LK_STREAM_COMPUTE) : 0;
	if ((!send || s->jams) && chance(d, 8)) stream = LK_STREAM_COMPUTE;
	lk_graph_add(g, &(lk_op){.kind = send ? LK_OP_SEND : LK_OP_RECV,
	                         .stream = (uint8_t)stream,
	                         .channel = channel,
	                         .join = join,
	                         .name = send ? "send" : "recv"});
	if (!send || (s->jams && chance(d, 20)))
		lk_graph_add(g, &(lk_op){.kind = LK_OP_ELEMENTWISE,
		                         .stream = LK_STREAM_COMPUTE,
		                         .join = (uint16_t)LK_JOIN(stream),
		                         .name = "unpack"});
	lk_graph_end_block(g, &id, NULL);
	return id;
}

static inline void add_call(dice *d, lk_graph *g, uint32_t stage, uint32_t block, uint32_t repeat) {
	lk_call call = {.block = block, .repeat = repeat, .microbatch = -1, .layer = -1};
	call.arg[0] = (uint16_t)roll(d, 3);
	call.arg[1] = (uint16_t)roll(d, 3);
	lk_graph_call(g, stage, &call, NULL);
}

typedef struct parts {
	uint32_t forward, backward, receive[2], send[2], last, model, embedding;
} parts;

static inline void random_pass(dice *d, lk_graph *g, uint32_t stage, const parts *p, bool forward) {
	uint32_t stages = g->ranks.stages;
	bool receives = forward ? stage > 0 : stage + 1 < stages,
		 sends = forward ? stage + 1 < stages : stage > 0;
	if (receives) add_call(d, g, stage, p->receive[!forward], 1);
	add_call(d, g, stage, forward ? p->forward : p->backward, roll(d, 4));
	if (sends) add_call(d, g, stage, p->send[!forward], 1);
}

static inline void random_program(dice *d, lk_graph *g, uint32_t s, const parts *p,
                                  int microbatches, bool gpipe, bool model, bool embedding) {
	int warm = (int)(g->ranks.stages - 1 - s);
	if (warm > microbatches || gpipe) warm = microbatches;
	g->programs.at[s].events = 3;
	for (int i = 0; i < warm; i++) random_pass(d, g, s, p, true);
	for (int i = warm; i < microbatches; i++)
		random_pass(d, g, s, p, true), random_pass(d, g, s, p, false);
	for (int i = 0; i < warm; i++) random_pass(d, g, s, p, false);
	add_call(d, g, s, p->last, 1);
	if (model) add_call(d, g, s, p->model, 1 + (uint32_t)microbatches % 2);
	if (embedding && (s == 0 || s + 1 == g->ranks.stages)) add_call(d, g, s, p->embedding, 1);
	add_call(d, g, s, p->last, 1);
}

static inline uint32_t single(lk_graph *g, const lk_op *op) {
	uint32_t id = 0;
	lk_graph_begin_block(g, op->name);
	lk_graph_add(g, op);
	lk_graph_end_block(g, &id, NULL);
	return id;
}

static inline float share(dice *d) {
	return chance(d, 30) ? 0 : (float)roll(d, 100) * 0.01f;
}

static inline void random_costs(dice *d, world *w) {
	const lk_graph *g = w->graph;
	uint32_t variants = w->shape.variants ? 1 + roll(d, 3) : 1,
			 ranks = g->ranks.stages * g->ranks.chains;
	w->costs = (lk_costs){.variants = variants, .ops = g->ops.count};
	w->costs.at = calloc((size_t)variants * g->ops.count, sizeof *w->costs.at);
	if (variants > 1) w->costs.variant_of = calloc(ranks, sizeof *w->costs.variant_of);
	for (uint32_t i = 0; variants > 1 && i < ranks; i++)
		w->costs.variant_of[i] = (uint16_t)(chance(d, 70) ? 0 : roll(d, variants));
	uint32_t slow = 1 + roll(d, 1000), host = roll(d, 300);
	for (uint32_t i = 0; i < variants * g->ops.count; i++) {
		lk_cost *c = &w->costs.at[i];
		c->duration_ps = chance(d, 8) ? 0 : chance(d, 30) ? 100 : roll(d, slow);
		c->host_ps = c->lead_ps = host ? roll(d, host) : 0;
		c->tail_ps = c->duration_ps;
		if (g->ops.kind[i % g->ops.count] == LK_OP_MACRO) {
			c->lead_ps = c->host_ps ? roll(d, (uint32_t)c->host_ps) : 0;
			c->tail_ps = c->duration_ps / 3;
			c->duration_ps *= 3, c->host_ps *= 5;
		}
		c->sm = share(d), c->memory = share(d), c->intra = share(d), c->nic = share(d),
		c->compute = share(d);
		c->waves = chance(d, 50) ? 0 : (float)roll(d, 12), c->spread = 1;
	}
}

/* Two: all stages, and the first with the last. */
static inline void random_teams(dice *d, lk_graph *g) {
	uint32_t all[] = {0, 1, 2, 3}, ends[] = {0, g->ranks.stages - 1}, chains = g->ranks.chains,
			 most = chains * g->ranks.stages;
	lk_graph_add_team(g, "all", all, g->ranks.stages, most, chance(d, 50));
	lk_graph_add_team(g, "ends", ends, g->ranks.stages > 1 ? 2 : 1, most, chance(d, 50));
}

static inline void random_world(uint64_t seed, shape s, world *w) {
	dice dd = {seed * 77 + 5}, *d = &dd;
	lk_graph *g = w->graph = lk_graph_new();
	w->shape = s;
	uint32_t stages = 1 + roll(d, 4), tp = 1 + roll(d, 4), dp = 1 + roll(d, 4);
	if (s.gangs) tp += tp == 1;
	lk_graph_set_programs(g, stages, CHANNELS, NULL);
	g->ranks.chains = tp * dp;
	g->ranks.world = stages * tp * dp;
	g->ranks.group[LK_GROUP_TP].size = tp, g->ranks.group[LK_GROUP_TP].stride = 1;
	g->ranks.group[LK_GROUP_DP].size = dp, g->ranks.group[LK_GROUP_DP].stride = tp;
	g->ranks.group[LK_GROUP_EP].size = 1 + roll(d, 5),
	g->ranks.group[LK_GROUP_EP].stride = 1 + roll(d, 3);
	g->ranks.group[LK_GROUP_MODEL].size = tp, g->ranks.group[LK_GROUP_MODEL].stride = 1;
	parts p = {.forward = random_block(d, g, &s, "forward", s.gangs ? 24 : 9),
	           .backward = random_block(d, g, &s, "backward", s.gangs ? 24 : 12)};
	p.receive[0] = random_ends(d, g, &s, false, LK_STREAM_RECV_FORWARD, FROM_BEFORE);
	p.send[0] = random_ends(d, g, &s, true, LK_STREAM_SEND_FORWARD, TO_NEXT);
	p.receive[1] = random_ends(d, g, &s, false, LK_STREAM_RECV_BACKWARD, FROM_NEXT);
	p.send[1] = random_ends(d, g, &s, true, LK_STREAM_SEND_BACKWARD, TO_BEFORE);
	p.last = random_block(d, g, &s, "last", 6);
	random_teams(d, g);
	p.model =
		single(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
	                       .stream = (uint8_t)(chance(d, 50) ? LK_STREAM_COMPUTE : LK_STREAM_TP),
	                       .group = chance(d, 30)   ? LK_GROUP_TEAM
	                                : chance(d, 70) ? LK_GROUP_MODEL
	                                                : LK_GROUP_PP,
	                       .join = random_join(d, &s),
	                       .name = "model"});
	p.embedding = single(g, &(lk_op){.kind = LK_OP_ALLREDUCE,
	                                 .stream = LK_STREAM_EP,
	                                 .group = chance(d, 30) ? LK_GROUP_TEAM : LK_GROUP_EMBEDDING,
	                                 .channel = 1,
	                                 .join = random_join(d, &s),
	                                 .name = "embedding"});
	int microbatches = 1 + (int)roll(d, 6);
	bool gpipe = chance(d, 30), model = chance(d, 50), embedding = chance(d, 50);
	for (uint32_t i = 0; i + 1 < stages; i++) {
		lk_graph_wire(g, i, TO_NEXT, i + 1, FROM_BEFORE);
		lk_graph_wire(g, i + 1, TO_BEFORE, i, FROM_NEXT);
	}
	for (uint32_t i = 0; i < stages; i++)
		random_program(d, g, i, &p, microbatches, gpipe, model, embedding);
	if (s.queue && lk_graph_one_queue(g, NULL) != LK_OK) abort();
	random_costs(d, w);
}

/* --- lifted traces
 * ------------------------------------------------------------------------------------------------
 */

enum { MOST_TEAMS = 8, SEGMENTS = 3 };

/* An operation of one rank: on a CPU thread or a stream, behind anything earlier. */
static inline void traced_op(dice *d, lk_graph *g, uint32_t place, lk_op op) {
	uint32_t deps[3];
	op.stream = (uint8_t)(chance(d, 90) ? roll(d, 5) : roll(d, LK_STREAMS));
	if (chance(d, 15)) op.join = LK_JOIN(roll(d, 5)) | LK_JOIN(roll(d, LK_STREAMS));
	if (chance(d, 8)) op.wait = (uint8_t)(1 + roll(d, 2));
	if (chance(d, 12)) op.signal = (uint8_t)(1 + roll(d, 2));
	for (uint32_t n = place && chance(d, 60) ? 1 + roll(d, 3) : 0; n > 0; n--)
		deps[op.dep_count++] = chance(d, 70) && place > 4 ? place - 1 - roll(d, 4) : roll(d, place);
	op.deps = deps;
	lk_graph_add(g, &op);
}

static inline lk_op traced_local(dice *d) {
	static const uint8_t kinds[] = {LK_OP_HOST, LK_OP_GEMM, LK_OP_NORM, LK_OP_COPY, LK_OP_WAIT};
	return (lk_op){.kind = kinds[roll(d, 5)], .name = "local"};
}

/* What ranks do together, in an order that all agree on. */
typedef struct together {
	uint32_t team; /* UINT32_MAX: chains of stage `stage` among themselves */
	uint32_t stage;
	uint8_t kind;
} together;

static inline void traced_block(dice *d, lk_graph *g, uint32_t stage, together *plan,
                                uint32_t count, bool jams) {
	uint32_t place = 0;
	lk_graph_begin_block(g, "step");
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t n = roll(d, 6); n > 0; n--) traced_op(d, g, place++, traced_local(d));
		if (jams && i + 1 < count && chance(d, 30)) {
			together swap = plan[i];
			plan[i] = plan[i + 1], plan[i + 1] = swap;
		}
		lk_op op = {.kind = plan[i].kind,
		            .name = "meet",
		            .group = LK_GROUP_TEAM,
		            .channel = (int32_t)plan[i].team};
		if (plan[i].team == UINT32_MAX) {
			op.group = LK_GROUP_TP, op.channel = 0;
			if (plan[i].stage == stage) traced_op(d, g, place++, op);
			continue;
		}
		const lk_team *team = &g->teams.at[plan[i].team];
		if (lk_team_member(g, team, stage) == UINT32_MAX) continue;
		if (op.kind == LK_OP_SEND && g->team_stages.at[team->begin] != stage) op.kind = LK_OP_RECV;
		traced_op(d, g, place++, op);
	}
	for (uint32_t n = roll(d, 4); n > 0; n--) traced_op(d, g, place++, traced_local(d));
}

static inline void traced_teams(dice *d, lk_graph *g) {
	for (uint32_t t = 0, n = 1 + roll(d, MOST_TEAMS); t < n; t++) {
		uint32_t members[16], count = 0;
		for (uint32_t s = 0; s < g->ranks.stages; s++)
			if (chance(d, 60)) members[count++] = s;
		if (!count) members[count++] = roll(d, g->ranks.stages);
		bool across = chance(d, 40);
		lk_graph_add_team(g, "team", members, count,
		                  count * (across ? g->ranks.chains : 1) + (chance(d, 30) ? 3 : 0), across);
	}
}

/* Ranks with threads and streams, teams of random subsets met in a consistent order; `jams`: not
 * always. Costs of the host are there, to be left alone. */
static inline void random_traced(uint64_t seed, bool jams, world *w) {
	dice dd = {seed * 131 + 7}, *d = &dd;
	lk_graph *g = w->graph = lk_graph_new();
	w->shape = (shape){.variants = chance(d, 40), .jams = jams};
	uint32_t stages = 1 + roll(d, 5), chains = 1 + roll(d, 3), id = 0;
	lk_graph_set_programs(g, stages, 0, NULL);
	g->traced = true;
	g->ranks.chains = chains, g->ranks.world = stages * chains;
	g->ranks.group[LK_GROUP_TP].size = chains;
	traced_teams(d, g);
	for (uint32_t s = 0; s < stages; s++) {
		g->programs.at[s].events = 3;
		lk_graph_name_stream(g, s, roll(d, 3), "main", true, NULL);
	}
	for (uint32_t k = 0, n = 1 + roll(d, SEGMENTS); k < n; k++) {
		together plan[8], own[8];
		uint32_t count = roll(d, 8), repeat = 1 + roll(d, 3);
		for (uint32_t i = 0; i < count; i++) {
			plan[i] = (together){chance(d, 15) ? UINT32_MAX : roll(d, (uint32_t)g->teams.count),
			                     roll(d, stages), LK_OP_ALLREDUCE};
			if (plan[i].team != UINT32_MAX && g->teams.at[plan[i].team].ranks == 2 && chance(d, 60))
				plan[i].kind = LK_OP_SEND;
		}
		for (uint32_t s = 0; s < stages; s++) {
			memcpy(own, plan, sizeof plan);
			traced_block(d, g, s, own, count, jams);
			lk_graph_end_block(g, &id, NULL);
			add_call(d, g, s, id, repeat);
		}
	}
	random_costs(d, w);
}

static inline void free_world(world *w) {
	free(w->costs.at);
	free(w->costs.variant_of);
	lk_graph_free(w->graph);
}

/* --- the oracle
 * ---------------------------------------------------------------------------------------------------
 */

enum { UNKNOWN = -1 };

typedef struct oracle_op {
	uint32_t op, call, repetition;
	uint64_t meeting; /* number among those of its channel or kind */
	int64_t arrival, start, end;
} oracle_op;

typedef struct oracle {
	const world *w;
	const lk_sim_options *options;
	uint32_t ranks;
	size_t *count; /* operations by rank */
	oracle_op **ops;
	bool stuck;
	int64_t step;
} oracle;

static inline const lk_cost *oracle_cost(const oracle *o, uint32_t rank, uint32_t op) {
	return lk_costs_get(&o->w->costs, o->w->costs.variant_of ? o->w->costs.variant_of[rank] : 0,
	                    op);
}

static inline double oracle_factor(const oracle *o, uint32_t rank, uint32_t op, size_t number) {
	const lk_ops *ops = &o->w->graph->ops;
	bool traced = o->w->graph->traced;
	if ((traced ? ops->kind[op] == LK_OP_COPY : ops->stream[op] > LK_STREAM_COMPUTE) ||
	    lk_op_is_comm(ops->kind[op]))
		return 1;
	uint32_t lane = lk_rank_stage(o->w->graph, rank) * o->w->graph->ranks.chains +
	                lk_rank_chain(o->w->graph, rank);
	double factor = lk_sim_rank_factor(o->options, lane);
	for (uint32_t i = 0; i < o->options->straggler_count; i++)
		if (o->options->stragglers[i].rank == rank) factor *= o->options->stragglers[i].factor;
	if (o->options->jitter > 0)
		factor = lk_sim_jitter(o->options->seed, lane, number, o->options->jitter) * factor;
	return factor;
}

static inline bool oracle_team(const lk_graph *g, uint32_t op) {
	return lk_op_is_comm(g->ops.kind[op]) && g->ops.group[op] == LK_GROUP_TEAM;
}

static inline void oracle_expand(oracle *o, uint32_t rank) {
	const lk_graph *g = o->w->graph;
	const lk_program *p = &g->programs.at[lk_rank_stage(g, rank)];
	uint64_t met[LK_GROUPS + CHANNELS + MOST_TEAMS] = {0};
	size_t n = 0, room = 1;
	for (size_t c = 0; c < p->calls.count; c++)
		room += (size_t)p->calls.at[c].repeat *
		        (g->blocks.at[p->calls.at[c].block].end - g->blocks.at[p->calls.at[c].block].begin);
	o->ops[rank] = calloc(room, sizeof(oracle_op));
	for (uint32_t c = 0; c < p->calls.count; c++) {
		for (uint32_t r = 0; r < p->calls.at[c].repeat; r++) {
			for (uint32_t op = g->blocks.at[p->calls.at[c].block].begin;
			     op < g->blocks.at[p->calls.at[c].block].end; op++) {
				oracle_op *one = &o->ops[rank][n++];
				*one = (oracle_op){op, c, r, 0, UNKNOWN, UNKNOWN, UNKNOWN};
				if (oracle_team(g, op))
					one->meeting = met[LK_GROUPS + CHANNELS + g->ops.channel[op]]++;
				else if (lk_op_is_collective(g->ops.kind[op]))
					one->meeting = met[g->ops.group[op]]++;
				else if (lk_op_is_comm(g->ops.kind[op]))
					one->meeting = met[LK_GROUPS + g->ops.channel[op]]++;
			}
		}
	}
	o->count[rank] = n;
}

static inline void later(int64_t *time, int64_t other) {
	if (*time == UNKNOWN) return;
	if (other == UNKNOWN || other > *time) *time = other;
}

/* Whether two operations of two ranks are the same meeting. */
static inline bool oracle_meets(const oracle *o, uint32_t a, const oracle_op *x, uint32_t b,
                                const oracle_op *y) {
	const lk_graph *g = o->w->graph;
	uint32_t sa = lk_rank_stage(g, a), sb = lk_rank_stage(g, b), ca = lk_rank_chain(g, a),
			 cb = lk_rank_chain(g, b);
	unsigned kind = g->ops.kind[x->op], group = g->ops.group[x->op];
	if (x->meeting != y->meeting || oracle_team(g, x->op) != oracle_team(g, y->op)) return false;
	if (oracle_team(g, x->op))
		return g->ops.channel[x->op] == g->ops.channel[y->op] &&
		       (g->teams.at[g->ops.channel[x->op]].across || ca == cb);
	if (!lk_op_is_collective(kind)) {
		if (lk_op_is_collective(g->ops.kind[y->op]) || !lk_op_is_comm(g->ops.kind[y->op]) ||
		    ca != cb)
			return false;
		lk_wire to = g->wires.at[(size_t)sa * g->channels + (uint32_t)g->ops.channel[x->op]];
		return to.stage == sb && to.channel == (uint32_t)g->ops.channel[y->op];
	}
	if (!lk_op_is_collective(g->ops.kind[y->op]) || g->ops.group[y->op] != group) return false;
	uint32_t size = g->ranks.group[group].size, stride = g->ranks.group[group].stride,
			 edge = g->ranks.stages - 1;
	if (group == LK_GROUP_PP) return ca == cb;
	if (group == LK_GROUP_EMBEDDING)
		return ca == cb && (sa == sb || ((sa == 0 || sa == edge) && (sb == 0 || sb == edge)));
	if (group == LK_GROUP_MODEL) return ca / size == cb / size;
	return sa == sb && ca / (size * stride) == cb / (size * stride) && ca % stride == cb % stride;
}

static inline uint32_t oracle_members(const oracle *o, uint32_t rank, uint32_t op) {
	const lk_graph *g = o->w->graph;
	uint32_t n = 0;
	if (oracle_team(g, op)) {
		const lk_team *team = &g->teams.at[g->ops.channel[op]];
		return (team->end - team->begin) * (team->across ? g->ranks.chains : 1);
	}
	if (!lk_op_is_collective(g->ops.kind[op])) return 2;
	oracle_op same = {.op = op};
	for (uint32_t other = 0; other < o->ranks; other++)
		n += oracle_meets(o, rank, &same, other, &same);
	return n;
}

static inline bool oracle_meet(oracle *o, uint32_t rank, oracle_op *one) {
	uint32_t met = 0, members = oracle_members(o, rank, one->op);
	bool p2p =
		!lk_op_is_collective(o->w->graph->ops.kind[one->op]) && !oracle_team(o->w->graph, one->op);
	int64_t start = one->arrival, duration = p2p ? oracle_cost(o, rank, one->op)->duration_ps : 0;
	for (uint32_t other = 0; other < o->ranks; other++) {
		for (size_t i = 0; i < o->count[other]; i++) {
			const oracle_op *y = &o->ops[other][i];
			if (!lk_op_is_comm(o->w->graph->ops.kind[y->op]) ||
			    !oracle_meets(o, rank, one, other, y))
				continue;
			met++;
			later(&start, y->arrival);
			if (oracle_cost(o, other, y->op)->duration_ps > duration)
				duration = oracle_cost(o, other, y->op)->duration_ps;
		}
	}
	if (met + p2p < members || start == UNKNOWN) return false;
	one->start = start;
	one->end = start + duration;
	return true;
}

/* One walk over a rank; true if a time became known. */
static inline bool oracle_walk(oracle *o, uint32_t rank) {
	const lk_graph *g = o->w->graph;
	const lk_program *p = &g->programs.at[lk_rank_stage(g, rank)];
	int64_t host = 0, start = 0, end[LK_STREAMS] = {0}, event[8] = {0};
	bool news = false;
	size_t begin = 0; /* of the present repetition */
	for (size_t i = 0; i < o->count[rank]; i++) {
		oracle_op *one = &o->ops[rank][i];
		uint32_t op = one->op;
		const lk_cost *c = oracle_cost(o, rank, op);
		const lk_call *call = &p->calls.at[one->call];
		unsigned stream = g->ops.stream[op], kind = g->ops.kind[op];
		if (op == g->blocks.at[call->block].begin) begin = i;
		double factor = oracle_factor(o, rank, op, i);
		int64_t work = kind == LK_OP_WAIT ? 0
		               : factor == 1      ? c->duration_ps
		                                  : lk_sim_scale(c->duration_ps, factor);
		int64_t tail = kind == LK_OP_WAIT ? 0
		               : factor == 1      ? c->tail_ps
		                                  : lk_sim_scale(c->tail_ps, factor);
		bool issued = !g->traced, queue = issued && stream == LK_STREAM_COMPUTE;
		int64_t launch =
			host == UNKNOWN ? UNKNOWN : host + (stream == LK_STREAM_HOST ? c->host_ps : c->lead_ps);
		if (host != UNKNOWN && issued) host += c->host_ps;
		int64_t ready = end[stream];
		for (unsigned s = 0; s < LK_STREAMS; s++)
			if (g->ops.join[op] >> s & 1) later(&ready, end[s]);
		for (uint32_t d = g->ops.dep_begin[op]; d < g->ops.dep_begin[op + 1]; d++)
			later(&ready, o->ops[rank][begin + g->ops.deps[d]].end);
		if (g->ops.wait[op]) later(&ready, event[call->arg[g->ops.wait[op] - 1]]);
		if (issued && stream > LK_STREAM_COMPUTE) later(&ready, start);
		if (issued) later(&ready, launch);
		if (one->arrival == UNKNOWN && ready != UNKNOWN) one->arrival = ready, news = true;
		if (one->end == UNKNOWN && ready != UNKNOWN) {
			if (lk_op_is_comm(kind)) {
				news |= oracle_meet(o, rank, one);
			} else {
				one->start = ready;
				one->end = ready + work;
				if (queue) later(&one->end, host + tail);
				news = true;
			}
		}
		end[stream] = one->end;
		if (issued && stream == LK_STREAM_HOST) host = one->end;
		if (queue) start = one->start;
		if (g->ops.signal[op]) event[call->arg[g->ops.signal[op] - 1]] = one->end;
		if (one->end > o->step) o->step = one->end;
	}
	if (host > o->step) o->step = host;
	return news;
}

static inline void oracle_run(const world *w, const lk_sim_options *options, oracle *o) {
	*o = (oracle){
		.w = w, .options = options, .ranks = w->graph->ranks.stages * w->graph->ranks.chains};
	o->count = calloc(o->ranks, sizeof *o->count);
	o->ops = calloc(o->ranks, sizeof *o->ops);
	for (uint32_t r = 0; r < o->ranks; r++) oracle_expand(o, r);
	for (bool news = true; news;) {
		news = false;
		for (uint32_t r = 0; r < o->ranks; r++) news |= oracle_walk(o, r);
	}
	for (uint32_t r = 0; r < o->ranks; r++)
		for (size_t i = 0; i < o->count[r]; i++) o->stuck |= o->ops[r][i].end == UNKNOWN;
}

static inline void oracle_free(oracle *o) {
	for (uint32_t r = 0; r < o->ranks; r++) free(o->ops[r]);
	free(o->ops);
	free(o->count);
}

#endif
