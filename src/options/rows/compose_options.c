/* compose_options.c: the options of `lockstep compose`, as one table. */
#include "lockstep/compose.h"
#include "options/rows.h"

static const char *const progress[] = {"calls", "always", NULL};

/* clang-format off */
#define REQUEST lk_compose_request
static const lk_option options[] = {
	{GROUP("The machines")
	 TEXT("cluster", cluster, "TEXT|FILE",
	 "the file of `lockstep calibrate host --mpi`, or as for predict")},
	{INT("ranks-per-node", ranks_per_node, "N", 1, 65536,
	 "ranks of a node, in order; default: as many as it has devices")},
	{INT("shared", shared, "N", 1, 65536,
	 "ranks that share the cores and the memory of one machine; default: those of a node")},
	{REAL("memory-bound", memory_bound, "SHARE", 0, 1,
	 "share of own work that memory limits, where ranks share a machine; default: the range covers "
	 "none to all")},
	{GROUP("The MPI library")
	 CHOICE("progress", progress, progress, "WHEN",
	 "calls: begun communication proceeds only in calls of MPI; always: also during own work")},
	{COUNT("eager", eager, "BYTES", 1, 1 << 30,
	 "messages up to this size leave before their receiver is ready; default 64 KiB, as Open MPI "
	 "over TCP")},
	{GROUP("Output")
	 TEXT("graph", graph, "FILE",
	 "write the step graph of all ranks (.json, .json.gz), for whatif")},
	OUT_ANY_ROWS,
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep record --world 64 --ranks 0,8,56 -- ./train --dp 8 --pp 8",
	"one rank of each kind, each in a process alone",
	"lockstep compose recording --cluster hosts.json",
	"how long a step of all 64 takes on these machines",
	"lockstep compose recording --cluster hosts.json --graph step.json.gz",
	"keep the step graph for whatif",
	NULL,
};

const lk_verb lk_compose_verb = {
	.name = "compose",
	.summary =
		"the step time of a whole job, from recordings of single processes that acted as its ranks",
	.operands = "FOLDER",
	.description =
		"Takes the recordings of `lockstep record --world N --ranks ...`, one process "
		"each. A rank that was not recorded uses the recording of a rank whose messages and "
		"communicators, translated to it, are its own. Own work, files, kernels and copies take as "
		"long as recorded; communication takes as long as the messages of the cluster say, NCCL's "
		"as its links do; the simulator puts them together.\n"
		"\n"
		"docs/guide/record.md says what recordings can be composed, docs/method/collectives.md and "
		"docs/method/simulation.md how.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compose_request),
	.min_operands = 1,
	.max_operands = 1,
};

void lk_compose_defaults(lk_compose_request *request) {
	*request = (lk_compose_request){.memory_bound = -1};
}
