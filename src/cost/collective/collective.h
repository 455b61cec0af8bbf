/* collective.h: duration and resource use of collectives, as NCCL would run them. */
#ifndef LK_COST_COLLECTIVE_COLLECTIVE_H
#define LK_COST_COLLECTIVE_COLLECTIVE_H

#include <stdbool.h>

#include "base/fit.h"
#include "cost/calibration/calibration.h"
#include "cost/topology/topology.h"
#include "hw/hw.h"
#include "lockstep/error.h"

typedef enum lk_coll_kind {
	LK_COLL_ALLREDUCE,
	LK_COLL_ALLGATHER,
	LK_COLL_REDUCESCATTER,
	LK_COLL_ALLTOALL,
	LK_COLL_BROADCAST,
	LK_COLL_REDUCE,
	LK_COLL_SENDRECV,
	LK_COLLS,
} lk_coll_kind;
typedef enum lk_algo {
	LK_ALGO_TREE,
	LK_ALGO_RING,
	LK_ALGO_NVLS,
	LK_ALGO_NVLSTREE,
	LK_ALGO_PAT,
	LK_ALGO_COLLNET_DIRECT, /* switches between nodes reduce (SHARP); within a node, each GPU
	                         * reduces its part */
	LK_ALGO_COLLNET_CHAIN,  /* likewise; within a node, GPU by GPU */
	LK_ALGO_P2P,
	LK_ALGOS,
} lk_algo;
typedef enum lk_proto { LK_PROTO_LL, LK_PROTO_LL128, LK_PROTO_SIMPLE, LK_PROTOS } lk_proto;

/* What takes most of the time. */
typedef enum lk_coll_limit {
	LK_LIMIT_LATENCY,
	LK_LIMIT_LINKS,
	LK_LIMIT_NICS,
	LK_LIMIT_NETWORK
} lk_coll_limit;

const char *lk_coll_limit_name(lk_coll_limit limit); /* "latency", "links", "NICs", "network" */
const char *lk_coll_name(lk_coll_kind kind);         /* "all_reduce" */
const char *lk_algo_name(lk_algo algo);              /* "Ring" */
const char *lk_proto_name(lk_proto proto);           /* "LL128" */

/* A group of ranks from the network's view. */
typedef struct lk_group_shape {
	const lk_node *node; /* the kind of its nodes (the slowest if they differ) */
	int ranks;           /* n */
	int nodes;           /* N; 1: within one node */
	int ranks_per_node;  /* ceil(n / N) */
	int sharing; /* groups of this kind that communicate at the same time from one node and share
	                its NICs: with 8 data-parallel groups through 8 GPUs of a node, 8. At least 1 */
	double oversubscription;                 /* of the fabric; 1: none */
	const struct lk_fabric *fabric;          /* fitted numbers of the fabric; NULL: the default's */
	const struct lk_nccl_settings *settings; /* the user's NCCL settings; NULL: none */
	const lk_reach *reach; /* share of the links between nodes for its flows; NULL: all */
	int apart;             /* GPUs from one of its ranks on a node to the next; 0: 1 */
} lk_group_shape;

/* Whether the group's ranks of a node are the two that a bridge joins. */
bool lk_group_on_bridge(const lk_group_shape *group);

/* The number of a node's NICs that a group may use, maybe fractional: those next to its GPUs,
 * shared with groups of the same kind. */
double lk_group_nics(const lk_group_shape *group);

typedef struct lk_coll_cost {
	double seconds;
	lk_algo algo;
	lk_proto proto;
	lk_coll_limit limit;
	int channels;       /* channels = CTAs, about the number of SMs taken */
	double busbw;       /* bytes/s, nccl-tests definition */
	double memory_rate; /* bytes/s of device memory traffic during the call */
	double intra_rate,
		nic_rate; /* bytes/s per GPU on NVLink/PCIe and on its share of the NICs during the call */
} lk_coll_cost;

/* `bytes` as counted by nccl-tests: all_gather and reduce_scatter the total array, all_to_all the
 * whole send buffer of a rank. Zero cost if ranks <= 1 or bytes <= 0. */
lk_coll_cost lk_collective_cost(lk_coll_kind kind, const lk_group_shape *group, double bytes);

/* The traffic of such a collective between nodes. */
lk_traffic lk_coll_traffic(lk_coll_kind kind, lk_algo algo);

/* busbw = algbw * factor. */
double lk_coll_busbw_factor(lk_coll_kind kind, int ranks);

/* A message between two ranks, within a node or across nodes; `sharing` messages leave the node at
 * the same time. `settings` and `reach` as in lk_group_shape. */
lk_coll_cost lk_p2p_cost(const lk_node *node, bool same_node, int sharing, double oversubscription,
                         const struct lk_nccl_settings *settings, const lk_reach *reach,
                         double bytes);

/* ---- nccl_settings: NCCL's release and environment as words: "2.18.5 NCCL_ALGO=Ring
 * NCCL_PROTO=^LL128 NCCL_MAX_NCHANNELS=8". A word without `=` is the release. */

typedef struct lk_nccl_settings {
	unsigned char without_algo[LK_COLLS];  /* bits of lk_algo: excluded */
	unsigned char without_proto[LK_COLLS]; /* bit of lk_proto */
	int least_channels, most_channels;     /* 0: not stated */
	int nvls;                              /* 1 on, -1 off, 0 not stated */
	double buffer_bytes;                   /* bytes per channel and direction, Simple; 0: 4 MiB */
	double nvls_chunk;                     /* most bytes of a multicast's chunk; 0: 128 KiB */
	int release;                           /* 21805 for 2.18.5; 0: the newest modelled one */
} lk_nccl_settings;

/* Parse such a text; "" states nothing. LK_ERR_INPUT, with `where`: an unknown variable or value, a
 * contradiction, or settings that leave no way to run an all-reduce. */
lk_status lk_nccl_settings_read(const char *text, const char *where, lk_nccl_settings *out,
                                lk_error *err);
/* List the settings that cannot act on a collective of such a group, as names in `out`[size]; "":
 * all act. */
void lk_nccl_settings_idle(const lk_nccl_settings *settings, lk_coll_kind kind,
                           const lk_group_shape *group, char *out, size_t size);

/* ---- fabric: how far a fabric (a cluster's links, network and software) falls short of NCCL's own
 * figures: five numbers, fitted to measured collectives by `lockstep calibrate collectives`. */

enum {
	LK_FABRIC_LAUNCH,
	LK_FABRIC_CHANNEL,
	LK_FABRIC_WIRE,
	LK_FABRIC_NIC,
	LK_FABRIC_BUFFER,
	LK_FABRIC_NUMBERS,
};

typedef struct lk_fabric {
	double launch;  /* us per call */
	double channel; /* us per channel after the first that a call uses */
	double wire;    /* share of the link rate within a node that large messages reach */
	double nic;     /* likewise of the NICs' line rate; 0: by the PCIe generation of the device */
	double buffer;  /* MB of a message between nodes that a slow network's buffers absorb at once */
	const struct lk_curves
		*curves; /* residual corrections of the model on the fabric; NULL: unknown */
	const struct lk_nccl_laws *laws; /* NULL: the current ones */
} lk_fabric;

/* The numbers by index: their names in calibration rows, and their search limits. */
extern const char *const lk_fabric_names[LK_FABRIC_NUMBERS];
extern const lk_fit_number lk_fabric_limits[LK_FABRIC_NUMBERS];
double *lk_fabric_number(lk_fabric *fabric, int index);

/* Used if nothing is known, and as the start of every fit. */
extern const lk_fabric lk_fabric_plain;

/* The numbers of a row of family "collective", without curves; missing ones, and a NULL row, use
 * the built-in default. */
lk_fabric lk_fabric_of(const lk_calibration_row *row);

/* The row "default" of the current calibration, with its curves: for clusters with an unmeasured
 * fabric. Read once. */
const lk_fabric *lk_fabric_default(void);
lk_status lk_fabric_ready(lk_error *err);

/* ---- laws: what all fabrics have in common in addition to NCCL's own numbers: factors of links,
 * protocols and GPU generations, fitted once to all measured collectives together (family "laws" of
 * the calibration). */

typedef struct lk_nccl_laws {
	double base;                                                /* factor on NCCL's fixed latency,
	                                                          except LL's */
	double hops_ampere, hops_hopper, hops_blackwell, hops_pcie; /* factors on hops within a node: by
	                                                          GPU over NVLink, over PCIe */
	double launch_ampere, launch_blackwell; /* factors on the fabric's launch; Hopper's is 1 */
	double net_hops;                        /* factor on hops between nodes */
	double scan;      /* us per 1000 bytes of LL that cross a network: a proxy checks every flag */
	double ll, ll128; /* share reached of NCCL's bandwidths */
	double own, own_power; /* a ring copies the own share of each rank once, at the links' rate up
	                          to `own` MB; beyond, ever more of it is overlapped with the steps */
	double nvls_hopper, nvls_blackwell, nvls_rack; /* share of the links reached by the switches'
	                                                  multicast; of racks instead of boards */
	double nvls_round_us; /* least time of a chunk of every channel and head of it */
	double nvls_fill_us;  /* of the multicast's pipeline, per rank */
	double nics, slot;    /* share reached of the NICs' line rate, of a GPU's PCIe slot to them */
	double socket_nics, socket_us, crowd; /* without RDMA: share of the NICs' line rate; time per
	                                         message between nodes; power by which more GPUs per NIC
	                                         reach more of it */
	double message_launch, message_hops, message_join, message_wire,
		message_nic;    /* for messages between two ranks */
	double buffer_rate; /* GB/s into the buffers of a network without RDMA; a constant */
} lk_nccl_laws;

enum { LK_NCCL_LAWS = 28 };
/* By index: names in a calibration, start and limits of the search. */
extern const lk_fit_number lk_nccl_law_limits[LK_NCCL_LAWS];
double *lk_nccl_law(lk_nccl_laws *laws, int index);
/* The laws of a row of family "laws"; missing ones, and a NULL row, use the start of the search. */
lk_nccl_laws lk_nccl_laws_of(const lk_calibration_row *row);
/* The laws of the current calibration. Read once. */
const lk_nccl_laws *lk_nccl_laws_default(void);
/* Create both defaults of the current calibration, since later uses cannot report errors.
 * LK_ERR_MEMORY. */
lk_status lk_coll_ready(lk_error *err);

/* ---- curve: how far the measured curve of a collective lies from the NCCL model: a factor at each
 * power of two of bytes. Curves belong to a fabric and to one collective on one number of GPUs and
 * nodes; they affect nothing else. */

enum {
	LK_CURVE_KNOTS = 24, /* 1 KiB to 8 GiB */
	LK_CURVE_FIRST = 10, /* log2 of the first knot's bytes */
	LK_CURVES_MOST = 32, /* most curves of a fabric; further ones are ignored */
};

typedef struct lk_curve {
	lk_coll_kind kind;
	int gpus, nodes;
	bool measured[LK_CURVE_KNOTS];
	double correction[LK_CURVE_KNOTS]; /* ln(measured / model); interpolated from neighbouring knots
	                                      if unmeasured */
} lk_curve;

typedef struct lk_curves {
	lk_curve at[LK_CURVES_MOST];
	int count;
} lk_curves;

/* "1K" to "8G": the knots' names in a row of a calibration. */
const char *lk_curve_knot_name(int knot);
/* The place of a size among the knots, clamped to their range. */
double lk_curve_place(double bytes);
/* Fill unmeasured knots from measured ones. */
void lk_curve_fill(lk_curve *curve);

/* The rows of family "curve" after the fabric's own row: later files bring their own. */
void lk_curves_of(const lk_calibration *calibration, const lk_calibration_row *fabric,
                  lk_curves *out);

/* Whether there is a curve for this collective and group. */
bool lk_curves_have(const lk_curves *curves, lk_coll_kind kind, const lk_group_shape *group);

/* Factor on the model's time; 1 if there is no curve for this collective and group. */
double lk_curves_factor(const lk_curves *curves, lk_coll_kind kind, const lk_group_shape *group,
                        double bytes);

/* ---- range: distance of measured collectives from predicted ones (80 %), by what was measured on
 * the fabric. */

/* Classes of sizes: "<1 MiB" to ">64 MiB". */
enum { LK_COLL_SIZE_CLASSES = 5 };
extern const char *const lk_coll_size_classes[LK_COLL_SIZE_CLASSES];
int lk_coll_size_class(double bytes);

/* What carries a group's bytes. */
typedef enum lk_coll_place {
	LK_COLL_LINKS, /* NVLink or xGMI within a node */
	LK_COLL_PCIE,
	LK_COLL_NETWORK,
	LK_COLL_PLACES,
} lk_coll_place;
lk_coll_place lk_coll_place_of(const lk_group_shape *group);

/* The variants of such rows of a calibration: for a fitted fabric, "NDv4 node collectives 1-4 MiB";
 * for an unmeasured one, "unmeasured links messages". */
void lk_coll_range_own(const char *fabric, bool network, bool messages, int size, char *out,
                       size_t room);
void lk_coll_range_unseen(lk_coll_place place, bool messages, char *out, size_t room);

/* Half the range of an unmeasured fabric, in two parts. */
typedef struct lk_coll_range {
	double share; /* share of the time, as ln */
	double us;
	int nodes; /* most nodes of a measured group; 0: unknown */
} lk_coll_range;
lk_coll_range lk_coll_range_of(const lk_calibration *calibration, lk_coll_place place,
                               bool messages);
/* Half the range of a predicted time in us of a group on this many nodes, as ln. */
double lk_coll_range_width(const lk_coll_range *range, int nodes, double us);

/* Whether a fabric has rows of its own, for any size. */
bool lk_coll_range_known(const lk_calibration *calibration, const char *fabric, lk_coll_kind kind,
                         const lk_group_shape *group);

/* Likewise for a collective on a fabric of the calibration (NULL: an unmeasured one); `unseen`: not
 * measured on this number of GPUs. The range is us exp(-width) to us exp(width). */
double lk_coll_width(const lk_calibration *calibration, const char *fabric, lk_coll_kind kind,
                     const lk_group_shape *group, double bytes, double us, bool unseen);

/* ---- host_messages: durations of MPI messages and collectives by size, as measured by `lockstep
 * calibrate host --mpi`. */

enum { LK_MESSAGE_SIZES = 64 };

/* By ascending size; seconds of a single message (half a round trip), and when both ends send at
 * once. */
typedef struct lk_message_times {
	int count;
	double bytes[LK_MESSAGE_SIZES], alone[LK_MESSAGE_SIZES], both[LK_MESSAGE_SIZES];
} lk_message_times;

/* A kind of collective among this many ranks on this many nodes; by ascending size. Seconds after a
 * pause, and right after another one, when ranks arrive at different times. */
typedef struct lk_collective_times {
	int count, ranks, nodes;
	double bytes[LK_MESSAGE_SIZES], alone[LK_MESSAGE_SIZES], behind[LK_MESSAGE_SIZES];
} lk_collective_times;

typedef struct lk_host_messages {
	lk_message_times inside, between;         /* nodes; count 0: not measured */
	lk_collective_times collective[LK_COLLS]; /* count 0: not measured */
	double one_core_rate; /* bytes/s that one core streams through memory; 0: not measured */
	double gelu_cycles;   /* core cycles per element of a pass of emitted C; 0: not measured */
} lk_host_messages;

/* Read the measurements of a cluster file in JSON; empty if it has none, or is not such a file. */
lk_status lk_host_messages_read(const char *path, lk_host_messages *out, lk_error *err);

/* Linear interpolation between measured sizes; above the largest, extrapolated from the last
 * two. */
double lk_message_seconds(const lk_message_times *times, double bytes, bool both);
double lk_collective_seconds(const lk_collective_times *times, double bytes, bool behind);

/* ---- host_collective: collectives of host libraries, MPI and gloo. */

typedef enum lk_host_library { LK_HOST_MPI, LK_HOST_GLOO } lk_host_library;

typedef struct lk_host_cost {
	double seconds;
	const char *algorithm; /* "Rabenseifner" */
	bool latency_bound;    /* messages rather than bytes take most of the time */
} lk_host_cost;

/* Seconds per message and per byte, within a node (shared memory) and between nodes, and per
 * reduced byte. */
typedef struct lk_host_links {
	double alpha[2], beta[2], gamma; /* [0] within a node, [1] between nodes */
} lk_host_links;

lk_host_links lk_host_links_of(lk_host_library library, const lk_group_shape *group);

/* lk_host_collective for MPI, from measured messages if there are any; NULL: none. If collectives
 * of this kind were measured, times the ratio of the library's time to the algorithm's there:
 * `behind`: right after another one, else after a pause. */
lk_host_cost lk_host_collective_measured(const lk_host_messages *messages, lk_coll_kind kind,
                                         const lk_group_shape *group, double bytes, bool behind);

/* The fastest of the library's algorithms for this collective; bytes as counted by nccl-tests. */
lk_host_cost lk_host_collective(lk_host_library library, lk_coll_kind kind,
                                const lk_group_shape *group, double bytes);

#endif
