/* whatif_options.c: the options of `lockstep whatif`, as one table. */
#include <string.h>

#include "lockstep/whatif.h"
#include "options/rows/job_rows.h"

/* clang-format off */
#define REQUEST    lk_whatif_request
#define JOB(field) field
#define LISTS      false
static const lk_option options[] = {
	{GROUP("What changes")
	 LINES("set", sets, "KEY=VALUE",
	 "a change, any number of times: each is shown alone, and all together; "
	 "KEY=A,B tries both"), LETTER('s')},

	{GROUP("What ran, and where")
	 TEXT("step", step, "N",
	 "of traces: the step with this number (ProfilerStep#N); default: the one nearest to the mean, as explain")},
	{GPU_ROW("GPU; default for traces: the one that they name")},
	{CLUSTER_ROW(LK_CLUSTER_HELP)},
	{STACK_ROW("software that runs it, as for predict")},
	{RELEASE_ROW("of that software")},
	{FLAG("cuda-graphs", cuda_graphs, "the run used CUDA graphs")},
	{FLAG("compile", compile, "the run used torch.compile")},
	{FLAG("no-contention", no_contention, "overlapping operations do not slow one another")},
	{TEXT("data-parallel", data_parallel, "NAMES",
	 "data-parallel groups of a trace; default: found from what the groups do")},
	{CALIBRATION_ROW},

	{GROUP("Output")
	 OUT_FILE_OF("graph", graph, "FILE", "write the graph with all changes (.json or .json.gz)")},
	{OUT_FILE_OF("trace", trace, "FILE", "its timeline for Perfetto: .pftrace, .json or .json.gz")},
	OUT_PICTURE_ROWS,
	OUT_ANY_ROWS,
	{OUT_VERBOSE("what the numbers are based on")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep predict --model llama3.1-8b --gpu h100-sxm --gpus 64 --gbs 256 --seq 8192 --graph "
	"step.json",
	"a step graph to ask about",
	"lockstep whatif step.json --gpu h100-sxm --set nic=2x --set gpus=256 --set dtype=fp8",
	"each change alone, and all together",
	"lockstep whatif step.json --gpu h100-sxm --set gpu=h200,b200 --set scale=1,2,4,8 -o csv",
	"every combination",
	"lockstep whatif step.json --gpu h100-sxm --set 'op:mlp_*=0.8x' --graph faster.json --trace "
	"faster.pftrace",
	"what faster kernels would be worth",
	NULL,
};

const lk_verb lk_whatif_verb = {
	.name = "whatif",
	.summary = "and on other GPUs, another network, more ranks, with other buckets?",
	.operands = "TRACES...|GRAPH",
	.description =
		"Changes a step, simulates it again and says what that is worth. The step is lifted from "
		"traces of one or "
		"many ranks (files and folders, as for explain), or is a graph of lockstep predict --graph "
		"or replay --graph.\n"
		"\n"
		"Keys of --set: cluster=TEXT, \"topology=tree 16 leaf 4:1\", gpu=NAME, nic=2x|400g|8*400g "
		"(also network=), "
		"link=2x|450GB/s; gpus=N "
		"(also ranks=) or scale=4 "
		"by data parallelism, each rank with its own work; dtype=fp8, batch=2x; bucket=25MB, "
		"overlap=on|off; fused-optimizer=on; "
		"launch=graphs|0, host=0.5x, data-loading=0.5x|off; replace:optimizer=FILE with a graph of "
		"compile tune --graph; op:NAME=0.8x and remove:NAME for "
		"operations by "
		"name or kind, with * and "
		"?; straggler=RANK:1.3x.\n"
		"\n"
		"Where operations were measured, their times are scaled by what the models say of the "
		"change, not "
		"replaced; else they are "
		"priced anew, as predict does. The uncertainty grows with the distance from what was "
		"measured.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_whatif_request),
	.min_operands = 1,
	.max_operands = -1,
};

void lk_whatif_defaults(lk_whatif_request *request) {
	memset(request, 0, sizeof *request);
}
