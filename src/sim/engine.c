/* engine.c: the engine with contention, from moment to moment.
 *
 * Remaining work is a real number of picoseconds at rate 1; it shrinks at the rate that
 * lk_contention_rates gives to the concurrent acts. Times are rounded once, when a rate changes; at
 * rate 1 they are exact. Rates are set when everything of one moment has happened on all ranks: the
 * order in which it is found does not matter. Few sets of operations ever run concurrently, so
 * rates are looked up by set. */
#include "sim/engine.h"

enum {
	LOOK = 32, /* checks for a stop and for the bound once in this many moments */
};

/* ---- issuing ---- */

/* The dependencies of an operation: the latest known end, and an edge from every unfinished act. */
static inline void act_gather(lk_engine *engine, const lk_rank *rank, const lk_insn *insn,
                              lk_act *act) {
	int64_t ready =
		insn->flags & LK_INSN_ISSUED ? lk_later(act->arrival, rank->start) : act->arrival;
	for (uint32_t streams = insn->join; streams; streams &= streams - 1) {
		const lk_register *stream = &rank->stream[__builtin_ctz(streams)];
		ready = lk_later(ready, stream->end);
		if (stream->pending) lk_act_await(engine, act, stream->pending);
	}
	if (insn->flags & LK_INSN_EXTRA) {
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
			const lk_register *slot = &rank->slot[engine->sim->deps[d]];
			ready = lk_later(ready, slot->end);
			if (slot->pending) lk_act_await(engine, act, slot->pending);
		}
		if (insn->wait) {
			const lk_register *event = lk_rank_event(rank, insn->wait);
			ready = lk_later(ready, event->end);
			if (event->pending) lk_act_await(engine, act, event->pending);
		}
	}
	LK_ASSERT(ready >= 0);
	act->arrival = ready;
}

/* Whether a wait of the compute stream takes no time, so that the kernel after it can wait
 * instead. */
static bool rank_can_skip_wait(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	const lk_cost *cost = &rank->costs[rank->op];
	if (rank->events || rank->flow || insn->what != LK_INSN_LOCAL || !(insn->flags & LK_INSN_MAIN))
		return false;
	if (insn->signal || insn->slot != LK_NO_SLOT || cost->host_ps || cost->lead_ps) return false;
	const lk_insn *next;
	const lk_call *call = rank->call + 1;
	if (rank->op + 1 < rank->end_op) {
		next = &engine->insn[rank->op + 1];
	} else if (rank->repeats > 1) {
		next = &engine->insn[engine->blocks[rank->call->block].begin];
	} else {
		if (call == rank->calls_end || !call->repeat) return false;
		const lk_block *block = &engine->blocks[call->block];
		if (block->begin == block->end) return false;
		next = &engine->insn[block->begin];
	}
	return next->what == LK_INSN_LOCAL && (next->flags & LK_INSN_MAIN);
}

/* Enter the act as its stream's next. */
static void flow_issue(lk_engine *engine, lk_rank *rank, lk_act *act, uint32_t op) {
	lk_trace_flow *flow = rank->flow;
	if (++engine->acts > LK_MOST_ACTS) engine->crowded = engine->halted = true;
	if (flow->issued[act->stream]++ == 0) flow->starved--;
	LK_ASSERT(flow->left[act->stream] > 0);
	flow->left[act->stream]--;
	act->device = !(rank->program->threads >> act->stream & 1) &&
	              engine->sim->graph->ops.kind[op] != LK_OP_HOST;
}

/* Turn the next operation into an act. */
static void rank_issue_act(lk_engine *engine, lk_rank *rank) {
	lk_act *act = lk_act_new(engine);
	if (!act) return;
	const lk_insn *insn = &engine->insn[rank->op];
	act->waits = 0;
	act->out = NULL;
	act->arrival = 0;
	if ((insn->flags & LK_INSN_INSTANT) && rank_can_skip_wait(engine, rank, insn)) {
		act->arrival = rank->host;
		if (rank->tape.open) lk_stride_note(engine, rank, insn);
		act_gather(engine, rank, insn, act);
		lk_rank_pass(engine, rank, 0);
		lk_rank_step(engine, rank);
		insn = &engine->insn[rank->op];
	}
	act_gather(engine, rank, insn, act);
	if (rank->tape.open) lk_stride_note(engine, rank, insn);
	const lk_cost *cost = &rank->costs[rank->op];
	bool main = insn->flags & LK_INSN_MAIN, kernel = main && insn->what == LK_INSN_LOCAL;
	act->stream = insn->stream;
	act->state = LK_ACT_WAITING;
	act->communicates = insn->flags & LK_INSN_COMM;
	act->device = true;
	act->key = rank->op * 2;
	act->due = LK_NEVER;
	act->rendezvous = NULL;
	act->call = rank->call;
	act->duration = lk_rank_duration(engine, rank, insn, cost->duration_ps);
	act->floor = 0;
	if (rank->flow) {
		flow_issue(engine, rank, act, rank->op);
	} else {
		act->arrival = lk_later(act->arrival, rank->host + cost->lead_ps);
		rank->host += cost->host_ps;
		if (kernel) act->floor = rank->host + lk_rank_duration(engine, rank, insn, cost->tail_ps);
	}
	act->record = lk_rank_record(rank, act->arrival, act->arrival, act->arrival);
	act->slot = insn->slot != LK_NO_SLOT ? &rank->slot[insn->slot] : NULL;
	act->event = insn->signal ? lk_rank_event(rank, insn->signal) : NULL;
	act->venue = act->communicates ? lk_venue_find(engine, rank, insn, &act->number) : NULL;
	if (act->venue) rank->tape.open = false;
	if (main) {
		LK_ASSERT(!rank->unstarted);
		rank->unstarted = act;
		lk_rank_pass(engine, rank, act->duration);
	}
	rank->others += !kernel;
	lk_rank_promise(rank, act);
	lk_rank_step(engine, rank);
	if (!act->waits) lk_act_arrive(engine, rank, act);
}

/* Run work of the host thread; false if it has to wait for something unfinished. */
static bool rank_issue_host(lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	for (uint32_t streams = insn->join; streams; streams &= streams - 1)
		if (rank->stream[__builtin_ctz(streams)].pending) return false;
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		if (rank->slot[engine->sim->deps[d]].pending) return false;
	if (insn->wait && lk_rank_event(rank, insn->wait)->pending) return false;
	lk_rank_run_host(engine, rank, insn);
	lk_rank_step(engine, rank);
	return true;
}

/* Whether the rank, whose only act is a running kernel, should continue alone. */
static bool rank_should_close(lk_engine *engine, const lk_rank *rank) {
	return !rank->others && !rank->flow && lk_rank_stays_alone(engine, rank);
}

/* Whether the next operation may be issued: nothing may after a compute operation that has not
 * started; in a lifted trace, only if a stream lacks work. */
static inline bool rank_is_ready(const lk_rank *rank) {
	return rank->flow ? rank->flow->starved > 0 : !rank->unstarted && !lk_rank_at_end(rank);
}

/* Messages that block the rank and slow one another: acts with known arrivals. */
static bool rank_issue_messages(lk_engine *engine, lk_rank *rank) {
	uint32_t ops[LK_PARKED_MOST], count = lk_messages_block(engine, rank, ops);
	if (!count) return false;
	rank->alone = false;
	rank->messages = true;
	rank->kernel.op = UINT32_MAX; /* they wait for it */
	for (uint32_t i = 0; i < count; i++) rank_issue_act(engine, rank);
	return true;
}

static void rank_issue(lk_engine *engine, lk_rank *rank) {
	rank->issues = rank->host_waits = rank->messages = false;
	if (rank->alone) {
		if (rank->parked || !lk_rank_run_alone(engine, rank)) return;
		if (rank_issue_messages(engine, rank)) return;
		lk_rank_open(engine, rank);
	} else if (!engine->replaying && lk_rank_stride(engine, rank)) {
		return;
	}
	while (rank_is_ready(rank) && !engine->halted) {
		if (rank_should_close(engine, rank)) {
			rank->tape.open = false;
			lk_rank_close(engine, rank);
			if (!lk_rank_run_alone(engine, rank)) return;
			if (rank_issue_messages(engine, rank)) return;
			lk_rank_open(engine, rank);
			continue;
		}
		const lk_insn *insn = &engine->insn[rank->op];
		if (insn->what != LK_INSN_HOST) {
			rank_issue_act(engine, rank);
			continue;
		}
		rank->tape.open = false;
		if (!rank_issue_host(engine, rank, insn)) {
			rank->host_waits = true;
			return;
		}
	}
}

/* ---- rates ---- */

/* Mark the folded runs among the acts in `together`. */
static void rank_mark_shared(lk_engine *engine, const lk_rank *rank, int count) {
	for (int i = 0; i < count; i++) {
		const lk_act *act = engine->together[i];
		if (engine->sim->graph->ops.kind[lk_act_op(act)] != LK_OP_MACRO) continue;
		LK_ASSERT(act->call >= rank->program->calls.at && act->call < rank->calls_end);
		bool *shared =
			&engine
				 ->shared[engine->first_call[rank->stage] + (act->call - rank->program->calls.at)];
		engine->shared_calls += !*shared;
		*shared = engine->some_shared = true;
	}
}

/* Set the rates of everything running on a rank; returns when it acts next. */
static inline int64_t rank_settle(lk_engine *engine, lk_rank *rank) {
	int count = 0;
	int64_t due = LK_NEVER;
	if (rank->asleep) return rank->solo.start;
	for (uint32_t streams = rank->live; streams; streams &= streams - 1) {
		lk_act *act = rank->on[__builtin_ctz(streams)];
		if (act->state == LK_ACT_SCHEDULED || !act->device) {
			due = act->due < due ? act->due : due;
			continue;
		}
		engine->together[count++] = act;
	}
	static const double alone = 1;
	const double *rate = count > 1 ? lk_rates_find(engine, rank, count) : &alone;
	if (count > 1 && engine->shared) rank_mark_shared(engine, rank, count);
	for (int i = 0; i < count; i++) {
		lk_act *act = engine->together[i];
		if (act->state == LK_ACT_RUNNING && rate[i] != act->rate)
			lk_act_change_rate(act, rate[i], engine->now);
		due = act->due < due ? act->due : due;
	}
	return due;
}

/* ---- the order of time. Branch-free: the next rank is unpredictable ---- */

static inline int64_t node_least(const int64_t *key) {
	return lk_sooner(lk_sooner(key[0], key[1]), lk_sooner(key[2], key[3]));
}

static void engine_settle(lk_engine *engine) {
	while (engine->changed_count > 0) {
		lk_rank *rank = engine->changed[--engine->changed_count];
		rank->changed = false;
		int64_t due = rank_settle(engine, rank);
		LK_ASSERT(due >= engine->now);
		engine->order[0][rank->number] = due;
		uint32_t node = rank->number / LK_FAN;
		for (uint32_t level = 1; level < engine->levels; level++, node /= LK_FAN)
			engine->order[level][node] =
				node_least(engine->order[level - 1] + (size_t)node * LK_FAN);
	}
}

/* ---- moments ---- */

static void rank_catch_up(lk_engine *engine, lk_rank *rank);

/* Perform everything due now on the acts of a rank. One act may end another. */
static void rank_advance(lk_engine *engine, lk_rank *rank) {
	lk_rank_note_change(engine, rank);
	if (rank->asleep) rank_catch_up(engine, rank);
	for (uint32_t streams = rank->live; streams; streams &= streams - 1) {
		unsigned stream = (unsigned)__builtin_ctz(streams);
		lk_act *act = rank->on[stream];
		if (!(rank->live >> stream & 1) || act->due > engine->now) continue;
		if (act->state == LK_ACT_SCHEDULED) lk_act_begin(engine, rank, act);
		else if (act->state == LK_ACT_RUNNING && act->rendezvous)
			lk_act_share_done(engine, rank, act);
		else lk_act_complete(engine, rank, act);
	}
}

/* Find the next moment and list the ranks on which something is due then, from the top of the order
 * of time down; returns the list. Branch-free: every node is written, and counted if it is due. */
static const uint32_t *engine_find_due(lk_engine *engine, int64_t *next, uint32_t *count) {
	uint32_t *nodes = engine->due[0], *children = engine->due[1], found = 0;
	const int64_t *top = engine->order[engine->levels - 1];
	int64_t least = LK_NEVER;
	for (uint32_t i = 0; i < engine->top_nodes; i++) {
		found = top[i] < least ? 0 : found;
		least = lk_sooner(top[i], least);
		nodes[found] = i;
		found += top[i] == least;
	}
	*next = least;
	*count = 0;
	if (least == LK_NEVER) return nodes; /* padding nodes have no children */
	for (uint32_t level = engine->levels - 1; level-- > 0;) {
		uint32_t due = 0;
		for (uint32_t i = 0; i < found; i++) {
			const int64_t *key = engine->order[level] + (size_t)nodes[i] * LK_FAN;
			for (uint32_t k = 0; k < LK_FAN; k++) {
				children[due] = nodes[i] * LK_FAN + k;
				due += key[k] == least;
			}
		}
		uint32_t *spent = nodes;
		nodes = children;
		children = spent;
		found = due;
	}
	*count = found;
	return nodes;
}

/* Process everything that the moment enables on any rank, except entries listed before. */
static void engine_drain(lk_engine *engine, uint32_t issuing, uint32_t again) {
	while (engine->issuing_count + engine->again_count > issuing + again && !engine->halted) {
		if (engine->again_count > again) {
			lk_rank *rank = engine->again[--engine->again_count];
			rank->again = false;
			rank_advance(engine, rank);
		} else {
			rank_issue(engine, engine->issuing[--engine->issuing_count]);
		}
	}
}

/* Wake a rank: take its completed strides, then simulate everything it has done by itself until
 * now. Acts that began on it from outside begin now. */
static void rank_catch_up(lk_engine *engine, lk_rank *rank) {
	int64_t now = engine->now;
	uint32_t issuing = engine->issuing_count, again = engine->again_count;
	uint32_t others = rank->live & ~(1u << LK_STREAM_COMPUTE);
	rank->live = 1u << LK_STREAM_COMPUTE;
	lk_rank_wake(engine, rank);
	engine->now = rank->on[LK_STREAM_COMPUTE]->last;
	lk_rank_may_issue(engine, rank);
	engine->replaying = true;
	while (engine->now < now && !engine->halted) {
		engine_drain(engine, issuing, again);
		int64_t due = rank_settle(engine, rank);
		if (due >= now) break;
		engine->now = due;
		rank_advance(engine, rank);
	}
	engine->replaying = false;
	engine->now = now;
	rank->live |= others;
	lk_rank_note_change(engine, rank);
}

/* Whether so many folded runs have shared the device that the graph should not be folded: half of
 * those in the first eighth of the step, or later. */
static bool engine_leaves_folded(const lk_engine *engine) {
	double passed = 0;
	if (!engine->shared_calls || engine->sim->lanes > engine->sim->options->leave_lanes)
		return false;
	for (uint32_t i = 0; i < engine->ranks; i += engine->sim->lanes)
		passed += (double)(engine->rank[i].call - engine->rank[i].program->calls.at);
	return passed * 8 >= engine->calls &&
	       engine->shared_calls * 2 * engine->calls > engine->folded_calls * passed;
}

void lk_engine_run(lk_engine *engine) {
	for (uint32_t i = engine->ranks; i > 0; i--) lk_rank_may_issue(engine, &engine->rank[i - 1]);
	for (uint32_t moments = 0;; moments++) {
		engine_drain(engine, 0, 0);
		if (moments % LOOK == 0) {
			if (lk_stop_asked(engine->stop)) engine->stopped = engine->halted = true;
			else if (lk_bound_too_late(engine)) engine->gave_up = engine->halted = true;
			else if (engine_leaves_folded(engine)) engine->left = engine->halted = true;
		}
		if (engine->halted) return;
		engine_settle(engine);
		int64_t next;
		uint32_t count;
		const uint32_t *due = engine_find_due(engine, &next, &count);
		if (next == LK_NEVER) return;
		LK_ASSERT(next >= engine->now && count > 0);
		engine->now = next;
		for (uint32_t i = 0; i < count; i++) rank_advance(engine, &engine->rank[due[i]]);
	}
}
