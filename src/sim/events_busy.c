/* events_busy.c: a rank on which operations overlap, advanced from event to event. An act goes from
 * waiting (for acts of its own rank) over posted (for its partners), scheduled and running to its
 * end; a communication operation whose share is done is held until the last member's is: it keeps
 * its SMs, but uses neither memory nor links.
 *
 * Work left is a real number of picoseconds alone; it shrinks at the rate that lk_contention_rates
 * gives to the acts which run at the same time. Times of events are rounded once, when a rate
 * changes; at rate 1 they are exact. Rates are set when everything of one moment has happened on
 * all ranks: the order in which it is found does not matter. */
#include "sim/events.h"

#include <string.h>

/* Rates below are not believed: an operation takes at most so many times as long as alone. */
#define LEAST_RATE (1.0 / LK_MOST_SLOWDOWN)

static bool is_kernel(const lk_engine *engine, const lk_act *act) {
	const lk_insn *insn = &engine->sim->insn[act->op];
	return insn->what == LK_INSN_LOCAL && (insn->flags & LK_INSN_MAIN);
}

static lk_act *new_act(lk_engine *engine, uint32_t op, uint32_t call) {
	lk_act *act = engine->spare_act;
	if (act) engine->spare_act = act->next;
	else act = LK_NEW(&engine->arena, lk_act);
	if (!act) {
		engine->no_memory = true;
		return NULL;
	}
	const lk_insn *insn = &engine->sim->insn[op];
	*act = (lk_act){.op = op,
	                .call = call,
	                .stream = insn->stream,
	                .communicates = insn->flags & LK_INSN_COMM,
	                .device = true,
	                .due = LK_NEVER,
	                .rate = 1,
	                .record = LK_NO_RECORD};
	return act;
}

static void free_act(lk_engine *engine, lk_act *act) {
	act->next = engine->spare_act;
	engine->spare_act = act;
}

static void promise(lk_rank *rank, lk_act *act, uint16_t slot) {
	rank->pending[act->stream] = act;
	rank->pending_mask |= 1u << act->stream;
	if (slot != LK_NO_SLOT) rank->slot_pending[slot] = act;
	if (act->sets) rank->event_pending[act->sets - 1] = act;
}

/* Gives the end of an act to the registers that it promised. */
static void keep(lk_engine *engine, lk_rank *rank, lk_act *act, int64_t end) {
	uint16_t slot = engine->sim->insn[act->op].slot;
	if (rank->pending[act->stream] == act) {
		rank->pending[act->stream] = NULL;
		rank->pending_mask &= ~(1u << act->stream);
		rank->end[act->stream] = end;
	}
	if (slot != LK_NO_SLOT && rank->slot_pending[slot] == act) {
		rank->slot_pending[slot] = NULL;
		rank->slot[slot] = end;
	}
	if (act->sets && rank->event_pending[act->sets - 1] == act) {
		rank->event_pending[act->sets - 1] = NULL;
		rank->event[act->sets - 1] = end;
	}
	if (end > rank->finish) rank->finish = end;
	if (act->record != LK_NO_RECORD) rank->events[act->record].end_ps = end;
}

static void await_one(lk_engine *engine, lk_act *act, lk_act *before) {
	if (!before) return;
	lk_act_edge *edge = engine->spare_edge;
	if (edge) engine->spare_edge = edge->next;
	else if (!(edge = LK_NEW(&engine->arena, lk_act_edge))) {
		engine->no_memory = true;
		return;
	}
	*edge = (lk_act_edge){before->out, act};
	before->out = edge;
	act->waits++;
}

/* Pending sources of an operation: `act` waits for each, or NULL: is there any? */
static bool await(lk_engine *engine, const lk_rank *rank, const lk_insn *insn, lk_act *act) {
	bool any = false;
	for (uint32_t mask = insn->join & rank->pending_mask; mask; mask &= mask - 1) {
		if (act) await_one(engine, act, rank->pending[__builtin_ctz(mask)]);
		any = true;
	}
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
		lk_act *before = rank->slot_pending[engine->sim->deps[d]];
		if (act) await_one(engine, act, before);
		any = any || before;
	}
	lk_act *before = insn->wait ? rank->event_pending[lk_rank_argument(rank, insn->wait)] : NULL;
	if (act) await_one(engine, act, before);
	return any || before;
}

void lk_busy_due(lk_engine *engine, uint32_t number, lk_act *act, lk_act_state state, int64_t due) {
	lk_rank *rank = &engine->rank[number];
	act->state = (uint8_t)state;
	act->due = due;
	rank->on[act->stream] = act;
	rank->live |= 1u << act->stream;
	if (due < rank->key) lk_heap_set(engine, number, due);
}

/* All sources of an act are known. */
static void arrive(lk_engine *engine, uint32_t number, lk_act *act) {
	lk_rank *rank = &engine->rank[number];
	if (act->record != LK_NO_RECORD) rank->events[act->record].ready_ps = act->arrival;
	if (!act->communicates) {
		lk_busy_due(engine, number, act, LK_ACT_SCHEDULED, act->arrival);
		return;
	}
	act->state = LK_ACT_POSTED;
	rank->on[act->stream] = act;
	lk_meet_post(engine, number, act, act->op, act->number, act->arrival);
}

/* The act is over; the next one of its stream may start. */
static void flow_in(lk_engine *engine, lk_flow *flow, const lk_act *act) {
	engine->acts--;
	if (--flow->issued[act->stream] == 0 && flow->left[act->stream]) flow->starved++;
}

static void complete(lk_engine *engine, uint32_t number, lk_act *act) {
	lk_rank *rank = &engine->rank[number];
	int64_t end = act->due;
	keep(engine, rank, act, end);
	rank->on[act->stream] = NULL;
	rank->live &= ~(1u << act->stream);
	if (rank->running == act) rank->running = NULL;
	if (!is_kernel(engine, act)) rank->others--;
	if (rank->flow) flow_in(engine, rank->flow, act);
	if (act->communicates && lk_meets_outside(engine, &engine->sim->insn[act->op]))
		engine->outer[number / LK_GANG]--;
	while (act->out) {
		lk_act_edge *edge = act->out;
		lk_act *to = edge->to;
		act->out = edge->next;
		edge->next = engine->spare_edge;
		engine->spare_edge = edge;
		if (end > to->arrival) to->arrival = end;
		if (--to->waits == 0) arrive(engine, number, to);
	}
	free_act(engine, act);
}

/* What an act has come to do at its due time. */
static void fire(lk_engine *engine, uint32_t number, lk_act *act) {
	lk_rank *rank = &engine->rank[number];
	if (!rank->changed) engine->changed[engine->changed_count++] = number;
	rank->changed = true;
	rank->changed_at = act->due;
	if (act->state == LK_ACT_SCHEDULED) {
		act->state = LK_ACT_RUNNING;
		act->last = act->due;
		act->left = (double)act->duration;
		act->rate = 1;
		if (act->record != LK_NO_RECORD) rank->events[act->record].start_ps = act->due;
		if (engine->sim->insn[act->op].flags & LK_INSN_MAIN) {
			rank->start = act->due;
			rank->unstarted = NULL;
			rank->running = act;
		}
		act->due += act->duration;
		if (act->due < act->floor) act->due = act->floor;
	} else if (act->state == LK_ACT_RUNNING && act->communicates) {
		int64_t time = act->due;
		act->state = LK_ACT_HELD;
		act->due = LK_NEVER;
		lk_meet_share_done(engine, act->meeting, time);
	} else {
		complete(engine, number, act);
	}
}

/* Sets the rates of what runs at `time`, and with them when it will be done. */
static void set_rates(lk_rank *rank, int64_t time) {
	lk_act *act[LK_STREAMS];
	lk_cost held[LK_STREAMS];
	const lk_cost *cost[LK_STREAMS];
	bool communicates[LK_STREAMS];
	double rate[LK_STREAMS] = {1};
	int count = 0;
	for (uint32_t mask = rank->live; mask; mask &= mask - 1) {
		lk_act *one = rank->on[__builtin_ctz(mask)];
		if (one->state == LK_ACT_SCHEDULED || !one->device) continue;
		act[count] = one;
		communicates[count] = one->communicates;
		cost[count] = &rank->costs[one->op];
		if (one->state == LK_ACT_HELD) {
			held[count] = *cost[count];
			held[count].memory = held[count].intra = held[count].nic = 0;
			cost[count] = &held[count];
		}
		count++;
	}
	if (count > 1) lk_contention_rates(cost, communicates, count, rate);
	for (int i = 0; i < count; i++) {
		if (act[i]->state != LK_ACT_RUNNING || rate[i] == act[i]->rate) continue;
		double done = (double)(time - act[i]->last) * act[i]->rate;
		act[i]->left = act[i]->left > done ? act[i]->left - done : 0;
		act[i]->last = time;
		act[i]->rate = rate[i] >= LEAST_RATE ? rate[i] : LEAST_RATE;
		act[i]->due = time + (int64_t)(act[i]->left / act[i]->rate + 0.5);
		if (act[i]->due < act[i]->floor) act[i]->due = act[i]->floor;
	}
}

static int64_t next_due(const lk_rank *rank) {
	int64_t due = LK_NEVER;
	for (uint32_t mask = rank->live; mask; mask &= mask - 1) {
		const lk_act *act = rank->on[__builtin_ctz(mask)];
		if (act->due < due) due = act->due;
	}
	return due;
}

/* Only a kernel is left, and it runs alone: its end is known, and the rank may run ahead again. */
static void become_quiet(lk_engine *engine, uint32_t number, int64_t time) {
	lk_rank *rank = &engine->rank[number];
	lk_act *act = rank->running;
	rank->kernel = (lk_kernel){.op = UINT32_MAX, .slot = LK_NO_SLOT};
	if (act) {
		set_rates(rank, time);
		rank->kernel = (lk_kernel){.op = act->op,
		                           .call = act->call,
		                           .last = act->last,
		                           .due = act->due,
		                           .duration = act->duration,
		                           .floor = act->floor,
		                           .left = act->left,
		                           .record = act->record,
		                           .sets = act->sets,
		                           .slot = engine->sim->insn[act->op].slot};
		keep(engine, rank, act, act->due);
		rank->running = NULL;
		rank->on[LK_STREAM_COMPUTE] = NULL;
		rank->live = 0;
		free_act(engine, act);
	}
	rank->busy = false;
	lk_heap_set(engine, number, LK_NEVER);
	lk_rank_wake(engine, number);
}

/* Books the act as its stream's next. */
static void flow_out(lk_engine *engine, lk_rank *rank, lk_act *act) {
	lk_flow *flow = rank->flow;
	if (++engine->acts > LK_MOST_ACTS) engine->crowded = engine->no_memory = true;
	if (flow->issued[act->stream]++ == 0) flow->starved--;
	flow->left[act->stream]--;
	act->device = !(rank->program->threads >> act->stream & 1) &&
	              engine->sim->graph->ops.kind[act->op] != LK_OP_HOST;
}

/* Makes an act of the next operation. */
static void issue_act(lk_engine *engine, uint32_t number, const lk_insn *insn) {
	lk_rank *rank = &engine->rank[number];
	const lk_cost *cost = &rank->costs[rank->op];
	lk_act *act = new_act(engine, rank->op, rank->call);
	if (!act) return;
	act->arrival = lk_rank_sources(engine, rank, insn);
	if (rank->flow) {
		flow_out(engine, rank, act);
	} else {
		int64_t launch = rank->host + cost->lead_ps;
		if (launch > act->arrival) act->arrival = launch;
		rank->host += cost->host_ps;
	}
	act->duration = lk_rank_duration(engine, rank, act->op, cost->duration_ps);
	act->record = lk_rank_record(rank, act->op, act->arrival, act->arrival, act->arrival);
	if (insn->signal) act->sets = 1u + lk_rank_argument(rank, insn->signal);
	if (act->communicates) {
		act->number = lk_meet_number(engine, rank, act->op);
		if (lk_meets_outside(engine, insn)) engine->outer[number / LK_GANG]++;
	}
	if (insn->flags & LK_INSN_MAIN) rank->unstarted = act;
	if (is_kernel(engine, act))
		act->floor = rank->host + lk_rank_duration(engine, rank, act->op, cost->tail_ps);
	else rank->others++;
	await(engine, rank, insn, act);
	promise(rank, act, insn->slot);
	lk_rank_step(engine, rank);
	if (!act->waits) arrive(engine, number, act);
}

/* Issues operations up to and including the next one of the compute stream; behind it, when it has
 * started. */
static void issue(lk_engine *engine, uint32_t number, int64_t time) {
	lk_rank *rank = &engine->rank[number];
	if (rank->flow) {
		while (rank->flow->starved && !engine->no_memory)
			issue_act(engine, number, &engine->sim->insn[rank->op]);
		if (!rank->others) become_quiet(engine, number, time);
		return;
	}
	while (!rank->unstarted && !engine->no_memory) {
		bool ends = lk_rank_at_end(rank);
		if (!rank->others && (ends || lk_rank_stays_quiet(engine, rank))) {
			become_quiet(engine, number, time);
			return;
		}
		if (ends) return;
		const lk_insn *insn = &engine->sim->insn[rank->op];
		if (insn->what != LK_INSN_HOST) {
			issue_act(engine, number, insn);
		} else {
			if (await(engine, rank, insn, NULL)) return;
			lk_rank_host(engine, rank);
			lk_rank_step(engine, rank);
		}
	}
}

void lk_busy_begin(lk_engine *engine, uint32_t number) {
	lk_rank *rank = &engine->rank[number];
	const lk_kernel *kernel = &rank->kernel;
	rank->busy = true;
	if (kernel->op != UINT32_MAX && kernel->due > kernel->last) {
		lk_act *act = new_act(engine, kernel->op, kernel->call);
		if (!act) return;
		act->state = LK_ACT_RUNNING;
		act->duration = kernel->duration;
		act->floor = kernel->floor;
		act->last = kernel->last;
		act->left = kernel->left;
		act->due = kernel->due;
		act->record = kernel->record;
		act->sets = kernel->sets;
		promise(rank, act, kernel->slot);
		rank->running = rank->on[LK_STREAM_COMPUTE] = act;
		rank->live = 1u << LK_STREAM_COMPUTE;
	}
	issue(engine, number, kernel->last);
	if (rank->busy) lk_heap_set(engine, number, next_due(rank));
}

void lk_busy_advance(lk_engine *engine, uint32_t number, int64_t time) {
	lk_rank *rank = &engine->rank[number];
	while (next_due(rank) <= time) {
		for (uint32_t mask = rank->live; mask; mask &= mask - 1) {
			lk_act *act = rank->on[__builtin_ctz(mask)];
			if (act && act->due <= time) fire(engine, number, act);
		}
		issue(engine, number, time);
		if (!rank->busy || engine->no_memory) return;
	}
	lk_heap_set(engine, number, next_due(rank));
}

void lk_busy_settle(lk_engine *engine, uint32_t number) {
	lk_rank *rank = &engine->rank[number];
	rank->changed = false;
	if (!rank->busy) return;
	set_rates(rank, rank->changed_at);
	lk_heap_set(engine, number, next_due(rank));
}
