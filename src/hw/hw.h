/* hw.h: devices, nodes, clusters. What the hardware is, never how fast a given kernel runs on it:
 * that is cost/. */
#ifndef LK_HW_HW_H
#define LK_HW_HW_H

#include <stdbool.h>
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
/* Reads "bf16", "fp8", ... (also "float32", "bfloat16", "half", "e4m3", "hybrid"); false if
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

/* A device of the catalogue. Peaks are dense (no sparsity) and of the boost clock, as the vendor
 * states them; 0 where the device has no such arithmetic. Rates are per second, link rates per
 * direction. */
typedef struct lk_device {
	char name[40];  /* "h100-sxm" */
	char label[64]; /* "NVIDIA H100 SXM5 80GB" */
	lk_arch arch;
	double peak_flops[LK_DTYPES];
	double vector_flops; /* fp32 on the ordinary lanes */
	double memory_bytes; /* as the driver reports it: H100 80GB has 79.6 GiB */
	double memory_rate;  /* bytes/s */
	double l2_bytes;
	int sms;          /* streaming multiprocessors or compute units */
	int shared_kib;   /* shared memory per SM */
	double clock_hz;  /* boost */
	double power_w;   /* board power */
	double link_rate; /* NVLink / xGMI bytes/s per direction and GPU, all links; 0 if none */
	int links;        /* number of them */
	bool link_switch; /* full bisection through a switch (NVSwitch) in its usual node */
	bool link_bridge; /* the links are a bridge between two cards: not used unless they are asked
	                     for */
	int node_gpus;    /* GPUs in its usual node or NVLink domain */
	double pcie_rate; /* bytes/s per direction */
	double
		nic_rate; /* bytes/s per GPU in its usual node: what a cluster gets when nothing is said */
	char source[160];
	/* What `lockstep calibrate host` measured on the device itself; 0 for devices of the catalogue.
	 * They go before what cost/ reckons from peaks. */
	double gemm_flops;  /* that large fp32 matrix products reach */
	double stream_rate; /* bytes/s that streaming through memory reaches */
	double call_s;      /* shortest operation: to start all cores and to wait for them */
} lk_device;

/* What MFU is a share of, FLOP/s: the peak of a number format; of one that the device lacks that of
 * its vector units. */
double lk_device_peak(const lk_device *device, lk_dtype dtype);
/* Loads the catalogue where it is not yet. What asks by lk_device_find, lk_device_count and
 * lk_device_at, which have no error to fill, says this first: where out of memory they know no
 * device. */
lk_status lk_devices_ready(lk_error *err);
/* The catalogue. Names and aliases are compared without regard to case, '-', '_', '.' and blanks,
 * with or without the words "NVIDIA", "Tesla", "AMD", "Instinct", "GPU". */
const lk_device *lk_device_find(const char *name);
/* lk_device_find, or an error that names the nearest ones, or says why a known accelerator (TPU,
 * Gaudi, IPU) is not modelled. `where`: the option or the place in a file that names the device. */
lk_status lk_device_lookup(const char *name, const char *where, const lk_device **out,
                           lk_error *err);
int lk_device_count(void);
const lk_device *lk_device_at(int index);
/* The device that differs from this one by its memory alone and comes nearest to the size; the
 * device itself if none is nearer. Price lists say "A100" and 40 GB in two columns. */
const lk_device *lk_device_variant(const lk_device *device, double memory_bytes);
/* The device with another limit of its board's power. A quarter of what the board takes to one and
 * a half of it: boards of one name are sold cooled by air and by liquid. LK_ERR_INPUT: outside. */
lk_status lk_device_with_power(lk_arena *arena, const lk_device *device, double watts,
                               const lk_device **out, lk_error *err);
/* Aliases of a device as one text, comma separated. */
const char *lk_device_aliases(const lk_device *device);

/* How the GPUs of a node reach each other. */
typedef enum lk_intra {
	LK_INTRA_PCIE,
	LK_INTRA_MESH, /* NVLink or xGMI without a switch */
	LK_INTRA_SWITCH
} lk_intra;

/* A kind of node. */
typedef struct lk_node {
	const lk_device *device;
	int gpus; /* GPUs of one node = of one NVLink domain where there is one */
	lk_intra intra;
	double intra_rate; /* bytes/s per direction and GPU */
	int nics;
	double nic_rate;      /* bytes/s per direction and NIC */
	double nic_latency_s; /* added to a message's latency: InfiniBand 0, EFA 20 to 75 us */
	bool sockets;         /* no RDMA: messages pass through host memory and TCP */
} lk_node;

/* Bytes/s that a GPU of it sends at most, inside and out. */
static inline double lk_node_rate(const lk_node *node) {
	return node->intra_rate + node->nics * node->nic_rate;
}

/* What EFA adds to a message's latency, s, by the generation of its cards. */
double lk_efa_latency(const lk_node *node);
/* What its plugin tells NCCL of cards of this rate, s: for the choice of algorithms alone. */
double lk_efa_hint(double nic_rate);

/* The switches and links between nodes. */
typedef enum lk_net_kind {
	LK_NET_FLAT, /* not described: every node reaches every other, but for oversubscription */
	LK_NET_TREE,
	LK_NET_RAILS, /* a tree whose lowest switches join the NICs of one number of several nodes */
	LK_NET_DRAGONFLY,
	LK_NET_TORUS,
	LK_NET_KINDS,
} lk_net_kind;

enum {
	LK_TIERS = 3 /* kinds of links of a network, as lk_tier_name says */
};

/* Nodes take the places of a network in their order. A tier is what a switch of a tree has towards
 * the top, the links inside and between the groups of a dragonfly, those along one dimension of a
 * torus. */
typedef struct lk_interconnect {
	lk_net_kind kind;
	int sizes; /* tree, rails: tiers of switches under the top, 1 to 3; dragonfly 3; torus 1 to 3
	              dimensions */
	int size[LK_TIERS]; /* tree, rails: nodes of a leaf, leaves of a spine switch, ...; dragonfly:
	                       nodes of a router, routers of a group, global links of a router; torus:
	                       nodes along each dimension */
	double ratio[LK_TIERS];      /* tree, rails: bandwidth down over bandwidth up, 1 or more */
	double rate[LK_TIERS];       /* bytes/s and direction. Tree, rails: of all that a switch has
	                                towards the top; 0: by the ratio. Dragonfly, torus: of a link;
	                                0: as all NICs of a node have */
	double latency_s[LK_TIERS];  /* added to a message that takes the tier: of a tree's for the way
	                                up and down together, else for each link */
	double background[LK_TIERS]; /* share that other jobs take, 0 to less than 1 */
	bool sharp;                  /* tree, rails: switches reduce */
} lk_interconnect;

/* "leaf", "spine", "core" of trees; "local", "global"; "x", "y", "z"; NULL: no such tier. */
const char *lk_tier_name(lk_net_kind kind, int tier);
/* How many tiers it has. */
int lk_interconnect_tiers(const lk_interconnect *net);

/* Reads a network of `places` alike ends, as in "tree 4*2 leaf 10g 20ms". LK_ERR_INPUT, with
 * `where`: not understood, too small, or rails, which need nodes with several NICs. */
lk_status lk_interconnect_parse(const char *text, long long places, const char *where,
                                lk_interconnect *out, lk_error *err);

/* A cluster: runs of equal nodes, in rank order. */
typedef struct lk_cluster {
	int groups;              /* runs of equal nodes */
	lk_node *node;           /* [groups] */
	int *nodes;              /* [groups] how many of each */
	int gpus;                /* over all nodes */
	double oversubscription; /* of the fabric above the node; 1 = none */
	bool rail_optimised;
	lk_interconnect net; /* above the node, in more detail than one number */
	char text[256];      /* the synthetic form, for reports */
	char nccl[256];      /* what a log says of NCCL's release and settings, as --nccl takes them */
	const char *assumed; /* what a log does not state and was inferred, for reports; NULL nothing */
} lk_cluster;

/* NCCL's variables whose effect is modelled (cost/collective, nccl_settings), ended by NULL. */
extern const char *const lk_nccl_variables[];
/* Whether NAME (of `length` bytes) is one of them. */
bool lk_nccl_variable(const char *name, size_t length);

/* "--gpu NAME --gpus N": usual nodes of that device, the last one filled as far as N needs.
 * `domain` (0: usual) and `nic_bytes_per_gpu` (0: usual) override. */
lk_status lk_cluster_simple(lk_arena *arena, const lk_device *device, int gpus, int domain,
                            double nic_bytes_per_gpu, lk_cluster *out, lk_error *err);

/* The synthetic form:
 *
 *     [COUNT node *] COUNT DEVICE [WATTSw] [nvlinkN|nvswitch|pcieN|xgmi|GB/s]
 *         [, nic COUNT*GBITS [LATENCYus]] [, oversub X | NETWORK] [+ ...]
 *
 * as in "8 node * 8 h100-sxm nvlink4, nic 8*400g + 2 node * 8 a100-sxm-80, nic 4*200g". Without
 * "node" the COUNT devices fill usual nodes: "64 h100-sxm" is 8 nodes of 8. The whole grammar is in cluster_parse.c. A text that ends in .json, or
 * that begins with '{', is the JSON form of docs/reference/files.md; "[COUNT node *] FILE.xml"
 * takes the node from NCCL's topology file, "FILE.log [DEVICE]" the cluster from what NCCL prints
 * with NCCL_DEBUG=INFO. Errors name the column. */
lk_status lk_cluster_parse(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err);

/* The synthetic form alone: what a file carries opens no other. */
lk_status lk_cluster_parse_text(lk_arena *arena, const char *text, lk_cluster *out, lk_error *err);
/* Whether the text is or names a JSON form or a topology file, of which lk_cluster.text is a
 * summary and not all. */
bool lk_cluster_text_is_file(const char *text);

/* What a question says of where it runs, in options and otherwise. */
typedef struct lk_where {
	const char *cluster; /* --cluster; NULL not given */
	const char *gpu;     /* --gpu; NULL not given; with a number of them as lk_gpu_split has it */
	int gpus;            /* --gpus; 0 not given */
	double power_w;      /* --power, of every GPU; 0 as the board's, or as the cluster says */
	/* where options leave it open */
	const char *origin; /* the cluster that a graph was built for, as lk_cluster.text; NULL none */
	const lk_device *device; /* of a trace or a log; NULL not known */
	uint32_t ranks;          /* of a launch line, a trace or a log; 0 not known */
	uint32_t needed;         /* ranks for which a given cluster must have room; 0 any number */
	int domain;              /* GPUs of a node that took part; 0 all */
	const char *no_gpu;      /* why no GPU is known, NULL "no GPU was given" */
	const char *no_gpus;     /* why no number of GPUs is known, likewise */
	const char *flat;        /* what does not look at the network between nodes: a cluster that
	                            describes it is refused; NULL it does */
} lk_where;

/* LK_ERR_INPUT, naming `what`, where the cluster describes the network between its nodes. */
lk_status lk_cluster_refuse_network(const lk_cluster *cluster, const char *what, lk_error *err);

/* GPUs with their number, as people write them: "4x4090", "8 x H100", "64 h100", "h100 x 8",
 * "H100:8". The name, and the number in *count; the text itself, and 0, where it has no such form
 * or is a name. The name lives as long as the text or the catalogue. */
const char *lk_gpu_split(const char *text, int *count);

/* --gpu with a number: the name alone in *gpu, the number in *gpus. LK_ERR_INPUT: *gpus was another
 * number. */
lk_status lk_where_count(const char **gpu, int *gpus, lk_error *err);

/* The cluster, and how many of its GPUs take part (`gpus`, may be NULL): from 1 to all of them.
 * LK_ERR_INPUT: --cluster and --gpu are both given, or neither and no device is known; a cluster
 * that is too small; no number of GPUs; a network where it is not looked at. */
lk_status lk_where_read(lk_arena *arena, const lk_where *where, lk_cluster *out, int *gpus,
                        lk_error *err);

/* The node group, the node (counted over all groups) and the place in the node of a rank, 0 <= rank
 * < gpus. */
typedef struct lk_place {
	int group, node, slot;
} lk_place;
lk_place lk_cluster_place(const lk_cluster *cluster, int rank);

/* ---- cluster_edit: a cluster with something changed. What is the same afterwards as before is
 * returned as it was. */

/* With room for `gpus`: more nodes like those it has. A cluster that is large enough stays as it
 * is. */
lk_status lk_cluster_grown(lk_arena *arena, const lk_cluster *from, int gpus, lk_cluster *out,
                           lk_error *err);
/* Another device in place of every one: nodes as usual for it where they were as usual for the old
 * one, else nodes of the same size with the same NICs and the links of the new device. */
lk_status lk_cluster_with_device(lk_arena *arena, const lk_cluster *from, const lk_device *device,
                                 lk_cluster *out, lk_error *err);
/* Other NICs in every node: "2x" times as fast (also 0.5x), "400g" Gbit/s or "50GB/s" each,
 * "8*400g" or "8x400g" so many. */
lk_status lk_cluster_with_nics(lk_arena *arena, const lk_cluster *from, const char *text,
                               lk_cluster *out, lk_error *err);
/* Other switches between the nodes, in the form that interconnect.c states; "none": not described.
 */
lk_status lk_cluster_with_topology(lk_arena *arena, const lk_cluster *from, const char *text,
                                   lk_cluster *out, lk_error *err);
/* Every GPU held to so many watts. */
lk_status lk_cluster_with_power(lk_arena *arena, const lk_cluster *from, double watts,
                                lk_cluster *out, lk_error *err);
/* Other links inside the node: "2x", or "450GB/s" per GPU and direction. */
lk_status lk_cluster_with_links(lk_arena *arena, const lk_cluster *from, const char *text,
                                lk_cluster *out, lk_error *err);

#endif
