/* collective.h: how long a collective takes and what it occupies, as NCCL would run it. */
#ifndef LK_COST_COLLECTIVE_H
#define LK_COST_COLLECTIVE_H

#include "hw/hw.h"

typedef enum lk_coll_kind {
	LK_COLL_ALLREDUCE, LK_COLL_ALLGATHER, LK_COLL_REDUCESCATTER, LK_COLL_ALLTOALL, LK_COLL_BROADCAST, LK_COLL_REDUCE,
	LK_COLL_SENDRECV,
	LK_COLLS,
} lk_coll_kind;
typedef enum lk_algo {
	LK_ALGO_TREE, LK_ALGO_RING, LK_ALGO_NVLS, LK_ALGO_NVLSTREE, LK_ALGO_PAT, LK_ALGO_P2P,
	LK_ALGOS,
} lk_algo;
typedef enum lk_proto { LK_PROTO_LL, LK_PROTO_LL128, LK_PROTO_SIMPLE, LK_PROTOS } lk_proto;

/* What most of the time goes to. */
typedef enum lk_coll_limit { LK_LIMIT_LATENCY, LK_LIMIT_LINKS, LK_LIMIT_NICS } lk_coll_limit;

const char *lk_coll_limit_name(lk_coll_limit limit); /* "latency", "links", "NICs" */
const char *lk_coll_name(lk_coll_kind kind); /* "all_reduce" */
const char *lk_algo_name(lk_algo algo);      /* "Ring" */
const char *lk_proto_name(lk_proto proto);   /* "LL128" */

/* A group of ranks as the network sees it. */
typedef struct lk_group_shape {
	const lk_node *node;     /* the kind of its nodes (the slowest, where they differ) */
	int ranks;               /* n */
	int nodes;               /* N; 1 = inside one node */
	int ranks_per_node;      /* ceil(n / N) */
	int sharing;             /* groups of this kind that work at the same time on one node and share its NICs: with 8
	                            data-parallel groups through 8 GPUs of a node, 8. At least 1 */
	double oversubscription; /* of the fabric, 1 = none */
	const struct lk_fabric *fabric; /* its fitted numbers; NULL: those of the default */
} lk_group_shape;

typedef struct lk_coll_cost {
	double seconds;
	lk_algo algo;
	lk_proto proto;
	lk_coll_limit limit;
	int channels;            /* = CTAs = about SMs taken */
	double busbw;            /* bytes/s, nccl-tests definition */
	double memory_rate;      /* bytes/s of device memory traffic while it runs */
	double intra_rate, nic_rate; /* bytes/s per GPU on NVLink/PCIe and on its share of the NICs while it runs */
} lk_coll_cost;

/* `bytes` as nccl-tests count them: all_gather and reduce_scatter the total array, all_to_all the whole send buffer
 * of a rank. ranks <= 1 or bytes <= 0 cost nothing. */
lk_coll_cost lk_collective_cost(lk_coll_kind kind, const lk_group_shape *group, double bytes);

/* busbw = algbw * factor. */
double lk_coll_busbw_factor(lk_coll_kind kind, int ranks);

/* A message between two ranks, inside a node or across nodes; `sharing` messages leave the node at the same time. */
lk_coll_cost lk_p2p_cost(const lk_node *node, bool same_node, int sharing, double oversubscription, double bytes);

#endif
