/* sim_reference.h: the engine with contention once more, slow and plain: every operation of every
 * rank is an act with the list of what it waits for, every moment looks at all of them, and nothing
 * is remembered, skipped or run ahead. It follows the rules of graph.h (waiting), of cost.h (what
 * operations share) and of sim/engine.c (rounding). */
#ifndef LK_TEST_SIM_REFERENCE_H
#define LK_TEST_SIM_REFERENCE_H

#include "sim_random.h"

typedef enum ref_state {
	REF_UNISSUED,
	REF_WAITING,
	REF_POSTED,
	REF_SCHEDULED,
	REF_RUNNING,
	REF_HELD,
	REF_OVER
} ref_state;

typedef struct ref_op {
	uint32_t op, call, repetition;
	uint64_t meeting; /* number among those of its channel, kind or team */
	ref_state state;
	int64_t arrival, start, end, due, last, floor, duration;
	double left, rate;
	size_t *source;              /* operations of its rank that it waits for */
	size_t sources, block_begin; /* first operation of its repetition */
} ref_op;

typedef struct ref_rank {
	ref_op *ops;
	size_t count, next; /* next: not issued yet */
	int64_t host, start;
	size_t on[LK_STREAMS], event[8]; /* 1 + the last operation issued on it; that signals it */
	size_t unstarted;                /* 1 + compute operation that has not started */
} ref_rank;

typedef struct reference {
	oracle world; /* for who meets whom, factors and costs */
	ref_rank *rank;
	int64_t now, step;
	bool stuck;
} reference;

static inline bool ref_compute(const lk_graph *g, uint32_t op) {
	return !g->traced && g->ops.stream[op] == LK_STREAM_COMPUTE;
}

/* The operations of a rank, in program order. */
static inline void ref_expand(reference *ref, uint32_t number) {
	ref_rank *rank = &ref->rank[number];
	oracle *o = &ref->world;
	oracle_expand(o, number);
	rank->count = o->count[number];
	rank->ops = calloc(rank->count + 1, sizeof *rank->ops);
	const lk_graph *g = o->w->graph;
	const lk_program *p = &g->programs.at[lk_rank_stage(g, number)];
	size_t begin = 0;
	for (size_t i = 0; i < rank->count; i++) {
		const oracle_op *from = &o->ops[number][i];
		if (from->op == g->blocks.at[p->calls.at[from->call].block].begin) begin = i;
		rank->ops[i] = (ref_op){.op = from->op,
		                        .call = from->call,
		                        .repetition = from->repetition,
		                        .meeting = from->meeting,
		                        .due = INT64_MAX,
		                        .rate = 1,
		                        .block_begin = begin};
	}
}

static inline void ref_add_source(ref_op *one, size_t place) {
	one->source = realloc(one->source, (one->sources + 1) * sizeof *one->source);
	one->source[one->sources++] = place;
}

/* Lists what the operation waits for; it is the next of its rank. */
static inline void ref_find_sources(reference *ref, uint32_t number, size_t place) {
	const lk_graph *g = ref->world.w->graph;
	ref_rank *rank = &ref->rank[number];
	ref_op *one = &rank->ops[place];
	uint32_t op = one->op;
	unsigned stream = g->ops.stream[op];
	const lk_call *call = &g->programs.at[lk_rank_stage(g, number)].calls.at[one->call];
	uint32_t join = g->ops.join[op] | LK_JOIN(stream);
	if (!g->traced)
		join &= ~LK_JOIN(LK_STREAM_HOST); /* what the host has done it did before it issues this */
	for (unsigned s = 0; s < LK_STREAMS; s++)
		if ((join >> s & 1) && rank->on[s]) ref_add_source(one, rank->on[s] - 1);
	for (uint32_t d = g->ops.dep_begin[op]; d < g->ops.dep_begin[op + 1]; d++)
		ref_add_source(one, one->block_begin + g->ops.deps[d]);
	if (g->ops.wait[op] && rank->event[call->arg[g->ops.wait[op] - 1]])
		ref_add_source(one, rank->event[call->arg[g->ops.wait[op] - 1]] - 1);
	if (!g->traced && stream > LK_STREAM_COMPUTE && !(join & LK_JOIN(LK_STREAM_COMPUTE)) &&
	    rank->start > one->arrival)
		one->arrival = rank->start;
	rank->on[stream] = place + 1;
	if (g->ops.signal[op]) rank->event[call->arg[g->ops.signal[op] - 1]] = place + 1;
}

/* Whether all that it waits for is over; its arrival is then known. */
static inline bool ref_sources_over(const ref_rank *rank, ref_op *one) {
	for (size_t i = 0; i < one->sources; i++) {
		const ref_op *before = &rank->ops[one->source[i]];
		if (before->state != REF_OVER) return false;
		if (before->end > one->arrival) one->arrival = before->end;
	}
	return true;
}

static inline int64_t ref_scaled(const reference *ref, uint32_t number, size_t place,
                                 int64_t duration) {
	uint32_t op = ref->rank[number].ops[place].op;
	if (ref->world.w->graph->ops.kind[op] == LK_OP_WAIT) return 0;
	double factor = oracle_factor(&ref->world, number, op, place);
	return factor == 1 ? duration : lk_sim_scale(duration, factor);
}

/* Issues the next operation of a rank; false: it may not be issued yet. */
static inline bool ref_issue(reference *ref, uint32_t number) {
	const lk_graph *g = ref->world.w->graph;
	ref_rank *rank = &ref->rank[number];
	if (rank->next == rank->count || rank->unstarted) return false;
	size_t place = rank->next;
	ref_op *one = &rank->ops[place];
	const lk_cost *cost = oracle_cost(&ref->world, number, one->op);
	bool host = !g->traced && g->ops.stream[one->op] == LK_STREAM_HOST;
	if (one->state == REF_UNISSUED) {
		ref_find_sources(ref, number, place);
		one->state = REF_WAITING;
		one->duration = ref_scaled(ref, number, place, cost->duration_ps);
		if (!g->traced && !host) {
			int64_t launch = rank->host + cost->lead_ps;
			if (launch > one->arrival) one->arrival = launch;
			rank->host += cost->host_ps;
			if (ref_compute(g, one->op) && !lk_op_is_comm(g->ops.kind[one->op]))
				one->floor = rank->host + ref_scaled(ref, number, place, cost->tail_ps);
		}
	}
	if (host) {
		if (!ref_sources_over(rank, one)) return false;
		rank->host += cost->host_ps;
		if (one->arrival > rank->host) rank->host = one->arrival;
		one->start = rank->host;
		one->end = rank->host += one->duration;
		one->state = REF_OVER;
	}
	if (ref_compute(g, one->op)) rank->unstarted = place + 1;
	rank->next++;
	return true;
}

/* The members that are posted at the operation's rendezvous; starts it when none is missing. */
static inline void ref_meet(reference *ref, uint32_t number, ref_op *one) {
	ref_op *member[64];
	uint32_t members = oracle_members(&ref->world, number, one->op), found = 0;
	int64_t start = 0;
	oracle_op mine = {.op = one->op, .meeting = one->meeting};
	bool p2p = !lk_op_is_collective(ref->world.w->graph->ops.kind[one->op]) &&
	           !oracle_team(ref->world.w->graph, one->op);
	for (uint32_t other = 0; other < ref->world.ranks; other++) {
		for (size_t i = 0; i < ref->rank[other].next; i++) {
			ref_op *theirs = &ref->rank[other].ops[i];
			oracle_op yours = {.op = theirs->op, .meeting = theirs->meeting};
			bool self = theirs == one;
			if (theirs->state != REF_POSTED ||
			    (!self && !oracle_meets(&ref->world, number, &mine, other, &yours)))
				continue;
			if (!self && p2p && lk_op_is_collective(ref->world.w->graph->ops.kind[theirs->op]))
				continue;
			member[found++] = theirs;
			if (theirs->arrival > start) start = theirs->arrival;
		}
	}
	if (found < members) return;
	for (uint32_t i = 0; i < found; i++) {
		member[i]->state = REF_SCHEDULED;
		member[i]->due = start;
		member[i]->start = start;
	}
}

/* All shares of the rendezvous are done: it is over for all members. */
static inline void ref_meet_ends(reference *ref, uint32_t number, ref_op *one) {
	ref_op *member[64];
	uint32_t members = oracle_members(&ref->world, number, one->op), found = 0;
	oracle_op mine = {.op = one->op, .meeting = one->meeting};
	for (uint32_t other = 0; other < ref->world.ranks; other++) {
		for (size_t i = 0; i < ref->rank[other].next; i++) {
			ref_op *theirs = &ref->rank[other].ops[i];
			oracle_op yours = {.op = theirs->op, .meeting = theirs->meeting};
			if (theirs->state != REF_HELD ||
			    (theirs != one && !oracle_meets(&ref->world, number, &mine, other, &yours)))
				continue;
			member[found++] = theirs;
		}
	}
	for (uint32_t i = 0; found == members && i < found; i++) {
		member[i]->state = REF_OVER;
		member[i]->end = ref->now;
	}
}

/* What happens to one operation in this moment; true if anything does. */
static inline bool ref_act(reference *ref, uint32_t number, size_t place) {
	ref_rank *rank = &ref->rank[number];
	ref_op *one = &rank->ops[place];
	ref_state before = one->state;
	bool comm = lk_op_is_comm(ref->world.w->graph->ops.kind[one->op]);
	if (one->state == REF_WAITING && ref_sources_over(rank, one)) {
		one->state = comm ? REF_POSTED : REF_SCHEDULED;
		one->start = one->due = one->arrival;
		if (comm) ref_meet(ref, number, one);
	} else if (one->state == REF_SCHEDULED && one->due <= ref->now) {
		one->state = REF_RUNNING;
		one->last = ref->now;
		one->left = (double)one->duration;
		one->due = ref->now + one->duration > one->floor ? ref->now + one->duration : one->floor;
		if (rank->unstarted == place + 1) rank->unstarted = 0, rank->start = ref->now;
	} else if (one->state == REF_RUNNING && one->due <= ref->now) {
		one->state = comm ? REF_HELD : REF_OVER;
		one->end = ref->now;
		if (comm) ref_meet_ends(ref, number, one);
	}
	return one->state != before;
}

static inline bool ref_on_device(const lk_graph *g, uint32_t number, uint32_t op) {
	if (!g->traced) return true;
	return !(g->programs.at[lk_rank_stage(g, number)].threads >> g->ops.stream[op] & 1) &&
	       g->ops.kind[op] != LK_OP_HOST;
}

/* Rates of what runs on a rank from this moment on. */
static inline void ref_set_rates(reference *ref, uint32_t number) {
	const lk_graph *g = ref->world.w->graph;
	ref_rank *rank = &ref->rank[number];
	lk_cost costs[LK_STREAMS];
	const lk_cost *cost[LK_STREAMS];
	bool comm[LK_STREAMS];
	double rate[LK_STREAMS] = {1};
	ref_op *on[LK_STREAMS] = {NULL}, *runs[LK_STREAMS];
	int count = 0;
	for (size_t i = 0; i < rank->next; i++) {
		ref_op *one = &rank->ops[i];
		if ((one->state == REF_RUNNING || one->state == REF_HELD) &&
		    ref_on_device(g, number, one->op))
			on[g->ops.stream[one->op]] = one;
	}
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (!on[s]) continue;
		costs[count] = *oracle_cost(&ref->world, number, on[s]->op);
		if (on[s]->state == REF_HELD)
			costs[count].memory = costs[count].intra = costs[count].nic = 0;
		cost[count] = &costs[count];
		comm[count] = lk_op_is_comm(g->ops.kind[on[s]->op]);
		runs[count++] = on[s];
	}
	if (count > 1) lk_contention_rates(cost, comm, count, rate);
	for (int i = 0; i < count; i++) {
		ref_op *one = runs[i];
		double now = rate[i] < 1 / LK_MOST_SLOWDOWN ? 1 / LK_MOST_SLOWDOWN : rate[i];
		if (one->state != REF_RUNNING || now == one->rate) continue;
		double done = (double)(ref->now - one->last) * one->rate;
		one->left = one->left > done ? one->left - done : 0;
		one->last = ref->now;
		one->rate = now;
		one->due = ref->now + (int64_t)(one->left / now + 0.5);
		if (one->due < one->floor) one->due = one->floor;
	}
}

static inline void ref_moment(reference *ref) {
	for (bool news = true; news;) {
		news = false;
		for (uint32_t r = 0; r < ref->world.ranks; r++) {
			while (ref_issue(ref, r)) news = true;
			for (size_t i = 0; i < ref->rank[r].next; i++) news |= ref_act(ref, r, i);
		}
	}
	for (uint32_t r = 0; r < ref->world.ranks; r++) ref_set_rates(ref, r);
}

static inline int64_t ref_next_due(const reference *ref) {
	int64_t due = INT64_MAX;
	for (uint32_t r = 0; r < ref->world.ranks; r++)
		for (size_t i = 0; i < ref->rank[r].next; i++) {
			const ref_op *one = &ref->rank[r].ops[i];
			if ((one->state == REF_SCHEDULED || one->state == REF_RUNNING) && one->due < due)
				due = one->due;
		}
	return due;
}

static inline void reference_run(const world *w, const lk_sim_options *options, reference *ref) {
	*ref = (reference){.world = {.w = w,
	                             .options = options,
	                             .ranks = w->graph->ranks.stages * w->graph->ranks.chains}};
	oracle *o = &ref->world;
	o->count = calloc(o->ranks, sizeof *o->count);
	o->ops = calloc(o->ranks, sizeof *o->ops);
	ref->rank = calloc(o->ranks, sizeof *ref->rank);
	for (uint32_t r = 0; r < o->ranks; r++) ref_expand(ref, r);
	for (; ref->now != INT64_MAX; ref->now = ref_next_due(ref)) ref_moment(ref);
	for (uint32_t r = 0; r < o->ranks; r++) {
		for (size_t i = 0; i < ref->rank[r].count; i++) {
			ref->stuck |= ref->rank[r].ops[i].state != REF_OVER;
			if (ref->rank[r].ops[i].end > ref->step) ref->step = ref->rank[r].ops[i].end;
		}
		if (ref->rank[r].host > ref->step) ref->step = ref->rank[r].host;
	}
}

static inline void reference_free(reference *ref) {
	for (uint32_t r = 0; r < ref->world.ranks; r++) {
		for (size_t i = 0; i < ref->rank[r].count; i++) free(ref->rank[r].ops[i].source);
		free(ref->rank[r].ops);
	}
	free(ref->rank);
	oracle_free(&ref->world);
}

#endif
