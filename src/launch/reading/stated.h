/* stated.h: what a launch line, a script or a configuration states. */
#ifndef LK_LAUNCH_STATED_H
#define LK_LAUNCH_STATED_H

#include "model/layout/job.h"

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
 * (launch/config/config_rollout.c). Zero: not stated. */
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
	int shared_rows;               /* of a micro-batch by a budget of tokens; 0: it is stated */
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
	/* Of a pasted text: what was found in it, and what a log in it measured; 0 not stated. */
	const char **found;
	int found_count;
	double measured_step_s, measured_memory_bytes;
	const lk_launch_rollout *rollout; /* of a reinforcement-learning step; NULL: training only */
} lk_launch;
/* Values that override a file, and values for what it leaves open. */
typedef struct lk_launch_given {
	const char *sets;    /* lines "key=value" in the framework's own names; NULL: none */
	const char *vars;    /* lines "NAME=value": variables known only to the cluster; NULL: none */
	const char *also;    /* lines: configurations that are merged over the file; NULL: none */
	const char *program; /* that reads the file, where its name tells more: "swift rlhf"; NULL */
	const char *const *args; /* $1, $2, ... of a script */
	int arg_count;
	uint64_t *vars_read; /* bit N: the file reads the variable on line N of `vars`, up to 64 lines;
	                      * NULL: not wanted */
} lk_launch_given;
/* Add a flag to the ignored ones. The reason is borrowed, the flag copied. */
lk_status lk_launch_ignore(lk_arena *arena, lk_launch *launch, const char *flag, const char *reason,
                           lk_ignored_as as, lk_error *err);

#endif
