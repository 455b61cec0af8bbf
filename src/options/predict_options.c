/* predict_options.c: the options of `lockstep predict`, as one table. */
#include <string.h>

#include "lockstep/predict.h"
#include "options/rows.h"

/* clang-format off */
#define REQUEST lk_predict_request
static const lk_option options[] = {
	{GROUP("What trains where")
	 TEXT("model", model, "NAME|FILE",
	 "a preset (see `lockstep models`), a HuggingFace config.json, or a "
	 "folder that holds one"), SWEPT, LETTER('m')},
	{TEXT("as", as, "TYPE",
	 "read the config.json as this model_type: for networks that are not known"), SWEPT},
	{TEXT("gpu", gpu, "NAME", "GPU, see `lockstep devices`; 64xh100: 64 of them"), SWEPT,
	 LETTER('g')},
	{INT("gpus", gpus, "N", 1, 4194304,
	 "number of GPUs, in nodes as the device is usually sold"), SWEPT, LETTER('n')},
	{TEXT("cluster", cluster, "TEXT|FILE",
	 "instead of --gpu and --gpus: '8 node * 8 h100-sxm nvlink4, nic 8*400g', a JSON file, or what "
	 "NCCL prints with NCCL_DEBUG=INFO: 'nccl.log h100-sxm'")},
	{REAL("power", power, "W", 1, 1e6,
	 "limit of each GPU's board power; default: the catalogue's"), SWEPT},
	{TEXT("config", config, "FILE",
	 "a configuration of a training framework (YAML, JSON, TOML) or a launch script, as is FILE "
	 "without an option; it is read, never run")},
	{LINES("set", sets, "KEY=VALUE",
	 "over the file, in the framework's own names; several times")},
	{LINES("var", vars, "NAME=VALUE",
	 "a variable of the file's environment that only the cluster knows; several times")},
	{TEXT("script", script, "FILE",
	 "a shell script with a launch line; words after -- are its arguments")},
	{TEXT("deepspeed_config", deepspeed, "FILE", "a DeepSpeed ds_config.json")},
	{TEXT("calibration", calibration, "FILE",
	 "numbers that `lockstep calibrate` wrote, on top of the built-in ones")},

	{GROUP("Layout")
	 INT("tp", tp, "N", 1, 1024, "tensor parallelism"), SWEPT},
	{INT("pp", pp, "N", 1, 1024, "pipeline parallelism"), SWEPT},
	{INT("vp", vp, "N", 1, 64, "virtual stages (model chunks) per pipeline rank"), SWEPT},
	{INT("cp", cp, "N", 1, 1024, "context parallelism"), SWEPT},
	{INT("ep", ep, "N", 1, 4096, "expert parallelism"), SWEPT},
	{INT("etp", etp, "N", 1, 1024, "tensor parallelism of experts"), SWEPT},
	{INT("dp", dp, "N", 1, 4194304, "data parallelism; follows from the rest"), SWEPT},
	{INT("mbs", mbs, "N", 1, 1048576, "micro-batch size, sequences"), SWEPT},
	{INT("gbs", gbs, "N", 1, 268435456, "global batch size, sequences"), SWEPT},
	{INT("seq", seq, "N", 1, 16777216, "sequence length, tokens; 8k is 8192"), SEQUENCE, SWEPT, LETTER('s')},
	{TEXT("pack", pack, "KIND:TOKENS|FILE",
	 "documents packed into each sequence, which attend within themselves: fixed, lognormal or "
	 "exponential with their mean length, or a file with one length a line"), SWEPT},
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
	{SWITCH("sequence-parallel", sequence_parallel,
	 "split norms and residuals over TP; on by default with --tp")},
	{TEXT("cp-kind", cp_kind, "KIND", "ring, all-gather, ulysses (tokens exchanged for heads), or ulysses/N: in groups of N, with a "
	 "ring between"), SWEPT},

	{GROUP("Numbers and memory")
	 TEXT("dtype", dtype, "TYPE",
	 "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4; where nothing is stated, as the network's "
	 "publishers trained it, else bf16"), SWEPT, LETTER('d')},
	{TEXT("zero", zero, "STAGE",
	 "what data parallelism shards: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights "
	 "(FSDP)"), SWEPT},
	{INT("shard-group", shard_group, "N", 1, 1048576,
	 "hybrid sharding: shard over N ranks, replicate across the rest"), SWEPT},
	{TEXT("recompute", recompute, "KIND",
	 "none, selective, full, full/N for N layers of each stage, or modules of Megatron-LM: "
	 "core_attn+mlp+moe+layernorm+moe_act+mla_up_proj+shared_experts"), SWEPT, LETTER('r')},
	{TEXT("optimizer", optimizer, "NAME",
	 LK_OPTIMIZERS_HELP), SWEPT},
	{INT("muon-steps", muon_steps, "N", 1, 100,
	 "muon: Newton-Schulz iterations; default 5"), SWEPT},
	{TEXT("muon-tp-mode", muon_tp_mode, "MODE",
	 "muon, matrices that TP divides: duplicated (gathered, default), distributed or blockwise"),
	 SWEPT},
	{TEXT("state-dtype", state_dtype, "TYPE", "of the optimizer's moments"), SWEPT},
	{SWITCH("master-weights", master_weights,
	 "16-bit formats: an fp32 copy of the weights (default); without it the moments have 16 bits "
	 "too, where --state-dtype does not say otherwise")},
	{TEXT("fp8-recipe", fp8_recipe, "NAME",
	 "factors of fp8 products: delayed, tensorwise or blockwise"), SWEPT},
	{INT("bf16-layers", bf16_layers, "N", 1, 4096,
	 "fp8, mxfp8, nvfp4: the first N and the last N layers compute in bf16"), SWEPT},
	{FLAG("fp8-params", fp8_params,
	 "fp8: weights are kept in 8 bits, not in 16 as well (--fp8-param-gather)")},
	{FLAG("fp8-activations", fp8_activations,
	 "fp8: inputs of the MLP's activation are kept in 8 bits (--activation-func-fp8-input-store)")},
	{FLAG("offload-optimizer", offload_optimizer, "optimizer states and step on the host")},
	{FLAG("offload-params", offload_params,
	 "ZeRO-3: pieces of the weights are in the host's memory too (ZeRO-Infinity, FSDP's offload)")},
	{TEXT("ema", ema, "PLACE",
	 "a running average of the parameters: none, device, or host, updated while the next step "
	 "runs"), SWEPT},
	{FLAG("offload-activations", offload_activations,
	 "what layers keep for the backward pass waits in the host's memory")},
	{TEXT("task", task, "TASK", "pretrain, sft, lora, dpo (sft --dpo); generate: sequences that inference engines write; grpo, dapo or ppo: a step "
	 "of reinforcement learning; distill: a step that learns a teacher's view of its own sequences"), SWEPT},
	{INT("lora-rank", lora_rank, "N", 1, 65536, "rank of the adapters"), SWEPT},
	{FLAG("dpo", dpo,
	 "samples are pairs, which a frozen reference reads too; --mbs and --gbs count both sequences "
	 "of a pair")},
	{TEXT("teacher", teacher, "NAME|FILE",
	 "distillation: a frozen network, a preset or config.json, that reads every sequence too"), SWEPT},
	{FLAG("qlora", qlora,
	 "lora: frozen matrices of layers are kept in 4 bits (NF4) and widened before each product")},
	{FLAG("dora", dora, "lora: adapted weights as direction and magnitude")},
	{INT("images", images, "N", 1, 65536,
	 "images, or tiles of them, in a sequence of a vision-language model; default 1"), SWEPT},
	{INT("image-size", image_size, "PIXELS", 1, 65536,
	 "a side of each, where the network takes any size; default 448"), SWEPT},
	{FLAG("freeze-vision", freeze_vision, "the encoder of images is not trained, its projector is")},

	{GROUP("Software")
	 SWITCH("overlap-grad-reduce", overlap_grad_reduce,
	 "reduce gradients during the backward pass (default)")},
	{SWITCH("overlap-param-gather", overlap_param_gather,
	 "gather parameters during the forward pass")},
	{SWITCH("overlap-p2p", overlap_p2p,
	 "pipeline messages during compute (default when interleaved)")},
	{SWITCH("tp-overlap", tp_overlap,
	 "tensor-parallel collectives in chunks that overlap their matrix products")},
	{REAL("bucket", bucket_mib, "MiB", 0.001, 1048576,
	 "gradients that are reduced together, with ZeRO 0 and 1"), SWEPT},
	{SWITCH("cuda-graphs", cuda_graphs, "launches replayed from CUDA graphs")},
	{INT("max-connections", max_connections, "N", 1, 32,
	 "CUDA_DEVICE_MAX_CONNECTIONS; with 1 nothing starts before what was issued earlier "
	 "has started"), SWEPT},
	{TEXT("nccl", nccl, "TEXT",
	 "NCCL's release and environment: \"2.21 NCCL_ALGO=Ring NCCL_MAX_NCHANNELS=8\"; NCCL_ALGO, "
	 "NCCL_PROTO, NCCL_MIN_ and NCCL_MAX_NCHANNELS and _CTAS, NCCL_NVLS_ENABLE, NCCL_BUFFSIZE")},
	{FLAG("compile", compile, "torch.compile: element-wise work is fused")},
	{SWITCH("eager", eager,
	 "element-wise operations run one by one, as Hugging Face's transformers writes them (default "
	 "with --stack ddp, fsdp and deepspeed); --no-eager: Liger's kernels")},
	{TEXT("attention", attention, "KERNEL",
	 "flash (what the software takes), cudnn, fa2, fa3, or unfused"), SWEPT},
	{SWITCH("fused-loss", fused_loss, "cross-entropy without an fp32 copy of the logits")},
	{TEXT("loss", loss, "KIND",
	 "logits that are held: logits (all), linear (Liger's fused linear cross-entropy), cut (Cut "
	 "Cross-Entropy), chunked or chunked/N"), SWEPT},
	{TEXT("dispatcher", dispatcher, "KIND",
	 "MoE: alltoall, allgather, or node (one copy per node, as DeepEP)"), SWEPT},
	{SWITCH("expert-overlap", expert_overlap,
	 "MoE: expert traffic during another micro-batch's computation, in an interleaved pipeline")},
	{FLAG("delay-wgrad", delay_wgrad,
	 "with --expert-overlap: weight gradients of experts run while gradients of their inputs travel")},
	{SWITCH("fp8-dispatch", fp8_dispatch,
	 "MoE: rows travel to their experts in 8 bits; what comes back does not")},
	{INT("dispatch-sms", dispatch_sms, "N", 1, 1024,
	 "MoE: SMs that the kernels of --dispatcher node take; default 20 between nodes"), SWEPT},
	{REAL("moe-imbalance", moe_imbalance, "X", 1, 1000,
	 "tokens of the busiest expert rank over the mean"), SWEPT},
	{TEXT("stack", stack, "NAME",
	 "software whose defaults and efficiencies apply: megatron, nemo, fsdp, llm-foundry, "
	 "torchtitan, deepspeed; of recommendation models torchrec, hugectr"), SWEPT},
	{TEXT("release", release, "NUMBER",
	 "of that software, as 26.04; default: the newest with measured runs"), SWEPT},

	{GROUP("Generation, with --task generate (--gbs sequences on engines of --tp x --pp GPUs) or a step of reinforcement learning")
	 COUNT("response", response, "TOKENS", 1, 1e7, "mean tokens that a sequence gets"), SEQUENCE, SWEPT},
	{COUNT("response-max", response_max, "TOKENS", 1, 1e7, "where a sequence is cut"), SEQUENCE, SWEPT},
	{TEXT("lengths", lengths, "KIND|FILE",
	 "how responses spread: fixed, lognormal (default), exponential, or a file with one length a "
	 "line"), SWEPT},
	{COUNT("prompt", prompt, "TOKENS", 1, 1e7, "tokens of a prompt; default 128"), SEQUENCE, SWEPT},
	{INT("samples", samples, "N", 1, 65536, "sequences of one prompt; default 1"), SWEPT},
	{TEXT("engine", engine, "NAME", "vllm (default), sglang, tensorrt-llm, tensorrt-llm-1.0, its first release on PyTorch, or tensorrt-engine, its compiled engines before 1.0"), SWEPT},
	{REAL("gpu-mem-util", gpu_mem_util, "SHARE", 0.01, 1,
	 "of a GPU's memory that an engine may use; default: the engine's"), SWEPT},
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
	{TEXT("rollout", rollout, "WORDS",
	 "engines of --task grpo, dapo, ppo, distill: sequences=N of a step (default --gbs, those of an "
	 "update), oversample=N written for one that is kept, epochs=N passes over them, gpus=N of their "
	 "own (default those that train), tp, pp, ep, dtype, lag=N batches ahead, reward=SECONDS; other "
	 "networks: critic, reward_model, teacher=NAME, critic_gpus, critic_epochs, teacher_gpus, "
	 "teacher_tp=N; and critic_offload_params, critic_offload_optimizer, "
	 "policy, reference, eager, padded, full_rows, by_sequence, offload_params, "
	 "offload_optimizer, offload_reference, pinned_params, sleep=0|1")},

	{TEXT("replace", replace, "optimizer=FILE",
	 "the step's end, from gradients to weights, is a program of lockstep compile: a graph of "
	 "compile tune --graph")},

	{GROUP("Simulation")
	 TEXT("ranks", ranks, "all", "times of every rank, not of one of each class")},
	{FLAG("exact", exact, "simulate every layer and micro-batch, without folding repetition")},
	{FLAG("no-contention", no_contention,
	 "precedence only: overlapping operations do not slow one another")},
	{TEXT("straggler", straggler, "RANK:FACTOR", "a slow rank; several with commas")},
	{REAL("jitter", jitter, "SIGMA", 0, 1, "relative deviation of kernel times")},
	{REAL("gpu-spread", gpu_spread, "SIGMA", 0, 1,
	 "relative deviation between GPUs, each as fast throughout the step")},
	{REAL("seed", seed, "N", 0, 4503599627370496.0, "seed of jitter and spread"),
	 WITH("jitter gpu-spread")},
	{INT("seeds", seeds, "N", 2, 100000,
	 "simulate N steps, with seeds from --seed on: P50, P95 and P99 of the step and its parts"),
	 WITH("jitter gpu-spread")},

	{GROUP("Output")
	 COUNT("tokens", tokens, "N", 1, 1e18,
	 "length of the whole training, in images where a network reads them alone: gives days and GPU-hours (15T)"), LETTER('t')},
	{DURATION("mtbf", mtbf_hours, HOURS, 1e-3, 1e9,
	 "mean time between failures of one node (5000h, 300d): gives goodput")},
	{DURATION("checkpoint-interval", checkpoint_minutes, MINUTES, 1e-3, 1e7,
	 "between checkpoints; default: the best interval"), WITH("mtbf")},
	{REAL("checkpoint-write", checkpoint_write_gbps, "GB/S", 1e-6, 1e6,
	 "that each node writes of a checkpoint; default 1"), WITH("mtbf")},
	{REAL("pue", mains.pue, "RATIO", 1, 10, LK_PUE_HELP)},
	{REAL("carbon", mains.carbon, "G/KWH", 0.1, 5000, LK_CARBON_HELP), WITH("tokens")},
	{REAL("price-kwh", mains.price_kwh, "DOLLARS", 1e-4, 100, LK_PRICE_KWH_HELP), WITH("tokens")},
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
	{TEXT("emit", emit, "TARGET",
	 "write the job, in place of the answer, as a launch line of megatron, bridge, nemo, deepspeed "
	 "or torchtitan, a configuration of axolotl, llama-factory, nanotron or accelerate, or a job "
	 "around either: sbatch:megatron, skypilot:axolotl, kubernetes:nanotron; or program: the step's end, "
	 "for lockstep compile")},
	{OUT_HTML},
	{OUT_CHARTS},
	{FLAG("no-fixes", no_fixes, "when the job does not fit, do not search for changes that make it "
	 "fit")},
	{OUT_RESUME("lockstep-mpi: finished parts of a sweep are kept in it and reused")},
	{OUT_FORMAT(lk_output_formats, "text, md, csv, json, jsonl or sqlite")},
	{OUT_FILE("where the output goes; sqlite needs one"), LETTER('f')},
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
		"torchtitan, torchtune, nanotron, gpt-neox, axolotl, LLaMA-Factory, the Trainer, "
		"accelerate, DeepSpeed, llm-foundry or MaxText. Options given as well take precedence. "
		"MODEL is the same as --model MODEL.\n\n"
		"Exit status: 0 it fits (of a sweep: a row fits), 1 it does not fit, 2 the input is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_predict_request),
	.min_operands = 0,
	.max_operands = 1,
	.rest = true,
};

void lk_predict_defaults(lk_predict_request *request) {
	memset(request, 0, sizeof *request);
}
