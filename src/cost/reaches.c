/* reaches.c: the nodes that the process groups of a placement reach, and each group's share of the
 * network: all groups of a kind communicate at the same time, as in a step, and share the links
 * (topology/users.c). Overlapping operations of different kinds share them in the engine, by their
 * demand (contention.c). */
#include "cost/reaches.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

/* Ranks first, first + step, ... */
struct reach_members {
	uint32_t count, first, step;
};

/* The layout of a kind's groups. */
struct reach_kind {
	int kind;
	bool across; /* stages of a chain, instead of chains of a stage */
	uint32_t size, stride, count;
};

/* count 0: the graph has no such groups of two ranks or more. */
static struct reach_kind reach_kind_of(const lk_ranks *ranks, int kind) {
	struct reach_kind out = {.kind = kind,
	                         .across = lk_group_crosses_stages(kind),
	                         .size = ranks->group[kind].size,
	                         .stride = ranks->group[kind].stride};
	if (out.across) {
		out.size = kind == LK_GROUP_EMBEDDING ? 2 : ranks->stages;
		out.count = ranks->stages > 1 ? ranks->chains : 0;
	} else if (out.size > 1 && out.stride > 0 &&
	           ranks->chains % ((uint64_t)out.size * out.stride) == 0) {
		out.count = ranks->stages * (ranks->chains / out.size);
	}
	return out;
}

static struct reach_members reach_members_of(const lk_placement *placement,
                                             const struct reach_kind *kind, uint32_t group) {
	const lk_ranks *ranks = &placement->graph->ranks;
	if (kind->across) {
		uint32_t apart = kind->kind == LK_GROUP_EMBEDDING ? ranks->stages - 1 : 1;
		return (struct reach_members){kind->size, group * placement->chain_step,
		                              apart * placement->stage_step};
	}
	uint32_t per_stage = ranks->chains / kind->size, stage = group / per_stage;
	group %= per_stage;
	uint32_t chain = group / kind->stride * kind->size * kind->stride + group % kind->stride;
	return (struct reach_members){kind->size,
	                              stage * placement->stage_step + chain * placement->chain_step,
	                              kind->stride * placement->chain_step};
}

/* Traffic of all collectives but the all-to-all. */
static const unsigned summing =
	1U << LK_TRAFFIC_RING | 1U << LK_TRAFFIC_TREE | 1U << LK_TRAFFIC_DOUBLING;

void lk_reach_traffic(const lk_graph *graph, unsigned used[LK_GROUPS]) {
	for (uint32_t op = 0; op < graph->ops.count; op++) {
		unsigned kind = graph->ops.kind[op], group = graph->ops.group[op];
		if (!lk_op_is_comm(kind)) continue;
		bool message = kind == LK_OP_SEND || kind == LK_OP_RECV;
		if (message && group != LK_GROUP_TEAM) group = LK_GROUP_PP;
		if (message) used[group] |= 1U << LK_TRAFFIC_CHAIN;
		else if (kind == LK_OP_ALLTOALL) used[group] |= 1U << LK_TRAFFIC_ALLTOALL;
		else used[group] |= summing;
	}
}

void lk_reach_traffic_usual(unsigned used[LK_GROUPS]) {
	for (int kind = 1; kind < LK_GROUPS; kind++) used[kind] = summing;
	used[LK_GROUP_TP] |= 1U << LK_TRAFFIC_ALLTOALL;
	used[LK_GROUP_CP] |= 1U << LK_TRAFFIC_ALLTOALL;
	used[LK_GROUP_EP] |= 1U << LK_TRAFFIC_ALLTOALL;
	used[LK_GROUP_ETP] |= 1U << LK_TRAFFIC_ALLTOALL;
	used[LK_GROUP_PP] |= 1U << LK_TRAFFIC_CHAIN;
}

/* Whether it is among the flows; switches that reduce replace the trees' traffic. */
static bool reach_sends(unsigned flows, lk_traffic flow, const lk_interconnect *net) {
	if (flow == LK_TRAFFIC_SWITCHES) return net->sharp && flows & 1U << LK_TRAFFIC_TREE;
	return flows & 1U << flow;
}

/* ---- stations ---- */

/* A rank without a GPU in the cluster counts as its first. */
static lk_place station_place(const lk_cluster *cluster, uint32_t rank) {
	return lk_cluster_place(cluster, rank < (uint32_t)cluster->gpus ? (int)rank : 0);
}

/* The NICs next to a GPU, as rails. */
static bool station_add(const lk_cluster *cluster, const lk_net_links *topology, uint32_t rank,
                        lk_stations *out) {
	lk_place place = station_place(cluster, rank);
	const lk_node *node = &cluster->node[place.group];
	if (topology->rails == 1) return lk_stations_add(out, (uint32_t)place.node, 0);
	int nearest = node->nics > node->gpus ? node->nics / node->gpus : 1;
	for (int i = 0; i < nearest; i++) {
		uint32_t rail = (uint32_t)((int64_t)place.slot * node->nics / node->gpus + i);
		if (!lk_stations_add(out, (uint32_t)place.node, rail % topology->rails)) return false;
	}
	return true;
}

/* A group's demand on a node's NICs, in line rates of the node with the most; and its share of its
 * GPUs' NICs. */
struct reach_demand {
	double rates, busy;
};

static struct reach_demand demand_of_shape(const lk_net_links *topology,
                                           const lk_group_shape *shape) {
	const lk_node *node = shape->node;
	double nics = lk_group_nics(shape), ppn = (double)shape->ranks / fmax(shape->nodes, 1);
	return (struct reach_demand){nics * node->nic_rate / topology->node_rate,
	                             nics / fmax(node->nics, 1) * node->gpus / ppn};
}

/* Messages of a chain go from GPU to GPU, concurrently with those of the other GPUs. */
static lk_group_shape shape_of_members(const lk_cluster *cluster,
                                       const struct reach_members *members,
                                       const lk_stations *stations, lk_traffic flow) {
	const lk_node *node = &cluster->node[station_place(cluster, members->first).group];
	int nodes = (int)stations->at.count;
	int per_node = ((int)members->count + nodes - 1) / nodes;
	lk_group_shape shape = {.node = node, .ranks = (int)members->count, .nodes = nodes};
	if (flow == LK_TRAFFIC_CHAIN) shape.ranks = shape.nodes = 2, per_node = 1;
	shape.ranks_per_node = per_node;
	shape.sharing = node->gpus > per_node ? node->gpus / per_node : 1;
	return shape;
}

/* ---- groups of a kind ---- */

struct reach_finder {
	const lk_placement *placement;
	lk_net_links topology;
	lk_stations stations;
	LK_VEC(lk_reach) reach; /* [groups of the kind] */
	LK_VEC(double) busy;    /* [groups] for the flow */
	LK_VEC(const lk_reach *) known;
	lk_arena *arena;
};

static bool finder_station(struct reach_finder *finder, const struct reach_members *members) {
	lk_stations_clear(&finder->stations);
	for (uint32_t i = 0; i < members->count; i++)
		if (!station_add(finder->placement->cluster, &finder->topology,
		                 members->first + i * members->step, &finder->stations))
			return false;
	return true;
}

/* Add every group of the kind as a user with such flows. */
static lk_status finder_add_users(struct reach_finder *finder, const struct reach_kind *kind,
                                  lk_traffic flow, lk_users *users, lk_error *err) {
	finder->busy.count = 0;
	for (uint32_t group = 0; group < kind->count; group++) {
		struct reach_members members = reach_members_of(finder->placement, kind, group);
		struct reach_demand demand = {0};
		if (!finder_station(finder, &members) || !lk_push(&finder->busy)) return lk_oom(err);
		if (finder->stations.at.count > 1) {
			lk_group_shape shape =
				shape_of_members(finder->placement->cluster, &members, &finder->stations, flow);
			demand = demand_of_shape(&finder->topology, &shape);
		}
		*lk_last(&finder->busy) = demand.busy;
		LK_TRY(lk_users_add(users, &finder->stations, flow, demand.rates, err));
	}
	return LK_OK;
}

/* Rounded, so that values that differ only by rounding are equal. */
static double reach_round(double share) {
	return round(share * 1e9) / 1e9;
}

static void reach_take(const lk_users *users, uint32_t user, double busy, lk_traffic_share *out) {
	if (!(busy > 0)) return;
	out->rate = fmax(reach_round(users->rate.at[user]), 1e-9);
	out->latency_s = users->latency.at[user];
	lk_users_use(users, user, out->use);
	for (int tier = 0; tier < LK_TIERS; tier++) out->use[tier] = reach_round(out->use[tier] / busy);
}

static lk_status finder_share(struct reach_finder *finder, const struct reach_kind *kind,
                              lk_traffic flow, lk_error *err) {
	lk_users users;
	lk_status status = lk_users_begin(&finder->topology, &users, err);
	if (status == LK_OK) status = finder_add_users(finder, kind, flow, &users, err);
	if (status == LK_OK) status = lk_users_share(&users, err);
	for (uint32_t group = 0; status == LK_OK && group < kind->count; group++)
		reach_take(&users, group, finder->busy.at[group], &finder->reach.at[group].flow[flow]);
	lk_users_free(&users);
	return status;
}

/* The unique address of such a reach; NULL if no link is used. */
static lk_status finder_known(struct reach_finder *finder, const lk_reach *reach,
                              const lk_reach **out, lk_error *err) {
	static const lk_reach nothing;
	*out = NULL;
	if (memcmp(reach, &nothing, sizeof nothing) == 0) return LK_OK;
	for (size_t i = finder->known.count; i-- > 0;)
		if (memcmp(finder->known.at[i], reach, sizeof *reach) == 0) {
			*out = finder->known.at[i];
			return LK_OK;
		}
	lk_reach *own = LK_NEW(finder->arena, lk_reach);
	if (!own || !lk_push(&finder->known)) return lk_oom(err);
	*own = *reach;
	*out = *lk_last(&finder->known) = own;
	return LK_OK;
}

static lk_status finder_kind(struct reach_finder *finder, const struct reach_kind *kind,
                             unsigned flows, const lk_reach **of_rank, lk_error *err) {
	finder->reach.count = 0;
	for (uint32_t group = 0; group < kind->count; group++)
		if (!lk_push(&finder->reach)) return lk_oom(err);
	for (int flow = 0; flow < LK_TRAFFICS; flow++)
		if (reach_sends(flows, (lk_traffic)flow, finder->topology.net))
			LK_TRY(finder_share(finder, kind, (lk_traffic)flow, err));
	const lk_ranks *ranks = &finder->placement->graph->ranks;
	for (uint32_t group = 0; group < kind->count; group++) {
		struct reach_members members = reach_members_of(finder->placement, kind, group);
		const lk_reach *reach;
		LK_TRY(finder_known(finder, &finder->reach.at[group], &reach, err));
		if (kind->across) /* groups of the two ends also list the stages between them, which do not
		                   * take part */
			members.count = ranks->stages, members.step = finder->placement->stage_step;
		for (uint32_t i = 0; i < members.count; i++)
			of_rank[members.first + i * members.step] = reach;
	}
	return LK_OK;
}

lk_status lk_reaches_find(lk_arena *arena, const lk_placement *placement,
                          const unsigned used[LK_GROUPS], const lk_reach *const **out,
                          lk_error *err) {
	const lk_ranks *ranks = &placement->graph->ranks;
	*out = NULL;
	if (placement->cluster->net.kind == LK_NET_FLAT) return LK_OK;
	const lk_reach **of_rank = LK_ARRAY(arena, const lk_reach *, (size_t)LK_GROUPS * ranks->world);
	if (!of_rank) return lk_oom(err);
	struct reach_finder finder = {
		.placement = placement, .topology = lk_topology_of(placement->cluster), .arena = arena};
	lk_status status = LK_OK;
	for (int kind = 1; kind < LK_GROUPS && status == LK_OK; kind++) {
		struct reach_kind lies = reach_kind_of(ranks, kind);
		if (lies.count > 0 && used[kind])
			status =
				finder_kind(&finder, &lies, used[kind], of_rank + (size_t)kind * ranks->world, err);
	}
	lk_stations_free(&finder.stations);
	lk_vec_free(&finder.reach);
	lk_vec_free(&finder.busy);
	lk_vec_free(&finder.known);
	*out = of_rank;
	return status;
}

/* ---- one group ---- */

/* Together with the groups that share its NICs it demands all of their rate, on all rails. */
static lk_status alone_share(const lk_net_links *topology, const lk_group_shape *shape,
                             const lk_stations *stations, lk_traffic flow, lk_reach *reach,
                             lk_error *err) {
	lk_group_shape asks = *shape;
	if (flow == LK_TRAFFIC_CHAIN) asks.ranks = asks.nodes = 2;
	struct reach_demand demand = demand_of_shape(topology, &asks);
	lk_users users;
	lk_status status = lk_users_begin(topology, &users, err);
	if (status == LK_OK)
		status = lk_users_add(&users, stations, flow, demand.rates * fmax(shape->sharing, 1), err);
	if (status == LK_OK) status = lk_users_share(&users, err);
	if (status == LK_OK) reach_take(&users, 0, demand.busy, &reach->flow[flow]);
	lk_users_free(&users);
	return status;
}

static bool alone_station(const lk_cluster *cluster, const lk_net_links *topology,
                          const lk_group_shape *shape, const uint32_t *rank, lk_stations *out) {
	for (uint32_t i = 0; i < (uint32_t)shape->ranks; i++) {
		uint32_t at = rank ? rank[i] : i;
		if (shape->sharing <= 1 || topology->rails == 1) {
			if (!station_add(cluster, topology, at, out)) return false;
			continue;
		}
		uint32_t node = (uint32_t)station_place(cluster, at).node;
		bool seen = out->at.count && lk_last(&out->at)->node == node;
		for (uint32_t rail = 0; !seen && rail < topology->rails; rail++)
			if (!lk_stations_add(out, node, rail)) return false;
	}
	return true;
}

lk_status lk_reach_alone(lk_arena *arena, const lk_cluster *cluster, const lk_group_shape *shape,
                         const uint32_t *rank, unsigned flows, const lk_reach **out,
                         lk_error *err) {
	*out = NULL;
	if (cluster->net.kind == LK_NET_FLAT || shape->nodes < 2) return LK_OK;
	lk_net_links topology = lk_topology_of(cluster);
	lk_stations stations = {0};
	lk_reach *reach = LK_NEW(arena, lk_reach);
	bool room = reach && alone_station(cluster, &topology, shape, rank, &stations);
	lk_status status = room ? LK_OK : lk_oom(err);
	for (int flow = 0; status == LK_OK && flow < LK_TRAFFICS; flow++)
		if (reach_sends(flows, (lk_traffic)flow, &cluster->net))
			status = alone_share(&topology, shape, &stations, (lk_traffic)flow, reach, err);
	lk_stations_free(&stations);
	*out = reach;
	return status;
}
