/* frameworks.h: training frameworks, by their files and by their command lines.
 *
 *   keys_*.c         a framework each: how it is recognised, what its keys mean together; the
 *                    keys are rows of data/launch, packed as tables (launch/config/tables.h)
 *   frameworks.c     which framework a file is of
 *   dotted_flags.c   command lines whose settings are paths with dots
 *   recipes.c        networks by the names of recipes */
#ifndef LK_LAUNCH_FRAMEWORKS_H
#define LK_LAUNCH_FRAMEWORKS_H

#include "launch/config/config.h"

enum { LK_FRAMEWORK_TABLES = 5 }; /* of keys, and NULL at their end */
typedef struct lk_framework {
	const char *name;
	const lk_rule *rules;
	const lk_key *const *keys;      /* ends with NULL; NULL: its own function reads them */
	const struct lk_renamed *names; /* other names of its keys; NULL: none */
	bool launched;                  /* by accelerate, whose file states the layout */
	/* Before the settings: files that it names are merged in. May be NULL. */
	lk_status (*gather)(lk_config *config);
	/* What is left to do with the finished job. May be NULL. */
	lk_status (*after)(const lk_config *config, lk_draft *draft);
	/* Choose the tables of keys by the settings. NULL: `keys` are all. */
	void (*choose)(const lk_config *config, const lk_key *tables[LK_FRAMEWORK_TABLES]);
	/* In place of keys and rules; words of a launch line go to *words. */
	lk_status (*translate)(const lk_config *config, lk_words *words);
} lk_framework;

/* ---- keys_*.c: what rows of kind own and the table of frameworks call */
lk_status lk_own_automodel_network(const lk_config *config, lk_draft *draft);
lk_status lk_own_maxtext_batch(const lk_config *config, lk_draft *draft);
lk_status lk_own_maxtext_network(const lk_config *config, lk_draft *draft);
lk_status lk_own_nanotron_network(const lk_config *config, lk_draft *draft);
lk_status lk_own_nemo_rl_gpus(const lk_config *config, lk_draft *draft);
lk_status lk_own_neox_mamba(const lk_config *config, lk_draft *draft);
lk_status lk_own_neox_width(const lk_config *config, lk_draft *draft);
lk_status lk_accelerate_batch(const lk_config *config, lk_draft *draft);
lk_status lk_neox_batch(const lk_config *config, lk_draft *draft);
lk_status lk_trainer_batches(const lk_config *config, lk_draft *draft);
lk_status lk_neox_gather(lk_config *config);
lk_status lk_primus_gather(lk_config *config);
lk_status lk_megatron_test(const lk_config *config, lk_words *words);
lk_status lk_swift_gather(lk_config *config);
lk_status lk_swift_batches(const lk_config *config, lk_draft *draft);
void lk_swift_keys(const lk_config *config, const lk_key *tables[LK_FRAMEWORK_TABLES]);
void lk_nemo_rl_keys(const lk_config *config, const lk_key *tables[LK_FRAMEWORK_TABLES]);
lk_status lk_primus_words(const lk_config *config, lk_words *words);
lk_status lk_titan_words(const lk_config *config, lk_words *words);

/* ---- frameworks.c */
/* Translates a file. `words` gets the words of a launch line where the framework is one of
 * Megatron-LM's or torchtitan's command lines; else it stays empty and the reading has its job. */
lk_status lk_config_read(lk_reading *reading, const char *path, const lk_launch_given *given,
                         lk_words *words);
lk_status lk_config_read_text(lk_reading *reading, const char *text, size_t size, const char *name,
                              const lk_launch_given *given, lk_words *words);

/* Programs whose settings are flags or words of a launch line: verl's, OpenRLHF's, those that take
 * the arguments of a Trainer. */
typedef enum lk_verl_kind { LK_VERL_NONE, LK_VERL_STEP, LK_VERL_SFT } lk_verl_kind;
lk_verl_kind lk_verl_is(const char *program);
/* What a flag of the program says of the job: the name of a field, "" where rules read it; NULL:
 * nothing. `program` may be NULL. */
const char *lk_program_fact(const char *program, const char *key);
bool lk_fact_names_network(const char *fact); /* its text is the name or the path of a network */
bool lk_maxtext_is(const char *program);
bool lk_maxtext_states(const char *key); /* the key says something of the job */
/* A configuration of MaxText's own that is not here, as text; base.yml where it is not *known. NULL
 * when memory runs out. */
const char *lk_maxtext_file(lk_reading *reading, const char *name, bool *known);
/* Flags to the job of the reading. `program` may be NULL. */
lk_status lk_framework_line(lk_reading *reading, lk_members *settings, const char *program);

/* keys_accelerate.c: what the file that accelerate is launched with states; nothing without one. */
lk_status lk_accelerate_read(const lk_config *line, lk_draft *draft);

/* keys_titan.c: the number format of linear layers by torchtitan's model.converters, as a setting
 * in front of a launch line. */
lk_status lk_titan_numbers(const lk_config *config, lk_words *words);

/* recipes.c: networks by the names of recipes. */
typedef struct lk_recipe {
	const char *preset;
	const char *stem; /* of NeMo 2.0 and Megatron-Bridge */
	struct {
		const char *module, *config; /* NULL: it has none */
		int mbs, seq, tp, ep;
		bool full; /* all layers are recomputed, else what is cheap */
	} titan;       /* torchtitan's configuration and what it states */
	struct {
		int gpus, tp, pp, vp, cp, ep, gbs, seq;
	} layout; /* of Megatron-Bridge's library; gpus 0: not known */
} lk_recipe;
/* What a recipe for performance states; layers that are recomputed, 0 none; sharded: by FSDP. */
typedef struct lk_recipe_perf {
	int gpus, tp, pp, vp, cp, ep, mbs, gbs, seq, recomputed;
	bool sharded;
} lk_recipe_perf;
/* What the name of one says: "h100", "fp8cs". */
typedef struct lk_recipe_named {
	int gpus;
	char kind[16], format[16];
} lk_recipe_named;
bool lk_recipe_perf_name(const char *name, lk_recipe_named *out);
const lk_recipe_perf *lk_recipe_perf_of(const char *stem, const char *kind, const char *format);
/* Tokens of a sequence, which recipes of one network share whatever runs them; 0: not known. */
int lk_recipe_perf_seq(const char *stem);
const lk_recipe *lk_recipe_of_preset(const char *preset); /* NULL: none */
const lk_recipe *lk_recipe_of_stem(const char *name);
const lk_recipe *lk_recipe_of_titan(const char *config);
/* The network of a recipe's name; NULL when memory runs out. */
const char *lk_recipe_network(lk_arena *arena, const char *name);

/* A row of data/launch/networks.csv. */
typedef struct lk_named_network {
	const char *name;           /* "a*": all with that beginning */
	const char *preset, *sizes; /* "layers=6; hidden=256": how it differs */
} lk_named_network;
extern const lk_named_network lk_networks_titan[], lk_networks_maxtext[];
/* The network of a framework's own name: sizes of the job's network where no preset has them, else
 * the preset's name. *found is false for other names, which may be published ones. */
lk_status lk_launch_own_network(lk_reading *reading, const lk_named_network *rows, const char *flag,
                                const char *name, lk_job *job, bool *found);
/* python_recipe.c: a recipe of Megatron-Bridge, a file of Python, as the words of the launch line
 * that it stands for. */
lk_status lk_recipe_python(lk_reading *reading, const char *text, const lk_launch_given *given,
                           lk_words *words);

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

/* dotted_flags.c: NeMo's and torchtitan's settings, which are paths with dots. */
typedef struct lk_dotted {
	int dialect; /* lk_dialect; 0: none of them */
	lk_job job;
	int nodes, devices, local;
	int shard, replicate;        /* torchtitan's data parallelism; 0 open, the rest */
	const char *name, *flavor;   /* of torchtitan's network: "llama3", "70B"; NULL not given */
	const char *hub;             /* of a recipe in Python: its network at Hugging Face */
	bool here;                   /* the recipe is a file that was read, and not the library's */
	const char *recipe;          /* of Megatron-Bridge and NeMo, and torchtitan's configuration */
	const char *size;            /* "v3" after the recipe "deepseek"; NULL: the recipe has it */
	lk_recipe_named perf;        /* of Megatron-Bridge's recipes for performance; gpus 0: open */
	const char *task;            /* "pretrain", "sft", "peft", "finetune"; NULL not given */
	int64_t tokens, step_tokens; /* torchtitan: of a micro-batch of a replica, of a step */
	int passes;                  /* micro-batches of a pass through the pipeline */
	int stage_layers;            /* of torchtitan's pipeline; 0: open */
	int first_less, last_less;   /* layers that its first and last stage have less, and one more:
	                              * 0 means the default, which is 1 */
} lk_dotted;
const lk_key *lk_dotted_rows(int dialect);          /* of the dialect; the last one has no path */
bool lk_dotted_flag(int dialect, const char *path); /* "path" or "path=value" */
/* Whether the value of a path states a part of the job. */
bool lk_dotted_states(int dialect, const char *path);
lk_status lk_dotted_read(lk_reading *reading, lk_dotted *dotted, const char *path,
                         const char *value);
lk_status lk_dotted_finish(lk_reading *reading, lk_dotted *dotted, int *gpus);

#endif
