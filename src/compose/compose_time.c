/* compose_time.c: times of MPI and NCCL communication on the cluster, and the contention of ranks
 * on one machine. Ranks are placed in order, with a fixed number per node. Formulas:
 * docs/method/stalls.md, "Composing a job". */
#include <math.h>

#include "base/arena.h"
#include "base/noun.h"
#include "compose/compose.h"
#include "cost/collective/collective.h"

static int node_of_rank(const lk_composer *composer, int32_t rank) {
	LK_ASSERT(composer->ranks_per_node > 0 && rank >= 0 && rank < composer->world);
	return rank / composer->ranks_per_node;
}

/* A group in the network: its nodes, and how many of its kind leave a node at the same time,
 * assuming that all ranks of a node do alike. */
static lk_group_shape group_shape_of(const lk_composer *composer, const int32_t *ranks,
                                     int32_t size) {
	LK_ASSERT(size > 0);
	int nodes = 0, low = node_of_rank(composer, ranks[0]), high = low, last = -1;
	for (int32_t i = 0; i < size; i++) {
		int node = node_of_rank(composer, ranks[i]);
		nodes += node != last; /* lists are nearly always in runs by node; otherwise too many are
		                          counted, at most the ranks */
		last = node;
		if (node < low) low = node;
		if (node > high) high = node;
	}
	if (nodes > high - low + 1) nodes = high - low + 1;
	int each = (size + nodes - 1) / nodes,
		sharing = nodes > 1 ? (composer->ranks_per_node + each - 1) / each : 1;
	return (lk_group_shape){.node = &composer->cluster.node[0],
	                        .ranks = size,
	                        .nodes = nodes,
	                        .ranks_per_node = each,
	                        .sharing = sharing,
	                        .oversubscription = composer->cluster.oversubscription};
}

static lk_coll_kind collective_kind_of(unsigned what) {
	switch (what) {
	case LK_WHAT_REDUCE: return LK_COLL_REDUCE;
	case LK_WHAT_BROADCAST: return LK_COLL_BROADCAST;
	case LK_WHAT_ALLGATHER: return LK_COLL_ALLGATHER;
	/* a root that receives, or sends, everything: its link carries as much as in an all-gather */
	case LK_WHAT_GATHER:
	case LK_WHAT_SCATTER: return LK_COLL_ALLGATHER;
	case LK_WHAT_REDUCESCATTER: return LK_COLL_REDUCESCATTER;
	case LK_WHAT_ALLTOALL: return LK_COLL_ALLTOALL;
	default: return LK_COLL_ALLREDUCE;
	}
}

/* Ranks exceeding the cores of their machine take turns. */
static double turns_on_cores(const lk_device *device, double ranks) {
	return device->arch == LK_ARCH_CPU && device->sms > 0 ? fmax(1, ranks / device->sms) : 1;
}

static int ranks_sharing_machine(const lk_composer *composer) {
	return composer->request->shared ? composer->request->shared : composer->ranks_per_node;
}

/* Work of ranks for a collective inside a machine (copying, adding, polling) takes processors. All
 * ranks of the machine are in such a call at the same time, so that work takes turns as well; turns
 * at the time of measurement are already in its time. */
static double collective_turns(const lk_composer *composer, lk_coll_kind kind,
                               const lk_group_shape *shape) {
	const lk_device *device = composer->cluster.node[0].device;
	const lk_collective_times *measured = &composer->messages.collective[kind];
	double each = measured->count && measured->nodes > 0
	                  ? ceil((double)measured->ranks / measured->nodes)
	                  : 1;
	if (shape->nodes > 1) return 1;
	return fmax(1, turns_on_cores(device, ranks_sharing_machine(composer)) /
	                   turns_on_cores(device, each));
}

/* Messages of MPI may have been measured, those of gloo are not. */
static double host_collective_s(const lk_composer *composer, lk_coll_kind kind,
                                const lk_group_shape *shape, double bytes, bool after_another) {
	if (composer->torch) return lk_host_collective(LK_HOST_GLOO, kind, shape, bytes).seconds;
	return lk_host_collective_measured(&composer->messages, kind, shape, bytes, after_another)
	    .seconds;
}

double lk_compose_collective_s(const lk_composer *composer, const lk_emulated_item *item,
                               const int32_t *ranks, int32_t size, bool after_another) {
	/* a barrier, or a collective without bytes, is an empty all-reduce */
	double bytes = item->bytes > 0 ? (double)item->bytes : 1;
	if (size < 2) return 0;
	lk_group_shape shape = group_shape_of(composer, ranks, size);
	lk_coll_kind kind = collective_kind_of(item->what);
	double alone = host_collective_s(composer, kind, &shape, bytes, after_another);
	return alone * collective_turns(composer, kind, &shape);
}

double lk_compose_message_s(const lk_composer *composer, int32_t from, int32_t to, double bytes) {
	LK_ASSERT(from != to && bytes >= 0);
	int32_t pair[2] = {from, to};
	lk_group_shape shape = group_shape_of(composer, pair, 2);
	shape.sharing = 1;
	return host_collective_s(composer, LK_COLL_SENDRECV, &shape, fmax(bytes, 1), false);
}

double lk_compose_nccl_s(const lk_composer *composer, const lk_emulated_item *item,
                         const int32_t *ranks, int32_t size) {
	if (size < 2) return 0;
	lk_group_shape shape = group_shape_of(composer, ranks, size);
	return lk_collective_cost(collective_kind_of(item->what), &shape, fmax((double)item->bytes, 1))
	    .seconds;
}

/* All ranks of a node are assumed to send at the same time, as everywhere for messages of GPUs. */
double lk_compose_nccl_message_s(const lk_composer *composer, int32_t from, int32_t to,
                                 double bytes) {
	LK_ASSERT(from != to && bytes >= 0);
	int32_t pair[2] = {from < to ? from : to, from < to ? to : from};
	lk_group_shape shape = group_shape_of(composer, pair, 2);
	return lk_p2p_cost(shape.node, shape.nodes < 2, shape.sharing, shape.oversubscription, NULL,
	                   NULL, fmax(bytes, 1))
	    .seconds;
}

void lk_compose_contention(lk_composer *composer, double *low, double *high, const char **why) {
	const lk_device *device = composer->cluster.node[0].device;
	int shared = ranks_sharing_machine(composer), cores = device->sms;
	*low = *high = 1;
	*why = NULL;
	if (device->arch != LK_ARCH_CPU || shared < 2) return;
	double turns = turns_on_cores(device, shared);
	/* if memory is the limit, each gets its share of the rate of all cores together; one core alone
	 * streams one_core */
	double busy = cores > 0 ? fmin(shared, cores) : shared,
		   one_core = composer->messages.one_core_rate, all = device->stream_rate;
	double memory = one_core > 0 && all > 0 ? fmax(1, busy * one_core / all) : 1;
	double share = composer->request->memory_bound;
	*low = turns * (share >= 0 ? 1 + share * (memory - 1) : 1);
	*high = turns * (share >= 0 ? 1 + share * (memory - 1) : memory);
	*why = lk_arena_printf(&composer->arena,
	                       "%d %s a machine of %d %s: computing takes %.2f to %.2f times as long",
	                       shared, lk_noun(shared, "rank shares", "ranks share"), cores,
	                       lk_noun(cores, "core", "cores"), *low, *high);
}
