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
 * Times are picoseconds. A stream is a CPU of its own, so that kernels of several streams overlap
 * and those of one do not; work of the host is left out. Dependencies are those of graph_export.c.
 *
 * Collectives are written out as messages: all-reduce, all-gather and reduce-scatter as the ring in
 * the order of ranks, 2(n-1) or n-1 steps of one n-th of the bytes (Patarasuk, Yuan, "Bandwidth
 * optimal all-reduce algorithms", 2009); all-to-all as n-1 messages to each other rank; broadcast
 * from the group's first rank down a binomial tree. `bN` begins node N, `lN` ends it. Messages of a
 * pair of ranks with one tag are matched in order: a group has a tag of its own, and its
 * collectives wait for one another on every rank. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "graph/graph_internal.h"

enum {
	GROUP_TAGS = LK_GRAPH_WIRES /* tags of groups lie above those of wires */
};
/* The most lines of the file: no simulator holds a larger schedule. */
#define MOST_LINES 5e8

struct goal {
	const lk_chakra_options *times;
	lk_sink *out;
	double lines;
	int cpus;
	int cpu[LK_STREAMS];       /* of the stream, from 1; 0 not seen yet */
	LK_VEC(uint64_t) previous; /* [groups + 1] the last collective of each on this rank; 0 none */
};

/* A collective as one of its ranks sees it. */
struct meeting {
	uint64_t id, bytes;
	uint32_t group, size, place; /* the rank is the place-th of `size` */
	int cpu;
};

static uint32_t goal_member(const lk_export *export, const struct meeting *m, uint32_t place) {
	return m->group ? export->groups.members.at[m->group - 1].at[place] : place;
}

/* The place-th of `size` parts, as even as whole bytes are. LogGOPSim takes no empty message. */
static uint64_t goal_part(const struct meeting *m, uint32_t place) {
	uint64_t part = m->bytes / m->size + (place < m->bytes % m->size);
	return part ? part : 1;
}

static int goal_cpu(struct goal *goal, unsigned stream) {
	if (stream == LK_STREAM_COMPUTE) return 0;
	if (!goal->cpu[stream]) goal->cpu[stream] = ++goal->cpus;
	return goal->cpu[stream];
}

/* ---- collectives ---- */

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
		if (k)
			lk_sink_printf(goal->out,
			               "s%llu_%u requires r%llu_%u\ns%llu_%u irequires s%llu_%u\n"
			               "r%llu_%u requires r%llu_%u\n",
			               id, k, id, k - 1, id, k, id, k - 1, id, k, id, k - 1);
		else
			lk_sink_printf(goal->out, "s%llu_0 requires b%llu\nr%llu_0 requires b%llu\n", id, id,
			               id, id);
	}
	for (uint32_t k = 0; k < steps; k++)
		lk_sink_printf(goal->out, "l%llu requires s%llu_%u\n", id, id, k);
	lk_sink_printf(goal->out, "l%llu requires r%llu_%u\n", id, id, steps - 1);
}

static void goal_exchange(struct goal *goal, const lk_export *export, const struct meeting *m) {
	unsigned long long id = m->id;
	for (uint32_t k = 1; k < m->size; k++) {
		uint32_t to = (m->place + k) % m->size, from = (m->place + m->size - k) % m->size;
		lk_sink_printf(goal->out,
		               "s%llu_%u: send %llub to %u tag %u cpu %d\n"
		               "r%llu_%u: recv %llub from %u tag %u cpu %d\n"
		               "s%llu_%u requires b%llu\nr%llu_%u requires b%llu\n"
		               "l%llu requires s%llu_%u\nl%llu requires r%llu_%u\n",
		               id, k, (unsigned long long)goal_part(m, to), goal_member(export, m, to),
		               GROUP_TAGS + m->group, m->cpu, id, k,
		               (unsigned long long)goal_part(m, m->place), goal_member(export, m, from),
		               GROUP_TAGS + m->group, m->cpu, id, k, id, id, k, id, id, id, k, id, id, k);
	}
}

/* The rank at place p has the bytes from p without its highest bit, and sends them to p + 2^k for
 * every 2^k above p. */
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

static void goal_collective(struct goal *goal, lk_export *export, const lk_export_node *node) {
	const lk_op *op = node->op;
	struct meeting m = {.id = node->id,
	                    .bytes = lk_export_whole(op->bytes),
	                    .group = lk_export_group(export, op),
	                    .cpu = goal_cpu(goal, op->stream)};
	m.size =
		(uint32_t)(m.group ? export->groups.members.at[m.group - 1].count : export->groups.world);
	while (m.place < m.size && goal_member(export, &m, m.place) != export->rank) m.place++;
	unsigned long long id = node->id;
	lk_sink_printf(goal->out, "b%llu: calc 0 cpu %d\nl%llu: calc 0 cpu %d\nl%llu requires b%llu\n",
	               id, m.cpu, id, m.cpu, id, id);
	for (size_t i = 0; i < node->dep_count; i++)
		lk_sink_printf(goal->out, "b%llu requires l%llu\n", id, (unsigned long long)node->deps[i]);
	uint64_t *previous = &goal->previous.at[m.group];
	if (*previous)
		lk_sink_printf(goal->out, "b%llu requires l%llu\n", id, (unsigned long long)*previous);
	*previous = node->id;
	if (op->kind == LK_OP_ALLREDUCE) goal_ring(goal, export, &m, 2 * (m.size - 1));
	else if (op->kind == LK_OP_ALLTOALL) goal_exchange(goal, export, &m);
	else if (op->kind == LK_OP_BROADCAST) goal_broadcast(goal, export, &m);
	else goal_ring(goal, export, &m, m.size - 1);
}

/* ---- nodes ---- */

static lk_status goal_put(lk_export *export, const lk_export_node *node) {
	struct goal *goal = export->context;
	const lk_op *op = node->op;
	unsigned long long id = node->id;
	if (lk_op_is_collective(op->kind)) return goal_collective(goal, export, node), LK_OK;
	if (op->kind == LK_OP_SEND || op->kind == LK_OP_RECV) {
		lk_export_message to = lk_export_peer(export, op);
		uint64_t bytes = lk_export_whole(op->bytes);
		lk_sink_printf(
			goal->out, "l%llu: %s %llub %s %u tag %u cpu %d\n", id,
			op->kind == LK_OP_SEND ? "send" : "recv", (unsigned long long)(bytes ? bytes : 1),
			op->kind == LK_OP_SEND ? "to" : "from", to.peer, to.tag, goal_cpu(goal, op->stream));
	} else {
		const lk_chakra_options *times = goal->times;
		double ps = op->measured_ps > 0
		                ? (double)op->measured_ps
		                : times->time(times->context, export->stage, export->chain, node->at);
		lk_sink_printf(goal->out, "l%llu: calc %llu cpu %d\n", id,
		               (unsigned long long)lk_export_whole(ps), goal_cpu(goal, op->stream));
	}
	for (size_t i = 0; i < node->dep_count; i++)
		lk_sink_printf(goal->out, "l%llu requires l%llu\n", id, (unsigned long long)node->deps[i]);
	return LK_OK;
}

/* The first way through a rank: how long the file becomes. */
static lk_status goal_count(lk_export *export, const lk_export_node *node) {
	struct goal *goal = export->context;
	goal->lines += 1 + (double)node->dep_count;
	if (lk_op_is_collective(node->op->kind)) {
		double n = (double)lk_export_group_size(export->graph, node->op);
		goal->lines += 12 * n;
	}
	if (goal->lines <= MOST_LINES) return LK_OK;
	lk_fail(export->err, LK_ERR_INPUT, export->what,
	        "the step has more than %.3g messages and operations on all ranks together, too many "
	        "to write out",
	        MOST_LINES);
	return lk_hint(export->err, "give fewer ranks or micro-batches");
}

/* ---- file ---- */

/* LogGOPSim's parameters are whole numbers, and the same between all ranks: those of the slowest
 * level of the cluster that the ranks reach. */
static void goal_put_machine(struct goal *goal, const lk_export *export) {
	const lk_graph *graph = export->graph;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster;
	lk_export_level levels[2];
	if (graph->cluster &&
	    lk_cluster_parse_text(&arena, lk_intern_text(graph->names, graph->cluster), &cluster,
	                          NULL) == LK_OK) {
		int count = lk_export_levels(&cluster, export->groups.world, levels);
		const lk_export_level *slowest = &levels[count - 1];
		double gap = 1e12 / slowest->rate;
		lk_sink_printf(goal->out,
		               "// txt2bin -i FILE -o step.bin; LogGOPSim -f step.bin -L %.0f -o 0 -g 0 "
		               "-G %.0f -O 0\n",
		               slowest->latency_ns * 1e3, gap < 1 ? 1 : gap);
	}
	lk_arena_free(&arena);
}

static lk_status goal_write_ranks(lk_export *export) {
	struct goal *goal = export->context;
	lk_sink_printf(goal->out, "// lockstep: one training step; times in ps\n");
	goal_put_machine(goal, export);
	lk_sink_printf(goal->out, "num_ranks %llu\n", (unsigned long long)export->groups.world);
	for (uint64_t i = 0; i < export->groups.world; i++) {
		lk_export_turn(export, i);
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
	lk_vec_free(&goal.previous);
	return status;
}
