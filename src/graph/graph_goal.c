/* graph_goal.c: a step graph as a GOAL schedule, the text form of LogGOPSim (spcl/LogGOPSim,
 * src/LogGOPSim/txt2bin.re; Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language", ICPP
 * 2009):
 *
 *     num_ranks 2
 *     rank 0 {
 *     l1: calc 500 cpu 0
 *     l2: send 1024b to 1 tag 7 cpu 1
 *     l2 requires l1
 *     }
 *
 * Times are tenths of a picosecond: LogGOPSim's gap per byte is a whole number. Each stream is a
 * CPU, so that kernels of several streams overlap and those of one do not; host work is left out.
 * Dependencies are those of graph_export.c.
 *
 * LogGOPSim has no time of a dependency. A dependent operation is released when its predecessor
 * begins, and starts when its own CPU is free: on one CPU that is the predecessor's end, from CPU
 * to CPU it is too early (src/LogGOPSim/LogGOPSim.cpp, nexto and nextgs). A send waits for its CPU
 * and its NIC, so time passes from CPU to CPU by two one-byte sends from a rank to itself on a NIC
 * without other traffic: `xN` on the CPU of node N after its end, then `yM` on the CPU of node M
 * before its start; `xrN` and `yrM` receive them. A message occupies the CPU of its number on the
 * receiving rank: both ends name the same CPU.
 *
 * Collectives are written out as messages: all-reduce, all-gather and reduce-scatter as a ring in
 * rank order, 2(n-1) or n-1 steps of 1/n of the bytes (Patarasuk, Yuan, "Bandwidth optimal
 * all-reduce algorithms", 2009); all-to-all as n-1 steps with one message each to another rank (a
 * CPU that sends and receives at once would do one after the other); broadcast from the group's
 * first rank down a binomial tree. `bN` begins node N, `lN` ends it. Messages of a pair of ranks
 * with one tag are matched in order: each group has its own tag, and its collectives wait for one
 * another on every rank. */
#include <math.h>

#include "base/arena.h"
#include "graph/graph_internal.h"

enum {
	GROUP_TAGS = LK_GRAPH_WIRES, /* tags of groups follow those of wires */
	GOAL_TICKS = 10,             /* per picosecond */
	GOAL_CLOCK = 1,              /* NIC without other traffic */
	GOAL_DIRECTIONS = 4
};
/* The most lines of the file: no simulator holds a larger schedule. */
#define MOST_LINES 5e8

/* A node of the current rank. */
struct goal_place {
	uint8_t cpu;
	bool left; /* its end was passed on to other CPUs */
};

/* Sums over all communication for fitting L and G: for each operation its sequential steps and the
 * bytes of these steps, weighted by 1 / its predicted time in ticks. */
struct goal_fit {
	double steps2, steps_bytes, bytes2; /* sums of products, weighted */
	double steps, bytes;
};

struct goal {
	const lk_chakra_options *times;
	lk_sink *out;
	double lines;
	struct goal_fit fit;
	int cpus;
	int cpu[LK_STREAMS];              /* by stream, from 1; 0: not seen yet */
	int messages[GOAL_DIRECTIONS];    /* likewise for messages between stages */
	LK_VEC(struct goal_place) places; /* by node, from id 1 */
	LK_VEC(uint64_t) previous; /* [groups + 1] the group's last collective on this rank; 0: none */
};

/* A collective from the view of one of its ranks. */
struct meeting {
	uint64_t id, bytes;
	uint32_t group, size, place; /* the rank is number `place` of `size` */
	int cpu;
};

static uint32_t goal_member(const lk_export *export, const struct meeting *m, uint32_t place) {
	return export->groups.members.at[m->group - 1].at[place];
}

/* Size of part `place` of `size` parts, as even as whole bytes allow. LogGOPSim accepts no empty
 * message. */
static uint64_t goal_part(const struct meeting *m, uint32_t place) {
	uint64_t part = m->bytes / m->size + (place < m->bytes % m->size);
	return part ? part : 1;
}

static int goal_cpu(struct goal *goal, unsigned stream) {
	if (stream == LK_STREAM_COMPUTE) return 0;
	if (!goal->cpu[stream]) goal->cpu[stream] = ++goal->cpus;
	return goal->cpu[stream];
}

/* CPU of a message: by its direction, and by whether its sender's stage is even, so that a stage
 * can send while it receives. */
static int goal_message_cpu(struct goal *goal, const lk_export *export, const lk_op *op,
                            uint32_t peer) {
	uint32_t here = export->stage, there = lk_rank_stage(export->graph, peer);
	uint32_t from = op->kind == LK_OP_SEND ? here : there, to = here + there - from;
	int *cpu = &goal->messages[2 * (from < to) + from % 2];
	if (!*cpu) *cpu = ++goal->cpus;
	return *cpu;
}

/* ---- dependencies ---- */

/* A send of a rank to itself, which only passes time. */
static void goal_tick(struct goal *goal, const lk_export *export, char name, uint64_t node,
                      int cpu) {
	unsigned long long id = node;
	lk_sink_printf(goal->out,
	               "%c%llu: send 1b to %u tag 0 cpu %d nic %d\n"
	               "%cr%llu: recv 1b from %u tag 0 cpu %d nic %d\n"
	               "%cr%llu irequires %c%llu\n",
	               name, id, export->rank, cpu, GOAL_CLOCK, name, id, export->rank, cpu, GOAL_CLOCK,
	               name, id, name, id);
}

/* Pass a node's end on to other CPUs, once. */
static void goal_leave(struct goal *goal, const lk_export *export, uint64_t node) {
	struct goal_place *place = &goal->places.at[node - 1];
	if (place->left) return;
	place->left = true;
	goal_tick(goal, export, 'x', node, place->cpu);
	lk_sink_printf(goal->out, "x%llu requires l%llu\n", (unsigned long long)node,
	               (unsigned long long)node);
}

/* Write the dependencies of the node's operation `first`, 'l' or 'b': the node's, and `previous`
 * unless 0. */
static void goal_put_deps(struct goal *goal, const lk_export *export, const lk_export_node *node,
                          char first, uint64_t previous) {
	unsigned long long id = node->id;
	int cpu = goal->places.at[id - 1].cpu;
	bool enters = false;
	for (size_t i = 0; i <= node->dep_count; i++) {
		unsigned long long dep = i < node->dep_count ? node->deps[i] : previous;
		if (!dep || (i < node->dep_count && dep == previous)) continue;
		if (goal->places.at[dep - 1].cpu == cpu) {
			lk_sink_printf(goal->out, "%c%llu requires l%llu\n", first, id, dep);
			continue;
		}
		goal_leave(goal, export, dep);
		if (!enters) goal_tick(goal, export, 'y', id, cpu);
		enters = true;
		lk_sink_printf(goal->out, "y%llu requires x%llu\n", id, dep);
	}
	if (enters) lk_sink_printf(goal->out, "%c%llu requires y%llu\n", first, id, id);
}

/* ---- collectives ---- */

/* Order step k after step k-1, the first one after the collective's begin. */
static void goal_put_order(struct goal *goal, unsigned long long id, uint32_t k, uint32_t first) {
	if (k > first)
		lk_sink_printf(goal->out,
		               "s%llu_%u requires r%llu_%u\ns%llu_%u irequires s%llu_%u\n"
		               "r%llu_%u requires r%llu_%u\n",
		               id, k, id, k - 1, id, k, id, k - 1, id, k, id, k - 1);
	else
		lk_sink_printf(goal->out, "s%llu_%u requires b%llu\nr%llu_%u requires b%llu\n", id, k, id,
		               id, k, id);
}

/* Step k sends the part that step k-1 received. */
static void goal_ring(struct goal *goal, const lk_export *export, const struct meeting *m,
                      uint32_t steps) {
	unsigned long long id = m->id;
	uint32_t n = m->size, to = goal_member(export, m, (m->place + 1) % n),
			 from = goal_member(export, m, (m->place + n - 1) % n);
	for (uint32_t k = 0; k < steps; k++) {
		uint32_t sent = (m->place + n - k % n) % n, received = (sent + n - 1) % n;
		lk_sink_printf(goal->out, "s%llu_%u: send %llub to %u tag %u cpu %d\n", id, k,
		               (unsigned long long)goal_part(m, sent), to, GROUP_TAGS + m->group, m->cpu);
		lk_sink_printf(goal->out, "r%llu_%u: recv %llub from %u tag %u cpu %d\n", id, k,
		               (unsigned long long)goal_part(m, received), from, GROUP_TAGS + m->group,
		               m->cpu);
		goal_put_order(goal, id, k, 0);
	}
	for (uint32_t k = 0; k < steps; k++)
		lk_sink_printf(goal->out, "l%llu requires s%llu_%u\n", id, id, k);
	lk_sink_printf(goal->out, "l%llu requires r%llu_%u\n", id, id, steps - 1);
}

/* Step k sends to the rank k places on and receives from the one k places back. */
static void goal_exchange(struct goal *goal, const lk_export *export, const struct meeting *m) {
	unsigned long long id = m->id;
	for (uint32_t k = 1; k < m->size; k++) {
		uint32_t to = (m->place + k) % m->size, from = (m->place + m->size - k) % m->size;
		lk_sink_printf(goal->out,
		               "s%llu_%u: send %llub to %u tag %u cpu %d\n"
		               "r%llu_%u: recv %llub from %u tag %u cpu %d\n",
		               id, k, (unsigned long long)goal_part(m, to), goal_member(export, m, to),
		               GROUP_TAGS + m->group, m->cpu, id, k,
		               (unsigned long long)goal_part(m, m->place), goal_member(export, m, from),
		               GROUP_TAGS + m->group, m->cpu);
		goal_put_order(goal, id, k, 1);
		lk_sink_printf(goal->out, "l%llu requires s%llu_%u\nl%llu requires r%llu_%u\n", id, id, k,
		               id, id, k);
	}
}

/* The rank at place p receives the bytes from p without its highest bit, and sends them to p + 2^k
 * for every 2^k above p. */
static void goal_broadcast(struct goal *goal, const lk_export *export, const struct meeting *m) {
	unsigned long long id = m->id, bytes = m->bytes ? m->bytes : 1;
	uint32_t high = 1;
	while (high <= m->place / 2) high *= 2;
	if (m->place)
		lk_sink_printf(goal->out,
		               "r%llu: recv %llub from %u tag %u cpu %d\n"
		               "r%llu requires b%llu\nl%llu requires r%llu\n",
		               id, bytes, goal_member(export, m, m->place - high), GROUP_TAGS + m->group,
		               m->cpu, id, id, id, id);
	for (uint64_t k = m->place ? 2 * (uint64_t)high : 1; m->place + k < m->size; k *= 2)
		lk_sink_printf(goal->out,
		               "s%llu_%llu: send %llub to %u tag %u cpu %d\n"
		               "s%llu_%llu requires %s%llu\nl%llu requires s%llu_%llu\n",
		               id, (unsigned long long)k, bytes,
		               goal_member(export, m, m->place + (uint32_t)k), GROUP_TAGS + m->group,
		               m->cpu, id, (unsigned long long)k, m->place ? "r" : "b", id, id, id,
		               (unsigned long long)k);
}

static void goal_collective(struct goal *goal, lk_export *export, const lk_export_node *node,
                            int cpu) {
	const lk_op *op = node->op;
	struct meeting m = {.id = node->id,
	                    .bytes = lk_export_whole(op->bytes),
	                    .group = lk_export_group(export, op),
	                    .cpu = cpu};
	m.size = (uint32_t) export->groups.members.at[m.group - 1].count;
	while (m.place < m.size && goal_member(export, &m, m.place) != export->rank) m.place++;
	unsigned long long id = node->id;
	lk_sink_printf(goal->out, "b%llu: calc 0 cpu %d\nl%llu: calc 0 cpu %d\nl%llu requires b%llu\n",
	               id, m.cpu, id, m.cpu, id, id);
	uint64_t *previous = &goal->previous.at[m.group];
	goal_put_deps(goal, export, node, 'b', *previous);
	*previous = node->id;
	if (op->kind == LK_OP_ALLREDUCE) goal_ring(goal, export, &m, 2 * (m.size - 1));
	else if (op->kind == LK_OP_ALLTOALL) goal_exchange(goal, export, &m);
	else if (op->kind == LK_OP_BROADCAST) goal_broadcast(goal, export, &m);
	else goal_ring(goal, export, &m, m.size - 1);
}

/* ---- nodes ---- */

static void goal_message(struct goal *goal, const lk_export *export, const lk_export_node *node,
                         int cpu) {
	bool sends = node->op->kind == LK_OP_SEND;
	lk_export_message to = lk_export_peer(export, node->op);
	uint64_t bytes = lk_export_whole(node->op->bytes);
	lk_sink_printf(goal->out, "l%llu: %s %llub %s %u tag %u cpu %d\n", (unsigned long long)node->id,
	               sends ? "send" : "recv", (unsigned long long)(bytes ? bytes : 1),
	               sends ? "to" : "from", to.peer, to.tag, cpu);
}

/* Picoseconds. */
static double goal_time(const struct goal *goal, const lk_export *export,
                        const lk_export_node *node) {
	const lk_chakra_options *times = goal->times;
	if (node->op->measured_ps > 0) return (double)node->op->measured_ps;
	return times->time(times->context, export->stage, export->chain, node->at);
}

static void goal_calc(struct goal *goal, const lk_export *export, const lk_export_node *node,
                      int cpu) {
	lk_sink_printf(goal->out, "l%llu: calc %llu cpu %d\n", (unsigned long long)node->id,
	               (unsigned long long)lk_export_whole(goal_time(goal, export, node) * GOAL_TICKS),
	               cpu);
}

static lk_status goal_put(lk_export *export, const lk_export_node *node) {
	struct goal *goal = export->context;
	const lk_op *op = node->op;
	bool message = op->kind == LK_OP_SEND || op->kind == LK_OP_RECV;
	int cpu = message ? goal_message_cpu(goal, export, op, lk_export_peer(export, op).peer)
	                  : goal_cpu(goal, op->stream);
	if (!lk_push(&goal->places)) return lk_oom(export->err);
	*lk_last(&goal->places) = (struct goal_place){.cpu = (uint8_t)cpu};
	if (lk_op_is_collective(op->kind)) {
		goal_collective(goal, export, node, cpu);
		return LK_OK;
	}
	if (message) goal_message(goal, export, node, cpu);
	else goal_calc(goal, export, node, cpu);
	goal_put_deps(goal, export, node, 'l', 0);
	return LK_OK;
}

/* For a broadcast down a tree, the steps to the last rank. */
static double goal_steps(const lk_op *op, double ranks) {
	if (op->kind == LK_OP_SEND) return 1;
	if (op->kind == LK_OP_BROADCAST) return ceil(log2(ranks));
	return (op->kind == LK_OP_ALLREDUCE ? 2 : 1) * (ranks - 1);
}

static void goal_fit_add(struct goal *goal, const lk_export *export, const lk_export_node *node) {
	const lk_op *op = node->op;
	struct goal_fit *fit = &goal->fit;
	bool whole = op->kind == LK_OP_SEND || op->kind == LK_OP_BROADCAST;
	double ranks = whole && op->kind == LK_OP_SEND
	                   ? 2
	                   : (double)lk_export_group_size(export->graph, op),
		   steps = goal_steps(op, ranks), bytes = steps * op->bytes / (whole ? 1 : ranks),
		   time = goal_time(goal, export, node) * GOAL_TICKS;
	if (time <= 0) return;
	fit->steps2 += steps * steps / time;
	fit->steps_bytes += steps * bytes / time;
	fit->bytes2 += bytes * bytes / time;
	fit->steps += steps;
	fit->bytes += bytes;
}

/* The first pass over a rank: length of the file, and times of communication. */
static lk_status goal_count(lk_export *export, const lk_export_node *node) {
	struct goal *goal = export->context;
	const lk_op *op = node->op;
	goal->lines += 6 + 6 * (double)node->dep_count;
	if (lk_op_is_collective(op->kind))
		goal->lines += 16 * (double)lk_export_group_size(export->graph, op);
	if (lk_op_is_comm(op->kind) && op->kind != LK_OP_RECV) goal_fit_add(goal, export, node);
	if (goal->lines <= MOST_LINES) return LK_OK;
	lk_fail(export->err, LK_ERR_INPUT, export->what,
	        "the step has more than %.3g messages and operations on all ranks together, too many "
	        "to write out",
	        MOST_LINES);
	return lk_hint(export->err, "give fewer ranks or micro-batches");
}

/* ---- file ---- */

/* LogGOPSim has one latency L and one gap per byte G between all ranks, whole numbers: fit steps *
 * L + bytes * G to the predicted times of the step's communication (least squares; the weights make
 * the sum of all times right). If the step does not determine them, the links of the slowest level
 * that the ranks reach do: they count as observations of small weight. */
static void goal_put_machine(struct goal *goal, const lk_export *export) {
	static const double little = 1e-6;
	const lk_graph *graph = export->graph;
	struct goal_fit fit = goal->fit;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_export_level levels[2];
	if (graph->cluster &&
	    lk_cluster_parse_text(&arena, lk_intern_text(graph->names, graph->cluster), &cluster,
	                          NULL) == LK_OK) {
		int count = lk_export_levels(&cluster, export->groups.world, levels);
		const lk_export_level *slowest = &levels[count - 1];
		double latency = GOAL_TICKS * slowest->latency_ns * 1e3,
			   gap = GOAL_TICKS * 1e12 / slowest->rate,
			   steps2 = little * (fit.steps2 > 0 ? fit.steps2 : 1),
			   bytes2 = little * (fit.bytes2 > 0 ? fit.bytes2 : 1);
		fit.steps2 += steps2;
		fit.bytes2 += bytes2;
		fit.steps += steps2 * latency;
		fit.bytes += bytes2 * gap;
		double det = fit.steps2 * fit.bytes2 - fit.steps_bytes * fit.steps_bytes;
		latency = (fit.steps * fit.bytes2 - fit.bytes * fit.steps_bytes) / det;
		if (latency < 0) latency = 0;
		gap = (fit.bytes - latency * fit.steps_bytes) / fit.bytes2;
		lk_sink_printf(goal->out,
		               "// txt2bin -i FILE -o step.bin; LogGOPSim -f step.bin -L %.0f -o 0 -g 0 "
		               "-G %.0f -O 0\n",
		               fmin(latency, INT32_MAX), fmin(fmax(gap, 1), INT32_MAX));
	}
	lk_arena_free(&arena);
}

static lk_status goal_write_ranks(lk_export *export) {
	struct goal *goal = export->context;
	lk_sink_printf(goal->out, "// lockstep: one training step; times in 0.1 ps\n");
	goal_put_machine(goal, export);
	lk_sink_printf(goal->out, "num_ranks %llu\n", (unsigned long long)export->groups.world);
	for (uint64_t i = 0; i < export->groups.world; i++) {
		lk_export_turn(export, i);
		goal->places.count = 0;
		for (size_t g = 0; g <= export->groups.members.count; g++) goal->previous.at[g] = 0;
		lk_sink_printf(goal->out, "\nrank %u {\n", export->rank);
		LK_TRY(lk_export_rank(export));
		lk_sink_printf(goal->out, "}\n");
	}
	return LK_OK;
}

static lk_status goal_write(lk_export *export, const char *path) {
	struct goal *goal = export->context;
	LK_TRY(lk_export_begin(export));
	LK_TRY(lk_export_enter(export));
	for (uint64_t i = 0; i < export->groups.world; i++) {
		lk_export_turn(export, i);
		LK_TRY(lk_export_rank(export));
	}
	export->put = goal_put;
	for (size_t g = 0; g <= export->groups.members.count; g++)
		if (!lk_push(&goal->previous)) return lk_oom(export->err);
	LK_TRY(lk_sink_open(path, &goal->out, export->err));
	lk_status status = goal_write_ranks(export);
	if (status == LK_OK) return lk_sink_commit(goal->out, export->err);
	lk_sink_abandon(goal->out);
	return status;
}

lk_status lk_graph_goal_write(const lk_graph *graph, const lk_chakra_options *times,
                              const char *path, lk_error *err) {
	struct goal goal = {.times = times};
	lk_export export = {
		.graph = graph, .what = "GOAL schedule", .put = goal_count, .context = &goal, .err = err};
	lk_status status = goal_write(&export, path);
	lk_export_leave(&export);
	lk_export_end(&export);
	lk_vec_free(&goal.places);
	lk_vec_free(&goal.previous);
	return status;
}
