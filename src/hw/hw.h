/* hw.h: devices, nodes, clusters. States the hardware, not how fast a given kernel runs on it: that
 * is cost/. */
#ifndef LK_HW_HW_H
#define LK_HW_HW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* Number formats of matrix arithmetic. */
typedef enum lk_dtype {
	LK_FP32,
	LK_TF32,
	LK_FP16,
	LK_BF16,
	LK_FP8,
	LK_MXFP8,
	LK_NVFP4,
	LK_DTYPES, /* count */
} lk_dtype;

const char *lk_dtype_name(lk_dtype dtype);
/* Parse "bf16", "fp8", ... (also "float32", "bfloat16", "half", "e4m3", "hybrid"); false if
 * unknown. */
bool lk_dtype_parse(const char *text, lk_dtype *out);
/* Bytes of one stored element: fp8 1, nvfp4 0.5625 (with its block scales), mxfp8 1.03125. */
double lk_dtype_bytes(lk_dtype dtype);

typedef enum lk_arch {
	LK_ARCH_KEPLER,
	LK_ARCH_PASCAL,
	LK_ARCH_VOLTA,
	LK_ARCH_TURING,
	LK_ARCH_AMPERE,
	LK_ARCH_ADA,
	LK_ARCH_HOPPER,
	LK_ARCH_BLACKWELL,
	LK_ARCH_CDNA1,
	LK_ARCH_CDNA2,
	LK_ARCH_CDNA3,
	LK_ARCH_CDNA4,
	LK_ARCH_RDNA3,
	LK_ARCH_CPU,
	LK_ARCHES,
} lk_arch;

const char *lk_arch_name(lk_arch arch);

/* A device of the catalogue. Peaks are dense (no sparsity) at the boost clock, as stated by the
 * vendor; 0 for arithmetic that the device lacks. Rates are per second, link rates per
 * direction. */
typedef struct lk_device {
	char name[40];  /* "h100-sxm" */
	char label[64]; /* "NVIDIA H100 SXM5 80GB" */
	lk_arch arch;
	double peak_flops[LK_DTYPES];
	double vector_flops; /* fp32 on the ordinary lanes */
	double memory_bytes; /* as reported by the driver: H100 80GB has 79.6 GiB */
	double memory_rate;  /* bytes/s */
	double l2_bytes;
	int sms;          /* streaming multiprocessors or compute units */
	int shared_kib;   /* shared memory per SM */
	double clock_hz;  /* boost */
	double power_w;   /* board power */
	double link_rate; /* NVLink / xGMI bytes/s per direction and GPU, all links; 0 if none */
	int links;        /* number of links */
	bool link_switch; /* full bisection through a switch (NVSwitch) in its default node */
	bool link_bridge; /* the links are a bridge between two cards: unused unless requested */
	int node_gpus;    /* GPUs in its default node or NVLink domain */
	double pcie_rate; /* bytes/s per direction */
	double nic_rate;  /* bytes/s per GPU in its default node: the default of a cluster */
	char source[160];
	/* Measured on the device by `lockstep calibrate host`; 0 for devices of the catalogue. These
	 * override what cost/ derives from peaks. */
	double gemm_flops;  /* rate of large fp32 matrix products */
	double stream_rate; /* bytes/s of streaming through memory */
	double call_s;      /* shortest operation: start all cores and wait for them */
} lk_device;

/* The denominator of MFU, FLOP/s: the peak of a number format; for a format that the device lacks,
 * that of its vector units. */
double lk_device_peak(const lk_device *device, lk_dtype dtype);
/* Load the catalogue if necessary. Callers of lk_device_find, lk_device_count and lk_device_at,
 * which report no error, call this first: when out of memory those find no device. */
lk_status lk_devices_ready(lk_error *err);
/* The catalogue. Names and aliases are compared ignoring case, '-', '_', '.' and blanks, with or
 * without the words "NVIDIA", "Tesla", "AMD", "Instinct", "GPU". */
const lk_device *lk_device_find(const char *name);
/* lk_device_find, or an error that names the nearest devices or says why a known accelerator (TPU,
 * Gaudi, IPU) is not modelled. `where`: the option or place in a file that names the device. */
lk_status lk_device_lookup(const char *name, const char *where, const lk_device **out,
                           lk_error *err);
int lk_device_count(void);
const lk_device *lk_device_at(int index);
/* The device that differs only in its memory and is nearest to the size; the device itself if none
 * is nearer. Price lists have "A100" and 40 GB in two columns. */
const lk_device *lk_device_variant(const lk_device *device, double memory_bytes);
/* The device with another limit of its board's power, between 0.25 and 1.5 times the board's own:
 * boards of one name are sold with air and liquid cooling. LK_ERR_INPUT: outside. */
lk_status lk_device_with_power(lk_arena *arena, const lk_device *device, double watts,
                               const lk_device **out, lk_error *err);
/* Aliases of a device as one comma separated text. */
const char *lk_device_aliases(const lk_device *device);

/* How the GPUs of a node reach each other. */
typedef enum lk_intra {
	LK_INTRA_PCIE,
	LK_INTRA_MESH, /* NVLink or xGMI without a switch */
	LK_INTRA_SWITCH
} lk_intra;

/* A kind of node. */
/* How messages leave a node. */
typedef enum lk_transport {
	LK_TRANSPORT_RDMA,    /* InfiniBand, RoCE, EFA */
	LK_TRANSPORT_SOCKETS, /* TCP through host memory */
	LK_TRANSPORT_TCPX,    /* GPUDirect TCPX of Google's a3-highgpu */
	LK_TRANSPORT_TCPXO,   /* GPUDirect TCPXO of its a3-megagpu */
	LK_TRANSPORTS,
} lk_transport;

/* "rdma", "sockets", "tcpx", "tcpxo"; LK_TRANSPORTS if a word names none. */
const char *lk_transport_name(lk_transport transport);
lk_transport lk_transport_find(const char *word, size_t length);

typedef struct lk_node {
	const lk_device *device;
	int gpus; /* GPUs of a node, which is one NVLink domain if it has NVLink */
	lk_intra intra;
	double intra_rate; /* bytes/s per direction and GPU */
	int nics;
	double nic_rate;      /* bytes/s per direction and NIC */
	double nic_latency_s; /* added to a message's latency: InfiniBand 0, EFA 20 to 75 us */
	lk_transport transport;
	double pair_rate; /* bytes/s each way over the bridge of GPUs 2i and 2i + 1; 0: no bridges */
	bool no_peer;     /* GPUs without a bridge do not reach one another's memory: messages pass
	                     through the host's */
} lk_node;

/* Bytes/s that a GPU of it sends at most, inside and out. */
static inline double lk_node_rate(const lk_node *node) {
	return node->intra_rate + node->nics * node->nic_rate;
}

/* Latency that EFA adds to a message, s, by the generation of its cards. */
double lk_efa_latency(const lk_node *node);
/* Latency that its plugin reports to NCCL for cards of this rate, s: only for the choice of
 * algorithms. */
double lk_efa_hint(double nic_rate);

/* The switches and links between nodes. */
typedef enum lk_net_kind {
	LK_NET_FLAT, /* not described: every node reaches every other, subject to oversubscription */
	LK_NET_TREE,
	LK_NET_RAILS, /* a tree whose lowest switches join the NICs of equal number of several nodes */
	LK_NET_DRAGONFLY,
	LK_NET_TORUS,
	LK_NET_KINDS,
} lk_net_kind;

enum {
	LK_TIERS = 3 /* most kinds of links of a network, see lk_tier_name */
};

/* Nodes take the places of a network in their order. A tier is a switch's uplinks in a tree, the
 * links within and between the groups of a dragonfly, those along one dimension of a torus. */
typedef struct lk_interconnect {
	lk_net_kind kind;
	int sizes; /* tree, rails: tiers of switches under the top, 1 to 3; dragonfly: 3; torus: 1 to 3
	              dimensions */
	int size[LK_TIERS];     /* tree, rails: nodes per leaf, leaves per spine switch, ...; dragonfly:
	                           nodes per router, routers per group, global links per router; torus:
	                           nodes along each dimension */
	double ratio[LK_TIERS]; /* tree, rails: downlink over uplink bandwidth, 1 or more */
	double rate[LK_TIERS];  /* bytes/s per direction. Tree, rails: all uplinks of a switch; 0:
	                           by the ratio. Dragonfly, torus: one link; 0: that of all NICs of
	                           a node */
	double latency_s[LK_TIERS];  /* added to a message that crosses the tier: for a tree, up and
	                                down together; otherwise per link */
	double background[LK_TIERS]; /* share taken by other jobs, 0 to less than 1 */
	bool sharp;                  /* tree, rails: switches reduce */
} lk_interconnect;

/* "leaf", "spine", "core" of trees; "local", "global"; "x", "y", "z"; NULL: no such tier. */
const char *lk_tier_name(lk_net_kind kind, int tier);
/* Number of tiers. */
int lk_interconnect_tiers(const lk_interconnect *net);

/* Parse a network of `places` equal endpoints, as in "tree 4*2 leaf 10g 20ms". LK_ERR_INPUT, with
 * `where`: not understood, too small, or rails, which need nodes with several NICs. */
lk_status lk_interconnect_parse(const char *text, long long places, const char *where,
                                lk_interconnect *out, lk_error *err);

/* A cluster: runs of equal nodes, in rank order. */
typedef struct lk_cluster {
	int groups;              /* runs of equal nodes */
	lk_node *node;           /* [groups] */
	int *nodes;              /* [groups] number of nodes in each */
	int gpus;                /* over all nodes */
	double oversubscription; /* of the fabric above the node; 1 = none */
	bool rail_optimised;
	lk_interconnect net; /* the network above the nodes in detail */
	char text[256];      /* the synthetic form, for reports */
	char nccl[256];      /* NCCL's release and settings from a log, in the form of --nccl */
	const char *assumed; /* what was inferred, as a log does not state it; NULL: nothing */
} lk_cluster;

/* NCCL's variables whose effect is modelled (cost/collective, nccl_settings), ended by NULL. */
extern const char *const lk_nccl_variables[];
/* Whether NAME (`length` bytes) is one of them. */
bool lk_nccl_variable(const char *name, size_t length);

/* "--gpu NAME --gpus N": default nodes of that device, the last one partly filled. `domain` and
 * `nic_bytes_per_gpu` override the defaults unless 0. */
lk_status lk_cluster_simple(lk_arena *arena, const lk_device *device, int gpus, int domain,
                            double nic_bytes_per_gpu, lk_cluster *out, lk_error *err);

/* The synthetic form:
 *
 *     [COUNT node *] COUNT DEVICE [WATTSw] [nvlinkN|nvswitch|pcieN|bridges|xgmi|GB/s]
 *         [, nop2p] [, nic COUNT*GBITS [LATENCYus]] [, oversub X | NETWORK] [+ ...]
 *
 * as in "8 node * 8 h100-sxm nvlink4, nic 8*400g + 2 node * 8 a100-sxm-80, nic 4*200g". Without
 * "node" the COUNT devices fill default nodes: "64 h100-sxm" is 8 nodes of 8. The whole grammar is
 * in cluster_parse.c. A text that ends in .json, or begins with '{', is the JSON form of
 * docs/reference/files.md; "[COUNT node *] FILE.xml" takes the node from NCCL's topology file,
 * "FILE.log [DEVICE]" the cluster from NCCL's output with NCCL_DEBUG=INFO. Errors name the
 * column. */
lk_status lk_cluster_parse(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err);

/* Only the synthetic form: a text from a file must not open other files. */
lk_status lk_cluster_parse_text(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err);
/* Whether the text is or names a JSON form or a topology file, which lk_cluster.text only
 * summarises. */
bool lk_cluster_text_is_file(const char *text);

/* Where a question runs, from options and other sources. */
typedef struct lk_where {
	const char *cluster; /* --cluster; NULL not given */
	const char *gpu;     /* --gpu; NULL: not given; may hold a count, see lk_gpu_split */
	int gpus;            /* --gpus; 0 not given */
	double power_w;      /* --power of every GPU, W; 0: the board's, or the cluster's */
	/* used where options leave it open */
	const char *origin;      /* the cluster a graph was built for, as lk_cluster.text; NULL: none */
	const lk_device *device; /* of a trace or a log; NULL not known */
	uint32_t ranks;          /* of a launch line, a trace or a log; 0: unknown */
	uint32_t needed;         /* ranks that a given cluster must hold; 0: any number */
	int domain;              /* participating GPUs of a node; 0: all */
	const char *no_gpu;      /* why no GPU is known, NULL "no GPU was given" */
	const char *no_gpus;     /* why no number of GPUs is known, likewise */
	const char *flat;        /* the question that ignores the network between nodes, so that a
	                            cluster that describes it is refused; NULL: it is used */
} lk_where;

/* LK_ERR_INPUT, naming `what`, if the cluster describes the network between its nodes. */
lk_status lk_cluster_refuse_network(const lk_cluster *cluster, const char *what, lk_error *err);

/* Split GPUs and their count: "4x4090", "8 x H100", "64 h100", "h100 x 8", "H100:8". Returns the
 * name, with the number in *count; or the text itself, and 0, if it has no such form or is a name.
 * The name lives as long as the text or the catalogue. */
const char *lk_gpu_split(const char *text, int *count);

/* Split --gpu with a count into the name in *gpu and the number in *gpus. LK_ERR_INPUT: *gpus was
 * another number. */
lk_status lk_where_count(const char **gpu, int *gpus, lk_error *err);

/* Resolve the cluster, and how many of its GPUs take part (`gpus`, may be NULL): from 1 to all.
 * LK_ERR_INPUT: both --cluster and --gpu are given, or neither and no device is known; the cluster
 * is too small; no number of GPUs; a network that the question ignores. */
lk_status lk_where_read(lk_arena *arena, const lk_where *where, lk_cluster *out, int *gpus,
                        lk_error *err);

/* The node group, the node (counted over all groups) and the place in the node of a rank, 0 <= rank
 * < gpus. */
typedef struct lk_place {
	int group, node, slot;
} lk_place;
lk_place lk_cluster_place(const lk_cluster *cluster, int rank);

/* ---- capability: what runs on which devices ---- */

typedef enum lk_capability {
	LK_CAN_FLASH2,
	LK_CAN_FLASH3,
	LK_CAN_CUDNN,     /* fused attention */
	LK_CAN_EFFICIENT, /* PyTorch's memory-efficient attention */
	LK_CAN_BLOCKS,    /* fp8 with a scaling factor per block */
	LK_CAN_MULTICAST, /* NVLS, through a switch */
	LK_CAN_BY_NODE,   /* DeepEP and HybridEP, over NVLink */
	LK_CAPABILITIES,
} lk_capability;

bool lk_device_can(const lk_device *device, lk_capability what);
/* Whether every device of it can. */
bool lk_cluster_can(const lk_cluster *cluster, lk_capability what);
/* What has no "FlashAttention-3", which runs on "Hopper"; where it is stated; the first release of
 * NCCL (21700; 0: all). */
const char *lk_capability_name(lk_capability what);
const char *lk_capability_needs(lk_capability what);
const char *lk_capability_source(lk_capability what);
int lk_capability_nccl(lk_capability what);

/* ---- cluster_edit: a cluster with one change. Unaffected parts are returned unchanged. */

/* Grow to `gpus` GPUs with more nodes of the same kind. A cluster that is large enough is
 * unchanged. */
lk_status lk_cluster_grown(lk_arena *arena, const lk_cluster *from, int gpus, lk_cluster *out,
                           lk_error *err);
/* Replace every device: default nodes if they were default nodes of the old device, else nodes of
 * the same size with the same NICs and the links of the new device. */
lk_status lk_cluster_with_device(lk_arena *arena, const lk_cluster *from, const lk_device *device,
                                 lk_cluster *out, lk_error *err);
/* Replace the NICs of every node: "2x" times as fast (also 0.5x), "400g" Gbit/s or "50GB/s" each,
 * "8*400g" or "8x400g" with their number. */
lk_status lk_cluster_with_nics(lk_arena *arena, const lk_cluster *from, const char *text,
                               lk_cluster *out, lk_error *err);
/* Replace the switches between the nodes, in the form of interconnect.c; "none": not described. */
lk_status lk_cluster_with_topology(lk_arena *arena, const lk_cluster *from, const char *text,
                                   lk_cluster *out, lk_error *err);
/* Limit every GPU to this power. */
lk_status lk_cluster_with_power(lk_arena *arena, const lk_cluster *from, double watts,
                                lk_cluster *out, lk_error *err);
/* What goes wrong with the links of a cluster without anybody's having asked for it. */
typedef enum lk_link_fault {
	LK_FAULT_SOCKETS,     /* messages between nodes go through TCP and the host's memory */
	LK_FAULT_NO_LINKS,    /* GPUs of a node reach one another over PCIe, not NVLink or xGMI */
	LK_FAULT_NO_PEER,     /* nor that: the host refuses peer access over PCIe */
	LK_FAULT_HALF_NODES,  /* the ranks of a node are on two */
	LK_FAULT_SHARED_TREE, /* the fabric above the nodes carries a quarter of their NICs' rate */
} lk_link_fault;
/* *applies is false where the cluster cannot have the fault, or has it. */
lk_status lk_cluster_with_fault(lk_arena *arena, const lk_cluster *from, lk_link_fault fault,
                                lk_cluster *out, bool *applies, lk_error *err);
/* Replace the links within the node: "2x", or "450GB/s" per GPU and direction. */
lk_status lk_cluster_with_links(lk_arena *arena, const lk_cluster *from, const char *text,
                                lk_cluster *out, lk_error *err);

#endif
