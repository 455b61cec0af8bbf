/* events.h: what the files of the event engine share. Private to sim/.
 *
 * A rank is *quiet* while nothing of it overlaps: it then runs ahead without regard to the time of
 * others, as in the sweep. It is *busy* while an operation off its compute stream is issued and not
 * over: its operations are then *acts*, and it advances in the order of time. Quiet ranks run
 * before anything else, so whatever may still reach a busy rank happens no earlier than the busy
 * rank that is next. Ranks of lifted traces are always busy: their threads and streams overlap. */
#ifndef LK_SIM_EVENTS_H
#define LK_SIM_EVENTS_H

#include "base/stop.h"
#include "sim/lower.h"

#define LK_NEVER INT64_MAX

typedef enum lk_act_state {
	LK_ACT_WAITING,   /* for acts of its own rank */
	LK_ACT_POSTED,    /* for its partners */
	LK_ACT_SCHEDULED, /* starts at `due` */
	LK_ACT_RUNNING,   /* at the present rate its share is done at `due` */
	LK_ACT_HELD,      /* its share is done; over at `due`, when the last member's is */
} lk_act_state;

typedef struct lk_act_edge {
	struct lk_act_edge *next;
	struct lk_act *to;
} lk_act_edge;

typedef struct lk_act {
	struct lk_act *next; /* in the free list */
	lk_act_edge *out;    /* acts that wait for this one */
	struct lk_meeting *meeting;
	int64_t arrival, duration, floor; /* floor: over no earlier, see tail_ps */
	int64_t due, last;                /* last: when `left` was true */
	double left, rate;
	uint64_t record; /* its number in the program, or LK_NO_RECORD */
	uint64_t number; /* of its meeting */
	uint32_t op, call, waits;
	uint32_t sets; /* 1 + event of the program, 0 none */
	uint8_t stream, state;
	bool communicates;
	bool device; /* shares it with others; CPU threads do not */
} lk_act;

typedef struct lk_meeting_member {
	uint32_t rank;
	lk_act *act; /* NULL: the rank is quiet and waits for nothing else */
} lk_meeting_member;

typedef struct lk_meeting {
	struct lk_meeting *next;
	uint64_t number;
	int64_t start, end; /* latest arrival, latest end of a share */
	uint32_t expected, arrived, finished;
	lk_meeting_member member[];
} lk_meeting;

/* Of a rank of a lifted trace. An operation starts no earlier than the one before it on its stream
 * ends, so operations are issued, in program order, until every stream has one that is not over or
 * none left. */
typedef struct lk_flow {
	uint64_t left[LK_STREAMS];   /* operations that are not issued yet */
	uint32_t issued[LK_STREAMS]; /* acts */
	uint32_t starved;            /* streams that have operations left but no act */
} lk_flow;

/* Acts at the same time, of all ranks: beyond, memory is at stake. */
#define LK_MOST_ACTS (UINT64_C(1) << 23)

/* The compute operation that a quiet rank ran last, in case something overlaps with it after all.
 */
typedef struct lk_kernel {
	uint32_t op, call; /* op UINT32_MAX: none */
	int64_t last, due, duration, floor;
	double left;
	uint64_t record;
	uint32_t sets;
	uint16_t slot;
} lk_kernel;

typedef struct lk_rank {
	uint32_t call, repetition, op, end_op; /* program counter: next operation, end of its block */
	uint32_t stage, lane, record;
	const lk_cost *costs; /* of its variant */
	lk_flow *flow;        /* NULL: not of a lifted trace */
	int64_t host, start;  /* clock; start of the last compute operation */
	int64_t end[LK_STREAMS];
	lk_kernel kernel;
	uint64_t ops; /* issued so far */
	int64_t finish;
	bool busy, done;
	bool parked;  /* quiet, at a meeting */
	bool changed; /* other acts run than when rates were set; in the engine's list */
	int64_t changed_at;
	uint32_t parked_op, parked_call;
	uint64_t parked_record;
	int64_t parked_duration;
	uint32_t others;       /* acts, kernels of the compute stream left out */
	uint32_t pending_mask; /* streams that an act will end on */
	uint32_t live;         /* streams with an act that is scheduled, runs or is held */
	lk_act *unstarted;     /* compute act that has not started: nothing behind it is issued */
	lk_act *running;       /* compute act that has */
	lk_act *pending[LK_STREAMS], *on[LK_STREAMS];
	int64_t key;
	int64_t *slot, *event;
	lk_act **slot_pending, **event_pending;
	uint64_t
		*issued; /* [LK_GROUPS + channels] communication operations by kind of group or channel */
	lk_sim_event *events; /* one for each operation; NULL: not recorded */
	const lk_program *program;
	const lk_sim_stage *info;
} lk_rank;

/* Ranks that follow one another mostly act together (tensor parallelism), so the heap holds gangs
 * of them. The bound of a gang may be too low after its keys have risen; it is mended when the gang
 * comes to the top. */
enum {
	LK_GANG = 8
};

typedef struct lk_heap_entry {
	int64_t key;
	uint32_t gang;
} lk_heap_entry;

typedef struct lk_engine {
	const lk_sim *sim;
	lk_arena arena;
	lk_rank *rank; /* [stages * lanes] */
	uint32_t ranks;
	uint32_t *quiet; /* stack of quiet ranks that can run */
	uint32_t quiet_count;
	lk_heap_entry
		*heap; /* gangs with busy ranks, by a bound of their least key, then number: a 4-ary heap */
	uint32_t heap_count;
	uint32_t *heap_place; /* [gangs] 1 + place in the heap, 0 none */
	uint32_t *outer;   /* [gangs] communication that is not over and meets ranks of other gangs */
	uint32_t inner;    /* bit per kind of group: all groups of the kind lie inside gangs */
	int64_t *key;      /* [gangs * LK_GANG] of each rank, LK_NEVER when it is not busy */
	uint32_t *changed; /* ranks whose rates are to be set before time goes on */
	uint32_t changed_count;
	lk_meeting **place;            /* open meetings */
	size_t group_place[LK_GROUPS]; /* first place of a kind: inside stage 0, or across stages */
	size_t
		*port_place; /* [stages * channels] first place of a channel, the same for both its ends */
	size_t *team_place;            /* [teams] first place: one for each lane, or one for all */
	uint64_t *team_issued;         /* [team_stages * lanes] */
	uint64_t acts;                 /* of lifted traces */
	lk_meeting *spare_meeting[33]; /* by log2 of members */
	lk_act *spare_act;
	lk_act_edge *spare_edge;
	bool no_memory;
	bool crowded; /* LK_MOST_ACTS; no_memory is set too */
	const lk_stop *stop;
	bool stopped; /* no_memory is set too */
} lk_engine;

/* Recorded event that does not exist. */
#define LK_NO_RECORD UINT64_MAX

/* events_meet.c */
lk_status lk_meet_set_up(lk_engine *engine, lk_error *err);
/* The number of the communication operation that the rank issues now. */
uint64_t lk_meet_number(lk_engine *engine, lk_rank *rank, uint32_t op);
/* The rank arrives; `act` NULL: parked. Starts the operation when it is the last one. */
void lk_meet_post(lk_engine *engine, uint32_t number, lk_act *act, uint32_t op, uint64_t which,
                  int64_t arrival);
/* One member has done its share. */
void lk_meet_share_done(lk_engine *engine, lk_meeting *meeting, int64_t time);

/* events_busy.c */
void lk_busy_begin(lk_engine *engine, uint32_t rank);
void lk_busy_advance(lk_engine *engine, uint32_t rank, int64_t time);
/* Sets the rates of what runs now. */
void lk_busy_settle(lk_engine *engine, uint32_t rank);
/* The start or the end of an act has become known. */
void lk_busy_due(lk_engine *engine, uint32_t rank, lk_act *act, lk_act_state state, int64_t due);

/* events.c */
static inline bool lk_rank_at_end(const lk_rank *rank) {
	return rank->call >= rank->program->calls.count;
}
/* Whether a quiet rank can run its next operation without becoming busy. */
bool lk_rank_stays_quiet(const lk_engine *engine, const lk_rank *rank);
void lk_rank_host(lk_engine *engine, lk_rank *rank);
void lk_rank_step(lk_engine *engine, lk_rank *rank);
int64_t lk_rank_duration(const lk_engine *engine, const lk_rank *rank, uint32_t op,
                         int64_t duration);
/* The latest known end among what an operation waits for. */
int64_t lk_rank_sources(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn);
/* The operation's end, for its stream, slot and event. */
void lk_rank_keep(lk_engine *engine, lk_rank *rank, uint32_t op, uint32_t sets, int64_t end);
uint32_t lk_rank_argument(const lk_rank *rank, uint8_t which);
void lk_rank_wake(lk_engine *engine, uint32_t rank);
/* A parked rank's operation is over. */
void lk_rank_resume(lk_engine *engine, uint32_t rank, int64_t start, int64_t end);
uint64_t lk_rank_record(lk_rank *rank, uint32_t op, int64_t ready, int64_t start, int64_t end);
/* Whether an operation meets ranks of other gangs. */
static inline bool lk_meets_outside(const lk_engine *engine, const lk_insn *insn) {
	return insn->what != LK_INSN_GROUP || !(engine->inner >> insn->group & 1);
}

/* Sets when a busy rank acts next; LK_NEVER: it is not busy any more. */
void lk_heap_set(lk_engine *engine, uint32_t rank, int64_t key);

#endif
