/* simulate_options.c: the options of lk_simulate by name, as one table. */
#include "lockstep/simulate.h"

#define AT(field) offsetof(lk_simulate_request, field)

static const lk_option options[] = {
	{"gpu", 'g', LK_OPTION_TEXT, AT(gpu), false, 0, 0, NULL, "NAME", "Where it runs",
     "GPU in its usual nodes, as many as the graph has ranks"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", NULL,
     "instead of --gpu, as for predict"},
	{"stack", 0, LK_OPTION_TEXT, AT(stack), false, 0, 0, NULL, "NAME", "Software",
     "software whose measured efficiencies apply: megatron, nemo, fsdp, llm-foundry, torchtitan, "
     "deepspeed"},
	{"release", 0, LK_OPTION_TEXT, AT(release), false, 0, 0, NULL, "NUMBER", NULL,
     "of that software, as 26.04"},
	{"cuda-graphs", 0, LK_OPTION_FLAG, AT(cuda_graphs), false, 0, 0, NULL, NULL, NULL,
     "launches replayed from CUDA graphs"},
	{"compile", 0, LK_OPTION_FLAG, AT(compile), false, 0, 0, NULL, NULL, NULL,
     "torch.compile: element-wise work is fused"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, on top of the built-in ones"},
	{"no-contention", 0, LK_OPTION_FLAG, AT(no_contention), false, 0, 0, NULL, NULL, "Simulation",
     "precedence only: overlapping operations do not slow one another"},
	{"all-ranks", 0, LK_OPTION_FLAG, AT(all_ranks), false, 0, 0, NULL, NULL, NULL,
     "simulate every rank, not one of each class"},
	{"straggler", 0, LK_OPTION_TEXT, AT(straggler), false, 0, 0, NULL, "RANK:FACTOR", NULL,
     "a slow rank; several with commas"},
	{"jitter", 0, LK_OPTION_REAL, AT(jitter), false, 0, 1, NULL, "SIGMA", NULL,
     "relative deviation of kernel times"},
	{"seed", 0, LK_OPTION_REAL, AT(seed), false, 0, 4503599627370496.0, NULL, "N", NULL,
     "of the jitter"},
	{"ranks", 0, LK_OPTION_TEXT, AT(ranks), false, 0, 0, NULL, "RANKS", "Output",
     "whose spans are kept besides those of the first rank of each program"},
	{"trace", 0, LK_OPTION_TEXT, AT(trace), false, 0, 0, NULL, "FILE", NULL,
     "timeline for Perfetto: .pftrace, .json or .json.gz"},
	{0},
};

const lk_verb lk_simulate_verb = {
	.name = "simulate",
	.summary = "a step graph, simulated on a cluster or with the durations that stand in it",
	.operands = "[GRAPH]",
	.description = "Simulates a step graph operation by operation: times of every program, and a "
				   "span for every operation.",
	.options = options,
	.request_size = sizeof(lk_simulate_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_simulate_defaults(lk_simulate_request *request) {
	*request = (lk_simulate_request){0};
}
