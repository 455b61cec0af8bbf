/* users.c: traffic of collectives over the links of a network, and the share of each.
 *
 * A group is a user with a load on every link that its flows go over while its busiest node sends
 * at the NICs' line rate. Its flows proceed at one pace r: steps of a collective wait for one
 * another. Rates are max-min fair (Bertsekas and Gallager, Data Networks, 6.5.2) by filling: all
 * rates rise together until a link is full; its users keep their rate, the others continue to rise:
 *
 *     r = min over links of (capacity - what settled users take) / load of the others, at most 1
 *
 * A single user gets the least capacity / load: the slowest link. */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/sort.h"
#include "cost/topology/topology.h"

bool lk_stations_add(lk_stations *stations, uint32_t node, uint32_t rail) {
	bool fresh = !stations->at.count || lk_last(&stations->at)->node != node;
	if (fresh) {
		if (!lk_push(&stations->at)) return false;
		lk_last(&stations->at)->node = node;
		lk_last(&stations->at)->begin = (uint32_t)stations->rail.count;
	}
	if (!lk_push(&stations->rail)) return false;
	*lk_last(&stations->rail) = rail;
	lk_last(&stations->at)->end = (uint32_t)stations->rail.count;
	return true;
}

void lk_stations_clear(lk_stations *stations) {
	stations->at.count = stations->rail.count = 0;
}

void lk_stations_free(lk_stations *stations) {
	lk_vec_free(&stations->at);
	lk_vec_free(&stations->rail);
}

lk_status lk_users_begin(const lk_net_links *topology, lk_users *users, lk_error *err) {
	*users = (lk_users){.topology = topology};
	users->on = calloc(topology->links, sizeof *users->on);
	return users->on ? LK_OK : lk_oom(err);
}

void lk_users_free(lk_users *users) {
	lk_vec_free(&users->begin);
	lk_vec_free(&users->loads);
	lk_vec_free(&users->rate);
	lk_vec_free(&users->latency);
	lk_vec_free(&users->way);
	free(users->on);
}

/* ---- flows ---- */

/* Add load to a link of the user. */
static bool user_load(lk_users *users, uint32_t link, double load) {
	if (users->on[link] == 0) { /* its place in the list; the load is filled in later */
		if (!lk_push(&users->loads)) return false;
		lk_last(&users->loads)->link = link;
	}
	users->on[link] += load;
	return true;
}

static double way_latency(const lk_users *users) {
	double latency = 0;
	for (size_t i = 0; i < users->way.count; i++)
		latency += users->way.at[i].load * lk_link_latency(users->topology, users->way.at[i].link);
	return latency;
}

static bool user_send_port(lk_users *users, lk_port from, lk_port to, double load) {
	users->way.count = 0;
	if (!lk_topology_route(users->topology, from, to, &users->way)) return false;
	for (size_t i = 0; i < users->way.count; i++)
		if (!user_load(users, users->way.at[i].link, load * users->way.at[i].load)) return false;
	double latency = way_latency(users);
	users->longest = fmax(users->longest, latency);
	users->mean += load * latency;
	return true;
}

/* Send from one node to another, over the rails of the members there, with an equal part to each
 * member. Over the node's own links it reaches the receiver's rail (NCCL's PXN); else it leaves on
 * the sender's rail: in an all-to-all all members send, otherwise their counterparts. */
static bool user_send(lk_users *users, const lk_stations *stations, uint32_t from, uint32_t to,
                      lk_traffic flow, double load) {
	const lk_station *a = &stations->at.at[from], *b = &stations->at.at[to];
	uint32_t senders = a->end - a->begin, receivers = b->end - b->begin;
	if (users->topology->rails == 1)
		return user_send_port(users, (lk_port){a->node, 0}, (lk_port){b->node, 0}, load);
	for (uint32_t i = 0; i < receivers; i++) {
		lk_port port = {b->node, stations->rail.at[b->begin + i]};
		double part = load / receivers;
		uint32_t first = i % senders, end = first + 1;
		if (users->topology->crosses) {
			if (!user_send_port(users, (lk_port){a->node, port.rail}, port, part)) return false;
			continue;
		}
		if (flow == LK_TRAFFIC_ALLTOALL) first = 0, end = senders;
		for (uint32_t s = first; s < end; s++) {
			lk_port own = {a->node, stations->rail.at[a->begin + s]};
			if (!user_send_port(users, own, port, part / (end - first))) return false;
		}
	}
	return true;
}

/* The parent in the binary tree of NCCL over ranks 0 to n - 1 (trees.cc, ncclGetBtree): rank r,
 * whose lowest set bit is b, is a child of (r - b) | 2 b, or of r - b if that exceeds n - 1. */
static uint32_t btree_parent(uint32_t rank, uint32_t n) {
	uint32_t bit = rank & -rank, above = (rank ^ bit) | bit << 1;
	return above < n ? above : rank ^ bit;
}

/* Both trees: the second is the first mirrored for an even n, shifted by one for an odd one. The
 * busiest node sends the bytes of the call twice, or once with two nodes. */
static bool user_send_trees(lk_users *users, const lk_stations *stations, double demand) {
	uint32_t n = (uint32_t)stations->at.count;
	double load = demand * 0.5 / (n == 2 ? 1 : 2);
	for (uint32_t rank = 1; rank < n; rank++) {
		uint32_t parent = btree_parent(rank, n);
		bool even = n % 2 == 0;
		uint32_t other = even ? n - 1 - rank : (rank + 1) % n,
				 other_parent = even ? n - 1 - parent : (parent + 1) % n;
		if (!user_send(users, stations, rank, parent, LK_TRAFFIC_TREE, load) ||
		    !user_send(users, stations, parent, rank, LK_TRAFFIC_TREE, load) ||
		    !user_send(users, stations, other, other_parent, LK_TRAFFIC_TREE, load) ||
		    !user_send(users, stations, other_parent, other, LK_TRAFFIC_TREE, load))
			return false;
	}
	return true;
}

static bool user_send_doubling(lk_users *users, const lk_stations *stations, double demand) {
	uint32_t n = (uint32_t)stations->at.count, top = 1;
	while (top < n) top *= 2;
	for (uint32_t distance = 1; distance < n; distance *= 2)
		for (uint32_t i = 0; i < n; i++)
			if (!user_send(users, stations, i, (i + distance) % n, LK_TRAFFIC_DOUBLING,
			               demand * (top / 2.0 / distance) / (top - 1)))
				return false;
	return true;
}

LK_ORDER_BY(way_order, lk_link_load, link)

/* Switches that reduce forward one stream, whatever the number of nodes under them: each link on
 * the way to the common switch carries it once up and once down, on each of its rails. */
static bool user_send_switches(lk_users *users, const lk_stations *stations, double demand) {
	const lk_net_links *topology = users->topology;
	const lk_station *first = &stations->at.at[0];
	double part = demand / (first->end - first->begin);
	for (uint32_t r = first->begin; r < first->end; r++) {
		uint32_t rail = topology->rails == 1 ? 0 : stations->rail.at[r];
		lk_port root = {first->node, rail};
		users->way.count = 0;
		for (size_t i = 1; i < stations->at.count; i++) {
			lk_port leaf = {stations->at.at[i].node, rail};
			size_t begin = users->way.count;
			if (!lk_topology_route(topology, root, leaf, &users->way) ||
			    !lk_topology_route(topology, leaf, root, &users->way))
				return false;
			double latency = 0;
			for (size_t w = begin; w < users->way.count; w++)
				latency += lk_link_latency(topology, users->way.at[w].link);
			users->longest = fmax(users->longest, latency / 2);
		}
		lk_sort(users->way.at, users->way.count, sizeof *users->way.at, way_order);
		for (size_t w = 0; w < users->way.count; w++) {
			bool again = w > 0 && users->way.at[w].link == users->way.at[w - 1].link;
			if (!again && !user_load(users, users->way.at[w].link, part)) return false;
		}
	}
	return true;
}

static bool user_send_all(lk_users *users, const lk_stations *stations, lk_traffic flow,
                          double demand) {
	uint32_t n = (uint32_t)stations->at.count;
	switch (flow) {
	case LK_TRAFFIC_TREE: return user_send_trees(users, stations, demand);
	case LK_TRAFFIC_DOUBLING: return user_send_doubling(users, stations, demand);
	case LK_TRAFFIC_SWITCHES: return user_send_switches(users, stations, demand);
	case LK_TRAFFIC_ALLTOALL:
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = 0; j < n; j++)
				if (i != j && !user_send(users, stations, i, j, flow, demand / (n - 1)))
					return false;
		return true;
	default:
		for (uint32_t i = 0; i + (flow == LK_TRAFFIC_CHAIN) < n; i++)
			if (!user_send(users, stations, i, (i + 1) % n, flow, demand)) return false;
		return true;
	}
}

lk_status lk_users_add(lk_users *users, const lk_stations *stations, lk_traffic flow, double demand,
                       lk_error *err) {
	LK_ASSERT(demand >= 0);
	size_t begin = users->loads.count;
	if (!lk_push(&users->begin) || !lk_push(&users->latency)) return lk_oom(err);
	*lk_last(&users->begin) = (uint32_t)begin;
	users->longest = users->mean = 0;
	bool whole =
		stations->at.count < 2 || !(demand > 0) || user_send_all(users, stations, flow, demand);
	for (size_t i = begin; i < users->loads.count; i++) {
		lk_link_load *link = &users->loads.at[i];
		link->load = users->on[link->link];
		users->on[link->link] = 0;
	}
	bool ring = flow == LK_TRAFFIC_RING && demand > 0;
	*lk_last(&users->latency) =
		ring ? users->mean / (demand * (double)stations->at.count) : users->longest;
	return whole ? LK_OK : lk_oom(err);
}

/* ---- rates ---- */

static size_t user_end(const lk_users *users, size_t user) {
	return user + 1 < users->begin.count ? users->begin.at[user + 1] : users->loads.count;
}

/* Least rate, even without a full link; keeps times finite if rounding leaves 0. */
#define LEAST_PACE 1e-9

struct link_fill {
	double left, rising; /* capacity without settled users; load of the others */
};

/* The pace at which the next link is full, at most 1. */
static double users_fill(const lk_net_links *topology, const struct link_fill *links) {
	double pace = 1;
	for (uint32_t link = 0; link < topology->links; link++)
		if (links[link].rising > 0) pace = fmin(pace, links[link].left / links[link].rising);
	return fmax(pace, LEAST_PACE);
}

static bool user_is_stopped(const lk_users *users, size_t user, const struct link_fill *links,
                            double pace) {
	for (size_t i = users->begin.at[user]; i < user_end(users, user); i++) {
		const struct link_fill *link = &links[users->loads.at[i].link];
		if (link->left <= pace * link->rising * (1 + 1e-9)) return true;
	}
	return false;
}

/* Settle the users of full links at this pace. All are found before any is removed from its
 * links. */
static size_t users_settle(lk_users *users, struct link_fill *links, double pace) {
	size_t settled = 0, count = users->begin.count;
	for (size_t user = 0; user < count; user++) {
		if (users->rate.at[user] != 0 || !(pace >= 1 || user_is_stopped(users, user, links, pace)))
			continue;
		users->rate.at[user] = -pace; /* settled just now */
		settled++;
	}
	for (size_t user = 0; user < count; user++) {
		if (users->rate.at[user] >= 0) continue;
		users->rate.at[user] = pace;
		for (size_t i = users->begin.at[user]; i < user_end(users, user); i++) {
			struct link_fill *link = &links[users->loads.at[i].link];
			link->left -= pace * users->loads.at[i].load;
			link->rising -= users->loads.at[i].load;
			if (link->rising < 1e-9) link->rising = 0; /* remove rounding errors */
		}
	}
	return settled;
}

lk_status lk_users_share(lk_users *users, lk_error *err) {
	const lk_net_links *topology = users->topology;
	size_t open = users->begin.count;
	struct link_fill *links = calloc(topology->links, sizeof *links);
	users->rate.count = 0;
	bool room = links != NULL;
	for (size_t user = 0; room && user < open; user++) room = lk_push(&users->rate);
	if (!room) {
		free(links);
		return lk_oom(err);
	}
	for (uint32_t link = 0; link < topology->links; link++)
		links[link].left = lk_link_capacity(topology, link);
	for (size_t i = 0; i < users->loads.count; i++)
		links[users->loads.at[i].link].rising += users->loads.at[i].load;
	for (uint32_t link = 0; link < topology->links; link++) users->on[link] = links[link].rising;
	while (open > 0) {
		size_t settled = users_settle(users, links, users_fill(topology, links));
		LK_ASSERT(settled > 0);
		open -= settled;
	}
	free(links);
	return LK_OK;
}

void lk_users_use(const lk_users *users, uint32_t user, double use[LK_TIERS]) {
	for (int tier = 0; tier < LK_TIERS; tier++) use[tier] = 0;
	for (size_t i = users->begin.at[user]; i < user_end(users, user); i++) {
		uint32_t link = users->loads.at[i].link;
		int tier = lk_link_tier(users->topology, link);
		use[tier] = fmax(use[tier], users->on[link] / lk_link_capacity(users->topology, link));
	}
}
