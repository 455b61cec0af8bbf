/* job_rows.h: rows that several verbs take: the job, its machine, its software, its simulation. An
 * option of predict that plan takes too is one row here; its help is a parameter where the verbs
 * differ in it. A table that includes these rows says where they lie and how they are read:
 *
 *     #define REQUEST    lk_plan_request
 *     #define JOB(field) job.field   the place of a field of lk_predict_request in the request
 *     #define LISTS      false       whether a comma list makes one request per value
 *     #define DEGREE(name, field, high, help) ...  a degree of the layout from 1 to `high`
 *
 * X_ROW is one row without its braces, so that a heading or WITH can be added: {GROUP("Layout")
 * MICRO_BATCH_ROW}. X_ROWS are several, with braces. */
#ifndef LK_OPTIONS_JOB_ROWS_H
#define LK_OPTIONS_JOB_ROWS_H

#include "options/rows.h"

/* clang-format off */
#define LISTED .sweep = LISTS

/* ---- what trains where ---- */

#define NETWORK_ROWS(heading) \
	{GROUP(heading) \
	 TEXT("model", JOB(model), "NAME|FILE", \
	 "a preset (see `lockstep models`), a HuggingFace config.json, or a folder that holds one"), \
	 LISTED, LETTER('m')}, \
	{TEXT("as", JOB(as), "TYPE", \
	 "read the config.json as this model_type: for networks that are not known"), LISTED}

#define LK_GPU_HELP "GPU, see `lockstep devices`; 64xh100: 64 of them"
#define LK_CLUSTER_HELP "instead of --gpu: a text or a file, as for predict"
#define GPU_ROW(help) TEXT("gpu", JOB(gpu), "NAME", help), LISTED, LETTER('g')
#define CLUSTER_ROW(help) TEXT("cluster", JOB(cluster), "TEXT|FILE", help)

/* `most`: of them. */
#define GPUS_ROW(most) \
	INT("gpus", JOB(gpus), "N", 1, most, \
	 "number of GPUs, in nodes as the device is usually sold"), LISTED, LETTER('n')

#define POWER_ROW \
	REAL("power", JOB(power), "W", 1, 1e6, \
	 "limit of each GPU's board power; default: the catalogue's"), LISTED

#define CONFIG_ROWS(help) \
	{TEXT("config", JOB(config), "FILE", help)}, \
	{LINES("set", JOB(sets), "KEY=VALUE", \
	 "over the file, in the framework's own names; several times")}, \
	{LINES("var", JOB(vars), "NAME=VALUE", \
	 "a variable of the file's environment that only the cluster knows; several times")}

#define SCRIPT_ROW(help) TEXT("script", JOB(script), "FILE", help)

#define CALIBRATION_ROW \
	TEXT("calibration", JOB(calibration), "FILE", \
	 "numbers that `lockstep calibrate` wrote, on top of the built-in ones")

/* ---- layout ---- */

#define DEGREE_ROWS(heading) \
	{GROUP(heading) \
	 DEGREE("tp", tp, 1024, "tensor parallelism")}, \
	{DEGREE("pp", pp, 1024, "pipeline parallelism")}, \
	{DEGREE("vp", vp, 64, "virtual stages (model chunks) per pipeline rank")}, \
	{DEGREE("cp", cp, 1024, "context parallelism")}, \
	{DEGREE("ep", ep, 4096, "expert parallelism")}, \
	{DEGREE("etp", etp, 1024, "tensor parallelism of experts")}

#define MICRO_BATCH_ROW DEGREE("mbs", mbs, 1048576, "micro-batch size, sequences")

#define GLOBAL_BATCH_ROW(help) INT("gbs", JOB(gbs), "N", 1, 268435456, help), LISTED

#define SEQUENCE_ROW \
	INT("seq", JOB(seq), "N", 1, 16777216, "sequence length, tokens; 8k is 8192"), SEQUENCE, \
	 LISTED, LETTER('s')

#define PACK_ROW \
	TEXT("pack", JOB(pack), "KIND:TOKENS|FILE", \
	 "documents packed into each sequence, which attend within themselves: fixed, lognormal or " \
	 "exponential with their mean length, or a file with one length a line"), LISTED

#define SEQUENCE_PARALLEL_ROW(help) SWITCH("sequence-parallel", JOB(sequence_parallel), help)
#define CP_KIND_ROW(help) TEXT("cp-kind", JOB(cp_kind), "KIND", help), LISTED

/* ---- numbers and memory ---- */

#define DTYPE_ROW(help) TEXT("dtype", JOB(dtype), "TYPE", help), LISTED, LETTER('d')

#define OPTIMIZER_ROW \
	TEXT("optimizer", JOB(optimizer), "NAME", \
	 "adam, adam-8bit, adam-4bit, adam-flash (FlashOptim), adam-mini, ademamix, ademamix-8bit, " \
	 "sgd, lamb, lion, lion-8bit, adafactor, muon, soap or shampoo"), LISTED

#define STATE_ROWS \
	{INT("muon-steps", JOB(muon_steps), "N", 1, 100, \
	 "muon: Newton-Schulz iterations; default 5"), LISTED}, \
	{TEXT("muon-tp-mode", JOB(muon_tp_mode), "MODE", \
	 "muon, matrices that TP divides: duplicated (gathered, default), distributed or blockwise"), \
	 LISTED}, \
	{TEXT("state-dtype", JOB(state_dtype), "TYPE", "of the optimizer's moments"), LISTED}, \
	{SWITCH("master-weights", JOB(master_weights), \
	 "16-bit formats: an fp32 copy of the weights (default); without it the moments have 16 bits " \
	 "too, where --state-dtype does not say otherwise")}, \
	{TEXT("fp8-recipe", JOB(fp8_recipe), "NAME", \
	 "factors of fp8 products: delayed, tensorwise, blockwise or rowwise (PyTorch's torchao)"), \
	 LISTED}, \
	{INT("bf16-layers", JOB(bf16_layers), "N", 1, 4096, \
	 "fp8, mxfp8, nvfp4: the first N and the last N layers compute in bf16"), LISTED}, \
	{FLAG("fp8-params", JOB(fp8_params), \
	 "fp8: weights are kept in 8 bits, not in 16 as well (--fp8-param-gather)")}, \
	{FLAG("fp8-activations", JOB(fp8_activations), \
	 "fp8: inputs of the MLP's activation are kept in 8 bits (--activation-func-fp8-input-store)")}

#define EMA_ROW \
	TEXT("ema", JOB(ema), "PLACE", \
	 "a running average of the parameters: none, device, or host, updated while the next step " \
	 "runs"), LISTED
#define OFFLOAD_PARAMS_ROW(help) FLAG("offload-params", JOB(offload_params), help)
#define OFFLOAD_ACTIVATIONS_ROW \
	FLAG("offload-activations", JOB(offload_activations), \
	 "what layers keep for the backward pass waits in the host's memory")
#define OPTIMIZER_IN_BACKWARD_ROW \
	FLAG("optimizer-in-backward", JOB(optimizer_in_backward), \
	 "each parameter is updated, and its gradient freed, during the backward pass (torchtune's " \
	 "optimizer_in_bwd)")

/* ---- what is trained of it, and on what ---- */

#define TASK_ROW(help) TEXT("task", JOB(task), "TASK", help), LISTED

#define TUNING_ROWS \
	{FLAG("dpo", JOB(dpo), \
	 "samples are pairs, which a frozen reference reads too; --mbs and --gbs count both sequences " \
	 "of a pair")}, \
	{INT("num-labels", JOB(num_labels), "N", 1, 1048576, \
	 "a classifier: a head of N columns in place of the vocabulary's (num_labels of " \
	 "transformers' ForSequenceClassification)"), LISTED}, \
	{TEXT("teacher", JOB(teacher), "NAME|FILE", \
	 "distillation: a frozen network, a preset or config.json, that reads every sequence too"), \
	 LISTED}, \
	{FLAG("qlora", JOB(qlora), \
	 "lora: frozen matrices of layers are kept in 4 bits (NF4) and widened before each product")}, \
	{TEXT("base-format", JOB(base_format), "NAME", \
	 "lora: frozen matrices of layers in nf4 (as --qlora), int8 (LLM.int8, load_in_8bit), " \
	 "either with -dense (experts, which are no linear layers, stay in 16 bits), or nf4-held " \
	 "(bitsandbytes to 0.42 in litgpt's loop: what products read stays until the next loss)"), \
	 LISTED}, \
	{FLAG("dora", JOB(dora), "lora: adapted weights as direction and magnitude")}, \
	{INT("images", JOB(images), "N", 1, 65536, \
	 "images, or tiles of them, in a sequence of a vision-language model; default 1"), LISTED}, \
	{INT("image-size", JOB(image_size), "PIXELS", 1, 65536, \
	 "a side of each, where the network takes any size; default 448"), LISTED}, \
	{FLAG("freeze-vision", JOB(freeze_vision), \
	 "the encoder of images is not trained, its projector is")}

/* ---- software ---- */

#define GRAD_REDUCE_ROW(help) SWITCH("overlap-grad-reduce", JOB(overlap_grad_reduce), help)
#define PARAM_GATHER_ROW \
	SWITCH("overlap-param-gather", JOB(overlap_param_gather), \
	 "gather parameters during the forward pass")
#define P2P_ROW(help) SWITCH("overlap-p2p", JOB(overlap_p2p), help)
#define TP_OVERLAP_ROW \
	SWITCH("tp-overlap", JOB(tp_overlap), \
	 "tensor-parallel collectives in chunks that overlap their matrix products")
#define CUDA_GRAPHS_ROW \
	SWITCH("cuda-graphs", JOB(cuda_graphs), "launches replayed from CUDA graphs")
#define CONNECTIONS_ROW(help) \
	INT("max-connections", JOB(max_connections), "N", 1, 32, help), LISTED
#define LK_NCCL_HELP \
	"NCCL's release and environment: \"2.21 NCCL_ALGO=Ring NCCL_MAX_NCHANNELS=8\"; NCCL_ALGO, " \
	"NCCL_PROTO, NCCL_MIN_ and NCCL_MAX_NCHANNELS and _CTAS, NCCL_NVLS_ENABLE, NCCL_BUFFSIZE, " \
	"NCCL_NVLS_CHUNKSIZE"
#define NCCL_ROW(help) TEXT("nccl", JOB(nccl), "TEXT", help)
#define ALLOC_CONF_ROW \
	TEXT("alloc-conf", JOB(alloc_conf), "TEXT", \
	 "PYTORCH_CUDA_ALLOC_CONF, PyTorch's allocator: expandable_segments:True, " \
	 "max_split_size_mb:N, roundup_power2_divisions:N, with commas between")
#define COMPILE_ROW FLAG("compile", JOB(compile), "torch.compile: element-wise work is fused")
#define EAGER_ROW \
	SWITCH("eager", JOB(eager), \
	 "element-wise operations run one by one, as Hugging Face's transformers writes them (default " \
	 "with --stack ddp, fsdp and deepspeed); --no-eager: Liger's kernels")
#define RAGGED_ROWS \
	{SWITCH("ragged", JOB(ragged), \
	 "sequences differ in length, up to --seq, neither packed nor padded: memory depends on " \
	 "their order, and ten are tried")}, \
	{TEXT("ragged-lengths", JOB(ragged_lengths), "KIND:TOKENS|FILE", \
	 "how long they are, as with --pack; those longer than --seq are left out. Default: evenly " \
	 "spread"), LISTED}
#define ATTENTION_ROW \
	TEXT("attention", JOB(attention), "KERNEL", \
	 "flash (what the software takes), cudnn, fa2, fa3, or unfused"), LISTED
#define LOSS_ROWS \
	{SWITCH("fused-loss", JOB(fused_loss), "cross-entropy without an fp32 copy of the logits")}, \
	{TEXT("loss", JOB(loss), "KIND", \
	 "logits that are held: logits (all), native (all, and two fp32 copies: Megatron-LM's own " \
	 "fusion), linear (Liger's fused linear cross-entropy), cut (Cut " \
	 "Cross-Entropy), chunked, chunked/N or chunked-output (torchtune)"), LISTED}
#define DISPATCHER_ROW(help) TEXT("dispatcher", JOB(dispatcher), "KIND", help), LISTED
#define EXPERT_OVERLAP_ROW(help) SWITCH("expert-overlap", JOB(expert_overlap), help)
#define DISPATCH_ROWS \
	{SWITCH("fp8-dispatch", JOB(fp8_dispatch), \
	 "MoE: rows travel to their experts in 8 bits; what comes back does not")}, \
	{INT("dispatch-sms", JOB(dispatch_sms), "N", 1, 1024, \
	 "MoE: SMs that the kernels of --dispatcher node take; default 20 between nodes"), LISTED}, \
	{REAL("moe-imbalance", JOB(moe_imbalance), "X", 1, 1000, \
	 "tokens of the busiest expert rank over the mean"), LISTED}
#define STACK_ROW(help) TEXT("stack", JOB(stack), "NAME", help), LISTED
#define RELEASE_ROW(help) TEXT("release", JOB(release), "NUMBER", help), LISTED

/* ---- generation ---- */

#define RESPONSE_ROWS(heading) \
	{GROUP(heading) \
	 COUNT("response", JOB(response), "TOKENS", 1, 1e7, "mean tokens that a sequence gets"), \
	 SEQUENCE, LISTED}, \
	{COUNT("response-max", JOB(response_max), "TOKENS", 1, 1e7, "where a sequence is cut"), \
	 SEQUENCE, LISTED}, \
	{TEXT("lengths", JOB(lengths), "KIND|FILE", \
	 "how responses spread: fixed, lognormal (default), exponential, or a file with one length a " \
	 "line"), LISTED}, \
	{COUNT("prompt", JOB(prompt), "TOKENS", 1, 1e7, "tokens of a prompt; default 128"), SEQUENCE, \
	 LISTED}, \
	{INT("samples", JOB(samples), "N", 1, 65536, "sequences of one prompt; default 1"), LISTED}
#define ENGINE_ROWS(help) \
	{TEXT("engine", JOB(engine), "NAME", help), LISTED}, \
	{REAL("gpu-mem-util", JOB(gpu_mem_util), "SHARE", 0.01, 1, \
	 "of a GPU's memory that an engine may use; default: the engine's"), LISTED}
#define ROLLOUT_ROW(help) TEXT("rollout", JOB(rollout), "FILE|WORDS", help)

/* ---- simulation and output ---- */

#define NO_CONTENTION_ROW \
	FLAG("no-contention", JOB(no_contention), \
	 "precedence only: overlapping operations do not slow one another")
#define DISTURBANCE_ROWS \
	{TEXT("straggler", JOB(straggler), "RANK:FACTOR", "a slow rank; several with commas")}, \
	{REAL("jitter", JOB(jitter), "SIGMA", 0, 1, "relative deviation of kernel times")}, \
	{REAL("gpu-spread", JOB(gpu_spread), "SIGMA", 0, 1, \
	 "relative deviation between GPUs, each as fast throughout the step")}
#define SEED_ROW \
	REAL("seed", JOB(seed), "N", 0, 4503599627370496.0, "seed of jitter and spread")

#define PUE_ROW \
	REAL("pue", JOB(mains.pue), "RATIO", 1, 10, \
	 "mains power per power of the machines, for energy; default 1.2")
#define CARBON_ROW(help) REAL("carbon", JOB(mains.carbon), "G/KWH", 0.1, 5000, help)
#define PRICE_KWH_ROW(help) REAL("price-kwh", JOB(mains.price_kwh), "DOLLARS", 1e-4, 100, help)
#define LK_CARBON_HELP "emissions of the mains, g of CO2e per kWh: gives kg of the training"
#define MAINS_ROWS \
	{PUE_ROW}, \
	{CARBON_ROW(LK_CARBON_HELP), WITH("tokens")}, \
	{PRICE_KWH_ROW( \
	 "US dollars per kWh of the mains: gives what the energy of the training costs"), \
	 WITH("tokens")}

/* ---- traces and recordings, whose requests have fields of these names ---- */

#define READERS_ROW \
	INT("threads", threads, "N", 1, 1024, \
	 "files read at a time; default: one per core"), LETTER('j')

#define RECORDED_ROWS \
	{GROUP("What is recorded") \
	 TEXT("step-marker", step_marker, "CALL", \
	 "what begins a step: MPI_Barrier, or open:, read:, write:, close: and a part of a file's " \
	 "path")}, \
	{TEXT("program", program, "NAME,...", \
	 "programs to record from their start; others are recorded from MPI_Init on")}, \
	{CHOICE("mpi", mpi, lk_mpi_choices, "WHICH", \
	 "the MPI library of the program, where it cannot be detected")}

/* `what`: what the verb writes so. */
#define EMIT_ROW(what) \
	TEXT("emit", JOB(emit), "TARGET", \
	 "write " what " as a launch line of megatron, bridge, nemo, deepspeed or torchtitan, a " \
	 "configuration of axolotl, llama-factory, nanotron or accelerate, or a job around either: " \
	 "sbatch:megatron, skypilot:axolotl, kubernetes:nanotron; edit: as changes of the file or " \
	 "line that was given, a unified diff; edited: that text with the changes; program: the " \
	 "step's end, for lockstep compile")

/* clang-format on */

extern const char *const lk_mpi_choices[]; /* auto, openmpi, mpich */

#endif
