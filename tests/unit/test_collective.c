/* test_collective.c: the NCCL model: graphs of known nodes, NCCL's formulas worked by hand,
 * properties that hold on any hardware, and a comparison with public measurements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "base/stats.h"
#include "io/stream.h"
#include "cost/collective/collective.h"
#include "cost/collective/nccl.h"
#include "data.h"

/* Link rates as the catalogue has them: what NCCL counts of the wire. */
static const lk_device v100 = {
	.arch = LK_ARCH_VOLTA, .links = 6, .link_rate = 120e9, .pcie_rate = 12e9};
static const lk_device a100 = {
	.arch = LK_ARCH_AMPERE, .links = 12, .link_rate = 240e9, .pcie_rate = 24e9};
static const lk_device h100 = {
	.arch = LK_ARCH_HOPPER, .links = 18, .link_rate = 370.8e9, .pcie_rate = 48e9};
static const lk_device b200 = {
	.arch = LK_ARCH_BLACKWELL, .links = 18, .link_rate = 721.8e9, .pcie_rate = 48e9};
static const lk_device mi300 = {
	.arch = LK_ARCH_CDNA3, .links = 7, .link_rate = 336e9, .pcie_rate = 48e9};
static const lk_device l40s = {.arch = LK_ARCH_ADA, .pcie_rate = 24e9};

static const lk_node nodes[] = {
	{&v100, 8, LK_INTRA_MESH, 120e9, 4, 12.5e9, 0, false, 0, false},
	{&a100, 8, LK_INTRA_SWITCH, 240e9, 8, 25e9, 0, false, 0, false},
	{&a100, 8, LK_INTRA_SWITCH, 240e9, 4, 12.5e9, 75e-6, false, 0, false},
	{&h100, 8, LK_INTRA_SWITCH, 370.8e9, 8, 50e9, 0, false, 0, false},
	{&b200, 8, LK_INTRA_SWITCH, 721.8e9, 8, 50e9, 0, false, 0, false},
	{&b200, 72, LK_INTRA_SWITCH, 721.8e9, 72, 50e9, 0, false, 0, false},
	{&mi300, 8, LK_INTRA_MESH, 336e9, 8, 50e9, 0, false, 0, false},
	{&l40s, 8, LK_INTRA_PCIE, 24e9, 1, 12.5e9, 0, false, 0, false},
};
enum { V100, A100, A100_EFA, H100, B200, NVL72, MI300, L40S, NODES };

static lk_group_shape group_of(int node, int ranks, int over) {
	return (lk_group_shape){&nodes[node], ranks, over, (ranks + over - 1) / over, 1, 1, NULL,
	                        NULL,         NULL,  0};
}

static double seconds(lk_coll_kind kind, int node, int ranks, int over, double bytes) {
	lk_group_shape group = group_of(node, ranks, over);
	return lk_collective_cost(kind, &group, bytes).seconds;
}

static void assert_near(double value, double expected, double tolerance) {
	if (!(fabs(value - expected) <= tolerance * fabs(expected)))
		fail_msg("%.9g, expected %.9g", value, expected);
}

static lk_nccl_site site_of(int node, int ranks, int over) {
	lk_group_shape group = group_of(node, ranks, over);
	lk_nccl_site site;
	lk_nccl_site_of(&group, &site);
	return site;
}

static void assert_graph(const lk_nccl_graph *graph, int channels, double rate) {
	assert_int_equal(graph->channels, channels);
	assert_near(graph->inter, rate, 1e-9);
}

static void test_graphs(void **state) {
	(void)state;
	lk_nccl_site site = site_of(A100, 8, 1);
	assert_graph(&site.ring, 12, 20);
	assert_false(site.nvls);
	site = site_of(A100, 32, 4);
	assert_graph(&site.ring, 8, 24);
	site = site_of(H100, 8, 1);
	assert_graph(&site.ring, 12, 30);
	assert_true(site.nvls);
	assert_int_equal(site.multicast.channels, 16);
	assert_near(site.multicast.intra, 20, 1e-9);
	site = site_of(H100, 64, 8);
	assert_graph(&site.ring, 8, 370.8 / 8); /* NVLink is a little slower than eight 400 Gb/s NICs */
	site = site_of(B200, 8, 1);
	assert_int_equal(site.multicast.channels, 24);
	site = site_of(L40S, 8, 1);
	assert_false(site.nvlink);
	site = site_of(MI300, 4, 1); /* three of seven links */
	assert_near(site.wire, 336. * 3 / 7, 1e-9);
	assert_near(site.pair_wire, 48, 1e-9);
}

static const double S = 1048576;

static double predicted(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto) {
	lk_nccl_estimate out;
	if (!lk_nccl_estimate_of(kind, site, algo, proto, S, &out))
		fail_msg("%s %s %s is not offered", lk_coll_name(kind), lk_algo_name(algo),
		         lk_proto_name(proto));
	return out.predicted;
}

/* NCCL's formulas worked by hand: latency + S / bandwidth, in us, on 8 A100 and on 2 and 4 nodes of
 * them. */
static void test_formulas(void **state) {
	(void)state;
	lk_nccl_site one = site_of(A100, 8, 1), two = site_of(A100, 16, 2), four = site_of(A100, 32, 4);
	lk_nccl_site hopper = site_of(H100, 8, 1), rail = site_of(A100, 16, 16);
	lk_coll_kind ar = LK_COLL_ALLREDUCE;
	assert_near(predicted(ar, &one, LK_ALGO_RING, LK_PROTO_LL),
	            6.6 + 14 * .6 + S / 1e3 / (87.7 * 8 / 14), 1e-12);
	assert_near(predicted(ar, &one, LK_ALGO_RING, LK_PROTO_LL128),
	            14 + 14 * 1.9 + S / 1e3 / (.92 * 240 * 8 / 14), 1e-12);
	assert_near(predicted(ar, &one, LK_ALGO_RING, LK_PROTO_SIMPLE),
	            8.4 + 14 * 3.4 + S / 1e3 / (240. * 8 / 14), 1e-12);
	/* log2(2^20 / 64) = 14: correction .5 (LL) and .5 (Simple) */
	assert_near(predicted(ar, &one, LK_ALGO_TREE, LK_PROTO_LL),
	            6.8 + 14 * .6 + S / 1e3 / (.92 * 240 / 3.8 * .5 * .5), 1e-12);
	assert_near(predicted(ar, &four, LK_ALGO_TREE, LK_PROTO_SIMPLE),
	            8.4 + 2 * (7 * 4. + 2 * 14.) + S / 1e3 / (8 * 17.8 * .5 * .5), 1e-12);
	assert_near(predicted(ar, &two, LK_ALGO_RING, LK_PROTO_LL),
	            6.6 + 28 * 1. + 2 * 2.7 + S / 1e3 / (22.5 * 16 / 30), 1e-12);
	assert_near(predicted(ar, &four, LK_ALGO_RING, LK_PROTO_SIMPLE),
	            1.4 * (8.4 + 56 * 3.4 + 6 * 14.) + S / 1e3 / (192. * 32 / 62), 1e-12);
	assert_near(predicted(ar, &hopper, LK_ALGO_NVLS, LK_PROTO_SIMPLE),
	            25 + S / 1e3 / (320 * .85 * 7 / 8 * 2 * 8 / 14), 1e-12);
	assert_near(predicted(LK_COLL_ALLGATHER, &one, LK_ALGO_RING, LK_PROTO_SIMPLE),
	            8.4 + 7 * 3.4 + S / 1e3 / (240. * 8 / 7), 1e-12);
	assert_near(predicted(LK_COLL_BROADCAST, &one, LK_ALGO_RING, LK_PROTO_SIMPLE),
	            8.4 + 3.4 + S / 1e3 / 240, 1e-12);
	assert_near(predicted(LK_COLL_ALLGATHER, &rail, LK_ALGO_PAT, LK_PROTO_SIMPLE),
	            8 + 4 * 14 / 3.5 + 2.8 * 16 + S / 1e3 / (.75 * 24), 1e-9);
}

static bool offers(lk_coll_kind kind, int node, int ranks, int over, lk_algo algo, lk_proto proto) {
	lk_nccl_site site = site_of(node, ranks, over);
	lk_nccl_estimate out;
	return lk_nccl_estimate_of(kind, &site, algo, proto, 1e6, &out);
}

static void test_what_is_offered(void **state) {
	(void)state;
	assert_true(offers(LK_COLL_ALLREDUCE, H100, 8, 1, LK_ALGO_NVLS, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_ALLREDUCE, H100, 8, 1, LK_ALGO_NVLS, LK_PROTO_LL));
	assert_false(offers(LK_COLL_ALLGATHER, H100, 8, 1, LK_ALGO_NVLS, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_ALLREDUCE, H100, 8, 1, LK_ALGO_NVLSTREE, LK_PROTO_SIMPLE));
	assert_true(offers(LK_COLL_ALLREDUCE, H100, 16, 2, LK_ALGO_NVLSTREE, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_ALLREDUCE, A100, 8, 1, LK_ALGO_NVLS, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_ALLREDUCE, MI300, 8, 1, LK_ALGO_NVLS, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_REDUCE, A100, 8, 1, LK_ALGO_TREE, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_ALLREDUCE, L40S, 8, 1, LK_ALGO_RING, LK_PROTO_LL128));
	assert_false(offers(LK_COLL_ALLREDUCE, A100_EFA, 16, 2, LK_ALGO_RING, LK_PROTO_LL128));
	assert_true(offers(LK_COLL_REDUCESCATTER, H100, 8, 8, LK_ALGO_PAT, LK_PROTO_SIMPLE));
	assert_false(offers(LK_COLL_REDUCESCATTER, H100, 8, 1, LK_ALGO_PAT, LK_PROTO_SIMPLE));
}

static void test_nothing_to_do(void **state) {
	(void)state;
	for (int kind = 0; kind < LK_COLLS; kind++) {
		assert_true(seconds((lk_coll_kind)kind, A100, 1, 1, 1e6) == 0);
		assert_true(seconds((lk_coll_kind)kind, A100, 8, 1, 0) == 0);
		assert_true(seconds((lk_coll_kind)kind, A100, 8, 1, -5) == 0);
		assert_true(seconds((lk_coll_kind)kind, A100, 8, 1, NAN) == 0);
	}
	assert_true(lk_p2p_cost(&nodes[A100], true, 1, 1, NULL, NULL, 0).seconds == 0);
}

static void assert_sane(const lk_coll_cost *cost, const char *what) {
	const double values[] = {cost->seconds, cost->busbw, cost->memory_rate, cost->intra_rate,
	                         cost->nic_rate};
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		if (!isfinite(values[i]) || values[i] < 0)
			fail_msg("%s: value %zu is %g", what, i, values[i]);
	if (!(cost->seconds > 0) || cost->channels < 1 || cost->channels > 64)
		fail_msg("%s: %g s, %d channels", what, cost->seconds, cost->channels);
}

/* Over shapes and sizes: sane, and growing with bytes as long as algorithm and protocol stay. */
static void test_grows_with_bytes(void **state) {
	(void)state;
	static const int shapes[][2] = {
		{2, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 2}, {16, 2}, {17, 3}, {32, 4}, {16, 16}, {1024, 128},
	};
	for (int kind = 0; kind < LK_COLLS; kind++)
		for (int node = 0; node < NODES; node++)
			for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
				lk_group_shape group = group_of(node, shapes[s][0], shapes[s][1]);
				lk_coll_cost before = {0};
				for (double bytes = 1; bytes < 1e12; bytes *= 1.07) {
					lk_coll_cost cost = lk_collective_cost((lk_coll_kind)kind, &group, bytes);
					assert_sane(&cost, lk_coll_name((lk_coll_kind)kind));
					bool same = cost.algo == before.algo && cost.proto == before.proto;
					if (same && cost.seconds < before.seconds * (1 - 1e-12))
						fail_msg("%s on node %d, %d ranks: %g bytes take %g s, fewer took %g",
						         lk_coll_name((lk_coll_kind)kind), node, shapes[s][0], bytes,
						         cost.seconds, before.seconds);
					before = cost;
				}
			}
}

/* No faster than the wires: what a GPU must send at its link rate, what a node must send at its
 * NICs'. */
static void test_physical_limits(void **state) {
	(void)state;
	static const int shapes[][2] = {{2, 1}, {8, 1}, {16, 2}, {24, 3}, {64, 8}};
	for (int kind = 0; kind < LK_COLL_BROADCAST; kind++)
		for (int node = 0; node < NODES; node++)
			for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
				lk_group_shape group = group_of(node, shapes[s][0], shapes[s][1]);
				double bytes = 1e9, n = group.ranks, ppn = n / group.nodes;
				lk_coll_cost cost = lk_collective_cost((lk_coll_kind)kind, &group, bytes);
				bool multicast = cost.algo == LK_ALGO_NVLS || cost.algo == LK_ALGO_NVLSTREE;
				double sent =
					bytes *
					(multicast ? (n + 1) / n : (kind == LK_COLL_ALLREDUCE ? 2 : 1) * (ppn - 1) / n);
				assert_true(cost.seconds >= sent / nodes[node].intra_rate);
				double out = kind == LK_COLL_ALLREDUCE ? bytes : bytes * (n - ppn) / n;
				if (kind == LK_COLL_ALLTOALL) out *= ppn;
				if (group.nodes > 1)
					assert_true(cost.seconds >= out / (nodes[node].nics * nodes[node].nic_rate));
				assert_true(cost.intra_rate <= nodes[node].intra_rate * 1.0001);
				assert_true(cost.nic_rate * ppn <=
				            nodes[node].nics * nodes[node].nic_rate * 1.0001);
			}
}

static void test_orderings(void **state) {
	(void)state;
	for (int node = 0; node < NODES; node++) {
		for (int over = 1; over <= 16; over *= 2) {
			int ranks = 8 * over;
			double all = seconds(LK_COLL_ALLREDUCE, node, ranks, over, 1e9);
			for (int kind = LK_COLL_ALLGATHER; kind <= LK_COLL_REDUCESCATTER; kind++) {
				double half = seconds((lk_coll_kind)kind, node, ranks, over, 1e9);
				if (all < half)
					fail_msg("node %d, %d nodes: %s takes %g s, all_reduce %g", node, over,
					         lk_coll_name((lk_coll_kind)kind), half, all);
			}
			for (int kind = 0; kind < LK_COLL_BROADCAST; kind++) {
				double more = seconds((lk_coll_kind)kind, node, 2 * ranks, 2 * over, 4e9);
				if (more < seconds((lk_coll_kind)kind, node, ranks, over, 4e9) * .999)
					fail_msg("%s: node %d, %d nodes are faster than %d",
					         lk_coll_name((lk_coll_kind)kind), node, 2 * over, over);
			}
		}
		double doubled = seconds(LK_COLL_ALLREDUCE, node, 8, 1, 8e9) /
		                 seconds(LK_COLL_ALLREDUCE, node, 8, 1, 4e9);
		assert_true(doubled > 1.95 && doubled <= 2);
	}
}

/* Groups that share a node's NICs divide them, and a thin fabric does too. */
static void test_sharing(void **state) {
	(void)state;
	for (int node = 0; node < NODES; node++) {
		lk_group_shape alone = {&nodes[node], 16, 16, 1, 1, 1, NULL, NULL, NULL, 0}, shared = alone,
					   thin = alone;
		shared.sharing = 8;
		thin.oversubscription = 8;
		for (int kind = 0; kind < LK_COLL_BROADCAST; kind++) {
			double a = lk_collective_cost((lk_coll_kind)kind, &alone, 4e9).seconds;
			double b = lk_collective_cost((lk_coll_kind)kind, &shared, 4e9).seconds;
			double c = lk_collective_cost((lk_coll_kind)kind, &thin, 4e9).seconds;
			assert_true(b >= a && c >= a);
		}
	}
	/* Eight groups through eight NICs: each has one of them. */
	lk_group_shape group = {&nodes[H100], 8, 8, 1, 8, 1, NULL, NULL, NULL, 0};
	lk_coll_cost cost = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 4e9);
	assert_near(cost.busbw, 50e9 * .95, .06);
	double once = lk_p2p_cost(&nodes[H100], false, 8, 1, NULL, NULL, 1e9).seconds;
	double thin = lk_p2p_cost(&nodes[H100], false, 8, 2, NULL, NULL, 1e9).seconds;
	assert_near(thin / once, 2, .01);
	assert_true(lk_p2p_cost(&nodes[H100], true, 1, 1, NULL, NULL, 1e9).seconds < once);
	for (int node = 0; node < NODES; node++) /* no message is faster than its NICs */
		assert_true(lk_p2p_cost(&nodes[node], false, 1, 1, NULL, NULL, 4e9).seconds >
		            4e9 / (nodes[node].nic_rate * fmax(1, nodes[node].nics / 8.)));
}

/* Slow networks: EFA's latency shows, and NICs that are absent or broken still give finite times.
 */
static void test_hostile_hardware(void **state) {
	(void)state;
	assert_true(seconds(LK_COLL_ALLREDUCE, A100_EFA, 16, 2, 8) >
	            seconds(LK_COLL_ALLREDUCE, A100, 16, 2, 8) + 100e-6);
	static const double bad[] = {0, -1, NAN, INFINITY, 1e-300, 1e300};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		lk_node node = {&h100, 8,      (lk_intra)(i % 3), bad[i], i % 2 ? -3 : 8, bad[i], bad[i],
		                i > 3, bad[i], i % 3 == 0};
		lk_group_shape group = {&node, 64, i % 2 ? -1 : 8, 8, -4, bad[i], NULL, NULL, NULL, 0};
		for (int kind = 0; kind < LK_COLLS; kind++)
			for (double bytes = 1; bytes < 1e300; bytes *= 1e30) {
				lk_coll_cost cost = lk_collective_cost((lk_coll_kind)kind, &group, bytes);
				assert_sane(&cost, "hostile");
			}
	}
	lk_group_shape most = {&nodes[L40S], INT32_MAX, INT32_MAX, 1,    INT32_MAX,
	                       1e9,          NULL,      NULL,      NULL, 0};
	lk_coll_cost cost = lk_collective_cost(LK_COLL_ALLREDUCE, &most, INFINITY);
	assert_sane(&cost, "largest");
}

static void test_channels(void **state) {
	(void)state;
	lk_group_shape a = group_of(A100, 8, 1), h = group_of(H100, 8, 1);
	assert_int_equal(lk_collective_cost(LK_COLL_ALLREDUCE, &a, 1e9).channels, 24);
	assert_int_equal(lk_collective_cost(LK_COLL_ALLREDUCE, &a, 4096).channels, 1);
	assert_int_equal(lk_collective_cost(LK_COLL_ALLGATHER, &h, 1e9).channels, 24);
	assert_int_equal(lk_collective_cost(LK_COLL_ALLREDUCE, &h, 1e9).channels, 16);
	assert_int_equal(lk_collective_cost(LK_COLL_ALLREDUCE, &h, 1e9).algo, LK_ALGO_NVLS);
	/* Ring traffic in memory: 5.5 S at n = 8, that is 3.14 times the bus bandwidth. */
	lk_coll_cost cost = lk_collective_cost(LK_COLL_ALLREDUCE, &a, 1e9);
	assert_near(cost.memory_rate / cost.busbw, 5.5 / 1.75, 1e-9);
}

static void test_names_and_factors(void **state) {
	(void)state;
	assert_string_equal(lk_coll_name(LK_COLL_REDUCESCATTER), "reduce_scatter");
	assert_string_equal(lk_algo_name(LK_ALGO_NVLSTREE), "NVLSTree");
	assert_string_equal(lk_proto_name(LK_PROTO_LL128), "LL128");
	assert_string_equal(lk_coll_name(LK_COLLS), "unknown");
	assert_near(lk_coll_busbw_factor(LK_COLL_ALLREDUCE, 8), 1.75, 1e-12);
	assert_near(lk_coll_busbw_factor(LK_COLL_ALLTOALL, 8), .875, 1e-12);
	assert_near(lk_coll_busbw_factor(LK_COLL_BROADCAST, 8), 1, 1e-12);
	assert_near(lk_coll_busbw_factor(LK_COLL_ALLREDUCE, 1), 1, 1e-12);
}

/* ---- measurements ---- */

struct bin {
	char name[96];
	double sum[3],
		bias[3]; /* of logarithms of predicted / measured: below 1 MB, above, and from 64 MB */
	int count[3];
};

struct report {
	struct bin bins[64];
	int count;
};

/* The node of a row, from what the data says of the fabric; false where it says too little to
 * predict. */
static bool measured_node(const char *gpu, const char *fabric, int over, lk_node *node) {
	if (strstr(fabric, "vidur") && over > 1) return false; /* the network is not stated */
	if (strstr(fabric, "not captured") || strstr(fabric, "LOW") || strstr(gpu, "A40")) return false;
	*node = nodes[strstr(gpu, "H100") ? H100 : strstr(fabric, "4x100G") ? A100_EFA : A100];
	if (!strstr(fabric, "pairwise")) return true;
	node->gpus = 4;
	node->intra = LK_INTRA_PCIE;
	node->intra_rate = node->device->pcie_rate;
	return true;
}

/* Of GPUs that have PCIe alone: up to four lie behind one CPU; of more, half sends to the other
 * half between two CPUs. */
/* Two nodes of A100 with eight NICs: NCCL's estimate is best for a ring, the model's time for a
 * tree. Where the fabric's NICs were measured NCCL's choice holds. */
static void test_a_measured_network_runs_what_nccl_chooses(void **state) {
	(void)state;
	lk_fabric fabric = lk_fabric_plain;
	lk_group_shape group = group_of(A100, 16, 2);
	group.fabric = &fabric;
	lk_coll_cost quickest = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 1 << 30);
	fabric.nic = .65;
	lk_coll_cost chosen = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 1 << 30);
	assert_int_equal(quickest.algo, LK_ALGO_TREE);
	assert_int_equal(chosen.algo, LK_ALGO_RING);
	assert_true(chosen.seconds > quickest.seconds);
	group = group_of(A100, 8, 1); /* no network, no choice of it */
	group.fabric = &fabric;
	chosen = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 1 << 20);
	fabric.nic = 0;
	quickest = lk_collective_cost(LK_COLL_ALLREDUCE, &group, 1 << 20);
	assert_int_equal(chosen.algo, quickest.algo);
	assert_true(chosen.seconds == quickest.seconds);
}

static void test_two_cpus(void **state) {
	(void)state;
	lk_nccl_site four, eight;
	lk_group_shape group = group_of(L40S, 4, 1);
	lk_nccl_site_of(&group, &four);
	group = group_of(L40S, 8, 1);
	lk_nccl_site_of(&group, &eight);
	assert_true(four.bridge == 0 && four.wire == 24 && eight.bridge == 16 && eight.wire == 16 &&
	            eight.pair_wire == 24);
	assert_true(lk_host_bridge_rate(&v100) == 10 && lk_host_bridge_rate(&h100) == 28);
	assert_true(lk_bridge_bytes(8, 8, 80) ==
	            160); /* each of four ranks sends ten to each of four */
	/* an all-to-all is never faster than that link, nor slower with fewer bytes */
	double last = 0;
	for (double bytes = 1e5; bytes < 1e9; bytes *= 10) {
		double time = seconds(LK_COLL_ALLTOALL, L40S, 8, 1, bytes);
		assert_true(time > last && time >= 2 * bytes / 16e9);
		last = time;
	}
	assert_true(seconds(LK_COLL_ALLREDUCE, L40S, 8, 1, 1e9) >
	            1.4 * seconds(LK_COLL_ALLREDUCE, L40S, 4, 1, 1e9));
}

static struct bin *bin_of(struct report *report, const char *name) {
	int i = 0;
	while (i < report->count && strcmp(report->bins[i].name, name) != 0) i++;
	assert_true(i < 64);
	if (i == report->count) {
		report->bins[i] = (struct bin){.count = {0, 0, 0}};
		snprintf(report->bins[i].name, sizeof report->bins[i].name, "%s", name);
		report->count++;
	}
	return &report->bins[i];
}

static void add(struct bin *bin, int size, double error) {
	bin->sum[size] += fabs(error);
	bin->bias[size] += error;
	bin->count[size]++;
}

static lk_coll_kind kind_of(const char *name) {
	for (int kind = 0; kind < LK_COLLS; kind++)
		if (strcmp(name, lk_coll_name((lk_coll_kind)kind)) == 0) return (lk_coll_kind)kind;
	return LK_COLL_ALLTOALL; /* nccl-tests write "alltoall" */
}

static const char *field(const lk_csv *csv, const char *name) {
	return lk_csv_field(csv, lk_csv_column(csv, name));
}

static void read_row(struct report *report, const lk_csv *csv) {
	const char *gpu = field(csv, "gpu"), *fabric = field(csv, "fabric");
	int n = atoi(field(csv, "n_gpu")), over = atoi(field(csv, "nodes"));
	double bytes = atof(field(csv, "size_bytes")), us = atof(field(csv, "time_us"));
	lk_coll_kind kind = kind_of(field(csv, "collective"));
	lk_node node;
	if (!(us > 0) || !measured_node(gpu, fabric, over, &node)) return;
	if (strstr(fabric, "pairwise") && n == 2) {
		node.gpus = 2;
		node.intra = LK_INTRA_MESH;
		node.intra_rate = node.device->link_rate;
	}
	lk_group_shape group = {&node, n, over, (n + over - 1) / over, 1, 1, NULL, NULL, NULL, 0};
	double error = log(lk_collective_cost(kind, &group, bytes).seconds * 1e6 / us);
	char name[96];
	snprintf(name, sizeof name, "%s, %s, %d GPUs", fabric, lk_coll_name(kind), n);
	add(bin_of(report, name), bytes >= 1e6, error);
	if (bytes < 64e6) return;
	add(bin_of(report, name), 2, error);
	if (strstr(fabric, "NDv4")) add(bin_of(report, "NDv4, all"), 2, error);
}

static double percent(double sum, int count) {
	return count > 0 ? 100 * (exp(sum / count) - 1) : 0;
}

static void print_report(const struct report *report) {
	print_message(
		"geometric mean error (and bias) in %% and rows: below 1 MB, from 1 MB, from 64 MB\n");
	for (int i = 0; i < report->count; i++) {
		const struct bin *bin = &report->bins[i];
		print_message("  %-62.62s", bin->name);
		for (int s = 0; s < 3; s++) {
			double error = percent(bin->sum[s], bin->count[s]),
				   bias = percent(bin->bias[s], bin->count[s]);
			print_message("  %5.1f (%+6.1f) %3d", error, bias, bin->count[s]);
		}
		print_message("\n");
	}
}

static void test_measurements(void **state) {
	(void)state;
	lk_stream *in = NULL;
	lk_csv *csv = NULL;
	lk_error err = {0};
	assert_int_equal(lk_stream_open(need_data("measured/collectives.csv"), &in, &err), LK_OK);
	assert_int_equal(lk_csv_open(in, &csv, &err), LK_OK);
	static struct report r;
	r.count = 0;
	for (bool more = true;;) {
		assert_int_equal(lk_csv_next(csv, &more, &err), LK_OK);
		if (!more) break;
		read_row(&r, csv);
	}
	lk_csv_close(csv);
	lk_stream_close(in);
	print_report(&r);
	const struct bin *ndv4 = bin_of(&r, "NDv4, all");
	assert_true(ndv4->count[2] > 20);
	assert_true(percent(ndv4->sum[2], ndv4->count[2]) < 15);
}

/* The GPUs that a bridge joins are as two GPUs with nothing but that bridge; all others of the node
 * are as without bridges. A host that refuses peer access slows those others alone. */
static void test_bridges(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_cluster bridged, plain, alone, refused;
	assert_int_equal(lk_cluster_parse(&arena, "1 node * 4 a40 bridges", &bridged, NULL), LK_OK);
	assert_int_equal(lk_cluster_parse(&arena, "1 node * 4 a40 pcie", &plain, NULL), LK_OK);
	assert_int_equal(lk_cluster_parse(&arena, "1 node * 2 a40 nvlink", &alone, NULL), LK_OK);
	assert_int_equal(lk_cluster_parse(&arena, "1 node * 4 a40 bridges, nop2p", &refused, NULL),
	                 LK_OK);
	for (double bytes = 1024; bytes < 1e9; bytes *= 4)
		for (int kind = 0; kind < LK_COLLS; kind++) {
			const lk_node *wired[] = {bridged.node, plain.node, alone.node, refused.node};
			double pair[4], apart[4], four[4];
			for (int i = 0; i < 4; i++) {
				lk_group_shape group = {.node = wired[i], .ranks = 2, .nodes = 1};
				group.ranks_per_node = 2, group.sharing = 1, group.oversubscription = 1;
				pair[i] = lk_collective_cost((lk_coll_kind)kind, &group, bytes).seconds;
				group.apart = 2;
				apart[i] = lk_collective_cost((lk_coll_kind)kind, &group, bytes).seconds;
				group.apart = 1, group.ranks = group.ranks_per_node = 4;
				four[i] = lk_collective_cost((lk_coll_kind)kind, &group, bytes).seconds;
			}
			assert_true(pair[0] == pair[2] && pair[3] == pair[0]);
			assert_true(four[0] == four[1] && apart[0] == apart[1]);
			assert_true(apart[3] >= apart[0] && four[3] >= four[0]);
			if (bytes < 1e8) continue;
			assert_true(pair[0] < 0.9 * apart[0]);
			assert_true(apart[3] > 3 * apart[0] && four[3] > 3 * four[0]);
		}
	lk_arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bridges),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_what_is_offered),
		cmocka_unit_test(test_nothing_to_do),
		cmocka_unit_test(test_grows_with_bytes),
		cmocka_unit_test(test_physical_limits),
		cmocka_unit_test(test_orderings),
		cmocka_unit_test(test_sharing),
		cmocka_unit_test(test_hostile_hardware),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_two_cpus),
		cmocka_unit_test(test_names_and_factors),
		cmocka_unit_test(test_measurements),
		cmocka_unit_test(test_a_measured_network_runs_what_nccl_chooses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
