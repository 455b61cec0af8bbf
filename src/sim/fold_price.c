/* fold_price.c: a run of calls as one operation. In max-plus algebra a run that begins and ends on
 * the compute stream is
 *
 *     end = max(start + D, host + L)
 *
 * D: how long it takes when the host is far ahead; L: when the device is idle and the host begins.
 * Both are simulated side by side, as lanes, with the engine that will run the folded graph. So
 * without contention nothing is lost: D is the duration, and L - (the run's host time) the least
 * time between the end of the host's work and of the run (tail_ps).
 *
 * A call repeated n > 4 times is simulated 4 and 3 times, and the difference, one period, added n -
 * 4 times. A part of a call is simulated as a block that holds nothing else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fold.h"

enum {
	PERIODIC = 4,
	DEVICE = 0,
	WITH_HOST = 1
};

lk_status lk_fold_pricer_new(lk_fold_pricer *p, const lk_graph *graph, const lk_costs *costs,
                             const lk_fold_times *times, bool contention, lk_error *err) {
	uint32_t lanes = costs->variants * 2;
	*p = (lk_fold_pricer){.graph = graph, .costs = costs, .contention = contention, .view = *graph};
	if (costs->variants > UINT16_MAX / 2)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%u kinds of ranks are too many",
		               costs->variants);
	p->both = (lk_costs){
		.variants = lanes,
		.ops = costs->ops,
		.at = LK_ARRAY(&p->arena, lk_cost, (size_t)lanes * costs->ops),
		.variant_of = LK_ARRAY(&p->arena, uint16_t, lanes),
	};
	lk_wire *wires = LK_ARRAY(&p->arena, lk_wire, graph->channels);
	p->beside = lk_fold_beside(graph, costs, times);
	uint32_t deps = graph->ops.count ? graph->ops.dep_begin[graph->ops.count] : 0;
	p->blocks = LK_ARRAY(&p->arena, lk_block, graph->blocks.count);
	p->deps = LK_ARRAY(&p->arena, uint32_t, deps);
	if (!p->both.at || !p->both.variant_of || !wires || !p->blocks || !p->deps) return lk_oom(err);
	if (graph->blocks.count)
		memcpy(p->blocks, graph->blocks.at, graph->blocks.count * sizeof *p->blocks);
	if (deps) memcpy(p->deps, graph->ops.deps, deps * sizeof *p->deps);
	p->view.blocks.at = p->blocks;
	p->view.ops.deps = p->deps;
	for (uint32_t i = 0; i < lanes; i++) {
		p->both.variant_of[i] = (uint16_t)i;
		lk_cost *to = p->both.at + (size_t)i * costs->ops;
		memcpy(to, lk_costs_get(costs, i / 2, 0), costs->ops * sizeof *to);
		for (uint32_t op = 0; i % 2 == DEVICE && op < graph->ops.count; op++) {
			to[op].host_ps = to[op].lead_ps = 0;
			if (graph->ops.stream[op] == LK_STREAM_HOST) to[op].duration_ps = 0;
		}
	}
	for (uint32_t c = 0; c < graph->channels; c++) wires[c] = (lk_wire){UINT32_MAX, UINT32_MAX};
	p->view.ranks = (lk_ranks){.world = lanes, .stages = 1, .chains = lanes};
	p->view.programs.at = &p->program;
	p->view.programs.count = p->view.programs.capacity = 1;
	p->view.teams.count = p->view.team_stages.count = 0; /* what folds meets nobody of a team */
	p->view.wires.at = wires;
	p->view.wires.count = p->view.wires.capacity = graph->channels;
	return LK_OK;
}

void lk_fold_pricer_free(lk_fold_pricer *p) {
	lk_vec_free(&p->program.calls);
	lk_arena_free(&p->arena);
}

/* Cuts the view's block of a part to the part, or makes it whole again. Nothing in a part depends
 * on what is outside. */
static void cut(lk_fold_pricer *p, const lk_fold_run *run, bool to_part) {
	uint32_t id = p->graph->programs.at[run->stage].calls.at[run->begin].block;
	uint32_t shift = run->op_begin - p->graph->blocks.at[id].begin;
	p->blocks[id] = to_part ? lk_fold_block(p->graph, run, run->begin) : p->graph->blocks.at[id];
	for (uint32_t d = p->graph->ops.dep_begin[run->op_begin];
	     d < p->graph->ops.dep_begin[run->op_end]; d++)
		p->deps[d] = p->graph->ops.deps[d] - (to_part ? shift : 0);
}

/* How often a call of a run is made each time the run is. */
static uint32_t times_of(const lk_fold_pricer *p, const lk_fold_run *run, uint32_t call) {
	return lk_fold_is_part(run) ? 1 : p->graph->programs.at[run->stage].calls.at[call].repeat;
}

/* Simulates the run with its calls repeated PERIODIC times at most, and call `less` once less. */
static lk_status simulate(lk_fold_pricer *p, const lk_fold_run *run, uint32_t less, bool record,
                          lk_sim_result *out, lk_error *err) {
	static const uint32_t both[] = {DEVICE, WITH_HOST};
	lk_sim_options options = {.contention = p->contention,
	                          .all_ranks = true,
	                          .record = both,
	                          .record_count = record ? 2 : 0};
	const lk_call *calls = p->graph->programs.at[run->stage].calls.at;
	p->program.calls.count = 0;
	p->program.events = p->graph->programs.at[run->stage].events;
	for (uint32_t c = run->begin; c < run->end; c++) {
		if (!lk_push(&p->program.calls)) return lk_oom(err);
		lk_call *call = lk_last(&p->program.calls);
		*call = calls[c];
		call->repeat = times_of(p, run, c);
		if (call->repeat > PERIODIC) call->repeat = PERIODIC;
		if (c == less) call->repeat--;
	}
	if (!lk_fold_is_part(run)) return lk_sim_run(&p->view, &p->both, &options, out, err);
	cut(p, run, true);
	lk_status status = lk_sim_run(&p->view, &p->both, &options, out, err);
	cut(p, run, false);
	return status;
}

/* Times of all lanes with every repetition. */
static lk_status extrapolate(lk_fold_pricer *p, const lk_fold_run *run, double *lane_ps,
                             double *period_ps, lk_sim_result *first, lk_error *err) {
	uint32_t lanes = p->both.variants, longest = 0;
	LK_TRY(simulate(p, run, UINT32_MAX, true, first, err));
	for (uint32_t i = 0; i < lanes; i++) lane_ps[i] = (double)first->finish_ps[i];
	for (uint32_t c = run->begin; c < run->end; c++) {
		uint32_t times = times_of(p, run, c);
		if (times <= PERIODIC) continue;
		lk_sim_result shorter;
		LK_TRY(simulate(p, run, c, false, &shorter, err));
		for (uint32_t i = 0; i < lanes; i++)
			lane_ps[i] +=
				(double)(first->finish_ps[i] - shorter.finish_ps[i]) * (double)(times - PERIODIC);
		if (times > longest) {
			longest = times;
			*period_ps = (double)(first->finish_ps[DEVICE] - shorter.finish_ps[DEVICE]);
		}
		lk_sim_result_free(&shorter);
	}
	return LK_OK;
}

/* Sums over the operations of a run, repetitions counted. */
typedef struct sums {
	double host, lead, noisy, noisy_squares, slowed, memory, flops, bytes;
	double computing, communicating, intra, nic;
	bool launched;
} sums;

static void add_op(const lk_fold_pricer *p, uint32_t variant, uint32_t op, double times, sums *s) {
	const lk_ops *ops = &p->graph->ops;
	const lk_cost *c = lk_costs_get(p->costs, variant, op);
	double d = (double)c->duration_ps;
	s->flops += times * ops->flops[op];
	s->bytes += times * ops->bytes[op];
	if (ops->stream[op] <= LK_STREAM_COMPUTE && !lk_op_is_comm(ops->kind[op])) {
		s->noisy += times * d;
		s->noisy_squares += times * d * d * (double)c->spread * (double)c->spread;
	}
	if (ops->stream[op] == LK_STREAM_HOST) {
		if (!s->launched) s->lead += (double)c->host_ps + d;
		s->host += times * ((double)c->host_ps + d);
		return;
	}
	if (!s->launched) s->lead += (double)c->lead_ps;
	s->launched = true;
	s->host += times * (double)c->host_ps;
	s->memory += times * d * (double)c->memory;
	s->intra += times * d * (double)c->intra;
	s->nic += times * d * (double)c->nic;
	if (lk_op_is_comm(ops->kind[op])) {
		s->communicating += times * d;
		return;
	}
	s->slowed += times * d * lk_fold_slowed(c, &p->beside);
	s->computing += times * d;
}

static sums add_up(const lk_fold_pricer *p, const lk_fold_run *run, uint32_t variant) {
	sums s = {0};
	for (uint32_t c = run->begin; c < run->end; c++) {
		lk_block block = lk_fold_block(p->graph, run, c);
		uint32_t times = times_of(p, run, c);
		for (uint32_t op = block.begin; times && op < block.end; op++)
			add_op(p, variant, op, times, &s);
	}
	return s;
}

static float share(double sum, double duration) {
	double x = duration > 0 ? sum / duration : 0;
	return (float)(x < 0 ? 0 : x < 1 ? x : 1);
}

static lk_status price(const lk_fold_pricer *p, const lk_fold_run *run, const double *lane_ps,
                       lk_fold_price *out, lk_error *err) {
	for (uint32_t v = 0; v < p->costs->variants; v++) {
		sums s = add_up(p, run, v);
		double duration = lane_ps[2 * v + DEVICE], tail = lane_ps[2 * v + WITH_HOST] - s.host;
		double taken = (double)p->beside.sm;
		if (!(duration < 9e18 && s.host < 9e18))
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "a run of calls takes more than 100 days");
		out->cost[v] = (lk_cost){
			.duration_ps = (int64_t)(duration + 0.5),
			.host_ps = (int64_t)s.host,
			.lead_ps = (int64_t)s.lead,
			.tail_ps = tail > 0 ? (int64_t)(tail + 0.5) : 0,
			.sm = 1,
			.compute =
				taken > 0 && duration > 0 ? (float)(s.slowed / duration * (1 - taken) / taken) : 0,
			.memory = share(s.memory, duration),
			.intra = share(s.intra, s.communicating),
			.nic = share(s.nic, s.communicating),
			.linked = share(s.communicating, duration),
			.linked_alone = share(fmin(s.communicating, duration - s.computing), duration),
			.spread = s.noisy > 0 ? (float)(sqrt(s.noisy_squares) / s.noisy) : 0,
		};
		if (v == 0) out->flops = s.flops, out->bytes = s.bytes;
	}
	return LK_OK;
}

/* First repetitions; where the host limits the run, as it runs with its host. */
static bool take_samples(const lk_fold_run *run, const lk_sim_result *result, const lk_cost *cost,
                         lk_sim_events *samples) {
	uint32_t lane = result->finish_ps[WITH_HOST] - cost->lead_ps >
	                result->finish_ps[DEVICE] + result->finish_ps[DEVICE] / 50;
	int64_t origin = lane == WITH_HOST ? cost->lead_ps : 0;
	for (size_t i = 0; i < result->events.count; i++) {
		const lk_sim_event *e = &result->events.at[i];
		if (e->record != lane) continue;
		if (!lk_push(samples)) return false;
		lk_sim_event *sample = lk_last(samples);
		*sample = *e;
		sample->record = 0;
		sample->call += run->begin;
		sample->ready_ps -= origin, sample->start_ps -= origin, sample->end_ps -= origin;
	}
	return true;
}

lk_status lk_fold_price_run(lk_fold_pricer *p, const lk_fold_run *run, lk_fold_price *out,
                            lk_sim_events *samples, lk_error *err) {
	lk_sim_result first = {0};
	double *lane_ps = calloc(p->both.variants, sizeof *lane_ps);
	if (!lane_ps) return lk_oom(err);
	out->period_ps = 0;
	lk_status status = extrapolate(p, run, lane_ps, &out->period_ps, &first, err);
	if (status == LK_OK) status = price(p, run, lane_ps, out, err);
	if (status == LK_OK && !take_samples(run, &first, &out->cost[0], samples)) status = lk_oom(err);
	lk_sim_result_free(&first);
	free(lane_ps);
	return status;
}
