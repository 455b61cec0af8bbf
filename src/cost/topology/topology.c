/* topology.c: a network as links with capacities, and the route of a flow over them.
 *
 * Rates are in units of B, the line rate of all NICs of a node. The uplinks of a tree's switch have
 * the capacity of its downlinks divided by its ratio, or as stated: a leaf of s nodes at k:1 has s
 * B / k each way, one rail of R of it s B / (R k). The links of a switch to its parents count as
 * one, as flows are spread over them evenly: two flows hashed onto one link (ECMP) are not
 * modelled. */
#include "cost/topology/topology.h"

#include "base/check.h"

enum { UP, DOWN };

static bool is_tree(const lk_net_links *topology) {
	return topology->net->kind == LK_NET_TREE || topology->net->kind == LK_NET_RAILS;
}

static uint32_t of_each(uint32_t count, int size) {
	return (count + (uint32_t)size - 1) / (uint32_t)size;
}

static uint32_t torus_size(const lk_net_links *topology, int dimension) {
	return dimension < topology->net->sizes ? (uint32_t)topology->net->size[dimension] : 1;
}

/* Count the links that the nodes need. */
static void topology_count(lk_net_links *topology) {
	const lk_interconnect *net = topology->net;
	if (is_tree(topology)) {
		uint32_t under = topology->nodes;
		for (int tier = 0; tier < net->sizes; tier++) {
			under = of_each(under, net->size[tier]);
			topology->switches[tier] = tier ? under : under * topology->rails;
			topology->links += 2 * topology->switches[tier];
		}
	} else if (net->kind == LK_NET_DRAGONFLY) {
		uint32_t routers = (uint32_t)net->size[1];
		topology->groups = of_each(of_each(topology->nodes, net->size[0]), net->size[1]);
		topology->links = topology->groups * (routers * routers + routers * (uint32_t)net->size[2]);
	} else {
		topology->links = torus_size(topology, 0) * torus_size(topology, 1) *
		                  torus_size(topology, 2) * LK_TIERS * 2;
	}
}

lk_net_links lk_topology_of_places(const lk_interconnect *net, uint32_t places, double node_rate) {
	lk_net_links topology = {
		.net = net, .nodes = places, .rails = 1, .crosses = true, .node_rate = node_rate};
	LK_ASSERT(net->kind != LK_NET_FLAT && net->kind != LK_NET_RAILS);
	topology_count(&topology);
	return topology;
}

lk_net_links lk_topology_of(const lk_cluster *cluster) {
	const lk_interconnect *net = &cluster->net;
	lk_net_links topology = {.net = net, .rails = 1, .crosses = true};
	LK_ASSERT(net->kind != LK_NET_FLAT);
	for (int g = 0; g < cluster->groups; g++) {
		const lk_node *node = &cluster->node[g];
		double rate = node->nics * node->nic_rate;
		topology.nodes += (uint32_t)cluster->nodes[g];
		if (rate > topology.node_rate) topology.node_rate = rate;
		if (node->intra == LK_INTRA_PCIE) topology.crosses = false;
	}
	if (net->kind == LK_NET_RAILS) topology.rails = (uint32_t)cluster->node[0].nics;
	topology_count(&topology);
	return topology;
}

/* ---- links by number ----
 * Trees: tier by tier, switch by switch, up and down. Dragonfly: from each router of a group to
 * each of the same group, for all groups; then the ports of each group to others. Torus: for each
 * place, dimension by dimension, forward and back. */

static uint32_t dragonfly_locals(const lk_net_links *topology) {
	uint32_t routers = (uint32_t)topology->net->size[1];
	return topology->groups * routers * routers;
}

int lk_link_tier(const lk_net_links *topology, uint32_t link) {
	LK_ASSERT(link < topology->links);
	if (topology->net->kind == LK_NET_TORUS) return (int)(link / 2 % LK_TIERS);
	if (topology->net->kind == LK_NET_DRAGONFLY) return link < dragonfly_locals(topology) ? 0 : 1;
	int tier = 0;
	while (link >= 2 * topology->switches[tier]) link -= 2 * topology->switches[tier++];
	return tier;
}

double lk_link_capacity(const lk_net_links *topology, uint32_t link) {
	const lk_interconnect *net = topology->net;
	int tier = lk_link_tier(topology, link);
	double whole = 1;
	if (is_tree(topology)) {
		whole = 1.0 / topology->rails;
		for (int t = 0; t <= tier; t++) {
			whole *= net->size[t] / net->ratio[t];
			if (t == 1) whole *= topology->rails; /* spine switches join all rails */
			if (net->rate[t] > 0) whole = net->rate[t] / topology->node_rate;
		}
	} else if (net->rate[tier] > 0) {
		whole = net->rate[tier] / topology->node_rate;
	}
	return whole * (1 - net->background[tier]);
}

double lk_link_latency(const lk_net_links *topology, uint32_t link) {
	double latency = topology->net->latency_s[lk_link_tier(topology, link)];
	return is_tree(topology) ? latency / 2 : latency;
}

/* ---- routes ---- */

static bool way_add(lk_link_loads *out, uint32_t link, double load) {
	if (!lk_push(out)) return false;
	*lk_last(out) = (lk_link_load){link, load};
	return true;
}

static bool tree_route(const lk_net_links *topology, lk_port from, lk_port to, lk_link_loads *out) {
	uint32_t first = 0, a = from.node / (uint32_t)topology->net->size[0],
			 b = to.node / (uint32_t)topology->net->size[0];
	uint32_t leaf_a = a * topology->rails + from.rail, leaf_b = b * topology->rails + to.rail;
	for (int tier = 0; tier < topology->net->sizes; tier++) {
		if (tier > 0) {
			leaf_a = a /= (uint32_t)topology->net->size[tier];
			leaf_b = b /= (uint32_t)topology->net->size[tier];
		}
		if (leaf_a == leaf_b) return true;
		if (!way_add(out, first + 2 * leaf_a + UP, 1) ||
		    !way_add(out, first + 2 * leaf_b + DOWN, 1))
			return false;
		first += 2 * topology->switches[tier];
	}
	return true;
}

/* Within a group over the link between both routers; none if they are the same. */
static bool local_route(const lk_net_links *topology, uint32_t group, uint32_t from, uint32_t to,
                        double share, lk_link_loads *out) {
	uint32_t routers = (uint32_t)topology->net->size[1];
	return from == to || way_add(out, (group * routers + from) * routers + to, share);
}

/* Port q of group g, on router q / h, leads to group g + 1 + q mod (G - 1): all pairs of groups
 * have equally many links, to within one. The n-th port from a to b is the other end of the n-th
 * from b to a; if one side has one port more, only the common ones are used. */
static bool dragonfly_route(const lk_net_links *topology, uint32_t from, uint32_t to,
                            lk_link_loads *out) {
	uint32_t under = (uint32_t)topology->net->size[0], routers = (uint32_t)topology->net->size[1],
			 links = (uint32_t)topology->net->size[2], ports = routers * links;
	uint32_t router_a = from / under % routers, router_b = to / under % routers,
			 a = from / under / routers, b = to / under / routers;
	if (a == b) return local_route(topology, a, router_a, router_b, 1, out);
	uint32_t others = topology->groups - 1;
	uint32_t there = (b + topology->groups - a) % topology->groups - 1, back = others - 1 - there;
	uint32_t last = there > back ? there : back, count = 1 + (ports - 1 - last) / others;
	LK_ASSERT(last < ports); /* lk_interconnect_fits */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t out_port = there + i * others, in_port = back + i * others;
		double share = 1.0 / count;
		if (!local_route(topology, a, router_a, out_port / links, share, out) ||
		    !way_add(out, dragonfly_locals(topology) + a * ports + out_port, share) ||
		    !local_route(topology, b, in_port / links, router_b, share, out))
			return false;
	}
	return true;
}

/* `steps` links along a dimension, from *place, forward or back. */
static bool torus_walk(const lk_net_links *topology, uint32_t place[LK_TIERS], int dimension,
                       uint32_t steps, int way, double share, lk_link_loads *out) {
	uint32_t at[LK_TIERS] = {place[0], place[1], place[2]}, size = torus_size(topology, dimension);
	for (; steps > 0; steps--) {
		uint32_t node = at[0] + torus_size(topology, 0) * (at[1] + torus_size(topology, 1) * at[2]);
		if (!way_add(out, (node * LK_TIERS + (uint32_t)dimension) * 2 + (uint32_t)way, share))
			return false;
		at[dimension] = (at[dimension] + (way == UP ? 1 : size - 1)) % size;
	}
	return true;
}

static bool torus_route(const lk_net_links *topology, uint32_t from, uint32_t to,
                        lk_link_loads *out) {
	uint32_t place[LK_TIERS], goal[LK_TIERS];
	for (int i = 0; i < LK_TIERS; i++) {
		uint32_t size = torus_size(topology, i);
		place[i] = from % size, from /= size;
		goal[i] = to % size, to /= size;
	}
	for (int i = 0; i < LK_TIERS; i++) {
		uint32_t size = torus_size(topology, i), onwards = (goal[i] + size - place[i]) % size,
				 back = (size - onwards) % size;
		double share = onwards == back ? 0.5 : 1;
		if (onwards <= back && !torus_walk(topology, place, i, onwards, UP, share, out))
			return false;
		if (back <= onwards && !torus_walk(topology, place, i, back, DOWN, share, out))
			return false;
		place[i] = goal[i];
	}
	return true;
}

bool lk_topology_route(const lk_net_links *topology, lk_port from, lk_port to, lk_link_loads *out) {
	LK_ASSERT(from.rail < topology->rails && to.rail < topology->rails);
	if (from.node == to.node && from.rail == to.rail) return true;
	if (is_tree(topology)) return tree_route(topology, from, to, out);
	if (topology->net->kind == LK_NET_DRAGONFLY)
		return dragonfly_route(topology, from.node, to.node, out);
	return torus_route(topology, from.node, to.node, out);
}
