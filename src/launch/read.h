/* read.h: launch lines, scripts and configurations of other programs as jobs, and jobs as launch
 * lines. */
#ifndef LK_LAUNCH_READ_H
#define LK_LAUNCH_READ_H

#include "model/layout/job.h"

/* Pasted launch lines. Words are those after "--": an optional launcher (torchrun, python, srun,
 * deepspeed, mpirun, env settings) with --nproc_per_node, --nnodes, -N ..., a script name, then the
 * framework's flags. Every flag is honoured, or listed in `ignored` with its reason. */
typedef enum lk_ignored_as {
	LK_IGNORED_HARMLESS, /* it does not affect a step */
	LK_IGNORED_NOTABLE,  /* the user may rely on it */
	LK_IGNORED_UNKNOWN   /* unknown flag: a warning names it */
} lk_ignored_as;
typedef struct lk_ignored {
	const char *flag, *reason;
	lk_ignored_as as;
	const char *near; /* nearest known flag to an unknown one; NULL: none */
} lk_ignored;
#define LK_LAUNCH_NO_FILE \
	"the file is not here" /* why a configuration named by a line is ignored */
/* What a configuration trains on, for networks that read images. */
typedef enum lk_launch_samples {
	LK_SAMPLES_OPEN,
	LK_SAMPLES_TEXTS,
	LK_SAMPLES_IMAGES
} lk_launch_samples;
enum {
	LK_LAUNCH_NETWORK = 96 /* bytes of a name */
};
/* What a post-training framework's file or command line states about the phases other than training
 * (launch/config_rollout.c). Zero: not stated. */
typedef struct lk_launch_rollout {
	char task[8];                 /* "grpo", "dapo", "ppo", "distill"; empty: training only */
	int prompts, samples;         /* prompts per step; responses to each prompt */
	int sequences;                /* per step; 0: prompts times samples */
	double oversample;            /* sequences generated per sequence kept */
	int epochs;                   /* passes over the sequences of a step */
	int gpus;                     /* dedicated to engines; 0: engines run on the training GPUs */
	int engines;                  /* number of engines on their own GPUs, if stated */
	int tp, pp, ep;               /* of an engine; ep beyond tp: GPUs attend separately */
	int lag;                      /* batches that the engines may run ahead */
	bool no_policy, no_reference; /* omitted log-probability passes */
	bool attention_dp, eager, no_prefix_caching;
	bool padded;      /* sequences are padded to the longest of a step, not packed into rows */
	bool by_sequence; /* mbs counts sequences of any length; otherwise the rows that they fill */
	double prompt_most, response_most, memory_share;
	int max_sequences, max_tokens; /* per batch, per iteration */
	char engine[24], format[24], kv_format[24];
	bool full_rows;                   /* rows shared by sequences are padded to one length */
	bool keep_params, keep_optimizer; /* they stay on the GPUs while engines run there */
	bool pinned_params;               /* the host's copy of the weights is pinned, and kept */
	bool keep_reference, no_sleep;    /* the reference stays too; engines stay during training */
	char critic[LK_LAUNCH_NETWORK];   /* networks; if empty: the policy's, none, none */
	char reward_model[LK_LAUNCH_NETWORK], teacher[LK_LAUNCH_NETWORK];
	int critic_gpus, teacher_gpus; /* dedicated GPUs; 0: the training GPUs */
	int critic_epochs;
	int critic_params, critic_optimizer; /* 1 offloaded, -1 not; 0: as the policy's */
	int teacher_tp;
} lk_launch_rollout;

typedef struct lk_launch {
	lk_job *job;         /* fields stated by the flags are set */
	int gpus;            /* from the launcher; 0 not stated */
	lk_ignored *ignored; /* owned by the arena */
	int ignored_count;
	const char **flags; /* names of all flags read, without dashes; owned by the arena */
	int flag_count;
	/* The network that the line names instead of its shape ("Qwen/Qwen2.5-72B") and the flag that
	 * names it ("model_name_or_path"); NULL: none. */
	const char *network, *network_flag;
	const lk_model *shape; /* Megatron-LM's flags one to one, before its rules apply; NULL: none */
	lk_launch_samples samples;
	bool window_said;      /* --window-size: applies to whatever network is trained */
	const char *framework; /* framework of the file or line, "axolotl"; NULL: unknown */
	int gpus_assumed;      /* if the launcher states none; 0: no assumption */
	int gpus_line;         /* 1-based index in `assumed` of the line that says so; 0: none */
	const char *device;    /* the kind of GPU that a file or line names; NULL: none */
	const char **assumed;  /* assumptions in place of what is not stated; owned by the arena */
	int assumed_count;
	const char **understood; /* "key value" of everything that was translated; owned by the arena */
	int understood_count;
	const lk_launch_rollout *rollout; /* of a reinforcement-learning step; NULL: training only */
} lk_launch;
/* Values that override a file, and values for what it leaves open. */
typedef struct lk_launch_given {
	const char *sets; /* lines "key=value" in the framework's own names; NULL: none */
	const char *vars; /* lines "NAME=value": variables known only to the cluster; NULL: none */
	const char *also; /* lines: configurations that are merged over the file; NULL: none */
	const char *const *args; /* $1, $2, ... of a script */
	int arg_count;
	uint64_t *vars_read; /* bit N: the file reads the variable on line N of `vars`, up to 64 lines;
	                      * NULL: not wanted */
} lk_launch_given;
enum { LK_LAUNCH_CONFLICTS = 192 };
/* The line's flags that contradict `model`, as "--num-layers 80 (32), ..."; "" if they agree. */
void lk_launch_conflicts(const lk_launch *launch, const lk_model *model,
                         char out[LK_LAUNCH_CONFLICTS]);
/* Add a flag to the ignored ones. The reason is borrowed, the flag copied. */
lk_status lk_launch_ignore(lk_arena *arena, lk_launch *launch, const char *flag, const char *reason,
                           lk_ignored_as as, lk_error *err);
lk_status lk_launch_read(lk_arena *arena, int count, const char *const *words, const char *where,
                         lk_launch *out, lk_error *err);
/* Whether launch lines of Megatron-LM have a flag of this name, dashes left out. */
bool lk_launch_has_flag(const char *name);
/* Read a shell script: assignments, ${VAR:-x}, continuations, arrays and decidable conditions are
 * read; nothing is executed. `$(...)`, backticks, arguments of the script and variables that it
 * never sets are refused, with their line, if a flag that matters needs them. The launch line is
 * the last command that starts a known launcher or python. */
lk_status lk_launch_script(lk_arena *arena, const char *path, const lk_launch_given *given,
                           lk_launch *out, lk_error *err);
/* lk_launch_script from memory; messages name `name`. */
lk_status lk_launch_text(lk_arena *arena, const char *text, size_t size, const char *name,
                         const lk_launch_given *given, lk_launch *out, lk_error *err);
/* Read a training framework's configuration or a shell script. `given` may be NULL. */
lk_status lk_launch_file(lk_arena *arena, const char *path, const lk_launch_given *given,
                         lk_launch *out, lk_error *err);
/* Read a DeepSpeed config file into out->job; a new job is made if it is NULL. `out` is zeroed or
 * was filled before. */
lk_status lk_deepspeed_read(lk_arena *arena, const char *path, lk_launch *out, lk_error *err);
/* Read a training framework's configuration from memory; `name` has the extension of its file. */
lk_status lk_launch_config_text(lk_arena *arena, const char *text, size_t size, const char *name,
                                lk_launch *out, lk_error *err);
/* Whether flags and settings can state the whole network: they cannot state convolutions or
 * diffusion blocks. */
bool lk_launch_describes(const lk_model *model);
/* The launch lines of frameworks. NeMo, torchtitan and Megatron-Bridge name the network by their
 * own recipes. DeepSpeed: Megatron-LM's flags with a configuration, which DeepSpeed accepts as
 * base64 instead of a file name. */
typedef enum lk_dialect {
	LK_DIALECT_MEGATRON,
	LK_DIALECT_NEMO,
	LK_DIALECT_TORCHTITAN,
	LK_DIALECT_DEEPSPEED,
	LK_DIALECT_BRIDGE
} lk_dialect;
/* Write a completed job as one line of that dialect, whether or not the framework could run it;
 * reading it back gives the same job. NULL when memory runs out. lk_launch_write: Megatron-LM's. */
char *lk_launch_write_for(lk_arena *arena, lk_dialect dialect, const lk_job *job);
char *lk_launch_write(lk_arena *arena, const lk_job *job);

#endif
