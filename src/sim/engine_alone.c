/* engine_alone.c: a rank on which nothing overlaps. A time is the maximum of an operation's
 * dependencies, plus its duration:
 *
 *     ready = max(ends of joined streams, dependencies and event, launch)
 *     end   = max(ready + duration, floor)
 *
 * An operation that blocks the rank, such as a tensor-parallel all-reduce between kernels, parks it
 * at its rendezvous; so do messages between kernels that do not slow one another. */
#include "sim/engine.h"

/* Checks for a stop once in this many operations. */
enum { LOOK = 4096 };

/* The jitter of the operation at the program counter. Most operations have equal deviation and are
 * drawn together; folded runs deviate less, each in its own way. */
static double rank_jitter(const lk_engine *engine, const lk_rank *rank, double sigma) {
	const lk_sim_options *options = engine->sim->options;
	uint64_t number = (uint64_t)rank->stage * engine->sim->chains + rank->lane;
	uint64_t place = rank->ops % LK_LANES;
	if (sigma != options->jitter) return lk_sim_jitter(options->seed, number, rank->ops, sigma);
	if (rank->draws->first != rank->ops - place)
		lk_lanes_draw(rank->draws, options->seed, number, rank->ops - place, sigma);
	return rank->draws->factor[place];
}

int64_t lk_rank_noise(const lk_engine *engine, const lk_rank *rank, uint32_t op, int64_t duration) {
	double factor = rank->info->factor ? rank->info->factor[rank->lane] : 1.0;
	double sigma = rank->draws ? lk_sim_sigma(engine->sim, rank->info, op) : 0;
	if (sigma > 0) return lk_sim_scale(duration, rank_jitter(engine, rank, sigma) * factor);
	return rank->info->factor ? lk_sim_scale(duration, factor) : duration;
}

/* Whether the operation waits for the last kernel, whose end is not settled because others may
 * still overlap with it. */
static bool insn_awaits_kernel(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	if (insn->join & LK_JOIN(LK_STREAM_COMPUTE)) return true;
	if (insn->wait && rank->kernel.event == lk_rank_event(rank, insn->wait)) return true;
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		if (rank->kernel.slot == &rank->slot[engine->sim->deps[d]]) return true;
	return false;
}

/* Whether concurrent messages slow one another. */
static bool messages_overlap(lk_engine *engine, const lk_rank *rank, const uint32_t *ops,
                             uint32_t count) {
	lk_act act[LK_PARKED_MOST];
	for (uint32_t i = 0; i < count; i++) {
		act[i] = (lk_act){.key = ops[i] * 2, .state = LK_ACT_RUNNING, .communicates = true};
		engine->together[i] = &act[i];
	}
	const double *rate = lk_rates_find(engine, rank, (int)count);
	for (uint32_t i = 0; i < count; i++)
		if (rate[i] != 1) return true;
	return false;
}

/* The number of operations from the program counter on at which to park the rank; 0: they overlap
 * with something. */
static uint32_t rank_parks_at(lk_engine *engine, const lk_rank *rank) {
	const lk_insn *insn = &engine->insn[rank->op];
	uint32_t ops[LK_PARKED_MOST];
	if (insn->what != LK_INSN_P2P) return lk_insn_blocks(engine, rank, insn);
	uint32_t count = lk_messages_block(engine, rank, ops);
	return count < 2 || !messages_overlap(engine, rank, ops, count) ? count : 0;
}

bool lk_rank_stays_alone(lk_engine *engine, const lk_rank *rank) {
	const lk_insn *insn = &engine->insn[rank->op];
	if (insn->what == LK_INSN_LOCAL)
		return insn->stream == LK_STREAM_COMPUTE ||
		       ((insn->flags & LK_INSN_INSTANT) && !insn_awaits_kernel(engine, rank, insn));
	return insn->what == LK_INSN_HOST || rank_parks_at(engine, rank);
}

/* The latest end of an operation's dependencies; all are known. */
static int64_t rank_known_sources(const lk_engine *engine, const lk_rank *rank,
                                  const lk_insn *insn) {
	int64_t ready = insn->flags & LK_INSN_ISSUED ? rank->start : 0;
	for (uint32_t streams = insn->join; streams; streams &= streams - 1) {
		LK_ASSERT(!rank->stream[__builtin_ctz(streams)].pending);
		ready = lk_later(ready, rank->stream[__builtin_ctz(streams)].end);
	}
	if (!(insn->flags & LK_INSN_EXTRA)) return ready;
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
		LK_ASSERT(!rank->slot[engine->sim->deps[d]].pending);
		ready = lk_later(ready, rank->slot[engine->sim->deps[d]].end);
	}
	return insn->wait ? lk_later(ready, lk_rank_event(rank, insn->wait)->end) : ready;
}

static lk_register *rank_signalled(const lk_rank *rank, const lk_insn *insn) {
	return insn->signal ? lk_rank_event(rank, insn->signal) : NULL;
}

/* A kernel, or a wait of any stream. */
static void rank_run_kernel(lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	const lk_cost *cost = &rank->costs[rank->op];
	lk_register *event = rank_signalled(rank, insn);
	int64_t ready = lk_later(rank_known_sources(engine, rank, insn), rank->host + cost->lead_ps);
	rank->host += cost->host_ps;
	int64_t duration = lk_rank_duration(engine, rank, insn, cost->duration_ps),
			end = ready + duration;
	if (!(insn->flags & LK_INSN_MAIN)) {
		lk_rank_keep_end(rank, insn, event, end);
		lk_rank_record(rank, ready, ready, end);
		return;
	}
	bool same = cost->tail_ps == cost->duration_ps;
	int64_t floor =
		rank->host + (same ? duration : lk_rank_duration(engine, rank, insn, cost->tail_ps));
	end = lk_later(end, floor);
	LK_ASSERT(ready >= rank->start && end >= ready);
	rank->start = ready;
	lk_rank_pass(engine, rank, duration);
	lk_rank_keep_end(rank, insn, event, end);
	rank->kernel = (lk_kernel){
		.op = rank->op,
		.call = rank->call,
		.last = ready,
		.due = end,
		.duration = duration,
		.floor = floor,
		.left = (double)duration,
		.record = lk_rank_record(rank, ready, ready, end),
		.slot = insn->slot != LK_NO_SLOT ? &rank->slot[insn->slot] : NULL,
		.event = event,
	};
}

void lk_rank_run_host(lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	const lk_cost *cost = &rank->costs[rank->op];
	int64_t start = lk_later(rank_known_sources(engine, rank, insn), rank->host + cost->host_ps);
	rank->host = start + lk_rank_duration(engine, rank, insn, cost->duration_ps);
	lk_rank_keep_end(rank, insn, rank_signalled(rank, insn), rank->host);
	lk_rank_record(rank, start, start, rank->host);
}

/* Park the rank at its next operations, which may end at once. */
static void rank_park(lk_engine *engine, lk_rank *rank, uint32_t count) {
	int64_t arrival[LK_PARKED_MOST];
	uint32_t number[LK_PARKED_MOST];
	lk_venue *venue[LK_PARKED_MOST];
	LK_ASSERT(rank->alone && !rank->parked && count <= LK_PARKED_MOST);
	for (uint32_t i = 0; i < count; i++) {
		const lk_insn *insn = &engine->insn[rank->op];
		const lk_cost *cost = &rank->costs[rank->op];
		arrival[i] = lk_later(rank_known_sources(engine, rank, insn), rank->host + cost->lead_ps);
		rank->host += cost->host_ps;
		rank->parking[i] =
			(lk_parking){.call = rank->call,
		                 .op = rank->op,
		                 .duration = cost->duration_ps,
		                 .record = lk_rank_record(rank, arrival[i], arrival[i], arrival[i])};
		if (insn->flags & LK_INSN_MAIN) lk_rank_pass(engine, rank, cost->duration_ps);
		venue[i] = lk_venue_find(engine, rank, insn, &number[i]);
		lk_rank_step(engine, rank);
	}
	rank->parked = (1u << count) - 1;
	for (uint32_t i = 0; i < count; i++) {
		if (venue[i])
			lk_venue_arrive(engine, venue[i], number[i], (lk_member){rank, NULL, i}, arrival[i]);
		else lk_rank_resume(engine, rank, i, arrival[i], arrival[i] + rank->parking[i].duration);
	}
}

bool lk_rank_run_alone(lk_engine *engine, lk_rank *rank) {
	LK_ASSERT(rank->alone && !rank->parked && !rank->others && !rank->live);
	for (uint32_t steps = 1; !lk_rank_at_end(rank); steps++) {
		if (steps % LOOK == 0 && lk_stop_asked(engine->stop)) {
			engine->stopped = engine->halted = true;
			return false;
		}
		const lk_insn *insn = &engine->insn[rank->op];
		if (!lk_rank_stays_alone(engine, rank)) return true;
		if (insn->what == LK_INSN_LOCAL) {
			rank_run_kernel(engine, rank, insn);
		} else if (insn->what == LK_INSN_HOST) {
			lk_rank_run_host(engine, rank, insn);
		} else {
			rank_park(engine, rank, rank_parks_at(engine, rank));
			return false;
		}
		lk_rank_step(engine, rank);
	}
	return false;
}

/* ---- from alone to acts, and back ---- */

/* Something overlaps with the rank's last kernel: it becomes an act unless it has ended. */
void lk_rank_open(lk_engine *engine, lk_rank *rank) {
	const lk_kernel *kernel = &rank->kernel;
	rank->alone = false;
	if (kernel->op == UINT32_MAX || kernel->due <= kernel->last || kernel->due <= engine->now)
		return;
	lk_act *act = lk_act_new(engine);
	if (!act) return;
	*act = (lk_act){
		.due = kernel->due,
		.last = kernel->last,
		.left = kernel->left,
		.rate = 1,
		.floor = kernel->floor,
		.key = kernel->op * 2,
		.stream = LK_STREAM_COMPUTE,
		.state = LK_ACT_RUNNING,
		.device = true,
		.duration = kernel->duration,
		.record = kernel->record,
		.call = kernel->call,
		.slot = kernel->slot,
		.event = kernel->event,
	};
	if (kernel->last > engine->now) {
		act->state = LK_ACT_SCHEDULED;
		act->due = kernel->last;
	}
	lk_rank_promise(rank, act);
	rank->on[LK_STREAM_COMPUTE] = act;
	rank->live = 1u << LK_STREAM_COMPUTE;
	lk_rank_note_change(engine, rank);
}

/* Only a kernel is left, and it runs alone: its end is known, and the rank continues alone. */
void lk_rank_close(lk_engine *engine, lk_rank *rank) {
	rank->kernel = (lk_kernel){.op = UINT32_MAX};
	rank->alone = true;
	if (!rank->live) return;
	LK_ASSERT(rank->live == 1u << LK_STREAM_COMPUTE);
	lk_act *act = rank->on[LK_STREAM_COMPUTE];
	LK_ASSERT(lk_act_is_kernel(engine, act) && !act->out);
	if (act->state == LK_ACT_SCHEDULED) {
		act->last = act->due;
		act->left = (double)act->duration;
		act->due = lk_later(act->last + act->duration, act->floor);
	} else if (act->rate != 1) {
		lk_act_change_rate(act, 1, engine->now);
	}
	rank->kernel = (lk_kernel){
		.op = lk_act_op(act),
		.call = act->call,
		.last = act->last,
		.due = act->due,
		.duration = act->duration,
		.floor = act->floor,
		.left = act->left,
		.record = act->record,
		.slot = act->slot && act->slot->pending == act ? act->slot : NULL,
		.event = act->event && act->event->pending == act ? act->event : NULL,
	};
	lk_register_keep(&rank->stream[LK_STREAM_COMPUTE], act, act->due);
	if (act->slot) lk_register_keep(act->slot, act, act->due);
	if (act->event) lk_register_keep(act->event, act, act->due);
	if (rank->events) rank->events[act->record].end_ps = act->due;
	rank->finish = lk_later(rank->finish, act->due);
	rank->on[LK_STREAM_COMPUTE] = NULL;
	rank->live = 0;
	lk_rank_note_change(engine, rank);
	lk_act_free(engine, act);
}
