/* fold_price.c: a run of calls as one operation. In max-plus algebra a run that begins and ends on
 * the compute stream is
 *
 *     end = max(start + D, host + L)
 *
 * D: its duration if the host is far ahead; L: if the device is idle and the host begins. Both are
 * simulated together, as lanes, with the engine that will run the folded graph. So without
 * contention nothing is lost: D is the duration, and L - (the run's host time) the least time
 * between the end of the host's work and of the run (tail_ps).
 *
 * A call repeated n > 4 times is simulated 4 and 3 times, and the difference, one period, is added
 * n - 4 times. That is right if the slower one of device and host is the slower one from the
 * beginning; otherwise the run is simulated with all repetitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "sim/sim_internal.h"
#include "base/check.h"

enum { PERIODIC = 4, DEVICE = 0, WITH_HOST = 1 };

lk_status lk_fold_pricer_new(lk_fold_pricer *pricer, const lk_graph *graph, const lk_costs *costs,
                             const lk_fold_times *times, bool contention, lk_error *err) {
	uint32_t lanes = costs->variants * 2;
	*pricer =
		(lk_fold_pricer){.graph = graph, .costs = costs, .contention = contention, .view = *graph};
	if (costs->variants > UINT16_MAX / 2)
		return lk_fail(err, LK_ERR_INPUT, "step graph", "%u kinds of ranks are too many",
		               costs->variants);
	pricer->both = (lk_costs){
		.variants = lanes,
		.ops = costs->ops,
		.at = LK_ARRAY(&pricer->arena, lk_cost, (size_t)lanes * costs->ops),
		.variant_of = LK_ARRAY(&pricer->arena, uint16_t, lanes),
	};
	lk_wire *wires = LK_ARRAY(&pricer->arena, lk_wire, graph->channels);
	pricer->concurrent = lk_fold_concurrent(graph, costs, times);
	if (!pricer->both.at || !pricer->both.variant_of || !wires) return lk_oom(err);
	for (uint32_t i = 0; i < lanes; i++) {
		pricer->both.variant_of[i] = (uint16_t)i;
		lk_cost *to = pricer->both.at + (size_t)i * costs->ops;
		memcpy(to, lk_costs_get(costs, i / 2, 0), costs->ops * sizeof *to);
		for (uint32_t op = 0; i % 2 == DEVICE && op < graph->ops.count; op++) {
			to[op].host_ps = to[op].lead_ps = 0;
			if (graph->ops.stream[op] == LK_STREAM_HOST) to[op].duration_ps = 0;
		}
	}
	for (uint32_t cost = 0; cost < graph->channels; cost++)
		wires[cost] = (lk_wire){UINT32_MAX, UINT32_MAX};
	pricer->view.ranks = (lk_ranks){.world = lanes, .stages = 1, .chains = lanes};
	pricer->view.programs.at = &pricer->program;
	pricer->view.programs.count = pricer->view.programs.capacity = 1;
	pricer->view.teams.count = pricer->view.team_stages.count =
		0; /* operations of teams never fold */
	pricer->view.wires.at = wires;
	pricer->view.wires.count = pricer->view.wires.capacity = graph->channels;
	return LK_OK;
}

void lk_fold_pricer_free(lk_fold_pricer *pricer) {
	lk_vec_free(&pricer->program.calls);
	lk_arena_free(&pricer->arena);
}

static lk_block run_block(const lk_fold_pricer *pricer, const lk_fold_run *run, uint32_t call) {
	return pricer->graph->blocks.at[pricer->graph->programs.at[run->stage].calls.at[call].block];
}

/* Simulate the run with its calls repeated at most `most` times, and call `less` once less. */
static lk_status run_simulate(lk_fold_pricer *pricer, const lk_fold_run *run, uint32_t most,
                              uint32_t less, bool record, lk_sim_result *out, lk_error *err) {
	static const uint32_t both[] = {DEVICE, WITH_HOST};
	lk_sim_options options = {.contention = pricer->contention,
	                          .apart = true,
	                          .record = both,
	                          .record_count = record ? 2 : 0};
	const lk_call *calls = pricer->graph->programs.at[run->stage].calls.at;
	pricer->program.calls.count = 0;
	pricer->program.events = pricer->graph->programs.at[run->stage].events;
	for (uint32_t cost = run->begin; cost < run->end; cost++) {
		if (!lk_push(&pricer->program.calls)) return lk_oom(err);
		lk_call *call = lk_last(&pricer->program.calls);
		*call = calls[cost];
		if (call->repeat > most) call->repeat = most;
		if (cost == less) call->repeat--;
	}
	return lk_sim_run(&pricer->view, &pricer->both, &options, out, err);
}

/* Host time of one repetition of a call. */
static double call_host_ps(const lk_fold_pricer *pricer, const lk_fold_run *run, uint32_t call,
                           uint32_t variant) {
	lk_block block = run_block(pricer, run, call);
	double sum = 0;
	for (uint32_t op = block.begin; op < block.end; op++) {
		const lk_cost *cost = lk_costs_get(pricer->costs, variant, op);
		sum += (double)cost->host_ps;
		if (pricer->graph->ops.stream[op] == LK_STREAM_HOST) sum += (double)cost->duration_ps;
	}
	return sum;
}

/* The time that one more repetition of a call adds to lane `i`; false if it is not constant. */
static bool call_find_period(const lk_fold_pricer *pricer, const lk_fold_run *run, uint32_t call,
                             uint32_t i, const lk_sim_result *first, const lk_sim_result *shorter,
                             double *period) {
	uint32_t device = i - i % 2 + DEVICE;
	double of_device = (double)(first->finish_ps[device] - shorter->finish_ps[device]);
	*period = (double)(first->finish_ps[i] - shorter->finish_ps[i]);
	if (i == device) return true;
	double slower = fmax(of_device, call_host_ps(pricer, run, call, i / 2));
	return fabs(*period - slower) <= 1e-6 * slower + 2; /* rounded to picoseconds */
}

/* Times of all lanes with every repetition, extrapolated from shorter runs; *told false: not
 * possible. */
static lk_status run_extrapolate(lk_fold_pricer *pricer, const lk_fold_run *run, double *lane_ps,
                                 const lk_sim_result *first, bool *told, lk_error *err) {
	uint32_t lanes = pricer->both.variants;
	*told = true;
	for (uint32_t i = 0; i < lanes; i++) lane_ps[i] = (double)first->finish_ps[i];
	for (uint32_t call = run->begin; call < run->end && *told; call++) {
		uint32_t times = pricer->graph->programs.at[run->stage].calls.at[call].repeat;
		if (times <= PERIODIC) continue;
		lk_sim_result shorter;
		LK_TRY(run_simulate(pricer, run, PERIODIC, call, false, &shorter, err));
		for (uint32_t i = 0; i < lanes && *told; i++) {
			double period;
			*told = call_find_period(pricer, run, call, i, first, &shorter, &period);
			lane_ps[i] += period * (double)(times - PERIODIC);
		}
		lk_sim_result_free(&shorter);
	}
	return LK_OK;
}

/* Times of all lanes with every repetition, and the events in `first`. */
static lk_status run_time_lanes(lk_fold_pricer *pricer, const lk_fold_run *run, double *lane_ps,
                                lk_sim_result *first, lk_error *err) {
	bool told;
	LK_TRY(run_simulate(pricer, run, PERIODIC, UINT32_MAX, true, first, err));
	LK_TRY(run_extrapolate(pricer, run, lane_ps, first, &told, err));
	if (told) return LK_OK;
	lk_sim_result_free(first);
	LK_TRY(run_simulate(pricer, run, UINT32_MAX, UINT32_MAX, true, first, err));
	for (uint32_t i = 0; i < pricer->both.variants; i++) lane_ps[i] = (double)first->finish_ps[i];
	return LK_OK;
}

/* Sums over the operations of a run, repetitions counted. */
typedef struct lk_run_sums {
	double host, lead, noisy, noisy_squares, slowed, memory, flops, bytes;
	double computing, communicating, intra, nic, tier[LK_TIERS];
	bool launched;
} lk_run_sums;

static void sums_add_op(const lk_fold_pricer *pricer, uint32_t variant, uint32_t op, double times,
                        lk_run_sums *sums) {
	LK_ASSERT(op < pricer->graph->ops.count);
	const lk_ops *ops = &pricer->graph->ops;
	const lk_cost *cost = lk_costs_get(pricer->costs, variant, op);
	double duration = (double)cost->duration_ps;
	sums->flops += times * ops->flops[op];
	sums->bytes += times * ops->bytes[op];
	if (ops->stream[op] <= LK_STREAM_COMPUTE && !lk_op_is_comm(ops->kind[op])) {
		sums->noisy += times * duration;
		sums->noisy_squares +=
			times * duration * duration * (double)cost->spread * (double)cost->spread;
	}
	if (ops->stream[op] == LK_STREAM_HOST) {
		if (!sums->launched) sums->lead += (double)cost->host_ps + duration;
		sums->host += times * ((double)cost->host_ps + duration);
		return;
	}
	if (!sums->launched) sums->lead += (double)cost->lead_ps;
	sums->launched = true;
	sums->host += times * (double)cost->host_ps;
	sums->memory += times * duration * (double)cost->memory;
	sums->intra += times * duration * (double)cost->intra;
	sums->nic += times * duration * (double)cost->nic;
	for (int tier = 0; tier < LK_TIERS; tier++)
		sums->tier[tier] += times * duration * (double)cost->tier[tier];
	if (lk_op_is_comm(ops->kind[op])) {
		sums->communicating += times * duration;
		return;
	}
	sums->slowed += times * duration * lk_fold_slowdown(cost, &pricer->concurrent);
	sums->computing += times * duration;
}

static lk_run_sums sums_of_run(const lk_fold_pricer *pricer, const lk_fold_run *run,
                               uint32_t variant) {
	lk_run_sums sums = {0};
	for (uint32_t cost = run->begin; cost < run->end; cost++) {
		lk_block block = run_block(pricer, run, cost);
		uint32_t times = pricer->graph->programs.at[run->stage].calls.at[cost].repeat;
		for (uint32_t op = block.begin; times && op < block.end; op++)
			sums_add_op(pricer, variant, op, times, &sums);
	}
	return sums;
}

static float share_of(double sum, double duration) {
	double x = duration > 0 ? sum / duration : 0;
	if (x < 0) return 0;
	return x < 1 ? (float)x : 1;
}

static lk_status run_price(const lk_fold_pricer *pricer, const lk_fold_run *run,
                           const double *lane_ps, lk_fold_price *out, lk_error *err) {
	for (uint32_t variant = 0; variant < pricer->costs->variants; variant++) {
		lk_run_sums sums = sums_of_run(pricer, run, variant);
		double duration = lane_ps[2 * variant + DEVICE],
			   tail = lane_ps[2 * variant + WITH_HOST] - sums.host;
		double taken = (double)pricer->concurrent.sm;
		if (!(duration < 9e18 && sums.host < 9e18))
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "a run of calls takes more than 100 days");
		out->cost[variant] = (lk_cost){
			.duration_ps = (int64_t)(duration + 0.5),
			.host_ps = (int64_t)sums.host,
			.lead_ps = (int64_t)sums.lead,
			.tail_ps = tail > 0 ? (int64_t)(tail + 0.5) : 0,
			.sm = 1,
			.compute = taken > 0 && duration > 0
		                   ? (float)(sums.slowed / duration * (1 - taken) / taken)
		                   : 0,
			.memory = share_of(sums.memory, duration),
			.intra = share_of(sums.intra, sums.communicating),
			.nic = share_of(sums.nic, sums.communicating),
			.linked = share_of(sums.communicating, duration),
			.linked_alone = share_of(fmin(sums.communicating, duration - sums.computing), duration),
			.spread = sums.noisy > 0 ? (float)(sqrt(sums.noisy_squares) / sums.noisy) : 0,
		};
		for (int tier = 0; tier < LK_TIERS; tier++)
			out->cost[variant].tier[tier] = share_of(sums.tier[tier], sums.communicating);
		if (variant > 0) continue;
		out->flops = sums.flops;
		out->bytes = sums.bytes;
	}
	return LK_OK;
}

/* First repetitions; if the host limits the run, from the run with its host. */
static bool samples_take(const lk_fold_run *run, const lk_sim_result *result, const lk_cost *cost,
                         lk_sim_events *samples) {
	uint32_t lane = result->finish_ps[WITH_HOST] - cost->lead_ps >
	                result->finish_ps[DEVICE] + result->finish_ps[DEVICE] / 50;
	int64_t origin = lane == WITH_HOST ? cost->lead_ps : 0;
	for (size_t i = 0; i < result->events.count; i++) {
		const lk_sim_event *event = &result->events.at[i];
		if (event->record != lane) continue;
		if (!lk_push(samples)) return false;
		lk_sim_event *sample = lk_last(samples);
		*sample = *event;
		sample->record = 0;
		sample->call += run->begin;
		sample->ready_ps -= origin;
		sample->start_ps -= origin;
		sample->end_ps -= origin;
	}
	return true;
}

lk_status lk_fold_price_run(lk_fold_pricer *pricer, const lk_fold_run *run, lk_fold_price *out,
                            lk_sim_events *samples, lk_error *err) {
	lk_sim_result first = {0};
	double *lane_ps = calloc(pricer->both.variants, sizeof *lane_ps);
	if (!lane_ps) return lk_oom(err);
	lk_status status = run_time_lanes(pricer, run, lane_ps, &first, err);
	if (status == LK_OK) status = run_price(pricer, run, lane_ps, out, err);
	if (status == LK_OK && !samples_take(run, &first, &out->cost[0], samples)) status = lk_oom(err);
	lk_sim_result_free(&first);
	free(lane_ps);
	return status;
}
