/* replay_options.c: the options of `lockstep replay`, as one table. */
#include "lockstep/replay.h"
#include "options/rows/job_rows.h"

static const char *const holds[] = {"auto", "step", "rank", "none", "operation", NULL};

/* clang-format off */
#define REQUEST    lk_replay_request
#define JOB(field) field
#define LISTS      false
static const lk_option options[] = {
	{GROUP("Times")
	 CHOICE("hold-out", hold_out, holds, "WHAT",
	 "what is predicted from the others: step (each step by the other steps of its rank), rank "
	 "(each rank by the other ranks; of more than 16, every n-th), operation (each fifth of a "
	 "step's operations by the others), none (each by itself); auto: steps where there are "
	 "several, else ranks, else operations")},
	{TEXT("overheads", overheads, "FILE",
	 "take the host's times from a table that --overheads-out wrote, or from another trace, by "
	 "operation")},
	{FLAG("as-stored", as_stored,
	 "do not adapt the level of these times (five numbers, T1 to T5) to the host and the "
	 "profiler of this trace"), WITH("overheads")},

	{GROUP("Execution traces without times")
	 GPU_ROW("GPU that they are predicted for")},
	{CLUSTER_ROW(LK_CLUSTER_HELP)},
	{TEXT("measured", measured, "TRACES",
	 "file or folder with profiles of the same steps, whose measured times are shown next to the "
	 "predicted ones")},

	{GROUP("Output")
	 TEXT("overheads-out", overheads_out, "FILE",
	 "write the host overheads of these traces (.csv)")},
	{TEXT("graph", graph, "FILE",
	 "write the step graph of the first typical step (.json, .json.gz), for whatif")},
	{TEXT("chakra", chakra, "DIR", "write it as Chakra execution traces, a file for each rank")},
	OUT_ANY_ROWS,
	{OUT_VERBOSE("parts of each step, kernels of unknown shape")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep replay trace.json.gz",
	"how well is a step predicted from the others? the error of every later what-if",
	"lockstep replay traces/ --hold-out rank -o json",
	"a run of several ranks: each by the overheads and kernels of the others",
	"lockstep replay trace.json --overheads other.json.gz",
	"with the host overheads of another run",
	"lockstep replay kineto/ et/ -v",
	"execution traces with profiles: they add sizes, groups and shapes",
	"lockstep replay et/ --overheads kineto/ --gpu h100-sxm",
	"execution traces alone: host times of another run, kernels and collectives by the models",
	"lockstep replay traces/ --graph step.json.gz",
	"keep the lifted step for whatif",
	NULL,
};

const lk_verb lk_replay_verb = {
	.name = "replay",
	.summary = "simulates a traced run from its parts: how far can predictions from these traces "
			   "be trusted?",
	.operands = "TRACES...",
	.description = "Lifts each step of the traces (Kineto JSON, Nsight Systems SQLite; files or "
				   "folders, one or many ranks) to a step graph: pieces of host time, launches, "
				   "streams, waits, collectives. Then it simulates the graph with times that are "
				   "not the step's own, and prints the predicted step next to the measured one and "
				   "to the mean of the other steps.\n\n"
				   "The step's structure is taken from the step itself, its times from the others; "
				   "no step total is used.\n\n"
				   "Execution traces (PyTorch, Chakra) may accompany the profiles: each is joined "
				   "with the profile of its rank. Alone, they are predicted: host times from "
				   "--overheads, kernels and collectives by the models of --gpu or --cluster, or "
				   "the durations that a Chakra trace has. Operations that no model covers are "
				   "counted and listed.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_replay_request),
	.min_operands = 1,
	.max_operands = 100000,
};
