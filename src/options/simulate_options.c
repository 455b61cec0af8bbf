/* simulate_options.c: the options of lk_simulate by name, as one table. */
#include "lockstep/simulate.h"
#include "options/rows.h"

/* clang-format off */
#define REQUEST lk_simulate_request
static const lk_option options[] = {
	{GROUP("Where it runs")
	 TEXT("gpu", gpu, "NAME",
	 "GPU; as many as the graph has ranks"), LETTER('g')},
	{TEXT("cluster", cluster, "TEXT|FILE", "instead of --gpu, as for predict")},
	{GROUP("Software")
	 TEXT("stack", stack, "NAME",
	 "software whose measured efficiencies apply: megatron, nemo, fsdp, llm-foundry, "
	 "torchtitan, deepspeed")},
	{TEXT("release", release, "NUMBER", "of that software, as 26.04")},
	{FLAG("cuda-graphs", cuda_graphs, "launches replayed from CUDA graphs")},
	{FLAG("compile", compile, "torch.compile: element-wise work is fused")},
	{TEXT("calibration", calibration, "FILE",
	 "numbers that `lockstep calibrate` wrote, on top of the built-in ones")},
	{GROUP("Simulation")
	 FLAG("no-contention", no_contention,
	 "precedence only: overlapping operations do not slow one another")},
	{FLAG("all-ranks", all_ranks, "times of every rank, not of one of each class")},
	{TEXT("straggler", straggler, "RANK:FACTOR", "a slow rank; several with commas")},
	{REAL("jitter", jitter, "SIGMA", 0, 1, "relative deviation of kernel times")},
	{REAL("gpu-spread", gpu_spread, "SIGMA", 0, 1,
	 "relative deviation between GPUs, each as fast throughout the step")},
	{REAL("seed", seed, "N", 0, 4503599627370496.0, "seed of jitter and spread")},
	{GROUP("Output")
	 TEXT("ranks", ranks, "RANKS",
	 "whose spans are kept besides those of the first rank of each program")},
	{OUT_FILE_OF("trace", trace, "FILE", "timeline for Perfetto: .pftrace, .json or .json.gz")},
	{0},
};
/* clang-format on */

const lk_verb lk_simulate_verb = {
	.name = "simulate",
	.summary = "a step graph, simulated on a cluster or with its own durations",
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
