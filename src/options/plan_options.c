/* plan_options.c: the options of `lockstep plan`, as one table. */
#include <stddef.h>

#include "lockstep/plan.h"

#define AT(field) offsetof(lk_plan_request, field)
#define TEXT(name, field, value, group, help) \
	{ name, 0, LK_OPTION_TEXT, AT(field), false, 0, 0, NULL, value, group, help }
#define FLAG(name, field, group, help) \
	{ name, 0, LK_OPTION_FLAG, AT(field), false, 0, 0, NULL, NULL, group, help }
#define SWITCH(name, field, group, help) \
	{ name, 0, LK_OPTION_SWITCH, AT(field), false, 0, 0, NULL, NULL, group, help }

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
static const char *const emits[] = {"none", "megatron", "nemo", "deepspeed", "torchtitan", NULL};

static const lk_option options[] = {
	{"model", 'm', LK_OPTION_TEXT, AT(job.model), false, 0, 0, NULL, "NAME|FILE",
     "What trains where",
     "a preset (see `lockstep models`), a HuggingFace config.json, or a folder that holds one"},
	{"gpu", 'g', LK_OPTION_TEXT, AT(job.gpu), false, 0, 0, NULL, "NAME", NULL,
     "GPU, see `lockstep devices`"},
	{"gpus", 'n', LK_OPTION_TEXT, AT(gpus), false, 0, 0, NULL, "N,...", NULL,
     "numbers of GPUs: one search for each"},
	TEXT("cluster", job.cluster, "TEXT|FILE", NULL,
         "instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file"),
	TEXT("script", job.script, "FILE", NULL,
         "a shell script with a launch line, for the network and its numbers; it is read, never "
         "run"),
	{"gbs", 0, LK_OPTION_INT, AT(job.gbs), false, 1, 268435456, NULL, "N", NULL,
     "global batch size, sequences"},
	{"seq", 's', LK_OPTION_INT, AT(job.seq), false, 1, 16777216, NULL, "N", NULL,
     "sequence length, tokens"},
	{"dtype", 'd', LK_OPTION_TEXT, AT(job.dtype), false, 0, 0, NULL, "TYPE", NULL,
     "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4"},
	TEXT("task", job.task, "TASK", NULL, "pretrain, sft or lora"),
	TEXT("optimizer", job.optimizer, "NAME", NULL, "adam, sgd, lamb or adafactor"),
	TEXT("state-dtype", job.state_dtype, "TYPE", NULL, "of the optimizer's moments"),
	TEXT("calibration", job.calibration, "FILE", NULL,
         "numbers that `lockstep calibrate` wrote, on top of the built-in ones"),

	{"tokens", 't', LK_OPTION_COUNT, AT(tokens), false, 1, 1e18, NULL, "N", "Budget",
     "length of the training: gives days and GPU-hours (15T)"},
	{"hours", 0, LK_OPTION_REAL, AT(hours), false, 1e-3, 1e9, NULL, "H", NULL,
     "the training may take so many hours"},
	{"gpu-hours", 0, LK_OPTION_COUNT, AT(gpu_hours), false, 1e-3, 1e12, NULL, "N", NULL,
     "and so many GPU-hours"},

	TEXT("tp", tp, "N,...", "What is searched (comma lists; the usual values if nothing is said)",
         "tensor parallelism"),
	TEXT("pp", pp, "N,...", NULL, "pipeline parallelism"),
	TEXT("vp", vp, "N,...", NULL, "virtual stages (model chunks) per pipeline rank"),
	TEXT("cp", cp, "N,...", NULL, "context parallelism"),
	TEXT("ep", ep, "N,...", NULL, "expert parallelism"),
	TEXT("etp", etp, "N,...", NULL, "tensor parallelism of experts"),
	TEXT("mbs", mbs, "N,...", NULL, "micro-batch size, sequences"),
	TEXT(
		"schedule", schedule, "NAME,...", NULL,
		"gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe; 1f1b and interleaved if nothing is said"),
	TEXT("zero", zero, "STAGE,...", NULL, "what data parallelism shards: 0 to 3"),
	TEXT("recompute", recompute, "KIND,...", NULL, "none, selective, full, full/N"),
	TEXT("bucket", bucket, "MiB,...", NULL, "gradient buckets"),
	TEXT("stack", stack, "NAME,...", NULL,
         "software: megatron, nemo, fsdp, llm-foundry, torchtitan, deepspeed; megatron and fsdp if "
         "nothing is said"),
	FLAG("offload", offload, NULL, "also with optimizer states and step on the host"),
	FLAG("fixed-switches", fixed_switches, NULL,
         "sequence parallelism, overlap and buckets as usual, not searched"),

	SWITCH("sequence-parallel", job.sequence_parallel, "Taken as they are",
           "split norms and residuals over TP"),
	SWITCH("tp-overlap", job.tp_overlap, NULL,
           "tensor-parallel collectives in pieces behind their products"),
	SWITCH("overlap-grad-reduce", job.overlap_grad_reduce, NULL,
           "reduce gradients behind the backward pass"),
	SWITCH("overlap-param-gather", job.overlap_param_gather, NULL,
           "gather parameters behind the forward pass"),
	SWITCH("overlap-p2p", job.overlap_p2p, NULL, "pipeline messages behind compute"),
	SWITCH("cuda-graphs", job.cuda_graphs, NULL, "launches replayed from CUDA graphs"),
	SWITCH("fused-loss", job.fused_loss, NULL, "cross-entropy without an fp32 copy of the logits"),
	SWITCH("expert-overlap", job.expert_overlap, NULL,
           "MoE: expert traffic beside another micro-batch's computation"),
	FLAG("compile", job.compile, NULL, "torch.compile: element-wise work is fused"),
	TEXT("cp-kind", job.cp_kind, "KIND", NULL, "ring or all-gather"),
	TEXT("attention", job.attention, "KERNEL", NULL, "flash or unfused"),
	TEXT("dispatcher", job.dispatcher, "KIND", NULL, "MoE: alltoall, allgather, or node"),
	{"moe-imbalance", 0, LK_OPTION_REAL, AT(job.moe_imbalance), false, 1, 1000, NULL, "X", NULL,
     "tokens of the busiest expert rank over the mean"},
	{"max-connections", 0, LK_OPTION_INT, AT(job.max_connections), false, 1, 32, NULL, "N", NULL,
     "CUDA_DEVICE_MAX_CONNECTIONS"},
	TEXT("release", job.release, "NUMBER", NULL, "of the software, as 26.04"),

	{"top", 0, LK_OPTION_INT, AT(top), false, 1, 1000, NULL, "N", "Search",
     "layouts shown for each number of GPUs (5)"},
	FLAG("no-exact", no_exact, NULL, "do not simulate the best ones again operation by operation"),
	FLAG("no-sensitivity", no_sensitivity, NULL,
         "do not ask what costs 10 % higher or lower would change"),
	FLAG("exhaustive", exhaustive, NULL,
         "simulate every layout that its bound on memory lets through"),
	{"threads", 0, LK_OPTION_INT, AT(threads), false, 1, 256, NULL, "N", NULL,
     "the answer is the same with any number; all cores if nothing is said"},
	TEXT("resume", resume, "FILE", NULL,
         "lockstep-mpi: finished parts are kept there, and taken from there"),

	{"emit", 0, LK_OPTION_CHOICE, AT(emit), false, 0, 0, emits, "NAME", "Output",
     "print the best layout as a launch line of megatron, nemo, deepspeed or torchtitan"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(output), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{"verbose", 'v', LK_OPTION_FLAG, AT(verbose), false, 0, 0, NULL, NULL, NULL,
     "also the command that predicts each layout, and how fast the search was"},
	{0},
};

static const char *const examples[] = {
	"lockstep plan --model llama3.1-70b --gpu h100-sxm --gpus 64,128,256 --gbs 512 --seq 8192 "
	"--tokens 1T",
	"the fastest layouts on each number of GPUs, days against GPU-hours",
	"lockstep plan --model llama3.1-405b --gpu h100-sxm --gpus 1024 --gbs 512 --seq 8192 --emit "
	"megatron",
	"the best one as flags of Megatron-LM",
	"lockstep plan --model mixtral-8x7b --gpu h100-sxm --gpus 64 --gbs 256 --seq 4096 --tp 1,2 "
	"--zero 1 --recompute none",
	"some of it fixed",
	"mpirun -n 16 lockstep-mpi plan --model llama3.1-405b --gpu h100-sxm --gpus 4096,8192,16384 "
	"--gbs 2048 --seq 8192",
	"the same search divided over processes",
	NULL,
};

const lk_verb lk_plan_verb = {
	.name = "plan",
	.summary = "which layout is fastest, and how many GPUs are worth it?",
	.operands = "",
	.description = "Searches the layouts of a training job: tensor, pipeline, context, expert and "
				   "data parallelism, pipeline schedule, sharding, "
				   "micro-batch, recomputation, overlap and buckets. Legality, memory and time of "
				   "every answer are those of `lockstep predict`; "
				   "bounds that no prediction falls below spare most layouts the simulation, "
				   "without losing the best.\n"
				   "\n"
				   "Words behind -- are a launch line: the network and its numbers are taken from "
				   "it, its layout is not.\n"
				   "\n"
				   "Exit status: 0, 1 nothing fits or keeps to the budget, 2 the input is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_plan_request),
	.min_operands = 0,
	.max_operands = 0,
	.rest = true,
};
