/* simulate_options.c: the options of lk_simulate by name, as one table. */
#include "lockstep/simulate.h"
#include "options/rows/job_rows.h"

/* clang-format off */
#define REQUEST    lk_simulate_request
#define JOB(field) field
#define LISTS      false
static const lk_option options[] = {
	{GROUP("Where it runs")
	 GPU_ROW("GPU; as many as the graph has ranks")},
	{CLUSTER_ROW("instead of --gpu, as for predict")},
	{GROUP("Software")
	 STACK_ROW("software that runs it: megatron, nemo, mlperf, mlperf-lora, fsdp, "
	 "llm-foundry, torchtitan, deepspeed")},
	{RELEASE_ROW("of that software, as 26.04")},
	{FLAG("cuda-graphs", cuda_graphs, "launches replayed from CUDA graphs")},
	{COMPILE_ROW},
	{CALIBRATION_ROW},
	{GROUP("Simulation")
	 NO_CONTENTION_ROW},
	{FLAG("all-ranks", all_ranks, "times of every rank, not of one of each class")},
	DISTURBANCE_ROWS,
	{SEED_ROW},
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
