/* sim_internal.h: what several parts of sim/ share. Others include sim/sim.h.
 *
 *   lower.c, ranks.c   a graph as compact instructions; which ranks are simulated, their groups
 *   sweep*.c, lanes.c  the engine without contention: max-plus algebra on vectors of ranks; sweep.h
 *   engine*.c          the engine with contention: acts in the order of time; engine.h
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
#include "system/stop.h"
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
	double work_ps;       /* of all operations, unscaled: lk_lower */
	uint64_t event_count;
	lk_sim_event *events; /* of the result */
} lk_sim;

/* lower.c: instructions, checks of all indices of the engines, and a bound on time that excludes
 * overflow. */
lk_status lk_lower(lk_sim *sim, lk_error *err);
/* Refuse a step whose times, with the factors of its lanes, may exceed what is simulated. */
lk_status lk_sim_check_time(const lk_sim *sim, lk_error *err);

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
	bool doubtful;            /* see lk_sim_result */
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

/* Vectors of n lanes, aligned and zero; NULL when memory runs out. */
int64_t *lk_lanes_vectors(lk_arena *arena, size_t count, size_t n);

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
