/* engine_state.h: state of the engine with contention.
 *
 * A rank on which nothing overlaps runs *alone*: its times follow in closed form, as in the sweep,
 * independent of the time of others. While something off its compute stream is issued and
 * unfinished, its operations are *acts*, and the rank advances in the order of time. Ranks that run
 * alone go as far as they can before time advances, so whatever may still reach a rank with acts
 * happens no earlier than the next act. Ranks of lifted traces always have acts: their threads and
 * streams overlap.
 *
 * An act is WAITING for acts of its own rank, then POSTED at its rendezvous (if other ranks take
 * part), SCHEDULED, RUNNING, and, where it communicates with others, HELD until the last member's
 * share is done. */
#ifndef LK_SIM_ENGINE_STATE_H
#define LK_SIM_ENGINE_STATE_H

#include "sim/sim_internal.h"

#define LK_NEVER INT64_MAX

/* Lower rates are not plausible: the most factor by which an operation slows down. */
#define LK_LEAST_RATE (1.0 / LK_MOST_SLOWDOWN)

/* A nonexistent recorded event. */
#define LK_NO_RECORD UINT64_MAX

/* Limit of concurrent acts of all ranks of a lifted trace, to protect memory. */
#define LK_MOST_ACTS (UINT64_C(1) << 23)

enum {
	LK_FAN = 4,           /* children of a node in the order of time */
	LK_TOP = 8,           /* most nodes of its last level */
	LK_ORDER_LEVELS = 17, /* 4^16 = 2^32 ranks */
	LK_TOGETHER = 6,      /* most concurrent acts whose rates are cached */
	LK_GANG_MOST = 64,    /* ranks of a gang */
	LK_PARKED_MOST = 4,   /* most operations at which a rank is parked */
};

typedef struct lk_act lk_act;
typedef struct lk_rank lk_rank;
typedef struct lk_venue lk_venue;
typedef struct lk_gang lk_gang;
typedef struct lk_gang_window lk_gang_window;

/* When something ended, and the act that will set it next. */
typedef struct lk_register {
	int64_t end;
	lk_act *pending; /* NULL: `end` is known */
} lk_register;

typedef enum lk_act_state {
	LK_ACT_WAITING,   /* for acts of its own rank */
	LK_ACT_POSTED,    /* for its partners */
	LK_ACT_SCHEDULED, /* starts at `due` */
	LK_ACT_RUNNING,   /* at the current rate its share is done at `due` */
	LK_ACT_HELD,      /* its share is done; ends with the last member's: `due`, once known */
} lk_act_state;

typedef struct lk_act_edge {
	struct lk_act_edge *next;
	lk_act *to;
} lk_act_edge;

typedef struct lk_member {
	lk_rank *rank;
	lk_act *act;    /* NULL: the rank runs alone and is parked here */
	uint32_t place; /* among the operations at which it is parked */
} lk_member;

/* The k-th operation of a group, a channel or a team. */
typedef struct lk_rendezvous {
	struct lk_rendezvous *next; /* further open ones at the venue */
	lk_venue *venue;
	lk_member *member;  /* [arrived] */
	int64_t start, end; /* latest arrival; latest end of a share */
	uint32_t number, arrived, finished;
} lk_rendezvous;

/* Where the operations of a group, a channel or a team synchronise: mostly one is open at a time,
 * and `first` is that. */
struct lk_venue {
	lk_rendezvous first;   /* unused while nobody has arrived */
	lk_rendezvous *others; /* operations on several streams may be open at once */
	uint32_t members;
};

struct lk_act {
	/* accessed in every moment */
	int64_t due, last;         /* last: when `left` was true */
	double left, rate;         /* work: picoseconds at rate 1 */
	int64_t floor;             /* lower bound of its end, see tail_ps */
	lk_rendezvous *rendezvous; /* NULL: no other rank takes part */
	lk_act_edge *out;          /* acts of its rank that wait for this one */
	uint32_t key;              /* the operation, and whether it is held: op * 2 + held */
	uint8_t stream, state;     /* lk_act_state */
	bool communicates;
	bool device; /* shares the device with others; CPU threads do not */
	/* accessed at its beginning and its end */
	int64_t arrival, duration;
	lk_register *slot, *event; /* that it sets; NULL: none */
	union {
		lk_venue *venue; /* NULL: no other rank takes part */
		lk_act *next;    /* in the free list */
	};
	uint64_t record; /* its number in the program, or LK_NO_RECORD */
	const lk_call *call;
	uint32_t waits;  /* unfinished acts that it waits for */
	uint32_t number; /* of its rendezvous */
};
_Static_assert(sizeof(lk_act) <= 128, "an act is two cache lines");

/* The compute operation that a rank ran last while it was alone, in case something overlaps with it
 * after all. */
typedef struct lk_kernel {
	const lk_call *call;
	uint32_t op; /* UINT32_MAX: none */
	int64_t last, due, duration, floor;
	double left;
	uint64_t record;
	lk_register *slot, *event; /* registers that still hold its end */
} lk_kernel;

/* An operation at which a rank is parked. */
typedef struct lk_parking {
	const lk_call *call;
	uint32_t op;
	int64_t duration;
	uint64_t record;
} lk_parking;

/* State of a rank of a lifted trace. An operation starts no earlier than the end of the previous
 * one on its stream, so operations are issued, in program order, until every stream has an
 * unfinished one or none left. */
typedef struct lk_trace_flow {
	uint64_t left[LK_STREAMS];   /* unissued operations */
	uint32_t issued[LK_STREAMS]; /* acts */
	uint32_t starved;            /* streams with operations left but no act */
} lk_trace_flow;

/* A rank's place when one of its kernels has just started and nothing else runs on it. */
typedef struct lk_solo {
	const lk_call *call, *kernel_call;    /* of the next operation, of the kernel */
	uint32_t op, end_op, repeats, kernel; /* next operation ..., the kernel's */
	uint32_t streams;                     /* streams on which operations have ended since */
	uint64_t made;                        /* slots set since */
	uint64_t ops;
	int64_t start, host, ahead; /* the kernel's start; see lk_rank */
	int64_t end[LK_STREAMS];    /* of `streams` */
} lk_solo;

/* From the start of a kernel that runs alone to the next such start: see engine_stride.c. */
typedef struct lk_stride lk_stride;
struct lk_stride {
	lk_stride *other;          /* another one from the same kernel */
	lk_stride *longer;         /* this one and as many strides after it, in the same block */
	uint32_t level;            /* it consists of 2^level strides */
	uint32_t next;             /* the operation issued after the kernel */
	uint32_t after;            /* first operation of the block where it continues, or UINT32_MAX */
	uint32_t to, ops;          /* kernel at its end; operations issued */
	uint32_t streams, joined;  /* of its operations; others that they wait for */
	uint64_t made, slots;      /* slots it sets; slots waited for that were set before */
	int64_t time, host, ahead; /* taken */
	int64_t slack;             /* most lead of the host's clock over the kernel's start */
	int64_t *end;              /* [streams] of each one's last operation, from the start */
	lk_sim_event *events;      /* [ops + 1] including its kernel's, relative to the start; NULL:
	                            * none */
};

/* A stride that is being simulated for the first time. */
typedef struct lk_stride_tape {
	bool open;
	lk_solo from;
	const lk_call *call; /* of the last issued operation */
	uint32_t repeats;
	uint32_t others; /* acts of the rank at its beginning, and at its end */
	uint64_t given;  /* slots set by its kernel */
	lk_stride stride;
} lk_stride_tape;

struct lk_rank {
	/* program counter: call, next operation, end of its block, remaining repetitions */
	const lk_call *call, *calls_end;
	const lk_cost *costs; /* of its variant */
	uint32_t op, end_op, repeats;
	uint32_t others;     /* acts, without kernels of the compute stream */
	int64_t host, start; /* clock of the host thread; start of the last compute operation */
	lk_act *unstarted;   /* compute act that has not started: nothing after it is issued */
	lk_trace_flow *flow; /* NULL: not a lifted trace */
	/* acts and registers */
	lk_act **on;         /* [streams] the act of each that is posted, scheduled, running or held */
	lk_register *stream; /* [streams] end of the last operation of each */
	lk_register *slot, *event;
	uint32_t live;          /* streams whose act is scheduled, running or held */
	uint32_t parked;        /* alone, parked at these of `parking`, as bits */
	bool alone;             /* it has no acts */
	bool issues;            /* listed as allowed to issue */
	bool again;             /* listed as having more due at this moment */
	bool changed;           /* listed as needing new rates before time advances */
	bool host_waits;        /* the host thread waits for something unfinished */
	bool messages;          /* its acts are messages that block it: nothing else is issued */
	bool asleep;            /* until `solo`, see engine_stride.c */
	bool noisy;             /* a factor or jitter: its compute durations are its own */
	uint64_t ops;           /* issued so far */
	int64_t finish;         /* latest end of all finished operations */
	lk_sim_event *events;   /* one per operation; NULL: not recorded */
	lk_jitter_draws *draws; /* NULL: no jitter */
	uint32_t *issued;       /* [LK_GROUPS + channels] communication by kind of group or channel */
	int64_t ahead, tail;    /* least times of unissued operations and of what follows: the bound */
	uint32_t number, stage, lane, record, variant;
	lk_kernel kernel;
	lk_parking parking[LK_PARKED_MOST];
	lk_solo solo;
	lk_stride_tape tape;
	const lk_program *program;
	const lk_sim_stage *info;
};

/* A set of concurrent acts: their keys in the order of their streams, the rank's variant, their
 * number. */
typedef union lk_rate_set {
	uint32_t key[LK_TOGETHER + 2];
	uint64_t word[LK_TOGETHER / 2 + 1];
} lk_rate_set;

typedef struct lk_rate_entry {
	lk_rate_set set;
	double rate[LK_TOGETHER];
} lk_rate_entry;

typedef struct lk_engine {
	const lk_sim *sim;
	const lk_block *blocks;
	const lk_insn *insn;
	lk_rank *rank; /* [stages * lanes] */
	int64_t now;
	/* The order of time: level 0 holds when each rank acts next, each further level the minima of
	 * LK_FAN nodes of the level below; padded with LK_NEVER. */
	int64_t *order[LK_ORDER_LEVELS];
	uint32_t levels, ranks;
	uint32_t top_nodes; /* of the last level: at most LK_TOP, scanned linearly */
	uint32_t *due[2];   /* nodes of two levels on which something is due: see engine_find_due */
	lk_rank **changed, **issuing, **again; /* stacks of ranks, each at most once: see lk_rank */
	uint32_t changed_count, issuing_count, again_count;
	uint32_t depth; /* recursion depth of acts that end one another within a moment */
	lk_act *spare_act;
	lk_act_edge *spare_edge;
	lk_rate_entry *rates; /* by hash of the set */
	unsigned rates_shift;
	lk_stride **stride;           /* [variants * ops] by kernel; NULL: strides are off */
	lk_gang *gang;                /* the running one; NULL: gangs are off */
	lk_gang_window **window;      /* [variants * ops] by first operation: see engine_gang.c */
	bool replaying;               /* replaying what a woken rank has missed */
	bool *host_follows;           /* [blocks] whether its host operations depend on others of it */
	lk_act *together[LK_STREAMS]; /* of the rank whose rates are being set: running or held acts */
	double own[LK_STREAMS];
	lk_arena arena;
	uint32_t act_chunk; /* acts allocated at once */
	uint64_t acts;      /* unfinished acts of lifted traces */
	lk_venue *venue;    /* [venues]: of groups, then of channels, then of teams */
	size_t venues;
	size_t group_venue[LK_GROUPS]; /* first venue of a kind: within stage 0, or across stages */
	uint32_t *port_venue;  /* [stages * channels] first venue of a channel, the same at both ends */
	size_t *team_venue;    /* [teams] first venue: one per lane, or one for all */
	uint32_t *team_issued; /* [team_stages * lanes] */
	lk_rendezvous *spare_rendezvous[33]; /* by log2 of members */
	const lk_stop *stop;                 /* watched by this thread; may be NULL */
	bool bounded;                        /* it may be given up */
	int64_t *
		lead_in; /* [variants * ops] of compute operations, see engine_bound.c; NULL: not bounded */
	bool *shared;         /* see lk_sim_result; NULL if the graph has no folded runs */
	uint32_t *first_call; /* [stages] of a program among those of all */
	bool some_shared;
	double calls, folded_calls, shared_calls; /* of all programs; folded runs; those that shared the
	                                           * device */
	bool halted;                              /* true with one of: */
	bool no_memory, crowded, stopped, gave_up, left;
	int64_t least_end; /* lower bound of the step's end: known if it was given up */
} lk_engine;

#endif
