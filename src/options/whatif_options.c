/* whatif_options.c: the options of `lockstep whatif`, as one table. */
#include <string.h>

#include "lockstep/whatif.h"

#define AT(field) offsetof(lk_whatif_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

static const lk_option options[] = {
	{"set", 's', LK_OPTION_LINES, AT(sets), false, 0, 0, NULL, "KEY=VALUE", "What changes",
     "a change, any number of times: each is shown alone, and all together; KEY=A,B tries both"},

	{"step", 0, LK_OPTION_TEXT, AT(step), false, 0, 0, NULL, "N", "What ran, and where",
     "of traces: the step with this number (ProfilerStep#N); else the one of median length"},
	{"gpu", 'g', LK_OPTION_TEXT, AT(gpu), false, 0, 0, NULL, "NAME", NULL,
     "GPU, in its usual nodes; of traces, the one that they name"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", NULL,
     "instead: as for predict"},
	{"stack", 0, LK_OPTION_TEXT, AT(stack), false, 0, 0, NULL, "NAME", NULL,
     "software whose efficiencies apply, as for predict"},
	{"release", 0, LK_OPTION_TEXT, AT(release), false, 0, 0, NULL, "NUMBER", NULL,
     "of that software"},
	{"cuda-graphs", 0, LK_OPTION_FLAG, AT(cuda_graphs), false, 0, 0, NULL, NULL, NULL,
     "it ran with launches from CUDA graphs"},
	{"compile", 0, LK_OPTION_FLAG, AT(compile), false, 0, 0, NULL, NULL, NULL,
     "it ran with torch.compile"},
	{"no-contention", 0, LK_OPTION_FLAG, AT(no_contention), false, 0, 0, NULL, NULL, NULL,
     "overlapping operations do not slow one another"},
	{"data-parallel", 0, LK_OPTION_TEXT, AT(data_parallel), false, 0, 0, NULL, "NAMES", NULL,
     "data-parallel groups of a trace; found from what groups do if nothing is said"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, on top of the built-in ones"},

	{"graph", 0, LK_OPTION_TEXT, AT(graph), false, 0, 0, NULL, "FILE", "Output",
     "write the graph with all changes (.json or .json.gz)"},
	{"trace", 0, LK_OPTION_TEXT, AT(trace), false, 0, 0, NULL, "FILE", NULL,
     "its timeline for Perfetto: .pftrace, .json or .json.gz"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"verbose", 'v', LK_OPTION_FLAG, AT(verbose), false, 0, 0, NULL, NULL, NULL,
     "what the numbers rest on"},
	{0},
};

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
		"Keys of --set: cluster=TEXT, gpu=NAME, nic=2x|400g|8*400g (also network=), "
		"link=2x|450GB/s; gpus=N "
		"(also ranks=) or scale=4 "
		"by data parallelism, each rank with its own work; dtype=fp8, batch=2x; bucket=25MB, "
		"overlap=on|off; fused-optimizer=on; "
		"launch=graphs|0, host=0.5x, data-loading=0.5x|off; op:NAME=0.8x and remove:NAME for "
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
