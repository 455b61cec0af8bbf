/* launch.h: what the readers of launch lines share: words, the flags of Megatron-LM as one struct,
 * the fields of a job by name. */
#ifndef LK_LAUNCH_LAUNCH_H
#define LK_LAUNCH_LAUNCH_H

#include "io/document.h"
#include "io/stream.h"
#include "base/vec.h"
#include "launch/read.h"
#include "shell/shell.h"

/* What launchers, batch options and the description of a cluster's job say of GPUs. */
typedef struct lk_launch_ranks {
	int per_node, tasks_per_node, nodes, total; /* 0: not given */
	const char *accelerate;                     /* a configuration of accelerate; NULL: none */
	const char *accelerate_flags; /* what accelerate's own flags say of it, lines "path=value" */
	const char *settings; /* NAME=value that a launcher passes on, a line each; NULL: none */
} lk_launch_ranks;

/* A file that a script writes by a here-document: cat > job.yaml <<END. The text belongs to the
 * script. */
typedef struct lk_inner_file {
	const char *name, *text;
	size_t size;
	struct lk_inner_file *next;
} lk_inner_file;

/* What one reading carries along. */
typedef struct lk_reading {
	lk_arena *arena;
	const char *where; /* "train.sh", "launch line" */
	lk_launch *out;
	lk_error *err;
	int depth;      /* of scripts inside scripts: eval, bash -c */
	int line;       /* of the script, where the launch begins; 0: none */
	int visible;    /* devices of a node that the environment shows to the program; 0: not stated */
	int usual_gpus; /* on which jobs of the framework run, where a file does not say; 0: not known
	                 */
	bool script;    /* what is read is a script that somebody wrote */
	lk_inner_file *files;         /* that the script writes itself, the last one first */
	lk_launch_ranks batch;        /* of the job of a cluster that a configuration describes */
	const char *accelerate;       /* the file that accelerate is launched with; NULL: none */
	const char *accelerate_flags; /* and what its flags say; NULL: nothing */
} lk_reading;

/* launch.c */
/* What is taken because nothing states it: a line of the answer's assumptions. */
lk_status lk_launch_assume(lk_reading *reading, const char *format, ...) LK_PRINTF(2, 3);
/* A flag that is passed over: somebody may have counted on it; it changes nothing of a step;
 * nothing is known of it, and `near` (borrowed, or NULL) may have been meant. The reason is
 * borrowed, NULL where memory was out. */
lk_status lk_launch_note(lk_reading *reading, const char *flag, const char *reason);
lk_status lk_launch_skip(lk_reading *reading, const char *flag, const char *reason);
lk_status lk_launch_unknown(lk_reading *reading, const char *flag, const char *near);
/* The kind of GPU that a description names, where it is one that is known; the text is copied. */
lk_status lk_launch_device(lk_reading *reading, const char *name, size_t length);
/* Keeps a line of what was understood, or assumed; the text is copied. */
typedef enum lk_line_kind { LK_LINE_UNDERSTOOD, LK_LINE_ASSUMED } lk_line_kind;
lk_status lk_launch_keep_line(lk_reading *reading, const char *text, lk_line_kind kind);
lk_status lk_launch_understood(lk_reading *reading, const char *key, const char *value);
/* A flag of the training program was read, whatever becomes of it. */
lk_status lk_launch_seen(lk_reading *reading, const char *flag);
/* network_flags.c: a flag names the network in place of stating its shape; the last one counts. */
lk_status lk_launch_network(lk_reading *reading, const char *flag, const char *name);
/* The same for a configuration: where the name is a place for a path of one's own,
 * "/path/to/model", the network is that which the names of the file and its folders hold, as an
 * assumption. */
lk_status lk_launch_network_of_file(lk_reading *reading, const char *flag, const char *name,
                                    const char *file);
/* Scripts of a framework's own that start a training by variables of the environment: Primus's by
 * EXP, torchtitan's by NGPU and MODULE, CONFIG or CONFIG_FILE. */
typedef enum lk_launch_own {
	LK_OWN_NONE,
	LK_OWN_PRIMUS,
	LK_OWN_TITAN,
} lk_launch_own;
lk_launch_own lk_launch_own_script(const char *word);
/* Whether a word starts a launcher or a python script; NULL-safe. */
bool lk_launch_starts(const char *word);
bool lk_launch_nemo(const char *word); /* the command of NeMo 2.0: nemo llm pretrain ... */
/* A command that trains by what its next word says: axolotl train, trl sft; NULL: none. */
typedef struct lk_command_of {
	const char *name;
	const char *trains; /* the words that train, each between blanks */
} lk_command_of;
const lk_command_of *lk_launch_command(const char *word);

/* launch_options.c: launchers. */
typedef struct lk_launched {
	size_t used;            /* words of the launcher, its target included where it is named below */
	const lk_word *program; /* the training program, NULL if another launcher follows */
	const lk_word *script;  /* text of bash -c */
} lk_launched;
/* Reads the launcher that `words` begins with; used is 0 where the first word is none. */
lk_status lk_launcher_read(lk_reading *reading, const lk_word *words, size_t count,
                           lk_launch_ranks *ranks, lk_launched *out);
/* The least number of GPUs that the degrees divide, with so many replicas; INT64_MAX: more than a
 * job has. *block: those of one replica. */
int64_t lk_launch_least_gpus(const lk_job *job, int64_t replicas, int64_t *block);
/* Sets the GPUs of a job whose data parallelism is `replicas` at least. `stated` (0: none) holds
 * where it is certain; else where the degrees and the batch divide by it, and the least number that
 * works is assumed where they do not. */
lk_status lk_launch_count_gpus(lk_reading *reading, const lk_job *job, int64_t replicas, int stated,
                               bool certain);
/* Notes that a node starts another number of processes than the environment shows it devices. */
lk_status lk_launch_name_visible(lk_reading *reading, int processes);
/* A line "#SBATCH ..." of a batch script, without that word. */
lk_status lk_launcher_sbatch(lk_reading *reading, const char *line, lk_launch_ranks *ranks);
/* NAME=value in front of a program. */
bool lk_launch_setting(const lk_word *word);

/* Refuses a flag whose value is not known, and asks for the variable by name. */
lk_status lk_launch_unknown_value(lk_reading *reading, const char *flag, const lk_word *value);
/* What a program does that trains nothing, by its name, "converts checkpoints"; NULL: it may train.
 */
const char *lk_launch_other_work(const char *program);
/* script.c: the words of the last launch command of a script, in *words (freed by the caller).
 * `environment` (may be NULL): NAME=value words that the script inherits. */
lk_status lk_script_words(lk_reading *reading, const char *text, size_t size,
                          const lk_words *environment, const lk_launch_given *given,
                          lk_words *words, lk_launch_ranks *batch);

/* megatron_flags.c, megatron.c: the flags of Megatron-LM. The embedded job holds what flags state
 * one to one; the rest is what needs a rule. */
typedef struct lk_megatron {
	lk_job job;
	bool group_query, swiglu, geglu, bias_linear, qkv_bias, untie, latent, binary_head;
	bool rotary, recompute_activations, moe_recompute;
	bool checkpoint_layers;     /* releases until 2022: whole layers are recomputed, */
	int old_method, old_layers; /* by this method */
	bool vlm;                   /* by the program: a language model that sees */
	bool bert;                  /* by the program: an encoder of texts, whatever else is left out */
	bool gpt;                   /* by the program: no hybrid, whatever flags of hybrids say */
	bool fp16, bf16, grads_fp32, reduce_bf16;
	bool sequence_parallel, overlap_grads, overlap_params, no_overlap_p2p, tp_overlap,
		expert_overlap;
	bool distributed_optimizer, megatron_fsdp, torch_fsdp2, fsdp2_keep;
	bool grouped_gemm, precision_aware;
	bool hybrid_said;                  /* --is-hybrid-model */
	double attention_share, mlp_share; /* of a hybrid's layers that no pattern lists */
	bool cuda_graph, flash_attention, fused_loss, defer_head, deepep, balanced_experts, sft;
	bool zero_bubble, zero_bubble_v;
	int query_groups, extra_vocab, virtual_layers, max_positions, instances, relative_buckets,
		zero_stage;
	double bucket_params;
	double attention_dropout; /* -1: not stated */
	int normalization, positions, softmax, backend, implementation, strategy, optimizer, fp8,
		fp8_recipe, fp4;
	int loss_impl, granularity, method, dispatcher, flex_backend, grads_dtype, params_dtype,
		moment_dtype, moment2_dtype, graph_impl, router_score;
	const char *cp_type, *cp_sizes, *modules, *moe_freq, *window, *window_freq, *tokenizer,
		*tokenizer_model;
	const char *language; /* of a network that sees: the language model, "mistral_7b" */
	const char *layout, *rampup;
	const char *batch_steps; /* "0:384 200B:768": the last one holds */
	const char *hybrid;      /* a letter for each layer: see read_hybrid */
	const char *linear_freq; /* of the delta net: one in so many full, or a list */
	int variant;             /* of attention: 1, 2 gated delta net, 3 DSA */
	int ssm_state, ssm_head, ssm_groups, ssm_heads; /* of Mamba-2 */
	int recompute_count;
	bool wide_ends;
	int wide_first, wide_last;
} lk_megatron;

/* Whether a row of data/launch is read, written, or both. If several rows that are read share a
 * field, one of them is written. */
typedef enum lk_direction { LK_READ, LK_WRITTEN, LK_BOTH } lk_direction;

typedef enum lk_flag_kind {
	LK_FLAG_INT,
	LK_FLAG_REAL,
	LK_FLAG_TEXT,
	LK_FLAG_LIST,
	LK_FLAG_CHOICE,
	LK_FLAG_SET,
	LK_FLAG_CLEAR,      /* switches */
	LK_FLAG_IGNORED,    /* it changes nothing of a step */
	LK_FLAG_UNMODELLED, /* it could, and is not modelled */
	LK_FLAG_REFUSED,
} lk_flag_kind;

typedef struct lk_flag {
	const char *name;
	lk_flag_kind kind;
	size_t offset;              /* in lk_megatron */
	int low, high;              /* of INT */
	const char *const *choices; /* of CHOICE */
	const char *reason; /* of IGNORED and REFUSED; of TEXT: why an unknown value does no harm */
	lk_direction direction;
} lk_flag;

extern const lk_flag lk_megatron_flags[]; /* data/launch/megatron.csv; the last has no name */
const lk_flag *lk_megatron_flag(const char *name); /* without dashes; NULL if unknown */
/* The flag that says something of a step and that a slip made `name` of; NULL: none. */
const char *lk_megatron_near(const char *name);
void lk_megatron_init(lk_megatron *megatron);
/* Reads one flag whose values are words[0..count); *used of them were its own. */
lk_status lk_megatron_read(lk_reading *reading, lk_megatron *megatron, const char *name,
                           const lk_word *words, size_t count, size_t *used);
/* Flags to job, by Megatron's rules, and back. `gpus` 0: not known. */
lk_status lk_megatron_finish(lk_reading *reading, lk_megatron *megatron, int gpus);
/* megatron_layers.c: which layers have experts, attend through a window (and its width), are of the
 * kinds that a hybrid's letters name, or of --experimental-attention-variant. */
lk_status lk_megatron_experts(lk_reading *reading, const lk_megatron *megatron, lk_model *model);
lk_status lk_megatron_window(lk_reading *reading, const lk_megatron *megatron, lk_model *model);
/* Where flags came without a program, and some are of hybrids, the program is that of hybrids. */
void lk_megatron_hybrid_program(lk_words *words);
/* Flags of hybrids that the program does not act on are listed and left out. */
lk_status lk_megatron_no_hybrid(lk_reading *reading, lk_megatron *megatron, lk_model *model);
lk_status lk_megatron_hybrid_shares(lk_reading *reading, lk_megatron *megatron, int layers);
lk_status lk_megatron_hybrid(lk_reading *reading, lk_megatron *megatron, lk_job *job);
lk_status lk_megatron_variant(lk_reading *reading, const lk_megatron *megatron, lk_model *model);
lk_status lk_megatron_from_job(lk_arena *arena, const lk_job *job, bool hybrids, lk_megatron *out,
                               lk_error *err);

/* accelerate_flags.c: the key of a configuration that a flag of accelerate launch states, without
 * dashes, and in *value what a flag without one means; NULL: it says nothing of the layout, or
 * out of memory. */
const char *lk_accelerate_key(lk_arena *arena, const char *flag, const char **value);

/* keys_trainer.c: flags outside Megatron-LM's are keys of a Trainer's configuration. */
bool lk_trainer_states(const char *key); /* the key says something of the job */
lk_status lk_trainer_line(lk_reading *reading, lk_members *settings, const char *program);

/* stages.c: divides the layers of a network among the stages of job->pp and job->vp as frameworks
 * of PyTorch do, where the first and the last stage have so many less than the others; false where
 * that is not modelled. */
bool lk_launch_split(lk_job *job, const lk_model *model, int first_less, int last_less);

/* offload.c: into the host's memory go parameters, their gradients and the optimizer's states;
 * parameters, where the optimizer is there already; what layers keep. Where the layout does not
 * allow it, `key` is listed with the reason. `network` is the network's name, used where the job
 * does not have its shape. */
lk_status lk_launch_offload_shards(lk_reading *reading, lk_job *job, const char *key);
lk_status lk_launch_offload_params(lk_reading *reading, lk_job *job, const char *key);
lk_status lk_launch_offload_activations(lk_reading *reading, lk_job *job, const char *key,
                                        const char *network);

/* config_load.c: a file that a launch names: one that the script writes (*inner), else its path
 * in the script's folder. NULL and *inner NULL: not found. */
const char *lk_launch_file_named(const lk_reading *reading, const char *name,
                                 const lk_inner_file **inner);

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
const lk_recipe *lk_recipe_of_preset(const char *preset); /* NULL: none */
const lk_recipe *lk_recipe_of_stem(const char *name);
const lk_recipe *lk_recipe_of_titan(const char *config);
/* The network of a recipe's name; NULL when memory runs out. */
const char *lk_recipe_network(lk_arena *arena, const char *name);

/* dotted_flags.c: NeMo's and torchtitan's settings, which are paths with dots. */
typedef struct lk_dotted {
	int dialect; /* lk_dialect; 0: none of them */
	lk_job job;
	int nodes, devices, local;
	int shard, replicate;        /* torchtitan's data parallelism; 0 open, the rest */
	const char *name, *flavor;   /* of torchtitan's network: "llama3", "70B"; NULL not given */
	const char *recipe;          /* of Megatron-Bridge and NeMo, and torchtitan's configuration */
	lk_recipe_named perf;        /* of Megatron-Bridge's recipes for performance; gpus 0: open */
	const char *task;            /* "pretrain", "sft", "peft", "finetune"; NULL not given */
	int64_t tokens, step_tokens; /* torchtitan: of a micro-batch of a replica, of a step */
	int passes;                  /* micro-batches of a pass through the pipeline */
	int stage_layers;            /* of torchtitan's pipeline; 0: open */
	int first_less, last_less;   /* layers that its first and last stage have less, and one more:
	                              * 0 means the default, which is 1 */
} lk_dotted;
const struct lk_key *lk_dotted_rows(int dialect);   /* of the dialect; the last one has no path */
bool lk_dotted_flag(int dialect, const char *path); /* "path" or "path=value" */
lk_status lk_dotted_read(lk_reading *reading, lk_dotted *dotted, const char *path,
                         const char *value);
lk_status lk_dotted_finish(lk_reading *reading, lk_dotted *dotted, int *gpus);
/* The job as the program's words, without what the dialect cannot say; false when memory runs out.
 */
struct lk_emission;
bool lk_dotted_write(struct lk_emission *emission, int dialect);
/* Why the line may not run: nobody's recipe trains the network; NULL where one does. */
const char *lk_dotted_unknown(int dialect, const lk_job *job);

/* A list expression of Python as Megatron takes it, "([0]*3+[1]*58)", or a whole number N: *every
 * is N then, else 0 and the elements are in list (at most `limit`). False if the text is neither.
 */
enum {
	LK_PYTHON_MOST = 10000 /* the largest number, and the most elements that a reader asks for */
};
bool lk_python_list(const char *text, int *every, int *list, int limit, int *count);

/* job_fields.c: every field of a job that a launch line can carry, by name. Launch lines state them
 * as environment settings, LOCKSTEP_TASK=lora: harmless to the program that is started, and the
 * only way for what no flag says. */
typedef enum lk_field_kind {
	LK_FIELD_INT,
	LK_FIELD_REAL,
	LK_FIELD_BOOL,
	LK_FIELD_TEXT,
	LK_FIELD_CHOICE,
	LK_FIELD_SWITCH
} lk_field_kind;
typedef struct lk_field {
	const char *name; /* "lora_rank" */
	lk_field_kind kind;
	size_t offset, size; /* in lk_job */
	const char *const *choices;
	int first;   /* value of choices[0] */
	size_t said; /* offset of the bool that it sets; 0: none */
	bool layout; /* how the job is laid out over ranks: what a search decides */
	bool code;   /* how the published code is written: of jobs that run it, lk_job.eager */
	bool some;   /* a length or a batch: no job has 0 of it, and 0 does not leave it open */
} lk_field;

extern const lk_field lk_job_fields[]; /* ends with name NULL */
bool lk_field_equal(const lk_field *field, const lk_job *a, const lk_job *b);
/* The value as text; _text: quoted for a shell where it must be. */
const char *lk_field_value(lk_arena *arena, const lk_field *field, const lk_job *job);
const char *lk_field_text(lk_arena *arena, const lk_field *field, const lk_job *job);
/* Keeps what trains and leaves open how it is laid out: every field of the layout is as if it had
 * not been said. */
void lk_job_open_layout(lk_job *job);
/* Sets a field from text in a struct that begins with a job, or that the field's offset is of. */
lk_status lk_field_put(void *base, const lk_field *field, const char *value, lk_error *err);
/* Handles "LOCKSTEP_NAME=value"; *known false if the name is no field. */
lk_status lk_field_set(lk_job *job, const char *name, size_t length, const char *value, bool *known,
                       lk_error *err);
/* "LOCKSTEP_NAME=value": a field of the reading's job. */
lk_status lk_launch_set(lk_reading *reading, const char *setting);

/* deepspeed.c: a config applied to r->out->job. */
lk_status lk_deepspeed_apply(lk_reading *reading, const char *path);
/* A configuration that is not here: its stage and what it offloads, by its name. */
lk_status lk_deepspeed_named(lk_reading *reading, const char *path);
lk_status lk_deepspeed_stream(lk_reading *reading, lk_stream *in);
lk_status lk_deepspeed_tree(lk_reading *reading, const lk_value *root);

#endif
