/* predict.h: does it fit, how long is a step, where does the time go, how many days?
 *
 *     lk_predict_request request;
 *     lk_predict_defaults(&request);
 *     request.model = "llama3.1-70b", request.gpu = "h100-sxm", request.gpus = 64;
 *     lk_prediction *prediction;
 *     lk_error err;
 *     if (lk_predict(&request, &prediction, &err) != LK_OK) ...
 *     lk_predict_free(prediction); */
#ifndef LOCKSTEP_PREDICT_H
#define LOCKSTEP_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lockstep/detail.h"
#include "lockstep/emit.h"
#include "lockstep/error.h"
#include "lockstep/expected.h"
#include "lockstep/options.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mains that supply the machines; 0: not stated. */
typedef struct lk_mains {
	double pue;       /* mains power over the machines' power; 0: 1.2 */
	double carbon;    /* g of CO2e per kWh */
	double price_kwh; /* US dollars per kWh */
} lk_mains;

/* Power and energy, of all GPUs with their hosts at the mains, except gpu_watts. All 0 if a board's
 * power is unknown (docs/method/energy.md). */
typedef struct lk_energy {
	double gpu_watts, site_watts; /* means over a step; gpu_watts of one GPU */
	double pue;                   /* used for site_watts */
	double step_kwh;
	double training_kwh;         /* 0: the length of the training was not given */
	double carbon_kg, power_usd; /* of it; 0: not stated in lk_mains */
} lk_energy;

/* The request. Zero and NULL mean "not given": the value follows from others, or a default is used
 * and listed among the assumptions. Texts are borrowed. */
typedef struct lk_predict_request {
	/* the job and the machine */
	const char *model; /* preset name, a config.json, or a folder that holds one */
	const char *as;    /* model_type to read the config.json as, overriding its own */
	const char *gpu;
	int gpus;
	const char *cluster;   /* synthetic form or JSON file, instead of gpu and gpus */
	double power;          /* power limit of each GPU, W; 0: its board's */
	const char *config;    /* a training framework's configuration or a launch script; the kind is
	                          detected */
	const char *sets;      /* lines "key=value" that override it, in the framework's own names */
	const char *vars;      /* lines "NAME=value": variables known only to the cluster */
	const char *script;    /* shell script with a launch line; `launch` holds its arguments */
	const char *deepspeed; /* ds_config.json */
	const char *const *launch; /* words of a launch line, as pasted after "--" */
	int launch_count;

	const char *calibration; /* a file of `lockstep calibrate`, which overrides the built-in
	                            numbers. It stays in use for the process: name the same one in every
	                            request, and the first before other threads ask */

	/* layout */
	int tp, pp, vp, cp, ep, etp, dp;
	int mbs, gbs, seq;
	int sequence_parallel; /* all switches: 0 not given, 1 on, -1 off */
	const char *zero;      /* "0" to "3" */
	int shard_group;
	const char *schedule;  /* "1f1b", ... */
	const char *recompute; /* "none", "selective", "full", "full/N", or modules: "core_attn+mlp" */
	const char *dtype;
	const char *optimizer; /* "adam", "sgd", "lamb", "adafactor", "muon", "soap", "shampoo", "lion",
	                          "adam-mini", "adam-8bit", "adam-4bit", "adam-flash", "lion-8bit",
	                          "ademamix", "ademamix-8bit" */
	int muon_steps;        /* Newton-Schulz iterations; 0: 5 */
	const char *muon_tp_mode; /* "duplicated", "distributed", "blockwise" */
	const char *state_dtype;
	const char *task; /* "pretrain", "sft", "lora"; "dpo" (sft with `dpo`), "kto", "orpo", "reward",
	                     with adapters "dpo+lora" and so on; "generate", "serve", "grpo", "dapo",
	                     "ppo" */
	int num_labels;   /* a classifier's head of so many columns in place of the vocabulary's */
	int lora_rank;
	const char *lora_targets; /* "attention", "all-linear", "experts", "q_proj+v_proj"; NULL:
	                             attention */
	double lora_dropout;      /* share of what adapters read that is dropped */
	bool dpo; /* pairs of sequences, which a frozen reference reads too; mbs and gbs count both */
	const char *base_format; /* adapters: frozen matrices in "nf4" (as `qlora`), "int8",
	                            "nf4-dense", "int8-dense", "nf4-held" */
	bool qlora, dora; /* adapters: frozen matrices in 4 bits; weights as direction and magnitude */
	int images, image_size; /* per sequence; side in pixels: networks that read images */
	bool freeze_vision;     /* their encoder is not trained, the projector is */
	int first_stage_layers, last_stage_layers;
	const char *pipeline_layout;
	const char *cp_kind;    /* "ring", "all-gather", "ulysses", "ulysses/N": in groups of N */
	const char *attention;  /* "flash", "unfused" */
	const char *dispatcher; /* "alltoall", "allgather", "node" */
	double moe_imbalance;
	int fp8_dispatch;       /* rows travel to their experts in 8 bits */
	int dispatch_sms;       /* SMs of the node dispatcher's kernels; 0: their known number */
	const char *fp8_recipe; /* "delayed", "tensorwise", "blockwise", "rowwise" */
	const char *plan;       /* for a recommendation model: the placement of tables, a file of
	                           lk_shard_write_plan; NULL: placed by lk_shard */
	int overlap_grad_reduce, overlap_param_gather, overlap_p2p, tp_overlap;
	double bucket_mib;
	int cuda_graphs, fused_loss, expert_overlap;
	int eager;  /* element-wise operations one by one, as in Hugging Face's code */
	int ragged; /* sequences differ in length, up to `seq`, neither packed nor padded: what
	                        PyTorch's allocator holds depends on their order */
	const char *ragged_lengths; /* how long they are: "lognormal:800", "800", a file; longer ones
	                               than `seq` are left out. NULL: evenly spread */
	int master_weights;  /* -1: weights, and moments unless stated otherwise, only in 16 bits */
	const char *loss;    /* which logits are held: "logits" (all), "native", "linear", "cut",
	                        "chunked", "chunked/N" */
	int max_connections; /* CUDA_DEVICE_MAX_CONNECTIONS; 0: from the launch line, else 8 */
	const char *nccl;    /* release and environment of NCCL: "2.21 NCCL_ALGO=Ring"; NULL: from the
	                        launch line */
	const char *alloc_conf; /* PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"; NULL: from the
	                           launch line */
	bool offload_optimizer, compile;
	const char *teacher; /* distillation: the frozen network, a preset or a config.json */
	const char *pack;    /* documents packed into each sequence: "lognormal:800", "800", a file */
	bool offload_params; /* ZeRO-3: pieces of the weights are also in host memory */
	const char *ema;     /* average of the parameters: "none", "device", "host" */
	bool offload_activations;   /* activations that layers keep for the backward pass are on the
	                           * host */
	bool optimizer_in_backward; /* each parameter is updated as soon as its gradient is complete */
	bool fp8_params;            /* weights only in 8 bits and the master copy, not in 16 bits */
	int bf16_layers;      /* this many first and last layers compute in bf16, the others in 8 or 4
	                       * bits */
	bool fp8_activations; /* inputs of gated activations are kept in 8 bits */
	bool delay_wgrad;     /* with expert_overlap: the experts' weight gradients overlap with the
	                         return of their input gradients */
	const char *stack;
	const char *release; /* of the stack: "26.04"; NULL: the newest with measured runs */

	/* generation (task "generate"): `gbs` sequences on engines of tp * pp GPUs each */
	double prompt, response; /* prompt tokens; mean of generated ones */
	double response_max;     /* limit at which a sequence is cut; 0: none */
	const char *lengths;     /* "fixed", "lognormal", "exponential", or a file of lengths */
	int samples;             /* sequences per prompt */
	const char
		*engine; /* "vllm", "sglang", "tensorrt-llm", "tensorrt-llm-1.0", "tensorrt-engine" */
	double gpu_mem_util;           /* share of a GPU's memory that an engine may use */
	int max_sequences, max_tokens; /* per batch; per iteration */
	int prefix_caching;            /* cached prompts are not computed again */
	bool attention_dp;             /* each GPU of an engine attends to its own sequences */
	const char *kv_dtype;          /* of the cache */
	const char *speculative;       /* "TOKENS:RATE": tokens guessed, how often one is accepted */

	/* a service (task "serve"): the same engines, to which `gbs` requests come one after another */
	const char
		*arrivals;   /* "poisson:12" requests a second, "even:12", "gamma:12:2.5", or a CSV file
	                         with arrival_s, prompt_tokens, output_tokens */
	const char *slo; /* limits of a request: "ttft=2s,tpot=50ms,e2e=30s" */

	/* reinforcement learning (tasks "grpo", "dapo", "ppo", "distill"): the training layout above,
	 * updates of `gbs` sequences packed into rows of at most `seq` tokens, and the generating
	 * engines: "sequences=2048 gpus=8 tp=2 pp=1 ep=1 lag=1 reward=SECONDS reference=1", each word
	 * optional (docs/guide/post-training.md has all). Without gpus they run on the training GPUs.
	 * lag: batches that they may run ahead */
	const char *rollout;

	/* the simulation */
	const char *ranks;     /* NULL: one per class; "all" */
	bool exact;            /* no folding of repetition */
	bool no_contention;    /* precedence only */
	const char *straggler; /* "RANK:FACTOR[,...]" */
	double jitter;         /* relative deviation of kernel times */
	double gpu_spread;     /* relative deviation between GPUs, constant through the step */
	const char *noise;     /* a preset of data/noise.csv, or a file of such rows: levels of noise,
	                        * of which the two above become rows; NULL: none */
	double seed;           /* of all three */
	int seeds;             /* number of simulated steps, with seeds from `seed` on, for quantiles;
	                        * 0: none; with `noise` 10,000 */
	lk_search_progress *progress; /* reports finished seeds; NULL: no reports */
	void *progress_context;

	/* requested results */
	double tokens;                         /* of the whole training */
	double mtbf_hours, checkpoint_minutes; /* per node; between checkpoints */
	double checkpoint_write_gbps; /* 10^9 bytes/s per node when writing a checkpoint; 0: 1 */
	const char *failures; /* rates of what stops the run: "low", "typical", "high", or a table as
	                         data/runs/failures.csv; NULL: nothing but mtbf_hours stops it */
	const char *recovery; /* "people", "requeue", "replace", "standby", "elastic"; NULL: replace */
	const char *checkpoint_tiers; /* kinds with intervals, "host:1min+async:30min"; NULL: storage */
	int spares;                   /* nodes held ready; 0: there is always one */
	double repair_hours;          /* until a node that failed is ready again; 0: 24 */
	double price_gpu;             /* US dollars per GPU-hour; 0: not stated */
	const char *run; /* TOML file with the phases of the run: each overrides options of the request
	                    (docs/guide/runs.md); NULL: one phase */
	double input_gbps;  /* 10^9 bytes/s that storage delivers to the whole job; 0: enough */
	double input_bytes; /* of a sample; 0: four for a token */
	lk_mains mains;
	bool no_fixes;           /* do not search changes that make it fit */
	bool step;               /* keep the simulated step, for writing files from it */
	const char *trace_ranks; /* "0,8": ranks in its timeline in addition to one per stage */
	bool detail;             /* fill lk_prediction.detail, as needed by reports */
	bool no_sensitivity;     /* but without sensitivities to rates, which take eight more
	                            predictions */
	const char *replace;     /* "optimizer=FILE": replace the end of the step by a program's graph,
	                            written by compile tune --graph or emit --target graph */
	const char *measured;    /* of a run of this job: "7.2 s", "200 tok/s/gpu", "31 % MFU", "73 GiB
	                            reserved", several with commas; or a log: fills
	                            lk_prediction.expected */
	const char *calibrated;  /* with `measured`: a file for lk_predict_write_calibration */
	const char *emit; /* a target of lk_predict_emit, which also sets the default stack: "axolotl",
	                     "sbatch:megatron"; NULL: none */

} lk_predict_request;

/* One line of "where one step goes". */
typedef struct lk_time_part {
	const char *key, *label;
	double exposed_s, hidden_s;
} lk_time_part;

/* A phase of a step of reinforcement learning, on the training GPUs or on engines with their own
 * GPUs. */
typedef struct lk_phase_span {
	int part; /* index into the breakdown; -1: the GPUs wait */
	bool engines;
	double start_s, end_s;
} lk_phase_span;
enum { LK_PHASE_SPANS = 16 };

/* Quantiles over steps with different seeds of jitter and GPU spread. With noise, the keys are
 * "step", "quiet" (the step without noise) and "noise_" and a level: what it adds to the steps
 * around the quantile. */
typedef struct lk_seed_spread {
	const char *key, *label; /* "step", a part of the breakdown (exposed), "straggler_share" */
	double p50, p95, p99;    /* seconds; for "straggler_share" the relative excess of the step over
	                            one with all ranks equally fast */
} lk_seed_spread;

/* Memory of one rank of a stage at its peak, bytes. */
typedef struct lk_stage_memory {
	int stage;
	double weights, gradients, optimizer, activations, logits, workspace, buffers;
	double allocated, reserved; /* peak of tensors; of the allocator */
	int orders, orders_fit;     /* orders of sequences that differ in length: tried, and those with
	                             * which the job fits; 0: all sequences are equally long */
	double low, high;           /* 80 % range of `allocated`; NAN without measured jobs of this
	                             * kind */
	double reserved_low, reserved_high; /* 80 % range of `reserved`, of PyTorch's stacks; NAN */
	double context, nccl;               /* outside the allocator */
	double total;                       /* reserved + context + nccl: as shown by nvidia-smi */
	char moment[96];                    /* the operation that is running then */
} lk_stage_memory;

/* From this probability of running out of memory on, a job that fits by its sum is said to be one
 * that may not fit. */
#define LK_OUT_OF_MEMORY_LIKELY 0.4

/* A change that makes the job fit, found by prediction. */
typedef struct lk_fix {
	char change[96];
	double peak_bytes, step_time_s;
	double time_ratio; /* relative to the requested job */
	char words[160];   /* the change in the words of the framework whose file or line was given,
	                    * "micro_batch_size: 1; gradient_accumulation_steps: 8"; "": not known */
} lk_fix;

/* Results of generation in addition to a step; all 0 for other tasks. For one engine unless stated
 * otherwise. */
typedef struct lk_generation {
	int sequences; /* of all engines; 0: no generation */
	int engines, engine_gpus;
	double tokens;                 /* generated by all engines */
	double tokens_per_s;           /* of all engines */
	double token_time_s;           /* mean time between two tokens of a sequence */
	double longest_tokens;         /* of the longest response */
	double cache_bytes;            /* for keys and values on each GPU */
	double token_bytes;            /* per token */
	double cache_tokens;           /* capacity of an engine */
	double batch_room;             /* capacity of an engine, in sequences of mean length */
	double batch_most;             /* largest batch that occurred */
	double tail_s;                 /* at the end, with less than half of the largest batch */
	double preempted;              /* sequences recomputed for lack of cache space, all engines */
	double fixed_s, exponential_s; /* duration with all lengths equal; with the widest spread */
} lk_generation;

/* Seconds that requests wait, over all of them. */
typedef struct lk_latency {
	double mean, p50, p90, p99;
} lk_latency;

/* A service at one rate of requests. */
typedef struct lk_service_load {
	double rate;                    /* requests a second, in the mean */
	lk_latency first, token, whole; /* to the first token; between two further ones; to the last */
	double tokens_per_s_per_gpu;
	double tokens_per_s_user; /* of half of the requests at least */
	double busy;              /* share of the engines' time with a request in them */
	double batch;             /* requests that an engine decodes together while busy, mean */
	double waiting;           /* share of requests without a first token when the last one comes */
	double within;            /* share of requests within their limits; NAN: none were given */
} lk_service_load;

/* What the requests of a service wait, and how many of them its engines stand. */
typedef struct lk_service {
	int requests;                 /* 0: no service */
	const lk_service_load *loads; /* at parts and multiples of the rate, in ascending order */
	int load_count, asked;        /* which of them has the rate that was given */
	double capacity; /* requests a second of which 90 of 100 are within their limits; NAN: no
	                    limits; 0: not even of those that come alone */
} lk_service;

/* A whole run with what stops it (docs/method/runs.md). */
typedef struct lk_run_figure {
	char key[16], label[32]; /* "days", "goodput", "stops", "cost_usd", "energy_kwh", "carbon_kg" */
	double mean, p5, p50, p95;
} lk_run_figure;
typedef struct lk_run_time {
	char key[16], label[32];
	double share, days; /* days 0: the length of the run was not given */
} lk_run_time;
typedef struct lk_run_saved {
	char name[16], label[48];
	double interval_s, stall_s, write_s;
} lk_run_saved;
/* A phase of --run: its own job. */
typedef struct lk_run_phase {
	const char *name;
	int gpus, gbs, seq;
	double tokens, steps, step_time_s;
	double work_days; /* of its steps and evaluations alone */
} lk_run_phase;
enum { LK_RUN_FIGURES = 6, LK_RUN_TIMES = 9, LK_RUN_SAVED = 4 };
typedef struct lk_run_forecast {
	int samples; /* runs simulated; 0: nothing was said of failures */
	lk_run_figure figures[LK_RUN_FIGURES];
	int figure_count;
	lk_run_time times[LK_RUN_TIMES]; /* where the time goes; shares add up to 1 */
	int time_count;
	lk_run_saved saved[LK_RUN_SAVED];
	int saved_count;
	double mtbf_hours;                  /* between stops of the job that nobody planned */
	double best_interval_s;             /* of checkpoints that stall as the first do */
	int cheapest_spares, enough_spares; /* nodes: of the lowest cost; enough in 99 of 100 hours */
	char recovery[48];
	const lk_run_phase *phases; /* of request->run */
	int phase_count;
} lk_run_forecast;

/* The answer. Times in seconds, sizes in bytes, rates per second; texts live as long as the
 * answer. */
typedef struct lk_prediction {
	/* verdict */
	bool fits;
	double peak_bytes, usable_bytes;
	double out_of_memory; /* probability, from errors on measured runs; NAN: not known */
	int fullest_stage;
	/* speed */
	double step_time_s, step_time_low_s, step_time_high_s; /* 80 % range */
	const char *basis;
	double tokens_per_s_per_gpu; /* 0 if there are no tokens */
	double samples_per_s;
	const char
		*unit; /* unit of a sample: "sequence", "image"; "sample" for recommendation models */
	double model_flops_per_s_per_gpu, mfu, hfu, peak_flops;
	const char *peak_label;          /* "989.4 TFLOP/s dense bf16, NVIDIA H100 SXM" */
	double days, gpu_hours, goodput; /* 0 without tokens */
	lk_energy energy;
	double checkpoint_bytes, checkpoint_write_s; /* 0 without mtbf_hours and failures */
	lk_run_forecast run;
	/* breakdown of the time, mean over stages */
	const lk_time_part *breakdown;
	int breakdown_count;
	bool phases; /* the parts are successive phases of a step of reinforcement learning */
	lk_phase_span spans[LK_PHASE_SPANS]; /* in order of time: one side, then the other */
	int phase_span_count;
	/* with `seeds` or `noise`, else empty: spread of the step and its parts */
	const lk_seed_spread *spread;
	int spread_count, seeds;
	const char *noise; /* whose noise, and how it was simulated; NULL: none */
	/* memory by stage */
	const lk_stage_memory *memory;
	int memory_count;
	const lk_fix *fixes;
	int fix_count;
	/* requests and assumptions */
	const char *model, *cluster, *layout; /* one line each */
	const char *searched; /* for a request without a layout: how this one was found; else NULL */
	const char *const
		*found; /* of a pasted text: what was found in it, and how its measured numbers
	                           * compare */
	int found_count;
	const char *const *assumptions;
	int assumption_count;
	int taken_count;               /* number of leading ones about what the job's file or line
	                                * leaves open */
	const char *const *understood; /* settings translated from the job's file: "key value" */
	int understood_count;
	const char *const *ignored; /* ignored flags of a launch line: "flag: reason" */
	int ignored_count;
	int notable_count;     /* number of leading ones that the user may rely on */
	const char *warning;   /* NULL: none */
	const char *reproduce; /* the command that reproduces it */
	/* the simulation */
	uint64_t operations;       /* run by the engine */
	uint32_t layer_operations; /* of a transformer layer, forward and backward */
	uint32_t ranks_simulated, ranks;
	double simulation_s;      /* time in the engine */
	lk_generation generation; /* with task "generate", and for steps that generate */
	lk_service service;       /* with task "serve" */
	/* the layout in numbers, for tables */
	int gpus, tp, pp, vp, cp, ep, dp, mbs, gbs, seq, microbatches;
	const char *recompute, *dtype, *schedule;
	const lk_prediction_detail *detail; /* NULL: not requested */
	const lk_expected *expected;        /* NULL: `measured` was not given */
	lk_inputs inputs;                   /* the files read; reports identify them by content */
	const char *failed_check;           /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_prediction;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_predict_defaults(lk_predict_request *request);

/* Answer one request. A job that does not fit is an answer, not an error: fits is false.
 * LK_ERR_INPUT: unknown names, layouts that cannot run, invalid files; LK_ERR_IO; LK_ERR_MEMORY.
 * Thread-safe. */
lk_status lk_predict(const lk_predict_request *request, lk_prediction **out, lk_error *err);
/* Write the job of a prediction in the form that starts a framework or a scheduler
 * (lockstep/emit.h): the target is `emit` of its request. Texts live as long as the prediction.
 * LK_ERR_INPUT: the framework cannot run it, or the request has no target. */
lk_status lk_predict_emit(const lk_prediction *prediction, lk_emitted *out, lk_error *err);
/* Write rows for --calibration with which kernels and host take so much longer, or less, that this
 * job takes what was measured, to a file; for a request with `calibrated`. LK_ERR_INPUT: no step
 * was measured; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_write_calibration(const lk_prediction *prediction, const char *path,
                                       lk_error *err);
/* Free a prediction and everything it points to; accepts NULL. */
void lk_predict_free(lk_prediction *prediction);

/* The statements of a request's launch line, script and DeepSpeed config, as the equivalent
 * options. Nothing is predicted; the other fields of the request are ignored. */
typedef struct lk_stated {
	lk_predict_request options; /* as in a request: fields not given are not stated */
	bool network;               /* the shape of the network is stated, instead of `options.model` */
	void *memory_owner;
} lk_stated;

/* Express a launch line as options. LK_ERR_INPUT: an invalid line or file, or one that trains what
 * is not modelled; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_stated(const lk_predict_request *request, lk_stated **out, lk_error *err);
/* Accepts NULL. */
void lk_stated_free(lk_stated *stated);

/* Check a request independent of the machine. Fields about the machine are ignored; nothing is
 * predicted. LK_ERR_INPUT: its network, its launch line, a value or a name of its options;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_check(const lk_predict_request *request, lk_error *err);

/* Answer `count` requests on several threads (0: one per core). predictions[i] is the answer, or
 * NULL if request i was refused (LK_ERR_INPUT), with the reason in refusals[i]. Any other error
 * ends the whole call; answers made by then are in `predictions` too, whose elements must be freed
 * in every case. `progress`, unless NULL, is called now and then from the calling thread. */
lk_status lk_predict_many(const lk_predict_request *requests, size_t count, int threads,
                          lk_prediction **predictions, lk_error *refusals,
                          void (*progress)(void *context, size_t done), void *context,
                          lk_error *err);

/* Serialise a prediction for another process of the same program on a similar machine; free *bytes
 * with free(). Timeline, graph and detail are left out. LK_ERR_MEMORY; for bytes that are not of
 * this version, LK_ERR_INPUT. */
lk_status lk_predict_pack(const lk_prediction *prediction, void **bytes, size_t *size,
                          lk_error *err);
lk_status lk_predict_unpack(const void *bytes, size_t size, lk_prediction **out, lk_error *err);

/* Write the timeline (outputs->trace), the step graph (graph), Chakra execution traces (chakra) and
 * a GOAL schedule (goal) of a prediction that kept its step, and the report (html) and its charts
 * (charts) of one with details; nothing without them. LK_ERR_INPUT: an unknown file extension;
 * LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_outputs *outputs,
                                 lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_predict_verb;

#ifdef __cplusplus
}
#endif
#endif
