/* config.h: configuration files of training frameworks, as a flat list of settings that a table of
 * keys per framework translates to a job.
 *
 *   config_load.c    file to tree: YAML, JSON, TOML, inheritance, interpolation, settings
 *   config_draft.c   one setting to one fact of the job, by a table; facts to the job
 *   config_rules.c   what settings mean together, by rows
 *   config_rollout.c facts of a reinforcement-learning step other than training
 *   config_words.c   settings as words of a launch line
 *   config_cluster.c jobs of clusters, whose command trains
 *   deepspeed.c      DeepSpeed's file
 *
 * Nothing is executed or fetched: a class that a file names is a name. */
#ifndef LK_LAUNCH_CONFIG_H
#define LK_LAUNCH_CONFIG_H

#include "io/document.h"
#include "launch/megatron/megatron.h"

enum {
	LK_CONFIG_SETTINGS = 1 << 14, /* of a file */
	LK_CONFIG_DEPTH = 12,         /* of files that inherit */
	LK_CONFIG_NAME = 160
};

/* A leaf of the tree: a scalar, a list, or an empty map. */
typedef struct lk_setting {
	const char *path; /* "trainer.num_nodes" */
	const lk_value *value;
} lk_setting;

typedef struct lk_config {
	lk_reading *reading;
	const char *file;
	const char *text;    /* of the file itself, comments included */
	const char *program; /* whose flags the settings are; NULL: they are a file's */
	lk_launch_given given;
	const struct lk_renamed *names; /* of keys that tables have under others; NULL: none */
	lk_value *root;
	const lk_setting *settings;
	size_t count;
} lk_config;

/* ---- config_load.c */
/* Reads the file and those that it inherits from; settings are not made yet. */
lk_status lk_config_load(lk_config *config, const char *path);
/* Overrides, interpolation, then the list of settings. */
lk_status lk_config_settle(lk_config *config);
/* A member by its dotted path; NULL: absent or null. */
const lk_value *lk_config_at(const lk_value *root, const char *path);
/* The text of a scalar; NULL for maps, lists, null and "none" in any case. */
const char *lk_config_text(const lk_value *value);
/* Whether a member is true, in any case: YAML's true, Python's True. */
bool lk_config_on(const lk_value *root, const char *path);
/* The members of `over` replace those of `under`, maps are merged. NULL when memory runs out. */
lk_value *lk_config_merge(lk_arena *arena, const lk_value *under, const lk_value *over);
/* A file that a file names: in its folder, or below a folder above it. NULL: not found. */
const char *lk_config_beside(lk_arena *arena, const char *file, const char *name);
/* ${VAR:default} in all texts below `value`, as Primus has it. */
lk_status lk_config_fill(lk_config *config, lk_value *value);
lk_status lk_config_fail(const lk_config *config, const char *key, const char *what,
                         const char *hint);

/* The number after a name in the file's text, as the command in a comment has it:
 * "--nproc_per_node 8"; 0: none. */
int lk_config_commented(const lk_config *config, const char *name);

/* config_load.c: a file that a launch names: one that the script writes (*inner), else its path
 * in the script's folder. NULL and *inner NULL: not found. */
const char *lk_launch_file_named(const lk_reading *reading, const char *name,
                                 const lk_inner_file **inner);

/* ---- config_draft.c */
/* The facts of a file before they make a job: the fields of the job, and facts that need others to
 * be resolved. Zero: not stated. */
typedef struct lk_draft {
	lk_job job;
	int nodes, per_node, all_gpus;
	int accumulation;               /* micro-batches of a step on a rank */
	int mbs_of_all;                 /* samples of a micro-batch of all ranks */
	int mbs_most;                   /* samples of a micro-batch, at most; 0: it states them */
	int dp, dp_shard, dp_replicate; /* -1: the rest */
	int stage_layers;               /* of a virtual stage */
	int zero;                       /* stage + 1 */
	bool bf16, fp16, fp8, tf32, packing, adapter, quantized, fsdp2;
	bool host_shards; /* FSDP's offload; see offload.c */
	bool host_params, host_activations;
	/* dp_shard does not count ranks of context parallelism: accelerate/parallelism_config.py,
	 * dp_shard_cp */
	bool shard_beside_cp;
	bool sharded, meshed, defaults; /* of rules alone, for those that follow */
	bool named;                     /* the network's name counts, and not the sizes beside it */
	bool adapts_query, adapts_key, adapts_value, adapts_out, named_mlp; /* what has adapters */
	lk_launch_samples samples;
	bool stages_up;         /* stages are rounded up to a multiple of pp, else down */
	bool pairs;             /* samples are pairs of sequences */
	int quantization_bits;  /* of frozen weights; 0: not stated */
	char lora_modules[256]; /* what adapters adapt: "q_proj,v_proj", "all-linear" */
	bool reshard_off;
	bool format_open;                /* the program decides where nothing is stated */
	char storage[32];                /* of parameters as they are kept: "float32", "auto" */
	char format[32];                 /* of numbers: "bf16", "bfloat16", "fp16-mixed" */
	char fsdp[96];                   /* "full_shard auto_wrap offload" */
	char sharding_name[48];          /* "FULL_SHARD", "1" */
	char deepspeed[LK_CONFIG_NAME];  /* a file */
	char accelerate[LK_CONFIG_NAME]; /* a file */
	char network[LK_CONFIG_NAME];    /* by name */
	char network_key[64];
	char teacher[LK_CONFIG_NAME]; /* the frozen network of a distillation, by name */
	char teacher_key[64];
	char optimizer_name[64], attention_name[48], strategy[96];
	char schedule_name[48], recompute_text[48], tokenizer[LK_CONFIG_NAME], method[32], stage[32];
	char activation[32], norm_name[32], positions_name[32];
	double expansion,
		device_batch; /* of the MLP's width; samples of a device, perhaps a part of one */
	int multiple;     /* of an inner width */
	bool no_tying;
	lk_launch_rollout rollout; /* phases besides training, if it has a task */
} lk_draft;

/* A framework's value and ours; "*end" matches every value with that ending. */
typedef struct lk_pair {
	const char *theirs, *ours;
} lk_pair;

typedef enum lk_key_kind {
	LK_KEY_FACT,
	LK_KEY_RULE,   /* it acts by a rule of the framework, which reads it by its path */
	LK_KEY_TEXT,   /* only written: the text itself */
	LK_KEY_SKIP,   /* it changes nothing of a step */
	LK_KEY_NOTE,   /* it could, and is not modelled */
	LK_KEY_REFUSE, /* what it asks for cannot be predicted */
} lk_key_kind;

struct lk_emission;
/* A row of data/launch/NAME.csv: a key of a configuration, or a setting of a command line that is a
 * path with dots. */
typedef struct lk_key {
	/* "a*" matches every path with that beginning, "*a" every path with that ending. A path without
	 * a row is unknown: patterns are only for sections in which no key matters, never for all
	 * keys. */
	const char *path;
	lk_key_kind kind;
	const char *fact;      /* of FACT */
	const lk_pair *values; /* other values are kept as they are; NULL: all values */
	const char *reason;    /* of SKIP, NOTE, REFUSE; REFUSE holds unless the value is false or 0 */
	lk_direction direction;
	const char *text; /* written for a row without a field; NULL: nothing */
	/* Return the text to write, given the row's own `value`, or NULL to leave the row out. NULL:
	 * write the value. */
	const char *(*rule)(const struct lk_emission *emission, const char *value);
} lk_key;

/* draft_facts.c: what a row can state, by name: a field of a draft or of its job; NULL: unknown. */
const lk_field *lk_draft_fact(const char *name);
/* Sets the facts that the settings state; tables are looked up one after the other. */
lk_status lk_draft_read(const lk_config *config, const lk_key *const *tables, lk_draft *draft);
/* What all frameworks mean by the facts: numbers, sharding, recomputation, GPUs, batch. The job is
 * then that of the reading. */
lk_status lk_draft_finish(const lk_config *config, lk_draft *draft);

/* ---- config_rules.c: rows of data/launch/rules.csv */
enum { LK_RULE_BYTES = 320 }; /* of a condition's alternative, of an assignment */
typedef enum lk_rule_kind {
	LK_RULE_LAST,
	LK_RULE_IS,      /* the file is one of the framework's */
	LK_RULE_REFUSE,  /* it cannot be predicted; `what` is the hint */
	LK_RULE_DEFAULT, /* "field=value; ...": fills what is open; `reason` is assumed */
	LK_RULE_SET,     /* the same, whatever was stated */
	LK_RULE_NOTE,    /* the key is not modelled */
	LK_RULE_COMMENT, /* "field=--name": fills what is open by a command in a comment */
	LK_RULE_SAME,    /* the key is named unless it has the value of another one */
	LK_RULE_FLAGS,   /* settings below these sections are Megatron-LM's flags */
	LK_RULE_WORDS,   /* words of the launch line */
	LK_RULE_OWN,     /* a function of the framework's */
	LK_RULE_END      /* no rule follows */
} lk_rule_kind;
typedef struct lk_rule {
	const char *when; /* the condition; NULL: always */
	lk_rule_kind kind;
	const char *what, *key, *reason; /* NULL: empty */
	lk_status (*own)(const lk_config *config, lk_draft *draft);
} lk_rule;
bool lk_rules_are(const lk_config *config, const lk_rule *rules); /* whether a row IS holds */
/* Refuse what rows that ask for settings alone refuse, before the keys are read. */
lk_status lk_rules_refuse(const lk_config *config, const lk_rule *rules);
/* Apply the other rows in their order. `words` (NULL: no row has some) gets words. */
lk_status lk_rules_apply(const lk_config *config, const lk_rule *rules, lk_draft *draft,
                         lk_words *words);
/* config_rollout.c: what a draft's facts of the rollout mean together, after it was finished: the
 * reading then has its rollout. Nothing where the draft states no task. */
lk_status lk_draft_rollout(const lk_config *config, const lk_draft *draft);
/* ---- config_words.c: settings as words of a launch line */
/* Settings below the sections ("model. train."; "*" is all) as flags of Megatron-LM, whose names
 * they have with '_' in place of '-'; the launcher and the program come first. */
lk_status lk_config_megatron_words(const lk_config *config, const char *sections,
                                   const char *program, int nodes, int per_node, lk_words *words);
/* Appends "--name value", as many words as the value has. */
lk_status lk_config_flag_words(const lk_config *config, const char *name, const lk_value *value,
                               lk_words *words);
lk_status lk_config_word(const lk_config *config, const char *text, lk_words *words);
lk_status lk_config_launcher_words(const lk_config *config, const char *program, int nodes,
                                   int per_node, lk_words *words);

/* ---- config_cluster.c: jobs of clusters, whose command trains */
/* The script that a SkyPilot task or a job of Kubernetes runs, as the words of a launch line;
 * *found is false for other documents. */
lk_status lk_config_cluster(const lk_config *config, lk_words *words, bool *found);

/* deepspeed.c: a config applied to r->out->job. */
lk_status lk_deepspeed_apply(lk_reading *reading, const char *path);
/* A configuration that is not here: its stage and what it offloads, by its name. */
lk_status lk_deepspeed_named(lk_reading *reading, const char *path);
lk_status lk_deepspeed_stream(lk_reading *reading, lk_stream *in);
lk_status lk_deepspeed_tree(lk_reading *reading, const lk_value *root);
/* The value of the setting of a number, counted from 0, that states a job in such a file; NULL:
 * there is none of the number, or out of memory. */
const char *lk_deepspeed_state(lk_arena *arena, const lk_job *job, int number, const char **path);

#endif
