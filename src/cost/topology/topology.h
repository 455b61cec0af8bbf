/* topology.h: the links of a cluster's network, the flows that collectives send over them, and each
 * collective's share. A collective between nodes is one user of the links: all its flows proceed at
 * the pace of the slowest, as its steps wait for one another. Users share by max-min fairness. */
#ifndef LK_COST_TOPOLOGY_TOPOLOGY_H
#define LK_COST_TOPOLOGY_TOPOLOGY_H

#include "base/arena.h"
#include "base/vec.h"
#include "hw/hw.h"

/* The traffic of a collective between the nodes of its group, in their order. */
typedef enum lk_traffic {
	LK_TRAFFIC_RING,     /* each to the next, the last to the first */
	LK_TRAFFIC_TREE,     /* up and down the two binary trees of NCCL, half of the bytes on each */
	LK_TRAFFIC_ALLTOALL, /* each to every other one, equally */
	LK_TRAFFIC_DOUBLING, /* to the nodes 1, 2, 4, ... ahead, half as much each time: NCCL's PAT */
	LK_TRAFFIC_CHAIN,    /* each only to the next: messages of pipeline stages */
	LK_TRAFFIC_SWITCHES, /* to the switches, which reduce (SHARP), and back: over each link once */
	LK_TRAFFICS,
} lk_traffic;

/* A collective's share of its NICs' line rate, and its use of the links. */
typedef struct lk_traffic_share {
	double rate;          /* 0 to 1; 0: as demanded */
	double latency_s;     /* added by links to each of its messages between nodes */
	double use[LK_TIERS]; /* of the busiest link of each tier on its way, by all groups of its kind,
	                         while every GPU's NIC is busy; may be over 1 */
} lk_traffic_share;

/* Of one group of ranks, per kind of flow. */
typedef struct lk_reach {
	lk_traffic_share flow[LK_TRAFFICS];
} lk_reach;

/* The rate share of a group's flows of a kind; 1 if no network is described (NULL). */
static inline double lk_reach_rate(const lk_reach *reach, lk_traffic flow) {
	double rate = reach ? reach->flow[flow].rate : 0;
	return rate > 0 ? rate : 1;
}

/* Latency that links add to its messages, seconds. */
static inline double lk_reach_latency(const lk_reach *reach, lk_traffic flow) {
	return reach ? reach->flow[flow].latency_s : 0;
}

/* Whether the switches between its nodes reduce: nothing flows to them otherwise. */
static inline bool lk_reach_reduces(const lk_reach *reach) {
	return reach && reach->flow[LK_TRAFFIC_SWITCHES].rate > 0;
}

/* Whether a network differs from one where each node reaches each other at its NICs' rate: some
 * flows are slower or wait longer, or switches reduce. */
static inline bool lk_reach_limits(const lk_reach *reach) {
	for (int flow = 0; flow < LK_TRAFFICS; flow++)
		if (lk_reach_rate(reach, (lk_traffic)flow) < 1 ||
		    lk_reach_latency(reach, (lk_traffic)flow) > 0)
			return true;
	return lk_reach_reduces(reach);
}

/* ---- links ---- */

/* A network as directed links with their capacity in NIC line rates of a node. */
typedef struct lk_net_links {
	const lk_interconnect *net;
	uint32_t nodes, rails; /* rails: NICs of a node, if each has its own switches; else 1 */
	bool crosses; /* traffic for another rail reaches it over the links of the node (PXN) */
	uint32_t switches[LK_TIERS]; /* tree, rails: per tier */
	uint32_t groups;             /* dragonfly */
	uint32_t links;
	double node_rate; /* bytes/s of all NICs of a node: of the kind with the most */
} lk_net_links;

/* The network of a cluster whose `net` is not flat. */
lk_net_links lk_topology_of(const lk_cluster *cluster);
/* A network of equal places, each with node_rate bytes/s into it; not flat, not rails. */
lk_net_links lk_topology_of_places(const lk_interconnect *net, uint32_t places, double node_rate);
int lk_link_tier(const lk_net_links *topology, uint32_t link);
/* The capacity that other jobs leave. */
double lk_link_capacity(const lk_net_links *topology, uint32_t link);
/* Seconds that it adds to a message. */
double lk_link_latency(const lk_net_links *topology, uint32_t link);

/* A NIC of a node; `rail` 0 if the NICs of a node share their switches. */
typedef struct lk_port {
	uint32_t node, rail;
} lk_port;

/* A link and its load. */
typedef struct lk_link_load {
	uint32_t link;
	double load;
} lk_link_load;
typedef LK_VEC(lk_link_load) lk_link_loads;

/* Append the links on the way, with the part of a flow on each. Trees and rails: up to the lowest
 * common switch and down, spread evenly over parallel links; dragonfly: the links between both
 * groups, evenly; torus: x first, then y, then z, the shorter way round, half each if both are
 * equally long. False when memory runs out. */
bool lk_topology_route(const lk_net_links *topology, lk_port from, lk_port to, lk_link_loads *out);

/* ---- sharing ---- */

/* The nodes of a group in order, each with the rails of its members. */
typedef struct lk_station {
	uint32_t node, begin, end; /* of rail[] */
} lk_station;
typedef struct lk_stations {
	LK_VEC(lk_station) at;
	LK_VEC(uint32_t) rail;
} lk_stations;

/* Append the next member, in the order of ranks. False when memory runs out. */
bool lk_stations_add(lk_stations *stations, uint32_t node, uint32_t rail);
void lk_stations_clear(lk_stations *stations);
void lk_stations_free(lk_stations *stations);

/* Users of the links of a network. Free with lk_users_free. */
typedef struct lk_users {
	const lk_net_links *topology;
	LK_VEC(uint32_t) begin; /* [users] first load */
	lk_link_loads loads;
	LK_VEC(double) rate; /* [users] after lk_users_share */
	LK_VEC(double)
	latency;              /* [users] seconds that links add to a message: for a ring, whose bytes
	                         take all its edges, the mean, else the longest way */
	lk_link_loads way;    /* scratch */
	double *on;           /* [links] likewise, all 0 between calls */
	double longest, mean; /* scratch: latency of the user's ways; mean weighted by traffic */
} lk_users;

lk_status lk_users_begin(const lk_net_links *topology, lk_users *users, lk_error *err);
void lk_users_free(lk_users *users);
/* Add a group that sends such flows; its busiest node would send `demand` NIC line rates. */
lk_status lk_users_add(lk_users *users, const lk_stations *stations, lk_traffic flow, double demand,
                       lk_error *err);
/* Max-min fair rates of all users, 0 to 1 of their demand: none can be raised without lowering that
 * of a user with no higher rate. */
lk_status lk_users_share(lk_users *users, lk_error *err);
/* For each tier the most loaded link on the user's way: the demand of all users over its capacity.
 * After lk_users_share. */
void lk_users_use(const lk_users *users, uint32_t user, double use[LK_TIERS]);

#endif
