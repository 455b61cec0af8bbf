/* predict_options.c: the options of `lockstep predict`, as one table. */
#include <string.h>

#include "lockstep/predict.h"
#include "options/rows/job_rows.h"

/* clang-format off */
#define REQUEST    lk_predict_request
#define JOB(field) field
#define LISTS      true
#define DEGREE(name, field, high, help) INT(name, field, "N", 1, high, help), SWEPT
static const lk_option options[] = {
	NETWORK_ROWS("What trains where"),
	{GPU_ROW(LK_GPU_HELP)},
	{GPUS_ROW(4194304)},
	{CLUSTER_ROW(
	 "instead of --gpu and --gpus: '8 node * 8 h100-sxm nvlink4, nic 8*400g', a JSON file, or "
	 "what NCCL prints with NCCL_DEBUG=INFO: 'nccl.log h100-sxm'")},
	{POWER_ROW},
	CONFIG_ROWS(
	 "a configuration of a training framework (YAML, JSON, TOML) or a launch script, as is FILE "
	 "without an option; it is read, never run"),
	{SCRIPT_ROW("a shell script with a launch line; words after -- are its arguments")},
	{TEXT("deepspeed_config", deepspeed, "FILE", "a DeepSpeed ds_config.json")},
	{CALIBRATION_ROW},

	DEGREE_ROWS("Layout"),
	{INT("dp", dp, "N", 1, 4194304, "data parallelism; follows from the rest"), SWEPT},
	{MICRO_BATCH_ROW},
	{GLOBAL_BATCH_ROW("global batch size, sequences")},
	{SEQUENCE_ROW},
	{PACK_ROW},
	RAGGED_ROWS,
	{TEXT("schedule", schedule, "NAME",
	 "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, "
	 "dualpipe, dualpipev"), SWEPT},
	{INT("first-stage-layers", first_stage_layers, "N", 1, 4096,
	 "layers on the first stage"), SWEPT},
	{INT("last-stage-layers", last_stage_layers, "N", 1, 4096, "layers on the last stage"), SWEPT},
	{TEXT("pipeline-layout", pipeline_layout, "TEXT",
	 "stages as Megatron writes them: 'Et*3|(tt|)*29|L'")},
	{TEXT("plan", plan, "FILE",
	 "of a recommendation model: which table goes where, as `lockstep shard --plan` writes it; "
	 "default: as that verb places them")},
	{SEQUENCE_PARALLEL_ROW("split norms and residuals over TP; on by default with --tp")},
	{CP_KIND_ROW(
	 "ring, all-gather, ulysses (tokens exchanged for heads), or ulysses/N: in groups of N, with "
	 "a ring between")},

	{GROUP("Numbers and memory")
	 DTYPE_ROW(
	 "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; where nothing is stated, as the network's "
	 "publishers trained it, else bf16")},
	{TEXT("zero", zero, "STAGE",
	 "what data parallelism shards: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights "
	 "(FSDP)"), SWEPT},
	{INT("shard-group", shard_group, "N", 1, 1048576,
	 "hybrid sharding: shard over N ranks, replicate across the rest"), SWEPT},
	{TEXT("recompute", recompute, "KIND",
	 "none, selective, full, full/N for N layers of each stage, or modules of Megatron-LM: "
	 "core_attn+mlp+moe+layernorm+moe_act+mla_up_proj+shared_experts"), SWEPT, LETTER('r')},
	{OPTIMIZER_ROW},
	STATE_ROWS,
	{FLAG("offload-optimizer", offload_optimizer, "optimizer states and step on the host")},
	{OFFLOAD_PARAMS_ROW(
	 "ZeRO-3: pieces of the weights are in the host's memory too (ZeRO-Infinity, FSDP's offload)")},
	{EMA_ROW},
	{OFFLOAD_ACTIVATIONS_ROW},
	{OPTIMIZER_IN_BACKWARD_ROW},
	{TASK_ROW(
	 "pretrain, sft, lora; dpo (sft --dpo), kto, orpo, reward (a reward model, trained on pairs), "
	 "with adapters dpo+lora and so on; generate: sequences that inference engines write; "
	 "serve: requests that arrive at such engines; "
	 "grpo, dapo or ppo: a step of reinforcement learning; distill: a step that learns a "
	 "teacher's view of its own sequences")},
	{INT("lora-rank", lora_rank, "N", 1, 65536, "rank of the adapters"), SWEPT},
	{TEXT("lora-targets", lora_targets, "LAYERS",
	 "linear layers with adapters: attention (its projections, default), all-linear (those of "
	 "MLPs and shared experts too), experts (all), or by name: q_proj+v_proj"), SWEPT},
	{REAL("lora-dropout", lora_dropout, "SHARE", 0.001, 0.999,
	 "of what adapters read that is dropped; what is left is kept for each"), SWEPT},
	TUNING_ROWS,

	{GROUP("Software")
	 GRAD_REDUCE_ROW("reduce gradients during the backward pass (default)")},
	{PARAM_GATHER_ROW},
	{P2P_ROW("pipeline messages during compute (default when interleaved)")},
	{TP_OVERLAP_ROW},
	{REAL("bucket", bucket_mib, "MiB", 0.001, 1048576,
	 "gradients that are reduced together, with ZeRO 0 and 1"), SWEPT},
	{CUDA_GRAPHS_ROW},
	{CONNECTIONS_ROW(
	 "CUDA_DEVICE_MAX_CONNECTIONS; with 1 nothing starts before what was issued earlier has "
	 "started")},
	{NCCL_ROW(LK_NCCL_HELP)},
	{ALLOC_CONF_ROW},
	{COMPILE_ROW},
	{EAGER_ROW},
	{ATTENTION_ROW},
	LOSS_ROWS,
	{DISPATCHER_ROW("MoE: alltoall, allgather, or node (one copy per node, as DeepEP)")},
	{EXPERT_OVERLAP_ROW(
	 "MoE: expert traffic during another micro-batch's computation, in an interleaved pipeline")},
	{FLAG("delay-wgrad", delay_wgrad,
	 "with --expert-overlap: weight gradients of experts run while gradients of their inputs travel")},
	DISPATCH_ROWS,
	{STACK_ROW("software that runs it, as its recipes do: megatron (default), nemo, mlperf, "
	 "mlperf-lora, ddp, fsdp, deepspeed (default of fine-tuning, by what is sharded), llm-foundry, "
	 "torchtitan; of recommendation models torchrec, hugectr")},
	{RELEASE_ROW("of that software, as 26.04; default: the newest with measured runs")},

	RESPONSE_ROWS(
	 "Generation, with --task generate or serve (--gbs sequences on engines of --tp x --pp GPUs) "
	 "or a step of reinforcement learning"),
	ENGINE_ROWS(
	 "vllm (default), sglang, tensorrt-llm, tensorrt-llm-1.0, its first release on PyTorch, or "
	 "tensorrt-engine, its compiled engines before 1.0"),
	{INT("max-sequences", max_sequences, "N", 1, 65536,
	 "most sequences of an engine's batch, with --attention-dp of each GPU; default: the engine's"), SWEPT},
	{INT("max-tokens", max_tokens, "N", 1, 1048576,
	 "most tokens of an iteration: longer prompts are computed in chunks; default: the engine's"),
	 SWEPT},
	{SWITCH("prefix-caching", prefix_caching,
	 "a prompt in the cache is not computed again (default)")},
	{FLAG("attention-dp", attention_dp,
	 "the GPUs of an engine attend to sequences of their own, not to heads")},
	{TEXT("kv-dtype", kv_dtype, "TYPE", "of cached keys and values; default bf16, with fp8 and fp4 "
	 "weights fp8"), SWEPT},
	{TEXT("speculative", speculative, "TOKENS:RATE",
	 "tokens guessed in an iteration, and how often one is accepted: 3:0.7"), SWEPT},
	{TEXT("arrivals", arrivals, "LAW|FILE",
	 "with --task serve: when requests come: poisson:RATE (a second), even:RATE, gamma:RATE:SPREAD "
	 "(deviation of the gaps over their mean), or a CSV file with arrival_s, prompt_tokens, "
	 "output_tokens"), SWEPT},
	{TEXT("slo", slo, "LIMITS",
	 "with --task serve: limits of a request, any of ttft=2s,tpot=50ms,e2e=30s: how many "
	 "keep them, and at which rate 90 of 100 do")},
	{ROLLOUT_ROW(
	 "engines and other phases of --task grpo, dapo, ppo, distill: a YAML, TOML or JSON file, or "
	 "words as sequences=1024 lag=1; `lockstep help rollout` lists the words")},

	{TEXT("replace", replace, "optimizer=FILE",
	 "the step's end, from gradients to weights, is a program of lockstep compile: a graph of "
	 "compile tune --graph")},

	{GROUP("Simulation")
	 TEXT("ranks", ranks, "all", "times of every rank, not of one of each class")},
	{FLAG("exact", exact, "simulate every layer and micro-batch, without folding repetition")},
	{NO_CONTENTION_ROW},
	DISTURBANCE_ROWS,
	{TEXT("noise", noise, "PRESET|FILE",
	 "levels of noise (step, node, gpu, nic, operation, data): how far the step spreads, and from "
	 "what; a preset (mlperf, megatron, nanogpt) or a file, as explain LOG --noise writes")},
	{SEED_ROW,
	 WITH("jitter gpu-spread noise mtbf failures")},
	{INT("seeds", seeds, "N", 2, 100000,
	 "simulate N steps, with seeds from --seed on: P50, P95 and P99 of the step and its parts; "
	 "with --noise, default 10000"),
	 WITH("jitter gpu-spread noise")},

	{GROUP("The whole run")
	 COUNT("tokens", tokens, "N", 1, 1e18,
	 "length of the whole training, in images where a network reads them alone: gives days and "
	 "GPU-hours (15T)"), LETTER('t')},
	{TEXT("run", run, "FILE",
	 "phases of the run (TOML): each with its own options, tokens or steps, ramps, evaluations")},
	{TEXT("failures", failures, "LEVEL|FILE",
	 "what stops the run, at low, typical or high rates of fleets, or a table of rates: gives "
	 "goodput, and days in quantiles")},
	{DURATION("mtbf", mtbf_hours, HOURS, 1e-3, 1e9,
	 "mean time between failures of one node (5000h, 300d), instead of those rates")},
	{DURATION("checkpoint-interval", checkpoint_minutes, MINUTES, 1e-3, 1e7,
	 "between checkpoints; default: the best interval"), WITH("mtbf failures")},
	{REAL("checkpoint-write", checkpoint_write_gbps, "GB/S", 1e-6, 1e6,
	 "that each node writes of a checkpoint; default 1"), WITH("mtbf failures")},
	{TEXT("checkpoint-tiers", checkpoint_tiers, "KIND[:TIME]+...",
	 "where checkpoints go, fastest first: storage (default; the step waits), async, host, peer, "
	 "nvme; host:1min+async:30min"), WITH("mtbf failures")},
	{TEXT("recovery", recovery, "NAME",
	 "how it comes back: people, requeue, replace (default), standby or elastic (the other "
	 "replicas go on)"), WITH("mtbf failures")},
	{INT("spares", spares, "N", 1, 1000000,
	 "nodes held ready; default: there is always one"), WITH("mtbf failures")},
	{DURATION("repair", repair_hours, HOURS, 1e-2, 1e5,
	 "until a node that failed is ready again; default 24 h"), WITH("mtbf failures")},
	{REAL("price-gpu", price_gpu, "USD", 1e-4, 1e5,
	 "per GPU-hour: cost of the run, with its spares"), WITH("mtbf failures run")},
	{REAL("input-gbps", input_gbps, "GB/S", 1e-6, 1e7,
	 "that storage delivers to the whole job: steps wait for samples that come later")},
	{COUNT("input-bytes", input_bytes, "N", 1, 1e13,
	 "of a sample as it is read; default: four for a token"), WITH("input-gbps")},
	MAINS_ROWS,

	{GROUP("Output")
	 TEXT("measured", measured, "NUMBER|FILE",
	 "of a run of this job: 7.2 s, 200 tok/s/gpu, 31 % MFU, 73 GiB reserved, several with commas, "
	 "or its log: is it as expected, and if not, which change explains it?")},
	{TEXT("calibrated", calibrated, "FILE",
	 "write the factors on times of kernels, links and host with which this job takes what was "
	 "measured, for --calibration of predict, plan, rent and whatif"), WITH("measured")},
	{OUT_FILE_OF("trace", trace, "FILE", "timeline for Perfetto: .pftrace, .json or .json.gz")},
	{TEXT("trace-ranks", trace_ranks, "RANKS",
	 "ranks in the timeline; default the first of each stage"), WITH("trace html")},
	{OUT_FILE_OF("graph", graph, "FILE", "write the step graph (.json or .json.gz)")},
	{OUT_FILE_OF("chakra", chakra, "DIR",
	 "write the step as Chakra execution traces, a file for each rank: work and messages by "
	 "size, with the machine for ASTRA-sim")},
	{LK_OUT_ROW("chakra-times", FLAG, chakra_times,
	 "with --chakra: modelled durations, in place of the simulator's roofline"), WITH("chakra")},
	{LK_OUT_ROW("chakra-host", FLAG, chakra_host, "with --chakra: nodes of the host too"),
	 WITH("chakra")},
	{OUT_FILE_OF("goal", goal, "FILE",
	 "write the step as a GOAL schedule for LogGOPSim: kernels with their modelled times, "
	 "collectives as messages")},
	{EMIT_ROW("the job, in place of the answer,")},
	OUT_PICTURE_ROWS,
	{FLAG("no-fixes", no_fixes, "when the job does not fit, do not search for changes that make it "
	 "fit")},
	{OUT_RESUME("lockstep-mpi: finished parts of a sweep are kept in it and reused")},
	OUT_ANY_ROWS,
	{OUT_VERBOSE("list assumptions and ignored flags")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep predict --model llama3.1-70b --gpu h100-sxm --gpus 64 --tp 4 --pp 8 --gbs 128 --seq "
	"8192",
	"whether it fits, and how fast it is",
	"lockstep predict --model config.json --gpu h100-sxm --gpus 64 --tp 1,2,4,8 --recompute "
	"none,full -o md",
	"one row for each combination",
	"lockstep predict --gpu h100-sxm -- torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py "
	"--num-layers 80 ...",
	"a pasted Megatron-LM launch line",
	"lockstep predict axolotl.yml --gpu h100-sxm --gpus 8 --set micro_batch_size=4",
	"the configuration of a training framework, with one key changed",
	"lockstep predict --model gpt3-175b --gpu a100-sxm-80 --gpus 1024 --tp 8 --pp 16 --gbs 1536 "
	"--tokens 300G --trace step.pftrace",
	"days of training, and a timeline for Perfetto",
	NULL,
};

const lk_verb lk_predict_verb = {
	.name = "predict",
	.summary = "does it fit, how long is a step, where does the time go, how many days?",
	.operands = "[FILE|MODEL]",
	.description =
		"Predicts one training step of a network on a cluster, without a GPU: memory of the "
		"peak-memory rank, step time with a range, tokens/s, MFU, where the time goes, and a "
		"timeline. "
		"The job is simulated operation by operation on every class of ranks.\n\n"
		"Options with comma lists make a table with one row for each combination. Words after -- "
		"are a launch line as it is typed; FILE is a launch script or the configuration of "
		"Megatron-LM, Megatron-Bridge, NeMo, AutoModel, NeMo RL, verl, OpenRLHF, Primus, "
		"torchtitan, torchtune, litgpt, nanotron, gpt-neox, axolotl, LLaMA-Factory, ms-swift, the "
		"Trainer, accelerate, DeepSpeed, llm-foundry or MaxText. Options given as well take "
		"precedence. "
		"MODEL is the same as --model MODEL.\n\n"
		"Exit status: 0 it fits (of a sweep: a row fits), 1 it does not fit, 2 the input is wrong.",
	.options = options,
	.first = "model gpu gpus cluster tp pp ep cp mbs gbs seq dtype zero recompute "
			 "optimizer task qlora stack tokens emit output",
	.examples = examples,
	.request_size = sizeof(lk_predict_request),
	.min_operands = 0,
	.max_operands = 1,
	.rest = true,
};

void lk_predict_defaults(lk_predict_request *request) {
	memset(request, 0, sizeof *request);
}
