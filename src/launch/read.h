/* read.h: launch lines, scripts and configurations of other programs as jobs, and jobs as launch
 * lines. */
#ifndef LK_LAUNCH_READ_H
#define LK_LAUNCH_READ_H

#include "model/layout/job.h"

/* Pasted launch lines. Words are those after "--": an optional launcher (torchrun, python, srun,
 * deepspeed, mpirun, env settings) with --nproc_per_node, --nnodes, -N ..., a script name, then the
 * framework's flags. Every flag is honoured or listed in `ignored` with its reason. */
typedef enum lk_ignored_as {
	LK_IGNORED_HARMLESS, /* it changes nothing of a step */
	LK_IGNORED_NOTABLE,  /* somebody may have counted on it */
	LK_IGNORED_UNKNOWN   /* nothing is known of the flag: a warning names it */
} lk_ignored_as;
typedef struct lk_ignored {
	const char *flag, *reason;
	lk_ignored_as as;
	const char
		*near; /* of what is unknown: the flag that may have been meant; NULL: none is near */
} lk_ignored;
#define LK_LAUNCH_NO_FILE \
	"the file is not here" /* why a configuration that a line names is ignored */
/* What a configuration trains on, for networks that read images. */
typedef enum lk_launch_samples {
	LK_SAMPLES_OPEN,
	LK_SAMPLES_TEXTS,
	LK_SAMPLES_IMAGES
} lk_launch_samples;
enum {
	LK_LAUNCH_NETWORK = 96 /* of a name */
};
/* What a file or command line of a post-training framework states of the phases besides training
 * (launch/config_rollout.c). Zero: not stated. */
typedef struct lk_launch_rollout {
	char task[8];                 /* "grpo", "dapo", "ppo", "distill"; empty: a training alone */
	int prompts, samples;         /* of a step; responses to each prompt */
	int sequences;                /* of a step; 0: prompts times samples */
	double oversample;            /* sequences that are written for one that is kept */
	int epochs;                   /* passes over the sequences of a step */
	int gpus;                     /* engines' own; 0: they run on the GPUs that train */
	int engines;                  /* with GPUs of their own, where their number is stated */
	int tp, pp, ep;               /* of an engine; ep beyond tp: GPUs attend apart */
	int lag;                      /* batches that the engines may be ahead */
	bool no_policy, no_reference; /* passes of log-probabilities that are left out */
	bool attention_dp, eager, no_prefix_caching;
	bool padded;      /* sequences are padded to the longest of a step, not packed into rows */
	bool by_sequence; /* mbs counts sequences of any length; else rows that they fill */
	double prompt_most, response_most, memory_share;
	int max_sequences, max_tokens; /* of a batch, of an iteration */
	char engine[24], format[24], kv_format[24];
	bool full_rows;                   /* rows that sequences share are padded to one length */
	bool keep_params, keep_optimizer; /* they stay on the GPUs while engines run there */
	bool pinned_params;               /* the host's copy of the weights is pinned, and kept */
	bool keep_reference, no_sleep;    /* so does the reference; engines stay while training runs */
	char critic[LK_LAUNCH_NETWORK];   /* networks; empty: as the policy; none; none */
	char reward_model[LK_LAUNCH_NETWORK], teacher[LK_LAUNCH_NETWORK];
	int critic_gpus, teacher_gpus; /* their own; 0: those that train */
	int critic_epochs;
	int critic_params, critic_optimizer; /* 1 offloaded, -1 not; 0: as the policy's */
	int teacher_tp;
} lk_launch_rollout;

typedef struct lk_launch {
	lk_job *job;         /* fields that the flags state are set */
	int gpus;            /* from the launcher; 0 not stated */
	lk_ignored *ignored; /* owned by the arena */
	int ignored_count;
	const char **flags; /* names of all flags that were read, without dashes; owned by the arena */
	int flag_count;
	/* The network that the line names in place of stating its shape ("Qwen/Qwen2.5-72B") and the
	 * flag that does ("model_name_or_path"); NULL: none. */
	const char *network, *network_flag;
	const lk_model *shape; /* Megatron-LM's flags one to one, before its rules; NULL: none */
	lk_launch_samples samples;
	bool window_said;      /* --window-size: it holds for whatever network is trained */
	const char *framework; /* whose file or line it is, "axolotl"; NULL: not known */
	int gpus_assumed;      /* where the launcher states none; 0: nothing is assumed */
	int gpus_line;         /* of `assumed`, from 1 on, that says so; 0: none */
	const char *device;    /* the kind of GPU that a file or line names; NULL: none */
	const char **assumed;  /* what is taken because nothing states it; owned by the arena */
	int assumed_count;
	const char **understood; /* "key value" of all that was translated; owned by the arena */
	int understood_count;
	const lk_launch_rollout *rollout; /* of a step of reinforcement learning; NULL: a training */
} lk_launch;
/* What overrides a file and fills what it leaves open. */
typedef struct lk_launch_given {
	const char *sets; /* lines "key=value" in the framework's own names; NULL: none */
	const char *vars; /* lines "NAME=value": variables that only the cluster knows; NULL: none */
	const char *also; /* lines: configurations that are merged over the file; NULL: none */
	const char *const *args; /* $1, $2, ... of a script */
	int arg_count;
	uint64_t *vars_read; /* bit N: the file reads the variable of line N of `vars`, up to 64 lines;
	                      * NULL: nobody asks */
} lk_launch_given;
enum { LK_LAUNCH_CONFLICTS = 192 };
/* Flags of the line that say something else of the network than `model` is, as "--num-layers 80
 * (32), ..."; "" where they agree. */
void lk_launch_conflicts(const lk_launch *launch, const lk_model *model,
                         char out[LK_LAUNCH_CONFLICTS]);
/* Adds to the ignored. The reason is borrowed, the flag copied. */
lk_status lk_launch_ignore(lk_arena *arena, lk_launch *launch, const char *flag, const char *reason,
                           lk_ignored_as as, lk_error *err);
lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where,
                         lk_launch *out, lk_error *err);
/* Whether launch lines of Megatron-LM have a flag of this name, dashes left out. */
bool lk_launch_has_flag(const char *name);
/* A shell script: assignments, ${VAR:-x}, continuations, arrays and decidable conditions are read,
 * nothing is executed.
 * `$(...)`, backticks, arguments of the script and variables that it never sets are refused, with
 * their line, where a flag that matters needs them. The launch line is the last command that starts
 * a known launcher or python. */
lk_status lk_launch_script(lk_arena *arena, const char *path, const lk_launch_given *given,
                           lk_launch *out, lk_error *err);
/* The same from memory; `name` is in messages. */
lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name,
                         const lk_launch_given *given, lk_launch *out, lk_error *err);
/* A file of either kind: the configuration of a training framework, or a shell script. `given` may
 * be NULL. */
lk_status lk_launch_file(lk_arena *arena, const char *path, const lk_launch_given *given,
                         lk_launch *out, lk_error *err);
/* A DeepSpeed config file, applied to out->job; with job NULL a new one is made. `out` is zeroed or
 * was filled before. */
lk_status lk_deepspeed_read(lk_arena *arena, const char *path, lk_launch *out, lk_error *err);
/* The configuration of a training framework from memory; the ending of `name` is that of its file.
 */
lk_status lk_launch_config_text(lk_arena *arena, const char *text, size_t size, const char *name,
                                lk_launch *out, lk_error *err);
/* Whether flags and settings can state all of a network: not its convolutions nor its blocks of
 * diffusion. */
bool lk_launch_describes(const lk_model *model);
/* The launch lines of frameworks. NeMo, torchtitan and Megatron-Bridge name the network by recipes
 * of their own. DeepSpeed: Megatron-LM's flags with a configuration, which DeepSpeed takes as
 * base64 in place of a file's name. */
typedef enum lk_dialect {
	LK_DIALECT_MEGATRON,
	LK_DIALECT_NEMO,
	LK_DIALECT_TORCHTITAN,
	LK_DIALECT_DEEPSPEED,
	LK_DIALECT_BRIDGE
} lk_dialect;
/* A completed job as such a line, one text, whether or not the framework could run it; reading it
 * back gives the same job. NULL when memory runs out. lk_launch_write: Megatron-LM's. */
char *lk_launch_write_for(lk_arena *arena, lk_dialect dialect, const lk_job *job);
char *lk_launch_write(lk_arena *arena, const lk_job *job);

#endif
