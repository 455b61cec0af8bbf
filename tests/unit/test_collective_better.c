/* test_collective_better.c: no collective takes longer on better hardware: faster links, more or
 * faster NICs, less latency, fewer groups that share them, a newer GPU, a switch in place of links,
 * RDMA in place of sockets, a domain of twice the GPUs. On random nodes, groups and sizes; each
 * case betters one thing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/stats.h"
#include "cost/collective/collective.h"
#include "rounds.h"

static uint64_t next_random(uint64_t *state) {
	return lk_hash64(*state += 0x9e3779b97f4a7c15u);
}

#define PICK(state, of) ((of)[next_random(state) % (sizeof(of) / sizeof *(of))])

static double random_between(uint64_t *state, double low, double high) {
	double share = (double)(next_random(state) >> 11) / 9007199254740992.;
	return low * pow(high / low, share);
}

/* By generation; a newer one has slots as fast or faster. */
static const lk_device devices[] = {
	{.arch = LK_ARCH_VOLTA, .links = 6, .link_rate = 120e9, .pcie_rate = 12e9},
	{.arch = LK_ARCH_AMPERE, .links = 12, .link_rate = 240e9, .pcie_rate = 24e9},
	{.arch = LK_ARCH_HOPPER, .links = 18, .link_rate = 370.8e9, .pcie_rate = 48e9},
	{.arch = LK_ARCH_BLACKWELL, .links = 18, .link_rate = 721.8e9, .pcie_rate = 48e9},
};
enum { DEVICES = sizeof devices / sizeof *devices };

/* What is made better. */
typedef enum lk_better {
	FASTER_LINKS,
	FASTER_NICS,
	MORE_NICS,
	LESS_LATENCY,
	LESS_SHARING,
	LESS_OVERSUBSCRIPTION,
	NEWER_GPU,
	SWITCH_FOR_LINKS,
	RDMA_FOR_SOCKETS,
	LARGER_DOMAIN,
	BETTERS,
} lk_better;

static const char *const better_names[BETTERS] = {
	"faster links",          "faster NICs", "more NICs", "less latency", "less sharing",
	"less oversubscription", "a newer GPU", "a switch",  "RDMA",         "twice the domain",
};

struct drawn {
	lk_node node;
	lk_group_shape group;
	lk_nccl_settings settings;
	lk_coll_kind kind;
	double bytes;
	int device;
};

static void draw_case(uint64_t *state, struct drawn *drawn) {
	static const int gpus[] = {1, 2, 4, 8, 8, 8, 16, 36, 72},
					 nodes[] = {1, 1, 2, 2, 3, 4, 8, 24, 128}, nics[] = {1, 2, 4, 8, 16},
					 shared[] = {1, 1, 1, 2, 8};
	static const double nic_rates[] = {1.25e9, 3.1e9, 12.5e9, 25e9, 50e9, 100e9},
						thin[] = {1, 1, 1.5, 4}, latencies[] = {0, 0, 35e-6, 75e-6};
	static const char *const settings[] = {"", "", "2.18.5", "2.21", "2.27"};
	*drawn = (struct drawn){0};
	drawn->device = (int)(next_random(state) % DEVICES);
	lk_node *node = &drawn->node;
	node->device = &devices[drawn->device];
	node->gpus = PICK(state, gpus);
	node->intra = (lk_intra)(next_random(state) % 3);
	node->intra_rate =
		node->intra == LK_INTRA_PCIE ? node->device->pcie_rate : random_between(state, 30e9, 1e12);
	node->nics = PICK(state, nics);
	node->nic_rate = PICK(state, nic_rates);
	node->nic_latency_s = PICK(state, latencies);
	if (next_random(state) % 4 == 0)
		node->transport = LK_TRANSPORT_SOCKETS + (lk_transport)(next_random(state) % 3);
	lk_group_shape *group = &drawn->group;
	group->nodes = PICK(state, nodes);
	group->ranks = group->nodes * (1 + (int)(next_random(state) % (uint64_t)node->gpus));
	if (group->ranks < 2) group->ranks = group->nodes = 2;
	group->ranks_per_node = group->ranks / group->nodes;
	group->sharing = PICK(state, shared);
	group->oversubscription = PICK(state, thin);
	drawn->kind = (lk_coll_kind)(next_random(state) % LK_COLLS);
	drawn->bytes = floor(random_between(state, 8, 4e10));
	lk_error err;
	assert_int_equal(lk_nccl_settings_read(PICK(state, settings), "", &drawn->settings, &err),
	                 LK_OK);
}

/* False where the case has nothing of that kind to better. */
static bool better_case(uint64_t *state, lk_better what, struct drawn *drawn) {
	lk_node *node = &drawn->node;
	lk_group_shape *group = &drawn->group;
	double factor = random_between(state, 1.001, 8);
	switch (what) {
	case FASTER_LINKS: node->intra_rate *= factor; return true;
	case FASTER_NICS: node->nic_rate *= factor; return true;
	case MORE_NICS: node->nics *= 2; return true;
	case LESS_LATENCY:
		if (node->nic_latency_s == 0) return false;
		node->nic_latency_s = next_random(state) % 2 ? 0 : node->nic_latency_s / factor;
		return true;
	case LESS_SHARING:
		if (group->sharing < 2) return false;
		group->sharing /= 2;
		return true;
	case LESS_OVERSUBSCRIPTION:
		if (group->oversubscription <= 1) return false;
		group->oversubscription = 1;
		return true;
	case NEWER_GPU:
		if (drawn->device + 1 == DEVICES) return false;
		node->device = &devices[drawn->device + 1];
		if (node->intra == LK_INTRA_PCIE) node->intra_rate = node->device->pcie_rate;
		else node->intra_rate *= node->device->link_rate / devices[drawn->device].link_rate;
		return true;
	case SWITCH_FOR_LINKS:
		if (node->intra == LK_INTRA_SWITCH) return false;
		/* a direct link passes a message faster than a switch does */
		if (node->intra == LK_INTRA_MESH && node->gpus <= 2) return false;
		if (node->intra == LK_INTRA_PCIE) node->intra_rate = node->device->link_rate;
		node->intra = LK_INTRA_SWITCH;
		return true;
	case RDMA_FOR_SOCKETS:
		if (node->transport == LK_TRANSPORT_RDMA) return false;
		node->transport = LK_TRANSPORT_RDMA;
		return true;
	default:
		if (node->intra != LK_INTRA_SWITCH || group->nodes % 2 != 0 || group->nodes < 2)
			return false;
		if (2 * node->nic_rate * fmax(1, (double)node->nics / node->gpus) > node->intra_rate)
			return false;
		node->gpus *= 2, node->nics *= 2, group->nodes /= 2, group->ranks_per_node *= 2;
		return true;
	}
}

static lk_coll_cost cost_of(struct drawn *drawn) {
	drawn->group.node = &drawn->node;
	drawn->group.settings = &drawn->settings;
	return lk_collective_cost(drawn->kind, &drawn->group, drawn->bytes);
}

static void say_case(struct drawn *drawn) {
	static const char *const wires[] = {"PCIe", "links", "switch"};
	const lk_node *node = &drawn->node;
	const lk_group_shape *group = &drawn->group;
	lk_coll_cost cost = cost_of(drawn);
	print_message("%s of %.0f B, %d ranks on %d nodes of %d %s, %s %.4g GB/s, %d NICs of %.4g GB/s "
	              "%.3g us%s, %d share, oversubscribed %.3g, NCCL %d: %.9g s by %s %s\n",
	              lk_coll_name(drawn->kind), drawn->bytes, group->ranks, group->nodes, node->gpus,
	              lk_arch_name(node->device->arch), wires[node->intra], node->intra_rate / 1e9,
	              node->nics, node->nic_rate / 1e9, node->nic_latency_s * 1e6,
	              node->transport ? " sockets" : "", group->sharing, group->oversubscription,
	              drawn->settings.release, cost.seconds, lk_algo_name(cost.algo),
	              lk_proto_name(cost.proto));
}

/* NCCL joins racks by their multicast although trees would be faster. */
static bool joins_racks(const struct drawn *drawn) {
	return drawn->kind == LK_COLL_ALLREDUCE && drawn->node.intra == LK_INTRA_SWITCH &&
	       drawn->group.nodes > 1 && drawn->group.ranks_per_node > 16;
}

/* Hops through newer links and switches take longer, as measured: of these only the largest sizes,
 * where links decide, are compared. */
static void better_is_never_slower(void **unused) {
	(void)unused;
	uint64_t state = 4;
	int seen[BETTERS] = {0}, slower[BETTERS] = {0}, worst = 0;
	for (int cases = 0, count = trials(10000); cases < count;) {
		struct drawn plain, better;
		lk_better what = (lk_better)(next_random(&state) % BETTERS);
		draw_case(&state, &plain);
		better = plain;
		if (!better_case(&state, what, &better)) continue;
		cases++;
		seen[what]++;
		if (joins_racks(&plain) || joins_racks(&better)) continue;
		bool hops = what == NEWER_GPU || what == SWITCH_FOR_LINKS;
		if (hops) plain.bytes = better.bytes = 1e15;
		if (cost_of(&better).seconds <= cost_of(&plain).seconds * (1 + (hops ? 1e-3 : 1e-9)))
			continue;
		if (slower[what]++ || worst++ > 20) continue;
		print_message("%s:\n", better_names[what]);
		say_case(&plain);
		say_case(&better);
	}
	for (int what = 0; what < BETTERS; what++) {
		if (slower[what])
			print_message("%s: %d of %d slower\n", better_names[what], slower[what], seen[what]);
		assert_true(seen[what] > 0);
	}
	assert_int_equal(worst, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(better_is_never_slower)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
