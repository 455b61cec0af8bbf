/* lean.h: what the files of the lean engine share. Private to sim/. */
#ifndef LK_SIM_LEAN_H
#define LK_SIM_LEAN_H

#include "sim/events.h"

enum {
	LK_LEAN_ACTS = 64,  /* of a rank, not over: a bit each */
	LK_LEAN_NONE = 255, /* no act */
	LK_LEAN_RANKS = 256,
	LK_LEAN_TOGETHER = 6, /* acts side by side whose rates are remembered */
	LK_LEAN_RATES_LOG2 = 9,
};

/* What is asked of an operation when it is issued, for the ranks of one variant that are equally
 * fast. */
typedef struct lk_lean_op {
	int64_t duration, host, lead,
		floor; /* floor: from the end of its launch to its own end at least; of kernels */
	lk_insn insn;
	bool kernel; /* of the compute stream, and no communication */
	bool melts;  /* a wait of the compute stream that costs nothing: a kernel behind it can wait in
	                its place */
} lk_lean_op;

/* When something ended, and the act, as a bit, that will say so anew. */
typedef struct lk_lean_register {
	int64_t end;
	uint64_t pending;
} lk_lean_register;

typedef struct lk_lean_act {
	int64_t arrival, duration, floor, due, last;
	double left, rate;
	uint64_t waits, out;             /* acts of its rank: that it waits for, that wait for it */
	lk_lean_register *slot, *event;  /* that it sets; NULL: none */
	struct lk_lean_meeting *meeting; /* NULL: no other rank takes part */
	uint32_t key;                    /* the operation, and whether it is held */
	uint8_t id, stream, state;       /* id: its place in the pool; lk_act_state */
	bool communicates;
} lk_lean_act;

typedef struct lk_lean_rank {
	const lk_call *call,
		*calls_end; /* program counter: call, repetitions left, operation, end of its block */
	uint32_t repeats, op, end_op, variant;
	uint32_t stage, lane;
	const lk_cost *costs;
	const lk_lean_op *code;
	const uint32_t *port_place; /* [channels] of its stage */
	double factor;              /* of a straggler */
	int64_t host, start,
		finish;          /* host's clock; start of the last compute operation; end of all so far */
	int64_t ahead, tail; /* least times: of compute operations that are not issued, without the last
	                        call; behind them */
	uint64_t ops, used;  /* issued so far; acts in use */
	uint32_t live;       /* streams with an act that is scheduled, runs or is held */
	uint8_t unstarted;   /* compute act that has not started: nothing behind it is issued */
	bool issues;         /* in the list of those that may */
	bool host_waits;     /* the host thread waits for something that is not over */
	lk_lean_act *on[LK_STREAMS];         /* the live act of each stream */
	lk_lean_register stream[LK_STREAMS]; /* end of the last operation of each */
	lk_lean_register *slot, *event;
	lk_lean_act act[LK_LEAN_ACTS];
} lk_lean_rank;

typedef struct lk_lean_member {
	uint32_t rank, act;
} lk_lean_member;

/* The operation that is open at a place. */
typedef struct lk_lean_meeting {
	int64_t start;             /* latest arrival */
	uint32_t first;            /* into members */
	uint32_t members;          /* of the operation that is open */
	uint32_t arrived, running; /* members that wait; that have not done their share */
} lk_lean_meeting;

/* What runs side by side: the acts' keys in the order of their streams, the rank's variant, how
 * many. */
typedef union lk_lean_set {
	uint32_t key[LK_LEAN_TOGETHER + 2];
	uint64_t word[LK_LEAN_TOGETHER / 2 + 1];
} lk_lean_set;

typedef struct lk_lean_rates {
	lk_lean_set set;
	double rate[LK_LEAN_TOGETHER];
} lk_lean_rates;

typedef struct lk_lean {
	const lk_sim *sim;
	const lk_block *blocks;
	const lk_insn *insn;
	lk_arena arena;
	lk_lean_rank *rank;
	uint32_t ranks, gangs;                    /* gangs of LK_GANG ranks */
	int64_t *key;                             /* [gangs * LK_GANG] when each rank acts next */
	int64_t *least;                           /* [gangs] of its ranks */
	uint8_t changed[LK_LEAN_RANKS / LK_GANG]; /* of each gang, as bits: ranks whose rates are to be
	                                             set before time goes on */
	uint8_t issuing[LK_LEAN_RANKS]; /* ranks that may issue again: a kernel has started, or what the
	                                   host waits for is over */
	uint32_t issuing_count;
	lk_lean_meeting *meeting;
	lk_lean_member *member;
	size_t group_place[LK_GROUPS];
	uint32_t *port_place; /* [stages * channels] */
	lk_lean_rates *rates;
	lk_lean_act *
		together[LK_STREAMS]; /* of the rank whose rates are being set: acts that run or are held */
	lk_lean_set set;
	double own[LK_STREAMS];
	int64_t now;
	const lk_stop *stop; /* watched by this thread; may be NULL */
	bool stopped, gave_up;
	int64_t least_end; /* no simulation ends before: known where it was given up */
	bool crowded;      /* more than LK_LEAN_ACTS */
} lk_lean;

/* lean_set_up.c: *suits false: the graph is not of the kind that this engine runs. */
lk_status lk_lean_set_up(lk_lean *engine, bool *suits, lk_error *err);

static inline int64_t lk_lean_scaled(const lk_lean_rank *rank, const lk_insn *insn,
                                     int64_t duration) {
	if (insn->flags & LK_INSN_INSTANT) return 0;
	return rank->factor != 1 && (insn->flags & LK_INSN_SCALED)
	           ? lk_sim_scale(duration, rank->factor)
	           : duration;
}

/* Of an operation, what is left whatever runs beside it: only rounding, when rates change, makes it
 * shorter than alone. */
static inline int64_t lk_lean_least(const lk_lean *engine, const lk_lean_rank *rank, uint32_t op) {
	int64_t alone = lk_lean_scaled(rank, &engine->insn[op], rank->costs[op].duration_ps);
	return alone > 0 ? alone - 1 : 0;
}

/* lean_ahead.c: fills `ahead` and `tail` of all ranks. */
lk_status lk_lean_look_ahead(lk_lean *engine, lk_error *err);

/* Where the members of an operation meet, and how many they are; NULL: the rank is the only one. */
static inline lk_lean_meeting *lk_lean_meets_at(const lk_lean *engine, const lk_lean_rank *rank,
                                                const lk_insn *insn) {
	const lk_sim *sim = engine->sim;
	if (insn->what == LK_INSN_P2P)
		return &engine->meeting[rank->port_place[insn->channel] + rank->lane];
	const lk_lane_groups *groups = &sim->group[insn->group];
	uint32_t g = groups->of[rank->lane], lanes = groups->begin[g + 1] - groups->begin[g],
			 members = lanes;
	lk_lean_meeting *meeting = &engine->meeting[engine->group_place[insn->group] + g];
	if (insn->what == LK_INSN_GROUP) meeting += rank->stage * groups->groups;
	else if (insn->group != LK_GROUP_EMBEDDING) members = lanes * sim->stages;
	else members = rank->stage == 0 || rank->stage == sim->stages - 1 ? 2 : 1;
	if (members > 1) meeting->members = members;
	return members > 1 ? meeting : NULL;
}

#endif
