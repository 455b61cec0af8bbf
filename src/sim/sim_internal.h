/* sim_internal.h: shared by the files of sim/, in the order in which they build on one another.
 * Others include sim/sim.h.
 *
 *   lower.c, ranks.c   a graph as compact instructions; which ranks are simulated, their groups
 *   sweep*.c, lanes.c  the engine without contention: max-plus algebra on vectors of ranks
 *   engine*.c          the engine with contention: acts in the order of time
 *   fold*.c            repetition as macro operations, a function from graph to graph
 *   steady.c           steps whose programs repeat a period: few periods stand for all
 *   sim.c              sets a simulation up, runs the engine requested, checks the result
 *
 * breakdown.c and memory.c read graphs and results, and use only sim.h. */
#ifndef LK_SIM_SIM_INTERNAL_H
#define LK_SIM_SIM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/intervals.h"
#include "base/stop.h"
#include "sim/sim.h"

/* ==== lowered graphs: lower.c, ranks.c ====
 *
 * Input of both engines. A graph is lowered once: operations become compact instructions whose
 * dependencies are register numbers, chains become lanes, process groups become lists of lanes. */

/* How an instruction is executed. */
enum {
	LK_INSN_LOCAL, /* only this rank: kernels, copies, waits */
	LK_INSN_HOST,  /* occupies the host thread */
	LK_INSN_GROUP, /* collective among the lanes of a stage */
	LK_INSN_CROSS, /* collective across stages */
	LK_INSN_P2P,   /* send or receive */
	LK_INSN_TEAM,  /* any communication of a listed group */
};

enum {
	LK_INSN_ISSUED =
		1, /* off the compute stream: not before the last compute operation has started */
	LK_INSN_SCALED = 2, /* a rank's factor and jitter change its duration */
	LK_INSN_COMM = 4,
	LK_INSN_EXTRA = 8,    /* waits for slots or for an event of the program */
	LK_INSN_INSTANT = 16, /* WAIT: takes no time */
	LK_INSN_MAIN = 32,    /* on the compute stream: later issued operations wait for its start */
};

/* Most factor by which contention slows an operation. */
#define LK_MOST_SLOWDOWN 16.0

enum { LK_NO_SLOT = UINT16_MAX, LK_MIXED = UINT32_MAX };

/* Instruction i is operation i of the graph. */
typedef struct lk_insn {
	uint32_t dep_begin; /* slots that it waits for, in lk_sim.deps */
	uint16_t dep_count;
	uint16_t slot; /* holds its end for later operations of the block, or LK_NO_SLOT */
	uint32_t join; /* streams waited for, including its own, without the host's */
	uint8_t what, stream, group, flags, wait, signal;
	int32_t channel;
} lk_insn;

/* The groups of one kind within a stage, as lanes. */
typedef struct lk_lane_groups {
	/* If lanes are chains and divide evenly; otherwise size is 0. Size 1: every lane alone. */
	uint32_t size, stride;
	uint32_t groups;
	uint32_t *begin; /* [groups + 1] into lane */
	uint32_t *lane;  /* [lanes] ordered by group */
	uint32_t *of;    /* [lanes] -> group */
} lk_lane_groups;

/* A block called by a stage's program. */
typedef struct lk_sim_use {
	uint32_t block;
	uint16_t most_arg[2]; /* greatest arguments */
	uint64_t times;       /* repetitions, over all calls */
} lk_sim_use;

typedef struct lk_sim_stage {
	lk_sim_use *uses; /* each block once */
	uint32_t use_count;
	uint32_t variant;   /* of all lanes, or LK_MIXED */
	uint32_t *variants; /* [lanes] if mixed */
	double *factor;     /* [lanes] of stragglers and differing GPUs; NULL: all 1 */
	uint64_t ops;       /* operations of a rank in its program */
	uint32_t record_count;
	uint32_t *records;     /* indices into the options' list */
	uint32_t *record_lane; /* their lanes */
	uint64_t *record_base; /* first of their events in lk_sim.events: one per operation */
} lk_sim_stage;

/* One simulation, set up. The arena owns all of it. */
typedef struct lk_sim {
	const lk_graph *graph;
	const lk_costs *costs;
	const lk_sim_options *options;
	lk_arena *arena;
	lk_insn *insn; /* [ops] */
	uint16_t *deps;
	uint32_t slots;      /* most registers of a block */
	uint32_t streams;    /* streams that operations use or wait for: the last one's number plus
	                      * one */
	uint32_t kinds_used; /* one bit per kind of group with collectives */
	uint32_t stages, chains, lanes;
	uint32_t *lane_of, *lane_ranks,
		*lane_chain; /* [chains], [lanes], [lanes]: the first chain of a lane */
	lk_lane_groups group[LK_GROUPS];
	lk_lane_groups every; /* all lanes in one group: teams across chains */
	lk_sim_stage *stage;  /* [stages] */
	uint64_t event_count;
	lk_sim_event *events; /* of the result */
} lk_sim;

/* lower.c: instructions, checks of all indices of the engines, and a bound on time that excludes
 * overflow. */
lk_status lk_lower(lk_sim *sim, lk_error *err);

/* ranks.c: groups of one kind among lanes. */
lk_status lk_lower_groups(lk_sim *sim, unsigned group, lk_error *err);
lk_status lk_lower_all_lanes(lk_sim *sim, lk_error *err);

/* The engines. `out` has its lane fields set; they fill finish_ps and operations, and
 * sim->events. */
lk_status lk_run_sweep(const lk_sim *sim, lk_sim_result *out, lk_error *err);
lk_status lk_run_engine(const lk_sim *sim, lk_sim_result *out, lk_error *err);

/* "stage 3, call 17 (layer forward): qkv_proj" */
void lk_sim_describe_op(const lk_graph *graph, uint32_t stage, size_t call, uint32_t op, char *out,
                        size_t size);
lk_status lk_sim_deadlock(const lk_graph *graph, const char *first, const char *second,
                          lk_error *err);

static inline bool lk_sim_jittered(const lk_sim *sim) {
	return sim->options->jitter > 0;
}

/* Deviation of an operation's jitter on a stage; that of the first variant if they differ. */
static inline double lk_sim_sigma(const lk_sim *sim, const lk_sim_stage *stage, uint32_t op) {
	return sim->options->jitter *
	       (double)lk_costs_get(sim->costs, stage->variant == LK_MIXED ? 0 : stage->variant, op)
	           ->spread;
}

/* A duration times a factor, rounded once. */
static inline int64_t lk_sim_scale(int64_t duration, double factor) {
	return (int64_t)((double)duration * factor + 0.5);
}

/* Jitter: a factor of mean 1 and relative deviation `sigma`, from one splitmix64 of the identity of
 * the operation's run. The normal is the sum of four uniforms (Irwin-Hall, variance 4/12), its
 * exponential a Taylor sum of x / 64 squared six times: the same bits on every machine. */
static inline uint64_t lk_sim_jitter_of_rank(uint64_t seed, uint64_t rank) {
	return seed + (rank + 1) * 0x9e3779b97f4a7c15u;
}
static inline double lk_sim_jitter_from(uint64_t of_rank, uint64_t number, double sigma) {
	uint64_t h = of_rank + number * 0xd1342543de82ef95u;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	h ^= h >> 31;
	double sum =
		(double)(int32_t)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48)) *
		(1.0 / 65536.0);
	double z = (sum - 2.0) * 1.7320508075688772;
	double x = (sigma * z - 0.5 * sigma * sigma) * (1.0 / 64.0);
	double e = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))));
	e *= e, e *= e, e *= e, e *= e, e *= e, e *= e;
	return e;
}
static inline double lk_sim_jitter(uint64_t seed, uint64_t rank, uint64_t number, double sigma) {
	return lk_sim_jitter_from(lk_sim_jitter_of_rank(seed, rank), number, sigma);
}

/* A rank's compute factor throughout the step: the jitter of a number that no operation has. */
static inline double lk_sim_rank_factor(const lk_sim_options *options, uint64_t rank) {
	return options->gpu_spread > 0
	           ? lk_sim_jitter(options->seed, rank, UINT64_MAX, options->gpu_spread)
	           : 1;
}

/* ==== steps in their steady state: steady.c ==== */

/* The middle of a stage's program, which repeats a period. */
typedef struct lk_steady_part {
	size_t begin, length, count; /* its first call; calls per period; periods */
	uint64_t before, ops;        /* operations before it; per period */
	uint64_t compute;            /* the period's first operation on the compute stream */
	bool synchronised;           /* whether the host waits for the device in it */
} lk_steady_part;

typedef struct lk_steady {
	lk_graph graph; /* the step with fewer periods; owned by the simulation's arena */
	lk_sim_options options;
	lk_steady_part *part;     /* [stages] */
	size_t periods, left_out; /* its periods; fewer than the whole step */
	bool lacking;             /* they are already missing in the simulation's own graph */
	size_t first, last;       /* range of the steady ones */
	int64_t shift;            /* from one to the next */
} lk_steady;

/* Shorten the step to few of its periods, `more` times the default. *found: it has enough periods
 * for this to be worth it. */
lk_status lk_steady_find(lk_sim *sim, size_t more, lk_steady *steady, bool *found, lk_error *err);
/* Extend the short step's result, parts of which it may take, to the whole step's; false: it
 * reaches no steady state (or out of memory), and `out` is unusable. If the graph lacks periods,
 * operations of its stages are those of the whole step afterwards. */
bool lk_steady_extend(lk_sim *sim, lk_steady *steady, lk_sim_result *brief, lk_sim_result *out);

/* ==== vectors of lanes: lanes.c ====
 *
 * Arithmetic on vectors of lanes, the inner loops of the sweep. Vectors are aligned to 64 bytes and
 * padded to a multiple of LK_LANES; padding is computed along and never read by groups. A single
 * lane is a plain number: one lane, no padding. */

enum { LK_LANES = 8, LK_SOURCES = 4 };

/* The vectors that an operation waits for (at least one), and the host clocks. */
typedef struct lk_sources {
	int count;
	const int64_t *at[LK_SOURCES];
	const int64_t *host;
} lk_sources;

/* For a whole number of LK_LANES lanes. */
void lk_lanes_chain_many(int64_t *to, const lk_sources *from, int64_t work, int64_t launch,
                         size_t n);
void lk_lanes_max_many(int64_t *to, const int64_t *from, size_t n);
void lk_lanes_max_sum_many(int64_t *to, const int64_t *from, const int64_t *add, size_t n);
void lk_lanes_add_many(int64_t *to, const int64_t *from, size_t n);
void lk_lanes_shift_many(int64_t *to, int64_t number, size_t n);

/* to = max(max(sources) + work, host + launch): successive kernels, in max-plus algebra. */
static inline void lk_lanes_chain(int64_t *to, const lk_sources *from, int64_t work, int64_t launch,
                                  size_t n) {
	if (n > 1) {
		lk_lanes_chain_many(to, from, work, launch, n);
		return;
	}
	int64_t ready = *from->at[0], issued = *from->host + launch;
	for (int i = 1; i < from->count; i++)
		if (*from->at[i] > ready) ready = *from->at[i];
	*to = ready + work > issued ? ready + work : issued;
}

/* to = max(to, from) */
static inline void lk_lanes_max(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) lk_lanes_max_many(to, from, n);
	else if (*from > *to) *to = *from;
}

/* to = max(to, from + add) */
static inline void lk_lanes_max_sum(int64_t *to, const int64_t *from, const int64_t *add,
                                    size_t n) {
	if (n > 1) lk_lanes_max_sum_many(to, from, add, n);
	else if (*from + *add > *to) *to = *from + *add;
}

/* to += from; to += number */
static inline void lk_lanes_add(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) lk_lanes_add_many(to, from, n);
	else *to += *from;
}
static inline void lk_lanes_shift(int64_t *to, int64_t number, size_t n) {
	if (n > 1) lk_lanes_shift_many(to, number, n);
	else *to += number;
}

static inline void lk_lanes_copy(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) memcpy(to, from, n * sizeof *to);
	else *to = *from;
}

/* Set every lane to the maximum of its group. */
void lk_lanes_group(int64_t *v, const lk_lane_groups *groups, size_t lanes);

/* v = v * factor * jitter, rounded; factor NULL: 1, sigma 0: no jitter. `rank` is lane 0's, the
 * others count up. */
typedef struct lk_lane_noise {
	const double *factor;
	double sigma;
	uint64_t seed, rank, number;
} lk_lane_noise;
void lk_lanes_scale(int64_t *v, const lk_lane_noise *noise, size_t n);

/* The jitter of a rank's next LK_LANES operations, which costs little more than that of one. */
typedef struct lk_jitter_draws {
	uint64_t first; /* number of the first operation, a multiple of LK_LANES */
	double factor[LK_LANES];
} lk_jitter_draws;
void lk_lanes_draw(lk_jitter_draws *draws, uint64_t seed, uint64_t rank, uint64_t first,
                   double sigma);

/* Jitter factors of operation `number`, one per lane: `of_rank` is lk_sim_jitter_of_rank of the
 * lane's rank, `straggle` a further factor per lane. */
void lk_lanes_factors(double *factor, const uint64_t *of_rank, const double *straggle,
                      uint64_t number, double sigma, size_t n);

/* A kernel of lanes that run alone: vectors that it fills, and values common to all lanes. */
typedef struct lk_lane_kernel {
	int64_t *at, *end, *duration, *floor;
	int64_t alone, tail, lead, host; /* its cost */
	const double *factor;            /* scales duration and tail; NULL: none */
	double most;                     /* factors are at most a thousand times as great */
} lk_lane_kernel;
void lk_lanes_kernel(const lk_lane_kernel *kernel, const int64_t *source, int64_t *host, size_t n);
/* When each lane arrives, and when all have: dependencies have ended, and the host has launched
 * it. */
int64_t lk_lanes_meet(const int64_t *source, int64_t *host, int64_t lead, int64_t host_ps,
                      int64_t *arrived, size_t n);

/* ==== the engine without contention ====
 *
 * A stage is one program counter and vectors of lanes as registers: the end of the last operation
 * of every stream, the start of the last compute operation, slots, events. Register LK_STREAM_HOST
 * holds the host clocks. An operation whose time is not known yet (a partner on another stage has
 * not arrived) is a *node*; registers that it will set are pending.
 */

enum { LK_REG_START = LK_STREAMS, LK_REG_SLOTS };

/* In a lifted trace only an operation's own dependencies delay a rank: the operations themselves
 * are deferred as nodes. To keep these few, a stage that has deferred this many lets the others run
 * first; when all have, they continue. The second number limits all stages together, to protect
 * memory. */
enum { LK_SWEEP_DEFERRED = 64, LK_SWEEP_DEFERRED_MOST = 1 << 23 };

/* An instruction with its costs, for stages whose lanes all take the same time. Successive compute
 * operations become one:
 *     end = max(max(sources) + work, host + launch)
 *     start of the last = max(max(sources) + start_work, host + start_launch) */
typedef struct lk_sweep_insn {
	int64_t work, launch, start_work, start_launch;
	int64_t host;     /* host time of all */
	uint32_t op, ops; /* the first one, and their number */
	uint32_t sources; /* registers, as bits */
	uint8_t what, stream, flags;
	bool keep_start; /* a later operation may need its start */
	uint32_t last;   /* operation whose slot and signal are set */
} lk_sweep_insn;

typedef struct lk_sweep_code {
	lk_sweep_insn *insn;
	uint32_t *begin; /* [blocks + 1] */
} lk_sweep_code;

typedef struct lk_sweep_edge {
	struct lk_sweep_edge *next;
	struct lk_sweep_node *to;
	bool start; /* waits for the start, not for the end */
} lk_sweep_edge;

typedef struct lk_sweep_node {
	struct lk_sweep_node *next; /* in its queue or a free list */
	struct lk_sweep_stage *stage;
	lk_sweep_edge *out; /* nodes that wait for this one */
	uint32_t op, call;
	uint32_t waits;         /* number of nodes it waits for */
	uint32_t sets;          /* 1 + event of the program, 0: none */
	uint64_t number;        /* among those of its channel, or of its kind of group */
	uint64_t record;        /* its number in the program, for its recorded events */
	int64_t work;           /* duration ... */
	bool varied;            /* ... or `duration`, by lane */
	int64_t *at, *duration; /* at: arrival, then start, then end */
} lk_sweep_node;

typedef struct lk_sweep_stage {
	const lk_sim_stage *info;
	const lk_program *program;
	const lk_sweep_code *code; /* NULL: lanes differ, or are recorded, or it is a lifted trace */
	bool direct; /* lifted trace: blocks run once, so its instructions are created as they run */
	uint32_t index;
	bool queued, done;
	size_t call; /* program counter: call, repetition, instruction */
	uint32_t repetition, pc;
	int64_t shift;         /* host time since register LK_STREAM_HOST was set */
	uint64_t ops;          /* run so far */
	uint32_t pending_mask; /* of registers up to LK_REG_START */
	int64_t *registers;
	lk_sweep_node **pending; /* by register */
	int64_t **event;         /* [events], NULL: never signalled */
	lk_sweep_node **event_pending;
	uint64_t crossed[LK_GROUPS];
	const int64_t *host;     /* host clocks: register LK_STREAM_HOST; zeros in lifted traces */
	uint32_t deferred;       /* unfinished nodes, */
	uint32_t deferred_limit; /* and their current limit */
} lk_sweep_stage;

/* One end of a channel. */
typedef struct lk_sweep_port {
	lk_sweep_node *queue; /* waiting for the other end, by number */
	struct lk_sweep_port *peer;
	uint64_t issued;
} lk_sweep_port;

/* The members that have arrived at the number-th collective of a kind across stages, or operation
 * of a team. */
typedef struct lk_sweep_round {
	struct lk_sweep_round *next;
	uint64_t number;
	uint32_t have;
	lk_sweep_node *nodes;
} lk_sweep_round;

typedef struct lk_sweep {
	const lk_sim *sim;
	size_t n; /* lanes, padded */
	lk_arena arena;
	lk_sweep_stage *stage;
	lk_sweep_port *port;                            /* [stages * channels] */
	lk_sweep_round *round[LK_GROUPS], **team_round; /* by number; [teams] */
	lk_sweep_round *spare_round;
	uint64_t *team_issued; /* [team_stages] */
	lk_sweep_node *work;   /* nodes whose inputs have arrived */
	lk_sweep_node *spare;
	lk_sweep_edge *spare_edge;
	lk_sweep_stage **ready; /* stages to run: a stack */
	uint32_t ready_count;
	bool varied;       /* some stage has durations by lane */
	uint64_t deferred; /* nodes of all stages */
	int64_t *scratch[5], *rest, *zero;
	const lk_stop *stop;
} lk_sweep;

/* sweep_code.c */
void lk_sweep_load(const lk_sim *sim, uint32_t variant, uint32_t op, lk_sweep_insn *out);
lk_status lk_sweep_compile(const lk_sim *sim, uint32_t variant, lk_arena *arena, lk_sweep_code *out,
                           lk_error *err);
int64_t *lk_sweep_vectors(lk_arena *arena, size_t count,
                          size_t n); /* aligned and zero; NULL when memory runs out */

/* sweep_node.c: operations whose time depends on others. Functions that return bool: false when out
 * of memory. */
lk_sweep_node *lk_sweep_node_new(lk_sweep *sweep, lk_sweep_stage *stage, uint32_t op);
/* Mark the registers that the node will set as pending. */
void lk_sweep_promise(lk_sweep *sweep, lk_sweep_node *node);
/* Let `node` wait for every pending register among its instruction's sources. */
bool lk_sweep_await(lk_sweep *sweep, lk_sweep_node *node, uint32_t sources);
/* Run a node whose arrival is known, and everything that this resolves. */
bool lk_sweep_arrive(lk_sweep *sweep, lk_sweep_node *node);
/* Report two operations that wait. */
lk_status lk_sweep_stuck(const lk_sweep *sweep, lk_error *err);

/* Run the stage again: something that it waited for is known. */
static inline void lk_sweep_wake(lk_sweep *sweep, lk_sweep_stage *stage) {
	if (stage->queued || stage->done) return;
	stage->queued = true;
	sweep->ready[sweep->ready_count++] = stage;
}
/* The vector of an event of the program; created when first needed, NULL when memory runs out. */
static inline int64_t *lk_sweep_event(lk_sweep *sweep, lk_sweep_stage *stage, uint32_t event) {
	if (!stage->event[event]) stage->event[event] = lk_sweep_vectors(&sweep->arena, 1, sweep->n);
	return stage->event[event];
}

static inline lk_sim_event *lk_sweep_recorded(const lk_sweep *sweep, const lk_sweep_stage *stage,
                                              uint32_t r, uint64_t number) {
	return &sweep->sim->events[stage->info->record_base[r] + number];
}

static inline int64_t *lk_sweep_register(const lk_sweep *sweep, const lk_sweep_stage *stage,
                                         unsigned r) {
	return stage->registers + r * sweep->n;
}

/* ==== the engine with contention ====
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

/* ==== folding ==== */

/* Calls of a program that become one operation, found in at least one place. */
typedef struct lk_fold_run {
	uint32_t stage, begin, end; /* calls of the first place */
	uint32_t block;             /* of the folded graph, once created */
	uint64_t ops;               /* with repetitions */
} lk_fold_run;

/* A stretch of a program: a run, or an unfolded call. */
typedef struct lk_fold_piece {
	uint32_t stage, begin, end;
	uint32_t run; /* UINT32_MAX: an unfolded call */
} lk_fold_piece;

typedef LK_VEC(lk_fold_run) lk_fold_runs;
typedef LK_VEC(lk_fold_piece) lk_fold_pieces;

/* Whether an operation involves another stage, uses an event, or lets the host wait for the
 * device. */
bool lk_fold_reaches_out(const lk_graph *graph, uint32_t op);
/* Find the pieces of all programs, in order, with the end of those of each stage, and the distinct
 * runs among them. */
lk_status lk_fold_find_runs(const lk_graph *graph, const bool *keep, lk_fold_runs *runs,
                            lk_fold_pieces *pieces, size_t *ends, lk_error *err);
/* The number of a stage's first call among those of all programs. */
size_t lk_fold_first_call(const lk_graph *graph, uint32_t stage);
/* The streams that a run's first operation, or any one inside, waits for. */
uint32_t lk_fold_run_joins(const lk_graph *graph, const lk_fold_run *run);

/* Gradients and parameters of data parallelism. */
bool lk_fold_is_traffic(const lk_graph *graph, uint32_t op);
/* Streams on which a message or such traffic may still be in progress when a run begins. */
uint32_t lk_fold_outside_streams(const lk_graph *graph);
/* How often each block is called: in total, and per micro-batch. */
typedef struct lk_fold_times {
	double *all, *passes;
} lk_fold_times;

/* The mean of the messages and the traffic of passes, weighted by time, so that it does not depend
 * on the number of micro-batches; of all traffic if passes have none; all zero without any. */
lk_cost lk_fold_concurrent(const lk_graph *graph, const lk_costs *costs,
                           const lk_fold_times *times);
/* The relative slowdown of a kernel during that traffic. */
double lk_fold_slowdown(const lk_cost *kernel, const lk_cost *concurrent);

/* fold_price.c: runs simulated alone. */
typedef struct lk_fold_pricer {
	const lk_graph *graph;
	const lk_costs *costs;
	bool contention;
	lk_arena arena;
	lk_graph view; /* the graph's operations and blocks, with one program of one stage */
	lk_program program;
	lk_cost concurrent; /* see lk_fold_concurrent */
	lk_costs both;      /* by lane: of variant v on the device alone (2v), with its host (2v + 1) */
} lk_fold_pricer;

typedef struct lk_fold_price {
	lk_cost *cost; /* [variants], of the whole run; owned by the caller */
	double flops, bytes;
} lk_fold_price;

lk_status lk_fold_pricer_new(lk_fold_pricer *pricer, const lk_graph *graph, const lk_costs *costs,
                             const lk_fold_times *times, bool contention, lk_error *err);
void lk_fold_pricer_free(lk_fold_pricer *pricer);
/* Fill `price` and append the run's events of variant 0 to `samples`. */
lk_status lk_fold_price_run(lk_fold_pricer *pricer, const lk_fold_run *run, lk_fold_price *price,
                            lk_sim_events *samples, lk_error *err);

#endif
