/* hierarchy_choose.c: chooses a way to aggregate: who takes part, how often each level aggregates,
 * how many rounds of gossip its groups do.
 *
 * Of the ways that meet the wished rate and bytes it takes the one with the least drift. Longer
 * periods are faster, send less and drift more. Given the periods of the levels below, the root's
 * is the shortest that meets the wish, found by bisection; those below are tried in order until
 * their own drift is no better than the best known. That is exact for the clients that take part.
 * Who is left out is a greedy choice, one after another as long as enough take part: of up to 64
 * clients the one without whom the rest does best, of more the one that the root waits for
 * longest. */
#include <math.h>
#include <string.h>

#include "plan/hierarchy.h"

enum {
	MOST_ROUNDS = 32,
	MOST_TRIED = 64 /* clients up to which leaving out each one is tried */
};

struct tree_search {
	lk_hierarchy_walk *walk;
	const lk_hierarchy_wish *wish;
	double limit;  /* only ways with less drift are of interest */
	bool possible; /* some way meets the wish */
	bool found;    /* ... with less drift than the limit */
	lk_hierarchy_way best;
	lk_hierarchy_cost cost;
};

bool lk_hierarchy_keeps(const lk_hierarchy_cost *cost, const lk_hierarchy_wish *wish) {
	double slack = 1 + 1e-12;
	return cost->bytes <= wish->bytes * cost->samples * slack &&
	       cost->samples * slack >= wish->rate * cost->step_s;
}

static double tree_known(const struct tree_search *search) {
	return search->found ? search->cost.drift : search->limit;
}

static void tree_keep(struct tree_search *search, const lk_hierarchy_cost *cost) {
	bool faster =
		search->found && cost->drift == search->cost.drift && cost->step_s < search->cost.step_s;
	search->possible = true;
	if (cost->drift >= tree_known(search) && !faster) return;
	search->found = true;
	search->cost = *cost;
	search->best = search->walk->way;
}

/* The next useful number of rounds on a level: 0, and powers of two if any of its nodes has links
 * between its children. */
static int tree_next_rounds(const lk_hierarchy *tree, int level, int rounds) {
	if (rounds > 0) return 2 * rounds;
	for (int n = tree->starts[level]; n < tree->starts[level + 1]; n++)
		if (tree->nodes[n].peer_bytes_per_s > 0) return 1;
	return MOST_ROUNDS + 1;
}

/* Whether levels [0, level] meet the wish with this period for all. */
static bool tree_keeps_at(struct tree_search *search, int level, int every,
                          lk_hierarchy_cost *cost) {
	for (int l = 0; l <= level; l++) search->walk->way.every[l] = every;
	for (int l = level; l >= 0; l--) lk_hierarchy_walk_level(search->walk, l);
	*cost = lk_hierarchy_walk_cost(search->walk);
	return lk_hierarchy_keeps(cost, search->wish);
}

/* Whether a level with this period may meet the wish, whatever the levels above do: each of its
 * nodes runs its own periods. */
static bool tree_may_keep_at(struct tree_search *search, int level, int every,
                             lk_hierarchy_cost *cost) {
	lk_hierarchy_walk *walk = search->walk;
	walk->way.every[level] = every;
	lk_hierarchy_walk_level(walk, level);
	*cost = (lk_hierarchy_cost){.samples = walk->batch[0] * (1 - walk->tree->drop)};
	for (int n = walk->tree->starts[level]; n < walk->tree->starts[level + 1]; n++)
		if (walk->tree->nodes[n].children && walk->active[n])
			cost->step_s = fmax(cost->step_s, walk->period[n].mean / every);
	for (int l = level; l < walk->tree->levels; l++)
		cost->bytes += walk->levels[l].bytes / walk->way.every[l];
	return lk_hierarchy_keeps(cost, search->wish);
}

/* The least multiple of `unit` at which `holds` is true; 0: none. */
static int tree_least(struct tree_search *search, int level, int unit,
                      bool (*holds)(struct tree_search *, int, int, lk_hierarchy_cost *),
                      lk_hierarchy_cost *at) {
	int low = 0, high = search->wish->most / unit; /* false at `low`, true at `high` */
	lk_hierarchy_cost cost;
	if (high == 0 || !holds(search, level, high * unit, at)) return 0;
	while (high - low > 1) {
		int middle = low + (high - low) / 2;
		if (!holds(search, level, middle * unit, &cost)) low = middle;
		else high = middle, *at = cost;
	}
	return high * unit;
}

/* Search the least common period of levels [0, level], a multiple of `unit`, by bisection. */
static void tree_halve(struct tree_search *search, int level, int unit) {
	lk_hierarchy_cost cost;
	int every = tree_least(search, level, unit, tree_keeps_at, &cost);
	if (!every) return;
	for (int l = 0; l <= level; l++) search->walk->way.every[l] = every;
	tree_keep(search, &cost);
}

/* Try periods of levels [0, level]; the levels below are fixed and drift by `below`. */
static void tree_try_level(struct tree_search *search, int level, double below) {
	lk_hierarchy_walk *walk = search->walk;
	const lk_hierarchy *tree = walk->tree;
	int unit = level + 1 < tree->levels ? walk->way.every[level + 1] : 1;
	for (int rounds = 0; rounds <= MOST_ROUNDS; rounds = tree_next_rounds(tree, level, rounds)) {
		walk->way.rounds[level] = rounds;
		if (level == 0) {
			tree_halve(search, 0, unit);
			continue;
		}
		lk_hierarchy_cost cost;
		int every = tree_least(search, level, unit, tree_may_keep_at, &cost);
		for (; every && every <= search->wish->most; every += unit) {
			double least = below;
			for (int l = 0; l <= level; l++)
				least += walk->apart[l] * lk_hierarchy_apart(tree, every);
			if (least >= tree_known(search)) break;
			walk->way.every[level] = every;
			lk_hierarchy_walk_level(walk, level);
			tree_try_level(search, level - 1, below + walk->levels[level].drift);
		}
	}
	walk->way.rounds[level] = 0;
}

/* Try a first way: levels [0, level] with every number of rounds, and one period for all levels. If
 * none of these meets the wish, no way does: no other is faster or sends less. */
static void tree_try_equal(struct tree_search *search, int level) {
	const lk_hierarchy *tree = search->walk->tree;
	if (level < 0) {
		tree_halve(search, tree->levels - 1, 1);
		return;
	}
	for (int rounds = 0; rounds <= MOST_ROUNDS; rounds = tree_next_rounds(tree, level, rounds)) {
		search->walk->way.rounds[level] = rounds;
		tree_try_equal(search, level - 1);
	}
	search->walk->way.rounds[level] = 0;
}

/* Find the best way for those that take part, in search->best and search->cost; if none meets the
 * wish, the longest periods. */
static void tree_search_ways(struct tree_search *search, double limit) {
	lk_hierarchy_walk *walk = search->walk;
	search->limit = limit;
	search->possible = search->found = false;
	memset(&walk->way, 0, sizeof walk->way);
	lk_hierarchy_walk_count(walk);
	tree_try_equal(search, walk->tree->levels - 1);
	if (search->possible) {
		tree_try_level(search, walk->tree->levels - 1, 0);
		return;
	}
	for (int l = 0; l < LK_HIERARCHY_LEVELS; l++) walk->way.every[l] = search->wish->most;
	search->best = walk->way;
	search->cost = lk_hierarchy_walk_all(walk);
}

/* The best choice so far. */
struct tree_pick {
	bool possible;
	int client; /* the client left out last */
	int left_out;
	lk_hierarchy_way way;
	lk_hierarchy_cost cost;
};

static double tree_rate(const lk_hierarchy_cost *cost) {
	return cost->samples / cost->step_s;
}

/* Search a way for those that take part now; if it is better than `pick`, it replaces it. */
static void tree_try_set(struct tree_search *search, int client, int left_out,
                         struct tree_pick *pick) {
	tree_search_ways(search, pick->possible ? pick->cost.drift : INFINITY);
	bool better = search->possible
	                  ? search->found
	                  : !pick->possible && tree_rate(&search->cost) > tree_rate(&pick->cost);
	if (better)
		*pick = (struct tree_pick){search->possible, client, left_out, search->best, search->cost};
}

static bool tree_same_client(const lk_hierarchy_node *a, const lk_hierarchy_node *b) {
	return a->parent == b->parent && a->bytes_per_s == b->bytes_per_s &&
	       a->latency_s == b->latency_s && a->step_s == b->step_s && a->batch == b->batch;
}

/* Find the best choice with one more client left out; *pick has no client if nobody may be. Of
 * equal consecutive clients only one is tried. */
static void tree_leave_one_out(struct tree_search *search, int left_out, double needed,
                               struct tree_pick *pick) {
	lk_hierarchy_walk *walk = search->walk;
	const lk_hierarchy *tree = walk->tree;
	int last = lk_hierarchy_walk_last(walk);
	double all = walk->batch[0];
	bool each = tree->count - tree->starts[1] <= MOST_TRIED;
	const lk_hierarchy_node *tried = NULL;
	for (int n = each ? 0 : last; n < (each ? tree->count : last + 1); n++) {
		const lk_hierarchy_node *node = &tree->nodes[n];
		if (node->children || walk->out[n] || all - node->batch < needed) continue;
		if (tried && tree_same_client(tried, node)) continue;
		tried = node;
		walk->out[n] = true;
		tree_try_set(search, n, left_out, pick);
		walk->out[n] = false;
	}
}

lk_hierarchy_cost lk_hierarchy_choose(lk_hierarchy_walk *walk, const lk_hierarchy_wish *wish,
                                      const lk_cutoff *cutoff, bool *found, const char **cut_off) {
	const struct tree_pick nothing = {.client = -1, .cost = {.step_s = INFINITY}};
	struct tree_search search = {.walk = walk, .wish = wish};
	struct tree_pick best = nothing, pick = nothing;
	double needed = wish->take * walk->batch[0] * (1 - 1e-12);
	int left_out = 0;
	tree_try_set(&search, -1, 0, &pick);
	for (;;) {
		bool better = pick.possible;
		if (pick.possible && best.possible) better = pick.cost.drift < best.cost.drift;
		if (!pick.possible && !best.possible)
			better = tree_rate(&pick.cost) > tree_rate(&best.cost);
		if (better) best = pick;
		const char *reached = lk_cutoff_reached(cutoff);
		if (reached) *cut_off = reached;
		if (reached) break;
		walk->way = pick.way;
		lk_hierarchy_walk_count(walk);
		lk_hierarchy_walk_all(walk);
		pick = nothing;
		tree_leave_one_out(&search, left_out + 1, needed, &pick);
		if (pick.client < 0) break;
		walk->out[pick.client] = true;
		walk->order[left_out++] = pick.client;
	}
	for (int i = best.left_out; i < left_out; i++) walk->out[walk->order[i]] = false;
	lk_hierarchy_walk_count(walk);
	walk->way = best.way;
	*found = best.possible;
	return lk_hierarchy_walk_all(walk);
}
