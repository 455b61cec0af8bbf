/* test_topology.c: networks between nodes: their text and JSON forms, the ways over their links,
 * what collectives get, against closed forms and against a plain search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/stats.h"
#include "cost/collective/nccl.h"
#include "cost/cost.h"
#include "cost/reaches.h"
#include "cost/topology/topology.h"
#include "hw/hw_internal.h"
#include "rounds.h"

#define COUNT(a)   (sizeof(a) / sizeof *(a))
#define near(a, b) near_at((a), (b), __LINE__)

static void near_at(double a, double b, int line) {
	if (fabs(a - b) > 1e-6 * fmax(fabs(a), fabs(b)))
		fail_msg("line %d: %.9g is not %.9g", line, a, b);
}

static int draw(uint64_t *seed, int low, int high) {
	*seed += 1;
	return low + (int)(lk_hash64(*seed) % (uint64_t)(high - low + 1));
}

static lk_cluster cluster_of(lk_arena *arena, const char *format, ...) {
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	lk_cluster cluster;
	lk_error err = {0};
	if (lk_cluster_parse(arena, text, &cluster, &err) != LK_OK)
		fail_msg("%s: %s: %s", text, err.where, err.what);
	return cluster;
}

/* ---- forms ---- */

static void test_text_and_json_agree(void **state) {
	static const struct {
		const char *text, *json, *again;
	} forms[] = {
		{"tree 16", "\"kind\":\"tree\",\"sizes\":[16]", "tree 16"},
		{"Tree 16*8 leaf 4:1 spine 2.5:1 30%",
	     "\"kind\":\"tree\",\"sizes\":[16,8],\"leaf\":{\"ratio\":4},"
	     "\"spine\":{\"ratio\":2.5,\"background\":0.3}",
	     "tree 16*8 leaf 4:1 spine 2.5:1 30%"},
		{"rails 32 leaf 20% 2:1",
	     "\"kind\":\"rails\",\"sizes\":[32],\"leaf\":{\"background\":0.2,\"ratio\":2}",
	     "rails 32 leaf 2:1 20%"},
		{"dragonfly 4*8*4 global 200g local 400g 5%",
	     "\"kind\":\"dragonfly\",\"sizes\":[4,8,4],\"global\":{\"gbps\":200},"
	     "\"local\":{\"gbps\":400,\"background\":0.05}",
	     "dragonfly 4*8*4 local 400g 5% global 200g"},
		{"torus 8 * 8 y 100g", "\"kind\":\"torus\",\"sizes\":[8,8],\"y\":{\"gbps\":100}",
	     "torus 8*8 y 100g"},
		{"tree 16*8 sharp leaf 1600g 500us spine 25ms 10%",
	     "\"kind\":\"tree\",\"sizes\":[16,8],\"sharp\":true,"
	     "\"leaf\":{\"gbps\":1600,\"latency_us\":500},"
	     "\"spine\":{\"latency_us\":25000,\"background\":0.1}",
	     "tree 16*8 leaf 1600g 500us spine 25ms 10% sharp"},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(forms); i++) {
		lk_arena arena = LK_ARENA_INIT;
		char wanted[256];
		snprintf(wanted, sizeof wanted, "64 node * 8 h100-sxm nvlink4, nic 8*400g, %s",
		         forms[i].again);
		lk_cluster text = cluster_of(&arena, "64 node * 8 h100-sxm, %s", forms[i].text);
		lk_cluster json =
			cluster_of(&arena,
		               "{\"nodes\":[{\"count\":64,\"gpus\":8,\"device\":\"h100-sxm\"}],"
		               "\"topology\":{%s}}",
		               forms[i].json);
		assert_string_equal(text.text, wanted);
		assert_string_equal(json.text, wanted);
		assert_string_equal(cluster_of(&arena, "%s", wanted).text, wanted);
		lk_arena_free(&arena);
	}
}

static void test_what_is_refused(void **state) {
	static const struct {
		const char *text, *what;
	} cases[] = {
		{"64 h100, tree", "a size of the tree is missing"},
		{"64 h100, tree 0", "a size of the tree is missing or out of range"},
		{"64 h100, tree 2*2*2*2", "at most 3 sizes"},
		{"64 h100, tree 16 spine 2:1", "has no links 'spine'"},
		{"64 h100, tree 16 leaf", "nothing is said of the links leaf"},
		{"64 h100, tree 16 leaf 0.5:1", "out of range"},
		{"64 h100, tree 16 leaf 400", "a number that says nothing"},
		{"64 h100, tree 16 leaf 400g 2:1", "a ratio and a rate of the links leaf say the same"},
		{"64 h100, tree 16 leaf 11000ms", "the latency of the links leaf is out of range"},
		{"64 h100, tree 16 leaf 100%", "share of other jobs is out of range"},
		{"64 h100, torus 8 sharp", "the switches of a torus do not reduce (SHARP)"},
		{"64 h100, torus 2*2", "the torus has 4 places for 8 nodes"},
		{"64 h100, torus 8 x 2:1", "a number that says nothing"},
		{"64 h100, dragonfly 2*2", "a dragonfly has 3 sizes, not 2"},
		{"64 h100, dragonfly 1*1*1", "the dragonfly has 8 groups"},
		{"64 h100, tree 2, oversub 2", "mutually exclusive"},
		{"64 h100, tree 2 + 64 a100, tree 4", "a second network"},
		{"12 h100, rails 2", "same number of NICs"},
		{"64 h100, mesh 2", "unexpected"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"tree\"}}", "needs \"sizes\""},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"bus\",\"sizes\":[2]}}",
	     "kind must be"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"tree\",\"sizes\":[2],\"x\":{}"
	     "}}",
	     "unknown key 'x'"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"torus\",\"sizes\":[2],"
	     "\"x\":{\"ratio\":2}}}",
	     "unknown key 'ratio'"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"tree\",\"sizes\":[2],"
	     "\"leaf\":{\"ratio\":2,\"gbps\":100}}}",
	     "say the same"},
		{"{\"nodes\":[{\"device\":\"h100\"}],\"topology\":{\"kind\":\"torus\",\"sizes\":[2],"
	     "\"sharp\":true}}",
	     "unknown key 'sharp'"},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster;
		lk_error err = {0};
		assert_int_equal(lk_cluster_parse(&arena, cases[i].text, &cluster, &err), LK_ERR_INPUT);
		if (!strstr(err.what, cases[i].what))
			fail_msg("%s: '%s' is not in '%s'", cases[i].text, cases[i].what, err.what);
		lk_arena_free(&arena);
	}
}

static void test_edits_keep_the_network(void **state) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error err = {0};
	lk_cluster base = cluster_of(&arena, "4 node * 8 h100-sxm, tree 2 leaf 4:1"), out;
	(void)state;
	assert_int_equal(lk_cluster_grown(&arena, &base, 64, &out, &err), LK_OK);
	assert_string_equal(out.text, "8 node * 8 h100-sxm nvlink4, nic 8*400g, tree 2 leaf 4:1");
	assert_int_equal(lk_cluster_with_nics(&arena, &base, "2x", &out, &err), LK_OK);
	assert_string_equal(out.text, "4 node * 8 h100-sxm nvlink4, nic 8*800g, tree 2 leaf 4:1");
	assert_int_equal(lk_cluster_with_topology(&arena, &base, "torus 2*2", &out, &err), LK_OK);
	assert_string_equal(out.text, "4 node * 8 h100-sxm nvlink4, nic 8*400g, torus 2*2");
	assert_int_equal(lk_cluster_with_topology(&arena, &base, "none", &out, &err), LK_OK);
	assert_string_equal(out.text, "4 node * 8 h100-sxm nvlink4, nic 8*400g");
	assert_int_equal(lk_cluster_with_topology(&arena, &base, "torus 2*1", &out, &err),
	                 LK_ERR_INPUT);
	assert_int_equal(lk_cluster_with_topology(&arena, &base, "tree 2 + 3", &out, &err),
	                 LK_ERR_INPUT);
	lk_arena_free(&arena);
}

/* ---- one collective over all GPUs of a cluster ---- */

static lk_traffic_share share_of(const char *network, int nodes, lk_traffic traffic) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster = cluster_of(&arena, "%d node * 8 h100-sxm, %s", nodes, network);
	lk_group_shape shape = {.node = &cluster.node[0],
	                        .ranks = 8 * nodes,
	                        .nodes = nodes,
	                        .ranks_per_node = 8,
	                        .sharing = 1,
	                        .oversubscription = 1};
	const lk_reach *reach;
	lk_error err = {0};
	assert_int_equal(lk_reach_alone(&arena, &cluster, &shape, NULL, ~0U, &reach, &err), LK_OK);
	lk_traffic_share share = reach->flow[traffic];
	share.rate = lk_reach_rate(reach, traffic);
	lk_arena_free(&arena);
	return share;
}

/* What it gets of the NICs' rate. */
static double rate_of(const char *network, int nodes, lk_traffic traffic) {
	return share_of(network, nodes, traffic).rate;
}

/* Leaves of s nodes at k:1: of an all-to-all of n nodes each sends (n - s) / (n - 1) out of its
 * leaf, through 1 / k of its NICs. A ring in node order crosses a leaf's edge once each way. */
static void test_tree(void **state) {
	(void)state;
	near(rate_of("tree 16 leaf 4:1", 64, LK_TRAFFIC_ALLTOALL), 63.0 / (4 * 48));
	near(rate_of("tree 16 leaf 4:1", 64, LK_TRAFFIC_RING), 1);
	near(rate_of("tree 16 leaf 64:1", 64, LK_TRAFFIC_RING), 16.0 / 64);
	near(rate_of("tree 16", 64, LK_TRAFFIC_ALLTOALL), 1);
	near(rate_of("tree 16 leaf 4:1 25%", 64, LK_TRAFFIC_ALLTOALL), 0.75 * 63 / (4 * 48));
	near(rate_of("tree 64 leaf 4:1", 64, LK_TRAFFIC_ALLTOALL), 1);
	/* two tiers: 32 of 64 nodes are under the other spine switch; bisection is 1 / (2 * 3) */
	near(rate_of("tree 16*2 leaf 2:1 spine 3:1", 64, LK_TRAFFIC_ALLTOALL), 63.0 / (6 * 32));
	near(rate_of("tree 16*2 leaf 12:1", 64, LK_TRAFFIC_ALLTOALL), 63.0 / (12 * 48));
}

/* Bisection: when all send to the other half, what joins the halves limits. */
static void test_bisection(void **state) {
	lk_arena arena = LK_ARENA_INIT;
	(void)state;
	for (int k = 1; k <= 8; k *= 2) {
		lk_cluster cluster = cluster_of(&arena, "16 node * 8 h100-sxm, tree 2*4 spine %d:1", k);
		lk_net_links topology = lk_topology_of(&cluster);
		lk_users users;
		lk_error err = {0};
		assert_int_equal(lk_users_begin(&topology, &users, &err), LK_OK);
		for (uint32_t i = 0; i < 8; i++) {
			lk_stations pair = {0};
			assert_true(lk_stations_add(&pair, i, 0) && lk_stations_add(&pair, i + 8, 0));
			assert_int_equal(lk_users_add(&users, &pair, LK_TRAFFIC_CHAIN, 1, &err), LK_OK);
			lk_stations_free(&pair);
		}
		assert_int_equal(lk_users_share(&users, &err), LK_OK);
		for (int i = 0; i < 8; i++) near(users.rate.at[i], 1.0 / k);
		lk_users_free(&users);
	}
	lk_arena_free(&arena);
}

/* k^d places, links as fast as the NICs of a node: an all-to-all takes k / 8 n / (n - 1) of what
 * the NICs take (even k, either way round where both are as long). */
static void test_torus(void **state) {
	(void)state;
	near(rate_of("torus 8*8", 64, LK_TRAFFIC_ALLTOALL), 63.0 / 64);
	near(rate_of("torus 16*16", 256, LK_TRAFFIC_ALLTOALL), 255.0 / 256 / 2);
	near(rate_of("torus 8*8*8", 512, LK_TRAFFIC_ALLTOALL), 511.0 / 512);
	near(rate_of("torus 8*8 x 1600g", 64, LK_TRAFFIC_ALLTOALL), 63.0 / 64 / 2);
	near(rate_of("torus 8*8 y 50%", 64, LK_TRAFFIC_ALLTOALL), 63.0 / 64 / 2);
	near(rate_of("torus 8*8", 64, LK_TRAFFIC_RING), 1);
	near(rate_of("torus 5", 5, LK_TRAFFIC_ALLTOALL), 1); /* 1 + 2 hops each way, of 4 parts */
	near(rate_of("torus 7", 7, LK_TRAFFIC_ALLTOALL), 1);
	near(rate_of("torus 9", 9, LK_TRAFFIC_ALLTOALL), 8.0 / 10);
}

/* p nodes a router, a routers a group, h links of a router, G = a h + 1 groups, n = a p G: between
 * two groups go (a p)^2 of n (n - 1) parts, over one link. */
static void test_dragonfly(void **state) {
	(void)state;
	int p = 2, a = 4, h = 2, groups = a * h + 1, nodes = a * p * groups;
	near(rate_of("dragonfly 2*4*2 global 800g", nodes, LK_TRAFFIC_ALLTOALL),
	     (nodes - 1.0) / (a * p * a * p) * 800 / 3200);
	near(rate_of("dragonfly 2*4*2 global 800g 50%", nodes, LK_TRAFFIC_ALLTOALL),
	     (nodes - 1.0) / (a * p * a * p) * 800 / 3200 / 2);
	/* one group: a router to each other of p^2 parts */
	near(rate_of("dragonfly 2*4*2 local 800g", 8, LK_TRAFFIC_ALLTOALL), 7.0 / 4 / 4);
	/* two groups of a h links: half of all parts cross them, each way */
	near(rate_of("dragonfly 2*4*2 global 100g", 16, LK_TRAFFIC_ALLTOALL),
	     8 * 15.0 / (8 * 8) * 100 / 3200);
	/* a ring leaves a group at its last router over a port of its first, and comes to its first
	 * over one of its last: a link inside the group carries both */
	near(rate_of("dragonfly 2*4*2", nodes, LK_TRAFFIC_RING), 0.5);
	near(rate_of("dragonfly 2*4*2 local 6400g", nodes, LK_TRAFFIC_RING), 1);
}

/* With NVLink what crosses rails does so inside a node, so that a unit sees no spine; between units
 * it does as in a tree. Without NVLink 7 of 8 parts of an all-to-all between nodes cross. */
static void test_rails(void **state) {
	(void)state;
	near(rate_of("rails 64 leaf 100:1", 64, LK_TRAFFIC_ALLTOALL), 1);
	near(rate_of("rails 64 leaf 100:1", 64, LK_TRAFFIC_RING), 1);
	near(rate_of("rails 64 leaf 100:1", 64, LK_TRAFFIC_TREE), 1);
	near(rate_of("rails 16 leaf 4:1", 64, LK_TRAFFIC_ALLTOALL), 63.0 / (4 * 48));
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster = cluster_of(&arena, "16 node * 8 h100-sxm pcie, rails 16 leaf 2:1");
	lk_group_shape shape = {.node = &cluster.node[0],
	                        .ranks = 128,
	                        .nodes = 16,
	                        .ranks_per_node = 8,
	                        .sharing = 1,
	                        .oversubscription = 1};
	const lk_reach *reach;
	lk_error err = {0};
	assert_int_equal(lk_reach_alone(&arena, &cluster, &shape, NULL, ~0U, &reach, &err), LK_OK);
	near(lk_reach_rate(reach, LK_TRAFFIC_ALLTOALL), 8.0 / (2 * 7));
	near(lk_reach_rate(reach, LK_TRAFFIC_RING), 1);
	lk_arena_free(&arena);
}

/* ---- sharing ---- */

static double capacity_of(const lk_users *users, uint32_t link) {
	return lk_link_capacity(users->topology, link);
}

/* Max-min fair: no link carries more than it has, and whoever gets less than it asks for goes over
 * a full link on which nobody gets more. */
static void test_max_min(void **state) {
	static const char *const networks[] = {"tree 4 leaf 3:1", "tree 2*3 leaf 2:1 spine 3:1 10%",
	                                       "torus 6*4 x 800g", "dragonfly 2*3*2 global 400g",
	                                       "rails 5 leaf 4:1"};
	uint64_t seed = 7;
	(void)state;
	for (int round = 0; round < rounds(60, 2000); round++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_cluster cluster = cluster_of(&arena, "24 node * 8 h100-sxm, %s",
		                                networks[draw(&seed, 0, COUNT(networks) - 1)]);
		lk_net_links topology = lk_topology_of(&cluster);
		lk_users users;
		lk_error err = {0};
		assert_int_equal(lk_users_begin(&topology, &users, &err), LK_OK);
		int count = draw(&seed, 1, 12);
		for (int user = 0; user < count; user++) {
			lk_stations stations = {0};
			int nodes = draw(&seed, 2, 6), first = draw(&seed, 0, 23), step = draw(&seed, 1, 5);
			for (int i = 0; i < nodes; i++)
				assert_true(lk_stations_add(&stations, (uint32_t)(first + i * step) % 24,
				                            (uint32_t)draw(&seed, 0, 7) % topology.rails));
			assert_int_equal(lk_users_add(&users, &stations,
			                              (lk_traffic)draw(&seed, 0, LK_TRAFFICS - 1),
			                              draw(&seed, 1, 8) / 8.0, &err),
			                 LK_OK);
			lk_stations_free(&stations);
		}
		assert_int_equal(lk_users_share(&users, &err), LK_OK);
		double *carried = calloc(topology.links, sizeof *carried),
			   *most = calloc(topology.links, sizeof *most);
		for (int user = 0; user < count; user++) {
			size_t end = user + 1 < count ? users.begin.at[user + 1] : users.loads.count;
			for (size_t i = users.begin.at[user]; i < end; i++) {
				uint32_t link = users.loads.at[i].link;
				carried[link] += users.rate.at[user] * users.loads.at[i].load;
				most[link] = fmax(most[link], users.rate.at[user]);
			}
		}
		for (uint32_t link = 0; link < topology.links; link++)
			assert_true(carried[link] <= capacity_of(&users, link) * (1 + 1e-6));
		for (int user = 0; user < count; user++) {
			size_t end = user + 1 < count ? users.begin.at[user + 1] : users.loads.count;
			bool stopped = users.rate.at[user] >= 1 - 1e-9;
			for (size_t i = users.begin.at[user]; i < end && !stopped; i++) {
				uint32_t link = users.loads.at[i].link;
				stopped = carried[link] >= capacity_of(&users, link) * (1 - 1e-6) &&
				          most[link] <= users.rate.at[user] * (1 + 1e-6);
			}
			assert_true(stopped);
		}
		free(carried);
		free(most);
		lk_users_free(&users);
		lk_arena_free(&arena);
	}
}

/* NCCL's trees: all but one node have a parent, and no node more than three edges in one tree. */
/* A switch's rate in place of its ratio: leaves of 16 nodes of 3.2 Tb/s have 51.2 down; the spines
 * above go on from what the leaves have. */
static void test_rates_of_trees(void **state) {
	(void)state;
	for (int traffic = 0; traffic < LK_TRAFFIC_SWITCHES; traffic++) {
		near(rate_of("tree 16 leaf 12800g", 64, (lk_traffic)traffic),
		     rate_of("tree 16 leaf 4:1", 64, (lk_traffic)traffic));
		near(rate_of("tree 16*2 leaf 12800g spine 2:1", 64, (lk_traffic)traffic),
		     rate_of("tree 16*2 leaf 4:1 spine 12800g", 64, (lk_traffic)traffic));
		near(rate_of("rails 16*2 leaf 1600g spine 12800g", 64, (lk_traffic)traffic),
		     rate_of("rails 16*2 leaf 4:1 spine 2:1", 64, (lk_traffic)traffic));
	}
}

/* Two leaves of 4 nodes: of a ring's 8 edges 2 join them; what waits for its last message waits for
 * the whole way; three dimensions of a torus of 4 have up to 2 links each. */
static void test_latencies(void **state) {
	(void)state;
	near(share_of("tree 4 leaf 80us", 8, LK_TRAFFIC_RING).latency_s, 20e-6);
	near(share_of("tree 4 leaf 80us", 8, LK_TRAFFIC_ALLTOALL).latency_s, 80e-6);
	near(share_of("tree 4 leaf 80us", 8, LK_TRAFFIC_TREE).latency_s, 80e-6);
	near(share_of("tree 1*4 leaf 10us spine 80us", 8, LK_TRAFFIC_ALLTOALL).latency_s, 90e-6);
	near(share_of("tree 1*4 leaf 10us spine 80us sharp", 8, LK_TRAFFIC_SWITCHES).latency_s, 90e-6);
	near(share_of("tree 8 leaf 80us", 8, LK_TRAFFIC_ALLTOALL).latency_s, 0);
	near(share_of("torus 4*4*4 x 1us y 2us z 3us", 64, LK_TRAFFIC_ALLTOALL).latency_s, 12e-6);
}

/* Switches that reduce send one stream up, whatever the nodes under them: a leaf of s nodes is
 * enough at s:1, and of R rails each at its own. */
static void test_switches_that_reduce(void **state) {
	(void)state;
	near(rate_of("tree 16 leaf 16:1 sharp", 64, LK_TRAFFIC_SWITCHES), 1);
	near(rate_of("tree 16 leaf 32:1 sharp", 64, LK_TRAFFIC_SWITCHES), 0.5);
	near(rate_of("tree 16*2 leaf 16:1 spine 4:1 sharp", 64, LK_TRAFFIC_SWITCHES), 0.5);
	near(rate_of("rails 16 leaf 32:1 sharp", 64, LK_TRAFFIC_SWITCHES), 0.5);
	near(rate_of("rails 16*2 leaf 16:1 spine 4:1 sharp", 64, LK_TRAFFIC_SWITCHES), 0.5);
}

static void test_tree_traffic_stays_within_nics(void **state) {
	(void)state;
	for (int nodes = 2; nodes <= 40; nodes++) {
		/* leaves of one node at 1:1: what a node sends is what its leaf sends */
		double rate = rate_of("tree 1", nodes, LK_TRAFFIC_TREE);
		assert_true(rate > 0.66 &&
		            rate <= 1); /* 2 of its bytes, 3 edges of one tree and 1 of the other */
		near(rate_of("tree 1", nodes, LK_TRAFFIC_RING), 1);
		near(rate_of("tree 1", nodes, LK_TRAFFIC_ALLTOALL), 1);
		near(rate_of("tree 1", nodes, LK_TRAFFIC_DOUBLING), 1);
	}
}

/* ---- in the models ---- */

static double seconds_on(const char *network, lk_coll_kind kind, double bytes) {
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster cluster = cluster_of(&arena, "64 node * 8 h100-sxm, nic 8*200g%s", network);
	lk_group_shape shape = {.node = &cluster.node[0],
	                        .ranks = 512,
	                        .nodes = 64,
	                        .ranks_per_node = 8,
	                        .sharing = 1,
	                        .oversubscription = 1};
	lk_error err = {0};
	assert_int_equal(lk_reach_alone(&arena, &cluster, &shape, NULL, ~0U, &shape.reach, &err),
	                 LK_OK);
	double seconds = lk_collective_cost(kind, &shape, bytes).seconds;
	lk_arena_free(&arena);
	return seconds;
}

/* Large messages take as much longer as their links are slower; a network that has enough of them
 * is none to the last bit. */
static void test_collective_times(void **state) {
	(void)state;
	double flat = seconds_on("", LK_COLL_ALLTOALL, 1e12);
	double slow = seconds_on(", tree 16 leaf 4:1", LK_COLL_ALLTOALL, 1e12);
	assert_true(fabs(slow / flat / (4 * 48 / 63.0) - 1) < 0.01);
	for (int kind = 0; kind < LK_COLLS; kind++)
		for (double bytes = 1e3; bytes < 1e12; bytes *= 1e3) {
			double plain = seconds_on("", (lk_coll_kind)kind, bytes);
			assert_true(seconds_on(", tree 64", (lk_coll_kind)kind, bytes) == plain);
			assert_true(seconds_on(", rails 64", (lk_coll_kind)kind, bytes) == plain);
			double less = seconds_on(", tree 4 leaf 2:1", (lk_coll_kind)kind, bytes),
				   least = seconds_on(", tree 4 leaf 2:1 40%", (lk_coll_kind)kind, bytes);
			assert_true(plain <= less && less <= least);
		}
}

/* A large all-reduce of n ranks sends 1 byte in place of 2 (n - 1) / n of a ring; nothing else is
 * changed, and what reduces is never slower. A tier of d us adds so much to each message. */
static void test_sharp_and_latency_times(void **state) {
	(void)state;
	double ring = seconds_on(", tree 64", LK_COLL_ALLREDUCE, 1e12),
		   sharp = seconds_on(", tree 64 sharp", LK_COLL_ALLREDUCE, 1e12);
	assert_true(fabs(ring / sharp / (2 * 511 / 512.0) - 1) < 0.01);
	for (int kind = 0; kind < LK_COLLS; kind++)
		for (double bytes = 1e3; bytes < 1e12; bytes *= 1e3) {
			lk_coll_kind k = (lk_coll_kind)kind;
			double plain = seconds_on(", tree 16", k, bytes);
			double reduced = seconds_on(", tree 16 sharp", k, bytes);
			if (k == LK_COLL_ALLREDUCE) assert_true(reduced <= plain);
			else assert_true(reduced == plain);
			assert_true(seconds_on(", tree 16 leaf 1ms", k, bytes) > plain);
		}
	double message = seconds_on(", tree 1 leaf 1ms", LK_COLL_SENDRECV, 1e3);
	assert_true(fabs(message - seconds_on("", LK_COLL_SENDRECV, 1e3) - 1e-3) < 1e-7);
}

/* Two collectives that overlap and take three quarters of a link each get two thirds of their pace.
 */
static void test_overlap_shares_links(void **state) {
	(void)state;
	lk_cost a = {.nic = 0.2F, .tier = {0, 0.75F, 0}}, b = a,
			c = {.nic = 0.2F, .tier = {0.75F, 0, 0}};
	double rates[2];
	lk_contention_rates((const lk_cost *const[]){&a, &b}, (const bool[]){true, true}, 2, rates);
	near(rates[0], 2.0 / 3);
	near(rates[1], 2.0 / 3);
	lk_contention_rates((const lk_cost *const[]){&a, &c}, (const bool[]){true, true}, 2, rates);
	near(rates[0], 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_and_json_agree),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_edits_keep_the_network),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_bisection),
		cmocka_unit_test(test_torus),
		cmocka_unit_test(test_dragonfly),
		cmocka_unit_test(test_rails),
		cmocka_unit_test(test_max_min),
		cmocka_unit_test(test_rates_of_trees),
		cmocka_unit_test(test_latencies),
		cmocka_unit_test(test_switches_that_reduce),
		cmocka_unit_test(test_tree_traffic_stays_within_nics),
		cmocka_unit_test(test_collective_times),
		cmocka_unit_test(test_sharp_and_latency_times),
		cmocka_unit_test(test_overlap_shares_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
