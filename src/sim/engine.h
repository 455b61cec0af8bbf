/* engine.h: what the files of the engine with contention call of one another, over the state of
 * engine_state.h. */
#ifndef LK_SIM_ENGINE_H
#define LK_SIM_ENGINE_H

#include "sim/engine_state.h"

static inline void lk_engine_no_memory(lk_engine *engine) {
	engine->no_memory = engine->halted = true;
}

/* ---- engine_program.c ---- */

/* Open the call at the program counter; skip calls without operations. */
void lk_rank_open_call(const lk_engine *engine, lk_rank *rank);
/* Whether nothing else runs on the rank while it waits for the operation at its program counter. */
bool lk_insn_blocks(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn);
/* The number of successive messages from the program counter on that wait for all kernels and are
 * all waited for by the kernel after them: 0 to LK_PARKED_MOST. */
uint32_t lk_messages_block(const lk_engine *engine, const lk_rank *rank, uint32_t *ops);

/* ---- engine_rates.c ---- */

/* Rates of the acts in `together`, in the order of their streams: computed, or found in the
 * cache. */
void lk_rates_ask(const lk_engine *engine, const lk_rank *rank, int count, double *rate);
const double *lk_rates_find(lk_engine *engine, const lk_rank *rank, int count);

/* ---- engine_alone.c ---- */

/* Run a rank that is alone until it parks, is done (false), or has an operation that overlaps
 * (true). */
bool lk_rank_run_alone(lk_engine *engine, lk_rank *rank);
/* Whether the rank's next operation, if the rank is alone, also runs alone. */
bool lk_rank_stays_alone(lk_engine *engine, const lk_rank *rank);
/* Run work of the host thread, whose sources are all known. */
void lk_rank_run_host(lk_engine *engine, lk_rank *rank, const lk_insn *insn);
/* A compute duration with the straggler's factor and jitter applied. */
int64_t lk_rank_noise(const lk_engine *engine, const lk_rank *rank, uint32_t op, int64_t duration);

static inline bool lk_rank_at_end(const lk_rank *rank) {
	return rank->call == rank->calls_end;
}

static inline void lk_rank_step(const lk_engine *engine, lk_rank *rank) {
	LK_ASSERT(!lk_rank_at_end(rank) && rank->op < rank->end_op && rank->repeats > 0);
	rank->ops++;
	if (++rank->op < rank->end_op) return;
	if (--rank->repeats > 0) {
		rank->op = engine->blocks[rank->call->block].begin;
	} else {
		rank->call++;
		lk_rank_open_call(engine, rank);
	}
}

/* The program's event of argument `wait` or `signal` of the current call. */
static inline lk_register *lk_rank_event(const lk_rank *rank, unsigned argument) {
	LK_ASSERT(argument >= 1 && argument <= 2 &&
	          rank->call->arg[argument - 1] < rank->program->events);
	return &rank->event[rank->call->arg[argument - 1]];
}

static inline int64_t lk_rank_duration(const lk_engine *engine, const lk_rank *rank,
                                       const lk_insn *insn, int64_t duration) {
	if (insn->flags & LK_INSN_INSTANT) return 0;
	if (!rank->noisy || !(insn->flags & LK_INSN_SCALED)) return duration;
	return lk_rank_noise(engine, rank, rank->op, duration);
}

/* Record the event of the operation at the program counter; LK_NO_RECORD: the rank is not
 * recorded. */
static inline uint64_t lk_rank_record(lk_rank *rank, int64_t ready, int64_t start, int64_t end) {
	if (!rank->events) return LK_NO_RECORD;
	rank->events[rank->ops] = (lk_sim_event){
		.record = rank->record,
		.call = (uint32_t)(rank->call - rank->program->calls.at),
		.repetition = rank->call->repeat - rank->repeats,
		.op = rank->op,
		.ready_ps = ready,
		.start_ps = start,
		.end_ps = end,
	};
	return rank->ops;
}

/* Set the operation's end for its stream, slot and event. */
static inline void lk_rank_keep_end(lk_rank *rank, const lk_insn *insn, lk_register *event,
                                    int64_t end) {
	lk_register over = {end, NULL};
	rank->stream[insn->stream] = over;
	if (insn->slot != LK_NO_SLOT) {
		lk_register *slot = &rank->slot[insn->slot];
		*slot = over;
		if (rank->kernel.slot == slot) rank->kernel.slot = NULL;
	}
	if (event) {
		*event = over;
		if (rank->kernel.event == event) rank->kernel.event = NULL;
	}
	rank->finish = lk_later(rank->finish, end);
}

/* An operation's contribution to the bound: only rounding, when rates change, makes it shorter than
 * alone. */
static inline int64_t lk_least_time(int64_t duration) {
	return duration > 0 ? duration - 1 : 0;
}

/* The compute operation at the program counter is issued: remove it from `ahead`. */
static inline void lk_rank_pass(const lk_engine *engine, lk_rank *rank, int64_t duration) {
	rank->ahead -= lk_least_time(duration);
	if (engine->lead_in)
		rank->ahead -=
			engine->lead_in[(size_t)rank->variant * engine->sim->graph->ops.count + rank->op];
}

/* Something overlaps with the rank's last kernel: it becomes an act unless it has ended. */
void lk_rank_open(lk_engine *engine, lk_rank *rank);
/* Only a kernel is left, and it runs alone: its end is known, and the rank continues alone. */
void lk_rank_close(lk_engine *engine, lk_rank *rank);

/* Run all ranks to the end. */
void lk_engine_run(lk_engine *engine);

/* ---- engine_acts.c ---- */

/* Allocate more free acts; NULL: out of memory. */
lk_act *lk_acts_more(lk_engine *engine);
lk_act_edge *lk_act_edges_more(lk_engine *engine);
/* All dependencies of the act on its own rank have ended. */
void lk_act_arrive(lk_engine *engine, lk_rank *rank, lk_act *act);
/* Start the act now. A started kernel enables the next operations; an act without duration ends at
 * once. */
void lk_act_begin(lk_engine *engine, lk_rank *rank, lk_act *act);
/* An operation at which the rank is parked has ended; after the last one the rank continues. */
void lk_rank_resume(lk_engine *engine, lk_rank *rank, uint32_t place, int64_t start, int64_t end);
/* A member has finished its share. */
void lk_act_share_done(lk_engine *engine, lk_rank *rank, lk_act *act);
/* End the act now. */
void lk_act_complete(lk_engine *engine, lk_rank *rank, lk_act *act);

static inline uint32_t lk_act_op(const lk_act *act) {
	return act->key / 2;
}

/* The rank may issue: a kernel has started, the host's wait has ended, or it runs alone and
 * continues. */
static inline void lk_rank_may_issue(lk_engine *engine, lk_rank *rank) {
	if (!rank->issues) engine->issuing[engine->issuing_count++] = rank;
	rank->issues = true;
}

/* Something began or ended on the rank: set its rates before time advances. */
static inline void lk_rank_note_change(lk_engine *engine, lk_rank *rank) {
	if (rank->changed) return;
	rank->changed = true;
	engine->changed[engine->changed_count++] = rank;
}

/* Let `act` wait for `before`. */
static inline void lk_act_await(lk_engine *engine, lk_act *act, lk_act *before) {
	lk_act_edge *edge = engine->spare_edge;
	if (!edge && !(edge = lk_act_edges_more(engine))) {
		lk_engine_no_memory(engine);
		return;
	}
	engine->spare_edge = edge->next;
	edge->next = before->out;
	edge->to = act;
	before->out = edge;
	act->waits++;
}

static inline lk_act *lk_act_new(lk_engine *engine) {
	lk_act *act = engine->spare_act;
	if (!act && !(act = lk_acts_more(engine))) return NULL;
	engine->spare_act = act->next;
	return act;
}

static inline void lk_act_free(lk_engine *engine, lk_act *act) {
	act->next = engine->spare_act;
	engine->spare_act = act;
}

static inline bool lk_act_is_kernel(const lk_engine *engine, const lk_act *act) {
	return act->stream == LK_STREAM_COMPUTE && !act->communicates &&
	       engine->insn[lk_act_op(act)].flags & LK_INSN_MAIN;
}

/* Enter the act as the one that will set its stream, slot and event. */
static inline void lk_rank_promise(lk_rank *rank, lk_act *act) {
	rank->stream[act->stream].pending = act;
	if (act->slot) act->slot->pending = act;
	if (act->event) act->event->pending = act;
}

/* Set the end of a register that waits for this act and no later one. */
static inline void lk_register_keep(lk_register *to, const lk_act *act, int64_t end) {
	if (to->pending == act) *to = (lk_register){end, NULL};
}

/* The work left at `last` continues at another rate from `time` on. */
static inline void lk_work_change_rate(double *left, double *rate, int64_t *last, double to,
                                       int64_t time) {
	LK_ASSERT(time >= *last && to >= LK_LEAST_RATE && *left >= 0);
	double done = (double)(time - *last) * *rate;
	*left = *left > done ? *left - done : 0;
	*last = time;
	*rate = to;
}

/* The running act continues at another rate from `time` on. */
static inline void lk_act_change_rate(lk_act *act, double rate, int64_t time) {
	lk_work_change_rate(&act->left, &act->rate, &act->last, rate, time);
	act->due = lk_later(time + (int64_t)(act->left / rate + 0.5), act->floor);
}

/* ---- engine_acts.c: rendezvous ---- */

lk_status lk_venues_set_up(lk_engine *engine, lk_error *err);
/* The venue where the operation at the rank's program counter synchronises, and its number there;
 * NULL: no other rank takes part. */
lk_venue *lk_venue_find(lk_engine *engine, lk_rank *rank, const lk_insn *insn, uint32_t *number);
/* A rank arrives; the last one starts the operation. */
void lk_venue_arrive(lk_engine *engine, lk_venue *venue, uint32_t number, lk_member member,
                     int64_t arrival);

/* ---- engine_gang.c ---- */

lk_status lk_gangs_set_up(lk_engine *engine, lk_error *err);
/* Whether the members of a rendezvous that has ended are a gang. */
bool lk_gang_find(lk_engine *engine, const lk_rendezvous *rendezvous);
/* Run the found gang as far as possible; its members continue from there. */
void lk_gang_run(lk_engine *engine);

/* ---- engine_stride.c ---- */

lk_status lk_strides_set_up(lk_engine *engine, lk_error *err);
/* A kernel of the rank has started: whether the rank sleeps from here on. */
bool lk_rank_stride(lk_engine *engine, lk_rank *rank);
/* Note the operation at the program counter, which is about to be issued, on the rank's open
 * tape. */
void lk_stride_note(const lk_engine *engine, lk_rank *rank, const lk_insn *insn);
/* Take the strides that have ended; the kernel at the end of the last one is running. */
void lk_rank_wake(lk_engine *engine, lk_rank *rank);

/* ---- engine_bound.c ---- */

/* Set `ahead` and `tail` of all ranks. */
lk_status lk_bound_set_up(lk_engine *engine, lk_error *err);
/* Whether some rank has too much work left for the step to end in time. */
bool lk_bound_too_late(lk_engine *engine);

#endif
