/* graph_internal.h: the file form of a step graph: what its writer and its reader share. Private to
 * graph/.
 *
 *     {"lockstep_graph": 1,
 *      "ranks": {"world", "stages", "chains", "groups": {"tp": [size, stride], ...}},   groups of
 *          one rank are left out
 *      "facts": {"model_flops", "tokens", "samples", "peak_dtype": "bf16", and of a job's graph
 *          "stack", "release", "attention", and where they are true "cuda_graphs", "graph_experts",
 * "compiled", "streaming"; and "cluster", the text form of the one it was built for}, "channels":
 * most channels of a program, "blocks": [{"name", "operations": [{"name", "kind", "stream", ...},
 * ...]}, ...], "programs": [{"name", "stage", "channels", "events", "resident": {"weights": bytes,
 * ...}, "streams": [{"stream", "name", "thread": true}, ...],   where they have names, or are CPU
 * threads "calls": [[block, repeat, micro-batch, layer, chunk, "pass", argument 1, argument 2],
 * ...]}, ...], "wires": [[program, channel, program, channel], ...], "teams": [{"name", "members":
 * [program, ...], "ranks", "across": true}, ...], "traced": true}
 *
 * "lockstep_graph", the version, comes first; the other members come in any order. "streams",
 * "teams" and "traced" are left out where there are none, so are "thread", "across" and "traced"
 * where they are false. Members of an operation are those of lk_op (graph.h) under the names of
 * lk_graph_fields; a field that is 0 is left out, and what is left out is 0: phase "forward", group
 * "none", number format "fp32". Kinds, streams, groups, phases, owners and formats stand by name, a
 * stream without a name by number. Calls may leave out their arguments. Texts are UTF-8. */
#ifndef LK_GRAPH_GRAPH_INTERNAL_H
#define LK_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

enum {
	LK_GRAPH_VERSION = 1,
	LK_GRAPH_FLAGS = 6,
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
	bool always; /* written even if it is 0 */
} lk_graph_field;

enum {
	LK_GRAPH_FIELDS = 24
};
extern const lk_graph_field lk_graph_fields[LK_GRAPH_FIELDS];

/* ---- graph_check: parts of lk_graph_check in files of their own. Private to graph/. */

/* graph_check_teams.c: lists of members in order; every operation of a team issued equally often by
 * all its members. Blocks, operations and calls have been checked. */
lk_status lk_graph_check_teams(const lk_graph *graph, lk_error *err);

/* ---- graph_chakra_machine.c: the files that ASTRA-sim reads with Chakra's traces */

typedef LK_VEC(uint32_t) lk_chakra_members;
/* Process groups, numbered from 1 in the order in which they are first seen. */
typedef struct lk_chakra_groups {
	LK_VEC(struct {
		char *name;
		lk_chakra_members members;
	})
	all;
	uint64_t world; /* all ranks */
	bool lost;      /* memory was out */
} lk_chakra_groups;
/* The number of a group, with the rank that uses it as a member; 0: of all ranks. Ranks come in
 * turn. */
uint32_t lk_chakra_group(lk_chakra_groups *groups, const char *name, uint32_t rank, uint64_t size);
void lk_chakra_groups_free(lk_chakra_groups *groups);
/* `roofline`: nodes have no durations, and a simulator makes them from num_ops and tensor_size. */
lk_status lk_chakra_write_machine(const lk_graph *graph, const lk_chakra_groups *groups,
                                  bool roofline, const char *dir, lk_error *err);

#endif
