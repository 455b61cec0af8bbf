/* plan_options.c: the options of `lockstep plan`, as one table. */
#include "lockstep/plan.h"
#include "options/rows.h"

static const char *const objectives[] = {"time", "energy", NULL}; /* lk_plan_objective */

/* clang-format off */
#define REQUEST lk_plan_request
static const lk_option options[] = {
	{GROUP("What trains where")
	 TEXT("model", job.model, "NAME|FILE",
	 "a preset (see `lockstep models`), a HuggingFace config.json, or a folder "
	 "that holds one"), LETTER('m')},
	{TEXT("as", job.as, "TYPE",
	 "read the config.json as this model_type: for networks that are not known")},
	{TEXT("gpu", job.gpu, "NAME", "GPU, see `lockstep devices`; 64xh100: 64 of them"), LETTER('g')},
	{TEXT("gpus", gpus, "N,...", "numbers of GPUs: one search for each"), LETTER('n')},
	{TEXT("cluster", job.cluster, "TEXT|FILE",
	 "instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file")},
	{REAL("power", job.power, "W", 1, 1e6,
	 "limit of each GPU's board power; default: the catalogue's")},
	{TEXT("config", job.config, "FILE",
	 "a configuration of a training framework or a launch script, for the network and its "
	 "numbers, as is FILE without an option; it is read, never run")},
	{LINES("set", job.sets, "KEY=VALUE",
	 "over the file, in the framework's own names; several times")},
	{LINES("var", job.vars, "NAME=VALUE",
	 "a variable of the file's environment that only the cluster knows; several times")},
	{TEXT("script", job.script, "FILE",
	 "a shell script with a launch line, for the network and its numbers; it is read, never run")},
	{INT("gbs", job.gbs, "N", 1, 268435456, "global batch size, sequences; default, of a language model: at most 4 Mi tokens")},
	{INT("seq", job.seq, "N", 1, 16777216, "sequence length, tokens; 8k is 8192"), SEQUENCE, LETTER('s')},
	{TEXT("pack", job.pack, "KIND:TOKENS|FILE",
	 "documents packed into each sequence, which attend within themselves: fixed, lognormal or "
	 "exponential with their mean length, or a file with one length a line")},
	{TEXT("dtype", job.dtype, "TYPE", "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4"), LETTER('d')},
	{TEXT("task", job.task, "TASK", "pretrain, sft or lora; grpo, dapo, ppo or distill: a step "
	 "of post-training, whose GPUs are divided between engines and training")},
	{FLAG("dpo", job.dpo,
	 "samples are pairs, which a frozen reference reads too; --mbs and --gbs count both sequences "
	 "of a pair")},
	{TEXT("teacher", job.teacher, "NAME|FILE",
	 "distillation: a frozen network, a preset or config.json, that reads every sequence too")},
	{FLAG("qlora", job.qlora,
	 "lora: frozen matrices of layers are kept in 4 bits (NF4) and widened before each product")},
	{FLAG("dora", job.dora, "lora: adapted weights as direction and magnitude")},
	{INT("images", job.images, "N", 1, 65536,
	 "images, or tiles of them, in a sequence of a vision-language model; default 1")},
	{INT("image-size", job.image_size, "PIXELS", 1, 65536,
	 "a side of each, where the network takes any size; default 448")},
	{FLAG("freeze-vision", job.freeze_vision,
	 "the encoder of images is not trained, its projector is")},
	{TEXT("optimizer", job.optimizer, "NAME",
	 LK_OPTIMIZERS_HELP)},
	{INT("muon-steps", job.muon_steps, "N", 1, 100, "muon: Newton-Schulz iterations; default 5")},
	{TEXT("muon-tp-mode", job.muon_tp_mode, "MODE",
	 "muon, matrices that TP divides: duplicated (gathered, default), distributed or blockwise")},
	{TEXT("state-dtype", job.state_dtype, "TYPE", "of the optimizer's moments")},
	{SWITCH("master-weights", job.master_weights,
	 "16-bit formats: an fp32 copy of the weights (default); without it the moments have 16 bits "
	 "too, where --state-dtype does not say otherwise")},
	{TEXT("fp8-recipe", job.fp8_recipe, "NAME",
	 "factors of fp8 products: delayed, tensorwise or blockwise")},
	{INT("bf16-layers", job.bf16_layers, "N", 1, 4096,
	 "fp8, mxfp8, nvfp4: the first N and the last N layers compute in bf16")},
	{FLAG("fp8-params", job.fp8_params,
	 "fp8: weights are kept in 8 bits, not in 16 as well (--fp8-param-gather)")},
	{FLAG("fp8-activations", job.fp8_activations,
	 "fp8: inputs of the MLP's activation are kept in 8 bits (--activation-func-fp8-input-store)")},
	{TEXT("ema", job.ema, "PLACE",
	 "a running average of the parameters: none, device, or host, updated while the next step "
	 "runs")},
	{FLAG("offload-params", job.offload_params,
	 "with ZeRO-3 and the optimizer on the host: pieces of the weights are there too")},
	{FLAG("offload-activations", job.offload_activations,
	 "what layers keep for the backward pass waits in the host's memory")},
	{TEXT("calibration", job.calibration, "FILE",
	 "numbers that `lockstep calibrate` wrote, on top of the built-in ones")},

	{GROUP("Budget")
	 COUNT("tokens", tokens, "N", 1, 1e18,
	 "length of the training: gives days and GPU-hours (15T)"), LETTER('t')},
	{TEXT("headroom", headroom, "PERCENT",
	 "memory that should stay free: among layouts that are about as fast, those that leave less "
	 "come last; default: twice what measured peaks exceed predicted ones by")},
	{REAL("pue", job.mains.pue, "RATIO", 1, 10, LK_PUE_HELP)},
	{REAL("carbon", job.mains.carbon, "G/KWH", 0.1, 5000, LK_CARBON_HELP), WITH("tokens")},
	{REAL("price-kwh", job.mains.price_kwh, "DOLLARS", 1e-4, 100, LK_PRICE_KWH_HELP), WITH("tokens")},
	{CHOICE("objective", objective, objectives, "WHAT",
	 "what is best: time (default), the fastest layout; energy, the one whose step takes least, of those at most a tenth slower than the fastest (with --exhaustive of all)")},
	{REAL("hours", hours, "H", 1e-3, 1e9, "the most hours that the training may take")},
	{COUNT("gpu-hours", gpu_hours, "N", 1e-3, 1e12, "the most GPU-hours that it may take")},

	{GROUP("Generation, with --task grpo, dapo, ppo or distill, or a file of such a step (as of predict)")
	 COUNT("response", job.response, "TOKENS", 1, 1e7, "mean tokens that a sequence gets"), SEQUENCE},
	{COUNT("response-max", job.response_max, "TOKENS", 1, 1e7, "where a sequence is cut"), SEQUENCE},
	{TEXT("lengths", job.lengths, "KIND|FILE",
	 "how responses spread: fixed, lognormal (default), exponential, or a file with one length a "
	 "line")},
	{COUNT("prompt", job.prompt, "TOKENS", 1, 1e7, "tokens of a prompt; default 128"), SEQUENCE},
	{INT("samples", job.samples, "N", 1, 65536, "sequences of one prompt; default 1")},
	{TEXT("engine", job.engine, "NAME", "vllm (default), sglang, tensorrt-llm, tensorrt-llm-1.0 or tensorrt-engine")},
	{REAL("gpu-mem-util", job.gpu_mem_util, "SHARE", 0.01, 1,
	 "of a GPU's memory that an engine may use; default: the engine's")},
	{TEXT("rollout", job.rollout, "WORDS",
	 "sequences=N of a step, reward=SECONDS and the other words of predict; gpus, tp and ep, where "
	 "they are given, are not searched, and lag is tried besides 0 and 1")},

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

	{GROUP("What is searched (comma lists; by default the common values)")
	 TEXT("tp", tp, "N,...", "tensor parallelism")},
	{TEXT("pp", pp, "N,...", "pipeline parallelism")},
	{TEXT("vp", vp, "N,...", "virtual stages (model chunks) per pipeline rank")},
	{TEXT("cp", cp, "N,...", "context parallelism")},
	{TEXT("ep", ep, "N,...", "expert parallelism")},
	{TEXT("etp", etp, "N,...", "tensor parallelism of experts")},
	{TEXT("mbs", mbs, "N,...", "micro-batch size, sequences")},
	{TEXT("schedule", schedule, "NAME,...",
	 "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev; default: "
	 "those that the software has")},
	{TEXT("zero", zero, "STAGE,...", "what data parallelism shards: 0 to 3")},
	{TEXT("recompute", recompute, "KIND,...",
	 "none, selective, full, full/N, or modules as in core_attn+mlp")},
	{TEXT("bucket", bucket, "MiB,...", "gradient buckets")},
	{TEXT("stack", stack, "NAME,...",
	 "software: megatron, nemo, fsdp, llm-foundry, torchtitan, deepspeed; default megatron: "
	 "layouts of one software are compared")},
	{FLAG("offload", offload, "also with optimizer states and step on the host")},
	{FLAG("fixed-switches", fixed_switches,
	 "take the software's defaults for sequence parallelism, overlap and buckets")},

	{GROUP("Not searched")
	 SWITCH("sequence-parallel", job.sequence_parallel, "split norms and residuals over TP")},
	{SWITCH("tp-overlap", job.tp_overlap,
	 "tensor-parallel collectives in chunks that overlap their matrix products")},
	{SWITCH("overlap-grad-reduce", job.overlap_grad_reduce,
	 "reduce gradients during the backward pass")},
	{SWITCH("overlap-param-gather", job.overlap_param_gather,
	 "gather parameters during the forward pass")},
	{SWITCH("overlap-p2p", job.overlap_p2p, "pipeline messages during compute")},
	{SWITCH("cuda-graphs", job.cuda_graphs, "launches replayed from CUDA graphs")},
	{SWITCH("fused-loss", job.fused_loss, "cross-entropy without an fp32 copy of the logits")},
	{TEXT("loss", job.loss, "KIND",
	 "logits that are held: logits (all), linear (Liger's fused linear cross-entropy), cut (Cut "
	 "Cross-Entropy), chunked or chunked/N")},
	{SWITCH("expert-overlap", job.expert_overlap,
	 "MoE: expert traffic during another micro-batch's computation")},
	{FLAG("compile", job.compile, "torch.compile: element-wise work is fused")},
	{SWITCH("eager", job.eager,
	 "element-wise operations run one by one, as Hugging Face's transformers writes them (default "
	 "with --stack ddp, fsdp and deepspeed); --no-eager: Liger's kernels")},
	{TEXT("cp-kind", job.cp_kind, "KIND", "ring, all-gather, ulysses or ulysses/N")},
	{TEXT("attention", job.attention, "KERNEL",
	 "flash (what the software takes), cudnn, fa2, fa3, or unfused")},
	{TEXT("dispatcher", job.dispatcher, "KIND", "MoE: alltoall, allgather, or node")},
	{SWITCH("fp8-dispatch", job.fp8_dispatch,
	 "MoE: rows travel to their experts in 8 bits; what comes back does not")},
	{INT("dispatch-sms", job.dispatch_sms, "N", 1, 1024,
	 "MoE: SMs that the kernels of --dispatcher node take; default 20 between nodes")},
	{REAL("moe-imbalance", job.moe_imbalance, "X", 1, 1000,
	 "tokens of the busiest expert rank over the mean")},
	{INT("max-connections", job.max_connections, "N", 1, 32, "CUDA_DEVICE_MAX_CONNECTIONS")},
	{TEXT("nccl", job.nccl, "TEXT", "NCCL's release and environment: \"2.21 NCCL_ALGO=Ring\"")},
	{TEXT("release", job.release, "NUMBER", "of the software, as 26.04")},

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
	 TEXT("emit", job.emit, "TARGET",
	 "write the best layout as a launch line of megatron, bridge, nemo, deepspeed or torchtitan, a "
	 "configuration of axolotl, llama-factory, nanotron or accelerate, or a job around either: "
	 "sbatch:megatron, skypilot:axolotl, kubernetes:nanotron; or program: the step's end, "
	 "for lockstep compile")},
	{OUT_FORMAT(lk_output_formats, "text, md, csv, json, jsonl or sqlite")},
	{OUT_FILE("where the output goes; sqlite needs one"), LETTER('f')},
	{OUT_HTML},
	{OUT_CHARTS},
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
	.examples = examples,
	.request_size = sizeof(lk_plan_request),
	.min_operands = 0,
	.max_operands = 1,
	.rest = true,
};
