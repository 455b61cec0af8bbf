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
#include "lockstep/options.h"
#include "lockstep/stop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mains that machines run on; 0: not said. */
typedef struct lk_mains {
	double pue;       /* their power per power of the machines; 0: 1.2 */
	double carbon;    /* g of CO2e per kWh */
	double price_kwh; /* US dollars per kWh */
} lk_mains;

/* Power and energy, of all GPUs with their hosts and at the mains but for gpu_watts. All 0 where a
 * board's power is not known (docs/method/energy.md). */
typedef struct lk_energy {
	double gpu_watts, site_watts; /* means over a step; gpu_watts of one GPU */
	double pue;                   /* that site_watts counts with */
	double step_kwh;
	double training_kwh;         /* 0: no length of a training was given */
	double carbon_kg, power_usd; /* of it; 0: lk_mains says neither */
} lk_energy;

/* The request. Numbers that are 0 and texts that are NULL were not given: they follow from the
 * rest, or a default is taken and listed among the assumptions. Texts are borrowed. */
typedef struct lk_predict_request {
	/* what trains where */
	const char *model; /* preset name, a config.json, or a folder that holds one */
	const char *as;    /* model_type to read the config.json as, whatever it says itself */
	const char *gpu;
	int gpus;
	const char *cluster;   /* synthetic form or JSON file, instead of gpu and gpus */
	double power;          /* W that each GPU is held to; 0: its board's */
	const char *config;    /* a training framework's configuration, or a launch script: what it is
	                          is found out */
	const char *sets;      /* lines "key=value" on top of it, in the framework's own names */
	const char *vars;      /* lines "NAME=value": variables that only the cluster knows */
	const char *script;    /* shell script with a launch line; `launch` are its arguments */
	const char *deepspeed; /* ds_config.json */
	const char *const *launch; /* words of a launch line, as pasted after "--" */
	int launch_count;

	const char *calibration; /* a file of `lockstep calibrate`, on top of the built-in numbers. It
	                            stays in use for the process: name the same one in every request,
	                            and the first before other threads ask */

	/* layout */
	int tp, pp, vp, cp, ep, etp, dp;
	int mbs, gbs, seq;
	int sequence_parallel; /* as all switches: 0 not given, 1 on, -1 off */
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
	const char *task; /* "pretrain", "sft", "lora", "dpo" (sft with `dpo`),
	                     "generate", "grpo", "dapo", "ppo" */
	int lora_rank;
	bool dpo; /* pairs of sequences, read by a frozen reference too; mbs and gbs count both */
	bool qlora, dora; /* adapters: frozen matrices in 4 bits; weights as direction and magnitude */
	int images, image_size; /* of a sequence, pixels of a side: networks that read images */
	bool freeze_vision;     /* their encoder is not trained, what joins it is */
	int first_stage_layers, last_stage_layers;
	const char *pipeline_layout;
	const char *cp_kind;    /* "ring", "all-gather", "ulysses", "ulysses/N": in groups of N */
	const char *attention;  /* "flash", "unfused" */
	const char *dispatcher; /* "alltoall", "allgather", "node" */
	double moe_imbalance;
	int fp8_dispatch;       /* rows travel to their experts in 8 bits */
	int dispatch_sms;       /* that the node dispatcher's kernels take; 0: known of them */
	const char *fp8_recipe; /* "delayed", "tensorwise", "blockwise" */
	const char *plan;       /* of a recommendation model: which table goes where, the file that
	                           lk_shard_write_plan writes; NULL as lk_shard places them */
	int overlap_grad_reduce, overlap_param_gather, overlap_p2p, tp_overlap;
	double bucket_mib;
	int cuda_graphs, fused_loss, expert_overlap;
	int eager;           /* element-wise operations one by one, as Hugging Face's code is written */
	int master_weights;  /* -1: weights, and moments where nothing states them, in 16 bits alone */
	const char *loss;    /* logits that are held: "logits" (all), "linear", "cut", "chunked",
	                        "chunked/N" */
	int max_connections; /* CUDA_DEVICE_MAX_CONNECTIONS; 0 as the launch line says, else 8 */
	const char *nccl; /* release and environment of NCCL: "2.21 NCCL_ALGO=Ring"; NULL as the launch
	                     line says */
	bool offload_optimizer, compile;
	const char
		*teacher; /* distillation: the frozen network that reads too: a preset or a config.json */
	const char *pack;    /* documents packed into each sequence: "lognormal:800", "800", a file */
	bool offload_params; /* ZeRO-3: pieces of the weights are in the host's memory too */
	const char *ema;     /* average of the parameters: "none", "device", "host" */
	bool offload_activations; /* what layers keep for the backward pass waits on the host */
	bool fp8_params; /* no 16-bit copy of the weights is kept, only 8 bits and the master weights */
	int bf16_layers; /* so many first and last layers compute in bf16, others in 8 or 4 bits */
	bool fp8_activations; /* what gated activations take is kept in 8 bits */
	bool delay_wgrad;     /* with expert_overlap: weight gradients of experts run while gradients of
	                         their inputs travel back */
	const char *stack;
	const char *release; /* of the stack: "26.04"; NULL the newest that runs were measured of */

	/* generation (task "generate"): `gbs` sequences on engines of tp * pp GPUs each */
	double prompt, response; /* tokens of a prompt; mean of those generated */
	double response_max;     /* where a sequence is cut; 0: nowhere */
	const char *lengths;     /* "fixed", "lognormal", "exponential", or a file of lengths */
	int samples;             /* sequences of one prompt */
	const char
		*engine; /* "vllm", "sglang", "tensorrt-llm", "tensorrt-llm-1.0", "tensorrt-engine" */
	double gpu_mem_util;           /* share of a GPU's memory that an engine may use */
	int max_sequences, max_tokens; /* of a batch; of an iteration */
	int prefix_caching;            /* prompts in the cache are not computed again */
	bool attention_dp;             /* the GPUs of an engine attend to sequences of their own */
	const char *kv_dtype;          /* of the cache */
	const char *speculative;       /* "TOKENS:RATE": tokens guessed, how often one is accepted */

	/* reinforcement learning (tasks "grpo", "dapo", "ppo", "distill"): the training layout above,
	 * updates of `gbs` sequences packed into rows of at most `seq` tokens, and the engines that
	 * write: "sequences=2048 gpus=8 tp=2 pp=1 ep=1 lag=1 reward=SECONDS reference=1", each word
	 * optional (docs/guide/post-training.md has all). Without gpus they run where training does.
	 * lag: batches that they may be ahead */
	const char *rollout;

	/* how it is simulated */
	const char *ranks;     /* NULL one per class, "all" */
	bool exact;            /* no folding of repetition */
	bool no_contention;    /* precedence only */
	const char *straggler; /* "RANK:FACTOR[,...]" */
	double jitter;         /* relative deviation of kernel times */
	double gpu_spread;     /* relative deviation between GPUs, constant through the step */
	double seed;           /* of both */
	int seeds;             /* so many steps, with seeds from `seed` on: their quantiles; 0 none */
	lk_search_progress *progress; /* how many seeds are done; NULL: nobody is told */
	void *progress_context;

	/* what is wanted */
	double tokens;                         /* of the whole training */
	double mtbf_hours, checkpoint_minutes; /* of one node; between checkpoints */
	double checkpoint_write_gbps; /* 10^9 bytes/s that each node writes of a checkpoint; 0: 1 */
	lk_mains mains;
	bool no_fixes;           /* do not look for changes that fit */
	bool step;               /* keep the simulated step: files are made from it */
	const char *trace_ranks; /* "0,8": more ranks than one per stage in its timeline */
	bool detail;             /* fill lk_prediction.detail, as reports need it */
	bool no_sensitivity;     /* but not with what other rates would make of the step: eight more
	                            predictions */
	const char *replace;     /* "optimizer=FILE": the end of the step replaced by a program's graph,
	                            which compile tune --graph or emit --target graph wrote */
	const char *emit; /* a target of lk_predict_emit, whose stack is taken where none is stated:
	                     "axolotl", "sbatch:megatron"; NULL none */

} lk_predict_request;

/* One line of "where one step goes". */
typedef struct lk_time_part {
	const char *key, *label;
	double exposed_s, hidden_s;
} lk_time_part;

/* A phase of a step of reinforcement learning, on the GPUs that train or on engines with GPUs of
 * their own. */
typedef struct lk_phase_span {
	int part; /* of the breakdown, by its index; -1: the GPUs wait */
	bool engines;
	double start_s, end_s;
} lk_phase_span;
enum { LK_PHASE_SPANS = 16 };

/* Quantiles over steps that differ in the seed of their jitter and spread of GPUs. */
typedef struct lk_seed_spread {
	const char *key, *label; /* "step", a part of the breakdown (exposed), "straggler_share" */
	double p50, p95, p99;    /* seconds; of "straggler_share" the part of the step by which it is
	                            longer than with all ranks equally fast */
} lk_seed_spread;

/* Memory of one rank of a stage at its fullest moment, bytes. */
typedef struct lk_stage_memory {
	int stage;
	double weights, gradients, optimizer, activations, logits, workspace, buffers;
	double allocated, reserved; /* peak of tensors; of the allocator */
	double low, high;           /* 80 % range of `allocated`; NAN where no such job was measured */
	double context, nccl;       /* outside the allocator */
	double total;               /* reserved + context + nccl: what nvidia-smi shows */
	char moment[96];            /* what runs then */
} lk_stage_memory;

/* A change that would make the job fit, found by asking. */
typedef struct lk_fix {
	char change[96];
	double peak_bytes, step_time_s;
	double time_ratio; /* against the job as requested */
} lk_fix;

/* What generation answers beyond a step; all 0 where the task is another one. Of one engine where
 * nothing else is said. */
typedef struct lk_generation {
	int sequences; /* of all engines; 0: this is no generation */
	int engines, engine_gpus;
	double tokens;         /* generated by all engines */
	double tokens_per_s;   /* of all engines */
	double token_time_s;   /* mean time between two tokens of a sequence */
	double longest_tokens; /* of the longest response */
	double cache_bytes;    /* for keys and values on each GPU */
	double token_bytes;    /* that a token takes of them */
	double cache_tokens;   /* that an engine has room for */
	double batch_room;     /* sequences of usual length that an engine has room for */
	double batch_most;     /* largest batch that ran */
	double tail_s;         /* at the end, with less than half of the largest batch */
	double preempted;      /* sequences that were computed again for want of room, all engines */
	double fixed_s, exponential_s; /* the phase with all lengths equal; spread most widely */
} lk_generation;

/* The answer. Times in seconds, sizes in bytes, rates in units per second; texts live as long as it
 * does. */
typedef struct lk_prediction {
	/* verdict */
	bool fits;
	double peak_bytes, usable_bytes;
	int fullest_stage;
	/* speed */
	double step_time_s, step_time_low_s, step_time_high_s; /* 80 % range */
	const char *basis;
	double tokens_per_s_per_gpu; /* 0 where there are no tokens */
	double samples_per_s;
	const char
		*unit; /* what a sample is: "sequence", "image"; "sample" of a recommendation model */
	double model_flops_per_s_per_gpu, mfu, hfu, peak_flops;
	const char *peak_label;          /* "989.4 TFLOP/s dense bf16, NVIDIA H100 SXM" */
	double days, gpu_hours, goodput; /* with tokens, else 0 */
	lk_energy energy;
	double checkpoint_bytes, checkpoint_write_s; /* with mtbf_hours, else 0 */
	/* where the time goes, mean over stages */
	const lk_time_part *breakdown;
	int breakdown_count;
	bool phases; /* the parts are phases, one after another: a step of reinforcement learning */
	lk_phase_span spans[LK_PHASE_SPANS]; /* when they run, in order: of one side, then the other */
	int phase_span_count;
	/* with `seeds`, else none: how far the step and its parts spread */
	const lk_seed_spread *spread;
	int spread_count, seeds;
	/* memory by stage */
	const lk_stage_memory *memory;
	int memory_count;
	const lk_fix *fixes;
	int fix_count;
	/* what was requested and assumed */
	const char *model, *cluster, *layout; /* one line each */
	const char *searched; /* of a request without a layout: how this one was found; else NULL */
	const char *const *assumptions;
	int assumption_count;
	int taken_count;               /* the first of them: what the job's file or line leaves open */
	const char *const *understood; /* settings of the job's file: "key value" */
	int understood_count;
	const char *const *ignored; /* flags of a launch line: "flag: reason" */
	int ignored_count;
	int notable_count;     /* the first of them: somebody may have counted on these */
	const char *warning;   /* NULL: none */
	const char *reproduce; /* the command */
	/* how it was simulated */
	uint64_t operations;       /* run by the engine */
	uint32_t layer_operations; /* of a transformer layer, forward and backward */
	uint32_t ranks_simulated, ranks;
	double simulation_s;      /* time in the engine */
	lk_generation generation; /* with task "generate", and of steps that generate */
	/* the layout in numbers, for tables */
	int gpus, tp, pp, vp, cp, ep, dp, mbs, gbs, seq, microbatches;
	const char *recompute, *dtype, *schedule;
	const lk_prediction_detail *detail; /* NULL: not requested */
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_prediction;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_predict_defaults(lk_predict_request *request);

/* Answers one request. A job that does not fit is an answer, not an error: fits is false.
 * LK_ERR_INPUT: something that is not known, layouts that cannot run, files that are wrong;
 * LK_ERR_IO; LK_ERR_MEMORY. From several threads at once. */
lk_status lk_predict(const lk_predict_request *request, lk_prediction **out, lk_error *err);
/* The job of a prediction as what a framework or a scheduler is started with (lockstep/emit.h):
 * what its request named as `emit`. Texts live as long as the prediction. LK_ERR_INPUT: the
 * framework cannot run it, or the request named nothing. */
lk_status lk_predict_emit(const lk_prediction *prediction, lk_emitted *out, lk_error *err);
/* Frees a prediction with all that it points to; accepts NULL. */
void lk_predict_free(lk_prediction *prediction);

/* What the launch line, script and DeepSpeed config of a request state, as the options that state
 * it too. Nothing is predicted; the other fields of the request are not looked at. */
typedef struct lk_stated {
	lk_predict_request options; /* as of a request: what is not given is not stated */
	bool network; /* the shape of the network is stated, in place of `options.model` */
	void *memory_owner;
} lk_stated;

/* LK_ERR_INPUT: a line or file that is wrong, or trains what is not modelled; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_predict_stated(const lk_predict_request *request, lk_stated **out, lk_error *err);
/* Accepts NULL. */
void lk_stated_free(lk_stated *stated);

/* What is wrong with a request whatever machine it is for. The fields that say the machine are not
 * looked at; nothing is predicted. LK_ERR_INPUT: its network, its launch line, a value or a name of
 * its options; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_check(const lk_predict_request *request, lk_error *err);

/* Answers `count` requests on several threads (0: as the context says). predictions[i] is the answer,
 * or NULL where request i was refused (LK_ERR_INPUT): then refusals[i] says why. Any other error
 * ends all of it; what was answered by then is in `predictions` too, whose elements are to be freed
 * in every case. `progress`, unless NULL, is called now and then from the thread that asked. */
lk_status lk_predict_many(const lk_predict_request *requests, size_t count, int threads,
                          lk_prediction **predictions, lk_error *refusals,
                          void (*progress)(void *context, size_t done), void *context,
                          lk_error *err);

/* A prediction as bytes, for another process of the same program on a machine alike; *bytes is to
 * be freed with free(). Timeline, graph and detail are not in it. LK_ERR_MEMORY; of bytes that are
 * none of this version, LK_ERR_INPUT. */
lk_status lk_predict_pack(const lk_prediction *prediction, void **bytes, size_t *size,
                          lk_error *err);
lk_status lk_predict_unpack(const void *bytes, size_t size, lk_prediction **out, lk_error *err);

/* Writes the timeline (outputs->trace), the step graph (graph), Chakra execution traces (chakra)
 * and a GOAL schedule (goal) of a prediction that kept its step, and the report (html) and its
 * charts (charts) of one with details; nothing without them. LK_ERR_INPUT: an ending of the file
 * that is not known; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_predict_write_files(const lk_prediction *prediction, const lk_outputs *outputs,
                                 lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_predict_verb;

#ifdef __cplusplus
}
#endif
#endif
