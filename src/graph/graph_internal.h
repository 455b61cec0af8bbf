/* graph_internal.h: the file form of a step graph, shared by its writer and its reader. Private to
 * graph/.
 *
 *     {"lockstep_graph": 1,
 *      "ranks": {"world", "stages", "chains", "groups": {"tp": [size, stride], ...}},   groups of
 *          one rank are left out
 *      "facts": {"model_flops", "tokens", "samples", "peak_dtype": "bf16", and of a job's graph
 *          "stack", "release", "attention", and where they are true "cuda_graphs",
 *          "graph_experts", "recipes", "compiled", "streaming"; and "cluster", the text form of the
 *          one it was built for},
 *      "channels": most channels of a program,
 *      "blocks": [{"name", "operations": [{"name", "kind", "stream", ...}, ...]}, ...],
 *      "programs": [{"name", "stage", "channels", "events", "resident": {"weights": bytes, ...},
 *          "streams": [{"stream", "name", "thread": true}, ...],   where they have names, or are
 *              CPU threads
 *          "calls": [[block, repeat, micro-batch, layer, chunk, "pass", argument 1, argument 2],
 *              ...]}, ...],
 *      "wires": [[program, channel, program, channel], ...],
 *      "teams": [{"name", "members": [program, ...], "ranks", "across": true}, ...],
 *      "traced": true,
 *      "lockstep_seal": "SUM"}      of a file that is not packed (io/stream.h)
 *
 * "lockstep_graph", the version, comes first; the other members come in any order. Empty "streams"
 * and "teams" are left out, and so are "thread", "across" and "traced" if false. Members of an
 * operation are those of lk_op (graph.h) under the names of lk_graph_fields; a field of value 0 is
 * left out, and a missing field is 0: phase "forward", group "none", number format "fp32". Kinds,
 * streams, groups, phases, owners and formats are written by name, a stream without a name by
 * number. Calls may omit their arguments. Texts are UTF-8. */
#ifndef LK_GRAPH_GRAPH_INTERNAL_H
#define LK_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

enum {
	LK_GRAPH_VERSION = 1,
	LK_GRAPH_FLAGS = 7,
	LK_GRAPH_NAMES = 32,         /* most names of a list */
	LK_GRAPH_CHANNELS = 1 << 16, /* most channels of a program that are read, */
	LK_GRAPH_WIRES = 1 << 24,    /* and of all programs together */
};

/* Lists of names, by what they name. */
typedef enum lk_graph_list {
	LK_LIST_KIND,
	LK_LIST_STREAM,
	LK_LIST_PHASE,
	LK_LIST_GROUP,
	LK_LIST_DTYPE,
	LK_LIST_OWNER,
	LK_LIST_FLAG,
	LK_LIST_ATTENTION,
} lk_graph_list;
/* Fills `names`; returns how many. */
size_t lk_graph_names(lk_graph_list list, const char *names[LK_GRAPH_NAMES]);

/* How a field of lk_op is stored. */
typedef enum lk_graph_form {
	LK_FORM_TEXT,    /* const char *, always written */
	LK_FORM_CHOICE,  /* uint8_t: one name of `list` */
	LK_FORM_SET,     /* bits: an array of names of `list`; uint8_t or uint32_t by `high` */
	LK_FORM_REAL,    /* double */
	LK_FORM_BYTE,    /* uint8_t up to `high` */
	LK_FORM_CHANNEL, /* int32_t */
	LK_FORM_TIME,    /* int64_t */
	LK_FORM_DEPS,    /* an array of places */
} lk_graph_form;

typedef struct lk_graph_field {
	const char *name;
	lk_graph_form form;
	lk_graph_list list;
	size_t offset; /* in lk_op */
	unsigned high;
	bool always; /* written even if 0 */
} lk_graph_field;

enum { LK_GRAPH_FIELDS = 25 };
extern const lk_graph_field lk_graph_fields[LK_GRAPH_FIELDS];

/* ---- graph_check: parts of lk_graph_check in separate files. Private to graph/. */

/* graph_check_teams.c: check that lists of members are in order and that every operation of a team
 * is issued equally often by all its members. Blocks, operations and calls have been checked. */
lk_status lk_graph_check_teams(const lk_graph *graph, lk_error *err);

/* ---- graph_export.c: a graph rank by rank, as nodes that wait for one another */

typedef LK_VEC(uint32_t) lk_export_members;
/* Process groups used by the step's collectives, numbered from 1 in the order in which rank after
 * rank first calls one. */
typedef struct lk_export_groups {
	lk_intern *names; /* ids are the numbers */
	LK_VEC(lk_export_members) members;
	uint64_t world; /* all ranks */
} lk_export_groups;

/* Dependencies of an omitted operation: nodes in `handed`. */
typedef struct lk_export_front {
	size_t begin, count;
} lk_export_front;

typedef struct lk_export_node {
	const lk_op *op;
	uint32_t at; /* the operation's place in the graph */
	uint64_t id; /* from 1 on each rank */
	bool host;   /* work of the host */
	const uint64_t *deps;
	size_t dep_count; /* ids in ascending order, each once */
} lk_export_node;

typedef struct lk_export {
	const lk_graph *graph;
	const char *what; /* "Chakra traces": the place named in errors */
	bool host;        /* include nodes of the host */
	lk_status (*put)(struct lk_export *export, const lk_export_node *node);
	void *context; /* of `put` */
	lk_error *err;
	lk_export_groups groups;
	size_t longest;              /* operations of the largest block */
	uint32_t most_events;        /* of a program */
	uint32_t stage, chain, rank; /* the current rank */
	/* of the current rank */
	uint64_t next;             /* id of the next node */
	uint64_t last[LK_STREAMS]; /* last node on the stream; 0: none */
	uint64_t *events;          /* [most_events] the node that set it */
	uint64_t *placed;          /* [longest] nodes of the call's operations */
	LK_VEC(uint64_t) deps;
	LK_VEC(uint8_t) streams; /* of each node, by id from 1 */
	LK_VEC(lk_export_front) fronts;
	LK_VEC(uint64_t) handed;
} lk_export;

/* Check the graph and its size, find all process groups; lk_export_end in every case. */
lk_status lk_export_begin(lk_export *export);
void lk_export_end(lk_export *export);
/* Allocate space for going through ranks; lk_export_leave in every case. A copy of an export that
 * has begun can go through its ranks separately, also on another thread, and is left before the
 * export ends. */
lk_status lk_export_enter(lk_export *export);
void lk_export_leave(lk_export *export);
/* Make the index-th rank, stage by stage, the current one. */
void lk_export_turn(lk_export *export, uint64_t index);
/* Call `put` for every node of that rank, in the order of issue. */
lk_status lk_export_rank(lk_export *export);
/* The number of a collective's group. */
uint32_t lk_export_group(const lk_export *export, const lk_op *op);
uint64_t lk_export_group_size(const lk_graph *graph, const lk_op *op);
/* The other end of a message, and its tag: both ends of a wire use the smaller of its numbers. The
 * k-th send with a tag pairs with the k-th receive. */
typedef struct lk_export_message {
	uint32_t peer, tag;
} lk_export_message;
lk_export_message lk_export_peer(const lk_export *export, const lk_op *op);
/* Rounded; 0 for negative numbers. */
uint64_t lk_export_whole(double real);
/* Create a folder if it does not exist. */
lk_status lk_export_folder(const char *dir, bool *made, lk_error *err);

/* ---- graph_chakra_machine.c: the machine, and ASTRA-sim's further input files */

/* Number of pieces into which ASTRA-sim cuts a collective. */
enum { LK_EXPORT_PIECES = 4 };

/* A level of the network as ranks see it. */
typedef struct lk_export_level {
	const char *shape; /* ASTRA-sim's: "Switch", "FullyConnected" */
	uint64_t count;    /* places */
	double rate;       /* bytes/s per rank */
	double latency_ns;
} lk_export_level;
/* The node's links, then the fabric; a level with a single place is left out. Returns how many. */
int lk_export_levels(const lk_cluster *cluster, uint64_t ranks, lk_export_level levels[2]);

/* `roofline`: nodes have no durations; a simulator derives them from num_ops and tensor_size. */
lk_status lk_chakra_write_machine(const lk_graph *graph, const lk_export_groups *groups,
                                  bool roofline, const char *dir, lk_error *err);

#endif
