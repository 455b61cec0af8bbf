/* predict_options.c: the options of `lockstep predict`, as one table. */
#include <string.h>

#include "lockstep/predict.h"

#define AT(field) offsetof(lk_predict_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

static const lk_option options[] = {
	{"model", 'm', LK_OPTION_TEXT, AT(model), true, 0, 0, NULL, "NAME|FILE", "What trains where",
     "a preset (see `lockstep models`), a HuggingFace config.json, or a folder that holds one"},
	{"gpu", 'g', LK_OPTION_TEXT, AT(gpu), true, 0, 0, NULL, "NAME", NULL,
     "GPU, see `lockstep devices`"},
	{"gpus", 'n', LK_OPTION_INT, AT(gpus), true, 1, 16777216, NULL, "N", NULL,
     "number of GPUs, in the device's usual nodes"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", NULL,
     "instead of --gpu and --gpus: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file"},
	{"script", 0, LK_OPTION_TEXT, AT(script), false, 0, 0, NULL, "FILE", NULL,
     "a shell script with a launch line; it is read, never run"},
	{"deepspeed_config", 0, LK_OPTION_TEXT, AT(deepspeed), false, 0, 0, NULL, "FILE", NULL,
     "a DeepSpeed ds_config.json"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, on top of the built-in ones"},

	{"tp", 0, LK_OPTION_INT, AT(tp), true, 1, 1024, NULL, "N", "Layout", "tensor parallelism"},
	{"pp", 0, LK_OPTION_INT, AT(pp), true, 1, 1024, NULL, "N", NULL, "pipeline parallelism"},
	{"vp", 0, LK_OPTION_INT, AT(vp), true, 1, 64, NULL, "N", NULL,
     "virtual stages (model chunks) per pipeline rank"},
	{"cp", 0, LK_OPTION_INT, AT(cp), true, 1, 1024, NULL, "N", NULL, "context parallelism"},
	{"ep", 0, LK_OPTION_INT, AT(ep), true, 1, 4096, NULL, "N", NULL, "expert parallelism"},
	{"etp", 0, LK_OPTION_INT, AT(etp), true, 1, 1024, NULL, "N", NULL,
     "tensor parallelism of experts"},
	{"dp", 0, LK_OPTION_INT, AT(dp), true, 1, 16777216, NULL, "N", NULL,
     "data parallelism; follows from the rest"},
	{"mbs", 0, LK_OPTION_INT, AT(mbs), true, 1, 1048576, NULL, "N", NULL,
     "micro-batch size, sequences"},
	{"gbs", 0, LK_OPTION_INT, AT(gbs), true, 1, 268435456, NULL, "N", NULL,
     "global batch size, sequences"},
	{"seq", 's', LK_OPTION_INT, AT(seq), true, 1, 16777216, NULL, "N", NULL,
     "sequence length, tokens"},
	{"schedule", 0, LK_OPTION_TEXT, AT(schedule), true, 0, 0, NULL, "NAME", NULL,
     "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe"},
	{"first-stage-layers", 0, LK_OPTION_INT, AT(first_stage_layers), true, 1, 4096, NULL, "N", NULL,
     "layers on the first stage"},
	{"last-stage-layers", 0, LK_OPTION_INT, AT(last_stage_layers), true, 1, 4096, NULL, "N", NULL,
     "layers on the last stage"},
	{"pipeline-layout", 0, LK_OPTION_TEXT, AT(pipeline_layout), false, 0, 0, NULL, "TEXT", NULL,
     "stages as Megatron writes them: 'Et*3|(tt|)*29|L'"},
	{"sequence-parallel", 0, LK_OPTION_SWITCH, AT(sequence_parallel), false, 0, 0, NULL, NULL, NULL,
     "split norms and residuals over TP; on by default with --tp"},
	{"cp-kind", 0, LK_OPTION_TEXT, AT(cp_kind), true, 0, 0, NULL, "KIND", NULL,
     "ring or all-gather"},

	{"dtype", 'd', LK_OPTION_TEXT, AT(dtype), true, 0, 0, NULL, "TYPE", "Numbers and memory",
     "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4"},
	{"zero", 0, LK_OPTION_TEXT, AT(zero), true, 0, 0, NULL, "STAGE", NULL,
     "what data parallelism shards: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights (FSDP)"},
	{"shard-group", 0, LK_OPTION_INT, AT(shard_group), true, 1, 1048576, NULL, "N", NULL,
     "hybrid sharding: shard over N ranks, replicate across the rest"},
	{"recompute", 'r', LK_OPTION_TEXT, AT(recompute), true, 0, 0, NULL, "KIND", NULL,
     "none, selective, full, or full/N for N layers of each stage"},
	{"optimizer", 0, LK_OPTION_TEXT, AT(optimizer), true, 0, 0, NULL, "NAME", NULL,
     "adam, sgd, lamb or adafactor"},
	{"state-dtype", 0, LK_OPTION_TEXT, AT(state_dtype), true, 0, 0, NULL, "TYPE", NULL,
     "of the optimizer's moments"},
	{"offload-optimizer", 0, LK_OPTION_FLAG, AT(offload_optimizer), false, 0, 0, NULL, NULL, NULL,
     "optimizer states and step on the host"},
	{"task", 0, LK_OPTION_TEXT, AT(task), true, 0, 0, NULL, "TASK", NULL, "pretrain, sft or lora"},
	{"lora-rank", 0, LK_OPTION_INT, AT(lora_rank), true, 1, 65536, NULL, "N", NULL,
     "rank of the adapters"},

	{"overlap-grad-reduce", 0, LK_OPTION_SWITCH, AT(overlap_grad_reduce), false, 0, 0, NULL, NULL,
     "Software", "reduce gradients behind the backward pass (default)"},
	{"overlap-param-gather", 0, LK_OPTION_SWITCH, AT(overlap_param_gather), false, 0, 0, NULL, NULL,
     NULL, "gather parameters behind the forward pass"},
	{"overlap-p2p", 0, LK_OPTION_SWITCH, AT(overlap_p2p), false, 0, 0, NULL, NULL, NULL,
     "pipeline messages behind compute (default when interleaved)"},
	{"tp-overlap", 0, LK_OPTION_SWITCH, AT(tp_overlap), false, 0, 0, NULL, NULL, NULL,
     "tensor-parallel collectives in pieces behind their products"},
	{"bucket", 0, LK_OPTION_REAL, AT(bucket_mib), true, 0.001, 1048576, NULL, "MiB", NULL,
     "gradient bucket"},
	{"cuda-graphs", 0, LK_OPTION_SWITCH, AT(cuda_graphs), false, 0, 0, NULL, NULL, NULL,
     "launches replayed from CUDA graphs"},
	{"max-connections", 0, LK_OPTION_INT, AT(max_connections), true, 1, 32, NULL, "N", NULL,
     "CUDA_DEVICE_MAX_CONNECTIONS; with 1 nothing starts before what was issued earlier has "
     "started"},
	{"compile", 0, LK_OPTION_FLAG, AT(compile), false, 0, 0, NULL, NULL, NULL,
     "torch.compile: element-wise work is fused"},
	{"attention", 0, LK_OPTION_TEXT, AT(attention), true, 0, 0, NULL, "KERNEL", NULL,
     "flash or unfused"},
	{"fused-loss", 0, LK_OPTION_SWITCH, AT(fused_loss), false, 0, 0, NULL, NULL, NULL,
     "cross-entropy without an fp32 copy of the logits"},
	{"dispatcher", 0, LK_OPTION_TEXT, AT(dispatcher), true, 0, 0, NULL, "KIND", NULL,
     "MoE: alltoall, allgather, or node (one copy per node, as DeepEP)"},
	{"expert-overlap", 0, LK_OPTION_SWITCH, AT(expert_overlap), false, 0, 0, NULL, NULL, NULL,
     "MoE: expert traffic beside another micro-batch's computation, in an interleaved pipeline"},
	{"moe-imbalance", 0, LK_OPTION_REAL, AT(moe_imbalance), true, 1, 1000, NULL, "X", NULL,
     "tokens of the busiest expert rank over the mean"},
	{"stack", 0, LK_OPTION_TEXT, AT(stack), true, 0, 0, NULL, "NAME", NULL,
     "software whose defaults and efficiencies apply: megatron, nemo, fsdp, llm-foundry, "
     "torchtitan, deepspeed"},
	{"release", 0, LK_OPTION_TEXT, AT(release), true, 0, 0, NULL, "NUMBER", NULL,
     "of that software, as 26.04; the newest that runs were measured of if nothing is said"},

	{"ranks", 0, LK_OPTION_TEXT, AT(ranks), false, 0, 0, NULL, "all", "Simulation",
     "simulate every rank, not one of each class"},
	{"exact", 0, LK_OPTION_FLAG, AT(exact), false, 0, 0, NULL, NULL, NULL,
     "simulate every layer and micro-batch, without folding repetition"},
	{"no-contention", 0, LK_OPTION_FLAG, AT(no_contention), false, 0, 0, NULL, NULL, NULL,
     "precedence only: overlapping operations do not slow one another"},
	{"straggler", 0, LK_OPTION_TEXT, AT(straggler), false, 0, 0, NULL, "RANK:FACTOR", NULL,
     "a slow rank; several with commas"},
	{"jitter", 0, LK_OPTION_REAL, AT(jitter), false, 0, 1, NULL, "SIGMA", NULL,
     "relative deviation of kernel times"},
	{"seed", 0, LK_OPTION_REAL, AT(seed), false, 0, 4503599627370496.0, NULL, "N", NULL,
     "of the jitter"},

	{"tokens", 't', LK_OPTION_COUNT, AT(tokens), false, 1, 1e18, NULL, "N", "Output",
     "length of the whole training: gives days and GPU-hours (15T)"},
	{"mtbf", 0, LK_OPTION_REAL, AT(mtbf_hours), false, 1e-3, 1e9, NULL, "HOURS", NULL,
     "mean time between failures of the whole job: gives goodput"},
	{"checkpoint-interval", 0, LK_OPTION_REAL, AT(checkpoint_minutes), false, 1e-3, 1e7, NULL,
     "MINUTES", NULL, "between checkpoints"},
	{"trace", 0, LK_OPTION_TEXT, AT(trace), false, 0, 0, NULL, "FILE", NULL,
     "timeline for Perfetto: .pftrace, .json or .json.gz"},
	{"trace-ranks", 0, LK_OPTION_TEXT, AT(trace_ranks), false, 0, 0, NULL, "RANKS", NULL,
     "ranks in the timeline; default the first of each stage"},
	{"graph", 0, LK_OPTION_TEXT, AT(graph), false, 0, 0, NULL, "FILE", NULL,
     "write the step graph (.json or .json.gz)"},
	{"chakra", 0, LK_OPTION_TEXT, AT(chakra), false, 0, 0, NULL, "DIR", NULL,
     "write the step as Chakra execution traces, a file for each rank: work and messages by size, "
     "without times of kernels"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{"no-fixes", 0, LK_OPTION_FLAG, AT(no_fixes), false, 0, 0, NULL, NULL, NULL,
     "when it does not fit, do not look for changes that would"},
	{"resume", 0, LK_OPTION_TEXT, AT(resume), false, 0, 0, NULL, "FILE", NULL,
     "lockstep-mpi: finished parts of a sweep are kept there, and taken from there"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(output), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"verbose", 'v', LK_OPTION_FLAG, AT(verbose), false, 0, 0, NULL, NULL, NULL,
     "list assumptions and ignored flags"},
	{0},
};

static const char *const examples[] = {
	"lockstep predict --model llama3.1-70b --gpu h100-sxm --gpus 64 --tp 4 --pp 8 --gbs 128 --seq "
	"8192",
	"does it fit, and how fast is it",
	"lockstep predict --model config.json --gpu h100-sxm --gpus 64 --tp 1,2,4,8 --recompute "
	"none,full -o md",
	"one row for each combination",
	"lockstep predict --gpu h100-sxm -- torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py "
	"--num-layers 80 ...",
	"a pasted Megatron-LM launch line",
	"lockstep predict --model gpt3-175b --gpu a100-sxm-80 --gpus 1024 --tp 8 --pp 16 --gbs 1536 "
	"--tokens 300G --trace step.pftrace",
	"days of training, and a timeline for Perfetto",
	NULL,
};

const lk_verb lk_predict_verb = {
	.name = "predict",
	.summary = "does it fit, how long is a step, where does the time go, how many days?",
	.operands = "",
	.description =
		"Predicts one training step of a network on a cluster, without a GPU: memory of the "
		"fullest rank, step time with a range, "
		"tokens/s, MFU, where the time goes, and a timeline. The job is simulated operation by "
		"operation on every class of ranks.\n"
		"\n"
		"Options with comma lists make a table with one row for each combination. Words behind -- "
		"are a launch line as it is typed "
		"for Megatron-LM; options given beside it win.\n"
		"\n"
		"Exit status: 0 it fits (of a sweep: a row fits), 1 it does not fit, 2 the input is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_predict_request),
	.min_operands = 0,
	.max_operands = 0,
	.rest = true,
};

void lk_predict_defaults(lk_predict_request *request) {
	memset(request, 0, sizeof *request);
}
