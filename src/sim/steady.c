/* steady.c: a step of many micro-batches in its steady state.
 *
 * In the middle of its program every stage repeats a *period* of calls. Times are
 * translation-invariant: once everything in a period on all ranks happens a constant time after the
 * same event of the previous period, it continues so until a program leaves its periods. The step
 * is simulated with a few periods, recording every operation of every rank. If they have reached a
 * steady state, the omitted periods are inserted: copies of the last steady one, shifted by whole
 * picoseconds; what follows is shifted by all of them. Otherwise the step is simulated as it is. So
 * the answer is the same to the picosecond.
 *
 * A step of which periods are missing may do with a nearly steady state: rounding and kernels that
 * slow one another keep periods from being equal, and of two cycles of nearly one length the longer
 * one decides only late. What is inserted shifts by the period of the slowest rank: everything
 * follows it in the end. Where others are faster still, the caller has to see that the step's end
 * grows at that rate; that it grows evenly does not suffice, as a slower rank shows there only when
 * its lead is used up.
 *
 * The steady state is read off the recorded times. Periods [first, last] of all ranks shift by one
 * constant; at some moment everything before them has ended on all ranks, and one shift later no
 * rank has reached their end. From that moment on the ranks depend only on these periods:
 * - dependencies are set anew in each period, or were set before all of them and have ended: stale
 * dependencies cannot delay a period whose times keep shifting;
 * - the host thread's clock may not be recorded. If nothing synchronises it with the device, it
 * advances by the period's launch times, and at most as fast as the period: then it delays the same
 * operations as before, or fewer, and the recorded times already include its delays. */
#include "base/arena.h"
#include "sim/sim_internal.h"

#include <math.h>
#include <stdlib.h>

enum {
	/* Simulated periods: two micro-batches per stage, in which the pipeline fills and settles, and
	 * some more. */
	KEPT_A_STAGE = 2,
	KEPT_MORE = 8,
	WORTH = 4,             /* the program must have this many times as many */
	EVENTS_MOST = 1 << 22, /* most recorded events */
	LEAST_RATED = 2,       /* periods of which a rate is read */
	SHORTEST_CALLS = 256,  /* programs with fewer calls are simulated as they are */
};

/* Rates that agree, relative: a third of the error that is allowed. */
static const double NEARLY = 3e-5;

/* ---- periods ---- */

static bool calls_alike(const lk_call *a, const lk_call *b) {
	return a->block == b->block && a->repeat == b->repeat && a->arg[0] == b->arg[0] &&
	       a->arg[1] == b->arg[1];
}

/* The number of a program's last micro-batch, whose backward passes may be of many calls each. */
static int program_last_microbatch(const lk_program *program) {
	int last = -1;
	for (size_t c = 0; c < program->calls.count; c++)
		if (program->calls.at[c].microbatch > last) last = program->calls.at[c].microbatch;
	return last;
}

/* The period that most calls of a program's micro-batches but the last repeat; false: none. */
static bool steady_find_part(const lk_program *program, lk_steady_part *part) {
	const lk_call *calls = program->calls.at;
	size_t count = 0, middle = 0, last = (size_t)program_last_microbatch(program);
	for (size_t c = 0; c < program->calls.count; c++) count += (size_t)calls[c].microbatch < last;
	for (size_t left = count / 2; left; middle++) left -= (size_t)calls[middle].microbatch < last;
	for (size_t length = 1; length <= count / (2 * WORTH); length++) {
		size_t alike = 0, begin = middle - length * 3 / 2, end = begin + 3 * length;
		if (end > program->calls.count) continue;
		while (alike < 2 * length &&
		       calls_alike(&calls[begin + alike], &calls[begin + alike + length]))
			alike++;
		if (alike < 2 * length) continue;
		while (begin > 0 && calls_alike(&calls[begin - 1], &calls[begin - 1 + length])) begin--;
		while (end < program->calls.count && calls_alike(&calls[end], &calls[end - length])) end++;
		if (end - begin < count / 2) continue;
		*part = (lk_steady_part){.begin = begin, .length = length, .count = (end - begin) / length};
		return true;
	}
	return false;
}

/* Micro-batches by which a period advances; 0: unknown. */
static int64_t part_advance(const lk_program *program, const lk_steady_part *part) {
	/* its beginning may be calls that happen to be alike; from its middle on numbers may be left
	 * out */
	const lk_call *calls = program->calls.at + part->begin + part->count / 4 * part->length;
	for (size_t i = 0; i < part->length; i++)
		if (calls[i].microbatch >= 0)
			return (int64_t)calls[i + part->length].microbatch - calls[i].microbatch;
	return 0;
}

/* Let periods of all stages advance by the same number of micro-batches, and return it; 0: not
 * possible. */
static int64_t steady_align(const lk_sim *sim, lk_steady *steady) {
	int64_t most = 0, advance;
	for (uint32_t s = 0; s < sim->stages; s++) {
		advance = part_advance(&sim->graph->programs.at[s], &steady->part[s]);
		if (advance <= 0) return 0;
		if (advance > most) most = advance;
	}
	steady->periods = SIZE_MAX;
	for (uint32_t s = 0; s < sim->stages; s++) {
		lk_steady_part *part = &steady->part[s];
		advance = part_advance(&sim->graph->programs.at[s], part);
		if (most % advance) return 0;
		part->length *= (size_t)(most / advance);
		part->count /= (size_t)(most / advance);
		if (part->count < steady->periods) steady->periods = part->count;
	}
	return most;
}

/* Contents of a period: messages[channel], operations, the first one on the compute stream. False:
 * something in it involves more than its stage and its neighbours, or it computes nothing. */
static bool part_count(const lk_sim *sim, uint32_t s, lk_steady_part *part, uint64_t *messages) {
	const lk_program *program = &sim->graph->programs.at[s];
	bool computes = false;
	for (size_t c = 0; c < part->begin + part->length; c++) {
		const lk_call *call = &program->calls.at[c];
		const lk_block *block = &sim->graph->blocks.at[call->block];
		if (c < part->begin) {
			part->before += (uint64_t)call->repeat * (block->end - block->begin);
			continue;
		}
		for (uint32_t op = block->begin; op < block->end && call->repeat; op++) {
			const lk_insn *insn = &sim->insn[op];
			if (insn->what == LK_INSN_CROSS || insn->what == LK_INSN_TEAM) return false;
			if (insn->what == LK_INSN_P2P) messages[insn->channel] += call->repeat;
			part->synchronised |= insn->what == LK_INSN_HOST;
			if (!computes && (insn->flags & LK_INSN_MAIN)) {
				part->compute = part->ops + (op - block->begin);
				computes = true;
			}
		}
		part->ops += (uint64_t)call->repeat * (block->end - block->begin);
	}
	return computes;
}

/* Whether a period sends as many messages as the other end receives. */
static bool steady_pairs(const lk_sim *sim, const uint64_t *messages) {
	const lk_graph *graph = sim->graph;
	for (size_t port = 0; port < (size_t)sim->stages * graph->channels; port++) {
		lk_wire to = graph->wires.at[port];
		if (!messages[port]) continue;
		if (to.stage >= sim->stages || to.channel >= graph->channels ||
		    messages[(size_t)to.stage * graph->channels + to.channel] != messages[port])
			return false;
	}
	return true;
}

static lk_status steady_count(lk_sim *sim, lk_steady *steady, bool *found, lk_error *err) {
	uint32_t channels = sim->graph->channels;
	uint64_t *messages = LK_ARRAY(sim->arena, uint64_t, (size_t)sim->stages * channels + 1);
	if (!messages) return lk_oom(err);
	*found = true;
	for (uint32_t s = 0; s < sim->stages && *found; s++)
		*found = part_count(sim, s, &steady->part[s], messages + (size_t)s * channels);
	*found = *found && steady_pairs(sim, messages);
	return LK_OK;
}

/* ---- the short step ---- */

/* The step with all ranks recorded. */
static lk_status steady_set_options(lk_sim *sim, lk_steady *steady, lk_error *err) {
	uint32_t *record = LK_ARRAY(sim->arena, uint32_t, (size_t)sim->stages * sim->lanes);
	if (!record) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++)
		for (uint32_t lane = 0; lane < sim->lanes; lane++)
			record[s * sim->lanes + lane] = lk_rank_of(sim->graph, s, sim->lane_chain[lane]);
	steady->options = *sim->options;
	steady->options.all_ranks = false;
	steady->options.give_up_ps = 0;
	steady->options.left_out = 0;
	steady->options.record = record;
	steady->options.record_count = sim->stages * sim->lanes;
	return LK_OK;
}

/* Drop this many periods from the step. */
static lk_status steady_shorten(lk_sim *sim, lk_steady *steady, lk_error *err) {
	const lk_graph *graph = sim->graph;
	steady->graph.programs.at = LK_ARRAY(sim->arena, lk_program, sim->stages);
	if (!steady->graph.programs.at) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++) {
		const lk_program *whole = &graph->programs.at[s];
		const lk_steady_part *part = &steady->part[s];
		lk_program *brief = &steady->graph.programs.at[s];
		size_t out = part->length * steady->left_out, count = whole->calls.count - out;
		*brief = *whole;
		brief->calls.count = count;
		brief->calls.at = LK_ARRAY(sim->arena, lk_call, count);
		if (!brief->calls.at) return lk_oom(err);
		memcpy(brief->calls.at, whole->calls.at, part->begin * sizeof(lk_call));
		memcpy(brief->calls.at + part->begin, whole->calls.at + part->begin + out,
		       (count - part->begin) * sizeof(lk_call));
	}
	return LK_OK;
}

/* Set how many periods the short step has, and lacks; false: not worth it. */
static bool steady_divide(const lk_sim *sim, size_t more, size_t advance, lk_steady *steady) {
	if (steady->lacking) {
		steady->left_out = sim->options->left_out / advance;
		return sim->options->left_out % advance == 0;
	}
	size_t kept = more * (KEPT_A_STAGE * (size_t)sim->stages / advance + KEPT_MORE);
	if (steady->periods < WORTH * kept) return false;
	steady->left_out = steady->periods - kept;
	steady->periods = kept;
	return true;
}

/* Operations of a rank of the stage in the short step. */
static uint64_t steady_brief_ops(const lk_sim *sim, const lk_steady *steady, uint32_t s) {
	return sim->stage[s].ops - (steady->lacking ? 0 : steady->part[s].ops * steady->left_out);
}

lk_status lk_steady_find(lk_sim *sim, size_t more, lk_steady *steady, bool *found, lk_error *err) {
	uint64_t events = 0;
	*steady = (lk_steady){.graph = *sim->graph, .lacking = sim->options->left_out > 0};
	*found = false;
	if (sim->graph->traced || sim->options->apart || lk_sim_jittered(sim)) return LK_OK;
	for (uint32_t s = 0; s < sim->stages && !steady->lacking; s++)
		if (sim->graph->programs.at[s].calls.count < SHORTEST_CALLS) return LK_OK;
	steady->part = LK_ARRAY(sim->arena, lk_steady_part, sim->stages);
	if (!steady->part) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++)
		if (!steady_find_part(&sim->graph->programs.at[s], &steady->part[s])) return LK_OK;
	size_t advance = (size_t)steady_align(sim, steady);
	if (!advance || !steady_divide(sim, more, advance, steady)) return LK_OK;
	LK_TRY(steady_count(sim, steady, found, err));
	if (!*found) return LK_OK;
	for (uint32_t s = 0; s < sim->stages; s++)
		events += steady_brief_ops(sim, steady, s) * sim->lanes;
	*found = events <= EVENTS_MOST;
	if (!*found) return LK_OK;
	LK_TRY(steady_set_options(sim, steady, err));
	return steady->lacking ? LK_OK : steady_shorten(sim, steady, err);
}

/* ---- detecting the steady state ---- */

/* The recorded operations of a rank in the short step. */
typedef struct steady_rank {
	const lk_steady_part *part;
	const lk_sim_event *events;
	uint64_t ops;
} steady_rank;

static const lk_sim_event *rank_period(const steady_rank *rank, size_t period) {
	return rank->events + rank->part->before + period * rank->part->ops;
}

/* Whether everything in a period happens exactly `shift` after the same event of the previous
 * one. */
static bool period_shifts(const steady_rank *rank, size_t period, int64_t shift) {
	const lk_sim_event *event = rank_period(rank, period), *before = event - rank->part->ops;
	for (uint64_t i = 0; i < rank->part->ops; i++)
		if (event[i].ready_ps - before[i].ready_ps != shift ||
		    event[i].start_ps - before[i].start_ps != shift ||
		    event[i].end_ps - before[i].end_ps != shift)
			return false;
	return true;
}

static int64_t rank_latest_end(const steady_rank *rank, uint64_t from, uint64_t to) {
	int64_t latest = 0;
	for (uint64_t i = from; i < to; i++)
		if (rank->events[i].end_ps > latest) latest = rank->events[i].end_ps;
	return latest;
}

/* Whether launches of a period take at most the period, or wait for the device. */
static bool host_keeps_up(const lk_sim *sim, uint32_t s, const lk_steady_part *part,
                          uint32_t variant, int64_t shift) {
	const lk_call *calls = sim->graph->programs.at[s].calls.at + part->begin;
	int64_t host = 0;
	if (part->synchronised) return true;
	for (size_t c = 0; c < part->length; c++) {
		const lk_block *block = &sim->graph->blocks.at[calls[c].block];
		for (uint32_t op = block->begin; op < block->end; op++)
			host += lk_costs_get(sim->costs, variant, op)->host_ps * calls[c].repeat;
	}
	return host <= shift;
}

static void steady_ranks(const lk_sim *sim, const lk_steady *steady, const lk_sim_result *brief,
                         steady_rank *rank) {
	const lk_sim_event *events = brief->events.at;
	for (uint32_t i = 0; i < sim->stages * sim->lanes; i++) {
		uint64_t ops = steady_brief_ops(sim, steady, i / sim->lanes);
		rank[i] = (steady_rank){&steady->part[i / sim->lanes], events, ops};
		events += ops;
	}
	LK_ASSERT(events == brief->events.at + brief->events.count); /* every operation is recorded */
}

/* Find the periods that shift by one constant. */
static bool steady_find_equal(const lk_sim *sim, lk_steady *steady, const steady_rank *rank) {
	uint32_t ranks = sim->stages * sim->lanes;
	size_t middle = steady->periods / 2, first = 0;
	int64_t shift = rank_period(rank, middle)->start_ps - rank_period(rank, middle - 1)->start_ps;
	if (shift <= 0) return false;
	steady->shift = shift;
	steady->last = steady->periods - 1;
	for (uint32_t i = 0; i < ranks; i++) {
		size_t one = middle, end = middle;
		while (one > first && period_shifts(&rank[i], one, shift)) one--;
		while (end < steady->last && period_shifts(&rank[i], end + 1, shift)) end++;
		first = one;
		steady->last = end;
	}
	steady->first = first;
	return steady->last >= first + 2;
}

/* The rate at which a rank's operations advance over `count` periods: the slope of the least
 * squares of their mean ends, ps a period. */
static double rank_rate(const steady_rank *rank, size_t period, size_t count) {
	double middle = (double)(count - 1) / 2, sum = 0, squares = 0;
	int64_t origin = rank_period(rank, period)->end_ps;
	for (size_t k = 0; k < count; k++) {
		const lk_sim_event *event = rank_period(rank, period + k);
		double mean = 0, from = (double)k - middle;
		for (uint64_t i = 0; i < rank->part->ops; i++) mean += (double)(event[i].end_ps - origin);
		sum += from * mean / (double)rank->part->ops;
		squares += from * from;
	}
	return sum / squares;
}

/* Find the rate of the last quarter of the periods: that of the slowest rank, where it is the same
 * in both of its halves. What makes ranks differ at the beginning is used up there, or the rate is
 * in doubt: a rank that is still faster may be what ends the step. */
static bool steady_find_rate(const lk_sim *sim, lk_steady *steady, const steady_rank *rank) {
	size_t half = steady->periods < 8 * LEAST_RATED ? LEAST_RATED : steady->periods / 8;
	double least = INFINITY, most[2] = {0, 0};
	if (sim->options->exactly || steady->periods < 4 * half) return false;
	steady->first = steady->periods - 2 * half;
	steady->last = steady->periods - 1;
	for (uint32_t i = 0; i < sim->stages * sim->lanes; i++)
		for (size_t k = 0; k < 2; k++) {
			double rate = rank_rate(&rank[i], steady->first + k * half, half);
			least = fmin(least, rate);
			most[k] = fmax(most[k], rate);
		}
	steady->shift = llround(fmax(most[0], most[1]));
	steady->doubtful = least < (1 - NEARLY) * (double)steady->shift;
	return least > 0 && fabs(most[1] - most[0]) <= NEARLY * most[0];
}

/* Find the steady periods and their shift. */
static bool steady_settle(const lk_sim *sim, lk_steady *steady, const steady_rank *rank) {
	int64_t over = 0, ahead = INT64_MAX;
	if (!steady_find_equal(sim, steady, rank) &&
	    !(steady->lacking && steady_find_rate(sim, steady, rank)))
		return false;
	int64_t shift = steady->shift;
	for (uint32_t i = 0; i < sim->stages * sim->lanes; i++) {
		const lk_sim_stage *stage = &sim->stage[i / sim->lanes];
		uint32_t lane = i % sim->lanes;
		uint32_t variant = stage->variant == LK_MIXED ? stage->variants[lane] : stage->variant;
		const lk_steady_part *part = rank[i].part;
		if (!host_keeps_up(sim, i / sim->lanes, part, variant, shift)) return false;
		over = lk_later(
			over, rank_latest_end(&rank[i], 0, part->before + (steady->first + 1) * part->ops));
		int64_t start = rank_period(&rank[i], steady->last)[part->compute].start_ps;
		if (start < ahead) ahead = start;
	}
	return over + shift < ahead;
}

/* ---- the whole step ---- */

/* Append events of a rank, shifted by calls and time. */
static lk_sim_event *steady_put(lk_sim_event *to, const lk_sim_event *from, uint64_t count,
                                uint32_t record, size_t calls, int64_t shift) {
	for (uint64_t i = 0; i < count; i++) {
		to[i] = from[i];
		to[i].record = record;
		to[i].call += (uint32_t)calls;
		to[i].ready_ps += shift;
		to[i].start_ps += shift;
		to[i].end_ps += shift;
	}
	return to + count;
}

/* A recorded rank's events. */
static void steady_put_rank(const lk_steady *steady, const steady_rank *rank, uint32_t record,
                            lk_sim_event *out) {
	const lk_steady_part *part = rank->part;
	uint64_t until = part->before + (steady->last + 1) * part->ops;
	out = steady_put(out, rank->events, until, record, 0, 0);
	for (size_t more = 1; more <= steady->left_out; more++)
		out = steady_put(out, rank_period(rank, steady->last), part->ops, record,
		                 more * part->length, (int64_t)more * steady->shift);
	steady_put(out, rank->events + until, rank->ops - until, record,
	           steady->left_out * part->length, (int64_t)steady->left_out * steady->shift);
}

/* Which folded runs shared the device: omitted periods count like the last two steady ones. NULL:
 * out of memory. */
static bool *steady_shared(const lk_sim *sim, const lk_steady *steady, const bool *brief) {
	size_t calls = 0;
	for (uint32_t s = 0; s < sim->stages; s++) calls += sim->graph->programs.at[s].calls.count;
	bool *shared = calloc(calls + 1, sizeof *shared), *to = shared;
	for (uint32_t s = 0; s < sim->stages && shared; s++) {
		const lk_steady_part *part = &steady->part[s];
		size_t length = part->length, until = part->begin + (steady->last + 1) * length;
		size_t count = steady->graph.programs.at[s].calls.count;
		const bool *last = brief + until - length;
		memcpy(to, brief, until);
		to += until;
		for (size_t more = 0; more < steady->left_out; more++)
			for (size_t c = 0; c < length; c++) *to++ = last[c] || *(last + c - length);
		memcpy(to, brief + until, count - until);
		to += count - until;
		brief += count;
	}
	return shared;
}

/* ---- the step that lacks periods ---- */

static int64_t rank_first_arrival(const steady_rank *rank, uint64_t from, uint64_t to) {
	int64_t first = INT64_MAX;
	for (uint64_t i = from; i < to; i++)
		if (rank->events[i].ready_ps < first) first = rank->events[i].ready_ps;
	return first;
}

/* Find the moment at which omitted periods are inserted: one shift earlier everything before the
 * steady periods has ended, and nothing after them has begun before it. False: no such moment. */
static bool rank_find_gap(const lk_steady *steady, const steady_rank *rank, int64_t *at_ps) {
	const lk_steady_part *part = rank->part;
	uint64_t last = part->before + steady->last * part->ops, after = last + part->ops;
	int64_t next = rank_first_arrival(rank, last, after) + steady->shift,
			rest = rank_first_arrival(rank, after, rank->ops);
	*at_ps = next < rest ? next : rest;
	return rank_latest_end(rank, 0, part->before + (steady->first + 1) * part->ops) <=
	       *at_ps - steady->shift;
}

/* Take over the events, and state the gap among them. */
static bool steady_take_lacking(lk_sim *sim, const lk_steady *steady, const steady_rank *rank,
                                lk_sim_result *brief, lk_sim_result *out) {
	out->gap = (lk_sim_gap){.times = steady->left_out, .shift_ps = steady->shift};
	out->gap.at_ps = calloc(sim->options->record_count + 1, sizeof *out->gap.at_ps);
	if (!out->gap.at_ps) return false;
	for (uint32_t s = 0; s < sim->stages; s++) {
		lk_sim_stage *stage = &sim->stage[s];
		for (uint32_t r = 0; r < stage->record_count; r++) {
			const steady_rank *of = &rank[s * sim->lanes + stage->record_lane[r]];
			if (!rank_find_gap(steady, of, &out->gap.at_ps[stage->records[r]])) return false;
			steady_put(sim->events + stage->record_base[r], of->events, of->ops, stage->records[r],
			           0, 0);
		}
	}
	out->shared = brief->shared;
	brief->shared = NULL;
	for (uint32_t s = 0; s < sim->stages; s++)
		sim->stage[s].ops += steady->part[s].ops * steady->left_out;
	return true;
}

/* The length of the whole step if the slowest rank goes on as in the last half of its periods. */
static int64_t steady_guess(const lk_sim *sim, const lk_steady *steady, const steady_rank *rank,
                            const lk_sim_result *brief) {
	size_t half = steady->periods / 2;
	double most = 0;
	if (half < LEAST_RATED) return 0;
	for (uint32_t i = 0; i < sim->stages * sim->lanes; i++)
		most = fmax(most, rank_rate(&rank[i], steady->periods - half, half));
	return brief->step_ps + llround(most * (double)steady->left_out);
}

bool lk_steady_extend(lk_sim *sim, lk_steady *steady, lk_sim_result *brief, lk_sim_result *out) {
	uint32_t ranks = sim->stages * sim->lanes;
	steady_rank *rank = LK_ARRAY(sim->arena, steady_rank, ranks);
	LK_ASSERT(brief->lanes == sim->lanes);
	if (!rank || brief->gave_up) return false;
	steady_ranks(sim, steady, brief, rank);
	if (!steady_settle(sim, steady, rank)) {
		if (steady->lacking) out->guess_ps = steady_guess(sim, steady, rank, brief);
		return false;
	}
	for (uint32_t i = 0; i < ranks; i++) {
		uint64_t last = rank[i].part->before + steady->last * rank[i].part->ops;
		if (brief->finish_ps[i] != rank_latest_end(&rank[i], last, rank[i].ops)) return false;
	}
	if (steady->lacking && !steady_take_lacking(sim, steady, rank, brief, out)) return false;
	if (!steady->lacking && brief->shared &&
	    !(out->shared = steady_shared(sim, steady, brief->shared)))
		return false;
	out->periods_put_in = steady->left_out;
	out->doubtful = steady->doubtful;
	for (uint32_t i = 0; i < ranks; i++)
		out->finish_ps[i] = brief->finish_ps[i] + (int64_t)steady->left_out * steady->shift;
	for (uint32_t s = 0; s < sim->stages; s++) {
		const lk_sim_stage *stage = &sim->stage[s];
		out->operations += stage->ops * sim->lanes;
		for (uint32_t r = 0; r < stage->record_count && !steady->lacking; r++)
			steady_put_rank(steady, &rank[s * sim->lanes + stage->record_lane[r]],
			                stage->records[r], sim->events + stage->record_base[r]);
	}
	return true;
}
