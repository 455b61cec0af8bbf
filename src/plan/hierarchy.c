/* hierarchy.c: the cost of a way to aggregate over a tree.
 *
 * Clients take `every` steps by themselves; then a node averages its children's weights and sends
 * the mean back (FedAvg; over levels HierFAVG, arXiv 1905.06641). A node of period K whose children
 * have period k waits for K/k of their rounds; the last one ends at the aggregate, because the
 * weights sent back are the node's own. A node receives weights one after another at its own rate,
 * in order of arrival, each at the pace of the child's link; it sends them first to the child with
 * the longest remaining path. If children have links between them (fog learning, arXiv 2006.03594)
 * they may instead exchange with their neighbours, `rounds` times, by Metropolis' weights; then one
 * of them sends for all when the level above aggregates.
 *
 * Steps vary: times are normal variables, K steps have K times the variance, and the later of two
 * has the moments of Clark (The greatest of a finite set of random variables, 1961).
 *
 * Drift: every step moves a client's weights by noise of variance 1, and by skew^(1/2) along a
 * direction of its own. Between aggregations children of a node move apart from its mean with the
 * sum of their variances less that of the mean; averaged over a period of K steps that is (K-1)/2
 * steps, and (K-1)(2K-1)/6 times skew. */
#include <math.h>

#include "base/check.h"
#include "base/sort.h"
#include "plan/hierarchy.h"

static const double pi = 3.14159265358979323846;

/* A child's aggregate: when it can leave, and how much longer its link takes than the parent. */
struct lk_hierarchy_arrival {
	lk_moments at;
	double rest; /* time remaining after it; determines the order of sending back */
};

static lk_moments tree_later(lk_moments a, lk_moments b) {
	double deviation = sqrt(a.variance + b.variance);
	if (deviation == 0) return a.mean > b.mean ? a : b;
	double apart = (a.mean - b.mean) / deviation;
	double density = exp(-apart * apart / 2) / sqrt(2 * pi);
	double first = erfc(-apart / sqrt(2)) / 2;
	double mean = a.mean * first + b.mean * (1 - first) + deviation * density;
	double square = (a.mean * a.mean + a.variance) * first +
	                (b.mean * b.mean + b.variance) * (1 - first) +
	                (a.mean + b.mean) * deviation * density;
	return (lk_moments){mean, fmax(0, square - mean * mean)};
}

/* Time of a child's weights at its parent, and how much longer the link takes. */
static double tree_served_s(const lk_hierarchy *tree, const lk_hierarchy_node *parent) {
	return parent->ingress > 0 ? tree->bytes / parent->ingress : 0;
}

static double tree_lag_s(const lk_hierarchy *tree, const lk_hierarchy_node *child) {
	double served_s = tree_served_s(tree, &tree->nodes[child->parent]);
	return child->latency_s + fmax(0, tree->bytes / child->bytes_per_s - served_s);
}

static bool tree_takes_part(const lk_hierarchy_walk *walk, int node) {
	return walk->tree->nodes[node].children ? walk->active[node] > 0 : !walk->out[node];
}

static bool tree_gossips(const lk_hierarchy_walk *walk, int node) {
	const lk_hierarchy_node *at = &walk->tree->nodes[node];
	return walk->way.rounds[at->level] > 0 && at->peer_bytes_per_s > 0 && walk->active[node] > 1;
}

static int tree_neighbours(const lk_hierarchy_walk *walk, int node) {
	int others = walk->active[node] - 1;
	return walk->tree->nodes[node].ring && others > 2 ? 2 : others;
}

LK_ORDER_BY(by_arrival, struct lk_hierarchy_arrival, at.mean)

static int by_rest(const void *a, const void *b) {
	const struct lk_hierarchy_arrival *x = a, *y = b;
	return (x->rest < y->rest) - (x->rest > y->rest);
}

/* Time from a node's new weights to the last of its clients. */
static double tree_down_s(lk_hierarchy_walk *walk, int node) {
	const lk_hierarchy_node *at = &walk->tree->nodes[node];
	double served_s = tree_served_s(walk->tree, at), last_s = 0;
	int count = 0;
	for (int c = at->first; c < at->first + at->children; c++)
		if (tree_takes_part(walk, c))
			walk->arrivals[count++].rest =
				tree_lag_s(walk->tree, &walk->tree->nodes[c]) + walk->down[c];
	lk_sort(walk->arrivals, (size_t)count, sizeof *walk->arrivals, by_rest);
	for (int i = 0; i < count; i++)
		last_s = fmax(last_s, (i + 1) * served_s + walk->arrivals[i].rest);
	return last_s;
}

void lk_hierarchy_walk_count(lk_hierarchy_walk *walk) {
	const lk_hierarchy *tree = walk->tree;
	for (int l = 0; l < tree->levels; l++) walk->apart[l] = 0;
	for (int n = tree->count - 1; n >= 0; n--) {
		const lk_hierarchy_node *at = &tree->nodes[n];
		walk->batch[n] = at->children || walk->out[n] ? 0 : at->batch;
		walk->noise[n] = 1;
		walk->active[n] = 0;
		if (!at->children) continue;
		for (int c = at->first; c < at->first + at->children; c++) {
			walk->active[n] += tree_takes_part(walk, c);
			walk->batch[n] += walk->batch[c];
		}
		if (!walk->active[n]) continue;
		double of_children = 0, of_mean = 0;
		for (int c = at->first; c < at->first + at->children; c++) {
			double share = walk->batch[c] / walk->batch[n];
			of_children += share * walk->noise[c];
			of_mean += share * share * walk->noise[c];
		}
		walk->noise[n] = of_mean;
		walk->apart[at->level] += walk->batch[n] * (of_children - of_mean);
		walk->down[n] = tree_down_s(walk, n);
	}
	for (int l = 0; l < tree->levels; l++) walk->apart[l] /= fmax(walk->batch[0], 1e-300);
}

lk_status lk_hierarchy_walk_make(const lk_hierarchy *tree, lk_arena *arena, lk_hierarchy_walk *walk,
                                 lk_error *err) {
	size_t count = (size_t)tree->count;
	*walk = (lk_hierarchy_walk){.tree = tree,
	                            .out = LK_ARRAY(arena, bool, count),
	                            .ready = LK_ARRAY(arena, lk_moments, count),
	                            .period = LK_ARRAY(arena, lk_moments, count),
	                            .down = LK_ARRAY(arena, double, count),
	                            .batch = LK_ARRAY(arena, double, count),
	                            .noise = LK_ARRAY(arena, double, count),
	                            .active = LK_ARRAY(arena, int, count),
	                            .order = LK_ARRAY(arena, int, count),
	                            .arrivals = LK_ARRAY(arena, struct lk_hierarchy_arrival, count)};
	if (!walk->out || !walk->ready || !walk->period || !walk->down || !walk->batch ||
	    !walk->noise || !walk->active || !walk->order || !walk->arrivals)
		return lk_oom(err);
	lk_hierarchy_walk_count(walk);
	return LK_OK;
}

/* When a child's part of the aggregate is ready, from the start of the parent's period. */
static lk_moments tree_child_ready(const lk_hierarchy_walk *walk, int child) {
	const lk_hierarchy *tree = walk->tree;
	const lk_hierarchy_node *at = &tree->nodes[child];
	double every = walk->way.every[at->level - 1];
	if (!at->children) {
		double deviation_s = tree->spread * at->step_s;
		return (lk_moments){every * at->step_s, every * deviation_s * deviation_s};
	}
	double before = every / walk->way.every[at->level] - 1;
	lk_moments ready = walk->ready[child], period = walk->period[child];
	return (lk_moments){before * period.mean + ready.mean,
	                    before * period.variance + ready.variance};
}

/* Children exchange among themselves; any one of them sends for the group. */
static void tree_gossip(lk_hierarchy_walk *walk, int node) {
	const lk_hierarchy *tree = walk->tree;
	const lk_hierarchy_node *at = &tree->nodes[node];
	lk_moments done = {-INFINITY, 0};
	double up_s = 0, down_s = 0;
	for (int c = at->first; c < at->first + at->children; c++) {
		if (!tree_takes_part(walk, c)) continue;
		lk_moments ready = tree_child_ready(walk, c);
		done = done.mean == -INFINITY ? ready : tree_later(done, ready);
		up_s += (tree->nodes[c].latency_s + tree->bytes / tree->nodes[c].bytes_per_s) /
		        walk->active[node];
		down_s = fmax(down_s, walk->down[c]);
	}
	done.mean +=
		walk->way.rounds[at->level] *
		(at->peer_latency_s + tree_neighbours(walk, node) * tree->bytes / at->peer_bytes_per_s);
	walk->period[node] = (lk_moments){done.mean + down_s, done.variance};
	walk->ready[node] = (lk_moments){done.mean + up_s, done.variance};
}

/* Children send to the node, which sends the mean back. */
static void tree_gather(lk_hierarchy_walk *walk, int node) {
	const lk_hierarchy_node *at = &walk->tree->nodes[node];
	double served_s = tree_served_s(walk->tree, at);
	int count = 0;
	for (int c = at->first; c < at->first + at->children; c++) {
		if (!tree_takes_part(walk, c)) continue;
		lk_moments ready = tree_child_ready(walk, c);
		ready.mean += tree_lag_s(walk->tree, &walk->tree->nodes[c]);
		walk->arrivals[count++].at = ready;
	}
	lk_sort(walk->arrivals, (size_t)count, sizeof *walk->arrivals, by_arrival);
	lk_moments done = walk->arrivals[0].at;
	done.mean += served_s;
	for (int i = 1; i < count; i++) {
		done = tree_later(done, walk->arrivals[i].at);
		done.mean += served_s;
	}
	walk->ready[node] = done;
	walk->period[node] = (lk_moments){done.mean + walk->down[node], done.variance};
}

double lk_hierarchy_apart(const lk_hierarchy *tree, double every) {
	return (every - 1) / 2 + tree->skew * (every - 1) * (2 * every - 1) / 6;
}

/* Steps by which members remain apart after the rounds of each period, in the long run. A share m =
 * l^rounds of earlier distance remains, for each eigenvalue l of the weights but the largest: on a
 * ring they are 1/3 + 2/3 cos(2 pi i / n); if all exchange with all they are 0. `while_apart`: what
 * the skew of a period adds until the next. */
static double tree_left_apart(const lk_hierarchy_walk *walk, int node, double *while_apart) {
	int members = walk->active[node], rounds = walk->way.rounds[walk->tree->nodes[node].level];
	double every = walk->way.every[walk->tree->nodes[node].level], skew = walk->tree->skew;
	double left = 0;
	*while_apart = 0;
	if (tree_neighbours(walk, node) == members - 1) return 0;
	for (int i = 1; i < members; i++) {
		double stays = pow((1 + 2 * cos(2 * pi * i / members)) / 3, rounds);
		double along = stays * every / (1 - stays);
		left +=
			(stays * stays * every / (1 - stays * stays) + skew * along * along) / (members - 1);
		*while_apart += skew * along * (every - 1) / (members - 1);
	}
	return left;
}

/* Drift of a level's gossiping groups beyond its period, and of a sampled member from the mean that
 * it is sent for. */
static double tree_gossip_drift(const lk_hierarchy_walk *walk, int node) {
	const lk_hierarchy_node *at = &walk->tree->nodes[node];
	double while_apart, share = walk->batch[node] / walk->batch[0], of_children = 0;
	for (int c = at->first; c < at->first + at->children; c++)
		of_children += walk->batch[c] / walk->batch[node] * walk->noise[c];
	double left = tree_left_apart(walk, node, &while_apart);
	double sampled = node > 0 ? share * left : 0;
	return share * (of_children - walk->noise[node]) * (left + while_apart + sampled);
}

void lk_hierarchy_walk_level(lk_hierarchy_walk *walk, int level) {
	const lk_hierarchy *tree = walk->tree;
	lk_hierarchy_level *sums = &walk->levels[level];
	*sums = (lk_hierarchy_level){.drift = walk->apart[level] *
	                                      lk_hierarchy_apart(tree, walk->way.every[level])};
	for (int n = tree->starts[level]; n < tree->starts[level + 1]; n++) {
		if (!tree->nodes[n].children || !walk->active[n]) continue;
		double members = walk->active[n];
		if (tree_gossips(walk, n)) {
			tree_gossip(walk, n);
			sums->bytes +=
				members * tree_neighbours(walk, n) * walk->way.rounds[level] * tree->bytes;
			if (n > 0) sums->bytes_up += (1 + members) * tree->bytes;
			sums->drift += tree_gossip_drift(walk, n);
		} else {
			tree_gather(walk, n);
			sums->bytes += 2 * members * tree->bytes;
		}
	}
}

lk_hierarchy_cost lk_hierarchy_walk_cost(const lk_hierarchy_walk *walk) {
	lk_hierarchy_cost cost = {.step_s = walk->period[0].mean / walk->way.every[0],
	                          .samples = walk->batch[0] * (1 - walk->tree->drop)};
	for (int l = 0; l < walk->tree->levels; l++) {
		cost.bytes += walk->levels[l].bytes / walk->way.every[l];
		if (l > 0) cost.bytes += walk->levels[l].bytes_up / walk->way.every[l - 1];
		cost.drift += walk->levels[l].drift;
	}
	return cost;
}

lk_hierarchy_cost lk_hierarchy_walk_all(lk_hierarchy_walk *walk) {
	for (int l = walk->tree->levels - 1; l >= 0; l--) lk_hierarchy_walk_level(walk, l);
	return lk_hierarchy_walk_cost(walk);
}

int lk_hierarchy_walk_last(lk_hierarchy_walk *walk) {
	const lk_hierarchy *tree = walk->tree;
	int node = 0;
	while (tree->nodes[node].children) {
		const lk_hierarchy_node *at = &tree->nodes[node];
		double latest_s = -INFINITY;
		int last = at->first;
		for (int c = at->first; c < at->first + at->children; c++) {
			if (!tree_takes_part(walk, c)) continue;
			double ready_s = tree_child_ready(walk, c).mean + 2 * tree_lag_s(tree, &tree->nodes[c]);
			if (tree->nodes[c].children) ready_s += walk->down[c];
			if (ready_s > latest_s) latest_s = ready_s, last = c;
		}
		LK_ASSERT(latest_s > -INFINITY);
		node = last;
	}
	return node;
}
