/* plan_options.c: the options of `lockstep plan`, as one table. */
#include "lockstep/plan.h"
#include "options/rows/job_rows.h"

static const char *const objectives[] = {"time", "energy", NULL}; /* lk_plan_objective */

/* clang-format off */
#define REQUEST    lk_plan_request
#define JOB(field) job.field
#define LISTS      false
#define DEGREE(name, field, high, help) TEXT(name, field, "N,...", help)
static const lk_option options[] = {
	NETWORK_ROWS("What trains where"),
	{GPU_ROW(LK_GPU_HELP)},
	{TEXT("gpus", gpus, "N,...", "numbers of GPUs: one search for each"), LETTER('n')},
	{CLUSTER_ROW("instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file")},
	{POWER_ROW},
	CONFIG_ROWS(
	 "a configuration of a training framework or a launch script, for the network and its "
	 "numbers, as is FILE without an option; it is read, never run"),
	{SCRIPT_ROW(
	 "a shell script with a launch line, for the network and its numbers; it is read, never run")},
	{GLOBAL_BATCH_ROW(
	 "global batch size, sequences; default, of a language model: at most 4 Mi tokens")},
	{SEQUENCE_ROW},
	{PACK_ROW},
	RAGGED_ROWS,
	{DTYPE_ROW("fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4")},
	{TASK_ROW("pretrain, sft or lora; grpo, dapo, ppo or distill: a step "
	 "of post-training, whose GPUs are divided between engines and training")},
	TUNING_ROWS,
	{OPTIMIZER_ROW},
	STATE_ROWS,
	{EMA_ROW},
	{OFFLOAD_PARAMS_ROW(
	 "with ZeRO-3 and the optimizer on the host: pieces of the weights are there too")},
	{OFFLOAD_ACTIVATIONS_ROW},
	{OPTIMIZER_IN_BACKWARD_ROW},
	{CALIBRATION_ROW},

	{GROUP("Budget")
	 COUNT("tokens", tokens, "N", 1, 1e18,
	 "length of the training: gives days and GPU-hours (15T)"), LETTER('t')},
	{TEXT("headroom", headroom, "PERCENT",
	 "memory that should stay free: among layouts that are about as fast, those that leave less "
	 "come last; default: twice what measured peaks exceed predicted ones by")},
	MAINS_ROWS,
	{CHOICE("objective", objective, objectives, "WHAT",
	 "what is best: time (default), the fastest layout; energy, the one whose step takes least, of those at most a tenth slower than the fastest (with --exhaustive of all)")},
	{REAL("hours", hours, "H", 1e-3, 1e9, "the most hours that the training may take")},
	{COUNT("gpu-hours", gpu_hours, "N", 1e-3, 1e12, "the most GPU-hours that it may take")},

	RESPONSE_ROWS(
	 "Generation, with --task grpo, dapo, ppo or distill, or a file of such a step (as of predict)"),
	ENGINE_ROWS("vllm (default), sglang, tensorrt-llm, tensorrt-llm-1.0 or tensorrt-engine"),
	{ROLLOUT_ROW(
	 "a file or words as of predict (`lockstep help rollout`); gpus, tp and ep, where they are "
	 "given, are not searched, and lag is tried besides 0 and 1")},

	{GROUP("Sites")
	 TEXT("aggregate", aggregate, "WORDS",
	 "several sites that each train so and synchronise now and then (DiLoCo): sites=4 wan=10g "
	 "latency=50ms, every=STEPS or busy=95%, bits=32, 16, 8 or 4, "
	 "fragments=N, overlap=STEPS; uneven links: "
	 "over tree 2 leaf 1g 80ms, a network as --cluster states it, at the end")},
	{TEXT("tree", tree, "FILE",
	 "a tree of clients, its nodes as CSV (name, parent, gbps, ...): how "
	 "often each level aggregates, "
	 "who takes part; then --aggregate is deadline=72h, traffic=500GB or "
	 "busy=95%, bits=16, take=80%, "
	 "spread=10%, drop=5%, skew=0.01, most=STEPS")},

	DEGREE_ROWS("What is searched (comma lists; by default the common values)"),
	{MICRO_BATCH_ROW},
	{TEXT("schedule", schedule, "NAME,...",
	 "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev; default: "
	 "those that the software has")},
	{TEXT("zero", zero, "STAGE,...", "what data parallelism shards: 0 to 3")},
	{TEXT("recompute", recompute, "KIND,...",
	 "none, selective, full, full/N, or modules as in core_attn+mlp")},
	{TEXT("bucket", bucket, "MiB,...", "gradient buckets")},
	{TEXT("stack", stack, "NAME,...",
	 "software: megatron, nemo, mlperf, mlperf-lora, ddp, fsdp, llm-foundry, torchtitan, "
	 "deepspeed; default megatron, of fine-tuning ddp,fsdp,deepspeed")},
	{FLAG("offload", offload, "also with optimizer states and step on the host")},
	{FLAG("fixed-switches", fixed_switches,
	 "take the software's defaults for sequence parallelism, overlap and buckets")},

	{GROUP("Not searched")
	 SEQUENCE_PARALLEL_ROW("split norms and residuals over TP")},
	{TP_OVERLAP_ROW},
	{GRAD_REDUCE_ROW("reduce gradients during the backward pass")},
	{PARAM_GATHER_ROW},
	{P2P_ROW("pipeline messages during compute")},
	{CUDA_GRAPHS_ROW},
	LOSS_ROWS,
	{EXPERT_OVERLAP_ROW("MoE: expert traffic during another micro-batch's computation")},
	{COMPILE_ROW},
	{EAGER_ROW},
	{CP_KIND_ROW("ring, all-gather, ulysses or ulysses/N")},
	{ATTENTION_ROW},
	{DISPATCHER_ROW("MoE: alltoall, allgather, or node")},
	DISPATCH_ROWS,
	{CONNECTIONS_ROW("CUDA_DEVICE_MAX_CONNECTIONS")},
	{NCCL_ROW("NCCL's release and environment: \"2.21 NCCL_ALGO=Ring\"")},
	{RELEASE_ROW("of the software, as 26.04")},

	{GROUP("Search")
	 INT("top", top, "N", 1, 1000, "layouts shown for each number of GPUs; default 5")},
	{SEARCH_TIME("; default: none, of a step that generates 60")},
	{FLAG("no-exact", no_exact, "do not simulate the best ones again without folding")},
	{FLAG("no-sensitivity", no_sensitivity,
	 "do not compute what rates 10 % higher or lower would change")},
	{FLAG("exhaustive", exhaustive, "simulate every layout that fits, whatever its bound")},
	{INT("threads", threads, "N", 1, 256,
	 "default: all cores; the answer is the same with any number")},
	{OUT_RESUME("lockstep-mpi: finished parts are kept in it and reused")},

	{GROUP("Output")
	 EMIT_ROW("the best layout")},
	OUT_ANY_ROWS,
	OUT_PICTURE_ROWS,
	{OUT_VERBOSE("also the command that predicts each layout, and how fast the search was")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep plan --model llama3.1-70b --gpu h100-sxm --gpus 64,128,256 --gbs 512 --seq 8192 "
	"--tokens 1T",
	"the fastest layouts on each number of GPUs, days against GPU-hours",
	"lockstep plan --model llama3.1-405b --gpu h100-sxm --gpus 1024 --gbs 512 --seq 8192 --emit "
	"megatron",
	"the best one as flags of Megatron-LM",
	"lockstep plan --model mixtral-8x7b --gpu h100-sxm --gpus 64 --gbs 256 --seq 4096 --tp 1,2 "
	"--zero 1 --recompute none",
	"with some degrees fixed",
	"lockstep plan --task grpo --model qwen3-8b --gpu h100-sxm --gpus 32 --gbs 512 --seq 8192 "
	"--response 2000 --response-max 8000 --samples 16 --rollout sequences=1024",
	"how many of the GPUs generate, in which engines, how far ahead, and how the others train",
	"mpirun -n 16 lockstep-mpi plan --model llama3.1-405b --gpu h100-sxm --gpus 4096,8192,16384 "
	"--gbs 2048 --seq 8192",
	"the same search divided over processes",
	NULL,
};

const lk_verb lk_plan_verb = {
	.name = "plan",
	.summary = "which layout is fastest, and how many GPUs are worth it?",
	.operands = "[FILE|MODEL]",
	.description = "Searches the layouts of a training job: tensor, pipeline, context, expert and "
				   "data parallelism, pipeline schedule, sharding, micro-batch, recomputation, "
				   "overlap and buckets. Every answer's memory and time are those of `lockstep "
				   "predict`. Lower bounds on the time spare most layouts the simulation without "
				   "losing the best one.\n\n"
				   "Words after -- are a launch line: the network and its training are taken from "
				   "it, its layout is not. FILE is a script or a configuration, as for predict; "
				   "MODEL is the same as --model MODEL.\n\n"
				   "Exit status: 0, 1 nothing fits or meets the budget, 2 the input is wrong.",
	.options = options,
	.first = "model gpu gpus cluster gbs seq dtype task qlora optimizer stack tokens "
			 "zero recompute emit top output",
	.examples = examples,
	.request_size = sizeof(lk_plan_request),
	.min_operands = 0,
	.max_operands = 1,
	.rest = true,
};
