/* compose_options.c: the options of `lockstep compose`, as one table. */
#include "lockstep/compose.h"

#define AT(field) offsetof(lk_compose_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
static const char *const progress[] = {"calls", "always", NULL};

static const lk_option options[] = {
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", "The machines",
     "the file of `lockstep calibrate host --mpi`, or as for predict"},
	{"ranks-per-node", 0, LK_OPTION_INT, AT(ranks_per_node), false, 1, 65536, NULL, "N", NULL,
     "ranks of a node, in order; as many as it has devices if not said"},
	{"shared", 0, LK_OPTION_INT, AT(shared), false, 1, 65536, NULL, "N", NULL,
     "ranks that share the cores and the memory of one machine; those of a node if not said"},
	{"memory-bound", 0, LK_OPTION_REAL, AT(memory_bound), false, 0, 1, NULL, "SHARE", NULL,
     "share of own work that memory limits, where ranks share a machine; not said, the range is "
     "from none to all"},
	{"progress", 0, LK_OPTION_CHOICE, AT(progress), false, 0, 0, progress, "WHEN",
     "The MPI library",
     "calls: what was begun goes on only in calls of MPI; always: beside own work"},
	{"eager", 0, LK_OPTION_COUNT, AT(eager), false, 1, 1e12, NULL, "BYTES", NULL,
     "messages up to that leave before their receiver comes; 64 KiB, as Open MPI over TCP, if not "
     "said"},
	{"graph", 0, LK_OPTION_TEXT, AT(graph), false, 0, 0, NULL, "FILE", "Output",
     "write the step graph of all ranks (.json, .json.gz), for whatif"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"verbose", 'v', LK_OPTION_FLAG, AT(verbose), false, 0, 0, NULL, NULL, NULL,
     "parts of each recorded rank's step"},
	{0},
};

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
		"a whole job's step time from recordings of single processes that posed as its ranks",
	.operands = "FOLDER",
	.description =
		"Takes the recordings of `lockstep record --world N --ranks ...`, one process "
		"each. Ranks that were not recorded are stood "
		"in for by recorded ones: by those whose messages and communicators fit, "
		"translated to the rank. Own work, files, kernels and "
		"copies take as long as recorded, communication as long as the messages of the "
		"cluster say, NCCL's as its links do; the "
		"simulator puts them together.\n"
		"\n"
		"docs/guide/record.md says what recordings can be composed, docs/method/README.md how.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compose_request),
	.min_operands = 1,
	.max_operands = 1,
};

void lk_compose_defaults(lk_compose_request *request) {
	*request = (lk_compose_request){.memory_bound = -1};
}
