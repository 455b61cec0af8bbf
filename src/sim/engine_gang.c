/* engine_gang.c: ranks that synchronise only with one another run together, as lanes of vectors and
 * without the order of time.
 *
 * If all members of a stage's group are parked at the same operation, each is alone and all are at
 * the same place of the same program: they are a *gang*. Until the program reaches something in
 * which another rank takes part, nothing from outside can affect them, so the gang continues by
 * itself as far as it can, however far others are.
 *
 * Alone, an operation is a few vector operations, as in the sweep. Overlapping operations form a
 * *window*: from the last kernel, over communication of the gang on one stream, to the first kernel
 * that waits for all of it. Kernels follow one another on the compute stream and communication on
 * its own, so that at most one of each runs on a rank at a time. A window is compiled once: its
 * dependencies, and the rates of every kernel with every communication. Then each lane runs on its
 * own from one rendezvous to the next, kernel by kernel; the rendezvous is a maximum.
 *
 * Rates change when the engine would change them: after everything of a moment has happened on the
 * rank. So times are the same to the picosecond (tests/unit/test_sim.c). */
#include "base/arena.h"
#include "sim/engine.h"

enum {
	KERNELS = 12, /* of a window, the one before it included */
	COMMS = 6,
	OPS = KERNELS + COMMS,
	LOOK = 4096, /* checks for a stop once in this many operations */
};

/* An operation of a window. Kernel 0 is the one before it. */
typedef struct gang_op {
	uint32_t streams; /* streams with an end before the window that it waits for */
	uint8_t kernel;   /* a kernel: its number; communication: the last kernel before it */
	uint8_t comm;     /* communication: its number; a kernel: the number of those that it waits
	                   * for */
	bool is_comm;     /* communication of the gang */
	bool after_start; /* communication: not before that kernel starts */
	int8_t after_end; /* communication: not before this kernel ends; -1: none */
	uint32_t deps;    /* first of its slots set before the window, in gang_window.deps */
	uint32_t deps_end;
} gang_op;

typedef struct gang_pair_rates {
	double kernel, comm; /* both run */
	double held;         /* of the kernel, while the communication waits for others */
} gang_pair_rates;

struct lk_gang_window {
	uint32_t ops; /* 0: not possible here */
	uint32_t kernels, comms;
	uint32_t before; /* operation of kernel 0, or UINT32_MAX */
	uint8_t stream;  /* of its communication */
	gang_op op[OPS];
	uint8_t comm_op[COMMS], kernel_op[KERNELS]; /* -> op */
	gang_pair_rates rates[KERNELS][COMMS];
	uint16_t *deps;
};

/* The running gang: one at a time, so the engine owns its vectors. Lanes after the last member
 * repeat the first. */
struct lk_gang {
	lk_engine *engine;
	lk_rank **member;
	lk_rank *lead;            /* member 0: its program counter is the gang's */
	const lk_lane_groups *of; /* the groups of which it is one */
	uint32_t group;
	size_t count, padded, room;
	uint32_t recorded_count;
	uint32_t *recorded; /* [count] lanes whose operations are recorded */
	bool stragglers;
	double most; /* the greatest factor of a straggler */
	/* registers, each a vector */
	int64_t *stream, *slot, *host, *start;
	lk_lane_kernel kernel; /* the last one */
	uint32_t kernel_op;    /* UINT32_MAX: none */
	uint16_t kernel_slot;
	const lk_call *kernel_call;
	uint64_t kernel_record;
	uint64_t *noise; /* input of jitter: see lk_lanes_factors */
	double *straggle, *factor;
	int64_t *ready;
	/* of a window: [KERNELS or COMMS] vectors */
	int64_t *duration, *floor, *issued, *began, *ended, *arrived;
};

/* State of a lane in a window. */
typedef struct gang_lane {
	size_t lane;
	uint32_t kernel; /* the last one to begin */
	uint32_t over;   /* communication that has ended */
	bool runs;       /* whether that kernel is running */
	int64_t now;
	int64_t next; /* end of that kernel; if it is not running, begin of the next one */
	int64_t last, floor;
	double left, rate;
} gang_lane;

/* ---- gangs ---- */

static void *gang_vectors(lk_engine *engine, size_t count, size_t room) {
	return lk_lanes_vectors(&engine->arena, count, room);
}

lk_status lk_gangs_set_up(lk_engine *engine, lk_error *err) {
	const lk_sim *sim = engine->sim;
	size_t most = 0;
	if (sim->graph->traced || engine->shared || sim->options->give_up_ps > 0) return LK_OK;
	for (unsigned g = 0; g < LK_GROUPS; g++)
		for (uint32_t i = 0; i < sim->group[g].groups; i++) {
			size_t size = sim->group[g].begin[i + 1] - sim->group[g].begin[i];
			if (size > most) most = size;
		}
	if (most < 2) return LK_OK;
	if (most > LK_GANG_MOST) most = LK_GANG_MOST;
	lk_gang *gang = LK_NEW(&engine->arena, lk_gang);
	engine->window = LK_ARRAY(&engine->arena, lk_gang_window *,
	                          (size_t)sim->costs->variants * sim->graph->ops.count + 1);
	if (!gang || !engine->window) return lk_oom(err);
	size_t room = (most + LK_LANES - 1) / LK_LANES * LK_LANES;
	int64_t **vector[] = {&gang->host,       &gang->start,           &gang->ready,
	                      &gang->kernel.end, &gang->kernel.duration, &gang->kernel.floor,
	                      &gang->kernel.at};
	enum { VECTORS = sizeof vector / sizeof *vector };
	for (size_t i = 0; i < VECTORS; i++)
		if (!(*vector[i] = gang_vectors(engine, 1, room))) return lk_oom(err);
	gang->engine = engine;
	gang->room = room;
	gang->stream = gang_vectors(engine, sim->streams, room);
	gang->slot = gang_vectors(engine, (size_t)sim->slots + 1, room);
	gang->noise = gang_vectors(engine, 1, room);
	gang->factor = gang_vectors(engine, 1, room);
	gang->straggle = gang_vectors(engine, 1, room);
	int64_t *window = gang_vectors(engine, (size_t)5 * KERNELS + COMMS + OPS, room);
	gang->member = LK_ARRAY(&engine->arena, lk_rank *, room);
	gang->recorded = LK_ARRAY(&engine->arena, uint32_t, room);
	if (!gang->stream || !gang->slot || !gang->noise || !gang->factor || !gang->straggle ||
	    !window || !gang->member || !gang->recorded)
		return lk_oom(err);
	gang->duration = window;
	gang->floor = gang->duration + KERNELS * room;
	gang->began = gang->floor + KERNELS * room;
	gang->ended = gang->began + KERNELS * room;
	gang->arrived = gang->ended + KERNELS * room;
	gang->issued = gang->arrived + COMMS * room;
	engine->gang = gang;
	return LK_OK;
}

static inline int64_t *gang_stream(const lk_gang *gang, unsigned stream) {
	return gang->stream + stream * gang->room;
}

static inline int64_t *gang_slot(const lk_gang *gang, unsigned slot) {
	return gang->slot + slot * gang->room;
}

/* Load the member's state into lane `lane`. */
static void gang_load_lane(lk_gang *gang, const lk_rank *rank, size_t lane) {
	const lk_sim *sim = gang->engine->sim;
	for (uint32_t s = 0; s < sim->streams; s++) gang_stream(gang, s)[lane] = rank->stream[s].end;
	for (uint32_t s = 0; s < sim->slots; s++) gang_slot(gang, s)[lane] = rank->slot[s].end;
	gang->host[lane] = rank->host;
	gang->start[lane] = rank->start;
	gang->straggle[lane] = rank->info->factor ? rank->info->factor[rank->lane] : 1;
	gang->noise[lane] =
		lk_sim_jitter_of_rank(sim->options->seed, (uint64_t)rank->stage * sim->chains + rank->lane);
}

static void gang_load(lk_gang *gang) {
	gang->lead = gang->member[0];
	gang->stragglers = gang->lead->info->factor;
	gang->recorded_count = 0;
	gang->kernel_op = UINT32_MAX;
	gang->kernel_slot = LK_NO_SLOT;
	gang->padded = (gang->count + LK_LANES - 1) / LK_LANES * LK_LANES;
	for (size_t i = 0; i < gang->padded; i++)
		gang_load_lane(gang, gang->member[i < gang->count ? i : 0], i);
	for (uint32_t i = 0; i < gang->count; i++)
		if (gang->member[i]->events) gang->recorded[gang->recorded_count++] = i;
	gang->most = 1;
	for (size_t i = 0; i < gang->count; i++)
		if (gang->straggle[i] > gang->most) gang->most = gang->straggle[i];
}

/* Set the place in the program. */
static void gang_move(const lk_gang *gang, lk_rank *rank) {
	rank->call = gang->lead->call;
	rank->op = gang->lead->op;
	rank->end_op = gang->lead->end_op;
	rank->repeats = gang->lead->repeats;
	rank->ops = gang->lead->ops;
}

static void gang_store_kernel(const lk_gang *gang, lk_rank *rank, size_t lane) {
	const lk_lane_kernel *kernel = &gang->kernel;
	rank->kernel = (lk_kernel){
		.op = gang->kernel_op,
		.call = gang->kernel_call,
		.last = kernel->at[lane],
		.due = kernel->end[lane],
		.duration = kernel->duration[lane],
		.floor = kernel->floor[lane],
		.left = (double)kernel->duration[lane],
		.record = rank->events ? gang->kernel_record : LK_NO_RECORD,
		.slot = gang->kernel_slot != LK_NO_SLOT ? &rank->slot[gang->kernel_slot] : NULL,
	};
}

/* Let each member continue by itself. */
static void gang_store(lk_gang *gang) {
	const lk_sim *sim = gang->engine->sim;
	for (size_t i = 0; i < gang->count; i++) {
		lk_rank *rank = gang->member[i];
		gang_move(gang, rank);
		for (uint32_t s = 0; s < sim->streams; s++) {
			rank->stream[s].end = gang_stream(gang, s)[i];
			rank->finish = lk_later(rank->finish, rank->stream[s].end);
		}
		for (uint32_t s = 0; s < sim->slots; s++) rank->slot[s].end = gang_slot(gang, s)[i];
		rank->host = gang->host[i];
		rank->start = gang->start[i];
		memcpy(rank->issued, gang->lead->issued, LK_GROUPS * sizeof *rank->issued);
		if (gang->kernel_op != UINT32_MAX) gang_store_kernel(gang, rank, i);
		else rank->kernel = (lk_kernel){.op = UINT32_MAX};
	}
}

/* Whether the gang is exactly the operation's group. */
static bool gang_is_whole(const lk_gang *gang, const lk_insn *insn) {
	const lk_lane_groups *groups = &gang->engine->sim->group[insn->group];
	if (insn->what != LK_INSN_GROUP || insn->wait || insn->signal) return false;
	if (groups == gang->of) return true;
	uint32_t group = groups->of[gang->lead->lane];
	size_t size = groups->begin[group + 1] - groups->begin[group];
	return size == gang->count &&
	       memcmp(groups->lane + groups->begin[group],
	              gang->of->lane + gang->of->begin[gang->group], size * sizeof *groups->lane) == 0;
}

/* ---- operations of a gang that is alone ---- */

/* The latest end of an operation's dependencies; may be a register itself. */
static const int64_t *gang_sources(lk_gang *gang, const lk_insn *insn) {
	uint32_t streams = insn->join;
	bool issued = insn->flags & LK_INSN_ISSUED;
	LK_ASSERT(streams); /* at least its own */
	const int64_t *first = gang_stream(gang, (unsigned)__builtin_ctz(streams));
	streams &= streams - 1;
	if (!streams && !issued && !insn->dep_count) return first;
	lk_lanes_copy(gang->ready, first, gang->padded);
	if (issued) lk_lanes_max(gang->ready, gang->start, gang->padded);
	for (; streams; streams &= streams - 1)
		lk_lanes_max(gang->ready, gang_stream(gang, (unsigned)__builtin_ctz(streams)),
		             gang->padded);
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		lk_lanes_max(gang->ready, gang_slot(gang, gang->engine->sim->deps[d]), gang->padded);
	return gang->ready;
}

static void gang_keep_slot(lk_gang *gang, const lk_insn *insn, const int64_t *end) {
	if (insn->slot == LK_NO_SLOT) return;
	lk_lanes_copy(gang_slot(gang, insn->slot), end, gang->padded);
	if (gang->kernel_slot == insn->slot) gang->kernel_slot = LK_NO_SLOT;
}

/* Fill the gang's factors of the operation at the program counter; false: it takes equally long on
 * every lane. */
static bool gang_draw(lk_gang *gang, const lk_insn *insn, uint32_t op, uint64_t number) {
	const lk_sim *sim = gang->engine->sim;
	if (!gang->lead->noisy || !(insn->flags & LK_INSN_SCALED) || (insn->flags & LK_INSN_INSTANT))
		return false;
	double sigma = lk_sim_jittered(sim) ? lk_sim_sigma(sim, gang->lead->info, op) : 0;
	if (sigma > 0)
		lk_lanes_factors(gang->factor, gang->noise, gang->straggle, number, sigma, gang->padded);
	else if (gang->stragglers) memcpy(gang->factor, gang->straggle, gang->padded * sizeof(double));
	return sigma > 0 || gang->stragglers;
}

static void gang_set_kernel(lk_gang *gang, const lk_insn *insn, uint32_t op, uint64_t number,
                            lk_lane_kernel *kernel) {
	const lk_cost *cost = &gang->lead->costs[op];
	bool instant = insn->flags & LK_INSN_INSTANT;
	kernel->lead = cost->lead_ps;
	kernel->host = cost->host_ps;
	kernel->alone = instant ? 0 : cost->duration_ps;
	kernel->tail = instant ? 0 : cost->tail_ps;
	kernel->factor = gang_draw(gang, insn, op, number) ? gang->factor : NULL;
	kernel->most = gang->most;
}

static void gang_record(const lk_gang *gang, const int64_t *ready, const int64_t *start,
                        const int64_t *end) {
	for (uint32_t i = 0; i < gang->recorded_count; i++) {
		uint32_t lane = gang->recorded[i];
		lk_rank *rank = gang->member[lane];
		gang_move(gang, rank);
		lk_rank_record(rank, ready[lane], start[lane], end[lane]);
	}
}

static void gang_run_kernel(lk_gang *gang, const lk_insn *insn) {
	lk_rank *lead = gang->lead;
	lk_lane_kernel *kernel = &gang->kernel;
	int64_t *stream = gang_stream(gang, LK_STREAM_COMPUTE);
	gang_set_kernel(gang, insn, lead->op, lead->ops, kernel);
	lk_lanes_kernel(kernel, gang_sources(gang, insn), gang->host, gang->padded);
	lk_lanes_copy(stream, kernel->end, gang->padded);
	lk_lanes_copy(gang->start, kernel->at, gang->padded);
	gang_keep_slot(gang, insn, kernel->end);
	gang->kernel_op = lead->op;
	gang->kernel_slot = insn->slot;
	gang->kernel_call = lead->call;
	gang->kernel_record = lead->ops;
	gang_record(gang, kernel->at, kernel->at, kernel->end);
	lk_rank_step(gang->engine, lead);
}

static void gang_fill(lk_gang *gang, int64_t *to, int64_t time) {
	for (size_t i = 0; i < gang->padded; i++) to[i] = time;
}

/* All wait for it. */
static void gang_run_meeting(lk_gang *gang, const lk_insn *insn) {
	lk_rank *lead = gang->lead;
	const lk_cost *cost = &lead->costs[lead->op];
	int64_t begin = lk_lanes_meet(gang_sources(gang, insn), gang->host, cost->lead_ps,
	                              cost->host_ps, gang->ready, gang->padded);
	int64_t end = begin + cost->duration_ps;
	for (uint32_t i = 0; i < gang->recorded_count; i++) {
		uint32_t lane = gang->recorded[i];
		gang_move(gang, gang->member[lane]);
		lk_rank_record(gang->member[lane], gang->ready[lane], begin, end);
	}
	gang_fill(gang, gang_stream(gang, insn->stream), end);
	if (insn->stream == LK_STREAM_COMPUTE) gang_fill(gang, gang->start, begin);
	gang_keep_slot(gang, insn, gang_stream(gang, insn->stream));
	gang->kernel_op = UINT32_MAX;
	gang->kernel_slot = LK_NO_SLOT;
	lead->issued[insn->group]++;
	lk_rank_step(gang->engine, lead);
}

/* ---- compiling windows ---- */

/* The operation of the window so far that last sets the slot; NULL: it was set before. */
static const gang_op *window_setter(const lk_engine *engine, const lk_gang_window *window,
                                    uint32_t first, uint16_t slot) {
	for (uint32_t i = window->ops; i > 0; i--)
		if (engine->insn[first + i - 1].slot == slot) return &window->op[i - 1];
	return NULL;
}

static void window_join_slot(const lk_engine *engine, lk_gang_window *window, gang_op *op,
                             uint32_t first, uint16_t slot) {
	const gang_op *setter = window_setter(engine, window, first, slot);
	if (!setter) {
		window->deps[op->deps_end++] = slot;
	} else if (setter->is_comm) {
		if (!op->is_comm && setter->comm + 1 > op->comm) op->comm = (uint8_t)(setter->comm + 1);
	} else if (op->is_comm && setter->kernel > op->after_end) {
		op->after_end = (int8_t)setter->kernel;
	}
}

/* Add operation `first + window->ops` with its dependencies; false: it cannot run in a window. */
static bool window_add(const lk_gang *gang, lk_gang_window *window, uint32_t first) {
	const lk_engine *engine = gang->engine;
	const lk_insn *insn = &engine->insn[first + window->ops];
	gang_op *op = &window->op[window->ops];
	uint32_t deps = window->ops ? op[-1].deps_end : 0;
	bool main = insn->flags & LK_INSN_MAIN;
	*op = (gang_op){.is_comm = !main, .after_end = -1, .deps = deps, .deps_end = deps};
	if (insn->wait || insn->signal) return false;
	if (main) {
		if (insn->what != LK_INSN_LOCAL || window->kernels == KERNELS) return false;
		op->kernel = (uint8_t)window->kernels;
	} else {
		if (!gang_is_whole(gang, insn) || window->comms == COMMS) return false;
		if (window->comms && insn->stream != window->stream) return false;
		window->stream = insn->stream;
		op->comm = (uint8_t)window->comms;
		op->kernel = (uint8_t)(window->kernels - 1);
		op->after_start = insn->flags & LK_INSN_ISSUED;
		if (insn->join & LK_JOIN(LK_STREAM_COMPUTE)) op->after_end = (int8_t)op->kernel;
	}
	op->streams = insn->join & ~LK_JOIN(LK_STREAM_COMPUTE);
	if (window->comms && (op->streams & LK_JOIN(window->stream))) {
		op->streams &= ~LK_JOIN(window->stream);
		if (main) op->comm = (uint8_t)window->comms;
	}
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		window_join_slot(engine, window, op, first, engine->sim->deps[d]);
	if (main) window->kernel_op[window->kernels++] = (uint8_t)window->ops;
	else window->comm_op[window->comms++] = (uint8_t)window->ops;
	window->ops++;
	return true;
}

static void window_set_rates(const lk_gang *gang, lk_gang_window *window, uint32_t first,
                             uint32_t kernel, uint32_t op) {
	lk_engine *engine = gang->engine;
	for (uint32_t i = 0; i < window->comms && op != UINT32_MAX; i++) {
		double rate[2];
		lk_act one = {.key = op * 2, .state = LK_ACT_RUNNING};
		lk_act other = {.key = (first + window->comm_op[i]) * 2, .state = LK_ACT_RUNNING};
		other.communicates = true;
		engine->together[0] = &one;
		engine->together[1] = &other;
		lk_rates_ask(engine, gang->lead, 2, rate);
		gang_pair_rates *rates = &window->rates[kernel][i];
		rates->kernel = rate[0];
		rates->comm = rate[1];
		other.state = LK_ACT_HELD;
		lk_rates_ask(engine, gang->lead, 2, rate);
		rates->held = rate[0];
	}
}

/* Compile operations from `first` on until a kernel waits for all communication among them. */
static void window_compile(const lk_gang *gang, lk_gang_window *window, uint32_t first) {
	window->kernels = 1;
	window->before = UINT32_MAX;
	for (uint32_t op = first; window->ops < OPS && op < gang->lead->end_op; op++) {
		if (!window_add(gang, window, first)) break;
		const gang_op *last = &window->op[window->ops - 1];
		if (last->is_comm || last->comm < window->comms) continue;
		for (uint32_t k = 1; k < window->kernels; k++)
			window_set_rates(gang, window, first, k, first + window->kernel_op[k]);
		return;
	}
	window->ops = 0;
}

/* Whether something in it waits for kernel 0 by its slot, whose end is not settled yet. */
static bool window_awaits_kernel(const lk_gang *gang, const lk_gang_window *window) {
	for (uint32_t d = 0; d < window->op[window->ops - 1].deps_end; d++)
		if (window->deps[d] == gang->kernel_slot) return true;
	return false;
}

/* The window that begins at the program counter; NULL: none, or out of memory. */
static const lk_gang_window *gang_window(lk_gang *gang) {
	lk_engine *engine = gang->engine;
	uint32_t first = gang->lead->op;
	lk_gang_window **known =
		&engine->window[(size_t)gang->lead->variant * engine->sim->graph->ops.count + first];
	lk_gang_window *window = *known;
	if (!window) {
		window = LK_NEW(&engine->arena, lk_gang_window);
		size_t deps = 0;
		for (uint32_t op = first; op < gang->lead->end_op && op < first + OPS; op++)
			deps += engine->insn[op].dep_count;
		if (window) window->deps = LK_ARRAY(&engine->arena, uint16_t, deps + 1);
		if (!window || !window->deps) {
			lk_engine_no_memory(engine);
			return NULL;
		}
		window_compile(gang, window, first);
		*known = window;
	}
	if (!window->ops || window_awaits_kernel(gang, window)) return NULL;
	if (window->before != gang->kernel_op)
		window_set_rates(gang, window, first, 0, gang->kernel_op);
	window->before = gang->kernel_op;
	return window;
}

/* ---- running windows ---- */

static inline size_t gang_at(const lk_gang *gang, uint32_t number, size_t lane) {
	return number * gang->room + lane;
}

/* Dependencies that ended before the window: `issued` of every operation. Draws durations. */
static void window_prepare(lk_gang *gang, const lk_gang_window *window, uint32_t first) {
	size_t n = gang->padded;
	for (uint32_t i = 0; i < window->ops; i++) {
		const lk_insn *insn = &gang->engine->insn[first + i];
		const gang_op *op = &window->op[i];
		int64_t *issued = gang->issued + i * gang->room;
		if (op->is_comm) {
			const lk_cost *cost = &gang->lead->costs[first + i];
			lk_lanes_meet(gang->host, gang->host, cost->lead_ps, cost->host_ps, issued, n);
		} else {
			lk_lane_kernel kernel = {.at = issued,
			                         .end = gang->ready,
			                         .duration = gang->duration + op->kernel * gang->room,
			                         .floor = gang->floor + op->kernel * gang->room};
			gang_set_kernel(gang, insn, first + i, gang->lead->ops + i, &kernel);
			lk_lanes_kernel(&kernel, gang->host, gang->host, n);
		}
		for (uint32_t streams = op->streams; streams; streams &= streams - 1)
			lk_lanes_max(issued, gang_stream(gang, (unsigned)__builtin_ctz(streams)), n);
		for (uint32_t d = op->deps; d < op->deps_end; d++)
			lk_lanes_max(issued, gang_slot(gang, window->deps[d]), n);
	}
}

/* Continue at another rate from `time` on. */
static inline void lane_change_rate(gang_lane *lane, double rate, int64_t time) {
	lk_work_change_rate(&lane->left, &lane->rate, &lane->last, rate, time);
	lane->next = lk_later(time + (int64_t)(lane->left / rate + 0.5), lane->floor);
}

/* No kernel is running: find the begin of the next one, if known; LK_NEVER: it waits for
 * communication. */
static inline void lane_look_ahead(const lk_gang *gang, const lk_gang_window *window,
                                   gang_lane *lane, int64_t comm_end) {
	uint32_t next = lane->kernel + 1;
	lane->next = LK_NEVER;
	if (next == window->kernels) return;
	uint32_t number = window->kernel_op[next], comm = window->op[number].comm;
	if (comm > lane->over) return;
	lane->next = lk_later(gang->ended[gang_at(gang, lane->kernel, lane->lane)],
	                      gang->issued[gang_at(gang, number, lane->lane)]);
	if (comm) lane->next = lk_later(lane->next, comm_end);
}

static inline void lane_begin(const lk_gang *gang, gang_lane *lane) {
	size_t at = gang_at(gang, ++lane->kernel, lane->lane);
	int64_t duration = gang->duration[at];
	gang->began[at] = lane->last = lane->next;
	lane->floor = gang->floor[at];
	lane->left = (double)duration;
	lane->rate = 1;
	lane->next = lk_later(lane->last + duration, lane->floor);
	lane->runs = true;
}

static inline void lane_end(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                            int64_t comm_end) {
	gang->ended[gang_at(gang, lane->kernel, lane->lane)] = lane->next;
	lane->runs = false;
	lane_look_ahead(gang, window, lane, comm_end);
}

/* End and begin kernels until `time`, at their current rates. */
static inline void lane_pass(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                             int64_t time, int64_t comm_end) {
	while (lane->next <= time) {
		if (lane->runs) lane_end(gang, window, lane, comm_end);
		else lane_begin(gang, lane);
	}
}

/* No communication runs from `now` on, for some time. */
static inline void lane_settle_alone(gang_lane *lane) {
	if (lane->runs && lane->rate != 1) lane_change_rate(lane, 1, lane->now);
}

/* Run kernels until kernel `to` has begun, or ended, while no communication runs. */
static inline void lane_run_alone(const lk_gang *gang, const lk_gang_window *window,
                                  gang_lane *lane, uint32_t to, bool ended, int64_t comm_end) {
	if (lane->kernel > to || (lane->kernel == to && !(ended && lane->runs))) return;
	lane_settle_alone(lane);
	while (lane->kernel < to) {
		if (lane->runs) lane_end(gang, window, lane, comm_end);
		lane_begin(gang, lane);
	}
	if (ended) lane_end(gang, window, lane, comm_end);
}

/* The lane arrives at communication `comm`. */
static int64_t lane_arrive(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                           uint32_t comm, int64_t comm_end) {
	const gang_op *op = &window->op[window->comm_op[comm]];
	bool ended = op->after_end == op->kernel;
	lane_run_alone(gang, window, lane, op->kernel, ended, comm_end);
	int64_t time = gang->issued[gang_at(gang, window->comm_op[comm], lane->lane)];
	if (comm) time = lk_later(time, comm_end);
	if (op->after_start) time = lk_later(time, gang->began[gang_at(gang, op->kernel, lane->lane)]);
	if (op->after_end >= 0)
		time = lk_later(time, gang->ended[gang_at(gang, (uint32_t)op->after_end, lane->lane)]);
	gang->arrived[gang_at(gang, comm, lane->lane)] = time;
	return time;
}

/* Communication `comm` begins at `begin`; returns the end of the lane's share. */
static int64_t lane_share(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                          uint32_t comm, int64_t begin, int64_t duration, int64_t comm_end) {
	if (begin > lane->now) lane_settle_alone(lane);
	lane->now = begin;
	double left = (double)duration, rate = 1;
	int64_t due = begin + duration, last = begin;
	for (;;) {
		lane_pass(gang, window, lane, lane->now, comm_end);
		if (due <= lane->now) return due;
		const gang_pair_rates *pair = &window->rates[lane->kernel][comm];
		double own = lane->runs ? pair->comm : 1;
		if (lane->runs && lane->rate != pair->kernel)
			lane_change_rate(lane, pair->kernel, lane->now);
		if (rate != own) {
			lk_work_change_rate(&left, &rate, &last, own, lane->now);
			due = lane->now + (int64_t)(left / own + 0.5);
		}
		lane->now = lane->next < due ? lane->next : due;
	}
}

/* The lane's share is done, and the communication ends at `end`. */
static void lane_hold(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                      uint32_t comm, int64_t end, int64_t comm_end) {
	while (lane->now < end) {
		double held = window->rates[lane->kernel][comm].held;
		if (lane->runs && lane->rate != held) lane_change_rate(lane, held, lane->now);
		lane->now = lane->next < end ? lane->next : end;
		lane_pass(gang, window, lane, lane->now, comm_end);
	}
	lane->over = comm + 1;
	if (!lane->runs) lane_look_ahead(gang, window, lane, end);
	lane_pass(gang, window, lane, end, end);
}

static void lane_open(const lk_gang *gang, const lk_gang_window *window, gang_lane *lane,
                      size_t number) {
	const lk_lane_kernel *kernel = &gang->kernel;
	*lane = (gang_lane){.lane = number, .rate = 1};
	size_t at = gang_at(gang, 0, number);
	gang->began[at] = gang->start[number];
	gang->ended[at] = gang_stream(gang, LK_STREAM_COMPUTE)[number];
	if (gang->kernel_op == UINT32_MAX) {
		lane_look_ahead(gang, window, lane, 0);
		return;
	}
	lane->runs = true;
	lane->now = lane->last = kernel->at[number];
	lane->next = kernel->end[number];
	lane->floor = kernel->floor[number];
	lane->left = (double)kernel->duration[number];
}

/* Keep the ends set by the window's operations. */
static void window_keep(lk_gang *gang, const lk_gang_window *window, uint32_t first,
                        const int64_t *ends) {
	size_t n = gang->padded;
	uint32_t last = window->kernels - 1;
	lk_lane_kernel *kernel = &gang->kernel;
	const lk_insn *insn = &gang->engine->insn[first + window->ops - 1];
	memcpy(kernel->at, gang->began + last * gang->room, n * sizeof *kernel->at);
	memcpy(kernel->duration, gang->duration + last * gang->room, n * sizeof *kernel->duration);
	memcpy(kernel->floor, gang->floor + last * gang->room, n * sizeof *kernel->floor);
	memcpy(kernel->end, gang->ended + last * gang->room, n * sizeof *kernel->end);
	memcpy(gang->start, kernel->at, n * sizeof *gang->start);
	memcpy(gang_stream(gang, LK_STREAM_COMPUTE), kernel->end, n * sizeof *kernel->end);
	gang_fill(gang, gang_stream(gang, window->stream), ends[window->comms - 1]);
	if (gang->kernel_op != UINT32_MAX && gang->kernel_slot != LK_NO_SLOT)
		memcpy(gang_slot(gang, gang->kernel_slot), gang->ended, n * sizeof *gang->slot);
	for (uint32_t i = 0; i < window->ops; i++) {
		const gang_op *op = &window->op[i];
		uint16_t slot = gang->engine->insn[first + i].slot;
		if (slot == LK_NO_SLOT) continue;
		if (op->is_comm) gang_fill(gang, gang_slot(gang, slot), ends[op->comm]);
		else
			memcpy(gang_slot(gang, slot), gang->ended + op->kernel * gang->room,
			       n * sizeof *gang->slot);
	}
	gang->kernel_slot = insn->slot;
	gang->kernel_op = first + window->ops - 1;
	gang->kernel_call = gang->lead->call;
	gang->kernel_record = gang->lead->ops + window->ops - 1;
}

static void window_record(const lk_gang *gang, const lk_gang_window *window, const int64_t *begins,
                          const int64_t *ends) {
	for (uint32_t r = 0; r < gang->recorded_count; r++) {
		uint32_t lane = gang->recorded[r];
		lk_rank *rank = gang->member[lane];
		uint64_t ops = gang->lead->ops;
		gang_move(gang, rank);
		if (window->before != UINT32_MAX)
			rank->events[gang->kernel_record].end_ps = gang->ended[gang_at(gang, 0, lane)];
		for (uint32_t i = 0; i < window->ops; i++, rank->op++, rank->ops++) {
			const gang_op *op = &window->op[i];
			size_t kernel = gang_at(gang, op->kernel, lane);
			if (op->is_comm)
				lk_rank_record(rank, gang->arrived[gang_at(gang, op->comm, lane)], begins[op->comm],
				               ends[op->comm]);
			else
				lk_rank_record(rank, gang->began[kernel], gang->began[kernel], gang->ended[kernel]);
		}
		rank->op -= window->ops; /* it may be the lead */
		rank->ops = ops;
	}
}

static void gang_run_window(lk_gang *gang, const lk_gang_window *window) {
	lk_rank *lead = gang->lead;
	uint32_t first = lead->op, last = window->kernels - 1;
	int64_t begins[COMMS], ends[COMMS], over = 0;
	gang_lane lane[LK_GANG_MOST];
	window_prepare(gang, window, first);
	for (size_t i = 0; i < gang->count; i++) lane_open(gang, window, &lane[i], i);
	for (uint32_t c = 0; c < window->comms; c++) {
		int64_t duration = lead->costs[first + window->comm_op[c]].duration_ps, begin = 0, end = 0;
		for (size_t i = 0; i < gang->count; i++)
			begin = lk_later(begin, lane_arrive(gang, window, &lane[i], c, over));
		for (size_t i = 0; i < gang->count; i++)
			end = lk_later(end, lane_share(gang, window, &lane[i], c, begin, duration, over));
		for (size_t i = 0; i < gang->count; i++) lane_hold(gang, window, &lane[i], c, end, over);
		begins[c] = begin;
		ends[c] = over = end;
		lead->issued[gang->engine->insn[first + window->comm_op[c]].group]++;
	}
	for (size_t i = 0; i < gang->count; i++)
		lane_run_alone(gang, window, &lane[i], last, true, over);
	for (size_t i = gang->count; i < gang->padded; i++)
		for (uint32_t k = 0; k < window->kernels; k++) {
			gang->began[gang_at(gang, k, i)] = gang->began[gang_at(gang, k, 0)];
			gang->ended[gang_at(gang, k, i)] = gang->ended[gang_at(gang, k, 0)];
		}
	window_record(gang, window, begins, ends);
	window_keep(gang, window, first, ends);
	for (uint32_t i = 0; i < window->ops; i++) lk_rank_step(gang->engine, lead);
}

/* ---- running ---- */

/* Run the next operation if the gang can; false otherwise. */
static bool gang_run_one(lk_gang *gang) {
	const lk_rank *lead = gang->lead;
	const lk_insn *insn = &gang->engine->insn[lead->op];
	if (insn->what == LK_INSN_LOCAL) {
		if (!(insn->flags & LK_INSN_MAIN) || insn->wait || insn->signal) return false;
		gang_run_kernel(gang, insn);
		return true;
	}
	if (!gang_is_whole(gang, insn)) return false;
	if (lk_insn_blocks(gang->engine, lead, insn)) {
		gang_run_meeting(gang, insn);
		return true;
	}
	const lk_gang_window *window = gang_window(gang);
	if (window) gang_run_window(gang, window);
	return window;
}

static bool gang_gather(lk_gang *gang, const lk_rendezvous *rendezvous) {
	const lk_lane_groups *of = NULL;
	const lk_rank *first = rendezvous->member[0].rank;
	gang->count = rendezvous->venue->members;
	if (gang->count < 2 || gang->count > LK_GANG_MOST) return false;
	const lk_insn *insn = &gang->engine->insn[first->parking[0].op];
	if (insn->what != LK_INSN_GROUP) return false;
	of = &gang->engine->sim->group[insn->group];
	gang->of = of;
	gang->group = of->of[first->lane];
	/* groups across stages have more members than lanes */
	if (gang->count != of->begin[gang->group + 1] - of->begin[gang->group]) return false;
	LK_ASSERT(gang->count <= gang->room);
	for (size_t i = 0; i < gang->count; i++) {
		const lk_member *member = &rendezvous->member[i];
		if (member->act || member->rank->stage != first->stage ||
		    member->rank->costs != first->costs)
			return false;
	}
	/* in the order of lanes, whatever the order of arrival */
	for (size_t i = 0; i < gang->count; i++)
		gang->member[i] = &gang->engine->rank[(size_t)first->stage * gang->engine->sim->lanes +
		                                      of->lane[of->begin[gang->group] + i]];
	return true;
}

bool lk_gang_find(lk_engine *engine, const lk_rendezvous *rendezvous) {
	return engine->gang && gang_gather(engine->gang, rendezvous);
}

void lk_gang_run(lk_engine *engine) {
	lk_gang *gang = engine->gang;
	lk_rank *lead = gang->member[0];
	if (!lk_rank_at_end(lead)) {
		gang_load(gang);
		for (uint32_t steps = 1; !lk_rank_at_end(lead) && !engine->halted; steps++) {
			if (steps % LOOK == 0 && lk_stop_asked(engine->stop))
				engine->stopped = engine->halted = true;
			if (!gang_run_one(gang)) break;
		}
		gang_store(gang);
	}
}
