/* test_hierarchy.c: aggregation over trees: times against closed forms and drawn steps, drift
 * against random walks, choices against exhaustive search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stats.h"
#include "plan/hierarchy.h"
#include "rounds.h"

enum { CLIENTS = 8 };

static void near_to(double seen, double expected, double share) {
	if (fabs(seen - expected) > share * fabs(expected) + 1e-12)
		fail_msg("%.9g, expected %.9g", seen, expected);
}

static lk_hierarchy read_tree(const char *text, lk_arena *arena) {
	lk_hierarchy tree;
	lk_error err;
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "tree.csv", &in, &err), LK_OK);
	assert_int_equal(lk_hierarchy_read(in, arena, &tree, &err), LK_OK);
	lk_stream_close(in);
	return tree;
}

static lk_hierarchy_cost cost_of(const lk_hierarchy *tree, lk_hierarchy_way way, lk_arena *arena) {
	lk_hierarchy_walk walk;
	lk_error err;
	assert_int_equal(lk_hierarchy_walk_make(tree, arena, &walk, &err), LK_OK);
	walk.way = way;
	return lk_hierarchy_walk_all(&walk);
}

#define HEAD                                                                                     \
	"name,parent,gbps,latency_ms,ingress_gbps,step_s,batch,copies,peers,peer_gbps,peer_latency_" \
	"ms\n"

/* ---- closed forms ---- */

/* Equal clients below equal sites: T + 2 u1/K1 + 2 u2/K2, u = latency + S/B of a level: a
 * synchronisation above ends one below. A node that takes them one after another: n S/B. */
static void takes_the_time_of_closed_forms(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_hierarchy tree = read_tree(HEAD "c,,,,,,,,,,\na,c,4,30,,,,,,,\nb,c,4,30,,,,,,,\n"
	                                   "x,a,1,10,,0.5,4,3,,,\ny,b,1,10,,0.5,4,3,,,\n",
	                              &arena);
	assert_int_equal(tree.count, 9);
	assert_int_equal(tree.levels, 2);
	tree.bytes = 1e9 / 8;
	double u1 = 0.010 + 1, u2 = 0.030 + 0.25;
	for (int k = 1; k <= 9; k += 4)
		for (int times = 1; times <= 7; times += 3) {
			lk_hierarchy_cost cost =
				cost_of(&tree, (lk_hierarchy_way){{k * times, k}, {0}}, &arena);
			near_to(cost.step_s, 0.5 + 2 * u1 / k + 2 * u2 / (k * times), 1e-12);
			near_to(cost.bytes, 2 * tree.bytes * (6.0 / k + 2.0 / (k * times)), 1e-12);
			near_to(cost.samples, 24, 1e-12);
		}
	lk_hierarchy serial = read_tree(HEAD "c,,,,2,,,,,,\nx,c,8,10,,0.5,4,5,,,\n", &arena);
	serial.bytes = 1e9 / 8;
	near_to(cost_of(&serial, (lk_hierarchy_way){{10}, {0}}, &arena).step_s,
	        0.5 + 2 * (0.010 + 5 * 0.5) / 10, 1e-12);
	/* Rounds of gossip in a ring: latency and a message to each of two neighbours; in a clique to
	 * all others. At the root nothing is sent up. */
	lk_hierarchy ring = read_tree(HEAD "c,,,,,,,,ring,1,5\nx,c,8,10,,0.5,4,6,,,\n", &arena);
	ring.bytes = 1e9 / 8;
	near_to(cost_of(&ring, (lk_hierarchy_way){{10}, {3}}, &arena).step_s,
	        0.5 + 3 * (0.005 + 2) / 10, 1e-12);
	lk_hierarchy all = read_tree(HEAD "c,,,,,,,,all,1,5\nx,c,8,10,,0.5,4,6,,,\n", &arena);
	all.bytes = 1e9 / 8;
	near_to(cost_of(&all, (lk_hierarchy_way){{10}, {1}}, &arena).step_s, 0.5 + (0.005 + 5) / 10,
	        1e-12);
	lk_arena_free(&arena);
}

/* The slowest of n clients that each take K steps: K T (1 + v z_n / sqrt(K)), z_n the mean of the
 * largest of n normal numbers (here drawn). */
static void waits_for_stragglers(void **state) {
	(void)state;
	static const double largest[][2] = {
		{2, 0.5642}, {4, 1.0294}, {8, 1.4236}, {16, 1.7660}, {64, 2.3437}};
	for (size_t i = 0; i < sizeof largest / sizeof *largest; i++) {
		lk_arena arena = LK_ARENA_INIT;
		char text[256];
		snprintf(text, sizeof text, HEAD "c,,,,,,,,,,\nx,c,1e6,0,,2,1,%.0f,,,\n", largest[i][0]);
		lk_hierarchy tree = read_tree(text, &arena);
		tree.spread = 0.2;
		double step_s = cost_of(&tree, (lk_hierarchy_way){{16}, {0}}, &arena).step_s;
		near_to(step_s, 2 * (1 + 0.2 * largest[i][1] / 4), 0.002);
		lk_arena_free(&arena);
	}
}

/* ---- drift ---- */

/* Clients that walk at random along one coordinate and are averaged as the way says. */
static double walked(const lk_hierarchy *tree, const int *every, double skew, uint64_t seed) {
	double at[32] = {0}, along[32], sum = 0, weight[32], all = 0;
	int period = every[0], sets = 4000, first = tree->starts[tree->levels];
	int clients = tree->count - first;
	uint64_t draw = 0;
	for (int c = 0; c < clients; c++) all += tree->nodes[first + c].batch;
	for (int c = 0; c < clients; c++) weight[c] = tree->nodes[first + c].batch / all;
	for (int set = 0; set < sets; set++) {
		for (int c = 0; c < clients; c++) {
			at[c] = 0;
			along[c] = sqrt(skew) * lk_normal(seed, draw++);
		}
		for (int step = 0; step < period; step++) {
			double mean = 0;
			for (int c = 0; c < clients; c++) mean += weight[c] * at[c];
			for (int c = 0; c < clients; c++) sum += weight[c] * (at[c] - mean) * (at[c] - mean);
			for (int c = 0; c < clients; c++) at[c] += along[c] + lk_normal(seed, draw++);
			if ((step + 1) % every[1] != 0) continue;
			for (int node = tree->starts[1]; node < first; node++) {
				double group = 0, group_weight = 0;
				for (int c = 0; c < clients; c++)
					if (tree->nodes[first + c].parent == node)
						group += weight[c] * at[c], group_weight += weight[c];
				for (int c = 0; c < clients; c++)
					if (tree->nodes[first + c].parent == node) at[c] = group / group_weight;
			}
		}
	}
	return sum / sets / period;
}

static void drifts_as_random_walks_do(void **state) {
	(void)state;
	static const int every[][2] = {{12, 3}, {8, 8}, {20, 1}};
	static const double skews[] = {0, 0.05};
	lk_arena arena = LK_ARENA_INIT;
	lk_hierarchy tree = read_tree(HEAD "c,,,,,,,,,,\na,c,4,,,,,,,,\nb,c,4,,,,,,,,\n"
	                                   "x,a,1,,,1,4,2,,,\ny,b,1,,,1,4,3,,,\nz,b,1,,,1,9,,,,\n",
	                              &arena);
	tree.bytes = 1;
	for (int i = 0; i < 3; i++)
		for (int s = 0; s < 2; s++) {
			tree.skew = skews[s];
			lk_hierarchy_cost cost =
				cost_of(&tree, (lk_hierarchy_way){{every[i][0], every[i][1]}, {0}}, &arena);
			near_to(cost.drift, walked(&tree, every[i], skews[s], 3), 0.05);
		}
	lk_arena_free(&arena);
}

/* Gossip in a ring, for many periods. */
static void gossip_leaves_members_apart(void **state) {
	(void)state;
	enum { RING = 7 };
	lk_arena arena = LK_ARENA_INIT;
	lk_hierarchy tree = read_tree(HEAD "c,,,,,,,,ring,1,5\nx,c,8,10,,0.5,4,7,,,\n", &arena);
	tree.bytes = 1;
	for (int rounds = 1; rounds <= 4; rounds *= 2)
		for (int skewed = 0; skewed < 2; skewed++) {
			double sum = 0;
			uint64_t draw = 0;
			int periods = 400, sets = 100, count = 0, every = 5;
			tree.skew = skewed * 0.1;
			for (int set = 0; set < sets; set++) {
				double at[RING] = {0}, along[RING];
				for (int c = 0; c < RING; c++) along[c] = sqrt(tree.skew) * lk_normal(5, draw++);
				for (int step = 0; step < every * periods; step++) {
					double mean = lk_mean(at, RING);
					for (int c = 0; c < RING && step > 50 * every; c++)
						sum += (at[c] - mean) * (at[c] - mean), count++;
					for (int c = 0; c < RING; c++) at[c] += along[c] + lk_normal(5, draw++);
					for (int r = 0; (step + 1) % every == 0 && r < rounds; r++) {
						double next[RING];
						for (int c = 0; c < RING; c++)
							next[c] = (at[c] + at[(c + 1) % RING] + at[(c + RING - 1) % RING]) / 3;
						memcpy(at, next, sizeof at);
					}
				}
			}
			lk_hierarchy_cost cost = cost_of(&tree, (lk_hierarchy_way){{every}, {rounds}}, &arena);
			near_to(cost.drift, sum / count, skewed ? 0.12 : 0.03);
		}
	lk_arena_free(&arena);
}

/* ---- choices ---- */

/* All periods up to `most`, all rounds, for who takes part; the least drift that keeps to the wish,
 * INFINITY without one. */
static double every_way(lk_hierarchy_walk *walk, const lk_hierarchy_wish *wish, int level) {
	static const int rounds[] = {0, 1, 2, 4, 8, 16, 32};
	const lk_hierarchy *tree = walk->tree;
	double best = INFINITY;
	if (level < 0) {
		lk_hierarchy_cost cost = lk_hierarchy_walk_all(walk);
		return lk_hierarchy_keeps(&cost, wish) ? cost.drift : INFINITY;
	}
	bool peers = false;
	for (int n = tree->starts[level]; n < tree->starts[level + 1]; n++)
		peers |= tree->nodes[n].peer_bytes_per_s > 0;
	int unit = level + 1 < tree->levels ? walk->way.every[level + 1] : 1;
	for (int r = 0; r < (peers ? 7 : 1); r++)
		for (int every = unit; every <= wish->most; every += unit) {
			walk->way.every[level] = every;
			walk->way.rounds[level] = rounds[r];
			best = fmin(best, every_way(walk, wish, level - 1));
		}
	return best;
}

static double draw_between(double low, double high, uint64_t *draw) {
	return low * pow(high / low, lk_uniform(9, (*draw)++));
}

/* A root, two sites with one to three clients each and perhaps a client below the root, all
 * uneven. */
static lk_hierarchy draw_tree(uint64_t *draw, lk_arena *arena) {
	char text[2048];
	size_t used = (size_t)snprintf(text, sizeof text, HEAD);
	bool flat = lk_uniform(9, (*draw)++) < 0.3, peers = lk_uniform(9, (*draw)++) < 0.4;
	used += (size_t)snprintf(text + used, sizeof text - used, "c,,,,%.3f,,,,,,\n",
	                         draw_between(0.5, 5, draw));
	for (int site = 0; site < 2 && !flat; site++)
		used += (size_t)snprintf(text + used, sizeof text - used, "s%d,c,%.3f,%.1f,%.3f,,,,%s\n",
		                         site, draw_between(0.1, 4, draw), draw_between(1, 100, draw),
		                         draw_between(0.5, 5, draw), peers ? "ring,0.5,2" : ",,");
	int clients = flat ? 4 : 2;
	for (int c = 0; c < clients || (c < 5 && lk_uniform(9, (*draw)++) < 0.6); c++)
		used +=
			(size_t)snprintf(text + used, sizeof text - used, "x%d,%s,%.3f,%.1f,,%.3f,%d,,,,\n", c,
		                     flat    ? "c"
		                     : c % 2 ? "s1"
		                             : "s0",
		                     draw_between(0.05, 2, draw), draw_between(1, 100, draw),
		                     draw_between(0.1, 0.5, draw), 1 + (int)(lk_uniform(9, (*draw)++) * 8));
	lk_hierarchy tree = read_tree(text, arena);
	tree.bytes = 1e8 / 8;
	tree.spread = lk_uniform(9, (*draw)++) < 0.5 ? 0 : 0.2;
	tree.skew = lk_uniform(9, (*draw)++) < 0.5 ? 0 : 0.02;
	return tree;
}

/* A rate and bytes that some way just keeps to: those of one that is drawn. */
static lk_hierarchy_wish draw_wish(lk_hierarchy_walk *walk, int most, uint64_t *draw) {
	lk_hierarchy_wish wish = {.bytes = INFINITY, .take = 1, .most = most};
	int every = 1;
	for (int l = walk->tree->levels - 1; l >= 0; l--) {
		int times = most / every < 4 ? most / every : 4;
		every *= 1 + (int)(lk_uniform(9, (*draw)++) * times);
		walk->way.every[l] = every;
		walk->way.rounds[l] = 0;
	}
	lk_hierarchy_cost cost = lk_hierarchy_walk_all(walk);
	wish.rate = 0.999 * cost.samples / cost.step_s;
	if (lk_uniform(9, (*draw)++) < 0.5) wish.bytes = 1.001 * cost.bytes / cost.samples;
	return wish;
}

static void chooses_as_exhaustive_search(void **state) {
	(void)state;
	uint64_t draw = 0;
	for (int round = 0; round < trials(150); round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_hierarchy tree = draw_tree(&draw, &arena);
		lk_hierarchy_walk walk;
		lk_error err;
		bool found;
		assert_int_equal(lk_hierarchy_walk_make(&tree, &arena, &walk, &err), LK_OK);
		lk_hierarchy_wish wish = draw_wish(&walk, 24, &draw);
		double best = every_way(&walk, &wish, tree.levels - 1);
		assert_true(isfinite(best));
		lk_hierarchy_cost cost = lk_hierarchy_choose(&walk, &wish, NULL, &found, NULL);
		assert_true(found);
		assert_true(lk_hierarchy_keeps(&cost, &wish));
		near_to(cost.drift, best, 1e-9);
		/* Nothing is twice as fast as clients that never wait. */
		wish.rate = 2 * cost.samples / 0.1;
		lk_hierarchy_choose(&walk, &wish, NULL, &found, NULL);
		assert_false(found);
		lk_arena_free(&arena);
	}
}

/* Who takes part is a greedy choice: mostly the best one. */
static void leaves_out_as_exhaustive_search(void **state) {
	(void)state;
	uint64_t draw = 1 << 20;
	int same = 0, all = 0;
	double worst = 1;
	for (int round = 0; round < trials(60); round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_hierarchy tree = draw_tree(&draw, &arena);
		lk_hierarchy_walk walk;
		lk_error err;
		bool found;
		assert_int_equal(lk_hierarchy_walk_make(&tree, &arena, &walk, &err), LK_OK);
		lk_hierarchy_wish wish = draw_wish(&walk, 12, &draw);
		double batch = walk.batch[0], best = INFINITY;
		wish.take = 0.5;
		int clients[CLIENTS], count = 0;
		for (int n = 0; n < tree.count; n++)
			if (!tree.nodes[n].children) clients[count++] = n;
		assert_true(count <= CLIENTS);
		for (unsigned set = 0; set < 1u << count; set++) {
			for (int c = 0; c < count; c++) walk.out[clients[c]] = set >> c & 1;
			lk_hierarchy_walk_count(&walk);
			if (walk.batch[0] >= wish.take * batch * (1 - 1e-12))
				best = fmin(best, every_way(&walk, &wish, tree.levels - 1));
		}
		for (int c = 0; c < count; c++) walk.out[clients[c]] = false;
		lk_hierarchy_walk_count(&walk);
		lk_hierarchy_cost cost = lk_hierarchy_choose(&walk, &wish, NULL, &found, NULL);
		assert_true(found);
		assert_true(cost.drift >= best * (1 - 1e-9));
		assert_true(cost.samples >= wish.take * batch * (1 - 1e-12));
		same += cost.drift <= best * (1 + 1e-9);
		worst = fmax(worst, best > 0 ? cost.drift / best : 1);
		all++;
		lk_arena_free(&arena);
	}
	print_message("the best set in %d of %d, at most %.2f times its drift\n", same, all, worst);
	assert_true(same >= all * 9 / 10);
}

/* Least drift for a rate: sum a K with sum T/K given has K as sqrt(T/a). */
static void periods_follow_the_square_root(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_hierarchy tree = read_tree(HEAD "c,,,,,,,,,,\na,c,4,,,,,,,,\nb,c,4,,,,,,,,\n"
	                                   "x,a,40,,,0.5,4,3,,,\ny,b,40,,,0.5,4,3,,,\n",
	                              &arena);
	lk_hierarchy_walk walk;
	lk_error err;
	bool found;
	tree.bytes = 4e10 / 8;
	assert_int_equal(lk_hierarchy_walk_make(&tree, &arena, &walk, &err), LK_OK);
	const lk_hierarchy_wish wish = {0.95 * 24 / 0.5, INFINITY, 1, 100000};
	lk_hierarchy_choose(&walk, &wish, NULL, &found, NULL);
	assert_true(found);
	near_to((double)walk.way.every[0] / walk.way.every[1], sqrt(10 * walk.apart[1] / walk.apart[0]),
	        0.15);
	lk_arena_free(&arena);
}

static void refuses_what_is_no_tree(void **state) {
	(void)state;
	static const struct {
		const char *rows, *says;
	} bad[] = {
		{"c,,,,,,,,,,\n", "no node without a parent has others below it"},
		{"c,,,,,,,,,,\nd,,,,,,,,,,\n", "d has no parent, and c has none either"},
		{"c,,,,,,,,,,\nx,d,1,,,,,,,,\n", "unknown parent d"},
		{"c,,,,,,,,,,\nx,c,1,,,,,,,,\nx,c,1,,,,,,,,\n", "a second node x"},
		{"c,,,,,,,,,,\nx,c,,,,,,,,,\n", "node x has no gbps to its parent"},
		{"c,,,,,,,,,,\nx,c,1,,,,,,,,\na,b,1,,,,,,,,\nb,a,1,,,,,,,,\n",
	     "some nodes are their own ancestors"},
		{"c,,,,,1,,,,,\nx,c,1,,,,,,,,\n", "c has others below it, but step_s or batch"},
		{"c,,,,,,,,,,\nx,c,1,,2,,,,,,\n", "x has nothing below it, but ingress_gbps or peers"},
		{"c,,,,,,,,ring,,\nx,c,1,,,,,,,,\n", "peers without peer_gbps"},
		{"c,,,,,,,,tree,1,\nx,c,1,,,,,,,,\n", "peers is tree; ring, all or empty"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_hierarchy tree;
		lk_error err;
		lk_stream *in;
		char text[512];
		snprintf(text, sizeof text, HEAD "%s", bad[i].rows);
		assert_int_equal(lk_stream_memory(text, strlen(text), "tree.csv", &in, &err), LK_OK);
		assert_int_equal(lk_hierarchy_read(in, &arena, &tree, &err), LK_ERR_INPUT);
		if (!strstr(err.what, bad[i].says)) fail_msg("%s, expected %s", err.what, bad[i].says);
		lk_stream_close(in);
		lk_arena_free(&arena);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_time_of_closed_forms),
		cmocka_unit_test(waits_for_stragglers),
		cmocka_unit_test(drifts_as_random_walks_do),
		cmocka_unit_test(gossip_leaves_members_apart),
		cmocka_unit_test(chooses_as_exhaustive_search),
		cmocka_unit_test(leaves_out_as_exhaustive_search),
		cmocka_unit_test(periods_follow_the_square_root),
		cmocka_unit_test(refuses_what_is_no_tree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
