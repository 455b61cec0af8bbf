/* nccl.h: what the files of the NCCL model share. A group of ranks becomes a site: the graphs that
 * NCCL's topology search would find for it, and the wires below. Rates are GB/s (1e9 bytes), times
 * microseconds, as NCCL's own tables have them. Private to collective.c and nccl_*.c. */
#ifndef LK_COST_NCCL_H
#define LK_COST_NCCL_H

#include <stdbool.h>
#include "cost/collective/collective.h"

/* Rows of NCCL's tables. */
typedef enum lk_nccl_generation {
	LK_NCCL_VOLTA,
	LK_NCCL_AMPERE,
	LK_NCCL_HOPPER,
	LK_NCCL_BLACKWELL,
	LK_NCCL_GENERATIONS,
} lk_nccl_generation;

/* A graph: parallel rings or trees, each with its rate inside a node and between nodes. */
typedef struct lk_nccl_graph {
	int channels;
	double intra, inter; /* per channel */
} lk_nccl_graph;

typedef struct lk_nccl_site {
	lk_nccl_generation generation;
	int n, nodes;
	double ppn;    /* ranks per node, may be fractional where nodes are filled unevenly */
	bool nvlink;   /* NVLink or xGMI inside the node, else PCIe */
	bool switched; /* NVSwitch inside the node */
	bool nvls;     /* the switch can multicast and reduce */
	bool efa;      /* the network adds latency of its own */
	bool sockets;  /* no RDMA */
	bool sharp;    /* the switches between nodes reduce */
	lk_nccl_graph ring, tree;
	lk_nccl_graph multicast; /* NVLS and NVLSTree */
	double wire;             /* inside the node, per GPU and direction */
	double pair_wire;        /* the same between two GPUs alone */
	double
		bridge; /* between the CPUs that hold half of the GPUs each; 0: nothing has to pass there */
	double node_nics;             /* all NICs of a node that this group may use, line rate */
	double nic_efficiency;        /* reached share of it */
	double nic_line;              /* GB/s that the same reach but for the GPUs' slots */
	const lk_reach *reach;        /* what the network leaves of that; NULL: all */
	double nic_latency, nic_hint; /* us: what a crossing takes more; what NCCL is told of it */
	int heads;                    /* GPUs of a node that head a share of the multicast */
	const lk_fabric *fabric;
	const lk_nccl_laws *laws;
	const lk_nccl_settings *settings; /* never NULL */
} lk_nccl_site;

void lk_nccl_site_of(const lk_group_shape *group, lk_nccl_site *site);
/* GB/s between the two CPUs of a host whose GPUs have nothing but PCIe, each way. */
double lk_host_bridge_rate(const lk_device *device);
/* Bytes of an all-to-all of n ranks, `own` of them on a node, that pass from one half of the node
 * to the other. */
static inline double lk_bridge_bytes(double own, double n, double bytes) {
	return own / 2 * (own / 2) / n * bytes;
}

/* What NCCL's tables say of one (algorithm, protocol), in us. */
typedef struct lk_nccl_terms {
	double base;            /* latency: fixed */
	double near, near_hops; /* of a hop inside a node, and how many there are one after the other */
	double far, crossings;  /* the same between nodes */
	double network;         /* the network's own latency of all crossings */
	double latency, transfer; /* by whose sum NCCL chooses */
	double smooth; /* NCCL's correction of trees between its steps: a time never falls as bytes
	                  grow */
} lk_nccl_terms;

/* False where NCCL does not offer the combination. */
bool lk_nccl_terms_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                      double bytes, lk_nccl_terms *out);

/* The time of a combination: `predicted` by which NCCL chooses, `time` the calibrated one. */
typedef struct lk_nccl_estimate {
	double predicted, time;
	double latency; /* of `predicted` */
	lk_coll_limit limit;
} lk_nccl_estimate;

/* NCCL's own latency and size / bandwidth, in us, of what it chooses. */
typedef struct lk_nccl_raw {
	lk_proto proto;
	double latency, transfer;
} lk_nccl_raw;

/* False for messages and all-to-all, which NCCL does not estimate. */
bool lk_nccl_raw_of(lk_coll_kind kind, const lk_group_shape *group, double bytes, lk_nccl_raw *out);

/* False where NCCL does not offer the combination. */
bool lk_nccl_estimate_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                         double bytes, lk_nccl_estimate *out);

/* Bytes that a rank of a ring sends per byte of the call. */
double lk_nccl_ring_traffic(lk_coll_kind kind, int n);
/* Bytes that a node's NICs send per byte of the call. */
double lk_nccl_nic_traffic(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo);

/* NICs next to each GPU of a node: one, or more where there are more NICs than GPUs. */
double lk_nccl_nearest_nics(const lk_node *node);

/* Part of what its NICs reach that such flows get through the network. */
double lk_nccl_network_part(const lk_nccl_site *site, lk_traffic flow);

/* Channels of the communicator. */
int lk_nccl_most_channels(const lk_nccl_site *site, lk_algo algo);

/* CTAs that NCCL launches for a call: one channel, one CTA, about one SM. */
int lk_nccl_channels(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                     double bytes);

/* Everything but point-to-point traffic is above; this is all-to-all, per rank. */
lk_coll_cost lk_nccl_alltoall(const lk_nccl_site *site, double bytes);
/* A message from one rank of the group to another. */
lk_coll_cost lk_nccl_sendrecv(const lk_group_shape *group, double bytes);

/* Latency of one hop, by NCCL's hwLatency table. */
typedef enum lk_nccl_hop { LK_NCCL_HOP_NVLINK, LK_NCCL_HOP_PCI, LK_NCCL_HOP_NET } lk_nccl_hop;
double lk_nccl_hop_latency(lk_nccl_hop hop, lk_algo algo, lk_proto proto);

/* Whether settings name a release before this one; releases that are not named are new. */
static inline bool lk_nccl_before(const lk_nccl_site *site, int release) {
	return site->settings->release > 0 && site->settings->release < release;
}

/* GB/s that one channel, one CTA, moves at most inside a node: NCCL's limit of a tree's channel. */
double lk_nccl_channel_rate(lk_nccl_generation generation);

#endif
