/* sweep.h: the engine without contention.
 *
 * A stage is one program counter and vectors of lanes as registers: the end of the last operation
 * of every stream, the start of the last compute operation, slots, events. Register LK_STREAM_HOST
 * holds the host clocks. An operation whose time is not known yet (a partner on another stage has
 * not arrived) is a *node*; registers that it will set are pending. */
#ifndef LK_SIM_SWEEP_H
#define LK_SIM_SWEEP_H

#include "sim/sim_internal.h"

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
	if (!stage->event[event]) stage->event[event] = lk_lanes_vectors(&sweep->arena, 1, sweep->n);
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

#endif
