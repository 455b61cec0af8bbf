/* lean.c: the engine with contention again, for searches: where nothing is recorded and ranks are
 * few. The rules and the rounding are those of events.c, to the picosecond; what differs is the
 * book-keeping:
 *
 *   - every rank advances in the order of time; none runs ahead;
 *   - acts of a rank lie in a small pool, so that what waits for what is a mask of bits;
 *   - a process group, or a channel, is used on one stream of a rank: its operations come one after
 * the other, and a place holds one meeting at most;
 *   - rates are looked up by what runs: few sets of operations ever run side by side.
 *
 * Where a graph is of another kind, or waits pile up, or ranks wait for one another forever, `ran`
 * comes back false and events.c has the word. */
#include "sim/lean.h"

#include <string.h>

#define LEAST_RATE (1.0 / LK_MOST_SLOWDOWN)

static int64_t later(int64_t a, int64_t b) {
	return a > b ? a : b;
}

/* --- rates
 * --------------------------------------------------------------------------------------------------------
 */

static void ask_rates(const lk_lean *engine, const lk_lean_rank *rank, int count, double *rate) {
	lk_cost held[LK_STREAMS];
	const lk_cost *cost[LK_STREAMS] = {NULL};
	bool communicates[LK_STREAMS] = {false};
	for (int i = 0; i < count; i++) {
		const lk_lean_act *act = engine->together[i];
		cost[i] = &rank->costs[act->key / 2];
		communicates[i] = act->communicates;
		if (act->state != LK_ACT_HELD) continue;
		held[i] = *cost[i];
		held[i].memory = held[i].intra = held[i].nic = 0;
		cost[i] = &held[i];
	}
	lk_contention_rates(cost, communicates, count, rate);
	for (int i = 0; i < count; i++)
		if (rate[i] < LEAST_RATE) rate[i] = LEAST_RATE;
}

/* The rates of the acts that are `together`, in the order of their streams; their keys stand in
 * `set`. */
static const double *find_rates(lk_lean *engine, const lk_lean_rank *rank, int count) {
	enum {
		WORDS = sizeof engine->set.word / sizeof *engine->set.word
	};
	if (count > LK_LEAN_TOGETHER) {
		ask_rates(engine, rank, count, engine->own);
		return engine->own;
	}
	lk_lean_set *set = &engine->set;
	uint64_t hash = 0, differ = 0;
	set->key[LK_LEAN_TOGETHER] = rank->variant;
	set->key[LK_LEAN_TOGETHER + 1] = (uint32_t)count;
	for (int i = 0; i < WORDS; i++) hash = (hash ^ set->word[i]) * 0x9e3779b97f4a7c15u;
	lk_lean_rates *known = &engine->rates[hash >> (64 - LK_LEAN_RATES_LOG2)];
	for (int i = 0; i < WORDS; i++) differ |= known->set.word[i] ^ set->word[i];
	if (!differ) return known->rate;
	known->set = *set;
	ask_rates(engine, rank, count, known->rate);
	return known->rate;
}

/* What runs goes on at another rate from `time` on. */
static void change_rate(lk_lean_act *act, double rate, int64_t time) {
	double done = (double)(time - act->last) * act->rate;
	act->left = act->left > done ? act->left - done : 0;
	act->last = time;
	act->rate = rate;
	act->due = time + (int64_t)(act->left / rate + 0.5);
	if (act->due < act->floor) act->due = act->floor;
}

/* --- the order of time: ranks in gangs, and the least key of each. No branches: which rank is next
 * cannot be guessed -- */

static int64_t sooner(int64_t a, int64_t b) {
	return a < b ? a : b;
}

static int64_t least_of(const int64_t *k) {
	return sooner(sooner(sooner(k[0], k[1]), sooner(k[2], k[3])),
	              sooner(sooner(k[4], k[5]), sooner(k[6], k[7])));
}

static int64_t next_time(const lk_lean *engine) {
	int64_t time = engine->least[0];
	for (uint32_t g = 1; g < engine->gangs; g++) time = sooner(time, engine->least[g]);
	return time;
}

/* --- acts
 * ---------------------------------------------------------------------------------------------------------
 */

/* Something began or ended on the rank: its rates are to be set before time goes on. */
static void note_change(lk_lean *engine, uint32_t number) {
	engine->changed[number / LK_GANG] |= (uint8_t)(1u << number % LK_GANG);
}

static void may_issue(lk_lean *engine, uint32_t number) {
	lk_lean_rank *rank = &engine->rank[number];
	if (!rank->issues) engine->issuing[engine->issuing_count++] = (uint8_t)number;
	rank->issues = true;
}

static void complete(lk_lean *engine, uint32_t number, uint32_t id);

/* The act begins now. A kernel lets what is behind it be issued; one that takes no time is over at
 * once. */
static void begin(lk_lean *engine, uint32_t number, uint32_t id) {
	lk_lean_rank *rank = &engine->rank[number];
	lk_lean_act *act = &rank->act[id];
	act->state = LK_ACT_RUNNING;
	act->last = engine->now;
	act->left = (double)act->duration;
	act->rate = 1;
	act->due = later(engine->now + act->duration, act->floor);
	if (rank->unstarted == id) {
		rank->start = engine->now;
		rank->unstarted = LK_LEAN_NONE;
		may_issue(engine, number);
	}
	if (act->due == engine->now && !act->communicates) complete(engine, number, id);
}

/* The act begins at `start`, which is known from here on. */
static void schedule(lk_lean *engine, uint32_t number, uint32_t id, int64_t start) {
	lk_lean_rank *rank = &engine->rank[number];
	lk_lean_act *act = &rank->act[id];
	rank->on[act->stream] = act;
	rank->live |= 1u << act->stream;
	note_change(engine, number);
	if (start <= engine->now) {
		begin(engine, number, id);
	} else {
		act->state = LK_ACT_SCHEDULED;
		act->due = start;
	}
}

/* Arrives where its members meet; the last one starts it. */
static void post(lk_lean *engine, lk_lean_meeting *meeting, uint32_t number, uint32_t id,
                 lk_lean_act *act) {
	lk_lean_member *member = engine->member + meeting->first;
	member[meeting->arrived++] = (lk_lean_member){number, id};
	meeting->start = later(meeting->start, act->arrival);
	act->state = LK_ACT_POSTED;
	if (meeting->arrived < meeting->members) return;
	int64_t start = meeting->start;
	meeting->arrived = 0;
	meeting->start = 0;
	meeting->running = meeting->members;
	for (uint32_t i = 0, count = meeting->members; i < count; i++)
		schedule(engine, member[i].rank, member[i].act, start);
}

static void arrive(lk_lean *engine, uint32_t number, uint32_t id) {
	lk_lean_act *act = &engine->rank[number].act[id];
	if (act->meeting) post(engine, act->meeting, number, id, act);
	else schedule(engine, number, id, act->arrival);
}

/* Gives the end to a register that waits for this act and no later one. */
static void keep(lk_lean_register *to, uint64_t act, int64_t end) {
	if (to->pending == act) *to = (lk_lean_register){end, 0};
}

/* The act is over now. */
static void complete(lk_lean *engine, uint32_t number, uint32_t id) {
	lk_lean_rank *rank = &engine->rank[number];
	lk_lean_act *act = &rank->act[id];
	int64_t now = engine->now;
	uint64_t bit = UINT64_C(1) << id % LK_LEAN_ACTS;
	keep(&rank->stream[act->stream], bit, now);
	if (act->slot) keep(act->slot, bit, now);
	if (act->event) keep(act->event, bit, now);
	rank->finish = later(rank->finish, now);
	note_change(engine, number);
	rank->live &= ~(1u << act->stream);
	rank->used &= ~bit;
	if (rank->host_waits) may_issue(engine, number);
	for (uint64_t out = act->out; out; out &= out - 1) {
		uint32_t to = (uint32_t)__builtin_ctzll(out);
		lk_lean_act *waits = &rank->act[to];
		waits->waits &= ~bit;
		waits->arrival = later(waits->arrival, now);
		if (!waits->waits) arrive(engine, number, to);
	}
}

/* A member has done its share: the last one ends the operation for all. */
static void share_done(lk_lean *engine, uint32_t number, uint32_t id) {
	lk_lean_act *act = &engine->rank[number].act[id];
	lk_lean_meeting *meeting = act->meeting;
	if (!meeting) {
		complete(engine, number, id);
		return;
	}
	const lk_lean_member *member = engine->member + meeting->first;
	act->state = LK_ACT_HELD;
	act->key++;
	act->due = LK_NEVER;
	note_change(engine, number);
	if (--meeting->running > 0) return;
	for (uint32_t i = 0, count = meeting->members; i < count; i++) {
		lk_lean_member next =
			member[i]; /* whoever is through may arrive here anew, but not past the others */
		complete(engine, next.rank, next.act);
	}
}

/* --- issuing
 * ------------------------------------------------------------------------------------------------------
 */

/* Opens the call that the program counter stands at; calls without operations are passed over. */
static void open_call(const lk_lean *engine, lk_lean_rank *rank) {
	for (; rank->call < rank->calls_end; rank->call++) {
		const lk_block *block = &engine->blocks[rank->call->block];
		if (!rank->call->repeat || block->begin == block->end) continue;
		rank->op = block->begin;
		rank->end_op = block->end;
		rank->repeats = rank->call->repeat;
		return;
	}
}

static void step(const lk_lean *engine, lk_lean_rank *rank) {
	rank->ops++;
	if (++rank->op < rank->end_op) return;
	if (--rank->repeats > 0) {
		rank->op = engine->blocks[rank->call->block].begin;
	} else {
		rank->call++;
		open_call(engine, rank);
	}
}

/* The event of the program that argument `wait` or `signal` of the present call means. */
static lk_lean_register *event_of(const lk_lean_rank *rank, unsigned argument) {
	return &rank->event[rank->call->arg[argument - 1]];
}

/* The latest known end among what an operation waits for; acts that are not over are added to
 * *waits. */
static int64_t sources(const lk_lean *engine, const lk_lean_rank *rank, const lk_insn *insn,
                       uint64_t *waits) {
	int64_t ready = insn->flags & LK_INSN_ISSUED ? rank->start : 0;
	uint64_t pending = *waits;
	for (uint32_t streams = insn->join; streams; streams &= streams - 1) {
		const lk_lean_register *stream = &rank->stream[__builtin_ctz(streams)];
		ready = later(ready, stream->end);
		pending |= stream->pending;
	}
	if (insn->flags & LK_INSN_EXTRA) {
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
			const lk_lean_register *slot = &rank->slot[engine->sim->deps[d]];
			ready = later(ready, slot->end);
			pending |= slot->pending;
		}
		if (insn->wait) {
			const lk_lean_register *event = event_of(rank, insn->wait);
			ready = later(ready, event->end);
			pending |= event->pending;
		}
	}
	*waits = pending;
	return ready;
}

/* Books the act as what its stream, slot and event wait for, and with the acts that it waits for
 * itself. */
static void promise(lk_lean_rank *rank, lk_lean_act *act, const lk_insn *insn, uint32_t id) {
	uint64_t bit = UINT64_C(1) << id;
	act->slot = insn->slot != LK_NO_SLOT ? &rank->slot[insn->slot] : NULL;
	act->event = insn->signal ? event_of(rank, insn->signal) : NULL;
	rank->stream[insn->stream].pending = bit;
	if (act->slot) act->slot->pending = bit;
	if (act->event) act->event->pending = bit;
	rank->used |= bit;
	for (uint64_t waits = act->waits; waits; waits &= waits - 1)
		rank->act[__builtin_ctzll(waits)].out |= bit;
}

/* Makes an act of the next operation, which waits for `waits` and `ready` too. */
static void issue_act(lk_lean *engine, uint32_t number, const lk_lean_op *op, int64_t ready,
                      uint64_t waits) {
	lk_lean_rank *rank = &engine->rank[number];
	if (rank->used == UINT64_MAX) {
		engine->crowded = true;
		return;
	}
	const lk_insn *insn = &op->insn;
	uint32_t id = (uint32_t)__builtin_ctzll(~rank->used);
	lk_lean_act *act = &rank->act[id];
	ready = later(ready, sources(engine, rank, insn, &waits));
	act->arrival = later(ready, rank->host + op->lead);
	rank->host += op->host;
	act->duration = op->duration;
	act->floor = rank->host + op->floor;
	act->due = LK_NEVER;
	act->waits = waits;
	act->out = 0;
	act->key = rank->op * 2;
	act->id = (uint8_t)id;
	act->stream = insn->stream;
	act->state = LK_ACT_WAITING;
	act->communicates = insn->flags & LK_INSN_COMM;
	act->meeting = act->communicates ? lk_lean_meets_at(engine, rank, insn) : NULL;
	if (insn->flags & LK_INSN_MAIN) {
		rank->unstarted = (uint8_t)id;
		rank->ahead -= act->duration > 0 ? act->duration - 1 : 0; /* lk_lean_least */
	}
	promise(rank, act, insn, id);
	step(engine, rank);
	if (!waits) arrive(engine, number, id);
}

/* Work of the host thread; false if it has to wait for something that is not over. */
static bool run_host(lk_lean *engine, lk_lean_rank *rank, const lk_lean_op *op) {
	uint64_t waits = 0;
	int64_t ready = sources(engine, rank, &op->insn, &waits);
	if (waits) return false;
	rank->host = later(rank->host + op->host, ready) + op->duration;
	lk_lean_register over = {rank->host, 0};
	rank->stream[op->insn.stream] = over;
	if (op->insn.slot != LK_NO_SLOT) rank->slot[op->insn.slot] = over;
	if (op->insn.signal) *event_of(rank, op->insn.signal) = over;
	rank->finish = later(rank->finish, rank->host);
	step(engine, rank);
	return true;
}

/* Whether a kernel is behind the present operation. */
static bool kernel_behind(const lk_lean *engine, const lk_lean_rank *rank) {
	const lk_call *next = rank->call + 1;
	if (rank->op + 1 < rank->end_op) return rank->code[rank->op + 1].kernel;
	if (rank->repeats > 1) return rank->code[engine->blocks[rank->call->block].begin].kernel;
	if (next == rank->calls_end || !next->repeat) return false;
	const lk_block *block = &engine->blocks[next->block];
	return block->begin < block->end && rank->code[block->begin].kernel;
}

static void issue_next(lk_lean *engine, uint32_t number, const lk_lean_op *op) {
	lk_lean_rank *rank = &engine->rank[number];
	int64_t ready = 0;
	uint64_t waits = 0;
	if (op->melts && kernel_behind(engine, rank)) {
		ready = later(sources(engine, rank, &op->insn, &waits), rank->host);
		step(engine, rank);
		op = &rank->code[rank->op];
	}
	issue_act(engine, number, op, ready, waits);
}

/* Issues operations up to and including the next one of the compute stream; behind it, when it has
 * started. */
static void issue(lk_lean *engine, uint32_t number) {
	lk_lean_rank *rank = &engine->rank[number];
	rank->issues = rank->host_waits = false;
	while (rank->unstarted == LK_LEAN_NONE && rank->call < rank->calls_end && !engine->crowded) {
		const lk_lean_op *op = &rank->code[rank->op];
		if (op->insn.what != LK_INSN_HOST) issue_next(engine, number, op);
		else if (!run_host(engine, rank, op)) {
			rank->host_waits = true;
			return;
		}
	}
}

/* --- moments
 * ------------------------------------------------------------------------------------------------------
 */

/* What the acts of a rank have come to do now. What one does may end another. */
static void advance(lk_lean *engine, uint32_t number) {
	lk_lean_rank *rank = &engine->rank[number];
	note_change(engine, number);
	for (uint32_t mask = rank->live; mask; mask &= mask - 1) {
		unsigned stream = (unsigned)__builtin_ctz(mask);
		const lk_lean_act *act = rank->on[stream];
		if (act->due > engine->now || !(rank->live >> stream & 1)) continue;
		if (act->state == LK_ACT_SCHEDULED) begin(engine, number, act->id);
		else if (act->communicates) share_done(engine, number, act->id);
		else complete(engine, number, act->id);
	}
}

static void advance_gang(lk_lean *engine, uint32_t gang) {
	const int64_t *key = engine->key + gang * LK_GANG;
	uint32_t due = 0;
	for (uint32_t i = 0; i < LK_GANG; i++) due |= (uint32_t)(key[i] == engine->now) << i;
	for (; due; due &= due - 1) advance(engine, gang * LK_GANG + (uint32_t)__builtin_ctz(due));
}

/* Rates of what runs on a rank from now on, and when it acts next. */
static void settle(lk_lean *engine, uint32_t number) {
	lk_lean_rank *rank = &engine->rank[number];
	int count = 0;
	int64_t due = LK_NEVER;
	engine->own[0] = 1;
	engine->set = (lk_lean_set){0};
	for (uint32_t mask = rank->live; mask; mask &= mask - 1) {
		lk_lean_act *act = rank->on[__builtin_ctz(mask)];
		if (act->state == LK_ACT_SCHEDULED) {
			due = sooner(due, act->due);
			continue;
		}
		if (count < LK_LEAN_TOGETHER) engine->set.key[count] = act->key;
		engine->together[count++] = act;
	}
	const double *rate = count > 1 ? find_rates(engine, rank, count) : engine->own;
	for (int i = 0; i < count; i++) {
		lk_lean_act *act = engine->together[i];
		if (act->state == LK_ACT_RUNNING && rate[i] != act->rate)
			change_rate(act, rate[i], engine->now);
		due = sooner(due, act->due);
	}
	engine->key[number] = due;
}

/* Of the ranks on which something changed; then of their gangs the least key. */
static void settle_all(lk_lean *engine) {
	for (uint32_t g = 0; g < engine->gangs; g++) {
		uint32_t changed = engine->changed[g];
		if (!changed) continue;
		for (; changed; changed &= changed - 1)
			settle(engine, g * LK_GANG + (uint32_t)__builtin_ctz(changed));
		engine->changed[g] = 0;
		engine->least[g] = least_of(engine->key + g * LK_GANG);
	}
}

/* Whether some rank has so much ahead of it that the step cannot be over in time. What is issued
 * may be nearly done. */
static bool too_late(lk_lean *engine) {
	int64_t limit = engine->sim->options->give_up_ps;
	if (limit <= 0) return false;
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_lean_rank *rank = &engine->rank[i];
		if (rank->ahead > 0)
			engine->least_end = later(engine->least_end, engine->now + rank->ahead + rank->tail);
	}
	return engine->least_end > limit;
}

/* What happens in one moment may let something else happen in it, on any rank. */
static void run(lk_lean *engine) {
	enum {
		LOOK = 64
	};
	for (uint32_t i = 0; i < engine->ranks; i++) may_issue(engine, i);
	for (uint32_t moments = 0; !engine->crowded; moments++) {
		if (moments % LOOK == 0) {
			engine->stopped = lk_stop_asked(engine->stop);
			engine->gave_up = too_late(engine);
			if (engine->stopped || engine->gave_up) return;
		}
		while (engine->issuing_count) issue(engine, engine->issuing[--engine->issuing_count]);
		settle_all(engine);
		engine->now = next_time(engine);
		if (engine->now == LK_NEVER) return;
		for (uint32_t g = 0; g < engine->gangs; g++)
			if (engine->least[g] == engine->now) advance_gang(engine, g);
	}
}

static bool is_over(const lk_lean *engine) {
	bool over = !engine->crowded;
	for (uint32_t i = 0; i < engine->ranks; i++)
		over = over && engine->rank[i].call == engine->rank[i].calls_end && !engine->rank[i].used;
	return over;
}

lk_status lk_run_lean(const lk_sim *sim, lk_sim_result *out, bool *ran, lk_error *err) {
	lk_lean engine = {
		.sim = sim, .blocks = sim->graph->blocks.at, .insn = sim->insn, .stop = lk_stop_watched()};
	bool suits = false;
	lk_status status = lk_lean_set_up(&engine, &suits, err);
	if (status == LK_OK && suits) {
		for (uint32_t i = 0; i < engine.ranks; i++) open_call(&engine, &engine.rank[i]);
		run(&engine);
	}
	out->gave_up = engine.gave_up;
	if (out->gave_up) out->step_ps = engine.least_end;
	*ran = status == LK_OK && suits && (out->gave_up || is_over(&engine));
	for (uint32_t i = 0; *ran && !out->gave_up && i < engine.ranks; i++) {
		out->finish_ps[i] = later(engine.rank[i].finish, engine.rank[i].host);
		out->operations += engine.rank[i].ops;
	}
	lk_arena_free(&engine.arena);
	return engine.stopped ? lk_stop_fail(err) : status;
}
