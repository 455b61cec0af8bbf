/* lower.h: what both engines run on. A graph is lowered once: operations become compact
 * instructions whose dependencies are register numbers, chains become lanes, process groups become
 * lists of lanes. Private to sim/. */
#ifndef LK_SIM_LOWER_H
#define LK_SIM_LOWER_H

#include "sim/sim.h"

/* How an instruction is executed. */
enum {
	LK_INSN_LOCAL, /* this rank alone: kernels, copies, waits */
	LK_INSN_HOST,  /* occupies the host thread */
	LK_INSN_GROUP, /* collective among the lanes of a stage */
	LK_INSN_CROSS, /* collective across stages */
	LK_INSN_P2P,   /* send or receive */
	LK_INSN_TEAM,  /* any communication of a listed group */
};

enum {
	LK_INSN_ISSUED =
		1, /* off the compute stream: not before the last compute operation has started */
	LK_INSN_SCALED = 2, /* stragglers and jitter change its duration */
	LK_INSN_COMM = 4,
	LK_INSN_EXTRA = 8,    /* waits for slots or for an event of the program */
	LK_INSN_INSTANT = 16, /* WAIT: takes no time */
	LK_INSN_MAIN = 32,    /* of the compute stream: what is issued behind it waits for its start */
};

/* Contention slows an operation at most so many times. */
#define LK_MOST_SLOWDOWN 16.0

enum {
	LK_NO_SLOT = UINT16_MAX,
	LK_MIXED = UINT32_MAX
};

/* Instruction i is operation i of the graph. */
typedef struct lk_insn {
	uint32_t dep_begin; /* slots it waits for, in lk_sim.deps */
	uint16_t dep_count;
	uint16_t slot; /* keeps its end for later operations of the block, or LK_NO_SLOT */
	uint32_t join; /* streams waited for, its own included, the host's left out */
	uint8_t what, stream, group, flags, wait, signal;
	int32_t channel;
} lk_insn;

/* The groups of one kind inside a stage, as lanes. */
typedef struct lk_lane_groups {
	uint32_t size, stride; /* where lanes are chains and divide evenly; otherwise size 0. size 1:
	                          every lane alone */
	uint32_t groups;
	uint32_t *begin; /* [groups + 1] into lane */
	uint32_t *lane;  /* [lanes] ordered by group */
	uint32_t *of;    /* [lanes] -> group */
} lk_lane_groups;

/* A block that a stage's program calls. */
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
	double *factor;     /* [lanes] stragglers, NULL: none in this stage */
	uint64_t ops;       /* a rank runs in its program */
	uint32_t record_count;
	uint32_t *records;     /* indices into the options' list */
	uint32_t *record_lane; /* their lanes */
	uint64_t *record_base; /* where their events begin in lk_sim.events, one for each operation of
	                          the program */
} lk_sim_stage;

/* One simulation, set up. All of it is owned by the arena. */
typedef struct lk_sim {
	const lk_graph *graph;
	const lk_costs *costs;
	const lk_sim_options *options;
	lk_arena *arena;
	lk_insn *insn; /* [ops] */
	uint16_t *deps;
	uint32_t slots; /* registers that a block needs at most */
	uint32_t stages, chains, lanes;
	uint32_t *lane_of, *lane_ranks,
		*lane_chain; /* [chains], [lanes], [lanes]: the first chain of a lane */
	lk_lane_groups group[LK_GROUPS];
	lk_lane_groups every; /* all lanes are one group: teams across chains */
	lk_sim_stage *stage;  /* [stages] */
	uint64_t event_count;
	lk_sim_event *events; /* of the result */
} lk_sim;

/* lower.c: instructions, checks of everything that an engine would index with, and a bound on time
 * that excludes overflow. */
lk_status lk_lower(lk_sim *sim, lk_error *err);

/* ranks.c: groups of one kind among lanes. */
lk_status lk_lower_groups(lk_sim *sim, unsigned group, lk_error *err);
lk_status lk_lower_every(lk_sim *sim, lk_error *err);

/* The engines. `out` has its lane fields set; they fill finish_ps and operations, and sim->events.
 */
lk_status lk_run_sweep(const lk_sim *sim, lk_sim_result *out, lk_error *err);
lk_status lk_run_events(const lk_sim *sim, lk_sim_result *out, lk_error *err);
/* *ran false: not a case for this engine; `out` is then as it was. */
lk_status lk_run_lean(const lk_sim *sim, lk_sim_result *out, bool *ran, lk_error *err);

/* "stage 3, call 17 (layer forward): qkv_proj" */
void lk_sim_where(const lk_graph *graph, uint32_t stage, size_t call, uint32_t op, char *out,
                  size_t size);
lk_status lk_sim_deadlock(const lk_graph *graph, const char *first, const char *second,
                          lk_error *err);

static inline bool lk_sim_jittered(const lk_sim *sim) {
	return sim->options->jitter > 0;
}

/* Deviation of an operation's jitter on a stage; where its variants differ, the first one's. */
static inline double lk_sim_sigma(const lk_sim *sim, const lk_sim_stage *stage, uint32_t op) {
	return sim->options->jitter *
	       (double)lk_costs_get(sim->costs, stage->variant == LK_MIXED ? 0 : stage->variant, op)
	           ->spread;
}

/* A duration times a factor, rounded once. */
static inline int64_t lk_sim_scale(int64_t duration, double factor) {
	return (int64_t)((double)duration * factor + 0.5);
}

/* Jitter: a factor of mean 1 and relative deviation `sigma`, from one splitmix64 of what names the
 * operation's run. The normal is the sum of four uniforms (Irwin-Hall, variance 4/12), its
 * exponential a Taylor sum of x / 64 squared six times: the same bits on every machine. */
static inline double lk_sim_jitter(uint64_t seed, uint64_t rank, uint64_t number, double sigma) {
	uint64_t h = seed + (rank + 1) * 0x9e3779b97f4a7c15u + number * 0xd1342543de82ef95u;
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

#endif
