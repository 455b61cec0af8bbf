/* fold_price.c: a run of calls as one operation. In max-plus algebra a run that begins and ends on the compute stream
 * is
 *
 *     end = max(start + D, host + L)
 *
 * D: how long it takes when the host is far ahead; L: when the device is idle and the host begins. Both are simulated
 * side by side, as lanes, with the engine that will run the folded graph. So without contention nothing is lost: D is
 * the duration, and L - (the run's host time) the least time between the end of the host's work and of the run
 * (tail_ps).
 *
 * A call repeated n > 4 times is simulated 4 and 3 times, and the difference, one period, added n - 4 times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fold.h"

enum { PERIODIC = 4, DEVICE = 0, WITH_HOST = 1 };

lk_status lk_fold_pricer_new(lk_fold_pricer *p, const lk_graph *graph, const lk_costs *costs, bool contention,
							 lk_error *err) {
	uint32_t lanes = costs->variants * 2;
	*p = (lk_fold_pricer){.graph = graph, .costs = costs, .contention = contention, .view = *graph};
	if (costs->variants > UINT16_MAX / 2)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%u kinds of ranks are too many", costs->variants);
	p->both = (lk_costs){
		.variants = lanes,
		.ops = costs->ops,
		.at = LK_ARRAY(&p->arena, lk_cost, (size_t)lanes * costs->ops),
		.variant_of = LK_ARRAY(&p->arena, uint16_t, lanes),
	};
	lk_wire *wires = LK_ARRAY(&p->arena, lk_wire, graph->channels);
	if (!p->both.at || !p->both.variant_of || !wires) return lk_oom(err);
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

/* Simulates the run with its calls repeated PERIODIC times at most, and call `less` once less. */
static lk_status simulate(lk_fold_pricer *p, const lk_fold_run *run, uint32_t less, bool record, lk_sim_result *out,
						  lk_error *err) {
	static const uint32_t both[] = {DEVICE, WITH_HOST};
	lk_sim_options options = {
		.contention = p->contention, .all_ranks = true, .record = both, .record_count = record ? 2 : 0};
	const lk_call *calls = p->graph->programs.at[run->stage].calls.at;
	p->program.calls.count = 0;
	p->program.events = p->graph->programs.at[run->stage].events;
	for (uint32_t c = run->begin; c < run->end; c++) {
		if (!lk_push(&p->program.calls)) return lk_oom(err);
		lk_call *call = lk_last(&p->program.calls);
		*call = calls[c];
		if (call->repeat > PERIODIC) call->repeat = PERIODIC;
		if (c == less) call->repeat--;
	}
	return lk_sim_run(&p->view, &p->both, &options, out, err);
}

/* Times of all lanes with every repetition. */
static lk_status extrapolate(lk_fold_pricer *p, const lk_fold_run *run, double *lane_ps, double *period_ps,
							 lk_sim_result *first, lk_error *err) {
	const lk_call *calls = p->graph->programs.at[run->stage].calls.at;
	uint32_t lanes = p->both.variants, longest = 0;
	LK_TRY(simulate(p, run, UINT32_MAX, true, first, err));
	for (uint32_t i = 0; i < lanes; i++) lane_ps[i] = (double)first->finish_ps[i];
	for (uint32_t c = run->begin; c < run->end; c++) {
		if (calls[c].repeat <= PERIODIC) continue;
		lk_sim_result shorter;
		LK_TRY(simulate(p, run, c, false, &shorter, err));
		for (uint32_t i = 0; i < lanes; i++)
			lane_ps[i] += (double)(first->finish_ps[i] - shorter.finish_ps[i]) * (double)(calls[c].repeat - PERIODIC);
		if (calls[c].repeat > longest) {
			longest = calls[c].repeat;
			*period_ps = (double)(first->finish_ps[DEVICE] - shorter.finish_ps[DEVICE]);
		}
		lk_sim_result_free(&shorter);
	}
	return LK_OK;
}

/* Sums over the operations of a run, repetitions counted. */
typedef struct sums {
	double host, lead, noisy, noisy_squares, sm, compute, memory, intra, nic, flops, bytes;
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
	s->sm += times * d * (double)c->sm;
	s->memory += times * d * (double)c->memory;
	s->intra += times * d * (double)c->intra;
	s->nic += times * d * (double)c->nic;
	if (!lk_op_is_comm(ops->kind[op])) s->compute += times * d * (double)c->compute;
}

static sums add_up(const lk_fold_pricer *p, const lk_fold_run *run, uint32_t variant) {
	sums s = {0};
	const lk_call *calls = p->graph->programs.at[run->stage].calls.at;
	for (uint32_t c = run->begin; c < run->end; c++) {
		const lk_block *block = &p->graph->blocks.at[calls[c].block];
		for (uint32_t op = block->begin; calls[c].repeat && op < block->end; op++)
			add_op(p, variant, op, calls[c].repeat, &s);
	}
	return s;
}

static float share(double sum, double duration) {
	double x = duration > 0 ? sum / duration : 0;
	return (float)(x < 1 ? x : 1);
}

static lk_status price(const lk_fold_pricer *p, const lk_fold_run *run, const double *lane_ps, lk_fold_price *out,
					   lk_error *err) {
	for (uint32_t v = 0; v < p->costs->variants; v++) {
		sums s = add_up(p, run, v);
		double duration = lane_ps[2 * v + DEVICE], tail = lane_ps[2 * v + WITH_HOST] - s.host;
		if (!(duration < 9e18 && s.host < 9e18))
			return lk_fail(err, LK_ERR_INPUT, "step graph", "a run of calls takes more than 100 days");
		out->cost[v] = (lk_cost){
			.duration_ps = (int64_t)(duration + 0.5),
			.host_ps = (int64_t)s.host,
			.lead_ps = (int64_t)s.lead,
			.tail_ps = tail > 0 ? (int64_t)(tail + 0.5) : 0,
			.sm = share(s.sm, duration),
			.compute = share(s.compute, duration),
			.memory = share(s.memory, duration),
			.intra = share(s.intra, duration),
			.nic = share(s.nic, duration),
			.spread = s.noisy > 0 ? (float)(sqrt(s.noisy_squares) / s.noisy) : 0,
		};
		if (v == 0) out->flops = s.flops, out->bytes = s.bytes;
	}
	return LK_OK;
}

/* First repetitions; where the host limits the run, as it runs with its host. */
static bool take_samples(const lk_fold_run *run, const lk_sim_result *result, const lk_cost *cost,
						 lk_sim_events *samples) {
	uint32_t lane =
		result->finish_ps[WITH_HOST] - cost->lead_ps > result->finish_ps[DEVICE] + result->finish_ps[DEVICE] / 50;
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

lk_status lk_fold_price_run(lk_fold_pricer *p, const lk_fold_run *run, lk_fold_price *out, lk_sim_events *samples,
							lk_error *err) {
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
