/* megatron.h: the flags of Megatron-LM as one struct, by a table, and as a job. */
#ifndef LK_LAUNCH_MEGATRON_H
#define LK_LAUNCH_MEGATRON_H

#include "launch/reading/reading.h"

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
	bool cuda_graph, flash_attention, flash_v2, fused_loss, defer_head, deepep, balanced_experts,
		sft;
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
	const char *patch_tokenizer; /* Pai-Megatron-Patch: the type of its tokenizer */
	bool huggingface, fp8_hybrid;
	int transformer, head_type, glu, accumulation, shared_experts;
	int recompute_count;
	bool wide_ends;
	int wide_first, wide_last;
} lk_megatron;

/* Whether a row of data/launch is read, written, or both. If several rows that are read share a
 * field, one of them is written. Of flags: BOTH are written for Megatron-LM, DEEPSPEED for
 * Megatron-DeepSpeed, SHARED for either. */
typedef enum lk_direction { LK_READ, LK_WRITTEN, LK_BOTH, LK_SHARED, LK_DEEPSPEED } lk_direction;

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
/* megatron_forks.c: flags of forks in terms of Megatron-LM's own. */
lk_status lk_megatron_forks(lk_reading *reading, lk_megatron *megatron);
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
/* python_list.c: a list expression of Python as Megatron takes it, "([0]*3+[1]*58)", or a whole number N: *every
 * is N then, else 0 and the elements are in list (at most `limit`). False if the text is neither.
 */
enum {
	LK_PYTHON_MOST = 10000 /* the largest number, and the most elements that a reader asks for */
};
bool lk_python_list(const char *text, int *every, int *list, int limit, int *count);

#endif
