/* host_collective.c: collectives on the host, in the alpha-beta-gamma model of Thakur, Rabenseifner
 * and Gropp (Int. J. High Performance Computing Applications 19(1), 2005). p ranks, n bytes, d =
 * ceil(log2 p) rounds:
 *
 *     binomial tree        d (a + n b)                        broadcast; reduce adds n g per round
 *     recursive doubling   d (a + n b + n g)                  all-reduce
 *     Rabenseifner         2 d a + 2 (p-1)/p n b + (p-1)/p n g   all-reduce, reduce: halving, then
 *                          doubling
 *     ring                 (p-1) (a + n/p b) per pass         two passes in all-reduce, the first
 *                          one reduces
 *     doubling, halving    d a + (p-1)/p n b                  all-gather; reduce-scatter adds
 *                          (p-1)/p n g
 *     scatter, all-gather  (d + p-1) a + 2 (p-1)/p n b        broadcast of long messages
 *     Bruck                d (a + n/2 b)                      all-to-all of short messages
 *     pairwise             (p-1) (a + n/p b)                  all-to-all
 *
 * Round i of a hypercube pairs ranks at distance 2^i: at distances of a node's ranks or more every
 * rank's message leaves the node, and they share its NICs. A ring leaves a node once per round. MPI
 * libraries have all of these, gloo a few. Each library is assumed to run the fastest one that it
 * has. */
#include <math.h>
#include <stddef.h>

#include "cost/collective/nccl.h"

lk_host_links lk_host_links_of(lk_host_library library, const lk_group_shape *group) {
	const lk_node *node = group->node;
	double sharing = group->sharing > 1 ? group->sharing : 1;
	double over = group->oversubscription > 1 ? group->oversubscription : 1;
	double nics = fmax(node->nics, 1) / sharing * 1e9 * lk_link_rate_of(node->nic_rate) / over;
	bool mpi = library == LK_HOST_MPI;
	/* MPI: eager messages through shared memory and RDMA; gloo: TCP sockets everywhere. */
	return (lk_host_links){
		.alpha = {mpi ? .5e-6 : 12e-6, (mpi ? 2e-6 : 25e-6) + fmax(node->nic_latency_s, 0)},
		.beta = {mpi ? 1 / 10e9 : 1 / 5e9, 1 / (nics * (mpi ? .9 : .6))},
		.gamma = 1 / 10e9,
	};
}

struct job {
	lk_host_links links;
	const lk_host_messages *messages; /* used instead of the links if measured; may be NULL */
	double p, ppn, n;
	double sharing; /* groups that leave a node at the same time */
	int rounds;
};

struct cost {
	double wait, move; /* messages; bytes */
};

static struct cost collective_sum(struct cost a, struct cost b) {
	return (struct cost){a.wait + b.wait, a.move + b.move};
}

/* Messages of `bytes`, one or both ways; messages that share a NIC go one after another. */
static struct cost collective_move(const struct job *job, bool leaves, double bytes, double share,
                                   bool both) {
	const lk_message_times *times;
	if (!job->messages) times = NULL;
	else if (leaves) times = &job->messages->between;
	else times = &job->messages->inside;
	if (!times || !times->count)
		return (struct cost){job->links.alpha[leaves], bytes * job->links.beta[leaves] * share};
	double first = lk_message_seconds(times, 1, both),
		   all = bytes * share * (leaves ? job->sharing : 1);
	return (struct cost){first, lk_message_seconds(times, all, both) - first};
}

/* One round in which every rank sends `bytes` to the rank at this distance. */
static struct cost collective_exchange(const struct job *job, double distance, double bytes) {
	bool leaves = distance >= job->ppn;
	return collective_move(job, leaves, bytes, leaves ? job->ppn : 1, true);
}

/* A round of a ring: as slow as its slowest hop; one hop per node leaves it. */
static struct cost hop(const struct job *job, double bytes) {
	bool leaves = job->p > job->ppn;
	struct cost inside = collective_move(job, false, bytes, 1, true),
				outside = collective_move(job, true, bytes, 1, true);
	if (!leaves) return inside;
	return (struct cost){outside.wait, fmax(inside.move, outside.move)};
}

static struct cost ring_pass(const struct job *job) {
	struct cost one = hop(job, job->n / job->p);
	return (struct cost){(job->p - 1) * one.wait, (job->p - 1) * one.move};
}

static struct cost reducing(const struct job *job, double bytes) {
	return (struct cost){0, bytes * job->links.gamma};
}

/* All n bytes in every round. */
static struct cost full_rounds(const struct job *job, double bytes) {
	struct cost all = {0, 0};
	for (int i = 0; i < job->rounds; i++)
		all = collective_sum(all, collective_exchange(job, ldexp(1, i), bytes));
	return all;
}

/* Likewise one way: down a tree, or up. */
static struct cost tree_rounds(const struct job *job, double bytes) {
	struct cost all = {0, 0};
	for (int i = 0; i < job->rounds; i++) {
		bool leaves = ldexp(1, i) >= job->ppn;
		all =
			collective_sum(all, collective_move(job, leaves, bytes, leaves ? job->ppn : 1, false));
	}
	return all;
}

/* Rounds of n/2, n/4, ...: the distant partners get the small parts. */
static struct cost halving(const struct job *job) {
	struct cost all = {0, 0};
	double left = job->n * (job->p - 1) / job->p, part = job->n / 2;
	for (int i = 0; i < job->rounds; i++, part /= 2) {
		double bytes = i == job->rounds - 1 ? left : fmin(part, left);
		all = collective_sum(all, collective_exchange(job, ldexp(1, i), bytes));
		left -= bytes;
	}
	return all;
}

static struct cost binomial(const struct job *job) {
	return tree_rounds(job, job->n);
}

static struct cost binomial_reduce(const struct job *job) {
	return collective_sum(tree_rounds(job, job->n), reducing(job, job->n * job->rounds));
}

static struct cost recursive_doubling(const struct job *job) {
	return collective_sum(full_rounds(job, job->n), reducing(job, job->n * job->rounds));
}

static struct cost rabenseifner(const struct job *job) {
	return collective_sum(collective_sum(halving(job), halving(job)),
	                      reducing(job, job->n * (job->p - 1) / job->p));
}

static struct cost two_passes(const struct job *job) {
	return collective_sum(collective_sum(ring_pass(job), ring_pass(job)),
	                      reducing(job, job->n * (job->p - 1) / job->p));
}

static struct cost reducing_pass(const struct job *job) {
	return collective_sum(ring_pass(job), reducing(job, job->n * (job->p - 1) / job->p));
}

static struct cost reducing_halving(const struct job *job) {
	return collective_sum(halving(job), reducing(job, job->n * (job->p - 1) / job->p));
}

static struct cost scatter_gather(const struct job *job) {
	return collective_sum(halving(job), ring_pass(job));
}

static struct cost bruck(const struct job *job) {
	return full_rounds(job, job->n / 2);
}

/* All ranks of a node send to other nodes in most rounds. */
static struct cost pairwise(const struct job *job) {
	double near = job->ppn - 1, far = job->p - job->ppn, each = job->n / job->p;
	struct cost inside = collective_exchange(job, 0, each),
				outside = collective_exchange(job, job->ppn, each);
	return (struct cost){near * inside.wait + far * outside.wait,
	                     near * inside.move + far * outside.move};
}

static struct cost collective_message(const struct job *job) {
	bool leaves = job->p > job->ppn;
	return collective_move(job, leaves, job->n, 1, false);
}

enum { MPI = 1 << LK_HOST_MPI, GLOO = 1 << LK_HOST_GLOO };

static const struct {
	lk_coll_kind kind;
	const char *name;
	unsigned libraries;
	struct cost (*cost)(const struct job *);
} algorithms[] = {
	{LK_COLL_ALLREDUCE, "recursive doubling", MPI, recursive_doubling},
	{LK_COLL_ALLREDUCE, "Rabenseifner", MPI | GLOO, rabenseifner},
	{LK_COLL_ALLREDUCE, "ring", MPI | GLOO, two_passes},
	{LK_COLL_ALLGATHER, "recursive doubling", MPI, halving},
	{LK_COLL_ALLGATHER, "ring", MPI | GLOO, ring_pass},
	{LK_COLL_REDUCESCATTER, "recursive halving", MPI | GLOO, reducing_halving},
	{LK_COLL_REDUCESCATTER, "ring", MPI, reducing_pass},
	{LK_COLL_ALLTOALL, "Bruck", MPI, bruck},
	{LK_COLL_ALLTOALL, "pairwise", MPI | GLOO, pairwise},
	{LK_COLL_BROADCAST, "binomial", MPI | GLOO, binomial},
	{LK_COLL_BROADCAST, "scatter + all-gather", MPI, scatter_gather},
	{LK_COLL_REDUCE, "binomial", MPI, binomial_reduce},
	{LK_COLL_REDUCE, "Rabenseifner", MPI, rabenseifner},
	{LK_COLL_REDUCE, "ring", GLOO, two_passes},
	{LK_COLL_SENDRECV, "message", MPI | GLOO, collective_message},
};

static lk_host_cost fastest(lk_host_library library, const lk_host_messages *messages,
                            lk_coll_kind kind, const lk_group_shape *group, double bytes) {
	lk_host_cost best = {0, "", true};
	if (group->ranks < 2 || !(bytes > 0)) return best;
	double p = kind == LK_COLL_SENDRECV ? 2 : group->ranks,
		   nodes = group->nodes > 1 ? fmin(group->nodes, p) : 1;
	struct job j = {lk_host_links_of(library, group),
	                messages,
	                p,
	                p / nodes,
	                fmin(bytes, 1e18),
	                fmax(group->sharing, 1),
	                (int)ceil(log2(p) - 1e-9)};
	best.seconds = INFINITY;
	for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
		if (algorithms[i].kind != kind || !(algorithms[i].libraries & (1u << library))) continue;
		struct cost c = algorithms[i].cost(&j);
		if (c.wait + c.move >= best.seconds) continue;
		best = (lk_host_cost){c.wait + c.move, algorithms[i].name, c.wait > c.move};
	}
	return best;
}

lk_host_cost lk_host_collective(lk_host_library library, lk_coll_kind kind,
                                const lk_group_shape *group, double bytes) {
	return fastest(library, NULL, kind, group, bytes);
}

/* Ratio of the library's measured time to the algorithm's. 1: not measured. */
static double library_share(const lk_host_messages *messages, lk_coll_kind kind,
                            const lk_group_shape *group, double bytes, bool behind) {
	const lk_collective_times *times = messages ? &messages->collective[kind] : NULL;
	if (!times || !times->count) return 1;
	lk_group_shape there = *group;
	there.ranks = times->ranks;
	there.nodes = times->nodes;
	there.sharing = 1;
	there.ranks_per_node = (times->ranks + times->nodes - 1) / times->nodes;
	return lk_collective_seconds(times, bytes, behind) /
	       fastest(LK_HOST_MPI, messages, kind, &there, bytes).seconds;
}

lk_host_cost lk_host_collective_measured(const lk_host_messages *messages, lk_coll_kind kind,
                                         const lk_group_shape *group, double bytes, bool behind) {
	lk_host_cost all = fastest(LK_HOST_MPI, messages, kind, group, bytes);
	if (all.seconds > 0) all.seconds *= library_share(messages, kind, group, bytes, behind);
	return all;
}
