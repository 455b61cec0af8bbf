/* nccl.h: shared by the files of the NCCL model. A group of ranks becomes a site: the graphs that
 * NCCL's topology search would find for it, and the wires below. Rates are GB/s (1e9 bytes), times
 * microseconds, as in NCCL's own tables. Private to collective.c and nccl_*.c. */
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

/* A graph: parallel rings or trees, each with its rate within a node and between nodes. */
typedef struct lk_nccl_graph {
	int channels;
	double intra, inter; /* per channel */
} lk_nccl_graph;

typedef struct lk_nccl_site {
	lk_nccl_generation generation;
	int n, nodes;
	double ppn;    /* ranks per node, may be fractional if nodes are filled unevenly */
	bool nvlink;   /* NVLink or xGMI within the node, else PCIe */
	bool switched; /* NVSwitch within the node */
	bool nvls;     /* the switch can multicast and reduce */
	bool sockets;  /* no RDMA */
	lk_transport transport;
	double message_us; /* of each message between nodes that follows another: a ring's steps */
	bool sharp;        /* the switches between nodes reduce */
	lk_nccl_graph ring, tree;
	lk_nccl_graph multicast; /* NVLS and NVLSTree */
	double wire;             /* within the node, per GPU and direction */
	double pair_wire;        /* likewise between only two GPUs */
	double bridge;    /* between the CPUs that hold half of the GPUs each; 0: no traffic has to pass
	                   * there */
	double node_nics; /* line rate of all NICs of a node that this group may use */
	double nic_efficiency;        /* reached share of it */
	double nic_line;              /* GB/s that they reach, ignoring the GPUs' slots */
	const lk_reach *reach;        /* share of it that the network allows; NULL: all */
	double nic_latency, nic_hint; /* us: extra time of a crossing; the value reported to NCCL */
	int heads;                    /* GPUs of a node that head a share of the multicast */
	const lk_fabric *fabric;
	const lk_nccl_laws *laws;
	const lk_nccl_settings *settings; /* never NULL */
} lk_nccl_site;

void lk_nccl_site_of(const lk_group_shape *group, lk_nccl_site *site);
/* GB/s each way between the two CPUs of a host whose GPUs have only PCIe. */
double lk_host_bridge_rate(const lk_device *device);
/* A link's rate in GB/s, from 1e-9 to 1e6; of Gigabit Ethernet if it is not known, so that a cost
 * stays finite. */
double lk_link_rate_of(double bytes_per_s);
/* Bytes of an all-to-all of n ranks, `own` of them on a node, that cross from one half of the node
 * to the other. */
static inline double lk_bridge_bytes(double own, double n, double bytes) {
	return own / 2 * (own / 2) / n * bytes;
}

/* Terms of NCCL's tables for one (algorithm, protocol), in us. */
typedef struct lk_nccl_terms {
	double base;            /* fixed latency */
	double near, near_hops; /* latency of a hop within a node, and the number of successive hops */
	double far, crossings;  /* likewise between nodes */
	double network;         /* the network's latency over all crossings */
	double latency, transfer; /* NCCL chooses by their sum */
	double smooth; /* NCCL's correction of trees, interpolated between its steps: a time never falls
	                  as bytes grow */
} lk_nccl_terms;

/* False if NCCL does not offer the combination. */
bool lk_nccl_terms_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                      double bytes, lk_nccl_terms *out);

/* The time of a combination: `predicted`: NCCL's estimate, by which it chooses; `time`: the
 * calibrated one. */
typedef struct lk_nccl_estimate {
	double predicted, time;
	double latency; /* part of `predicted` */
	lk_coll_limit limit;
} lk_nccl_estimate;

/* NCCL's own latency and size / bandwidth of its choice, in us. */
typedef struct lk_nccl_raw {
	lk_proto proto;
	double latency, transfer;
} lk_nccl_raw;

/* False for messages and all-to-all, which NCCL does not estimate. */
bool lk_nccl_raw_of(lk_coll_kind kind, const lk_group_shape *group, double bytes, lk_nccl_raw *out);

/* False if NCCL does not offer the combination. */
bool lk_nccl_estimate_of(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                         double bytes, lk_nccl_estimate *out);

/* Bytes of the own share of each rank that a ring copies before its steps overlap with one another:
 * all of a small one, the part (own / share)^power of a larger one; on NVLink, in one node. PCIe is
 * too slow for a copy in the GPU to show. */
double lk_nccl_own_bytes(const lk_nccl_site *site, double bytes);
/* Bytes that a rank of a ring sends per byte of the call. */
double lk_nccl_ring_traffic(lk_coll_kind kind, int n);
/* Bytes that a node's NICs send per byte of the call. */
double lk_nccl_nic_traffic(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo);

/* NICs next to each GPU of a node: one, or more if there are more NICs than GPUs. */
double lk_nccl_nearest_nics(const lk_node *node);

/* Whether its nodes are domains of more than one board, whose switches multicast. */
bool lk_nccl_is_rack(const lk_nccl_site *site);

/* The share of the NICs' reached rate that such flows get through the network. */
double lk_nccl_network_part(const lk_nccl_site *site, lk_traffic flow);

/* Channels of the communicator. */
int lk_nccl_most_channels(const lk_nccl_site *site, lk_algo algo);

/* CTAs that NCCL launches for a call: one per channel, each about one SM. */
int lk_nccl_channels(lk_coll_kind kind, const lk_nccl_site *site, lk_algo algo, lk_proto proto,
                     double bytes);

/* All-to-all, per rank; everything above excludes point-to-point traffic. */
lk_coll_cost lk_nccl_alltoall(const lk_nccl_site *site, double bytes);
/* A message from one rank of the group to another. */
lk_coll_cost lk_nccl_sendrecv(const lk_group_shape *group, double bytes);

/* Factor on NCCL's latencies within the node; us of a call's launch. */
double lk_nccl_hops(const lk_nccl_site *site);
double lk_nccl_launch(const lk_nccl_site *site);

/* Latency of one hop, by NCCL's hwLatency table. */
typedef enum lk_nccl_hop { LK_NCCL_HOP_NVLINK, LK_NCCL_HOP_PCI, LK_NCCL_HOP_NET } lk_nccl_hop;
double lk_nccl_hop_latency(lk_nccl_hop hop, lk_algo algo, lk_proto proto);

/* Whether settings name a release before this one; unnamed releases are new. */
static inline bool lk_nccl_before(const lk_nccl_site *site, int release) {
	return site->settings->release > 0 && site->settings->release < release;
}

/* Most GB/s of one channel, one CTA, within a node: NCCL's limit of a tree's channel. */
double lk_nccl_channel_rate(lk_nccl_generation generation);

#endif
